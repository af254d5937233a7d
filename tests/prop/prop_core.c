/* Every command of the core, in any order and with any of its options, while the disk fills, the
 * log falls behind, history is slow or cannot be read, the load goes up and down, and the process
 * dies and comes back.
 *
 * There is no model of what each command does: the other property tests have those.  Here is what
 * must hold whatever happens:
 *      (1) state_check, and after a restart with nothing lost the same digest
 *      (2) a refused command has changed nothing, unless the time of a lock was over
 *      (3) a job that was made is live or in history, and not in both with the same run
 *      (4) nobody is granted a job while another holds its lease, and fences only grow
 *      (5) in the end, when nothing keeps them any more and somebody works, all jobs end: those
 *          who wait for jobs are told of each without asking again
 *      (6) no job has waited at the gate for longer than it is there, and one that waits there is
 * on the list of its tier, unless that is the critical one */
#include "unit/check.h"

#include <stdio.h>

#include "jobs/due.h"
#include "prop/core_lines.h"
#include "prop/dice.h"
#include "sites/sites.h"
#include "support/rig.h"
#include "throttle/throttle_state.h"
#include "traffic/traffic.h"

#define STEPS     2500
#define JOBS_MAX  5000
#define SESSIONS  5
#define TOKENS    8 /* of locks and of breakers that are remembered */
#define WORDS_MAX 96
#define IDLE_MAX  4000 /* turns without a job that ends; a crowd of dependents takes many */

struct lease {
        char token[RIG_TOKEN];
        int64_t until_ns; /* nobody else may have the job before; 0: it was given back */
};

struct token {
        char name[16], text[RIG_TOKEN];
};

/* Somebody who asks, and what kind of answer is to come. */
struct asker_session {
        struct rig_session rig;
        bool is_claim, is_lock, is_ask, is_delete;
        char name[16];
};

struct world {
        struct rig rig;
        struct rng dice;
        struct asker_session sessions[SESSIONS];
        struct lease leases[JOBS_MAX];
        int64_t born_ns[JOBS_MAX];    /* not seen before then; steady */
        bool is_of_drop[JOBS_MAX];    /* history need not keep it */
        bool is_deleted[JOBS_MAX];    /* it had ended when somebody deleted jobs */
        int64_t looked_ns;            /* when jobs were last looked at */
        uint64_t seen_id;             /* jobs below it were looked at */
        uint64_t durable_id;          /* jobs below it cannot be lost */
        uint64_t fence, fence_before; /* the highest that was told, and before this step */
        uint64_t n_done, n_refused;
        bool is_loud;
        struct token locks[TOKENS], asks[TOKENS];
        double load;
        bool is_adaptive;
        /* The words of a command, and their text. */
        struct slice words[WORDS_MAX];
        size_t n_words;
        char text[8192];
        size_t n_text;
};

static const char *const queue_names[] = {"a", "b", "c", "drop"};

static struct state *state_of(struct world *w)
{
        return &w->rig.core->state;
}

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

/* ---- lines ---- */

