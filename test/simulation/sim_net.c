/*
 * The network between the crowd and the server's loops: port/net.h without sockets. Bytes take
 * their time, come in pieces, and are lost with their connection. Level-triggered like the real
 * one. Fails the process where the server breaks the port's rules.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "sim_private.h"

/* A NUL stands behind the bytes, so that clients may read them as text. */
void pile_add(struct pile *pile, const void *bytes, size_t n)
{
    if (pile->from > 0 && pile->len + n >= pile->cap) {
        memmove(pile->at, pile->at + pile->from, pile->len - pile->from);
        pile->len -= pile->from;
        pile->from = 0;
    }
    if (pile->len + n >= pile->cap) {
        pile->cap = (pile->len + n + 1) * 2;
        pile->at = realloc(pile->at, pile->cap);
        CHECK(pile->at != NULL);
    }
    memcpy(pile->at + pile->len, bytes, n);
    pile->len += n;
    pile->at[pile->len] = '\0';
}

void pile_clear(struct pile *pile)
{
    pile->from = pile->len = 0;
}

static size_t pile_bytes(const struct pile *pile)
{
    return pile->len - pile->from;
}

static void pile_take(struct pile *pile, size_t n)
{
    pile->from += n;
    if (pile->from == pile->len) {
        pile_clear(pile);
    }
}

static struct wire *wire_of(struct net *net, uint32_t connection)
{
    struct sim_loop *loop = (struct sim_loop *)net;
    CHECK(connection < SIM_WIRES_MAX && loop->wires[connection].server_open);
    return &loop->wires[connection];
}

static struct wire *wire_at(struct sim *sim, uint32_t handle)
{
    return &sim->loops[handle / SIM_WIRES_MAX].wires[handle % SIM_WIRES_MAX];
}

/* ---- the server's side ---- */

static uint32_t wire_state(struct wire *wire)
{
    uint32_t what = wire->announced ? 0 : NET_ACCEPTED;
    wire->announced = true;
    if (wire->reset) {
        return what | NET_HUNG_UP;
    }
    if ((wire->watch & NET_READABLE) != 0 && (pile_bytes(&wire->arrived) > 0 || wire->fin)) {
        what |= NET_READABLE;
    }
    if ((wire->watch & NET_WRITABLE) != 0 && wire->window > 0) {
        what |= NET_WRITABLE;
    }
    if (wire->fin && !wire->told_finished) {
        wire->told_finished = true;
        what |= NET_FINISHED;
    }
    return what;
}

static size_t op_poll(struct net *net, struct net_event *ret_events, size_t max, int64_t timeout_us)
{
    struct sim_loop *loop = (struct sim_loop *)net;
    size_t count = 0;
    for (uint32_t i = 0; i < SIM_WIRES_MAX && count < max; i++) {
        struct wire *wire = &loop->wires[i];
        uint32_t what = wire->server_open ? wire_state(wire) : 0;
        if (what != 0) {
            ret_events[count++] = (struct net_event){i, what};
        }
    }
    if (count == 0 && timeout_us != 0) {
        /* The sleep itself happens on the heap, after this turn. */
        loop->slept = true;
        loop->sleep_us = timeout_us > 0 ? timeout_us : INT64_C(1000000);
        loop->wants_lsn = atomic_load(&loop->sim->process.parts->wakers[loop->number].wants_lsn);
    }
    return count;
}

static int64_t op_read(struct net *net, uint32_t connection, void *bytes, size_t n)
{
    struct wire *wire = wire_of(net, connection);
    if (wire->reset) {
        return ERR_IO;
    }
    size_t have = pile_bytes(&wire->arrived);
    if (have == 0) {
        return wire->fin ? 0 : ERR_AGAIN;
    }
    n = have < n ? have : n;
    memcpy(bytes, wire->arrived.at + wire->arrived.from, n);
    pile_take(&wire->arrived, n);
    return (int64_t)n;
}

static void deliver(struct sim *sim, uint32_t handle, uint64_t a);
static void deliver_end(struct sim *sim, uint32_t handle, uint64_t generation);

static int64_t down_delay(struct sim *sim, struct wire *wire)
{
    int64_t at = sim->now_us + sim_about(sim, sim->plan.net_us);
    wire->down_us = at > wire->down_us ? at : wire->down_us + 1;
    return wire->down_us - sim->now_us;
}

