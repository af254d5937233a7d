/* See token.h.
 *
 * Secrets are 192 random bits, so a plain SHA-256 of them cannot be turned round, and a lookup by
 * the hash tells nothing by its time.  A use is noted in the log at most once an hour for each
 * token: a client that connects for every job must not write the log full. */
#include "things/token.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "api/session.h"
#include "base/duration.h"
#include "base/shown.h"
#include "state/token.h"

#define SECRET_PREFIX "weir_" /* so that scanners of source code can find one */
#define SECRET_BYTES  24
#define SECRET_TEXT   (sizeof(SECRET_PREFIX) - 1 + 2UL * SECRET_BYTES)
#define KEEP_DEFAULT  MS_PER_DAY
#define USE_NOTE_MS   MS_PER_HOUR

struct key {
        struct hash_node node; /* by hash */
        struct secret hash;
        struct entry *entry;
};

struct entry {
        struct hash_node node; /* by the name of the grant */
        struct grant *grant;
        bool is_configured;
        size_t n_keys;
        struct key keys[TOKEN_SECRETS];
        int64_t used_ms; /* 0: never */
        char used_from[sizeof(((struct session *)0)->address)];
};

struct tokens {
        struct token_setup *setups;
        size_t n_setups;
        struct entry **entries;
        size_t n_entries;
        struct hash by_name, by_secret;
        uint64_t seen;      /* state.tokens_version that the table was built from */
        uint64_t version;   /* of the table */
        bool is_configured; /* anew, since the table was built */
        bool is_needed;
};

/* ---- the table ---- */

static struct entry *entry_free(struct entry *e)
{
        (void)grant_unref(e->grant); /* NULL */
        free(e);
        return NULL;
}

static struct entry *find_name(const struct tokens *t, struct slice name)
{
        struct hash_node *node = hash_find(&t->by_name, name);
        return node ? CONTAINER_OF(node, struct entry, node) : NULL;
}

static void add_key(struct tokens *t, struct entry *e, const struct secret *hash)
{
        struct slice key = slice_make(hash->hash, sizeof(hash->hash));
        if (hash_find(&t->by_secret, key))
                return; /* two tokens with one secret: the first has it */
        struct key *k = &e->keys[e->n_keys++];
        k->hash = *hash;
        k->entry = e;
        hash_insert(&t->by_secret, &k->node, slice_make(k->hash.hash, sizeof(k->hash.hash)));
}

/* The grant of the same name from before stays when it says the same. */
static struct entry *add_entry(struct tokens *t, const struct tokens *old, const struct grant *is)
{
        struct entry *e = xcalloc(1, sizeof(*e));
        const struct entry *was = find_name(old, is->name);
        if (was && grant_is_same(was->grant, is))
                e->grant = grant_ref(was->grant);
        else
                e->grant = grant_new(is);
        if (was) {
                e->used_ms = was->used_ms;
                memcpy(e->used_from, was->used_from, sizeof(e->used_from));
        }
        t->entries[t->n_entries++] = e;
        hash_insert(&t->by_name, &e->node, e->grant->name);
        return e;
}

static void add_setup(struct tokens *t, const struct tokens *old, const struct token_setup *is)
{
        struct entry *e = add_entry(t, old, is->grant);
        e->is_configured = true;
        for (size_t i = 0; i < is->n_secrets; i++)
                add_key(t, e, &is->secrets[i]);
        t->is_needed = true;
}

static struct secret secret_of(struct slice hash)
{
        struct secret s;
        ASSERT(hash.len == sizeof(s.hash));
        memcpy(s.hash, hash.ptr, sizeof(s.hash));
        return s;
}

static struct grant grant_of(const struct token *token)
{
        return (struct grant){
                .name = thing_name(&token->thing),
                .roles = token->is.roles,
                .queues = token->is.queues,
                .identities = token->is.identities,
                .names = token->is.names,
                .series = token->is.series,
                .limits = {token->is.connections, token->is.commands, token->is.bytes}};
}

static void add_token(struct tokens *t, const struct tokens *old, const struct token *token)
{
        struct grant is = grant_of(token);
        if (find_name(t, is.name))
                return; /* hidden by the configuration */
        struct entry *e = add_entry(t, old, &is);
        struct secret secret = secret_of(token->is.secret);
        add_key(t, e, &secret);
        if (token->is.old_secret.len) {
                secret = secret_of(token->is.old_secret);
                add_key(t, e, &secret);
        }
        if (token->is.used_ms > e->used_ms) {
                e->used_ms = token->is.used_ms;
                (void)snprintf(e->used_from, sizeof(e->used_from), "%.*s",
                               (int)token->is.used_from.len, token->is.used_from.ptr);
        }
        t->is_needed |= (token->is.roles & ROLE_BIT(ROLE_ADMIN)) != 0;
}

