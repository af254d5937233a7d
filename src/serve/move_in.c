/* `weir move --to-cluster`: the data of a folder into the database of a cluster.
 *
 *      look        the folder is locked, its log and its history are read through; nobody runs
 *      close       the cluster's log, so that nobody leads while it is not whole
 *      empty       what an interrupted move, or one in the other direction, has left there
 *      fill        history, then the log; the log is read back and must make the same state
 *      mark        the folder: from here on it does not start
 *      open        the cluster's log
 *
 * Until the folder is marked, it can be used as before; from then on the cluster can, once its log
 * is open.  So the two never run at the same time, wherever the move is interrupted; and it can be
 * done again, from the beginning or, if the folder is marked, with the last step. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cluster/mirror_sql.h"
#include "history/archive_file.h"
#include "history/mirror_move.h"
#include "log/disk.h"
#include "serve/move_int.h"

#define TRIM_LOOK_MS 50
#define TAIL_MS      30000

struct move_in {
        struct move *move;
        char log_path[MOVE_PATH_MAX], history_path[MOVE_PATH_MAX];
        bool has_history;
        struct disk *lock;
        struct replayed source;
        struct move_mark mark;   /* of the folder, or the one that it gets */
        struct move_mark before; /* why the cluster's log is closed; id "": it is open */
        bool is_emptied;         /* there is something to remove first */
};

/* ---- looking at the folder ---- */

static int lock_folder(struct move_in *in)
{
        struct problem *p = in->move->problem;
        int err = disk_open_existing(in->log_path, &in->lock, p);
        if (err == ERR_NOTFOUND)
                return problem_set(p, err,
                                   "%s is no data folder of a lone weir: name it with --data",
                                   SHOWN_LONG(in->move->data));
        if (!err)
                err = in->lock->ops->lock(in->lock, p);
        if (err == ERR_LOCKED)
                return problem_set(p, err, "a weir uses %s: stop it first",
                                   SHOWN_LONG(in->move->data));
        return err;
}

static int read_log(struct move_in *in)
{
        struct problem *p = in->move->problem;
        struct problem found;
        replayed_init(&in->source, &found);
        found = (struct problem){0};
        int err = folder_log_read(in->log_path, replayed_batch, &in->source, &found);
        if (!err)
                err = replayed_end(&in->source);
        in->source.problem = p;
        if (err == ERR_CORRUPT)
                return problem_set(p, err,
                                   "the log is damaged, nothing was moved: %s; 'weir log salvage "
                                   "%s NEWDIR' saves what is sound",
                                   found.detail, SHOWN_LONG(in->move->data));
        if (err)
                *p = found;
        return err;
}

static void ignore_damage(void *ctx, const char *what)
{
        (void)ctx; /* `weir history verify` tells */
        (void)what;
}

static int check_history(struct move_in *in)
{
        struct problem *p = in->move->problem;
        struct archive_report report;
        if (access(in->history_path, F_OK) != 0)
                return OK;
        int err = archive_file_verify(in->history_path, false, ignore_damage, NULL, &report, p);
        if (err)
                return err;
        in->has_history = true;
        if (!report.damaged)
                return OK;
        return problem_set(p, ERR_CORRUPT,
                           "the history is damaged in %llu %s, nothing was moved; 'weir history "
                           "verify %s' shows them",
                           (unsigned long long)report.damaged,
                           plural(report.damaged, "place", "places"), SHOWN_LONG(in->move->data));
}

static int look_at_folder(struct move_in *in)
{
        struct move *m = in->move;
        int err = move_path(m, m->data, "log", in->log_path);
        if (!err)
                err = move_path(m, m->data, "history.db", in->history_path);
        if (!err)
                err = lock_folder(in);
        if (!err)
                err = move_mark_read(m->data, MOVED_NAME, &in->mark, m->problem);
        if (!err)
                err = read_log(in);
        return err ? err : check_history(in);
}

/* ---- looking at the cluster ---- */

/* Does a state hold anything that somebody made? */
static bool is_empty(const struct state *s)
{
        uint64_t id = 0;
        if (s->next_id > 1 || s->n_audits || idmap_next(&s->jobs, 0, &id))
                return false;
        for (size_t i = 0; i < THING_KINDS; i++)
                if (s->things[i].len)
                        return false;
        return true;
}

