/* See the header. */
#include "support/memory_ledger.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define LOCK_TIMEOUT_MS 20
#define DAY_MS          86400000

int64_t memory_now_ns = NS_PER_S;

int64_t memory_boot_ns(void)
{
        return memory_now_ns;
}

static struct memory_ledger *memory_of(struct ledger *l)
{
        return CONTAINER_OF(l, struct memory_ledger, base);
}

static int64_t now_ns(const struct memory_db *db)
{
        return db->is_threaded ? clock_boot_ns() : memory_now_ns;
}

static int64_t server_ms(const struct memory_db *db)
{
        return now_ns(db) / NS_PER_MS + db->skew_ms;
}

static bool rolls(struct memory_db *db, unsigned per_mille)
{
        return per_mille && rng_below(&db->dice, 1000) < per_mille;
}

/* ---- rows ---- */

static bool is_visible(const struct db_row *r)
{
        return r->state != ROW_WAITING && !r->is_trimmed;
}

/* Of that number, whatever its state; a trimmed one only when nobody took its number. */
static struct db_row *find(const struct memory_db *db, uint64_t seq)
{
        for (size_t i = db->n_rows; i-- > 0;)
                if (db->rows[i].head.seq == seq)
                        return &db->rows[i];
        return NULL;
}

const struct db_row *memory_db_row(const struct memory_db *db, uint64_t seq)
{
        const struct db_row *r = find(db, seq);
        return r && is_visible(r) ? r : NULL;
}

uint64_t memory_db_last(const struct memory_db *db)
{
        for (size_t i = db->n_rows; i-- > 0;)
                if (is_visible(&db->rows[i]))
                        return db->rows[i].head.seq;
        return 0;
}

static void remove_row(struct memory_db *db, size_t i)
{
        free(db->rows[i].body);
        db->n_rows--;
        memmove(&db->rows[i], &db->rows[i + 1], (db->n_rows - i) * sizeof(*db->rows));
}

/* All that was committed so far is on the other server, what was removed too. */
static void replicate(struct memory_db *db)
{
        for (size_t i = db->n_rows; i-- > 0;) {
                struct db_row *r = &db->rows[i];
                if (r->is_trimmed)
                        remove_row(db, i);
                else if (r->state == ROW_LOCAL)
                        r->state = ROW_SAFE;
        }
        db->lease_safe = db->lease;
}

static bool is_row(const struct db_row *r, const struct ledger_head *h)
{
        return r->head.epoch == h->epoch && strcmp(r->head.node, h->node) == 0;
}

/* The guard of an insert. */
static bool is_previous(const struct memory_db *db, const struct ledger_head *previous)
{
        if (previous->seq == 0)
                return memory_db_last(db) == 0;
        const struct db_row *r = memory_db_row(db, previous->seq);
        return r && is_row(r, previous);
}

/* LEDGER_DURABLE: it can be inserted. */
static enum ledger_outcome look_before_insert(const struct memory_db *db, uint64_t seq,
                                              const struct ledger_head *previous)
{
        if (!is_previous(db, previous) || memory_db_last(db) > seq || db->is_unsafe)
                return LEDGER_REFUSED;
        const struct db_row *r = find(db, seq);
        if (r && r->state == ROW_WAITING)
                return LEDGER_BUSY;
        if (r && !r->is_trimmed)
                return LEDGER_TAKEN;
        return db->is_full ? LEDGER_FULL : LEDGER_DURABLE;
}

static struct db_row *insert(struct memory_db *db, const struct ledger_head *head,
                             struct slice body, enum memory_state state)
{
        struct db_row *old = find(db, head->seq);
        if (old) /* trimmed, and its number taken again: the fence did not hold */
                remove_row(db, (size_t)(old - db->rows));
        if (db->n_rows == db->cap_rows) {
                db->cap_rows = db->cap_rows ? 2 * db->cap_rows : 64;
                db->rows = xrealloc(db->rows, db->cap_rows * sizeof(*db->rows));
        }
        size_t i = db->n_rows++;
        while (i > 0 && db->rows[i - 1].head.seq > head->seq) {
                db->rows[i] = db->rows[i - 1];
                i--;
        }
        struct db_row *r = &db->rows[i];
        *r = (struct db_row){.head = *head, .len = body.len, .state = state};
        r->body = xmalloc(body.len + 1);
        if (body.len)
                memcpy(r->body, body.ptr, body.len);
        if (state == ROW_SAFE)
                replicate(db); /* one order of commits */
        return r;
}

