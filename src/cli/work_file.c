/* The handlers file, read with libconfuse: a table of settings, each with the function that takes
 * its value.
 *
 * A value is taken twice: once into a handler that is thrown away, while libconfuse stands on its
 * line and an error can name it, and once for good.
 *
 * Some mistakes are found before libconfuse sees the text, because it would pass over them: a
 * pattern without quotes, which it cuts at the star, a section that is never closed, a setting that
 * is set twice, and an empty list, which it takes for none at all: `allow = {}` would allow every
 * host. */
#include "cli/work_file.h"

#include <confuse.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/shown.h"
#include "cli/conf_file.h"
#include "cli/options.h"
#include "cli/text.h"
#include "work/call.h"
#include "work/job.h"
#include "work/unsafe.h"

#define FILE_MAX_BYTES MIB
#define SECRET_MIN     16
#define SECRET_MAX     512
#define SECRETS_MAX    4
#define TIMEOUT_MAX_MS (30LL * 86400 * MS_PER_S)
#define CONNECT_MAX_MS (10LL * 60 * MS_PER_S)
#define MEMORY_MIN     (16 * MIB) /* with less not even a dynamic linker gets going */
#define MEMORY_MAX     (MIB * MIB)
#define CPU_MAX_S      (30LL * 86400)

/* ---- the values ---- */

typedef int (*take_fn)(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p);

static int take_duration(const char *name, cfg_opt_t *opt, int64_t max_ms, int64_t *ret,
                         struct problem *p)
{
        char text[DURATION_TEXT_MAX];
        int r = duration_parse(name, cfg_opt_getnstr(opt, 0), ret, p);
        if (r == OK && *ret > max_ms)
                r = problem_set(p, ERR_BADARG, "%s: at most %s", name,
                                duration_words(max_ms, text));
        return r;
}

static int take_timeout(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        int r = take_duration(name, opt, TIMEOUT_MAX_MS, &h->timeout_ms, p);
        if (r == OK && h->timeout_ms == 0)
                r = problem_set(p, ERR_BADARG, "%s: at least 1ms", name);
        return r;
}

static int take_connect(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        int r = take_duration(name, opt, CONNECT_MAX_MS, &h->connect_ms, p);
        if (r == OK && h->connect_ms == 0)
                r = problem_set(p, ERR_BADARG, "%s: at least 1ms", name);
        return r;
}

static int take_grace(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        return take_duration(name, opt, TIMEOUT_MAX_MS, &h->grace_ms, p);
}

static int take_retry(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        return take_duration(name, opt, HANDLER_RETRY_MAX_MS, &h->retry_in_ms, p);
}

/* Like size_parse, with "g" as well. */
static int take_size(const char *name, cfg_opt_t *opt, uint64_t max, uint64_t *ret,
                     struct problem *p)
{
        char text[32];
        const char *given = cfg_opt_getnstr(opt, 0);
        size_t len = strlen(given);
        bool is_giga = len > 0 && len < sizeof(text) && given[len - 1] == 'g';
        if (!is_giga)
                return size_parse(name, given, max, ret, p);
        (void)snprintf(text, sizeof(text), "%.*sm", (int)(len - 1), given);
        int r = size_parse(name, text, max / 1024, ret, p);
        *ret = r == OK ? *ret * 1024 : 0;
        return r;
}

static int take_output(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        uint64_t size = 0;
        int r = take_size(name, opt, HANDLER_OUTPUT_MAX, &size, p);
        h->output_max = (size_t)size;
        return r;
}

static int take_memory(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        int r = take_size(name, opt, MEMORY_MAX, &h->memory_bytes, p);
        if (r == OK && h->memory_bytes < MEMORY_MIN)
                r = problem_set(p, ERR_BADARG, "%s: at least 16m", name);
        return r;
}

static int take_cpu(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        int64_t ms = 0;
        int r = take_duration(name, opt, CPU_MAX_S * MS_PER_S, &ms, p);
        if (r == OK && (ms == 0 || ms % MS_PER_S))
                r = problem_set(p, ERR_BADARG, "%s: whole seconds, at least 1s", name);
        h->cpu_s = ms / MS_PER_S;
        return r;
}

static int take_nice(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        int64_t n = 0;
        int r = number_parse(name, cfg_opt_getnstr(opt, 0), (struct range){0, 19}, &n, p);
        h->nice = (int)n;
        return r;
}