static int is_mirror_empty(struct move_in *in, bool *ret)
{
        static const enum mirror_kind kinds[] = {MIRROR_BLOCK, MIRROR_INCIDENT, MIRROR_AUDIT};
        struct mirror *mirror = in->move->store.mirror;
        int err = OK;
        *ret = true;
        for (size_t i = 0; i < ARRAY_LEN(kinds) && !err; i++) {
                uint64_t key;
                size_t n = 0;
                err = mirror->ops->keys(mirror, kinds[i], 0, &key, 1, &n, in->move->problem);
                *ret &= !n;
        }
        return err;
}

/* An open log must be one that nobody has used. */
static int check_open_log(struct move_in *in, const struct state *there)
{
        bool is_unused = is_empty(there), is_history_empty = true;
        int err = is_mirror_empty(in, &is_history_empty);
        if (err)
                return err;
        if (!is_unused || !is_history_empty)
                return problem_set(in->move->problem, ERR_CONFLICT,
                                   "the cluster has data already%s: nothing was moved; move into "
                                   "one that was never used, in a database of its own",
                                   is_unused ? " in its history" : "");
        in->is_emptied = in->move->log.last.seq != 0;
        return OK;
}

/* Fences and ids that were given out must not be given out again. */
static int check_numbers(struct move_in *in)
{
        const struct state *s = &in->source.state;
        if (s->next_id >= in->before.next_id && s->fence >= in->before.fence)
                return OK;
        return problem_set(in->move->problem, ERR_CONFLICT,
                           "the cluster's ids and fences were at %llu and %llu, those of %s are at "
                           "%llu and %llu: they must not go back; move into a database of its own",
                           (unsigned long long)in->before.next_id,
                           (unsigned long long)in->before.fence, SHOWN_LONG(in->move->data),
                           (unsigned long long)s->next_id, (unsigned long long)s->fence);
}

/* The log is closed by this very move. */
static bool is_own_end(const struct move_in *in)
{
        return in->mark.id[0] && in->before.way == MOVE_IN &&
               strcmp(in->mark.id, in->before.id) == 0;
}

static int look_at_cluster(struct move_in *in)
{
        struct move *m = in->move;
        struct replayed there;
        int err = move_open_store(m);
        if (err)
                return err;
        replayed_init(&there, m->problem);
        err = cluster_store_read(&m->store, replayed_batch, &there, &m->log, m->problem);
        bool is_closed = m->log.closed[0] != '\0';
        if (!err && is_closed && !move_mark_parse(m->log.closed, &in->before))
                err = problem_set(m->problem, ERR_STATE, "the cluster's log is closed: %s",
                                  in->before.why);
        m->is_resumed = !err && is_own_end(in);
        if (!err && in->mark.id[0] && !m->is_resumed)
                err = problem_set(m->problem, ERR_STATE, "%s", in->mark.why);
        if (!err && !is_closed)
                err = check_open_log(in, &there.state);
        else if (!err && !m->is_resumed)
                err = check_numbers(in);
        in->is_emptied |= is_closed;
        replayed_release(&there);
        return err;
}

/* ---- moving ---- */

static int close_log(struct move_in *in)
{
        struct move *m = in->move;
        char text[LEDGER_CLOSED_MAX], at[MOVE_TIME_LEN + 1];
        move_mark_new_id(&in->mark);
        move_mark_time(at);
        in->mark.way = MOVE_IN;
        /* Until all is there, they are those of what was served last. */
        in->mark.next_id = in->before.next_id;
        in->mark.fence = in->before.fence;
        (void)snprintf(in->mark.why, sizeof(in->mark.why),
                       "a move of %s into this cluster began at %s and has not ended: run 'weir "
                       "move --to-cluster' again",
                       SHOWN_LONG(m->data), at);
        move_mark_print(&in->mark, text);
        return mover_mark(m->mover, LEDGER_CLOSED, slice_str(text), m->problem);
}

