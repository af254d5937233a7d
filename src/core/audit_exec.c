/* Commands that are audited: what is done before and after them.  See audit.h.
 *
 * A command that is done when it returns has its entry in the same batch.  One that goes on (for
 * many jobs, or with a question to history) gets an entry when it begins, and what came of it when
 * it answers: the session's ops are ours for that time, as with idempotency keys (answer.c).  When
 * the client goes away or weir stops, the entry says no more than that it began.
 *
 * What wrote nothing into the log changed nothing (a queue that was paused already, THROTTLE
 * STATUS), and has no entry; but for commands that change what the log does not hold. */
#include <stdlib.h>

#include "api/access.h"
#include "base/shown.h"
#include "core/answer_tape.h"
#include "core/audit_int.h"
#include "wire/json.h"

/* Answers that are looked at are short. */
#define ANSWER_MAX (64 * KIB)

/* ---- which ---- */

bool audit_wants(const struct command_def *def)
{
        return def->role >= ROLE_OPERATOR && def->method && strcmp(def->method, "GET") != 0;
}

static bool is_trial(const struct command *cmd)
{
        int i = command_param(cmd->def, SLICE_LIT("dryrun"));
        return i >= 0 && cmd->arg[i].is_set && cmd->arg[i].num;
}

/* It gets the answer of the first time. */
static bool is_repeated(const struct core *core, const struct command *cmd)
{
        return cmd->idempotency.len && thing_find(&core->state, THING_ANSWER, cmd->idempotency);
}

/* ---- who and what ---- */

void audit_by(const struct session *s, char role[ROLE_TEXT_BYTES], struct audit_entry *ret)
{
        struct buf roles CLEANUP(buf_release) = {0};
        role[0] = '\0';
        if (s->grant) {
                roles_put(&roles, s->grant->roles);
                (void)shown_put(role, ROLE_TEXT_BYTES, buf_slice(&roles));
        }
        ret->who = s->grant ? s->grant->name : SLICE_LIT("nobody");
        ret->role = slice_str(role);
        ret->address = slice_str(s->address);
        ret->door = slice_str(session_door_name(s));
}

static bool is_plain(struct slice word)
{
        for (size_t i = 0; i < word.len; i++)
                if (word.ptr[i] <= ' ' || word.ptr[i] == '"' || word.ptr[i] == 0x7f)
                        return false;
        return word.len > 0;
}

static void put_word(struct buf *b, struct slice word)
{
        buf_put_byte(b, ' ');
        if (is_plain(word))
                buf_put_slice(b, word);
        else
                json_put_text_lossy(b, word);
}

static void put_choice(struct buf *b, const struct param_def *p, int64_t n)
{
        struct slice words = param_choices(p);
        const char *bar;
        while (n-- > 0 && (bar = memchr(words.ptr, '|', words.len)) != NULL)
                words = slice_make(bar + 1, words.len - (size_t)(bar + 1 - words.ptr));
        bar = memchr(words.ptr, '|', words.len);
        put_word(b, bar ? slice_make(words.ptr, (size_t)(bar - words.ptr)) : words);
}

static void put_names(struct buf *b, const struct claim_spec *claim)
{
        for (size_t i = 0; i < claim->n_queues; i++)
                put_word(b, claim->queues[i]);
}

static void put_arg(struct buf *b, const struct command *cmd, size_t i)
{
        const struct param_def *p = &cmd->def->params[i];
        const struct arg *arg = &cmd->arg[i];
        switch (p->type) {
        case PARAM_NAME:
        case PARAM_TEXT:
        case PARAM_IDS:
                put_word(b, arg->text);
                break;
        case PARAM_INT:
        case PARAM_ID:
                buf_printf(b, " %lld", (long long)arg->num);
                break;
        case PARAM_STATUS:
                put_word(b, slice_str(job_status_name((enum job_status)arg->num)));
                break;
        case PARAM_CHOICE:
                put_choice(b, p, arg->num);
                break;
        case PARAM_NAMES:
                put_names(b, &cmd->claim);
                break;
        case PARAM_BYTES:
                buf_printf(b, " (%zu bytes)", arg->text.len);
                break;
        case PARAM_TOKEN:
                buf_put_str(b, " (hidden)");
                break;
        case PARAM_FLAG: /* the keyword says it */
        case PARAM_JOBS: /* of no command that is audited */
        case PARAM_CLAIM:
                break;
        }
}

void audit_put_what(const struct command *cmd, struct buf *ret)
{
        buf_put_str(ret, cmd->def->name);
        for (size_t i = 0; i < cmd->def->n_params; i++) {
                const struct param_def *p = &cmd->def->params[i];
                if (!cmd->arg[i].is_set || (p->type == PARAM_FLAG && !cmd->arg[i].num))
                        continue;
                if (p->flags & PARAM_KEYWORD)
                        buf_put_byte(ret, ' ');
                for (size_t k = 0; (p->flags & PARAM_KEYWORD) && k < p->name_len; k++)
                        buf_put_byte(ret, (char)(p->name[k] & ~0x20));
                put_arg(ret, cmd, i);
        }
}

/* ---- a command under way ---- */

