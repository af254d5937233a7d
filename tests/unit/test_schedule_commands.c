/* The commands of schedules: set again, paused, run, removed, listed; and what is refused. */
#include "schedule_box.h"

static uint64_t digest(const struct rig *rig)
{
        state_check(&rig->core->state);
        return state_digest(&rig->core->state);
}

/* ---- commands ---- */

static void the_same_schedule_again_stays_where_it_is(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow");
        rig_pass_ms(&rig, 90000);
        assert_string_equal(rig_do(&rig, "SCHEDULE", "a", "other", "{}", "EVERY", "60000",
                                   "OVERLAP", "allow", "PRIORITY", "7"),
                            "{created:false state:'active' next_ms:1700000120000]");
        rig_pass_ms(&rig, 30000);
        assert_string_equal(slots(&rig), "+60000 +120000");
        has(rig_do(&rig, "SCHEDULED", "a"), "hook:'other' args:'{}' queue:'default' group:null "
                                            "priority:7");
        /* Other times begin anew. */
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "50000"), "next_ms:1700000170000]");
        restart(&rig);
        assert_int_equal(past(&rig, "a")->n_jobs, 2);
        rig_release(&rig);
}

static void new_times_never_go_behind_a_slot_that_was_served(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow");
        rig_pass_ms(&rig, MINUTE);
        set_clock(&rig, START);
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "30000", "FIRST", "1700000030000"),
            "next_ms:1700000090000]");
        rig_release(&rig);
}

static void a_paused_schedule_makes_nothing_and_makes_nothing_up(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "MISSED", "all", "OVERLAP",
                     "allow");
        assert_string_equal(rig_do(&rig, "PAUSESCHEDULE", "a"), "OK");
        assert_string_equal(rig_do(&rig, "PAUSESCHEDULE", "a"), "OK");
        rig_pass_ms(&rig, HOUR);
        restart(&rig);
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'paused' reason:null");
        /* A new definition leaves it paused. */
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "MISSED", "all", "OVERLAP",
                   "allow"),
            "state:'paused' next_ms:null");
        assert_string_equal(rig_do(&rig, "RESUMESCHEDULE", "a"), "OK");
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+3660000");
        rig_release(&rig);
}

static void a_run_outside_the_slots_moves_none(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        assert_string_equal(rig_do(&rig, "RUNSCHEDULE", "a"), "1");
        assert_string_equal(rig_do(&rig, "RUNSCHEDULE", "a"), "2");
        rig_pass_ms(&rig, MINUTE); /* both have not ended: skipped */
        assert_string_equal(slots(&rig), "run run");
        complete_one(&rig);
        rig_pass_ms(&rig, MINUTE);
        assert_int_equal(past(&rig, "a")->n_overlapped, 2);
        complete_one(&rig);
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+180000");
        rig_release(&rig);
}

