/* A probe that runs, and its samples as they come. */
#ifndef WEIR_TESTS_UNIT_PROBE_BOX_H
#define WEIR_TESTS_UNIT_PROBE_BOX_H

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "probe/probe.h"

#define EAR_MS 120000 /* ends what hangs */

struct ear {
        pthread_mutex_t mutex;
        pthread_cond_t cond;
        size_t heard;
};

static inline void hear(void *ctx)
{
        struct ear *e = ctx;
        pthread_mutex_lock(&e->mutex);
        e->heard++;
        pthread_cond_broadcast(&e->cond);
        pthread_mutex_unlock(&e->mutex);
}

static inline void ear_init(struct ear *e)
{
        pthread_condattr_t attr;
        *e = (struct ear){.mutex = PTHREAD_MUTEX_INITIALIZER};
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&e->cond, &attr);
        pthread_condattr_destroy(&attr);
}

/* False when fewer than n came in that time. */
static inline bool ear_wait(struct ear *e, size_t n, int64_t ms)
{
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += ms / 1000;
        until.tv_nsec += ms % 1000 * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&e->mutex);
        int r = 0;
        while (e->heard < n && r != ETIMEDOUT)
                r = pthread_cond_timedwait(&e->cond, &e->mutex, &until);
        bool is_there = e->heard >= n;
        pthread_mutex_unlock(&e->mutex);
        return is_there;
}

static inline size_t ear_count(struct ear *e)
{
        pthread_mutex_lock(&e->mutex);
        size_t n = e->heard;
        pthread_mutex_unlock(&e->mutex);
        return n;
}

static inline struct probe *start(const struct probe_options *o, struct ear *ear)
{
        struct probe *p = NULL;
        struct problem problem = {0};
        ear_init(ear);
        assert_int_equal(probe_start(o, 1, hear, ear, &p, &problem), OK);
        return p;
}

/* The first samples of a target: one for each metric. */
static inline void sample_once(const struct probe_options *o, struct probe_sample *ret)
{
        struct ear ear;
        struct probe *p = start(o, &ear);
        assert_true(ear_wait(&ear, 1, EAR_MS));
        assert_int_equal(probe_take(p, ret, o->n_metrics), o->n_metrics);
        assert_null(probe_stop(p));
}

static inline struct probe_options host(struct probe_metric *metrics, size_t n)
{
        return (struct probe_options){
                .name = "box",
                .kind = PROBE_HOST,
                .metrics = metrics,
                .n_metrics = n,
                .interval_ms = 10,
                .timeout_ms = EAR_MS,
        };
}

#endif
