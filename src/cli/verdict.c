/* An answer of CHECK in words.
 *
 * It is a record: in RESP a plain list in a settled order, which is written down once here and
 * serves reading and JSON alike.  Reasons that this version does not know are told as the server
 * names them, so that an older command line is never wrong, only terse. */
#include "cli/verdict.h"

#include <string.h>

#include "cli/json.h"
#include "cli/screen.h"
#include "cli/text.h"

enum {
        AT_VERDICT,
        AT_REASON,
        AT_METRIC,
        AT_VALUE,
        AT_THRESHOLD,
        AT_AGE,
        AT_RULE,
        AT_WAIT,
        AT_CREDITS,
        AT_CREDIT_MS,
        AT_WOULD,
        AT_TARGET,
        FIELDS
};

static const char *const fields[FIELDS] = {
        "verdict", "reason",  "metric",  "value",     "threshold", "age_ms",
        "rule",    "wait_ms", "credits", "credit_ms", "would",     "target",
};

static bool is_record(const struct value *v)
{
        return v && v->type == VALUE_LIST && v->n >= FIELDS;
}

bool verdict_read(const struct value *v, struct verdict *ret)
{
        if (!is_record(v))
                return false;
        struct slice verdict = value_text(&v->items[AT_VERDICT]);
        *ret = (struct verdict){
                .is_granted = slice_eq(verdict, SLICE_LIT("granted")),
                .reason = value_text(&v->items[AT_REASON]),
                .rule = value_text(&v->items[AT_RULE]),
                .would = value_text(&v->items[AT_WOULD]),
                .target = value_text(&v->items[AT_TARGET]),
                .metric = value_text(&v->items[AT_METRIC]),
                .value = value_text(&v->items[AT_VALUE]),
                .threshold = value_text(&v->items[AT_THRESHOLD]),
                .age_ms = value_int(&v->items[AT_AGE], -1),
                .wait_ms = value_int(&v->items[AT_WAIT], 0),
                .credits = value_int(&v->items[AT_CREDITS], 0),
                .credit_ms = value_int(&v->items[AT_CREDIT_MS], 0),
        };
        return ret->is_granted || slice_eq(verdict, SLICE_LIT("refused"));
}

static void put_on(struct buf *b, struct slice target)
{
        if (!target.len)
                return;
        buf_put_str(b, " on ");
        text_put_safe(b, target);
}

/* "the rule for daily-etl on shop", from "share:daily-etl/shop": its slot is for machines. */
static void put_rule(struct buf *b, const struct verdict *v)
{
        struct slice name = v->rule, target = SLICE_NONE;
        const char *colon = name.len ? memchr(name.ptr, ':', name.len) : NULL;
        if (colon)
                name = slice_make(colon + 1, name.len - (size_t)(colon + 1 - name.ptr));
        const char *slash = name.len ? memchr(name.ptr, '/', name.len) : NULL;
        if (slash) {
                target = slice_make(slash + 1, name.len - (size_t)(slash + 1 - name.ptr));
                name.len = (size_t)(slash - name.ptr);
        }
        buf_put_str(b, name.len ? "the rule for " : "a rule");
        text_put_safe(b, name);
        put_on(b, target);
}

static void put_metric(struct buf *b, const struct verdict *v)
{
        text_put_safe(b, v->metric.len ? v->metric : SLICE_LIT("a metric"));
        if (v->value.len && v->threshold.len) {
                buf_put_byte(b, ' ');
                text_put_safe(b, v->value);
                buf_put_str(b, " is above ");
                text_put_safe(b, v->threshold);
        } else {
                buf_put_str(b, " is above its threshold");
        }
        put_on(b, v->target);
}

static void put_unknown(struct buf *b, const struct verdict *v)
{
        text_put_safe(b, v->metric.len ? v->metric : SLICE_LIT("a metric"));
        buf_put_str(b, " is not known");
        put_on(b, v->target);
        buf_put_str(b, ", it ");
        age_put_read(b, v->age_ms);
}

