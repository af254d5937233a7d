/* The engine: one thread, one epoll, one state table for all peers.
 *
 *   put     PUT ...
 *   drain   CLAIM, ACK, CLAIM, ACK ...                 until a claim brings nothing
 *           CLAIM, NEXT, NEXT ...                      (the combined form)
 *   cycle   PUT, CLAIM, ACK ...
 *           PUT, CLAIM, then PUT, NEXT, PUT, NEXT ...  (the combined form)
 *           `depth` PUTs, CLAIM, `depth` ACKs ...      (one by one: a round trip for each job)
 *   lock    CLAIM, ACK, CLAIM, ACK ...                 until the time is over
 *
 * In a cycle a connection claims as many jobs as it has put (c->debt), not the same ones: any
 * connection may get any job.  As nobody claims more than was put before, a claim finds a job; if
 * it finds none (counted as empty), it is repeated.  When the time is over each connection ends
 * its cycle first, so at the end every job that was put has been claimed and finished: that is
 * checked, and a difference is a lost job.
 *
 * The clock starts after the warm-up and stops at the first event after the deadline; what is
 * counted between the two are answered jobs. */
#include "gen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A server that says nothing for so long has lost a request. */
#define SILENCE_MS 20000
/* A claim that is repeated waits in the server, as a worker's would, instead of asking again. */
#define RETRY_WAIT_MS 100

struct engine {
        struct run *run;
        enum work work;
        int epoll;
        unsigned n_done;
        bool is_over; /* no new work is begun */
};

/* The machine's counters and ours at the same moment. */
struct mark {
        struct sample sample;
        struct counters count;
};

static void mark_take(const struct run *run, struct mark *ret)
{
        sample_take(run->pid, run->disk, &ret->sample);
        ret->count = run->count;
}

static void watch(struct engine *e, struct conn *c, bool wants_write, int op)
{
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        if (wants_write)
                ev.events |= EPOLLOUT;
        if (epoll_ctl(e->epoll, op, c->fd, &ev) != 0)
                die("epoll_ctl: %s", strerror(errno));
        c->wants_write = wants_write;
}

static size_t smaller(size_t a, size_t b)
{
        return a < b ? a : b;
}

/* What a connection does after a batch; STAGE_DONE when it is through. */
static enum stage choose(const struct engine *e, const struct conn *c)
{
        const struct run *run = e->run;
        bool may_put = !e->is_over && run->next_number < run->put_limit;
        bool combines = run->is_next && run->proto->next;

        if (e->work == WORK_PUT)
                return may_put ? STAGE_PUT : STAGE_DONE;
        if (e->work == WORK_DRAIN || e->work == WORK_LOCK) {
                if (c->n_held > 0)
                        return combines && !e->is_over ? STAGE_NEXT : STAGE_ACK;
                return e->is_over || c->was_empty ? STAGE_DONE : STAGE_CLAIM;
        }
        if (c->n_held > 0 && (!combines || c->debt > 0 || !may_put))
                return combines && c->debt > 0 ? STAGE_NEXT : STAGE_ACK;
        bool is_gathering = run->is_single && c->debt < run->depth && may_put;
        if (c->debt > 0 && !is_gathering)
                return STAGE_CLAIM;
        return may_put ? STAGE_PUT : STAGE_DONE;
}

static void start_stage(struct engine *e, struct conn *c, enum stage stage)
{
        struct run *run = e->run;
        size_t n = run->depth;
        size_t single = run->is_single && e->work == WORK_CYCLE ? 1 : SIZE_MAX;

        c->stage = stage;
        switch (stage) {
        case STAGE_PUT:
                n = smaller(smaller(n, single), run->put_limit - run->next_number);
                c->batch = n;
                c->awaited = run->proto->put(c, n);
                break;
        case STAGE_CLAIM:
                n = e->work == WORK_CYCLE ? smaller(n, c->debt) : n;
                c->awaited = run->proto->claim(c, n, c->was_empty ? RETRY_WAIT_MS : 0);
                break;
        case STAGE_ACK:
                c->batch = smaller(c->n_held, single);
                c->awaited = run->proto->ack(c);
                break;
        case STAGE_NEXT:
                n = e->work == WORK_CYCLE ? smaller(n, c->debt) : n;
                c->batch = c->n_held;
                c->awaited = run->proto->next(c, n);
                break;
        case STAGE_IDLE:
        case STAGE_DONE:
                e->n_done++;
                return;
        }
        c->counts_replies = c->awaited == c->batch;
        if (!conn_flush(c))
                watch(e, c, true, EPOLL_CTL_MOD);
}

/* A slow peer answers a batch over a long time; its jobs count as they are answered. */
static void count_reply(struct engine *e, const struct conn *c)
{
        if (!c->counts_replies)
                return;
        if (c->stage == STAGE_PUT)
                e->run->count.puts++;
        else if (c->stage == STAGE_ACK || c->stage == STAGE_NEXT)
                e->run->count.acks++;
}

