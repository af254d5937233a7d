/* weir cluster: the machines that share a log, who of them leads, and whether all have the same
 * state.
 *
 * `verify` asks the leader to begin, and then looks at the members until each has told its digest
 * of the same batch as the leader.  Each machine tells it once a second at most. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/listing.h"
#include "cli/text.h"

#define VERIFY_MS      60000
#define VERIFY_LOOK_MS 200

static void put_seen(struct buf *b, const struct value *member, int64_t now_ms)
{
        (void)now_ms; /* it is told as an age */
        buf_printf(b, "%.1f s ago", (double)field_int(member, "seen_ms") / 1000);
}

static enum tone role_tone(const struct value *member)
{
        if (field_is(member, "role", "leader"))
                return TONE_GREEN;
        return field_is(member, "role", "gone") ? TONE_RED : TONE_PLAIN;
}

static const struct column columns[] = {
        {"NODE", .key = "node", .may_shrink = true},
        {"ROLE", .key = "role", .tone_of = role_tone},
        {"ADDRESS", .key = "address", .may_shrink = true},
        {"PRIORITY", .key = "priority", .as = AS_INT},
        {"EPOCH", .key = "epoch", .as = AS_INT},
        {"BATCH", .key = "seq", .as = AS_INT},
        {"SEEN", .put = put_seen, .is_right = true},
};

static void put_leader(struct buf *notes, const struct value *page)
{
        struct slice leader = field_text(page, "leader");
        if (!leader.len && !field_is(page, "role", "leader"))
                buf_put_str(notes, "nobody leads\n");
}

static const struct listing listing = {
        .key = "members",
        .empty = "this weir is alone: its configuration has no cluster section\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .after = put_leader,
};

static enum tone state_tone(const struct value *member)
{
        if (field_is(member, "state", "same"))
                return TONE_GREEN;
        return field_is(member, "state", "differs") ? TONE_RED : TONE_YELLOW;
}

static const struct column member_columns[] = {
        {"NODE", .key = "node", .may_shrink = true},
        {"ROLE", .key = "role", .tone_of = role_tone},
        {"ADDRESS", .key = "address", .may_shrink = true},
        {"PRIORITY", .key = "priority", .as = AS_INT},
        {"STATE", .key = "state", .tone_of = state_tone},
        {"VERIFIED", .key = "digest_seq", .as = AS_INT},
        {"DIGEST", .key = "digest"},
};

static const struct listing member_listing = {
        .key = "members",
        .empty = "this weir is alone: its configuration has no cluster section\n",
        .columns = member_columns,
        .n_columns = ARRAY_LEN(member_columns),
};

/* ---- verify ---- */

static void pause_for(int64_t ms)
{
        struct timespec t = {.tv_sec = ms / MS_PER_S, .tv_nsec = ms % MS_PER_S * NS_PER_MS};
        (void)nanosleep(&t, NULL); /* cut short by a signal: it looks earlier then */
}

/* Has it told a digest that was made since, the same one as the leader or another? */
static bool is_compared(const struct value *member, int64_t since)
{
        return field_int(member, "digest_seq") >= since && !field_is(member, "state", "unknown");
}

/* What is gone is not waited for. */
static bool is_all_compared(const struct value *members, int64_t since)
{
        bool has_leader = false;
        for (size_t i = 0; i < list_len(members); i++) {
                const struct value *m = &members->items[i];
                has_leader |= field_is(m, "role", "leader");
                if (!field_is(m, "role", "gone") && !is_compared(m, since))
                        return false;
        }
        return has_leader;
}

/* "b, c": those that differ, or those that were not compared. */
static size_t put_nodes(struct buf *b, const struct value *members, bool is_differing,
                        int64_t since)
{
        size_t n = 0;
        for (size_t i = 0; i < list_len(members); i++) {
                const struct value *m = &members->items[i];
                bool is_told = is_compared(m, since);
                if (is_differing ? !is_told || !field_is(m, "state", "differs") : is_told)
                        continue;
                buf_put_str(b, n++ ? ", " : "");
                text_put_safe(b, field_text(m, "node"));
                if (field_is(m, "role", "gone"))
                        buf_put_str(b, " (gone)");
        }
        return n;
}

