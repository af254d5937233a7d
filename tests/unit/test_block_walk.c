/* History in rows and in blocks, read as one list: order, windows, blocks that overlap, filters,
 * cursors, buried jobs, damaged blocks, and how many blocks a listing opens.
 *
 * Each listing is compared with a walk over the jobs that were put there. */
#include "check.h"

#include <fcntl.h>
#include <unistd.h>

#include "block_store.h"

/* ---- order ---- */

static void rows_and_blocks_are_one_list_by_id(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        assert_int_equal(assert_listed(&s, ALL), 0);
        put_row(&s, job_plain(7));
        assert_int_equal(assert_listed(&s, ALL), 1);
        put_plain(&s, 10, 20, 2);
        put_row(&s, job_plain(9));
        put_row(&s, job_plain(11));
        put_row(&s, job_plain(33));
        put_row(&s, job_plain(90));
        put_plain(&s, 60, 5, 1);
        assert_int_equal(assert_listed(&s, ALL), 30);
        store_release(&s);
}

static void windows_far_apart_follow_each_other(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_plain(&s, WINDOW_IDS - 10, 10, 1); /* the last ids of a window, the first of the next */
        put_plain(&s, WINDOW_IDS, 10, 1);
        put_row(&s, job_plain(WINDOW_IDS + 10));
        put_plain(&s, 1, 3, 1);
        put_row(&s, job_plain(3 * WINDOW_IDS + 5));
        put_plain(&s, 700 * WINDOW_IDS + 9, 4, 7);
        put_row(&s, job_plain(700 * WINDOW_IDS + 10));
        put_row(&s, job_plain(900 * WINDOW_IDS));
        assert_int_equal(assert_listed(&s, ALL), 31);
        store_release(&s);
}

/* More than the shelf keeps for the next query, all of the same ids. */
static void blocks_that_overlap_are_merged(void **state)
{
        static struct store s;
        enum { BLOCKS = SHELF_KEPT + 3 };
        (void)state;
        store_init(&s);
        for (uint64_t i = 0; i < BLOCKS; i++)
                put_plain(&s, 100 + i * 5 % BLOCKS, 9, BLOCKS);
        put_plain(&s, 98, 2, 300); /* one over them all */
        put_row(&s, job_plain(99));
        put_row(&s, job_plain(421));
        assert_int_equal(assert_listed(&s, ALL), 9 * BLOCKS + 4);
        store_release(&s);
}

static void cursors_cut_blocks_at_any_id(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_plain(&s, 10, 10, 3);
        put_plain(&s, 11, 10, 3);
        put_row(&s, job_plain(12));
        put_row(&s, job_plain(24));
        for (uint64_t low = 8; low < 42; low += 3)
                for (uint64_t high = low; high < 44; high++)
                        for (int way = 0; way < 2; way++) {
                                struct archive_query q = {.limit = 5,
                                                          .is_oldest = way,
                                                          .after_id = low,
                                                          .before_id = high,
                                                          .filter = ALL};
                                assert_pages(&s, q);
                        }
        struct archive_query q = {.limit = 5, .before_id = UINT64_MAX, .filter = ALL};
        assert_int_equal(assert_pages(&s, q), 22);
        q = (struct archive_query){
                .limit = 5, .is_oldest = true, .after_id = UINT64_MAX, .filter = ALL};
        assert_int_equal(assert_pages(&s, q), 0);
        store_release(&s);
}

/* ---- filters ---- */

