/* weir throttle: what the gate does and why, and the operator's hand on it.
 *
 * Everything shown comes from one THROTTLESTATUS, so that the lines belong to the same moment.
 * What changes the gate says afterwards what that means for the jobs, from a status of its own:
 * the delays are the server's and may be configured, so none is known here. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/advice.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "cli/text.h"

/* What THROTTLE PAUSE takes; its own answer would be in milliseconds. */
#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS INT64_C(604800000) /* 7 days */

static int get_status(struct cli *cli, const struct value **ret, struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, "THROTTLESTATUS");
        int r = cli_request_call(cli, &req, ret, p);
        if (r == OK && (*ret)->type != VALUE_MAP)
                return problem_set(p, ERR_SYNTAX, "what answers on %s has no gate", cli->url.text);
        return r;
}

/* ---- status ---- */

static void put_title(struct cli *cli, const char *title)
{
        buf_printf(&cli->out, "%-8s ", title);
}

static void put_age(struct buf *b, int64_t ms)
{
        if (ms < 0)
                buf_put_str(b, "never");
        else
                duration_put(b, ms);
}

/* "; falls in 3 s", while it dwells. */
static void put_fall(struct buf *b, const struct value *target)
{
        const struct value *falls = value_get(target, "falls_in_ms");
        int64_t ms = falls ? value_int(falls, -1) : -1;
        if (ms < 0)
                return;
        buf_put_str(b, "; falls in ");
        duration_put_left(b, ms);
}

/* "shop: threads_running was 150 against 15, is 12 (400 ms old)".  What decided is what the level
 * was entered with; by dwelling, the value of now may be far below it. */
static void put_cause(struct buf *b, const struct value *target)
{
        struct slice metric = field_text(target, "metric"), error = field_text(target, "error");
        const struct value *m = list_find(value_get(target, "metrics"), metric);
        struct slice now = field_text(m, "value"), last = field_text(target, "last_known");
        int64_t age_ms = field_int(target, "age_ms");
        text_put_safe(b, field_text(target, "name"));
        if (last.len) { /* it was not measured since the start */
                buf_put_str(b, ": ");
                text_put_safe(b, last);
        } else if (slice_eq(field_text(target, "level"), SLICE_LIT("unknown"))) {
                buf_put_str(b, ": ");
                text_put_safe(b, metric.len ? metric : SLICE_LIT("nothing"));
                buf_put_byte(b, ' ');
                age_put_read(b, age_ms);
        } else if (metric.len) {
                buf_put_str(b, ": ");
                text_put_safe(b, metric);
                buf_put_str(b, " was ");
                text_put_safe(b, field_text(target, "value"));
                buf_put_str(b, " against ");
                text_put_safe(b, field_text(target, "threshold"));
                buf_put_str(b, ", is ");
                text_put_safe(b, now.len ? now : SLICE_LIT("not known"));
                buf_put_str(b, " (");
                put_age(b, age_ms);
                buf_put_str(b, age_ms < 0 ? " read)" : " old)");
                put_fall(b, target);
        }
        if (error.len) {
                buf_put_str(b, "; ");
                text_put_safe(b, error);
        }
}

static void put_off(struct buf *b)
{
        buf_put_str(b, "the throttle is switched off (setting throttle.enabled): no job waits for "
                       "the load, checks follow check.mode, a pause still holds; 'weir setting set "
                       "throttle.enabled true' switches it on\n");
}

static void put_level(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        struct slice level = field_text(v, "level");
        const struct value *targets = value_get(v, "targets");
        const struct value *target = list_find(targets, field_text(v, "target"));
        put_title(cli, "level");
        screen_put_toned(&cli->screen, b, level_tone(level), level);
        if (list_len(targets)) {
                buf_put_str(b, " for ");
                duration_put(b, field_int(v, "since_ms"));
        } else {
                buf_put_str(b, " (no target is watched)");
        }
        buf_put_str(b, field_is_true(v, "paused") ? "; the pause makes it critical\n" : "\n");
        if (target) {
                put_title(cli, "because");
                put_cause(b, target);
                buf_put_byte(b, '\n');
        }
        const struct value *observed = list_find(targets, field_text(v, "observed_target"));
        if (observed) {
                put_title(cli, "observed");
                screen_put_toned(&cli->screen, b, level_tone(field_text(v, "observed_level")),
                                 field_text(v, "observed_level"));
                buf_put_str(b, ", which makes nothing wait: ");
                put_cause(b, observed);
                buf_put_byte(b, '\n');
        }
}

