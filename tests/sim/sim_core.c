/* Core and log together on a disk that forgets, with a virtual clock and seeded dice.
 *
 * The log is as asynchronous as with its thread: a batch is in flight for some turns, while the
 * next one is collected.
 *
 * Clients send random commands; what they are told (a reply whose batch became durable) is kept
 * as a promise.  The disk dies in the middle of a chosen call, or one of its calls fails; then
 * unsynced sectors are kept, lost and mixed at random, and everything starts again from what is
 * left.  After each start:
 *
 *   (1) nothing acknowledged is lost: every promised job is there, live or archived, with its
 *       payload, and what was promised to be complete or canceled is
 *   (2) replay equals live state: the state is that of the last durable batch, or of the one
 *       that was in flight
 *   (3) fences only grow, over all lives
 *   (4) no job has two live leases: a second grant comes only after the first was ended, by its
 *       holder or by its deadline
 *   (5) counters equal lists (state_check)
 *   (6) the archive got each ended job once, as it ended
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes that many times as many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/say.h"
#include "core/inside.h"
#include "log/file.h"
#include "prop/dice.h"
#include "support/memory_archive.h"
#include "support/sim_disk.h"
#include "support/text_reply.h"

#define JOBS_MAX      3000
#define LIVES         12
#define SEGMENT_BYTES (64 * KIB)
#define WANTED_LIVE   50
#define SAID_MAX      512
#define ARGS_UNKNOWN  SIZE_MAX       /* some of the payload */
#define ARGS_OTHER    (SIZE_MAX - 1) /* none of it */

enum told { T_NOTHING, T_ENQUEUED, T_ENDED };

struct promise {
        enum told told;
        int status; /* enum job_status when T_ENDED */
        size_t args_len;
        char token[33];        /* of the last lease that was told */
        bool is_held;          /* by the client, as far as it knows */
        int64_t held_until_ns; /* steady */
};

/* What a reply says, to be believed when its batch is durable. */
struct saying {
        enum { S_ENQUEUED, S_GRANTED, S_ENDED, S_RETURNED, S_EXTENDED } what;
        uint64_t id, fence;
        int status;
        char token[33];
        int64_t until_ns;
};

/* The file log, with the write and the sync of a batch put off until late_log_step(). */
struct late_log {
        struct log base;
        struct log *inner;
        uint64_t seq; /* in flight; 0 = none */
        struct slice batch;
};

struct world {
        struct late_log log;
        struct sim_disk disk;
        struct memory_archive archive;
        struct rng dice, rng;
        struct core *core;
        struct arena arena;
        struct session session, bulk; /* the second one is for commands that take many turns */
        struct text_reply reply;
        struct now now;
        struct promise jobs[JOBS_MAX + 1];
        struct saying said[SAID_MAX];
        size_t n_said, n_flying; /* of the batch in flight: the first n_flying */
        uint64_t told_fence, n_told, n_grants, n_cut;
        uint64_t digest_durable, digest_flying, digest_born;
        bool has_failed;
        char payload[4096];
};

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

/* ---- promises ---- */

static struct saying *say(struct world *w)
{
        assert_true(w->n_said < SAID_MAX);
        struct saying *s = &w->said[w->n_said++];
        *s = (struct saying){0};
        return s;
}

static void believe(struct world *w, const struct saying *s)
{
        assert_true(s->id >= 1 && s->id <= JOBS_MAX);
        struct promise *p = &w->jobs[s->id];
        switch (s->what) {
        case S_ENQUEUED:
                p->told = T_ENQUEUED;
                break;
        case S_GRANTED:
                if (s->fence > w->told_fence)
                        w->told_fence = s->fence;
                memcpy(p->token, s->token, sizeof(p->token));
                p->is_held = true;
                p->held_until_ns = s->until_ns;
                break;
        case S_ENDED:
                p->told = T_ENDED;
                p->status = s->status;
                p->is_held = false;
                break;
        case S_RETURNED:
                p->is_held = false;
                break;
        case S_EXTENDED:
                p->held_until_ns = s->until_ns;
                break;
        }
        w->n_told++;
}

