/* Files full of blocks, written from the front to the end.
 *
 * The last file is the one that is written to.  Two ends are kept of each file: that of what was
 * appended, and that of what was kept.  A transaction that fails goes back to the second, and what
 * it wrote is written over.  A file that such a transaction made stays as the last one: its space
 * was had, and the next try needs it.
 *
 * A file is made under a name of its own, PATH-blocks-new, and gets its number when its header is
 * on the disk.  So a file with a number has a whole header: one without is not ours.
 *
 * Space is asked for before it is written to.  The disk may refuse to give a whole segment: then
 * the file gets what the block needs, and the next block asks again.  A file that is left has the
 * rest of its space cut off.
 *
 * Only the last files are written to, but any of them may be read, and there may be thousands:
 * OPEN_MAX descriptors stay open, those that were used last.  A file is held while it is read, and
 * those with bytes that were not synced are not closed: the sync must hear of their errors.
 *
 * Threads: the table of files is changed by the writer alone, with the lock; it reads the table
 * without.  segments_read() may run on any thread while the writer appends: it takes the lock to
 * find and hold the file, not to read from it.  A file that is removed must not be held. */
#include "history/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shown.h"
#include "history/segment_int.h"
#include "history/segment_io.h"

#define PAGE_BYTES 4096
#define OPEN_MAX   24
#define ROOM_SHARE 8 /* at most this part of the free space is reserved at a time */
/* segments_check_place() looks at the files that are written to and at this many others, in turn:
 * it runs after each commit. */
#define CHECK_AT_ONCE 64
/* So that a path, a name and a sentence fit into a problem. */
#define SHOWN_PATH_MAX 110
#define SHOWN_NAME_MAX 20

struct segment {
        uint32_t number;
        uint64_t n_kept, n_new; /* blocks: those that count, and those appended since */
        uint64_t end, kept_end; /* a multiple of SEGMENT_ALIGN_BYTES */
        uint64_t reserved;      /* the disk has promised the space up to here */
        uint64_t disk_bytes;    /* when it was last looked at */
        bool is_dirty;          /* written since the last sync */
        dev_t dev;              /* which file it is, once it was opened */
        ino_t ino;
        /* With the lock. */
        int fd; /* -1: not open */
        unsigned n_holders;
        uint64_t used; /* the larger, the later */
};

struct segments {
        char *path;
        uint8_t id[SEGMENT_ID_BYTES];
        bool is_reader;
        bool is_unreserved;  /* the file system cannot promise space */
        bool is_sync_failed; /* what was appended cannot be made durable any more */
        uint64_t limit;      /* of the size of a file */
        uint32_t next_number;
        struct segment **at; /* by number; changed with the lock */
        size_t len, cap;
        size_t kept_len; /* those behind it were made since the last segments_keep() */
        size_t checked;  /* where segments_check_place() goes on */
        _Atomic uint64_t bytes, room;
        pthread_mutex_t lock;
        size_t n_open;
        uint64_t uses;
};

/* ---- names and words ---- */

static const char *path_of(const struct segments *s, uint32_t number, char ret[SEGMENT_PATH_BYTES])
{
        return segment_io_path(s->path, number, ret);
}

static const char *new_path(const struct segments *s, char ret[SEGMENT_PATH_BYTES])
{
        (void)snprintf(ret, SEGMENT_PATH_BYTES, "%s-blocks-new", s->path);
        return ret;
}

static int err_of(int errnum)
{
        switch (errnum) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
                return ERR_NOSPACE;
        case ENOMEM:
                return ERR_NOMEM;
        default:
                return ERR_IO;
        }
}

static int failed(const char *what, const char *path, struct problem *p)
{
        int err = err_of(errno);
        if (err == ERR_NOSPACE)
                return problem_set(p, err, "no space is left for the history file %s",
                                   SHOWN_LONG(path));
        return problem_set(p, err, "cannot %s the history file %s: %s", what, SHOWN_LONG(path),
                           strerror(errno));
}

/* The name of the history file without its folder. */
static const char *history_name(const struct segments *s)
{
        const char *slash = strrchr(s->path, '/');
        return slash ? slash + 1 : s->path;
}

