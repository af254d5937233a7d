/* Advice: what a person should look at, and weir does not change.  Large tables, indexes that are
 * left over, log lines without an action, locks that are loaded with each request.
 *
 * One look reads a few rows of information_schema and a bounded page of two tables. */
#include "guard/repair_look.h"

#define LARGE_ROWS 1000000
#define LARGE_MB   512

static int look_at_sizes(struct repair_look *l)
{
        static const char *const tables[] = {"actions", "logs"};
        static const unsigned lines[] = {ADVICE_ACTIONS_SIZE, ADVICE_LOGS_SIZE};

        for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                struct slice cells[2];
                int err;

                buf_printf(&l->s->sql,
                           "SELECT TABLE_ROWS, (DATA_LENGTH + INDEX_LENGTH) DIV 1048576 FROM "
                           "information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND "
                           "TABLE_NAME = '%sactionscheduler_%s'",
                           l->s->options->prefix, tables[i]);
                err = look_run(l, &r);
                if (err)
                        return err;
                look_forget(l, lines[i]);
                if (!mysql_result_next(&r, cells, ARRAY_LEN(cells)))
                        continue;
                uint64_t rows = look_u64(cells[0]), mb = look_u64(cells[1]);
                if (rows >= LARGE_ROWS || mb >= LARGE_MB)
                        look_advise(
                                l, lines[i],
                                "Table %sactionscheduler_%s is large: about %llu rows, %llu MB. A "
                                "shorter retention makes it smaller (repair_retention, retention).",
                                l->s->options->prefix, tables[i], (unsigned long long)rows,
                                (unsigned long long)mb);
        }
        return OK;
}

struct index {
        char name[65];
        char columns[200]; /* "status,scheduled_date_gmt" */
        bool is_of_logs, is_unique;
};

struct indexes {
        struct index at[48];
        size_t n;
};

static bool begins_with(const char *text, const char *head)
{
        size_t n = strlen(head);

        return strncmp(text, head, n) == 0 && (text[n] == ',' || text[n] == '\0');
}

static int read_indexes(struct repair_look *l, struct indexes *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[4];
        const char *prefix = l->s->options->prefix;
        int err;

        buf_printf(&l->s->sql,
                   "SELECT INDEX_NAME, GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX), "
                   "TABLE_NAME = '%sactionscheduler_logs', MAX(NON_UNIQUE) = 0 "
                   "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND "
                   "TABLE_NAME IN ('%sactionscheduler_actions', '%sactionscheduler_logs') "
                   "GROUP BY TABLE_NAME, INDEX_NAME ORDER BY TABLE_NAME, INDEX_NAME",
                   prefix, prefix, prefix);
        err = look_run(l, &r);
        ret->n = 0;
        while (!err && ret->n < ARRAY_LEN(ret->at) &&
               mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                struct index *x = &ret->at[ret->n++];
                look_copy_cell(x->name, sizeof(x->name), cells[0]);
                look_copy_cell(x->columns, sizeof(x->columns), cells[1]);
                x->is_of_logs = look_u64(cells[2]);
                x->is_unique = look_u64(cells[3]);
        }
        return err;
}

/* An index is left over when another one begins with its columns, or when it is the claim index of
 * an older version: WordPress adds indexes on an update and never drops one. */
static bool is_left_over(const struct indexes *all, const struct index *x, const char **ret_instead)
{
        for (size_t i = 0; i < all->n; i++) {
                const struct index *other = &all->at[i];
                if (other == x || other->is_of_logs != x->is_of_logs || x->is_unique)
                        continue;
                *ret_instead = other->name;
                /* Of two that are the same, the second. */
                if (strcmp(other->columns, x->columns) == 0
                            ? other < x
                            : begins_with(other->columns, x->columns))
                        return true;
                if (strcmp(x->columns, "claim_id,status,scheduled_date_gmt") == 0 &&
                    strcmp(other->columns, "claim_id,status,priority,scheduled_date_gmt") == 0)
                        return true;
        }
        return false;
}

