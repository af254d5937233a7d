/* Circuit breakers.
 *
 * Time moves the state only in due(), one step at a call and at the moment it was due, so it makes
 * no difference how late or how often somebody looks: a circuit that nobody asked for an hour is in
 * the state it would be in had a timer run for it.  After a probe's deadline that is two steps,
 * half-open -> open -> half-open, since its cool-down may be over as well.
 *
 * The rate is counted in ten slots of a tenth of the window, aligned to steady time; the window
 * seen is therefore between nine and ten tenths of what was asked for.  The slots of a state that
 * has ended are cleared: a circuit that closes starts with a clean slate, or the failures that
 * opened it would open it again at the first one.
 *
 * Rejected: remembering each ask until it is noted.  That is memory a client decides on, and a
 * growing id tells the same: everything up to the last close is of the past. */
#include "state/circuit.h"

#include "base/bytes.h"

/* Of what is read: adding any duration of a rule to it must not overflow. */
#define TIME_MAX (INT64_MAX / 2)

struct circuit_rule circuit_rule_default(void)
{
        return (struct circuit_rule){
                .failures = CIRCUIT_FAILURES,
                .cool_ms = CIRCUIT_COOL_MS,
                .cool_max_ms = CIRCUIT_COOL_MAX_MS,
                .probe_ms = CIRCUIT_PROBE_MS,
        };
}

static int check_rate(const struct circuit_rule *rule, struct problem *problem)
{
        if (rule->rate_percent == 0)
                return OK;
        if (rule->rate_percent > 100)
                return problem_set(problem, ERR_BADARG, "the failure rate is 1 to 100 percent");
        if (rule->rate_min < 1 || rule->rate_min > CIRCUIT_COUNT_MAX)
                return problem_set(problem, ERR_BADARG,
                                   "the smallest volume for a failure rate is 1 to %u",
                                   CIRCUIT_COUNT_MAX);
        if (rule->rate_window_ms < CIRCUIT_SLOTS || rule->rate_window_ms > CIRCUIT_MS_MAX)
                return problem_set(problem, ERR_BADARG,
                                   "the window of a failure rate is %d ms to 31 days",
                                   CIRCUIT_SLOTS);
        return OK;
}

int circuit_rule_check(const struct circuit_rule *rule, struct problem *problem)
{
        if (rule->failures == 0 && rule->rate_percent == 0)
                return problem_set(problem, ERR_BADARG,
                                   "a breaker needs failures in a row, a failure rate, or both");
        if (rule->failures > CIRCUIT_COUNT_MAX)
                return problem_set(problem, ERR_BADARG, "failures in a row are at most %u",
                                   CIRCUIT_COUNT_MAX);
        if (rule->cool_ms < 1 || rule->cool_ms > CIRCUIT_MS_MAX)
                return problem_set(problem, ERR_BADARG, "the cool-down is 1 ms to 31 days");
        if (rule->cool_max_ms < rule->cool_ms || rule->cool_max_ms > CIRCUIT_MS_MAX)
                return problem_set(problem, ERR_BADARG,
                                   "the longest cool-down is the first one (%lld ms) to 31 days",
                                   (long long)rule->cool_ms);
        if (rule->probe_ms < 1 || rule->probe_ms > CIRCUIT_MS_MAX)
                return problem_set(problem, ERR_BADARG, "a probe's time is 1 ms to 31 days");
        return check_rate(rule, problem);
}

const char *circuit_state_name(enum circuit_state state)
{
        switch (state) {
        case CIRCUIT_CLOSED:
                return "closed";
        case CIRCUIT_OPEN:
                return "open";
        case CIRCUIT_HALF_OPEN:
                return "half-open";
        }
        return "?";
}

/* --- the rate's window ------------------------------------------------------------------------ */

static uint64_t slot_at(const struct circuit *c, int64_t now_ns)
{
        return (uint64_t)now_ns / ((uint64_t)c->rule.rate_window_ms * NS_PER_MS / CIRCUIT_SLOTS);
}

static void clear_window(struct circuit *c)
{
        /* Only a closed one counts; elsewhere the time of the call must leave no trace. */
        bool is_counting = c->rule.rate_percent && c->state == CIRCUIT_CLOSED;
        c->slot = is_counting ? slot_at(c, c->at_ns) : 0;
        memset(c->good, 0, sizeof(c->good));
        memset(c->bad, 0, sizeof(c->bad));
}

