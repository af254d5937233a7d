/* See exporter.h.
 *
 * The thread sleeps until there is an attempt, gives others BATCH_MS to come, takes all and posts
 * them in requests of REQUEST_SPANS.  What a request comes to:
 *
 *      2xx                           exported, but for the spans that its answer says were rejected
 *      429, 502, 503, 504, no answer tried again after 1 s, 2 s and 4 s, then dropped
 *      another, a wrong certificate  dropped: it would be refused again
 *
 * The waits are those of OTLP's specification in short: what comes meanwhile fills the buffer, and
 * what does not fit is dropped, so memory is bounded however long the collector is away.
 *
 * The handle is libcurl's easy one, as nothing else is done meanwhile.  It calls back at least once
 * a second, which is when a stop is noticed.  Redirects are not followed and proxies not used: the
 * headers may hold a key. */
#include "telemetry/exporter.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/say.h"
#include "telemetry/spans.h"
#include "wire/json.h"

#define BATCH_MS      1000 /* of waiting for more */
#define REQUEST_SPANS 2000
#define CONNECT_MS    5000L
#define REQUEST_MS    10000L
#define LAST_MS       2000L /* all of what is left at the end */
#define TRIES         4
#define ANSWER_BYTES  65536
#define WARN_NS       (60 * NS_PER_S)

struct setup {
        char *url, *headers, *ca_file, *service;
};

struct exporter {
        struct tracer tracer; /* its counters are written by both threads */
        struct spans_source source;
        char *version, *instance;
        bool has_thread, is_on; /* loop only */
        pthread_t thread;
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t wake;
        uint32_t queue_limit;
        struct buf waiting; /* packed attempts */
        uint32_t n_waiting; /* spans of them */
        struct setup *next; /* to be used from now on; NULL: as before */
        bool is_stopping;
        atomic_llong stop_ns; /* when a request must be over; 0: no stop yet */
        /* Of the thread only. */
        struct setup *setup;
        CURL *curl;
        struct curl_slist *header_list;
        struct buf body, answer;
        char curl_error[CURL_ERROR_SIZE];
        int64_t warned_ns;
        uint64_t warned_dropped; /* of tracer.dropped when it last warned */
};

/* ---- the loop's side ---- */

static void lock(struct exporter *e)
{
        (void)pthread_mutex_lock(&e->lock); /* cannot fail: not recursive, always valid */
}

static void unlock(struct exporter *e)
{
        (void)pthread_mutex_unlock(&e->lock);
}

static void on_ended(void *ctx, const struct attempt *a)
{
        struct exporter *e = ctx;
        unsigned n = spans_of(a);
        lock(e);
        uint32_t before = e->n_waiting, half = e->queue_limit / 2;
        bool has_room = before + n <= e->queue_limit;
        if (has_room) {
                spans_pack(&e->waiting, a);
                e->n_waiting += n;
        }
        unlock(e);
        if (!has_room)
                e->tracer.dropped += n;
        else if (!before ||
                 (before < half && before + n >= half)) /* it sleeps, or waits for more */
                (void)pthread_cond_signal(&e->wake);
}

struct exporter *exporter_new(const char *version, const char *instance)
{
        struct exporter *e = xcalloc(1, sizeof(*e));
        pthread_condattr_t attr;
        e->version = xstrdup(version);
        e->instance = xstrdup(instance);
        e->source = (struct spans_source){NULL, e->version, e->instance};
        e->tracer.ended = on_ended;
        e->tracer.ctx = e;
        e->tracer.seed = hash_bytes(0, slice_str(instance));
        buf_init(&e->answer, ANSWER_BYTES);
        (void)pthread_mutex_init(&e->lock, NULL); /* these fail only without memory for nothing */
        (void)pthread_condattr_init(&attr);
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&e->wake, &attr);
        (void)pthread_condattr_destroy(&attr);
        return e;
}

static char *copy(const char *text)
{
        return text ? xstrdup(text) : NULL;
}

static struct setup *setup_free(struct setup *s)
{
        if (!s)
                return NULL;
        if (s->headers)
                explicit_bzero(s->headers, strlen(s->headers));
        free(s->headers);
        free(s->url);
        free(s->ca_file);
        free(s->service);
        free(s);
        return NULL;
}

static void *run(void *ctx);

