/* The kind of a statement, its locks and the tags in its comments.
 *
 * One pass over the tokens (sql_lex_int.h).  The first word says what most statements are; of some
 * the next ones are needed, and of a SELECT all of them: it waits for nothing when it reads no
 * table and calls nothing that is not known to return at once, and it counts as a write when it
 * takes locks.  Words are looked at only in pairs with the token before them, so nothing is read
 * twice, and no nesting is followed: a statement costs the same however it is nested.
 *
 * Rejected: a parser.  It would refuse what a newer server understands, and the questions here are
 * few.  Where the words do not tell, the statement counts as a write. */
#include "wire/sql_text.h"

#include "wire/sql_lex_int.h"

/* The first words of statements that are no plain write, the most frequent ones first. */
#define VERB_MAP(X)                                                                                \
        X(SELECT, "select")                                                                        \
        X(INSERT, "insert")                                                                        \
        X(UPDATE, "update")                                                                        \
        X(DELETE, "delete")                                                                        \
        X(COMMIT, "commit")                                                                        \
        X(BEGIN, "begin")                                                                          \
        X(SET, "set")                                                                              \
        X(ROLLBACK, "rollback")                                                                    \
        X(START, "start")                                                                          \
        X(SHOW, "show")                                                                            \
        X(WITH, "with")                                                                            \
        X(REPLACE, "replace")                                                                      \
        X(USE, "use")                                                                              \
        X(SAVEPOINT, "savepoint")                                                                  \
        X(RELEASE, "release")                                                                      \
        X(DO, "do")                                                                                \
        X(CREATE, "create")                                                                        \
        X(ALTER, "alter")                                                                          \
        X(DROP, "drop")                                                                            \
        X(EXPLAIN, "explain")                                                                      \
        X(DESCRIBE, "describe")                                                                    \
        X(DESC, "desc")                                                                            \
        X(ANALYZE, "analyze")                                                                      \
        X(TABLE, "table")                                                                          \
        X(VALUES, "values")                                                                        \
        X(KILL, "kill")                                                                            \
        X(LOCK, "lock")                                                                            \
        X(UNLOCK, "unlock")                                                                        \
        X(FLUSH, "flush")                                                                          \
        X(XA, "xa")                                                                                \
        X(PREPARE, "prepare")                                                                      \
        X(DEALLOCATE, "deallocate")                                                                \
        X(HANDLER, "handler")                                                                      \
        X(BACKUP, "backup")                                                                        \
        X(HELP, "help")                                                                            \
        X(GET, "get")                                                                              \
        X(IF, "if")                                                                                \
        X(CASE, "case")                                                                            \
        X(LOOP, "loop")                                                                            \
        X(WHILE, "while")                                                                          \
        X(REPEAT, "repeat")                                                                        \
        X(FOR, "for")

enum verb {
        VERB_NONE,  /* there is no statement */
        VERB_OTHER, /* any other word */
#define X(id, word) VERB_##id,
        VERB_MAP(X)
#undef X
};

/* Functions that return at once, and words that can stand before a parenthesis without being a
 * function.  SELECT of these without FROM never waits. */
