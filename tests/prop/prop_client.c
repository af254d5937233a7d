/* The table of those who ask, against tables that are as simple as can be.
 *
 * First thousands of identities that share parts, more than there is room for: the model has a row
 * for every possible name, finds the oldest by looking at all, and keeps a list of every ask to
 * count minutes from.  The wall clock jumps, by the law that minutes.h gives.  Then a few
 * identities that are granted and refused for hours, and a model of who is starved and by whom that
 * adds up the grants one by one. */
#include "../unit/check.h"

#include <stdio.h>
#include <string.h>

#include "base/civil.h"
#include "base/say.h"
#include "checks/client_int.h"
#include "dice.h"
#include "support/rig.h"

/* --- the table ----------------------------------------------------------------------------------
 */

#define PARTS   3000
#define MANY    9000 /* identities of two or three parts */
#define NAMES   (PARTS + MANY)
#define TARGETS 3
#define TRACKED 12 /* names whose minutes are compared: parts 0..11 */
#define PAST    60000
#define HOURS   15000   /* of minutes that are kept in all; fewer than they are made */
#define MADE    2000000 /* hours made in one run, at most */

struct row {
        bool is_whole;
        unsigned owners;
        uint64_t last; /* number of the ask that moved it to the end */
        int64_t mark;
        uint64_t granted[CLIENT_ROLES], refused[CLIENT_ROLES], observed[CLIENT_ROLES];
        int64_t second[TARGETS]; /* of its last ask there; -1: none */
};

struct past {
        size_t name;
        int64_t minute;
        bool is_granted;
};

struct hour {
        int64_t hour;
        size_t made; /* number of its making; 0: there is none */
};

struct model {
        struct row rows[NAMES];
        struct hour hours[NAMES][MINUTES_HOURS];
        struct hour *made_of[MADE]; /* in order of making */
        size_t n_made, n_hours, oldest_made;
        struct past past[PAST];
        size_t n_past, n_names;
        uint64_t n_asks, n_made_wholes, other_granted, other_refused;
};

/* Parts of the identity of that number, as numbers of names. */
static size_t parts_of(size_t name, size_t *ret)
{
        if (name < PARTS)
                return 0;
        ret[0] = name * 7 % PARTS;
        ret[1] = (name + name / PARTS * 5) % TRACKED;
        ret[2] = name * 13 % 100;
        if (ret[1] == ret[0])
                ret[1] = (ret[0] + 1) % PARTS;
        return name % 3 && ret[2] != ret[0] && ret[2] != ret[1] ? 3 : 2;
}

static void name_text(size_t name, char *ret, size_t size)
{
        size_t parts[3], n = parts_of(name, parts);
        if (!n)
                (void)snprintf(ret, size, "p%zu", name);
        else if (n == 2)
                (void)snprintf(ret, size, "p%zu:p%zu", parts[0], parts[1]);
        else
                (void)snprintf(ret, size, "p%zu:p%zu:p%zu", parts[0], parts[1], parts[2]);
}

static bool is_there(const struct row *r)
{
        return r->is_whole || r->owners;
}

/* Different numbers may have the same text; only the first of them asks. */
static bool is_first(size_t name)
{
        size_t a[3], b[3], n = parts_of(name, a);
        for (size_t k = PARTS; n && k < name; k++)
                if (parts_of(k, b) == n && !memcmp(a, b, n * sizeof(*a)))
                        return false;
        return true;
}

static void forget_hour(struct model *m, struct hour *h)
{
        size_t name = (size_t)(h - m->hours[0]) / MINUTES_HOURS, n = 0;
        if (!h->made)
                return;
        for (size_t i = 0; name < TRACKED && i < m->n_past; i++)
                if (m->past[i].name != name || floor_div(m->past[i].minute, 60) != h->hour)
                        m->past[n++] = m->past[i];
        if (name < TRACKED)
                m->n_past = n;
        h->made = 0;
        m->n_hours--;
}

/* An hour takes the place of another that is a multiple of 25 h away, and when there are too many
 * that of the one made first. */
static void make_hour(struct model *m, size_t name, int64_t hour)
{
        struct hour *h = &m->hours[name][floor_mod(hour, MINUTES_HOURS)];
        if (h->made && h->hour == hour)
                return;
        forget_hour(m, h);
        while (m->n_hours == HOURS) {
                struct hour *oldest = m->made_of[++m->oldest_made];
                if (oldest->made == m->oldest_made)
                        forget_hour(m, oldest);
        }
        assert_true(m->n_made < MADE - 1);
        *h = (struct hour){hour, ++m->n_made};
        m->made_of[h->made] = h;
        m->n_hours++;
}

