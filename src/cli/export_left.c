/* Notes about what an export does not move: things that end with the old weir, and things that
 * start anew in the new one.  An export of some kinds has notes about those kinds only. */
#include "cli/export_left.h"

#include "base/plural.h"
#include "cli/listing.h"

static uint64_t count_holders(const struct value *lock)
{
        return (uint64_t)field_int(lock, "held");
}

static uint64_t count_open(const struct value *breaker)
{
        return !field_is(breaker, "state", "closed");
}

static uint64_t count_used(const struct value *limit)
{
        return field_int(limit, "used") > 0;
}

static const struct {
        const char *plural; /* told when these are exported; NULL: when everything is */
        const char *command;
        const char *key; /* as in struct kind */
        uint64_t (*count)(const struct value *row);
        const char *one, *many;
} lists[] = {
        {NULL, "LOCKS", "locks", count_holders, "holder of a lock: locks end with the old weir",
         "holders of locks: locks end with the old weir"},
        {"breakers", "BREAKERS", NULL, count_open, "breaker that is not closed: it starts closed",
         "breakers that are not closed: they start closed"},
        {"limits", "LIMITS", NULL, count_used, "limit of which a part is used: it starts unused",
         "limits of which a part is used: they start unused"},
};

static void put_left(struct buf *notes, uint64_t n, const char *one, const char *many)
{
        if (n)
                buf_printf(notes, "left behind: %llu %s\n", (unsigned long long)n,
                           plural(n, one, many));
}

/* ERR_UNKNOWN, here and below: an older server does not have the command. */
static int put_list(struct buf *notes, struct cli *cli, size_t i, struct problem *p)
{
        struct buf cursor CLEANUP(buf_release) = {0};
        uint64_t sum = 0;
        do {
                struct cli_request req;
                const struct value *v;
                cli_request_init(&req, lists[i].command);
                if (cursor.len) {
                        cli_request_add_str(&req, "CURSOR");
                        cli_request_add(&req, buf_slice(&cursor));
                }
                int r = cli_request_call(cli, &req, &v, p);
                if (r != OK)
                        return r == ERR_UNKNOWN ? OK : r;
                const struct value *rows = lists[i].key ? value_get(v, lists[i].key) : v;
                for (size_t k = 0; k < list_len(rows); k++)
                        sum += lists[i].count(&rows->items[k]);
                buf_clear(&cursor);
                if (lists[i].key)
                        buf_put_slice(&cursor, field_text(v, "cursor"));
        } while (cursor.len);
        put_left(notes, sum, lists[i].one, lists[i].many);
        return OK;
}

/* The pause of the throttle, and history. */
static int put_rest(struct buf *notes, struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        uint64_t n = 0;
        cli_request_init(&req, "THROTTLESTATUS");
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK && r != ERR_UNKNOWN)
                return r;
        if (r == OK && field_is_true(v, "paused"))
                buf_put_str(notes, "left behind: the pause of the throttle\n");
        cli_request_init(&req, "JOBCOUNTS");
        r = cli_request_call(cli, &req, &v, p);
        if (r == OK)
                n = (uint64_t)(field_int(v, "complete") + field_int(v, "failed") +
                               field_int(v, "canceled"));
        put_left(notes, n, "finished job: history does not move, 'weir backup' has it",
                 "finished jobs: history does not move, 'weir backup' has it");
        return r == ERR_UNKNOWN ? OK : r;
}

static void put_jobs(struct buf *notes, const struct left_jobs *jobs)
{
        static const struct {
                size_t at;
                const char *one, *many;
        } rows[] = {
                {offsetof(struct left_jobs, running),
                 "job runs: in the new weir it waits again, with all its attempts; stop its worker "
                 "first, or it may run twice",
                 "jobs run: in the new weir they wait again, with all their attempts; stop their "
                 "workers first, or they may run twice"},
                {offsetof(struct left_jobs, unbatched),
                 "job is written without its batch: only an export of all jobs and batches has "
                 "both",
                 "jobs are written without their batch: only an export of all jobs and batches has "
                 "both"},
                {offsetof(struct left_jobs, scheduled),
                 "job was made by a schedule: the new weir does not know that, so it may overlap",
                 "jobs were made by schedules: the new weir does not know that, so they may "
                 "overlap"},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                uint64_t n = *(const uint64_t *)((const char *)jobs + rows[i].at);
                if (n)
                        buf_printf(notes, "%llu %s\n", (unsigned long long)n,
                                   plural(n, rows[i].one, rows[i].many));
        }
}

int left_put(struct buf *notes, struct cli *cli, const struct left_jobs *jobs,
             bool (*is_only)(const struct args *args, const char *plural), struct problem *p)
{
        bool is_all = !args_has(&cli->args, "only");
        int r = OK;
        put_jobs(notes, jobs);
        for (size_t i = 0; i < n_kinds; i++)
                put_left(notes, jobs->kinds[i], kinds[i].left_one, kinds[i].left_many);
        for (size_t i = 0; i < ARRAY_LEN(lists) && r == OK; i++)
                if (lists[i].plural ? is_only(&cli->args, lists[i].plural) : is_all)
                        r = put_list(notes, cli, i, p);
        return r == OK && is_all ? put_rest(notes, cli, p) : r;
}
