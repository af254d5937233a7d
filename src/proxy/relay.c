/* Bytes from one side to the other.
 *
 * What is read is looked at in place and sent on in as few pieces as possible: usually one read and
 * one write per direction of a statement.  Only what cannot go on yet is kept: bytes of the client
 * that are not judged or are held in c->in, bytes that a socket does not take in side.out.  While
 * the latter holds any, the other side is not read, so a slow peer costs one read of memory. */
#include <string.h>

#include "proxy/proxy_int.h"

static void reply_done(struct pair *c)
{
        struct expected done = c->expected[c->expected_first];
        c->expected_first = (c->expected_first + 1) % EXPECTED_MAX;
        c->n_expected--;
        command_replied(c, &done);
        if (c->n_expected)
                mysql_reply_begin(&c->reply, c->expected[c->expected_first].expect, c->caps);
}

/* ---- from the client ---- */

static bool is_whole(const uint8_t *bytes, size_t n, size_t *ret_first)
{
        if (n < MYSQL_HEADER)
                return false;
        size_t len = mysql_length(bytes);
        *ret_first = len < COLLECT_BYTES ? len : COLLECT_BYTES;
        return n - MYSQL_HEADER >= *ret_first;
}

/* A packet that is part of a login or of a file: no command. */
static enum taken take_part(struct pair *c, const uint8_t *bytes, size_t n, size_t *ret)
{
        if (n < MYSQL_HEADER)
                return TAKEN_NOTHING;
        if (c->wants_file) {
                c->wants_file = mysql_length(bytes) > 0;
        } else {
                if (!c->login_turns)
                        return TAKEN_NOTHING;
                c->login_turns--;
        }
        mysql_rest_begin(&c->rest, bytes, 0);
        *ret = MYSQL_HEADER;
        if (!c->sequence_shift)
                return TAKEN_FORWARD;
        uint8_t header[MYSQL_HEADER] = {bytes[0], bytes[1], bytes[2],
                                        (uint8_t)(bytes[3] + c->sequence_shift)};
        pair_send(c, &c->server, header, sizeof(header));
        return TAKEN_DROP;
}

static enum taken take_command(struct pair *c, const uint8_t *bytes, size_t n, size_t *ret)
{
        size_t first;
        if (!is_whole(bytes, n, &first))
                return TAKEN_NOTHING;
        enum judgement j =
                command_judge(c, bytes, (struct slice){(const char *)bytes + MYSQL_HEADER, first});
        *ret = MYSQL_HEADER + first;
        switch (j) {
        case JUDGE_FORWARD:
                mysql_rest_begin(&c->rest, bytes, first);
                return TAKEN_FORWARD;
        case JUDGE_SENT:
                mysql_rest_begin(&c->rest, bytes, first);
                return TAKEN_DROP;
        case JUDGE_REFUSE:
                mysql_rest_begin(&c->rest, bytes, first);
                c->is_dropping = true;
                if (mysql_rest_is_done(&c->rest))
                        command_answer_refused(c);
                return TAKEN_DROP;
        case JUDGE_ANSWERED:
                return TAKEN_DROP;
        case JUDGE_HOLD:
        case JUDGE_LATER:
                break;
        }
        c->is_replying_late = j == JUDGE_LATER;
        return TAKEN_NOTHING;
}

static enum taken take_rest(struct pair *c, const uint8_t *bytes, size_t n, size_t *ret)
{
        *ret = mysql_rest_pass(&c->rest, bytes, n);
        if (!c->is_dropping)
                return TAKEN_FORWARD;
        if (mysql_rest_is_done(&c->rest))
                command_answer_refused(c);
        return TAKEN_DROP;
}

static bool expects_login(const struct pair *c)
{
        return c->n_expected && c->expected[c->expected_first].expect == MYSQL_EXPECT_LOGIN;
}

static enum taken take_next(struct pair *c, const uint8_t *bytes, size_t n, size_t *ret)
{
        *ret = n;
        if (c->phase == PAIR_BLIND)
                return TAKEN_FORWARD;
        if (!mysql_rest_is_done(&c->rest))
                return take_rest(c, bytes, n, ret);
        if (c->phase == PAIR_LOGIN && !c->is_login_sent)
                return login_take(c, bytes, n, ret);
        if (c->wants_file || expects_login(c))
                return take_part(c, bytes, n, ret);
        return take_command(c, bytes, n, ret);
}

