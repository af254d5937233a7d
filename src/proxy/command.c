/* What a command of the client is, whether it may go now, and what its reply says of the session.
 *
 * Only the start of a transaction is ever made to wait: a statement that can wait, with no
 * transaction open (or one in which nothing was done yet), and no lock of the session's own.  The
 * server's status flags say whether a transaction is open, so procedures and settings that begin
 * one are seen as well.  Where the state is not known yet, because replies are still to come, the
 * command waits for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy_int.h"

#define PREPARED_SQL_MAX 1024U /* of one with tags: comments beyond are not seen again */

/* A statement that is about to be sent. */
struct statement {
        const struct sql_text *text; /* NULL: nothing is known but: */
        struct mysql_attributes attributes;
        enum sql_kind kind;
        bool has_tags;
        uint64_t digest;
};

static struct slice after_command(struct slice payload)
{
        return (struct slice){payload.ptr + 1, payload.len - 1};
}

/* ---- the gate ---- */

static void put_facts(const struct pair *c, const struct statement *s, struct class_facts *ret)
{
        *ret = (struct class_facts){.user = slice_str(c->user),
                                    .database = slice_str(c->database),
                                    .program = slice_str(c->program),
                                    .address = slice_str(c->address),
                                    .text = s->text,
                                    .digest = s->digest,
                                    .kind = s->kind};
        struct mysql_attributes attributes = s->attributes;
        struct slice name, value;
        while (mysql_query_attribute_next(&attributes, &name, &value)) {
                if (slice_eq(name, SLICE_LIT("id")))
                        ret->attribute_id = value;
                else if (slice_eq(name, SLICE_LIT("application")))
                        ret->attribute_application = value;
        }
}

/* Under the lock of the door.  Statements without tags of one connection are of one class, unless
 * the rows ask for more than whether they read or write. */
static size_t class_of(struct pair *c, const struct statement *s)
{
        struct door *d = c->door;
        struct class_facts facts;
        if (c->class_generation != d->generation) {
                c->class_generation = d->generation;
                c->class_of[0] = c->class_of[1] = -1;
        }
        bool is_plain = !s->has_tags && !d->setup->has_digests;
        int *kept = &c->class_of[s->kind != SQL_READ];
        if (is_plain && *kept >= 0)
                return (size_t)*kept;
        put_facts(c, s, &facts);
        size_t number = door_class(d, &facts);
        if (is_plain)
                *kept = (int)number;
        return number;
}

void command_refused(struct pair *c, const struct admit_answer *answer)
{
        struct door *d = c->door;
        (void)pthread_mutex_lock(&d->lock);
        const struct door_class *class = d->by_number[c->ticket.class_number];
        c->refused_error = class->row && class->row->error ? class->row->error : 1213;
        (void)snprintf(c->refused_state, sizeof(c->refused_state), "%s",
                       class->row && class->row->error ? class->row->sqlstate : "40001");
        (void)snprintf(c->why, sizeof(c->why),
                       "weir: class=%.60s reason=%s: %.100s; retry in %u ms; try restarting "
                       "transaction",
                       class->c.identity,
                       answer->reason == ADMIT_BY_POLICY ? check_reason_name(answer->check_reason)
                                                         : admit_reason_name(answer->reason),
                       answer->why, answer->retry_ms);
        (void)pthread_mutex_unlock(&d->lock);
        c->is_refused = true;
}

static enum judgement ask(struct pair *c, const struct statement *s)
{
        struct door *d = c->door;
        struct admit_answer answer;
        int64_t now_ns = c->worker->now_ns;
        (void)pthread_mutex_lock(&d->lock);
        size_t number = class_of(c, s);
        c->use = (struct ticket_use){0};
        c->ticket.digest = s->digest;
        admission_ask(d->admission, &c->ticket, number, now_ns, &answer);
        if (answer.verdict == ADMIT_WAIT) {
                d->n_waiting++;
                (void)snprintf(c->why, sizeof(c->why), "%.*s", (int)sizeof(c->why) - 1, answer.why);
                door_turn(d, now_ns);
        }
        (void)pthread_mutex_unlock(&d->lock);
        door_tell_news(d);
        c->last_class = (uint32_t)number;
        if (answer.verdict == ADMIT_RUN)
                return JUDGE_FORWARD;
        if (answer.verdict == ADMIT_REFUSE) {
                command_refused(c, &answer);
                return JUDGE_REFUSE;
        }
        c->is_held = true;
        c->state_ns = now_ns;
        c->held_digest = s->digest;
        return JUDGE_HOLD;
}

