/* See audit_syslog.h. */
#include "serve/audit_syslog.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <syslog.h>
#include <time.h>

#include "base/say.h"
#include "wire/json.h"

#define LINES_MAX 1000
#define CLOSE_S   1 /* for what is left */

struct line {
        struct line *next;
        char text[];
};

struct audit_syslog {
        pthread_t thread;
        pthread_mutex_t lock; /* for what follows */
        pthread_cond_t wake, idle;
        struct line *first, **end;
        size_t n;
        uint64_t dropped;
        bool is_closing, is_idle;
};

static void put_text(struct buf *b, const char *key, struct slice s)
{
        json_put_key(b, key);
        json_put_text_lossy(b, s);
}

/* What is JSON already, or "". */
static void put_json(struct buf *b, const char *key, struct slice s)
{
        json_put_key(b, key);
        if (s.len)
                buf_put_slice(b, s);
        else
                buf_put_str(b, "null");
}

static void put_moment(struct buf *b, int64_t at_ms)
{
        time_t at = (time_t)(at_ms / MS_PER_S);
        struct tm tm;
        char text[32] = "";
        if (gmtime_r(&at, &tm))
                (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        buf_printf(b, "\"%s.%03dZ\"", text, (int)(at_ms % MS_PER_S));
}

void audit_syslog_put(const struct audit_entry *e, struct buf *ret)
{
        buf_put_byte(ret, '{');
        json_put_key(ret, "number");
        buf_put_i64(ret, (int64_t)e->number);
        json_put_key(ret, "at");
        put_moment(ret, e->at_ms);
        put_text(ret, "who", e->who);
        put_text(ret, "role", e->role);
        put_text(ret, "address", e->address);
        put_text(ret, "door", e->door);
        put_text(ret, "command", e->command);
        put_text(ret, "what", e->what);
        put_json(ret, "before", e->before);
        put_json(ret, "after", e->after);
        put_text(ret, "reason", e->reason);
        json_put_key(ret, "times");
        buf_put_i64(ret, (int64_t)e->times);
        buf_put_byte(ret, '}');
}

/* ---- the thread ---- */

static void *run(void *ctx)
{
        struct audit_syslog *s = ctx;
        (void)pthread_mutex_lock(&s->lock); /* an ordinary one: it cannot fail */
        while (!s->is_closing || s->first) {
                struct line *l = s->first;
                if (!l) {
                        (void)pthread_cond_wait(&s->wake, &s->lock);
                        continue;
                }
                s->first = l->next;
                if (!s->first)
                        s->end = &s->first;
                s->n--;
                uint64_t dropped = s->dropped;
                s->dropped = 0;
                (void)pthread_mutex_unlock(&s->lock);
                if (dropped)
                        syslog(LOG_AUTHPRIV | LOG_WARNING, "{\"dropped\":%llu}",
                               (unsigned long long)dropped);
                syslog(LOG_AUTHPRIV | LOG_NOTICE, "%s", l->text);
                free(l);
                (void)pthread_mutex_lock(&s->lock);
        }
        s->is_idle = true;
        (void)pthread_cond_signal(&s->idle);
        (void)pthread_mutex_unlock(&s->lock);
        return NULL;
}

/* ---- the loop ---- */

void audit_syslog_send(void *ctx, const struct audit_entry *e)
{
        struct audit_syslog *s = ctx;
        struct buf text CLEANUP(buf_release) = {0};
        audit_syslog_put(e, &text);
        struct line *l = xmalloc(sizeof(*l) + text.len + 1);
        l->next = NULL;
        memcpy(l->text, text.ptr, text.len);
        l->text[text.len] = '\0';
        (void)pthread_mutex_lock(&s->lock);
        bool is_full = s->n >= LINES_MAX;
        if (is_full) {
                s->dropped++;
        } else {
                *s->end = l;
                s->end = &l->next;
                s->n++;
        }
        (void)pthread_cond_signal(&s->wake);
        (void)pthread_mutex_unlock(&s->lock);
        if (is_full)
                free(l);
}

struct audit_syslog *audit_syslog_new(void)
{
        struct audit_syslog *s = xcalloc(1, sizeof(*s));
        sigset_t all, was;
        s->end = &s->first;
        /* These fail only without memory or for bad arguments. */
        int rc = pthread_mutex_init(&s->lock, NULL) | pthread_cond_init(&s->wake, NULL) |
                 pthread_cond_init(&s->idle, NULL);
        ASSERT(rc == 0);
        openlog("weir", LOG_PID | LOG_NDELAY, LOG_AUTHPRIV);
        (void)sigfillset(&all); /* signals are for the loop thread */
        (void)pthread_sigmask(SIG_SETMASK, &all, &was);
        rc = pthread_create(&s->thread, NULL, run, s);
        (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
        if (rc == 0)
                return s;
        say_warn("audit", "no thread for syslog: entries are not sent there", "errno",
                 strerror(rc));
        free(s);
        return NULL;
}

struct audit_syslog *audit_syslog_free(struct audit_syslog *s)
{
        struct timespec until;
        if (!s)
                return NULL;
        (void)clock_gettime(CLOCK_REALTIME, &until); /* what the condition goes by */
        until.tv_sec += CLOSE_S;
        (void)pthread_mutex_lock(&s->lock);
        s->is_closing = true;
        (void)pthread_cond_signal(&s->wake);
        int rc = 0;
        while (!s->is_idle && rc == 0)
                rc = pthread_cond_timedwait(&s->idle, &s->lock, &until);
        bool is_idle = s->is_idle;
        (void)pthread_mutex_unlock(&s->lock);
        if (!is_idle) /* syslog does not take it: the process ends without it */
                return NULL;
        (void)pthread_join(s->thread, NULL);
        closelog();
        free(s);
        return NULL;
}
