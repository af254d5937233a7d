/* The tables of a cluster in MariaDB.  Statements that make tables commit by themselves: each step
 * leaves alone what is there already, and the version is written last.  A later version appends its
 * steps. */
#include "cluster/ledger_sql.h"
#include "sql/mysql.h"

#define NAME   "varchar(96) character set ascii collate ascii_bin not null"
#define NUMBER "bigint unsigned not null"
#define SPACE  "space varchar(64) character set ascii collate ascii_bin not null"

static const struct {
        int version;
        const char *sql;
} steps[] = {
        {1, "create table if not exists weir_version(" SPACE ",version int unsigned not null,"
            "primary key(space)) engine=InnoDB"},
        /* The log.  kind: enum ledger_kind. */
        {1, "create table if not exists weir_log(" SPACE ",seq " NUMBER ",piece smallint unsigned "
            "not null default 0,epoch " NUMBER ",node " NAME ",kind tinyint unsigned not null,"
            "body longblob not null,primary key(space,seq,piece)) engine=InnoDB"},
        {1, "create table if not exists weir_lease(" SPACE ",node " NAME ",until datetime(6) not "
            "null,turn " NUMBER ",primary key(space)) engine=InnoDB"},
        {1,
         "create table if not exists weir_member(" SPACE ",name " NAME ",node " NAME ","
         "address varchar(256) character set utf8mb4 not null,priority int not null,epoch " NUMBER
         ",seq " NUMBER ",digest_seq " NUMBER ",digest " NUMBER ",seen datetime(6) not null,"
         "primary key(space,name)) engine=InnoDB"},
        {1, "create table if not exists weir_history(" SPACE ",kind tinyint unsigned not null,"
            "`key` " NUMBER ",`change` " NUMBER ",body longblob not null,dead longblob not null,"
            "primary key(space,kind,`key`),key weir_history_change(space,`change`)) "
            "engine=InnoDB"},
        {1, "create table if not exists weir_fence(" SPACE ",epoch " NUMBER ",`change` " NUMBER
            ",primary key(space)) engine=InnoDB"},
};

static const struct {
        const char *privileges, *table;
} grants[] = {
        {"select,insert,delete", "weir_log"},
        {"select,insert,update", "weir_lease"},
        {"select,insert,update", "weir_member"},
        {"select,insert,update", "weir_fence"},
        {"select,insert,update,delete", "weir_history"},
        {"select", "weir_version"},
};

struct init {
        const struct ledger_options *options;
        struct sql_login login; /* without the database, which may not be there yet */
        const char *database;
        struct mysql_conn *conn;
        struct buf sql;
        const struct sql_wait *w;
        struct problem *problem;
        uint64_t version; /* that is there; 0: none */
};

/* Runs what is in i->sql; ret: the first number that it gives, when it gives one. */
static int run(struct init *i, uint64_t *ret)
{
        struct mysql_result result = {0};
        struct slice cell = SLICE_NONE;
        int r = mysql_conn_run(i->conn, buf_slice(&i->sql), i->w, &result, i->problem);
        (void)mysql_result_next(&result, &cell, 1); /* none: 0 */
        if (ret && !slice_to_u64(cell, ret))
                *ret = 0;
        mysql_result_release(&result);
        buf_clear(&i->sql);
        return r;
}

static int run_text(struct init *i, const char *sql)
{
        buf_put_str(&i->sql, sql);
        return run(i, NULL);
}

static int choose_database(struct init *i)
{
        buf_put_str(&i->sql, "create database if not exists ");
        mysql_put_name(&i->sql, slice_str(i->database));
        int r = run(i, NULL);
        if (r != OK)
                return r;
        buf_put_str(&i->sql, "use ");
        mysql_put_name(&i->sql, slice_str(i->database));
        return run(i, NULL);
}

static int read_version(struct init *i)
{
        buf_put_str(&i->sql, "select version from weir_version where space=");
        mysql_put_text(&i->sql, slice_str(i->options->space));
        int r = run(i, &i->version);
        return r == ERR_NOTFOUND ? OK : r;
}

static int write_version(struct init *i)
{
        buf_put_str(&i->sql, "insert ignore into weir_lease values(");
        mysql_put_text(&i->sql, slice_str(i->options->space));
        buf_put_str(&i->sql, ",'',utc_timestamp(6),0)");
        int r = run(i, NULL);
        if (r != OK)
                return r;
        buf_put_str(&i->sql, "replace into weir_version values(");
        mysql_put_text(&i->sql, slice_str(i->options->space));
        buf_printf(&i->sql, ",%d)", LEDGER_VERSION);
        return run(i, NULL);
}

static int migrate(struct init *i)
{
        int r = choose_database(i);
        if (r == OK)
                r = read_version(i);
        if (r == OK && i->version > LEDGER_VERSION)
                return problem_set(i->problem, ERR_STATE,
                                   "the tables on %s are of version %llu, and this weir knows %d; "
                                   "install a newer weir",
                                   mysql_conn_where(i->conn), (unsigned long long)i->version,
                                   LEDGER_VERSION);
        for (size_t s = 0; r == OK && s < ARRAY_LEN(steps); s++)
                if ((uint64_t)steps[s].version > i->version)
                        r = run_text(i, steps[s].sql);
        return r == OK ? write_version(i) : r;
}

static int attempt(void *self, const struct sql_login *login, const struct sql_wait *w,
                   struct problem *problem)
{
        struct init *i = self;
        uint64_t is_read_only;
        i->login = *login;
        i->login.database = NULL;
        i->database = login->database;
        i->w = w;
        i->problem = problem;
        if (!i->database)
                return problem_set(problem, ERR_BADARG, "`database` is missing");
        i->conn = mysql_conn_free(i->conn);
        i->conn = mysql_conn_new(&i->login);
        int r = mysql_conn_connect(i->conn, w, problem);
        if (r != OK)
                return r;
        buf_put_str(&i->sql, "select @@global.read_only");
        r = run(i, &is_read_only);
        if (r == OK && is_read_only)
                r = problem_set(problem, ERR_LOCKED, "%s is read-only", mysql_conn_where(i->conn));
        return r;
}

static void tell(const struct init *i, const char *user, struct buf *ret)
{
        ledger_put_made(ret, mysql_conn_where(i->conn), (int)i->version);
        buf_put_str(ret, "The least that weir needs there, from any host ('%'):\n");
        for (size_t g = 0; g < ARRAY_LEN(grants); g++) {
                buf_printf(ret, "  grant %s on ", grants[g].privileges);
                mysql_put_name(ret, slice_str(i->database));
                buf_printf(ret, ".%s to ", grants[g].table);
                mysql_put_text(ret, slice_str(user));
                buf_put_str(ret, "@'%';\n");
        }
}

int ledger_mariadb_init(const struct ledger_options *options, const char *user,
                        const struct sql_wait *w, struct buf *ret, struct problem *problem)
{
        struct init i = {.options = options};
        struct ledger_search search = {.options = options, .attempt = attempt, .self = &i};
        int r = ledger_search(&search, w, problem);
        i.w = w;
        i.problem = problem;
        if (r == OK)
                r = migrate(&i);
        if (r == OK)
                tell(&i, user, ret);
        i.conn = mysql_conn_free(i.conn);
        buf_release(&i.sql);
        return r;
}