#define QUICK_MAP(X)                                                                               \
        X("database")                                                                              \
        X("schema")                                                                                \
        X("connection_id")                                                                         \
        X("version")                                                                               \
        X("now")                                                                                   \
        X("last_insert_id")                                                                        \
        X("found_rows")                                                                            \
        X("row_count")                                                                             \
        X("user")                                                                                  \
        X("current_user")                                                                          \
        X("session_user")                                                                          \
        X("system_user")                                                                           \
        X("current_role")                                                                          \
        X("release_lock")                                                                          \
        X("release_all_locks")                                                                     \
        X("is_free_lock")                                                                          \
        X("is_used_lock")                                                                          \
        X("unix_timestamp")                                                                        \
        X("utc_timestamp")                                                                         \
        X("utc_date")                                                                              \
        X("utc_time")                                                                              \
        X("current_timestamp")                                                                     \
        X("current_date")                                                                          \
        X("current_time")                                                                          \
        X("curdate")                                                                               \
        X("curtime")                                                                               \
        X("sysdate")                                                                               \
        X("localtime")                                                                             \
        X("localtimestamp")                                                                        \
        X("timediff")                                                                              \
        X("uuid")                                                                                  \
        X("concat")                                                                                \
        X("concat_ws")                                                                             \
        X("coalesce")                                                                              \
        X("ifnull")                                                                                \
        X("nullif")                                                                                \
        X("if")                                                                                    \
        X("cast")                                                                                  \
        X("convert")                                                                               \
        X("char")                                                                                  \
        X("charset")                                                                               \
        X("collation")                                                                             \
        X("lower")                                                                                 \
        X("upper")                                                                                 \
        X("select")                                                                                \
        X("distinct")                                                                              \
        X("as")                                                                                    \
        X("in")                                                                                    \
        X("and")                                                                                   \
        X("or")                                                                                    \
        X("not")                                                                                   \
        X("when")                                                                                  \
        X("then")                                                                                  \
        X("else")                                                                                  \
        X("case")                                                                                  \
        X("where")                                                                                 \
        X("union")                                                                                 \
        X("all")

/* Comments after the last token that are kept until it is known to be the last. */
#define TRAILING_MAX 4

/* Tokens take turns in a ring: the newest and the two before it are looked at. */
#define TOKENS 4

struct scan {
        struct sql_lex lex;
        struct sql_token tokens[TOKENS]; /* the last ones; comments are none */
        unsigned now;                    /* which of them is the newest */
        struct sql_text *ret;
        size_t n_tokens; /* without ';' */
        struct slice trailing[TRAILING_MAX];
        size_t n_trailing, trailing_at; /* trailing_at: n_tokens before the first of them */
        /* Of the statement being read. */
        bool reads_table;   /* or it calls what may take its time */
        bool takes_locks;   /* FOR UPDATE and the like, INTO OUTFILE */
        bool has_body;      /* a ';' belongs to it: CREATE PROCEDURE, BEGIN NOT ATOMIC */
        bool only_releases; /* each call in it releases locks, and there is one */
};

const char *sql_kind_name(enum sql_kind kind)
{
        static const char *const names[] = {
#define X(id, name, can_wait) name,
                SQL_KIND_MAP(X)
#undef X
        };

        return names[kind];
}

bool sql_kind_can_wait(enum sql_kind kind)
{
        static const bool can[] = {
#define X(id, name, can_wait) can_wait,
                SQL_KIND_MAP(X)
#undef X
        };

        return can[kind];
}

/* ---- tags ---- */

static bool is_space(char c)
{
        return (uint8_t)c <= ' ';
}

static struct slice trim(struct slice s)
{
        while (s.len && is_space(*s.ptr))
                s = slice_make(s.ptr + 1, s.len - 1);
        while (s.len && is_space(s.ptr[s.len - 1]))
                s.len--;
        return s;
}

static void add_tag(struct sql_text *ret, const char *scope, struct slice key, struct slice value)
{
        if (key.len && ret->n_tags < SQL_TAGS_MAX)
                ret->tags[ret->n_tags++] = (struct sql_tag){scope, key, value};
}

static bool is_key_byte(char c)
{
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
               c == '-' || c == '.' || c == '%';
}

/* How many bytes of s are a value in quotes, with them. */
static size_t quoted_len(struct slice s)
{
        return (size_t)(sql_skip_quoted(s.ptr + 1, s.ptr + s.len, '\'') - s.ptr);
}

/* "key=value key='value' flag", with white space or commas between them. */
static void read_words(struct sql_text *ret, const char *scope, struct slice s)
{
        size_t at = 0;

        while (at < s.len) {
                size_t from = at;
                while (at < s.len && is_key_byte(s.ptr[at]))
                        at++;
                struct slice key = slice_make(s.ptr + from, at - from), value = SLICE_LIT("");
                if (at < s.len && s.ptr[at] == '=') {
                        struct slice rest = slice_make(s.ptr + at + 1, s.len - at - 1);
                        size_t n = 0;
                        while (n < rest.len && !is_space(rest.ptr[n]) && rest.ptr[n] != ',')
                                n++;
                        if (rest.len && *rest.ptr == '\'')
                                n = quoted_len(rest);
                        value = slice_make(rest.ptr, n);
                        at += 1 + n;
                }
                if (value.len >= 2 && *value.ptr == '\'' && value.ptr[value.len - 1] == '\'')
                        value = slice_make(value.ptr + 1, value.len - 2);
                add_tag(ret, scope, key, value);
                if (at == from || key.len == 0)
                        at++;
        }
}

