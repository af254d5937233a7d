/* /metrics.
 *
 * The rows of core and door under their own names, totals with the suffix Prometheus wants; then
 * the queues, one family after the other because the format wants the lines of a family
 * together. */
#include "door/metrics.h"

#include <math.h>

#include "checks/check.h"
#include "checks/client.h"
#include "door/door_int.h"

void metrics_put_label(struct buf *b, struct slice value)
{
        for (size_t i = 0; i < value.len; i++) {
                char c = value.ptr[i];
                if (c == '\n') {
                        buf_put_str(b, "\\n");
                        continue;
                }
                if (c == '\\' || c == '"')
                        buf_put_byte(b, '\\');
                buf_put_byte(b, c);
        }
}

static void put_title(struct buf *b, const char *name, enum counter_kind kind, const char *text)
{
        size_t len = strlen(name);
        bool has_suffix = len > 6 && strcmp(name + len - 6, "_total") == 0;
        const char *suffix = kind == COUNTER_TOTAL && !has_suffix ? "_total" : "";
        buf_printf(b, "# HELP weir_%s%s %s\n# TYPE weir_%s%s %s\n", name, suffix, text, name,
                   suffix, kind == COUNTER_TOTAL ? "counter" : "gauge");
}

/* Prometheus wants base units: INFO's log_sync_ns is log_sync_seconds here. */
static bool put_seconds(struct buf *b, const struct counter_row *row)
{
        char name[64];
        size_t len = strlen(row->name);
        if (len < 4 || strcmp(row->name + len - 3, "_ns") != 0)
                return false;
        (void)snprintf(name, sizeof(name), "%.*s_seconds", (int)(len - 3), row->name);
        put_title(b, name, row->kind, row->text);
        buf_printf(b, "weir_%s %.9g\n", name, (double)row->value / NS_PER_S);
        return true;
}

static void put_rows(struct buf *b, const char *prefix, const struct counter_row *rows, size_t n)
{
        char name[64];
        for (size_t i = 0; i < n; i++) {
                if (put_seconds(b, &rows[i]))
                        continue;
                (void)snprintf(name, sizeof(name), "%s%s", prefix, rows[i].name);
                put_title(b, name, rows[i].kind, rows[i].text);
                buf_printf(b, "weir_%s%s %llu\n", name,
                           rows[i].kind == COUNTER_TOTAL ? "_total" : "",
                           (unsigned long long)rows[i].value);
        }
}

struct walk {
        struct buf *b;
        int64_t wall_ms;
};

/* label: NULL without one. */
static void put_sample(struct buf *b, const char *name, struct slice queue, const char *label,
                       uint64_t value)
{
        buf_printf(b, "weir_%s{queue=\"", name);
        metrics_put_label(b, queue);
        buf_printf(b, "\"%s%s} %llu\n", label ? "," : "", label ? label : "",
                   (unsigned long long)value);
}

static void put_queue_jobs(void *ctx, const struct queue_stat *q)
{
        struct buf *b = ((struct walk *)ctx)->b;
        put_sample(b, "queue_jobs", q->name, "state=\"ready\"", q->ready);
        put_sample(b, "queue_jobs", q->name, "state=\"scheduled\"",
                   q->scheduled - q->parked - q->returning);
        put_sample(b, "queue_jobs", q->name, "state=\"waiting\"", q->waiting);
        put_sample(b, "queue_jobs", q->name, "state=\"parked\"", q->parked);
        put_sample(b, "queue_jobs", q->name, "state=\"returning\"", q->returning);
        put_sample(b, "queue_jobs", q->name, "state=\"running\"", q->running);
}

static void put_queue_totals(void *ctx, const struct queue_stat *q)
{
        struct buf *b = ((struct walk *)ctx)->b;
        put_sample(b, "queue_events_total", q->name, "event=\"enqueued\"", q->enqueued);
        put_sample(b, "queue_events_total", q->name, "event=\"completed\"", q->completed);
        put_sample(b, "queue_events_total", q->name, "event=\"failed\"", q->failed);
        put_sample(b, "queue_events_total", q->name, "event=\"canceled\"", q->canceled);
}