static const char *put(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static const char *put(struct world *w, const char *fmt, ...)
{
        va_list args;
        char *at = w->text + w->n_text;
        va_start(args, fmt);
        int n = vsnprintf(at, sizeof(w->text) - w->n_text, fmt, args);
        va_end(args);
        assert_true(n >= 0 && w->n_text + (size_t)n + 1 < sizeof(w->text));
        w->n_text += (size_t)n + 1;
        return at;
}

static void add(struct world *w, const char *word)
{
        assert_true(w->n_words < WORDS_MAX);
        w->words[w->n_words++] = slice_str(word);
}

static uint64_t some_id(struct world *w)
{
        uint64_t next = state_of(w)->next_id, back = roll(w, 3) ? 20 : next;
        return next - 1 - roll(w, back < next ? back : next) + (roll(w, 40) == 0);
}

static void add_ids(struct world *w)
{
        if (roll(w, 2))
                add(w, put(w, "%llu", (unsigned long long)some_id(w) + 1));
        else
                add(w, put(w, "%llu,%llu", (unsigned long long)some_id(w) + 1,
                           (unsigned long long)some_id(w) + 1));
}

/* A lease that is not over, if there is one and mostly. */
static void add_held(struct world *w)
{
        uint64_t id = 1 + some_id(w), from = id;
        while (roll(w, 20) && !w->leases[id].until_ns) {
                id = id > 1 ? id - 1 : w->seen_id;
                if (id == from)
                        break;
        }
        const char *token = w->leases[id].token;
        add(w, put(w, "%llu", (unsigned long long)id));
        add(w, token[0] ? token : "00000000000000000000000000000000");
}

static void add_token(struct world *w, const struct token *tokens)
{
        const struct token *t = &tokens[roll(w, TOKENS)];
        add(w, t->name[0] ? t->name : "l1");
        add(w, t->name[0] ? t->text : "00000000000000000000000000000000");
}

static void add_queues(struct world *w)
{
        for (uint64_t n = 1 + roll(w, 4); n; n--)
                add(w, queue_names[roll(w, ARRAY_LEN(queue_names))]);
}

/* One word of the kind; what is before and after it in the line stays around it. */
static const char *kind_of(struct world *w, const char *kind, size_t len)
{
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, kind, len) == 0)
                        return kinds[i].of[roll(w, 6)];
        if (len == 2 && memcmp(kind, "id", 2) == 0)
                return put(w, "%llu", (unsigned long long)some_id(w) + 1);
        if (len == 2 && memcmp(kind, "at", 2) == 0)
                return put(w, "%lld",
                           (long long)w->rig.now.wall_ms - 500 + (long long)roll(w, 3000));
        fail_msg("there is no kind %.*s", (int)len, kind);
        return NULL;
}

static bool add_several(struct world *w, const char *word)
{
        if (strcmp(word, "$ids") == 0)
                add_ids(w);
        else if (strcmp(word, "$held") == 0)
                add_held(w);
        else if (strcmp(word, "$locked") == 0)
                add_token(w, w->locks);
        else if (strcmp(word, "$asked") == 0)
                add_token(w, w->asks);
        else if (strcmp(word, "$queues") == 0)
                add_queues(w);
        else
                return false;
        return true;
}

/* a|b|c: one of them, in place. */
static char *choose(struct world *w, char *word)
{
        uint64_t n = 1 + times(word, "|");
        for (uint64_t i = roll(w, n); i; i--)
                word = strchr(word, '|') + 1;
        word[strcspn(word, "|")] = '\0';
        return word;
}

static void add_word(struct world *w, char *word)
{
        if (add_several(w, word))
                return;
        word = choose(w, word);
        char *dollar = strchr(word, '$');
        if (!dollar) {
                add(w, put(w, "%s", word));
                return;
        }
        size_t len = strspn(dollar + 1, "abcdefghijklmnopqrstuvwxyz");
        const char *kind = kind_of(w, dollar + 1, len);
        add(w, put(w, "%.*s%s%s", (int)(dollar - word), word, kind, dollar + 1 + len));
}

static void make_command(struct world *w, const char *line)
{
        static char copy[1024];
        bool is_left_out = false;
        w->n_words = w->n_text = 0;
        (void)snprintf(copy, sizeof(copy), "%s", line);
        for (char *save, *word = strtok_r(copy, " ", &save); word;
             word = strtok_r(NULL, " ", &save)) {
                bool is_begin = word[0] == '[', is_end = strchr(word, ']') != NULL;
                if (is_begin)
                        is_left_out = roll(w, 4) != 0;
                word += is_begin;
                if (is_end)
                        *strchr(word, ']') = '\0';
                if (!is_left_out)
                        add_word(w, word);
                if (is_end)
                        is_left_out = false;
        }
}

/* ---- answers ---- */

static void take_fence(struct world *w, uint64_t fence)
{
        assert_true(fence > w->fence_before);
        if (fence > w->fence)
                w->fence = fence;
}

