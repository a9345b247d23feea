/*
 * A worker whose gate may answer late, for test_api_late.c and test_api_watch.c.
 */
#ifndef SLUICE_TEST_LATE_GATE_FIXTURE_H
#define SLUICE_TEST_LATE_GATE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "api_world.h"

static struct api_world world;

static inline int set_up(void **state)
{
    (void)state;
    api_world_up(&world, 1);
    return 0;
}

/* Operations of a budget that are under way. */
static inline uint32_t under_way(enum api_budget budget)
{
    return world.worker->operations.budgets[budget].used;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < BUDGET_COUNT; i++) { /* whatever happened, all have come back */
        assert_int_equal(under_way((enum api_budget)i), 0);
    }
    api_world_down(&world);
    return 0;
}

/* From here on each request is answered late. It is decided when it is submitted, or only when it is
 * answered. */
static inline void be_late(bool decided_early)
{
    world.gate.late = 1000;
    world.gate.early = decided_early ? 1000 : 0;
}

static inline void be_prompt(void)
{
    world.gate.late = 0;
}

static inline size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

#define expect_status(heard, status) assert_int_equal(api_world_status(heard), status)
#define expect_text(heard, text) assert_non_null(strstr(heard, text))
#define expect_no_text(heard, text) assert_null(strstr(heard, text))

/* An order that is durable and not booked. */
static inline struct order_id queued_order(uint64_t user)
{
    struct order_id id = ledger_writer_world_bought(&world.ledger_writer, user);
    api_world_flush(&world);
    return id;
}

static inline uint32_t watch(struct order_id id, uint64_t user, const char *how)
{
    uint32_t connection = api_world_connect(&world);
    api_world_send(&world, connection, "GET", api_world_path(id, how), user, NULL);
    api_world_flush(&world);
    return connection;
}

/* Sends a buy with a ticket of its own. Nothing runs yet. */
static inline uint32_t send_buy(uint64_t user, struct order_id *ret_id)
{
    char path[160];
    struct ticket ticket = {
        .user = user,
        .item = LEDGER_WRITER_FREE,
        .id = order_id_fresh(LEDGER_WRITER_FREE, LEDGER_WRITER_NOW, (uint32_t)user),
        .expires_at_ms = LEDGER_WRITER_NOW + 60000};
    char text[TICKET_TEXT + 1] = "";
    ticket_sign(&world.settings.ticket_keys, &ticket, text);
    (void)snprintf(path, sizeof(path), "/v1/buy/%s", text);
    uint32_t connection = api_world_connect(&world);
    api_world_send(&world, connection, "POST", path, user, NULL);
    *ret_id = ticket.id;
    return connection;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
