/* Counters as rows, with a sentence of meaning each: INFO and /metrics walk them. */
#include "core/trace.h"

void core_each_life(const struct core *core, bool is_by_hook,
                    void (*fn)(void *ctx, const struct tally_life *l), void *ctx)
{
        tally_each_life(core->tally, is_by_hook ? TALLY_HOOK : TALLY_QUEUE, fn, ctx);
}

static void count_pending(const struct state *s, uint64_t *ret_ready, uint64_t *ret_scheduled)
{
        *ret_ready = *ret_scheduled = 0;
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                *ret_ready += q->n_ready;
                *ret_scheduled += q->n_scheduled;
        }
}

#define HISTORY_ROWS 12

static void put_history(const struct core *core, struct counter_row ret[HISTORY_ROWS])
{
        struct archive_stat history;
        core_archive_stat(core, &history);
        const struct counter_row rows[] = {
                {"history_jobs", COUNTER_GAUGE, "Jobs in history.", history.rows},
                {"history_row_jobs", COUNTER_GAUGE,
                 "Those of them that are rows; an idle weir packs rows into blocks.",
                 history.rows - history.block_jobs},
                {"history_block_jobs", COUNTER_GAUGE, "Those that are in blocks.",
                 history.block_jobs},
                {"history_blocks", COUNTER_GAUGE, "Blocks of history.", history.blocks},
                {"history_block_bytes", COUNTER_GAUGE, "Bytes of the files that hold blocks.",
                 history.block_bytes},
                {"history_bytes", COUNTER_GAUGE, "Bytes of all files of history.", history.bytes},
                {"history_room_bytes", COUNTER_GAUGE, "Bytes that history can grow by, about.",
                 history.room_bytes == UINT64_MAX ? 0 : history.room_bytes},
                {"history_stored", COUNTER_TOTAL, "Jobs written to history.", history.stored},
                {"history_deleted", COUNTER_TOTAL, "Jobs deleted from history.", history.deleted},
                {"history_errors", COUNTER_TOTAL, "Failed writes of history.", history.errors},
                {"history_waiting_jobs", COUNTER_GAUGE, "Ended jobs that wait for history.",
                 core->state.n_finished - core->state.grace.len},
                {"history_failing", COUNTER_GAUGE, "1 while history cannot be written.",
                 history.failing_since_ms != 0},
        };
        _Static_assert(ARRAY_LEN(rows) == HISTORY_ROWS, "there are so many");
        memcpy(ret, rows, sizeof(rows));
}

