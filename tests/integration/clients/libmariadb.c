/* libmariadb: what it sees of the server at DB_HOST:DB_PORT.  See mysql_clients.py. */
#include <mariadb/mysql.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BIG = 1 << 20, HUGE_SIZE = 17 << 20, CUT = 1 << 16, BULK = 100 };

static void die(const char *what, const char *why)
{
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
}

static MYSQL *connect_to(void)
{
        MYSQL *db = mysql_init(NULL);
        unsigned on = 1;
        unsigned long most = 64ul << 20;

        mysql_optionsv(db, MYSQL_OPT_LOCAL_INFILE, &on);
        mysql_optionsv(db, MYSQL_SET_CHARSET_NAME, "utf8mb4");
        mysql_optionsv(db, MYSQL_OPT_MAX_ALLOWED_PACKET, &most);
        mysql_optionsv(db, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "libmariadb-test");
        if (!mysql_real_connect(db, getenv("DB_HOST"), getenv("DB_USER"), getenv("DB_PASSWORD"),
                                getenv("DB_NAME"), (unsigned)atoi(getenv("DB_PORT")), NULL,
                                CLIENT_MULTI_STATEMENTS))
                die("connect", mysql_error(db));
        return db;
}

static void run(MYSQL *db, const char *sql)
{
        if (mysql_query(db, sql) != 0)
                die(sql, mysql_error(db));
}

static void print_cell(const char *cell, unsigned long size)
{
        if (cell)
                fwrite(cell, 1, size, stdout);
        else
                fputs("NULL", stdout);
}

static void print_rows(MYSQL_RES *result)
{
        MYSQL_ROW row = NULL;
        const char *between = "";

        while ((row = mysql_fetch_row(result))) {
                const unsigned long *sizes = mysql_fetch_lengths(result);

                printf("%s", between);
                for (unsigned i = 0; i < mysql_num_fields(result); i++) {
                        printf("%s", i ? "|" : "");
                        print_cell(row[i], sizes[i]);
                }
                between = ";";
        }
}

/* Prints all results of a text, a slash between two; an error by its number. */
static void print_sets(MYSQL *db, const char *sql)
{
        int left = mysql_query(db, sql);
        bool is_first = true;

        while (left == 0) {
                MYSQL_RES *result = mysql_store_result(db);

                if (result) {
                        printf("%s", is_first ? "" : "/");
                        print_rows(result);
                        mysql_free_result(result);
                        is_first = false;
                }
                left = mysql_next_result(db);
        }
        if (left > 0)
                printf("%s%u", is_first ? "" : "/", mysql_errno(db));
}

static void say(MYSQL *db, const char *fact, const char *sql)
{
        printf("%s: ", fact);
        print_sets(db, sql);
        puts("");
}

static void say_md5(const char *fact, const char *text, size_t size)
{
        unsigned char sum[EVP_MAX_MD_SIZE];
        unsigned n = 0;

        EVP_Digest(text, size, sum, &n, EVP_md5(), NULL);
        printf("%s: %zu ", fact, size);
        for (unsigned i = 0; i < n; i++)
                printf("%02x", sum[i]);
        puts("");
}

static void say_last_note(MYSQL *db, const char *fact)
{
        run(db, "SELECT body FROM notes ORDER BY id DESC LIMIT 1");
        MYSQL_RES *result = mysql_use_result(db);
        MYSQL_ROW row = mysql_fetch_row(result);

        say_md5(fact, row[0], mysql_fetch_lengths(result)[0]);
        while (mysql_fetch_row(result))
                ;
        mysql_free_result(result);
}

/* --- prepared statements */

static MYSQL_STMT *prepare(MYSQL *db, const char *sql)
{
        MYSQL_STMT *s = mysql_stmt_init(db);

        if (mysql_stmt_prepare(s, sql, strlen(sql)) != 0)
                die(sql, mysql_stmt_error(s));
        return s;
}

static void execute(MYSQL_STMT *s)
{
        if (mysql_stmt_execute(s) != 0)
                die("execute", mysql_stmt_error(s));
}

/* Prints the only row of a statement that was executed, each cell converted to text. */
static void print_row(MYSQL_STMT *s)
{
        static char cells[32][1024];
        unsigned long sizes[32];
        my_bool nulls[32];
        MYSQL_BIND binds[32] = {0};
        unsigned n = mysql_stmt_field_count(s);

        for (unsigned i = 0; i < n; i++)
                binds[i] = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING,
                                        .buffer = cells[i],
                                        .buffer_length = sizeof(cells[i]),
                                        .length = &sizes[i],
                                        .is_null = &nulls[i]};
        mysql_stmt_bind_result(s, binds);
        if (mysql_stmt_fetch(s) != 0)
                die("fetch", mysql_stmt_error(s));
        for (unsigned i = 0; i < n; i++) {
                printf("%s", i ? "|" : "");
                print_cell(nulls[i] ? NULL : cells[i], sizes[i]);
        }
        mysql_stmt_free_result(s);
        puts("");
}

