/* Is a MariaDB server as safe as was asked for?  Each setting that a commit's word depends on is a
 * row of a table, with what is to be done about it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/shown.h"
#include "cluster/ledger_mariadb_int.h"

static const char variables_sql[] =
        "show session variables where variable_name in ('wsrep_on','wsrep_provider_options',"
        "'wsrep_osu_method','innodb_flush_log_at_trx_commit','innodb_doublewrite',"
        "'innodb_force_recovery','max_allowed_packet','sync_binlog','sql_log_bin','log_bin',"
        "'binlog_format','read_only','rpl_semi_sync_master_enabled',"
        "'rpl_semi_sync_master_wait_point','rpl_semi_sync_master_timeout',"
        "'rpl_semi_sync_master_wait_no_slave')";
static const char status_sql[] =
        "show global status where variable_name in ('wsrep_cluster_status','wsrep_ready',"
        "'wsrep_local_state_comment','wsrep_cluster_size','wsrep_cluster_state_uuid',"
        "'Rpl_semi_sync_master_status','Rpl_semi_sync_master_clients',"
        "'Rpl_semi_sync_master_no_tx')";
static const char table_sql[] =
        "select 'engine of weir_log',engine from information_schema.tables where "
        "table_schema=database() and table_name='weir_log' union all "
        "select 'type of weir_log.body',data_type from information_schema.columns where "
        "table_schema=database() and table_name='weir_log' and column_name='body' union all "
        "select 'number of triggers on weir_log',count(*) from information_schema.triggers where "
        "event_object_schema=database() and event_object_table='weir_log'";

static const struct ledger_rule rules[] = {
        {"innodb_flush_log_at_trx_commit", RULE_IS, "1", "set innodb_flush_log_at_trx_commit = 1"},
        {"innodb_doublewrite", RULE_IS_NOT, "OFF", "set innodb_doublewrite = ON"},
        {"innodb_force_recovery", RULE_IS, "0", "set innodb_force_recovery = 0"},
        {"max_allowed_packet", RULE_AT_LEAST, "4194304", "set max_allowed_packet to 4M or more"},
};

/* A server with a binary log forgets with a crash what that log does not hold. */
static const struct ledger_rule binlog_rules[] = {
        {"sync_binlog", RULE_IS, "1", "set sync_binlog = 1"},
        {"binlog_format", RULE_IS_NOT, "STATEMENT", "set binlog_format = ROW"},
};

static const struct ledger_rule pair_rules[] = {
        {"log_bin", RULE_IS, "ON", "set log_bin"},
        {"sql_log_bin", RULE_IS, "ON", "leave sql_log_bin on"},
        {"rpl_semi_sync_master_wait_point", RULE_IS, "AFTER_SYNC",
         "set rpl_semi_sync_master_wait_point = AFTER_SYNC"},
        {"rpl_semi_sync_master_timeout", RULE_AT_LEAST, "4294967295",
         "set rpl_semi_sync_master_timeout to 18446744073709551615, or it gives up on the replica"},
        {"rpl_semi_sync_master_wait_no_slave", RULE_IS, "ON",
         "set rpl_semi_sync_master_wait_no_slave = ON"},
        {"Rpl_semi_sync_master_status", RULE_IS, "ON", "set rpl_semi_sync_master_enabled = ON"},
};

static const struct ledger_rule galera_rules[] = {
        {"wsrep_on", RULE_IS, "ON", "set wsrep_on = ON"},
        {"wsrep_osu_method", RULE_IS, "TOI", "set wsrep_osu_method = TOI"},
        {"wsrep_provider_options", RULE_HAS, "pc.ignore_sb = false",
         "set it in wsrep_provider_options"},
        {"wsrep_provider_options", RULE_HAS, "pc.ignore_quorum = false",
         "set it in wsrep_provider_options"},
        /* Of three, one may be away. */
        {"wsrep_cluster_size", RULE_AT_LEAST, "2",
         "start the other nodes (three in all), or set durability to \"single\""},
};