static int take_dir(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        struct stat st;
        const char *dir = cfg_opt_getnstr(opt, 0);
        if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
                return problem_set(p, ERR_BADARG, "%s: there is no folder '%s'", name,
                                   SHOWN_LONG(dir));
        h->dir = xstrdup(dir);
        return OK;
}

int work_env_add(struct words *env, const char *text, struct problem *p)
{
        size_t len = strcspn(text, "=");
        if (len == 0 || strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789_") < len)
                return problem_set(p, ERR_BADARG,
                                   "env: '%s' is no NAME=VALUE and no NAME to pass on",
                                   SHOWN_MAX(slice_str(text), 100));
        if (strncmp(text, "WEIR_", 5) == 0 && strncmp(text, "WEIR_TOKEN", len) != 0)
                return problem_set(p, ERR_BADARG,
                                   "env: names that begin with WEIR_ are weir's own");
        if (text[len] == '=') {
                words_add(env, text);
                return OK;
        }
        const char *value = getenv(text);
        struct buf entry CLEANUP(buf_release) = {0};
        buf_printf(&entry, "%s=%s", text, value ? value : "");
        if (value)
                words_add(env, buf_cstr(&entry));
        return OK;
}

static int take_env(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        int r = OK;
        (void)name;
        words_release(&h->env);
        for (unsigned i = 0; r == OK && i < cfg_opt_size(opt); i++)
                r = work_env_add(&h->env, cfg_opt_getnstr(opt, i), p);
        return r;
}

static int no_code(const struct handler *h, const char *name, const char *text, struct problem *p)
{
        static const char *const allowed[] = {
                [HANDLER_NONE] = "exit codes from 1 to 255 (http: statuses from 300 to 599)",
                [HANDLER_EXEC] = "exit codes from 1 to 255",
                [HANDLER_HTTP] = "statuses from 300 to 599",
        };
        return problem_set(p, ERR_BADARG, "%s: %s, or none%s%s%s", name, allowed[h->kind],
                           text ? ", not '" : "", text ? SHOWN_STR(text) : "", text ? "'" : "");
}

int work_no_retry_take(struct handler *h, const char *name, const char *const *texts, size_t n,
                       struct problem *p)
{
        int64_t min = h->kind == HANDLER_HTTP ? 300 : 1, max = h->kind == HANDLER_HTTP ? 599 : 255;
        bool is_none = n == 1 && strcmp(texts[0], "none") == 0;
        if (n == 0)
                return no_code(h, name, NULL, p);
        if (n > HANDLER_CODES_MAX)
                return problem_set(p, ERR_BADARG, "%s: at most %d", name, HANDLER_CODES_MAX);
        h->has_no_retry = true;
        h->n_no_retry = 0;
        for (size_t i = 0; i < n && !is_none; i++) {
                int64_t code = 0;
                if (strcmp(texts[i], "none") == 0)
                        return problem_set(p, ERR_BADARG, "%s: none stands alone", name);
                if (!slice_to_i64(slice_str(texts[i]), &code) || code < min || code > max)
                        return no_code(h, name, texts[i], p);
                h->no_retry[h->n_no_retry++] = (uint16_t)code;
        }
        return OK;
}

/* Which codes there are is known with the whole handler. */
static int take_no_retry(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        const char *texts[HANDLER_CODES_MAX + 1];
        size_t n = 0;
        while (n < ARRAY_LEN(texts) && n < cfg_opt_size(opt)) {
                texts[n] = cfg_opt_getnstr(opt, (unsigned)n);
                n++;
        }
        if (h->kind == HANDLER_NONE && n > 0)
                return OK;
        return work_no_retry_take(h, name, texts, n, p);
}

static int take_user(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        (void)name; /* account.c says it */
        return account_set_user(&h->account, cfg_opt_getnstr(opt, 0), p);
}

static int take_group(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        (void)name;
        return account_set_group(&h->account, cfg_opt_getnstr(opt, 0), p);
}

static int take_umask(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        const char *text = cfg_opt_getnstr(opt, 0);
        size_t len = strlen(text);
        if (len < 1 || len > 4 || strspn(text, "01234567") < len || (len == 4 && text[0] != '0'))
                return problem_set(p, ERR_BADARG, "%s: octal digits from 000 to 777, not '%s'",
                                   name, SHOWN_STR(text));
        h->umask = (int)strtol(text, NULL, 8);
        return OK;
}

/* Whether a word in braces is meant as a value of the job.  Braces that belong to the command, as
 * in awk '{print}' and jq '{name}', must stay: so it has to be one of ours in another spelling,
 * nearly one (from the same letter on: jq may want a {book}), or what else a job has. */
static bool is_nearly_value(struct slice word)
{
        static const char *const typed[] = {"hook", "queue", "group", "attempt", "fence", NULL};
        static const char *const others[] = {"id", "job", "args", "payload", "priority"};
        char text[32] = "", *plain = text;
        size_t n = 0;
        for (size_t i = 0; i < word.len && n < sizeof(text) - 1; i++)
                if (word.ptr[i] != '_' && word.ptr[i] != '-')
                        text[n++] = (char)tolower((unsigned char)word.ptr[i]);
        plain += strncmp(plain, "weir", 4) == 0 ? 4 : 0;
        plain += strncmp(plain, "job", 3) == 0 && plain[3] ? 3 : 0;
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                if (strcmp(plain, others[i]) == 0)
                        return true;
        const char *near = strlen(plain) >= 3 ? nearest_name(plain, typed) : NULL;
        return near && near[0] == plain[0];
}

int work_placeholders_check(const struct words *command, const char *name, struct problem *p)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                      "0123456789_-";
        for (size_t i = 0; i < command->n; i++) {
                const char *text = command->argv[i];
                for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
                        struct slice word = slice_make(at + 1, strspn(at + 1, letters));
                        struct slice braced = slice_make(at, word.len + 2);
                        bool is_theirs = at > text && strchr("$%@{", at[-1]);
                        if (is_theirs || word.ptr[word.len] != '}' || !is_nearly_value(word) ||
                            memmem(JOB_PLACEHOLDERS, strlen(JOB_PLACEHOLDERS), braced.ptr,
                                   braced.len))
                                continue;
                        return problem_set(p, ERR_BADARG,
                                           "%s: '%s' is none of " JOB_PLACEHOLDERS
                                           "; for braces that are meant as they are write { %s }",
                                           name, SHOWN(braced), SHOWN(word));
                }
        }
        return OK;
}

