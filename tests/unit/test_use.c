/* What one address and one token may use of the server, at the limits. */
#include "check.h"

#include "support/bench.h"

struct room {
        struct bench bench;
        struct peer peer;
        struct conn conn; /* of another machine */
        struct grant *grant;
};

static void room_init(struct room *r, enum role role)
{
        *r = (struct room){0};
        bench_init(&r->bench, "a token");
        r->conn.server = r->bench.server;
        r->conn.peer = &r->peer;
        r->grant = grant_new(&(struct grant){.name = SLICE_LIT("one"), .roles = ROLE_BIT(role)});
}

static void room_release(struct room *r)
{
        use_become(&r->conn, NULL);
        r->grant = grant_unref(r->grant);
        bench_release(&r->bench);
}

static void the_last_places_are_for_operators(void **state)
{
        const uint64_t usual =
                LIMIT_CONNECTIONS - LIMIT_RESERVED_CONNECTIONS - LIMIT_OPERATOR_CONNECTIONS;
        (void)state;
        for (enum role role = ROLE_READER; role < N_ROLES; role++) {
                struct room r;
                struct problem p;
                room_init(&r, role);
                uint64_t *open = &r.bench.server->counter[DOOR_CONNECTIONS], was = *open;
                *open = usual;
                assert_int_equal(use_admits(&r.conn, r.grant, &p), OK);
                *open = usual + 1;
                assert_int_equal(use_admits(&r.conn, r.grant, &p),
                                 role >= ROLE_OPERATOR ? OK : ERR_LIMIT);
                r.conn.is_near = true;
                assert_int_equal(use_admits(&r.conn, r.grant, &p), OK);
                *open = was;
                room_release(&r);
        }
}

static void a_token_has_no_more_connections_than_it_may(void **state)
{
        struct room r;
        struct problem p;
        (void)state;
        room_init(&r, ROLE_WORKER);
        r.grant->use.connections = LIMIT_TOKEN_CONNECTIONS - 1;
        assert_int_equal(use_admits(&r.conn, r.grant, &p), OK);
        r.grant->use.connections = LIMIT_TOKEN_CONNECTIONS;
        assert_int_equal(use_admits(&r.conn, r.grant, &p), ERR_LIMIT);
        r.grant->use.connections = 0;
        room_release(&r);
}

/* A tenth of a second's worth may come at once. */
static void too_many_commands_have_to_wait(void **state)
{
        (void)state;
        for (int is_token = 0; is_token < 2; is_token++) {
                struct room r;
                const int burst = (is_token ? LIMIT_TOKEN_COMMANDS : LIMIT_ADDRESS_COMMANDS) / 10;
                room_init(&r, ROLE_WORKER);
                r.conn.is_near = is_token;
                if (is_token)
                        use_become(&r.conn, r.grant);
                for (int i = 0; i < burst; i++)
                        use_count_command(&r.conn);
                assert_false(use_is_over(&r.conn));
                use_count_command(&r.conn);
                assert_true(use_is_over(&r.conn));
                r.bench.loop->boot_ns += NS_PER_MS;
                assert_false(use_is_over(&r.conn));
                room_release(&r);
        }
}

static void too_much_memory_is_noticed(void **state)
{
        (void)state;
        for (int is_token = 0; is_token < 2; is_token++) {
                struct room r;
                room_init(&r, ROLE_WORKER);
                r.conn.is_near = is_token;
                if (is_token)
                        use_become(&r.conn, r.grant);
                use_count_bytes(&r.conn, is_token ? LIMIT_TOKEN_BYTES : LIMIT_ADDRESS_BYTES);
                assert_false(r.bench.server->is_over);
                use_count_bytes(&r.conn, 1);
                assert_true(r.bench.server->is_over);
                r.bench.server->is_over = false;
                room_release(&r);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_last_places_are_for_operators),
                cmocka_unit_test(a_token_has_no_more_connections_than_it_may),
                cmocka_unit_test(too_many_commands_have_to_wait),
                cmocka_unit_test(too_much_memory_is_noticed),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
