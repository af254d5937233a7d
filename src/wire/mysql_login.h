/* How a MySQL session begins: the server's greeting, the client's login, COM_CHANGE_USER.
 *
 * The greeting is passed on with some capabilities cleared, and everything after it is the client's
 * and the server's own: the nonce is the server's, so whatever proves the password goes through
 * untouched, and nobody in between needs to know it.  Slices point into the payload. */
#ifndef WEIR_WIRE_MYSQL_LOGIN_H
#define WEIR_WIRE_MYSQL_LOGIN_H

#include "wire/mysql_packet.h"

struct mysql_greeting {
        uint64_t caps; /* as the server sent them */
        uint32_t thread_id;
        uint16_t status;
        struct slice version;
        bool is_mariadb; /* its extended capabilities are there */
};

/* Clears capabilities in a greeting (protocol version 10), in place, and tells what it says.
 * ERR_SYNTAX: it is none, and nothing was changed; an error packet in its place is ERR_UNAVAIL. */
int mysql_greeting_edit(uint8_t *payload, size_t len, uint64_t clear, struct mysql_greeting *ret,
                        struct problem *problem) MUST_CHECK;

/* Offers TLS in a greeting that mysql_greeting_edit() understood. */
void mysql_greeting_offer_tls(uint8_t *payload, size_t len);

struct mysql_login {
        uint64_t caps;       /* those of MariaDB only if the server has them: see below */
        bool is_tls_request; /* 32 bytes that ask for TLS; the login follows encrypted */
        struct slice user, database, plugin;
        struct slice attributes; /* for mysql_attribute_next() */
};

/* `server_caps`: of the greeting as the client saw it; what the server does not offer is not in
 * ret->caps.  ERR_SYNTAX: it makes no sense (or is of a client before 4.1). */
int mysql_login_parse(struct slice payload, uint64_t server_caps, struct mysql_login *ret,
                      struct problem *problem) MUST_CHECK;
/* The payload begins with the command byte; `caps` are those of the session. */
int mysql_change_user_parse(struct slice payload, uint64_t caps, struct mysql_login *ret,
                            struct problem *problem) MUST_CHECK;
/* The next connection attribute; false at the end, or where it makes no sense. */
bool mysql_attribute_next(struct slice *rest, struct slice *ret_key, struct slice *ret_value);

#endif
