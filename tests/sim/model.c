/* See the header. */
#include "sim/model.h"

#include "unit/check.h"

struct saying *model_say(struct model *m)
{
        assert_true(m->n_said < SAID_MAX);
        struct saying *s = &m->said[m->n_said++];
        *s = (struct saying){0};
        return s;
}

static void believe(struct model *m, const struct saying *s)
{
        assert_true(s->id >= 1 && s->id <= JOBS_MAX);
        struct promise *p = &m->jobs[s->id];
        switch (s->what) {
        case S_ENQUEUED:
                p->told = T_ENQUEUED;
                break;
        case S_GRANTED:
                if (s->fence > m->fence)
                        m->fence = s->fence;
                memcpy(p->token, s->token, sizeof(p->token));
                p->is_held = true;
                p->held_until_ns = s->until_ns;
                break;
        case S_ENDED:
                p->told = T_ENDED;
                p->status = s->status;
                p->is_held = false;
                break;
        case S_RETURNED:
                p->is_held = false;
                break;
        case S_EXTENDED:
                p->held_until_ns = s->until_ns;
                break;
        }
        m->n_told++;
}

void model_fly(struct model *m)
{
        m->n_flying = m->n_said;
}

void model_believe(struct model *m)
{
        for (size_t i = 0; i < m->n_flying; i++)
                believe(m, &m->said[i]);
        m->n_said -= m->n_flying;
        memmove(m->said, m->said + m->n_flying, m->n_said * sizeof(m->said[0]));
        m->n_flying = 0;
}

void model_die(struct model *m)
{
        /* Whoever sent the end of its lease has let go, whether or not that arrived. */
        for (size_t i = 0; i < m->n_said; i++) {
                const struct saying *s = &m->said[i];
                struct promise *p = &m->jobs[s->id];
                if (s->what == S_ENDED || s->what == S_RETURNED)
                        p->is_held = false;
                /* EXTEND may also shorten, and nobody knows whether it did. */
                if (s->what == S_EXTENDED && s->until_ns < p->held_until_ns)
                        p->held_until_ns = s->until_ns;
        }
        m->n_said = m->n_flying = 0;
}

bool model_is_held(const struct model *m, uint64_t id, int64_t now_ns)
{
        bool is_held = m->jobs[id].is_held;
        int64_t until_ns = m->jobs[id].held_until_ns;
        for (size_t i = 0; i < m->n_said; i++) {
                const struct saying *s = &m->said[i];
                if (s->id != id || s->what == S_ENQUEUED)
                        continue;
                is_held = s->what == S_GRANTED || s->what == S_EXTENDED;
                until_ns = s->until_ns;
        }
        return is_held && now_ns < until_ns;
}
