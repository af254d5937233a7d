/* beanstalkd: put, reserve-with-timeout 0 (or reserve, to wait), delete; one of each per job, as
 * the protocol has no batch form.  The default tube, a time to run of 300 s as weir's lease. */
#include "gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void beanstalk_prepare(struct conn *c)
{
        char head[64];
        snprintf(head, sizeof(head), "put 100 0 300 %u\r\n", c->run->payload);
        conn_make_puts(c, head, "\r\n");
}

static size_t beanstalk_claim(struct conn *c, size_t n, unsigned wait_ms)
{
        static const char poll[] = "reserve-with-timeout 0\r\n", wait[] = "reserve\r\n";
        c->reqs_len = 0;
        c->n_held = 0;
        for (size_t i = 0; i < n; i++)
                conn_add(c, wait_ms ? wait : poll, (wait_ms ? sizeof(wait) : sizeof(poll)) - 1);
        conn_use_reqs(c);
        return n;
}

static size_t beanstalk_ack(struct conn *c)
{
        size_t n = c->n_held;
        c->reqs_len = 0;
        for (size_t i = 0; i < n; i++) {
                conn_add(c, "delete ", 7);
                conn_add(c, c->held[i].id, c->held[i].id_len);
                conn_add(c, "\r\n", 2);
        }
        c->n_held = 0;
        conn_use_reqs(c);
        return n;
}

static bool starts(const char *p, size_t len, const char *word)
{
        size_t n = strlen(word);
        return len >= n && memcmp(p, word, n) == 0;
}

/* RESERVED <id> <bytes>\r\n<payload>\r\n; `line` bytes hold the first line with its CRLF. */
static size_t read_reserved(struct conn *c, const char *p, size_t line, const char *end)
{
        const char *id = p + 9;
        char *stop;
        strtoll(id, &stop, 10);
        size_t id_len = (size_t)(stop - id);
        size_t len = (size_t)strtoull(stop, NULL, 10);
        if (id_len == 0 || id_len > 32)
                conn_wrong(c, "not a reserved job");
        if ((size_t)(end - p) < line + len + 2)
                return 0;
        struct held *h = conn_hold(c, p + line, len);
        memcpy(h->id, id, id_len);
        h->id_len = (uint8_t)id_len;
        return line + len + 2;
}

static size_t beanstalk_reply(struct conn *c, const char *p, const char *end)
{
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
                return 0;
        size_t line = (size_t)(nl + 1 - p);
        if (c->stage == STAGE_PUT && starts(p, line, "INSERTED ")) {
                conn_check_id(c, strtoll(p + 9, NULL, 10));
                return line;
        }
        if (c->stage == STAGE_CLAIM && starts(p, line, "RESERVED "))
                return read_reserved(c, p, line, end);
        if (c->stage == STAGE_CLAIM && starts(p, line, "TIMED_OUT\r\n")) {
                c->run->count.empty++;
                return line;
        }
        if (c->stage == STAGE_ACK && starts(p, line, "DELETED\r\n"))
                return line;
        conn_wrong(c, "unexpected reply");
}

const struct proto proto_beanstalk = {
        .name = "beanstalk",
        .prepare = beanstalk_prepare,
        .put = conn_number_puts,
        .claim = beanstalk_claim,
        .ack = beanstalk_ack,
        .reply = beanstalk_reply,
};