/* Each job has its own mixture of names, times and texts, by its number. */
static struct job *job_mixed(uint64_t id, enum job_status status)
{
        static const char *const hooks[] = {"mail.send", "image.resize", "report"};
        static const char *const queues[] = {"default", "slow"};
        static const char *const groups[] = {"", "tenant-1", "tenant-2", ""};
        static const char *const workers[] = {"w1", "w2", "", "w4", "w5"};
        static const char *const errors[] = {"", "no route", "timeout after 30 s"};
        struct job *job = job_make(id, 600);
        struct job_view *v = &job->view;
        struct job_options o = {.run = id % 3, .tier = id % 7 == 0 ? 1 + TIER_HIGH : 0};
        char text[40];
        v->status = status;
        job_text(job, &v->hook, hooks[id % ARRAY_LEN(hooks)]);
        job_text(job, &v->queue, queues[id / 2 % ARRAY_LEN(queues)]);
        job_text(job, &v->group, groups[id / 3 % ARRAY_LEN(groups)]);
        job_text(job, &v->worker, workers[id / 5 % ARRAY_LEN(workers)]);
        job_text(job, &v->error, status == JOB_FAILED ? errors[id % ARRAY_LEN(errors)] : "");
        (void)snprintf(text, sizeof(text), "{\"n\":%llu}", (unsigned long long)id);
        job_text(job, &v->args, text);
        job_text(job, &v->result, id % 4 ? "" : "done at once");
        job_text(job, &v->progress, id % 9 ? "" : "half");
        v->created_ms = v->due_ms = BOX_NOW - 100000 + (int64_t)id * 10;
        v->started_ms = v->created_ms + 5;
        v->finished_ms = v->started_ms + (int64_t)(id * 7919 % 1000);
        v->timeout_ms = id % 2 ? 0 : 30000;
        job_set_packed(job, &o);
        if (id % 6)
                job_tell_plainly(job);
        else
                job_tell_event(job, EVENT_COMPLETED, v->finished_ms, v->worker, SLICE_LIT("odd"));
        return job;
}

/* Three statuses among ids 1 to 1,800, in blocks and in rows. */
static void put_mixed(struct store *s)
{
        for (uint64_t first = 1; first < 1800; first += 300) {
                struct job *blocks[FAMILIES][300];
                size_t n[FAMILIES] = {0};
                for (uint64_t id = first; id < first + 300; id++) {
                        enum job_status status = id % 11 == 0   ? JOB_FAILED
                                                 : id % 13 == 0 ? JOB_CANCELED
                                                                : JOB_COMPLETE;
                        struct job *job = job_mixed(id, status);
                        if (id % 5 == 0 || first == 601)
                                put_row(s, job);
                        else
                                blocks[family_of(status)][n[family_of(status)]++] = job;
                }
                for (int family = 0; family < FAMILIES; family++)
                        if (n[family])
                                put_block(s, blocks[family], n[family]);
        }
}

static void each_filter_finds_its_jobs_in_rows_and_blocks(void **state)
{
        static struct store s;
        struct registry_entry entries[] = {{SLICE_LIT("image.*"), TIER_HIGH}};
        struct registry *r = registry_new(entries, 1);
        int64_t middle = BOX_NOW - 100000 + 9000;
        const struct job_filter filters[] = {
                {.status = -1},
                {.status = JOB_COMPLETE},
                {.status = JOB_FAILED},
                {.status = JOB_CANCELED},
                {.status = -1, .hook = SLICE_LIT("report")},
                {.status = -1, .queue = SLICE_LIT("slow")},
                {.status = -1, .group = SLICE_LIT("tenant-2")},
                {.status = -1, .worker = SLICE_LIT("w4")},
                {.status = -1, .since_ms = middle},
                {.status = -1, .until_ms = middle},
                {.status = -1, .since_ms = middle - 700, .until_ms = middle + 700},
                {.status = -1, .ended_since_ms = middle + 8000},
                {.status = -1, .match = SLICE_LIT("\"n\":17")},     /* args */
                {.status = -1, .match = SLICE_LIT("resize")},       /* hook */
                {.status = -1, .match = SLICE_LIT("after 30")},     /* error */
                {.status = -1, .match = SLICE_LIT("done at once")}, /* result */
                {.status = -1, .tier = 1 + TIER_HIGH, .registry = r},
                {.status = -1, .tier = 1 + TIER_NORMAL, .registry = r},
                {.status = JOB_FAILED, .hook = SLICE_LIT("report")},
                {.status = JOB_CANCELED, .hook = SLICE_LIT("mail.send")},
                {.status = JOB_FAILED,
                 .hook = SLICE_LIT("report"),
                 .queue = SLICE_LIT("slow"),
                 .worker = SLICE_LIT("w1"),
                 .match = SLICE_LIT("1")},
                {.status = JOB_COMPLETE,
                 .group = SLICE_LIT("tenant-1"),
                 .since_ms = middle,
                 .tier = 1 + TIER_HIGH,
                 .registry = r,
                 .match = SLICE_LIT("one")},
        };
        (void)state;
        store_init(&s);
        put_mixed(&s);
        for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
                size_t n = assert_listed(&s, filters[i]);
                assert_true(n > 0);
                assert_true(i == 0 || n < s.n_jobs);
        }
        assert_int_equal(
                assert_listed(&s, (struct job_filter){.status = -1, .hook = SLICE_LIT("default")}),
                0); /* the name of a queue */
        assert_int_equal(assert_listed(&s, (struct job_filter){.status = JOB_PENDING}), 0);
        assert_int_equal(assert_listed(&s, (struct job_filter){.status = -1,
                                                               .tier = 1 + TIER_HIGH,
                                                               .registry = r,
                                                               .match = SLICE_LIT("zebra")}),
                         0);
        store_release(&s);
        registry_free(r);
}

