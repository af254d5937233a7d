/* Rules: found by those who check, set and ended by operators and by time.
 *
 * A check looks for the rules of up to nine names and "all".  The index is a hash table by `who`;
 * its nodes are in the rules themselves, so building it allocates nothing but the slots: 10,000
 * rules take a few milliseconds.  It is built when somebody checks and state->rules_version has
 * changed since, which also makes it safe: a rule that is freed changes the version, and the table
 * is not looked at again before it is built anew.  Without any rule a match is one comparison.
 *
 * A rule ends three times over, each time a little more thoroughly: a match passes over one that is
 * past its end; its alarm removes it with the first turn after that; and while rules have ends, the
 * history's alarm writes the time into the log every RULELOG_BEAT_NS.  Without that heartbeat a
 * weir that only answers checks would log nothing, steady time would go back to the last job or
 * rule with every restart, and a rule could outlive its hour for ever.
 *
 * Everything is checked before anything is changed: a refusal leaves no trace.  Each change is one
 * batch together with its entry in the history. */
#include "checks/rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/say.h"
#include "base/shown.h"
#include "state/rulelog.h"
#include "throttle/throttle_state.h"

/* Log bytes of a rule, its entry in the history and the end of the one it replaces, all as long as
 * they may be. */
#define RULE_RECORD_BYTES                                                                          \
        (3 * RULE_NAME_BYTES + RULE_LIST_BYTES + RULE_REASON_BYTES + RULE_TEXT_BYTES + 512)

/* The numbers are in the log: see RULE_MODE_MAX in state/rule.c. */
_Static_assert(MODE_ENFORCE == 3 && MODE_OBSERVE == 2 && MODES == 4, "modes of rules");

enum { SLOT_SHARE, SLOT_METRICS, SLOT_THRESHOLD, SLOTS };

/* ---- the index ---- */

struct rule_index {
        struct hash by_who;
        uint64_t version; /* of the rules it was built from */
        bool has_trials;  /* a list of metrics or thresholds that only observes is among them */
        /* A bit for each name there may be, by length and both ends: with the few rules of a usual
         * day most names are passed over without hashing them. */
        uint64_t may_be[4];
};

static unsigned filter_bit(struct slice name)
{
        unsigned char first = (unsigned char)name.ptr[0];
        unsigned char last = (unsigned char)name.ptr[name.len - 1];
        return ((unsigned)name.len * 37 + first * 5U + last) % 256;
}

static bool may_have(const struct rule_index *i, struct slice name)
{
        unsigned bit = filter_bit(name);
        return i->may_be[bit / 64] >> bit % 64 & 1;
}

struct rule_index *rule_index_new(void)
{
        struct rule_index *i = xcalloc(1, sizeof(*i));
        hash_init(&i->by_who, 0);
        i->version = UINT64_MAX; /* none has it */
        return i;
}

struct rule_index *rule_index_free(struct rule_index *i)
{
        if (i)
                hash_release(&i->by_who);
        free(i);
        return NULL;
}

static size_t slot_number(enum rule_kind kind)
{
        if (kind == RULE_METRICS)
                return SLOT_METRICS;
        return kind == RULE_THRESHOLD ? SLOT_THRESHOLD : SLOT_SHARE;
}

static void build(struct core *core, struct rule_index *i)
{
        const struct hash *all = &core->state.things[THING_RULE];
        hash_release(&i->by_who); /* not its nodes: some of them are gone */
        hash_init(&i->by_who, all->seed);
        memset(i->may_be, 0, sizeof(i->may_be));
        i->has_trials = false;
        for (struct hash_node *it = NULL; (it = hash_next(all, it));) {
                struct rule *r = rule_of(CONTAINER_OF(it, struct thing, node));
                unsigned bit = filter_bit(r->who);
                struct hash_node *first =
                        may_have(i, r->who) ? hash_find(&i->by_who, r->who) : NULL;
                i->may_be[bit / 64] |= 1ULL << bit % 64;
                i->has_trials |= r->mode != MODE_ENFORCE && slot_number(r->kind) != SLOT_SHARE;
                r->next_of_who = NULL;
                if (!first) {
                        hash_insert(&i->by_who, &r->by_who, r->who);
                        continue;
                }
                struct rule *head = CONTAINER_OF(first, struct rule, by_who);
                r->next_of_who = head->next_of_who;
                head->next_of_who = r;
        }
        i->version = core->state.rules_version;
}

