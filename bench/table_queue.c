/* table_queue: a queue in MariaDB tables, run in Action Scheduler's manner, as a peer for weir.
 *
 *   table_queue --port N [--workers N] [--batch 25] [--payload BYTES] [--backlog N] --seconds S
 *               [--pid PID] [--dir DIR] [--warm S]
 *
 * Each worker is a thread with a connection of its own, as a PHP process is one.  In a cycle it
 * enqueues a batch, claims a batch and runs it, with the statements Action Scheduler (3.9.3 and
 * later) sends for it, each in a transaction of its own:
 *
 *   enqueue   INSERT the action; INSERT the log row "created"
 *   claim     INSERT a claim; UPDATE .. JOIN (SELECT .. FOR UPDATE SKIP LOCKED); SELECT its ids
 *   run one   SELECT the claim's ids again; SELECT its status; SELECT the action with its group;
 *             UPDATE to in-progress; INSERT "started"; UPDATE to complete; INSERT "completed"
 *   release   SELECT what is still pending; DELETE the claim
 *
 * So a job is six synced transactions and 3/25 of a claim.  Left out, to the peer's advantage: the
 * cleaning of old actions, the count of claims before each batch, options, caches and PHP.
 *
 * When the time is over a worker finishes the jobs it has claimed and claims no more: behind a
 * backlog each claim sorts and locks all of it, and 64 workers that still want their share would
 * take minutes.  One that does not end within DRAIN_S ends the program with what it waits for.
 *
 * Every payload carries a number; one that comes back twice or changed ends the program, and at
 * the end the tables are counted: every action complete or still pending, three log rows for each
 * complete one, no claim left.  Prints one line of JSON, as gen does.
 *
 * Threads: the workers share the counters and the bits of the numbers, both atomic. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <mariadb/mysql.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arg.h"
#include "sample.h"

#define WORKERS_MAX  256
#define BATCH_MAX    1000
#define PAYLOAD_MIN  64
#define PAYLOAD_MAX  8000 /* of extended_args */
#define NUMBERS_MAX  (1u << 24)
#define SQL_BYTES    65536
#define DATE_BYTES   20  /* 2026-01-31 12:00:00 */
#define ADD_ROWS     100 /* of the backlog in one statement */
#define DRAIN_S      60  /* a claim behind 100,000 jobs may take 20 s when 64 are at it */

#define ER_LOCK_WAIT 1205
#define ER_DEADLOCK  1213

#define ACTIONS      "wp_actionscheduler_actions"
#define CLAIMS       "wp_actionscheduler_claims"
#define GROUPS       "wp_actionscheduler_groups"
#define LOGS         "wp_actionscheduler_logs"
#define ORDER        "ORDER BY priority ASC, attempts ASC, scheduled_date_gmt ASC, action_id ASC"
#define ZERO         "datetime NULL DEFAULT '0000-00-00 00:00:00'"
#define TABLE        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_520_ci"

