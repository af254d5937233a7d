/* SHOW WEIR STATUS and SHOW WEIR CLASSES, answered in the session of whoever asks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proxy/proxy_int.h"

#define CELL_BYTES 64
#define CELLS      15

/* Cells of one row, printed where the row keeps them. */
struct cells {
        struct slice cell[CELLS];
        char room[CELLS][CELL_BYTES];
        size_t n;
};

static void add_text(struct cells *c, const char *text)
{
        c->cell[c->n++] = slice_str(text);
}

static void add_number(struct cells *c, uint64_t number)
{
        char *room = c->room[c->n];
        (void)snprintf(room, CELL_BYTES, "%llu", (unsigned long long)number);
        add_text(c, room);
}

static void add_ms(struct cells *c, int64_t ns)
{
        char *room = c->room[c->n];
        (void)snprintf(room, CELL_BYTES, "%.3f", (double)ns / (double)NS_PER_MS);
        add_text(c, room);
}

static void put_pair(struct mysql_table *t, const char *name, struct cells *value)
{
        struct slice row[] = {slice_str(name), value->cell[0]};
        mysql_table_row(t, row);
        value->n = 0;
}

static void put_number(struct mysql_table *t, const char *name, uint64_t number)
{
        struct cells c = {.n = 0};
        add_number(&c, number);
        put_pair(t, name, &c);
}

static void put_text(struct mysql_table *t, const char *name, const char *text)
{
        struct slice row[] = {slice_str(name), slice_str(text)};
        mysql_table_row(t, row);
}

/* Under the lock of the door. */
static void put_status(struct mysql_table *t, const struct door *d)
{
        static const char *const columns[] = {"Variable_name", "Value"};
        struct admission_state a;
        admission_state(d->admission, &a);
        mysql_table_begin(t, columns, ARRAY_LEN(columns));
        put_text(t, "Door", d->name);
        put_text(t, "Mode", mode_name(d->mode));
        const char *learning = admission_state_learning(&a);
        put_text(t, "Load", a.is_over ? a.why : learning ? learning : "well");
        put_text(t, "Server", d->setup->server);
        put_text(t, "Server_problem", d->problem);
        put_number(t, "Connections", d->n_connections);
        put_number(t, "Running", a.running);
        put_number(t, "Waiting", a.waiting);
        put_number(t, "Executing", a.executing);
        put_number(t, "Window", a.window);
        put_number(t, "In_window", a.excess);
        put_text(t, "Draining", atomic_load(&d->is_draining) ? "yes" : "no");
        mysql_table_end(t);
}

/* Why one of the class waits, or would: "" when it would not. */
static const char *why_of(const struct class_view *v)
{
        if (v->wait.why[0])
                return v->wait.why;
        if (!v->verdicts || !v->verdicts->is_known)
                return "";
        const struct check_verdict *now = &v->verdicts->verdict[2]; /* as most dice fall */
        return now->is_granted ? "" : v->verdicts->why;
}

static void put_class(struct mysql_table *t, const struct door_class *class,
                      const struct class_view *v)
{
        struct cells c = {.n = 0};
        add_text(&c, class->c.identity);
        add_text(&c, class->c.row);
        add_text(&c, v->verdicts && v->verdicts->is_known ? tier_name(v->verdicts->tier) : "");
        add_text(&c, mode_name(v->limits.mode));
        add_number(&c, v->running);
        add_number(&c, v->executing);
        add_number(&c, (uint64_t)llround(v->usual));
        add_number(&c, v->excess);
        add_number(&c, v->waiting);
        add_number(&c, v->counts->transactions);
        add_number(&c, v->counts->held);
        add_number(&c, v->counts->refused);
        add_number(&c, v->counts->observed);
        add_ms(&c, (int64_t)v->counts->busy_ns);
        add_text(&c, why_of(v));
        mysql_table_row(t, c.cell);
}

/* Under the lock of the door. */
static void put_classes(struct mysql_table *t, const struct door *d, int64_t now_ns)
{
        static const char *const columns[] = {"Class",      "Row",
                                              "Tier",       "Mode",
                                              "Running",    "Executing",
                                              "Usual",      "In_window",
                                              "Waiting",    "Transactions",
                                              "Held",       "Refused",
                                              "Would_hold", "Database_time_ms",
                                              "Why"};
        struct class_view view;
        mysql_table_begin(t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < ADMIT_CLASSES_MAX; i++)
                if (d->by_number[i] && admission_view(d->admission, i, now_ns, &view))
                        put_class(t, d->by_number[i], &view);
        mysql_table_end(t);
}

void show_answer(struct pair *c, const struct sql_text *text)
{
        struct door *d = c->door;
        struct buf out CLEANUP(buf_release) = {0};
        struct mysql_table t = {.out = &out, .caps = c->caps, .status = c->status};
        (void)pthread_mutex_lock(&d->lock);
        if (slice_eq_nocase(text->show, SLICE_LIT("STATUS")))
                put_status(&t, d);
        else if (slice_eq_nocase(text->show, SLICE_LIT("CLASSES")))
                put_classes(&t, d, c->worker->now_ns);
        else
                mysql_put_error(&out, 1, 1064, "42000",
                                SLICE_LIT("weir: there is SHOW WEIR STATUS and SHOW WEIR CLASSES"));
        (void)pthread_mutex_unlock(&d->lock);
        pair_send(c, &c->client, (const uint8_t *)out.ptr, out.len);
}
