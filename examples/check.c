/* Work that asks weir before each step.
 *
 *      cc check.c -o check $(pkg-config --cflags --libs libweir)
 *      WEIR_URL=127.0.0.1:7379 ./check purge-orders:nightly 1000
 *
 * Takes as many steps as it is told, here a line each where yours would delete some rows or copy
 * some; then says how often it had to ask for them. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir.h>

static volatile sig_atomic_t is_stopping;

static void on_stop(int signal_number)
{
        (void)signal_number;
        is_stopping = 1;
}

static void do_step(long n)
{
        printf("step %ld\n", n);
}

/* Why the step does not go, for whoever looks at the log. */
static void tell(const struct weir *w, const struct weir_answer *a)
{
        if (a->source == WEIR_FROM_POLICY)
                fprintf(stderr, "check: %s\n", weir_message(w));
        else if (a->metric[0])
                fprintf(stderr, "check: not now, %s: %s is %g, its threshold %g\n", a->reason,
                        a->metric, a->value, a->threshold);
        else
                fprintf(stderr, "check: not now, %s\n", a->reason);
}

int main(int argc, char **argv)
{
        struct weir_ask ask = {.identity = argc > 1 ? argv[1] : "check:example"};
        long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 100;
        struct weir_answer answer;
        struct weir *w;

        /* A purge can wait a while for its gatekeeper, and must not wait for ever. */
        int error = weir_new(NULL, WEIR_WAIT_THEN_OPEN, &w);
        if (error) {
                fprintf(stderr, "check: %s\n", weir_strerror(error));
                return 2;
        }
        weir_set(w, WEIR_SET_INTERRUPTIBLE, 1); /* Ctrl-C is heard while it waits, too */
        signal(SIGINT, on_stop);
        signal(SIGTERM, on_stop);

        for (long n = 0; n < steps && !is_stopping;) {
                if (weir_step_ask(w, &ask, &answer) == WEIR_GO)
                        do_step(++n);
                else
                        tell(w, &answer);
        }
        printf("%" PRIu64 " steps, %" PRIu64 " asks\n", weir_count(w, WEIR_COUNT_STEPS),
               weir_count(w, WEIR_COUNT_ASKS));
        weir_free(w);
        return is_stopping ? 1 : 0;
}