/* The value at the beginning of s, in quotes or up to a comma; *s moves past it. */
static struct slice take_value(struct slice *s)
{
        struct slice value;
        const char *comma = memchr(s->ptr, ',', s->len);
        size_t len = comma ? (size_t)(comma - s->ptr) : s->len;

        if (s->len && *s->ptr == '\'') {
                len = quoted_len(*s);
                bool is_closed = len >= 2 && s->ptr[len - 1] == '\'';
                value = slice_make(s->ptr + 1, len - 1 - is_closed);
        } else {
                value = trim(slice_make(s->ptr, len));
        }
        *s = trim(slice_make(s->ptr + len, s->len - len));
        return value;
}

/* "key='value', key = value" and "key:value,key:value": one pair, and past the comma after it.
 * False: there is no further one, or this is prose. */
static bool read_pair(struct sql_text *ret, struct slice *s)
{
        size_t n = 0;

        *s = trim(*s);
        while (n < s->len && is_key_byte(s->ptr[n]))
                n++;
        struct slice key = slice_make(s->ptr, n), rest = slice_make(s->ptr + n, s->len - n);
        if (trim(rest).len && *trim(rest).ptr == '=')
                rest = trim(rest);
        else if (rest.len == 0 || *rest.ptr != ':')
                return false;
        rest = trim(slice_make(rest.ptr + 1, rest.len - 1));
        struct slice value = take_value(&rest);
        if (key.len == 0)
                return false;
        add_tag(ret, "", key, value);
        bool has_more = rest.len && *rest.ptr == ',';
        *s = has_more ? slice_make(rest.ptr + 1, rest.len - 1) : rest;
        return has_more;
}

static bool takes_prefix(struct slice *s, struct slice prefix)
{
        if (s->len < prefix.len || !slice_eq(slice_make(s->ptr, prefix.len), prefix))
                return false;
        *s = slice_make(s->ptr + prefix.len, s->len - prefix.len);
        return true;
}

static void read_comment(struct sql_text *ret, struct slice comment)
{
        struct slice s = trim(comment);

        if (takes_prefix(&s, SLICE_LIT("weir:")))
                read_words(ret, "weir.", s);
        else if (takes_prefix(&s, SLICE_LIT("vt+")))
                read_words(ret, "vt.", s);
        else
                while (read_pair(ret, &s))
                        ;
}

/* ---- tokens ---- */

/* A comment before the second token counts (Vitess has its directives after the verb); one further
 * back only if nothing follows it. */
static void take_comment(struct scan *s, struct slice comment)
{
        if (s->n_tokens <= 1) {
                read_comment(s->ret, comment);
                return;
        }
        if (s->trailing_at != s->n_tokens)
                s->n_trailing = 0;
        s->trailing_at = s->n_tokens;
        if (s->n_trailing < TRAILING_MAX)
                s->trailing[s->n_trailing++] = comment;
}

static inline const struct sql_token *peek(const struct scan *s)
{
        return &s->tokens[s->now % TOKENS];
}

/* The n-th before it. */
static inline const struct sql_token *before(const struct scan *s, unsigned n)
{
        return &s->tokens[(s->now - n) % TOKENS];
}

static bool at_end(const struct scan *s)
{
        return peek(s)->kind == TOKEN_END || (sql_is_mark(peek(s), ';') && !s->has_body);
}

static bool is_quick_call(const struct sql_token *t)
{
#define X(word)                                                                                    \
        if (SQL_IS(t, word))                                                                       \
                return true;
        QUICK_MAP(X)
#undef X
        return false;
}

