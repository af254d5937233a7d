/* Locks in the options table of a site; see the header for the form of a row.
 *
 * Taking is one statement: INSERT ... ON DUPLICATE KEY UPDATE, which replaces the value only when
 * it has expired.  There is no moment between a look and a write, and the only clock is that of the
 * database.  Whose lock it is afterwards says the row itself, which is read back: the number of
 * changed rows means different things to different clients.
 *
 * The fence of a grant is the larger of the old fence plus one and the microseconds of the
 * database's clock.  So it grows also when a person deleted or emptied the row.
 *
 * Rows are emptied and never deleted: WordPress may have cached that an option exists, and then its
 * own update of a deleted one writes nothing.
 *
 * No statement waits for a row lock (see store.h).  A competitor's statement holds one for about a
 * millisecond, so a refused statement is tried again a few times before the client is told. */
#include "guard/option_lock.h"

#include "base/clock.h"
#include "base/shown.h"
#include "sql/wait.h"

#define TRIES       12    /* of a statement that met a row lock */
#define TRY_WAIT_MS 8     /* at most, before the next; in all less than 0.1 s */
#define LIST_ROWS   10000 /* rows that a list looks at; free ones stay for ever */
#define TOKEN_LEN   32

/* What a value must look like.  The same text is in integrations/wordpress/weir.php. */
#define FORM  "option_value REGEXP '^[0-9]{1,18}[|][0-9]{1,12}[|]([0-9a-f]{32})?[|]'"
#define FENCE "IF(" FORM ", CAST(SUBSTRING_INDEX(option_value, '|', 1) AS UNSIGNED), 0)"
#define EXPIRY                                                                                     \
        "IF(" FORM                                                                                 \
        ", CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(option_value, '|', 2), '|', -1) AS UNSIGNED), 0)"
#define TOKEN "SUBSTRING_INDEX(SUBSTRING_INDEX(option_value, '|', 3), '|', -1)"
/* The key may contain bars itself: it is what follows the third. */
#define KEY "SUBSTRING(option_value, CHAR_LENGTH(SUBSTRING_INDEX(option_value, '|', 3)) + 2)"
#define COLUMNS                                                                                    \
        FENCE " AS fence, IF(" EXPIRY " >= UNIX_TIMESTAMP(), " EXPIRY ", 0) AS expiry, " TOKEN     \
              ", " KEY " AS lock_key, UNIX_TIMESTAMP()"
#define N_COLUMNS 5
#define CLOCK_US  "(UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6)))"

/* ---- checks ---- */

static int check_key(struct site_request *q)
{
        if (q->key.len < 1 || q->key.len > OPTION_LOCK_KEY_MAX)
                return problem_set(&q->problem, ERR_BADARG,
                                   "the key of a lock must have 1 to %d bytes, not %zu",
                                   OPTION_LOCK_KEY_MAX, q->key.len);
        if (!slice_is_utf8(q->key))
                return problem_set(&q->problem, ERR_BADARG,
                                   "the key of a lock must be UTF-8, and '%s' is not",
                                   SHOWN(q->key));
        return OK;
}

static int check_token(struct site_request *q)
{
        uint8_t bytes[TOKEN_LEN / 2];

        if (!slice_to_hex_bytes(q->token, bytes, sizeof(bytes)))
                return problem_set(&q->problem, ERR_BADARG,
                                   "the token of a lock must be %d hex digits, not '%s'", TOKEN_LEN,
                                   SHOWN(q->token));
        return OK;
}

static int check_ttl(struct site_request *q)
{
        if (q->ttl_s < 1 || q->ttl_s > OPTION_LOCK_TTL_MAX_S)
                return problem_set(&q->problem, ERR_BADARG,
                                   "the ttl of a lock must be 1 to %d seconds, not %lld",
                                   OPTION_LOCK_TTL_MAX_S, (long long)q->ttl_s);
        return OK;
}

/* ---- statements ---- */

