/* A lane is what a handle remembers of one question: the credits it may still use up, and how
 * often it was refused of late.
 *
 * Questions that differ in anything but their cost and their patience have lanes of their own: a
 * credit for one database says nothing about another, and one identity that is held back must not
 * slow down the next.  Pure: time and dice are passed in. */
#ifndef WEIR_LIB_LANE_H
#define WEIR_LIB_LANE_H

#include "base/buf.h"

/* Two minutes, as in the SRE book (chapter "Handling Overload"), in cells of five seconds. */
#define LANE_CELLS   24
#define LANE_CELL_NS (5 * NS_PER_S)

struct lane_cell {
        uint32_t requests; /* answered, or kept back here */
        uint32_t accepts;  /* answered with go */
};

struct lane {
        struct buf key;  /* the words of the question */
        int64_t used_ns; /* the lane that was not used for longest is given up first */

        uint64_t units; /* credits times the cost they were given for */
        int64_t units_until_ns;

        struct lane_cell cells[LANE_CELLS]; /* ring; the newest is cells[newest % LANE_CELLS] */
        int64_t newest;                     /* number of the newest cell: time / LANE_CELL_NS */
        int64_t asked_ns;                   /* when weir was last asked; 0: never */
};

void lane_init(struct lane *l);
void lane_release(struct lane *l);

/* True when a step of `cost` may go on credit, which is then used up. */
bool lane_use_credit(struct lane *l, uint32_t cost, int64_t now_ns);
/* In place of what was left: credits are a share of the present, not savings. */
void lane_put_credits(struct lane *l, uint32_t credits, uint32_t cost, int64_t until_ns);

/* The probability with which a question is kept back: max(0, (requests - K accepts) /
 * (requests + 1)) over the last two minutes. */
double lane_pressure(struct lane *l, uint32_t k_percent, int64_t now_ns);
/* 0: ask weir.  Else the question is kept back, and the next one that is sure to pass is so many
 * ns away.  `dice` is uniform in [0, 1). */
int64_t lane_admit(struct lane *l, uint32_t k_percent, int64_t probe_ns, double dice,
                   int64_t now_ns);
/* weir has answered an admitted question.  One without an answer does not count. */
void lane_answered(struct lane *l, uint32_t k_percent, bool is_granted, int64_t now_ns);

/* The lanes of a handle: a table so small that looking through it is faster than hashing. */
#define LANES_MAX 16
struct lanes {
        struct lane lane[LANES_MAX];
        size_t n;
};

/* The lane of a question, made when it is new; NULL without memory. */
struct lane *lanes_find(struct lanes *all, struct slice key, int64_t now_ns);
void lanes_forget(struct lanes *all); /* everything: credits, history, memory */

#endif