static void on_durable(void *ctx, uint64_t seq)
{
        struct world *w = ctx;
        w->digest_durable = w->digest_flying;
        for (size_t i = 0; i < w->n_flying; i++)
                believe(w, &w->said[i]);
        w->n_said -= w->n_flying;
        memmove(w->said, w->said + w->n_flying, w->n_said * sizeof(w->said[0]));
        w->n_flying = 0;
        core_durable(w->core, seq);
}

static void on_failed(void *ctx, const struct problem *p)
{
        (void)p; /* whatever it was, it is the end of this life */
        ((struct world *)ctx)->has_failed = true;
}

/* ---- the late log ---- */

static struct late_log *late_of(struct log *log)
{
        return CONTAINER_OF(log, struct late_log, base);
}

static int late_append(struct log *log, uint64_t seq, struct slice batch)
{
        struct late_log *l = late_of(log);
        assert_int_equal(l->seq, 0);
        l->seq = seq;
        l->batch = batch;
        return OK;
}

static void late_log_step(struct late_log *l)
{
        uint64_t seq = l->seq;
        l->seq = 0;
        if (seq)
                (void)l->inner->ops->append(l->inner, seq, l->batch); /* told by on_failed */
}

static int late_read(struct log *log, uint64_t from, log_read_fn fn, void *ctx, struct problem *p)
{
        struct log *inner = late_of(log)->inner;
        return inner->ops->read(inner, from, fn, ctx, p);
}

static int late_trim(struct log *log, uint64_t before)
{
        struct log *inner = late_of(log)->inner;
        return inner->ops->trim(inner, before);
}

static void late_want_room(struct log *log, uint64_t bytes)
{
        struct log *inner = late_of(log)->inner;
        inner->ops->want_room(inner, bytes);
}

static void late_stat(const struct log *log, struct log_stat *ret)
{
        const struct log *inner = CONTAINER_OF(log, const struct late_log, base)->inner;
        inner->ops->stat(inner, ret);
}

static const struct log_ops late_ops = {
        .append = late_append,
        .read = late_read,
        .trim = late_trim,
        .want_room = late_want_room,
        .stat = late_stat,
};

/* ---- a life ---- */

static struct reply *session_begin(struct session *s)
{
        struct world *w = CONTAINER_OF(s, struct world, session);
        text_reply_clear(&w->reply);
        return &w->reply.base;
}

static void session_end(struct session *s)
{
        (void)s; /* nobody waits here: claims answer at once */
}

static const struct session_ops session_ops_sim = {session_begin, session_end};

static struct reply *bulk_begin(struct session *s)
{
        return session_begin(&CONTAINER_OF(s, struct world, bulk)->session);
}

static const struct session_ops bulk_ops_sim = {bulk_begin, session_end};

static int open_log(struct world *w, struct problem *p)
{
        struct disk *disk = &w->disk.disk;
        struct file_log_options options = {.segment_bytes = SEGMENT_BYTES, .seed = 9};
        struct log_tail tail;
        w->log = (struct late_log){.base = {.ops = &late_ops}};
        int r = file_log_open(&disk, &options, &w->log.inner, p);
        if (r != OK)
                return r;
        w->log.inner->durable = on_durable;
        w->log.inner->failed = on_failed;
        w->log.inner->ctx = w;
        r = w->log.inner->ops->lead(w->log.inner, &tail, p);
        if (r == OK)
                w->n_cut += tail.cut_batches;
        return r;
}

/* A target whose metric is whatever do_time() says; waits short enough to end within a life. */
static void set_up_gate(struct core *core)
{
        static const struct core_metric load = {.name = "load",
                                                .rule = {{5, 15}, {3, 10}, NS_PER_S, false}};
        static const struct core_target target = {.name = "db",
                                                  .metrics = &load,
                                                  .n_metrics = 1,
                                                  .dwell_ns = 100 * NS_PER_MS,
                                                  .mode = -1};
        struct core_throttle options = {.targets = &target,
                                        .n_targets = 1,
                                        .ramp_cycles = 2,
                                        .ramp_cycle_ns = 100 * NS_PER_MS};
        policy_init(&options.policy);
        options.policy.mode = MODE_ENFORCE;
        for (size_t i = LEVEL_ELEVATED; i < LEVELS; i++)
                for (size_t k = TIER_HIGH; k < TIERS; k++)
                        options.policy.delay_ms[i][k] = 50 * (uint32_t)(i + k);
        core_set_throttle(core, &options);
}

