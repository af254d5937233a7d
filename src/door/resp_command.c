/* Commands about the connection and the server: what Redis clients send on their own, and help
 * for people.
 *
 * Clients greet with HELLO, AUTH, CLIENT SETINFO, SELECT, INFO or COMMAND before the first
 * command their user asked for; what they need of the answers is here, no more.  All of this
 * touches no job, so replies need not wait for the log. */
#include <stdlib.h>

#include "door/door_int.h"
#include "door/info.h"
#include "door/resp.h"
#include "wire/resp.h"

static bool is_word(struct slice s, const char *word)
{
        return slice_eq_nocase(s, slice_str(word));
}

static struct buf *out(struct resp_conn *rc)
{
        return &rc->conn.out;
}

static void put_bulk(struct resp_conn *rc, const char *text)
{
        resp_put_bulk(out(rc), slice_str(text));
}

static void put_ok(struct resp_conn *rc)
{
        resp_put_simple(out(rc), "OK");
}

static void fail(struct resp_conn *rc, int err, const char *detail)
{
        struct problem p;
        (void)problem_set(&p, err, "%s", detail);
        resp_error(rc, &p);
}

/* --- who is there --------------------------------------------------------------------------- */

static bool try_token(struct resp_conn *rc, struct slice user, struct slice token)
{
        struct server *s = rc->conn.server;
        if (!s->needs_token) {
                fail(rc, ERR_BADARG, "no token is configured here, so none is needed");
                return false;
        }
        struct grant *grant = tokens_find(s->core, user, token, rc->conn.session.address);
        if (!grant) {
                fail(rc, ERR_BADTOKEN, err_text(ERR_BADTOKEN));
                if (conn_count_failure(&rc->conn))
                        conn_hold_back(&rc->conn);
                return false;
        }
        if (use_admits(&rc->conn, grant, &s->problem) != OK) {
                resp_error(rc, &s->problem);
                conn_finish(&rc->conn, true);
                return false;
        }
        conn_authenticated(&rc->conn, grant);
        return true;
}

static void run_auth(struct resp_conn *rc, struct words w)
{
        if (w.argc < 1 || w.argc > 2)
                fail(rc, ERR_SYNTAX, "usage: AUTH [user] token");
        else if (try_token(rc, w.argc > 1 ? w.argv[0] : SLICE_NONE, w.argv[w.argc - 1]))
                put_ok(rc);
}

/* A name is shown in lists and logs, one line each: no spaces, no control characters. */
static bool try_name(struct resp_conn *rc, struct slice name)
{
        if (name.len > LIMIT_NAME_BYTES) {
                fail(rc, ERR_TOOBIG, "a connection's name may be 255 bytes long");
                return false;
        }
        for (size_t i = 0; i < name.len; i++) {
                if (name.ptr[i] < '!' || name.ptr[i] > '~') {
                        fail(rc, ERR_BADARG,
                             "a connection's name cannot hold spaces or special characters");
                        return false;
                }
        }
        char *copy = malloc(name.len + 1);
        if (!copy) {
                fail(rc, ERR_NOMEM, err_text(ERR_NOMEM));
                return false;
        }
        if (name.len)
                memcpy(copy, name.ptr, name.len);
        copy[name.len] = '\0';
        free(rc->name);
        rc->name = copy;
        return true;
}

static void put_hello(struct resp_conn *rc)
{
        struct server *s = rc->conn.server;
        resp_put_map(out(rc), 7, rc->proto);
        put_bulk(rc, "server");
        put_bulk(rc, "weir");
        put_bulk(rc, "version");
        put_bulk(rc, s->version);
        put_bulk(rc, "proto");
        resp_put_int(out(rc), rc->proto);
        put_bulk(rc, "id");
        resp_put_int(out(rc), (int64_t)conn_id(&rc->conn));
        put_bulk(rc, "mode");
        put_bulk(rc, "standalone");
        put_bulk(rc, "role");
        put_bulk(rc, s->is_following ? "replica" : "master");
        put_bulk(rc, "modules");
        resp_put_array(out(rc), 0);
}

