/* Every command that writes, where the log takes nothing: with a full disk, and with a sync that
 * does not end.  What is refused leaves no trace, what is done is still there after a restart. */
#include "throttle_box.h"

#include <stdio.h>

#include "core/kernel.h"
#include "sites/sites.h"

#define MIB_JOBS (CORE_BATCH_SOFT_BYTES / MIB + 2)

enum need { ALWAYS_DONE, NEEDS_ROOM };

/* A word of the form @name is the token of that name. */
static const struct row {
        const char *line;
        enum need need; /* with a full disk; NEEDS_ROOM: it must be refused */
} rows[] = {
        {"ENQUEUE h a QUEUE new", NEEDS_ROOM},
        {"ENQUEUEMANY QUEUE new JOBS h a h b", NEEDS_ROOM},
        {"CANCEL 1", ALWAYS_DONE},
        {"CLAIM w QUEUES pending", ALWAYS_DONE},
        {"COMPLETE 2 @job", ALWAYS_DONE},
        {"FAIL 2 @job no", ALWAYS_DONE},
        {"RELEASE 2 @job", ALWAYS_DONE},
        {"EXTEND 2 @job 60000", ALWAYS_DONE},
        {"PROGRESS 2 @job half", ALWAYS_DONE},
        {"PAUSE pending", ALWAYS_DONE},
        {"RESUME paused", ALWAYS_DONE},
        {"QUEUESET pending CAP 3", ALWAYS_DONE},
        {"QUEUESET pending HISTORY none", ALWAYS_DONE},
        {"QUEUESET new CAP 3", NEEDS_ROOM},
        {"UNQUEUE paused", ALWAYS_DONE},
        {"CAP key:more 1", NEEDS_ROOM},
        {"CAP key:k 2", ALWAYS_DONE},
        {"UNCAP key:k", ALWAYS_DONE},
        {"TOKENADD more worker", NEEDS_ROOM},
        {"TOKENROTATE boss", ALWAYS_DONE},
        {"TOKENREMOVE boss", ALWAYS_DONE},
        {"BATCH more", NEEDS_ROOM},
        {"CLOSEBATCH empty", ALWAYS_DONE},
        {"CANCELBATCH b", ALWAYS_DONE},
        {"UNBATCH over", ALWAYS_DONE},
        {"BREAKER more", NEEDS_ROOM},
        {"UNBREAKER brk", ALWAYS_DONE},
        {"ASK brk", NEEDS_ROOM},
        {"REPORT brk @breaker ok", ALWAYS_DONE},
        {"TRIP brk", ALWAYS_DONE},
        {"CLOSEBREAKER brk", ALWAYS_DONE},
        {"CANCELMANY QUEUE pending", ALWAYS_DONE},
        {"RUNMANY QUEUE later", NEEDS_ROOM},
        {"RETIERMANY SET high QUEUE pending", NEEDS_ROOM},
        {"DELETEMANY QUEUE failed", ALWAYS_DONE},
        {"RETIER 1 high", NEEDS_ROOM},
        {"RETRY 3", NEEDS_ROOM},
        {"RETRYMANY STATUS failed", NEEDS_ROOM},
        {"RUN 4", NEEDS_ROOM},
        {"SKIPHOST more", NEEDS_ROOM},
        {"RECOVERHOST db2", ALWAYS_DONE},
        {"LIMIT more 5 1000", NEEDS_ROOM},
        {"UNLIMIT lim", ALWAYS_DONE},
        {"TAKE lim", NEEDS_ROOM},
        {"RESETLIMIT lim", ALWAYS_DONE},
        {"LOCK more 1000", NEEDS_ROOM},
        {"UNLOCK held @lock", ALWAYS_DONE},
        {"RENEW held @lock 60000", ALWAYS_DONE},
        {"FORCEUNLOCK held", ALWAYS_DONE},
        {"RULESET more hold", NEEDS_ROOM},
        {"RULEUNSET rule", ALWAYS_DONE},
        {"PRIORITIZE more RATIO 0.5", NEEDS_ROOM},
        {"UNPRIORITIZE first", ALWAYS_DONE},
        {"SCHEDULE more h a EVERY 60000", NEEDS_ROOM},
        {"UNSCHEDULE s", ALWAYS_DONE},
        {"PAUSESCHEDULE s", ALWAYS_DONE},
        {"RESUMESCHEDULE p", ALWAYS_DONE},
        {"RUNSCHEDULE s", NEEDS_ROOM},
        {"SETTINGSET locks.enabled true", NEEDS_ROOM},
        {"SETTINGSET throttle.enabled false", ALWAYS_DONE},
        {"SETTINGUNSET throttle.enabled", ALWAYS_DONE},
        {"THROTTLE PAUSE", ALWAYS_DONE},
        {"THROTTLE RESUME", ALWAYS_DONE},
        {"THROTTLE STATUS", ALWAYS_DONE},
        {"THROTTLE MODE SET observe", ALWAYS_DONE},
        {"REGISTRYSET more_* high", NEEDS_ROOM},
        {"REGISTRYSET some_* critical", ALWAYS_DONE},
        {"REGISTRYUNSET some_*", ALWAYS_DONE},
        {"SITETIER blog klaviyo_sync high", NEEDS_ROOM},
        {"SITETIER blog klaviyo_sync default", ALWAYS_DONE},
        {"SITEDEFER blog 7 klaviyo_sync 1000", NEEDS_ROOM},
        {"SITEDEFER blog 7 nofraud_check 1000", ALWAYS_DONE},
};

