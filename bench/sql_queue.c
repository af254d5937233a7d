/* sql_queue: a SKIP LOCKED queue in a database, as a peer for weir in a cluster over the same one.
 *
 *   sql_queue --dialect postgres|mariadb --host HOST --port N --user NAME [--password WORD]
 *             [--conns N] [--batch N] [--payload BYTES] [--warm S] --seconds S
 *
 * Each connection is a thread.  In a cycle it enqueues a batch, claims as many jobs as it has put
 * (not the same ones: any connection may get any job), and completes them.  When the time is over
 * each ends its cycle first.  Every payload carries a number; one that comes back twice or changed
 * ends the program, and so does a row that is left at the end.  Prints one line of JSON, as gen
 * does.
 *
 * Threads: the workers share the counters and the marks of the numbers, both atomic. */
#include "sql_queue.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arg.h"
#include "sample.h"

#define CONNS_MAX   512
#define NUMBERS_MAX (1u << 26)
#define HEAD        "{\"n\":\""
#define HEAD_LEN    (sizeof(HEAD) - 1)
#define DIGITS      10

struct run {
        const struct queue_dialect *dialect;
        struct queue_server server;
        unsigned n_conns, batch;
        double seconds, warm_s;
        char *template; /* one payload; its number is written over */
        uint8_t *seen;  /* by number */
        uint32_t next_number;
        bool is_over;
        uint64_t puts, acks, empty;
};

struct worker {
        struct run *run;
        pthread_t thread;
        unsigned index;
        struct queue_conn *conn;
        char *payloads; /* a batch of them */
        struct queue_job *jobs;
};