static void say_prepared(MYSQL *db)
{
        int number = 41;
        char text[] = "it's";
        MYSQL_BIND binds[3] = {
                {.buffer_type = MYSQL_TYPE_LONG, .buffer = &number},
                {.buffer_type = MYSQL_TYPE_STRING, .buffer = text, .buffer_length = strlen(text)},
                {.buffer_type = MYSQL_TYPE_NULL}};
        MYSQL_STMT *s = prepare(db, "SELECT ? + 1, ?, ?");

        mysql_stmt_bind_param(s, binds);
        execute(s);
        printf("prepared: ");
        print_row(s);
        mysql_stmt_close(s);

        s = prepare(db, "SELECT * FROM kinds");
        execute(s);
        printf("kinds_prepared: ");
        print_row(s);
        execute(s); /* its metadata may be left out now */
        mysql_stmt_store_result(s);
        mysql_stmt_close(s);
}

static void say_cursor(MYSQL *db)
{
        unsigned long kind = CURSOR_TYPE_READ_ONLY, rows = 7;
        long long value = 0, n = 0, sum = 0;
        MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &value};
        MYSQL_STMT *s = mysql_stmt_init(db);
        const char *sql = "SELECT seq FROM seq_1_to_1000";

        mysql_stmt_attr_set(s, STMT_ATTR_CURSOR_TYPE, &kind);
        mysql_stmt_attr_set(s, STMT_ATTR_PREFETCH_ROWS, &rows);
        if (mysql_stmt_prepare(s, sql, strlen(sql)) != 0)
                die(sql, mysql_stmt_error(s));
        execute(s);
        mysql_stmt_bind_result(s, &bind);
        for (; mysql_stmt_fetch(s) == 0; n++)
                sum += value;
        printf("cursor: %lld %lld\n", n, sum);
        mysql_stmt_close(s);
}

static void say_sizes(MYSQL *db)
{
        static char text[HUGE_SIZE];
        MYSQL_STMT *s = prepare(db, "INSERT INTO notes (body) VALUES (?)");
        unsigned long size = BIG;
        MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_STRING, .buffer = text, .length = &size};

        memset(text, 'x', sizeof(text));
        bind.buffer_length = size;
        mysql_stmt_bind_param(s, &bind);
        execute(s);
        say_last_note(db, "big");
        size = bind.buffer_length = HUGE_SIZE;
        mysql_stmt_bind_param(s, &bind);
        execute(s);
        say_last_note(db, "huge");
        for (int i = 0; i < BIG / CUT; i++)
                mysql_stmt_send_long_data(s, 0, text, CUT);
        execute(s);
        say_last_note(db, "long_data");
        mysql_stmt_close(s);
}

static void say_bulk(MYSQL *db)
{
        unsigned rows = BULK;
        int numbers[BULK];
        MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_LONG, .buffer = numbers};
        MYSQL_STMT *s = prepare(db, "INSERT INTO up VALUES (?)");

        for (int i = 0; i < BULK; i++)
                numbers[i] = i + 1;
        mysql_stmt_attr_set(s, STMT_ATTR_ARRAY_SIZE, &rows);
        mysql_stmt_bind_param(s, &bind);
        execute(s);
        mysql_stmt_close(s);
        say(db, "bulk", "SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM up; DELETE FROM up");
}

/* --- the rest */

static void say_transactions(MYSQL *db)
{
        printf("transaction: ");
        mysql_autocommit(db, 0);
        run(db, "INSERT INTO up VALUES (1)");
        mysql_rollback(db);
        print_sets(db, "SELECT COUNT(*) FROM up");
        printf(" ");
        run(db, "INSERT INTO up VALUES (1)");
        mysql_commit(db);
        print_sets(db, "SELECT COUNT(*) FROM up");
        puts("");
        mysql_commit(db);
        mysql_autocommit(db, 1);
        print_sets(db, "BEGIN; SAVEPOINT a; INSERT INTO up VALUES (2); ROLLBACK TO a; COMMIT");
        say(db, "savepoint", "SELECT COUNT(*) FROM up; DELETE FROM up");
}

static void load(MYSQL *db, const char *name)
{
        char sql[1024];

        snprintf(sql, sizeof(sql), "LOAD DATA LOCAL INFILE '%s/%s' INTO TABLE up",
                 getenv("DB_FILES"), name);
        if (mysql_query(db, sql) != 0)
                printf("refused, then ");
}

