/* One binary, subcommands, nothing else: each has a room of its own. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/config.h"
#include "serve/actionscheduler.h"
#include "serve/backup.h"
#include "serve/cluster_command.h"
#include "serve/config_text.h"
#include "serve/doctor.h"
#include "serve/inspect.h"
#include "serve/move.h"
#include "serve/probe_command.h"
#include "serve/reference.h"
#include "serve/serve.h"
#include "serve/tls_command.h"
#include "serve/wordpress_check.h"

static int version_main(int argc, char **argv)
{
        (void)argc; /* takes no words */
        (void)argv;
        printf("weir %s\n", WEIR_VERSION);
        return 0;
}

static const struct {
        const char *name;
        int (*main)(int argc, char **argv);
} programs[] = {
        {"serve", serve_main},       {"log", inspect_main},
        {"docs", reference_main},    {"probe", probe_main},
        {"backup", backup_main},     {"doctor", doctor_main},
        {"move", move_main},         {"version", version_main},
        {"--version", version_main}, {"history", inspect_history_main},
};

/* Those of two words. */
static const struct {
        const char *group, *name;
        int (*main)(int argc, char **argv);
} pairs[] = {
        {"wordpress", "check", wordpress_check_main},
        {"cluster", "init", cluster_init_main},
        {"tls", "self-signed", tls_self_signed_main},
        {"import", "actionscheduler", actionscheduler_import_main},
        {"export", "actionscheduler", actionscheduler_export_main},
};

/* A standard stream that was closed at the start would be the next file that is opened, and
 * messages would be written into that: a segment of the log, a pipe of a command.  Its place is
 * taken by a file that cannot be used in its direction, so that reading or writing fails as before.
 */
static void fill_standard_streams(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0)
                        (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
        fill_standard_streams();
        for (size_t i = 0; argc > 1 && i < sizeof(programs) / sizeof(programs[0]); i++)
                if (strcmp(argv[1], programs[i].name) == 0)
                        return programs[i].main(argc - 1, argv + 1);
        for (size_t i = 0; argc > 2 && i < sizeof(pairs) / sizeof(pairs[0]); i++)
                if (strcmp(argv[1], pairs[i].group) == 0 && strcmp(argv[2], pairs[i].name) == 0)
                        return pairs[i].main(argc - 2, argv + 2);
        cli_config_read = config_read_text;
        return cli_main(argc - 1, argv + 1);
}
