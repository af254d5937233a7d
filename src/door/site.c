/* The addresses.
 *
 * A path of the command table is a template: "/v1/jobs/{id}/complete".  There are about fifteen,
 * so a request is compared with each; a hash or a tree would be more to read and not faster.
 *
 * The page is one static file with its script and style beside it, so that the strictest policy
 * holds: nothing inline, nothing from elsewhere, and all that comes from jobs goes in as text. */
#include "door/site.h"

#include "door/inside.h"
#include "door/metrics.h"
#include "door/openapi.h"

#define PAGE_POLICY                                                                                \
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "       \
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n"      \
        "X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"

static const char page_html[] =
        "<!doctype html>\n"
        "<html lang=\"en\">\n"
        "<head>\n"
        "<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>weir</title>\n"
        "<link rel=\"stylesheet\" href=\"/page.css\">\n"
        "<script src=\"/page.js\" defer></script>\n"
        "</head>\n"
        "<body>\n"
        "<main>\n"
        "<h1>weir</h1>\n"
        "<p>A durable job queue: a job that was accepted is on disk, and is run by one worker at a "
        "time.</p>\n"
        "<h2>Queues</h2>\n"
        "<table>\n"
        "<caption id=\"state\" role=\"status\">Reading the queues.</caption>\n"
        "<thead><tr><th scope=\"col\">queue</th><th scope=\"col\">ready</th>"
        "<th scope=\"col\">scheduled</th><th scope=\"col\">running</th>"
        "<th scope=\"col\">completed</th><th scope=\"col\">failed</th>"
        "<th scope=\"col\">state</th></tr></thead>\n"
        "<tbody id=\"queues\"></tbody>\n"
        "</table>\n"
        "<h2>For machines</h2>\n"
        "<ul>\n"
        "<li><a href=\"/healthz\">/healthz</a> and <a href=\"/readyz\">/readyz</a></li>\n"
        "<li><a href=\"/metrics\">/metrics</a> for Prometheus</li>\n"
        "<li><a href=\"/openapi.json\">/openapi.json</a>: every address with its parameters</li>\n"
        "</ul>\n"
        "</main>\n"
        "</body>\n"
        "</html>\n";

static const char page_css[] =
        ":root{color-scheme:light dark}\n"
        "body{font:16px/1.5 system-ui,sans-serif;margin:0}\n"
        "main{max-width:60rem;margin:0 auto;padding:1.5rem}\n"
        "table{border-collapse:collapse;width:100%}\n"
        "caption{text-align:left;padding:.25rem 0}\n"
        "th,td{padding:.25rem .75rem .25rem 0;text-align:right;"
        "font-variant-numeric:tabular-nums;border-bottom:1px solid #8884}\n"
        "th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}\n"
        "td:first-child{overflow-wrap:anywhere}\n";

static const char page_js[] =
        "'use strict';\n"
        "const numbers = ['ready', 'scheduled', 'running', 'completed', 'failed'];\n"
        "function cell(row, text) {\n"
        "  row.insertCell().textContent = text;\n"
        "}\n"
        "function show(queues) {\n"
        "  const body = document.getElementById('queues');\n"
        "  body.replaceChildren();\n"
        "  for (const q of queues) {\n"
        "    const row = body.insertRow();\n"
        "    cell(row, q.name);\n"
        "    for (const n of numbers) cell(row, q[n] ?? '');\n"
        "    cell(row, q.paused ? 'paused' : 'open');\n"
        "  }\n"
        "}\n"
        "async function refresh() {\n"
        "  const state = document.getElementById('state');\n"
        "  try {\n"
        "    const answer = await fetch('/v1/queues');\n"
        "    if (!answer.ok) throw new Error((await answer.json()).detail);\n"
        "    const queues = (await answer.json()).queues;\n"
        "    show(queues);\n"
        "    state.textContent = queues.length ? '' : 'No job has been added yet.';\n"
        "  } catch (e) {\n"
        "    state.textContent = 'No answer: ' + e.message;\n"
        "  }\n"
        "  setTimeout(refresh, 2000);\n"
        "}\n"
        "refresh();\n";

/* --- pages ---------------------------------------------------------------------------------- */

static int put_page(const struct server *s, struct buf *ret)
{
        (void)s;
        buf_put_str(ret, page_html);
        return 200;
}

static int put_css(const struct server *s, struct buf *ret)
{
        (void)s;
        buf_put_str(ret, page_css);
        return 200;
}

static int put_js(const struct server *s, struct buf *ret)
{
        (void)s;
        buf_put_str(ret, page_js);
        return 200;
}

static int put_healthz(const struct server *s, struct buf *ret)
{
        (void)s; /* that we come here is the answer */
        buf_put_str(ret, "ok\n");
        return 200;
}

static int put_readyz(const struct server *s, struct buf *ret)
{
        buf_put_str(ret, s->is_stopping ? "stopping\n" : "ok\n");
        return s->is_stopping ? 503 : 200;
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

static const struct site_page pages[] = {
        {"/", "text/html; charset=utf-8", PAGE_POLICY, true, put_page},
        {"/page.css", "text/css; charset=utf-8", NULL, true, put_css},
        {"/page.js", "text/javascript; charset=utf-8", NULL, true, put_js},
        {"/healthz", "text/plain; charset=utf-8", NULL, true, put_healthz},
        {"/readyz", "text/plain; charset=utf-8", NULL, true, put_readyz},
        {"/metrics", "text/plain; version=0.0.4; charset=utf-8", NULL, false, put_metrics},
        {"/openapi.json", "application/json", NULL, false, put_openapi},
};

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
        for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
                if (!slice_eq(path, slice_str(pages[i].path)))
                        continue;
                allow(&m, "GET");
                if (slice_eq(want, SLICE_LIT("GET")))
                        m.page = &pages[i];
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
        if (m.def || m.page)
                return OK;
        return is_known ? ERR_METHOD : ERR_UNKNOWN;
}
