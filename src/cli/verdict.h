/* What CHECK answered, and the sentence people read about it.  Pure. */
#ifndef WEIR_CLI_VERDICT_H
#define WEIR_CLI_VERDICT_H

#include "wire/resp_reply.h"

/* Texts are borrowed from the reply, so they hold as long as that does. */
struct verdict {
        bool is_granted;
        struct slice reason, rule, would; /* would: what enforce would refuse it for, or empty */
        struct slice target;              /* empty: there is none */
        struct slice metric, value, threshold;
        int64_t age_ms;  /* of the value; < 0: it was never read */
        int64_t wait_ms; /* ask again then; also after a grant, when weir sets the pace */
        int64_t credits, credit_ms;
};

/* False when it is no answer of CHECK. */
bool verdict_read(const struct value *v, struct verdict *ret);

/* Granted because no target is configured: no metric was looked at. */
#define VERDICT_BLIND "no target is configured, so nothing is measured"
bool verdict_is_blind(const struct verdict *v);

/* "refused: replication_lag 12 is above 5 on shop; ask again in 1 s" */
void verdict_put(struct buf *b, const struct verdict *v);

/* One object with the names of the HTTP door. */
void verdict_put_json(struct buf *b, const struct value *v);

#endif