static bool is_over(const struct core *core, const struct rule *r)
{
        return r->until_ns && r->until_ns <= core->now.steady_ns;
}

static void match_metrics(const struct rule *r, struct rule_match *ret)
{
        for (size_t i = 0; i < ret->n_metrics; i++)
                if (ret->metrics[i] == r)
                        return; /* "etl:etl": a part may be there twice */
        ASSERT(ret->n_metrics < ARRAY_LEN(ret->metrics));
        ret->metrics[ret->n_metrics++] = r;
}

/* What is matched, and the first list of it that only observes when those count too.  Names are
 * looked at from specific to general, so the last hold is the most general one. */
struct matching {
        struct rule_match *ret;
        bool is_trial;
        const struct rule *trial;
        struct rule *hold, *observed_hold;
};

static void match_share(struct matching *m, struct rule *r)
{
        if (!r)
                return;
        bool is_enforced = r->mode == MODE_ENFORCE;
        if (r->kind == RULE_HOLD)
                *(is_enforced ? &m->hold : &m->observed_hold) = r;
        if (m->ret->share)
                return; /* a more specific one is enforced */
        if (is_enforced)
                m->ret->share = r;
        else if (!m->ret->observed)
                m->ret->observed = r;
}

static bool counts(struct matching *m, const struct rule *r)
{
        if (!r || (r->mode != MODE_ENFORCE && !m->is_trial))
                return false;
        if (r->mode != MODE_ENFORCE && !m->trial)
                m->trial = r;
        return true;
}

/* The rules of one name for a target, or for every target, and of one slot. */
struct candidates {
        struct rule *trial, *enforced;
};

/* Were the trial enforced, it would stand in the place of the other. */
static struct rule *list_of(struct matching *m, const struct candidates *c)
{
        return counts(m, c->trial) ? c->trial : counts(m, c->enforced) ? c->enforced : NULL;
}

/* The rules of one name; less specific than all that is matched already. */
static void match_name(const struct core *core, struct slice name, struct slice target,
                       bool wants_metrics, struct matching *m)
{
        struct rule_match *ret = m->ret;
        struct hash_node *first =
                may_have(core->rules, name) ? hash_find(&core->rules->by_who, name) : NULL;
        if (!first)
                return;
        struct candidates found[2][SLOTS] = {{{NULL, NULL}}}; /* of the target, of every target */
        for (struct rule *r = CONTAINER_OF(first, struct rule, by_who); r; r = r->next_of_who) {
                if (is_over(core, r) || (r->target.len && !slice_eq(r->target, target)))
                        continue;
                struct candidates *c = &found[r->target.len == 0][slot_number(r->kind)];
                *(r->mode == MODE_ENFORCE ? &c->enforced : &c->trial) = r;
        }
        for (size_t i = 0; i < 2; i++) {
                match_share(m, found[i][SLOT_SHARE].trial);
                match_share(m, found[i][SLOT_SHARE].enforced);
                if (!ret->threshold)
                        ret->threshold = list_of(m, &found[i][SLOT_THRESHOLD]);
                const struct rule *metrics =
                        wants_metrics ? list_of(m, &found[i][SLOT_METRICS]) : NULL;
                if (metrics) {
                        match_metrics(metrics, ret);
                        wants_metrics = false;
                }
        }
}

static void match(struct core *core, const struct identity *who, struct slice target,
                  struct matching *m)
{
        m->ret->share = m->ret->observed = m->ret->threshold = NULL;
        m->ret->n_metrics = 0;
        if (!core->state.things[THING_RULE].len)
                return;
        if (core->rules->version != core->state.rules_version)
                build(core, core->rules);
        if (m->is_trial && !core->rules->has_trials)
                return;
        match_name(core, who->whole, target, true, m);
        for (size_t i = 0; i < who->n && who->n > 1; i++) /* a single part is the whole */
                match_name(core, who->part[i], target, true, m);
        match_name(core, SLICE_LIT("all"), target, m->ret->n_metrics == 0, m);
        /* An emergency stop stops, whatever a more specific rule says. */
        if (m->hold)
                m->ret->share = m->hold;
        if (m->observed_hold)
                m->ret->observed = m->observed_hold;
}

void rule_match(struct core *core, const struct identity *who, struct slice target,
                struct rule_match *ret)
{
        struct matching m = {.ret = ret};
        match(core, who, target, &m);
}