size_t core_counters(const struct core *core, struct counter_row *ret, size_t max)
{
        const struct core_totals *t = &core->totals;
        const struct state *s = &core->state;
        const struct log_stat *log = &core->log_stat;
        uint64_t ready, scheduled;
        count_pending(s, &ready, &scheduled);
        uint64_t exported = core->tracer ? core->tracer->exported : 0;
        uint64_t dropped = core->tracer ? core->tracer->dropped : 0;
        const struct counter_row rows[] = {
                {"commands", COUNTER_TOTAL, "Commands executed.", t->commands},
                {"jobs_enqueued", COUNTER_TOTAL, "Jobs accepted.", t->enqueued},
                {"jobs_started", COUNTER_TOTAL, "Leases given.", t->started},
                {"jobs_completed", COUNTER_TOTAL, "Jobs ended well.", t->completed},
                {"jobs_failed", COUNTER_TOTAL, "Jobs whose attempts were used up.", t->failed},
                {"jobs_timed_out", COUNTER_TOTAL, "Leases that ran out.", t->timed_out},
                {"jobs_retried", COUNTER_TOTAL,
                 "Failed or timed out attempts that will be repeated.", t->retried},
                {"jobs_released", COUNTER_TOTAL, "Jobs given back by their worker.", t->released},
                {"jobs_canceled", COUNTER_TOTAL, "Jobs canceled.", t->canceled},
                {"late_completions", COUNTER_TOTAL,
                 "Completions accepted after their lease had run out.", t->late_completions},
                {"refused_nospace", COUNTER_TOTAL, "Enqueues refused for want of disk space.",
                 t->refused_nospace},
                {"slowed_claims", COUNTER_TOTAL,
                 "Claims answered with nothing because history was behind.", t->slowed_claims},
                {"answers_repeated", COUNTER_TOTAL,
                 "Answers given again for their idempotency key.", t->answers_repeated},
                {"audit_waiting", COUNTER_GAUGE, "Entries of the audit trail in the log.",
                 s->n_audits},
                {"audit_dropped", COUNTER_TOTAL,
                 "Entries of the audit trail that history did not take in time.", t->audit_dropped},
                {"answers_kept", COUNTER_GAUGE, "Idempotency keys whose answer is kept.",
                 s->things[THING_ANSWER].len},
                {"answers_bytes", COUNTER_GAUGE, "Bytes of the kept answers with their keys.",
                 s->answer_bytes},
                {"jobs_ready", COUNTER_GAUGE, "Jobs that could run now.", ready},
                {"jobs_scheduled", COUNTER_GAUGE, "Jobs waiting for their time.", scheduled},
                {"jobs_running", COUNTER_GAUGE, "Jobs under a lease.", s->running.len},
                {"jobs_finished", COUNTER_GAUGE, "Ended jobs not yet in history.", s->n_finished},
                {"jobs_live", COUNTER_GAUGE, "Jobs in memory.", s->jobs.len},
                {"queues", COUNTER_GAUGE, "Queues known.", s->queues.len},
                {"everything_paused", COUNTER_GAUGE, "1 while no job of any queue may start.",
                 core->is_everything_paused},
                {"waiting_claims", COUNTER_GAUGE, "Answers that are waited for.", core->n_waits},
                {"locks_granted", COUNTER_TOTAL, "Locks given to a holder.", t->locks_granted},
                {"locks_expired", COUNTER_TOTAL, "Holders whose time ran out.", t->locks_expired},
                {"locks_forced", COUNTER_TOTAL, "Locks taken away with FORCEUNLOCK.",
                 t->locks_forced},
                {"locks_held", COUNTER_GAUGE, "Names that are locked.", s->things[THING_LOCK].len},
                {"slots_fired", COUNTER_TOTAL, "Jobs made by schedules at their slots.",
                 t->slots_fired},
                {"slots_missed", COUNTER_TOTAL, "Slots of schedules that went by without a job.",
                 t->slots_missed},
                {"slots_overlapped", COUNTER_TOTAL,
                 "Slots skipped because the job before had not ended.", t->slots_overlapped},
                {"live_bytes", COUNTER_GAUGE, "Bytes of the live objects as the log keeps them.",
                 s->live_bytes},
                {"fence", COUNTER_GAUGE, "Highest fence number given.", s->fence},
                {"telemetry_exported_spans", COUNTER_TOTAL, "Spans a collector took.", exported},
                {"telemetry_dropped_spans", COUNTER_TOTAL,
                 "Spans without room in the buffer, and those that no collector took.", dropped},
                {"log_batches", COUNTER_TOTAL, "Batches written, each with one sync.", t->batches},
                {"log_bytes", COUNTER_TOTAL, "Bytes written to the log.", log->appended_bytes},
                {"log_retained_bytes", COUNTER_GAUGE, "Bytes of log that are kept.",
                 log->retained_bytes},
                {"log_room_bytes", COUNTER_GAUGE, "Bytes that can be written without new space.",
                 log->room_bytes},
                {"log_sync_ns", COUNTER_GAUGE, "Time of the last write and sync.",
                 log->sync_ns_last},
                {"log_disk_full", COUNTER_GAUGE, "1 while new work is refused for want of space.",
                 log->is_disk_full},
                {"log_cleaned_objects", COUNTER_TOTAL, "Live objects written again by the cleaner.",
                 t->cleaned_objects},
                {"log_cleaned_bytes", COUNTER_TOTAL, "Bytes written by the cleaner.",
                 t->cleaned_bytes},
        };
        _Static_assert(ARRAY_LEN(rows) + HISTORY_ROWS <= CORE_COUNTERS_MAX, "room for all");
        ASSERT(max >= ARRAY_LEN(rows) + HISTORY_ROWS);
        memcpy(ret, rows, sizeof(rows));
        put_history(core, ret + ARRAY_LEN(rows));
        return ARRAY_LEN(rows) + HISTORY_ROWS;
}
