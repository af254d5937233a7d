/* See config_secret.h. */
#include "serve/config_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int config_read_secret(const char *what, const char *path, char *ret, size_t size,
                       struct problem *problem)
{
        ASSERT(size > 1 && size < INT_MAX);
        struct stat st;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return problem_set(problem, ERR_IO, "%s %s: %s", what, path, strerror(errno));
        int r = OK;
        ssize_t n = 0;
        if (fstat(fd, &st) != 0)
                r = problem_set(problem, ERR_IO, "%s: %s", path, strerror(errno));
        else if (st.st_mode & (S_IWGRP | S_IWOTH | S_IROTH))
                r = problem_set(problem, ERR_FORBIDDEN,
                                "%s can be read or written by others: chmod 600 it", path);
        else if ((n = read(fd, ret, size - 1)) < 0)
                r = problem_set(problem, ERR_IO, "%s %s: %s", what, path, strerror(errno));
        (void)close(fd); /* only read from */
        if (r != OK)
                return r;
        ret[n] = '\0';
        return (int)n;
}
