/* See the header. */
#include "sim/story.h"

#include "unit/check.h"

#include <stdio.h>

#include "sim/checks.h"

#define WANTED_LIVE 50

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

/* ---- jobs ---- */

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
                        w->model.jobs[id].args_len = ARGS_UNKNOWN;
                return;
        }
        struct saying *s = model_say(&w->model);
        s->what = S_ENQUEUED;
        s->id = id;
        /* What was sent under this id; one that was lost unacknowledged gives its id away. */
        w->model.jobs[id] = (struct promise){.args_len = len};
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
                assert_true(fence > w->model.fence);
                if (id > JOBS_MAX)
                        continue; /* schedules go on for ever */
                check_free(w, id);
                if (is_made) /* by a schedule or a batch: nobody was told of it before */
                        w->model.jobs[id].args_len = ARGS_OTHER;
                w->n_grants++;
                struct saying *s = model_say(&w->model);
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
        const struct promise *p = &w->model.jobs[id];
        char text[24];
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
        if (!p->token[0])
                return;
        struct saying s = {.id = id};
        const char *answer;
        switch (roll(w, 7)) {
        case 0:
                answer = roll(w, 4) ? DO(w, "FAIL", text, p->token, "why", "RETRYIN", "20")
                                    : DO(w, "FAIL", text, p->token, "why", "NORETRY");
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
        *model_say(&w->model) = s;
}

/* ---- time and things ---- */

void story_time(struct world *w)
{
        int64_t ms = (int64_t)roll(w, 80);
        w->now.steady_ns += ms * NS_PER_MS;
        w->now.wall_ms += ms + (roll(w, 50) ? 0 : 100000);
        core_turn(w->core, w->now);
        if (roll(w, 4) == 0)
                core_sample(w->core, 0, 0, (double)roll(w, 20) - 4, w->now.steady_ns,
                            roll(w, 10)  ? SAMPLE_GOOD
                            : roll(w, 2) ? SAMPLE_SILENT
                                         : SAMPLE_FAILED,
                            SLICE_LIT("gone"));
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

/* ---- crowds ---- */

/* Roots are only ever canceled, nobody claims them, and history does not keep them: what comes
 * after one must be canceled too, whenever the machine stops (checks.h). */
static void do_crowd(struct world *w)
{
        char root[24], after[24], key[64];
        if (w->core->state.next_id + 50 > JOBS_MAX)
                return;
        (void)DO(w, "QUEUESET", "roots", "HISTORY", "none");
        (void)snprintf(root, sizeof(root), "%s", DO(w, "ENQUEUE", "root", "", "QUEUE", "roots"));
        (void)snprintf(after, sizeof(after), "%s", root);
        for (uint64_t n = 5 + roll(w, 40); n && after[0] != '!'; n--) {
                (void)snprintf(key, sizeof(key), "crowd %s %llu", root, (unsigned long long)n);
                const char *id = DO(w, "ENQUEUE", "follower", "", "QUEUE", "crowd", "AFTER",
                                    roll(w, 3) ? root : after, "UNIQUE", key, "SCOPE", "after",
                                    "UNIQUEFOR", "90");
                (void)snprintf(after, sizeof(after), "%s", id);
        }
}

static void end_crowd(struct world *w)
{
        const struct queue *q = state_queue_find(&w->core->state, SLICE_LIT("roots"));
        uint64_t id = 0;
        char text[24];
        for (const struct job *job; q && (job = idmap_next(&w->core->state.jobs, id, &id)); id++) {
                if (job->queue != q)
                        continue;
                (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
                (void)DO(w, "CANCEL", text);
                return;
        }
}

static size_t crowd_size(const struct world *w)
{
        const struct queue *q = state_queue_find(&w->core->state, SLICE_LIT("crowd"));
        return q ? queue_n_jobs(q) : 0;
}

void story_step(struct world *w)
{
        bool is_full = w->core->state.jobs.len - crowd_size(w) > WANTED_LIVE;
        if (roll(w, 50) == 0) {
                if (crowd_size(w) < 20)
                        do_crowd(w);
                else
                        end_crowd(w);
                return;
        }
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
                story_time(w);
                break;
        case 6:
                do_archive(w);
                break;
        default:
                do_finish(w);
        }
}
