/* `weir probe`: asks the targets of a configuration and shows what they answer. */
#ifndef WEIR_SERVE_PROBE_COMMAND_H
#define WEIR_SERVE_PROBE_COMMAND_H

/* argv[0] is "probe".  Returns the exit code. */
int probe_main(int argc, char **argv);

#endif
