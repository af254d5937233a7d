/* The log in files, on the simulated disk: starts, ends, room, and the tools.  Its threads are in
 * test_file_log_thread.c, what crashes and damage do to it in tests/prop/prop_log.c. */
#include <inttypes.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "support/log_model.h"

static int new_model(void **state)
{
        struct log_model *m = xmalloc(sizeof(*m));
        model_init(m, 4711);
        *state = m;
        return 0;
}

static int free_model(void **state)
{
        model_release(*state);
        free(*state);
        return 0;
}

static void start(struct log_model *m)
{
        struct problem p;
        if (model_open(m, &p) != OK)
                fail_msg("cannot start: %s", p.detail);
        model_settle(m);
}

static void append_sized(struct log_model *m, size_t bytes)
{
        assert_int_equal(model_append(m, model_batch_of(m, 1, bytes, bytes)), OK);
}

static void a_new_log_is_empty_and_begins_with_batch_1(void **state)
{
        struct log_model *m = *state;
        start(m);
        assert_int_equal(m->tail.first_seq, 1);
        assert_int_equal(m->tail.last_seq, 0);
        model_check(m);
        append_sized(m, 10);
        assert_int_equal(m->last, 1);
        model_close(m);
        start(m);
        assert_int_equal(m->tail.first_seq, 1);
        assert_int_equal(m->tail.last_seq, 1);
}

static void an_empty_log_stays_empty_over_restarts(void **state)
{
        struct log_model *m = *state;
        for (int i = 0; i < 3; i++) {
                start(m);
                assert_int_equal(m->tail.last_seq, 0);
                model_close(m);
        }
        assert_int_equal(sim_disk_count(&m->disk), 2); /* head and spare, not more each time */
}

static void one_batch_costs_one_write_and_one_sync(void **state)
{
        struct log_model *m = *state;
        start(m);
        for (int i = 0; i < 20; i++) {
                uint64_t writes = m->disk.n_writes, syncs = m->disk.n_syncs;
                append_sized(m, 300);
                assert_int_equal(m->disk.n_writes, writes + 1);
                assert_int_equal(m->disk.n_syncs, syncs + 1);
        }
}

struct stop_at {
        uint64_t seq, n;
};

static int stop_walk(void *ctx, uint64_t seq, struct slice batch)
{
        (void)batch;
        struct stop_at *s = ctx;
        s->n++;
        return seq == s->seq ? ERR_LIMIT : OK;
}

static void reading_begins_where_asked_and_stops_when_told(void **state)
{
        struct log_model *m = *state;
        start(m);
        for (int i = 0; i < 30; i++)
                append_sized(m, 2000);
        struct problem p;
        struct stop_at s = {.seq = 20};
        assert_int_equal(m->log->ops->read(m->log, 12, stop_walk, &s, &p), ERR_LIMIT);
        assert_int_equal(s.n, 9);
        s = (struct stop_at){0};
        assert_int_equal(m->log->ops->read(m->log, 31, stop_walk, &s, &p), OK);
        assert_int_equal(s.n, 0);
}

static void trimmed_segments_are_used_again_and_then_removed(void **state)
{
        struct log_model *m = *state;
        start(m);
        for (int i = 0; i < 60; i++)
                append_sized(m, 3000);
        size_t before = sim_disk_count(&m->disk);
        assert_true(before > 15);
        model_trim(m, 50);
        struct log_stat stat;
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.retained_bytes < 6 * MODEL_SEGMENT_BYTES);
        assert_true(sim_disk_count(&m->disk) <= 7);
        /* From here on a steady log makes no new files and removes none. */
        size_t steady = sim_disk_count(&m->disk);
        m->disk.capacity_bytes = 1;
        for (int i = 0; i < 60; i++) {
                append_sized(m, 3000);
                model_trim(m, m->last - 8);
                assert_true(sim_disk_count(&m->disk) <= steady + 1);
        }
        model_check(m);
        model_close(m);
        start(m);
        model_check(m);
}

