/* What a door has learned of its classes, as JSON: for a file that outlives the process.
 *
 *      {"version": 1,
 *       "metric": {"seconds": S, "values": [[BUCKET, 1000 x WEIGHT], ...]},
 *       "classes": [{"identity": "checkout", "row": "checkout", "comment_tier": -1,
 *                    "ends": N, "seconds": S, "executing": 1000 x USUAL, "time": 1000 x LN_NS,
 *                    "slow": 1000 x LN_TIMES,
 *                    "hours": [BUCKET, ...],
 *                    "statements": [["DIGEST", TRANSACTIONS, 1000 x LN_NS], ...]}, ...]}
 *
 * The hours begin with the oldest; a digest is 16 digits of hex.  Numbers are integers; buckets are
 * those of gate/usual.h.  A file is what anybody may have written: what makes no sense is refused
 * as a whole, before anything of it is taken over. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy_int.h"
#include "wire/json.h"

#define VERSION 1
#define DEPTH   5
#define ENDS    100 /* of a class: with fewer it has learned nothing worth a line */
#define MILLI   1000.0

/* Statements of one class, or of all. */
struct known_digests {
        struct digest_row rows[DIGESTS_MOST];
        size_t n;
};

static struct known_digests *known_digests_free(struct known_digests *digests)
{
        free(digests);
        return NULL;
}
DEFINE_CLEANUP(struct known_digests, known_digests_free)

/* ---- out ---- */

static void put_number(struct buf *b, const char *key, double value)
{
        json_put_key(b, key);
        buf_put_i64(b, llround(value));
}

static void put_text(struct buf *b, const char *key, const char *text)
{
        json_put_key(b, key);
        json_put_text(b, slice_str(text));
}

static void put_metric(struct buf *b, const struct usual_metric *m)
{
        json_put_key(b, "metric");
        buf_put_byte(b, '{');
        put_number(b, "seconds", m->seconds);
        json_put_key(b, "values");
        buf_put_byte(b, '[');
        for (unsigned i = 0; i < USUAL_BUCKETS; i++) {
                if (llround(m->n[i] * MILLI) == 0)
                        continue;
                json_put_comma(b);
                buf_printf(b, "[%u,%lld]", i, llround(m->n[i] * MILLI));
        }
        buf_put_str(b, "]}");
}

static void put_statements(struct buf *b, const struct known_digests *digests, size_t class_number)
{
        json_put_key(b, "statements");
        buf_put_byte(b, '[');
        for (size_t i = 0; i < digests->n; i++) {
                const struct digest_row *row = &digests->rows[i];
                if (row->class_number != class_number)
                        continue;
                json_put_comma(b);
                buf_printf(b, "[\"%016llx\",%u,%lld]", (unsigned long long)row->digest, row->n,
                           llround(row->log_time * MILLI));
        }
        buf_put_byte(b, ']');
}

static void put_memory(struct buf *b, const struct traffic_class *c, const struct usual_memory *m,
                       const struct known_digests *digests, size_t class_number)
{
        json_put_comma(b);
        buf_put_byte(b, '{');
        put_text(b, "identity", c->identity);
        put_text(b, "row", c->row);
        put_number(b, "comment_tier", c->comment_tier);
        put_number(b, "ends", (double)m->ends);
        put_number(b, "seconds", m->seconds);
        put_number(b, "executing", m->executing * MILLI);
        put_number(b, "time", m->log_time * MILLI);
        put_number(b, "slow", m->slow * MILLI);
        json_put_key(b, "hours");
        buf_put_byte(b, '[');
        for (unsigned i = 0; i < m->n_hours; i++) {
                unsigned from = m->n_hours < USUAL_HOURS ? 0 : m->next_hour;
                json_put_comma(b);
                buf_put_i64(b, m->hours[(from + i) % USUAL_HOURS]);
        }
        buf_put_byte(b, ']');
        put_statements(b, digests, class_number);
        buf_put_byte(b, '}');
}

/* The lock is taken for one class at a time: clients wait for it.  The statements are 64 KiB. */
static void put_door(struct door *d, struct buf *b)
{
        struct usual_metric metric;
        CLEANUP(known_digests_freep) struct known_digests *digests = xcalloc(1, sizeof(*digests));
        (void)pthread_mutex_lock(&d->lock);
        metric = *admission_metric(d->admission);
        digests->n = admission_digests(d->admission, digests->rows);
        (void)pthread_mutex_unlock(&d->lock);
        buf_put_byte(b, '{');
        put_number(b, "version", VERSION);
        put_metric(b, &metric);
        json_put_key(b, "classes");
        buf_put_byte(b, '[');
        for (size_t i = 0; i < ADMIT_CLASSES_MAX; i++) {
                struct traffic_class class;
                struct usual_memory memory;
                (void)pthread_mutex_lock(&d->lock);
                bool is_there = d->by_number[i] && admission_memory(d->admission, i, &memory) &&
                                memory.ends >= ENDS;
                if (is_there)
                        class = d->by_number[i]->c;
                (void)pthread_mutex_unlock(&d->lock);
                if (is_there)
                        put_memory(b, &class, &memory, digests, i);
        }
        buf_put_str(b, "]}\n");
}

