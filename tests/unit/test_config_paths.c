/* Relative paths in the configuration file: which settings have them, and what they are relative
 * to. */
#include "config_box.h"

#include <stdio.h>
#include <unistd.h>

#include "serve/config_text.h"

#define PATH_SIZE (TEMP_DIR_SIZE + 40)

static int begin(void **unused)
{
        char folder[PATH_SIZE];
        (void)make_folder(unused); /* 0 */
        (void)write_file("password", "geheim\n", 0600);
        (void)write_file("token", "0123456789abcdef\n", 0600);
        (void)snprintf(folder, sizeof(folder), "%s/sub", config_folder);
        return mkdir(folder, 0700);
}

static int end(void **unused)
{
        return chdir("/") == 0 ? remove_folder(unused) : -1;
}

/* A file of the test's folder. */
static const char *in_folder(const char *name)
{
        static char path[PATH_SIZE];
        (void)snprintf(path, sizeof(path), "%s/%s", config_folder, name);
        return path;
}

/* What is written of the file is the same wherever it is read, and names what was opened. */
static void a_path_is_relative_to_the_folder_of_its_file(void **unused)
{
        (void)unused;
        char whole[PATH_SIZE];
        (void)snprintf(whole, sizeof(whole), "%s",
                       write_file("conf",
                                  "data = \"data\"\ntoken_file = \"token\"\n"
                                  "resp = {\"127.0.0.1:1\", \"./run/w.sock\", \"/run/w.sock\"}\n"
                                  "tls { cert = \"tls/a.crt\" key = \"/k\" }\n"
                                  "target \"t\" { kind = \"mysql\" password_file = \"./password\"\n"
                                  "  socket = \"m.sock\" replica \"r\" { socket = \"../r\" } }\n",
                                  0600));
        const char *const folder = strrchr(config_folder, '/') + 1;
        char beside[PATH_SIZE];
        (void)snprintf(beside, sizeof(beside), "../%s/conf", folder);
        const struct {
                const char *here, *file, *folder;
        } readings[] = {
                {"/", whole, config_folder},
                {"/", whole + 1, config_folder},
                {config_folder, "conf", config_folder},
                {config_folder, "./conf", config_folder},
                {config_folder, beside, NULL},
                {in_folder("sub"), "../conf", NULL},
        };
        for (size_t i = 0; i < ARRAY_LEN(readings); i++) {
                struct config c;
                struct problem problem = {0};
                char wanted[2 * PATH_SIZE];
                assert_int_equal(chdir(readings[i].here), 0);
                config_init(&c);
                if (config_read_file(&c, readings[i].file, &problem) != OK)
                        fail_msg("%s in %s: %s", readings[i].file, readings[i].here,
                                 problem.detail);
                assert_string_equal(c.token.text[0], "0123456789abcdef");
                assert_string_equal(c.targets.probes[0].password, "geheim");
                assert_string_equal(c.resp[0], "127.0.0.1:1");
                assert_string_equal(c.resp[2], "/run/w.sock");
                assert_string_equal(c.tls_key, "/k");
                const struct {
                        const char *got, *name;
                } paths[] = {
                        {c.data, "data"},
                        {c.token_file, "token"},
                        {c.resp[1], "run/w.sock"},
                        {c.tls_cert, "tls/a.crt"},
                        {c.targets.levels[0].password_file, "password"},
                        {c.targets.probes[0].primary.host, "m.sock"},
                        {c.targets.probes[0].replicas[0].host, "../r"},
                };
                for (size_t k = 0; k < ARRAY_LEN(paths); k++) {
                        assert_int_equal(paths[k].got[0], '/');
                        (void)snprintf(wanted, sizeof(wanted), "%s/%s", config_folder,
                                       paths[k].name);
                        if (readings[i].folder)
                                assert_string_equal(paths[k].got, wanted);
                }
                config_release(&c);
        }
}

