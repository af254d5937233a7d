/* The audit trail: every command of an operator leaves one entry, over crashes and with a history
 * that takes nothing; wrong tokens and refused commands are counted. */
#include "throttle_box.h"

#include <stdio.h>

#include "api/access.h"
#include "core/audit.h"
#include "core/kernel.h"
#include "sites/sites.h"
#include "state/audit.h"
#include "traffic/traffic.h"

#define ADDRESS "10.1.2.3"

/* ---- the bench ---- */

struct world {
        struct rig rig;
        struct rig_session ops; /* an admin that came by RESP */
};

static void enter(struct rig_session *s, const char *name, unsigned roles)
{
        rig_session_init(s);
        struct grant *g = grant_new(&(struct grant){.name = slice_str(name), .roles = roles});
        session_set_grant(&s->base, g);
        (void)grant_unref(g); /* the session has its own */
        s->base.door = SESSION_RESP;
        (void)snprintf(s->base.address, sizeof(s->base.address), ADDRESS);
}

static int fake_reload(void *ctx, bool is_trial, struct buf *ret_changed, struct buf *ret_restart,
                       struct problem *problem)
{
        (void)ctx;
        (void)is_trial;
        (void)ret_restart;
        (void)problem;
        buf_put_str(ret_changed, "log_level: info -> warn\n");
        return OK;
}

static void fake_publish(void *ctx, size_t door, struct door_policy *policy)
{
        (void)ctx;
        (void)door;
        door_policy_unref(policy);
}

static void fake_drain(void *ctx, size_t door, bool is_on)
{
        (void)ctx;
        (void)door;
        (void)is_on;
}

static void fake_state(void *ctx, size_t door, struct traffic_door *ret)
{
        (void)ctx;
        (void)door;
        *ret = (struct traffic_door){0};
}

static void fake_mode(void *ctx, size_t door, enum gate_mode mode)
{
        (void)ctx;
        (void)door;
        (void)mode;
}

static void each_of_no_class(void *ctx, size_t door,
                             void (*fn)(void *fn_ctx, size_t number, const struct traffic_class *c,
                                        const struct class_view *v),
                             void *fn_ctx)
{
        (void)ctx;
        (void)door;
        (void)fn;
        (void)fn_ctx;
}

static size_t no_classes(void *ctx, size_t door)
{
        (void)ctx;
        (void)door;
        return 0;
}

static void make_world(struct world *w)
{
        static const struct core_config config = {.reload = fake_reload};
        static const struct traffic_options front = {"front", "shop", MODE_OFF};
        static const struct traffic_threads threads = {.publish = fake_publish,
                                                       .set_mode = fake_mode,
                                                       .drain = fake_drain,
                                                       .state = fake_state,
                                                       .n_classes = no_classes,
                                                       .each_class = each_of_no_class};
        struct rig *rig = &w->rig;
        *w = (struct world){0};
        init(rig, MODE_ENFORCE);
        sample(rig, 1);
        rig_turn(rig);
        core_set_config(rig->core, &config);
        core_set_traffic(rig->core, &front, 1, &threads);
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "pending");
        rig_do(rig, "BATCH", "b");
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "later", "IN", "3600000", "BATCH", "b");
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "failed", "ATTEMPTS", "1");
        assert_int_equal(rig_fail_next(rig, "failed", "no"), 3);
        rig_do(rig, "BATCH", "over");
        rig_do(rig, "CLOSEBATCH", "over");
        rig_do(rig, "PAUSE", "paused");
        rig_do(rig, "CAP", "key:k", "1");
        rig_do(rig, "TOKENADD", "boss", "admin");
        rig_do(rig, "TOKENADD", "ci", "worker");
        rig_do(rig, "LOCK", "held", "60000");
        rig_do(rig, "LIMIT", "lim", "5", "1000");
        rig_do(rig, "TAKE", "lim");
        rig_do(rig, "BREAKER", "brk");
        rig_do(rig, "BREAKER", "tripped");
        rig_do(rig, "TRIP", "tripped");
        rig_do(rig, "RULESET", "rule", "hold");
        rig_do(rig, "RULESET", "first", "ratio", "RATIO", "0");
        rig_do(rig, "SCHEDULE", "s", "h", "", "EVERY", "60000");
        rig_do(rig, "SCHEDULE", "p", "h", "", "EVERY", "60000");
        rig_do(rig, "PAUSESCHEDULE", "p");
        rig_do(rig, "SKIPHOST", "db2");
        rig_do(rig, "REGISTRYSET", "some_*", "high");
        rig_do(rig, "SETTINGSET", "throttle.enabled", "true");
        rig_archive_all(rig);
        enter(&w->ops, "ops", ROLE_BIT(ROLE_ADMIN));
}

