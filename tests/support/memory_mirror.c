#include "memory_mirror.h"

#include <stdlib.h>

struct memory_mirror_op {
        enum { OP_PUT, OP_BURY, OP_DROP } what;
        enum mirror_kind kind;
        uint64_t key;
        struct buf bytes;
};

static struct memory_mirror *of(struct mirror *m)
{
        return CONTAINER_OF(m, struct memory_mirror, base);
}

static void lock(struct memory_mirror *m)
{
        (void)pthread_mutex_lock(&m->store->lock);
}

static void unlock(struct memory_mirror *m)
{
        (void)pthread_mutex_unlock(&m->store->lock);
}

/* With the lock: does this call fail? */
static int fail(struct memory_mirror *m, struct problem *p)
{
        bool is_broken = m->is_broken;
        m->is_broken = false;
        bool is_lost = rng_below(&m->store->dice, 100) < m->lost;
        m->n_faults += is_lost;
        if (is_broken || m->is_away || is_lost)
                return problem_set(p, ERR_IO, "the mirror cannot be reached");
        return OK;
}

/* With the lock. */
static int check_fence(struct memory_mirror *m, struct problem *p)
{
        if (!m->epoch || m->epoch < m->store->epoch)
                return problem_set(p, ERR_STATE, "another machine leads");
        if (m->change != m->store->change + 1)
                return problem_set(p, ERR_STATE, "transaction %llu is not the next one",
                                   (unsigned long long)m->change);
        return OK;
}

static void forget(struct memory_mirror *m)
{
        for (size_t i = 0; i < m->n_ops; i++)
                buf_release(&m->ops[i].bytes);
        m->n_ops = 0;
}

static int do_begin(struct mirror *mirror, uint64_t change, struct problem *p)
{
        struct memory_mirror *m = of(mirror);
        forget(m);
        m->change = change;
        lock(m);
        int err = fail(m, p);
        if (!err)
                err = check_fence(m, p);
        unlock(m);
        return err;
}

static int add(struct memory_mirror *m, struct memory_mirror_op op, struct slice bytes,
               struct problem *p)
{
        lock(m);
        int err = fail(m, p);
        unlock(m);
        if (err)
                return err;
        if (m->n_ops == m->cap_ops) {
                m->cap_ops = m->cap_ops ? m->cap_ops * 2 : 16;
                m->ops = xrealloc(m->ops, m->cap_ops * sizeof(*m->ops));
        }
        buf_init(&op.bytes, 0);
        buf_put_slice(&op.bytes, bytes);
        m->ops[m->n_ops++] = op;
        return OK;
}

static int do_put(struct mirror *m, const struct mirror_row *row, struct problem *p)
{
        ASSERT(row->change == of(m)->change && !row->dead.len);
        return add(of(m),
                   (struct memory_mirror_op){.what = OP_PUT, .kind = row->kind, .key = row->key},
                   row->body, p);
}

static int do_bury(struct mirror *m, uint64_t block, struct slice dead, struct problem *p)
{
        return add(of(m),
                   (struct memory_mirror_op){.what = OP_BURY, .kind = MIRROR_BLOCK, .key = block},
                   dead, p);
}

static int do_drop(struct mirror *m, enum mirror_kind kind, uint64_t key, struct problem *p)
{
        return add(of(m), (struct memory_mirror_op){.what = OP_DROP, .kind = kind, .key = key},
                   SLICE_NONE, p);
}

static struct memory_mirror_row *find(struct memory_mirror_store *s, enum mirror_kind kind,
                                      uint64_t key)
{
        for (size_t i = s->n_rows; i-- > 0;)
                if (s->rows[i].kind == kind && s->rows[i].key == key)
                        return &s->rows[i];
        return NULL;
}

static struct memory_mirror_row *make(struct memory_mirror_store *s, enum mirror_kind kind,
                                      uint64_t key)
{
        struct memory_mirror_row *row = find(s, kind, key);
        if (row)
                return row;
        if (s->n_rows == s->cap_rows) {
                s->cap_rows = s->cap_rows ? s->cap_rows * 2 : 64;
                s->rows = xrealloc(s->rows, s->cap_rows * sizeof(*s->rows));
        }
        row = &s->rows[s->n_rows++];
        *row = (struct memory_mirror_row){.kind = kind, .key = key};
        return row;
}

static void apply(struct memory_mirror_store *s, const struct memory_mirror_op *op)
{
        struct memory_mirror_row *row = find(s, op->kind, op->key);
        switch (op->what) {
        case OP_PUT:
                ASSERT(op->kind != MIRROR_BLOCK || !row); /* no number is used again */
                row = make(s, op->kind, op->key);
                buf_clear(&row->body);
                buf_put_slice(&row->body, buf_slice(&op->bytes));
                row->change = s->change;
                return;
        case OP_BURY:
                ASSERT(row);
                buf_clear(&row->dead);
                buf_put_slice(&row->dead, buf_slice(&op->bytes));
                row->change = s->change;
                return;
        case OP_DROP:
                ASSERT(row);
                buf_release(&row->body);
                buf_release(&row->dead);
                *row = s->rows[--s->n_rows];
                return;
        }
}

