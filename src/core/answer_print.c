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

/* OpenSSL has a type of that name, which nothing here uses; ours is an error. */
#define ERR_STATE openssl_err_state
#include <openssl/evp.h>
#undef ERR_STATE

#include "base/bytes.h"

struct print {
        EVP_MD_CTX *ctx;
        bool failed;
};

static void feed(struct print *p, const void *bytes, size_t n)
{
        p->failed |= n && EVP_DigestUpdate(p->ctx, bytes, n) != 1;
}

static void feed_num(struct print *p, uint64_t v)
{
        char bytes[8];
        store_u64(bytes, v);
        feed(p, bytes, sizeof(bytes));
}

static void feed_text(struct print *p, struct slice s)
{
        feed_num(p, s.len);
        feed(p, s.ptr, s.len);
}

static void feed_names(struct print *p, const struct claim_spec *claim)
{
        feed_num(p, claim->n_queues);
        for (size_t i = 0; i < claim->n_queues; i++)
                feed_text(p, claim->queues[i]);
}

static void feed_claim(struct print *p, const struct claim_spec *claim)
{
        feed_text(p, claim->worker);
        feed_num(p, claim->max);
        feed_num(p, claim->wait_ms);
        feed_num(p, claim->lease_ms);
        feed_names(p, claim);
}

/* Options that hold for all of them are arguments of their own. */
static void feed_jobs(struct print *p, const struct command *cmd)
{
        feed_num(p, cmd->n_specs);
        if (cmd->raw.len) {
                feed_text(p, cmd->raw);
                return;
        }
        for (size_t i = 0; i < cmd->n_specs; i++) {
                feed_text(p, cmd->specs[i].hook);
                feed_text(p, cmd->specs[i].args);
        }
}

static void feed_arg(struct print *p, const struct command *cmd, size_t i)
{
        const struct arg *arg = &cmd->arg[i];
        switch (cmd->def->params[i].type) {
        case PARAM_NAME:
        case PARAM_BYTES:
        case PARAM_TEXT:
        case PARAM_IDS:
                feed_text(p, arg->text);
                break;
        case PARAM_INT:
        case PARAM_ID:
        case PARAM_STATUS:
        case PARAM_CHOICE:
        case PARAM_FLAG:
                feed_num(p, (uint64_t)arg->num);
                break;
        case PARAM_TOKEN:
                feed(p, arg->token, sizeof(arg->token));
                break;
        case PARAM_NAMES:
                feed_names(p, &cmd->claim);
                break;
        case PARAM_JOBS:
                feed_jobs(p, cmd);
                break;
        case PARAM_CLAIM:
                feed_claim(p, &cmd->claim);
                break;
        }
}

bool answer_print(const struct command *cmd, uint8_t ret[ANSWER_PRINT_BYTES])
{
        unsigned char hash[EVP_MAX_MD_SIZE];
        struct print p = {.ctx = EVP_MD_CTX_new()};
        p.failed = !p.ctx || EVP_DigestInit_ex(p.ctx, EVP_sha256(), NULL) != 1;
        if (!p.failed) {
                feed_text(&p, slice_str(cmd->def->name));
                for (size_t i = 0; i < cmd->def->n_params; i++) {
                        if (!cmd->arg[i].is_set)
                                continue;
                        feed_text(&p, slice_str(cmd->def->params[i].name));
                        feed_arg(&p, cmd, i);
                }
                p.failed |= EVP_DigestFinal_ex(p.ctx, hash, NULL) != 1;
        }
        EVP_MD_CTX_free(p.ctx);
        if (!p.failed)
                memcpy(ret, hash, ANSWER_PRINT_BYTES);
        return !p.failed;
}
