/* mysql_slices: compares ways to one MySQL server in slices of time that stand side by side.
 *
 *   mysql_slices --way NAME:PORT[:PID] --way ... --work point_select|read_only|read_write
 *                [--threads N] [--rounds N] [--slice-ms N] [--database-pid PID] [--tables N]
 *                [--rows N] [--user U] [--password P] [--database D] [--seed N]
 *
 * A way is a port: the server's own, a relay's, a proxy's.  Each thread holds a connection to every
 * way.  In a round all threads visit every way once, in a random order, for a slice of time.  The
 * reader divides the rate of a way by the rate of the first way in the same round, so noise that
 * lasts longer than a round is in both and cancels out.  Runs one after the other would differ by a
 * factor of two on a machine that others use as well.
 *
 * The tables are sysbench's (sbtest1 to sbtestN), all statements but BEGIN and COMMIT are prepared:
 *
 *   point_select  one row by its key, autocommit
 *   read_only     BEGIN, 10 rows by key, 4 ranges of 100 rows, COMMIT
 *   read_write    the same with 4 updates by key before the COMMIT
 *
 * A statement counts when its reply came before the end of the slice.  A transaction under way then
 * is finished, so that no lock outlives a slice; its statements count for the CPU time only.
 *
 * Prints a line of JSON for each slice and one for each way with the latencies of all its slices.
 * PID is the process whose CPU time belongs to the way.  User time has a resolution of 10 ms, so
 * only its sum over many slices is of use.
 *
 * Threads: the main thread writes struct run between two barriers, while the others wait; each
 * thread has a lane of its own. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <mariadb/mysql.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arg.h"
#include "latencies.h"
#include "sample.h"

#define WAYS_MAX     16
#define LANES_MAX    512
#define RANGE_ROWS   100
#define TEXT_BYTES   119 /* of sysbench's column c */
#define SQL_BYTES    256

#define ER_LOCK_WAIT 1205
#define ER_DEADLOCK  1213

enum statement { POINT, RANGE, SUM, ORDER, DISTINCT, UPDATE_K, UPDATE_C, N_STATEMENTS };

static const struct {
        const char *before, *after; /* the name of the table */
        bool has_text; /* the parameters are a new value of c and a key, else one or two keys */
} statements[N_STATEMENTS] = {
        [POINT] = {"SELECT c FROM", "WHERE id=?", false},
        [RANGE] = {"SELECT c FROM", "WHERE id BETWEEN ? AND ?", false},
        [SUM] = {"SELECT SUM(k) FROM", "WHERE id BETWEEN ? AND ?", false},
        [ORDER] = {"SELECT c FROM", "WHERE id BETWEEN ? AND ? ORDER BY c", false},
        [DISTINCT] = {"SELECT DISTINCT c FROM", "WHERE id BETWEEN ? AND ? ORDER BY c", false},
        [UPDATE_K] = {"UPDATE", "SET k=k+1 WHERE id=?", false},
        [UPDATE_C] = {"UPDATE", "SET c=? WHERE id=?", true},
};

struct work {
        const char *name;
        bool has_begin; /* and COMMIT */
        unsigned times[N_STATEMENTS];
};

static const struct work works[] = {
        {"point_select", false, {[POINT] = 1}},
        {"read_only", true, {[POINT] = 10, [RANGE] = 1, [SUM] = 1, [ORDER] = 1, [DISTINCT] = 1}},
        {"read_write",
         true,
         {[POINT] = 10,
          [RANGE] = 1,
          [SUM] = 1,
          [ORDER] = 1,
          [DISTINCT] = 1,
          [UPDATE_K] = 2,
          [UPDATE_C] = 2}},
};
#define N_WORKS (sizeof(works) / sizeof(works[0]))

struct way {
        char name[32];
        unsigned port;
        pid_t pid; /* 0: no process of its own */
        struct latencies all;
};

struct run {
        struct way ways[WAYS_MAX];
        size_t n_ways;
        const struct work *work;
        unsigned n_lanes, rounds, slice_ms, tables, rows;
        pid_t database_pid;
        const char *user, *password, *database;
        uint64_t seed;
        pthread_barrier_t begin, end; /* of a slice */
        size_t way;                   /* of this slice */
        int64_t deadline_ns;
        bool is_over;
};

