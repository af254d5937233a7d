/* The writer thread of history: when to write, delete and move the -wal file.
 *
 * When to commit.  A sync costs the disk that the log writes to as well, so there is at most one
 * in COMMIT_EVERY_MS: a job that comes after a pause is committed at once, under load a
 * transaction holds what came in that time, and QUEUE_LONG jobs do not wait.  Listings join both,
 * so no client sees when a job moves.  After a failure the writer waits longer each time, up to
 * RETRY_MAX_MS.
 *
 * Incidents (what the gate did) are few and wanted soon: a transaction of their own, at most one in
 * NOTE_EVERY_MS.  So a crash loses no more than the last quarter of a second of them.  The audit
 * trail is written the same way, but the log holds it meanwhile.  Rollups come once a minute and
 * are written at once.
 *
 * Idle moments are for the rest: moving the -wal file into the main file, packing rows into blocks,
 * and retention, one short step at a time, jobs first.  A busy writer still takes a step four times
 * a second. */
#include "base/background.h"
#include "base/say.h"
#include "history/history_int.h"

#define QUEUE_LONG      20000
#define NOTE_EVERY_MS   250
#define RETRY_MIN_MS    100
#define RETRY_MAX_MS    5000
#define SWEEP_EVERY_MS  60000
#define STEP_IDLE_MS    10
#define STEP_BUSY_MS    250
#define PACK_ROWS       64   /* fewer than this are not worth a pass */
#define WAL_PAGES_MAX   2048 /* 32 MiB: then also a busy writer moves it */
#define WAL_IDLE_MS     5000 /* after the last commit */
#define TIGHT_SHARE     16   /* a transaction takes at most this part of the room */
#define TIGHT_BYTES_MIN (256 * KIB)
#define ROWS_ROOM_MIN   (32 * MIB) /* with less, jobs do not become rows */
/* A transaction waits in memory for a mirror, and is one of its database's. */
#define MIRROR_BYTES_MAX (12 * MIB)

/* ---- what cannot be written ---- */

/* Jobs, incidents or rollups wait to be written, or the mirror cannot be read. */
void history_failing_begin(struct history *h, const struct problem *p)
{
        int64_t now_ms = h->options.wall_ms(h->options.wall_ctx);
        history_lock(h);
        if (!h->failing_since_ms)
                h->failing_since_ms = now_ms > 0 ? now_ms : 1;
        memcpy(h->failing, p->detail, sizeof(h->failing));
        history_unlock(h);
}

/* Something was written.  It ends when nothing else is left that was not. */
void history_failing_end(struct history *h)
{
        if (h->retry_ms || h->has_note_error || h->has_audit_error || h->has_roll_error ||
            h->has_follow_error)
                return;
        history_lock(h);
        h->failing_since_ms = 0;
        h->failing[0] = '\0';
        history_unlock(h);
}

static void write_failed(struct history *h, const struct problem *p)
{
        history_failing_begin(h, p);
        history_count(&h->n_errors, 1);
        if (!h->retry_ms) {
                say_warn("history", "cannot write, keeping the jobs and retrying", "problem",
                         p->detail, "jobs", SAY_I64(h->taken.len - h->at));
                h->retry_ms = RETRY_MIN_MS;
        } else if (h->retry_ms < RETRY_MAX_MS) {
                h->retry_ms = h->retry_ms * 2 < RETRY_MAX_MS ? h->retry_ms * 2 : RETRY_MAX_MS;
        }
        h->retry_ns = history_after_ms(h->retry_ms);
        history_publish(h);
}

/* Reports jobs that need not be kept any more, from the job at `from` on. */
static size_t drop_unwanted_of(struct history *h, struct job_list *l, size_t from)
{
        size_t n = from;
        for (size_t i = from; i < l->len; i++) {
                if (h->archive.is_wanted(l->jobs[i]))
                        l->jobs[n++] = l->jobs[i];
                else
                        job_list_add(&h->stored, &l->jobs[i], 1);
        }
        size_t dropped = l->len - n;
        l->len = n;
        return dropped;
}

