/* A queue in one table, claimed with SKIP LOCKED: what the dialects of sql_queue.c are.
 *
 * The best form that the database has for each step, prepared, and durable like everything else:
 *
 *   enqueue   one INSERT of n rows
 *   claim     the n oldest rows that nobody has, locked with SKIP LOCKED, marked, and read
 *   complete  one DELETE of n rows, by id and claimer
 *
 * An error ends the program (die()); the loser of a deadlock tries again and counts it.
 * Threads: each connection belongs to one. */
#ifndef WEIR_BENCH_SQL_QUEUE_H
#define WEIR_BENCH_SQL_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#define BATCH_MAX   256
#define PAYLOAD_MIN 64
#define PAYLOAD_MAX 4096

struct queue_server {
        const char *host; /* an address, or the folder of a socket */
        unsigned port;
        const char *user, *password;
        unsigned payload; /* bytes of each */
};

struct queue_job {
        int64_t id;
        char payload[PAYLOAD_MAX + 1];
};

struct queue_conn; /* each dialect has its own */

struct queue_dialect {
        const char *name;
        /* batch: how many jobs a statement takes at most. */
        struct queue_conn *(*open)(const struct queue_server *server, unsigned batch,
                                   unsigned claimer);
        void (*close)(struct queue_conn *c);
        void (*make_table)(struct queue_conn *c);        /* an empty one */
        void (*prepare)(struct queue_conn *c);           /* once the table is there */
        uint64_t (*count)(struct queue_conn *c);         /* of its rows */
        uint64_t (*retries)(const struct queue_conn *c); /* deadlocks lost so far */
        /* payloads: n times server->payload bytes. */
        void (*enqueue)(struct queue_conn *c, const char *payloads, size_t n);
        size_t (*claim)(struct queue_conn *c, size_t n, struct queue_job *ret);
        void (*complete)(struct queue_conn *c, const struct queue_job *jobs, size_t n);
};

extern const struct queue_dialect queue_postgres, queue_mariadb;

#endif
