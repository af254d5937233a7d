/* The handle: how asks become verdicts.
 *
 *      weir_step ──> credit left? ────────────────────────────────> GO
 *                    │ no                              refused, kept back: pause, again
 *                    v                                 failed: pause, again, until the policy
 *                  attempt ─> kept back?                       or the deadline decides
 *                             backoff? connect ─> ask ─> answer
 *
 * An outage begins with the first question that got no usable answer and ends with the first that
 * does.  It has one clock (lost_ns, from which WEIR_WAIT_THEN_OPEN counts: not every step of a
 * loop waits anew) and one pause (retry_ns): until that is over every attempt fails at once with
 * the cause of the last, so a dead daemon costs one attempt to connect per pause.  The pause
 * doubles with each failure, and a random part of up to half of it keeps a fleet from coming back
 * in step.
 *
 * A connection that worked before and turns out dead when it is used again is no outage yet: weir
 * may have been restarted since.  The question goes out once more on a new connection; a CHECK
 * changes nothing, so asking twice harms nobody.
 *
 * An ask that weir does not take (a bad identity, an unknown target) is no outage either: others
 * of the same handle go on.  It gets the policy's verdict too, since a typo must not stop work
 * that shall go on, and the error says so.
 *
 * A step on credit reads the clock and calls getpid(), to notice a fork; nothing else of it leaves
 * the process. */
#include "weir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "answer.h"
#include "lane.h"
#include "link.h"

#define IDENTITY_MAX_BYTES 255 /* gate/identity.h has the same */
#define WORD_MAX_BYTES     255
#define METRICS_MAX        32
/* CHECK identity TARGET t PRIORITY p COST n WAIT ms METRICS m... */
#define WORDS_MAX (11 + METRICS_MAX)
/* Before a step says no to an ask that weir does not take: a loop around it must not spin. */
#define MISTAKE_PAUSE_NS NS_PER_S

static const struct {
        uint32_t standard, least, most;
} settings[] = {
        [WEIR_SET_CONNECT_MS] = {1000, 1, 60000},       [WEIR_SET_REPLY_MS] = {1000, 1, 60000},
        [WEIR_SET_STEP_MS] = {60000, 1, UINT32_MAX},    [WEIR_SET_WAIT_MS] = {10000, 1, 600000},
        [WEIR_SET_HOLD_MS] = {30000, 0, UINT32_MAX},    [WEIR_SET_BACKOFF_MS] = {100, 1, 600000},
        [WEIR_SET_BACKOFF_MAX_MS] = {10000, 1, 600000}, [WEIR_SET_K_PERCENT] = {200, 0, 10000},
        [WEIR_SET_PROBE_MS] = {1000, 1, 600000},        [WEIR_SET_INTERRUPTIBLE] = {0, 0, 1},
};

#define COUNTERS (WEIR_COUNT_FAILURES + 1)

struct weir {
        struct link link;
        enum weir_policy policy;
        uint32_t setting[ARRAY_LEN(settings)];
        uint64_t count[COUNTERS];
        struct lanes lanes;
        struct buf key;      /* scratch: the words of the present ask */
        int64_t lost_ns;     /* since when weir gives no usable answer; 0: it does */
        int64_t retry_ns;    /* during an outage: not asked before */
        int64_t pause_ns;    /* the last one; doubles */
        struct problem lost; /* the cause */
        uint64_t dice;       /* state of xorshift64, never 0 */
        pid_t pid;           /* another one: we are a child */
        locale_t c_locale;   /* numbers with a point */
};

/* --- small parts ------------------------------------------------------------------------------ */

static int64_t setting_ns(const struct weir *w, enum weir_setting s)
{
        return (int64_t)w->setting[s] * NS_PER_MS;
}

static uint32_t ms_until(int64_t then_ns, int64_t now_ns)
{
        int64_t ms = (then_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;

        if (ms < 0)
                return 0;
        return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void dice_init(struct weir *w)
{
        uint64_t seed = 0;

        if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed) || seed == 0)
                seed = ((uint64_t)link_now_ns() ^ (uint64_t)getpid() << 32) | 1;
        w->dice = seed;
}