static const struct ledger_rule table_rules[] = {
        {"engine of weir_log", RULE_IS, "InnoDB", "run: alter table weir_log engine=InnoDB"},
        {"type of weir_log.body", RULE_IS, "longblob",
         "run: alter table weir_log modify body longblob not null"},
        {"number of triggers on weir_log", RULE_IS, "0", "drop them"},
};

static int look(struct maria *m, const char *sql, const struct sql_wait *w,
                struct ledger_facts *ret, struct problem *problem)
{
        struct mysql_result result = {0};
        struct slice cells[2];
        buf_clear(&m->sql);
        buf_put_str(&m->sql, sql);
        int r = maria_run(m, w, &result, problem);
        while (mysql_result_next(&result, cells, ARRAY_LEN(cells)))
                ledger_facts_put(ret, cells[0], cells[1]);
        mysql_result_release(&result);
        return r;
}

static int judge_galera(struct maria *m, const struct ledger_facts *f, struct problem *problem)
{
        const char *uuid = ledger_facts_get(f, "wsrep_cluster_state_uuid");
        if (!ledger_facts_is(f, "wsrep_cluster_status", "Primary") ||
            !ledger_facts_is(f, "wsrep_ready", "ON") ||
            !ledger_facts_is(f, "wsrep_local_state_comment", "Synced"))
                return problem_set(
                        problem, ERR_LOCKED, "%s is not in step with its cluster: it is %s and %s",
                        maria_where(m), SHOWN_STR(ledger_facts_get(f, "wsrep_cluster_status")),
                        SHOWN_STR(ledger_facts_get(f, "wsrep_local_state_comment")));
        if (!m->uuid[0])
                (void)snprintf(m->uuid, sizeof(m->uuid), "%s", uuid);
        if (strcmp(m->uuid, uuid) != 0)
                return problem_set(problem, ERR_STATE,
                                   "%s is of another cluster than the one before: its "
                                   "wsrep_cluster_state_uuid is %s, not %s; name only nodes of one "
                                   "cluster in `hosts`",
                                   maria_where(m), SHOWN_STR(uuid), m->uuid);
        return maria_is_replicated(m) ? ledger_judge(f, galera_rules, ARRAY_LEN(galera_rules),
                                                     maria_where(m), problem)
                                      : OK;
}

static int judge_pair(struct maria *m, const struct ledger_facts *f, struct problem *problem)
{
        int r = ledger_judge(f, pair_rules, ARRAY_LEN(pair_rules), maria_where(m), problem);
        if (r == OK && ledger_facts_is(f, "Rpl_semi_sync_master_clients", "0"))
                return problem_set(problem, ERR_UNAVAIL,
                                   "no semi-synchronous replica is connected to %s: it commits "
                                   "nothing until one is",
                                   maria_where(m));
        return r;
}

static int judge(struct maria *m, const struct ledger_facts *f, struct problem *problem)
{
        if (!ledger_facts_is(f, "read_only", "OFF") && !ledger_facts_is(f, "read_only", "0"))
                return problem_set(problem, ERR_LOCKED, "%s is read-only", maria_where(m));
        int r = OK;
        if (m->site == SITE_GALERA)
                r = judge_galera(m, f, problem);
        if (r == OK)
                r = ledger_judge(f, rules, ARRAY_LEN(rules), maria_where(m), problem);
        if (r == OK && m->site != SITE_GALERA && ledger_facts_is(f, "log_bin", "ON"))
                r = ledger_judge(f, binlog_rules, ARRAY_LEN(binlog_rules), maria_where(m), problem);
        if (r != OK || !maria_is_replicated(m))
                return r;
        if (m->site == SITE_ALONE)
                return problem_set(problem, ERR_STATE,
                                   "%s is not safe: it is one server; set wsrep_on or "
                                   "rpl_semi_sync_master_enabled to ON, or durability to "
                                   "\"single\"",
                                   maria_where(m));
        return m->site == SITE_PAIR ? judge_pair(m, f, problem) : OK;
}