static int look_at_indexes(struct repair_look *l)
{
        struct store *s = l->s;
        struct indexes all;
        const char *instead;
        int err = read_indexes(l, &all);

        if (err)
                return err;
        look_forget(l, ADVICE_OLD_INDEX);
        for (size_t i = 0; i < all.n; i++)
                if (is_left_over(&all, &all.at[i], &instead)) {
                        look_advise(
                                l, ADVICE_OLD_INDEX,
                                "Index %s of table %sactionscheduler_%s is left over from an older "
                                "version: %s does its work, and each change of a row writes both. "
                                "It can be dropped.",
                                all.at[i].name, s->options->prefix,
                                all.at[i].is_of_logs ? "logs" : "actions", instead);
                        break;
                }
        return OK;
}

#define SAMPLED_LOGS 500
#define MANY_ORPHANS 50

/* Among the oldest lines, because an orphan stays and its neighbours go. */
static int look_at_orphans(struct repair_look *l)
{
        uint32_t n;
        int err;

        buf_printf(&l->s->sql,
                   "SELECT COUNT(*) FROM (SELECT action_id FROM %s ORDER BY log_id LIMIT %d) AS l "
                   "LEFT JOIN %s a ON a.action_id = l.action_id WHERE a.action_id IS NULL",
                   l->s->logs, SAMPLED_LOGS, l->s->actions);
        err = look_count(l, &n);
        if (err)
                return err;
        if (n >= MANY_ORPHANS)
                look_advise(
                        l, ADVICE_ORPHANS,
                        "%u of the %d oldest lines of table %sactionscheduler_logs belong to no "
                        "action. They can be deleted.",
                        n, SAMPLED_LOGS, l->s->options->prefix);
        else
                look_forget(l, ADVICE_ORPHANS);
        return OK;
}

/* A lock that WordPress loads with every request is also cached with every request. */
static int look_at_autoload(struct repair_look *l)
{
        static const char *const families[] = {"weir\\_lock\\_", "action\\_scheduler\\_lock\\_"};
        uint32_t n = 0, more;

        for (size_t i = 0; i < ARRAY_LEN(families); i++) {
                int err;
                buf_printf(&l->s->sql,
                           "SELECT COUNT(*) FROM (SELECT autoload FROM %s WHERE option_name LIKE "
                           "'%s%%' LIMIT %d) AS o WHERE autoload NOT IN ('no', 'off', 'auto-off')",
                           l->s->wp_options, families[i], SITE_COUNT_CAP);
                err = look_count(l, &more);
                if (err)
                        return err;
                n += more;
        }
        if (n)
                look_advise(l, ADVICE_AUTOLOAD,
                            "%u locks in table %soptions are loaded with every request (autoload "
                            "is not "
                            "'no'), so PHP may see old values of them. Set their autoload to 'no'.",
                            n, l->s->options->prefix);
        else
                look_forget(l, ADVICE_AUTOLOAD);
        return OK;
}

int look_around(struct repair_look *l)
{
        int err = look_at_sizes(l);

        if (!err)
                err = look_at_indexes(l);
        if (!err)
                err = look_at_orphans(l);
        if (!err)
                err = look_at_autoload(l);
        return err;
}

/* What the survey itself says. */
void look_advise_on_survey(struct repair_look *l)
{
        if (!l->s->facts.is_migrated)
                look_advise(
                        l, ADVICE_MIGRATION,
                        "Action Scheduler has not moved all actions into its own tables yet. weir "
                        "does not see those that are still posts of the type scheduled-action.");
        else
                look_forget(l, ADVICE_MIGRATION);
        if (l->survey->failed > SITE_COUNT_CAP)
                look_advise(l, ADVICE_FAILED,
                            "More than %d actions have failed. Action Scheduler before 4.0 keeps "
                            "failed "
                            "actions for ever; retention_failed says how long weir keeps them.",
                            SITE_COUNT_CAP);
        else
                look_forget(l, ADVICE_FAILED);
}