static void forget_if_gone(struct model *m, size_t name)
{
        struct row *r = &m->rows[name];
        if (is_there(r))
                return;
        m->n_names--;
        *r = (struct row){.second = {-1, -1, -1}};
        for (size_t i = 0; i < MINUTES_HOURS; i++)
                forget_hour(m, &m->hours[name][i]);
}

static void drop_oldest(struct model *m)
{
        size_t oldest = NAMES, parts[3];
        for (size_t i = 0; i < NAMES; i++)
                if (m->rows[i].is_whole &&
                    (oldest == NAMES || m->rows[i].last < m->rows[oldest].last))
                        oldest = i;
        struct row *r = &m->rows[oldest];
        m->other_granted += r->granted[AS_WHOLE];
        m->other_refused += r->refused[AS_WHOLE];
        r->granted[AS_PART] += r->granted[AS_WHOLE];
        r->refused[AS_PART] += r->refused[AS_WHOLE];
        r->observed[AS_PART] += r->observed[AS_WHOLE];
        r->granted[AS_WHOLE] = r->refused[AS_WHOLE] = r->observed[AS_WHOLE] = 0;
        r->is_whole = false;
        for (size_t t = 0; t < TARGETS; t++)
                r->second[t] = -1;
        for (size_t n = parts_of(oldest, parts); n--;) {
                m->rows[parts[n]].owners--;
                forget_if_gone(m, parts[n]);
        }
        forget_if_gone(m, oldest);
}

static void model_enter(struct model *m, size_t name)
{
        size_t parts[3], n = parts_of(name, parts);
        if (m->rows[name].is_whole)
                return;
        for (;;) {
                size_t missing = !is_there(&m->rows[name]);
                for (size_t i = 0; i < n; i++)
                        missing += !is_there(&m->rows[parts[i]]);
                if (m->n_names + missing <= LIMIT_CLIENTS) {
                        m->n_names += missing;
                        break;
                }
                drop_oldest(m);
        }
        m->rows[name].is_whole = true;
        for (size_t i = 0; i < n; i++)
                m->rows[parts[i]].owners++;
}

static void model_count(struct model *m, size_t name, enum client_role role,
                        const struct check_verdict *v, int64_t minute)
{
        struct row *r = &m->rows[name];
        r->granted[role] += v->is_granted;
        r->refused[role] += !v->is_granted;
        r->observed[role] += v->is_granted && v->would_refuse;
        make_hour(m, name, floor_div(minute, 60));
        if (name < TRACKED)
                m->past[m->n_past++] = (struct past){name, minute, v->is_granted};
}

static void ask(struct rig *rig, struct model *m, size_t name, uint8_t target, struct rng *dice)
{
        struct check_verdict v = {.is_granted = rng_below(dice, 2),
                                  .would_refuse = rng_below(dice, 2),
                                  .reason = CHECK_RATIO,
                                  .would_reason = CHECK_HOLD};
        struct client_count count = {.verdict = &v, .target = target, .metric = 255};
        int64_t minute = floor_div(rig->now.wall_ms, 60000);
        size_t parts[3];
        char text[64];
        struct identity who;
        name_text(name, text, sizeof(text));
        assert_int_equal(identity_parse(slice_str(text), &who, NULL), OK);
        client_count(rig->core, client_get(rig->core, &who), &count);

        bool is_new = !m->rows[name].is_whole;
        model_enter(m, name);
        int64_t second = rig->now.steady_ns / NS_PER_S;
        m->n_asks++;
        int64_t mark = second * 256 + (int64_t)(m->n_made_wholes / CLIENT_MADE % 256);
        if (m->rows[name].mark != mark || is_new)
                m->rows[name].last = m->n_asks;
        m->rows[name].mark = mark;
        m->n_made_wholes += is_new;
        m->rows[name].second[target] = second;
        model_count(m, name, AS_WHOLE, &v, minute);
        for (size_t n = parts_of(name, parts); n--;)
                model_count(m, parts[n], AS_PART, &v, minute);
}

static const struct client *find(const struct rig *rig, size_t name)
{
        char text[64];
        name_text(name, text, sizeof(text));
        struct hash_node *n = hash_find(&rig->core->clients->names, slice_str(text));
        return n ? CONTAINER_OF(n, const struct client, node) : NULL;
}

static void compare_row(const struct rig *rig, const struct model *m, size_t name)
{
        const struct row *r = &m->rows[name];
        const struct client *e = find(rig, name);
        assert_int_equal(e != NULL, is_there(r));
        if (!e)
                return;
        assert_int_equal(e->is_whole, r->is_whole);
        assert_int_equal(e->n_owners, r->owners);
        for (size_t i = 0; i < CLIENT_ROLES; i++) {
                assert_int_equal(e->total[i].granted, r->granted[i]);
                assert_int_equal(e->total[i].refused, r->refused[i]);
                assert_int_equal(e->total[i].observed, r->observed[i]);
                assert_int_equal(e->total[i].by_reason[CHECK_RATIO], r->refused[i]);
        }
}

