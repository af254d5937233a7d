/* A program that uses sql/mysql.h, told line by line what to do; mysql_conn.py is the other end.
 *
 *      mysql_shell HOST PORT USER PASSWORD DATABASE
 *
 *      connect MS          mysql_conn_connect, within so many ms
 *      run MS SQL          mysql_conn_run
 *      text MS HEX         runs SELECT HEX('...') with those bytes put in by mysql_put_text
 *      name MS HEX         runs SELECT * FROM `...`, as it is put in by mysql_put_name
 *      pair MS SQL         runs it, and takes two cells of each row, whatever it has
 *      stop                makes stop_fd readable
 *
 * Each is answered with: error name, the server's number, whether it is open, affected, insert_id,
 * problem, and the rows ("1,NULL;2,x"), separated by tabs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "sql/mysql.h"

#define BYTES_MAX 4096

static int stop_fd;

static struct sql_wait within(int64_t ms)
{
        return (struct sql_wait){stop_fd, clock_boot_ns() + ms * NS_PER_MS, ms};
}

static void tell_rows(struct mysql_result *r, size_t n)
{
        struct slice cells[MYSQL_COLUMNS_MAX];
        for (uint64_t i = 0; mysql_result_next(r, cells, n); i++)
                for (size_t k = 0; k < n; k++)
                        printf("%s%.*s",
                               k   ? ","
                               : i ? ";"
                                   : "",
                               cells[k].ptr ? (int)cells[k].len : 4,
                               cells[k].ptr ? cells[k].ptr : "NULL");
}

/* n_cells: of each row; 0: all. */
static void run(struct mysql_conn *c, struct slice sql, size_t n_cells, int64_t ms)
{
        static struct mysql_result result; /* the one before is released by the next run */
        struct problem problem = {0};
        struct sql_wait w = within(ms);
        int r = mysql_conn_run(c, sql, &w, &result, &problem);
        printf("%s\t%u\t%d\t%" PRIu64 "\t%" PRIu64 "\t%s\t", err_name(r), mysql_conn_errno(c),
               mysql_conn_is_open(c), result.affected, result.insert_id, problem.detail);
        tell_rows(&result, n_cells ? n_cells : result.n_columns);
        mysql_result_release(&result);
}

static void put_and_run(struct mysql_conn *c, bool is_name, const char *hex, int64_t ms)
{
        uint8_t bytes[BYTES_MAX];
        struct buf sql = {0};
        size_t n = strlen(hex) / 2;
        if (n > sizeof(bytes) || !slice_to_hex_bytes(slice_str(hex), bytes, n))
                exit(2);
        if (is_name) {
                buf_put_str(&sql, "SELECT * FROM ");
                mysql_put_name(&sql, slice_make(bytes, n));
        } else {
                buf_put_str(&sql, "SELECT HEX(");
                mysql_put_text(&sql, slice_make(bytes, n));
                buf_put_byte(&sql, ')');
        }
        run(c, buf_slice(&sql), 0, ms);
        buf_release(&sql);
}

static void obey(struct mysql_conn *c, const char *line)
{
        struct problem problem = {0};
        char *end;
        const char *space = strchr(line, ' ');
        int64_t ms = space ? strtoll(space, &end, 10) : 0;
        const char *rest = space && *end ? end + 1 : "";
        struct sql_wait w = within(ms);
        if (strncmp(line, "connect ", 8) == 0) {
                int r = mysql_conn_connect(c, &w, &problem);
                printf("%s\t%u\t%d\t0\t0\t%s\t", err_name(r), mysql_conn_errno(c),
                       mysql_conn_is_open(c), problem.detail);
        } else if (strncmp(line, "run ", 4) == 0) {
                run(c, slice_str(rest), 0, ms);
        } else if (strncmp(line, "pair ", 5) == 0) {
                run(c, slice_str(rest), 2, ms);
        } else if (strncmp(line, "text ", 5) == 0 || strncmp(line, "name ", 5) == 0) {
                put_and_run(c, line[0] == 'n', rest, ms);
        } else if (strcmp(line, "stop") == 0) {
                uint64_t one = 1;
                if (write(stop_fd, &one, sizeof(one)) != sizeof(one))
                        exit(2);
                printf("OK\t0\t%d\t0\t0\t\t", mysql_conn_is_open(c));
        }
        printf("\n");
        (void)fflush(stdout);
}

int main(int argc, char **argv)
{
        char *line = NULL;
        size_t size = 0;
        ssize_t n;
        if (argc != 6)
                return 2;
        struct sql_login login = {
                .server = {.host = argv[1], .port = (int)strtol(argv[2], NULL, 10)},
                .user = argv[3],
                .password = argv[4],
                .database = *argv[5] ? argv[5] : NULL,
                .tls = {.mode = SQL_TLS_PREFER}};
        stop_fd = eventfd(0, EFD_CLOEXEC);
        struct mysql_conn *c = mysql_conn_new(&login);
        while ((n = getline(&line, &size, stdin)) > 0) {
                line[n - 1] = '\0';
                obey(c, line);
        }
        free(line);
        (void)close(stop_fd);
        (void)mysql_conn_free(c);
        return 0;
}
