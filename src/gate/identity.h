/* Who asks: "a:b:c:d", from the most specific to the most general part.
 *
 * "7f3e:vcopier:vreplication:online-ddl" is one job of a kind of a kind: operators steer by any of
 * its parts, and by the whole.  Nothing is allocated: the parts point into the text. */
#ifndef WEIR_GATE_IDENTITY_H
#define WEIR_GATE_IDENTITY_H

#include "base/err.h"
#include "base/slice.h"

#define IDENTITY_PARTS      8
#define IDENTITY_PART_BYTES 64
#define IDENTITY_BYTES      255

struct identity {
        struct slice whole;
        struct slice part[IDENTITY_PARTS];
        size_t n;
};

/* ERR_BADARG and what is wrong: 1 to 8 parts between colons, each 1 to 64 bytes of UTF-8 without
 * control characters, spaces and '/'; 255 bytes in all.  "all" is the name of everybody: nobody
 * may be called so. */
int identity_parse(struct slice text, struct identity *ret, struct problem *problem) MUST_CHECK;
/* What a rule may name: a part, a whole identity, or "all". */
int identity_check_name(struct slice name, struct problem *problem) MUST_CHECK;

#endif