/* ---- one job, and named ones ---- */

static void a_job_is_found_by_its_id_in_a_row_or_a_block(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_mixed(&s);
        for (uint64_t id = 1; id <= 1800; id++) {
                struct archive_query q = {.id = id};
                ask(&s, &q);
                assert_int_equal(q.n_rows, 1);
                assert_same_view(&q.rows[0], &job_of(&s, id)->view);
                arena_release(&q.arena);
        }
        for (int i = 0; i < 3; i++) {
                static const uint64_t others[] = {1801, WINDOW_IDS + 1, UINT64_MAX};
                struct archive_query q = {.id = others[i]};
                ask(&s, &q);
                assert_int_equal(q.n_rows, 0);
                arena_release(&q.arena);
        }
        store_release(&s);
}

static void named_jobs_come_in_the_order_of_their_names(void **state)
{
        static struct store s;
        static const uint64_t ids[] = {1700, 3, 5, 40000, 901, 4, 1801, 2};
        static const uint64_t there[] = {1700, 3, 5, 901, 4, 2};
        (void)state;
        store_init(&s);
        put_mixed(&s);
        for (int brief = 0; brief < 2; brief++) {
                struct archive_query q = {
                        .ids = ids, .n_ids = 8, .limit = 20, .is_brief = brief, .filter = ALL};
                ask(&s, &q);
                assert_int_equal(q.n_rows, ARRAY_LEN(there));
                assert_int_equal(q.n_seen, 8);
                assert_false(q.is_cut);
                for (size_t i = 0; i < q.n_rows; i++) {
                        const struct job *want = job_of(&s, there[i]);
                        if (brief)
                                assert_same_ref(&q.refs[i], want);
                        else
                                assert_same_view(&q.rows[i], &want->view);
                }
                arena_release(&q.arena);
        }
        /* Two fit: go on with those behind the first so many. */
        struct archive_query q = {
                .ids = ids, .n_ids = 8, .limit = 20, .bytes_max = 2500, .filter = ALL};
        ask(&s, &q);
        assert_true(q.is_cut);
        assert_int_equal(q.n_rows, 2);
        assert_int_equal(q.n_seen, 2);
        arena_release(&q.arena);
        store_release(&s);
}

/* ---- how much it reads ---- */

/* 40 blocks of 100 jobs; the hook of each is its own. */
static void put_forty(struct store *s)
{
        for (uint64_t block = 0; block < 40; block++) {
                struct job *jobs[100];
                char hook[16];
                (void)snprintf(hook, sizeof(hook), "hook.%llu", (unsigned long long)block);
                for (uint64_t i = 0; i < 100; i++) {
                        jobs[i] = job_make(1 + block * 10000 + i, 256);
                        struct job_view *v = &jobs[i]->view;
                        job_text(jobs[i], &v->hook, i % 2 ? hook : "all");
                        v->status = i % 50 == 1 ? JOB_CANCELED : JOB_COMPLETE;
                        v->created_ms += (int64_t)block * 1000;
                        v->due_ms = v->created_ms;
                        v->started_ms = v->finished_ms = v->created_ms + 10;
                        job_tell_plainly(jobs[i]);
                }
                put_block(s, jobs, 100);
        }
}

