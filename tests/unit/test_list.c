/* The intrusive list. */
#include "check.h"

#include "base/list.h"

struct item {
        int value;
        struct list link;
};

static void a_new_list_is_empty(void **state)
{
        struct list head;

        (void)state;
        list_init(&head);
        assert_true(list_is_empty(&head));
        assert_null(list_peek_front(&head));
}

static void items_keep_the_order_they_were_pushed_in(void **state)
{
        struct item items[5] = {0};
        struct list head;
        int n = 0;

        (void)state;
        list_init(&head);
        for (int i = 0; i < 5; i++) {
                items[i].value = i;
                assert_false(list_is_linked(&items[i].link));
                list_push_back(&head, &items[i].link);
                assert_true(list_is_linked(&items[i].link));
        }
        assert_ptr_equal(list_peek_front(&head), &items[0].link);
        LIST_FOREACH(&head, it)
        assert_int_equal(CONTAINER_OF(it, struct item, link)->value, n++);
        assert_int_equal(n, 5);
}

static void the_current_item_may_be_removed_during_a_walk(void **state)
{
        struct item items[6] = {0};
        struct list head;
        int n = 0;

        (void)state;
        list_init(&head);
        for (int i = 0; i < 6; i++) {
                items[i].value = i;
                list_push_back(&head, &items[i].link);
        }
        LIST_FOREACH(&head, it)
        if (CONTAINER_OF(it, struct item, link)->value % 2)
                list_remove(it);
        LIST_FOREACH(&head, it)
        {
                assert_int_equal(CONTAINER_OF(it, struct item, link)->value, n);
                n += 2;
        }
        assert_int_equal(n, 6);
        assert_false(list_is_linked(&items[1].link));
        for (int i = 0; i < 6; i += 2)
                list_remove(&items[i].link);
        assert_true(list_is_empty(&head));
}

static void an_item_goes_in_before_another(void **state)
{
        struct item a = {0}, b = {0};
        struct list head;

        (void)state;
        list_init(&head);
        list_push_back(&head, &b.link);
        list_insert_before(&b.link, &a.link);
        assert_ptr_equal(list_peek_front(&head), &a.link);
        assert_ptr_equal(a.link.next, &b.link);
        assert_ptr_equal(head.prev, &b.link);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_new_list_is_empty),
                cmocka_unit_test(items_keep_the_order_they_were_pushed_in),
                cmocka_unit_test(the_current_item_may_be_removed_during_a_walk),
                cmocka_unit_test(an_item_goes_in_before_another),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
