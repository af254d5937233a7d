/* The frames of `weir top`: every size, and what is chosen. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen.h"
#include "cli/top_view.h"
#include "wire/resp_reply.h"

struct rig {
        struct buf bytes[4];
        struct arena arena;
        struct top_view view;
        struct buf frame;
};

static void put_text(struct buf *b, const char *text)
{
        buf_printf(b, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void put_pair(struct buf *b, const char *key, const char *text)
{
        put_text(b, key);
        put_text(b, text);
}

static void put_number(struct buf *b, const char *key, int n)
{
        put_text(b, key);
        buf_printf(b, ":%d\r\n", n);
}

static const struct value *parsed(struct rig *x, struct buf *b)
{
        struct value *v = NULL;
        assert_int_equal(value_parse(buf_slice(b), &x->arena, &v), OK);
        return v;
}

static void put_queues(struct buf *b, int n, int from)
{
        buf_printf(b, "*%d\r\n", n);
        for (int i = from; i < from + n; i++) {
                char name[32];
                (void)snprintf(name, sizeof(name), "queue-%02d", i);
                buf_put_str(b, "%8\r\n");
                put_pair(b, "name", name);
                put_text(b, "paused");
                buf_put_str(b, i == 3 ? "#t\r\n" : "#f\r\n");
                put_number(b, "ready", i);
                put_number(b, "scheduled", 0);
                put_number(b, "waiting", 0);
                put_number(b, "running", 1);
                put_number(b, "enqueued", 100 + i);
                put_number(b, "completed", 50);
        }
}

static void put_throttle(struct buf *b, int targets, bool is_enabled)
{
        static const char *const levels[] = {"critical", "unknown", "normal"};
        buf_put_str(b, "%6\r\n");
        put_pair(b, "mode", "enforce");
        put_text(b, "enabled");
        buf_put_str(b, is_enabled ? "#t\r\n" : "#f\r\n");
        put_pair(b, "level", "critical");
        put_pair(b, "target", "shop-0");
        put_number(b, "since_ms", 3000);
        put_text(b, "targets");
        buf_printf(b, "*%d\r\n", targets);
        for (int i = 0; i < targets; i++) {
                char name[32];
                (void)snprintf(name, sizeof(name), "shop-%d", i);
                buf_put_str(b, "%7\r\n");
                put_pair(b, "name", name);
                put_pair(b, "level", levels[i < 2 ? i : 2]);
                put_number(b, "age_ms", 62000);
                put_pair(b, "metric", "threads_running");
                put_pair(b, "value", "87");
                put_pair(b, "threshold", "60");
                put_number(b, "since_ms", 1000);
        }
}

static void rig_init(struct rig *x, int queues, int targets)
{
        for (size_t i = 0; i < ARRAY_LEN(x->bytes); i++)
                buf_init(&x->bytes[i], 0);
        arena_init(&x->arena, 0);
        buf_init(&x->frame, 0);
        top_view_init(&x->view);
        x->view.server = "127.0.0.1:7379";
        x->view.now_ms = 1000000;
        put_queues(&x->bytes[0], queues, 0);
        put_throttle(&x->bytes[1], targets, true);
        x->view.panels[TOP_QUEUES] = parsed(x, &x->bytes[0]);
        x->view.throttle = parsed(x, &x->bytes[1]);
}

static void rig_release(struct rig *x)
{
        for (size_t i = 0; i < ARRAY_LEN(x->bytes); i++)
                buf_release(&x->bytes[i]);
        arena_release(&x->arena);
        buf_release(&x->frame);
        top_view_release(&x->view);
}

static const char *draw(struct rig *x)
{
        buf_clear(&x->frame);
        top_put_frame(&x->view, &x->frame);
        return buf_cstr(&x->frame);
}

/* A target that is entered with 87 and has 12 now, and one that only observes. */
static void a_cause_that_is_past_is_told_as_past(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 1, 0);
        buf_clear(&x.bytes[1]);
        struct buf *b = &x.bytes[1];
        buf_put_str(b, "%6\r\n");
        put_pair(b, "mode", "enforce");
        put_pair(b, "level", "elevated");
        put_pair(b, "target", "shop");
        put_pair(b, "observed_level", "critical");
        put_pair(b, "observed_target", "stock");
        put_text(b, "targets");
        buf_put_str(b, "*2\r\n%8\r\n");
        put_pair(b, "name", "shop");
        put_pair(b, "mode", "enforce");
        put_pair(b, "level", "elevated");
        put_pair(b, "metric", "threads_running");
        put_pair(b, "value", "87");
        put_pair(b, "threshold", "60");
        put_pair(b, "now", "12");
        put_number(b, "falls_in_ms", 4000);
        buf_put_str(b, "%7\r\n");
        put_pair(b, "name", "stock");
        put_pair(b, "mode", "observe");
        put_pair(b, "level", "critical");
        put_pair(b, "metric", "lag");
        put_pair(b, "value", "9");
        put_pair(b, "threshold", "5");
        put_pair(b, "now", "9");
        x.view.throttle = parsed(&x, b);
        x.view.rows = 30;
        x.view.columns = 160;
        const char *frame = draw(&x);
        assert_non_null(strstr(
                frame, "because of shop: threads_running was 87, limit 60, is 12, falls in 4 s"));
        assert_non_null(strstr(frame, "only observed: stock "));
        assert_non_null(strstr(frame, "stock (observe)  lag 9, limit 5"));
        rig_release(&x);
}

