/* Lets guard_store.py call guard/store.h on a real database: a line of words is one call.
 *
 *      open MODE                       facts
 *      survey HORIZON                  numbers, then a line for each hook
 *      due HOOK BY MAX NOT_BEFORE      reads actions and keeps them: "id original current is_async"
 *      move TO                         moves those; how many
 *      keep DATE                       of those: the ids that have the date
 *      shift TO FROM FROM              the same rows again
 *      return FROM FROM
 *      log MESSAGE...                  a line for each of them
 *      log_returned MESSAGE...         the same for those that have a line of a move
 *      find HOOK...                    those of the critical tier that are due, and their ledger
 *      pace HOOK...                    of runners; HOOK: at most eight
 *      grants MODE, missing MODE       statements
 *      reached                         rows_at_once and n_statements
 *
 * With a line of JSON as the answer, "-" for an empty word, and keys in hex:
 *
 *      repair MODE CALM R1...R8 [HOOK...]   a survey and its repairs; R: the modes of the repairs,
 *                                      HOOK: at most two of the critical tier
 *      ledger [ID...]                  what the loop has in its ledger, as repairs ask it
 *      purge MODE CALM RETENTION       a slice, whenever the next may begin
 *      report
 *      actions STATUS HOOK BELOW LIMIT [ID...]
 *      action ID
 *      locks LIMIT
 *      lock KEY TOKEN TTL
 *      unlock KEY TOKEN                TOKEN "force": whoever holds it
 *
 * Each answer ends with a line "= OK", or "= " and the name and the detail of the error. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "guard/store.h"

static struct store store;
static struct site_due_row due[SITE_ROWS_MAX];
static struct site_row rows[SITE_ROWS_MAX];
static size_t n_due;

static enum gate_mode mode_of(const char *name)
{
        return (enum gate_mode)mode_from_name(slice_str(name));
}

static int64_t number(char **rest)
{
        return strtoll(*rest, rest, 10);
}

static int run_open(char *rest, struct problem *p)
{
        const struct store_facts *f = &store.facts;
        int r = store_open(&store, mode_of(rest), p);
        if (r == OK)
                (void)printf("%s|%s|%s|%d|%d|%d|%s|%c\n", f->server, f->schema, f->url,
                             f->has_priority, f->has_unique_key, f->is_migrated, f->hook_index,
                             f->lowest);
        return r;
}

static int run_survey(char *rest, struct problem *p)
{
        struct site_survey v = {0};
        int r = store_survey(&store, number(&rest), &v, p);
        if (r == OK)
                (void)printf("%lld %lld %u %u %u %lld %d %u\n", (long long)v.now_s,
                             (long long)v.took_us, v.claimed, v.running, v.failed,
                             (long long)v.next_due_s, v.are_hooks_cut, v.due_cap);
        for (size_t i = 0; r == OK && i < v.n_hooks; i++)
                (void)printf("%.*s\t%u\t%u\t%lld\n", (int)v.hooks[i].hook.len, v.hooks[i].hook.ptr,
                             v.hooks[i].due, v.hooks[i].running,
                             (long long)v.hooks[i].oldest_due_s);
        arena_release(&v.arena);
        return r;
}

static int run_due(char *rest, struct problem *p)
{
        char *space = strchr(rest, ' ');
        struct site_step step = {.kind = STEP_MOVE,
                                 .hook = slice_make(rest, (size_t)(space - rest))};
        int64_t by_s = number(&space), max = number(&space);
        step.not_before_s = number(&space);
        int r = store_read_due(&store, &step, by_s, due, (size_t)max, &n_due, p);
        for (size_t i = 0; r == OK && i < n_due; i++) {
                rows[i] = due[i].row;
                (void)printf("%llu %lld %lld %d\n", (unsigned long long)due[i].row.id,
                             (long long)due[i].row.original_s, (long long)due[i].current_s,
                             due[i].is_async);
        }
        return r;
}

/* How many were changed, and whether locks kept others from it. */
static int tell_changed(uint64_t n, int r)
{
        (void)printf("%llu\n%s\n", (unsigned long long)n, r == ERR_LOCKED ? "refused" : "all");
        return r == ERR_LOCKED ? OK : r;
}

