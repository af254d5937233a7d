/* Probes and calls of the system that do not come back: a disk that is gone, a name server that is
 * silent.  Both calls are this file's own here, for paths and names that begin with "stuck". */
#include "probe_box.h"

#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define SHORT_MS 1000 /* what is not stuck answers before */

static sem_t let_go;
static atomic_int n_stuck; /* calls that came and have not gone */

static void get_stuck(void)
{
        atomic_fetch_add(&n_stuck, 1);
        while (sem_wait(&let_go) != 0)
                ;
        atomic_fetch_sub(&n_stuck, 1);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int statvfs(const char *restrict path, struct statvfs *restrict ret)
{
        if (strncmp(path, "/stuck", 6) == 0)
                get_stuck();
        *ret = (struct statvfs){.f_blocks = 100, .f_bfree = 50, .f_bavail = 50};
        return 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
        if (strncmp(name, "stuck", 5) != 0) {
                int (*real)(const char *, const char *, const struct addrinfo *,
                            struct addrinfo **);
                *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
                return real(name, service, hints, ret);
        }
        get_stuck();
        return EAI_AGAIN;
}

static void set_up(void)
{
        assert_int_equal(sem_init(&let_go, 0, 0), 0);
        atomic_store(&n_stuck, 0);
}

/* The newest sample of each metric after `ticks` more ticks. */
static void after_ticks(struct probe *p, struct ear *ear, size_t ticks, size_t n,
                        struct probe_sample *ret)
{
        struct probe_sample got[8];
        assert_true(ear_wait(ear, ear_count(ear) + ticks, EAR_MS));
        assert_int_equal(probe_take(p, got, ARRAY_LEN(got)), n);
        for (size_t i = 0; i < n; i++)
                ret[got[i].metric] = got[i];
}

static void a_disk_that_is_gone_is_asked_once_and_costs_no_other_its_value(void **unused)
{
        (void)unused;
        char gone[] = "disk_used:/stuck", fine[] = "disk_used:/fine";
        struct probe_metric metrics[] = {{.name = "gone", .source = gone},
                                         {.name = "fine", .source = fine}};
        struct probe_options o = host(metrics, 2);
        struct probe_sample s[2];
        struct ear ear;
        set_up();
        o.timeout_ms = SHORT_MS;
        struct probe *p = start(&o, &ear);
        after_ticks(p, &ear, 8, 2, s);
        assert_true(s[0].is_error);
        assert_string_equal(s[0].error, "/stuck: the file system does not answer");
        assert_string_equal(s[1].error, "");
        assert_true(s[1].value == 50);
        assert_int_equal(atomic_load(&n_stuck), 1);
        for (int i = 0; i < 1000; i++)
                sem_post(&let_go); /* it is back */
        do {
                after_ticks(p, &ear, 1, 2, s);
        } while (s[0].is_error);
        assert_true(s[0].value == 50);
        assert_null(probe_stop(p));
}

static void a_disk_that_is_gone_does_not_hold_the_end_up(void **unused)
{
        (void)unused;
        char gone[] = "disk_used:/stuck";
        struct probe_metric metric = {.name = "gone", .source = gone};
        struct probe_options o = host(&metric, 1);
        struct probe_sample s;
        struct ear ear;
        set_up();
        o.timeout_ms = SHORT_MS;
        struct probe *p = start(&o, &ear);
        after_ticks(p, &ear, 2, 1, &s);
        assert_true(s.is_error);
        assert_null(probe_stop(p)); /* and what the call still writes to stays: see asan */
        sem_post(&let_go);
        while (atomic_load(&n_stuck))
                (void)sched_yield();
}

static void a_name_that_nobody_tells_is_an_error_in_time_and_rests(void **unused)
{
        (void)unused;
        char source[] = "json:depth", url[] = "http://stuck.example/";
        struct probe_metric metric = {.name = "depth", .source = source};
        struct probe_options o = host(&metric, 1);
        struct probe_sample s;
        struct ear ear;
        set_up();
        o.kind = PROBE_HTTP;
        o.url = url;
        o.timeout_ms = SHORT_MS;
        struct probe *p = start(&o, &ear);
        after_ticks(p, &ear, 8, 1, &s);
        assert_true(s.is_error);
        assert_string_equal(s.error, "the name of the server could not be looked up in time");
        assert_int_equal(atomic_load(&n_stuck), 1);
        assert_null(probe_stop(p));
        sem_post(&let_go);
        while (atomic_load(&n_stuck))
                (void)sched_yield();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_disk_that_is_gone_is_asked_once_and_costs_no_other_its_value),
                cmocka_unit_test(a_disk_that_is_gone_does_not_hold_the_end_up),
                cmocka_unit_test(a_name_that_nobody_tells_is_an_error_in_time_and_rests),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