/* Nothing can be written.  What need not be is let go of, whatever stands before it. */
static void drop_unwanted(struct history *h)
{
        size_t dropped = 0;
        if (!h->archive.is_wanted)
                return;
        history_lock(h);
        if (h->turn == h->seen_turn) {
                dropped = drop_unwanted_of(h, &h->taken, h->at);
                dropped += drop_unwanted_of(h, &h->queued, 0);
        }
        history_unlock(h);
        if (!dropped)
                return;
        if (h->at == h->taken.len) { /* nothing is left of what failed */
                h->taken.len = h->at = 0;
                h->retry_ms = h->retry_ns = 0;
                history_failing_end(h);
        }
        history_publish(h);
        h->archive.notify(h->archive.notify_ctx);
}

static void write_succeeded(struct history *h, size_t n)
{
        h->last_commit_ns = history_now_ns();
        h->next_wal_ns = h->last_commit_ns + WAL_IDLE_MS * NS_PER_MS;
        if (h->retry_ms)
                say_info("history", "writing again", "path", h->path);
        h->retry_ms = 0;
        h->retry_ns = 0;
        history_failing_end(h);
        history_count(&h->n_stored, n);
        history_publish(h);
        history_lock(h);
        if (h->turn == h->seen_turn)
                job_list_add(&h->stored, h->taken.jobs + h->at, n);
        history_unlock(h);
        h->at += n;
        h->archive.notify(h->archive.notify_ctx);
}

/* Trouble that leaves the jobs safe: in deleting and in checkpoints. */
static void upkeep_failed(struct history *h, const char *what, const struct problem *p)
{
        history_count(&h->n_errors, 1);
        say_warn("history", what, "problem", p->detail);
}

/* Readers may keep some of it from being moved, so a try does not make it empty. */
static void checkpoint(struct history *h, bool is_giving_back)
{
        struct problem p;
        h->next_wal_ns = history_after_ms(WAL_IDLE_MS);
        if (archive_writer_checkpoint(&h->writer, is_giving_back, &p) == OK) {
                h->has_wal_error = false;
                history_publish(h);
                return;
        }
        if (!h->has_wal_error)
                upkeep_failed(h, "cannot move the -wal file into the main file, retrying", &p);
        h->has_wal_error = true;
}

/* A row is on the disk twice, in the -wal file and in the main file, until it was moved.  Where
 * little room is left, transactions are short and each is moved at once; true then.  Where there is
 * hardly any, all jobs go into blocks: a segment has reserved space for them. */
static bool limit_transaction(struct history *h)
{
        uint64_t room = history_room_bytes(h), share = room / TIGHT_SHARE;
        bool is_tight = share < ARCHIVE_BATCH_BYTES;
        h->writer.is_short = room < ROWS_ROOM_MIN;
        h->writer.is_wanted = h->archive.is_wanted;
        h->writer.batch_bytes = is_tight ? share : ARCHIVE_BATCH_BYTES;
        if (h->writer.batch_bytes < TIGHT_BYTES_MIN)
                h->writer.batch_bytes = TIGHT_BYTES_MIN;
        if (h->options.mirror && h->writer.batch_bytes > MIRROR_BYTES_MAX)
                h->writer.batch_bytes = MIRROR_BYTES_MAX;
        return is_tight;
}

/* From here on the jobs that were taken are looked at; false: they are not ours any more. */
static bool reading_begin(struct history *h)
{
        history_lock(h);
        h->is_reading_jobs = h->turn == h->seen_turn;
        bool is_ours = h->is_reading_jobs;
        history_unlock(h);
        return is_ours;
}

void history_reading_end(void *ctx)
{
        struct history *h = ctx;
        history_lock(h);
        h->is_reading_jobs = false;
        (void)pthread_cond_broadcast(&h->let_go); /* cannot fail */
        history_unlock(h);
}

/* Writes all that was taken, in as many transactions as that needs; stops at a failure. */
static void write_taken(struct history *h, int64_t close_by_ns)
{
        while (h->at < h->taken.len) {
                struct problem p;
                size_t n = h->taken.len - h->at;
                if (close_by_ns != NEVER_NS) {
                        if (history_now_ns() >= close_by_ns)
                                return;
                        /* Short transactions, so that the deadline is seen in time. */
                        n = n < QUEUE_LONG ? n : QUEUE_LONG;
                }
                bool is_tight = limit_transaction(h);
                if (!reading_begin(h))
                        return;
                int err = archive_writer_add(&h->writer, h->taken.jobs + h->at, n, &n, &p);
                history_reading_end(h); /* a mirror was not waited for with them */
                if (err) {
                        write_failed(h, &p);
                        drop_unwanted(h);
                        return;
                }
                write_succeeded(h, n);
                if (is_tight)
                        checkpoint(h, true);
        }
        h->taken.len = h->at = 0;
}

