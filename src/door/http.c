/* The HTTP door.
 *
 * A request is looked at twice: when its head is there (may this peer ask at all?), before any
 * body is taken in, and when it is complete (what does it ask for?).  The addresses and their
 * parameters are the rows of the command table; nothing here knows a single command, except that
 * ENQUEUE creates something and so answers 201 with a Location.  The foreign contracts of the check
 * door (contract.h) are looked for first, by the first segment of the path: a check is the request
 * that comes most often.
 *
 * Who may ask: with a token configured, a client that shows it, or a browser that showed it at
 * /login and has the cookie of a session since.  A browser sends the cookie with any request that
 * any page makes.  So a request with a cookie must not come from a page of another origin, and one
 * that changes something must carry the session's X-Weir-Csrf, which only the page can know.
 *
 * Without a token, only this machine can reach weir, and the danger left is a web page in a browser
 * on it.  So the Host must be a loopback name: a page cannot choose it, and DNS rebinding shows the
 * attacker's.  A request that changes something is refused when the browser says that it comes from
 * another origin.  freno and Vitess change things by GET: where a browser may be asking for one of
 * those addresses, it must show that a page of weir did.
 *
 * After a request that could not be parsed the connection is closed: weir cannot know where the
 * next one begins, and request smuggling lives on such guesses. */
#include <stdlib.h>

#include "base/shown.h"
#include "door/assets.h"
#include "door/contract.h"
#include "door/door_int.h"
#include "door/json_reply.h"
#include "door/origin.h"
#include "door/site.h"
#include "wire/http.h"
#include "wire/relay_header.h"
#include "wire/traceparent.h"

#define JSON_TYPE    "application/json"
#define PROBLEM_TYPE "application/problem+json"
/* On every answer: nothing here is for caches, and nothing is to be guessed to be a script. */
#define COMMON_LINES   "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
#define REPLY_MAX      (256 * MIB)
#define ALLOW_ANYWHERE "GET, HEAD, POST, DELETE, OPTIONS"

struct http_conn {
        struct conn conn;
        struct http_parser parser;
        bool is_checked; /* the head of the request being read was let through */
        bool has_login;  /* by the cookie of a session */
        /* The request being answered, which may be later. */
        bool is_head;
        bool is_last; /* close afterwards */
        bool is_old;  /* HTTP/1.0 */
        bool is_creating;
        bool is_many;
        struct json_reply reply;
        struct buf body;
};

static struct http_conn *of_conn(struct conn *c)
{
        return CONTAINER_OF(c, struct http_conn, conn);
}

/* --- answering ------------------------------------------------------------------------------ */

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static const char *http_date(struct server *s)
{
        static const char days[] = "SunMonTueWedThuFriSat";
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        time_t now = (time_t)(s->loop->now.wall_ms / MS_PER_S);
        struct tm tm;
        if (s->date_s == (int64_t)now && s->date[0])
                return s->date;
        if (!gmtime_r(&now, &tm))
                return NULL;
        s->date_s = now;
        (void)snprintf(s->date, sizeof(s->date), "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
                       days + (ptrdiff_t)3 * tm.tm_wday, (unsigned)tm.tm_mday % 32,
                       months + (ptrdiff_t)3 * tm.tm_mon, (unsigned)(tm.tm_year + 1900) % 10000,
                       (unsigned)tm.tm_hour % 24, (unsigned)tm.tm_min % 60,
                       (unsigned)tm.tm_sec % 61);
        return s->date;
}

static struct buf *begin_body(struct http_conn *hc)
{
        if (!hc->body.cap)
                hc->body = server_take_buf(hc->conn.server);
        hc->body.max = REPLY_MAX;
        buf_clear(&hc->body);
        return &hc->body;
}

/* Sends hc->body; it may leave when batch `seq` is durable. */
static void answer(struct http_conn *hc, int status, const char *type, struct slice extra)
{
        struct conn *c = &hc->conn;
        struct server *s = c->server;
        struct http_head head = {
                .status = status,
                .content_type = status == 204 ? NULL : type,
                .length = hc->body.len,
                .is_closing = hc->is_last,
                .is_keeping = hc->is_old,
                .date = http_date(s),
                .extra = extra,
        };
        s->counter[DOOR_HTTP_REQUESTS]++;
        s->loop->n_requests++;
        if (status >= 400)
                s->counter[DOOR_HTTP_ERRORS]++;
        struct buf *out = conn_out(c);
        http_put_head(out, &head);
        if (!hc->is_head)
                buf_put_slice(out, buf_slice(&hc->body));
        server_give_buf(s, &hc->body);
}

