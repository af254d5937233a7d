/* What the connections of a door share: its classes and their admission, its users, the server.
 *
 * A class is the pair of a row of the file and an identity, with the tier that comments ask for.
 * Its number is its place in `by_number`, for good: threads, admission and the core speak of it by
 * that number.  After a reload it belongs to the row of the same name. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy_int.h"

#define CLASS_OTHER (ADMIT_CLASSES_MAX - 1)

static void on_decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        struct door *d = ctx;
        d->n_waiting--;
        mail_decided(t->owner, answer);
}

/* ---- life ---- */

struct door *door_new(struct proxy *p, const char *name)
{
        struct door *d = xcalloc(1, sizeof(*d));
        uint64_t seed = (uint64_t)clock_boot_ns();
        d->proxy = p;
        d->name = xstrdup(name);
        (void)pthread_mutex_init(&d->lock, NULL);
        d->shares = xcalloc(p->n_workers, sizeof(*d->shares));
        for (unsigned i = 0; i < p->n_workers; i++)
                d->shares[i].statements = statements_new();
        d->admission = admission_new(seed, on_decided, d);
        /* Until the core has decided about a class, it waits for that, also at the very start. */
        admission_publish(d->admission, door_policy_new(0), clock_boot_ns());
        hash_init(&d->classes, seed);
        hash_init(&d->users, seed);
        d->turn_ns = INT64_MAX;
        return d;
}

static void free_classes(struct door *d)
{
        for (size_t i = 0; i < ADMIT_CLASSES_MAX; i++)
                free(d->by_number[i]);
        hash_release(&d->classes);
}

static void free_users(struct door *d)
{
        struct hash_node *next;
        for (struct hash_node *n = hash_next(&d->users, NULL); n; n = next) {
                next = hash_next(&d->users, n);
                free(CONTAINER_OF(n, struct door_user, node));
        }
        hash_release(&d->users);
}

struct door *door_free(struct door *d)
{
        d->admission = admission_free(d->admission);
        free_classes(d);
        free_users(d);
        for (unsigned i = 0; i < d->proxy->n_workers; i++)
                (void)statements_free(d->shares[i].statements);
        free(d->shares);
        setup_unref(d->setup);
        (void)pthread_mutex_destroy(&d->lock);
        free(d->name);
        free(d);
        return NULL;
}

/* ---- classes ---- */

struct class_limits door_limits(const struct door *d, const struct class_row *row)
{
        struct class_limits l = {.mode = d->mode, .wait_ns = d->setup->wait_ns};
        if (!row)
                return l;
        if (row->mode >= 0)
                l.mode = (enum gate_mode)row->mode;
        if (row->wait_ms >= 0)
                l.wait_ns = row->wait_ms * NS_PER_MS;
        l.concurrency = row->concurrency;
        l.rate = row->rate;
        l.budget_ns = row->time_budget_ms * NS_PER_MS;
        return l;
}

static void set_limits(struct door *d, size_t number)
{
        struct class_limits l = door_limits(d, d->by_number[number]->row);
        admission_set_class(d->admission, number, &l, clock_boot_ns());
}

static struct door_class *class_new(const struct class_row *row, const struct traffic_class *c,
                                    struct slice key)
{
        struct door_class *made = xcalloc(1, sizeof(*made) + key.len + 1);
        made->c = *c;
        made->row = row;
        if (key.len)
                memcpy(made->key, key.ptr, key.len);
        return made;
}

static size_t add_class(struct door *d, const struct class_row *row, const struct traffic_class *c,
                        struct slice key)
{
        if (d->n_classes == CLASS_OTHER) {
                if (!d->by_number[CLASS_OTHER]) {
                        struct traffic_class other = {
                                .identity = "other", .tier = -1, .comment_tier = -1};
                        d->by_number[CLASS_OTHER] = class_new(NULL, &other, SLICE_NONE);
                        set_limits(d, CLASS_OTHER);
                        atomic_store(&d->has_news, true);
                }
                return CLASS_OTHER;
        }
        size_t number = d->n_classes++;
        struct door_class *made = class_new(row, c, key);
        made->number = (uint16_t)number;
        d->by_number[number] = made;
        hash_insert(&d->classes, &made->node, (struct slice){made->key, key.len});
        set_limits(d, number);
        atomic_store(&d->has_news, true);
        return number;
}