/* A file that must be there and cannot be used. */
static int unusable(const struct segments *s, uint32_t number, const char *why, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES];
        return problem_set(p, ERR_CORRUPT,
                           "the history file %s %s; put the right one back, or move all of %s* "
                           "away and start again: the finished jobs in them are lost from history, "
                           "live jobs are not",
                           SHOWN_MAX(slice_str(path_of(s, number, path)), SHOWN_PATH_MAX), why,
                           SHOWN_MAX(slice_str(history_name(s)), SHOWN_NAME_MAX));
}

/* ---- space ---- */

/* Where to reserve to: up to a whole segment, but not more than a share of what is free.  The rest
 * is for rows, for SQLite's own files and for the log, which cannot use what a segment has. */
static uint64_t wish(const struct segments *s, uint64_t end, uint64_t need, uint64_t room)
{
        uint64_t most = end + (room / ROOM_SHARE & ~(uint64_t)(PAGE_BYTES - 1));
        uint64_t want = s->limit < most ? s->limit : most;
        return want > need ? want : need;
}

/* Makes sure of the space from `end` to `need`, and of more if it can be had.  *reserved is where
 * it ends.  Looks before it takes: on a nearly full disk this is tried again and again, and each
 * try would take what little is left from everybody for a moment. */
static int reserve(struct segments *s, int fd, uint64_t end, uint64_t need, uint64_t *reserved)
{
        if (need <= *reserved || s->is_unreserved)
                return 0;
        uint64_t room = segment_io_room(fd), want = wish(s, end, need, room);
        errno = ENOSPC;
        int r = room >= want - end ? segment_io_allocate(fd, 0, end, want) : -1;
        if (r < 0 && err_of(errno) == ERR_NOSPACE) {
                /* Some file systems keep what they could give of a try that failed. */
                r = ftruncate(fd, (off_t)end);
                *reserved = end;
                want = need;
                if (r == 0)
                        r = segment_io_allocate(fd, 0, end, need);
        }
        if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
                s->is_unreserved = true;
                return 0;
        }
        if (r == 0)
                *reserved = want;
        return r;
}

/* ---- the table, and open files ---- */

static struct segment *find(const struct segments *s, uint32_t number, size_t *ret_at)
{
        size_t from = 0, to = s->len;
        while (from < to) {
                size_t middle = from + (to - from) / 2;
                if (s->at[middle]->number < number)
                        from = middle + 1;
                else
                        to = middle;
        }
        *ret_at = from;
        return from < s->len && s->at[from]->number == number ? s->at[from] : NULL;
}

/* With the lock. */
static struct segment *insert(struct segments *s, uint32_t number, size_t at)
{
        if (s->len == s->cap) {
                s->cap = s->cap ? s->cap * 2 : 16;
                s->at = xrealloc(s->at, s->cap * sizeof(struct segment *));
        }
        memmove(s->at + at + 1, s->at + at, (s->len - at) * sizeof(struct segment *));
        struct segment *g = xcalloc(1, sizeof(*g));
        g->number = number;
        g->fd = -1;
        g->end = g->kept_end = SEGMENT_HEADER_BYTES;
        s->at[at] = g;
        s->len++;
        return g;
}

/* The same, of a file that was there before: no undo removes it. */
static struct segment *insert_known(struct segments *s, uint32_t number, size_t at)
{
        s->kept_len++;
        return insert(s, number, at);
}

static void measure_room(struct segments *s)
{
        const struct segment *last = s->len ? s->at[s->len - 1] : NULL;
        atomic_store(&s->room, last && last->reserved > last->end ? last->reserved - last->end : 0);
}

static void note_bytes(struct segments *s, struct segment *g, uint64_t bytes)
{
        atomic_fetch_add(&s->bytes, bytes - g->disk_bytes); /* modulo 2^64, so it may go down */
        g->disk_bytes = bytes;
}

static void measure(struct segments *s, struct segment *g)
{
        struct stat st;
        if (g->fd >= 0 && fstat(g->fd, &st) == 0)
                note_bytes(s, g, (uint64_t)st.st_blocks * 512);
}

/* With the lock. */
static void close_file(struct segments *s, struct segment *g)
{
        if (g->fd < 0)
                return;
        (void)close(g->fd); /* what matters was synced */
        g->fd = -1;
        s->n_open--;
}

