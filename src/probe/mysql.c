/* MySQL and MariaDB.
 *
 * A tick is one SHOW GLOBAL STATUS for all metrics that come from it, and one query for each of
 * the others.  The session is told to end statements a little before our own deadline, so that a
 * query that hangs does not go on in the server after we gave up, and costs only its own metric:
 * that one then rests.  It is told to be read-only, and to give no more than a
 * few rows, whatever was asked.  Its time zone stays that of the server, in which a heartbeat may
 * be.
 *
 * Our own connection is one of the running threads while it asks, and is taken off. */
#include "probe/probe_int.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/shown.h"
#include "probe/cores.h"
#include "sql/mysql.h"

#define STATUS_PREFIX   "status:"
#define RATE_PREFIX     "rate:"
#define SQL_PREFIX      "sql:"
#define VARIABLES_EVERY (60 * NS_PER_S) /* settings of the server are read again */
/* Of any answer.  SHOW STATUS obeys it too, and gives up to six for a metric. */
#define ROWS_MAX    (6 * PROBE_METRICS_MAX)
#define AHEAD_MAX_S 1.0   /* a heartbeat may come from a clock that is ahead by so much */
#define OTHER_MAX_S 900.0 /* so fresh would it be in the other kind of time, if it were that */

struct my;

enum formula {
        PLAIN,      /* the status itself */
        LESS_ONE,   /* without our own connection */
        PER_SECOND, /* how fast it grows */
        PERCENT,    /* of the second */
        PERCENT_OF_CONNECTIONS,
        DIFFERENCE_PERCENT, /* first less second, of the third */
};

/* What comes from SHOW GLOBAL STATUS.  A metric may stand here more than once: servers differ, and
 * the first row of which all names are there is used. */
static const struct status_metric {
        const char *metric;
        enum formula formula;
        const char *names[3];
} status_metrics[] = {
        {"threads_running", LESS_ONE, {"Threads_running"}},
        {"threads_connected_percent", PERCENT_OF_CONNECTIONS, {"Threads_connected"}},
        {"row_lock_waits", PLAIN, {"Innodb_row_lock_current_waits"}},
        {"buffer_pool_wait_free", PER_SECOND, {"Innodb_buffer_pool_wait_free"}},
        {"buffer_pool_dirty_percent",
         PERCENT,
         {"Innodb_buffer_pool_pages_dirty", "Innodb_buffer_pool_pages_total"}},
        {"redo_percent", PERCENT, {"Innodb_checkpoint_age", "Innodb_checkpoint_max_age"}},
        {"redo_percent",
         DIFFERENCE_PERCENT,
         {"Innodb_redo_log_current_lsn", "Innodb_redo_log_checkpoint_lsn",
          "Innodb_redo_log_capacity_resized"}},
        {"history_list_length", PLAIN, {"Innodb_history_list_length"}},
};

static const char history_sql[] =
        "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'";

/* How a metric is asked for. */
struct plan {
        bool is_lag;
        const char *sql;    /* NULL: by status */
        const char *status; /* of status: and rate: */
        enum formula formula;
        struct rest rest;
        struct reading why; /* it rests */
        double last;        /* PER_SECOND */
        int64_t last_ns;    /* 0: not seen yet */
};

struct my {
        const struct probe_options *options;
        struct sql_login login; /* the options own its strings */
        bool is_replica;
        struct mysql_conn *conn;
        const char *where; /* the connection's */
        struct plan plans[PROBE_METRICS_MAX];
        struct buf status_sql; /* empty: no metric needs it */
        struct buf lag_sql;    /* of the heartbeat table */
        bool is_old_words;     /* it knows SHOW SLAVE STATUS only */
        double max_connections;
        int64_t variables_ns; /* when they were read */
        unsigned cores;       /* of the server; 0: not known */
        bool wants_cores;     /* they have not been asked for since it connected */
        bool is_cores_fatal;  /* the last time the connection was lost by it: not asked any more */
};

/* ---- one statement ---- */

static int run(struct my *m, const char *sql, const struct sql_wait *w, struct mysql_result *ret,
               struct problem *problem)
{
        return mysql_conn_run(m->conn, slice_str(sql), w, ret, problem);
}

/* The connection is closed. */
static bool is_dead(int err)
{
        return is_silence(err) || err == ERR_TOOBIG;
}

/* What a statement failed by becomes a reading.  ERR_UNAVAIL is no answer either: the server gave
 * up, and what it would have said is unknown. */
