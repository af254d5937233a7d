/* The core: see core.h for the turn and state/state.h for what is true.
 *
 * Two batch buffers: one open, one in flight.  While the log syncs the one, commands fill the
 * other; when the log reports back they change places.  So the number of commands per sync grows
 * by itself with the load, and at one client a batch holds one command.
 *
 * Trimming: when a batch is closed, every live object has its newest full record in a batch at
 * or after the head of the live list.  That becomes a safe cut only once this very batch is
 * durable, since the newest records may be in it: `trim_to` is taken at commit and used at
 * core_durable(). */
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/access.h"
#include "base/say.h"
#include "core/kernel.h"

#define FINISHED_MAX_DEFAULT 200000
/* Of a batch, for what follows from a request and cannot be refused: new work leaves it free. */
#define BATCH_SPARE_BYTES (4 * MIB)
/* With segments of 64 MiB this keeps the promise of 2 x live + 64 MiB. */
#define LOG_SLACK_DEFAULT (40 * MIB)

static void on_stored(void *ctx, struct job *const *jobs, size_t n);

void core_sort_features(struct core *core)
{
        const struct core_parts *parts = core->options.parts;
        ASSERT(parts->n_features <= CORE_FEATURES_MAX);
        core->n_turns = core->n_nexts = core->n_settles = 0;
        for (size_t i = 0; i < parts->n_features; i++) {
                const struct feature *f = parts->features[i];
                if (core->is_following && !f->is_local)
                        continue;
                if (f->turn)
                        core->turns[core->n_turns++] = f->turn;
                if (f->next_ns)
                        core->nexts[core->n_nexts++] = f->next_ns;
                if (f->settle)
                        core->settles[core->n_settles++] = f->settle;
        }
}

/* All but the options is zero. */
static void init(struct core *core)
{
        const struct core_options *options = &core->options;
        state_init(&core->state, rng_u64(options->rng), options->parts->thing_kinds);
        core->state.ctx = core;
        core->tally = tally_new(core->state.queues.seed);
        buf_init(&core->batch[0], LOG_BATCH_MAX);
        buf_init(&core->batch[1], LOG_BATCH_MAX);
        buf_init(&core->packed, 0);
        buf_init(&core->body, 0);
        heap_init(&core->waits);
        if (options->archive) {
                options->archive->stored = on_stored;
                options->archive->stored_ctx = core;
        }
        core_sort_features(core);
        for (size_t i = 0; i < options->parts->n_features; i++)
                if (options->parts->features[i]->init)
                        options->parts->features[i]->init(core);
}

static void release(struct core *core)
{
        ASSERT(core->n_waits == 0);
        const struct core_parts *parts = core->options.parts;
        for (size_t i = parts->n_features; i--;)
                if (parts->features[i]->release)
                        parts->features[i]->release(core);
        core->tally = tally_free(core->tally);
        state_release(&core->state);
        heap_release(&core->waits);
        buf_release(&core->packed);
        buf_release(&core->body);
        buf_release(&core->batch[0]);
        buf_release(&core->batch[1]);
}

struct core *core_new(const struct core_options *options)
{
        struct core *core = xcalloc(1, sizeof(*core));
        core->options = *options;
        if (!core->options.finished_max)
                core->options.finished_max = FINISHED_MAX_DEFAULT;
        if (!core->options.log_slack_bytes)
                core->options.log_slack_bytes = LOG_SLACK_DEFAULT;
        if (!core->options.turn_steps)
                core->options.turn_steps = CORE_TURN_STEPS;
        init(core);
        return core;
}

void core_empty(struct core *core)
{
        struct core_options options = core->options;
        release(core);
        *core = (struct core){.options = options};
        init(core);
}

struct core *core_free(struct core *core)
{
        if (!core)
                return NULL;
        release(core);
        free(core);
        return NULL;
}

int64_t core_steady_ns(const struct core *core)
{
        return core->state.steady_ns;
}

