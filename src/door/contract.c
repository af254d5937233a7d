/* Routes, requests and rules of the foreign contracts.
 *
 * A path is told apart by its first segment, because the usual one is /check/... and comes a
 * hundred thousand times a second: the rows are compared by length and bytes of that segment
 * alone, /check first, and only the row that fits is walked further.  Nothing is decoded unless
 * there is a '%' in it, and nothing is allocated unless something is decoded.
 *
 * Both contracts were written in Go, and clients parse what Go prints: the last part has its
 * spellings.  A float is printed from an integer wherever that gives the same text: a value with
 * up to 12 decimals and 15 digits in all is n / 10^k for exactly one n, the division is rounded
 * rightly, so what reads back the same is the shortest.  That is 20 ns; the general way, three
 * rounds of printf and strtod, is two microseconds. */
#include "door/contract.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/shown.h"
#include "checks/rule.h"
#include "door/freno.h"
#include "door/vitess.h"
#include "gate/gate.h"
#include "wire/http.h"

#define ADDRESS_MAX 45 /* the longest IPv6 address */

/* --- routes ---------------------------------------------------------------------------------- */

static struct slice segment_at(const char *from, const char *end)
{
        const char *slash = memchr(from, '/', (size_t)(end - from));
        return slice_make(from, (size_t)((slash ? slash : end) - from));
}

/* Whether the path after its first segment fits.  As httprouter does it, a parameter in the
 * middle may be empty, the last one may not: that is a '/' too many. */
static bool fits(struct slice rest, struct slice path, struct slice *param)
{
        const char *r = rest.ptr, *r_end = rest.ptr + rest.len;
        const char *p = path.ptr, *p_end = path.ptr + path.len;
        size_t n = 0;
        while (r < r_end && p < p_end && *p == '/') {
                struct slice want = segment_at(r + 1, r_end), got = segment_at(p + 1, p_end);
                bool is_last = want.ptr + want.len == r_end;
                if (want.ptr[0] == ':') {
                        if (!got.len && is_last)
                                return false;
                        param[n++] = got;
                } else if (!slice_eq(want, got)) {
                        return false;
                }
                r = want.ptr + want.len;
                p = got.ptr + got.len;
        }
        return r == r_end && p == p_end;
}

static bool find_in(const struct contract_route *routes, size_t n, struct slice first,
                    struct slice rest, struct contract_match *ret)
{
        for (size_t i = 0; i < n; i++) {
                const struct contract_route *r = &routes[i];
                if (!slice_eq(first, r->segment))
                        continue;
                if (fits(r->rest, rest, ret->param)) {
                        ret->route = r;
                        return true;
                }
        }
        return false;
}

static bool find(struct slice first, struct slice rest, struct contract_match *ret)
{
        return find_in(freno_routes, freno_routes_len, first, rest, ret) ||
               find_in(vitess_routes, vitess_routes_len, first, rest, ret);
}

bool contract_find(struct slice path, struct contract_match *ret)
{
        *ret = (struct contract_match){0};
        if (path.len < 2 || path.ptr[0] != '/')
                return false;
        struct slice first = segment_at(path.ptr + 1, path.ptr + path.len);
        struct slice rest = slice_make(first.ptr + first.len, path.len - 1 - first.len);
        if (find(first, rest, ret))
                return true;
        if (!rest.len || rest.ptr[rest.len - 1] != '/')
                return false;
        rest.len--;
        ret->is_slash = find(first, rest, ret);
        return ret->is_slash;
}

/* --- requests -------------------------------------------------------------------------------- */

/* False: an invalid escape, or a NUL. */
static bool decode(const struct contract_call *call, struct slice s, bool is_query,
                   struct slice *ret)
{
        if (!s.len || (!memchr(s.ptr, '%', s.len) && !(is_query && memchr(s.ptr, '+', s.len)))) {
                *ret = s;
                return true;
        }
        char *text = arena_alloc(call->arena, s.len);
        size_t len = 0;
        if (!text || !http_unescape(s, is_query, text, &len))
                return false;
        *ret = slice_make(text, len);
        return true;
}

void contract_run(struct contract_call *call, const struct contract_match *match)
{
        call->route = match->route;
        call->status = 200;
        call->content_type = CONTRACT_JSON;
        for (size_t i = 0; i < CONTRACT_PARAMS; i++) {
                if (!decode(call, match->param[i], false, &call->param[i])) {
                        freno_refuse(call, 400, "the address is not percent-encoded rightly");
                        return;
                }
        }
        match->route->run(call);
}