static void put_level(struct buf *b, const struct verdict *v)
{
        buf_put_str(b, "the load level");
        put_on(b, v->target);
        buf_put_str(b, " makes its tier wait");
        if (!v->metric.len || !v->value.len)
                return;
        buf_put_str(b, " (");
        text_put_safe(b, v->metric);
        buf_put_byte(b, ' ');
        text_put_safe(b, v->value);
        buf_put_byte(b, ')');
}

static void put_hold(struct buf *b, const struct verdict *v)
{
        put_rule(b, v);
        buf_put_str(b, " holds it");
}

static void put_ratio(struct buf *b, const struct verdict *v)
{
        put_rule(b, v);
        buf_put_str(b, " refuses a share of its asks");
}

static void put_paused(struct buf *b, const struct verdict *v)
{
        (void)v;
        buf_put_str(b, "an operator paused the gate");
}

static void put_low(struct buf *b, const struct verdict *v)
{
        (void)v;
        buf_put_str(b, "somebody more important was refused just now");
}

static const struct {
        const char *reason;
        void (*put)(struct buf *b, const struct verdict *v);
} words[] = {
        {"threshold", put_metric}, {"unknown", put_unknown}, {"level", put_level},
        {"hold", put_hold},        {"ratio", put_ratio},     {"paused", put_paused},
        {"low_priority", put_low},
};

static void put_reason(struct buf *b, struct slice reason, const struct verdict *v)
{
        for (size_t i = 0; i < ARRAY_LEN(words); i++) {
                if (slice_eq(reason, slice_str(words[i].reason))) {
                        words[i].put(b, v);
                        return;
                }
        }
        text_put_safe(b, reason.len ? reason : SLICE_LIT("no reason was given"));
}

/* The numbers are those that were decided by.  A list that is tried out has others, which the
 * answer does not tell; what it tells is the rule. */
static void put_would(struct buf *b, const struct verdict *v)
{
        bool is_share =
                slice_eq(v->would, SLICE_LIT("hold")) || slice_eq(v->would, SLICE_LIT("ratio"));
        if (v->rule.len && !is_share && slice_eq(v->reason, SLICE_LIT("granted"))) {
                buf_put_str(b, "; ");
                put_rule(b, v);
                buf_put_str(b, ", which is tried out, would refuse it");
                return;
        }
        buf_put_str(b, "; enforce would refuse it: ");
        put_reason(b, v->would, v);
}

bool verdict_is_blind(const struct verdict *v)
{
        return v->is_granted && !v->target.len &&
               (slice_eq(v->reason, SLICE_LIT("granted")) || slice_eq(v->reason, SLICE_LIT("off")));
}

static void put_granted(struct buf *b, const struct verdict *v)
{
        buf_put_str(b, "granted");
        if (verdict_is_blind(v))
                buf_put_str(b, ": " VERDICT_BLIND);
        if (slice_eq(v->reason, SLICE_LIT("exempt"))) {
                buf_put_str(b, ": ");
                put_rule(b, v);
                buf_put_str(b, " exempts it");
        }
        if (v->credits > 0) {
                buf_printf(b, "; %lld more may go without asking within ", (long long)v->credits);
                duration_put(b, v->credit_ms);
        }
        if (v->would.len)
                put_would(b, v);
}

void verdict_put(struct buf *b, const struct verdict *v)
{
        if (v->is_granted) {
                put_granted(b, v);
        } else {
                buf_put_str(b, "refused: ");
                put_reason(b, v->reason, v);
        }
        if (v->wait_ms > 0) {
                buf_put_str(b, "; ask again in ");
                duration_put(b, v->wait_ms);
        }
}

void verdict_put_json(struct buf *b, const struct value *v)
{
        if (!is_record(v)) {
                value_put_json(b, v);
                return;
        }
        for (size_t i = 0; i < FIELDS; i++) {
                buf_printf(b, "%s\"%s\":", i ? "," : "{", fields[i]);
                value_put_json(b, &v->items[i]);
        }
        buf_put_byte(b, '}');
}
