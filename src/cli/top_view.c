/* What `weir top` shows, made for 80 columns and 24 rows.
 *
 *      weir 127.0.0.1:7379  enforce  checks enforce                        16:05:31
 *      CRITICAL for 3 min because of shop: threads_running 87, critical from 60 ...
 *        shop    critical  threads_running 91   3 min
 *        cache   normal                          2 h
 *      per s  in 120  start 118  done 117  fail 0.2  defer 3  checks  yes 40  no 2
 *      jobs  ready 12  scheduled 30  waiting 2  running 8  parked 37  normal 30 ...
 *      cluster  a leads, 3 machines  gone: c                 when there is a cluster
 *        SITE  MODE     LEVEL     DUE  MOVED  RUNNING ...      when there are WordPress sites
 *        shop  enforce  critical  120  30     2
 *      [Queues 3]   Running jobs 8    Clients 5    Starved 0
 *      ...the rows of one panel, the chosen one marked...
 *      q quit  p pause  space hold queue  c cancel  Tab panel  / filter  ? help
 *
 * Most of the screen belongs to the panel: at 24 rows it has 14 to 16.  Everything is made as lines
 * of text first and cut to the width at the end, so that no line can ever wrap and push the rest
 * off the screen.  What comes from jobs and clients goes through table_add() or text_put_safe(). */
#include "cli/top_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/listing.h"
#include "cli/sites.h"
#include "cli/term.h"
#include "cli/text.h"

#define TARGETS_SHOWN 4 /* lines of the head; the worst ones first */
#define SITES_SHOWN   4 /* likewise, in the order of the configuration */
/* A follower with so many batches less is behind: seconds at full speed.  Each machine tells its
 * own once a second, so that a smaller difference means nothing under load. */
#define BEHIND_BATCHES 10000
#define REVERSE        "\033[7m"
#define PLAIN          "\033[0m"

/* ---- lines ---- */

struct frame {
        struct buf *out;
        size_t columns, lines;
        struct screen screen; /* for tones; not for widths */
};

static void put_line(struct frame *f, struct buf *line)
{
        term_put_cut(f->out, buf_slice(line), f->columns);
        buf_put_byte(f->out, '\n');
        buf_clear(line);
        f->lines++;
}

static void put_toned(const struct frame *f, struct buf *line, enum tone tone, const char *text)
{
        screen_put_toned(&f->screen, line, tone, slice_str(text));
}

/* ---- rates ---- */

static double rate_of(const struct value *rates, const char *key)
{
        char digits[32];
        struct slice text = field_text(rates, key);
        if (!text.len || text.len >= sizeof(digits))
                return -1;
        memcpy(digits, text.ptr, text.len);
        digits[text.len] = '\0';
        return strtod(digits, NULL);
}

void top_rates_read(struct top_rates *r, const struct value *now)
{
        const struct value *rates = value_get(now, "rates");
        *r = (struct top_rates){
                rate_of(rates, "enqueued"), rate_of(rates, "started"),  rate_of(rates, "completed"),
                rate_of(rates, "failed"),   rate_of(rates, "deferred"), rate_of(rates, "granted"),
                rate_of(rates, "refused"),
        };
}

void top_totals_read(struct top_totals *t, const struct value *queues, const struct value *throttle)
{
        const struct value *tiers = value_get(throttle, "tiers");
        const struct value *checks = value_get(throttle, "checks");
        *t = (struct top_totals){0};
        for (size_t i = 0; i < list_len(queues); i++) {
                t->enqueued += field_int(&queues->items[i], "enqueued");
                t->completed += field_int(&queues->items[i], "completed");
                t->failed += field_int(&queues->items[i], "failed");
        }
        for (size_t i = 0; i < list_len(tiers); i++)
                t->deferred += field_int(&tiers->items[i], "deferred");
        t->granted = field_int(checks, "granted");
        t->refused = field_int(checks, "refused");
}

