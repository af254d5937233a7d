/* See throttled.h.
 *
 * A ring of the last actions that were held back.  Jobs are one entry each.  Checks may be refused
 * a million times a second, so within a second those of the same identity, reason and target are
 * one entry that counts them; a hash finds it.  And when a second has filled the ring with checks
 * already, more of them are only passed over: else many identities would push each other out of it,
 * and each refusal would pay for the text of an entry that nobody sees.  So a refused check costs
 * one look into the hash, and memory is what the ring has. */
#include "throttle/throttled.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/replies.h"
#include "gate/identity.h"
#include "throttle/throttle.h"

#define COUNT_DEFAULT 20
#define TARGET_SHOWN  64
#define KEY_HEAD      3 /* verdict, reason, target */

struct action {
        struct hash_node node; /* while is_counting; key: the head and the identity */
        bool is_counting;      /* a check that more of its kind are counted into */
        bool is_job;
        bool is_done;    /* else it only would have been */
        int64_t second;  /* steady */
        int64_t wall_ms; /* of the first of them */
        uint64_t job;
        uint64_t times;
        enum tier tier;
        const char *reason;
        char target[TARGET_SHOWN];
        char text[THROTTLE_TEXT];
        size_t key_len;
        char key[KEY_HEAD + IDENTITY_BYTES];
};

struct throttled {
        struct action actions[THROTTLED_KEPT];
        uint64_t n; /* ever; the next one's place is n % THROTTLED_KEPT */
        struct hash counting;
        int64_t second; /* of the last new entry of a check */
        unsigned n_new; /* entries of checks made in that second */
};

struct throttled *throttled_new(uint64_t hash_seed)
{
        struct throttled *t = xcalloc(1, sizeof(*t));
        hash_init(&t->counting, hash_seed);
        return t;
}

struct throttled *throttled_free(struct throttled *t)
{
        if (!t)
                return NULL;
        hash_release(&t->counting);
        free(t);
        return NULL;
}

static void stop_counting(struct throttled *t, struct action *a)
{
        if (a->is_counting)
                hash_remove(&t->counting, &a->node);
        a->is_counting = false;
}

/* How much of a text fits, without cutting a character of UTF-8. */
static size_t fitting(struct slice text, size_t room)
{
        if (text.len <= room)
                return text.len;
        while (room > 0 && ((unsigned char)text.ptr[room] & 0xc0) == 0x80)
                room--;
        return room;
}

static void put_text(char *ret, size_t size, const char *text)
{
        size_t n = fitting(slice_str(text), size - 1);
        memcpy(ret, text, n);
        ret[n] = '\0';
}

static struct action *action_new(struct core *core, const char *target, const char *text)
{
        struct throttled *t = core->throttled;
        struct action *a = &t->actions[t->n++ % THROTTLED_KEPT];
        stop_counting(t, a);
        a->second = core->now.steady_ns / NS_PER_S;
        a->wall_ms = core->now.wall_ms;
        a->times = 1;
        put_text(a->target, sizeof(a->target), target);
        put_text(a->text, sizeof(a->text), text);
        return a;
}

void throttled_deferral(struct core *core, const struct job *job, enum tier tier,
                        const struct gate_answer *answer, const char *target, const char *text)
{
        struct action *a = action_new(core, target, text);
        struct slice group = name_slice(job->group);
        char who[3 * LIMIT_NAME_BYTES + 32];
        int n = snprintf(who, sizeof(who), "%llu:%.*s:%.*s%s%.*s", (unsigned long long)job_id(job),
                         (int)job->hook->len, job->hook->text, (int)job->queue->name->len,
                         job->queue->name->text, group.len ? ":" : "", (int)group.len,
                         group.len ? group.ptr : "");
        size_t len = fitting(slice_make(who, (size_t)n), IDENTITY_BYTES);
        memcpy(a->key + KEY_HEAD, who, len);
        a->key_len = KEY_HEAD + len;
        a->is_job = true;
        a->is_done = answer->is_wait;
        a->job = job_id(job);
        a->tier = tier;
        a->reason = gate_reason_name(answer->reason);
}