int64_t core_steady_wall_ms(const struct core *core)
{
        return core->now.steady_ns / NS_PER_MS + core->wall_minus_steady_ms;
}

int64_t core_due_in(const struct core *core, int64_t in_ms)
{
        /* A part of a millisecond counts whole: late by that much, never early. */
        bool is_part = core->now.steady_ns % NS_PER_MS != 0;
        return in_ms > 0 ? core_steady_wall_ms(core) + is_part + in_ms : 0;
}

/* ---- making a change ---- */

static struct buf *open_batch(struct core *core)
{
        return &core->batch[core->open];
}

static int log_is_behind(struct problem *problem)
{
        return problem_set(problem, ERR_UNAVAIL, "the log is behind; try again");
}

int core_try_emit(struct core *core, const struct effect *e, struct problem *problem)
{
        struct buf *b = open_batch(core);
        struct problem ignored;
        ASSERT(!core->is_following);
        if (!core->is_clock_told) {
                struct effect clock = {.type = EFFECT_CLOCK,
                                       .steady_ns = core->now.steady_ns,
                                       .wall_ms = core->now.wall_ms};
                core->is_clock_told = true;
                effect_write(b, &clock);
                ASSERT(state_apply(&core->state, &clock, core->open_seq, &ignored) == OK);
        }
        size_t before = b->len;
        effect_write(b, e);
        if (b->failed) {
                b->failed = false;
                b->len = before;
                return log_is_behind(problem);
        }
        int r = state_apply(&core->state, e, core->open_seq, problem);
        if (r != OK)
                b->len = before;
        return r;
}

void core_emit(struct core *core, const struct effect *e)
{
        struct problem problem = {0};
        int r = core_try_emit(core, e, &problem);
        if (r != OK)
                say_error("core", "an effect of our own does not apply", "why", problem.detail);
        ASSERT(r == OK);
}

/* What must stay writable for the work already accepted, and for the cleaner to free space. */
static uint64_t reserve_bytes(const struct core *core)
{
        uint64_t slack = core->options.log_slack_bytes;
        uint64_t cleaning = 2 * core->state.live_bytes;
        if (cleaning > slack)
                cleaning = slack;
        uint64_t ended = core->state.n_finished - core->state.grace.len;
        return slack / 10 + CORE_AUDIT_BYTES(slack) + cleaning +
               CORE_FINISH_BYTES * (core->state.jobs.len - ended) + CORE_LET_GO_BYTES * ended +
               CORE_NAMED_TIMES * core->state.option_bytes;
}

static uint64_t unwritten_bytes(const struct core *core)
{
        return core->batch[0].len + core->batch[1].len;
}

int core_admit(struct core *core, uint64_t bytes, uint64_t jobs, struct problem *problem)
{
        uint64_t need = reserve_bytes(core) + unwritten_bytes(core) + bytes + jobs * 1024;
        if (open_batch(core)->len + bytes + jobs * 1024 > LOG_BATCH_MAX - BATCH_SPARE_BYTES)
                return log_is_behind(problem);
        if (core->log_stat.room_bytes >= need)
                return OK;
        if (!core->log_stat.is_disk_full &&
            core->log_stat.room_bytes >= unwritten_bytes(core) + bytes)
                return OK; /* the log is making more room at this moment */
        core->totals.refused_nospace++;
        if (!core->log_stat.is_disk_full)
                return problem_set(problem, ERR_UNAVAIL,
                                   "the log is making room on the disk; try again");
        return problem_set(problem, ERR_NOSPACE,
                           "the disk is full: the space left is kept for finishing accepted jobs");
}

/* ---- the archive ---- */

void core_archive_stat(const struct core *core, struct archive_stat *ret)
{
        struct archive *archive = core->options.archive;
        *ret = (struct archive_stat){.room_bytes = UINT64_MAX};
        if (archive && archive->ops->stat)
                archive->ops->stat(archive, ret);
}

