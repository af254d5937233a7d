/* See traffic.h.
 *
 * A door is known by its name over reloads, and by its index to the threads.  Its classes are an
 * array by their numbers; the threads make them, and here they are read when a policy is due.  A
 * number never changes its meaning, so an entry stays as long as its door.
 *
 * Once a second the numbers of all classes are read, under the lock of the door for as long as
 * that takes (some 10 ns a class), and what is new goes to the table of clients, as if each
 * transaction had been a check; from it the starved are told.  The same tick makes a point of the
 * series. */
#include "traffic/traffic.h"

#include <stdio.h>
#include <stdlib.h>

#include "things/setting.h"
#include "traffic/traffic_state.h"

#define TICK_NS    NS_PER_S
#define OVER_TICKS 2
#define WELL_TICKS 10
#define MINUTE_NS  (60 * NS_PER_S)

const char *traffic_state_name(enum traffic_state state)
{
        static const char *const names[TRAFFIC_STATES] = {
#define X(id, name) [TRAFFIC_##id] = name,
                TRAFFIC_STATE_MAP(X)
#undef X
        };
        ASSERT(state < TRAFFIC_STATES);
        return names[state];
}

/* ---- doors ---- */

static struct door *find_door(const struct core *core, struct slice name)
{
        const struct traffic *t = core->traffic;
        for (size_t i = 0; i < t->n; i++)
                if (slice_eq(slice_str(t->doors[i].name), name))
                        return &t->doors[i];
        return NULL;
}

size_t traffic_count(const struct core *core)
{
        return core->traffic->n;
}

const char *traffic_name(const struct core *core, size_t door)
{
        return door_at(core, door)->name;
}

bool traffic_has(const struct core *core, struct slice name)
{
        return find_door(core, name) != NULL;
}

enum gate_mode traffic_configured_mode(const struct core *core, size_t door)
{
        return door_at(core, door)->configured_mode;
}

enum gate_mode traffic_mode(const struct core *core, size_t door)
{
        const struct door *d = door_at(core, door);
        char name[LIMIT_NAME_BYTES + 1];
        (void)snprintf(name, sizeof(name), "mysql.%s.mode", d->name);
        int mode = mode_from_name(setting_bytes(core, slice_str(name)));
        return mode >= 0 ? (enum gate_mode)mode : d->configured_mode;
}

enum gate_mode traffic_doors_mode(const struct core *core)
{
        const struct traffic *t = core->traffic;
        enum gate_mode most = MODE_OFF;
        for (size_t i = 0; i < t->n; i++) {
                struct traffic_door state = {.admission = {.is_enforced = false}};
                enum gate_mode mode = traffic_mode(core, i);
                if (t->has_threads)
                        t->threads.state(t->threads.ctx, i, &state);
                if (state.admission.is_enforced)
                        mode = MODE_ENFORCE; /* a class may have a mode of its own */
                if (mode > most)
                        most = mode;
        }
        return most;
}

static void door_release(struct door *d)
{
        for (size_t i = 0; i < d->n_classes; i++)
                free(d->classes[i]);
        free(d->classes);
}

static void release_doors(struct traffic *t)
{
        for (size_t i = 0; i < t->n; i++)
                door_release(&t->doors[i]);
        free(t->doors);
}

/* From the door of the same name, if there was one, it takes what is known. */
static void door_init(struct door *d, const struct traffic_options *o, struct door *old)
{
        if (old) {
                *d = *old;
                old->classes = NULL;
                old->n_classes = 0;
        }
        (void)snprintf(d->name, sizeof(d->name), "%s", o->name);
        (void)snprintf(d->target, sizeof(d->target), "%s", o->target ? o->target : "");
        d->configured_mode = o->mode;
        d->told_mode = -1;
        d->is_due = d->are_classes_new = true;
}

void core_set_traffic(struct core *core, const struct traffic_options *doors, size_t n,
                      const struct traffic_threads *threads)
{
        struct traffic *t = core->traffic;
        struct door *now = xcalloc(n + 1, sizeof(*now));
        ASSERT(n <= TRAFFIC_DOORS_MAX);
        for (size_t i = 0; i < n; i++)
                door_init(&now[i], &doors[i], find_door(core, slice_str(doors[i].name)));
        release_doors(t);
        t->doors = now;
        t->n = n;
        t->has_threads = threads != NULL;
        t->threads = threads ? *threads : (struct traffic_threads){0};
}