const struct rule *rule_match_trial(struct core *core, const struct identity *who,
                                    struct slice target, struct rule_match *ret)
{
        struct matching m = {.ret = ret, .is_trial = true};
        match(core, who, target, &m);
        return m.trial;
}

/* ---- numbers and lists ---- */

/* Digits, and a point with digits behind it: no sign, no exponent, no blank. */
static bool parse_decimal(struct slice s, double *ret)
{
        char copy[32];
        size_t n_points = 0;
        if (!s.len || s.len >= sizeof(copy) || s.ptr[0] == '.' || s.ptr[s.len - 1] == '.')
                return false;
        for (size_t i = 0; i < s.len; i++) {
                if (s.ptr[i] == '.')
                        n_points++;
                else if (s.ptr[i] < '0' || s.ptr[i] > '9')
                        return false;
        }
        memcpy(copy, s.ptr, s.len);
        copy[s.len] = '\0';
        *ret = strtod(copy, NULL);
        return n_points <= 1 && isfinite(*ret);
}

int rule_ratio_parse(struct slice text, uint32_t *ret_ppm, struct problem *problem)
{
        double ratio;
        if (!parse_decimal(text, &ratio) || ratio > 1)
                return problem_set(problem, ERR_BADARG,
                                   "ratio must be a number from 0 to 1, such as 0.5, not '%s'",
                                   SHOWN(text));
        *ret_ppm = (uint32_t)lround(ratio * RULE_RATIO_ONE);
        return OK;
}

const char *rule_ratio_text(uint32_t ppm, char *ret)
{
        int n = snprintf(ret, RULE_RATIO_TEXT, "%u.%06u", ppm / RULE_RATIO_ONE,
                         ppm % RULE_RATIO_ONE);
        while (ret[n - 1] == '0')
                n--;
        ret[ret[n - 1] == '.' ? n - 1 : n] = '\0';
        return ret;
}

/* Up to the next `c` or the end; *rest goes on behind it. */
static struct slice take_until(struct slice *rest, char c)
{
        const char *at = rest->len ? memchr(rest->ptr, c, rest->len) : NULL;
        size_t len = at ? (size_t)(at - rest->ptr) : rest->len;
        struct slice head = slice_make(rest->ptr, len);
        *rest = at ? slice_make(at + 1, rest->len - len - 1) : SLICE_NONE;
        return head;
}

bool rule_list_next(struct slice *rest, struct slice *ret_name, double *ret_value)
{
        if (!rest->len)
                return false;
        struct slice value = take_until(rest, ',');
        *ret_name = take_until(&value, '=');
        if (!parse_decimal(value, ret_value))
                *ret_value = NAN;
        return true;
}

/* ---- what may be set ---- */

struct metric_place {
        size_t target;
        int metric;
};

/* Where a metric is: on the target, or on the first that has it when `target` is -1. */
static bool find_metric(const struct core *core, int target, struct slice name,
                        struct metric_place *ret)
{
        size_t i = target < 0 ? 0 : (size_t)target;
        size_t end = target < 0 ? throttle_targets(core) : i + 1;
        for (; i < end; i++) {
                int metric = throttle_metric(core, i, name);
                if (metric < 0)
                        continue;
                *ret = (struct metric_place){i, metric};
                return true;
        }
        return false;
}

static void put_word(struct buf *b, const char *word)
{
        if (b->len)
                buf_put_str(b, ", ");
        buf_put_str(b, word);
}

static int no_metric(const struct core *core, int target, struct slice name,
                     struct problem *problem)
{
        struct buf there;
        buf_init(&there, 0);
        for (size_t i = 0; i < throttle_targets(core); i++)
                for (size_t k = 0; k < core->throttle->targets[i].n_metrics; k++)
                        if (target < 0 || i == (size_t)target)
                                put_word(&there, throttle_metric_name(core, i, k));
        int r = problem_set(problem, ERR_NOTFOUND, "there is no metric '%s' on %s; there are: %s",
                            SHOWN(name),
                            target < 0 ? "any target" : throttle_target_name(core, (size_t)target),
                            there.len ? buf_cstr(&there) : "none");
        buf_release(&there);
        return r;
}

