/* Events of the gate: what THROTTLE HISTORY, the page and /metrics tell. */
#include <stdarg.h>

#include "base/shown.h"
#include "throttle/incident.h"
#include "throttle/throttle_state.h"

void throttle_put_label(struct buf *labels, const char *key, const char *value)
{
        buf_printf(labels, "%s%s=\"", labels->len ? "," : "", key);
        for (const char *p = value; *p; p++) {
                if (*p == '\\' || *p == '"')
                        buf_put_byte(labels, '\\');
                buf_put_byte(labels, *p);
        }
        buf_put_byte(labels, '"');
}

void throttle_tell(struct core *core, const char *name, const char *fmt, ...)
{
        struct throttle *t = core->throttle;
        bool is_frequent = incident_is_frequent(name);
        struct throttle_ring *ring = &t->rings[is_frequent];
        struct throttle_event *e = &ring->events[ring->n++ % THROTTLE_EVENTS];
        va_list args;
        e->number = t->n_events++;
        e->wall_ms = core->now.wall_ms;
        e->name = name;
        va_start(args, fmt);
        shown_vprintf(e->text, sizeof(e->text), fmt, args);
        va_end(args);
        e->incident = 0;
        if (!is_frequent)
                incident_keep(core, e);
}