struct world {
        struct rig rig;
        char job[RIG_TOKEN], lock[RIG_TOKEN], breaker[RIG_TOKEN];
};

static void copy_token(const char *text, char *ret)
{
        const char *at = strstr(text, "token:'");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "token:'%32[0-9a-f]'", ret), 1);
}

static void make_world(struct world *w)
{
        *w = (struct world){0};
        struct rig *rig = &w->rig;
        init(rig, MODE_ENFORCE);
        sample(rig, 1);
        rig_turn(rig);
        /* The load of a target that is not there is unknown, so deferrable actions wait. */
        const struct site_options site = {
                .name = "blog", .target = "none", .mode = MODE_ENFORCE, .interval_ms = 5000};
        core_set_sites(rig->core, &site, 1, NULL);
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "pending");
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "running");
        assert_int_equal(rig_claim(rig, "w", "running", w->job), 2);
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "failed", "ATTEMPTS", "1");
        assert_int_equal(rig_fail_next(rig, "failed", "no"), 3);
        rig_do(rig, "BATCH", "b");
        rig_do(rig, "BATCH", "empty", "ONDONE", "h");
        rig_do(rig, "BATCH", "over");
        rig_do(rig, "CLOSEBATCH", "over");
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "later", "IN", "3600000", "BATCH", "b");
        rig_do(rig, "PAUSE", "paused");
        rig_do(rig, "CAP", "key:k", "1");
        rig_do(rig, "TOKENADD", "boss", "admin");
        copy_token(rig_do(rig, "LOCK", "held", "60000"), w->lock);
        rig_do(rig, "LIMIT", "lim", "5", "1000");
        rig_do(rig, "BREAKER", "brk");
        copy_token(rig_do(rig, "ASK", "brk"), w->breaker);
        rig_do(rig, "RULESET", "rule", "hold");
        rig_do(rig, "RULESET", "first", "ratio", "RATIO", "0");
        rig_do(rig, "SCHEDULE", "s", "h", "", "EVERY", "60000");
        rig_do(rig, "SCHEDULE", "p", "h", "", "EVERY", "60000");
        rig_do(rig, "PAUSESCHEDULE", "p");
        rig_do(rig, "SKIPHOST", "db2");
        rig_do(rig, "REGISTRYSET", "some_*", "high");
        rig_do(rig, "SETTINGSET", "throttle.enabled", "true");
        rig_archive_all(rig);
        assert_null(state_job(&rig->core->state, 3));
}