static void compare_minute(const struct rig *rig, const struct model *m, size_t name,
                           int64_t minute)
{
        const struct client *e = find(rig, name);
        const struct client_minute *cell = e ? minutes_peek(&e->minutes, minute) : NULL;
        uint64_t granted = 0, refused = 0;
        for (size_t i = 0; i < m->n_past; i++) {
                if (m->past[i].name != name || m->past[i].minute != minute)
                        continue;
                granted += m->past[i].is_granted;
                refused += !m->past[i].is_granted;
        }
        assert_int_equal(cell ? cell->granted : 0, granted);
        assert_int_equal(cell ? cell->refused : 0, refused);
}

static void compare(const struct rig *rig, const struct model *m)
{
        const struct clients *c = rig->core->clients;
        int64_t second = rig->now.steady_ns / NS_PER_S;
        clients_check(c);
        assert_int_equal(c->minutes.n, m->n_hours);
        assert_int_equal(c->names.len, m->n_names);
        assert_int_equal(c->other.granted, m->other_granted);
        assert_int_equal(c->other.refused, m->other_refused);
        for (size_t t = 0; t < TARGETS; t++) {
                size_t n = 0;
                for (size_t i = 0; i < NAMES; i++) {
                        int64_t last = m->rows[i].second[t];
                        n += last >= 0 && second - last <= CLIENT_ACTIVE_S;
                }
                assert_int_equal(clients_active(rig->core, (uint8_t)t), n ? n : 1);
        }
}

static void pass(struct rig *rig, struct rng *dice)
{
        if (rng_below(dice, 50) == 0)
                rig->now.wall_ms += (int64_t)rng_below(dice, 60 * 3600000LL) - 30 * 3600000LL;
        rig_pass_ms(rig, (int64_t)rng_below(dice, rng_below(dice, 20) ? 100 : 900000));
}

static void the_table_does_what_a_simple_one_does(void **state)
{
        struct rng dice;
        struct rig rig;
        struct model *m = calloc(1, sizeof(*m));
        size_t *names = calloc(NAMES, sizeof(*names)), n = 0;
        (void)state;
        assert_non_null(m);
        assert_non_null(names);
        dice_init(&dice, "clients");
        rig_init(&rig);
        rig.core->clients->minutes.max = HOURS;
        for (size_t i = 0; i < NAMES; i++) {
                m->rows[i] = (struct row){.second = {-1, -1, -1}};
                if (is_first(i))
                        names[n++] = i;
        }
        uint64_t rounds = dice_rounds(30000);
        for (uint64_t i = 0; i < rounds; i++) {
                size_t few = rng_below(&dice, 4) ? n : TRACKED;
                ask(&rig, m, names[rng_below(&dice, few)], (uint8_t)rng_below(&dice, TARGETS),
                    &dice);
                compare_row(&rig, m, names[rng_below(&dice, n)]);
                if (rng_below(&dice, 10) == 0)
                        pass(&rig, &dice);
                if (rng_below(&dice, 400) == 0)
                        compare(&rig, m);
                if (rng_below(&dice, 100) == 0 && m->n_past)
                        compare_minute(&rig, m, rng_below(&dice, TRACKED),
                                       m->past[rng_below(&dice, m->n_past)].minute);
                if (m->n_past > PAST - 10 || m->n_made > MADE - 10)
                        break;
        }
        assert_true(m->n_made > HOURS);
        for (size_t i = 0; i < n; i++)
                compare_row(&rig, m, names[i]);
        compare(&rig, m);
        assert_true(m->other_granted > 0); /* there was no room for all */
        rig_release(&rig);
        free(names);
        free(m);
}

/* --- the starved --------------------------------------------------------------------------------
 */

#define FEW    6 /* fewer than are searched for in one turn */
#define GRANTS 400000

struct asker {
        bool is_starved, has_asked;
        uint64_t streak;
        int64_t since_ns, asked_ns;
        uint8_t target;
};

struct grant {
        uint8_t who, target;
        int64_t ns;
};

struct watch {
        struct asker askers[FEW];
        struct grant *grants;
        size_t n_grants;
        int64_t turned_ns;
};

static struct client *asker_of(struct rig *rig, size_t i)
{
        char name[8];
        struct identity who;
        (void)snprintf(name, sizeof(name), "a%zu:x", i);
        assert_int_equal(identity_parse(slice_str(name), &who, NULL), OK);
        return client_get(rig->core, &who);
}