static bool is_inside(const struct pair *c)
{
        return (c->is_in_transaction && !c->is_empty_transaction) || pair_has_locks(c);
}

/* May a statement go now?  Called again for one that had to wait. */
static enum judgement judge(struct pair *c, const struct statement *s)
{
        if (c->is_refused)
                return JUDGE_REFUSE;
        if (c->is_admitted) {
                c->is_admitted = false;
                return JUDGE_FORWARD;
        }
        if (c->n_expected == EXPECTED_MAX)
                return JUDGE_LATER;
        if (!sql_kind_can_wait(s->kind) || is_inside(c) || atomic_load(&c->door->is_off))
                return JUDGE_FORWARD;
        if (c->n_expected)
                return JUDGE_LATER;
        if (c->ticket.state == TICKET_RUNNING)
                return JUDGE_FORWARD;
        return ask(c, s);
}

static void end_transaction(struct pair *c)
{
        struct door *d = c->door;
        (void)pthread_mutex_lock(&d->lock);
        admission_end(d->admission, &c->ticket, &c->use, c->worker->now_ns);
        if (d->n_waiting)
                door_turn(d, c->worker->now_ns);
        (void)pthread_mutex_unlock(&d->lock);
        c->transactions++;
}

/* The transaction is open, and the client has all replies. */
static void rest_transaction(struct pair *c)
{
        struct door *d = c->door;
        (void)pthread_mutex_lock(&d->lock);
        admission_idle(d->admission, &c->ticket, c->worker->now_ns);
        if (d->n_waiting)
                door_turn(d, c->worker->now_ns);
        (void)pthread_mutex_unlock(&d->lock);
}

enum judgement command_judge_blind(struct pair *c)
{
        struct statement s = {.kind = SQL_WRITE, .has_tags = true};
        (void)snprintf(c->program, sizeof(c->program), "blind");
        enum judgement j = judge(c, &s);
        if (j == JUDGE_FORWARD && c->ticket.state == TICKET_RUNNING)
                end_transaction(c);
        return j;
}

/* ---- refusing ---- */

/* An error has no status flags.  After these the server has rolled back. */
static bool is_rolled_back(uint16_t error)
{
        return error == 1213 || error == 1402 || error == 1614;
}

/* The refused command is read to its end.  A transaction that was begun is ended first where the
 * error promises so; after any other error it is still there, as after those of the server. */
static void send_ours(struct pair *c, enum mysql_expect expect, uint8_t command,
                      const struct buf *packet)
{
        pair_expect(c, expect, command)->is_ours = true;
        pair_send(c, &c->server, (const uint8_t *)packet->ptr, packet->len);
}

/* What was sent for the refused statement in advance must not be there when it is tried again: the
 * server would add the next to it. */
static void forget_long_data(struct pair *c)
{
        struct buf out CLEANUP(buf_release) = {0};
        struct prepared *p = c->refused_statement ? prepared_find(c, c->refused_statement) : NULL;
        c->refused_statement = 0;
        if (!p || !p->has_long_data)
                return;
        p->has_long_data = false;
        const uint8_t reset[] = {5,
                                 0,
                                 0,
                                 0,
                                 COM_STMT_RESET,
                                 (uint8_t)p->id,
                                 (uint8_t)(p->id >> 8),
                                 (uint8_t)(p->id >> 16),
                                 (uint8_t)(p->id >> 24)};
        buf_put(&out, reset, sizeof(reset));
        send_ours(c, MYSQL_EXPECT_PACKET, COM_STMT_RESET, &out);
}

