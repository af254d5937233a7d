/* What became of a command, in words. */
#include "work/outcome.h"

#include <signal.h>

#include "base/duration.h"

#define RETRY_WORD "weir-retry-in:"

void outcome_put_text(struct buf *b, struct slice text)
{
        bool is_utf8 = slice_is_utf8(text);
        for (size_t i = 0; i < text.len; i++) {
                unsigned char c = (unsigned char)text.ptr[i];
                bool is_fine =
                        c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f) || (c >= 0x80 && is_utf8);
                buf_put_byte(b, is_fine ? (char)c : '?');
        }
}

static void put_how(struct buf *b, const struct handler *h, const struct task_result *r,
                    int64_t limit_ms)
{
        char text[DURATION_TEXT_MAX];
        if (limit_ms && limit_ms == h->timeout_ms)
                buf_printf(b, "killed after %s (%s)", duration_words(limit_ms, text), h->origin);
        else if (limit_ms)
                buf_printf(b, "killed after %s (the MAXRUN of the job)",
                           duration_words(limit_ms, text));
        else if (r->signal == SIGXCPU && h->cpu_s)
                buf_printf(b, "killed after %s of cpu (%s)",
                           duration_words(h->cpu_s * MS_PER_S, text), h->origin);
        else if (r->signal)
                buf_printf(b, "killed by signal %d", r->signal);
        else
                buf_printf(b, "exit %d", r->exit_code);
}

void outcome_put_failure(struct buf *b, const struct handler *h, const struct task_result *r,
                         int64_t limit_ms)
{
        put_how(b, h, r, limit_ms);
        if (r->errors.len) {
                buf_put_str(b, ": ");
                outcome_put_text(b, r->errors);
        }
}

static bool parse_delay(struct slice s, int64_t *ret_ms)
{
        static const struct {
                const char *name;
                int64_t ms;
        } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
        size_t n = 0;
        int64_t number;
        if (slice_eq(s, SLICE_LIT("never"))) {
                *ret_ms = HANDLER_RETRY_NEVER;
                return true;
        }
        while (n < s.len && s.ptr[n] >= '0' && s.ptr[n] <= '9')
                n++;
        if (!slice_to_i64(slice_make(s.ptr, n), &number))
                return false;
        for (size_t i = 0; i < ARRAY_LEN(units); i++) {
                if (!slice_eq(slice_make(s.ptr + n, s.len - n), slice_str(units[i].name)))
                        continue;
                if (__builtin_mul_overflow(number, units[i].ms, ret_ms) ||
                    *ret_ms > HANDLER_RETRY_MAX_MS)
                        *ret_ms = HANDLER_RETRY_MAX_MS;
                return true;
        }
        return false;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct slice trimmed(struct slice s)
{
        while (s.len && is_blank(s.ptr[s.len - 1]))
                s.len--;
        while (s.len && is_blank(s.ptr[0]))
                s = slice_make(s.ptr + 1, s.len - 1);
        return s;
}

bool outcome_take_retry(struct slice *text, int64_t *ret_ms)
{
        static const struct slice word = SLICE_LIT(RETRY_WORD);
        struct slice all = *text;
        while (all.len && is_blank(all.ptr[all.len - 1]))
                all.len--;
        size_t from = all.len;
        while (from > 0 && all.ptr[from - 1] != '\n')
                from--;
        struct slice line = slice_make(all.ptr + from, all.len - from);
        if (line.len < word.len || !slice_eq(slice_make(line.ptr, word.len), word))
                return false;
        struct slice delay = trimmed(slice_make(line.ptr + word.len, line.len - word.len));
        if (!parse_delay(delay, ret_ms))
                return false;
        *text = slice_make(all.ptr, from ? from - 1 : 0);
        return true;
}
