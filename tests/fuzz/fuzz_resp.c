/* Any bytes through the RESP parser, whole and cut.
 *
 * The first byte says how the input is cut.  A stream is read the way a connection does it, from
 * memory of exactly its size, once with everything there and once in pieces; both must give the
 * same requests and the same end.  A parser that asks for more must ask for more than it has. */
#include <stdlib.h>

#include "wire/resp.h"

#define ARGS  64
#define BYTES 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came of a stream: requests are hashed, so that two readings can be compared. */
struct outcome {
        uint64_t hash;
        size_t requests;
        size_t used;
        enum resp_step end;
};

static void mix(struct outcome *o, const void *bytes, size_t n)
{
        const uint8_t *p = bytes;
        for (size_t i = 0; i < n; i++)
                o->hash = (o->hash ^ p[i]) * 1099511628211ULL;
}

/* Parses one request out of a copy of exactly `len` bytes. */
static enum resp_step parse(const uint8_t *bytes, size_t len, struct resp_request *r,
                            struct outcome *o)
{
        struct slice argv[ARGS];
        struct arena arena;
        char *copy = malloc(len ? len : 1);
        ASSERT(copy);
        if (len)
                memcpy(copy, bytes, len);
        *r = (struct resp_request){.argv = argv, .argv_max = ARGS, .bytes_max = BYTES};
        arena_init(&arena, MIB);
        enum resp_step step = resp_parse(slice_make(copy, len), &arena, r);
        if (step == RESP_REQUEST) {
                ASSERT(r->used > 0 && r->used <= len && r->argc <= ARGS);
                mix(o, &r->argc, sizeof(r->argc));
                for (size_t i = 0; i < r->argc; i++) {
                        mix(o, &argv[i].len, sizeof(argv[i].len));
                        mix(o, argv[i].ptr, argv[i].len);
                }
        }
        ASSERT(step != RESP_BAD || r->error);
        ASSERT(step != RESP_MORE || r->need > len);
        r->argv = NULL;
        arena_release(&arena);
        free(copy);
        return step;
}

/* Shows the stream `step_bytes` at a time; 0 = all at once. */
static struct outcome run(const uint8_t *data, size_t size, size_t step_bytes)
{
        struct outcome o = {.hash = 14695981039346656037ULL, .end = RESP_MORE};
        struct resp_request r;
        size_t shown = step_bytes ? 0 : size, need = 0;
        for (;;) {
                while (o.used < shown && shown - o.used >= need) {
                        o.end = parse(data + o.used, shown - o.used, &r, &o);
                        if (o.end == RESP_BAD || o.end == RESP_FOREIGN)
                                return o;
                        if (o.end == RESP_MORE) {
                                need = r.need;
                                break;
                        }
                        need = 0;
                        o.used += r.used;
                        o.requests++;
                }
                if (shown == size)
                        break;
                shown = size - shown < step_bytes ? size : shown + step_bytes;
        }
        return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 1)
                return 0;
        size_t step_bytes = 1 + data[0] % 32;
        struct outcome whole = run(data + 1, size - 1, 0);
        struct outcome cut = run(data + 1, size - 1, step_bytes);
        ASSERT(whole.requests == cut.requests && whole.hash == cut.hash);
        ASSERT(whole.used == cut.used);
        /* At the end of the bytes an unfinished request may be seen as hopeless in one reading
         * and only be waited for in the other, when it asked for more than there was. */
        ASSERT(whole.end == cut.end || (whole.end == RESP_BAD && cut.end == RESP_MORE));
        return 0;
}