static void tell_hand_over(struct core *core, struct queue *queue)
{
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->hand_over)
                        parts->features[i]->hand_over(core, queue);
}

/* Gives the first n ended jobs to the archive.  Only those whose end is durable: the archive must
 * not know of an end that a crash can still undo. */
static void hand_over(struct core *core, size_t n)
{
        struct state *s = &core->state;
        if (!n || !core->options.archive)
                return;
        for (size_t i = 0; i < n; i++)
                if (i == 0 || s->ended[i]->queue != s->ended[i - 1]->queue)
                        tell_hand_over(core, s->ended[i]->queue);
        core->options.archive->ops->store(core->options.archive, s->ended, n);
        s->n_ended -= n;
        memmove(s->ended, s->ended + n, s->n_ended * sizeof(struct job *));
}

void core_let_go(struct core *core, const uint64_t *ids, size_t n)
{
        struct effect e = {.type = EFFECT_ARCHIVED, .ids = ids, .n_ids = n};
        core_emit(core, &e);
}

static void on_stored(void *ctx, struct job *const *jobs, size_t n)
{
        struct core *core = ctx;
        uint64_t ids[512];
        for (size_t done = 0, k; done < n; done += k) {
                k = n - done < ARRAY_LEN(ids) ? n - done : ARRAY_LEN(ids);
                for (size_t i = 0; i < k; i++)
                        ids[i] = job_id(jobs[done + i]);
                core_let_go(core, ids, k);
        }
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->stored)
                        parts->features[i]->stored(core, n);
}

void core_archive_poll(struct core *core)
{
        if (core->options.archive)
                core->options.archive->ops->poll(core->options.archive);
}

/* ---- what must hold ---- */

static void check_kernel_and_features(const struct core *core)
{
        ASSERT(core->open_seq == core->durable_seq + 1 + core->is_in_flight); /* (1), (2) */
        ASSERT(core->is_in_flight || !core->batch[core->open ^ 1].len);
        ASSERT(core->trimmed_to <= core->durable_seq + 1);
        ASSERT(core->waits.len <= core->n_waits); /* (3) */
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->check)
                        parts->features[i]->check(core);
}

void core_invariants(const struct core *core)
{
        check_kernel_and_features(core);
        state_check(&core->state);
}

/* ---- the turn ---- */

static void end_first_wait(struct core *core)
{
        struct session_wait *w = CONTAINER_OF(heap_peek(&core->waits), struct session_wait, timer);
        w->ops->time_over(core, w);
}

static void end_waits(struct core *core)
{
        while (core->waits.len &&
               heap_key_to_i64(heap_peek_key(&core->waits)) <= core->now.steady_ns)
                end_first_wait(core);
}

/* Tells the log how much room must be ready, when that has changed by more than a little. */
static void want_room(struct core *core)
{
        uint64_t want = reserve_bytes(core) + core->options.log_slack_bytes / 2;
        uint64_t apart =
                want > core->wanted_room ? want - core->wanted_room : core->wanted_room - want;
        if (apart < core->options.log_slack_bytes / 32 && core->wanted_room)
                return;
        core->wanted_room = want;
        core->options.log->ops->want_room(core->options.log, want);
}

/* Fences that a lost log may have given out beyond those in history: to jobs that never ended and
 * to locks. */
#define FENCES_LEFT_FREE 1000000000

/* A lost or older log would give out fences again, and a stale holder would pass for the new one.
 * History knows those of the jobs that ended. */
static uint64_t fence_beyond(struct core *core)
{
        struct archive *archive = core->options.archive;
        uint64_t fence = 0;
        struct problem p = {0};
        if (archive->ops->last_fence && archive->ops->last_fence(archive, &fence, &p) != OK)
                say_error("core", "history cannot tell its last fence, going on far above its ids",
                          "problem", p.detail);
        if (fence < archive->last_id) /* a job has at least one fence, as a rule */
                fence = archive->last_id;
        if (fence < core->state.fence)
                fence = core->state.fence;
        return fence + FENCES_LEFT_FREE;
}

