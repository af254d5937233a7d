/* weir top: what happens now, and the few things an operator does about it, in a terminal.
 *
 * One loop: ask the server, draw, wait for a key until it is time to ask again.  Answers are kept
 * as bytes with the tree made of them, since the client's own are gone with the next question; a
 * frame can then be drawn at any moment (a key, a new size of the window) without asking.
 *
 * A server that goes away is news, not the end: the last answers stay on the screen, the last line
 * says so, and each round tries to connect again.  What changes something for others is asked twice
 * (pause, cancel); holding a queue is not, since the same key takes it back.
 *
 * Costs: seven or, in a cluster, eight questions a second, answered from memory in some tens of
 * microseconds each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "cli/term.h"
#include "cli/text.h"
#include "cli/top_view.h"

#define REPLY_MS        3000 /* keys wait for it */
#define INTERVAL_MIN_MS 100
#define INTERVAL_MAX_MS (3600LL * MS_PER_S)
#define FILTER_MAX      64
#define ROWS_ASKED      "200"
#define CTRL_Z          26

/* CLUSTER comes first: while nobody leads, every machine answers it and nothing else. */
enum ask {
        ASK_CLUSTER,
        ASK_THROTTLE,
        ASK_NOW,
        ASK_QUEUES,
        ASK_JOBS,
        ASK_CLIENTS,
        ASK_STARVED,
        ASK_SITES,
        ASKS
};

struct answer {
        struct buf bytes;
        struct arena arena;
        const struct value *v; /* NULL: none yet */
};

struct top {
        struct cli *cli;
        struct term term;
        struct top_view view;
        struct answer answers[ASKS];
        struct top_totals totals; /* at totals_ns; 0: none yet */
        int64_t totals_ns;
        /* Not asked: an older server does not know it, or it is alone; found out by asking. */
        bool is_unknown[ASKS];
        bool is_lost; /* no connection */
        char notice[PROBLEM_DETAIL_MAX + 64];
        int64_t notice_until_ns;
        char filter[FILTER_MAX + 1];
        bool is_typing; /* the filter */
        /* Waiting for y; the question is the notice. */
        enum { PENDING_NONE, PENDING_PAUSE, PENDING_RESUME, PENDING_CANCEL } pending;
        char pending_key[32]; /* id of the job to cancel, as it was when asked */
};

/* ---- answers ---- */

/* Keeps the last reply of the client. */
static int answer_take(struct answer *a, const struct client *c, struct problem *p)
{
        struct value *v = NULL;
        buf_clear(&a->bytes);
        arena_clear(&a->arena);
        a->v = NULL;
        buf_put(&a->bytes, c->in.ptr, c->in_used);
        if (a->bytes.failed || value_parse(buf_slice(&a->bytes), &a->arena, &v) != OK)
                return problem_set(p, ERR_NOMEM, "no memory for an answer");
        a->v = v;
        return OK;
}

static void request_make(const struct top *t, enum ask which, struct cli_request *ret)
{
        static const char *const names[ASKS] = {"CLUSTER", "THROTTLESTATUS", "NOW",     "QUEUES",
                                                "JOBS",    "CLIENTS",        "STARVED", "SITES"};
        cli_request_init(ret, names[which]);
        if (which == ASK_JOBS) {
                cli_request_add_str(ret, "STATUS");
                cli_request_add_str(ret, "in-progress");
                if (t->filter[0] && !t->is_typing) {
                        cli_request_add_str(ret, "MATCH");
                        cli_request_add_str(ret, t->filter);
                }
        }
        if (which == ASK_CLIENTS) {
                cli_request_add_str(ret, "ORDER");
                cli_request_add_str(ret, "refused");
        }
        if (which == ASK_JOBS || which == ASK_CLIENTS) {
                cli_request_add_str(ret, "LIMIT");
                cli_request_add_str(ret, ROWS_ASKED);
        }
}

static int ask(struct top *t, enum ask which, struct problem *p)
{
        struct cli_request req;
        const struct value *unused;
        struct client *c = &t->cli->client;
        request_make(t, which, &req);
        int r = client_call_within(c, req.argv, req.argc, REPLY_MS, &unused, p);
        return r == OK ? answer_take(&t->answers[which], c, p) : r;
}

/* Rates of a server that tells none: from what it has counted since the last round. */
static void count(struct top *t)
{
        struct top_totals now;
        int64_t now_ns = clock_boot_ns();
        top_totals_read(&now, t->answers[ASK_QUEUES].v, t->answers[ASK_THROTTLE].v);
        if (t->totals_ns)
                top_rates_between(&t->view.rates, &t->totals, &now,
                                  (now_ns - t->totals_ns) / NS_PER_MS);
        t->totals = now;
        t->totals_ns = now_ns;
}

