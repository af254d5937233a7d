/* Intrusive doubly-linked list.  A node not on a list has next == NULL. */
#ifndef WEIR_BASE_LIST_H
#define WEIR_BASE_LIST_H

#include "base/defs.h"

struct list {
        struct list *next, *prev;
};

static inline void list_init(struct list *head)
{
        head->next = head->prev = head;
}

static inline bool list_is_empty(const struct list *head)
{
        return head->next == head;
}

static inline bool list_is_linked(const struct list *node)
{
        return node->next != NULL;
}

static inline void list_insert_before(struct list *at, struct list *node)
{
        node->next = at;
        node->prev = at->prev;
        at->prev->next = node;
        at->prev = node;
}

static inline void list_push_back(struct list *head, struct list *node)
{
        list_insert_before(head, node);
}

static inline void list_remove(struct list *node)
{
        node->prev->next = node->next;
        node->next->prev = node->prev;
        node->next = node->prev = NULL;
}

static inline struct list *list_peek_front(const struct list *head)
{
        return list_is_empty(head) ? NULL : head->next;
}

#define LIST_FOREACH(head, it)                                                                     \
        for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                  \
             it = it##_next, it##_next = it->next)

#endif