static int fail_by(const struct my *m, int err, const struct problem *problem, struct reading *ret)
{
        reading_fail(ret, "%s: %s", m->where, problem->detail);
        ret->is_silent = is_silence(err) || err == ERR_UNAVAIL;
        return is_dead(err) ? err : OK;
}

/* One value: exactly one row of one column.  What is wrong is in the reading; an error returned
 * means that the connection cannot be used any more. */
static int ask_value(struct my *m, const char *sql, const struct sql_wait *w, struct reading *ret,
                     int *ret_err)
{
        CLEANUP(mysql_result_release) struct mysql_result rows = {0};
        struct problem problem = {0};
        struct slice cell;
        int r = run(m, sql, w, &rows, &problem);
        *ret_err = r;
        if (r != OK)
                return fail_by(m, r, &problem, ret);
        if (rows.n_rows == 0)
                reading_fail(ret, "the query gives no row");
        else if (rows.n_rows > 1 || rows.n_columns > 1)
                reading_fail(ret, "the query gives %s, not one value",
                             rows.n_rows > 1 ? "more than one row" : "more than one column");
        else if (mysql_result_next(&rows, &cell, 1) && cell.ptr)
                reading_set_text(ret, cell.ptr, cell.len);
        else
                reading_fail(ret, "the value is NULL, not a number");
        return OK;
}

/* ---- lag ---- */

static const char *find_cell(const struct mysql_result *rows, const struct slice *cells,
                             const char *name, const char *old_name)
{
        int i = mysql_result_column(rows, name);
        if (i < 0)
                i = mysql_result_column(rows, old_name);
        return i < 0 ? NULL : cells[i].ptr;
}

/* The worst of the channels of one replica. */
static void read_replica_status(const struct my *m, struct mysql_result *rows, struct reading *ret)
{
        struct slice cells[MYSQL_COLUMNS_MAX];
        double worst = -1;
        while (mysql_result_next(rows, cells, ARRAY_LEN(cells))) {
                const char *lag =
                        find_cell(rows, cells, "Seconds_Behind_Source", "Seconds_Behind_Master");
                const char *io = find_cell(rows, cells, "Replica_IO_Running", "Slave_IO_Running");
                const char *sql =
                        find_cell(rows, cells, "Replica_SQL_Running", "Slave_SQL_Running");
                const char *io_why = find_cell(rows, cells, "Last_IO_Error", "Last_IO_Error");
                const char *sql_why = find_cell(rows, cells, "Last_SQL_Error", "Last_SQL_Error");
                const char *why = sql_why && *sql_why ? sql_why : io_why;
                if (!lag) {
                        reading_fail(ret, "%s: replication is stopped (io %s, sql %s)%s%s",
                                     m->where, io ? io : "?", sql ? sql : "?",
                                     why && *why ? ": " : "", why && *why ? why : "");
                        return;
                }
                reading_set_text(ret, lag, strlen(lag));
                if (ret->is_error)
                        return;
                worst = ret->value > worst ? ret->value : worst;
        }
        if (worst < 0)
                reading_fail(ret, "%s: is not a replica", m->where);
        else
                reading_set(ret, worst);
}

static int ask_replica_status(struct my *m, const struct sql_wait *w, struct reading *ret,
                              int *ret_err)
{
        CLEANUP(mysql_result_release) struct mysql_result rows = {0};
        struct problem problem = {0};
        int r = OK;
        if (!m->is_old_words) {
                r = run(m, "SHOW REPLICA STATUS", w, &rows, &problem);
                /* Before MySQL 8.0.22 and MariaDB 10.5. */
                m->is_old_words = mysql_conn_errno(m->conn) == ER_PARSE_ERROR;
        }
        if (m->is_old_words)
                r = run(m, "SHOW SLAVE STATUS", w, &rows, &problem);
        *ret_err = r;
        if (r != OK)
                return fail_by(m, r, &problem, ret);
        read_replica_status(m, &rows, ret);
        return OK;
}

/* Both kinds of heartbeat look alike: a row in UTC and one in the time of the server.  Taken for
 * the other it is off by the time zone, which is seen only when that makes it lie ahead: then it is
 * an error.  Behind, it could be a real lag; it counts, with a remark. */