/* -1: the comments say none. */
static int8_t comment_tier(const struct class_facts *facts)
{
        enum tier a = class_tier(NULL, facts, TIER_CRITICAL, true);
        enum tier b = class_tier(NULL, facts, TIER_DEFERRABLE, true);
        return a == b ? (int8_t)a : -1;
}

static void describe(const struct door *d, const struct class_row *row,
                     const struct class_facts *facts, struct traffic_class *ret)
{
        *ret = (struct traffic_class){.tier = row ? (int8_t)row->tier : -1,
                                      .comment_tier = comment_tier(facts),
                                      .is_comment_trusted = d->setup->is_comment_trusted};
        if (row)
                (void)snprintf(ret->row, sizeof(ret->row), "%.*s", (int)row->name.len,
                               row->name.ptr);
        (void)class_identity(row, facts, ret->identity, sizeof(ret->identity));
}

void door_describe(const struct door *d, const struct class_facts *facts,
                   const struct class_row **ret_row, struct traffic_class *ret)
{
        *ret_row = class_find(d->setup->classes, facts);
        describe(d, *ret_row, facts, ret);
}

#define KEY_BYTES (sizeof(((struct traffic_class *)0)->row) + IDENTITY_BYTES + 9)

static struct slice key_of(const struct traffic_class *c, char ret[KEY_BYTES])
{
        int len = snprintf(ret, KEY_BYTES, "%d\n%s\n%s", c->comment_tier, c->row, c->identity);
        return (struct slice){ret, (size_t)len};
}

const struct door_class *door_find_class(const struct door *d, const struct traffic_class *c)
{
        char key[KEY_BYTES];
        const struct hash_node *node = hash_find(&d->classes, key_of(c, key));
        return node ? CONTAINER_OF(node, const struct door_class, node) : NULL;
}

static size_t number_of(struct door *d, const struct class_row *row, const struct traffic_class *c)
{
        char key[KEY_BYTES];
        const struct door_class *found = door_find_class(d, c);
        return found ? found->number : add_class(d, row, c, key_of(c, key));
}

size_t door_class(struct door *d, const struct class_facts *facts)
{
        struct traffic_class c;
        const struct class_row *row;
        door_describe(d, facts, &row, &c);
        return number_of(d, row, &c);
}

/* The classes of the file are made before their first transaction, which would wait for the core
 * to decide about them. */
static void make_classes(struct door *d)
{
        static const struct class_facts nothing = {.kind = SQL_KINDS};
        const struct class_table *t = d->setup->classes;
        for (size_t i = 0; i < class_table_len(t); i++) {
                struct traffic_class c;
                describe(d, class_table_row(t, i), &nothing, &c);
                (void)number_of(d, class_table_row(t, i), &c);
        }
}

static const struct class_row *row_by_name(const struct class_table *t, const char *name)
{
        for (size_t i = 0; i < class_table_len(t); i++)
                if (slice_eq(class_table_row(t, i)->name, slice_str(name)))
                        return class_table_row(t, i);
        return NULL;
}

void door_remember(struct door *d, const struct traffic_class *class,
                   const struct usual_memory *memory, const struct digest_row *rows, size_t n)
{
        const struct class_row *row = row_by_name(d->setup->classes, class->row);
        struct identity who;
        struct problem unused;
        if (class->row[0] && !row)
                return;
        if (identity_parse(slice_str(class->identity), &who, &unused) != OK)
                return;
        struct traffic_class c = *class;
        c.tier = row ? (int8_t)row->tier : -1;
        c.is_comment_trusted = d->setup->is_comment_trusted;
        size_t number = number_of(d, row, &c);
        if (number == CLASS_OTHER || !admission_remember(d->admission, number, memory))
                return; /* it learns anew */
        for (size_t i = 0; i < n; i++) {
                struct digest_row known = rows[i];
                known.class_number = (uint16_t)number;
                (void)admission_remember_digest(d->admission, &known); /* else it is new */
        }
}

