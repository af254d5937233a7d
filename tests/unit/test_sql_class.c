/* Classes: which row decides, who that is, and with which tier. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "gate/sql_class.h"

/* Rows are written as "name key=value key=value". */
#define ROW_WORDS 12

struct words {
        char text[400];
        char *word[ROW_WORDS];
        size_t n;
};

static struct words split(const char *line)
{
        struct words w = {.n = 0};

        (void)snprintf(w.text, sizeof(w.text), "%s", line);
        return w;
}

/* After split() has returned: the pointers are into its text. */
static void cut(struct words *w)
{
        char *save = NULL;

        for (char *at = strtok_r(w->text, " ", &save); at; at = strtok_r(NULL, " ", &save)) {
                assert_true(w->n < ROW_WORDS);
                w->word[w->n++] = at;
        }
}

static struct slice *field_of(struct class_row *row, const char *key, size_t len)
{
        if (strlen("door") == len && strncmp(key, "door", len) == 0)
                return &row->door;
        if (strlen("identity") == len && strncmp(key, "identity", len) == 0)
                return &row->identity;
#define X(pattern)                                                                                 \
        if (strlen(#pattern) == len && strncmp(key, #pattern, len) == 0)                           \
                return &row->pattern;
        CLASS_PATTERN_MAP(X)
#undef X
        return NULL;
}

static struct class_row row_of(struct words *w)
{
        cut(w);
        struct class_row row = class_row_make(slice_str(w->word[0]));

        for (size_t i = 1; i < w->n; i++) {
                char *equals = strchr(w->word[i], '=');
                struct slice value = slice_str(equals + 1);
                if (strncmp(w->word[i], "statements", 10) == 0)
                        row.statements = (enum class_statements)class_statements_from_name(value);
                else
                        *field_of(&row, w->word[i], (size_t)(equals - w->word[i])) = value;
        }
        return row;
}

#define ROWS_MAX 16

/* The name of the row that matches, "-": none; the rows end with NULL. */
static void assert_class(const char *const *lines, const struct class_facts *facts,
                         const char *name)
{
        static struct words words[ROWS_MAX];
        struct class_row rows[ROWS_MAX];
        size_t n = 0;

        for (; lines[n]; n++) {
                struct problem problem = {0};
                words[n] = split(lines[n]);
                rows[n] = row_of(&words[n]);
                if (class_row_check(&rows[n], &problem) != OK)
                        fail_msg("%s: %s", lines[n], problem.detail);
        }
        struct class_table *t = class_table_new(rows, n, SLICE_LIT("shop"));
        memset(words, 'x', sizeof(words)); /* the table has copies */
        const struct class_row *row = class_find(t, facts);
        if (!slice_eq(row ? row->name : SLICE_LIT("-"), slice_str(name)))
                fail_msg("'%s': matches '%.*s', not '%s'", lines[0], row ? (int)row->name.len : 1,
                         row ? row->name.ptr : "-", name);
        t = class_table_free(t);
        assert_null(t);
}

static struct class_facts facts_make(void)
{
        return (struct class_facts){
                .user = SLICE_LIT("etl_1"),
                .database = SLICE_LIT("shop"),
                .program = SLICE_LIT("pt-archiver"),
                .address = SLICE_LIT("10.1.2.3"),
                .digest = 0x0123456789abcdefULL,
                .kind = SQL_READ,
        };
}

static void a_row_matches_when_all_that_it_names_does(void **state)
{
        static const struct {
                const char *row;
                bool matches;
        } cases[] = {
                {"a", true},
                {"a user=etl_1", true},
                {"a user=etl*", true},
                {"a user=etl_?", true},
                {"a user=*1", true},
                {"a user=*", true},
                {"a user=ETL*", false},
                {"a user=etl", false},
                {"a user=etl_1x", false},
                {"a user=etl* database=shop", true},
                {"a user=etl* database=blog", false},
                {"a program=pt-*", true},
                {"a program=mysql", false},
                {"a address=10.1.2.3", true},
                {"a address=10.1.*", true},
                {"a address=10.2.*", false},
                {"a address=10.0.0.0/8", true},
                {"a address=10.1.2.0/24", true},
                {"a address=10.1.2.3/32", true},
                {"a address=10.1.2.2/31", true},
                {"a address=10.1.2.4/31", false},
                {"a address=11.0.0.0/8", false},
                {"a address=0.0.0.0/0", true},
                {"a address=::/0", true},
                {"a address=::ffff:10.0.0.0/104", true},
                {"a address=fd00::/8", false},
                {"a digest=0123456789abcdef", true},
                {"a digest=0123456789ABCDEF", true},
                {"a digest=0123456789abcdee", false},
                {"a statements=read", true},
                {"a statements=write", false},
                {"a statements=any", true},
                {"a comment=*", false},
                {"a door=shop", true},
                {"a door=blog", false},
        };
        struct class_facts facts = facts_make();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                assert_class((const char *const[]){cases[i].row, NULL}, &facts,
                             cases[i].matches ? "a" : "-");
}

static void kinds_are_reads_or_writes_or_neither(void **state)
{
        static const struct {
                enum sql_kind kind;
                const char *name;
        } cases[] = {
                {SQL_READ, "r"},  {SQL_SNAPSHOT, "r"}, {SQL_WRITE, "w"}, {SQL_LOCK, "w"},
                {SQL_BEGIN, "-"}, {SQL_PASS, "-"},     {SQL_KINDS, "-"},
        };
        struct class_facts facts = facts_make();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                facts.kind = cases[i].kind;
                assert_class((const char *const[]){"r statements=read", "w statements=write", NULL},
                             &facts, cases[i].name);
        }
}

static void the_row_that_names_more_wins(void **state)
{
        static const struct {
                const char *rows[5];
                const char *name;
        } cases[] = {
                {{"a user=etl*", "b user=etl* database=*"}, "b"},
                {{"a user=etl* database=*", "b user=etl_1"}, "a"},
                {{"a", "b user=*"}, "b"},
                {{"a user=etl*", "b user=etl_*", "c user=etl?1"}, "b"},
                {{"a user=etl*", "b user=e*tl*"}, "a"},
                {{"a user=etl*", "b user=et*_"}, "a"},
                {{"a user=e*1", "b user=et*"}, "a"},
                {{"a user=etl*", "b user=etl* statements=read"}, "b"},
                {{"a user=etl*", "b user=etl* door=shop"}, "b"},
                {{"a user=etl_1 door=blog", "b user=*"}, "b"},
                {{"a user=x database=y program=z", "b user=*"}, "b"},
                {{"a user=etl_1", "b user=etl_1"}, "a"},
                {{"b address=10.0.0.0/8", "a user=etl_1"}, "b"},
        };
        struct class_facts facts = facts_make();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                assert_class(cases[i].rows, &facts, cases[i].name);
}

static void rows_are_shown_in_the_order_in_which_they_are_tried(void **state)
{
        const struct class_row rows[] = {
                class_row_make(SLICE_LIT("all_of_it")),
                {.name = SLICE_LIT("blog"), .door = SLICE_LIT("blog")},
                {.name = SLICE_LIT("etl"), .user = SLICE_LIT("etl*"), .tier = TIER_HIGH},
        };
        struct class_table *t = class_table_new(rows, ARRAY_LEN(rows), SLICE_LIT("shop"));

        (void)state;
        assert_int_equal(class_table_len(t), 2);
        assert_slice(class_table_row(t, 0)->name, "etl");
        assert_int_equal(class_table_row(t, 0)->tier, TIER_HIGH);
        assert_slice(class_table_row(t, 1)->name, "all_of_it");
        assert_int_equal(class_table_row(t, 1)->wait_ms, -1);
        class_table_free(t);
        t = class_table_new(NULL, 0, SLICE_NONE);
        assert_null(class_find(t, &(struct class_facts){.kind = SQL_KINDS}));
        class_table_free(t);
}

static void comments_match_by_tag_or_by_the_id_of_weir(void **state)
{
        static const struct {
                const char *comment, *sql;
                bool matches;
        } cases[] = {
                {"a comment=application=shop", "SELECT a FROM t /*application:shop*/", true},
                {"a comment=application=*", "SELECT a FROM t /*x='1',application='shop'*/", true},
                {"a comment=route=/users*", "SELECT a FROM t /*route='%2Fusers%2F5'*/", true},
                {"a comment=job:*", "/* weir: id=job:nightly */ SELECT 1", true},
                {"a comment=weir.id=job:*", "/* weir: id=job:nightly */ SELECT 1", true},
                {"a comment=vt.PRIORITY=?0", "/*vt+ PRIORITY=20 */ SELECT 1", true},
                {"a comment=shop", "SELECT a FROM t /*application:shop*/", false},
                {"a comment=application=shop", "SELECT a FROM t", false},
                {"a comment=*shop*", "SELECT 'shop=shop'", false},
        };
        struct class_facts facts = facts_make();
        struct sql_text text;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                sql_text_scan(slice_str(cases[i].sql), &text);
                facts.text = &text;
                assert_class((const char *const[]){cases[i].comment, NULL}, &facts,
                             cases[i].matches ? "a" : "-");
        }
}