static void release_table(struct tokens *t)
{
        for (size_t i = 0; i < t->n_entries; i++)
                (void)entry_free(t->entries[i]); /* NULL */
        free(t->entries);
        hash_release(&t->by_name);
        hash_release(&t->by_secret);
}

static void end_missing(const struct tokens *old, const struct tokens *t)
{
        for (size_t i = 0; i < old->n_entries; i++) {
                const struct entry *now = find_name(t, old->entries[i]->grant->name);
                if (!now || now->grant != old->entries[i]->grant)
                        old->entries[i]->grant->is_ended = true;
        }
}

static void build(struct core *core, struct tokens *t)
{
        struct tokens old = *t;
        const struct hash *tokens = &core->state.things[THING_TOKEN];
        size_t n = t->n_setups + tokens->len;
        t->entries = n ? xcalloc(n, sizeof(struct entry *)) : NULL;
        t->n_entries = 0;
        t->is_needed = t->is_configured = false;
        hash_init(&t->by_name, core->state.queues.seed);
        hash_init(&t->by_secret, core->state.queues.seed);
        for (size_t i = 0; i < t->n_setups; i++)
                add_setup(t, &old, &t->setups[i]);
        for (struct hash_node *it = NULL; (it = hash_next(tokens, it));)
                add_token(t, &old, token_of(CONTAINER_OF(it, struct thing, node)));
        end_missing(&old, t);
        release_table(&old);
        t->seen = core->state.tokens_version;
        t->version++;
}

static struct tokens *table(struct core *core)
{
        struct tokens *t = core->tokens;
        if (t->seen != core->state.tokens_version || t->is_configured)
                build(core, t);
        return t;
}

static void free_setups(struct tokens *t)
{
        for (size_t i = 0; i < t->n_setups; i++)
                (void)grant_unref(t->setups[i].grant); /* NULL */
        free(t->setups);
        t->setups = NULL;
        t->n_setups = 0;
}

void tokens_configure(struct core *core, const struct token_setup *setups, size_t n)
{
        struct tokens *t = core->tokens;
        free_setups(t);
        t->setups = n ? xcalloc(n, sizeof(struct token_setup)) : NULL;
        for (; t->n_setups < n; t->n_setups++) {
                t->setups[t->n_setups] = setups[t->n_setups];
                (void)grant_ref(setups[t->n_setups].grant); /* itself */
        }
        t->is_configured = true;
}

static void init(struct core *core)
{
        core->tokens = xcalloc(1, sizeof(*core->tokens));
        hash_init(&core->tokens->by_name, core->state.queues.seed);
        hash_init(&core->tokens->by_secret, core->state.queues.seed);
}

static void release(struct core *core)
{
        release_table(core->tokens);
        free_setups(core->tokens);
        free(core->tokens);
        core->tokens = NULL;
}

const struct feature tokens_feature = {.name = "tokens", .init = init, .release = release};

/* ---- asked by the door ---- */

bool tokens_are_needed(struct core *core)
{
        return table(core)->is_needed;
}

uint64_t tokens_version(struct core *core)
{
        return table(core)->version;
}

void tokens_each(struct core *core, void (*fn)(void *ctx, const struct grant *g), void *ctx)
{
        const struct tokens *t = table(core);
        for (size_t i = 0; i < t->n_entries; i++)
                fn(ctx, t->entries[i]->grant);
}

static void note_use(struct core *core, struct entry *e, const char *address)
{
        struct problem ignored;
        e->used_ms = core->now.wall_ms;
        (void)snprintf(e->used_from, sizeof(e->used_from), "%s", address);
        struct thing *t = thing_find(&core->state, THING_TOKEN, e->grant->name);
        if (core_is_following(core) || e->is_configured || !t ||
            e->used_ms - token_of(t)->is.used_ms < USE_NOTE_MS ||
            core_admit(core, 512, 0, &ignored) != OK)
                return;
        buf_clear(&core->body);
        put_time(&core->body, e->used_ms);
        buf_put_lv(&core->body, slice_str(e->used_from));
        thing_note(core, t, buf_slice(&core->body));
}

/* Who sends a name with the secret of token_file may send any, as with one password for all. */
static bool is_called(const struct entry *e, struct slice user)
{
        struct slice fallback = SLICE_LIT(TOKEN_DEFAULT_NAME);
        return !user.len || slice_eq(user, fallback) || slice_eq(e->grant->name, fallback) ||
               slice_eq(user, e->grant->name);
}