static void trimming_everything_keeps_the_count(void **state)
{
        struct log_model *m = *state;
        start(m);
        for (int i = 0; i < 10; i++)
                append_sized(m, 5000);
        model_trim(m, m->last + 1);
        model_close(m);
        start(m);
        assert_int_equal(m->tail.last_seq, 10);
        append_sized(m, 10);
        model_check(m);
}

static void a_torn_last_batch_is_cut_and_counted(void **state)
{
        struct log_model *m = *state;
        start(m);
        append_sized(m, 100);
        append_sized(m, 3000);
        m->disk.is_dead = true;
        model_close(m);
        sim_disk_power_loss(&m->disk);
        char zeros[SIM_SECTOR] = {0}; /* the middle of the second batch never arrived */
        sim_disk_poke(&m->disk, "0000000000000001.seg", DISK_BLOCK + 1024, zeros, sizeof(zeros));
        model_forget(&m->batches[2]);
        m->last = 1;
        start(m);
        assert_int_equal(m->tail.cut_batches, 1);
        assert_int_equal(m->tail.cut_bytes, ALIGN_UP(32 + 12 + 3000, 8));
        model_check(m);
        const char *cut = sim_disk_file(&m->disk, "0000000000000001.seg")->safe + DISK_BLOCK + 144;
        char nothing[32] = {0};
        assert_memory_equal(cut, nothing, sizeof(nothing)); /* for good */
        /* A shorter one over the remains, and again an end without warning. */
        append_sized(m, 20);
        m->disk.is_dead = true;
        model_close(m);
        sim_disk_power_loss(&m->disk);
        start(m);
        assert_int_equal(m->tail.cut_batches, 0);
        assert_int_equal(m->tail.last_seq, 2);
        model_check(m);
}

static void damage_names_the_file_the_place_and_the_reason_and_changes_nothing(void **state)
{
        struct log_model *m = *state;
        start(m);
        for (int i = 0; i < 3; i++)
                append_sized(m, 1000);
        m->disk.is_dead = true;
        model_close(m);
        sim_disk_power_loss(&m->disk);
        sim_disk_flip(&m->disk, "0000000000000001.seg", (DISK_BLOCK + 1048 + 500) * 8ULL);
        uint64_t calls = m->disk.n_calls;
        struct problem p;
        assert_int_equal(model_open(m, &p), ERR_CORRUPT);
        assert_non_null(strstr(p.detail, "0000000000000001.seg at byte 5144: wrong checksum"));
        assert_int_equal(m->disk.n_calls, calls);
}

/* Frames of just a sector each, every one sound on its own: only their order is wrong. */
static void sound_frames_in_the_wrong_order_are_noticed(void **state)
{
        struct log_model *m = *state;
        const char *name = "0000000000000001.seg";
        enum { N = 5 };
        start(m);
        for (int i = 0; i < N; i++)
                append_sized(m, SIM_SECTOR - 32 - 12);
        model_close(m);
        struct sim_disk *copy = xmalloc(sizeof(*copy)), intact = m->disk;
        const char *frames = sim_disk_file(&m->disk, name)->seen + DISK_BLOCK;
        for (unsigned i = 0; i < 2 * N * N; i++) {
                size_t a = i % N, b = i / N % N;
                if (a == b)
                        continue;
                sim_disk_copy(copy, &intact);
                sim_disk_poke(copy, name, DISK_BLOCK + a * SIM_SECTOR, frames + b * SIM_SECTOR,
                              SIM_SECTOR);
                if (i >= N * N) /* exchanged, not only doubled */
                        sim_disk_poke(copy, name, DISK_BLOCK + b * SIM_SECTOR,
                                      frames + a * SIM_SECTOR, SIM_SECTOR);
                m->disk = *copy;
                struct problem p;
                assert_int_equal(model_open(m, &p), ERR_CORRUPT);
                sim_disk_release(copy);
        }
        m->disk = intact;
        free(copy);
}

