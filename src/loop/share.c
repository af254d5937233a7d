#include "loop/share.h"

static uint32_t part(uint32_t whole, unsigned n, uint32_t least, uint32_t most)
{
        uint32_t each = whole / (n ? n : 1);
        if (each < least)
                return least;
        return each < most ? each : most;
}

void share_begin(struct share *s, uint64_t now_ns)
{
        if (!s->is_over || s->n_sharing < s->n_active)
                s->n_sharing = s->n_active;
        s->commands =
                part(SHARE_TURN_COMMANDS, s->n_sharing, SHARE_LEAST_COMMANDS, SHARE_TURN_COMMANDS);
        s->bytes = part(SHARE_TURN_BYTES, s->n_sharing, SHARE_LEAST_BYTES, SHARE_MOST_BYTES);
        s->read_bytes = s->bytes;
        s->n_active = 0;
        s->turn++;
        share_extend(s, now_ns);
}

void share_extend(struct share *s, uint64_t now_ns)
{
        s->until_ns = now_ns + SHARE_NS;
        s->is_over = false;
        s->look_commands = s->look_bytes = 0;
}

void share_look(struct share *s, uint64_t now_ns)
{
        s->look_commands = s->look_bytes = 0;
        s->is_over = now_ns >= s->until_ns;
}
