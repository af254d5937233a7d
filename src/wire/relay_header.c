#include "wire/relay_header.h"

#include "wire/digest.h"

#define VERSION 1

enum extra { EXTRA_FACTS = 0xE0, EXTRA_NODE, EXTRA_NAME, EXTRA_TOKEN, EXTRA_MAC };

enum flag { FLAG_LOCAL = 1, FLAG_NEAR = 2, FLAG_TLS = 4, FLAG_CERTIFIED = 8 };

#define TIME_BYTES  8U
#define FACTS_BYTES (4U + TIME_BYTES + RELAY_NONCE_BYTES)

/* ---- writing ---- */

static void put_facts(struct buf *extras, const struct relay_header *h)
{
        char facts[FACTS_BYTES];
        facts[0] = VERSION;
        facts[1] = (char)h->door;
        facts[2] = (char)h->proto;
        facts[3] = (char)((h->is_local ? FLAG_LOCAL : 0) | (h->is_near ? FLAG_NEAR : 0) |
                          (h->is_tls ? FLAG_TLS : 0) | (h->is_certified ? FLAG_CERTIFIED : 0));
        for (unsigned i = 0; i < TIME_BYTES; i++)
                facts[4 + i] = (char)((uint64_t)h->sent_ms >> (8 * (TIME_BYTES - 1 - i)));
        memcpy(facts + 4 + TIME_BYTES, h->nonce, RELAY_NONCE_BYTES);
        proxy_extra_put(extras, EXTRA_FACTS, slice_make(facts, sizeof(facts)));
}

bool relay_header_put(struct buf *out, const struct relay_header *h, struct slice secret)
{
        const struct slice texts[] = {h->node, h->name, h->token};
        struct buf extras CLEANUP(buf_release) = {0};
        uint8_t mac[DIGEST_BYTES] = {0};
        size_t from = out->len;
        put_facts(&extras, h);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                ASSERT(texts[i].len <= RELAY_NAME_MAX);
                if (texts[i].len)
                        proxy_extra_put(&extras, (uint8_t)(EXTRA_NODE + i), texts[i]);
        }
        proxy_extra_put(&extras, EXTRA_MAC, slice_make(mac, sizeof(mac)));
        struct proxy_header proxy = {.is_told = h->has_address};
        proxy.from.ip = proxy.to.ip = h->ip;
        proxy_header_put_with(out, &proxy, buf_slice(&extras));
        if (extras.failed || out->failed)
                return false;
        size_t n = out->len - from - sizeof(mac);
        if (!digest_mac(secret, slice_make(out->ptr + from, n), mac))
                return false;
        memcpy(out->ptr + from + n, mac, sizeof(mac));
        return true;
}

/* ---- reading ---- */

static int not_ours(struct problem *p)
{
        return problem_set(p, ERR_SYNTAX, "the PROXY header is not that of a weir of this version");
}

static bool read_facts(struct slice value, struct relay_header *ret)
{
        const uint8_t *at = (const uint8_t *)value.ptr;
        uint64_t sent_ms = 0;
        if (value.len != FACTS_BYTES || at[0] != VERSION)
                return false;
        ret->door = at[1];
        ret->proto = at[2];
        ret->is_local = at[3] & FLAG_LOCAL;
        ret->is_near = at[3] & FLAG_NEAR;
        ret->is_tls = at[3] & FLAG_TLS;
        ret->is_certified = at[3] & FLAG_CERTIFIED;
        for (unsigned i = 0; i < TIME_BYTES; i++)
                sent_ms = sent_ms << 8 | at[4 + i];
        ret->sent_ms = (int64_t)sent_ms;
        memcpy(ret->nonce, at + 4 + TIME_BYTES, RELAY_NONCE_BYTES);
        if (at[1] == RELAY_HTTP)
                return ret->proto == 0;
        return at[1] == RELAY_RESP && (ret->proto == 2 || ret->proto == 3);
}

/* The facts come first and the proof comes last; what lies between and is unknown is of a later
 * version, and harmless. */
static bool read_extras(struct slice extras, struct relay_header *ret, struct slice *ret_mac)
{
        uint8_t type;
        struct slice value;
        if (!proxy_extra_next(&extras, &type, &value) || type != EXTRA_FACTS ||
            !read_facts(value, ret))
                return false;
        while (proxy_extra_next(&extras, &type, &value)) {
                if (type == EXTRA_MAC) {
                        *ret_mac = value;
                        return value.len == DIGEST_BYTES && !extras.len;
                }
                if (value.len > RELAY_NAME_MAX)
                        return false;
                if (type == EXTRA_NODE)
                        ret->node = value;
                else if (type == EXTRA_NAME)
                        ret->name = value;
                else if (type == EXTRA_TOKEN)
                        ret->token = value;
        }
        return false;
}

int relay_header_read(struct slice bytes, struct slice secret, int64_t now_ms,
                      struct relay_header *ret, size_t *ret_len, struct problem *p)
{
        struct proxy_header proxy;
        struct relay_header h = {0};
        struct slice mac;
        uint8_t want[DIGEST_BYTES];
        size_t len;
        *ret_len = 0;
        if (!proxy_header_is_begun(bytes))
                return not_ours(p);
        int r = proxy_header_parse(bytes, &proxy, &len, p);
        if (r != OK || !len)
                return r;
        if (!read_extras(proxy_header_extras(slice_make(bytes.ptr, len)), &h, &mac))
                return not_ours(p);
        if (!digest_mac(secret, slice_make(bytes.ptr, len - DIGEST_BYTES), want))
                return problem_set(p, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
        if (!digest_is_same(want, (const uint8_t *)mac.ptr))
                return problem_set(p, ERR_FORBIDDEN,
                                   "the proof is wrong: the two machines have not the same "
                                   "cluster secret");
        if (h.sent_ms > now_ms + RELAY_CLOCK_MS || h.sent_ms < now_ms - RELAY_CLOCK_MS)
                return problem_set(p, ERR_FORBIDDEN,
                                   "the clocks of the two machines differ by more than %d s",
                                   RELAY_CLOCK_MS / 1000);
        h.has_address = proxy.is_told;
        h.ip = proxy.from.ip;
        *ret = h;
        *ret_len = len;
        return OK;
}

bool relay_answer_make(struct slice secret, const uint8_t nonce[RELAY_NONCE_BYTES],
                       char ret[RELAY_ANSWER_BYTES])
{
        static const char begin[] = RELAY_ANSWER_BEGIN;
        const size_t n = sizeof(begin) - 1;
        uint8_t mac[DIGEST_BYTES];
        _Static_assert(sizeof(begin) - 1 + 2UL * DIGEST_BYTES + 2 == RELAY_ANSWER_BYTES, "it fits");
        if (!digest_mac(secret, slice_make(nonce, RELAY_NONCE_BYTES), mac))
                return false;
        memcpy(ret, begin, n);
        hex_from_bytes(mac, sizeof(mac), ret + n);
        memcpy(ret + n + 2UL * DIGEST_BYTES, "\r\n", 2);
        return true;
}
