/* The watch for the starved: identities that go on asking and are never granted.
 *
 * State       entered by                      leaves by
 *   none      its first ask; a grant; quiet   client_count at the third refusal in a row
 *   hungry    client_count                    clients_turn: granted since, quiet, or starved
 *   starved   clients_turn                    starved_granted at once; clients_turn: quiet
 *
 * What counts is the time since the first refusal of the run that is still going on.  The time
 * between the last grant and that refusal does not: a client that asked for nothing did not wait.
 * A silence of 5 min ends the run.  A parked ask (WAIT) is no silence, and was refused when it was
 * parked.
 *
 * clients_turn() looks once a second at no more than TURN_LOOKS of the hungry, in turn, and
 * searches for no more than TURN_SEARCHES starvers; a search walks the identities that asked since.
 * In a storm many become starved at once, on the same target and after the same time: they share
 * one search.  A starver's grants are counted in spans of a tenth of the configured time, from the
 * first whole span after the starved one's first refusal: rather some too few than too many. */
#include <stdio.h>

#include "base/duration.h"
#include "base/plural.h"
#include "base/say.h"
#include "base/shown.h"
#include "checks/client_int.h"
#include "throttle/throttle.h"

#define TURN_LOOKS    1000
#define TURN_SEARCHES 8
#define NAME_SHOWN    48 /* bytes of a name in an event, whose text is short */

/* Beside minutes the seconds do not matter: the watch looks at it now and then. */
static const char *length_text(int64_t ns, char *ret)
{
        int64_t ms = ns / NS_PER_MS, step_ms = ms < 2 * MS_PER_MIN ? MS_PER_S : MS_PER_MIN;
        return duration_words(ms / step_ms * step_ms, ret);
}

/* ---- the starver ---- */

static uint64_t grants_since(const struct client *e, uint8_t target, int64_t span)
{
        uint64_t sum = 0;
        for (size_t i = 0; i < e->n_uses; i++) {
                const struct client_use *u = e->uses[i];
                if (u->target != target)
                        continue;
                int64_t from = u->span - CLIENT_GRANT_SPAN + 1;
                for (from = from > span ? from : span; from <= u->span; from++)
                        sum += u->granted[(uint64_t)from % CLIENT_GRANT_SPAN];
        }
        return sum;
}

static int64_t first_span(const struct client_stamp *s, int64_t since_ns)
{
        int64_t span = since_ns / s->span_ns + 1, oldest = s->span - CLIENT_GRANT_SPAN + 1;
        if (span > s->span)
                span = s->span;
        return span > oldest ? span : oldest;
}

/* Does the memo answer for this one, too? */
static bool is_same(const struct core *core, const struct client *e, const struct starver *memo)
{
        return memo->is_known && memo->target == e->last_target &&
               memo->span == first_span(&core->clients->stamp, e->since_ns);
}

void client_starver(struct core *core, const struct client *starved, struct starver *memo)
{
        const struct clients *c = core->clients;
        int64_t span = first_span(client_stamp(core), starved->since_ns);
        if (is_same(core, starved, memo))
                return;
        *memo = (struct starver){.is_known = true, .target = starved->last_target, .span = span};
        /* From the last that asked back to the starved one's first refusal. */
        int64_t since_s = starved->since_ns / NS_PER_S;
        for (const struct list *it = c->recent.prev; it != &c->recent; it = it->prev) {
                const struct client *e = CONTAINER_OF(it, const struct client, recent);
                if (clients_mark_second(e->moved) < since_s)
                        break;
                uint64_t n = e == starved ? 0 : grants_since(e, memo->target, span);
                if (n > memo->grants) {
                        memo->grants = n;
                        memo->who = e;
                }
        }
}

/* ---- in and out ---- */

static void leave(struct clients *c, struct client *e)
{
        list_remove(&e->watch);
        c->n_starved -= e->is_starved;
        e->is_starved = false;
}

static void over(struct core *core, struct client *e, const char *how)
{
        const char *name = SHOWN_MAX(client_name(e), NAME_SHOWN);
        char length[DURATION_TEXT_MAX];
        (void)length_text(core->now.steady_ns - e->since_ns, length);
        throttle_tell(core, "starved_over", "%s %s after %s (%llu %s)", name, how, length,
                      (unsigned long long)e->streak, plural(e->streak, "refusal", "refusals"));
        say_info("check", "starved_over", "identity", name, "how", how, "after", length);
        leave(core->clients, e);
}

