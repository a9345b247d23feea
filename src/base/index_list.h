/*
 * Lists of an array's entries, linked by index. A link is the entry's index + 1, and 0 is the end,
 * so zeroed memory is an empty list, and the array may move (realloc).
 *
 * A chain has one link in each entry: adding is at the front, removing walks to the entry. A list
 * has two, next and previous: adding is anywhere, removing does not walk. The entries hold the
 * links; INDEX_LINKS says in which member. Nothing here allocates or locks.
 *
 *     struct slot { struct index_node by_time; ... } *slots;
 *     index_list_append(&list, INDEX_LINKS(slots, by_time), index);
 */
#ifndef SLUICE_BASE_INDEX_LIST_H
#define SLUICE_BASE_INDEX_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

/* The member of each entry of an array that links it: a uint32_t (chain) or a struct index_node. */
struct index_links {
    void *first;
    size_t stride;
};
#define INDEX_LINKS(array, member) ((struct index_links){&(array)[0].member, sizeof((array)[0])})

static inline void *index_links_at(struct index_links links, uint32_t index)
{
    return (char *)links.first + (size_t)index * links.stride;
}

/* ---- chains: the head and each entry have one link ---- */

static inline void index_chain_add(uint32_t *head, struct index_links links, uint32_t index)
{
    *(uint32_t *)index_links_at(links, index) = *head;
    *head = index + 1;
}

/* Of a chain that has the entry. */
static inline void index_chain_remove(uint32_t *head, struct index_links links, uint32_t index)
{
    uint32_t *link = head;
    while (*link != index + 1) {
        CHECK(*link != 0);
        link = index_links_at(links, *link - 1);
    }
    *link = *(uint32_t *)index_links_at(links, index);
}

static inline void index_chain_reverse(uint32_t *head, struct index_links links)
{
    uint32_t reversed = 0;
    for (uint32_t link = *head; link != 0;) {
        uint32_t *next = index_links_at(links, link - 1);
        uint32_t rest = *next;
        *next = reversed;
        reversed = link;
        link = rest;
    }
    *head = reversed;
}

/* ---- lists ---- */

struct index_node {
    uint32_t next;
    uint32_t previous;
};

struct index_list {
    uint32_t first;
    uint32_t last;
};

static inline struct index_node *index_list_node(struct index_links links, uint32_t index)
{
    return index_links_at(links, index);
}

/* Behind the entry of the link `after`; 0: in front of all. */
static inline void index_list_insert(struct index_list *list, struct index_links links,
                                     uint32_t index, uint32_t after)
{
    struct index_node *node = index_list_node(links, index);
    uint32_t *before = after != 0 ? &index_list_node(links, after - 1)->next : &list->first;
    node->previous = after;
    node->next = *before;
    *before = index + 1;
    *(node->next != 0 ? &index_list_node(links, node->next - 1)->previous : &list->last) =
        index + 1;
}

static inline void index_list_append(struct index_list *list, struct index_links links,
                                     uint32_t index)
{
    index_list_insert(list, links, index, list->last);
}

static inline void index_list_remove(struct index_list *list, struct index_links links,
                                     uint32_t index)
{
    const struct index_node *node = index_list_node(links, index);
    uint32_t *before =
        node->previous != 0 ? &index_list_node(links, node->previous - 1)->next : &list->first;
    uint32_t *behind =
        node->next != 0 ? &index_list_node(links, node->next - 1)->previous : &list->last;
    CHECK(*before == index + 1 && *behind == index + 1);
    *before = node->next;
    *behind = node->previous;
}

#endif
