/* CLUSTER, HANDOVER and CLUSTERVERIFY: the machines that share the log (log/log.h). */
#include <stdio.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "core/kernel.h"
#include "log/member.h"

/* A machine that was not heard of for so long is called gone. */
#define GONE_MS 10000

struct members {
        struct log_member all[LOG_MEMBERS_MAX];
        size_t n;
};

/* 16 hexadecimal digits; "": it has told none. */
static void digest_text(const struct log_member *m, char ret[17])
{
        ret[0] = '\0';
        if (m->digest_seq)
                (void)snprintf(ret, 17, "%016llx", (unsigned long long)m->digest);
}

static void put_members(struct reply *reply, const struct reply_items *items)
{
        static const char *const states[] = {
                [MEMBER_UNKNOWN] = "unknown", [MEMBER_SAME] = "same", [MEMBER_DIFFERS] = "differs"};
        const struct members *m = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct log_member *one = &m->all[i];
                char digest[17];
                digest_text(one, digest);
                const struct cluster_member_reply told = {
                        .node = one->node,
                        .address = one->address,
                        .role = one->is_leader           ? "leader"
                                : one->seen_ms > GONE_MS ? "gone"
                                                         : "follower",
                        .priority = one->priority,
                        .seen_ms = one->seen_ms,
                        .epoch = (int64_t)one->epoch,
                        .seq = (int64_t)one->seq,
                        .state = states[member_state(one, m->all, m->n)],
                        .digest = digest,
                        .digest_seq = (int64_t)one->digest_seq,
                };
                reply_cluster_member(reply, &told);
        }
}

int exec_cluster(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session;
        (void)cmd;
        (void)problem; /* it cannot fail */
        struct members m;
        m.n = core_members(core, m.all, ARRAY_LEN(m.all));
        struct cluster_reply told = {.node = "",
                                     .role = core_is_following(core) ? "follower" : "leader",
                                     .leader = "",
                                     .seq = (int64_t)core_durable_seq(core),
                                     .members = {m.n, put_members, core, &m}};
        for (size_t i = 0; i < m.n; i++) {
                if (m.all[i].is_self)
                        told.node = m.all[i].node;
                if (m.all[i].is_leader)
                        told.leader = m.all[i].node;
        }
        reply_cluster(reply, &told);
        return OK;
}

int exec_handover(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session;
        struct log *log = core->options.log;
        const struct arg *node = &cmd->arg[P_HANDOVER_NODE];
        if (!log->ops->hand_over)
                return problem_set(problem, ERR_STATE, "this weir is alone: it has no cluster");
        struct slice to = node->is_set ? node->text : SLICE_NONE;
        int r = log->ops->hand_over(log, to, true, problem);
        if (r != OK)
                return r;
        core_hand_over(core, to);
        reply_ok(reply);
        return OK;
}

int exec_clusterverify(struct core *core, struct session *session, const struct command *cmd,
                       struct reply *reply, struct problem *problem)
{
        (void)session;
        (void)cmd;
        if (!core_can_verify(core))
                return problem_set(problem, ERR_STATE, "this weir is alone: it has no cluster");
        const struct cluster_verify_reply told = {.seq = (int64_t)core_verify(core)};
        reply_cluster_verify(reply, &told);
        return OK;
}
