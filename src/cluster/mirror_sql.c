/* See mirror_sql_int.h. */
#include "cluster/mirror_sql.h"

#include <stdlib.h>

#include "base/clock.h"
#include "cluster/mirror_sql_int.h"

/* Longer than a database stalls when one of its servers dies, and enough for a long transaction. */
#define CALL_MS 20000

struct sql_mirror *sql_mirror_new(const struct mirror_ops *ops, struct ledger *ledger,
                                  const struct ledger_options *options, int stop_fd)
{
        struct sql_mirror *m = xcalloc(1, sizeof(*m));
        m->base.ops = ops;
        m->ledger = ledger;
        m->options = options;
        m->stop_fd = stop_fd;
        return m;
}

struct sql_mirror *sql_mirror_of(struct mirror *m)
{
        return CONTAINER_OF(m, struct sql_mirror, base);
}

struct mirror *sql_mirror_free(struct mirror *mirror)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        m->ledger = m->ledger->ops->free(m->ledger);
        buf_release(&m->sql);
        free(m);
        return NULL;
}

void mirror_sql_set_epoch(struct mirror *m, uint64_t epoch)
{
        atomic_store(&sql_mirror_of(m)->epoch, epoch);
}

struct sql_wait sql_mirror_wait(const struct sql_mirror *m)
{
        return (struct sql_wait){.stop_fd = m->stop_fd,
                                 .deadline_ns = clock_boot_ns() + CALL_MS * NS_PER_MS,
                                 .timeout_ms = CALL_MS};
}

int sql_mirror_open(struct sql_mirror *m, struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        if (m->ledger->ops->is_open(m->ledger))
                return OK;
        m->is_piping = false;
        return m->ledger->ops->connect(m->ledger, &w, problem);
}

int sql_mirror_hang_up(struct sql_mirror *m, int err)
{
        m->ledger->ops->disconnect(m->ledger);
        m->is_piping = false;
        return err;
}

void sql_mirror_abandon(struct mirror *m)
{
        (void)sql_mirror_hang_up(sql_mirror_of(m), OK); /* the server rolls back */
}

int sql_mirror_epoch(struct sql_mirror *m, uint64_t *ret, struct problem *problem)
{
        *ret = atomic_load(&m->epoch);
        return *ret ? OK : problem_set(problem, ERR_STATE, "this machine does not lead");
}

int sql_mirror_refused(struct sql_mirror *m, struct problem *problem)
{
        return sql_mirror_hang_up(
                m, problem_set(problem, ERR_STATE,
                               "%s refuses transaction %llu of history: another machine leads",
                               m->ledger->ops->where(m->ledger), (unsigned long long)m->change));
}

/* ---- pages ---- */

void sql_mirror_bound_add(struct sql_mirror_bound *b, uint64_t change, uint64_t bytes)
{
        if (change != b->change) {
                if (b->n && b->bytes >= b->bytes_max && !b->upto)
                        b->upto = b->change;
                b->before = b->change;
                b->change = change;
        }
        b->bytes += bytes;
        b->n++;
}

uint64_t sql_mirror_bound_end(const struct sql_mirror_bound *b, uint64_t last)
{
        if (b->upto)
                return b->upto;
        if (b->n < SQL_MIRROR_LOOK_ROWS)
                return last;
        /* There may be more rows of the last change than were looked at. */
        return b->before ? b->before : b->change;
}
