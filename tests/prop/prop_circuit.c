/* Circuit breakers under 256 clients that ask, answer late, answer wrongly, give up and die.
 *
 * The world remembers what it saw, not what the circuit keeps: how many closes lay before each ask
 * (instead of comparing ids), every note since the last close (instead of slots that are counted),
 * and when the last failure opened it.  A twin is woken by its timer at each moment it names, while
 * the circuit itself is only looked at when a client comes: both must stay the same to the byte. */
#include "../unit/check.h"

#include "base/bytes.h"
#include "dice.h"
#include "state/circuit.h"

#define CLIENTS 256
#define STEPS   20000 /* of one circuit, at most */
#define NOTES   STEPS

struct client {
        uint64_t ask_id; /* 0 = idle */
        uint64_t closes; /* seen before the ask */
};

struct past {
        int64_t at_ns;
        bool is_ok;
};

struct world {
        struct rng dice;
        struct circuit circuit, twin;
        struct buf bytes, other;
        struct client clients[CLIENTS];
        int64_t now_ns;
        uint64_t next_id, closes;
        unsigned health; /* percent of good answers */
        /* What is expected, from what was seen. */
        enum circuit_state state;
        bool is_held;
        int64_t until_ns, cool_ms;
        uint64_t probe_id;
        struct client *prober; /* who asked last for a probe */
        uint32_t in_a_row;
        struct past notes[NOTES]; /* since the last close */
        size_t n_notes;
        /* How much of everything there was, so that the test cannot run dry unseen. */
        uint64_t seen_trips, seen_probes, seen_deaths, seen_closes, seen_stale;
};

/* --- what should be --------------------------------------------------------------------------- */

static void expect_open(struct world *w, int64_t at_ns, int64_t cool_ms)
{
        w->state = CIRCUIT_OPEN;
        w->is_held = false;
        w->cool_ms = cool_ms;
        w->until_ns = at_ns + cool_ms * NS_PER_MS;
        w->probe_id = 0;
}

static void expect_closed(struct world *w)
{
        w->state = CIRCUIT_CLOSED;
        w->is_held = false;
        w->probe_id = 0;
        w->in_a_row = 0;
        w->n_notes = 0;
        w->closes++;
        w->seen_closes++;
}

static int64_t doubled(const struct world *w)
{
        int64_t max = w->circuit.rule.cool_max_ms;
        return w->cool_ms * 2 < max ? w->cool_ms * 2 : max;
}

static void time_passes(struct world *w)
{
        if (w->state == CIRCUIT_HALF_OPEN && w->probe_id && w->now_ns >= w->until_ns) {
                expect_open(w, w->until_ns, doubled(w));
                w->seen_deaths++;
        }
        if (w->state == CIRCUIT_OPEN && !w->is_held && w->now_ns >= w->until_ns)
                w->state = CIRCUIT_HALF_OPEN;
}

static bool is_rate_over(const struct world *w)
{
        const struct circuit_rule *r = &w->circuit.rule;
        int64_t slot_ns = r->rate_window_ms * NS_PER_MS / CIRCUIT_SLOTS;
        uint64_t bad = 0, all = 0;

        if (!r->rate_percent)
                return false;
        for (size_t i = w->n_notes; i-- > 0;) {
                if (w->now_ns / slot_ns - w->notes[i].at_ns / slot_ns >= CIRCUIT_SLOTS)
                        break;
                all++;
                bad += !w->notes[i].is_ok;
        }
        return all >= r->rate_min && bad * 100 >= all * r->rate_percent;
}

/* A note of an ask that came after the last close, while closed. */
static void expect_note(struct world *w, bool is_ok)
{
        w->notes[w->n_notes++] = (struct past){w->now_ns, is_ok};
        w->in_a_row = is_ok ? 0 : w->in_a_row + 1;
        if (is_ok)
                return;
        if ((w->circuit.rule.failures && w->in_a_row >= w->circuit.rule.failures) ||
            is_rate_over(w)) {
                expect_open(w, w->now_ns, w->circuit.rule.cool_ms);
                w->seen_trips++;
        }
}

/* --- what is ---------------------------------------------------------------------------------- */

