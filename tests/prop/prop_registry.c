/* The registry against a matcher that tries every pattern with plain recursion and compares all
 * that match by the law in words.  Small alphabets, so that patterns and hooks meet. */
#include "../unit/check.h"

#include "dice.h"
#include "gate/registry.h"

#define PATTERNS 400
#define HOOKS    400
#define LEN      40

/* Depth: at most the bytes of both. */
static bool naive(const char *p, size_t np, const char *t, size_t nt)
{
        if (np == 0)
                return nt == 0;
        if (*p == '*')
                return naive(p + 1, np - 1, t, nt) || (nt && naive(p, np, t + 1, nt - 1));
        return nt && (*p == '?' || *p == *t) && naive(p + 1, np - 1, t + 1, nt - 1);
}

static size_t prefix_len(struct slice p)
{
        size_t n = 0;

        while (n < p.len && p.ptr[n] != '*' && p.ptr[n] != '?')
                n++;
        return n;
}

static size_t literals(struct slice p)
{
        size_t n = 0;

        for (size_t i = 0; i < p.len; i++)
                n += p.ptr[i] != '*' && p.ptr[i] != '?';
        return n;
}

/* Is a, set after b, to be preferred? */
static bool is_better(struct slice a, struct slice b)
{
        bool a_exact = prefix_len(a) == a.len, b_exact = prefix_len(b) == b.len;

        if (a_exact != b_exact)
                return a_exact;
        if (prefix_len(a) != prefix_len(b))
                return prefix_len(a) > prefix_len(b);
        return literals(a) >= literals(b);
}

static int naive_find(const struct registry_entry *entries, size_t n, struct slice hook)
{
        int best = -1;

        for (size_t i = 0; i < n; i++) {
                struct slice p = entries[i].pattern;
                if (naive(p.ptr, p.len, hook.ptr, hook.len) &&
                    (best < 0 || is_better(p, entries[best].pattern)))
                        best = (int)i;
        }
        return best;
}

/* Wildcards are a share of the bytes; few stars, or the naive one would take for ever. */
static struct slice any_pattern(struct rng *dice, unsigned letters, char *ret)
{
        size_t n = 1 + rng_below(dice, rng_below(dice, 4) ? 12 : LEN);
        unsigned stars = (unsigned)rng_below(dice, 4);

        for (size_t i = 0; i < n; i++) {
                ret[i] = (char)('a' + rng_below(dice, letters));
                if (rng_below(dice, 12) == 0)
                        ret[i] = '?';
        }
        while (stars-- > 0)
                ret[rng_below(dice, n)] = '*';
        if (rng_below(dice, 3) == 0)
                ret[n - 1] = '*';
        return slice_make(ret, n);
}

/* Half of them are made from a pattern, so that the long ones are met too. */
static struct slice any_hook(struct rng *dice, unsigned letters, struct slice from, char *ret)
{
        size_t n = 0;

        if (rng_below(dice, 2)) {
                n = rng_below(dice, 16);
                for (size_t i = 0; i < n; i++)
                        ret[i] = (char)('a' + rng_below(dice, letters));
                return slice_make(ret, n);
        }
        for (size_t i = 0; i < from.len; i++) {
                size_t times = from.ptr[i] == '*' ? rng_below(dice, 4) : 1;
                bool is_wild = from.ptr[i] == '*' || from.ptr[i] == '?';
                while (times-- > 0)
                        ret[n++] = is_wild ? (char)('a' + rng_below(dice, letters)) : from.ptr[i];
        }
        if (n && rng_below(dice, 8) == 0)
                ret[rng_below(dice, n)] = 'a';
        return slice_make(ret, n);
}

static uint64_t episode(struct rng *dice)
{
        static char texts[PATTERNS][LEN];
        static struct registry_entry entries[PATTERNS];
        size_t n = rng_below(dice, rng_below(dice, 2) ? 8 : PATTERNS);
        unsigned letters = 1 + (unsigned)rng_below(dice, 5);
        uint64_t found = 0;

        for (size_t i = 0; i < n; i++)
                entries[i] = (struct registry_entry){any_pattern(dice, letters, texts[i]),
                                                     (enum tier)rng_below(dice, TIERS)};
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, n);
        for (int k = 0; k < HOOKS; k++) {
                char text[4 * LEN];
                struct slice from = n ? entries[rng_below(dice, n)].pattern : SLICE_NONE, by;
                struct slice hook = any_hook(dice, letters, from, text);
                int want = naive_find(entries, n, hook);
                enum tier tier = want < 0 ? TIER_NORMAL : entries[want].tier;
                assert_int_equal(registry_explain(r, hook, &by), tier);
                assert_int_equal(registry_tier(r, hook), tier);
                assert_true(slice_eq(by, want < 0 ? SLICE_NONE : entries[want].pattern));
                found += want >= 0;
        }
        return found;
}

static void the_registry_agrees_with_trying_everything(void **state)
{
        struct rng dice;
        uint64_t found = 0, rounds = dice_rounds(60);

        (void)state;
        dice_init(&dice, "registry");
        for (uint64_t n = rounds; n > 0; n--)
                found += episode(&dice);
        (void)printf("# %llu of %llu hooks matched\n", (unsigned long long)found,
                     (unsigned long long)rounds * HOOKS);
        assert_true(found > rounds * HOOKS / 3 && found < rounds * HOOKS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_registry_agrees_with_trying_everything),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
