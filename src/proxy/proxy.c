/* See proxy.h: doors and threads, as the loop sees them. */
#include "proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/health.h"
#include "proxy/proxy_int.h"

/* The loop frees it, maybe after the proxy is gone. */
struct proxy_member {
        struct proxy *proxy; /* NULL: it is gone */
};

/* ---- the member of the loop ---- */

static bool member_has_work(const void *ctx)
{
        (void)ctx;
        return false;
}

static bool member_flush(void *ctx)
{
        (void)ctx;
        return false;
}

static void member_none(void *ctx)
{
        (void)ctx;
}

static void member_check(const void *ctx)
{
        (void)ctx;
}

static void wake_all(struct proxy *p)
{
        for (unsigned i = 0; i < p->n_workers; i++)
                mail_wake(&p->workers[i]);
}

static void member_stop(void *ctx)
{
        struct proxy *p = ((struct proxy_member *)ctx)->proxy;
        if (!p)
                return;
        for (size_t i = 0; i < p->n_doors; i++)
                atomic_store(&p->doors[i]->is_draining, true);
        atomic_store(&p->is_stopping, true);
        wake_all(p);
}

static bool member_is_idle(const void *ctx)
{
        const struct proxy *p = ((const struct proxy_member *)ctx)->proxy;
        for (unsigned i = 0; p && i < p->n_workers; i++)
                if (atomic_load(&p->workers[i].n_conns))
                        return false;
        return true;
}

/* Threads have made classes. */
static void hear(void *ctx)
{
        struct proxy *p = ctx;
        for (size_t i = 0; i < p->n_doors; i++)
                if (atomic_exchange(&p->doors[i]->has_news, false))
                        traffic_classes_made(p->loop->core, i);
}

/* ---- life ---- */

int proxy_new(struct loop *loop, unsigned threads, struct proxy **ret, struct problem *problem)
{
        static const struct loop_ops ops = {.has_work = member_has_work,
                                            .run = member_none,
                                            .durable = member_none,
                                            .flush = member_flush,
                                            .stop = member_stop,
                                            .cut = member_none,
                                            .is_idle = member_is_idle,
                                            .check = member_check,
                                            .close = member_none,
                                            .free = free};
        static const uint64_t no_bytes; /* its clients have bounds of their own */
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        struct proxy *p = xcalloc(1, sizeof(*p));
        p->loop = loop;
        p->mail = (struct loop_mail){.deliver = hear, .ctx = p};
        p->member = xcalloc(1, sizeof(*p->member));
        p->member->proxy = p;
        loop_join(loop, (struct loop_member){&ops, p->member, &no_bytes});
        (void)pthread_mutex_init(&p->list_lock, NULL);
        p->n_workers = threads ? threads : cores > 0 ? (unsigned)cores : 1;
        if (p->n_workers > PROXY_THREADS_MAX)
                p->n_workers = PROXY_THREADS_MAX;
        p->workers = xcalloc(p->n_workers, sizeof(*p->workers));
        int r = health_new(p, &p->health, problem);
        for (unsigned i = 0; i < p->n_workers; i++)
                worker_init(&p->workers[i], p, i);
        for (unsigned i = 0; r == OK && i < p->n_workers; i++)
                r = worker_start(&p->workers[i], problem);
        if (r != OK) {
                (void)proxy_free(p);
                return r;
        }
        *ret = p;
        return OK;
}

static void free_door(struct door *d)
{
        for (size_t i = 0; i < d->n_entrances; i++)
                (void)entrance_free(d->entrances[i]);
        (void)door_free(d);
}

struct proxy *proxy_free(struct proxy *p)
{
        if (!p)
                return NULL;
        p->member->proxy = NULL;
        p->health = health_free(p->health);
        atomic_store(&p->is_stopping, true);
        atomic_store(&p->is_cut, true);
        for (unsigned i = 0; i < p->n_workers; i++)
                worker_join(&p->workers[i]);
        for (unsigned i = 0; i < p->n_workers; i++)
                worker_release(&p->workers[i]);
        for (size_t i = 0; i < p->n_doors; i++)
                free_door(p->doors[i]);
        for (size_t i = 0; i < p->n_gone; i++)
                free_door(p->gone[i]);
        for (struct entrance *l = p->dead, *next; l; l = next) {
                next = l->next_dead;
                (void)entrance_free(l);
        }
        free(p->gone);
        free(p->workers);
        (void)pthread_mutex_destroy(&p->list_lock);
        free(p);
        return NULL;
}

/* ---- doors ---- */

/* What a door will be: everything that can fail is done before anything is changed. */
struct plan {
        struct door *door; /* that it is, or will be */
        bool is_new;
        struct setup *setup;
        struct entrance *entrances[PROXY_LISTENS_MAX];
        bool is_new_entrance[PROXY_LISTENS_MAX];
        size_t n_entrances;
};

static struct door *find_door(const struct proxy *p, const char *name)
{
        for (size_t i = 0; i < p->n_doors; i++)
                if (strcmp(p->doors[i]->name, name) == 0)
                        return p->doors[i];
        return NULL;
}

static struct entrance *entrance_of(const struct door *d, const char *text)
{
        for (size_t i = 0; i < d->n_entrances; i++)
                if (!d->entrances[i]->is_kept && strcmp(d->entrances[i]->text, text) == 0)
                        return d->entrances[i];
        return NULL;
}

/* That is open already: of the door itself, else of another one, which has given the address away.
 * Each port 0 is another one. */