/* The name of the row.  The database makes the MD5, of the same bytes as PHP. */
static void put_name(struct buf *sql, const struct site_request *q)
{
        buf_put_str(sql, "CONCAT('weir_lock_', MD5(");
        mysql_put_text(sql, q->key);
        buf_put_str(sql, "))");
}

/* "|EXPIRY|TOKEN|KEY" as the rest of a CONCAT. */
static void put_rest(struct buf *sql, const struct site_request *q)
{
        buf_printf(sql, "'|', UNIX_TIMESTAMP() + %lld, '|', LOWER(", (long long)q->ttl_s);
        mysql_put_text(sql, q->token);
        buf_put_str(sql, "), '|', ");
        mysql_put_text(sql, q->key);
}

static void put_take(struct store *s, const struct site_request *q)
{
        struct buf *sql = &s->sql;

        buf_printf(sql, "INSERT INTO %s (option_name, option_value, autoload) VALUES (",
                   s->wp_options);
        put_name(sql, q);
        buf_put_str(sql, ", CONCAT(" CLOCK_US ", ");
        put_rest(sql, q);
        buf_put_str(sql, "), 'no') ON DUPLICATE KEY UPDATE option_value = IF(" EXPIRY
                         " < UNIX_TIMESTAMP(), CONCAT(GREATEST(" FENCE " + 1, " CLOCK_US "), ");
        put_rest(sql, q);
        buf_put_str(sql, "), option_value)");
}

/* Only while the token holds it: one that has expired may be another's already. */
static void put_renew(struct store *s, const struct site_request *q)
{
        struct buf *sql = &s->sql;

        buf_printf(sql, "UPDATE %s SET option_value = CONCAT(" FENCE ", ", s->wp_options);
        put_rest(sql, q);
        buf_put_str(sql, ") WHERE option_name = ");
        put_name(sql, q);
        buf_put_str(sql, " AND " EXPIRY " >= UNIX_TIMESTAMP() AND " TOKEN " = ");
        mysql_put_text(sql, q->token);
}

static void put_release(struct store *s, const struct site_request *q)
{
        struct buf *sql = &s->sql;

        buf_printf(sql, "UPDATE %s SET option_value = CONCAT(" FENCE ", '|0||', ", s->wp_options);
        mysql_put_text(sql, q->key);
        buf_put_str(sql, ") WHERE option_name = ");
        put_name(sql, q);
        buf_put_str(sql, " AND " EXPIRY " >= UNIX_TIMESTAMP()");
        if (!q->is_forced) {
                buf_put_str(sql, " AND " TOKEN " = ");
                mysql_put_text(sql, q->token);
        }
}

/* Runs what `put` writes, again after a short wait when it met a row lock. */
static int run_patiently(struct store *s, struct site_request *q,
                         void (*put)(struct store *, const struct site_request *),
                         uint64_t *ret_affected)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        int err = ERR_LOCKED;

        for (int i = 0; err == ERR_LOCKED && i < TRIES; i++) {
                if (i) {
                        int64_t ns = (int64_t)rng_below(&s->rng, TRY_WAIT_MS * NS_PER_MS) + 1;
                        struct sql_wait w = {s->stop_fd, clock_boot_ns() + ns, TRY_WAIT_MS};
                        if (wait_for(&w, -1, 0, NULL) == ERR_STOPPING)
                                return problem_set(&q->problem, ERR_STOPPING, "weir is stopping");
                }
                put(s, q);
                err = store_run(s, &r, &q->problem);
        }
        if (err == ERR_LOCKED)
                return problem_set(&q->problem, err,
                                   "other clients keep the row of this lock busy; try again");
        *ret_affected = err ? 0 : r.affected;
        return err;
}

/* ---- rows ---- */

