/* The law of admission in front of a simulated database: what the clients of a shop see while their
 * database is in trouble, with the gate and without.
 *
 * Per 4 cores: a checkout (200 a second of 2 ms, 64 connections), work in the background (100 a
 * second of 5 ms, three times as many at 32 cores; 64 connections), and what a scenario adds.  The
 * database is calm, then in trouble, then calm again.  What is usual is measured in a run of the
 * calm load, and the law is told it as if after a restart.
 *
 *      WEIR_SIM_TABLE=1 build/release/tests/prop/prop_admission_sim
 *
 * prints what was seen, for people to compare.  See sim_database.h for the database. */
#include "../unit/check.h"

#include <stdio.h>

#include "dice.h"
#include "sim_database.h"

#define TROUBLE_NS (12 * S)  /* begins then, since the start, */
#define RELIEF_NS  (42 * S)  /* and ends; */
#define LAST_NS    (62 * S)  /* clients come until then, */
#define END_NS     (72 * S)  /* and the last are served */
#define LEARN_NS   (100 * S) /* of the calm load, at 4 cores; less with more */
#define SCALE      4.0       /* cores that one measure of load is for */
#define ALWAYS     .to_ns = LAST_NS
#define TROUBLED   .from_ns = TROUBLE_NS, .to_ns = RELIEF_NS

/* Classes; those of the application are also its loads. */
enum { CHECKOUT, BACKGROUND, CROWD };

#define DIGEST_SCAN 1000

struct scenario {
        const char *name;
        const struct plan *crowd, *beside;
        enum tier tier;   /* of the checkout; 0: normal */
        bool is_critical; /* the checkout is */
        bool is_direct;   /* the application goes around the gate */
        bool has_no_thrash;
        double surge, weight; /* of the checkout; 0: 1 */
        double speed;         /* of the database for 20 s; 0: 1 */
        uint32_t outside;     /* busy threads of others */
        uint32_t held_open;   /* connections of the checkout that are idle in a transaction */
        int64_t lock_ns;      /* no checkout that begins ends for so long */
        double false_value;   /* of the metric, */
        int64_t false_ns;     /* for so long */
        int64_t lead_ns;      /* calm time before, beside 12 s */
};

/* How it is run. */
struct setting {
        double cores;
        int64_t sample_ns, backoff_ns;
        double learned; /* times what is true; 0: nothing was learned */
        uint64_t seed;
};

/* What was seen. */
struct outcome {
        double served; /* of the checkouts from the trouble on, in percent */
        double p99_ms; /* of the checkouts that came in the trouble */
        uint32_t bad;  /* seconds */
        double stop_s[TIERS], longest_s[TIERS];
        double crowd_rate; /* a second */
        uint64_t held[SIM_LOADS], refused[SIM_LOADS], ends[SIM_LOADS];
};

static const struct plan batch = {.name = "batch",
                                  .class_number = CROWD,
                                  .tier = TIER_DEFERRABLE,
                                  .mean_ms = 50,
                                  .sigma = 0.3,
                                  .connections = 2,
                                  .digest = 3,
                                  ALWAYS};
#define ROGUE                                                                                      \
        .name = "rogue", .class_number = CROWD, .mean_ms = 1000, .sigma = 0.3, .connections = 48,  \
        .digest = DIGEST_SCAN, TROUBLED
static const struct plan rogue = {ROGUE, .tier = TIER_DEFERRABLE};
static const struct plan rogue_normal = {ROGUE, .tier = TIER_NORMAL};
static const struct plan rogue_high = {ROGUE, .tier = TIER_HIGH};
static const struct plan bulk = {.name = "bulk",
                                 .class_number = CROWD,
                                 .tier = TIER_DEFERRABLE,
                                 .mean_ms = 50,
                                 .sigma = 0.3,
                                 .connections = 16,
                                 .digest = 4,
                                 TROUBLED};
static const struct plan reports = {.name = "reports",
                                    .class_number = CROWD,
                                    .tier = TIER_DEFERRABLE,
                                    .mean_ms = 100,
                                    .sigma = 0.3,
                                    .connections = 64,
                                    .digest = 5,
                                    TROUBLED};
