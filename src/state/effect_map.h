/* The records of the log: one row per effect, and one list of fields for each.
 *
 * effect.c makes the reader, the writer and the lines of `weir log dump` from these rows, apply.c
 * the table of what they change, and `make docs` writes docs/log-records.md.
 *
 * The bytes never change.  Append new effects at the end and never reuse a number.  A new field
 * goes to the end of its record, with a `when` of its own, and raises EFFECT_VERSION.
 *
 *      X(NAME, name, subject, sentence)      the fields are NAME_FIELDS (see state/field.h)
 *
 * subject   JOB: `id` names a live job.  In replay its full record may come later in the log; then
 *           the effect is skipped.  OTHER: any other effect.
 *
 * when      ALWAYS; V2: since version 2 of the record; MORE: when has_more is set.
 *
 * The queue is named wherever its totals change: in replay the job may be gone although its queue
 * is not. */
#ifndef WEIR_STATE_EFFECT_MAP_H
#define WEIR_STATE_EFFECT_MAP_H

#define EFFECT_VERSION 2

#define EFFECT_MAP(X)                                                                              \
        X(CLOCK, clock, OTHER, "The time of all that follows in the batch.")                       \
        X(JOB_NEW, job_new, OTHER, "A job is created.")                                            \
        X(JOB_START, job_start, JOB, "An attempt starts: a worker holds a lease.")                 \
        X(JOB_DONE, job_done, JOB, "The worker completed the job.  final: it had failed before.")  \
        X(JOB_FAIL, job_fail, JOB, "An attempt failed.")                                           \
        X(JOB_TIMEOUT, job_timeout, JOB, "The lease of an attempt ended.")                         \
        X(JOB_RELEASE, job_release, JOB, "The worker gave the job back; no attempt is used.")      \
        X(JOB_EXTEND, job_extend, JOB, "The lease is longer.")                                     \
        X(JOB_PROGRESS, job_progress, JOB, "The worker reported progress.")                        \
        X(JOB_CANCEL, job_cancel, JOB, "The job was canceled.")                                    \
        X(ARCHIVED, archived, OTHER, "Ended jobs are in history now and leave the state.")         \
        X(QUEUE_SET, queue_set, OTHER, "A queue is paused or resumed, or has new settings.")       \
        X(QUEUE_GONE, queue_gone, OTHER, "An idle queue is forgotten.")                            \
        X(META_FULL, meta_full, OTHER, "The counters; written again by the cleaner.")              \
        X(QUEUE_FULL, queue_full, OTHER, "A whole queue; written again by the cleaner.")           \
        X(JOB_FULL, job_full, OTHER, "A whole job; written again by the cleaner.")                 \
        X(GRACE_END, grace_end, JOB, "A timed-out job accepts no late completion any more.")       \
        X(THING_SET, thing_set, OTHER, "A whole named thing; made when missing.")                  \
        X(THING_NOTE, thing_note, OTHER, "A change of a named thing.")                             \
        X(THING_GONE, thing_gone, OTHER, "A named thing is deleted.")                              \
        X(JOB_BACK, job_back, OTHER, "A job of history is live again; a whole job.")               \
        X(JOB_AFTER, job_after, JOB, "A job waits for another job no longer.")                     \
        X(JOB_DUE, job_due, JOB, "A pending job is due at another time.")                          \
        X(JOB_ARGS, job_args, JOB, "A pending job has other args.")                                \
        X(JOB_PARK, job_park, JOB, "As job_gate; only in older logs.")                             \
        X(JOB_TIER, job_tier, JOB, "A pending job has another tier.")                              \
        X(JOB_GATE, job_gate, JOB, "The throttler parks, moves or returns a pending job.")         \
        X(DIGEST, digest, OTHER, "Machines of a cluster digest the next part of the state.")

#define CLOCK_FIELDS(F)                                                                            \
        F(TIME, steady_ns, ALWAYS, "steady_ns", "steady clock")                                    \
        F(TIME, wall_ms, ALWAYS, "wall_ms", "Unix time")

#define JOB_NEW_FIELDS(F)                                                                          \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(TIME, due_ms, ALWAYS, "due_ms", "when it is due; 0 = at once")                           \
        F(U8, priority, ALWAYS, "priority", "0 is the most urgent")                                \
        F(U8, flags, ALWAYS, "flags", "1: due_ms is a wall-clock time (AT)")                       \
        F(U16, attempts, ALWAYS, "attempts", "how many attempts it may use")                       \
        F(U32, timeout_ms, ALWAYS, "timeout_ms", "lease of an attempt; 0 = the default")           \
        F(NUM, queue_id, ALWAYS, "queue_id", "number of its queue")                                \
        F(TEXT, queue, ALWAYS, "queue", "name of its queue")                                       \
        F(TEXT, hook, ALWAYS, "hook", "what to run")                                               \
        F(TEXT, group, ALWAYS, "group", "empty = none")                                            \
        F(TEXT, args, ALWAYS, "args", "what the worker gets")                                      \
        F(PACKED, options, V2, "options", "options of the job, see below")