/* One of "a,b" or "a=1,b=2": known, new, and with a number exactly when the kind wants one. */
static int check_item(const struct core *core, int target, struct slice item, bool has_values,
                      struct metric_place *ret, struct problem *problem)
{
        struct slice value = item, name = take_until(&value, '=');
        double number;
        if (has_values != (name.len < item.len) || (has_values && !parse_decimal(value, &number)))
                return problem_set(problem, ERR_BADARG,
                                   has_values
                                           ? "threshold must be metric=number,metric=number with "
                                             "numbers from 0 on, not '%s'"
                                           : "metrics must be names between commas, not '%s'",
                                   SHOWN(item));
        return find_metric(core, target, name, ret) ? OK : no_metric(core, target, name, problem);
}

static int check_list(const struct core *core, int target, struct slice list, bool has_values,
                      struct problem *problem)
{
        struct metric_place places[LIMIT_CHECK_METRICS] = {{0}};
        size_t n = 0;
        if (!list.len || list.len > RULE_LIST_BYTES || list.ptr[list.len - 1] == ',')
                return problem_set(problem, ERR_BADARG,
                                   "%s must be a list of metrics between commas, of up to %d bytes",
                                   has_values ? "threshold" : "metrics", RULE_LIST_BYTES);
        for (struct slice rest = list; rest.len; n++) {
                if (n == LIMIT_CHECK_METRICS)
                        return problem_set(problem, ERR_LIMIT, "at most %d metrics in one rule",
                                           LIMIT_CHECK_METRICS);
                struct slice item = take_until(&rest, ',');
                int r = check_item(core, target, item, has_values, &places[n], problem);
                if (r != OK)
                        return r;
                for (size_t i = 0; i < n; i++)
                        if (places[i].target == places[n].target &&
                            places[i].metric == places[n].metric)
                                return problem_set(problem, ERR_BADARG,
                                                   "the metric %s is given twice",
                                                   throttle_metric_name(core, places[n].target,
                                                                        (size_t)places[n].metric));
        }
        return OK;
}

int rule_check_text(const char *what, struct slice text, size_t max, struct problem *problem)
{
        bool is_plain = slice_is_utf8(text);
        for (size_t i = 0; i < text.len; i++)
                is_plain = is_plain && (unsigned char)text.ptr[i] >= ' ' && text.ptr[i] != 0x7f;
        if (text.len > max)
                return problem_set(problem, ERR_TOOBIG,
                                   "%s must be at most %zu bytes long, not %zu", what, max,
                                   text.len);
        return is_plain ? OK
                        : problem_set(problem, ERR_BADARG,
                                      "%s must be UTF-8 without control characters", what);
}

int64_t rule_max_ms(const struct core *core)
{
        int64_t max = core->checks.rule_max_ms ? core->checks.rule_max_ms : RULE_MAX_DEFAULT_MS;
        return max < (int64_t)LIMIT_RULE_MS ? max : (int64_t)LIMIT_RULE_MS;
}

/* The end of a rule that is set now, by what the operator allows. */
static int check_length(const struct core *core, int64_t *for_ms, struct problem *problem)
{
        char text[DURATION_TEXT_MAX];
        int64_t max = rule_max_ms(core);
        if (*for_ms == 0)
                *for_ms = RULE_FOR_DEFAULT_MS < max ? RULE_FOR_DEFAULT_MS : max;
        if (*for_ms == -1 && !core->checks.is_endless_allowed)
                return problem_set(problem, ERR_FORBIDDEN,
                                   "a rule without an end is not allowed here; at most FOR %lld "
                                   "(%s)",
                                   (long long)max, duration_text(max, text));
        if (*for_ms < -1 || *for_ms > max)
                return problem_set(problem, ERR_BADARG,
                                   "for must be 1 to %lld ms (%s) here, not %lld", (long long)max,
                                   duration_text(max, text), (long long)*for_ms);
        return OK;
}

