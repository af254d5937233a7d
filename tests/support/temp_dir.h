/* A folder of the test's own, gone at the end. */
#ifndef WEIR_TESTS_SUPPORT_TEMP_DIR_H
#define WEIR_TESTS_SUPPORT_TEMP_DIR_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMP_DIR_SIZE 256

/* Fills ret (TEMP_DIR_SIZE bytes) and returns it. */
__attribute__((unused)) static char *temp_dir_make(char *ret)
{
        const char *base = getenv("TMPDIR");
        snprintf(ret, TEMP_DIR_SIZE, "%s/weir-test-XXXXXX", base && *base ? base : "/tmp");
        if (!mkdtemp(ret))
                abort();
        return ret;
}

__attribute__((unused)) static void temp_dir_remove(const char *path)
{
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                char inside[TEMP_DIR_SIZE + 300];
                snprintf(inside, sizeof(inside), "%s/%s", path, e->d_name);
                if (unlink(inside) < 0)
                        temp_dir_remove(inside);
        }
        if (dir)
                closedir(dir);
        (void)rmdir(path);
}

#endif
