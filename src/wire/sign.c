/* Signed jobs.
 *
 * A key is prepared once: OpenSSL hashes the padded secret into an EVP_MAC_CTX, and each signature
 * works on a copy of that, which saves looking up the algorithm and two of the blocks.  The bytes
 * that are signed go into it piece by piece: args may be large and are not copied. */
#include "wire/sign.h"

/* OpenSSL has a type of that name, which nothing here uses; ours is an error. */
#define ERR_STATE openssl_err_state
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#undef ERR_STATE
#include <stdio.h>

#include "base/base64.h"
#include "base/shown.h"

static const char tag[] = "weir-sign-1\n";

#define N_FIELDS   8
#define NUMBER_MAX 24 /* any uint64_t in decimal, and its NUL */

/* --- what is signed --------------------------------------------------------------------------- */

/* The fields in order; the texts of the numbers go into `numbers`. */
static void list_fields(const struct sign_fields *f, char numbers[3][NUMBER_MAX],
                        struct slice ret[N_FIELDS])
{
        const uint64_t values[3] = {f->priority, f->attempts, f->timeout_ms};

        ret[0] = f->hook;
        ret[1] = f->args;
        ret[2] = f->queue;
        ret[3] = f->group;
        for (size_t i = 0; i < 3; i++) {
                (void)snprintf(numbers[i], NUMBER_MAX, "%llu", (unsigned long long)values[i]);
                ret[4 + i] = slice_str(numbers[i]);
        }
        ret[7] = f->single;
}

void sign_put_canonical(struct buf *b, const struct sign_fields *f)
{
        char numbers[3][NUMBER_MAX];
        struct slice fields[N_FIELDS];

        list_fields(f, numbers, fields);
        buf_put_str(b, tag);
        for (size_t i = 0; i < N_FIELDS; i++) {
                buf_put_u64(b, fields[i].len);
                buf_put_byte(b, ':');
                buf_put_slice(b, fields[i]);
                buf_put_byte(b, '\n');
        }
}

static bool feed(EVP_MAC_CTX *mac, struct slice s)
{
        return s.len == 0 || EVP_MAC_update(mac, (const unsigned char *)s.ptr, s.len) == 1;
}

static bool feed_fields(EVP_MAC_CTX *mac, const struct sign_fields *f)
{
        char numbers[3][NUMBER_MAX], head[NUMBER_MAX + 4];
        struct slice fields[N_FIELDS];
        bool ok = feed(mac, slice_str(tag));

        list_fields(f, numbers, fields);
        for (size_t i = 0; i < N_FIELDS; i++) {
                (void)snprintf(head, sizeof(head), "%s%zu:", i ? "\n" : "", fields[i].len);
                ok = ok && feed(mac, slice_str(head)) && feed(mac, fields[i]);
        }
        return ok && feed(mac, SLICE_LIT("\n"));
}

static int hash_fields(const struct sign_key *key, const struct sign_fields *f,
                       uint8_t ret[SIGN_HASH_BYTES], struct problem *problem)
{
        size_t len = 0;
        EVP_MAC_CTX *mac = EVP_MAC_CTX_dup(key->mac);
        bool ok = mac && feed_fields(mac, f) && EVP_MAC_final(mac, ret, &len, SIGN_HASH_BYTES) == 1;

        EVP_MAC_CTX_free(mac);
        if (!ok)
                return problem_set(problem, ERR_NOMEM, "no memory to work out a signature");
        ASSERT(len == SIGN_HASH_BYTES);
        return OK;
}

/* --- keys ------------------------------------------------------------------------------------- */

void sign_keys_init(struct sign_keys *k)
{
        *k = (struct sign_keys){0};
}

void sign_keys_release(struct sign_keys *k)
{
        for (size_t i = 0; i < k->len; i++)
                EVP_MAC_CTX_free(k->keys[i].mac);
        *k = (struct sign_keys){0};
}

static const struct sign_key *find_key(const struct sign_keys *k, struct slice id)
{
        for (size_t i = 0; i < k->len; i++)
                if (slice_eq(slice_str(k->keys[i].id), id))
                        return &k->keys[i];
        return NULL;
}

