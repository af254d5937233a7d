/* /metrics.
 *
 * The rows of core and door under their own names, totals with the suffix Prometheus wants; then
 * the queues, one family after the other because the format wants the lines of a family
 * together. */
#include "door/metrics.h"

#include <math.h>

#include "checks/check.h"
#include "checks/client.h"
#include "core/tally.h"
#include "door/door_int.h"
#include "log/member.h"
#include "sites/sites.h"
#include "traffic/traffic.h"

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

static const struct {
        const char *name;
        enum counter_kind kind;
        const char *text;
} site_families[] = {
        {"site_up", COUNTER_GAUGE, "1 when the last survey of a WordPress site succeeded."},
        {"site_due", COUNTER_GAUGE, "Actions that are due, counted up to a cap for each hook."},
        {"site_oldest_due_seconds", COUNTER_GAUGE, "Age of the oldest of them."},
        {"site_moved", COUNTER_GAUGE, "Actions that are moved to a later date now."},
        {"site_would_move", COUNTER_GAUGE, "Due actions that wait, or would in enforce mode."},
        {"site_running", COUNTER_GAUGE, "Actions in progress."},
        {"site_failed", COUNTER_GAUGE, "Failed actions, counted up to a cap."},
        {"site_survey_seconds", COUNTER_GAUGE, "Time that the last survey took."},
        {"site_moved_total", COUNTER_TOTAL, "Actions that were moved."},
        {"site_returned_total", COUNTER_TOTAL, "Actions that were given back."},
        {"site_fronted_total", COUNTER_TOTAL, "Actions that were put in front of others."},
        {"site_mended_total", COUNTER_TOTAL, "Faults of Action Scheduler that were mended."},
};

/* Doors of the MySQL proxy.  A histogram has three names: _bucket, _sum and _count. */
enum traffic_kind { TRAFFIC_TOTAL, TRAFFIC_GAUGE, TRAFFIC_HISTOGRAM };
static const struct {
        const char *name;
        enum traffic_kind kind;
        const char *text;
} traffic_families[] = {
        {"proxy_up", TRAFFIC_GAUGE, "1 while the server behind a MySQL door answers."},
        {"proxy_draining", TRAFFIC_GAUGE, "1 while a door takes no new connections."},
        {"proxy_connections", TRAFFIC_GAUGE, "Connections of clients to a door."},
        {"proxy_in_transaction", TRAFFIC_GAUGE, "Those that are in a transaction."},
        {"proxy_with_locks", TRAFFIC_GAUGE, "Those whose sessions hold locks; they never wait."},
        {"proxy_blind", TRAFFIC_GAUGE, "Those that are passed on unread."},
        {"proxy_running", TRAFFIC_GAUGE, "Transactions at the server."},
        {"proxy_waiting", TRAFFIC_GAUGE, "Transactions that are held."},
        {"proxy_executing", TRAFFIC_GAUGE,
         "Those of them with a statement at the server, not waiting for their client."},
        {"proxy_window", TRAFFIC_GAUGE,
         "Transactions that may execute at once beyond what is usual for their classes."},
        {"proxy_excess", TRAFFIC_GAUGE, "Transactions that execute beyond the usual."},
        {"proxy_over", TRAFFIC_GAUGE,
         "1 while the database is slower and runs more than usual, or a metric of harm is too "
         "high."},
        {"proxy_slowdown_ratio", TRAFFIC_GAUGE,
         "Time of transactions at the server, in relation to the usual."},
        {"proxy_slow_ratio", TRAFFIC_GAUGE,
         "Share of transactions, at least, that take longer than 98 of 100 usually do."},
        {"proxy_accepted_total", TRAFFIC_TOTAL, "Connections that were accepted."},
        {"proxy_refused_connections_total", TRAFFIC_TOTAL, "Connections that were refused."},
        {"proxy_bytes_total", TRAFFIC_TOTAL, "Bytes from clients (in) and to clients (out)."},
        {"proxy_class_running", TRAFFIC_GAUGE, "Transactions of a class at the server."},
        {"proxy_class_waiting", TRAFFIC_GAUGE, "Transactions of a class that are held."},
        {"proxy_class_executing", TRAFFIC_GAUGE, "Transactions of a class that execute."},
        {"proxy_class_usual", TRAFFIC_GAUGE,
         "Transactions of a class that usually execute at once; they never wait for load."},
        {"proxy_class_oldest_wait_seconds", TRAFFIC_GAUGE,
         "How long the oldest of them has waited."},
        {"proxy_transactions_total", TRAFFIC_TOTAL, "Transactions that were let through."},
        {"proxy_statements_total", TRAFFIC_TOTAL, "Statements of them."},
        {"proxy_rows_total", TRAFFIC_TOTAL, "Rows that were sent to clients or changed."},
        {"proxy_errors_total", TRAFFIC_TOTAL, "Statements that the server refused."},
        {"proxy_held_total", TRAFFIC_TOTAL, "Transactions that had to wait."},
        {"proxy_refused_total", TRAFFIC_TOTAL, "Transactions that got an error of weir's."},
        {"proxy_left_total", TRAFFIC_TOTAL,
         "Transactions whose client went away while they waited; they never ran."},
        {"proxy_observed_total", TRAFFIC_TOTAL, "Transactions that enforce would have held."},
        {"proxy_busy_seconds_total", TRAFFIC_TOTAL, "Database time that transactions used."},
        {"proxy_kept_total", TRAFFIC_TOTAL, "Transactions held or observed, by what kept them."},
        {"proxy_wait_seconds", TRAFFIC_HISTOGRAM, "How long held transactions waited."},
        {"proxy_service_seconds", TRAFFIC_HISTOGRAM,
         "How long transactions took, from their start to their end."},
};
#define N_TRAFFIC ARRAY_LEN(traffic_families)