static size_t count(struct store *s, struct archive_query q)
{
        ask(s, &q);
        size_t n = q.n_rows;
        assert_false(q.is_cut);
        arena_release(&q.arena);
        return n;
}

static void a_listing_opens_only_the_blocks_it_needs(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_forty(&s);
        struct archive_query q = {.limit = 50, .filter = ALL};
        assert_int_equal(count(&s, q), 50);
        assert_int_equal(reads(&s), 1);
        q.limit = 100;
        assert_int_equal(count(&s, q), 100);
        assert_int_equal(reads(&s), 0); /* it is open */
        q.limit = 101;
        assert_int_equal(count(&s, q), 101);
        assert_int_equal(reads(&s), 1);
        q.is_oldest = true;
        q.limit = 50;
        assert_int_equal(count(&s, q), 50);
        assert_int_equal(reads(&s), 1);
        q.limit = 1000;
        q.filter.hook = SLICE_LIT("hook.17");
        assert_int_equal(count(&s, q), 50);
        assert_int_equal(reads(&s), 1);
        q.filter.hook = SLICE_LIT("hook.none");
        assert_int_equal(count(&s, q), 0);
        assert_int_equal(reads(&s), 0);
        q.filter = ALL;
        q.filter.status = JOB_FAILED;
        assert_int_equal(count(&s, q), 0);
        assert_int_equal(reads(&s), 0);
        /* A hook that all blocks have, and canceled jobs that all have, and never both at once. */
        q.filter.status = JOB_CANCELED;
        q.filter.hook = SLICE_LIT("all");
        assert_int_equal(count(&s, q), 0);
        assert_int_equal(reads(&s), 0);
        q.filter = ALL;
        q.filter.since_ms = s.jobs[2500]->view.created_ms;
        q.filter.until_ms = q.filter.since_ms + 1000;
        assert_int_equal(count(&s, q), 100);
        assert_int_equal(reads(&s), 1);
        q.filter = ALL;
        q.filter.ended_since_ms = s.jobs[3900]->view.finished_ms;
        assert_int_equal(count(&s, q), 100);
        assert_true(reads(&s) <= 1);
        store_release(&s);
}

static void a_page_of_rows_opens_no_block(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_plain(&s, 100, 50, 2);
        put_plain(&s, 300, 50, 1);
        for (uint64_t id = 400; id < 410; id++)
                put_row(&s, job_plain(id));
        for (uint64_t id = 90; id < 100; id++)
                put_row(&s, job_plain(id));
        put_row(&s, job_plain(149));
        struct archive_query q = {.limit = 10, .filter = ALL};
        assert_int_equal(count(&s, q), 10);
        q.is_oldest = true;
        assert_int_equal(count(&s, q), 10);
        assert_int_equal(reads(&s), 0);
        q.limit = 11;
        assert_int_equal(count(&s, q), 11);
        assert_int_equal(reads(&s), 1);
        store_release(&s);
}

static void one_job_opens_one_block(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_forty(&s);
        for (int again = 0; again < 2; again++) {
                struct archive_query q = {.id = 1 + 20 * 10000 + 5};
                ask(&s, &q);
                assert_int_equal(q.n_rows, 1);
                assert_int_equal(reads(&s), again ? 0 : 1);
                arena_release(&q.arena);
        }
        struct archive_query q = {.id = 1 + 20 * 10000 + 100};
        ask(&s, &q);
        assert_int_equal(q.n_rows, 0);
        assert_int_equal(reads(&s), 0);
        arena_release(&q.arena);
        store_release(&s);
}

/* ---- budgets ---- */

