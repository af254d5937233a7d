/* The HTTP contract of Vitess's tablet throttler on weir's targets and rules.  See
 * docs/vitess.md. */
#ifndef WEIR_DOOR_VITESS_H
#define WEIR_DOOR_VITESS_H

#include "door/contract.h"

extern const struct contract_route vitess_routes[];
extern const size_t vitess_routes_len;

#endif
