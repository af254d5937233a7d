/* The probes without the rest: to check a configuration, credentials and privileges before weir
 * relies on them.  The same threads and the same settings as `weir serve` uses; nothing else of it
 * is started, and nothing is written. */
#include "serve/probe_command.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/plural.h"
#include "cli/options.h"
#include "cli/screen.h"
#include "cli/text.h"
#include "serve/config.h"
#include "wire/json.h"

static const char usage[] = "usage: weir probe -c FILE [--once | --watch] [--json] [TARGET]\n"
                            "\n"
                            "Asks every metric of the targets in a configuration file.\n"
                            "\n"
                            "  -c, --config FILE   the configuration of weir\n"
                            "      --once          each metric once, as a table (default)\n"
                            "      --watch         every sample as it comes, until interrupted\n"
                            "      --json          JSON; with --watch one object a line\n"
                            "\n"
                            "Exits with 7 when a metric could not be read.\n";

#define SAMPLES_AT_ONCE 64
#define EXTRA_MS        1000 /* for a thread that is late */

struct asked {
        const char *config, *target;
        bool is_watch, is_json, is_help;
};

struct shown {
        const struct config_targets *targets;
        const struct asked *asked;
        struct probe *probe;
        int news_fd;
        int end_fd; /* readable when it is time to end: commands that run must not be left behind */
        size_t first, n; /* of the targets that are asked */
        /* The last sample of each metric; at_ns 0: none yet. */
        struct probe_sample (*samples)[PROBE_METRICS_MAX];
};

static int parse(int argc, char **argv, struct asked *ret, struct problem *problem)
{
        for (int i = 1; i < argc; i++) {
                const char *word = argv[i];
                if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
                        ret->is_help = true;
                else if (strcmp(word, "--once") == 0)
                        ret->is_watch = false;
                else if (strcmp(word, "--watch") == 0)
                        ret->is_watch = true;
                else if (strcmp(word, "--json") == 0)
                        ret->is_json = true;
                else if (strncmp(word, "--config=", 9) == 0)
                        ret->config = word + 9;
                else if ((strcmp(word, "-c") == 0 || strcmp(word, "--config") == 0) && i + 1 < argc)
                        ret->config = argv[++i];
                else if (word[0] == '-' || ret->target)
                        return problem_set(problem, ERR_SYNTAX, "'%s' is not understood", word);
                else
                        ret->target = word;
        }
        if (!ret->config && !ret->is_help)
                return problem_set(problem, ERR_SYNTAX, "which configuration?  Say -c FILE");
        return OK;
}

static void on_news(void *ctx)
{
        uint64_t one = 1;
        const struct shown *s = ctx;
        if (write(s->news_fd, &one, sizeof(one)) < 0)
                ASSERT(errno == EAGAIN); /* it knows */
}

/* ---- JSON ---- */

static void put_json(const struct shown *s, const struct probe_sample *sample, struct buf *b)
{
        const struct probe_options *o = &s->targets->probes[s->first + sample->target];
        buf_put_byte(b, '{');
        json_put_key(b, "target");
        json_put_text_lossy(b, slice_str(o->name));
        json_put_key(b, "kind");
        json_put_text(b, slice_str(probe_kind_name(o->kind)));
        json_put_key(b, "metric");
        json_put_text_lossy(b, slice_str(o->metrics[sample->metric].name));
        json_put_key(b, "value");
        if (sample->is_error || !sample->at_ns)
                buf_put_str(b, "null");
        else
                buf_printf(b, "%.10g", sample->value);
        json_put_key(b, "age_ms");
        buf_put_i64(b, sample->at_ns ? (clock_boot_ns() - sample->at_ns) / NS_PER_MS : -1);
        json_put_key(b, "error");
        if (sample->is_error)
                json_put_text_lossy(b, slice_str(sample->error));
        else
                buf_put_str(b, "null");
        json_put_key(b, "note");
        if (!sample->is_error && sample->error[0])
                json_put_text_lossy(b, slice_str(sample->error));
        else
                buf_put_str(b, "null");
        json_put_key(b, "tls");
        if (sample->tls[0])
                json_put_text(b, slice_str(sample->tls));
        else
                buf_put_str(b, "null");
        buf_put_byte(b, '}');
}

static bool print(struct buf *b)
{
        bool is_fine = fwrite(b->ptr, 1, b->len, stdout) == b->len && fflush(stdout) == 0;
        buf_clear(b);
        return is_fine;
}

/* ---- text ---- */

static void number_put(char *ret, size_t size, double value)
{
        (void)snprintf(ret, size, isnan(value) ? "-" : "%.4g", value);
}