static void take_grant(struct world *w, const char *at)
{
        unsigned long long id = 0, fence = 0, lease_ms = 0;
        char token[RIG_TOKEN];
        assert_int_equal(sscanf(at, "{id:%llu token:'%32[0-9a-f]'", &id, token), 2);
        at = strstr(at, " fence:");
        assert_non_null(at);
        assert_int_equal(sscanf(at, " fence:%llu lease_ms:%llu", &fence, &lease_ms), 2);
        assert_true(id < JOBS_MAX);
        struct lease *l = &w->leases[id];
        if (l->until_ns > w->rig.now.steady_ns)
                fail_msg("job %llu is granted while another holds it", id);
        take_fence(w, fence);
        memcpy(l->token, token, sizeof(token));
        l->until_ns = w->rig.now.steady_ns + (int64_t)lease_ms * NS_PER_MS;
}

/* Of LOCK and ASK; the lease of a job follows its id. */
static void take_token(struct world *w, const struct asker_session *s, const char *text)
{
        struct token *t = &(s->is_lock ? w->locks : w->asks)[roll(w, TOKENS)];
        unsigned long long fence;
        const char *at = strstr(text, "token:'");
        if (!at || sscanf(at, "token:'%32[0-9a-f]'", t->text) != 1)
                return;
        (void)snprintf(t->name, sizeof(t->name), "%s", s->name);
        if (s->is_lock && sscanf(strstr(at, "fence:"), "fence:%llu", &fence) == 1)
                take_fence(w, fence);
}

static void take_answer(struct world *w, struct asker_session *s, const char *text)
{
        w->n_done += text[0] != '!';
        w->n_refused += text[0] == '!';
        if (s->is_claim)
                for (const char *at = text; (at = strstr(at, "{id:")); at++)
                        take_grant(w, at);
        if (s->is_lock || s->is_ask)
                take_token(w, s, text);
}

/* Leases that were given back or taken away are over. */
static void look_at_leases(struct world *w)
{
        for (uint64_t id = 1; id < w->seen_id; id++) {
                if (!w->leases[id].until_ns)
                        continue;
                const struct job *job = state_job(state_of(w), id);
                bool is_leased = job && job->state == JOB_LEASED;
                w->leases[id].until_ns = is_leased ? job->more->deadline_ns : 0;
        }
}

/* Whoever deletes may have taken any job that has ended. */
static void look_for_deleted(struct world *w)
{
        bool is_deleting = false;
        for (size_t i = 0; i < SESSIONS; i++) {
                struct asker_session *s = &w->sessions[i];
                is_deleting |= s->is_delete;
                s->is_delete &= session_is_waiting(&s->rig.base);
        }
        for (uint64_t id = 1; id < w->seen_id; id++) {
                const struct job *job = state_job(state_of(w), id);
                if (job && job->state != JOB_FINISHED)
                        w->is_deleted[id] = false;
                else
                        w->is_deleted[id] |= is_deleting;
        }
}

/* What was answered since: jobs that are new, late replies, ends of leases. */
static void look(struct world *w)
{
        for (size_t i = 0; i < SESSIONS; i++) {
                struct asker_session *s = &w->sessions[i];
                if (!s->rig.is_answered)
                        continue;
                s->rig.is_answered = false;
                take_answer(w, s, text_reply_str(&s->rig.reply));
        }
        assert_true(state_of(w)->next_id <= JOBS_MAX);
        for (; w->seen_id < state_of(w)->next_id; w->seen_id++) {
                const struct job *job = state_job(state_of(w), w->seen_id);
                if (!w->born_ns[w->seen_id]) /* after a crash it may be seen a second time */
                        w->born_ns[w->seen_id] = w->looked_ns;
                w->is_of_drop[w->seen_id] =
                        !job || slice_eq(name_slice(job->queue->name), SLICE_LIT("drop"));
        }
        w->looked_ns = w->rig.now.steady_ns;
        look_at_leases(w);
        look_for_deleted(w);
        w->fence_before = w->fence;
        if (core_is_settled(w->rig.core))
                w->durable_id = state_of(w)->next_id;
}

static void settle(struct world *w)
{
        rig_turn(&w->rig);
        look(w);
}

/* ---- steps ---- */