/* One walk for all families: it copies the counters of every class. */
struct traffic_walk {
        struct buf lines[N_TRAFFIC];
};

static bool is_of_family(size_t family, const char *name)
{
        size_t len = strlen(traffic_families[family].name);
        if (strncmp(name, traffic_families[family].name, len) != 0)
                return false;
        if (traffic_families[family].kind != TRAFFIC_HISTOGRAM)
                return !name[len];
        return strcmp(name + len, "_bucket") == 0 || strcmp(name + len, "_sum") == 0 ||
               strcmp(name + len, "_count") == 0;
}

static void put_traffic_sample(void *ctx, const char *name, const char *labels, double value)
{
        struct traffic_walk *w = ctx;
        size_t i = 0;
        while (i < N_TRAFFIC && !is_of_family(i, name))
                i++;
        ASSERT(i < N_TRAFFIC);
        if (!isnan(value))
                buf_printf(&w->lines[i], "weir_%s{%s} %.10g\n", name, labels, value);
}

static void put_traffic(struct buf *b, const struct core *core)
{
        static const char *const kinds[] = {[TRAFFIC_TOTAL] = "counter",
                                            [TRAFFIC_GAUGE] = "gauge",
                                            [TRAFFIC_HISTOGRAM] = "histogram"};
        struct traffic_walk w = {0};
        traffic_each_sample(core, put_traffic_sample, &w);
        for (size_t i = 0; i < N_TRAFFIC; i++) {
                buf_printf(b, "# HELP weir_%s %s\n# TYPE weir_%s %s\n", traffic_families[i].name,
                           traffic_families[i].text, traffic_families[i].name,
                           kinds[traffic_families[i].kind]);
                buf_put_slice(b, buf_slice(&w.lines[i]));
                buf_release(&w.lines[i]);
        }
}

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

/* ---- times ---- */

/* Every second octave: a factor of 4 from 1 ms to 4.7 h is fine enough to alert on, and half the
 * lines. */
#define TIME_EVERY 2
#define TIME_LAST  24

/* A family for each pair: one with both labels would count every job twice. */
static const struct times {
        const char *name, *label, *text;
        bool is_run;
} times[] = {
        {"job_wait_seconds", "queue", "Time from due to start, the gate's delay included.", false},
        {"job_run_seconds", "queue", "Time of an attempt, from start to its end.", true},
        {"hook_wait_seconds", "hook", "The same as weir_job_wait_seconds, by hook.", false},
        {"hook_run_seconds", "hook", "The same as weir_job_run_seconds, by hook.", true},
};