/* In [0, 1).  Jitter and a share of refusals need no better dice. */
static double dice_roll(struct weir *w)
{
        w->dice ^= w->dice << 13;
        w->dice ^= w->dice >> 7;
        w->dice ^= w->dice << 17;
        return (double)(w->dice >> 11) * 0x1p-53;
}

/* A child has the parent's socket and credits, and may use neither. */
static void notice_fork(struct weir *w)
{
        if (w->pid == getpid())
                return;
        w->pid = getpid();
        link_close(&w->link);
        lanes_forget(&w->lanes);
        dice_init(w);
}

static bool has_text(const char *text)
{
        return text && *text;
}

/* --- the words of an ask ---------------------------------------------------------------------- */

struct words {
        struct slice word[WORDS_MAX];
        size_t n;
        char cost[12], wait[12];
};

static void put_word(struct words *q, const char *text)
{
        q->word[q->n++] = slice_str(text);
}

static void put_option(struct words *q, const char *name, const char *text)
{
        if (has_text(text)) {
                put_word(q, name);
                put_word(q, text);
        }
}

static int ask_trouble(struct weir *w, const char *what, const char *must)
{
        return problem_set(&w->link.trouble, WEIR_EASK, "%s %s", what, must);
}

/* What the server would refuse anyway, and what would not fit in here. */
static int ask_check(struct weir *w, const struct weir_ask *ask)
{
        size_t n = 0;

        if (!has_text(ask->identity))
                return ask_trouble(w, "an ask", "has an identity: who wants to work");
        if (strlen(ask->identity) > IDENTITY_MAX_BYTES)
                return ask_trouble(w, "the identity", "has at most 255 bytes");
        if (ask->target && strlen(ask->target) > WORD_MAX_BYTES)
                return ask_trouble(w, "the target", "has at most 255 bytes");
        if (ask->priority && strlen(ask->priority) > WORD_MAX_BYTES)
                return ask_trouble(w, "the priority", "is critical, high, normal or deferrable");
        for (; ask->metrics && ask->metrics[n]; n++)
                if (n == METRICS_MAX || !*ask->metrics[n] ||
                    strlen(ask->metrics[n]) > WORD_MAX_BYTES)
                        return ask_trouble(w, "an ask",
                                           "names at most 32 metrics of 1 to 255 bytes");
        return WEIR_OK;
}

/* What tells one question from another: all but cost and patience.  The words are apart by their
 * terminators; an absent one is an empty one. */
static struct slice ask_key(struct weir *w, const struct weir_ask *ask)
{
        const char *const fixed[] = {ask->identity, ask->target, ask->priority};

        buf_clear(&w->key);
        for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
                buf_put(&w->key, fixed[i] ? fixed[i] : "", fixed[i] ? strlen(fixed[i]) + 1 : 1);
        for (size_t i = 0; ask->metrics && ask->metrics[i]; i++)
                buf_put(&w->key, ask->metrics[i], strlen(ask->metrics[i]) + 1);
        return buf_slice(&w->key);
}

static void ask_write(struct weir *w, const struct weir_ask *ask, uint32_t wait_ms)
{
        struct words q = {.n = 0};

        (void)snprintf(q.cost, sizeof(q.cost), "%u", (unsigned)(ask->cost ? ask->cost : 1));
        (void)snprintf(q.wait, sizeof(q.wait), "%u", (unsigned)wait_ms);
        put_word(&q, "CHECK");
        put_word(&q, ask->identity);
        put_option(&q, "TARGET", ask->target);
        put_option(&q, "PRIORITY", ask->priority);
        put_option(&q, "COST", q.cost);
        if (wait_ms)
                put_option(&q, "WAIT", q.wait);
        for (size_t i = 0; ask->metrics && ask->metrics[i]; i++) {
                if (i == 0)
                        put_word(&q, "METRICS");
                put_word(&q, ask->metrics[i]);
        }
        buf_clear(&w->link.out);
        value_put_command(&w->link.out, q.word, q.n);
}

/* --- an outage -------------------------------------------------------------------------------- */