/* ---- what happens by itself ---- */

static void run_late(struct memory_db *db, const struct memory_late *late)
{
        struct slice body = slice_make(late->row.body, late->row.len);
        if (look_before_insert(db, late->row.head.seq, &late->previous) == LEDGER_DURABLE)
                (void)insert(db, &late->row.head, body, db->is_cut ? ROW_LOCAL : ROW_SAFE);
        free(late->row.body);
}

static void drop_late(struct memory_db *db)
{
        for (size_t i = 0; i < db->n_late; i++)
                free(db->late[i].row.body);
        db->n_late = 0;
}

void memory_db_tick(struct memory_db *db)
{
        int64_t now = now_ns(db);
        for (size_t i = db->n_late; i-- > 0;) {
                if (db->late[i].at_ns > now)
                        continue;
                struct memory_late late = db->late[i];
                db->late[i] = db->late[--db->n_late];
                run_late(db, &late);
        }
        for (size_t i = db->n_rows; i-- > 0;) {
                struct db_row *r = &db->rows[i];
                if (r->state != ROW_WAITING || !r->is_orphan || r->decided_ns > now || db->is_cut)
                        continue;
                if (rolls(db, 300)) {
                        remove_row(db, i);
                        db->n_vanished++;
                } else {
                        r->state = ROW_LOCAL;
                        replicate(db);
                }
        }
        if (!db->is_cut && rolls(db, 20))
                replicate(db);
}

void memory_db_heal(struct memory_db *db)
{
        db->is_cut = false;
        for (size_t i = 0; i < db->n_rows; i++)
                if (db->rows[i].state == ROW_WAITING)
                        db->rows[i].state = ROW_LOCAL;
        replicate(db);
}

void memory_db_restart(struct memory_db *db)
{
        db->life++;
        drop_late(db);
        for (size_t i = 0; i < db->n_rows; i++)
                if (db->rows[i].state == ROW_WAITING)
                        db->rows[i].state = ROW_LOCAL;
}

void memory_db_fail_over(struct memory_db *db)
{
        db->life++;
        db->n_failovers++;
        db->is_cut = false;
        drop_late(db);
        for (size_t i = db->n_rows; i-- > 0;) {
                db->rows[i].is_trimmed = false;
                if (db->rows[i].state == ROW_SAFE)
                        continue;
                remove_row(db, i);
                db->n_vanished++;
        }
        db->lease = db->lease_safe;
}

/* ---- calls ---- */

static bool is_alive(const struct memory_ledger *l)
{
        return l->is_open && l->life == l->db->life && !(l->is_away && *l->is_away);
}

/* A call waits, in vain until its deadline unless something changes.  mu held. */
static void wait_until(struct memory_ledger *l, int64_t until_ns, const struct sql_wait *w)
{
        struct memory_db *db = l->db;
        if (db->is_threaded) {
                struct sql_wait wait = *w;
                wait.deadline_ns = until_ns < w->deadline_ns ? until_ns : w->deadline_ns;
                (void)pthread_mutex_unlock(&db->mu);
                int r = wait_for(&wait, -1, 0, NULL);
                (void)pthread_mutex_lock(&db->mu);
                (void)r; /* it was in vain either way */
        } else if (db->meanwhile) {
                db->meanwhile(db->ctx, l, until_ns);
        } else if (memory_now_ns < until_ns) {
                memory_now_ns = until_ns;
        }
}

static int hang_up(struct memory_ledger *l, int err, struct problem *p)
{
        l->is_open = false;
        return problem_set(p, err, err == ERR_TIMEOUT ? "no answer in time" : "connection lost");
}

/* What may come between a call and its work, or between that and its answer.  mu held. */
static int pass(struct memory_ledger *l, const struct sql_wait *w, struct problem *p)
{
        struct memory_db *db = l->db;
        if (db->meanwhile && rolls(db, db->per_mille_pause))
                db->meanwhile(db->ctx, l, 0);
        bool is_away = l->is_away && *l->is_away;
        if (is_away && !db->meanwhile) /* at once: the clock is that of all */
                return hang_up(l, ERR_IO, p);
        if (db->is_frozen || is_away) {
                int64_t until_ns = w->deadline_ns;
                wait_until(l, until_ns, w);
                if (now_ns(db) >= until_ns || !is_alive(l) || db->is_frozen)
                        return hang_up(l, ERR_TIMEOUT, p);
        }
        if (!is_alive(l) || rolls(db, db->per_mille_call))
                return hang_up(l, ERR_IO, p);
        return OK;
}

