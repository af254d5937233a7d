/* See audit.h.
 *
 * Numbers go on from the newest entry of the log and of the archive.  So the newest entry stays in
 * the log, although the archive has it, until there is a newer one.
 *
 * While the archive cannot write, entries wait in the log, LIMIT_AUDIT_WAITING of them.  On a full
 * disk they are short, and take no more than TIGHT_BYTES beyond what was there: a command that is
 * always done must not fail for its entry.  Beyond either the oldest goes, which is counted and
 * told. */
#include "core/audit.h"

#include <stdlib.h>

#include "api/access.h"
#include "base/needle.h"
#include "base/say.h"
#include "base/shown.h"
#include "core/audit_int.h"

#define TIGHT_WHAT_BYTES 256
#define MINUTE_MS        (60 * MS_PER_S)
#define LOOK_MS          1000 /* a wall clock may jump */

struct group {
        struct hash_node node;
        uint64_t number; /* of its entry; 0: not written yet */
        uint64_t times, written;
        char key[];
};

struct audits {
        uint64_t last;      /* the largest number given */
        size_t n_waiting;   /* entries that are neither open nor handed over */
        uint64_t first_seq; /* of the first batch that holds one of them, or earlier */
        uint64_t tight_bytes;
        struct hash groups;
        int64_t minute; /* of all groups */
        audit_sink sink;
        void *sink_ctx;
        bool is_begun;
};

/* ---- entries ---- */

struct slice audit_cut(struct slice s, size_t max, struct buf *room)
{
        if (s.len <= max)
                return s;
        buf_clear(room);
        buf_put_slice(room, slice_make(s.ptr, shown_len(s, max - strlen(SHOWN_DOTS))));
        buf_put_str(room, SHOWN_DOTS);
        return buf_slice(room);
}

static struct audit *find(const struct core *core, uint64_t number)
{
        char name[AUDIT_NUMBER_BYTES];
        struct thing *t = thing_find(&core->state, THING_AUDIT, audit_name(number, name));
        return t ? audit_of(t) : NULL;
}

static struct audit *newest(const struct core *core)
{
        const struct list *all = &core->state.audits;
        return list_is_empty(all) ? NULL : audit_of_link(all->prev);
}

/* It is complete.  The one before it need not stay any longer for its number. */
static void note_waiting(struct core *core, const struct audit *a)
{
        struct audits *audits = core->audits;
        struct audit *before =
                a->link.prev == &core->state.audits ? NULL : audit_of_link(a->link.prev);
        if (before && before->is_stored)
                thing_gone(core, &before->thing);
        if (!audits->n_waiting++ || a->thing.live.seq < audits->first_seq)
                audits->first_seq = a->thing.live.seq;
}

static bool is_waiting(const struct audit *a)
{
        return !a->is_open && !a->is_handed;
}

/* Only when there is a newer one: its number must be known. */
static void let_go(struct core *core, struct audit *a)
{
        a->is_stored = true;
        if (a != newest(core))
                thing_gone(core, &a->thing);
}

static bool drop_oldest(struct core *core)
{
        LIST_FOREACH(&core->state.audits, it)
        {
                struct audit *a = audit_of_link(it);
                if (a->is_open || a == newest(core))
                        continue;
                core->audits->n_waiting -= is_waiting(a);
                thing_gone(core, &a->thing);
                uint64_t n = ++core->totals.audit_dropped;
                if ((n & (n - 1)) == 0)
                        say_warn("audit",
                                 "history cannot take entries of the audit trail; the oldest are "
                                 "dropped",
                                 "dropped", SAY_I64(n));
                return true;
        }
        return false;
}

/* One more came, of so many bytes. */
static void make_room(struct core *core, size_t bytes)
{
        struct audits *a = core->audits;
        if (core->state.n_audits > LIMIT_AUDIT_WAITING)
                (void)drop_oldest(core); /* all are open: each belongs to a client that waits */
        if (!core->log_stat.is_disk_full) {
                a->tight_bytes = 0;
                return;
        }
        a->tight_bytes += bytes;
        if (a->tight_bytes > CORE_AUDIT_BYTES(core->options.log_slack_bytes))
                (void)drop_oldest(core);
}

