/* The memory of the clients.  Jobs lie in one array by nonce (a number every payload carries), so
 * that a job in the server can be told from any other even when its id was never answered.
 *
 * Costs: about 120 bytes a job and two open hash tables; a run of a million operations needs less
 * than 100 MB. */
#include "model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const queue_names[QUEUE_COUNT] = {"alpha", "beta", "gamma", "side"};

struct tally tally;
struct told_job *jobs;
uint64_t n_jobs = 1;
struct told_claim *claims;
uint32_t n_claims = 1;
uint64_t max_id, max_fence, fence_floor;

static uint64_t jobs_cap, claims_cap;
static uint64_t *touched;
static size_t n_touched, touched_cap;
static uint64_t dice_state;

int64_t steady_us(void)
{
        struct timespec t;
        clock_gettime(CLOCK_BOOTTIME, &t);
        return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static uint64_t mix(uint64_t z) /* splitmix64 */
{
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
}

void dice_seed(uint64_t seed)
{
        dice_state = seed;
}

uint64_t dice(void)
{
        return mix(dice_state += 0x9e3779b97f4a7c15ULL);
}

uint32_t dice_below(uint32_t n)
{
        return (uint32_t)(((dice() >> 32) * n) >> 32);
}

void complain(enum fault fault, const char *fmt, ...)
{
        static const char *const names[] = {"lost", "doubled", "invented", "wrong"};
        uint64_t *const counts[] = {&tally.lost, &tally.doubled, &tally.invented, &tally.wrong};
        (*counts[fault])++;
        if (tally.lost + tally.doubled + tally.invented + tally.wrong > 40)
                return;
        va_list args;
        va_start(args, fmt);
        printf("# %s: ", names[fault]);
        vprintf(fmt, args);
        printf("\n");
        va_end(args);
        fflush(stdout);
}

bool is_all_well(void)
{
        return !tally.lost && !tally.doubled && !tally.invented && !tally.wrong;
}

static void *grow(void *array, uint64_t n, uint64_t *cap, size_t size)
{
        if (n < *cap)
                return array;
        *cap = *cap ? *cap * 2 : 4096;
        array = realloc(array, *cap * size);
        if (!array)
                abort();
        return array;
}

uint64_t job_new(uint8_t queue, uint8_t attempts, uint8_t priority, bool is_far)
{
        jobs = grow(jobs, n_jobs, &jobs_cap, sizeof(*jobs));
        jobs[n_jobs] = (struct told_job){
                .may = MAY_NOT_EXIST | MAY_PENDING,
                .queue = queue,
                .attempts = attempts,
                .priority = priority,
                .is_far = is_far,
        };
        job_touch(n_jobs);
        return n_jobs++;
}

uint32_t claim_new(uint8_t queues, uint16_t max, uint32_t lease_ms)
{
        claims = grow(claims, n_claims, &claims_cap, sizeof(*claims));
        claims[n_claims] = (struct told_claim){
                .sent_us = steady_us(), .lease_ms = lease_ms, .max = max, .queues = queues};
        return n_claims++;
}

void job_touch(uint64_t nonce)
{
        if (jobs[nonce].is_touched)
                return;
        jobs[nonce].is_touched = true;
        if (n_touched == touched_cap) {
                touched_cap = touched_cap ? touched_cap * 2 : 4096;
                touched = realloc(touched, touched_cap * sizeof(*touched));
                if (!touched)
                        abort();
        }
        touched[n_touched++] = nonce;
}

size_t touched_take(uint64_t **ret)
{
        size_t n = n_touched;
        *ret = touched;
        for (size_t i = 0; i < n; i++)
                jobs[touched[i]].is_touched = false;
        touched = NULL;
        n_touched = touched_cap = 0;
        return n;
}

/* Most payloads are small; one in twenty is some kilobytes, so that segments of the log fill up
 * and records cross blocks. */
size_t payload_make(uint64_t nonce, char *ret)
{
        uint64_t h = mix(nonce * 0x9e3779b97f4a7c15ULL + 1);
        size_t pad = h % 20 == 0 ? 1000 + (h >> 8) % 15000 : (h >> 8) % 400;
        int n = snprintf(ret, PAYLOAD_MAX, "{\"n\":%" PRIu64 ",\"pad\":\"", nonce);
        char *at = ret + n;
        for (size_t i = 0; i < pad; i++) {
                if (i % 8 == 0)
                        h = mix(h + 1);
                *at++ = (char)('a' + ((h >> (8 * (i % 8))) & 15));
        }
        *at++ = '"';
        *at++ = '}';
        return (size_t)(at - ret);
}

uint64_t payload_nonce(const char *ptr, size_t len)
{
        static char expected[PAYLOAD_MAX];
        if (len < 8 || memcmp(ptr, "{\"n\":", 5) != 0)
                return 0;
        uint64_t nonce = 0;
        for (size_t i = 5; i < len && i < 25 && ptr[i] >= '0' && ptr[i] <= '9'; i++)
                nonce = nonce * 10 + (uint64_t)(ptr[i] - '0');
        if (nonce == 0 || nonce >= n_jobs)
                return 0;
        size_t n = payload_make(nonce, expected);
        return n == len && memcmp(ptr, expected, n) == 0 ? nonce : 0;
}

/* Open addressing, linear probing, no removal; key 0 is the empty slot. */
struct table {
        uint64_t *keys, *values;
        uint64_t len, cap;
};
static struct table by_id, fences;

static uint64_t table_slot(const struct table *t, uint64_t key)
{
        uint64_t i = mix(key) & (t->cap - 1);
        while (t->keys[i] && t->keys[i] != key)
                i = (i + 1) & (t->cap - 1);
        return i;
}

static void table_put(struct table *t, uint64_t key, uint64_t value)
{
        if (t->len * 2 >= t->cap) {
                struct table old = *t;
                t->cap = old.cap ? old.cap * 2 : 8192;
                t->keys = calloc(t->cap, sizeof(*t->keys));
                t->values = calloc(t->cap, sizeof(*t->values));
                if (!t->keys || !t->values)
                        abort();
                for (uint64_t i = 0; i < old.cap; i++) {
                        if (!old.keys[i])
                                continue;
                        uint64_t slot = table_slot(t, old.keys[i]);
                        t->keys[slot] = old.keys[i];
                        t->values[slot] = old.values[i];
                }
                free(old.keys);
                free(old.values);
        }
        uint64_t slot = table_slot(t, key);
        t->len += t->keys[slot] == 0;
        t->keys[slot] = key;
        t->values[slot] = value;
}

static uint64_t table_get(const struct table *t, uint64_t key)
{
        return t->cap ? t->values[table_slot(t, key)] : 0;
}

uint64_t job_by_id(uint64_t id)
{
        return table_get(&by_id, id);
}

void job_set_id(uint64_t nonce, uint64_t id)
{
        struct told_job *j = &jobs[nonce];
        if (j->id == id)
                return;
        uint64_t other = job_by_id(id);
        if (j->id)
                complain(DOUBLED, "job n=%" PRIu64 " has the ids %" PRIu64 " and %" PRIu64, nonce,
                         j->id, id);
        if (other)
                complain(WRONG, "id %" PRIu64 " was given to n=%" PRIu64 " and to n=%" PRIu64, id,
                         other, nonce);
        j->id = id;
        table_put(&by_id, id, nonce);
        if (id > max_id)
                max_id = id;
}

bool fence_is_new(uint64_t fence)
{
        if (fence == 0 || table_get(&fences, fence))
                return false;
        table_put(&fences, fence, 1);
        if (fence > max_fence)
                max_fence = fence;
        return true;
}

uint8_t job_may(const struct told_job *j, int64_t now_us)
{
        uint8_t may = j->may;
        if ((may & MAY_RUN) && now_us >= j->lease_end_us)
                may |= j->attempt >= j->attempts ? MAY_FAIL : MAY_PENDING;
        return may;
}

void job_settle(uint64_t nonce, uint8_t may)
{
        struct told_job *j = &jobs[nonce];
        j->may = may;
        if (!(may & ~MAY_BE_OVER) && !j->over_us)
                j->over_us = steady_us();
        job_touch(nonce);
}