struct times_walk {
        struct buf *b;
        const struct times *of;
};

static void begin_time(const struct times_walk *w, const char *suffix, struct slice name)
{
        buf_printf(w->b, "weir_%s_%s{%s=\"", w->of->name, suffix, w->of->label);
        metrics_put_label(w->b, name);
}

static void put_times(void *ctx, const struct tally_life *l)
{
        const struct times_walk *w = ctx;
        const uint64_t *n = w->of->is_run ? l->run : l->wait;
        uint64_t below = 0;
        for (unsigned i = 0; i < OCTAVES; i++) {
                below += n[i];
                if (i % TIME_EVERY || i > TIME_LAST)
                        continue;
                begin_time(w, "bucket", l->name);
                buf_printf(w->b, "\",le=\"%.10g\"} %llu\n", (double)(1ULL << i) / MS_PER_S,
                           (unsigned long long)below);
        }
        begin_time(w, "bucket", l->name);
        buf_printf(w->b, "\",le=\"+Inf\"} %llu\n", (unsigned long long)below);
        begin_time(w, "sum", l->name);
        buf_printf(w->b, "\"} %.10g\n",
                   (double)(w->of->is_run ? l->run_ms : l->wait_ms) / MS_PER_S);
        begin_time(w, "count", l->name);
        buf_printf(w->b, "\"} %llu\n", (unsigned long long)below);
}

static void put_job_times(struct buf *b, const struct core *core)
{
        for (size_t i = 0; i < ARRAY_LEN(times); i++) {
                struct times_walk walk = {b, &times[i]};
                buf_printf(b, "# HELP weir_%s %s\n# TYPE weir_%s histogram\n", times[i].name,
                           times[i].text, times[i].name);
                core_each_life(core, strcmp(times[i].label, "hook") == 0, put_times, &walk);
        }
}

struct token_walk {
        struct buf *b;
        const char *family;
        uint64_t (*value)(const struct use *use);
};

static uint64_t connections_of(const struct use *use)
{
        return use->connections;
}

static uint64_t bytes_of(const struct use *use)
{
        return use->bytes;
}

static uint64_t commands_of(const struct use *use)
{
        return use->commands;
}

static void put_token(void *ctx, const struct grant *g)
{
        const struct token_walk *w = ctx;
        buf_printf(w->b, "weir_%s{token=\"", w->family);
        metrics_put_label(w->b, g->name);
        buf_printf(w->b, "\"} %llu\n", (unsigned long long)w->value(&g->use));
}

