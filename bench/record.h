/* What became of each JSON job, for those who ask the server about it later: a file that begins
 * with a line of the hooks' names, and has a row for each id from 1 on, in the machine's byte
 * order.
 *
 * Threads: one.  Failures end the program. */
#ifndef WEIR_BENCH_RECORD_H
#define WEIR_BENCH_RECORD_H

#include <stdint.h>

struct record_row {
        uint32_t number;
        uint16_t hook;   /* index of its name */
        uint16_t shop;   /* of its group, shop-000 to shop-499 */
        uint16_t worker; /* w0, w1, ... */
        uint16_t end;    /* enum json_end; RECORD_NONE: no such job */
};

#define RECORD_NONE UINT16_MAX

struct record;

struct record *record_open(const char *path);
void record_job(struct record *r, uint64_t id, uint32_t number, unsigned worker);
void record_close(struct record *r); /* writes it */

#endif
