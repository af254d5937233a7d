/* Comparing.  New jobs are found by listing from the newest id down to the newest one known
 * before the cycle: that finds what was acknowledged, settles what was in doubt, and shows what
 * nobody sent.  Older jobs that were touched are asked for one by one, pipelined.
 *
 * A grant whose answer was lost is recognised by its worker name (the number of the claim). */
#include "verify.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"
#include "ops.h"

#define PAGE  1000
#define BATCH 256 /* JOB requests under way at once */

struct asker {
        int fd;
        struct bytes in, out;
        size_t at; /* how much of `in` the last answer took */
        struct reply_tree tree;
        uint64_t seen; /* rows of the list */
};

static bool asker_open(struct asker *a, const char *host, int port)
{
        *a = (struct asker){.fd = load_connect(host, port)};
        if (a->fd < 0)
                complain(WRONG, "cannot connect to %s:%d", host, port);
        return a->fd >= 0;
}

static void asker_close(struct asker *a)
{
        close(a->fd);
        bytes_free(&a->in);
        bytes_free(&a->out);
        reply_tree_free(&a->tree);
}

static bool asker_send(struct asker *a)
{
        size_t at = 0;
        while (at < a->out.len) {
                ssize_t n = send(a->fd, a->out.ptr + at, a->out.len - at, MSG_NOSIGNAL);
                if (n <= 0)
                        return false;
                at += (size_t)n;
        }
        a->out.len = 0;
        return true;
}

/* The next answer into a->tree; it lives until the next call. */
static bool asker_next(struct asker *a)
{
        bytes_drop(&a->in, a->at);
        a->at = 0;
        for (;;) {
                long used = reply_parse(a->in.ptr, a->in.len, &a->tree);
                if (used > 0) {
                        a->at = (size_t)used;
                        return true;
                }
                char chunk[65536];
                struct pollfd p = {.fd = a->fd, .events = POLLIN};
                if (used < 0 || poll(&p, 1, 20000) != 1)
                        break;
                ssize_t n = recv(a->fd, chunk, sizeof(chunk), 0);
                if (n <= 0)
                        break;
                bytes_put(&a->in, chunk, (size_t)n);
        }
        complain(WRONG, "no answer while comparing");
        return false;
}

static uint8_t status_bit(const struct node *status)
{
        static const struct {
                const char *name;
                uint8_t bit;
        } rows[] = {{"pending", MAY_PENDING},
                    {"in-progress", MAY_RUN},
                    {"complete", MAY_COMPLETE},
                    {"failed", MAY_FAIL},
                    {"canceled", MAY_CANCEL}};
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (node_is(status, rows[i].name))
                        return rows[i].bit;
        }
        return 0;
}

/* The server names a holder that no answer named: right only for a claim in doubt, and only when
 * the job was free to be granted. */
static void adopt_claim(struct asker *a, uint64_t nonce, uint32_t claim, size_t at)
{
        struct told_job *j = &jobs[nonce];
        uint64_t fence = node_u64(tree_get(&a->tree, at, "fence"));
        if (claim >= n_claims || claims[claim].fate != CLAIM_IN_DOUBT) {
                complain(DOUBLED,
                         "n=%" PRIu64 " is held by claim %" PRIu32 ", which was told"
                         " nothing of it",
                         nonce, claim);
                return;
        }
        if (++claims[claim].seen > claims[claim].max)
                complain(DOUBLED, "claim %" PRIu32 " holds more than its MAX", claim);
        if (j->done_fence || (j->over_us && j->over_us < claims[claim].sent_us))
                complain(DOUBLED, "n=%" PRIu64 " was over and is granted again", nonce);
        if (j->fence && !j->is_given_up && j->lease_end_us > claims[claim].lost_us)
                complain(DOUBLED, "n=%" PRIu64 " was granted over a live lease", nonce);
        if (fence <= j->fence || !fence_is_new(fence))
                complain(DOUBLED, "fence %" PRIu64 " of n=%" PRIu64 " is not new", fence, nonce);
        j->claim = claim;
        j->fence = fence;
        j->has_token = false;
        j->is_given_up = false;
        j->attempt = (uint16_t)node_u64(tree_get(&a->tree, at, "attempt"));
        j->lease_end_us = claims[claim].sent_us + claims[claim].lease_ms * 1000LL;
        if (!j->over_us)
                j->may |= MAY_RUN;
}

