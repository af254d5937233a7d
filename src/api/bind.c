/* From words, or from JSON's values, to a struct command: by the parameters of its row.
 *
 * Everything a person sends can be wrong.  Each refusal names the parameter, what was sent and
 * what is allowed; nothing is changed before all of a command is understood. */
#include "api/command.h"
#include "api/limits.h"
#include "api/params.h"
#include "base/shown.h"
#include "state/job.h"

#define USAGE_SAID_MAX 200 /* bytes of usage in an answer; what was wrong needs room too */

void command_init(struct command *cmd, const struct command_def *def)
{
        /* Only the arguments of this row: to clear all 32 would cost more than a command does. */
        size_t n = offsetof(struct command, arg) + def->n_params * sizeof(cmd->arg[0]);
        memset(cmd, 0, n);
        cmd->def = def;
        cmd->claim = (struct claim_spec){.max = 1};
}

int command_param(const struct command_def *def, struct slice name)
{
        for (size_t i = 0; i < def->n_params; i++)
                if (def->params[i].name_len == name.len &&
                    slice_eq(slice_make(def->params[i].name, name.len), name))
                        return (int)i;
        return -1;
}

/* ---- one value ---- */

static bool has_control(struct slice s)
{
        for (size_t i = 0; i < s.len; i++)
                if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f)
                        return true;
        return false;
}

static int check_name(const struct param_def *p, struct slice text, struct problem *problem)
{
        if (text.len < 1 || text.len > LIMIT_NAME_BYTES)
                return problem_set(problem, text.len ? ERR_TOOBIG : ERR_BADARG,
                                   "%s must be 1 to %d bytes long, not %zu", p->name,
                                   LIMIT_NAME_BYTES, text.len);
        if (has_control(text) || !slice_is_utf8(text))
                return problem_set(problem, ERR_BADARG,
                                   "%s must be UTF-8 without control characters", p->name);
        return OK;
}

static int check_length(const struct param_def *p, struct slice text, struct problem *problem)
{
        if ((int64_t)text.len > p->max)
                return problem_set(problem, ERR_TOOBIG, "%s may be %lld bytes long, not %zu",
                                   p->name, (long long)p->max, text.len);
        if ((int64_t)text.len < p->min)
                return problem_set(problem, ERR_BADARG, "%s must be at least %lld bytes long",
                                   p->name, (long long)p->min);
        return OK;
}

bool param_is_needed(const struct param_def *p)
{
        return p->flags & PARAM_REQUIRED && (p->type != PARAM_BYTES || p->min > 0);
}

/* The text names the unit for the reference.  It is read from there, so that both are the same. */
bool param_is_ms(const struct param_def *p)
{
        return strstr(p->text, "milliseconds") != NULL;
}

static int check_int(const struct param_def *p, int64_t v, struct problem *problem)
{
        if (v >= p->min && v <= p->max)
                return OK;
        /* Redis has seconds here, so who writes so small a number mostly means seconds. */
        if (p->flags & PARAM_BARE_MS && v > 0 && v < p->min)
                return problem_set(problem, ERR_BADARG,
                                   "%s is in milliseconds and at least %lld, not %lld; for seconds "
                                   "say EX %lld, for milliseconds PX %lld",
                                   p->name, (long long)p->min, (long long)v, (long long)v,
                                   (long long)v);
        return problem_set(problem, ERR_BADARG, "%s must be %lld to %lld%s, not %lld", p->name,
                           (long long)p->min, (long long)p->max, param_is_ms(p) ? " ms" : "",
                           (long long)v);
}

static int parse_int(const struct param_def *p, struct slice text, int64_t *ret,
                     struct problem *problem)
{
        if (!slice_to_i64(text, ret))
                return problem_set(problem, ERR_BADARG,
                                   "%s must be a whole number from %lld to %lld%s, not '%s'",
                                   p->name, (long long)p->min, (long long)p->max,
                                   param_is_ms(p) ? " ms" : "", SHOWN(text));
        return check_int(p, *ret, problem);
}

struct slice param_choices(const struct param_def *p)
{
        return slice_make(p->text, strcspn(p->text, ":"));
}

/* The place of a word among "skip|one|all", or -1. */
static int find_choice(struct slice choices, struct slice word)
{
        size_t at = 0;
        for (int place = 0; at < choices.len; place++) {
                size_t end = at;
                while (end < choices.len && choices.ptr[end] != '|')
                        end++;
                if (slice_eq_nocase(slice_make(choices.ptr + at, end - at), word))
                        return place;
                at = end + 1;
        }
        return -1;
}