static void end_world(struct world *w)
{
        rig_session_release(&w->rig, &w->ops);
        rig_release(&w->rig);
}

static const char *say(struct world *w, struct rig_session *s, const char *line)
{
        static char copy[4096];
        struct slice argv[40];
        size_t argc = 0;
        (void)snprintf(copy, sizeof(copy), "%s", line);
        for (char *save, *word = strtok_r(copy, " ", &save); word;
             word = strtok_r(NULL, " ", &save))
                argv[argc++] = strcmp(word, "''") == 0 ? SLICE_LIT("") : slice_str(word);
        const char *text = rig_argv(&w->rig, s, argv, argc);
        if (strcmp(text, "(waits)") != 0)
                return text;
        for (int i = 0; i < 10 && !s->is_answered; i++)
                rig_archive_all(&w->rig);
        assert_true(s->is_answered);
        return text_reply_str(&s->reply);
}

/* The listing of what this token did, of everything that is there. */
static const char *trail(struct world *w, const char *more)
{
        char line[300];
        (void)snprintf(line, sizeof(line), "AUDIT LIMIT 1000 %s", more);
        return say(w, &w->rig.me, line);
}

static void expect_in(const char *text, const char *part)
{
        if (!strstr(text, part))
                fail_msg("'%s' is not in %s", part, text);
}

static void expect_not_in(const char *text, const char *part)
{
        if (strstr(text, part))
                fail_msg("'%s' is in %s", part, text);
}

static size_t count(const char *trail)
{
        return times(trail, "{number:");
}

/* ---- every command ---- */

static const char *const lines[] = {
        "CANCEL 1",
        "RETIER 1 high",
        "RETRY 3",
        "RETRYMANY STATUS failed",
        "RUN 2",
        "CANCELMANY QUEUE pending",
        "RUNMANY QUEUE later",
        "RETIERMANY QUEUE pending SET high",
        "DELETEMANY QUEUE failed",
        "PAUSE pending",
        "RESUME paused",
        "QUEUESET pending CAP 3",
        "UNQUEUE paused",
        "CAP key:k 2",
        "UNCAP key:k",
        "CANCELBATCH b",
        "UNBATCH over",
        "BREAKER brk THRESHOLD 7",
        "UNBREAKER brk",
        "TRIP brk REASON why",
        "CLOSEBREAKER tripped",
        "SKIPHOST db3",
        "RECOVERHOST db2",
        "LIMIT lim 6 1000",
        "UNLIMIT lim",
        "RESETLIMIT lim",
        "FORCEUNLOCK held REASON stuck",
        "RULESET rule ratio RATIO 0.5 REASON slow",
        "RULEUNSET rule",
        "PRIORITIZE first RATIO 0.5",
        "UNPRIORITIZE first",
        "SCHEDULE s h '' EVERY 90000",
        "UNSCHEDULE s",
        "PAUSESCHEDULE s",
        "RESUMESCHEDULE p",
        "RUNSCHEDULE s",
        "SETTINGSET throttle.enabled false",
        "SETTINGUNSET throttle.enabled",
        "CONFIGRELOAD",
        "THROTTLE PAUSE",
        "THROTTLE MODE SET observe",
        "REGISTRYSET some_* critical",
        "REGISTRYUNSET some_*",
        "PROXYDRAIN front ON",
        "HANDOVER b",
        "CLUSTERVERIFY",
        "TOKENADD more worker QUEUES a,b*",
        "TOKENROTATE ci",
        "TOKENREMOVE ci",
};

static void every_command_that_is_audited_is_here(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                bool is_here = false;
                for (size_t k = 0; k < ARRAY_LEN(lines); k++)
                        is_here |= strncmp(lines[k], def->name, def->name_len) == 0 &&
                                   (!lines[k][def->name_len] || lines[k][def->name_len] == ' ');
                if (audit_wants(def) != is_here)
                        fail_msg("%s: %s", def->name, is_here ? "not audited" : "no line for it");
                /* What writes and is not for operators is the work itself: jobs, locks, checks. */
                if ((def->flags & COMMAND_WRITE) && !audit_wants(def))
                        assert_true(def->role < ROLE_OPERATOR);
        }
}