static void judge_heartbeat(const struct my *m, double lag_s, double zone_s, struct reading *ret)
{
        bool is_utc = m->options->is_heartbeat_utc;
        double other_s = is_utc ? lag_s + zone_s : lag_s - zone_s; /* with the setting changed */
        bool is_other = zone_s != 0 && other_s >= -AHEAD_MAX_S && other_s < OTHER_MAX_S;
        const char *hint = is_utc ? "heartbeat_utc = false" : "heartbeat_utc = true";
        if (lag_s < -AHEAD_MAX_S) {
                reading_fail(
                        ret, "%s: the heartbeat is %.0f s ahead of the clock of this server%s%s",
                        m->where, -lag_s, is_other ? "; it may need " : "", is_other ? hint : "");
                return;
        }
        reading_set(ret, lag_s > 0 ? lag_s : 0); /* its clock is a little behind the writer's */
        if (is_other && other_s < lag_s)
                reading_remark(ret, "%s: if it is the time zone that makes the lag, it needs %s",
                               m->where, hint);
}

static void read_heartbeat(const struct my *m, struct mysql_result *rows, struct reading *ret)
{
        struct reading zone;
        struct slice cells[2];
        if (!mysql_result_next(rows, cells, 2) || !cells[0].ptr || !cells[1].ptr) {
                reading_fail(ret, "%s: the heartbeat table %s is empty or has no time in ts",
                             m->where, SHOWN_STR(m->options->heartbeat_table));
                return;
        }
        reading_set_text(ret, cells[0].ptr, cells[0].len);
        reading_set_text(&zone, cells[1].ptr, cells[1].len);
        if (!ret->is_error && !zone.is_error)
                judge_heartbeat(m, ret->value, zone.value, ret);
}

static int ask_heartbeat(struct my *m, const struct sql_wait *w, struct reading *ret, int *ret_err)
{
        CLEANUP(mysql_result_release) struct mysql_result rows = {0};
        struct problem problem = {0};
        int r = run(m, buf_cstr(&m->lag_sql), w, &rows, &problem);
        *ret_err = r;
        if (r != OK)
                return fail_by(m, r, &problem, ret);
        read_heartbeat(m, &rows, ret);
        return OK;
}

/* As ask_value(). */
static int ask_lag(struct my *m, const struct sql_wait *w, struct reading *ret, int *ret_err)
{
        return m->lag_sql.len ? ask_heartbeat(m, w, ret, ret_err)
                              : ask_replica_status(m, w, ret, ret_err);
}

/* ---- status ---- */

struct status_row {
        const char *name, *value;
};

static const char *find_status(const struct status_row *rows, size_t n, const char *name)
{
        for (size_t i = 0; name && i < n; i++)
                if (strcasecmp(rows[i].name, name) == 0)
                        return rows[i].value;
        return NULL;
}

static void apply_formula(const struct my *m, struct plan *plan, enum formula formula,
                          const double *v, struct reading *ret)
{
        int64_t now_ns = clock_boot_ns();
        double of = 0, part = v[0];
        if (formula == PERCENT)
                of = v[1];
        if (formula == PERCENT_OF_CONNECTIONS)
                of = m->max_connections;
        if (formula == DIFFERENCE_PERCENT) {
                of = v[2];
                part = v[0] - v[1];
        }
        switch (formula) {
        case PLAIN:
                reading_set(ret, v[0]);
                break;
        case LESS_ONE:
                reading_set(ret, v[0] > 1 ? v[0] - 1 : 0);
                break;
        case PER_SECOND:
                /* Once more after a restart of the server, which counts from 0 again. */
                if (plan->last_ns && v[0] >= plan->last && now_ns > plan->last_ns)
                        reading_set(ret, (v[0] - plan->last) * (double)NS_PER_S /
                                                 (double)(now_ns - plan->last_ns));
                plan->last = v[0];
                plan->last_ns = now_ns;
                break;
        case PERCENT:
        case PERCENT_OF_CONNECTIONS:
        case DIFFERENCE_PERCENT:
                if (of > 0)
                        reading_set(ret, 100 * part / of);
                else
                        reading_fail(ret, "the server gives 0 to take percents of");
                break;
        }
}

/* False when one of the names is not there. */
static bool read_statuses(const struct status_row *rows, size_t n, const char *const *names,
                          double *ret_values, struct reading *ret)
{
        for (size_t i = 0; i < 3 && names[i]; i++) {
                const char *text = find_status(rows, n, names[i]);
                if (!text)
                        return false;
                struct reading one;
                reading_set_text(&one, text, strlen(text));
                if (one.is_error) {
                        *ret = one;
                        return true;
                }
                ret_values[i] = one.value;
        }
        return true;
}

