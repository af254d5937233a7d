/* The connection of one site: session, what the site was found to be, privileges, statements.
 *
 * The version of Action Scheduler is not in the database.  So a site is what its tables, columns
 * and indexes say, and the options tell the schema and whether the actions have left the posts.
 * Indexes are found by their columns: statements force them, because the optimizer of either server
 * takes others when many actions are due, and then reads all of them.
 *
 * Privileges are asked for with EXPLAIN: it needs those of the statement and changes nothing, and
 * roles, wildcards and column privileges are the server's to weigh.  Only those that every cycle of
 * a mode needs must be there; repairs and locks tell of theirs when they are refused. */
#include "guard/store.h"

#include <stdio.h>

#include "base/civil.h"
#include "base/clock.h"
#include "base/shown.h"

#define DATE_MAX_S 253402300799 /* 9999-12-31 23:59:59: the last one that a column holds */
/* The server ends a statement so long after weir stopped waiting for it. */
#define GRACE_MS     500
#define PREFIXES_MAX 5 /* shown when the tables are missing */

enum table { ACTIONS, CLAIMS, GROUPS, LOGS, OPTIONS, TABLES };
static const char *const table_names[] = {"actionscheduler_actions", "actionscheduler_claims",
                                          "actionscheduler_groups", "actionscheduler_logs",
                                          "options"};

static const char *quoted(const struct store *s, enum table table)
{
        const char *const names[] = {s->actions, s->claims, s->groups, s->logs, s->wp_options};
        return names[table];
}

/* What the site's user may be asked to have, in the order of the tables. */
static const struct right {
        enum table table;
        const char *privilege;  /* as in a GRANT */
        enum gate_mode from;    /* the least mode that uses it */
        bool is_needed;         /* by every cycle; else by repairs or locks only */
        const char *verb, *end; /* a statement that needs it, around the name of the table */
} rights[] = {
        {ACTIONS, "SELECT", MODE_TEST_OBSERVE, true, "SELECT 1 FROM ", " LIMIT 0"},
        {ACTIONS, "UPDATE (scheduled_date_gmt, scheduled_date_local, claim_id, status)",
         MODE_ENFORCE, true, "UPDATE ",
         " SET scheduled_date_gmt = NULL, scheduled_date_local = NULL, claim_id = 0, status = ''"
         " WHERE action_id = 0"},
        {ACTIONS, "UPDATE (priority)", MODE_ENFORCE, false, "UPDATE ",
         " SET priority = 0 WHERE action_id = 0"},
        {ACTIONS, "DELETE", MODE_ENFORCE, false, "DELETE FROM ", " WHERE action_id = 0"},
        {CLAIMS, "SELECT", MODE_TEST_OBSERVE, true, "SELECT 1 FROM ", " LIMIT 0"},
        {CLAIMS, "DELETE", MODE_ENFORCE, false, "DELETE FROM ", " WHERE claim_id = 0"},
        {GROUPS, "SELECT", MODE_TEST_OBSERVE, true, "SELECT 1 FROM ", " LIMIT 0"},
        {LOGS, "SELECT", MODE_TEST_OBSERVE, true, "SELECT 1 FROM ", " LIMIT 0"},
        {LOGS, "INSERT", MODE_ENFORCE, true, "INSERT INTO ",
         " (action_id, message, log_date_gmt, log_date_local) VALUES (0, '', NULL, NULL)"},
        {LOGS, "DELETE", MODE_ENFORCE, false, "DELETE FROM ", " WHERE log_id = 0"},
        {OPTIONS, "SELECT", MODE_TEST_OBSERVE, true, "SELECT 1 FROM ", " LIMIT 0"},
        {OPTIONS, "INSERT", MODE_ENFORCE, false, "INSERT INTO ",
         " (option_name, option_value, autoload) VALUES ('', '', 'no')"},
        {OPTIONS, "UPDATE", MODE_ENFORCE, false, "UPDATE ",
         " SET option_value = '' WHERE option_name = ''"},
};

/* ---- life ---- */

/* A name that does not fit stays empty. */
static void copy_quoted(struct slice name, char ret[STORE_NAME_MAX])
{
        struct buf b CLEANUP(buf_release) = {0};
        mysql_put_name(&b, name);
        ret[0] = '\0';
        if (b.len < STORE_NAME_MAX)
                (void)snprintf(ret, STORE_NAME_MAX, "%s", buf_cstr(&b));
}

