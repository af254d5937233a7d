/* What is hashed: the name of the command, then each argument that was given, as the name of its
 * parameter and its value after binding.
 *
 * After binding, because PRIORITY 5 and {"priority": 5} are the same request.  By name and not by
 * place, because a newer weir has more parameters, and a key must outlive an upgrade.  Every part
 * has its length in front, so that no two requests run together.  An array of jobs over HTTP may
 * give each its own options, which words cannot: there the JSON itself is hashed, so such a
 * request is known again over HTTP only.
 *
 * SHA-256, cut to 16 bytes: whoever shares a key cannot make up a second request that is taken for
 * the first. */
#include "core/answer_print.h"

#include "wire/digest.h"

static void feed_names(struct digest *d, const struct claim_spec *claim)
{
        digest_put_num(d, claim->n_queues);
        for (size_t i = 0; i < claim->n_queues; i++)
                digest_put(d, claim->queues[i]);
}

static void feed_claim(struct digest *d, const struct claim_spec *claim)
{
        digest_put(d, claim->worker);
        digest_put_num(d, claim->max);
        digest_put_num(d, claim->wait_ms);
        digest_put_num(d, claim->lease_ms);
        feed_names(d, claim);
}

/* Options that hold for all of them are arguments of their own. */
static void feed_jobs(struct digest *d, const struct command *cmd)
{
        digest_put_num(d, cmd->n_specs);
        if (cmd->raw.len) {
                digest_put(d, cmd->raw);
                return;
        }
        for (size_t i = 0; i < cmd->n_specs; i++) {
                digest_put(d, cmd->specs[i].hook);
                digest_put(d, cmd->specs[i].args);
        }
}

static void feed_arg(struct digest *d, const struct command *cmd, size_t i)
{
        const struct arg *arg = &cmd->arg[i];
        switch (cmd->def->params[i].type) {
        case PARAM_NAME:
        case PARAM_BYTES:
        case PARAM_TEXT:
        case PARAM_IDS:
                digest_put(d, arg->text);
                break;
        case PARAM_INT:
        case PARAM_ID:
        case PARAM_STATUS:
        case PARAM_CHOICE:
        case PARAM_FLAG:
                digest_put_num(d, (uint64_t)arg->num);
                break;
        case PARAM_TOKEN:
                digest_put_bytes(d, arg->token, sizeof(arg->token));
                break;
        case PARAM_NAMES:
                feed_names(d, &cmd->claim);
                break;
        case PARAM_JOBS:
                feed_jobs(d, cmd);
                break;
        case PARAM_CLAIM:
                feed_claim(d, &cmd->claim);
                break;
        }
}

bool answer_print(const struct command *cmd, uint8_t ret[ANSWER_PRINT_BYTES])
{
        uint8_t hash[DIGEST_BYTES];
        struct digest d;
        digest_init(&d);
        digest_put(&d, slice_str(cmd->def->name));
        for (size_t i = 0; i < cmd->def->n_params; i++) {
                if (!cmd->arg[i].is_set)
                        continue;
                digest_put(&d, slice_str(cmd->def->params[i].name));
                feed_arg(&d, cmd, i);
        }
        if (!digest_end(&d, hash))
                return false;
        memcpy(ret, hash, ANSWER_PRINT_BYTES);
        return true;
}
