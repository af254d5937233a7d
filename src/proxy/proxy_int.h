/* What the files of the proxy share.
 *
 *      proxy       doors and threads, as the loop sees them (for_core: as the core does)
 *      entrance    a socket that clients connect to
 *      door        what the connections of a door share: classes, admission, the server's address
 *      worker      a thread with its epoll loop: accepts, wakes, closes
 *      pair        a client and its connection to the server, from the greeting to the end
 *      relay       bytes from one side to the other
 *      command     what a command of the client is, and whether it may go
 *
 * Locks, each taken only after those before it:
 *      worker.lock     held by a thread while it handles events, so that the loop may look at its
 *                      connections while it sleeps
 *      proxy.list_lock which doors there are
 *      door.lock       classes and admission
 *      worker.mail_lock */
#ifndef WEIR_PROXY_PROXY_INT_H
#define WEIR_PROXY_PROXY_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "proxy/health.h"
#include "proxy/proxy.h"
#include "proxy/statements.h"
#include "proxy/stream.h"
#include "wire/mysql_login.h"
#include "wire/mysql_reply.h"
#include "wire/proxy_header.h"

#define PROXY_LISTENS_MAX 16
#define PROXY_THREADS_MAX 64
#define READ_BYTES        65536U /* of one read */
#define COLLECT_BYTES     65536U /* of a command that are judged; the rest streams */
#define LOGIN_BYTES       65536U
#define EXPECTED_MAX      8 /* replies that a client may wait for at once; more wait here */
#define LOGIN_MS          30000
#define LAST_BYTES_MS     60000 /* for the client to take the rest after the server has gone */

/* ---- what epoll points at ---- */

enum source_kind { SOURCE_ENTRANCE, SOURCE_WAKE, SOURCE_CLIENT, SOURCE_SERVER };
struct source {
        enum source_kind kind;
};

struct entrance {
        struct source source;
        struct door *door;
        int fd;
        char *text;                 /* as configured */
        char *address;              /* as it really is */
        char *path;                 /* of a unix socket, to be removed; NULL: it is none */
        bool is_kept;               /* a plan of a reload has it; false between reloads */
        struct entrance *next_dead; /* closed by a reload, and maybe still in a batch of events */
};

/* ---- doors ---- */

/* What a door was told by the file.  Shared by reference count; its fields do not change. */
struct setup {
        atomic_uint refs;
        struct class_table *classes;
        bool has_digests, has_modes; /* a row has */
        enum gate_mode mode;         /* of the file */
        int64_t wait_ns, connect_timeout_ns;
        uint32_t max_connections, max_user_connections;
        bool is_comment_trusted;
        enum proxy_tls_mode tls;
        enum proxy_server_tls server_tls;
        struct ssl_ctx_st *client_tls_ctx, *server_tls_ctx; /* NULL: none */
        char *server;                                       /* as configured */
        char *server_host; /* NULL: `server` is the path of a unix socket */
        char *server_port;
        char *server_name;        /* for its certificate */
        struct network *networks; /* that PROXY headers are taken from */
        size_t n_networks;
        bool trusts_unix; /* PROXY headers come on unix sockets */
        bool sends_proxy;
};
int setup_new(const struct proxy_door *options, struct setup **ret,
              struct problem *problem) MUST_CHECK;
struct setup *setup_ref(struct setup *s);
struct setup *setup_unref(struct setup *s);
/* Connections from there begin with a PROXY header; NULL: a unix socket. */
bool setup_trusts(const struct setup *s, const struct ip *peer);

struct server_address {
        struct sockaddr_storage any;
        socklen_t len; /* 0: not known yet */
};

struct door_class {
        struct hash_node node; /* by row, tier and identity */
        uint16_t number;
        struct traffic_class c;
        const struct class_row *row; /* of the door's setup; NULL: none */
        char key[];
};

struct door_user {
        struct hash_node node;
        uint32_t connections;
        char name[];
};

/* What a thread counts for a door; under the lock of the thread. */
struct door_share {
        struct statements *statements;
        uint64_t bytes_in, bytes_out; /* from clients, to clients */
};

struct door {
        struct proxy *proxy;
        char *name;
        struct door_share *shares; /* by the number of the thread */
        struct entrance *entrances[PROXY_LISTENS_MAX];
        size_t n_entrances;

