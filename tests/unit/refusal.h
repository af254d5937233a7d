/* What is refused and leaves no trace: words of commands, and damaged bytes of the log. */
#ifndef WEIR_TESTS_UNIT_REFUSAL_H
#define WEIR_TESTS_UNIT_REFUSAL_H

#include "check.h"

#include "core/kernel.h"
#include "support/rig.h"

#define REFUSAL_WORDS 10

/* An answer that is an error of that name, and says so much. */
static inline void refuses(const char *text, const char *code, const char *part)
{
        if (text[0] != '!' || strncmp(text + 1, code, strlen(code)) != 0)
                fail_msg("'%s' is no %s", text, code);
        has(text, part);
}

/* A row is a command's words and then a part of its answer, which begins with '!'. */
static inline void assert_rows_are_refused(struct rig *rig, const char *const rows[][REFUSAL_WORDS],
                                           size_t n)
{
        uint64_t before = state_digest(&rig->core->state);
        for (size_t i = 0; i < n; i++) {
                struct slice argv[REFUSAL_WORDS];
                size_t argc = 0;
                while (rows[i][argc][0] != '!') {
                        argv[argc] = slice_str(rows[i][argc]);
                        argc++;
                }
                has(rig_argv(rig, &rig->me, argv, argc), rows[i][argc]);
                assert_int_equal(state_digest(&rig->core->state), before);
        }
}

/* Brings an effect on the thing called x, as replay would. */
static inline bool applies(struct rig *rig, enum thing_kind kind, enum effect_type type,
                           struct slice body)
{
        struct problem problem;
        const struct effect e = {.type = type, .kind = kind, .name = SLICE_LIT("x"), .body = body};
        return state_apply(&rig->core->state, &e, rig->core->open_seq, &problem) == OK;
}

/* The body of the thing called x: cut anywhere it is refused, longer by a byte too; with a bit
 * changed it is refused or sound. */
static inline void assert_damage_is_refused(struct rig *rig, enum thing_kind kind)
{
        struct buf body;
        buf_init(&body, 0);
        thing_kinds[kind]->put(thing_find(&rig->core->state, kind, SLICE_LIT("x")), &body);
        assert_true(applies(rig, kind, EFFECT_THING_SET, buf_slice(&body)));
        for (size_t n = 0; n < body.len; n++)
                assert_false(applies(rig, kind, EFFECT_THING_SET, slice_make(body.ptr, n)));
        for (size_t i = 0; i < body.len; i++) {
                for (int bit = 0; bit < 8; bit++) {
                        body.ptr[i] = (char)(body.ptr[i] ^ 1 << bit);
                        (void)applies(rig, kind, EFFECT_THING_SET, buf_slice(&body));
                        state_check(&rig->core->state);
                        body.ptr[i] = (char)(body.ptr[i] ^ 1 << bit);
                }
        }
        assert_true(applies(rig, kind, EFFECT_THING_SET, buf_slice(&body)));
        buf_put_byte(&body, 0);
        assert_false(applies(rig, kind, EFFECT_THING_SET, buf_slice(&body)));
        buf_release(&body);
}

#endif