static double rate_between(int64_t from, int64_t to, int64_t ms)
{
        return ms > 0 && to >= from ? (double)(to - from) * 1000 / (double)ms : -1;
}

void top_rates_between(struct top_rates *r, const struct top_totals *from,
                       const struct top_totals *to, int64_t ms)
{
        *r = (struct top_rates){
                .enqueued = rate_between(from->enqueued, to->enqueued, ms),
                .started = -1, /* nothing counts starts there */
                .completed = rate_between(from->completed, to->completed, ms),
                .failed = rate_between(from->failed, to->failed, ms),
                .deferred = rate_between(from->deferred, to->deferred, ms),
                .granted = rate_between(from->granted, to->granted, ms),
                .refused = rate_between(from->refused, to->refused, ms),
        };
}

static void put_rate(struct buf *b, const char *name, double rate)
{
        if (rate < 0)
                buf_printf(b, "  %s -", name);
        else
                buf_printf(b, rate < 10 && rate > 0 ? "  %s %.1f" : "  %s %.0f", name, rate);
}

/* ---- the head ---- */

static void put_clock(struct buf *b, int64_t now_ms)
{
        time_t now = (time_t)(now_ms / 1000);
        struct tm tm;
        if (localtime_r(&now, &tm))
                buf_printf(b, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static void put_title(const struct top_view *v, struct frame *f, struct buf *line)
{
        struct slice mode = field_text(v->throttle, "mode");
        struct slice checks = field_text(value_get(v->throttle, "checks"), "mode");
        struct slice doors = field_text(v->throttle, "doors_mode");
        bool has_doors = doors.len && !slice_eq(doors, SLICE_LIT("off"));
        put_toned(f, line, TONE_BOLD, "weir ");
        text_put_safe(line, slice_str(v->server));
        buf_put_str(line, has_doors ? "  jobs " : "  throttle ");
        text_put_safe(line, mode.len ? mode : SLICE_LIT("?"));
        if (is_switched_off(v->throttle))
                put_toned(f, line, TONE_YELLOW, ", SWITCHED OFF");
        if (has_doors) {
                buf_put_str(line, "  doors ");
                text_put_safe(line, doors);
        }
        buf_put_str(line, checks.len ? "  checks " : "");
        text_put_safe(line, checks);
        buf_put_str(line, "  ");
        put_clock(line, v->now_ms);
        put_line(f, line);
        if (!is_switched_off(v->throttle))
                return;
        buf_put_str(line, "no job waits for load; 'weir setting set throttle.enabled true' "
                          "switches it on");
        put_line(f, line);
}

/* "threads_running was 87, limit 60, is 12, falls in 4 s" of the metric that decided, and only what
 * is still so: "threads_running 87, limit 60". */
static void put_cause(struct buf *b, const struct value *target)
{
        struct slice metric = field_text(target, "metric"), error = field_text(target, "error");
        struct slice last = field_text(target, "last_known");
        bool is_unknown = slice_eq(field_text(target, "level"), SLICE_LIT("unknown"));
        struct slice now = field_text(target, "now");
        bool is_past = now.len && !slice_eq(now, field_text(target, "value"));
        const struct value *falls = value_get(target, "falls_in_ms");
        int64_t falls_ms = falls ? value_int(falls, -1) : -1;
        if (last.len) {
                text_put_safe(b, last);
        } else if (metric.len && is_unknown) {
                text_put_safe(b, metric);
                buf_put_byte(b, ' ');
                age_put_read(b, field_int(target, "age_ms"));
        } else if (metric.len) {
                text_put_safe(b, metric);
                buf_put_str(b, is_past ? " was " : " ");
                text_put_safe(b, field_text(target, "value"));
                buf_put_str(b, ", limit ");
                text_put_safe(b, field_text(target, "threshold"));
                buf_put_str(b, is_past ? ", is " : "");
                text_put_safe(b, is_past ? now : SLICE_NONE);
                if (falls_ms >= 0) {
                        buf_put_str(b, ", falls in ");
                        duration_put_left(b, falls_ms);
                }
        }
        if (error.len) {
                buf_put_str(b, metric.len || last.len ? "; " : "");
                text_put_safe(b, error);
        }
}

static void put_level(const struct top_view *v, struct frame *f, struct buf *line)
{
        struct slice level = field_text(v->throttle, "level");
        const struct value *targets = value_get(v->throttle, "targets");
        const struct value *target = list_find(targets, field_text(v->throttle, "target"));
        const struct value *observed =
                list_find(targets, field_text(v->throttle, "observed_target"));
        int64_t left_ms = field_int(v->throttle, "pause_left_ms");
        buf_put_str(line, "level ");
        screen_put_toned(&f->screen, line, level_tone(level), level.len ? level : SLICE_LIT("?"));
        buf_put_str(line, " for ");
        duration_put(line, field_int(v->throttle, "since_ms"));
        if (v->is_everything_paused)
                put_toned(f, line, TONE_RED, "  EVERYTHING PAUSED: weir resume");
        if (field_is_true(v->throttle, "paused")) {
                put_toned(f, line, TONE_YELLOW, "  PAUSED by an operator ");
                if (left_ms > 0)
                        duration_put_left(line, left_ms);
                buf_put_str(line, left_ms > 0 ? " left" : "until resumed");
        }
        if (target) {
                buf_put_str(line, "  because of ");
                text_put_safe(line, field_text(target, "name"));
                buf_put_str(line, ": ");
                put_cause(line, target);
        }
        if (observed) {
                buf_put_str(line, "  only observed: ");
                text_put_safe(line, field_text(observed, "name"));
                buf_put_byte(line, ' ');
                screen_put_toned(&f->screen, line, level_tone(field_text(observed, "level")),
                                 field_text(observed, "level"));
        }
        put_line(f, line);
}

static void put_target(struct frame *f, const struct value *t, struct buf *line)
{
        struct slice level = field_text(t, "level"), mode = field_text(t, "mode");
        buf_put_str(line, "  ");
        screen_put_toned(&f->screen, line, level_tone(level), level);
        for (size_t pad = level.len; pad < 10; pad++)
                buf_put_byte(line, ' ');
        text_put_safe(line, field_text(t, "name"));
        if (mode.len && !slice_eq(mode, SLICE_LIT("enforce"))) {
                buf_put_str(line, " (");
                text_put_safe(line, mode);
                buf_put_byte(line, ')');
        }
        buf_put_str(line, "  ");
        put_cause(line, t);
        buf_put_str(line, "  for ");
        duration_put(line, field_int(t, "since_ms"));
        put_line(f, line);
}

/* Those that are not at level normal first, as the server lists them within each. */
static void put_targets(const struct top_view *v, struct frame *f, struct buf *line)
{
        const struct value *targets = value_get(v->throttle, "targets");
        size_t n = 0, all = list_len(targets);
        for (size_t i = 0; i < 2 * all && n < TARGETS_SHOWN; i++) {
                const struct value *t = &targets->items[i < all ? i : i - all];
                bool is_normal = slice_eq(field_text(t, "level"), SLICE_LIT("normal"));
                if (is_normal != (i >= all))
                        continue;
                put_target(f, t, line);
                n++;
        }
        if (list_len(targets) > n) {
                buf_printf(line, "  and %zu more targets", list_len(targets) - n);
                put_line(f, line);
        }
}

static void put_rates(const struct top_view *v, struct frame *f, struct buf *line)
{
        const struct top_rates *r = &v->rates;
        put_toned(f, line, TONE_DIM, "per s");
        put_rate(line, "in", r->enqueued);
        put_rate(line, "start", r->started);
        put_rate(line, "done", r->completed);
        put_rate(line, "fail", r->failed);
        put_rate(line, "defer", r->deferred);
        put_toned(f, line, TONE_DIM, "  checks");
        put_rate(line, "yes", r->granted);
        put_rate(line, "no", r->refused);
        put_line(f, line);
}

static void put_jobs(const struct top_view *v, struct frame *f, struct buf *line)
{
        static const char *const counts[] = {"ready", "scheduled", "waiting", "running"};
        const struct value *queues = v->panels[TOP_QUEUES];
        const struct value *tiers = value_get(v->throttle, "tiers");
        int64_t parked = 0, returning = 0;
        put_toned(f, line, TONE_DIM, "jobs ");
        for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
                int64_t n = 0;
                for (size_t i = 0; i < list_len(queues); i++)
                        n += field_int(&queues->items[i], counts[c]);
                buf_printf(line, "  %s %lld", counts[c], (long long)n);
        }
        for (size_t i = 0; i < list_len(tiers); i++) {
                parked += field_int(&tiers->items[i], "parked");
                returning += field_int(&tiers->items[i], "returning");
        }
        buf_printf(line, "  parked %lld", (long long)parked);
        for (size_t i = 0; parked && i < list_len(tiers); i++) {
                int64_t n = field_int(&tiers->items[i], "parked");
                if (!n)
                        continue;
                buf_put_str(line, "  ");
                text_put_safe(line, field_text(&tiers->items[i], "tier"));
                buf_printf(line, " %lld", (long long)n);
        }
        if (returning)
                buf_printf(line, "  returning %lld", (long long)returning);
        put_line(f, line);
}

static void put_ramp(const struct top_view *v, struct frame *f, struct buf *line)
{
        const struct value *ramp = value_get(v->throttle, "ramp");
        if (!field_is_true(ramp, "running"))
                return;
        buf_printf(line, "ramp   cycle %lld of %lld, the next in ",
                   (long long)field_int(ramp, "cycle"), (long long)field_int(ramp, "cycles"));
        duration_put_left(line, field_int(ramp, "next_in_ms"));
        put_line(f, line);
}

/* "cluster  a leads, 3 machines  gone: c  behind: b 12000 batches"; nothing when weir is alone.
 * DIFFERS: its state is not that of the leader. */
static void put_cluster(const struct top_view *v, struct frame *f, struct buf *line)
{
        const struct value *members = value_get(v->cluster, "members");
        struct slice leader = field_text(v->cluster, "leader");
        size_t n = list_len(members);
        int64_t newest = 0;
        if (!n)
                return;
        for (size_t i = 0; i < n; i++)
                if (field_is(&members->items[i], "role", "leader"))
                        newest = field_int(&members->items[i], "seq");
        put_toned(f, line, TONE_DIM, "cluster  ");
        if (leader.len) {
                text_put_safe(line, leader);
                buf_put_str(line, " leads");
        } else {
                put_toned(f, line, TONE_RED, "NOBODY LEADS");
        }
        buf_printf(line, ", %zu %s", n, n == 1 ? "machine" : "machines");
        for (size_t i = 0; i < n; i++) {
                const struct value *m = &members->items[i];
                int64_t lag = newest - field_int(m, "seq");
                bool is_gone = field_is(m, "role", "gone");
                if (field_is(m, "state", "differs")) {
                        put_toned(f, line, TONE_RED, "  DIFFERS: ");
                        text_put_safe(line, field_text(m, "node"));
                }
                if (!is_gone && lag < BEHIND_BATCHES)
                        continue;
                put_toned(f, line, is_gone ? TONE_RED : TONE_YELLOW,
                          is_gone ? "  gone: " : "  behind: ");
                text_put_safe(line, field_text(m, "node"));
                if (!is_gone)
                        buf_printf(line, " %lld batches", (long long)lag);
        }
        put_line(f, line);
}

/* How many of them are shown: the panel keeps some lines. */
static size_t sites_shown(const struct top_view *v, const struct frame *f)
{
        const size_t kept = 9; /* tabs, titles, rows of the panel, the last line, and two of ours */
        size_t all = list_len(v->sites),
               room = v->rows > f->lines + kept ? v->rows - f->lines - kept : 0;
        if (v->is_whole)
                return all;
        room = room < SITES_SHOWN ? room : SITES_SHOWN;
        return all < room ? all : room;
}

/* A table of the WordPress sites; nothing when there are none. */
static void put_sites(const struct top_view *v, struct frame *f, struct buf *line)
{
        size_t all = list_len(v->sites), n = sites_shown(v, f);
        struct screen screen = {.has_tones = f->screen.has_tones, .width = f->columns - 2};
        struct buf text CLEANUP(buf_release) = {0};
        struct table t;
        if (!n)
                return;
        table_init(&t, site_columns, SITE_COLUMNS);
        for (size_t i = 0; i < n; i++)
                table_add_row(&t, &v->sites->items[i], v->now_ms);
        table_print(&t, &screen, &text);
        table_release(&t);
        for (struct slice rest = buf_slice(&text); rest.len;) {
                buf_put_str(line, "  ");
                buf_put_slice(line, text_take_line(&rest));
                put_line(f, line);
        }
        if (all > n) {
                buf_printf(line, "  and %zu more: weir wordpress status", all - n);
                put_line(f, line);
        }
}

static void put_head(const struct top_view *v, struct frame *f)
{
        struct buf line CLEANUP(buf_release) = {0};
        put_title(v, f, &line);
        put_level(v, f, &line);
        put_targets(v, f, &line);
        put_rates(v, f, &line);
        put_jobs(v, f, &line);
        put_ramp(v, f, &line);
        put_cluster(v, f, &line);
        put_sites(v, f, &line);
}

/* ---- panels ---- */

struct row {
        char key[24];      /* the id of a job, or */
        struct slice name; /* the name of anything else */
        bool is_paused;
};

struct rows {
        struct table table;
        struct row rows[TOP_ROWS_MAX];
        size_t n;
};

struct panel {
        const char *title;
        const char *empty;
        const char *list; /* key of the list in the answer; NULL: it is the answer */
        const struct column *columns;
        size_t n_columns;
};

static void put_state(struct buf *b, const struct value *q, int64_t now_ms)
{
        (void)now_ms;
        buf_put_str(b, field_is_true(q, "paused") ? "paused" : "open");
}

static enum tone state_tone(const struct value *q)
{
        return field_is_true(q, "paused") ? TONE_YELLOW : TONE_PLAIN;
}

static const struct column queue_columns[] = {
        {"QUEUE", .key = "name", .may_shrink = true},
        {"STATE", .put = put_state, .tone_of = state_tone},
        {"READY", .key = "ready", .as = AS_INT},
        {"SCHEDULED", .key = "scheduled", .as = AS_INT},
        {"WAITING", .key = "waiting", .as = AS_INT},
        {"RUNNING", .key = "running", .as = AS_INT},
        {"DONE", .key = "completed", .as = AS_INT},
        {"FAILED", .key = "failed", .as = AS_INT},
        {"OLDEST", .key = "oldest_due_ms", .as = AS_AGE},
};

static void put_attempt(struct buf *b, const struct value *job, int64_t now_ms)
{
        (void)now_ms;
        buf_printf(b, "%lld/%lld", (long long)field_int(job, "attempt"),
                   (long long)field_int(job, "attempts"));
}

static void put_progress(struct buf *b, const struct value *job, int64_t now_ms)
{
        struct slice progress = field_text(job, "progress");
        (void)now_ms;
        buf_put(b, progress.ptr, progress.len > 100 ? 100 : progress.len);
}

static const struct column job_columns[] = {
        {"ID", .key = "id", .as = AS_INT},
        {"HOOK", .key = "hook", .may_shrink = true},
        {"QUEUE", .key = "queue", .may_shrink = true},
        {"WORKER", .key = "worker", .tone = TONE_DIM, .may_shrink = true},
        {"FOR", .key = "started_ms", .as = AS_AGE},
        {"TRY", .put = put_attempt, .is_right = true},
        {"PROGRESS", .put = put_progress, .may_shrink = true},
};

static enum tone starved_tone(const struct value *client)
{
        return field_is_true(client, "starved") ? TONE_RED : TONE_PLAIN;
}

static void put_waiting(struct buf *b, const struct value *client, int64_t now_ms)
{
        (void)now_ms;
        if (field_int(client, "waiting_ms") > 0)
                duration_put(b, field_int(client, "waiting_ms"));
}

static const struct column client_columns[] = {
        {"CLIENT", .key = "name", .may_shrink = true},
        {"KIND", .key = "kind", .tone = TONE_DIM},
        {"ASKS", .key = "asks", .as = AS_INT},
        {"GRANTED", .key = "granted", .as = AS_INT},
        {"REFUSED", .key = "refused", .as = AS_INT},
        {"LAST", .key = "last_ms", .as = AS_AGE},
        {"NO GRANT FOR", .put = put_waiting, .tone_of = starved_tone, .is_right = true},
};

static void put_why(struct buf *b, const struct value *client, int64_t now_ms)
{
        struct slice metric = field_text(client, "metric");
        (void)now_ms;
        buf_put_slice(b, field_text(client, "reason"));
        buf_put_str(b, metric.len ? ": " : "");
        buf_put_slice(b, metric);
}

static const struct column starved_columns[] = {
        {"CLIENT", .key = "name", .tone = TONE_RED, .may_shrink = true},
        {"NO GRANT FOR", .key = "since_ms", .as = AS_DURATION},
        {"ASKS", .key = "asks", .as = AS_INT},
        {"WHY", .put = put_why, .may_shrink = true},
        {"TARGET", .key = "target", .may_shrink = true},
        {"MEANWHILE", .key = "starver", .may_shrink = true},
        {"GRANTS", .key = "starver_grants", .as = AS_INT},
};

#define COLUMNS(c) c, ARRAY_LEN(c)
static const struct panel panels[TOP_PANELS] = {
        [TOP_QUEUES] = {"Queues", "no queues yet: the first job makes one", NULL,
                        COLUMNS(queue_columns)},
        [TOP_JOBS] = {"Running jobs", "nothing runs", "jobs", COLUMNS(job_columns)},
        [TOP_CLIENTS] = {"Clients", "nobody has asked since the server started", "clients",
                         COLUMNS(client_columns)},
        [TOP_STARVED] = {"Starved", "nobody is starved", NULL, COLUMNS(starved_columns)},
};

static const struct value *panel_list(const struct top_view *v, enum top_panel which)
{
        const struct value *answer = v->panels[which];
        return panels[which].list ? value_get(answer, panels[which].list) : answer;
}

static struct slice row_key(const struct row *r)
{
        return r->key[0] ? slice_str(r->key) : r->name;
}

static void rows_make(struct rows *r, const struct top_view *v, enum top_panel which)
{
        const struct panel *p = &panels[which];
        const struct value *list = panel_list(v, which);
        r->n = 0;
        table_init(&r->table, p->columns, p->n_columns);
        for (size_t i = 0; i < list_len(list) && r->n < TOP_ROWS_MAX; i++) {
                const struct value *item = &list->items[i];
                struct row *row = &r->rows[r->n];
                size_t cells = r->table.n_cells;
                *row = (struct row){.name = field_text(item, "name"),
                                    .is_paused = field_is_true(item, "paused")};
                if (which == TOP_JOBS)
                        (void)snprintf(row->key, sizeof(row->key), "%lld",
                                       (long long)field_int(item, "id"));
                table_add_row(&r->table, item, v->now_ms);
                if (which == TOP_JOBS || slice_contains(row_key(row), v->filter))
                        r->n++;
                else
                        r->table.n_cells = cells;
        }
}

static size_t window_first(size_t first, size_t at, size_t height, size_t n)
{
        if (at < first)
                first = at;
        if (height && at >= first + height)
                first = at - height + 1;
        return first + height > n ? (n > height ? n - height : 0) : first;
}

/* Finds the chosen row again, or takes its neighbour. */
static void choose(struct top_view *v, const struct rows *r, size_t height)
{
        size_t at = v->at < r->n ? v->at : (r->n ? r->n - 1 : 0);
        for (size_t i = 0; v->key.len && i < r->n; i++)
                if (slice_eq(row_key(&r->rows[i]), buf_slice(&v->key)))
                        at = i;
        buf_clear(&v->key);
        v->at = at;
        v->is_paused = false;
        if (r->n) {
                buf_put_slice(&v->key, row_key(&r->rows[at]));
                v->is_paused = r->rows[at].is_paused;
        }
        v->first = window_first(v->first, at, height, r->n);
}

static void put_tabs(const struct top_view *v, struct frame *f)
{
        struct buf line CLEANUP(buf_release) = {0}, tab CLEANUP(buf_release) = {0};
        for (int i = 0; i < TOP_PANELS; i++) {
                buf_clear(&tab);
                buf_printf(&tab, i == (int)v->panel ? "[%s" : " %s", panels[i].title);
                buf_printf(&tab, " %zu", list_len(panel_list(v, (enum top_panel)i)));
                buf_put_str(&tab, i == (int)v->panel ? "]  " : "   ");
                screen_put_toned(&f->screen, &line, i == (int)v->panel ? TONE_BOLD : TONE_DIM,
                                 buf_slice(&tab));
        }
        if (v->filter.len) {
                buf_put_str(&line, "filter: ");
                text_put_safe(&line, v->filter);
        }
        put_line(f, &line);
}

/* The chosen row has a mark, since not every terminal and not every eye sees tones. */
static void put_row(struct frame *f, struct slice text, bool is_chosen)
{
        struct buf line CLEANUP(buf_release) = {0};
        bool is_reversed = is_chosen && f->screen.has_tones;
        buf_put_str(&line, is_chosen ? "> " : "  ");
        buf_put_slice(&line, text);
        for (size_t w = text_width(buf_slice(&line)); is_reversed && w < f->columns; w++)
                buf_put_byte(&line, ' ');
        if (is_reversed)
                buf_put_str(f->out, REVERSE);
        term_put_cut(f->out, buf_slice(&line), f->columns);
        buf_put_str(f->out, is_reversed ? PLAIN "\n" : "\n");
        f->lines++;
}

static void put_empty(const struct top_view *v, struct frame *f, enum top_panel which)
{
        struct buf line CLEANUP(buf_release) = {0};
        buf_put_str(&line, "  ");
        put_toned(f, &line, TONE_DIM,
                  v->filter.len ? "nothing fits the filter: Esc takes it away"
                                : panels[which].empty);
        put_line(f, &line);
}

/* `height` lines at most, the titles among them. */
static void put_panel(struct top_view *v, struct frame *f, enum top_panel which, size_t height)
{
        struct rows *r = xmalloc(sizeof(*r));
        struct buf toned CLEANUP(buf_release) = {0}, plain CLEANUP(buf_release) = {0};
        struct screen screen = {.has_tones = f->screen.has_tones, .width = f->columns - 2};
        struct screen bare = {.width = f->columns - 2};
        rows_make(r, v, which);
        choose(v, r, height > 1 ? height - 1 : 0);
        table_print(&r->table, &screen, &toned);
        table_print(&r->table, &bare, &plain); /* tones would end the reverse of the chosen row */
        struct slice lines = buf_slice(&toned), bare_lines = buf_slice(&plain);
        for (size_t i = 0; lines.len && height && r->n; i++) {
                struct slice line = text_take_line(&lines), bare_line = text_take_line(&bare_lines);
                bool is_title = i == 0, is_chosen = !v->is_whole && i == v->at + 1;
                if (!is_title && i - 1 < v->first)
                        continue;
                put_row(f, is_chosen ? bare_line : line, is_chosen);
                height--;
        }
        if (!r->n)
                put_empty(v, f, which);
        table_release(&r->table);
        free(r);
}

/* ---- the last line, and help ---- */

static const char *const help_lines[] = {
        "",
        "  q            quit",
        "  Tab, 1-4     another panel; Shift-Tab goes back",
        "  up, down     another row; j and k, PgUp, PgDn, Home and End too",
        "  /            show rows that hold a text; Esc takes it away",
        "  space        hold the chosen queue, or let it go on",
        "  c            cancel the chosen job, after a question",
        "  p            pause the throttle for an hour, or end the pause, after a question",
        "  r            ask the server now",
        "  ?            this; any key goes back",
        "",
        "  level        of the worst target, and the metric that decided it",
        "  parked       jobs that the throttle has put aside, per tier",
        "  returning    jobs that the ramp has let go and that are not due yet",
        "  Clients      those who were refused most come first",
        "  Starved      those who go on asking and are not granted",
        "  SITE         actions of a WordPress site; MOVED have a later date by weir",
};

static void put_help(struct frame *f, size_t height)
{
        struct buf line CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < ARRAY_LEN(help_lines) && i < height; i++) {
                buf_put_str(&line, help_lines[i]);
                put_line(f, &line);
        }
}