static void read_metric(struct my *m, size_t i, const struct status_row *rows, size_t n,
                        struct reading *ret)
{
        struct plan *plan = &m->plans[i];
        const char *source = metric_source(&m->options->metrics[i]);
        double values[3] = {0};
        if (plan->status) {
                const char *const names[3] = {plan->status};
                if (!read_statuses(rows, n, names, values, ret))
                        reading_fail(ret, "the server has no status '%s'", plan->status);
                else if (!ret->is_error)
                        apply_formula(m, plan, plan->formula, values, ret);
                return;
        }
        for (size_t k = 0; k < ARRAY_LEN(status_metrics); k++) {
                const struct status_metric *s = &status_metrics[k];
                if (strcmp(s->metric, source) != 0 ||
                    !read_statuses(rows, n, s->names, values, ret))
                        continue;
                if (!ret->is_error)
                        apply_formula(m, plan, s->formula, values, ret);
                return;
        }
        if (strcmp(source, "history_list_length") == 0)
                plan->sql =
                        history_sql; /* MySQL tells it elsewhere; asked below, and from now on */
        else
                reading_fail(ret, "this server does not tell %s", source);
}

static int ask_statuses(struct my *m, const struct sql_wait *w, struct reading *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result result = {0};
        struct problem problem = {0};
        struct status_row rows[ROWS_MAX];
        struct slice cells[2];
        size_t n = 0;
        if (!m->status_sql.len)
                return OK;
        int r = run(m, buf_cstr(&m->status_sql), w, &result, &problem);
        while (r == OK && n < ARRAY_LEN(rows) && mysql_result_next(&result, cells, 2))
                if (cells[0].ptr && cells[1].ptr)
                        rows[n++] = (struct status_row){cells[0].ptr, cells[1].ptr};
        for (size_t i = 0; i < m->options->n_metrics; i++) {
                if (m->plans[i].sql || m->plans[i].is_lag)
                        continue;
                if (r == OK)
                        read_metric(m, i, rows, n, &ret[i]);
                else
                        (void)fail_by(m, r, &problem, &ret[i]);
        }
        return is_dead(r) ? r : OK;
}

/* ---- a tick ---- */

/* A metric of its own query, unless it rests.  ERR_UNAVAIL: the server ended it for its time; the
 * connection is good, and what is left of the tick is too little for another. */
static int ask_own(struct my *m, struct plan *plan, const struct sql_wait *w, struct reading *ret)
{
        int err = OK;
        if (!rest_is_over(&plan->rest, clock_boot_ns())) {
                *ret = plan->why;
                return OK;
        }
        int r = plan->is_lag ? ask_lag(m, w, ret, &err) : ask_value(m, plan->sql, w, ret, &err);
        if (err == ERR_UNAVAIL || r == ERR_TIMEOUT || r == ERR_TOOBIG) {
                plan->why = *ret;
                rest_begin(&plan->rest, clock_boot_ns());
        } else {
                plan->rest = (struct rest){0};
        }
        return err == ERR_UNAVAIL ? err : r;
}

/* Those that took too long when they were last asked come last: the others need their time. */
static int ask_all_own(struct my *m, const struct sql_wait *w, struct reading *ret,
                       struct problem *problem)
{
        for (int pass = 0; pass < 2; pass++) {
                for (size_t i = 0; i < m->options->n_metrics; i++) {
                        struct plan *plan = &m->plans[i];
                        if ((!plan->sql && !plan->is_lag) || rest_is_on(&plan->rest) != (pass == 1))
                                continue;
                        if (plan->is_lag && m->options->n_replicas)
                                continue; /* they are asked themselves */
                        int r = ask_own(m, plan, w, &ret[i]);
                        if (r == ERR_UNAVAIL)
                                return OK; /* the others are asked at the next tick */
                        if (r != OK)
                                return problem_set(problem, r, "%s", ret[i].text);
                }
        }
        return OK;
}

static int read_variables(struct my *m, const struct sql_wait *w, struct problem *problem)
{
        struct reading max;
        int err;
        if (m->variables_ns && clock_boot_ns() - m->variables_ns < VARIABLES_EVERY)
                return OK;
        int r = ask_value(m, "SELECT @@global.max_connections", w, &max, &err);
        if (r != OK)
                return problem_set(problem, r, "%s", max.text);
        m->max_connections = max.is_error ? 0 : max.value;
        m->variables_ns = clock_boot_ns();
        return OK;
}