static void a_long_fact_is_compared_by_its_beginning(void **state)
{
        struct class_facts facts = facts_make();
        struct sql_text text;
        char sql[2000], key[600];

        (void)state;
        memset(key, 'k', sizeof(key));
        (void)snprintf(sql, sizeof(sql), "/*%.*s=1, a=%.*s*/ SELECT 1", (int)sizeof(key), key, 600,
                       key);
        sql_text_scan(slice_str(sql), &text);
        assert_int_equal(text.n_tags, 2);
        facts.text = &text;
        facts.user = slice_make(key, sizeof(key));
        assert_class((const char *const[]){"a user=k*k comment=a=k*", NULL}, &facts, "a");
        assert_class((const char *const[]){"a comment=kkk*", NULL}, &facts, "-");
}

static void addresses_of_ipv6_match_networks(void **state)
{
        static const struct {
                const char *row, *address;
                bool matches;
        } cases[] = {
                {"a address=fd00::/8", "fd12:3456::1", true},
                {"a address=fd00::/8", "fe80::1", false},
                {"a address=fe80::/10", "fe80::1%eth0", true},
                {"a address=::1/128", "::1", true},
                {"a address=::1/128", "::2", false},
                {"a address=2001:db8::/33", "2001:db8:7fff::1", true},
                {"a address=2001:db8::/33", "2001:db8:8000::1", false},
                {"a address=1:2:3:4:5:6:7:8/128", "1:2:3:4:5:6:7:8", true},
                {"a address=1:2:3:4:5:6:7:8/128", "1:2:3:4:5:6::8", false},
                {"a address=1:2:3:4:5:6:0:8/128", "1:2:3:4:5:6:0:8", true},
                {"a address=10.0.0.0/8", "::ffff:10.1.1.1", true},
                {"a address=10.0.0.0/8", "::10.1.1.1", false},
                {"a address=10.0.0.0/8", "10.1.1", false},
                {"a address=10.0.0.0/8", "10.1.1.256", false},
                {"a address=10.0.0.0/8", "", false},
                {"a address=0.0.0.0/0", "localhost", false},
                {"a address=::/0", ":::", false},
                {"a address=::/0", "1:2:3:4:5:6:7:8:9", false},
                {"a address=::/0", "12345::", false},
                {"a address=::/0", "1:", false},
                {"a address=::/0", "1::2::3", false},
                {"a address=::/0", "1:2:3:4:5:6:7:1.2.3.4", false},
                {"a address=::/0", "1:2:3:4:5:6:1.2.3.4", true},
                {"a address=fd*", "fd00::1", true},
        };
        struct class_facts facts = facts_make();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                facts.address = slice_str(cases[i].address);
                assert_class((const char *const[]){cases[i].row, NULL}, &facts,
                             cases[i].matches ? "a" : "-");
        }
}

