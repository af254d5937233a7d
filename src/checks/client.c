/* Those who ask: the table of names and what is counted of each.
 *
 * An entry is a name: a whole identity ("7f3e:copy:etl"), a part of identities ("etl"), or both
 * when somebody asks as plain "etl" too.  The entry of a whole has pointers to the entries of its
 * parts, made when it was made, so an ask costs one look into the hash and then increments only;
 * a part lives as long as an identity that has it.  All times are taken from core->now once for
 * all asks of the same moment (struct client_stamp), divisions included.
 *
 * The table holds LIMIT_CLIENTS names.  When one more is needed, the identity that asked longest
 * ago (about) goes, with the parts that nobody else has, and what it had asked is added to
 * "other": sums over all identities stay true.
 *
 * Costs: an entry is about 1 KB, an identity 300 bytes more per target it asked about; minutes are
 * in minutes.c.  An ask with two parts takes about 50 ns, half of it the hash of the name.
 *
 * Who is active is known per target by a ring of seconds: each identity is counted in the second of
 * its last ask, and moves.  Nothing here is durable: a restart begins with an empty table. */
#include "checks/client.h"

#include <stdlib.h>

#include "base/civil.h"
#include "base/duration.h"
#include "checks/client_int.h"
#include "throttle/throttle_state.h"

#define MINUTES_BYTES (64 * MIB)
#define NEVER         (INT64_MIN / 2) /* far enough back, and differences do not overflow */
#define SPANS         10              /* of the time after which one is starved */

struct clients *clients_new(void)
{
        struct clients *c = xcalloc(1, sizeof(*c));
        list_init(&c->recent);
        list_init(&c->hungry);
        list_init(&c->starved);
        minute_pool_init(&c->minutes, MINUTES_BYTES);
        c->stamp.now.steady_ns = NEVER;
        return c;
}

static void free_uses(struct client *e)
{
        while (e->n_uses)
                free(e->uses[--e->n_uses]);
        e->use = NULL;
}

struct clients *clients_free(struct clients *c)
{
        if (!c)
                return NULL;
        for (struct hash_node *n = hash_next(&c->names, NULL), *next; n; n = next) {
                struct client *e = CONTAINER_OF(n, struct client, node);
                next = hash_next(&c->names, n);
                minutes_release(&c->minutes, &e->minutes);
                free_uses(e);
                free(e);
        }
        hash_release(&c->names);
        free(c);
        return NULL;
}

/* ---- time ---- */

static void stamp_turn(struct core *core, struct client_stamp *s)
{
        int64_t starved_ms =
                core->checks.starved_ms > 0 ? core->checks.starved_ms : STARVED_DEFAULT_MS;
        int64_t minute = floor_div(core->now.wall_ms, MS_PER_MIN);
        s->now = core->now;
        s->hour = floor_div(minute, MINUTES_PER_HOUR);
        s->minute = (unsigned)floor_mod(minute, MINUTES_PER_HOUR);
        s->second = core->now.steady_ns / NS_PER_S;
        s->starved_ns = starved_ms * NS_PER_MS;
        s->span_ns = s->starved_ns / SPANS > NS_PER_S ? s->starved_ns / SPANS : NS_PER_S;
        s->span = core->now.steady_ns / s->span_ns;
}

const struct client_stamp *client_stamp(struct core *core)
{
        struct client_stamp *s = &core->clients->stamp;
        if (s->now.steady_ns != core->now.steady_ns || s->now.wall_ms != core->now.wall_ms)
                stamp_turn(core, s);
        return s;
}

/* ---- totals ---- */

void totals_add(struct client_totals *to, const struct client_totals *t)
{
        to->granted += t->granted;
        to->refused += t->refused;
        to->observed += t->observed;
        to->waited_ms += t->waited_ms;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                to->by_reason[i] += t->by_reason[i];
}

struct client_totals client_total(const struct client *e)
{
        struct client_totals sum = e->total[AS_WHOLE];
        totals_add(&sum, &e->total[AS_PART]);
        return sum;
}

struct client_note *client_note(struct client *c)
{
        return &c->note;
}

/* ---- who is active ---- */

static void activity_turn(struct client_activity *a, int64_t second)
{
        int64_t from = second - a->second < CLIENT_SECONDS ? a->second : second - CLIENT_SECONDS;
        while (from < second)
                a->asked[(uint64_t)++from % CLIENT_SECONDS] = 0;
        a->second = second;
}

