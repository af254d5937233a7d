/* See field.h. */
#include "state/field.h"

const char *field_type_text(enum field_type type)
{
        static const char *const texts[FIELD_TYPE_COUNT] = {
#define X(name, text) [FIELD_TYPE_##name] = text,
                FIELD_TYPE_MAP(X)
#undef X
        };
        ASSERT((unsigned)type < FIELD_TYPE_COUNT);
        return texts[type];
}
