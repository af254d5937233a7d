/* A reply, told to whoever encodes it: the core says what, the door's ops say how.
 *
 * Containers announce their length first and are closed with reply_end().  A map has keys in
 * every encoding; a record has a fixed order of fields, so that RESP may send it as a plain
 * array while JSON still names the fields.  An error replaces the whole reply and must come
 * before anything else was said. */
#ifndef WEIR_API_REPLY_H
#define WEIR_API_REPLY_H

#include "base/err.h"
#include "base/slice.h"

struct reply;

struct reply_ops {
        void (*null)(struct reply *r);
        void (*boolean)(struct reply *r, bool v);
        void (*integer)(struct reply *r, int64_t v);
        void (*text)(struct reply *r, struct slice v);    /* a string of bytes */
        void (*payload)(struct reply *r, struct slice v); /* args, result: JSON where it is JSON */
        void (*ok)(struct reply *r);                      /* +OK; {"ok":true} */
        void (*list)(struct reply *r, size_t n);
        void (*map)(struct reply *r, size_t n);
        void (*record)(struct reply *r, size_t n);
        void (*key)(struct reply *r, const char *name); /* before each value of map and record */
        void (*end)(struct reply *r);
        void (*error)(struct reply *r, const struct problem *problem);
        /* Names the whole reply where the encoding wants an object at the top (JSON: {"name":
         * value}); comes first, the encoder closes it when the reply ends.  NULL: not needed. */
        void (*wrap)(struct reply *r, const char *name);
        /* The reply that follows was given before, for the same idempotency key.  NULL: nobody is
         * told. */
        void (*again)(struct reply *r);
        /* Records show the names of their fields, and null says less than an object would. */
        bool has_names;
};

struct reply {
        const struct reply_ops *ops;
};

static inline void reply_null(struct reply *r)
{
        r->ops->null(r);
}
static inline void reply_bool(struct reply *r, bool v)
{
        r->ops->boolean(r, v);
}
static inline void reply_int(struct reply *r, int64_t v)
{
        r->ops->integer(r, v);
}
static inline void reply_text(struct reply *r, struct slice v)
{
        r->ops->text(r, v);
}
static inline void reply_str(struct reply *r, const char *v)
{
        r->ops->text(r, slice_str(v));
}
static inline void reply_payload(struct reply *r, struct slice v)
{
        r->ops->payload(r, v);
}
static inline void reply_ok(struct reply *r)
{
        r->ops->ok(r);
}
static inline void reply_list(struct reply *r, size_t n)
{
        r->ops->list(r, n);
}
static inline void reply_map(struct reply *r, size_t n)
{
        r->ops->map(r, n);
}
static inline void reply_record(struct reply *r, size_t n)
{
        r->ops->record(r, n);
}
static inline void reply_key(struct reply *r, const char *name)
{
        r->ops->key(r, name);
}
static inline void reply_end(struct reply *r)
{
        r->ops->end(r);
}
static inline void reply_error(struct reply *r, const struct problem *p)
{
        r->ops->error(r, p);
}

static inline void reply_wrap(struct reply *r, const char *name)
{
        if (r->ops->wrap)
                r->ops->wrap(r, name);
}

static inline void reply_again(struct reply *r)
{
        if (r->ops->again)
                r->ops->again(r);
}

#endif
