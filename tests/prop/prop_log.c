/* The log against a tiny model, on a disk that forgets, tears, fails and fills up.
 *
 * The model (support/log_model.h) knows every batch that was acknowledged.  Whatever happens, a
 * start must find exactly those, and perhaps the one that was in flight; nothing changed, nothing
 * invented.  WEIR_SEED and WEIR_ROUNDS repeat or lengthen a run.
 * weir-test: long */
#include <inttypes.h>

#include "base/bytes.h"
#include "base/say.h"
#include "prop/dice.h"
#include "support/log_model.h"

static uint64_t seed, rounds;

static struct log_model *model_new(uint64_t with_seed)
{
        struct log_model *m = xmalloc(sizeof(*m));
        model_init(m, with_seed);
        return m;
}

static void model_free(struct log_model *m)
{
        model_release(m);
        free(m);
}

/* Reopens until the power stays on; now and then it goes during the start as well. */
static void reopen(struct log_model *m, unsigned crash_percent)
{
        struct problem p;
        model_close(m);
        for (;;) {
                if (rng_below(&m->rng, 3))
                        sim_disk_power_loss(&m->disk);
                else
                        sim_disk_process_end(&m->disk);
                if (rng_below(&m->rng, 100) < crash_percent)
                        m->disk.crash_at = m->disk.n_calls + 1 + rng_below(&m->rng, 8);
                int e = model_open(m, &p);
                if (e == OK && !m->disk.is_dead && m->n_failed == 0)
                        break;
                if (!m->disk.is_dead)
                        fail_msg("seed %" PRIu64 ": cannot start: %s", seed, p.detail);
                model_close(m);
        }
        m->disk.crash_at = 0;
        model_settle(m);
        model_check(m);
}

static struct slice some_batch(struct log_model *m)
{
        switch (rng_below(&m->rng, 8)) {
        case 0:
                return model_batch(m, 0, 0);
        case 1: /* nearly a whole segment */
                return model_batch(m, 1, MODEL_SEGMENT_BYTES - 2 * (uint64_t)DISK_BLOCK - 64);
        case 2:
                return model_batch(m, 1 + rng_below(&m->rng, 40), 100);
        default:
                return model_batch(m, 1 + rng_below(&m->rng, 4), 700);
        }
}

/* A payload may hold the bytes of the log's own files: frames of this very segment, sound but
 * for their place. */
static struct slice batch_with_own_frames(struct log_model *m)
{
        for (int i = 0; i < SIM_FILES_MAX; i++) {
                if (m->disk.seen[i].file < 0)
                        continue;
                const struct sim_file *f = &m->disk.files[m->disk.seen[i].file];
                if (f->size < MODEL_SEGMENT_BYTES || load_u64(f->seen + DISK_BLOCK) == 0)
                        continue;
                struct buf b;
                buf_init(&b, 0);
                size_t begun_at = record_begin(&b, 9, 1);
                buf_put(&b, "1234", 4); /* 32 + 12 + 4: at frame alignment */
                buf_put(&b, f->seen + DISK_BLOCK, 3000);
                record_end(&b, begun_at);
                return buf_slice(&b);
        }
        return some_batch(m);
}

/* As the core does: while the disk is full, only what the log said there is room for. */
static void append_if_there_is_room(struct log_model *m, struct slice batch)
{
        struct log_stat stat;
        m->log->ops->stat(m->log, &stat);
        bool is_small = batch.len + 64 <= MODEL_SEGMENT_BYTES / 4;
        if (m->disk.capacity_bytes && (!is_small || batch.len + 64 > stat.room_bytes)) {
                model_forget(&batch);
                return;
        }
        int e = model_append(m, batch);
        if (e && m->failure.err == ERR_NOSPACE)
                fail_msg("seed %" PRIu64 ": there was no room where room was told", seed);
}