static void check_entry(struct world *w, const char *line)
{
        char want[4200];
        const char *text = trail(w, "WHO ops");
        if (count(text) != 1)
                fail_msg("%s has %zu entries: %s", line, count(text), text);
        expect_in(text, "who:'ops' role:'admin' address:'" ADDRESS "' door:'resp'");
        (void)snprintf(want, sizeof(want), "command:'%.*s'", (int)strcspn(line, " "), line);
        expect_in(text, want);
        expect_in(text, "times:1");
}

static void each_leaves_one_entry_over_a_restart(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
                struct world w;
                make_world(&w);
                const char *said = say(&w, &w.ops, lines[i]);
                if (said[0] == '!')
                        fail_msg("%s: %s", lines[i], said);
                check_entry(&w, lines[i]);
                session_release(w.rig.core, &w.ops.base);
                session_init(&w.ops.base, w.rig.me.base.ops);
                rig_restart(&w.rig);
                check_entry(&w, lines[i]);
                rig_archive_all(&w.rig);
                check_entry(&w, lines[i]);
                rig_restart(&w.rig);
                check_entry(&w, lines[i]);
                assert_true(w.rig.core->state.n_audits <= 1);
                end_world(&w);
        }
}

/* ---- what it says ---- */

static void an_entry_has_what_changed(void **unused)
{
        static const struct {
                const char *line, *want;
        } rows[] = {
                {"PAUSE pending",
                 "what:'PAUSE pending' before:'{\"paused\":false}' after:'{\"paused\":true}' "
                 "reason:'' times:1"},
                {"TRIP brk REASON why", "reason:'why'"},
                {"TRIP brk REASON why", "before:'{\"state\":\"closed\""},
                {"TRIP brk REASON why", "after:'{\"state\":\"open\",\"reason\":\"why\""},
                {"LIMIT lim 6 1000", "before:'{\"amount\":5,\"left\":4}' after:'{\"amount\":6"},
                {"UNLIMIT lim", "before:'{\"name\":\"lim\",\"kind\":\"window\""},
                {"UNLIMIT lim", "after:''"},
                {"CAP key:k 2", "before:'{\"max\":1}' after:'{\"max\":2}'"},
                {"SETTINGSET throttle.enabled false",
                 "before:'{\"value\":\"true\"}' after:'{\"value\":\"false\"}'"},
                {"REGISTRYSET some_* critical",
                 "before:'{\"tier\":\"high\"}' after:'{\"tier\":\"critical\"}'"},
                {"RULESET rule ratio RATIO 0.5 REASON slow",
                 "before:'{\"kind\":\"hold\",\"ratio\":null,\"author\":\"local\""},
                {"RULESET rule ratio RATIO 0.5 REASON slow",
                 "what:'RULESET rule ratio RATIO 0.5 REASON slow'"},
                {"CANCEL 1", "before:'{\"status\":\"pending\""},
                {"CANCEL 1", "after:'{\"status\":\"canceled\""},
                {"CANCELMANY QUEUE pending", "after:'{\"matched\":1,\"changed\":1}'"},
                {"CANCELMANY QUEUE pending", "what:'CANCELMANY QUEUE pending'"},
                {"RETRY 3", "before:'' after:'{\"id\":3,"},
                {"CONFIGRELOAD", "after:'{\"changed\":[\"log_level: info -> warn\"]}'"},
                {"TOKENADD more worker QUEUES a,b*",
                 "after:'{\"name\":\"more\",\"role\":\"worker\",\"queues\":\"a,b*\""},
                {"THROTTLE PAUSE", "before:'{\"paused\":false"},
                {"PROXYDRAIN front ON", "what:'PROXYDRAIN front ON' before:'' after:''"},
        };
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct world w;
                make_world(&w);
                (void)say(&w, &w.ops, rows[i].line);
                expect_in(trail(&w, "WHO ops"), rows[i].want);
                end_world(&w);
        }
}

