/* Queues come with the first word about them, and go when somebody says so or nobody misses them.
 */
#include "refusal.h"

#include <stdio.h>

#include "api/limits.h"

/* ---- removing ---- */

static void a_queue_without_jobs_is_removed_with_all_that_was_said_about_it(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "PAUSE", "mial");
        rig_do(&rig, "QUEUESET", "mial", "CAP", "3");
        assert_string_equal(rig_do(&rig, "UNQUEUE", "mial"), "OK");
        refuses(rig_do(&rig, "QUEUE", "mial"), "NOTFOUND", "no queue 'mial'");
        refuses(rig_do(&rig, "UNQUEUE", "mial"), "NOTFOUND", "no queue 'mial'");
        assert_true(rig_replays(&rig));
        refuses(rig_do(&rig, "QUEUE", "mial"), "NOTFOUND", "no queue 'mial'");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "mial");
        has(rig_do(&rig, "QUEUE", "mial"), "cap:0");
        assert_int_equal(rig_complete_next(&rig, "mial"), 1);
        rig_release(&rig);
}

static void a_queue_with_jobs_or_a_worker_that_waits_stays(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        rig_init(&rig);
        rig_session_init(&worker);
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q");
        refuses(rig_do(&rig, "UNQUEUE", "q"), "STATE", "queue 'q' has 1 job that has not ended");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q", "IN", "1000");
        refuses(rig_do(&rig, "UNQUEUE", "q"), "STATE", "2 jobs that have not ended");
        rig_do(&rig, "CANCEL", "1");
        rig_do(&rig, "CANCEL", "2");
        refuses(rig_do(&rig, "UNQUEUE", "q"), "UNAVAIL", "on their way into history");
        rig_archive_all(&rig);
        rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "1000", "QUEUES", "q", "new");
        refuses(rig_do(&rig, "UNQUEUE", "q"), "STATE", "a worker waits for jobs of queue 'q'");
        refuses(rig_do(&rig, "UNQUEUE", "new"), "NOTFOUND", "no queue 'new'");
        rig_pass_ms(&rig, 1000);
        assert_string_equal(rig_do(&rig, "UNQUEUE", "q"), "OK");
        rig_session_release(&rig, &worker);
        rig_release(&rig);
}

/* ---- making room ---- */

#define WITH_JOBS 10 /* few: the check of the state visits every job once per queue */

/* The first ones are held by their jobs, all others because they are paused. */
static void fill_up(struct rig *rig)
{
        char name[24];
        rig_audit(rig, false);
        for (int i = 0; i < LIMIT_QUEUES; i++) {
                (void)snprintf(name, sizeof(name), "q%d", i);
                if (i < WITH_JOBS)
                        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", name);
                else
                        assert_string_equal(rig_do(rig, "PAUSE", name), "OK");
        }
        rig_audit(rig, true);
}

/* Leaves a queue that has had a job and has none now. */
static void run_empty(struct rig *rig, const char *queue)
{
        assert_int_not_equal(rig_complete_next(rig, queue), 0);
        rig_archive_all(rig);
}

static void idle_queues_make_room_for_whatever_needs_one(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        rig_init(&rig);
        rig_session_init(&worker);
        rig_do(&rig, "SCHEDULE", "s", "h", "", "EVERY", "3600000", "QUEUE", "of-schedule");
        fill_up(&rig);
        refuses(rig_do(&rig, "RUNSCHEDULE", "s"), "LIMIT", "10000 queues already");
        refuses(rig_do(&rig, "QUEUESET", "new", "CAP", "3"), "LIMIT", "10000 queues already");
        refuses(rig_do(&rig, "PAUSE", "new"), "LIMIT", "10000 queues already");
        rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "1000", "QUEUES", "new");
        refuses(rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "new"), "LIMIT", "queues already");

        run_empty(&rig, "q1");
        has(rig_do(&rig, "RUNSCHEDULE", "s"), "11");
        run_empty(&rig, "q2");
        assert_string_equal(rig_do(&rig, "QUEUESET", "set", "CAP", "3"), "OK");
        run_empty(&rig, "q3");
        assert_string_equal(rig_do(&rig, "PAUSE", "paused"), "OK");
        run_empty(&rig, "q4");
        rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "1000", "QUEUES", "awaited");
        assert_false(worker.is_answered);
        refuses(rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "new"), "LIMIT", "queues already");
        rig_session_release(&rig, &worker);
        assert_true(rig_replays(&rig));
        has(rig_do(&rig, "QUEUE", "set"), "cap:3");
        has(rig_do(&rig, "QUEUE", "paused"), "paused:true");
        refuses(rig_do(&rig, "QUEUE", "q4"), "NOTFOUND", "no queue 'q4'");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_queue_without_jobs_is_removed_with_all_that_was_said_about_it),
                cmocka_unit_test(a_queue_with_jobs_or_a_worker_that_waits_stays),
                cmocka_unit_test(idle_queues_make_room_for_whatever_needs_one),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
