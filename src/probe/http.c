/* Values from a JSON document that a web server gives: one request a tick for all metrics.
 *
 * The connection is kept.  No redirects, no proxy, nothing but HTTP and HTTPS: the address is the
 * operator's, and an answer must not lead elsewhere.  libcurl's multi interface is used for a
 * single transfer because it can wait for stop_fd as well.
 *
 * libcurl looks names up on threads of its own and, unless told otherwise, waits for such a thread
 * when the transfer is given up.  Told so, it leaves it behind until the lookup ends by itself; so
 * after a name that was not found in time there is a rest, or they would pile up. */
#include "probe/probe_int.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/shown.h"
#include "wire/json.h"

#define HEADERS_MAX (64 * KIB)
#define DEPTH_MAX   32
#define JSON_PREFIX "json:"

struct http {
        const struct probe_options *options;
        CURLM *multi;
        CURL *easy;
        struct buf body;
        size_t headers; /* bytes of them; libcurl keeps all */
        char error[CURL_ERROR_SIZE];
        struct rest rest; /* of looking its name up */
};

static const char no_name[] = "the name of the server could not be looked up in time";

static int http_check(const char *source, struct problem *problem)
{
        if (strncmp(source, JSON_PREFIX, strlen(JSON_PREFIX)) == 0 &&
            source[strlen(JSON_PREFIX)] != '\0')
                return OK;
        return problem_set(problem, ERR_BADARG, "an http target has json:path.to.value, not '%s'",
                           SHOWN_MAX(slice_str(source), 80));
}

void http_prober_setup(void)
{
        (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* counted: once more is fine */
}

/* Less than n taken ends the transfer. */
static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
        struct http *h = ctx;
        buf_put(&h->body, bytes, size * n);
        return h->body.failed ? 0 : size * n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *ctx)
{
        struct http *h = ctx;
        (void)bytes;
        h->headers += size * n;
        return h->headers > HEADERS_MAX ? 0 : size * n;
}

/* The value at a path such as "queues.0.depth". */
static bool walk(struct json_value at, const char *path, struct json_value *ret)
{
        while (*path) {
                size_t len = strcspn(path, ".");
                struct slice step = slice_make(path, len), key;
                struct json_value inner = {0};
                struct json_iter it = {0};
                uint64_t index = 0;
                bool is_found = false;
                if (at.type == JSON_ARRAY && slice_to_u64(step, &index))
                        for (uint64_t i = 0; !is_found && json_array_next(&at, &it, &inner); i++)
                                is_found = i == index;
                else
                        while (!is_found && json_object_next(&at, &it, &key, &inner))
                                is_found = json_key_is(key, step);
                if (!is_found)
                        return false;
                at = inner;
                path += len + (path[len] == '.');
        }
        *ret = at;
        return true;
}

static void read_value(const struct json_value *root, const char *path, struct reading *ret)
{
        struct json_value v;
        if (!walk(*root, path, &v))
                reading_fail(ret, "the answer has no %s", SHOWN_MAX(slice_str(path), 100));
        else if (v.type != JSON_NUMBER)
                reading_fail(ret, "%s is %s, not a number", SHOWN_MAX(slice_str(path), 100),
                             json_type_name(v.type));
        else
                reading_set_text(ret, v.text.ptr, v.text.len);
}

static void fail_all(const struct http *h, struct reading *ret, const char *why)
{
        for (size_t i = 0; i < h->options->n_metrics; i++)
                reading_fail(&ret[i], "%s", why);
}

static void fail_silent(const struct http *h, struct reading *ret, const char *why)
{
        fail_all(h, ret, why);
        for (size_t i = 0; i < h->options->n_metrics; i++)
                ret[i].is_silent = true;
}

/* Whether no server said anything, by what libcurl says. */
static bool is_no_answer(const struct http *h, CURLcode code)
{
        long error = 0;
        (void)curl_easy_getinfo(h->easy, CURLINFO_OS_ERRNO, &error);
        if (code == CURLE_COULDNT_CONNECT)
                return !is_nobody_there((int)error);
        return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_GOT_NOTHING ||
               code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_PARTIAL_FILE;
}

/* Runs the transfer to its end; what libcurl said about it in *ret. */
static int transfer(struct http *h, const struct sql_wait *w, CURLcode *ret)
{
        struct curl_waitfd stop = {.fd = w->stop_fd, .events = CURL_WAIT_POLLIN};
        int running = 0, r = OK;
        *ret = CURLE_FAILED_INIT;
        if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK)
                return ERR_UNAVAIL;
        for (;;) {
                struct CURLMsg *message;
                int left;
                if (curl_multi_perform(h->multi, &running) != CURLM_OK)
                        r = ERR_UNAVAIL;
                while ((message = curl_multi_info_read(h->multi, &left)))
                        if (message->msg == CURLMSG_DONE)
                                *ret = message->data.result;
                if (r != OK || !running)
                        break;
                int64_t left_ms = (w->deadline_ns - clock_boot_ns()) / NS_PER_MS;
                if (left_ms <= 0)
                        r = ERR_TIMEOUT;
                else if (curl_multi_poll(h->multi, &stop, 1, (int)left_ms, NULL) != CURLM_OK)
                        r = ERR_UNAVAIL;
                else if (stop.revents)
                        r = ERR_STOPPING;
                if (r != OK)
                        break;
        }
        (void)curl_multi_remove_handle(h->multi, h->easy); /* it was added above */
        return r;
}

