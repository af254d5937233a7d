/* Effects as bytes: what is written is read back, and nothing else is believed. */
#include "check.h"

#include "effect_golden.h"
#include "state/effect.h"
#include "state/thing.h"

static struct slice text(const char *s)
{
        return slice_str(s);
}

/* One of each, with every field its row writes set to something that is not zero. */
static void fill(enum effect_type type, struct effect *e)
{
        static const uint64_t ids[] = {7, 900, 3, 1ULL << 40};
        *e = (struct effect){.type = type, .id = 77, .queue_id = 5};
        e->keep = e->is_final = e->is_paused = true;
        e->priority = 200;
        e->flags = JOB_FLAG_TIMED;
        e->attempts = 999;
        e->timeout_ms = 86400000;
        e->lease_ms = 300000;
        e->fence = 1ULL << 50;
        e->due_ms = 1700000000123;
        e->deadline_ns = 123456789012345;
        e->steady_ns = 99;
        e->wall_ms = 1700000000456;
        for (size_t i = 0; i < JOB_TOKEN_BYTES; i++)
                e->token[i] = (uint8_t)(200 + i);
        e->queue = text("queue");
        e->hook = text("hook");
        e->group = text("group");
        e->args = slice_make("a\0b", 3);
        e->worker = text("worker");
        e->text = text("some text");
        e->options = slice_make("\x12\x02", 2); /* run: 2 */
        e->other_id = 42;
        e->kind = THING_LIMIT;
        e->name = text("name");
        e->body = slice_make("\0\xff", 2);
        e->next_id = 12345;
        e->next_queue_id = 17;
        e->enqueued = 4;
        e->completed = 3;
        e->failed = 2;
        e->canceled = 1;
        e->from = 1234;
        e->bytes = MIB;
        e->ids = ids;
        e->n_ids = ARRAY_LEN(ids);
        e->state = JOB_LEASED;
        e->has_more = e->is_lease_open = true;
        e->events_kept = 2;
        e->view = (struct job_view){
                .id = 77,
                .hook = e->hook,
                .args = e->args,
                .queue = e->queue,
                .group = e->group,
                .priority = 200,
                .attempt = 2,
                .attempts_max = 999,
                .timeout_ms = 5,
                .created_ms = 1,
                .due_ms = 2,
                .started_ms = 3,
                .finished_ms = 4,
                .worker = e->worker,
                .fence = 6,
                .progress = text("p"),
                .result = text("r"),
                .error = text("e"),
                .events = text("ev"),
                .options = e->options,
        };
}

static void write_one(enum effect_type type, struct buf *b)
{
        struct effect e;
        fill(type, &e);
        buf_clear(b);
        effect_write(b, &e);
        assert_false(b->failed);
}

static int read_one(struct buf *b, struct effect *ret)
{
        struct slice rest = buf_slice(b);
        struct record record;
        struct problem problem;
        *ret = (struct effect){0};
        int r = record_next(&rest, &record);
        return r != OK ? r : effect_read(&record, ret, &problem);
}

static void assert_hex(const struct buf *b, const char *expected)
{
        char hex[512];
        assert_true(2 * b->len < sizeof(hex));
        hex_from_bytes((const uint8_t *)b->ptr, b->len, hex);
        hex[2 * b->len] = '\0';
        assert_string_equal(hex, expected);
}

static void every_record_has_the_bytes_it_always_had(void **unused)
{
        (void)unused;
        struct buf b;
        struct effect e;
        buf_init(&b, 0);
        assert_int_equal(ARRAY_LEN(golden), EFFECT_COUNT - 1);
        for (size_t i = 0; i < ARRAY_LEN(golden); i++) {
                write_one(golden[i].type, &b);
                assert_hex(&b, golden[i].full);
                e = (struct effect){.type = golden[i].type, .fence = i + 1 == EFFECT_JOB_START};
                buf_clear(&b);
                effect_write(&b, &e);
                assert_hex(&b, golden[i].bare);
                assert_int_equal(read_one(&b, &e), OK);
        }
        buf_release(&b);
}

static void a_record_of_version_1_lacks_what_was_added(void **unused)
{
        (void)unused;
        struct buf b;
        buf_init(&b, 0);
        for (size_t i = 0; i < ARRAY_LEN(golden); i++) {
                struct record record;
                struct effect e;
                struct problem problem;
                write_one(golden[i].type, &b);
                struct slice rest = buf_slice(&b);
                assert_int_equal(record_next(&rest, &record), OK);
                record.version = 1;
                if (golden[i].n_added)
                        assert_int_equal(effect_read(&record, &e, &problem), ERR_CORRUPT);
                record.body.len -= golden[i].n_added;
                assert_int_equal(effect_read(&record, &e, &problem), OK);
                assert_int_equal(e.options.len, 0);
                if (golden[i].n_added)
                        assert_int_equal(e.other_id, 0);
        }
        buf_release(&b);
}

#define SET_TEXT(tag, name, ...) o.name = slice_str(#name);
#define SET_NUM(tag, name, ...)  o.name = (tag)*1000ULL;