static const char *const schema[] = {
        "CREATE DATABASE bench",
        "USE bench",
        "CREATE TABLE " ACTIONS " ("
        "action_id bigint(20) unsigned NOT NULL AUTO_INCREMENT, hook varchar(191) NOT NULL,"
        "status varchar(20) NOT NULL, scheduled_date_gmt " ZERO ", scheduled_date_local " ZERO ","
        "priority tinyint unsigned NOT NULL DEFAULT 10, args varchar(191), schedule longtext,"
        "group_id bigint(20) unsigned NOT NULL DEFAULT 0, attempts int(11) NOT NULL DEFAULT 0,"
        "last_attempt_gmt " ZERO ", last_attempt_local " ZERO ","
        "claim_id bigint(20) unsigned NOT NULL DEFAULT 0, extended_args varchar(8000) DEFAULT NULL,"
        "PRIMARY KEY (action_id),"
        "KEY hook_status_scheduled_date_gmt (hook(163), status, scheduled_date_gmt),"
        "KEY status_scheduled_date_gmt (status, scheduled_date_gmt),"
        "KEY scheduled_date_gmt (scheduled_date_gmt), KEY args (args), KEY group_id (group_id),"
        "KEY last_attempt_gmt (last_attempt_gmt),"
        "KEY claim_id_status_priority_scheduled_date_gmt"
        " (claim_id, status, priority, scheduled_date_gmt)" TABLE,
        "CREATE TABLE " CLAIMS " (claim_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
        "date_created_gmt " ZERO ", PRIMARY KEY (claim_id),"
        "KEY date_created_gmt (date_created_gmt)" TABLE,
        "CREATE TABLE " GROUPS " (group_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
        "slug varchar(255) NOT NULL, PRIMARY KEY (group_id), KEY slug (slug(191))" TABLE,
        "CREATE TABLE " LOGS " (log_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
        "action_id bigint(20) unsigned NOT NULL, message text NOT NULL, log_date_gmt " ZERO ","
        "log_date_local " ZERO ", PRIMARY KEY (log_id), KEY action_id (action_id),"
        "KEY log_date_gmt (log_date_gmt)" TABLE,
        "INSERT INTO " GROUPS " (slug) VALUES ('bench')",
};

struct counters {
        uint64_t puts, acks, empty, deadlocks;
};

struct run {
        unsigned port, n_workers, batch, payload, backlog;
        double seconds, warm_s;
        pid_t pid;
        char disk[64];
        char *template; /* one payload, without its number */
        uint32_t next_number;
        uint8_t *seen; /* by number */
        bool is_over;
        struct counters count;
};

struct worker {
        struct run *run;
        pthread_t thread;
        unsigned first; /* size of the first batch: workers in step would all put, then all run */
        MYSQL *db;
        char date[DATE_BYTES];
        char *sql;
        size_t sql_len;
        unsigned long long ids[BATCH_MAX]; /* of the claim */
        size_t n_ids;
};