static void count(struct circuit *c, bool is_ok)
{
        uint64_t slot = slot_at(c, c->at_ns);

        if (slot - c->slot >= CIRCUIT_SLOTS)
                clear_window(c);
        while (c->slot < slot) {
                c->slot++;
                c->good[c->slot % CIRCUIT_SLOTS] = 0;
                c->bad[c->slot % CIRCUIT_SLOTS] = 0;
        }
        uint32_t *n = &(is_ok ? c->good : c->bad)[slot % CIRCUIT_SLOTS];
        if (*n < UINT32_MAX)
                ++*n;
}

void circuit_rate(const struct circuit *c, int64_t now_ns, uint64_t *ret_bad, uint64_t *ret_all)
{
        uint64_t bad = 0, all = 0;

        if (c->rule.rate_percent) {
                uint64_t now_slot = slot_at(c, now_ns > c->at_ns ? now_ns : c->at_ns);
                for (uint64_t k = 0; k < CIRCUIT_SLOTS && k <= c->slot; k++) {
                        uint64_t slot = c->slot - k;
                        if (now_slot - slot >= CIRCUIT_SLOTS)
                                break;
                        bad += c->bad[slot % CIRCUIT_SLOTS];
                        all += c->good[slot % CIRCUIT_SLOTS];
                }
        }
        *ret_bad = bad;
        *ret_all = all + bad;
}

/* --- states ----------------------------------------------------------------------------------- */

/* Every change of state passes here. */
static void enter(struct circuit *c, enum circuit_state state, int64_t at_ns, int64_t until_ns)
{
        if (c->state != state)
                c->since_ns = at_ns;
        if (c->state == CIRCUIT_CLOSED && state == CIRCUIT_OPEN)
                c->trips++;
        c->state = state;
        c->until_ns = until_ns;
        c->is_held = false;
        c->probe_id = 0;
        c->in_a_row = 0;
        clear_window(c);
}

static void trip(struct circuit *c)
{
        c->cool_ms = c->rule.cool_ms;
        enter(c, CIRCUIT_OPEN, c->at_ns, c->at_ns + c->cool_ms * NS_PER_MS);
}

static void reclose(struct circuit *c)
{
        c->cool_ms = c->rule.cool_ms;
        c->stale_id = c->last_id;
        enter(c, CIRCUIT_CLOSED, c->at_ns, 0);
}

static int64_t longer_cool_ms(const struct circuit *c)
{
        int64_t ms = c->cool_ms * 2;
        return ms < c->rule.cool_max_ms ? ms : c->rule.cool_max_ms;
}

static void fail_probe(struct circuit *c, int64_t at_ns)
{
        c->cool_ms = longer_cool_ms(c);
        enter(c, CIRCUIT_OPEN, at_ns, at_ns + c->cool_ms * NS_PER_MS);
}

int64_t circuit_next_ns(const struct circuit *c)
{
        bool is_waiting = (c->state == CIRCUIT_OPEN && !c->is_held) || c->probe_id != 0;
        return is_waiting ? c->until_ns : CIRCUIT_NEVER;
}

/* One step that is due at c->at_ns, if any. */
static bool due(struct circuit *c)
{
        int64_t until = circuit_next_ns(c);

        if (until == CIRCUIT_NEVER || c->at_ns < until)
                return false;
        if (c->state == CIRCUIT_OPEN)
                enter(c, CIRCUIT_HALF_OPEN, until, 0);
        else
                fail_probe(c, until);
        return true;
}

static bool catch_up(struct circuit *c, int64_t now_ns)
{
        bool changed = false;

        if (now_ns > c->at_ns)
                c->at_ns = now_ns;
        while (due(c))
                changed = true;
        return changed;
}

void circuit_init(struct circuit *c, const struct circuit_rule *rule, int64_t now_ns)
{
        ASSERT(circuit_rule_check(rule, NULL) == OK);
        *c = (struct circuit){.rule = *rule, .state = CIRCUIT_CLOSED, .cool_ms = rule->cool_ms};
        c->at_ns = c->since_ns = now_ns > 0 ? now_ns : 0;
        clear_window(c);
}

enum circuit_verdict circuit_ask(struct circuit *c, int64_t now_ns, uint64_t ask_id,
                                 bool *ret_changed)
{
        ASSERT(ask_id > 0 && ask_id != CIRCUIT_NO_ASK);
        bool changed = catch_up(c, now_ns);
        if (ret_changed)
                *ret_changed = changed;
        if (c->state == CIRCUIT_OPEN || c->probe_id)
                return CIRCUIT_REFUSED;
        if (ask_id > c->last_id)
                c->last_id = ask_id;
        if (c->state == CIRCUIT_CLOSED)
                return CIRCUIT_PASS;
        c->probe_id = ask_id;
        c->until_ns = c->at_ns + c->rule.probe_ms * NS_PER_MS;
        return CIRCUIT_PROBE;
}