static const char *say_line(struct world *w, const char *line)
{
        static char copy[256];
        struct slice argv[16];
        size_t argc = 0;
        (void)snprintf(copy, sizeof(copy), "%s", line);
        for (char *save, *word = strtok_r(copy, " ", &save); word;
             word = strtok_r(NULL, " ", &save)) {
                if (strcmp(word, "@job") == 0)
                        word = w->job;
                else if (strcmp(word, "@lock") == 0)
                        word = w->lock;
                else if (strcmp(word, "@breaker") == 0)
                        word = w->breaker;
                argv[argc++] = slice_str(word);
        }
        return rig_argv(&w->rig, &w->rig.me, argv, argc);
}

/* Those for many jobs answer after some turns. */
static const char *answer_to(struct world *w, const char *line)
{
        const char *text = say_line(w, line);
        if (strcmp(text, "(waits)") != 0)
                return text;
        for (int i = 0; i < 10 && !w->rig.me.is_answered; i++) {
                memory_log_sync(&w->rig.log);
                rig_archive_all(&w->rig);
        }
        assert_true(w->rig.me.is_answered);
        return text_reply_str(&w->rig.me.reply);
}

/* Says a line and reports whether it was done. */
static bool is_done(struct world *w, const char *line)
{
        uint64_t before = state_digest(&w->rig.core->state);
        const char *text = answer_to(w, line);
        state_check(&w->rig.core->state);
        if (text[0] != '!')
                return true;
        if (state_digest(&w->rig.core->state) != before)
                fail_msg("%s left a trace: %s", line, text);
        if (!strstr(text, "!NOSPACE") && !strstr(text, "!UNAVAIL"))
                fail_msg("%s: %s", line, text);
        return false;
}

static void end_world(struct world *w, const char *line)
{
        w->rig.log.is_manual = false;
        memory_log_sync(&w->rig.log);
        w->rig.log.stat.is_disk_full = false;
        w->rig.log.stat.room_bytes = 1ULL << 40;
        rig_archive_all(&w->rig);
        if (!rig_replays(&w->rig))
                fail_msg("after %s a restart changes something", line);
        rig_release(&w->rig);
}

static void every_command_that_writes_is_here(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                bool is_here = !(def->flags & COMMAND_WRITE) ||
                               strcmp(def->name, "CONFIGRELOAD") == 0; /* of the server, not ours */
                for (size_t k = 0; k < ARRAY_LEN(rows); k++)
                        is_here |= strncmp(rows[k].line, def->name, def->name_len) == 0 &&
                                   rows[k].line[def->name_len] == ' ';
                if (!is_here)
                        fail_msg("no row for %s", def->name);
        }
}

static void each_is_done_where_there_is_room(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct world w;
                make_world(&w);
                if (!is_done(&w, rows[i].line))
                        fail_msg("%s is refused", rows[i].line);
                end_world(&w, rows[i].line);
        }
}

static void a_full_disk_refuses_what_grows_and_takes_what_ends(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct world w;
                make_world(&w);
                w.rig.log.stat.is_disk_full = true;
                w.rig.log.stat.room_bytes = 0;
                rig_turn(&w.rig);
                if (is_done(&w, rows[i].line) != (rows[i].need == ALWAYS_DONE))
                        fail_msg("%s: %s", rows[i].line,
                                 rows[i].need == ALWAYS_DONE ? "refused" : "done");
                end_world(&w, rows[i].line);
        }
}

static void fall_behind(struct rig *rig)
{
        static char args[MIB];
        if (!args[0])
                memset(args, 'x', sizeof(args) - 1);
        rig->log.is_manual = true;
        for (size_t i = 0; i < MIB_JOBS; i++)
                rig_do(rig, "ENQUEUE", "h", args, "QUEUE", "big");
        assert_true(core_is_congested(rig->core));
}

static void a_log_that_is_behind_does_no_harm(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct world w;
                make_world(&w);
                fall_behind(&w.rig);
                (void)is_done(&w, rows[i].line);
                end_world(&w, rows[i].line);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_command_that_writes_is_here),
                cmocka_unit_test(each_is_done_where_there_is_room),
                cmocka_unit_test(a_full_disk_refuses_what_grows_and_takes_what_ends),
                cmocka_unit_test(a_log_that_is_behind_does_no_harm),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