/* An identity is not counted any more in the second of its last ask. */
static void activity_leave(struct client_activity *a, const struct client_use *u)
{
        if (a->second - u->second < CLIENT_SECONDS)
                a->asked[(uint64_t)u->second % CLIENT_SECONDS]--;
}

static inline void activity_move(struct client_activity *a, struct client_use *u, int64_t second)
{
        if (u->second == second)
                return;
        if (a->second != second)
                activity_turn(a, second);
        activity_leave(a, u);
        a->asked[(uint64_t)second % CLIENT_SECONDS]++;
        u->second = second;
}

/* Whoever asked within 5 s is in this second or one of the five before it. */
size_t clients_active(struct core *core, uint8_t target)
{
        struct client_activity *a = &core->clients->active[target];
        int64_t second = client_stamp(core)->second;
        size_t n = 0;
        if (a->second != second)
                activity_turn(a, second);
        for (uint64_t i = 0; i <= CLIENT_ACTIVE_S; i++)
                n += a->asked[((uint64_t)second - i) % CLIENT_SECONDS];
        return n ? n : 1;
}

/* ---- the table ---- */

static struct client *find(const struct clients *c, struct slice name)
{
        struct hash_node *n = hash_find(&c->names, name);
        return n ? CONTAINER_OF(n, struct client, node) : NULL;
}

static struct client *find_or_make(struct core *core, struct slice name, size_t n_parts)
{
        struct clients *c = core->clients;
        struct client *e = find(c, name);
        if (e)
                return e;
        e = xcalloc(1, sizeof(*e) + n_parts * sizeof(struct client *) + name.len);
        char *text = (char *)(e->parts + n_parts);
        if (!c->names.len)
                c->names.seed = core->state.queues.seed; /* nobody chooses who collides */
        memcpy(text, name.ptr, name.len);
        hash_insert(&c->names, &e->node, slice_make(text, name.len));
        return e;
}

static void free_unused(struct clients *c, struct client *e)
{
        if (e->is_whole || e->n_owners)
                return;
        hash_remove(&c->names, &e->node);
        minutes_release(&c->minutes, &e->minutes);
        free(e);
}

static void drop(struct core *core, struct client *e)
{
        struct clients *c = core->clients;
        starved_forget(core, e);
        list_remove(&e->recent);
        c->n_wholes--;
        for (size_t i = 0; i < e->n_uses; i++)
                activity_leave(&c->active[e->uses[i]->target], e->uses[i]);
        free_uses(e);
        totals_add(&c->other, &e->total[AS_WHOLE]);
        totals_add(&e->total[AS_PART], &e->total[AS_WHOLE]); /* the name did ask all that */
        e->total[AS_WHOLE] = (struct client_totals){0};
        e->is_whole = false;
        for (size_t i = 0; i < e->n_parts; i++) {
                e->parts[i]->n_owners--;
                free_unused(c, e->parts[i]);
        }
        e->n_parts = 0;
        free_unused(c, e);
}

static bool is_repeated(const struct identity *who, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (slice_eq(who->part[k], who->part[i]))
                        return true;
        return false;
}

static size_t count_missing(const struct clients *c, const struct identity *who)
{
        size_t n = !find(c, who->whole);
        for (size_t i = 0; who->n > 1 && i < who->n; i++)
                n += !is_repeated(who, i) && !find(c, who->part[i]);
        return n;
}

static struct client *make_whole(struct core *core, const struct identity *who)
{
        struct clients *c = core->clients;
        /* The oldest goes until there is room; it may have had parts that are now missing, too. */
        while (c->names.len + count_missing(c, who) > LIMIT_CLIENTS)
                drop(core, CONTAINER_OF(list_peek_front(&c->recent), struct client, recent));
        struct client *e = find_or_make(core, who->whole, who->n > 1 ? who->n : 0);
        e->is_whole = true;
        e->since_ns = e->asked_ns = NEVER;
        e->last_target = e->last_metric = CLIENT_NOWHERE;
        (void)client_stamp(core);
        e->moved = clients_mark(c);
        e->streak = 0;
        e->patience_ns = 0;
        list_push_back(&c->recent, &e->recent);
        c->n_wholes++;
        c->n_made++;
        for (size_t i = 0; who->n > 1 && i < who->n; i++) {
                if (is_repeated(who, i))
                        continue;
                struct client *part = find_or_make(core, who->part[i], 0);
                part->n_owners++;
                e->parts[e->n_parts++] = part;
        }
        return e;
}

