/* See cluster.h. */
#include "serve/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "cluster/mirror_sql.h"
#include "cluster/sql_log.h"
#include "core/core.h"
#include "door/server.h"
#include "history/history.h"
#include "log/member.h"
#include "loop/loop.h"

/* Bytes of batches that are taken in one turn. */
#define TURN_BYTES (2 * MIB)
/* How often is looked who leads, and whether the connections have closed. */
#define LOOK_MS 200

enum step { FOLLOWING, TAKING_OVER, LEADING, EMPTYING };

struct cluster {
        struct ledger_options ledger; /* its logins are the configuration's */
        struct loop *loop;
        struct log *log;
        struct mirror *mirror;
        int stop_fd; /* ends what the mirror waits for */
        struct cluster_parts parts;
        enum step step;
        bool is_stopping;        /* nothing begins any more */
        struct loop_mail news;   /* the log has something to tell */
        struct loop_timer timer; /* looks */
        char leader[LOG_ADDRESS_MAX + 1];
        uint64_t differs_seq; /* it was said of this comparison that the state differs */
};

/* ---- who leads ---- */

/* Once for each comparison. */
static void look_at_digest(struct cluster *c, const struct log_member *members, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                const struct log_member *m = &members[i];
                if (!m->is_self || m->digest_seq == c->differs_seq ||
                    member_state(m, members, n) != MEMBER_DIFFERS)
                        continue;
                c->differs_seq = m->digest_seq;
                say_error("cluster",
                          "the state of this machine differs from that of the leader; start it "
                          "again to read the log anew",
                          "batch", SAY_I64(m->digest_seq));
        }
}

/* The server is told whom to relay to; the log knows it by the second. */
static void look_for_leader(struct cluster *c)
{
        struct log_member members[LOG_MEMBERS_MAX];
        size_t n = c->log->ops->members(c->log, members, ARRAY_LEN(members));
        look_at_digest(c, members, n);
        const char *leader = "";
        uint64_t have = core_durable_seq(c->parts.core), lag = 0;
        for (size_t i = 0; i < n; i++) {
                if (!members[i].is_leader || members[i].is_self)
                        continue;
                leader = members[i].address;
                lag = members[i].seq > have ? members[i].seq - have : 0;
        }
        if (strcmp(leader, c->leader) != 0)
                say_info("cluster", *leader ? "following" : "nobody leads", "leader", leader);
        (void)snprintf(c->leader, sizeof(c->leader), "%s", leader);
        server_follow(c->parts.server, *leader ? leader : NULL);
        server_set_lag(c->parts.server, lag);
}

/* ---- emptying ---- */

static void begin_emptying(struct cluster *c)
{
        bool was_leading = c->step == LEADING;
        c->step = EMPTYING;
        history_follow(c->parts.archive);
        mirror_sql_set_epoch(c->mirror, 0);
        if (was_leading)
                c->parts.leads(c->parts.ctx, false);
        server_follow(c->parts.server, NULL);
        server_hang_up(c->parts.server);
        loop_timer_start(&c->timer, 0, LOOK_MS);
}

static void empty_if_possible(struct cluster *c)
{
        if (!server_is_empty(c->parts.server) || !history_is_idle(c->parts.archive))
                return;
        core_empty(c->parts.core);
        core_follow(c->parts.core);
        c->parts.configure(c->parts.ctx);
        c->step = FOLLOWING;
        loop_post(c->loop, &c->news); /* what came meanwhile */
}

/* ---- what the log tells ---- */

/* Nothing that is wrong with a batch can be mended here, and going on without it would be worse. */
static void cannot_go_on(const struct problem *problem)
{
        say_error("cluster", "the log cannot be followed, stopping", "why", problem->detail);
        _exit(err_exit(problem->err));
}

static void on_arrived(void *ctx, uint64_t seq, struct slice batch)
{
        struct cluster *c = ctx;
        struct problem problem;
        if (core_arrive(c->parts.core, seq, batch, &problem) != OK)
                cannot_go_on(&problem);
        loop_advance(c->loop, core_steady_ns(c->parts.core));
}

static void on_restarted(void *ctx)
{
        struct cluster *c = ctx;
        say_warn("cluster", "what was read of the log does not hold, reading all of it again");
        begin_emptying(c);
}

