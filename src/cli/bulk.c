/* A ring of chunks: one that is being filled, behind it those on their way, oldest first.
 *
 *      [answered] [sent] [sent] [sent] [being filled] ...
 *                 ^ tail               ^ head
 *
 * A chunk keeps its words until the server has answered.  With is_skipping, a refused chunk is sent
 * again in halves, and those in halves, until each refused job stands alone.  This waits until
 * nothing else is on its way, so that answers cannot be mixed up.  Bad jobs are rare, and each
 * costs some tens of round trips.
 *
 * With `once` each request carries an idempotency key made of the file's key and its first line.
 * Chunks are cut by the content alone, so the same file gives the same requests, and a second run
 * gets the answers of the first.
 *
 * Measured with 1,000,000 lines of 60 bytes, server and client on two cores: see docs/terminal.md.
 */
#include "cli/bulk.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"

#define RING         128
#define WINDOW_BYTES (8 * MIB) /* on their way at once */
#define MAX_OPTIONS  64        /* words */

struct chunk {
        struct buf words;   /* hook, args, hook, args ... of n jobs */
        struct buf options; /* as bulk_put_word() wrote them */
        uint32_t *lens;     /* 2 * n */
        uint64_t *lines, *tags;
        size_t n, cap;
        bool is_refused;
        struct problem why;
};

/* Jobs of a chunk that travel in one request: all of them, or a half of a half ... */
struct part {
        const struct chunk *chunk;
        size_t from, n;
};

struct bulk {
        struct bulk_options options;
        struct chunk chunks[RING];
        size_t head, n_sent; /* the n_sent before head are on their way */
        size_t sent_bytes;
        bool is_over; /* after a final error */
        uint64_t added, unknown, last_line;
        struct slice *argv;
        char key[320];
};

struct bulk *bulk_new(const struct bulk_options *options)
{
        struct bulk *b = xcalloc(1, sizeof(*b));
        b->options = *options;
        if (!b->options.chunk_jobs)
                b->options.chunk_jobs = BULK_CHUNK_JOBS;
        b->argv = xcalloc(MAX_OPTIONS + 8 + 2 * b->options.chunk_jobs, sizeof(*b->argv));
        return b;
}

void bulk_set_once(struct bulk *b, const char *once)
{
        b->options.once = once;
}

struct bulk *bulk_free(struct bulk *b)
{
        if (!b)
                return NULL;
        for (size_t i = 0; i < RING; i++) {
                buf_release(&b->chunks[i].words);
                buf_release(&b->chunks[i].options);
                free(b->chunks[i].lens);
                free(b->chunks[i].lines);
                free(b->chunks[i].tags);
        }
        free(b->argv);
        free(b);
        return NULL;
}

void bulk_put_word(struct buf *options, struct slice word)
{
        char len[4];
        store_u32(len, (uint32_t)word.len);
        buf_put(options, len, sizeof(len));
        buf_put_slice(options, word);
}

static struct slice take_word(struct slice *options)
{
        size_t len = load_u32(options->ptr);
        struct slice word = slice_make(options->ptr + 4, len);
        *options = slice_make(options->ptr + 4 + len, options->len - 4 - len);
        return word;
}

static void chunk_clear(struct chunk *c)
{
        buf_clear(&c->words);
        buf_clear(&c->options);
        c->n = 0;
        c->is_refused = false;
}

static void chunk_put(struct chunk *c, const struct bulk_job *job)
{
        if (c->n == c->cap) {
                c->cap = c->cap ? 2 * c->cap : 64;
                c->lens = xrealloc(c->lens, 2 * c->cap * sizeof(*c->lens));
                c->lines = xrealloc(c->lines, c->cap * sizeof(*c->lines));
                c->tags = xrealloc(c->tags, c->cap * sizeof(*c->tags));
        }
        if (!c->n)
                buf_put_slice(&c->options, job->options);
        buf_put_slice(&c->words, job->hook);
        buf_put_slice(&c->words, job->args);
        c->lens[2 * c->n] = (uint32_t)job->hook.len;
        c->lens[2 * c->n + 1] = (uint32_t)job->args.len;
        c->lines[c->n] = job->line;
        c->tags[c->n++] = job->tag;
}