static int begin(struct memory_ledger *l, const struct sql_wait *w, struct problem *p)
{
        (void)pthread_mutex_lock(&l->db->mu);
        int r = pass(l, w, p);
        if (r != OK)
                (void)pthread_mutex_unlock(&l->db->mu);
        return r;
}

static int end(struct memory_ledger *l, const struct sql_wait *w, struct problem *p)
{
        int r = pass(l, w, p);
        (void)pthread_mutex_unlock(&l->db->mu);
        return r;
}

static int memory_connect(struct ledger *base, const struct sql_wait *w, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        struct memory_db *db = l->db;
        l->is_open = true;
        (void)pthread_mutex_lock(&db->mu);
        l->life = db->life;
        int r = pass(l, w, p);
        if (r == OK && (db->is_down || rolls(db, db->per_mille_connect)))
                r = hang_up(l, ERR_IO, p);
        if (r == OK && db->is_unsafe)
                r = problem_set(p, ERR_STATE, "synchronous_standby_names is empty");
        l->is_open = r == OK;
        (void)pthread_mutex_unlock(&db->mu);
        return r;
}

static void memory_disconnect(struct ledger *base)
{
        memory_of(base)->is_open = false;
}

static bool memory_is_open(const struct ledger *base)
{
        return CONTAINER_OF(base, const struct memory_ledger, base)->is_open;
}

static const char *memory_where(const struct ledger *base)
{
        (void)base;
        return "memory";
}

static enum memory_fate draw_fate(struct memory_db *db)
{
        enum memory_fate fate = db->next_append;
        db->next_append = FATE_NONE;
        if (fate == FATE_NONE && rolls(db, db->per_mille_append))
                fate = (enum memory_fate)(1 + rng_below(&db->dice, FATES - 1));
        db->n_fates[fate]++;
        db->n_appends++;
        return fate;
}

static void put_late(struct memory_db *db, const struct ledger_head *head, struct slice body,
                     const struct ledger_head *previous)
{
        if (db->n_late == MEMORY_LATE_MAX)
                return;
        struct memory_late *late = &db->late[db->n_late++];
        *late = (struct memory_late){.row = {.head = *head, .len = body.len},
                                     .previous = *previous,
                                     .at_ns = now_ns(db) +
                                              (int64_t)rng_below(&db->dice, 20000) * NS_PER_MS};
        late->row.body = xmalloc(body.len + 1);
        if (body.len)
                memcpy(late->row.body, body.ptr, body.len);
}

/* The other server is away: waits for it. */
static bool await_replication(struct memory_ledger *l, const struct ledger_head *head,
                              const struct sql_wait *w)
{
        struct memory_db *db = l->db;
        wait_until(l, w->deadline_ns, w);
        struct db_row *r = find(db, head->seq);
        bool is_mine = r && is_row(r, head);
        if (is_mine && r->state == ROW_SAFE && is_alive(l))
                return true;
        if (is_mine && r->state == ROW_WAITING) {
                r->is_orphan = true;
                r->decided_ns = now_ns(db) + (int64_t)rng_below(&db->dice, 20000) * NS_PER_MS;
        }
        return false;
}

/* mu held; true: it is safe, and the answer can be sent. */
static bool write_row(struct memory_ledger *l, const struct ledger_head *head, struct slice body,
                      const struct ledger_head *previous, const struct sql_wait *w)
{
        struct memory_db *db = l->db;
        switch (draw_fate(db)) {
        case FATE_NONE:
                (void)insert(db, head, body, db->is_cut ? ROW_WAITING : ROW_SAFE);
                return !db->is_cut || await_replication(l, head, w);
        case FATE_UNANSWERED:
                (void)insert(db, head, body, db->is_cut ? ROW_LOCAL : ROW_SAFE);
                return false;
        case FATE_LOCAL:
                (void)insert(db, head, body, ROW_LOCAL);
                return false;
        case FATE_WAITING: {
                struct db_row *r = insert(db, head, body, ROW_WAITING);
                r->is_orphan = true;
                r->decided_ns = now_ns(db) + (int64_t)rng_below(&db->dice, 20000) * NS_PER_MS;
                return false;
        }
        case FATE_LATE:
                put_late(db, head, body, previous);
                return false;
        case FATE_LOST:
        case FATES:
                return false;
        }
        return false;
}

