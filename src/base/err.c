/* The rows of ERR_MAP as functions.  Codes run from ERR_NUMBER_BASE + 1 up, so a row's index is
 * a subtraction; anything else (a stray errno) is told as INTERNAL instead of read out of
 * bounds. */
#include "base/err.h"

#include "base/shown.h"

struct err_row {
        const char *name, *text;
        int http, exit;
};

static const struct err_row rows[] = {
#define X(name, http, exit, text) {#name, text, http, exit},
        ERR_MAP(X)
#undef X
};

static const struct err_row row_ok = {"OK", "done", 200, 0};

_Static_assert(ARRAY_LEN(rows) == ERR_END - ERR_NUMBER_BASE - 1, "one row for each code");

static const struct err_row *row_of(int err)
{
        if (err == OK)
                return &row_ok;
        if (err <= ERR_NUMBER_BASE || err >= ERR_END)
                err = ERR_INTERNAL;
        return &rows[err - ERR_NUMBER_BASE - 1];
}

const char *err_name(int err)
{
        return row_of(err)->name;
}

const char *err_text(int err)
{
        return row_of(err)->text;
}

int err_http(int err)
{
        return row_of(err)->http;
}

int err_exit(int err)
{
        return row_of(err)->exit;
}

int err_from_name(const char *name, size_t len)
{
        struct slice wanted = slice_make(name, len);

        if (slice_eq(wanted, slice_str(row_ok.name)))
                return OK;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (slice_eq(wanted, slice_str(rows[i].name)))
                        return ERR_NUMBER_BASE + 1 + (int)i;
        return ERR_INTERNAL;
}

int problem_set(struct problem *p, int err, const char *fmt, ...)
{
        va_list args;

        if (!p)
                return err;
        p->err = err;
        va_start(args, fmt);
        shown_vprintf(p->detail, sizeof(p->detail), fmt, args);
        va_end(args);
        return err;
}