/* `word` is before an opening parenthesis. */
static void note_call(struct scan *s, const struct sql_token *word, bool is_qualified)
{
        bool releases_one = SQL_IS(word, "release_lock");
        bool releases_all = SQL_IS(word, "release_all_locks");

        s->ret->takes_lock |= SQL_IS(word, "get_lock");
        s->ret->releases_lock |= releases_one;
        s->ret->releases_all |= releases_all;
        s->only_releases &= releases_one || releases_all;
        s->reads_table |= is_qualified || !is_quick_call(word);
}

/* A word and the one before it. */
static inline void note_pair(struct scan *s, const struct sql_token *t,
                             const struct sql_token *last)
{
        switch (t->len) {
        case 2:
                s->takes_locks |= SQL_IS(t, "in") && SQL_IS(last, "lock");
                break;
        case 3:
                s->reads_table |= SQL_IS(t, "for");
                break;
        case 4:
                s->reads_table |= SQL_IS(t, "from");
                break;
        case 5:
                s->reads_table |= SQL_IS(t, "table");
                s->takes_locks |= SQL_IS(t, "share") && SQL_IS(last, "for");
                break;
        case 6:
                s->takes_locks |= SQL_IS(t, "update") && SQL_IS(last, "for");
                break;
        case 7:
                s->takes_locks |= SQL_IS(t, "outfile") && SQL_IS(last, "into");
                break;
        case 8:
                s->takes_locks |= SQL_IS(t, "dumpfile") && SQL_IS(last, "into");
                break;
        default:
                break;
        }
}

/* Reads the next token that is no comment, and notes what it says about locks and tables. */
static void step(struct scan *s)
{
        struct sql_token *t = &s->tokens[++s->now % TOKENS];

        while (sql_lex_next(&s->lex, t) == TOKEN_COMMENT)
                take_comment(s, slice_make(t->ptr, t->len));
        if (t->kind == TOKEN_WORD) {
                note_pair(s, t, before(s, 1));
        } else if (t->kind == TOKEN_MARK) {
                enum sql_token_kind last = before(s, 1)->kind;
                if (*t->ptr == ';')
                        return;
                if (*t->ptr == '(' && (last == TOKEN_WORD || last == TOKEN_NAME))
                        note_call(s, before(s, 1), sql_is_mark(before(s, 2), '.'));
        }
        s->n_tokens += t->kind != TOKEN_END;
}

static void skip_rest(struct scan *s)
{
        while (!at_end(s))
                step(s);
}

static enum verb find_verb(const struct sql_token *t)
{
#define X(id, word)                                                                                \
        if (SQL_IS(t, word))                                                                       \
                return VERB_##id;
        VERB_MAP(X)
#undef X
        return VERB_OTHER;
}

/* ---- kinds ----
 *
 * Each function is called with the token after the verb, and may read on. */

static enum sql_kind read_kind(struct scan *s, bool has_table)
{
        s->reads_table |= has_table;
        skip_rest(s);
        if (s->takes_locks)
                return SQL_WRITE;
        return s->reads_table ? SQL_READ : SQL_PASS;
}

/* WITH: what follows the list of tables decides. */
static enum sql_kind with_kind(struct scan *s)
{
        enum verb verb = VERB_OTHER;

        for (int depth = 0; !at_end(s); step(s)) {
                depth += sql_is_mark(peek(s), '(') - sql_is_mark(peek(s), ')');
                if (depth <= 0 && peek(s)->kind == TOKEN_WORD)
                        verb = find_verb(peek(s));
                if (verb == VERB_SELECT || verb == VERB_TABLE || verb == VERB_VALUES)
                        return read_kind(s, true);
                if (verb == VERB_INSERT || verb == VERB_UPDATE || verb == VERB_DELETE ||
                    verb == VERB_REPLACE)
                        break;
        }
        return SQL_WRITE;
}

static enum sql_kind begin_kind(struct scan *s)
{
        if (SQL_IS(peek(s), "work"))
                step(s);
        s->has_body = SQL_IS(peek(s), "not");
        return at_end(s) ? SQL_BEGIN : SQL_WRITE;
}