        pthread_mutex_t lock;
        /* Under the lock: */
        struct setup *setup;
        uint64_t generation; /* of the setup: what connections remember of classes ends with it */
        enum gate_mode mode; /* as set */
        struct admission *admission;
        struct hash classes;
        struct door_class *by_number[ADMIT_CLASSES_MAX];
        size_t n_classes;
        struct hash users;
        struct server_address server;
        const struct setup *looked_up; /* the setup that it is of; others may be gone */
        char problem[TRAFFIC_TEXT];    /* why the server is away; "" */
        uint32_t n_connections;
        uint64_t accepted, refused;
        uint32_t n_waiting; /* tickets that wait for a decision */
        int64_t turn_ns;    /* when admission wants its turn; INT64_MAX: never */

        atomic_bool is_draining;
        atomic_bool is_gone;  /* it is not in the file any more */
        atomic_bool is_off;   /* nothing is read along: the mode is off, and no class has another */
        atomic_bool has_news; /* classes that the core has not heard of */
        struct worker *keeper; /* gives admission its turns */
};

/* ---- connections ---- */

struct side {
        struct source source;
        struct stream stream;
        struct buf out;  /* what could not be sent yet */
        size_t out_sent; /* of it */
        uint32_t events; /* that epoll was told; 0: it does not know the socket */
};

enum pair_phase {
        PAIR_HEADER,     /* a PROXY header is to come */
        PAIR_CONNECTING, /* to the server */
        PAIR_GREETING,   /* the server's is to come */
        PAIR_LOGIN,
        PAIR_READY,
        PAIR_BLIND, /* bytes pass unread */
        PAIR_CLOSED,
};

/* What a statement does to the locks that a session has outside of transactions. */
struct session_locks {
        bool takes_lock, releases_lock, releases_all; /* GET_LOCK() and its ends */
        bool takes_tables, releases_tables, opens_handler, closes_handler;
};

/* A command whose reply is to come. */
struct expected {
        uint8_t expect; /* enum mysql_expect */
        uint8_t command;
        uint8_t kind; /* enum sql_kind */
        bool is_ours; /* weir sent it: its reply is not the client's */
        struct session_locks locks;
        bool is_kill_statement;
        bool is_counted; /* as a statement */
        uint32_t kill_id;
        uint64_t digest;
        int64_t sent_ns;
        /* Of a PREPARE: */
        char *sql; /* owned; kept where its comments say who it is from; NULL: they do not */
        size_t sql_len;
};

struct prepared {
        uint32_t id;
        uint16_t parameters;
        bool has_long_data; /* was sent since it last ran */
        bool lacks_types;   /* those that the client sent were refused along with their statement */
        struct buf types;   /* while it lacks them */
        uint8_t kind;
        struct session_locks locks;
        uint64_t digest;
        char *sql; /* kept where its comments say who it is from; NULL: they do not */
        size_t sql_len;
};

struct pair {
        struct side client, server;
        struct list link; /* worker.conns */
        struct worker *worker;
        struct door *door;
        struct setup *setup; /* of when it began */
        enum pair_phase phase;
        bool is_torn_down;
        bool has_server_hung_up; /* while the client has no room; epoll would ring for ever */
        bool is_client_gone;     /* it closed its side, or both */
        bool is_held, is_admitted, is_refused; /* the command at the front of `in` */
        bool is_replying_late;                 /* the front of `in` waits for earlier replies */
        bool is_dropping;                      /* `rest` is that of a refused command */
        bool wants_file;                       /* packets of the client are a file */
        bool owes_refusal; /* the client is told when the transaction is rolled back */
        bool is_login_sent;
        bool has_server_tls;     /* the server offers it */
        int8_t sequence_shift;   /* of packets of a login: the server's number less the client's */
        uint8_t client_sequence; /* of the packet that the client waits for in a login */
        uint8_t refused_sequence;
        uint16_t refused_error;
        char refused_state[6];
        uint32_t refused_statement; /* a prepared one; 0: none */
        int64_t phase_ns;           /* since when it is in this phase */
        int64_t began_ns, state_ns;
        int64_t server_gone_ns;

        /* The session, as the server's packets tell. */
        uint32_t thread_id;
        uint64_t server_caps, caps;
        uint16_t status;
        bool is_in_transaction, is_empty_transaction;
        bool has_tables_locked;
        uint32_t n_user_locks, n_handlers;
        unsigned login_turns; /* packets that the client may send as part of a login */

        /* Who it is. */
        char user[TRAFFIC_NAME_MAX + 1], database[TRAFFIC_NAME_MAX + 1];
        char program[TRAFFIC_NAME_MAX + 1], address[TRAFFIC_ADDRESS_MAX];
        char next_database[TRAFFIC_NAME_MAX + 1]; /* when the server has agreed */
        struct proxy_header ends; /* of its connection, or as a PROXY header tells */
        bool is_user_counted;
        uint64_t class_generation; /* of: */
        int class_of[2];           /* reads and writes without tags; -1: not looked up */
        uint32_t last_class;