static void answer_done(struct http_conn *hc, uint64_t seq)
{
        conn_replied(&hc->conn, seq);
        if (hc->is_last)
                conn_finish(&hc->conn, false);
}

/* A problem with a status that may differ from its row's, and header lines of its own. */
static void answer_problem(struct http_conn *hc, int status, const struct problem *p,
                           const char *extra)
{
        struct buf *body = begin_body(hc);
        json_put_problem(body, status, p);
        buf_put_byte(body, '\n');
        struct buf lines = server_take_buf(hc->conn.server);
        buf_put_str(&lines, COMMON_LINES);
        if (p->err == ERR_NOAUTH || p->err == ERR_BADTOKEN)
                buf_put_str(&lines, "WWW-Authenticate: Bearer realm=\"weir\"\r\n");
        if (extra)
                buf_put_str(&lines, extra);
        answer(hc, status, PROBLEM_TYPE, buf_slice(&lines));
        server_give_buf(hc->conn.server, &lines);
}

/* The reply of the core is in hc->body. */
static void answer_reply(struct http_conn *hc)
{
        struct problem p;
        char location[48] = "", extra[192];
        int status = 200;
        if (hc->body.failed) {
                (void)problem_set(&p, ERR_NOMEM, "the reply is too large");
                answer_problem(hc, err_http(p.err), &p, NULL);
                return;
        }
        json_reply_finish(&hc->reply);
        if (hc->reply.err != OK) {
                status = err_http(hc->reply.err);
        } else if (hc->is_creating) {
                status = 201;
                if (!hc->is_many)
                        (void)snprintf(location, sizeof(location), "Location: /v1/jobs/%lld\r\n",
                                       (long long)hc->reply.first_int);
        }
        (void)snprintf(extra, sizeof(extra), COMMON_LINES "%s%s", location,
                       hc->reply.is_again ? "Idempotent-Replay: true\r\n" : "");
        answer(hc, status, hc->reply.err == OK ? JSON_TYPE : PROBLEM_TYPE, slice_str(extra));
}

static struct reply *reply_begin(struct session *session)
{
        struct http_conn *hc = of_conn(CONTAINER_OF(session, struct conn, session));
        json_reply_init(&hc->reply, begin_body(hc));
        return &hc->reply.reply;
}

static void reply_end_late(struct session *session)
{
        struct http_conn *hc = of_conn(CONTAINER_OF(session, struct conn, session));
        struct server *s = hc->conn.server;
        hc->is_last |= s->loop->is_stopping;
        answer_reply(hc);
        conn_replied_late(&hc->conn, server_late_seq(s, session));
        if (hc->is_last)
                conn_finish(&hc->conn, false);
}

/* --- who may ask ---------------------------------------------------------------------------- */

static int check_token(struct http_conn *hc, struct slice authorization, struct problem *p)
{
        struct grant *grant = NULL;
        int r = who_authorizes(&hc->conn, authorization, &grant, p);
        if (r == OK)
                conn_authenticated(&hc->conn, grant);
        return r;
}

/* Asked by a page in a browser, and not by one of ours? */
static bool is_foreign(const struct http_conn *hc, const char *bytes)
{
        const struct origin_way way = {hc->conn.server->needs_token, conn_is_tls(&hc->conn)};
        return origin_is_foreign(&hc->parser, bytes, way);
}

static bool is_asking_only(const struct http_conn *hc)
{
        uint8_t method = hc->parser.ll.method;
        return method == HTTP_GET || method == HTTP_HEAD || method == HTTP_OPTIONS;
}

static int refuse_foreign(struct problem *p)
{
        return problem_set(p, ERR_FORBIDDEN, "a page of another origin may not do this");
}

/* Without a token: is this a program on this machine, or a page in its browser? */
static int check_local(struct http_conn *hc, const char *bytes, bool is_control, struct problem *p)
{
        const struct http_span *header = hc->parser.header;
        struct slice host = http_slice(bytes, header[HTTP_HEADER_HOST]);
        if (!hc->conn.is_local && header[HTTP_HEADER_HOST].is_set && !origin_is_loopback(host))
                return problem_set(
                        p, ERR_HOST,
                        "without a token only localhost, 127.0.0.1 and [::1] are served");
        if (is_control && origin_is_unproven(&hc->parser, bytes, conn_is_tls(&hc->conn)))
                return problem_set(p, ERR_FORBIDDEN,
                                   "this address changes something, and a browser may have been "
                                   "made to ask for it: use the page of weir, or a program such "
                                   "as curl");
        if (is_asking_only(hc))
                return OK;
        return is_foreign(hc, bytes) ? refuse_foreign(p) : OK;
}

