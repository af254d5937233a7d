/* Readings: what a metric gave at one tick, and the rests of metrics that failed. */
#include "probe/probe_int.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/shown.h"

#define NUMBER_MAX 64 /* characters of the longest number that makes sense */

void reading_set(struct reading *r, double value)
{
        *r = (struct reading){.value = value};
}

void reading_fail(struct reading *r, const char *fmt, ...)
{
        struct reading failed = {.is_error = true};
        va_list args;
        va_start(args, fmt);
        shown_vprintf(failed.text, sizeof(failed.text), fmt, args);
        va_end(args);
        *r = failed; /* only now: what it held may be part of the sentence */
}

void reading_remark(struct reading *r, const char *fmt, ...)
{
        va_list args;
        va_start(args, fmt);
        shown_vprintf(r->text, sizeof(r->text), fmt, args);
        va_end(args);
}

bool is_silence(int err)
{
        return err == ERR_TIMEOUT || err == ERR_STOPPING || err == ERR_IO;
}

static bool is_decimal(const char *text, size_t len)
{
        for (size_t i = 0; i < len; i++)
                if (!isdigit((unsigned char)text[i]) && !strchr("+-.eE", text[i]))
                        return false;
        return len > 0;
}

void reading_set_text(struct reading *r, const char *text, size_t len)
{
        char copy[NUMBER_MAX + 1], *end = NULL;
        while (len && isspace((unsigned char)text[len - 1]))
                len--;
        while (len && isspace((unsigned char)*text)) {
                text++;
                len--;
        }
        if (len <= NUMBER_MAX && is_decimal(text, len)) {
                memcpy(copy, text, len);
                copy[len] = '\0';
                double value = strtod(copy, &end);
                if (*end == '\0' && isfinite(value)) {
                        reading_set(r, value);
                        return;
                }
        }
        if (!len)
                reading_fail(r, "the value is empty, not a number");
        else
                reading_fail(r, "the value is no number: '%s'", SHOWN(slice_make(text, len)));
}

/* ---- resting ---- */

void rest_begin(struct rest *r, int64_t now_ns)
{
        r->pause_ms = r->pause_ms ? r->pause_ms * 2 : REST_MIN_MS;
        if (r->pause_ms > REST_MAX_MS)
                r->pause_ms = REST_MAX_MS;
        r->until_ns = now_ns + r->pause_ms * NS_PER_MS;
}

bool rest_is_over(const struct rest *r, int64_t now_ns)
{
        return now_ns >= r->until_ns;
}

bool rest_is_on(const struct rest *r)
{
        return r->pause_ms > 0;
}

/* ---- questions ---- */

bool sql_is_query(const char *sql)
{
        sql += strspn(sql, " \t\r\n(");
        return (strncasecmp(sql, "SELECT", 6) == 0 || strncasecmp(sql, "WITH", 4) == 0) &&
               !strchr(sql, ';');
}