/* Transactions of the checkout that their clients keep open. */
static const struct plan idle = {.name = "idle",
                                 .class_number = CHECKOUT,
                                 .tier = TIER_NORMAL,
                                 .mean_ms = 2,
                                 .connections = 40,
                                 .idle_ns = 5 * S,
                                 .digest = 1,
                                 TROUBLED};
/* Scans in the class of the checkout, of which there may have been a few before. */
#define SCANS                                                                                      \
        .name = "scans", .class_number = CHECKOUT, .tier = TIER_NORMAL, .mean_ms = 1000,           \
        .sigma = 0.3, .digest = DIGEST_SCAN
static const struct plan scans = {SCANS, .connections = 48, TROUBLED};
static const struct plan rare_scans = {SCANS, .rate = 1, .connections = 4,
                                       .to_ns = TROUBLE_NS - 2 * S};

/* ---- playing ---- */

static void plan_app(struct plan plan[2], const struct scenario *c, const struct setting *set)
{
        double n = set->cores / SCALE;

        plan[CHECKOUT] = (struct plan){.name = "checkout",
                                       .class_number = CHECKOUT,
                                       .mean_ms = 2,
                                       .rate = 200 * n,
                                       .tier = c->is_critical ? TIER_CRITICAL
                                               : c->tier      ? c->tier
                                                              : TIER_NORMAL,
                                       .connections = (uint32_t)((64 - c->held_open) * n),
                                       .digest = 1,
                                       .surge = c->surge,
                                       .weight = c->weight,
                                       .is_direct = c->is_direct,
                                       .from_ns = -c->lead_ns,
                                       .lock_from_ns = c->lock_ns ? TROUBLE_NS : 0,
                                       .lock_to_ns = c->lock_ns ? TROUBLE_NS + c->lock_ns : 0,
                                       ALWAYS};
        plan[BACKGROUND] = (struct plan){.name = "background",
                                         .class_number = BACKGROUND,
                                         .tier = TIER_NORMAL,
                                         .mean_ms = 5,
                                         .rate = 100 * n * (set->cores > 16 ? 3 : 1),
                                         .connections = (uint32_t)(64 * n),
                                         .from_ns = -c->lead_ns,
                                         .digest = 2,
                                         .is_direct = c->is_direct,
                                         ALWAYS};
}

static void add_scaled(struct sim *s, const struct plan *plan, const struct setting *set)
{
        struct plan p = *plan;
        p.connections = (uint32_t)(p.connections * set->cores / SCALE);
        p.rate *= set->cores / SCALE;
        sim_add(s, &p, set->seed);
}

/* ---- what is usual ---- */

struct learned {
        double cores;
        uint64_t seed;
        struct usual_memory classes[2];
        double samples[USUAL_BUCKETS];
};

/* The lowest count that is exceeded for at most a hundredth of the time; 1 at least. */
static uint32_t usual_of(const int64_t spent_ns[USUAL_BUCKETS])
{
        double all = 0, beyond = 0;
        unsigned i = USUAL_BUCKETS - 1;

        for (unsigned k = 0; k < USUAL_BUCKETS; k++)
                all += (double)spent_ns[k];
        for (; i > 1; i--) {
                beyond += (double)spent_ns[i];
                if (beyond > all / 100)
                        break;
        }
        return usual_bucket_most(i);
}

/* A run of the calm load.  The last one is kept: most scenarios share it. */
static const struct learned *learn_calm(const struct setting *set)
{
        static struct learned learned;
        static struct sim s;
        const struct scenario nothing = {0};
        struct plan app[2];

        if (learned.cores == set->cores && learned.seed == set->seed)
                return &learned;
        learned = (struct learned){.cores = set->cores, .seed = set->seed};
        plan_app(app, &nothing, set);
        sim_init(&s, set->cores, 0, 10 * MS);
        for (int i = 0; i < 2; i++) {
                app[i].to_ns = LEARN_NS;
                sim_add(&s, &app[i], set->seed + 1000000);
        }
        sim_run(&s, SIM_START + (int64_t)(LEARN_NS * SCALE / set->cores));
        memcpy(learned.samples, s.samples, sizeof(s.samples));
        for (int i = 0; i < 2; i++) {
                const struct tally *t = &s.loads[i].tally;
                learned.classes[i] = (struct usual_memory){.ends = t->ends,
                                                           .seconds = 86400,
                                                           .executing = usual_of(t->spent_ns),
                                                           .log_time = t->log_sum / (double)t->ends,
                                                           .slow = t->learned.memory.slow,
                                                           .n_hours = 24,
                                                           .next_hour = 24};
        }
        sim_release(&s);
        return &learned;
}