static void what_changes_nothing_leaves_nothing(void **unused)
{
        static const char *const quiet[] = {
                "PAUSE paused",
                "THROTTLE STATUS",
                "THROTTLE HISTORY",
                "THROTTLE MODE",
                "CANCELMANY DRYRUN QUEUE pending",
                "CONFIGRELOAD DRYRUN",
                "UNLIMIT nothing",
                "CANCEL 999",
                "RETRY 999",
                "CONFIGSHOW",
                "TOKENS",
                "AUDIT",
                "ENQUEUE h x",
                "LOCK l 1000",
        };
        struct world w;
        (void)unused;
        make_world(&w);
        for (size_t i = 0; i < ARRAY_LEN(quiet); i++) {
                (void)say(&w, &w.ops, quiet[i]);
                if (count(trail(&w, "WHO ops")))
                        fail_msg("%s: %s", quiet[i], trail(&w, "WHO ops"));
        }
        end_world(&w);
}

static void secrets_and_payloads_are_not_in_it(void **unused)
{
        struct world w;
        char secret[64];
        (void)unused;
        make_world(&w);
        assert_int_equal(sscanf(say(&w, &w.ops, "TOKENADD more worker"),
                                "{name:'%*[^']' secret:'%63[^']'", secret),
                         1);
        (void)say(&w, &w.ops, "SCHEDULE t h sesame EVERY 90000");
        const char *text = trail(&w, "WHO ops");
        assert_int_equal(count(text), 2);
        expect_not_in(text, secret);
        expect_not_in(text, "sesame");
        expect_in(text, "what:'SCHEDULE t h (6 bytes) EVERY 90000'");
        end_world(&w);
}

static void what_is_long_is_cut(void **unused)
{
        struct world w;
        char line[3000] = "CANCELMANY IDS 1";
        (void)unused;
        make_world(&w);
        for (int id = 2; strlen(line) < 2500; id++)
                (void)snprintf(line + strlen(line), 16, ",%d", id);
        (void)say(&w, &w.ops, line);
        const char *what = strstr(trail(&w, "WHO ops"), "what:'");
        assert_non_null(what);
        what += strlen("what:'");
        assert_int_equal(strcspn(what, "'"), AUDIT_WHAT_BYTES);
        assert_memory_equal(what + AUDIT_WHAT_BYTES - 3, "...", 3);
        end_world(&w);
}

static void a_key_that_was_used_leaves_no_second_entry(void **unused)
{
        struct world w;
        struct problem p;
        (void)unused;
        make_world(&w);
        for (int i = 0; i < 2; i++) {
                struct command cmd;
                const struct command_def *def = command_find(SLICE_LIT("CONFIGRELOAD"));
                assert_int_equal(command_bind_argv(def, NULL, 0, &w.rig.arena, &cmd, &p), OK);
                assert_int_equal(command_set_key(&cmd, SLICE_LIT("key"), &p), OK);
                text_reply_clear(&w.ops.reply);
                assert_int_equal(core_exec(w.rig.core, &w.ops.base, &cmd, &w.ops.reply.base, &p),
                                 OK);
                rig_turn(&w.rig);
        }
        assert_int_equal(count(trail(&w, "WHO ops")), 1);
        end_world(&w);
}

/* ---- commands that answer later ---- */

static void a_client_that_goes_away_leaves_its_entry(void **unused)
{
        struct world w;
        (void)unused;
        make_world(&w);
        const struct slice argv[] = {SLICE_LIT("DELETEMANY"), SLICE_LIT("QUEUE"),
                                     SLICE_LIT("failed")};
        assert_string_equal(rig_argv(&w.rig, &w.ops, argv, 3), "(waits)");
        session_release(w.rig.core, &w.ops.base);
        session_init(&w.ops.base, w.rig.me.base.ops);
        rig_archive_all(&w.rig);
        const char *text = trail(&w, "WHO ops");
        assert_int_equal(count(text), 1);
        expect_in(text, "after:''");
        /* It is complete, so history has it. */
        assert_int_equal(w.rig.core->state.n_audits, 1);
        assert_int_equal(audit_of_link(w.rig.core->state.audits.prev)->is.number,
                         w.rig.archive.base.last_audit);
        assert_true(rig_replays(&w.rig));
        end_world(&w);
}

static void a_command_that_fails_later_leaves_none(void **unused)
{
        struct world w;
        (void)unused;
        make_world(&w);
        w.rig.archive.is_broken = true;
        assert_int_equal(say(&w, &w.ops, "RETRY 3")[0], '!');
        w.rig.archive.is_broken = false;
        assert_int_equal(count(trail(&w, "WHO ops")), 0);
        assert_true(rig_replays(&w.rig));
        end_world(&w);
}