/* A weir that is alone stays so until it is restarted. */
static bool is_alone(const struct value *cluster)
{
        return field_is(cluster, "role", "leader") && !list_len(value_get(cluster, "members"));
}

static int ask_all(struct top *t, struct problem *p)
{
        int r = OK;
        for (int i = 0; i < ASKS && r == OK; i++) {
                if (t->is_unknown[i])
                        continue;
                r = ask(t, (enum ask)i, p);
                if ((i == ASK_NOW || i == ASK_SITES || i == ASK_CLUSTER) && r == ERR_UNKNOWN) {
                        t->is_unknown[i] = true;
                        r = OK;
                }
        }
        t->view.cluster = t->answers[ASK_CLUSTER].v;
        if (is_alone(t->view.cluster))
                t->is_unknown[ASK_CLUSTER] = true;
        if (r != OK)
                return r;
        if (!t->is_unknown[ASK_NOW])
                top_rates_read(&t->view.rates, t->answers[ASK_NOW].v);
        else
                count(t);
        t->view.is_everything_paused = !t->is_unknown[ASK_NOW] &&
                                       field_is_true(t->answers[ASK_NOW].v, "everything_paused");
        t->view.throttle = t->answers[ASK_THROTTLE].v;
        t->view.sites = t->answers[ASK_SITES].v;
        t->view.panels[TOP_QUEUES] = t->answers[ASK_QUEUES].v;
        t->view.panels[TOP_JOBS] = t->answers[ASK_JOBS].v;
        t->view.panels[TOP_CLIENTS] = t->answers[ASK_CLIENTS].v;
        t->view.panels[TOP_STARVED] = t->answers[ASK_STARVED].v;
        return OK;
}

/* ---- the last line ---- */

static void tell(struct top *t, int64_t for_ms, bool is_problem, const char *text)
{
        (void)snprintf(t->notice, sizeof(t->notice), "%s", text);
        t->view.notice = t->notice;
        t->view.is_problem = is_problem;
        t->notice_until_ns = for_ms ? clock_boot_ns() + for_ms * NS_PER_MS : INT64_MAX;
}

static void tell_nothing(struct top *t)
{
        t->view.notice = NULL;
        t->view.is_problem = false;
}

/* The connection cannot be used any more: what comes next on it may belong to an earlier question.
 */
static void lose(struct top *t, const struct problem *p)
{
        char text[PROBLEM_DETAIL_MAX + 32];
        client_release(&t->cli->client);
        client_init(&t->cli->client, &t->cli->url);
        t->is_lost = true;
        memset(t->is_unknown, 0, sizeof(t->is_unknown));
        t->totals_ns = 0;
        (void)snprintf(text, sizeof(text), "no connection, trying again: %s", p->detail);
        tell(t, 0, true, text);
}

static void refresh(struct top *t)
{
        struct problem p = {0};
        t->view.now_ms = clock_wall_ms();
        if (t->is_lost) {
                if (client_connect(&t->cli->client, &p) != OK) {
                        lose(t, &p);
                        return;
                }
                t->is_lost = false;
                tell(t, 3000, false, "connected again");
        }
        if (ask_all(t, &p) != OK)
                lose(t, &p);
}

/* ---- doing something ---- */

static void act(struct top *t, const char *command, const char *word, const char *done)
{
        const struct slice argv[] = {slice_str(command), slice_str(word)};
        char text[sizeof(t->notice)];
        struct problem p = {0};
        const struct value *v;
        if (t->is_lost)
                return;
        int r = client_call_within(&t->cli->client, argv, ARRAY_LEN(argv), REPLY_MS, &v, &p);
        if (r == ERR_UNAVAIL || r == ERR_IO || r == ERR_TIMEOUT) {
                lose(t, &p);
                return;
        }
        (void)snprintf(text, sizeof(text), "%s", r == OK ? done : p.detail);
        refresh(t);
        if (!t->is_lost)
                tell(t, 3000, r != OK, text);
}

/* A name from the server, as it may be shown. */
static void put_named(char *ret, size_t size, const char *before, struct slice name,
                      const char *after)
{
        struct buf text CLEANUP(buf_release) = {0};
        buf_put_str(&text, before);
        text_put_safe(&text, name);
        buf_put_str(&text, after);
        (void)snprintf(ret, size, "%s", buf_cstr(&text));
}

static void hold_queue(struct top *t)
{
        char name[256], done[320];
        struct buf *key = &t->view.key;
        bool is_paused = t->view.is_paused;
        if (t->view.panel != TOP_QUEUES || !key->len || key->len >= sizeof(name)) {
                tell(t, 3000, true, "space holds a queue: choose one in the panel Queues");
                return;
        }
        memcpy(name, key->ptr, key->len);
        name[key->len] = '\0';
        put_named(done, sizeof(done), is_paused ? "resumed queue " : "paused queue ",
                  buf_slice(key), is_paused ? "" : ": space lets it go on");
        act(t, is_paused ? "RESUME" : "PAUSE", name, done);
}

