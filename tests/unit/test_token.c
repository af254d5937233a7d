/* Access tokens: roles walked over every command, names that narrow them, ends and rotations. */
#include "things/token.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/params.h"
#include "support/rig.h"

static void starts_with(const char *text, const char *start)
{
        if (strncmp(text, start, strlen(start)) != 0)
                fail_msg("'%s' does not start with '%s'", text, start);
}

static void secret_of(const char *reply, char ret[64])
{
        assert_int_equal(sscanf(reply, "{name:'%*[^']' secret:'%63[^']'", ret), 1);
}

static struct grant *holder(struct rig *rig, const char *secret)
{
        return tokens_find(rig->core, SLICE_NONE, slice_str(secret), "10.0.0.1");
}

/* A session of a client that has shown the token. */
static void enter(struct rig *rig, struct rig_session *s, const char *secret)
{
        rig_session_init(s);
        struct grant *g = holder(rig, secret);
        assert_non_null(g);
        session_set_grant(&s->base, g);
}

/* Something that each kind of parameter takes. */
static const char *word_for(const struct param_def *p)
{
        static char word[40];
        if (p->type == PARAM_INT || p->type == PARAM_ID) {
                (void)snprintf(word, sizeof(word), "%lld", (long long)(p->min ? p->min : 1));
                return word;
        }
        if (p->type == PARAM_CHOICE) {
                (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(p->text, "|:"), p->text);
                return word;
        }
        if (p->type == PARAM_TOKEN)
                return "00000000000000000000000000000000";
        return p->type == PARAM_STATUS ? "pending" : "x";
}

/* The least that the command can be bound from. */
static size_t least_words(const struct command_def *def, char room[32][40], struct slice *argv)
{
        size_t n = 0;
        argv[n++] = slice_str(def->name);
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (!(p->flags & (PARAM_REQUIRED | PARAM_BARE_MS)))
                        continue;
                if (p->flags & PARAM_KEYWORD || p->type == PARAM_JOBS || p->type == PARAM_NAMES) {
                        size_t k = 0;
                        for (; p->name[k]; k++)
                                room[n][k] = (char)(p->name[k] & ~0x20);
                        argv[n] = slice_make(room[n], k);
                        n++;
                }
                (void)snprintf(room[n], sizeof(room[n]), "%s", word_for(p));
                argv[n] = slice_str(room[n]);
                n++;
                if (p->type == PARAM_JOBS)
                        argv[n++] = SLICE_LIT("x");
        }
        return n;
}

static void every_command_needs_its_role_and_no_other(void **unused)
{
        (void)unused;
        size_t n_refused = 0, n_let = 0;
        for (unsigned role = ROLE_READER; role < N_ROLES; role++) {
                struct rig rig;
                struct rig_session s;
                char boss[64], secret[64];
                rig_init(&rig);
                secret_of(rig_do(&rig, "TOKENADD", "boss", "admin"), boss);
                secret_of(rig_do(&rig, "TOKENADD", "one", role_name(role)), secret);
                for (size_t i = 0; i < command_table_len; i++) {
                        const struct command_def *def = &command_table[i];
                        char room[32][40];
                        struct slice argv[32];
                        if (def->flags & COMMAND_DOOR)
                                continue;
                        enter(&rig, &s, secret);
                        const char *said = rig_argv(&rig, &s, argv, least_words(def, room, argv));
                        bool is_refused = strncmp(said, "!FORBIDDEN ", 11) == 0;
                        bool may = roles_held(ROLE_BIT(role)) & ROLE_BIT(def->role);
                        assert_true(strncmp(said, "!SYNTAX", 7) != 0);
                        if (is_refused == may)
                                fail_msg("%s as %s: %s", def->name, role_name(role), said);
                        if (is_refused) {
                                char want[80];
                                (void)snprintf(want, sizeof(want), "needs the role %s;",
                                               role_name(def->role));
                                assert_non_null(strstr(said, want));
                        }
                        n_refused += is_refused;
                        n_let += !is_refused;
                        rig_session_release(&rig, &s);
                }
                rig_release(&rig);
        }
        assert_true(n_refused > 400 && n_let > 200);
}

