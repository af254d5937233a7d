/* A core on a bench: memory log, memory archive, a clock that is moved by hand, seeded dice.
 *
 *      struct rig rig;
 *      rig_init(&rig);
 *      assert_string_equal(rig_do(&rig, "ENQUEUE", "mail", "{}"), "1");
 *      rig_pass_ms(&rig, 1000);
 */
#ifndef WEIR_TESTS_RIG_H
#define WEIR_TESTS_RIG_H

#include "core/core.h"
#include "support/memory_archive.h"
#include "support/memory_log.h"
#include "support/text_reply.h"

#define RIG_TOKEN 33 /* bytes of a token's text, with its NUL */

struct rig_session {
        struct session base;
        struct text_reply reply;
        bool is_answered;
};

struct rig {
        struct memory_log log;
        struct memory_archive archive;
        struct rng rng;
        struct core *core;
        struct core_options options;
        struct now now;
        struct arena arena;
        struct rig_session me;
        unsigned n_starts; /* every other one is that of a machine that followed */
        uint64_t replayed; /* digest of what the last restart found, before its first turn */
};

void rig_init(struct rig *rig);
void rig_release(struct rig *rig);
/* Forgets the core and replays the log into a new one; steady time goes on. */
void rig_restart(struct rig *rig);
/* The same; true when what was replayed is what was there before. */
bool rig_replays(struct rig *rig) MUST_CHECK;
/* False: until the next start, commands are carried out without a look at what they change.  The
 * look lists all things of a kind, so that filling a limit would list them as often as there are.
 */
void rig_audit(struct rig *rig, bool is_on);
void rig_pass_ms(struct rig *rig, int64_t ms);
/* One turn and its commit. */
void rig_turn(struct rig *rig);
/* Everything that has ended goes to history, and the core lets go of it. */
void rig_archive_all(struct rig *rig);
/* The cleaner is far behind: in a turn it writes what it may, up to a few records from the end. */
void rig_fall_behind(struct rig *rig, struct rng *dice);

void rig_session_init(struct rig_session *s);
void rig_session_release(struct rig *rig, struct rig_session *s);

/* Runs a command and returns its reply as text; "(waits)" when it comes later. */
const char *rig_argv(struct rig *rig, struct rig_session *s, const struct slice *argv, size_t argc);
const char *rig_words(struct rig *rig, struct rig_session *s, ...) __attribute__((sentinel));
#define rig_do(rig, ...)    rig_words(rig, &(rig)->me, __VA_ARGS__, (char *)NULL)
#define rig_as(rig, s, ...) rig_words(rig, s, __VA_ARGS__, (char *)NULL)

/* The gate over these targets, in these modes for jobs and for checks, else as it is by itself. */
void rig_set_gate(struct rig *rig, const struct core_target *targets, size_t n_targets,
                  enum gate_mode jobs, enum gate_mode checks);
/* A value of a metric, measured now. */
void rig_sample(struct rig *rig, size_t target, size_t metric, double value);

/* Adds jobs of the hook "mail". */
void rig_enqueue(struct rig *rig, int n);
/* Claims one job of `queue`; the token's text (RIG_TOKEN bytes) goes to ret_token. */
uint64_t rig_claim(struct rig *rig, const char *worker, const char *queue, char *ret_token);
/* Claims up to 100 jobs of `queue`; how many there were. */
size_t rig_claim_many(struct rig *rig, const char *queue);
/* Claims the next job of `queue` and ends it, a failing one for good; its id, 0 without a job. */
uint64_t rig_complete_next(struct rig *rig, const char *queue);
uint64_t rig_fail_next(struct rig *rig, const char *queue, const char *error);

/* A number as a word of a command, until the next one. */
const char *rig_number(uint64_t n);

#endif
