/* A journal on a disk in memory, open: what most tests of this folder begin with. */
#ifndef JOURNAL_FIXTURE_H
#define JOURNAL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal_world.h"

static struct world world;

/* An empty journal. */
static inline int set_up_empty(void **state)
{
    (void)state;
    world_init(&world, 1);
    assert_int_equal(world_open(&world), 0);
    return 0;
}

/* A journal with an open sale. */
static inline int set_up_sale(void **state)
{
    (void)state;
    world_init(&world, 4);
    assert_int_equal(world_open(&world), 0);
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    world_done(&world);
    return 0;
}

static inline void reopen(void)
{
    world_close(&world);
    assert_int_equal(world_open(&world), 0);
}

#endif