/* A browser shows its certificate by itself, as it does with a cookie. */
static int check_certified(struct http_conn *hc, const char *bytes, bool is_control,
                           struct problem *p)
{
        struct grant *grant = who_is_certified(&hc->conn);
        if (!grant)
                return check_token(hc, SLICE_NONE, p); /* which says what is missing */
        if (is_foreign(hc, bytes) || (is_control && origin_is_unproven(&hc->parser, bytes, true)))
                return refuse_foreign(p);
        conn_authenticated(&hc->conn, grant);
        return OK;
}

/* With a token: it must be shown, or the cookie of a session that began with it. */
static int check_caller(struct http_conn *hc, const char *bytes, bool is_control, struct problem *p)
{
        const struct http_parser *parser = &hc->parser;
        struct server *s = hc->conn.server;
        if (parser->header[HTTP_HEADER_AUTHORIZATION].is_set)
                return check_token(hc, http_slice(bytes, parser->header[HTTP_HEADER_AUTHORIZATION]),
                                   p);
        const struct login_session *session = login_find(
                &s->login, http_field(parser, bytes, SLICE_LIT("cookie")), s->loop->now.steady_ns);
        if (!session)
                return check_certified(hc, bytes, is_control, p);
        if (is_foreign(hc, bytes))
                return refuse_foreign(p);
        if (is_control || !is_asking_only(hc)) {
                struct slice value = http_field(parser, bytes, SLICE_LIT("x-weir-csrf"));
                int r = login_check_csrf(session, value, p);
                if (r != OK)
                        return r;
        }
        hc->has_login = true;
        hc->conn.session.door = SESSION_PAGE;
        conn_authenticated(&hc->conn, session->grant);
        return OK;
}

/* A client without the token may send a body here, so it must not be large. */
static int check_login(struct http_conn *hc, const char *bytes, struct problem *p)
{
        struct http_parser *parser = &hc->parser;
        if (is_foreign(hc, bytes))
                return refuse_foreign(p);
        if (parser->body.len > LOGIN_BODY_BYTES ||
            ((parser->ll.flags & F_CONTENT_LENGTH) && parser->ll.content_length > LOGIN_BODY_BYTES))
                return problem_set(p, ERR_TOOBIG, "the body may have %d bytes", LOGIN_BODY_BYTES);
        parser->body_max = LOGIN_BODY_BYTES; /* until this request is over */
        return OK;
}

static int check_page(struct http_conn *hc, const char *bytes, const struct site_page *page,
                      struct problem *p)
{
        if (page->kind == SITE_LOGIN)
                return check_login(hc, bytes, p);
        if (page->is_open && page->kind == SITE_TEXT)
                return OK;
        /* Its answer takes the cookie away, even when the browser did not send it along. */
        if (page->kind == SITE_LOGOUT && is_foreign(hc, bytes))
                return refuse_foreign(p);
        int r = check_caller(hc, bytes, false, p);
        if (page->is_open)
                return r == ERR_NOAUTH ? OK : r;
        return r == OK ? access_check_role(hc->conn.session.grant, ROLE_READER, "this page", p) : r;
}

static int check_contract(struct http_conn *hc, const char *bytes,
                          const struct contract_route *route, struct problem *p)
{
        static const enum role roles[] = {[CONTRACT_CHECK] = ROLE_CHECKER,
                                          [CONTRACT_READ] = ROLE_READER,
                                          [CONTRACT_CONTROL] = ROLE_OPERATOR};
        int r = check_caller(hc, bytes, route->access == CONTRACT_CONTROL, p);
        if (r != OK)
                return r;
        r = access_check_role(hc->conn.session.grant, roles[route->access], route->path, p);
        if (r != OK)
                core_audit_refused(hc->conn.server->core, &hc->conn.session, route->path, p);
        return r;
}

/* The request's head is complete; the body may still be missing. */
static int check_head(struct http_conn *hc, const char *bytes, struct problem *p)
{
        const struct http_parser *parser = &hc->parser;
        struct server *s = hc->conn.server;
        struct site_match match;
        struct contract_match contract;
        struct slice path = http_slice(bytes, parser->path);
        struct slice token = http_slice(bytes, parser->header[HTTP_HEADER_AUTHORIZATION]);
        struct slice expect = http_slice(bytes, parser->header[HTTP_HEADER_EXPECT]);
        if (expect.len && !slice_eq_nocase(expect, SLICE_LIT("100-continue")))
                return problem_set(p, ERR_BADARG, "the only expectation known is 100-continue");
        bool is_contract = contract_find(path, &contract);
        hc->has_login = false;
        hc->conn.session.door = SESSION_HTTP;
        hc->conn.session.is_authenticated = false; /* by this request */
        use_become(&hc->conn, s->needs_token ? s->stranger : NULL);
        if (!s->needs_token)
                return check_local(hc, bytes,
                                   is_contract && contract.route->access == CONTRACT_CONTROL, p);
        if (is_contract) {
                if (s->is_check_open && contract.route->access == CONTRACT_CHECK && !token.len) {
                        use_become(&hc->conn, s->asker);
                        return OK;
                }
                return check_contract(hc, bytes, contract.route, p);
        }
        int r = site_find(slice_str(http_method(parser)), path, &match);
        if (r == OK && match.asset)
                return OK;
        if (r == OK && match.page)
                return check_page(hc, bytes, match.page, p);
        return check_caller(hc, bytes, false, p);
}