/* ---- classes ---- */

static struct known_class *make_class(struct door *d, size_t number)
{
        ASSERT(number < ADMIT_CLASSES_MAX);
        if (number >= d->n_classes) {
                d->classes = xrealloc(d->classes, (number + 1) * sizeof(struct known_class *));
                while (d->n_classes <= number)
                        d->classes[d->n_classes++] = NULL;
        }
        d->classes[number] = xcalloc(1, sizeof(struct known_class));
        return d->classes[number];
}

static void take_class(struct known_class *k, const struct traffic_class *c)
{
        struct problem unused;
        k->class = *c;
        k->registry_seen = 0;
        if (identity_parse(slice_str(k->class.identity), &k->who, &unused) == OK)
                return;
        /* The threads check what they take from clients; this one is theirs. */
        memcpy(k->class.identity, "other", sizeof("other"));
        int r = identity_parse(slice_str(k->class.identity), &k->who, &unused);
        ASSERT(r == OK);
}

static void read_class(void *ctx, size_t number, const struct traffic_class *c,
                       const struct class_view *v)
{
        struct door *d = ctx;
        (void)v; /* its numbers are read once a second */
        bool is_new = number >= d->n_classes || !d->classes[number];
        if (is_new || d->are_classes_new)
                take_class(is_new ? make_class(d, number) : d->classes[number], c);
}

void door_read_classes(struct core *core, size_t door)
{
        struct traffic *t = core->traffic;
        struct door *d = &t->doors[door];
        if (!d->are_classes_new && t->threads.n_classes(t->threads.ctx, door) <= d->n_classes)
                return;
        t->threads.each_class(t->threads.ctx, door, read_class, d);
        d->are_classes_new = false;
}

void traffic_classes_made(struct core *core, size_t door)
{
        if (door < core->traffic->n) /* else a reload was quicker */
                core->traffic->doors[door].is_due = true;
}

/* ---- once a second ---- */

static uint64_t since(uint64_t now, uint64_t was)
{
        return now >= was ? now - was : now; /* a door that began anew counts from 0 */
}

