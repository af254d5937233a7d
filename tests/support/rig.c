/* See the header. */
#include "support/rig.h"

#include "unit/check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "features/features.h"

#define RIG_START_MS 1700000000000

static struct reply *session_begin(struct session *s)
{
        struct rig_session *rs = CONTAINER_OF(s, struct rig_session, base);
        text_reply_clear(&rs->reply);
        return &rs->reply.base;
}

static void session_end(struct session *s)
{
        CONTAINER_OF(s, struct rig_session, base)->is_answered = true;
}

static const struct session_ops rig_session_ops = {session_begin, session_end};

void rig_session_init(struct rig_session *s)
{
        session_init(&s->base, &rig_session_ops);
        text_reply_init(&s->reply);
        s->is_answered = false;
}

void rig_session_release(struct rig *rig, struct rig_session *s)
{
        session_release(rig->core, &s->base);
        text_reply_release(&s->reply);
}

static void on_durable(void *ctx, uint64_t seq)
{
        struct rig *rig = ctx;
        core_durable(rig->core, seq);
}

static int arrive(void *ctx, uint64_t seq, struct slice batch)
{
        struct rig *rig = ctx;
        struct problem problem;
        int r = core_arrive(rig->core, seq, batch, &problem);
        if (r != OK)
                (void)fprintf(stderr, "arrival: %s\n", problem.detail);
        ASSERT(r == OK);
        if (seq % 3 == 0)
                core_turn(rig->core, rig->now);
        return OK;
}

/* As a machine does that followed, and leads from here on. */
static int follow(struct rig *rig, struct problem *problem)
{
        core_follow(rig->core);
        int r = rig->log.base.ops->read(&rig->log.base, 0, arrive, rig, problem);
        return r == OK ? core_promote(rig->core, problem) : r;
}

static void make_core(struct rig *rig)
{
        struct problem problem;
        rig->options.parts = &weir_parts;
        rig->options.log = &rig->log.base;
        rig->options.archive = &rig->archive.base;
        rig->options.rng = &rig->rng;
        rig->core = core_new(&rig->options);
        int r = rig->n_starts++ % 2 ? follow(rig, &problem) : core_recover(rig->core, &problem);
        if (r != OK)
                (void)fprintf(stderr, "recovery: %s\n", problem.detail);
        ASSERT(r == OK);
        ASSERT(core_steady_ns(rig->core) <= rig->now.steady_ns);
        rig->replayed = state_digest(&rig->core->state);
        core_turn(rig->core, rig->now);
}

void rig_init(struct rig *rig)
{
        *rig = (struct rig){.now = {.steady_ns = NS_PER_S, .wall_ms = RIG_START_MS}};
        rng_init_seed(&rig->rng, 7);
        memory_log_init(&rig->log);
        memory_archive_init(&rig->archive);
        arena_init(&rig->arena, 64 * MIB);
        rig->log.base.durable = on_durable;
        rig->log.base.ctx = rig;
        rig_session_init(&rig->me);
        make_core(rig);
}

void rig_release(struct rig *rig)
{
        rig_session_release(rig, &rig->me);
        rig->core = core_free(rig->core);
        memory_log_release(&rig->log);
        memory_archive_release(&rig->archive);
        arena_release(&rig->arena);
}

void rig_restart(struct rig *rig)
{
        session_release(rig->core, &rig->me.base);
        rig->core = core_free(rig->core);
        rig->log.in_flight = 0;
        memory_archive_crash(&rig->archive);
        make_core(rig);
}

void rig_audit(struct rig *rig, bool is_on)
{
        static struct core_parts plain;
        plain = weir_parts;
        plain.audit_exec = core_run;
        rig->core->options.parts = is_on ? &weir_parts : &plain;
}

bool rig_replays(struct rig *rig)
{
        core_invariants(rig->core);
        uint64_t before = state_digest(&rig->core->state);
        rig_restart(rig);
        core_invariants(rig->core);
        return state_digest(&rig->core->state) == before;
}

void rig_turn(struct rig *rig)
{
        core_turn(rig->core, rig->now);
        core_commit(rig->core);
        core_archive_poll(rig->core);
        core_commit(rig->core);
}