/* --- what is asked -------------------------------------------------------------------------- */

static int check_media(const struct http_parser *parser, const char *bytes, struct problem *p)
{
        struct slice type = http_slice(bytes, parser->header[HTTP_HEADER_CONTENT_TYPE]);
        const char *semicolon = type.len ? memchr(type.ptr, ';', type.len) : NULL;
        if (semicolon)
                type.len = (size_t)(semicolon - type.ptr);
        while (type.len && (type.ptr[type.len - 1] == ' ' || type.ptr[type.len - 1] == '\t'))
                type.len--;
        if (slice_eq_nocase(type, SLICE_LIT(JSON_TYPE)))
                return OK;
        return problem_set(p, ERR_MEDIA, "send Content-Type: application/json");
}

/* The trace of the request is that of its jobs, where they name none; W3C wants a wrong one to be
 * ignored.  Not an argument: a request that is repeated for its idempotency key has another span.
 */
static void take_trace(struct command *cmd, struct slice header)
{
        struct traceparent unused; /* only whether it is one */
        if (!traceparent_parse(header, &unused))
                return;
        for (size_t i = 0; i < cmd->n_specs; i++) {
                if (cmd->specs[i].options.traceparent.len)
                        continue;
                cmd->specs[i].options.traceparent = header;
                cmd->specs[i].has_options = true;
        }
}

/* OK: answered.  CORE_LATER: will be.  An error: to be answered with *p. */
static int run_command(struct http_conn *hc, const char *bytes, const struct site_match *match,
                       uint64_t *seq, struct problem *p)
{
        struct server *s = hc->conn.server;
        const struct http_parser *parser = &hc->parser;
        struct bind_request request = {
                .path = match->path,
                .n_path = match->n_path,
                .query = http_slice(bytes, parser->query),
                .has_body = parser->body.len > 0,
                .body = http_slice(bytes, parser->body),
        };
        struct http_span key = parser->header[HTTP_HEADER_IDEMPOTENCY_KEY];
        int r = request.has_body ? check_media(parser, bytes, p) : OK;
        arena_clear(&s->arena);
        if (r == OK)
                r = bind_command(match->def, &request, &s->arena, &s->command, p);
        if (r == OK && key.is_set)
                r = command_set_key(&s->command, http_slice(bytes, key), p);
        if (r != OK)
                return r;
        if (s->command.n_specs)
                take_trace(&s->command, http_field(parser, bytes, SLICE_LIT("traceparent")));
        s->command.raw = request.body;
        hc->conn.has_state |= !command_is_local(match->def);
        hc->is_creating = strcmp(match->def->name, "ENQUEUE") == 0;
        hc->is_many = s->command.is_many;
        json_reply_init(&hc->reply, begin_body(hc));
        r = core_exec(s->core, &hc->conn.session, &s->command, &hc->reply.reply, p);
        *seq = server_seq_of(s, match->def);
        if (r == CORE_LATER)
                server_give_buf(s, &hc->body);
        else if (r == OK)
                answer_reply(hc);
        return r;
}

static void answer_options(struct http_conn *hc, const char *allow)
{
        char extra[160];
        (void)snprintf(extra, sizeof(extra), COMMON_LINES "Allow: %s\r\n", allow);
        (void)begin_body(hc);
        answer(hc, 204, NULL, slice_str(extra));
}

/* --- the page ------------------------------------------------------------------------------- */

static void answer_asset(struct http_conn *hc, const char *bytes, const struct asset *asset)
{
        const struct http_parser *parser = &hc->parser;
        struct asset_request request = {
                .accept_encoding = http_field(parser, bytes, SLICE_LIT("accept-encoding")),
                .if_none_match = http_field(parser, bytes, SLICE_LIT("if-none-match")),
        };
        struct buf lines = server_take_buf(hc->conn.server);
        int status = asset_put(asset, &request, &lines, begin_body(hc));
        answer(hc, status, status == 304 ? NULL : asset->type, buf_slice(&lines));
        server_give_buf(hc->conn.server, &lines);
}