        struct buf in; /* bytes of the client that are not taken yet */
        struct mysql_rest rest;
        struct mysql_reply reply;
        struct expected expected[EXPECTED_MAX]; /* a ring */
        unsigned expected_first, n_expected;
        struct prepared *prepared; /* sorted by id */
        size_t n_prepared, prepared_cap;
        uint32_t last_prepared;

        struct ticket ticket;
        struct ticket_use use;
        struct list mail;              /* worker.mail: a decision waits for it */
        struct admit_answer *decision; /* of the ticket; under worker.mail_lock until taken */
        uint64_t statements, transactions;
        char why[TRAFFIC_TEXT]; /* it is held */
        uint64_t held_digest;
};

struct kill_order {
        struct kill_order *next;
        struct door *door;
        uint32_t thread_id;
};

struct worker {
        struct proxy *proxy;
        unsigned number;
        pthread_t thread;
        bool is_started;
        int epoll_fd, wake_fd, spare_fd;
        struct source wake;
        atomic_uint n_conns;

        pthread_mutex_t lock;
        /* Under the lock: */
        struct list conns;
        struct list dead; /* conns that are freed after the batch of events */
        int64_t now_ns;
        int64_t looked_ns; /* timeouts were last looked for */
        uint8_t *bytes;    /* READ_BYTES */

        _Atomic int64_t turn_ns; /* the first of its doors wants one; INT64_MAX: none does */
        atomic_bool has_mail;

        pthread_mutex_t mail_lock;
        /* Under the mail_lock: */
        struct list mail;     /* conns with a decision */
        struct list arrivals; /* conns that were accepted for this thread */
        struct kill_order *kills;
};

static inline bool pair_has_locks(const struct pair *c)
{
        return c->has_tables_locked || c->n_user_locks || c->n_handlers;
}

static inline struct statements *pair_statements(const struct pair *c)
{
        return c->door->shares[c->worker->number].statements;
}

struct proxy {
        struct loop *loop;
        struct loop_mail mail; /* classes that the core has not heard of */
        struct worker *workers;
        unsigned n_workers;
        struct door *doors[TRAFFIC_DOORS_MAX];
        size_t n_doors;
        struct door **gone; /* doors that are not in the file any more */
        size_t n_gone;
        atomic_bool is_stopping;   /* connections close when they have no transaction */
        atomic_bool is_cut;        /* threads end */
        pthread_mutex_t list_lock; /* doors and gone, as the threads see them */
        struct health *health;
        struct proxy_member *member;
        struct entrance *dead; /* closed by a reload */
};

/* ---- door.c ---- */

struct door *door_new(struct proxy *p, const char *name);
struct door *door_free(struct door *d);
/* Takes the reference. */
void door_set(struct door *d, struct setup *setup, const struct proxy_door *o);
void door_set_mode(struct door *d, enum gate_mode mode);
/* The row and the class of these facts.  Under the lock. */
void door_describe(const struct door *d, const struct class_facts *facts,
                   const struct class_row **ret_row, struct traffic_class *ret);
struct class_limits door_limits(const struct door *d, const struct class_row *row);
/* NULL: no transaction of it was seen yet.  Under the lock. */
const struct door_class *door_find_class(const struct door *d, const struct traffic_class *c);
/* The number of the class of these facts, made when it is missing.  Under the lock. */
size_t door_class(struct door *d, const struct class_facts *facts);
/* What the class of that row, identity and comment is remembered to usually do.  Without the row,
 * nothing.  Under the lock. */
void door_remember(struct door *d, const struct traffic_class *class,
                   const struct usual_memory *memory, const struct digest_row *rows, size_t n);
/* Tells the core of classes that it has not heard of.  Not under the lock. */
void door_tell_news(struct door *d);
/* Gives admission its turn.  Under the lock. */
void door_turn(struct door *d, int64_t now_ns);
/* Counts the connection of that user; false: there are too many. */
bool door_add_user(struct door *d, const struct setup *setup, const char *user);
void door_remove_user(struct door *d, const char *user);
void door_server_problem(struct door *d, const char *fmt, ...) PRINTF(2, 3);
void door_server_fine(struct door *d);

/* ---- entrance.c ---- */

int entrance_new(struct door *d, const char *text, struct entrance **ret,
                 struct problem *problem) MUST_CHECK;
void entrance_open(struct entrance *l); /* accepts from now on */
void entrance_close(struct entrance *l);
struct entrance *entrance_free(struct entrance *l);

