/* mysql_load: one client of the storm: a checkout at a fixed rate, or reports without end.
 *
 *   mysql_load --port N --user U --password P --database D [--conns N] [--lead S]
 *              (--checkout RATE --seconds S | --reports ROWS)
 *
 * --checkout: RATE transactions a second over all connections, for lead + S seconds.  Each is
 * BEGIN, three selects by key, an INSERT of an order, an UPDATE of a product, COMMIT.  They are due
 * at fixed times, whatever became of those before (an open loop), and a latency counts from the
 * time at which the transaction was due.  A transaction that was rolled back by a deadlock, a lock
 * wait or a refusal is sent again at once; its latency goes on.
 *
 * --reports: each connection sends joins over ROWS orders, one after the other without a pause,
 * until SIGTERM.  A refused one is sent again at once: this client takes no hint.
 *
 * The first `lead` seconds are counted apart: they hold the onset.  Prints one line of JSON.
 *
 * Threads: one for each connection, with counters of its own; the main thread waits. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <mariadb/mysql.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arg.h"
#include "latencies.h"
#include "sample.h"

#define CONNS_MAX    512
#define RATE_MAX     100000
#define SQL_BYTES    512
#define NS           1000000000
#define CUSTOMERS    20000 /* rows of the tables, as bench/mysql_storm.py makes them */
#define PRODUCTS     2000
#define ORDERS       200000

#define ER_LOCK_WAIT 1205
#define ER_DEADLOCK  1213

struct load {
        unsigned port, n_conns, rate, rows, lead_s, seconds;
        const char *user, *password, *database;
        int64_t begin_ns, lead_end_ns;
        bool is_over; /* atomic */
};

struct conn {
        struct load *load;
        pthread_t thread;
        unsigned index;
        uint64_t random;
        MYSQL *db;
        char sql[SQL_BYTES];
        uint64_t refused; /* after the lead */
        struct latencies took, lead_took;
};

static bool is_over(struct load *l)
{
        return __atomic_load_n(&l->is_over, __ATOMIC_RELAXED);
}

static unsigned random_below(struct conn *c, unsigned n)
{
        c->random ^= c->random << 13;
        c->random ^= c->random >> 7;
        c->random ^= c->random << 17;
        return (unsigned)(c->random % n);
}

/* --- statements ----------------------------------------------------------------------------- */

/* Sends c->sql and reads all of the reply.  Returns false when the server or a proxy rolled the
 * transaction back; any other error ends the program. */
static bool send_sql(struct conn *c)
{
        if (mysql_query(c->db, c->sql) == 0) {
                mysql_free_result(mysql_store_result(c->db));
                return true;
        }
        unsigned error = mysql_errno(c->db);
        if (error != ER_DEADLOCK && error != ER_LOCK_WAIT)
                die("%s: %u %s\n  in: %s", c->load->user, error, mysql_error(c->db), c->sql);
        return false;
}

__attribute__((format(printf, 2, 3))) static bool send_format(struct conn *c, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(c->sql, sizeof(c->sql), fmt, ap);
        va_end(ap);
        return send_sql(c);
}

static bool checkout(struct conn *c)
{
        unsigned customer = 1 + random_below(c, CUSTOMERS), product = 1 + random_below(c, PRODUCTS);
        return send_format(c, "BEGIN") &&
               send_format(c, "SELECT name, country FROM customers WHERE id=%u", customer) &&
               send_format(c, "SELECT kind, price, stock FROM products WHERE id=%u", product) &&
               send_format(c, "SELECT amount FROM orders WHERE id=%u",
                           1 + random_below(c, ORDERS)) &&
               send_format(c, "INSERT INTO orders (customer, product, amount) VALUES (%u, %u, 1)",
                           customer, product) &&
               send_format(c, "UPDATE products SET stock=stock-1 WHERE id=%u", product) &&
               send_format(c, "COMMIT");
}

static bool report(struct conn *c)
{
        unsigned first = 1 + random_below(c, ORDERS - c->load->rows);
        return send_format(c,
                           "SELECT c.country, p.kind, COUNT(*), SUM(o.amount*p.price) FROM orders o"
                           " JOIN customers c ON c.id=o.customer JOIN products p ON p.id=o.product"
                           " WHERE o.id BETWEEN %u AND %u GROUP BY c.country, p.kind",
                           first, first + c->load->rows - 1);
}

/* --- connections ---------------------------------------------------------------------------- */

static void finished(struct conn *c, int64_t due_ns)
{
        int64_t took = now_ns() - due_ns;
        latencies_add(due_ns < c->load->lead_end_ns ? &c->lead_took : &c->took, took);
}

/* Sends it until it succeeds. */
static void must(struct conn *c, bool (*what)(struct conn *c), int64_t due_ns)
{
        while (!what(c)) {
                c->refused += now_ns() >= c->load->lead_end_ns;
                mysql_query(c->db, "ROLLBACK");
                if (is_over(c->load))
                        return;
        }
        finished(c, due_ns);
}