static struct grant *find_token(void *ctx, struct slice token, const char *address)
{
        return tokens_find(ctx, SLICE_NONE, token, address);
}

/* The session itself: who has one, log in, log out. */
static void answer_session(struct http_conn *hc, const char *bytes, const struct site_page *page)
{
        const struct http_parser *parser = &hc->parser;
        struct server *s = hc->conn.server;
        struct problem *p = &s->problem;
        struct buf lines = server_take_buf(s);
        struct slice scheme = http_field(parser, bytes, SLICE_LIT("x-forwarded-proto"));
        struct login_call call = {
                .login = &s->login,
                .find = find_token,
                .find_ctx = s->core,
                .needs_token = s->needs_token,
                .grant = hc->conn.session.is_authenticated ? hc->conn.session.grant : NULL,
                .version = s->version,
                .now_ns = s->loop->now.steady_ns,
                .address = hc->conn.session.address,
                .cookies = http_field(parser, bytes, SLICE_LIT("cookie")),
                .has_token = hc->conn.session.is_authenticated && !hc->has_login,
                .is_https = conn_is_tls(&hc->conn) || slice_eq_nocase(scheme, SLICE_LIT("https")),
                .content_type = http_slice(bytes, parser->header[HTTP_HEADER_CONTENT_TYPE]),
                .content = http_slice(bytes, parser->body),
                .arena = &s->arena,
                .lines = &lines,
                .body = begin_body(hc),
        };
        int r = OK;
        hc->conn.has_state = true;
        arena_clear(&s->arena);
        if (page->kind == SITE_LOGIN)
                r = login_enter(&call, p);
        else if (page->kind == SITE_LOGOUT)
                login_leave(&call);
        else
                login_tell(&call);
        bool is_slow = r == ERR_BADTOKEN && conn_count_failure(&hc->conn);
        hc->is_last |= is_slow;
        if (r == OK) {
                buf_put_str(&lines, COMMON_LINES);
                answer(hc, 200, page->content_type, buf_slice(&lines));
        } else {
                answer_problem(hc, err_http(r), p, buf_cstr(&lines));
        }
        if (is_slow)
                conn_hold_back(&hc->conn);
        server_give_buf(s, &lines);
}

/* The head of an answer that has no end.  The connection is its end, so that it is the same for
 * HTTP/1.0. */
static int answer_live(struct http_conn *hc, const char *bytes, const struct site_page *page,
                       struct problem *p)
{
        struct conn *c = &hc->conn;
        struct server *s = c->server;
        struct http_head head = {
                .status = 200,
                .content_type = page->content_type,
                .is_stream = true,
                .is_closing = hc->is_last || !hc->is_head,
                .is_keeping = hc->is_old,
                .date = http_date(s),
                /* nginx would collect the events to pass them on by the kilobyte. */
                .extra = SLICE_LIT(COMMON_LINES "X-Accel-Buffering: no\r\n"),
        };
        if (s->stream.n >= LIMIT_LIVE)
                return problem_set(p, ERR_UNAVAIL, "%d listen already, which is the limit",
                                   LIMIT_LIVE);
        struct slice cookies = http_field(&hc->parser, bytes, SLICE_LIT("cookie"));
        const struct login_session *login =
                hc->has_login ? login_find(&s->login, cookies, s->loop->now.steady_ns) : NULL;
        if (hc->has_login && !login) /* it ended between our head and our body */
                return problem_set(p, ERR_NOAUTH, "%s", err_text(ERR_NOAUTH));
        c->has_state = true;
        s->counter[DOOR_HTTP_REQUESTS]++;
        s->loop->n_requests++;
        http_put_head(conn_out(c), &head);
        if (hc->is_head)
                answer_done(hc, 0);
        else
                stream_join(s, c, http_field(&hc->parser, bytes, SLICE_LIT("last-event-id")),
                            login);
        return OK;
}

/* Returns what the reply waits for. */
static uint64_t answer_page(struct http_conn *hc, const char *bytes, const struct site_match *match)
{
        const struct server *s = hc->conn.server;
        const struct site_page *page = match->page;
        if (match->asset)
                answer_asset(hc, bytes, match->asset);
        else if (page->kind == SITE_TEXT)
                answer(hc, page->put(s, begin_body(hc)), page->content_type,
                       SLICE_LIT(COMMON_LINES));
        else
                answer_session(hc, bytes, page);
        /* What a machine of a cluster tells of itself must not wait for the log: it is wanted most
         * when the log stands still, and on one that follows nothing would let go of it. */
        bool waits = page && !page->is_open && !(page->kind == SITE_TEXT && s->secret.len);
        return waits ? core_reply_seq(s->core) : 0;
}

