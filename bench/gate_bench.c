/* What a decision of the gate costs: gate_decide alone, and with the look-up of a hook's tier among
 * 10,000 patterns of several shapes.  Prints ns per call, the best and the median of some rounds:
 *
 *      gate_bench              the table
 *      gate_bench --check      the same; ends with 1 when a median is above its target
 *
 * The targets are 200 ns for a decision with the default policy, and 1 us with 10,000 rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gate/gate.h"
#include "gate/registry.h"

#define RULES  10000
#define HOOKS  4096 /* more than a branch predictor learns */
#define CALLS  400000
#define ROUNDS 11

struct bench {
        struct policy policy;
        struct registry *registry;
        char patterns[RULES][64];
        struct registry_entry entries[RULES];
        char texts[HOOKS][64];
        struct slice hooks[HOOKS];
        struct gate_ask asks[HOOKS];
        uint64_t seed;
        uint64_t waits; /* keeps the calls from being optimized away */
        int failed;
};

static uint64_t dice(struct bench *b)
{
        b->seed ^= b->seed << 13;
        b->seed ^= b->seed >> 7;
        b->seed ^= b->seed << 17;
        return b->seed;
}

static double now_ns(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
        return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
        const double *x = a, *y = b;
        return *x < *y ? -1 : *x > *y;
}

static void run_decide(struct bench *b)
{
        for (int i = 0; i < CALLS; i++)
                b->waits += gate_decide(&b->policy, &b->asks[i % HOOKS]).is_wait;
}

static void run_both(struct bench *b)
{
        for (int i = 0; i < CALLS; i++) {
                struct gate_ask ask = b->asks[i % HOOKS];
                ask.tier = registry_tier(b->registry, b->hooks[i % HOOKS]);
                b->waits += gate_decide(&b->policy, &ask).is_wait;
        }
}

static void measure(struct bench *b, const char *what, void (*run)(struct bench *), double target)
{
        double rounds[ROUNDS];

        run(b); /* warm */
        for (int i = 0; i < ROUNDS; i++) {
                double began = now_ns();
                run(b);
                rounds[i] = (now_ns() - began) / CALLS;
        }
        qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
        double median = rounds[ROUNDS / 2];
        printf("%-58s %8.1f %8.1f %8.0f%s\n", what, rounds[0], median, target,
               median > target ? "  above" : "");
        b->failed |= median > target;
}

/* A text before the number of the rule, and one behind it. */
struct shape {
        const char *name;
        const char *pattern[2], *hook[2];
};

static const struct shape shapes[] = {
        {"names                 (job_N_done)", {"job_", "_done"}, {"job_", "_done"}},
        {"prefixes              (woocommerce_plugin_N_*)",
         {"woocommerce_plugin_", "_*"},
         {"woocommerce_plugin_", "_sync_products"}},
        {"ends                  (*_export_N)", {"*_export_", ""}, {"shop_catalog_export_", ""}},
        {"middles               (*_tenant_N_*)",
         {"*_tenant_", "_*"},
         {"shop_tenant_", "_sync_products"}},
        {"question marks        (shop_??_N_*_sync)",
         {"shop_?\?_", "_*_sync"},
         {"shop_eu_", "_products_sync"}},
};

static void fill(struct bench *b, const struct shape *only)
{
        for (int i = 0; i < RULES; i++) {
                const struct shape *s = only ? only : &shapes[(size_t)i % ARRAY_LEN(shapes)];
                int n = snprintf(b->patterns[i], sizeof(b->patterns[i]), "%s%d%s", s->pattern[0], i,
                                 s->pattern[1]);
                b->entries[i] = (struct registry_entry){slice_make(b->patterns[i], (size_t)n),
                                                        (enum tier)(i % TIERS)};
        }
        for (int i = 0; i < HOOKS; i++) {
                /* One of five matches nothing. */
                int number = (int)(dice(b) % (RULES + RULES / 4));
                const struct shape *s = only ? only : &shapes[(size_t)number % ARRAY_LEN(shapes)];
                int n = snprintf(b->texts[i], sizeof(b->texts[i]), "%s%d%s", s->hook[0], number,
                                 s->hook[1]);
                b->hooks[i] = slice_make(b->texts[i], (size_t)n);
        }
}

static void with_rules(struct bench *b, const struct shape *only)
{
        char what[80];

        fill(b, only);
        b->registry = registry_new(b->entries, RULES);
        (void)snprintf(what, sizeof(what), "%d %s", RULES, only ? only->name : "of all shapes");
        measure(b, what, run_both, 1000);
        b->registry = registry_free(b->registry);
}

static void with_defaults(struct bench *b)
{
        static const char *const hooks[] = {
                "woocommerce_payment_retry",  "woocommerce_scheduled_subscription_payment",
                "klaviyo_sync_profile",       "woocommerce_run_product_attribute_lookup",
                "action_scheduler_run_queue", "my_own_hook"};

        for (int i = 0; i < HOOKS; i++)
                b->hooks[i] = slice_str(hooks[dice(b) % ARRAY_LEN(hooks)]);
        b->registry = registry_new(registry_defaults, registry_defaults_len);
        measure(b, "the default registry and a decision", run_both, 200);
        b->registry = registry_free(b->registry);
}

int main(int argc, char **argv)
{
        static struct bench b = {.seed = 88172645463325252ULL};

        policy_init(&b.policy);
        b.policy.mode = MODE_ENFORCE;
        b.policy.max_deferral_ms = 6ULL * 3600 * MS_PER_S;
        b.policy.deferrals_per_hour = 100;
        for (int i = 0; i < HOOKS; i++)
                b.asks[i] = (struct gate_ask){
                        .tier = (enum tier)(dice(&b) % TIERS),
                        .level = (enum level)(dice(&b) % LEVELS),
                        .deferred_ms = dice(&b) % (8ULL * 3600 * MS_PER_S),
                        .hook_deferrals = (uint32_t)(dice(&b) % 120),
                };
        printf("%-58s %8s %8s %8s\n", "ns per call", "best", "median", "target");
        measure(&b, "a decision, default policy", run_decide, 200);
        with_defaults(&b);
        for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
                with_rules(&b, &shapes[i]);
        with_rules(&b, NULL);
        printf("(%llu of them wait)\n", (unsigned long long)b.waits);
        return argc > 1 && strcmp(argv[1], "--check") == 0 ? b.failed : 0;
}