bool contract_query_next(const struct contract_call *call, struct slice *rest, const char *name,
                         struct slice *ret)
{
        struct slice raw_key, raw_value, key, want = slice_str(name);
        while (rest->len && http_query_next(rest, &raw_key, &raw_value)) {
                if (decode(call, raw_key, true, &key) && slice_eq(key, want) &&
                    decode(call, raw_value, true, ret))
                        return true;
        }
        return false;
}

bool contract_query(const struct contract_call *call, const char *name, struct slice *ret)
{
        struct slice rest = call->query;
        return contract_query_next(call, &rest, name, ret);
}

/* Addresses and, as some proxies write them, names; nothing that a log or a page would trip over.
 */
static bool is_of_address(char c)
{
        return isalnum((unsigned char)c) || (c && strchr(".:-_[]%", c));
}

/* The parser keeps only headers that may come once, and this one may come often: every proxy on
 * the way adds its own.  The head was checked when it was parsed, so every line ends in CR LF. */
struct slice contract_forwarded(struct slice lines)
{
        static const struct slice name = SLICE_LIT("x-forwarded-for:");
        const char *p = lines.ptr, *end = lines.ptr + lines.len;
        for (;;) {
                p = memchr(p, '\n', (size_t)(end - p));
                if (!p || ++p == end || *p == '\r')
                        return SLICE_NONE;
                if ((*p | 0x20) == 'x' && (size_t)(end - p) > name.len &&
                    slice_eq_nocase(slice_make(p, name.len), name))
                        break;
        }
        p += name.len;
        while (p < end && (*p == ' ' || *p == '\t'))
                p++;
        const char *stop = p;
        while (stop < end && is_of_address(*stop))
                stop++;
        bool is_whole = stop < end && strchr(",\r \t", *stop);
        return is_whole && stop - p <= ADDRESS_MAX ? slice_make(p, (size_t)(stop - p)) : SLICE_NONE;
}

/* --- rules ----------------------------------------------------------------------------------- */

struct found {
        struct slice app, target;
        const struct rule *rule;
};

static void look(void *ctx, const struct rule *r)
{
        struct found *f = ctx;
        if (r->kind <= RULE_EXEMPT && r->mode == MODE_ENFORCE && slice_eq(r->who, f->app) &&
            slice_eq(r->target, f->target))
                f->rule = r;
}

static bool is_over(const struct contract_call *call, const struct rule *r)
{
        return r->until_ns && r->until_ns <= call->now.steady_ns;
}

static double ratio_of(const struct rule *r)
{
        if (r->kind == RULE_HOLD)
                return 1;
        return r->kind == RULE_RATIO ? (double)r->ratio_ppm / RULE_RATIO_ONE : 0;
}

static struct slice author_of(const struct contract_call *call, const char *contract, char *ret,
                              size_t room)
{
        int n = snprintf(ret, room, "%s:%.*s", contract, (int)call->address.len,
                         call->address.len ? call->address.ptr : "");
        return slice_make(ret, (size_t)n < room ? (size_t)n : room - 1);
}

int contract_throttle(struct contract_call *call, const struct contract_throttle *t,
                      struct problem *problem)
{
        char author[96];
        struct found f = {t->app, t->target, NULL};
        double ratio = t->ratio;
        int64_t for_ms = t->for_ms;
        rule_each(call->core, look, &f);
        bool is_there = f.rule && !is_over(call, f.rule) && f.rule->kind != RULE_EXEMPT;
        if (ratio < 0)
                ratio = is_there ? ratio_of(f.rule) : 1;
        if (!for_ms && is_there)
                for_ms = f.rule->until_ns ? (f.rule->until_ns - call->now.steady_ns + NS_PER_MS -
                                             1) / NS_PER_MS
                                          : -1;
        struct rule_set set = {
                .who = t->app,
                .target = t->target,
                .values = {.kind = RULE_RATIO,
                           .mode = MODE_ENFORCE,
                           .ratio_ppm = (uint32_t)lround(ratio * RULE_RATIO_ONE),
                           .author = author_of(call, t->contract, author, sizeof(author)),
                           .address = call->address},
                .for_ms = for_ms,
        };
        return rule_set(call->core, &set, problem);
}

void contract_unthrottle(struct contract_call *call, const char *contract, struct slice app,
                         struct slice target)
{
        char author[96];
        if (identity_check_name(app, NULL) != OK)
                return; /* "a/main1" would be another's */
        struct rule_place place = {slice_str(rule_slot(RULE_RATIO)), app, target, false};
        (void)rule_unset(call->core, &place, author_of(call, contract, author, sizeof(author)),
                         call->address);
}

