/* See the header. */
#include "sim/world.h"

#include "unit/check.h"

#include "features/features.h"
#include "log/file.h"

#define SEGMENT_BYTES (64 * KIB)

/* ---- the log ---- */

static void on_durable(void *ctx, uint64_t seq)
{
        struct world *w = ctx;
        w->digest_durable = w->digest_flying;
        model_believe(&w->model);
        core_durable(w->core, seq);
}

static void on_failed(void *ctx, const struct problem *p)
{
        (void)p; /* whatever it was, it is the end of this life */
        ((struct world *)ctx)->has_failed = true;
}

static int open_log(struct world *w, struct problem *p)
{
        struct disk *disk = &w->disk.disk;
        struct file_log_options options = {.segment_bytes = SEGMENT_BYTES, .seed = 9};
        struct log_tail tail;
        late_log_init(&w->log);
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

/* ---- sessions ---- */

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

/* ---- a life ---- */

/* A target whose metric is whatever story_time() says; waits short enough to end within a life. */
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

void world_be_born(struct world *w)
{
        struct problem problem = {0};
        int r = open_log(w, &problem);
        if (r == OK) {
                struct core_options options = {
                        .parts = &weir_parts,
                        .log = &w->log.base,
                        .archive = &w->archive.base,
                        .rng = &w->rng,
                        .log_slack_bytes = SEGMENT_BYTES / 2,
                        .turn_steps = 1 + (int)roll(w, 20),
                };
                w->core = core_new(&options);
                set_up_gate(w->core);
                r = core_recover(w->core, &problem);
        }
        if (r != OK)
                fail_msg("start: %s", problem.detail);
        w->has_failed = false;
        session_init(&w->session, &session_ops_sim);
        session_init(&w->bulk, &bulk_ops_sim);
        w->now.steady_ns = core_steady_ns(w->core);
        w->digest_born = state_digest(&w->core->state); /* the first turn may already change it */
        core_turn(w->core, w->now);
}

void world_die(struct world *w)
{
        model_die(&w->model);
        session_release(w->core, &w->session);
        session_release(w->core, &w->bulk);
        w->core = core_free(w->core);
        w->log.inner = w->log.inner->ops->close(w->log.inner);
        memory_archive_crash(&w->archive);
        w->disk.crash_at = w->disk.fail_at = 0;
}

void world_commit(struct world *w)
{
        bool was_flying = w->core->is_in_flight;
        core_commit(w->core);
        if (was_flying || !w->core->is_in_flight)
                return;
        model_fly(&w->model);
        w->digest_flying = state_digest(&w->core->state);
}

void world_init(struct world *w, uint64_t seed)
{
        *w = (struct world){.now = {.steady_ns = NS_PER_S, .wall_ms = 1700000000000}};
        rng_init_seed(&w->dice, seed);
        rng_init_seed(&w->rng, seed + 1);
        for (size_t i = 0; i < sizeof(w->payload); i++)
                w->payload[i] = (char)('a' + roll(w, 26)); /* replies are read as text */
        sim_disk_init(&w->disk, seed);
        memory_archive_init(&w->archive);
        arena_init(&w->arena, 4 * MIB);
        text_reply_init(&w->reply);
        struct state empty;
        state_init(&empty, 1, thing_kinds);
        w->digest_durable = w->digest_flying = state_digest(&empty);
        state_release(&empty);
}

void world_release(struct world *w)
{
        text_reply_release(&w->reply);
        arena_release(&w->arena);
        memory_archive_release(&w->archive);
        sim_disk_release(&w->disk);
}