void store_init(struct store *s, const struct store_options *options, int stop_fd)
{
        *s = (struct store){.options = options, .stop_fd = stop_fd, .rows_at_once = SITE_ROWS_MAX};
        char *const names[] = {s->actions, s->claims, s->groups, s->logs, s->wp_options};
        s->conn = mysql_conn_new(&options->login);
        rng_init_system(&s->rng);
        for (size_t i = 0; i < TABLES; i++) {
                char name[STORE_NAME_MAX];
                (void)snprintf(name, sizeof(name), "%s%s", options->prefix, table_names[i]);
                copy_quoted(slice_str(name), names[i]);
        }
}

void store_release(struct store *s)
{
        s->conn = mysql_conn_free(s->conn);
        buf_release(&s->sql);
}

void store_close(struct store *s)
{
        mysql_conn_disconnect(s->conn);
        s->is_known = false;
}

/* ---- grants ---- */

void store_put_grant(const struct store *s, const char *privileges, const char *table,
                     struct buf *ret)
{
        const struct sql_login *l = &s->options->login;
        buf_printf(ret, "GRANT %s ON ", privileges);
        mysql_put_name(ret, slice_str(l->database ? l->database : ""));
        buf_printf(ret, ".%s TO ", table);
        if (s->facts.account[0]) {
                buf_put_str(ret, s->facts.account);
                return;
        }
        mysql_put_text(ret, slice_str(l->user ? l->user : ""));
        buf_put_str(ret, "@'%'");
}

static void put_grant(const struct store *s, const char *privileges, enum table table,
                      struct buf *ret)
{
        store_put_grant(s, privileges, quoted(s, table), ret);
}

/* A column that Action Scheduler has since 3.6. */
static bool is_of_priority(const struct right *r)
{
        return strstr(r->privilege, "(priority)") != NULL;
}

static bool uses_right(const struct store *s, const struct right *r, enum gate_mode mode)
{
        bool has_column = s->facts.has_priority || !s->is_known;
        return mode >= r->from && (has_column || !is_of_priority(r));
}

void store_put_grants(const struct store *s, enum gate_mode mode, struct buf *ret)
{
        for (enum table t = 0; t < TABLES; t++) {
                struct buf words CLEANUP(buf_release) = {0};
                for (size_t i = 0; i < ARRAY_LEN(rights); i++)
                        if (rights[i].table == t && uses_right(s, &rights[i], mode))
                                buf_printf(&words, "%s%s", words.len ? ", " : "",
                                           rights[i].privilege);
                if (!words.len)
                        continue;
                put_grant(s, buf_cstr(&words), t, ret);
                buf_put_str(ret, ";\n");
        }
}

/* "a privilege is missing: UPDATE command denied to user 'weir'@'h' for table `shop`.`wp_x`" */
static int name_grant(const struct store *s, struct problem *problem)
{
        static const char before[] = ": ", after[] = " command denied";
        const char *begin = strstr(problem->detail, before), *end = strstr(problem->detail, after);
        struct buf grant CLEANUP(buf_release) = {0};
        if (!begin || !end || begin > end)
                return ERR_FORBIDDEN;
        struct slice words = {begin + strlen(before), (size_t)(end - begin) - strlen(before)};
        for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
                const struct right *r = &rights[i];
                char table[STORE_NAME_MAX];
                (void)snprintf(table, sizeof(table), "%s%s", s->options->prefix,
                               table_names[r->table]);
                if (!strstr(end, table) || !strstr(end, "'priority'") == is_of_priority(r) ||
                    strncmp(r->privilege, words.ptr, strcspn(words.ptr, ", ")) != 0)
                        continue;
                bool is_one = !slice_contains(words, SLICE_LIT(","));
                struct buf asked CLEANUP(buf_release) = {0};
                buf_put_slice(&asked, is_one ? slice_str(r->privilege) : words);
                put_grant(s, buf_cstr(&asked), r->table, &grant);
                return problem_set(problem, ERR_FORBIDDEN, "a privilege is missing; run: %s",
                                   buf_cstr(&grant));
        }
        return ERR_FORBIDDEN;
}

/* ---- statements ---- */

