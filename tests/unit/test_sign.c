/* Signed jobs: the bytes, known answers from another implementation, keys, and every refusal. */
#include "check.h"

#include "wire/sign.h"

#define HEX_KEY    "000102030405060708090a0b0c0d0e0f"
#define BASE64_KEY "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

/* Worked out with Python's hmac and hashlib. */
#define MAIL_HASH  "8dd9f0c1d7b27bfd16975131a1511312ec2f3a3a53744e1e9db406900b3fd41a"
#define EMPTY_HASH "05959fbc18cb31afc38a7b47e12449c870a1e1ab3c1fc8433875d29f7b04dcd3"

static struct sign_fields mail(void)
{
        return (struct sign_fields){
                .hook = SLICE_LIT("mail"),
                .args = SLICE_LIT("{\"to\":1}"),
                .queue = SLICE_LIT("default"),
                .priority = 10,
                .attempts = 5,
                .timeout_ms = 60000,
        };
}

static struct sign_keys load(const char *text)
{
        struct problem p = {0};
        struct sign_keys k;

        sign_keys_init(&k);
        if (sign_keys_load(&k, slice_str(text), &p) != OK)
                fail_msg("%s", p.detail);
        return k;
}

static void the_signed_bytes_are_as_drawn(void **state)
{
        struct sign_fields f = mail(), none = {0};
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        sign_put_canonical(&b, &f);
        assert_slice(buf_slice(&b), "weir-sign-1\n4:mail\n8:{\"to\":1}\n7:default\n0:\n2:10\n1:5\n"
                                    "5:60000\n0:\n");
        buf_clear(&b);
        f.group = SLICE_LIT("g");
        f.single = SLICE_LIT("one at a time");
        f.timeout_ms = UINT64_MAX;
        sign_put_canonical(&b, &f);
        assert_slice(buf_slice(&b), "weir-sign-1\n4:mail\n8:{\"to\":1}\n7:default\n1:g\n2:10\n1:5\n"
                                    "20:18446744073709551615\n13:one at a time\n");
        buf_clear(&b);
        sign_put_canonical(&b, &none);
        assert_slice(buf_slice(&b), "weir-sign-1\n0:\n0:\n0:\n0:\n1:0\n1:0\n1:0\n0:\n");
        buf_release(&b);
}

static void signatures_are_those_of_another_implementation(void **state)
{
        struct sign_keys k = load("a " HEX_KEY "\nb " BASE64_KEY "\n");
        struct sign_fields f = mail(), none = {0};
        char text[SIGN_TEXT_MAX];

        (void)state;
        assert_int_equal(sign_make(&k, SLICE_NONE, &f, text, NULL), OK);
        assert_string_equal(text, "a:" MAIL_HASH);
        assert_int_equal(sign_check(&k, &f, slice_str(text), NULL), OK);
        assert_int_equal(sign_make(&k, SLICE_LIT("b"), &none, text, NULL), OK);
        assert_string_equal(text, "b:" EMPTY_HASH);
        assert_int_equal(sign_check(&k, &none, slice_str(text), NULL), OK);
        for (char *c = text + 2; *c; c++)
                *c = (char)(*c >= 'a' ? *c - 'a' + 'A' : *c);
        assert_int_equal(sign_check(&k, &none, slice_str(text), NULL), OK);
        sign_keys_release(&k);
        assert_int_equal(k.len, 0);
}

static void every_field_is_under_the_signature(void **state)
{
        struct sign_keys k = load("a " HEX_KEY);
        struct sign_fields other[9];
        struct problem p;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(other); i++)
                other[i] = mail();
        other[0].hook = SLICE_LIT("mai");
        other[1].args = SLICE_LIT("{\"to\":2}");
        other[2].queue = SLICE_LIT("Default");
        other[3].group = SLICE_LIT("g");
        other[4].priority++;
        other[5].attempts--;
        other[6].timeout_ms = 0;
        other[7].single = SLICE_LIT("s");
        other[8].hook = SLICE_LIT("mail\n8:{\"to\":1}"); /* the same text, cut otherwise */
        other[8].args = SLICE_NONE;
        for (size_t i = 0; i < ARRAY_LEN(other); i++) {
                assert_int_equal(sign_check(&k, &other[i], SLICE_LIT("a:" MAIL_HASH), &p),
                                 ERR_FORBIDDEN);
                assert_string_equal(p.detail, "the signature by the key a is wrong");
        }
        sign_keys_release(&k);
}