static void a_newer_format_is_refused_untouched(void **state)
{
        struct log_model *m = *state;
        start(m);
        append_sized(m, 100);
        model_close(m);
        const char *name = "0000000000000001.seg";
        char header[64];
        memcpy(header, sim_disk_file(&m->disk, name)->seen, sizeof(header));
        store_u32(header + 8, 2);
        store_u32(header + 60, crc32c(0, header, 60));
        sim_disk_poke(&m->disk, name, 0, header, sizeof(header));
        uint64_t calls = m->disk.n_calls;
        struct problem p;
        assert_int_equal(model_open(m, &p), ERR_UNAVAIL);
        assert_non_null(strstr(p.detail, "newer"));
        assert_int_equal(m->disk.n_calls, calls);
}

static void a_segment_under_another_name_is_noticed(void **state)
{
        struct log_model *m = *state;
        start(m);
        for (int i = 0; i < 12; i++)
                append_sized(m, 3000);
        model_close(m);
        struct sim_name *a = sim_find(m->disk.seen, "0000000000000001.seg");
        struct sim_name *b = sim_find(m->disk.seen, "0000000000000002.seg");
        int file = a->file;
        a->file = b->file;
        b->file = file;
        struct problem p;
        assert_int_equal(model_open(m, &p), ERR_CORRUPT);
        assert_non_null(strstr(p.detail, "the header says this is segment 2"));
        file = a->file;
        a->file = b->file;
        b->file = file;
}

static void other_files_in_the_folder_are_left_alone(void **state)
{
        struct log_model *m = *state;
        sim_disk_put_file(&m->disk, "lock", "1", 1);
        sim_disk_put_file(&m->disk, "notes.txt", "mine", 4);
        sim_disk_put_file(&m->disk, "000000000000000G.seg", "?", 1);
        start(m);
        append_sized(m, 10);
        model_close(m);
        start(m);
        assert_non_null(sim_disk_file(&m->disk, "notes.txt"));
        assert_non_null(sim_disk_file(&m->disk, "000000000000000G.seg"));
}

/* ---- room ---- */

static void the_room_that_is_told_is_there_on_a_full_disk(void **state)
{
        struct log_model *m = *state;
        start(m);
        m->log->ops->want_room(m->log, 5 * MODEL_SEGMENT_BYTES);
        struct log_stat stat;
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.room_bytes >= 5 * MODEL_SEGMENT_BYTES);
        assert_false(stat.is_disk_full);
        m->disk.capacity_bytes = 1;
        uint64_t left = stat.room_bytes;
        for (;;) {
                size_t body = rng_below(&m->rng, MODEL_SEGMENT_BYTES / 4 - 64);
                uint64_t bytes = ALIGN_UP(32 + 12 + body, 8);
                if (bytes > left)
                        break;
                left -= bytes;
                append_sized(m, body);
        }
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.is_disk_full);
        model_check(m);
        /* A start needs no space at all, and tells the same. */
        model_close(m);
        start(m);
        m->log->ops->want_room(m->log, 5 * MODEL_SEGMENT_BYTES);
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.is_disk_full);
        model_check(m);
        /* Trimming gives room without the disk. */
        model_trim(m, m->last);
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.room_bytes >= 4 * MODEL_SEGMENT_BYTES);
        /* And when there is space again, it is taken. */
        m->disk.capacity_bytes = 0;
        m->log->ops->want_room(m->log, 9 * MODEL_SEGMENT_BYTES);
        m->log->ops->stat(m->log, &stat);
        assert_false(stat.is_disk_full);
        assert_true(stat.room_bytes >= 9 * MODEL_SEGMENT_BYTES);
        /* What is not wanted any more goes back. */
        m->log->ops->want_room(m->log, 0);
        assert_true(sim_disk_count(&m->disk) <= 4);
}

