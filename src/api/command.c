/* The command table.  Adding a command is adding a row (and its function): RESP, HTTP, HELP, the
 * OpenAPI text and the man page follow from it.  See params.h for the places of parameters. */
#include "api/command.h"

#include "core/kernel.h"

#define YEAR_3000_MS   32503680000000

#define REQ            PARAM_REQUIRED
#define KEY            PARAM_KEYWORD
#define PATH           (PARAM_REQUIRED | PARAM_IN_PATH)
#define QUERY          (PARAM_KEYWORD | PARAM_IN_QUERY)
#define NAME_MAX_BYTES LIMIT_NAME_BYTES

#include "api/rows_job.h"

/* clang-format off */
#define ENQUEUE_OPTIONS                                                                            \
        JOB_PLACE, JOB_WHEN, JOB_TRIES, JOB_UNIQUE, JOB_SHARES, JOB_TIES, JOB_ENDS, JOB_TIER
/* clang-format on */

static const struct param_def enqueue_params[] = {
        {"hook", PARAM_NAME, REQ, 1, NAME_MAX_BYTES, NULL, "what to run: the name workers know"},
        {"args", PARAM_BYTES, REQ, 0, LIMIT_PAYLOAD_BYTES, NULL,
         "payload given to the worker; any bytes, over HTTP any JSON value"},
        ENQUEUE_OPTIONS,
};

static const struct param_def enqueuemany_params[] = {
        ENQUEUE_OPTIONS,
        {"jobs", PARAM_JOBS, REQ | KEY, 1, LIMIT_BULK_JOBS, NULL,
         "pairs of hook and args; the options hold for all of them"},
};

static const struct param_def claim_params[] = {
        {"worker", PARAM_NAME, REQ, 1, NAME_MAX_BYTES, NULL, "name of the worker, for people"},
        {"max", PARAM_INT, KEY, 1, LIMIT_CLAIM_JOBS, "1", "at most this many jobs"},
        {"wait", PARAM_INT, KEY, 0, LIMIT_WAIT_MS, "0",
         "milliseconds to wait for the first job when there is none"},
        {"lease", PARAM_INT, KEY, LIMIT_LEASE_MIN_MS, LIMIT_LEASE_MAX_MS, "300000",
         "milliseconds until a job without TIMEOUT returns to its queue"},
        {"queues", PARAM_NAMES, REQ | KEY, 1, LIMIT_CLAIM_QUEUES, NULL,
         "queues to take from; the best job over all of them comes first"},
};

#define ID                                                                                         \
        {                                                                                          \
                "id", PARAM_ID, PATH, 1, INT64_MAX, NULL, "id of the job"                          \
        }
#define TOKEN                                                                                      \
        {                                                                                          \
                "token", PARAM_TOKEN, REQ, 32, 32, NULL, "token of the lease, from CLAIM"          \
        }

static const struct param_def complete_params[] = {
        ID,
        TOKEN,
        {"result", PARAM_BYTES, 0, 0, LIMIT_PAYLOAD_BYTES, "none",
         "what came of it; any bytes, over HTTP any JSON value"},
        {"claim", PARAM_CLAIM, KEY, 0, 0, "none",
         "claim the next jobs in the same step: what CLAIM takes"},
};

static const struct param_def fail_params[] = {
        ID,
        TOKEN,
        {"error", PARAM_TEXT, REQ, 0, LIMIT_ERROR_BYTES, NULL, "what went wrong"},
        {"retryin", PARAM_INT, KEY | PARAM_EXCLUSIVE, 0, LIMIT_DELAY_MS, "as BACKOFF says, else 0",
         "milliseconds until the next attempt, if one is left"},
        {"noretry", PARAM_FLAG, KEY | PARAM_EXCLUSIVE, 0, 0, "no",
         "another attempt would fail as well: the job is failed now, though attempts are left"},
};

static const struct param_def release_params[] = {
        ID,
        TOKEN,
        {"in", PARAM_INT, KEY, 0, LIMIT_DELAY_MS, "0", "milliseconds until it may run again"},
};

static const struct param_def extend_params[] = {
        ID,
        TOKEN,
        {"ms", PARAM_INT, REQ, LIMIT_LEASE_MIN_MS, LIMIT_LEASE_MAX_MS, NULL,
         "milliseconds from now until the lease ends"},
};