static void wrong_rows_are_refused_with_what_is_allowed(void **state)
{
        static const struct {
                const char *row, *words;
        } cases[] = {
                {"all", "no name for a class"},
                {"a:b", "no name for a class"},
                {"a/b", "no name for a class"},
                {"a address=10.0.0.0/33", "'10.0.0.0/33' is no network"},
                {"a address=10.0/8", "is no network"},
                {"a address=fd00::/129", "write \"10.0.0.0/8\""},
                {"a address=/8", "is no network"},
                {"a address=10.0.0.0/", "is no network"},
                {"a digest=123", "digest '123' is not 16 hex digits"},
                {"a digest=0123456789abcdeg", "16 hex digits"},
                {"a identity=a::b", "part 2 of the identity is empty"},
                {"a user=a\x01", "user must be UTF-8"},
                {"a comment=\xff", "comment must be UTF-8"},
        };
        struct problem problem;
        char longest[CLASS_PATTERN_BYTES + 1];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct words w = split(cases[i].row);
                struct class_row row = row_of(&w);
                problem = (struct problem){0};
                assert_int_equal(class_row_check(&row, &problem), ERR_BADARG);
                has(problem.detail, cases[i].words);
        }
        memset(longest, 'p', sizeof(longest));
        struct class_row row = class_row_make(SLICE_LIT("a"));
        row.program = slice_make(longest, sizeof(longest));
        assert_int_equal(class_row_check(&row, &problem), ERR_BADARG);
        has(problem.detail, "program has 256 bytes; at most 255");
        row.program.len--;
        row.rate = 0.5;
        memcpy(row.sqlstate, "40001", 6);
        assert_int_equal(class_row_check(&row, &problem), OK);
        memcpy(row.sqlstate, "4000", 5);
        assert_int_equal(class_row_check(&row, &problem), ERR_BADARG);
        has(problem.detail, "'4000' is no SQLSTATE");
        row.sqlstate[0] = '\0';
        row.rate = NAN;
        assert_int_equal(class_row_check(&row, &problem), ERR_BADARG);
        row = class_row_make(SLICE_NONE);
        assert_int_equal(class_row_check(&row, NULL), ERR_BADARG);
}

