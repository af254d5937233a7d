/* A circuit breaker: stops asking what keeps failing, and finds out with one probe at a time
 * whether it works again.
 *
 *   State      entered by                                   leaves by
 *   CLOSED     init; the probe's good note; force CLOSE     threshold reached in note; force
 *   OPEN       threshold; a failed, dead probe; force       cool-down over in expire; force CLOSE
 *   HALF_OPEN  cool-down over in expire                     the probe's note; its deadline; force
 *
 * Threshold: `failures` failures in a row, or at least `rate_percent` of the notes of the last
 * `rate_window_ms` failed and there were at least `rate_min` of them; either may be off (0).
 * Cool-down: cool_ms, doubled by every probe that failed or died, at most cool_max_ms; a close sets
 * it back.
 *
 * Ask ids: the caller's, and they grow: each ask has a larger one than all asks before it on this
 * circuit (a fence does, a job id does not).  That is how a late answer is known:
 *   - closed: a note counts when its ask came after the last close.  Work that was let through
 *     before the circuit opened says nothing about what was repaired since.
 *   - open: no note counts.
 *   - half-open: only the note of the living probe counts, good or bad.
 * A note that has no ask of its own carries CIRCUIT_NO_ASK: it counts while closed.
 * One note per ask; the caller sees to that.
 *
 * Whatever is due at `now` (end of the cool-down, death of the probe) happens first in ask, note,
 * cancel and expire alike, at the time it was due and not at the time of the call.
 *
 * Time: steady ns, passed in; a time before the last one counts as the last one.  Threads: the
 * owner's only.  A plain value: no allocation, may be copied. */
#ifndef WEIR_STATE_CIRCUIT_H
#define WEIR_STATE_CIRCUIT_H

#include "base/buf.h"
#include "base/err.h"

#define CIRCUIT_SLOTS       10 /* of the rate's window */
#define CIRCUIT_NO_ASK      UINT64_MAX
#define CIRCUIT_NEVER       INT64_MAX
#define CIRCUIT_COUNT_MAX   1000000U
#define CIRCUIT_MS_MAX      (31LL * 24 * 3600 * MS_PER_S)
#define CIRCUIT_FAILURES    5
#define CIRCUIT_COOL_MS     60000
#define CIRCUIT_COOL_MAX_MS (15LL * 60 * MS_PER_S)
#define CIRCUIT_PROBE_MS    30000

/* Numbers are in the log. */
enum circuit_state { CIRCUIT_CLOSED = 1, CIRCUIT_OPEN = 2, CIRCUIT_HALF_OPEN = 3 };
enum circuit_verdict { CIRCUIT_PASS, CIRCUIT_PROBE, CIRCUIT_REFUSED };
enum circuit_force {
        CIRCUIT_FORCE_CLOSE, /* closed, as new */
        CIRCUIT_FORCE_TRIP,  /* open for a cool-down, as if the threshold had been reached */
        CIRCUIT_FORCE_HOLD,  /* open until another force */
};

struct circuit_rule {
        uint32_t failures;      /* in a row; 0 = off, at most CIRCUIT_COUNT_MAX */
        uint32_t rate_percent;  /* 1..100; 0 = off */
        uint32_t rate_min;      /* notes in the window below which no rate counts; 1.. */
        int64_t rate_window_ms; /* CIRCUIT_SLOTS..CIRCUIT_MS_MAX */
        int64_t cool_ms;        /* 1..CIRCUIT_MS_MAX */
        int64_t cool_max_ms;    /* cool_ms..CIRCUIT_MS_MAX */
        int64_t probe_ms;       /* 1..CIRCUIT_MS_MAX */
};

struct circuit {
        struct circuit_rule rule;
        enum circuit_state state;
        bool is_held;      /* OPEN by force, until another force */
        uint32_t in_a_row; /* CLOSED: failures since the last success */
        int64_t at_ns;     /* the latest time seen */
        int64_t since_ns;  /* when the present state began */
        int64_t until_ns;  /* OPEN: end of the cool-down; HALF_OPEN with a probe: its deadline */
        int64_t cool_ms;   /* the present or the next cool-down */
        uint64_t probe_id; /* HALF_OPEN: the living probe's ask; 0 = none */
        uint64_t last_id;  /* the largest ask id that passed or probed */
        uint64_t stale_id; /* CLOSED: asks up to this one are of an earlier period */
        uint64_t trips;    /* times it went from CLOSED to OPEN, for display */
        uint64_t slot;     /* number of the newest slot of the window, time / slot length */
        uint32_t good[CIRCUIT_SLOTS], bad[CIRCUIT_SLOTS]; /* by slot number modulo */
};

/* 5 failures in a row, 60 s growing to 15 min, a probe has 30 s; no rate. */
struct circuit_rule circuit_rule_default(void);
/* ERR_BADARG and what is allowed. */
int circuit_rule_check(const struct circuit_rule *rule, struct problem *problem) MUST_CHECK;
const char *circuit_state_name(enum circuit_state state); /* "closed", "open", "half-open" */

void circuit_init(struct circuit *c, const struct circuit_rule *rule, int64_t now_ns);

/* PASS: go on and note the outcome.  PROBE: the same, and everything hangs on it: note it before
 * the deadline c->until_ns, or cancel it.  REFUSED: see circuit_wait().  *ret_changed (may be NULL)
 * tells whether the state changed on the way.  ask_id: grows, > 0, not CIRCUIT_NO_ASK. */
enum circuit_verdict circuit_ask(struct circuit *c, int64_t now_ns, uint64_t ask_id,
                                 bool *ret_changed) MUST_CHECK;
/* How it ended; true when the state changed. */
bool circuit_note(struct circuit *c, int64_t now_ns, bool is_ok, uint64_t ask_id);
/* The ask came to nothing and says nothing: if it was the living probe, another may be it.  True
 * when the state changed (which only what was due by now can do). */
bool circuit_cancel(struct circuit *c, int64_t now_ns, uint64_t ask_id);
/* One step of what is due by now; true when it made one, so that each can be told:
 * `while (circuit_expire(c, now)) ...`  The call to make at circuit_next_ns(). */
bool circuit_expire(struct circuit *c, int64_t now_ns);
int64_t circuit_next_ns(const struct circuit *c); /* CIRCUIT_NEVER: nothing to wait for */
/* The ns until an ask passes or probes for certain, if nothing is noted meanwhile; 0 when it would
 * now, CIRCUIT_NEVER when held open.  A good note of the probe makes it sooner. */
int64_t circuit_wait(const struct circuit *c, int64_t now_ns);
/* True when the state, or whether it is held, changed. */
bool circuit_force(struct circuit *c, int64_t now_ns, enum circuit_force what);
/* Keeps the state, the failures in a row and the running cool-down; the rate's window starts again
 * when its length changed.  A lower threshold is applied at the next failure. */
void circuit_set_rule(struct circuit *c, const struct circuit_rule *rule);
/* Failed and all notes in the rate's window up to now; both 0 when no rate is set. */
void circuit_rate(const struct circuit *c, int64_t now_ns, uint64_t *ret_bad, uint64_t *ret_all);

/* Everything, in varints.  Unpacking reads from the front of *s and moves it on; false, with both
 * untouched, when the bytes are no circuit. */
void circuit_pack(const struct circuit *c, struct buf *to);
bool circuit_unpack(struct circuit *c, struct slice *s) MUST_CHECK;

void circuit_check(const struct circuit *c); /* asserts every invariant */

#endif