static int take_exec(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        words_release(&h->command);
        for (unsigned i = 0; i < cfg_opt_size(opt); i++)
                words_add(&h->command, cfg_opt_getnstr(opt, i));
        if (h->command.n == 0 || h->command.argv[0][0] == '\0')
                return problem_set(p, ERR_BADARG,
                                   "%s: a program and its arguments: exec = {\"/usr/bin/php\", "
                                   "\"run.php\", \"{id}\"}",
                                   name);
        h->kind = HANDLER_EXEC;
        return work_placeholders_check(&h->command, name, p);
}

static int take_http(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        (void)name; /* what is wrong with it is seen with the whole handler: `allow` may follow */
        (void)p;
        h->url = xstrdup(cfg_opt_getnstr(opt, 0));
        h->kind = HANDLER_HTTP;
        return OK;
}

static int read_secret(const char *path, char *ret, size_t size, struct problem *p)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return problem_set(p, ERR_IO, "secret_file %s: %s", SHOWN_LONG(path),
                                   strerror(errno));
        int r = OK;
        ssize_t n = -1;
        if (fstat(fd, &st) != 0 || (n = read(fd, ret, size - 1)) < 0)
                r = problem_set(p, ERR_IO, "secret_file %s: %s", SHOWN_LONG(path), strerror(errno));
        else if (st.st_mode & (S_IWGRP | S_IWOTH | S_IROTH))
                r = problem_set(p, ERR_FORBIDDEN,
                                "secret_file %s can be read or written by others: chmod 600 it",
                                SHOWN_LONG(path));
        (void)close(fd); /* only read from */
        while (n > 0 && (ret[n - 1] == '\n' || ret[n - 1] == '\r'))
                n--;
        if (n >= 0)
                ret[n] = '\0';
        if (r == OK && (n < SECRET_MIN || n > SECRET_MAX || strlen(ret) != (size_t)n))
                r = problem_set(p, ERR_BADARG,
                                "secret_file %s must hold one line of %d to %d characters",
                                SHOWN_LONG(path), SECRET_MIN, SECRET_MAX);
        return r;
}