struct session_audit {
        struct session_ops ops;         /* what the session has meanwhile */
        const struct session_ops *door; /* and what it had before */
        struct core *core;
        const struct command *cmd;     /* NULL: it was answered "later", and its bytes are gone */
        const struct audit_noun *noun; /* NULL: no look at anything */
        struct audit_show show;        /* of the noun, when it is looked at */
        struct buf was;                /* the look before */
        struct tape tape;
        struct buf answer; /* on tape */
        uint64_t number;   /* of its entry, once it is open */
        char role[ROLE_TEXT_BYTES];
};

static bool has_look(const struct session_audit *a)
{
        return a->noun && !audit_is_answer(a->noun);
}

static struct reply *reply_begin_audited(struct session *s);
static void reply_end_audited(struct session *s);

static struct session_audit *begin(struct core *core, struct session *s, const struct command *cmd)
{
        struct session_audit *a = xcalloc(1, sizeof(*a));
        a->ops = (struct session_ops){reply_begin_audited, reply_end_audited};
        a->door = s->ops;
        a->core = core;
        a->cmd = cmd;
        a->noun = audit_noun_of(cmd->def);
        buf_init(&a->answer, ANSWER_MAX);
        if (has_look(a)) {
                audit_show_init(&a->show, a->noun, cmd);
                audit_look(core, &a->show, &a->was);
        }
        s->ops = &a->ops;
        s->audit = a;
        return a;
}

static void end(struct session *s)
{
        struct session_audit *a = s->audit;
        s->ops = a->door;
        s->audit = NULL;
        audit_show_release(&a->show);
        buf_release(&a->was);
        buf_release(&a->answer);
        free(a);
}

/* What came of it. */
static void put_change(struct session_audit *a, struct buf *before, struct buf *after)
{
        if (a->tape.is_error) {
                buf_put_byte(after, '{');
                json_put_key(after, "error");
                json_put_text_lossy(after, slice_str(a->tape.problem.detail));
                buf_put_byte(after, '}');
        } else if (has_look(a)) {
                struct buf is CLEANUP(buf_release) = {0};
                audit_look(a->core, &a->show, &is);
                audit_diff(&a->show, buf_slice(&a->was), buf_slice(&is), before, after);
        } else if (a->noun && a->answer.len && !a->answer.failed) {
                audit_put_answer(buf_slice(&a->answer), after);
        }
}

/* The command is still there. */
static void put_entry(struct session_audit *a, const struct session *s, bool is_done)
{
        struct buf what CLEANUP(buf_release) = {0}, before CLEANUP(buf_release) = {0};
        struct buf after CLEANUP(buf_release) = {0};
        struct audit_entry e = {.command = slice_str(a->cmd->def->name)};
        int reason = command_param(a->cmd->def, SLICE_LIT("reason"));
        audit_by(s, a->role, &e);
        audit_put_what(a->cmd, &what);
        if (is_done)
                put_change(a, &before, &after);
        e.what = buf_slice(&what);
        e.before = buf_slice(&before);
        e.after = buf_slice(&after);
        if (reason >= 0 && a->cmd->arg[reason].is_set)
                e.reason = a->cmd->arg[reason].text;
        if (is_done)
                core_audit(a->core, &e);
        else
                a->number = audit_open(a->core, &e);
}

static void complete_entry(struct session_audit *a, const struct session *s)
{
        struct buf before CLEANUP(buf_release) = {0}, after CLEANUP(buf_release) = {0};
        if (a->tape.is_error && !s->is_partial) {
                audit_forget(a->core, a->number);
                return;
        }
        put_change(a, &before, &after);
        struct slice was = buf_slice(&before), is = buf_slice(&after);
        audit_close(a->core, a->number, &was, &is);
}

static struct reply *reply_begin_audited(struct session *s)
{
        struct session_audit *a = s->audit;
        buf_clear(&a->answer);
        tape_init(&a->tape, a->door->reply_begin(s), &a->answer);
        return &a->tape.reply;
}

static void reply_end_audited(struct session *s)
{
        struct session_audit *a = s->audit;
        const struct session_ops *door = a->door;
        if (!a->cmd)
                complete_entry(a, s);
        else if (!a->tape.is_error)
                put_entry(a, s, true);
        s->is_partial = false;
        end(s);
        door->reply_end(s); /* its reply waits for the entry as well */
}

void audit_cancel(struct session *s)
{
        if (!s->audit)
                return;
        audit_close(s->audit->core, s->audit->number, NULL, NULL);
        end(s);
}

static size_t written(const struct core *core)
{
        return core->batch[core->open].len;
}

int audit_exec(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        if (!audit_wants(cmd->def) || is_trial(cmd) || is_repeated(core, cmd))
                return core_run(core, session, cmd, reply, problem);
        struct session_audit *a = begin(core, session, cmd);
        bool is_answer = a->noun && audit_is_answer(a->noun);
        bool is_always = is_answer || !(cmd->def->flags & COMMAND_WRITE);
        size_t before = written(core);
        if (is_answer) {
                tape_init(&a->tape, reply, &a->answer);
                reply = &a->tape.reply;
        }
        int r = core_run(core, session, cmd, reply, problem);
        if (session->audit != a) /* answered through the session, with its entry */
                return r;
        if (r == CORE_LATER) {
                put_entry(a, session, false);
                a->cmd = NULL;
                return r;
        }
        if (r == OK && !a->tape.is_error && (is_always || written(core) > before))
                put_entry(a, session, true);
        end(session);
        return r;
}