bool contract_has_rule(struct contract_call *call, struct slice app)
{
        struct rule_place place = {slice_str(rule_slot(RULE_RATIO)), app, SLICE_NONE, false};
        const struct rule *r = rule_find(call->core, &place);
        return r && !is_over(call, r);
}

struct each_app {
        struct contract_call *call;
        void (*fn)(void *ctx, const struct contract_app *app);
        void *ctx;
};

static void tell_rule(void *ctx, const struct rule *r)
{
        struct each_app *e = ctx;
        if (r->kind > RULE_EXEMPT || r->mode != MODE_ENFORCE || is_over(e->call, r))
                return;
        const struct now *now = &e->call->now;
        struct contract_app app = {
                .app = r->who,
                .target = r->target,
                .ratio = ratio_of(r),
                .is_exempt = r->kind == RULE_EXEMPT,
        };
        if (r->until_ns)
                app.until_ms = now->wall_ms + (r->until_ns - now->steady_ns) / NS_PER_MS;
        e->fn(e->ctx, &app);
}

void contract_each_app(struct contract_call *call,
                       void (*fn)(void *ctx, const struct contract_app *app), void *ctx)
{
        struct each_app e = {call, fn, ctx};
        rule_each(call->core, tell_rule, &e);
}

/* --- as Go writes ---------------------------------------------------------------------------- */

#define DIGITS_MAX 17 /* always enough for a double */

/* v is 0.d1d2d3... x 10^point. */
struct digits {
        char text[DIGITS_MAX + 1];
        size_t n;
        int point;
};

/* Any decimal of up to 15 digits has a double of its own, so the first that reads back is the
 * shortest; beyond, printf's nearest is what Go takes too.  The smallest numbers have fewer. */
static void find_digits(double v, struct digits *ret)
{
        char text[32];
        for (int more = v < DBL_MIN ? 0 : 14; more < DIGITS_MAX; more++) {
                (void)snprintf(text, sizeof(text), "%.*e", more, v);
                if (strtod(text, NULL) == v)
                        break;
        }
        const char *e = strchr(text, 'e');
        ret->n = 0;
        ret->point = (int)strtol(e + 1, NULL, 10) + 1;
        for (const char *p = text; p < e; p++)
                if (*p != '.')
                        ret->text[ret->n++] = *p;
        while (ret->n > 1 && ret->text[ret->n - 1] == '0')
                ret->n--;
}

static void put_zeros(struct buf *b, int n)
{
        for (int i = 0; i < n; i++)
                buf_put_byte(b, '0');
}

static void put_plain(struct buf *b, const struct digits *d)
{
        int n = (int)d->n, before = d->point < n ? d->point : n;
        if (d->point <= 0) {
                buf_put(b, "0.", 2);
                put_zeros(b, -d->point);
                buf_put(b, d->text, d->n);
                return;
        }
        buf_put(b, d->text, (size_t)before);
        put_zeros(b, d->point - n);
        if (before < n) {
                buf_put_byte(b, '.');
                buf_put(b, d->text + before, (size_t)(n - before));
        }
}

static void put_exponent(struct buf *b, const struct digits *d, int least_digits)
{
        int exponent = d->point - 1, size = abs(exponent);
        buf_put_byte(b, d->text[0]);
        if (d->n > 1) {
                buf_put_byte(b, '.');
                buf_put(b, d->text + 1, d->n - 1);
        }
        buf_put_byte(b, 'e');
        buf_put_byte(b, exponent < 0 ? '-' : '+');
        if (size < 10 && least_digits > 1)
                buf_put_byte(b, '0');
        buf_put_i64(b, size);
}

/* The quick way; false when it does not lead there. */
static bool put_scaled(struct buf *b, double v)
{
        static const struct {
                double by;
                int64_t whole;
                int decimals;
        } scales[] = {{1, 1, 0}, {1e6, 1000000, 6}, {1e12, 1000000000000, 12}};
        for (size_t i = 0; i < ARRAY_LEN(scales); i++) {
                double scaled = v * scales[i].by;
                if (!(scaled < 1e15))
                        return false;
                int64_t n = (int64_t)(scaled + 0.5);
                if ((double)n / scales[i].by != v)
                        continue;
                char text[16];
                int len = scales[i].decimals;
                int64_t rest = n % scales[i].whole;
                buf_put_i64(b, n / scales[i].whole);
                if (!rest)
                        return true;
                text[0] = '.';
                for (int k = len; k > 0; k--, rest /= 10)
                        text[k] = (char)('0' + rest % 10);
                while (text[len] == '0')
                        len--;
                buf_put(b, text, (size_t)len + 1);
                return true;
        }
        return false;
}

