#include "record.h"

#include <stdio.h>
#include <stdlib.h>

#include "payload.h"
#include "sample.h"

#define IDS_MAX (1u << 27)

struct record {
        FILE *file;
        struct record_row *rows; /* of ids from 1 on */
        size_t n, cap;
};

struct record *record_open(const char *path)
{
        struct record *r = calloc(1, sizeof(*r));
        if (!r)
                die("out of memory");
        r->file = fopen(path, "we");
        if (!r->file)
                die("cannot write %s", path);
        return r;
}

void record_job(struct record *r, uint64_t id, uint32_t number, unsigned worker)
{
        if (id > IDS_MAX)
                die("the id %llu is too large to be recorded", (unsigned long long)id);
        if (id > r->cap) {
                r->cap = id * 2;
                r->rows = realloc(r->rows, r->cap * sizeof(*r->rows));
                if (!r->rows)
                        die("out of memory");
        }
        while (r->n < id)
                r->rows[r->n++] = (struct record_row){.end = RECORD_NONE};
        r->rows[id - 1] = (struct record_row){
                .number = number,
                .hook = (uint16_t)json_hook(number),
                .shop = (uint16_t)json_shop(number),
                .worker = (uint16_t)worker,
                .end = (uint16_t)json_end(number),
        };
}

void record_close(struct record *r)
{
        for (unsigned i = 0; i < JSON_HOOKS; i++)
                fprintf(r->file, "%s%c", json_hook_name(i), i + 1 < JSON_HOOKS ? ' ' : '\n');
        if (fwrite(r->rows, sizeof(*r->rows), r->n, r->file) != r->n || fclose(r->file) != 0)
                die("cannot write the record");
        free(r->rows);
        free(r);
}
