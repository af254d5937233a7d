/* Which sites are guarded: sections, and the blogs that were found of networks. */
#include "throttle_box.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/kernel.h"
#include "serve/site_roster.h"
#include "state/front.h"

struct box {
        struct rig rig;
        struct config_site sections[CONFIG_SITES_MAX];
        struct config_sites sites;
        struct site_networks networks;
        struct network_blogs *found;
        struct site_roster roster;
        struct buf text;
};

static char wp[] = "wp_", other[] = "other_", third[] = "wp_3_", host[] = "h", database[] = "d";

static void add_section(struct box *b, const char *name, char *prefix)
{
        struct config_site *s = &b->sections[b->sites.n++];
        (void)snprintf(s->name, sizeof(s->name), "%s", name);
        s->prefix = prefix;
        s->store.login.server.host = host;
        s->store.login.database = database;
}

/* A network "net" of the prefix wp_. */
static void box_init(struct box *b)
{
        *b = (struct box){.found = xcalloc(1, sizeof(*b->found))};
        rig_init(&b->rig);
        b->sites.sites = b->sections;
        add_section(b, "net", wp);
        b->sections[0].is_network = true;
        b->found->is_known = true;
}

static void box_release(struct box *b)
{
        site_roster_release(&b->roster);
        site_networks_release(&b->networks);
        buf_release(&b->text);
        free(b->found);
        rig_release(&b->rig);
}

static void find(struct box *b, uint32_t id, bool is_open)
{
        b->found->blogs[b->found->n++] = (struct network_blog){.id = id, .is_open = is_open};
}

static const char *listed(struct box *b)
{
        site_networks_learn(&b->networks, "net", b->found);
        site_roster_release(&b->roster);
        site_roster_make(&b->sites, &b->networks, b->rig.core, &b->roster);
        buf_clear(&b->text);
        site_roster_put(&b->roster, &b->text);
        return buf_cstr(&b->text);
}

static void sections_come_first_and_blogs_follow_by_number(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        assert_string_equal(listed(&b), "net 0\n");
        find(&b, 2, true);
        find(&b, 3, false);
        find(&b, 12, true);
        add_section(&b, "alone", other);
        assert_string_equal(listed(&b), "net 0\nalone 0\nnet.2 0\nnet.12 0\n");
        assert_string_equal(b.roster.at[3].site->prefix, "wp_12_");
        assert_string_equal(b.roster.at[3].network, "net");
        assert_null(b.roster.at[1].network);
        b.sections[0].is_network = false;
        assert_string_equal(listed(&b), "net 0\nalone 0\n");
        box_release(&b);
}

static void a_blog_with_a_section_of_its_own_is_that(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        find(&b, 2, true);
        find(&b, 3, true);
        find(&b, 4, true);
        add_section(&b, "net.2", other);
        add_section(&b, "three", third);
        assert_string_equal(listed(&b), "net 0\nnet.2 0\nthree 0\nnet.4 0\n");
        assert_string_equal(b.roster.at[1].site->prefix, "other_");
        box_release(&b);
}

static void there_are_at_most_32_and_what_is_beyond_is_told(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        for (uint32_t id = 2; id < CONFIG_SITES_MAX; id++)
                find(&b, id, true);
        (void)listed(&b);
        assert_int_equal(b.roster.n, CONFIG_SITES_MAX - 1);
        find(&b, CONFIG_SITES_MAX, true);
        assert_null(strstr(listed(&b), "guarded"));
        assert_int_equal(b.roster.n, CONFIG_SITES_MAX);
        find(&b, CONFIG_SITES_MAX + 1, true);
        assert_non_null(strstr(listed(&b),
                               "net 0\nweir has room for 32 sites. Blogs of the network "
                               "that are not guarded: 1.\n"));
        assert_int_equal(b.roster.n, CONFIG_SITES_MAX);
        box_release(&b);
}

static void a_reading_that_failed_changes_only_the_notice(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        find(&b, 2, true);
        (void)listed(&b);
        b.found->n = 0;
        b.found->is_known = false;
        (void)snprintf(b.found->notice, sizeof(b.found->notice), "run: GRANT");
        assert_string_equal(listed(&b), "net 0\nrun: GRANT\nnet.2 0\n");
        site_networks_forget(&b.networks, "net");
        assert_string_equal(listed(&b), "net 0\nrun: GRANT\n");
        b.found->is_known = true;
        b.found->notice[0] = '\0';
        assert_string_equal(listed(&b), "net 0\n");
        box_release(&b);
}

static void a_closed_blog_stays_while_something_is_to_be_given_back(void **unused)
{
        (void)unused;
        const struct front_row row = {.id = 7, .priority = 10};
        char name[FRONT_NAME_MAX];
        struct front_values values;
        struct buf packed CLEANUP(buf_release) = {0}, body CLEANUP(buf_release) = {0};
        struct box b;
        box_init(&b);
        find(&b, 2, false);
        find(&b, 3, false);
        assert_string_equal(listed(&b), "net 0\n");
        front_put_name(name, slice_str("net.3"), slice_str("pay"));
        front_pack(&values, &row, 1, &packed);
        front_put(&values, &body);
        thing_set(b.rig.core, THING_FRONT, slice_str(name), buf_slice(&body));
        rig_turn(&b.rig);
        assert_string_equal(listed(&b), "net 0\nnet.3 1\n");
        box_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(sections_come_first_and_blogs_follow_by_number),
                cmocka_unit_test(a_blog_with_a_section_of_its_own_is_that),
                cmocka_unit_test(there_are_at_most_32_and_what_is_beyond_is_told),
                cmocka_unit_test(a_reading_that_failed_changes_only_the_notice),
                cmocka_unit_test(a_closed_blog_stays_while_something_is_to_be_given_back),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
