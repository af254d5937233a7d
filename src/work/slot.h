/* A slot: room for one job at a time, from its grant to the server's word that its end is known.
 *
 *      state           entered by              leaves by
 *        FREE          slot_end                slot_take
 *        RUNNING       slot_take              on_task_done
 *        REPORTING     on_task_done            the server's answer: slot_end, or the next job
 *
 * What the job's end was is kept in the slot until the server has answered; a lost connection
 * does not lose it.  Internal to work/. */
#ifndef WEIR_WORK_SLOT_H
#define WEIR_WORK_SLOT_H

#include "base/buf.h"
#include "work/link.h"
#include "work/task.h"
#include "work/work.h"

struct worker;

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_REPORTING };
enum report { REPORT_COMPLETE, REPORT_FAIL, REPORT_RELEASE };

struct slot {
        struct worker *worker;
        enum slot_state state;

        /* The job, as CLAIM gave it. */
        int64_t id, attempt, attempts, priority, fence, lease_ms;
        char token[33];
        char hook[256], queue[256], group[256];

        struct task *task;    /* while RUNNING */
        uv_timer_t extend;    /* every third of the lease */
        uv_timer_t limit;     /* --timeout, and then the kill after the TERM */
        int64_t extend_fence; /* of the EXTEND not yet answered, 0 = none */
        bool is_lost;         /* the lease is not ours any more: the end is of no interest */
        bool is_given_up;     /* second signal: release it */
        bool is_too_long;     /* --timeout struck */

        enum report report;
        struct buf text;  /* result or error */
        bool is_sent;     /* and not yet answered */
        bool has_claim;   /* the COMPLETE on its way asks for the next job */
        bool is_repeated; /* an earlier send was not answered */
};

void slot_init(struct slot *s, struct worker *w);
void slot_close(struct slot *s); /* its timers; nothing may run */
/* Starts the job of a CLAIM's row; a worker that drains gives it back instead. */
void slot_take(struct slot *s, const struct value *row);
void slot_report(struct slot *s);  /* sends the end of the job, if the link is up */
void slot_extend(struct slot *s);  /* asks for a full lease from now, if the link is up */
void slot_give_up(struct slot *s); /* kill it, give the job back */

#endif