static void put_last_line(const struct top_view *v, struct frame *f)
{
        struct buf line CLEANUP(buf_release) = {0};
        if (v->notice)
                put_toned(f, &line, v->is_problem ? TONE_RED : TONE_BOLD, v->notice);
        else
                put_toned(f, &line, TONE_DIM,
                          "q quit  Tab panel  / filter  space hold queue  c cancel job  "
                          "p pause  ? help");
        term_put_cut(f->out, buf_slice(&line), f->columns);
        f->lines++;
}

/* ---- frames ---- */

void top_view_init(struct top_view *v)
{
        *v = (struct top_view){.rates = {-1, -1, -1, -1, -1, -1, -1}, .rows = 24, .columns = 80};
        buf_init(&v->key, 0);
}

void top_view_release(struct top_view *v)
{
        buf_release(&v->key);
}

void top_move(struct top_view *v, int64_t by)
{
        int64_t at = (int64_t)v->at + by;
        v->at = at > 0 ? (size_t)at : 0; /* choose() knows where the end is */
        buf_clear(&v->key);
}

void top_turn(struct top_view *v, int by)
{
        v->panel = (enum top_panel)(((int)v->panel + by + TOP_PANELS) % TOP_PANELS);
        v->at = v->first = 0;
        buf_clear(&v->key);
}

