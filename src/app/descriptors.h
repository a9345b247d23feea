/*
 * File descriptors: how many the process needs for its files and its own sockets, and how many are
 * left for connections. The need is computed from the settings at the start, so that a connection
 * never takes the descriptor of the journal's next file.
 *
 * What can go wrong: the limit is too low for the need and a few connections. Then the server does
 * not start, and says which limit to raise.
 *
 * Threads: any; nothing is kept.
 */
#ifndef SLUICE_APP_DESCRIPTORS_H
#define SLUICE_APP_DESCRIPTORS_H

#include "app/config.h"

/* The least connections of a loop, like the least server.connections. */
#define DESCRIPTORS_CONNECTIONS_MIN 16U
/* Enough for any text below. */
#define DESCRIPTORS_ERROR_MAX 400

/* What files, ledger, Redis, RabbitMQ and `loops` event loops need. */
uint64_t descriptors_needed(const struct config *config, uint32_t loops);

struct descriptors {
    uint32_t connections; /* of each loop */
    int files;            /* connections have descriptors below this number (net_epoll_files) */
};

/* Divides `limit` descriptors. ERR_RANGE: there are too few; ret_error says what to do. */
int descriptors_divide(const struct config *config, uint32_t loops, uint64_t limit,
                       struct descriptors *ret_descriptors, char *ret_error, size_t error_cap);

#endif
