/* Statements by their words: kinds, locks, tags and digests. */
#include "check.h"

#include <stdio.h>

#include "wire/sql_text.h"

/* The text is in a block of its exact size, so that a read past its end is seen. */
static struct sql_text scan_to(struct slice sql, char *copy)
{
        struct sql_text t;

        memset(&t, 0x5a, sizeof(t));
        if (sql.len)
                memcpy(copy, sql.ptr, sql.len);
        sql_text_scan(slice_make(copy, sql.len), &t);
        assert_true(t.kind < SQL_KINDS && t.n_tags <= SQL_TAGS_MAX);
        return t;
}

static enum sql_kind kind_of(const char *sql)
{
        char *copy = malloc(strlen(sql) + !*sql);
        struct sql_text t = scan_to(slice_str(sql), copy);

        free(copy);
        return t.kind;
}

static struct sql_text scan(const char *sql)
{
        struct sql_text t;

        sql_text_scan(slice_str(sql), &t);
        return t;
}

static const struct {
        enum sql_kind kind;
        const char *sql;
} kinds[] = {
        {SQL_READ, "SELECT * FROM t"},
        {SQL_READ, "select a from t"},
        {SQL_READ, "  \t\r\n select a from t"},
        {SQL_READ, "/* c */ SELECT a FROM t"},
        {SQL_READ, "-- c\nSELECT a FROM t"},
        {SQL_READ, "--\nSELECT a FROM t"},
        {SQL_READ, "--\tc\nSELECT a FROM t"},
        {SQL_READ, "# DELETE\nSELECT a FROM t"},
        {SQL_READ, "(SELECT a FROM t)"},
        {SQL_READ, "((SELECT a FROM t) UNION (SELECT 1))"},
        {SQL_READ, "( /* c */ (SELECT a FROM t))"},
        {SQL_READ, "SELECT/* c */a FROM t"},
        {SQL_READ, "SELECT /*!40001 SQL_NO_CACHE */ * FROM t"},
        {SQL_READ, "SELECT 1 /*!50000 FROM t */"},
        {SQL_READ, "/*!SELECT*/ a FROM t"},
        {SQL_READ, "/*M!100100 SELECT */ a FROM t"},
        {SQL_READ, "WITH x AS (SELECT 1) SELECT * FROM x"},
        {SQL_READ, "WITH RECURSIVE x (n) AS (SELECT 1 UNION SELECT n + 1 FROM x) SELECT n FROM x"},
        {SQL_READ, "WITH x AS (DELETE FROM y) SELECT 1"},
        {SQL_READ, "TABLE t"},
        {SQL_READ, "VALUES ROW(1, 2)"},
        {SQL_READ, "SELECT SLEEP(10)"},
        {SQL_READ, "SELECT SLEEP/**/(10)"},
        {SQL_READ, "SELECT BENCHMARK(1000000, MD5('x'))"},
        {SQL_READ, "SELECT f()"},
        {SQL_READ, "SELECT `version`()"},
        {SQL_READ, "SELECT mine.version()"},
        {SQL_READ, "SELECT mine.`f`()"},
        {SQL_READ, "SELECT 1, f(2)"},
        {SQL_READ, "SELECT (SELECT a FROM t)"},
        {SQL_READ, "SELECT NEXT VALUE FOR s"},
        {SQL_READ, "SELECT 1 UNION TABLE t"},
        {SQL_READ, "SELECT GET_LOCK('a', 10)"},
        {SQL_READ, "SELECT a INTO @x FROM t"},
        {SQL_READ, "SELECT 'for update' FROM t"},
        {SQL_READ, "SELECT `for update` FROM t /* FOR UPDATE */"},
        {SQL_READ, "SELECT a FROM t USE INDEX FOR ORDER BY (i)"},
        {SQL_READ, "SELECT a FROM t FOR SYSTEM_TIME ALL"},
        {SQL_READ, "SET STATEMENT max_statement_time=1 FOR SELECT a FROM t"},
        {SQL_READ, "SET STATEMENT a=(SELECT 1 FOR UPDATE) FOR SELECT a FROM t"},
        {SQL_READ, "SET STATEMENT a=1 FOR SET STATEMENT b=2 FOR (SELECT a FROM t)"},
        {SQL_READ, "EXPLAIN ANALYZE SELECT a FROM t"},
        {SQL_READ, "DESC ANALYZE FORMAT=JSON SELECT a FROM t"},
        {SQL_READ, "ANALYZE SELECT a FROM t"},
        {SQL_READ, "ANALYZE FORMAT=JSON SELECT a FROM t"},
        {SQL_READ, "SELECT a FROM t;"},
        {SQL_READ, ";;SELECT a FROM t;;"},

        {SQL_WRITE, "INSERT INTO t VALUES (1)"},
        {SQL_WRITE, "insert t select * from u"},
        {SQL_WRITE, "UPDATE t SET a = 1"},
        {SQL_WRITE, "DELETE FROM t"},
        {SQL_WRITE, "REPLACE INTO t VALUES (1)"},
        {SQL_WRITE, "LOAD DATA LOCAL INFILE 'x' INTO TABLE t"},
        {SQL_WRITE, "CALL p()"},
        {SQL_WRITE, "DO SLEEP(1)"},
        {SQL_WRITE, "DO 1"},
        {SQL_WRITE, "TRUNCATE t"},
        {SQL_WRITE, "ALTER TABLE t ADD a INT"},
        {SQL_WRITE, "CREATE TABLE t (a INT)"},
        {SQL_WRITE, "CREATE PROCEDURE p() BEGIN COMMIT; UNLOCK TABLES; END"},
        {SQL_WRITE, "DROP TABLE t"},
        {SQL_WRITE, "RENAME TABLE a TO b"},
        {SQL_WRITE, "OPTIMIZE TABLE t"},
        {SQL_WRITE, "ANALYZE TABLE t"},
        {SQL_WRITE, "ANALYZE LOCAL TABLE t"},
        {SQL_WRITE, "ANALYZE UPDATE t SET a = 1"},
        {SQL_WRITE, "EXPLAIN ANALYZE DELETE FROM t"},
        {SQL_WRITE, "EXECUTE s"},
        {SQL_WRITE, "EXECUTE IMMEDIATE 'SELECT 1'"},
        {SQL_WRITE, "FLUSH TABLES"},
        {SQL_WRITE, "FLUSH /*!40101 LOCAL */ TABLES"},
        {SQL_WRITE, "FLUSH PRIVILEGES"},
        {SQL_WRITE, "BEGIN NOT ATOMIC SELECT 1; COMMIT; END"},
        {SQL_WRITE, "IF 1 THEN COMMIT; END IF"},
        {SQL_WRITE, "SELECT a FROM t FOR UPDATE"},
        {SQL_WRITE, "SELECT a FROM t FOR /* x */ UPDATE SKIP LOCKED"},
        {SQL_WRITE, "SELECT a FROM t FOR SHARE"},
        {SQL_WRITE, "SELECT a FROM t LOCK IN SHARE MODE"},
        {SQL_WRITE, "(SELECT a FROM t FOR UPDATE) UNION (SELECT 1)"},
        {SQL_WRITE, "SELECT a INTO OUTFILE '/tmp/x' FROM t"},
        {SQL_WRITE, "SELECT a FROM t INTO DUMPFILE '/tmp/x'"},
        {SQL_WRITE, "TABLE t INTO OUTFILE 'x'"},
        {SQL_WRITE, "WITH x AS (SELECT 1) UPDATE t, x SET a = 1"},
        {SQL_WRITE, "WITH x AS (SELECT 1) DELETE FROM t"},
        {SQL_WRITE, "WITH x AS (SELECT 1) SELECT * FROM t FOR UPDATE"},
        {SQL_WRITE, "WITH"},
        {SQL_WRITE, "SET STATEMENT a=1 FOR UPDATE t SET a = 1"},
        {SQL_WRITE, "/*!40000 ALTER TABLE t DISABLE KEYS */"},
        {SQL_WRITE, "START SLAVE"},
        {SQL_WRITE, "CHECKSUM TABLE t"},
        {SQL_WRITE, "GRANT ALL ON *.* TO x"},
        {SQL_WRITE, "selects"},
        {SQL_WRITE, "SELEC"},
        {SQL_WRITE, "123"},
        {SQL_WRITE, "'SELECT'"},
        {SQL_WRITE, "`SELECT` a"},
        {SQL_WRITE, "--SELECT 1"},
        {SQL_WRITE, "{call p()}"},
        {SQL_WRITE, "\xff\xfe"},

        {SQL_BEGIN, "BEGIN"},
        {SQL_BEGIN, "begin work"},
        {SQL_BEGIN, "BEGIN;"},
        {SQL_BEGIN, "BEGIN /* c */ ; -- d"},
        {SQL_BEGIN, "START TRANSACTION"},
        {SQL_BEGIN, "START TRANSACTION READ ONLY"},
        {SQL_SNAPSHOT, "START TRANSACTION WITH CONSISTENT SNAPSHOT"},
        {SQL_SNAPSHOT, "START TRANSACTION READ ONLY, WITH CONSISTENT SNAPSHOT"},
        {SQL_SNAPSHOT, "START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */"},
        {SQL_END, "COMMIT"},
        {SQL_END, "commit work and chain"},
        {SQL_END, "ROLLBACK"},
        {SQL_END, "ROLLBACK WORK RELEASE"},
        {SQL_PASS, "ROLLBACK TO a"},
        {SQL_PASS, "ROLLBACK WORK TO SAVEPOINT a"},

        {SQL_LOCK, "LOCK TABLES t WRITE"},
        {SQL_LOCK, "lock table t read /*!32311 local */"},
        {SQL_LOCK, "LOCK INSTANCE FOR BACKUP"},
        {SQL_LOCK, "FLUSH TABLES WITH READ LOCK"},
        {SQL_LOCK, "FLUSH TABLES a, b WITH READ LOCK"},
        {SQL_LOCK, "FLUSH TABLES a FOR EXPORT"},
        {SQL_LOCK, "BACKUP STAGE START"},
        {SQL_LOCK, "BACKUP LOCK t"},
        {SQL_LOCK, "HANDLER t OPEN"},
        {SQL_LOCK, "HANDLER t READ FIRST"},
        {SQL_UNLOCK, "UNLOCK TABLES"},
        {SQL_UNLOCK, "UNLOCK INSTANCE"},
        {SQL_UNLOCK, "BACKUP STAGE END"},
        {SQL_UNLOCK, "BACKUP UNLOCK"},
        {SQL_UNLOCK, "HANDLER t CLOSE"},
        {SQL_UNLOCK, "XA COMMIT 'a'"},
        {SQL_UNLOCK, "XA ROLLBACK 'a'"},
        {SQL_XA, "XA START 'a'"},
        {SQL_XA, "XA BEGIN 'a'"},
        {SQL_XA, "XA END 'a'"},
        {SQL_XA, "XA PREPARE 'a'"},
        {SQL_XA, "XA RECOVER"},
        {SQL_USE, "USE shop"},
        {SQL_KILL, "KILL 5"},
        {SQL_WEIR, "SHOW WEIR STATUS"},

        {SQL_PASS, ""},
        {SQL_PASS, " "},
        {SQL_PASS, ";"},
        {SQL_PASS, "("},
        {SQL_PASS, "/* only a comment */"},
        {SQL_PASS, "/* not closed"},
        {SQL_PASS, "/*"},
        {SQL_PASS, "/*!"},
        {SQL_PASS, "/*!*/"},
        {SQL_PASS, "--"},
        {SQL_PASS, "#"},
        {SQL_PASS, "SET NAMES utf8mb4"},
        {SQL_PASS, "SET @a = (SELECT 1 FROM t)"},
        {SQL_PASS, "SET STATEMENT"},
        {SQL_PASS, "SET STATEMENT a=1"},
        {SQL_PASS, "SET STATEMENT a=1 FOR"},
        {SQL_PASS, "SET STATEMENT a=1 FOR SELECT 1"},
        {SQL_PASS, "/*!40101 SET NAMES utf8 */;"},
        {SQL_PASS, "SHOW TABLES"},
        {SQL_PASS, "SHOW"},
        {SQL_PASS, "SAVEPOINT a"},
        {SQL_PASS, "RELEASE SAVEPOINT a"},
        {SQL_PASS, "PREPARE s FROM 'DELETE FROM t'"},
        {SQL_PASS, "DEALLOCATE PREPARE s"},
        {SQL_PASS, "DROP PREPARE s"},
        {SQL_PASS, "EXPLAIN SELECT a FROM t"},
        {SQL_PASS, "EXPLAIN FORMAT=JSON SELECT a FROM t"},
        {SQL_PASS, "EXPLAIN UPDATE t SET a = 1"},
        {SQL_PASS, "DESCRIBE t"},
        {SQL_PASS, "desc t"},
        {SQL_PASS, "HELP 'x'"},
        {SQL_PASS, "GET DIAGNOSTICS @n = NUMBER"},
        {SQL_PASS, "SELECT 1"},
        {SQL_PASS, "SELECT 1;"},
        {SQL_PASS, "(SELECT 1)"},
        {SQL_PASS, "SELECT 'FROM t'"},
        {SQL_PASS, "SELECT 'it''s FROM t'"},
        {SQL_PASS, "SELECT 'it\\'s FROM t'"},
        {SQL_PASS, "SELECT \"a \"\" FROM t\""},
        {SQL_PASS, "SELECT '\\\\' -- FROM t"},
        {SQL_PASS, "SELECT 1 AS `a\\`"},
        {SQL_PASS, "SELECT @@version_comment LIMIT 1"},
        {SQL_PASS, "SELECT @@session.auto_increment_increment AS a, @@sql_mode AS b"},
        {SQL_PASS, "SELECT @a, @b := 1"},
        {SQL_PASS, "SELECT DATABASE()"},
        {SQL_PASS, "select database ( )"},
        {SQL_PASS, "SELECT CONNECTION_ID()"},
        {SQL_PASS, "SELECT NOW(), CURRENT_TIMESTAMP(6), VERSION()"},
        {SQL_PASS, "SELECT TIMEDIFF(NOW(), UTC_TIMESTAMP())"},
        {SQL_PASS, "SELECT LAST_INSERT_ID()"},
        {SQL_PASS, "SELECT 1 WHERE 1 IN (1, 2) AND (1)"},
        {SQL_PASS, "SELECT (SELECT 1)"},
        {SQL_PASS, "SELECT RELEASE_LOCK('a')"},
        {SQL_PASS, "SELECT RELEASE_ALL_LOCKS()"},
        {SQL_PASS, "DO RELEASE_LOCK('a')"},

        /* Of several. */
        {SQL_WRITE, "SET a = 1; UPDATE t SET a = 1"},
        {SQL_WRITE, "BEGIN; UPDATE t SET a = 1; COMMIT"},
        {SQL_WRITE, "SELECT a FROM t; DELETE FROM t"},
        {SQL_WRITE, "DELETE FROM t; SELECT a FROM t"},
        {SQL_READ, "BEGIN; SELECT a FROM t"},
        {SQL_BEGIN, "SET a = 1; BEGIN"},
        {SQL_LOCK, "LOCK TABLES t WRITE; DELETE FROM t; UNLOCK TABLES"},
        {SQL_PASS, "SET a = 1; SELECT 1"},
};