static void a_removed_schedule_leaves_its_jobs_and_a_new_one_begins_anew(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(rig_do(&rig, "UNSCHEDULE", "a"), "OK");
        refuses(rig_do(&rig, "UNSCHEDULE", "a"), "NOTFOUND", "no schedule 'a'");
        refuses(rig_do(&rig, "SCHEDULED", "a"), "NOTFOUND", "no schedule 'a'");
        assert_string_equal(rig_do(&rig, "SCHEDULES"), "{schedules:[] cursor:'']");
        rig_pass_ms(&rig, HOUR);
        restart(&rig);
        assert_string_equal(slots(&rig), "+60000");
        assert_string_equal(rig_do(&rig, "SCHEDULES"), "{schedules:[] cursor:'']");
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000"), "{created:true");
        rig_pass_ms(&rig, MINUTE); /* the old job has not ended */
        assert_int_equal(past(&rig, "a")->n_overlapped, 1);
        complete_one(&rig);
        (void)rig_do(&rig, "UNSCHEDULE", "a");
        memory_archive_commit(&rig.archive, 10);
        rig_turn(&rig);
        assert_null(thing_find(&rig.core->state, THING_SCHEDULE, SLICE_LIT("a")));
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void what_it_makes_is_as_enqueue_would_make_it(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "hook", "{\"x\":1}", "EVERY", "60000", "QUEUE", "q",
                     "GROUP", "g", "PRIORITY", "3", "TIMEOUT", "5000", "ATTEMPTS", "4", "BACKOFF",
                     "fixed:5s", "KEY", "k", "KEYMAX", "2", "LIMIT", "l", "TARGET", "t", "EXPIRES",
                     "90000", "RESULTFOR", "1000", "SIGNATURE", "k1:00");
        restart(&rig);
        rig_pass_ms(&rig, MINUTE);
        const struct job *job = state_job(&rig.core->state, 1);
        const struct job_options *o = &job->extra->options;
        assert_true(slice_eq(name_slice(job->hook), SLICE_LIT("hook")));
        assert_true(slice_eq(slice_make(job->args, job->args_len), SLICE_LIT("{\"x\":1}")));
        assert_true(slice_eq(name_slice(job->queue->name), SLICE_LIT("q")));
        assert_true(slice_eq(name_slice(job->group), SLICE_LIT("g")));
        assert_int_equal(job->priority, 3);
        assert_int_equal(job->timeout_ms, 5000);
        assert_int_equal(job->attempts_max, 4);
        assert_true(o->backoff.len > 0);
        assert_true(slice_eq(o->key, SLICE_LIT("k")));
        assert_int_equal(o->key_max, 2);
        assert_true(slice_eq(o->limit, SLICE_LIT("l")));
        assert_true(slice_eq(o->target, SLICE_LIT("t")));
        assert_int_equal(o->expires_ms, START + MINUTE + 90000);
        assert_int_equal(o->result_ms, 1000);
        assert_true(slice_eq(o->signature, SLICE_LIT("k1:00")));
        assert_true(slice_eq(o->schedule, SLICE_LIT("a")));
        has(rig_do(&rig, "SCHEDULED", "a"),
            "backoff:'fixed:5s' maxrun_ms:null key:'k' key_max:2 limit:'l'");
        has(rig_do(&rig, "SCHEDULED", "a"), "signature:'k1:00'");
        rig_release(&rig);
}

static void what_cannot_be_is_refused_and_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        uint64_t before = digest(&rig);
        const struct {
                const char *words[8];
                const char *part;
        } wrong[] = {
                {{NULL}, "cron or every is missing"},
                {{"CRON", "* * * * *", "EVERY", "1000", NULL}, "cannot both be given"},
                {{"CRON", "0 0 30 2 *", NULL}, "day"},
                {{"CRON", "61 * * * *", NULL}, "minute"},
                {{"CRON", "", NULL}, "cron"},
                {{"CRON", "* * * * *", "ZONE", "Mars/Olympus", NULL}, "Mars/Olympus"},
                {{"CRON", "* * * * *", "ZONE", "../etc/passwd", NULL}, ""},
                {{"EVERY", "1000", "ZONE", "UTC", NULL}, "zone goes with cron"},
                {{"EVERY", "99", NULL}, "every must be 100 to"},
                {{"EVERY", "-5", NULL}, "every must be 100 to"},
                {{"EVERY", "1000", "FIRST", "5000", "UNTIL", "4000", NULL}, "until is before"},
                {{"EVERY", "1000", "UNTIL", "5000", NULL}, "never run"},
                {{"EVERY", "1000", "MISSED", "some", NULL}, "skip|one|all"},
                {{"EVERY", "1000", "OVERLAP", "no", NULL}, "skip|queue|allow|cancel"},
                {{"EVERY", "1000", "BACKOFF", "soon", NULL}, "backoff"},
                {{"EVERY", "1000", "KEYMAX", "3", NULL}, "keymax needs key"},
                {{"EVERY", "1000", "WINDOW", "0", NULL}, "window must be 1 to"},
                {{"EVERY", "1000", "STOPAFTER", "1001", NULL}, "stopafter must be 0 to 1000"},
                {{"EVERY", "1000", "JITTER", "86400001", NULL}, "jitter must be 0 to 86400000"},
        };
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                struct slice argv[16] = {SLICE_LIT("SCHEDULE"), SLICE_LIT("a"), SLICE_LIT("h"),
                                         SLICE_LIT("")};
                size_t n = 4;
                for (size_t j = 0; wrong[i].words[j]; j++)
                        argv[n++] = slice_str(wrong[i].words[j]);
                refuses(rig_argv(&rig, &rig.me, argv, n), "BADARG", wrong[i].part);
                assert_true(digest(&rig) == before);
        }
        refuses(rig_do(&rig, "PAUSESCHEDULE", "b"), "NOTFOUND", "no schedule 'b'");
        refuses(rig_do(&rig, "RESUMESCHEDULE", "b"), "NOTFOUND", "no schedule 'b'");
        refuses(rig_do(&rig, "RUNSCHEDULE", "b"), "NOTFOUND", "no schedule 'b'");
        assert_true(digest(&rig) == before);
        rig_release(&rig);
}

static void schedules_are_listed_by_name_page_by_page(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        static const char *const names[] = {"c", "a", "bb", "b"};
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                (void)rig_do(&rig, "SCHEDULE", names[i], "h", "", "EVERY", "60000");
        const char *text = rig_do(&rig, "SCHEDULES", "LIMIT", "2");
        has(text, "{schedules:[{name:'a' state:'active' hook:'h' queue:'default' cron:null "
                  "every_ms:60000 zone:null next_ms:1700000060000 last_slot_ms:null "
                  "last_job:null failures:0] {name:'b'");
        has(text, "cursor:'b']");
        text = rig_do(&rig, "SCHEDULES", "LIMIT", "2", "CURSOR", "b");
        has(text, "{schedules:[{name:'bb'");
        has(text, "{name:'c'");
        has(text, "cursor:'']");
        text = rig_do(&rig, "SCHEDULES", "MATCH", "b");
        has(text, "{name:'b'");
        assert_null(strstr(text, "{name:'c'"));
        rig_release(&rig);
}