static int take_secrets(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        char secret[SECRET_MAX + 3] = {0};
        int r = OK;
        words_release(&h->secrets);
        if (cfg_opt_size(opt) > SECRETS_MAX)
                return problem_set(p, ERR_BADARG, "%s: at most %d", name, SECRETS_MAX);
        for (unsigned i = 0; r == OK && i < cfg_opt_size(opt); i++) {
                r = read_secret(cfg_opt_getnstr(opt, i), secret, sizeof(secret), p);
                if (r == OK)
                        words_add(&h->secrets, secret);
                explicit_bzero(secret, sizeof(secret));
        }
        return r;
}

static int add_allowed(struct handler *h, const char *text, struct problem *p)
{
        struct address_rules *rules = &h->addresses;
        struct address_net net;
        bool is_net = address_net_parse(text, &net);
        if (is_net) {
                rules->nets = xrealloc(rules->nets, (rules->n_nets + 1) * sizeof(net));
                rules->nets[rules->n_nets++] = net;
                return OK;
        }
        const char *name = strncmp(text, "*.", 2) == 0 ? text + 2 : text;
        if (*name == '\0' || strpbrk(name, "*?/:@ ") || strlen(name) > 253)
                return problem_set(p, ERR_BADARG,
                                   "allow: '%s' is no host (shop.example, *.shop.example) and "
                                   "no network (10.1.0.0/16)",
                                   SHOWN_MAX(slice_str(text), 100));
        words_add(&h->hosts, text);
        return OK;
}

static int take_allow(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        int r = OK;
        (void)name;
        words_release(&h->hosts);
        h->addresses.n_nets = 0;
        for (unsigned i = 0; r == OK && i < cfg_opt_size(opt); i++)
                r = add_allowed(h, cfg_opt_getnstr(opt, i), p);
        return r;
}

static int take_ca(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        const char *path = cfg_opt_getnstr(opt, 0);
        if (access(path, R_OK) != 0)
                return problem_set(p, ERR_BADARG, "%s %s: %s", name, SHOWN_LONG(path),
                                   strerror(errno));
        h->ca_file = xstrdup(path);
        return OK;
}

static int take_bool(const char *name, cfg_opt_t *opt, bool *ret, struct problem *p)
{
        const char *text = cfg_opt_getnstr(opt, 0);
        *ret = strcmp(text, "true") == 0;
        if (!*ret && strcmp(text, "false") != 0)
                return problem_set(p, ERR_BADARG, "%s: true or false, not '%s'", name,
                                   SHOWN_STR(text));
        return OK;
}

static int take_private(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        return take_bool(name, opt, &h->addresses.allows_private, p);
}

static int take_unsafe(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        return take_bool(name, opt, &h->has_unsafe_placeholders, p);
}

static int take_version(struct handler *h, const char *name, cfg_opt_t *opt, struct problem *p)
{
        memset(h->signs_with, 0, sizeof(h->signs_with));
        for (unsigned i = 0; i < cfg_opt_size(opt); i++) {
                int64_t version = 0;
                const char *text = cfg_opt_getnstr(opt, i);
                if (!slice_to_i64(slice_str(text), &version) || version < 1 ||
                    version > SIGN_VERSIONS)
                        return problem_set(p, ERR_BADARG, "%s: 1 or 2, not '%s'", name,
                                           SHOWN_STR(text));
                h->signs_with[version - 1] = true;
        }
        return OK;
}

#define BOTH (HANDLER_EXEC | HANDLER_HTTP)

static const struct setting {
        const char *name;
        take_fn take;
        unsigned kinds; /* of handlers that take it */
        bool is_list;
} settings[] = {
        {"exec", take_exec, HANDLER_EXEC, true},
        {"http", take_http, HANDLER_HTTP, false},
        {"timeout", take_timeout, BOTH, false},
        {"retry_in", take_retry, BOTH, false},
        {"no_retry", take_no_retry, BOTH, true},
        {"max_output", take_output, BOTH, false},
        {"unsafe_placeholders", take_unsafe, HANDLER_EXEC, false},
        {"grace", take_grace, HANDLER_EXEC, false},
        {"memory", take_memory, HANDLER_EXEC, false},
        {"cpu", take_cpu, HANDLER_EXEC, false},
        {"nice", take_nice, HANDLER_EXEC, false},
        {"env", take_env, HANDLER_EXEC, true},
        {"dir", take_dir, HANDLER_EXEC, false},
        {"user", take_user, HANDLER_EXEC, false},
        {"group", take_group, HANDLER_EXEC, false}, /* after the user: instead of its own */
        {"umask", take_umask, HANDLER_EXEC, false},
        {"connect_timeout", take_connect, HANDLER_HTTP, false},
        {"secret_file", take_secrets, HANDLER_HTTP, true},
        {"signature_version", take_version, HANDLER_HTTP, true},
        {"ca_file", take_ca, HANDLER_HTTP, false},
        {"allow", take_allow, HANDLER_HTTP, true},
        {"allow_private", take_private, HANDLER_HTTP, false},
};