static void a_statement_has_the_kind_of_its_words(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                enum sql_kind kind = kind_of(kinds[i].sql);
                if (kind != kinds[i].kind)
                        fail_msg("'%s' is %s, not %s", kinds[i].sql, sql_kind_name(kind),
                                 sql_kind_name(kinds[i].kind));
        }
}

static void kinds_have_names_and_most_never_wait(void **state)
{
        (void)state;
        same(sql_kind_name(SQL_READ), "read");
        same(sql_kind_name(SQL_PASS), "pass");
        assert_true(sql_kind_can_wait(SQL_WRITE) && sql_kind_can_wait(SQL_SNAPSHOT));
        assert_false(sql_kind_can_wait(SQL_END) || sql_kind_can_wait(SQL_KILL));
}

/* Comments, case and white space anywhere between the tokens change no kind. */
static void a_statement_has_the_same_kind_in_other_clothes(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                char text[400];
                (void)snprintf(text, sizeof(text), "/* a */ -- b\n# c\n\t/*!50000 */ %s\n ; ; -- x",
                               kinds[i].sql);
                enum sql_kind kind = kind_of(text);
                /* What is not ended swallows the rest, and "--" a line. */
                if (kind != kinds[i].kind)
                        fail_msg("'%s' is %s, not %s", text, sql_kind_name(kind),
                                 sql_kind_name(kinds[i].kind));
        }
}