/* --- the contracts of the check door ------------------------------------------------------- */

static const char *allowed_of(const struct contract_route *route)
{
        return route->is_get_only ? "GET, OPTIONS" : "GET, HEAD, OPTIONS";
}

static void refuse_method(struct http_conn *hc, const struct contract_route *route)
{
        struct problem *p = &hc->conn.server->problem;
        char extra[96];
        (void)problem_set(p, ERR_METHOD, "%s is not taken here; this address takes %s",
                          http_method(&hc->parser), allowed_of(route));
        (void)snprintf(extra, sizeof(extra), "Allow: %s\r\n", allowed_of(route));
        answer_problem(hc, err_http(ERR_METHOD), p, extra);
}

/* To the same address without the '/' at its end. */
static void redirect(struct http_conn *hc, struct slice path, struct slice query)
{
        struct server *s = hc->conn.server;
        struct buf lines = server_take_buf(s);
        ASSERT(path.len > 1); /* it has a route and a '/' behind it */
        buf_put_str(&lines, COMMON_LINES "Location: ");
        buf_put(&lines, path.ptr, path.len - 1);
        if (query.len) {
                buf_put_byte(&lines, '?');
                buf_put_slice(&lines, query);
        }
        buf_put(&lines, "\r\n", 2);
        (void)begin_body(hc);
        answer(hc, 301, NULL, buf_slice(&lines));
        server_give_buf(s, &lines);
}

/* Any client can write X-Forwarded-For, so only a proxy on this machine is believed. */
static struct slice asker_of(const struct http_conn *hc, const char *bytes)
{
        const struct http_parser *parser = &hc->parser;
        struct slice said = SLICE_NONE;
        if (hc->conn.is_near)
                said = contract_forwarded(
                        slice_make(bytes + parser->target.at, parser->used - parser->target.at));
        return said.len ? said : slice_str(hc->conn.session.address);
}

/* Its path and query say what it changed. */
static void audit_contract(struct http_conn *hc, const char *bytes)
{
        const struct http_parser *parser = &hc->parser;
        char role[ROLE_TEXT_BYTES], what[AUDIT_WHAT_BYTES + sizeof(SHOWN_DOTS)];
        struct buf text CLEANUP(buf_release) = {0};
        struct audit_entry e = {.command = SLICE_LIT("CONTRACT")};
        audit_by(&hc->conn.session, role, &e);
        buf_put_slice(&text, http_slice(bytes, parser->path));
        if (parser->query.len)
                buf_put_byte(&text, '?');
        buf_put_slice(&text, http_slice(bytes, parser->query));
        e.what = slice_str(shown_put(what, sizeof(what), buf_slice(&text)));
        core_audit(hc->conn.server->core, &e);
}

/* Returns what the reply waits for: a check for nothing. */
static uint64_t run_contract(struct http_conn *hc, const char *bytes,
                             const struct contract_match *match)
{
        struct server *s = hc->conn.server;
        const struct http_parser *parser = &hc->parser;
        struct session *session = &hc->conn.session;
        struct contract_call call = {
                .core = s->core,
                .now = s->loop->now,
                .started_ms = s->started_ms,
                .is_stopping = s->loop->is_stopping,
                .query = http_slice(bytes, parser->query),
                .address = asker_of(hc, bytes),
                .is_authenticated = session->is_authenticated,
                .grant = session->grant,
                .arena = &s->arena,
                .answer = &s->check_answer,
                .checked_ns = &s->checked_ns,
                .body = begin_body(hc),
        };
        hc->conn.has_state |= match->route->access != CONTRACT_CHECK;
        arena_clear(&s->arena);
        contract_run(&call, match);
        if (match->route->access == CONTRACT_CONTROL && call.status < 400)
                audit_contract(hc, bytes);
        answer(hc, call.status, call.content_type, SLICE_LIT(COMMON_LINES));
        if (match->route->access != CONTRACT_CHECK)
                return core_reply_seq(s->core);
        loop_note_check(s->loop);
        return 0;
}

static void handle_contract(struct http_conn *hc, const char *bytes,
                            const struct contract_match *match)
{
        const struct http_parser *parser = &hc->parser;
        uint8_t method = parser->ll.method;
        uint64_t seq = 0;
        if (method == HTTP_OPTIONS)
                answer_options(hc, allowed_of(match->route));
        else if (method != HTTP_GET && (method != HTTP_HEAD || match->route->is_get_only))
                refuse_method(hc, match->route);
        else if (match->is_slash)
                redirect(hc, http_slice(bytes, parser->path), http_slice(bytes, parser->query));
        else
                seq = run_contract(hc, bytes, match);
        answer_done(hc, seq);
}