static uint32_t small(uint64_t n)
{
        return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

struct ticking {
        struct door *door;
        bool is_minute;
};

/* Under the lock of the door. */
static void read_numbers(void *ctx, size_t number, const struct traffic_class *c,
                         const struct class_view *v)
{
        const struct ticking *t = ctx;
        (void)c; /* those that are new are read with the next policy */
        if (number >= t->door->n_classes || !t->door->classes[number])
                return;
        struct known_class *k = t->door->classes[number];
        const struct class_counts *n = v->counts;
        k->now = (struct class_numbers){.transactions = n->transactions,
                                        .refused = n->refused,
                                        .observed = n->observed,
                                        .busy_ns = n->busy_ns,
                                        .waited_ns = n->waits.sum_ns};
        if (!t->is_minute)
                return;
        k->waits[1] = k->waits[0];
        k->waits[0] = n->waits;
        k->services[1] = k->services[0];
        k->services[0] = n->services;
}

/* Tells the clients what is new of a class. */
static void count_class(struct core *core, const struct door *d, struct known_class *k)
{
        char from[TRAFFIC_NAME_MAX + 16];
        (void)snprintf(from, sizeof(from), "mysql:%s", d->name);
        const struct check_tally tally = {
                .granted = since(k->now.transactions, k->told.transactions),
                .refused = since(k->now.refused, k->told.refused),
                .observed = since(k->now.observed, k->told.observed),
                .waited_ms = (int64_t)(since(k->now.waited_ns, k->told.waited_ns) / NS_PER_MS),
                .from = slice_str(from),
        };
        if (!tally.granted && !tally.refused)
                return;
        const struct check_subject s = {
                .who = k->who, .target = door_target(core, d), .tier = known_tier(core, k)};
        check_count_frozen(core, &s, &k->verdicts, &tally);
        k->last_ms = core->now.wall_ms;
}

static void add_point(struct door *d, int64_t second, struct traffic_point point)
{
        if (!d->second || second - d->second > TRAFFIC_SERIES_S)
                d->second = second - TRAFFIC_SERIES_S;
        while (d->second < second)
                d->series[(uint64_t)++d->second % TRAFFIC_SERIES_S] = (struct traffic_point){0};
        d->series[(uint64_t)second % TRAFFIC_SERIES_S] = point;
}

/* Over is told when it has lasted for a moment, well when it has for longer: one event each for a
 * time of trouble. */
static void tell_load(struct core *core, struct door *d, const struct admission_state *a)
{
        d->changed = a->is_over == d->is_told_over ? 0 : d->changed + 1;
        if (d->changed < (a->is_over ? OVER_TICKS : WELL_TICKS))
                return;
        d->is_told_over = a->is_over;
        d->changed = 0;
        if (a->is_over)
                throttle_tell(core, "proxy_over", "%s: %s; %u wait, window %u", d->name, a->why,
                              a->waiting, a->window);
        else
                throttle_tell(core, "proxy_well", "%s: the database is well again, %u wait",
                              d->name, a->waiting);
}

static void tick_door(struct core *core, size_t door)
{
        struct traffic *t = core->traffic;
        struct door *d = &t->doors[door];
        struct traffic_door state = {0};
        struct ticking ticking = {d, core->now.steady_ns - d->minute_ns >= MINUTE_NS};
        uint64_t transactions = 0, busy_ns = 0, waited_ns = 0;
        if (ticking.is_minute)
                d->minute_ns = core->now.steady_ns;
        t->threads.state(t->threads.ctx, door, &state);
        t->threads.each_class(t->threads.ctx, door, read_numbers, &ticking);
        for (size_t i = 0; i < d->n_classes; i++) {
                struct known_class *k = d->classes[i];
                if (!k)
                        continue;
                transactions += since(k->now.transactions, k->told.transactions);
                busy_ns += since(k->now.busy_ns, k->told.busy_ns);
                waited_ns += since(k->now.waited_ns, k->told.waited_ns);
                count_class(core, d, k);
                k->ring[d->n_ticks % TRAFFIC_RATE_S] = k->told;
                k->told = k->now;
        }
        d->n_ticks++;
        add_point(d, core->now.steady_ns / NS_PER_S,
                  (struct traffic_point){.held_ms = small(waited_ns / NS_PER_MS),
                                         .waiting = state.admission.waiting,
                                         .running = state.admission.running,
                                         .transactions = small(transactions),
                                         .busy_ms = small(busy_ns / NS_PER_MS)});
        tell_load(core, d, &state.admission);
        d->is_due |= d->is_fleeting;
        if (state.connections && d->target[0])
                throttle_ask(core); /* the probes are to be awake */
}

static void traffic_turn(struct core *core)
{
        struct traffic *t = core->traffic;
        if (!t->has_threads || core->now.steady_ns - t->ticked_ns < TICK_NS)
                return;
        t->ticked_ns = core->now.steady_ns;
        for (size_t i = 0; i < t->n; i++)
                tick_door(core, i);
}

static int64_t traffic_next_ns(const struct core *core)
{
        const struct traffic *t = core->traffic;
        return t->has_threads && t->n ? t->ticked_ns + TICK_NS : INT64_MAX;
}

/* ---- the feature ---- */

static void traffic_sampled(struct core *core, size_t target)
{
        struct traffic *t = core->traffic;
        for (size_t i = 0; i < t->n; i++) {
                if (door_target(core, &t->doors[i]) != (int)target)
                        continue;
                t->doors[i].is_due = true;
        }
}

static const struct throttle_listener listener = {.sampled = traffic_sampled};

static void traffic_init(struct core *core)
{
        core->traffic = xcalloc(1, sizeof(*core->traffic));
        throttle_listen(core, &listener);
}

static void traffic_release(struct core *core)
{
        release_doors(core->traffic);
        free(core->traffic);
}

/* Invariants: an identity is that of its class, and no class has a number that there is not. */
static void traffic_check(const struct core *core)
{
        const struct traffic *t = core->traffic;
        for (size_t i = 0; i < t->n; i++) {
                ASSERT(t->doors[i].n_classes <= ADMIT_CLASSES_MAX);
                for (size_t k = 0; k < t->doors[i].n_classes; k++) {
                        const struct known_class *class = t->doors[i].classes[k];
                        ASSERT(!class || class->who.whole.ptr == class->class.identity);
                }
        }
}

const struct feature traffic_feature = {.name = "MySQL doors",
                                        .is_local = true,
                                        .init = traffic_init,
                                        .release = traffic_release,
                                        .turn = traffic_turn,
                                        .next_ns = traffic_next_ns,
                                        .settle = traffic_publish,
                                        .check = traffic_check};