static void be_born(struct world *w)
{
        struct problem problem = {0};
        int r = open_log(w, &problem);
        if (r == OK) {
                struct core_options options = {
                        .log = &w->log.base,
                        .archive = &w->archive.base,
                        .rng = &w->rng,
                        .log_slack_bytes = SEGMENT_BYTES / 2,
                };
                w->core = core_new(&options);
                set_up_gate(w->core);
                r = core_recover(w->core, &problem);
        }
        if (r != OK)
                fail_msg("start: %s", problem.detail);
        w->has_failed = false;
        w->n_said = w->n_flying = 0;
        session_init(&w->session, &session_ops_sim);
        session_init(&w->bulk, &bulk_ops_sim);
        w->now.steady_ns = core_steady_ns(w->core);
        w->digest_born = state_digest(&w->core->state); /* the first turn may already change it */
        core_turn(w->core, w->now);
}

static void die(struct world *w)
{
        /* Whoever sent the end of its lease has let go, whether or not that arrived. */
        for (size_t i = 0; i < w->n_said; i++) {
                const struct saying *s = &w->said[i];
                struct promise *p = &w->jobs[s->id];
                if (s->what == S_ENDED || s->what == S_RETURNED)
                        p->is_held = false;
                /* EXTEND may also shorten, and nobody knows whether it did. */
                if (s->what == S_EXTENDED && s->until_ns < p->held_until_ns)
                        p->held_until_ns = s->until_ns;
        }
        session_release(w->core, &w->session);
        session_release(w->core, &w->bulk);
        w->core = core_free(w->core);
        w->log.inner = w->log.inner->ops->close(w->log.inner);
        memory_archive_crash(&w->archive);
        w->disk.crash_at = w->disk.fail_at = 0;
}

/* ---- commands ---- */

static const char *run_as(struct world *w, struct session *session, const struct slice *argv,
                          size_t argc)
{
        struct problem problem = {0};
        struct command cmd;
        arena_clear(&w->arena);
        text_reply_clear(&w->reply);
        int r = command_bind_argv(command_find(argv[0]), argv + 1, argc - 1, &w->arena, &cmd,
                                  &problem);
        if (r == OK)
                r = core_exec(w->core, session, &cmd, &w->reply.base, &problem);
        if (r < 0)
                reply_error(&w->reply.base, &problem);
        return text_reply_str(&w->reply);
}

static const char *run(struct world *w, const struct slice *argv, size_t argc)
{
        return run_as(w, &w->session, argv, argc);
}

static const char *words(struct world *w, ...) __attribute__((sentinel));
static const char *words(struct world *w, ...)
{
        struct slice argv[24];
        size_t argc = 0;
        va_list list;
        va_start(list, w);
        for (const char *word; (word = va_arg(list, const char *));)
                argv[argc++] = slice_str(word);
        va_end(list);
        return run(w, argv, argc);
}
#define DO(w, ...) words(w, __VA_ARGS__, (char *)NULL)

/* Some of the options, of few names so that they meet. */
static size_t add_options(struct world *w, struct slice *argv, size_t argc, char *after,
                          size_t size)
{
        static const char *const names[] = {"x", "y", "z"};
        if (roll(w, 3) == 0) {
                argv[argc++] = SLICE_LIT("UNIQUE");
                argv[argc++] = slice_str(names[roll(w, 3)]);
                argv[argc++] = SLICE_LIT("CONFLICT");
                argv[argc++] = slice_str(roll(w, 2) ? "replace" : "first");
                if (roll(w, 2)) {
                        argv[argc++] = SLICE_LIT("SCOPE");
                        argv[argc++] = SLICE_LIT("after");
                        argv[argc++] = SLICE_LIT("UNIQUEFOR");
                        argv[argc++] = SLICE_LIT("90");
                }
        }
        if (roll(w, 3) == 0) {
                argv[argc++] = SLICE_LIT("KEY");
                argv[argc++] = slice_str(names[roll(w, 3)]);
        }
        if (roll(w, 3) == 0 && w->core->state.next_id > 1) {
                uint64_t n = w->core->state.next_id - 1;
                (void)snprintf(after, size, "%llu",
                               (unsigned long long)(n - roll(w, n < 20 ? n : 20)));
                argv[argc++] = SLICE_LIT("AFTER");
                argv[argc++] = slice_str(after);
                argv[argc++] = SLICE_LIT("WHEN");
                argv[argc++] = slice_str(roll(w, 2) ? "ended" : "complete");
        }
        if (roll(w, 4) == 0 && thing_find(&w->core->state, THING_BATCH, slice_str("x"))) {
                argv[argc++] = SLICE_LIT("BATCH");
                argv[argc++] = SLICE_LIT("x");
        }
        if (roll(w, 4) == 0) {
                argv[argc++] = SLICE_LIT("EXPIRES");
                argv[argc++] = SLICE_LIT("200");
        }
        return argc;
}