static void ask_again(struct rig *rig, struct watch *w, size_t i, bool is_granted, uint8_t target)
{
        struct check_verdict v = {.is_granted = is_granted, .reason = CHECK_HOLD};
        struct client_count count = {.verdict = &v, .target = target, .metric = 255};
        struct asker *a = &w->askers[i];
        int64_t now_ns = rig->now.steady_ns;
        client_count(rig->core, asker_of(rig, i), &count);
        if (!a->has_asked || now_ns - a->asked_ns > STARVED_QUIET_NS) {
                a->streak = 0;
                a->is_starved = false;
        }
        a->has_asked = true;
        a->asked_ns = now_ns;
        a->target = target;
        if (!is_granted) {
                if (!a->streak++)
                        a->since_ns = now_ns;
                return;
        }
        a->streak = 0;
        a->is_starved = false;
        assert_true(w->n_grants < GRANTS);
        w->grants[w->n_grants++] = (struct grant){(uint8_t)i, target, now_ns};
}

static void watch_turn(struct rig *rig, struct watch *w, int64_t starved_ns)
{
        for (size_t i = 0; i < FEW; i++) {
                struct asker *a = &w->askers[i];
                int64_t quiet_ns = rig->now.steady_ns - a->asked_ns;
                if (a->is_starved && quiet_ns > STARVED_QUIET_NS)
                        a->is_starved = false;
                else if (a->has_asked && a->streak >= STARVED_ASKS &&
                         rig->now.steady_ns - a->since_ns > starved_ns &&
                         quiet_ns <= STARVED_ASKED_NS &&
                         (quiet_ns <= starved_ns / 2 || quiet_ns <= STARVED_LEAST_NS))
                        a->is_starved = true;
        }
}

static void compare_starver(struct rig *rig, const struct watch *w, size_t i, int64_t span_ns)
{
        const struct asker *a = &w->askers[i];
        uint64_t sums[FEW] = {0}, most = 0;
        int64_t now = rig->now.steady_ns / span_ns, from = a->since_ns / span_ns + 1;
        struct starver memo = {0};
        for (size_t k = 0; k < w->n_grants; k++) {
                int64_t span = w->grants[k].ns / span_ns;
                bool is_within = (span >= from || (from > now && span == now)) &&
                                 span > now - CLIENT_GRANT_SPAN;
                if (is_within && w->grants[k].target == a->target && w->grants[k].who != i)
                        sums[w->grants[k].who]++;
        }
        for (size_t k = 0; k < FEW; k++)
                if (sums[k] > most)
                        most = sums[k];
        client_starver(rig->core, asker_of(rig, i), &memo);
        assert_int_equal(memo.grants, most);
        assert_int_equal(memo.who != NULL, most > 0);
}

static void the_starved_and_the_starver_are_those_of_a_simple_watch(void **state)
{
        struct rng dice;
        struct rig rig;
        struct watch w = {.grants = calloc(GRANTS, sizeof(struct grant))};
        unsigned luck[FEW] = {0};
        size_t n_starved = 0;
        (void)state;
        assert_non_null(w.grants);
        dice_init(&dice, "starved");
        rig_init(&rig);
        rig.core->checks.starved_ms = 20000;
        for (size_t i = 0; i < FEW; i++)
                ask_again(&rig, &w, i, true, 0);
        for (uint64_t s = 0; s < 20000; s++) {
                if (rng_below(&dice, 40) == 0) /* out of 100; for somebody else's: quiet */
                        luck[rng_below(&dice, FEW)] = (unsigned)rng_below(&dice, 3) * 55;
                for (size_t i = 0; i < FEW; i++)
                        if (rng_below(&dice, 100) < (i ? 60 : 10) && luck[i] < 110)
                                ask_again(&rig, &w, i, rng_below(&dice, 100) < luck[i],
                                          (uint8_t)rng_below(&dice, 20) == 0);
                rig_pass_ms(&rig, 1000);
                watch_turn(&rig, &w, 20 * NS_PER_S);
                size_t n = 0;
                for (size_t i = 0; i < FEW; i++) {
                        n += w.askers[i].is_starved;
                        assert_int_equal(asker_of(&rig, i)->is_starved, w.askers[i].is_starved);
                }
                assert_int_equal(clients_starved(rig.core), n);
                n_starved += n;
                size_t one = rng_below(&dice, FEW);
                if (s % 50 < 10 && w.askers[one].streak) /* else nobody starves it */
                        compare_starver(&rig, &w, one, 2 * NS_PER_S);
        }
        assert_true(n_starved > 0);
        rig_release(&rig);
        free(w.grants);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_table_does_what_a_simple_one_does),
                cmocka_unit_test(the_starved_and_the_starver_are_those_of_a_simple_watch),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
