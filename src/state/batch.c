/* See batch.h.
 *
 * The record has two parts: the counts, which change, and the terms, which do not and are kept as
 * the bytes they came in.  A note is two bytes and a name, so a job of a batch costs the log some
 * 60 bytes more, whatever the size of the batch.
 *
 * In replay a job may come before its batch: then it joins one that is made for it and that the
 * record fills in later; jobs that turn out to be of an older batch are let go then. */
#include "state/batch.h"

#include "state/state_int.h"

/* ---- jobs ---- */

static void detach(struct batch *b, struct job_extra *x)
{
        list_remove(&x->batch_link);
        b->n_left -= !x->is_batch_ended;
        x->batch = NULL;
}

static void detach_older(struct batch *b, struct list *jobs, uint64_t first_id)
{
        LIST_FOREACH(jobs, it)
        {
                struct job_extra *x = CONTAINER_OF(it, struct job_extra, batch_link);
                if (job_id(x->job) < first_id)
                        detach(b, x);
        }
}

static void join(struct state *s, struct job *job)
{
        struct job_extra *x = job->extra;
        struct slice name = x->options.batch;
        if (!name.len || x->options.run)
                return;
        struct thing *t = thing_find(s, THING_BATCH, name);
        if (t && thing_is_durable(t) && job_id(x->job) < batch_of(t)->terms.first_id)
                return;
        if (!s->is_replaying && (!t || !thing_is_durable(t)))
                return;
        t = thing_get(s, THING_BATCH, name);
        x->batch = t;
        x->is_batch_ended = false;
        list_push_back(&batch_of(t)->left, &x->batch_link);
        batch_of(t)->n_left++;
}

static void part(struct state *s, struct job *job)
{
        struct job_extra *x = job->extra;
        struct thing *t = x->batch;
        if (!t)
                return;
        struct batch *b = batch_of(t);
        detach(b, x);
        if (!thing_is_durable(t) && list_is_empty(&b->left) && list_is_empty(&b->ended))
                thing_drop(s, t);
}

static void moved(struct job *job)
{
        struct job_extra *x = job->extra;
        if (job->state != JOB_FINISHED || !x->batch || x->is_batch_ended)
                return;
        struct batch *b = batch_of(x->batch);
        list_remove(&x->batch_link);
        list_push_back(&b->ended, &x->batch_link);
        b->n_left--;
        x->is_batch_ended = true;
}

/* ---- bodies ---- */

#define COUNT_FIELDS(F)                                                                            \
        F(U8, flags, ALWAYS, "flags", "1 closed, 2 canceling, 4 finished")                         \
        F(NUM, total, ALWAYS, "total", "jobs")                                                     \
        F(NUM, complete, ALWAYS, "complete", "of them, complete")                                  \
        F(NUM, failed, ALWAYS, "failed", "of them, failed")                                        \
        F(NUM, canceled, ALWAYS, "canceled", "of them, canceled")                                  \
        F(TIME, finished_ms, ALWAYS, "finished_ms", "when it finished, Unix time; 0 = not yet")    \
        F(TIME, forget_ns, ALWAYS, "forget_ns", "when it is forgotten, steady clock")              \
        F(NUM, callback_ids[BATCH_ON_SUCCESS], ALWAYS, "success_id",                               \
          "job of the callback on success; 0 = none")                                              \
        F(NUM, callback_ids[BATCH_ON_DONE], ALWAYS, "done_id",                                     \
          "job of the callback at the end; 0 = none")

#define TERM_FIELDS(F)                                                                             \
        F(NUM, first_id, ALWAYS, "first_id", "jobs with smaller ids are of an older batch")        \
        F(TIME, created_ms, ALWAYS, "created_ms", "when it was created, Unix time")                \
        F(TEXT, title, ALWAYS, "title", "for people")                                              \
        F(TEXT, queue, ALWAYS, "queue", "of the callbacks")                                        \
        F(U8, priority, ALWAYS, "priority", "of the callbacks")                                    \
        F(TEXT, callbacks[BATCH_ON_SUCCESS].hook, ALWAYS, "success_hook",                          \
          "callback; empty = none")                                                                \
        F(TEXT, callbacks[BATCH_ON_SUCCESS].args, ALWAYS, "success_args", "of the callback")       \
        F(TEXT, callbacks[BATCH_ON_SUCCESS].signature, ALWAYS, "success_signature",                \
          "of the callback")                                                                       \
        F(TEXT, callbacks[BATCH_ON_DONE].hook, ALWAYS, "done_hook", "callback; empty = none")      \
        F(TEXT, callbacks[BATCH_ON_DONE].args, ALWAYS, "done_args", "of the callback")             \
        F(TEXT, callbacks[BATCH_ON_DONE].signature, ALWAYS, "done_signature", "of the callback")

