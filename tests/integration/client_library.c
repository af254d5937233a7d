/* A program that uses libweir, told line by line what to do; client_library.py is the other end.
 *
 *      client_library URL open|closed|hold [SETTING=VALUE ...]
 *
 *      step IDENTITY COST MS       weir_step_ask, in at most so many ms (0: the setting)
 *      check IDENTITY MS           weir_check, with so many ms for weir to wait
 *      loop IDENTITY STEPS US      so many steps, each with so many us of work; then as `counts`
 *      threads IDENTITY STEPS      eight threads with a handle each take so many steps each
 *      counts                      every counter
 *
 * A step or a check is answered with: verdict source error reason value us message. */
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weir.h"

#define THREADS 8

static const char *url;
static enum weir_policy policy;

static long long now_us(void)
{
        struct timespec ts;

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

static void tell(const struct weir *w, const struct weir_answer *a, long long us)
{
        printf("%d %d %d %s %.3f %lld %s\n", a->verdict, a->source, a->error,
               a->reason[0] ? a->reason : "-", a->value, us, weir_message(w));
}

static void tell_counts(const struct weir *w)
{
        for (int c = WEIR_COUNT_STEPS; c <= WEIR_COUNT_FAILURES; c++)
                printf("%llu%c", (unsigned long long)weir_count(w, (enum weir_counter)c),
                       c == WEIR_COUNT_FAILURES ? '\n' : ' ');
}

static void work(long us)
{
        struct timespec ts = {us / 1000000, us % 1000000 * 1000};

        if (us)
                (void)nanosleep(&ts, NULL);
}

static long loop(struct weir *w, const char *identity, long steps, long us)
{
        long went = 0;

        for (long i = 0; i < steps; i++)
                if (weir_step(w, identity, 1) == WEIR_GO) {
                        went++;
                        work(us);
                }
        return went;
}

struct crew {
        const char *identity;
        long steps, went;
};

static void *crew_run(void *arg)
{
        struct crew *c = arg;
        struct weir *w;

        if (weir_new(url, policy, &w) == WEIR_OK)
                c->went = loop(w, c->identity, c->steps, 0);
        weir_free(w);
        return NULL;
}

static void threads(const char *identity, long steps)
{
        struct crew crew[THREADS];
        pthread_t thread[THREADS];
        long went = 0;

        for (int i = 0; i < THREADS; i++) {
                crew[i] = (struct crew){.identity = identity, .steps = steps};
                if (pthread_create(&thread[i], NULL, crew_run, &crew[i]) != 0)
                        abort();
        }
        for (int i = 0; i < THREADS; i++) {
                (void)pthread_join(thread[i], NULL);
                went += crew[i].went;
        }
        printf("%ld\n", went);
}

static void obey(struct weir *w, const char *line)
{
        char word[16] = "", identity[300] = "";
        long a = 0, b = 0;
        struct weir_answer answer;
        long long begin_us = now_us();

        (void)sscanf(line, "%15s %299s %ld %ld", word, identity, &a, &b);
        if (strcmp(word, "step") == 0) {
                const struct weir_ask ask = {
                        .identity = identity, .cost = (uint32_t)a, .wait_ms = (uint32_t)b};
                (void)weir_step_ask(w, &ask, &answer);
                tell(w, &answer, now_us() - begin_us);
        } else if (strcmp(word, "check") == 0) {
                const struct weir_ask ask = {.identity = identity, .wait_ms = (uint32_t)a};
                (void)weir_check(w, &ask, &answer);
                tell(w, &answer, now_us() - begin_us);
        } else if (strcmp(word, "loop") == 0) {
                (void)loop(w, identity, a, b);
                tell_counts(w);
        } else if (strcmp(word, "threads") == 0) {
                threads(identity, a);
        } else {
                tell_counts(w);
        }
        (void)fflush(stdout);
}

int main(int argc, char **argv)
{
        char line[512];
        struct weir *w;

        (void)setlocale(LC_CTYPE, "");
        (void)setlocale(LC_NUMERIC, "");
        if (argc < 3)
                return 2;
        url = argv[1][0] ? argv[1] : NULL;
        policy = argv[2][0] == 'o' ? WEIR_OPEN : WEIR_CLOSED;
        if (argv[2][0] == 'h')
                policy = WEIR_WAIT_THEN_OPEN;
        int error = weir_new(url, policy, &w);
        if (error) {
                printf("%s\n", weir_strerror(error));
                return 1;
        }
        for (int i = 3; i < argc; i++) {
                unsigned setting, value;
                if (sscanf(argv[i], "%u=%u", &setting, &value) != 2 ||
                    weir_set(w, (enum weir_setting)setting, value) != WEIR_OK)
                        return 2;
        }
        while (fgets(line, sizeof(line), stdin))
                obey(w, line);
        weir_free(w);
        return 0;
}
