/* Access tokens out of the configuration file.
 *
 *      token "ci" {
 *              role = {"producer", "worker"}
 *              queues = {"build-*"}
 *              secret_file = "/etc/weir/ci.token"
 *      }
 *
 * A file may have two lines: during a rotation the old secret and the new one are valid. */
#include "serve/config_tokens.h"

#include <confuse.h>
#include <stdlib.h>

#include "base/shown.h"
#include "serve/config.h"
#include "serve/config_rows.h"

/* ---- secrets ---- */

void config_secrets_release(struct config_secrets *s)
{
        for (size_t i = 0; i < s->n; i++) {
                explicit_bzero(s->text[i], strlen(s->text[i]));
                free(s->text[i]);
        }
        *s = (struct config_secrets){.n = 0};
}

bool config_secrets_are_same(const struct config_secrets *a, const struct config_secrets *b)
{
        bool is_same = a->n == b->n;
        for (size_t i = 0; is_same && i < a->n; i++)
                is_same = strcmp(a->text[i], b->text[i]) == 0;
        return is_same;
}

static int add_line(struct config_secrets *s, struct slice line)
{
        while (line.len && line.ptr[line.len - 1] == '\r')
                line.len--;
        if (s->n == TOKEN_SECRETS || line.len < TOKEN_MIN_BYTES || line.len > TOKEN_MAX_BYTES ||
            memchr(line.ptr, '\0', line.len))
                return ERR_BADARG;
        char *text = xmalloc(line.len + 1);
        memcpy(text, line.ptr, line.len);
        text[line.len] = '\0';
        s->text[s->n++] = text;
        return OK;
}

static int split(struct config_secrets *s, struct slice text)
{
        int r = text.len ? OK : ERR_BADARG;
        while (r == OK && text.len) {
                const char *end = memchr(text.ptr, '\n', text.len);
                size_t n = end ? (size_t)(end - text.ptr) : text.len;
                r = add_line(s, slice_make(text.ptr, n));
                n += end != NULL;
                text = slice_make(text.ptr + n, text.len - n);
        }
        return r;
}

int config_secrets_read(struct config_secrets *ret, const char *what, const char *path,
                        struct problem *problem)
{
        char text[TOKEN_SECRETS * (TOKEN_MAX_BYTES + 2) + 2];
        *ret = (struct config_secrets){.n = 0};
        int n = config_read_secret(what, path, text, sizeof(text), problem);
        if (n < 0)
                return n;
        int r = split(ret, slice_make(text, (size_t)n));
        explicit_bzero(text, sizeof(text));
        if (r == OK)
                return OK;
        config_secrets_release(ret);
        return problem_set(problem, ERR_BADARG,
                           "%s %s must hold one line of %d to %d characters, or two while the "
                           "token is changed",
                           what, path, TOKEN_MIN_BYTES, TOKEN_MAX_BYTES);
}

/* ---- sections ---- */

void config_token_init(struct config_token *t)
{
        *t = (struct config_token){.name = ""};
        const struct config_at at = {.section = SECTION_TOKEN, .own = t};
        config_rows_init(&at);
}

static struct slice join(struct buf *b, char *const *texts, size_t n)
{
        buf_init(b, 0);
        for (size_t i = 0; i < n; i++) {
                if (i)
                        buf_put_byte(b, ',');
                buf_put_str(b, texts[i]);
        }
        return buf_slice(b);
}