static void put_pause_end(struct buf *b, int64_t left_ms)
{
        if (left_ms < 0) {
                buf_put_str(b, "until it is resumed");
                return;
        }
        buf_put_str(b, "until ");
        moment_put(b, clock_wall_ms() + left_ms);
        buf_put_str(b, " (");
        duration_put_left(b, left_ms);
        buf_put_str(b, " left)");
}

static void put_pause(struct cli *cli, const struct value *v)
{
        put_title(cli, "pause");
        if (field_is_true(v, "paused"))
                put_pause_end(&cli->out, field_int(v, "pause_left_ms"));
        else
                buf_put_str(&cli->out, "none");
        buf_put_byte(&cli->out, '\n');
}

static void put_caps(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        const struct value *caps = value_get(v, "caps");
        int64_t size = field_int(caps, "claim_size"), claims = field_int(caps, "claims");
        put_title(cli, "caps");
        if (!size && !claims)
                buf_put_str(b, "none");
        if (size)
                buf_printf(b, "%lld %s a claim", (long long)size,
                           plural((uint64_t)size, "job", "jobs"));
        if (claims)
                buf_printf(b, "%s%lld %s of a queue at once", size ? ", " : "", (long long)claims,
                           plural((uint64_t)claims, "claim", "claims"));
        buf_put_byte(b, '\n');
}

static int64_t total_of(const struct value *v, const char *key)
{
        const struct value *tiers = value_get(v, "tiers");
        int64_t sum = 0;
        for (size_t i = 0; i < list_len(tiers); i++)
                sum += field_int(&tiers->items[i], key);
        return sum;
}

static void put_ramp(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        const struct value *ramp = value_get(v, "ramp");
        int64_t next_ms = field_int(ramp, "next_in_ms");
        put_title(cli, "ramp");
        if (!field_is_true(ramp, "running")) {
                buf_put_str(b, "not running\n");
                return;
        }
        buf_printf(b, "cycle %lld of %lld, ", (long long)field_int(ramp, "cycle"),
                   (long long)field_int(ramp, "cycles"));
        buf_put_str(b, field_int(ramp, "cycle") < field_int(ramp, "cycles") ? "the next in "
                                                                            : "over in ");
        duration_put_left(b, next_ms > 0 ? next_ms : 0);
        buf_put_byte(b, '\n');
}

/* "10 jobs at once, 3 run, pressure 0.42 (observe)"; nothing when it is off. */
static void put_adaptive(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        const struct value *a = value_get(v, "adaptive");
        struct slice mode = field_text(a, "mode"), pressure = field_text(a, "pressure");
        if (!mode.len || slice_eq(mode, SLICE_LIT("off")))
                return;
        put_title(cli, "limit");
        uint64_t limit = (uint64_t)field_int(a, "limit"),
                 running = (uint64_t)field_int(a, "running");
        buf_printf(b, "%llu %s at once, %llu %s, pressure ", (unsigned long long)limit,
                   plural(limit, "job", "jobs"), (unsigned long long)running,
                   plural(running, "runs", "run"));
        text_put_safe(b, pressure.len ? pressure : SLICE_LIT("not known"));
        if (!slice_eq(mode, SLICE_LIT("enforce"))) {
                buf_put_str(b, " (");
                text_put_safe(b, mode);
                buf_put_byte(b, ')');
        }
        buf_put_byte(b, '\n');
}

static void put_delay(struct buf *b, int64_t delay_ms)
{
        buf_put_str(b, delay_ms ? "waits " : "runs");
        if (delay_ms)
                duration_put(b, delay_ms);
}

