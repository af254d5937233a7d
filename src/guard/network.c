/* See network.h.
 *
 * Tables come first: a network may have thousands of blogs of which a few have Action Scheduler,
 * and the names of its tables are in the dictionary of the server.  That shows only tables that the
 * user has a privilege on.  Where privileges are given table by table, a blog that is new is
 * therefore not seen: one statement on the tables of the first open blog that was not seen tells
 * whether they are not there or not allowed, and then a person is told the GRANT.
 *
 * The columns of the table of blogs have had several types (enum '0', '1'; tinyint), so they are
 * compared as text. */
#include "guard/network.h"

#include <stdio.h>
#include <string.h>

#define TABLE_TAIL "_actionscheduler_actions"

static void put_blogs_table(const struct store *s, struct buf *sql)
{
        struct buf name CLEANUP(buf_release) = {0};
        buf_printf(&name, "%sblogs", s->options->prefix);
        mysql_put_name(sql, buf_slice(&name));
}

/* As the pattern of a LIKE: _ would be any character. */
static void put_like(struct buf *sql, const char *text)
{
        for (; *text; text++)
                buf_printf(sql, "%s%c", *text == '_' ? "\\" : "", *text);
}

/* "wp_7_actionscheduler_actions" -> 7; 0: it is none of a blog.  WordPress writes no zero first. */
static uint32_t blog_of_table(const struct store *s, struct slice table)
{
        size_t head = strlen(s->options->prefix), tail = strlen(TABLE_TAIL);
        uint64_t id;
        if (table.len <= head + tail || table.len > head + tail + NETWORK_ID_DIGITS ||
            memcmp(table.ptr, s->options->prefix, head) != 0 ||
            memcmp(table.ptr + table.len - tail, TABLE_TAIL, tail) != 0)
                return 0;
        struct slice number = {table.ptr + head, table.len - head - tail};
        bool is_id =
                number.ptr[0] != '0' && slice_to_u64(number, &id) && id > 1 && id <= UINT32_MAX;
        return is_id ? (uint32_t)id : 0;
}

/* All of them closed, until the table of blogs says otherwise: a blog whose row is gone is deleted.
 */
static int read_tables(struct store *s, struct network_blogs *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        buf_put_str(&s->sql, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA ="
                             " DATABASE() AND TABLE_NAME LIKE '");
        put_like(&s->sql, s->options->prefix);
        buf_put_str(&s->sql, "%");
        put_like(&s->sql, TABLE_TAIL);
        buf_printf(&s->sql, "' ORDER BY LENGTH(TABLE_NAME), TABLE_NAME LIMIT %d",
                   NETWORK_BLOGS_MAX);
        int r = store_run(s, &rows, problem);
        while (r == OK && ret->n < NETWORK_BLOGS_MAX && mysql_result_next(&rows, &cell, 1)) {
                uint32_t id = blog_of_table(s, cell);
                if (id)
                        ret->blogs[ret->n++] = (struct network_blog){.id = id};
        }
        return r;
}

static void put_is_open(struct buf *sql)
{
        buf_put_str(sql, "archived = '0' AND deleted = '0' AND spam = '0'");
}

static void put_ids(struct buf *sql, const struct network_blogs *b)
{
        buf_put_str(sql, "(1");
        for (size_t i = 0; i < b->n; i++)
                buf_printf(sql, ",%lu", (unsigned long)b->blogs[i].id);
        buf_put_byte(sql, ')');
}

static int read_open(struct store *s, struct network_blogs *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        size_t at = 0;
        buf_put_str(&s->sql, "SELECT blog_id FROM ");
        put_blogs_table(s, &s->sql);
        buf_put_str(&s->sql, " WHERE ");
        put_is_open(&s->sql);
        buf_put_str(&s->sql, " AND blog_id IN ");
        put_ids(&s->sql, ret);
        buf_put_str(&s->sql, " ORDER BY blog_id");
        int r = store_run(s, &rows, problem);
        while (r == OK && mysql_result_next(&rows, &cell, 1)) {
                uint64_t id = 0;
                (void)slice_to_u64(cell, &id); /* no number: no blog */
                while (at < ret->n && ret->blogs[at].id < id)
                        at++;
                if (at < ret->n && ret->blogs[at].id == id)
                        ret->blogs[at].is_open = true;
        }
        return r;
}