void starved_granted(struct core *core, struct client *e)
{
        over(core, e, "is granted again");
}

void starved_forget(struct core *core, struct client *e)
{
        if (e->is_starved)
                over(core, e, "asks no more");
        else if (list_is_linked(&e->watch))
                leave(core->clients, e);
}

static void enter(struct core *core, struct client *e, struct starver *memo)
{
        struct clients *c = core->clients;
        const char *name = SHOWN_MAX(client_name(e), NAME_SHOWN);
        char length[DURATION_TEXT_MAX];
        const char *reason = check_reason_name((enum check_reason)e->last_reason);
        const char *refusals = plural(e->streak, "refusal", "refusals");
        (void)length_text(core->now.steady_ns - e->since_ns, length);
        client_starver(core, e, memo);
        const char *by = memo->who ? SHOWN_MAX(client_name(memo->who), NAME_SHOWN) : "nobody";
        if (memo->who)
                throttle_tell(core, "starved",
                              "%s has not been granted for %s (%llu %s, %s); %s was granted %llu "
                              "%s meanwhile",
                              name, length, (unsigned long long)e->streak, refusals, reason, by,
                              (unsigned long long)memo->grants,
                              plural(memo->grants, "time", "times"));
        else
                throttle_tell(core, "starved",
                              "%s has not been granted for %s (%llu %s, %s); nobody was meanwhile",
                              name, length, (unsigned long long)e->streak, refusals, reason);
        say_warn("check", "starved", "identity", name, "for", length, "refusals",
                 SAY_I64(e->streak), "reason", reason, "granted", by, "times",
                 SAY_I64(memo->grants));
        list_remove(&e->watch);
        list_push_back(&c->starved, &e->watch);
        e->is_starved = true;
        c->n_starved++;
}

/* ---- once a second ---- */

static bool is_quiet(const struct core *core, const struct client *e)
{
        return core->now.steady_ns - e->asked_ns > STARVED_QUIET_NS + e->patience_ns;
}

static bool is_due(const struct core *core, const struct client *e)
{
        int64_t now_ns = core->now.steady_ns, starved_ns = core->clients->stamp.starved_ns;
        int64_t asked_ns = starved_ns / 2 < STARVED_ASKED_NS ? starved_ns / 2 : STARVED_ASKED_NS;
        if (asked_ns < STARVED_LEAST_NS)
                asked_ns = STARVED_LEAST_NS;
        return now_ns - e->since_ns > starved_ns && now_ns - e->asked_ns <= asked_ns;
}

/* The list begins here next time: after as many turns as it takes, all of it was looked at. */
static void turn_list(struct list *head, struct list *begin)
{
        if (begin == head)
                return;
        list_remove(head);
        list_insert_before(begin, head);
}

static void look_at_hungry(struct core *core)
{
        struct clients *c = core->clients;
        struct starver memo = {0};
        size_t looks = TURN_LOOKS, searches = TURN_SEARCHES;
        struct list *it = c->hungry.next;
        for (struct list *next; it != &c->hungry && looks--; it = next) {
                struct client *e = CONTAINER_OF(it, struct client, watch);
                next = it->next;
                if (e->streak < STARVED_ASKS || is_quiet(core, e)) {
                        leave(c, e);
                } else if (is_due(core, e)) {
                        if (!is_same(core, e, &memo) && !searches--)
                                break;
                        enter(core, e, &memo);
                }
        }
        turn_list(&c->hungry, it);
}

static void look_at_starved(struct core *core)
{
        struct clients *c = core->clients;
        size_t looks = TURN_LOOKS;
        struct list *it = c->starved.next;
        for (struct list *next; it != &c->starved && looks--; it = next) {
                struct client *e = CONTAINER_OF(it, struct client, watch);
                next = it->next;
                if (is_quiet(core, e))
                        starved_forget(core, e);
        }
        turn_list(&c->starved, it);
}

void clients_turn(struct core *core)
{
        struct clients *c = core->clients;
        if (core->now.steady_ns < clients_next_ns(core))
                return;
        c->turned_ns = core->now.steady_ns;
        (void)client_stamp(core);
        look_at_starved(core);
        look_at_hungry(core);
}

int64_t clients_next_ns(const struct core *core)
{
        const struct clients *c = core->clients;
        if (list_is_empty(&c->hungry) && list_is_empty(&c->starved))
                return INT64_MAX;
        return c->turned_ns + NS_PER_S;
}

size_t clients_starved(const struct core *core)
{
        return core->clients->n_starved;
}
