/*
 * A small shop with everything behind the front: gate, journal on a disk in memory, engine, office,
 * a ledger in memory and a clock that stands still. Disk, ledger and clock outlive a restart.
 */
#ifndef SLUICE_TEST_OFFICE_WORLD_H
#define SLUICE_TEST_OFFICE_WORLD_H

#include "fake_clock.h"
#include "flow/office.h"
#include "journal_world.h"
#include "memory_ledger.h"

#define OFFICE_NOW 1700000000000LL
#define OFFICE_SALE 1
#define OFFICE_ONCE 11  /* one each */
#define OFFICE_THREE 12 /* three each */
#define OFFICE_FREE 13  /* no limit */
#define OFFICE_UNITS 100
#define OFFICE_CENTS 1000
#define OFFICE_PAY_MS 60000    /* time to pay */
#define OFFICE_ENDS_MS 3600000 /* after the start */
#define OFFICE_KEEP_MS 86400000
#define OFFICE_LOOPS 2

struct office_world {
    struct ram_disk ram;
    struct memory_ledger ledger;
    struct fake_clock clock;
    struct gate_sizes sizes;
    struct journal_options journal_options;
    struct office_options options;
    struct gate_box box;
    struct journal *journal;
    struct journal_found found;
    struct engine *engine;
    struct catalog *catalog;
    struct inside_time time;
    struct metrics metrics;
    struct office *office;
    atomic_int wakes[OFFICE_LOOPS];
    uint64_t posted; /* ops made so far: their payment ids */
};

void office_world_init(struct office_world *ret_world);
void office_world_done(struct office_world *world);
/* Opens everything; what office_start said. After an error too, office_world_down. */
int office_world_up(struct office_world *world);
void office_world_down(struct office_world *world);
/* Down, the power goes, and what was not synced is lost. */
void office_world_crash(struct office_world *world);

/* A sale with three items, 100 units each: created, warmed and opened through the office. */
void office_world_open_sale(struct office_world *world);

void office_world_flush(struct office_world *world);
int64_t office_world_turn(struct office_world *world);
/* Flushes and turns until there is nothing left to do at this time. Returns the last sleep. */
int64_t office_world_settle(struct office_world *world);
/* Time passes, and the world settles. */
void office_world_pass_ms(struct office_world *world, int64_t ms);

struct office_op *office_op_new(struct office_world *world, enum ledger_kind kind, uint32_t loop);
/* For an order; PAY with the right amount and a payment_id of its own. */
struct office_op *office_op_order(struct office_world *world, enum ledger_kind kind,
                                  struct order_id id);
struct office_op *office_op_sale(struct office_world *world, enum ledger_kind kind, uint64_t sale,
                                 enum sale_state target);
void office_op_free(struct office_op *op);
/* Posts it and settles; it must come back, alone, to its loop. */
void office_world_do(struct office_world *world, struct office_op *op);

struct gate_ask office_world_buy(struct office_world *world, uint64_t user, uint64_t item,
                                 uint32_t qty);
/* A buy that must succeed, of one unit of the item without limit. */
struct order_id office_world_bought(struct office_world *world, uint64_t user);
struct order_view office_world_order(struct office_world *world, struct order_id id);
struct item_view office_world_item(struct office_world *world, uint64_t item);

/*
 * CHECKs that gate and ledger agree: every item's numbers, every order's state, one event for each
 * change of an order; and that the gate agrees with itself. For a settled world.
 */
void office_world_agree(struct office_world *world);

#endif