static void one_operation(struct log_model *m)
{
        switch (rng_below(&m->rng, 20)) {
        case 0:
                model_trim(m, m->last ? 1 + rng_below(&m->rng, m->last + 1) : 1);
                break;
        case 1:
                model_trim(m, m->last + 1);
                break;
        case 2:
                m->log->ops->want_room(m->log, rng_below(&m->rng, 6 * MODEL_SEGMENT_BYTES));
                break;
        case 3:
                append_if_there_is_room(m, batch_with_own_frames(m));
                break;
        case 4: /* the disk is full, or has space again */
                m->disk.capacity_bytes = m->disk.capacity_bytes ? 0 : 1;
                break;
        default:
                append_if_there_is_room(m, some_batch(m));
                break;
        }
}

/* What the disk holds is bounded by what is kept and what was wanted: J12. */
static void check_space(struct log_model *m, uint64_t wanted)
{
        struct log_stat stat;
        m->log->ops->stat(m->log, &stat);
        uint64_t spare = MODEL_SEGMENT_BYTES - MODEL_SEGMENT_BYTES / 4 - 2 * (uint64_t)DISK_BLOCK;
        uint64_t bound = stat.retained_bytes + (wanted / spare + 4) * MODEL_SEGMENT_BYTES;
        assert_true(sim_used_bytes(&m->disk) <= bound);
}

static void whatever_happens_the_acknowledged_batches_are_there(void **state)
{
        (void)state;
        uint64_t n_checked = 0, n_starts = 0, n_batches = 0;
        for (uint64_t round = 0; round < rounds; round++) {
                struct log_model *m = model_new(seed + round);
                unsigned n_lives = 4 + (unsigned)rng_below(&m->rng, 8);
                for (unsigned life = 0; life < n_lives; life++) {
                        reopen(m, life ? 40 : 0);
                        n_starts++;
                        uint64_t n_ops = rng_below(&m->rng, 40);
                        uint64_t in_calls = 1 + rng_below(&m->rng, 3 * n_ops + 3);
                        switch (rng_below(&m->rng, 4)) {
                        case 0:
                                m->disk.fail_at = m->disk.n_calls + in_calls;
                                m->disk.is_failing_for_ever = rng_below(&m->rng, 2);
                                break;
                        case 1:
                                break; /* an orderly end */
                        default:
                                m->disk.crash_at = m->disk.n_calls + in_calls;
                                break;
                        }
                        while (n_ops-- > 0 && !m->n_failed)
                                one_operation(m);
                        assert_true(m->n_failed <= 1);
                        if (!m->n_failed) {
                                model_check(m);
                                check_space(m, 6 * MODEL_SEGMENT_BYTES);
                        }
                }
                n_checked += m->n_checked;
                n_batches += m->last;
                model_free(m);
        }
        print_message("%" PRIu64 " starts, %" PRIu64 " batches written, %" PRIu64 " compared\n",
                      n_starts, n_batches, n_checked);
}

/* One fixed history that comes by every kind of call: a first start, several segments, recycling,
 * removal, a second start. */
static void script(struct log_model *m)
{
        struct problem p;
        struct rng dice;
        rng_init_seed(&dice, 7);
        m->rng = dice;
        for (int part = 0; part < 2; part++) {
                if (model_open(m, &p) != OK)
                        return;
                if (m->n_failed)
                        break;
                model_settle(m);
                for (int i = 0; i < 24 && !m->n_failed; i++) {
                        (void)model_append(m, model_batch(m, 2, 1500));
                        if (i == 8 && !m->n_failed)
                                m->log->ops->want_room(m->log, 3 * MODEL_SEGMENT_BYTES);
                        if (i == 14 && !m->n_failed)
                                m->log->ops->want_room(m->log, 0);
                        if (i % 6 == 5 && !m->n_failed)
                                model_trim(m, m->last - 2);
                }
                model_close(m);
        }
        model_close(m);
}

static uint64_t calls_of_script(void)
{
        struct log_model *m = model_new(seed);
        script(m);
        assert_int_equal(m->last, 48);
        uint64_t n = m->disk.n_calls;
        model_free(m);
        return n;
}

