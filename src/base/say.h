/* What weir says to its operator: one line per event on stderr, key=value or JSON.
 *
 *      say_warn("history", "cannot write, retrying", "path", path, "errno", strerror(errno));
 *
 * after area and sentence come key, value pairs of C strings, ended by the macro.  Values are
 * escaped; control characters never reach the terminal.  Lines of one (area, sentence) are
 * limited to 10 a second, and the next one says how many were left out.  Any thread may speak.
 * The last 64 lines are kept for panic(). */
#ifndef WEIR_BASE_SAY_H
#define WEIR_BASE_SAY_H

#include "base/defs.h"

/* SAY_NOTHING is for say_setup() alone. */
enum say_level { SAY_DEBUG, SAY_INFO, SAY_WARN, SAY_ERROR, SAY_NOTHING };

void say_setup(enum say_level min, bool as_json);
bool say_level_from_name(const char *name, enum say_level *ret);
void say_line(enum say_level level, const char *area, const char *text, ...)
        __attribute__((sentinel));

#define say_debug(...) say_line(SAY_DEBUG, __VA_ARGS__, (char *)NULL)
#define say_info(...)  say_line(SAY_INFO, __VA_ARGS__, (char *)NULL)
#define say_warn(...)  say_line(SAY_WARN, __VA_ARGS__, (char *)NULL)
#define say_error(...) say_line(SAY_ERROR, __VA_ARGS__, (char *)NULL)

/* Writes the last lines, oldest first; for panic(): waits for nobody, allocates nothing. */
void say_dump(int fd);

/* A number as a value, which JSON lines carry as one; a text of digits stays a text.  Each is two
 * arguments, and lives until the end of the full expression's block. */
#define SAY_I64(v) say_number, say_i64((char[24]){0}, (int64_t)(v))
#define SAY_F64(v) say_number, say_f64((char[32]){0}, (v))
extern const char say_number[]; /* its address says that the next argument is a number */
const char *say_i64(char *buf24, int64_t v);
const char *say_f64(char *buf32, double v); /* "null" when it is none */

#endif
