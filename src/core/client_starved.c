/* The watch for the starved: who goes on asking and is never granted, and who is meanwhile.
 *
 * State           entered by                          leaves by
 *   none          its first ask; a grant; quiet       client_count at the third refusal in a row
 *   hungry        client_count                        clients_turn: granted since, quiet, or
 * starved starved       clients_turn                        starved_granted at once; clients_turn:
 * quiet
 *
 * What counts is the time since the last grant, or since the first ask of those that are still
 * going on: somebody who comes back after a silence of 5 min has not been waiting all that time.
 * A parked ask (WAIT) is no silence.
 *
 * clients_turn() looks once a second at no more than TURN_LOOKS of the hungry, in turn, and
 * searches for no more than TURN_SEARCHES starvers; a search walks the identities that asked since.
 * In a storm many become starved at once, on the same target and after the same time: they share
 * one search.  A starver's grants are counted in spans of a tenth of the configured time, from the
 * first whole span after the starved one's last grant: rather some too few than too many. */
#include <stdio.h>

#include "base/say.h"
#include "core/client_inside.h"
#include "core/throttle.h"

#define TURN_LOOKS    1000
#define TURN_SEARCHES 8
#define NAME_SHOWN    48 /* bytes of a name in an event, whose text is short */

struct short_name {
        char text[NAME_SHOWN + 4];
};

/* Cut between characters, with dots where something is missing. */
static struct short_name shorten(const struct client *e)
{
        struct short_name ret;
        struct slice name = client_name(e);
        size_t n = name.len;
        if (n > NAME_SHOWN)
                for (n = NAME_SHOWN; n > 0 && ((unsigned char)name.ptr[n] & 0xc0) == 0x80;)
                        n--;
        (void)snprintf(ret.text, sizeof(ret.text), "%.*s%s", (int)n, name.ptr,
                       n < name.len ? "..." : "");
        return ret;
}

#define LENGTH_TEXT 48

/* "40 s", "7 min", "2 h 5 min": as one would say it. */
static const char *length_text(int64_t ns, char *ret)
{
        long long s = ns / NS_PER_S, minutes = s / 60;
        if (minutes < 2)
                (void)snprintf(ret, LENGTH_TEXT, "%lld s", s);
        else if (minutes < 120)
                (void)snprintf(ret, LENGTH_TEXT, "%lld min", minutes);
        else
                (void)snprintf(ret, LENGTH_TEXT, "%lld h %lld min", minutes / 60, minutes % 60);
        return ret;
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

void client_starver(struct core *core, const struct client *starved, struct starver *memo)
{
        const struct clients *c = core->clients;
        int64_t span = first_span(client_stamp(core), starved->since_ns);
        if (memo->is_known && memo->target == starved->last_target && memo->span == span)
                return;
        *memo = (struct starver){.is_known = true, .target = starved->last_target, .span = span};
        /* From the last that asked back to the starved one's last grant. */
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
        struct short_name name = shorten(e);
        char length[LENGTH_TEXT];
        (void)length_text(core->now.steady_ns - e->since_ns, length);
        throttle_tell(core, "starved_over", "%s %s after %s (%llu refusals)", name.text, how,
                      length, (unsigned long long)e->streak);
        say_info("check", "starved_over", "identity", name.text, "how", how, "after", length);
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
        struct short_name name = shorten(e), by = {"nobody"};
        char length[LENGTH_TEXT];
        const char *reason = check_reason_name((enum check_reason)e->last_reason);
        (void)length_text(core->now.steady_ns - e->since_ns, length);
        client_starver(core, e, memo);
        if (memo->who)
                by = shorten(memo->who);
        if (memo->who)
                throttle_tell(core, "starved",
                              "%s has not been granted for %s (%llu refusals, %s); %s was granted "
                              "%llu times meanwhile",
                              name.text, length, (unsigned long long)e->streak, reason, by.text,
                              (unsigned long long)memo->grants);
        else
                throttle_tell(core, "starved",
                              "%s has not been granted for %s (%llu refusals, %s); nobody was "
                              "meanwhile",
                              name.text, length, (unsigned long long)e->streak, reason);
        say_warn("check", "starved", "identity", name.text, "for", length, "refusals",
                 SAY_I64(e->streak), "reason", reason, "granted", by.text, "times",
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

static bool is_same(const struct core *core, const struct client *e, const struct starver *memo)
{
        return memo->is_known && memo->target == e->last_target &&
               memo->span == first_span(&core->clients->stamp, e->since_ns);
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
