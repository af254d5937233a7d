/* Any bytes as those of a TLS client.
 *
 * The first byte says what they are:
 *   0  all that arrives, from the first byte of a handshake on
 *   1  what arrives after a handshake
 *   2  changes of what a real client sends in its handshake: pairs of a place and a value
 *   3  what a real client says: it arrives unchanged, in pieces of the size that the second byte is
 * Whatever they are: no more plain bytes come out than went in, none at all before the handshake is
 * done, and after an error nothing is taken any more. */
#include <stdlib.h>

#include "support/tls_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tls_ctx *ctx;
static struct tls_peer peer;

static void set_up(void)
{
        struct cert_bed bed;
        struct problem p;
        bed_init(&bed);
        struct tls_files files = {bed.cert_path, bed.key_path, bed.ca_path, TLS_VERIFY_ASK};
        int r = tls_ctx_new(&files, clock_wall_ms(), &ctx, &p);
        ASSERT(r == OK);
        peer_init(&peer, NULL, TLS1_3_VERSION);
        bed_release(&bed);
}

/* In two pieces, the first of `cut` bytes. */
static void feed(struct tls *t, const uint8_t *data, size_t size, size_t cut)
{
        struct buf out = {0};
        bool is_over = false;
        cut = cut < size ? cut : size;
        for (int i = 0; i < 2; i++) {
                size_t n = i ? size - cut : cut, got = 0;
                char *copy = malloc(n + 1), *plain = malloc(TLS_PLAIN_MAX(n));
                ASSERT(copy && plain);
                memcpy(copy, data + (i ? cut : 0), n);
                enum tls_outcome outcome = tls_take(t, slice_make(copy, n), plain, &got, &out);
                ASSERT(got <= TLS_PLAIN_MAX(n));
                ASSERT(!got || (tls_is_open(t) && !is_over));
                ASSERT(!is_over || outcome == TLS_FINE);
                is_over |= outcome != TLS_FINE;
                free(copy);
                free(plain);
        }
        tls_say_goodbye(t, &out);
        buf_release(&out);
}

static void change(struct tls *t, const uint8_t *data, size_t size)
{
        struct buf wire = {0};
        peer_begin(&peer);
        (void)SSL_do_handshake(peer.ssl);
        ERR_clear_error();
        peer_take_out(&peer, &wire);
        for (size_t i = 0; i + 2 < size; i += 3) {
                size_t at = (size_t)data[i] << 8 | data[i + 1];
                if (at < wire.len)
                        wire.ptr[at] = (char)data[i + 2];
        }
        feed(t, (const uint8_t *)wire.ptr, wire.len, size ? data[0] : 0);
        buf_release(&wire);
}

static void say(struct tls *t, const uint8_t *data, size_t size)
{
        struct buf got = {0};
        size_t step = data[0];
        if (SSL_write(peer.ssl, data, (int)size) != (int)size)
                abort();
        ASSERT(carry(&peer, t, step, &got) == TLS_FINE);
        ASSERT(got.len == size && memcmp(got.ptr, data, size) == 0);
        buf_release(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct buf got = {0};
        if (!ctx)
                set_up();
        if (size < 2)
                return 0;
        struct tls *t = tls_new(ctx, data[1] & 1);
        ASSERT(t);
        if (data[0] % 2 == 1) {
                peer_begin(&peer);
                ASSERT(carry(&peer, t, 0, &got) == TLS_FINE && tls_is_open(t) && !got.len);
        }
        if (data[0] % 4 == 2)
                change(t, data + 1, size - 1);
        else if (data[0] % 4 == 3)
                say(t, data + 1, size - 1);
        else
                feed(t, data + 2, size - 2, data[1]);
        (void)tls_free(t);
        buf_release(&got);
        return 0;
}