static void on_history_leads(void *ctx)
{
        struct cluster *c = ctx;
        struct problem problem;
        ASSERT(c->step == TAKING_OVER);
        if (c->is_stopping)
                return;
        if (core_promote(c->parts.core, &problem) != OK)
                cannot_go_on(&problem);
        loop_led(c->loop);
        c->step = LEADING;
        server_lead(c->parts.server);
        c->parts.leads(c->parts.ctx, true);
        say_info("cluster", "leading", "batch", SAY_I64(core_durable_seq(c->parts.core)));
}

static void on_led(void *ctx, const struct log_tail *tail)
{
        struct cluster *c = ctx;
        c->step = TAKING_OVER;
        mirror_sql_set_epoch(c->mirror, tail->epoch);
        history_lead(c->parts.archive, on_history_leads, c);
}

static void on_lost(void *ctx, const struct problem *problem)
{
        struct cluster *c = ctx;
        say_warn("cluster", "not leading any more", "why", problem->detail);
        begin_emptying(c);
}

static void on_notify(void *ctx)
{
        struct cluster *c = ctx;
        loop_post(c->loop, &c->news);
}

static void take_news(void *ctx)
{
        struct cluster *c = ctx;
        if (c->step != EMPTYING && c->log->ops->poll(c->log, TURN_BYTES))
                loop_post(c->loop, &c->news);
}

static void on_look(void *ctx)
{
        struct cluster *c = ctx;
        if (c->step == EMPTYING)
                empty_if_possible(c);
        if (c->step == FOLLOWING)
                look_for_leader(c);
}

static void on_durable(void *ctx, uint64_t seq)
{
        struct cluster *c = ctx;
        loop_log_durable(c->loop, seq);
}

static void on_failed(void *ctx, const struct problem *problem)
{
        (void)ctx;
        cannot_go_on(problem);
}

/* ---- life ---- */

int cluster_open(const struct config_cluster *config, struct loop *loop, struct rng *rng,
                 struct cluster **ret, struct problem *problem)
{
        bool is_postgres = config->kind == CLUSTER_POSTGRES;
        struct cluster *c = xcalloc(1, sizeof(*c));
        c->ledger = config->ledger;
        c->loop = loop;
        c->stop_fd = eventfd(0, EFD_CLOEXEC);
        ASSERT(c->stop_fd >= 0);
        struct ledger *(*make)(const struct ledger_options *) =
                is_postgres ? ledger_postgres_new : ledger_mariadb_new;
        struct sql_log_options options = {.appender = make(&c->ledger),
                                          .watcher = make(&c->ledger),
                                          .node = config->node,
                                          .address = config->address,
                                          .priority = (int)config->priority,
                                          .is_threaded = true,
                                          .lease_ms = config->lease_ms,
                                          .boot_ns = clock_boot_ns,
                                          .rng = rng};
        int r = sql_log_open(&options, &c->log, problem);
        if (r != OK) {
                (void)close(c->stop_fd); /* holds nothing */
                free(c);
                return r;
        }
        c->mirror = is_postgres ? mirror_postgres_new(&c->ledger, c->stop_fd)
                                : mirror_mariadb_new(&c->ledger, c->stop_fd);
        c->news = (struct loop_mail){.deliver = take_news, .ctx = c};
        loop_timer_init(loop, &c->timer, on_look, c);
        c->log->durable = on_durable;
        c->log->failed = on_failed;
        c->log->notify = on_notify;
        c->log->arrived = on_arrived;
        c->log->restarted = on_restarted;
        c->log->led = on_led;
        c->log->lost = on_lost;
        c->log->ctx = c;
        *ret = c;
        return OK;
}

struct log *cluster_log(struct cluster *c)
{
        return c->log;
}

struct mirror *cluster_mirror(struct cluster *c)
{
        return c->mirror;
}

void cluster_begin(struct cluster *c, const struct cluster_parts *parts)
{
        struct log_tail unused;
        struct problem problem;
        c->parts = *parts;
        server_follow(c->parts.server, NULL);
        loop_timer_start(&c->timer, LOOK_MS, LOOK_MS);
        int r = c->log->ops->lead(c->log, &unused, &problem);
        ASSERT(r == ERR_UNAVAIL); /* it is told when it leads */
        loop_post(c->loop, &c->news);
}

void cluster_stop(struct cluster *c)
{
        uint64_t one = 1;
        c->is_stopping = true;
        ssize_t n = write(c->stop_fd, &one, sizeof(one));
        ASSERT(n == sizeof(one));
}

struct cluster *cluster_free(struct cluster *c)
{
        if (!c)
                return NULL;
        c->mirror = c->mirror->ops->free(c->mirror);
        (void)close(c->stop_fd); /* holds nothing */
        free(c);
        return NULL;
}