int store_run(struct store *s, struct mysql_result *ret, struct problem *problem)
{
        struct problem own;
        struct problem *p = problem ? problem : &own;
        const struct sql_wait w = {.stop_fd = s->stop_fd,
                                   .deadline_ns =
                                           clock_boot_ns() + s->options->timeout_ms * NS_PER_MS,
                                   .timeout_ms = s->options->timeout_ms};
        bool failed = s->sql.failed;
        int r = failed ? problem_set(p, ERR_NOMEM, "no memory is left for a statement")
                       : mysql_conn_run(s->conn, buf_slice(&s->sql), &w, ret, p);
        buf_clear(&s->sql);
        s->n_statements++;
        if (!mysql_conn_is_open(s->conn))
                s->is_known = false;
        return r == ERR_FORBIDDEN ? name_grant(s, p) : r;
}

/* Runs s->sql, which answers nothing that matters. */
static int run_only(struct store *s, struct problem *problem)
{
        struct mysql_result none CLEANUP(mysql_result_release) = {0};
        return store_run(s, &none, problem);
}

int store_now(struct store *s, int64_t *ret_now_s, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell = SLICE_NONE;
        buf_put_str(&s->sql, "SELECT UNIX_TIMESTAMP()");
        int r = store_run(s, &rows, problem);
        if (r != OK)
                return r;
        if (!mysql_result_next(&rows, &cell, 1) || !slice_to_i64(cell, ret_now_s))
                return problem_set(problem, ERR_BADARG, "the database does not tell its time");
        return OK;
}

void store_put_date(struct buf *sql, int64_t unix_s)
{
        if (unix_s < 0)
                unix_s = 0;
        if (unix_s > DATE_MAX_S)
                unix_s = DATE_MAX_S;
        struct civil day = civil_from_days(unix_s / CIVIL_S_PER_DAY);
        int left = (int)(unix_s % CIVIL_S_PER_DAY);
        buf_printf(sql, "'%04d-%02d-%02d %02d:%02d:%02d'", (int)day.year, day.month, day.day,
                   left / 3600, left / 60 % 60, left % 60);
}

/* ---- the session ---- */

static int is_logged_by_statement(struct store *s, bool *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[2];
        bool is_on = false, is_statement = false;
        buf_put_str(&s->sql, "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format')");
        int r = store_run(s, &rows, problem);
        while (r == OK && mysql_result_next(&rows, cells, 2)) {
                is_on = is_on || slice_eq_nocase(cells[1], SLICE_LIT("ON"));
                is_statement = is_statement || slice_eq_nocase(cells[1], SLICE_LIT("STATEMENT"));
        }
        *ret = is_on && is_statement;
        return r;
}

