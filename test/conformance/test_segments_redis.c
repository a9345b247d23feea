/*
 * The contract of port/segments.h on Redis, on the server that $SLUICE_TEST_REDIS names. Where
 * $SLUICE_TEST_REDIS_URL names a topology (a Cluster, Sentinels), the segments are there, and what
 * restarts servers is skipped.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "redis_world.h"
#include "segments_suite.h"

/* The world's own gate and segments have one segment; the suite has fronts and workers of its own. */
struct suite_world {
    struct world *world;
    struct redis_topology *topology; /* the world's, or that of the URL */
    struct redis_gate *gate;
};

static void close_gate(struct suite_world *suite)
{
    redis_gate_free(suite->gate);
    suite->gate = NULL;
    if (suite->world != NULL) {
        if (suite->topology != suite->world->direct) {
            topology_close(suite->topology);
        }
        world_free(suite->world);
        suite->world = NULL;
    }
}

static void wait_ready(struct suite_world *suite)
{
    struct gate_port *port = redis_gate_port(suite->gate);
    struct pollfd fd = {.fd = redis_gate_fd(suite->gate, 0), .events = POLLIN};
    for (int i = 0; !redis_gate_ready(suite->gate, 0, 0) || !redis_gate_ready(suite->gate, 0, 1) ||
                    !redis_gate_ready(suite->gate, 0, 2);
         i++) {
        assert_true(i < 3000);
        assert_null(gate_collect(port, 0));
        (void)gate_flush(port, 0);
        (void)poll(&fd, 1, 5);
    }
}

static void reset(void *context)
{
    struct suite_world *suite = context;
    close_gate(suite);
    suite->world = world_new(10000);
    suite->topology = suite->world->direct;
    const char *url = getenv("SLUICE_TEST_REDIS_URL");
    char error[512];
    if (url != NULL) {
        assert_int_equal(0, topology_open(&(struct topology_options){.url = url}, &suite->topology,
                                          error, sizeof(error)));
    }
    struct redis_gate_config config = {
        .topology = suite->topology,
        .segments = SUITE_SEGMENTS,
        .loops = 1,
        .prefix = suite->world->prefix,
        .connect_timeout_ms = 5000,
        .call_timeout_ms = 10000,
        .retry_min_ms = 1,
        .retry_max_ms = 20,
        .in_flight_max = 100,
        .clock = &suite->world->clock,
    };
    assert_int_equal(0, redis_gate_new(&config, &suite->gate));
    wait_ready(suite);
}

static struct segments *open_worker(void *context, uint32_t worker)
{
    static char names[8][8];
    struct suite_world *suite = context;
    struct segments *segments = NULL;
    assert_true(worker < 8);
    (void)snprintf(names[worker], sizeof(names[worker]), "w%u", worker);
    struct segments_redis_options options = {
        .topology = suite->topology,
        .segments = SUITE_SEGMENTS,
        .prefix = suite->world->prefix,
        .timeout_ms = 10000,
        .worker = names[worker],
        .claim_ms = SUITE_CLAIM_MS,
        .outbox_max = SUITE_OUTBOX_MAX,
        .clock = &suite->world->clock,
    };
    assert_int_equal(0, segments_redis_open(&options, &segments));
    return segments;
}

static void close_worker(void *context, struct segments *segments)
{
    (void)context;
    segments_redis_close(segments);
}

static void request(void *context, struct gate_request *kind)
{
    struct suite_world *suite = context;
    struct gate_port *port = redis_gate_port(suite->gate);
    struct pollfd fd = {.fd = redis_gate_fd(suite->gate, 0), .events = POLLIN};
    if (gate_submit(port, kind) == GATE_ANSWERED) {
        return;
    }
    const struct gate_request *answered = gate_collect(port, 0);
    for (int i = 0; answered == NULL; i++) {
        assert_true(i < 3000);
        (void)gate_flush(port, 0);
        (void)poll(&fd, 1, 5);
        answered = gate_collect(port, 0);
    }
    assert_ptr_equal(kind, answered);
}

static void place(void *context, uint32_t segment, uint64_t epoch)
{
    gate_place(redis_gate_port(((struct suite_world *)context)->gate), segment, epoch);
}

static void mark(void *context)
{
    world_do(((struct suite_world *)context)->world, "SAVE");
}

static void restart(void *context, enum suite_restart how)
{
    struct suite_world *suite = context;
    if (how == RESTART_EMPTY) {
        world_do(suite->world, "FLUSHALL");
        return;
    }
    if (how == RESTART_KEEPS) {
        world_do(suite->world, "SAVE");
    }
    world_restart(suite->world);
    while (redis_gate_ready(suite->gate, 0, 0)) {
        assert_null(gate_collect(redis_gate_port(suite->gate), 0));
    }
    wait_ready(suite);
}

static void pass_ms(void *context, int64_t ms)
{
    (void)context;
    (void)usleep((useconds_t)ms * 1000);
}

static void there_is_no_redis(void **state)
{
    (void)state;
    print_message("no SLUICE_TEST_REDIS: skipped\n");
    skip();
}

int main(void)
{
    struct suite_world suite = {.world = NULL};
    const struct segments_under_test under_test = {
        .context = &suite,
        .reset = reset,
        .open = open_worker,
        .close = close_worker,
        .request = request,
        .place = place,
        .mark = mark,
        .restart = getenv("SLUICE_TEST_REDIS_URL") == NULL ? restart : NULL,
        .pass_ms = pass_ms};
    const struct CMUnitTest none[] = {cmocka_unit_test(there_is_no_redis)};
    if (getenv("SLUICE_TEST_REDIS") == NULL) {
        return cmocka_run_group_tests(none, NULL, NULL);
    }
    int failed = segments_suite_run(&under_test);
    close_gate(&suite);
    return failed;
}