static void thresholds_put(char *ret, size_t size, const struct level_rule *rule, int level)
{
        char enter[32], leave[32];
        number_put(enter, sizeof(enter), rule->enter[level]);
        number_put(leave, sizeof(leave), rule->exit[level]);
        (void)snprintf(ret, size, isnan(rule->enter[level]) ? "-" : "%s/%s", enter, leave);
}

static void add_row(const struct shown *s, const struct probe_sample *sample, struct table *table)
{
        size_t index = s->first + sample->target;
        const struct probe_options *o = &s->targets->probes[index];
        const struct config_target *level = &s->targets->levels[index];
        struct level_rule rule = level->rules[sample->metric];
        char text[80];
        enum tone tone = sample->is_error || !sample->at_ns ? TONE_RED : TONE_PLAIN;
        if (!level->is_any_written[sample->metric] &&
            config_is_by_cores(o->kind, &o->metrics[sample->metric]))
                level_rule_scale(&rule, sample->cores);
        table_add(table, slice_str(o->name), TONE_PLAIN);
        table_add(table, slice_str(o->metrics[sample->metric].name), TONE_PLAIN);
        if (tone == TONE_RED)
                (void)snprintf(text, sizeof(text), "?");
        else
                number_put(text, sizeof(text), sample->value);
        table_add(table, slice_str(text), tone);
        for (int i = 0; i < 2; i++) {
                if (level->is_auto[sample->metric][i])
                        (void)snprintf(text, sizeof(text), "auto");
                else
                        thresholds_put(text, sizeof(text), &rule, i);
                table_add(table, slice_str(text), TONE_DIM);
        }
        if (sample->at_ns)
                (void)duration_words((clock_boot_ns() - sample->at_ns) / NS_PER_MS, text);
        table_add(table, slice_str(sample->at_ns ? text : "-"), TONE_DIM);
        table_add(table, slice_str(sample->at_ns ? sample->error : "nothing came"), tone);
}

static const struct column columns[] = {
        {.title = "TARGET"},
        {.title = "METRIC"},
        {"VALUE", .is_right = true},
        {"ELEVATED", .is_right = true},
        {"CRITICAL", .is_right = true},
        {"AGE", .is_right = true},
        {"NOTE", .may_shrink = true},
};

static void put_line(const struct shown *s, const struct probe_sample *sample, struct buf *b)
{
        const struct probe_options *o = &s->targets->probes[s->first + sample->target];
        char when[CLOCK_TEXT_SIZE], value[32];
        number_put(value, sizeof(value), sample->value);
        buf_printf(b, "%s  ", clock_text(clock_wall_ms(), when));
        text_put_safe(b, slice_str(o->name));
        buf_put_str(b, "  ");
        text_put_safe(b, slice_str(o->metrics[sample->metric].name));
        buf_printf(b, "  %s%s", sample->is_error ? "?" : value, sample->error[0] ? "  " : "");
        text_put_safe(b, slice_str(sample->error));
        buf_put_byte(b, '\n');
}

/* ---- once ---- */

static bool is_complete(const struct shown *s)
{
        for (size_t i = 0; i < s->n; i++)
                for (size_t k = 0; k < s->targets->probes[s->first + i].n_metrics; k++)
                        if (!s->samples[i][k].at_ns)
                                return false;
        return true;
}

/* Every metric has had its turn by then: a rate needs two, and each may use all its time. */
static int64_t longest_ms(const struct shown *s)
{
        int64_t ms = 0;
        for (size_t i = 0; i < s->n; i++) {
                const struct probe_options *o = &s->targets->probes[s->first + i];
                int64_t all = 2 * o->timeout_ms + o->interval_ms + EXTRA_MS;
                ms = all > ms ? all : ms;
        }
        return ms;
}

/* False at the end. */
static bool wait_for_news(const struct shown *s, int64_t until_ns)
{
        struct pollfd fds[] = {{.fd = s->news_fd, .events = POLLIN},
                               {.fd = s->end_fd, .events = POLLIN}};
        int64_t left_ms = until_ns == INT64_MAX ? -1 : (until_ns - clock_boot_ns()) / NS_PER_MS;
        uint64_t unused;
        if (left_ms < 0 && until_ns != INT64_MAX)
                return false;
        int n = poll(fds, ARRAY_LEN(fds), (int)left_ms);
        ASSERT(n >= 0 || errno == EINTR);
        if (n > 0 && fds[1].revents)
                return false;
        if (n > 0 && read(s->news_fd, &unused, sizeof(unused)) < 0)
                ASSERT(errno == EAGAIN);
        return n != 0;
}

