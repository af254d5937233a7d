/* How many processors a database server has, as it tells them.
 *
 * What a server says is checked: a text that is not understood, or a number out of range, is 0, not
 * known. */
#ifndef WEIR_PROBE_CORES_H
#define WEIR_PROBE_CORES_H

#include "base/slice.h"

#define CORES_MAX 1024

/* A number ("16", thread_pool_size of MariaDB) or a list of numbers and ranges ("0-3,8", VCPU_IDS
 * of MySQL)? */
enum cores_form { CORES_NUMBER, CORES_LIST };
/* 1 to CORES_MAX; 0: not known. */
unsigned cores_read(struct slice text, enum cores_form form);

#endif
