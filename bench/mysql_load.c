/* mysql_load: one client of the storm, of one kind and with many connections.
 *
 *   mysql_load --port N --user U --password P --database D [--conns N] [--prefix TEXT]
 *              (--checkout RATE --seconds S | --reports ROWS | --bulk | --idle SQL | --once SQL)
 *
 * --checkout: RATE transactions a second over all connections, for S seconds.  Each is BEGIN, three
 * selects by key, an INSERT of an order, an UPDATE of a product, COMMIT.  They are due at fixed
 * times, whatever became of those before (an open loop), and a latency counts from the time at
 * which the transaction was due.  A transaction that was rolled back by a deadlock, a lock wait or
 * a refusal is sent again at once; its latency goes on.
 *
 * --reports: each connection sends joins over ROWS orders, one after the other without a pause.  A
 * refused one is sent again at once: this client takes no hint.
 * --bulk: each connection updates a hundred rows of a table without a key, again and again: what
 * takes a replica 40 times as long as the server that it follows.
 * --idle: each connection opens a transaction with that statement, and lets it stand.
 * --once: each connection sends that statement once.
 * These end with SIGTERM; a statement that the server was told to kill then is no error.
 *
 * --prefix: text before every report, such as a comment.
 *
 * Prints one line of JSON, times in us of the monotonic clock: took, [due, how long] of each
 * transaction that succeeded; refused, when weir refused one.
 *
 * Threads: one for each connection, with results of its own; the main thread waits. */
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
#include "sample.h"

#define CONNS_MAX      512
#define RATE_MAX       100000
#define SQL_BYTES      1024
#define NS             1000000000
#define CUSTOMERS      20000 /* rows of the tables, as bench/mysql_storm.py makes them */
#define PRODUCTS       2000
#define ORDERS         400000
#define SHELVES        40

#define ER_LOCK_WAIT   1205
#define ER_DEADLOCK    1213
#define ER_INTERRUPTED 1317

enum kind { KIND_NONE, CHECKOUT, REPORTS, BULK, IDLE, ONCE };

struct load {
        enum kind kind;
        unsigned port, n_conns, rate, rows, seconds;
        const char *user, *password, *database, *prefix, *sql;
        int64_t begin_ns;
        bool is_over; /* atomic */
};

/* One transaction that succeeded, or was refused. */
struct taken {
        int64_t due_ns, took_ns; /* took_ns -1: refused */
};

