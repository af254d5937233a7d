/* A history file with blocks, made by hand: for tests of what looks at it from outside. */
#ifndef WEIR_TESTS_UNIT_STORED_BLOCK_BOX_H
#define WEIR_TESTS_UNIT_STORED_BLOCK_BOX_H

#include "history/archive_file.h"
#include "history/block_table.h"
#include "history/segment.h"
#include "history/segment_int.h"
#include "history/segment_io.h"
#include "history_box.h"
#include "support/temp_dir.h"

struct block_box {
        char dir[TEMP_DIR_SIZE];
        char path[TEMP_DIR_SIZE + 16];
        sqlite3 *db; /* the writer's */
        struct segments *segments;
};

static inline void block_box_run(struct block_box *box, const char *fmt, ...) PRINTF(2, 3);
static inline void block_box_run(struct block_box *box, const char *fmt, ...)
{
        va_list args;
        va_start(args, fmt);
        char *sql = sqlite3_vmprintf(fmt, args);
        va_end(args);
        if (sqlite3_exec(box->db, sql, NULL, NULL, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(box->db));
        sqlite3_free(sql);
}

static inline int64_t block_box_ask(sqlite3 *db, const char *sql)
{
        sqlite3_stmt *s = NULL;
        if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        int64_t ret = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
        (void)sqlite3_finalize(s); /* it answered */
        return ret;
}

static inline void block_box_open_segments(struct block_box *box)
{
        struct problem p = {0};
        uint8_t id[SEGMENT_ID_BYTES];
        sqlite3_stmt *s = NULL;
        assert_int_equal(sqlite3_prepare_v2(box->db, "SELECT id FROM store", -1, &s, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(s), SQLITE_ROW);
        memcpy(id, sqlite3_column_blob(s, 0), sizeof(id));
        (void)sqlite3_finalize(s); /* it answered */
        box->segments = segments_new(box->path, id, false);
        segments_set_limit(box->segments, 256 * KIB);
        assert_int_equal(sqlite3_prepare_v2(box->db, "SELECT segment, bytes, offset FROM block", -1,
                                            &s, NULL),
                         SQLITE_OK);
        while (sqlite3_step(s) == SQLITE_ROW) {
                struct segment_place place = {(uint32_t)sqlite3_column_int64(s, 0),
                                              (uint32_t)sqlite3_column_int64(s, 1),
                                              (uint64_t)sqlite3_column_int64(s, 2)};
                segments_know(box->segments, &place);
        }
        (void)sqlite3_finalize(s); /* all were read, or settle finds none */
        assert_int_equal(segments_settle(box->segments, &p), OK);
}

static inline void block_box_init(struct block_box *box)
{
        struct problem p = {0};
        *box = (struct block_box){0};
        temp_dir_make(box->dir);
        (void)snprintf(box->path, sizeof(box->path), "%s/history.db", box->dir);
        if (archive_file_open(box->path, &box->db, &p) != OK)
                fail_msg("%s", p.detail);
        block_box_open_segments(box);
}

static inline void block_box_release(struct block_box *box)
{
        box->segments = segments_free(box->segments);
        assert_int_equal(sqlite3_close(box->db), SQLITE_OK);
        temp_dir_remove(box->dir);
}

/* Texts that LZ4 makes little smaller, so that a block has pages of its own. */
static inline void block_box_give_args(struct job *job)
{
        char args[128];
        uint64_t x = job->view.id * 0x9e3779b97f4a7c15ULL;
        for (size_t i = 0; i < sizeof(args) - 1; i++) {
                x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ULL;
                args[i] = (char)('!' + (x >> 40) % 90);
        }
        args[sizeof(args) - 1] = '\0';
        job_text(job, &job->view.args, args);
}

static inline struct slice block_box_make(struct block_maker *maker, uint64_t first, size_t n,
                                          enum job_status status, struct job **jobs)
{
        struct slice bytes = SLICE_NONE;
        for (size_t i = 0; i < n; i++) {
                jobs[i] = job_make(first + i, 256);
                jobs[i]->view.status = status;
                block_box_give_args(jobs[i]);
                job_tell_plainly(jobs[i]);
                block_maker_add(maker, &jobs[i]->view, 0);
        }
        assert_int_equal(block_maker_end(maker, &bytes), OK);
        return bytes;
}

/* Adds a block of n jobs with ids from `first` on, whose fences are 7 more; returns its mark
 * without the filter. */
static inline struct block_mark block_box_put(struct block_box *box, uint64_t first, size_t n,
                                              enum job_status status)
{
        struct block_maker *maker = block_maker_new();
        struct job *jobs[BLOCK_JOBS];
        struct slice bytes = block_box_make(maker, first, n, status, jobs);
        struct block b;
        struct block_mark m;
        struct buf packed = {0};
        struct segment_place place;
        struct problem p = {0};
        assert_int_equal(block_open(&b, bytes), OK);
        block_mark_make(&m, &b, family_of(status));
        block_mark_pack(&m, &packed);
        assert_int_equal(segments_append(box->segments, bytes, &place, &p), OK);
        assert_int_equal(segments_sync(box->segments, &p), OK);
        sqlite3_stmt *s = NULL;
        assert_int_equal(sqlite3_prepare_v2(box->db,
                                            "INSERT INTO block VALUES(NULL, ?1, ?2, ?3, ?4, NULL)",
                                            -1, &s, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_bind_int64(s, 1, place.segment), SQLITE_OK);
        assert_int_equal(sqlite3_bind_int64(s, 2, (int64_t)place.offset), SQLITE_OK);
        assert_int_equal(sqlite3_bind_int64(s, 3, place.bytes), SQLITE_OK);
        assert_int_equal(sqlite3_bind_blob(s, 4, packed.ptr, (int)packed.len, SQLITE_STATIC),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(s), SQLITE_DONE);
        assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
        segments_keep(box->segments);
        block_mark_release(&(struct block_mark){.filter = m.filter});
        m.filter = NULL;
        m.number = (uint64_t)sqlite3_last_insert_rowid(box->db);
        m.segment = place.segment;
        m.offset = place.offset;
        m.bytes = place.bytes;
        buf_release(&packed);
        block_release(&b);
        jobs_drop(jobs, n);
        maker = block_maker_free(maker);
        return m;
}

/* As the server does it: the row goes first, then the space. */
static inline void block_box_drop(struct block_box *box, const struct block_mark *m)
{
        struct segment_place place = {m->segment, m->bytes, m->offset};
        block_box_run(box, "DELETE FROM block WHERE number = %lld", (long long)m->number);
        segments_drop(box->segments, &place);
}

static inline void block_box_bury(struct block_box *box, const struct block_mark *m,
                                  const uint8_t dead[MARK_DEAD_BYTES])
{
        char packed[BLOCK_DEAD_BYTES], text[2 * BLOCK_DEAD_BYTES + 1];
        block_dead_pack(m->number, dead, packed);
        hex_from_bytes((const uint8_t *)packed, sizeof(packed), text);
        block_box_run(box, "UPDATE block SET dead = x'%.*s' WHERE number = %lld",
                      (int)(2 * sizeof(packed)), text, (long long)m->number);
}

/* A bit of the block, or of the header of its file (at < 0), is flipped. */
static inline void block_box_flip(const struct block_box *box, const struct block_mark *m,
                                  int64_t at)
{
        char path[SEGMENT_PATH_BYTES], byte;
        off_t place = at < 0 ? 8 : (off_t)m->offset + at;
        int fd = open(segment_io_path(box->path, m->segment, path), O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, place), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, place), 1);
        assert_int_equal(close(fd), 0);
}

#endif