#define JOB_START_FIELDS(F)                                                                        \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(FENCE, fence, ALWAYS, "fence", "number of the lease; grows with every lease")            \
        F(TOKEN, token, ALWAYS, "token", "secret of the lease")                                    \
        F(TIME, deadline_ns, ALWAYS, "deadline_ns", "end of the lease on the steady clock")        \
        F(U32, lease_ms, ALWAYS, "lease_ms", "length of the lease")                                \
        F(TEXT, worker, ALWAYS, "worker", "name of the worker")                                    \
        F(NUM, other_id, V2, "claim", "fence of the first job of the same claim")

/* What the effects that end an attempt begin with. */
#define ATTEMPT_END_FIELDS(F)                                                                      \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(MARKS, keep, ALWAYS, "marks", "1 keep: goes to history; 2 final: no further attempt")    \
        F(NUM, queue_id, ALWAYS, "queue_id", "number of its queue")

#define JOB_DONE_FIELDS(F)                                                                         \
        ATTEMPT_END_FIELDS(F)                                                                      \
        F(TEXT, text, ALWAYS, "text", "the result")

#define JOB_FAIL_FIELDS(F)                                                                         \
        ATTEMPT_END_FIELDS(F)                                                                      \
        F(TIME, due_ms, ALWAYS, "due_ms", "when the next attempt is due; 0 = at once")             \
        F(TEXT, text, ALWAYS, "text", "the error")

#define JOB_TIMEOUT_FIELDS(F)                                                                      \
        ATTEMPT_END_FIELDS(F)                                                                      \
        F(TIME, deadline_ns, ALWAYS, "deadline_ns", "final: until when a completion is accepted")

#define JOB_RELEASE_FIELDS(F)                                                                      \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(TIME, due_ms, ALWAYS, "due_ms", "when it is due; 0 = at once")

#define JOB_EXTEND_FIELDS(F)                                                                       \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(TIME, deadline_ns, ALWAYS, "deadline_ns", "end of the lease on the steady clock")        \
        F(U32, lease_ms, ALWAYS, "lease_ms", "length of the lease")

#define JOB_PROGRESS_FIELDS(F)                                                                     \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(TEXT, text, ALWAYS, "text", "the progress")

#define JOB_CANCEL_FIELDS(F)                                                                       \
        ATTEMPT_END_FIELDS(F)                                                                      \
        F(TEXT, text, ALWAYS, "text", "the reason")

#define ARCHIVED_FIELDS(F) F(IDS, ids, ALWAYS, "ids", "the jobs, in the order in which they ended")

#define QUEUE_SET_FIELDS(F)                                                                        \
        F(NUM, queue_id, ALWAYS, "queue_id", "number of the queue; never reused")                  \
        F(TEXT, queue, ALWAYS, "queue", "name of the queue")                                       \
        F(BOOL, is_paused, ALWAYS, "paused", "no job of it is started")                            \
        F(PACKED, options, V2, "options", "settings of the queue, see below")

#define QUEUE_GONE_FIELDS(F) F(TEXT, queue, ALWAYS, "queue", "name of the queue")

#define META_FULL_FIELDS(F)                                                                        \
        F(NUM, next_id, ALWAYS, "next_id", "id of the next job")                                   \
        F(NUM, fence, ALWAYS, "fence", "the highest fence that was given out")                     \
        F(NUM, next_queue_id, ALWAYS, "next_queue_id", "number of the next queue")

#define QUEUE_FULL_FIELDS(F)                                                                       \
        F(NUM, queue_id, ALWAYS, "queue_id", "number of the queue; never reused")                  \
        F(TEXT, queue, ALWAYS, "queue", "name of the queue")                                       \
        F(BOOL, is_paused, ALWAYS, "paused", "no job of it is started")                            \
        F(NUM, enqueued, ALWAYS, "enqueued", "jobs created since the queue exists")                \
        F(NUM, completed, ALWAYS, "completed", "jobs that completed")                              \
        F(NUM, failed, ALWAYS, "failed", "jobs that failed for good")                              \
        F(NUM, canceled, ALWAYS, "canceled", "jobs that were canceled")                            \
        F(PACKED, options, V2, "options", "settings of the queue, see below")

