/* Idempotency keys: a request that was carried out is not carried out again.
 *
 * A client that lost its connection cannot know whether its request arrived.  It sends it again
 * under the same key, and is told what it would have been told the first time.
 *
 * The answer is recorded while the command gives it (answer_tape.c) and becomes a record of the
 * same batch as what the command changed.  A batch is durable whole or not at all, so after a
 * crash either both are there or neither, and in both cases the next request with that key does
 * the right thing.
 *
 * Most commands are done when they return.  One that must ask history first is answered through
 * the session, so for that time the session's ops are those of a struct keyed, which records and
 * passes on; what it changes, it changes in the moment it answers.  Its key is a thing that the log
 * does not know yet: a second request is told to come again, a crash or a lost peer forgets it.
 * A command that waits for others (WAIT) takes no key: it can change something long before its
 * answer, as COMPLETE with CLAIM does.
 *
 * Only answers are kept, not refusals: a refused request has changed nothing, and what was wrong
 * may be put right before it is sent again. */
#include "state/answer.h"

#include <stdlib.h>

#include "core/answer_print.h"
#include "core/answer_tape.h"
#include "core/kernel.h"

/* An answer without jobs in it, about; and the id of a job on a tape. */
#define SMALL_BYTES 1024
#define ID_BYTES    11
/* Around the body of a record. */
#define RECORD_BYTES 64
#define BODY_MAX     (ANSWER_HEAD_BYTES + LIMIT_ANSWER_BYTES)
#define VARINT_MAX   10

int command_set_key(struct command *cmd, struct slice key, struct problem *problem)
{
        if (!(cmd->def->flags & COMMAND_WRITE))
                return problem_set(problem, ERR_BADARG,
                                   "%s changes nothing and takes no idempotency key",
                                   cmd->def->name);
        if (cmd->def->flags & COMMAND_SECRET)
                return problem_set(problem, ERR_BADARG,
                                   "%s takes no idempotency key: its answer is a secret, and is "
                                   "not kept",
                                   cmd->def->name);
        if (key.len < 1 || key.len > LIMIT_ANSWER_KEY_BYTES)
                return problem_set(problem, key.len ? ERR_TOOBIG : ERR_BADARG,
                                   "an idempotency key must be 1 to %d bytes long, not %zu",
                                   LIMIT_ANSWER_KEY_BYTES, key.len);
        cmd->idempotency = key;
        return OK;
}

static bool waits(const struct command *cmd)
{
        int wait = command_param(cmd->def, SLICE_LIT("wait"));
        return (wait >= 0 && cmd->arg[wait].is_set && cmd->arg[wait].num > 0) ||
               (cmd->has_claim && cmd->claim.wait_ms > 0);
}

/* Is there a place for one more, and for the largest answer it may get? */
static int check_room(struct core *core, const struct command *cmd, struct problem *problem)
{
        const struct state *s = &core->state;
        if (s->things[THING_ANSWER].len >= LIMIT_ANSWERS)
                return problem_set(problem, ERR_LIMIT,
                                   "%d idempotency keys are known already; the oldest is free "
                                   "%d h after its use",
                                   LIMIT_ANSWERS, LIMIT_ANSWER_MS / 3600000);
        if (s->answer_bytes + cmd->idempotency.len + LIMIT_ANSWER_BYTES > LIMIT_ANSWERS_BYTES)
                return problem_set(problem, ERR_LIMIT,
                                   "answers of %llu bytes are kept already, of at most %d",
                                   (unsigned long long)s->answer_bytes, LIMIT_ANSWERS_BYTES);
        uint64_t bytes = RECORD_BYTES + ANSWER_HEAD_BYTES + cmd->idempotency.len;
        if (cmd->def->flags & COMMAND_BLOCKS) /* may hold jobs */
                bytes += LIMIT_ANSWER_BYTES;
        else
                bytes += SMALL_BYTES + ID_BYTES * cmd->n_specs;
        int r = core_admit(core, bytes, 0, problem);
        if (r == ERR_NOSPACE)
                return problem_set(problem, r,
                                   "the disk is full and the answer could not be kept; without "
                                   "its key a request that ends a job is still taken");
        return r;
}

static int repeat(struct core *core, const struct answer *a, const uint8_t *print,
                  struct reply *reply, struct problem *problem)
{
        if (memcmp(a->print, print, sizeof(a->print)) != 0)
                return problem_set(problem, ERR_STATE, "this key was used for another request");
        if (!thing_is_durable(&a->thing))
                return problem_set(problem, ERR_UNAVAIL,
                                   "the first request with this key is still being carried out; "
                                   "try again");
        if (!a->is_whole)
                return problem_set(problem, ERR_STATE,
                                   "this request was carried out; its answer was larger than %d "
                                   "bytes and is not kept",
                                   LIMIT_ANSWER_BYTES);
        reply_again(reply);
        if (!tape_play(answer_tape(a), reply))
                return problem_set(problem, ERR_CORRUPT,
                                   "this request was carried out; its answer cannot be read");
        core->totals.answers_repeated++;
        return OK;
}