static void every_beginning_of_a_statement_is_read_safely(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                size_t len = strlen(kinds[i].sql);
                for (size_t n = 0; n <= len; n++) {
                        char *copy = malloc(n + !n), text[SQL_DIGEST_TEXT];
                        (void)scan_to(slice_make(kinds[i].sql, n), copy);
                        assert_int_not_equal(sql_digest(slice_make(copy, n), text), 0);
                        free(copy);
                }
        }
}

static void locks_by_name_are_seen_where_they_are_called(void **state)
{
        struct sql_text t = scan("SELECT GET_LOCK('a', 1)");

        (void)state;
        assert_true(t.takes_lock && !t.releases_lock && !t.releases_all);
        t = scan("SELECT get_lock /* c */ ('a', 1) FROM t");
        assert_true(t.takes_lock);
        t = scan("UPDATE t SET a = RELEASE_LOCK('a')");
        assert_true(!t.takes_lock && t.releases_lock);
        t = scan("DO RELEASE_ALL_LOCKS()");
        assert_true(t.releases_all && !t.releases_lock);
        t = scan("SET @a = GET_LOCK('a', 1)");
        assert_true(t.takes_lock && t.kind == SQL_PASS);
        t = scan("SELECT 1; SELECT GET_LOCK('a', 1)");
        assert_true(t.takes_lock && t.is_multi);
        t = scan("SELECT 'GET_LOCK(1)', `get_lock`, get_lock FROM t /* GET_LOCK(1) */");
        assert_false(t.takes_lock);
        t = scan("DO RELEASE_LOCK('a'), SLEEP(1)");
        assert_int_equal(t.kind, SQL_WRITE);
}

