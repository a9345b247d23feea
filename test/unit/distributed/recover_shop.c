/* See recover_shop.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "recover_shop.h"

struct recover_round round_of(struct recover *recover)
{
    struct recover_round round = {0};
    assert_int_equal(0, recover_round(recover, &round));
    return round;
}

void shop_open(struct shop *shop, uint64_t seed)
{
    model_init(&shop->world, (struct cluster_options){.segments = SEGMENTS, .seed = seed});
    model_process_init(&shop->process, &shop->world, 2);
    shop->recover = recover_of(&shop->process, SEGMENTS, 300);
    struct recover_round round = round_of(shop->recover);
    assert_int_equal(SEGMENTS, round.rebuilt);
    model_settle(&shop->world);
    model_agree(&shop->world);
}

void shop_close(struct shop *shop)
{
    recover_free(shop->recover);
    model_process_done(&shop->process);
    model_done(&shop->world);
}

void shop_sell(struct shop *shop)
{
    struct cluster_world *world = &shop->world;
    for (uint64_t user = 1; user <= 15; user++) {
        (void)model_buy(world, user, CLUSTER_ONCE, 1);
        (void)model_buy(world, user, CLUSTER_THREE, 2);
    }
    model_settle(world);
    for (int i = 0; i < 10; i++) {
        model_stir(world);
    }
    model_turn(world);
    struct ledger_op open = {
        .kind = LEDGER_SALE_MOVE, .sale_id = CLUSTER_SALE, .target = SALE_OPEN};
    (void)cluster_run(world, &open);
    model_settle(world);
    for (uint64_t user = 21; user <= 30; user++) {
        assert_true(model_buy(world, user, CLUSTER_FREE, 1));
    }
    model_relay(world); /* ten messages */
    for (uint64_t user = 31; user <= 36; user++) {
        assert_true(model_buy(world, user, CLUSTER_FREE, 1));
        (void)model_buy_untold(world, user + 100, CLUSTER_THREE, 1);
    }
    model_audit(world);
}

void shop_heal(struct shop *shop, uint32_t name)
{
    struct model_process process;
    model_process_init(&process, &shop->world, name);
    struct recover *recover = recover_of(&process, SEGMENTS, 300);
    uint32_t whole = 0;
    for (int i = 0; i < 20 && whole < SEGMENTS; i++) {
        whole = round_of(recover).whole;
        fake_clock_pass_ms(&shop->world.clock, MODEL_LEASE_MS + 1);
        model_turn(&shop->world);
        model_audit(&shop->world);
    }
    assert_int_equal(SEGMENTS, whole);
    model_settle(&shop->world);
    model_agree(&shop->world);
    recover_free(recover);
    model_process_done(&process);
}