bool ids_next(struct slice *rest, uint64_t *ret)
{
        size_t n = 0;
        if (!rest->len)
                return false;
        while (n < rest->len && rest->ptr[n] != ',')
                n++;
        bool is_id = slice_to_u64(slice_make(rest->ptr, n), ret) && *ret > 0;
        n += n < rest->len; /* the comma */
        *rest = slice_make(rest->ptr + n, rest->len - n);
        return is_id;
}

static int check_ids(const struct param_def *p, struct slice text, struct problem *problem)
{
        struct slice rest = text;
        uint64_t id;
        int64_t n = 0;
        while (ids_next(&rest, &id))
                n++;
        if (rest.len || n == 0 || text.ptr[text.len - 1] == ',')
                return problem_set(problem, ERR_BADARG,
                                   "%s must be job ids with commas between them, not '%s'", p->name,
                                   SHOWN(text));
        if (n > p->max)
                return problem_set(problem, ERR_TOOBIG, "%s takes at most %lld ids, not %lld",
                                   p->name, (long long)p->max, (long long)n);
        return OK;
}

static int parse_flag(const struct param_def *p, struct slice text, int64_t *ret,
                      struct problem *problem)
{
        *ret = slice_eq_nocase(text, SLICE_LIT("true")) || slice_eq(text, SLICE_LIT("1"));
        if (*ret || slice_eq_nocase(text, SLICE_LIT("false")) || slice_eq(text, SLICE_LIT("0")))
                return OK;
        return problem_set(problem, ERR_BADARG, "%s must be true or false, not '%s'", p->name,
                           SHOWN(text));
}

static int parse_value(const struct param_def *p, struct slice text, struct arg *ret,
                       struct problem *problem)
{
        int r = OK;
        switch (p->type) {
        case PARAM_NAME:
                r = check_name(p, text, problem);
                break;
        case PARAM_BYTES:
        case PARAM_TEXT:
                r = check_length(p, text, problem);
                break;
        case PARAM_INT:
        case PARAM_ID:
                r = parse_int(p, text, &ret->num, problem);
                break;
        case PARAM_TOKEN:
                if (!slice_to_hex_bytes(text, ret->token, TOKEN_BYTES))
                        r = problem_set(problem, ERR_BADARG,
                                        "%s must be the 32 hex digits that were given", p->name);
                break;
        case PARAM_STATUS:
                ret->num = job_status_from_name(text);
                if (ret->num < 0)
                        r = problem_set(problem, ERR_BADARG, "%s must be %s, not '%s'", p->name,
                                        p->text, SHOWN(text));
                break;
        case PARAM_CHOICE:
                ret->num = find_choice(param_choices(p), text);
                if (ret->num < 0)
                        r = problem_set(problem, ERR_BADARG, "%s must be one of %.*s, not '%s'",
                                        p->name, (int)param_choices(p).len, p->text, SHOWN(text));
                break;
        case PARAM_FLAG:
                r = parse_flag(p, text, &ret->num, problem);
                break;
        case PARAM_IDS:
                r = check_ids(p, text, problem);
                break;
        case PARAM_NAMES:
        case PARAM_JOBS:
        case PARAM_CLAIM:
                r = problem_set(problem, ERR_BADARG, "%s is not a single value", p->name);
                break;
        }
        if (r != OK)
                return r;
        ret->text = text;
        ret->is_set = true;
        return OK;
}

static int check_once(const struct command *cmd, size_t param, struct problem *problem)
{
        ASSERT(param < cmd->def->n_params);
        if (!cmd->arg[param].is_set)
                return OK;
        return problem_set(problem, ERR_BADARG, "%s is given twice", cmd->def->params[param].name);
}

int command_set_text(struct command *cmd, size_t param, struct slice text, struct problem *problem)
{
        int r = check_once(cmd, param, problem);
        return r != OK ? r : parse_value(&cmd->def->params[param], text, &cmd->arg[param], problem);
}

int command_set_int(struct command *cmd, size_t param, int64_t value, struct problem *problem)
{
        const struct param_def *p = &cmd->def->params[param];
        int r = check_once(cmd, param, problem);
        if (r == OK && p->type != PARAM_INT && p->type != PARAM_ID)
                r = problem_set(problem, ERR_BADARG, "%s is not a number", p->name);
        if (r == OK)
                r = check_int(p, value, problem);
        if (r != OK)
                return r;
        cmd->arg[param] = (struct arg){.is_set = true, .num = value};
        return OK;
}

