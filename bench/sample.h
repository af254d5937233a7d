/* What a measurement reads before and after: the clock, the CPU time of the server and of the
 * generator, the disk's counters; and how the difference is printed.  Shared by both generators.
 *
 * Threads: any; nothing is kept. */
#ifndef WEIR_BENCH_SAMPLE_H
#define WEIR_BENCH_SAMPLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sample {
        int64_t at_ns;              /* monotonic */
        int64_t server_ns, self_ns; /* CPU time, all threads */
        uint64_t flushes, sectors;  /* of the disk, since boot */
};

/* pid 0: no server is asked; disk "": no disk. */
void sample_take(pid_t pid, const char *disk, struct sample *ret);
void sample_find_disk(const char *dir, char *ret, size_t size); /* its file in /sys */
/* The members every result has, from the brace on; the caller prints the others and closes. */
void sample_print(const char *work, uint64_t ops, const struct sample *a, const struct sample *b);

int64_t now_ns(void);
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);

#endif