static int run(struct world *w, struct asker_session *s, struct slice key)
{
        struct rig *rig = &w->rig;
        struct problem problem = {0};
        struct command cmd;
        const struct command_def *def = command_find(w->words[0]);
        assert_non_null(def);
        arena_clear(&rig->arena);
        text_reply_clear(&s->rig.reply);
        s->rig.is_answered = false;
        int r = command_bind_argv(def, w->words + 1, w->n_words - 1, &rig->arena, &cmd, &problem);
        if (r == OK && key.len && def->flags & COMMAND_WRITE)
                r = command_set_key(&cmd, key, &problem);
        if (r == OK)
                r = core_exec(rig->core, &s->rig.base, &cmd, &s->rig.reply.base, &problem);
        if (r < 0)
                reply_error(&s->rig.reply.base, &problem);
        return r;
}

static void print_command(const struct world *w, const char *answer)
{
        (void)printf("  ");
        for (size_t i = 0; i < w->n_words; i++)
                (void)printf("%.*s ", (int)w->words[i].len, w->words[i].ptr);
        (void)printf("-> %.200s\n", answer);
}

/* The time of a lock may be over while the turn has not come to it: then the first command that
 * looks at the lock ends it, whatever the answer to that command is. */
static void end_lock_in_time(struct world *w, struct slice name)
{
        struct thing *t = thing_find(state_of(w), THING_LOCK, name);
        if (t)
                lock_due(w->rig.core, t);
}

static const char *say(struct world *w, struct asker_session *s, struct slice key)
{
        const char *verb = w->words[0].ptr;
        s->is_claim = strcmp(verb, "CLAIM") == 0 || strcmp(verb, "COMPLETE") == 0;
        s->is_lock = strcmp(verb, "LOCK") == 0;
        s->is_ask = strcmp(verb, "ASK") == 0;
        s->is_delete = strcmp(verb, "DELETEMANY") == 0;
        (void)snprintf(s->name, sizeof(s->name), "%s", w->n_words > 1 ? w->words[1].ptr : "");
        if (w->n_words > 1)
                end_lock_in_time(w, w->words[1]);
        uint64_t before = state_digest(state_of(w));
        int r = run(w, s, key);
        const char *text = r == CORE_LATER ? "(waits)" : text_reply_str(&s->rig.reply);
        if (w->is_loud)
                print_command(w, text);
        if (r < 0 && state_digest(state_of(w)) != before) {
                print_command(w, text);
                fail_msg("what is refused has changed something");
        }
        if (r == OK)
                take_answer(w, s, text);
        look_at_leases(w);
        core_commit(w->rig.core);
        core_archive_poll(w->rig.core);
        core_commit(w->rig.core);
        look(w);
        return text;
}

static void step_line(struct world *w)
{
        struct asker_session *s = &w->sessions[roll(w, SESSIONS)];
        char key[8];
        if (session_is_waiting(&s->rig.base) || state_of(w)->next_id > JOBS_MAX - 200)
                return;
        (void)snprintf(key, sizeof(key), "i%u", (unsigned)roll(w, 1000));
        make_command(w, lines[roll(w, roll(w, 2) ? OFTEN : ARRAY_LEN(lines))]);
        (void)say(w, s, slice_make(key, roll(w, 12) ? 0 : strlen(key)));
}

static void step_time(struct world *w)
{
        int64_t ms = roll(w, 12) ? 1 + (int64_t)roll(w, 500) : 1000 * (int64_t)roll(w, 60);
        w->rig.now.steady_ns += ms * NS_PER_MS;
        w->rig.now.wall_ms += roll(w, 30) ? ms : ms - 1000 + (int64_t)roll(w, 2000);
        rig_sample(&w->rig, 0, 0, w->load);
        settle(w);
}

static void step_load(struct world *w)
{
        static const double loads[] = {1, 1, 8, 20};
        w->load = loads[roll(w, ARRAY_LEN(loads))];
        rig_sample(&w->rig, 0, 0, w->load);
        settle(w);
}

static void step_history(struct world *w)
{
        w->rig.archive.is_broken = roll(w, 6) == 0;
        memory_archive_commit(&w->rig.archive, roll(w, 30));
        settle(w);
}

static void step_disk(struct world *w)
{
        struct log_stat *stat = &w->rig.log.stat;
        stat->is_disk_full = roll(w, 8) == 0;
        stat->room_bytes = stat->is_disk_full ? roll(w, 100) * KIB : 1ULL << 40;
        settle(w);
}

