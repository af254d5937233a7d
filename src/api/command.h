/* Commands as rows (commands.def): one table for RESP, HTTP, HELP, the OpenAPI text and the man
 * page.
 *
 * A door turns bytes into a struct command with the help of the row's parameters; core_exec()
 * runs it.  Slices in a command are borrowed from the request's bytes or its arena. */
#ifndef WEIR_API_COMMAND_H
#define WEIR_API_COMMAND_H

#include "api/role.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "state/option.h"

/* CMD_LOCK and the like, in the order of the table. */
enum command_id {
#define COMMAND(c, ...)      CMD_##c,
#define DOOR_COMMAND(c, ...) CMD_##c,
#include "api/commands.def"
        N_COMMANDS
};

enum param_type {
        PARAM_NAME,  /* 1..LIMIT_NAME_BYTES bytes of UTF-8 without control characters -> text */
        PARAM_BYTES, /* a payload, 0..max bytes; in HTTP any JSON value, kept as its text -> text */
        PARAM_TEXT,  /* a string of 0..max bytes -> text */
        PARAM_INT,   /* min..max -> num */
        PARAM_ID,    /* a job id, 1.. -> num */
        PARAM_TOKEN, /* 32 hex digits -> token */
        PARAM_STATUS, /* pending, in-progress, complete, failed, canceled -> num (enum job_status)
                       */
        PARAM_NAMES,  /* one or more names up to max; takes all that is left in RESP -> names */
        PARAM_JOBS,   /* hook args [hook args ...] in RESP, array of objects in HTTP -> specs */
        PARAM_CHOICE, /* a word of the list its text begins with, "skip|one|all: what ..." -> num */
        PARAM_FLAG,   /* in RESP the keyword alone, in HTTP true or false -> num */
        PARAM_IDS,    /* job ids: 1,2,3 in RESP, an array of numbers in HTTP -> text (the former) */
        PARAM_CLAIM,  /* a nested CLAIM clause: worker MAX n ... QUEUES q... -> claim */
};

enum param_flags {
        PARAM_REQUIRED = 1,   /* else optional */
        PARAM_KEYWORD = 2,    /* RESP: written after its upper-case name; else positional */
        PARAM_IN_PATH = 4,    /* HTTP: in the address, not in the body */
        PARAM_IN_QUERY = 8,   /* HTTP: in the query string, not in the body */
        PARAM_EXCLUSIVE = 16, /* at most one of the parameters with this flag (IN, AT) */
        PARAM_BARE_MS = 32,   /* bare milliseconds; this, EX or PX must be given */
        PARAM_BARE_WORD = 64, /* a PARAM_CHOICE: its word may come without the keyword */
};

struct param_def {
        const char *name; /* lower case: JSON key; upper case of it is the RESP keyword */
        size_t name_len;
        enum param_type type;
        unsigned flags;
        int64_t min, max;     /* numbers: range; texts: length in bytes, INT64_MAX: any */
        const char *fallback; /* the default, as the documentation tells it; NULL: none */
        const char *text;
};

#define COMMAND_PARAMS_MAX 32
#define TOKEN_BYTES        16

/* A job to make.  Texts are slices and numbers have 64 bits, so that each parameter of ENQUEUE is
 * stored by its type alone (api/spec.c). */
struct job_spec {
        struct slice hook, args, queue, group; /* queue and group may be empty: the default */
        uint64_t priority;
        uint64_t attempts;
        uint64_t timeout_ms; /* 0 = the default lease */
        int64_t in_ms;       /* delay from now, when at_ms == 0 */
        int64_t at_ms;       /* Unix ms, or 0 */
        bool has_options;    /* one of the following is given: */
        uint64_t conflict;   /* enum job_conflict */
        uint64_t expires_in; /* ms from now, or 0 */
        struct slice after;  /* ids as text */
        /* As given: `backoff` is the text, `unique` may be "*"; enqueue.c makes the rest of it. */
        struct job_options options;
};

enum job_conflict { CONFLICT_FIRST, CONFLICT_REPLACE, CONFLICT_REJECT };

#define JOB_PRIORITY_DEFAULT 100
#define JOB_ATTEMPTS_DEFAULT 3
#define JOB_LEASE_DEFAULT_MS 300000
#define JOB_QUEUE_DEFAULT    "default"

struct claim_spec {
        struct slice worker;
        uint32_t max;      /* 1 when not given */
        uint32_t wait_ms;  /* 0 = answer at once */
        uint32_t lease_ms; /* 0 = the default */
        const struct slice *queues;
        size_t n_queues;
};

struct arg {
        bool is_set;
        int64_t num;
        struct slice text;
        uint8_t token[TOKEN_BYTES];
};

struct command_def;

