/* The kinds of things that move, in the order in which they are written and taken in: settings and
 * limits before the schedules that need them, jobs (which are not rows here) last. */
#include "cli/kinds.h"

#include <string.h>

static const struct kind_field no_fields[] = {{NULL, NULL, FIELD_PLAIN}};

static const struct kind_field queue_fields[] = {
        {"cap", "CAP", FIELD_PLAIN},         {"claimsize", "CLAIMSIZE", FIELD_PLAIN},
        {"claims", "CLAIMS", FIELD_PLAIN},   {"lease", "LEASE", FIELD_PLAIN},
        {"fair", "FAIR", FIELD_PLAIN},       {"backoff", "BACKOFF", FIELD_PLAIN},
        {"history", "HISTORY", FIELD_PLAIN}, {NULL, NULL, FIELD_PLAIN},
};

static const struct kind_field limit_fields[] = {
        {"kind", "KIND", FIELD_PLAIN},
        {"burst", "BURST", FIELD_NOT_ZERO},
        {NULL, NULL, FIELD_PLAIN},
};

static const struct kind_field breaker_fields[] = {
        {"threshold", "THRESHOLD", FIELD_PLAIN},
        {"rate", "RATE", FIELD_NOT_ZERO},
        {"window_ms", "WINDOW", FIELD_NOT_ZERO},
        {"volume", "VOLUME", FIELD_NOT_ZERO},
        {"cooldown_ms", "COOLDOWN", FIELD_NOT_ZERO},
        {"cooldown_max_ms", "COOLDOWNMAX", FIELD_NOT_ZERO},
        {"probe_ms", "PROBE", FIELD_NOT_ZERO},
        {"handlers", "HANDLERS", FIELD_FLAG},
        {NULL, NULL, FIELD_PLAIN},
};

static const struct kind_field cap_fields[] = {
        {"weight", "WEIGHT", FIELD_NOT_ONE},
        {NULL, NULL, FIELD_PLAIN},
};

/* What a rule of the kinds metrics and threshold lists is told as "list". */
static const struct kind_field rule_fields[] = {
        {"ratio", "RATIO", FIELD_PLAIN},         {"metrics", "METRICS", FIELD_PLAIN},
        {"threshold", "THRESHOLD", FIELD_PLAIN}, {"target", "TARGET", FIELD_PLAIN},
        {"mode", "MODE", FIELD_PLAIN},           {"author", "AUTHOR", FIELD_PLAIN},
        {"reason", "REASON", FIELD_PLAIN},       {"self_ending", "SELFENDING", FIELD_FLAG},
        {"left_ms", "FOR", FIELD_LEFT},          {NULL, NULL, FIELD_PLAIN},
};

static const struct kind_field schedule_fields[] = {
        {"cron", "CRON", FIELD_PLAIN},
        {"every_ms", "EVERY", FIELD_PLAIN},
        {"zone", "ZONE", FIELD_PLAIN},
        {"first_ms", "FIRST", FIELD_PLAIN},
        {"until_ms", "UNTIL", FIELD_PLAIN},
        {"jitter_ms", "JITTER", FIELD_NOT_ZERO},
        {"missed", "MISSED", FIELD_PLAIN},
        {"window_ms", "WINDOW", FIELD_PLAIN},
        {"overlap", "OVERLAP", FIELD_PLAIN},
        {"stop_after", "STOPAFTER", FIELD_PLAIN},
        {"queue", "QUEUE", FIELD_PLAIN},
        {"group", "GROUP", FIELD_PLAIN},
        {"priority", "PRIORITY", FIELD_PLAIN},
        {"attempts", "ATTEMPTS", FIELD_PLAIN},
        {"timeout_ms", "TIMEOUT", FIELD_PLAIN},
        {"backoff", "BACKOFF", FIELD_PLAIN},
        {"key", "KEY", FIELD_PLAIN},
        {"key_max", "KEYMAX", FIELD_PLAIN},
        {"limit", "LIMIT", FIELD_PLAIN},
        {"target", "TARGET", FIELD_PLAIN},
        {"expires_ms", "EXPIRES", FIELD_PLAIN},
        {"result_ms", "RESULTFOR", FIELD_PLAIN},
        {NULL, NULL, FIELD_PLAIN},
};

const struct kind kinds[] = {
        {.type = "setting",
         .plural = "settings",
         .list = "SETTINGS",
         .set = "SETTINGSET",
         .words = {"name", "value"},
         .fields = no_fields,
         .wanted = "is_changed"},
        {.type = "tier",
         .plural = "tiers",
         .list = "REGISTRY",
         .set = "REGISTRYSET",
         .words = {"pattern", "tier"},
         .fields = no_fields,
         .unwanted = "default"},
        {.type = "queue",
         .plural = "queues",
         .list = "QUEUES",
         .show = "QUEUE",
         .set = "QUEUESET",
         .words = {"name"},
         .fields = queue_fields,
         .then_field = "paused",
         .then_value = "true",
         .then = "PAUSE"},
        {.type = "limit",
         .plural = "limits",
         .list = "LIMITS",
         .set = "LIMIT",
         .words = {"name", "amount", "period_ms"},
         .fields = limit_fields},
        {.type = "breaker",
         .plural = "breakers",
         .list = "BREAKERS",
         .set = "BREAKER",
         .words = {"name"},
         .fields = breaker_fields},
        {.type = "cap",
         .plural = "caps",
         .list = "CAPS",
         .set = "CAP",
         .words = {"name", "max"},
         .fields = cap_fields},
        {.type = "rule",
         .plural = "rules",
         .list = "RULES",
         .key = "rules",
         .set = "RULESET",
         .words = {"name", "kind"},
         .fields = rule_fields},
        {.type = "schedule",
         .plural = "schedules",
         .list = "SCHEDULES",
         .key = "schedules",
         .show = "SCHEDULED",
         .set = "SCHEDULE",
         .words = {"name", "hook", "args"},
         .fields = schedule_fields,
         .unwanted = "is_signed",
         .then_field = "state",
         .then_value = "paused",
         .then = "PAUSESCHEDULE"},
};

const size_t n_kinds = ARRAY_LEN(kinds);

const struct kind *kind_find(struct slice type)
{
        for (size_t i = 0; i < n_kinds; i++)
                if (slice_eq(slice_str(kinds[i].type), type))
                        return &kinds[i];
        return NULL;
}
