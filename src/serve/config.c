/* The configuration file, parsed by libconfuse with options made from the rows of
 * api/setting_table.def.
 *
 * weir reads the file at start and on a reload (serve/reload.c).  A wrong value stops either; the
 * error names the line and what is allowed. */
#include "serve/config.h"

#include <confuse.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cli/conf_file.h"
#include "cli/options.h"
#include "cli/text.h"
#include "door/address.h"
#include "door/server.h"
#include "serve/config_lines.h"
#include "serve/config_paths.h"
#include "serve/config_rows.h"

#define SIGNING_FILE_MAX 16384
#define FILE_MAX_BYTES   (4 * MIB)
#define OPTIONS_MAX      64 /* of one section; what is beyond is not suggested */

static struct config_at top_of(struct config *c, struct problem *problem)
{
        return (struct config_at){.section = SECTION_TOP, .own = c, .problem = problem};
}

void config_init(struct config *c)
{
        *c = (struct config){0};
        struct config_at at = top_of(c, NULL);
        config_rows_init(&at);
        at.section = SECTION_LOCKS;
        config_rows_init(&at);
        at.section = SECTION_TLS;
        config_rows_init(&at);
        sign_keys_init(&c->sign_keys);
        config_throttle_init(&c->throttle);
        config_telemetry_init(&c->telemetry);
        config_cluster_init(&c->cluster);
}

static void clear_list(char **list, size_t *n)
{
        for (size_t i = 0; i < *n; i++) {
                free(list[i]);
                list[i] = NULL;
        }
        *n = 0;
}

struct config_addresses config_addresses(struct config *c, enum server_kind kind)
{
        const struct config_addresses all[SERVER_KINDS] = {
                [SERVER_RESP] = {c->resp, &c->n_resp},
                [SERVER_HTTP] = {c->http, &c->n_http},
                [SERVER_RESP_TLS] = {c->resp_tls, &c->n_resp_tls},
                [SERVER_HTTP_TLS] = {c->http_tls, &c->n_http_tls},
        };
        return all[kind];
}

void config_clear_addresses(struct config *c, enum server_kind kind)
{
        struct config_addresses a = config_addresses(c, kind);
        clear_list(a.text, a.n);
}

void config_release(struct config *c)
{
        struct config_at at = top_of(c, NULL);
        config_rows_release(&at);
        at.section = SECTION_TLS;
        config_rows_release(&at);
        config_secrets_release(&c->token);
        sign_keys_release(&c->sign_keys);
        for (size_t i = 0; i < c->n_queues; i++)
                free(c->queues[i].name);
        free(c->queues);
        config_targets_release(&c->targets);
        config_sites_release(&c->sites);
        config_doors_release(&c->doors);
        config_tokens_release(&c->tokens);
        config_throttle_release(&c->throttle);
        config_telemetry_release(&c->telemetry);
        config_cluster_release(&c->cluster);
        *c = (struct config){0};
}

struct config *config_new(void)
{
        struct config *c = xmalloc(sizeof(*c));
        config_init(c);
        c->refs = 1;
        return c;
}

struct config *config_ref(struct config *c)
{
        c->refs++;
        return c;
}

struct config *config_unref(struct config *c)
{
        if (!c || --c->refs)
                return NULL;
        config_release(c);
        free(c);
        return NULL;
}

int config_add_address(struct config *c, enum server_kind kind, const char *addr,
                       struct problem *problem)
{
        struct config_addresses a = config_addresses(c, kind);
        return config_list_add(a.text, a.n, addr, problem);
}

void config_set_data(struct config *c, const char *path)
{
        free(c->data);
        c->data = xstrdup(path);
}

int config_set_token_file(struct config *c, const char *path, struct problem *problem)
{
        struct config_secrets secrets;
        int r = config_secrets_read(&secrets, "token file", path, problem);
        if (r != OK)
                return r;
        config_secrets_release(&c->token);
        c->token = secrets;
        free(c->token_file);
        c->token_file = xstrdup(path);
        return OK;
}

int config_set_signing_keys_file(struct config *c, const char *path, struct problem *problem)
{
        char text[SIGNING_FILE_MAX];
        struct problem why;
        int r = config_read_secret("signing keys file", path, text, sizeof(text), problem);
        if (r < 0)
                return r;
        size_t n = (size_t)r;
        if (n == sizeof(text) - 1) {
                explicit_bzero(text, sizeof(text));
                return problem_set(problem, ERR_TOOBIG,
                                   "signing keys file %s is longer than %d bytes", path,
                                   SIGNING_FILE_MAX - 2);
        }
        r = sign_keys_load(&c->sign_keys, slice_make(text, n), &why);
        explicit_bzero(text, sizeof(text));
        if (r == OK && !c->sign_keys.len)
                return problem_set(problem, ERR_BADARG, "signing keys file %s holds no key", path);
        free(c->signing_keys_file);
        c->signing_keys_file = xstrdup(path);
        return r == OK ? OK : problem_set(problem, r, "%s: %s", path, why.detail);
}