static int make_grant(const struct config_at *at, struct config_token *t)
{
        struct buf text[4];
        struct problem why;
        struct grant g = {.name = slice_str(t->name),
                          .limits = {t->connections, t->commands, t->bytes}};
        int r = roles_parse(join(&text[0], t->roles, t->n_roles), &g.roles, &why);
        g.queues = join(&text[1], t->queues, t->n_queues);
        g.identities = join(&text[2], t->identities, t->n_identities);
        g.names = join(&text[3], t->names, t->n_names);
        g.certificate = slice_str(t->certificate ? t->certificate : "");
        if (r == OK)
                r = access_check_grant(&g, &why);
        if (r == OK)
                t->grant = grant_new(&g);
        for (size_t i = 0; i < ARRAY_LEN(text); i++)
                buf_release(&text[i]);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

static int take_secret(const struct config_at *at, struct config_token *t)
{
        struct problem why;
        if (!t->secret_file && !t->certificate)
                return config_wrong(at, ERR_BADARG,
                                    "secret_file is missing: the path of a file with the secret; "
                                    "or certificate, a name in the client's certificate");
        if (!t->secret_file)
                return OK;
        int r = config_secrets_read(&t->secrets, "secret file", t->secret_file, &why);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

static int take_token(struct config_token *t, cfg_t *cfg, struct problem *problem)
{
        const char *name = cfg_title(cfg);
        struct config_at at = {.section = SECTION_TOKEN, .own = t, .problem = problem};
        (void)snprintf(at.where, sizeof(at.where), "token \"%s\": ", SHOWN_STR(name));
        config_token_init(t);
        if (strcmp(name, TOKEN_DEFAULT_NAME) == 0)
                return config_wrong(&at, ERR_BADARG,
                                    "that is the name of token_file; take another one");
        if (strlen(name) > TOKEN_NAME_BYTES)
                return config_wrong(&at, ERR_BADARG, "the name of a token has at most %d bytes",
                                    TOKEN_NAME_BYTES);
        (void)snprintf(t->name, sizeof(t->name), "%s", name); /* make_grant() checks the rest */
        int r = config_rows_take(&at, cfg);
        if (r == OK)
                r = make_grant(&at, t);
        return r == OK ? take_secret(&at, t) : r;
}

int config_tokens_take(struct config_tokens *t, cfg_t *cfg, struct problem *problem)
{
        unsigned n = cfg_size(cfg, "token");
        int r = OK;
        if (n > CONFIG_TOKENS_MAX)
                return problem_set(problem, ERR_BADARG, "more than %d token sections",
                                   CONFIG_TOKENS_MAX);
        t->tokens = xcalloc(n + 1, sizeof(*t->tokens));
        for (unsigned i = 0; r == OK && i < n; i++)
                r = take_token(&t->tokens[t->n++], cfg_getnsec(cfg, "token", i), problem);
        return r;
}

void config_tokens_release(struct config_tokens *t)
{
        for (size_t i = 0; i < t->n; i++) {
                const struct config_at at = {.section = SECTION_TOKEN, .own = &t->tokens[i]};
                config_rows_release(&at);
                config_secrets_release(&t->tokens[i].secrets);
                (void)grant_unref(t->tokens[i].grant); /* NULL */
        }
        free(t->tokens);
        *t = (struct config_tokens){.n = 0};
}

/* ---- for the core ---- */

static void set_up(struct token_setup *ret, struct grant *grant, const struct config_secrets *s)
{
        ret->grant = grant;
        for (ret->n_secrets = 0; ret->n_secrets < s->n; ret->n_secrets++)
                secret_init(&ret->secrets[ret->n_secrets], slice_str(s->text[ret->n_secrets]));
}

void config_tokens_apply(const struct config_tokens *t, const struct config_secrets *all,
                         struct core *core)
{
        struct token_setup *setups = xcalloc(t->n + 1, sizeof(*setups));
        struct grant *grant = grant_new(&(struct grant){.name = SLICE_LIT(TOKEN_DEFAULT_NAME),
                                                        .roles = ROLE_BIT(ROLE_ADMIN)});
        size_t n = 0;
        if (all->n)
                set_up(&setups[n++], grant, all);
        for (size_t i = 0; i < t->n; i++)
                set_up(&setups[n++], t->tokens[i].grant, &t->tokens[i].secrets);
        tokens_configure(core, setups, n);
        (void)grant_unref(grant); /* NULL */
        free(setups);
}