static void do_enqueue(struct world *w)
{
        if (w->core->state.next_id > JOBS_MAX)
                return;
        char in[24];
        size_t len = roll(w, 5) ? roll(w, 300) : roll(w, sizeof(w->payload));
        (void)snprintf(in, sizeof(in), "%d", roll(w, 4) ? 0 : (int)roll(w, 300));
        struct slice argv[32] = {SLICE_LIT("ENQUEUE"),
                                 SLICE_LIT("hook"),
                                 slice_make(w->payload, len),
                                 SLICE_LIT("QUEUE"),
                                 roll(w, 2) ? SLICE_LIT("a") : SLICE_LIT("b"),
                                 SLICE_LIT("IN"),
                                 slice_str(in),
                                 SLICE_LIT("ATTEMPTS"),
                                 roll(w, 2) ? SLICE_LIT("1") : SLICE_LIT("3")};
        size_t argc = 9;
        char after[24];
        uint64_t next_id = w->core->state.next_id;
        if (roll(w, 2))
                argc = add_options(w, argv, argc, after, sizeof(after));
        unsigned long long id = 0;
        const char *text = run(w, argv, argc);
        if (sscanf(text, "%llu", &id) != 1)
                return; /* refused: no room at the moment */
        if (id < next_id) {
                /* A unique key that job had already, and it may have new args now. */
                const struct job *job = state_job(&w->core->state, id);
                if (job)
                        w->jobs[id].args_len = ARGS_UNKNOWN;
                return;
        }
        struct saying *s = say(w);
        s->what = S_ENQUEUED;
        s->id = id;
        /* What was sent under this id; one that was lost unacknowledged gives its id away. */
        w->jobs[id] = (struct promise){.args_len = len};
}

/* (4): whoever holds the job, by what it was told or will be, its time must be over. */
static void check_free(struct world *w, uint64_t id)
{
        const struct promise *p = &w->jobs[id];
        bool is_held = p->is_held;
        int64_t until_ns = p->held_until_ns;
        for (size_t i = 0; i < w->n_said; i++) {
                const struct saying *s = &w->said[i];
                if (s->id != id || s->what == S_ENQUEUED)
                        continue;
                is_held = s->what == S_GRANTED || s->what == S_EXTENDED;
                until_ns = s->until_ns;
        }
        if (is_held && w->now.steady_ns < until_ns)
                fail_msg("job %llu granted while it is held", (unsigned long long)id);
}

static void do_claim(struct world *w)
{
        char lease[24];
        int64_t lease_ms = 100 + (int64_t)roll(w, 400);
        (void)snprintf(lease, sizeof(lease), "%lld", (long long)lease_ms);
        const char *at = DO(w, "CLAIM", "w", "MAX", roll(w, 2) ? "1" : "3", "LEASE", lease,
                            "QUEUES", "a", "b");
        while ((at = strstr(at, "{id:"))) {
                unsigned long long id = 0, fence = 0;
                char token[33];
                assert_int_equal(sscanf(at, "{id:%llu token:'%32[0-9a-f]'", &id, token), 2);
                bool is_made = strncmp(strstr(at, " hook:"), " hook:'made'", 12) == 0;
                at = strstr(at, " fence:");
                assert_non_null(at);
                assert_int_equal(sscanf(at, " fence:%llu", &fence), 1);
                assert_true(fence > w->told_fence);
                if (id > JOBS_MAX)
                        continue; /* schedules go on for ever */
                check_free(w, id);
                if (is_made) /* by a schedule or a batch: nobody was told of it before */
                        w->jobs[id].args_len = ARGS_OTHER;
                w->n_grants++;
                struct saying *s = say(w);
                s->what = S_GRANTED;
                s->id = id;
                s->fence = fence;
                s->until_ns = w->now.steady_ns + lease_ms * NS_PER_MS;
                memcpy(s->token, token, sizeof(token));
        }
}