static enum sql_kind start_kind(struct scan *s)
{
        if (!SQL_IS(peek(s), "transaction"))
                return SQL_WRITE;
        while (!at_end(s) && !SQL_IS(peek(s), "snapshot"))
                step(s);
        return at_end(s) ? SQL_BEGIN : SQL_SNAPSHOT;
}

static enum sql_kind rollback_kind(struct scan *s)
{
        if (SQL_IS(peek(s), "work"))
                step(s);
        return SQL_IS(peek(s), "to") ? SQL_PASS : SQL_END;
}

static enum sql_kind lock_kind(struct scan *s)
{
        s->ret->takes_tables = true;
        s->ret->releases_tables = false;
        return SQL_LOCK;
}

static enum sql_kind unlock_kind(struct scan *s)
{
        s->ret->releases_tables = true;
        s->ret->takes_tables = false;
        return SQL_UNLOCK;
}

static enum sql_kind flush_kind(struct scan *s)
{
        for (; !at_end(s); step(s)) {
                bool is_read_lock = SQL_IS(peek(s), "read") && SQL_IS(before(s, 1), "with");
                if (is_read_lock || (SQL_IS(peek(s), "export") && SQL_IS(before(s, 1), "for")))
                        return lock_kind(s);
        }
        return SQL_WRITE;
}

static enum sql_kind backup_kind(struct scan *s)
{
        if (SQL_IS(peek(s), "unlock"))
                return unlock_kind(s);
        if (SQL_IS(peek(s), "stage"))
                step(s);
        return SQL_IS(peek(s), "end") ? unlock_kind(s) : lock_kind(s);
}

/* HANDLER t OPEN, HANDLER t READ ..., HANDLER t CLOSE. */
static enum sql_kind handler_kind(struct scan *s)
{
        for (; !at_end(s); step(s))
                s->ret->opens_handler |= SQL_IS(peek(s), "open");
        bool is_close = SQL_IS(before(s, 1), "close");
        s->ret->closes_handler |= is_close;
        return is_close ? SQL_UNLOCK : SQL_LOCK;
}

static enum sql_kind xa_kind(const struct scan *s)
{
        bool is_over = SQL_IS(peek(s), "commit") || SQL_IS(peek(s), "rollback");

        return is_over ? SQL_UNLOCK : SQL_XA;
}

static enum sql_kind use_kind(struct scan *s)
{
        struct slice name = slice_make(peek(s)->ptr, peek(s)->len);

        if (peek(s)->kind == TOKEN_NAME)
                name = slice_make(name.ptr + 1, name.len - 1 - (name.len > 1));
        if (peek(s)->kind == TOKEN_WORD || peek(s)->kind == TOKEN_NAME)
                s->ret->database = name;
        return SQL_USE;
}

/* KILL [HARD | SOFT] [CONNECTION | QUERY] number.  KILL QUERY ID names a statement, not a
 * connection, and KILL USER names many. */
static enum sql_kind kill_kind(struct scan *s)
{
        uint64_t id;

        if (SQL_IS(peek(s), "hard") || SQL_IS(peek(s), "soft"))
                step(s);
        s->ret->is_kill_statement = SQL_IS(peek(s), "query");
        if (SQL_IS(peek(s), "query") || SQL_IS(peek(s), "connection"))
                step(s);
        if (peek(s)->kind == TOKEN_NUMBER &&
            slice_to_u64(slice_make(peek(s)->ptr, peek(s)->len), &id) && id <= UINT32_MAX)
                s->ret->kill_id = (uint32_t)id;
        return SQL_KILL;
}

static enum sql_kind show_kind(struct scan *s)
{
        if (!SQL_IS(peek(s), "weir"))
                return SQL_PASS;
        step(s);
        if (peek(s)->kind == TOKEN_WORD)
                s->ret->show = slice_make(peek(s)->ptr, peek(s)->len);
        return SQL_WEIR;
}

/* DO waits as a call of anything does, but not when all it does is to release locks. */
static enum sql_kind do_kind(struct scan *s)
{
        s->only_releases = true;
        skip_rest(s);
        bool is_release = s->only_releases && (s->ret->releases_lock || s->ret->releases_all);
        return is_release ? SQL_PASS : SQL_WRITE;
}