void history_sweep_end(struct history *h)
{
        h->is_sweeping = false;
        h->next_sweep_ns = history_after_ms(SWEEP_EVERY_MS);
        history_lock(h);
        h->sweeps_done = h->sweep_serves;
        (void)pthread_cond_broadcast(&h->swept); /* cannot fail */
        history_unlock(h);
}

static int64_t cutoff(int64_t now_ms, int64_t keep_ms)
{
        return keep_ms > 0 ? now_ms - keep_ms : INT64_MIN;
}

static void sweep_begin(struct history *h, uint64_t serves)
{
        int64_t now = h->options.wall_ms(h->options.wall_ctx);
        h->is_sweeping = true;
        h->sweep_serves = serves;
        h->next_step_ns = 0;
        h->sweep = (struct archive_sweep){
                .now_ms = now,
                .done_until_ms = cutoff(now, h->options.keep_done_ms),
                .failed_until_ms = cutoff(now, h->options.keep_failed_ms),
        };
}

/* False: there are more of them. */
static bool expire_incidents(struct history *h)
{
        struct problem p;
        bool has_more = false;
        int64_t until_ms = cutoff(h->sweep.now_ms, h->options.keep_incidents_ms);
        if (incidents_expire(&h->writer.mirrored, until_ms, &has_more, &p) != OK)
                upkeep_failed(h, "cannot delete old incidents, retrying later", &p);
        return !has_more;
}

/* False: there are more of them. */
static bool expire_audits(struct history *h)
{
        struct problem p;
        bool has_more = false;
        int64_t until_ms = cutoff(h->sweep.now_ms, h->options.keep_audit_ms);
        if (audits_expire(&h->writer.mirrored, until_ms, &has_more, &p) != OK)
                upkeep_failed(h, "cannot delete old audit entries, retrying later", &p);
        return !has_more;
}

static void sweep_step(struct history *h, int64_t pace_ms)
{
        struct problem p;
        if (archive_writer_sweep(&h->writer, &h->sweep, &p) != OK) {
                upkeep_failed(h, "cannot delete old jobs, retrying later", &p);
                history_sweep_end(h);
                return;
        }
        history_count(&h->n_deleted, h->sweep.deleted);
        history_publish(h);
        h->next_step_ns = history_after_ms(pace_ms);
        if (h->sweep.is_over && expire_audits(h) && expire_incidents(h))
                history_sweep_end(h);
}

/* ---- packing ---- */

static void pack_end(struct history *h)
{
        h->is_packing = false;
        h->packed_rows = h->writer.rows;
        h->packed_window = window_of((uint64_t)h->writer.last_id);
        h->packed_blocks = blocks_len(h->writer.blocks);
        h->next_pack_ns = history_after_ms(h->options.pack_every_ms);
}

/* Is a pass under way, or are there rows that the last one did not see, or a window that was the
 * newest then? */
static bool is_to_pack(const struct history *h)
{
        int64_t more = h->writer.rows - h->packed_rows;
        bool is_due = more >= PACK_ROWS || -more >= PACK_ROWS ||
                      window_of((uint64_t)h->writer.last_id) != h->packed_window;
        if (h->options.mirror) /* there are no rows, and small blocks instead */
                is_due |= blocks_len(h->writer.blocks) >= h->packed_blocks + PACK_ROWS;
        return !h->retry_ms && (h->is_packing || is_due);
}

static void pack_step(struct history *h, int64_t pace_ms)
{
        struct problem p;
        if (archive_writer_pack(&h->writer, &h->pack, &p) != OK) {
                upkeep_failed(h, "cannot pack rows into blocks, retrying later", &p);
                pack_end(h);
                h->next_pack_ns = history_after_ms(SWEEP_EVERY_MS);
                return;
        }
        history_publish(h);
        h->next_pack_ns = history_after_ms(h->pack.packed ? pace_ms : 0);
        if (h->pack.is_over)
                pack_end(h);
}

