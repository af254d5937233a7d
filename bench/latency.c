/* From enqueue to start on an idle system: a worker waits in a blocking claim on one connection,
 * a producer puts one job on another.  Measured from before the producer's send() to the moment
 * the worker has read the whole job.  Then the job is finished, the worker waits again, and after
 * a pause (so that the system is idle and the blocking claim has arrived) comes the next one. */
#include "gen.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SILENCE_MS 10000

static int compare(const void *a, const void *b)
{
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
        return (x > y) - (x < y);
}

static void begin(struct conn *c, enum stage stage)
{
        const struct proto *proto = c->run->proto;
        c->stage = stage;
        c->batch = 1;
        if (stage == STAGE_PUT)
                c->awaited = proto->put(c, 1);
        else if (stage == STAGE_CLAIM)
                c->awaited = proto->claim(c, 1, SILENCE_MS);
        else
                c->awaited = proto->ack(c);
        if (!conn_flush(c))
                conn_wrong(c, "send would block");
}

/* Reads what is there; true once the batch is answered. */
static bool take(struct conn *c)
{
        if (c->awaited == 0 || !conn_fill(c))
                return c->awaited == 0;
        while (c->awaited > 0 && c->in_done < c->in_len) {
                size_t n = c->run->proto->reply(c, c->in + c->in_done, c->in + c->in_len);
                if (n == 0)
                        break;
                c->in_done += n;
                c->awaited--;
        }
        return c->awaited == 0;
}

static void wait_for(struct conn *producer, struct conn *worker)
{
        struct pollfd fds[2] = {{.fd = producer->awaited ? producer->fd : -1, .events = POLLIN},
                                {.fd = worker->awaited ? worker->fd : -1, .events = POLLIN}};
        if (poll(fds, 2, SILENCE_MS) == 0)
                die("latency: no answer for %d s", SILENCE_MS / 1000);
}

static int64_t one_job(struct conn *producer, struct conn *worker)
{
        int64_t start = now_ns(), end = 0;
        begin(producer, STAGE_PUT);
        while (!end || producer->awaited) {
                wait_for(producer, worker);
                if (!end && take(worker))
                        end = now_ns();
                take(producer);
        }
        if (worker->n_held != 1)
                conn_wrong(worker, "the waiting worker got no job");
        begin(worker, STAGE_ACK);
        while (!take(worker))
                wait_for(producer, worker);
        producer->run->count.puts++;
        producer->run->count.acks++;
        return end - start;
}

void latency_run(struct run *run, unsigned samples, unsigned gap_us)
{
        if (run->n_conns < 2)
                die("latency needs two connections");
        struct conn *producer = &run->conns[0], *worker = &run->conns[1];
        int64_t *took = calloc(samples, sizeof(*took));
        if (!took)
                die("out of memory");
        struct timespec gap = {.tv_sec = gap_us / 1000000, .tv_nsec = gap_us % 1000000 * 1000L};
        for (unsigned i = 0; i < samples; i++) {
                begin(worker, STAGE_CLAIM);
                nanosleep(&gap, NULL);
                took[i] = one_job(producer, worker);
        }
        qsort(took, samples, sizeof(*took), compare);
        size_t mid = samples / 2, late = (size_t)samples * 99 / 100;
        printf("{\"work\":\"latency\",\"samples\":%u,\"p50_us\":%.1f,\"p99_us\":%.1f,"
               "\"max_us\":%.1f,\"all_us\":[",
               samples, (double)took[mid] / 1e3, (double)took[late] / 1e3,
               (double)took[samples - 1] / 1e3);
        for (unsigned i = 0; i < samples; i++)
                printf("%s%.1f", i ? "," : "", (double)took[i] / 1e3);
        printf("]}\n");
        free(took);
}
