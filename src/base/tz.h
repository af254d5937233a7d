/* Time zones from the system's zone files, as values: no TZ variable, no libc, no process state.
 *
 * A zone is a function from instants to offsets, constant between changes.  Instants and local
 * times are seconds; a local time is written as if it were UTC (local = utc + offset).  Leap
 * seconds are not counted, as in Unix time.
 *
 * Ownership: tz_open() lends; a zone is read once and kept for the life of the process.  Updated
 * zone files are seen after a restart.  Threads: loop thread only for tz_open(); the rest is pure.
 */
#ifndef WEIR_BASE_TZ_H
#define WEIR_BASE_TZ_H

#include "base/err.h"
#include "base/slice.h"

#define TZ_FOLDER   "/usr/share/zoneinfo"
#define TZ_NAME_MAX 64

struct tz;

/* What a local time is on the zone's clocks. */
enum tz_kind {
        TZ_UNIQUE,
        TZ_SKIPPED,  /* the clocks were set forward over it */
        TZ_REPEATED, /* the clocks were set back and showed it again */
};

/* A longest known run of instants [from_s, until_s) with one offset; INT64_MIN and INT64_MAX where
 * there is no bound. Neighbouring spans may have the same offset. */
struct tz_span {
        int64_t from_s, until_s;
        int64_t offset_s; /* local - utc, within +-26 hours */
};

/* A name like "Europe/Berlin": letters, digits and _ + - /.  "UTC" needs no file.  ERR_BADARG when
 * there is no such zone, ERR_IO or ERR_CORRUPT when its file cannot be read. */
int tz_open(struct slice name, const struct tz **ret, struct problem *p) MUST_CHECK;

const struct tz *tz_utc(void);
const char *tz_name(const struct tz *tz);
struct tz_span tz_span_at(const struct tz *tz, int64_t utc_s);
int64_t tz_to_local(const struct tz *tz, int64_t utc_s);
/* The first instant at which the clocks show a local time or a later one: so the first of two when
 * it is repeated, and the first after the gap when it is skipped.  It never decreases as local_s
 * grows.  ret_kind may be NULL. */
int64_t tz_to_utc(const struct tz *tz, int64_t local_s, enum tz_kind *ret_kind);

/* The parser behind tz_open(), for files from elsewhere: TZif version 2 or later.  The caller owns
 * the result.  ERR_CORRUPT with a reason when it is not one, ERR_BADARG when it counts leap seconds
 * (right/...). */
int tz_parse(struct slice name, struct slice file, struct tz **ret, struct problem *p) MUST_CHECK;
struct tz *tz_free(struct tz *tz); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(struct tz, tz_free)

#endif