static void step_log(struct world *w)
{
        w->rig.log.is_manual = roll(w, 3) == 0;
        memory_log_sync(&w->rig.log);
        settle(w);
}

static void step_clean(struct world *w)
{
        rig_fall_behind(&w->rig, &w->dice);
        settle(w);
}

static void step_peer(struct world *w)
{
        struct asker_session *s = &w->sessions[roll(w, SESSIONS)];
        session_release(w->rig.core, &s->rig.base);
        settle(w);
}

/* ---- the end of a process, and the beginning of the next ---- */

static void set_gate(struct world *w)
{
        static const struct core_metric threads = {
                .name = "threads_running",
                .rule = {{5, 15}, {3, 10}, 0, false},
                .check_above = 10,
                .is_checked = true,
                .shipped = {{5, 15}, {3, 10}, 0, false},
        };
        static const struct core_target shop = {.name = "shop",
                                                .metrics = &threads,
                                                .n_metrics = 1,
                                                .dwell_ns = NS_PER_S,
                                                .mode = -1};
        struct core_throttle options = {.targets = &shop,
                                        .n_targets = 1,
                                        .ramp_cycles = 2,
                                        .ramp_cycle_ns = NS_PER_S,
                                        .checks = {.mode = MODE_ENFORCE}};
        policy_init(&options.policy);
        zone_rule_init(&options.zone);
        options.policy.mode = MODE_ENFORCE;
        options.adaptive = w->is_adaptive ? MODE_ENFORCE : MODE_OFF;
        options.zone.start = 3;
        options.zone.tick_ns = NS_PER_S;
        core_set_throttle(w->rig.core, &options);
        const struct site_options site = {
                .name = "blog", .target = "shop", .mode = MODE_ENFORCE, .interval_ms = 5000};
        core_set_sites(w->rig.core, &site, 1, NULL);
        const struct traffic_options door = {
                .name = "front", .target = "shop", .mode = MODE_ENFORCE};
        core_set_traffic(w->rig.core, &door, 1, NULL);
        rig_sample(&w->rig, 0, 0, w->load);
        settle(w);
}

static void hang_up(struct world *w)
{
        for (size_t i = 0; i < SESSIONS; i++) {
                session_release(w->rig.core, &w->sessions[i].rig.base);
                w->sessions[i].rig.is_answered = false;
        }
        core_archive_poll(w->rig.core);
}

/* All that was said is durable. */
static void sync_all(struct world *w)
{
        for (int i = 0; i < 10 && !core_is_settled(w->rig.core); i++) {
                memory_log_sync(&w->rig.log);
                core_commit(w->rig.core);
        }
        memory_log_sync(&w->rig.log);
        assert_true(core_is_settled(w->rig.core));
}

static void step_restart(struct world *w)
{
        if (roll(w, 8))
                return;
        hang_up(w);
        sync_all(w);
        look(w);
        uint64_t before = state_digest(state_of(w));
        rig_restart(&w->rig);
        assert_int_equal(w->rig.replayed, before); /* the first turn may go on with what waited */
        set_gate(w);
}

/* Nobody was told of a lease that is lost: the one before it holds. */
static void remember_lease(struct world *w, uint64_t id)
{
        const struct job *job = state_job(state_of(w), id);
        w->leases[id] = (struct lease){0};
        if (id >= w->durable_id)
                w->is_of_drop[id] = w->is_deleted[id] = false;
        if (!job || job->state != JOB_LEASED)
                return;
        hex_from_bytes(job->more->token, JOB_TOKEN_BYTES, w->leases[id].token);
        w->leases[id].until_ns = job->more->deadline_ns;
}

/* The batches that the log does not have are lost, and with them all that nobody was told. */
static void step_crash(struct world *w)
{
        if (roll(w, 12))
                return;
        hang_up(w);
        rig_restart(&w->rig);
        assert_true(state_of(w)->next_id >= w->durable_id);
        for (uint64_t id = 1; id < w->seen_id; id++)
                remember_lease(w, id);
        w->seen_id = w->durable_id; /* others may have those numbers now */
        w->fence = w->fence_before = state_of(w)->fence;
        set_gate(w);
}

