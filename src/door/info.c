/* INFO.
 *
 * Redis' client libraries read a few of these lines at the start (redis_version, loading, role)
 * and refuse to go on without them; they are there for that, and say what weir is compatible
 * with.  All others are weir's own: the counters of core and door, by their names in /metrics. */
#include "door/info.h"

#include <unistd.h>

#include "core/archive.h"
#include "door/door_int.h"

/* The Redis whose protocol and connection commands are spoken here. */
#define REDIS_COMPATIBLE "7.0.0"

static void line_text(struct buf *b, const char *name, const char *value)
{
        buf_put_str(b, name);
        buf_put_byte(b, ':');
        buf_put_str(b, value);
        buf_put(b, "\r\n", 2);
}

static void line_int(struct buf *b, const char *name, int64_t value)
{
        buf_put_str(b, name);
        buf_put_byte(b, ':');
        buf_put_i64(b, value);
        buf_put(b, "\r\n", 2);
}

static void write_server(const struct server *s, struct buf *b)
{
        line_text(b, "redis_version", REDIS_COMPATIBLE);
        line_text(b, "redis_mode", "standalone");
        line_text(b, "weir_version", s->version);
        line_int(b, "process_id", getpid());
        line_int(b, "arch_bits", 8 * (int64_t)sizeof(void *));
        line_int(b, "server_time_ms", s->loop->now.wall_ms);
        line_int(b, "uptime_in_seconds", (s->loop->now.wall_ms - s->started_ms) / MS_PER_S);
        line_int(b, "loading", 0);
        line_int(b, "stopping", s->loop->is_stopping);
        line_text(b, "role", s->is_following ? "slave" : "master");
        if (s->secret.len)
                line_text(b, "node", s->node);
        if (s->is_following) {
                line_text(b, "leader", s->relays.leader ? s->relays.leader : "");
                line_text(b, "leader_status", relays_are_ready(s) ? "up" : "down");
                line_int(b, "lag_batches", (int64_t)s->lag);
        }
        if (s->tls)
                line_int(b, "tls_certificate_ends", server_tls_ends_ms(s));
        line_int(b, "loop_turn_max_us",
                 (int64_t)(turn_watch_max_ns(&s->loop->turns, uv_hrtime()) / 1000));
        line_int(b, "loop_slow_turns", (int64_t)s->loop->turns.slow);
}

static bool is_of(const struct counter_row *row, const char *prefix)
{
        return strncmp(row->name, prefix, strlen(prefix)) == 0;
}

static void write_clients(const struct server *s, struct buf *b)
{
        struct counter_row rows[DOOR_COUNTERS];
        size_t n = server_counters(s, rows, ARRAY_LEN(rows));
        line_int(b, "connected_clients", (int64_t)s->counter[DOOR_CONNECTIONS]);
        line_int(b, "maxclients", LIMIT_CONNECTIONS);
        for (size_t i = 0; i < n; i++)
                line_int(b, rows[i].name, (int64_t)rows[i].value);
}

/* prefix: NULL for those that have no section of their own. */
static void write_core(const struct server *s, const char *prefix, struct buf *b)
{
        struct counter_row rows[CORE_COUNTERS_MAX];
        size_t n = core_counters(s->core, rows, ARRAY_LEN(rows));
        for (size_t i = 0; i < n; i++) {
                bool is_log = is_of(&rows[i], "log_"), is_history = is_of(&rows[i], "history_");
                if (prefix ? is_of(&rows[i], prefix) : !is_log && !is_history)
                        line_int(b, rows[i].name, (int64_t)rows[i].value);
        }
}

static void write_jobs(const struct server *s, struct buf *b)
{
        write_core(s, NULL, b);
}

static void write_log(const struct server *s, struct buf *b)
{
        line_int(b, "log_durable_seq", (int64_t)core_durable_seq(s->core));
        write_core(s, "log_", b);
}

/* Since when it cannot be written, and why, is only there while it is so. */
static void write_history(const struct server *s, struct buf *b)
{
        struct archive_stat stat;
        core_archive_stat(s->core, &stat);
        write_core(s, "history_", b);
        if (!stat.failing_since_ms)
                return;
        line_int(b, "history_failing_since_ms", stat.failing_since_ms);
        line_text(b, "history_problem", stat.failing);
}

static void write_limits(const struct server *s, struct buf *b)
{
        (void)s;
        for (size_t i = 0; i < limit_table_len; i++)
                line_int(b, limit_table[i].name, limit_table[i].value);
}

static const struct section {
        const char *name;
        void (*write)(const struct server *s, struct buf *b);
} sections[] = {
        {"Server", write_server}, {"Clients", write_clients}, {"Jobs", write_jobs},
        {"Log", write_log},       {"History", write_history}, {"Limits", write_limits},
};

static bool is_all(struct slice section)
{
        return section.len == 0 || slice_eq_nocase(section, SLICE_LIT("all")) ||
               slice_eq_nocase(section, SLICE_LIT("everything")) ||
               slice_eq_nocase(section, SLICE_LIT("default"));
}

void info_write(const struct server *s, struct slice section, struct buf *ret)
{
        for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
                if (!is_all(section) && !slice_eq_nocase(section, slice_str(sections[i].name)))
                        continue;
                if (ret->len)
                        buf_put(ret, "\r\n", 2);
                buf_put_str(ret, "# ");
                buf_put_str(ret, sections[i].name);
                buf_put(ret, "\r\n", 2);
                sections[i].write(s, ret);
        }
}