static uint64_t next_number(struct core *core)
{
        struct audits *a = core->audits;
        const struct audit *n = newest(core);
        if (n && n->is.number > a->last)
                a->last = n->is.number;
        if (core->options.archive && core->options.archive->last_audit > a->last)
                a->last = core->options.archive->last_audit;
        return ++a->last;
}

/* False: the log takes no more. */
static bool write_entry(struct core *core, const struct audit_entry *e)
{
        char name[AUDIT_NUMBER_BYTES];
        struct problem ignored;
        buf_clear(&core->body);
        audit_entry_put(e, &core->body);
        return thing_try_set(core, THING_AUDIT, audit_name(e->number, name), buf_slice(&core->body),
                             &ignored) == OK;
}

/* Cut to what is kept, whoever gave it. */
static struct audit *add(struct core *core, const struct audit_entry *from)
{
        bool is_tight = core->log_stat.is_disk_full;
        struct buf what CLEANUP(buf_release) = {0}, reason CLEANUP(buf_release) = {0};
        struct audit_entry e = *from;
        e.at_ms = core->now.wall_ms > 0 ? core->now.wall_ms : 0;
        e.times = e.times ? e.times : 1;
        e.what = audit_cut(e.what, is_tight ? TIGHT_WHAT_BYTES : AUDIT_WHAT_BYTES, &what);
        e.reason = audit_cut(e.reason, is_tight ? TIGHT_WHAT_BYTES : AUDIT_REASON_BYTES, &reason);
        if (is_tight || e.before.len > AUDIT_CHANGE_BYTES)
                e.before = SLICE_NONE;
        if (is_tight || e.after.len > AUDIT_CHANGE_BYTES)
                e.after = SLICE_NONE;
        e.number = next_number(core);
        if (!write_entry(core, &e)) {
                core->totals.audit_dropped++;
                return NULL;
        }
        struct audit *a = find(core, e.number);
        ASSERT(a); /* it was written just now */
        make_room(core, a->thing.weight);
        return a;
}

void core_audit(struct core *core, const struct audit_entry *e)
{
        if (core->is_following)
                return; /* what is not in the log is in no trail */
        const struct audit *a = add(core, e);
        if (a)
                note_waiting(core, a);
}

uint64_t audit_open(struct core *core, const struct audit_entry *e)
{
        struct audit *a = add(core, e);
        if (!a)
                return 0;
        a->is_open = true;
        return a->is.number;
}

void audit_close(struct core *core, uint64_t number, const struct slice *before,
                 const struct slice *after)
{
        struct audit *a = number ? find(core, number) : NULL;
        if (!a)
                return;
        struct audit_entry e = a->is;
        bool is_tight = core->log_stat.is_disk_full;
        e.before = before && !is_tight && before->len <= AUDIT_CHANGE_BYTES ? *before : e.before;
        e.after = after && !is_tight && after->len <= AUDIT_CHANGE_BYTES ? *after : e.after;
        if (e.before.len || e.after.len)
                (void)write_entry(core, &e); /* else it stays as it is */
        a->is_open = false;
        note_waiting(core, a);
}

void audit_forget(struct core *core, uint64_t number)
{
        struct audit *a = number ? find(core, number) : NULL;
        if (a)
                thing_gone(core, &a->thing);
}

/* ---- what is counted ---- */

static void put_key(struct buf *b, const struct audit_entry *e)
{
        const struct slice parts[] = {e->who, e->address, e->door, e->command};
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
                buf_put_lv(b, parts[i]);
}