static void put_sites(struct buf *b, int n)
{
        buf_printf(b, "*%d\r\n", n);
        for (int i = 0; i < n; i++) {
                char name[32];
                (void)snprintf(name, sizeof(name), "site-%d", i);
                buf_put_str(b, "%10\r\n");
                put_pair(b, "name", name);
                put_pair(b, "mode", i ? "enforce" : "observe");
                put_pair(b, "level", "critical");
                put_pair(b, "error", "");
                put_number(b, "due", 1001);
                put_text(b, "capped");
                buf_put_str(b, i ? "#f\r\n" : "#t\r\n");
                put_number(b, "moved", i);
                put_number(b, "would_move", 120);
                put_number(b, "running", 2);
                put_number(b, "failed", 3);
        }
}

static size_t count_text(const char *text, const char *what)
{
        size_t n = 0;
        for (; (text = strstr(text, what)); text++)
                n++;
        return n;
}

static void sites_are_in_the_head_when_there_are_any(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 3, 1);
        assert_null(strstr(draw(&x), "SITE"));
        put_sites(&x.bytes[3], 6);
        x.view.sites = parsed(&x, &x.bytes[3]);
        x.view.rows = 30;
        const char *frame = draw(&x);
        assert_non_null(strstr(frame, "site-0  observe  critical  1001+  0 (120 would)"));
        assert_non_null(strstr(frame, "site-3  enforce  critical   1001              3"));
        assert_null(strstr(frame, "site-4"));
        assert_non_null(strstr(frame, "and 2 more: weir wordpress status"));
        buf_clear(&x.frame);
        top_put_all(&x.view, &x.frame);
        assert_int_equal(count_text(buf_cstr(&x.frame), "site-"), 6);
        rig_release(&x);
}

static void put_member(struct buf *b, const char *node, const char *role, int seq)
{
        buf_put_str(b, "%4\r\n");
        put_pair(b, "node", node);
        put_pair(b, "role", role);
        put_pair(b, "state", strcmp(role, "odd") == 0 ? "differs" : "same");
        put_number(b, "seq", seq);
}

