/* The handler table: kept in the order of precedence, so that the first match is the answer.
 *
 * A worker has few handlers and asks once a job, which costs a process or a request anyway: a
 * scan is enough. */
#include "work/handler.h"

#include <stdlib.h>
#include <strings.h>

#include "base/shown.h"
#include "base/slice.h"

void handler_init(struct handler *h)
{
        *h = (struct handler){
                .grace_ms = HANDLER_GRACE_MS,
                .output_max = HANDLER_OUTPUT,
                .connect_ms = HANDLER_CONNECT_MS,
                .umask = -1,
                .signs_with = {[1] = true},
        };
}

void handler_release(struct handler *h)
{
        for (size_t i = 0; i < h->secrets.n; i++)
                explicit_bzero(h->secrets.argv[i], strlen(h->secrets.argv[i]));
        words_release(&h->secrets);
        words_release(&h->command);
        words_release(&h->env);
        words_release(&h->hosts);
        free(h->addresses.nets);
        free(h->pattern);
        free(h->origin);
        free(h->dir);
        free(h->url);
        free(h->ca_file);
        account_release(&h->account);
        *h = (struct handler){0};
}

/* Backtracks to the last star only: what an earlier one took can never help. */
bool pattern_matches(const char *pattern, const char *text)
{
        const char *star = NULL, *from = NULL;
        while (*text) {
                size_t len = utf8_sequence(text, strlen(text));
                if (len == 0)
                        len = 1;
                if (*pattern == '*') {
                        star = ++pattern;
                        from = text;
                } else if (*pattern == '?') {
                        pattern++;
                        text += len;
                } else if (*pattern == *text) {
                        pattern++;
                        text++;
                } else if (star) {
                        pattern = star;
                        text = ++from;
                } else {
                        return false;
                }
        }
        while (*pattern == '*')
                pattern++;
        return *pattern == '\0';
}

static size_t literal_count(const char *pattern)
{
        size_t n = 0;
        for (; *pattern; pattern++)
                n += *pattern != '*' && *pattern != '?';
        return n;
}

/* By precedence, see handler.h. */
static int compare(const void *left, const void *right)
{
        const struct handler *a = left, *b = right;
        size_t prefix_a = strcspn(a->pattern, "*?"), prefix_b = strcspn(b->pattern, "*?");
        bool exact_a = a->pattern[prefix_a] == '\0', exact_b = b->pattern[prefix_b] == '\0';
        if (exact_a != exact_b)
                return exact_a ? -1 : 1;
        if (prefix_a != prefix_b)
                return prefix_a > prefix_b ? -1 : 1;
        size_t n_a = literal_count(a->pattern), n_b = literal_count(b->pattern);
        if (n_a != n_b)
                return n_a > n_b ? -1 : 1;
        return a->order < b->order ? -1 : a->order > b->order;
}

int handlers_add(struct handlers *hs, struct handler *h, struct problem *p)
{
        int r = OK;
        if (hs->n == HANDLERS_MAX)
                r = problem_set(p, ERR_BADARG, "more than %d handlers", HANDLERS_MAX);
        for (size_t i = 0; i < hs->n && r == OK; i++)
                if (strcmp(hs->all[i].pattern, h->pattern) == 0)
                        r = problem_set(p, ERR_BADARG, "a second handler for '%s'",
                                        SHOWN_LONG(h->pattern));
        if (r != OK) {
                handler_release(h);
                return r;
        }
        h->order = hs->n;
        hs->all = xrealloc(hs->all, (hs->n + 1) * sizeof(*hs->all));
        hs->all[hs->n++] = *h;
        *h = (struct handler){0};
        qsort(hs->all, hs->n, sizeof(*hs->all), compare);
        return OK;
}

void handlers_release(struct handlers *hs)
{
        for (size_t i = 0; i < hs->n; i++)
                handler_release(&hs->all[i]);
        free(hs->all);
        free(hs->origin);
        *hs = (struct handlers){0};
}

const struct handler *handlers_find(const struct handlers *hs, const char *hook)
{
        for (size_t i = 0; i < hs->n; i++)
                if (pattern_matches(hs->all[i].pattern, hook))
                        return &hs->all[i];
        return NULL;
}

/* Only EX_DATAERR of sysexits.h speaks of the job's data alone.  Its other codes may be a file, a
 * right or a setting that is missing today, and 1 and 2 are what a program exits with that just
 * broke. */
static const uint16_t final_exits[] = {65};

/* Those that speak of the request and not of the moment (RFC 9110).  401 and 403 may be a key that
 * is being changed, 408, 409, 423, 425 and 429 pass, 5xx is the receiver's trouble. */
static const uint16_t final_statuses[] = {400, 404, 405, 410, 413, 414, 415, 422};

static bool has_code(const uint16_t *codes, size_t n, long code)
{
        for (size_t i = 0; i < n; i++)
                if (codes[i] == code)
                        return true;
        return false;
}

bool handler_is_final(const struct handler *h, long code)
{
        if (h->has_no_retry)
                return has_code(h->no_retry, h->n_no_retry, code);
        if (h->kind == HANDLER_HTTP)
                return has_code(final_statuses, ARRAY_LEN(final_statuses), code);
        return has_code(final_exits, ARRAY_LEN(final_exits), code);
}

bool handler_allows_host(const struct handler *h, const char *host)
{
        size_t len = strlen(host);
        for (size_t i = 0; i < h->hosts.n; i++) {
                const char *name = h->hosts.argv[i];
                size_t tail = strlen(name) - 1; /* of "*.shop.example" without the star */
                if (strncmp(name, "*.", 2) != 0 && strcasecmp(name, host) == 0)
                        return true;
                if (strncmp(name, "*.", 2) == 0 && len > tail &&
                    strcasecmp(name + 1, host + len - tail) == 0)
                        return true;
        }
        return h->hosts.n == 0;
}
