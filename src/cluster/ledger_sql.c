/* What the dialects of the ledger share.  A dialect writes its own SQL, since the two have little
 * of it in common; what is here decides nothing that a server could decide. */
#include "cluster/ledger_sql.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/shown.h"

/* ---- the servers ---- */

/* Which of two problems is told: a setting that can be changed, then a login that can, then
 * whatever keeps a server from answering; last of all that one is a standby, as all but one are. */
static int weight_of(int err)
{
        switch (err) {
        case ERR_STOPPING:
                return 5;
        case ERR_STATE:
                return 4;
        case ERR_FORBIDDEN:
        case ERR_NOTFOUND:
                return 3;
        case ERR_LOCKED: /* it takes no writes */
                return 1;
        default:
                return 2;
        }
}

int ledger_search(struct ledger_search *s, const struct sql_wait *w, struct problem *problem)
{
        const struct ledger_options *o = s->options;
        struct problem worst = {0};
        for (size_t i = 0; i < o->n_logins; i++) {
                size_t at = (s->first + i) % o->n_logins;
                struct sql_wait share = *w;
                struct problem why = {0};
                int64_t now_ns = clock_boot_ns();
                share.deadline_ns = now_ns + (w->deadline_ns - now_ns) / (int64_t)(o->n_logins - i);
                int r = s->attempt(s->self, &o->logins[at], &share, &why);
                if (r == OK) {
                        s->first = at;
                        return OK;
                }
                why.err = r;
                if (!worst.err || weight_of(r) > weight_of(worst.err))
                        worst = why;
                if (r == ERR_STOPPING)
                        break;
        }
        int err = worst.err == ERR_LOCKED ? ERR_UNAVAIL : worst.err;
        return problem_set(problem, err, "%s", worst.detail);
}

/* ---- settings ---- */

static char *copy_text(struct slice s)
{
        char *text = xmalloc(s.len + 1);
        if (s.len)
                memcpy(text, s.ptr, s.len);
        text[s.len] = '\0';
        return text;
}

void ledger_facts_put(struct ledger_facts *f, struct slice name, struct slice value)
{
        ASSERT(f->n < LEDGER_FACTS_MAX);
        f->facts[f->n].name = copy_text(name);
        f->facts[f->n++].value = copy_text(value);
}

const char *ledger_facts_get(const struct ledger_facts *f, const char *name)
{
        for (size_t i = 0; i < f->n; i++)
                if (strcasecmp(f->facts[i].name, name) == 0)
                        return f->facts[i].value;
        return "";
}

bool ledger_facts_is(const struct ledger_facts *f, const char *name, const char *value)
{
        return strcasecmp(ledger_facts_get(f, name), value) == 0;
}

void ledger_facts_release(struct ledger_facts *f)
{
        for (size_t i = 0; i < f->n; i++) {
                free(f->facts[i].name);
                free(f->facts[i].value);
        }
        f->n = 0;
}

static bool is_kept(const struct ledger_rule *rule, const char *value)
{
        uint64_t is = 0, least = 0;
        switch (rule->kind) {
        case RULE_IS:
                return strcasecmp(value, rule->value) == 0;
        case RULE_IS_NOT:
                return strcasecmp(value, rule->value) != 0;
        case RULE_AT_LEAST:
                return slice_to_u64(slice_str(value), &is) &&
                       slice_to_u64(slice_str(rule->value), &least) && is >= least;
        case RULE_HAS:
                return strstr(value, rule->value) != NULL;
        }
        return false;
}

int ledger_judge(const struct ledger_facts *f, const struct ledger_rule *rules, size_t n,
                 const char *where, struct problem *problem)
{
        for (size_t i = 0; i < n; i++) {
                const char *value = ledger_facts_get(f, rules[i].name);
                if (is_kept(&rules[i], value))
                        continue;
                if (rules[i].kind == RULE_HAS)
                        return problem_set(problem, ERR_STATE, "%s is not safe: %s lacks '%s'; %s",
                                           where, rules[i].name, rules[i].value,
                                           rules[i].what_to_do);
                return problem_set(problem, ERR_STATE, "%s is not safe: %s is %s; %s", where,
                                   rules[i].name, *value ? SHOWN_STR(value) : "empty",
                                   rules[i].what_to_do);
        }
        return OK;
}