static int run_move(char *rest, struct problem *p)
{
        uint64_t n = 0;
        int r = store_move(&store, due, n_due, number(&rest), NULL, &n, p);
        return tell_changed(n, r);
}

static int run_step(char *rest, struct problem *p, bool is_shift)
{
        struct site_step step = {
                .kind = is_shift ? STEP_SHIFT : STEP_RETURN, .rows = rows, .n_rows = n_due};
        uint64_t n = 0;
        step.to_s = is_shift ? number(&rest) : 0;
        step.from_s[0] = number(&rest);
        step.from_s[1] = number(&rest);
        int r = is_shift ? store_shift(&store, &step, &n, p) : store_return(&store, &step, &n, p);
        return tell_changed(n, r);
}

static size_t take_hooks(char *rest, struct slice ret[8])
{
        size_t n = 0;
        for (char *w; n < 8 && (w = strsep(&rest, " "));)
                ret[n++] = slice_str(w);
        return n;
}

static int run_find(char *rest, struct problem *p)
{
        static struct store_front_row found[500];
        static struct front_row front[500], seen[500];
        struct slice hooks[8];
        size_t n_hooks = take_hooks(rest, hooks), n, n_seen;
        uint64_t n_changed;
        bool is_all;
        int64_t now_s;
        int r = store_now(&store, &now_s, p);
        if (r == OK)
                r = store_find_front(&store, hooks, n_hooks, now_s, found, ARRAY_LEN(found), &n, p);
        for (size_t i = 0; r == OK && i < n; i++)
                front[i] = found[i].row;
        if (r == OK)
                r = store_put_front(&store, front, n, &n_changed, p);
        if (r == OK)
                r = store_see_front(&store, hooks[0], front, n, seen, ARRAY_LEN(seen), &n_seen,
                                    &is_all, p);
        if (r == OK)
                r = store_put_back(&store, front, n, &n_changed, p);
        return r == OK ? store_date_front(&store, hooks, n_hooks, found, n, now_s, &n_changed, p)
                       : r;
}

static int run_pace(char *rest, struct problem *p)
{
        struct slice hooks[8];
        struct site_pace pace;
        size_t n = take_hooks(rest, hooks);
        return store_read_pace(&store, hooks, n, &pace, p);
}

static int run_keep_or_log(char *rest, struct problem *p, bool is_log)
{
        uint64_t ids[SITE_ROWS_MAX];
        size_t n = n_due;
        for (size_t i = 0; i < n; i++)
                ids[i] = rows[i].id;
        if (is_log)
                return store_log(&store, ids, n, rest, p);
        int r = store_keep_dated(&store, ids, &n, number(&rest), p);
        for (size_t i = 0; r == OK && i < n; i++)
                (void)printf("%llu\n", (unsigned long long)ids[i]);
        return r;
}

static int run_log_returned(char *rest, struct problem *p)
{
        uint64_t ids[SITE_ROWS_MAX];
        for (size_t i = 0; i < n_due; i++)
                ids[i] = rows[i].id;
        return store_log_returned(&store, ids, n_due, rest, p);
}

static int run_grants(char *rest, struct problem *p, bool is_missing)
{
        struct buf b CLEANUP(buf_release) = {0};
        int r = OK;
        if (is_missing)
                r = store_put_missing(&store, mode_of(rest), &b, p);
        else
                store_put_grants(&store, mode_of(rest), &b);
        (void)printf("%s", buf_cstr(&b));
        return r;
}

/* ---- repairs and requests ---- */

#define KEY_BYTES 4096

static char *words;

static const char *next_word(void)
{
        const char *w = strsep(&words, " \n");

        return w ? w : "";
}

static struct slice next_slice(void)
{
        const char *w = next_word();

        return strcmp(w, "-") == 0 ? SLICE_NONE : slice_str(w);
}

static void say(struct slice text)
{
        (void)putchar('"');
        for (size_t i = 0; i < text.len; i++) {
                unsigned char c = (unsigned char)text.ptr[i];
                if (c < 0x20 || c == '"' || c == '\\')
                        (void)printf("\\u%04x", c);
                else
                        (void)putchar(c);
        }
        (void)putchar('"');
}

/* Stands for the loop. */
#define REACH_S 4020
static uint64_t ledger[2000];
static size_t n_ledger, n_taken;
static struct site_stray taken[SITE_ROWS_MAX]; /* at the last look */