static struct entrance *find_entrance(const struct proxy *p, const struct door *d, const char *text)
{
        const char *colon = strrchr(text, ':');
        struct entrance *l = entrance_of(d, text);
        if (colon && strcmp(colon, ":0") == 0)
                return l;
        for (size_t i = 0; i < p->n_doors && !l; i++)
                l = entrance_of(p->doors[i], text);
        return l;
}

static int plan_door(struct proxy *p, const struct proxy_door *o, struct plan *ret,
                     struct problem *problem)
{
        ret->door = find_door(p, o->name);
        ret->is_new = !ret->door;
        if (ret->is_new)
                ret->door = door_new(p, o->name);
        int r = setup_new(o, &ret->setup, problem);
        for (size_t i = 0; r == OK && i < o->n_listens && i < PROXY_LISTENS_MAX; i++) {
                struct entrance *l = find_entrance(p, ret->door, o->listens[i]);
                ret->is_new_entrance[i] = !l;
                if (!l)
                        r = entrance_new(ret->door, o->listens[i], &l, problem);
                if (r != OK)
                        break;
                l->is_kept = true;
                ret->entrances[ret->n_entrances++] = l;
        }
        return r;
}

static void drop_plan(struct plan *plan)
{
        for (size_t i = 0; i < plan->n_entrances; i++)
                if (plan->is_new_entrance[i])
                        (void)entrance_free(plan->entrances[i]);
                else
                        plan->entrances[i]->is_kept = false;
        setup_unref(plan->setup);
        if (plan->is_new && plan->door)
                (void)door_free(plan->door);
}

/* The thread that accepts holds its lock while it looks at an entrance. */
static void move_entrance(struct proxy *p, struct entrance *l, struct door *to)
{
        (void)pthread_mutex_lock(&p->workers[0].lock);
        l->door = to;
        (void)pthread_mutex_unlock(&p->workers[0].lock);
}

static void bury_entrance(struct proxy *p, struct entrance *l)
{
        if (l->is_kept)
                return;
        (void)pthread_mutex_lock(&p->workers[0].lock);
        entrance_close(l);
        (void)pthread_mutex_unlock(&p->workers[0].lock);
        l->next_dead = p->dead;
        p->dead = l;
}

static void follow_plan(struct proxy *p, const struct proxy_door *o, struct plan *plan)
{
        struct door *d = plan->door;
        for (size_t i = 0; i < d->n_entrances; i++)
                bury_entrance(p, d->entrances[i]);
        memcpy(d->entrances, plan->entrances, sizeof(plan->entrances));
        d->n_entrances = plan->n_entrances;
        door_set(d, plan->setup, o);
        if (plan->is_new)
                health_look(d);
        for (size_t i = 0; i < plan->n_entrances; i++)
                if (plan->is_new_entrance[i])
                        entrance_open(plan->entrances[i]);
                else
                        move_entrance(p, plan->entrances[i], d);
}

static void bury_door(struct proxy *p, struct door *d)
{
        for (size_t i = 0; i < d->n_entrances; i++)
                bury_entrance(p, d->entrances[i]);
        d->n_entrances = 0;
        atomic_store(&d->is_draining, true);
        atomic_store(&d->is_gone, true);
        p->gone = xrealloc(p->gone, (p->n_gone + 1) * sizeof(struct door *));
        p->gone[p->n_gone++] = d;
}

/* Threads read it under either lock; the caller has that of the list. */
static void set_keeper(struct door *d, struct worker *keeper)
{
        (void)pthread_mutex_lock(&d->lock);
        if (d->keeper != keeper) {
                d->keeper = keeper;
                mail_want_turn(keeper, d->turn_ns);
        }
        (void)pthread_mutex_unlock(&d->lock);
}

static void swap_doors(struct proxy *p, const struct plan *plans, size_t n)
{
        struct door *old[TRAFFIC_DOORS_MAX];
        size_t n_old = p->n_doors;
        memcpy(old, p->doors, sizeof(old));
        (void)pthread_mutex_lock(&p->list_lock);
        for (size_t i = 0; i < n; i++) {
                p->doors[i] = plans[i].door;
                set_keeper(plans[i].door, &p->workers[i % p->n_workers]);
        }
        p->n_doors = n;
        (void)pthread_mutex_unlock(&p->list_lock);
        for (size_t i = 0; i < n_old; i++)
                if (find_door(p, old[i]->name) != old[i])
                        bury_door(p, old[i]);
}

static void forget_plans(const struct plan *plans, size_t n)
{
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < plans[i].n_entrances; k++)
                        plans[i].entrances[k]->is_kept = false;
}

int proxy_change(struct proxy *p, const struct proxy_door *doors, size_t n, struct problem *problem)
{
        struct plan *plans = xcalloc(n + 1, sizeof(*plans));
        int r = OK;
        size_t n_plans = 0;
        ASSERT(n <= TRAFFIC_DOORS_MAX);
        while (r == OK && n_plans < n) {
                r = plan_door(p, &doors[n_plans], &plans[n_plans], problem);
                n_plans++;
        }
        for (size_t i = 0; r != OK && i < n_plans; i++)
                drop_plan(&plans[i]);
        for (size_t i = 0; r == OK && i < n; i++)
                follow_plan(p, &doors[i], &plans[i]);
        if (r == OK) {
                swap_doors(p, plans, n);
                forget_plans(plans, n);
                loop_post(p->loop, &p->mail); /* doors have classes of the file */
                health_poke(p->health);
        }
        free(plans);
        return r;
}

const char *proxy_address(const struct proxy *p, size_t door, size_t i)
{
        if (door >= p->n_doors || i >= p->doors[door]->n_entrances)
                return NULL;
        return p->doors[door]->entrances[i]->address;
}