/* ---- what holds ---- */

static uint64_t run_of(const struct job_view *v)
{
        struct job_options o;
        assert_true(options_unpack(v->options, &o));
        return o.run;
}

static void check_job(struct world *w, uint64_t id)
{
        const struct job *job = state_job(state_of(w), id);
        const struct job_view *row = memory_archive_find(&w->rig.archive, id);
        if (!job && !row && !w->is_of_drop[id] && !w->is_deleted[id])
                fail_msg("job %llu is lost", (unsigned long long)id);
        if (!job || !row)
                return;
        uint64_t run = job->extra ? job->extra->options.run : 0;
        if (job->state == JOB_FINISHED ? run_of(row) > run : run_of(row) >= run)
                fail_msg("job %llu is live, and history has its run %llu", (unsigned long long)id,
                         (unsigned long long)run);
}

static void check_gate(struct world *w, uint64_t id)
{
        const struct job *job = state_job(state_of(w), id);
        int64_t now_ns = w->rig.now.steady_ns;
        if (!job)
                return;
        int64_t waited_ms = (int64_t)job_deferred_ms(job, now_ns);
        if (waited_ms > (now_ns - w->born_ns[id]) / NS_PER_MS)
                fail_msg("job %llu has waited for %lld ms, which is longer than it is there",
                         (unsigned long long)id, (long long)waited_ms);
        if (!job_is_parked(job) || parking_is_judging(w->rig.core))
                return;
        enum tier tier = throttle_tier(w->rig.core, job);
        if (tier != job->extra->parked_tier || tier == TIER_CRITICAL)
                fail_msg("job %llu of tier %s is parked as %s", (unsigned long long)id,
                         tier_name(tier), tier_name((enum tier)job->extra->parked_tier));
}

static void check(struct world *w)
{
        state_check(state_of(w));
        for (uint64_t id = 1; id < w->seen_id; id++) {
                check_job(w, id);
                check_gate(w, id);
        }
}

/* ---- the end: nothing keeps anything any more ---- */

static const char *order(struct world *w, const char *line)
{
        struct asker_session *s = &w->sessions[0];
        make_command(w, line);
        const char *text = say(w, s, SLICE_NONE);
        for (int i = 0; i < 10 && session_is_waiting(&s->rig.base); i++)
                settle(w);
        assert_false(session_is_waiting(&s->rig.base));
        return text;
}

static void let_everything_go(struct world *w)
{
        static const char *const always[] = {
                "THROTTLE RESUME",
                "SETTINGUNSET throttle.enabled",
                "SETTINGUNSET throttle.mode",
                "RESUME a",
                "RESUME b",
                "RESUME c",
                "RESUME drop",
                "UNSCHEDULE s1",
                "UNSCHEDULE s2",
                "UNSCHEDULE s3",
                "UNSCHEDULE s4",
                "CLOSEBREAKER b1",
                "CLOSEBREAKER b2",
                "CLOSEBREAKER b3",
                "CLOSEBATCH t1",
                "CLOSEBATCH t2",
                "CLOSEBATCH t3",
                "CLOSEBATCH t4",
        };
        hang_up(w);
        w->rig.log.is_manual = w->rig.archive.is_broken = false;
        w->rig.log.stat.is_disk_full = false;
        w->rig.log.stat.room_bytes = 1ULL << 40;
        sync_all(w);
        w->load = 1;
        settle(w);
        for (size_t i = 0; i < ARRAY_LEN(always); i++)
                (void)order(w, always[i]); /* it may not be there */
}

static size_t n_open(struct world *w)
{
        return state_of(w)->jobs.len - state_of(w)->n_finished;
}

/* All that a worker holds is done. */
static void complete_all(struct world *w)
{
        for (uint64_t id = 1; id < w->seen_id; id++) {
                if (!w->leases[id].until_ns)
                        continue;
                w->n_words = w->n_text = 0;
                add(w, "COMPLETE");
                add(w, put(w, "%llu", (unsigned long long)id));
                add(w, w->leases[id].token);
                assert_string_equal(say(w, &w->sessions[1], SLICE_NONE), "OK");
        }
}