static void pack_some(struct history *h, bool is_idle)
{
        if (!is_to_pack(h) || history_now_ns() < h->next_pack_ns)
                return;
        if (!h->is_packing)
                h->pack = (struct archive_pack){0};
        h->is_packing = true;
        pack_step(h, is_idle ? STEP_IDLE_MS : STEP_BUSY_MS);
}

/* On a full disk what the -wal file holds is room for the next transaction. */
static bool is_wal_due(const struct history *h, bool is_idle)
{
        if (h->writer.wal_pages > WAL_PAGES_MAX)
                return true;
        if (h->writer.wal_pages == 0)
                return false;
        return h->retry_ms > 0 || (is_idle && history_now_ns() >= h->next_wal_ns);
}

/* One piece of what is not urgent. */
static void upkeep(struct history *h, bool is_idle, uint64_t sweeps_wanted)
{
        bool is_asked = sweeps_wanted != h->sweeps_done; /* only this thread writes sweeps_done */
        if (is_wal_due(h, is_idle))
                checkpoint(h, h->retry_ms > 0);
        pack_some(h, is_idle);
        if (!h->is_sweeping && (is_asked || history_now_ns() >= h->next_sweep_ns))
                sweep_begin(h, sweeps_wanted);
        if (!h->is_sweeping || (!is_asked && history_now_ns() < h->next_step_ns))
                return;
        if (is_asked)
                sweep_step(h, 0);
        else
                sweep_step(h, is_idle ? STEP_IDLE_MS : STEP_BUSY_MS);
}

void history_remove_asked(struct history *h, int refusal)
{
        struct archive_removal *r = NULL;
        history_lock(h);
        if (refusal || h->turn == h->seen_turn) { /* else the next round knows what to do */
                r = h->to_remove;
                h->to_remove = NULL;
        }
        history_unlock(h);
        while (r) {
                struct archive_removal *next = r->next;
                struct problem p;
                r->err =
                        refusal ? refusal
                                : archive_writer_remove(&h->writer, r->refs, r->n, &r->removed, &p);
                if (r->err && !refusal)
                        upkeep_failed(h, "cannot delete jobs", &p);
                history_count(&h->n_deleted, r->removed);
                history_publish(h);
                history_lock(h);
                r->next = h->removed;
                h->removed = r;
                history_unlock(h);
                h->archive.notify(h->archive.notify_ctx);
                r = next;
        }
}

/* Puts what could not be written back before what came since. */
static void notes_put_back(struct history *h, struct incident_note *first, size_t n)
{
        struct incident_note **end = &first;
        while (*end)
                end = &(*end)->next;
        history_lock(h);
        if (h->turn != h->seen_turn) { /* another machine's work now */
                history_unlock(h);
                incident_notes_free(first);
                return;
        }
        *end = h->notes;
        if (!h->notes)
                h->notes_end = end;
        h->notes = first;
        h->n_notes += n;
        history_unlock(h);
}

/* Incidents that came since the last look. */
static void write_notes(struct history *h, bool is_closing)
{
        struct problem p;
        if (!is_closing && history_now_ns() < h->next_note_ns)
                return;
        history_lock(h);
        if (h->turn != h->seen_turn) {
                history_unlock(h);
                return;
        }
        struct incident_note *first = h->notes;
        size_t n = h->n_notes;
        h->notes = NULL;
        h->notes_end = &h->notes;
        h->n_notes = 0;
        history_unlock(h);
        if (!first)
                return;
        if (incidents_add(&h->writer.mirrored, first, &p) == OK &&
            archive_writer_check_place(&h->writer, &p) == OK) {
                h->next_note_ns = history_after_ms(NOTE_EVERY_MS);
                h->has_note_error = false;
                history_failing_end(h);
                incident_notes_free(first);
                return;
        }
        history_failing_begin(h, &p);
        if (!h->has_note_error)
                upkeep_failed(h, "cannot write incidents, keeping them and retrying", &p);
        h->has_note_error = true;
        h->next_note_ns = history_after_ms(RETRY_MAX_MS);
        notes_put_back(h, first, n);
}

static void audits_put_back(struct history *h, struct audit_note *first, size_t n)
{
        struct audit_note **end = &first;
        while (*end)
                end = &(*end)->next;
        history_lock(h);
        if (h->turn != h->seen_turn) {
                history_unlock(h);
                audit_notes_free(first);
                return;
        }
        *end = h->audits;
        if (!h->audits)
                h->audits_end = end;
        h->audits = first;
        h->n_audits += n;
        history_unlock(h);
}