static void run_hello(struct resp_conn *rc, struct words w)
{
        uint8_t proto = rc->proto;
        size_t i = 0;
        int64_t n;
        if (w.argc && slice_to_i64(w.argv[0], &n)) {
                if (n != 2 && n != 3) {
                        fail(rc, ERR_BADARG, "only the protocols 2 and 3 are spoken here");
                        return;
                }
                proto = (uint8_t)n;
                i = 1;
        }
        while (i < w.argc) {
                if (is_word(w.argv[i], "AUTH") && w.argc - i > 2) {
                        if (!try_token(rc, w.argv[i + 1], w.argv[i + 2]))
                                return;
                        i += 3;
                } else if (is_word(w.argv[i], "SETNAME") && w.argc - i > 1) {
                        if (!try_name(rc, w.argv[i + 1]))
                                return;
                        i += 2;
                } else {
                        fail(rc, ERR_SYNTAX, "usage: HELLO [2|3] [AUTH user token] [SETNAME name]");
                        return;
                }
        }
        if (!rc->conn.is_authed) {
                fail(rc, ERR_NOAUTH, "send AUTH token, or HELLO 3 AUTH user token");
                return;
        }
        rc->proto = proto;
        put_hello(rc);
}

/* "default" is what Redis calls somebody without a name. */
static void run_acl(struct resp_conn *rc, struct words w)
{
        const struct grant *g = rc->conn.session.grant;
        if (w.argc != 1 || !is_word(w.argv[0], "WHOAMI"))
                fail(rc, ERR_SYNTAX, "usage: ACL WHOAMI");
        else
                resp_put_bulk(out(rc), g ? g->name : SLICE_LIT(TOKEN_DEFAULT_NAME));
}

static void run_reset(struct resp_conn *rc, struct words w)
{
        (void)w;
        free(rc->name);
        rc->name = NULL;
        rc->proto = 2;
        conn_forget_auth(&rc->conn);
        resp_put_simple(out(rc), "RESET");
}

static void run_quit(struct resp_conn *rc, struct words w)
{
        (void)w;
        put_ok(rc);
        conn_finish(&rc->conn, false);
}

static void put_client_line(struct conn *c, int64_t now_ms, struct buf *b)
{
        const char *name = "";
        int proto = 0;
        if (c->door == &resp_door) {
                const struct resp_conn *rc = CONTAINER_OF(c, struct resp_conn, conn);
                name = rc->name ? rc->name : "";
                proto = rc->proto;
        }
        buf_printf(b, "id=%llu name=%s door=%s age=%lld qbuf=%zu obl=%zu waiting=%d resp=%d\n",
                   (unsigned long long)conn_id(c), name, c->door->name,
                   (long long)((now_ms - c->opened_ms) / MS_PER_S), c->in.len - c->in_at,
                   c->out.len - c->sent + c->writing, session_is_waiting(&c->session), proto);
}

static void put_client_list(struct resp_conn *rc, bool is_all)
{
        struct server *s = rc->conn.server;
        struct buf text;
        buf_init(&text, 0);
        if (is_all) {
                LIST_FOREACH(&s->conns, it)
                put_client_line(CONTAINER_OF(it, struct conn, link), s->loop->now.wall_ms, &text);
        } else {
                put_client_line(&rc->conn, s->loop->now.wall_ms, &text);
        }
        resp_put_verbatim(out(rc), buf_slice(&text), rc->proto);
        buf_release(&text);
}

