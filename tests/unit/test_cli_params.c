/* Options and requests of the command line, from the server's rows. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "api/command.h"
#include "cli/params.h"

static const struct cli_command *find(const char *group, const char *name)
{
        size_t n;
        const struct cli_group *const *groups = cli_groups(&n);
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < groups[i]->n_commands; k++)
                        if (strcmp(groups[i]->name, group) == 0 &&
                            strcmp(groups[i]->commands[k].name, name) == 0)
                                return &groups[i]->commands[k];
        fail_msg("there is no %s %s", group, name);
        return NULL;
}

static void check_row(const struct cli_command *c)
{
        const struct command_def *def = command_find(slice_str(c->command));
        char apart[128];
        char *save = NULL;
        assert_non_null(def);
        assert_true(c->run || c->done || c->show || c->listing);
        (void)snprintf(apart, sizeof(apart), "%s", c->apart ? c->apart : "");
        for (char *w = strtok_r(apart, " ", &save); w; w = strtok_r(NULL, " ", &save))
                assert_true(command_param(def, slice_str(w)) >= 0);
}

static void every_row_names_what_the_server_has(void **state)
{
        size_t n, rows = 0;
        const struct cli_group *const *groups = cli_groups(&n);
        (void)state;
        for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < groups[i]->n_commands; k++) {
                        const struct cli_command *c = &groups[i]->commands[k];
                        if (!c->command)
                                continue;
                        check_row(c);
                        rows++;
                }
        }
        assert_true(rows > 50);
}

/* People write 5m and --key-max. */
static void help_speaks_to_people(void **state)
{
        size_t n;
        const struct cli_group *const *groups = cli_groups(&n);
        (void)state;
        for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < groups[i]->n_commands; k++) {
                        struct param_options made;
                        const struct option_def *o =
                                cli_command_options(&groups[i]->commands[k], &made);
                        for (; o && o->name; o++) {
                                assert_null(strstr(o->text, "milliseconds"));
                                assert_null(strstr(o->text, "KEYMAX"));
                        }
                }
        }
}

static void check_request(const struct cli_command *c, const char *words, const char *request)
{
        struct cli cli = {.command = c};
        struct problem p = {0};
        struct cli_request req;
        struct buf got CLEANUP(buf_release) = {0};
        char copy[128], *argv[16], *save = NULL;
        int argc = 0;
        (void)snprintf(copy, sizeof(copy), "%s", words);
        for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
                argv[argc++] = w;
        const struct option_def *options = cli_command_options(c, &cli.options);
        assert_int_equal(args_parse(&cli.args, options, argv, argc, &p), OK);
        if (cli_request_of_row(&req, &cli, &p) != OK) {
                assert_string_equal(p.detail, request);
                return;
        }
        for (size_t i = 0; i < req.argc; i++) {
                buf_put_str(&got, i ? " " : "");
                buf_put_slice(&got, req.argv[i]);
        }
        assert_string_equal(buf_cstr(&got), request);
}

static void words_and_options_are_the_request(void **state)
{
        (void)state;
        check_request(find("breaker", "set"), "--cooldown-max 5m b1 --handlers --rate 50",
                      "BREAKER b1 RATE 50 COOLDOWNMAX 300000 HANDLERS");
        check_request(find("limit", "set"), "api 100 1m --kind tokens",
                      "LIMIT api 100 60000 KIND tokens");
        check_request(find("rule", "history"), "7", "RULEHISTORY COUNT 7");
        check_request(find("schedule", "list"), "--cursor x --limit 3", "SCHEDULES LIMIT 3");
        check_request(find("schedule", "next"), "--first @1731661200",
                      "SCHEDULETRY FIRST 1731661200000");
}

static void a_bad_time_is_told_by_its_name(void **state)
{
        (void)state;
        check_request(find("limit", "set"), "api 100 30",
                      "PERIOD: 30 of what? Write 30ms, 30s or 30m");
        check_request(find("host", "skip"), "h --for 5", "--for: 5 of what? Write 5ms, 5s or 5m");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_row_names_what_the_server_has),
                cmocka_unit_test(help_speaks_to_people),
                cmocka_unit_test(words_and_options_are_the_request),
                cmocka_unit_test(a_bad_time_is_told_by_its_name),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