/* MariaDB's thread_pool_size is the number of processors unless it was configured; MySQL names the
 * processors of its resource groups.  A server that tells neither has the thresholds of a small
 * one, so no refusal matters here. */
static int ask_cores(struct my *m, const struct sql_wait *w, struct problem *problem)
{
        CLEANUP(mysql_result_release) struct mysql_result rows = {0};
        struct problem why = {0};
        struct slice cell;
        bool is_mariadb;
        if (!m->wants_cores)
                return OK;
        m->wants_cores = false;
        (void)mysql_conn_version(m->conn, &is_mariadb); /* only which of the two it is */
        int r = run(m,
                    is_mariadb ? "SELECT @@global.thread_pool_size"
                               : "SELECT VCPU_IDS FROM information_schema.RESOURCE_GROUPS "
                                 "WHERE RESOURCE_GROUP_NAME = 'SYS_default'",
                    w, &rows, &why);
        m->is_cores_fatal = is_dead(r);
        if (r == OK && rows.n_columns == 1 && mysql_result_next(&rows, &cell, 1) && cell.ptr)
                m->cores = cores_read(cell, is_mariadb ? CORES_NUMBER : CORES_LIST);
        return is_dead(r) ? problem_set(problem, r, "%s: %s", m->where, why.detail) : OK;
}

/* Metrics that were not reached, because the connection broke before. */
static void fail_rest(const struct my *m, struct reading *ret, const char *why)
{
        for (size_t i = 0; i < m->options->n_metrics; i++) {
                if (!ret[i].is_skipped)
                        continue;
                reading_fail(&ret[i], "%s", why);
                ret[i].is_silent = true;
        }
}

static int my_sample(void *self, const struct sql_wait *w, struct reading *ret)
{
        struct my *m = self;
        struct problem problem = {0};
        int unused;
        if (m->is_replica)
                return ask_lag(m, w, ret, &unused);
        int r = read_variables(m, w, &problem);
        if (r == OK)
                r = ask_cores(m, w, &problem);
        if (r == OK) {
                r = ask_statuses(m, w, ret);
                (void)problem_set(&problem, ERR_UNAVAIL, "%s: the connection was lost", m->where);
        }
        if (r == OK)
                r = ask_all_own(m, w, ret, &problem);
        if (r != OK)
                fail_rest(m, ret, problem.detail);
        return r;
}

/* ---- connecting ---- */

static void my_disconnect(void *self)
{
        struct my *m = self;
        mysql_conn_disconnect(m->conn);
}

static int set_up_session(struct my *m, const struct sql_wait *w, struct problem *problem)
{
        char sql[256];
        CLEANUP(mysql_result_release) struct mysql_result none = {0};
        double seconds = (double)m->options->timeout_ms * 0.9 / MS_PER_S;
        bool is_mariadb;
        (void)mysql_conn_version(m->conn, &is_mariadb); /* only which of the two it is */
        if (is_mariadb)
                (void)snprintf(sql, sizeof(sql),
                               "SET SESSION max_statement_time=%.3f, sql_select_limit=%d, "
                               "tx_read_only=1",
                               seconds, ROWS_MAX);
        else
                (void)snprintf(sql, sizeof(sql),
                               "SET SESSION max_execution_time=%.0f, sql_select_limit=%d, "
                               "transaction_read_only=1",
                               seconds * MS_PER_S, ROWS_MAX);
        int r = run(m, sql, w, &none, problem);
        /* A server that does not know these settings is watched without them. */
        return is_dead(r) ? r : OK;
}

/* Only the default thresholds of running statements follow the processors. */
static bool has_running(const struct my *m)
{
        for (size_t i = 0; i < m->options->n_metrics; i++)
                if (strcmp(metric_source(&m->options->metrics[i]), "threads_running") == 0)
                        return true;
        return false;
}

static int my_connect(void *self, const struct sql_wait *w, struct problem *problem)
{
        struct my *m = self;
        m->variables_ns = 0;
        m->is_old_words = false; /* it may have been replaced by a newer one */
        m->wants_cores = has_running(m) && !m->is_cores_fatal;
        int r = mysql_conn_dial(m->conn, w, problem);
        return r == OK ? set_up_session(m, w, problem) : r;
}