/* --- a command under way -------------------------------------------------------------------- */

struct keyed {
        struct session_ops ops;         /* what the session has meanwhile */
        const struct session_ops *door; /* and what it had before */
        struct core *core;
        struct thing *key;
        struct tape tape;
        struct buf body; /* of the record: head and tape */
};

static struct reply *reply_begin_keyed(struct session *s);
static void reply_end_keyed(struct session *s);

/* The session has these ops only while they are those of a struct keyed. */
static struct keyed *keyed_of(const struct session *s)
{
        ASSERT(s->ops->reply_begin == reply_begin_keyed);
        return CONTAINER_OF(s->ops, struct keyed, ops);
}

static void keyed_begin(struct core *core, struct session *s, struct slice key,
                        const uint8_t *print)
{
        struct keyed *k = xcalloc(1, sizeof(*k));
        k->ops = (struct session_ops){reply_begin_keyed, reply_end_keyed};
        k->door = s->ops;
        k->core = core;
        k->key = thing_get(&core->state, THING_ANSWER, key);
        answer_claim(k->key, print);
        /* A varint reserves more than it takes; what is too much is found in keep(). */
        buf_init(&k->body, BODY_MAX + VARINT_MAX);
        s->ops = &k->ops;
}

static struct reply *record(struct keyed *k, struct reply *to)
{
        int64_t expires_ns = k->core->now.steady_ns + LIMIT_ANSWER_MS * NS_PER_MS;
        buf_clear(&k->body);
        answer_put_head(&k->body, expires_ns, answer_of(k->key)->print, true);
        tape_init(&k->tape, to, &k->body);
        return &k->tape.reply;
}

/* The command is done, so this cannot fail any more: at worst the answer itself is not kept. */
static void keep(struct core *core, struct thing *key, struct buf *body)
{
        if (body->failed || body->len > BODY_MAX)
                answer_drop_tape(body);
        if (thing_try_set(core, THING_ANSWER, thing_name(key), buf_slice(body), NULL) == OK)
                return;
        answer_drop_tape(body);
        thing_set(core, THING_ANSWER, thing_name(key), buf_slice(body));
}

static void keyed_end(struct session *s, bool is_done)
{
        struct keyed *k = keyed_of(s);
        s->ops = k->door;
        if (is_done && !k->tape.is_error)
                keep(k->core, k->key, &k->body);
        else
                thing_drop(&k->core->state, k->key);
        buf_release(&k->body);
        free(k);
}

static struct reply *reply_begin_keyed(struct session *s)
{
        struct keyed *k = keyed_of(s);
        return record(k, k->door->reply_begin(s));
}

static void reply_end_keyed(struct session *s)
{
        keyed_end(s, true);
        s->ops->reply_end(s); /* the door's: its reply waits for the record as well */
}

void answer_cancel(struct session *s)
{
        if (s->ops->reply_begin == reply_begin_keyed)
                keyed_end(s, false);
}

static int run_and_keep(struct core *core, struct session *session, const struct command *cmd,
                        const uint8_t *print, struct reply *reply, struct problem *problem)
{
        keyed_begin(core, session, cmd->idempotency, print);
        command_exec exec = core->options.parts->execs[cmd->def->id];
        int r = exec(core, session, cmd, record(keyed_of(session), reply), problem);
        if (r != CORE_LATER) /* else it ends, or has ended, through the session */
                keyed_end(session, r == OK);
        return r;
}

int answer_exec(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        uint8_t print[ANSWER_PRINT_BYTES];
        ASSERT(cmd->def->flags & COMMAND_WRITE);
        if (waits(cmd))
                return problem_set(problem, ERR_BADARG,
                                   "a request with an idempotency key cannot wait for its answer; "
                                   "leave out WAIT and ask again under another key");
        if (!answer_print(cmd, print))
                return problem_set(problem, ERR_NOMEM, "no memory for the fingerprint");
        const struct thing *t = thing_find(&core->state, THING_ANSWER, cmd->idempotency);
        if (t)
                return repeat(core, answer_of(t), print, reply, problem);
        int r = check_room(core, cmd, problem);
        return r == OK ? run_and_keep(core, session, cmd, print, reply, problem) : r;
}

void answer_due(struct core *core, struct thing *t)
{
        thing_gone(core, t);
}
