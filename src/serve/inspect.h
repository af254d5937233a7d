/* `weir log verify|dump|salvage` and `weir history`: looking at what is on disk, and saving what
 * can be saved. */
#ifndef WEIR_SERVE_INSPECT_H
#define WEIR_SERVE_INSPECT_H

/* argv[0] is "log".  Returns the exit code. */
int inspect_main(int argc, char **argv);
/* The same for "history". */
int inspect_history_main(int argc, char **argv);

#endif