/* ---- what is counted ---- */

static void fail_login(struct world *w, const char *address, enum session_door door)
{
        struct session s;
        session_init(&s, NULL);
        s.door = door;
        (void)snprintf(s.address, sizeof(s.address), "%s", address);
        core_audit_login(w->rig.core, &s);
        rig_turn(&w->rig);
}

static void wrong_tokens_are_one_entry_a_minute(void **unused)
{
        struct world w;
        (void)unused;
        make_world(&w);
        rig_pass_ms(&w.rig, 60000 - w.rig.now.wall_ms % 60000);
        for (int i = 0; i < 7; i++)
                fail_login(&w, "10.9.9.9", SESSION_RESP);
        fail_login(&w, "10.9.9.9", SESSION_HTTP);
        fail_login(&w, "10.9.9.8", SESSION_RESP);
        const char *text = trail(&w, "COMMAND auth");
        assert_int_equal(count(text), 3);
        expect_in(text, "who:'nobody' role:'' address:'10.9.9.9' door:'resp' command:'AUTH'");
        expect_in(text, "times:4"); /* the last count that was written */
        rig_pass_ms(&w.rig, 60000);
        text = trail(&w, "COMMAND AUTH MATCH 10.9.9.9");
        assert_int_equal(count(text), 2);
        expect_in(text, "times:7");
        fail_login(&w, "10.9.9.9", SESSION_RESP);
        rig_archive_all(&w.rig);
        assert_int_equal(count(trail(&w, "COMMAND AUTH MATCH 10.9.9.9")), 3);
        assert_true(rig_replays(&w.rig));
        assert_int_equal(count(trail(&w, "COMMAND AUTH")), 4);
        end_world(&w);
}

static void a_flood_of_addresses_is_one_entry(void **unused)
{
        struct world w;
        char address[32];
        (void)unused;
        make_world(&w);
        rig_pass_ms(&w.rig, 60000 - w.rig.now.wall_ms % 60000);
        for (int i = 0; i < 100; i++) {
                (void)snprintf(address, sizeof(address), "10.9.9.%d", i);
                fail_login(&w, address, SESSION_RESP);
        }
        rig_pass_ms(&w.rig, 60000);
        assert_int_equal(count(trail(&w, "COMMAND AUTH")), AUDIT_GROUPS_MAX);
        const char *text = trail(&w, "COMMAND OTHERS");
        assert_int_equal(count(text), 1);
        expect_in(text, "times:84");
        end_world(&w);
}

static void what_a_token_may_not_is_counted(void **unused)
{
        struct world w;
        struct rig_session reader;
        (void)unused;
        make_world(&w);
        rig_pass_ms(&w.rig, 60000 - w.rig.now.wall_ms % 60000);
        enter(&reader, "looker", ROLE_BIT(ROLE_READER));
        for (int i = 0; i < 3; i++)
                assert_int_equal(rig_as(&w.rig, &reader, "PAUSE", "pending")[0], '!');
        assert_int_equal(rig_as(&w.rig, &reader, "ENQUEUE", "h", "")[0], '!');
        rig_pass_ms(&w.rig, 60000);
        const char *text = trail(&w, "WHO looker");
        assert_int_equal(count(text), 2);
        expect_in(text, "command:'PAUSE' what:'refused: PAUSE needs the role operator; the token ");
        expect_in(text, "times:3");
        rig_session_release(&w.rig, &reader);
        end_world(&w);
}

static void a_stop_writes_the_counts(void **unused)
{
        struct world w;
        (void)unused;
        make_world(&w);
        for (int i = 0; i < 7; i++)
                fail_login(&w, "10.9.9.9", SESSION_RESP);
        core_stop(w.rig.core);
        core_commit(w.rig.core);
        rig_restart(&w.rig);
        rig_archive_all(&w.rig);
        expect_in(trail(&w, "COMMAND AUTH"), "times:7");
        end_world(&w);
}

/* ---- history that takes nothing, disks that are full ---- */

