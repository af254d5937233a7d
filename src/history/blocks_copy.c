#include "history/blocks_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shown.h"
#include "history/archive_file.h"
#include "history/block_table.h"
#include "history/segment_io.h"

/* A block whose bytes are in the copy. */
struct copied {
        uint64_t number, offset, first_id, last_id;
        uint32_t segment, bytes;
};

struct copied_list {
        struct copied *at; /* by number */
        size_t len, cap;
};

struct blocks_copy {
        const char *from_path, *to_path;
        struct block_table from;        /* while it runs */
        struct copied_list before, now; /* of the rounds before this one, and of this one */
        size_t at;                      /* `before` up to here is in `now`, or gone */
        uint32_t segment;               /* the file that is open for writing */
        int fd;                         /* -1: none */
};

struct blocks_copy *blocks_copy_new(const char *from_path, const char *to_path)
{
        struct blocks_copy *c = xcalloc(1, sizeof(*c));
        *c = (struct blocks_copy){.from_path = from_path, .to_path = to_path, .fd = -1};
        return c;
}

struct blocks_copy *blocks_copy_free(struct blocks_copy *c)
{
        if (!c)
                return NULL;
        if (c->fd >= 0)
                (void)close(c->fd); /* the copy failed */
        free(c->before.at);
        free(c->now.at);
        free(c);
        return NULL;
}

/* ---- what is there already ---- */

static void push(struct copied_list *l, const struct copied *one)
{
        if (l->len == l->cap) {
                l->cap = l->cap ? l->cap * 2 : 64;
                l->at = xrealloc(l->at, l->cap * sizeof(*l->at));
        }
        l->at[l->len++] = *one;
}

static struct copied make_copied(const struct block_mark *m)
{
        return (struct copied){.number = m->number,
                               .offset = m->offset,
                               .first_id = m->first_id,
                               .last_id = m->last_id,
                               .segment = m->segment,
                               .bytes = m->bytes};
}

/* Was it copied in an earlier round?  Numbers ascend. */
static bool is_copied(struct blocks_copy *c, const struct copied *want)
{
        while (c->at < c->before.len && c->before.at[c->at].number < want->number)
                c->at++;
        if (c->at == c->before.len)
                return false;
        const struct copied *got = &c->before.at[c->at];
        return got->number == want->number && got->offset == want->offset &&
               got->first_id == want->first_id && got->last_id == want->last_id &&
               got->segment == want->segment && got->bytes == want->bytes;
}

/* What this round did not get to is still there. */
static void end_round(struct blocks_copy *c)
{
        uint64_t last = c->now.len ? c->now.at[c->now.len - 1].number : 0;
        for (; c->at < c->before.len; c->at++)
                if (c->before.at[c->at].number > last)
                        push(&c->now, &c->before.at[c->at]);
        struct copied_list old = c->before;
        c->before = c->now;
        c->now = (struct copied_list){.at = old.at, .cap = old.cap};
        c->at = 0;
}

/* ---- writing ---- */

static int write_problem(const struct blocks_copy *c, uint32_t number, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES];
        int err = errno == ENOSPC || errno == EDQUOT ? ERR_NOSPACE : ERR_IO;
        return problem_set(p, err, "cannot write %s: %s",
                           SHOWN_LONG(segment_io_path(c->to_path, number, path)), strerror(errno));
}

static int close_target(struct blocks_copy *c, struct problem *p)
{
        if (c->fd < 0)
                return OK;
        int err = fsync(c->fd) < 0 ? write_problem(c, c->segment, p) : OK;
        (void)close(c->fd); /* what matters was synced */
        c->fd = -1;
        return err;
}

/* A file with its header; it may be there from an earlier round. */
static int open_target(struct blocks_copy *c, uint32_t number, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES], header[SEGMENT_HEADER_BYTES];
        if (c->fd >= 0 && c->segment == number)
                return OK;
        int err = close_target(c, p);
        if (err)
                return err;
        segment_io_make_header(c->from.id, number, header);
        c->segment = number;
        c->fd = open(segment_io_path(c->to_path, number, path),
                     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (c->fd < 0 || segment_io_write(c->fd, 0, header, sizeof(header)) < 0)
                return write_problem(c, number, p);
        return OK;
}

/* ---- copying ---- */

/* The block as it is in the file, sound or damaged; ERR_CONFLICT when the server dropped it. */
static int read_source(struct blocks_copy *c, const struct block_mark *m, struct buf *bytes,
                       struct problem *p)
{
        struct block block;
        struct problem why = {0};
        bool is_there;
        int damage = block_table_read(&c->from, m, bytes, &block, &why);
        if (!damage) {
                block_release(&block);
                return OK;
        }
        int err = block_table_has(&c->from, m, &is_there, p);
        if (err)
                return err;
        if (!is_there)
                return problem_set(p, ERR_CONFLICT,
                                   "history changed while it was copied; try again");
        if (damage == ERR_CORRUPT && bytes->len)
                return OK;
        return problem_set(p, damage, "block %llu of history: %s", (unsigned long long)m->number,
                           why.detail);
}