struct client *client_get(struct core *core, const struct identity *who)
{
        struct clients *c = core->clients;
        struct client *e = find(c, who->whole);
        if (!e || !e->is_whole)
                return make_whole(core, who);
        (void)client_stamp(core);
        if (e->moved != clients_mark(c)) { /* not each time: it touches three others */
                e->moved = clients_mark(c);
                list_remove(&e->recent);
                list_push_back(&c->recent, &e->recent);
        }
        return e;
}

/* ---- counting ---- */

static inline void add_u32(uint32_t *to, uint32_t n)
{
        *to = *to > UINT32_MAX - n ? UINT32_MAX : *to + n;
}

static inline void add_reason(struct client_totals *t, struct client_minute *m,
                              enum check_reason reason, uint32_t n)
{
        uint16_t *cell = &m->by_reason[reason];
        t->by_reason[reason] += n;
        *cell = n < (uint32_t)UINT16_MAX - *cell ? (uint16_t)(*cell + n) : UINT16_MAX;
}

static void turn_addresses(struct client *e, struct slice address)
{
        size_t at = 0;
        while (at < e->n_addresses &&
               !slice_eq(slice_make(e->addresses[at].text, e->addresses[at].len), address))
                at++;
        if (at == e->n_addresses) {
                e->n_addresses += at < CLIENT_ADDRESSES;
                at = (size_t)e->n_addresses - 1; /* a new one takes the place of the oldest */
        }
        struct client_address first = {.len = (uint8_t)address.len};
        if (address.len)
                memcpy(first.text, address.ptr, address.len);
        memmove(&e->addresses[1], &e->addresses[0], at * sizeof(first));
        e->addresses[0] = first;
}

static inline void note_address(struct client *e, struct slice address, int64_t wall_ms)
{
        struct client_address *a = &e->addresses[0];
        if (address.len > CLIENT_ADDRESS - 1)
                address.len = CLIENT_ADDRESS - 1;
        if (!e->n_addresses || !slice_eq(slice_make(a->text, a->len), address))
                turn_addresses(e, address);
        a->wall_ms = wall_ms;
}

static inline void count_name(struct clients *c, struct client *e, enum client_role role,
                              const struct client_count *count)
{
        const struct client_stamp *s = &c->stamp;
        const struct check_verdict *v = count->verdict;
        struct client_minute *m = minutes_at(&c->minutes, &e->minutes, s->hour, s->minute);
        struct client_totals *t = &e->total[role];
        const uint32_t n = 1 + count->more;
        if (v->is_granted) {
                t->granted += n;
                add_u32(&m->granted, n);
                e->granted_ms = s->now.wall_ms;
                if (v->would_refuse) {
                        t->observed += n;
                        add_u32(&m->observed, n);
                        add_reason(t, m, v->would_reason, n);
                }
        } else {
                t->refused += n;
                add_u32(&m->refused, n);
                add_reason(t, m, v->reason, n);
                e->refused_ms = s->now.wall_ms;
                if (count->metric != CLIENT_NOWHERE) {
                        m->target = count->target;
                        m->metric = count->metric;
                }
        }
        t->waited_ms += count->waited_ms;
        add_u32(&m->waited_ms, count->waited_ms);
        if (!e->first_ms)
                e->first_ms = s->now.wall_ms;
        e->last_ms = s->now.wall_ms;
        e->is_authenticated = count->is_authenticated;
        note_address(e, count->address, s->now.wall_ms);
}

/* Room for one more target: new, or that of the target it asked about longest ago. */
static struct client_use *make_use(struct clients *c, struct client *e, uint8_t target)
{
        struct client_use *u;
        if (e->n_uses < CLIENT_TARGETS) {
                u = e->uses[e->n_uses++] = xcalloc(1, sizeof(*u));
        } else {
                u = e->uses[0];
                for (size_t i = 1; i < CLIENT_TARGETS; i++)
                        if (e->uses[i]->second < u->second)
                                u = e->uses[i];
                activity_leave(&c->active[u->target], u);
                memset(u, 0, sizeof(*u));
        }
        u->target = target;
        u->second = NEVER;
        u->span = c->stamp.span;
        return u;
}