/* ---- requests and answers ---- */

/* Returns how many words the request has. */
static size_t request_make(struct bulk *b, struct part part)
{
        const struct chunk *c = part.chunk;
        struct slice options = buf_slice(&c->options);
        size_t argc = 0, at = 0;
        if (b->options.once) {
                (void)snprintf(b->key, sizeof(b->key), "%s/%llu+%zu", b->options.once,
                               (unsigned long long)c->lines[part.from], part.n);
                b->argv[argc++] = SLICE_LIT("IDEMPOTENT");
                b->argv[argc++] = slice_str(b->key);
        }
        b->argv[argc++] = SLICE_LIT("ENQUEUEMANY");
        for (size_t i = 0; options.len && i < MAX_OPTIONS; i++)
                b->argv[argc++] = take_word(&options);
        b->argv[argc++] = SLICE_LIT("JOBS");
        for (size_t i = 0; i < 2 * part.from; i++)
                at += c->lens[i];
        for (size_t i = 2 * part.from; i < 2 * (part.from + part.n); i++) {
                b->argv[argc++] = slice_make(c->words.ptr + at, c->lens[i]);
                at += c->lens[i];
        }
        return argc;
}

/* Is the job at fault, and not the server's state? */
static bool is_refusal(int r)
{
        return r == ERR_BADARG || r == ERR_SYNTAX || r == ERR_TOOBIG || r == ERR_CONFLICT ||
               r == ERR_NOTFOUND || r == ERR_FORBIDDEN || r == ERR_STATE;
}

/* Is the connection lost? */
static bool is_loss(int r)
{
        return r == ERR_UNAVAIL || r == ERR_IO || r == ERR_TIMEOUT;
}

static int take_ids(struct bulk *b, struct part part, const struct value *ids, struct problem *p)
{
        const uint64_t *lines = part.chunk->lines + part.from, *tags = part.chunk->tags + part.from;
        if (ids->type != VALUE_LIST || ids->n != part.n)
                return problem_set(p, ERR_SYNTAX, "the server answered for %zu of %zu jobs", ids->n,
                                   part.n);
        for (size_t i = 0; i < part.n; i++)
                b->options.added(b->options.ctx, lines[i], tags[i], value_int(&ids->items[i], 0));
        b->added += part.n;
        return OK;
}

static void tell_refused(struct bulk *b, struct part part, const struct problem *why)
{
        const uint64_t *lines = part.chunk->lines + part.from;
        ASSERT(part.n > 0);
        b->options.refused(b->options.ctx, lines[0], lines[part.n - 1], why);
}

/* The oldest answer. */
static int receive(struct bulk *b, struct problem *p)
{
        struct chunk *c = &b->chunks[(b->head + RING - b->n_sent) % RING];
        const struct value *v;
        int r = client_receive(b->options.client, &v, p);
        if (r == OK)
                r = take_ids(b, (struct part){c, 0, c->n}, v, p);
        b->sent_bytes -= c->words.len;
        b->n_sent--;
        if (r == OK) {
                chunk_clear(c);
                return OK;
        }
        if (!is_refusal(r)) {
                b->unknown += is_loss(r) ? c->n : 0;
                return r;
        }
        if (!b->options.is_skipping) {
                tell_refused(b, (struct part){c, 0, c->n}, p);
                return r;
        }
        c->is_refused = true;
        c->why = *p;
        return OK;
}

/* The server refused this part: one job is reported, more are sent again in halves. */
/* NOLINTNEXTLINE(misc-no-recursion): no deeper than log2 of a chunk */
static int take_apart(struct bulk *b, struct part part, const struct problem *why,
                      struct problem *p)
{
        if (part.n == 1) {
                tell_refused(b, part, why);
                return OK;
        }
        const struct part halves[] = {
                {part.chunk, part.from, part.n / 2},
                {part.chunk, part.from + part.n / 2, part.n - part.n / 2},
        };
        for (size_t i = 0; i < ARRAY_LEN(halves); i++) {
                const struct value *v;
                size_t argc = request_make(b, halves[i]);
                int r = client_call(b->options.client, b->argv, argc, &v, p);
                if (r == OK)
                        r = take_ids(b, halves[i], v, p);
                struct problem cause = *p;
                if (is_refusal(r))
                        r = take_apart(b, halves[i], &cause, p);
                if (r != OK)
                        return r;
        }
        return OK;
}