/* ---- identities ---- */

static void assert_identity(const struct class_row *row, const struct class_facts *facts,
                            const char *want, enum class_source source)
{
        char got[IDENTITY_BYTES + 1];
        struct identity id;
        enum class_source from = class_identity(row, facts, got, sizeof(got));

        same(got, want);
        assert_int_equal(identity_parse(slice_str(got), &id, NULL), OK);
        if (from != source)
                fail_msg("'%s' from %s, not from %s", got, class_source_text(from),
                         class_source_text(source));
}

/* Each source is left out after it was seen to decide. */
static void the_identity_comes_from_the_best_source(void **state)
{
        struct class_facts facts = facts_make();
        struct class_row row = class_row_make(SLICE_LIT("nightly"));
        struct sql_text text;

        (void)state;
        row.identity = SLICE_LIT("reports:etl");
        sql_text_scan(
                SLICE_LIT("/* weir: id=job:7 */ /*vt+ WORKLOAD_NAME=w */ /*app='x'*/ SELECT 1"),
                &text);
        facts.text = &text;
        facts.attribute_id = SLICE_LIT("att:id");
        facts.attribute_application = SLICE_LIT("att:app");
        assert_identity(&row, &facts, "reports:etl", CLASS_SOURCE_ROW_IDENTITY);
        row.identity = SLICE_NONE;
        assert_identity(&row, &facts, "job:7", CLASS_SOURCE_WEIR_ID);
        sql_text_scan(
                SLICE_LIT("/* weir: tier=high */ /*vt+ WORKLOAD_NAME=w */ /*app='x'*/ SELECT 1"),
                &text);
        assert_identity(&row, &facts, "nightly", CLASS_SOURCE_ROW_NAME);
        assert_identity(NULL, &facts, "x", CLASS_SOURCE_APPLICATION);
        sql_text_scan(SLICE_LIT("/*vt+ WORKLOAD_NAME=w */ SELECT 1"), &text);
        assert_identity(NULL, &facts, "w", CLASS_SOURCE_WORKLOAD);
        facts.text = NULL;
        assert_identity(NULL, &facts, "att:id", CLASS_SOURCE_ATTRIBUTE_ID);
        facts.attribute_id = SLICE_NONE;
        assert_identity(NULL, &facts, "att_app", CLASS_SOURCE_ATTRIBUTE_APPLICATION);
        facts.attribute_application = SLICE_NONE;
        assert_identity(NULL, &facts, "pt-archiver:etl_1", CLASS_SOURCE_PROGRAM);
        facts.program = SLICE_NONE;
        assert_identity(NULL, &facts, "etl_1", CLASS_SOURCE_USER);
        facts.user = SLICE_NONE;
        assert_identity(NULL, &facts, "unknown", CLASS_SOURCE_NOBODY);
}