int command_set_names(struct command *cmd, size_t param, const struct slice *names, size_t n,
                      struct problem *problem)
{
        const struct param_def *p = &cmd->def->params[param];
        int r = check_once(cmd, param, problem);
        if (r != OK)
                return r;
        if (n < 1 || n > (size_t)p->max)
                return problem_set(problem, n ? ERR_TOOBIG : ERR_BADARG,
                                   "%s takes 1 to %lld names, not %zu", p->name, (long long)p->max,
                                   n);
        for (size_t i = 0; i < n && r == OK; i++)
                r = check_name(p, names[i], problem);
        if (r != OK)
                return r;
        cmd->arg[param].is_set = true;
        cmd->claim.queues = names;
        cmd->claim.n_queues = n;
        return OK;
}

/* ---- one job of a JSON array ---- */

int job_spec_set_text(struct job_spec *spec, size_t param, struct slice text,
                      struct problem *problem)
{
        struct arg arg = {0};
        ASSERT(param < N_ENQUEUE_PARAMS);
        int r = parse_value(&command_table[CMD_ENQUEUE].params[param], text, &arg, problem);
        return r != OK ? r : job_spec_set(spec, param, &arg, problem);
}

int job_spec_set_int(struct job_spec *spec, size_t param, int64_t value, struct problem *problem)
{
        const struct param_def *p = &command_table[CMD_ENQUEUE].params[param];
        struct arg arg = {.is_set = true, .num = value};
        ASSERT(param < N_ENQUEUE_PARAMS);
        if (p->type != PARAM_INT)
                return problem_set(problem, ERR_BADARG, "%s is not a number", p->name);
        int r = check_int(p, value, problem);
        return r != OK ? r : job_spec_set(spec, param, &arg, problem);
}

/* ---- words ---- */

struct words {
        const struct slice *argv;
        size_t argc, at;
        struct arena *arena;
        struct command *cmd;
        struct problem *problem;
};

static int bind_jobs(struct words *w, size_t param)
{
        const struct param_def *p = &w->cmd->def->params[param];
        const struct param_def *enqueue = command_table[CMD_ENQUEUE].params;
        size_t n = w->argc - w->at;
        if (n == 0 || n % 2)
                return problem_set(w->problem, ERR_BADARG,
                                   "jobs takes pairs of hook and args; %zu words were given", n);
        if (n / 2 > (size_t)p->max)
                return problem_set(w->problem, ERR_TOOBIG, "jobs takes at most %lld, not %zu",
                                   (long long)p->max, n / 2);
        struct job_spec *specs = arena_array(w->arena, n / 2, sizeof(*specs));
        if (!specs)
                return problem_set(w->problem, ERR_NOMEM, "no memory for %zu jobs", n / 2);
        for (size_t i = 0; i < n / 2; i++) {
                struct slice hook = w->argv[w->at++], args = w->argv[w->at++];
                int r = check_name(&enqueue[P_ENQUEUE_HOOK], hook, w->problem);
                if (r == OK)
                        r = check_length(&enqueue[P_ENQUEUE_ARGS], args, w->problem);
                if (r != OK)
                        return r;
                job_spec_init(&specs[i]);
                specs[i].hook = hook;
                specs[i].args = args;
        }
        w->cmd->specs = specs;
        w->cmd->n_specs = n / 2;
        w->cmd->arg[param].is_set = true;
        return OK;
}

static int bind_keyword(struct words *w, size_t param)
{
        const struct param_def *p = &w->cmd->def->params[param];
        int r = OK;
        switch (p->type) {
        case PARAM_NAMES:
                r = command_set_names(w->cmd, param, w->argv + w->at, w->argc - w->at, w->problem);
                w->at = w->argc;
                return r;
        case PARAM_JOBS:
                return bind_jobs(w, param);
        case PARAM_CLAIM: /* the words behind it are bound by bind_clause */
                w->cmd->arg[param].is_set = true;
                return OK;
        case PARAM_FLAG:
                return command_set_text(w->cmd, param, SLICE_LIT("true"), w->problem);
        case PARAM_NAME:
        case PARAM_BYTES:
        case PARAM_TEXT:
        case PARAM_INT:
        case PARAM_ID:
        case PARAM_TOKEN:
        case PARAM_STATUS:
        case PARAM_CHOICE:
        case PARAM_IDS:
                break;
        }
        if (w->at == w->argc)
                return problem_set(w->problem, ERR_SYNTAX, "a value is missing after '%s'",
                                   p->name);
        return command_set_text(w->cmd, param, w->argv[w->at++], w->problem);
}

static int find_keyword(const struct command_def *def, struct slice word)
{
        for (size_t i = 0; i < def->n_params; i++)
                if ((def->params[i].flags & PARAM_KEYWORD) && def->params[i].name_len == word.len &&
                    slice_eq_nocase(slice_make(def->params[i].name, word.len), word))
                        return (int)i;
        return -1;
}

