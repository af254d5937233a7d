/* Base64.
 *
 * Written here because OpenSSL's block decoder skips spaces and counts padding as data, and what
 * somebody sends must mean one thing only. */
#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buf *b, struct slice bytes)
{
        if (!buf_reserve(b, (bytes.len + 2) / 3 * 4))
                return;
        char *to = b->ptr + b->len;
        for (size_t i = 0; i < bytes.len; i += 3) {
                size_t left = bytes.len - i;
                uint32_t v = (uint32_t)(uint8_t)bytes.ptr[i] << 16;
                if (left > 1)
                        v |= (uint32_t)(uint8_t)bytes.ptr[i + 1] << 8;
                if (left > 2)
                        v |= (uint8_t)bytes.ptr[i + 2];
                *to++ = alphabet[v >> 18];
                *to++ = alphabet[v >> 12 & 63];
                *to++ = left > 1 ? alphabet[v >> 6 & 63] : '=';
                *to++ = left > 2 ? alphabet[v & 63] : '=';
        }
        b->len = (size_t)(to - b->ptr);
}

static int digit(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        if (c == '+')
                return 62;
        return c == '/' ? 63 : -1;
}

bool base64_decode(struct slice text, void *ret, size_t *ret_len)
{
        char *to = ret;
        if (text.len % 4)
                return false;
        for (size_t i = 0; i < text.len; i += 4) {
                const char *group = text.ptr + i;
                bool is_last = i + 4 == text.len;
                int pad = is_last ? (group[3] == '=') + (group[3] == '=' && group[2] == '=') : 0;
                uint32_t v = 0;
                for (int k = 0; k < 4; k++) {
                        int d = k >= 4 - pad ? 0 : digit(group[k]);
                        if (d < 0)
                                return false;
                        v = v << 6 | (uint32_t)d;
                }
                /* Bits behind the padding would make two texts of the same bytes. */
                if ((pad == 1 && (v & 0xff)) || (pad == 2 && (v & 0xffff)))
                        return false;
                *to++ = (char)(v >> 16);
                if (pad < 2)
                        *to++ = (char)(v >> 8);
                if (pad < 1)
                        *to++ = (char)v;
        }
        *ret_len = (size_t)(to - (char *)ret);
        return true;
}

int base64_take(struct arena *arena, struct slice text, struct slice *ret)
{
        size_t len;
        char *bytes = arena_alloc(arena, BASE64_DECODED_MAX(text.len) + 1);
        if (!bytes)
                return ERR_NOMEM;
        if (!base64_decode(text, bytes, &len))
                return ERR_BADARG;
        *ret = slice_make(bytes, len);
        return OK;
}
