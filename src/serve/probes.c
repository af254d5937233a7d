/* See probes.h.
 *
 * There is one probe per target, so that one can be replaced without disturbing the others.  A
 * probe reads its options while it runs, and they are part of a configuration.  So each slot holds
 * a reference to the configuration that its probe was started with, which may be an older one.
 *
 *      slot    made by              ends by
 *      runs    start_slot           kept by probes_change, or given to end_probe
 *      ends    end_probe (a thread) reap, on the loop, when the thread has said that it is done
 *
 * Invariants, checked by probes_check() when samples are taken:
 *   (1) before probes_start() there is no slot, then one for each target of the configuration
 *   (2) each slot has a probe and a configuration */
#include "serve/probes.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/say.h"
#include "checks/check.h"
#include "throttle/host.h"

#define TAKE_AT_ONCE 64

struct slot {
        struct config *config; /* a reference; has: */
        const struct probe_options *options;
        struct probe *probe;
};

/* A probe that is being stopped. */
struct ending {
        struct list link;
        pthread_t thread;
        struct config *config;
        struct probe *probe;
        int64_t timeout_ms;
        bool is_left; /* a thread of it did not end: what it reads must stay */
        atomic_bool is_done;
        struct probes *owner;
};

struct probes {
        struct config *config;
        struct loop *loop;
        struct loop_mail mail; /* samples have come, or a probe has stopped */
        struct slot *slots;    /* n of them, by number of the target */
        size_t n;
        struct list endings;
};

/* On any thread. */
static void on_news(void *ctx)
{
        struct probes *p = ctx;
        loop_post(p->loop, &p->mail);
}

static void on_asked(void *ctx)
{
        const struct probes *p = ctx;
        for (size_t i = 0; i < p->n; i++)
                probe_asked(p->slots[i].probe);
}

/* ---- hosts that are skipped ---- */

struct hosts {
        char *names[LIMIT_SKIPPED_HOSTS];
        size_t n;
};

static void add_host(void *ctx, struct slice host, int64_t until_wall_ms)
{
        (void)until_wall_ms; /* the core tells when it is over */
        struct hosts *h = ctx;
        char *name = xmalloc(host.len + 1);
        memcpy(name, host.ptr, host.len);
        name[host.len] = '\0';
        ASSERT(h->n < ARRAY_LEN(h->names));
        h->names[h->n++] = name;
}

static void on_skips_changed(void *ctx)
{
        const struct probes *p = ctx;
        struct hosts hosts = {.n = 0};
        if (!p->n)
                return; /* probes_start() will tell them */
        core_each_skipped(p->loop->core, add_host, &hosts);
        for (size_t i = 0; i < p->n; i++)
                probe_set_skipped(p->slots[i].probe, (const char *const *)hosts.names, hosts.n);
        for (size_t i = 0; i < hosts.n; i++)
                free(hosts.names[i]);
}

/* ---- targets ---- */

/* Does it count the statements that run at a database server? */
static bool is_running(enum probe_kind kind, const char *source)
{
        if (kind == PROBE_MYSQL)
                return strcmp(source, "threads_running") == 0 ||
                       strcasecmp(source, "status:Threads_running") == 0;
        return kind == PROBE_POSTGRES && strcmp(source, "active_backends") == 0;
}

/* Is it a share of something, in percent? */
static bool is_percent(enum probe_kind kind, const char *source)
{
        static const char end[] = "_percent";
        size_t len = strlen(source), n = sizeof(end) - 1;
        if (kind == PROBE_HOST)
                return strncmp(source, "psi_", 4) == 0 || strncmp(source, "disk_used:", 10) == 0;
        bool is_database = kind == PROBE_MYSQL || kind == PROBE_POSTGRES;
        return is_database && !strchr(source, ':') && len > n && strcmp(source + len - n, end) == 0;
}

static void put_target(struct core_target *to, struct core_metric *metrics,
                       const struct probe_options *p, const struct config_target *level)
{
        for (size_t i = 0; i < p->n_metrics; i++) {
                const char *source = p->metrics[i].source;
                metrics[i] = (struct core_metric){
                        .name = p->metrics[i].name,
                        .rule = level->rules[i],
                        .check_above = level->check_above[i],
                        .is_checked = level->is_checked[i],
                        .is_running = is_running(p->kind, source),
                        .is_written = level->is_written[i],
                        .is_percent = is_percent(p->kind, source),
                        .is_auto = {level->is_auto[i][0], level->is_auto[i][1]},
                        .is_default = !level->is_any_written[i],
                        .is_check_default = !level->is_check_written[i],
                        .is_by_cores = config_is_by_cores(p->kind, &p->metrics[i])};
                config_default_thresholds(metrics[i].name, &metrics[i].shipped);
        }
        *to = (struct core_target){
                .name = p->name,
                .kind = probe_kind_name(p->kind),
                .metrics = metrics,
                .n_metrics = p->n_metrics,
                .dwell_ns = level->dwell_ns,
                .mode = level->mode,
        };
        memcpy(to->unknown, level->unknown, sizeof(to->unknown));
}