static const struct field batch_fields[] = {COUNT_FIELDS(DOC_FIELD) TERM_FIELDS(DOC_FIELD)};

static void put_counts(struct buf *b, const struct batch *o)
{
        COUNT_FIELDS(PUT_FIELD)
}

static bool read_counts(struct reader *r, struct batch *o)
{
        COUNT_FIELDS(GET_FIELD)
        uint64_t left = o->total;
        const uint64_t ended[] = {o->complete, o->failed, o->canceled};
        for (size_t i = 0; i < ARRAY_LEN(ended); i++) {
                if (ended[i] > left)
                        return false;
                left -= ended[i];
        }
        bool is_finished = o->flags & BATCH_IS_FINISHED;
        if (is_finished && (left || !(o->flags & BATCH_IS_CLOSED)))
                return false;
        return !r->failed && !(o->flags & ~BATCH_FLAGS_ALL);
}

static void put_terms(struct buf *b, const struct batch_terms *o)
{
        TERM_FIELDS(PUT_FIELD)
}

/* Everything borrowed from what is read. */
static bool read_terms(struct reader *r, struct batch_terms *o)
{
        TERM_FIELDS(GET_FIELD)
        return !r->failed && reader_left(r) == 0 && o->queue.len > 0;
}

void batch_put_new(struct buf *body, const struct batch_terms *terms, const struct batch_past *past)
{
        struct batch fresh = {
                .total = past->complete + past->failed + past->canceled,
                .complete = past->complete,
                .failed = past->failed,
                .canceled = past->canceled,
        };
        put_counts(body, &fresh);
        put_terms(body, terms);
}

/* ---- the kind ---- */

static void init(struct state *s, struct thing *t)
{
        (void)s;
        struct batch *b = batch_of(t);
        list_init(&b->left);
        list_init(&b->ended);
        buf_init(&b->packed, 0);
}

/* When jobs/batch.c is to look at it. */
static void rearm(struct state *s, struct batch *b)
{
        int64_t at = INT64_MAX;
        if (b->flags & BATCH_IS_FINISHED)
                at = b->forget_ns;
        else if (batch_is_due(b))
                at = s->steady_ns + BATCH_RETRY_NS;
        else if (b->flags & BATCH_IS_CANCELING)
                at = s->steady_ns;
        thing_alarm(s, &b->thing, at);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct batch *b = batch_of(t);
        struct reader r = reader_make(body);
        if (!read_counts(&r, b))
                return false;
        struct buf packed;
        buf_init(&packed, 0);
        buf_put(&packed, r.at, reader_left(&r));
        buf_release(&b->packed);
        b->packed = packed;
        r = reader_make(buf_slice(&b->packed));
        if (!read_terms(&r, &b->terms))
                return false;
        detach_older(b, &b->left, b->terms.first_id);
        detach_older(b, &b->ended, b->terms.first_id);
        rearm(s, b);
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        const struct batch *b = CONTAINER_OF(t, const struct batch, thing);
        put_counts(body, b);
        buf_put_slice(body, buf_slice(&b->packed));
}

static bool count_ended(const struct batch *b, uint64_t *count, uint64_t n)
{
        if (n > batch_left(b))
                return false;
        *count += n;
        return true;
}

static bool add(struct batch *b, uint64_t n)
{
        if (n > UINT64_MAX - b->total || (b->flags & BATCH_IS_CLOSED))
                return false;
        b->total += n;
        return true;
}

