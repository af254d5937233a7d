/* What the core may ask of the threads: see struct traffic_threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy_int.h"

static struct door *door_at(void *ctx, size_t door)
{
        struct proxy *p = ctx;
        ASSERT(door < p->n_doors);
        return p->doors[door];
}

static void publish(void *ctx, size_t door, struct door_policy *policy)
{
        struct door *d = door_at(ctx, door);
        int64_t now_ns = clock_boot_ns();
        (void)pthread_mutex_lock(&d->lock);
        admission_publish(d->admission, policy, now_ns);
        if (d->n_waiting)
                door_turn(d, now_ns);
        (void)pthread_mutex_unlock(&d->lock);
}

static void set_mode(void *ctx, size_t door, enum gate_mode mode)
{
        door_set_mode(door_at(ctx, door), mode);
}

static void drain(void *ctx, size_t door, bool is_on)
{
        struct door *d = door_at(ctx, door);
        atomic_store(&d->is_draining, is_on);
}

/* ---- counts ---- */

static void put_listens(const struct door *d, char *ret, size_t size)
{
        size_t len = 0;
        ret[0] = '\0';
        for (size_t i = 0; i < d->n_entrances && len < size; i++) /* cut is fine */
                len += (size_t)snprintf(ret + len, size - len, "%s%s", i ? ", " : "",
                                        d->entrances[i]->address);
}

static void count_conns(struct worker *w, const struct door *d, struct traffic_door *ret)
{
        (void)pthread_mutex_lock(&w->lock);
        ret->bytes_in += d->shares[w->number].bytes_in;
        ret->bytes_out += d->shares[w->number].bytes_out;
        for (struct list *i = w->conns.next; i != &w->conns; i = i->next) {
                const struct pair *c = CONTAINER_OF(i, const struct pair, link);
                if (c->door != d)
                        continue;
                ret->in_transaction += c->is_in_transaction;
                ret->with_locks += pair_has_locks(c);
                ret->blind += c->phase == PAIR_BLIND;
        }
        (void)pthread_mutex_unlock(&w->lock);
}

static void state(void *ctx, size_t door, struct traffic_door *ret)
{
        struct proxy *p = ctx;
        struct door *d = door_at(ctx, door);
        *ret = (struct traffic_door){.is_draining = atomic_load(&d->is_draining)};
        put_listens(d, ret->listens, sizeof(ret->listens));
        (void)pthread_mutex_lock(&d->lock);
        (void)snprintf(ret->server, sizeof(ret->server), "%s", d->setup->server);
        (void)snprintf(ret->problem, sizeof(ret->problem), "%s", d->problem);
        ret->connections = d->n_connections;
        ret->connections_max = d->setup->max_connections;
        ret->accepted = d->accepted;
        ret->refused = d->refused;
        admission_state(d->admission, &ret->admission);
        (void)pthread_mutex_unlock(&d->lock);
        for (unsigned i = 0; i < p->n_workers; i++)
                count_conns(&p->workers[i], d, ret);
}

static size_t n_classes(void *ctx, size_t door)
{
        struct door *d = door_at(ctx, door);
        (void)pthread_mutex_lock(&d->lock);
        size_t n = d->by_number[ADMIT_CLASSES_MAX - 1] ? ADMIT_CLASSES_MAX : d->n_classes;
        (void)pthread_mutex_unlock(&d->lock);
        return n;
}

static void each_class(void *ctx, size_t door,
                       void (*fn)(void *fn_ctx, size_t number, const struct traffic_class *c,
                                  const struct class_view *v),
                       void *fn_ctx)
{
        struct door *d = door_at(ctx, door);
        struct class_view view;
        int64_t now_ns = clock_boot_ns();
        (void)pthread_mutex_lock(&d->lock);
        for (size_t i = 0; i < ADMIT_CLASSES_MAX; i++)
                if (d->by_number[i] && admission_view(d->admission, i, now_ns, &view))
                        fn(fn_ctx, i, &d->by_number[i]->c, &view);
        (void)pthread_mutex_unlock(&d->lock);
}

