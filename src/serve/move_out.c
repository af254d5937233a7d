/* `weir move --from-cluster`: the data of a cluster into a new folder.
 *
 *      look    nobody runs; the log is open
 *      lead    whoever still sleeps cannot write any more
 *      copy    the log and the history into DIR.part; the copy is read back and must make the same
 *              state
 *      close   the cluster's log
 *      rename  DIR.part to DIR: from here on it starts
 *
 * Until the log is closed, the cluster can be used as before; from then on the folder can, once it
 * has its name.  Interrupted in between, the next one finds a folder with the name of the move that
 * closed the log, and does the rest. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shown.h"
#include "cluster/mirror_sql.h"
#include "history/mirror_move.h"
#include "serve/move_int.h"

struct move_out {
        struct move *move;
        char part[MOVE_PATH_MAX], log_path[MOVE_PATH_MAX], history_path[MOVE_PATH_MAX];
        struct move_mark mark;
        bool is_made; /* the folder part, by this process */
};

/* ---- looking ---- */

/* There is nothing, or an empty folder. */
static int check_target(const struct move *m)
{
        const struct dirent *entry;
        DIR *dir = opendir(m->data);
        size_t n = 0;
        if (!dir && errno == ENOENT)
                return OK;
        if (!dir)
                return problem_set(m->problem, ERR_IO, "%s: %s", SHOWN_LONG(m->data),
                                   strerror(errno));
        while ((entry = readdir(dir)))
                n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        (void)closedir(dir); /* only read */
        return n ? problem_set(m->problem, ERR_CONFLICT,
                               "%s is not empty: name a new folder with --data",
                               SHOWN_LONG(m->data))
                 : OK;
}

static int set_paths(struct move_out *out)
{
        struct move *m = out->move;
        int n = snprintf(out->part, sizeof(out->part), "%s.part", m->data);
        if (n < 0 || n >= (int)sizeof(out->part))
                return problem_set(m->problem, ERR_BADARG, "the path is too long");
        int err = move_path(m, out->part, "log", out->log_path);
        return err ? err : move_path(m, out->part, "history.db", out->history_path);
}

static int look_at_cluster(struct move_out *out)
{
        struct move *m = out->move;
        struct move_mark closed = {0}, made = {0};
        int err = move_open_store(m);
        if (!err)
                err = cluster_store_read(&m->store, NULL, NULL, &m->log, m->problem);
        if (!err)
                err = move_mark_read(out->part, MOVED_FROM_NAME, &made, m->problem);
        if (err)
                return err;
        if (!m->log.last.seq)
                return problem_set(m->problem, ERR_NOTFOUND,
                                   "the cluster's log has nothing in it: there is nothing to move");
        if (!m->log.closed[0])
                return OK;
        (void)move_mark_parse(m->log.closed, &closed); /* if not, its id is "" */
        m->is_resumed = made.id[0] && strcmp(made.id, closed.id) == 0;
        return m->is_resumed ? OK
                             : problem_set(m->problem, ERR_STATE, "the cluster's log is closed: %s",
                                           closed.why);
}

/* ---- copying ---- */

static int make_part(struct move_out *out)
{
        struct problem *p = out->move->problem;
        out->is_made = mkdir(out->part, 0700) == 0;
        if (out->is_made)
                return OK;
        if (errno == EEXIST)
                return problem_set(p, ERR_CONFLICT,
                                   "%s is left of a move that did not end, or of one that goes on: "
                                   "remove it first",
                                   SHOWN_LONG(out->part));
        return problem_set(p, ERR_IO, "cannot make %s: %s", SHOWN_LONG(out->part), strerror(errno));
}

static int pour_into(struct move_out *out, struct pour *pour)
{
        struct move *m = out->move;
        struct cluster_log log;
        struct folder_log *to = NULL;
        int err = folder_log_new(out->log_path, &to, m->problem);
        pour->append = folder_log_append;
        pour->ctx = to;
        pour->progress = move_show_batches;
        pour->progress_ctx = m;
        if (!err)
                err = cluster_store_read(&m->store, pour_batch, pour, &log, m->problem);
        if (!err)
                err = pour_end(pour);
        (void)folder_log_close(to);
        return err;
}