static int check_values(const struct core *core, int target, const struct rule_values *v,
                        struct problem *problem)
{
        if (v->kind >= RULE_KINDS || (v->mode != MODE_OBSERVE && v->mode != MODE_ENFORCE))
                return problem_set(problem, ERR_BADARG, "no such kind or mode of a rule");
        if (v->ratio_ppm > (v->kind == RULE_RATIO ? RULE_RATIO_ONE : 0))
                return problem_set(problem, ERR_BADARG,
                                   "ratio goes with the kind ratio, and is 0 to 1");
        if ((v->flags & RULE_ENDS_ITSELF) && v->kind != RULE_EXEMPT)
                return problem_set(problem, ERR_BADARG, "selfending goes with the kind exempt");
        bool has_list = v->kind == RULE_METRICS || v->kind == RULE_THRESHOLD;
        if (!has_list && v->list.len)
                return problem_set(problem, ERR_BADARG, "the kind %s takes no metrics",
                                   rule_kind_name(v->kind));
        int r = rule_check_text("author", v->author, RULE_AUTHOR_BYTES, problem);
        if (r == OK)
                r = rule_check_text("reason", v->reason, RULE_REASON_BYTES, problem);
        if (r == OK)
                r = rule_check_text("address", v->address, RULE_AUTHOR_BYTES, problem);
        if (r == OK && has_list)
                r = check_list(core, target, v->list, v->kind == RULE_THRESHOLD, problem);
        return r;
}

/* ---- names ---- */

/* A rule that is about to be set. */
struct setting_rule {
        struct rule_place place;
        struct slice name; /* in room */
        struct rule_values values;
        int64_t for_ms;
        char room[RULE_NAME_BYTES];
};

/* "share:etl/shop", as state/rule.h has it; nothing when no rule can have that name. */
static struct slice put_name(char room[RULE_NAME_BYTES], const struct rule_place *p)
{
        struct slice who = p->who, target = p->target;
        if (!who.len || memchr(who.ptr, '/', who.len) ||
            (target.len && memchr(target.ptr, '/', target.len)) ||
            p->slot.len + who.len + target.len + sizeof(":/" RULE_TRIAL) > RULE_NAME_BYTES)
                return SLICE_NONE;
        int n = snprintf(room, RULE_NAME_BYTES, "%.*s:%.*s%s%.*s%s", (int)p->slot.len, p->slot.ptr,
                         (int)who.len, who.ptr, target.len || p->is_trial ? "/" : "",
                         (int)target.len, target.len ? target.ptr : "",
                         p->is_trial ? RULE_TRIAL : "");
        return slice_make(room, (size_t)n);
}

static struct rule *find_named(const struct core *core, const struct rule_place *place)
{
        char room[RULE_NAME_BYTES];
        struct slice name = put_name(room, place);
        struct thing *t = name.len ? thing_find(&core->state, THING_RULE, name) : NULL;
        return t ? rule_of(t) : NULL;
}

/* One that an earlier version set to observe stands in the place of the enforced one. */
static struct rule *find_early_trial(const struct core *core, const struct rule_place *place)
{
        struct rule_place enforced = *place;
        enforced.is_trial = false;
        struct rule *r = find_named(core, &enforced);
        return r && r->mode != MODE_ENFORCE ? r : NULL;
}

struct rule *rule_find(const struct core *core, const struct rule_place *place)
{
        struct rule *r = find_named(core, place);
        if (place->is_trial)
                return r ? r : find_early_trial(core, place);
        return r && r->mode == MODE_ENFORCE ? r : NULL;
}

static int prepare(const struct core *core, const struct rule_set *set, struct setting_rule *ret,
                   struct problem *problem)
{
        int r = identity_check_name(set->who, problem), target = -1;
        if (r == OK && set->target.len) {
                target = throttle_target(core, set->target);
                if (target < 0)
                        r = throttle_no_target(core, set->target, problem);
        }
        ret->values = set->values;
        ret->for_ms = set->for_ms;
        struct rule_values *v = &ret->values;
        if (r == OK)
                r = check_values(core, target, v, problem);
        if (r == OK)
                r = check_length(core, &ret->for_ms, problem);
        if (r != OK)
                return r;
        if (!v->author.len)
                v->author = v->address.len ? v->address : SLICE_LIT("local");
        v->set_ms = core->now.wall_ms > 0 ? core->now.wall_ms : 0;
        v->until_ns = ret->for_ms < 0 ? 0 : core->now.steady_ns + ret->for_ms * NS_PER_MS;
        ret->place = (struct rule_place){slice_str(rule_slot(v->kind)), set->who, set->target,
                                         v->mode != MODE_ENFORCE};
        ret->name = put_name(ret->room, &ret->place);
        return ret->name.len ? OK
                             : problem_set(problem, ERR_TOOBIG, "name and target are too long");
}

/* ---- what is said of a change ---- */

