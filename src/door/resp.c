/* The RESP door.
 *
 * A read may hold thousands of pipelined commands.  Each is parsed in place, looked up, bound to
 * its row and executed, and the reply is encoded straight into the connection's output; nothing
 * is allocated on the way, and what a command needs for itself (a list of jobs, unescaped words)
 * comes from the server's arena, cleared before the next.
 *
 * How weir's replies look in RESP: a record is a plain array, since its order of fields is fixed
 * and clients take it apart by position; a map is a map in RESP3 and a flat array in RESP2, as
 * Redis does with HGETALL. */
#include "door/resp.h"

#include <stdlib.h>

#include "base/shown.h"
#include "door/door_int.h"
#include "wire/relay_header.h"
#include "wire/resp.h"

static struct resp_conn *of_conn(struct conn *c)
{
        return CONTAINER_OF(c, struct resp_conn, conn);
}

static struct resp_conn *of_reply(struct reply *r)
{
        return CONTAINER_OF(r, struct resp_conn, reply);
}

/* --- replies -------------------------------------------------------------------------------- */

static void put_null(struct reply *r)
{
        struct resp_conn *rc = of_reply(r);
        resp_put_null(&rc->conn.out, rc->proto);
}

static void put_boolean(struct reply *r, bool v)
{
        struct resp_conn *rc = of_reply(r);
        resp_put_bool(&rc->conn.out, v, rc->proto);
}

static void put_integer(struct reply *r, int64_t v)
{
        resp_put_int(&of_reply(r)->conn.out, v);
}

static void put_text(struct reply *r, struct slice v)
{
        resp_put_bulk(&of_reply(r)->conn.out, v);
}

static void put_ok(struct reply *r)
{
        buf_put(&of_reply(r)->conn.out, "+OK\r\n", 5);
}

static void open_container(struct resp_conn *rc, bool has_keys)
{
        ASSERT(rc->depth < 32);
        uint32_t bit = 1U << rc->depth++;
        rc->maps = has_keys ? rc->maps | bit : rc->maps & ~bit;
}

static void put_list(struct reply *r, size_t n)
{
        struct resp_conn *rc = of_reply(r);
        open_container(rc, false);
        resp_put_array(&rc->conn.out, n);
}

static void put_map(struct reply *r, size_t n)
{
        struct resp_conn *rc = of_reply(r);
        open_container(rc, true);
        resp_put_map(&rc->conn.out, n, rc->proto);
}

static void put_key(struct reply *r, const char *name)
{
        struct resp_conn *rc = of_reply(r);
        if (rc->maps & (1U << (rc->depth - 1)))
                resp_put_bulk(&rc->conn.out, slice_str(name));
}

static void put_end(struct reply *r)
{
        struct resp_conn *rc = of_reply(r);
        ASSERT(rc->depth > 0);
        rc->depth--;
}

static void put_error(struct reply *r, const struct problem *problem)
{
        resp_error(of_reply(r), problem);
}

static const struct reply_ops reply_ops = {
        .null = put_null,
        .boolean = put_boolean,
        .integer = put_integer,
        .text = put_text,
        .payload = put_text,
        .ok = put_ok,
        .list = put_list,
        .map = put_map,
        .record = put_list,
        .key = put_key,
        .end = put_end,
        .error = put_error,
};

void resp_error(struct resp_conn *rc, const struct problem *problem)
{
        rc->conn.server->counter[DOOR_RESP_ERRORS]++;
        resp_put_error(conn_out(&rc->conn), err_name(problem->err), problem->detail);
}

static struct reply *reply_begin(struct session *session)
{
        struct resp_conn *rc = of_conn(CONTAINER_OF(session, struct conn, session));
        (void)conn_out(&rc->conn);
        rc->depth = 0;
        return &rc->reply;
}

static void reply_end_late(struct session *session)
{
        struct conn *c = CONTAINER_OF(session, struct conn, session);
        conn_replied_late(c, server_late_seq(c->server, session));
}

/* --- commands ------------------------------------------------------------------------------- */