/* ---- one handler ---- */

static int check_kind(cfg_t *section, const struct handler *h, struct problem *p)
{
        bool has_exec = cfg_size(section, "exec") > 0, has_http = cfg_size(section, "http") > 0;
        if (has_exec == has_http)
                return problem_set(p, ERR_BADARG, "handler \"%s\" needs exec or http%s",
                                   SHOWN_MAX(slice_str(h->pattern), 100),
                                   has_exec ? ", not both" : "");
        for (size_t i = 0; i < ARRAY_LEN(settings); i++)
                if (cfg_size(section, settings[i].name) && !(settings[i].kinds & h->kind))
                        return problem_set(p, ERR_BADARG, "%s is only for %s handlers",
                                           settings[i].name, has_exec ? "http" : "exec");
        if (cfg_size(section, "group") && !cfg_size(section, "user"))
                return problem_set(p, ERR_BADARG,
                                   "group goes with user: name the user whose command it is");
        return OK;
}

/* What login(1) would set; `env` may say otherwise. */
static void add_account_env(struct handler *h)
{
        const struct {
                const char *name, *value;
        } rows[] = {
                {"HOME", h->account.home},
                {"USER", h->account.user},
                {"LOGNAME", h->account.user},
        };
        for (size_t i = 0; h->account.user && i < ARRAY_LEN(rows); i++) {
                struct buf entry CLEANUP(buf_release) = {0};
                buf_printf(&entry, "%s=%s", rows[i].name, rows[i].value);
                if (!env_get(h->env.argv, rows[i].name))
                        words_add(&h->env, buf_cstr(&entry));
        }
}

static int take_handler(cfg_t *section, const char *path, struct handler *h, struct problem *p)
{
        struct buf origin CLEANUP(buf_release) = {0};
        int r = OK;
        handler_init(h);
        h->pattern = xstrdup(cfg_title(section));
        buf_printf(&origin, "handler \"%s\" in %s", h->pattern, path);
        h->origin = xstrdup(buf_cstr(&origin));
        if (h->pattern[0] == '\0' || strlen(h->pattern) > 255)
                return problem_set(p, ERR_BADARG, "a pattern has 1 to 255 bytes");
        for (size_t i = 0; r == OK && i < ARRAY_LEN(settings); i++)
                if (cfg_size(section, settings[i].name))
                        r = settings[i].take(h, settings[i].name,
                                             cfg_getopt(section, settings[i].name), p);
        if (r == OK)
                r = check_kind(section, h, p);
        if (r == OK && h->kind == HANDLER_EXEC && !h->has_unsafe_placeholders)
                r = unsafe_check(&h->command, "exec", "unsafe_placeholders = true", p);
        add_account_env(h);
        if (r == OK && h->kind == HANDLER_HTTP) {
                h->timeout_ms = h->timeout_ms ? h->timeout_ms : HANDLER_HTTP_MS;
                r = call_url_check(h, p);
        }
        return r;
}

/* ---- the file ---- */

/* libconfuse tells its errors to functions without context; reading happens once, at start. */
static struct {
        const char *path;
        struct problem *problem;
} reading;

static void put_names(struct buf *b)
{
        for (size_t i = 0; i < ARRAY_LEN(settings); i++)
                buf_printf(b, "%s%s", i ? ", " : "", settings[i].name);
}