/* ---- the file ---- */

static int take_queues(struct config *c, cfg_t *cfg, struct problem *problem)
{
        unsigned n = cfg_size(cfg, "queue");
        c->queues = xcalloc(n + 1, sizeof(*c->queues));
        for (unsigned i = 0; i < n; i++) {
                cfg_t *section = cfg_getnsec(cfg, "queue", i);
                struct config_queue *q = &c->queues[c->n_queues++];
                struct config_at at = {.section = SECTION_QUEUE, .own = q, .problem = problem};
                q->name = xstrdup(cfg_title(section));
                config_rows_init(&at);
                int r = config_rows_take(&at, section);
                if (r != OK)
                        return r;
        }
        return OK;
}

/* With queue_depth weir is a target itself; no other target may have its name. */
static int check_own_name(const struct config *c, struct problem *problem)
{
        for (size_t i = 0; c->throttle.has_queue_depth && i < c->targets.n; i++)
                if (strcmp(c->targets.probes[i].name, CONFIG_OWN_TARGET) == 0)
                        return problem_set(problem, ERR_BADARG,
                                           "target \"%s\" is weir's own, by queue_depth of "
                                           "throttle: call yours otherwise",
                                           CONFIG_OWN_TARGET);
        return OK;
}

static int check_tls(const struct config_at *at, const struct config *c)
{
        if (!c->tls_cert != !c->tls_key)
                return config_wrong(at, ERR_BADARG, "cert and key go together: %s is missing",
                                    c->tls_cert ? "key" : "cert");
        if (c->tls_verify != TLS_VERIFY_OFF && !c->tls_ca)
                return config_wrong(at, ERR_BADARG,
                                    "verify_client %s needs ca, the authorities that clients' "
                                    "certificates are signed by",
                                    setting_table[SET_TLS_verify_client].choices[c->tls_verify]);
        if (c->tls_verify == TLS_VERIFY_OFF && c->tls_ca)
                return config_wrong(at, ERR_BADARG,
                                    "ca needs verify_client = ask or require: else clients show "
                                    "no certificate");
        return OK;
}

static int take_file(struct config *c, cfg_t *cfg, struct problem *problem)
{
        const char *token_file = cfg_getstr(cfg, "token_file");
        const char *signing_keys_file = cfg_getstr(cfg, "signing_keys_file");
        cfg_t *locks = cfg_getsec(cfg, "locks"), *throttle = cfg_getsec(cfg, "throttle");
        cfg_t *tls = cfg_getsec(cfg, "tls");
        struct config_at at = top_of(c, problem);
        int r = config_rows_take(&at, cfg);
        at.section = SECTION_LOCKS;
        if (r == OK && locks)
                r = config_rows_take(&at, locks);
        at = (struct config_at){SECTION_TLS, "tls: ", .own = c, .problem = problem};
        if (r == OK && tls)
                r = config_rows_take(&at, tls);
        if (r == OK && tls)
                r = check_tls(&at, c);
        if (r == OK)
                r = take_queues(c, cfg, problem);
        if (r == OK)
                r = config_targets_take(&c->targets, cfg, problem);
        if (r == OK)
                r = config_sites_take(&c->sites, &c->targets, cfg, problem);
        if (r == OK)
                r = config_doors_take(&c->doors, &c->targets, cfg, problem);
        if (r == OK && throttle)
                r = config_throttle_take(&c->throttle, throttle, problem);
        if (r == OK)
                r = config_telemetry_take(&c->telemetry, cfg_getsec(cfg, "telemetry"), problem);
        if (r == OK)
                r = config_cluster_take(&c->cluster, cfg_getsec(cfg, "cluster"), problem);
        if (r == OK)
                r = check_own_name(c, problem);
        if (r == OK)
                r = config_tokens_take(&c->tokens, cfg, problem);
        if (r == OK && token_file)
                r = config_set_token_file(c, token_file, problem);
        if (r == OK && signing_keys_file)
                r = config_set_signing_keys_file(c, signing_keys_file, problem);
        return r;
}

/* libconfuse tells its errors to a function without context; one file is read at a time. */
static struct {
        const char *path;
        struct problem *problem; /* NULL: none is being read */
} reading;