static void say_uploads(MYSQL *db)
{
        load(db, "rows.tsv");
        say(db, "infile", "SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM up; DELETE FROM up");
        load(db, "empty.tsv");
        say(db, "infile_empty", "SELECT COUNT(*) FROM up");
        printf("infile_missing: ");
        load(db, "missing.tsv");
        print_sets(db, "SELECT 1");
        puts("");
}

static void say_errors(MYSQL *db)
{
        static const char *const wrong[] = {"INSERT INTO counter VALUES (1, 1)", "SELEKT",
                                            "SELECT * FROM nothing"};

        printf("errors: ");
        for (int i = 0; i < 3; i++) {
                if (mysql_query(db, wrong[i]) == 0)
                        die(wrong[i], "no error");
                printf("%s%u %s", i ? ", " : "", mysql_errno(db), mysql_sqlstate(db));
        }
        puts("");
}

static void *sleeper(void *db)
{
        mysql_query(db, "SELECT SLEEP(600)");
        mysql_free_result(mysql_store_result(db));
        return NULL;
}

static void say_kills(MYSQL *db)
{
        MYSQL *victim = connect_to();
        unsigned long me = mysql_thread_id(victim);
        char sql[200];
        pthread_t thread;
        bool is_asleep = false;

        pthread_create(&thread, NULL, sleeper, victim);
        snprintf(sql, sizeof(sql),
                 "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %lu AND"
                 " INFO LIKE 'SELECT SLEEP%%'",
                 me);
        while (!is_asleep) {
                run(db, sql);
                MYSQL_RES *result = mysql_store_result(db);
                is_asleep = mysql_num_rows(result) == 1;
                mysql_free_result(result);
        }
        snprintf(sql, sizeof(sql), "KILL QUERY %lu", me);
        run(db, sql);
        pthread_join(thread, NULL);
        printf("kill_query: %u %s, then ", mysql_errno(victim), mysql_sqlstate(victim));
        print_sets(victim, "SELECT 1");
        puts("");
        mysql_kill(db, me); /* COM_PROCESS_KILL */
        (void)mysql_query(victim, "SELECT 1");
        unsigned error = mysql_errno(victim);
        printf("kill_connection: %s\n", error == 2006 || error == 2013 ? "gone" : "alive");
        mysql_close(victim);
}

static void say_session(MYSQL *db)
{
        run(db, "SET @a = 1");
        if (mysql_reset_connection(db) != 0)
                die("reset", mysql_error(db));
        say(db, "reset", "SELECT @a");
        if (mysql_change_user(db, "other", getenv("DB_PASSWORD"), getenv("DB_NAME")) != 0)
                die("change of the user", mysql_error(db));
        say(db, "change_user", "SELECT CURRENT_USER()");
        printf("ping: %s\n", mysql_ping(db) == 0 ? "alive" : "gone");
        printf("statistics: %.6s\n", mysql_stat(db));
        MYSQL_RES *fields = mysql_list_fields(db, "notes", NULL);
        printf("fields: ");
        for (unsigned i = 0; i < mysql_num_fields(fields); i++)
                printf("%s%s", i ? " " : "", mysql_fetch_field(fields)->name);
        puts("");
        mysql_free_result(fields);
}

/* A transaction that is repeated until it is let through. */
static void busy(void)
{
        MYSQL *db = connect_to();

        for (;;) {
                run(db, "BEGIN");
                if (mysql_query(db, "UPDATE counter SET n = n + 1") == 0)
                        break;
                printf("refused: %u %s %s\n", mysql_errno(db), mysql_sqlstate(db), mysql_error(db));
                mysql_rollback(db);
        }
        if (mysql_commit(db) != 0)
                die("commit", mysql_error(db));
        puts("done");
        mysql_close(db);
}

int main(int argc, char **argv)
{
        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc > 1 && strcmp(argv[1], "busy") == 0) {
                busy();
                return 0;
        }
        MYSQL *db = connect_to();

        say(db, "text", "SELECT 1+1, 'h\xc3\xa9llo', NULL, ''");
        say(db, "kinds", "SELECT * FROM kinds");
        run(db, "INSERT INTO notes (body) VALUES ('first')");
        printf("new_row: %d %d\n", (int)mysql_affected_rows(db), (int)mysql_insert_id(db));
        say(db, "many_rows", "SELECT CONCAT(COUNT(*), ' ', SUM(seq)) FROM seq_1_to_1000");
        print_sets(db, "SELECT 1 + 'x'");
        puts("");
        say(db, "warnings", "SHOW WARNINGS");
        say_prepared(db);
        say_cursor(db);
        say_sizes(db);
        say_bulk(db);
        say_transactions(db);
        say_uploads(db);
        say(db, "multi", "SELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a");
        say(db, "multi_error", "SELECT 1; SELECT * FROM nothing; SELECT 3");
        say(db, "call", "CALL two()");
        say_errors(db);
        say_kills(db);
        say_session(db);
        mysql_close(db);
        return 0;
}