static void no_segment_is_made_of_space_that_is_left_to_others(void **state)
{
        struct log_model *m = *state;
        struct log_stat stat;
        m->disk.capacity_bytes = 20 * MODEL_SEGMENT_BYTES;
        start(m);
        m->log->ops->want_room(m->log, 2 * MODEL_SEGMENT_BYTES);
        size_t n = sim_disk_count(&m->disk);
        m->log->ops->leave_free(m->log, (20 - n) * MODEL_SEGMENT_BYTES);
        /* The next one would be of that space, unless the room gets short. */
        m->log->ops->want_room(m->log, 2 * MODEL_SEGMENT_BYTES + MODEL_SEGMENT_BYTES / 2);
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.is_disk_full);
        assert_int_equal(sim_disk_count(&m->disk), n);
        m->log->ops->want_room(m->log, 6 * MODEL_SEGMENT_BYTES);
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.is_disk_full);
        assert_in_range(stat.room_bytes, 4 * MODEL_SEGMENT_BYTES, 6 * MODEL_SEGMENT_BYTES - 1);
        /* When less is to be left, it is taken at once. */
        m->log->ops->leave_free(m->log, MODEL_SEGMENT_BYTES);
        m->log->ops->stat(m->log, &stat);
        assert_false(stat.is_disk_full);
        assert_true(stat.room_bytes >= 6 * MODEL_SEGMENT_BYTES);
        append_sized(m, 1000);
        model_check(m);
}

static void a_refused_file_leaves_nothing_and_a_batch_without_room_is_final(void **state)
{
        struct log_model *m = *state;
        m->disk.capacity_bytes = MODEL_SEGMENT_BYTES;
        start(m);
        struct log_stat stat;
        m->log->ops->stat(m->log, &stat);
        assert_true(stat.is_disk_full);
        assert_int_equal(sim_disk_count(&m->disk), 1);
        append_sized(m, 10000);
        assert_int_equal(model_append(m, model_batch_of(m, 1, 9000, 9000)), ERR_NOSPACE);
        assert_int_equal(m->n_failed, 1);
        assert_int_equal(m->failure.err, ERR_NOSPACE);
        model_close(m);
        start(m);
        assert_int_equal(m->last, 1);
        model_check(m);
}

/* ---- the tools ---- */

struct told {
        unsigned n;
        char text[16][200];
};

static void tell(void *ctx, const char *file, uint64_t offset, const char *reason)
{
        struct told *t = ctx;
        if (t->n < 16)
                snprintf(t->text[t->n], sizeof(t->text[0]), "%s@%" PRIu64 ": %s", file, offset,
                         reason);
        t->n++;
}

static void fill_for_tools(struct log_model *m)
{
        start(m);
        for (int i = 0; i < 20; i++)
                assert_int_equal(model_append(m, model_batch_of(m, 4, 500, 500)), OK);
        model_close(m);
}

static void verify_counts_a_sound_log_and_changes_nothing(void **state)
{
        struct log_model *m = *state;
        fill_for_tools(m);
        struct told told = {0};
        struct file_log_report r;
        struct problem p;
        uint64_t calls = m->disk.n_calls;
        assert_int_equal(file_log_verify(&m->disk.disk, tell, &told, &r, &p), OK);
        assert_int_equal(told.n, 0);
        assert_int_equal(r.bad_places, 0);
        assert_int_equal(r.batches, 20);
        assert_int_equal(r.records, 80);
        assert_int_equal(r.first_seq, 1);
        assert_int_equal(r.last_seq, 20);
        assert_int_equal(r.bytes, 20 * (32 + 4 * 512));
        assert_int_equal(r.segments, 4);
        assert_int_equal(r.spares, 1);
        assert_int_equal(r.cut_batches, 0);
        assert_int_equal(m->disk.n_calls, calls);
}

