/* Statements from the command line, from a file or a pipe, or from a person at a prompt.
 *
 * Between two statements the store is closed: a prompt that is left open holds nothing that the
 * server could want.  While the reader of the output is waited for (a pager), it is closed as well.
 *
 * Ctrl-C ends the statement.  At a prompt the next one can be typed; otherwise the process ends by
 * the signal, so that a shell stops its script too. */
#include "serve/history_sql.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plural.h"
#include "base/say.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "history/sql_reader.h"
#include "serve/config.h"
#include "serve/serve.h"
#include "serve/sql_output.h"

#define STATEMENT_BYTES MIB
#define PATH_BYTES      4096

struct shell {
        struct sql_source *source;
        struct sql_reader *reader;
        struct sql_output out;
        bool is_prompt;
        bool is_over; /* .quit was typed */
};

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t is_interrupted;
static struct sql_reader *interruptible; /* set before the handler is, and until the end */

static void note_interrupt(int number)
{
        (void)number;
        is_interrupted = 1;
        sql_reader_stop(interruptible);
}

static void catch_interrupt(struct sql_reader *reader)
{
        const struct sigaction action = {.sa_handler = note_interrupt}; /* reads end with EINTR */
        struct sigaction now;
        interruptible = reader;
        if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
                (void)sigaction(SIGINT, &action, NULL); /* it can be caught */
}

static void end_by_interrupt(void)
{
        (void)signal(SIGINT, SIG_DFL);
        (void)raise(SIGINT);
}

/* ---- statements ---- */

static void tell_damage(void *ctx, const char *what)
{
        (void)ctx;
        fprintf(stderr, "damaged: %s\n", what);
}

static void let_store_go(void *ctx)
{
        sql_source_rest(ctx);
}

