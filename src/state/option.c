/* See option.h: reading and writing follow from the one table. */
#include "state/option.h"

void options_pack(const struct job_options *o, struct buf *b)
{
        OPTION_MAP(PACK_TEXT, PACK_NUM)
}

bool options_unpack(struct slice packed, struct job_options *ret)
{
        struct reader r = reader_make(packed);
        struct job_options *o = ret;
        *o = (struct job_options){0};
        while (reader_left(&r) && !r.failed)
                switch (reader_u8(&r)) {
                        OPTION_MAP(UNPACK_TEXT, UNPACK_NUM)
                default:
                        r.failed = true;
                }
        return !r.failed;
}