/* "observe ratio 0.9 for 1h on shop: nightly purge"; for_ms 0: how long is not said. */
static void describe(struct buf *b, const struct rule_values *v, struct slice target,
                     int64_t for_ms)
{
        char text[DURATION_TEXT_MAX > RULE_RATIO_TEXT ? DURATION_TEXT_MAX : RULE_RATIO_TEXT];
        buf_printf(b, "%s%s", v->mode == MODE_OBSERVE ? "observe " : "", rule_kind_name(v->kind));
        if (v->kind == RULE_RATIO)
                buf_printf(b, " %s", rule_ratio_text(v->ratio_ppm, text));
        if (v->list.len) {
                buf_put_byte(b, ' ');
                buf_put_slice(b, v->list);
        }
        if (for_ms < 0)
                buf_put_str(b, " until it is removed");
        else if (for_ms)
                buf_printf(b, " for %s", duration_text(for_ms, text));
        if (target.len) {
                buf_put_str(b, " on ");
                buf_put_slice(b, target);
        }
        if (v->flags & RULE_ENDS_ITSELF)
                buf_put_str(b, ", ends past its budget");
        if (v->reason.len) {
                buf_put_str(b, ": ");
                buf_put_slice(b, v->reason);
        }
}

/* At most max bytes, and no half of a character at the end. */
static void cut(struct buf *b, size_t max)
{
        if (b->len <= max)
                return;
        while (max && ((unsigned char)b->ptr[max] & 0xc0) == 0x80)
                max--;
        b->len = max;
}

static void remember(struct core *core, const struct rulelog_entry *e)
{
        struct slice name = SLICE_LIT(RULELOG_NAME);
        struct thing *t = thing_find(&core->state, THING_RULELOG, name);
        buf_clear(&core->body);
        if (t) {
                rulelog_put(e, &core->body);
                thing_note(core, t, buf_slice(&core->body));
        } else {
                rulelog_put_first(e, &core->body);
                thing_set(core, THING_RULELOG, name, buf_slice(&core->body));
        }
}

static void announce(struct core *core, const char *event, const struct rulelog_entry *e)
{
        struct buf text, rule, author;
        buf_init(&text, 0);
        buf_init(&rule, 0);
        buf_init(&author, 0);
        buf_put_slice(&rule, e->name);
        buf_put_slice(&author, e->author);
        buf_printf(&text, "%s by %s: ", buf_cstr(&rule), buf_cstr(&author));
        buf_put_slice(&text, e->text);
        cut(&text, THROTTLE_TEXT - 1);
        throttle_tell(core, event, "%s", buf_cstr(&text));
        buf_clear(&text);
        buf_put_slice(&text, e->text);
        say_info("gate", event, "rule", buf_cstr(&rule), "by", buf_cstr(&author), "what",
                 buf_cstr(&text));
        buf_release(&text);
        buf_release(&rule);
        buf_release(&author);
}

/* ---- changes ---- */

/* Into the history and to whoever reads along; `text` is cut. */
static void tell_change(struct core *core, const char *event, struct rulelog_entry *e,
                        struct buf *text)
{
        cut(text, RULE_TEXT_BYTES);
        e->at_ms = core->now.wall_ms > 0 ? core->now.wall_ms : 0;
        e->text = buf_slice(text);
        remember(core, e);
        announce(core, event, e);
}

static void set_one(struct core *core, const struct setting_rule *s, struct slice target)
{
        const struct rule_values *v = &s->values;
        struct rule *early = s->place.is_trial ? find_early_trial(core, &s->place) : NULL;
        struct buf text;
        if (early)
                thing_gone(core, &early->thing);
        buf_clear(&core->body);
        rule_put(v, &core->body);
        thing_set(core, THING_RULE, s->name, buf_slice(&core->body));
        struct rulelog_entry e = {.action = RULELOG_SET,
                                  .name = rule_find(core, &s->place)->called,
                                  .author = v->author,
                                  .address = v->address};
        buf_init(&text, 0);
        describe(&text, v, target, s->for_ms);
        tell_change(core, "rule_set", &e, &text);
        buf_release(&text);
}

/* Room in the log and in the open batch for n rules, so that the last of them cannot fail. */
static int admit(struct core *core, size_t n, struct problem *problem)
{
        const struct buf *b = &core->batch[core->open];
        uint64_t bytes = n * RULE_RECORD_BYTES;
        if (b->max && b->max - b->len < bytes)
                return problem_set(problem, ERR_UNAVAIL, "the log is behind; try again");
        return core_admit(core, bytes, 0, problem);
}