static const char *draw_cluster(struct rig *x, const char *leader, const char *role_of_a)
{
        struct buf *b = &x->bytes[3];
        buf_clear(b);
        buf_put_str(b, "%2\r\n");
        put_pair(b, "leader", leader);
        put_text(b, "members");
        buf_put_str(b, "*3\r\n");
        put_member(b, "a", role_of_a, 20000);
        put_member(b, "b", "follower", 10000);
        put_member(b, "c\033[2J", "follower", 10001);
        x->view.cluster = parsed(x, b);
        return draw(x);
}

static void a_cluster_has_a_line_in_the_head(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 3, 1);
        x.view.rows = 30;
        assert_null(strstr(draw(&x), "cluster"));
        const char *frame = draw_cluster(&x, "a", "leader");
        assert_non_null(strstr(frame, "cluster  a leads, 3 machines  behind: b 10000 batches\n"));
        frame = draw_cluster(&x, "", "gone");
        assert_non_null(strstr(frame, "cluster  NOBODY LEADS, 3 machines  gone: a\n"));
        assert_null(strstr(frame, "behind"));
        frame = draw_cluster(&x, "", "odd");
        assert_non_null(strstr(frame, "cluster  NOBODY LEADS, 3 machines  DIFFERS: a\n"));
        buf_clear(&x.bytes[3]); /* alone */
        buf_put_str(&x.bytes[3], "%2\r\n");
        put_pair(&x.bytes[3], "leader", "");
        put_text(&x.bytes[3], "members");
        buf_put_str(&x.bytes[3], "*0\r\n");
        x.view.cluster = parsed(&x, &x.bytes[3]);
        assert_null(strstr(draw(&x), "cluster"));
        rig_release(&x);
}

static void no_frame_is_larger_than_its_screen(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 40, 9);
        put_sites(&x.bytes[3], 6);
        x.view.sites = parsed(&x, &x.bytes[3]);
        for (size_t rows = 1; rows < 60; rows++) {
                for (size_t columns = 1; columns < 130; columns += 3) {
                        size_t lines = 1, width = 0;
                        x.view.rows = rows;
                        x.view.columns = columns;
                        x.view.panel = (enum top_panel)(columns % TOP_PANELS);
                        const char *at = draw(&x);
                        for (; rows >= 12 && *at;
                             at += strcspn(at, "\n") + (strchr(at, '\n') != NULL)) {
                                width = text_width(slice_make(at, strcspn(at, "\n")));
                                assert_true(width <= columns || columns < 20);
                                lines += strchr(at, '\n') != NULL;
                        }
                        assert_true(rows < 12 || columns < 20 || lines == rows);
                }
        }
        rig_release(&x);
}

static void the_head_tells_the_level_and_why(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 4, 9);
        x.view.rates = (struct top_rates){120, 118, 117.4, 0.25, 3, -1, 0};
        const char *text = draw(&x);
        assert_non_null(strstr(text, "level critical for 3 s  because of shop-0: threads_running "
                                     "87, limit 60"));
        assert_non_null(strstr(text, "in 120  start 118  done 117  fail 0.2  defer 3.0  checks  "
                                     "yes -  no 0"));
        assert_non_null(
                strstr(text, "shop-1  threads_running was last read 1 min 2 s ago  for 1 s"));
        assert_non_null(strstr(text, "and 5 more targets"));
        assert_non_null(strstr(text, "ready 6"));
        rig_release(&x);
}

static void the_head_tells_that_the_throttle_is_switched_off_and_what_switches_it_on(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 4, 1);
        assert_null(strstr(draw(&x), "switched off"));
        buf_clear(&x.bytes[1]);
        put_throttle(&x.bytes[1], 1, false);
        x.view.throttle = parsed(&x, &x.bytes[1]);
        const char *text = draw(&x);
        assert_non_null(strstr(text, "throttle enforce, SWITCHED OFF"));
        assert_non_null(strstr(text, "no job waits for load; 'weir setting set throttle.enabled "
                                     "true' switches it on\n"));
        rig_release(&x);
}