static void there_can_be_as_many_schedules_as_the_limit_says(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[24];
        rig_init(&rig);
        say_setup(SAY_ERROR, false);
        for (int i = 0; i < LIMIT_SCHEDULES; i++) {
                (void)snprintf(name, sizeof(name), "s%d", i);
                has(rig_do(&rig, "SCHEDULE", name, "h", "", "EVERY", "60000"), "{created:true");
        }
        refuses(rig_do(&rig, "SCHEDULE", "more", "h", "", "EVERY", "60000"), "LIMIT", "10000");
        has(rig_do(&rig, "SCHEDULE", "s5", "h", "", "EVERY", "60000"), "{created:false");
        (void)rig_do(&rig, "UNSCHEDULE", "s5");
        has(rig_do(&rig, "SCHEDULE", "more", "h", "", "EVERY", "60000"), "{created:true");
        rig_release(&rig);
}

/* ---- trouble ---- */

static void a_full_disk_puts_a_slot_off_and_does_not_lose_it(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        say_setup(SAY_ERROR, false);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        struct log_stat before = rig.log.stat;
        rig.log.stat.is_disk_full = true;
        rig.log.stat.room_bytes = 0;
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "");
        has(rig_do(&rig, "SCHEDULED", "a"), "reason:'the disk is full");
        rig_pass_ms(&rig, 5000);
        rig.log.stat = before;
        rig_pass_ms(&rig, 1000);
        assert_string_equal(slots(&rig), "+60000");
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'active' reason:null");
        rig_release(&rig);
}

static bool sets(struct rig *rig, struct thing *t, struct slice body)
{
        return schedule_ops.set(&rig->core->state, t, body);
}

static void a_body_that_cannot_be_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        struct buf body CLEANUP(buf_release) = {0};
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "hook", "args", "CRON", "* * * * *", "KEY", "k");
        struct thing *t = &find(&rig, "a")->thing;
        schedule_ops.put(t, &body);
        for (size_t n = 1; n < body.len; n++)
                assert_false(sets(&rig, t, slice_make(body.ptr, n)));
        buf_put_byte(&body, 'x');
        assert_false(sets(&rig, t, buf_slice(&body)));
        body.len--;
        assert_true(sets(&rig, t, buf_slice(&body)));
        for (char op = 0; op < 8; op++)
                assert_false(schedule_ops.note(&rig.core->state, t,
                                               slice_make(((char[]){op, 1, 1, 1, 1, 1}), 6)));
        assert_false(schedule_ops.note(&rig.core->state, t, SLICE_NONE));
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void a_zone_that_is_gone_stops_the_schedule_and_not_weir(void **unused)
{
        (void)unused;
        struct rig rig;
        struct buf body CLEANUP(buf_release) = {0};
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "CRON", "* * * * *");
        struct schedule *sch = find(&rig, "a");
        struct schedule_def def = sch->def;
        def.zone = SLICE_LIT("Gone/Away");
        schedule_put(&def, &sch->past, &body);
        thing_set(rig.core, THING_SCHEDULE, SLICE_LIT("a"), buf_slice(&body));
        rig_turn(&rig);
        restart(&rig);
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'active' reason:'");
        has(rig_do(&rig, "SCHEDULED", "a"), "Gone/Away");
        rig_pass_ms(&rig, HOUR);
        assert_string_equal(slots(&rig), "");
        rig_release(&rig);
}

static void a_full_disk_refuses_a_run_by_hand_until_there_is_room(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        rig.log.stat.is_disk_full = true;
        rig.log.stat.room_bytes = 0;
        rig_turn(&rig);
        refuses(rig_do(&rig, "RUNSCHEDULE", "a"), "NOSPACE", "the disk is full");
        rig.log.stat.is_disk_full = false;
        rig.log.stat.room_bytes = 1ULL << 40;
        rig_turn(&rig);
        has(rig_do(&rig, "RUNSCHEDULE", "a"), "1");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_same_schedule_again_stays_where_it_is),
                cmocka_unit_test(new_times_never_go_behind_a_slot_that_was_served),
                cmocka_unit_test(a_paused_schedule_makes_nothing_and_makes_nothing_up),
                cmocka_unit_test(a_run_outside_the_slots_moves_none),
                cmocka_unit_test(a_removed_schedule_leaves_its_jobs_and_a_new_one_begins_anew),
                cmocka_unit_test(what_it_makes_is_as_enqueue_would_make_it),
                cmocka_unit_test(what_cannot_be_is_refused_and_changes_nothing),
                cmocka_unit_test(schedules_are_listed_by_name_page_by_page),
                cmocka_unit_test(there_can_be_as_many_schedules_as_the_limit_says),
                cmocka_unit_test(a_full_disk_puts_a_slot_off_and_does_not_lose_it),
                cmocka_unit_test(a_body_that_cannot_be_is_refused),
                cmocka_unit_test(a_zone_that_is_gone_stops_the_schedule_and_not_weir),
                cmocka_unit_test(a_full_disk_refuses_a_run_by_hand_until_there_is_room),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
