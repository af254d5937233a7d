/* The queues of an admission: which tickets wait, which goes next, which has waited too long.
 *
 * Each class has its lanes (admission_int.h).  A class whose first tickets only wait for the door
 * or for the window of their tier stands in a line, a heap by virtual time; a class that waits for
 * its own limit or that is stopped stands in none.  Every class with waiting tickets has an alarm
 * at the next time when something happens to it by itself: a deadline, a start by its rate, a
 * budget in balance.  lanes_settle() derives all of this from the class; it is called after every
 * change.
 *
 * Virtual time.  A class joins a line at the clock, so it has no credit for the time in which it
 * did not want to go.  While the window is full for a tier, those in its line fall behind the
 * clock. They get no credit for that either: their common origin `shift` moves instead, so that the
 * order among them stays.
 *
 * Costs: a decision is O(log classes in lines). */
#include "gate/admission_int.h"

#include <strings.h>

/* Virtual us of a us of database time: 8 / weight. */
static const uint64_t strides[TIERS] = {
        [TIER_CRITICAL] = 1, [TIER_HIGH] = 2, [TIER_NORMAL] = 4, [TIER_DEFERRABLE] = 8};

/* Lanes in use as bits: takes the lowest one. */
static unsigned take_bit(uint32_t *bits)
{
        unsigned i = (unsigned)ffs((int)*bits) - 1;
        *bits &= *bits - 1;
        return i;
}

static struct ticket *first_of(const struct admit_class *c, unsigned lane)
{
        return CONTAINER_OF(c->lanes[lane].next, struct ticket, place);
}

static bool is_stray_lane(unsigned lane)
{
        return lane >= BANDS;
}

static enum line window_line(const struct admit_class *c)
{
        return (enum line)(LINE_HIGH + (c->tier - TIER_HIGH));
}

static enum line line_at(const struct admit_class *c, enum place place)
{
        return place == PLACE_DOOR ? LINE_DOOR : window_line(c);
}

/* A class that need not wait at all is decided about all the same: else a client that calls itself
 * by a new name each time would never be stopped. */
static int64_t new_ends_ns(const struct admit_class *c, const struct ticket *t)
{
        int64_t wait_ns = c->limits.wait_ns;
        if (wait_ns < NEW_LEAST_NS)
                wait_ns = NEW_LEAST_NS;
        return t->asked_ns + (wait_ns < NEW_WAIT_NS ? wait_ns : NEW_WAIT_NS);
}

/* A class that the core keeps silent about for too long is let go. */
static enum lane_kind kind_now(const struct admission *a, const struct admit_class *c,
                               unsigned lane)
{
        enum lane_kind kind = (enum lane_kind)c->kind[lane % BANDS];
        if (kind == LANE_NEW && a->now_ns >= new_ends_ns(c, first_of(c, lane)))
                return LANE_OPEN;
        return kind;
}

/* Where its first ticket waits, limits of the class aside; PLACES: for the policy. */
static enum place lane_place(const struct admission *a, const struct admit_class *c, unsigned lane)
{
        enum lane_kind kind = kind_now(a, c, lane);
        if (kind == LANE_STOPPED || kind == LANE_NEW)
                return PLACES;
        return class_needs_window(c, kind, is_stray_lane(lane)) ? PLACE_WINDOW : PLACE_DOOR;
}

enum admit_reason lanes_obstacle(const struct admission *a, const struct admit_class *c,
                                 enum lane_kind kind, bool is_stray)
{
        if (kind == LANE_STOPPED)
                return ADMIT_BY_POLICY;
        if (kind == LANE_NEW)
                return ADMIT_BY_NEW;
        enum admit_reason reason = class_obstacle(a, c);
        if (reason != ADMIT_BY_NONE)
                return reason;
        if (class_needs_window(c, kind, is_stray) && !window_has_room(a, c->tier, c->is_enforced))
                return ADMIT_BY_LOAD;
        return door_has_room(a) ? ADMIT_BY_NONE : ADMIT_BY_DOOR;
}

bool lanes_is_ahead(const struct admission *a, const struct admit_class *c, enum lane_kind kind,
                    bool is_stray)
{
        bool needs_window = class_needs_window(c, kind, is_stray);
        if (!a->waiting)
                return false;
        if (a->ready[LINE_DOOR].len || (needs_window && a->ready[window_line(c)].len))
                return true;
        for (uint32_t used = c->used; used;) {
                enum place place = lane_place(a, c, take_bit(&used));
                if (place == PLACE_DOOR || (place == PLACE_WINDOW && needs_window))
                        return true;
        }
        return false;
}

