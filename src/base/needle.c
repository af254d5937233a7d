/* See needle.h.  The frequencies are a guess that need only be right about what is common. */
#include "base/needle.h"

/* How often a byte is met in JSON and names, about: larger is more often. */
static unsigned frequency(unsigned char c)
{
        static const char often[] = "\"ea:t,io0nr1s{}l2";
        static const char seldom[] = "jqxzJKQXYZ#@!?%&*+<=>^`|~$;";
        const char *at = c ? strchr(often, c) : NULL;
        if (at)
                return 100 - (unsigned)(at - often);
        if (c && strchr(seldom, c))
                return 1;
        bool is_lower = c >= 'a' && c <= 'z', is_digit = c >= '0' && c <= '9';
        return is_lower || is_digit || c == '_' || c == ' ' ? 50 : 10;
}

struct needle needle_make(struct slice text)
{
        struct needle n = {.text = text};
        for (size_t i = 1; i < text.len; i++)
                if (frequency((unsigned char)text.ptr[i]) <
                    frequency((unsigned char)text.ptr[n.rare]))
                        n.rare = i;
        return n;
}

bool needle_is_in(const struct needle *n, struct slice hay)
{
        size_t len = n->text.len;
        if (!len || hay.len < len)
                return !len;
        const char *at = hay.ptr + n->rare, *end = hay.ptr + hay.len - (len - n->rare) + 1;
        char rare = n->text.ptr[n->rare];
        while (at < end && (at = memchr(at, rare, (size_t)(end - at)))) {
                if (memcmp(at - n->rare, n->text.ptr, len) == 0)
                        return true;
                at++;
        }
        return false;
}