static enum ledger_outcome memory_append(struct ledger *base, const struct ledger_head *head,
                                         struct slice body, const struct ledger_head *previous,
                                         const struct sql_wait *w, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        if (begin(l, w, p) != OK)
                return LEDGER_UNKNOWN;
        enum ledger_outcome outcome = look_before_insert(l->db, head->seq, previous);
        if (outcome == LEDGER_BUSY)
                wait_until(l, now_ns(l->db) + LOCK_TIMEOUT_MS * NS_PER_MS, w);
        if (outcome == LEDGER_DURABLE && !write_row(l, head, body, previous, w)) {
                (void)hang_up(l, ERR_IO, p);
                (void)pthread_mutex_unlock(&l->db->mu);
                return LEDGER_UNKNOWN;
        }
        (void)problem_set(p, ERR_UNAVAIL, "outcome %d", (int)outcome);
        return end(l, w, p) == OK ? outcome : LEDGER_UNKNOWN;
}

static int memory_has(struct ledger *base, const struct ledger_head *head, struct slice body,
                      const struct sql_wait *w, struct ledger_head *ret_seen, bool *ret,
                      struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        const struct db_row *row = memory_db_row(l->db, head->seq);
        *ret_seen = row ? row->head : (struct ledger_head){0};
        *ret = row && is_row(row, head) && row->head.kind == head->kind &&
               slice_eq(slice_make(row->body, row->len), body);
        return end(l, w, p);
}

static int memory_barrier(struct ledger *base, const struct sql_wait *w, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        if (l->db->is_cut)
                wait_until(l, w->deadline_ns, w);
        if (l->db->is_cut || !is_alive(l)) {
                r = hang_up(l, ERR_TIMEOUT, p);
                (void)pthread_mutex_unlock(&l->db->mu);
                return r;
        }
        replicate(l->db);
        return end(l, w, p);
}

static int memory_tail(struct ledger *base, const struct sql_wait *w, struct ledger_head *ret_last,
                       uint64_t *ret_first, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        const struct memory_db *db = l->db;
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        uint64_t last = memory_db_last(db);
        *ret_last = last ? memory_db_row(db, last)->head : (struct ledger_head){0};
        *ret_first = last + 1;
        for (size_t i = db->n_rows; i-- > 0;)
                if (is_visible(&db->rows[i]) && db->rows[i].head.kind != LEDGER_EPOCH)
                        *ret_first = db->rows[i].head.seq;
        return end(l, w, p);
}

/* The rows as they are now: what happens while fn is called does not change them. */
static int memory_read(struct ledger *base, uint64_t from, uint64_t bytes, const struct sql_wait *w,
                       void (*fn)(void *ctx, const struct ledger_head *head, struct slice body),
                       void *ctx, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        const struct memory_db *db = l->db;
        uint64_t got = 0;
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        const struct db_row *row = memory_db_row(db, from);
        bool is_gap = !row && memory_db_last(db) > from;
        for (; row && got <= bytes; row = memory_db_row(db, ++from)) {
                fn(ctx, &row->head, slice_make(row->body, row->len));
                got += row->len + 1;
        }
        r = end(l, w, p);
        if (r == OK && is_gap)
                return problem_set(p, ERR_NOTFOUND, "batch %llu is gone", (unsigned long long)from);
        return r;
}

static int memory_trim(struct ledger *base, uint64_t *from, uint64_t before,
                       const struct sql_wait *w, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        struct memory_db *db = l->db;
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        uint64_t to = before - *from > LEDGER_TRIM_ROWS ? *from + LEDGER_TRIM_ROWS : before;
        if (to > memory_db_last(db)) /* it stays, and is not passed */
                to = memory_db_last(db);
        for (size_t i = 0; i < db->n_rows; i++) {
                struct db_row *row = &db->rows[i];
                if (is_visible(row) && row->head.kind != LEDGER_EPOCH && row->head.seq >= *from &&
                    row->head.seq < to)
                        row->is_trimmed = true;
        }
        r = end(l, w, p);
        if (r == OK && to > *from)
                *from = to;
        return r;
}

static int memory_lease_take(struct ledger *base, const char *node, int64_t ms,
                             const struct sql_wait *w, bool *ret_is_mine, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        struct memory_lease *lease = &l->db->lease;
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        if (l->db->is_full) {
                (void)pthread_mutex_unlock(&l->db->mu);
                return problem_set(p, ERR_NOSPACE, "the disk is full");
        }
        int64_t now_ms = server_ms(l->db);
        bool is_mine = !lease->node[0] || lease->until_ms < now_ms ||
                       lease->until_ms > now_ms + LEDGER_LEASE_FAR * ms ||
                       strcmp(lease->node, node) == 0;
        if (is_mine) {
                (void)snprintf(lease->node, sizeof(lease->node), "%s", node);
                lease->until_ms = now_ms + ms;
        }
        *ret_is_mine = is_mine;
        return end(l, w, p);
}