struct grant *tokens_find(struct core *core, struct slice user, struct slice secret,
                          const char *address)
{
        struct secret hash;
        secret_init(&hash, secret);
        struct hash_node *node =
                hash_find(&table(core)->by_secret, slice_make(hash.hash, sizeof(hash.hash)));
        struct entry *e = node ? CONTAINER_OF(node, struct key, node)->entry : NULL;
        if (!e || !is_called(e, user))
                return NULL;
        note_use(core, e, address);
        return e->grant;
}

struct grant *tokens_find_certified(struct core *core, struct slice name, const char *address)
{
        struct tokens *t = table(core);
        for (size_t i = 0; i < t->n_entries; i++) {
                struct entry *e = t->entries[i];
                if (!e->grant->certificate.len || !slice_eq(e->grant->certificate, name))
                        continue;
                note_use(core, e, address);
                return e->grant;
        }
        return NULL;
}

struct grant *tokens_find_named(struct core *core, struct slice name, const char *address)
{
        struct entry *e = find_name(table(core), name);
        if (!e)
                return NULL;
        note_use(core, e, address);
        return e->grant;
}

/* ---- commands ---- */

static int no_token(struct slice name, struct problem *p)
{
        return problem_set(p, ERR_NOTFOUND, "there is no token '%s' that a command has added",
                           SHOWN(name));
}

/* A server that nobody has to show a token to would be closed to all by the first one, unless it is
 * an admin's. */
static int check_new(struct core *core, const struct grant *g, struct problem *p)
{
        const struct entry *e = find_name(table(core), g->name);
        if (e || slice_eq(g->name, SLICE_LIT(TOKEN_DEFAULT_NAME)))
                return problem_set(p, ERR_CONFLICT, "there is a token '%s' already%s",
                                   SHOWN(g->name),
                                   !e || e->is_configured ? ", in the configuration" : "");
        if (!tokens_are_needed(core) && !(g->roles & ROLE_BIT(ROLE_ADMIN)))
                return problem_set(p, ERR_STATE,
                                   "nobody has to show a token here yet; add one with the role "
                                   "admin first, or set token_file");
        if (core->state.things[THING_TOKEN].len >= LIMIT_TOKENS)
                return problem_set(p, ERR_LIMIT, "there are %d tokens already", LIMIT_TOKENS);
        return OK;
}

static void make_secret(struct core *core, char text[SECRET_TEXT + 1], struct secret *ret)
{
        uint8_t bytes[SECRET_BYTES];
        rng_fill(core->options.rng, bytes, sizeof(bytes));
        memcpy(text, SECRET_PREFIX, sizeof(SECRET_PREFIX) - 1);
        hex_from_bytes(bytes, sizeof(bytes), text + sizeof(SECRET_PREFIX) - 1);
        text[SECRET_TEXT] = '\0';
        secret_init(ret, slice_make(text, SECRET_TEXT));
}

static void tell_secret(struct reply *reply, struct slice name, const struct token_body *is,
                        const char *text)
{
        struct buf role;
        buf_init(&role, 0);
        roles_put(&role, is->roles);
        const struct token_secret_reply told = {.name = name,
                                                .secret = slice_str(text),
                                                .role = buf_slice(&role),
                                                .until_ms = is->until_ms,
                                                .old_until_ms = is->old_until_ms};
        reply_token_secret(reply, &told);
        buf_release(&role);
}

static void set_token(struct core *core, struct slice name, const struct token_body *is)
{
        buf_clear(&core->body);
        token_body_put(is, &core->body);
        thing_set(core, THING_TOKEN, name, buf_slice(&core->body));
}

int exec_tokenadd(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* the role says who may */
        struct grant g = {.name = cmd->arg[P_TOKENADD_NAME].text,
                          .queues = cmd->arg[P_TOKENADD_QUEUES].text,
                          .identities = cmd->arg[P_TOKENADD_IDENTITIES].text,
                          .names = cmd->arg[P_TOKENADD_NAMES].text};
        const struct arg *span = &cmd->arg[P_TOKENADD_FOR];
        char text[SECRET_TEXT + 1];
        struct secret secret;
        int r = roles_parse(cmd->arg[P_TOKENADD_ROLE].text, &g.roles, problem);
        if (r == OK)
                r = access_check_grant(&g, problem);
        if (r == OK)
                r = check_new(core, &g, problem);
        if (r == OK)
                r = core_admit(core, 512 + g.queues.len + g.identities.len + g.names.len, 0,
                               problem);
        if (r != OK)
                return r;
        make_secret(core, text, &secret);
        struct token_body is = {
                .roles = g.roles,
                .queues = g.queues,
                .identities = g.identities,
                .names = g.names,
                .secret = slice_make(secret.hash, sizeof(secret.hash)),
                .made_ms = core->now.wall_ms,
                .until_ms = span->is_set ? core->now.wall_ms + span->num : 0,
                .connections = (uint32_t)cmd->arg[P_TOKENADD_CONNECTIONS].num,
                .commands = (uint32_t)cmd->arg[P_TOKENADD_COMMANDS].num,
                .bytes = (uint64_t)cmd->arg[P_TOKENADD_MEMORY].num,
        };
        set_token(core, g.name, &is);
        tell_secret(reply, g.name, &is, text);
        explicit_bzero(text, sizeof(text));
        return OK;
}