static int take_strays(void *ctx, struct site_stray *strays, size_t *n, bool is_taken)
{
        size_t n_kept = 0;
        (void)ctx;
        for (size_t i = 0; i < *n; i++) {
                bool is_known = false;
                for (size_t k = 0; k < n_ledger && !is_known; k++)
                        is_known = ledger[k] == strays[i].row.id;
                if (!is_known)
                        strays[n_kept++] = strays[i];
        }
        *n = n_kept;
        for (size_t i = 0; is_taken && i < n_kept; i++) {
                taken[n_taken++] = strays[i];
                ledger[n_ledger++] = strays[i].row.id;
        }
        return OK;
}

static int run_ledger(void)
{
        n_ledger = 0;
        for (const char *w = next_word(); *w && n_ledger < ARRAY_LEN(ledger); w = next_word())
                ledger[n_ledger++] = strtoull(w, NULL, 10);
        (void)printf("%zu\n", n_ledger);
        return OK;
}

static int run_repair(struct problem *p)
{
        static const char *const names[] = {
#define X(id, name, text) name,
                SITE_REPAIR_MAP(X)
#undef X
        };
        struct site_survey v = {0};
        struct site_plan plan = {.mode = mode_of(next_word()), .reach_s = REACH_S};
        plan.is_calm = *next_word() == '1';
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                plan.repairs[i] = mode_of(next_word());
        struct slice critical[2];
        for (struct slice hook; plan.n_critical < 2 && (hook = next_slice()).len;)
                critical[plan.n_critical++] = hook;
        plan.critical = critical;
        plan.is_lost_critical = plan.mode == MODE_ENFORCE;
        n_taken = 0;
        int r = store_open(&store, plan.mode, p);
        if (r == OK && plan.mode == MODE_ENFORCE)
                r = store_take_place(&store, p);
        if (r == OK)
                r = store_survey(&store, 0, &v, p);
        uint64_t before = store.n_statements;
        if (r == OK)
                r = store_repair(&store, &plan, &v, p);
        (void)printf("{\"statements\":%" PRIu64, store.n_statements - before);
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                (void)printf(",\"%s\":[%u,%u]", names[i], v.faults[i].found, v.faults[i].mended);
        (void)printf(",\"taken\":[");
        for (size_t i = 0; i < n_taken; i++)
                (void)printf("%s[%" PRIu64 ",\"%.*s\",%" PRId64 ",%" PRId64 "]", i ? "," : "",
                             taken[i].row.id, (int)taken[i].hook.len, taken[i].hook.ptr,
                             taken[i].row.original_s, taken[i].date_s);
        (void)printf("],\"advice\":");
        say(slice_str(v.advice));
        (void)printf("}\n");
        arena_release(&v.arena);
        return r;
}

/* What was deleted since the start, and what the next slice is. */
static int run_purge(struct problem *p)
{
        struct site_plan plan = {.mode = mode_of(next_word())};
        const struct store_purge *purge = &store.memory.purge;
        int64_t now_s;
        plan.is_calm = *next_word() == '1';
        plan.repairs[REPAIR_RETENTION] = mode_of(next_word());
        int r = store_open(&store, plan.mode, p);
        if (r == OK)
                r = store_now(&store, &now_s, p);
        uint64_t before = store.n_statements;
        if (r == OK)
                r = store_purge(&store, &plan, now_s, p);
        int64_t due_ns = store_purge_due_ns(&store, &plan);
        (void)printf("{\"statements\":%" PRIu64 ",\"actions\":%" PRIu64 ",\"lines\":%" PRIu64
                     ",\"rows\":%u,\"is_over\":%s,\"rest_ms\":%" PRId64 ",\"advice\":",
                     store.n_statements - before, purge->actions, purge->lines, purge->pace.rows,
                     purge->kind == 0 && !purge->walk.at_id ? "true" : "false",
                     (int64_t)(due_ns == INT64_MAX ? -1 : (due_ns - clock_boot_ns()) / NS_PER_MS));
        struct buf text CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < STORE_ADVICE_LINES; i++)
                if (store.memory.advice[i][0])
                        buf_printf(&text, "%s ", store.memory.advice[i]);
        say(buf_slice(&text));
        (void)printf("}\n");
        return r;
}