/* A folder that was put together by hand, or whose log is lost: a job that ends under an id that
 * history holds would be taken for the one there, and be lost. */
static void pass_archived_ids(struct core *core)
{
        const struct archive *archive = core->options.archive;
        if (!archive || archive->last_id < core->state.next_id)
                return;
        struct effect meta = {
                .type = EFFECT_META_FULL,
                .next_id = archive->last_id + 1,
                .fence = fence_beyond(core),
                .next_queue_id = core->state.next_queue_id,
        };
        say_warn("core",
                 "history holds jobs that the log does not know; new ids and fences go on after "
                 "them",
                 "last_id", SAY_I64(archive->last_id), "next_fence", SAY_I64(meta.fence + 1));
        core_emit(core, &meta);
}

/* The first turn since what is durable is known. */
static void begin(struct core *core)
{
        core->has_begun = true;
        core->start_ms = core->now.wall_ms;
        pass_archived_ids(core);
}

void core_turn(struct core *core, struct now now)
{
        ASSERT(core->is_recovered || core->is_following);
        if (!core->has_begun) /* here the steady wall is nailed to the real one */
                core->wall_minus_steady_ms = now.wall_ms - now.steady_ns / NS_PER_MS;
        if (now.steady_ns < core->now.steady_ns)
                now.steady_ns = core->now.steady_ns;
        if (now.steady_ns != core->now.steady_ns || now.wall_ms != core->now.wall_ms)
                core->is_clock_told = false;
        core->now = now;
        core->options.log->ops->stat(core->options.log, &core->log_stat);
        if (!core->is_following) {
                want_room(core);
                if (!core->has_begun)
                        begin(core);
        }
        for (size_t i = 0; i < core->n_turns; i++)
                core->turns[i](core);
        end_waits(core);
        if (IS_CHECKED) {
                check_kernel_and_features(core);
                state_check_turn(&core->state);
        }
}

int64_t core_next_ns(const struct core *core)
{
        int64_t next = INT64_MAX;
        if (core->waits.len)
                next = heap_key_to_i64(heap_peek_key(&core->waits));
        if (core_is_congested(core)) /* the rest goes on when the log has caught up */
                return next;
        for (size_t i = 0; i < core->n_nexts; i++) {
                int64_t at = core->nexts[i](core);
                if (at < next)
                        next = at;
        }
        return next;
}

int core_run(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        if (cmd->idempotency.len)
                return answer_exec(core, session, cmd, reply, problem);
        return core->options.parts->execs[cmd->def->id](core, session, cmd, reply, problem);
}

int core_exec(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        ASSERT(core->options.parts->execs[cmd->def->id] && !session_is_waiting(session));
        core->totals.commands++;
        int r = access_check(session->grant, cmd, problem);
        const struct core_parts *parts = core->options.parts;
        if (core->is_following) {
                if (r == OK && !(cmd->def->flags & COMMAND_LOCAL))
                        r = problem_set(problem, ERR_UNAVAIL, "another machine leads");
                return r != OK ? r : parts->execs[cmd->def->id](core, session, cmd, reply, problem);
        }
        if (r != OK) {
                parts->audit_refused(core, session, cmd->def->name, problem);
                return r;
        }
        if (cmd->def->role >= ROLE_OPERATOR) /* others change nothing that is audited */
                return parts->audit_exec(core, session, cmd, reply, problem);
        return core_run(core, session, cmd, reply, problem);
}

void core_hand_over(struct core *core, struct slice node)
{
        ASSERT(node.len <= LOG_NAME_MAX);
        core->is_handing_over = true;
        (void)snprintf(core->hand_over_to, sizeof(core->hand_over_to), "%.*s", (int)node.len,
                       node.len ? node.ptr : "");
}