/* With the lock.  Makes room for one more; when all are held there are more for a while. */
static void close_oldest(struct segments *s)
{
        struct segment *oldest = NULL;
        if (s->n_open < OPEN_MAX)
                return;
        for (size_t i = 0; i < s->len; i++) {
                struct segment *g = s->at[i];
                if (g->fd >= 0 && !g->n_holders && !g->is_dirty &&
                    (!oldest || g->used < oldest->used))
                        oldest = g;
        }
        if (oldest)
                close_file(s, oldest);
}

/* With the lock. */
static int open_file(struct segments *s, struct segment *g, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES];
        struct stat st;
        close_oldest(s);
        path_of(s, g->number, path);
        int fd = open(path, (s->is_reader ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return errno == ENOENT ? unusable(s, g->number, "is missing", p)
                                       : failed("open", path, p);
        const char *why = segment_io_check_header(s->id, g->number, fd);
        if (why || fstat(fd, &st) < 0) {
                int err = why ? unusable(s, g->number, why, p) : failed("look at", path, p);
                (void)close(fd); /* nothing was written */
                return err;
        }
        g->fd = fd;
        if (!g->ino) { /* if another took its place, segments_check_place() tells */
                g->dev = st.st_dev;
                g->ino = st.st_ino;
        }
        s->n_open++;
        return OK;
}

/* The file stays open until let_go(). */
static int hold(struct segments *s, uint32_t number, struct segment **ret, struct problem *p)
{
        size_t at;
        int err = OK;
        (void)pthread_mutex_lock(&s->lock);
        struct segment *g = find(s, number, &at);
        if (!g && s->is_reader)
                g = insert_known(s, number, at);
        if (!g)
                err = unusable(s, number, "is not known", p);
        else if (g->fd < 0)
                err = open_file(s, g, p);
        if (!err) {
                g->n_holders++;
                g->used = ++s->uses;
                *ret = g;
        }
        (void)pthread_mutex_unlock(&s->lock);
        return err;
}

static void let_go(struct segments *s, struct segment *g)
{
        (void)pthread_mutex_lock(&s->lock);
        ASSERT(g->n_holders > 0);
        g->n_holders--;
        (void)pthread_mutex_unlock(&s->lock);
}

/* Gives up the file; from the disk only if it is the one that it was. */
static void remove_at(struct segments *s, size_t at)
{
        struct segment *g = s->at[at];
        char path[SEGMENT_PATH_BYTES];
        struct stat st;
        path_of(s, g->number, path);
        if (lstat(path, &st) == 0 && st.st_dev == g->dev && st.st_ino == g->ino)
                (void)unlink(path); /* what stays is removed at the next start */
        (void)pthread_mutex_lock(&s->lock);
        ASSERT(g->n_holders == 0);
        close_file(s, g);
        s->len--;
        memmove(s->at + at, s->at + at + 1, (s->len - at) * sizeof(struct segment *));
        (void)pthread_mutex_unlock(&s->lock);
        note_bytes(s, g, 0);
        free(g);
        if (at < s->kept_len)
                s->kept_len--;
}

/* No block will be added to it: gives back the space that was reserved for more. */
static void leave(struct segments *s, struct segment *g)
{
        if (g->reserved <= g->end || hold(s, g->number, &g, NULL) != OK)
                return;
        if (ftruncate(g->fd, (off_t)g->end) == 0)
                g->reserved = g->end;
        measure(s, g);
        let_go(s, g);
}

/* ---- making a file ---- */

/* Gives the new file the next number that is free.  0: it has none. */
static uint32_t name_file(struct segments *s, int fd, const char *from)
{
        char header[SEGMENT_HEADER_BYTES], path[SEGMENT_PATH_BYTES];
        for (;;) {
                uint32_t number = s->next_number++;
                segment_io_make_header(s->id, number, header);
                if (segment_io_write(fd, 0, header, sizeof(header)) < 0 || fsync(fd) < 0)
                        return 0;
                if (segment_io_rename(from, path_of(s, number, path)) == 0)
                        return number;
                if (errno != EEXIST)
                        return 0;
        }
}

static void add_last(struct segments *s, uint32_t number, int fd, uint64_t reserved,
                     const struct stat *st)
{
        (void)pthread_mutex_lock(&s->lock);
        close_oldest(s);
        struct segment *g = insert(s, number, s->len);
        g->fd = fd;
        g->dev = st->st_dev;
        g->ino = st->st_ino;
        g->reserved = reserved;
        s->n_open++;
        (void)pthread_mutex_unlock(&s->lock);
        note_bytes(s, g, (uint64_t)st->st_blocks * 512);
}

/* A new last file with room for a block of that many bytes. */
static int make_file(struct segments *s, uint64_t bytes, struct problem *p)
{
        char from[SEGMENT_PATH_BYTES], path[SEGMENT_PATH_BYTES];
        uint32_t number = 0;
        uint64_t reserved = 0;
        struct stat st;
        new_path(s, from);
        (void)unlink(from); /* left by a crash, or not there */
        int fd = open(from, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return failed("make", from, p);
        if (reserve(s, fd, 0, SEGMENT_HEADER_BYTES + bytes, &reserved) == 0)
                number = name_file(s, fd, from);
        if (number && fstat(fd, &st) == 0 && segment_io_sync_folder(s->path) == 0) {
                add_last(s, number, fd, reserved, &st);
                return OK;
        }
        int err = failed("make", from, p);
        (void)close(fd);
        (void)unlink(number ? path_of(s, number, path) : from); /* or the next start does */
        return err;
}

/* ---- the start ---- */

struct segments *segments_new(const char *path, const uint8_t id[SEGMENT_ID_BYTES], bool is_reader)
{
        struct segments *s = xcalloc(1, sizeof(*s));
        s->path = xstrdup(path);
        memcpy(s->id, id, SEGMENT_ID_BYTES);
        s->is_reader = is_reader;
        s->limit = SEGMENT_BYTES;
        s->next_number = 1;
        (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail on Linux */
        return s;
}

struct segments *segments_free(struct segments *s)
{
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->len; i++) {
                close_file(s, s->at[i]);
                free(s->at[i]);
        }
        (void)pthread_mutex_destroy(&s->lock);
        free(s->at);
        free(s->path);
        free(s);
        return NULL;
}

void segments_set_limit(struct segments *s, uint64_t bytes)
{
        s->limit = bytes;
}

void segments_know(struct segments *s, const struct segment_place *place)
{
        size_t at;
        uint64_t end = ALIGN_UP(place->offset + place->bytes, (uint64_t)SEGMENT_ALIGN_BYTES);
        /* No file is as long as that, which segments_settle() finds. */
        if (place->offset < SEGMENT_HEADER_BYTES || place->offset > INT64_MAX)
                end = UINT64_MAX;
        struct segment *g = find(s, place->segment, &at);
        if (!g) {
                (void)pthread_mutex_lock(&s->lock);
                g = insert_known(s, place->segment, at);
                (void)pthread_mutex_unlock(&s->lock);
        }
        g->n_kept++;
        if (end > g->end)
                g->end = g->kept_end = end;
}

/* A file with blocks must be there, be ours, and be long enough.  The space behind the blocks is
 * that of a crash, or of a last file: for that one it is asked for again, since a copy of the file
 * may not have it. */
static int settle_known(struct segments *s, size_t at, struct problem *p)
{
        struct segment *g = s->at[at];
        struct stat st = {0};
        char path[SEGMENT_PATH_BYTES];
        int err = hold(s, g->number, &g, p);
        if (err)
                return err;
        if (fstat(g->fd, &st) < 0)
                err = failed("look at", path_of(s, g->number, path), p);
        else if ((uint64_t)st.st_size < g->end - (SEGMENT_ALIGN_BYTES - 1))
                err = unusable(s, g->number, "is too short", p);
        else if (at + 1 < s->len) {
                g->reserved = (uint64_t)st.st_size;
                leave(s, g);
        } else if (g->end < s->limit) {
                /* When it fails, the next block asks again. */
                (void)reserve(s, g->fd, g->end, g->end + SEGMENT_ALIGN_BYTES, &g->reserved);
        }
        measure(s, g);
        let_go(s, g);
        return err;
}

/* A file of that name without blocks: a crash left it, or it is of another history. */
static void settle_unknown(struct segments *s, uint32_t number)
{
        char path[SEGMENT_PATH_BYTES];
        path_of(s, number, path);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return;
        if (!segment_io_check_header(s->id, number, fd))
                (void)unlink(path); /* what stays is removed at the next start */
        (void)close(fd);
}

/* Looks at all files of such names, and makes new ones after them. */
static int settle_names(struct segments *s, struct problem *p)
{
        char folder[SEGMENT_PATH_BYTES];
        (void)snprintf(folder, sizeof(folder), "%s", s->path);
        DIR *dir = opendir(dirname(folder));
        if (!dir)
                return failed("list the folder of", s->path, p);
        errno = 0;
        for (struct dirent *e; (e = readdir(dir)); errno = 0) {
                size_t at;
                uint32_t number = segment_io_number_in(e->d_name, history_name(s));
                if (number >= s->next_number)
                        s->next_number = number + 1;
                if (number && !find(s, number, &at))
                        settle_unknown(s, number);
        }
        int err = errno ? failed("list the folder of", s->path, p) : OK;
        (void)closedir(dir);
        return err;
}

int segments_settle(struct segments *s, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES];
        int err = OK;
        if (s->is_reader)
                return OK;
        if (strlen(s->path) + 32 > SEGMENT_PATH_BYTES)
                return problem_set(p, ERR_BADARG, "the path of the history file is too long");
        (void)unlink(new_path(s, path)); /* left by a crash, or not there */
        for (size_t i = 0; !err && i < s->len; i++)
                err = settle_known(s, i, p);
        if (!err)
                err = settle_names(s, p);
        measure_room(s);
        return err;
}

/* ---- writing ---- */

int segments_append(struct segments *s, struct slice bytes, struct segment_place *ret,
                    struct problem *p)
{
        struct segment *g = s->len ? s->at[s->len - 1] : NULL;
        char path[SEGMENT_PATH_BYTES];
        ASSERT(!s->is_reader && bytes.len > 0 && bytes.len <= UINT32_MAX);
        uint64_t need = ALIGN_UP((uint64_t)bytes.len, (uint64_t)SEGMENT_ALIGN_BYTES);
        uint64_t limit = !g || g->reserved < s->limit ? s->limit : g->reserved;
        if (!g || g->end + need > limit) {
                int err = make_file(s, need, p);
                if (err)
                        return err;
                g = s->at[s->len - 1];
        }
        int err = hold(s, g->number, &g, p);
        if (err)
                return err;
        if (reserve(s, g->fd, g->end, g->end + need, &g->reserved) < 0 ||
            segment_io_write(g->fd, g->end, bytes.ptr, bytes.len) < 0) {
                err = failed("write", path_of(s, g->number, path), p);
        } else {
                *ret = (struct segment_place){g->number, (uint32_t)bytes.len, g->end};
                g->end += need;
                g->n_new++;
                (void)pthread_mutex_lock(&s->lock); /* close_oldest() looks at it */
                g->is_dirty = true;
                (void)pthread_mutex_unlock(&s->lock);
        }
        let_go(s, g);
        measure_room(s);
        return err;
}

/* The files that were written to since the last segments_keep(). */
static size_t first_touched(const struct segments *s)
{
        return s->kept_len ? s->kept_len - 1 : 0;
}

static void set_clean(struct segments *s, struct segment *g)
{
        (void)pthread_mutex_lock(&s->lock);
        g->is_dirty = false;
        (void)pthread_mutex_unlock(&s->lock);
}

int segments_sync(struct segments *s, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES];
        if (s->is_sync_failed)
                return problem_set(p, ERR_IO,
                                   "the history files of %s could not be written to the disk",
                                   SHOWN_LONG(s->path));
        for (size_t i = first_touched(s); i < s->len; i++) {
                struct segment *g = s->at[i];
                if (!g->is_dirty)
                        continue;
                if (fdatasync(g->fd) < 0) {
                        /* What is there is unknown, and asking again proves nothing. */
                        s->is_sync_failed = true;
                        return failed("write", path_of(s, g->number, path), p);
                }
                measure(s, g);
                set_clean(s, g); /* from here on it may be closed */
        }
        return OK;
}