static void say_actions(const struct site_request *q)
{
        (void)printf(",\"has_more\":%s,\"actions\":[", q->has_more ? "true" : "false");
        for (size_t i = 0; i < q->n_actions; i++) {
                const struct site_action *a = &q->actions[i];
                const struct {
                        const char *name;
                        struct slice text;
                } texts[] = {{"hook", a->hook},
                             {"status", a->status},
                             {"group", a->group},
                             {"args", a->args},
                             {"schedule", a->schedule}};
                (void)printf(
                        "%s{\"id\":%" PRIu64 ",\"attempts\":%u,\"priority\":%u,\"claim\":%" PRIu64
                        ",\"scheduled\":%" PRId64 ",\"original\":%" PRId64 ",\"last\":%" PRId64,
                        i ? "," : "", a->id, a->attempts, a->priority, a->claim, a->scheduled_s,
                        a->original_s, a->last_attempt_s);
                for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
                        (void)printf(",\"%s\":", texts[k].name);
                        say(texts[k].text);
                }
                (void)printf("}");
        }
        (void)printf("],\"lines\":[");
        for (size_t i = 0; i < q->n_lines; i++) {
                (void)printf("%s", i ? "," : "");
                say(q->lines[i].message);
        }
        (void)printf("]");
}

static void say_locks(const struct site_request *q)
{
        (void)printf(",\"is_granted\":%s,\"locks\":[", q->is_granted ? "true" : "false");
        for (size_t i = 0; i < q->n_locks; i++) {
                (void)printf("%s{\"fence\":%" PRIu64 ",\"expires\":%" PRId64 ",\"key\":",
                             i ? "," : "", q->locks[i].fence, q->locks[i].expires_s);
                say(q->locks[i].key);
                (void)printf(",\"token\":");
                say(q->locks[i].token);
                (void)printf("}");
        }
        (void)printf("]");
}

static void say_report(const struct site_report *v)
{
        static const char *const names[SITE_LISTS] = {"statuses", "days",     "pending", "created",
                                                      "failed",   "past_due", "slowest"};
        (void)printf(",\"past\":[%" PRIu64 ",%" PRIu64 ",%d,%" PRIu64 "],\"tables\":{", v->past,
                     v->past_lines, v->is_past_estimate, v->finished_per_day);
        for (size_t i = 0; i < SITE_TABLES; i++)
                (void)printf("%s\"%s\":[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", v->tables[i].name,
                             v->tables[i].rows, v->tables[i].bytes);
        (void)printf("}");
        for (size_t i = 0; i < SITE_LISTS; i++) {
                (void)printf(",\"%s\":[", names[i]);
                for (size_t k = 0; k < v->n[i]; k++) {
                        const struct site_figure *f = &v->lists[i][k];
                        (void)printf("%s[", k ? "," : "");
                        say(f->name);
                        (void)printf(",%" PRIu64 ",%d,%" PRId64 "]", f->count, f->is_estimate,
                                     f->seconds);
                }
                (void)printf("]");
        }
}

/* The words of a request, by its first. */
static void fill(struct site_request *q, const char *first)
{
        static uint64_t ids[1000];
        static uint8_t key[KEY_BYTES];

        if (strcmp(first, "actions") == 0) {
                q->status = next_slice();
                q->hook = next_slice();
                q->id = strtoull(next_word(), NULL, 10);
                q->limit = (uint32_t)strtoul(next_word(), NULL, 10);
                for (const char *w = next_word(); *w && q->n_ids < ARRAY_LEN(ids); w = next_word())
                        ids[q->n_ids++] = strtoull(w, NULL, 10);
                q->ids = q->n_ids ? ids : NULL;
        } else if (strcmp(first, "action") == 0) {
                q->kind = REQUEST_ACTION;
                q->id = strtoull(next_word(), NULL, 10);
        } else if (strcmp(first, "report") == 0) {
                q->kind = REQUEST_REPORT;
        } else if (strcmp(first, "locks") == 0) {
                q->kind = REQUEST_LOCKS;
                q->limit = (uint32_t)strtoul(next_word(), NULL, 10);
        } else {
                struct slice hex = next_slice();
                q->kind = strcmp(first, "lock") == 0 ? REQUEST_LOCK : REQUEST_UNLOCK;
                if (slice_to_hex_bytes(hex, key, hex.len / 2))
                        q->key = slice_make(key, hex.len / 2);
                q->token = next_slice();
                q->is_forced = slice_eq(q->token, SLICE_LIT("force"));
                q->ttl_s = strtoll(next_word(), NULL, 10);
        }
}