void command_answer_refused(struct pair *c)
{
        struct buf out CLEANUP(buf_release) = {0};
        c->is_dropping = c->is_refused = false;
        c->refused_sequence = (uint8_t)(c->rest.sequence + 1);
        c->owes_refusal = true;
        forget_long_data(c);
        if (c->is_in_transaction && is_rolled_back(c->refused_error)) {
                mysql_put_query(&out, c->caps, SLICE_LIT("ROLLBACK"));
                send_ours(c, MYSQL_EXPECT_RESULT, COM_QUERY, &out);
        }
        command_send_refusal(c); /* now, or after what the server still says */
}

void command_send_refusal(struct pair *c)
{
        struct buf out CLEANUP(buf_release) = {0};
        if (!c->owes_refusal || c->n_expected || c->phase == PAIR_CLOSED)
                return;
        c->owes_refusal = false;
        mysql_put_error(&out, c->refused_sequence, c->refused_error, c->refused_state,
                        slice_str(c->why));
        c->why[0] = '\0';
        pair_send(c, &c->client, (const uint8_t *)out.ptr, out.len);
}

/* ---- statements ---- */

static struct session_locks locks_of(const struct sql_text *t)
{
        return (struct session_locks){.takes_lock = t->takes_lock,
                                      .releases_lock = t->releases_lock,
                                      .releases_all = t->releases_all,
                                      .takes_tables = t->takes_tables,
                                      .releases_tables = t->releases_tables,
                                      .opens_handler = t->opens_handler,
                                      .closes_handler = t->closes_handler};
}

/* The text and its digest.  False: it makes no sense to us; the server will say so. */
static bool read_statement(struct pair *c, struct slice payload, struct sql_text *text,
                           struct statement *ret)
{
        struct slice sql;
        struct mysql_attributes attributes;
        if (!mysql_query_text(payload, c->caps, &sql, &attributes))
                return false;
        sql_text_scan(sql, text);
        *ret = (struct statement){.text = text,
                                  .attributes = attributes,
                                  .kind = text->kind,
                                  .has_tags = text->n_tags || attributes.n};
        if (!atomic_load(&c->door->is_off)) {
                ret->digest = sql_digest(sql, NULL);
                statements_learn(pair_statements(c), ret->digest, sql);
        }
        return true;
}

static enum judgement judge_query(struct pair *c, struct slice payload)
{
        struct sql_text text;
        struct statement s;
        if (!read_statement(c, payload, &text, &s)) {
                if (c->n_expected == EXPECTED_MAX)
                        return JUDGE_LATER;
                (void)pair_expect(c, MYSQL_EXPECT_RESULT, COM_QUERY);
                return JUDGE_FORWARD;
        }
        if (text.kind == SQL_WEIR || text.kind == SQL_USE) {
                if (c->n_expected)
                        return JUDGE_LATER;
                if (text.kind == SQL_WEIR) {
                        show_answer(c, &text);
                        return JUDGE_ANSWERED;
                }
        }
        enum judgement j = judge(c, &s);
        if (j != JUDGE_FORWARD)
                return j;
        struct expected *e = pair_expect(c, MYSQL_EXPECT_RESULT, COM_QUERY);
        e->kind = (uint8_t)text.kind;
        e->locks = locks_of(&text);
        e->is_counted = true;
        e->digest = s.digest;
        e->kill_id = text.kill_id;
        e->is_kill_statement = text.is_kill_statement;
        if (text.kind == SQL_USE)
                (void)snprintf(c->next_database, sizeof(c->next_database), "%.*s",
                               (int)text.database.len, text.database.ptr);
        return j;
}