static void options_and_settings_have_the_bytes_they_always_had(void **unused)
{
        (void)unused;
        struct buf b;
        buf_init(&b, 0);
        {
                struct job_options o, again;
                OPTION_MAP(SET_TEXT, SET_NUM)
                options_pack(&o, &b);
                assert_hex(&b, golden_options);
                assert_true(options_unpack(buf_slice(&b), &again));
                assert_true(slice_eq(again.schedule, o.schedule) && again.run == o.run);
        }
        buf_clear(&b);
        {
                struct queue_settings o, again;
                QUEUE_SETTING_MAP(SET_TEXT, SET_NUM)
                queue_settings_pack(&o, &b);
                assert_hex(&b, golden_settings);
                assert_true(queue_settings_unpack(buf_slice(&b), &again));
                assert_true(slice_eq(again.backoff, o.backoff) && again.history == o.history);
        }
        buf_release(&b);
}

static void every_effect_reads_back_as_it_was_written(void **unused)
{
        (void)unused;
        struct buf first, second;
        buf_init(&first, 0);
        buf_init(&second, 0);
        for (int type = EFFECT_NONE + 1; type < EFFECT_COUNT; type++) {
                struct effect e;
                write_one((enum effect_type)type, &first);
                assert_int_equal(read_one(&first, &e), OK);
                assert_int_equal(e.type, type);
                if (type == EFFECT_ARCHIVED) {
                        struct slice rest = e.text;
                        uint64_t at = 0;
                        const uint64_t expected[] = {7, 900, 3, 1ULL << 40};
                        for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
                                assert_true(effect_next_id(&rest, &at));
                                assert_true(at == expected[i]);
                        }
                        assert_false(effect_next_id(&rest, &at));
                        continue;
                }
                effect_write(&second, &e);
                assert_int_equal(first.len, second.len);
                assert_memory_equal(first.ptr, second.ptr, first.len);
                buf_clear(&second);
        }
        buf_release(&first);
        buf_release(&second);
}

static void a_body_that_is_too_short_or_too_long_is_refused(void **unused)
{
        (void)unused;
        struct buf whole, cut;
        buf_init(&whole, 0);
        buf_init(&cut, 0);
        for (int type = EFFECT_NONE + 1; type < EFFECT_COUNT; type++) {
                struct record record;
                struct effect e;
                struct problem problem;
                write_one((enum effect_type)type, &whole);
                struct slice rest = buf_slice(&whole);
                assert_int_equal(record_next(&rest, &record), OK);
                struct slice body = record.body;
                for (size_t n = 0; n < body.len; n++) {
                        record.body = slice_make(body.ptr, n);
                        assert_int_equal(effect_read(&record, &e, &problem), ERR_CORRUPT);
                }
                buf_clear(&cut);
                buf_put_slice(&cut, body);
                buf_put_byte(&cut, 1);
                record.body = buf_slice(&cut);
                assert_int_equal(effect_read(&record, &e, &problem), ERR_CORRUPT);
        }
        buf_release(&whole);
        buf_release(&cut);
}

static void an_unknown_type_or_a_newer_version_is_refused_by_name(void **unused)
{
        (void)unused;
        struct effect e;
        struct problem problem;
        struct record record = {.type = EFFECT_COUNT, .version = EFFECT_VERSION};
        assert_int_equal(effect_read(&record, &e, &problem), ERR_CORRUPT);
        assert_non_null(strstr(problem.detail, "newer"));
        record = (struct record){.type = EFFECT_CLOCK, .version = EFFECT_VERSION + 1};
        assert_int_equal(effect_read(&record, &e, &problem), ERR_CORRUPT);
        assert_non_null(strstr(problem.detail, "clock"));
}

static void every_effect_can_be_told_as_a_line_of_json(void **unused)
{
        (void)unused;
        struct buf b, line;
        buf_init(&b, 0);
        buf_init(&line, 0);
        for (int type = EFFECT_NONE + 1; type < EFFECT_COUNT; type++) {
                struct effect e;
                write_one((enum effect_type)type, &b);
                assert_int_equal(read_one(&b, &e), OK);
                buf_clear(&line);
                effect_to_json(&e, 9, &line);
                assert_true(line.len > 2 && line.ptr[line.len - 1] == '\n');
                assert_non_null(strstr(buf_cstr(&line), effect_name((enum effect_type)type)));
        }
        buf_release(&b);
        buf_release(&line);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_record_has_the_bytes_it_always_had),
                cmocka_unit_test(a_record_of_version_1_lacks_what_was_added),
                cmocka_unit_test(options_and_settings_have_the_bytes_they_always_had),
                cmocka_unit_test(every_effect_reads_back_as_it_was_written),
                cmocka_unit_test(a_body_that_is_too_short_or_too_long_is_refused),
                cmocka_unit_test(an_unknown_type_or_a_newer_version_is_refused_by_name),
                cmocka_unit_test(every_effect_can_be_told_as_a_line_of_json),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