static uint64_t count(uint64_t *counter, uint64_t n)
{
        return __atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static struct counters counters_read(const struct counters *c)
{
        return (struct counters){
                .puts = __atomic_load_n(&c->puts, __ATOMIC_RELAXED),
                .acks = __atomic_load_n(&c->acks, __ATOMIC_RELAXED),
                .empty = __atomic_load_n(&c->empty, __ATOMIC_RELAXED),
                .deadlocks = __atomic_load_n(&c->deadlocks, __ATOMIC_RELAXED),
        };
}

/* --- statements ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(struct worker *w, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(w->sql + w->sql_len, SQL_BYTES - w->sql_len, fmt, ap);
        va_end(ap);
        if (n < 0 || (size_t)n >= SQL_BYTES - w->sql_len)
                die("statement too long");
        w->sql_len += (size_t)n;
}

/* Sends what was added.  The loser of a deadlock sends its statement again, as the next run of a
 * PHP process would.  Returns the rows changed. */
static uint64_t send_sql(struct worker *w)
{
        while (mysql_real_query(w->db, w->sql, w->sql_len) != 0) {
                unsigned err = mysql_errno(w->db);
                if (err != ER_DEADLOCK && err != ER_LOCK_WAIT)
                        die("%s\n  in: %.*s", mysql_error(w->db), (int)w->sql_len, w->sql);
                count(&w->run->count.deadlocks, 1);
        }
        w->sql_len = 0;
        return mysql_affected_rows(w->db);
}

static MYSQL_RES *select_sql(struct worker *w)
{
        send_sql(w);
        MYSQL_RES *rows = mysql_store_result(w->db);
        if (!rows)
                die("no result: %s", mysql_error(w->db));
        return rows;
}

static void must_change(struct worker *w, uint64_t rows, const char *what)
{
        uint64_t changed = send_sql(w);
        if (changed != rows)
                die("%s: %" PRIu64 " rows changed, not %" PRIu64, what, changed, rows);
}

/* As PHP does it: the client's clock, to the second. */
static void stamp(struct worker *w)
{
        struct tm tm;
        time_t now = time(NULL);
        gmtime_r(&now, &tm);
        strftime(w->date, sizeof(w->date), "%Y-%m-%d %H:%M:%S", &tm);
}

static void log_row(struct worker *w, unsigned long long id, const char *message)
{
        stamp(w);
        add(w,
            "INSERT INTO " LOGS " (action_id, message, log_date_gmt, log_date_local) "
            "VALUES (%llu, '%s', '%s', '%s')",
            id, message, w->date, w->date);
        must_change(w, 1, "log");
}

/* --- the cycle ------------------------------------------------------------------------------ */

/* Arguments of more than 191 bytes lie in extended_args, and their MD5 in args; any 32 digits cost
 * the index the same. */
static void add_values(struct worker *w, uint32_t number)
{
        const struct run *run = w->run;
        add(w,
            "('bench', 'pending', '%s', '%s', 'O:28:\"ActionScheduler_NullSchedule\":0:{}', 1, 10,"
            " '%08x%08x%08x%08x', '{\"n\":\"%010u%s')",
            w->date, w->date, number * 2654435761u, number, number * 40503u, ~number, number,
            run->template);
}

#define INSERT_ACTIONS                                                                             \
        "INSERT INTO " ACTIONS " (hook, status, scheduled_date_gmt, scheduled_date_local, "        \
        "schedule, group_id, priority, args, extended_args) VALUES "

static uint32_t take_numbers(struct run *run, uint32_t n)
{
        uint32_t first = __atomic_fetch_add(&run->next_number, n, __ATOMIC_RELAXED);
        if (first + n > NUMBERS_MAX)
                die("more jobs than numbers");
        return first;
}

static void enqueue(struct worker *w)
{
        stamp(w);
        add(w, INSERT_ACTIONS);
        add_values(w, take_numbers(w->run, 1));
        must_change(w, 1, "enqueue");
        log_row(w, mysql_insert_id(w->db), "action created");
        count(&w->run->count.puts, 1);
}

static void read_ids(struct worker *w, unsigned long long claim)
{
        add(w, "SELECT action_id, scheduled_date_gmt FROM " ACTIONS " WHERE claim_id = %llu " ORDER,
            claim);
        MYSQL_RES *rows = select_sql(w);
        w->n_ids = 0;
        for (MYSQL_ROW row; (row = mysql_fetch_row(rows));) {
                if (w->n_ids == BATCH_MAX)
                        die("more actions in a claim than were asked for");
                w->ids[w->n_ids++] = strtoull(row[0], NULL, 10);
        }
        mysql_free_result(rows);
}

static unsigned long long claim_some(struct worker *w, unsigned limit)
{
        stamp(w);
        add(w, "INSERT INTO " CLAIMS " (date_created_gmt) VALUES ('%s')", w->date);
        must_change(w, 1, "claim");
        unsigned long long claim = mysql_insert_id(w->db);
        add(w,
            "UPDATE " ACTIONS " t1 JOIN ( SELECT action_id from " ACTIONS
            " WHERE claim_id = 0 AND scheduled_date_gmt <= '%s' AND status='pending' " ORDER
            " LIMIT %u FOR UPDATE SKIP LOCKED ) t2 ON t1.action_id = t2.action_id "
            "SET claim_id=%llu, last_attempt_gmt='%s', last_attempt_local='%s'",
            w->date, limit, claim, w->date, w->date);
        uint64_t changed = send_sql(w);
        read_ids(w, claim);
        if (changed != w->n_ids)
                die("%" PRIu64 " actions claimed, %zu found", changed, w->n_ids);
        return claim;
}

/* The payload is ours, whole, and seen for the first time. */
static void check_payload(const struct run *run, const char *payload)
{
        const size_t tail_at = run->payload - strlen(run->template);
        if (!payload || strlen(payload) != run->payload ||
            strcmp(payload + tail_at, run->template) != 0)
                die("a payload came back changed: %s", payload ? payload : "NULL");
        unsigned long number = strtoul(payload + sizeof("{\"n\":\"") - 1, NULL, 10);
        if (number >= __atomic_load_n(&run->next_number, __ATOMIC_RELAXED))
                die("job number %lu was never put", number);
        if (__atomic_exchange_n(&run->seen[number], 1, __ATOMIC_RELAXED))
                die("job number %lu was delivered twice", number);
}

static void fetch(struct worker *w, unsigned long long id)
{
        add(w, "SELECT status FROM " ACTIONS " WHERE action_id=%llu", id);
        MYSQL_RES *rows = select_sql(w);
        MYSQL_ROW row = mysql_fetch_row(rows);
        if (!row || strcmp(row[0], "pending") != 0)
                die("action %llu is not pending", id);
        mysql_free_result(rows);
        add(w,
            "SELECT a.extended_args, a.*, g.slug AS `group` FROM " ACTIONS " a LEFT JOIN " GROUPS
            " g ON a.group_id=g.group_id WHERE a.action_id=%llu",
            id);
        rows = select_sql(w);
        row = mysql_fetch_row(rows);
        check_payload(w->run, row ? row[0] : NULL);
        mysql_free_result(rows);
}

static void run_one(struct worker *w, unsigned long long claim, unsigned long long id)
{
        read_ids(w, claim);
        fetch(w, id);
        stamp(w);
        add(w,
            "UPDATE " ACTIONS " SET attempts = attempts+1, status='in-progress', "
            "last_attempt_gmt = '%s', last_attempt_local = '%s' WHERE action_id = %llu",
            w->date, w->date, id);
        must_change(w, 1, "start");
        log_row(w, id, "action started via WP CLI");
        stamp(w);
        add(w,
            "UPDATE " ACTIONS " SET status = 'complete', last_attempt_gmt = '%s', "
            "last_attempt_local = '%s' WHERE action_id = %llu",
            w->date, w->date, id);
        must_change(w, 1, "complete");
        log_row(w, id, "action complete via WP CLI");
        count(&w->run->count.acks, 1);
}

static void release(struct worker *w, unsigned long long claim)
{
        add(w, "SELECT action_id FROM " ACTIONS " WHERE claim_id = %llu AND status = 'pending'",
            claim);
        MYSQL_RES *rows = select_sql(w);
        if (mysql_num_rows(rows) != 0)
                die("claim %llu has actions left", claim);
        mysql_free_result(rows);
        add(w, "DELETE FROM " CLAIMS " WHERE claim_id = %llu", claim);
        must_change(w, 1, "release");
}

static bool is_over(const struct run *run)
{
        return __atomic_load_n(&run->is_over, __ATOMIC_RELAXED);
}

/* As many as were put, not the same ones: any worker may get any job. */
static void cycle(struct worker *w, unsigned debt)
{
        unsigned long long ids[BATCH_MAX];
        for (unsigned i = 0; i < debt; i++)
                enqueue(w);
        while (debt > 0 && !is_over(w->run)) {
                unsigned long long claim = claim_some(w, debt);
                size_t n = w->n_ids;
                memcpy(ids, w->ids, n * sizeof(*ids));
                count(&w->run->count.empty, n == 0);
                for (size_t i = 0; i < n; i++)
                        run_one(w, claim, ids[i]);
                release(w, claim);
                debt -= (unsigned)n;
        }
}

static void *work(void *arg)
{
        struct worker *w = arg;
        cycle(w, w->first);
        while (!is_over(w->run))
                cycle(w, w->run->batch);
        mysql_thread_end();
        return NULL;
}

/* --- before and after ----------------------------------------------------------------------- */

static void worker_open(struct worker *w, struct run *run, const char *database)
{
        w->run = run;
        w->sql = malloc(SQL_BYTES);
        w->db = mysql_init(NULL);
        if (!w->sql || !w->db)
                die("out of memory");
        if (!mysql_real_connect(w->db, "127.0.0.1", "root", "", database, run->port, NULL, 0))
                die("connect: %s", mysql_error(w->db));
        /* As WordPress does: it takes out the modes that refuse a zero date. */
        add(w, "SET SESSION sql_mode='NO_ENGINE_SUBSTITUTION'");
        send_sql(w);
}

static void add_backlog(struct worker *w)
{
        for (unsigned left = w->run->backlog; left > 0;) {
                unsigned n = left < ADD_ROWS ? left : ADD_ROWS;
                uint32_t first = take_numbers(w->run, n);
                stamp(w);
                add(w, INSERT_ACTIONS);
                for (unsigned i = 0; i < n; i++) {
                        add(w, "%s", i ? "," : "");
                        add_values(w, first + i);
                }
                must_change(w, n, "backlog");
                left -= n;
        }
        w->run->count.puts += w->run->backlog;
        add(w, "INSERT INTO " LOGS " (action_id, message, log_date_gmt, log_date_local) "
               "SELECT action_id, 'action created', scheduled_date_gmt, scheduled_date_local "
               "FROM " ACTIONS);
        must_change(w, w->run->backlog, "backlog");
}

static void must_count(struct worker *w, uint64_t rows, const char *from)
{
        add(w, "SELECT COUNT(*) FROM %s", from);
        MYSQL_RES *result = select_sql(w);
        uint64_t found = strtoull(mysql_fetch_row(result)[0], NULL, 10);
        mysql_free_result(result);
        if (found != rows)
                die("%s: %" PRIu64 " rows, not %" PRIu64, from, found, rows);
}

static void check_tables(struct worker *w)
{
        const struct counters *c = &w->run->count;
        must_count(w, c->acks, ACTIONS " WHERE status='complete' AND attempts=1");
        must_count(w, c->puts - c->acks, ACTIONS " WHERE status='pending' AND claim_id=0");
        must_count(w, c->puts, ACTIONS);
        must_count(w, c->puts + 2 * c->acks, LOGS);
        must_count(w, 0, CLAIMS);
}

static void rest(double seconds)
{
        struct timespec ts = {.tv_sec = (time_t)seconds};
        ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
        nanosleep(&ts, NULL);
}

/* What the server is doing for the workers, longest first. */
static void tell_statements(struct worker *w)
{
        add(w,
            "SELECT TIME, STATE, INFO FROM information_schema.PROCESSLIST WHERE DB = 'bench' AND "
            "COMMAND = 'Query' ORDER BY TIME_MS DESC LIMIT 5");
        MYSQL_RES *rows = select_sql(w);
        for (MYSQL_ROW row; (row = mysql_fetch_row(rows));)
                fprintf(stderr, "  %s s, %s: %.160s\n", row[0], row[1] ? row[1] : "",
                        row[2] ? row[2] : "");
        mysql_free_result(rows);
}

/* Workers that are still at it after DRAIN_S are told with what they wait for. */
static void join_workers(struct run *run, struct worker *workers, struct worker *teller)
{
        struct timespec until;
        unsigned late = 0;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += DRAIN_S;
        for (unsigned i = 0; i < run->n_workers; i++)
                late += pthread_timedjoin_np(workers[i].thread, NULL, &until) != 0;
        if (!late)
                return;
        fprintf(stderr, "%u of %u workers have not ended after %d s; the server says:\n", late,
                run->n_workers, DRAIN_S);
        tell_statements(teller);
        die("the table queue hangs");
}

static void measure(struct run *run, struct worker *workers, struct worker *teller)
{
        struct sample a, b;
        for (unsigned i = 0; i < run->n_workers; i++) {
                worker_open(&workers[i], run, "bench");
                workers[i].first = 1 + i * run->batch / run->n_workers;
                if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
                        die("no thread: %s", strerror(errno));
        }
        rest(run->warm_s);
        struct counters before = counters_read(&run->count);
        sample_take(run->pid, run->disk, &a);
        rest(run->seconds);
        struct counters after = counters_read(&run->count);
        sample_take(run->pid, run->disk, &b);
        __atomic_store_n(&run->is_over, true, __ATOMIC_RELAXED);
        join_workers(run, workers, teller);
        /* Puts and completions come in runs of a batch; over time both are the same number. */
        uint64_t ops = (after.puts - before.puts + after.acks - before.acks) / 2;
        sample_print("cycle", ops, &a, &b);
        printf(",\"empty\":%" PRIu64 ",\"deadlocks\":%" PRIu64 ",\"puts_total\":%" PRIu64
               ",\"acks_total\":%" PRIu64 "}\n",
               after.empty - before.empty, after.deadlocks - before.deadlocks, run->count.puts,
               run->count.acks);
}

static void set_option(struct run *run, int opt)
{
        if (opt == 'P')
                run->port = number_arg(optarg, 1, 65535);
        else if (opt == 'w')
                run->n_workers = number_arg(optarg, 1, WORKERS_MAX);
        else if (opt == 'b')
                run->batch = number_arg(optarg, 1, BATCH_MAX);
        else if (opt == 's')
                run->payload = number_arg(optarg, PAYLOAD_MIN, PAYLOAD_MAX);
        else if (opt == 'l')
                run->backlog = number_arg(optarg, 0, NUMBERS_MAX / 2);
        else if (opt == 'i')
                run->pid = (pid_t)number_arg(optarg, 1, 1u << 30);
        else if (opt == 'D')
                sample_find_disk(optarg, run->disk, sizeof(run->disk));
        else if (opt == 't')
                run->seconds = strtod(optarg, NULL);
        else if (opt == 'u')
                run->warm_s = strtod(optarg, NULL);
        else
                exit(2);
}

static void parse_options(struct run *run, int argc, char **argv)
{
        static const struct option options[] = {
                {"port", required_argument, NULL, 'P'},
                {"workers", required_argument, NULL, 'w'},
                {"batch", required_argument, NULL, 'b'},
                {"payload", required_argument, NULL, 's'},
                {"backlog", required_argument, NULL, 'l'},
                {"pid", required_argument, NULL, 'i'},
                {"dir", required_argument, NULL, 'D'},
                {"seconds", required_argument, NULL, 't'},
                {"warm", required_argument, NULL, 'u'},
                {NULL, 0, NULL, 0},
        };
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
                set_option(run, opt);
        if (!run->port || run->seconds <= 0 || optind != argc)
                die("--port and --seconds are needed, and nothing but options");
}

/* What follows the number: ","pad":"abc..."} */
static char *make_template(unsigned payload)
{
        static const char head[] = "\",\"pad\":\"";
        size_t len = payload - (sizeof("{\"n\":\"0000000000") - 1), at = sizeof(head) - 1;
        char *p = malloc(len + 1);
        if (!p)
                die("out of memory");
        memcpy(p, head, at);
        for (size_t i = at; i < len; i++)
                p[i] = (char)('a' + i % 26);
        memcpy(p + len - 2, "\"}", 3);
        return p;
}

int main(int argc, char **argv)
{
        static struct run run = {.n_workers = 1, .batch = 25, .payload = 200, .warm_s = 0.05};
        static struct worker workers[WORKERS_MAX], first;
        parse_options(&run, argc, argv);
        run.template = make_template(run.payload);
        run.seen = calloc(NUMBERS_MAX, 1);
        if (!run.seen || mysql_library_init(0, NULL, NULL) != 0)
                die("out of memory");
        worker_open(&first, &run, NULL);
        for (size_t i = 0; i < sizeof(schema) / sizeof(schema[0]); i++) {
                add(&first, "%s", schema[i]);
                send_sql(&first);
        }
        add_backlog(&first);
        measure(&run, workers, &first);
        check_tables(&first);
        return 0;
}