/* In the modes that change nothing a delay is only what enforce would do. */
static bool is_enforced(const struct value *v)
{
        return field_is_true(v, "paused") || slice_eq(field_text(v, "mode"), SLICE_LIT("enforce"));
}

static const struct column tier_columns[] = {
        {.title = "TIER"},
        {.title = "NOW"},
        {"PARKED", .key = "parked", .as = AS_INT},
        {"RETURNING", .key = "returning", .as = AS_INT},
        {"DEFERRED", .key = "deferred", .as = AS_INT},
        {"WOULD DEFER", .key = "would_defer", .as = AS_INT},
        {"RELEASED", .key = "released", .as = AS_INT},
};

static void put_tiers(struct cli *cli, const struct value *v)
{
        const struct value *tiers = value_get(v, "tiers");
        bool enforced = is_enforced(v);
        struct buf text CLEANUP(buf_release) = {0};
        struct table t;
        table_init(&t, tier_columns, ARRAY_LEN(tier_columns));
        for (size_t i = 0; i < list_len(tiers); i++) {
                const struct value *tier = &tiers->items[i];
                int64_t delay_ms = enforced ? field_int(tier, "delay_ms") : 0;
                buf_clear(&text);
                put_delay(&text, delay_ms);
                table_add(&t, field_text(tier, "tier"), TONE_PLAIN);
                table_add(&t, buf_slice(&text), delay_ms ? TONE_YELLOW : TONE_PLAIN);
                table_add_row(&t, tier, 0);
        }
        buf_put_byte(&cli->out, '\n');
        if (field_int(v, "start_ms") > 0) {
                put_title(cli, "counted");
                buf_put_str(&cli->out, "since ");
                moment_put(&cli->out, field_int(v, "start_ms"));
                buf_put_str(&cli->out, ", when the server started\n");
        }
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
}

static void put_metric_age(struct buf *b, const struct value *m, int64_t now_ms)
{
        (void)now_ms;
        put_age(b, field_int(m, "age_ms"));
}

static void put_metric_note(struct buf *b, const struct value *m, int64_t now_ms)
{
        struct slice note = field_text(m, field_text(m, "error").len ? "error" : "note");
        struct slice from = field_text(m, "thresholds_from");
        (void)now_ms;
        buf_put_slice(b, note);
        /* One word is the usual case: "file", "default" or "setting". */
        if (from.len && memchr(from.ptr, ' ', from.len))
                buf_printf(b, "%sthresholds: %.*s", note.len ? "; " : "", (int)from.len, from.ptr);
}

static enum tone metric_tone(const struct value *m)
{
        return level_tone(field_text(m, "level"));
}

static enum tone note_tone(const struct value *m)
{
        return field_text(m, "error").len ? TONE_RED : TONE_YELLOW;
}

static const struct column metric_columns[] = {
        {"TARGET", .may_shrink = true},
        {"METRIC", .key = "name", .may_shrink = true},
        {"LEVEL", .key = "level", .tone_of = metric_tone},
        {"VALUE", .key = "value", .as = AS_OR_DASH, .is_right = true},
        {"ELEVATED", .key = "elevated", .as = AS_OR_DASH, .is_right = true},
        {"CRITICAL", .key = "critical", .as = AS_OR_DASH, .is_right = true},
        {"AGE", .put = put_metric_age, .is_right = true},
        {"NOTE", .put = put_metric_note, .tone_of = note_tone, .may_shrink = true},
};