static void ask_cancel(struct top *t)
{
        char text[128];
        if (t->view.panel != TOP_JOBS || !t->view.key.len ||
            t->view.key.len >= sizeof(t->pending_key)) {
                tell(t, 3000, true, "c cancels a job: choose one in the panel Running jobs");
                return;
        }
        (void)snprintf(t->pending_key, sizeof(t->pending_key), "%s", buf_cstr(&t->view.key));
        (void)snprintf(text, sizeof(text), "cancel job %s? its worker loses it   y / n",
                       t->pending_key);
        t->pending = PENDING_CANCEL;
        tell(t, 0, false, text);
}

static void ask_pause(struct top *t)
{
        const struct value *paused = value_get(t->view.throttle, "paused");
        bool is_paused = paused && paused->num;
        t->pending = is_paused ? PENDING_RESUME : PENDING_PAUSE;
        tell(t, 0, false,
             is_paused ? "end the pause of the throttle?   y / n"
                       : "pause the throttle for 1 h? only critical jobs start   y / n");
}

static void decide(struct top *t, int key)
{
        int pending = (int)t->pending;
        char done[64];
        t->pending = PENDING_NONE;
        tell_nothing(t);
        if (key != 'y' && key != 'Y') {
                tell(t, 2000, false, "nothing was done");
                return;
        }
        if (pending == PENDING_CANCEL) {
                (void)snprintf(done, sizeof(done), "canceled job %s", t->pending_key);
                act(t, "CANCEL", t->pending_key, done);
        } else if (pending == PENDING_PAUSE) {
                act(t, "THROTTLE", "PAUSE", "the throttle is paused for 1 h: p ends it");
        } else {
                act(t, "THROTTLE", "RESUME", "the pause is over");
        }
}

/* ---- keys ---- */

static void show_filter(struct top *t)
{
        char text[FILTER_MAX + 80];
        put_named(text, sizeof(text), "show rows that hold: ", slice_str(t->filter),
                  "_   Enter keeps it, Esc takes it away");
        t->view.filter = slice_str(t->filter);
        tell(t, 0, false, text);
}

static void type_filter(struct top *t, int key)
{
        size_t len = strlen(t->filter);
        if (key == TERM_ENTER || key == '\n' || key == TERM_ESCAPE) {
                if (key == TERM_ESCAPE)
                        t->filter[0] = '\0';
                t->is_typing = false;
                t->view.filter = slice_str(t->filter);
                tell_nothing(t);
                refresh(t);
                return;
        }
        if ((key == TERM_DELETE || key == '\b') && len) {
                while (len > 1 && ((unsigned char)t->filter[len - 1] & 0xc0) == 0x80)
                        len--; /* all of a character */
                t->filter[len - 1] = '\0';
        } else if (key >= ' ' && key < 256 && key != TERM_DELETE && len < FILTER_MAX) {
                t->filter[len] = (char)key;
                t->filter[len + 1] = '\0';
        }
        show_filter(t);
}

static void clear_filter(struct top *t)
{
        t->filter[0] = '\0';
        t->view.filter = SLICE_NONE;
        if (!t->is_lost)
                tell_nothing(t);
        refresh(t);
}

static const struct {
        int key;
        int64_t by;
} moves[] = {
        {TERM_UP, -1},
        {'k', -1},
        {TERM_DOWN, 1},
        {'j', 1},
        {TERM_PAGE_UP, -10},
        {TERM_PAGE_DOWN, 10},
        {TERM_HOME, -TOP_ROWS_MAX},
        {'g', -TOP_ROWS_MAX},
        {TERM_END, TOP_ROWS_MAX},
        {'G', TOP_ROWS_MAX},
};

static bool move(struct top *t, int key)
{
        for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
                if (moves[i].key == key) {
                        top_move(&t->view, moves[i].by);
                        return true;
                }
        }
        return false;
}

static void press(struct top *t, int key)
{
        if (key == TERM_TAB || key == TERM_RIGHT)
                top_turn(&t->view, 1);
        else if (key == TERM_BACK_TAB || key == TERM_LEFT)
                top_turn(&t->view, -1);
        else if (key >= '1' && key < '1' + TOP_PANELS)
                top_turn(&t->view, key - '1' - (int)t->view.panel);
        else if (key == ' ')
                hold_queue(t);
        else if (key == 'c')
                ask_cancel(t);
        else if (key == 'p')
                ask_pause(t);
        else if (key == 'r')
                refresh(t);
        else if (key == '?' || key == 'h')
                t->view.is_help = true;
        else if (key == TERM_ESCAPE)
                clear_filter(t);
        else if (key == CTRL_Z)
                term_suspend(&t->term);
        else if (key == '/') {
                t->is_typing = true;
                show_filter(t);
        } else
                (void)move(t, key); /* a key without a meaning does nothing */
}