static void read_body(const struct http *h, struct reading *ret)
{
        struct json_value root;
        struct problem problem;
        if (json_parse(buf_slice(&h->body), DEPTH_MAX, &root, &problem) != OK) {
                fail_all(h, ret, "the answer is not JSON");
                return;
        }
        for (size_t i = 0; i < h->options->n_metrics; i++) {
                const char *source = metric_source(&h->options->metrics[i]);
                read_value(&root, source + strlen(JSON_PREFIX), &ret[i]);
        }
}

/* Of a transfer that came to no end. */
static void fail_late(struct http *h, const struct sql_wait *w, int err, struct reading *ret)
{
        struct problem problem;
        curl_off_t looked_up_us = 0; /* 0: not yet; never of an address or a kept connection */
        (void)curl_easy_getinfo(h->easy, CURLINFO_NAMELOOKUP_TIME_T, &looked_up_us);
        if (err == ERR_TIMEOUT && !looked_up_us) {
                rest_begin(&h->rest, clock_boot_ns());
                fail_silent(h, ret, no_name);
                return;
        }
        (void)wait_problem(w, err, &problem);
        fail_silent(h, ret, problem.detail);
}

static int http_sample(void *self, const struct sql_wait *w, struct reading *ret)
{
        struct http *h = self;
        CURLcode code;
        long status = 0;
        char why[PROBE_ERROR_MAX];
        struct problem problem;
        if (!rest_is_over(&h->rest, clock_boot_ns())) {
                fail_silent(h, ret, no_name);
                return OK;
        }
        buf_clear(&h->body);
        h->headers = 0;
        h->error[0] = '\0';
        int r = transfer(h, w, &code);
        (void)curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
        if (r == ERR_TIMEOUT || r == ERR_STOPPING || code == CURLE_OPERATION_TIMEDOUT) {
                fail_late(h, w, r == OK ? ERR_TIMEOUT : r, ret);
                return OK;
        }
        h->rest = (struct rest){0};
        if (h->body.failed) {
                (void)answer_too_long(&problem);
                fail_all(h, ret, problem.detail);
        } else if (h->headers > HEADERS_MAX) {
                fail_all(h, ret, "the headers of the answer are longer than 64 KiB");
        } else if (r != OK || is_no_answer(h, code)) {
                fail_silent(h, ret, h->error[0] ? h->error : curl_easy_strerror(code));
        } else if (code != CURLE_OK) {
                fail_all(h, ret, h->error[0] ? h->error : curl_easy_strerror(code));
        } else if (status < 200 || status > 299) {
                (void)snprintf(why, sizeof(why), "the server answers with status %ld", status);
                fail_all(h, ret, why);
        } else {
                read_body(h, ret);
        }
        return OK;
}

static void http_close(void *self)
{
        struct http *h = self;
        curl_easy_cleanup(h->easy);
        (void)curl_multi_cleanup(h->multi); /* nothing is left in it */
        buf_release(&h->body);
        free(h);
}

static void *http_open(const struct probe_options *o, const struct sql_server *server,
                       bool is_replica)
{
        struct http *h = xcalloc(1, sizeof(*h));
        (void)server; /* the url has it */
        (void)is_replica;
        h->options = o;
        h->multi = curl_multi_init();
        h->easy = curl_easy_init();
        ASSERT(h->multi && h->easy && o->url);
        buf_init(&h->body, ANSWER_MAX);
        /* None of these fails for a libcurl that is as new as its header. */
        (void)curl_easy_setopt(h->easy, CURLOPT_URL, o->url);
        (void)curl_easy_setopt(h->easy, CURLOPT_PROTOCOLS_STR, "http,https");
        (void)curl_easy_setopt(h->easy, CURLOPT_PROXY, "");
        (void)curl_easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(h->easy, CURLOPT_QUICK_EXIT, 1L);
        (void)curl_easy_setopt(h->easy, CURLOPT_USERAGENT, "weir-probe");
        (void)curl_easy_setopt(h->easy, CURLOPT_TIMEOUT_MS, (long)o->timeout_ms);
        (void)curl_easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->error);
        (void)curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, on_body);
        (void)curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, h);
        (void)curl_easy_setopt(h->easy, CURLOPT_HEADERFUNCTION, on_header);
        (void)curl_easy_setopt(h->easy, CURLOPT_HEADERDATA, h);
        if (o->tls.ca) { /* and none of the system's */
                (void)curl_easy_setopt(h->easy, CURLOPT_CAINFO, o->tls.ca);
                (void)curl_easy_setopt(h->easy, CURLOPT_CAPATH, NULL);
        }
        if (o->tls.cert) {
                (void)curl_easy_setopt(h->easy, CURLOPT_SSLCERT, o->tls.cert);
                (void)curl_easy_setopt(h->easy, CURLOPT_SSLKEY, o->tls.key);
        }
        if (o->user) {
                (void)curl_easy_setopt(h->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
                (void)curl_easy_setopt(h->easy, CURLOPT_USERNAME, o->user);
                (void)curl_easy_setopt(h->easy, CURLOPT_PASSWORD, o->password ? o->password : "");
        }
        return h;
}

const struct prober_ops http_prober = {
        .check = http_check,
        .open = http_open,
        .close = http_close,
        .sample = http_sample,
};
