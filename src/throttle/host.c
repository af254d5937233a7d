/* Skipped hosts: settings named "skip:<host>" with an end and no bytes.
 *
 * As settings they are in the log, end by themselves and need no table of their own; there are few
 * of them, so that looking at every setting for a listing costs nothing that matters.  A name
 * that may be one is taken, whether a target has such a host or not: a host may be skipped before
 * the configuration that names it is read, and freno's clients expect no refusal. */
#include "throttle/host.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/duration.h"
#include "base/say.h"
#include "base/shown.h"
#include "state/setting.h"
#include "things/setting.h"
#include "throttle/throttle_state.h"

#define SKIP_LEN   (sizeof(SETTING_SKIP) - 1)
#define FOR_MAX_MS (7 * MS_PER_DAY) /* when the operator says nothing */
#define FOR_MIN_MS 1000
#define NAME_ROOM  (SKIP_LEN + LIMIT_NAME_BYTES + 1)

static bool is_skip(struct slice setting)
{
        return setting.len > SKIP_LEN && setting.len < NAME_ROOM &&
               memcmp(setting.ptr, SETTING_SKIP, SKIP_LEN) == 0;
}

static struct slice host_of(struct slice setting)
{
        return slice_make(setting.ptr + SKIP_LEN, setting.len - SKIP_LEN);
}

/* The host has at most LIMIT_NAME_BYTES, the room NAME_ROOM; a C string is in it afterwards. */
static struct slice setting_name(struct slice host, char *room)
{
        memcpy(room, SETTING_SKIP, SKIP_LEN);
        memcpy(room + SKIP_LEN, host.ptr, host.len);
        room[SKIP_LEN + host.len] = '\0';
        return slice_make(room, SKIP_LEN + host.len);
}

static int by_name(const void *a, const void *b)
{
        const struct setting *const *x = a, *const *y = b;
        return slice_cmp(thing_name(&(*x)->thing), thing_name(&(*y)->thing));
}

/* Those that hold now, in order of names; ret has room for LIMIT_SKIPPED_HOSTS. */
static size_t gather(const struct core *core, const struct setting **ret)
{
        const struct hash *all = &core->state.things[THING_SETTING];
        size_t n = 0;
        for (struct hash_node *it = NULL; n < LIMIT_SKIPPED_HOSTS && (it = hash_next(all, it));) {
                const struct setting *s = CONTAINER_OF(it, const struct setting, thing.node);
                if (is_skip(it->key) && s->until_ns > core->now.steady_ns)
                        ret[n++] = s;
        }
        qsort(ret, n, sizeof(const struct setting *), by_name);
        return n;
}

/* As the wall clock shows it now; it may be set, the end does not move with it. */
static int64_t until_wall_ms(const struct core *core, const struct setting *s)
{
        return core->now.wall_ms + (s->until_ns - core->now.steady_ns) / NS_PER_MS;
}

/* ---- what the doors and the probes call ---- */

bool core_is_host_name(struct slice name)
{
        if (name.len < 1 || name.len > LIMIT_NAME_BYTES || !slice_is_utf8(name))
                return false;
        for (size_t i = 0; i < name.len; i++) {
                const unsigned char *c = (const unsigned char *)name.ptr + i;
                if (c[0] <= ' ' || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0))
                        return false; /* the last: U+0080 to U+009F */
        }
        return true;
}

static int check_host(struct slice host, struct problem *problem)
{
        if (core_is_host_name(host))
                return OK;
        return problem_set(problem, ERR_BADARG,
                           "host must be the name of a replica, its host, host:port or socket, "
                           "1 to %d bytes of UTF-8 without blanks and control characters, not '%s'",
                           LIMIT_NAME_BYTES, SHOWN(host));
}

static int check_room(const struct core *core, struct slice setting, struct problem *problem)
{
        const struct setting *known[LIMIT_SKIPPED_HOSTS];
        if (thing_find(&core->state, THING_SETTING, setting))
                return OK; /* it only ends at another time */
        if (gather(core, known) >= LIMIT_SKIPPED_HOSTS)
                return problem_set(problem, ERR_LIMIT, "%d hosts are skipped already",
                                   LIMIT_SKIPPED_HOSTS);
        return setting_admit(core, problem);
}

