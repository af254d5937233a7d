/* The kinds of things that move, in the order in which they are written and taken in: settings and
 * limits before the schedules that need them, jobs (which are not rows here) last. */
#include "cli/kinds.h"

#include <string.h>

#include "cli/listing.h"

static const struct kind_field no_fields[] = {{NULL, NULL, FIELD_PLAIN}};

static const struct kind_field host_fields[] = {{"left_ms", "FOR", FIELD_LEFT},
                                                {NULL, NULL, FIELD_PLAIN}};

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
        {"expires_ms", "EXPIRES", FIELD_PLAIN},
#define FIELD_OF_PLAIN(field, p)             {#field, #p, FIELD_PLAIN},
#define FIELD_OF_OWN(field, p)               FIELD_OF_PLAIN(field, p)
#define FIELD_OF_SPEC(field, p)              /* those above */
#define JOB_OPTION(p, name, how, field, ...) FIELD_OF_##how(field, p)
#define ENQUEUE_OPTION(...)
#include "api/job_options.def"
        {NULL, NULL, FIELD_PLAIN},
};

/* The keys are those of POST /v1/batches/{name}; `total` only tells. */
static const struct kind_field batch_fields[] = {
        {"title", "TITLE", FIELD_PLAIN},
        {"queue", "QUEUE", FIELD_PLAIN},
        {"priority", "PRIORITY", FIELD_PLAIN},
        {"onsuccess.hook", "ONSUCCESS", FIELD_PLAIN},
        {"onsuccess.args", "SUCCESSARGS", FIELD_BYTES},
        {"onsuccess.signature", "SUCCESSSIGNATURE", FIELD_PLAIN},
        {"ondone.hook", "ONDONE", FIELD_PLAIN},
        {"ondone.args", "DONEARGS", FIELD_BYTES},
        {"ondone.signature", "DONESIGNATURE", FIELD_PLAIN},
        {"complete", "COMPLETE", FIELD_NOT_ZERO},
        {"failed", "FAILED", FIELD_NOT_ZERO},
        {"canceled", "CANCELED", FIELD_NOT_ZERO},
        {"total", NULL, FIELD_PLAIN},
        {NULL, NULL, FIELD_PLAIN},
};

/* ---- which of them ---- */

static bool is_changed(const struct value *v)
{
        return field_is_true(v, "is_changed");
}

static bool is_own(const struct value *v)
{
        return !field_is_true(v, "default");
}

/* A client's TAKE or ASK made it, and the server forgets it by itself. */
static bool is_set(const struct value *v)
{
        return !field_is_true(v, "passing");
}

/* A key whose jobs wait is listed without having been set. */
static bool is_cap_set(const struct value *v)
{
        return field_int(v, "max") || field_int(v, "weight") != 1;
}

static bool has_slots(const struct value *v)
{
        return !slice_eq(field_text(v, "state"), SLICE_LIT("done"));
}

static bool is_unfinished(const struct value *v)
{
        return !slice_eq(field_text(v, "status"), SLICE_LIT("finished"));
}

const struct kind kinds[] = {
        {.type = "setting",
         .plural = "settings",
         .list = "SETTINGS",
         .set = "SETTINGSET",
         .words = {"name", "value"},
         .fields = no_fields,
         .is_moved = is_changed},
        {.type = "tier",
         .plural = "tiers",
         .list = "REGISTRY",
         .set = "REGISTRYSET",
         .words = {"pattern", "tier"},
         .fields = no_fields,
         .is_moved = is_own},
        {.type = "host",
         .plural = "hosts",
         .list = "SKIPPEDHOSTS",
         .set = "SKIPHOST",
         .words = {"host"},
         .fields = host_fields},
        {.type = "queue",
         .plural = "queues",
         .list = "QUEUES",
         .show = "QUEUE",
         .set = "QUEUESET",
         .words = {"name"},
         .fields = queue_fields,
         .then_field = "paused",
         .thens = {{"true", "PAUSE"}}},
        {.type = "limit",
         .plural = "limits",
         .list = "LIMITS",
         .set = "LIMIT",
         .words = {"name", "amount", "period_ms"},
         .fields = limit_fields,
         .is_moved = is_set},
        {.type = "breaker",
         .plural = "breakers",
         .list = "BREAKERS",
         .set = "BREAKER",
         .words = {"name"},
         .fields = breaker_fields,
         .is_moved = is_set},
        {.type = "cap",
         .plural = "caps",
         .list = "CAPS",
         .set = "CAP",
         .words = {"name", "max"},
         .fields = cap_fields,
         .is_moved = is_cap_set},
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
         .is_moved = has_slots,
         .left_one = "schedule that is over",
         .left_many = "schedules that are over",
         .then_field = "state",
         /* Nobody can say "stopped" to a server, and to run again is not what it was. */
         .thens = {{"paused", "PAUSESCHEDULE"}, {"stopped", "PAUSESCHEDULE"}}},
        {.type = "batch",
         .plural = "batches",
         .list = "BATCHES",
         .key = "batches",
         .show = "BATCHSTATE",
         .set = "BATCH",
         .words = {"name"},
         .fields = batch_fields,
         .is_moved = is_unfinished,
         .left_one = "finished batch",
         .left_many = "finished batches",
         .then_field = "status",
         .thens = {{"closed", "CLOSEBATCH"}, {"canceling", "CANCELBATCH"}},
         .has_jobs = true},
};

_Static_assert(ARRAY_LEN(kinds) <= KINDS_MAX, "there is room for each of them");
const size_t n_kinds = ARRAY_LEN(kinds);

const struct kind *kind_find(struct slice type)
{
        for (size_t i = 0; i < n_kinds; i++)
                if (slice_eq(slice_str(kinds[i].type), type))
                        return &kinds[i];
        return NULL;
}

const char *kind_field_key(const struct kind_field *f, char room[KIND_KEY_MAX])
{
        size_t n = 0;
        if (!strchr(f->name, '.'))
                return f->name;
        for (; f->keyword[n] && n + 1 < KIND_KEY_MAX; n++)
                room[n] = (char)(f->keyword[n] - 'A' + 'a');
        room[n] = '\0';
        return room;
}

const char *kind_then(const struct kind *k, struct slice value)
{
        for (size_t i = 0; i < KIND_THENS_MAX && k->thens[i].value; i++)
                if (slice_eq(slice_str(k->thens[i].value), value))
                        return k->thens[i].command;
        return NULL;
}