/* ---- mail.c; any thread ---- */

void mail_wake(struct worker *w);
void mail_want_turn(struct worker *w, int64_t at_ns);
void mail_arrival(struct worker *w, struct pair *c);
/* Under the lock of the door. */
void mail_decided(struct pair *c, const struct admit_answer *answer);
/* KILL QUERY of that thread of the server: it may be held here. */
void mail_kill(struct proxy *p, struct door *d, uint32_t thread_id);
int mail_watch(struct worker *w, int fd, void *source, uint32_t events);

/* ---- worker.c ---- */

void worker_init(struct worker *w, struct proxy *p, unsigned number);
int worker_start(struct worker *w, struct problem *problem) MUST_CHECK;
void worker_join(struct worker *w);    /* after is_cut was set */
void worker_release(struct worker *w); /* closes its connections; all threads are joined */

/* ---- session.c ---- */

void pair_set_phase(struct pair *c, enum pair_phase phase);
void pair_end(struct pair *c);                        /* it is torn down after this event */
void pair_lost(struct pair *c, const struct side *s); /* that side is gone */
/* Sends, or keeps what the socket does not take. */
void pair_send(struct pair *c, struct side *to, const uint8_t *bytes, size_t n);
/* Makes the client read an error in the place of what it waits for, and ends. */
void pair_fail(struct pair *c, uint8_t sequence, unsigned number, const char *sqlstate,
               const char *fmt, ...) PRINTF(5, 6);
/* A reply is to come: valid until it has. */
struct expected *pair_expect(struct pair *c, enum mysql_expect expect, uint8_t command);
void pair_take_login(struct pair *c, const struct mysql_login *login);
void pair_take_database(struct pair *c, struct slice name);
#define LAST_PREPARED UINT32_MAX /* stands for the last one that was prepared */
struct prepared *prepared_find(const struct pair *c, uint32_t id);
void prepared_remove(struct pair *c, uint32_t id);
void prepared_add(struct pair *c, const struct prepared *p); /* takes p->sql */
void session_forget(struct pair *c);                         /* it is as a new one */

/* ---- pair.c ---- */

struct pair *pair_new(struct door *d, int fd, const struct sockaddr_storage *peer);
void pair_begin(struct worker *w, struct pair *c); /* on its thread */
void pair_close(struct pair *c);
void pair_free(struct pair *c);
void pair_ready(struct pair *c, struct side *s, uint32_t events);
void pair_decide(struct pair *c, const struct admit_answer *answer); /* it was held */
void pair_killed(struct pair *c);
void pair_look(struct pair *c); /* once a second: timeouts, draining */
enum traffic_state pair_state(const struct pair *c);

/* ---- relay.c ---- */

/* How a packet of the client was taken. */
enum taken {
        TAKEN_FORWARD, /* to be sent on */
        TAKEN_DROP,    /* not to be sent on */
        TAKEN_NOTHING, /* it must wait, or is not whole */
};

void relay_from_client(struct pair *c);
void relay_from_server(struct pair *c);
void relay_go_on(struct pair *c); /* with what is in c->in */

/* ---- login.c ---- */

void login_greeting(struct pair *c, const uint8_t *bytes, size_t n);
size_t login_read_bytes(const struct pair *c); /* how much of the client may be read at once */
void login_shift(struct pair *c, uint8_t *bytes, size_t n);
enum taken login_take(struct pair *c, const uint8_t *bytes, size_t n, size_t *ret);

/* ---- command.c ---- */

enum judgement {
        JUDGE_FORWARD,
        JUDGE_HOLD,     /* the gate makes it wait */
        JUDGE_LATER,    /* replies are to come first */
        JUDGE_SENT,     /* in another form; what follows of it goes on as it is */
        JUDGE_ANSWERED, /* by weir itself */
        JUDGE_REFUSE,
};
/* A packet that begins a command: the first COLLECT_BYTES of its payload, or all. */
enum judgement command_judge(struct pair *c, const uint8_t header[MYSQL_HEADER],
                             struct slice payload);
/* A connection that will pass unread: asked once, at its beginning. */
enum judgement command_judge_blind(struct pair *c);
void command_refused(struct pair *c, const struct admit_answer *answer);
void command_answer_refused(struct pair *c); /* the refused command has been read to its end */
void command_send_refusal(struct pair *c);   /* if one is owed, and nothing stands before it */
/* Its reply is complete, in c->reply. */
void command_replied(struct pair *c, const struct expected *e);

/* ---- show.c ---- */

void show_answer(struct pair *c, const struct sql_text *text);

#endif