static void entries_wait_for_history_up_to_a_bound(void **unused)
{
        struct world w;
        (void)unused;
        make_world(&w);
        w.rig.archive.is_stuck = true;
        for (int i = 0; i < LIMIT_AUDIT_WAITING / 2 + 50; i++) {
                (void)say(&w, &w.ops, "PAUSE pending");
                (void)say(&w, &w.ops, "RESUME pending");
        }
        assert_int_equal(w.rig.core->state.n_audits, LIMIT_AUDIT_WAITING);
        assert_true(w.rig.core->totals.audit_dropped >= 100);
        assert_true(rig_replays(&w.rig));
        assert_int_equal(w.rig.core->state.n_audits, LIMIT_AUDIT_WAITING);
        w.rig.archive.is_stuck = false;
        rig_archive_all(&w.rig);
        assert_int_equal(w.rig.core->state.n_audits, 1);
        end_world(&w);
}

static void a_full_disk_has_short_entries_and_few(void **unused)
{
        struct world w;
        (void)unused;
        make_world(&w);
        struct rig *rig = &w.rig;
        rig->archive.is_stuck = true;
        rig->log.stat.is_disk_full = true;
        rig->log.stat.room_bytes = 0;
        rig_turn(rig);
        uint64_t before = rig->core->state.live_bytes;
        uint64_t room = CORE_AUDIT_BYTES(rig->core->options.log_slack_bytes);
        core_invariants(rig->core);
        struct core_options *o = &rig->core->options;
        o->log_slack_bytes = 400 * KIB; /* so that a few thousand are too many */
        room = CORE_AUDIT_BYTES(o->log_slack_bytes);
        for (int i = 0; i < 1000; i++) {
                assert_string_equal(say(&w, &w.ops, "PAUSE pending"), "OK");
                assert_string_equal(say(&w, &w.ops, "RESUME pending"), "OK");
        }
        assert_true(rig->core->state.live_bytes < before + room + KIB);
        assert_true(rig->core->totals.audit_dropped > 0);
        expect_in(trail(&w, "WHO ops COMMAND PAUSE"), "before:'' after:''");
        end_world(&w);
}

/* ---- exactly once, wherever it crashes ---- */

static void crash(struct world *w)
{
        rig_session_release(&w->rig, &w->ops);
        rig_restart(&w->rig);
        enter(&w->ops, "ops", ROLE_BIT(ROLE_ADMIN));
}

/* Limits of their own names: each acknowledged one must be found once. */
static void live_and_crash(uint64_t seed)
{
        struct world w;
        struct rng dice;
        char line[60];
        int n = 0, acknowledged[400] = {0};
        make_world(&w);
        rng_init_seed(&dice, seed);
        w.rig.log.is_manual = true;
        for (int step = 0; step < 300; step++) {
                switch (rng_below(&dice, 6)) {
                case 0:
                        memory_archive_commit(&w.rig.archive, 1);
                        break;
                case 1:
                        rig_turn(&w.rig);
                        break;
                case 2:
                        memory_log_sync(&w.rig.log);
                        for (int i = 0; i < n; i++) /* of the batch that is durable now */
                                if (acknowledged[i] == 1 && core_is_settled(w.rig.core))
                                        acknowledged[i] = 2;
                        break;
                case 3:
                        if (rng_below(&dice, 5))
                                break;
                        crash(&w);
                        for (int i = 0; i < n; i++)
                                if (acknowledged[i] == 1) {
                                        (void)snprintf(line, sizeof(line), "l%d", i);
                                        acknowledged[i] = thing_find(&w.rig.core->state,
                                                                     THING_LIMIT, slice_str(line))
                                                                  ? 2
                                                                  : 0;
                                }
                        break;
                default:
                        (void)snprintf(line, sizeof(line), "LIMIT l%d 5 1000", n);
                        (void)say(&w, &w.ops, line);
                        acknowledged[n++] = 1;
                }
        }
        w.rig.log.is_manual = false;
        memory_log_sync(&w.rig.log);
        rig_turn(&w.rig);
        rig_archive_all(&w.rig);
        for (int i = 0; i < n; i++) {
                (void)snprintf(line, sizeof(line), "l%d", i);
                bool is_there = thing_find(&w.rig.core->state, THING_LIMIT, slice_str(line));
                (void)snprintf(line, sizeof(line), "what:'LIMIT l%d 5 1000'", i);
                size_t found = times(trail(&w, "WHO ops"), line);
                if (found != is_there || (acknowledged[i] == 2 && !is_there))
                        fail_msg("seed %llu: l%d is %s, with %zu entries", (unsigned long long)seed,
                                 i, is_there ? "there" : "gone", found);
        }
        assert_true(w.rig.core->state.n_audits <= 1);
        end_world(&w);
}

