/* The addresses.
 *
 * A path of the command table is a template: "/v1/jobs/{id}/complete".  There are fewer than a
 * hundred, so a request is compared with each; a hash or a tree would be more to read and not
 * faster. */
#include "door/site.h"

#include "door/assets.h"
#include "door/door_int.h"
#include "door/metrics.h"
#include "door/openapi.h"
#include "wire/json.h"

/* --- pages ---------------------------------------------------------------------------------- */

static int put_healthz(const struct server *s, struct buf *ret)
{
        (void)s; /* that we come here is the answer */
        buf_put_str(ret, "ok\n");
        return 200;
}

static void put_field(struct buf *b, const char *name, const char *value)
{
        json_put_key(b, name);
        json_put_text_lossy(b, slice_str(value));
}

static int put_ready(const struct server *s, const char *status, struct buf *ret)
{
        buf_put_byte(ret, '{');
        put_field(ret, "status", status);
        put_field(ret, "role", s->is_following ? "follower" : "leader");
        put_field(ret, "node", s->node);
        put_field(ret, "leader", s->is_following && s->relays.leader ? s->relays.leader : "");
        json_put_key(ret, "batch");
        buf_put_u64(ret, core_durable_seq(s->core));
        json_put_key(ret, "lag_batches");
        buf_put_u64(ret, s->lag);
        buf_put_str(ret, "}\n");
        return strcmp(status, "ok") == 0 ? 200 : 503;
}

static const char *status_of(const struct server *s)
{
        if (s->loop->is_stopping)
                return "stopping";
        if (!s->is_following || relays_are_ready(s))
                return "ok";
        return s->relays.leader ? "leader cannot be reached" : "no leader";
}

static int put_readyz(const struct server *s, struct buf *ret)
{
        return put_ready(s, status_of(s), ret);
}

static int put_leads(const struct server *s, struct buf *ret)
{
        return put_ready(s, s->is_following ? "does not lead" : status_of(s), ret);
}

static int put_metrics(const struct server *s, struct buf *ret)
{
        metrics_put(s, ret);
        return 200;
}

static int put_openapi(const struct server *s, struct buf *ret)
{
        buf_put_slice(ret, buf_slice(&s->openapi));
        return 200;
}

#define TEXT_TYPE "text/plain; charset=utf-8"

/* Statuses of refusals: for a wrong Host without a token; and for a client that may not ask. */
#define ANYBODYS "421"
#define CALLERS  "401 403 421"

#define READY    "{status:s role:<leader,follower> node:s leader:s batch:i lag_batches:i}"

const struct site_page site_pages[] = {
        {"GET", "/healthz", SITE_TEXT, true, TEXT_TYPE, put_healthz, "healthz",
         "Says that weir runs. Open to all.", "ok", "s", ANYBODYS},
        {"GET", "/readyz", SITE_TEXT, true, "application/json", put_readyz, "readyz",
         "Says that weir takes requests: it leads, or relays them to the leader. Open to all.",
         "ok, the role of this weir (a weir that is alone leads) and the leader's address. "
         "Otherwise 503 with the same fields.",
         READY, ANYBODYS},
        {"GET", "/readyz/leader", SITE_TEXT, true, "application/json", put_leads, "leads",
         "Says that weir leads, for balancers that send requests there. Open to all.",
         "ok, or 503 when another weir leads; as /readyz.", READY, ANYBODYS},
        {"GET", "/metrics", SITE_TEXT, false, "text/plain; version=0.0.4; charset=utf-8",
         put_metrics, "metrics", "Tells every counter, for Prometheus.",
         "Lines of its text format.", "s", CALLERS},
        {"GET", "/openapi.json", SITE_TEXT, false, "application/json", put_openapi, "openapi",
         "Describes all of this.", "This document.", "{*:j}", CALLERS},
        {"GET", "/v1/live", SITE_LIVE, false, "text/event-stream", NULL, "live",
         "Tells what weir does, second by second, until one of the two closes the connection.",
         "Server-sent events: now, at once and every second, with what NOW answers; event, with a "
         "line of THROTTLEHISTORY. x-events has the schema of the data of each.",
         "s", CALLERS " 503"},
        {"GET", "/v1/session", SITE_SESSION, true, "application/json", NULL, "session",
         "Tells whether a login is needed and was made. Open to all.",
         "The session; csrf is empty without one, and version for those who may not ask.",
         "@session", CALLERS},
        {"POST", "/login", SITE_LOGIN, true, "application/json", NULL, "login",
         "Begins a session of the page for whoever shows the access token.",
         "The session. Its cookie comes along when a token is configured.", "@session",
         "400 401 403 413 415 421 429"},
        {"POST", "/logout", SITE_LOGOUT, true, "application/json", NULL, "logout",
         "Ends the session.", "That there is none any more.", "@session", CALLERS},
};
const size_t site_pages_len = ARRAY_LEN(site_pages);

/* --- finding -------------------------------------------------------------------------------- */

static struct slice segment(const char *from, const char *end)
{
        const char *slash = memchr(from, '/', (size_t)(end - from));
        return slice_make(from, (size_t)((slash ? slash : end) - from));
}

/* Whether the path fits the template; fills in the parameters on the way. */
static bool fits(const char *template, struct slice path, struct site_match *ret)
{
        const char *t = template, *t_end = template + strlen(template);
        const char *p = path.ptr, *p_end = path.ptr + path.len;
        ret->n_path = 0;
        while (t < t_end && p < p_end && *t == '/' && *p == '/') {
                struct slice want = segment(t + 1, t_end), got = segment(p + 1, p_end);
                if (want.len && want.ptr[0] == '{') {
                        if (!got.len)
                                return false;
                        ASSERT(ret->n_path < BIND_PATH_MAX);
                        ret->path[ret->n_path++] =
                                (struct bind_path){slice_make(want.ptr + 1, want.len - 2), got};
                } else if (!slice_eq(want, got)) {
                        return false;
                }
                t = want.ptr + want.len;
                p = got.ptr + got.len;
        }
        return t == t_end && p == p_end;
}

static void allow(struct site_match *m, const char *method)
{
        size_t used = strlen(m->allow);
        (void)snprintf(m->allow + used, sizeof(m->allow) - used, "%s%s%s", used ? ", " : "", method,
                       strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

int site_find(struct slice method, struct slice path, struct site_match *ret)
{
        struct slice want = slice_eq(method, SLICE_LIT("HEAD")) ? SLICE_LIT("GET") : method;
        struct site_match m = {0};
        for (size_t i = 0; i < ARRAY_LEN(site_pages); i++) {
                if (!slice_eq(path, slice_str(site_pages[i].path)))
                        continue;
                allow(&m, site_pages[i].method);
                if (slice_eq(want, slice_str(site_pages[i].method)))
                        m.page = &site_pages[i];
        }
        const struct asset *asset = asset_find(path);
        if (asset) {
                allow(&m, "GET");
                if (slice_eq(want, SLICE_LIT("GET")))
                        m.asset = asset;
        }
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                struct site_match here;
                if (!def->path || !fits(def->path, path, &here))
                        continue;
                allow(&m, def->method);
                if (!slice_eq(want, slice_str(def->method)))
                        continue;
                m.def = def;
                memcpy(m.path, here.path, sizeof(m.path));
                m.n_path = here.n_path;
        }
        bool is_known = m.allow[0] != '\0';
        if (is_known)
                allow(&m, "OPTIONS");
        *ret = m;
        if (m.def || m.page || m.asset)
                return OK;
        return is_known ? ERR_METHOD : ERR_UNKNOWN;
}
