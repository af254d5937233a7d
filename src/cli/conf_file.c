/* See conf_file.h. */
#include "cli/conf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shown.h"

/* Such a file decides which programs run and who may connect.  The group may write when it is our
 * own: many systems give each user a group of its own and a umask of 002. */
static int check_writers(int fd, const char *what, const char *path, struct problem *p)
{
        struct stat st;
        if (fstat(fd, &st) != 0)
                return problem_set(p, ERR_IO, "%s %s: %s", what, SHOWN_LONG(path), strerror(errno));
        bool is_open_to_group = st.st_mode & S_IWGRP && st.st_gid != getegid();
        if (S_ISREG(st.st_mode) && (st.st_mode & S_IWOTH || is_open_to_group))
                return problem_set(p, ERR_FORBIDDEN,
                                   "%s %s can be changed by other users: chmod go-w it", what,
                                   SHOWN_LONG(path));
        return OK;
}

int conf_file_read(const char *what, const char *path, struct buf *ret, struct problem *p)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return problem_set(p, ERR_IO, "%s %s: %s", what, SHOWN_LONG(path), strerror(errno));
        int r = check_writers(fd, what, path, p);
        ssize_t n = r == OK ? 1 : 0;
        while (n > 0 && buf_reserve(ret, 4096)) {
                n = read(fd, ret->ptr + ret->len, 4096);
                ret->len += n > 0 ? (size_t)n : 0;
        }
        int error = errno;
        (void)close(fd); /* only read from */
        if (r != OK)
                return r;
        if (n < 0)
                return problem_set(p, ERR_IO, "%s %s: %s", what, SHOWN_LONG(path), strerror(error));
        if (ret->failed)
                return problem_set(p, ERR_TOOBIG, "%s %s: more than %zu bytes", what,
                                   SHOWN_LONG(path), ret->max);
        if (ret->len >= 3 && memcmp(ret->ptr, "\xef\xbb\xbf", 3) == 0)
                buf_drop_front(ret, 3); /* a mark of some editors */
        if (memchr(buf_cstr(ret), '\0', ret->len))
                return problem_set(p, ERR_BADARG, "%s is no text", SHOWN_LONG(path));
        return OK;
}

char *conf_file_skip_text(char *s, int *line)
{
        char quote = *s++;
        for (; *s && *s != quote; s++) {
                if (*s == '\\' && s[1])
                        s++;
                *line += *s == '\n';
        }
        return *s ? s + 1 : s;
}

static char *blank_comment(char *s)
{
        bool is_block = s[0] == '/' && s[1] == '*';
        const char *end = is_block ? strstr(s + 2, "*/") : strchrnul(s, '\n');
        if (!end)
                return s + strlen(s);
        for (end += is_block ? 2 : 0; s < end; s++)
                if (*s != '\n')
                        *s = ' ';
        return s;
}

void conf_file_blank_comments(char *text)
{
        int line = 1;
        bool at_word = true; /* https://x has a "//" that begins no comment */
        for (char *s = text; *s;) {
                bool is_slashes = s[0] == '/' && (s[1] == '/' || s[1] == '*');
                if (*s == '"' || *s == '\'') {
                        s = conf_file_skip_text(s, &line);
                        at_word = true;
                } else if (*s == '#' || (at_word && is_slashes)) {
                        s = blank_comment(s);
                } else {
                        at_word = strchr(" \t\r\n{}=,()+", *s) != NULL;
                        s++;
                }
        }
}
