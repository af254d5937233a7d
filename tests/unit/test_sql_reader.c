/* What SQL on the history may do, and how it is told that it may not or is wrong. */
#include "check.h"

#include "sql_box.h"

static void only_reading_is_possible(void **state)
{
        static const char *const writes[] = {
                "CREATE TABLE x(a)",
                "CREATE TEMP TABLE x(a)",
                "CREATE VIEW x AS SELECT 1",
                "BEGIN",
                "COMMIT",
                "SAVEPOINT x",
                "ANALYZE",
                "REINDEX",
                "VACUUM",
                "VACUUM INTO '/no/such'",
                "EXPLAIN CREATE TABLE x(a)",
                "WITH x AS (SELECT 1) INSERT INTO jobs(id) SELECT * FROM x",
        };
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 1);
        for (size_t i = 0; i < ARRAY_LEN(writes); i++)
                assert_fails(&box, writes[i], ERR_SYNTAX, "history can only be read; use SELECT");
        assert_fails(&box, "DELETE FROM jobs", ERR_SYNTAX,
                     "table jobs may not be modified; history can only be read; use SELECT");
        assert_fails(&box, "UPDATE jobs SET id = 1", ERR_SYNTAX, "jobs may not be modified");
        assert_fails(&box, "UPDATE sqlite_master SET sql = ''", ERR_SYNTAX, "may not be modified");
        assert_fails(&box, "DROP TABLE jobs", ERR_SYNTAX, "history can only be read");
        assert_rows(&box, "SELECT count(*) FROM jobs", "1\n");
        sql_box_release(&box);
}

static void nothing_else_is_in_reach(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 1);
        assert_fails(&box, "ATTACH '/etc/passwd' AS x", ERR_SYNTAX, "ATTACH is not possible");
        assert_fails(&box, "DETACH main", ERR_SYNTAX, "ATTACH is not possible");
        assert_fails(&box, "PRAGMA temp_store_directory = '/'", ERR_SYNTAX, "the only PRAGMAs are");
        assert_fails(&box, "SELECT * FROM pragma_database_list", ERR_SYNTAX, "PRAGMAs");
        assert_fails(&box, "SELECT load_extension('x')", ERR_SYNTAX, "extensions cannot be loaded");
        assert_rows(&box, "SELECT name FROM pragma_table_info('incidents')",
                    "number\nat\nevent\nmessage\nat_ms\n");
        assert_rows(&box,
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3) "
                    "SELECT i FROM n",
                    "1\n2\n3\n");
        sql_box_release(&box);
}

static void what_is_wrong_is_told_with_its_place(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 1);
        assert_fails(&box, "SELECT nope FROM jobs", ERR_SYNTAX,
                     "line 1, column 8: no such column: nope; .tables lists the columns");
        assert_fails(&box, "SELECT id\nFROM jobs\n  WERE id = 1", ERR_SYNTAX,
                     "line 3, column 8: near");
        assert_fails(&box, "SELECT '\xc3\xa4', nope", ERR_SYNTAX, "line 1, column 13:");
        assert_fails(&box, "SELECT * FROM job", ERR_SYNTAX,
                     "no such table: job; the tables are jobs, events, minutes, incidents");
        assert_fails(&box, "SELECT abs(-9223372036854775808)", ERR_SYNTAX, "integer overflow");
        sql_box_release(&box);
}

static void a_script_is_taken_statement_by_statement(void **state)
{
        struct sql_box box;
        struct sql_script script = {"SELECT 1;\n-- nothing\n; SELECT 2 ;\n SELECT\n x", 11};
        sqlite3_stmt *stmt;
        struct problem p;
        size_t n = 0;
        int err;
        (void)state;
        sql_box_init(&box, 1);
        while ((err = sql_reader_prepare(box.reader, &script, &stmt, &p)) == OK && *script.at) {
                n += stmt != NULL;
                (void)sqlite3_finalize(stmt);
        }
        assert_int_equal(n, 2);
        assert_int_equal(err, ERR_SYNTAX);
        has(p.detail, "line 15, column 2: no such column: x");
        sql_box_release(&box);
}

/* A signal may come between two statements, or two steps of one. */
static void a_stop_before_the_first_step_ends_the_statement(void **state)
{
        struct sql_box box;
        struct sql_script script = {"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                                    "FROM n) SELECT max(i) FROM n",
                                    1};
        sqlite3_stmt *stmt;
        struct problem p;
        (void)state;
        sql_box_init(&box, 0);
        assert_int_equal(sql_reader_prepare(box.reader, &script, &stmt, &p), OK);
        sql_reader_stop(box.reader);
        int code = sqlite3_step(stmt);
        assert_int_equal(code, SQLITE_INTERRUPT);
        assert_int_equal(sql_reader_fail(box.reader, code, &p), ERR_STOPPING);
        assert_int_equal(sqlite3_finalize(stmt), SQLITE_INTERRUPT);
        assert_rows(&box, "SELECT 1", "1\n");
        sql_box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_reading_is_possible),
                cmocka_unit_test(nothing_else_is_in_reach),
                cmocka_unit_test(what_is_wrong_is_told_with_its_place),
                cmocka_unit_test(a_script_is_taken_statement_by_statement),
                cmocka_unit_test(a_stop_before_the_first_step_ends_the_statement),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
