/* The configuration file, read with libconfuse: a declarative table, errors with file and line.
 *
 * The file is looked at at start and when it is read again (serve/reload.c).  A value that is wrong
 * stops that and says in which line it is and what is allowed. */
#include "serve/config.h"

#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shown.h"
#include "cli/conf_file.h"
#include "cli/options.h"
#include "cli/text.h"
#include "door/listen.h"
#include "door/server.h"
#include "history/history.h"
#include "serve/config_lines.h"

#define TOKEN_MIN_BYTES   16
#define TOKEN_MAX_BYTES   512
#define SIGNING_FILE_MAX  16384
#define FILE_MAX_BYTES    (4 * MIB)
#define CLIENT_MEMORY_MAX (1024ULL * 1024 * MIB)
#define OPTIONS_MAX       64 /* of one section; what is beyond is not suggested */

void config_init(struct config *c)
{
        *c = (struct config){
                .log_level = SAY_INFO,
                .keep_done_ms = HISTORY_KEEP_DONE_MS,
                .keep_failed_ms = HISTORY_KEEP_FAILED_MS,
                .keep_incidents_ms = HISTORY_KEEP_INCIDENTS_MS,
        };
        sign_keys_init(&c->sign_keys);
        config_throttle_init(&c->throttle);
}

static void clear_list(char **list, size_t *n)
{
        for (size_t i = 0; i < *n; i++) {
                free(list[i]);
                list[i] = NULL;
        }
        *n = 0;
}

void config_clear_resp(struct config *c)
{
        clear_list(c->resp, &c->n_resp);
}

void config_clear_http(struct config *c)
{
        clear_list(c->http, &c->n_http);
}

static void wipe_token(struct config *c)
{
        if (c->token)
                explicit_bzero(c->token, strlen(c->token));
        free(c->token);
        c->token = NULL;
}

void config_release(struct config *c)
{
        free(c->data);
        free(c->token_file);
        free(c->signing_keys_file);
        config_clear_resp(c);
        config_clear_http(c);
        wipe_token(c);
        sign_keys_release(&c->sign_keys);
        for (size_t i = 0; i < c->n_queues; i++)
                free(c->queues[i].name);
        free(c->queues);
        config_targets_release(&c->targets);
        config_throttle_release(&c->throttle);
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

static int add_addr(char **list, size_t *n, const char *addr, struct problem *problem)
{
        if (*n == CONFIG_ADDRS_MAX)
                return problem_set(problem, ERR_BADARG, "more than %d addresses", CONFIG_ADDRS_MAX);
        list[(*n)++] = xstrdup(addr);
        return OK;
}

int config_add_resp(struct config *c, const char *addr, struct problem *problem)
{
        return add_addr(c->resp, &c->n_resp, addr, problem);
}

int config_add_http(struct config *c, const char *addr, struct problem *problem)
{
        return add_addr(c->http, &c->n_http, addr, problem);
}

void config_set_data(struct config *c, const char *path)
{
        free(c->data);
        c->data = xstrdup(path);
}

int config_read_secret(const char *what, const char *path, char *ret, size_t size, size_t *ret_len,
                       struct problem *problem)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return problem_set(problem, ERR_IO, "%s %s: %s", what, path, strerror(errno));
        int r = OK;
        ssize_t n = 0;
        if (fstat(fd, &st) != 0)
                r = problem_set(problem, ERR_IO, "%s: %s", path, strerror(errno));
        else if (st.st_mode & (S_IWGRP | S_IWOTH | S_IROTH))
                r = problem_set(problem, ERR_FORBIDDEN,
                                "%s can be read or written by others: chmod 600 it", path);
        else if ((n = read(fd, ret, size - 1)) < 0)
                r = problem_set(problem, ERR_IO, "%s %s: %s", what, path, strerror(errno));
        (void)close(fd); /* only read from */
        if (r != OK)
                return r;
        ret[n] = '\0';
        *ret_len = (size_t)n;
        return OK;
}