static bool is_id(struct slice s)
{
        if (s.len < 1 || s.len > SIGN_ID_MAX)
                return false;
        for (size_t i = 0; i < s.len; i++) {
                char c = s.ptr[i];
                bool is_alnum =
                        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                if (!is_alnum && c != '.' && c != '_' && c != '-')
                        return false;
        }
        return true;
}

/* Hex or base64 text of the longest secret. */
#define SECRET_TEXT_MAX (SIGN_SECRET_MAX * 2ULL)

static bool decode_base64(struct slice s, uint8_t *ret, size_t *ret_len)
{
        uint8_t bytes[BASE64_DECODED_MAX(SECRET_TEXT_MAX)];
        bool is_good = s.len <= SECRET_TEXT_MAX && base64_decode(s, bytes, ret_len) &&
                       *ret_len <= SIGN_SECRET_MAX;
        if (is_good)
                memcpy(ret, bytes, *ret_len);
        OPENSSL_cleanse(bytes, sizeof(bytes));
        return is_good;
}

static bool drop_prefix(struct slice *s, struct slice prefix)
{
        if (s->len < prefix.len || memcmp(s->ptr, prefix.ptr, prefix.len) != 0)
                return false;
        *s = slice_make(s->ptr + prefix.len, s->len - prefix.len);
        return true;
}

static bool decode_hex(struct slice s, uint8_t *ret, size_t *ret_len)
{
        if (s.len > SECRET_TEXT_MAX || !slice_to_hex_bytes(s, ret, s.len / 2))
                return false;
        *ret_len = s.len / 2;
        return true;
}

static bool decode_secret(struct slice s, uint8_t ret[SIGN_SECRET_MAX], size_t *ret_len)
{
        if (drop_prefix(&s, SLICE_LIT("hex:")))
                return decode_hex(s, ret, ret_len);
        if (drop_prefix(&s, SLICE_LIT("base64:")))
                return decode_base64(s, ret, ret_len);
        return decode_hex(s, ret, ret_len) || decode_base64(s, ret, ret_len);
}

/* A context that has the secret in it; NULL when OpenSSL has no memory or no SHA-256. */
static EVP_MAC_CTX *prepare(const uint8_t *secret, size_t len)
{
        char digest[] = "SHA256";
        OSSL_PARAM params[] = {
                OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                OSSL_PARAM_construct_end(),
        };
        EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
        EVP_MAC_CTX *mac = hmac ? EVP_MAC_CTX_new(hmac) : NULL;

        EVP_MAC_free(hmac); /* the context has its own reference */
        if (mac && EVP_MAC_init(mac, secret, len, params) != 1) {
                EVP_MAC_CTX_free(mac);
                return NULL;
        }
        return mac;
}

