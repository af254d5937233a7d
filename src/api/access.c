/* See access.h.
 *
 * The check is on the path of every command: a role is a bit, and names are looked at only when the
 * token narrows them.  What is bound decides, not what was sent, so that a queue that was left out
 * is the default queue here as well. */
#include "api/access.h"

#include <stdlib.h>

#include "api/limits.h"
#include "api/params.h"
#include "base/shown.h"
#include "gate/registry.h"

static struct use_limits fill_in(struct use_limits l)
{
        return (struct use_limits){l.connections ? l.connections : LIMIT_TOKEN_CONNECTIONS,
                                   l.commands ? l.commands : LIMIT_TOKEN_COMMANDS,
                                   l.bytes ? l.bytes : LIMIT_TOKEN_BYTES};
}

struct grant *grant_new(const struct grant *from)
{
        const struct slice texts[] = {from->name, from->queues, from->identities, from->names,
                                      from->certificate};
        struct slice at[ARRAY_LEN(texts)];
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                n += texts[i].len;
        struct grant *g = xcalloc(1, sizeof(*g) + n);
        n = 0;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                at[i] = slice_make(g->bytes + n, texts[i].len);
                if (texts[i].len)
                        memcpy(g->bytes + n, texts[i].ptr, texts[i].len);
                n += texts[i].len;
        }
        g->refs = 1;
        g->roles = from->roles;
        g->held = roles_held(from->roles);
        g->limits = fill_in(from->limits);
        g->series = from->series;
        g->name = at[0];
        g->queues = at[1];
        g->identities = at[2];
        g->names = at[3];
        g->certificate = at[4];
        return g;
}

struct grant *grant_ref(struct grant *g)
{
        if (g)
                g->refs++;
        return g;
}

struct grant *grant_unref(struct grant *g)
{
        if (g && !--g->refs)
                free(g);
        return NULL;
}

static bool are_same(struct use_limits made, struct use_limits from)
{
        from = fill_in(from);
        return made.connections == from.connections && made.commands == from.commands &&
               made.bytes == from.bytes;
}

bool grant_is_same(const struct grant *made, const struct grant *from)
{
        const struct grant *a = made, *b = from;
        return a->roles == b->roles && a->series == b->series && are_same(a->limits, b->limits) &&
               slice_eq(a->name, b->name) && slice_eq(a->queues, b->queues) &&
               slice_eq(a->identities, b->identities) && slice_eq(a->names, b->names) &&
               slice_eq(a->certificate, b->certificate);
}

/* ---- patterns ---- */

static bool next_pattern(struct slice *rest, struct slice *ret)
{
        if (!rest->len)
                return false;
        const char *comma = memchr(rest->ptr, ',', rest->len);
        size_t n = comma ? (size_t)(comma - rest->ptr) : rest->len;
        *ret = slice_make(rest->ptr, n);
        n += comma != NULL;
        *rest = slice_make(rest->ptr + n, rest->len - n);
        return true;
}

static bool is_among(struct slice patterns, struct slice name)
{
        struct slice pattern;
        if (!patterns.len)
                return true;
        while (next_pattern(&patterns, &pattern))
                if (registry_matches(pattern, name))
                        return true;
        return false;
}

static int check_patterns(struct slice patterns, const char *what, struct problem *p)
{
        struct slice pattern;
        while (next_pattern(&patterns, &pattern))
                if (registry_check_pattern(pattern, NULL) != OK)
                        return problem_set(p, ERR_BADARG,
                                           "%s: '%s' is no pattern; write names of 1 to 255 bytes "
                                           "with commas between them, where * stands for any text",
                                           what, SHOWN(pattern));
        return OK;
}