static void every_refusal_says_why(void **state)
{
        static const struct {
                const char *signature, *reason;
        } rows[] = {
                {"", "no signature"},
                {"c:" MAIL_HASH, "the key c, which is not known here"},
                {"A:" MAIL_HASH, "the key A, which is not known here"},
                {"b:" MAIL_HASH, "by the key b is wrong"},
                {"a:" EMPTY_HASH, "by the key a is wrong"},
                {"a", "is not a key id"},
                {":", "is not a key id"},
                {"a:", "is not a key id"},
                {":" MAIL_HASH, "is not a key id"},
                {MAIL_HASH, "is not a key id"},
                {"a:" MAIL_HASH "0", "is not a key id"},
                {"a:" MAIL_HASH "00", "is not a key id"},
                {"a: " MAIL_HASH, "is not a key id"},
                {"a b:" MAIL_HASH, "is not a key id"},
                {"012345678901234567890123456789012:" MAIL_HASH, "is not a key id"},
                {"a:x" MAIL_HASH, "is not a key id"},
        };
        struct sign_keys k = load("a " HEX_KEY "\nb " BASE64_KEY);
        struct sign_fields f = mail();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct problem p = {0};
                assert_int_equal(sign_check(&k, &f, slice_str(rows[i].signature), &p),
                                 ERR_FORBIDDEN);
                if (!strstr(p.detail, rows[i].reason))
                        fail_msg("%s: %s", rows[i].signature, p.detail);
        }
        sign_keys_release(&k);
}

static void a_signature_with_any_bit_turned_is_wrong(void **state)
{
        struct sign_keys k = load("a " HEX_KEY);
        struct sign_fields f = mail();
        char text[] = "a:" MAIL_HASH;

        (void)state;
        assert_int_equal(sign_check(&k, &f, slice_str(text), NULL), OK);
        for (size_t i = 2; text[i]; i++) {
                char old = text[i];
                text[i] = old == '0' ? '1' : '0';
                assert_int_equal(sign_check(&k, &f, slice_str(text), NULL), ERR_FORBIDDEN);
                text[i] = old;
        }
        sign_keys_release(&k);
}

static void keys_rotate(void **state)
{
        struct sign_keys k = load("old " HEX_KEY);
        struct sign_fields f = mail();
        char before[SIGN_TEXT_MAX], after[SIGN_TEXT_MAX];

        (void)state;
        assert_int_equal(sign_make(&k, SLICE_NONE, &f, before, NULL), OK);
        assert_int_equal(sign_keys_load(&k, SLICE_LIT("new " BASE64_KEY "\nold " HEX_KEY), NULL),
                         OK);
        assert_int_equal(sign_make(&k, SLICE_NONE, &f, after, NULL), OK);
        assert_memory_equal(after, "new:", 4);
        assert_int_equal(sign_check(&k, &f, slice_str(before), NULL), OK);
        assert_int_equal(sign_check(&k, &f, slice_str(after), NULL), OK);
        assert_int_equal(sign_keys_load(&k, SLICE_LIT("new " BASE64_KEY), NULL), OK);
        assert_int_equal(sign_check(&k, &f, slice_str(before), NULL), ERR_FORBIDDEN);
        assert_int_equal(sign_make(&k, SLICE_LIT("old"), &f, after, NULL), ERR_NOTFOUND);
        assert_int_equal(sign_keys_load(&k, SLICE_NONE, NULL), OK);
        assert_int_equal(k.len, 0);
        assert_int_equal(sign_make(&k, SLICE_NONE, &f, after, NULL), ERR_NOTFOUND);
        assert_int_equal(sign_check(&k, &f, slice_str(before), NULL), ERR_FORBIDDEN);
}

static void keys_are_read_in_all_their_forms(void **state)
{
        static const char text[] = "# comment\n"
                                   "\n"
                                   "  a\t" HEX_KEY "  \r\n"
                                   "b hex:000102030405060708090A0B0C0D0E0F\n"
                                   "c base64:AAECAwQFBgcICQoLDA0ODw==\n"
                                   "d AAECAwQFBgcICQoLDA0ODw==\n"
                                   "0123456789.abcdefghij_KLMNOPQR-Z " HEX_KEY;
        struct sign_keys k = load(text);
        struct sign_fields f = mail();

        (void)state;
        assert_int_equal(k.len, 5);
        for (size_t i = 0; i < k.len; i++) {
                char made[SIGN_TEXT_MAX];
                assert_int_equal(sign_make(&k, slice_str(k.keys[i].id), &f, made, NULL), OK);
                assert_string_equal(strchr(made, ':'), ":" MAIL_HASH);
        }
        assert_string_equal(k.keys[4].id, "0123456789.abcdefghij_KLMNOPQR-Z");
        sign_keys_release(&k);
}