static void the_choice_moves_scrolls_and_stops_at_both_ends(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 40, 0);
        assert_non_null(strstr(draw(&x), "> queue-00"));
        top_move(&x.view, -5);
        assert_non_null(strstr(draw(&x), "> queue-00"));
        top_move(&x.view, 3);
        assert_non_null(strstr(draw(&x), "> queue-03  paused"));
        assert_true(x.view.is_paused);
        top_move(&x.view, TOP_ROWS_MAX);
        const char *text = draw(&x);
        assert_non_null(strstr(text, "> queue-39"));
        assert_null(strstr(text, "queue-00"));
        top_move(&x.view, -1);
        assert_non_null(strstr(draw(&x), "> queue-38"));
        rig_release(&x);
}

static void the_choice_stays_with_its_row_when_others_come_and_go(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 10, 0);
        top_move(&x.view, 5);
        (void)draw(&x);
        put_queues(&x.bytes[2], 6, 4); /* 00 to 03 are gone */
        x.view.panels[TOP_QUEUES] = parsed(&x, &x.bytes[2]);
        assert_non_null(strstr(draw(&x), "> queue-05"));
        buf_clear(&x.bytes[0]);
        put_queues(&x.bytes[0], 2, 8); /* and now itself */
        x.view.panels[TOP_QUEUES] = parsed(&x, &x.bytes[0]);
        assert_non_null(strstr(draw(&x), "> queue-09"));
        rig_release(&x);
}

static void a_filter_keeps_the_rows_that_hold_it(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 30, 0);
        x.view.filter = SLICE_LIT("-1");
        const char *text = draw(&x);
        assert_non_null(strstr(text, "queue-10"));
        assert_null(strstr(text, "queue-09"));
        x.view.filter = SLICE_LIT("nothing like it");
        assert_non_null(strstr(draw(&x), "nothing fits the filter"));
        rig_release(&x);
}

static void without_answers_there_is_still_a_frame(void **state)
{
        struct rig x;
        (void)state;
        rig_init(&x, 0, 0);
        x.view.throttle = NULL;
        for (int i = 0; i < TOP_PANELS; i++)
                x.view.panels[i] = NULL;
        x.view.notice = "no connection, trying again";
        for (int i = 0; i < TOP_PANELS; i++) {
                assert_non_null(strstr(draw(&x), "no connection, trying again"));
                top_turn(&x.view, 1);
        }
        assert_int_equal(x.view.panel, TOP_QUEUES);
        rig_release(&x);
}

static void rates_come_from_two_counts(void **state)
{
        struct top_totals from = {.enqueued = 100, .completed = 50, .refused = 5};
        struct top_totals to = {.enqueued = 350, .completed = 50, .refused = 4};
        struct top_rates r;
        (void)state;
        top_rates_between(&r, &from, &to, 500);
        assert_true(r.enqueued > 499.9 && r.enqueued < 500.1);
        assert_true(r.completed > -0.1 && r.completed < 0.1);
        assert_true(r.refused < 0); /* the server was restarted: not known */
        assert_true(r.started < 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_cause_that_is_past_is_told_as_past),
                cmocka_unit_test(sites_are_in_the_head_when_there_are_any),
                cmocka_unit_test(a_cluster_has_a_line_in_the_head),
                cmocka_unit_test(no_frame_is_larger_than_its_screen),
                cmocka_unit_test(the_head_tells_the_level_and_why),
                cmocka_unit_test(
                        the_head_tells_that_the_throttle_is_switched_off_and_what_switches_it_on),
                cmocka_unit_test(the_choice_moves_scrolls_and_stops_at_both_ends),
                cmocka_unit_test(the_choice_stays_with_its_row_when_others_come_and_go),
                cmocka_unit_test(a_filter_keeps_the_rows_that_hold_it),
                cmocka_unit_test(without_answers_there_is_still_a_frame),
                cmocka_unit_test(rates_come_from_two_counts),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
