/* The settings as parts of reference pages, from their rows. */
#ifndef WEIR_SERVE_REFERENCE_SETTINGS_H
#define WEIR_SERVE_REFERENCE_SETTINGS_H

#include "base/buf.h"

void reference_settings_man(struct buf *b);     /* weir.conf(5): every setting of the file */
void reference_settings_md(struct buf *b);      /* docs/settings.md: those set while weir runs */
void reference_settings_restart(struct buf *b); /* docs/settings.md: what a reload changes */

#endif
