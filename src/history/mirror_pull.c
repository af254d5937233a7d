/* A history file from a mirror: as a machine that follows fills its own. */
#include "base/plural.h"
#include "history/archive_writer.h"
#include "history/mirror_move.h"
#include "state/job.h"

/* A mirror that is written to meanwhile may change between following and comparing. */
static int pull_all(struct mirror_move *m, struct archive_writer *w, struct problem *p)
{
        bool is_done = false;
        int err = OK;
        while (!err && !is_done) {
                err = archive_writer_follow(w, &is_done, p);
                m->jobs = blocks_live(w->blocks);
                m->bytes = blocks_bytes(w->blocks);
                if (m->progress)
                        m->progress(m->ctx, m->jobs, m->bytes);
                if (!err && is_done)
                        err = archive_writer_compare(w, true, &is_done, p);
        }
        return err;
}

static int pull(struct mirror_move *m, struct archive_writer *w, bool is_leading, struct problem *p)
{
        bool is_done = false;
        int err = archive_writer_set_mirror(w, m->mirror, p);
        while (!err && !is_done) {
                err = pull_all(m, w, p);
                if (err || !is_leading)
                        return err;
                if (w->mirrored.n_missing)
                        return problem_set(p, ERR_CORRUPT,
                                           "%zu damaged %s in the cluster's history",
                                           w->mirrored.n_missing,
                                           plural(w->mirrored.n_missing, "block", "blocks"));
                err = archive_writer_claim(w, &is_done, p);
                if (err == ERR_STATE && !is_done) /* there was more meanwhile */
                        err = OK;
        }
        return err;
}

int mirror_pull(struct mirror_move *m, bool is_leading, struct problem *p)
{
        struct archive_writer w = {0};
        int err = archive_writer_open(&w, m->path, job_view, p);
        if (!err)
                err = pull(m, &w, is_leading, p);
        archive_writer_close(&w);
        if (err)
                return err;
        /* From here on it is no copy. */
        w = (struct archive_writer){0};
        err = archive_writer_open(&w, m->path, job_view, p);
        if (!err)
                err = archive_writer_set_mirror(&w, NULL, p);
        archive_writer_close(&w);
        return err;
}