static void run_client(struct resp_conn *rc, struct words w)
{
        struct slice sub = w.argc ? w.argv[0] : SLICE_NONE;
        if (is_word(sub, "SETNAME") && w.argc == 2) {
                if (try_name(rc, w.argv[1]))
                        put_ok(rc);
        } else if (is_word(sub, "GETNAME")) {
                if (rc->name && *rc->name)
                        put_bulk(rc, rc->name);
                else
                        resp_put_null(out(rc), rc->proto);
        } else if (is_word(sub, "ID")) {
                resp_put_int(out(rc), (int64_t)conn_id(&rc->conn));
        } else if (is_word(sub, "LIST") &&
                   access_check_role(rc->conn.session.grant, ROLE_READER, "CLIENT LIST",
                                     &rc->conn.server->problem) != OK) {
                resp_error(rc, &rc->conn.server->problem);
        } else if (is_word(sub, "LIST") || is_word(sub, "INFO")) {
                put_client_list(rc, is_word(sub, "LIST"));
        } else if (is_word(sub, "SETINFO") || is_word(sub, "NO-EVICT") ||
                   is_word(sub, "NO-TOUCH")) {
                put_ok(rc); /* told for the server's good; nothing here depends on it */
        } else {
                fail(rc, ERR_SYNTAX,
                     "usage: CLIENT SETNAME name | GETNAME | ID | SETINFO name value | LIST | "
                     "INFO");
        }
}

/* --- small talk ----------------------------------------------------------------------------- */

static void run_ping(struct resp_conn *rc, struct words w)
{
        if (w.argc > 1)
                fail(rc, ERR_SYNTAX, "usage: PING [message]");
        else if (w.argc)
                resp_put_bulk(out(rc), w.argv[0]);
        else
                resp_put_simple(out(rc), "PONG");
}

static void run_echo(struct resp_conn *rc, struct words w)
{
        if (w.argc != 1)
                fail(rc, ERR_SYNTAX, "usage: ECHO message");
        else
                resp_put_bulk(out(rc), w.argv[0]);
}

static void run_select(struct resp_conn *rc, struct words w)
{
        if (w.argc == 1 && slice_eq(w.argv[0], SLICE_LIT("0")))
                put_ok(rc);
        else
                fail(rc, ERR_BADARG, "there is only database 0");
}

static void run_info(struct resp_conn *rc, struct words w)
{
        struct buf text;
        buf_init(&text, 0);
        info_write(rc->conn.server, w.argc ? w.argv[0] : SLICE_NONE, &text);
        resp_put_verbatim(out(rc), buf_slice(&text), rc->proto);
        buf_release(&text);
}

/* Redis' word for a leader whose address is not known is an empty host and port 0. */
static void run_role(struct resp_conn *rc, struct words w)
{
        const struct server *s = rc->conn.server;
        int64_t seq = (int64_t)core_durable_seq(s->core);
        if (w.argc) {
                fail(rc, ERR_SYNTAX, "usage: ROLE");
        } else if (s->is_following) {
                bool is_known = s->relays.leader != NULL;
                resp_put_array(out(rc), 5);
                put_bulk(rc, "slave");
                put_bulk(rc, is_known ? s->relays.url.host : "");
                resp_put_int(out(rc), is_known ? s->relays.url.port : 0);
                put_bulk(rc, relays_are_ready(s) ? "connected" : "connect");
                resp_put_int(out(rc), seq);
        } else {
                resp_put_array(out(rc), 3);
                put_bulk(rc, "master");
                resp_put_int(out(rc), seq);
                resp_put_array(out(rc), 0);
        }
}

static void run_config(struct resp_conn *rc, struct words w)
{
        if (w.argc >= 2 && is_word(w.argv[0], "GET"))
                resp_put_map(out(rc), 0, rc->proto);
        else
                fail(rc, ERR_SYNTAX, "usage: CONFIG GET name; the settings are in weir's file");
}

/* --- the command table, told ---------------------------------------------------------------- */

static void put_help_line(struct buf *b, const struct command_def *def)
{
        command_usage(def, b);
        buf_put_byte(b, '\n');
        buf_put_str(b, "    ");
        buf_put_str(b, def->summary);
        buf_put_byte(b, '\n');
}

static void put_help_command(struct buf *b, const struct command_def *def)
{
        put_help_line(b, def);
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                buf_printf(b, "    %-10s %s", p->name, p->text);
                if (p->flags & PARAM_REQUIRED)
                        buf_put_str(b,
                                    param_is_needed(p) ? " (required)" : " (required over RESP)");
                else if (p->fallback)
                        buf_printf(b, " (default: %s)", p->fallback);
                buf_put_byte(b, '\n');
        }
        buf_printf(b, "  answers: %s\n", def->returns);
        if (def->role != ROLE_ANYONE)
                buf_printf(b, "  role: %s\n", role_name(def->role));
        if (def->method)
                buf_printf(b, "  HTTP: %s %s\n", def->method, def->path);
}

