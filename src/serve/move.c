/* The command, and what both directions share. */
#include "serve/move.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/plural.h"
#include "base/say.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cluster/mirror_sql.h"
#include "serve/move_int.h"

int move_path(const struct move *m, const char *folder, const char *name, char ret[MOVE_PATH_MAX])
{
        int n = snprintf(ret, MOVE_PATH_MAX, "%s/%s", folder, name);
        return n > 0 && n < MOVE_PATH_MAX
                       ? OK
                       : problem_set(m->problem, ERR_BADARG, "the path is too long");
}

int move_open_store(struct move *m)
{
        int err = cluster_store_open(&m->store, &m->config.cluster, m->problem);
        return err ? err : cluster_store_check_idle(&m->store, m->problem);
}

int move_lead(struct move *m)
{
        int err = mover_lead(&m->config.cluster, m->log.last.seq, &m->mover, m->problem);
        if (!err)
                mirror_sql_set_epoch(m->store.mirror, mover_epoch(m->mover));
        return err;
}

void move_put_place(const struct move *m, struct buf *ret)
{
        const struct config_cluster *c = &m->config.cluster;
        buf_printf(ret, "%s at %s, database %s",
                   c->kind == CLUSTER_POSTGRES ? "PostgreSQL" : "MariaDB", SHOWN_STR(c->hosts[0]),
                   SHOWN_STR(c->database));
}

void move_show_batches(void *move, uint64_t batches, uint64_t bytes)
{
        struct move *m = move;
        m->progress.noun = "batches of the log";
        progress_tell(&m->progress, batches, bytes);
}

void move_show_jobs(void *move, uint64_t jobs, uint64_t bytes)
{
        struct move *m = move;
        m->progress.noun = "finished jobs";
        progress_tell(&m->progress, jobs, bytes);
}

/* ---- the command ---- */

static const struct direction {
        const char *option;
        int (*run)(struct move *m);
        const char *what_next;
} directions[] = {
        {"to-cluster", move_in,
         "start weir with the cluster section and another folder for `data`"},
        {"from-cluster", move_out, "start weir with this folder and without the cluster section"},
        {"reopen", move_reopen, "start the machines of the cluster"},
};

static const struct direction *choose(const struct args *args, struct problem *p)
{
        const struct direction *chosen = NULL;
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(directions); i++) {
                if (!args_has(args, directions[i].option))
                        continue;
                chosen = &directions[i];
                n++;
        }
        if (n == 1)
                return chosen;
        (void)problem_set(p, ERR_SYNTAX,
                          n ? "only one of --to-cluster, --from-cluster and --reopen"
                            : "where to?  Say --to-cluster or --from-cluster");
        return NULL;
}

static int take_config(struct move *m, const struct args *args, const struct direction *d)
{
        const char *file = args_get(args, "config"), *data = args_get(args, "data");
        if (args->n_positional)
                return problem_set(m->problem, ERR_SYNTAX, "unexpected argument '%s'",
                                   SHOWN_STR(args->positional[0]));
        if (!file)
                return problem_set(m->problem, ERR_SYNTAX, "which configuration?  Say -c FILE");
        if (!data && d->run == move_out)
                return problem_set(m->problem, ERR_SYNTAX,
                                   "which folder is to be made?  Say --data DIR");
        int err = config_read_file(&m->config, file, m->problem);
        if (!err && !m->config.cluster.is_given)
                err = problem_set(m->problem, ERR_BADARG, "%s has no cluster section",
                                  SHOWN_STR(file));
        if (data)
                config_set_data(&m->config, data);
        if (!err)
                err = config_finish(&m->config, m->problem);
        m->data = m->config.data;
        return err;
}

static void tell(const struct move *m, const struct direction *d, bool is_json, int64_t took_ms)
{
        char text[DURATION_TEXT_MAX];
        if (is_json) {
                printf("{\"jobs\":%llu,\"history\":%llu,\"batches\":%llu,\"resumed\":%s,"
                       "\"ms\":%lld}\n",
                       (unsigned long long)m->jobs, (unsigned long long)m->finished,
                       (unsigned long long)m->batches, m->is_resumed ? "true" : "false",
                       (long long)took_ms);
                return;
        }
        if (d->run == move_reopen)
                printf("the cluster's log is open again\n");
        else if (m->is_resumed)
                printf("all had been moved; the move is ended now\n");
        else
                printf("moved %llu live and %llu finished %s in %s\n", (unsigned long long)m->jobs,
                       (unsigned long long)m->finished, plural(m->finished, "job", "jobs"),
                       duration_words(took_ms, text));
        printf("%s\n", d->what_next);
}

static int run(const struct args *args, struct problem *p)
{
        struct move m = {.problem = p};
        int64_t began_ns = clock_boot_ns();
        const struct direction *d = choose(args, p);
        if (!d)
                return p->err;
        config_init(&m.config);
        progress_init(&m.progress, "moved", "jobs", 0, args_has(args, "json"));
        int err = take_config(&m, args, d);
        if (!err)
                err = d->run(&m);
        m.mover = mover_free(m.mover);
        cluster_store_close(&m.store);
        progress_end(&m.progress);
        if (!err)
                tell(&m, d, args_has(args, "json"), (clock_boot_ns() - began_ns) / NS_PER_MS);
        config_release(&m.config);
        return err;
}

int move_main(int argc, char **argv)
{
        struct args args = {0};
        struct problem p = {0};
        say_setup(SAY_WARN, false);
        int err = args_parse(&args, cli_move_options, argv + 1, argc - 1, &p);
        if (!err && args_has(&args, "help"))
                return cli_help("move", NULL);
        if (!err)
                err = run(&args, &p);
        if (!err && fflush(stdout) != 0)
                err = problem_set(&p, ERR_IO, "cannot write the output: %s", strerror(errno));
        if (err)
                fprintf(stderr, "weir move: %s\n", p.detail);
        return err_exit(err);
}