static void put_queue_paused(void *ctx, const struct queue_stat *q)
{
        put_sample(((struct walk *)ctx)->b, "queue_paused", q->name, NULL, q->is_paused);
}

static void put_queue_age(void *ctx, const struct queue_stat *q)
{
        struct walk *w = ctx;
        int64_t age_ms = q->oldest_due_ms ? w->wall_ms - q->oldest_due_ms : 0;
        buf_put_str(w->b, "weir_queue_oldest_ready_seconds{queue=\"");
        metrics_put_label(w->b, q->name);
        buf_printf(w->b, "\"} %.10g\n", age_ms > 0 ? (double)age_ms / MS_PER_S : 0.0);
}

static const struct family {
        const char *name;
        enum counter_kind kind;
        const char *text;
        void (*put)(void *ctx, const struct queue_stat *q);
} families[] = {
        {"queue_jobs", COUNTER_GAUGE, "Jobs of a queue by state; each job has one.",
         put_queue_jobs},
        {"queue_events", COUNTER_TOTAL, "Jobs of a queue that came to this.", put_queue_totals},
        {"queue_paused", COUNTER_GAUGE, "1 while a queue is paused.", put_queue_paused},
        {"queue_oldest_ready_seconds", COUNTER_GAUGE,
         "How long the oldest ready job of a queue has been due.", put_queue_age},
};

static const struct {
        const char *name;
        enum counter_kind kind;
        const char *text;
} gate_families[] = {
        {"gate_level", COUNTER_GAUGE,
         "Load level of a target: 0 normal, 1 elevated, 2 critical, 3 unknown."},
        {"gate_metric", COUNTER_GAUGE, "Last value of a metric of a target."},
        {"gate_metric_threshold", COUNTER_GAUGE,
         "Where a metric enters a level, or a check is refused (level check)."},
        {"gate_metric_age_seconds", COUNTER_GAUGE, "Age of that value."},
        {"gate_metric_error", COUNTER_GAUGE, "1 when the last try to read the metric failed."},
        {"gate_parked", COUNTER_GAUGE, "Jobs the gate makes wait, by tier."},
        {"gate_returning", COUNTER_GAUGE, "Jobs the ramp let go that are not due yet, by tier."},
        {"gate_deferred_total", COUNTER_TOTAL, "Deferrals, by tier."},
        {"gate_would_defer_total", COUNTER_TOTAL, "Deferrals that observe announced, by tier."},
        {"gate_released_total", COUNTER_TOTAL, "Jobs the ramp gave back, by tier."},
        {"gate_decisions_total", COUNTER_TOTAL, "Decisions by tier, level and verdict."},
        {"gate_ramp_running", COUNTER_GAUGE, "1 while parked jobs return."},
        {"gate_adaptive_limit", COUNTER_GAUGE, "Jobs that may run at once, by pressure."},
        {"checks_granted_total", COUNTER_TOTAL, "Checks that were granted."},
        {"checks_refused_total", COUNTER_TOTAL, "Checks that were refused, by reason."},
        {"checks_would_refuse_total", COUNTER_TOTAL, "Checks that observe let through."},
        {"checks_parked_total", COUNTER_TOTAL, "Checks that were made to wait."},
        {"checks_waiting", COUNTER_GAUGE, "Checks that wait now."},
        {"check_rules", COUNTER_GAUGE, "Rules for those who check."},
        {"check_credits", COUNTER_GAUGE, "Credits a second of a target."},
};

/* Those of the clients come from a table of thousands: walked for these families alone. */
static const struct {
        const char *name;
        enum counter_kind kind;
        const char *text;
} client_families[] = {
        {"check_asks_total", COUNTER_TOTAL, "Checks of the busiest identities, by verdict."},
        {"check_starved", COUNTER_GAUGE, "Identities that go on asking and are never granted."},
        {"check_clients", COUNTER_GAUGE, "Identities and parts that are counted."},
};

