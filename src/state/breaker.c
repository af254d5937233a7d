/* Circuit breakers as things.
 *
 * The circuit itself is a pure value that answers the same in replay as it did live, since the
 * time of each change is that of its batch's CLOCK.  Here it gets a name, a place in the log and an
 * alarm: the end of a cool-down, the death of a probe, the end of a breaker nobody uses.
 *
 * A job that is the probe lives on past the rule's deadline as long as its lease does: a lease
 * always ends, and a job that is longer than the rule thought would otherwise never close anything.
 *
 * Tokens of clients' asks are not kept.  A token is the ask's id and a keyed hash of it, so a
 * foreign one is known without remembering any; what must be remembered is only that a report came
 * already, and for that the last few will do. */
#include "state/breaker.h"

#include "state/state.h"

#define FLAG_PASSING  1
#define FLAG_HANDLERS 2
#define REASON_MAX    1024

static void breaker_init(struct state *s, struct thing *t)
{
        const struct circuit_rule rule = circuit_rule_default();
        struct breaker *b = breaker_of(t);
        struct slice name = thing_name(t), prefix = SLICE_LIT(BREAKER_QUEUE_PREFIX);
        circuit_init(&b->circuit, &rule, s->steady_ns);
        buf_init(&b->reason, REASON_MAX);
        b->is_of_queue = name.len > prefix.len && memcmp(name.ptr, prefix.ptr, prefix.len) == 0;
        s->n_queue_breakers += b->is_of_queue;
}

static void breaker_release(struct state *s, struct thing *t)
{
        struct breaker *b = breaker_of(t);
        s->n_queue_breakers -= b->is_of_queue;
        buf_release(&b->reason);
}

int64_t breaker_forget_ns(const struct breaker *b)
{
        const struct circuit *c = &b->circuit;
        bool is_busy = c->state == CIRCUIT_OPEN || c->probe_id || b->thing.waiting.len;
        if (!b->is_passing || is_busy)
                return INT64_MAX;
        bool is_quiet = c->state == CIRCUIT_CLOSED && c->in_a_row == 0;
        return c->at_ns + (is_quiet ? BREAKER_QUIET_NS : BREAKER_STALE_NS);
}

void breaker_arm(struct state *s, struct breaker *b, int64_t now_ns)
{
        const struct circuit *c = &b->circuit;
        int64_t at = circuit_next_ns(c), forget = breaker_forget_ns(b);
        bool wants_probe = c->state == CIRCUIT_HALF_OPEN && !c->probe_id && b->thing.waiting.len;
        if (wants_probe && now_ns + BREAKER_LET_NS < at)
                at = now_ns + BREAKER_LET_NS;
        if (c->state == CIRCUIT_CLOSED && b->thing.waiting.len)
                at = now_ns + 1; /* the rest of many that are let go in steps, next turn */
        thing_alarm(s, &b->thing, forget < at ? forget : at);
}

bool breaker_is_reported(const struct breaker *b, uint64_t ask_id)
{
        for (uint32_t i = 0; i < b->n_reported; i++)
                if (b->reported[i] == ask_id)
                        return true;
        return false;
}

static void add_report(struct breaker *b, uint64_t ask_id)
{
        if (b->n_reported == BREAKER_REPORTS) {
                b->n_reported--;
                memmove(b->reported, b->reported + 1, b->n_reported * sizeof(b->reported[0]));
        }
        b->reported[b->n_reported++] = ask_id;
}

/* ---- bodies ---- */

void breaker_put(const struct breaker_body *b, struct buf *body)
{
        unsigned flags =
                (b->is_passing ? FLAG_PASSING : 0U) | (b->counts_handlers ? FLAG_HANDLERS : 0U);
        uint64_t salt = b->salt;
        buf_put_byte(body, (char)flags);
        buf_put(body, &salt, sizeof(salt));
        buf_put_varint(body, b->probe_job);
        buf_put_lv(body, b->from ? buf_slice(&b->from->reason) : SLICE_NONE);
        buf_put_varint(body, b->from ? b->from->n_reported : 0);
        for (uint32_t i = 0; b->from && i < b->from->n_reported; i++)
                buf_put_varint(body, b->from->reported[i]);
        circuit_pack(b->circuit, body);
}

static void put(const struct thing *t, struct buf *body)
{
        const struct breaker *b = CONTAINER_OF(t, const struct breaker, thing);
        const struct breaker_body all = {
                b, &b->circuit, b->salt, b->probe_job, b->is_passing, b->counts_handlers};
        breaker_put(&all, body);
}