static void a_power_loss_in_any_call_loses_nothing(void **state)
{
        (void)state;
        uint64_t n_calls = calls_of_script();
        for (uint64_t variant = 0; variant < dice_rounds(1); variant++) {
                for (uint64_t at = 1; at <= n_calls; at++) {
                        struct log_model *m = model_new(seed + variant * 1000 + at);
                        m->disk.crash_at = at;
                        script(m);
                        assert_true(m->disk.is_dead);
                        /* What was in flight is whole or not there; and again the power goes. */
                        reopen(m, 0);
                        for (int i = 0; i < 3; i++)
                                assert_int_equal(model_append(m, some_batch(m)), OK);
                        reopen(m, 50);
                        model_free(m);
                }
        }
        print_message("%" PRIu64 " calls, each cut %" PRIu64 " ways\n", n_calls, dice_rounds(1));
}

/* A process that ends leaves more in the cache than on the disk.  The next start must not build on
 * it: the power goes in any of its first calls, and then everything is as it was. */
static void a_start_on_what_a_killed_process_left_may_be_cut_off(void **state)
{
        (void)state;
        uint64_t n_calls = calls_of_script();
        for (uint64_t at = 1; at <= n_calls; at++) {
                for (uint64_t later = 1; later <= 6; later++) {
                        struct log_model *m = model_new(seed + at * 10 + later);
                        struct problem p;
                        m->disk.crash_at = at;
                        script(m);
                        sim_disk_process_end(&m->disk);
                        m->disk.crash_at = m->disk.n_calls + later;
                        (void)model_open(m, &p);
                        model_close(m);
                        sim_disk_power_loss(&m->disk);
                        if (model_open(m, &p) != OK)
                                fail_msg("seed %" PRIu64 ", killed in call %" PRIu64 ": %s", seed,
                                         at, p.detail);
                        model_settle(m);
                        model_check(m);
                        model_free(m);
                }
        }
}

static void a_failed_call_is_told_once_and_nothing_succeeds_afterwards(void **state)
{
        (void)state;
        uint64_t n_calls = calls_of_script();
        for (uint64_t at = 1; at <= 2 * n_calls; at++) {
                struct log_model *m = model_new(seed + at);
                m->disk.fail_at = 1 + (at - 1) / 2;
                m->disk.is_failing_for_ever = at % 2;
                struct problem p;
                if (model_open(m, &p) == OK && !m->n_failed) {
                        for (int i = 0; i < 24 && !m->n_failed; i++)
                                (void)model_append(m, model_batch(m, 2, 1500));
                        uint64_t last = m->last, syncs = m->disk.n_syncs;
                        if (m->n_failed) {
                                assert_int_equal(m->failure.err, ERR_IO);
                                m->disk.fail_at = 0;
                                assert_int_not_equal(
                                        m->log->ops->append(m->log, last + 1, SLICE_NONE), OK);
                                assert_int_not_equal(m->log->ops->trim(m->log, 1), OK);
                                model_close(m);
                                assert_int_equal(m->disk.n_syncs, syncs); /* never a second one */
                        }
                        assert_int_equal(m->last, last);
                        assert_true(m->n_failed <= 1);
                }
                reopen(m, 0);
                assert_int_equal(model_append(m, some_batch(m)), OK);
                /* What a start believed must be on the disk, not in a cache. */
                model_close(m);
                sim_disk_power_loss(&m->disk);
                assert_int_equal(model_open(m, &p), OK);
                model_settle(m);
                model_check(m);
                model_free(m);
        }
}

static int ignore_batch(void *ctx, uint64_t seq, struct slice batch)
{
        (void)ctx;
        (void)seq;
        (void)batch;
        return OK;
}

