/* `weir tls self-signed`: files for trying TLS. */
#ifndef WEIR_SERVE_TLS_COMMAND_H
#define WEIR_SERVE_TLS_COMMAND_H

int tls_self_signed_main(int argc, char **argv);

#endif