/* Seconds of "PT5S" or "PT1M30.5S" behind the name; 0: it is not there. */
static double period_s(const char *options, const char *name)
{
        const char *at = strstr(options, name);
        double sum = 0;
        at = at ? strstr(at, "PT") : NULL;
        for (at = at ? at + 2 : ""; (*at >= '0' && *at <= '9') || *at == '.';) {
                char *end;
                double value = strtod(at, &end);
                static const struct {
                        char unit;
                        double seconds;
                } units[] = {{'H', 3600}, {'M', 60}, {'S', 1}};
                for (size_t i = 0; i < ARRAY_LEN(units); i++)
                        if (*end == units[i].unit)
                                sum += value * units[i].seconds;
                at = *end ? end + 1 : end;
        }
        return sum;
}

/* What kind of server it is, and what is to be remembered of it. */
static void learn(struct maria *m, const struct ledger_facts *f)
{
        double suspect_s =
                period_s(ledger_facts_get(f, "wsrep_provider_options"), "evs.suspect_timeout");
        m->site = ledger_facts_is(f, "wsrep_on", "ON")                       ? SITE_GALERA
                  : ledger_facts_is(f, "rpl_semi_sync_master_enabled", "ON") ? SITE_PAIR
                                                                             : SITE_ALONE;
        m->no_tx = maria_number(slice_str(ledger_facts_get(f, "Rpl_semi_sync_master_no_tx")));
        m->lease_ms = LEDGER_LEASE_MS;
        if (m->site == SITE_GALERA && suspect_s > 0 && suspect_s < 3600)
                m->lease_ms = (int64_t)(2 * suspect_s * 1000);
        if (m->lease_ms < LEDGER_LEASE_MS)
                m->lease_ms = LEDGER_LEASE_MS;
}

int maria_verify(struct maria *m, bool is_new, const struct sql_wait *w, struct problem *problem)
{
        struct ledger_facts facts = {0};
        int r = look(m, variables_sql, w, &facts, problem);
        if (r == OK)
                r = look(m, status_sql, w, &facts, problem);
        if (r == OK && is_new)
                learn(m, &facts);
        if (r == OK)
                r = judge(m, &facts, problem);
        ledger_facts_release(&facts);
        return r;
}

int maria_check_tables(struct maria *m, const struct sql_wait *w, struct problem *problem)
{
        struct ledger_facts facts = {0};
        uint64_t version;
        MARIA_SQL(m, "select version from weir_version where space=%s", MARIA_SPACE(m));
        int r = maria_ask_number(m, w, &version, problem);
        if (r == ERR_NOTFOUND || r == ERR_FORBIDDEN || (r == OK && !version))
                return problem_set(problem, ERR_STATE,
                                   "%s does not show this user the tables of weir; run `weir "
                                   "cluster init` and the GRANT statements it prints",
                                   maria_where(m));
        if (r == OK && version != LEDGER_VERSION)
                return problem_set(problem, ERR_STATE,
                                   "the tables on %s are of version %llu, and this weir knows %d; "
                                   "%s",
                                   maria_where(m), (unsigned long long)version, LEDGER_VERSION,
                                   version < LEDGER_VERSION ? "run `weir cluster init`"
                                                            : "install a newer weir");
        if (r == OK)
                r = look(m, table_sql, w, &facts, problem);
        if (r == OK)
                r = ledger_judge(&facts, table_rules, ARRAY_LEN(table_rules), maria_where(m),
                                 problem);
        ledger_facts_release(&facts);
        return r;
}

int maria_is_primary(struct maria *m, const struct sql_wait *w, bool *ret, struct problem *problem)
{
        struct ledger_facts facts = {0};
        int r = look(m, status_sql, w, &facts, problem);
        *ret = ledger_facts_is(&facts, "wsrep_cluster_status", "Primary");
        ledger_facts_release(&facts);
        return r;
}