/* Nothing is open or in flight. */
static void finish_hand_over(struct core *core)
{
        struct log *log = core->options.log;
        struct problem problem;
        if (core->is_lead_given)
                return;
        int r = log->ops->hand_over(log, slice_str(core->hand_over_to), false, &problem);
        core->is_handing_over = core->is_lead_given = r == OK;
        if (r != OK)
                say_warn("core", "the lead was not handed over", "why", problem.detail);
}

static bool close_batch(struct core *core, bool is_now)
{
        for (size_t i = 0; i < core->n_settles; i++)
                core->settles[i](core);
        if (core->is_following)
                return false;
        core_clean(core);
        struct buf *b = open_batch(core);
        if (core->is_in_flight)
                return false;
        if (b->len == 0 && !core_is_verifying(core)) {
                hand_over(core, core->state.n_ended); /* all that is true is durable */
                if (core->is_handing_over)
                        finish_hand_over(core);
                return false;
        }
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->close)
                        parts->features[i]->close(core);
        core->n_ending = core->state.n_ended;
        if (core_is_verifying(core))
                core_verify_step(core);
        core->trim_to = state_oldest(&core->state)->seq;
        core->is_in_flight = true;
        core->open ^= 1;
        core->is_clock_told = false;
        core->totals.batches++;
        uint64_t seq = core->open_seq++;
        /* An error is told through log->failed, and nothing becomes durable any more. */
        struct log *log = core->options.log;
        if (is_now && log->ops->append_now)
                (void)log->ops->append_now(log, seq, buf_slice(b));
        else
                (void)log->ops->append(log, seq, buf_slice(b));
        return true;
}

bool core_commit(struct core *core)
{
        return close_batch(core, false);
}

bool core_commit_now(struct core *core)
{
        return close_batch(core, true);
}

uint64_t core_live_bytes(const struct core *core)
{
        return core->state.live_bytes;
}

uint64_t core_sync_ns(const struct core *core)
{
        return core->log_stat.sync_ns_last;
}

bool core_is_shared(const struct core *core)
{
        return core->options.log->ops->poll != NULL;
}

bool core_may_tell(const struct core *core, int64_t boot_ns)
{
        const struct log *log = core->options.log;
        return !log->ops->leads_until_ns || core->is_following ||
               boot_ns < log->ops->leads_until_ns(log);
}

void core_log_gives_way(struct core *core, bool is_giving_way)
{
        struct log *log = core->options.log;
        if (log->ops->give_way)
                log->ops->give_way(log, is_giving_way);
}

void core_durable(struct core *core, uint64_t seq)
{
        ASSERT(core->is_in_flight && seq == core->durable_seq + 1);
        core->durable_seq = seq;
        core->is_in_flight = false;
        struct buf *written = &core->batch[core->open ^ 1];
        hand_over(core, core->n_ending);
        core->n_ending = 0;
        if (written->cap > CORE_BATCH_SOFT_BYTES)
                buf_release(written); /* a rare giant does not stay */
        buf_clear(written);
        if (core->trim_to > core->trimmed_to) {
                core->trimmed_to = core->trim_to;
                (void)core->options.log->ops->trim(core->options.log, core->trim_to);
        }
        core_tell_digest(core);
}

bool core_is_settled(const struct core *core)
{
        return !core->is_in_flight && core->batch[core->open].len == 0;
}

bool core_is_congested(const struct core *core)
{
        return core->batch[core->open].len > CORE_BATCH_SOFT_BYTES || core->is_handing_over;
}

uint64_t core_reply_seq(const struct core *core)
{
        if (core->batch[core->open].len)
                return core->open_seq;
        return core->is_in_flight ? core->open_seq - 1 : core->durable_seq;
}

uint64_t core_durable_seq(const struct core *core)
{
        return core->durable_seq;
}

void core_end(struct core *core)
{
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->end)
                        parts->features[i]->end(core);
}

void core_stop(struct core *core)
{
        core->is_stopping = true;
        while (core->waits.len)
                end_first_wait(core);
}