bool proxy_memory(struct proxy *p, size_t door, char name[TRAFFIC_NAME_MAX + 1], struct buf *ret)
{
        (void)pthread_mutex_lock(&p->list_lock);
        bool is_there = door < p->n_doors;
        if (is_there) {
                (void)snprintf(name, TRAFFIC_NAME_MAX + 1, "%s", p->doors[door]->name);
                put_door(p->doors[door], ret);
        }
        (void)pthread_mutex_unlock(&p->list_lock);
        return is_there;
}

/* ---- in ---- */

/* A sticky reader: after the first thing that is missing or wrong, all is wrong. */
struct reading {
        struct arena arena;
        const char *wrong;             /* the name of what was wrong; NULL: nothing yet */
        struct known_digests *digests; /* of the class that was read last */
};

static struct json_value get_value(struct reading *r, const struct json_value *of, const char *name,
                                   enum json_type type)
{
        struct json_value v = {.type = JSON_NULL};
        bool is_there = json_get(of, name, &v) && v.type == type;
        if (!is_there && !r->wrong)
                r->wrong = name;
        return v;
}

static int64_t get_number(struct reading *r, const struct json_value *of, const char *name)
{
        int64_t n = 0;
        struct json_value v = get_value(r, of, name, JSON_NUMBER);
        if (!json_to_i64(&v, &n) && !r->wrong)
                r->wrong = name;
        return n;
}

static void get_text(struct reading *r, const struct json_value *of, const char *name, char *ret,
                     size_t size)
{
        struct slice text = SLICE_NONE;
        struct json_value v = get_value(r, of, name, JSON_STRING);
        ret[0] = '\0';
        if (r->wrong)
                return;
        if (json_to_text(&v, &r->arena, &text) != OK || text.len >= size)
                r->wrong = name;
        else
                (void)snprintf(ret, size, "%.*s", (int)text.len, text.ptr);
}

static void get_metric(struct reading *r, const struct json_value *root, double n[USUAL_BUCKETS],
                       double *ret_seconds)
{
        struct json_value metric = get_value(r, root, "metric", JSON_OBJECT);
        struct json_value values = get_value(r, &metric, "values", JSON_ARRAY), pair, v;
        struct json_iter it = {0};
        *ret_seconds = (double)get_number(r, &metric, "seconds");
        while (json_array_next(&values, &it, &pair)) {
                struct json_iter in = {0};
                int64_t bucket = -1, weight = 0;
                bool is_fine = json_array_next(&pair, &in, &v) && json_to_i64(&v, &bucket) &&
                               json_array_next(&pair, &in, &v) && json_to_i64(&v, &weight);
                if (!is_fine || bucket < 0 || bucket >= USUAL_BUCKETS) {
                        r->wrong = "values";
                        return;
                }
                n[bucket] = (double)weight / MILLI;
        }
}

static void get_hours(struct reading *r, const struct json_value *of, struct usual_memory *ret)
{
        struct json_value hours = get_value(r, of, "hours", JSON_ARRAY), v;
        struct json_iter it = {0};
        while (json_array_next(&hours, &it, &v)) {
                int64_t bucket = -1;
                bool is_fine = json_to_i64(&v, &bucket) && bucket >= 0 && bucket < USUAL_BUCKETS;
                if (!is_fine || ret->n_hours == USUAL_HOURS) {
                        r->wrong = "hours";
                        return;
                }
                ret->hours[ret->n_hours++] = (uint8_t)bucket;
        }
        ret->next_hour = ret->n_hours % USUAL_HOURS;
}

/* Sixteen digits of hex. */
static bool read_digest(struct slice text, uint64_t *ret)
{
        *ret = 0;
        for (size_t i = 0; i < text.len; i++) {
                const char *digits = "0123456789abcdef", *at = strchr(digits, text.ptr[i]);
                if (!at || !text.ptr[i])
                        return false;
                *ret = *ret << 4 | (uint64_t)(at - digits);
        }
        return text.len == 16;
}