/* Never waits.  What it prepares is remembered when the server has numbered it. */
static enum judgement judge_prepare(struct pair *c, struct slice payload)
{
        struct sql_text text;
        struct slice sql = after_command(payload);
        if (c->n_expected == EXPECTED_MAX)
                return JUDGE_LATER;
        sql_text_scan(sql, &text);
        struct expected *e = pair_expect(c, MYSQL_EXPECT_PREPARE, COM_STMT_PREPARE);
        e->kind = (uint8_t)text.kind;
        e->locks = locks_of(&text);
        e->digest = sql_digest(sql, NULL);
        statements_learn(pair_statements(c), e->digest, sql);
        if (text.n_tags) {
                e->sql_len = sql.len < PREPARED_SQL_MAX ? sql.len : PREPARED_SQL_MAX;
                e->sql = xmalloc(e->sql_len);
                memcpy(e->sql, sql.ptr, e->sql_len);
        }
        return JUDGE_FORWARD;
}

/* The server never saw the types of a statement that was refused, and its client sends them once:
 * they are kept for the next. */
static void keep_types(struct pair *c, struct prepared *p, struct slice payload)
{
        struct mysql_types types;
        c->refused_statement = p->id;
        if (!mysql_execute_types(payload, c->caps, p->parameters, &types) || !types.is_there)
                return;
        buf_clear(&p->types);
        buf_put_slice(&p->types, types.all);
        p->lacks_types = true;
}

/* Sends the command with the types that the server lacks.  False: as it is. */
static bool send_with_types(struct pair *c, struct prepared *p, const uint8_t *header,
                            struct slice payload)
{
        struct buf out CLEANUP(buf_release) = {0};
        struct mysql_types types;
        p->has_long_data = false;
        if (!p->lacks_types || !mysql_execute_types(payload, c->caps, p->parameters, &types))
                return false;
        p->lacks_types = false;
        size_t len = mysql_length(header) + p->types.len,
               before = (size_t)(types.all.ptr - payload.ptr);
        if (types.is_there || len >= MYSQL_PAYLOAD_MAX)
                return false;
        const uint8_t longer[MYSQL_HEADER] = {(uint8_t)len, (uint8_t)(len >> 8),
                                              (uint8_t)(len >> 16), header[3]};
        buf_put(&out, longer, sizeof(longer));
        buf_put(&out, payload.ptr, before);
        out.ptr[MYSQL_HEADER + types.flag_at] |= (char)types.flag;
        buf_put_slice(&out, buf_slice(&p->types));
        buf_put(&out, types.all.ptr, payload.len - before);
        pair_send(c, &c->server, (const uint8_t *)out.ptr, out.len);
        return true;
}

static void expect_execute(struct pair *c, const struct statement *s, uint8_t command,
                           const struct prepared *p)
{
        struct expected *e = pair_expect(c, MYSQL_EXPECT_EXECUTE, command);
        e->kind = (uint8_t)s->kind;
        e->digest = s->digest;
        e->is_counted = true;
        if (p)
                e->locks = p->locks;
}

static enum judgement judge_execute(struct pair *c, const uint8_t *header, struct slice payload)
{
        struct sql_text text;
        struct statement s = {.kind = SQL_WRITE};
        struct slice rest = after_command(payload);
        uint32_t id = 0;
        struct prepared *p = NULL;
        if (mysql_get_u32(&rest, &id)) {
                if (id == LAST_PREPARED && c->n_expected)
                        return JUDGE_LATER; /* the one that is being prepared */
                p = prepared_find(c, id);
        }
        if (p) {
                s.kind = p->kind;
                s.digest = p->digest;
        }
        if (p && p->sql) {
                sql_text_scan((struct slice){p->sql, p->sql_len}, &text);
                s.text = &text;
                s.has_tags = true;
        }
        enum judgement j = judge(c, &s);
        if (j == JUDGE_REFUSE && p)
                keep_types(c, p, payload);
        if (j != JUDGE_FORWARD)
                return j;
        expect_execute(c, &s, (uint8_t)payload.ptr[0], p);
        return p && send_with_types(c, p, header, payload) ? JUDGE_SENT : JUDGE_FORWARD;
}

/* ---- other commands ---- */