static int show_once(struct shown *s, struct problem *problem)
{
        struct probe_sample some[SAMPLES_AT_ONCE];
        int64_t until_ns = clock_boot_ns() + longest_ms(s) * NS_PER_MS;
        while (!is_complete(s) && wait_for_news(s, until_ns))
                for (size_t n; (n = probe_take(s->probe, some, ARRAY_LEN(some)));)
                        for (size_t i = 0; i < n; i++)
                                s->samples[some[i].target][some[i].metric] = some[i];
        struct table table;
        struct screen screen;
        struct buf out;
        size_t bad = 0;
        screen_init(&screen);
        table_init(&table, columns, ARRAY_LEN(columns));
        buf_init(&out, 0);
        buf_put_str(&out, s->asked->is_json ? "{\"metrics\":[" : "");
        for (size_t i = 0; i < s->n; i++) {
                for (size_t k = 0; k < s->targets->probes[s->first + i].n_metrics; k++) {
                        struct probe_sample *sample = &s->samples[i][k];
                        sample->target = i;
                        sample->metric = k;
                        bad += sample->is_error || !sample->at_ns;
                        add_row(s, sample, &table);
                        if (s->asked->is_json) {
                                json_put_comma(&out);
                                put_json(s, sample, &out);
                        }
                }
        }
        if (s->asked->is_json)
                buf_put_str(&out, "]}\n");
        else
                table_print(&table, &screen, &out);
        bool is_fine = print(&out);
        table_release(&table);
        buf_release(&out);
        if (!is_fine)
                return problem_set(problem, ERR_IO, "cannot write to standard output");
        if (bad)
                return problem_set(problem, ERR_UNAVAIL, "%zu %s could not be read", bad,
                                   plural(bad, "metric", "metrics"));
        return OK;
}

static int show_all(struct shown *s, struct problem *problem)
{
        struct probe_sample some[SAMPLES_AT_ONCE];
        struct buf out;
        bool is_fine = true;
        buf_init(&out, 0);
        while (is_fine && wait_for_news(s, INT64_MAX)) {
                probe_asked(s->probe);
                for (size_t n; (n = probe_take(s->probe, some, ARRAY_LEN(some)));) {
                        for (size_t i = 0; i < n && !s->asked->is_json; i++)
                                put_line(s, &some[i], &out);
                        for (size_t i = 0; i < n && s->asked->is_json; i++) {
                                put_json(s, &some[i], &out);
                                buf_put_byte(&out, '\n');
                        }
                }
                is_fine = print(&out);
        }
        buf_release(&out);
        return is_fine ? OK : problem_set(problem, ERR_IO, "cannot write to standard output");
}

/* ---- the command ---- */

static int choose(struct shown *s, const char *name, struct problem *problem)
{
        s->first = 0;
        s->n = s->targets->n;
        if (!s->n)
                return problem_set(problem, ERR_NOTFOUND, "%s has no target", s->asked->config);
        for (size_t i = 0; name && i < s->targets->n; i++) {
                if (strcmp(s->targets->probes[i].name, name) == 0) {
                        s->first = i;
                        s->n = 1;
                        return OK;
                }
        }
        return name ? problem_set(problem, ERR_NOTFOUND, "%s has no target '%s'", s->asked->config,
                                  name)
                    : OK;
}

static int show(const struct asked *asked, const struct config_targets *targets,
                struct problem *problem)
{
        struct shown s = {.targets = targets, .asked = asked};
        int r = choose(&s, asked->target, problem);
        if (r != OK)
                return r;
        sigset_t ends;
        (void)sigemptyset(&ends);
        (void)sigaddset(&ends, SIGINT);
        (void)sigaddset(&ends, SIGTERM);
        (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
        s.end_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
        s.news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (s.news_fd < 0 || s.end_fd < 0)
                r = problem_set(problem, ERR_UNAVAIL, "eventfd: %s", strerror(errno));
        s.samples = xcalloc(s.n, sizeof(*s.samples));
        if (r == OK)
                r = probe_start(targets->probes + s.first, s.n, on_news, &s, &s.probe, problem);
        if (r == OK)
                r = asked->is_watch ? show_all(&s, problem) : show_once(&s, problem);
        s.probe = probe_stop(s.probe);
        free(s.samples);
        if (s.news_fd >= 0)
                (void)close(s.news_fd);
        if (s.end_fd >= 0)
                (void)close(s.end_fd);
        return r;
}

int probe_main(int argc, char **argv)
{
        struct asked asked = {0};
        struct problem problem = {0};
        struct config config;
        int r = parse(argc, argv, &asked, &problem);
        if (asked.is_help && r == OK) {
                fputs(usage, stdout);
                return 0;
        }
        config_init(&config);
        if (r == OK)
                r = config_read_file(&config, asked.config, &problem);
        if (r == OK)
                r = show(&asked, &config.targets, &problem);
        config_release(&config);
        if (r != OK)
                fprintf(stderr, "weir probe: %s\n", problem.detail);
        if (r == ERR_SYNTAX)
                fputs(usage, stderr);
        return err_exit(r);
}