static void tell_why(struct world *w)
{
        uint64_t id = 0;
        for (const struct job *job; (job = idmap_next(&state_of(w)->jobs, id, &id)); id++) {
                if (job->state == JOB_FINISHED)
                        continue;
                make_command(w, "WHY");
                add(w, put(w, "%llu", (unsigned long long)id));
                (void)say(w, &w->sessions[1], SLICE_NONE);
                print_command(w, text_reply_str(&w->sessions[1].rig.reply));
        }
}

/* One worker that waits for jobs, and is told of all of them. */
static void drain(struct world *w)
{
        struct asker_session *worker = &w->sessions[0];
        let_everything_go(w);
        size_t left = n_open(w);
        for (int idle = 0; idle < IDLE_MAX && left; idle++) {
                if (!session_is_waiting(&worker->rig.base)) {
                        make_command(
                                w,
                                "CLAIM w MAX 3 WAIT 600000 LEASE 60000 QUEUES a b c drop default");
                        (void)say(w, worker, SLICE_NONE);
                }
                complete_all(w);
                memory_archive_commit(&w->rig.archive, SIZE_MAX);
                int64_t next_ns = core_next_ns(w->rig.core),
                        least = w->rig.now.steady_ns + 100 * NS_PER_MS;
                int64_t ms =
                        ((next_ns > least ? next_ns : least) - w->rig.now.steady_ns) / NS_PER_MS +
                        1;
                if (ms > 5000)
                        ms = 5000;
                w->rig.now.steady_ns += ms * NS_PER_MS;
                w->rig.now.wall_ms += ms;
                rig_sample(&w->rig, 0, 0, 1);
                settle(w);
                if (n_open(w) != left)
                        idle = 0;
                left = n_open(w);
        }
        if (left)
                tell_why(w);
        assert_int_equal(left, 0);
        hang_up(w);
        rig_pass_ms(&w->rig, DUE_GRACE_MAX_MS);
        rig_archive_all(&w->rig);
        look(w);
        check(w);
        assert_int_equal(state_of(w)->jobs.len, 0);
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                step_line, step_line, step_line,  step_line, step_line,    step_line,  step_line,
                step_line, step_line, step_line,  step_line, step_line,    step_line,  step_line,
                step_line, step_line, step_time,  step_time, step_time,    step_load,  step_history,
                step_disk, step_log,  step_clean, step_peer, step_restart, step_crash,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        w->is_loud = dice_env("WEIR_LOUD", 0);
        w->seen_id = w->durable_id = 1;
        w->load = 1;
        w->is_adaptive = roll(w, 3) == 0;
        rig_init(&w->rig);
        w->rig.options.finished_max = roll(w, 3) ? 0 : 20;
        w->rig.options.turn_steps = roll(w, 3) ? 0 : 2 + (int)roll(w, 6);
        rig_restart(&w->rig);
        for (size_t i = 0; i < SESSIONS; i++)
                rig_session_init(&w->sessions[i].rig);
        set_gate(w);
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                if (i % 8 == 0)
                        check(w);
        }
        check(w);
        drain(w);
        for (size_t i = 0; i < SESSIONS; i++)
                rig_session_release(&w->rig, &w->sessions[i].rig);
        rig_release(&w->rig);
        free(w);
}

static void all_commands_together_keep_what_is_promised(void **unused)
{
        (void)unused;
        dice_play(4, run_round);
}

static void every_command_of_the_core_is_here(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                bool is_here = def->flags & COMMAND_DOOR || strncmp(def->name, "CONFIG", 6) == 0 ||
                               strcmp(def->name, "SETTINGSTEXT") == 0; /* of the server, not ours */
                for (size_t k = 0; k < ARRAY_LEN(lines); k++)
                        is_here |= strncmp(lines[k], def->name, def->name_len) == 0 &&
                                   strchr(" ", lines[k][def->name_len]);
                if (!is_here)
                        fail_msg("no line for %s", def->name);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_command_of_the_core_is_here),
                cmocka_unit_test(all_commands_together_keep_what_is_promised),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