static void end_stage(struct engine *e, struct conn *c)
{
        struct counters *count = &e->run->count;
        bool has_claimed = c->stage == STAGE_CLAIM || c->stage == STAGE_NEXT;

        if (c->stage == STAGE_PUT) {
                count->puts += c->counts_replies ? 0 : c->batch;
                c->debt += e->work == WORK_CYCLE ? c->batch : 0;
        }
        if (c->stage == STAGE_ACK || c->stage == STAGE_NEXT)
                count->acks += c->counts_replies ? 0 : c->batch;
        if (has_claimed) {
                c->was_empty = c->n_held == 0;
                if (e->work == WORK_CYCLE) {
                        if (c->n_held > c->debt)
                                conn_wrong(c, "more jobs than were asked for");
                        c->debt -= c->n_held;
                }
        }
        start_stage(e, c, choose(e, c));
}

static void on_readable(struct engine *e, struct conn *c)
{
        if (!conn_fill(c))
                return;
        while (c->in_done < c->in_len) {
                if (c->awaited == 0)
                        conn_wrong(c, "a reply nobody asked for");
                size_t n = e->run->proto->reply(c, c->in + c->in_done, c->in + c->in_len);
                if (n == 0)
                        return;
                c->in_done += n;
                c->awaited--;
                count_reply(e, c);
                if (c->awaited == 0)
                        end_stage(e, c);
        }
}

static void turn(struct engine *e)
{
        struct epoll_event events[CONNS_MAX];
        int n = epoll_wait(e->epoll, events, CONNS_MAX, SILENCE_MS);
        if (n == 0)
                die("%s: no answer for %d s", e->run->proto->name, SILENCE_MS / 1000);
        for (int i = 0; i < n; i++) {
                struct conn *c = events[i].data.ptr;
                if ((events[i].events & EPOLLOUT) && c->wants_write && conn_flush(c))
                        watch(e, c, false, EPOLL_CTL_MOD);
                if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                        on_readable(e, c);
        }
}

static void check_nothing_lost(const struct engine *e, const struct counters *before)
{
        const struct counters *now = &e->run->count;
        uint64_t puts = now->puts - before->puts, claims = now->claims - before->claims;
        uint64_t acks = now->acks - before->acks;
        if (claims != acks && e->work != WORK_PUT)
                die("%" PRIu64 " jobs claimed, %" PRIu64 " finished", claims, acks);
        if (e->work == WORK_CYCLE && puts != acks)
                die("%" PRIu64 " jobs put, %" PRIu64 " finished: jobs were lost", puts, acks);
}

static void report(const struct engine *e, const struct mark *a, const struct mark *b)
{
        static const char *const names[] = {"put", "drain", "cycle", "lock"};
        uint64_t puts = b->count.puts - a->count.puts, acks = b->count.acks - a->count.acks;
        uint64_t ops = e->work == WORK_PUT ? puts : acks;
        /* All connections move in step, so a short window on a slow peer may hold many puts and no
         * ack; over time both are the same number. */
        if (e->work == WORK_CYCLE)
                ops = (puts + acks) / 2;
        sample_print(names[e->work], ops, &a->sample, &b->sample);
        printf(",\"empty\":%" PRIu64 ",\"puts_total\":%" PRIu64 ",\"acks_total\":%" PRIu64
               ",\"fails_total\":%" PRIu64 "}\n",
               b->count.empty - a->count.empty, e->run->count.puts, e->run->count.acks,
               e->run->count.fails);
        fflush(stdout);
}

void engine_run(struct run *run, enum work work, double seconds, double warm_s)
{
        struct engine e = {.run = run, .work = work, .epoll = epoll_create1(EPOLL_CLOEXEC)};
        if (e.epoll < 0)
                die("epoll_create1: %s", strerror(errno));
        struct counters before = run->count;
        struct mark first, last;
        bool has_first = warm_s <= 0, has_last = false;

        for (unsigned i = 0; i < run->n_conns; i++)
                watch(&e, &run->conns[i], false, EPOLL_CTL_ADD);
        mark_take(run, &first);
        int64_t start = first.sample.at_ns, warm = start + (int64_t)(warm_s * 1e9);
        int64_t end = seconds > 0 ? warm + (int64_t)(seconds * 1e9) : INT64_MAX;
        for (unsigned i = 0; i < run->n_conns; i++) {
                struct conn *c = &run->conns[i];
                c->was_empty = false;
                c->debt = 0;
                start_stage(&e, c, choose(&e, c));
        }
        while (e.n_done < run->n_conns) {
                turn(&e);
                int64_t now = now_ns();
                if (!has_first && now >= warm) {
                        mark_take(run, &first);
                        has_first = true;
                }
                if (!has_last && now >= end) {
                        mark_take(run, &last);
                        has_last = e.is_over = true;
                }
        }
        if (!has_last)
                mark_take(run, &last);
        check_nothing_lost(&e, &before);
        report(&e, &first, &last);
        for (unsigned i = 0; i < run->n_conns; i++)
                epoll_ctl(e.epoll, EPOLL_CTL_DEL, run->conns[i].fd, NULL);
        close(e.epoll);
}