static void sleep_until(int64_t ns)
{
        struct timespec ts = {.tv_sec = (time_t)(ns / NS), .tv_nsec = (long)(ns % NS)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
                ;
}

static void *run_conn(void *arg)
{
        struct conn *c = arg;
        struct load *l = c->load;
        if (!l->rate) {
                while (!is_over(l))
                        must(c, report, now_ns());
        }
        uint64_t total = (uint64_t)l->rate * (l->lead_s + l->seconds);
        for (uint64_t i = c->index; i < total; i += l->n_conns) {
                int64_t due_ns = l->begin_ns + (int64_t)(i * NS / l->rate);
                sleep_until(due_ns);
                must(c, checkout, due_ns);
        }
        mysql_thread_end();
        return NULL;
}

static void conn_open(struct conn *c, struct load *l, unsigned index)
{
        c->load = l;
        c->index = index;
        c->random = (index + 1) * 0x9e3779b97f4a7c15u;
        c->db = mysql_init(NULL);
        if (!c->db)
                die("out of memory");
        if (!mysql_real_connect(c->db, "127.0.0.1", l->user, l->password, l->database, l->port,
                                NULL, 0))
                die("%s: connect: %s", l->user, mysql_error(c->db));
}

/* --- the whole ------------------------------------------------------------------------------ */

static void print_result(struct load *l, struct conn *conns, double seconds)
{
        struct latencies took = {0}, lead = {0};
        uint64_t refused = 0;
        for (unsigned i = 0; i < l->n_conns; i++) {
                latencies_add_all(&took, &conns[i].took);
                latencies_add_all(&lead, &conns[i].lead_took);
                refused += conns[i].refused;
        }
        latencies_sort(&took);
        latencies_sort(&lead);
        printf("{\"ops\":%zu,\"seconds\":%.3f,\"refused\":%" PRIu64 ",\"p50_us\":%.1f,"
               "\"p99_us\":%.1f,\"max_us\":%.1f,\"lead_p99_us\":%.1f}\n",
               took.n, seconds, refused, latencies_us(&took, 50), latencies_us(&took, 99),
               latencies_us(&took, 100), latencies_us(&lead, 99));
        latencies_release(&took);
        latencies_release(&lead);
}

/* Reports end with SIGTERM, a checkout after its last transaction. */
static void run(struct load *l, struct conn *conns)
{
        sigset_t term;
        int got;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &term, NULL);
        for (unsigned i = 0; i < l->n_conns; i++)
                conn_open(&conns[i], l, i);
        l->begin_ns = now_ns();
        l->lead_end_ns = l->begin_ns + (int64_t)l->lead_s * NS;
        for (unsigned i = 0; i < l->n_conns; i++) {
                int error = pthread_create(&conns[i].thread, NULL, run_conn, &conns[i]);
                if (error)
                        die("no thread: %s", strerror(error));
        }
        if (!l->rate)
                sigwait(&term, &got);
        int64_t end_ns = now_ns();
        __atomic_store_n(&l->is_over, !l->rate, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < l->n_conns; i++)
                pthread_join(conns[i].thread, NULL);
        double seconds = l->rate ? l->seconds : (double)(end_ns - l->lead_end_ns) / NS;
        print_result(l, conns, seconds);
}

static void set_option(struct load *l, int opt)
{
        if (opt == 'P')
                l->port = number_arg(optarg, 1, 65535);
        else if (opt == 'c')
                l->n_conns = number_arg(optarg, 1, CONNS_MAX);
        else if (opt == 'k')
                l->rate = number_arg(optarg, 1, RATE_MAX);
        else if (opt == 'r')
                l->rows = number_arg(optarg, 1, ORDERS - 1);
        else if (opt == 'l')
                l->lead_s = number_arg(optarg, 0, 3600);
        else if (opt == 's')
                l->seconds = number_arg(optarg, 1, 86400);
        else if (opt == 'u')
                l->user = optarg;
        else if (opt == 'p')
                l->password = optarg;
        else if (opt == 'd')
                l->database = optarg;
        else
                exit(2);
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"port", required_argument, NULL, 'P'},
                {"conns", required_argument, NULL, 'c'},
                {"checkout", required_argument, NULL, 'k'},
                {"reports", required_argument, NULL, 'r'},
                {"lead", required_argument, NULL, 'l'},
                {"seconds", required_argument, NULL, 's'},
                {"user", required_argument, NULL, 'u'},
                {"password", required_argument, NULL, 'p'},
                {"database", required_argument, NULL, 'd'},
                {NULL, 0, NULL, 0},
        };
        static struct load load = {.n_conns = 1};
        static struct conn conns[CONNS_MAX];
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
                set_option(&load, opt);
        if (!load.port || !load.user || !load.rate == !load.rows || (load.rate && !load.seconds) ||
            optind != argc)
                die("--port, --user and one of --checkout and --reports are needed");
        if (mysql_library_init(0, NULL, NULL) != 0)
                die("out of memory");
        run(&load, conns);
        return 0;
}