static int set_session(struct store *s, struct problem *problem)
{
        int64_t limit_ms = s->options->timeout_ms + GRACE_MS;
        bool is_by_statement;
        /* 0 is NOWAIT, and MySQL's least is 1.  A lock on the whole table (ALTER TABLE) is waited
         * for as shortly as both allow. */
        if (s->facts.is_mariadb)
                buf_printf(&s->sql,
                           "SET SESSION innodb_lock_wait_timeout = 0, lock_wait_timeout = 1, "
                           "max_statement_time = %lld.%03lld",
                           (long long)(limit_ms / MS_PER_S), (long long)(limit_ms % MS_PER_S));
        else
                buf_printf(&s->sql,
                           "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, "
                           "max_execution_time = %lld",
                           (long long)limit_ms);
        int r = run_only(s, problem);
        if (r != OK)
                return r;
        r = is_logged_by_statement(s, &is_by_statement, problem);
        if (r != OK || is_by_statement)
                return r; /* the server refuses writes at the other isolation level */
        /* Not REPEATABLE READ, the default: an UPDATE would keep the locks of rows that its
         * conditions leave out, and lock the gap where an action was deleted, until it ends. */
        buf_put_str(&s->sql, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
        return run_only(s, problem);
}

/* "10.11.19-MariaDB-0+deb12u1" */
static void note_server(struct store *s)
{
        struct store_facts *f = &s->facts;
        const char *version = mysql_conn_version(s->conn, &f->is_mariadb);
        (void)snprintf(f->server, sizeof(f->server), "%s %.*s", f->is_mariadb ? "MariaDB" : "MySQL",
                       (int)strcspn(version, "-"), version);
}

static int read_account(struct store *s, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct buf account CLEANUP(buf_release) = {0};
        struct slice cell;
        buf_put_str(&s->sql, "SELECT CURRENT_USER()");
        int r = store_run(s, &rows, problem);
        if (r != OK || !mysql_result_next(&rows, &cell, 1) || !cell.ptr)
                return r;
        const char *at = memrchr(cell.ptr, '@', cell.len);
        if (!at)
                return OK;
        size_t len = (size_t)(at - cell.ptr);
        mysql_put_text(&account, slice_make(cell.ptr, len));
        buf_put_byte(&account, '@');
        mysql_put_text(&account, slice_make(at + 1, cell.len - len - 1));
        (void)snprintf(s->facts.account, sizeof(s->facts.account), "%s", buf_cstr(&account));
        return OK;
}

/* ---- what the site is ---- */

/* The prefixes under which this user sees tables of Action Scheduler here, and whether its own is
 * one. */
static int find_prefixes(struct store *s, struct buf *ret, bool *ret_has_own,
                         struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        size_t n = 0, tail = strlen(table_names[ACTIONS]);
        buf_put_str(&s->sql, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA ="
                             " DATABASE() AND TABLE_NAME LIKE '%actionscheduler\\_actions'"
                             " ORDER BY TABLE_NAME LIMIT 6");
        int r = store_run(s, &rows, problem);
        if (r != OK)
                return r;
        for (; mysql_result_next(&rows, &cell, 1) && cell.len >= tail; n++) {
                struct slice prefix = slice_make(cell.ptr, cell.len - tail);
                *ret_has_own |= slice_eq(prefix, slice_str(s->options->prefix));
                if (n == PREFIXES_MAX)
                        buf_put_str(ret, ", ...");
                else
                        buf_printf(ret, "%s'%s'", n ? ", " : "", SHOWN(prefix));
        }
        return OK;
}

static int missing_table(struct store *s, enum table table, struct problem *problem)
{
        struct buf found CLEANUP(buf_release) = {0};
        const char *database = s->options->login.database;
        bool has_own = false;
        int r = find_prefixes(s, &found, &has_own, problem);
        if (r != OK)
                return r;
        return problem_set(problem, ERR_NOTFOUND,
                           "there is no %s%s in database %s; tables of Action Scheduler %s%s",
                           SHOWN_STR(s->options->prefix), table_names[table],
                           SHOWN_STR(database ? database : ""),
                           found.len ? "exist with the prefix " : "do not exist there",
                           buf_cstr(&found));
}

/* A server refuses a table that does not exist like one that the user may not read. */
static int denied_table(struct store *s, struct problem *problem)
{
        struct buf found CLEANUP(buf_release) = {0};
        const struct problem denied = *problem;
        bool has_own = false;
        int r = find_prefixes(s, &found, &has_own, problem);
        if (r != OK)
                return r;
        *problem = denied;
        if (!found.len || has_own)
                return ERR_FORBIDDEN;
        return problem_set(
                problem, ERR_NOTFOUND,
                "is the prefix %s wrong? The user sees Action Scheduler's tables with the "
                "prefix %s. Else %s",
                SHOWN_STR(s->options->prefix), buf_cstr(&found), denied.detail);
}

static int check_tables(struct store *s, struct problem *problem)
{
        for (enum table t = 0; t < TABLES; t++) {
                buf_printf(&s->sql, "SELECT 1 FROM %s LIMIT 0", quoted(s, t));
                int r = run_only(s, problem);
                s->facts.has_no_tables = r == ERR_NOTFOUND && t == ACTIONS;
                if (r == ERR_NOTFOUND)
                        return missing_table(s, t, problem);
                if (r == ERR_FORBIDDEN && t == ACTIONS)
                        return denied_table(s, problem);
                if (r != OK)
                        return r;
        }
        return OK;
}

static void put_schema_condition(struct store *s)
{
        char name[STORE_NAME_MAX];
        (void)snprintf(name, sizeof(name), "%s%s", s->options->prefix, table_names[ACTIONS]);
        buf_put_str(&s->sql, " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ");
        mysql_put_text(&s->sql, slice_str(name));
}

/* How the column `hook` sorts: hops over an index go on behind a hook and its lowest successor. */
static int read_lowest(struct store *s, struct slice charset, struct slice collation,
                       struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell = SLICE_NONE;
        s->facts.lowest = '!'; /* of binary columns */
        if (!charset.len || !collation.len)
                return OK;
        buf_put_str(&s->sql, "SELECT c FROM (");
        for (int c = '!'; c <= '~'; c++) {
                char text = (char)c;
                buf_put_str(&s->sql, c == '!' ? "SELECT " : " UNION ALL SELECT ");
                mysql_put_text(&s->sql, slice_make(&text, 1));
                buf_put_str(&s->sql, c == '!' ? " AS c" : "");
        }
        buf_put_str(&s->sql, ") t ORDER BY CONVERT(c USING ");
        buf_put_slice(&s->sql, charset);
        buf_put_str(&s->sql, ") COLLATE ");
        buf_put_slice(&s->sql, collation);
        buf_put_str(&s->sql, " LIMIT 1");
        int r = store_run(s, &rows, problem);
        if (r == OK && mysql_result_next(&rows, &cell, 1) && cell.len == 1)
                s->facts.lowest = cell.ptr[0];
        return r;
}

static int read_columns(struct store *s, struct problem *problem)
{
        static const char *const needed[] = {"action_id",
                                             "hook",
                                             "status",
                                             "scheduled_date_gmt",
                                             "scheduled_date_local",
                                             "schedule",
                                             "group_id",
                                             "args",
                                             "attempts",
                                             "claim_id",
                                             "last_attempt_gmt"};
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct store_facts *f = &s->facts;
        struct slice cells[3], charset = SLICE_NONE, collation = SLICE_NONE;
        unsigned seen = 0;
        buf_put_str(&s->sql, "SELECT COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME"
                             " FROM information_schema.COLUMNS");
        put_schema_condition(s);
        int r = store_run(s, &rows, problem);
        while (r == OK && mysql_result_next(&rows, cells, 3)) {
                for (size_t i = 0; i < ARRAY_LEN(needed); i++)
                        if (slice_eq_nocase(cells[0], slice_str(needed[i])))
                                seen |= 1U << i;
                f->has_priority |= slice_eq_nocase(cells[0], SLICE_LIT("priority"));
                f->has_unique_key |= slice_eq_nocase(cells[0], SLICE_LIT("unique_key"));
                f->has_extended_args |= slice_eq_nocase(cells[0], SLICE_LIT("extended_args"));
                if (slice_eq_nocase(cells[0], SLICE_LIT("hook"))) {
                        charset = cells[1];
                        collation = cells[2];
                }
        }
        for (size_t i = 0; r == OK && i < ARRAY_LEN(needed); i++)
                if (!(seen & 1U << i))
                        return problem_set(problem, ERR_NOTFOUND,
                                           "the table %s has no column %s, or the user may not "
                                           "read it; Action Scheduler 3.0 and later have it",
                                           s->actions, needed[i]);
        return r == OK ? read_lowest(s, charset, collation, problem) : r;
}

/* The index whose columns, each with a comma behind it, begin so; and how to add it. */
struct wanted_index {
        const char *columns, *name, *parts;
        const char **ret;
};

static void match_index(struct store_facts *f, const struct wanted_index *wanted, struct slice name,
                        struct buf *columns)
{
        for (size_t i = 0; name.len && i < ARRAY_LEN(f->index_names); i++) {
                const struct wanted_index *w = &wanted[i];
                if (*w->ret || strncmp(buf_cstr(columns), w->columns, strlen(w->columns)) != 0)
                        continue;
                (void)snprintf(f->index_names[i], sizeof(f->index_names[i]), "%.*s", (int)name.len,
                               name.ptr);
                *w->ret = f->index_names[i];
        }
        buf_clear(columns);
}

/* All in one statement: it reads the table once, and the sentence is needed once.  weir does not
 * make do with the indexes of Action Scheduler before 3.7, (hook), (status) and
 * (scheduled_date_gmt): the due actions of a hook would be found by reading all of its finished
 * ones. */
static int name_missing(const struct store *s, const struct wanted_index *wanted, size_t n,
                        struct problem *problem)
{
        struct buf keys CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < n; i++)
                if (!*wanted[i].ret)
                        buf_printf(&keys, "%s ADD KEY %s (%s)", keys.len ? "," : "", wanted[i].name,
                                   wanted[i].parts);
        if (!keys.len)
                return OK;
        return problem_set(problem, ERR_NOTFOUND, "an index is missing; run: ALTER TABLE %s%s",
                           s->actions, buf_cstr(&keys));
}