/* The option of this section that is meant by the word in quotes of libconfuse's sentence. */
static const char *nearest_option(const cfg_t *cfg, const char *sentence)
{
        const char *names[OPTIONS_MAX + 1] = {NULL};
        const char *quote = strchr(sentence, '\'');
        char word[64] = "";
        size_t n = 0;
        for (const cfg_opt_t *o = cfg->opts; o->name && n < OPTIONS_MAX; o++)
                names[n++] = o->name;
        if (quote)
                (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(quote + 1, "'"), quote + 1);
        return nearest_name(word, names);
}

static void on_error(cfg_t *cfg, const char *fmt, va_list args) PRINTF(2, 0);
static void on_error(cfg_t *cfg, const char *fmt, va_list args)
{
        char text[200], advice[96] = "";
        if (!reading.problem || reading.problem->err != OK)
                return; /* the first one says most */
        shown_vprintf(text, sizeof(text), fmt, args);
        if (strncmp(text, "no such option", 14) == 0) {
                const char *near = nearest_option(cfg, text);
                (void)snprintf(advice, sizeof(advice), "; %s%s%s",
                               near ? "did you mean '" : "weir.conf(5) lists them",
                               near ? near : "", near ? "'?" : "");
        }
        (void)problem_set(reading.problem, ERR_BADARG, "%s:%d: %s%s", reading.path, cfg->line, text,
                          advice);
}

/* `text` without comments, which libconfuse cannot count, but with all their lines. */
static int parse_text(cfg_t *cfg, const char *path, const char *text, struct problem *problem)
{
        problem->err = OK;
        reading.path = path;
        reading.problem = problem;
        (void)cfg_set_error_function(cfg, on_error); /* returns the old one */
        int parsed = cfg_parse_buf(cfg, text);
        reading.problem = NULL;
        if (parsed == CFG_SUCCESS)
                return OK;
        return problem->err != OK ? problem->err
                                  : problem_set(problem, ERR_BADARG, "%s is not understood", path);
}

static int take_text(struct config *c, cfg_t *cfg, const char *path, struct problem *problem)
{
        struct buf text, bare;
        buf_init(&text, FILE_MAX_BYTES);
        buf_init(&bare, 0);
        int r = conf_file_read("configuration", path, &text, problem);
        if (r == OK) {
                buf_put(&bare, buf_cstr(&text), text.len + 1);
                conf_file_blank_comments(bare.ptr);
                r = parse_text(cfg, path, bare.ptr, problem);
        }
        if (r == OK)
                r = config_lines_check(buf_slice(&text), path, problem);
        if (r == OK)
                r = config_paths_resolve(cfg, path, problem);
        if (r == OK && (r = take_file(c, cfg, problem)) != OK)
                config_lines_name(buf_slice(&text), path, problem);
        buf_release(&text);
        buf_release(&bare);
        return r;
}

int config_read_file(struct config *c, const char *path, struct problem *problem)
{
        enum { TITLED = CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES };
        static const enum setting_section leaves[] = {
                SECTION_QUEUE,  SECTION_LOCKS,     SECTION_LEVEL,     SECTION_REPLICA,
                SECTION_METRIC, SECTION_WORDPRESS, SECTION_MYSQL,     SECTION_CLASS,
                SECTION_TOKEN,  SECTION_TLS,       SECTION_TELEMETRY, SECTION_CLUSTER};
        static const cfg_opt_t end = CFG_END();
        cfg_opt_t opts[SECTIONS][CONFIG_OPTS_MAX];
        for (size_t i = 0; i < ARRAY_LEN(leaves); i++)
                opts[leaves[i]][config_rows_opts(leaves[i], opts[leaves[i]], 0)] = end;
        size_t n = config_rows_opts(SECTION_THROTTLE, opts[SECTION_THROTTLE], 0);
        opts[SECTION_THROTTLE][n++] = (cfg_opt_t)CFG_SEC("level", opts[SECTION_LEVEL], TITLED);
        opts[SECTION_THROTTLE][n] = end;
        n = config_rows_opts(SECTION_TARGET, opts[SECTION_TARGET], 0);
        opts[SECTION_TARGET][n++] = (cfg_opt_t)CFG_SEC("replica", opts[SECTION_REPLICA], TITLED);
        opts[SECTION_TARGET][n++] = (cfg_opt_t)CFG_SEC("metric", opts[SECTION_METRIC], TITLED);
        opts[SECTION_TARGET][n] = end;
        cfg_opt_t *top = opts[SECTION_TOP];
        n = config_rows_opts(SECTION_TOP, top, 0);
        top[n++] = (cfg_opt_t)CFG_SEC("queue", opts[SECTION_QUEUE], TITLED);
        top[n++] = (cfg_opt_t)CFG_SEC("tls", opts[SECTION_TLS], CFGF_NODEFAULT);
        top[n++] = (cfg_opt_t)CFG_SEC("locks", opts[SECTION_LOCKS], CFGF_NODEFAULT);
        top[n++] = (cfg_opt_t)CFG_SEC("throttle", opts[SECTION_THROTTLE], CFGF_NODEFAULT);
        top[n++] = (cfg_opt_t)CFG_SEC("target", opts[SECTION_TARGET], TITLED);
        top[n++] = (cfg_opt_t)CFG_SEC("wordpress", opts[SECTION_WORDPRESS], TITLED);
        top[n++] = (cfg_opt_t)CFG_SEC("mysql", opts[SECTION_MYSQL], TITLED);
        top[n++] = (cfg_opt_t)CFG_SEC("class", opts[SECTION_CLASS], TITLED);
        top[n++] = (cfg_opt_t)CFG_SEC("token", opts[SECTION_TOKEN], TITLED);
        top[n++] = (cfg_opt_t)CFG_SEC("telemetry", opts[SECTION_TELEMETRY], CFGF_NODEFAULT);
        top[n++] = (cfg_opt_t)CFG_SEC("cluster", opts[SECTION_CLUSTER], CFGF_NODEFAULT);
        top[n] = end;
        cfg_t *cfg = cfg_init(top, CFGF_NONE);
        if (!cfg)
                return problem_set(problem, ERR_NOMEM, "no memory for the configuration");
        int r = take_text(c, cfg, path, problem);
        (void)cfg_free(cfg); /* cannot fail on a cfg of ours */
        return r;
}

