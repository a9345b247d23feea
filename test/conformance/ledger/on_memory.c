/* The ledger in memory, tested with segments: like the shared ledger on MariaDB, without SQL. */
#include "fixture.h"

#include <stdlib.h>

#include "lib/memory_ledger.h"

struct memory_world {
    struct memory_ledger ledger;
    int64_t now_ms; /* of its clock; 0: none */
};

static int64_t clock_now(void *context)
{
    return ((const struct memory_world *)context)->now_ms;
}

static const char *missing(void)
{
    return NULL;
}

static void make(struct fixture *f)
{
    struct memory_world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    memory_ledger_init_shared(&world->ledger, f->segments);
    f->shell = world;
}

static void discard(struct fixture *f)
{
    struct memory_world *world = f->shell;
    memory_ledger_done(&world->ledger);
    free(world);
}

static int open_ledger(struct fixture *f, bool writer, struct ledger **ret_ledger)
{
    struct memory_world *world = f->shell;
    struct memory_port *port = calloc(1, sizeof(*port));
    (void)writer;
    assert_non_null(port);
    if (f->segments > world->ledger.segments) {
        world->ledger.segments = f->segments; /* as a server's would grow */
    }
    if (f->regions != NULL) {
        const char *why = "";
        assert_int_equal(regions_parse(f->regions, f->segments, &world->ledger.regions, &why), 0);
    }
    memory_port_init(port, &world->ledger);
    *ret_ledger = &port->ledger;
    return 0;
}

static void close_ledger(struct ledger *ledger)
{
    struct memory_port *port = (struct memory_port *)ledger;
    memory_port_done(port);
    free(port);
}

static const char *error(const struct ledger *ledger)
{
    (void)ledger;
    return "";
}

static void start_clock(struct memory_ledger *ledger, int64_t now_ms)
{
    struct memory_world *world = (struct memory_world *)ledger; /* its first member */
    world->now_ms = now_ms;
    ledger->clock = clock_now;
    ledger->clock_context = world;
}

static void set_time(struct ledger *ledger, int64_t now_ms)
{
    start_clock(((struct memory_port *)ledger)->to, now_ms);
}

static int lease_open(struct fixture *f, const char *holder, struct lease_port **ret_port)
{
    struct memory_world *world = f->shell;
    struct memory_holder *lease = calloc(1, sizeof(*lease));
    assert_non_null(lease);
    start_clock(&world->ledger, T0);
    memory_holder_init(lease, &world->ledger, holder);
    *ret_port = &lease->port;
    return 0;
}

static void lease_close(struct lease_port *port)
{
    free(port);
}

static void lease_set_time(struct lease_port *port, int64_t now_ms)
{
    start_clock(((struct memory_holder *)port)->ledger, now_ms);
}

const struct ledger_backend on_memory = {
    .name = "memory",
    .missing = missing,
    .make = make,
    .discard = discard,
    .open = open_ledger,
    .close = close_ledger,
    .error = error,
    .set_time = set_time,
    .audit_segments = assert_audit_segments,
    .lease_open = lease_open,
    .lease_close = lease_close,
    .lease_set_time = lease_set_time,
};