static enum judgement judge_change_user(struct pair *c, struct slice payload)
{
        struct mysql_login login;
        struct problem problem;
        if (c->n_expected)
                return JUDGE_LATER;
        if (mysql_change_user_parse(payload, c->caps, &login, &problem) != OK) {
                pair_fail(c, 1, 1043, "08S01", "weir: %s", problem.detail);
                return JUDGE_ANSWERED;
        }
        struct door *d = c->door;
        (void)pthread_mutex_lock(&d->lock);
        door_remove_user(d, c->user);
        pair_take_login(c, &login);
        c->is_user_counted = door_add_user(d, c->setup, c->user);
        (void)pthread_mutex_unlock(&d->lock);
        c->login_turns = 0;
        (void)pair_expect(c, MYSQL_EXPECT_LOGIN, COM_CHANGE_USER);
        return JUDGE_FORWARD;
}

static enum judgement judge_init_db(struct pair *c, struct slice payload)
{
        if (c->n_expected)
                return JUDGE_LATER;
        (void)snprintf(c->next_database, sizeof(c->next_database), "%.*s", (int)payload.len - 1,
                       payload.ptr + 1);
        (void)pair_expect(c, MYSQL_EXPECT_PACKET, COM_INIT_DB);
        return JUDGE_FORWARD;
}

static enum judgement judge_long_data(struct pair *c, struct slice payload)
{
        struct slice rest = after_command(payload);
        uint32_t id;
        struct prepared *p = mysql_get_u32(&rest, &id) ? prepared_find(c, id) : NULL;
        if (p)
                p->has_long_data = true;
        return JUDGE_FORWARD;
}

static enum judgement judge_close(struct pair *c, struct slice payload)
{
        struct slice rest = after_command(payload);
        uint32_t id;
        if (mysql_get_u32(&rest, &id))
                prepared_remove(c, id);
        return JUDGE_FORWARD;
}

/* How the server replies to the others; -1: not at all. */
#define NO_REPLY (-1)
static int reply_of(uint8_t command)
{
        switch (command) {
        case COM_QUIT:
                return NO_REPLY;
        case COM_FIELD_LIST:
                return MYSQL_EXPECT_COLUMNS;
        case COM_PROCESS_INFO:
                return MYSQL_EXPECT_RESULT;
        case COM_STMT_FETCH:
                return MYSQL_EXPECT_ROWS;
        default: /* one packet; for what the server does not know either, an error */
                return MYSQL_EXPECT_PACKET;
        }
}

/* Commands after which the server sends what nobody can follow, unless it refuses them. */
static bool begins_stream(uint8_t command)
{
        return command == COM_BINLOG_DUMP || command == COM_BINLOG_DUMP_GTID ||
               command == COM_TABLE_DUMP || command == COM_CLONE || command == COM_SUBSCRIBE_GROUP;
}

static enum judgement judge_other(struct pair *c, uint8_t command)
{
        int reply = reply_of(command);
        if (reply == NO_REPLY)
                return JUDGE_FORWARD;
        if (c->n_expected == EXPECTED_MAX || (begins_stream(command) && c->n_expected))
                return JUDGE_LATER;
        (void)pair_expect(c, (enum mysql_expect)reply, command);
        return JUDGE_FORWARD;
}

enum judgement command_judge(struct pair *c, const uint8_t header[MYSQL_HEADER],
                             struct slice payload)
{
        uint8_t command = payload.len ? (uint8_t)payload.ptr[0] : 0;
        if (c->owes_refusal)
                return JUDGE_LATER;
        switch (command) {
        case COM_QUERY:
                return judge_query(c, payload);
        case COM_STMT_PREPARE:
                return judge_prepare(c, payload);
        case COM_STMT_EXECUTE:
        case COM_STMT_BULK_EXECUTE:
                return judge_execute(c, header, payload);
        case COM_STMT_SEND_LONG_DATA:
                return judge_long_data(c, payload);
        case COM_STMT_CLOSE:
                return judge_close(c, payload);
        case COM_INIT_DB:
                return judge_init_db(c, payload);
        case COM_CHANGE_USER:
                return judge_change_user(c, payload);
        default:
                return judge_other(c, command);
        }
}

/* ---- replies ---- */

