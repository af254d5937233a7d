/* See tls_store.h. */
#include "door/tls_store.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/duration.h"
#include "base/say.h"
#include "door/tls_files.h"

#define FILES 3

/* What changes when a file is written or replaced; all zeros: it is not there. */
struct look {
        struct timespec written, changed;
        dev_t device;
        ino_t inode;
        off_t size;
};

struct tls_store {
        struct tls_ctx *ctx;
        char *path[FILES]; /* cert, key, ca; NULL: none */
        enum tls_verify verify;
        struct look look[FILES]; /* as the files were when ctx was read */
        bool is_failing;         /* they changed since, and could not be read; that was said */
        int64_t warned_ms;       /* when the log last said that the certificate ends soon */
};

/* The old paths may be those of `files`. */
static void set_paths(struct tls_store *s, const struct tls_files *files)
{
        const char *path[FILES] = {files->cert, files->key, files->ca};
        for (size_t i = 0; i < FILES; i++) {
                char *copy = path[i] ? xstrdup(path[i]) : NULL;
                free(s->path[i]);
                s->path[i] = copy;
        }
        s->verify = files->verify;
}

static struct tls_files files_of(const struct tls_store *s)
{
        return (struct tls_files){s->path[0], s->path[1], s->path[2], s->verify};
}

static void look_at(const char *path, struct look *ret)
{
        struct stat st;
        memset(ret, 0, sizeof(*ret)); /* padding is compared too */
        if (!path || stat(path, &st) != 0)
                return;
        ret->written = st.st_mtim;
        ret->changed = st.st_ctim;
        ret->device = st.st_dev;
        ret->inode = st.st_ino;
        ret->size = st.st_size;
}

static void look_at_all(const struct tls_files *files, struct look ret[FILES])
{
        look_at(files->cert, &ret[0]);
        look_at(files->key, &ret[1]);
        look_at(files->ca, &ret[2]);
}

/* Of one that was just read. */
static void say_times(const struct tls_store *s, int64_t now_ms)
{
        char begins[TLS_DATE_MAX], ends[TLS_DATE_MAX];
        (void)tls_date(tls_ctx_begins_ms(s->ctx), begins);
        (void)tls_date(tls_ctx_ends_ms(s->ctx), ends);
        say_info("tls", "certificate read", "cert", s->path[0], "ends", ends);
        if (tls_ctx_begins_ms(s->ctx) > now_ms)
                say_warn("tls", "the certificate is not valid yet: clients will refuse it", "cert",
                         s->path[0], "begins", begins);
}

/* Once a day. */
static void warn_end(struct tls_store *s, int64_t now_ms)
{
        char ends[TLS_DATE_MAX];
        int64_t left_ms = tls_ctx_ends_ms(s->ctx) - now_ms;
        if (left_ms > TLS_ENDS_SOON_MS || (s->warned_ms && now_ms - s->warned_ms < MS_PER_DAY))
                return;
        s->warned_ms = now_ms;
        say_warn("tls", left_ms > 0 ? "the certificate ends soon" : "the certificate has expired",
                 "cert", s->path[0], "ends", tls_date(tls_ctx_ends_ms(s->ctx), ends), "days_left",
                 SAY_I64(left_ms > 0 ? left_ms / MS_PER_DAY : 0));
}

int tls_store_set(struct tls_store *s, const struct tls_files *files, int64_t now_ms,
                  struct problem *problem)
{
        struct look look[FILES];
        struct tls_ctx *ctx = NULL;
        look_at_all(files, look); /* before: what changes while it is read, is read again */
        int r = tls_ctx_new(files, now_ms, &ctx, problem);
        if (r != OK)
                return r;
        set_paths(s, files);
        memcpy(s->look, look, sizeof(look));
        (void)tls_ctx_free(s->ctx); /* its connections keep what they need of it */
        s->ctx = ctx;
        s->is_failing = false;
        s->warned_ms = 0;
        say_times(s, now_ms);
        warn_end(s, now_ms);
        return OK;
}

int tls_store_new(const struct tls_files *files, int64_t now_ms, struct tls_store **ret,
                  struct problem *problem)
{
        struct tls_store *s = xcalloc(1, sizeof(*s));
        int r = tls_store_set(s, files, now_ms, problem);
        if (r == OK)
                *ret = s;
        else
                (void)tls_store_free(s);
        return r;
}

/* One that failed is tried every time: a file may be written twice within the grain of its clock.
 */
void tls_store_look(struct tls_store *s, int64_t now_ms)
{
        struct look look[FILES];
        struct problem problem;
        struct tls_files files = files_of(s);
        look_at_all(&files, look);
        if (s->is_failing || memcmp(look, s->look, sizeof(look)) != 0) {
                int r = tls_store_set(s, &files, now_ms, &problem);
                if (r != OK && !s->is_failing)
                        say_warn("tls",
                                 "the files changed and cannot be used, the old certificate "
                                 "holds; trying again every second",
                                 "why", problem.detail);
                s->is_failing = r != OK;
        }
        warn_end(s, now_ms);
}

struct tls_ctx *tls_store_peek(const struct tls_store *s)
{
        return s->ctx;
}

struct tls_store *tls_store_free(struct tls_store *s)
{
        if (!s)
                return NULL;
        (void)tls_ctx_free(s->ctx);
        for (size_t i = 0; i < FILES; i++)
                free(s->path[i]);
        free(s);
        return NULL;
}