/* Returns how many bytes were taken; [sent, taken) is what goes on in one piece. */
static size_t take_bytes(struct pair *c, const uint8_t *bytes, size_t n)
{
        size_t sent = 0, taken = 0;
        while (taken < n && c->phase != PAIR_CLOSED) {
                size_t step = 0;
                enum taken how = take_next(c, bytes + taken, n - taken, &step);
                if (how == TAKEN_NOTHING)
                        break;
                if (how == TAKEN_DROP) {
                        pair_send(c, &c->server, bytes + sent, taken - sent);
                        sent = taken + step;
                }
                taken += step;
        }
        pair_send(c, &c->server, bytes + sent, taken - sent);
        return taken;
}

void relay_go_on(struct pair *c)
{
        if (c->phase == PAIR_CLOSED || !c->in.len || c->server.out.len || c->is_held)
                return;
        c->is_replying_late = false;
        size_t taken = take_bytes(c, (const uint8_t *)c->in.ptr, c->in.len);
        if (c->phase == PAIR_CLOSED)
                return;
        if (taken == c->in.len)
                buf_release(&c->in);
        else
                buf_drop_front(&c->in, taken);
}

static void from_client(struct pair *c, const uint8_t *bytes, size_t n)
{
        if (c->in.len) {
                buf_put(&c->in, bytes, n);
                relay_go_on(c);
                return;
        }
        size_t taken = take_bytes(c, bytes, n);
        if (taken < n && c->phase != PAIR_CLOSED)
                buf_put(&c->in, bytes + taken, n - taken);
}

void relay_from_client(struct pair *c)
{
        struct worker *w = c->worker;
        do {
                ssize_t n = stream_read(&c->client.stream, w->bytes, login_read_bytes(c));
                if (n == STREAM_AGAIN)
                        return;
                if (n <= 0) {
                        pair_end(c);
                        return;
                }
                c->door->shares[w->number].bytes_in += (uint64_t)n;
                from_client(c, w->bytes, (size_t)n);
                if (c->is_held && c->is_client_gone) {
                        pair_end(c);
                        return;
                }
        } while (c->phase != PAIR_CLOSED && stream_has_more(&c->client.stream));
}

/* ---- from the server ---- */

static void on_event(struct pair *c, enum mysql_event event)
{
        switch (event) {
        case MYSQL_REPLY_DONE:
                reply_done(c);
                break;
        case MYSQL_WANTS_FILE:
                c->wants_file = true;
                break;
        case MYSQL_WANTS_AUTH:
                c->login_turns++;
                break;
        case MYSQL_BROKEN:
                pair_set_phase(c, PAIR_BLIND);
                break;
        case MYSQL_NEEDS_MORE:
                break;
        }
}

/* What comes without a command, such as the news that the server ends, passes as it is. */
static void from_server(struct pair *c, uint8_t *bytes, size_t n)
{
        size_t sent = 0, at = 0;
        while (at < n && c->n_expected && c->phase != PAIR_BLIND && c->phase != PAIR_CLOSED) {
                enum mysql_event event = MYSQL_NEEDS_MORE;
                bool is_ours = c->expected[c->expected_first].is_ours;
                if (c->sequence_shift)
                        login_shift(c, bytes + at, n - at);
                size_t step = mysql_reply_feed(&c->reply, bytes + at, n - at, &event);
                if (is_ours) {
                        pair_send(c, &c->client, bytes + sent, at - sent);
                        sent = at + step;
                }
                at += step;
                on_event(c, event);
        }
        pair_send(c, &c->client, bytes + sent, n - sent);
        command_send_refusal(c);
        relay_go_on(c);
}

void relay_from_server(struct pair *c)
{
        struct worker *w = c->worker;
        do {
                ssize_t n = stream_read(&c->server.stream, w->bytes, READ_BYTES);
                if (n == STREAM_AGAIN)
                        return;
                if (n <= 0) {
                        pair_lost(c, &c->server);
                        return;
                }
                if (c->phase == PAIR_GREETING) {
                        login_greeting(c, w->bytes, (size_t)n);
                        continue;
                }
                c->door->shares[w->number].bytes_out += (uint64_t)n;
                from_server(c, w->bytes, (size_t)n);
        } while (c->phase != PAIR_CLOSED && !c->client.out.len &&
                 stream_has_more(&c->server.stream));
}
