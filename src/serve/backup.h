/* `weir backup`: a consistent copy of the data of a running server. */
#ifndef WEIR_SERVE_BACKUP_H
#define WEIR_SERVE_BACKUP_H

int backup_main(int argc, char **argv);

#endif
