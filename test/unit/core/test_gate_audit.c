/* The audit sees each single number, link and count that is not what it should be, and a step sees
 * those of the entries it touches. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/gate.h"

#define LIMITED 11
#define FREE 12

static const struct gate_sizes sizes = {.orders = 8, .buyers = 8, .items = 4, .sales = 2};
static struct gate gate;
static void *memory;
static struct gate_item *limited;
static struct gate_item *unlimited;
static uint64_t event;

static void done(struct gate_command command)
{
    struct gate_effects effects;
    command.now_ms = 2000;
    command.event = command.kind == GATE_RESERVE ? 0 : ++event;
    command.ticket_expires_ms = 9000;
    assert_int_equal(gate_step(&gate, &command, &effects), VERDICT_DONE);
}

static void buy(uint64_t user, uint64_t item, uint32_t qty)
{
    done((struct gate_command){.kind = GATE_RESERVE,
                               .id = order_id_fresh(item, 2000, (uint32_t)user),
                               .user = user,
                               .item = item,
                               .qty = qty});
}

/* Two items; of each one order paid, one locked, one cancelled. */
static int set_up(void **state)
{
    (void)state;
    memory = aligned_alloc(64, gate_bytes(sizes));
    assert_non_null(memory);
    memset(memory, 0, gate_bytes(sizes));
    gate_init(&gate, sizes, memory, 1);
    event = 0;
    done((struct gate_command){.kind = GATE_LOAD_SALE, .sale = 1, .ends_at_ms = 9000});
    for (uint64_t item = LIMITED; item <= FREE; item++) {
        done((struct gate_command){.kind = GATE_LOAD_ITEM,
                                   .sale = 1,
                                   .item = item,
                                   .amount = 20,
                                   .limit = item == LIMITED ? 3 : 0});
        for (uint64_t user = 1; user <= 3; user++) {
            buy(user, item, 2);
            struct order_id id = order_id_fresh(item, 2000, (uint32_t)user);
            done((struct gate_command){.kind = GATE_CONFIRM, .id = id});
            if (user > 1) {
                done((struct gate_command){.kind = user == 2 ? GATE_PAY : GATE_CANCEL, .id = id});
            }
        }
    }
    limited = &gate.items[gate_find_item(&gate, LIMITED)];
    unlimited = &gate.items[gate_find_item(&gate, FREE)];
    assert_true(gate_consistent(&gate));
    gate_audit(&gate);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static struct gate_order *first_order(void)
{
    return &gate.orders[limited->orders.first - 1];
}

static struct gate_buyer *first_buyer(void)
{
    return &gate.buyers[limited->buyers - 1];
}

static void an_order_in_the_wrong_place(void **state)
{
    (void)state;
    first_order()->item_slot++;
    assert_false(gate_consistent(&gate));
    first_order()->item_slot--;
    first_order()->id.lo ^= 1; /* its id leads elsewhere */
    assert_false(gate_consistent(&gate));
    first_order()->id.lo ^= 1;
    assert_true(gate_consistent(&gate));
}

static void a_buyer_in_the_wrong_place_or_over_the_limit(void **state)
{
    (void)state;
    first_buyer()->user += 100;
    assert_false(gate_consistent(&gate));
    first_buyer()->user -= 100;
    limited->limit = 1;
    assert_false(gate_consistent(&gate));
    limited->limit = 2;
    assert_true(gate_consistent(&gate));
    limited->limit = 0;
    assert_true(gate_consistent(&gate));
}

static void units_that_do_not_add_up(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct gate_item *item = i == 0 ? limited : unlimited;
        item->total++;
        assert_false(gate_consistent(&gate));
        item->available++; /* the sum is right again, and no order says otherwise */
        assert_true(gate_consistent(&gate));
        item->locked--;
        item->available++;
        assert_false(gate_consistent(&gate));
        item->locked += 2;
        item->sold -= 1;
        item->available -= 1;
        assert_false(gate_consistent(&gate)); /* both off, the sum is not */
        item->locked -= 1;
        assert_false(gate_consistent(&gate));
        item->available += 1;
        assert_false(gate_consistent(&gate)); /* sold alone is off */
        item->sold += 1;
        item->available -= 1;
        assert_true(gate_consistent(&gate));
    }
    first_buyer()->held++;
    assert_false(gate_consistent(&gate));
    first_buyer()->held--;
    assert_true(gate_consistent(&gate));
}

/* A number that the gate keeps, one too high: nothing else is wrong. */
static void off_by_one(uint32_t *number)
{
    (*number)++;
    assert_false(gate_consistent(&gate));
    (*number)--;
    assert_true(gate_consistent(&gate));
}