int config_finish(struct config *c, struct problem *problem)
{
        struct config_at at = top_of(c, problem);
        config_rows_finish(&at);
        config_telemetry_finish(&c->telemetry);
        if (!c->tls_cert && c->n_resp_tls + c->n_http_tls)
                return problem_set(
                        problem, ERR_BADARG,
                        "%s %s needs a certificate: add tls { cert = \"server.crt\" key "
                        "= \"server.key\" } to the configuration; 'weir tls self-signed' "
                        "makes one for trying",
                        c->n_resp_tls ? "resp_tls" : "http_tls",
                        SHOWN_STR(c->n_resp_tls ? c->resp_tls[0] : c->http_tls[0]));
        return OK;
}

struct tls_files config_tls_files(const struct config *c)
{
        if (c->n_resp_tls + c->n_http_tls == 0)
                return (struct tls_files){.cert = NULL};
        return (struct tls_files){c->tls_cert, c->tls_key, c->tls_ca,
                                  (enum tls_verify)c->tls_verify};
}

int config_check_tls(const struct config *c, struct problem *problem)
{
        struct tls_files files = config_tls_files(c);
        struct tls_ctx *ctx = NULL;
        int r = files.cert ? tls_ctx_new(&files, clock_wall_ms(), &ctx, problem) : OK;
        (void)tls_ctx_free(ctx);
        return r;
}

bool config_has_token(const struct config *c)
{
        return c->token.n || c->tokens.n;
}

static int check_secrets(const struct address *a, const char *text, const struct config_secrets *s,
                         struct problem *problem)
{
        int r = OK;
        for (size_t i = 0; r == OK && i < s->n; i++)
                r = address_check_token(a, text, s->text[i], problem);
        return r;
}

/* By each secret of the configuration. */
static int check_tokens(const struct address *a, const char *text, const struct config *tokens,
                        struct problem *problem)
{
        if (!config_has_token(tokens))
                return address_check_token(a, text, NULL, problem);
        int r = check_secrets(a, text, &tokens->token, problem);
        for (size_t i = 0; r == OK && i < tokens->tokens.n; i++)
                r = check_secrets(a, text, &tokens->tokens.tokens[i].secrets, problem);
        return r;
}

int config_check_access(struct config *c, const struct config *tokens, struct problem *problem)
{
        struct address address;
        struct problem unknown;
        int r = OK;
        for (int kind = 0; kind < SERVER_KINDS; kind++) {
                struct config_addresses all = config_addresses(c, (enum server_kind)kind);
                bool is_tls = kind == SERVER_RESP_TLS || kind == SERVER_HTTP_TLS;
                for (size_t i = 0; r == OK && i < *all.n; i++) {
                        if (address_parse(all.text[i], &address, &unknown) != OK)
                                continue;
                        r = check_tokens(&address, all.text[i], tokens, problem);
                        if (r == OK)
                                r = address_check_tls(&address, all.text[i], is_tls,
                                                      tokens->is_insecure, problem);
                }
        }
        return r;
}

enum history_policy config_history_of(void *ctx, struct slice queue)
{
        const struct config *c = ctx;
        for (size_t i = 0; i < c->n_queues; i++)
                if (slice_eq(slice_str(c->queues[i].name), queue))
                        return c->queues[i].history;
        return c->history;
}