/* ---- lanes ---- */

void lanes_init(struct admit_class *c)
{
        for (unsigned i = 0; i < LANES; i++)
                list_init(&c->lanes[i]);
        for (unsigned i = 0; i < PLACES; i++)
                c->ready[i] = (struct heap_node){.id = c->number, .pos = HEAP_NOWHERE};
        c->alarm = (struct heap_node){.id = c->number, .pos = HEAP_NOWHERE};
}

static unsigned lane_of(const struct admit_class *c, const struct ticket *t)
{
        return (t->is_stray ? BANDS : 0) + band_of(c, t->roll);
}

static void append(struct admit_class *c, struct ticket *t)
{
        unsigned lane = lane_of(c, t);
        list_push_back(&c->lanes[lane], &t->place);
        c->used |= 1U << lane;
}

static void unlink_ticket(struct admit_class *c, struct ticket *t)
{
        unsigned lane = lane_of(c, t);
        list_remove(&t->place);
        if (list_is_empty(&c->lanes[lane]))
                c->used &= ~(1U << lane);
}

void lanes_push(struct admission *a, struct admit_class *c, struct ticket *t)
{
        append(c, t);
        c->waiting++;
        a->waiting++;
}

void lanes_remove(struct admission *a, struct admit_class *c, struct ticket *t)
{
        unlink_ticket(c, t);
        c->waiting--;
        a->waiting--;
}

struct ticket *lanes_oldest(const struct admit_class *c)
{
        struct ticket *oldest = NULL;
        for (uint32_t used = c->used; used;) {
                struct ticket *t = first_of(c, take_bit(&used));
                if (!oldest || t->asked_ns < oldest->asked_ns)
                        oldest = t;
        }
        return oldest;
}

void lanes_relane(struct admit_class *c)
{
        struct list all;
        list_init(&all);
        while (c->used) {
                /* The bands have changed already, so the lane is looked for where the ticket is. */
                struct ticket *t = lanes_oldest(c);
                bool is_last = t->place.next == t->place.prev;
                struct list *lane = t->place.prev;
                list_remove(&t->place);
                if (is_last)
                        c->used &= ~(1U << (unsigned)(lane - c->lanes));
                list_push_back(&all, &t->place);
        }
        LIST_FOREACH(&all, it)
        {
                struct ticket *t = CONTAINER_OF(it, struct ticket, place);
                list_remove(it);
                append(c, t);
        }
}

/* ---- lines and alarms ---- */

static uint64_t line_clock(const struct admission *a, enum line line)
{
        return a->clock - a->shift[line];
}

static void put_in_line(struct admission *a, struct admit_class *c, enum place place, bool is_in)
{
        struct heap_node *node = &c->ready[place];

        if (!is_in && !heap_has(node))
                return;
        enum line line = line_at(c, place);
        if (!is_in) {
                heap_remove(&a->ready[line], node);
                return;
        }
        if (heap_has(node)) {
                heap_update(&a->ready[line], node, c->vtime[place]);
                return;
        }
        if (c->vtime[place] < line_clock(a, line))
                c->vtime[place] = line_clock(a, line);
        heap_push(&a->ready[line], node, c->vtime[place]);
}

static void set_alarm(struct admission *a, struct admit_class *c, int64_t at_ns)
{
        uint64_t key = heap_key_i64(at_ns);
        if (at_ns == INT64_MAX) {
                if (heap_has(&c->alarm))
                        heap_remove(&a->alarms, &c->alarm);
        } else if (heap_has(&c->alarm)) {
                heap_update(&a->alarms, &c->alarm, key);
        } else {
                heap_push(&a->alarms, &c->alarm, key);
        }
}

