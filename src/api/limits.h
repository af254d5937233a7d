/* Every limit, in one table: what it is called, its value, its unit, and what it bounds.
 * INFO, the documentation and the tests at n-1, n and n+1 walk the same rows. */
#ifndef WEIR_API_LIMITS_H
#define WEIR_API_LIMITS_H

#include "base/defs.h"

/*      name               value               unit           what it bounds */
#define LIMIT_MAP(X)                                                                               \
        X(PAYLOAD_BYTES, 1048576, "bytes", "args of a job, and its result")                        \
        X(NAME_BYTES, 255, "bytes", "hook, queue, group and worker names")                         \
        X(ERROR_BYTES, 16384, "bytes", "error message given to FAIL")                              \
        X(PROGRESS_BYTES, 1024, "bytes", "progress text of a job")                                 \
        X(BULK_JOBS, 10000, "jobs", "jobs in one ENQUEUEMANY or POST")                             \
        X(COMMAND_BYTES, 33554432, "bytes", "one whole request")                                   \
        X(COMMAND_ARGS, 20064, "arguments", "arguments of one RESP command")                       \
        X(CLAIM_JOBS, 1000, "jobs", "MAX of one CLAIM")                                            \
        X(CLAIM_QUEUES, 64, "queues", "queues named in one CLAIM")                                 \
        X(WAIT_MS, 600000, "ms", "WAIT of a CLAIM and of a TAKE")                                  \
        X(LEASE_MIN_MS, 100, "ms", "shortest lease")                                               \
        X(LEASE_MAX_MS, 86400000, "ms", "longest lease, and TIMEOUT")                              \
        X(DELAY_MS, 315360000000, "ms", "IN, RETRYIN, EXPIRES, EVERY and the like (ten years)")    \
        X(ATTEMPTS, 1000, "attempts", "ATTEMPTS of a job")                                         \
        X(LIST_JOBS, 1000, "jobs", "LIMIT of JOBS; IDS of CANCELMANY and the like")                \
        X(EVENTS_KEPT, 100, "events", "events kept per job; older ones in the middle are counted") \
        X(QUEUES, 10000, "queues", "queues that exist at once")                                    \
        X(CONNECTIONS, 10000, "connections", "open connections over all doors")                    \
        X(RESERVED_CONNECTIONS, 100, "connections",                                                \
          "of CONNECTIONS, those kept for clients on this machine")                                \
        X(ADDRESS_CONNECTIONS, 5000, "connections",                                                \
          "open connections from one address of another machine (IPv6: from a /64)")               \
        X(OPERATOR_CONNECTIONS, 20, "connections",                                                 \
          "of CONNECTIONS, those kept for tokens with the role operator or admin")                 \
        X(ADDRESS_COMMANDS, 500000, "commands",                                                    \
          "commands a second from one address of another machine; more have to wait")              \
        X(ADDRESS_BYTES, 268435456, "bytes",                                                       \
          "unfinished input and unsent output of one address of another machine")                  \
        X(TOKEN_CONNECTIONS, 5000, "connections", "open connections of one token")                 \
        X(TOKEN_COMMANDS, 500000, "commands", "commands a second of one token; more have to wait") \
        X(TOKEN_BYTES, 268435456, "bytes", "unfinished input and unsent output of one token")      \
        X(OUTPUT_BYTES, 4194304, "bytes",                                                          \
          "unsent output of a connection before it is read from no more")                          \
        X(PREAUTH_BYTES, 4096, "bytes", "input before authentication")                             \
        X(TLS_HANDSHAKE_BYTES, 65536, "bytes", "input of a TLS handshake")                         \
        X(PREAUTH_MS, 5000, "ms", "time before authentication")                                    \
        X(PREAUTH_CONNECTIONS, 1000, "connections",                                                \
          "connections of other machines before authentication; the oldest is cut")                \
        X(PREAUTH_ADDRESS, 100, "connections", "the same from one address, or from this machine")  \
        X(TOKEN_FAILURES, 10, "tokens",                                                            \
          "wrong tokens from one address; the answer to each further one waits")                   \
        X(TOKEN_WAIT_MS, 1000, "ms", "how long it waits; then the connection is closed")           \
        X(HTTP_HEADER_BYTES, 16384, "bytes", "request line and headers")                           \
        X(JSON_DEPTH, 64, "levels", "nesting of a JSON body")                                      \
        X(STALL_MS, 30000, "ms",                                                                   \
          "a peer that does not take its output, or a request begun and not finished")             \
        X(PAUSE_MS, 604800000, "ms", "THROTTLE PAUSE FOR (a week)")                                \
        X(SETTINGS, 20000, "settings", "settings changed while weir runs, and patterns of hooks")  \
        X(KEYMAX, 1000000, "jobs", "KEYMAX of a job, and CAP")                                     \
        X(AFTER, 100, "jobs", "jobs that one comes AFTER")                                         \
        X(ANSWER_KEY_BYTES, 255, "bytes", "an idempotency key")                                    \
        X(ANSWER_BYTES, 1048576, "bytes", "answer kept for an idempotency key")                    \
        X(ANSWER_MS, 86400000, "ms", "how long it is given again")                                 \
        X(ANSWERS, 1000000, "answers", "idempotency keys known at once")                           \
        X(ANSWERS_BYTES, 268435456, "bytes", "all kept answers with their keys")                   \
        X(RATE_LIMITS, 10000, "limits", "rate limits that exist at once")                          \
        X(CAPS, 10000, "caps", "caps set, and told by CAPS")                                       \
        X(BREAKERS, 10000, "breakers", "circuit breakers that exist at once")                      \
        X(LOCK_TTL_MIN_MS, 100, "ms", "shortest time of a lock")                                   \
        X(LOCK_TTL_MS, 86400000, "ms", "longest time of a lock")                                   \
        X(LOCK_WAIT_MS, 86400000, "ms", "WAIT of a LOCK")                                          \
        X(LOCK_PLACES, 1000, "places", "COUNT of a LOCK")                                          \
        X(LOCKS, 100000, "locks", "names that are locked at once")                                 \
        X(LIST_LOCKS, 1000, "locks", "LIMIT of LOCKS")                                             \
        X(SCHEDULES, 10000, "schedules", "schedules that exist at once")                           \
        X(LIST_SCHEDULES, 1000, "schedules", "LIMIT of SCHEDULES")                                 \
        X(EVERY_MIN_MS, 100, "ms", "shortest EVERY of a schedule")                                 \
        X(JITTER_MS, 86400000, "ms", "JITTER of a schedule")                                       \
        X(STOPAFTER, 1000, "jobs", "STOPAFTER of a schedule")                                      \
        X(NEXT_RUNS, 1000, "slots", "COUNT of NEXTRUNS")                                           \
        X(BATCHES, 100000, "batches", "batches that exist at once, finished ones for 7 days")      \
        X(BATCH_JOBS, 10000000, "jobs", "jobs of a batch")                                         \
        X(BATCH_ARGS_BYTES, 16384, "bytes", "SUCCESSARGS and DONEARGS of a batch, each")           \
        X(LIST_BATCHES, 1000, "batches", "LIMIT of BATCHES")                                       \
        X(IDENTITY_PARTS, 8, "parts", "parts of an identity")                                      \
        X(IDENTITY_PART_BYTES, 64, "bytes", "a part of an identity")                               \
        X(CHECK_METRICS, 32, "metrics", "METRICS of a CHECK")                                      \
        X(CHECK_WAIT_MS, 600000, "ms", "WAIT of a CHECK")                                          \
        X(CHECK_COST, 1000000, "steps", "COST of a CHECK")                                         \
        X(RULES, 10000, "rules", "rules that exist at once")                                       \
        X(RULE_MS, 31536000000, "ms", "FOR of a rule (a year), if the operator allows it")         \
        X(CLIENTS, 10000, "names", "identities and parts that are counted by themselves")          \
        X(LIST_CLIENTS, 1000, "clients", "LIMIT of CLIENTS")                                       \
        X(SKIPPED_HOSTS, 1000, "hosts", "hosts that are skipped at once")                          \
        X(SITE_ACTIONS, 500, "actions", "LIMIT of SITEACTIONS")                                    \
        X(SITE_TIERS, 500, "hooks", "of a site whose tier its code decides (SITETIER)")            \
        X(SITE_LOCK_S, 86400, "s", "TTL of SITELOCK")                                              \
        X(PROXY_CLIENTS, 1000, "clients", "LIMIT of PROXYCLIENTS")                                 \
        X(PROXY_STATEMENTS, 1000, "statements", "LIMIT of PROXYTOP")                               \
        X(PROXY_SQL_BYTES, 65536, "bytes", "SQL of PROXYEXPLAIN")                                  \
        X(TOKENS, 1000, "tokens", "access tokens that commands have added")                        \
        X(AUDIT_WAITING, 10000, "entries",                                                         \
          "entries of the audit trail that wait for history; the oldest go")                       \
        X(LIST_AUDIT, 1000, "entries", "LIMIT of AUDIT")                                           \
        X(LIVE, 64, "listeners", "listeners of GET /v1/live at once")                              \
        X(LOGINS, 1000, "sessions", "sessions of the page; the one unused longest goes")           \
        X(LOGIN_FAILURES, 5, "tokens", "wrong tokens a minute from one address at POST /login")