static void count(uint64_t *counter, uint64_t n)
{
        __atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static uint64_t counted(const uint64_t *counter)
{
        return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static bool is_over(const struct run *run)
{
        return __atomic_load_n(&run->is_over, __ATOMIC_RELAXED);
}

/* --- payloads ------------------------------------------------------------------------------- */

/* {"n":"0000000000","pad":"abc..."} */
static char *make_template(size_t len)
{
        char *p = malloc(len + 1);
        if (!p)
                die("out of memory");
        int at = snprintf(p, len, HEAD "%0*u\",\"pad\":\"", DIGITS, 0u);
        for (size_t i = (size_t)at; i < len - 2; i++)
                p[i] = (char)('a' + i % 26);
        memcpy(p + len - 2, "\"}", 3);
        return p;
}

static void write_number(char *payload, uint32_t number)
{
        for (int i = DIGITS; i-- > 0; number /= 10)
                payload[HEAD_LEN + (size_t)i] = (char)('0' + number % 10);
}

static void fill_payloads(struct worker *w, uint32_t n)
{
        struct run *run = w->run;
        uint32_t first = __atomic_fetch_add(&run->next_number, n, __ATOMIC_RELAXED);
        if (first + n > NUMBERS_MAX)
                die("more jobs than numbers");
        for (uint32_t i = 0; i < n; i++)
                write_number(w->payloads + (size_t)i * run->server.payload, first + i);
}

/* It is ours, whole, and seen for the first time. */
static void check_payload(struct run *run, const char *payload)
{
        const size_t rest = HEAD_LEN + DIGITS;
        if (strlen(payload) != run->server.payload || memcmp(payload, HEAD, HEAD_LEN) != 0 ||
            strcmp(payload + rest, run->template + rest) != 0)
                die("a payload came back changed: %s", payload);
        unsigned long number = strtoul(payload + HEAD_LEN, NULL, 10);
        if (number >= __atomic_load_n(&run->next_number, __ATOMIC_RELAXED))
                die("job number %lu was never put", number);
        if (__atomic_exchange_n(&run->seen[number], 1, __ATOMIC_RELAXED))
                die("job number %lu was delivered twice", number);
}

/* --- the cycle ------------------------------------------------------------------------------ */

static void cycle(struct worker *w, unsigned n)
{
        struct run *run = w->run;
        fill_payloads(w, n);
        run->dialect->enqueue(w->conn, w->payloads, n);
        count(&run->puts, n);
        while (n > 0) {
                size_t got = run->dialect->claim(w->conn, n, w->jobs);
                if (got == 0) {
                        count(&run->empty, 1);
                        continue;
                }
                for (size_t i = 0; i < got; i++)
                        check_payload(run, w->jobs[i].payload);
                run->dialect->complete(w->conn, w->jobs, got);
                count(&run->acks, got);
                n -= (unsigned)got;
        }
}

static void *work(void *arg)
{
        struct worker *w = arg;
        const struct run *run = w->run;
        /* Workers in step would all put, then all claim. */
        cycle(w, 1 + w->index * (run->batch - 1) / run->n_conns);
        while (!is_over(run))
                cycle(w, run->batch);
        return NULL;
}

static void worker_open(struct worker *w, struct run *run, unsigned index)
{
        const size_t len = run->server.payload;
        w->run = run;
        w->index = index;
        w->conn = run->dialect->open(&run->server, run->batch, index + 1);
        w->payloads = malloc(run->batch * len);
        w->jobs = malloc(run->batch * sizeof(*w->jobs));
        if (!w->payloads || !w->jobs)
                die("out of memory");
        for (size_t i = 0; i < run->batch; i++)
                memcpy(w->payloads + i * len, run->template, len);
        run->dialect->prepare(w->conn);
}

static void rest(double seconds)
{
        struct timespec ts = {.tv_sec = (time_t)seconds};
        ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
        nanosleep(&ts, NULL);
}

static uint64_t end_workers(const struct run *run, struct worker *workers)
{
        uint64_t retries = 0;
        for (unsigned i = 0; i < run->n_conns; i++) {
                (void)pthread_join(workers[i].thread, NULL); /* a thread of ours */
                retries += run->dialect->retries(workers[i].conn);
                run->dialect->close(workers[i].conn);
                free(workers[i].payloads);
                free(workers[i].jobs);
        }
        return retries;
}

static void measure(struct run *run, struct worker *workers)
{
        struct sample a, b;
        for (unsigned i = 0; i < run->n_conns; i++)
                worker_open(&workers[i], run, i);
        for (unsigned i = 0; i < run->n_conns; i++)
                if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
                        die("no thread: %s", strerror(errno));
        rest(run->warm_s);
        uint64_t before = counted(&run->puts) + counted(&run->acks);
        uint64_t empty = counted(&run->empty);
        sample_take(0, "", &a);
        rest(run->seconds);
        uint64_t after = counted(&run->puts) + counted(&run->acks);
        empty = counted(&run->empty) - empty;
        sample_take(0, "", &b);
        __atomic_store_n(&run->is_over, true, __ATOMIC_RELAXED);
        uint64_t retries = end_workers(run, workers);
        /* Puts and completions come in turns; over time both are the same number. */
        sample_print("cycle", (after - before) / 2, &a, &b);
        printf(",\"empty\":%" PRIu64 ",\"retries\":%" PRIu64 ",\"puts_total\":%" PRIu64
               ",\"acks_total\":%" PRIu64 "}\n",
               empty, retries, run->puts, run->acks);
}

/* --- options -------------------------------------------------------------------------------- */

static const struct queue_dialect *find_dialect(const char *name)
{
        static const struct queue_dialect *const all[] = {&queue_postgres, &queue_mariadb};
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                if (strcmp(all[i]->name, name) == 0)
                        return all[i];
        die("%s is no dialect: postgres or mariadb", name);
}

static void set_option(struct run *run, int opt)
{
        if (opt == 'd')
                run->dialect = find_dialect(optarg);
        else if (opt == 'h')
                run->server.host = optarg;
        else if (opt == 'P')
                run->server.port = number_arg(optarg, 1, 65535);
        else if (opt == 'u')
                run->server.user = optarg;
        else if (opt == 'p')
                run->server.password = optarg;
        else if (opt == 'c')
                run->n_conns = number_arg(optarg, 1, CONNS_MAX);
        else if (opt == 'b')
                run->batch = number_arg(optarg, 1, BATCH_MAX);
        else if (opt == 's')
                run->server.payload = number_arg(optarg, PAYLOAD_MIN, PAYLOAD_MAX);
        else if (opt == 't')
                run->seconds = strtod(optarg, NULL);
        else if (opt == 'w')
                run->warm_s = strtod(optarg, NULL);
        else
                exit(2);
}

static void parse_options(struct run *run, int argc, char **argv)
{
        static const struct option options[] = {
                {"dialect", required_argument, NULL, 'd'},
                {"host", required_argument, NULL, 'h'},
                {"port", required_argument, NULL, 'P'},
                {"user", required_argument, NULL, 'u'},
                {"password", required_argument, NULL, 'p'},
                {"conns", required_argument, NULL, 'c'},
                {"batch", required_argument, NULL, 'b'},
                {"payload", required_argument, NULL, 's'},
                {"seconds", required_argument, NULL, 't'},
                {"warm", required_argument, NULL, 'w'},
                {NULL, 0, NULL, 0},
        };
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
                set_option(run, opt);
        if (!run->dialect || !run->server.port || run->seconds <= 0 || optind != argc)
                die("--dialect, --port and --seconds are needed, and nothing but options");
}

int main(int argc, char **argv)
{
        static struct run run = {
                .server = {.host = "127.0.0.1", .user = "bench", .password = "", .payload = 200},
                .n_conns = 1,
                .batch = 1,
                .warm_s = 0.5,
        };
        static struct worker workers[CONNS_MAX];
        parse_options(&run, argc, argv);
        run.template = make_template(run.server.payload);
        run.seen = calloc(NUMBERS_MAX, 1);
        if (!run.seen)
                die("out of memory");
        struct queue_conn *first = run.dialect->open(&run.server, 1, 0);
        run.dialect->make_table(first);
        measure(&run, workers);
        uint64_t left = run.dialect->count(first);
        if (left || run.puts != run.acks)
                die("%" PRIu64 " jobs put, %" PRIu64 " completed, %" PRIu64 " rows left", run.puts,
                    run.acks, left);
        run.dialect->close(first);
        return 0;
}