/* Signals are the loop's. */
static void start_thread(struct exporter *e)
{
        sigset_t all, before;
        (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* counted: once more is fine */
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        e->has_thread = pthread_create(&e->thread, NULL, run, e) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void exporter_set(struct exporter *e, const struct exporter_options *o)
{
        e->is_on = o->url != NULL;
        e->tracer.sample = o->sample;
        if (!e->is_on)
                return; /* what waits goes to the old url */
        struct setup *s = xcalloc(1, sizeof(*s));
        s->url = copy(o->url);
        s->headers = copy(o->headers);
        s->ca_file = copy(o->ca_file);
        s->service = copy(o->service);
        lock(e);
        setup_free(e->next);
        e->next = s;
        e->queue_limit = o->queue_limit;
        unlock(e);
        if (!e->has_thread)
                start_thread(e);
        if (!e->has_thread) {
                e->is_on = false;
                say_error("telemetry", "no thread for the exporter: no spans are exported");
        }
}

struct tracer *exporter_tracer(struct exporter *e)
{
        return e->is_on ? &e->tracer : NULL;
}

struct exporter *exporter_free(struct exporter *e)
{
        if (!e)
                return NULL;
        lock(e);
        e->is_stopping = true;
        atomic_store(&e->stop_ns, clock_boot_ns() + LAST_MS * NS_PER_MS);
        unlock(e);
        (void)pthread_cond_signal(&e->wake);
        if (e->has_thread)
                (void)pthread_join(e->thread, NULL);
        setup_free(e->next);
        setup_free(e->setup);
        buf_release(&e->waiting);
        buf_release(&e->body);
        buf_release(&e->answer);
        (void)pthread_cond_destroy(&e->wake);
        (void)pthread_mutex_destroy(&e->lock);
        free(e->version);
        free(e->instance);
        free(e);
        return NULL;
}

/* ---- headers ---- */

bool exporter_is_header(struct slice line)
{
        static const char signs[] = "!#$%&'*+-.^_`|~"; /* of a token, RFC 9110 */
        size_t name = 0;
        while (name < line.len && line.ptr[name] != ':') {
                char c = line.ptr[name++];
                bool is_word = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
                if (!is_word && (!c || !strchr(signs, c)))
                        return false;
        }
        if (!name || name + 1 >= line.len)
                return false;
        for (size_t i = name + 1; i < line.len; i++)
                if ((unsigned char)line.ptr[i] < ' ' || line.ptr[i] == 0x7f)
                        return false;
        return true;
}

static void add_header(struct exporter *e, const char *line)
{
        struct curl_slist *longer = curl_slist_append(e->header_list, line);
        ASSERT(longer);
        e->header_list = longer;
}

static void add_headers(struct exporter *e)
{
        struct buf line CLEANUP(buf_release) = {0};
        add_header(e, "Content-Type: application/json");
        add_header(e, "Expect:"); /* no waiting for a 100 before the body */
        for (const char *at = e->setup->headers; at && *at;) {
                size_t len = strcspn(at, "\n");
                buf_clear(&line);
                buf_put(&line, at, len);
                if (exporter_is_header(buf_slice(&line)))
                        add_header(e, buf_cstr(&line));
                at += len + (at[len] == '\n');
        }
        if (line.ptr)
                explicit_bzero(line.ptr, line.cap);
}

/* ---- a request ---- */

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
        struct exporter *e = ctx;
        if (e->answer.len + size * n <= ANSWER_BYTES)
                buf_put(&e->answer, bytes, size * n);
        return size * n; /* the rest is read and not kept */
}

/* Not 0 ends the request. */
static int on_progress(void *ctx, curl_off_t to_come, curl_off_t came, curl_off_t to_go,
                       curl_off_t gone)
{
        struct exporter *e = ctx;
        int64_t stop_ns = atomic_load(&e->stop_ns);
        (void)to_come; /* only the time counts */
        (void)came;
        (void)to_go;
        (void)gone;
        return stop_ns && clock_boot_ns() > stop_ns;
}

#define SET(option, value)                                                                         \
        do {                                                                                       \
                CURLcode set_ = curl_easy_setopt(e->curl, option, value);                          \
                ASSERT(set_ == CURLE_OK);                                                          \
        } while (0)

static void close_handle(struct exporter *e)
{
        curl_easy_cleanup(e->curl);
        curl_slist_free_all(e->header_list);
        e->curl = NULL;
        e->header_list = NULL;
}

static void open_handle(struct exporter *e)
{
        e->curl = curl_easy_init();
        ASSERT(e->curl);
        add_headers(e);
        SET(CURLOPT_URL, e->setup->url);
        SET(CURLOPT_ERRORBUFFER, e->curl_error);
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_HTTPHEADER, e->header_list);
        SET(CURLOPT_USERAGENT, "weir");
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, e);
        SET(CURLOPT_NOPROGRESS, 0L);
        SET(CURLOPT_XFERINFOFUNCTION, on_progress);
        SET(CURLOPT_XFERINFODATA, e);
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
        SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_PROXY, "");
        SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_QUICK_EXIT, 1L); /* never waits for a name server that does not answer */
        SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
        SET(CURLOPT_TIMEOUT_MS, REQUEST_MS);
        if (e->setup->ca_file)
                SET(CURLOPT_CAINFO, e->setup->ca_file);
}

/* What a collector took only in part: {"partialSuccess": {"rejectedSpans": "2"}}. */
static uint64_t rejected_spans(const struct exporter *e, unsigned n)
{
        struct json_value root, part, count;
        struct problem unused;
        int64_t rejected = 0;
        if (json_parse(buf_slice(&e->answer), 32, &root, &unused) != OK ||
            !json_get(&root, "partialSuccess", &part) || !json_get(&part, "rejectedSpans", &count))
                return 0;
        struct slice text = count.text; /* OTLP writes it as a string, some as a number */
        if (count.type == JSON_STRING && text.len > 1)
                text = slice_make(text.ptr + 1, text.len - 2);
        if (!slice_to_i64(text, &rejected) || rejected < 0)
                return 0;
        return (uint64_t)rejected < n ? (uint64_t)rejected : n;
}

