/* The state of the sites: their own files change it. */
#ifndef WEIR_SITES_SITES_STATE_H
#define WEIR_SITES_SITES_STATE_H

#include "base/list.h"
#include "core/kernel.h"
#include "sites/sites.h"
#include "sites/stock.h"
#include "state/moved.h"
#include "throttle/throttle_state.h"

#define SITE_LAST        50 /* actions that were moved last, kept for people */
#define SITE_BATCHES_MAX 20000
#define SITE_TEXT        256

/* An action that was moved, for people. */
struct site_last {
        uint64_t id;
        int64_t at_ms, original_s, to_s;
        uint8_t tier, level;
        char hook[SITE_HOOK_MAX + 1];
};

struct site {
        char *name, *target, *prefix;
        char *network, *notice; /* "": none */
        bool is_leaving;
        enum gate_mode configured_mode;
        int64_t interval_ms;
        bool is_front, is_lost_critical;
        enum gate_mode repairs[SITE_REPAIRS];
        struct site_survey survey; /* the last one */
        bool is_surveyed;
        int64_t surveyed_ms;            /* Unix ms */
        char error[PROBLEM_DETAIL_MAX]; /* why the last cycle ended early; "" */
        int64_t error_since_ms;
        uint64_t due;          /* that may run: of the last survey, capped per hook */
        uint64_t due_critical; /* of those, of the critical tier */
        size_t next_hook;      /* of the survey: where the next plan begins */
        uint64_t would_move;   /* in observe: due actions that enforce would have moved */
        uint64_t total_moved, total_shifted, total_returned, total_mended[SITE_REPAIRS];
        struct site_fault faults[SITE_REPAIRS];
        char *advice;       /* lines; may be NULL */
        struct stock stock; /* how much of it is due at once, while others return */
        bool is_returning;
        enum level stock_level; /* that the stock has seen */
        int64_t ordered_ms;     /* when a runner said that it puts critical ones first; 0: never */
        int64_t fronts_seen_ms; /* when the ledger of priorities was looked through last */
        uint64_t total_fronted;
        struct list runs;  /* SITERUN: clients that wait for something to be due */
        uint64_t seen_key; /* level, pause, registry and settings that the last cycle saw */
        struct site_last last[SITE_LAST];
        uint64_t n_last;
};

struct sites {
        struct site *sites;
        size_t n;
        struct sites_guard guard; /* all NULL: none */
        uint64_t next_batch;      /* 0: not known yet */
};

struct site *site_by_name(const struct core *core, struct slice name); /* NULL: none */
struct site *site_need(const struct core *core, struct slice name, struct problem *problem);
enum gate_mode site_mode(const struct core *core, const struct site *s);
/* What the gate says of an action of this hook: as if the mode were enforce. */
struct gate_answer site_decide(struct core *core, const struct site *s, struct slice hook,
                               enum tier *ret_tier);
/* tiers.c */
enum tier site_tier(const struct core *core, const struct site *s, struct slice hook);
int site_code_tier(const struct core *core, const struct site *s, struct slice hook); /* -1: none */
size_t site_code_tiers(const struct core *core, const struct site *s);
/* The hooks of the critical tier that the last survey found; room for SITE_FIRST_MAX. */
size_t site_first_hooks(const struct core *core, const struct site *s, struct slice *ret);
/* front.c: the part of a plan. */
void site_plan_front(struct core *core, struct site *s, struct site_plan *plan);
bool site_has_fronts(const struct core *core, const struct site *s);
/* Nothing is known of the load yet: nothing is done. */
bool site_is_guess(const struct core *core, const struct site *s);
enum level site_level(const struct core *core, const struct site *s); /* critical while paused */
/* What the level means: see gate/level.h. */
enum level site_level_for(const struct core *core, const struct site *s, enum tier tier);
struct level_caps site_level_caps(const struct core *core, const struct site *s);
/* Why actions of the site wait now, in words; SITE_TEXT bytes. */
void site_put_reason(const struct core *core, const struct site *s, char *ret);
/* Hooks of the site that have batches, in no order: start with NULL. */
const struct moved_hook *site_next_hook(const struct core *core, const struct site *s,
                                        const struct moved_hook *h);
/* A new batch of the ledger, with packed rows. */
int site_add_batch(struct core *core, const struct moved_values *v, uint64_t *ret_number,
                   struct problem *problem) MUST_CHECK;
/* One action that its own runner moves. */
int site_defer(struct core *core, struct site *s, struct slice hook, struct site_due_row *row,
               int64_t *ret_to_s, struct problem *problem) MUST_CHECK;
/* Its lines, for a reply. */
struct reply_items site_advice_items(const struct core *core, const struct site *s);
void site_serve_runs(struct core *core,
                     struct site *s); /* SITERUN: answers those that need not wait */
void site_end_runs(struct core *core, struct site *s);
/* The site is another struct from now on. */
void site_move_runs(struct site *from, struct site *to);

#endif