/* Waits for all that is on its way, then takes refused chunks apart. */
static int drain(struct bulk *b, struct problem *p)
{
        int r = OK;
        struct problem later = {0};
        while (b->n_sent) {
                if (is_loss(r)) { /* nothing will come any more */
                        b->unknown += b->chunks[(b->head + RING - b->n_sent--) % RING].n;
                        continue;
                }
                int e = receive(b, r == OK ? p : &later);
                r = r == OK || is_loss(e) ? e : r;
        }
        for (size_t i = 1; i <= RING; i++) { /* from the oldest: the one after head */
                struct chunk *c = &b->chunks[(b->head + i) % RING];
                if (!c->is_refused)
                        continue;
                if (r == OK)
                        r = take_apart(b, (struct part){c, 0, c->n}, &c->why, p);
                chunk_clear(c);
        }
        return r;
}

/* ---- the way in ---- */

static bool has_refused(const struct bulk *b)
{
        for (size_t i = 0; i < RING; i++)
                if (b->chunks[i].is_refused)
                        return true;
        return false;
}

static int flush(struct bulk *b, struct problem *p)
{
        struct chunk *c = &b->chunks[b->head];
        if (!c->n)
                return OK;
        if (c->words.failed || c->options.failed)
                return problem_set(p, ERR_NOMEM, "no memory for a request");
        size_t argc = request_make(b, (struct part){c, 0, c->n});
        int r = client_send(b->options.client, b->argv, argc, p);
        b->n_sent++;
        b->sent_bytes += c->words.len;
        b->last_line = c->lines[c->n - 1];
        b->head = (b->head + 1) % RING;
        /* By halves, so that small requests stay many at a time: the server syncs them together. */
        size_t keep = b->n_sent >= RING - 1 ? RING / 2 : b->n_sent;
        while (r == OK && b->n_sent && (b->n_sent > keep || b->sent_bytes > WINDOW_BYTES))
                r = receive(b, p);
        if (r == OK && has_refused(b))
                r = drain(b, p);
        return r;
}

int bulk_add(struct bulk *b, const struct bulk_job *job, struct problem *p)
{
        const struct chunk *c = &b->chunks[b->head];
        bool is_full = c->n && (c->n >= b->options.chunk_jobs ||
                                c->words.len + job->args.len > BULK_CHUNK_BYTES ||
                                !slice_eq(buf_slice(&c->options), job->options));
        ASSERT(!b->is_over);
        int r = is_full ? flush(b, p) : OK;
        b->is_over = r != OK;
        if (r == OK)
                chunk_put(&b->chunks[b->head], job);
        return r;
}

void bulk_drop(struct bulk *b)
{
        chunk_clear(&b->chunks[b->head]);
}

int bulk_wait(struct bulk *b, struct problem *p)
{
        struct problem later = {0};
        ASSERT(!b->is_over);
        int r = flush(b, p);
        int e = drain(b, r == OK ? p : &later);
        r = r == OK ? e : r;
        b->is_over = r != OK;
        return r;
}

int bulk_finish(struct bulk *b, struct problem *p)
{
        struct problem later = {0};
        if (b->is_over) {
                (void)drain(b, &later); /* the first error was told */
                return OK;
        }
        int r = bulk_wait(b, p);
        b->is_over = true;
        return r;
}

uint64_t bulk_added(const struct bulk *b)
{
        return b->added;
}

uint64_t bulk_unknown(const struct bulk *b)
{
        return b->unknown;
}

uint64_t bulk_last_line(const struct bulk *b)
{
        return b->last_line;
}