static void put_targets(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        const struct value *targets = value_get(v, "targets");
        struct table t;
        if (list_len(targets) == 0)
                return;
        table_init(&t, metric_columns, ARRAY_LEN(metric_columns));
        buf_put_byte(b, '\n');
        for (size_t i = 0; i < list_len(targets); i++) {
                const struct value *target = &targets->items[i];
                const struct value *metrics = value_get(target, "metrics");
                struct slice level = field_text(target, "level"), mode = field_text(target, "mode");
                struct slice last = field_text(target, "last_known");
                put_title(cli, "target");
                text_put_safe(b, field_text(target, "name"));
                buf_put_str(b, ": ");
                screen_put_toned(&cli->screen, b, level_tone(level), level);
                buf_put_str(b, " for ");
                duration_put(b, field_int(target, "since_ms"));
                if (last.len) {
                        buf_put_str(b, ", ");
                        text_put_safe(b, last);
                }
                if (!slice_eq(mode, field_text(v, "mode"))) {
                        buf_put_str(b, ", mode ");
                        text_put_safe(b, mode);
                }
                buf_put_byte(b, '\n');
                for (size_t k = 0; k < list_len(metrics); k++) {
                        table_add(&t, field_text(target, "name"), TONE_PLAIN);
                        table_add_row(&t, &metrics->items[k], 0);
                }
        }
        table_print(&t, &cli->screen, b);
        table_release(&t);
}

/* The mode is that of jobs; doors have one of their own. */
static void put_mode(struct cli *cli, const struct value *v)
{
        struct slice doors = field_text(v, "doors_mode");
        put_title(cli, "mode");
        text_put_safe(&cli->out, field_text(v, "mode"));
        if (doors.len && !slice_eq(doors, SLICE_LIT("off"))) {
                buf_put_str(&cli->out, " for jobs, ");
                text_put_safe(&cli->out, doors);
                buf_put_str(&cli->out, " at the MySQL doors");
        }
        buf_put_byte(&cli->out, '\n');
}

static int throttle_status(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = get_status(cli, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                cli_put_json(cli, v);
                return OK;
        }
        put_mode(cli, v);
        if (is_switched_off(v)) {
                put_title(cli, "off");
                put_off(&cli->out);
        }
        put_level(cli, v);
        put_pause(cli, v);
        put_caps(cli, v);
        put_ramp(cli, v);
        put_adaptive(cli, v);
        put_tiers(cli, v);
        put_targets(cli, v);
        return OK;
}

/* ---- pause and resume ---- */

/* "high waits 5 min, normal waits 15 min, deferrable waits 1 h; critical runs" */
static void put_delays(struct buf *b, const struct value *v)
{
        const struct value *tiers = value_get(v, "tiers");
        if (total_of(v, "delay_ms") == 0) {
                buf_put_str(b, "every tier runs at this level\n");
                return;
        }
        for (int is_waiting = 1; is_waiting >= 0; is_waiting--) {
                const char *between = is_waiting ? "" : "; ";
                for (size_t i = 0; i < list_len(tiers); i++) {
                        int64_t delay_ms = field_int(&tiers->items[i], "delay_ms");
                        if ((delay_ms > 0) != is_waiting)
                                continue;
                        buf_put_str(b, between);
                        text_put_safe(b, field_text(&tiers->items[i], "tier"));
                        buf_put_byte(b, ' ');
                        put_delay(b, delay_ms);
                        between = ", ";
                }
        }
        buf_put_byte(b, '\n');
}

static int throttle_pause(struct cli *cli, struct problem *p)
{
        const char *length = args_get(&cli->args, "for");
        bool is_endless = args_has(&cli->args, "until-resumed");
        struct cli_request req;
        const struct value *v;
        int64_t ms = 0;
        if (length && is_endless)
                return problem_set(p, ERR_BADARG, "--for and --until-resumed exclude each other");
        int r = length ? duration_parse("--for", length, &ms, p) : OK;
        if (r == OK && length && (ms < PAUSE_MIN_MS || ms > PAUSE_MAX_MS))
                r = problem_set(p, ERR_BADARG, "--for: 1s to 7d, not %s",
                                SHOWN_MAX(slice_str(length), 40));
        if (r != OK)
                return r;
        cli_request_init(&req, "THROTTLE");
        cli_request_add_str(&req, "PAUSE");
        if (is_endless)
                cli_request_add_str(&req, "UNTILRESUMED");
        if (length) {
                cli_request_add_str(&req, "FOR");
                cli_request_add_int(&req, ms);
        }
        r = cli_request_call(cli, &req, &v, p);
        if (r == OK)
                r = get_status(cli, &v, p);
        if (r != OK)
                return r;
        int64_t left_ms = field_int(v, "pause_left_ms");
        if (cli->is_json) {
                buf_printf(&cli->out, "{\"paused\":true,\"pause_left_ms\":%lld}\n",
                           (long long)left_ms);
                return OK;
        }
        buf_put_str(&cli->out, "paused ");
        put_pause_end(&cli->out, left_ms);
        buf_put_byte(&cli->out, '\n');
        put_delays(&cli->out, v);
        return OK;
}

