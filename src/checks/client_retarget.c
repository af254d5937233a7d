/* What is counted of the clients, when targets are set up again (throttle/retarget.h).
 *
 * Costs: clients are at most LIMIT_CLIENTS with a day of minutes each out of a bounded pool; their
 * numbers are written over only when a number really means another thing now. */
#include <stdlib.h>

#include "checks/client_int.h"
#include "throttle/retarget.h"

/* 255 is nowhere, and so is what is gone. */
static uint8_t new_target(const struct retarget *r, uint8_t target)
{
        int to = retarget_target(r, target);
        return to < 0 ? CLIENT_NOWHERE : (uint8_t)to;
}

static void renumber(const struct retarget *r, uint8_t *target, uint8_t *metric)
{
        int to = retarget_metric(r, *target, *metric);
        *metric = to < 0 ? CLIENT_NOWHERE : (uint8_t)to;
        *target = new_target(r, *target);
}

/* An identity's use of a target that is gone goes with it: the ring it was counted in does too. */
static void renumber_uses(const struct retarget *r, struct client *e)
{
        size_t n = 0;
        for (size_t i = 0; i < e->n_uses; i++) {
                struct client_use *u = e->uses[i];
                if (u->target != CLIENT_NOWHERE && new_target(r, u->target) == CLIENT_NOWHERE) {
                        free(u);
                        continue;
                }
                u->target = new_target(r, u->target);
                e->uses[n++] = u;
        }
        e->n_uses = (uint8_t)n;
        e->use = NULL; /* found again with the next ask */
}

void clients_retarget(struct core *core, const struct retarget *r)
{
        struct clients *c = core->clients;
        if (r->is_same)
                return;
        for (struct hash_node *n = NULL; (n = hash_next(&c->names, n));) {
                struct client *e = CONTAINER_OF(n, struct client, node);
                renumber_uses(r, e);
                renumber(r, &e->last_target, &e->last_metric);
                e->note.paced_target = new_target(r, e->note.paced_target);
                for (size_t k = 0; k < MINUTES_HOURS; k++) {
                        struct minute_hour *h = e->minutes.hours[k];
                        for (size_t i = 0; h && i < MINUTES_PER_HOUR; i++)
                                renumber(r, &h->cells[i].target, &h->cells[i].metric);
                }
        }
        struct client_activity active[CLIENT_NOWHERE] = {0};
        for (size_t i = 0; i < r->n_old; i++)
                if (r->old[i].target >= 0)
                        active[r->old[i].target] = c->active[i];
        memcpy(c->active, active, sizeof(active)); /* and nowhere stays as it is */
}
