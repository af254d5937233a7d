/* A file in the grammar of libconfuse, read whole and made ready for it: weir.conf, and the
 * worker's handlers. */
#ifndef WEIR_CLI_CONF_FILE_H
#define WEIR_CLI_CONF_FILE_H

#include "base/buf.h"
#include "base/err.h"

/* `what` it is, for the sentence: "configuration".  ret was initialised with the most bytes that
 * the file may have; it then holds the text with a NUL behind it, and no other NUL.
 * ERR_FORBIDDEN: users other than the owner can write to the file. */
int conf_file_read(const char *what, const char *path, struct buf *ret,
                   struct problem *p) MUST_CHECK;

/* Puts blanks in place of all comments (#, //, and those between / * and * /), line by line, so
 * that the lines are the same.  libconfuse 3.3 counts lines with comments more than once, and then
 * names a line that is far below the mistake.  A comment that never ends is left to be complained
 * of. */
void conf_file_blank_comments(char *text);

/* Behind the text in quotes that begins at s; *line grows by the lines in it. */
char *conf_file_skip_text(char *s, int *line);

#endif