/* A read that fails is an error of the disk: never the end of the log, never damage. */
static void a_failed_read_is_neither_an_end_nor_damage(void **state)
{
        (void)state;
        struct log_model *m = model_new(seed);
        struct sim_disk *to = xmalloc(sizeof(*to));
        script(m);
        bool is_hit = true;
        for (uint64_t n = 1; is_hit; n++) {
                struct problem p;
                struct file_log_report report;
                int e[4];
                m->disk.fail_read_at = m->disk.n_reads + n;
                e[0] = file_log_verify(&m->disk.disk, NULL, NULL, &report, &p);
                m->disk.fail_read_at = m->disk.n_reads + n;
                sim_disk_init(to, n);
                e[1] = file_log_salvage(&m->disk.disk, &to->disk, NULL, NULL, &report, &p);
                sim_disk_release(to);
                m->disk.fail_read_at = m->disk.n_reads + n;
                e[2] = file_log_walk(&m->disk.disk, ignore_batch, NULL, &p);
                m->disk.fail_read_at = m->disk.n_reads + n;
                e[3] = model_open(m, &p);
                if (!e[3])
                        e[3] = m->log->ops->read(m->log, 0, ignore_batch, NULL, &p);
                m->disk.fail_read_at = 0;
                is_hit = false;
                for (int i = 0; i < 4; i++) {
                        assert_true(e[i] == OK || e[i] == ERR_IO);
                        is_hit |= e[i] != OK;
                }
                model_close(m);
                assert_int_equal(model_open(m, &p), OK);
                model_settle(m);
                model_check(m);
                model_close(m);
        }
        free(to);
        model_free(m);
}

/* A batch that a start found whole, though its sync had failed, must survive the next power loss:
 * the start has to write it again, since the cache says it is there and the disk knows nothing. */
static void a_start_does_not_believe_the_cache(void **state)
{
        (void)state;
        for (uint64_t i = 0; i < 200; i++) {
                struct log_model *m = model_new(seed + i);
                struct problem p;
                assert_int_equal(model_open(m, &p), OK);
                for (int n = (int)rng_below(&m->rng, 9); n >= 0; n--)
                        assert_int_equal(model_append(m, some_batch(m)), OK);
                m->disk.fail_at = m->disk.n_calls + 2; /* the sync of the next batch, mostly */
                (void)model_append(m, some_batch(m));
                model_close(m);
                sim_disk_process_end(&m->disk);
                assert_int_equal(model_open(m, &p), OK);
                model_settle(m);
                uint64_t believed = m->tail.last_seq;
                m->disk.crash_at = m->disk.n_calls + 1;
                (void)model_append(m, some_batch(m));
                model_close(m);
                sim_disk_power_loss(&m->disk);
                assert_int_equal(model_open(m, &p), OK);
                assert_true(m->tail.last_seq >= believed);
                model_settle(m);
                model_check(m);
                model_free(m);
        }
}

/* ---- damage ---- */

enum verdict { REFUSED, WHOLE, LAST_CUT, WRONG };

/* What becomes of a copy of the log after `damage` was done to it. */
static enum verdict judge(struct log_model *m, struct sim_disk *damaged)
{
        struct log_model *c = xmalloc(sizeof(*c));
        memset(c, 0, sizeof(*c));
        c->disk = *damaged;
        c->log_seed = m->log_seed + 2; /* a later start draws other numbers */
        memcpy(c->batches, m->batches, sizeof(c->batches));
        c->last = m->last;
        struct problem p = {0};
        enum verdict v = REFUSED;
        int e = model_open(c, &p);
        if (!e) {
                struct model_walk w = {.m = c};
                e = c->log->ops->read(c->log, 0, model_walk_batch, &w, &p);
                if (!e)
                        v = WRONG;
                if (w.n_wrong)
                        e = OK, v = WRONG;
                else if (!e && c->tail.last_seq == m->last && w.next == m->last + 1)
                        v = WHOLE;
                else if (!e && c->tail.last_seq == m->last - 1 && w.next == m->last &&
                         c->tail.cut_batches == 1)
                        v = LAST_CUT;
        }
        if (v == REFUSED && (e != ERR_CORRUPT || !strstr(p.detail, ".seg at byte ")))
                v = WRONG;
        model_close(c);
        *damaged = c->disk;
        free(c);
        return v;
}

struct damage_count {
        uint64_t n[4];
        bool may_cut; /* the log was not closed: its last frame may be taken for a torn one */
};

