#include "history/lists.h"

#include <string.h>

void job_list_add(struct job_list *l, struct job *const *jobs, size_t n)
{
        ASSERT(l->len <= l->cap);
        if (!n)
                return;
        if (l->cap - l->len < n) {
                size_t cap = l->cap ? l->cap : 256;
                while (cap - l->len < n)
                        cap *= 2;
                l->jobs = xrealloc(l->jobs, cap * sizeof(struct job *));
                l->cap = cap;
        }
        memcpy(l->jobs + l->len, jobs, n * sizeof(struct job *));
        l->len += n;
}

void job_list_swap(struct job_list *a, struct job_list *b)
{
        struct job_list was = *a;
        *a = *b;
        *b = was;
}

void query_list_init(struct query_list *l)
{
        *l = (struct query_list){.end = &l->first};
}

void query_list_push(struct query_list *l, struct archive_query *q)
{
        ASSERT(!*l->end);
        q->next = NULL;
        *l->end = q;
        l->end = &q->next;
}

struct archive_query *query_list_pop(struct query_list *l)
{
        struct archive_query *q = l->first;
        if (!q)
                return NULL;
        l->first = q->next;
        if (!l->first)
                l->end = &l->first;
        q->next = NULL;
        return q;
}

struct archive_query *query_list_take(struct query_list *l)
{
        struct archive_query *first = l->first;
        query_list_init(l);
        return first;
}