static int read_indexes(struct store *s, struct problem *problem)
{
        struct store_facts *f = &s->facts;
        const struct wanted_index wanted[] = {
                {"hook,status,scheduled_date_gmt,", "hook_status_scheduled_date_gmt",
                 "hook(163), status, scheduled_date_gmt", &f->hook_index},
                {"status,scheduled_date_gmt,", "status_scheduled_date_gmt",
                 "status, scheduled_date_gmt", &f->status_index},
                {"claim_id,", "claim_id_status_scheduled_date_gmt",
                 "claim_id, status, scheduled_date_gmt", &f->claim_index}};
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct buf columns CLEANUP(buf_release) = {0};
        struct slice cells[2], name = SLICE_NONE;
        buf_put_str(&s->sql, "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS");
        put_schema_condition(s);
        buf_put_str(&s->sql, " ORDER BY INDEX_NAME, SEQ_IN_INDEX");
        int r = store_run(s, &rows, problem);
        if (r != OK)
                return r;
        while (mysql_result_next(&rows, cells, 2)) {
                if (!slice_eq(cells[0], name))
                        match_index(f, wanted, name, &columns);
                name = cells[0];
                buf_put_slice(&columns, cells[1]);
                buf_put_byte(&columns, ',');
        }
        match_index(f, wanted, name, &columns);
        return name_missing(s, wanted, ARRAY_LEN(wanted), problem);
}

