/* What the writer thread does with a mirror while it may not write: following another machine,
 * beginning to lead, and catching up after the mirror failed.
 *
 *      follow      takes over what the mirror has more
 *      compare     finds out what was dropped: at first, every minute, and before leading
 *      claim       one transaction of our own: nobody else leads, and nothing is missing
 *
 * Each step is short, but for the time that the database takes. */
#include "base/say.h"
#include "history/history_int.h"

#define COMPARE_EVERY_MS 60000

bool history_can_write(const struct history *h)
{
        return !h->options.mirror || (h->is_leading && !h->writer.mirrored.is_behind);
}

/* *ret_done false: something is left to do, at once. */
static int follow(struct history *h, bool is_thorough, bool *ret_done, struct problem *p)
{
        int err = archive_writer_follow(&h->writer, ret_done, p);
        bool is_due = is_thorough || history_now_ns() >= h->next_compare_ns;
        if (err || !*ret_done || !is_due)
                return err;
        is_thorough |= !h->next_compare_ns; /* the first one of a turn */
        err = archive_writer_compare(&h->writer, is_thorough, ret_done, p);
        if (err || !*ret_done)
                return err;
        h->next_compare_ns = history_after_ms(COMPARE_EVERY_MS);
        return archive_writer_tidy(&h->writer, h->options.wall_ms(h->options.wall_ctx), p);
}

/* The copy has everything, as far as it knows. */
static int begin_to_lead(struct history *h, bool *ret_done, struct problem *p)
{
        uint64_t incident = 0, audit = 0;
        int err = archive_writer_claim(&h->writer, ret_done, p);
        if (err == ERR_STATE && !*ret_done)
                return OK; /* the mirror has got more meanwhile */
        if (!err)
                err = incidents_last(h->writer.db, h->path, &incident, p);
        if (!err)
                err = audits_last(h->writer.db, h->path, &audit, p);
        if (err)
                return err;
        bool is_first = !h->is_leading;
        h->is_leading = true;
        if (h->retry_ms) /* what waited for the mirror is written now */
                h->retry_ns = history_now_ns();
        h->next_note_ns = h->next_audit_ns = h->next_roll_ns = 0;
        history_lock(h);
        if (is_first && h->turn == h->seen_turn) {
                h->has_led = true;
                h->led_last_id = (uint64_t)h->writer.last_id;
                h->led_last_incident = incident;
                h->led_last_audit = audit;
        }
        history_unlock(h);
        if (is_first)
                h->archive.notify(h->archive.notify_ctx);
        return OK;
}

static void follow_failed(struct history *h, const struct problem *p)
{
        history_failing_begin(h, p);
        history_count(&h->n_errors, 1);
        if (!h->has_follow_error)
                say_warn("history", "cannot follow the cluster's history, retrying", "problem",
                         p->detail);
        h->has_follow_error = true;
        h->next_follow_ns = history_after_ms(h->options.follow_every_ms);
}

static void follow_succeeded(struct history *h)
{
        if (h->has_follow_error)
                say_info("history", "following the cluster's history again", "path", h->path);
        h->has_follow_error = false;
        history_failing_end(h);
        history_publish(h);
}

void history_follow_step(struct history *h, bool is_woken, uint64_t sweeps_wanted)
{
        struct problem p;
        bool is_asked = sweeps_wanted != h->sweeps_done; /* only this thread writes sweeps_done */
        bool is_done = true;
        history_lock(h);
        bool is_to_lead = h->is_to_lead;
        bool is_stale = h->turn != h->seen_turn;
        history_unlock(h);
        if (is_stale)
                return;
        history_remove_asked(h, is_to_lead ? ERR_UNAVAIL : ERR_STATE);
        if (!is_woken && !is_asked && history_now_ns() < h->next_follow_ns)
                return;
        int err = follow(h, is_to_lead || is_asked, &is_done, &p);
        if (!err && is_done && is_to_lead)
                err = begin_to_lead(h, &is_done, &p);
        h->next_follow_ns = is_done ? history_after_ms(h->options.follow_every_ms) : 0;
        if (err)
                follow_failed(h, &p);
        else
                follow_succeeded(h);
        if (is_asked && (err || (is_done && !is_to_lead))) {
                h->sweep_serves = sweeps_wanted;
                history_sweep_end(h);
        }
}