void door_tell_news(struct door *d)
{
        if (atomic_load(&d->has_news))
                loop_post(d->proxy->loop, &d->proxy->mail);
}

/* ---- admission ---- */

void door_turn(struct door *d, int64_t now_ns)
{
        d->turn_ns = admission_turn(d->admission, now_ns);
        if (d->keeper)
                mail_want_turn(d->keeper, d->turn_ns);
}

/* ---- setup ---- */

static void follow_mode(struct door *d)
{
        bool is_off = d->mode == MODE_OFF && !d->setup->has_modes;
        atomic_store(&d->is_off, is_off);
        for (size_t i = 0; i < ADMIT_CLASSES_MAX; i++)
                if (d->by_number[i])
                        set_limits(d, i);
}

void door_set(struct door *d, struct setup *setup, const struct proxy_door *o)
{
        int64_t now_ns = clock_boot_ns();
        (void)pthread_mutex_lock(&d->lock);
        struct setup *old = d->setup;
        d->setup = setup;
        d->generation++;
        if (!old || old->mode != setup->mode)
                d->mode = setup->mode;
        for (size_t i = 0; i < ADMIT_CLASSES_MAX; i++)
                if (d->by_number[i])
                        d->by_number[i]->row = row_by_name(setup->classes, d->by_number[i]->c.row);
        make_classes(d);
        follow_mode(d);
        admission_set_door(d->admission, o->concurrency, o->is_floor_off, now_ns);
        door_turn(d, now_ns);
        (void)pthread_mutex_unlock(&d->lock);
        setup_unref(old);
}

void door_set_mode(struct door *d, enum gate_mode mode)
{
        (void)pthread_mutex_lock(&d->lock);
        d->mode = mode;
        follow_mode(d);
        door_turn(d, clock_boot_ns());
        (void)pthread_mutex_unlock(&d->lock);
}

/* ---- users ---- */

bool door_add_user(struct door *d, const struct setup *setup, const char *user)
{
        struct slice name = slice_str(user);
        struct hash_node *node = hash_find(&d->users, name);
        struct door_user *u = node ? CONTAINER_OF(node, struct door_user, node) : NULL;
        if (u && setup->max_user_connections && u->connections >= setup->max_user_connections) {
                d->refused++;
                return false;
        }
        if (!u) {
                u = xcalloc(1, sizeof(*u) + name.len + 1);
                memcpy(u->name, user, name.len + 1);
                hash_insert(&d->users, &u->node, (struct slice){u->name, name.len});
        }
        u->connections++;
        return true;
}

void door_remove_user(struct door *d, const char *user)
{
        struct hash_node *node = hash_find(&d->users, slice_str(user));
        struct door_user *u = node ? CONTAINER_OF(node, struct door_user, node) : NULL;
        if (!u || --u->connections > 0)
                return;
        hash_remove(&d->users, node);
        free(u);
}

/* ---- the server ---- */

void door_server_problem(struct door *d, const char *fmt, ...)
{
        va_list args;
        va_start(args, fmt);
        (void)pthread_mutex_lock(&d->lock);
        (void)vsnprintf(d->problem, sizeof(d->problem), fmt, args);
        (void)pthread_mutex_unlock(&d->lock);
        va_end(args);
        health_poke(d->proxy->health);
}

void door_server_fine(struct door *d)
{
        (void)pthread_mutex_lock(&d->lock);
        d->problem[0] = '\0';
        (void)pthread_mutex_unlock(&d->lock);
}
