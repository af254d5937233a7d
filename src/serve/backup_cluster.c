/* See backup_cluster.h.  It is done over connections of its own: no machine of the cluster notices.
 */
#include "serve/backup_cluster.h"

#include <ftw.h>
#include <stdio.h>

#include "history/mirror_move.h"
#include "serve/cluster_store.h"
#include "serve/move_mark.h"
#include "serve/pour.h"

#define PATH_MAX_ 4096
#define TRIES     20 /* while the log is trimmed under the reader */

static int path_of(const char *folder, const char *name, char ret[PATH_MAX_], struct problem *p)
{
        int n = snprintf(ret, PATH_MAX_, "%s/%s", folder, name);
        return n > 0 && n < PATH_MAX_ ? OK : problem_set(p, ERR_BADARG, "the path is too long");
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
        (void)st;
        (void)type;
        (void)at;
        (void)remove(path); /* what cannot be removed is found when the log is made */
        return 0;
}

static int check_open(const struct cluster_log *log, struct problem *problem)
{
        struct move_mark mark;
        if (!log->closed[0])
                return OK;
        (void)move_mark_parse(log->closed, &mark); /* sets what is told in any case */
        return problem_set(problem, ERR_STATE, "the cluster's log is closed: %s", mark.why);
}

/* The state that was read is in *ret; what was there is released. */
static int copy_log_once(struct cluster_store *s, const char *path, struct replayed *ret,
                         uint64_t *ret_bytes, struct problem *problem)
{
        struct cluster_log log = {0};
        struct folder_log *to = NULL;
        struct pour pour;
        int err = folder_log_new(path, &to, problem);
        replayed_release(ret);
        replayed_init(ret, problem);
        pour_init(&pour, problem);
        pour.replayed = ret;
        pour.append = folder_log_append;
        pour.ctx = to;
        if (!err)
                err = cluster_store_read(s, pour_batch, &pour, &log, problem);
        if (!err)
                err = check_open(&log, problem);
        if (!err)
                err = pour_end(&pour);
        (void)folder_log_close(to);
        *ret_bytes = pour.bytes;
        pour_release(&pour);
        return err;
}

static int copy_log(struct cluster_store *s, const char *path, struct replayed *ret,
                    uint64_t *ret_bytes, struct problem *problem)
{
        int err = ERR_CONFLICT;
        for (int i = 0; i < TRIES && err == ERR_CONFLICT; i++) {
                (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS); /* it may not be there */
                err = copy_log_once(s, path, ret, ret_bytes, problem);
        }
        return err;
}

int backup_cluster_copy(const struct config_cluster *config, const char *folder,
                        struct replayed *ret, uint64_t *ret_bytes, struct problem *problem)
{
        char log[PATH_MAX_], history[PATH_MAX_];
        struct cluster_store store = {0};
        int err = path_of(folder, "log", log, problem);
        if (!err)
                err = path_of(folder, "history.db", history, problem);
        if (!err)
                err = cluster_store_open(&store, config, problem);
        if (!err)
                err = copy_log(&store, log, ret, ret_bytes, problem);
        /* Afterwards: it has every job that the log has let go. */
        struct mirror_move all = {.mirror = store.mirror, .path = history};
        if (!err)
                err = mirror_pull(&all, false, problem);
        cluster_store_close(&store);
        return err;
}