static bool is_over_threshold(const struct circuit *c)
{
        uint64_t bad, all;

        if (c->rule.failures && c->in_a_row >= c->rule.failures)
                return true;
        if (!c->rule.rate_percent)
                return false;
        circuit_rate(c, c->at_ns, &bad, &all);
        return all >= c->rule.rate_min && bad * 100 >= all * c->rule.rate_percent;
}

static bool note_closed(struct circuit *c, bool is_ok, uint64_t ask_id)
{
        if (ask_id <= c->stale_id)
                return false;
        if (c->rule.rate_percent)
                count(c, is_ok);
        if (is_ok) {
                c->in_a_row = 0;
                return false;
        }
        if (c->in_a_row < CIRCUIT_COUNT_MAX)
                c->in_a_row++;
        if (!is_over_threshold(c))
                return false;
        trip(c);
        return true;
}

bool circuit_note(struct circuit *c, int64_t now_ns, bool is_ok, uint64_t ask_id)
{
        bool changed = catch_up(c, now_ns);

        if (c->state == CIRCUIT_CLOSED)
                return note_closed(c, is_ok, ask_id) || changed;
        if (!c->probe_id || ask_id != c->probe_id)
                return changed;
        if (is_ok)
                reclose(c);
        else
                fail_probe(c, c->at_ns);
        return true;
}

bool circuit_cancel(struct circuit *c, int64_t now_ns, uint64_t ask_id)
{
        bool changed = catch_up(c, now_ns);

        if (c->probe_id && ask_id == c->probe_id) {
                c->probe_id = 0;
                c->until_ns = 0;
        }
        return changed;
}

bool circuit_expire(struct circuit *c, int64_t now_ns)
{
        if (now_ns > c->at_ns)
                c->at_ns = now_ns;
        return due(c);
}

int64_t circuit_wait(const struct circuit *c, int64_t now_ns)
{
        int64_t until = circuit_next_ns(c), now = now_ns > c->at_ns ? now_ns : c->at_ns;

        if (c->is_held)
                return CIRCUIT_NEVER;
        if (until == CIRCUIT_NEVER)
                return 0;
        if (c->state == CIRCUIT_HALF_OPEN)
                until += longer_cool_ms(c) * NS_PER_MS;
        return until > now ? until - now : 0;
}

bool circuit_force(struct circuit *c, int64_t now_ns, enum circuit_force what)
{
        enum circuit_state state = c->state;
        bool is_held = c->is_held;

        (void)catch_up(c, now_ns); /* told by the comparison below */
        if (what == CIRCUIT_FORCE_CLOSE)
                reclose(c);
        else
                trip(c);
        if (what == CIRCUIT_FORCE_HOLD) {
                c->is_held = true;
                c->until_ns = 0;
        }
        return c->state != state || c->is_held != is_held;
}

