/* See cluster_store.h.
 *
 * What a row that is read must be: see cluster/sql_log_watcher.c.  Here all is read over one
 * connection and in one go, and a barrier at the end makes it as safe as an append. */
#include "serve/cluster_store.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cluster/mirror_sql.h"

#define CALL_MS    30000
#define READ_BYTES (4 * MIB)
#define LOOK_MS    200
#define RENEWED_MS 500  /* a lease whose end moves by more was renewed */
#define GONE_MS    3500 /* so long after its last sign of life a machine does not run */

static struct sql_wait wait_now(const struct cluster_store *s)
{
        return (struct sql_wait){.stop_fd = s->stop_fd,
                                 .deadline_ns = clock_boot_ns() + CALL_MS * NS_PER_MS,
                                 .timeout_ms = CALL_MS};
}

int cluster_store_open(struct cluster_store *s, const struct config_cluster *config,
                       struct problem *problem)
{
        bool is_postgres = config->kind == CLUSTER_POSTGRES;
        *s = (struct cluster_store){.options = config->ledger, .stop_fd = eventfd(0, EFD_CLOEXEC)};
        ASSERT(s->stop_fd >= 0);
        s->ledger =
                is_postgres ? ledger_postgres_new(&s->options) : ledger_mariadb_new(&s->options);
        s->mirror = is_postgres ? mirror_postgres_new(&s->options, s->stop_fd)
                                : mirror_mariadb_new(&s->options, s->stop_fd);
        struct sql_wait w = wait_now(s);
        return s->ledger->ops->connect(s->ledger, &w, problem);
}

void cluster_store_close(struct cluster_store *s)
{
        if (!s->ledger)
                return;
        s->ledger = s->ledger->ops->free(s->ledger);
        s->mirror = s->mirror->ops->free(s->mirror);
        (void)close(s->stop_fd); /* holds nothing */
}

/* ---- reading ---- */

struct reading {
        struct cluster_log *log;
        struct ledger_head at; /* the last that was read; seq 0: none */
        uint64_t next;
        log_read_fn fn;
        void *ctx;
        int err;
};

static bool follows(const struct reading *r, const struct ledger_head *h)
{
        if (h->seq != r->next)
                return false;
        if (!r->at.seq)
                return true;
        if (h->epoch == r->at.epoch && strcmp(h->node, r->at.node) == 0)
                return h->kind != LEDGER_EPOCH;
        return h->kind == LEDGER_EPOCH && h->epoch == r->at.epoch + 1;
}

static void take_row(void *ctx, const struct ledger_head *h, struct slice body)
{
        struct reading *r = ctx;
        if (r->err || h->seq > r->log->last.seq)
                return;
        if (!follows(r, h)) {
                r->err = ERR_CONFLICT;
                return;
        }
        r->at = *h;
        r->next = h->seq + 1;
        if (h->kind == LEDGER_CLOSED) {
                size_t n = body.len < sizeof(r->log->closed) ? body.len : LEDGER_CLOSED_MAX - 1;
                memcpy(r->log->closed, body.ptr, n);
                r->log->closed[n] = '\0';
        } else if (h->kind == LEDGER_OPENED) {
                r->log->closed[0] = '\0';
        } else if (body.len) {
                r->log->batches++;
                r->err = r->fn ? r->fn(r->ctx, h->seq, body) : OK;
        }
}

static int changed(struct problem *problem)
{
        return problem_set(problem, ERR_CONFLICT, "the log of the cluster changed meanwhile");
}

/* One page. */
static int read_some(struct cluster_store *s, struct reading *r, struct problem *problem)
{
        struct sql_wait w = wait_now(s);
        uint64_t from = r->next;
        int err = s->ledger->ops->read(s->ledger, from, READ_BYTES, &w, take_row, r, problem);
        if (r->err == ERR_CONFLICT || err == ERR_NOTFOUND || (!err && !r->err && r->next == from))
                return changed(problem);
        return r->err ? r->err : err; /* fn has set the problem */
}