/* CREATE and ALTER of what has statements within. */
static enum sql_kind define_kind(struct scan *s)
{
        for (; !at_end(s) && !sql_is_mark(peek(s), '('); step(s)) {
                const struct sql_token *t = peek(s);
                if (SQL_IS(t, "procedure") || SQL_IS(t, "function") || SQL_IS(t, "trigger") ||
                    SQL_IS(t, "event") || SQL_IS(t, "package")) {
                        s->has_body = true;
                        break;
                }
                if (SQL_IS(t, "table") || SQL_IS(t, "view") || SQL_IS(t, "index") ||
                    SQL_IS(t, "database") || SQL_IS(t, "schema") || SQL_IS(t, "user"))
                        break;
        }
        return SQL_WRITE;
}

/* Moves to the statement within SET STATEMENT ... FOR, EXPLAIN ANALYZE and ANALYZE, which runs;
 * false: this one has none.  At the token after the verb. */
static bool find_inner(struct scan *s, enum verb verb)
{
        bool explains = verb == VERB_EXPLAIN || verb == VERB_DESCRIBE || verb == VERB_DESC;

        if (verb == VERB_SET && SQL_IS(peek(s), "statement")) {
                int depth = 0;
                for (; !at_end(s) && (depth > 0 || !SQL_IS(peek(s), "for")); step(s))
                        depth += sql_is_mark(peek(s), '(') - sql_is_mark(peek(s), ')');
                if (!at_end(s))
                        step(s);
                return true;
        }
        if (explains && SQL_IS(peek(s), "analyze"))
                step(s);
        else if (verb != VERB_ANALYZE)
                return false;
        if (SQL_IS(peek(s), "format"))
                for (int i = 0; i < 3 && !at_end(s); i++)
                        step(s); /* FORMAT = JSON */
        return !SQL_IS(peek(s), "table") && !SQL_IS(peek(s), "local") &&
               !SQL_IS(peek(s), "no_write_to_binlog");
}

/* The verb of the statement that begins here, and past it. */
static enum verb take_verb(struct scan *s)
{
        while (sql_is_mark(peek(s), '('))
                step(s);
        if (at_end(s))
                return VERB_NONE;
        enum verb verb = find_verb(peek(s));
        s->reads_table = s->takes_locks = false;
        step(s);
        return verb;
}

static enum sql_kind kind_of(struct scan *s, enum verb verb)
{
        switch (verb) {
        case VERB_SELECT:
                return read_kind(s, false);
        case VERB_TABLE:
        case VERB_VALUES:
                return read_kind(s, true);
        case VERB_WITH:
                return with_kind(s);
        case VERB_BEGIN:
                return begin_kind(s);
        case VERB_START:
                return start_kind(s);
        case VERB_COMMIT:
                return SQL_END;
        case VERB_ROLLBACK:
                return rollback_kind(s);
        case VERB_LOCK:
                return lock_kind(s);
        case VERB_UNLOCK:
                return unlock_kind(s);
        case VERB_FLUSH:
                return flush_kind(s);
        case VERB_BACKUP:
                return backup_kind(s);
        case VERB_HANDLER:
                return handler_kind(s);
        case VERB_XA:
                return xa_kind(s);
        case VERB_USE:
                return use_kind(s);
        case VERB_KILL:
                return kill_kind(s);
        case VERB_SHOW:
                return show_kind(s);
        case VERB_DO:
                return do_kind(s);
        case VERB_CREATE:
        case VERB_ALTER:
                return define_kind(s);
        case VERB_DROP:
                return SQL_IS(peek(s), "prepare") ? SQL_PASS : SQL_WRITE;
        case VERB_IF:
        case VERB_CASE:
        case VERB_LOOP:
        case VERB_WHILE:
        case VERB_REPEAT:
        case VERB_FOR:
                s->has_body = true;
                return SQL_WRITE;
        case VERB_NONE:
        case VERB_SET:
        case VERB_SAVEPOINT:
        case VERB_RELEASE:
        case VERB_EXPLAIN:
        case VERB_DESCRIBE:
        case VERB_DESC:
        case VERB_PREPARE:
        case VERB_DEALLOCATE:
        case VERB_HELP:
        case VERB_GET: /* GET DIAGNOSTICS */
                return SQL_PASS;
        case VERB_OTHER:
        case VERB_INSERT:
        case VERB_UPDATE:
        case VERB_DELETE:
        case VERB_REPLACE:
        case VERB_ANALYZE: /* ANALYZE TABLE */
                return SQL_WRITE;
        }
        return SQL_WRITE;
}