void circuit_set_rule(struct circuit *c, const struct circuit_rule *rule)
{
        bool is_other_window = rule->rate_window_ms != c->rule.rate_window_ms ||
                               (rule->rate_percent == 0) != (c->rule.rate_percent == 0);

        ASSERT(circuit_rule_check(rule, NULL) == OK);
        c->rule = *rule;
        if (c->state == CIRCUIT_CLOSED)
                c->cool_ms = rule->cool_ms;
        else if (c->cool_ms > rule->cool_max_ms)
                c->cool_ms = rule->cool_max_ms;
        if (is_other_window)
                clear_window(c);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* 1 The rule is a possible one.  2 No time is negative, and the state did not begin in the future.
 * 3 Only an open circuit is held, and a held one has no end.  4 Only a half-open one has a probe,
 * and a deadline if and only if it has one; no end is further away than a rule allows.  5 Failures
 * in a row are of a closed one.  6 The window is not ahead of time, and empty without a rate. */
static bool is_sound(const struct circuit *c)
{
        bool is_open = c->state == CIRCUIT_OPEN, is_half = c->state == CIRCUIT_HALF_OPEN;
        bool has_end = (is_open && !c->is_held) || c->probe_id;

        if (circuit_rule_check(&c->rule, NULL) != OK ||
            (c->state != CIRCUIT_CLOSED && !is_open && !is_half))
                return false;
        if (c->at_ns < 0 || c->at_ns > TIME_MAX || c->since_ns < 0 || c->since_ns > c->at_ns)
                return false;
        if ((c->is_held && !is_open) || (c->probe_id && !is_half) || (c->until_ns != 0) != has_end)
                return false;
        if (has_end &&
            (c->until_ns < c->since_ns || c->until_ns - c->at_ns > CIRCUIT_MS_MAX * NS_PER_MS))
                return false;
        if (c->in_a_row > (c->state == CIRCUIT_CLOSED ? CIRCUIT_COUNT_MAX : 0))
                return false;
        return c->cool_ms >= 1 && c->cool_ms <= c->rule.cool_max_ms && c->probe_id <= c->last_id &&
               c->stale_id <= c->last_id && c->last_id != CIRCUIT_NO_ASK &&
               c->slot <= (c->rule.rate_percent ? slot_at(c, c->at_ns) : 0);
}

void circuit_check(const struct circuit *c)
{
        ASSERT(is_sound(c));
        if (!c->rule.rate_percent)
                for (unsigned i = 0; i < CIRCUIT_SLOTS; i++)
                        ASSERT(c->good[i] == 0 && c->bad[i] == 0);
}

/* All fields as varints, in the order of circuit_unpack(); and with a rate the number of the newest
 * slot, and good and bad of all ten. */
void circuit_pack(const struct circuit *c, struct buf *to)
{
        const struct circuit_rule *r = &c->rule;
        const uint64_t fields[] = {
                r->failures,
                r->rate_percent,
                r->rate_min,
                (uint64_t)r->rate_window_ms,
                (uint64_t)r->cool_ms,
                (uint64_t)r->cool_max_ms,
                (uint64_t)r->probe_ms,
                c->state,
                c->is_held,
                c->in_a_row,
                (uint64_t)c->at_ns,
                (uint64_t)c->since_ns,
                (uint64_t)c->until_ns,
                (uint64_t)c->cool_ms,
                c->probe_id,
                c->last_id,
                c->stale_id,
                c->trips,
        };

        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
                buf_put_varint(to, fields[i]);
        if (!r->rate_percent)
                return;
        buf_put_varint(to, c->slot);
        for (unsigned i = 0; i < CIRCUIT_SLOTS; i++) {
                buf_put_varint(to, c->good[i]);
                buf_put_varint(to, c->bad[i]);
        }
}

/* A number that must fit; 0 and the sticky failure otherwise. */
static uint64_t reader_upto(struct reader *r, uint64_t max)
{
        uint64_t v = reader_varint(r);
        if (v <= max)
                return v;
        r->failed = true;
        return 0;
}

bool circuit_unpack(struct circuit *c, struct slice *s)
{
        struct reader r = reader_make(*s);
        struct circuit got = {0};

        got.rule.failures = (uint32_t)reader_upto(&r, UINT32_MAX);
        got.rule.rate_percent = (uint32_t)reader_upto(&r, UINT32_MAX);
        got.rule.rate_min = (uint32_t)reader_upto(&r, UINT32_MAX);
        got.rule.rate_window_ms = (int64_t)reader_upto(&r, INT64_MAX);
        got.rule.cool_ms = (int64_t)reader_upto(&r, INT64_MAX);
        got.rule.cool_max_ms = (int64_t)reader_upto(&r, INT64_MAX);
        got.rule.probe_ms = (int64_t)reader_upto(&r, INT64_MAX);
        got.state = (enum circuit_state)reader_upto(&r, CIRCUIT_HALF_OPEN);
        got.is_held = reader_upto(&r, 1);
        got.in_a_row = (uint32_t)reader_upto(&r, UINT32_MAX);
        got.at_ns = (int64_t)reader_upto(&r, INT64_MAX);
        got.since_ns = (int64_t)reader_upto(&r, INT64_MAX);
        got.until_ns = (int64_t)reader_upto(&r, INT64_MAX);
        got.cool_ms = (int64_t)reader_upto(&r, INT64_MAX);
        got.probe_id = reader_varint(&r);
        got.last_id = reader_varint(&r);
        got.stale_id = reader_varint(&r);
        got.trips = reader_varint(&r);
        if (got.rule.rate_percent) {
                got.slot = reader_varint(&r);
                for (unsigned i = 0; i < CIRCUIT_SLOTS; i++) {
                        got.good[i] = (uint32_t)reader_upto(&r, UINT32_MAX);
                        got.bad[i] = (uint32_t)reader_upto(&r, UINT32_MAX);
                }
        }
        if (r.failed || !is_sound(&got))
                return false;
        *c = got;
        *s = slice_make(r.at, reader_left(&r));
        return true;
}