/* What libconfuse 3.3 leaves to be guessed. */
static void put_hint(struct buf *b, const char *said)
{
        static const struct {
                const char *begin, *hint;
        } rows[] = {
                {"found duplicate title", "; a pattern has one handler"},
                {"missing title", "; write handler \"pattern\" { ... }"},
                {"missing opening brace", "; write handler \"pattern\" { ... }"},
                {"unexpected token", "; a list is {\"one\", \"two\"}"},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (strncmp(said, rows[i].begin, strlen(rows[i].begin)) == 0)
                        buf_put_str(b, rows[i].hint);
}

static void on_error(cfg_t *cfg, const char *fmt, va_list args) PRINTF(2, 0);
static void on_error(cfg_t *cfg, const char *fmt, va_list args)
{
        char text[PROBLEM_DETAIL_MAX];
        struct buf advice CLEANUP(buf_release) = {0};
        if (reading.problem->err != OK) /* the first one says most */
                return;
        (void)vsnprintf(text, sizeof(text), fmt, args); /* cut is fine */
        bool is_unknown = strncmp(text, "no such option", 14) == 0;
        if (is_unknown && cfg->title) {
                buf_put_str(&advice, "; there are: ");
                put_names(&advice);
        } else if (is_unknown) {
                buf_put_str(&advice, "; there is only: handler \"pattern\" { ... }");
        } else {
                put_hint(&advice, text);
        }
        (void)problem_set(reading.problem, ERR_BADARG, "%s:%d: %s%s", reading.path, cfg->line, text,
                          buf_cstr(&advice));
}

static int on_setting(cfg_t *cfg, cfg_opt_t *opt)
{
        struct handler scratch;
        struct problem p = {0};
        int r = OK;
        handler_init(&scratch);
        for (size_t i = 0; i < ARRAY_LEN(settings); i++)
                if (strcmp(settings[i].name, cfg_opt_name(opt)) == 0)
                        r = settings[i].take(&scratch, settings[i].name, opt, &p);
        handler_release(&scratch);
        if (r == OK)
                return 0;
        cfg_error(cfg, "%s", p.detail);
        return -1;
}

static int on_handler(cfg_t *cfg, cfg_opt_t *opt)
{
        struct handler scratch;
        struct problem p = {0};
        cfg_t *section = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
        int r = take_handler(section, reading.path, &scratch, &p);
        handler_release(&scratch);
        if (r == OK)
                return 0;
        cfg_error(cfg, "%s", p.detail);
        return -1;
}

static int sign_refused(const char *path, int line, char sign, struct problem *p)
{
        const char *advice = "write patterns as \"report_*\"";
        if (sign == ';')
                advice = "a setting ends where the next one begins";
        else if (sign == '$')
                advice = "nothing is filled in from the worker's environment";
        return problem_set(p, ERR_BADARG, "%s:%d: a '%c' outside of quotes: %s", path, line, sign,
                           advice);
}

/* The row of the setting whose name ends before the '=' at s, ARRAY_LEN(settings) for none. */
static size_t setting_before(const char *text, const char *s)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
        while (s > text && strchr(" \t\r\n", s[-1]))
                s--;
        const char *end = s;
        while (s > text && strchr(letters, s[-1]))
                s--;
        size_t i = 0;
        while (i < ARRAY_LEN(settings) &&
               !slice_eq(slice_make(s, (size_t)(end - s)), slice_str(settings[i].name)))
                i++;
        return i;
}

struct scan {
        const char *path;
        char *text, *at;
        int line, depth, opened; /* opened: the line of the handler's brace */
        uint32_t seen;           /* settings of this handler, a bit for each row */
};
_Static_assert(ARRAY_LEN(settings) < 32, "a bit for each setting, and one for none");

/* The sign at c->at, which is in no quotes. */
static int check_sign(struct scan *c, struct problem *p)
{
        char sign = *c->at;
        const char *next = c->at + 1 + strspn(c->at + 1, " \t\r\n");
        if (strchr("*?;$", sign))
                return sign_refused(c->path, c->line, sign, p);
        if (sign == '{' && c->depth > 0 && *next == '}')
                return problem_set(p, ERR_BADARG,
                                   "%s:%d: an empty list: leave the setting out (or no_retry = "
                                   "none)",
                                   c->path, c->line);
        size_t set = sign == '=' ? setting_before(c->text, c->at) : ARRAY_LEN(settings);
        if (set < ARRAY_LEN(settings) && c->seen >> set & 1)
                return problem_set(p, ERR_BADARG, "%s:%d: %s is set a second time", c->path,
                                   c->line, settings[set].name);
        c->seen |= 1U << set;
        if (sign == '{' && c->depth++ == 0) {
                c->opened = c->line;
                c->seen = 0;
        }
        c->depth -= sign == '}';
        c->line += sign == '\n';
        c->at++;
        return OK;
}