static int throttle_resume(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        int r = get_status(cli, &v, p);
        bool was_paused = r == OK && field_is_true(v, "paused");
        /* As of now: the ramp begins at once. */
        int64_t parked = r == OK ? total_of(v, "parked") : 0;
        cli_request_init(&req, "THROTTLE");
        cli_request_add_str(&req, "RESUME");
        if (r == OK)
                r = cli_request_call(cli, &req, &v, p);
        if (r == OK)
                r = get_status(cli, &v, p);
        if (r != OK)
                return r;
        bool is_ramping = field_is_true(value_get(v, "ramp"), "running");
        if (cli->is_json) {
                buf_printf(&cli->out, "{\"paused\":false,\"was_paused\":%s,\"parked\":%lld}\n",
                           was_paused ? "true" : "false", (long long)parked);
                return OK;
        }
        buf_put_str(&cli->out, was_paused ? "resumed: the level is " : "not paused: the level is ");
        text_put_safe(&cli->out, field_text(v, "level"));
        if (parked)
                buf_printf(&cli->out, ", %lld parked %s %s", (long long)parked,
                           plural((uint64_t)parked, "job returns", "jobs return"),
                           is_ramping ? "by the ramp" : "when the time of each comes");
        buf_put_byte(&cli->out, '\n');
        if (is_switched_off(v))
                put_off(&cli->notes);
        return OK;
}

/* ---- history ---- */

static const struct option_def history_options[] = {
        {"before", "N", "events with smaller numbers: the page after the last one"},
        {NULL, NULL, NULL},
};

static const struct column event_columns[] = {
        {"TIME", .key = "at_ms", .as = AS_MOMENT, .tone = TONE_DIM},
        {"EVENT", .key = "event"},
        {"MESSAGE", .key = "message"},
};

/* What was deferred, by hook and tier: since the start of the server. */
static const struct column group_columns[] = {
        {"FROM", .key = "from_ms", .as = AS_MOMENT, .tone = TONE_DIM},
        {"TO", .key = "to_ms", .as = AS_MOMENT, .tone = TONE_DIM},
        {"EVENT", .key = "event"},
        {"COUNT", .key = "count", .as = AS_INT},
        {"HOOK", .key = "hook", .as = AS_OR_DASH, .may_shrink = true},
        {"TIER", .key = "tier", .as = AS_OR_DASH},
        {"LAST", .key = "message", .may_shrink = true},
};

static void put_history(struct cli *cli, const struct value *v)
{
        const struct value *events = value_get(v, "events"), *groups = value_get(v, "deferrals");
        struct slice problem = field_text(v, "problem");
        int64_t older = field_int(v, "older");
        bool has_groups = list_len(groups) && !args_has(&cli->args, "before");
        table_print_rows(&cli->screen, &cli->out, event_columns, ARRAY_LEN(event_columns), events);
        if (has_groups && cli->out.len)
                buf_put_byte(&cli->out, '\n');
        if (has_groups)
                table_print_rows(&cli->screen, &cli->out, group_columns, ARRAY_LEN(group_columns),
                                 groups);
        if (!list_len(events) && !list_len(groups))
                buf_put_str(&cli->notes, "the gate has done nothing yet\n");
        if (older > 0)
                buf_printf(&cli->notes, "there are more: --before %lld shows them\n",
                           (long long)older);
        if (problem.len) {
                text_put_safe(&cli->notes, problem);
                buf_put_byte(&cli->notes, '\n');
        }
}

/* ---- starved ---- */

