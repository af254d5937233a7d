/* See minutes.h.
 *
 * A day of cells is 57 KB, and ten thousand names that ask a few minutes a day would be most of a
 * gigabyte of zeros; an hour is 2.4 KB.  A name has a ring of 25 places for hours, so an hour is
 * found without a search, and its number says whether the place still holds it or an older one,
 * which is then used again.
 *
 * The pool is a list in order of making, by no clock: a wall that jumps cannot confuse it. */
#include "checks/minutes.h"

#include <stdlib.h>

#include "base/civil.h"

static size_t place_of(int64_t hour)
{
        return (size_t)floor_mod(hour, MINUTES_HOURS);
}

void minute_pool_init(struct minute_pool *p, size_t max_bytes)
{
        list_init(&p->hours);
        p->n = 0;
        p->lost_hour = INT64_MIN;
        p->max = max_bytes / sizeof(struct minute_hour);
        if (!p->max)
                p->max = 1;
}

static void unlink_hour(struct minute_pool *p, struct minute_hour *h)
{
        struct minutes *m = h->owner;
        m->hours[place_of(h->hour)] = NULL;
        if (m->now == h)
                m->now = NULL;
        list_remove(&h->pool);
        p->n--;
}

void minutes_release(struct minute_pool *p, struct minutes *m)
{
        for (size_t i = 0; i < MINUTES_HOURS; i++) {
                struct minute_hour *h = m->hours[i];
                if (!h)
                        continue;
                unlink_hour(p, h);
                free(h);
        }
}

static void clear(struct minute_hour *h, struct minutes *owner, int64_t hour)
{
        h->owner = owner;
        h->hour = hour;
        memset(h->cells, 0, sizeof(h->cells));
        for (size_t i = 0; i < MINUTES_PER_HOUR; i++)
                h->cells[i].target = h->cells[i].metric = MINUTE_NOWHERE;
}

/* Memory for one more: the name's own hour of yesterday, that of whoever has the oldest, or new. */
static struct minute_hour *make(struct minute_pool *p, struct minute_hour *stale)
{
        struct minute_hour *h = stale;
        if (!h && p->n >= p->max) {
                h = CONTAINER_OF(list_peek_front(&p->hours), struct minute_hour, pool);
                p->lost_hour = h->hour > p->lost_hour ? h->hour : p->lost_hour;
        }
        if (h)
                unlink_hour(p, h);
        else
                h = xmalloc(sizeof(*h));
        list_push_back(&p->hours, &h->pool);
        p->n++;
        return h;
}

void minutes_turn(struct minute_pool *p, struct minutes *m, int64_t hour)
{
        struct minute_hour **place = &m->hours[place_of(hour)];
        struct minute_hour *h = *place;
        if (!h || h->hour != hour) {
                h = make(p, h);
                clear(h, m, hour);
                *place = h;
        }
        m->now = h;
        m->now_hour = hour;
}

const struct client_minute *minutes_peek(const struct minutes *m, int64_t minute)
{
        int64_t hour = floor_div(minute, MINUTES_PER_HOUR);
        const struct minute_hour *h = m->hours[place_of(hour)];
        if (!h || h->hour != hour)
                return NULL;
        const struct client_minute *cell = &h->cells[floor_mod(minute, MINUTES_PER_HOUR)];
        return cell->granted || cell->refused ? cell : NULL;
}

/* (1) The pool holds no more than it may.  (2) Each hour is in the place of its number. */
void minute_pool_check(const struct minute_pool *p)
{
        size_t n = 0;
        ASSERT(p->n <= p->max);
        LIST_FOREACH(&p->hours, it)
        {
                const struct minute_hour *h = CONTAINER_OF(it, struct minute_hour, pool);
                ASSERT(h->owner->hours[place_of(h->hour)] == h);
                n++;
        }
        ASSERT(n == p->n);
}