void segments_keep(struct segments *s)
{
        size_t first = first_touched(s);
        for (size_t i = s->len; i-- > first;) {
                struct segment *g = s->at[i];
                g->kept_end = g->end;
                g->n_kept += g->n_new;
                g->n_new = 0;
                if (i + 1 == s->len)
                        continue;
                if (g->n_kept)
                        leave(s, g);
                else
                        remove_at(s, i);
        }
        s->kept_len = s->len;
}

void segments_undo(struct segments *s)
{
        while (s->len > s->kept_len + 1)
                remove_at(s, s->len - 1);
        for (size_t i = first_touched(s); i < s->len; i++) {
                s->at[i]->end = s->at[i]->kept_end;
                s->at[i]->n_new = 0;
                set_clean(s, s->at[i]);
        }
        s->is_sync_failed = false;
        measure_room(s);
}

void segments_drop(struct segments *s, const struct segment_place *place)
{
        size_t at;
        struct segment *g = find(s, place->segment, &at);
        uint64_t from = ALIGN_UP(place->offset, (uint64_t)PAGE_BYTES);
        uint64_t to = (place->offset + place->bytes) & ~(uint64_t)(PAGE_BYTES - 1);
        ASSERT(!s->is_reader && g && g->n_kept > 0);
        g->n_kept--;
        if (!g->n_kept && !g->n_new && at + 1 < s->len) {
                remove_at(s, at);
                return;
        }
        if (to <= from || hold(s, g->number, &g, NULL) != OK)
                return;
        (void)segment_io_allocate(g->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to);
        measure(s, g);
        let_go(s, g);
}

