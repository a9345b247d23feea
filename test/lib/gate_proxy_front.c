/* See gate_proxy_front.h. */
#include "gate_proxy_front.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static enum gate_submitted count_submit(struct gate_port *port, struct gate_request *request)
{
    struct gate_proxy_counting *counting = (struct gate_proxy_counting *)port;
    counting->asked++;
    return gate_submit(counting->gate, request);
}

static struct gate_request *count_collect(struct gate_port *port, uint32_t loop)
{
    return gate_collect(((struct gate_proxy_counting *)port)->gate, loop);
}

static int64_t count_flush(struct gate_port *port, uint32_t loop)
{
    return gate_flush(((struct gate_proxy_counting *)port)->gate, loop);
}

static void count_place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    ((struct gate_proxy_counting *)port)->segment_table++;
    gate_place(((struct gate_proxy_counting *)port)->gate, segment, epoch);
}

static const struct gate_ops counting_ops = {count_submit, count_collect, count_flush, count_place};

/* ---- a front ---- */

void gate_proxy_front_catalog(struct gate_proxy_front *worker, uint64_t sale, uint64_t first_item,
                              bool warmed)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    CHECK(row != NULL);
    *row = (struct sale_row){.id = sale,
                             .state = warmed ? SALE_OPEN : SALE_DRAFT,
                             .homes = warmed ? worker->segments->count : 0,
                             .starts_at_ms = CLUSTER_NOW,
                             .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
                             .items_count = 3,
                             .items = calloc(3, sizeof(struct item_row))};
    for (uint64_t i = 0; i < 3; i++) {
        row->items[i] = (struct item_row){.id = first_item + i,
                                          .sale = sale,
                                          .total = 70,
                                          .available = 50,
                                          .locked = 15,
                                          .sold = 5};
    }
    CHECK(catalog_put(worker->catalog, row) == 0);
}

void gate_proxy_front_open(struct gate_proxy_front *ret_worker, struct cluster_world *segments,
                           uint32_t promises)
{
    struct journal_options options = {.file_bytes = 256ULL * JOURNAL_SECTOR,
                                      .buffer_bytes = 200U * JOURNAL_SECTOR};
    struct journal_found found;
    memset(ret_worker, 0, sizeof(*ret_worker));
    ret_worker->segments = segments;
    ram_disk_init(&ret_worker->ram);
    CHECK(spool_new(promises, &ret_worker->spool) == 0);
    options.kind = JOURNAL_LIST;
    CHECK(journal_open(&ret_worker->ram.disk, options, spool_content(ret_worker->spool),
                       &ret_worker->journal, &found) == 0);
    CHECK(spool_begin(ret_worker->spool, ret_worker->journal) == 0);
    ret_worker->stock_cache = stock_cache_new();
    ret_worker->catalog = catalog_new();
    gate_proxy_front_catalog(ret_worker, CLUSTER_SALE, CLUSTER_ONCE, true);
    ret_worker->counting = (struct gate_proxy_counting){
        .port = {&counting_ops}, .gate = sim_segments_front(segments->sim, API_LOOPS)};
    refill_requests_init(&ret_worker->refill_requests);
    atomic_store(&ret_worker->runtime_limits.line, API_LINE_MAX);
    struct gate_proxy_options proxy = {.loops = API_LOOPS,
                                       .requests = API_REQUESTS,
                                       .runtime_limits = &ret_worker->runtime_limits,
                                       .refill_ms = API_REFILL_MS,
                                       .refill_requests = &ret_worker->refill_requests,
                                       .clock = &segments->clock.port};
    CHECK(gate_proxy_new(&ret_worker->counting.port, &ret_worker->segment_table,
                         ret_worker->catalog, ret_worker->stock_cache, ret_worker->spool, proxy,
                         &ret_worker->proxy) == 0);
    ret_worker->port = gate_proxy_port(ret_worker->proxy);
    cluster_place(segments, &ret_worker->segment_table, ret_worker->port);
    CHECK(ret_worker->counting.segment_table == segments->count);
}

void gate_proxy_front_close(struct gate_proxy_front *worker)
{
    gate_proxy_free(worker->proxy);
    sim_segments_front_free(worker->counting.gate);
    refill_requests_done(&worker->refill_requests);
    stock_cache_free(worker->stock_cache);
    catalog_free(worker->catalog);
    journal_free(worker->journal);
    spool_free(worker->spool);
    ram_disk_done(&worker->ram);
}

void gate_proxy_front_stock_cache(struct gate_proxy_front *worker, uint64_t item,
                                  uint64_t available)
{
    struct item_view view = {.item = item,
                             .sale = CLUSTER_SALE,
                             .total = 100,
                             .available = available,
                             .locked = 100 - available,
                             .limit_per_user = item == CLUSTER_ONCE ? 1 : 0,
                             .sale_state = SALE_OPEN,
                             .starts_at_ms = CLUSTER_NOW,
                             .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS};
    struct stock_cache_item put = {.view = view, .homes = worker->segments->count, .mark = 1};
    put.most = worker->segments->count == 1 ? available : 0; /* else whoever asks goes elsewhere */
    CHECK(stock_cache_put(worker->stock_cache, &put) == 0);
}

/* ---- asks ---- */

struct gate_request gate_proxy_front_buy(const struct gate_proxy_front *worker, uint64_t item,
                                         struct order_id id, uint64_t user, uint32_t qty)
{
    return (struct gate_request){.kind = GATE_REQUEST_BUY,
                                 .id = id,
                                 .user = user,
                                 .item = item,
                                 .qty = qty,
                                 .now_ms = clock_wall_ms(&worker->segments->clock.port),
                                 .ticket_expires_ms = CLUSTER_NOW + 60000};
}

struct gate_request gate_proxy_front_dirty(struct gate_request request)
{
    request.outcome = GATE_OUTCOME_UNKNOWN;
    request.refusal = REFUSAL_TIMEOUT;
    request.existed = true;
    request.has_order = true;
    request.held = 99;
    request.attempt = 99;
    request.barred = true;
    request.cooling_until_ms = 99;
    request.lsn = 99;
    return request;
}

struct gate_request gate_proxy_front_tell(struct gate_proxy_front *worker,
                                          struct gate_request request)
{
    request = gate_proxy_front_dirty(request);
    if (gate_submit(worker->port, &request) != GATE_ANSWERED) {
        CHECK(!worker->ledger_away);
        worker->readings++;
        catalog_end_reading(worker->catalog, catalog_begin_reading(worker->catalog));
        fake_clock_pass_ms(&worker->segments->clock, 20);
        CHECK(gate_collect(worker->port, request.loop) == &request);
    }
    CHECK(request.outcome == GATE_OUTCOME_ANSWERED && request.record == NULL);
    return request;
}

struct spool_numbers gate_proxy_front_numbers(struct gate_proxy_front *worker)
{
    struct spool_numbers n;
    spool_count(worker->spool, &n);
    return n;
}