void rig_archive_all(struct rig *rig)
{
        rig_turn(rig);
        memory_archive_commit(&rig->archive, SIZE_MAX);
        rig_turn(rig);
        rig_turn(rig); /* what was asked when it was reported */
}

void rig_fall_behind(struct rig *rig, struct rng *dice)
{
        uint64_t last = rig->log.last_seq;
        rig->log.stat.head_seq = last > 6 ? last - rng_below(dice, 6) : 0;
        rig->log.stat.retained_bytes = 1ULL << 30;
}

void rig_pass_ms(struct rig *rig, int64_t ms)
{
        rig->now.steady_ns += ms * NS_PER_MS;
        rig->now.wall_ms += ms;
        rig_turn(rig);
}

const char *rig_argv(struct rig *rig, struct rig_session *s, const struct slice *argv, size_t argc)
{
        struct problem problem = {0};
        struct command cmd;
        const struct command_def *def = command_find(argv[0]);
        ASSERT(def);
        arena_clear(&rig->arena);
        text_reply_clear(&s->reply);
        s->is_answered = false;
        int r = command_bind_argv(def, argv + 1, argc - 1, &rig->arena, &cmd, &problem);
        if (r == OK)
                r = core_exec(rig->core, &s->base, &cmd, &s->reply.base, &problem);
        if (r < 0)
                reply_error(&s->reply.base, &problem);
        core_commit(rig->core);
        core_archive_poll(rig->core);
        core_commit(rig->core);
        if (r == CORE_LATER && !s->is_answered)
                return "(waits)";
        return text_reply_str(&s->reply);
}

const char *rig_words(struct rig *rig, struct rig_session *s, ...)
{
        struct slice argv[64];
        size_t argc = 0;
        va_list words;
        va_start(words, s);
        for (const char *w; (w = va_arg(words, const char *));) {
                ASSERT(argc < ARRAY_LEN(argv));
                argv[argc++] = slice_str(w);
        }
        va_end(words);
        return rig_argv(rig, s, argv, argc);
}

void rig_set_gate(struct rig *rig, const struct core_target *targets, size_t n_targets,
                  enum gate_mode jobs, enum gate_mode checks)
{
        struct core_throttle options = {
                .targets = targets, .n_targets = n_targets, .checks = {.mode = checks}};
        policy_init(&options.policy);
        options.policy.mode = jobs;
        core_set_throttle(rig->core, &options);
}

void rig_sample(struct rig *rig, size_t target, size_t metric, double value)
{
        core_sample(rig->core, target, metric, value, rig->now.steady_ns, SAMPLE_GOOD, SLICE_NONE);
}

void rig_enqueue(struct rig *rig, int n)
{
        for (int i = 0; i < n; i++)
                rig_do(rig, "ENQUEUE", "mail", "");
}

uint64_t rig_claim(struct rig *rig, const char *worker, const char *queue, char *ret_token)
{
        unsigned long long id = 0;
        char token[64] = "";
        const char *text = rig_do(rig, "CLAIM", worker, "QUEUES", queue);
        if (sscanf(text, "[{id:%llu token:'%32[0-9a-f]'", &id, token) != 2)
                return 0;
        memcpy(ret_token, token, RIG_TOKEN);
        return id;
}

size_t rig_claim_many(struct rig *rig, const char *queue)
{
        return times(rig_do(rig, "CLAIM", "w", "MAX", "100", "QUEUES", queue), "{id:");
}

uint64_t rig_complete_next(struct rig *rig, const char *queue)
{
        char token[RIG_TOKEN];
        uint64_t id = rig_claim(rig, "w", queue, token);
        if (id)
                assert_string_equal(rig_do(rig, "COMPLETE", rig_number(id), token), "OK");
        return id;
}

uint64_t rig_fail_next(struct rig *rig, const char *queue, const char *error)
{
        char token[RIG_TOKEN];
        uint64_t id = rig_claim(rig, "w", queue, token);
        if (id)
                assert_string_equal(rig_do(rig, "FAIL", rig_number(id), token, error), "'failed'");
        return id;
}

const char *rig_number(uint64_t n)
{
        static char text[24];
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
        return text;
}