static void a_walk_from_outside_reads_what_a_start_would(void **state)
{
        struct log_model *m = *state;
        fill_for_tools(m);
        struct problem p;
        struct model_walk w = {.m = m};
        uint64_t calls = m->disk.n_calls;
        assert_int_equal(file_log_walk(&m->disk.disk, model_walk_batch, &w, &p), OK);
        assert_int_equal(w.n_wrong, 0);
        assert_int_equal(w.first, 1);
        assert_int_equal(w.next, 21);
        assert_int_equal(m->disk.n_calls, calls);
        sim_disk_flip(&m->disk, "0000000000000002.seg", (DISK_BLOCK + 100) * 8ULL);
        assert_int_equal(file_log_walk(&m->disk.disk, model_walk_batch, &w, &p), ERR_CORRUPT);
}

#define FRAME_2080(i) (DISK_BLOCK + (i)*2080ULL)

static void verify_tells_every_damaged_place(void **state)
{
        struct log_model *m = *state;
        fill_for_tools(m); /* five batches of 2080 bytes in each segment */
        sim_disk_flip(&m->disk, "0000000000000001.seg", (FRAME_2080(1) + 1000) * 8);
        sim_disk_flip(&m->disk, "0000000000000001.seg", (FRAME_2080(4) + 10) * 8);
        sim_disk_flip(&m->disk, "0000000000000002.seg", 64);
        sim_disk_flip(&m->disk, "0000000000000003.seg", (FRAME_2080(4) + 40) * 8);
        struct told t = {0};
        struct file_log_report r;
        struct problem p;
        assert_int_equal(file_log_verify(&m->disk.disk, tell, &t, &r, &p), OK);
        assert_int_equal(r.bad_places, 4);
        assert_int_equal(t.n, 4);
        assert_string_equal(t.text[0], "0000000000000002.seg@0: the segment header is damaged");
        assert_string_equal(t.text[1], "0000000000000001.seg@6176: wrong checksum of the body");
        assert_string_equal(t.text[2], "0000000000000001.seg@12416: no frame header");
        assert_string_equal(t.text[3], "0000000000000003.seg@12416: wrong checksum of the body");
        assert_int_equal(r.batches, 17);
        model_forget(&m->in_flight);
}

struct salvaged {
        struct log_model *from;
        uint64_t n_batches, n_records, n_same;
};

static int count_salvaged(void *ctx, uint64_t seq, struct slice batch)
{
        struct salvaged *s = ctx;
        uint32_t n = 0;
        if (!record_count(batch, &n))
                return ERR_CORRUPT;
        s->n_batches++;
        s->n_records += n;
        s->n_same += slice_eq(batch, s->from->batches[seq]);
        return OK;
}

static void salvage_keeps_every_sound_record_and_lists_the_rest(void **state)
{
        struct log_model *m = *state;
        fill_for_tools(m);
        /* Batch 2: its second record; batch 5: its frame header; batch 7: a length in its second
         * record, which hides the rest; segment 4 (batches 16 to 20): both headers. */
        sim_disk_flip(&m->disk, "0000000000000001.seg", (FRAME_2080(1) + 32 + 512 + 100) * 8);
        sim_disk_flip(&m->disk, "0000000000000001.seg", (FRAME_2080(4) + 10) * 8);
        sim_disk_flip(&m->disk, "0000000000000002.seg", (FRAME_2080(1) + 32 + 512) * 8);
        struct sim_disk *to = xmalloc(sizeof(*to));
        sim_disk_init(to, 1);
        struct told t = {0};
        struct file_log_report r;
        struct problem p;
        uint64_t calls = m->disk.n_calls;
        assert_int_equal(file_log_salvage(&m->disk.disk, &to->disk, tell, &t, &r, &p), OK);
        assert_int_equal(m->disk.n_calls, calls);
        assert_int_equal(t.n, 3);
        assert_string_equal(t.text[0], "0000000000000001.seg@6176: wrong checksum of the body "
                                       "(batch 2, 3 records kept)");
        assert_string_equal(
                t.text[1], "0000000000000001.seg@12416: no frame header (batch 5, 4 records kept)");
        assert_string_equal(t.text[2], "0000000000000002.seg@6176: wrong checksum of the body "
                                       "(batch 7, 1 records kept)");
        assert_int_equal(r.records, 80 - 1 - 3);

        assert_int_equal(file_log_verify(&to->disk, tell, &t, &r, &p), OK);
        assert_int_equal(r.bad_places, 0);
        assert_int_equal(r.batches, 20);
        assert_int_equal(r.records, 76);

        struct log_model *n = xmalloc(sizeof(*n));
        model_init(n, 1);
        n->disk = *to;
        sim_disk_process_end(&n->disk);
        assert_int_equal(model_open(n, &p), OK);
        struct salvaged s = {.from = m};
        assert_int_equal(n->log->ops->read(n->log, 0, count_salvaged, &s, &p), OK);
        assert_int_equal(s.n_batches, 20);
        assert_int_equal(s.n_same, 18); /* batch 5 is whole but for its frame */
        model_release(n);
        free(n);
        free(to);
}

