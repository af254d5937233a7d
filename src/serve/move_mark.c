/* See move_mark.h. */
#include "serve/move_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/shown.h"
#include "base/slice.h"

#define PATH_MAX_  4096
#define SECOND_MAX 160 /* of the second line */

void move_mark_new_id(struct move_mark *m)
{
        struct rng rng;
        uint8_t bytes[MOVE_ID_LEN / 2];
        rng_init_system(&rng);
        rng_fill(&rng, bytes, sizeof(bytes));
        hex_from_bytes(bytes, sizeof(bytes), m->id);
        m->id[MOVE_ID_LEN] = '\0';
}

void move_mark_time(char ret[MOVE_TIME_LEN + 1])
{
        struct tm tm = {0};
        time_t now = time(NULL);
        (void)gmtime_r(&now, &tm); /* fails only in years that do not fit */
        (void)strftime(ret, MOVE_TIME_LEN + 1, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void move_mark_print(const struct move_mark *m, char ret[LEDGER_CLOSED_MAX])
{
        char second[SECOND_MAX];
        int n = snprintf(second, sizeof(second), "\nmove %s %s next_id %llu fence %llu\n",
                         m->way == MOVE_IN ? "in" : "out", m->id, (unsigned long long)m->next_id,
                         (unsigned long long)m->fence);
        ASSERT(n > 0 && n < SECOND_MAX);
        (void)snprintf(ret, LEDGER_CLOSED_MAX, "%.*s%s", LEDGER_CLOSED_MAX - SECOND_MAX, m->why,
                       second);
}

bool move_mark_parse(const char *text, struct move_mark *m)
{
        char way[4] = "";
        unsigned long long next_id = 0, fence = 0;
        const char *end = strchr(text, '\n');
        *m = (struct move_mark){0};
        size_t len = end ? (size_t)(end - text) : strlen(text);
        len = len < sizeof(m->why) ? len : sizeof(m->why) - 1;
        memcpy(m->why, text, len);
        if (!end ||
            sscanf(end, "\nmove %3s %32s next_id %llu fence %llu", way, m->id, &next_id, &fence) !=
                    4 ||
            strlen(m->id) != MOVE_ID_LEN) {
                m->id[0] = '\0';
                return false;
        }
        m->way = strcmp(way, "in") == 0 ? MOVE_IN : MOVE_OUT;
        m->next_id = next_id;
        m->fence = fence;
        return true;
}

/* ---- files ---- */

static int path_of(const char *folder, const char *name, char ret[PATH_MAX_], struct problem *p)
{
        int n = snprintf(ret, PATH_MAX_, "%s/%s", folder, name);
        return n > 0 && n < PATH_MAX_ ? OK : problem_set(p, ERR_BADARG, "the path is too long");
}

int move_mark_read(const char *folder, const char *name, struct move_mark *ret,
                   struct problem *problem)
{
        char path[PATH_MAX_], text[LEDGER_CLOSED_MAX];
        *ret = (struct move_mark){0};
        int err = path_of(folder, name, path, problem);
        if (err)
                return err;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
                return OK;
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n < 0)
                err = problem_set(problem, ERR_IO, "cannot read %s: %s", SHOWN_LONG(path),
                                  strerror(errno));
        if (fd >= 0)
                (void)close(fd);
        if (err)
                return err;
        text[n] = '\0';
        if (!move_mark_parse(text, ret))
                return problem_set(problem, ERR_CORRUPT,
                                   "%s is not what weir writes there; see docs/cluster.md, "
                                   "\"Moving in and out\"",
                                   SHOWN_LONG(path));
        return OK;
}

int move_mark_sync_folder(const char *path, struct problem *problem)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
        if (fd >= 0)
                (void)close(fd);
        return error ? problem_set(problem, ERR_IO, "%s: %s", SHOWN_LONG(path), strerror(error))
                     : OK;
}

static int write_file(const char *path, const char *text, struct problem *problem)
{
        size_t len = strlen(text);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        bool is_written = fd >= 0 && write(fd, text, len) == (ssize_t)len && fsync(fd) == 0;
        int error = errno;
        if (fd >= 0)
                (void)close(fd); /* it is synced */
        return is_written ? OK
                          : problem_set(problem, ERR_IO, "cannot write %s: %s", SHOWN_LONG(path),
                                        strerror(error));
}

int move_mark_write(const char *folder, const char *name, const struct move_mark *m,
                    struct problem *problem)
{
        char path[PATH_MAX_], part[PATH_MAX_ + 8], text[LEDGER_CLOSED_MAX];
        int err = path_of(folder, name, path, problem);
        if (err)
                return err;
        (void)snprintf(part, sizeof(part), "%s.part", path); /* fits */
        move_mark_print(m, text);
        err = write_file(part, text, problem);
        if (!err && rename(part, path) != 0)
                err = problem_set(problem, ERR_IO, "cannot rename %s: %s", SHOWN_LONG(part),
                                  strerror(errno));
        return err ? err : move_mark_sync_folder(folder, problem);
}

int move_mark_check(const char *data, struct problem *problem)
{
        struct move_mark m;
        int err = move_mark_read(data, MOVED_NAME, &m, problem);
        return err || !m.id[0] ? err : problem_set(problem, ERR_STATE, "%s", m.why);
}