/* A thread's connections, and what it did in this slice. */
struct lane {
        struct run *run;
        pthread_t thread;
        uint64_t random;
        unsigned table;
        MYSQL *db[WAYS_MAX];
        MYSQL_STMT *stmt[WAYS_MAX][N_STATEMENTS];
        int32_t low, high; /* parameters of the next statement */
        char text[TEXT_BYTES];
        unsigned long text_len;
        uint64_t in_time, queries, errors;
        struct latencies took;
};

/* CPU time of a process, all threads. */
struct cpu {
        int64_t ns, user_us;
};

static uint64_t next_random(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

/* --- a lane --------------------------------------------------------------------------------- */

static void prepare(struct lane *l, size_t way, enum statement which)
{
        char sql[SQL_BYTES];
        snprintf(sql, sizeof(sql), "%s sbtest%u %s", statements[which].before, l->table,
                 statements[which].after);
        MYSQL_STMT *s = mysql_stmt_init(l->db[way]);
        if (!s || mysql_stmt_prepare(s, sql, strlen(sql)) != 0)
                die("%s: prepare: %s", l->run->ways[way].name, mysql_error(l->db[way]));
        MYSQL_BIND params[2] = {
                {.buffer_type = MYSQL_TYPE_LONG, .buffer = &l->low},
                {.buffer_type = MYSQL_TYPE_LONG, .buffer = &l->high},
        };
        if (statements[which].has_text) {
                params[1] = params[0];
                params[0] = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING,
                                         .buffer = l->text,
                                         .buffer_length = sizeof(l->text),
                                         .length = &l->text_len};
        }
        if (mysql_stmt_bind_param(s, params) != 0)
                die("bind: %s", mysql_stmt_error(s));
        l->stmt[way][which] = s;
}

static void lane_open(struct lane *l, struct run *run, unsigned index)
{
        l->run = run;
        l->random = (run->seed + index + 1) * 0x9e3779b97f4a7c15u;
        l->table = 1 + index % run->tables;
        memset(l->text, 'x', sizeof(l->text));
        l->text_len = sizeof(l->text);
        for (size_t w = 0; w < run->n_ways; w++) {
                l->db[w] = mysql_init(NULL);
                if (!l->db[w])
                        die("out of memory");
                if (!mysql_real_connect(l->db[w], "127.0.0.1", run->user, run->password,
                                        run->database, run->ways[w].port, NULL, 0))
                        die("%s: connect: %s", run->ways[w].name, mysql_error(l->db[w]));
                for (unsigned s = 0; s < N_STATEMENTS; s++) {
                        if (run->work->times[s])
                                prepare(l, w, s);
                }
        }
}

/* Returns true after a success, false after an error that ends a transaction and may be tried
 * again.  Any other error ends the program. */
static bool is_done(struct lane *l, const char *failed_with, unsigned error)
{
        if (!error) {
                l->queries++;
                l->in_time += now_ns() < l->run->deadline_ns;
                return true;
        }
        if (error != ER_DEADLOCK && error != ER_LOCK_WAIT)
                die("%s: %u %s", l->run->ways[l->run->way].name, error, failed_with);
        l->errors++;
        return false;
}

static bool send_text(struct lane *l, const char *sql)
{
        MYSQL *db = l->db[l->run->way];
        unsigned error = mysql_query(db, sql) == 0 ? 0 : mysql_errno(db);
        return is_done(l, mysql_error(db), error);
}

static bool execute(struct lane *l, enum statement which)
{
        MYSQL_STMT *s = l->stmt[l->run->way][which];
        l->low = 1 + (int32_t)(next_random(&l->random) % l->run->rows);
        l->high = l->low + RANGE_ROWS - 1;
        if (statements[which].has_text)
                l->text[l->random % TEXT_BYTES] = (char)('a' + l->random % 26);
        bool is_bad = mysql_stmt_execute(s) != 0;
        if (!is_bad && mysql_stmt_field_count(s) > 0) {
                is_bad = mysql_stmt_store_result(s) != 0;
                mysql_stmt_free_result(s);
        }
        return is_done(l, mysql_stmt_error(s), is_bad ? mysql_stmt_errno(s) : 0);
}

static bool transaction(struct lane *l)
{
        const struct work *work = l->run->work;
        if (work->has_begin && !send_text(l, "BEGIN"))
                return false;
        for (unsigned s = 0; s < N_STATEMENTS; s++) {
                for (unsigned i = 0; i < work->times[s]; i++) {
                        if (!execute(l, s))
                                return false;
                }
        }
        return !work->has_begin || send_text(l, "COMMIT");
}

