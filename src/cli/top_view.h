/* The frames of `weir top`, from answers of the server: pure, so that tests see every one.
 *
 *      top_view      what is known, what is chosen, and how large the screen is; borrowed
 *      top_put_frame one screenful: the head, one panel, and a line to talk on
 *      top_put_all   for pipes and files: the head and all panels, nothing cut off below */
#ifndef WEIR_CLI_TOP_VIEW_H
#define WEIR_CLI_TOP_VIEW_H

#include "cli/screen.h"
#include "wire/resp_reply.h"

enum top_panel { TOP_QUEUES, TOP_JOBS, TOP_CLIENTS, TOP_STARVED, TOP_PANELS };

#define TOP_ROWS_MAX 500 /* of a panel; a filter finds the others */

/* Per second; negative: not known. */
struct top_rates {
        double enqueued, started, completed, failed, deferred, granted, refused;
};

struct top_view {
        const char *server;           /* its address */
        const struct value *throttle; /* THROTTLESTATUS; NULL: not known (yet), as all here */
        const struct value *panels[TOP_PANELS]; /* QUEUES; JOBS; CLIENTS; STARVED */
        const struct value *sites;              /* SITES */
        const struct value *cluster;            /* CLUSTER; without members weir is alone */
        bool is_everything_paused;              /* weir pause; by NOW */
        struct top_rates rates;
        int64_t now_ms;

        bool has_tones;
        size_t rows, columns;
        enum top_panel panel;
        struct slice filter; /* rows that hold it are shown; the server filters jobs */
        const char *notice;  /* the last line: a question or a report; NULL: the keys */
        bool is_problem;
        bool is_help;
        bool is_whole; /* no row is chosen; set by top_put_all */

        /* The chosen row, kept by its key while rows come and go around it. */
        struct buf key; /* a queue, the id of a job, a client; empty: none yet */
        size_t at;      /* where it was; the next one there is chosen when it is gone */
        size_t first;   /* the row at the top of the panel */
        bool is_paused; /* of the chosen queue */
};

void top_view_init(struct top_view *v);
void top_view_release(struct top_view *v);

void top_put_frame(struct top_view *v, struct buf *ret);
void top_put_all(struct top_view *v, struct buf *ret);

/* Another row, `by` rows further down; the next frame shows it. */
void top_move(struct top_view *v, int64_t by);
void top_turn(struct top_view *v, int by); /* to another panel */

/* From an answer to NOW. */
void top_rates_read(struct top_rates *r, const struct value *now);
/* From what two answers to QUEUES and THROTTLESTATUS counted since the start, `ms` apart. */
struct top_totals {
        int64_t enqueued, completed, failed, deferred, granted, refused;
};
void top_totals_read(struct top_totals *t, const struct value *queues,
                     const struct value *throttle);
void top_rates_between(struct top_rates *r, const struct top_totals *from,
                       const struct top_totals *to, int64_t ms);

#endif
