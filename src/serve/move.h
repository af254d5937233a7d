/* `weir move`: the data of a lone weir into a cluster, and back. */
#ifndef WEIR_SERVE_MOVE_H
#define WEIR_SERVE_MOVE_H

int move_main(int argc, char **argv);

#endif
