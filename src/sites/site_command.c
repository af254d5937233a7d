/* Commands that are answered from the last survey and the ledger: SITES, SITE, SITEASK, SITEDEFER
 * and SITERUN. */
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/shown.h"
#include "sites/sites_state.h"

#define HOOKS_TOLD     200
#define RUNNERS_NO_CAP 1000 /* what SITERUN tells when the level has no cap */

/* ---- what is told of a site ---- */

struct telling {
        struct core *core;
        struct site *site;
        size_t order[HOOKS_TOLD]; /* the hooks that are told: indices into the survey */
        size_t n_order;
        struct site_tier_reply tiers[TIERS];
        uint64_t moved;
};

static uint64_t moved_of_hook(const struct telling *t, struct slice hook)
{
        const struct moved_hook *h =
                moved_hook_find(&t->core->state, slice_str(t->site->name), hook);
        return h ? h->n_moved : 0;
}

static int64_t older_ms(int64_t a_ms, int64_t b_ms)
{
        if (!a_ms || !b_ms)
                return a_ms ? a_ms : b_ms;
        return a_ms < b_ms ? a_ms : b_ms;
}

static struct site_hook_reply hook_row(const struct telling *t, size_t index)
{
        const struct site_hook *h = &t->site->survey.hooks[index];
        enum tier tier;
        struct gate_answer a = site_decide(t->core, t->site, h->hook, &tier);
        int code = site_code_tier(t->core, t->site, h->hook);
        return (struct site_hook_reply){
                .hook = h->hook,
                .tier = tier_name(tier),
                .registry = tier_name(registry_tier(t->core->throttle->registry, h->hook)),
                .code = code < 0 ? "" : tier_name((enum tier)code),
                .due = h->due,
                .moved = (int64_t)moved_of_hook(t, h->hook),
                .running = h->running,
                .oldest_due_ms = h->oldest_due_s * MS_PER_S,
                .delay_ms = a.would_wait ? a.delay_ms : 0,
        };
}

static void sum_tiers(struct telling *t)
{
        const struct site_survey *v = &t->site->survey;
        for (enum tier i = 0; i < TIERS; i++) {
                const struct policy *p = &t->core->throttle->policy;
                t->tiers[i] = (struct site_tier_reply){
                        .tier = tier_name(i),
                        .delay_ms = p->delay_ms[site_level_for(t->core, t->site, i)][i]};
        }
        for (size_t i = 0; i < v->n_hooks; i++) {
                struct site_hook_reply row = hook_row(t, i);
                struct site_tier_reply *tier = &t->tiers[site_tier(t->core, t->site, row.hook)];
                tier->due += row.due;
                tier->moved += row.moved;
                tier->running += row.running;
                tier->oldest_due_ms = older_ms(tier->oldest_due_ms, row.oldest_due_ms);
                if ((row.due || row.moved || row.running) && t->n_order < HOOKS_TOLD)
                        t->order[t->n_order++] = i;
        }
}

static void tell_tiers(struct reply *reply, const struct reply_items *items)
{
        const struct telling *t = items->of;
        for (size_t i = 0; i < TIERS; i++)
                reply_site_tier(reply, &t->tiers[i]);
}

static void telling_begin(struct telling *t, struct core *core, struct site *s)
{
        *t = (struct telling){.core = core, .site = s};
        throttle_refresh(core);
        for (const struct moved_hook *h = NULL; (h = site_next_hook(core, s, h));)
                t->moved += h->n_moved;
        sum_tiers(t);
}

static struct site_row_reply site_row(const struct telling *t, char reason[SITE_TEXT])
{
        const struct site *s = t->site;
        const struct site_survey *v = &s->survey;
        struct site_row_reply row = {
                .name = s->name,
                .target = s->target,
                .mode = mode_name(site_mode(t->core, s)),
                .level = level_name(site_level(t->core, s)),
                .reason = reason,
                .error = s->error,
                .moved = (int64_t)t->moved,
                .would_move = (int64_t)s->would_move,
                .running = v->running,
                .claimed = v->claimed,
                .failed = v->failed,
                .next_due_ms = v->next_due_s * MS_PER_S,
                .surveyed_ms = s->surveyed_ms,
                .survey_us = v->took_us,
                .server = v->server,
                .store = v->store,
                .url = v->url,
                .returning = s->is_returning,
                .tiers = {TIERS, tell_tiers, t->core, t},
        };
        for (size_t i = 0; i < v->n_hooks; i++)
                row.capped |= v->hooks[i].due > v->due_cap;
        for (size_t i = 0; i < TIERS; i++) {
                row.due += t->tiers[i].due;
                row.oldest_due_ms = older_ms(row.oldest_due_ms, t->tiers[i].oldest_due_ms);
        }
        site_put_reason(t->core, s, reason);
        return row;
}