static void an_identity_is_made_valid(void **state)
{
        static const struct {
                const char *id, *want;
        } cases[] = {
                {"a%20b", "a_b"},
                {"a/b", "a_b"},
                {"all", "all_"},
                {"x:all", "x:all_"},
                {"a::b", "a:b"},
                {":a:", "a"},
                {"%00", "_"},
                {"%c3%a4", "\xc3\xa4"},
                {"%c3", "_"},
                {"%c2%80x", "__x"},
                {"1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8"},
        };
        struct class_facts facts = facts_make();
        char sql[700], many[600], want[IDENTITY_BYTES + 1];
        struct sql_text text;

        (void)state;
        facts.text = &text;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                (void)snprintf(sql, sizeof(sql), "/* weir: id=%s */ SELECT 1", cases[i].id);
                sql_text_scan(slice_str(sql), &text);
                assert_identity(NULL, &facts, cases[i].want, CLASS_SOURCE_WEIR_ID);
        }
        /* Nothing is left of ":::", so the next source counts. */
        sql_text_scan(SLICE_LIT("/* weir: id=::: */ SELECT 1"), &text);
        assert_identity(NULL, &facts, "pt-archiver:etl_1", CLASS_SOURCE_PROGRAM);
        facts.program = SLICE_LIT("C:\\Program Files\\mysql dump.exe");
        assert_identity(NULL, &facts, "mysql_dump.exe:etl_1", CLASS_SOURCE_PROGRAM);
        facts.program = SLICE_LIT("/usr/bin/");
        assert_identity(NULL, &facts, "_usr_bin_:etl_1", CLASS_SOURCE_PROGRAM);
        memset(many, 'm', sizeof(many));
        facts.program = slice_make(many, sizeof(many));
        memset(want, 'm', IDENTITY_PART_BYTES);
        (void)snprintf(want + IDENTITY_PART_BYTES, sizeof(want) - IDENTITY_PART_BYTES, ":etl_1");
        assert_identity(NULL, &facts, want, CLASS_SOURCE_PROGRAM);
}

/* Any bytes of any length give a valid identity. */
static void every_attribute_gives_a_valid_identity(void **state)
{
        static const char bytes[] = "al:/ \xc3\xa4\xc2\x80\xff"
                                    "x";
        uint64_t seed = 7;

        (void)state;
        for (int round = 0; round < 20000; round++) {
                char text[400], got[IDENTITY_BYTES + 1];
                struct identity id;
                size_t len = (size_t)(seed >> 33) % sizeof(text);
                bool is_long = round % 2;
                for (size_t i = 0; i < len; i++) {
                        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
                        text[i] = is_long && seed >> 60 ? 'l' : bytes[(seed >> 33) % 13];
                }
                seed += 99;
                struct class_facts facts = {.attribute_id = slice_make(text, len),
                                            .user = SLICE_LIT("u")};
                (void)class_identity(NULL, &facts, got, sizeof(got));
                if (identity_parse(slice_str(got), &id, NULL) != OK)
                        fail_msg("round %d: '%s' is no identity", round, got);
        }
}

static void a_valid_identity_stays_as_it_is_up_to_its_last_byte(void **state)
{
        char text[IDENTITY_BYTES + 1];
        struct class_facts facts = facts_make();
        struct class_row row = class_row_make(SLICE_LIT("a"));

        (void)state;
        memset(text, 'x', sizeof(text));
        text[64] = text[129] = text[194] = text[252] = ':';
        text[IDENTITY_BYTES] = '\0';
        row.identity = slice_str(text);
        assert_int_equal(class_row_check(&row, NULL), OK);
        assert_identity(&row, &facts, text, CLASS_SOURCE_ROW_IDENTITY);
}

/* ---- tiers ---- */