static void do_finish(struct world *w)
{
        uint64_t n = w->core->state.next_id - 1;
        if (!n)
                return;
        /* Mostly jobs of late: older ones are mostly history. */
        uint64_t back = roll(w, n < 80 ? n : 80), id = n - back;
        if (id > JOBS_MAX)
                return;
        const struct promise *p = &w->jobs[id];
        char text[24];
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
        if (!p->token[0])
                return;
        struct saying s = {.id = id};
        const char *answer;
        switch (roll(w, 7)) {
        case 0:
                answer = DO(w, "FAIL", text, p->token, "why", "RETRYIN", "20");
                s.what = strcmp(answer, "'failed'") == 0 ? S_ENDED : S_RETURNED;
                s.status = JOB_FAILED;
                break;
        case 1:
                answer = DO(w, "RELEASE", text, p->token);
                s.what = S_RETURNED;
                break;
        case 2:
                answer = DO(w, "EXTEND", text, p->token, "300");
                s.what = S_EXTENDED;
                s.until_ns = w->now.steady_ns + 300 * NS_PER_MS;
                break;
        case 3:
                answer = DO(w, "CANCEL", text);
                s.what = S_ENDED;
                s.status = JOB_CANCELED;
                break;
        default:
                answer = DO(w, "COMPLETE", text, p->token, "result");
                s.what = S_ENDED;
                s.status = JOB_COMPLETE;
                break;
        }
        if (answer[0] == '!')
                return;
        *say(w) = s;
}

static void do_time(struct world *w)
{
        int64_t ms = (int64_t)roll(w, 80);
        w->now.steady_ns += ms * NS_PER_MS;
        w->now.wall_ms += ms + (roll(w, 50) ? 0 : 100000);
        core_turn(w->core, w->now);
        if (roll(w, 4) == 0)
                core_sample(w->core, 0, 0, (double)roll(w, 20) - 4, w->now.steady_ns,
                            roll(w, 10) == 0, SLICE_LIT("gone"));
}

static void do_archive(struct world *w)
{
        memory_archive_commit(&w->archive, roll(w, 20));
        core_archive_poll(w->core);
}

/* Rules that end by themselves, some within a life, some in a later one. */
static void do_rule(struct world *w)
{
        static const char *const names[] = {"x", "y:x", "all"};
        const char *name = names[roll(w, 3)], *length = roll(w, 2) ? "300" : "5000";
        uint64_t what = roll(w, 4);
        if (what == 0)
                (void)DO(w, "RULESET", name, "threshold", "THRESHOLD", "load=7", "FOR", length);
        else if (what == 1)
                (void)DO(w, "PRIORITIZE", name, "FOR", length, "TARGET", "db", "REASON", "now");
        else if (what == 2)
                (void)DO(w, "RULEUNSET", name);
        else
                (void)DO(w, "RULESET", name, roll(w, 2) ? "hold" : "exempt", "FOR", length);
}

