/* The words of the TLS settings, and the sentences for what TLS can fail by: the same for every
 * kind of database. */
#ifndef WEIR_SQL_TLS_H
#define WEIR_SQL_TLS_H

#include "sql/login.h"

const char *sql_tls_mode_name(enum sql_tls_mode mode); /* "verify" */

/* `code` is OpenSSL's X509_V_ERR. */
int tls_no_server(struct problem *problem, const char *where);
int tls_wrong_name(struct problem *problem, const char *where, const struct sql_server *s);
int tls_bad_certificate(struct problem *problem, const char *where, long code);
/* What the certificate of the last connection that ended on this thread was refused for, since
 * tls_forget(); 0: nothing. */
void tls_forget(void);
long tls_last_code(void);
void tls_setup(void); /* before the first connection; once is enough */

#endif