/* The folder makes the state that the cluster's log makes. */
static int copy_log(struct move_out *out)
{
        struct move *m = out->move;
        struct pour pour;
        struct replayed poured, there;
        pour_init(&pour, m->problem);
        pour.replayed = &poured;
        replayed_init(&poured, m->problem);
        replayed_init(&there, m->problem);
        int err = pour_into(out, &pour);
        if (!err)
                err = folder_log_read(out->log_path, replayed_batch, &there, m->problem);
        if (!err)
                err = replayed_end(&there);
        if (!err && state_digest(&there.state) != state_digest(&poured.state))
                err = problem_set(m->problem, ERR_INTERNAL,
                                  "what was copied is not what it was; the cluster is as before");
        out->mark.next_id = there.state.next_id;
        out->mark.fence = there.state.fence;
        m->jobs = there.jobs;
        m->batches = pour.batches;
        replayed_release(&there);
        replayed_release(&poured);
        pour_release(&pour);
        return err;
}

static int copy_history(struct move_out *out)
{
        struct move *m = out->move;
        struct mirror_move history = {.mirror = m->store.mirror,
                                      .path = out->history_path,
                                      .progress = move_show_jobs,
                                      .ctx = m};
        int err = mirror_pull(&history, true, m->problem);
        m->finished = history.jobs;
        return err;
}

static int copy_all(struct move_out *out)
{
        struct move *m = out->move;
        char at[MOVE_TIME_LEN + 1];
        int err = copy_log(out);
        if (!err)
                err = copy_history(out);
        if (err)
                return err;
        move_mark_new_id(&out->mark);
        move_mark_time(at);
        out->mark.way = MOVE_OUT;
        (void)snprintf(out->mark.why, sizeof(out->mark.why),
                       "its data were moved to %s on machine %s at %s; to go on here without what "
                       "happened there since, run 'weir move --reopen'",
                       SHOWN_MAX(slice_str(m->data), 80), m->config.cluster.node, at);
        return move_mark_write(out->part, MOVED_FROM_NAME, &out->mark, m->problem);
}

/* ---- the end ---- */

static int give_name(struct move_out *out)
{
        struct move *m = out->move;
        char copy[MOVE_PATH_MAX], from[MOVE_PATH_MAX];
        int err = move_path(m, m->data, MOVED_FROM_NAME, from);
        if (!err && rename(out->part, m->data) != 0)
                err = problem_set(m->problem, ERR_IO, "cannot rename %s to %s: %s",
                                  SHOWN_LONG(out->part), SHOWN_LONG(m->data), strerror(errno));
        (void)snprintf(copy, sizeof(copy), "%s", m->data); /* it is shorter than `part` */
        if (!err)
                err = move_mark_sync_folder(dirname(copy), m->problem);
        if (!err)
                (void)unlink(from); /* nobody asks for it any more */
        return err;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
        (void)st;
        (void)type;
        (void)at;
        (void)remove(path); /* what cannot be removed is found by the next try */
        return 0;
}

static int copy_and_close(struct move_out *out)
{
        struct move *m = out->move;
        char text[LEDGER_CLOSED_MAX];
        int err = make_part(out);
        if (!err)
                err = move_lead(m);
        if (!err)
                err = copy_all(out);
        if (err) {
                if (out->is_made)
                        (void)nftw(out->part, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
                return err;
        }
        move_mark_print(&out->mark, text);
        return mover_mark(m->mover, LEDGER_CLOSED, slice_str(text), m->problem);
}

int move_out(struct move *m)
{
        struct move_out out = {.move = m};
        int err = check_target(m);
        if (!err)
                err = set_paths(&out);
        if (!err)
                err = look_at_cluster(&out);
        if (!err && !m->is_resumed)
                err = copy_and_close(&out);
        return err ? err : give_name(&out);
}

int move_reopen(struct move *m)
{
        struct move_mark closed = {0};
        int err = move_open_store(m);
        if (!err)
                err = cluster_store_read(&m->store, NULL, NULL, &m->log, m->problem);
        if (err)
                return err;
        if (!m->log.closed[0])
                return problem_set(m->problem, ERR_STATE, "the cluster's log is not closed");
        if (!move_mark_parse(m->log.closed, &closed) || closed.way != MOVE_OUT)
                return problem_set(m->problem, ERR_STATE,
                                   "the cluster's log is not whole and cannot be opened: %s",
                                   closed.why);
        err = move_lead(m);
        return err ? err : mover_mark(m->mover, LEDGER_OPENED, SLICE_NONE, m->problem);
}