/* Reads one statement, up to its ';' or the end. */
static enum sql_kind take_statement(struct scan *s)
{
        enum verb verb;

        s->has_body = s->only_releases = false;
        do
                verb = take_verb(s);
        while (find_inner(s, verb));
        enum sql_kind kind = kind_of(s, verb);
        skip_rest(s);
        return kind;
}

/* ---- the calls ---- */

/* What several statements in one text are together: what holds the most of the others back; of
 * those that cannot wait, the first that is something. */
static enum sql_kind join_kinds(enum sql_kind a, enum sql_kind b)
{
        static const uint8_t weight[SQL_KINDS] = {
                [SQL_READ] = 1, [SQL_SNAPSHOT] = 2, [SQL_WRITE] = 3, [SQL_LOCK] = 4};

        if (weight[a] == weight[b])
                return a == SQL_PASS ? b : a;
        return weight[a] > weight[b] ? a : b;
}

static bool changes_session(enum sql_kind kind)
{
        return kind == SQL_BEGIN || kind == SQL_SNAPSHOT || kind == SQL_END || kind == SQL_LOCK ||
               kind == SQL_UNLOCK || kind == SQL_XA;
}

void sql_text_scan(struct slice sql, struct sql_text *ret)
{
        struct scan s;
        size_t n_statements = 0;

        memset(ret, 0, offsetof(struct sql_text, tags));
        ret->n_tags = 0;
        ret->kind = SQL_PASS;
        s.ret = ret;
        s.n_tokens = s.n_trailing = s.trailing_at = 0;
        s.reads_table = s.takes_locks = s.has_body = s.only_releases = false;
        sql_lex_init(&s.lex, sql);
        s.now = 0;
        for (size_t i = 0; i < TOKENS; i++)
                s.tokens[i].kind = TOKEN_END;
        for (step(&s); peek(&s)->kind != TOKEN_END;) {
                if (sql_is_mark(peek(&s), ';')) {
                        step(&s);
                        continue;
                }
                enum sql_kind kind = take_statement(&s);
                ret->kind = join_kinds(ret->kind, kind);
                ret->may_change_session |= changes_session(kind);
                n_statements++;
        }
        ret->is_multi = n_statements > 1;
        for (size_t i = 0; i < s.n_trailing && s.trailing_at == s.n_tokens; i++)
                read_comment(ret, s.trailing[i]);
}

struct slice sql_text_tag(const struct sql_text *t, const char *key)
{
        for (size_t i = 0; i < t->n_tags; i++) {
                size_t n = strlen(t->tags[i].scope);
                if (strncmp(key, t->tags[i].scope, n) == 0 &&
                    slice_eq(t->tags[i].key, slice_str(key + n)))
                        return t->tags[i].value;
        }
        return SLICE_NONE;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t sql_tag_decode(struct slice value, char *ret, size_t size)
{
        size_t n = 0;

        if (size == 0)
                return 0;
        for (size_t i = 0; i < value.len && n + 1 < size; i++) {
                char c = value.ptr[i];
                size_t left = value.len - i;
                int high = c == '%' && left > 2 ? hex_digit(value.ptr[i + 1]) : -1;
                int low = high >= 0 ? hex_digit(value.ptr[i + 2]) : -1;
                if (low >= 0) {
                        c = (char)(high * 16 + low);
                        i += 2;
                } else if (c == '\\' && left > 1) {
                        c = value.ptr[++i]; /* sqlcommenter escapes quotes so */
                }
                ret[n++] = c;
        }
        ret[n] = '\0';
        return n;
}