/* The named things and settings: whatever they answer, replay must come to the same. */
static void do_thing(struct world *w)
{
        static const char *const names[] = {"x", "y", "z"};
        const char *name = names[roll(w, 3)];
        char text[24];
        uint64_t n = w->core->state.next_id;
        (void)snprintf(text, sizeof(text), "%llu",
                       (unsigned long long)(n - roll(w, n < 30 ? n : 30)));
        switch (roll(w, 21)) {
        case 12:
                (void)DO(w, "SCHEDULE", name, "made", "x", "EVERY", roll(w, 2) ? "3000" : "20000",
                         "MISSED", roll(w, 2) ? "all" : "skip", "OVERLAP",
                         roll(w, 2) ? "queue" : "cancel", "QUEUE", "a");
                break;
        case 13:
                (void)DO(w, roll(w, 2) ? "UNSCHEDULE" : "PAUSESCHEDULE", name);
                break;
        case 14:
                (void)DO(w, "BATCH", name, "ONSUCCESS", "made", "ONDONE", "made", "QUEUE", "b");
                break;
        case 15:
                (void)DO(w, roll(w, 2) ? "CLOSEBATCH" : "UNBATCH", name);
                break;
        case 19:
                (void)DO(w, "REGISTRYSET", roll(w, 2) ? "ho*" : "made",
                         roll(w, 2) ? "critical" : "deferrable");
                break;
        case 20:
                (void)DO(w, "RETIER", text, roll(w, 2) ? "critical" : "registered");
                break;
        case 16:
                (void)DO(w, "RUN", text);
                break;
        case 17:
                (void)DO(w, "CANCELBATCH", name);
                break;
        case 18:
                (void)DO(w, "LOCK", "many", "500", "COUNT", "3");
                break;
        case 0:
                (void)DO(w, "LOCK", name, roll(w, 2) ? "100" : "1000");
                break;
        case 1:
                (void)DO(w, "FORCEUNLOCK", name);
                break;
        case 2:
                (void)DO(w, "LIMIT", roll(w, 2) ? "queue:a" : name, "3", "200");
                break;
        case 3:
                (void)DO(w, "TAKE", name, "AMOUNT", "5", "PERIOD", "100");
                break;
        case 4:
                (void)DO(w, "UNLIMIT", roll(w, 2) ? "queue:a" : name);
                break;
        case 5:
                (void)DO(w, "ASK", name);
                break;
        case 6:
                (void)DO(w, "TRIP", name);
                break;
        case 7:
                (void)DO(w, "CAP", roll(w, 2) ? "key:x" : "group:x", "2");
                break;
        case 8:
                (void)DO(w, "UNCAP", "key:x");
                break;
        case 9:
                (void)DO(w, "QUEUESET", "a", "CAP", roll(w, 2) ? "0" : "3", "FAIR",
                         roll(w, 2) ? "on" : "off", "CLAIMS", roll(w, 2) ? "0" : "4");
                break;
        case 10:
                (void)DO(w, "PAUSE", "b");
                break;
        default:
                (void)DO(w, "RESUME", "b");
                break;
        }
}

/* Goes on over the turns that follow, or until the crash. */
static void do_bulk(struct world *w)
{
        const struct slice cancel[] = {SLICE_LIT("CANCELMANY"), SLICE_LIT("QUEUE"), SLICE_LIT("b")};
        const struct slice tier[] = {SLICE_LIT("RETIERMANY"), SLICE_LIT("STATUS"),
                                     SLICE_LIT("pending"), SLICE_LIT("SET"),
                                     roll(w, 2) ? SLICE_LIT("high") : SLICE_LIT("registered")};
        if (session_is_waiting(&w->bulk))
                return;
        bool is_cancel = roll(w, 3) == 0;
        (void)run_as(w, &w->bulk, is_cancel ? cancel : tier,
                     is_cancel ? ARRAY_LEN(cancel) : ARRAY_LEN(tier));
}

static void do_one(struct world *w)
{
        bool is_full = w->core->state.jobs.len > WANTED_LIVE;
        switch (roll(w, 11)) {
        case 10:
                if (roll(w, 6))
                        do_thing(w);
                else if (roll(w, 3))
                        do_rule(w);
                else
                        do_bulk(w);
                break;
        case 0:
        case 1:
        case 2:
                if (is_full)
                        do_finish(w);
                else
                        do_enqueue(w);
                break;
        case 3:
        case 4:
                do_claim(w);
                break;
        case 5:
                do_time(w);
                break;
        case 6:
                do_archive(w);
                break;
        default:
                do_finish(w);
        }
}

/* ---- checks ---- */