static int memory_lease_look(struct ledger *base, const struct sql_wait *w,
                             struct ledger_lease *ret, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        memcpy(ret->node, l->db->lease.node, sizeof(ret->node));
        ret->left_ms = l->db->lease.until_ms - server_ms(l->db);
        return end(l, w, p);
}

static int memory_lease_give(struct ledger *base, const char *node, const char *to, int64_t ms,
                             const struct sql_wait *w, bool *ret_done, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        struct memory_lease *lease = &l->db->lease;
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        *ret_done = strcmp(lease->node, node) == 0;
        if (*ret_done) {
                (void)snprintf(lease->node, sizeof(lease->node), "%s", to);
                lease->until_ms = server_ms(l->db) + ms - (ms == 0);
        }
        return end(l, w, p);
}

static int64_t memory_lease_ms(const struct ledger *base)
{
        return CONTAINER_OF(base, const struct memory_ledger, base)->db->lease_min_ms;
}

static int memory_meet(struct ledger *base, const struct log_member *self, const char *node,
                       const struct sql_wait *w, struct log_member *ret, size_t max, size_t *ret_n,
                       struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        struct memory_db *db = l->db;
        size_t i = 0, n = 0;
        (void)node; /* a name has one row */
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        while (self && i < db->n_members && strcmp(db->members[i].node, self->node) != 0)
                i++;
        if (self && i < LOG_MEMBERS_MAX) {
                db->members[i] = *self;
                db->members_ms[i] = server_ms(db);
                db->n_members += i == db->n_members;
        }
        for (i = 0; i < db->n_members && n < max; i++) {
                int64_t seen_ms = server_ms(db) - db->members_ms[i];
                if (seen_ms > DAY_MS)
                        continue;
                ret[n] = db->members[i];
                ret[n].is_self = ret[n].is_leader = false;
                ret[n++].seen_ms = seen_ms;
        }
        *ret_n = n;
        return end(l, w, p);
}

static int memory_verify(struct ledger *base, const struct sql_wait *w, struct problem *p)
{
        struct memory_ledger *l = memory_of(base);
        int r = begin(l, w, p);
        if (r != OK)
                return r;
        bool is_unsafe = l->db->is_unsafe;
        r = end(l, w, p);
        if (r == OK && is_unsafe)
                return problem_set(p, ERR_STATE, "synchronous_standby_names is empty");
        return r;
}

static struct ledger *memory_free(struct ledger *base)
{
        free(memory_of(base));
        return NULL;
}

static const struct ledger_ops memory_ops = {
        .connect = memory_connect,
        .disconnect = memory_disconnect,
        .is_open = memory_is_open,
        .where = memory_where,
        .append = memory_append,
        .has = memory_has,
        .barrier = memory_barrier,
        .tail = memory_tail,
        .read = memory_read,
        .trim = memory_trim,
        .lease_take = memory_lease_take,
        .lease_look = memory_lease_look,
        .lease_give = memory_lease_give,
        .lease_ms = memory_lease_ms,
        .meet = memory_meet,
        .verify = memory_verify,
        .free = memory_free,
};

struct ledger *memory_ledger_new(struct memory_db *db, const bool *is_away, void *owner)
{
        struct memory_ledger *l = xcalloc(1, sizeof(*l));
        l->base.ops = &memory_ops;
        l->db = db;
        l->is_away = is_away;
        l->owner = owner;
        return &l->base;
}

void memory_db_init(struct memory_db *db, uint64_t seed)
{
        *db = (struct memory_db){.lease_min_ms = 3000};
        pthread_mutexattr_t attr;
        (void)pthread_mutexattr_init(&attr);
        /* Without threads a call may be made while another one waits. */
        (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
        (void)pthread_mutex_init(&db->mu, &attr);
        (void)pthread_mutexattr_destroy(&attr);
        rng_init_seed(&db->dice, seed);
}

void memory_db_release(struct memory_db *db)
{
        drop_late(db);
        for (size_t i = 0; i < db->n_rows; i++)
                free(db->rows[i].body);
        free(db->rows);
        (void)pthread_mutex_destroy(&db->mu);
}