static void outage_goes_on(struct weir *w)
{
        int64_t now_ns = link_now_ns(), most_ns = setting_ns(w, WEIR_SET_BACKOFF_MAX_MS);

        if (w->lost_ns == 0) {
                w->lost_ns = now_ns;
                w->pause_ns = setting_ns(w, WEIR_SET_BACKOFF_MS);
        } else {
                w->pause_ns *= 2;
        }
        if (w->pause_ns > most_ns)
                w->pause_ns = most_ns;
        w->retry_ns = now_ns + (int64_t)((double)w->pause_ns * (1 + dice_roll(w) / 2));
        w->lost = w->link.trouble;
}

static void outage_ends(struct weir *w)
{
        w->lost_ns = w->retry_ns = w->pause_ns = 0;
}

static bool is_outage(int error)
{
        return error == WEIR_EAWAY || error == WEIR_ETIMEDOUT || error == WEIR_EPROTO ||
               error == WEIR_EDENIED || error == WEIR_ESERVER;
}

/* What weir says with an error line, in our terms. */
static int error_of_reply(struct weir *w, const struct value *v)
{
        struct problem said;

        switch (value_problem(v, &said)) {
        case ERR_NOAUTH:
        case ERR_BADTOKEN:
        case ERR_FORBIDDEN:
                link_close(&w->link);
                return problem_set(&w->link.trouble, WEIR_EDENIED, "%s: %s", w->link.url.text,
                                   said.detail);
        case ERR_BADARG:
        case ERR_NOTFOUND:
        case ERR_SYNTAX:
        case ERR_TOOBIG:
                return problem_set(&w->link.trouble, WEIR_EASK, "%s", said.detail);
        default: /* also an older weir without this command, or a Redis */
                return problem_set(&w->link.trouble, WEIR_ESERVER, "%s: %s", w->link.url.text,
                                   said.detail);
        }
}

/* --- one attempt ------------------------------------------------------------------------------ */

/* The reply to an ask that weir may keep until `until_ns`, on a connection made when there is none.
 * One that was used before and turns out dead is replaced once. */
static int ask_on_link(struct weir *w, const struct weir_ask *ask, int64_t until_ns,
                       const struct value **ret)
{
        struct link *l = &w->link;

        link_look(l);
        for (;;) {
                bool was_open = l->fd >= 0;
                if (!was_open) {
                        w->count[WEIR_COUNT_CONNECTS]++;
                        int r = link_connect(l, link_now_ns() + setting_ns(w, WEIR_SET_CONNECT_MS));
                        if (r != WEIR_OK)
                                return r;
                }
                int64_t now_ns = link_now_ns();
                uint32_t wait_ms = ms_until(until_ns, now_ns);
                ask_write(w, ask, wait_ms);
                w->count[WEIR_COUNT_ASKS]++;
                int r = link_ask(
                        l, now_ns + (int64_t)wait_ms * NS_PER_MS + setting_ns(w, WEIR_SET_REPLY_MS),
                        ret);
                if (r != WEIR_EAWAY || !was_open)
                        return r;
        }
}

/* WEIR_OK and weir's answer, or what was wrong; tells the lane and the outage. */
static int attempt(struct weir *w, const struct weir_ask *ask, struct lane *lane, int64_t until_ns,
                   struct weir_answer *ret)
{
        const struct value *v = NULL;

        if (w->lost_ns && link_now_ns() < w->retry_ns) {
                w->link.trouble = w->lost;
                return w->lost.err;
        }
        /* A server that was lost must answer at once before a wait is sent to it again. */
        int r = ask_on_link(w, ask, w->lost_ns ? 0 : until_ns, &v);
        if (r == WEIR_OK && v->type == VALUE_ERROR) {
                r = error_of_reply(w, v);
        } else if (r == WEIR_OK && !answer_read(v, w->c_locale, ret)) {
                link_close(&w->link);
                r = problem_set(&w->link.trouble, WEIR_EPROTO,
                                "%s answers, but not as weir answers a CHECK", w->link.url.text);
        }
        if (r != WEIR_OK) {
                w->count[WEIR_COUNT_FAILURES]++;
                if (is_outage(r))
                        outage_goes_on(w);
                else if (r == WEIR_EASK) /* it has answered, after all */
                        outage_ends(w);
                return r;
        }
        outage_ends(w);
        w->count[ret->verdict == WEIR_GO ? WEIR_COUNT_GRANTED : WEIR_COUNT_REFUSED]++;
        lane_answered(lane, w->setting[WEIR_SET_K_PERCENT], ret->verdict == WEIR_GO, link_now_ns());
        return WEIR_OK;
}