static void judge_and_count(struct log_model *m, struct sim_disk *copy, struct damage_count *count,
                            const char *what, uint64_t at)
{
        enum verdict v = judge(m, copy);
        sim_disk_release(copy);
        count->n[v]++;
        if (v == WRONG || (v == LAST_CUT && !count->may_cut))
                fail_msg("seed %" PRIu64 ": %s at %" PRIu64 ": a changed log was believed", seed,
                         what, at);
}

/* Three segments: one large batch, a few small ones, and the last; and a spare. */
static struct log_model *small_log(bool is_closed)
{
        struct log_model *m = model_new(seed);
        struct problem p;
        assert_int_equal(model_open(m, &p), OK);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(model_append(m, model_batch(m, 2, 60)), OK);
                assert_int_equal(model_append(m, model_batch(m, 1, 60)), OK);
                assert_int_equal(model_append(m, model_batch_of(m, 3, 3000, 3000)), OK);
                assert_int_equal(model_append(m, model_batch(m, 2, 60)), OK);
        }
        if (!is_closed)
                m->disk.is_dead = true;
        model_close(m);
        sim_disk_power_loss(&m->disk);
        return m;
}

/* Where the frames of a segment end. */
static uint64_t used_bytes(const struct sim_file *f)
{
        uint64_t n = f->size - DISK_BLOCK;
        while (n > 0 && f->seen[n - 1] == 0)
                n--;
        return n;
}

/* What is small is flipped bit by bit; the rest, large bodies and unused bytes, here and there. */
static bool is_worth_a_flip(uint64_t at, uint64_t used, uint64_t size)
{
        static const uint64_t EDGE = 400;
        bool is_header = at < 64,
             is_footer = at + DISK_BLOCK >= size && at + DISK_BLOCK < size + 32;
        bool is_first = at >= DISK_BLOCK && at < DISK_BLOCK + EDGE;
        bool is_last = at < used && at + EDGE >= used;
        return is_header || is_footer || (used > DISK_BLOCK && (is_first || is_last)) ||
               at % 101 == 0;
}

static void each_flipped_bit_is_noticed(bool is_closed)
{
        struct log_model *m = small_log(is_closed);
        struct damage_count count = {.may_cut = !is_closed};
        struct sim_disk *copy = xmalloc(sizeof(*copy));
        uint64_t stride = dice_rounds(1) > 1 ? 1 : 3; /* in a short run, each third bit */
        for (int i = 0; i < SIM_FILES_MAX; i++) {
                if (m->disk.seen[i].file < 0)
                        continue;
                const char *name = m->disk.seen[i].name;
                const struct sim_file *f = &m->disk.files[m->disk.seen[i].file];
                uint64_t used = used_bytes(f);
                for (uint64_t at = 0; at < f->size; at++) {
                        for (uint64_t bit = (at + seed) % stride; bit < 8; bit += stride) {
                                if (!is_worth_a_flip(at, used, f->size))
                                        break;
                                sim_disk_copy(copy, &m->disk);
                                sim_disk_flip(copy, name, at * 8 + bit);
                                judge_and_count(m, copy, &count, "a flipped bit of byte", at);
                        }
                }
        }
        print_message("flips: %" PRIu64 " refused, %" PRIu64 " harmless, %" PRIu64 " cut\n",
                      count.n[REFUSED], count.n[WHOLE], count.n[LAST_CUT]);
        assert_true(count.n[REFUSED] > 1000);
        free(copy);
        model_free(m);
}

static void a_flipped_bit_is_never_believed(void **state)
{
        (void)state;
        each_flipped_bit_is_noticed(false);
}

static void after_an_orderly_end_not_even_the_last_batch_may_be_cut(void **state)
{
        (void)state;
        each_flipped_bit_is_noticed(true);
}