/* The parameter that takes this word without its keyword, or -1. */
static int find_bare_word(const struct command_def *def, struct slice word)
{
        for (size_t i = 0; i < def->n_params; i++)
                if (def->params[i].flags & PARAM_BARE_WORD &&
                    find_choice(param_choices(&def->params[i]), word) >= 0)
                        return (int)i;
        return -1;
}

static void put_keyword(const struct param_def *p, struct buf *ret)
{
        for (const char *c = p->name; *c; c++)
                buf_put_byte(ret, (char)(*c - ('a' - 'A')));
}

/* The value of a parameter in a usage line: what may be written there, or a name for it. */
static void put_value(const struct param_def *p, struct buf *ret)
{
        if (p->type == PARAM_CHOICE)
                buf_put_slice(ret, param_choices(p));
        else if (p->type == PARAM_IDS)
                buf_put_str(ret, "id[,id...]");
        else if (p->type == PARAM_NAMES)
                buf_put_str(ret, "name...");
        else if (p->type == PARAM_JOBS)
                buf_put_str(ret, "hook args [hook args ...]");
        else if (p->type == PARAM_CLAIM)
                buf_put_str(ret, "worker MAX n ... QUEUES name...");
        else
                buf_put_str(ret, p->flags & PARAM_KEYWORD && p->type == PARAM_INT ? "n" : p->name);
}

static void put_param(const struct param_def *p, struct buf *ret)
{
        bool is_optional = !(p->flags & PARAM_REQUIRED);
        buf_put_str(ret, is_optional ? " [" : " ");
        buf_put_str(ret, p->flags & PARAM_BARE_WORD ? "[" : "");
        if (p->flags & PARAM_KEYWORD)
                put_keyword(p, ret);
        buf_put_str(ret, p->flags & PARAM_BARE_WORD ? "]" : "");
        if (p->flags & PARAM_KEYWORD && p->type != PARAM_FLAG)
                buf_put_byte(ret, ' ');
        if (p->type != PARAM_FLAG)
                put_value(p, ret);
        buf_put_str(ret, is_optional ? "]" : "");
}

void command_usage(const struct command_def *def, struct buf *ret)
{
        buf_put_str(ret, def->name);
        for (size_t i = 0; i < def->n_params; i++)
                put_param(&def->params[i], ret);
}

/* The same with the options by name only, for an error text that would be cut otherwise. */
static void put_short_usage(const struct command_def *def, struct buf *ret)
{
        struct buf names;
        buf_init(&names, 0);
        buf_put_str(ret, def->name);
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (p->flags & PARAM_REQUIRED || !(p->flags & PARAM_KEYWORD)) {
                        put_param(p, ret);
                        continue;
                }
                buf_put_str(ret, names.len ? "" : " [options]");
                buf_put_byte(&names, ' ');
                put_keyword(p, &names);
        }
        buf_put_str(ret, "; options:");
        buf_put_slice(ret, buf_slice(&names));
        buf_release(&names);
}

static int usage_problem(const struct command_def *def, struct problem *problem, const char *what,
                         struct slice word)
{
        struct buf usage;
        buf_init(&usage, 1024);
        command_usage(def, &usage);
        if (usage.len > USAGE_SAID_MAX) {
                buf_clear(&usage);
                put_short_usage(def, &usage);
        }
        int r = problem_set(problem, ERR_SYNTAX, "%s%s%s%s; usage: %s", what, word.len ? " '" : "",
                            SHOWN(word), word.len ? "'" : "", buf_cstr(&usage));
        buf_release(&usage);
        return r;
}

static int bind_positional(struct words *w)
{
        const struct command_def *def = w->cmd->def;
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (p->flags & PARAM_KEYWORD)
                        continue;
                if (w->at == w->argc) {
                        if (!(p->flags & PARAM_REQUIRED))
                                return OK;
                        return usage_problem(def, w->problem, "too few words", SLICE_NONE);
                }
                /* A word that is a keyword with a value behind it is not an optional argument. */
                if (!(p->flags & PARAM_REQUIRED) && w->argc - w->at > 1 &&
                    find_keyword(def, w->argv[w->at]) >= 0)
                        return OK;
                int r = command_set_text(w->cmd, i, w->argv[w->at++], w->problem);
                if (r != OK)
                        return r;
        }
        return OK;
}

