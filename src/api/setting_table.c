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

const struct setting_section_def setting_sections[SECTIONS] = {
        [SECTION_TOP] = {"", "", ""},
        [SECTION_QUEUE] = {"queue", "queue \"name\" { ... }",
                           "Settings of one queue. May be given for any number of queues."},
        [SECTION_LOCKS] = {"locks", "locks { ... }", "The switch of all locks."},
        [SECTION_THROTTLE] = {"throttle", "throttle { ... }",
                              "How the gate makes jobs wait while a database is under load."},
        [SECTION_LEVEL] = {"level",
                           "throttle { level \"elevated\" | \"critical\" | \"unknown\" { ... } }",
                           "How long jobs wait, and how many start at once, at that level."},
        [SECTION_TARGET] =
                {"target", "target \"name\" { ... }",
                 "A database, host, URL or command that weir measures, and the thresholds "
                 "above which it counts as load. Up to 32 targets; docs/probes.md has all "
                 "of it. `weir probe -c FILE` shows what the probes of a file read. The "
                 "name has 1 to 64 bytes without / and control characters."},
        [SECTION_REPLICA] = {"replica", "target \"name\" { replica \"name\" { ... } }",
                             "A server whose `replication_lag` counts for the target. Up to 64."},
        [SECTION_METRIC] =
                {"metric", "target \"name\" { metric \"name\" { ... } }",
                 "A value of the target. A target of kind mysql, postgres or host without "
                 "metrics has threads_running, active_backends or load_per_core."},
        [SECTION_LIVE] = {"", "", ""},
};

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
                            slice_eq(section, slice_str(setting_sections[def->section].name)))
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
