#include "base/network.h"

#define V4_BITS (IP_V4_AT * 8) /* before the four bytes of IPv4 */

static const uint8_t v4_prefix[IP_V4_AT] = {[10] = 0xff, [11] = 0xff};

/* ---- addresses ---- */

struct ip ip_from_v4(const void *four)
{
        struct ip ip;
        memcpy(ip.bytes, v4_prefix, sizeof(v4_prefix));
        memcpy(ip.bytes + IP_V4_AT, four, IP_V4_SIZE);
        return ip;
}

bool ip_is_v4(const struct ip *ip)
{
        return memcmp(ip->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

/* "10.0.0.7" into four bytes. */
static bool parse_v4(struct slice s, uint8_t *ret)
{
        for (size_t i = 0; i < IP_V4_SIZE; i++) {
                const char *dot = i < 3 && s.len ? memchr(s.ptr, '.', s.len) : NULL;
                size_t len = dot ? (size_t)(dot - s.ptr) : s.len;
                uint64_t byte;
                if ((i < 3 && !dot) || !slice_to_u64(slice_make(s.ptr, len), &byte) || byte > 255)
                        return false;
                ret[i] = (uint8_t)byte;
                s = dot ? slice_make(dot + 1, s.len - len - 1) : SLICE_NONE;
        }
        return true;
}

/* One to four hex digits into two bytes. */
static bool parse_group(struct slice s, uint8_t *ret)
{
        char digits[] = "0000";
        if (s.len < 1 || s.len > 4)
                return false;
        memcpy(digits + 4 - s.len, s.ptr, s.len);
        return slice_to_hex_bytes(slice_make(digits, 4), ret, 2);
}

/* The groups between colons, the last of which may be an IPv4 address; how many bytes, 0: it is
 * wrong. */
static size_t parse_groups(struct slice s, uint8_t ret[IP_BYTES])
{
        size_t n = 0;
        while (s.ptr && n + 2 <= IP_BYTES) {
                const char *colon = memchr(s.ptr, ':', s.len);
                struct slice group = slice_make(s.ptr, colon ? (size_t)(colon - s.ptr) : s.len);
                bool is_v4 =
                        !colon && n + IP_V4_SIZE <= IP_BYTES && memchr(group.ptr, '.', group.len);
                if (is_v4 ? !parse_v4(group, ret + n) : !parse_group(group, ret + n))
                        return 0;
                n += is_v4 ? IP_V4_SIZE : 2;
                s = colon ? slice_make(colon + 1, s.len - group.len - 1) : SLICE_NONE;
        }
        return s.ptr ? 0 : n;
}

static const char *find_gap(struct slice s)
{
        for (size_t i = 0; i + 1 < s.len; i++)
                if (s.ptr[i] == ':' && s.ptr[i + 1] == ':')
                        return s.ptr + i;
        return NULL;
}

static bool parse_v6(struct slice s, uint8_t ret[IP_BYTES])
{
        uint8_t tail[IP_BYTES];
        const char *gap = find_gap(s);
        if (!gap)
                return parse_groups(s, ret) == IP_BYTES;
        struct slice before = slice_make(s.ptr, (size_t)(gap - s.ptr));
        struct slice after = slice_make(gap + 2, s.len - before.len - 2);
        size_t n_before = before.len ? parse_groups(before, ret) : 0;
        size_t n_after = after.len ? parse_groups(after, tail) : 0;
        /* An IPv4 address ends an address, so it does not stand before the gap. */
        if ((before.len && (!n_before || memchr(before.ptr, '.', before.len))) ||
            (after.len && !n_after) || n_before + n_after > IP_BYTES - 2)
                return false;
        memset(ret + n_before, 0, IP_BYTES - n_before - n_after);
        memcpy(ret + IP_BYTES - n_after, tail, n_after);
        return true;
}

bool ip_parse(struct slice s, struct ip *ret)
{
        if (s.len && memchr(s.ptr, ':', s.len))
                return parse_v6(s, ret->bytes);
        memcpy(ret->bytes, v4_prefix, sizeof(v4_prefix));
        return parse_v4(s, ret->bytes + IP_V4_AT);
}

/* ---- networks ---- */

bool network_parse(struct slice s, struct network *ret)
{
        const char *slash = s.len ? memchr(s.ptr, '/', s.len) : NULL;
        struct slice base = slice_make(s.ptr, slash ? (size_t)(slash - s.ptr) : s.len);
        if (!ip_parse(base, &ret->base))
                return false;
        unsigned before = memchr(base.ptr, ':', base.len) ? 0 : V4_BITS;
        uint64_t bits = IP_BYTES * 8 - before;
        if (slash && (!slice_to_u64(slice_make(slash + 1, s.len - base.len - 1), &bits) ||
                      bits > IP_BYTES * 8 - before))
                return false;
        ret->bits = before + (unsigned)bits;
        return true;
}

bool network_has(const struct network *n, const struct ip *ip)
{
        size_t whole = n->bits / 8;
        unsigned rest = n->bits % 8;
        if (memcmp(n->base.bytes, ip->bytes, whole) != 0)
                return false;
        return rest == 0 || (n->base.bytes[whole] ^ ip->bytes[whole]) >> (8 - rest) == 0;
}

bool network_ends_with_zeros(const struct network *n)
{
        for (size_t i = n->bits; i < (size_t)IP_BYTES * 8; i++)
                if (n->base.bytes[i / 8] & (0x80 >> i % 8))
                        return false;
        return true;
}