static void a_walk_that_is_cut_goes_on_where_it_was(void **state)
{
        static struct store s;
        static const size_t budgets[] = {1, 2, 63, 400};
        (void)state;
        store_init(&s);
        put_mixed(&s);
        struct job_filter rare = {.status = -1, .match = SLICE_LIT("\"n\":17")};
        struct job_filter none = {.status = -1, .match = SLICE_LIT("zebra")};
        for (size_t i = 0; i < ARRAY_LEN(budgets); i++) {
                s.finder.rows_max = budgets[i];
                assert_listed(&s, ALL);
                assert_listed(&s, rare);
                assert_listed(&s, none);
        }
        struct archive_query q = {.limit = 10, .filter = none};
        ask(&s, &q);
        assert_true(q.is_cut);
        assert_int_equal(q.last_id, 1401); /* 400 of 1,800 */
        arena_release(&q.arena);
        q = (struct archive_query){.limit = 10, .is_oldest = true, .filter = none};
        ask(&s, &q);
        assert_true(q.is_cut);
        assert_int_equal(q.last_id, 400);
        arena_release(&q.arena);
        store_release(&s);
}

static void a_page_of_long_jobs_is_cut_by_its_bytes(void **state)
{
        static struct store s;
        struct job *jobs[20];
        char *text = xcalloc(1, 10001);
        (void)state;
        memset(text, 'x', 10000);
        store_init(&s);
        for (uint64_t i = 0; i < 20; i++) {
                jobs[i] = job_make(i + 1, 10000);
                job_text(jobs[i], &jobs[i]->view.args, text);
                job_tell_plainly(jobs[i]);
        }
        put_block(&s, jobs, 20);
        struct archive_query q = {.limit = 100, .bytes_max = 50000, .filter = ALL};
        assert_int_equal(assert_pages(&s, q), 20);
        ask(&s, &q);
        assert_true(q.is_cut);
        assert_int_equal(q.n_rows, 4);
        assert_int_equal(q.last_id, 17);
        arena_release(&q.arena);
        /* Texts that nobody wants take no room. */
        q = (struct archive_query){
                .limit = 100, .bytes_max = 50000, .is_without_texts = true, .filter = ALL};
        assert_int_equal(count(&s, q), 20);
        /* Nor does an arena that is too small give less than one. */
        q = (struct archive_query){.limit = 5, .filter = ALL};
        arena_init(&q.arena, 24000);
        ask(&s, &q);
        assert_true(q.is_cut);
        assert_true(q.n_rows >= 1 && q.n_rows < 5);
        assert_int_equal(q.last_id, 21 - q.n_rows);
        arena_release(&q.arena);
        store_release(&s);
        free(text);
}

/* ---- without texts ---- */

static void rows_without_texts_have_all_else(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_mixed(&s);
        for (int way = 0; way < 2; way++) {
                struct archive_query q = {.limit = 2000,
                                          .is_oldest = way,
                                          .is_without_texts = true,
                                          .filter = {.status = -1, .queue = SLICE_LIT("slow")}};
                ask(&s, &q);
                assert_true(q.n_rows > 800);
                for (size_t i = 0; i < q.n_rows; i++) {
                        struct job_view want = job_of(&s, q.rows[i].id)->view;
                        want.args = want.result = want.error = want.progress = SLICE_NONE;
                        want.options = want.events = SLICE_NONE;
                        assert_same_view(&q.rows[i], &want);
                }
                arena_release(&q.arena);
        }
        struct archive_query q = {.id = 2, .is_without_texts = true};
        ask(&s, &q);
        assert_int_equal(q.n_rows, 1);
        assert_int_equal(q.rows[0].args.len + q.rows[0].events.len, 0);
        assert_true(q.rows[0].hook.len > 0);
        arena_release(&q.arena);
        store_release(&s);
}

/* ---- jobs that are gone ---- */

static void bury(struct store *s, size_t mark, const uint16_t *at, size_t n)
{
        struct problem p;
        const struct block_mark *m = blocks_at(s->blocks, mark);
        for (size_t i = 0; i < n; i++)
                forget(s, m->first_id + at[i]); /* its ids have no gaps */
        begin(s);
        assert_int_equal(blocks_bury(s->blocks, m, at, n, m->finished_first, &p), OK);
        commit(s);
}

