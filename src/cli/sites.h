/* Rows of SITES as people see them, in `weir wordpress status` and in `weir top`. */
#ifndef WEIR_CLI_SITES_H
#define WEIR_CLI_SITES_H

#include "cli/fields.h"

#define SITE_COLUMNS 9
extern const struct column site_columns[SITE_COLUMNS];

/* "1203", or "1203+" when there are more than were counted. */
void site_put_due(struct buf *b, const struct value *site, int64_t now_ms);

#endif