static void run_help(struct resp_conn *rc, struct words w)
{
        struct buf text;
        const struct command_def *def = w.argc ? command_find(w.argv[0]) : NULL;
        if (w.argc && !def) {
                fail(rc, ERR_UNKNOWN, "there is no such command; HELP lists them");
                return;
        }
        buf_init(&text, 0);
        for (size_t i = 0; !def && i < command_table_len; i++)
                put_help_line(&text, &command_table[i]);
        if (def)
                put_help_command(&text, def);
        resp_put_verbatim(out(rc), buf_slice(&text), rc->proto);
        buf_release(&text);
}

static void put_lower(struct resp_conn *rc, const char *name)
{
        char lower[32];
        size_t n = 0;
        for (; n < sizeof(lower) && name[n]; n++)
                lower[n] = (char)(name[n] | 0x20);
        resp_put_bulk(out(rc), slice_make(lower, n));
}

/* Words with the name; negative when there may be more (as Redis tells it). */
static int64_t arity(const struct command_def *def)
{
        int64_t n = 1;
        bool has_more = false;
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                bool is_list = p->type == PARAM_NAMES || p->type == PARAM_JOBS;
                if (p->flags & PARAM_REQUIRED)
                        n += 1 + ((p->flags & PARAM_KEYWORD) != 0);
                has_more |= !(p->flags & PARAM_REQUIRED) || is_list;
        }
        return has_more ? -n : n;
}

static void put_spec(struct resp_conn *rc, const struct command_def *def)
{
        const struct {
                unsigned flag;
                const char *name;
        } flags[] = {{COMMAND_WRITE, "write"},
                     {COMMAND_BLOCKS, "blocking"},
                     {COMMAND_NOAUTH, "no_auth"},
                     {COMMAND_DOOR, "fast"}};
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(flags); i++)
                n += (def->flags & flags[i].flag) != 0;
        /* name, arity, flags, first key, last key, step: weir has no keys. */
        resp_put_array(out(rc), 6);
        put_lower(rc, def->name);
        resp_put_int(out(rc), arity(def));
        resp_put_array(out(rc), n);
        for (size_t i = 0; i < ARRAY_LEN(flags); i++)
                if (def->flags & flags[i].flag)
                        resp_put_simple(out(rc), flags[i].name);
        for (int i = 0; i < 3; i++)
                resp_put_int(out(rc), 0);
}

static const char *doc_type(enum param_type type)
{
        switch (type) {
        case PARAM_INT:
        case PARAM_ID:
                return "integer";
        case PARAM_NAME:
        case PARAM_BYTES:
        case PARAM_TEXT:
        case PARAM_TOKEN:
        case PARAM_STATUS:
        case PARAM_NAMES:
        case PARAM_JOBS:
        case PARAM_CLAIM:
        case PARAM_CHOICE:
        case PARAM_FLAG:
        case PARAM_IDS:
                break;
        }
        return "string";
}

static void put_upper(struct resp_conn *rc, const char *name)
{
        char upper[32];
        size_t n = 0;
        for (; n < sizeof(upper) && name[n]; n++)
                upper[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 32 : name[n]);
        resp_put_bulk(out(rc), slice_make(upper, n));
}

static void put_doc_param(struct resp_conn *rc, const struct param_def *p)
{
        bool is_keyword = p->flags & PARAM_KEYWORD, is_optional = !(p->flags & PARAM_REQUIRED);
        bool is_list = p->type == PARAM_NAMES || p->type == PARAM_JOBS;
        resp_put_map(out(rc), 2 + is_keyword + (is_optional || is_list), rc->proto);
        put_bulk(rc, "name");
        put_bulk(rc, p->name);
        put_bulk(rc, "type");
        put_bulk(rc, doc_type(p->type));
        if (is_keyword) {
                put_bulk(rc, "token");
                put_upper(rc, p->name);
        }
        if (is_optional || is_list) {
                put_bulk(rc, "flags");
                resp_put_array(out(rc), (size_t)is_optional + is_list);
                if (is_optional)
                        resp_put_simple(out(rc), "optional");
                if (is_list)
                        resp_put_simple(out(rc), "multiple");
        }
}