/* Tells the law what is usual, wrong by the factor of the setting. */
static void teach(struct sim *s, const struct scenario *c, const struct setting *set)
{
        const struct learned *learned = learn_calm(set);
        double samples[USUAL_BUCKETS] = {0};

        for (int i = 0; i < 2 && !c->is_direct; i++) {
                struct usual_memory m = learned->classes[i];
                m.executing = fmax(1, m.executing * set->learned);
                m.log_time += log(set->learned);
                memset(m.hours, (int)usual_bucket(m.executing), m.n_hours);
                assert_true(admission_remember(s->a, (size_t)i, &m));
        }
        for (unsigned k = 0; k < USUAL_BUCKETS; k++)
                samples[usual_bucket(usual_bucket_most(k) * set->learned)] += learned->samples[k];
        assert_true(admission_remember_metric(s->a, samples, 86400));
}

/* ---- trouble ---- */

static const struct scenario *playing;
static struct timer trouble, relief;

static void end_trouble(struct sim *s, struct timer *t)
{
        (void)t;
        s->db.speed = 1;
        s->db.outside = 0;
}

static void begin_trouble(struct sim *s, struct timer *t)
{
        (void)t;
        if (playing->speed > 0)
                s->db.speed = playing->speed;
        s->db.outside = (uint32_t)(playing->outside * s->db.cores / SCALE);
        timer_set(s, &relief, SIM_START + (playing->speed > 0 ? TROUBLE_NS + 20 * S : RELIEF_NS),
                  end_trouble);
}

/* ---- what was seen ---- */

static int by_ms(const void *a, const void *b)
{
        float x = *(const float *)a, y = *(const float *)b;
        return (x > y) - (x < y);
}

static double p99_of(const struct tally *t)
{
        if (!t->n_troubled)
                return INFINITY;
        qsort(t->troubled_ms, t->n_troubled, sizeof(float), by_ms);
        return (double)t->troubled_ms[t->n_troubled * 99 / 100];
}

/* Seconds in which fewer than 80 % of the checkouts that came were served, or in which they took
 * five times what they take on a calm database, about 2.2 ms. */
static uint32_t count_bad(const struct tally *t)
{
        uint32_t bad = 0;

        for (int i = TROUBLE_NS / S; i < LAST_NS / S; i++)
                bad += t->served[i] < 0.8 * t->arrived[i] ||
                       t->latency_ns[i] > 5 * 2.2 * (double)MS * t->served[i];
        return bad;
}

static void see_outcome(const struct sim *s, struct outcome *ret)
{
        const struct tally *t = &s->loads[CHECKOUT].tally;
        double arrived = 0, served = 0;

        *ret = (struct outcome){.p99_ms = p99_of(t), .bad = count_bad(t)};
        for (int i = TROUBLE_NS / S; i < END_NS / S; i++) {
                arrived += t->arrived[i];
                served += t->served[i];
        }
        ret->served = 100 * fmin(1, served / arrived);
        for (int i = 0; i < TIERS; i++) {
                ret->stop_s[i] = (double)s->stop_ns[i] / S;
                ret->longest_s[i] = (double)s->longest_ns[i] / S;
        }
        for (size_t i = 0; i < s->n_loads; i++) {
                ret->held[i] = s->loads[i].tally.held;
                ret->refused[i] = s->loads[i].tally.refused;
                ret->ends[i] = s->loads[i].tally.ends;
        }
        if (s->n_loads <= 2)
                return;
        const struct tally *crowd = &s->loads[2].tally;
        for (int i = TROUBLE_NS / S; i < RELIEF_NS / S; i++)
                ret->crowd_rate += crowd->served[i] / ((double)(RELIEF_NS - TROUBLE_NS) / S);
}

