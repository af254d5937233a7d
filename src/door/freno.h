/* freno's HTTP contract on weir's targets and rules.  See docs/freno.md. */
#ifndef WEIR_DOOR_FRENO_H
#define WEIR_DOOR_FRENO_H

#include "door/contract.h"

extern const struct contract_route freno_routes[];
extern const size_t freno_routes_len;

/* {"StatusCode":400,"Message":"..."}, for requests that reach no function of their own. */
void freno_refuse(struct contract_call *call, int status, const char *message);

#endif