static void release_rows(struct memory_mirror_store *s)
{
        for (size_t i = 0; i < s->n_rows; i++) {
                buf_release(&s->rows[i].body);
                buf_release(&s->rows[i].dead);
        }
        free(s->rows);
}

static void forget_saved(struct memory_mirror_store *s)
{
        if (s->saved)
                release_rows(s->saved);
        free(s->saved);
        s->saved = NULL;
}

/* With the lock. */
static void save(struct memory_mirror_store *s)
{
        forget_saved(s);
        struct memory_mirror_store *to = xcalloc(1, sizeof(*to));
        to->epoch = s->epoch;
        to->change = s->change;
        to->n_rows = to->cap_rows = s->n_rows;
        to->rows = xcalloc(s->n_rows + 1, sizeof(*to->rows));
        for (size_t i = 0; i < s->n_rows; i++) {
                to->rows[i] = (struct memory_mirror_row){.kind = s->rows[i].kind,
                                                         .key = s->rows[i].key,
                                                         .change = s->rows[i].change};
                buf_put_slice(&to->rows[i].body, buf_slice(&s->rows[i].body));
                buf_put_slice(&to->rows[i].dead, buf_slice(&s->rows[i].dead));
        }
        s->saved = to;
}

static int do_commit(struct mirror *mirror, struct problem *p)
{
        struct memory_mirror *m = of(mirror);
        struct memory_mirror_store *s = m->store;
        void (*on_commit)(void *) = NULL;
        void *ctx = NULL;
        lock(m);
        m->is_in_commit = true;
        (void)pthread_cond_broadcast(&s->news);
        while (m->is_held)
                (void)pthread_cond_wait(&s->news, &s->lock);
        m->is_in_commit = false;
        int err = fail(m, p);
        if (!err)
                err = check_fence(m, p);
        if (!err && m->is_doomed)
                save(s);
        if (!err) {
                s->epoch = m->epoch;
                s->change = m->change;
                for (size_t i = 0; i < m->n_ops; i++)
                        apply(s, &m->ops[i]);
                on_commit = m->on_commit;
                ctx = m->on_commit_ctx;
                if (rng_below(&s->dice, 100) < m->unknown) {
                        m->n_faults++;
                        err = problem_set(p, ERR_IO, "the mirror was lost in a commit");
                }
                if (m->is_doomed)
                        err = problem_set(p, ERR_IO, "the mirror's server died in a commit");
                m->is_away |= m->is_doomed;
                m->is_doomed = false;
        }
        unlock(m);
        if (on_commit)
                on_commit(ctx);
        forget(m);
        return err;
}

static void do_abandon(struct mirror *m)
{
        forget(of(m));
}

static int do_last(struct mirror *mirror, uint64_t *ret, struct problem *p)
{
        struct memory_mirror *m = of(mirror);
        lock(m);
        int err = fail(m, p);
        if (!err)
                *ret = m->store->change;
        unlock(m);
        return err;
}

static int by_change(const void *a, const void *b)
{
        const struct memory_mirror_row *x = *(struct memory_mirror_row *const *)a;
        const struct memory_mirror_row *y = *(struct memory_mirror_row *const *)b;
        if (x->change != y->change)
                return x->change < y->change ? -1 : 1;
        return x->key < y->key ? -1 : x->key > y->key;
}

/* With the lock. */
static int give_rows(struct memory_mirror *m, struct mirror_page *page, struct problem *p)
{
        struct memory_mirror_store *s = m->store;
        struct memory_mirror_row **rows =
                xcalloc(s->n_rows + 1, sizeof(struct memory_mirror_row *));
        size_t n = 0;
        uint64_t bytes = 0;
        int err = OK;
        for (size_t i = 0; i < s->n_rows; i++)
                if (s->rows[i].change > page->since)
                        rows[n++] = &s->rows[i];
        qsort(rows, n, sizeof(struct memory_mirror_row *), by_change);
        page->upto = s->change;
        for (size_t i = 0; i < n && !err; i++) {
                const struct memory_mirror_row *r = rows[i];
                if (i && r->change != rows[i - 1]->change && bytes >= page->bytes) {
                        page->upto = rows[i - 1]->change;
                        break;
                }
                struct mirror_row row = {r->kind, r->key, r->change, buf_slice(&r->body),
                                         buf_slice(&r->dead)};
                err = page->fn(page->ctx, &row, p);
                bytes += r->body.len;
        }
        free(rows);
        return err;
}

