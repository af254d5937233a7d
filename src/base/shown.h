/* What others sent, as it stands in our own sentences: never half a character, never a byte that is
 * no text, and dots where something was left out.
 *
 *      problem_set(p, ERR_BADARG, "ratio must be a number, not '%s'", SHOWN(text));
 *
 * Whatever the sentence is for (a RESP error line, a JSON body, a terminal), it needs no second
 * look.  Control characters (C0, DEL, C1) and bytes that are no UTF-8 become '?'. */
#ifndef WEIR_BASE_SHOWN_H
#define WEIR_BASE_SHOWN_H

#include <stdarg.h>

#include "base/slice.h"

#define SHOWN_DOTS       "..."
#define SHOWN_BYTES      64  /* of a word: enough to know it again, and room for the sentence */
#define SHOWN_LONG_BYTES 200 /* of the path of a file, and of a sentence within another */

/* How many bytes of it, at most max, are whole characters. */
size_t shown_len(struct slice s, size_t max);
/* Writes it with a NUL at the end into size (more than four) bytes; returns ret. */
const char *shown_put(char *ret, size_t size, struct slice s);
/* Like vsnprintf(): the whole sentence, its own words as well. */
void shown_vprintf(char *ret, size_t size, const char *fmt, va_list args) PRINTF(3, 0);

/* The text lives until the end of the block around it; the statement after an if is such a block.
 * Of one that is longer than max bytes and the dots, at most max are shown. */
#define SHOWN_MAX(s, max)                                                                          \
        (shown_put((char[(max) + sizeof(SHOWN_DOTS)]){0}, (max) + sizeof(SHOWN_DOTS), (s)))
#define SHOWN(s)         SHOWN_MAX(s, SHOWN_BYTES)
#define SHOWN_STR(text)  SHOWN_MAX(slice_str(text), SHOWN_BYTES)
#define SHOWN_LONG(text) SHOWN_MAX(slice_str(text), SHOWN_LONG_BYTES)

#endif