static void check_fields(struct asker *a, uint64_t nonce, size_t at)
{
        const struct told_job *j = &jobs[nonce];
        const struct reply_tree *t = &a->tree;
        char hook[16], result[32];
        (void)snprintf(hook, sizeof(hook), "hook%u", (unsigned)(nonce % 7));
        (void)snprintf(result, sizeof(result), "{\"r\":%" PRIu64 "}", nonce);
        if (!node_is(tree_get(t, at, "hook"), hook) ||
            !node_is(tree_get(t, at, "queue"), queue_names[j->queue]) ||
            node_u64(tree_get(t, at, "priority")) != j->priority ||
            node_u64(tree_get(t, at, "attempts")) != j->attempts)
                complain(WRONG, "n=%" PRIu64 " changed its hook, queue, priority or attempts",
                         nonce);
        if (j->may == MAY_COMPLETE && !node_is(tree_get(t, at, "result"), result))
                complain(LOST, "n=%" PRIu64 " lost its result", nonce);
}

/* A job as JOB or a row of JOBS tells it.  The nonce, or 0. */
static uint64_t check_view(struct asker *a, size_t at)
{
        const struct reply_tree *t = &a->tree;
        const struct node *args = tree_get(t, at, "args"), *worker = tree_get(t, at, "worker");
        uint64_t id = node_u64(tree_get(t, at, "id"));
        uint64_t nonce = args && args->ptr ? payload_nonce(args->ptr, args->len) : 0;
        if (!nonce) {
                complain(INVENTED, "job %" PRIu64 " holds args nobody sent", id);
                return 0;
        }
        struct told_job *j = &jobs[nonce];
        if (j->may == MAY_NOT_EXIST)
                complain(INVENTED, "n=%" PRIu64 " was not there before and is now", nonce);
        job_set_id(nonce, id);
        tally.checked++;
        uint32_t claim = worker && worker->len > 1 && worker->ptr[0] == 'c'
                                 ? (uint32_t)strtoul(worker->ptr + 1, NULL, 10)
                                 : 0;
        if (claim != j->claim)
                adopt_claim(a, nonce, claim, at);
        uint8_t bit = status_bit(tree_get(t, at, "status"));
        uint8_t may = job_may(j, steady_us());
        if (!(bit & may)) {
                const struct node *s = tree_get(t, at, "status");
                complain(may & MAY_BE_OVER || bit & MAY_BE_OVER ? LOST : WRONG,
                         "n=%" PRIu64 " (id %" PRIu64 ") is %.*s, may be %#x (attempt %u of %u)",
                         nonce, id, s ? (int)s->len : 0, s ? s->ptr : "", may, j->attempt,
                         j->attempts);
        }
        if (node_u64(tree_get(t, at, "fence")) != j->fence)
                complain(WRONG, "n=%" PRIu64 " has fence %" PRIu64 ", told was %" PRIu64, nonce,
                         node_u64(tree_get(t, at, "fence")), j->fence);
        j->may = bit;
        j->is_cancel_sent = false;
        check_fields(a, nonce, at);
        if (bit & MAY_BE_OVER && !j->over_us)
                j->over_us = steady_us();
        if (bit == MAY_RUN && j->has_token)
                load_hold(nonce);
        return nonce;
}

