/* `weir cluster init`: makes the tables of a cluster, and says what weir's user must be granted. */
#ifndef WEIR_SERVE_CLUSTER_COMMAND_H
#define WEIR_SERVE_CLUSTER_COMMAND_H

/* argv[0] is "init".  Returns the exit code. */
int cluster_init_main(int argc, char **argv);

#endif