static int64_t op_write(struct net *net, uint32_t connection, const struct net_piece *pieces,
                        size_t count)
{
    struct sim_loop *loop = (struct sim_loop *)net;
    struct sim *sim = loop->sim;
    struct wire *wire = wire_of(net, connection);
    uint32_t handle = loop->number * SIM_WIRES_MAX + connection;
    CHECK(!wire->finished && count > 0);
    if (wire->reset) {
        return ERR_IO;
    }
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = pieces[i].len < wire->window ? pieces[i].len : wire->window;
        if (!sim->process.dead && n > 0) {
            pile_add(&wire->written, pieces[i].at, n);
        }
        wire->window -= n;
        taken += n;
        if (n < pieces[i].len) {
            break;
        }
    }
    if (taken == 0) {
        return ERR_AGAIN;
    }
    if (!sim->process.dead) {
        (void)sim_after(sim, down_delay(sim, wire), "answer arrives", deliver, handle,
                        (uint64_t)wire->generation << 32 | taken);
    }
    return (int64_t)taken;
}

static void op_finish(struct net *net, uint32_t connection)
{
    struct sim_loop *loop = (struct sim_loop *)net;
    struct wire *wire = wire_of(net, connection);
    CHECK(!wire->finished);
    wire->finished = true;
    (void)sim_after(loop->sim, down_delay(loop->sim, wire), "server's end arrives", deliver_end,
                    loop->number * SIM_WIRES_MAX + connection, wire->generation);
}

static void op_watch(struct net *net, uint32_t connection, uint32_t what)
{
    struct sim_loop *loop = (struct sim_loop *)net;
    wire_of(net, connection)->watch = what;
    process_turn_soon(loop->sim, loop->number, 1);
}

static void op_close(struct net *net, uint32_t connection)
{
    struct sim_loop *loop = (struct sim_loop *)net;
    struct wire *wire = wire_of(net, connection);
    wire->server_open = false;
    if (!wire->finished && wire->client_open) {
        (void)sim_after(loop->sim, down_delay(loop->sim, wire), "server's end arrives", deliver_end,
                        loop->number * SIM_WIRES_MAX + connection, wire->generation);
    }
}

static void op_accepting(struct net *net, bool on)
{
    ((struct sim_loop *)net)->accepting = on;
}

static struct net_address op_peer(struct net *net, uint32_t connection)
{
    struct wire *wire = wire_of(net, connection);
    return (struct net_address){4, {10, 0, (uint8_t)(wire->client >> 8), (uint8_t)wire->client}};
}

static void op_wake(struct net *net)
{
    struct sim_loop *loop = (struct sim_loop *)net;
    process_turn_soon(loop->sim, loop->number, 1);
}

/* ---- the client's side ---- */

int32_t wire_connect(struct sim *sim, uint32_t client)
{
    struct sim_loop *loop = &sim->loops[sim_below(sim, sim->plan.loops)];
    if (sim->process.state == PROCESS_DOWN || !loop->accepting) {
        return -1;
    }
    for (uint32_t i = 0; i < SIM_WIRES_MAX; i++) {
        struct wire *wire = &loop->wires[i];
        if (wire->server_open || wire->client_open) {
            continue;
        }
        struct pile sent = wire->sent;
        struct pile arrived = wire->arrived;
        struct pile written = wire->written;
        *wire = (struct wire){.server_open = true,
                              .client_open = true,
                              .watch = NET_READABLE,
                              .window = SIZE_MAX,
                              .client = client,
                              .generation = wire->generation + 1,
                              .sent = sent,
                              .arrived = arrived,
                              .written = written};
        pile_clear(&wire->sent);
        pile_clear(&wire->arrived);
        pile_clear(&wire->written);
        process_turn_soon(sim, loop->number, sim_about(sim, sim->plan.turn_us));
        return (int32_t)(loop->number * SIM_WIRES_MAX + i);
    }
    return -1;
}

static bool is_current(struct sim *sim, uint32_t handle, uint64_t generation)
{
    return wire_at(sim, handle)->generation == generation;
}

static void arrive(struct sim *sim, uint32_t handle, uint64_t a)
{
    struct wire *wire = wire_at(sim, handle);
    size_t n = (uint32_t)a;
    if (!is_current(sim, handle, a >> 32) || !wire->server_open || wire->reset) {
        return;
    }
    CHECK(n <= pile_bytes(&wire->sent));
    pile_add(&wire->arrived, wire->sent.at + wire->sent.from, n);
    pile_take(&wire->sent, n);
    process_turn_soon(sim, handle / SIM_WIRES_MAX, sim_about(sim, sim->plan.turn_us));
}

