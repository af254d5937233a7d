/* See option.h: reading and writing follow from the one table. */
#include "state/option.h"

void options_pack(const struct job_options *o, struct buf *b)
{
#define TEXT(tag, name)                                                                            \
        if (o->name.len) {                                                                         \
                buf_put_byte(b, tag);                                                              \
                buf_put_lv(b, o->name);                                                            \
        }
#define NUM(tag, name)                                                                             \
        if (o->name) {                                                                             \
                buf_put_byte(b, tag);                                                              \
                buf_put_varint(b, o->name);                                                        \
        }
        OPTION_MAP(TEXT, NUM)
#undef TEXT
#undef NUM
}

static void read_option(struct reader *r, struct job_options *o)
{
        switch (reader_u8(r)) {
#define TEXT(tag, name)                                                                            \
        case tag:                                                                                  \
                o->name = reader_lv(r);                                                            \
                return;
#define NUM(tag, name)                                                                             \
        case tag:                                                                                  \
                o->name = reader_varint(r);                                                        \
                return;
                OPTION_MAP(TEXT, NUM)
#undef TEXT
#undef NUM
        default:
                r->failed = true;
        }
}

bool options_unpack(struct slice packed, struct job_options *ret)
{
        struct reader r = reader_make(packed);
        *ret = (struct job_options){0};
        while (reader_left(&r) && !r.failed)
                read_option(&r, ret);
        return !r.failed;
}