/* Edit distance of two short words, letters compared without case; both at most 31 long. */
static unsigned distance(struct slice a, struct slice b)
{
        unsigned row[32];
        for (unsigned j = 0; j <= b.len; j++)
                row[j] = j;
        for (unsigned i = 1; i <= a.len; i++) {
                unsigned diagonal = row[0];
                row[0] = i;
                for (unsigned j = 1; j <= b.len; j++) {
                        unsigned change =
                                diagonal + ((a.ptr[i - 1] ^ b.ptr[j - 1]) & ~0x20 ? 1 : 0);
                        unsigned gap = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
                        diagonal = row[j];
                        row[j] = change < gap ? change : gap;
                }
        }
        return row[b.len];
}

static const char *nearest_command(struct slice name)
{
        const char *best = NULL;
        unsigned best_distance = 2 + (name.len > 5); /* further apart is no typing mistake */
        if (name.len > 31)
                return NULL;
        for (size_t i = 0; i < command_table_len; i++) {
                unsigned d = distance(name, slice_str(command_table[i].name));
                if (d < best_distance && d < name.len) {
                        best = command_table[i].name;
                        best_distance = d;
                }
        }
        return best;
}

static int refuse_unknown(struct slice name, struct problem *p)
{
        const char *near = nearest_command(name);
        if (near)
                return problem_set(p, ERR_UNKNOWN, "there is no command '%s'; did you mean %s?",
                                   SHOWN(name), near);
        return problem_set(p, ERR_UNKNOWN, "there is no command '%s'; HELP lists them",
                           SHOWN(name));
}

/* A command of the core, with the words after its name; key: NULL without one.  *seq is set when
 * the core was asked. */
static int run_core(struct resp_conn *rc, const struct command_def *def, struct words w,
                    const struct slice *key, uint64_t *seq)
{
        struct server *s = rc->conn.server;
        struct problem *p = &s->problem;
        int r = command_bind_argv(def, w.argv, w.argc, &s->arena, &s->command, p);
        if (r == OK && key)
                r = command_set_key(&s->command, *key, p);
        if (r != OK)
                return r;
        r = core_exec(s->core, &rc->conn.session, &s->command, &rc->reply, p);
        *seq = server_seq_of(s, def);
        return r;
}

/* IDEMPOTENT key COMMAND words... */
static int run_idempotent(struct resp_conn *rc, struct words w, uint64_t *seq)
{
        struct problem *p = &rc->conn.server->problem;
        if (w.argc < 2)
                return problem_set(p, ERR_SYNTAX, "usage: IDEMPOTENT key COMMAND [argument...]");
        const struct command_def *def = command_find(w.argv[1]);
        if (!def)
                return refuse_unknown(w.argv[1], p);
        if (def->flags & COMMAND_DOOR) /* which cannot be bound */
                return problem_set(p, ERR_BADARG, "%s takes no idempotency key", def->name);
        return run_core(rc, def, (struct words){w.argv + 2, w.argc - 2}, &w.argv[0], seq);
}

/* Any weir of a cluster answers it, whoever leads. */
static bool is_local(const struct command_def *def)
{
        if (!def || command_is_local(def))
                return true;
        return (def->flags & COMMAND_DOOR) && def->id != CMD_IDEMPOTENT;
}

/* This weir does not lead, or not for certain.  False: the command is not to be run, and is
 * answered with s->problem when *ret_is_refused. */
static bool is_let_through(struct resp_conn *rc, const struct slice *argv, bool *ret_is_refused)
{
        struct conn *c = &rc->conn;
        *ret_is_refused = false;
        if (!c->is_authed || is_local(command_find(argv[0])))
                return true;
        enum relay_way way = relay_way(c, &c->server->problem);
        *ret_is_refused = way == RELAY_REFUSED;
        return way == RELAY_HERE;
}

/* Runs one command; its reply is in the output afterwards unless it comes later. */
static void run(struct resp_conn *rc, const struct slice *argv, size_t argc)
{
        struct conn *c = &rc->conn;
        struct server *s = c->server;
        const struct command_def *def = command_find(argv[0]);
        struct words w = {argv + 1, argc - 1};
        uint64_t seq = 0;
        int r = OK;

        s->counter[DOOR_RESP_COMMANDS]++;
        s->loop->n_requests++;
        (void)conn_out(c);
        rc->depth = 0;
        if (!is_local(def))
                c->has_state = true;
        if (!c->is_authed && (!def || !(def->flags & COMMAND_NOAUTH)))
                r = problem_set(&s->problem, ERR_NOAUTH, "send AUTH token first");
        else if (!def)
                r = refuse_unknown(argv[0], &s->problem);
        else if (def->id == CMD_IDEMPOTENT)
                r = run_idempotent(rc, w, &seq);
        else if (def->flags & COMMAND_DOOR)
                resp_command_run(rc, def, w);
        else
                r = run_core(rc, def, w, NULL, &seq);
        if (r == CORE_LATER)
                return;
        if (r != OK)
                resp_error(rc, &s->problem);
        conn_replied(c, seq);
}