int core_skip_host(struct core *core, struct slice host, int64_t for_ms, struct problem *problem)
{
        int64_t max_ms = core->checks.rule_max_ms ? core->checks.rule_max_ms : FOR_MAX_MS;
        char room[NAME_ROOM], most[DURATION_TEXT_MAX];
        int r = check_host(host, problem);
        if (r == OK && for_ms == 0)
                for_ms = SKIP_FOR_DEFAULT_MS < max_ms ? SKIP_FOR_DEFAULT_MS : max_ms;
        if (r == OK && (for_ms < FOR_MIN_MS || for_ms > max_ms))
                r = problem_set(problem, ERR_BADARG,
                                "a host may be skipped for 1s to %s (rule_max), not for %lld ms",
                                duration_text(max_ms, most), (long long)for_ms);
        if (r == OK)
                r = check_room(core, setting_name(host, room), problem);
        if (r == OK)
                r = core_admit(core, host.len + 64, 0, problem);
        if (r != OK)
                return r;
        setting_set(core, setting_name(host, room), core->now.steady_ns + for_ms * NS_PER_MS,
                    SLICE_NONE);
        throttle_tell(core, "host_skipped", "%s for %s", room + SKIP_LEN,
                      duration_words(for_ms, most));
        say_info("gate", "host_skipped", "host", room + SKIP_LEN, "ms", SAY_I64(for_ms));
        return OK;
}

bool core_recover_host(struct core *core, struct slice host)
{
        char room[NAME_ROOM];
        if (!host.len || host.len > LIMIT_NAME_BYTES ||
            !setting_unset(core, setting_name(host, room)))
                return false;
        throttle_tell(core, "host_recovered", "%s: by the operator", room + SKIP_LEN);
        say_info("gate", "host_recovered", "host", room + SKIP_LEN, "by", "operator");
        return true;
}

void core_each_skipped(struct core *core,
                       void (*fn)(void *ctx, struct slice host, int64_t until_wall_ms), void *ctx)
{
        const struct setting *found[LIMIT_SKIPPED_HOSTS];
        size_t n = gather(core, found);
        for (size_t i = 0; i < n; i++)
                fn(ctx, host_of(thing_name(&found[i]->thing)), until_wall_ms(core, found[i]));
}

static void host_setting_ended(struct core *core, struct slice setting)
{
        if (!is_skip(setting))
                return;
        char room[NAME_ROOM];
        (void)setting_name(host_of(setting), room); /* what was set has a name that fits */
        throttle_tell(core, "host_recovered", "%s: its time is over", room + SKIP_LEN);
        say_info("gate", "host_recovered", "host", room + SKIP_LEN, "by", "time");
}

/* ---- commands ---- */

int exec_skiphost(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may steer */
        const struct arg *length = &cmd->arg[P_SKIPHOST_FOR];
        int r = core_skip_host(core, cmd->arg[P_SKIPHOST_HOST].text,
                               length->is_set ? length->num : 0, problem);
        if (r == OK)
                reply_ok(reply);
        return r;
}

int exec_recoverhost(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may steer */
        struct slice host = cmd->arg[P_RECOVERHOST_HOST].text;
        if (!core_recover_host(core, host))
                return problem_set(
                        problem, ERR_NOTFOUND,
                        "'%.*s' is not skipped; the list of skipped hosts has those that are",
                        (int)host.len, host.ptr);
        reply_ok(reply);
        return OK;
}

static void tell_hosts(struct reply *reply, const struct reply_items *items)
{
        const struct setting *const *found = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct setting *s = found[i];
                const struct skipped_host_reply told = {
                        .host = host_of(thing_name(&s->thing)),
                        .until_ms = until_wall_ms(items->core, s),
                        .left_ms = (s->until_ns - items->core->now.steady_ns) / NS_PER_MS,
                };
                reply_skipped_host(reply, &told);
        }
}

int exec_skippedhosts(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        const struct setting *found[LIMIT_SKIPPED_HOSTS];
        size_t n = gather(core, found);
        const struct skipped_hosts_reply told = {{n, tell_hosts, core, found}};
        reply_skipped_hosts(reply, &told);
        return OK;
}

const struct feature hosts_feature = {.name = "skipped hosts", .setting_ended = host_setting_ended};