/* The first open blog of which no table was seen; 0: there is none. */
static int read_unseen(struct store *s, const struct network_blogs *b, uint64_t *ret,
                       struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        *ret = 0;
        buf_put_str(&s->sql, "SELECT blog_id FROM ");
        put_blogs_table(s, &s->sql);
        buf_put_str(&s->sql, " WHERE ");
        put_is_open(&s->sql);
        buf_put_str(&s->sql, " AND blog_id NOT IN ");
        put_ids(&s->sql, b);
        buf_put_str(&s->sql, " ORDER BY blog_id LIMIT 1");
        int r = store_run(s, &rows, problem);
        if (r == OK && mysql_result_next(&rows, &cell, 1) && !slice_to_u64(cell, ret))
                *ret = 0;
        return r;
}

static int look_at_unseen(struct store *s, uint64_t id, struct network_blogs *ret)
{
        struct mysql_result none CLEANUP(mysql_result_release) = {0};
        struct problem problem = {0};
        struct buf table CLEANUP(buf_release) = {0}, grant CLEANUP(buf_release) = {0};
        buf_printf(&table, "`%s%llu%s`", s->options->prefix, (unsigned long long)id, TABLE_TAIL);
        buf_printf(&s->sql, "SELECT 1 FROM %s LIMIT 0", buf_cstr(&table));
        int r = store_run(s, &none, &problem);
        if (r != ERR_FORBIDDEN)
                return mysql_conn_is_open(s->conn) ? OK : r;
        store_put_grant(s, "SELECT", buf_cstr(&table), &grant);
        (void)snprintf(ret->notice, sizeof(ret->notice),
                       "Blog %llu of the network, and perhaps others, is not guarded: weir may not "
                       "see whether it has Action Scheduler. If it has, begin with: %s",
                       (unsigned long long)id, buf_cstr(&grant));
        return OK;
}

void network_put_grant(const struct store *s, struct buf *ret)
{
        struct buf table CLEANUP(buf_release) = {0};
        put_blogs_table(s, &table);
        store_put_grant(s, "SELECT", buf_cstr(&table), ret);
}

/* What a person can change is told, and the connection goes on. */
static int refused(struct store *s, int err, struct network_blogs *ret, const char *why)
{
        struct buf grant CLEANUP(buf_release) = {0};
        if (!mysql_conn_is_open(s->conn))
                return err;
        network_put_grant(s, &grant);
        ret->is_refused = err == ERR_FORBIDDEN;
        if (ret->is_refused)
                (void)snprintf(ret->notice, sizeof(ret->notice),
                               "The blogs of the network are not found, a privilege is missing; "
                               "run: %s",
                               buf_cstr(&grant));
        else if (err == ERR_NOTFOUND)
                (void)snprintf(ret->notice, sizeof(ret->notice),
                               "There is no table %sblogs: this WordPress is no network, or the "
                               "prefix is not that of its main site.",
                               s->options->prefix);
        else
                (void)snprintf(ret->notice, sizeof(ret->notice),
                               "The blogs of the network are not found: %s", why);
        return OK;
}

int network_read(struct store *s, struct network_blogs *ret, struct problem *problem)
{
        uint64_t unseen = 0;
        ret->n = 0;
        ret->is_known = ret->is_refused = false;
        ret->notice[0] = '\0';
        int r = read_tables(s, ret, problem);
        if (r == OK)
                r = read_open(s, ret, problem);
        if (r == OK)
                r = read_unseen(s, ret, &unseen, problem);
        if (r != OK)
                return refused(s, r, ret, problem->detail);
        ret->is_known = true;
        return unseen ? look_at_unseen(s, unseen, ret) : OK;
}