/* ---- reading ---- */

static int read_block(struct segments *s, const struct segment *g,
                      const struct segment_place *place, struct buf *ret, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES];
        struct stat st;
        if (fstat(g->fd, &st) < 0)
                return failed("look at", path_of(s, g->number, path), p);
        if (place->offset < SEGMENT_HEADER_BYTES || place->offset > (uint64_t)st.st_size ||
            place->bytes > (uint64_t)st.st_size - place->offset)
                return unusable(s, g->number, "is too short", p);
        if (!buf_reserve(ret, place->bytes))
                return problem_set(p, ERR_NOMEM, "no memory for %u bytes of history", place->bytes);
        ssize_t n = segment_io_read(g->fd, place->offset, ret->ptr, place->bytes);
        if (n < 0)
                return failed("read", path_of(s, g->number, path), p);
        if ((uint64_t)n < place->bytes)
                return unusable(s, g->number, "is too short", p);
        ret->len = place->bytes;
        return OK;
}

int segments_read(struct segments *s, const struct segment_place *place, struct buf *ret,
                  struct problem *p)
{
        struct segment *g;
        buf_clear(ret);
        int err = hold(s, place->segment, &g, p);
        if (err)
                return err;
        err = read_block(s, g, place, ret, p);
        let_go(s, g);
        return err;
}