int rule_set_all(struct core *core, const struct rule_set *sets, size_t n, struct problem *problem)
{
        struct setting_rule rules[RULE_SET_MAX];
        size_t n_new = 0;
        ASSERT(n <= RULE_SET_MAX);
        for (size_t i = 0; i < n; i++) {
                int r = prepare(core, &sets[i], &rules[i], problem);
                if (r != OK)
                        return r;
                n_new += !thing_find(&core->state, THING_RULE, rules[i].name);
        }
        if (n_new && core->state.things[THING_RULE].len + n_new > LIMIT_RULES)
                return problem_set(problem, ERR_LIMIT, "there are %zu rules already, of at most %d",
                                   core->state.things[THING_RULE].len, LIMIT_RULES);
        int r = admit(core, n, problem);
        if (r != OK)
                return r;
        for (size_t i = 0; i < n; i++)
                set_one(core, &rules[i], sets[i].target);
        return OK;
}

int rule_set(struct core *core, const struct rule_set *set, struct problem *problem)
{
        return rule_set_all(core, set, 1, problem);
}

/* Writes how it ended and removes it; `why`, if given, instead of the reason it was set for. */
static void end(struct core *core, struct rule *r, const char *event, struct rulelog_entry *e,
                struct slice why)
{
        struct rule_values v;
        struct buf text;
        rule_values_of(r, &v);
        e->name = r->called;
        buf_init(&text, 0);
        if (why.len)
                v.reason = why;
        describe(&text, &v, r->target, 0);
        tell_change(core, event, e, &text);
        buf_release(&text);
        thing_gone(core, &r->thing);
}

bool rule_unset(struct core *core, const struct rule_place *place, struct slice author,
                struct slice address)
{
        struct rule *r = rule_find(core, place);
        if (!r)
                return false;
        if (!author.len)
                author = address.len ? address : SLICE_LIT("local");
        struct rulelog_entry e = {.action = RULELOG_UNSET, .author = author, .address = address};
        end(core, r, "rule_unset", &e, SLICE_NONE);
        return true;
}

void rule_end(struct core *core, struct rule *rule, struct slice why)
{
        struct rulelog_entry e = {.action = RULELOG_OVER_BUDGET, .author = SLICE_LIT("weir")};
        end(core, rule, "rule_over_budget", &e, why);
}

void rule_due(struct core *core, struct thing *t)
{
        struct rulelog_entry e = {.action = RULELOG_EXPIRED, .author = SLICE_LIT("weir")};
        end(core, rule_of(t), "rule_expired", &e, SLICE_NONE);
}

static bool has_ending_rule(const struct core *core)
{
        const struct hash *all = &core->state.things[THING_RULE];
        for (struct hash_node *it = NULL; (it = hash_next(all, it));)
                if (rule_of(CONTAINER_OF(it, struct thing, node))->until_ns)
                        return true;
        return false;
}

/* The heartbeat: see the top. */
void rulelog_due(struct core *core, struct thing *t)
{
        int64_t next = core->state.steady_ns + RULELOG_BEAT_NS;
        if (!has_ending_rule(core))
                return; /* the next change arms it again */
        if (next <= core->now.steady_ns) {
                struct effect e = {.type = EFFECT_CLOCK,
                                   .steady_ns = core->now.steady_ns,
                                   .wall_ms = core->now.wall_ms};
                core_emit(core, &e);
                next = core->now.steady_ns + RULELOG_BEAT_NS;
        }
        thing_alarm(&core->state, t, next);
}

/* ---- looking ---- */

static int by_name(const void *a, const void *b)
{
        const struct rule *const *x = a, *const *y = b;
        return slice_cmp(thing_name(&(*x)->thing), thing_name(&(*y)->thing));
}

void rule_each(struct core *core, void (*fn)(void *ctx, const struct rule *r), void *ctx)
{
        const struct hash *all = &core->state.things[THING_RULE];
        const struct rule **sorted = xcalloc(all->len + 1, sizeof(struct rule *));
        size_t n = 0;
        for (struct hash_node *it = NULL; (it = hash_next(all, it));) {
                const struct rule *r = rule_of(CONTAINER_OF(it, struct thing, node));
                if (!is_over(core, r))
                        sorted[n++] = r;
        }
        qsort(sorted, n, sizeof(struct rule *), by_name);
        for (size_t i = 0; i < n; i++)
                fn(ctx, sorted[i]);
        free(sorted);
}
