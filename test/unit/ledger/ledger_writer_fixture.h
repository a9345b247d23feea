/*
 * A small shop with an open sale, as every test of the ledger writer begins, and what those tests ask
 * of it: test_ledger_writer.c and test_ledger_writer_restart.c.
 */
#ifndef LEDGER_WRITER_FIXTURE_H
#define LEDGER_WRITER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "ledger_writer_world.h"

static struct ledger_writer_world world;

static inline int set_up(void **state)
{
    (void)state;
    ledger_writer_world_init(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    ledger_writer_world_open_sale(&world);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    ledger_writer_world_done(&world);
    return 0;
}

static inline void assert_state(struct order_id id, enum order_state want)
{
    assert_string_equal(
        order_state_text((enum order_state)ledger_writer_world_order(&world, id).state),
        order_state_text(want));
}

static inline void assert_free_item(uint64_t available, uint64_t locked, uint64_t sold)
{
    struct item_view view = ledger_writer_world_item(&world, LEDGER_WRITER_FREE);
    assert_int_equal(view.available, available);
    assert_int_equal(view.locked, locked);
    assert_int_equal(view.sold, sold);
}

/* An order that is booked. */
static inline struct order_id locked(uint64_t user)
{
    struct order_id id = ledger_writer_world_bought(&world, user);
    (void)ledger_writer_world_settle(&world);
    assert_state(id, ORDER_LOCKED);
    return id;
}

/* Does it and frees it: what it was refused with, or its error where that is not 0. */
static inline int result_of(struct ledger_writer_op *op)
{
    ledger_writer_world_do(&world, op);
    int result = op->error != 0 ? op->error : (int)op->op.refusal;
    ledger_writer_op_free(op);
    return result;
}

#endif