static int judge(const struct value *members, int64_t since, struct problem *p)
{
        struct buf nodes;
        int r = OK;
        buf_init(&nodes, 0);
        if (put_nodes(&nodes, members, true, since))
                r = problem_set(p, ERR_CORRUPT, "not the state that the leader has: %s",
                                buf_cstr(&nodes));
        else if (put_nodes(&nodes, members, false, since))
                r = problem_set(p, ERR_TIMEOUT, "not compared, no digest came in time: %s",
                                buf_cstr(&nodes));
        buf_release(&nodes);
        return r;
}

static int ask(struct cli *cli, const char *command, const struct value **ret, struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, command);
        return cli_request_call(cli, &req, ret, p);
}

static int run_verify(struct cli *cli, struct problem *p)
{
        const struct value *v, *members;
        const char *timeout = args_get(&cli->args, "timeout");
        int64_t ms = VERIFY_MS, began_ns = clock_boot_ns();
        int r = timeout ? duration_parse("--timeout", timeout, &ms, p) : OK;
        if (r == OK)
                r = ask(cli, "CLUSTERVERIFY", &v, p);
        if (r != OK)
                return r;
        int64_t since = field_int(v, "seq");
        for (;;) {
                r = ask(cli, "CLUSTER", &v, p);
                if (r != OK)
                        return r;
                members = value_get(v, "members");
                if (is_all_compared(members, since) ||
                    (clock_boot_ns() - began_ns) / NS_PER_MS >= ms)
                        break;
                pause_for(VERIFY_LOOK_MS);
        }
        if (cli->is_json)
                cli_put_json(cli, v);
        else
                table_print_rows(&cli->screen, &cli->out, member_columns, ARRAY_LEN(member_columns),
                                 members);
        return judge(members, since, p);
}

static const struct option_def verify_options[] = {
        {"timeout", "DURATION", "how long to wait for all machines (default 60s)"},
        {NULL, NULL, NULL},
};

static void show_handed_over(struct cli *cli, const struct value *v)
{
        (void)v; /* OK */
        buf_put_str(&cli->out, "handed over\n");
}

const struct option_def cli_cluster_init_options[] = {
        {"config", "FILE", "the configuration of weir, which has the cluster; also -c"},
        {"user", "NAME", "connect as this user, who may make tables; else as weir itself"},
        {"password-file", "FILE", "the password of that user"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"status", "", "Show who leads and how far each machine is.",
         "Every machine of the cluster answers, also while nobody leads. BATCH is the last one\n"
         "that a machine has.\n\n"
         "  weir cluster status\n"
         "  weir cluster status --watch\n",
         .command = "CLUSTER", .listing = &listing},
        {"members", "", "List the machines, and whether their state was the same.",
         "STATE is that of the last comparison with the leader, which a leader makes each hour\n"
         "and 'weir cluster verify' at once; VERIFIED is the batch in which it ended.\n\n"
         "  weir cluster members\n"
         "  weir cluster members --json\n",
         .command = "CLUSTER", .listing = &member_listing},
        {"verify", "", "Compare the state of all machines.",
         "Each machine makes a digest of its whole state at the same places of the log. The exit\n"
         "status is 0 when all are the same, 9 when one differs from the leader, and 7 when one\n"
         "did not tell in time.\n\n"
         "  weir cluster verify\n"
         "  weir cluster verify --timeout 5m\n",
         .options = verify_options, .run = run_verify},
        {"hand-over", "[NODE]", "Let another machine lead.",
         "Without NODE the one with the highest priority that is up to date. Connections are\n"
         "closed when it leads; clients connect again and go on.\n\n"
         "  weir cluster hand-over b\n",
         .command = "HANDOVER", .show = show_handed_over},
        {"init", "-c FILE [options]", "Make the tables of a cluster, and print its grants.",
         "May be run again at any time: it changes only what is missing.\n\n"
         "  weir cluster init -c /etc/weir/weir.conf --user postgres\n",
         .options = cli_cluster_init_options},
};

const struct cli_group cli_group_cluster = {"cluster",
                                            "Show, change and compare the machines of a cluster.",
                                            commands, ARRAY_LEN(commands)};