/* ---- open and close ---- */

static bool has_prefix(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_status_name(const char *name)
{
        return *name && name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789_")] == '\0';
}

static int my_check(const char *source, struct problem *problem)
{
        if (strcmp(source, "replication_lag") == 0)
                return OK;
        for (size_t i = 0; i < ARRAY_LEN(status_metrics); i++)
                if (strcmp(source, status_metrics[i].metric) == 0)
                        return OK;
        if (has_prefix(source, STATUS_PREFIX) && is_status_name(source + strlen(STATUS_PREFIX)))
                return OK;
        if (has_prefix(source, RATE_PREFIX) && is_status_name(source + strlen(RATE_PREFIX)))
                return OK;
        if (has_prefix(source, SQL_PREFIX) && sql_is_query(source + strlen(SQL_PREFIX)))
                return OK;
        return problem_set(problem, ERR_BADARG,
                           "mysql has threads_running, threads_connected_percent, "
                           "replication_lag, history_list_length, row_lock_waits, "
                           "buffer_pool_wait_free, buffer_pool_dirty_percent, redo_percent, "
                           "status:NAME, rate:NAME and sql:SELECT ..., not '%s'",
                           SHOWN_MAX(slice_str(source), 60));
}

static void want_status(struct my *m, const char *name)
{
        if (!m->status_sql.len)
                buf_put_str(&m->status_sql, "SHOW GLOBAL STATUS WHERE Variable_name IN (");
        else
                buf_put_byte(&m->status_sql, ',');
        buf_printf(&m->status_sql, "'%s'", name);
}

static void make_plan(struct my *m, size_t i)
{
        const char *source = metric_source(&m->options->metrics[i]);
        struct plan *plan = &m->plans[i];
        if (has_prefix(source, SQL_PREFIX)) {
                plan->sql = source + strlen(SQL_PREFIX);
        } else if (has_prefix(source, STATUS_PREFIX)) {
                plan->status = source + strlen(STATUS_PREFIX);
        } else if (has_prefix(source, RATE_PREFIX)) {
                plan->status = source + strlen(RATE_PREFIX);
                plan->formula = PER_SECOND;
        } else if (strcmp(source, "replication_lag") == 0) {
                plan->is_lag = true;
        }
        if (plan->status)
                want_status(m, plan->status);
        for (size_t k = 0; !plan->status && k < ARRAY_LEN(status_metrics); k++)
                for (size_t j = 0; strcmp(status_metrics[k].metric, source) == 0 && j < 3; j++)
                        if (status_metrics[k].names[j])
                                want_status(m, status_metrics[k].names[j]);
}

static const char *my_tls(void *self)
{
        const struct my *m = self;
        return mysql_conn_tls(m->conn);
}

static unsigned my_cores(void *self)
{
        const struct my *m = self;
        return m->cores;
}

static void *my_open(const struct probe_options *o, const struct sql_server *server,
                     bool is_replica)
{
        struct my *m = xcalloc(1, sizeof(*m));
        m->options = o;
        m->login = (struct sql_login){*server, o->user, o->password, o->database, o->tls};
        m->is_replica = is_replica;
        m->conn = mysql_conn_new(&m->login);
        m->where = mysql_conn_where(m->conn);
        buf_init(&m->status_sql, 0);
        buf_init(&m->lag_sql, 0);
        for (size_t i = 0; !is_replica && i < o->n_metrics; i++)
                make_plan(m, i);
        if (m->status_sql.len)
                buf_put_byte(&m->status_sql, ')');
        if (o->heartbeat_table)
                buf_printf(&m->lag_sql,
                           "SELECT TIMESTAMPDIFF(MICROSECOND, MAX(ts), %s) / 1000000, "
                           "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), NOW(6)) FROM %s",
                           o->is_heartbeat_utc ? "UTC_TIMESTAMP(6)" : "NOW(6)", o->heartbeat_table);
        return m;
}

static void my_close(void *self)
{
        struct my *m = self;
        m->conn = mysql_conn_free(m->conn);
        buf_release(&m->status_sql);
        buf_release(&m->lag_sql);
        free(m);
}

const struct prober_ops mysql_prober = {
        .check = my_check,
        .open = my_open,
        .close = my_close,
        .connect = my_connect,
        .disconnect = my_disconnect,
        .tls = my_tls,
        .cores = my_cores,
        .sample = my_sample,
};