/* Weir's own queues, which the core samples itself. */
static void put_own(struct core_target *to, const struct core_metric *depth)
{
        *to = (struct core_target){
                .name = CONFIG_OWN_TARGET,
                .metrics = depth,
                .n_metrics = 1,
                .dwell_ns = setting_table[SET_TARGET_dwell].usual * NS_PER_MS,
                .mode = -1,
                .is_own = true,
        };
        config_unknown_init(to->unknown);
}

void probes_tell_core(struct probes *p)
{
        const struct config_targets *t = &p->config->targets;
        const struct config_throttle *c = &p->config->throttle;
        struct core_metric depth = {.name = "queue_depth",
                                    .rule = c->queue_depth,
                                    .check_above = config_check_above(&c->queue_depth),
                                    .is_checked = true};
        struct core_target *targets = xcalloc(t->n + 1, sizeof(*targets));
        struct core_metric *metrics = xcalloc((t->n + 1) * LEVEL_METRICS_MAX, sizeof(*metrics));
        config_default_thresholds(depth.name, &depth.shipped);
        for (size_t i = 0; i < t->n; i++)
                put_target(&targets[i], metrics + i * LEVEL_METRICS_MAX, &t->probes[i],
                           &t->levels[i]);
        if (c->has_queue_depth)
                put_own(&targets[t->n], &depth);
        struct core_throttle options = {
                .targets = targets,
                .n_targets = t->n + c->has_queue_depth,
                .policy = c->policy,
                .is_off = c->is_off,
                .registry = c->registry,
                .n_registry = c->n_registry,
                .ramp_cycles = c->ramp_cycles,
                .ramp_cycle_ns = c->ramp_cycle_ns,
                .adaptive = c->adaptive,
                .zone = c->zone,
                .checks = c->checks,
                .asked = on_asked,
                .skips_changed = on_skips_changed,
                .ctx = p,
        };
        core_set_throttle(p->loop->core, &options);
        free(metrics);
        free(targets);
}

/* ---- probes ---- */

static int start_slot(struct probes *p, struct config *config, size_t target, struct slot *ret,
                      struct problem *problem)
{
        const struct probe_options *o = &config->targets.probes[target];
        struct probe *probe;
        int r = probe_start(o, 1, on_news, p, &probe, problem);
        if (r == OK)
                *ret = (struct slot){config_ref(config), o, probe};
        return r;
}

/* probe_stop() waits for a thread that cannot be reached for the timeout and longer, and then
 * leaves it behind. */
static void *end_thread(void *ctx)
{
        struct ending *e = ctx;
        int64_t began_ns = clock_boot_ns();
        (void)probe_stop(e->probe); /* NULL */
        e->is_left = clock_boot_ns() - began_ns > e->timeout_ms * NS_PER_MS;
        atomic_store(&e->is_done, true);
        on_news(e->owner);
        return NULL;
}

static bool start_ending(struct ending *e)
{
        sigset_t all, old;
        (void)sigfillset(&all); /* signals belong to the loop */
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        int r = pthread_create(&e->thread, NULL, end_thread, e);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        return r == 0;
}

/* Takes what the slot holds. */
static void end_probe(struct probes *p, struct slot *slot)
{
        struct ending *e = xcalloc(1, sizeof(*e));
        *e = (struct ending){
                .config = slot->config,
                .probe = slot->probe,
                .timeout_ms = slot->options->timeout_ms,
                .owner = p,
        };
        *slot = (struct slot){0};
        if (start_ending(e)) {
                list_push_back(&p->endings, &e->link);
                return;
        }
        say_warn("gate", "no thread to stop a probe in, stopping it here");
        (void)probe_stop(e->probe); /* NULL */
        config_unref(e->config);
        free(e);
}

static void reap(struct ending *e)
{
        int r = pthread_join(e->thread, NULL);
        ASSERT(r == 0);
        list_remove(&e->link);
        if (!e->is_left) /* else a lost thread goes on reading it */
                config_unref(e->config);
        free(e);
}