static void a_comment_lowers_the_tier_and_raises_it_only_where_allowed(void **state)
{
        static const struct {
                const char *sql;
                int row; /* its tier */
                enum tier lower, any;
        } cases[] = {
                {"SELECT 1", -1, TIER_NORMAL, TIER_NORMAL},
                {"SELECT 1", TIER_HIGH, TIER_HIGH, TIER_HIGH},
                {"/* weir: tier=deferrable */ SELECT 1", -1, TIER_DEFERRABLE, TIER_DEFERRABLE},
                {"/* weir: tier=HIGH */ SELECT 1", -1, TIER_NORMAL, TIER_HIGH},
                {"/* weir: tier=normal */ SELECT 1", TIER_CRITICAL, TIER_NORMAL, TIER_NORMAL},
                {"/* weir: tier=normal */ SELECT 1", TIER_DEFERRABLE, TIER_DEFERRABLE, TIER_NORMAL},
                {"/* weir: tier=urgent */ SELECT 1", -1, TIER_NORMAL, TIER_NORMAL},
                {"/*vt+ PRIORITY=0 */ SELECT 1", -1, TIER_NORMAL, TIER_CRITICAL},
                {"/*vt+ PRIORITY=1 */ SELECT 1", -1, TIER_NORMAL, TIER_HIGH},
                {"/*vt+ PRIORITY=33 */ SELECT 1", -1, TIER_NORMAL, TIER_HIGH},
                {"/*vt+ PRIORITY=34 */ SELECT 1", TIER_HIGH, TIER_NORMAL, TIER_NORMAL},
                {"/*vt+ PRIORITY=66 */ SELECT 1", TIER_HIGH, TIER_NORMAL, TIER_NORMAL},
                {"/*vt+ PRIORITY=67 */ SELECT 1", -1, TIER_DEFERRABLE, TIER_DEFERRABLE},
                {"/*vt+ PRIORITY=100 */ SELECT 1", -1, TIER_DEFERRABLE, TIER_DEFERRABLE},
                {"/*vt+ PRIORITY=101 */ SELECT 1", -1, TIER_NORMAL, TIER_NORMAL},
                {"/*vt+ PRIORITY=-1 */ SELECT 1", -1, TIER_NORMAL, TIER_NORMAL},
                {"/*vt+ PRIORITY */ SELECT 1", -1, TIER_NORMAL, TIER_NORMAL},
                {"/*vt+ PRIORITY=100 */ /* weir: tier=high */ SELECT 1", -1, TIER_NORMAL,
                 TIER_HIGH},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct class_row row = class_row_make(SLICE_LIT("a"));
                struct sql_text text;
                struct class_facts facts = {.text = &text};
                sql_text_scan(slice_str(cases[i].sql), &text);
                row.tier = cases[i].row;
                const struct class_row *given = row.tier < 0 && i % 2 ? NULL : &row;
                if (class_tier(given, &facts, TIER_NORMAL, false) != cases[i].lower ||
                    class_tier(given, &facts, TIER_NORMAL, true) != cases[i].any)
                        fail_msg("%s over %d", cases[i].sql, cases[i].row);
                facts.text = NULL;
                assert_int_equal(class_tier(given, &facts, TIER_HIGH, true),
                                 row.tier < 0 ? TIER_HIGH : row.tier);
        }
}

static void a_statement_is_explained(void **state)
{
        const struct class_row rows[] = {
                {.name = SLICE_LIT("etl"),
                 .user = SLICE_LIT("etl*"),
                 .statements = CLASS_STATEMENTS_WRITE},
        };
        struct class_table *t = class_table_new(rows, 1, SLICE_NONE);
        struct class_facts facts = facts_make();
        struct class_explanation e;

        (void)state;
        class_explain(t, &facts, SLICE_LIT("UPDATE t SET a = 5 WHERE id IN (1, 2)"), &e);
        assert_slice(e.row->name, "etl");
        same(e.identity, "etl");
        assert_int_equal(e.source, CLASS_SOURCE_ROW_NAME);
        assert_int_equal(e.kind, SQL_WRITE);
        assert_true(e.can_wait);
        same(e.digest_text, "update t set a = ? where id in(?)");
        class_explain(t, &facts, SLICE_LIT("COMMIT /* weir: id=x:y */"), &e);
        assert_null(e.row);
        same(e.identity, "x:y");
        same(class_source_text(e.source), "the id of the weir comment");
        assert_false(e.can_wait);
        class_table_free(t);
}

static void statements_have_names(void **state)
{
        (void)state;
        assert_int_equal(class_statements_from_name(SLICE_LIT("Write")), CLASS_STATEMENTS_WRITE);
        assert_int_equal(class_statements_from_name(SLICE_LIT("all")), -1);
        same(class_statements_name(CLASS_STATEMENTS_READ), "read");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_row_matches_when_all_that_it_names_does),
                cmocka_unit_test(kinds_are_reads_or_writes_or_neither),
                cmocka_unit_test(the_row_that_names_more_wins),
                cmocka_unit_test(rows_are_shown_in_the_order_in_which_they_are_tried),
                cmocka_unit_test(comments_match_by_tag_or_by_the_id_of_weir),
                cmocka_unit_test(a_long_fact_is_compared_by_its_beginning),
                cmocka_unit_test(addresses_of_ipv6_match_networks),
                cmocka_unit_test(wrong_rows_are_refused_with_what_is_allowed),
                cmocka_unit_test(the_identity_comes_from_the_best_source),
                cmocka_unit_test(an_identity_is_made_valid),
                cmocka_unit_test(every_attribute_gives_a_valid_identity),
                cmocka_unit_test(a_valid_identity_stays_as_it_is_up_to_its_last_byte),
                cmocka_unit_test(a_comment_lowers_the_tier_and_raises_it_only_where_allowed),
                cmocka_unit_test(a_statement_is_explained),
                cmocka_unit_test(statements_have_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
