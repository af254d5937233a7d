/* A request's memory: allocate many, free all at once when the reply is made.
 *
 * The first block stays for the next request; larger ones go back to the system.  Returns NULL
 * past `max` or without memory: what a client sends decides the size here.  Sizes are counted in
 * steps of 16 bytes. */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include "base/slice.h"

struct arena_block;

struct arena {
        struct arena_block *first, *current;
        size_t used_bytes;
        size_t max_bytes;
};

void arena_init(struct arena *a, size_t max_bytes); /* 0 = unbounded, as in buf_init */
void arena_release(struct arena *a);
void arena_clear(struct arena *a);
void *arena_alloc(struct arena *a, size_t size) MUST_CHECK; /* 16-byte aligned, not zeroed */
void *arena_array(struct arena *a, size_t n, size_t size) MUST_CHECK; /* overflow-checked */
/* A copy; .ptr is NULL when it failed. */
struct slice arena_copy(struct arena *a, struct slice s) MUST_CHECK;

#endif
