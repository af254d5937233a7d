/* A slot: room for one job, from its grant to the server's word that its end is known.
 *
 *      state           entered by              leaves by
 *        FREE          slot_end                slot_take
 *        HELD          slot_take               slot_run, when fewer than --slots run
 *        RUNNING       slot_run                the handler's end
 *        REPORTING     slot_finish             the server's answer: slot_end, or the next job
 *
 * There are as many slots as may run plus those for jobs taken ahead (--prefetch).  What a job's
 * end was is kept in the slot until the server has answered; a lost connection does not lose it.
 * Internal to work/: slot.c has the way to the handler's end, report.c the way from it. */
#ifndef WEIR_WORK_SLOT_H
#define WEIR_WORK_SLOT_H

#include "base/buf.h"
#include "base/say.h"
#include "work/call.h"
#include "work/job.h"
#include "work/link.h"
#include "work/task.h"
#include "work/work.h"

struct worker;

enum slot_state { SLOT_FREE, SLOT_HELD, SLOT_RUNNING, SLOT_REPORTING };
enum report { REPORT_COMPLETE, REPORT_FAIL, REPORT_RELEASE };

struct slot {
        struct worker *worker;
        enum slot_state state;
        struct job job;
        uint64_t order; /* of the grant: held jobs run in it */

        const struct handler *handler; /* while RUNNING, like one of the next two */
        struct task *task;
        struct call *call;
        uv_timer_t extend;    /* every third of the lease, and every EXTEND_MS */
        uv_timer_t limit;     /* the timeout, and then the kill after the TERM */
        int64_t extend_fence; /* of the EXTEND not yet answered, 0 = none */
        int64_t extend_sent_ns;
        int64_t taken_ns;       /* boot time of the grant */
        int64_t lease_until_ns; /* boot time, as far as the server's answers tell */
        bool is_lost;           /* the lease is not ours any more: the end is of no interest */
        bool is_given_up;       /* release it, ready to run again at once */
        bool is_too_long;       /* the timeout struck */

        enum report report;
        struct buf text;     /* result or error */
        int64_t retry_in_ms; /* of a FAIL, or HANDLER_RETRY_... */
        bool is_sent;        /* and not yet answered */
        bool has_claim;      /* the COMPLETE on its way asks for the next job */
        bool is_repeated;    /* an earlier send was not answered */
};

/* A job's id for say_...(): lives until the end of the full expression's block. */
#define SLOT_JOB(s) SAY_I64((s)->job.id)

void slot_init(struct slot *s, struct worker *w);
void slot_close(struct slot *s); /* its timers; nothing may run */
/* Holds the job of a CLAIM's row; a worker that drains gives it back instead. */
void slot_take(struct slot *s, const struct value *row);
/* Held under a lease that has run out: another may have the job, until an EXTEND says otherwise. */
bool slot_is_late(const struct slot *s);
void slot_run(struct slot *s);     /* a held one */
void slot_extend(struct slot *s);  /* asks for a full lease from now, if the link is up */
void slot_give_up(struct slot *s); /* end it now, give the job back */
void slot_end(struct slot *s);     /* empty again */

/* Whether this answer means that the job is not ours any more. */
bool is_loss(int err);

/* The handler has ended, or will not begin: this is to be told. */
void slot_finish(struct slot *s, enum report report);
void slot_report(struct slot *s); /* sends the end of the job, if the link is up */

#endif