static void counts_that_do_not_add_up(void **state)
{
    (void)state;
    struct gate_sale *sale = &gate.sales[limited->sale_slot];
    off_by_one(&limited->live);
    off_by_one(&sale->live);
    off_by_one(&sale->buyers);
    off_by_one(&sale->items);
    off_by_one(&gate.item_pool.used);
    first_buyer()->live++;
    assert_false(gate_consistent(&gate));
    first_buyer()->live--;
    assert_true(gate_consistent(&gate));
}

/* The sum is right only because numbers below zero are huge ones. In a sale that is being forgotten
 * no order stands for them, so nothing else sees it. */
static void units_below_zero(void **state)
{
    (void)state;
    gate.sales[0].forgetting = 1;
    uint64_t *const numbers[] = {&limited->sold, &limited->locked};
    for (size_t i = 0; i < 2; i++) {
        assert_true(gate_consistent(&gate));
        *numbers[i] += 100;
        limited->available -= 100;
        assert_int_equal(limited->available + limited->locked + limited->sold, limited->total);
        assert_false(gate_consistent(&gate));
        *numbers[i] -= 100;
        limited->available += 100;
    }
    assert_true(gate_consistent(&gate));
}

static void counts_of_the_tables(void **state)
{
    (void)state;
    uint32_t *const counts[] = {&gate.order_pool.used, &gate.buyer_pool.used, &gate.item_pool.used};
    for (size_t i = 0; i < 3; i++) {
        (*counts[i])++;
        assert_false(gate_consistent(&gate));
        (*counts[i])--;
    }
    assert_true(gate_consistent(&gate));
}

static void a_sale_half_forgotten_need_not_add_up(void **state)
{
    (void)state;
    struct gate_effects effects;
    done((struct gate_command){.kind = GATE_CLOSE, .sale = 1});
    struct gate_command forget = {
        .kind = GATE_FORGET, .sale = 1, .qty = 2, .event = event + 1, .now_ms = 2000};
    assert_int_equal(gate_step(&gate, &forget, &effects), VERDICT_MORE);
    assert_true(gate_consistent(&gate));
    gate.sales[0].forgetting = 0;
    assert_false(gate_consistent(&gate));
    gate.sales[0].forgetting = 1;
    limited->total++; /* but its units must */
    assert_false(gate_consistent(&gate));
}

/* In a process of its own, which the gate's CHECK ends. */
static bool ends_the_process(struct gate_command command)
{
    int status = 0;
    command.now_ms = 2000;
    command.event = command.kind == GATE_RESERVE ? 0 : event + 1;
    command.ticket_expires_ms = 9000;
    pid_t child = fork();
    if (child == 0) {
        struct gate_effects effects;
        struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)close(STDERR_FILENO);
        _exit((int)gate_step(&gate, &command, &effects));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* Each command with the gate as it is, and with numbers that are one off. */
static void a_step_checks_what_it_touches(void **state)
{
    (void)state;
    struct order_id locked = order_id_fresh(LIMITED, 2000, 1);
    struct gate_command buy = {.kind = GATE_RESERVE,
                               .id = order_id_fresh(LIMITED, 2000, 9),
                               .user = 9,
                               .item = LIMITED,
                               .qty = 1};
    const struct gate_command commands[] = {
        buy,
        {.kind = GATE_PAY, .id = locked},
        {.kind = GATE_CANCEL, .id = locked},
        {.kind = GATE_RESTOCK, .item = LIMITED, .amount = 1},
        {.kind = GATE_TRANSFER_OUT, .item = LIMITED, .amount = 1},
    };
    uint64_t *const numbers[] = {&limited->total, &limited->available, &limited->locked,
                                 &limited->sold};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        assert_false(ends_the_process(commands[i]));
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
            (*numbers[k])++;
            assert_true(ends_the_process(commands[i]));
            (*numbers[k])--;
        }
    }
    /* More sold than there are, although the sum is right. */
    limited->available -= 100;
    limited->sold += 100;
    assert_true(ends_the_process(commands[1]));
    limited->available += 100;
    limited->sold -= 100;
    /* A free slot outside of the pool, and a pool that says it has room and has none. */
    gate.order_pool.free = sizes.orders + 1;
    assert_true(ends_the_process(buy));
    gate.order_pool.free = 0;
    gate.order_pool.fresh = sizes.orders;
    assert_true(ends_the_process(buy));
    gate.order_pool.fresh = gate.order_pool.used;
    gate.sales[0].items++;
    assert_true(ends_the_process((struct gate_command){.kind = GATE_PAUSE, .sale = 1}));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_order_in_the_wrong_place),
        TEST(a_buyer_in_the_wrong_place_or_over_the_limit),
        TEST(units_that_do_not_add_up),
        TEST(units_below_zero),
        TEST(counts_that_do_not_add_up),
        TEST(counts_of_the_tables),
        TEST(a_sale_half_forgotten_need_not_add_up),
        TEST(a_step_checks_what_it_touches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