static void set_reason(struct breaker *b, struct slice reason)
{
        buf_clear(&b->reason);
        buf_put_slice(&b->reason, reason);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct breaker *b = breaker_of(t);
        struct reader r = reader_make(body);
        uint64_t reported[BREAKER_REPORTS];
        struct circuit circuit;
        unsigned flags = reader_u8(&r);
        uint64_t salt = reader_u64(&r), probe_job = reader_varint(&r);
        struct slice reason = reader_lv(&r);
        uint64_t n = reader_varint(&r);
        if (r.failed || flags > (FLAG_PASSING | FLAG_HANDLERS) || n > BREAKER_REPORTS ||
            reason.len > REASON_MAX)
                return false;
        for (uint64_t i = 0; i < n; i++)
                reported[i] = reader_varint(&r);
        struct slice rest = slice_make(r.at, reader_left(&r));
        if (r.failed || !circuit_unpack(&circuit, &rest) || rest.len)
                return false;
        if (probe_job && !circuit.probe_id)
                return false;
        b->circuit = circuit;
        b->is_passing = flags & FLAG_PASSING;
        b->counts_handlers = flags & FLAG_HANDLERS;
        b->salt = salt;
        b->probe_job = probe_job;
        set_reason(b, reason);
        memcpy(b->reported, reported, n * sizeof(reported[0]));
        b->n_reported = (uint32_t)n;
        if (circuit.last_id > s->fence)
                s->fence = circuit.last_id;
        breaker_arm(s, b, s->steady_ns);
        return true;
}

/* ---- changes ---- */

static bool note_ask(struct breaker *b, struct reader *r, int64_t now_ns)
{
        uint64_t id = reader_varint(r), job = reader_varint(r);
        if (r->failed || id == 0 || id == CIRCUIT_NO_ASK || job == 0)
                return false;
        if (circuit_ask(&b->circuit, now_ns, id, NULL) == CIRCUIT_PROBE)
                b->probe_job = job;
        return true;
}

static bool note_end(struct breaker *b, struct reader *r, int64_t now_ns)
{
        uint64_t id = reader_varint(r);
        uint8_t outcome = reader_u8(r), is_report = reader_u8(r);
        if (r->failed || id == 0 || outcome > ASK_CANCELED || is_report > 1)
                return false;
        if (outcome == ASK_CANCELED)
                (void)circuit_cancel(&b->circuit, now_ns, id); /* the core compares the states */
        else
                (void)circuit_note(&b->circuit, now_ns, outcome == ASK_GOOD, id);
        if (is_report)
                add_report(b, id);
        return true;
}

static bool note_probe(struct breaker *b, struct reader *r)
{
        uint64_t deadline = reader_varint(r);
        if (r->failed || !b->circuit.probe_id || deadline > INT64_MAX ||
            (int64_t)deadline < b->circuit.until_ns)
                return false;
        b->circuit.until_ns = (int64_t)deadline;
        return true;
}

static bool note_force(struct breaker *b, struct reader *r, int64_t now_ns)
{
        uint8_t what = reader_u8(r);
        struct slice reason = reader_lv(r);
        if (r->failed || what > CIRCUIT_FORCE_HOLD || reason.len > REASON_MAX)
                return false;
        (void)circuit_force(&b->circuit, now_ns, (enum circuit_force)what);
        set_reason(b, reason);
        return true;
}

static bool note(struct state *s, struct thing *t, struct slice body)
{
        struct breaker *b = breaker_of(t);
        struct reader r = reader_make(body);
        bool is_good = false;
        switch (reader_u8(&r)) {
        case BREAKER_OP_ASK:
                is_good = note_ask(b, &r, s->steady_ns);
                break;
        case BREAKER_OP_END:
                is_good = note_end(b, &r, s->steady_ns);
                break;
        case BREAKER_OP_EXPIRE:
                (void)circuit_expire(&b->circuit, s->steady_ns);
                is_good = true;
                break;
        case BREAKER_OP_PROBE:
                is_good = note_probe(b, &r);
                break;
        case BREAKER_OP_FORCE:
                is_good = note_force(b, &r, s->steady_ns);
                break;
        default:
                break;
        }
        if (!b->circuit.probe_id)
                b->probe_job = 0;
        breaker_arm(s, b, s->steady_ns);
        return is_good && !r.failed && !reader_left(&r);
}

static void check(const struct thing *t)
{
        const struct breaker *b = CONTAINER_OF(t, const struct breaker, thing);
        circuit_check(&b->circuit);
        ASSERT(!b->probe_job || b->circuit.probe_id);
        ASSERT(b->n_reported <= BREAKER_REPORTS);
}

const struct thing_ops breaker_ops = {
        .text = "A circuit breaker: its rule, its state and recent outcomes.",
        .body = "u8 flags (1: passes everything, 2: counts handlers), salt u64, probe job varint, "
                "reason text, number of reported jobs varint, their ids, then the packed circuit "
                "(state/circuit.c)",
        .size = sizeof(struct breaker),
        .init = breaker_init,
        .set = set,
        .put = put,
        .note = note,
        .release = breaker_release,
        .check = check,
};