static void check_promise(const struct world *w, uint64_t id)
{
        const struct promise *p = &w->jobs[id];
        if (p->told == T_NOTHING)
                return;
        const struct job *job = state_job(&w->core->state, id);
        const struct job_view *old = memory_archive_find(&w->archive, id);
        struct job_view live;
        if (job)
                job_view(job, &live);
        if (!job && !old)
                fail_msg("job %llu is lost", (unsigned long long)id);
        const struct job_view *v = job ? &live : old;
        if (p->args_len < ARGS_OTHER)
                assert_int_equal(v->args.len, p->args_len);
        if (p->args_len != ARGS_OTHER)
                assert_memory_equal(v->args.ptr, w->payload, v->args.len);
        if (p->told == T_ENDED)
                assert_int_equal(v->status, p->status);
        if (job && old) { /* archived, and not yet let go: (6) as it ended */
                assert_int_equal(live.status, old->status);
                assert_int_equal(live.attempt, old->attempt);
        }
}

static void check_after_start(struct world *w)
{
        uint64_t digest = w->digest_born;
        if (digest != w->digest_durable && digest != w->digest_flying)
                fail_msg("the state after a start is neither of the two it may be");
        assert_true(w->core->state.fence >= w->told_fence);
        state_check(&w->core->state);
        for (uint64_t id = 1; id <= JOBS_MAX; id++)
                check_promise(w, id);
}

static void commit(struct world *w)
{
        bool was_flying = w->core->is_in_flight;
        core_commit(w->core);
        if (was_flying || !w->core->is_in_flight)
                return;
        w->n_flying = w->n_said;
        w->digest_flying = state_digest(&w->core->state);
}

/* Nobody sends anything: time passes, the archive catches up, the log may stand still.  True
 * when the process is killed at the end of it. */
static bool be_quiet(struct world *w)
{
        for (uint64_t n = 5 + roll(w, 20); n && !w->disk.is_dead && !w->has_failed; n--) {
                late_log_step(&w->log);
                do_time(w);
                commit(w);
                memory_archive_commit(&w->archive, 1000);
                if (roll(w, 4) == 0)
                        core_archive_poll(w->core);
        }
        return roll(w, 3) == 0;
}

static void live(struct world *w)
{
        be_born(w);
        check_after_start(w);
        w->digest_durable = w->digest_flying = w->digest_born;
        if (roll(w, 3))
                w->disk.crash_at = w->disk.n_calls + 1 + roll(w, 120);
        else
                w->disk.fail_at = w->disk.n_calls + 1 + roll(w, 120);
        for (int turn = 0; turn < 400 && !w->disk.is_dead && !w->has_failed; turn++) {
                if (roll(w, 40) == 0 && be_quiet(w))
                        break;
                for (uint64_t n = 1 + roll(w, 5); n; n--)
                        do_one(w);
                commit(w);
                if (roll(w, 2))
                        late_log_step(&w->log);
        }
        bool is_power_loss = w->disk.is_dead || roll(w, 2);
        die(w);
        if (is_power_loss)
                sim_disk_power_loss(&w->disk);
        else
                sim_disk_process_end(&w->disk);
}

static void run_round(uint64_t seed)
{
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rng_init_seed(&w->rng, seed + 1);
        for (size_t i = 0; i < sizeof(w->payload); i++)
                w->payload[i] = (char)('a' + roll(w, 26)); /* replies are read as text */
        sim_disk_init(&w->disk, seed);
        memory_archive_init(&w->archive);
        arena_init(&w->arena, 4 * MIB);
        text_reply_init(&w->reply);
        w->now = (struct now){.steady_ns = NS_PER_S, .wall_ms = 1700000000000};
        struct state empty;
        state_init(&empty, 1);
        w->digest_durable = w->digest_flying = state_digest(&empty);
        state_release(&empty);
        for (int i = 0; i < LIVES; i++)
                live(w);
        be_born(w);
        check_after_start(w);
        die(w);
        print_message("told %llu, granted %llu, cut %llu\n", (unsigned long long)w->n_told,
                      (unsigned long long)w->n_grants, (unsigned long long)w->n_cut);
        text_reply_release(&w->reply);
        arena_release(&w->arena);
        memory_archive_release(&w->archive);
        sim_disk_release(&w->disk);
        free(w);
}

static void nothing_told_is_lost_whatever_the_disk_does(void **unused)
{
        (void)unused;
        dice_play(40, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_told_is_lost_whatever_the_disk_does),
        };
        say_setup(SAY_ERROR, false); /* what operators are told of is not news here */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