/* All words of one command, up to the keyword that begins a CLAIM clause. */
static int bind_words(struct words *w, bool *ret_has_clause)
{
        const struct command_def *def = w->cmd->def;
        *ret_has_clause = false;
        int r = bind_positional(w);
        while (r == OK && w->at < w->argc && !*ret_has_clause) {
                int param = find_keyword(def, w->argv[w->at]);
                int bare = param < 0 ? find_bare_word(def, w->argv[w->at]) : -1;
                if (bare >= 0) {
                        r = command_set_text(w->cmd, (size_t)bare, w->argv[w->at++], w->problem);
                        continue;
                }
                if (param < 0)
                        return usage_problem(def, w->problem, "not understood:", w->argv[w->at]);
                w->at++;
                *ret_has_clause = def->params[param].type == PARAM_CLAIM;
                r = bind_keyword(w, (size_t)param);
        }
        return r;
}

/* The words that are left are those of a CLAIM, which has no such clause itself. */
static int bind_clause(struct words *w)
{
        struct command claim;
        struct words rest = *w;
        bool has_clause;
        rest.cmd = &claim;
        command_init(&claim, &command_table[CMD_CLAIM]);
        int r = bind_words(&rest, &has_clause);
        if (r == OK)
                r = command_finish(&claim, w->arena, w->problem);
        if (r != OK)
                return r;
        w->cmd->claim = claim.claim;
        w->cmd->has_claim = true;
        return OK;
}

int command_bind_argv(const struct command_def *def, const struct slice *argv, size_t argc,
                      struct arena *arena, struct command *ret, struct problem *problem)
{
        struct words w = {argv, argc, 0, arena, ret, problem};
        bool has_clause;
        command_init(ret, def);
        int r = bind_words(&w, &has_clause);
        if (r == OK && has_clause)
                r = bind_clause(&w);
        return r != OK ? r : command_finish(ret, arena, problem);
}

/* ---- the whole ---- */

static int check_presence(const struct command *cmd, struct problem *problem)
{
        const char *exclusive = NULL;
        for (size_t i = 0; i < cmd->def->n_params; i++) {
                const struct param_def *p = &cmd->def->params[i];
                if (param_is_needed(p) && !cmd->arg[i].is_set)
                        return problem_set(problem, ERR_BADARG, "%s is missing", p->name);
                if (!(p->flags & PARAM_EXCLUSIVE) || !cmd->arg[i].is_set)
                        continue;
                if (exclusive)
                        return problem_set(problem, ERR_BADARG, "%s and %s cannot both be given",
                                           exclusive, p->name);
                exclusive = p->name;
        }
        return OK;
}

static int finish_enqueue(struct command *cmd, struct arena *arena, struct problem *problem)
{
        bool is_many = cmd->specs != NULL;
        size_t shift = is_many ? P_ENQUEUE_QUEUE - P_ENQUEUEMANY_QUEUE : 0;
        size_t n_options = is_many ? cmd->def->n_params - 1 : cmd->def->n_params;
        if (!is_many) {
                cmd->specs = arena_alloc(arena, sizeof(*cmd->specs));
                if (!cmd->specs)
                        return problem_set(problem, ERR_NOMEM, "no memory for a job");
                cmd->n_specs = 1;
                job_spec_init(cmd->specs);
        }
        cmd->is_many = is_many;
        int r = OK;
        for (size_t p = 0; p < n_options; p++)
                for (size_t i = 0; cmd->arg[p].is_set && i < cmd->n_specs && r == OK; i++)
                        r = job_spec_set(&cmd->specs[i], p + shift, &cmd->arg[p], problem);
        for (size_t i = 0; i < cmd->n_specs && r == OK; i++)
                r = job_spec_finish(&cmd->specs[i], problem);
        return r;
}

static void finish_claim(struct command *cmd)
{
        cmd->claim.worker = cmd->arg[P_CLAIM_WORKER].text;
        if (cmd->arg[P_CLAIM_MAX].is_set)
                cmd->claim.max = (uint32_t)cmd->arg[P_CLAIM_MAX].num;
        cmd->claim.wait_ms = (uint32_t)cmd->arg[P_CLAIM_WAIT].num;
        cmd->claim.lease_ms = (uint32_t)cmd->arg[P_CLAIM_LEASE].num;
        cmd->has_claim = true;
}

int command_finish(struct command *cmd, struct arena *arena, struct problem *problem)
{
        int r = check_presence(cmd, problem);
        if (r != OK)
                return r;
        if (cmd->def->id == CMD_ENQUEUE || cmd->def->id == CMD_ENQUEUEMANY)
                return finish_enqueue(cmd, arena, problem);
        if (cmd->def->id == CMD_CLAIM)
                finish_claim(cmd);
        return OK;
}
