/* What the answers mean for the model, and what they must not say.
 *
 * Every rule here is a promise of the protocol: a fence is used once and grows over restarts, a
 * job whose completion was acknowledged is never granted again, a live lease is neither refused
 * nor given to a second holder, a payload comes back byte for byte. */
#include "ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void over(uint64_t nonce, uint8_t may)
{
        if (!jobs[nonce].over_us && n_open)
                n_open--;
        job_settle(nonce, may);
}

static bool is_refused(const struct node *n)
{
        return n->type == '-';
}

/* The grant's row, field by field, against the job that was sent. */
static uint64_t check_row(const struct reply_tree *t, size_t at, const struct node **f)
{
        size_t i = at + 1, k = 0;
        for (; k < 12 && i < t->nodes[at].next; k++) {
                f[k] = &t->nodes[i];
                i = t->nodes[i].next;
        }
        if (k < 12 || f[1]->len != TOKEN_CHARS) {
                complain(WRONG, "a row of a claim has %zu fields", k);
                return 0;
        }
        uint64_t nonce = payload_nonce(f[3]->ptr, f[3]->len);
        if (!nonce) {
                complain(INVENTED, "job %" PRIu64 " has args nobody sent: %.*s", node_u64(f[0]),
                         (int)(f[3]->len < 60 ? f[3]->len : 60), f[3]->ptr);
                return 0;
        }
        const struct told_job *j = &jobs[nonce];
        char hook[16];
        (void)snprintf(hook, sizeof(hook), "hook%u", (unsigned)(nonce % 7));
        if (!node_is(f[2], hook) || !node_is(f[5], queue_names[j->queue]) ||
            node_u64(f[7]) != j->priority || node_u64(f[8]) != j->attempts)
                complain(WRONG, "job n=%" PRIu64 " changed its hook, queue, priority or attempts",
                         nonce);
        return nonce;
}

uint64_t answer_grant(const struct reply_tree *t, size_t at, uint32_t claim)
{
        const struct node *f[12];
        uint64_t nonce = check_row(t, at, f);
        if (!nonce)
                return 0;
        const struct told_claim *k = &claims[claim];
        struct told_job *j = &jobs[nonce];
        uint64_t fence = node_u64(f[9]);
        int64_t now = steady_us();
        job_touch(nonce);
        if (j->may == MAY_NOT_EXIST)
                complain(INVENTED, "job n=%" PRIu64 " was not there and is granted now", nonce);
        job_set_id(nonce, node_u64(f[0]));
        if (!(k->queues & (1 << j->queue)))
                complain(WRONG, "job n=%" PRIu64 " came from a queue not asked for", nonce);
        if (k->side_is_paused && j->queue == QUEUE_SIDE && side.resume_us < k->sent_us)
                complain(WRONG, "job n=%" PRIu64 " was granted from a paused queue", nonce);
        if (!fence_is_new(fence) || fence <= fence_floor)
                complain(DOUBLED,
                         "fence %" PRIu64 " of n=%" PRIu64 " did not grow (floor %" PRIu64 ")",
                         fence, nonce, fence_floor);
        if (j->done_fence && fence > j->done_fence)
                complain(DOUBLED, "n=%" PRIu64 " was acknowledged complete and is granted again",
                         nonce);
        if (j->over_us && j->over_us < k->sent_us)
                complain(DOUBLED, "n=%" PRIu64 " was over (%d) and is granted again", nonce,
                         j->may);
        if (fence < j->fence)
                return 0; /* Read late: a newer grant is known already. */
        if (j->fence && !j->is_given_up && now < j->lease_end_us)
                complain(DOUBLED,
                         "n=%" PRIu64 " has two leases: fence %" PRIu64 " ends in %" PRId64
                         " us, now fence %" PRIu64,
                         nonce, j->fence, j->lease_end_us - now, fence);
        j->fence = fence;
        j->claim = claim;
        j->attempt = (uint16_t)node_u64(f[4]);
        if (j->attempt < 1 || j->attempt > j->attempts)
                complain(WRONG, "n=%" PRIu64 " is at attempt %d of %d", nonce, j->attempt,
                         j->attempts);
        j->lease_end_us = k->sent_us + k->lease_ms * 1000LL;
        j->is_given_up = false;
        j->has_token = true;
        memcpy(j->token, f[1]->ptr, TOKEN_CHARS);
        j->may = MAY_RUN | (j->is_cancel_sent ? MAY_CANCEL : 0);
        tally.acked++;
        return nonce;
}

static void take_grants(struct conn *c, uint32_t claim, const struct reply_tree *tree)
{
        const struct node *answer = &tree->nodes[0];
        claims[claim].fate = CLAIM_ANSWERED;
        if (is_refused(answer)) {
                complain(WRONG, "CLAIM was refused: %.*s", (int)answer->len, answer->ptr);
                return;
        }
        tally.acked += answer->type == 0 || answer->num == 0;
        if (answer->type == '*' && answer->num > claims[claim].max)
                complain(WRONG, "CLAIM MAX %d gave %" PRId64 " jobs", claims[claim].max,
                         answer->num);
        for (size_t i = 1; answer->type == '*' && i < answer->next; i = tree->nodes[i].next) {
                uint64_t nonce = answer_grant(tree, i, claim);
                if (nonce)
                        conn_hold(c, nonce);
        }
}

/* A holder's request was refused: right only when its lease may have ended or a cancel was sent. */
static void take_refusal(const struct op *op, const struct node *answer)
{
        struct told_job *j = &jobs[op->nonce];
        if (steady_us() < j->lease_end_us && !j->is_cancel_sent && j->fence == op->fence &&
            !(op->may_before & MAY_BE_OVER))
                complain(LOST, "the live lease of n=%" PRIu64 " was refused: %.*s", op->nonce,
                         (int)answer->len, answer->ptr);
        if (j->fence == op->fence)
                j->may = op->may_before | (j->may & MAY_CANCEL);
}

