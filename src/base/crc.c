/* CRC-32C at the speed of memory.
 *
 * The crc32 instruction takes 8 bytes, needs 3 cycles and can start every cycle; one chain of
 * them leaves two thirds of the unit idle.  Long inputs are therefore cut into three equal blocks
 * that are summed side by side, and the sums are joined: the sum of A followed by n bytes is that
 * of A moved over n zero bytes, xor that of the n bytes begun at 0.  Moving is linear, so four
 * tables of 256 words do it for one fixed n.  Two block sizes are in use: a log batch is long, a
 * record with its payload is a few hundred bytes.
 *
 * Without the instruction: eight bytes a step through eight tables (slicing-by-8).  All tables
 * (16 KiB) are computed before main, in some tens of microseconds. */
#include "base/crc.h"

#include <string.h>

#define POLYNOMIAL  0x82f63b78U /* Castagnoli, bits reversed */
#define LONG_BLOCK  1024
#define SHORT_BLOCK 128

struct shift_table {
        uint32_t word[4][256];
};

static uint32_t slicing[8][256];
static struct shift_table shift_long, shift_short;
static uint32_t (*crc_update)(uint32_t crc, const unsigned char *p, size_t n);

static uint32_t update_table(uint32_t crc, const unsigned char *p, size_t n)
{
        for (; n >= 8; p += 8, n -= 8) {
                uint64_t w;
                memcpy(&w, p, sizeof(w));
                w ^= crc;
                crc = slicing[7][w & 255] ^ slicing[6][w >> 8 & 255] ^ slicing[5][w >> 16 & 255] ^
                      slicing[4][w >> 24 & 255] ^ slicing[3][w >> 32 & 255] ^
                      slicing[2][w >> 40 & 255] ^ slicing[1][w >> 48 & 255] ^ slicing[0][w >> 56];
        }
        for (; n > 0; p++, n--)
                crc = crc >> 8 ^ slicing[0][(crc ^ *p) & 255];
        return crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

static inline uint32_t shift(const struct shift_table *t, uint32_t crc)
{
        return t->word[0][crc & 255] ^ t->word[1][crc >> 8 & 255] ^ t->word[2][crc >> 16 & 255] ^
               t->word[3][crc >> 24];
}

static inline uint64_t word_at(const unsigned char *p)
{
        uint64_t w;
        memcpy(&w, p, sizeof(w));
        return w;
}

/* Sums 3 * block bytes. */
__attribute__((target("sse4.2"))) static inline uint32_t
three_blocks(uint32_t crc, const unsigned char *p, size_t block, const struct shift_table *t)
{
        uint64_t a = crc, b = 0, c = 0;

        for (const unsigned char *end = p + block; p < end; p += 8) {
                a = _mm_crc32_u64(a, word_at(p));
                b = _mm_crc32_u64(b, word_at(p + block));
                c = _mm_crc32_u64(c, word_at(p + 2 * block));
        }
        return shift(t, shift(t, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t update_sse42(uint32_t crc, const unsigned char *p,
                                                               size_t n)
{
        for (; n >= 3UL * LONG_BLOCK; p += 3UL * LONG_BLOCK, n -= 3UL * LONG_BLOCK)
                crc = three_blocks(crc, p, LONG_BLOCK, &shift_long);
        for (; n >= 3UL * SHORT_BLOCK; p += 3UL * SHORT_BLOCK, n -= 3UL * SHORT_BLOCK)
                crc = three_blocks(crc, p, SHORT_BLOCK, &shift_short);
        uint64_t wide = crc;
        for (; n >= 8; p += 8, n -= 8)
                wide = _mm_crc32_u64(wide, word_at(p));
        crc = (uint32_t)wide;
        for (; n > 0; p++, n--)
                crc = _mm_crc32_u8(crc, *p);
        return crc;
}
#endif

static void make_slicing(void)
{
        for (uint32_t i = 0; i < 256; i++) {
                uint32_t crc = i;
                for (int bit = 0; bit < 8; bit++)
                        crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
                slicing[0][i] = crc;
        }
        for (uint32_t i = 0; i < 256; i++)
                for (int k = 1; k < 8; k++)
                        slicing[k][i] =
                                slicing[k - 1][i] >> 8 ^ slicing[0][slicing[k - 1][i] & 255];
}

/* What becomes of each of the 32 bits after n zero bytes; a byte's entry is the xor of its bits'.
 */
static void make_shift(struct shift_table *t, size_t n)
{
        uint32_t moved[32];

        for (int bit = 0; bit < 32; bit++) {
                uint32_t crc = 1U << bit;
                for (size_t i = 0; i < n; i++)
                        crc = crc >> 8 ^ slicing[0][crc & 255];
                moved[bit] = crc;
        }
        for (int k = 0; k < 4; k++) {
                for (uint32_t i = 0; i < 256; i++) {
                        uint32_t crc = 0;
                        for (int bit = 0; bit < 8; bit++)
                                crc ^= i >> bit & 1 ? moved[8 * k + bit] : 0;
                        t->word[k][i] = crc;
                }
        }
}

__attribute__((constructor)) static void crc_setup(void)
{
        make_slicing();
        crc_update = update_table;
#if defined(__x86_64__)
        make_shift(&shift_long, LONG_BLOCK);
        make_shift(&shift_short, SHORT_BLOCK);
        __builtin_cpu_init();
        if (__builtin_cpu_supports("sse4.2"))
                crc_update = update_sse42;
#endif
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
        return len ? ~crc_update(~crc, data, len) : crc;
}