static void free_slots(struct probes *p, struct slot *slots, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (slots[i].probe)
                        end_probe(p, &slots[i]);
        free(slots);
}

/* ---- news from the threads ---- */

static enum sample_state state_of(const struct probe_sample *s)
{
        if (!s->is_error)
                return SAMPLE_GOOD;
        return s->is_silent ? SAMPLE_SILENT : SAMPLE_FAILED;
}

static void poll_slot(const struct probes *p, size_t target)
{
        struct probe_sample samples[TAKE_AT_ONCE];
        size_t n;
        while ((n = probe_take(p->slots[target].probe, samples, ARRAY_LEN(samples))))
                for (size_t i = 0; i < n; i++) {
                        core_set_cores(p->loop->core, target, samples[i].cores);
                        core_sample(p->loop->core, target, samples[i].metric, samples[i].value,
                                    samples[i].at_ns + p->loop->steady_base_ns,
                                    state_of(&samples[i]), slice_str(samples[i].error));
                }
}

static void probes_check(const struct probes *p)
{
        ASSERT(!p->n || p->n == p->config->targets.n); /* (1) */
        for (size_t i = 0; i < p->n; i++)
                ASSERT(p->slots[i].probe && p->slots[i].config && p->slots[i].options); /* (2) */
}

static void take_news(void *ctx)
{
        struct probes *p = ctx;
        if (IS_CHECKED)
                probes_check(p);
        for (size_t i = 0; i < p->n; i++)
                poll_slot(p, i);
        LIST_FOREACH(&p->endings, it)
        {
                struct ending *e = CONTAINER_OF(it, struct ending, link);
                if (atomic_load(&e->is_done))
                        reap(e);
        }
}

/* ---- life ---- */

struct probes *probes_new(struct config *config, struct loop *loop)
{
        struct probes *p = xcalloc(1, sizeof(*p));
        p->config = config_ref(config);
        p->loop = loop;
        p->mail = (struct loop_mail){.deliver = take_news, .ctx = p};
        list_init(&p->endings);
        probes_tell_core(p);
        return p;
}

/* The one that runs already and would do for this target; NULL: none. */
static struct slot *find_same(struct probes *p, const struct probe_options *o)
{
        for (size_t i = 0; i < p->n; i++)
                if (p->slots[i].probe && config_probe_is_same(p->slots[i].options, o))
                        return &p->slots[i];
        return NULL;
}

/* Probes for a configuration: new ones are started, those that stay are left where they are. */
static int start_slots(struct probes *p, struct config *config, struct slot **ret,
                       struct problem *problem)
{
        const struct config_targets *t = &config->targets;
        struct slot *slots = xcalloc(t->n + 1, sizeof(*slots));
        for (size_t i = 0; i < t->n; i++) {
                if (find_same(p, &t->probes[i]))
                        continue;
                int r = start_slot(p, config, i, &slots[i], problem);
                if (r != OK) {
                        free_slots(p, slots, i);
                        return r;
                }
        }
        *ret = slots;
        return OK;
}

/* The probes that stay move over, the others end. */
static void swap_slots(struct probes *p, struct slot *slots)
{
        const struct config_targets *t = &p->config->targets;
        for (size_t i = 0; i < t->n; i++) {
                if (slots[i].probe)
                        continue;
                struct slot *same = find_same(p, &t->probes[i]);
                slots[i] = *same;
                *same = (struct slot){0};
        }
        free_slots(p, p->slots, p->n);
        p->slots = slots;
        p->n = t->n;
}

int probes_start(struct probes *p, struct problem *problem)
{
        struct slot *slots;
        int r = start_slots(p, p->config, &slots, problem);
        if (r != OK)
                return r;
        swap_slots(p, slots);
        on_skips_changed(p); /* before the loop takes the first sample */
        return OK;
}

int probes_change(struct probes *p, struct config *config, struct problem *problem)
{
        struct slot *slots;
        int r = start_slots(p, config, &slots, problem);
        if (r != OK)
                return r;
        take_news(p); /* what came so far has the numbers of before */
        struct config *old = p->config;
        p->config = config_ref(config);
        swap_slots(p, slots);
        probes_tell_core(p);
        on_skips_changed(p);
        config_unref(old);
        return OK;
}

struct probes *probes_free(struct probes *p)
{
        if (!p)
                return NULL;
        free_slots(p, p->slots, p->n); /* all at once, not one after the other */
        LIST_FOREACH(&p->endings, it)
        reap(CONTAINER_OF(it, struct ending, link));
        config_unref(p->config);
        free(p);
        return NULL;
}
