/* Exemptions and their budget: each second in which one let somebody through although the target
 * was over its threshold is a bit of a ring, so that an exemption nobody looks after is seen.
 *
 * The budget is a share of ten minutes, also while the exemption is younger than that: 0.2 of it
 * are 120 seconds, however soon they follow each other.  Measuring a new one against its own short
 * life would end it in the very incident that it was set for. */
#include "base/say.h"
#include "checks/check_ctx.h"

#define BUDGET_SECONDS 600

_Static_assert(BUDGET_SECONDS == 8 * sizeof(((struct rule_budget *)0)->over), "a bit a second");

/* What is older than the ring falls out of it. */
static void advance(struct rule_budget *b, int64_t second)
{
        int64_t gap = second - b->second;
        for (int64_t i = 1; i <= gap && i <= BUDGET_SECONDS; i++) {
                size_t bit = (size_t)((b->second + i) % BUDGET_SECONDS);
                b->over[bit / 8] &= (uint8_t) ~(1U << bit % 8);
        }
        if (gap > 0)
                b->second = second;
}

/* As a share of ten minutes; the ring was advanced to now. */
static double share_over(const struct rule_budget *b)
{
        unsigned n = 0;
        for (size_t i = 0; i < sizeof(b->over); i++)
                n += (unsigned)__builtin_popcount(b->over[i]);
        return (double)n / BUDGET_SECONDS;
}

void check_spend_budget(struct core *core, const struct ask_ctx *a, struct rule *r)
{
        int64_t second = core->now.steady_ns / NS_PER_S;
        size_t bit = (size_t)(second % BUDGET_SECONDS);
        advance(&r->budget, second);
        r->budget.over[bit / 8] |= (uint8_t)(1U << bit % 8);
        double share = share_over(&r->budget);
        if (share <= core->checks.exempt_budget) {
                r->budget.is_told = false;
                return;
        }
        if (!r->budget.is_told) {
                r->budget.is_told = true;
                throttle_tell(core, "exemption_over_budget",
                              "%.*s was let through during %.0f%% of the last 10 minutes while "
                              "%s was over its threshold; %zu are starved",
                              (int)r->who.len, r->who.ptr, share * 100,
                              throttle_target_name(core, (size_t)a->target), clients_starved(core));
                say_warn("gate", "exemption_over_budget", "rule", r->thing.name, "percent",
                         SAY_I64((int64_t)(share * 100)));
        }
        if ((r->flags & RULE_ENDS_ITSELF) || core->checks.exempt_ends)
                rule_end(core, r, SLICE_LIT("past its budget"));
}

/* Costs a look at every rule, and for those that were used lately a copy of their ring. */
void core_exemptions(const struct core *core, struct core_exemptions *ret)
{
        int64_t second = core->now.steady_ns / NS_PER_S;
        *ret = (struct core_exemptions){.n = 0};
        for (struct hash_node *it = NULL; (it = hash_next(&core->state.things[THING_RULE], it));) {
                const struct rule *r = CONTAINER_OF(it, const struct rule, thing.node);
                if (r->kind != RULE_EXEMPT || r->mode != MODE_ENFORCE)
                        continue;
                ret->n++;
                if (second - r->budget.second >= BUDGET_SECONDS)
                        continue; /* all of it is over */
                struct rule_budget now = r->budget;
                advance(&now, second);
                double used = share_over(&now) / core->checks.exempt_budget;
                ret->n_over += used > 1;
                if (used > ret->used)
                        ret->used = used;
        }
}