static void compare(struct world *w, enum circuit_state before, bool changed)
{
        circuit_check(&w->circuit);
        assert_int_equal(w->circuit.state, w->state);
        assert_true(w->circuit.probe_id == w->probe_id);
        assert_int_equal(w->circuit.is_held, w->is_held);
        if (before != w->state)
                assert_true(changed);
        if (circuit_next_ns(&w->circuit) != CIRCUIT_NEVER)
                assert_true(circuit_next_ns(&w->circuit) == w->until_ns);
        buf_clear(&w->bytes);
        buf_clear(&w->other);
        circuit_pack(&w->circuit, &w->bytes);
        circuit_pack(&w->twin, &w->other);
        assert_int_equal(w->bytes.len, w->other.len);
        assert_memory_equal(w->bytes.ptr, w->other.ptr, w->bytes.len);
}

static void reread(struct world *w)
{
        buf_clear(&w->bytes);
        circuit_pack(&w->circuit, &w->bytes);
        buf_put_byte(&w->bytes, '!');
        struct slice s = buf_slice(&w->bytes);
        memset(&w->circuit, 0xa5, sizeof(w->circuit));
        assert_true(circuit_unpack(&w->circuit, &s));
        assert_int_equal(s.len, 1);
}

static void twin_wakes(struct world *w)
{
        for (int64_t at; at = circuit_next_ns(&w->twin), at <= w->now_ns;)
                assert_true(circuit_expire(&w->twin, at));
}

static void ask(struct world *w, struct client *c)
{
        uint64_t id = w->next_id += 1 + rng_below(&w->dice, 3);
        enum circuit_state before = w->circuit.state;
        bool changed;

        time_passes(w);
        int64_t wait = circuit_wait(&w->circuit, w->now_ns);
        enum circuit_verdict verdict = circuit_ask(&w->circuit, w->now_ns, id, &changed);
        assert_int_equal(circuit_ask(&w->twin, w->now_ns, id, NULL), verdict);
        assert_int_equal(wait == 0, verdict != CIRCUIT_REFUSED);
        if (w->state == CIRCUIT_CLOSED) {
                assert_int_equal(verdict, CIRCUIT_PASS);
        } else if (w->state == CIRCUIT_OPEN || w->probe_id) {
                assert_int_equal(verdict, CIRCUIT_REFUSED);
        } else {
                assert_int_equal(verdict, CIRCUIT_PROBE);
                w->probe_id = id;
                w->until_ns = w->now_ns + w->circuit.rule.probe_ms * NS_PER_MS;
                w->seen_probes++;
                w->prober = c;
        }
        if (verdict != CIRCUIT_REFUSED)
                *c = (struct client){id, w->closes};
        compare(w, before, changed);
}

static void answer(struct world *w, struct client *c)
{
        bool is_ok = rng_below(&w->dice, 100) < w->health;
        enum circuit_state before = w->circuit.state;

        time_passes(w);
        bool is_probe = w->probe_id && c->ask_id == w->probe_id;
        if (w->state == CIRCUIT_CLOSED && c->closes == w->closes)
                expect_note(w, is_ok);
        else if (is_probe && is_ok)
                expect_closed(w);
        else if (is_probe)
                expect_open(w, w->now_ns, doubled(w));
        else
                w->seen_stale++;
        bool changed = circuit_note(&w->circuit, w->now_ns, is_ok, c->ask_id);
        (void)circuit_note(&w->twin, w->now_ns, is_ok, c->ask_id); /* compared below */
        compare(w, before, changed);
        c->ask_id = 0;
}

static void give_up(struct world *w, struct client *c)
{
        enum circuit_state before = w->circuit.state;

        time_passes(w);
        if (c->ask_id == w->probe_id)
                w->probe_id = 0;
        bool changed = circuit_cancel(&w->circuit, w->now_ns, c->ask_id);
        (void)circuit_cancel(&w->twin, w->now_ns, c->ask_id); /* compared below */
        compare(w, before, changed);
        c->ask_id = 0;
}

static void force(struct world *w)
{
        enum circuit_force what = (enum circuit_force)rng_below(&w->dice, 3);
        enum circuit_state before = w->circuit.state;
        bool was_held = w->is_held;

        time_passes(w);
        if (what == CIRCUIT_FORCE_CLOSE) {
                expect_closed(w);
        } else {
                expect_open(w, w->now_ns, w->circuit.rule.cool_ms);
                w->is_held = what == CIRCUIT_FORCE_HOLD;
        }
        bool changed = circuit_force(&w->circuit, w->now_ns, what);
        (void)circuit_force(&w->twin, w->now_ns, what); /* compared below */
        assert_int_equal(changed, before != w->state || was_held != w->is_held);
        compare(w, before, changed);
        if (w->is_held) { /* or nothing more would happen here */
                assert_true(circuit_wait(&w->circuit, w->now_ns) == CIRCUIT_NEVER);
                assert_true(circuit_force(&w->circuit, w->now_ns, CIRCUIT_FORCE_CLOSE));
                assert_true(circuit_force(&w->twin, w->now_ns, CIRCUIT_FORCE_CLOSE));
                expect_closed(w);
        }
}

