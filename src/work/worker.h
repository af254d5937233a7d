/* The worker as its slots see it.  Internal to work/. */
#ifndef WEIR_WORK_WORKER_H
#define WEIR_WORK_WORKER_H

#include <sys/resource.h>

#include "work/curl_loop.h"
#include "work/slot.h"

#define ANSWER_MS 30000 /* nothing but a waiting CLAIM takes the server that long */

struct worker {
        const struct work_options *options;
        uv_loop_t loop;
        struct rng rng;
        struct link *claims;    /* CLAIM WAIT alone: a waiting connection answers nothing else */
        struct link *reports;   /* everything about jobs we hold */
        struct curl_loop *curl; /* NULL without an http handler */
        struct slot *slots;
        size_t n_slots; /* options->slots may run, the rest holds jobs ahead */
        uv_signal_t on_term, on_int, on_hup;
        struct rlimit files;     /* that may be open, as we were started */
        uv_timer_t pause;        /* before asking again after a refusal */
        uv_timer_t give_up;      /* after the second signal */
        uv_timer_t tick;         /* health and memory, once a second */
        bool is_up, has_been_up; /* the reports link */
        unsigned n_dials;        /* failed ones */
        int down_err;            /* of the last refusal since the link was up */
        bool is_claiming;        /* a CLAIM is on its way */
        int64_t claim_sent_ns;
        uint64_t n_claiming; /* MAX of it */
        uint64_t n_asked;    /* jobs asked for by claims on their way */
        uint64_t n_granted;  /* jobs received since the start */
        uint64_t n_taken;    /* the same, as slots count them */
        bool is_dry;         /* --once: the last claim found nothing */
        bool is_draining, is_closed;
        struct problem failure; /* err != OK: why it ends */
        uint64_t completed, failed, released, lost;
        bool is_health_bad;       /* the file could not be written; said once */
        const char *health_state; /* as last written */
        int64_t health_written_ns;
        uint64_t health_sum; /* of the counters then: has anything changed? */
};

/* How many more jobs may be asked for (UINT64_MAX without --max). */
uint64_t worker_left(const struct worker *w);
/* The CLAIM clause: worker MAX max [WAIT ms] [LEASE ms] QUEUES q...; the words live as long as
 * *ret. */
struct claim_words {
        struct slice argv[WORK_QUEUES_MAX + 16];
        size_t argc;
        char digits[3][24];
};
void worker_claim_words(const struct worker *w, uint64_t max, int64_t wait_ms,
                        struct claim_words *ret);
/* Something ended or changed: claim more, or end. */
void worker_step(struct worker *w);
void worker_pause(struct worker *w, uint64_t ms); /* a step and unsent reports, later */

#endif