static int run_statement(struct shell *s, sqlite3_stmt *stmt, struct problem *p)
{
        int rc, r = OK;
        sql_output_begin(&s->out, stmt);
        while (r == OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
                r = sql_output_row(&s->out, stmt, p);
        if (r == OK && rc != SQLITE_DONE)
                r = sql_reader_fail(s->reader, rc, p);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        sql_source_rest(s->source);
        if (r == OK)
                return sql_output_end(&s->out, p);
        sql_output_break(&s->out);
        return r;
}

static int run_text(struct shell *s, const char *sql, uint64_t line, struct problem *p)
{
        struct sql_script text = {sql, line};
        int r = OK;
        while (r == OK && *text.at) {
                sqlite3_stmt *stmt;
                r = sql_reader_prepare(s->reader, &text, &stmt, p);
                if (r == OK && is_interrupted) {      /* the reader knows of later signals only */
                        (void)sqlite3_finalize(stmt); /* it did not run */
                        return problem_set(p, ERR_STOPPING, "interrupted");
                }
                if (r == OK && stmt)
                        r = run_statement(s, stmt, p);
                if (r == OK && is_interrupted)
                        r = problem_set(p, ERR_STOPPING, "interrupted");
        }
        return r;
}

/* ---- lines ---- */

static void print_tables(void)
{
        for (size_t i = 0; sql_table_name(i); i++) {
                struct buf columns CLEANUP(buf_release) = {0};
                sql_table_put_columns(i, &columns);
                printf("%-10s  %s\n", sql_table_name(i), buf_cstr(&columns));
        }
        (void)fflush(stdout); /* what cannot be written is found with the next rows */
}

static const char help[] =
        ".tables   list the tables and their columns\n"
        ".help     print this text\n"
        ".quit     end; so does Ctrl-D\n"
        "Anything else is SQL, over as many lines as it takes, and ends with a semicolon.\n"
        "Ctrl-C ends a statement that runs. docs/history.md has examples.\n";

static int run_dot(struct shell *s, struct slice line, struct problem *p)
{
        while (line.len && strchr(" \t\r\n;", line.ptr[line.len - 1]))
                line.len--;
        if (slice_eq(line, SLICE_LIT(".tables")))
                print_tables();
        else if (slice_eq(line, SLICE_LIT(".help")))
                fputs(help, stdout);
        else if (slice_eq(line, SLICE_LIT(".quit")) || slice_eq(line, SLICE_LIT(".exit")))
                s->is_over = true;
        else
                return problem_set(p, ERR_SYNTAX,
                                   "unknown command '%s'; there are .tables, .help and .quit",
                                   SHOWN(line));
        return OK;
}

/* What was read of a statement that is not complete. */
struct input {
        struct buf text;
        uint64_t line, lines; /* where it begins, and how many were read */
};

static bool is_blank(struct slice s)
{
        for (size_t i = 0; i < s.len; i++)
                if (!strchr(" \t\r\n", s.ptr[i]) || !s.ptr[i])
                        return false;
        return true;
}

static int take_line(struct shell *s, struct input *in, struct slice line, struct problem *p)
{
        in->lines++;
        if (!in->text.len && is_blank(line))
                return OK;
        if (!in->text.len && line.ptr[0] == '.')
                return run_dot(s, line, p);
        if (memchr(line.ptr, '\0', line.len))
                return problem_set(p, ERR_SYNTAX, "line %llu: SQL has no NUL bytes",
                                   (unsigned long long)in->lines);
        if (!in->text.len)
                in->line = in->lines;
        buf_put_slice(&in->text, line);
        if (in->text.failed)
                return problem_set(p, ERR_TOOBIG, "a statement is longer than %llu bytes",
                                   (unsigned long long)STATEMENT_BYTES);
        if (!sqlite3_complete(buf_cstr(&in->text)))
                return OK;
        int r = run_text(s, buf_cstr(&in->text), in->line, p);
        buf_clear(&in->text);
        return r;
}

static void tell(const struct problem *p)
{
        fprintf(stderr, "weir history sql: %s\n", p->detail);
}

/* A person goes on after an error, a script ends with it. */
static int after_line(struct shell *s, struct input *in, int r, struct problem *p)
{
        if (r == OK || !s->is_prompt || r == ERR_IO)
                return r;
        tell(p);
        buf_clear(&in->text);
        is_interrupted = 0;
        return OK;
}

static void show_prompt(const struct shell *s, const struct input *in)
{
        if (s->is_prompt)
                fputs(in->text.len ? "    ...> " : "history> ", stderr);
}

/* Ctrl-C at a prompt drops what was typed. */
static bool was_dropped(struct shell *s, struct input *in)
{
        if (!s->is_prompt || !is_interrupted)
                return false;
        is_interrupted = 0;
        clearerr(stdin);
        buf_clear(&in->text);
        fputc('\n', stderr);
        return true;
}

/* Until a line can be read, or Ctrl-C.  The signal is let through only while poll waits, so that
 * none comes unnoticed just before a read. */
static void wait_for_line(void)
{
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        sigset_t interrupt, before;
        (void)sigemptyset(&interrupt); /* these three fail only with a wrong number */
        (void)sigaddset(&interrupt, SIGINT);
        (void)pthread_sigmask(SIG_BLOCK, &interrupt, &before);
        if (!is_interrupted)
                (void)ppoll(&in, 1, NULL, &before); /* after an error the read tells more */
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int run_input(struct shell *s, struct problem *p)
{
        struct input in = {.line = 1};
        char *line = NULL;
        size_t room = 0;
        int r = OK;
        buf_init(&in.text, STATEMENT_BYTES);
        while (r == OK && !s->is_over) {
                show_prompt(s, &in);
                if (s->is_prompt)
                        wait_for_line();
                if (was_dropped(s, &in))
                        continue;
                ssize_t n = getline(&line, &room, stdin);
                if (n < 0 && was_dropped(s, &in))
                        continue;
                if (n < 0)
                        break;
                r = after_line(s, &in, take_line(s, &in, slice_make(line, (size_t)n), p), p);
        }
        if (r == OK && is_interrupted)
                r = problem_set(p, ERR_STOPPING, "interrupted");
        else if (r == OK && ferror(stdin))
                r = problem_set(p, ERR_IO, "cannot read the input: %s", strerror(errno));
        else if (r == OK && !s->is_over && s->is_prompt)
                fputc('\n', stderr);
        if (r == OK && !s->is_over && in.text.len) /* the last one needs no semicolon */
                r = run_text(s, buf_cstr(&in.text), in.line, p);
        buf_release(&in.text);
        free(line);
        return r;
}

/* ---- the command ---- */

/* What was asked for. */
struct request {
        const char *place; /* a data folder or a history file */
        const char *sql;   /* NULL: it is read from standard input */
        enum sql_format format;
};

/* A first word is a place when it is there, or when it is no statement: it has no space. */
static bool is_place(const char *word)
{
        struct stat st;
        return stat(word, &st) == 0 || (word[0] && word[0] != '.' && !strpbrk(word, " \t\r\n(;"));
}

static int read_args(const struct args *args, const char *data, struct request *ret,
                     struct problem *p)
{
        const char *const *word = args->positional;
        size_t n = args->n_positional;
        *ret = (struct request){.place = data};
        if (args_has(args, "csv") && args_has(args, "json"))
                return problem_set(p, ERR_SYNTAX,
                                   "--csv and --json exclude each other; give one of them");
        if (args_has(args, "csv") || args_has(args, "json"))
                ret->format = args_has(args, "csv") ? SQL_CSV : SQL_JSON;
        bool is_given = args_has(args, "data") || args_has(args, "config");
        if (n && !is_given && (n > 1 || is_place(word[0]))) {
                ret->place = *word++;
                n--;
        }
        if (n)
                ret->sql = word[0];
        if (n > 1)
                return problem_set(p, ERR_SYNTAX,
                                   "unexpected argument '%s'; put all of the SQL in quotes",
                                   SHOWN_STR(word[1]));
        return OK;
}

/* A folder that is missing, or that has no history. */
static int no_history(const char *place, struct problem *p)
{
        struct stat st;
        const char *what = stat(place, &st) == 0 ? "history.db in the" : "file or";
        return problem_set(p, ERR_NOTFOUND,
                           "there is no %s folder '%s'; name the server's data folder with --data",
                           what, SHOWN_LONG(place));
}

static int open_source(const char *place, struct sql_source **ret, struct problem *p)
{
        char path[PATH_BYTES], log[PATH_BYTES];
        struct stat st;
        bool is_file = stat(place, &st) == 0 && !S_ISDIR(st.st_mode);
        int n = snprintf(path, sizeof(path), is_file ? "%s" : "%s/history.db", place);
        int m = snprintf(log, sizeof(log), "%s/log", place);
        if (n < 0 || n >= (int)sizeof(path) || m < 0 || m >= (int)sizeof(log))
                return problem_set(p, ERR_BADARG, "the path is too long");
        if (access(path, F_OK) != 0 && errno == ENOENT)
                return no_history(place, p);
        return sql_source_open(path, is_file ? NULL : log, ret, p);
}

static int run_shell(struct shell *s, const struct request *req, struct problem *p)
{
        s->is_prompt = !req->sql && isatty(STDIN_FILENO);
        sql_output_init(&s->out, req->format);
        s->out.before_wait = let_store_go;
        s->out.ctx = s->source;
        catch_interrupt(s->reader);
        if (s->is_prompt)
                fprintf(stderr, "weir %s, history of %s; .help explains this prompt\n",
                        WEIR_VERSION, SHOWN_LONG(req->place));
        int r;
        if (!req->sql)
                r = run_input(s, p);
        else if (req->sql[0] == '.')
                r = run_dot(s, slice_str(req->sql), p);
        else
                r = run_text(s, req->sql, 1, p);
        if (r == OK && fflush(stdout) != 0)
                r = problem_set(p, ERR_IO, "cannot write the output: %s", strerror(errno));
        uint64_t n = sql_reader_damaged(s->reader);
        if (r == OK && n)
                r = problem_set(p, ERR_CORRUPT,
                                "%llu damaged %s left out; 'weir history verify' lists all damage",
                                (unsigned long long)n, plural(n, "place was", "places were"));
        sql_output_release(&s->out);
        return r;
}

static int run(const struct args *args, struct problem *p)
{
        struct config config;
        struct request req;
        struct shell s = {0};
        const char *file = args_get(args, "config"), *data = args_get(args, "data");
        config_init(&config);
        int r = file ? config_read_file(&config, file, p) : OK;
        if (data)
                config_set_data(&config, data);
        if (r == OK)
                r = config_finish(&config, p);
        if (r == OK)
                r = read_args(args, config.data, &req, p);
        if (r == OK)
                r = open_source(req.place, &s.source, p);
        if (r == OK)
                r = sql_reader_new(s.source, tell_damage, NULL, &s.reader, p);
        if (r == OK)
                r = run_shell(&s, &req, p);
        if (s.reader)
                (void)signal(SIGINT, SIG_DFL); /* nothing is left to be stopped */
        (void)sql_reader_free(s.reader);
        (void)sql_source_close(s.source);
        config_release(&config);
        return r;
}

int history_sql_main(int argc, char **argv)
{
        struct args args = {0};
        struct problem p = {0};
        say_setup(SAY_NOTHING, false); /* damage is told here, and problems as errors */
        int r = args_parse(&args, cli_history_sql_options, argv + 1, argc - 1, &p);
        if (r == OK && args_has(&args, "help"))
                return cli_help("history", "sql");
        if (r == OK)
                r = run(&args, &p);
        if (r != OK)
                tell(&p);
        if (r == ERR_STOPPING)
                end_by_interrupt();
        return err_exit(r);
}
