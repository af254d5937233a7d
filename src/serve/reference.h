/* `weir docs WHAT`: reference pages written from the tables of the program. */
#ifndef WEIR_SERVE_REFERENCE_H
#define WEIR_SERVE_REFERENCE_H

/* argv[0] is "docs".  Returns the exit code. */
int reference_main(int argc, char **argv);

#endif