/* Short steps while closed, so that much happens in a window; up to the next event else. */
static void pass_time(struct world *w)
{
        uint64_t dice = rng_below(&w->dice, 64);
        int64_t next = circuit_next_ns(&w->circuit);

        if (dice < 16)
                return;
        if (dice < 18 && next != CIRCUIT_NEVER && next > w->now_ns)
                w->now_ns = next - (int64_t)rng_below(&w->dice, 2);
        else if (dice == 18)
                w->now_ns += (int64_t)rng_below(&w->dice, 200000) * NS_PER_MS;
        else
                w->now_ns += (int64_t)rng_below(&w->dice, 400 * NS_PER_MS);
}

static void step(struct world *w)
{
        struct client *c = &w->clients[rng_below(&w->dice, CLIENTS)];
        if (w->prober && rng_below(&w->dice, 32) == 0)
                c = w->prober; /* or most would die before their turn */
        uint64_t dice = rng_below(&w->dice, 1024);

        pass_time(w);
        twin_wakes(w);
        if (dice % 16 == 0)
                reread(w);
        if (dice == 1)
                force(w);
        else if (dice < 16)
                w->health = (unsigned)rng_below(&w->dice, 4) * 33 + 1;
        else if (!c->ask_id)
                ask(w, c);
        else if (dice < 64)
                c->ask_id = 0; /* killed: nobody will ever hear of it */
        else if (dice < 96)
                give_up(w, c);
        else
                answer(w, c);
}

static struct circuit_rule any_rule(struct world *w)
{
        struct circuit_rule r = circuit_rule_default();
        uint64_t dice = rng_below(&w->dice, 4);

        r.failures = dice == 0 ? 0 : 1 + (uint32_t)rng_below(&w->dice, 8);
        if (dice < 2) {
                r.rate_percent = 1 + (uint32_t)rng_below(&w->dice, 100);
                r.rate_min = 1 + (uint32_t)rng_below(&w->dice, 50);
                r.rate_window_ms = CIRCUIT_SLOTS + (int64_t)rng_below(&w->dice, 100000);
        }
        if (rng_below(&w->dice, 2)) {
                r.cool_ms = 1 + (int64_t)rng_below(&w->dice, 10000);
                r.cool_max_ms = r.cool_ms + (int64_t)rng_below(&w->dice, 100000);
                r.probe_ms = 1 + (int64_t)rng_below(&w->dice, 5000);
        }
        return r;
}

static void episode(struct world *w)
{
        struct circuit_rule rule = any_rule(w);

        w->now_ns = (int64_t)rng_below(&w->dice, 1000000000000000000ULL);
        circuit_init(&w->circuit, &rule, w->now_ns);
        circuit_init(&w->twin, &rule, w->now_ns);
        memset(w->clients, 0, sizeof(w->clients));
        w->next_id = 0;
        w->health = 50;
        w->prober = NULL;
        expect_closed(w);
        for (uint64_t n = rng_below(&w->dice, STEPS); n > 0; n--)
                step(w);
}

static void a_circuit_keeps_its_word_to_256_clients_at_once(void **state)
{
        static struct world w;

        (void)state;
        dice_init(&w.dice, "circuit");
        buf_init(&w.bytes, 0);
        buf_init(&w.other, 0);
        for (uint64_t n = dice_rounds(50); n > 0; n--)
                episode(&w);
        buf_release(&w.bytes);
        buf_release(&w.other);
        (void)printf("# %llu trips, %llu probes, %llu of them died, %llu closes, %llu stale\n",
                     (unsigned long long)w.seen_trips, (unsigned long long)w.seen_probes,
                     (unsigned long long)w.seen_deaths, (unsigned long long)w.seen_closes,
                     (unsigned long long)w.seen_stale);
        assert_true(w.seen_trips > 100 && w.seen_probes > 100 && w.seen_deaths > 100);
        assert_true(w.seen_closes > 100 && w.seen_stale > 100);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_circuit_keeps_its_word_to_256_clients_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