static struct outcome play(const struct scenario *c, const struct setting *set, bool has_gate)
{
        static struct sim s;
        struct plan app[2];
        struct outcome o;

        playing = c;
        plan_app(app, c, set);
        sim_init(&s, set->cores, c->lead_ns, set->sample_ns);
        s.db.thrashes = !c->has_no_thrash;
        s.backoff_ns = set->backoff_ns;
        s.trouble_from_ns = SIM_START + TROUBLE_NS;
        s.trouble_to_ns = SIM_START + RELIEF_NS;
        s.false_value = c->false_value;
        s.false_ns = c->false_ns;
        for (int i = 0; i < 2; i++)
                sim_add(&s, &app[i], set->seed);
        if (c->crowd)
                add_scaled(&s, c->crowd, set);
        if (c->beside)
                add_scaled(&s, c->beside, set);
        timer_set(&s, &trouble, SIM_START + TROUBLE_NS, begin_trouble);
        if (has_gate) {
                sim_guard(&s, set->seed);
                if (set->learned > 0)
                        teach(&s, c, set);
        }
        sim_run(&s, SIM_START + END_NS);
        see_outcome(&s, &o);
        sim_release(&s);
        return o;
}

static void print_outcomes(const struct scenario *c, const struct setting *set,
                           const struct outcome *without, const struct outcome *with)
{
        char run[32];

        (void)snprintf(run, sizeof(run), "%.0f cores %.2f s x%.2g%s", set->cores,
                       (double)set->sample_ns / S, set->learned, set->backoff_ns ? "" : " !");
        (void)printf("%-24s %-22s %5.1f%% %6.0f ms %2u bad | %5.1f%% %6.0f ms %2u bad "
                     "| stop %4.2f %4.2f %4.2f s | crowd %6.1f/s | held %6llu %6llu %5llu "
                     "| refused %4llu %4llu %4llu\n",
                     c->name, run, without->served, without->p99_ms, without->bad, with->served,
                     with->p99_ms, with->bad, with->stop_s[TIER_HIGH], with->stop_s[TIER_NORMAL],
                     with->stop_s[TIER_DEFERRABLE], with->crowd_rate,
                     (unsigned long long)with->held[0], (unsigned long long)with->held[1],
                     (unsigned long long)with->held[2], (unsigned long long)with->refused[0],
                     (unsigned long long)with->refused[1], (unsigned long long)with->refused[2]);
        (void)fflush(stdout);
}

/* ---- what is promised ---- */

static const struct scenario calm = {"calm, batch beside", .crowd = &batch};

static double calm_p99_ms(const struct setting *set)
{
        static double cores, p99_ms;
        static uint64_t seed;

        if (cores != set->cores || seed != set->seed) {
                cores = set->cores;
                seed = set->seed;
                p99_ms = play(&calm, set, false).p99_ms;
        }
        return p99_ms;
}

/* What the gate owes in each scenario. */
static struct outcome play_checked(const struct scenario *c, const struct setting *set,
                                   struct outcome *ret_without)
{
        struct outcome o = play(c, set, true);

        if (ret_without || dice_env("WEIR_SIM_TABLE", 0)) {
                struct outcome without = play(c, set, false);
                if (dice_env("WEIR_SIM_TABLE", 0))
                        print_outcomes(c, set, &without, &o);
                if (ret_without)
                        *ret_without = without;
                if (o.served < without.served - 3)
                        fail_msg("%s: %.1f %% served, without a gate %.1f %%", c->name, o.served,
                                 without.served);
        }
        for (int i = 0; i < TIERS; i++) {
                if (o.stop_s[i] > 2 + o.longest_s[i])
                        fail_msg("%s: tier %s stood for %.2f s", c->name, tier_name((enum tier)i),
                                 o.stop_s[i]);
        }
        return o;
}

