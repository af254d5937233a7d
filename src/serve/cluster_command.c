/* See cluster_command.h. */
#include "serve/cluster_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "serve/config.h"
#include "serve/config_rows.h"

#define INIT_MS 30000 /* for all of it */

/* The logins of somebody else, at the same servers; the caller frees *ret after them. */
static int take_user(const struct args *args, struct config_cluster *c, char **ret,
                     struct problem *problem)
{
        struct config_at at = {.section = SECTION_CLUSTER, .problem = problem};
        const char *user = args_get(args, "user"), *file = args_get(args, "password-file");
        if (!user && file)
                return problem_set(problem, ERR_SYNTAX, "--password-file belongs to --user");
        if (!user)
                return OK;
        config_password_release(&c->password);
        int r = config_password_take(&at, file, NULL, &c->password);
        *ret = xstrdup(user);
        for (size_t i = 0; i < c->n_hosts; i++) {
                c->logins[i].user = *ret;
                c->logins[i].password = c->password;
        }
        return r;
}

static int init(const struct args *args, struct config *config, struct buf *out,
                struct problem *problem)
{
        const char *path = args_get(args, "config");
        struct config_cluster *c = &config->cluster;
        char *user = NULL;
        if (args->n_positional)
                return problem_set(problem, ERR_SYNTAX, "unexpected argument '%s'",
                                   SHOWN_STR(args->positional[0]));
        if (!path)
                return problem_set(problem, ERR_SYNTAX, "which configuration?  Say -c FILE");
        int r = config_read_file(config, path, problem);
        if (r == OK && !c->is_given)
                r = problem_set(problem, ERR_BADARG, "%s has no cluster section", SHOWN_STR(path));
        if (r == OK)
                r = take_user(args, c, &user, problem);
        if (r != OK) {
                free(user);
                return r;
        }
        struct sql_wait wait = {.stop_fd = eventfd(0, EFD_CLOEXEC), /* never written to */
                                .deadline_ns = clock_boot_ns() + INIT_MS * NS_PER_MS,
                                .timeout_ms = INIT_MS};
        r = (c->kind == CLUSTER_POSTGRES ? ledger_postgres_init : ledger_mariadb_init)(
                &c->ledger, c->user, &wait, out, problem);
        (void)close(wait.stop_fd); /* holds nothing */
        free(user);
        return r;
}

int cluster_init_main(int argc, char **argv)
{
        struct args args = {0};
        struct problem p = {0};
        struct config config;
        struct buf out CLEANUP(buf_release) = {0};
        int r = args_parse(&args, cli_cluster_init_options, argv + 1, argc - 1, &p);
        if (r == OK && args_has(&args, "help"))
                return cli_help("cluster", "init");
        config_init(&config);
        if (r == OK)
                r = init(&args, &config, &out, &p);
        config_release(&config);
        if (r == OK)
                (void)fwrite(out.ptr, 1, out.len, stdout); /* fflush() tells */
        if (r == OK && fflush(stdout) != 0)
                r = problem_set(&p, ERR_IO, "cannot write the output: %s", strerror(errno));
        if (r != OK)
                fprintf(stderr, "weir cluster init: %s\n", p.detail);
        return err_exit(r);
}