/* Decisions count the hooks they are asked for, so the core cannot be const. */
struct all_sites {
        struct core *core;
};

static void tell_sites(struct reply *reply, const struct reply_items *items)
{
        struct core *core = ((const struct all_sites *)items->of)->core;
        for (size_t i = 0; i < core->sites->n; i++) {
                struct telling t;
                char reason[SITE_TEXT];
                telling_begin(&t, core, &core->sites->sites[i]);
                struct site_row_reply row = site_row(&t, reason);
                reply_site_row(reply, &row);
        }
}

int exec_sites(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        (void)cmd;     /* it takes no arguments */
        (void)problem; /* cannot fail */
        const struct all_sites all = {core};
        const struct sites_reply told = {.sites = {core->sites->n, tell_sites, core, &all}};
        reply_sites(reply, &told);
        return OK;
}

static void tell_hooks(struct reply *reply, const struct reply_items *items)
{
        const struct telling *t = items->of;
        for (size_t i = 0; i < t->n_order; i++) {
                struct site_hook_reply row = hook_row(t, t->order[i]);
                reply_site_hook(reply, &row);
        }
}

static void tell_repairs(struct reply *reply, const struct reply_items *items)
{
        static const char *const texts[SITE_REPAIRS] = {
#define X(id, name, text) [REPAIR_##id] = text,
                SITE_REPAIR_MAP(X)
#undef X
        };
        const struct site *s = items->of;
        for (size_t i = 0; i < SITE_REPAIRS; i++) {
                const struct site_repair_reply told = {
                        .repair = site_repair_name((enum site_repair)i),
                        .mode = mode_name(s->repairs[i]),
                        .found = s->faults[i].found,
                        .mended = (int64_t)s->total_mended[i],
                        .text = texts[i],
                };
                reply_site_repair(reply, &told);
        }
}

/* The next line of the advice; false at its end. */
static bool next_line(const char **at, struct slice *ret)
{
        size_t n = strcspn(*at, "\n");
        *ret = slice_make(*at, n);
        *at += n + ((*at)[n] == '\n');
        return n != 0;
}

static void tell_lines(struct reply *reply, const char *text)
{
        struct slice line;
        while (text && next_line(&text, &line))
                reply_text(reply, line);
}

static void tell_advice(struct reply *reply, const struct reply_items *items)
{
        const struct site *s = items->of;
        tell_lines(reply, s->notice);
        tell_lines(reply, s->advice);
}

static size_t count_lines(const char *text)
{
        size_t n = 0;
        struct slice line;
        while (text && next_line(&text, &line))
                n++;
        return n;
}

struct reply_items site_advice_items(const struct core *core, const struct site *s)
{
        return (struct reply_items){count_lines(s->notice) + count_lines(s->advice), tell_advice,
                                    core, s};
}

static void tell_last(struct reply *reply, const struct reply_items *items)
{
        const struct site *s = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct site_last *l = &s->last[(s->n_last - 1 - i) % SITE_LAST];
                const struct site_move_reply told = {
                        .id = (int64_t)l->id,
                        .hook = l->hook,
                        .tier = tier_name((enum tier)l->tier),
                        .level = level_name((enum level)l->level),
                        .at_ms = l->at_ms,
                        .original_ms = l->original_s * MS_PER_S,
                        .to_ms = l->to_s * MS_PER_S,
                };
                reply_site_move(reply, &told);
        }
}

int exec_site(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        struct site *s = site_need(core, cmd->arg[P_SITE_NAME].text, problem);
        if (!s)
                return problem->err;
        struct telling t;
        char reason[SITE_TEXT];
        telling_begin(&t, core, s);
        const struct site_reply told = {
                .row = site_row(&t, reason),
                .hooks = {t.n_order, tell_hooks, core, &t},
                .repairs = {SITE_REPAIRS, tell_repairs, core, s},
                .advice = site_advice_items(core, s),
                .last = {s->n_last < SITE_LAST ? s->n_last : SITE_LAST, tell_last, core, s},
                .total_moved = (int64_t)s->total_moved,
                .total_shifted = (int64_t)s->total_shifted,
                .total_returned = (int64_t)s->total_returned,
                .total_fronted = (int64_t)s->total_fronted,
        };
        reply_site(reply, &told);
        return OK;
}

