/* The tls settings of a target: what goes together, what is refused, what is written and compared.
 */
#include "config_box.h"

#include <stdio.h>
#include <string.h>

/* OpenSSL has a type of that name, which nothing here uses; ours is an error. */
#define ERR_STATE openssl_err_state
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#undef ERR_STATE

#include "serve/config_text.h"

#define PATH_SIZE (TEMP_DIR_SIZE + 40)

static char cert_path[PATH_SIZE], key_path[PATH_SIZE];

static FILE *create(char path[PATH_SIZE], const char *name)
{
        (void)snprintf(path, PATH_SIZE, "%s", write_file(name, "", 0600));
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        return f;
}

/* A certificate that signs itself, and its key. */
static int make_files(void **unused)
{
        (void)make_folder(unused);
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *cert = X509_new();
        assert_true(key && cert && X509_set_pubkey(cert, key));
        assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), 0));
        assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), 3600));
        assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
        FILE *f = create(cert_path, "cert.pem");
        assert_int_equal(PEM_write_X509(f, cert), 1);
        assert_int_equal(fclose(f), 0);
        f = create(key_path, "key.pem");
        assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
        assert_int_equal(fclose(f), 0);
        X509_free(cert);
        EVP_PKEY_free(key);
        return 0;
}

/* Reads one target; CERT and KEY in its body stand for the files. */
static int read_target(const char *body, struct config *c, struct problem *problem)
{
        char text[2000] = "target \"shop\" {\n";
        size_t len = strlen(text);
        for (const char *at = body; *at; at++) {
                const char *path = strncmp(at, "CERT", 4) == 0  ? cert_path
                                   : strncmp(at, "KEY", 3) == 0 ? key_path
                                                                : NULL;
                int n = path ? snprintf(text + len, sizeof(text) - len, "\"%s\"", path)
                             : snprintf(text + len, sizeof(text) - len, "%c", *at);
                len += (size_t)n;
                if (path)
                        at += path == cert_path ? 3 : 2;
        }
        (void)snprintf(text + len, sizeof(text) - len, "\n}\n");
        return read_text(text, c, problem);
}

static void tls_is_preferred_unless_the_target_says_otherwise(void **unused)
{
        (void)unused;
        static const struct {
                const char *body;
                enum sql_tls_mode mode;
        } cases[] = {
                {"kind = mysql", SQL_TLS_PREFER},
                {"kind = postgres", SQL_TLS_PREFER},
                {"kind = mysql tls = \"off\"", SQL_TLS_OFF},
                {"kind = mysql tls = \"prefer\"", SQL_TLS_PREFER},
                {"kind = postgres tls = \"require\" tls_cert = CERT tls_key = KEY",
                 SQL_TLS_REQUIRE},
                {"kind = mysql tls = \"verify\" tls_ca = CERT", SQL_TLS_VERIFY},
                {"kind = mysql socket = \"/s\" tls = \"off\"", SQL_TLS_OFF},
                {"kind = mysql socket = \"/s\" tls = \"require\" replica \"r\" { host = \"h\" }",
                 SQL_TLS_REQUIRE},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config c;
                struct problem problem = {0};
                if (read_target(cases[i].body, &c, &problem) != OK)
                        fail_msg("%s", problem.detail);
                assert_int_equal(c.targets.probes[0].tls.mode, cases[i].mode);
                config_release(&c);
        }
}

