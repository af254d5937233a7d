/* libweir: ask weir before heavy work.
 *
 *      struct weir *w;
 *      int r = weir_new(NULL, WEIR_WAIT_THEN_OPEN, &w);        // $WEIR_URL, else 127.0.0.1:7379
 *      if (r != WEIR_OK)
 *              errx(1, "%s", weir_strerror(r));
 *      while (!done) {
 *              if (weir_step(w, "purge-orders:nightly", 1) == WEIR_GO)
 *                      done = delete_a_thousand_rows();
 *      }
 *      weir_free(w);
 *
 * weir_step() returns when the next step may go.  It does not poll: while there are credits from
 * an earlier answer it asks nobody and takes about a microsecond; otherwise weir keeps the
 * question and answers it when the database can take the work.
 *
 * Every call ends with WEIR_GO or WEIR_NO.  There is no third outcome to handle: when weir is
 * away, answers nonsense or answers too late, the policy given to weir_new() decides, and
 * weir_message() says what was wrong.
 *
 * The library has no global state, starts no thread, installs no signal handler, never raises
 * SIGPIPE, prints nothing and never ends the process.  OpenSSL, which it uses for rediss:// alone,
 * keeps the state that it has for every program.  A handle belongs to one thread at a time;
 * threads that ask at once have a handle each.  After fork(2) the child may go on with the handle:
 * it notices, and makes a connection of its own.  Times are milliseconds on CLOCK_BOOTTIME.
 *
 * C11 and C++11.  Link with `pkg-config --libs libweir`.  The manual is libweir(3). */
#ifndef WEIR_H
#define WEIR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

struct weir;

enum weir_verdict {
        WEIR_NO = 0, /* not now */
        WEIR_GO = 1, /* do the step */
};

/* What an ask gets when weir cannot be asked. */
enum weir_policy {
        WEIR_OPEN,           /* go: the work matters more than the database's ease */
        WEIR_CLOSED,         /* no: without weir's word nothing moves */
        WEIR_WAIT_THEN_OPEN, /* no until WEIR_SET_HOLD_MS after weir was lost, then go */
};

/* What was wrong.  weir_strerror() has a sentence for each. */
enum weir_error {
        WEIR_OK = 0,
        WEIR_EAWAY,     /* nothing answers, or the connection was lost */
        WEIR_ETIMEDOUT, /* no answer in time */
        WEIR_EPROTO,    /* what answers is no weir */
        WEIR_EDENIED,   /* a token is wanted, or this one is wrong */
        WEIR_EASK,      /* weir does not take this ask: its identity, target, priority or metric */
        WEIR_ESERVER,   /* weir answered with an error of its own: stopping, out of memory */
        WEIR_EINTR,     /* a signal came, and WEIR_SET_INTERRUPTIBLE is set */
        WEIR_ENOMEM,    /* no memory left in this process */
        WEIR_EURL,      /* not an address of weir */
        WEIR_EINVAL,    /* no such setting, or a value out of its bounds */
        WEIR_ETLS,      /* TLS failed: a certificate is refused, or a file cannot be used */
};

/* Who gave an answer. */
enum weir_source {
        WEIR_FROM_SERVER, /* weir */
        WEIR_FROM_CREDIT, /* a credit of an earlier answer */
        WEIR_FROM_CLIENT, /* this library: refused so often of late that weir was not asked */
        WEIR_FROM_POLICY, /* weir could not be asked; `error` says why */
};

/* One question.  What is zero has its default, so name what you need:
 *      struct weir_ask ask = {.identity = "7f3e:vcopier:online-ddl", .target = "main"}; */
struct weir_ask {
        const char *identity; /* who: 1 to 8 names between colons, specific to general */
        const char *target;   /* which database; NULL: the first that weir knows */
        const char *priority; /* "critical" "high" "normal" "deferrable"; NULL: as registered */
        const char *const *metrics; /* ends with a NULL; NULL: those the target is checked by */
        uint32_t cost;              /* size of the step in your own unit; 0 is 1 */
        uint32_t wait_ms;     /* weir_check: how long weir may keep the question; 0: not at all.
                                 weir_step_ask: time for the step; 0: WEIR_SET_STEP_MS */
        uint64_t reserved[4]; /* zero */
};

/* One answer.  Texts are never NULL and cut to their room; "" means none. */
struct weir_answer {
        enum weir_verdict verdict;
        enum weir_source source;
        enum weir_error error; /* of WEIR_FROM_POLICY, else WEIR_OK */
        char reason[32]; /* weir's: "granted", "threshold", "hold", "ratio" ...; ours: "credit",
                            "client", "away", "error" */
        char metric[64]; /* the one that decided, or the nearest to its threshold */
        double value;    /* NaN: none */
        double threshold;
        int64_t age_ms;   /* of the value; -1: none */
        char rule[256];   /* name of the operator's rule that decided */
        char would[32];   /* the reason weir would refuse for, were it not only observing */
        uint32_t wait_ms; /* do not ask again sooner; also after a grant, when weir sets the pace */
        uint32_t credits; /* further steps of this cost that may go without asking ... */
        uint32_t credit_ms; /* ... within so long.  weir_step() uses them up by itself */
        uint64_t reserved[4];
};

