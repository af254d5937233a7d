/* One binary, subcommands, nothing else: each has a room of its own. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/config.h"
#include "serve/backup.h"
#include "serve/config_text.h"
#include "serve/doctor.h"
#include "serve/inspect.h"
#include "serve/probe_command.h"
#include "serve/reference.h"
#include "serve/serve.h"

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
        {"serve", serve_main},     {"log", inspect_main},       {"docs", reference_main},
        {"probe", probe_main},     {"backup", backup_main},     {"doctor", doctor_main},
        {"version", version_main}, {"--version", version_main},
};

int main(int argc, char **argv)
{
        for (size_t i = 0; argc > 1 && i < sizeof(programs) / sizeof(programs[0]); i++)
                if (strcmp(argv[1], programs[i].name) == 0)
                        return programs[i].main(argc - 1, argv + 1);
        cli_config_read = config_read_text;
        return cli_main(argc - 1, argv + 1);
}