void put_go_float(struct buf *b, double v)
{
        struct digits d = {0};
        if (!isfinite(v))
                v = 0;
        if (signbit(v)) {
                buf_put_byte(b, '-');
                v = -v;
        }
        if ((v == 0 || v >= 1e-6) && put_scaled(b, v))
                return;
        find_digits(v, &d);
        if (v < 1e-6 || v >= 1e21)
                put_exponent(b, &d, 1);
        else
                put_plain(b, &d);
}

void put_go_value(struct buf *b, double v)
{
        struct digits d = {0};
        if (isnan(v)) {
                buf_put_str(b, "NaN");
                return;
        }
        if (isinf(v)) {
                buf_put_str(b, v < 0 ? "-Inf" : "+Inf");
                return;
        }
        if (signbit(v)) {
                buf_put_byte(b, '-');
                v = -v;
        }
        if (v == 0) {
                buf_put_byte(b, '0');
                return;
        }
        find_digits(v, &d);
        if (d.point - 1 < -4 || d.point - 1 >= 6)
                put_exponent(b, &d, 2);
        else
                put_plain(b, &d);
}

void put_go_time(struct buf *b, int64_t wall_ms)
{
        char text[CLOCK_TEXT_SIZE];
        buf_put_byte(b, '"');
        buf_put_str(b, wall_ms ? clock_text(wall_ms, text) : "0001-01-01T00:00:00Z");
        buf_put_byte(b, '"');
}

/* --- as Go reads ----------------------------------------------------------------------------- */

#define NUMBER_BYTES 400 /* no number needs more; what is longer is called no number */

static int refuse_number(const char *call, struct slice s, const char *why, struct problem *p)
{
        return problem_set(p, ERR_BADARG, "strconv.%s: parsing \"%s\": %s", call, SHOWN(s), why);
}

static size_t n_digits(const char *p)
{
        size_t n = 0;
        while (isdigit((unsigned char)p[n]))
                n++;
        return n;
}

/* strtod takes more than Go does: spaces, hex without an exponent, nan(...). */
static bool is_decimal(const char *p)
{
        p += *p == '+' || *p == '-';
        if (strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 ||
            strcasecmp(p, "nan") == 0)
                return true;
        size_t whole = n_digits(p), part = 0;
        p += whole;
        if (*p == '.') {
                part = n_digits(p + 1);
                p += part + 1;
        }
        if (!whole && !part)
                return false;
        if (*p == 'e' || *p == 'E') {
                p += p[1] == '+' || p[1] == '-' ? 2 : 1;
                size_t n = n_digits(p);
                if (!n)
                        return false;
                p += n;
        }
        return *p == '\0';
}

int go_to_float(struct slice s, double *ret, struct problem *problem)
{
        char text[NUMBER_BYTES + 1];
        if (!s.len || s.len > NUMBER_BYTES || memchr(s.ptr, '\0', s.len))
                return refuse_number("ParseFloat", s, "invalid syntax", problem);
        memcpy(text, s.ptr, s.len);
        text[s.len] = '\0';
        if (!is_decimal(text))
                return refuse_number("ParseFloat", s, "invalid syntax", problem);
        errno = 0;
        double v = strtod(text, NULL);
        if (errno == ERANGE && isinf(v))
                return refuse_number("ParseFloat", s, "value out of range", problem);
        *ret = v;
        return OK;
}

int go_to_int(struct slice s, int64_t *ret, struct problem *problem)
{
        struct slice number = s;
        bool has_sign = s.len && (s.ptr[0] == '+' || s.ptr[0] == '-');
        bool is_minus = has_sign && s.ptr[0] == '-';
        uint64_t v = 0, max = (uint64_t)INT64_MAX + is_minus;
        if (has_sign)
                number = slice_make(s.ptr + 1, s.len - 1);
        bool is_big = false, is_wrong = !number.len;
        for (size_t i = 0; i < number.len && !is_wrong; i++) {
                unsigned digit = (unsigned)number.ptr[i] - '0';
                is_wrong = digit > 9;
                is_big = is_big || v > (max - digit % 10) / 10;
                v = is_big ? 0 : v * 10 + digit;
        }
        if (is_wrong)
                return refuse_number("ParseInt", s, "invalid syntax", problem);
        if (is_big)
                return refuse_number("ParseInt", s, "value out of range", problem);
        *ret = is_minus ? (int64_t)(0 - v) : (int64_t)v;
        return OK;
}

