/* What a segment file is on the disk: its name, its header, and whole reads and writes.  The
 * functions that can fail return -1 with errno, as the calls they stand for. */
#ifndef WEIR_HISTORY_SEGMENT_IO_H
#define WEIR_HISTORY_SEGMENT_IO_H

#include <sys/types.h>

#include "base/defs.h"
#include "history/segment.h"

#define SEGMENT_ALIGN_BYTES 8
#define SEGMENT_PATH_BYTES  4160

/* Of file `number` beside the history file; returns ret. */
const char *segment_io_path(const char *history, uint32_t number, char ret[SEGMENT_PATH_BYTES]);
/* The number in the name "HISTORY-blocks-000001", both without a folder; 0: it is none of those. */
uint32_t segment_io_number_in(const char *name, const char *history);

void segment_io_make_header(const uint8_t id[SEGMENT_ID_BYTES], uint32_t number,
                            char ret[SEGMENT_HEADER_BYTES]);
/* NULL: the file is of this history and has this number; else what it is instead, as in "the file
 * belongs to another history". */
const char *segment_io_check_header(const uint8_t id[SEGMENT_ID_BYTES], uint32_t number, int fd);

int segment_io_write(int fd, uint64_t at, const char *bytes, size_t n) MUST_CHECK;
/* How many bytes there were, up to n. */
ssize_t segment_io_read(int fd, uint64_t at, char *ret, size_t n) MUST_CHECK;
/* fallocate(), also when a signal interrupts it. */
int segment_io_allocate(int fd, int mode, uint64_t from, uint64_t to);
/* What is free on the disk; UINT64_MAX when it does not say. */
uint64_t segment_io_room(int fd);
int segment_io_rename(const char *from, const char *to) MUST_CHECK; /* EEXIST: replaces nothing */
int segment_io_sync_folder(const char *history) MUST_CHECK;

#endif
