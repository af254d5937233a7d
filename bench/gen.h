/* The load generator's parts: a run (options and counters), its connections, and one protocol.
 *
 * A connection works in batches: it sends up to `depth` requests in one write, reads until the
 * last reply of the batch is in, and only then sends the next batch.  So every peer meets the
 * same traffic, and the depth is exactly the number of jobs a connection has under way.
 *
 * Ownership: the run owns everything; nothing is freed before the process ends.
 * Threads: one. */
#ifndef WEIR_BENCH_GEN_H
#define WEIR_BENCH_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "payload.h"
#include "record.h"
#include "sample.h"

#define DEPTH_MAX   1024
#define CONNS_MAX   1024
#define PAYLOAD_MIN 64
#define PAYLOAD_MAX 65536

/* Every payload carries a number of its own, in ten digits at this offset: {"n":"0000000042",...
 * A number that comes back twice, or was never sent, is an error of the peer. */
#define NUMBER_OFFSET 6
#define NUMBER_DIGITS 10
#define NUMBERS_MAX   (1u << 27)

enum stage { STAGE_IDLE, STAGE_PUT, STAGE_CLAIM, STAGE_ACK, STAGE_NEXT, STAGE_DONE };

/* A job in this connection's hands: what its protocol needs to finish it. */
struct held {
        char id[40]; /* as the server wrote it */
        uint8_t id_len;
        char token[32];  /* weir only */
        uint32_t number; /* from the payload; some need it to write the payload or its end again */
};

struct run;

struct conn {
        struct run *run;
        int fd;
        unsigned index; /* 0.., also the name of this connection's worker */
        enum stage stage;
        bool wants_write;    /* registered for EPOLLOUT */
        bool counts_replies; /* each reply of this batch stands for one job */
        bool was_empty;      /* the last claim brought nothing: the next one may wait */
        size_t awaited;      /* replies of this batch still to come */
        size_t batch;        /* jobs in this batch of puts or acks */
        size_t claiming;     /* the combined form: this many last requests of the batch claim */
        size_t failing;      /* this many replies to come, the next ones, are of failed jobs */
        size_t debt;         /* jobs put by this connection and not yet claimed by it */
        struct held *held;
        size_t n_held;
        int64_t last_id;    /* ids of accepted jobs must grow on each connection */
        unsigned next_lock; /* locks only: how many names were asked for so far */
        char *in;
        size_t in_len, in_done, in_cap;
        char *puts; /* `depth` enqueue requests, written once; only the numbers change */
        size_t put_stride, put_number, puts_len; /* bytes; offset of the number in a request */
        char *reqs;                              /* scratch for all other requests */
        size_t reqs_len, reqs_cap;
        const char *out; /* what is being sent: puts or reqs */
        size_t out_len, out_done;
};

/* How one server is spoken to.  The builders write the batch into c->reqs (or renew c->puts),
 * point c->out at it and return the number of replies to expect. */
struct proto {
        const char *name;
        void (*prepare)(struct conn *c); /* writes c->puts; may talk to the server first */
        size_t (*put)(struct conn *c, size_t n);
        size_t (*claim)(struct conn *c, size_t n, unsigned wait_ms);
        size_t (*ack)(struct conn *c);            /* the last c->batch of those held: all or one */
        size_t (*next)(struct conn *c, size_t n); /* ack everything and claim n; NULL: no such */
        /* One reply of c->stage from p: bytes consumed, or 0 when it is not whole yet.
         * A reply that is wrong ends the program. */
        size_t (*reply)(struct conn *c, const char *p, const char *end);
};

struct counters {
        uint64_t puts, claims, acks;
        uint64_t fails; /* of the acks */
        uint64_t empty; /* claims that brought nothing although a job was there, or at the end */
};

struct run {
        const struct proto *proto;
        char host[64];
        unsigned port;
        const char *socket_path; /* a Unix socket instead of host and port, or NULL */
        unsigned n_conns, depth, payload;
        bool is_many;   /* one request puts a whole batch, where the protocol can */
        bool is_batch;  /* one request claims a whole batch, where the protocol can */
        bool is_next;   /* finish and claim in one request, where the protocol can */
        bool is_single; /* a cycle puts and finishes one by one, claims `depth`; weir only */
        bool is_json;   /* the payload of payload.h instead of the template; weir only */
        pid_t pid;      /* the server, for its CPU time; 0: not asked */
        char disk[64];  /* /sys/dev/block/M:m/stat of the data folder, or "" */
        char *template; /* one payload, without its number */
        uint32_t next_number;
        uint32_t put_limit;    /* no number from here on is put in this phase */
        uint64_t *seen;        /* a bit per number that was claimed */
        struct record *record; /* of what was claimed, or NULL; weir only */
        struct counters count;
        struct conn *conns;
};

/* proto_weir.c, proto_redis.c, proto_beanstalk.c */
extern const struct proto proto_weir, proto_list, proto_stream, proto_beanstalk;
/* proto_lock.c: no puts; a lock is claimed and finished */
extern const struct proto proto_weir_lock, proto_redis_lock;

/* conn.c */
void conn_open(struct conn *c, struct run *run, unsigned index);
void conn_call(struct conn *c, const char *req, size_t len, char first); /* blocking, at setup */
void conn_use_reqs(struct conn *c);
char *conn_more(struct conn *c, size_t n); /* room for n bytes in reqs; add to reqs_len after */
void conn_add(struct conn *c, const char *bytes, size_t len);
void conn_addf(struct conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void conn_make_puts(struct conn *c, const char *head, const char *tail);
size_t conn_number_puts(struct conn *c, size_t n); /* takes fresh numbers, points out at them */
struct held *conn_hold(struct conn *c, const char *payload, size_t len);
void conn_check_id(struct conn *c, int64_t id);
bool conn_fill(struct conn *c);  /* one recv; false when nothing was there */
bool conn_flush(struct conn *c); /* one send; false when some is left */
void number_write(char *to, uint32_t number);
__attribute__((noreturn, format(printf, 2, 3))) void conn_wrong(struct conn *c, const char *fmt,
                                                                ...);

/* engine.c: one phase; seconds == 0 means until the work is used up. */
enum work { WORK_PUT, WORK_DRAIN, WORK_CYCLE, WORK_LOCK };
void engine_run(struct run *run, enum work work, double seconds, double warm_s);

/* latency.c */
void latency_run(struct run *run, unsigned samples, unsigned gap_us);

#endif
