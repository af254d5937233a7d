/* The HTTP door.
 *
 * A request is looked at twice: when its head is there (may this peer ask at all?), before any
 * body is taken in, and when it is complete (what does it ask for?).  The addresses and their
 * parameters are the rows of the command table; nothing here knows a single command, except that
 * ENQUEUE creates something and so answers 201 with a Location.
 *
 * Who may ask: with a token configured, whoever shows it.  Without one, weir is reachable from
 * this machine only, and the danger left is a web page in somebody's browser here: so the Host
 * must be a loopback name (a page cannot choose it, and DNS rebinding shows the attacker's), and
 * what changes anything is refused when the browser says it comes from another origin.
 *
 * After a request that could not be parsed the connection is closed: where the next one begins
 * is then anybody's guess, and a guess is what request smuggling lives on. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "door/inside.h"
#include "door/json_reply.h"
#include "door/site.h"
#include "wire/http.h"

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
        time_t now = (time_t)(s->now.wall_ms / MS_PER_S);
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
        hc->is_last |= s->is_stopping;
        answer_reply(hc);
        conn_replied_late(&hc->conn, core_reply_seq(s->core));
        if (hc->is_last)
                conn_finish(&hc->conn, false);
}

/* --- who may ask ---------------------------------------------------------------------------- */

static bool is_loopback_host(struct slice host)
{
        char name[64];
        struct in_addr v4;
        if (host.len && host.ptr[0] == '[') {
                const char *end = memchr(host.ptr, ']', host.len);
                return end && slice_eq(slice_make(host.ptr, (size_t)(end - host.ptr) + 1),
                                       SLICE_LIT("[::1]"));
        }
        const char *colon = memchr(host.ptr, ':', host.len);
        size_t n = colon ? (size_t)(colon - host.ptr) : host.len;
        if (slice_eq_nocase(slice_make(host.ptr, n), SLICE_LIT("localhost")))
                return true;
        if (n == 0 || n >= sizeof(name))
                return false;
        memcpy(name, host.ptr, n);
        name[n] = '\0';
        return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static int check_token(struct http_conn *hc, struct slice authorization, struct problem *p)
{
        static const struct slice scheme = SLICE_LIT("Bearer ");
        struct server *s = hc->conn.server;
        if (authorization.len <= scheme.len ||
            !slice_eq_nocase(slice_make(authorization.ptr, scheme.len), scheme))
                return problem_set(p, ERR_NOAUTH, "send Authorization: Bearer and the token");
        struct slice token =
                slice_make(authorization.ptr + scheme.len, authorization.len - scheme.len);
        if (!secret_is(&s->token, token)) {
                s->counter[DOOR_AUTH_FAILURES]++;
                return problem_set(p, ERR_BADTOKEN, "%s", err_text(ERR_BADTOKEN));
        }
        conn_authenticated(&hc->conn);
        return OK;
}

static bool is_same_origin(struct slice origin, struct slice host)
{
        static const struct slice schemes[] = {SLICE_LIT("http://"), SLICE_LIT("https://")};
        for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
                size_t n = schemes[i].len;
                if (origin.len > n && slice_eq_nocase(slice_make(origin.ptr, n), schemes[i]))
                        return slice_eq_nocase(slice_make(origin.ptr + n, origin.len - n), host);
        }
        return false;
}

/* Without a token: is this a program on this machine, or a page in its browser? */
static int check_local(struct http_conn *hc, const char *bytes, struct problem *p)
{
        const struct http_parser *parser = &hc->parser;
        const struct http_span *header = parser->header;
        struct slice host = http_slice(bytes, header[HTTP_HEADER_HOST]);
        if (!hc->conn.is_local && header[HTTP_HEADER_HOST].is_set && !is_loopback_host(host))
                return problem_set(
                        p, ERR_HOST,
                        "without a token only localhost, 127.0.0.1 and [::1] are served");
        if (parser->ll.method == HTTP_GET || parser->ll.method == HTTP_HEAD ||
            parser->ll.method == HTTP_OPTIONS)
                return OK;
        struct slice site = http_slice(bytes, header[HTTP_HEADER_FETCH_SITE]);
        bool is_foreign = site.len && !slice_eq_nocase(site, SLICE_LIT("same-origin")) &&
                          !slice_eq_nocase(site, SLICE_LIT("none"));
        if (header[HTTP_HEADER_ORIGIN].is_set &&
            !is_same_origin(http_slice(bytes, header[HTTP_HEADER_ORIGIN]), host))
                is_foreign = true;
        if (is_foreign)
                return problem_set(p, ERR_FORBIDDEN, "a page of another origin may not do this");
        return OK;
}