/* ... and where the application has to stay well: all are served, and 99 % within so many times
 * what it takes on a calm database. */
static void stays_well(const struct scenario *c, const struct setting *set, double times)
{
        struct outcome o = play_checked(c, set, NULL);
        double most_ms = times * calm_p99_ms(set);

        if (o.served < 99 || o.p99_ms > most_ms)
                fail_msg("%s, %.0f cores, samples of %.2f s, learned x%.2g: %.2f %% served, "
                         "99 %% within %.0f ms; it should be %.0f",
                         c->name, set->cores, (double)set->sample_ns / S, set->learned, o.served,
                         o.p99_ms, most_ms);
}

static const struct scenario rows[] = {
        {"metric spike 1.5 s", .false_value = 100, .false_ns = 3 * S / 2},
        {"metric stuck 30 s", .false_value = 100, .false_ns = 30 * S},
        {"rogue", .crowd = &rogue},
        {"40 idle, rogue", .crowd = &rogue, .beside = &idle, .held_open = 40},
        {"16 bulk writers", .crowd = &bulk},
        {"64 reports", .crowd = &reports},
        {"app direct, rogue", .crowd = &rogue, .is_direct = true},
        {"rogue of tier normal", .crowd = &rogue_normal},
#define LARGE_ROWS 8 /* those before are played at 32 cores, too */
        {"rogue of tier high", .crowd = &rogue_high},
        {"checkout high, rogue", .crowd = &rogue, .tier = TIER_HIGH},
        {"checkout critical, rogue", .crowd = &rogue, .is_critical = true},
        {"new scans in checkout", .crowd = &scans, .lead_ns = 700 * S},
};

static struct setting new_setting(double cores, uint64_t seed)
{
        return (struct setting){
                .cores = cores, .sample_ns = S, .backoff_ns = S, .learned = 1, .seed = seed};
}

#define WELL 5

static void play_rows(uint64_t seed)
{
        struct setting small = new_setting(4, seed), large = new_setting(32, seed);

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                stays_well(&rows[i], &small, WELL);
                if (i < LARGE_ROWS)
                        stays_well(&rows[i], &large, WELL);
        }
}

static void whatever_comes_beside_it_the_application_stays_well(void **state)
{
        (void)state;
        dice_play(1, play_rows);
}

static void play_variants(uint64_t seed)
{
        struct setting often = new_setting(4, seed), at_once = often;

        often.sample_ns = 250 * MS;
        at_once.backoff_ns = 0;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                stays_well(&rows[i], &often, WELL);
                stays_well(&rows[i], &at_once, WELL);
        }
}

static void neither_frequent_samples_nor_eager_clients_change_that(void **state)
{
        (void)state;
        dice_play(1, play_variants);
}

/* Three times too much lets bulk writers in for a while: up to a second, says the page.  Then an
 * application that goes around the gate is slow, but it would be without the gate. */
static void play_wrong(uint64_t seed)
{
        static const struct scenario wrong[] = {
                {"rogue", .crowd = &rogue},
                {"16 bulk writers", .crowd = &bulk},
                {"app direct, rogue", .crowd = &rogue, .is_direct = true},
        };

        for (int i = 0; i < 4; i++) {
                struct setting set = new_setting(i < 2 ? 4 : 32, seed);
                set.learned = i % 2 ? 3 : 1.0 / 3;
                stays_well(&calm, &set, WELL);
                for (size_t k = 0; k < ARRAY_LEN(wrong); k++) {
                        struct outcome without;
                        if (set.learned > 1 && wrong[k].is_direct)
                                (void)play_checked(&wrong[k], &set, &without);
                        else
                                stays_well(&wrong[k], &set, set.learned > 1 ? 100 : WELL);
                }
        }
}

static void what_was_learned_may_be_wrong(void **state)
{
        (void)state;
        dice_play(1, play_wrong);
}

