/* Lets cron_oracle.py ask base/cron and base/tz: a question a line, an answer a line.
 *
 *      zone NAME               sets the zone; answers its name
 *      due FROM UNTIL CRON     due times in [FROM, UNTIL), all in Unix seconds
 *      offset S...             local - utc at instants
 *      utc S...                instant/kind of local times; kind is u, s or r
 *
 * What is refused is answered with "! " and the detail. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cron.h"
#include "base/tz.h"

static const struct tz *zone;

static void answer_zone(const char *name)
{
        struct problem p;

        if (tz_open(slice_str(name), &zone, &p))
                (void)printf("! %s", p.detail);
        else
                (void)printf("%s", tz_name(zone));
}

static void answer_due(char *rest)
{
        struct problem p;
        struct cron c;
        long long from = strtoll(rest, &rest, 10), until = strtoll(rest, &rest, 10);

        if (cron_parse(slice_str(rest), &c, &p)) {
                (void)printf("! %s", p.detail);
                return;
        }
        for (int64_t at = cron_next(&c, zone, from * MS_PER_S - 1); at < until * MS_PER_S;
             at = cron_next(&c, zone, at))
                (void)printf("%lld ", (long long)(at / MS_PER_S));
}

static void answer_offset(char *rest)
{
        for (char *end;; rest = end) {
                long long at = strtoll(rest, &end, 10);
                if (end == rest)
                        return;
                (void)printf("%lld ", (long long)(tz_to_local(zone, at) - at));
        }
}

static void answer_utc(char *rest)
{
        for (char *end;; rest = end) {
                enum tz_kind kind;
                long long local = strtoll(rest, &end, 10);
                if (end == rest)
                        return;
                long long at = tz_to_utc(zone, local, &kind);
                (void)printf("%lld/%c ", at, "usr"[kind]);
        }
}

int main(void)
{
        char *line = NULL;
        size_t size = 0;

        zone = tz_utc();
        for (ssize_t n; (n = getline(&line, &size, stdin)) > 0;) {
                if (line[n - 1] == '\n')
                        line[n - 1] = '\0';
                char *space = strchr(line, ' ');
                char *rest = space ? space + 1 : line + strlen(line);
                if (strncmp(line, "zone ", 5) == 0)
                        answer_zone(rest);
                else if (strncmp(line, "due ", 4) == 0)
                        answer_due(rest);
                else if (strncmp(line, "offset ", 7) == 0)
                        answer_offset(rest);
                else
                        answer_utc(rest);
                (void)putchar('\n');
                (void)fflush(stdout);
        }
        free(line);
        return 0;
}
