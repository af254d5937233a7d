/* Where a database is, and how weir logs in there. */
#ifndef WEIR_SQL_LOGIN_H
#define WEIR_SQL_LOGIN_H

#include "base/err.h"

struct sql_wait;

struct sql_server {
        char *host; /* or the path of a unix socket */
        int port;
        char *name;     /* for people: "db2" */
        char *tls_name; /* that its certificate must be for; NULL: the host */
};

/* How a database is spoken to over TCP; a unix socket is never encrypted.  Each asks for more than
 * the one before. */
enum sql_tls_mode {
        SQL_TLS_OFF,
        SQL_TLS_PREFER,  /* plain when the server has no TLS, or none that works */
        SQL_TLS_REQUIRE, /* any certificate will do */
        SQL_TLS_VERIFY,  /* `ca` has signed the certificate, and it is for the server's name */
        SQL_TLS_MODES
};

/* Paths of PEM files, read at every connect; NULL: none. */
struct sql_tls {
        enum sql_tls_mode mode;
        char *ca;
        char *cert, *key; /* both or neither */
};

/* Its owner owns the strings. */
struct sql_login {
        struct sql_server server;
        char *user, *password; /* never logged */
        char *database;        /* NULL: none is chosen */
        struct sql_tls tls;
};

/* "db2 (10.0.0.2:3306)", "10.0.0.2:3306", "/run/mysqld/mysqld.sock". */
#define WHERE_MAX 128
const char *server_where(const struct sql_server *s, char *ret);
bool server_is_socket(const struct sql_server *s);
/* Whether people call it so: by its name, its host, or host:port; in any case. */
bool server_is_called(const struct sql_server *s, const char *name);
/* What a certificate must be for. */
const char *server_tls_name(const struct sql_server *s);
enum sql_tls_mode server_tls_mode(const struct sql_server *s, const struct sql_tls *tls);
/* Looks the name up and tries each address until one does: OK and what attempt() said last. */
int server_attempt(const struct sql_server *s, const struct sql_wait *w,
                   int (*attempt)(void *self, const char *address, const struct sql_wait *w,
                                  struct problem *problem),
                   void *self, struct problem *problem) MUST_CHECK;
/* Whether that errno of a connect says that no server listens there: the machine itself answers. */
bool is_nobody_there(int error);

#endif
