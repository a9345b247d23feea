/* The contract of port/segments.h on the simulated segments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/fake_clock.h"
#include "segments_suite.h"
#include "sim_segments.h"

struct suite_world {
    struct fake_clock clock;
    struct sim_segments *sim;
    struct gate_port *worker;
    uint64_t marks[SUITE_SEGMENTS]; /* writes when mark() was called */
};

static void done(struct suite_world *world)
{
    sim_segments_front_free(world->worker);
    sim_segments_free(world->sim);
    world->worker = NULL;
    world->sim = NULL;
}

static void reset(void *context)
{
    struct suite_world *world = context;
    done(world);
    fake_clock_init(&world->clock, 1000);
    world->sim = sim_segments_new((struct sim_segments_options){.segments = SUITE_SEGMENTS,
                                                                .clock = &world->clock.port,
                                                                .claim_ms = SUITE_CLAIM_MS,
                                                                .forget_max = 1000,
                                                                .outbox_max = SUITE_OUTBOX_MAX});
    world->worker = sim_segments_front(world->sim, 1);
}

static struct segments *open_worker(void *context, uint32_t worker)
{
    return sim_segments_worker(((struct suite_world *)context)->sim, worker);
}

static void close_worker(void *context, struct segments *segments)
{
    (void)context;
    sim_segments_worker_free(segments);
}

static void request(void *context, struct gate_request *kind)
{
    assert_int_equal(GATE_ANSWERED, gate_submit(((struct suite_world *)context)->worker, kind));
}

static void place(void *context, uint32_t segment, uint64_t epoch)
{
    gate_place(((struct suite_world *)context)->worker, segment, epoch);
}

static void mark(void *context)
{
    struct suite_world *world = context;
    for (uint32_t i = 0; i < SUITE_SEGMENTS; i++) {
        world->marks[i] = sim_segments_writes(world->sim, i);
    }
}

static void restart(void *context, enum suite_restart how)
{
    struct suite_world *world = context;
    for (uint32_t i = 0; i < SUITE_SEGMENTS; i++) {
        if (how == RESTART_EMPTY) {
            sim_segments_empty(world->sim, i);
            continue;
        }
        uint64_t since = sim_segments_writes(world->sim, i) - world->marks[i];
        uint32_t forget = how == RESTART_FORGETS ? (uint32_t)since : 0;
        assert_int_equal(forget, sim_segments_failover(world->sim, i, forget));
    }
}

static void pass_ms(void *context, int64_t ms)
{
    fake_clock_pass_ms(&((struct suite_world *)context)->clock, ms);
}

int main(void)
{
    struct suite_world world = {.sim = NULL};
    const struct segments_under_test under_test = {
        &world, reset, open_worker, close_worker, request, place, mark, restart, pass_ms};
    int failed = segments_suite_run(&under_test);
    done(&world);
    return failed;
}
