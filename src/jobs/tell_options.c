/* See tell_options.h. */
#include "jobs/tell_options.h"

#include "core/kernel.h"
#include "gate/gate.h"
#include "state/backoff.h"

static const char *const scope_names[] = {"pending", "running", "after"};
static const char *const when_names[] = {"complete", "failed", "ended"};
static const char *const otherwise_names[] = {"cancel", "fail"};

static const char *word(const char *const *words, size_t n, uint64_t place)
{
        return place < n ? words[place] : "unknown";
}

static size_t count_ids(struct slice ids)
{
        struct reader r = reader_make(ids);
        size_t n = 0;
        for (; reader_left(&r) && !r.failed; n++)
                (void)reader_varint(&r);
        return n;
}

static void tell_ids(struct reply *reply, const struct reply_items *items)
{
        struct reader r = reader_make(*(const struct slice *)items->of);
        for (size_t i = 0; i < items->n; i++)
                reply_int(reply, (int64_t)reader_varint(&r));
}

/* "" when it cannot be read. */
static const char *backoff_text(struct slice packed, struct buf *room)
{
        struct backoff backoff;
        if (backoff_unpack(&backoff, &packed))
                backoff_to_text(&backoff, room);
        return buf_cstr(room);
}

struct options_reply options_of(struct slice packed, uint64_t deferring_ms,
                                struct options_room *room)
{
        struct job_options *o = &room->options;
        if (!options_unpack(packed, o))
                *o = (struct job_options){0}; /* of a history that somebody edited */
        buf_init(&room->backoff, 0);
        struct options_reply told = {
                .schedule = o->schedule,
                .expires_ms = (int64_t)o->expires_ms,
                .slot_ms = (int64_t)o->slot_ms,
                .run = (int64_t)o->run,
                .deferred_ms = REPLY_NONE,
#define TOLD_PLAIN(name, field)              .name = o->field,
#define TOLD_OWN(name, field)                /* below, where it is told at all */
#define TOLD_SPEC(name, field)               /* the same */
#define JOB_OPTION(p, name, how, field, ...) TOLD_##how(name, field)
#include "api/job_options.def"
        };
        if (o->deferred_ms || o->parked)
                told.deferred_ms = (int64_t)(o->deferred_ms + deferring_ms);
        if (o->tier && o->tier <= TIERS)
                told.tier = tier_name((enum tier)(o->tier - 1));
        if (o->backoff.len)
                told.backoff = backoff_text(o->backoff, &room->backoff);
        if (o->unique.len)
                told.scope = word(scope_names, ARRAY_LEN(scope_names), o->unique_scope);
        if (o->after.len) {
                told.after = (struct reply_items){count_ids(o->after), tell_ids, NULL, &o->after};
                told.when = word(when_names, ARRAY_LEN(when_names), o->when);
                told.otherwise = word(otherwise_names, ARRAY_LEN(otherwise_names), o->otherwise);
        }
        return told;
}

void options_room_release(struct options_room *room)
{
        buf_release(&room->backoff);
}
