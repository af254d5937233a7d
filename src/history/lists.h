/* What passes between the loop and the threads of history: jobs as an array of pointers, which is
 * handed over by swapping it for an empty one, and queries as a chain. */
#ifndef WEIR_HISTORY_LISTS_H
#define WEIR_HISTORY_LISTS_H

#include "core/archive.h"

struct job_list {
        struct job **jobs; /* from malloc */
        size_t len, cap;
};

void job_list_add(struct job_list *l, struct job *const *jobs, size_t n);
void job_list_swap(struct job_list *a, struct job_list *b);

/* The longest waiting first. */
struct query_list {
        struct archive_query *first, **end;
};

void query_list_init(struct query_list *l);
void query_list_push(struct query_list *l, struct archive_query *q);
struct archive_query *query_list_pop(struct query_list *l);  /* NULL: empty */
struct archive_query *query_list_take(struct query_list *l); /* all, chained by next */

#endif