static struct client_use *find_use(struct clients *c, struct client *e, uint8_t target)
{
        for (size_t i = 0; i < e->n_uses; i++)
                if (e->uses[i]->target == target)
                        return e->use = e->uses[i];
        return e->use = make_use(c, e, target);
}

static void use_turn(struct client_use *u, int64_t span)
{
        bool is_far = span - u->span >= CLIENT_GRANT_SPAN || span < u->span;
        if (is_far)
                memset(u->granted, 0, sizeof(u->granted));
        while (!is_far && u->span < span)
                u->granted[(uint64_t)++u->span % CLIENT_GRANT_SPAN] = 0;
        u->span = span;
}

/* Grants and refusals in a row, for the watch of the starved. */
static inline void follow(struct core *core, struct client *e, const struct client_count *count)
{
        const struct client_stamp *s = &core->clients->stamp;
        int64_t parked_ns = count->waited_ms * NS_PER_MS / (1 + (int64_t)count->more);
        int64_t began_ns = s->now.steady_ns - parked_ns;
        if (began_ns - e->asked_ns > STARVED_QUIET_NS + e->patience_ns) {
                starved_forget(core, e);
                e->streak = 0;
        }
        e->asked_ns = s->now.steady_ns;
        e->patience_ns = parked_ns;
        e->last_target = count->target;
        if (count->verdict->is_granted) {
                if (e->is_starved)
                        starved_granted(core, e);
                e->streak = 0;
                return;
        }
        if (!e->streak)
                e->since_ns = began_ns;
        e->last_reason = (uint8_t)count->verdict->reason;
        e->last_metric = count->metric;
        e->streak += 1 + (uint64_t)count->more;
        if (e->streak >= STARVED_ASKS && !list_is_linked(&e->watch))
                list_push_back(&core->clients->hungry, &e->watch);
}

/* For the minute that is kept: by the names that have a story, and by target. */
static void tally_count(struct core *core, struct client *e, const struct client_count *count)
{
        const struct check_verdict *v = count->verdict;
        struct throttle *t = core->throttle;
        struct target *g = count->target < t->n_targets ? &t->targets[count->target] : NULL;
        struct tally_ask ask = {
                .is_granted = v->is_granted,
                .would_refuse = v->would_refuse,
                .reason = v->is_granted ? v->would_reason : v->reason,
                .n = 1 + count->more,
                .waited_ms = count->waited_ms,
        };
        if (g && !v->is_granted && count->metric < g->n_metrics) {
                ask.target = slice_str(g->name);
                ask.metric = slice_str(g->metrics[count->metric].name);
        }
        const struct tally_who whole = {TALLY_CLIENT, client_name(e), e, &e->tally_place};
        tally_asked(core->tally, &whole, &ask);
        for (size_t i = 0; i < e->n_parts; i++) {
                struct client *p = e->parts[i];
                const struct tally_who part = {TALLY_CLIENT, client_name(p), p, &p->tally_place};
                tally_asked(core->tally, &part, &ask);
        }
        if (!g)
                return;
        const struct tally_who target = {TALLY_TARGET, slice_str(g->name), g, &g->tally_place};
        tally_asked(core->tally, &target, &ask);
}

void client_count(struct core *core, struct client *e, const struct client_count *count)
{
        struct clients *c = core->clients;
        const struct client_stamp *s = client_stamp(core);
        struct client_use *u =
                e->use && e->last_target == count->target ? e->use : find_use(c, e, count->target);
        activity_move(&c->active[count->target], u, s->second);
        if (count->verdict->is_granted) {
                if (u->span != s->span)
                        use_turn(u, s->span);
                add_u32(&u->granted[(uint64_t)s->span % CLIENT_GRANT_SPAN], 1 + count->more);
        }
        follow(core, e, count);
        count_name(c, e, AS_WHOLE, count);
        for (size_t i = 0; i < e->n_parts; i++)
                count_name(c, e->parts[i], AS_PART, count);
        tally_count(core, e, count);
}

void clients_each_address(const struct core *core,
                          void (*fn)(void *ctx, struct slice identity, struct slice address,
                                     int64_t wall_ms),
                          void *ctx)
{
        LIST_FOREACH(&core->clients->recent, it)
        {
                const struct client *e = CONTAINER_OF(it, const struct client, recent);
                for (size_t i = 0; i < e->n_addresses; i++)
                        fn(ctx, client_name(e),
                           slice_make(e->addresses[i].text, e->addresses[i].len),
                           e->addresses[i].wall_ms);
        }
}