static int do_since(struct mirror *mirror, struct mirror_page *page, struct problem *p)
{
        struct memory_mirror *m = of(mirror);
        lock(m);
        int err = fail(m, p);
        if (!err)
                err = give_rows(m, page, p);
        if (!err)
                err = fail(m, p); /* after some of it */
        unlock(m);
        return err;
}

static int by_number(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
        return x < y ? -1 : x > y;
}

static int do_keys(struct mirror *mirror, enum mirror_kind kind, uint64_t from, uint64_t *ret,
                   size_t n, size_t *ret_n, struct problem *p)
{
        struct memory_mirror *m = of(mirror);
        struct memory_mirror_store *s = m->store;
        lock(m);
        int err = fail(m, p);
        uint64_t *keys = xcalloc(s->n_rows + 1, sizeof(*keys));
        size_t n_keys = 0;
        for (size_t i = 0; i < s->n_rows; i++)
                if (s->rows[i].kind == kind && s->rows[i].key >= from)
                        keys[n_keys++] = s->rows[i].key;
        unlock(m);
        qsort(keys, n_keys, sizeof(*keys), by_number);
        *ret_n = n_keys < n ? n_keys : n;
        memcpy(ret, keys, *ret_n * sizeof(*keys));
        free(keys);
        return err;
}

static struct mirror *do_free(struct mirror *m)
{
        memory_mirror_release(of(m));
        return NULL;
}

static const struct mirror_ops ops = {
        .begin = do_begin,
        .put = do_put,
        .bury = do_bury,
        .drop = do_drop,
        .commit = do_commit,
        .abandon = do_abandon,
        .last = do_last,
        .since = do_since,
        .keys = do_keys,
        .free = do_free,
};

void memory_mirror_store_init(struct memory_mirror_store *s, uint64_t seed)
{
        *s = (struct memory_mirror_store){0};
        rng_init_seed(&s->dice, seed);
        int rc = pthread_mutex_init(&s->lock, NULL) | pthread_cond_init(&s->news, NULL);
        ASSERT(rc == 0);
}

void memory_mirror_store_revert(struct memory_mirror_store *s)
{
        (void)pthread_mutex_lock(&s->lock);
        ASSERT(s->saved);
        release_rows(s);
        s->rows = s->saved->rows;
        s->n_rows = s->saved->n_rows;
        s->cap_rows = s->saved->cap_rows;
        s->epoch = s->saved->epoch;
        s->change = s->saved->change;
        free(s->saved);
        s->saved = NULL;
        (void)pthread_mutex_unlock(&s->lock);
}

void memory_mirror_store_release(struct memory_mirror_store *s)
{
        forget_saved(s);
        release_rows(s);
        (void)pthread_mutex_destroy(&s->lock);
        (void)pthread_cond_destroy(&s->news);
}

void memory_mirror_init(struct memory_mirror *m, struct memory_mirror_store *s)
{
        *m = (struct memory_mirror){.base = {&ops}, .store = s};
}

void memory_mirror_release(struct memory_mirror *m)
{
        forget(m);
        free(m->ops);
        m->ops = NULL;
        m->cap_ops = 0;
}

void memory_mirror_lead(struct memory_mirror *m)
{
        static _Atomic uint64_t epochs;
        lock(m);
        m->epoch = ++epochs;
        unlock(m);
}

void memory_mirror_set_faults(struct memory_mirror *m, unsigned lost, unsigned unknown)
{
        lock(m);
        m->lost = lost;
        m->unknown = unknown;
        unlock(m);
}

void memory_mirror_set_away(struct memory_mirror *m, bool is_away)
{
        lock(m);
        m->is_away = is_away;
        unlock(m);
}

void memory_mirror_break(struct memory_mirror *m)
{
        lock(m);
        m->is_broken = true;
        unlock(m);
}

void memory_mirror_doom(struct memory_mirror *m)
{
        lock(m);
        m->is_doomed = true;
        unlock(m);
}

bool memory_mirror_is_away(struct memory_mirror *m)
{
        lock(m);
        bool is_away = m->is_away;
        unlock(m);
        return is_away;
}

void memory_mirror_set_on_commit(struct memory_mirror *m, void (*fn)(void *ctx), void *ctx)
{
        lock(m);
        m->on_commit = fn;
        m->on_commit_ctx = ctx;
        unlock(m);
}

void memory_mirror_hold(struct memory_mirror *m, bool is_held)
{
        lock(m);
        m->is_held = is_held;
        (void)pthread_cond_broadcast(&m->store->news);
        unlock(m);
}

void memory_mirror_wait_held(struct memory_mirror *m)
{
        lock(m);
        while (!m->is_in_commit)
                (void)pthread_cond_wait(&m->store->news, &m->store->lock);
        unlock(m);
}
