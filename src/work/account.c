/* Users and groups.
 *
 * The order is groups, group, user: after the last one the right to change the others is gone.
 * Real, effective and saved ids are set at once and looked at afterwards, so that nothing of root
 * is left to return to. */
#include "work/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/shown.h"

static void take_groups(struct account *a)
{
        int n = 0;
        (void)getgrouplist(a->user, a->gid, NULL, &n); /* fails, and says how many there are */
        do
                a->groups = xrealloc(a->groups, (size_t)n * sizeof(*a->groups));
        while (getgrouplist(a->user, a->gid, a->groups, &n) < 0); /* one more since */
        a->n_groups = (size_t)n;
}

/* errno: why it could not be looked up, or 0. */
static int no_such(const char *what, const char *name, const char *database, struct problem *p)
{
        return problem_set(p, ERR_BADARG,
                           "%s: '%s' is no %s of this machine%s%s; a name that `getent %s` knows "
                           "is allowed",
                           what, SHOWN_MAX(slice_str(name), 100), what, errno ? ": " : "",
                           errno ? strerror(errno) : "", database);
}

int account_set_user(struct account *a, const char *user, struct problem *p)
{
        if (geteuid() != 0)
                return problem_set(p, ERR_FORBIDDEN,
                                   "user: only a worker that runs as root may run commands as "
                                   "another, and this one runs with uid %u: start it as root, or "
                                   "leave `user` out",
                                   (unsigned)geteuid());
        errno = 0;
        const struct passwd *found = getpwnam(user);
        if (!found)
                return no_such("user", user, "passwd", p);
        account_release(a);
        a->user = xstrdup(found->pw_name);
        a->home = xstrdup(found->pw_dir);
        a->uid = found->pw_uid;
        a->gid = found->pw_gid;
        take_groups(a);
        return OK;
}

int account_set_group(struct account *a, const char *group, struct problem *p)
{
        errno = 0;
        const struct group *found = getgrnam(group);
        if (!found)
                return no_such("group", group, "group", p);
        a->gid = found->gr_gid;
        if (a->user)
                take_groups(a);
        return OK;
}

void account_release(struct account *a)
{
        free(a->user);
        free(a->home);
        free(a->groups);
        *a = (struct account){0};
}

static bool is_become(const struct account *a)
{
        uid_t uid[3];
        gid_t gid[3];
        if (getresuid(&uid[0], &uid[1], &uid[2]) != 0 || getresgid(&gid[0], &gid[1], &gid[2]) != 0)
                return false;
        for (int i = 0; i < 3; i++)
                if (uid[i] != a->uid || gid[i] != a->gid)
                        return false;
        return a->uid == 0 || setuid(0) != 0;
}

const char *account_become(const struct account *a)
{
        if (setgroups(a->n_groups, a->groups) != 0)
                return "setgroups";
        if (setresgid(a->gid, a->gid, a->gid) != 0)
                return "setgid";
        if (setresuid(a->uid, a->uid, a->uid) != 0)
                return "setuid";
        if (!is_become(a)) {
                errno = EPERM;
                return "setuid";
        }
        return NULL;
}