static bool is_space(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static struct slice trim(struct slice s)
{
        while (s.len > 0 && is_space(s.ptr[0]))
                s = slice_make(s.ptr + 1, s.len - 1);
        while (s.len > 0 && is_space(s.ptr[s.len - 1]))
                s.len--;
        return s;
}

static struct slice next_word(struct slice *rest)
{
        size_t n = 0;
        *rest = trim(*rest);
        while (n < rest->len && !is_space(rest->ptr[n]))
                n++;
        struct slice word = slice_make(rest->ptr, n);
        *rest = trim(slice_make(rest->ptr + n, rest->len - n));
        return word;
}

static int load_line(struct sign_keys *k, struct slice line, unsigned number,
                     struct problem *problem)
{
        uint8_t bytes[SIGN_SECRET_MAX];
        size_t len = 0;
        struct slice id = next_word(&line), secret = next_word(&line);

        if (!is_id(id))
                return problem_set(problem, ERR_BADARG,
                                   "keys, line %u: a key id is 1 to %d of A-Z a-z 0-9 . _ -",
                                   number, SIGN_ID_MAX);
        if (secret.len == 0 || line.len > 0)
                return problem_set(problem, ERR_BADARG,
                                   "keys, line %u: a line is a key id and a secret", number);
        if (find_key(k, id))
                return problem_set(problem, ERR_BADARG,
                                   "keys, line %u: the key id %.*s is there twice", number,
                                   (int)id.len, id.ptr);
        if (k->len == SIGN_KEYS_MAX)
                return problem_set(problem, ERR_BADARG, "keys, line %u: more than %d keys", number,
                                   SIGN_KEYS_MAX);
        bool is_secret = decode_secret(secret, bytes, &len) && len >= SIGN_SECRET_MIN;
        EVP_MAC_CTX *mac = is_secret ? prepare(bytes, len) : NULL;
        OPENSSL_cleanse(bytes, sizeof(bytes));
        if (!is_secret)
                return problem_set(problem, ERR_BADARG,
                                   "keys, line %u: a secret is %d to %d bytes in hex or base64",
                                   number, SIGN_SECRET_MIN, SIGN_SECRET_MAX);
        if (!mac)
                return problem_set(problem, ERR_INTERNAL,
                                   "keys, line %u: HMAC-SHA256 is not to be had", number);
        struct sign_key *key = &k->keys[k->len++];
        *key = (struct sign_key){.mac = mac};
        memcpy(key->id, id.ptr, id.len);
        return OK;
}

int sign_keys_load(struct sign_keys *k, struct slice text, struct problem *problem)
{
        struct sign_keys got;

        sign_keys_init(&got);
        for (unsigned number = 1; text.len > 0; number++) {
                const char *end = memchr(text.ptr, '\n', text.len);
                size_t n = end ? (size_t)(end - text.ptr) : text.len;
                struct slice line = trim(slice_make(text.ptr, n));
                text = end ? slice_make(end + 1, text.len - n - 1) : SLICE_NONE;
                if (line.len == 0 || line.ptr[0] == '#')
                        continue;
                int err = load_line(&got, line, number, problem);
                if (err) {
                        sign_keys_release(&got);
                        return err;
                }
        }
        sign_keys_release(k);
        *k = got;
        return OK;
}

/* --- signatures ------------------------------------------------------------------------------- */

int sign_make(const struct sign_keys *k, struct slice id, const struct sign_fields *f,
              char ret[SIGN_TEXT_MAX], struct problem *problem)
{
        uint8_t hash[SIGN_HASH_BYTES];
        const struct sign_key *key = id.len ? find_key(k, id) : &k->keys[0];

        if (k->len == 0)
                return problem_set(problem, ERR_NOTFOUND, "there is no key to sign with");
        if (!key)
                return problem_set(problem, ERR_NOTFOUND, "there is no key %s to sign with",
                                   SHOWN(id));
        int err = hash_fields(key, f, hash, problem);
        if (err)
                return err;
        size_t len = strlen(key->id);
        memcpy(ret, key->id, len);
        ret[len++] = ':';
        hex_from_bytes(hash, sizeof(hash), ret + len);
        ret[len + 2 * sizeof(hash)] = '\0';
        return OK;
}

int sign_check(const struct sign_keys *k, const struct sign_fields *f, struct slice signature,
               struct problem *problem)
{
        uint8_t want[SIGN_HASH_BYTES], got[SIGN_HASH_BYTES];
        const char *colon = signature.len ? memchr(signature.ptr, ':', signature.len) : NULL;

        if (signature.len == 0)
                return problem_set(problem, ERR_FORBIDDEN, "the job has no signature");
        struct slice id = slice_make(signature.ptr, colon ? (size_t)(colon - signature.ptr) : 0);
        struct slice hex = slice_make(signature.ptr + id.len + 1, signature.len - id.len - 1);
        if (!is_id(id) || !slice_to_hex_bytes(hex, got, sizeof(got)))
                return problem_set(problem, ERR_FORBIDDEN,
                                   "the signature is not a key id, a colon and 64 hex digits");
        const struct sign_key *key = find_key(k, id);
        if (!key)
                return problem_set(problem, ERR_FORBIDDEN,
                                   "the signature is by the key %.*s, which is not known here",
                                   (int)id.len, id.ptr);
        int err = hash_fields(key, f, want, problem);
        if (err)
                return err;
        if (CRYPTO_memcmp(want, got, sizeof(want)) != 0)
                return problem_set(problem, ERR_FORBIDDEN, "the signature by the key %.*s is wrong",
                                   (int)id.len, id.ptr);
        return OK;
}
