#include "cli/import_batch.h"

#include <stdlib.h>

#include "cli/listing.h"

struct import_batch {
        struct hash_node node;
        struct list link;
        uint64_t total;
        const char *then;
        bool is_made;
        size_t len;
        char name[];
};

void import_batches_init(struct import_batches *b)
{
        *b = (struct import_batches){0};
        hash_init(&b->by_name, 1);
        list_init(&b->all);
}

void import_batches_release(struct import_batches *b)
{
        LIST_FOREACH(&b->all, it)
        {
                free(CONTAINER_OF(it, struct import_batch, link));
        }
        hash_release(&b->by_name);
}

static struct import_batch *find(const struct import_batches *b, struct slice name)
{
        struct hash_node *n = hash_find(&b->by_name, name);
        return n ? CONTAINER_OF(n, struct import_batch, node) : NULL;
}

void import_batches_add(struct import_batches *b, struct slice name, uint64_t total,
                        const char *then, bool is_made)
{
        if (find(b, name)) /* the second one was refused */
                return;
        struct import_batch *one = xcalloc(1, sizeof(*one) + name.len + 1);
        one->total = total;
        one->then = then;
        one->is_made = is_made;
        one->len = name.len;
        memcpy(one->name, name.ptr ? name.ptr : "", name.len);
        hash_insert(&b->by_name, &one->node, slice_make(one->name, name.len));
        list_push_back(&b->all, &one->link);
}

bool import_batches_is_lost(const struct import_batches *b, struct slice name)
{
        const struct import_batch *one = find(b, name);
        return one && !one->is_made;
}

static int finish_one(struct import_batches *b, const struct import_batch *one, struct cli *cli,
                      struct problem *p)
{
        const struct slice name = slice_make(one->name, one->len);
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "BATCHSTATE");
        cli_request_add(&req, name);
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK) /* with --once it may have been made, finished and removed long ago */
                return r == ERR_NOTFOUND ? OK : r;
        uint64_t there = (uint64_t)field_int(v, "total");
        if (there < one->total) {
                buf_put_str(&cli->notes, "weir: the batch ");
                text_put_safe(&cli->notes, name);
                buf_printf(
                        &cli->notes,
                        " stays open: %llu of its %llu jobs came; 'weir batch close' closes it\n",
                        (unsigned long long)there, (unsigned long long)one->total);
                b->open++;
                return OK;
        }
        cli_request_init(&req, one->then);
        cli_request_add(&req, name);
        return cli_request_call(cli, &req, &v, p);
}

int import_batches_finish(struct import_batches *b, struct cli *cli, struct problem *p)
{
        int r = OK;
        for (struct list *it = b->all.next; it != &b->all && r == OK; it = it->next) {
                const struct import_batch *one = CONTAINER_OF(it, struct import_batch, link);
                if (one->is_made && one->then)
                        r = finish_one(b, one, cli, p);
        }
        return r;
}
