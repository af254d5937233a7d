/* Unique keys and shared keys against a model of a few lines, with restarts from the log.
 *
 * The model knows of each key who holds it and until when; of each job its state.  Every answer of
 * the core must be the one the model expects:
 *   (1) a job is made exactly when nobody holds its key, else the conflict is met as asked
 *   (2) never more than KEYMAX jobs with a shared key run at once
 *   (3) a claim comes back empty only when every pending job is kept by its shared key
 *   (4) all of it after a restart as before it */

#include "../unit/check.h"

#include "dice.h"

#include "base/say.h"
#include "core/kernel.h"
#include "support/rig.h"

#define JOBS    400
#define KEYS    3
#define KEYMAX  2
#define HOLD_MS 50

enum { M_PENDING, M_RUNNING, M_ENDED };

struct model_job {
        int unique, scope, shared, state; /* unique and shared: -1 = none */
        int version;                      /* of its args */
        char token[33];
};

struct model {
        struct rig rig;
        struct rng dice;
        struct model_job jobs[JOBS + 1];
        uint64_t n_jobs;
        uint64_t held_id[KEYS];
        int64_t held_until_ns[KEYS];
        int n_running[KEYS], n_versions;
};

static const char *const key_names[KEYS] = {"k0", "k1", "k2"};
static const char *const scopes[] = {"pending", "running", "after"};
static const char *const conflicts[] = {"first", "replace", "reject"};

static uint64_t roll(struct model *m, uint64_t n)
{
        return rng_below(&m->dice, n);
}

static const char *number(uint64_t n)
{
        static char text[4][24];
        static unsigned at;
        char *to = text[at++ % 4];
        (void)snprintf(to, sizeof(text[0]), "%llu", (unsigned long long)n);
        return to;
}

/* ---- the model's rules ---- */

static bool wants_key(const struct model_job *j)
{
        return j->state == M_PENDING || (j->state == M_RUNNING && j->scope > 0);
}

/* The oldest of those that want it. */
static uint64_t live_holder(const struct model *m, int key)
{
        for (uint64_t id = 1; id <= m->n_jobs; id++)
                if (m->jobs[id].unique == key && wants_key(&m->jobs[id]))
                        return id;
        return 0;
}

static void take_back(struct model *m, uint64_t id)
{
        struct model_job *j = &m->jobs[id];
        if (j->state == M_RUNNING && j->shared >= 0)
                m->n_running[j->shared]--;
        j->state = M_PENDING;
}

static void start(struct model *m, uint64_t id)
{
        struct model_job *j = &m->jobs[id];
        assert_int_equal(j->state, M_PENDING);
        j->state = M_RUNNING;
        if (j->shared >= 0)
                assert_true(++m->n_running[j->shared] <= KEYMAX); /* (2) */
}

static void end(struct model *m, uint64_t id)
{
        struct model_job *j = &m->jobs[id];
        if (j->state == M_RUNNING && j->shared >= 0)
                m->n_running[j->shared]--;
        bool is_holder = j->unique >= 0 && live_holder(m, j->unique) == id;
        j->state = M_ENDED;
        if (is_holder && j->scope == 2) {
                m->held_id[j->unique] = id;
                m->held_until_ns[j->unique] = m->rig.now.steady_ns + HOLD_MS * NS_PER_MS;
        }
}

static uint64_t who_holds(const struct model *m, int key)
{
        uint64_t holder = live_holder(m, key);
        if (holder)
                return holder;
        return m->held_until_ns[key] > m->rig.now.steady_ns ? m->held_id[key] : 0;
}

/* ---- steps ---- */