static void audits_written(struct history *h, struct audit_note *first)
{
        struct audit_note *last = first;
        while (last->next)
                last = last->next;
        history_lock(h);
        if (h->turn == h->seen_turn) {
                last->next = h->audited;
                h->audited = first;
                first = NULL;
        }
        history_unlock(h);
        audit_notes_free(first);
        h->archive.notify(h->archive.notify_ctx);
}

/* Entries of the audit trail that came since the last look; the log holds them until they are
 * reported. */
static void write_audits(struct history *h, bool is_closing)
{
        struct problem p;
        if (!is_closing && history_now_ns() < h->next_audit_ns)
                return;
        history_lock(h);
        if (h->turn != h->seen_turn) {
                history_unlock(h);
                return;
        }
        struct audit_note *first = h->audits;
        size_t n = h->n_audits;
        h->audits = NULL;
        h->audits_end = &h->audits;
        h->n_audits = 0;
        history_unlock(h);
        if (!first)
                return;
        if (audits_add(&h->writer.mirrored, first, &p) == OK &&
            archive_writer_check_place(&h->writer, &p) == OK) {
                h->next_audit_ns = history_after_ms(NOTE_EVERY_MS);
                h->has_audit_error = false;
                history_failing_end(h);
                audits_written(h, first);
                return;
        }
        history_failing_begin(h, &p);
        if (!h->has_audit_error)
                upkeep_failed(h, "cannot write the audit trail, keeping it and retrying", &p);
        h->has_audit_error = true;
        h->next_audit_ns = history_after_ms(RETRY_MAX_MS);
        audits_put_back(h, first, n);
}

static void rolls_put_back(struct history *h, struct rollup_note *first)
{
        struct rollup_note **end = &first;
        size_t n = 1;
        for (; (*end)->next; n++)
                end = &(*end)->next;
        history_lock(h);
        if (h->turn != h->seen_turn) {
                history_unlock(h);
                rollup_notes_free(first);
                return;
        }
        (*end)->next = h->rolls;
        if (!h->rolls)
                h->rolls_end = &(*end)->next;
        h->rolls = first;
        h->n_rolls += n;
        struct rollup_note *dropped = NULL;
        while (h->n_rolls > ROLLUPS_WAITING_MAX) { /* more came meanwhile */
                struct rollup_note *oldest = h->rolls;
                ASSERT(oldest); /* there are too many */
                h->rolls = oldest->next;
                oldest->next = dropped;
                dropped = oldest;
                h->n_rolls--;
        }
        history_unlock(h);
        rollup_notes_free(dropped);
}

/* Minutes that are over since the last look: one, mostly. */
static void write_rolls(struct history *h, bool is_closing)
{
        struct problem p;
        size_t n_damaged = 0;
        if (!is_closing && history_now_ns() < h->next_roll_ns)
                return;
        history_lock(h);
        if (h->turn != h->seen_turn) {
                history_unlock(h);
                return;
        }
        struct rollup_note *first = h->rolls;
        h->rolls = NULL;
        h->rolls_end = &h->rolls;
        h->n_rolls = 0;
        history_unlock(h);
        if (!first)
                return;
        int64_t now_ms = h->options.wall_ms(h->options.wall_ctx);
        /* First the place: what is added twice counts twice. */
        if (archive_writer_check_place(&h->writer, &p) == OK &&
            rollups_add(&h->writer.mirrored, first, now_ms, &n_damaged, &p) == OK) {
                h->has_roll_error = false;
                history_failing_end(h);
                rollup_notes_free(first);
                if (n_damaged)
                        say_warn("history", "damaged rollups begin anew", "rows",
                                 SAY_I64(n_damaged));
                history_count(&h->n_errors, n_damaged);
                return;
        }
        history_failing_begin(h, &p);
        if (!h->has_roll_error)
                upkeep_failed(h, "cannot write rollups, keeping them and retrying", &p);
        h->has_roll_error = true;
        h->next_roll_ns = history_after_ms(RETRY_MAX_MS);
        rolls_put_back(h, first);
}

/* Somebody else is to lead, or this machine is: what was taken in the turn before is not ours any
 * more.  Called with the lock. */