/* ---- rows ---- */

void ledger_text(char *ret, size_t size, struct slice text)
{
        size_t n = text.len < size ? text.len : size - 1;
        if (n)
                memcpy(ret, text.ptr, n);
        ret[n] = '\0';
}

void ledger_head_from(const struct ledger_row *row, struct ledger_head *ret)
{
        *ret = (struct ledger_head){.seq = row->seq,
                                    .epoch = row->epoch,
                                    .kind = row->kind <= LEDGER_OPENED ? (enum ledger_kind)row->kind
                                                                       : LEDGER_EPOCH};
        ledger_text(ret->node, sizeof(ret->node), row->node);
}

size_t ledger_pieces(struct slice body)
{
        return body.len ? (body.len + LEDGER_PIECE_BYTES - 1) / LEDGER_PIECE_BYTES : 1;
}

struct slice ledger_piece(struct slice body, size_t piece)
{
        size_t at = piece * LEDGER_PIECE_BYTES;
        size_t left = body.len - at;
        if (!body.len)
                return SLICE_LIT("");
        return slice_make(body.ptr + at, left < LEDGER_PIECE_BYTES ? left : LEDGER_PIECE_BYTES);
}

static void tell(struct ledger_reader *r)
{
        if (r->head.seq)
                r->fn(r->ctx, &r->head, buf_slice(&r->body));
        buf_clear(&r->body);
}

int ledger_reader_add(struct ledger_reader *r, const struct ledger_row *row,
                      struct problem *problem)
{
        if (r->is_missing || r->is_over)
                return OK;
        if (row->seq != r->head.seq) {
                uint64_t wanted = r->head.seq ? r->head.seq + 1 : r->from;
                r->is_missing = !r->head.seq && row->seq != wanted;
                r->is_over = r->head.seq && row->seq != wanted;
                if (r->is_missing || r->is_over)
                        return OK;
                tell(r);
                ledger_head_from(row, &r->head);
                r->n_pieces = 0;
        }
        if (row->piece != r->n_pieces++)
                return problem_set(problem, ERR_CORRUPT,
                                   "a piece of batch %llu is missing from weir_log",
                                   (unsigned long long)row->seq);
        buf_put_slice(&r->body, row->body);
        return OK;
}

int ledger_reader_end(struct ledger_reader *r, struct problem *problem)
{
        tell(r);
        buf_release(&r->body);
        if (r->is_missing)
                return problem_set(problem, ERR_NOTFOUND, "batch %llu is not kept any more",
                                   (unsigned long long)r->from);
        return OK;
}

void ledger_match_add(struct ledger_match *m, const struct ledger_row *row)
{
        size_t n = row->body.len;
        if (!row->piece)
                ledger_head_from(row, &m->seen);
        m->differs = m->differs || n > m->body.len - m->at ||
                     (n && memcmp(m->body.ptr + m->at, row->body.ptr, n) != 0);
        if (!m->differs)
                m->at += n;
}

bool ledger_match_end(const struct ledger_match *m)
{
        const struct ledger_head *a = m->head, *b = &m->seen;
        return b->seq == a->seq && b->epoch == a->epoch && b->kind == a->kind &&
               strcmp(b->node, a->node) == 0 && !m->differs && m->at == m->body.len;
}

void ledger_put_made(struct buf *ret, const char *where, int version)
{
        if (!version)
                buf_printf(ret, "%s: made the tables, version %d\n", where, LEDGER_VERSION);
        else if (version < LEDGER_VERSION)
                buf_printf(ret, "%s: brought the tables from version %d to %d\n", where, version,
                           LEDGER_VERSION);
        else
                buf_printf(ret, "%s: the tables are there, version %d\n", where, LEDGER_VERSION);
}