/* A complete request that may ask.  Returns whether it was answered. */
static bool handle(struct http_conn *hc, const char *bytes)
{
        struct problem *p = &hc->conn.server->problem;
        struct slice method = slice_str(http_method(&hc->parser));
        struct slice path = http_slice(bytes, hc->parser.path);
        struct site_match match;
        struct contract_match contract;
        char extra[96] = "";
        uint64_t seq = 0;
        if (contract_find(path, &contract)) {
                handle_contract(hc, bytes, &contract);
                return true;
        }
        int r = site_find(method, path, &match);
        if (slice_eq(method, SLICE_LIT("OPTIONS")) &&
            (r != ERR_UNKNOWN || slice_eq(path, SLICE_LIT("*")))) {
                answer_options(hc, match.allow[0] ? match.allow : ALLOW_ANYWHERE);
                r = OK;
        } else if (r == ERR_METHOD) {
                (void)problem_set(p, r, "%.*s is not taken here; this address takes %s",
                                  (int)method.len, method.ptr, match.allow);
                (void)snprintf(extra, sizeof(extra), "Allow: %s\r\n", match.allow);
        } else if (r != OK) {
                (void)problem_set(p, r, "there is nothing at %s; /openapi.json lists what is",
                                  SHOWN(path));
        } else if (match.page && match.page->kind == SITE_LIVE) {
                r = answer_live(hc, bytes, match.page, p);
                if (r == OK)
                        return true; /* for ever, or it was HEAD and is answered */
        } else if (match.page || match.asset) {
                seq = answer_page(hc, bytes, &match);
        } else {
                r = run_command(hc, bytes, &match, &seq, p);
        }
        if (r == CORE_LATER)
                return false;
        if (r != OK)
                answer_problem(hc, err_http(r), p, extra);
        answer_done(hc, seq);
        return true;
}

/* --- input ---------------------------------------------------------------------------------- */

static void begin_request(struct http_conn *hc)
{
        hc->is_head = hc->parser.ll.method == HTTP_HEAD;
        hc->is_old = hc->parser.ll.http_minor == 0;
        hc->is_last = !hc->parser.is_keep_alive || hc->conn.server->loop->is_stopping;
        hc->is_creating = hc->is_many = false;
}

/* The connection is over after this answer; more may still be coming in. */
static void give_up(struct http_conn *hc, int status, const struct problem *p)
{
        hc->is_last = true;
        hc->is_head = false;
        answer_problem(hc, status, p, NULL);
        conn_replied(&hc->conn, 0);
        conn_finish(&hc->conn, true);
}

static void give_up_bad(struct http_conn *hc)
{
        struct problem p;
        int status = hc->parser.status;
        bool is_big = status == 413 || status == 414 || status == 431;
        hc->conn.server->counter[DOOR_PROTOCOL_ERRORS]++;
        (void)problem_set(&p, is_big ? ERR_TOOBIG : ERR_SYNTAX, "%s", hc->parser.error);
        give_up(hc, status, &p);
}

static void invite_body(struct http_conn *hc)
{
        static const char invitation[] = "HTTP/1.1 100 Continue\r\n\r\n";
        if (!hc->parser.header[HTTP_HEADER_EXPECT].is_set || !hc->parser.has_body ||
            hc->parser.ll.http_minor == 0)
                return;
        buf_put_str(conn_out(&hc->conn), invitation);
        conn_replied(&hc->conn, 0);
}

/* Any weir of a cluster answers it, whoever leads. */
static bool is_local(const struct http_conn *hc, const char *bytes)
{
        struct slice path = http_slice(bytes, hc->parser.path);
        struct contract_match contract;
        struct site_match match;
        if (contract_find(path, &contract))
                return contract.route->access == CONTRACT_CHECK;
        if (site_find(slice_str(http_method(&hc->parser)), path, &match) != OK)
                return false;
        if (match.page)
                return match.page->kind == SITE_TEXT;
        return match.asset || command_is_local(match.def);
}

/* The head is there for the first time.  False: it was refused and answered. */
static bool admit(struct http_conn *hc, const char *bytes, bool is_complete)
{
        struct problem p;
        hc->is_checked = true;
        int r = check_head(hc, bytes, &p);
        if (r == OK) {
                if (!is_complete) {
                        invite_body(hc);
                        hc->conn.has_state |= !is_local(hc, bytes); /* and cannot be relayed */
                }
                return true;
        }
        int status = r == ERR_BADARG ? 417 : err_http(r);
        begin_request(hc);
        if (r == ERR_BADTOKEN && conn_count_failure(&hc->conn)) {
                give_up(hc, status, &p);
                conn_hold_back(&hc->conn);
        } else if (is_complete) {
                answer_problem(hc, status, &p, NULL);
                answer_done(hc, 0);
        } else {
                give_up(hc, status, &p);
        }
        return false;
}