static void *run_lane(void *arg)
{
        struct lane *l = arg;
        struct run *run = l->run;
        for (;;) {
                pthread_barrier_wait(&run->begin);
                if (run->is_over)
                        break;
                for (int64_t began = now_ns(); began < run->deadline_ns;) {
                        bool is_whole = transaction(l);
                        int64_t ended = now_ns();
                        if (is_whole)
                                latencies_add(&l->took, ended - began);
                        else
                                mysql_query(l->db[run->way], "ROLLBACK");
                        began = ended;
                }
                pthread_barrier_wait(&run->end);
        }
        mysql_thread_end();
        return NULL;
}

/* --- CPU time ------------------------------------------------------------------------------- */

static int64_t threads_ns(pid_t pid)
{
        char path[64 + sizeof(((struct dirent *)0)->d_name)];
        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        DIR *dir = opendir(path);
        if (!dir)
                die("no process %d", (int)pid);
        int64_t total = 0;
        for (struct dirent *entry; (entry = readdir(dir));) {
                int64_t ns = 0;
                snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name);
                FILE *f = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
                if (!f)
                        continue; /* the thread has ended */
                if (fscanf(f, "%" SCNd64, &ns) == 1)
                        total += ns;
                fclose(f);
        }
        closedir(dir);
        return total;
}

static int64_t user_us(pid_t pid)
{
        char path[64], text[1024];
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "re");
        size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
        if (f)
                fclose(f);
        text[n] = '\0';
        /* proc(5): the name is in parentheses and may hold any byte; utime is field 14. */
        char *at = strrchr(text, ')');
        for (int field = 2; at && field < 14; field++)
                at = strchr(at + 1, ' ');
        return at ? strtoll(at, NULL, 10) * 1000000 / sysconf(_SC_CLK_TCK) : 0;
}

static struct cpu cpu_of(pid_t pid)
{
        struct cpu none = {0};
        return pid ? (struct cpu){threads_ns(pid), user_us(pid)} : none;
}

/* --- slices --------------------------------------------------------------------------------- */

/* Sums up what the lanes did, moves their latencies to the way, and prints the line. */
static void report_slice(struct run *run, struct lane *lanes, unsigned round)
{
        struct way *way = &run->ways[run->way];
        struct latencies took = {0};
        uint64_t in_time = 0, queries = 0, errors = 0;
        for (unsigned i = 0; i < run->n_lanes; i++) {
                struct lane *l = &lanes[i];
                in_time += l->in_time;
                queries += l->queries;
                errors += l->errors;
                latencies_add_all(&took, &l->took);
                latencies_add_all(&way->all, &l->took);
                l->in_time = l->queries = l->errors = l->took.n = 0;
        }
        latencies_sort(&took);
        printf("{\"round\":%u,\"way\":\"%s\",\"ops\":%" PRIu64
               ",\"seconds\":%.3f,\"queries\":%" PRIu64 ",\"transactions\":%zu,\"errors\":%" PRIu64
               ",\"p50_us\":%.1f",
               round, way->name, in_time, run->slice_ms / 1e3, queries, took.n, errors,
               latencies_us(&took, 50));
        latencies_release(&took);
}

static void slice(struct run *run, struct lane *lanes, unsigned round)
{
        pid_t pid = run->ways[run->way].pid;
        struct cpu way_a = cpu_of(pid), db_a = cpu_of(run->database_pid);
        run->deadline_ns = now_ns() + (int64_t)run->slice_ms * 1000000;
        pthread_barrier_wait(&run->begin);
        pthread_barrier_wait(&run->end);
        struct cpu way_b = cpu_of(pid), db_b = cpu_of(run->database_pid);
        report_slice(run, lanes, round);
        if (pid)
                printf(",\"way_us\":%.1f,\"way_user_us\":%" PRId64,
                       (double)(way_b.ns - way_a.ns) / 1e3, way_b.user_us - way_a.user_us);
        if (run->database_pid)
                printf(",\"database_us\":%.1f", (double)(db_b.ns - db_a.ns) / 1e3);
        printf("}\n");
}

static void rounds(struct run *run, struct lane *lanes)
{
        uint64_t random = (run->seed + 1) * 0xd1342543de82ef95u;
        size_t order[WAYS_MAX];
        for (size_t w = 0; w < run->n_ways; w++)
                order[w] = w;
        for (unsigned r = 0; r < run->rounds; r++) {
                for (size_t w = run->n_ways; w > 1; w--) {
                        size_t other = next_random(&random) % w, kept = order[w - 1];
                        order[w - 1] = order[other];
                        order[other] = kept;
                }
                for (size_t w = 0; w < run->n_ways; w++) {
                        run->way = order[w];
                        slice(run, lanes, r);
                }
        }
        run->is_over = true;
        pthread_barrier_wait(&run->begin);
}