#define JOB_FULL_FIELDS(F)                                                                         \
        F(NUM, view.id, ALWAYS, "id", "the job")                                                   \
        F(TIME, view.due_ms, ALWAYS, "due_ms", "when it is due")                                   \
        F(TIME, view.created_ms, ALWAYS, "created_ms", "when it was created")                      \
        F(U8, view.priority, ALWAYS, "priority", "0 is the most urgent")                           \
        F(U8, flags, ALWAYS, "flags", "1: due_ms is a wall-clock time (AT)")                       \
        F(STATE, state, ALWAYS, "status", "0 scheduled, 1 ready, 2 running, 3 finished, 5 held")   \
        F(U8, outcome, ALWAYS, "outcome", "of a finished job: 2 complete, 3 failed, 4 canceled")   \
        F(U16, view.attempt, ALWAYS, "attempt", "attempts used")                                   \
        F(U16, view.attempts_max, ALWAYS, "attempts", "how many attempts it may use")              \
        F(U32, view.timeout_ms, ALWAYS, "timeout_ms", "lease of an attempt; 0 = the default")      \
        F(NUM, queue_id, ALWAYS, "queue_id", "number of its queue")                                \
        F(TEXT, view.queue, ALWAYS, "queue", "name of its queue")                                  \
        F(TEXT, view.hook, ALWAYS, "hook", "what to run")                                          \
        F(TEXT, view.group, ALWAYS, "group", "empty = none")                                       \
        F(TEXT, view.args, ALWAYS, "args", "what the worker gets")                                 \
        F(BOOL, has_more, ALWAYS, "has_more", "it was started, ended or has events")               \
        F(NUM, view.fence, MORE, "fence", "of the last lease; 0 = never started")                  \
        F(TOKEN, token, MORE, "token", "of the last lease")                                        \
        F(TIME, deadline_ns, MORE, "deadline_ns", "end of that lease, or of its grace")            \
        F(U32, lease_ms, MORE, "lease_ms", "length of that lease")                                 \
        F(TIME, view.started_ms, MORE, "started_ms", "last start; 0 = never")                      \
        F(TIME, view.finished_ms, MORE, "finished_ms", "its end; 0 = not yet")                     \
        F(BOOL, is_lease_open, MORE, "lease_open", "the last worker may still complete it")        \
        F(TEXT, view.worker, MORE, "worker", "name of the last worker")                            \
        F(TEXT, view.progress, MORE, "progress", "last progress of that worker")                   \
        F(TEXT, view.result, MORE, "result", "what the worker returned")                           \
        F(TEXT, view.error, MORE, "error", "last error")                                           \
        F(KEPT, events_kept, MORE, "events_kept", "how many events follow")                        \
        F(PACKED, view.events, MORE, "events", "packed events (state/event.h)")                    \
        F(PACKED, view.options, V2, "options", "options of the job, see below")                    \
        F(NUM, other_id, V2, "claim", "fence of the first job of the same claim")

#define GRACE_END_FIELDS(F) F(NUM, id, ALWAYS, "id", "the job")

#define THING_GONE_FIELDS(F)                                                                       \
        F(KIND, kind, ALWAYS, "kind", "number of the kind, see below")                             \
        F(TEXT, name, ALWAYS, "name", "its name, unique within the kind")

#define THING_SET_FIELDS(F)                                                                        \
        THING_GONE_FIELDS(F)                                                                       \
        F(TEXT, body, ALWAYS, "body", "the bytes of the kind")

#define THING_NOTE_FIELDS(F) THING_SET_FIELDS(F)

#define JOB_BACK_FIELDS(F)   JOB_FULL_FIELDS(F)

#define JOB_AFTER_FIELDS(F)                                                                        \
        F(NUM, id, ALWAYS, "id", "the job that waits")                                             \
        F(NUM, other_id, ALWAYS, "after", "the job it waited for; 0 = all")

#define JOB_DUE_FIELDS(F)                                                                          \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(TIME, due_ms, ALWAYS, "due_ms", "when it is due; 0 = at once")                           \
        F(TEXT, text, ALWAYS, "text", "the reason")

#define JOB_ARGS_FIELDS(F)                                                                         \
        F(NUM, id, ALWAYS, "id", "the job")                                                        \
        F(TEXT, args, ALWAYS, "args", "what the worker gets")

#define JOB_PARK_FIELDS(F)                                                                         \
        JOB_DUE_FIELDS(F)                                                                          \
        F(U8, priority, ALWAYS, "priority", "the tier under which it waits")                       \
        F(TIME, deadline_ns, ALWAYS, "deadline_ns", "length of the wait; 0: only the tier changes")

#define JOB_TIER_FIELDS(F)                                                                         \
        JOB_PROGRESS_FIELDS(F)                                                                     \
        F(U8, priority, ALWAYS, "priority", "1 + its tier; 0 = as its hook is registered")         \
        F(U8, flags, ALWAYS, "flags", "1 + the tier under which it waits; 0 = it does not wait")

#define JOB_GATE_FIELDS(F)                                                                         \
        JOB_PARK_FIELDS(F)                                                                         \
        F(GATE, flags, ALWAYS, "flags", "bits 0-2: enum park_step; from bit 3 on: PARKED_* bits")

#define DIGEST_FIELDS(F)                                                                           \
        F(NUM, from, ALWAYS, "from",                                                               \
          "a digest begins: every object is in the log from this batch on; 0 = it goes on")        \
        F(NUM, bytes, ALWAYS, "bytes", "how much is digested, as records of the log")

#endif
