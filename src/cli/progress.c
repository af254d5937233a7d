/* Progress: rate and time to go come from the whole run so far, which is steadier than the last
 * second and right for work whose pieces are alike. */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/text.h"

#define BAR_WIDTH  24
#define TTY_NS     (100 * NS_PER_MS) /* faster changes cannot be read */
#define ELSE_NS    (10 * NS_PER_S)
#define ERASE_LINE "\r\033[K"

void count_put(struct buf *b, uint64_t n)
{
        char digits[24];
        int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
        for (int i = 0; i < len; i++) {
                if (i && (len - i) % 3 == 0)
                        buf_put_byte(b, ',');
                buf_put_byte(b, digits[i]);
        }
}

void progress_init(struct progress *p, const char *verb, const char *noun, uint64_t total_bytes,
                   bool is_quiet)
{
        int64_t now_ns = clock_boot_ns();
        *p = (struct progress){.verb = verb,
                               .noun = noun,
                               .total_bytes = total_bytes,
                               .began_ns = now_ns,
                               .told_ns = now_ns,
                               .is_tty = isatty(STDERR_FILENO) == 1,
                               .is_quiet = is_quiet};
}

static void put_bar(struct buf *b, double share)
{
        int full = (int)(share * BAR_WIDTH);
        buf_put_str(b, "  [");
        for (int i = 0; i < BAR_WIDTH; i++)
                buf_put_byte(b, i < full ? '#' : '.');
        buf_printf(b, "] %3d%%", (int)(share * 100));
}

void progress_put(struct buf *b, const struct progress *p, uint64_t done, uint64_t bytes,
                  int64_t now_ns)
{
        double seconds = (double)(now_ns - p->began_ns) / (double)NS_PER_S;
        double share = p->total_bytes ? (double)bytes / (double)p->total_bytes : 0;
        share = share > 1 ? 1 : share; /* the file has grown since */
        buf_printf(b, "%s ", p->verb);
        count_put(b, done);
        buf_printf(b, " %s", p->noun);
        if (p->total_bytes)
                put_bar(b, share);
        if (seconds <= 0)
                return;
        buf_put_str(b, "  ");
        count_put(b, (uint64_t)((double)done / seconds));
        buf_put_str(b, "/s");
        if (share > 0) {
                buf_put_str(b, "  ");
                duration_put(b, (int64_t)(seconds * 1000 * (1 - share) / share));
                buf_put_str(b, " left");
        }
}

void progress_tell(struct progress *p, uint64_t done, uint64_t bytes)
{
        int64_t now_ns = clock_boot_ns();
        struct buf line CLEANUP(buf_release) = {0};
        if (p->is_quiet || now_ns - p->told_ns < (p->is_tty ? TTY_NS : ELSE_NS))
                return;
        p->told_ns = now_ns;
        progress_put(&line, p, done, bytes, now_ns);
        fprintf(stderr, p->is_tty ? ERASE_LINE "%s" : "%s\n", buf_cstr(&line));
        (void)fflush(stderr); /* progress that cannot be shown is no reason to stop */
        p->is_shown = p->is_tty;
}

void progress_end(struct progress *p)
{
        if (p->is_shown)
                fputs(ERASE_LINE, stderr);
        p->is_shown = false;
}