static void play_trouble(uint64_t seed)
{
        enum { LARGE_TROUBLES = 5 }; /* those before are played at 32 cores, too */
        static const struct scenario troubles[] = {
                {"24 outside threads", .outside = 24},
                {"checkout x10", .surge = 10},
                {"database at 15 %, 20 s", .speed = 0.15},
                {"deploy: checkout 5x", .weight = 5},
                {"lock pile-up 10 s", .lock_ns = 10 * S},
                {"24 outside, no thrash", .outside = 24, .has_no_thrash = true},
                {"scans in checkout", .crowd = &scans, .beside = &rare_scans},
                {"scans, all is new", .crowd = &scans},
        };

        for (size_t i = 0; i < ARRAY_LEN(troubles); i++) {
                struct setting set = new_setting(4, seed);
                struct outcome without;
                (void)play_checked(&troubles[i], &set, &without);
                set = new_setting(32, seed);
                if (i < LARGE_TROUBLES)
                        (void)play_checked(&troubles[i], &set, &without);
        }
}

static void trouble_of_the_database_is_never_made_worse(void **state)
{
        (void)state;
        dice_play(1, play_trouble);
}

static bool is_near(double got, double want, double percent)
{
        return fabs(got - want) <= want * percent / 100;
}

static void play_calm(uint64_t seed)
{
        static const double cores[] = {4, 32};

        for (size_t i = 0; i < ARRAY_LEN(cores); i++) {
                struct setting set = new_setting(cores[i], seed);
                struct outcome without, o = play_checked(&calm, &set, &without);
                assert_true(o.held[CHECKOUT] + o.held[BACKGROUND] <=
                            (o.ends[CHECKOUT] + o.ends[BACKGROUND]) / 1000);
                assert_int_equal(o.ends[CHECKOUT], without.ends[CHECKOUT]);
                assert_int_equal(o.refused[CHECKOUT] + o.refused[BACKGROUND] + o.refused[CROWD], 0);
                assert_true(is_near(o.p99_ms, without.p99_ms, 5));
                if (!is_near(o.crowd_rate, without.crowd_rate, 1))
                        fail_msg("%.0f cores: batch %.1f a second, without a gate %.1f", cores[i],
                                 o.crowd_rate, without.crowd_rate);
        }
}

static void a_calm_database_does_not_notice_the_gate(void **state)
{
        (void)state;
        dice_play(1, play_calm);
}

/* One sample of any value: at most a second of the work of the batch, and of good service. */
static void play_spike(uint64_t seed)
{
        static const struct scenario spike = {"spike, batch beside", .crowd = &batch,
                                              .false_value = 100000, .false_ns = S};
        struct setting set = new_setting(4, seed);
        struct outcome without, o = play_checked(&spike, &set, &without);
        double seconds = (double)(RELIEF_NS - TROUBLE_NS) / S;

        assert_true(o.bad <= without.bad + 1);
        assert_true(o.crowd_rate * seconds >= without.crowd_rate * (seconds - 1));
        assert_true(is_near(o.p99_ms, without.p99_ms, 10));
}

static void a_single_sample_costs_a_second_at_most(void **state)
{
        (void)state;
        dice_play(1, play_spike);
}

static void play_cold(uint64_t seed)
{
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct setting set = new_setting(4, seed);
                struct scenario row = rows[i];
                struct outcome without;
                set.learned = 0;
                row.lead_ns = 0; /* in ten minutes it would learn */
                struct outcome o = play_checked(&row, &set, &without);
                for (int k = 0; k < SIM_LOADS; k++) {
                        assert_int_equal(o.held[k], 0);
                        assert_int_equal(o.ends[k], without.ends[k]);
                }
        }
}

static void before_something_was_learned_nothing_is_held(void **state)
{
        (void)state;
        dice_play(1, play_cold);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(whatever_comes_beside_it_the_application_stays_well),
                cmocka_unit_test(neither_frequent_samples_nor_eager_clients_change_that),
                cmocka_unit_test(what_was_learned_may_be_wrong),
                cmocka_unit_test(trouble_of_the_database_is_never_made_worse),
                cmocka_unit_test(a_calm_database_does_not_notice_the_gate),
                cmocka_unit_test(a_single_sample_costs_a_second_at_most),
                cmocka_unit_test(before_something_was_learned_nothing_is_held),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