/* Pages from the newest down to `id_floor` (not including it).  Marks every nonce in `is_seen`. */
static bool check_list(struct asker *a, const char *filter, uint64_t id_floor, uint8_t *is_seen)
{
        char cursor[64] = "";
        uint64_t last_id = UINT64_MAX;
        a->seen = 0;
        for (;;) {
                request_line(&a->out, "JOBS%s LIMIT %d%s%s", filter, PAGE,
                             cursor[0] ? " CURSOR " : "", cursor);
                if (!asker_send(a) || !asker_next(a))
                        return false;
                const struct node *rows = tree_get(&a->tree, 0, "jobs");
                const struct node *next = tree_get(&a->tree, 0, "cursor");
                if (!rows || rows->type != '*') {
                        complain(WRONG, "JOBS was answered with %.*s", (int)a->tree.nodes[0].len,
                                 a->tree.nodes[0].ptr);
                        return false;
                }
                for (size_t i = (size_t)(rows - a->tree.nodes) + 1; i < rows->next;
                     i = a->tree.nodes[i].next) {
                        uint64_t id = node_u64(tree_get(&a->tree, i, "id"));
                        if (id >= last_id)
                                complain(DOUBLED, "id %" PRIu64 " is listed after %" PRIu64, id,
                                         last_id);
                        last_id = id;
                        if (id <= id_floor)
                                return true;
                        uint64_t nonce = check_view(a, i);
                        if (nonce && is_seen[nonce]++)
                                complain(DOUBLED, "n=%" PRIu64 " is listed twice", nonce);
                        a->seen++;
                }
                if (!next || next->len == 0 || next->len >= sizeof(cursor))
                        return true;
                memcpy(cursor, next->ptr, next->len);
                cursor[next->len] = '\0';
        }
}

static bool check_one_by_one(struct asker *a, const uint64_t *nonces, size_t n)
{
        for (size_t done = 0; done < n;) {
                size_t count = n - done < BATCH ? n - done : BATCH;
                for (size_t i = 0; i < count; i++)
                        request_line(&a->out, "JOB %" PRIu64, jobs[nonces[done + i]].id);
                if (!asker_send(a))
                        return false;
                for (size_t i = 0; i < count; i++) {
                        if (!asker_next(a))
                                return false;
                        uint64_t nonce = nonces[done + i];
                        const struct node *answer = &a->tree.nodes[0];
                        if (answer->type != '*')
                                complain(LOST, "n=%" PRIu64 " (id %" PRIu64 "): %.*s", nonce,
                                         jobs[nonce].id, (int)answer->len, answer->ptr);
                        else if (check_view(a, 0) != nonce)
                                complain(WRONG, "JOB %" PRIu64 " told of another", jobs[nonce].id);
                }
                done += count;
        }
        return true;
}

/* A job of the last cycle that the list did not show: right only when it was in doubt. */
static void settle_missing(uint64_t nonce)
{
        struct told_job *j = &jobs[nonce];
        tally.checked++;
        if (j->is_acked || j->id)
                complain(LOST, "n=%" PRIu64 " (id %" PRIu64 ") was acknowledged and is gone", nonce,
                         j->id);
        else if (!(j->may & MAY_NOT_EXIST))
                complain(LOST, "n=%" PRIu64 " was seen and is gone", nonce);
        j->may = MAY_NOT_EXIST;
        j->over_us = steady_us();
        tally.not_found++;
}

static void check_bulks(const uint64_t *nonces, size_t n)
{
        for (size_t i = 1; i < n; i++) {
                const struct told_job *a = &jobs[nonces[i - 1]], *b = &jobs[nonces[i]];
                if (a->bulk && a->bulk == b->bulk && nonces[i] == nonces[i - 1] + 1 &&
                    (a->may == MAY_NOT_EXIST) != (b->may == MAY_NOT_EXIST))
                        complain(LOST, "half of an ENQUEUEMANY is there, at n=%" PRIu64, nonces[i]);
        }
}