/* This weir does not lead, or not for certain: the request is looked at when its head is there, and
 * its body left as it is until then.  False: it is not to be run. */
static bool parse_gated(struct http_conn *hc, char *bytes, size_t len, enum http_step *ret)
{
        struct conn *c = &hc->conn;
        struct problem *p = &c->server->problem;
        hc->parser.stops_at_head = true;
        *ret = http_parse(&hc->parser, bytes, len);
        hc->parser.stops_at_head = false;
        if (*ret == HTTP_STEP_BAD || !hc->parser.is_head_done)
                return true;
        enum relay_way way = is_local(hc, bytes) ? RELAY_HERE : relay_way(c, p);
        if (way == RELAY_AWAY)
                return false;
        *ret = http_parse(&hc->parser, bytes, len);
        if (way == RELAY_HERE || *ret == HTTP_STEP_BAD)
                return true;
        begin_request(hc); /* which is the last when its end is not there */
        answer_problem(hc, err_http(p->err), p, "Retry-After: 1\r\n");
        conn_replied(c, 0);
        if (hc->is_last)
                conn_finish(c, *ret != HTTP_STEP_REQUEST);
        hc->is_checked = true; /* and answered */
        return true;
}

static size_t input(struct conn *c, char *bytes, size_t len)
{
        struct http_conn *hc = of_conn(c);
        size_t at = 0;
        while (at < len && conn_can_run(c)) {
                enum http_step step;
                bool is_answered = false;
                if (!c->server->is_gated || hc->is_checked)
                        step = http_parse(&hc->parser, bytes + at, len - at);
                else if (parse_gated(hc, bytes + at, len - at, &step))
                        is_answered = hc->is_checked;
                else
                        return at;
                bool is_complete = step == HTTP_STEP_REQUEST, is_admitted = !is_answered;
                if (step == HTTP_STEP_BAD) {
                        give_up_bad(hc);
                        return len;
                }
                if (hc->parser.is_head_done && !hc->is_checked)
                        is_admitted = admit(hc, bytes + at, is_complete);
                if (!is_complete)
                        return is_answered ? len : at;
                if (is_admitted) {
                        begin_request(hc);
                        (void)handle(hc, bytes + at); /* when later: conn_can_run says no */
                }
                at += hc->parser.used;
                conn_spend(c, hc->parser.used);
                http_parser_next(&hc->parser);
                hc->parser.body_max = LIMIT_COMMAND_BYTES;
                hc->is_checked = false;
        }
        return c->is_listening ? len : at;
}

/* --- the door ------------------------------------------------------------------------------- */

static void open_conn(struct conn *c)
{
        c->session.door = SESSION_HTTP;
        http_parser_init(&of_conn(c)->parser, LIMIT_HTTP_HEADER_BYTES, LIMIT_COMMAND_BYTES);
}

static void close_conn(struct conn *c)
{
        struct http_conn *hc = of_conn(c);
        if (c->is_listening)
                stream_leave(c->server, c);
        if (hc->body.cap)
                server_give_buf(c->server, &hc->body);
}

static void refuse(struct conn *c, const struct problem *problem)
{
        struct http_conn *hc = of_conn(c);
        int status = err_http(problem->err);
        /* A connection that never asked anything is closed without a word; an answer to nothing
         * would be taken for the answer to what is asked next.  ERR_SYNTAX: it asked, in the
         * clear. */
        if (problem->err != ERR_LIMIT && problem->err != ERR_SYNTAX && c->in.len == c->in_at)
                return;
        if (problem->err == ERR_TIMEOUT)
                status = 408;
        else if (problem->err == ERR_LIMIT)
                status = 503; /* not this client's doing, as 429 would say */
        hc->is_last = true;
        hc->is_head = false;
        answer_problem(hc, status, problem, NULL);
        conn_replied(c, 0);
}

static void tell(const struct conn *c, struct relay_header *ret)
{
        (void)c; /* each request says all that there is */
        ret->door = RELAY_HTTP;
}

static void hear(struct conn *c, const struct relay_header *told)
{
        (void)c;
        (void)told;
}

const struct door http_door = {
        .name = "http",
        .conn_bytes = sizeof(struct http_conn),
        .counts_preauth = false,
        .is_http = true,
        .session = {reply_begin, reply_end_late},
        .open = open_conn,
        .input = input,
        .refuse = refuse,
        .close = close_conn,
        .tell = tell,
        .hear = hear,
};