static void several_statements_are_told_from_one(void **state)
{
        static const char *const one[] = {
                "SELECT 1",
                "SELECT 1;",
                ";SELECT 1; ; -- c",
                "SELECT ';' , `;` /* ; */",
                "CREATE PROCEDURE p() BEGIN COMMIT; END",
                ("CREATE OR REPLACE DEFINER=`a`@`b` TRIGGER t BEFORE INSERT ON u FOR EACH ROW "
                 "BEGIN SET @a = 1; END"),
                "BEGIN NOT ATOMIC COMMIT; END",
        };
        static const char *const several[] = {
                "SELECT 1; SELECT 2",
                "SELECT 1;SELECT 2;",
                "SELECT 1 /*; */; SELECT 2",
                "CREATE TABLE event (a INT); SELECT 1",
                "ALTER TABLE t ADD COLUMN event INT; SELECT 1",
                "BEGIN; SELECT 1",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(one); i++)
                if (scan(one[i]).is_multi)
                        fail_msg("'%s' is one", one[i]);
        for (size_t i = 0; i < ARRAY_LEN(several); i++)
                if (!scan(several[i]).is_multi)
                        fail_msg("'%s' is several", several[i]);
        assert_true(scan("SELECT 1; COMMIT").may_change_session);
        assert_true(scan("UNLOCK TABLES; SELECT a FROM t").may_change_session);
        assert_false(scan("SELECT 1; DELETE FROM t").may_change_session);
}