/* False: it is passed over. */
static bool may_add(struct throttled *t, int64_t second)
{
        if (t->second != second) {
                t->second = second;
                t->n_new = 0;
        }
        if (t->n_new == THROTTLED_KEPT)
                return false;
        t->n_new++;
        return true;
}

/* What entries are counted together by: verdict, reason, target and identity. */
static struct slice key_of(const struct throttled_check *c, char room[KEY_HEAD + IDENTITY_BYTES])
{
        ASSERT(c->who.len <= IDENTITY_BYTES);
        room[0] = (char)c->is_granted;
        room[1] = (char)c->reason;
        room[2] = (char)c->target;
        memcpy(room + KEY_HEAD, c->who.ptr, c->who.len);
        return slice_make(room, KEY_HEAD + c->who.len);
}

bool throttled_is_counted(struct core *core, const struct throttled_check *c)
{
        struct throttled *t = core->throttled;
        int64_t second = core->now.steady_ns / NS_PER_S;
        char room[KEY_HEAD + IDENTITY_BYTES];
        struct hash_node *found = hash_find(&t->counting, key_of(c, room));
        struct action *a = found ? CONTAINER_OF(found, struct action, node) : NULL;
        if (a && a->second == second) {
                a->times += 1 + c->more;
                return true;
        }
        if (!may_add(t, second))
                return true;
        if (a)
                stop_counting(t, a);
        return false;
}

void throttled_add(struct core *core, const struct throttled_check *c, enum tier tier,
                   struct slice target, const char *text)
{
        char room[KEY_HEAD + IDENTITY_BYTES], shown[TARGET_SHOWN];
        struct slice key = key_of(c, room);
        (void)snprintf(shown, sizeof(shown), "%.*s", (int)target.len, target.len ? target.ptr : "");
        struct action *a = action_new(core, shown, text);
        memcpy(a->key, key.ptr, key.len);
        a->key_len = key.len;
        a->is_job = false;
        a->is_done = !c->is_granted;
        a->times += c->more;
        a->job = 0;
        a->tier = tier;
        a->reason = check_reason_name(c->reason);
        a->is_counting = true;
        hash_insert(&core->throttled->counting, &a->node, slice_make(a->key, key.len));
}

/* Invariants: what the hash holds are the entries that count, each under its own key. */
void throttled_check(const struct throttled *t)
{
        size_t n = 0;
        for (size_t i = 0; i < THROTTLED_KEPT; i++) {
                const struct action *a = &t->actions[i];
                if (!a->is_counting)
                        continue;
                n++;
                ASSERT(hash_find(&t->counting, slice_make(a->key, a->key_len)) == &a->node);
        }
        ASSERT(n == t->counting.len);
}

static const char *verdict_of(const struct action *a)
{
        static const char *const verdicts[2][2] = {{"would_refuse", "refused"},
                                                   {"would_defer", "deferred"}};
        return verdicts[a->is_job][a->is_done];
}

static void tell_actions(struct reply *reply, const struct reply_items *items)
{
        const struct throttled *t = items->of;
        for (size_t i = 1; i <= items->n; i++) {
                const struct action *a = &t->actions[(t->n - i) % THROTTLED_KEPT];
                const struct throttled_action_reply told = {
                        .at_ms = a->wall_ms,
                        .kind = a->is_job ? "job" : "check",
                        .identity = slice_make(a->key + KEY_HEAD, a->key_len - KEY_HEAD),
                        .tier = tier_name(a->tier),
                        .verdict = verdict_of(a),
                        .reason = a->reason,
                        .target = a->target,
                        .text = a->text,
                        .job = a->is_job ? (int64_t)a->job : REPLY_NONE,
                        .times = (int64_t)a->times,
                };
                reply_throttled_action(reply, &told);
        }
}

int exec_throttled(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct throttled *t = core->throttled;
        size_t n = cmd->arg[0].is_set ? (size_t)cmd->arg[0].num : COUNT_DEFAULT;
        if (n > THROTTLED_KEPT)
                n = THROTTLED_KEPT;
        if (n > t->n)
                n = (size_t)t->n;
        const struct throttled_reply told = {{n, tell_actions, core, t}};
        reply_throttled(reply, &told);
        return OK;
}