static void report_ways(struct run *run)
{
        for (size_t w = 0; w < run->n_ways; w++) {
                struct latencies *all = &run->ways[w].all;
                latencies_sort(all);
                printf("{\"way\":\"%s\",\"transactions\":%zu,\"all_p50_us\":%.1f,"
                       "\"all_p95_us\":%.1f,\"all_p99_us\":%.1f}\n",
                       run->ways[w].name, all->n, latencies_us(all, 50), latencies_us(all, 95),
                       latencies_us(all, 99));
        }
}

/* --- options -------------------------------------------------------------------------------- */

static void add_way(struct run *run, const char *text)
{
        if (run->n_ways == WAYS_MAX)
                die("more than %d ways", WAYS_MAX);
        struct way *w = &run->ways[run->n_ways++];
        int pid = 0;
        if (sscanf(text, "%31[^:]:%u:%d", w->name, &w->port, &pid) < 2 || w->port > 65535)
                die("%s is not NAME:PORT[:PID]", text);
        w->pid = (pid_t)pid;
}

static const struct work *find_work(const char *name)
{
        for (size_t i = 0; i < N_WORKS; i++) {
                if (strcmp(works[i].name, name) == 0)
                        return &works[i];
        }
        die("%s is not point_select, read_only or read_write", name);
}

static void set_option(struct run *run, int opt)
{
        if (opt == 'w')
                add_way(run, optarg);
        else if (opt == 'W')
                run->work = find_work(optarg);
        else if (opt == 't')
                run->n_lanes = number_arg(optarg, 1, LANES_MAX);
        else if (opt == 'r')
                run->rounds = number_arg(optarg, 1, 100000);
        else if (opt == 'm')
                run->slice_ms = number_arg(optarg, 1, 60000);
        else if (opt == 'i')
                run->database_pid = (pid_t)number_arg(optarg, 1, 1u << 30);
        else if (opt == 'n')
                run->tables = number_arg(optarg, 1, 1000);
        else if (opt == 'R')
                run->rows = number_arg(optarg, RANGE_ROWS, 1u << 30);
        else if (opt == 'S')
                run->seed = number_arg(optarg, 0, 1u << 30);
        else if (opt == 'u')
                run->user = optarg;
        else if (opt == 'p')
                run->password = optarg;
        else if (opt == 'd')
                run->database = optarg;
        else
                exit(2);
}

static void parse_options(struct run *run, int argc, char **argv)
{
        static const struct option options[] = {
                {"way", required_argument, NULL, 'w'},
                {"work", required_argument, NULL, 'W'},
                {"threads", required_argument, NULL, 't'},
                {"rounds", required_argument, NULL, 'r'},
                {"slice-ms", required_argument, NULL, 'm'},
                {"database-pid", required_argument, NULL, 'i'},
                {"tables", required_argument, NULL, 'n'},
                {"rows", required_argument, NULL, 'R'},
                {"seed", required_argument, NULL, 'S'},
                {"user", required_argument, NULL, 'u'},
                {"password", required_argument, NULL, 'p'},
                {"database", required_argument, NULL, 'd'},
                {NULL, 0, NULL, 0},
        };
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
                set_option(run, opt);
        if (!run->n_ways || !run->work || optind != argc)
                die("--way and --work are needed, and nothing but options");
}

int main(int argc, char **argv)
{
        static struct run run = {.n_lanes = 1,
                                 .rounds = 30,
                                 .slice_ms = 200,
                                 .tables = 4,
                                 .rows = 100000,
                                 .user = "bench",
                                 .password = "bench",
                                 .database = "bench"};
        static struct lane lanes[LANES_MAX];
        parse_options(&run, argc, argv);
        if (mysql_library_init(0, NULL, NULL) != 0)
                die("out of memory");
        pthread_barrier_init(&run.begin, NULL, run.n_lanes + 1);
        pthread_barrier_init(&run.end, NULL, run.n_lanes + 1);
        for (unsigned i = 0; i < run.n_lanes; i++) {
                lane_open(&lanes[i], &run, i);
                int error = pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]);
                if (error)
                        die("no thread: %s", strerror(error));
        }
        rounds(&run, lanes);
        for (unsigned i = 0; i < run.n_lanes; i++)
                pthread_join(lanes[i].thread, NULL);
        report_ways(&run);
        return 0;
}