/* ---- runners ---- */

/* As with queues, caps are not for the critical tier.  A runner takes whatever is due: they hold
 * while anything else may run. */
static struct level_caps caps_of(const struct core *core, const struct site *s)
{
        bool is_critical_only = s->due && s->due == s->due_critical;
        if (site_mode(core, s) != MODE_ENFORCE || is_critical_only)
                return (struct level_caps){0};
        return site_level_caps(core, s);
}

int exec_siteask(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        const struct site *s = site_need(core, cmd->arg[P_SITEASK_NAME].text, problem);
        if (!s)
                return problem->err;
        throttle_ask(core);
        enum tier tier;
        char text[SITE_TEXT];
        enum gate_mode mode = site_mode(core, s);
        struct gate_answer a = site_decide(core, s, cmd->arg[P_SITEASK_HOOK].text, &tier);
        struct level_caps caps = caps_of(core, s);
        site_put_reason(core, s, text);
        const struct site_asked_reply told = {
                .level = level_name(site_level(core, s)),
                .mode = mode_name(mode),
                .tier = tier_name(tier),
                .is_wait = a.would_wait && mode == MODE_ENFORCE,
                .would_wait = a.would_wait && mode >= MODE_OBSERVE,
                .delay_ms = a.would_wait ? a.delay_ms : 0,
                .reason = gate_reason_name(a.reason),
                .text = text,
                .claim_size = caps.claim_size,
                .claims = caps.claims,
        };
        reply_site_asked(reply, &told);
        return OK;
}

struct first_hooks {
        struct slice hooks[SITE_FIRST_MAX];
        size_t n;
};

static void tell_first(struct reply *reply, const struct reply_items *items)
{
        const struct first_hooks *f = items->of;
        for (size_t i = 0; i < f->n; i++)
                reply_text(reply, f->hooks[i]);
}

int exec_sitefirst(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        struct site *s = site_need(core, cmd->arg[P_SITEFIRST_NAME].text, problem);
        if (!s)
                return problem->err;
        throttle_refresh(core);
        /* In other modes it puts nothing first. */
        if (cmd->arg[P_SITEFIRST_ORDERED].num && site_mode(core, s) == MODE_ENFORCE)
                s->ordered_ms = core->now.wall_ms;
        struct first_hooks first = {.n = 0};
        first.n = site_first_hooks(core, s, first.hooks);
        const struct site_first_reply told = {
                .mode = mode_name(site_mode(core, s)),
                .level = level_name(site_level(core, s)),
                .front = s->is_front,
                .code = (int64_t)site_code_tiers(core, s),
                .hooks = {first.n, tell_first, core, &first},
                .surveyed_ms = s->surveyed_ms,
                .prefix = s->prefix,
                .url = s->survey.url,
        };
        reply_site_first(reply, &told);
        return OK;
}

int exec_sitedefer(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once, when the log has it */
        const struct arg *arg = cmd->arg;
        struct site *s = site_need(core, arg[P_SITEDEFER_NAME].text, problem);
        if (!s)
                return problem->err;
        struct site_due_row row = {.row = {.id = (uint64_t)arg[P_SITEDEFER_ID].num,
                                           .original_s = arg[P_SITEDEFER_DATE].num},
                                   .current_s = arg[P_SITEDEFER_DATE].num};
        int64_t to_s;
        char text[SITE_TEXT];
        int r = site_defer(core, s, arg[P_SITEDEFER_HOOK].text, &row, &to_s, problem);
        if (r != OK)
                return r;
        site_put_reason(core, s, text);
        const struct site_deferred_reply told = {.is_wait = to_s != 0, .to = to_s, .text = text};
        reply_site_deferred(reply, &told);
        return OK;
}

/* ---- SITERUN ---- */

struct run_wait {
        struct session_wait base;
        struct list link; /* on site->runs */
        struct site *site;
        bool has_blogs; /* it is about the whole network */
};

/* The site itself, and each of its blogs that may still run something. */
static bool is_of_network(const struct site *s, const struct site *network)
{
        return s == network ||
               (!s->is_leaving && slice_eq(slice_str(s->network), slice_str(network->name)));
}

static size_t count_blogs(const struct core *core, const struct site *network)
{
        size_t n = 0;
        for (size_t i = 0; i < core->sites->n; i++)
                n += is_of_network(&core->sites->sites[i], network);
        return n;
}

