/* The user and groups that a command runs as.
 *
 * Looked up once, at the start: between fork and exec nothing may be looked up any more.  A
 * command whose account cannot be taken on does not run; it never runs as another user. */
#ifndef WEIR_WORK_ACCOUNT_H
#define WEIR_WORK_ACCOUNT_H

#include <sys/types.h>

#include "base/err.h"

struct account {
        char *user; /* NULL = the worker's own; the rest is void then */
        char *home;
        uid_t uid;
        gid_t gid;
        gid_t *groups; /* all of them, gid included */
        size_t n_groups;
};

/* ERR_FORBIDDEN when this process is not root's, ERR_BADARG when there is no such user. */
int account_set_user(struct account *a, const char *user, struct problem *p) MUST_CHECK;
/* Instead of the user's own; the user comes first. */
int account_set_group(struct account *a, const char *group, struct problem *p) MUST_CHECK;
void account_release(struct account *a);

/* For a child between fork and exec: only system calls.  NULL, or the step that failed; errno says
 * why. */
const char *account_become(const struct account *a);

#endif