/* The request's head is complete; the body may still be missing. */
static int check_head(struct http_conn *hc, const char *bytes, struct problem *p)
{
        const struct http_parser *parser = &hc->parser;
        struct server *s = hc->conn.server;
        struct site_match match;
        struct slice expect = http_slice(bytes, parser->header[HTTP_HEADER_EXPECT]);
        if (expect.len && !slice_eq_nocase(expect, SLICE_LIT("100-continue")))
                return problem_set(p, ERR_BADARG, "the only expectation known is 100-continue");
        if (!s->has_token)
                return check_local(hc, bytes, p);
        int r = site_find(slice_str(http_method(parser)), http_slice(bytes, parser->path), &match);
        if (r == OK && match.page && match.page->is_open)
                return OK;
        return check_token(hc, http_slice(bytes, parser->header[HTTP_HEADER_AUTHORIZATION]), p);
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
        s->command.raw = request.body;
        hc->is_creating = strcmp(match->def->name, "ENQUEUE") == 0;
        hc->is_many = s->command.is_many;
        json_reply_init(&hc->reply, begin_body(hc));
        r = core_exec(s->core, &hc->conn.session, &s->command, &hc->reply.reply, p);
        *seq = core_reply_seq(s->core);
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

static void answer_page(struct http_conn *hc, const struct site_page *page)
{
        struct buf lines = server_take_buf(hc->conn.server);
        buf_put_str(&lines, COMMON_LINES);
        if (page->extra)
                buf_put_str(&lines, page->extra);
        int status = page->put(hc->conn.server, begin_body(hc));
        answer(hc, status, page->content_type, buf_slice(&lines));
        server_give_buf(hc->conn.server, &lines);
}

/* A complete request that may ask.  Returns whether it was answered. */
static bool handle(struct http_conn *hc, const char *bytes)
{
        struct problem *p = &hc->conn.server->problem;
        struct slice method = slice_str(http_method(&hc->parser));
        struct slice path = http_slice(bytes, hc->parser.path);
        struct site_match match;
        char extra[96] = "";
        uint64_t seq = 0;
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
                (void)problem_set(p, r, "there is nothing at %.*s; /openapi.json lists what is",
                                  path.len < 80 ? (int)path.len : 80, path.ptr);
        } else if (match.page) {
                answer_page(hc, match.page);
                if (!match.page->is_open)
                        seq = core_reply_seq(hc->conn.server->core);
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
        hc->is_last = !hc->parser.is_keep_alive || hc->conn.server->is_stopping;
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

/* The head is there for the first time.  False: it was refused and answered. */
static bool admit(struct http_conn *hc, const char *bytes, bool is_complete)
{
        struct problem p;
        hc->is_checked = true;
        int r = check_head(hc, bytes, &p);
        if (r == OK) {
                if (!is_complete)
                        invite_body(hc);
                return true;
        }
        int status = r == ERR_BADARG ? 417 : err_http(r);
        begin_request(hc);
        if (is_complete) {
                answer_problem(hc, status, &p, NULL);
                answer_done(hc, 0);
        } else {
                give_up(hc, status, &p);
        }
        return false;
}

static size_t input(struct conn *c, char *bytes, size_t len)
{
        struct http_conn *hc = of_conn(c);
        size_t at = 0;
        while (at < len && conn_can_run(c)) {
                enum http_step step = http_parse(&hc->parser, bytes + at, len - at);
                bool is_complete = step == HTTP_STEP_REQUEST, is_admitted = true;
                if (step == HTTP_STEP_BAD) {
                        give_up_bad(hc);
                        return len;
                }
                if (hc->parser.is_head_done && !hc->is_checked)
                        is_admitted = admit(hc, bytes + at, is_complete);
                if (!is_complete)
                        return at;
                if (is_admitted) {
                        begin_request(hc);
                        (void)handle(hc, bytes + at); /* when later: conn_can_run says no */
                }
                at += hc->parser.used;
                http_parser_next(&hc->parser);
                hc->is_checked = false;
        }
        return at;
}

/* --- the door ------------------------------------------------------------------------------- */

static void open_conn(struct conn *c)
{
        http_parser_init(&of_conn(c)->parser, LIMIT_HTTP_HEADER_BYTES, LIMIT_COMMAND_BYTES);
}

static void close_conn(struct conn *c)
{
        struct http_conn *hc = of_conn(c);
        if (hc->body.cap)
                server_give_buf(c->server, &hc->body);
}

static void refuse(struct conn *c, const struct problem *problem)
{
        struct http_conn *hc = of_conn(c);
        int status = err_http(problem->err);
        /* A connection that never asked anything is closed without a word; an answer to nothing
         * would be taken for the answer to what is asked next. */
        if (problem->err != ERR_LIMIT && c->in.len == c->in_at)
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

const struct door http_door = {
        .name = "http",
        .conn_bytes = sizeof(struct http_conn),
        .counts_preauth = false,
        .session = {reply_begin, reply_end_late},
        .open = open_conn,
        .input = input,
        .refuse = refuse,
        .close = close_conn,
};