static void put_why(struct buf *b, const struct value *v, int64_t now_ms)
{
        struct slice metric = field_text(v, "metric");
        (void)now_ms;
        buf_put_slice(b, field_text(v, "reason"));
        buf_put_str(b, metric.len ? ": " : "");
        buf_put_slice(b, metric);
}

static const struct column starved_columns[] = {
        {"NAME", .key = "name", .tone = TONE_RED, .may_shrink = true},
        {"NO GRANT FOR", .key = "since_ms", .as = AS_DURATION},
        {"ASKS", .key = "asks", .as = AS_INT},
        {"WHY", .put = put_why, .may_shrink = true},
        {"TARGET", .key = "target", .as = AS_OR_DASH, .may_shrink = true},
        {"MEANWHILE", .key = "starver", .as = AS_OR_DASH, .may_shrink = true},
        {"GRANTS", .key = "starver_grants", .as = AS_INT},
};

static const struct listing starved = {
        .empty = "nobody is starved\n",
        .columns = starved_columns,
        .n_columns = ARRAY_LEN(starved_columns),
};

/* ---- mode ---- */

static int call_mode(struct cli *cli, const char *set, const struct value **ret, struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, "THROTTLE");
        cli_request_add_str(&req, "MODE");
        if (set) {
                cli_request_add_str(&req, "SET");
                cli_request_add_str(&req, set);
        }
        return cli_request_call(cli, &req, ret, p);
}

/* "so far observe would have deferred: high 0, normal 12, deferrable 40" */
static void put_observed(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        const struct value *tiers = value_get(v, "tiers");
        if (total_of(v, "would_defer") == 0) {
                buf_put_str(b, "nothing would have been deferred since the server started\n");
                return;
        }
        buf_put_str(b, "since the server started, enforce would have deferred:");
        for (size_t i = 0; i < list_len(tiers); i++) {
                buf_put_str(b, i ? ", " : " ");
                text_put_safe(b, field_text(&tiers->items[i], "tier"));
                buf_printf(b, " %lld", (long long)field_int(&tiers->items[i], "would_defer"));
        }
        buf_put_byte(b, '\n');
}

static void put_mode_json(struct cli *cli, const struct value *v, struct slice was)
{
        const struct value *tiers = value_get(v, "tiers");
        struct buf *b = &cli->out;
        const struct value was_text = {.type = VALUE_TEXT, .text = was};
        buf_put_str(b, "{\"mode\":");
        value_put_json(b, value_get(v, "mode"));
        buf_put_str(b, ",\"was\":");
        value_put_json(b, &was_text);
        buf_put_str(b, ",\"would_defer\":{");
        for (size_t i = 0; i < list_len(tiers); i++) {
                buf_put_str(b, i ? "," : "");
                value_put_json(b, value_get(&tiers->items[i], "tier"));
                buf_printf(b, ":%lld", (long long)field_int(&tiers->items[i], "would_defer"));
        }
        buf_put_str(b, "}}\n");
}

static int show_mode(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = call_mode(cli, NULL, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                buf_put_str(&cli->out, "{\"mode\":");
                value_put_json(&cli->out, v);
                buf_put_str(&cli->out, "}\n");
                return OK;
        }
        text_put_safe(&cli->out, value_text(v));
        buf_put_byte(&cli->out, '\n');
        r = get_status(cli, &v, p);
        if (r == OK && is_switched_off(v))
                put_off(&cli->notes);
        return r;
}