int exec_tokenrotate(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session;
        struct slice name = cmd->arg[P_TOKENROTATE_NAME].text;
        const struct arg *keep = &cmd->arg[P_TOKENROTATE_KEEP];
        const struct thing *t = thing_find(&core->state, THING_TOKEN, name);
        int64_t keep_ms = keep->is_set ? keep->num : KEEP_DEFAULT;
        char text[SECRET_TEXT + 1];
        struct secret secret;
        if (!t)
                return no_token(name, problem);
        make_secret(core, text, &secret);
        struct token_body is = token_of(t)->is;
        is.series += !keep_ms; /* whoever has the old one may be connected */
        is.old_secret = keep_ms ? is.secret : SLICE_NONE;
        is.old_until_ms = keep_ms ? core->now.wall_ms + keep_ms : 0;
        is.secret = slice_make(secret.hash, sizeof(secret.hash));
        set_token(core, name, &is);
        tell_secret(reply, name, &is, text);
        explicit_bzero(text, sizeof(text));
        return OK;
}

static bool has_other_admin(struct core *core, struct slice name)
{
        const struct tokens *t = table(core);
        for (size_t i = 0; i < t->n_entries; i++) {
                const struct grant *g = t->entries[i]->grant;
                if (g->roles & ROLE_BIT(ROLE_ADMIN) && !slice_eq(g->name, name))
                        return true;
        }
        return false;
}

int exec_tokenremove(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session;
        struct slice name = cmd->arg[P_TOKENREMOVE_NAME].text;
        struct thing *t = thing_find(&core->state, THING_TOKEN, name);
        if (!t)
                return no_token(name, problem);
        if (table(core)->n_entries > 1 && !has_other_admin(core, name))
                return problem_set(problem, ERR_STATE,
                                   "'%s' is the last token with the role admin; add another one "
                                   "first, or remove the other tokens",
                                   SHOWN(name));
        thing_gone(core, t);
        reply_ok(reply);
        return OK;
}

static void tell_entry(const struct core *core, struct reply *reply, const struct entry *e)
{
        static const struct token_body configured;
        const struct thing *t =
                e->is_configured ? NULL : thing_find(&core->state, THING_TOKEN, e->grant->name);
        const struct token_body *is = t ? &token_of(t)->is : &configured;
        struct buf role;
        buf_init(&role, 0);
        roles_put(&role, e->grant->roles);
        const struct token_reply told = {
                .name = e->grant->name,
                .role = buf_slice(&role),
                .queues = e->grant->queues,
                .identities = e->grant->identities,
                .names = e->grant->names,
                .certificate = e->grant->certificate,
                .source = e->is_configured ? "file" : "command",
                .connections = (int64_t)e->grant->limits.connections,
                .commands = (int64_t)e->grant->limits.commands,
                .memory = (int64_t)e->grant->limits.bytes,
                .made_ms = is->made_ms,
                .until_ms = is->until_ms,
                .old_until_ms = is->old_until_ms,
                .used_ms = e->used_ms,
                .used_from = slice_str(e->used_from),
        };
        reply_token(reply, &told);
        buf_release(&role);
}

static void tell_entries(struct reply *reply, const struct reply_items *items)
{
        struct entry *const *entries = items->of;
        for (size_t i = 0; i < items->n; i++)
                tell_entry(items->core, reply, entries[i]);
}

static int compare(const void *left, const void *right)
{
        const struct entry *const *a = left, *const *b = right;
        return slice_cmp((*a)->grant->name, (*b)->grant->name);
}

int exec_tokens(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session;
        (void)cmd;
        (void)problem;
        const struct tokens *t = table(core);
        if (t->n_entries)
                qsort(t->entries, t->n_entries, sizeof(struct entry *), compare);
        const struct tokens_reply told = {{t->n_entries, tell_entries, core, t->entries}};
        reply_tokens(reply, &told);
        return OK;
}

/* Its end, or that of its older secret. */
void token_due(struct core *core, struct thing *t)
{
        const struct token *token = token_of(t);
        if (token->is.until_ms && token->is.until_ms <= core->now.wall_ms) {
                thing_gone(core, t);
                return;
        }
        struct token_body is = token->is;
        if (is.old_until_ms && is.old_until_ms <= core->now.wall_ms) {
                is.old_secret = SLICE_NONE;
                is.old_until_ms = 0;
        }
        set_token(core, thing_name(t), &is);
}