static bool is_in_place(const struct segments *s, const struct segment *g)
{
        char path[SEGMENT_PATH_BYTES];
        struct stat st;
        return lstat(path_of(s, g->number, path), &st) == 0 && st.st_dev == g->dev &&
               st.st_ino == g->ino;
}

int segments_check_place(struct segments *s, struct problem *p)
{
        char path[SEGMENT_PATH_BYTES];
        const struct segment *gone = NULL;
        for (size_t i = first_touched(s); !gone && i < s->len; i++)
                gone = is_in_place(s, s->at[i]) ? NULL : s->at[i];
        size_t n = s->len < CHECK_AT_ONCE ? s->len : CHECK_AT_ONCE;
        for (size_t i = 0; !gone && i < n; i++) {
                s->checked = s->checked + 1 < s->len ? s->checked + 1 : 0;
                gone = is_in_place(s, s->at[s->checked]) ? NULL : s->at[s->checked];
        }
        if (!gone)
                return OK;
        return problem_set(p, ERR_IO,
                           "the history file %s was removed, moved or replaced while weir runs; "
                           "put it back, or move all of %s* away and start weir again",
                           SHOWN_MAX(slice_str(path_of(s, gone->number, path)), SHOWN_PATH_MAX),
                           SHOWN_MAX(slice_str(history_name(s)), SHOWN_NAME_MAX));
}

uint64_t segments_bytes(const struct segments *s)
{
        return atomic_load(&s->bytes);
}

uint64_t segments_room(const struct segments *s)
{
        return atomic_load(&s->room);
}