bool client_is_unused(const struct core *core, struct slice name)
{
        const struct clients *c = core->clients;
        int64_t from_ms = core->now.wall_ms - MS_PER_DAY;
        const struct client *e = find(c, name);
        if (totals_asks(&c->other) || list_is_empty(&c->recent))
                return false;
        const struct client *last = CONTAINER_OF(c->recent.prev, const struct client, recent);
        return last->last_ms >= from_ms && (!e || e->last_ms < from_ms);
}

void clients_each_seen(const struct core *core,
                       void (*fn)(void *ctx, const struct client_seen *seen), void *ctx)
{
        LIST_FOREACH(&core->clients->recent, it)
        {
                const struct client *e = CONTAINER_OF(it, const struct client, recent);
                if (e->asked_ns == NEVER)
                        continue; /* looked up, but not answered */
                struct client_seen seen = {
                        .identity = client_name(e),
                        .age_ms = (core->now.steady_ns - e->asked_ns) / NS_PER_MS,
                        .is_granted = !e->streak,
                        .reason = (enum check_reason)e->last_reason,
                };
                fn(ctx, &seen);
        }
}

/* ---- the best of them ---- */

static void sift_down(struct client_top *t, const struct client *e)
{
        size_t i = 0;
        for (;;) {
                size_t child = 2 * i + 1;
                if (child + 1 < t->n && t->compare(t->clients[child], t->clients[child + 1]) < 0)
                        child++;
                if (child >= t->n || t->compare(t->clients[child], e) <= 0)
                        break;
                t->clients[i] = t->clients[child];
                i = child;
        }
        t->clients[i] = e;
}

void client_top_add(struct client_top *t, const struct client *e)
{
        if (t->n == t->max) {
                t->has_more = true;
                if (t->compare(e, t->clients[0]) < 0)
                        sift_down(t, e);
                return;
        }
        size_t i = t->n++;
        for (; i > 0 && t->compare(e, t->clients[(i - 1) / 2]) > 0; i = (i - 1) / 2)
                t->clients[i] = t->clients[(i - 1) / 2];
        t->clients[i] = e;
}

void client_top_sort(struct client_top *t)
{
        size_t n = t->n;
        while (t->n > 1) {
                const struct client *worst = t->clients[0];
                t->n--;
                sift_down(t, t->clients[t->n]);
                t->clients[t->n] = worst;
        }
        t->n = n;
}

/* ---- what must hold ---- */

static void check_entry(const struct clients *c, const struct client *e)
{
        ASSERT(e->is_whole || e->n_owners);
        ASSERT(list_is_linked(&e->recent) == e->is_whole);
        ASSERT(!list_is_linked(&e->watch) || e->is_whole);
        ASSERT(!e->is_starved || list_is_linked(&e->watch));
        ASSERT(e->is_whole || (!e->n_uses && !e->n_parts));
        for (size_t i = 0; i < e->n_parts; i++)
                ASSERT(find(c, client_name(e->parts[i])) == e->parts[i]);
}

/* (1) no more names than may be; (2) each is an identity or a part of one; (3) the rings of seconds
 * add up to the identities; (4) minutes are bounded. */
void clients_check(const struct clients *c)
{
        size_t n_wholes = 0, n_starved = 0, n_owned = 0, n_owners = 0;
        uint32_t asked[CLIENT_NOWHERE + 1] = {0};
        ASSERT(c->names.len <= LIMIT_CLIENTS);
        for (struct hash_node *n = NULL; (n = hash_next(&c->names, n));) {
                const struct client *e = CONTAINER_OF(n, const struct client, node);
                check_entry(c, e);
                n_wholes += e->is_whole;
                n_starved += e->is_starved;
                n_owners += e->n_owners;
                n_owned += e->n_parts;
                for (size_t i = 0; i < e->n_uses; i++) {
                        uint8_t target = e->uses[i]->target;
                        asked[target] +=
                                c->active[target].second - e->uses[i]->second < CLIENT_SECONDS;
                }
        }
        ASSERT(n_wholes == c->n_wholes && n_starved == c->n_starved && n_owners == n_owned);
        for (size_t t = 0; t <= CLIENT_NOWHERE; t++) {
                for (size_t i = 0; i < CLIENT_SECONDS; i++)
                        asked[t] -= c->active[t].asked[i];
                ASSERT(asked[t] == 0);
        }
        minute_pool_check(&c->minutes);
}
