/* See remote_front.h. */
#include "remote_front.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static enum gate_submitted count_submit(struct gate_port *port, struct gate_ask *ask)
{
    struct remote_counting *counting = (struct remote_counting *)port;
    counting->asked++;
    return gate_submit(counting->gate, ask);
}

static struct gate_ask *count_collect(struct gate_port *port, uint32_t loop)
{
    return gate_collect(((struct remote_counting *)port)->gate, loop);
}

static int64_t count_flush(struct gate_port *port, uint32_t loop)
{
    return gate_flush(((struct remote_counting *)port)->gate, loop);
}

static void count_place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    ((struct remote_counting *)port)->places++;
    gate_place(((struct remote_counting *)port)->gate, segment, epoch);
}

static const struct gate_ops counting_ops = {count_submit, count_collect, count_flush, count_place};

/* ---- a front ---- */

void remote_front_catalog(struct remote_front *front, uint64_t sale, uint64_t first_item,
                          bool warmed)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    CHECK(row != NULL);
    *row = (struct sale_row){.id = sale,
                             .state = warmed ? SALE_OPEN : SALE_DRAFT,
                             .homes = warmed ? front->segments->count : 0,
                             .starts_at_ms = WIDE_NOW,
                             .ends_at_ms = WIDE_NOW + WIDE_ENDS_MS,
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
    CHECK(catalog_put(front->catalog, row) == 0);
}

/* An office that reads the sales at once, or cannot. */
static void read_sales(void *context)
{
    struct remote_front *front = context;
    front->readings++;
    if (!front->ledger_away) {
        catalog_end_reading(front->catalog, catalog_begin_reading(front->catalog));
    }
}

void remote_front_open(struct remote_front *ret_front, struct segments_world *segments,
                       uint32_t promises)
{
    struct journal_options options = {.segment_bytes = 256ULL * JOURNAL_SECTOR,
                                      .buffer_bytes = 200U * JOURNAL_SECTOR};
    struct journal_found found;
    memset(ret_front, 0, sizeof(*ret_front));
    ret_front->segments = segments;
    ram_disk_init(&ret_front->ram);
    CHECK(spool_new(promises, &ret_front->spool) == 0);
    options.each = spool_each;
    options.each_context = ret_front->spool;
    CHECK(journal_open(&ret_front->ram.disk, options, NULL, &ret_front->journal, &found) == 0);
    CHECK(spool_begin(ret_front->spool, ret_front->journal) == 0);
    ret_front->shelf = shelf_new();
    ret_front->catalog = catalog_new();
    remote_front_catalog(ret_front, WIDE_SALE, WIDE_ONCE, true);
    ret_front->counting = (struct remote_counting){
        .port = {&counting_ops}, .gate = sim_segments_front(segments->sim, FRONT_LOOPS)};
    wishes_init(&ret_front->wishes);
    atomic_store(&ret_front->dials.line, FRONT_LINE_MAX);
    struct remote_options remote = {.loops = FRONT_LOOPS,
                                    .dials = &ret_front->dials,
                                    .refill_ms = FRONT_REFILL_MS,
                                    .wishes = &ret_front->wishes,
                                    .clock = &segments->clock.port,
                                    .read_sales = read_sales,
                                    .context = ret_front};
    CHECK(remote_new(&ret_front->counting.port, &ret_front->places, ret_front->catalog,
                     ret_front->shelf, ret_front->spool, remote, &ret_front->remote) == 0);
    ret_front->port = remote_port(ret_front->remote);
    segments_world_place(segments, &ret_front->places, ret_front->port);
    CHECK(ret_front->counting.places == segments->count);
}

void remote_front_close(struct remote_front *front)
{
    remote_free(front->remote);
    sim_segments_front_free(front->counting.gate);
    wishes_done(&front->wishes);
    shelf_free(front->shelf);
    catalog_free(front->catalog);
    journal_free(front->journal);
    spool_free(front->spool);
    ram_disk_done(&front->ram);
}

void remote_front_shelf(struct remote_front *front, uint64_t item, uint64_t available)
{
    struct item_view view = {.item = item,
                             .sale = WIDE_SALE,
                             .total = 100,
                             .available = available,
                             .locked = 100 - available,
                             .limit_per_user = item == WIDE_ONCE ? 1 : 0,
                             .sale_state = SALE_OPEN,
                             .starts_at_ms = WIDE_NOW,
                             .ends_at_ms = WIDE_NOW + WIDE_ENDS_MS};
    struct shelf_item put = {.view = view, .homes = front->segments->count, .mark = 1};
    put.most = front->segments->count == 1 ? available : 0; /* else whoever asks goes elsewhere */
    CHECK(shelf_put(front->shelf, &put) == 0);
}

/* ---- asks ---- */

struct gate_ask remote_front_buy(const struct remote_front *front, uint64_t item,
                                 struct order_id id, uint64_t user, uint32_t qty)
{
    return (struct gate_ask){.question = ASK_BUY,
                             .id = id,
                             .user = user,
                             .item = item,
                             .qty = qty,
                             .now_ms = clock_wall_ms(&front->segments->clock.port),
                             .ticket_expires_ms = WIDE_NOW + 60000};
}

struct gate_ask remote_front_dirty(struct gate_ask ask)
{
    ask.refusal = REFUSAL_TIMEOUT;
    ask.existed = true;
    ask.has_order = true;
    ask.held = 99;
    ask.attempt = 99;
    ask.barred = true;
    ask.lsn = 99;
    return ask;
}

struct gate_ask remote_front_tell(struct remote_front *front, struct gate_ask ask)
{
    ask = remote_front_dirty(ask);
    CHECK(gate_submit(front->port, &ask) == GATE_ANSWERED);
    return ask;
}

struct spool_numbers remote_front_numbers(struct remote_front *front)
{
    struct spool_numbers n;
    spool_count(front->spool, &n);
    return n;
}