/* --- verdicts without weir -------------------------------------------------------------------- */

static void answer_ours(struct weir_answer *a, enum weir_source source, enum weir_verdict verdict,
                        const char *reason)
{
        answer_clear(a);
        a->source = source;
        a->verdict = verdict;
        (void)snprintf(a->reason, sizeof(a->reason), "%s", reason);
}

/* The policy's verdict on an ask that failed with `error`. */
static void answer_by_policy(const struct weir *w, int error, struct weir_answer *ret)
{
        int64_t now_ns = link_now_ns(), hold_ns = setting_ns(w, WEIR_SET_HOLD_MS);
        bool is_held = w->policy == WEIR_WAIT_THEN_OPEN && is_outage(error) &&
                       now_ns - w->lost_ns < hold_ns;
        bool is_open = w->policy != WEIR_CLOSED && !is_held && error != WEIR_EINTR;

        answer_ours(ret, WEIR_FROM_POLICY, is_open ? WEIR_GO : WEIR_NO,
                    is_outage(error) ? "away" : "error");
        ret->error = (enum weir_error)error;
        if (is_open || !is_outage(error))
                return;
        int64_t until_ns = w->retry_ns;
        if (is_held && w->lost_ns + hold_ns < until_ns)
                until_ns = w->lost_ns + hold_ns;
        ret->wait_ms = ms_until(until_ns, now_ns);
}

/* The lane of an ask, or NULL with *ret_error. */
static struct lane *lane_of(struct weir *w, const struct weir_ask *ask, int *ret_error)
{
        struct lane *lane = NULL;

        notice_fork(w);
        w->link.is_interruptible = w->setting[WEIR_SET_INTERRUPTIBLE] != 0;
        *ret_error = ask_check(w, ask);
        if (*ret_error != WEIR_OK)
                return NULL;
        struct slice key = ask_key(w, ask);
        if (!w->key.failed)
                lane = lanes_find(&w->lanes, key, link_now_ns());
        if (!lane)
                *ret_error = problem_set(&w->link.trouble, WEIR_ENOMEM, "no memory to ask");
        return lane;
}

/* One question, with the client's own throttling before it and the policy behind it. */
static void ask_once(struct weir *w, const struct weir_ask *ask, struct lane *lane,
                     int64_t until_ns, struct weir_answer *ret)
{
        int64_t now_ns = link_now_ns();

        answer_clear(ret);
        if (w->lost_ns == 0) {
                int64_t left_ns =
                        lane_admit(lane, w->setting[WEIR_SET_K_PERCENT],
                                   setting_ns(w, WEIR_SET_PROBE_MS), dice_roll(w), now_ns);
                if (left_ns > 0) {
                        w->count[WEIR_COUNT_THROTTLED]++;
                        answer_ours(ret, WEIR_FROM_CLIENT, WEIR_NO, "client");
                        ret->wait_ms = ms_until(now_ns + left_ns, now_ns);
                        return;
                }
        }
        int r = attempt(w, ask, lane, until_ns, ret);
        if (r != WEIR_OK)
                answer_by_policy(w, r, ret);
}

/* --- the calls -------------------------------------------------------------------------------- */

enum weir_verdict weir_check(struct weir *w, const struct weir_ask *ask, struct weir_answer *ret)
{
        struct weir_answer ours;
        int error;
        struct lane *lane = lane_of(w, ask, &error);

        ret = ret ? ret : &ours;
        if (lane)
                ask_once(w, ask, lane, lane->used_ns + (int64_t)ask->wait_ms * NS_PER_MS, ret);
        else
                answer_by_policy(w, error, ret);
        return ret->verdict;
}

