/* docs/log-records.md, written from the tables that make the bytes. */
#ifndef WEIR_SERVE_LOG_DOCS_H
#define WEIR_SERVE_LOG_DOCS_H

#include "base/buf.h"

void log_docs_md(struct buf *b);

#endif