/* "7.0.1700000000": the schema and when the tables were made so. */
static void note_schema(struct store_facts *f, struct slice value)
{
        size_t n_dots = 0, len = 0;
        for (; len < value.len && len < sizeof(f->schema) - 1; len++)
                if (value.ptr[len] == '.' && ++n_dots == 2)
                        break;
        (void)snprintf(f->schema, sizeof(f->schema), "%s",
                       SHOWN_MAX(slice_make(value.ptr, len), sizeof(f->schema) - 4));
}

static int read_options(struct store *s, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct store_facts *f = &s->facts;
        struct slice cells[2];
        buf_printf(&s->sql,
                   "SELECT option_name, LEFT(option_value, 200) FROM %s WHERE option_name IN "
                   "('schema-ActionScheduler_StoreSchema', 'action_scheduler_migration_status', "
                   "'siteurl')",
                   s->wp_options);
        int r = store_run(s, &rows, problem);
        while (r == OK && mysql_result_next(&rows, cells, 2)) {
                if (slice_eq(cells[0], SLICE_LIT("schema-ActionScheduler_StoreSchema")))
                        note_schema(f, cells[1]);
                else if (slice_eq(cells[0], SLICE_LIT("action_scheduler_migration_status")))
                        f->is_migrated = slice_eq(cells[1], SLICE_LIT("complete"));
                else if (cells[1].len)
                        (void)snprintf(f->url, sizeof(f->url), "%s/wp-admin/",
                                       SHOWN_MAX(cells[1], 200));
        }
        return r;
}

static int recognise(struct store *s, struct problem *problem)
{
        s->facts = (struct store_facts){0};
        s->checked_mode = MODE_OFF;
        note_server(s);
        int r = set_session(s, problem);
        if (r == OK)
                r = read_account(s, problem);
        if (r == OK)
                r = check_tables(s, problem);
        if (r == OK)
                r = read_columns(s, problem);
        if (r == OK)
                r = read_indexes(s, problem);
        if (r == OK)
                r = read_options(s, problem);
        s->is_known = r == OK;
        return r;
}

/* ---- privileges ---- */

static int try_right(struct store *s, const struct right *right, struct problem *problem)
{
        buf_printf(&s->sql, "EXPLAIN %s%s%s", right->verb, quoted(s, right->table), right->end);
        return run_only(s, problem);
}

int store_put_missing(struct store *s, enum gate_mode mode, struct buf *ret,
                      struct problem *problem)
{
        for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
                if (!uses_right(s, &rights[i], mode))
                        continue;
                int r = try_right(s, &rights[i], problem);
                if (r == ERR_FORBIDDEN) {
                        put_grant(s, rights[i].privilege, rights[i].table, ret);
                        buf_put_str(ret, ";\n");
                } else if (r != OK) {
                        return r;
                }
        }
        return OK;
}

