/* A folder of the test's own for configuration files, and what is read from them. */
#ifndef WEIR_TESTS_UNIT_CONFIG_BOX_H
#define WEIR_TESTS_UNIT_CONFIG_BOX_H

#include "check.h"

#include <sys/stat.h>

#include "serve/config.h"
#include "support/temp_dir.h"

static char config_folder[TEMP_DIR_SIZE];

static inline int make_folder(void **unused)
{
        (void)unused;
        temp_dir_make(config_folder);
        return 0;
}

static inline int remove_folder(void **unused)
{
        (void)unused;
        temp_dir_remove(config_folder);
        return 0;
}

/* A file of the folder; the path is good until the next one is written. */
static inline const char *write_file(const char *name, const char *text, mode_t mode)
{
        static char path[TEMP_DIR_SIZE + 40];
        (void)snprintf(path, sizeof(path), "%s/%s", config_folder, name);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(chmod(path, mode), 0);
        return path;
}

/* Reads the text from a file called `conf`. */
static inline int read_text(const char *text, struct config *c, struct problem *problem)
{
        config_init(c);
        return config_read_file(c, write_file("conf", text, 0600), problem);
}

/* Nothing is wrong with it. */
static inline void take_text(const char *text, struct config *c)
{
        struct problem problem = {0};
        if (read_text(text, c, &problem) != OK)
                fail_msg("%s in\n%s", problem.detail, text);
}

/* It is refused, and the reason names this. */
static inline void refuse_text(const char *text, const char *told)
{
        struct config c;
        struct problem problem = {0};
        if (read_text(text, &c, &problem) == OK)
                fail_msg("'%s' is taken", text);
        has(problem.detail, told);
        config_release(&c);
}

#endif
