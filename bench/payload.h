/* The second payload of `make bench`: JSON as a shop writes it.  The first one, a constant text,
 * compresses to almost nothing.  There are six templates of about 200 bytes with names, mail
 * addresses, numbers and UUIDs.  Each has a hook of its own, and a job belongs to one of 500 shops.
 * Half of the jobs end with a result, 2 % fail with an error text.
 *
 * All of it follows from the job's number, which stands where every payload has it
 * (NUMBER_OFFSET).  So a payload that comes back is written again and compared byte for byte.
 *
 * Threads: any; nothing is kept. */
#ifndef WEIR_BENCH_PAYLOAD_H
#define WEIR_BENCH_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#define JSON_MAX   320 /* bytes of args, a result or an error */
#define JSON_HOOKS 6
#define JSON_SHOPS 500

enum json_end { JSON_PLAIN, JSON_RESULT, JSON_FAILED };

const char *json_hook_name(unsigned hook);
unsigned json_hook(uint32_t number); /* 0..JSON_HOOKS-1 */
unsigned json_shop(uint32_t number); /* 0..JSON_SHOPS-1 */
size_t json_args(uint32_t number, char ret[JSON_MAX]);
enum json_end json_end(uint32_t number);
size_t json_outcome(uint32_t number, char ret[JSON_MAX]); /* the result or the error */

#endif