void top_put_frame(struct top_view *v, struct buf *ret)
{
        struct frame f = {.out = ret, .columns = v->columns, .screen = {.has_tones = v->has_tones}};
        if (v->rows < 3 || v->columns < 20) {
                buf_put_str(ret, "too small");
                return;
        }
        put_head(v, &f);
        put_tabs(v, &f);
        size_t height = v->rows > f.lines + 1 ? v->rows - f.lines - 1 : 0;
        if (v->is_help)
                put_help(&f, height);
        else if (height)
                put_panel(v, &f, v->panel, height);
        struct buf nothing CLEANUP(buf_release) = {0};
        while (f.lines + 1 < v->rows)
                put_line(&f, &nothing);
        put_last_line(v, &f);
}

void top_put_all(struct top_view *v, struct buf *ret)
{
        struct frame f = {.out = ret, .columns = v->columns, .screen = {.has_tones = v->has_tones}};
        v->is_whole = true;
        put_head(v, &f);
        for (int i = 0; i < TOP_PANELS; i++) {
                struct buf line CLEANUP(buf_release) = {0};
                put_line(&f, &line);
                screen_put_toned(&f.screen, &line, TONE_BOLD, slice_str(panels[i].title));
                put_line(&f, &line);
                v->at = v->first = 0;
                buf_clear(&v->key);
                put_panel(v, &f, (enum top_panel)i, SIZE_MAX);
        }
}
