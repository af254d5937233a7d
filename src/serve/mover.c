/* See mover.h. */
#include "serve/mover.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/rand.h"
#include "cluster/sql_log.h"

#define POLL_BYTES (16 * MIB)
#define LEAD_MS    120000

struct mover {
        struct ledger_options options;
        struct log *log;
        uint64_t epoch;
        uint64_t seq; /* the last row */
        bool is_leading;
        struct problem why; /* it does not lead */
        pthread_mutex_t mu;
        pthread_cond_t changed;
        /* Under mu. */
        uint64_t durable_seq;
        bool has_news;
};

/* ---- what the log tells ---- */

static void on_durable(void *ctx, uint64_t seq) /* the log's thread */
{
        struct mover *m = ctx;
        (void)pthread_mutex_lock(&m->mu); /* an ordinary mutex: cannot fail */
        m->durable_seq = seq;
        (void)pthread_cond_signal(&m->changed);
        (void)pthread_mutex_unlock(&m->mu);
}

static void on_notify(void *ctx) /* any thread */
{
        struct mover *m = ctx;
        (void)pthread_mutex_lock(&m->mu);
        m->has_news = true;
        (void)pthread_cond_signal(&m->changed);
        (void)pthread_mutex_unlock(&m->mu);
}

static void on_arrived(void *ctx, uint64_t seq, struct slice batch)
{
        (void)ctx; /* it is read from the database when it is wanted */
        (void)seq;
        (void)batch;
}

static void on_restarted(void *ctx)
{
        (void)ctx; /* nothing was kept */
}

static void on_led(void *ctx, const struct log_tail *tail)
{
        struct mover *m = ctx;
        m->is_leading = true;
        m->epoch = tail->epoch;
        m->seq = tail->last_seq;
}

static void on_lost(void *ctx, const struct problem *problem)
{
        struct mover *m = ctx;
        m->is_leading = false;
        m->why = *problem;
}

/* Hears what there is, or waits for it a little. */
static void hear(struct mover *m)
{
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until); /* always there */
        until.tv_sec++;
        (void)pthread_mutex_lock(&m->mu);
        while (!m->has_news && m->durable_seq <= m->seq)
                if (pthread_cond_timedwait(&m->changed, &m->mu, &until) == ETIMEDOUT)
                        break;
        bool is_more = m->has_news;
        m->has_news = false;
        (void)pthread_mutex_unlock(&m->mu);
        while (is_more)
                is_more = m->log->ops->poll(m->log, POLL_BYTES);
}

/* ---- life ---- */

static struct mover *new_mover(const struct config_cluster *config)
{
        pthread_condattr_t attr;
        struct mover *m = xcalloc(1, sizeof(*m));
        m->options = config->ledger;
        (void)pthread_condattr_init(&attr); /* none of these fails */
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&m->changed, &attr);
        (void)pthread_condattr_destroy(&attr);
        (void)pthread_mutex_init(&m->mu, NULL);
        return m;
}

static int open_log(struct mover *m, const struct config_cluster *config, struct problem *problem)
{
        struct rng rng;
        struct log_tail unused;
        struct ledger *(*make)(const struct ledger_options *) =
                config->kind == CLUSTER_POSTGRES ? ledger_postgres_new : ledger_mariadb_new;
        rng_init_system(&rng);
        struct sql_log_options options = {.appender = make(&m->options),
                                          .watcher = make(&m->options),
                                          .node = config->node,
                                          .address = config->address,
                                          .priority = (int)config->priority,
                                          .is_threaded = true,
                                          .lease_ms = config->lease_ms,
                                          .boot_ns = clock_boot_ns,
                                          .rng = &rng,
                                          .is_mover = true};
        int err = sql_log_open(&options, &m->log, problem);
        if (err)
                return err;
        m->log->durable = on_durable;
        m->log->notify = on_notify;
        m->log->arrived = on_arrived;
        m->log->restarted = on_restarted;
        m->log->led = on_led;
        m->log->lost = on_lost;
        m->log->ctx = m;
        (void)m->log->ops->lead(m->log, &unused, problem); /* later: on_led() */
        return OK;
}

int mover_lead(const struct config_cluster *config, uint64_t last, struct mover **ret,
               struct problem *problem)
{
        int64_t until_ns = clock_boot_ns() + LEAD_MS * NS_PER_MS;
        struct mover *m = new_mover(config);
        int err = open_log(m, config, problem);
        while (!err && !m->is_leading && clock_boot_ns() < until_ns)
                hear(m);
        if (!err && !m->is_leading)
                err = problem_set(problem, ERR_TIMEOUT,
                                  "the lead of the cluster's log cannot be had");
        if (!err && m->seq != last + 1)
                err = problem_set(problem, ERR_CONFLICT,
                                  "somebody else has written to the log of the cluster meanwhile");
        if (err)
                m = mover_free(m);
        *ret = m;
        return err;
}

struct mover *mover_free(struct mover *m)
{
        if (!m)
                return NULL;
        if (m->log)
                m->log = m->log->ops->close(m->log);
        (void)pthread_cond_destroy(&m->changed);
        (void)pthread_mutex_destroy(&m->mu);
        free(m);
        return NULL;
}

uint64_t mover_epoch(const struct mover *m)
{
        return m->epoch;
}

uint64_t mover_seq(const struct mover *m)
{
        return m->seq;
}

/* ---- writing ---- */

static bool is_durable(struct mover *m, uint64_t seq)
{
        (void)pthread_mutex_lock(&m->mu);
        bool is = m->durable_seq >= seq;
        (void)pthread_mutex_unlock(&m->mu);
        return is;
}

int mover_check(struct mover *m, struct problem *problem)
{
        if (m->is_leading)
                return OK;
        return problem_set(problem, ERR_UNAVAIL, "the lead of the cluster's log was lost: %s",
                           m->why.detail);
}

static int write_row(struct mover *m, enum ledger_kind kind, struct slice body,
                     struct problem *problem)
{
        uint64_t seq = m->seq + 1;
        int err = mover_check(m, problem);
        if (err)
                return err;
        err = kind == LEDGER_BATCH ? m->log->ops->append(m->log, seq, body)
                                   : sql_log_append_mark(m->log, seq, kind, body);
        if (err)
                return problem_set(problem, err, "no memory for a batch");
        while (m->is_leading && !is_durable(m, seq))
                hear(m);
        if (is_durable(m, seq))
                m->seq = seq;
        return m->seq == seq ? OK : mover_check(m, problem);
}

int mover_append(void *mover, struct slice batch, struct problem *problem)
{
        return write_row(mover, LEDGER_BATCH, batch, problem);
}

int mover_mark(struct mover *m, enum ledger_kind kind, struct slice why, struct problem *problem)
{
        return write_row(m, kind, why, problem);
}

void mover_trim(struct mover *m, uint64_t before)
{
        (void)m->log->ops->trim(m->log, before); /* tells nothing */
}