static int take_row(struct site_request *q, const struct slice *cells, struct site_lock *ret)
{
        bool is_known;

        *ret = (struct site_lock){.key = arena_copy(&q->arena, cells[3])};
        if (!slice_to_u64(cells[0], &ret->fence))
                ret->fence = 0;
        if (!slice_to_i64(cells[1], &ret->expires_s))
                ret->expires_s = 0;
        is_known = ret->expires_s && q->token.len && slice_eq_nocase(cells[2], q->token);
        if (is_known)
                ret->token = arena_copy(&q->arena, cells[2]);
        return ret->key.ptr && (!is_known || ret->token.ptr) ? OK : ERR_NOMEM;
}

/* The lock of q->key as the only one of q->locks; *ret_now_s: the database's clock.  A lock without
 * a row, or with a value of no known form, is free. */
static int read_row(struct store *s, struct site_request *q, int64_t *ret_now_s)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[N_COLUMNS];
        int err;

        buf_put_str(&s->sql, "SELECT " COLUMNS);
        buf_printf(&s->sql, " FROM %s WHERE option_name = ", s->wp_options);
        put_name(&s->sql, q);
        err = store_run(s, &r, &q->problem);
        if (err)
                return err;
        q->locks = arena_alloc(&q->arena, sizeof(*q->locks));
        if (!q->locks)
                return ERR_NOMEM;
        q->n_locks = 1;
        *q->locks = (struct site_lock){0};
        if (mysql_result_next(&r, cells, N_COLUMNS)) {
                if (!slice_to_i64(cells[4], ret_now_s))
                        *ret_now_s = 0;
                err = take_row(q, cells, q->locks);
        }
        q->locks->key = q->key; /* the row may have none */
        return err;
}

static bool is_ours(const struct site_request *q)
{
        return q->n_locks && q->locks->expires_s && q->locks->token.len;
}

/* ---- requests ---- */

int option_lock_take(struct store *s, struct site_request *q)
{
        uint64_t n;
        int64_t now_s = 0;
        int err = check_key(q);

        if (!err)
                err = check_token(q);
        if (!err)
                err = check_ttl(q);
        if (!err)
                err = run_patiently(s, q, put_take, &n);
        if (!err)
                err = read_row(s, q, &now_s);
        /* It was ours before: the statement left it as it was. */
        if (!err && is_ours(q) && q->locks->expires_s != now_s + q->ttl_s) {
                err = run_patiently(s, q, put_renew, &n);
                if (!err)
                        err = read_row(s, q, &now_s);
        }
        q->is_granted = !err && is_ours(q);
        return err;
}

int option_lock_release(struct store *s, struct site_request *q)
{
        uint64_t n = 0;
        int64_t now_s;
        int err = check_key(q);

        if (!err && !q->is_forced)
                err = check_token(q);
        /* A matching row always changes, so its count is the same for every client. */
        if (!err)
                err = run_patiently(s, q, put_release, &n);
        if (!err)
                err = read_row(s, q, &now_s);
        q->is_granted = !err && n > 0;
        return err;
}

/* Held locks first.  Rows of another form are left out: they have no key. */
int option_lock_list(struct store *s, struct site_request *q)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[N_COLUMNS];
        int err;

        buf_printf(&s->sql,
                   "SELECT " COLUMNS " FROM (SELECT option_value FROM %s WHERE option_name LIKE "
                   "'weir\\_lock\\_%%' ORDER BY option_name LIMIT %d) AS o WHERE " FORM
                   " ORDER BY expiry > 0 DESC, lock_key LIMIT %u",
                   s->wp_options, LIST_ROWS, q->limit + 1);
        err = store_run(s, &r, &q->problem);
        if (err)
                return err;
        q->locks = arena_array(&q->arena, r.n_rows + 1, sizeof(*q->locks));
        if (!q->locks)
                return ERR_NOMEM;
        while (!err && q->n_locks < q->limit && mysql_result_next(&r, cells, N_COLUMNS)) {
                err = take_row(q, cells, &q->locks[q->n_locks]);
                q->n_locks += !err;
        }
        q->has_more = r.n_rows > q->limit;
        return err;
}