static void names_narrow_a_role(void **unused)
{
        (void)unused;
        static const struct {
                const char *role, *what, *patterns;
                const char *fine, *wrong; /* words, with blanks between them */
        } cases[] = {
                {"producer", "QUEUES", "build-*,mail", "ENQUEUE h {} QUEUE build-1",
                 "ENQUEUE h {} QUEUE builds"},
                {"producer", "QUEUES", "build-*,mail", "ENQUEUE h {} QUEUE mail",
                 "ENQUEUE h {}"}, /* the queue "default" */
                {"producer", "QUEUES", "build-*", "ENQUEUEMANY QUEUE build-1 JOBS h x",
                 "ENQUEUEMANY QUEUE mail JOBS h x"},
                {"producer", "QUEUES", "build-*", "BATCH b QUEUE build-1", "BATCH c"},
                {"worker", "QUEUES", "a,b", "CLAIM w QUEUES a b", "CLAIM w QUEUES a c"},
                {"checker", "IDENTITIES", "etl:*", "CHECK etl:night", "CHECK shop:night"},
                {"locker", "NAMES", "db-*", "LOCK db-1 5000", "LOCK web 5000"},
                {"locker", "NAMES", "db-*", "ASK db-1", "ASK web"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct rig rig;
                struct rig_session s;
                char secret[64], copy[80];
                rig_init(&rig);
                rig_do(&rig, "TOKENADD", "boss", "admin");
                secret_of(rig_do(&rig, "TOKENADD", "one", cases[i].role, cases[i].what,
                                 cases[i].patterns),
                          secret);
                enter(&rig, &s, secret);
                for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
                        struct slice argv[8];
                        size_t argc = 0;
                        (void)snprintf(copy, sizeof(copy), "%s",
                                       is_wrong ? cases[i].wrong : cases[i].fine);
                        for (char *save, *w = strtok_r(copy, " ", &save); w;
                             w = strtok_r(NULL, " ", &save))
                                argv[argc++] = slice_str(w);
                        const char *said = rig_argv(&rig, &s, argv, argc);
                        if ((strncmp(said, "!FORBIDDEN the token 'one' is for the ", 38) == 0) !=
                            (is_wrong == 1))
                                fail_msg("%s: %s", is_wrong ? cases[i].wrong : cases[i].fine, said);
                }
                rig_session_release(&rig, &s);
                rig_release(&rig);
        }
}

static void the_first_token_is_an_admins_and_the_last_admin_stays(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_false(tokens_are_needed(rig.core));
        starts_with(rig_do(&rig, "TOKENADD", "ci", "producer"), "!STATE nobody has to show");
        starts_with(rig_do(&rig, "TOKENADD", "boss", "admin"), "{name:'boss' secret:'weir_");
        assert_true(tokens_are_needed(rig.core));
        starts_with(rig_do(&rig, "TOKENADD", "boss", "admin"), "!CONFLICT");
        starts_with(rig_do(&rig, "TOKENADD", "default", "admin"), "!CONFLICT");
        starts_with(rig_do(&rig, "TOKENADD", "ci", "producer"), "{name:'ci'");
        starts_with(rig_do(&rig, "TOKENREMOVE", "boss"), "!STATE 'boss' is the last token");
        starts_with(rig_do(&rig, "TOKENREMOVE", "ci"), "OK");
        starts_with(rig_do(&rig, "TOKENREMOVE", "boss"), "OK");
        assert_false(tokens_are_needed(rig.core));
        rig_release(&rig);
}