enum outcome { OUTCOME_DONE, OUTCOME_AGAIN, OUTCOME_REFUSED };

/* why: for the log. */
static enum outcome post(struct exporter *e, char *why, size_t size)
{
        long status = 0;
        buf_clear(&e->answer);
        e->curl_error[0] = '\0';
        SET(CURLOPT_POSTFIELDS, e->body.ptr);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)e->body.len);
        CURLcode code = curl_easy_perform(e->curl);
        (void)curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &status);
        if (code != CURLE_OK) {
                (void)snprintf(why, size, "%s",
                               e->curl_error[0] ? e->curl_error : curl_easy_strerror(code));
                bool is_certificate = code == CURLE_PEER_FAILED_VERIFICATION;
                return is_certificate ? OUTCOME_REFUSED : OUTCOME_AGAIN;
        }
        if (status >= 200 && status < 300)
                return OUTCOME_DONE;
        (void)snprintf(why, size, "HTTP %ld", status);
        bool is_passing = status == 429 || status == 502 || status == 503 || status == 504;
        return is_passing ? OUTCOME_AGAIN : OUTCOME_REFUSED;
}

/* ---- the thread ---- */

/* The lock is held.  Returns at `until_ns`, when it is woken, or for no reason. */
static void sleep_until(struct exporter *e, int64_t until_ns)
{
        struct timespec at;
        (void)clock_gettime(CLOCK_MONOTONIC, &at); /* always there */
        int64_t left_ns = until_ns - clock_boot_ns();
        int64_t sum_ns = at.tv_nsec + (left_ns > 0 ? left_ns : 0);
        at.tv_sec += sum_ns / NS_PER_S;
        at.tv_nsec = sum_ns % NS_PER_S;
        (void)pthread_cond_timedwait(&e->wake, &e->lock, &at);
}

/* False: weir stops. */
static bool rest(struct exporter *e, int64_t ms)
{
        int64_t until_ns = clock_boot_ns() + ms * NS_PER_MS;
        lock(e);
        while (!e->is_stopping && clock_boot_ns() < until_ns)
                sleep_until(e, until_ns);
        bool is_stopping = e->is_stopping;
        unlock(e);
        return !is_stopping;
}

static void warn(struct exporter *e, const char *why)
{
        int64_t now_ns = clock_boot_ns();
        uint64_t dropped = e->tracer.dropped;
        if (dropped == e->warned_dropped || (e->warned_ns && now_ns - e->warned_ns < WARN_NS))
                return;
        say_warn("telemetry", "spans were dropped", "spans", SAY_I64(dropped - e->warned_dropped),
                 "why", why, "url", e->setup->url);
        e->warned_ns = now_ns;
        e->warned_dropped = dropped;
}

static void send_request(struct exporter *e, unsigned n)
{
        char why[CURL_ERROR_SIZE] = "";
        enum outcome outcome = OUTCOME_AGAIN;
        for (int i = 0; i < TRIES && outcome == OUTCOME_AGAIN; i++) {
                if (i && !rest(e, MS_PER_S << (i - 1)))
                        break;
                outcome = post(e, why, sizeof(why));
        }
        uint64_t rejected = outcome == OUTCOME_DONE ? rejected_spans(e, n) : n;
        e->tracer.exported += n - rejected;
        e->tracer.dropped += rejected;
        warn(e, why[0] ? why : rejected ? "the collector rejected them" : "the buffer was full");
}

/* The lock is held. */
static void wait_for_batch(struct exporter *e)
{
        while (!e->n_waiting && !e->is_stopping)
                (void)pthread_cond_wait(&e->wake, &e->lock);
        int64_t until_ns = clock_boot_ns() + BATCH_MS * NS_PER_MS;
        while (!e->is_stopping && e->n_waiting < e->queue_limit / 2 && clock_boot_ns() < until_ns)
                sleep_until(e, until_ns);
}

static void take_setup(struct exporter *e, struct setup *next)
{
        if (!next)
                return;
        close_handle(e);
        setup_free(e->setup);
        e->setup = next;
        e->source.service = next->service;
        open_handle(e);
}

static void *run(void *ctx)
{
        struct exporter *e = ctx;
        struct buf taken = {0};
        bool is_stopping = false;
        background_lower();
        while (!is_stopping) {
                lock(e);
                wait_for_batch(e);
                struct buf swap = e->waiting;
                e->waiting = taken;
                taken = swap;
                e->n_waiting = 0;
                is_stopping = e->is_stopping;
                struct setup *next = TAKE_PTR(e->next);
                unlock(e);
                take_setup(e, next);
                struct slice packed = buf_slice(&taken);
                while (packed.len) {
                        buf_clear(&e->body);
                        unsigned n =
                                spans_put_request(&e->body, &e->source, &packed, REQUEST_SPANS);
                        send_request(e, n);
                }
                buf_clear(&taken);
        }
        close_handle(e);
        buf_release(&taken);
        return NULL;
}