/* When to go on after an answer that was no; weir was asked at `asked_ns` and might have kept the
 * question until `until_ns`. */
static int64_t pause_end(struct weir *w, const struct weir_answer *a, int64_t asked_ns,
                         int64_t until_ns)
{
        int64_t now_ns = link_now_ns(), pause_ns = (int64_t)a->wait_ms * NS_PER_MS;

        if (a->error == WEIR_EASK || a->error == WEIR_ENOMEM)
                return now_ns + MISTAKE_PAUSE_NS;
        if (a->source != WEIR_FROM_SERVER)
                return now_ns + pause_ns;
        if (now_ns - asked_ns >= (until_ns - asked_ns) / 2) /* it kept it: that was the pause */
                return now_ns;
        if (pause_ns > setting_ns(w, WEIR_SET_WAIT_MS))
                pause_ns = setting_ns(w, WEIR_SET_WAIT_MS);
        if (pause_ns == 0)
                pause_ns = NS_PER_MS;
        return now_ns + (int64_t)((double)pause_ns * (1 + dice_roll(w) / 4));
}

/* Asks until it may go or the time is over.  Without a lane nothing can be asked. */
static void step_by_asking(struct weir *w, const struct weir_ask *ask, struct lane *lane, int error,
                           struct weir_answer *ret)
{
        int64_t time_ns =
                ask->wait_ms ? (int64_t)ask->wait_ms * NS_PER_MS : setting_ns(w, WEIR_SET_STEP_MS);
        int64_t deadline_ns = link_now_ns() + time_ns;

        for (;;) {
                int64_t asked_ns = link_now_ns();
                int64_t until_ns = asked_ns + setting_ns(w, WEIR_SET_WAIT_MS);
                bool was_lost = w->lost_ns != 0;
                if (until_ns > deadline_ns)
                        until_ns = deadline_ns;
                if (lane)
                        ask_once(w, ask, lane, until_ns, ret);
                else
                        answer_by_policy(w, error, ret);
                if (ret->verdict == WEIR_GO || ret->error == WEIR_EINTR)
                        return;
                if (was_lost && ret->source == WEIR_FROM_SERVER)
                        continue; /* it is back: now it may keep the question */
                until_ns = pause_end(w, ret, asked_ns, until_ns);
                bool is_last = until_ns >= deadline_ns || ret->error == WEIR_EASK || !lane;
                if (link_sleep(&w->link, until_ns < deadline_ns ? until_ns : deadline_ns)) {
                        int r = problem_set(&w->link.trouble, WEIR_EINTR,
                                            "a signal ended the wait");
                        answer_by_policy(w, r, ret);
                        return;
                }
                if (is_last)
                        return;
        }
}

enum weir_verdict weir_step_ask(struct weir *w, const struct weir_ask *ask, struct weir_answer *ret)
{
        struct weir_answer ours;
        uint32_t cost = ask->cost ? ask->cost : 1;
        int error;
        struct lane *lane = lane_of(w, ask, &error);

        ret = ret ? ret : &ours;
        w->count[WEIR_COUNT_STEPS]++;
        if (lane && lane_use_credit(lane, cost, lane->used_ns)) {
                w->count[WEIR_COUNT_CREDITED]++;
                answer_ours(ret, WEIR_FROM_CREDIT, WEIR_GO, "credit");
                return WEIR_GO;
        }
        step_by_asking(w, ask, lane, error, ret);
        if (ret->verdict == WEIR_GO && ret->source == WEIR_FROM_SERVER)
                lane_put_credits(lane, ret->credits, cost,
                                 link_now_ns() + (int64_t)ret->credit_ms * NS_PER_MS);
        return ret->verdict;
}

enum weir_verdict weir_step(struct weir *w, const char *identity, uint32_t cost)
{
        struct weir_ask ask = {.identity = identity, .cost = cost};

        return weir_step_ask(w, &ask, NULL);
}

/* --- the handle ------------------------------------------------------------------------------- */