struct command {
        const struct command_def *def;
        struct job_spec *specs; /* ENQUEUE (one), ENQUEUEMANY */
        size_t n_specs;
        bool is_many;            /* ENQUEUEMANY, and POST of an array: the reply is a list of ids */
        struct claim_spec claim; /* CLAIM, and the clause of COMPLETE */
        bool has_claim;
        struct slice idempotency; /* the key under which the answer is kept; empty: none */
        struct slice raw;         /* the JSON it was bound from; empty: words */
        /* In the order of def->params; last, since command_init() clears no more than those. */
        struct arg arg[COMMAND_PARAMS_MAX];
};

enum command_flags {
        COMMAND_WRITE = 1,  /* appends to the log */
        COMMAND_BLOCKS = 2, /* may answer later */
        COMMAND_NOAUTH = 4, /* allowed before authentication */
        COMMAND_DOOR = 8,   /* answered by the door itself, without a function (HELLO, AUTH, ...) */
        COMMAND_FREE = 16,  /* depends on nothing in the log: its reply never waits for the disk */
        COMMAND_LOCAL = 64, /* every machine of a cluster answers it itself */
        COMMAND_SECRET = 32, /* its answer holds a secret, and is never kept */
};

struct core;
struct session;
struct reply;

/* OK: the reply was written.  CORE_LATER: it will come through the session.  An error: nothing
 * was changed, nothing written, *problem says why, and the door replies with it. */
#define CORE_LATER 1
typedef int (*command_exec)(struct core *core, struct session *session, const struct command *cmd,
                            struct reply *reply, struct problem *problem);

struct command_def {
        enum command_id id;
        const char *name; /* upper case */
        size_t name_len;
        const char *group; /* "jobs", "workers", "locks", ...: a heading of the reference */
        enum role role;    /* that one needs to run it (api/access.h) */
        unsigned flags;
        const char *method; /* "POST"; NULL when HTTP has no such command */
        const char *path;   /* "/v1/jobs/{id}/complete" */
        const char *summary;
        const char *returns; /* what the reply holds, in a sentence */
        const char *reply;   /* its shape over HTTP (door/shapes.h); NULL without a path */
        const struct param_def *params;
        size_t n_params;
};

extern const struct command_def command_table[]; /* by enum command_id */
extern const size_t command_table_len;

/* The words of a PARAM_CHOICE: its text up to the colon. */
struct slice param_choices(const struct param_def *p);
/* Must a JSON object have it?  A payload that may be empty can be left out there; as one of several
 * words it cannot. */
bool param_is_needed(const struct param_def *p);
/* Is a PARAM_INT a time? */
bool param_is_ms(const struct param_def *p);

const struct command_def *command_find(struct slice name); /* any case; NULL when unknown */

/* Defaults for everything not given; call before binding arguments. */
void command_init(struct command *cmd, const struct command_def *def);
void job_spec_init(struct job_spec *spec);

/* Binds RESP arguments, those after the command's name: positional parameters first, then keywords
 * in any order, then the one that takes the rest. */
int command_bind_argv(const struct command_def *def, const struct slice *argv, size_t argc,
                      struct arena *arena, struct command *ret, struct problem *problem) MUST_CHECK;

/* One argument from its text (a query or path parameter, a RESP word): checked, then stored. */
int command_set_text(struct command *cmd, size_t param, struct slice text,
                     struct problem *problem) MUST_CHECK;
/* The same for a number that is already one (JSON). */
int command_set_int(struct command *cmd, size_t param, int64_t value,
                    struct problem *problem) MUST_CHECK;
/* A list of names (QUEUES); the array must outlive the command. */
int command_set_names(struct command *cmd, size_t param, const struct slice *names, size_t n,
                      struct problem *problem) MUST_CHECK;
/* Index of the parameter with that (lower-case) name, or -1. */
int command_param(const struct command_def *def, struct slice name);
/* Takes the next id off the text of a PARAM_IDS; false at its end. */
bool ids_next(struct slice *rest, uint64_t *ret);

/* The same for one job of an HTTP array.  `param` is P_ENQUEUE_...; so it is in job_spec_set(). */
int job_spec_set_text(struct job_spec *spec, size_t param, struct slice text,
                      struct problem *problem) MUST_CHECK;
int job_spec_set_int(struct job_spec *spec, size_t param, int64_t value,
                     struct problem *problem) MUST_CHECK;

/* After binding: checks that required parameters are there and exclusive ones are not both, and
 * fills the specs of ENQUEUE. */
int command_finish(struct command *cmd, struct arena *arena, struct problem *problem) MUST_CHECK;
int job_spec_finish(const struct job_spec *spec, struct problem *problem) MUST_CHECK;
/* Stores a checked argument of ENQUEUE in its member of the spec. */
int job_spec_set(struct job_spec *spec, size_t param, const struct arg *arg,
                 struct problem *problem) MUST_CHECK;

/* Gives a bound command its idempotency key (core/answer.c); only commands that change something
 * take one. */
int command_set_key(struct command *cmd, struct slice key, struct problem *problem) MUST_CHECK;

/* "ENQUEUE hook args [QUEUE q] [PRIORITY n] ..." */
void command_usage(const struct command_def *def, struct buf *ret);

#endif