static int run_request(const char *first, struct problem *p)
{
        struct site_request q = {0};
        int r = store_open(&store, MODE_ENFORCE, p);
        if (r != OK)
                return r;
        arena_init(&q.arena, 0);
        fill(&q, first);
        store_answer(&store, &q);
        (void)printf("{\"err\":\"%s\",\"problem\":", err_name(q.err));
        say(slice_str(q.problem.detail));
        say_actions(&q);
        say_locks(&q);
        if (q.report)
                say_report(q.report);
        (void)printf("}\n");
        arena_release(&q.arena);
        return OK;
}

static int run(const char *word, char *rest, struct problem *p)
{
        if (strcmp(word, "open") == 0)
                return run_open(rest, p);
        if (strcmp(word, "survey") == 0)
                return run_survey(rest, p);
        if (strcmp(word, "due") == 0)
                return run_due(rest, p);
        if (strcmp(word, "move") == 0)
                return run_move(rest, p);
        if (strcmp(word, "shift") == 0 || strcmp(word, "return") == 0)
                return run_step(rest, p, word[0] == 's');
        if (strcmp(word, "keep") == 0 || strcmp(word, "log") == 0)
                return run_keep_or_log(rest, p, word[0] == 'l');
        if (strcmp(word, "grants") == 0 || strcmp(word, "missing") == 0)
                return run_grants(rest, p, word[0] == 'm');
        if (strcmp(word, "log_returned") == 0)
                return run_log_returned(rest, p);
        if (strcmp(word, "find") == 0)
                return run_find(rest, p);
        if (strcmp(word, "pace") == 0)
                return run_pace(rest, p);
        words = rest;
        if (strcmp(word, "repair") == 0)
                return run_repair(p);
        if (strcmp(word, "ledger") == 0)
                return run_ledger();
        if (strcmp(word, "purge") == 0)
                return run_purge(p);
        if (strstr(" actions action locks lock unlock report ", word))
                return run_request(word, p);
        if (strcmp(word, "reached") != 0)
                return problem_set(p, ERR_UNKNOWN, "%s", word);
        (void)printf("%u %llu\n", store.rows_at_once, (unsigned long long)store.n_statements);
        return OK;
}

int main(int argc, char **argv)
{
        char *line = NULL;
        size_t size = 0;
        if (argc < 6)
                return 2;
        char host[] = "127.0.0.1";
        struct store_options o = {
                .name = "shop",
                .prefix = argv[5],
                .login = {.server = {.host = host, .port = (int)strtol(argv[1], NULL, 10)},
                          .user = argv[2],
                          .password = argv[3],
                          .database = argv[4]},
                .timeout_ms = 60000};
        int64_t *const times[] = {&o.claim_timeout_s, &o.retention_s, &o.retention_failed_s};
        for (int i = 6; i < argc && i - 6 < (int)ARRAY_LEN(times); i++)
                *times[i - 6] = strtoll(argv[i], NULL, 10);
        for (int i = 9; i + 2 < argc && o.n_retries < STORE_RETRIES_MAX; i += 3)
                o.retries[o.n_retries++] =
                        (struct store_retry){.pattern = slice_str(argv[i]),
                                             .times = (uint32_t)strtoul(argv[i + 1], NULL, 10),
                                             .wait_s = strtoll(argv[i + 2], NULL, 10)};
        store_init(&store, &o, -1);
        store.ledger.take = take_strays;
        for (ssize_t n; (n = getline(&line, &size, stdin)) > 0;) {
                struct problem p = {0};
                if (line[n - 1] == '\n')
                        line[n - 1] = '\0';
                char *space = strchr(line, ' ');
                char *rest = space ? space + 1 : line + strlen(line);
                if (space)
                        *space = '\0';
                int r = run(line, rest, &p);
                (void)printf("= %s%s%s\n", err_name(r), r == OK ? "" : " ",
                             r == OK ? "" : p.detail);
                (void)fflush(stdout);
        }
        store_release(&store);
        free(line);
        return 0;
}
