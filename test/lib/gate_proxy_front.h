/*
 * One front on simulated segments: gate proxy, its spool on a disk in memory, stock cache and catalog, with a
 * port in between that counts what the gate is asked.
 */
#ifndef SLUICE_TEST_GATE_PROXY_FRONT_H
#define SLUICE_TEST_GATE_PROXY_FRONT_H

#include "cluster_world.h"
#include "distributed/gate_proxy.h"
#include "ram_disk.h"

#define API_LOOPS 2
#define API_REQUESTS 1024
#define API_LINE_MAX 5
#define API_REFILL_MS 1500

/* Between the proxy and the simulated gate. */
struct gate_proxy_counting {
    struct gate_port port;
    struct gate_port *gate;
    uint64_t asked;
    uint64_t segment_table;
};

struct gate_proxy_front {
    struct cluster_world *segments;
    struct ram_disk ram;
    struct journal *journal;
    struct spool *spool;
    struct stock_cache *stock_cache;
    struct catalog *catalog;
    struct segment_table segment_table;
    struct refill_requests refill_requests;
    struct runtime_limits runtime_limits;
    struct gate_proxy_counting counting;
    struct gate_proxy *proxy;
    struct gate_port *port;
    bool ledger_away;  /* the sales cannot be read */
    uint32_t readings; /* of the sales, while a request waited for one */
};

/* With the sale in its catalog, and nothing on its stock cache. */
void gate_proxy_front_open(struct gate_proxy_front *ret_worker, struct cluster_world *segments,
                           uint32_t promises);
void gate_proxy_front_close(struct gate_proxy_front *worker);

/* The sale as promise resolver has read it from the ledger; `warmed`: it has homes. */
void gate_proxy_front_catalog(struct gate_proxy_front *worker, uint64_t sale, uint64_t first_item,
                              bool warmed);
/* The item as a gate subscriber would put it on the stock cache. */
void gate_proxy_front_stock_cache(struct gate_proxy_front *worker, uint64_t item,
                                  uint64_t available);

struct gate_request gate_proxy_front_buy(const struct gate_proxy_front *worker, uint64_t item,
                                         struct order_id id, uint64_t user, uint32_t qty);
/* Dirty outs: whoever asks again with the same struct gets clean answers. */
struct gate_request gate_proxy_front_dirty(struct gate_request request);
/* Submits a request that is answered at once, or after the next reading of the sales. */
struct gate_request gate_proxy_front_tell(struct gate_proxy_front *worker,
                                          struct gate_request request);
struct spool_numbers gate_proxy_front_numbers(struct gate_proxy_front *worker);

#endif