/* ---- clients ---- */

static void put_client(const struct pair *c, int64_t now_ns, struct traffic_client *ret)
{
        *ret = (struct traffic_client){
                .thread_id = c->thread_id,
                .state = pair_state(c),
                .has_locks = pair_has_locks(c),
                .state_ns = now_ns - c->state_ns,
                .connected_ns = now_ns - c->began_ns,
                .statements = c->statements,
                .transactions = c->transactions,
                .class_number = c->last_class,
        };
        memcpy(ret->user, c->user, sizeof(ret->user));
        memcpy(ret->database, c->database, sizeof(ret->database));
        memcpy(ret->program, c->program, sizeof(ret->program));
        memcpy(ret->address, c->address, sizeof(ret->address));
        memcpy(ret->why, c->why, sizeof(ret->why));
        if (ret->state == TRAFFIC_HELD)
                (void)snprintf(ret->text, sizeof(ret->text), "%s",
                               statements_text(pair_statements(c), c->held_digest));
}

static size_t clients(void *ctx, size_t door, struct traffic_client *ret, size_t max,
                      bool *ret_more)
{
        struct proxy *p = ctx;
        const struct door *d = door_at(ctx, door);
        int64_t now_ns = clock_boot_ns();
        size_t n = 0;
        *ret_more = false;
        for (unsigned i = 0; i < p->n_workers; i++) {
                struct worker *w = &p->workers[i];
                (void)pthread_mutex_lock(&w->lock);
                for (struct list *k = w->conns.next; k != &w->conns; k = k->next) {
                        const struct pair *c = CONTAINER_OF(k, const struct pair, link);
                        if (c->door == d && n < max)
                                put_client(c, now_ns, &ret[n++]);
                        else if (c->door == d)
                                *ret_more = true;
                }
                (void)pthread_mutex_unlock(&w->lock);
        }
        return n;
}

/* ---- statements ---- */

static size_t statements(void *ctx, size_t door, enum traffic_order order,
                         struct traffic_statement *ret, size_t max)
{
        struct proxy *p = ctx;
        const struct door *d = door_at(ctx, door);
        struct statements *sum = statements_new();
        for (unsigned i = 0; i < p->n_workers; i++) {
                struct worker *w = &p->workers[i];
                (void)pthread_mutex_lock(&w->lock);
                statements_add_to(d->shares[i].statements, sum);
                (void)pthread_mutex_unlock(&w->lock);
        }
        size_t n = statements_best(sum, order, ret, max);
        (void)statements_free(sum);
        return n;
}

static void explain(void *ctx, size_t door, const struct class_facts *facts, struct slice sql,
                    struct traffic_explained *ret)
{
        struct door *d = door_at(ctx, door);
        const struct class_row *row;
        (void)pthread_mutex_lock(&d->lock);
        class_explain(d->setup->classes, facts, sql, &ret->how);
        struct class_facts known = *facts;
        known.text = &ret->how.text;
        known.digest = ret->how.digest;
        known.kind = ret->how.kind;
        door_describe(d, &known, &row, &ret->class);
        ret->limits = door_limits(d, row);
        admission_state(d->admission, &ret->admission);
        const struct door_class *class = door_find_class(d, &ret->class);
        ret->is_seen =
                class && admission_view(d->admission, class->number, clock_boot_ns(), &ret->view);
        ret->view.counts = NULL; /* they belong to the lock */
        ret->view.verdicts = NULL;
        (void)pthread_mutex_unlock(&d->lock);
}

struct traffic_threads proxy_for_core(struct proxy *p)
{
        return (struct traffic_threads){.publish = publish,
                                        .set_mode = set_mode,
                                        .drain = drain,
                                        .state = state,
                                        .n_classes = n_classes,
                                        .each_class = each_class,
                                        .clients = clients,
                                        .statements = statements,
                                        .explain = explain,
                                        .ctx = p};
}
