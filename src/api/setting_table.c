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
        [SECTION_TLS] =
                {"tls", "tls { ... }",
                 "Certificate and key of the addresses in `resp_tls` and `http_tls`: docs/tls.md. "
                 "weir reads the files again on a reload and within seconds of a change; open "
                 "connections stay as they are. TLS 1.2 and 1.3 are spoken. `weir tls self-signed` "
                 "makes files for trying it."},
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
        [SECTION_WORDPRESS] =
                {"wordpress", "wordpress \"name\" { ... }",
                 "A WordPress site whose Action Scheduler weir guards: while its target is under "
                 "load, due actions of tiers that wait are moved to a later date. Up to 32 sites. "
                 "`weir wordpress check -c FILE` tells what weir finds there, and which "
                 "privileges are missing. The name has 1 to 64 bytes without / and control "
                 "characters."},
        [SECTION_MYSQL] =
                {"mysql", "mysql \"name\" { ... }",
                 "A door that MySQL clients connect to instead of their server. weir relays what "
                 "they say, and holds transactions at their start while the gate says so: "
                 "docs/mysql-proxy.md. Up to 16 doors. The name has 1 to 64 bytes without / and "
                 "control characters."},
        [SECTION_CLASS] =
                {"class", "class \"name\" { ... }",
                 "Which transactions of the `mysql` sections belong together, who sends them, how "
                 "important they are, and how many may run. Everything that is given must match: "
                 "in patterns `*` is any text and `?` one byte, and case matters. Of several that "
                 "match, the one that names more facts counts, then the one with more literal "
                 "characters, then the first. `weir proxy explain` shows which one it is. Up to "
                 "256 classes. The name has 1 to 64 bytes without spaces, `:` and `/`, and is not "
                 "`all`."},
        [SECTION_TOKEN] =
                {"token", "token \"name\" { ... }",
                 "An access token with roles: docs/tokens.md. A client shows its secret, or the "
                 "certificate that the section names. `weir token add` makes tokens while weir "
                 "runs; a name here comes before the same name there. Up to 1000 tokens. The name "
                 "has 1 to 64 letters, digits, `-`, `_` and `.`."},
        [SECTION_TELEMETRY] =
                {"telemetry", "telemetry { ... }",
                 "Where spans of jobs are sent: each attempt that ends makes `wait` and `run`, the "
                 "first one `enqueue` too. docs/telemetry.md has all of it."},
        [SECTION_CLUSTER] =
                {"cluster", "cluster { ... }",
                 "Several machines with one log and one history, in a PostgreSQL or MariaDB that "
                 "is replicated already: one leads, the others follow and take over. "
                 "`weir cluster init -c FILE` makes the tables; docs/cluster.md has all of it."},
        [SECTION_LIVE] = {"", "", ""},
};

const struct setting_def *setting_find(struct slice dotted)
{
        static const enum setting_section untitled[] = {SECTION_TOP,       SECTION_TLS,
                                                        SECTION_LOCKS,     SECTION_THROTTLE,
                                                        SECTION_TELEMETRY, SECTION_CLUSTER};
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
