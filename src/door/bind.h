/* From an HTTP request's path, query and JSON body to a struct command, by its row. */
#ifndef WEIR_DOOR_BIND_H
#define WEIR_DOOR_BIND_H

#include "api/command.h"
#include "wire/json.h"

/* The parameters in the address: still percent-escaped. */
#define BIND_PATH_MAX 2
struct bind_path {
        struct slice name, value;
};

struct bind_request {
        const struct bind_path *path;
        size_t n_path;
        struct slice query; /* without '?' */
        bool has_body;
        struct slice body;
};

/* Borrows from the request and the arena.  An array sent to ENQUEUE becomes ENQUEUEMANY. */
int bind_command(const struct command_def *def, const struct bind_request *request,
                 struct arena *arena, struct command *ret, struct problem *problem) MUST_CHECK;

#endif