static void the_database_of_use_comes_without_quotes(void **state)
{
        (void)state;
        assert_slice(scan("USE shop").database, "shop");
        assert_slice(scan("use `my shop`;").database, "my shop");
        assert_slice(scan("USE /* c */ shop").database, "shop");
        assert_slice(scan("USE a; USE b").database, "b");
        assert_slice(scan("USE").database, "");
        assert_slice(scan("USE `").database, "");
        assert_slice(scan("USE `a").database, "");
        assert_slice(scan("SELECT 1").database, "");
}

static void kill_names_a_connection_or_its_statement(void **state)
{
        static const struct {
                const char *sql;
                uint32_t id;
                bool is_statement;
        } cases[] = {
                {"KILL 17", 17, false},
                {"kill connection 17", 17, false},
                {"KILL QUERY 17;", 17, true},
                {"KILL HARD QUERY 17", 17, true},
                {"KILL SOFT 17", 17, false},
                {"KILL QUERY ID 17", 0, true},
                {"KILL USER bob", 0, false},
                {"KILL @id", 0, false},
                {"KILL 4294967295", UINT32_MAX, false},
                {"KILL 4294967296", 0, false},
                {"KILL", 0, false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct sql_text t = scan(cases[i].sql);
                assert_int_equal(t.kind, SQL_KILL);
                assert_int_equal(t.kill_id, cases[i].id);
                assert_int_equal(t.is_kill_statement, cases[i].is_statement);
        }
        assert_slice(scan("show weir classes").show, "classes");
        assert_slice(scan("SHOW WEIR").show, "");
}

/* ---- tags ---- */

/* "key=value key=value" of all tags. */
static const char *tags_of(const char *sql)
{
        static char text[1000];
        struct sql_text t = scan(sql);
        size_t n = 0;

        text[0] = '\0';
        for (size_t i = 0; i < t.n_tags; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s%.*s=%.*s", i ? " " : "",
                                      t.tags[i].scope, (int)t.tags[i].key.len, t.tags[i].key.ptr,
                                      (int)t.tags[i].value.len, t.tags[i].value.ptr);
        return text;
}

static void comments_give_their_tags(void **state)
{
        static const struct {
                const char *sql, *tags;
        } cases[] = {
                {"/* weir: id=job:nightly tier=deferrable */ SELECT 1",
                 "weir.id=job:nightly weir.tier=deferrable"},
                {"/*weir:id=a,tier=high*/ SELECT 1", "weir.id=a weir.tier=high"},
                {"/* weir: id='a b' */ SELECT 1", "weir.id=a b"},
                {"SELECT 1 /* weir: id=x */", "weir.id=x"},
                {"SELECT /* weir: id=x */ 1", "weir.id=x"},
                {"SELECT a /* weir: id=x */ FROM t", ""},
                {"SELECT a /* weir: id=x */;", "weir.id=x"},
                {"SELECT a FROM t /* weir: id=x */ /* app='y' */ ; -- z", "weir.id=x app=y"},
                {"SELECT a FROM t /* a=1 */ WHERE b /* b=2 */", "b=2"},
                {"/*vt+ WORKLOAD_NAME=x PRIORITY=7 SKIP_QUERY_PLAN_CACHE */ SELECT a FROM t",
                 "vt.WORKLOAD_NAME=x vt.PRIORITY=7 vt.SKIP_QUERY_PLAN_CACHE="},
                {"SELECT /*vt+ PRIORITY=7 */ a FROM t", "vt.PRIORITY=7"},
                {"SELECT a FROM t /*action='%2Fusers*',framework='django%3A2.2'*/",
                 "action=%2Fusers* framework=django%3A2.2"},
                {"SELECT a FROM t /* a='it\\'s' , b = 'x,y' */", "a=it\\'s b=x,y"},
                {"SELECT a FROM t /*application:Shop,controller:users,action:show*/",
                 "application=Shop controller=users action=show"},
                {"/* ApplicationName=DBeaver 7.2 - Main */ SELECT 1",
                 "ApplicationName=DBeaver 7.2 - Main"},
                {"/* just words, and more */ SELECT 1", ""},
                {"/* a='x */ SELECT 1", "a=x"},
                {"/* a= */ SELECT 1", "a="},
                {"/*+ MAX_EXECUTION_TIME(1000) */ SELECT 1", ""},
                {"/*!50000 a='b' */ SELECT 1", ""},
                {"-- weir: id=x\nSELECT 1", ""},
                {"SELECT '/* weir: id=x */'", ""},
                {"/* weir: */ SELECT 1", ""},
                {"/* weir: = , =x id=y */ SELECT 1", "weir.id=y"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                const char *tags = tags_of(cases[i].sql);
                if (strcmp(tags, cases[i].tags) != 0)
                        fail_msg("%s gives '%s', not '%s'", cases[i].sql, tags, cases[i].tags);
        }
}

static void tags_are_found_by_name_the_first_of_several(void **state)
{
        struct sql_text t = scan("/* id=1 */ /* weir: id=2 id=3 */ /*vt+ id=4 */ SELECT 1");

        (void)state;
        assert_slice(sql_text_tag(&t, "id"), "1");
        assert_slice(sql_text_tag(&t, "weir.id"), "2");
        assert_slice(sql_text_tag(&t, "vt.id"), "4");
        assert_null(sql_text_tag(&t, "weir.tier").ptr);
        assert_null(sql_text_tag(&t, "weir.").ptr);
        t = scan("/*a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8,i=9,j=10,k=11,l=12,m=13*/ SELECT 1");
        assert_int_equal(t.n_tags, SQL_TAGS_MAX);
        assert_slice(sql_text_tag(&t, "l"), "12");
}

static void values_are_decoded_and_cut(void **state)
{
        char text[8];

        (void)state;
        assert_int_equal(sql_tag_decode(SLICE_LIT("a%2Fb"), text, sizeof(text)), 3);
        same(text, "a/b");
        assert_int_equal(sql_tag_decode(SLICE_LIT("it\\'s"), text, sizeof(text)), 4);
        same(text, "it's");
        assert_int_equal(sql_tag_decode(SLICE_LIT("%"), text, sizeof(text)), 1);
        same(text, "%");
        (void)sql_tag_decode(SLICE_LIT("%2%zz%4"), text, sizeof(text));
        same(text, "%2%zz%4");
        assert_int_equal(sql_tag_decode(SLICE_LIT("123456789"), text, sizeof(text)), 7);
        same(text, "1234567");
        assert_int_equal(sql_tag_decode(SLICE_LIT("a\\"), text, sizeof(text)), 2);
        assert_int_equal(sql_tag_decode(SLICE_NONE, text, sizeof(text)), 0);
        same(text, "");
        assert_int_equal(sql_tag_decode(SLICE_LIT("a"), text, 0), 0);
}

/* ---- the digest ---- */

static const struct {
        const char *text;
        const char *sql[8];
} digests[] = {
        {"select a from t where id = ?",
         {"SELECT a FROM t WHERE id = 5", "select a from t where id=6;",
          "Select  a\n\tFrom t Where id = 'x' -- c", "SELECT/**/a FROM t WHERE id = ?",
          "SELECT a FROM t WHERE id = -5.5e-3", "SELECT a FROM t WHERE id = 0x1F /* tag */",
          "SELECT a FROM t WHERE id = x'00'", "SELECT a FROM t WHERE id=NULL"}},
        {"select a from t where id in(?)",
         {"SELECT a FROM t WHERE id IN (1)", "SELECT a FROM t WHERE id IN (1,2, 3)",
          "SELECT a FROM t WHERE id IN ('a', \"b\", -3)", "SELECT a FROM t WHERE id IN (?,?)",
          "SELECT a FROM t WHERE id IN (.5, 1e10, +2)"}},
        {"insert into t(a, b) values(?)",
         {"INSERT INTO t (a, b) VALUES (1, 2)", "INSERT INTO t (a,b) VALUES (1,2),(3,NULL)",
          "INSERT INTO t (a,b) VALUES (1,'a''b'),('\\'',true),(5,-6)",
          "insert into t(a,b)values(?,?),(?,?)"}},
        {"insert into t values(?, now()), (?, now())",
         {"INSERT INTO t VALUES (1, NOW()), (2, NOW())"}},
        {"select count(*), `a b`.c from db.t where x >= ? and y is not null",
         {"SELECT COUNT(*), `a b`.c FROM db.t WHERE x >= 5 AND y IS NOT NULL",
          "select count( * ),`a b` . c from db . t where x>=5 and y is not null;;"}},
        {"select a - ? from t", {"SELECT a - 5 FROM t", "SELECT a-6 FROM t"}},
        {"select ?", {"SELECT 1", "SELECT 1, 2", "SELECT -1", "SELECT 'a' 'b'", "SELECT N'x'"}},
        {"select @@version, @x := ?", {"SELECT @@version, @x := 5"}},
        {"select a; select b", {"SELECT a; SELECT b", ";SELECT a;;SELECT b;"}},
        {"select sql_no_cache a", {"SELECT /*!40001 SQL_NO_CACHE */ a", "SELECT SQL_NO_CACHE a"}},
        {"select `Big`, 1st from 2020_sales",
         {"SELECT `Big`, 1st FROM 2020_sales", "select `Big`,1ST from 2020_SALES"}},
        {"", {"", " ", ";", "/* c */", "-- c"}},
};

static void statements_that_differ_in_literals_have_one_digest(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(digests); i++) {
                uint64_t first = sql_digest(slice_str(digests[i].sql[0]), NULL);
                for (size_t k = 0; k < 8 && digests[i].sql[k]; k++) {
                        struct slice sql = slice_str(digests[i].sql[k]);
                        char text[SQL_DIGEST_TEXT];
                        uint64_t digest = sql_digest(sql, text);
                        if (strcmp(text, digests[i].text) != 0)
                                fail_msg("%s gives '%s', not '%s'", sql.ptr, text, digests[i].text);
                        if (digest != first || sql_digest(sql, NULL) != first)
                                fail_msg("%s has another digest than %s", sql.ptr,
                                         digests[i].sql[0]);
                }
        }
}

static void other_statements_have_other_digests(void **state)
{
        static const char *const all[] = {
                "SELECT a",        "SELECT b",         "SELECT ab",          "SELECT a b",
                "SELECT a.b",      "SELECT `a`",       "SELECT `A`",         "SELECT a, b",
                "SELECT abcdefgh", "SELECT abcdefghi", "SELECT abcdefgh i",  "SELECT a = 1",
                "SELECT a > 1",    "SELECT a >= 1",    "SELECT a IS NULL",   "SELECT a IS NOT NULL",
                "SELECT (1)",      "SELECT a(1)",      "SELECT a; SELECT b", "INSERT a",
                "SELECT (1), (a)", "SELECT (1), a",    "SELECT 1, a",        "SELECT - a",
                "SELECT \xc3\xa4", "SELECT \xc3\x84",  "SELECT 1x",          "SELECT 1y",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                for (size_t k = 0; k < i; k++)
                        if (sql_digest(slice_str(all[i]), NULL) ==
                            sql_digest(slice_str(all[k]), NULL))
                                fail_msg("'%s' and '%s' are the same", all[i], all[k]);
}

/* Digests stand in the files of users. */
static void a_digest_never_changes(void **state)
{
        (void)state;
        assert_int_equal(sql_digest(SLICE_LIT("SELECT a FROM t WHERE id = 5"), NULL),
                         0xf4eb45ee6a5d477dULL);
        assert_int_equal(
                sql_digest(SLICE_LIT("INSERT INTO customer_orders (`a`) VALUES (1), (2)"), NULL),
                0xed83d89d13a08124ULL);
}

static void the_text_is_cut_at_a_character(void **state)
{
        char sql[2000], text[SQL_DIGEST_TEXT];

        (void)state;
        for (size_t at = 0; at < 4; at++) {
                size_t n = (size_t)snprintf(sql, sizeof(sql), "SELECT %.*s", (int)at, "aaaa");
                for (int i = 0; i < 300; i++)
                        n += (size_t)snprintf(sql + n, sizeof(sql) - n, "\xc3\xa4");
                (void)sql_digest(slice_make(sql, n), text);
                assert_true(strlen(text) >= SQL_DIGEST_TEXT - 6);
                assert_true(slice_is_utf8(slice_str(text)));
                same(text + strlen(text) - 3, "...");
        }
        (void)sql_digest(SLICE_LIT("SELECT `a\n\xff`"), text);
        same(text, "select `a??`");
}

/* A long list is one literal, however long: the text is that of the whole, not of its beginning. */
static void a_long_list_leaves_room_for_what_follows(void **state)
{
        char sql[9000], text[SQL_DIGEST_TEXT];
        size_t n = (size_t)snprintf(sql, sizeof(sql), "SELECT a FROM t WHERE a IN (0");

        (void)state;
        for (int i = 1; i < 1000; i++)
                n += (size_t)snprintf(sql + n, sizeof(sql) - n, ", %d", i);
        n += (size_t)snprintf(sql + n, sizeof(sql) - n, ") LIMIT 1");
        (void)sql_digest(slice_make(sql, n), text);
        same(text, "select a from t where a in(?) limit ?");
}

static void locks_outside_of_transactions_are_told(void **ctx)
{
        (void)ctx;
        static const struct {
                const char *sql;
                bool takes, releases, opens, closes;
        } rows[] = {
                {"LOCK TABLES t WRITE", true, false, false, false},
                {"FLUSH TABLES WITH READ LOCK", true, false, false, false},
                {"BACKUP STAGE START", true, false, false, false},
                {"BACKUP STAGE END", false, true, false, false},
                {"UNLOCK TABLES", false, true, false, false},
                {"LOCK TABLES t WRITE; UPDATE t SET v = 1; UNLOCK TABLES", false, true, false,
                 false},
                {"UNLOCK TABLES; LOCK TABLES t READ", true, false, false, false},
                {"HANDLER t OPEN AS h", false, false, true, false},
                {"HANDLER h READ FIRST", false, false, false, false},
                {"HANDLER h CLOSE", false, false, false, true},
                {"XA COMMIT 'a'", false, false, false, false},
                {"SELECT 'LOCK TABLES t'", false, false, false, false},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct sql_text text;
                sql_text_scan(slice_str(rows[i].sql), &text);
                if (text.takes_tables != rows[i].takes ||
                    text.releases_tables != rows[i].releases ||
                    text.opens_handler != rows[i].opens || text.closes_handler != rows[i].closes)
                        fail_msg("%s", rows[i].sql);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(locks_outside_of_transactions_are_told),
                cmocka_unit_test(a_statement_has_the_kind_of_its_words),
                cmocka_unit_test(kinds_have_names_and_most_never_wait),
                cmocka_unit_test(a_statement_has_the_same_kind_in_other_clothes),
                cmocka_unit_test(every_beginning_of_a_statement_is_read_safely),
                cmocka_unit_test(locks_by_name_are_seen_where_they_are_called),
                cmocka_unit_test(several_statements_are_told_from_one),
                cmocka_unit_test(the_database_of_use_comes_without_quotes),
                cmocka_unit_test(kill_names_a_connection_or_its_statement),
                cmocka_unit_test(comments_give_their_tags),
                cmocka_unit_test(tags_are_found_by_name_the_first_of_several),
                cmocka_unit_test(values_are_decoded_and_cut),
                cmocka_unit_test(statements_that_differ_in_literals_have_one_digest),
                cmocka_unit_test(other_statements_have_other_digests),
                cmocka_unit_test(a_digest_never_changes),
                cmocka_unit_test(the_text_is_cut_at_a_character),
                cmocka_unit_test(a_long_list_leaves_room_for_what_follows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