/* $WEIR_TOKEN is the token, or @ and the file that has it in its first line. */
static int token_from_environment(struct server_url *url)
{
        const char *text = secure_getenv("WEIR_TOKEN");
        size_t n = text ? strlen(text) : 0;

        if (n == 0 || url->token[0] != '\0')
                return WEIR_OK;
        if (text[0] != '@') {
                if (n >= sizeof(url->token))
                        return WEIR_EDENIED;
                memcpy(url->token, text, n + 1);
                return WEIR_OK;
        }
        int fd = open(text + 1, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return WEIR_EDENIED;
        ssize_t got = read(fd, url->token, sizeof(url->token) - 1);
        (void)close(fd);
        if (got <= 0)
                return WEIR_EDENIED;
        url->token[got] = '\0';
        url->token[strcspn(url->token, "\r\n")] = '\0';
        return url->token[0] ? WEIR_OK : WEIR_EDENIED;
}

static int find_url(const char *text, struct server_url *ret)
{
        struct problem unused;
        const char *url = text;

        if (!url)
                url = secure_getenv("WEIR_URL");
        if (!url || (!text && !*url))
                url = SERVER_URL_DEFAULT;
        if (server_url_parse(url, ret, &unused) != OK || server_url_add_env(ret, &unused) != OK)
                return WEIR_EURL;
        return text ? WEIR_OK : token_from_environment(ret);
}

int weir_new(const char *url, enum weir_policy policy, struct weir **ret)
{
        *ret = NULL;
        if (policy != WEIR_OPEN && policy != WEIR_CLOSED && policy != WEIR_WAIT_THEN_OPEN)
                return WEIR_EINVAL;
        struct weir *w = calloc(1, sizeof(*w));
        if (!w)
                return WEIR_ENOMEM;
        w->policy = policy;
        w->pid = getpid();
        link_init(&w->link);
        buf_init(&w->key, 0);
        dice_init(w);
        for (size_t i = 0; i < ARRAY_LEN(settings); i++)
                w->setting[i] = settings[i].standard;
        int r = find_url(url, &w->link.url);
        if (r == WEIR_OK) {
                w->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
                r = w->c_locale ? WEIR_OK : WEIR_ENOMEM;
        }
        if (r != WEIR_OK) {
                weir_free(w);
                return r;
        }
        *ret = w;
        return WEIR_OK;
}

void weir_free(struct weir *w)
{
        if (!w)
                return;
        link_release(&w->link);
        lanes_forget(&w->lanes);
        buf_release(&w->key);
        if (w->c_locale)
                freelocale(w->c_locale);
        free(w);
}

int weir_set(struct weir *w, enum weir_setting setting, uint32_t value)
{
        if ((size_t)setting >= ARRAY_LEN(settings) || value < settings[setting].least ||
            value > settings[setting].most)
                return WEIR_EINVAL;
        w->setting[setting] = value;
        return WEIR_OK;
}

uint64_t weir_count(const struct weir *w, enum weir_counter counter)
{
        return (size_t)counter < COUNTERS ? w->count[counter] : 0;
}

const char *weir_message(const struct weir *w)
{
        return w->link.trouble.detail;
}

const char *weir_strerror(int error)
{
        static const char *const texts[] = {
                [WEIR_OK] = "nothing was wrong",
                [WEIR_EAWAY] = "weir is away: nothing answers, or the connection was lost",
                [WEIR_ETIMEDOUT] = "weir gave no answer in time",
                [WEIR_EPROTO] = "what answers there is no weir",
                [WEIR_EDENIED] = "weir wants a token, or does not take this one",
                [WEIR_EASK] = "weir does not take this ask: its identity, target or the like",
                [WEIR_ESERVER] = "weir answered with an error of its own",
                [WEIR_EINTR] = "a signal ended the wait",
                [WEIR_ENOMEM] = "no memory is left",
                [WEIR_EURL] = "the url is not redis:// or rediss://host, unix:/path or host:port",
                [WEIR_EINVAL] = "no such setting, or a value out of its bounds",
                [WEIR_ETLS] = "TLS failed: a certificate is refused, or a file cannot be used",
        };

        if (error < 0 || (size_t)error >= ARRAY_LEN(texts))
                return "an error this version of libweir does not know";
        return texts[error];
}
