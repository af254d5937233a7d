/* Bump allocation in a chain of blocks.
 *
 *      first -> ... -> current        `current` is where small things are taken from
 *
 * Every block but a large one is BLOCK_BYTES.  A request of more than a quarter of that gets a
 * block of its own, hung in behind `first`, so that it wastes no room in `current`; `first` is
 * always of the ordinary size, because it is kept for the next request.  An idle connection thus
 * holds at most one block, and none before its first allocation.
 *
 * Under AddressSanitizer what is not handed out is poisoned: reading a cleared request's memory
 * is then found at once. */
#include "base/arena.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif

#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n)   ((void)0)
#define UNPOISON(p, n) ((void)0)
#endif

#define ARENA_ALIGN 16

struct arena_block {
        struct arena_block *next;
        size_t used, cap; /* bytes of data */
        _Alignas(ARENA_ALIGN) char data[];
};

/* With the header and malloc's own 16 bytes this is 4 KiB: a small job object's keys, values and
 * a batch of names fit; larger requests are rare and pay for more blocks. */
#define BLOCK_BYTES (4096 - sizeof(struct arena_block) - 16)
#define LARGE_BYTES (BLOCK_BYTES / 4)

/* Nothing in one process is larger, and sums of two such sizes do not overflow. */
#define UNBOUNDED ((size_t)PTRDIFF_MAX & ~(size_t)(ARENA_ALIGN - 1))

void arena_init(struct arena *a, size_t max_bytes)
{
        if (max_bytes == 0 || max_bytes > UNBOUNDED)
                max_bytes = UNBOUNDED;
        *a = (struct arena){.max_bytes = ALIGN_UP(max_bytes, (size_t)ARENA_ALIGN)};
}

static void free_chain(struct arena_block *b)
{
        while (b) {
                struct arena_block *next = b->next;
                free(b);
                b = next;
        }
}

void arena_release(struct arena *a)
{
        free_chain(a->first);
        *a = (struct arena){.max_bytes = a->max_bytes};
}

void arena_clear(struct arena *a)
{
        a->used_bytes = 0;
        a->current = a->first;
        if (!a->first)
                return;
        free_chain(TAKE_PTR(a->first->next));
        a->first->used = 0;
        POISON(a->first->data, a->first->cap);
}

static struct arena_block *block_new(size_t cap)
{
        struct arena_block *b = malloc(sizeof(*b) + cap);

        if (!b)
                return NULL;
        *b = (struct arena_block){.cap = cap};
        POISON(b->data, cap);
        return b;
}

/* Hangs b into the chain behind `after`, or as the first. */
static void block_link(struct arena *a, struct arena_block *after, struct arena_block *b)
{
        if (after) {
                b->next = after->next;
                after->next = b;
        } else {
                a->first = b;
        }
}

/* A block with room for `size`, linked in; NULL without memory. */
static struct arena_block *block_for(struct arena *a, size_t size)
{
        struct arena_block *b = a->current;

        if (b && size <= b->cap - b->used)
                return b;
        if (!b || size <= LARGE_BYTES) {
                b = block_new(BLOCK_BYTES);
                if (!b)
                        return NULL;
                block_link(a, a->current, b);
                a->current = b;
                if (size <= b->cap)
                        return b;
        }
        b = block_new(size);
        if (b)
                block_link(a, a->first, b);
        return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
        if (size > a->max_bytes - a->used_bytes)
                return NULL; /* also keeps the rounding below from overflowing */
        size_t rounded = ALIGN_UP(size ? size : 1, (size_t)ARENA_ALIGN);
        if (rounded > a->max_bytes - a->used_bytes)
                return NULL;
        struct arena_block *b = block_for(a, rounded);
        if (!b)
                return NULL;
        void *p = b->data + b->used;
        b->used += rounded;
        a->used_bytes += rounded;
        UNPOISON(p, size);
        return p;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes))
                return NULL;
        return arena_alloc(a, bytes);
}

struct slice arena_copy(struct arena *a, struct slice s)
{
        char *p = arena_alloc(a, s.len);

        if (!p)
                return SLICE_NONE;
        if (s.len)
                memcpy(p, s.ptr, s.len);
        return slice_make(p, s.len);
}
