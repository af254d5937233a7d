/* What a statement may do is a short list: select, read columns, call functions, recurse.
 * Everything else that SQLite knows is refused when the statement is prepared. */
#include "history/sql_reader.h"

#include <stdlib.h>

struct sql_reader {
        sqlite3 *db;
        struct sql_shared shared;
        const char *refusal; /* of the statement that is being prepared; NULL: none */
};

/* Steps of SQLite's machine between two looks at is_stopped: some 10 us. */
#define STEPS_PER_LOOK 1000

static const char only_select[] = "history can only be read; use SELECT";

static bool is_harmless_pragma(const char *name)
{
        static const char *const names[] = {"table_info", "table_xinfo", "table_list"};
        for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
                if (sqlite3_stricmp(name, names[i]) == 0)
                        return true;
        return false;
}

static int authorize(void *ctx, int action, const char *first, const char *second,
                     const char *database, const char *by)
{
        struct sql_reader *r = ctx;
        (void)database; /* there is one, and what does it makes no difference */
        (void)by;
        if (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE)
                return SQLITE_OK;
        if (action == SQLITE_FUNCTION && sqlite3_stricmp(second, "load_extension") != 0)
                return SQLITE_OK;
        /* The first use of a virtual table declares it, in memory.  SQLite lets no statement do so,
         * and sql_reader_prepare() none that writes. */
        if (action == SQLITE_UPDATE && sqlite3_stricmp(first, "sqlite_master") == 0)
                return SQLITE_OK;
        if (action == SQLITE_PRAGMA && is_harmless_pragma(first))
                return SQLITE_OK;
        r->refusal = only_select;
        if (action == SQLITE_FUNCTION)
                r->refusal = "extensions cannot be loaded";
        else if (action == SQLITE_PRAGMA)
                r->refusal = "the only PRAGMAs are table_info, table_xinfo and table_list";
        else if (action == SQLITE_ATTACH || action == SQLITE_DETACH)
                r->refusal = "ATTACH is not possible: only this history can be read";
        return SQLITE_DENY;
}

/* sqlite3_interrupt() alone has no effect on a statement that is just about to begin. */
static int is_to_end(void *ctx)
{
        const struct sql_reader *r = ctx;
        return r->shared.is_stopped;
}

int sql_reader_new(struct sql_source *source, void (*tell_damage)(void *ctx, const char *what),
                   void *ctx, struct sql_reader **ret, struct problem *p)
{
        struct sql_reader *r = xcalloc(1, sizeof(*r));
        r->shared = (struct sql_shared){.source = source, .tell_damage = tell_damage, .ctx = ctx};
        /* temp_store stays at its default: a large GROUP BY goes to files. */
        if (sqlite3_open_v2(":memory:", &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                            NULL) != SQLITE_OK ||
            sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) != SQLITE_OK ||
            sql_tables_register(r->db, &r->shared) != SQLITE_OK ||
            sqlite3_set_authorizer(r->db, authorize, r) != SQLITE_OK) {
                (void)problem_set(p, ERR_NOMEM, "cannot open a database in memory: %s",
                                  r->db ? sqlite3_errmsg(r->db) : "no memory");
                (void)sql_reader_free(r);
                return ERR_NOMEM;
        }
        sqlite3_progress_handler(r->db, STEPS_PER_LOOK, is_to_end, r);
        *ret = r;
        return OK;
}

struct sql_reader *sql_reader_free(struct sql_reader *r)
{
        if (!r)
                return NULL;
        (void)sqlite3_close(r->db); /* the caller has finalized its statements */
        sql_shared_release(&r->shared);
        free(r);
        return NULL;
}

/* "line 2, column 7: ", or nothing when SQLite does not know. */
static void put_place(struct buf *b, const struct sql_script *text, int offset)
{
        uint64_t line = text->line, column = 1;
        for (int i = 0; i < offset; i++) {
                bool is_end = text->at[i] == '\n';
                line += is_end;
                column = is_end ? 1 : column + ((text->at[i] & 0xc0) != 0x80); /* characters */
        }
        if (offset >= 0)
                buf_printf(b, "line %llu, column %llu: ", (unsigned long long)line,
                           (unsigned long long)column);
}

/* What can be done instead, where SQLite says only what is wrong. */
static void put_hint(struct buf *b, const char *why)
{
        if (strstr(why, "may not be modified"))
                buf_printf(b, "; %s", only_select);
        else if (strstr(why, "no such column: "))
                buf_put_str(b, "; .tables lists the columns");
        else if (strstr(why, "no such table: "))
                for (size_t i = 0; sql_table_name(i); i++)
                        buf_printf(b, "%s%s", i ? ", " : "; the tables are ", sql_table_name(i));
}

static int code_to_err(int code)
{
        switch (code & 0xff) {
        case SQLITE_NOMEM:
                return ERR_NOMEM;
        case SQLITE_INTERRUPT:
                return ERR_STOPPING;
        case SQLITE_FULL:
        case SQLITE_IOERR:
        case SQLITE_CANTOPEN: /* a temporary file */
                return ERR_IO;
        case SQLITE_CORRUPT:
                return ERR_CORRUPT;
        default:
                return ERR_SYNTAX;
        }
}

static int fail_to_prepare(struct sql_reader *r, int code, const struct sql_script *text,
                           struct problem *p)
{
        struct buf b CLEANUP(buf_release) = {0};
        const char *why = sqlite3_errmsg(r->db);
        if (r->refusal)
                return problem_set(p, ERR_SYNTAX, "%s", r->refusal);
        put_place(&b, text, sqlite3_error_offset(r->db));
        buf_put_str(&b, why);
        put_hint(&b, why);
        return problem_set(p, code_to_err(code), "%s", buf_cstr(&b));
}

int sql_reader_prepare(struct sql_reader *r, struct sql_script *text, sqlite3_stmt **ret,
                       struct problem *p)
{
        sqlite3_stmt *stmt = NULL;
        const char *rest;
        r->refusal = NULL;
        r->shared.problem = (struct problem){0};
        r->shared.is_stopped = 0;
        int rc = sqlite3_prepare_v2(r->db, text->at, -1, &stmt, &rest);
        if (rc != SQLITE_OK)
                return fail_to_prepare(r, rc, text, p);
        /* Not everything asks authorize(): VACUUM INTO, and REINDEX, which returns nothing. */
        if (stmt && (!sqlite3_stmt_readonly(stmt) || !sqlite3_column_count(stmt))) {
                (void)sqlite3_finalize(stmt); /* it did not run */
                return problem_set(p, ERR_SYNTAX, "%s", only_select);
        }
        for (; text->at < rest; text->at++)
                text->line += *text->at == '\n';
        *ret = stmt;
        return OK;
}

int sql_reader_fail(struct sql_reader *r, int code, struct problem *p)
{
        if (r->shared.problem.err) {
                *p = r->shared.problem;
                return p->err;
        }
        if (r->refusal) /* pragma_x() asks when it runs */
                return problem_set(p, ERR_SYNTAX, "%s", r->refusal);
        int err = code_to_err(code);
        if (err == ERR_STOPPING)
                return problem_set(p, err, "interrupted");
        return problem_set(p, err, "%s", sqlite3_errmsg(r->db));
}

void sql_reader_stop(struct sql_reader *r)
{
        r->shared.is_stopped = 1;
        sqlite3_interrupt(r->db);
}

uint64_t sql_reader_damaged(const struct sql_reader *r)
{
        return r->shared.damaged;
}
