/* `weir serve`: opens the store, replays it, listens, and stops in order. */
#ifndef WEIR_SERVE_SERVE_H
#define WEIR_SERVE_SERVE_H

#define WEIR_VERSION "0.1.0"

/* argv[0] is "serve".  Returns the exit code. */
int serve_main(int argc, char **argv);

#endif
