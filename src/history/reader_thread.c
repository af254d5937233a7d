/* The reader thread of history: answers queries, and inquiries for incidents, the audit
 * trail and rollups, one after the other. */
#include "base/background.h"
#include "history/history_int.h"

/* Called with the lock, and returns with it. */
static void answer_inquiry(struct history *h)
{
        struct archive_incidents *q = h->inquiries;
        bool is_closing = h->is_closing;
        h->inquiries = q->next;
        history_unlock(h);
        if (is_closing)
                q->err = ERR_STOPPING;
        else
                incidents_find(h->finder.file.db, q);
        if (q->err && q->err != ERR_STOPPING)
                history_count(&h->n_errors, 1);
        history_lock(h);
        q->next = h->inquired;
        h->inquired = q;
        history_unlock(h);
        h->archive.notify(h->archive.notify_ctx);
        history_lock(h);
}

/* The same for the audit trail. */
static void answer_review(struct history *h)
{
        struct archive_audits *q = h->reviews;
        bool is_closing = h->is_closing;
        h->reviews = q->next;
        history_unlock(h);
        if (is_closing)
                q->err = ERR_STOPPING;
        else
                audits_find(h->finder.file.db, q);
        if ((q->err && q->err != ERR_STOPPING) || q->n_damaged)
                history_count(&h->n_errors, 1);
        history_lock(h);
        q->next = h->reviewed;
        h->reviewed = q;
        history_unlock(h);
        h->archive.notify(h->archive.notify_ctx);
        history_lock(h);
}

/* The same for rollups. */
static void answer_survey(struct history *h)
{
        struct archive_rollups *q = h->surveys;
        bool is_closing = h->is_closing;
        h->surveys = q->next;
        history_unlock(h);
        if (is_closing)
                q->err = ERR_STOPPING;
        else
                rollups_find(h->finder.file.db, q);
        if ((q->err && q->err != ERR_STOPPING) || q->n_damaged)
                history_count(&h->n_errors, 1);
        history_lock(h);
        q->next = h->surveyed;
        h->surveyed = q;
        history_unlock(h);
        h->archive.notify(h->archive.notify_ctx);
        history_lock(h);
}

void *history_reader_main(void *ctx)
{
        struct history *h = ctx;
        background_lower(); /* a search may take its whole 150 ms of processor time */
        history_lock(h);
        for (;;) {
                if (h->inquiries) {
                        answer_inquiry(h);
                        continue;
                }
                if (h->reviews) {
                        answer_review(h);
                        continue;
                }
                if (h->surveys) {
                        answer_survey(h);
                        continue;
                }
                struct archive_query *q = query_list_pop(&h->asked);
                if (!q && h->is_closing)
                        break;
                if (!q) {
                        history_wait_until(&h->finder_wake, &h->lock, NEVER_NS);
                        continue;
                }
                bool is_closing = h->is_closing;
                history_unlock(h);
                if (is_closing)
                        q->err = ERR_STOPPING;
                else
                        archive_finder_run(&h->finder, q);
                if (q->err && q->err != ERR_STOPPING)
                        history_count(&h->n_errors, 1);
                history_lock(h);
                query_list_push(&h->answered, q);
                history_unlock(h);
                h->archive.notify(h->archive.notify_ctx);
                history_lock(h);
        }
        history_unlock(h);
        return NULL;
}