/* Rows before ours go, and all of the history. */
static int empty_cluster(struct move_in *in)
{
        struct move *m = in->move;
        struct mirror_move history = {.mirror = m->store.mirror};
        struct ledger *l = m->store.ledger;
        struct ledger_head last;
        uint64_t first = 0, keep = mover_seq(m->mover);
        int err = mirror_clear(&history, m->problem);
        mover_trim(m->mover, keep);
        while (!err && first < keep) {
                struct sql_wait w = {.stop_fd = m->store.stop_fd,
                                     .deadline_ns = clock_boot_ns() + TAIL_MS * NS_PER_MS,
                                     .timeout_ms = TAIL_MS};
                err = l->ops->tail(l, &w, &last, &first, m->problem);
                if (!err)
                        err = mover_check(m->mover, m->problem);
                if (!err && first < keep)
                        (void)poll(NULL, 0, TRIM_LOOK_MS); /* sleeps */
        }
        return err;
}

static int push_history(struct move_in *in)
{
        struct move *m = in->move;
        struct mirror_move history = {.mirror = m->store.mirror,
                                      .path = in->history_path,
                                      .progress = move_show_jobs,
                                      .ctx = m};
        int err = in->has_history ? mirror_push(&history, m->problem) : OK;
        m->finished = history.jobs;
        return err == ERR_NOTFOUND ? OK : err; /* empty */
}

static int pour_log(struct move_in *in)
{
        struct move *m = in->move;
        struct pour pour;
        pour_init(&pour, m->problem);
        pour.append = mover_append;
        pour.ctx = m->mover;
        pour.progress = move_show_batches;
        pour.progress_ctx = m;
        int err = folder_log_read(in->log_path, pour_batch, &pour, m->problem);
        if (!err)
                err = pour_end(&pour);
        m->batches = pour.batches;
        pour_release(&pour);
        return err;
}

/* What the cluster has is what the folder has. */
static int read_back(struct move_in *in)
{
        struct move *m = in->move;
        struct cluster_log log;
        struct replayed there;
        replayed_init(&there, m->problem);
        int err = cluster_store_read(&m->store, replayed_batch, &there, &log, m->problem);
        if (!err)
                err = replayed_end(&there);
        if (!err && state_digest(&there.state) != state_digest(&in->source.state))
                err = problem_set(
                        m->problem, ERR_INTERNAL,
                        "what was moved is not what it was: the cluster stays closed, and "
                        "the folder is as before");
        replayed_release(&there);
        return err;
}

static int mark_folder(struct move_in *in)
{
        struct move *m = in->move;
        struct buf place CLEANUP(buf_release) = {0};
        char at[MOVE_TIME_LEN + 1];
        move_mark_time(at);
        move_put_place(m, &place);
        in->mark.next_id = in->source.state.next_id;
        in->mark.fence = in->source.state.fence;
        (void)snprintf(
                in->mark.why, sizeof(in->mark.why),
                "the data of %s were moved into a cluster (%s) at %s and are not used here "
                "any more; to go on without what happened there since, remove %s/" MOVED_NAME,
                SHOWN_MAX(slice_str(m->data), 60), buf_cstr(&place), at,
                SHOWN_MAX(slice_str(m->data), 60));
        return move_mark_write(m->data, MOVED_NAME, &in->mark, m->problem);
}

static int fill(struct move_in *in)
{
        int err = close_log(in);
        if (!err && in->is_emptied)
                err = empty_cluster(in);
        if (!err)
                err = push_history(in);
        if (!err)
                err = pour_log(in);
        if (!err)
                err = read_back(in);
        return err ? err : mark_folder(in);
}

int move_in(struct move *m)
{
        struct move_in in = {.move = m};
        int err = look_at_folder(&in);
        if (!err)
                err = look_at_cluster(&in);
        m->jobs = in.source.jobs;
        if (!err)
                err = move_lead(m);
        if (!err && !m->is_resumed)
                err = fill(&in);
        if (!err)
                err = mover_mark(m->mover, LEDGER_OPENED, SLICE_NONE, m->problem);
        replayed_release(&in.source);
        if (in.lock)
                in.lock = in.lock->ops->release(in.lock);
        return err;
}