static bool read_statement(struct reading *r, const struct json_value *of, struct digest_row *ret)
{
        struct json_iter it = {0};
        struct json_value digest, n, time;
        struct slice text = SLICE_NONE;
        int64_t count = 0, ln = 0;
        bool is_fine = json_array_next(of, &it, &digest) && digest.type == JSON_STRING &&
                       json_to_text(&digest, &r->arena, &text) == OK &&
                       json_array_next(of, &it, &n) && json_to_i64(&n, &count) &&
                       json_array_next(of, &it, &time) && json_to_i64(&time, &ln);
        *ret = (struct digest_row){.n = (uint16_t)count, .log_time = (double)ln / MILLI};
        return is_fine && read_digest(text, &ret->digest) && count <= UINT16_MAX &&
               digest_row_is_valid(ret);
}

static void get_statements(struct reading *r, const struct json_value *of)
{
        struct json_value rows = get_value(r, of, "statements", JSON_ARRAY), row;
        struct json_iter it = {0};
        r->digests->n = 0;
        while (!r->wrong && json_array_next(&rows, &it, &row)) {
                struct known_digests *to = r->digests;
                if (to->n == DIGESTS_MOST || !read_statement(r, &row, &to->rows[to->n++]))
                        r->wrong = "statements";
        }
}

static void get_class(struct reading *r, const struct json_value *of, struct traffic_class *ret,
                      struct usual_memory *ret_memory)
{
        *ret = (struct traffic_class){.tier = -1};
        get_text(r, of, "identity", ret->identity, sizeof(ret->identity));
        get_text(r, of, "row", ret->row, sizeof(ret->row));
        int64_t tier = get_number(r, of, "comment_tier");
        if ((tier < -1 || tier >= TIERS) && !r->wrong)
                r->wrong = "comment_tier";
        ret->comment_tier = (int8_t)tier;
        int64_t ends = get_number(r, of, "ends");
        *ret_memory = (struct usual_memory){
                .ends = ends > 0 ? (uint64_t)ends : 0,
                .seconds = (double)get_number(r, of, "seconds"),
                .executing = (double)get_number(r, of, "executing") / MILLI,
                .log_time = (double)get_number(r, of, "time") / MILLI,
                .slow = (double)get_number(r, of, "slow") / MILLI,
        };
        get_hours(r, of, ret_memory);
        get_statements(r, of);
}

/* Twice: first it is only looked at.  A class that there cannot be any more is passed over. */
static void read_classes(struct reading *r, struct door *d, const struct json_value *root,
                         bool is_taken)
{
        struct json_value classes = get_value(r, root, "classes", JSON_ARRAY), of;
        struct json_iter it = {0};
        while (!r->wrong && json_array_next(&classes, &it, &of)) {
                struct usual unused = {.hour_ns = 0};
                struct traffic_class c;
                struct usual_memory memory;
                get_class(r, &of, &c, &memory);
                if (!r->wrong && !usual_restore(&unused, &memory))
                        r->wrong = "classes";
                if (r->wrong || !is_taken)
                        continue;
                (void)pthread_mutex_lock(&d->lock);
                door_remember(d, &c, &memory, r->digests->rows, r->digests->n);
                (void)pthread_mutex_unlock(&d->lock);
        }
}

static void take_over(struct reading *r, struct door *d, const struct json_value *root)
{
        double n[USUAL_BUCKETS] = {0}, seconds;
        struct usual_metric unused;
        get_metric(r, root, n, &seconds);
        usual_metric_init(&unused);
        if (!r->wrong && !usual_metric_restore(&unused, n, seconds))
                r->wrong = "metric";
        read_classes(r, d, root, false);
        if (r->wrong)
                return;
        (void)pthread_mutex_lock(&d->lock);
        (void)admission_remember_metric(d->admission, n, seconds); /* it was tried above */
        (void)pthread_mutex_unlock(&d->lock);
        read_classes(r, d, root, true);
        door_tell_news(d);
}

int proxy_remember(struct proxy *p, size_t door, struct slice text, struct problem *problem)
{
        struct json_value root;
        struct reading r = {.wrong = NULL};
        ASSERT(door < p->n_doors);
        int rc = json_parse(text, DEPTH, &root, problem);
        if (rc != OK)
                return rc;
        CLEANUP(known_digests_freep) struct known_digests *digests = xcalloc(1, sizeof(*digests));
        r.digests = digests;
        arena_init(&r.arena, 0);
        if (get_number(&r, &root, "version") != VERSION && !r.wrong)
                r.wrong = "version";
        if (!r.wrong)
                take_over(&r, p->doors[door], &root);
        arena_release(&r.arena);
        return r.wrong ? problem_set(problem, ERR_SYNTAX, "%s is missing or makes no sense",
                                     r.wrong)
                       : OK;
}