static bool count_late(struct batch *b, uint64_t n)
{
        if (n > b->failed)
                return false;
        b->failed -= n;
        b->complete += n;
        return true;
}

static bool finish(const struct state *s, struct batch *b)
{
        if (!batch_is_due(b))
                return false;
        b->flags |= BATCH_IS_FINISHED;
        b->finished_ms = s->wall_ms;
        b->forget_ns = s->steady_ns + BATCH_KEPT_NS;
        return true;
}

static bool change(const struct state *s, struct batch *b, uint8_t what, uint64_t value)
{
        switch (what) {
        case BATCH_ADDED:
                return add(b, value);
        case BATCH_COMPLETE:
                return count_ended(b, &b->complete, value);
        case BATCH_FAILED:
                return count_ended(b, &b->failed, value);
        case BATCH_CANCELED:
                return count_ended(b, &b->canceled, value);
        case BATCH_LATE:
                return count_late(b, value);
        case BATCH_CLOSED:
                b->flags |= BATCH_IS_CLOSED;
                return true;
        case BATCH_CANCELING:
                b->flags |= BATCH_IS_CLOSED | BATCH_IS_CANCELING;
                return true;
        case BATCH_CALLED_SUCCESS:
                b->callback_ids[BATCH_ON_SUCCESS] = value;
                return true;
        case BATCH_CALLED_DONE:
                b->callback_ids[BATCH_ON_DONE] = value;
                return true;
        case BATCH_FINISHED:
                return finish(s, b);
        default:
                return false;
        }
}

static bool note(struct state *s, struct thing *t, struct slice body)
{
        struct batch *b = batch_of(t);
        struct reader r = reader_make(body);
        uint8_t what = reader_u8(&r);
        uint64_t value = reader_varint(&r);
        if (r.failed || reader_left(&r) || !change(s, b, what, value))
                return false;
        rearm(s, b);
        return true;
}

bool batch_recount(struct state *s, struct batch *b)
{
        uint64_t left = batch_left(b);
        if (left == b->n_left)
                return false;
        if (b->n_left > left) {
                b->total += b->n_left - left;
                b->flags &= (uint8_t)~BATCH_IS_FINISHED; /* callbacks that were made stay so */
                b->finished_ms = b->forget_ns = 0;
        } else {
                b->failed += left - b->n_left;
        }
        rearm(s, b);
        return true;
}

/* Ended jobs may outlive it on their way to history. */
static void release(struct state *s, struct thing *t)
{
        (void)s;
        struct batch *b = batch_of(t);
        detach_older(b, &b->left, UINT64_MAX);
        detach_older(b, &b->ended, UINT64_MAX);
        buf_release(&b->packed);
}

static size_t check_jobs(const struct batch *b, const struct list *jobs, bool is_ended)
{
        size_t n = 0;
        for (const struct list *it = jobs->next; it != jobs; it = it->next, n++) {
                const struct job_extra *x = CONTAINER_OF(it, const struct job_extra, batch_link);
                ASSERT(x->batch == &b->thing && x->is_batch_ended == is_ended && !x->options.run);
                ASSERT((x->job->state == JOB_FINISHED) == is_ended);
                ASSERT(slice_eq(x->options.batch, thing_name(&b->thing)));
        }
        return n;
}

static void check(const struct thing *t)
{
        const struct batch *b = CONTAINER_OF(t, const struct batch, thing);
        ASSERT(check_jobs(b, &b->left, false) == b->n_left);
        (void)check_jobs(b, &b->ended, true); /* how many is nobody's business */
        if (!thing_is_durable(t))
                return;
        ASSERT(batch_left(b) == b->n_left); /* (1) */
        if (b->flags & BATCH_IS_FINISHED)
                ASSERT((b->flags & BATCH_IS_CLOSED) && !b->n_left); /* (2) */
}

const struct thing_ops batch_ops = {
        .text = "A batch: its counts and its callbacks.",
        .fields = batch_fields,
        .n_fields = ARRAY_LEN(batch_fields),
        .size = sizeof(struct batch),
        .is_ordered = true,
        .init = init,
        .set = set,
        .put = put,
        .note = note,
        .release = release,
        .join = join,
        .moved = moved,
        .part = part,
        .check = check,
};