int config_set_token_file(struct config *c, const char *path, struct problem *problem)
{
        char token[TOKEN_MAX_BYTES + 2];
        size_t n = 0;
        int r = config_read_secret("token file", path, token, sizeof(token), &n, problem);
        if (r != OK)
                return r;
        while (n > 0 && (token[n - 1] == '\n' || token[n - 1] == '\r'))
                n--;
        token[n] = '\0';
        if (n < TOKEN_MIN_BYTES || n > TOKEN_MAX_BYTES || strlen(token) != n)
                r = problem_set(problem, ERR_BADARG,
                                "token file %s must hold one line of %d to %d characters", path,
                                TOKEN_MIN_BYTES, TOKEN_MAX_BYTES);
        if (r == OK) {
                wipe_token(c);
                c->token = xstrdup(token);
                free(c->token_file);
                c->token_file = xstrdup(path);
        }
        explicit_bzero(token, sizeof(token));
        return r;
}

int config_set_signing_keys_file(struct config *c, const char *path, struct problem *problem)
{
        char text[SIGNING_FILE_MAX];
        struct problem why;
        size_t n = 0;
        int r = config_read_secret("signing keys file", path, text, sizeof(text), &n, problem);
        if (r != OK)
                return r;
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

static int parse_history(const char *text, enum history_policy *ret, struct problem *problem)
{
        static const char *const names[] = {"full", "failures", "none"};
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                if (strcmp(text, names[i]) == 0) {
                        *ret = (enum history_policy)i;
                        return OK;
                }
        }
        return problem_set(problem, ERR_BADARG, "history must be full, failures or none, not '%s'",
                           text);
}

static int take_keep(cfg_t *cfg, const char *name, int64_t *ret, struct problem *problem)
{
        const char *text = cfg_getstr(cfg, name);
        if (!text)
                return OK;
        if (strcmp(text, "forever") == 0) {
                *ret = 0;
                return OK;
        }
        return duration_parse(name, text, ret, problem);
}

static int take_client_memory(struct config *c, const char *text, struct problem *problem)
{
        if (!text)
                return OK;
        int r = size_parse("client_memory", text, CLIENT_MEMORY_MAX, &c->client_bytes, problem);
        if (r == OK && c->client_bytes < SERVER_CLIENT_BYTES_MIN)
                r = problem_set(
                        problem, ERR_BADARG, "client_memory must be %llum or more, not '%s'",
                        (unsigned long long)(SERVER_CLIENT_BYTES_MIN / MIB), SHOWN_STR(text));
        return r;
}

static int take_addrs(struct config *c, cfg_t *cfg, struct problem *problem)
{
        int r = OK;
        for (unsigned i = 0; r == OK && i < cfg_size(cfg, "resp"); i++)
                r = config_add_resp(c, cfg_getnstr(cfg, "resp", i), problem);
        for (unsigned i = 0; r == OK && i < cfg_size(cfg, "http"); i++)
                r = config_add_http(c, cfg_getnstr(cfg, "http", i), problem);
        return r;
}

static int take_queues(struct config *c, cfg_t *cfg, struct problem *problem)
{
        unsigned n = cfg_size(cfg, "queue");
        c->queues = xcalloc(n + 1, sizeof(*c->queues));
        for (unsigned i = 0; i < n; i++) {
                cfg_t *section = cfg_getnsec(cfg, "queue", i);
                struct config_queue *q = &c->queues[c->n_queues];
                int r = parse_history(cfg_getstr(section, "history"), &q->history, problem);
                if (r != OK)
                        return r;
                q->name = xstrdup(cfg_title(section));
                c->n_queues++;
        }
        return OK;
}

/* With queue_depth weir is a target itself, and no other may be called as it is. */
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

