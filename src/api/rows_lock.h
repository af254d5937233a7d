/* Rows of the command table for locks: included by command.c alone. */
#ifndef WEIR_API_ROWS_LOCK_H
#define WEIR_API_ROWS_LOCK_H

#include "things/lock.h"

/* How long a lock lives, in one of three forms.  A bare number below a second is refused: LOCK x
 * 300 would be a lock of 0.3 s for a caller who thinks of Redis's EX 300. */
/* clang-format off */
#define TTL_PARAMS(text)                                                                           \
        {"ttl", PARAM_INT, PARAM_BARE_MS | PARAM_EXCLUSIVE, MS_PER_S, LIMIT_LOCK_TTL_MS,           \
         "none, with EX or PX", text},                                                             \
        {"ex", PARAM_INT, KEY | PARAM_EXCLUSIVE, 1, LIMIT_LOCK_TTL_MS / MS_PER_S,                  \
         "none, with TTL or PX", "seconds instead of ttl"},                                                        \
        {"px", PARAM_INT, KEY | PARAM_EXCLUSIVE, LIMIT_LOCK_TTL_MIN_MS, LIMIT_LOCK_TTL_MS,         \
         "none, with TTL or EX", "milliseconds instead of ttl, also less than 1000"}
/* clang-format on */

/* Their places are P_... in things/lock.c. */
static const struct param_def lock_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the lock"},
        TTL_PARAMS("milliseconds until it is free again unless it is renewed"),
        {"wait", PARAM_INT, KEY, 0, LIMIT_LOCK_WAIT_MS, "0",
         "milliseconds to wait for it, first come first served"},
        {"count", PARAM_INT, KEY, 1, LIMIT_LOCK_PLACES, "1",
         "how many may hold it at a time; the same for all of them"},
        {"owner", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none", "who takes it, for people"},
        {"token", PARAM_TOKEN, KEY, 32, 32, "none", "a token the caller may already hold it with"},
        {"reenter", PARAM_CHOICE, KEY, 0, 0, "refuse",
         "refuse|renew: what follows when TOKEN holds it already"},
};

static const struct param_def unlock_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the lock"},
        {"token", PARAM_TOKEN, REQ, 32, 32, NULL, "token of the holder, from LOCK"},
};

static const struct param_def renew_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the lock"},
        {"token", PARAM_TOKEN, REQ, 32, 32, NULL, "token of the holder, from LOCK"},
        TTL_PARAMS("milliseconds from now until it is free again"),
};

static const struct param_def locked_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the lock"},
};

static const struct param_def locks_params[] = {
        {"match", PARAM_TEXT, QUERY, 1, NAME_MAX_BYTES, "any", "a text that the name holds"},
        {"limit", PARAM_INT, QUERY, 1, LIMIT_LIST_LOCKS, "50", "at most this many locks"},
        {"cursor", PARAM_TEXT, QUERY, 0, NAME_MAX_BYTES, "the first name",
         "where the last listing ended, from its answer"},
};

static const struct param_def forceunlock_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the lock"},
        {"reason", PARAM_TEXT, QUERY, 0, NAME_MAX_BYTES, "none", "why, for the server's log"},
};

#define LOCK_ROWS                                                                                  \
        ROW("LOCK", "locks", W | B, "POST", "/v1/locks/{name}",                                    \
            "Takes a lock, or one of the places of a semaphore, for a time.",                      \
            "Token, fence, ttl_ms, until_ms and count; null when it is held and the wait is "      \
            "over, over HTTP an object with acquired (true or false) and its holders.",            \
            exec_lock, lock_params),                                                               \
                ROW("UNLOCK", "locks", W, "POST", "/v1/locks/{name}/unlock",                       \
                    "Gives a lock back. Only its holder can.", "OK.", exec_unlock, unlock_params), \
                ROW("RENEW", "locks", W, "POST", "/v1/locks/{name}/renew",                         \
                    "Sets the time of a held lock, counted from now.",                             \
                    "Fence, ttl_ms and until_ms.", exec_renew, renew_params),                      \
                ROW("LOCKED", "locks", 0, "GET", "/v1/locks/{name}",                               \
                    "Shows who holds a lock and how many wait for it.",                            \
                    "Name, state (free or held), count, waiting, and for each holder owner, "      \
                    "fence, age_ms, ttl_ms and remaining_ms. A free lock has count 0 and no "      \
                    "holders.",                                                                    \
                    exec_locked, locked_params),                                                   \
                ROW("LOCKS", "locks", 0, "GET", "/v1/locks", "Lists the locks that are held.",     \
                    "The locks by name, the cursor to go on with (an empty one is the end), and "  \
                    "whether locks are enabled.",                                                  \
                    exec_locks, locks_params),                                                     \
                ROW("FORCEUNLOCK", "locks", W, "DELETE", "/v1/locks/{name}",                       \
                    "Takes a lock away from all its holders. The server's log keeps the reason.",  \
                    "How many holders lost it.", exec_forceunlock, forceunlock_params),

#endif