/* NULL: there are enough; others have one in any case. */
static struct group *group_of(struct audits *audits, const struct audit_entry *e, bool is_others)
{
        struct buf key CLEANUP(buf_release) = {0};
        put_key(&key, e);
        struct hash_node *n = hash_find(&audits->groups, buf_slice(&key));
        if (n)
                return CONTAINER_OF(n, struct group, node);
        if (audits->groups.len >= AUDIT_GROUPS_MAX && !is_others)
                return NULL;
        struct group *g = xcalloc(1, sizeof(*g) + key.len);
        memcpy(g->key, key.ptr, key.len);
        hash_insert(&audits->groups, &g->node, slice_make(g->key, key.len));
        return g;
}

static void write_count(struct core *core, const struct group *g)
{
        struct audit *a = find(core, g->number);
        if (!a || a->is.times == g->times)
                return;
        struct audit_entry e = a->is;
        e.times = g->times;
        (void)write_entry(core, &e); /* the count before this one stays */
}

static void close_groups(struct core *core)
{
        HASH_DRAIN(&core->audits->groups, n)
        {
                struct group *g = CONTAINER_OF(n, struct group, node);
                write_count(core, g);
                audit_close(core, g->number, NULL, NULL);
                if (!g->number)
                        core->totals.audit_dropped++;
                hash_remove(&core->audits->groups, n);
                free(g);
        }
}

static int64_t minute_of(const struct core *core)
{
        return core->now.wall_ms / MINUTE_MS;
}

/* Nothing here must be done: while the log takes nothing it waits. */
static bool may_write(const struct core *core)
{
        return !core->log_stat.is_disk_full && !core_is_congested(core);
}

void core_audit_count(struct core *core, const struct audit_entry *e)
{
        static const struct audit_entry others = {
                .who = SLICE_LIT("others"),
                .command = SLICE_LIT("OTHERS"),
                .what = SLICE_LIT("wrong tokens and refused commands of other clients"),
        };
        struct audits *audits = core->audits;
        if (core->is_following)
                return;
        if (audits->groups.len && audits->minute != minute_of(core))
                close_groups(core);
        audits->minute = minute_of(core);
        struct group *g = group_of(audits, e, false);
        if (!g) {
                e = &others;
                g = group_of(audits, e, true);
                ASSERT(g); /* it is always made */
        }
        g->times++;
        if (!may_write(core) || (g->number && (g->times & (g->times - 1)) != 0))
                return;
        struct audit_entry first = *e;
        first.times = g->times;
        if (g->number)
                write_count(core, g);
        else
                g->number = audit_open(core, &first);
}

void core_audit_login(struct core *core, const struct session *s)
{
        const struct audit_entry e = {
                .who = SLICE_LIT("nobody"),
                .address = slice_str(s->address),
                .door = slice_str(session_door_name(s)),
                .command = SLICE_LIT("AUTH"),
                .what = SLICE_LIT("wrong access token"),
        };
        core_audit_count(core, &e);
}

void core_audit_refused(struct core *core, const struct session *s, const char *what,
                        const struct problem *problem)
{
        struct audit_entry e = {0};
        char role[ROLE_TEXT_BYTES];
        if (!s->grant || !s->grant->roles || problem->err != ERR_FORBIDDEN)
                return;
        audit_by(s, role, &e);
        e.command = slice_str(what);
        struct buf text CLEANUP(buf_release) = {0};
        buf_printf(&text, "refused: %s", problem->detail);
        e.what = buf_slice(&text);
        core_audit_count(core, &e);
}

/* ---- to the archive ---- */

bool archive_audits_want(const struct archive_audits *q, const struct audit_entry *e)
{
        if (e->number >= q->before || e->at_ms < q->since_ms ||
            (q->until_ms && e->at_ms >= q->until_ms) || (q->who.len && !slice_eq(q->who, e->who)) ||
            (q->command.len && !slice_eq_nocase(q->command, e->command)))
                return false;
        const struct slice texts[] = {e->what,    e->who,   e->role,   e->address, e->door,
                                      e->command, e->after, e->before, e->reason};
        struct needle needle = needle_make(q->match);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                if (needle_is_in(&needle, texts[i]))
                        return true;
        return false;
}

