/* What clang's analyzer cannot see from one file: problem_set() returns the error it was given.
 * Without this, everything after `return problem_set(...)` looks reachable with OK. */
#include "base/err.h"

#define problem_set(p, err, ...) ((void)(problem_set)((p), (err), __VA_ARGS__), (err))
