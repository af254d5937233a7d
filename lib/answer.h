/* The record that answers a CHECK, read by position.  Pure. */
#ifndef WEIR_LIB_ANSWER_H
#define WEIR_LIB_ANSWER_H

#include <locale.h>

#include "weir.h"

#include "wire/resp_reply.h"

void answer_clear(struct weir_answer *a);
/* False: this is no answer to a CHECK, and `ret` is as it was.  Fields behind those known are
 * skipped: a later weir may say more.  `c_locale` reads numbers with a point, whatever the program
 * has set. */
bool answer_read(const struct value *v, locale_t c_locale, struct weir_answer *ret);

#endif