static void salvage_keeps_numbers_where_a_segment_is_missing(void **state)
{
        struct log_model *m = *state;
        fill_for_tools(m);
        sim_find(m->disk.seen, "0000000000000002.seg")->file = -1;
        struct sim_disk *to = xmalloc(sizeof(*to));
        sim_disk_init(to, 1);
        struct told t = {0};
        struct file_log_report r;
        struct problem p;
        assert_int_equal(file_log_salvage(&m->disk.disk, &to->disk, tell, &t, &r, &p), OK);
        assert_string_equal(t.text[0], "0000000000000002.seg@0: this segment is missing");
        assert_string_equal(t.text[1], "0000000000000003.seg@4096: batches 6 to 10 are missing");
        assert_int_equal(t.n, 2);
        assert_int_equal(file_log_verify(&to->disk, tell, &t, &r, &p), OK);
        assert_int_equal(r.batches, 20); /* five of them empty */
        assert_int_equal(r.records, 60);
        assert_int_equal(r.last_seq, 20);
        /* Into a folder that is in use, it does not go. */
        assert_int_equal(file_log_salvage(&m->disk.disk, &to->disk, tell, &t, &r, &p), ERR_BADARG);
        sim_disk_release(to);
        free(to);
}

int main(void)
{
#define MODEL(name) cmocka_unit_test_setup_teardown(name, new_model, free_model)
        const struct CMUnitTest tests[] = {
                MODEL(a_new_log_is_empty_and_begins_with_batch_1),
                MODEL(an_empty_log_stays_empty_over_restarts),
                MODEL(one_batch_costs_one_write_and_one_sync),
                MODEL(reading_begins_where_asked_and_stops_when_told),
                MODEL(trimmed_segments_are_used_again_and_then_removed),
                MODEL(trimming_everything_keeps_the_count),
                MODEL(a_torn_last_batch_is_cut_and_counted),
                MODEL(damage_names_the_file_the_place_and_the_reason_and_changes_nothing),
                MODEL(sound_frames_in_the_wrong_order_are_noticed),
                MODEL(a_newer_format_is_refused_untouched),
                MODEL(a_segment_under_another_name_is_noticed),
                MODEL(other_files_in_the_folder_are_left_alone),
                MODEL(the_room_that_is_told_is_there_on_a_full_disk),
                MODEL(no_segment_is_made_of_space_that_is_left_to_others),
                MODEL(a_refused_file_leaves_nothing_and_a_batch_without_room_is_final),
                MODEL(verify_counts_a_sound_log_and_changes_nothing),
                MODEL(a_walk_from_outside_reads_what_a_start_would),
                MODEL(verify_tells_every_damaged_place),
                MODEL(salvage_keeps_every_sound_record_and_lists_the_rest),
                MODEL(salvage_keeps_numbers_where_a_segment_is_missing),
        };
        return cmocka_run_group_tests_name("file_log", tests, NULL, NULL);
}
