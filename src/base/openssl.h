/* OpenSSL's headers beside our errors: it has a type of the name ERR_STATE, which nothing here
 * uses, and which is an error of ours. */
#ifndef WEIR_BASE_OPENSSL_H
#define WEIR_BASE_OPENSSL_H

#define ERR_STATE openssl_err_state
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

#endif
