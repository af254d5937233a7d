/* The shelf is an array without gaps; a block that is taken off gives its place to the last. */
#include "history/block_shelf.h"

#include <stdlib.h>

#include "base/say.h"

#define HEAD_BYTES  (64 * KIB) /* what the columns of a block take, about */
#define BODY_GROWTH 4          /* how much larger than packed its texts are, as a rule */

void block_shelf_init(struct block_shelf *s, struct blocks *blocks)
{
        *s = (struct block_shelf){.blocks = blocks};
}

static void take_off(struct block_shelf *s, size_t i)
{
        s->bytes -= s->slots[i].bytes;
        block_release(&s->slots[i].block);
        s->slots[i] = s->slots[--s->n];
}

void block_shelf_release(struct block_shelf *s)
{
        while (s->n)
                take_off(s, s->n - 1);
        free(s->slots);
        *s = (struct block_shelf){0};
}

/* Those that were not used for longest go. */
static void shrink(struct block_shelf *s, size_t n_max, uint64_t bytes_max)
{
        while (s->n && (s->n > n_max || s->bytes > bytes_max)) {
                size_t oldest = 0;
                for (size_t i = 1; i < s->n; i++)
                        if (s->slots[i].used < s->slots[oldest].used)
                                oldest = i;
                take_off(s, oldest);
        }
}

void block_shelf_trim(struct block_shelf *s)
{
        shrink(s, SHELF_KEPT, SHELF_KEPT_BYTES);
}

static void tell(struct block_shelf *s, const struct block_mark *m, const char *why)
{
        for (size_t i = 0; i < SHELF_TOLD; i++)
                if (s->told[i] == m->number)
                        return;
        s->told[s->n_told++ % SHELF_TOLD] = m->number;
        say_error("history", "a block is damaged, not delivering its jobs", "block",
                  SAY_I64(m->number), "first", SAY_I64(m->first_id), "last", SAY_I64(m->last_id),
                  "problem", why);
}

static int put(struct block_shelf *s, const struct block_mark *m, struct problem *p)
{
        uint64_t bytes = HEAD_BYTES + (uint64_t)m->bytes * BODY_GROWTH;
        struct block block;
        s->n_reads++;
        int err = blocks_read(s->blocks, m, &block, p);
        if (err == ERR_CORRUPT)
                tell(s, m, p->detail);
        if (err)
                return err;
        shrink(s, SIZE_MAX, bytes < SHELF_BYTES ? SHELF_BYTES - bytes : 0);
        if (s->n == s->room) {
                s->room = s->room ? 2 * s->room : (size_t)2 * SHELF_KEPT;
                s->slots = xrealloc(s->slots, s->room * sizeof(*s->slots));
        }
        s->slots[s->n++] = (struct shelf_slot){.number = m->number, .bytes = bytes, .block = block};
        s->bytes += bytes;
        return OK;
}

int block_shelf_get(struct block_shelf *s, const struct block_mark *m, size_t *hint,
                    struct block **ret, struct problem *p)
{
        size_t i = *hint;
        if (i >= s->n || s->slots[i].number != m->number)
                for (i = 0; i < s->n && s->slots[i].number != m->number; i++)
                        ;
        if (i == s->n) {
                int err = put(s, m, p);
                if (err)
                        return err;
                i = s->n - 1;
        }
        s->slots[i].used = ++s->n_gets;
        *ret = &s->slots[i].block;
        *hint = i;
        return OK;
}

int block_shelf_find(struct block_shelf *s, uint64_t id, struct shelf_place *ret, struct problem *p)
{
        *ret = (struct shelf_place){0};
        for (size_t i = blocks_from(s->blocks, window_of(id)); i < blocks_len(s->blocks); i++) {
                const struct block_mark *m = blocks_at(s->blocks, i);
                struct block *block;
                size_t hint = 0;
                if (window_of(m->last_id) != window_of(id))
                        break;
                if (id < m->first_id || id > m->last_id)
                        continue;
                int err = block_shelf_get(s, m, &hint, &block, p);
                if (err == ERR_CORRUPT) {
                        *ret = (struct shelf_place){.mark = m};
                        continue; /* another one may hold it */
                }
                if (err)
                        return err;
                int at = block_find(block, id);
                if (at >= 0 && !block_mark_is_dead(m, (size_t)at)) {
                        *ret = (struct shelf_place){m, block, (size_t)at};
                        return OK;
                }
        }
        return OK;
}