static void put_doc(struct resp_conn *rc, const struct command_def *def)
{
        put_lower(rc, def->name);
        resp_put_map(out(rc), 3 + (def->n_params > 0), rc->proto);
        put_bulk(rc, "summary");
        put_bulk(rc, def->summary);
        put_bulk(rc, "since");
        put_bulk(rc, "0.1.0");
        put_bulk(rc, "group");
        put_bulk(rc, def->group);
        if (!def->n_params)
                return;
        put_bulk(rc, "arguments");
        resp_put_array(out(rc), def->n_params);
        for (size_t i = 0; i < def->n_params; i++)
                put_doc_param(rc, &def->params[i]);
}

/* DOCS of some names skips those that are not there; INFO answers null for them. */
static void put_chosen(struct resp_conn *rc, struct words names, bool is_docs)
{
        size_t n = 0;
        for (size_t i = 0; i < names.argc; i++)
                n += command_find(names.argv[i]) != NULL;
        if (is_docs)
                resp_put_map(out(rc), n, rc->proto);
        else
                resp_put_array(out(rc), names.argc);
        for (size_t i = 0; i < names.argc; i++) {
                const struct command_def *def = command_find(names.argv[i]);
                if (def && is_docs)
                        put_doc(rc, def);
                else if (def)
                        put_spec(rc, def);
                else if (!is_docs)
                        resp_put_null(out(rc), rc->proto);
        }
}

static void run_command(struct resp_conn *rc, struct words w)
{
        struct slice sub = w.argc ? w.argv[0] : SLICE_NONE;
        struct words names = {w.argv + 1, w.argc ? w.argc - 1 : 0};
        bool is_docs = is_word(sub, "DOCS"), is_info = is_word(sub, "INFO");
        if (is_word(sub, "COUNT")) {
                resp_put_int(out(rc), (int64_t)command_table_len);
        } else if ((is_docs || is_info) && names.argc) {
                put_chosen(rc, names, is_docs);
        } else if (is_docs) {
                resp_put_map(out(rc), command_table_len, rc->proto);
                for (size_t i = 0; i < command_table_len; i++)
                        put_doc(rc, &command_table[i]);
        } else if (is_word(sub, "LIST")) {
                resp_put_array(out(rc), command_table_len);
                for (size_t i = 0; i < command_table_len; i++)
                        put_lower(rc, command_table[i].name);
        } else if (!w.argc || is_info) {
                resp_put_array(out(rc), command_table_len);
                for (size_t i = 0; i < command_table_len; i++)
                        put_spec(rc, &command_table[i]);
        } else {
                fail(rc, ERR_SYNTAX, "usage: COMMAND [COUNT | LIST | DOCS name... | INFO name...]");
        }
}

/* --- dispatch ------------------------------------------------------------------------------- */

typedef void (*run_fn)(struct resp_conn *rc, struct words w);

static const run_fn runs[N_COMMANDS] = {
        [CMD_PING] = run_ping,       [CMD_ECHO] = run_echo,     [CMD_AUTH] = run_auth,
        [CMD_ACL] = run_acl,         [CMD_HELLO] = run_hello,   [CMD_RESET] = run_reset,
        [CMD_QUIT] = run_quit,       [CMD_SELECT] = run_select, [CMD_CLIENT] = run_client,
        [CMD_COMMAND] = run_command, [CMD_INFO] = run_info,     [CMD_HELP] = run_help,
        [CMD_CONFIG] = run_config,   [CMD_ROLE] = run_role,
};

void resp_command_run(struct resp_conn *rc, const struct command_def *def, struct words w)
{
        if (runs[def->id])
                runs[def->id](rc, w);
        else
                fail(rc, ERR_UNKNOWN, "this command is not spoken over RESP");
}