int cluster_store_read(struct cluster_store *s, log_read_fn fn, void *ctx, struct cluster_log *ret,
                       struct problem *problem)
{
        const struct ledger_ops *ops = s->ledger->ops;
        struct sql_wait w = wait_now(s);
        *ret = (struct cluster_log){0};
        int err = ops->tail(s->ledger, &w, &ret->last, &ret->first, problem);
        struct reading r = {.log = ret, .next = ret->first, .fn = fn, .ctx = ctx};
        while (!err && r.next <= ret->last.seq)
                err = read_some(s, &r, problem);
        /* The end of what was read is what the tail was. */
        if (!err && r.at.seq &&
            (r.at.epoch != ret->last.epoch || strcmp(r.at.node, ret->last.node) != 0))
                err = changed(problem);
        if (!err) {
                w = wait_now(s);
                err = ops->barrier(s->ledger, &w, problem);
        }
        return err;
}

/* ---- who uses it ---- */

/* "b" of "b.0123456789abcdef". */
static int name_len(const char *node)
{
        const char *dot = strrchr(node, '.');
        return dot && strlen(dot) == 17 ? (int)(dot - node) : (int)strlen(node);
}

struct idle {
        int64_t until_ns; /* the lease, as it was first seen; 0: not yet */
        struct log_member seen[LOG_MEMBERS_MAX];
        size_t n_seen;
};

/* *ret: it is over. */
static int check_lease(struct cluster_store *s, struct idle *i, bool *ret, struct problem *problem)
{
        struct ledger_lease lease = {0};
        struct sql_wait w = wait_now(s);
        int err = s->ledger->ops->lease_look(s->ledger, &w, &lease, problem);
        *ret = !lease.node[0] || lease.left_ms <= 0;
        if (err || *ret)
                return err;
        int64_t until_ns = clock_boot_ns() + lease.left_ms * NS_PER_MS;
        if (!i->until_ns)
                i->until_ns = until_ns;
        if (until_ns - i->until_ns > RENEWED_MS * NS_PER_MS)
                return problem_set(problem, ERR_LOCKED,
                                   "the weir on machine %.*s leads the cluster: stop all of them "
                                   "first",
                                   name_len(lease.node), lease.node);
        return OK;
}

static bool was_seen_since(const struct idle *i, const struct log_member *m)
{
        for (size_t k = 0; k < i->n_seen; k++)
                if (strcmp(i->seen[k].node, m->node) == 0)
                        return m->seen_ms < i->seen[k].seen_ms;
        return i->n_seen > 0;
}

/* *ret: none of them gives a sign of life. */
static int check_members(struct cluster_store *s, struct idle *i, bool *ret,
                         struct problem *problem)
{
        struct log_member members[LOG_MEMBERS_MAX];
        struct sql_wait w = wait_now(s);
        size_t n = 0;
        int err = s->ledger->ops->meet(s->ledger, NULL, NULL, &w, members, LOG_MEMBERS_MAX, &n,
                                       problem);
        *ret = true;
        for (size_t k = 0; k < n && !err; k++) {
                *ret &= members[k].seen_ms > GONE_MS;
                if (was_seen_since(i, &members[k]))
                        err = problem_set(problem, ERR_LOCKED,
                                          "the weir on machine %s (%s) is running: stop all of "
                                          "the cluster first",
                                          members[k].node, SHOWN_STR(members[k].address));
        }
        memcpy(i->seen, members, n * sizeof(*members));
        i->n_seen = n;
        return err;
}

int cluster_store_check_idle(struct cluster_store *s, struct problem *problem)
{
        struct idle i = {0};
        bool is_free = false, is_quiet = false;
        for (;;) {
                int err = check_lease(s, &i, &is_free, problem);
                if (!err)
                        err = check_members(s, &i, &is_quiet, problem);
                if (err || (is_free && is_quiet))
                        return err;
                (void)poll(NULL, 0, LOOK_MS); /* sleeps */
        }
}
