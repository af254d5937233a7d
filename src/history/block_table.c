#include "history/block_table.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/shown.h"
#include "history/archive_file.h"

#define NEXT_SQL "SELECT " BLOCK_COLUMNS " FROM block WHERE number > ?1 ORDER BY number LIMIT 1"
#define ONE_SQL  "SELECT segment, offset, bytes FROM block WHERE number = ?1"

/* ---- rows ---- */

static struct slice blob(sqlite3_stmt *row, int column)
{
        const void *ptr = sqlite3_column_blob(row, column);
        return slice_make(ptr, (size_t)sqlite3_column_bytes(row, column));
}

static uint32_t dead_checksum(uint64_t number, const uint8_t dead[MARK_DEAD_BYTES])
{
        char bytes[8 + MARK_DEAD_BYTES];
        store_u64(bytes, number);
        memcpy(bytes + 8, dead, MARK_DEAD_BYTES);
        return crc32c(0, bytes, sizeof(bytes));
}

void block_dead_pack(uint64_t number, const uint8_t dead[MARK_DEAD_BYTES],
                     char ret[BLOCK_DEAD_BYTES])
{
        memcpy(ret, dead, MARK_DEAD_BYTES);
        store_u32(ret + MARK_DEAD_BYTES, dead_checksum(number, dead));
}

bool block_dead_read(struct slice packed, struct block_mark *m)
{
        if (!packed.len)
                return true;
        if (packed.len != BLOCK_DEAD_BYTES ||
            load_u32(packed.ptr + MARK_DEAD_BYTES) !=
                    dead_checksum(m->number, (const uint8_t *)packed.ptr))
                return false;
        m->dead = xmalloc(MARK_DEAD_BYTES);
        memcpy(m->dead, packed.ptr, MARK_DEAD_BYTES);
        for (size_t i = 0; i < BLOCK_JOBS; i++)
                m->n_dead = (uint16_t)(m->n_dead + block_mark_is_dead(m, i));
        return true;
}

static bool is_in_range(int64_t v, int64_t least, int64_t most)
{
        return v >= least && v <= most;
}

static bool read_place(sqlite3_stmt *row, struct block_mark *m)
{
        int64_t segment = sqlite3_column_int64(row, 1), offset = sqlite3_column_int64(row, 2);
        int64_t bytes = sqlite3_column_int64(row, 3);
        m->number = (uint64_t)sqlite3_column_int64(row, 0);
        m->segment = (uint32_t)segment;
        m->offset = (uint64_t)offset;
        m->bytes = (uint32_t)bytes;
        return is_in_range(segment, 1, UINT32_MAX) &&
               is_in_range(offset, SEGMENT_HEADER_BYTES, INT64_MAX) &&
               is_in_range(bytes, 1, UINT32_MAX);
}

enum block_row block_row_read(sqlite3_stmt *row, struct block_mark *ret)
{
        struct block_mark place = {0};
        if (!read_place(row, &place) || !block_dead_read(blob(row, 5), &place)) {
                *ret = place;
                return BLOCK_ROW_BAD;
        }
        int err = block_mark_unpack(blob(row, 4), ret);
        if (err) {
                *ret = place;
                return BLOCK_ROW_NO_MARK;
        }
        block_mark_settle(ret, &place);
        return BLOCK_ROW_GOOD;
}

int block_store_id(sqlite3 *db, const char *path, uint8_t ret[SEGMENT_ID_BYTES], struct problem *p)
{
        sqlite3_stmt *s = NULL;
        int err = OK;
        int rc = sqlite3_prepare_v2(db, "SELECT id FROM store", -1, &s, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(s);
        if (rc == SQLITE_ROW && blob(s, 0).len == SEGMENT_ID_BYTES)
                memcpy(ret, blob(s, 0).ptr, SEGMENT_ID_BYTES);
        else if (rc == SQLITE_ROW || rc == SQLITE_DONE)
                err = problem_set(p, ERR_CORRUPT,
                                  "the history file %s is damaged: its table store has no id",
                                  SHOWN_LONG(path));
        else
                err = archive_file_fail(db, path, p);
        (void)sqlite3_finalize(s); /* repeats the error of step */
        return err;
}

/* ---- the walk ---- */

static int check_version(sqlite3 *db, const char *path, struct problem *p)
{
        sqlite3_stmt *s = NULL;
        int err = OK;
        if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK ||
            sqlite3_step(s) != SQLITE_ROW)
                err = archive_file_fail(db, path, p);
        else if (sqlite3_column_int(s, 0) < ARCHIVE_WITH_BLOCKS)
                err = problem_set(p, ERR_NOTFOUND, "the history file %s has no blocks",
                                  SHOWN_LONG(path));
        (void)sqlite3_finalize(s); /* repeats the error of step */
        return err;
}