static void there_are_no_more_tokens_than_the_limit(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[16];
        rig_init(&rig);
        rig_do(&rig, "TOKENADD", "boss", "admin");
        rig_audit(&rig, false);
        for (int i = 1; i < LIMIT_TOKENS; i++) {
                (void)snprintf(name, sizeof(name), "t%d", i);
                starts_with(rig_do(&rig, "TOKENADD", name, "reader"), "{name:");
        }
        rig_audit(&rig, true);
        starts_with(rig_do(&rig, "TOKENADD", "more", "reader"), "!LIMIT there are 1000 tokens");
        starts_with(rig_do(&rig, "TOKENREMOVE", "t1"), "OK");
        starts_with(rig_do(&rig, "TOKENADD", "more", "reader"), "{name:");
        rig_release(&rig);
}

static void what_makes_no_sense_is_refused(void **unused)
{
        (void)unused;
        static const char *const cases[][4] = {
                {"a b", "reader", NULL, NULL},
                {"a", "king", NULL, NULL},
                {"a", ",", NULL, NULL},
                {"a", "reader", "QUEUES", "x"},
                {"a", "operator", "QUEUES", "x"},
                {"a", "producer,admin", "QUEUES", "x"},
                {"a", "checker", "NAMES", "x"},
                {"a", "producer", "QUEUES", "x,,y"},
                {"a", "worker", "IDENTITIES", "x"},
        };
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "TOKENADD", "boss", "admin");
        uint64_t before = state_digest(&rig.core->state);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                starts_with(cases[i][2] ? rig_do(&rig, "TOKENADD", cases[i][0], cases[i][1],
                                                 cases[i][2], cases[i][3])
                                        : rig_do(&rig, "TOKENADD", cases[i][0], cases[i][1]),
                            "!BADARG");
        assert_true(state_digest(&rig.core->state) == before);
        rig_release(&rig);
}

static void a_rotation_keeps_the_old_secret_for_a_while(void **unused)
{
        (void)unused;
        struct rig rig;
        char first[64], second[64], third[64];
        rig_init(&rig);
        secret_of(rig_do(&rig, "TOKENADD", "boss", "admin"), first);
        struct grant *g = grant_ref(holder(&rig, first));
        secret_of(rig_do(&rig, "TOKENROTATE", "boss", "KEEP", "5000"), second);
        assert_string_not_equal(first, second);
        assert_ptr_equal(holder(&rig, first), g);
        assert_ptr_equal(holder(&rig, second), g);
        assert_true(rig_replays(&rig));
        (void)grant_unref(g); /* NULL */
        rig_pass_ms(&rig, 4999);
        assert_non_null(holder(&rig, first));
        rig_pass_ms(&rig, 1);
        assert_null(holder(&rig, first));
        assert_non_null(holder(&rig, second));
        struct grant *connected = grant_ref(holder(&rig, second));
        secret_of(rig_do(&rig, "TOKENROTATE", "boss", "KEEP", "0"), third);
        assert_null(holder(&rig, second));
        assert_true(connected->is_ended);
        (void)grant_unref(connected); /* NULL */
        assert_non_null(holder(&rig, third));
        rig_release(&rig);
}

static void a_token_ends_by_itself_and_its_grant_with_it(void **unused)
{
        (void)unused;
        struct rig rig;
        char secret[64];
        rig_init(&rig);
        rig_do(&rig, "TOKENADD", "boss", "admin");
        secret_of(rig_do(&rig, "TOKENADD", "brief", "reader", "FOR", "10000"), secret);
        struct grant *g = grant_ref(holder(&rig, secret));
        uint64_t version = tokens_version(rig.core);
        rig_pass_ms(&rig, 9999);
        assert_false(g->is_ended);
        assert_int_equal(tokens_version(rig.core), version);
        rig_pass_ms(&rig, 1);
        assert_true(tokens_version(rig.core) > version);
        assert_true(g->is_ended);
        assert_null(holder(&rig, secret));
        (void)grant_unref(g); /* NULL */
        rig_release(&rig);
}

