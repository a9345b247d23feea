/* See sweep_shop.h. */
#include "sweep_shop.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "fault.h"

/* ---- the ledger, outside the product ---- */

static struct shop *shop_of(struct ledger *ledger)
{
    return ((struct shop_ledger *)ledger)->shop;
}

static void keep_ledger(struct shop *shop)
{
    CHECK(shop->ledger_backends_count < SHOP_LEDGER_BACKENDS);
    struct memory_ledger *copy = malloc(sizeof(*copy));
    CHECK(copy != NULL);
    memory_ledger_copy(&shop->world.ledger, copy);
    shop->ledger_backends[shop->ledger_backends_count++] = copy;
    tap_disk_mark(&shop->tap, shop->promised, shop->ledger_backends_count - 1);
}

static void shop_write(struct ledger *ledger, struct ledger_batch *batch)
{
    struct shop *shop = shop_of(ledger);
    bool inside = fault_leave();
    int error = ledger_write(&shop->world.ledger.ledger, batch);
    if (shop->keep_ledger_backends && error == 0) {
        keep_ledger(shop);
    }
    fault_back(inside);
}

static void shop_read(struct ledger *ledger, struct ledger_query *query)
{
    bool inside = fault_leave();
    (void)ledger_read(&shop_of(ledger)->world.ledger.ledger, query);
    fault_back(inside);
}

static const struct ledger_ops shop_ops = {shop_write, shop_read};

/* ---- life ---- */

void shop_init(struct shop *ret_shop)
{
    memset(ret_shop, 0, sizeof(*ret_shop));
    struct ledger_writer_world *world = &ret_shop->world;
    ledger_writer_world_init(world);
    world->sizes = (struct gate_sizes){.orders = 200, .buyers = 200, .items = 8, .sales = 4};
    world->journal_options = (struct journal_options){.file_bytes = 4 * JOURNAL_SECTOR,
                                                      .buffer_bytes = 3 * JOURNAL_SECTOR};
    world->options.batch_max = 16;
    tap_disk_init(&ret_shop->tap, &world->ram.disk);
    ret_shop->ledger = (struct shop_ledger){{&shop_ops}, ret_shop};
}

void shop_done(struct shop *shop)
{
    shop_down(shop);
    for (size_t i = 0; i < shop->ledger_backends_count; i++) {
        memory_ledger_done(shop->ledger_backends[i]);
        free(shop->ledger_backends[i]);
    }
    tap_disk_done(&shop->tap);
    ledger_writer_world_done(&shop->world);
}

void shop_record(struct shop *shop)
{
    tap_disk_record(&shop->tap);
    shop->keep_ledger_backends = true;
    keep_ledger(shop);
}

static void woken(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

int shop_up(struct shop *shop)
{
    struct ledger_writer_world *world = &shop->world;
    gate_box_init_sizes(&world->box, world->sizes);
    int error = PRODUCT(gate_content_open(&shop->tap.disk, world->journal_options, &world->box.gate,
                                          &world->journal, &world->found));
    if (error == 0) {
        error = PRODUCT(embedded_gate_new(&world->box.gate, world->journal, world->wakers,
                                          LEDGER_WRITER_LOOPS, &world->engine));
    }
    for (uint32_t i = 0; error == 0 && i < LEDGER_WRITER_LOOPS; i++) {
        waker_init(&world->wakers[i], woken, &world->wakes[i]);
    }
    if (error == 0) {
        inside_time_init(&world->time, &world->clock.port, world->found.highest_ms);
        error = PRODUCT(metrics_init(&world->metrics, 1));
    }
    if (error == 0) {
        world->catalog = PRODUCT(catalog_new());
        error = world->catalog == NULL ? ERR_NOMEM : 0;
    }
    if (error == 0) {
        ledger_writer_world_connect(world);
        error =
            PRODUCT(ledger_writer_new(world->wakers, &shop->ledger.ledger, world->catalog,
                                      &world->time, metrics_slot(&world->metrics, 0),
                                      LEDGER_WRITER_LOOPS, world->options, &world->ledger_writer));
    }
    if (error == 0) {
        ledger_writer_world_listen(world);
        error = PRODUCT(ledger_writer_start(world->ledger_writer));
    }
    if (error != 0) {
        shop_down(shop);
    }
    return error;
}

void shop_down(struct shop *shop)
{
    struct ledger_writer_world *world = &shop->world;
    ledger_writer_free(world->ledger_writer);
    catalog_free(world->catalog);
    metrics_done(&world->metrics);
    booking_reader_done(&world->bookings);
    embedded_gate_free(world->engine);
    journal_free(world->journal);
    gate_box_done(&world->box);
    world->ledger_writer = NULL;
    world->catalog = NULL;
    world->engine = NULL;
    world->journal = NULL;
}

int shop_flush(struct shop *shop)
{
    bool wrote;
    int error = PRODUCT(journal_flush(shop->world.journal, &wrote));
    if (error == 0) {
        shop->promised = journal_durable_lsn(shop->world.journal);
        if (shop->keep_ledger_backends) {
            tap_disk_mark(&shop->tap, shop->promised, shop->ledger_backends_count - 1);
        }
    }
    return error;
}
