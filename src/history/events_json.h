/* The events of a finished job as the history file keeps them: JSON that people can query.
 *
 *      [{"event":"created","at":1790000000000},
 *       {"event":"started","at":1790000000120,"worker":"w1"},
 *       {"event":"failed","at":1790000000300,"worker":"w1","message":"no route"}]
 *
 * Times are Unix ms.  An empty worker or message is left out; one that is not UTF-8 is kept
 * exactly, in hex, as "worker_hex" or "message_hex".
 *
 * Most jobs have the plain list of events: started once (or never), then ended, at the times and by
 * the worker that the other columns tell, a failure with the job's error as its message.  That is
 * kept as NULL, which saves a third of the file and 0.7 us of CPU a job; the view `jobs` in
 * archive_file.c writes it out.  events_json_read() of NULL gives the same packed events back. */
#ifndef WEIR_HISTORY_EVENTS_JSON_H
#define WEIR_HISTORY_EVENTS_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "state/job_view.h"

/* Appends the JSON to b, or nothing when the list is plain. */
void events_json_write(struct buf *b, const struct job_view *v);
/* The same, but a plain list is written out as well. */
void events_json_write_all(struct buf *b, const struct job_view *v);

/* Is the list plain, so that events_json_read() of an empty text gives exactly these bytes back?
 * Texts that are not UTF-8 do not matter here; events_json_write() writes them out all the same. */
bool events_json_is_plain(const struct job_view *v);

/* Sets v->events (packed, in the arena) from the JSON, or from v itself when json is empty: the
 * other fields must be set.  `scratch` is emptied and used.  ERR_NOMEM, or ERR_CORRUPT when it
 * is no JSON of ours; v->events is then empty. */
int events_json_read(struct slice json, struct arena *arena, struct buf *scratch,
                     struct job_view *v) MUST_CHECK;

/* Whether SQLite's text functions can hold it: UTF-8 without NUL. */
bool events_json_is_text(struct slice s);

#endif