static int64_t earlier(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

/* Which lines the class belongs to; returns when that or a deadline changes by itself. */
static int64_t find_places(const struct admission *a, const struct admit_class *c, bool in[PLACES])
{
        int64_t at_ns = INT64_MAX;

        in[PLACE_DOOR] = in[PLACE_WINDOW] = false;
        for (uint32_t used = c->used; used;) {
                unsigned lane = take_bit(&used);
                const struct ticket *t = first_of(c, lane);
                bool is_new = kind_now(a, c, lane) == LANE_NEW;
                enum place place = lane_place(a, c, lane);
                at_ns = earlier(at_ns, is_new ? new_ends_ns(c, t) : t->deadline_ns);
                if (place != PLACES)
                        in[place] = true;
        }
        if (!in[PLACE_DOOR] && !in[PLACE_WINDOW])
                return at_ns;
        enum admit_reason reason = class_obstacle(a, c);
        if (reason == ADMIT_BY_RATE)
                at_ns = earlier(at_ns, c->next_ns);
        else if (reason == ADMIT_BY_BUDGET)
                at_ns = earlier(at_ns, c->paid_ns + 1);
        if (reason != ADMIT_BY_NONE)
                in[PLACE_DOOR] = in[PLACE_WINDOW] = false;
        return at_ns;
}

void lanes_unplace(struct admission *a, struct admit_class *c)
{
        put_in_line(a, c, PLACE_WINDOW, false);
}

void lanes_settle(struct admission *a, struct admit_class *c)
{
        bool in[PLACES];
        int64_t at_ns = find_places(a, c, in);

        put_in_line(a, c, PLACE_DOOR, in[PLACE_DOOR]);
        put_in_line(a, c, PLACE_WINDOW, in[PLACE_WINDOW]);
        set_alarm(a, c, at_ns);
}

void lanes_settle_all(struct admission *a)
{
        for (size_t i = 0; i < a->n; i++)
                if (a->classes[i] && a->classes[i]->waiting)
                        lanes_settle(a, a->classes[i]);
}

/* ---- which goes next ---- */

static struct admit_class *first_in_line(const struct admission *a, enum line line)
{
        struct heap_node *node = heap_peek(&a->ready[line]);
        if (!node)
                return NULL;
        return line == LINE_DOOR ? CONTAINER_OF(node, struct admit_class, ready[PLACE_DOOR])
                                 : CONTAINER_OF(node, struct admit_class, ready[PLACE_WINDOW]);
}

/* The class that the next place belongs to, and its virtual time; NULL: no ticket can go. */
static struct admit_class *pick(struct admission *a, uint64_t *ret_vtime)
{
        struct admit_class *best = NULL;

        for (unsigned line = 0; line < LINES; line++) {
                struct admit_class *c = first_in_line(a, (enum line)line);
                if (!c)
                        continue;
                uint64_t vtime =
                        heap_key(&a->ready[line], heap_peek(&a->ready[line])) + a->shift[line];
                if (line != LINE_DOOR && !window_has_room(a, c->tier, true)) {
                        if (vtime < a->clock)
                                a->shift[line] += a->clock - vtime;
                } else if (!best || vtime < *ret_vtime) {
                        best = c;
                        *ret_vtime = vtime;
                }
        }
        return best;
}

/* The oldest ticket of the class that may go. */
static struct ticket *first_that_may_go(const struct admission *a, const struct admit_class *c)
{
        struct ticket *first = NULL;
        for (uint32_t used = c->used; used;) {
                unsigned lane = take_bit(&used);
                struct ticket *t = first_of(c, lane);
                enum place place = lane_place(a, c, lane);
                bool may_go = place == PLACE_DOOR ||
                              (place == PLACE_WINDOW && window_has_room(a, c->tier, true));
                if (may_go && (!first || t->asked_ns < first->asked_ns))
                        first = t;
        }
        return first;
}

void lanes_dispatch(struct admission *a)
{
        struct admit_class *c = NULL;
        uint64_t vtime = 0;
        unsigned n = 0;

        a->is_behind = false;
        while (door_has_room(a) && (c = pick(a, &vtime))) {
                if (n++ == TURN_MAX) {
                        a->is_behind = true;
                        return;
                }
                struct ticket *t = first_that_may_go(a, c);
                uint64_t stride = c->cost_us * strides[c->tier];
                if (a->clock < vtime)
                        a->clock = vtime;
                for (unsigned place = 0; place < PLACES; place++)
                        c->vtime[place] += stride;
                lanes_remove(a, c, t);
                ticket_run(a, c, t);
                lanes_settle(a, c);
        }
}

/* Refuses the tickets of the class whose time is over.  Returns how many of `max` are left. */
static unsigned expire_class(struct admission *a, struct admit_class *c, unsigned max)
{
        for (uint32_t used = c->used; used;) {
                unsigned lane = take_bit(&used);
                while (max && (c->used >> lane & 1) && kind_now(a, c, lane) != LANE_NEW &&
                       first_of(c, lane)->deadline_ns <= a->now_ns) {
                        struct ticket *t = first_of(c, lane);
                        enum admit_reason reason =
                                lanes_obstacle(a, c, kind_now(a, c, lane), t->is_stray);
                        lanes_remove(a, c, t);
                        ticket_refuse(a, c, t, reason);
                        max--;
                }
        }
        return max;
}

/* A place that is free at the deadline of a ticket is still given to it. */
void lanes_expire(struct admission *a)
{
        struct list due;
        unsigned max = TURN_MAX;

        list_init(&due);
        while (a->alarms.len && heap_key_to_i64(heap_peek_key(&a->alarms)) <= a->now_ns) {
                struct admit_class *c =
                        CONTAINER_OF(heap_pop(&a->alarms), struct admit_class, alarm);
                list_push_back(&due, &c->due);
        }
        LIST_FOREACH(&due, it)
        {
                bool in[PLACES];
                struct admit_class *c = CONTAINER_OF(it, struct admit_class, due);
                (void)find_places(a, c, in); /* its alarm is set below */
                put_in_line(a, c, PLACE_DOOR, in[PLACE_DOOR]);
                put_in_line(a, c, PLACE_WINDOW, in[PLACE_WINDOW]);
        }
        lanes_dispatch(a);
        LIST_FOREACH(&due, it)
        {
                struct admit_class *c = CONTAINER_OF(it, struct admit_class, due);
                list_remove(it);
                if (!a->is_behind)
                        max = expire_class(a, c, max);
                lanes_settle(a, c);
        }
}

/* ---- invariants ---- */

/* Returns how many tickets stand in the lane. */
static uint32_t check_lane(const struct admission *a, const struct admit_class *c, unsigned lane)
{
        uint32_t n = 0;
        const struct ticket *before = NULL;

        LIST_FOREACH(&c->lanes[lane], it)
        {
                const struct ticket *t = CONTAINER_OF(it, struct ticket, place);
                ASSERT(t->state == TICKET_WAITING && t->class_number == c->number);
                ASSERT(lane_of(c, t) == lane);
                ASSERT(t->deadline_ns == t->asked_ns + c->limits.wait_ns);
                ASSERT(!before || before->asked_ns <= t->asked_ns);
                ASSERT(t->asked_ns <= a->now_ns);
                before = t;
                n++;
        }
        ASSERT((c->used >> lane & 1) == (n > 0));
        return n;
}

static void check_class(const struct admission *a, const struct admit_class *c)
{
        uint32_t n = 0;
        bool in[PLACES];

        for (unsigned lane = 0; lane < LANES; lane++)
                n += check_lane(a, c, lane);
        ASSERT(n == c->waiting);
        ASSERT(!n || c->is_enforced);
        ASSERT(heap_has(&c->alarm) == (n > 0));
        /* What is due may not have been seen yet; the alarm says so. */
        if (n == 0 || heap_key_to_i64(heap_key(&a->alarms, &c->alarm)) > a->now_ns) {
                int64_t at_ns = find_places(a, c, in);
                for (unsigned i = 0; i < PLACES; i++)
                        ASSERT(heap_has(&c->ready[i]) == in[i]);
                ASSERT(!n || heap_key_to_i64(heap_key(&a->alarms, &c->alarm)) <= at_ns);
        }
        for (unsigned i = 0; i < PLACES; i++)
                ASSERT(!heap_has(&c->ready[i]) ||
                       heap_key(&a->ready[line_at(c, (enum place)i)], &c->ready[i]) == c->vtime[i]);
}

void lanes_check(const struct admission *a)
{
        uint32_t waiting = 0;

        for (size_t i = 0; i < a->n; i++) {
                if (!a->classes[i])
                        continue;
                check_class(a, a->classes[i]);
                waiting += a->classes[i]->waiting;
        }
        ASSERT(waiting == a->waiting);
        heap_check(&a->alarms);
        /* No ticket waits that could go. */
        bool has_room = door_has_room(a) && !a->is_behind;
        for (unsigned line = 0; line < LINES; line++) {
                const struct admit_class *c = first_in_line(a, (enum line)line);
                heap_check(&a->ready[line]);
                ASSERT(a->shift[line] <= a->clock);
                ASSERT(!c || !has_room ||
                       (line != LINE_DOOR && !window_has_room(a, c->tier, true)));
        }
}