int block_table_open(struct block_table *t, sqlite3 *db, const char *path, struct problem *p)
{
        *t = (struct block_table){.db = db, .path = path};
        int err = check_version(db, path, p);
        if (!err)
                err = block_store_id(db, path, t->id, p);
        if (!err && (sqlite3_prepare_v2(db, NEXT_SQL, -1, &t->next, NULL) != SQLITE_OK ||
                     sqlite3_prepare_v2(db, ONE_SQL, -1, &t->one, NULL) != SQLITE_OK))
                err = archive_file_fail(db, path, p);
        if (err)
                block_table_close(t);
        else
                t->segments = segments_new(path, t->id, true);
        return err;
}

void block_table_close(struct block_table *t)
{
        t->segments = segments_free(t->segments);
        (void)sqlite3_finalize(t->next); /* repeat the last error */
        (void)sqlite3_finalize(t->one);
        *t = (struct block_table){0};
}

/* The first block with a larger number; ERR_NOTFOUND: there is none. */
static int read_next(struct block_table *t, uint64_t after, struct block_mark *ret,
                     struct problem *p)
{
        int err = OK;
        (void)sqlite3_bind_int64(t->next, 1, (int64_t)after); /* cannot fail: it has one */
        int rc = sqlite3_step(t->next);
        *ret = (struct block_mark){0};
        if (rc != SQLITE_ROW)
                err = rc == SQLITE_DONE ? ERR_NOTFOUND : archive_file_fail(t->db, t->path, p);
        else
                (void)block_row_read(t->next, ret); /* its `n` tells */
        (void)sqlite3_reset(t->next);               /* repeats the error of step */
        return err;
}

int block_table_walk(struct block_table *t, block_table_fn fn, void *ctx, struct problem *p)
{
        uint64_t number = 0;
        for (;;) {
                struct block_mark m;
                int err = read_next(t, number, &m, p);
                if (err)
                        return err == ERR_NOTFOUND ? OK : err;
                number = m.number;
                err = fn(ctx, &m, p);
                block_mark_release(&m);
                if (err)
                        return err;
        }
}

int block_table_has(struct block_table *t, const struct block_mark *m, bool *ret, struct problem *p)
{
        (void)sqlite3_bind_int64(t->one, 1, (int64_t)m->number); /* cannot fail: it has one */
        int rc = sqlite3_step(t->one);
        *ret = rc == SQLITE_ROW && (uint32_t)sqlite3_column_int64(t->one, 0) == m->segment &&
               (uint64_t)sqlite3_column_int64(t->one, 1) == m->offset &&
               (uint32_t)sqlite3_column_int64(t->one, 2) == m->bytes;
        int err = rc == SQLITE_ROW || rc == SQLITE_DONE ? OK : archive_file_fail(t->db, t->path, p);
        (void)sqlite3_reset(t->one); /* repeats the error of step */
        return err;
}

/* Is it the one that the mark is of? */
static bool is_marked(const struct block *b, const struct block_mark *m)
{
        uint16_t n_status[JOB_STATUS_COUNT] = {0};
        for (size_t i = 0; i < b->n; i++)
                n_status[b->status[i]]++;
        return b->n == m->n && b->id[0] == m->first_id && b->id[b->n - 1] == m->last_id &&
               memcmp(n_status, m->n_status, sizeof(n_status)) == 0;
}

int block_table_read(struct block_table *t, const struct block_mark *m, struct buf *bytes,
                     struct block *ret, struct problem *p)
{
        struct segment_place place = {m->segment, m->bytes, m->offset};
        int err = segments_read(t->segments, &place, bytes, p);
        if (err)
                return err;
        if (!m->n)
                return problem_set(p, ERR_CORRUPT, "its mark is damaged");
        err = block_open(ret, buf_slice(bytes));
        if (err == ERR_NOMEM)
                return problem_set(p, err, "no memory to read a block of history");
        if (err)
                return problem_set(p, err, "its checksum is wrong");
        if (is_marked(ret, m))
                return OK;
        block_release(ret);
        return problem_set(p, ERR_CORRUPT, "it is not the block that its mark tells of");
}