static void a_use_is_noted_once_an_hour_and_outlives_a_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        char secret[64];
        rig_init(&rig);
        secret_of(rig_do(&rig, "TOKENADD", "boss", "admin"), secret);
        uint64_t version = tokens_version(rig.core);
        uint64_t made = state_digest(&rig.core->state);
        assert_non_null(holder(&rig, secret));
        uint64_t used = state_digest(&rig.core->state);
        assert_true(used != made);
        rig_pass_ms(&rig, 3599999);
        assert_non_null(holder(&rig, secret));
        assert_true(rig_replays(&rig));
        assert_non_null(strstr(rig_do(&rig, "TOKENS"), "used_from:'10.0.0.1'"));
        assert_true(version > 0);
        rig_release(&rig);
}

static void the_configuration_hides_a_token_of_the_same_name(void **unused)
{
        (void)unused;
        struct rig rig;
        char secret[64];
        rig_init(&rig);
        secret_of(rig_do(&rig, "TOKENADD", "ci", "admin"), secret);
        struct grant *old = grant_ref(holder(&rig, secret));
        struct token_setup setup = {
                .grant = grant_new(&(struct grant){.name = SLICE_LIT("ci"),
                                                   .roles = ROLE_BIT(ROLE_READER),
                                                   .certificate = SLICE_LIT("ci.example")}),
                .n_secrets = 1,
        };
        secret_init(&setup.secrets[0], SLICE_LIT("of the file, and long enough"));
        tokens_configure(rig.core, &setup, 1);
        assert_null(holder(&rig, secret));
        assert_true(old->is_ended);
        struct grant *now = holder(&rig, "of the file, and long enough");
        assert_int_equal(now->roles, ROLE_BIT(ROLE_READER));
        assert_ptr_equal(tokens_find_certified(rig.core, SLICE_LIT("ci.example"), ""), now);
        assert_null(tokens_find_certified(rig.core, SLICE_LIT("example"), ""));
        assert_null(tokens_find(rig.core, SLICE_LIT("other"),
                                SLICE_LIT("of the file, and long enough"), ""));
        tokens_configure(rig.core, &setup, 1); /* a reload that changes nothing ends nothing */
        assert_ptr_equal(holder(&rig, "of the file, and long enough"), now);
        assert_false(now->is_ended);
        tokens_configure(rig.core, NULL, 0);
        assert_non_null(holder(&rig, secret));
        (void)grant_unref(old);         /* NULL */
        (void)grant_unref(setup.grant); /* NULL */
        rig_release(&rig);
}

static void an_answer_with_a_secret_takes_no_idempotency_key(void **unused)
{
        (void)unused;
        struct problem p;
        struct command cmd;
        command_init(&cmd, &command_table[CMD_TOKENADD]);
        assert_int_equal(command_set_key(&cmd, SLICE_LIT("k"), &p), ERR_BADARG);
        command_init(&cmd, &command_table[CMD_TOKENREMOVE]);
        assert_int_equal(command_set_key(&cmd, SLICE_LIT("k"), &p), OK);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_command_needs_its_role_and_no_other),
                cmocka_unit_test(names_narrow_a_role),
                cmocka_unit_test(the_first_token_is_an_admins_and_the_last_admin_stays),
                cmocka_unit_test(there_are_no_more_tokens_than_the_limit),
                cmocka_unit_test(what_makes_no_sense_is_refused),
                cmocka_unit_test(a_rotation_keeps_the_old_secret_for_a_while),
                cmocka_unit_test(a_token_ends_by_itself_and_its_grant_with_it),
                cmocka_unit_test(a_use_is_noted_once_an_hour_and_outlives_a_restart),
                cmocka_unit_test(the_configuration_hides_a_token_of_the_same_name),
                cmocka_unit_test(an_answer_with_a_secret_takes_no_idempotency_key),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