static bool check_side(struct asker *a)
{
        request_line(&a->out, "QUEUES");
        if (!asker_send(a) || !asker_next(a))
                return false;
        const struct node *rows = &a->tree.nodes[0];
        for (size_t i = 1; rows->type == '*' && i < rows->next; i = a->tree.nodes[i].next) {
                if (!node_is(tree_get(&a->tree, i, "name"), queue_names[QUEUE_SIDE]))
                        continue;
                const struct node *paused = tree_get(&a->tree, i, "paused");
                load_see_side(paused && (paused->num == 1 || node_is(paused, "true")));
        }
        return true;
}

static uint64_t count_open(void)
{
        uint64_t n = 0;
        for (uint64_t i = 1; i < n_jobs; i++)
                n += !jobs[i].over_us;
        return n;
}

static int by_number(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
        return (x > y) - (x < y);
}

bool verify_cycle(const char *host, int port, uint64_t id_floor, uint32_t sample)
{
        struct asker a;
        if (!asker_open(&a, host, port))
                return false;
        uint64_t *nonces;
        size_t n = touched_take(&nonces), n_older = 0;
        uint8_t *is_seen = calloc(n_jobs, 1);
        uint64_t *older = malloc((n + sample) * sizeof(*older) + 1);
        if (!is_seen || !older)
                abort();
        bool is_ok = check_list(&a, "", id_floor, is_seen);
        for (size_t i = 0; i < n && is_ok; i++) {
                uint64_t nonce = nonces[i];
                if (!jobs[nonce].is_acked && jobs[nonce].may != MAY_NOT_EXIST) {
                        tally.in_doubt++;
                        tally.found += is_seen[nonce];
                        jobs[nonce].is_acked = is_seen[nonce]; /* seen is as good as told */
                }
                if (jobs[nonce].id && jobs[nonce].id <= id_floor)
                        older[n_older++] = nonce;
                else if (!is_seen[nonce] && jobs[nonce].may != MAY_NOT_EXIST)
                        settle_missing(nonce);
        }
        for (uint32_t i = 0; i < sample && is_ok; i++) {
                uint64_t nonce = 1 + dice() % n_jobs;
                if (nonce < n_jobs && jobs[nonce].id && jobs[nonce].id <= id_floor)
                        older[n_older++] = nonce;
        }
        qsort(nonces, n, sizeof(*nonces), by_number);
        /* A claim in doubt may hold jobs that nobody touched in this cycle. */
        memset(is_seen, 0, n_jobs);
        is_ok = is_ok && check_list(&a, " STATUS in-progress", 0, is_seen) &&
                check_one_by_one(&a, older, n_older) && check_side(&a);
        check_bulks(nonces, n);
        load_set_open_jobs(count_open());
        free(older);
        free(is_seen);
        free(nonces);
        asker_close(&a);
        return is_ok;
}

bool verify_all(const char *host, int port)
{
        struct asker a;
        if (!asker_open(&a, host, port))
                return false;
        uint8_t *is_seen = calloc(n_jobs, 1);
        if (!is_seen)
                abort();
        bool is_ok = check_list(&a, "", 0, is_seen);
        for (uint64_t i = 1; i < n_jobs && is_ok; i++) {
                if (!is_seen[i] && jobs[i].id)
                        complain(LOST, "n=%" PRIu64 " (id %" PRIu64 ") is not in the list", i,
                                 jobs[i].id);
        }
        free(is_seen);
        asker_close(&a);
        return is_ok;
}

