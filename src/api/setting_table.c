/* See setting_table.h. */
#include "api/setting_table.h"

#include <string.h>

#include "api/limits.h"
#include "base/duration.h"
#include "base/say.h"
#include "gate/gate.h"
#include "gate/ramp.h"

const struct setting_def setting_table[SETTING_IDS] = {
#define SETTINGS_SECTION 0
#define SETTING(part, word, kind, kept, member, ...)                                               \
        [SET_##part##_##word] = {                                                                  \
                .section = SECTION_##part, .name = #word, .type = SETTING_##kind, __VA_ARGS__},
#include "api/setting_table.def"
};

const char *setting_section_name(enum setting_section section)
{
        static const char *const names[SECTIONS] = {
                [SECTION_TOP] = "",
                [SECTION_QUEUE] = "queue",
                [SECTION_LOCKS] = "locks",
                [SECTION_THROTTLE] = "throttle",
                [SECTION_LEVEL] = "level",
                [SECTION_TARGET] = "target",
                [SECTION_REPLICA] = "replica",
                [SECTION_METRIC] = "metric",
                [SECTION_LIVE] = "",
        };
        ASSERT((unsigned)section < SECTIONS);
        return names[section];
}

const struct setting_def *setting_find(struct slice dotted)
{
        static const enum setting_section untitled[] = {SECTION_TOP, SECTION_LOCKS,
                                                        SECTION_THROTTLE};
        const char *dot = dotted.len ? memchr(dotted.ptr, '.', dotted.len) : NULL;
        size_t n = dot ? (size_t)(dot - dotted.ptr) : 0;
        struct slice section = slice_make(dotted.ptr, n);
        struct slice name = dot ? slice_make(dot + 1, dotted.len - n - 1) : dotted;
        for (size_t i = 0; i < SETTING_IDS; i++) {
                const struct setting_def *def = &setting_table[i];
                for (size_t k = 0; k < ARRAY_LEN(untitled); k++)
                        if (def->section == untitled[k] && slice_eq(name, slice_str(def->name)) &&
                            slice_eq(section, slice_str(setting_section_name(def->section))))
                                return def;
        }
        return NULL;
}

int setting_choice(const struct setting_def *def, struct slice word)
{
        ASSERT(def->type == SETTING_CHOICE);
        for (int i = 0; i < SETTING_CHOICES_MAX; i++)
                if (def->choices[i] && slice_eq_nocase(word, slice_str(def->choices[i])))
                        return i;
        return -1;
}

void setting_put_choices(const struct setting_def *def, const char *quote, struct buf *ret)
{
        const char *last = NULL;
        for (int i = 0; i < SETTING_CHOICES_MAX; i++)
                last = def->choices[i] ? def->choices[i] : last;
        ASSERT(def->type == SETTING_CHOICE && last);
        bool is_first = true;
        for (int i = 0; i < SETTING_CHOICES_MAX; i++) {
                const char *choice = def->choices[i];
                if (!choice)
                        continue;
                buf_printf(ret, "%s%s%s%s",
                           is_first         ? ""
                           : choice == last ? " or "
                                            : ", ",
                           quote, choice, quote);
                is_first = false;
        }
}