static int take_file(struct config *c, cfg_t *cfg, struct problem *problem)
{
        const char *data = cfg_getstr(cfg, "data");
        const char *token_file = cfg_getstr(cfg, "token_file");
        const char *signing_keys_file = cfg_getstr(cfg, "signing_keys_file");
        const char *level = cfg_getstr(cfg, "log_level");
        const char *history = cfg_getstr(cfg, "history");
        if (data)
                config_set_data(c, data);
        if (level && !say_level_from_name(level, &c->log_level))
                return problem_set(problem, ERR_BADARG,
                                   "log_level must be debug, info, warn or error, not '%s'", level);
        c->is_log_json = cfg_getbool(cfg, "log_json") == cfg_true;
        c->is_check_open = cfg_getbool(cfg, "check_without_token") == cfg_true;
        c->are_locks_off = cfg_getbool(cfg, "locks|enabled") != cfg_true;
        int r = history ? parse_history(history, &c->history, problem) : OK;
        if (r == OK)
                r = take_keep(cfg, "history_keep_done", &c->keep_done_ms, problem);
        if (r == OK)
                r = take_keep(cfg, "history_keep_failed", &c->keep_failed_ms, problem);
        if (r == OK)
                r = take_keep(cfg, "history_keep_incidents", &c->keep_incidents_ms, problem);
        if (r == OK)
                r = take_client_memory(c, cfg_getstr(cfg, "client_memory"), problem);
        if (r == OK)
                r = take_addrs(c, cfg, problem);
        if (r == OK)
                r = take_queues(c, cfg, problem);
        if (r == OK)
                r = config_targets_take(&c->targets, cfg, problem);
        if (r == OK)
                r = config_throttle_take(&c->throttle, cfg, problem);
        if (r == OK)
                r = check_own_name(c, problem);
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
        if (r == OK && (r = take_file(c, cfg, problem)) != OK)
                config_lines_name(buf_slice(&text), path, problem);
        buf_release(&text);
        buf_release(&bare);
        return r;
}

int config_read_file(struct config *c, const char *path, struct problem *problem)
{
        cfg_opt_t queue_opts[] = {
                CFG_STR("history", "full", CFGF_NONE),
                CFG_END(),
        };
        cfg_opt_t locks_opts[] = {
                CFG_BOOL("enabled", cfg_true, CFGF_NONE),
                CFG_END(),
        };
        cfg_opt_t opts[] = {
                CFG_STR("data", NULL, CFGF_NODEFAULT),
                CFG_STR_LIST("resp", NULL, CFGF_NODEFAULT),
                CFG_STR_LIST("http", NULL, CFGF_NODEFAULT),
                CFG_STR("token_file", NULL, CFGF_NODEFAULT),
                CFG_BOOL("check_without_token", cfg_false, CFGF_NONE),
                CFG_STR("client_memory", NULL, CFGF_NODEFAULT),
                CFG_STR("signing_keys_file", NULL, CFGF_NODEFAULT),
                CFG_STR("log_level", NULL, CFGF_NODEFAULT),
                CFG_BOOL("log_json", cfg_false, CFGF_NONE),
                CFG_STR("history", NULL, CFGF_NODEFAULT),
                CFG_STR("history_keep_done", NULL, CFGF_NODEFAULT),
                CFG_STR("history_keep_failed", NULL, CFGF_NODEFAULT),
                CFG_STR("history_keep_incidents", NULL, CFGF_NODEFAULT),
                CFG_SEC("queue", queue_opts, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
                CFG_SEC("locks", locks_opts, CFGF_NONE),
                CFG_SEC("throttle", config_throttle_opts(), CFGF_NODEFAULT),
                CFG_SEC("target", config_target_opts(),
                        CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
                CFG_END(),
        };
        cfg_t *cfg = cfg_init(opts, CFGF_NONE);
        if (!cfg)
                return problem_set(problem, ERR_NOMEM, "no memory for the configuration");
        int r = take_text(c, cfg, path, problem);
        (void)cfg_free(cfg); /* cannot fail on a cfg of ours */
        return r;
}

int config_finish(struct config *c, struct problem *problem)
{
        int r = OK;
        if (!c->data)
                c->data = xstrdup(CONFIG_DATA);
        if (!c->n_resp)
                r = config_add_resp(c, CONFIG_RESP, problem);
        if (r == OK && !c->n_http)
                r = config_add_http(c, CONFIG_HTTP, problem);
        return r;
}

int config_check_access(const struct config *c, struct problem *problem)
{
        struct address address;
        struct problem unknown;
        for (size_t i = 0; i < c->n_resp + c->n_http; i++) {
                const char *text = i < c->n_resp ? c->resp[i] : c->http[i - c->n_resp];
                if (address_parse(text, &address, &unknown) != OK)
                        continue;
                int r = address_check_token(&address, text, c->token, problem);
                if (r != OK)
                        return r;
        }
        return OK;
}

enum history_policy config_history_of(void *ctx, struct slice queue)
{
        const struct config *c = ctx;
        for (size_t i = 0; i < c->n_queues; i++)
                if (slice_eq(slice_str(c->queues[i].name), queue))
                        return c->queues[i].history;
        return c->history;
}