/* It is shown in lists and sent as the user of AUTH and of HTTP's Basic. */
static bool is_name(struct slice name)
{
        static const char allowed[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
        for (size_t i = 0; i < name.len; i++)
                if (!name.ptr[i] || !strchr(allowed, name.ptr[i]))
                        return false;
        return name.len && name.len <= TOKEN_NAME_BYTES;
}

int access_check_grant(const struct grant *g, struct problem *p)
{
        const struct {
                struct slice patterns;
                const char *what;
                unsigned roles;
                const char *whose;
        } rows[] = {
                {g->queues, "queues", ROLE_BIT(ROLE_PRODUCER) | ROLE_BIT(ROLE_WORKER),
                 "producer or worker"},
                {g->identities, "identities", ROLE_BIT(ROLE_CHECKER), "checker"},
                {g->names, "names", ROLE_BIT(ROLE_LOCKER), "locker"},
        };
        bool is_operator = g->roles & (ROLE_BIT(ROLE_OPERATOR) | ROLE_BIT(ROLE_ADMIN));
        if (!is_name(g->name))
                return problem_set(p, ERR_BADARG,
                                   "a token needs a name of 1 to %d letters, digits, '-', '_' and "
                                   "'.', not '%s'",
                                   TOKEN_NAME_BYTES, SHOWN(g->name));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                if (!rows[i].patterns.len)
                        continue;
                if (is_operator)
                        return problem_set(p, ERR_BADARG,
                                           "%s narrow nothing for an operator or admin, who may "
                                           "use every name; leave them out",
                                           rows[i].what);
                if (!(g->roles & rows[i].roles))
                        return problem_set(p, ERR_BADARG,
                                           "%s narrow the role %s, which this token does not have",
                                           rows[i].what, rows[i].whose);
                int r = check_patterns(rows[i].patterns, rows[i].what, p);
                if (r != OK)
                        return r;
        }
        return OK;
}

/* ---- the check ---- */

static int refuse_role(const struct grant *g, enum role role, const char *what, struct problem *p)
{
        struct buf has;
        buf_init(&has, 0);
        roles_put(&has, g->roles);
        if (!g->roles)
                buf_put_str(&has, "none");
        (void)problem_set(p, ERR_FORBIDDEN, "%s needs the role %s; the token '%s' has %s", what,
                          role_name(role), SHOWN(g->name), buf_cstr(&has));
        buf_release(&has);
        return ERR_FORBIDDEN;
}

int access_check_role(const struct grant *g, enum role role, const char *what, struct problem *p)
{
        if (!g || role == ROLE_ANYONE || (g->held & ROLE_BIT(role)))
                return OK;
        return refuse_role(g, role, what, p);
}

static int check_name(const struct grant *g, struct slice patterns, const char *kind,
                      struct slice name, struct problem *p)
{
        if (is_among(patterns, name))
                return OK;
        return problem_set(p, ERR_FORBIDDEN, "the token '%s' is for the %s %s, not for '%s'",
                           SHOWN(g->name), kind, SHOWN(patterns), SHOWN(name));
}

int access_check_identity(const struct grant *g, struct slice identity, struct problem *p)
{
        return g ? check_name(g, g->identities, "identities", identity, p) : OK;
}

static int check_queue(const struct grant *g, struct slice queue, struct problem *p)
{
        return check_name(g, g->queues, "queues", queue.len ? queue : SLICE_LIT(JOB_QUEUE_DEFAULT),
                          p);
}

static int check_queues(const struct grant *g, const struct command *cmd, struct problem *p)
{
        int r = OK;
        for (size_t i = 0; i < cmd->n_specs && r == OK; i++)
                r = check_queue(g, cmd->specs[i].queue, p);
        for (size_t i = 0; i < cmd->claim.n_queues && r == OK; i++)
                r = check_queue(g, cmd->claim.queues[i], p);
        if (r == OK && cmd->def->id == CMD_BATCH)
                r = check_queue(g, cmd->arg[P_BATCH_QUEUE].text, p);
        return r;
}

static int check_lock(const struct grant *g, const struct command *cmd, struct problem *p)
{
        size_t at = cmd->def->id == CMD_SITELOCK || cmd->def->id == CMD_SITEUNLOCK
                            ? (size_t)P_SITELOCK_KEY
                            : (size_t)P_LOCK_NAME;
        return check_name(g, g->names, "names", cmd->arg[at].text, p);
}
_Static_assert((int)P_SITELOCK_KEY == (int)P_SITEUNLOCK_KEY, "both have it in one place");
_Static_assert(P_LOCK_NAME == 0 && P_UNLOCK_NAME == 0 && P_RENEW_NAME == 0 && P_TAKE_NAME == 0 &&
                       P_ASK_NAME == 0 && P_REPORT_NAME == 0,
               "the name comes first in all commands of a locker");

int access_check(const struct grant *g, const struct command *cmd, struct problem *p)
{
        if (!g)
                return OK;
        enum role role = cmd->def->role;
        int r = access_check_role(g, role, cmd->def->name, p);
        if (r != OK)
                return r;
        if ((role == ROLE_PRODUCER || role == ROLE_WORKER) && g->queues.len)
                return check_queues(g, cmd, p);
        if (role == ROLE_LOCKER && g->names.len)
                return check_lock(g, cmd, p);
        if (cmd->def->id == CMD_CHECK && g->identities.len)
                return access_check_identity(g, cmd->arg[P_CHECK_IDENTITY].text, p);
        return OK;
}
