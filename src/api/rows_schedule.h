/* Rows of the command table for schedules: included by command.c alone. */
#ifndef WEIR_API_ROWS_SCHEDULE_H
#define WEIR_API_ROWS_SCHEDULE_H

#include "base/cron.h"
#include "base/tz.h"
#include "jobs/schedule.h"

/* clang-format off */
/* In the order of P_TIME_... in jobs/schedule_command.c. */
#define SCHEDULE_TIMES(at)                                                                         \
        {"cron", PARAM_TEXT, (at) | PARAM_EXCLUSIVE, 1, CRON_TEXT_MAX, "none, with EVERY",         \
         "cron expression of 5 fields, or 6 with seconds first, or @hourly and the like"},         \
        {"every", PARAM_INT, (at) | PARAM_EXCLUSIVE, LIMIT_EVERY_MIN_MS, LIMIT_DELAY_MS,           \
         "none, with CRON", "milliseconds from one slot to the next, counted from the first"},     \
        {"zone", PARAM_TEXT, at, 1, TZ_NAME_MAX, "UTC", "time zone of CRON, as Europe/Berlin"},    \
        {"first", PARAM_INT, at, 0, YEAR_3000_MS, "now with CRON, after one EVERY otherwise",      \
         "Unix time in milliseconds: the first slot of EVERY; no slot of CRON is before it"},      \
        {"until", PARAM_INT, at, 1, YEAR_3000_MS, "for ever",                                      \
         "Unix time in milliseconds after which there are no slots"}
/* clang-format on */

/* Their places are P_... in jobs/schedule_command.c; those of the job are found by name. */
static const struct param_def schedule_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the schedule"},
        {"hook", PARAM_NAME, REQ, 1, NAME_MAX_BYTES, NULL, "what its jobs run"},
        {"args", PARAM_BYTES, REQ, 0, LIMIT_PAYLOAD_BYTES, NULL, "payload of its jobs"},
        SCHEDULE_TIMES(KEY),
        {"jitter", PARAM_INT, KEY, 0, LIMIT_JITTER_MS, "0",
         "a job may start up to so many milliseconds after its slot, at random"},
        {"missed", PARAM_CHOICE, KEY, 0, 0, "skip",
         "skip|one|all: what becomes of slots that went by: nothing, one job for all of them, or "
         "one for each"},
        {"window", PARAM_INT, KEY, 1, LIMIT_DELAY_MS, "60000 with skip, 86400000 with all",
         "how many milliseconds after its slot a job is still made"},
        {"overlap", PARAM_CHOICE, KEY, 0, 0, "skip",
         "skip|queue|allow|cancel: when a job of it has not ended: make none, make it wait, run "
         "both, or cancel the old one"},
        {"stopafter", PARAM_INT, KEY, 0, LIMIT_STOPAFTER, "5",
         "jobs failed in a row after which it stops; 0: never"},
        JOB_PLACE,
        JOB_TRIES,
        JOB_SHARES,
        JOB_ENDS,
};

static const struct param_def schedule_name_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the schedule"},
};

static const struct param_def schedules_params[] = {
        {"match", PARAM_TEXT, QUERY, 1, NAME_MAX_BYTES, "any", "a text that the name holds"},
        {"limit", PARAM_INT, QUERY, 1, LIMIT_LIST_SCHEDULES, "50", "at most this many schedules"},
        {"cursor", PARAM_TEXT, QUERY, 0, NAME_MAX_BYTES, "the first name",
         "where the last listing ended, from its answer"},
};

static const struct param_def nextruns_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the schedule"},
        {"count", PARAM_INT, QUERY, 1, LIMIT_NEXT_RUNS, "10", "at most this many"},
};

static const struct param_def scheduletry_params[] = {
        SCHEDULE_TIMES(QUERY),
        {"name", PARAM_NAME, QUERY, 1, NAME_MAX_BYTES, "that of a new one",
         "the schedule that would get these times"},
        {"count", PARAM_INT, QUERY, 1, LIMIT_NEXT_RUNS, "10", "at most this many"},
};

#define SCHEDULE_ROWS                                                                              \
        ROW("SCHEDULE", "schedules", W, "POST", "/v1/schedules/{name}",                            \
            "Sets a schedule, new or in place of the one with that name: CRON or EVERY.",          \
            "created, state and next_ms, the next slot.", exec_schedule, schedule_params),         \
                ROW("UNSCHEDULE", "schedules", W, "DELETE", "/v1/schedules/{name}",                \
                    "Removes a schedule. Jobs it has made stay.", "OK.", exec_unschedule,          \
                    schedule_name_params),                                                         \
                ROW("SCHEDULES", "schedules", 0, "GET", "/v1/schedules", "Lists the schedules.",   \
                    "The schedules by name, and the cursor to go on with; an empty cursor is the " \
                    "end.",                                                                        \
                    exec_schedules, schedules_params),                                             \
                ROW("SCHEDULED", "schedules", 0, "GET", "/v1/schedules/{name}",                    \
                    "Shows a schedule: what, when, what came of it.", "Its fields.",               \
                    exec_scheduled, schedule_name_params),                                         \
                ROW("PAUSESCHEDULE", "schedules", W, "POST", "/v1/schedules/{name}/pause",         \
                    "Makes no more jobs until it is resumed. Jobs it has made go on.", "OK.",      \
                    exec_pauseschedule, schedule_name_params),                                     \
                ROW("RESUMESCHEDULE", "schedules", W, "POST", "/v1/schedules/{name}/resume",       \
                    "Goes on after a pause or a stop, from the next slot on.", "OK.",              \
                    exec_resumeschedule, schedule_name_params),                                    \
                ROW("RUNSCHEDULE", "schedules", W, "POST", "/v1/schedules/{name}/run",             \
                    "Makes a job of a schedule now, outside its slots.", "The id of the job.",     \
                    exec_runschedule, schedule_name_params),                                       \
                ROW("NEXTRUNS", "schedules", 0, "GET", "/v1/schedules/{name}/next",                \
                    "Tells the next slots of a schedule.", "Unix times in milliseconds.",          \
                    exec_nextruns, nextruns_params),                                               \
                ROW("SCHEDULETRY", "schedules", 0, "GET", "/v1/schedules-try",                     \
                    "Tells the slots that SCHEDULE with these times would have, and sets "         \
                    "nothing. What SCHEDULE would refuse of them is refused.",                     \
                    "Unix times in milliseconds.", exec_scheduletry, scheduletry_params),

#endif
