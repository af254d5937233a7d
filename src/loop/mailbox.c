/* The mailbox: how other threads reach the loop.
 *
 * Posted mails are a chain, the newest first, that senders push to and the loop takes whole, so
 * that neither side ever waits.  A mail is in the chain at most once: is_posted says so.  The loop
 * clears it before it delivers, so that whatever a sender did before it posted is either seen by
 * this delivery or brings another one. */
#include "loop/loop_int.h"

void loop_post(struct loop *l, struct loop_mail *mail)
{
        ASSERT(mail->deliver);
        if (atomic_exchange(&mail->is_posted, true))
                return;
        struct loop_mail *head = atomic_load(&l->mail);
        do
                mail->next = head;
        while (!atomic_compare_exchange_weak(&l->mail, &head, mail));
        (void)uv_async_send(&l->mail_async); /* fails only on a closed handle */
}

static void on_mail(uv_async_t *handle)
{
        struct loop *l = handle->data;
        struct loop_mail *newest = atomic_exchange(&l->mail, NULL), *oldest = NULL;
        while (newest) {
                struct loop_mail *next = newest->next;
                newest->next = oldest;
                oldest = newest;
                newest = next;
        }
        loop_turn_begin(l);
        while (oldest) {
                struct loop_mail *mail = oldest;
                oldest = mail->next; /* the sender's again from the next line on */
                atomic_store(&mail->is_posted, false);
                mail->deliver(mail->ctx);
        }
}

int loop_mailbox_init(struct loop *l)
{
        atomic_init(&l->mail, NULL);
        l->mail_async.data = l;
        return uv_async_init(&l->uv, &l->mail_async, on_mail);
}
