/* What is known of a session: who it is, what it prepared, what it waits for, and the bytes that go
 * out to its two sides.  Nothing here closes a socket: pair_end() marks the pair, and whoever
 * handles its event tears it down. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy_int.h"

#define PREPARED_MAX 65536U /* of one session; more are not remembered, and count as writes */

void pair_set_phase(struct pair *c, enum pair_phase phase)
{
        c->phase = phase;
        c->phase_ns = c->worker->now_ns;
}

void pair_end(struct pair *c)
{
        pair_set_phase(c, PAIR_CLOSED);
}

/* A server that TLS cannot agree with is told of; otherwise it is as if it had hung up. */
void pair_lost(struct pair *c, const struct side *s)
{
        const char *why = stream_tls_problem(&s->stream);
        if (s == &c->server && c->phase == PAIR_LOGIN && *why)
                pair_fail(c, c->client_sequence, 2026, "HY000", "weir: TLS with the server %s: %s",
                          c->setup->server, why);
        else
                pair_end(c);
}

void pair_send(struct pair *c, struct side *to, const uint8_t *bytes, size_t n)
{
        if (!n || c->phase == PAIR_CLOSED)
                return;
        ssize_t sent = to->out.len ? STREAM_AGAIN : stream_write(&to->stream, bytes, n);
        if (sent == STREAM_GONE) {
                pair_lost(c, to);
                return;
        }
        if (sent == STREAM_AGAIN)
                sent = 0;
        if ((size_t)sent < n)
                buf_put(&to->out, bytes + sent, n - (size_t)sent);
}

struct expected *pair_expect(struct pair *c, enum mysql_expect expect, uint8_t command)
{
        ASSERT(c->n_expected < EXPECTED_MAX);
        struct expected *e = &c->expected[(c->expected_first + c->n_expected) % EXPECTED_MAX];
        *e = (struct expected){.expect = (uint8_t)expect,
                               .command = command,
                               .kind = SQL_PASS,
                               .sent_ns = c->worker->now_ns};
        if (c->n_expected++ == 0)
                mysql_reply_begin(&c->reply, expect, c->caps);
        if (c->ticket.state == TICKET_RUNNING && c->ticket.is_idle) {
                (void)pthread_mutex_lock(&c->door->lock);
                admission_resume(c->door->admission, &c->ticket, c->worker->now_ns);
                (void)pthread_mutex_unlock(&c->door->lock);
        }
        return e;
}

void pair_fail(struct pair *c, uint8_t sequence, unsigned number, const char *sqlstate,
               const char *fmt, ...)
{
        char text[400];
        struct buf out CLEANUP(buf_release) = {0};
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, args); /* a long one is cut */
        va_end(args);
        mysql_put_error(&out, sequence, number, sqlstate, slice_str(text));
        if (!c->client.out.len) /* the pair ends: what is not taken now is never sent */
                (void)stream_write(&c->client.stream, out.ptr, out.len);
        pair_end(c);
}

/* ---- prepared statements ---- */

/* Index of the first with that id or a larger one. */
static size_t prepared_place(const struct pair *c, uint32_t id)
{
        size_t low = 0, high = c->n_prepared;
        while (low < high) {
                size_t middle = (low + high) / 2;
                if (c->prepared[middle].id < id)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct prepared *prepared_find(const struct pair *c, uint32_t id)
{
        size_t at = prepared_place(c, id == LAST_PREPARED ? c->last_prepared : id);
        uint32_t wanted = id == LAST_PREPARED ? c->last_prepared : id;
        return at < c->n_prepared && c->prepared[at].id == wanted ? &c->prepared[at] : NULL;
}

void prepared_remove(struct pair *c, uint32_t id)
{
        struct prepared *p = prepared_find(c, id);
        if (!p)
                return;
        free(p->sql);
        buf_release(&p->types);
        c->n_prepared--;
        memmove(p, p + 1, (size_t)(c->prepared + c->n_prepared - p) * sizeof(*p));
}

void prepared_add(struct pair *c, const struct prepared *p)
{
        prepared_remove(c, p->id);
        c->last_prepared = p->id;
        if (c->n_prepared == PREPARED_MAX) {
                free(p->sql);
                return;
        }
        if (c->n_prepared == c->prepared_cap) {
                c->prepared_cap = c->prepared_cap ? 2 * c->prepared_cap : 8;
                c->prepared = xrealloc(c->prepared, c->prepared_cap * sizeof(*c->prepared));
        }
        size_t at = prepared_place(c, p->id);
        memmove(&c->prepared[at + 1], &c->prepared[at],
                (c->n_prepared - at) * sizeof(*c->prepared));
        c->prepared[at] = *p;
        c->n_prepared++;
}

void session_forget(struct pair *c)
{
        for (size_t i = 0; i < c->n_prepared; i++) {
                free(c->prepared[i].sql);
                buf_release(&c->prepared[i].types);
        }
        free(c->prepared);
        c->prepared = NULL;
        c->n_prepared = c->prepared_cap = 0;
        c->has_tables_locked = false;
        c->n_user_locks = c->n_handlers = 0;
        c->is_empty_transaction = false;
        for (unsigned i = 0; i < c->n_expected; i++) {
                struct expected *e = &c->expected[(c->expected_first + i) % EXPECTED_MAX];
                free(e->sql);
                e->sql = NULL;
        }
}

/* ---- who it is ---- */

static void take_text(char *to, size_t size, struct slice text)
{
        size_t len = text.len < size - 1 ? text.len : size - 1;
        if (len)
                memcpy(to, text.ptr, len);
        to[len] = '\0';
}

void pair_take_login(struct pair *c, const struct mysql_login *login)
{
        struct slice rest = login->attributes, key, value;
        take_text(c->user, sizeof(c->user), login->user);
        take_text(c->database, sizeof(c->database), login->database);
        c->program[0] = '\0';
        while (mysql_attribute_next(&rest, &key, &value))
                if (slice_eq(key, SLICE_LIT("program_name")))
                        take_text(c->program, sizeof(c->program), value);
        c->class_of[0] = c->class_of[1] = -1;
}

void pair_take_database(struct pair *c, struct slice name)
{
        take_text(c->database, sizeof(c->database), name);
        c->class_of[0] = c->class_of[1] = -1;
}
