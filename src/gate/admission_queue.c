/* The queues of an admission: who waits, who goes next, who has waited too long.
 *
 * Each class has its lanes (admission_int.h).  A class whose first tickets only wait for the door
 * or the window stands in a line, a heap by virtual time; a class that waits for its own limit or
 * that is stopped stands in none.  Every class with waiting tickets has an alarm at the next time
 * when something happens to it by itself: a deadline, a start by its rate, a budget in balance.
 * lanes_settle() derives all of this from the class; it is called after every change.
 *
 * Virtual time.  A class joins a line at the clock, so it has no credit for the time in which it
 * did not want to go.  While the window is full, those in LINE_WINDOW fall behind the clock.  They
 * get no credit for that either: their common origin `shift` moves instead, so that the order among
 * them stays.
 *
 * Costs: a decision is O(log classes in lines); CoDel looks at the classes in lines each 5 ms. */
#include "gate/admission_int.h"

#include <math.h>
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

static enum tier lane_tier(unsigned lane)
{
        return (enum tier)(lane / BANDS);
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

/* A class that the core keeps silent about for too long is granted. */
static enum lane_kind kind_now(const struct admission *a, const struct admit_class *c,
                               unsigned lane)
{
        enum lane_kind kind = (enum lane_kind)c->kind[lane % BANDS];
        if (kind == LANE_NEW && a->now_ns >= new_ends_ns(c, first_of(c, lane)))
                return LANE_GRANTED;
        return kind;
}

static bool is_in_line(const struct admission *a, const struct admit_class *c, unsigned lane,
                       enum line line)
{
        return kind_now(a, c, lane) == (line == LINE_FREE ? LANE_GRANTED : LANE_PRESSED);
}

enum admit_reason lanes_obstacle(const struct admission *a, const struct admit_class *c,
                                 enum lane_kind kind)
{
        if (kind == LANE_STOPPED)
                return ADMIT_BY_POLICY;
        if (kind == LANE_NEW)
                return ADMIT_BY_NEW;
        enum admit_reason reason = class_obstacle(a, c);
        if (reason != ADMIT_BY_NONE)
                return reason;
        /* What only observes counts all that runs; what is enforced, only what is enforced. */
        uint32_t pressed = a->pressed[true] + (c->is_enforced ? 0 : a->pressed[false]);
        if (kind == LANE_PRESSED && pressed >= a->window)
                return ADMIT_BY_SHARE;
        return door_has_room(a) ? ADMIT_BY_NONE : ADMIT_BY_DOOR;
}

bool lanes_is_ahead(const struct admission *a, const struct admit_class *c, enum lane_kind kind)
{
        if (!a->waiting)
                return false;
        if (a->ready[LINE_FREE].len || (kind == LANE_PRESSED && a->ready[LINE_WINDOW].len))
                return true;
        for (uint32_t used = c->used; used;) {
                enum lane_kind other = kind_now(a, c, take_bit(&used));
                if (other == LANE_GRANTED || (other == LANE_PRESSED && kind == LANE_PRESSED))
                        return true;
        }
        return false;
}

/* ---- lanes ---- */

void lanes_init(struct admit_class *c)
{
        for (unsigned i = 0; i < LANES; i++)
                list_init(&c->lanes[i]);
        for (unsigned i = 0; i < LINES; i++)
                c->ready[i] = (struct heap_node){.id = c->number, .pos = HEAP_NOWHERE};
        c->alarm = (struct heap_node){.id = c->number, .pos = HEAP_NOWHERE};
}

static unsigned lane_of(const struct admit_class *c, const struct ticket *t)
{
        return (unsigned)tier_of(c, t) * BANDS + band_of(c, t->roll);
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
        return line == LINE_FREE ? a->clock : a->clock - a->shift;
}

/* The lines were empty: nothing stands yet. */
static void codel_begin(struct admission *a)
{
        struct codel *q = &a->codel;
        q->scan_ns = a->now_ns + ADMIT_TARGET_NS;
        q->count = 0;
        q->is_standing = false;
        for (unsigned i = 0; i < TIERS; i++)
                q->good_ns[i] = a->now_ns;
}

static void place_in_line(struct admission *a, struct admit_class *c, enum line line, bool is_in)
{
        struct heap *heap = &a->ready[line];
        struct heap_node *node = &c->ready[line];

        if (!is_in) {
                if (heap_has(node))
                        heap_remove(heap, node);
                return;
        }
        if (heap_has(node)) {
                heap_update(heap, node, c->vtime[line]);
                return;
        }
        if (!is_in_any_line(a))
                codel_begin(a);
        if (c->vtime[line] < line_clock(a, line))
                c->vtime[line] = line_clock(a, line);
        heap_push(heap, node, c->vtime[line]);
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
static int64_t find_lines(const struct admission *a, const struct admit_class *c, bool in[LINES])
{
        int64_t at_ns = INT64_MAX;

        in[LINE_FREE] = in[LINE_WINDOW] = false;
        for (uint32_t used = c->used; used;) {
                unsigned lane = take_bit(&used);
                const struct ticket *t = first_of(c, lane);
                enum lane_kind kind = kind_now(a, c, lane);
                at_ns = earlier(at_ns, kind == LANE_NEW ? new_ends_ns(c, t) : t->deadline_ns);
                in[LINE_FREE] |= kind == LANE_GRANTED;
                in[LINE_WINDOW] |= kind == LANE_PRESSED;
        }
        if (!in[LINE_FREE] && !in[LINE_WINDOW])
                return at_ns;
        enum admit_reason reason = class_obstacle(a, c);
        if (reason == ADMIT_BY_RATE)
                at_ns = earlier(at_ns, c->next_ns);
        else if (reason == ADMIT_BY_BUDGET)
                at_ns = earlier(at_ns, c->paid_ns + 1);
        if (reason != ADMIT_BY_NONE)
                in[LINE_FREE] = in[LINE_WINDOW] = false;
        return at_ns;
}

void lanes_settle(struct admission *a, struct admit_class *c)
{
        bool in[LINES];
        int64_t at_ns = find_lines(a, c, in);

        place_in_line(a, c, LINE_FREE, in[LINE_FREE]);
        place_in_line(a, c, LINE_WINDOW, in[LINE_WINDOW]);
        set_alarm(a, c, at_ns);
}

/* ---- who goes next ---- */

static struct admit_class *first_in_line(const struct admission *a, enum line line)
{
        struct heap_node *node = heap_peek(&a->ready[line]);
        return node ? CONTAINER_OF(node, struct admit_class, ready[line]) : NULL;
}

/* The class that the next place belongs to, and its virtual time; NULL: no ticket can go. */
static struct admit_class *pick(struct admission *a, uint64_t *ret_vtime)
{
        struct admit_class *c = first_in_line(a, LINE_FREE);
        struct admit_class *pressed = first_in_line(a, LINE_WINDOW);

        if (c)
                *ret_vtime = c->vtime[LINE_FREE];
        if (pressed && !window_has_room(a)) {
                if (pressed->vtime[LINE_WINDOW] + a->shift < a->clock)
                        a->shift = a->clock - pressed->vtime[LINE_WINDOW];
                return c;
        }
        if (pressed && (!c || pressed->vtime[LINE_WINDOW] + a->shift < *ret_vtime)) {
                *ret_vtime = pressed->vtime[LINE_WINDOW] + a->shift;
                return pressed;
        }
        return c;
}

/* The oldest ticket of the class that may go. */
static struct ticket *first_that_may_go(const struct admission *a, const struct admit_class *c)
{
        struct ticket *first = NULL;
        bool has_room = window_has_room(a);
        for (uint32_t used = c->used; used;) {
                unsigned lane = take_bit(&used);
                struct ticket *t = first_of(c, lane);
                bool may_go = is_in_line(a, c, lane, LINE_FREE) ||
                              (has_room && is_in_line(a, c, lane, LINE_WINDOW));
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
                uint64_t stride = c->cost_us * strides[tier_of(c, t)];
                if (a->clock < vtime)
                        a->clock = vtime;
                for (unsigned line = 0; line < LINES; line++)
                        c->vtime[line] += stride;
                lanes_remove(a, c, t);
                ticket_run(a, c, t);
                lanes_settle(a, c);
        }
        window_finish(a);
}

/* Refuses the tickets of the class whose time is over.  Returns how many of `max` are left. */
static unsigned expire_class(struct admission *a, struct admit_class *c, unsigned max)
{
        for (uint32_t used = c->used; used;) {
                unsigned lane = take_bit(&used);
                while (max && (c->used >> lane & 1) && kind_now(a, c, lane) != LANE_NEW &&
                       first_of(c, lane)->deadline_ns <= a->now_ns) {
                        struct ticket *t = first_of(c, lane);
                        enum admit_reason reason = lanes_obstacle(a, c, kind_now(a, c, lane));
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
                bool in[LINES];
                struct admit_class *c = CONTAINER_OF(it, struct admit_class, due);
                (void)find_lines(a, c, in); /* its alarm is set below */
                place_in_line(a, c, LINE_FREE, in[LINE_FREE]);
                place_in_line(a, c, LINE_WINDOW, in[LINE_WINDOW]);
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

/* ---- CoDel ---- */

/* The oldest ticket in line of each tier. */
static void find_standing(const struct admission *a, struct ticket *oldest[TIERS])
{
        for (unsigned line = 0; line < LINES; line++) {
                for (uint32_t i = 0; i < a->ready[line].len; i++) {
                        const struct admit_class *c = CONTAINER_OF(a->ready[line].entries[i].node,
                                                                   struct admit_class, ready[line]);
                        for (uint32_t used = c->used; used;) {
                                unsigned lane = take_bit(&used);
                                struct ticket *t = first_of(c, lane);
                                struct ticket **best = &oldest[lane_tier(lane)];
                                if (is_in_line(a, c, lane, (enum line)line) &&
                                    (!*best || t->asked_ns < (*best)->asked_ns))
                                        *best = t;
                        }
                }
        }
}

static void shed(struct admission *a, struct ticket *t)
{
        struct codel *q = &a->codel;
        struct admit_class *c = a->classes[t->class_number];

        q->shed++;
        q->count++;
        q->shed_ns = a->now_ns + (int64_t)((double)ADMIT_INTERVAL_NS / sqrt(q->count + 1.0));
        lanes_remove(a, c, t);
        ticket_refuse(a, c, t, ADMIT_BY_OVERLOAD);
        lanes_settle(a, c);
}

void lanes_codel(struct admission *a)
{
        struct codel *q = &a->codel;
        struct ticket *oldest[TIERS] = {NULL};
        unsigned standing = TIERS, least = TIERS;

        if (!is_in_any_line(a) || a->now_ns < q->scan_ns)
                return;
        find_standing(a, oldest);
        for (unsigned tier = TIERS; tier-- > 0;) {
                if (!oldest[tier] || a->now_ns - oldest[tier]->asked_ns < ADMIT_TARGET_NS)
                        q->good_ns[tier] = a->now_ns;
                if (a->now_ns - q->good_ns[tier] >= ADMIT_INTERVAL_NS)
                        standing = tier;
                if (oldest[tier] && least == TIERS)
                        least = tier;
        }
        q->is_standing = standing < TIERS;
        if (standing >= TIER_DEFERRABLE)
                q->count = 0; /* nothing is less important than what stands */
        else if (least > standing && (!q->count || a->now_ns >= q->shed_ns))
                shed(a, oldest[least]);
        q->scan_ns = a->now_ns + ADMIT_TARGET_NS;
        if (q->count && q->shed_ns > a->now_ns)
                q->scan_ns = earlier(q->scan_ns, q->shed_ns);
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
        bool in[LINES];

        for (unsigned lane = 0; lane < LANES; lane++)
                n += check_lane(a, c, lane);
        ASSERT(n == c->waiting);
        ASSERT(!n || c->is_enforced);
        ASSERT(heap_has(&c->alarm) == (n > 0));
        /* What is due may not have been seen yet; the alarm says so. */
        if (n == 0 || heap_key_to_i64(heap_key(&a->alarms, &c->alarm)) > a->now_ns) {
                int64_t at_ns = find_lines(a, c, in);
                for (unsigned line = 0; line < LINES; line++)
                        ASSERT(heap_has(&c->ready[line]) == in[line]);
                ASSERT(!n || heap_key_to_i64(heap_key(&a->alarms, &c->alarm)) <= at_ns);
        }
        for (unsigned line = 0; line < LINES; line++)
                ASSERT(!heap_has(&c->ready[line]) ||
                       heap_key(&a->ready[line], &c->ready[line]) == c->vtime[line]);
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
        for (unsigned line = 0; line < LINES; line++)
                heap_check(&a->ready[line]);
        heap_check(&a->alarms);
        ASSERT(a->shift <= a->clock);
        /* Nothing waits that could go. */
        bool has_room = door_has_room(a) && !a->is_behind;
        ASSERT(!has_room || !a->ready[LINE_FREE].len);
        ASSERT(!has_room || !window_has_room(a) || !a->ready[LINE_WINDOW].len);
}