/* One walk over the rules for all three. */
static void put_exemptions(struct buf *b, const struct core *core)
{
        struct core_exemptions e;
        core_exemptions(core, &e);
        put_title(b, "check_exemptions", COUNTER_GAUGE, "Rules that let somebody through.");
        buf_printf(b, "weir_check_exemptions %llu\n", (unsigned long long)e.n);
        put_title(b, "check_exemptions_over_budget", COUNTER_GAUGE,
                  "Exemptions that let somebody through for longer than their budget allows.");
        buf_printf(b, "weir_check_exemptions_over_budget %llu\n", (unsigned long long)e.n_over);
        put_title(b, "check_exemption_budget_used", COUNTER_GAUGE,
                  "Part of its budget that the busiest exemption has used; 1 is all of it.");
        buf_printf(b, "weir_check_exemption_budget_used %.4g\n", e.used);
}

struct gate_walk {
        struct buf *b;
        const char *family;
};

static void put_gate_sample(void *ctx, const char *name, const char *labels, double value)
{
        const struct gate_walk *w = ctx;
        if (strcmp(name, w->family) != 0 || isnan(value))
                return;
        buf_printf(w->b, "weir_%s%s%s%s %.10g\n", name, *labels ? "{" : "", labels,
                   *labels ? "}" : "", value);
}

void metrics_put(const struct server *s, struct buf *ret)
{
        struct counter_row rows[CORE_COUNTERS_MAX];
        struct walk walk = {ret, s->loop->now.wall_ms};
        put_title(ret, "build_info", COUNTER_GAUGE, "Always 1; the version is in the label.");
        buf_put_str(ret, "weir_build_info{version=\"");
        metrics_put_label(ret, slice_str(s->version));
        buf_put_str(ret, "\"} 1\n");
        put_title(ret, "uptime_seconds", COUNTER_GAUGE, "Time since the start.");
        buf_printf(ret, "weir_uptime_seconds %lld\n",
                   (long long)((s->loop->now.wall_ms - s->started_ms) / MS_PER_S));
        put_title(ret, "loop_turn_max_seconds", COUNTER_GAUGE,
                  "Longest turn of the loop in the last minute, waits for the disk aside.");
        buf_printf(ret, "weir_loop_turn_max_seconds %.6f\n",
                   (double)turn_watch_max_ns(&s->loop->turns, uv_hrtime()) / NS_PER_S);
        put_title(ret, "loop_slow_turns", COUNTER_TOTAL, "Turns of the loop longer than 5 ms.");
        buf_printf(ret, "weir_loop_slow_turns_total %llu\n",
                   (unsigned long long)s->loop->turns.slow);
        size_t n = core_counters(s->core, rows, ARRAY_LEN(rows));
        put_rows(ret, "", rows, n);
        n = server_counters(s, rows, ARRAY_LEN(rows));
        put_rows(ret, "door_", rows, n);
        for (size_t i = 0; i < ARRAY_LEN(families); i++) {
                put_title(ret, families[i].name, families[i].kind, families[i].text);
                core_each_queue(s->core, families[i].put, &walk);
        }
        for (size_t i = 0; i < ARRAY_LEN(gate_families); i++) {
                struct gate_walk gate = {ret, gate_families[i].name};
                put_title(ret, gate.family, gate_families[i].kind, gate_families[i].text);
                core_each_gate_sample(s->core, put_gate_sample, &gate);
        }
        put_exemptions(ret, s->core);
        for (size_t i = 0; i < ARRAY_LEN(client_families); i++) {
                struct gate_walk gate = {ret, client_families[i].name};
                put_title(ret, gate.family, client_families[i].kind, client_families[i].text);
                clients_each_sample(s->core, put_gate_sample, &gate);
        }
}