/* Claims what can be claimed and completes it; the number of jobs it got, -1 on trouble. */
static int drain_once(struct asker *a)
{
        uint32_t claim = claim_new((1 << QUEUE_COUNT) - 1, PAGE, 5000);
        claims[claim].fate = CLAIM_ANSWERED;
        request_line(&a->out, "CLAIM c%" PRIu32 " MAX %d WAIT 200 LEASE 5000 QUEUES %s %s %s %s",
                     claim, PAGE, queue_names[0], queue_names[1], queue_names[2], queue_names[3]);
        if (!asker_send(a) || !asker_next(a))
                return -1;
        uint64_t got[PAGE];
        int n = 0;
        const struct node *rows = &a->tree.nodes[0];
        for (size_t i = 1; rows->type == '*' && i < rows->next; i = a->tree.nodes[i].next) {
                uint64_t nonce = answer_grant(&a->tree, i, claim);
                if (nonce && n < PAGE)
                        got[n++] = nonce;
        }
        for (int i = 0; i < n; i++) {
                const struct told_job *j = &jobs[got[i]];
                request_line(&a->out, "COMPLETE %" PRIu64 " %.*s {\"r\":%" PRIu64 "}", j->id,
                             TOKEN_CHARS, j->token, got[i]);
        }
        if (!asker_send(a))
                return -1;
        for (int i = 0; i < n; i++) {
                if (!asker_next(a))
                        return -1;
                struct op op = {.type = OP_COMPLETE,
                                .nonce = got[i],
                                .fence = jobs[got[i]].fence,
                                .may_before = jobs[got[i]].may};
                answer_complete(&op, &a->tree.nodes[0]);
        }
        return n;
}

static bool cancel_far(struct asker *a)
{
        for (uint64_t i = 1; i < n_jobs; i++) {
                if (!jobs[i].is_far || jobs[i].over_us)
                        continue;
                request_line(&a->out, "CANCEL %" PRIu64, jobs[i].id);
                if (!asker_send(a) || !asker_next(a))
                        return false;
                if (a->tree.nodes[0].type == '-')
                        complain(WRONG, "CANCEL of n=%" PRIu64 ": %.*s", i,
                                 (int)a->tree.nodes[0].len, a->tree.nodes[0].ptr);
                job_settle(i, MAY_CANCEL);
                tally.acked++;
        }
        return true;
}

/* Jobs that ended by themselves (their last lease ran out) are learned from the server. */
static bool look_again(struct asker *a)
{
        for (uint64_t i = 1; i < n_jobs; i++) {
                if (jobs[i].over_us)
                        continue;
                if (!check_one_by_one(a, &i, 1))
                        return false;
        }
        return true;
}

bool verify_drain(const char *host, int port, int64_t patience_us)
{
        struct asker a;
        if (!asker_open(&a, host, port))
                return false;
        int64_t deadline = steady_us() + patience_us;
        request_line(&a.out, "RESUME %s", queue_names[QUEUE_SIDE]);
        bool is_ok = asker_send(&a) && asker_next(&a) && cancel_far(&a);
        while (is_ok && count_open() && steady_us() < deadline) {
                int n = drain_once(&a);
                is_ok = n >= 0 && (n > 0 || look_again(&a));
        }
        if (count_open())
                complain(LOST, "%" PRIu64 " jobs do not come to an end", count_open());
        asker_close(&a);
        return is_ok;
}

void verify_conservation(void)
{
        uint64_t n[4] = {0}, all = 0;
        for (uint64_t i = 1; i < n_jobs; i++) {
                const struct told_job *j = &jobs[i];
                if (j->may == MAY_NOT_EXIST)
                        continue;
                all++;
                n[0] += j->may == MAY_COMPLETE;
                n[1] += j->may == MAY_FAIL;
                n[2] += j->may == MAY_CANCEL;
                n[3] += !(j->may & MAY_BE_OVER);
        }
        printf("# enqueued %" PRIu64 " = complete %" PRIu64 " + failed %" PRIu64
               " + canceled %" PRIu64 " + open %" PRIu64 "\n",
               all, n[0], n[1], n[2], n[3]);
        if (all != n[0] + n[1] + n[2] + n[3] || n[3])
                complain(LOST, "the numbers do not add up");
}