/* What libconfuse would pass over, or tell badly, in a text without comments. */
static int check_signs(const char *path, char *text, struct problem *p)
{
        struct scan c = {.path = path, .text = text, .at = text, .line = 1};
        int r = OK;
        while (r == OK && *c.at) {
                if (*c.at == '"' || *c.at == '\'')
                        c.at = conf_file_skip_text(c.at, &c.line);
                else
                        r = check_sign(&c, p);
        }
        if (r == OK && c.depth > 0) /* libconfuse would take the end of the file for it */
                r = problem_set(p, ERR_BADARG, "%s:%d: a '{' is never closed", path, c.opened);
        return r;
}

/* In double quotes libconfuse puts a variable of the worker in place of ${NAME}.  It is meant for
 * the shell that the command may be, which has other ones. */
static void put_without_variables(struct buf *b, char *text)
{
        int line = 0; /* of no interest */
        for (char *s = text; *s;) {
                char quote = *s;
                const char *end = quote == '"' || quote == '\'' ? conf_file_skip_text(s, &line) : s;
                do {
                        if (quote == '"' && s[0] == '$' && s[1] == '{')
                                buf_put_byte(b, '\\');
                        else if (s[0] == '\\' && s + 1 < end)
                                buf_put_byte(b, *s++);
                        buf_put_byte(b, *s++);
                } while (s < end);
        }
}

static int take_all(cfg_t *cfg, const char *path, struct handlers *ret, struct problem *p)
{
        int r = OK;
        ret->origin = xstrdup(path);
        for (unsigned i = 0; r == OK && i < cfg_size(cfg, "handler"); i++) {
                struct handler h;
                r = take_handler(cfg_getnsec(cfg, "handler", i), path, &h, p);
                if (r == OK)
                        r = handlers_add(ret, &h, p);
                handler_release(&h);
        }
        if (r == OK && ret->n == 0)
                r = problem_set(p, ERR_BADARG, "%s: no handler \"pattern\" { ... } in it", path);
        if (r != OK)
                handlers_release(ret);
        return r;
}

static int parse(const char *path, const char *text, struct handlers *ret, struct problem *p)
{
        cfg_opt_t rows[ARRAY_LEN(settings) + 1];
        cfg_opt_t one = CFG_STR(NULL, NULL, CFGF_NODEFAULT);
        cfg_opt_t many = CFG_STR_LIST(NULL, NULL, CFGF_NODEFAULT);
        cfg_opt_t end = CFG_END();
        for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
                rows[i] = settings[i].is_list ? many : one;
                rows[i].name = settings[i].name;
        }
        rows[ARRAY_LEN(settings)] = end;
        cfg_opt_t opts[] = {
                CFG_SEC("handler", rows, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
                CFG_END(),
        };
        cfg_t *cfg = cfg_init(opts, CFGF_NONE);
        if (!cfg)
                return problem_set(p, ERR_NOMEM, "no memory for the handlers");
        reading.path = path;
        reading.problem = p;
        p->err = OK;
        (void)cfg_set_error_function(cfg, on_error); /* returns the old one, like the next */
        (void)cfg_set_validate_func(cfg, "handler", on_handler);
        for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
                char name[64];
                (void)snprintf(name, sizeof(name), "handler|%s", settings[i].name);
                (void)cfg_set_validate_func(cfg, name, on_setting);
        }
        int r = OK;
        if (cfg_parse_buf(cfg, text) != CFG_SUCCESS)
                r = p->err != OK ? p->err
                                 : problem_set(p, ERR_BADARG, "%s is not understood", path);
        else
                r = take_all(cfg, path, ret, p);
        (void)cfg_free(cfg); /* cannot fail on a cfg of ours */
        return r;
}

int work_file_read(const char *path, struct handlers *ret, struct problem *p)
{
        struct buf text CLEANUP(buf_release) = {.max = FILE_MAX_BYTES};
        struct buf plain CLEANUP(buf_release) = {0};
        *ret = (struct handlers){0};
        int r = conf_file_read("handlers file", path, &text, p);
        if (r != OK)
                return r;
        conf_file_blank_comments(text.ptr);
        r = check_signs(path, text.ptr, p);
        put_without_variables(&plain, text.ptr);
        return r == OK ? parse(path, buf_cstr(&plain), ret, p) : r;
}