static void the_longest_secret_is_read_and_a_longer_one_is_not(void **state)
{
        char text[2 + 2 * SIGN_SECRET_MAX + 3] = "a ";
        struct sign_keys k;

        (void)state;
        sign_keys_init(&k);
        memset(text + 2, '5', 2 * SIGN_SECRET_MAX);
        assert_int_equal(sign_keys_load(&k, slice_str(text), NULL), OK);
        memset(text + 2 + 2 * SIGN_SECRET_MAX, '5', 2);
        assert_int_equal(sign_keys_load(&k, slice_str(text), NULL), ERR_BADARG);
        /* Base64: 172 characters are 129 bytes, or 128 with padding. */
        memset(text + 2, 'A', 172);
        text[2 + 171] = '=';
        assert_int_equal(sign_keys_load(&k, slice_make(text, 2 + 172), NULL), OK);
        memset(text + 2, 'z', 172);
        assert_int_equal(sign_keys_load(&k, slice_make(text, 2 + 172), NULL), ERR_BADARG);
        assert_int_equal(sign_keys_load(&k, slice_make(text, 2 + 168), NULL), OK);
        memset(text + 2, 'z', sizeof(text) - 2);
        for (size_t n = 2 + 172; n <= sizeof(text); n++)
                assert_int_equal(sign_keys_load(&k, slice_make(text, n), NULL), ERR_BADARG);
        sign_keys_release(&k);
}

static void bad_keys_are_refused_and_the_old_ones_stay(void **state)
{
        static const struct {
                const char *text, *reason;
        } rows[] = {
                {"a", "line 1: a line is a key id and a secret"},
                {"a " HEX_KEY " more", "line 1: a line is"},
                {"\n# x\na:b " HEX_KEY, "line 3: a key id is"},
                {"012345678901234567890123456789012 " HEX_KEY, "line 1: a key id is"},
                {"a " HEX_KEY "\na " BASE64_KEY, "line 2: the key id a is there twice"},
                {"a 000102030405060708090a0b0c0d0e", "line 1: a secret is 16 to 128 bytes"},
                {"a hex:" BASE64_KEY, "a secret is"},
                {"a base64:AAECAwQFBgcICQoLDA0ODx==", "a secret is"}, /* bits behind the padding */
                {"a base64:AAECAwQFBgcICQoLDA0ODw=", "a secret is"},
                {"a base64:AAEC AwQFBgcICQoLDA0ODw==", "a line is"},
                {"a base64:AAECAwQFBg-ICQoLDA0ODw==", "a secret is"},
                {"a base64:", "a secret is"},
                {"a hex:", "a secret is"},
        };
        struct sign_keys k = load("a " HEX_KEY);
        struct sign_fields f = mail();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct problem p = {0};
                assert_int_equal(sign_keys_load(&k, slice_str(rows[i].text), &p), ERR_BADARG);
                if (!strstr(p.detail, rows[i].reason))
                        fail_msg("%s: %s", rows[i].text, p.detail);
                assert_null(strstr(p.detail, "0001"));
                assert_int_equal(k.len, 1);
                assert_int_equal(sign_check(&k, &f, SLICE_LIT("a:" MAIL_HASH), NULL), OK);
        }
        sign_keys_release(&k);
}

static void there_are_at_most_sixteen_keys(void **state)
{
        struct sign_keys k;
        struct problem p;
        struct buf b;

        (void)state;
        sign_keys_init(&k);
        buf_init(&b, 0);
        for (int i = 0; i < SIGN_KEYS_MAX; i++)
                buf_printf(&b, "k%d %s\n", i, HEX_KEY);
        assert_int_equal(sign_keys_load(&k, buf_slice(&b), NULL), OK);
        buf_put_str(&b, "last " HEX_KEY);
        assert_int_equal(sign_keys_load(&k, buf_slice(&b), &p), ERR_BADARG);
        assert_string_equal(p.detail, "keys, line 17: more than 16 keys");
        assert_int_equal(k.len, SIGN_KEYS_MAX);
        sign_keys_release(&k);
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_signed_bytes_are_as_drawn),
                cmocka_unit_test(signatures_are_those_of_another_implementation),
                cmocka_unit_test(every_field_is_under_the_signature),
                cmocka_unit_test(every_refusal_says_why),
                cmocka_unit_test(a_signature_with_any_bit_turned_is_wrong),
                cmocka_unit_test(keys_rotate),
                cmocka_unit_test(keys_are_read_in_all_their_forms),
                cmocka_unit_test(the_longest_secret_is_read_and_a_longer_one_is_not),
                cmocka_unit_test(bad_keys_are_refused_and_the_old_ones_stay),
                cmocka_unit_test(there_are_at_most_sixteen_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