static void a_file_cut_short_or_missing_is_never_believed(void **state)
{
        (void)state;
        struct log_model *m = small_log(true);
        struct damage_count count = {0};
        struct sim_disk *copy = xmalloc(sizeof(*copy));
        for (int i = 0; i < SIM_FILES_MAX; i++) {
                if (m->disk.seen[i].file < 0)
                        continue;
                uint64_t size = m->disk.files[m->disk.seen[i].file].size;
                for (uint64_t at = 0; at < size; at += at < 128 ? 1 : 97) {
                        sim_disk_copy(copy, &m->disk);
                        sim_disk_truncate(copy, m->disk.seen[i].name, at);
                        judge_and_count(m, copy, &count, "a file cut", at);
                }
        }
        assert_int_equal(count.n[WHOLE], 0);
        /* The first one may have been trimmed for all that anybody can tell; the last is only a
         * spare; each other one is missed. */
        for (int i = 2; i <= 3; i++) {
                char name[32];
                snprintf(name, sizeof(name), "%016x.seg", i);
                sim_disk_copy(copy, &m->disk);
                assert_non_null(sim_find(copy->seen, name));
                sim_find(copy->safe, name)->file = -1;
                sim_find(copy->seen, name)->file = -1;
                uint64_t refused = count.n[REFUSED];
                judge_and_count(m, copy, &count, "a missing file", (uint64_t)i);
                assert_int_equal(count.n[REFUSED], refused + 1);
        }
        free(copy);
        model_free(m);
}

/* Whole sectors and blocks that are lost, written twice or exchanged. */
static void a_misplaced_or_lost_sector_is_never_believed(void **state)
{
        (void)state;
        struct log_model *m = small_log(true);
        struct damage_count count = {0};
        struct sim_disk *copy = xmalloc(sizeof(*copy));
        for (int i = 0; i < SIM_FILES_MAX; i++) {
                if (m->disk.seen[i].file < 0)
                        continue;
                const char *name = m->disk.seen[i].name;
                const struct sim_file *f = &m->disk.files[m->disk.seen[i].file];
                for (uint64_t unit = SIM_SECTOR; unit <= DISK_BLOCK; unit *= 8) {
                        for (uint64_t at = 0; at + unit <= f->size; at += unit) {
                                static const char ZEROS[DISK_BLOCK];
                                sim_disk_copy(copy, &m->disk);
                                sim_disk_poke(copy, name, at, ZEROS, unit);
                                judge_and_count(m, copy, &count, "zeros", at);
                                uint64_t other = rng_below(&m->rng, f->size / unit) * unit;
                                sim_disk_copy(copy, &m->disk);
                                sim_disk_poke(copy, name, at, f->seen + other, unit);
                                judge_and_count(m, copy, &count, "a double", at);
                                /* This one hits two places; if they are the footer and the
                                 * last frame, nobody can tell any more. */
                                sim_disk_copy(copy, &m->disk);
                                sim_disk_poke(copy, name, at, f->seen + other, unit);
                                sim_disk_poke(copy, name, other, f->seen + at, unit);
                                count.may_cut =
                                        at >= f->size - DISK_BLOCK || other >= f->size - DISK_BLOCK;
                                judge_and_count(m, copy, &count, "an exchange", at);
                                count.may_cut = false;
                        }
                }
        }
        assert_true(count.n[REFUSED] > 50);
        free(copy);
        model_free(m);
}

int main(void)
{
        say_setup(SAY_ERROR, false); /* a full disk is no news here */
        struct rng dice;
        seed = dice_init(&dice, "log");
        rounds = dice_rounds(40);
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(whatever_happens_the_acknowledged_batches_are_there),
                cmocka_unit_test(a_power_loss_in_any_call_loses_nothing),
                cmocka_unit_test(a_start_on_what_a_killed_process_left_may_be_cut_off),
                cmocka_unit_test(a_failed_call_is_told_once_and_nothing_succeeds_afterwards),
                cmocka_unit_test(a_failed_read_is_neither_an_end_nor_damage),
                cmocka_unit_test(a_start_does_not_believe_the_cache),
                cmocka_unit_test(a_flipped_bit_is_never_believed),
                cmocka_unit_test(after_an_orderly_end_not_even_the_last_batch_may_be_cut),
                cmocka_unit_test(a_file_cut_short_or_missing_is_never_believed),
                cmocka_unit_test(a_misplaced_or_lost_sector_is_never_believed),
        };
        return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