static void buried_jobs_are_not_there(void **state)
{
        static struct store s;
        static const uint16_t some[] = {0, 3, 4, 9}, last[] = {1};
        (void)state;
        store_init(&s);
        put_plain(&s, 10, 10, 1);
        put_plain(&s, 20, 10, 1);
        assert_int_equal(assert_listed(&s, ALL), 20); /* both blocks are open */
        bury(&s, 0, some, ARRAY_LEN(some));
        bury(&s, 1, last, 1);
        assert_int_equal(assert_listed(&s, ALL), 15);
        struct archive_query q = {.id = 13};
        ask(&s, &q);
        assert_int_equal(q.n_rows, 0);
        arena_release(&q.arena);
        /* It was brought back, and has ended again. */
        put_row(&s, job_plain(13));
        assert_int_equal(assert_listed(&s, ALL), 16);
        q = (struct archive_query){.id = 13};
        ask(&s, &q);
        assert_int_equal(q.n_rows, 1);
        arena_release(&q.arena);
        store_release(&s);
}

static void a_block_that_was_replaced_is_not_remembered(void **state)
{
        static struct store s;
        struct problem p;
        (void)state;
        store_init(&s);
        put_plain(&s, 10, 10, 1);
        assert_int_equal(assert_listed(&s, ALL), 10);
        begin(&s);
        assert_int_equal(blocks_drop(s.blocks, blocks_at(s.blocks, 0), &p), OK);
        commit(&s);
        while (s.n_jobs)
                forget(&s, s.jobs[0]->view.id);
        assert_int_equal(assert_listed(&s, ALL), 0);
        put_plain(&s, 10, 5, 2);
        assert_int_equal(assert_listed(&s, ALL), 5);
        store_release(&s);
}

/* ---- damage ---- */

/* Flips a bit in the bytes of a block, and has the finder forget what it has open. */
static void damage(struct store *s, size_t mark)
{
        const struct block_mark *m = blocks_at(s->blocks, mark);
        struct problem p;
        char path[260], byte;
        (void)snprintf(path, sizeof(path), "%s-blocks-%06u", s->box.path, m->segment);
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        off_t at = (off_t)(m->offset + m->bytes / 2);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte = (char)(byte ^ 4);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_int_equal(close(fd), 0);
        archive_finder_close(&s->finder);
        assert_int_equal(archive_finder_open(&s->finder, s->box.path, s->blocks, &p), OK);
}

/* Blocks of 10..19, 20..29, 30..39; the one in the middle is damaged, with rows and a sound block
 * within its ids. */
static void put_damaged(struct store *s)
{
        static const uint64_t damaged[] = {20, 21, 23, 27, 29};
        struct job *jobs[ARRAY_LEN(damaged)];
        put_plain(s, 10, 10, 1);
        for (size_t i = 0; i < ARRAY_LEN(damaged); i++)
                jobs[i] = job_plain(damaged[i]);
        put_block(s, jobs, ARRAY_LEN(damaged));
        put_plain(s, 24, 2, 1);
        put_plain(s, 30, 10, 1);
        put_row(s, job_plain(22));
        assert_int_equal(blocks_at(s->blocks, 2)->first_id, 20);
        damage(s, 2);
}

static void assert_damage(const struct job_view *v, uint64_t id)
{
        assert_int_equal(v->id, id);
        assert_true(v->is_damaged);
        assert_int_equal(v->status, JOB_COMPLETE);
        assert_true(
                slice_eq(v->error, SLICE_LIT("history is damaged here: block 2, jobs 20 to 29")));
        assert_int_equal(v->hook.len + v->args.len, 0);
}