/* Beside SELECT, for transfer.c. */
static const struct moving_right {
        struct right right;
        bool is_import, is_export;
} moving_rights[] = {
        {{ACTIONS, "UPDATE", MODE_OFF, true, "UPDATE ",
          " SET claim_id = 0, status = '', last_attempt_gmt = NULL, last_attempt_local = NULL"
          " WHERE action_id = 0"},
         true,
         true},
        {{ACTIONS, "INSERT", MODE_OFF, true, "INSERT INTO ",
          " (hook, status, schedule) VALUES ('', '', '')"},
         false,
         true},
        {{CLAIMS, "INSERT", MODE_OFF, true, "INSERT INTO ", " (date_created_gmt) VALUES (NULL)"},
         true,
         true},
        {{GROUPS, "INSERT", MODE_OFF, true, "INSERT INTO ", " (slug) VALUES ('')"}, false, true},
        {{LOGS, "INSERT", MODE_OFF, true, "INSERT INTO ",
          " (action_id, message, log_date_gmt, log_date_local) VALUES (0, '', NULL, NULL)"},
         true,
         true},
        {{OPTIONS, "INSERT, UPDATE", MODE_OFF, true, "INSERT INTO ",
          " (option_name, option_value, autoload) VALUES ('', '', 'no') ON DUPLICATE KEY UPDATE"
          " option_value = ''"},
         true,
         true},
};

int store_check_moving(struct store *s, bool is_export, struct problem *problem)
{
        for (size_t i = 0; i < ARRAY_LEN(moving_rights); i++) {
                const struct moving_right *m = &moving_rights[i];
                struct buf grant CLEANUP(buf_release) = {0};
                if (!(is_export ? m->is_export : m->is_import))
                        continue;
                int r = try_right(s, &m->right, problem);
                if (r == OK)
                        continue;
                if (r != ERR_FORBIDDEN)
                        return r;
                put_grant(s, m->right.privilege, m->right.table, &grant);
                return problem_set(problem, r, "a privilege is missing to move actions; run: %s",
                                   buf_cstr(&grant));
        }
        return OK;
}

static int check_rights(struct store *s, enum gate_mode mode, struct problem *problem)
{
        for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
                if (!rights[i].is_needed || mode < rights[i].from)
                        continue;
                int r = try_right(s, &rights[i], problem);
                if (r != OK)
                        return r;
        }
        s->checked_mode = mode;
        return OK;
}

/* ---- opening ---- */

/* A user without any privilege in the database is refused when it logs in: "Access denied for user
 * 'weir'@'10.0.0.2' to database 'shop'". */
static int connect_problem(struct store *s, int err, struct problem *problem)
{
        static const char before[] = "Access denied for user ", after[] = " to database ";
        const char *begin = strstr(problem->detail, before), *end = strstr(problem->detail, after);
        struct buf grant CLEANUP(buf_release) = {0};
        if (!begin || !end || begin > end)
                return err;
        begin += strlen(before);
        (void)snprintf(s->facts.account, sizeof(s->facts.account), "%.*s", (int)(end - begin),
                       begin);
        put_grant(s, "SELECT", ACTIONS, &grant);
        return problem_set(problem, ERR_FORBIDDEN,
                           "the user may not use the database; begin with: %s", buf_cstr(&grant));
}

static int connect_anew(struct store *s, struct problem *problem)
{
        const struct sql_wait w = {.stop_fd = s->stop_fd,
                                   .deadline_ns =
                                           clock_boot_ns() + s->options->timeout_ms * NS_PER_MS,
                                   .timeout_ms = s->options->timeout_ms};
        s->is_known = s->has_place = false;
        int r = mysql_conn_connect(s->conn, &w, problem);
        return r == OK ? OK : connect_problem(s, r, problem);
}

int store_open(struct store *s, enum gate_mode mode, struct problem *problem)
{
        struct problem own;
        struct problem *p = problem ? problem : &own;
        int r = OK;
        if (!s->actions[0])
                return problem_set(p, ERR_BADARG, "the prefix '%s' is too long",
                                   SHOWN_STR(s->options->prefix));
        if (!mysql_conn_is_open(s->conn))
                r = connect_anew(s, p);
        if (r == OK && !s->is_known)
                r = recognise(s, p);
        if (r == OK && mode > s->checked_mode)
                r = check_rights(s, mode, p);
        return r;
}
