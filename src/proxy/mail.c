/* What threads put into each other's mailboxes, and how they wake each other. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "proxy/proxy_int.h"

void mail_wake(struct worker *w)
{
        uint64_t one = 1;
        ssize_t n = write(w->wake_fd, &one, sizeof(one));
        ASSERT(n == sizeof(one) || errno == EAGAIN); /* the counter is full: it is readable */
}

/* Under the mail_lock, after something was put there.  The thread takes the flag back before it
 * looks, so what comes later rings again. */
static void ring(struct worker *w)
{
        if (!atomic_exchange(&w->has_mail, true))
                mail_wake(w);
}

/* Called under the lock of the door, where the ticket was taken off its queue. */
void mail_decided(struct pair *c, const struct admit_answer *answer)
{
        struct worker *w = c->worker;
        struct admit_answer *copy = xmalloc(sizeof(*copy));
        *copy = *answer;
        (void)pthread_mutex_lock(&w->mail_lock);
        ASSERT(!c->decision);
        c->decision = copy;
        list_push_back(&w->mail, &c->mail);
        ring(w);
        (void)pthread_mutex_unlock(&w->mail_lock);
}

void mail_kill(struct proxy *p, struct door *d, uint32_t thread_id)
{
        for (unsigned i = 0; i < p->n_workers; i++) {
                struct worker *w = &p->workers[i];
                struct kill_order *order = xmalloc(sizeof(*order));
                (void)pthread_mutex_lock(&w->mail_lock);
                *order = (struct kill_order){w->kills, d, thread_id};
                w->kills = order;
                ring(w);
                (void)pthread_mutex_unlock(&w->mail_lock);
        }
}

void mail_arrival(struct worker *w, struct pair *c)
{
        atomic_fetch_add(&w->n_conns, 1);
        c->worker = w;
        (void)pthread_mutex_lock(&w->mail_lock);
        list_push_back(&w->arrivals, &c->link);
        ring(w);
        (void)pthread_mutex_unlock(&w->mail_lock);
}

void mail_want_turn(struct worker *w, int64_t at_ns)
{
        int64_t before_ns = atomic_load(&w->turn_ns);
        while (at_ns < before_ns)
                if (atomic_compare_exchange_weak(&w->turn_ns, &before_ns, at_ns)) {
                        mail_wake(w); /* it may sleep for longer */
                        return;
                }
}

int mail_watch(struct worker *w, int fd, void *source, uint32_t events)
{
        struct epoll_event e = {.events = events, .data.ptr = source};
        return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0 ? OK : ERR_IO;
}
