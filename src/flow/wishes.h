/*
 * What buyers want and their home segment does not have, though others do: loops note it, upkeep
 * takes it and asks for a transfer. A wish for an item at a segment is one wish, of the largest
 * number wanted; beyond a bound they are forgotten, buyers ask again. Any thread.
 */
#ifndef SLUICE_FLOW_WISHES_H
#define SLUICE_FLOW_WISHES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define WISHES_MAX 256

struct wish {
    uint64_t item;
    uint32_t segment;
    uint64_t units;
};

struct wishes {
    pthread_mutex_t lock;
    size_t count;
    struct wish list[WISHES_MAX];
};

void wishes_init(struct wishes *ret_wishes);
void wishes_done(struct wishes *wishes);
void wishes_add(struct wishes *wishes, uint32_t segment, uint64_t item, uint64_t units);
/* All of them, at most WISHES_MAX; none are left. */
size_t wishes_take(struct wishes *wishes, struct wish *ret_list);

#endif
