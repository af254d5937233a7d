/* See site_members.h.
 *
 * A blog that is not in an answer any more gets no runner.  What runs for it may end; when that has
 * and no answer is awaited, the next answer to SITERUN removes it.  Until then it may come back. */
#include "work/site_members.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "work/site_reserved.h"
#include "work/site_turns.h"

#define MEMBERS_MAX     64 /* a server has fewer sites */
#define MEMBER_NAME_MAX 128

struct site_member {
        struct list link;
        struct site_members *all;
        char name[MEMBER_NAME_MAX + 1];
        struct site_blog blog;
        struct site_places *places;
        struct site_reserved *reserved; /* NULL: there is none for any blog */
        bool is_told;                   /* by the answer that is being read */
        bool is_gone;                   /* not told by the last one */
        bool is_reserved;               /* a reserved runner is wanted here */
        bool is_first_refused;          /* the last SITEFIRST; said once */
        bool is_address_missed;         /* said once */
        unsigned n_asked;               /* SITEFIRST without an answer yet: it holds a pointer */
        int64_t reserved_ns;            /* since when */
        uint64_t last, last_reserved;   /* turns */
};

struct site_members {
        struct site_members_spec spec;
        struct list list; /* the site itself is the first */
        size_t n;
        struct turns turns;
        struct site_tally tally;
        bool is_stopping, is_cut; /* the latter was said */
};

static void move_reserved(struct site_members *m);

#define MEMBER_FOREACH(m, it) LIST_FOREACH(&(m)->list, it)
#define MEMBER_OF(it)         CONTAINER_OF(it, struct site_member, link)

/* ---- they come and go ---- */

static void on_runner_ended(void *ctx)
{
        const struct site_members *m = ((const struct site_member *)ctx)->all;
        m->spec.changed(m->spec.ctx);
}

static void on_reserved_left(void *ctx)
{
        struct site_members *m = ((struct site_member *)ctx)->all;
        if (!m->is_stopping)
                move_reserved(m);
        m->spec.changed(m->spec.ctx);
}

static struct site_member *member_new(struct site_members *m, struct slice name)
{
        const struct site_runner_options *o = m->spec.options;
        struct site_member *b = xcalloc(1, sizeof(*b));
        b->all = m;
        (void)snprintf(b->name, sizeof(b->name), "%.*s", (int)name.len, name.ptr);
        const struct site_places_spec places = {
                .loop = m->spec.loop,
                .site = b->name,
                .command = o->command,
                .env = m->spec.env,
                .dir = o->dir,
                .blog = &b->blog,
                .tally = &m->tally,
                .n = o->runners,
                .passes_errors = o->passes_errors,
                .ended = on_runner_ended,
                .ctx = b,
        };
        const struct site_reserved_spec reserved = {
                .loop = m->spec.loop,
                .site = b->name,
                .command = o->reserved,
                .env = m->spec.env,
                .dir = o->dir,
                .blog = &b->blog,
                .passes_errors = o->passes_errors,
                .left = on_reserved_left,
                .ctx = b,
        };
        b->places = site_places_new(&places);
        if (o->reserved)
                b->reserved = site_reserved_new(&reserved);
        list_push_back(&m->list, &b->link);
        m->n++;
        return b;
}

/* Nothing runs for it any more. */
static void member_free(struct site_member *b)
{
        list_remove(&b->link);
        b->all->n--;
        if (b->reserved) {
                if (!b->all->is_stopping)
                        site_reserved_stop(b->reserved);
                site_reserved_close(b->reserved);
        }
        site_places_free(b->places);
        free(b);
}

static struct site_member *find_member(const struct site_members *m, struct slice name)
{
        MEMBER_FOREACH(m, it)
        {
                if (slice_eq(slice_str(MEMBER_OF(it)->name), name))
                        return MEMBER_OF(it);
        }
        return NULL;
}

static bool is_own_site(const struct site_member *b)
{
        return slice_eq(slice_str(b->name), slice_str(b->all->spec.options->site));
}

static void leave_member(struct site_member *b)
{
        if (!b->is_gone && !is_own_site(b))
                say_info("work", "a blog is not run any more", "site", b->name);
        b->is_gone = true;
        b->is_reserved = false;
        site_places_tell(b->places, &(struct site_told){0});
        if (b->reserved)
                site_reserved_want(b->reserved, false);
        if (!is_own_site(b) && !b->n_asked && !site_places_running(b->places) &&
            (!b->reserved || !site_reserved_is_there(b->reserved)))
                member_free(b);
}

/* ---- what the server tells ---- */

static void learn_member(struct site_member *b, const struct value *row)
{
        const struct site_told told = {
                .due = value_int(value_get(row, "due"), 0),
                .critical = value_int(value_get(row, "critical"), 0),
                .allowed = value_int(value_get(row, "runners"), 0),
                .survey_ms = value_int(value_get(row, "surveyed_ms"), 0),
        };
        b->is_told = true;
        b->is_gone = false;
        site_blog_learn(&b->blog, row);
        site_places_tell(b->places, &told);
}