static void a_damaged_block_is_shown_once(void **state)
{
        static struct store s;
        static const size_t limits[] = {1, 2, 100};
        static const uint64_t down[] = {29, 25, 24, 22}, up[] = {20, 22, 24, 25};
        (void)state;
        store_init(&s);
        put_damaged(&s);
        for (size_t i = 0; i < 2 * ARRAY_LEN(limits); i++) {
                struct archive_query q = {.limit = limits[i / 2], .filter = ALL};
                q.is_oldest = i % 2;
                size_t n = 0;
                for (bool is_more = true; is_more;) {
                        ask(&s, &q);
                        for (size_t k = 0; k < q.n_rows; k++, n++) {
                                const struct job_view *v = &q.rows[k];
                                uint64_t want = q.is_oldest ? 10 + n : 39 - n;
                                if (n >= 10 && n < 14)
                                        want = q.is_oldest ? up[n - 10] : down[n - 10];
                                else if (n >= 14)
                                        want = q.is_oldest ? 16 + n : 33 - n;
                                assert_int_equal(v->id, want);
                                if (n == 10)
                                        assert_damage(v, q.is_oldest ? 20 : 29);
                                else
                                        assert_false(v->is_damaged);
                        }
                        is_more = q.n_rows == q.limit;
                        *(q.is_oldest ? &q.after_id : &q.before_id) = q.last_id;
                        arena_release(&q.arena);
                }
                assert_int_equal(n, 24);
        }
        store_release(&s);
}

static void brief_listings_pass_over_a_damaged_block(void **state)
{
        static struct store s;
        (void)state;
        store_init(&s);
        put_damaged(&s);
        struct archive_query q = {.limit = 100, .is_brief = true, .filter = ALL};
        assert_int_equal(count(&s, q), 23);
        q.is_oldest = true;
        assert_int_equal(count(&s, q), 23);
        /* What its mark excludes does not show it. */
        q = (struct archive_query){.limit = 100,
                                   .filter = {.status = -1, .hook = SLICE_LIT("nothing.such")}};
        assert_int_equal(count(&s, q), 0);
        q.filter = ALL;
        q.filter.status = JOB_FAILED;
        assert_int_equal(count(&s, q), 0);
        store_release(&s);
}

static void a_job_of_a_damaged_block_says_so(void **state)
{
        static struct store s;
        static const uint64_t ids[] = {23, 24, 29, 15, 28};
        (void)state;
        store_init(&s);
        put_damaged(&s);
        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
                struct archive_query q = {.id = ids[i]};
                ask(&s, &q);
                assert_int_equal(q.n_rows, 1);
                if (ids[i] == 24 || ids[i] == 15)
                        assert_same_view(&q.rows[0], &job_of(&s, ids[i])->view);
                else /* also the id of no job: nobody can tell */
                        assert_damage(&q.rows[0], ids[i]);
                arena_release(&q.arena);
        }
        struct archive_query q = {.ids = ids, .n_ids = 5, .limit = 9, .filter = ALL};
        assert_int_equal(count(&s, q), 5);
        q.is_brief = true;
        assert_int_equal(count(&s, q), 2);
        store_release(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rows_and_blocks_are_one_list_by_id),
                cmocka_unit_test(windows_far_apart_follow_each_other),
                cmocka_unit_test(blocks_that_overlap_are_merged),
                cmocka_unit_test(cursors_cut_blocks_at_any_id),
                cmocka_unit_test(each_filter_finds_its_jobs_in_rows_and_blocks),
                cmocka_unit_test(a_job_is_found_by_its_id_in_a_row_or_a_block),
                cmocka_unit_test(named_jobs_come_in_the_order_of_their_names),
                cmocka_unit_test(a_listing_opens_only_the_blocks_it_needs),
                cmocka_unit_test(a_page_of_rows_opens_no_block),
                cmocka_unit_test(one_job_opens_one_block),
                cmocka_unit_test(a_walk_that_is_cut_goes_on_where_it_was),
                cmocka_unit_test(a_page_of_long_jobs_is_cut_by_its_bytes),
                cmocka_unit_test(rows_without_texts_have_all_else),
                cmocka_unit_test(buried_jobs_are_not_there),
                cmocka_unit_test(a_block_that_was_replaced_is_not_remembered),
                cmocka_unit_test(a_damaged_block_is_shown_once),
                cmocka_unit_test(brief_listings_pass_over_a_damaged_block),
                cmocka_unit_test(a_job_of_a_damaged_block_says_so),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