static void what_does_not_go_together_is_refused_with_what_is_allowed(void **unused)
{
        (void)unused;
        static const struct {
                const char *body, *told;
        } cases[] = {
                {"kind = mysql tls = \"on\"",
                 "tls must be off, prefer, require or verify, not 'on'"},
                {"kind = mysql tls = \"\"", "tls must be off, prefer, require or verify, not ''"},
                {"kind = postgres tls = \"verify\"", "tls verify needs tls_ca"},
                {"kind = mysql tls_ca = CERT", "tls_ca needs tls = \"verify\""},
                {"kind = mysql tls = \"require\" tls_ca = CERT", "tls_ca needs tls = \"verify\""},
                {"kind = mysql tls_cert = CERT", "tls_key is missing"},
                {"kind = mysql tls_key = KEY", "tls_cert is missing"},
                {"kind = mysql tls = \"off\" tls_cert = CERT tls_key = KEY", "with tls off"},
                {"kind = mysql tls_name = \"a\"", "tls_name needs tls = \"verify\""},
                {"kind = mysql tls = \"verify\" tls_ca = CERT tls_name = \"\"",
                 "tls_name must be 1 to 255 bytes"},
                {"kind = mysql socket = \"/s\" tls = \"require\"", "tls is for a host"},
                {"kind = mysql socket = \"/s\" tls = \"verify\" tls_ca = CERT tls_name = \"a\"\n"
                 "replica \"r\" { host = \"h\" }",
                 "tls_name needs tls = \"verify\" and a host"},
                {"kind = mysql replica \"r\" { host = \"h\" tls_name = \"a\" }",
                 "tls_name needs tls = \"verify\""},
                {"kind = mysql tls = \"verify\" tls_ca = \"/no/such\"", "tls_ca /no/such: No such"},
                {"kind = mysql tls = \"verify\" tls_ca = KEY", "holds no certificate"},
                {"kind = host tls = \"off\"", "tls is for mysql, postgres and http"},
                {"kind = command command = {\"x\"} tls_ca = CERT metric \"a\" { }",
                 "tls_ca is for mysql, postgres and http"},
                {"kind = http url = \"https://h/\" tls = \"verify\" metric \"json:a\" { }",
                 "always verified"},
                {"kind = http url = \"http://h/\" tls_ca = CERT metric \"json:a\" { }",
                 "tls_ca needs an https url"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config c;
                struct problem problem = {0};
                if (read_target(cases[i].body, &c, &problem) == OK)
                        fail_msg("'%s' is taken", cases[i].body);
                if (!strstr(problem.detail, cases[i].told))
                        fail_msg("'%s' does not say '%s'", problem.detail, cases[i].told);
                config_release(&c);
        }
}

static const char *const different[] = {
        "kind = mysql host = \"a\"",
        "kind = mysql host = \"a\" tls = \"require\"",
        "kind = mysql host = \"a\" tls_cert = CERT tls_key = KEY",
        "kind = mysql host = \"a\" tls = \"verify\" tls_ca = CERT",
        "kind = mysql host = \"a\" tls = \"verify\" tls_ca = CERT tls_name = \"n\"",
        "kind = mysql host = \"a\" tls = \"verify\" tls_ca = CERT tls_name = \"m\"",
        "kind = mysql host = \"a\" tls = \"verify\" tls_ca = CERT tls_cert = CERT tls_key = KEY",
        "kind = mysql tls = verify tls_ca = CERT replica r { host = h }",
        "kind = mysql tls = verify tls_ca = CERT replica r { host = h tls_name = n }",
        "kind = http url = \"https://h/\" metric \"json:a\" { }",
        "kind = http url = \"https://h/\" tls_ca = CERT metric \"json:a\" { }",
};

static void what_is_written_reads_back_as_the_same_probe_and_as_no_other(void **unused)
{
        (void)unused;
        struct config all[ARRAY_LEN(different)];
        struct problem problem = {0};
        for (size_t i = 0; i < ARRAY_LEN(different); i++) {
                struct config back;
                struct buf text;
                buf_init(&text, 0);
                if (read_target(different[i], &all[i], &problem) != OK)
                        fail_msg("%s", problem.detail);
                assert_int_equal(config_finish(&all[i], &problem), OK);
                config_put(&all[i], true, &text);
                if (read_text(buf_cstr(&text), &back, &problem) != OK)
                        fail_msg("%s in\n%s", problem.detail, buf_cstr(&text));
                for (size_t k = 0; k <= i; k++)
                        assert_int_equal(config_probe_is_same(&back.targets.probes[0],
                                                              &all[k].targets.probes[0]),
                                         k == i);
                config_release(&back);
                buf_release(&text);
        }
        for (size_t i = 0; i < ARRAY_LEN(different); i++)
                config_release(&all[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tls_is_preferred_unless_the_target_says_otherwise),
                cmocka_unit_test(what_does_not_go_together_is_refused_with_what_is_allowed),
                cmocka_unit_test(what_is_written_reads_back_as_the_same_probe_and_as_no_other),
        };
        return cmocka_run_group_tests(tests, make_files, remove_folder);
}
