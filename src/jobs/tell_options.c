/* The options of a job as JOB and JOBS tell them: only those it has, under the names of ENQUEUE. */
#include "jobs/tell_options.h"

#include "core/kernel.h"
#include "gate/gate.h"
#include "state/backoff.h"

static const char *const scope_names[] = {"pending", "running", "after"};
static const char *const when_names[] = {"complete", "failed", "ended"};
static const char *const otherwise_names[] = {"cancel", "fail"};

static void tell_word(struct reply *reply, const char *const *words, size_t n, uint64_t place)
{
        reply_str(reply, place < n ? words[place] : "unknown");
}

static void tell_backoff(struct reply *reply, struct slice packed)
{
        struct backoff backoff;
        struct buf text;
        buf_init(&text, 0);
        if (backoff_unpack(&backoff, &packed))
                backoff_to_text(&backoff, &text);
        reply_text(reply, buf_slice(&text));
        buf_release(&text);
}

static void tell_after(struct reply *reply, struct slice ids)
{
        struct reader r = reader_make(ids);
        size_t n = 0;
        for (; reader_left(&r) && !r.failed; n++)
                (void)reader_varint(&r);
        reply_list(reply, n);
        r = reader_make(ids);
        while (n--)
                reply_int(reply, (int64_t)reader_varint(&r));
        reply_end(reply);
}

void tell_options(struct reply *reply, struct slice packed, uint64_t deferring_ms)
{
        struct job_options o;
        if (!options_unpack(packed, &o))
                o = (struct job_options){0}; /* of a history that somebody edited */
        const struct {
                const char *key;
                struct slice text;
        } texts[] = {{"unique", o.unique},    {"key", o.key},     {"limit", o.limit},
                     {"target", o.target},    {"batch", o.batch}, {"signature", o.signature},
                     {"schedule", o.schedule}};
        const struct {
                const char *key;
                uint64_t value;
        } numbers[] = {{"maxrun", o.maxrun_ms},
                       {"uniquefor", o.unique_ms},
                       {"keymax", o.key_max},
                       {"expires_ms", o.expires_ms},
                       {"resultfor", o.result_ms},
                       {"slot_ms", o.slot_ms},
                       {"run", o.run}};
        bool has_waited = o.deferred_ms || o.parked;
        size_t n = has_waited + (o.tier > 0 && o.tier <= TIERS) + (o.backoff.len > 0) +
                   (o.unique.len > 0) + 3 * (o.after.len > 0);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                n += texts[i].text.len > 0;
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                n += numbers[i].value > 0;
        reply_map(reply, n);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                if (!texts[i].text.len)
                        continue;
                reply_key(reply, texts[i].key);
                reply_text(reply, texts[i].text);
        }
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
                if (!numbers[i].value)
                        continue;
                reply_key(reply, numbers[i].key);
                reply_int(reply, (int64_t)numbers[i].value);
        }
        if (has_waited) {
                reply_key(reply, "deferred_ms");
                reply_int(reply, (int64_t)(o.deferred_ms + deferring_ms));
        }
        if (o.tier && o.tier <= TIERS) {
                reply_key(reply, "tier");
                reply_str(reply, tier_name((enum tier)(o.tier - 1)));
        }
        if (o.backoff.len) {
                reply_key(reply, "backoff");
                tell_backoff(reply, o.backoff);
        }
        if (o.unique.len) {
                reply_key(reply, "scope");
                tell_word(reply, scope_names, ARRAY_LEN(scope_names), o.unique_scope);
        }
        if (o.after.len) {
                reply_key(reply, "after");
                tell_after(reply, o.after);
                reply_key(reply, "when");
                tell_word(reply, when_names, ARRAY_LEN(when_names), o.when);
                reply_key(reply, "otherwise");
                tell_word(reply, otherwise_names, ARRAY_LEN(otherwise_names), o.otherwise);
        }
        reply_end(reply);
}