int go_to_ratio(struct slice s, double *ret, struct problem *problem)
{
        double v = 0;
        int r = go_to_float(s, &v, problem);
        if (r != OK)
                return r;
        if (v >= 0 && v <= 1) {
                *ret = v;
                return OK;
        }
        struct buf text;
        buf_init(&text, PROBLEM_DETAIL_MAX);
        put_go_value(&text, v);
        r = problem_set(problem, ERR_BADARG, "ratio must be in [0..1] range; got %s",
                        buf_cstr(&text));
        buf_release(&text);
        return r;
}

/* "1.5" off the front of *s, in units of `one`; the integer part and the rest are kept apart, so
 * that whole seconds are exact.  False: no digits. */
static bool take_number(struct slice *s, uint64_t *ret_whole, double *ret_part)
{
        size_t i = 0, n = 0;
        double weight = 1;
        *ret_whole = 0;
        *ret_part = 0;
        for (; i < s->len && isdigit((unsigned char)s->ptr[i]); i++, n++)
                *ret_whole = *ret_whole > UINT64_MAX / 100
                                     ? UINT64_MAX
                                     : *ret_whole * 10 + (uint64_t)(s->ptr[i] - '0');
        if (i < s->len && s->ptr[i] == '.') {
                for (i++; i < s->len && isdigit((unsigned char)s->ptr[i]); i++, n++) {
                        weight /= 10;
                        *ret_part += (s->ptr[i] - '0') * weight;
                }
        }
        *s = slice_make(s->ptr + i, s->len - i);
        return n > 0;
}

static const struct {
        struct slice name;
        uint64_t ns;
} units[] = {
        {SLICE_LIT("ns"), 1},
        {SLICE_LIT("us"), 1000},
        {SLICE_LIT("\xc2\xb5s"), 1000}, /* both signs for micro */
        {SLICE_LIT("\xce\xbcs"), 1000},
        {SLICE_LIT("ms"), 1000000},
        {SLICE_LIT("s"), 1000000000},
        {SLICE_LIT("m"), 60 * 1000000000ULL},
        {SLICE_LIT("h"), 3600 * 1000000000ULL},
};

static uint64_t unit_ns(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(units); i++)
                if (slice_eq(name, units[i].name))
                        return units[i].ns;
        return 0;
}

static struct slice take_unit(struct slice *s)
{
        size_t n = 0;
        while (n < s->len && s->ptr[n] != '.' && !isdigit((unsigned char)s->ptr[n]))
                n++;
        struct slice unit = slice_make(s->ptr, n);
        *s = slice_make(s->ptr + n, s->len - n);
        return unit;
}

static int refuse_duration(struct slice s, const char *what, struct slice unit, struct problem *p)
{
        if (unit.len)
                return problem_set(p, ERR_BADARG, "time: %s \"%s\" in duration \"%s\"", what,
                                   SHOWN(unit), SHOWN(s));
        return problem_set(p, ERR_BADARG, "time: %s \"%s\"", what, SHOWN(s));
}

int go_to_duration_ns(struct slice s, int64_t *ret, struct problem *problem)
{
        static const char invalid[] = "invalid duration";
        struct slice rest = s;
        uint64_t sum = 0, whole;
        double part;
        bool is_minus = s.len && s.ptr[0] == '-';
        if (s.len && (s.ptr[0] == '-' || s.ptr[0] == '+'))
                rest = slice_make(s.ptr + 1, s.len - 1);
        if (slice_eq(rest, SLICE_LIT("0"))) {
                *ret = 0;
                return OK;
        }
        if (!rest.len)
                return refuse_duration(s, invalid, SLICE_NONE, problem);
        while (rest.len) {
                if (!take_number(&rest, &whole, &part))
                        return refuse_duration(s, invalid, SLICE_NONE, problem);
                struct slice unit = take_unit(&rest);
                uint64_t ns = unit_ns(unit);
                if (!unit.len)
                        return refuse_duration(s, "missing unit in duration", SLICE_NONE, problem);
                if (!ns)
                        return refuse_duration(s, "unknown unit", unit, problem);
                if (whole > (uint64_t)INT64_MAX / ns)
                        return refuse_duration(s, invalid, SLICE_NONE, problem);
                sum += whole * ns + (uint64_t)(part * (double)ns);
                if (sum > (uint64_t)INT64_MAX)
                        return refuse_duration(s, invalid, SLICE_NONE, problem);
        }
        *ret = is_minus ? -(int64_t)sum : (int64_t)sum;
        return OK;
}