enum limit {
#define X(name, value, unit, text) LIMIT_##name = (value),
        LIMIT_MAP(X)
#undef X
};

/* Bounds of single parameters, which HELP and the reference tell with the parameter. */
#define CLIENT_MINUTES       1440 /* MINUTES of CLIENTSHOW: a day is kept */
#define RULE_AUTHOR_BYTES    64
#define RULE_REASON_BYTES    200
#define RULE_LIST_BYTES      2048 /* METRICS and THRESHOLD */
#define RULE_NAME_BYTES      (24 + IDENTITY_BYTES + 1 + LIMIT_NAME_BYTES)
#define RULE_PAGE_MAX        1000 /* LIMIT of RULES */
#define SERIES_SECONDS       3600 /* by the second; the rest of SERIES by the minute or more: */
#define SERIES_STEP_S        300  /* the longest of that hour */
#define SERIES_SECONDS_MAX   2592000
#define SERIES_STEP_MAX_S    86400
#define TOKEN_NAME_BYTES     64
#define TOKEN_PATTERNS_BYTES 2048
#define THROTTLED_KEPT       200
#define THROTTLE_EVENTS      500

struct limit_row {
        const char *name;
        int64_t value;
        const char *unit;
        const char *text;
};
extern const struct limit_row limit_table[];
extern const size_t limit_table_len;

#endif
