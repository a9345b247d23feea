/*
 * A small shop with everything behind the front: gate, journal on a disk in memory, engine, ledger writer,
 * a ledger in memory and a clock that stands still. Disk, ledger and clock outlive a restart.
 */
#ifndef SLUICE_TEST_LEDGER_WRITER_WORLD_H
#define SLUICE_TEST_LEDGER_WRITER_WORLD_H

#include "embedded/booking_reader.h"
#include "embedded/embedded_gate.h"
#include "embedded/gate_event_sink.h"
#include "fake_clock.h"
#include "journal_world.h"
#include "ledger/ledger_writer.h"
#include "memory_ledger.h"

#define LEDGER_WRITER_NOW 1700000000000LL
#define LEDGER_WRITER_SALE 1
#define LEDGER_WRITER_ONCE 11  /* one each */
#define LEDGER_WRITER_THREE 12 /* three each */
#define LEDGER_WRITER_FREE 13  /* no limit */
#define LEDGER_WRITER_UNITS 100
#define LEDGER_WRITER_CENTS 1000
#define LEDGER_WRITER_PAY_MS 60000    /* time to pay */
#define LEDGER_WRITER_ENDS_MS 3600000 /* after the start */
#define LEDGER_WRITER_KEEP_MS 86400000
#define LEDGER_WRITER_LOOPS 2

struct ledger_writer_world {
    struct ram_disk ram;
    struct memory_ledger ledger;
    struct fake_clock clock;
    struct gate_sizes sizes;
    struct journal_options journal_options;
    struct ledger_writer_options options;
    struct gate_box box;
    struct journal *journal;
    struct journal_found found;
    struct waker wakers[LEDGER_WRITER_LOOPS];
    struct embedded_gate *engine;
    struct gate_event_sink event_sink;
    struct booking_reader bookings;
    struct catalog *catalog;
    struct inside_time time;
    struct metrics metrics;
    struct ledger_writer *ledger_writer;
    atomic_int wakes[LEDGER_WRITER_LOOPS];
    uint64_t posted; /* ops made so far: their payment ids */
};

void ledger_writer_world_init(struct ledger_writer_world *ret_world);
void ledger_writer_world_done(struct ledger_writer_world *world);
/* Parts of ledger_writer_world_up: the engine's parts for the ledger writer, and who learns that the
 * journal moved. */
void ledger_writer_world_connect(struct ledger_writer_world *world);
void ledger_writer_world_listen(struct ledger_writer_world *world);
/* Opens everything; what ledger_writer_start said. After an error too, ledger_writer_world_down. */
int ledger_writer_world_up(struct ledger_writer_world *world);
void ledger_writer_world_down(struct ledger_writer_world *world);
/* Down, the power goes, and what was not synced is lost. */
void ledger_writer_world_crash(struct ledger_writer_world *world);

/* A sale with three items, 100 units each: created, warmed and opened through the ledger writer. */
void ledger_writer_world_open_sale(struct ledger_writer_world *world);

void ledger_writer_world_flush(struct ledger_writer_world *world);
int64_t ledger_writer_world_turn(struct ledger_writer_world *world);
/* Flushes and turns until there is nothing left to do at this time. Returns the last sleep. */
int64_t ledger_writer_world_settle(struct ledger_writer_world *world);
/* Time passes, and the world settles. */
void ledger_writer_world_pass_ms(struct ledger_writer_world *world, int64_t ms);

struct ledger_writer_op *ledger_writer_op_new(struct ledger_writer_world *world,
                                              enum ledger_kind kind, uint32_t loop);
/* For an order; PAY with the right amount and a payment_id of its own. */
struct ledger_writer_op *ledger_writer_op_order(struct ledger_writer_world *world,
                                                enum ledger_kind kind, struct order_id id);
struct ledger_writer_op *ledger_writer_op_sale(struct ledger_writer_world *world,
                                               enum ledger_kind kind, uint64_t sale,
                                               enum sale_state target);
void ledger_writer_op_free(struct ledger_writer_op *op);
/* Posts it and settles; it must come back, alone, to its loop. */
void ledger_writer_world_do(struct ledger_writer_world *world, struct ledger_writer_op *op);

struct gate_request ledger_writer_world_buy(struct ledger_writer_world *world, uint64_t user,
                                            uint64_t item, uint32_t qty);
/* A buy that must succeed, of one unit of the item without limit. */
struct order_id ledger_writer_world_bought(struct ledger_writer_world *world, uint64_t user);
struct order_view ledger_writer_world_order(struct ledger_writer_world *world, struct order_id id);
struct item_view ledger_writer_world_item(struct ledger_writer_world *world, uint64_t item);

/*
 * CHECKs that gate and ledger agree: every item's numbers, every order's state, one event for each
 * change of an order; and that the gate agrees with itself. For a settled world.
 */
void ledger_writer_world_agree(struct ledger_writer_world *world);

#endif