static int throttle_mode(struct cli *cli, struct problem *p)
{
        char was[32];
        const struct value *v;
        if (cli->args.n_positional == 0)
                return show_mode(cli, p);
        int r = call_mode(cli, NULL, &v, p);
        if (r != OK)
                return r;
        struct slice before = value_text(v);
        (void)snprintf(was, sizeof(was), "%.*s", (int)before.len, before.len ? before.ptr : "");
        r = call_mode(cli, cli->args.positional[0], &v, p);
        if (r == ERR_BADARG)
                return problem_set(p, r,
                                   "there is no mode '%s': off, test_observe, observe or "
                                   "enforce",
                                   SHOWN_STR(cli->args.positional[0]));
        if (r == OK)
                r = get_status(cli, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                put_mode_json(cli, v, slice_str(was));
                return OK;
        }
        struct slice now = field_text(v, "mode");
        bool is_enforce = slice_eq(now, SLICE_LIT("enforce"));
        buf_put_str(&cli->out, "mode ");
        text_put_safe(&cli->out, now);
        buf_printf(&cli->out, ", was %s\n", was);
        if (is_enforce) {
                put_observed(cli, v);
                buf_put_str(&cli->out, "now ");
                put_delays(&cli->out, v);
        }
        if (is_enforce && (strcmp(was, "off") == 0 || strcmp(was, "test_observe") == 0))
                buf_put_str(&cli->notes, "weir: nothing was observed before: 'weir throttle mode "
                                         "observe' tells what enforce would do\n");
        if (is_switched_off(v))
                put_off(&cli->notes);
        return OK;
}

/* ---- rows ---- */

static const struct option_def pause_options[] = {
        {"for", "DURATION", "ends by itself after this long, 1s to 7d (1h)"},
        {"until-resumed", NULL, "does not end by itself"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"status", "", "Show the load level and why, what waits and what returns.",
         "The level is that of the worst target; 'because' names the metric that decided, "
         "its\n"
         "value then and against which threshold, its value now and how old that is.\n"
         "PARKED jobs wait now; DEFERRED, WOULD DEFER (mode observe) and RELEASED (by the "
         "ramp)\n"
         "count since the server started.\n\n"
         "  weir throttle status\n"
         "  weir throttle status --json | jq -r .level\n",
         .run = throttle_status},
        {"pause", "", "Behave as at level critical, for a maintenance window.",
         "Holds in every mode. Critical jobs run, what runs already goes on, the rest "
         "waits. It\n"
         "ends after an hour unless you say otherwise, also when the server is "
         "restarted.\n\n"
         "  weir throttle pause --for 30m\n",
         .options = pause_options, .run = throttle_pause},
        {"resume", "", "End the pause.", "  weir throttle resume\n", .run = throttle_resume},
        {"history", "[N]", "Show the last N events of the gate, newest first (50).",
         "Level changes with their metric, the ramp, and what operators did; kept over "
         "restarts,\n"
         "for a year by default. Below them, what was deferred since the server started, "
         "by hook\n"
         "and tier.\n\n"
         "  weir throttle history 100\n"
         "  weir throttle history --before 4711\n",
         .options = history_options, .command = "THROTTLEHISTORY", .apart = "count",
         .word = "COUNT", .show = put_history},
        {"starved", "", "List who goes on asking and is not granted, and who is meanwhile.",
         "Of those who ask through the check door. MEANWHILE is the one with most grants "
         "on the\n"
         "same target since then. 'weir rule prioritize NAME' turns it round.\n\n"
         "  weir throttle starved\n",
         .command = "STARVED", .listing = &starved},
        {"advise", "[TARGET]", "Propose thresholds from the usual values of each metric.",
         "weir learns from the last 7 days, in every mode; a day is the least. The table has what "
         "the\n"
         "present and the proposed thresholds do to the last day. Below it are the usual values "
         "by\n"
         "hour of the day, the line of weir.conf, and the commands that apply the proposal.\n\n"
         "  weir throttle advise shop\n",
         .command = "THROTTLEADVISE", .apart = "target", .word = "TARGET", .show = advice_show},
        {"mode", "[off|test_observe|observe|enforce]", "Show or set what the gate does.",
         "off           nothing\n"
         "test_observe  measure and show levels\n"
         "observe       also count and tell what would wait; everything runs\n"
         "enforce       jobs wait by tier and level\n\n"
         "What is set holds over restarts and before the configuration. Watch observe for "
         "a week\n"
         "before you enforce:\n\n"
         "  weir throttle mode observe\n",
         .run = throttle_mode},
};

const struct cli_group cli_group_throttle = {"throttle",
                                             "Show and steer the gate: load levels, pause, mode.",
                                             commands, ARRAY_LEN(commands)};