struct conn {
        struct load *load;
        pthread_t thread;
        unsigned index;
        uint64_t random;
        MYSQL *db;
        char sql[SQL_BYTES];
        struct taken *taken;
        size_t n_taken, size;
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

static void note(struct conn *c, int64_t due_ns, int64_t took_ns)
{
        if (c->n_taken == c->size) {
                c->size = c->size ? 2 * c->size : 1024;
                c->taken = realloc(c->taken, c->size * sizeof(*c->taken));
                if (!c->taken)
                        die("out of memory");
        }
        c->taken[c->n_taken++] = (struct taken){due_ns, took_ns};
}

/* Sends c->sql and reads all of the reply.  Returns false when the server or a proxy rolled the
 * transaction back, or the load is over; any other error ends the program. */
static bool send_sql(struct conn *c)
{
        if (mysql_query(c->db, c->sql) == 0) {
                mysql_free_result(mysql_store_result(c->db));
                return true;
        }
        unsigned error = mysql_errno(c->db);
        bool is_killed = error == ER_INTERRUPTED && is_over(c->load);
        if (error != ER_DEADLOCK && error != ER_LOCK_WAIT && !is_killed)
                die("%s: %u %s\n  in: %s", c->load->user, error, mysql_error(c->db), c->sql);
        if (strncmp(mysql_error(c->db), "weir:", 5) == 0)
                note(c, now_ns(), -1);
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
        return send_format(
                c,
                "%sSELECT c.country, p.kind, COUNT(*), SUM(o.amount*p.price) FROM orders o"
                " JOIN customers c ON c.id=o.customer JOIN products p ON p.id=o.product"
                " WHERE o.id BETWEEN %u AND %u GROUP BY c.country, p.kind",
                c->load->prefix, first, first + c->load->rows - 1);
}

static bool bulk(struct conn *c)
{
        return send_format(c, "UPDATE stocks SET n = n + 1 WHERE shelf = %u",
                           random_below(c, SHELVES));
}

static bool send_once(struct conn *c)
{
        return send_format(c, "%s", c->load->sql);
}

/* --- connections ---------------------------------------------------------------------------- */

/* Sends it until it succeeds, or the load is over. */
static void must(struct conn *c, bool (*what)(struct conn *c), int64_t due_ns)
{
        while (!what(c)) {
                if (is_over(c->load))
                        return;
                mysql_query(c->db, "ROLLBACK");
        }
        note(c, due_ns, now_ns() - due_ns);
}

static void sleep_until(int64_t ns)
{
        struct timespec ts = {.tv_sec = (time_t)(ns / NS), .tv_nsec = (long)(ns % NS)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
                ;
}

static void run_checkout(struct conn *c)
{
        struct load *l = c->load;
        uint64_t total = (uint64_t)l->rate * l->seconds;
        for (uint64_t i = c->index; i < total; i += l->n_conns) {
                int64_t due_ns = l->begin_ns + (int64_t)(i * NS / l->rate);
                sleep_until(due_ns);
                must(c, checkout, due_ns);
        }
}

static void *run_conn(void *arg)
{
        struct conn *c = arg;
        struct load *l = c->load;
        bool (*again)(struct conn * c) = l->kind == BULK ? bulk : report;
        if (l->kind == CHECKOUT)
                run_checkout(c);
        else if (l->kind == ONCE)
                must(c, send_once, now_ns());
        else if (l->kind == IDLE)
                (void)(send_format(c, "BEGIN") && send_once(c)); /* a killed one ends it, too */
        else
                while (!is_over(l))
                        must(c, again, now_ns());
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
        (void)send_format(c, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
}

/* --- the whole ------------------------------------------------------------------------------ */

static void print_taken(const struct load *l, const struct conn *conns, bool is_refused)
{
        const char *comma = "";
        for (unsigned i = 0; i < l->n_conns; i++) {
                for (size_t k = 0; k < conns[i].n_taken; k++) {
                        const struct taken *t = &conns[i].taken[k];
                        if ((t->took_ns < 0) != is_refused)
                                continue;
                        printf("%s", comma);
                        comma = ",";
                        if (is_refused)
                                printf("%" PRId64, t->due_ns / 1000);
                        else
                                printf("[%" PRId64 ",%" PRId64 "]", t->due_ns / 1000,
                                       t->took_ns / 1000);
                }
        }
}

/* A checkout ends after its last transaction, all others with SIGTERM. */
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
        for (unsigned i = 0; i < l->n_conns; i++) {
                int error = pthread_create(&conns[i].thread, NULL, run_conn, &conns[i]);
                if (error)
                        die("no thread: %s", strerror(error));
        }
        if (l->kind != CHECKOUT) {
                sigwait(&term, &got);
                __atomic_store_n(&l->is_over, true, __ATOMIC_RELAXED);
        }
        for (unsigned i = 0; i < l->n_conns; i++)
                pthread_join(conns[i].thread, NULL);
        printf("{\"took\":[");
        print_taken(l, conns, false);
        printf("],\"refused\":[");
        print_taken(l, conns, true);
        printf("]}\n");
}

static void set_kind(struct load *l, enum kind kind, const char *sql)
{
        if (l->kind)
                die("a load is of one kind");
        l->kind = kind;
        l->sql = sql;
}

static void set_option(struct load *l, int opt)
{
        if (opt == CHECKOUT || opt == REPORTS || opt == BULK || opt == IDLE || opt == ONCE)
                set_kind(l, (enum kind)opt, optarg);
        if (opt == CHECKOUT)
                l->rate = number_arg(optarg, 1, RATE_MAX);
        else if (opt == REPORTS)
                l->rows = number_arg(optarg, 1, ORDERS - 1);
        else if (opt == 'P')
                l->port = number_arg(optarg, 1, 65535);
        else if (opt == 'c')
                l->n_conns = number_arg(optarg, 1, CONNS_MAX);
        else if (opt == 'x')
                l->prefix = optarg;
        else if (opt == 's')
                l->seconds = number_arg(optarg, 1, 86400);
        else if (opt == 'u')
                l->user = optarg;
        else if (opt == 'p')
                l->password = optarg;
        else if (opt == 'd')
                l->database = optarg;
        else if (opt == '?')
                exit(2);
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"port", required_argument, NULL, 'P'},
                {"conns", required_argument, NULL, 'c'},
                {"checkout", required_argument, NULL, CHECKOUT},
                {"reports", required_argument, NULL, REPORTS},
                {"bulk", no_argument, NULL, BULK},
                {"idle", required_argument, NULL, IDLE},
                {"once", required_argument, NULL, ONCE},
                {"prefix", required_argument, NULL, 'x'},
                {"seconds", required_argument, NULL, 's'},
                {"user", required_argument, NULL, 'u'},
                {"password", required_argument, NULL, 'p'},
                {"database", required_argument, NULL, 'd'},
                {NULL, 0, NULL, 0},
        };
        static struct load load = {.n_conns = 1, .prefix = ""};
        static struct conn conns[CONNS_MAX];
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
                set_option(&load, opt);
        if (!load.port || !load.user || !load.kind || optind != argc ||
            (load.kind == CHECKOUT && !load.seconds))
                die("--port, --user and what to send are needed, and --seconds of a checkout");
        if (mysql_library_init(0, NULL, NULL) != 0)
                die("out of memory");
        run(&load, conns);
        return 0;
}