void wire_send(struct sim *sim, uint32_t handle, const void *bytes, size_t n, bool split)
{
    struct wire *wire = wire_at(sim, handle);
    size_t pieces = split ? (size_t)sim_between(sim, 2, 5) : 1;
    CHECK(wire->client_open && n > 0);
    pile_add(&wire->sent, bytes, n);
    for (size_t i = 0; i < pieces && n > 0; i++) {
        size_t part = i + 1 == pieces ? n : 1 + (size_t)sim_below(sim, n);
        int64_t at = sim->now_us + sim_about(sim, sim->plan.net_us);
        wire->up_us = at > wire->up_us ? at : wire->up_us + 1;
        (void)sim_after(sim, wire->up_us - sim->now_us, "bytes arrive", arrive, handle,
                        (uint64_t)wire->generation << 32 | part);
        n -= part;
    }
    if (split) {
        sim_fault_happened(sim, FAULT_NET_SPLIT);
    }
}

static void deliver(struct sim *sim, uint32_t handle, uint64_t a)
{
    struct wire *wire = wire_at(sim, handle);
    size_t n = (uint32_t)a;
    if (!is_current(sim, handle, a >> 32) || !wire->client_open) {
        return;
    }
    CHECK(n <= pile_bytes(&wire->written));
    if (sim_chance(sim, sim->plan.lost) && !sim->healed) {
        sim_fault_happened(sim, FAULT_NET_LOST);
        wire_cut(sim, handle);
        return;
    }
    const char *bytes = wire->written.at + wire->written.from;
    pile_take(&wire->written, n);
    client_receive(sim, wire->client, bytes, n);
}

static void deliver_end(struct sim *sim, uint32_t handle, uint64_t generation)
{
    struct wire *wire = wire_at(sim, handle);
    if (is_current(sim, handle, generation) && wire->client_open) {
        uint32_t client = wire->client;
        wire_drop(sim, handle, false);
        client_cut(sim, client);
    }
}

void wire_drop(struct sim *sim, uint32_t handle, bool reset)
{
    struct wire *wire = wire_at(sim, handle);
    wire->client_open = false;
    if (wire->server_open) {
        wire->reset = wire->reset || reset;
        wire->fin = true;
        process_turn_soon(sim, handle / SIM_WIRES_MAX, sim_about(sim, sim->plan.turn_us));
    }
}

void wire_cut(struct sim *sim, uint32_t handle)
{
    struct wire *wire = wire_at(sim, handle);
    if (wire->client_open) {
        uint32_t client = wire->client;
        wire_drop(sim, handle, true);
        client_cut(sim, client);
    }
}

static void flows_again(struct sim *sim, uint32_t handle, uint64_t generation)
{
    struct wire *wire = wire_at(sim, handle);
    if (is_current(sim, handle, generation) && wire->server_open) {
        wire->window = SIZE_MAX;
        process_turn_soon(sim, handle / SIM_WIRES_MAX, 1);
    }
}

void wire_stall(struct sim *sim, uint32_t handle, size_t window, int64_t for_us)
{
    struct wire *wire = wire_at(sim, handle);
    wire->window = window;
    sim_fault_happened(sim, FAULT_NET_STALL);
    (void)sim_after(sim, for_us, "the reader reads again", flows_again, handle, wire->generation);
}

void wires_break(struct sim *sim)
{
    for (uint32_t l = 0; l < sim->plan.loops; l++) {
        sim->loops[l].accepting = false;
        for (uint32_t i = 0; i < SIM_WIRES_MAX; i++) {
            struct wire *wire = &sim->loops[l].wires[i];
            wire->server_open = false;
            if (wire->client_open && !wire->finished) {
                wire->finished = true;
                (void)sim_after(sim, down_delay(sim, wire), "server's end arrives", deliver_end,
                                l * SIM_WIRES_MAX + i, wire->generation);
            }
        }
    }
}

void sim_net_init(struct sim *sim)
{
    static const struct net_ops ops = {
        .poll = op_poll,
        .read = op_read,
        .write = op_write,
        .finish = op_finish,
        .watch = op_watch,
        .close = op_close,
        .accepting = op_accepting,
        .peer = op_peer,
        .wake = op_wake,
    };
    for (uint32_t i = 0; i < SIM_LOOPS_MAX; i++) {
        sim->loops[i].net.ops = &ops;
        sim->loops[i].sim = sim;
        sim->loops[i].number = i;
    }
}

void sim_net_done(struct sim *sim)
{
    for (uint32_t l = 0; l < SIM_LOOPS_MAX; l++) {
        for (uint32_t i = 0; i < SIM_WIRES_MAX; i++) {
            struct wire *wire = &sim->loops[l].wires[i];
            free(wire->sent.at);
            free(wire->arrived.at);
            free(wire->written.at);
        }
    }
}