static int copy_block(void *ctx, const struct block_mark *m, struct problem *p)
{
        struct blocks_copy *c = ctx;
        struct buf bytes CLEANUP(buf_release) = {0};
        struct copied done = make_copied(m);
        if (!is_copied(c, &done)) {
                int err = read_source(c, m, &bytes, p);
                if (!err)
                        err = open_target(c, m->segment, p);
                if (err)
                        return err;
                if (segment_io_write(c->fd, m->offset, bytes.ptr, bytes.len) < 0)
                        return write_problem(c, m->segment, p);
        }
        push(&c->now, &done);
        return OK;
}

int blocks_copy_run(struct blocks_copy *c, sqlite3 *from, sqlite3 *to, struct problem *p)
{
        struct block_table table;
        int err = block_table_open(&table, to, c->to_path, p);
        if (err)
                return err == ERR_NOTFOUND ? OK : err;
        err = block_table_open(&c->from, from, c->from_path, p);
        if (!err)
                err = block_table_walk(&table, copy_block, c, p);
        end_round(c);
        int other = close_target(c, err ? NULL : p);
        block_table_close(&c->from);
        block_table_close(&table);
        return err ? err : other;
}

/* ---- making it true ---- */

static int run_sql(sqlite3 *db, const char *sql, uint64_t number, const uint8_t *dead)
{
        sqlite3_stmt *s = NULL;
        char packed[BLOCK_DEAD_BYTES];
        int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(s, 1, (int64_t)number);
        if (dead)
                block_dead_pack(number, dead, packed);
        if (rc == SQLITE_OK && dead)
                rc = sqlite3_bind_blob(s, 2, packed, sizeof(packed), SQLITE_STATIC);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : SQLITE_ERROR;
        (void)sqlite3_finalize(s); /* repeats the error of step */
        return rc;
}

/* How many of its jobs are to go. */
static size_t judge_block(const struct block *b, const struct block_mark *m,
                          const struct blocks_judge *judge, uint8_t dead[MARK_DEAD_BYTES])
{
        size_t n = 0;
        memset(dead, 0, MARK_DEAD_BYTES);
        if (m->dead)
                memcpy(dead, m->dead, MARK_DEAD_BYTES);
        for (size_t i = 0; i < b->n; i++) {
                if (block_mark_is_dead(m, i) || !judge->is_to_go(judge->ctx, b->id[i], b->run[i]))
                        continue;
                dead[i / 8] |= (uint8_t)(1U << i % 8);
                n++;
        }
        return n;
}

struct taking {
        struct block_table table;
        const struct blocks_judge *judge;
};

static int take_back_from(void *ctx, const struct block_mark *m, struct problem *p)
{
        struct taking *t = ctx;
        struct buf bytes CLEANUP(buf_release) = {0};
        struct block b;
        uint8_t dead[MARK_DEAD_BYTES];
        int rc = SQLITE_OK;
        if (!m->n || !t->judge->is_asked(t->judge->ctx, m->first_id, m->last_id))
                return OK;
        int err = block_table_read(&t->table, m, &bytes, &b, p);
        if (err)
                return err == ERR_CORRUPT ? OK : err;
        size_t n = judge_block(&b, m, t->judge, dead);
        block_release(&b);
        if (n && n + m->n_dead == m->n)
                rc = run_sql(t->table.db, "DELETE FROM block WHERE number = ?1", m->number, NULL);
        else if (n)
                rc = run_sql(t->table.db, "UPDATE block SET dead = ?2 WHERE number = ?1", m->number,
                             dead);
        return rc == SQLITE_OK ? OK : archive_file_fail(t->table.db, t->table.path, p);
}

int blocks_take_back(sqlite3 *db, const char *path, const struct blocks_judge *judge,
                     struct problem *p)
{
        struct taking t = {.judge = judge};
        int err = block_table_open(&t.table, db, path, p);
        if (err)
                return err == ERR_NOTFOUND ? OK : err;
        err = block_table_walk(&t.table, take_back_from, &t, p);
        block_table_close(&t.table);
        return err;
}

static int count_one(void *ctx, const struct block_mark *m, struct problem *p)
{
        uint64_t *n = ctx;
        (void)p;
        *n += m->n - m->n_dead;
        return OK;
}

int blocks_count(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p)
{
        struct block_table t;
        *ret = 0;
        int err = block_table_open(&t, db, path, p);
        if (err)
                return err == ERR_NOTFOUND ? OK : err;
        err = block_table_walk(&t, count_one, ret, p);
        block_table_close(&t);
        return err;
}