/* False at the end. */
static bool on_key(struct top *t, int key)
{
        if (key == TERM_STOP)
                return false;
        if (key == TERM_NONE || key == TERM_RESIZED)
                return true;
        if (t->pending != PENDING_NONE)
                decide(t, key);
        else if (t->is_typing)
                type_filter(t, key);
        else if (t->view.is_help)
                t->view.is_help = false;
        else if (key == 'q' || key == 'Q')
                return false;
        else
                press(t, key);
        return true;
}

/* ---- the loop ---- */

static void draw(struct top *t)
{
        struct buf frame CLEANUP(buf_release) = {0};
        struct term_size size = term_size();
        if (t->view.notice && clock_boot_ns() >= t->notice_until_ns)
                tell_nothing(t);
        t->view.rows = size.rows;
        t->view.columns = size.columns;
        top_put_frame(&t->view, &frame);
        term_draw(&t->term, buf_slice(&frame));
}

static int run_screen(struct top *t, int64_t interval_ms, struct problem *p)
{
        int r = term_open(&t->term, p);
        if (r != OK)
                return r;
        bool goes_on = true;
        while (goes_on) {
                refresh(t);
                int64_t until_ns = clock_boot_ns() + interval_ms * NS_PER_MS;
                while (goes_on && clock_boot_ns() < until_ns) {
                        draw(t);
                        goes_on = on_key(t, term_wait(&t->term, until_ns));
                }
        }
        term_close(&t->term);
        return OK;
}

static void put_json(struct top *t)
{
        static const char *const keys[ASKS] = {"cluster", "throttle", "now",     "queues",
                                               "running", "clients",  "starved", "sites"};
        struct buf *b = &t->cli->out;
        buf_put_byte(b, '{');
        for (int i = 0; i < ASKS; i++) {
                if (!t->answers[i].v)
                        continue;
                buf_printf(b, "%s\"%s\":", b->ptr[b->len - 1] == '{' ? "" : ",", keys[i]);
                value_put_json(b, t->answers[i].v);
        }
        buf_put_str(b, "}\n");
}

/* For a pipe or a file: what is, once. */
static int run_once(struct top *t, struct problem *p)
{
        t->view.now_ms = clock_wall_ms();
        int r = ask_all(t, p);
        if (r != OK)
                return r;
        if (t->cli->is_json)
                put_json(t);
        else
                top_put_all(&t->view, &t->cli->out);
        return OK;
}

static int interval_of(const struct args *args, int64_t *ret, struct problem *p)
{
        const char *text = args_get(args, "interval");
        *ret = MS_PER_S;
        int r = text ? duration_parse("--interval", text, ret, p) : OK;
        if (r == OK && (*ret < INTERVAL_MIN_MS || *ret > INTERVAL_MAX_MS))
                return problem_set(p, ERR_BADARG, "--interval is 100ms to 1h");
        return r;
}

static int top(struct cli *cli, struct problem *p)
{
        struct top *t = xcalloc(1, sizeof(*t));
        int64_t interval_ms;
        int r = interval_of(&cli->args, &interval_ms, p);
        t->cli = cli;
        top_view_init(&t->view);
        t->view.server = cli->url.text;
        t->view.has_tones = cli->screen.has_tones;
        for (int i = 0; i < ASKS; i++) {
                buf_init(&t->answers[i].bytes, 0);
                arena_init(&t->answers[i].arena, 0);
        }
        bool is_screen = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !cli->is_json &&
                         !args_has(&cli->args, "once");
        if (r == OK)
                r = is_screen ? run_screen(t, interval_ms, p) : run_once(t, p);
        for (int i = 0; i < ASKS; i++) {
                buf_release(&t->answers[i].bytes);
                arena_release(&t->answers[i].arena);
        }
        top_view_release(&t->view);
        free(t);
        return r;
}

static const struct option_def options[] = {
        {"interval", "DURATION", "how often it asks: 500ms, 2s (1s)"},
        {"once", NULL, "print everything once and end; so it is without a terminal"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "",
        .summary = "Watch levels, rates, queues, running jobs and clients in a terminal.",
        .text = "Keys: q ends it, Tab goes to the next panel, arrows or j and k to another row,\n"
                "space holds a queue, c cancels a job, p pauses the throttle, / filters, ? helps.\n"
                "When the server is restarted it connects again.\n\n"
                "  weir top\n"
                "  weir top --json | jq .throttle.level\n",
        .options = options,
        .run = top,
};

const struct cli_group cli_group_top = {"top", "Watch what happens in a terminal.", &command, 1};