static void learn_blog(struct site_members *m, const struct value *row)
{
        struct slice name = value_text(value_get(row, "name"));
        struct site_member *b = find_member(m, name);
        if (!b && (!name.len || name.len > MEMBER_NAME_MAX || m->n == MEMBERS_MAX)) {
                if (!m->is_cut)
                        say_warn("work", "the server tells of blogs that are left out", "site",
                                 m->spec.options->site, "most", SAY_I64(MEMBERS_MAX));
                m->is_cut = true;
                return;
        }
        if (!b) {
                b = member_new(m, name);
                say_info("work", "a blog is run, too", "site", b->name);
        }
        learn_member(b, row);
}

static bool has_missed_hooks(const struct site_member *b)
{
        return b->reserved && site_places_told(b->places)->critical > 0 &&
               !site_reserved_hooks(b->reserved).len;
}

bool site_members_learn(struct site_members *m, const struct value *reply)
{
        const struct value *blogs = value_get(reply, "blogs");
        bool is_list = blogs && blogs->type == VALUE_LIST && blogs->n;
        MEMBER_FOREACH(m, it)
        {
                MEMBER_OF(it)->is_told = false;
                if (!reply)
                        site_places_tell(MEMBER_OF(it)->places, &(struct site_told){0});
        }
        if (!reply)
                return false;
        for (size_t i = 0; is_list && i < blogs->n; i++)
                learn_blog(m, &blogs->items[i]);
        if (!is_list)
                learn_member(find_member(m, slice_str(m->spec.options->site)), reply);
        bool are_hooks_missed = false;
        size_t n = 0;
        MEMBER_FOREACH(m, it)
        {
                if (MEMBER_OF(it)->is_told)
                        n++;
                else
                        leave_member(MEMBER_OF(it));
        }
        MEMBER_FOREACH(m, it)
        {
                MEMBER_OF(it)->blog.is_shared = n > 1;
                are_hooks_missed |= has_missed_hooks(MEMBER_OF(it));
        }
        move_reserved(m);
        return are_hooks_missed;
}

/* ---- runners ---- */

/* A command that is not told which blog runs the main one. */
static bool has_address(struct site_member *b)
{
        bool has = b->blog.url[0] || is_own_site(b) || !b->all->spec.options->command->url_option;
        if (!has && !b->is_address_missed)
                say_warn("work", "the address of the blog is not known, it is not run", "site",
                         b->name);
        b->is_address_missed = !has;
        return has;
}

static int64_t count_wanted(struct site_member *b)
{
        int64_t n = b->is_gone ? 0 : site_places_wants(b->places);
        return n > 0 && has_address(b) ? n : 0;
}

/* The blog whose turn it is; NULL: none wants a runner. */
static struct site_member *next_member(struct site_members *m)
{
        struct site_member *members[MEMBERS_MAX];
        struct turn_blog rows[MEMBERS_MAX];
        size_t n = 0;
        MEMBER_FOREACH(m, it)
        {
                members[n] = MEMBER_OF(it);
                rows[n] = (struct turn_blog){
                        .wants = count_wanted(members[n]),
                        .is_critical = site_places_is_critical(members[n]->places),
                        .last = members[n]->last,
                };
                n++;
        }
        size_t next = turns_next(&m->turns, rows, n);
        return next == TURNS_NONE ? NULL : members[next];
}

static bool start_next(struct site_members *m)
{
        struct site_member *b = next_member(m);
        if (!b)
                return false;
        b->last = ++m->turns.n;
        site_places_start(b->places, b->reserved ? site_reserved_hooks(b->reserved) : SLICE_NONE);
        return true;
}

void site_members_work(struct site_members *m)
{
        while (site_members_running(m) < m->spec.options->runners && start_next(m))
                ;
}

void site_members_start_blindly(struct site_members *m)
{
        MEMBER_FOREACH(m, it)
        site_places_tell(MEMBER_OF(it)->places, &(struct site_told){.due = 1, .allowed = 1});
        (void)start_next(m);
}

/* ---- reserved runners ---- */

static void come_or_leave(struct site_member *b, bool is_wanted)
{
        b->is_reserved = is_wanted;
        if (is_wanted) {
                b->last_reserved = ++b->all->turns.n;
                b->reserved_ns = clock_boot_ns();
        }
        site_reserved_want(b->reserved, is_wanted);
}

static struct turn_reserved reserved_row(const struct site_member *b)
{
        const struct site_told *told = site_places_told(b->places);
        return (struct turn_reserved){
                .has_hooks = !b->is_gone && site_reserved_hooks(b->reserved).len,
                .is_due = told->critical > 0 || site_reserved_has_claim(b->reserved),
                .is_there = b->is_reserved,
                .is_leaving = site_reserved_is_there(b->reserved),
                .stayed_ms = (clock_boot_ns() - b->reserved_ns) / NS_PER_MS,
                .last = b->last_reserved,
        };
}