/* url: redis://[[user]:token@]host[:port], unix:/path, host:port; or, over TLS 1.2 or 1.3,
 * rediss://[[user]:token@]host[:port][?option=value&...] with port 7381 when there is none.  A `%`
 * escape is decoded.
 *
 * The options of TLS, each also in the environment for a url without it:
 *      ca=FILE      WEIR_TLS_CA      authorities to trust, in PEM form; default: the system's
 *      cert=FILE    WEIR_TLS_CERT    certificate of this client, and the chain to its authority
 *      key=FILE     WEIR_TLS_KEY     its key, without a passphrase; default: it is in `cert`
 *      name=NAME    WEIR_TLS_NAME    name in the server's certificate; default: the host
 *      verify=off   WEIR_TLS_VERIFY  takes any certificate: encrypted, but anybody can be the
 * server The files are read for each connection; one that cannot be used is WEIR_ETLS of the ask.
 *
 * NULL: $WEIR_URL with $WEIR_TOKEN, else 127.0.0.1:7379.  Does not connect: the first ask does.
 * WEIR_EURL, WEIR_ENOMEM or WEIR_EINVAL, and then *ret is NULL. */
WEIR_API int weir_new(const char *url, enum weir_policy policy, struct weir **ret);
WEIR_API void weir_free(struct weir *w); /* NULL is fine */

/* The call for a loop: returns WEIR_GO when the step may go, WEIR_NO when that was not so within
 * WEIR_SET_STEP_MS.  The same as weir_step_ask() with an identity and a cost alone. */
WEIR_API enum weir_verdict weir_step(struct weir *w, const char *identity, uint32_t cost);

/* The same with everything an ask can say; ret may be NULL. */
WEIR_API enum weir_verdict weir_step_ask(struct weir *w, const struct weir_ask *ask,
                                         struct weir_answer *ret);

/* One question, one answer, at once or within ask->wait_ms; uses no credits and keeps none, so
 * those in the answer are the caller's.  ret may be NULL. */
WEIR_API enum weir_verdict weir_check(struct weir *w, const struct weir_ask *ask,
                                      struct weir_answer *ret);

/* Times are in milliseconds.  WEIR_SET_STEP_MS is what a step waits for weir's word; when weir
 * hangs, WEIR_SET_CONNECT_MS or WEIR_SET_REPLY_MS may come on top.
 *                                  default        bounds */
enum weir_setting {
        WEIR_SET_CONNECT_MS,     /*  1,000   1 .. 60,000  time to connect */
        WEIR_SET_REPLY_MS,       /*  1,000   1 .. 60,000  time to answer, once it may */
        WEIR_SET_STEP_MS,        /* 60,000   1 .. 2^32-1  time for one weir_step() */
        WEIR_SET_WAIT_MS,        /* 10,000  1 .. 600,000  weir keeps a step's question */
        WEIR_SET_HOLD_MS,        /* 30,000   0 .. 2^32-1  of WEIR_WAIT_THEN_OPEN */
        WEIR_SET_BACKOFF_MS,     /*    100  1 .. 600,000  first pause after a failure */
        WEIR_SET_BACKOFF_MAX_MS, /* 10,000  1 .. 600,000  the pause doubles up to this */
        WEIR_SET_K_PERCENT,      /*    200   0 .. 10,000  K of the throttling; 0: off */
        WEIR_SET_PROBE_MS,       /*  1,000  1 .. 600,000  it lets an ask through so often */
        WEIR_SET_INTERRUPTIBLE,  /*      0        0 .. 1  a signal ends a wait */
};
/* Any time; WEIR_OK, or WEIR_EINVAL and nothing is changed. */
WEIR_API int weir_set(struct weir *w, enum weir_setting setting, uint32_t value);

/* What this handle has done so far. */
enum weir_counter {
        WEIR_COUNT_STEPS,     /* calls of weir_step() and weir_step_ask() */
        WEIR_COUNT_ASKS,      /* questions sent to weir */
        WEIR_COUNT_GRANTED,   /* ... and answered with go */
        WEIR_COUNT_REFUSED,   /* ... and answered with no */
        WEIR_COUNT_CREDITED,  /* steps that went on a credit */
        WEIR_COUNT_THROTTLED, /* questions this library kept back */
        WEIR_COUNT_CONNECTS,  /* attempts to connect */
        WEIR_COUNT_FAILURES,  /* questions without a usable answer */
};
WEIR_API uint64_t weir_count(const struct weir *w, enum weir_counter counter);

/* The last failure as a sentence with its address and cause, "" when there was none yet.  Never
 * holds the token.  Valid until the next call with this handle. */
WEIR_API const char *weir_message(const struct weir *w);
WEIR_API const char *weir_strerror(int error); /* static; never NULL */

#ifdef __cplusplus
}
#endif

#endif