static void a_crash_keeps_each_entry_once(void **unused)
{
        (void)unused;
        for (uint64_t seed = 1; seed <= 20; seed++)
                live_and_crash(seed);
}

static void numbers_go_on_when_history_is_lost(void **unused)
{
        struct world w;
        (void)unused;
        make_world(&w);
        (void)say(&w, &w.ops, "PAUSE pending");
        rig_archive_all(&w.rig);
        assert_int_equal(w.rig.core->state.n_audits, 1);
        const struct audit *last = audit_of_link(w.rig.core->state.audits.prev);
        uint64_t number = last->is.number;
        memory_archive_release(&w.rig.archive);
        memory_archive_init(&w.rig.archive);
        crash(&w);
        (void)say(&w, &w.ops, "RESUME pending");
        last = audit_of_link(w.rig.core->state.audits.prev);
        assert_int_equal(last->is.number, number + 1);
        end_world(&w);
}

/* ---- asking ---- */

static void the_listing_has_filters_and_pages(void **unused)
{
        struct world w;
        char line[80];
        (void)unused;
        make_world(&w);
        for (int i = 0; i < 10; i++) {
                (void)snprintf(line, sizeof(line), "LIMIT x%d 5 1000", i);
                (void)say(&w, &w.ops, line);
                if (i == 4)
                        rig_archive_all(&w.rig);
                rig_pass_ms(&w.rig, 1000);
        }
        assert_int_equal(count(trail(&w, "WHO ops")), 10);
        assert_int_equal(count(trail(&w, "WHO op")), 0);
        assert_int_equal(count(trail(&w, "WHO ops COMMAND limit MATCH x7")), 1);
        (void)snprintf(line, sizeof(line), "WHO ops SINCE %lld UNTIL %lld",
                       (long long)w.rig.now.wall_ms - 7000, (long long)w.rig.now.wall_ms - 5000);
        assert_int_equal(count(trail(&w, line)), 2);
        long long cursor = 1000000;
        for (int page = 0, seen = 0; seen < 10; page++) {
                assert_true(page < 4);
                (void)snprintf(line, sizeof(line), "AUDIT LIMIT 3 WHO ops BEFORE %lld", cursor);
                const char *text = say(&w, &w.rig.me, line);
                for (size_t i = 0; i < count(text); i++, seen++) {
                        (void)snprintf(line, sizeof(line), "LIMIT x%d ", 9 - seen);
                        assert_int_equal(times(text, line), 1);
                }
                const char *at = strstr(text, "cursor:'");
                assert_non_null(at);
                assert_int_equal(sscanf(at, "cursor:'%lld'", &cursor), seen < 10 ? 1 : 0);
        }
        w.rig.archive.is_broken = true;
        const char *text = trail(&w, "WHO ops");
        expect_in(text, "problem:'history cannot be read");
        assert_int_equal(count(text), 5); /* what the log holds */
        end_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_command_that_is_audited_is_here),
                cmocka_unit_test(each_leaves_one_entry_over_a_restart),
                cmocka_unit_test(an_entry_has_what_changed),
                cmocka_unit_test(what_changes_nothing_leaves_nothing),
                cmocka_unit_test(secrets_and_payloads_are_not_in_it),
                cmocka_unit_test(what_is_long_is_cut),
                cmocka_unit_test(a_key_that_was_used_leaves_no_second_entry),
                cmocka_unit_test(a_client_that_goes_away_leaves_its_entry),
                cmocka_unit_test(a_command_that_fails_later_leaves_none),
                cmocka_unit_test(wrong_tokens_are_one_entry_a_minute),
                cmocka_unit_test(a_flood_of_addresses_is_one_entry),
                cmocka_unit_test(what_a_token_may_not_is_counted),
                cmocka_unit_test(a_stop_writes_the_counts),
                cmocka_unit_test(entries_wait_for_history_up_to_a_bound),
                cmocka_unit_test(a_full_disk_has_short_entries_and_few),
                cmocka_unit_test(a_crash_keeps_each_entry_once),
                cmocka_unit_test(numbers_go_on_when_history_is_lost),
                cmocka_unit_test(the_listing_has_filters_and_pages),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