static void put_tokens(struct buf *b, struct core *core)
{
        struct token_walk walk = {b, "token_connections", connections_of};
        put_title(b, walk.family, COUNTER_GAUGE, "Connections of an access token.");
        tokens_each(core, put_token, &walk);
        walk = (struct token_walk){b, "token_memory_bytes", bytes_of};
        put_title(b, walk.family, COUNTER_GAUGE,
                  "Memory of unsent output and unfinished input of a token's connections.");
        tokens_each(core, put_token, &walk);
        walk = (struct token_walk){b, "token_commands_total", commands_of};
        put_title(b, "token_commands", COUNTER_TOTAL, "Commands that a token has sent.");
        tokens_each(core, put_token, &walk);
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

/* ---- the cluster ---- */

static void put_number(struct buf *b, const char *name, enum counter_kind kind, const char *text,
                       uint64_t value)
{
        put_title(b, name, kind, text);
        buf_printf(b, "weir_%s%s %llu\n", name, kind == COUNTER_TOTAL ? "_total" : "",
                   (unsigned long long)value);
}

static void put_members(struct buf *b, const struct log_member *members, size_t n)
{
        put_title(
                b, "cluster_member_seen_seconds", COUNTER_GAUGE,
                "How long ago a machine of the cluster was heard of; missing when weir is alone.");
        for (size_t i = 0; i < n; i++) {
                buf_put_str(b, "weir_cluster_member_seen_seconds{node=\"");
                metrics_put_label(b, slice_str(members[i].node));
                buf_printf(b, "\"} %.10g\n", (double)members[i].seen_ms / MS_PER_S);
        }
        put_title(b, "cluster_member_batch", COUNTER_GAUGE,
                  "Last batch that a machine of the cluster told it has; missing when weir is "
                  "alone.");
        for (size_t i = 0; i < n; i++) {
                buf_put_str(b, "weir_cluster_member_batch{node=\"");
                metrics_put_label(b, slice_str(members[i].node));
                buf_printf(b, "\"} %llu\n", (unsigned long long)members[i].seq);
        }
        put_title(b, "cluster_member_differs", COUNTER_GAUGE,
                  "1 when a machine of the cluster had another state than the leader at the last "
                  "comparison, 0 when it had the same; missing until they are compared.");
        for (size_t i = 0; i < n; i++) {
                enum member_state state = member_state(&members[i], members, n);
                if (state == MEMBER_UNKNOWN)
                        continue;
                buf_put_str(b, "weir_cluster_member_differs{node=\"");
                metrics_put_label(b, slice_str(members[i].node));
                buf_printf(b, "\"} %d\n", state == MEMBER_DIFFERS);
        }
}

/* A weir that is alone leads, as /readyz says too: what looks for a leader finds one. */
static void put_cluster(struct buf *b, const struct server *s)
{
        struct log_member members[LOG_MEMBERS_MAX];
        size_t n = core_members(s->core, members, ARRAY_LEN(members));
        bool is_led = !s->is_following;
        uint64_t epoch = 0;
        for (size_t i = 0; i < n; i++) {
                is_led |= members[i].is_leader;
                if (members[i].is_self)
                        epoch = members[i].epoch;
        }
        put_number(
                b, "cluster_leader", COUNTER_GAUGE,
                "1 on the machine that leads and on a weir that is alone, 0 on one that follows.",
                !s->is_following);
        put_number(b, "cluster_led", COUNTER_GAUGE,
                   "1 while this machine knows one that leads, itself included.", is_led);
        put_number(b, "cluster_held", COUNTER_GAUGE,
                   "1 while this machine leads and holds its answers: its lease is in doubt.",
                   s->is_held);
        put_number(b, "cluster_leads", COUNTER_TOTAL, "Times that this machine began to lead.",
                   s->n_led);
        put_number(b, "cluster_epoch", COUNTER_GAUGE,
                   "Epoch of the newest batch here: each leader begins one; 0 when weir is alone.",
                   epoch);
        put_number(b, "cluster_batch", COUNTER_GAUGE, "Last batch of the log that is here.",
                   core_durable_seq(s->core));
        put_number(b, "cluster_lag_batches", COUNTER_GAUGE,
                   "Batches that the leader had a second ago and this machine has not yet.",
                   s->lag);
        put_members(b, members, n);
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
        put_title(ret, "tls_certificate_ends_seconds", COUNTER_GAUGE,
                  "Unix time at which the certificate of the server ends; missing without TLS.");
        if (s->tls)
                buf_printf(ret, "weir_tls_certificate_ends_seconds %lld\n",
                           (long long)(server_tls_ends_ms(s) / MS_PER_S));
        size_t n = core_counters(s->core, rows, ARRAY_LEN(rows));
        put_rows(ret, "", rows, n);
        n = server_counters(s, rows, ARRAY_LEN(rows));
        put_rows(ret, "door_", rows, n);
        put_cluster(ret, s);
        for (size_t i = 0; i < ARRAY_LEN(families); i++) {
                put_title(ret, families[i].name, families[i].kind, families[i].text);
                core_each_queue(s->core, families[i].put, &walk);
        }
        put_job_times(ret, s->core);
        put_tokens(ret, s->core);
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
        for (size_t i = 0; i < ARRAY_LEN(site_families); i++) {
                struct gate_walk site = {ret, site_families[i].name};
                put_title(ret, site.family, site_families[i].kind, site_families[i].text);
                sites_each_sample(s->core, put_gate_sample, &site);
        }
        put_traffic(ret, s->core);
}