/* False: there is nothing more to do. */
static bool move_one_reserved(struct site_members *m)
{
        struct site_member *members[MEMBERS_MAX];
        struct turn_reserved rows[MEMBERS_MAX];
        size_t n = 0;
        MEMBER_FOREACH(m, it)
        {
                struct site_member *b = MEMBER_OF(it);
                if (b->is_reserved && !site_reserved_hooks(b->reserved).len)
                        come_or_leave(b, false);
                rows[n] = reserved_row(b);
                members[n++] = b;
        }
        struct turn_move move = turns_reserved(rows, n, m->spec.options->n_reserved);
        if (move.come != TURNS_NONE)
                come_or_leave(members[move.come], true);
        if (move.leave != TURNS_NONE)
                come_or_leave(members[move.leave], false);
        return move.come != TURNS_NONE;
}

static void move_reserved(struct site_members *m)
{
        if (m->spec.options->reserved)
                while (move_one_reserved(m))
                        ;
}

static void take_first(struct site_member *b, const struct value *v)
{
        site_blog_learn(&b->blog, v);
        bool is_off = slice_eq(value_text(value_get(v, "mode")), SLICE_LIT("off"));
        if (is_off)
                site_reserved_set_hooks(b->reserved, NULL);
        else if (value_int(value_get(v, "surveyed_ms"), 0)) /* else it knows none yet */
                site_reserved_set_hooks(b->reserved, value_get(v, "hooks"));
        move_reserved(b->all);
}

static void on_first_told(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct site_member *b = ctx;
        b->n_asked--;
        if (!v || b->all->is_stopping || b->is_gone)
                return;
        /* A blog that has gone is none of the next answer to SITERUN. */
        bool is_gone_there = err == ERR_NOTFOUND && !is_own_site(b);
        if (err != OK && !b->is_first_refused && !is_gone_there)
                say_warn("work", "the server does not tell the critical hooks, asking again",
                         "site", b->name, "reason", p->detail);
        b->is_first_refused = err != OK;
        if (err == OK)
                take_first(b, v); /* else it keeps those it has */
}

void site_members_ask_first(struct site_members *m, struct link *link, int64_t answer_ms)
{
        MEMBER_FOREACH(m, it)
        {
                struct site_member *b = MEMBER_OF(it);
                const struct slice argv[] = {SLICE_LIT("SITEFIRST"), slice_str(b->name)};
                if (!b->reserved || b->is_gone)
                        continue;
                b->n_asked++;
                link_send(link, argv, ARRAY_LEN(argv),
                          (struct link_answer){on_first_told, b, answer_ms});
        }
}

/* ---- the whole ---- */

int64_t site_members_due(const struct site_members *m)
{
        int64_t n = 0;
        MEMBER_FOREACH(m, it)
        n += site_places_told(MEMBER_OF(it)->places)->due;
        return n;
}

size_t site_members_running(const struct site_members *m)
{
        size_t n = 0;
        MEMBER_FOREACH(m, it)
        n += site_places_running(MEMBER_OF(it)->places);
        return n;
}

struct site_tally site_members_tally(const struct site_members *m)
{
        return m->tally;
}

void site_members_stop(struct site_members *m)
{
        m->is_stopping = true;
        MEMBER_FOREACH(m, it)
        {
                site_places_stop(MEMBER_OF(it)->places);
                if (MEMBER_OF(it)->reserved)
                        site_reserved_stop(MEMBER_OF(it)->reserved);
        }
}

void site_members_kill(struct site_members *m)
{
        MEMBER_FOREACH(m, it)
        {
                site_places_kill(MEMBER_OF(it)->places);
                if (MEMBER_OF(it)->reserved)
                        site_reserved_kill(MEMBER_OF(it)->reserved);
        }
}

bool site_members_are_stopped(const struct site_members *m)
{
        MEMBER_FOREACH(m, it)
        {
                const struct site_member *b = MEMBER_OF(it);
                if (site_places_running(b->places) ||
                    (b->reserved && !site_reserved_is_stopped(b->reserved)))
                        return false;
        }
        return true;
}

void site_members_close(struct site_members *m)
{
        MEMBER_FOREACH(m, it)
        member_free(MEMBER_OF(it));
        free(m);
}

struct site_members *site_members_new(const struct site_members_spec *spec)
{
        const struct site_runner_options *o = spec->options;
        struct site_members *m = xcalloc(1, sizeof(*m));
        m->spec = *spec;
        list_init(&m->list);
        struct site_member *own = member_new(m, slice_str(o->site));
        own->blog.is_url_given = o->blog_url != NULL;
        (void)snprintf(own->blog.url, sizeof(own->blog.url), "%s", o->blog_url ? o->blog_url : "");
        return m;
}