static const struct param_def progress_params[] = {
        ID,
        TOKEN,
        {"text", PARAM_TEXT, REQ, 0, LIMIT_PROGRESS_BYTES, NULL, "how far it is"},
};

static const struct param_def id_params[] = {ID};

static const struct param_def jobs_params[] = {
        JOB_FILTER(QUERY),
        {"order", PARAM_CHOICE, QUERY, 0, 0, "newest", "newest|oldest: which come first"},
        {"limit", PARAM_INT, QUERY, 1, LIMIT_LIST_JOBS, "50", "at most this many jobs"},
        {"cursor", PARAM_TEXT, QUERY, 0, 20, "the first job",
         "where the last listing ended, from its answer"},
};

static const struct param_def queue_params[] = {
        {"queue", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the queue"},
};
static const struct param_def pause_params[] = {
        {"queue", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the queue"},
        {"existing", PARAM_FLAG, KEY, 0, 0, "no", "only a queue that exists, else NOTFOUND"},
};

static const struct param_def message_params[] = {
        {"message", PARAM_TEXT, 0, 0, INT64_MAX, "PONG", "text to send back"},
};
static const struct param_def echo_params[] = {
        {"message", PARAM_TEXT, REQ, 0, INT64_MAX, NULL, "text to send back"},
};
static const struct param_def words_params[] = {
        {"words", PARAM_TEXT, 0, 0, INT64_MAX, "none", "see the summary"},
};

#define ROW(name, group, flags, method, path, summary, returns, exec, params)                      \
        {                                                                                          \
                name, sizeof(name) - 1, group, flags, method, path, summary, returns, exec,        \
                        params, ARRAY_LEN(params)                                                  \
        }
#define ROW0(name, group, flags, method, path, summary, returns, exec)                             \
        {                                                                                          \
                name, sizeof(name) - 1, group, flags, method, path, summary, returns, exec, NULL,  \
                        0                                                                          \
        }

#include "api/rows_answer.h"
#include "api/rows_batch.h"
#include "api/rows_breaker.h"
#include "api/rows_bulk.h"
#include "api/rows_check.h"
#include "api/rows_client.h"
#include "api/rows_host.h"
#include "api/rows_limit.h"
#include "api/rows_lock.h"
#include "api/rows_now.h"
#include "api/rows_queue.h"
#include "api/rows_retry.h"
#include "api/rows_rule.h"
#include "api/rows_schedule.h"
#include "api/rows_settings.h"
#include "api/rows_throttle.h"

#define W      COMMAND_WRITE
#define B      COMMAND_BLOCKS
#define D      COMMAND_DOOR
#define NOAUTH COMMAND_NOAUTH

const struct command_def command_table[] = {
        ROW("ENQUEUE", "jobs", W, "POST", "/v1/jobs", "Adds a job.",
            "The id of the job. It is on disk when this answer comes.", exec_enqueue,
            enqueue_params),
        ROW("ENQUEUEMANY", "jobs", W, NULL, NULL,
            "Adds many jobs, all or none. Over HTTP: POST an array to /v1/jobs.",
            "The ids of the jobs, in order.", exec_enqueue, enqueuemany_params),
        ROW("JOB", "jobs", B, "GET", "/v1/jobs/{id}", "Shows a job, live or from history.",
            "Its fields.", exec_job, id_params),
        ROW("JOBS", "jobs", B, "GET", "/v1/jobs",
            "Lists jobs, live and from history as one, newest first unless ORDER says otherwise.",
            "The jobs, and the cursor to go on with; an empty cursor is the end.", exec_jobs,
            jobs_params),
        ROW("EVENTS", "jobs", B, "GET", "/v1/jobs/{id}/events",
            "Tells the story of a job: every change with time, worker and message.",
            "The events, oldest first.", exec_events, id_params),
        ROW("CANCEL", "jobs", W, "DELETE", "/v1/jobs/{id}",
            "Cancels a job that has not ended. A worker that runs it loses its lease.", "OK.",
            exec_cancel, id_params),
        ROW("CLAIM", "workers", W | B, "POST", "/v1/claims",
            "Takes the next jobs of some queues under a lease.",
            "A list of jobs: id, token, hook, args, attempt, queue, group, priority, attempts, "
            "fence, lease_ms, created_ms, and of jobs with MAXRUN maxrun_ms.",
            exec_claim, claim_params),
        ROW("COMPLETE", "workers", W | B, "POST", "/v1/jobs/{id}/complete",
            "Ends a job well, and may claim the next in the same step.", "OK, or the jobs claimed.",
            exec_complete, complete_params),
        ROW("FAIL", "workers", W, "POST", "/v1/jobs/{id}/fail",
            "Reports a failed attempt. The job returns to its queue while attempts are left and "
            "NORETRY does not say that they are of no use.",
            "The status the job has now: pending or failed.", exec_fail, fail_params),
        ROW("RELEASE", "workers", W, "POST", "/v1/jobs/{id}/release",
            "Gives a job back without using up an attempt.", "OK.", exec_release, release_params),
        ROW("EXTEND", "workers", W, "POST", "/v1/jobs/{id}/extend",
            "Sets the end of the lease, counted from now.", "OK.", exec_extend, extend_params),
        ROW("PROGRESS", "workers", W, "POST", "/v1/jobs/{id}/progress",
            "Notes how far a running job is.", "OK.", exec_progress, progress_params),
        ROW0("QUEUES", "queues", 0, "GET", "/v1/queues", "Lists the queues with their counts.",
             "The queues, by name.", exec_queues),
        ROW("PAUSE", "queues", W, "POST", "/v1/queues/{queue}/pause",
            "Hands out no more jobs of a queue. Running ones go on, new ones are taken in.", "OK.",
            exec_pause, pause_params),
        ROW("RESUME", "queues", W, "POST", "/v1/queues/{queue}/resume",
            "Hands out jobs of a queue again.", "OK.", exec_resume, queue_params),

        /* Each ends in a comma. */
        QUEUE_ROWS NOW_ROWS THROTTLE_ROWS CHECK_ROWS RULE_ROWS CLIENT_ROWS HOST_ROWS SCHEDULE_ROWS
                BATCH_ROWS LOCK_ROWS LIMIT_ROWS BREAKER_ROWS ANSWER_ROWS RETRY_ROWS BULK_ROWS
                        SETTINGS_ROWS

                                ROW("PING", "connection", D | NOAUTH, NULL, NULL, "Answers.",
                                    "PONG, or the message.", NULL, message_params),
        ROW("ECHO", "connection", D, NULL, NULL, "Sends back a text.", "The text.", NULL,
            echo_params),
        ROW("AUTH", "connection", D | NOAUTH, NULL, NULL,
            "Authenticates with the access token: AUTH [user] token.", "OK.", NULL, words_params),
        ROW("HELLO", "connection", D | NOAUTH, NULL, NULL,
            "Chooses the protocol: HELLO [2|3] [AUTH user token] [SETNAME name].",
            "What the server is.", NULL, words_params),
        ROW("CLIENT", "connection", D, NULL, NULL,
            "CLIENT SETNAME name | GETNAME | ID | SETINFO name value | LIST | INFO.",
            "As the subcommand says.", NULL, words_params),
        ROW0("RESET", "connection", D | NOAUTH, NULL, NULL,
             "Returns the connection to how it began.", "RESET.", NULL),
        ROW0("QUIT", "connection", D | NOAUTH, NULL, NULL, "Closes the connection.", "OK.", NULL),
        ROW("SELECT", "connection", D, NULL, NULL, "Takes 0 only: there are no numbered databases.",
            "OK.", NULL, words_params),
        ROW("COMMAND", "server", D, NULL, NULL,
            "Describes the commands, as Redis clients expect: COMMAND [COUNT | LIST | DOCS name | "
            "INFO name].",
            "As the subcommand says.", NULL, words_params),
        ROW("INFO", "server", D, NULL, NULL, "Tells the state of the server as text.",
            "Lines of name:value in sections.", NULL, words_params),
        ROW("HELP", "server", D, NULL, NULL, "Explains the commands: HELP [command].",
            "Lines of text.", NULL, words_params),
        ROW("CONFIG", "server", D, NULL, NULL,
            "CONFIG GET answers an empty map, for Redis tools that ask.", "An empty map.", NULL,
            words_params),
};
const size_t command_table_len = ARRAY_LEN(command_table);

const struct command_def *command_find(struct slice name)
{
        for (size_t i = 0; i < command_table_len; i++)
                if (command_table[i].name_len == name.len &&
                    slice_eq_nocase(slice_make(command_table[i].name, name.len), name))
                        return &command_table[i];
        return NULL;
}