static void see_turn(struct history *h)
{
        if (h->turn == h->seen_turn)
                return;
        h->seen_turn = h->turn;
        h->is_leading = false;
        h->taken.len = h->at = 0;
        h->retry_ms = h->retry_ns = 0;
        h->has_note_error = h->has_audit_error = h->has_roll_error = false;
        h->next_note_ns = h->next_audit_ns = h->next_roll_ns = 0;
        h->is_packing = h->is_sweeping = false;
        h->next_sweep_ns = history_now_ns();
        h->next_follow_ns = h->next_compare_ns = 0;
}

/* When an upkeep is due although nothing comes; called with the lock. */
static int64_t upkeep_ns(const struct history *h, bool is_idle)
{
        if (h->sweeps_wanted != h->sweeps_done || h->to_remove)
                return 0;
        if (!history_can_write(h))
                return h->is_woken ? 0 : h->next_follow_ns;
        int64_t at = h->is_sweeping ? h->next_step_ns : h->next_sweep_ns;
        if (h->notes && h->next_note_ns < at)
                at = h->next_note_ns;
        if (h->audits && h->next_audit_ns < at)
                at = h->next_audit_ns;
        if (h->rolls && h->next_roll_ns < at)
                at = h->next_roll_ns;
        if (is_idle && h->writer.wal_pages > 0 && h->next_wal_ns < at)
                at = h->next_wal_ns;
        if (is_to_pack(h) && h->next_pack_ns < at)
                at = h->next_pack_ns;
        return at;
}

/* Waits until there is something to write, something else to do, or the end has come; true when
 * it is time to write.  Called with the lock. */
static bool wait_for_work(struct history *h)
{
        for (;;) {
                see_turn(h);
                bool is_held = h->at < h->taken.len; /* left from a failure */
                if (h->is_closing)
                        return is_held || h->queued.len > 0;
                int64_t write_ns = NEVER_NS;
                if (!history_can_write(h))
                        write_ns = NEVER_NS;
                else if (is_held)
                        write_ns = h->is_woken ? 0 : h->retry_ns;
                else if (h->queued.len >= QUEUE_LONG)
                        write_ns = 0;
                else if (h->queued.len > 0)
                        write_ns = h->last_commit_ns + h->options.commit_every_ms * NS_PER_MS;
                int64_t other_ns = upkeep_ns(h, !is_held && !h->queued.len);
                int64_t now = history_now_ns();
                if (write_ns <= now)
                        return true;
                if (other_ns <= now)
                        return false;
                h->wake_len = h->queued.len ? QUEUE_LONG : 1;
                if (is_held || !history_can_write(h))
                        h->wake_len = SIZE_MAX;
                history_wait_until(&h->writer_wake, &h->lock,
                                   write_ns < other_ns ? write_ns : other_ns);
                h->wake_len = SIZE_MAX;
        }
}

void *history_writer_main(void *ctx)
{
        struct history *h = ctx;
        background_set(true);
        for (;;) {
                ASSERT(h->at <= h->taken.len);                  /* (7) */
                ASSERT((h->retry_ns > 0) == (h->retry_ms > 0)); /* (8) */
                history_lock(h);
                bool is_write = wait_for_work(h);
                bool is_closing = h->is_closing, can_write = history_can_write(h);
                bool is_woken = h->is_woken;
                if (is_write || !can_write)
                        h->is_woken = false;
                if (is_write && can_write && h->at == h->taken.len)
                        job_list_swap(&h->queued, &h->taken);
                bool is_idle = !h->queued.len && h->at == h->taken.len;
                int64_t close_by_ns = is_closing ? h->close_by_ns : NEVER_NS;
                uint64_t sweeps_wanted = h->sweeps_wanted;
                history_unlock(h);
                if (!can_write) {
                        if (is_closing)
                                return NULL;
                        history_follow_step(h, is_woken, sweeps_wanted);
                        if (is_wal_due(h, is_idle))
                                checkpoint(h, false);
                        continue;
                }
                if (is_write)
                        write_taken(h, close_by_ns);
                history_remove_asked(h, is_closing ? ERR_STOPPING : OK);
                write_notes(h, is_closing);
                write_audits(h, is_closing);
                write_rolls(h, is_closing);
                if (!is_closing)
                        upkeep(h, is_idle, sweeps_wanted);
                else if (!is_write || h->at < h->taken.len)
                        return NULL;
        }
}