static void give_up(struct resp_conn *rc, const char *why)
{
        struct problem p;
        rc->conn.server->counter[DOOR_PROTOCOL_ERRORS]++;
        (void)problem_set(&p, ERR_SYNTAX, "%s", why);
        resp_error(rc, &p);
        conn_replied(&rc->conn, 0);
        conn_finish(&rc->conn, true);
}

/* One command.  False: it waits, and so do those behind it. */
static bool take(struct resp_conn *rc, const struct slice *argv, size_t argc)
{
        struct server *s = rc->conn.server;
        bool is_refused;
        if (!s->is_gated || is_let_through(rc, argv, &is_refused)) {
                run(rc, argv, argc);
                return true;
        }
        if (!is_refused)
                return false;
        resp_error(rc, &s->problem);
        conn_replied(&rc->conn, 0);
        return true;
}

/* Another weir of the cluster begins with a header.  A line of blanks begins like one. */
static bool is_header(struct resp_conn *rc, struct slice bytes)
{
        if (!rc->is_begun && rc->conn.server->secret.len && proxy_header_is_begun(bytes))
                return true;
        rc->is_begun = true;
        return false;
}

static size_t input(struct conn *c, char *bytes, size_t len)
{
        struct server *s = c->server;
        struct resp_request r = {.argv = s->argv, .argv_max = LIMIT_COMMAND_ARGS};
        size_t at = 0;
        if (is_header(of_conn(c), slice_make(bytes, len)))
                return told_take(c, bytes, len);
        while (at < len && conn_can_run(c)) {
                r.bytes_max = c->is_authed ? LIMIT_COMMAND_BYTES : LIMIT_PREAUTH_BYTES;
                arena_clear(&s->arena);
                switch (resp_parse(slice_make(bytes + at, len - at), &s->arena, &r)) {
                case RESP_REQUEST:
                        if (r.argc && !take(of_conn(c), r.argv, r.argc))
                                return at;
                        at += r.used;
                        conn_spend(c, r.used);
                        break;
                case RESP_MORE:
                        c->need = r.need;
                        return at;
                case RESP_BAD:
                        give_up(of_conn(c), r.error);
                        return at;
                case RESP_FOREIGN:
                        s->counter[DOOR_FOREIGN]++;
                        conn_close(c);
                        return at;
                }
        }
        return at;
}

/* --- the door ------------------------------------------------------------------------------- */

static void open_conn(struct conn *c)
{
        struct resp_conn *rc = of_conn(c);
        rc->reply.ops = &reply_ops;
        rc->proto = 2;
        c->session.door = SESSION_RESP;
}

static void close_conn(struct conn *c)
{
        struct resp_conn *rc = of_conn(c);
        free(rc->name);
        rc->name = NULL;
}

static void refuse(struct conn *c, const struct problem *problem)
{
        resp_error(of_conn(c), problem);
        conn_replied(c, 0);
}

static void tell(const struct conn *c, struct relay_header *ret)
{
        const struct resp_conn *rc = CONTAINER_OF(c, const struct resp_conn, conn);
        ret->door = RELAY_RESP;
        ret->proto = rc->proto;
        ret->name = rc->name ? slice_str(rc->name) : SLICE_NONE;
}

static void hear(struct conn *c, const struct relay_header *told)
{
        struct resp_conn *rc = of_conn(c);
        rc->is_begun = true;
        rc->proto = told->proto;
        if (!told->name.len)
                return;
        rc->name = xcalloc(1, told->name.len + 1);
        memcpy(rc->name, told->name.ptr, told->name.len);
}

const struct door resp_door = {
        .name = "resp",
        .conn_bytes = sizeof(struct resp_conn),
        .counts_preauth = true,
        .session = {reply_begin, reply_end_late},
        .open = open_conn,
        .input = input,
        .refuse = refuse,
        .close = close_conn,
        .tell = tell,
        .hear = hear,
};
