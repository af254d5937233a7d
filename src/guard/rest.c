/* What the thread of a site does while a cycle rests: the work of each second, requests, and slices
 * of retention, which come last. */
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "guard/guard_site.h"

static void drain_fd(int fd)
{
        uint64_t n;
        (void)!read(fd, &n, sizeof(n)); /* nothing to read is fine */
}

static int64_t min_ns(int64_t a_ns, int64_t b_ns)
{
        return a_ns < b_ns ? a_ns : b_ns;
}

/* When the next work of a second is due; INT64_MAX: there is none. */
static int64_t tick_at_ns(const struct guard_site *s)
{
        const struct site_plan *plan = &s->plan;
        bool has_front = plan->mode == MODE_ENFORCE && plan->n_critical;
        if (!mysql_conn_is_open(s->store.conn))
                return INT64_MAX;
        return min_ns(has_front ? s->tick_ns : INT64_MAX,
                      plan->is_returning ? s->pace_ns : INT64_MAX);
}

/* When the next slice of retention may begin.  A slice that might still run when the work of a
 * second is due waits until that is done. */
static int64_t purge_at_ns(const struct guard_site *s, int64_t now_ns)
{
        int64_t at_ns = store_purge_due_ns(&s->store, &s->plan), tick_ns = tick_at_ns(s);
        if (at_ns < now_ns)
                at_ns = now_ns;
        bool gives_way = at_ns < tick_ns && tick_ns - at_ns < PACE_SLICE_NS;
        return gives_way ? tick_ns : at_ns;
}

static int purge_slice(struct guard_site *s)
{
        struct problem problem;
        int64_t now_ns = clock_boot_ns();
        if (purge_at_ns(s, now_ns) > now_ns)
                return OK;
        int r = store_purge(&s->store, &s->plan, guard_now_s(s), &problem);
        if (r != OK && r != ERR_STOPPING)
                guard_tell_failed(s, &problem);
        return r;
}

void guard_rest(struct guard_site *s, int64_t ms)
{
        int64_t until_ns = clock_boot_ns() + ms * NS_PER_MS;
        for (;;) {
                int64_t now_ns = clock_boot_ns();
                if (now_ns >= until_ns || guard_is_interrupted(s))
                        return;
                int64_t next_ns = min_ns(until_ns, min_ns(tick_at_ns(s), purge_at_ns(s, now_ns)));
                int64_t left_ms = (next_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
                struct pollfd fds[] = {{.fd = s->stop_fd, .events = POLLIN},
                                       {.fd = s->wake_fd, .events = POLLIN}};
                (void)poll(fds, ARRAY_LEN(fds),
                           left_ms > 0 ? (int)left_ms : 0); /* interrupted: fine */
                drain_fd(s->wake_fd);
                guard_serve_requests(s);
                /* After an error the next cycle connects again, or it is time to stop. */
                if (!guard_is_interrupted(s) && guard_tick(s) != OK)
                        return;
                if (!guard_is_interrupted(s) && purge_slice(s) != OK)
                        return;
        }
}