static void do_enqueue(struct model *m)
{
        if (m->n_jobs == JOBS)
                return;
        int unique = (int)roll(m, KEYS + 1) - 1, scope = (int)roll(m, 3);
        int conflict = (int)roll(m, 3), shared = (int)roll(m, KEYS + 1) - 1;
        int version = ++m->n_versions;
        const char *words[20] = {"ENQUEUE", "h", number((uint64_t)version)};
        struct slice argv[20];
        size_t n = 3;
        if (unique >= 0) {
                words[n++] = "UNIQUE", words[n++] = key_names[unique];
                words[n++] = "SCOPE", words[n++] = scopes[scope];
                words[n++] = "CONFLICT", words[n++] = conflicts[conflict];
                if (scope == 2)
                        words[n++] = "UNIQUEFOR", words[n++] = number(HOLD_MS);
        }
        if (shared >= 0) {
                words[n++] = "KEY", words[n++] = key_names[shared];
                words[n++] = "KEYMAX", words[n++] = number(KEYMAX);
        }
        for (size_t i = 0; i < n; i++)
                argv[i] = slice_str(words[i]);
        uint64_t holder = unique >= 0 ? who_holds(m, unique) : 0;
        const char *answer = rig_argv(&m->rig, &m->rig.me, argv, n);
        if (holder && conflict == 2) {
                assert_memory_equal(answer, "!CONFLICT", 9); /* (1) */
                return;
        }
        if (holder) {
                assert_string_equal(answer, number(holder));
                if (conflict == 1 && m->jobs[holder].state == M_PENDING)
                        m->jobs[holder].version = version;
                return;
        }
        uint64_t id = ++m->n_jobs;
        assert_string_equal(answer, number(id));
        m->jobs[id] = (struct model_job){
                .unique = unique, .scope = scope, .shared = shared, .version = version};
}

static void do_claim(struct model *m)
{
        char token[33];
        uint64_t id = rig_claim(&m->rig, "w", "default", token);
        if (id) {
                start(m, id);
                memcpy(m->jobs[id].token, token, sizeof(token));
                return;
        }
        for (uint64_t i = 1; i <= m->n_jobs; i++) { /* (3) */
                const struct model_job *j = &m->jobs[i];
                if (j->state == M_PENDING && (j->shared < 0 || m->n_running[j->shared] < KEYMAX))
                        fail_msg("job %llu could run", (unsigned long long)i);
        }
}

static uint64_t some_job(struct model *m, int state)
{
        for (int i = 0; i < 20 && m->n_jobs; i++) {
                uint64_t id = 1 + roll(m, m->n_jobs);
                if (m->jobs[id].state == state)
                        return id;
        }
        return 0;
}

static void do_finish(struct model *m)
{
        uint64_t id = some_job(m, roll(m, 6) ? M_RUNNING : M_PENDING);
        if (!id)
                return;
        const struct model_job *j = &m->jobs[id];
        if (j->state == M_PENDING) {
                assert_string_equal(rig_do(&m->rig, "CANCEL", number(id)), "OK");
                end(m, id);
                return;
        }
        switch (roll(m, 4)) {
        case 0:
                assert_string_equal(rig_do(&m->rig, "RELEASE", number(id), j->token), "OK");
                take_back(m, id);
                break;
        case 1:
                if (strcmp(rig_do(&m->rig, "FAIL", number(id), j->token, "no"), "'failed'") == 0)
                        end(m, id);
                else
                        take_back(m, id);
                break;
        case 2:
                assert_string_equal(rig_do(&m->rig, "CANCEL", number(id)), "OK");
                end(m, id);
                break;
        default:
                assert_string_equal(rig_do(&m->rig, "COMPLETE", number(id), j->token), "OK");
                end(m, id);
        }
}

static void check_args(struct model *m)
{
        uint64_t id = some_job(m, M_PENDING);
        if (!id)
                return;
        const struct job *job = state_job(&m->rig.core->state, id);
        assert_non_null(job);
        const char *text = number((uint64_t)m->jobs[id].version);
        assert_int_equal(job->args_len, strlen(text));
        assert_memory_equal(job->args, text, job->args_len);
}

static void do_restart(struct model *m)
{
        rig_turn(&m->rig);
        assert_true(rig_replays(&m->rig)); /* (4) */
        rig_turn(&m->rig);
}

static void run_round(void)
{
        struct model *m = xcalloc(1, sizeof(*m));
        (void)dice_init(&m->dice, "unique"); /* says which */
        rig_init(&m->rig);
        for (int step = 0; step < 1500; step++) {
                switch (roll(m, 12)) {
                case 0:
                case 1:
                case 2:
                        do_enqueue(m);
                        break;
                case 3:
                case 4:
                case 5:
                        do_claim(m);
                        break;
                case 6:
                        rig_pass_ms(&m->rig, (int64_t)roll(m, 30));
                        break;
                case 7:
                        check_args(m);
                        break;
                case 8:
                        if (roll(m, 20) == 0)
                                do_restart(m);
                        break;
                default:
                        do_finish(m);
                }
        }
        rig_release(&m->rig);
        free(m);
}

static void keys_do_what_the_model_does(void **unused)
{
        (void)unused;
        for (uint64_t i = dice_rounds(20); i; i--)
                run_round();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys_do_what_the_model_does),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
