/* See request.h. */
#include "cli/request.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/shown.h"
#include "wire/tls_client.h"

void cli_request_init(struct cli_request *r, const char *command)
{
        *r = (struct cli_request){0};
        cli_request_add_str(r, command);
}

void cli_request_init_named(struct cli_request *r, const struct cli *cli, const char *command)
{
        cli_request_init(r, command);
        cli_request_add_str(r, cli->args.positional[0]);
}

void cli_request_add(struct cli_request *r, struct slice word)
{
        ASSERT(r->argc < REQUEST_WORDS_MAX);
        r->argv[r->argc++] = word;
}

void cli_request_add_str(struct cli_request *r, const char *word)
{
        cli_request_add(r, slice_str(word));
}

void cli_request_add_keyword(struct cli_request *r, const char *name)
{
        ASSERT(r->n_made < ARRAY_LEN(r->made));
        char *keyword = r->made[r->n_made++];
        (void)snprintf(keyword, sizeof(r->made[0]), "%s", name);
        for (char *at = keyword; *at; at++)
                *at = (char)toupper((unsigned char)*at);
        cli_request_add_str(r, keyword);
}

void cli_request_add_int(struct cli_request *r, int64_t n)
{
        ASSERT(r->n_made < ARRAY_LEN(r->made));
        char *digits = r->made[r->n_made++];
        (void)snprintf(digits, sizeof(r->made[0]), "%lld", (long long)n);
        cli_request_add_str(r, digits);
}

void cli_request_add_option(struct cli_request *r, const struct args *args, const char *option,
                            const char *keyword)
{
        const char *value = args_get(args, option);
        if (value) {
                cli_request_add_str(r, keyword);
                cli_request_add_str(r, value);
        }
}

static const char *const filters[][2] = {
        {"hook", "HOOK"}, {"queue", "QUEUE"}, {"group", "GROUP"}, {"match", "MATCH"}};

bool cli_has_filter(const struct args *args)
{
        for (size_t i = 0; i < ARRAY_LEN(filters); i++)
                if (args_has(args, filters[i][0]))
                        return true;
        return false;
}

void cli_request_add_filter(struct cli_request *r, const struct args *args)
{
        for (size_t i = 0; i < ARRAY_LEN(filters); i++)
                cli_request_add_option(r, args, filters[i][0], filters[i][1]);
}

void cli_request_add_page(struct cli_request *r, const char *limit, struct slice cursor)
{
        cli_request_add_str(r, "LIMIT");
        cli_request_add_str(r, limit);
        if (cursor.len) {
                cli_request_add_str(r, "CURSOR");
                cli_request_add(r, cursor);
        }
}

int cli_request_call(struct cli *cli, const struct cli_request *r, const struct value **ret,
                     struct problem *p)
{
        return client_call(&cli->client, r->argv, r->argc, ret, p);
}

int cli_call_named(struct cli *cli, const char *command, const struct value **ret,
                   struct problem *p)
{
        struct cli_request req;
        cli_request_init_named(&req, cli, command);
        return cli_request_call(cli, &req, ret, p);
}

int cli_read_file(const char *path, size_t max, struct buf *ret, struct problem *p)
{
        bool is_stdin = strcmp(path, "-") == 0;
        FILE *f = is_stdin ? stdin : fopen(path, "re");
        if (!f)
                return problem_set(p, ERR_IO, "cannot read %s: %s", SHOWN_LONG(path),
                                   strerror(errno));
        size_t n;
        do {
                if (!buf_reserve(ret, 65536))
                        break;
                n = fread(ret->ptr + ret->len, 1, 65536, f);
                ret->len += n;
        } while (n > 0 && ret->len <= max);
        int error = ferror(f) ? errno : 0;
        if (!is_stdin)
                (void)fclose(f);
        if (error)
                return problem_set(p, ERR_IO, "cannot read %s: %s", SHOWN_LONG(path),
                                   strerror(error));
        if (ret->failed || ret->len > max)
                return problem_set(p, ERR_TOOBIG, "%s is larger than %zu bytes", SHOWN_LONG(path),
                                   max);
        return OK;
}

int cli_read_args(const char *word, struct buf *ret, struct problem *p)
{
        if (strcmp(word, "-") == 0)
                return cli_read_file("-", LIMIT_PAYLOAD_BYTES, ret, p);
        if (word[0] == '@')
                return cli_read_file(word + 1, LIMIT_PAYLOAD_BYTES, ret, p);
        buf_put_str(ret, word);
        return OK;
}

/* The token itself, or the first line of @FILE. */
static int token_read(const char *text, struct server_url *ret, struct problem *p)
{
        if (text[0] != '@') {
                if (strlen(text) >= sizeof(ret->token))
                        return problem_set(p, ERR_BADARG, "the token is longer than %zu bytes",
                                           sizeof(ret->token) - 1);
                memcpy(ret->token, text, strlen(text) + 1);
                return OK;
        }
        FILE *f = fopen(text + 1, "re");
        if (!f)
                return problem_set(p, ERR_IO, "cannot read the token from %s: %s",
                                   SHOWN_LONG(text + 1), strerror(errno));
        const char *line = fgets(ret->token, sizeof(ret->token), f);
        (void)fclose(f);
        if (!line)
                return problem_set(p, ERR_IO, "the token file %s is empty", SHOWN_LONG(text + 1));
        ret->token[strcspn(ret->token, "\r\n")] = '\0';
        return OK;
}

/* A worker's job, which is told the address too, may run in another folder.  Links are not
 * followed: a renewed certificate is often another file behind the same link. */
static void make_absolute(char *path, size_t size)
{
        struct buf whole CLEANUP(buf_release) = {0};
        char *folder = path[0] && path[0] != '/' ? get_current_dir_name() : NULL;
        if (!folder)
                return;
        buf_printf(&whole, "%s/%s", folder, path);
        if (whole.len < size)
                memcpy(path, buf_cstr(&whole), whole.len + 1);
        free(folder);
}

/* A file that cannot be used is told at once, before anything is done, and not by each attempt to
 * connect. */
static int tls_check(struct server_url *url, struct problem *p)
{
        struct tls_client *tls CLEANUP(tls_client_freep) = NULL;
        char *const files[] = {url->tls.ca, url->tls.cert, url->tls.key};
        int r = server_url_add_env(url, p);
        for (size_t i = 0; i < ARRAY_LEN(files); i++)
                make_absolute(files[i], SERVER_FILE_SIZE);
        return r == OK && url->is_tls ? tls_client_new(url, &tls, p) : r;
}

int cli_server(const struct args *args, struct server_url *ret, struct problem *p)
{
        const char *url = args_get(args, "url");
        const char *token = args_get(args, "token");
        const char *env_url = getenv("WEIR_URL"), *env_token = getenv("WEIR_TOKEN");
        if (!url && env_url && *env_url)
                url = env_url;
        int r = server_url_parse(url ? url : SERVER_URL_DEFAULT, ret, p);
        if (r != OK)
                return r;
        if (!token && ret->token[0] == '\0' && env_token && *env_token)
                token = env_token;
        r = token ? token_read(token, ret, p) : OK;
        if (r == OK && ret->user[0] && !ret->token[0])
                return problem_set(p, ERR_BADARG,
                                   "the url names the user '%s' without a token: set WEIR_TOKEN or "
                                   "use --token @FILE",
                                   SHOWN_STR(ret->user));
        return r == OK ? tls_check(ret, p) : r;
}
