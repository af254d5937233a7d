/* See blocks.h.
 *
 * Marks are an array of pointers in the order of a walk.  New ones mostly belong at its end, so
 * putting one into its place moves little.  What a transaction changes waits in `pending` until it
 * is committed: a rollback forgets it, and a reader never sees a mark whose row is not durable.
 *
 * A block is opened again as soon as it was made.  That costs 20 ns a job, makes the mark, and is
 * the proof that what is about to replace the jobs of the log can be read. */
#include "history/blocks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "history/archive_file.h"
#include "history/block_table.h"
#include "history/segment.h"

#define BLOCKS_SQL_MAP(X)                                                                          \
        X(INSERT, "INSERT INTO block VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                              \
        X(BURY, "UPDATE block SET dead = ?2 WHERE number = ?1")                                    \
        X(DROP, "DELETE FROM block WHERE number = ?1")

enum blocks_sql {
#define X(name, text) SQL_##name,
        BLOCKS_SQL_MAP(X)
#undef X
                SQL_COUNT
};

static const char *const sql_texts[] = {
#define X(name, text) [SQL_##name] = text,
        BLOCKS_SQL_MAP(X)
#undef X
};

/* What becomes of a block that was there before the transaction. */
struct change {
        struct block_mark *mark;
        bool is_drop;
        uint8_t dead[MARK_DEAD_BYTES];
        uint16_t n_dead;
        int64_t finished_first;
};

struct blocks {
        sqlite3 *db; /* borrowed */
        const char *path;
        bool is_reader;
        struct segments *segments;
        struct mirrored *mirrored; /* borrowed; NULL: none */
        sqlite3_stmt *stmts[SQL_COUNT];
        struct buf scratch;
        uint64_t next_number;

        /* Who waits for the lock holds `turn`, so that one query after the other cannot keep the
         * writer away from it. */
        pthread_mutex_t turn;
        pthread_mutex_t lock; /* for what follows, down to the next group */
        struct block_mark **marks;
        size_t len, cap;
        uint64_t live;
        uint64_t n_damaged; /* rows of the table that could not be read */

        /* Of the open transaction. */
        struct block_mark **added;
        size_t n_added, cap_added;
        struct change *changes;
        size_t n_changes, cap_changes;
};

/* ---- order ---- */

static int compare(const struct block_mark *a, const struct block_mark *b)
{
        if (window_of(a->last_id) != window_of(b->last_id))
                return window_of(a->last_id) < window_of(b->last_id) ? -1 : 1;
        if (a->last_id != b->last_id)
                return a->last_id < b->last_id ? -1 : 1;
        return a->number < b->number ? -1 : a->number > b->number;
}

/* The first place whose mark is not before `m`. */
static size_t place_of(const struct blocks *b, const struct block_mark *m)
{
        size_t low = 0, high = b->len;
        while (low < high) {
                size_t mid = low + (high - low) / 2;
                if (compare(b->marks[mid], m) < 0)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

static struct block_mark **grown(struct block_mark **array, size_t len, size_t *cap)
{
        if (len < *cap)
                return array;
        *cap = *cap ? *cap * 2 : 64;
        return xrealloc(array, *cap * sizeof(struct block_mark *));
}

static void insert_mark(struct blocks *b, struct block_mark *m)
{
        size_t at = place_of(b, m);
        b->marks = grown(b->marks, b->len, &b->cap);
        memmove(b->marks + at + 1, b->marks + at, (b->len - at) * sizeof(struct block_mark *));
        b->marks[at] = m;
        b->len++;
        b->live += m->n - m->n_dead;
}

static void remove_mark(struct blocks *b, struct block_mark *m)
{
        size_t at = place_of(b, m);
        ASSERT(at < b->len && b->marks[at] == m);
        b->live -= m->n - m->n_dead;
        b->len--;
        memmove(b->marks + at, b->marks + at + 1, (b->len - at) * sizeof(struct block_mark *));
        block_mark_release(m);
        free(m);
}

/* ---- looking ---- */

void blocks_lock(struct blocks *b)
{
        (void)pthread_mutex_lock(&b->turn); /* ordinary mutexes: cannot fail */
        (void)pthread_mutex_lock(&b->lock);
        (void)pthread_mutex_unlock(&b->turn);
}

void blocks_unlock(struct blocks *b)
{
        (void)pthread_mutex_unlock(&b->lock);
}

size_t blocks_len(const struct blocks *b)
{
        return b->len;
}

const struct block_mark *blocks_at(const struct blocks *b, size_t i)
{
        ASSERT(i < b->len);
        return b->marks[i];
}

size_t blocks_from(const struct blocks *b, uint64_t window)
{
        struct block_mark before = {.last_id = window << WINDOW_SHIFT};
        return place_of(b, &before);
}

uint64_t blocks_live(const struct blocks *b)
{
        return b->live;
}

/* The order is by window first and then by the last id, so the last one has the largest. */
uint64_t blocks_last_id(const struct blocks *b)
{
        return b->len ? b->marks[b->len - 1]->last_id : 0;
}

uint64_t blocks_damaged(const struct blocks *b)
{
        return b->n_damaged;
}

uint64_t blocks_bytes(const struct blocks *b)
{
        return segments_bytes(b->segments);
}

uint64_t blocks_room(const struct blocks *b)
{
        return segments_room(b->segments);
}

static struct segment_place where(const struct block_mark *m)
{
        return (struct segment_place){m->segment, m->bytes, m->offset};
}

int blocks_read(struct blocks *b, const struct block_mark *m, struct block *ret, struct problem *p)
{
        struct segment_place place = where(m);
        struct buf bytes CLEANUP(buf_release) = {0};
        int err = segments_read(b->segments, &place, &bytes, p);
        if (err)
                return err;
        err = block_open(ret, buf_slice(&bytes));
        if (err == ERR_NOMEM)
                return problem_set(p, err, "no memory to read a block of history");
        bool is_other = !err && (ret->n != m->n || ret->id[0] != m->first_id ||
                                 ret->id[ret->n - 1] != m->last_id);
        if (is_other)
                block_release(ret);
        if (err || is_other)
                return problem_set(p, ERR_CORRUPT,
                                   "block %llu of history (jobs %llu to %llu) is damaged",
                                   (unsigned long long)m->number, (unsigned long long)m->first_id,
                                   (unsigned long long)m->last_id);
        return OK;
}

static int open_cached(struct blocks *b, const struct block_mark *m, struct block_cache *cache,
                       struct problem *p)
{
        if (cache->number == m->number)
                return OK;
        block_release(&cache->block);
        *cache = (struct block_cache){0};
        int err = blocks_read(b, m, &cache->block, p);
        if (!err)
                cache->number = m->number;
        return err;
}

int blocks_find(struct blocks *b, uint64_t id, struct block_cache *cache,
                const struct block_mark **ret_mark, size_t *ret_at, struct problem *p)
{
        struct block_mark before = {.last_id = id};
        int damage = OK;
        *ret_mark = NULL;
        for (size_t i = place_of(b, &before); i < b->len; i++) {
                const struct block_mark *m = b->marks[i];
                if (window_of(m->last_id) != window_of(id))
                        break;
                if (id < m->first_id)
                        continue;
                int err = open_cached(b, m, cache, p);
                if (err == ERR_CORRUPT)
                        damage = err; /* another block may have it */
                else if (err)
                        return err;
                int at = err ? -1 : block_find(&cache->block, id);
                if (at < 0 || block_mark_is_dead(m, (size_t)at))
                        continue;
                *ret_mark = m;
                *ret_at = (size_t)at;
                return OK;
        }
        return damage;
}

/* ---- changing ---- */

static int fail(struct blocks *b, struct problem *p)
{
        return archive_file_fail(b->db, b->path, p);
}

static int run(struct blocks *b, enum blocks_sql which, struct problem *p)
{
        int rc = sqlite3_step(b->stmts[which]);
        (void)sqlite3_reset(b->stmts[which]); /* repeats the error of step */
        return rc == SQLITE_DONE ? OK : fail(b, p);
}

static void bind(struct blocks *b, enum blocks_sql which, int at, uint64_t v)
{
        /* Fails only on a wrong index or a running statement: a mistake of ours. */
        int rc = sqlite3_bind_int64(b->stmts[which], at, (int64_t)v);
        ASSERT(rc == SQLITE_OK);
}

static int bind_blob(struct blocks *b, enum blocks_sql which, int at, struct slice s)
{
        return sqlite3_bind_blob(b->stmts[which], at, s.ptr, (int)s.len, SQLITE_STATIC);
}

/* The row of a mark whose bytes are in their place. */
static int insert_row(struct blocks *b, const struct block_mark *m, struct problem *p)
{
        char dead[BLOCK_DEAD_BYTES];
        buf_clear(&b->scratch);
        block_mark_pack(m, &b->scratch);
        if (b->scratch.failed)
                return problem_set(p, ERR_NOMEM, "no memory for a block of history");
        bind(b, SQL_INSERT, 1, m->number);
        bind(b, SQL_INSERT, 2, m->segment);
        bind(b, SQL_INSERT, 3, m->offset);
        bind(b, SQL_INSERT, 4, m->bytes);
        struct slice packed = SLICE_NONE; /* NULL: none is dead */
        if (m->dead) {
                block_dead_pack(m->number, m->dead, dead);
                packed = slice_make(dead, sizeof(dead));
        }
        if (bind_blob(b, SQL_INSERT, 5, buf_slice(&b->scratch)) != SQLITE_OK ||
            bind_blob(b, SQL_INSERT, 6, packed) != SQLITE_OK)
                return fail(b, p);
        return run(b, SQL_INSERT, p);
}

/* Takes over the mark, which has a number: its bytes, its row, and its place among the added. */
static int add_block(struct blocks *b, struct block_mark *m, struct slice bytes, struct problem *p)
{
        struct segment_place place;
        ASSERT(window_of(m->first_id) == window_of(m->last_id));
        int err = segments_append(b->segments, bytes, &place, p);
        if (!err) {
                m->segment = place.segment;
                m->offset = place.offset;
                m->bytes = place.bytes;
                err = insert_row(b, m, p);
        }
        if (err) {
                block_mark_release(m);
                free(m);
                return err;
        }
        if (m->number >= b->next_number)
                b->next_number = m->number + 1;
        b->added = grown(b->added, b->n_added, &b->cap_added);
        b->added[b->n_added++] = m;
        return OK;
}

int blocks_put(struct blocks *b, struct slice bytes, enum block_family family, struct problem *p)
{
        struct block block = {0};
        int err = block_open(&block, bytes);
        if (err)
                return problem_set(p, err == ERR_NOMEM ? err : ERR_INTERNAL,
                                   err == ERR_NOMEM ? "no memory for a block of history"
                                                    : "a block that was just made is wrong");
        struct block_mark *m = xcalloc(1, sizeof(*m));
        block_mark_make(m, &block, family);
        block_release(&block);
        m->number = b->next_number;
        if (mirrored_is_on(b->mirrored)) {
                m->number = mirrored_number(b->mirrored);
                mirrored_put(b->mirrored, MIRROR_BLOCK, m->number, bytes);
        }
        return add_block(b, m, bytes, p);
}

static struct change *find_change(const struct blocks *b, const struct block_mark *m)
{
        for (size_t i = b->n_changes; i-- > 0;)
                if (b->changes[i].mark == m)
                        return &b->changes[i];
        return NULL;
}

/* The change that the transaction makes to that block, with what it has so far. */
static struct change *change_of(struct blocks *b, const struct block_mark *m)
{
        struct change *c = find_change(b, m);
        if (c)
                return c;
        if (b->n_changes == b->cap_changes) {
                b->cap_changes = b->cap_changes ? b->cap_changes * 2 : 16;
                b->changes = xrealloc(b->changes, b->cap_changes * sizeof(*b->changes));
        }
        size_t at = place_of(b, m);
        ASSERT(at < b->len && b->marks[at] == m);
        c = &b->changes[b->n_changes++];
        *c = (struct change){
                .mark = b->marks[at], .n_dead = m->n_dead, .finished_first = m->finished_first};
        if (m->dead)
                memcpy(c->dead, m->dead, sizeof(c->dead));
        return c;
}

static int drop(struct blocks *b, struct change *c, struct problem *p)
{
        c->is_drop = true;
        mirrored_drop(b->mirrored, MIRROR_BLOCK, c->mark->number);
        bind(b, SQL_DROP, 1, c->mark->number);
        return run(b, SQL_DROP, p);
}

int blocks_drop(struct blocks *b, const struct block_mark *m, struct problem *p)
{
        return drop(b, change_of(b, m), p);
}

/* The row says what the change says. */
static int bury(struct blocks *b, const struct change *c, struct problem *p)
{
        char dead[BLOCK_DEAD_BYTES];
        struct slice packed = slice_make(dead, sizeof(dead));
        block_dead_pack(c->mark->number, c->dead, dead);
        mirrored_bury(b->mirrored, c->mark->number, packed);
        bind(b, SQL_BURY, 1, c->mark->number);
        if (bind_blob(b, SQL_BURY, 2, packed) != SQLITE_OK)
                return fail(b, p);
        return run(b, SQL_BURY, p);
}

int blocks_bury(struct blocks *b, const struct block_mark *m, const uint16_t *at, size_t n,
                int64_t finished_first, struct problem *p)
{
        struct change *c = change_of(b, m);
        ASSERT(!c->is_drop);
        for (size_t i = 0; i < n; i++) {
                uint8_t bit = (uint8_t)(1U << at[i] % 8);
                ASSERT(at[i] < m->n);
                c->n_dead += !(c->dead[at[i] / 8] & bit);
                c->dead[at[i] / 8] |= bit;
        }
        c->finished_first = finished_first;
        if (c->n_dead == m->n)
                return drop(b, c, p);
        return bury(b, c, p);
}

/* Those that the mirror says are dead; a block that has none left is not in a mirror. */
static int bury_as(struct blocks *b, const struct block_mark *m, const struct block_mark *as,
                   struct problem *p)
{
        static const uint8_t none[MARK_DEAD_BYTES];
        const uint8_t *dead = as->dead ? as->dead : none;
        if (memcmp(dead, m->dead ? m->dead : none, MARK_DEAD_BYTES) == 0)
                return OK;
        struct change *c = change_of(b, m);
        memcpy(c->dead, dead, MARK_DEAD_BYTES);
        c->n_dead = as->n_dead;
        return bury(b, c, p);
}

int blocks_apply(struct blocks *b, const struct mirror_row *row, struct block *ret,
                 struct problem *p)
{
        struct block_mark *m = xcalloc(1, sizeof(*m));
        m->number = row->key;
        int err = block_dead_read(row->dead, m) ? block_open(ret, row->body) : ERR_CORRUPT;
        if (!err && window_of(ret->id[0]) != window_of(ret->id[ret->n - 1])) {
                block_release(ret);
                err = ERR_CORRUPT;
        }
        if (err) {
                block_mark_release(m);
                free(m);
                return problem_set(p, err, "block %llu of the cluster's history is damaged",
                                   (unsigned long long)row->key);
        }
        struct block_mark from = *m;
        block_mark_make(m, ret, family_of((enum job_status)ret->status[0]));
        block_mark_settle(m, &from);
        size_t at = place_of(b, m);
        bool is_there = at < b->len && compare(b->marks[at], m) == 0;
        if (!is_there)
                err = add_block(b, m, row->body, p);
        else
                err = bury_as(b, b->marks[at], m, p);
        if (is_there) {
                block_mark_release(m);
                free(m);
        }
        if (err)
                block_release(ret);
        return err;
}

bool blocks_is_buried(const struct blocks *b, const struct block_mark *m, size_t at)
{
        const struct change *c = find_change(b, m);
        if (!c)
                return block_mark_is_dead(m, at);
        return c->is_drop || (c->dead[at / 8] >> at % 8 & 1);
}

int blocks_sync(struct blocks *b, struct problem *p)
{
        return b->n_added ? segments_sync(b->segments, p) : OK;
}

static void apply(struct blocks *b, struct change *c)
{
        struct block_mark *m = c->mark;
        if (c->is_drop) {
                struct segment_place place = where(m);
                remove_mark(b, m);
                segments_drop(b->segments, &place);
                return;
        }
        if (!m->dead)
                m->dead = xcalloc(1, MARK_DEAD_BYTES);
        memcpy(m->dead, c->dead, MARK_DEAD_BYTES);
        b->live -= c->n_dead - m->n_dead;
        m->n_dead = c->n_dead;
        m->finished_first = c->finished_first;
}

void blocks_publish(struct blocks *b)
{
        segments_keep(b->segments);
        for (size_t i = 0; i < b->n_added; i++)
                insert_mark(b, b->added[i]);
        for (size_t i = 0; i < b->n_changes; i++)
                apply(b, &b->changes[i]);
        b->n_added = b->n_changes = 0;
}

void blocks_abandon(struct blocks *b)
{
        segments_undo(b->segments);
        for (size_t i = 0; i < b->n_added; i++) {
                block_mark_release(b->added[i]);
                free(b->added[i]);
        }
        b->n_added = b->n_changes = 0;
}

int blocks_check_place(struct blocks *b, struct problem *p)
{
        return segments_check_place(b->segments, p);
}

/* ---- opening ---- */

/* The block itself says what a damaged mark said. */
static int remake_mark(struct blocks *b, struct block_mark *m)
{
        struct segment_place place = where(m);
        struct buf bytes CLEANUP(buf_release) = {0};
        struct block block = {0};
        struct problem p;
        int err = segments_read(b->segments, &place, &bytes, &p);
        if (!err)
                err = block_open(&block, buf_slice(&bytes));
        if (err)
                return err;
        struct block_mark before = *m;
        block_mark_make(m, &block, family_of((enum job_status)block.status[0]));
        block_mark_settle(m, &before);
        block_release(&block);
        return OK;
}

/* One that cannot be told is left out: `weir history verify` names it. */
static void read_mark(struct blocks *b, sqlite3_stmt *row)
{
        struct block_mark *m = xcalloc(1, sizeof(*m));
        enum block_row is = block_row_read(row, m);
        if (m->number >= b->next_number)
                b->next_number = m->number + 1;
        if (is != BLOCK_ROW_BAD) {
                struct segment_place place = where(m);
                segments_know(b->segments, &place);
        }
        if (is == BLOCK_ROW_GOOD || (is == BLOCK_ROW_NO_MARK && remake_mark(b, m) == OK)) {
                insert_mark(b, m);
                return;
        }
        b->n_damaged++;
        block_mark_release(m);
        free(m);
}

static int read_marks(struct blocks *b, struct problem *p)
{
        sqlite3_stmt *row = NULL;
        int rc = sqlite3_prepare_v2(b->db, "SELECT " BLOCK_COLUMNS " FROM block ORDER BY number",
                                    -1, &row, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(row);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(row))
                read_mark(b, row);
        int err = rc == SQLITE_DONE ? OK : fail(b, p);
        (void)sqlite3_finalize(row); /* repeats the error of step */
        return err;
}

int blocks_open(sqlite3 *db, const char *path, bool is_reader, struct blocks **ret,
                struct problem *p)
{
        uint8_t id[SEGMENT_ID_BYTES];
        struct blocks *b = xcalloc(1, sizeof(*b));
        *b = (struct blocks){.db = db, .path = path, .is_reader = is_reader, .next_number = 1};
        buf_init(&b->scratch, 0);
        int rc = pthread_mutex_init(&b->lock, NULL) | pthread_mutex_init(&b->turn, NULL);
        ASSERT(rc == 0); /* fails only without memory */
        int err = block_store_id(db, path, id, p);
        if (!err) {
                b->segments = segments_new(path, id, is_reader);
                err = read_marks(b, p);
        }
        if (!err)
                err = segments_settle(b->segments, p);
        for (int i = 0; i < SQL_COUNT && !err && !is_reader; i++)
                if (sqlite3_prepare_v3(db, sql_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                       &b->stmts[i], NULL) != SQLITE_OK)
                        err = fail(b, p);
        if (err) {
                blocks_close(b);
                return err;
        }
        *ret = b;
        return OK;
}

void blocks_set_mirrored(struct blocks *b, struct mirrored *m)
{
        b->mirrored = m;
}

struct blocks *blocks_close(struct blocks *b)
{
        if (!b)
                return NULL;
        if (b->segments)
                blocks_abandon(b);
        for (int i = 0; i < SQL_COUNT; i++)
                (void)sqlite3_finalize(b->stmts[i]); /* repeats the last error of a statement */
        for (size_t i = 0; i < b->len; i++) {
                block_mark_release(b->marks[i]);
                free(b->marks[i]);
        }
        b->segments = segments_free(b->segments);
        free(b->marks);
        free(b->added);
        free(b->changes);
        buf_release(&b->scratch);
        (void)pthread_mutex_destroy(&b->lock); /* nobody has them */
        (void)pthread_mutex_destroy(&b->turn);
        free(b);
        return NULL;
}