void core_set_audit_sink(struct core *core, audit_sink sink, void *ctx)
{
        core->audits->sink = sink;
        core->audits->sink_ctx = ctx;
}

static void on_audited(void *ctx, uint64_t number)
{
        struct core *core = ctx;
        struct audit *a = find(core, number);
        if (a && a->is_handed)
                let_go(core, a);
}

static void hand_over(struct core *core, struct audit *a)
{
        struct audits *audits = core->audits;
        struct archive *archive = core->options.archive;
        a->is_handed = true;
        audits->n_waiting--;
        /* The newest of the last run was told then, and stays only for its number. */
        bool is_told = !audits->is_begun && archive && a->is.number == archive->last_audit;
        if (audits->sink && !is_told)
                audits->sink(audits->sink_ctx, &a->is);
        if (archive && archive->ops->audit)
                archive->ops->audit(archive, &a->is);
        else
                let_go(core, a);
}

/* All that is durable; the archive must not know of what a crash can still undo. */
static void hand_over_all(struct core *core)
{
        struct audits *audits = core->audits;
        audits->first_seq = UINT64_MAX;
        LIST_FOREACH(&core->state.audits, it)
        {
                struct audit *a = audit_of_link(it);
                uint64_t seq = a->thing.live.seq;
                if (!is_waiting(a))
                        continue;
                if (seq <= core->durable_seq)
                        hand_over(core, a);
                else if (seq < audits->first_seq)
                        audits->first_seq = seq;
        }
}

static void begin(struct core *core)
{
        core->audits->n_waiting = core->state.n_audits;
        if (core->audits->n_waiting)
                hand_over_all(core);
        core->audits->is_begun = true;
}

static bool is_minute_over(const struct core *core)
{
        return core->audits->groups.len && core->audits->minute != minute_of(core);
}

static void turn(struct core *core)
{
        const struct audits *a = core->audits;
        if (!a->is_begun)
                begin(core);
        if (is_minute_over(core))
                close_groups(core);
        if (a->n_waiting && a->first_seq <= core->durable_seq)
                hand_over_all(core);
}

static int64_t next_ns(const struct core *core)
{
        const struct audits *a = core->audits;
        if (a->n_waiting && a->first_seq <= core->durable_seq)
                return core->now.steady_ns;
        return a->groups.len ? core->now.steady_ns + LOOK_MS * NS_PER_MS : INT64_MAX;
}

static void settle(struct core *core)
{
        if (core->is_stopping && core->audits->groups.len)
                close_groups(core);
}

static void init(struct core *core)
{
        core->audits = xcalloc(1, sizeof(*core->audits));
        hash_init(&core->audits->groups, core->state.queues.seed);
        if (core->options.archive) {
                core->options.archive->audited = on_audited;
                core->options.archive->audited_ctx = core;
        }
}

static void release(struct core *core)
{
        HASH_DRAIN(&core->audits->groups, n)
        {
                hash_remove(&core->audits->groups, n);
                free(CONTAINER_OF(n, struct group, node));
        }
        hash_release(&core->audits->groups);
        free(core->audits);
        core->audits = NULL;
}

static void check(const struct core *core)
{
        size_t n_waiting = 0;
        uint64_t last = 0;
        for (struct list *it = core->state.audits.next; it != &core->state.audits; it = it->next) {
                const struct audit *a = audit_of_link(it);
                ASSERT(a->is.number > last);
                last = a->is.number;
                n_waiting += is_waiting(a);
        }
        ASSERT(!core->audits->is_begun || n_waiting == core->audits->n_waiting);
}

const struct feature audits_feature = {.name = "audit trail",
                                       .init = init,
                                       .release = release,
                                       .turn = turn,
                                       .next_ns = next_ns,
                                       .settle = settle,
                                       .check = check};

void audit_due(struct core *core, struct thing *t)
{
        (void)core; /* it has no alarm */
        (void)t;
}