static void a_sentence_names_the_path_that_was_opened(void **unused)
{
        (void)unused;
        static const char *const texts[] = {
                "token_file = \"nosuch\"",
                "signing_keys_file = \"nosuch\"",
                "target \"t\" { kind = \"mysql\" password_file = \"nosuch\" }",
                "target \"t\" { kind = \"http\" url = \"https://a/\" metric \"json:x\" { }\n"
                "  tls_ca = \"nosuch\" }",
                "wordpress \"s\" { mode = \"off\" database = \"w\" password_file = \"nosuch\" }",
                "wordpress \"s\" { mode = \"off\" database = \"w\" tls_cert = \"nosuch\"\n"
                "  tls_key = \"/k\" }",
                "mysql \"d\" { listen = {\":1\"} server_tls = \"verify\" server_ca = \"nosuch\" }",
                "token \"t\" { role = {\"reader\"} secret_file = \"nosuch\" }",
                "telemetry { headers_file = \"nosuch\" }",
                "telemetry { ca = \"nosuch\" }",
                "cluster { kind = \"mysql\" hosts = {\"a\"} password_file = \"nosuch\" }",
        };
        assert_int_equal(chdir("/"), 0);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                refuse_text(texts[i], in_folder("nosuch"));
}

static void of_an_address_and_a_program_only_a_path_is_one(void **unused)
{
        (void)unused;
        struct config c;
        char wanted[PATH_SIZE];
        (void)snprintf(wanted, sizeof(wanted), "%s", in_folder("run/m.sock"));
        assert_int_equal(chdir("/"), 0);
        take_text("target \"t\" { kind = \"command\" command = {\"./run/m.sock\", \"./a\"}\n"
                  "  metric \"x\" { } }\n"
                  "target \"u\" { kind = \"command\" command = {\"cat\", \"load\"}\n"
                  "  metric \"x\" { } }\n"
                  "mysql \"d\" { listen = {\"localhost:1\", \"run/m.sock\"} server = \"db\" }\n"
                  "mysql \"e\" { listen = {\":0\"} server = \"./run/m.sock\" }\n",
                  &c);
        assert_string_equal(c.targets.probes[0].argv[0], wanted);
        assert_string_equal(c.targets.probes[0].argv[1], "./a");
        assert_string_equal(c.targets.probes[1].argv[0], "cat");
        assert_string_equal(c.targets.probes[1].argv[1], "load");
        assert_string_equal(c.doors.doors[0].listen[0], "localhost:1");
        assert_string_equal(c.doors.doors[0].listen[1], wanted);
        assert_string_equal(c.doors.doors[0].server, "db");
        assert_string_equal(c.doors.doors[1].server, wanted);
        config_release(&c);
        refuse_text("mysql \"d\" { listen = {\":1\"} server = \"mysql://db/x\" }",
                    "not 'mysql://db/x'");
        refuse_text("token_file = \"\"", "token file : No such file");
}

/* The command line is of another folder than the file; and what nobody wrote is of none. */
static void what_stands_in_no_file_stays_as_it_is(void **unused)
{
        (void)unused;
        struct config c;
        struct problem problem = {0};
        take_text("log_level = warn\n", &c);
        assert_int_equal(config_finish(&c, &problem), OK);
        assert_string_equal(c.data, "./data");
        config_set_data(&c, "there");
        assert_string_equal(c.data, "there");
        assert_int_equal(chdir(config_folder), 0);
        assert_int_equal(config_set_token_file(&c, "token", &problem), OK);
        assert_string_equal(c.token_file, "token");
        config_release(&c);
}

/* A new row that is called like one is one. */
static void what_is_called_a_file_is_a_path(void **unused)
{
        (void)unused;
        static const char *const names[] = {"data", "socket", "key", "ca", "cert"};
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                const char *last = strrchr(def->name, '_');
                last = last ? last + 1 : def->name;
                bool is_one = strcmp(last, "file") == 0;
                for (size_t i = 0; i < ARRAY_LEN(names); i++)
                        is_one |= strcmp(last, names[i]) == 0;
                if (is_one != (def->path == SETTING_PATH))
                        fail_msg("%s.%s", setting_sections[def->section].name, def->name);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_path_is_relative_to_the_folder_of_its_file),
                cmocka_unit_test(a_sentence_names_the_path_that_was_opened),
                cmocka_unit_test(of_an_address_and_a_program_only_a_path_is_one),
                cmocka_unit_test(what_stands_in_no_file_stays_as_it_is),
                cmocka_unit_test(what_is_called_a_file_is_a_path),
        };
        return cmocka_run_group_tests(tests, begin, end);
}