static bool is_run_due(const struct core *core, const struct site *s, bool has_blogs)
{
        bool is_due = s->due != 0;
        for (size_t i = 0; has_blogs && i < core->sites->n && !is_due; i++)
                is_due = core->sites->sites[i].due && is_of_network(&core->sites->sites[i], s);
        return is_due;
}

static struct site_run_row_reply run_row(const struct core *core, const struct site *s)
{
        uint32_t claims = caps_of(core, s).claims;
        return (struct site_run_row_reply){
                .due = (int64_t)s->due,
                .critical = (int64_t)s->due_critical,
                .runners = claims ? claims : RUNNERS_NO_CAP,
                .next_due_ms = s->survey.next_due_s * MS_PER_S,
                .level = level_name(site_level(core, s)),
                .surveyed_ms = s->surveyed_ms,
                .prefix = s->prefix,
                .url = s->survey.url,
        };
}

static void tell_run_blogs(struct reply *reply, const struct reply_items *items)
{
        const struct sites *all = items->core->sites;
        for (size_t i = 0; i < all->n; i++) {
                const struct site *s = &all->sites[i];
                if (!is_of_network(s, items->of))
                        continue;
                const struct site_run_blog_reply told = {.name = s->name,
                                                         .row = run_row(items->core, s)};
                reply_site_run_blog(reply, &told);
        }
}

static void tell_run(struct reply *reply, const struct core *core, const struct site *s,
                     bool has_blogs)
{
        size_t n = has_blogs ? count_blogs(core, s) : 0;
        const struct site_run_reply told = {.row = run_row(core, s),
                                            .blogs = {n, n ? tell_run_blogs : NULL, core, s}};
        reply_site_run(reply, &told);
}

static void answer_run(struct core *core, struct run_wait *w)
{
        struct session *session = w->base.session;
        list_remove(&w->link);
        wait_end(core, &w->base);
        tell_run(session->ops->reply_begin(session), core, w->site, w->has_blogs);
        session->ops->reply_end(session);
        free(w);
}

static void run_time_over(struct core *core, struct session_wait *w)
{
        answer_run(core, CONTAINER_OF(w, struct run_wait, base));
}

static void run_cancel(struct core *core, struct session_wait *w)
{
        struct run_wait *run = CONTAINER_OF(w, struct run_wait, base);
        list_remove(&run->link);
        wait_end(core, w);
        free(run);
}

static const struct wait_ops run_wait_ops = {.time_over = run_time_over, .cancel = run_cancel};

void site_end_runs(struct core *core, struct site *s)
{
        if (!s->runs.next) /* never used */
                return;
        LIST_FOREACH(&s->runs, it)
        answer_run(core, CONTAINER_OF(it, struct run_wait, link));
}

void site_move_runs(struct site *from, struct site *to)
{
        if (!from->runs.next)
                return;
        LIST_FOREACH(&from->runs, it)
        {
                CONTAINER_OF(it, struct run_wait, link)->site = to;
                list_remove(it);
                list_push_back(&to->runs, it);
        }
}

/* Those that wait for any blog of the network. */
static void end_network_runs(struct core *core, struct site *network)
{
        if (!network->runs.next)
                return;
        LIST_FOREACH(&network->runs, it)
        {
                struct run_wait *w = CONTAINER_OF(it, struct run_wait, link);
                if (w->has_blogs)
                        answer_run(core, w);
        }
}

void site_serve_runs(struct core *core, struct site *s)
{
        if (!s->due)
                return;
        site_end_runs(core, s);
        struct site *network = s->network[0] ? site_by_name(core, slice_str(s->network)) : NULL;
        if (network && is_of_network(s, network))
                end_network_runs(core, network);
}

int exec_siterun(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        struct site *s = site_need(core, cmd->arg[P_SITERUN_NAME].text, problem);
        if (!s)
                return problem->err;
        int64_t wait_ms = cmd->arg[P_SITERUN_WAIT].num;
        bool has_blogs = cmd->arg[P_SITERUN_BLOGS].num != 0;
        if (!wait_ms || is_run_due(core, s, has_blogs) || core->is_stopping) {
                tell_run(reply, core, s, has_blogs);
                return OK;
        }
        struct run_wait *w = xcalloc(1, sizeof(*w));
        w->site = s;
        w->has_blogs = has_blogs;
        wait_begin(core, &w->base, &run_wait_ops, session);
        wait_until(core, &w->base, core->now.steady_ns + wait_ms * NS_PER_MS);
        list_push_back(&s->runs, &w->link);
        return CORE_LATER;
}
