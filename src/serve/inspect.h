/* `weir log verify|dump|salvage`: looking at a stopped log, and saving what can be saved. */
#ifndef WEIR_SERVE_INSPECT_H
#define WEIR_SERVE_INSPECT_H

/* argv[0] is "log".  Returns the exit code. */
int inspect_main(int argc, char **argv);

#endif