void answer_complete(const struct op *op, const struct node *answer)
{
        struct told_job *j = &jobs[op->nonce];
        if (is_refused(answer)) {
                take_refusal(op, answer);
                return;
        }
        if (op->fence != j->fence)
                complain(DOUBLED,
                         "n=%" PRIu64 " was completed under fence %" PRIu64 " though %" PRIu64
                         " was granted",
                         op->nonce, op->fence, j->fence);
        if (j->may == MAY_CANCEL)
                complain(DOUBLED, "n=%" PRIu64 " was canceled and completed", op->nonce);
        j->done_fence = op->fence;
        over(op->nonce, MAY_COMPLETE);
        tally.acked++;
}

static void take_enqueued(uint64_t nonce, const struct node *answer)
{
        struct told_job *j = &jobs[nonce];
        if (answer->type != ':' || answer->num <= 0) {
                complain(WRONG, "ENQUEUE was answered with %.*s", (int)answer->len, answer->ptr);
                return;
        }
        job_set_id(nonce, (uint64_t)answer->num);
        j->is_acked = true;
        j->may &= (uint8_t)~MAY_NOT_EXIST;
        n_open++;
        tally.acked++;
}

static void take_enqueued_many(const struct op *op, const struct reply_tree *tree)
{
        const struct node *answer = &tree->nodes[0];
        if (answer->type != '*' || answer->num != op->n) {
                complain(WRONG, "ENQUEUEMANY of %u was answered with %.*s", op->n, (int)answer->len,
                         answer->ptr);
                return;
        }
        size_t i = 1;
        for (uint64_t k = 0; k < op->n; k++, i = tree->nodes[i].next)
                take_enqueued(op->nonce + k, &tree->nodes[i]);
}

static void take_cancel(const struct op *op, const struct node *answer)
{
        struct told_job *j = &jobs[op->nonce];
        if (is_refused(answer)) {
                j->is_cancel_sent = false;
                j->may &= (uint8_t)~MAY_CANCEL;
                if (!j->may)
                        complain(LOST, "n=%" PRIu64 " can be in no state: %.*s", op->nonce,
                                 (int)answer->len, answer->ptr);
                return;
        }
        if (j->done_fence)
                complain(DOUBLED, "n=%" PRIu64 " was completed and canceled", op->nonce);
        j->is_given_up = true;
        over(op->nonce, MAY_CANCEL);
        tally.acked++;
}

static void take_holder(const struct op *op, const struct node *answer)
{
        struct told_job *j = &jobs[op->nonce];
        if (is_refused(answer)) {
                take_refusal(op, answer);
                return;
        }
        tally.acked++;
        if (op->fence != j->fence)
                return; /* It has moved on since. */
        uint8_t cancel = j->is_cancel_sent ? MAY_CANCEL : 0;
        if (op->type == OP_EXTEND)
                j->lease_end_us = op->sent_us + op->n * 1000LL;
        if (op->type == OP_RELEASE && !j->over_us)
                j->may = MAY_PENDING | cancel;
        if (op->type == OP_FAIL && !j->over_us) {
                if (may_after_fail(j) == MAY_FAIL)
                        over(op->nonce, MAY_FAIL);
                else
                        j->may = MAY_PENDING | cancel;
        }
}

static void take_job(const struct op *op, const struct reply_tree *tree)
{
        const struct told_job *j = &jobs[op->nonce];
        const struct node *answer = &tree->nodes[0], *status = tree_get(tree, 0, "status");
        tally.checked++;
        if (is_refused(answer) || !status)
                complain(LOST, "n=%" PRIu64 " (id %" PRIu64 ") was complete and is gone: %.*s",
                         op->nonce, j->id, (int)answer->len, answer->ptr);
        else if (!node_is(status, "complete"))
                complain(LOST, "n=%" PRIu64 " was complete and is %.*s", op->nonce,
                         (int)status->len, status->ptr);
}

void answer_take(struct conn *c, const struct op *op, const struct reply_tree *tree)
{
        const struct node *answer = &tree->nodes[0];
        switch (op->type) {
        case OP_ENQUEUE:
                take_enqueued(op->nonce, answer);
                break;
        case OP_ENQUEUE_MANY:
                take_enqueued_many(op, tree);
                break;
        case OP_CLAIM:
                take_grants(c, op->claim, tree);
                break;
        case OP_COMPLETE:
        case OP_COMPLETE_CLAIM:
                if (op->type == OP_COMPLETE_CLAIM && is_refused(answer))
                        claims[op->claim].fate = CLAIM_ANSWERED;
                else if (op->type == OP_COMPLETE_CLAIM)
                        take_grants(c, op->claim, tree);
                answer_complete(op, answer);
                break;
        case OP_FAIL:
        case OP_RELEASE:
        case OP_EXTEND:
        case OP_PROGRESS:
                take_holder(op, answer);
                break;
        case OP_CANCEL:
                take_cancel(op, answer);
                break;
        case OP_STALE:
                if (!is_refused(answer))
                        complain(DOUBLED, "n=%" PRIu64 " was completed under a stale lease",
                                 op->nonce);
                break;
        case OP_JOB:
                take_job(op, tree);
                break;
        case OP_PAUSE:
        case OP_RESUME:
                if (is_refused(answer))
                        complain(WRONG, "PAUSE or RESUME: %.*s", (int)answer->len, answer->ptr);
                side.is_paused = op->type == OP_PAUSE;
                side.is_busy = false;
                tally.acked++;
                break;
        }
}