static void follow_transaction(struct pair *c, const struct expected *e)
{
        const struct mysql_reply *r = &c->reply;
        if (r->has_status) {
                c->status = r->status;
                c->is_in_transaction = r->status & MYSQL_STATUS_IN_TRANS;
        } else if (r->is_error && is_rolled_back(r->error)) {
                c->is_in_transaction = false;
        }
        if (c->is_in_transaction && e->command == COM_STMT_PREPARE)
                return; /* the statement did not run, whatever its text is */
        if (c->is_in_transaction && e->kind == SQL_BEGIN && !r->is_error)
                c->is_empty_transaction = true;
        else if (!c->is_in_transaction ||
                 (e->kind != SQL_PASS && e->kind != SQL_USE && e->kind != SQL_KILL))
                c->is_empty_transaction = false;
}

static void follow_locks(struct pair *c, const struct expected *e)
{
        const struct session_locks *l = &e->locks;
        if (c->reply.is_error || e->command == COM_STMT_PREPARE)
                return;
        if (l->takes_tables || l->releases_tables)
                c->has_tables_locked = l->takes_tables;
        if (l->releases_lock && c->n_user_locks)
                c->n_user_locks--;
        if (l->releases_all)
                c->n_user_locks = 0;
        c->n_user_locks += l->takes_lock;
        if (l->closes_handler && c->n_handlers)
                c->n_handlers--;
        c->n_handlers += l->opens_handler;
}

static void remember_prepared(struct pair *c, const struct expected *e)
{
        if (c->reply.is_error) {
                free(e->sql);
                return;
        }
        prepared_add(c, &(struct prepared){.id = c->reply.statement_id,
                                           .parameters = c->reply.parameters,
                                           .kind = e->kind,
                                           .locks = e->locks,
                                           .digest = e->digest,
                                           .sql = e->sql,
                                           .sql_len = e->sql_len});
}

static void follow_session(struct pair *c, const struct expected *e)
{
        bool is_fine = !c->reply.is_error;
        if (e->command == COM_STMT_PREPARE)
                remember_prepared(c, e);
        else if (is_fine && (e->command == COM_INIT_DB || e->kind == SQL_USE))
                pair_take_database(c, slice_str(c->next_database));
        else if (is_fine && (e->command == COM_RESET_CONNECTION || e->command == COM_CHANGE_USER))
                session_forget(c);
        else if (is_fine && e->kind == SQL_KILL && e->is_kill_statement && e->kill_id)
                mail_kill(c->door->proxy, c->door, e->kill_id);
        else if (is_fine && begins_stream(e->command))
                pair_set_phase(c, PAIR_BLIND);
        if (c->phase == PAIR_LOGIN && is_fine) {
                pair_set_phase(c, PAIR_READY);
                c->sequence_shift = 0;
        }
}

static void count_statement(struct pair *c, const struct expected *e)
{
        const struct mysql_reply *r = &c->reply;
        struct statement_use use = {.class_number = c->ticket.state == TICKET_RUNNING
                                                            ? c->ticket.class_number
                                                            : UINT32_MAX,
                                    .is_error = r->is_error,
                                    .rows = r->rows + r->affected,
                                    .busy_ns = c->worker->now_ns - e->sent_ns};
        c->statements++;
        c->use.statements++;
        c->use.rows += use.rows;
        c->use.errors += use.is_error;
        c->use.busy_ns += use.busy_ns;
        if (!atomic_load(&c->door->is_off))
                statements_count(pair_statements(c), e->digest, &use);
}

void command_replied(struct pair *c, const struct expected *e)
{
        c->state_ns = c->worker->now_ns;
        follow_transaction(c, e);
        follow_locks(c, e);
        follow_session(c, e);
        if (e->is_counted && !e->is_ours)
                count_statement(c, e);
        if (c->ticket.state != TICKET_RUNNING || c->n_expected)
                return;
        if (!c->is_in_transaction)
                end_transaction(c);
        else if (!c->ticket.is_idle)
                rest_transaction(c);
}
