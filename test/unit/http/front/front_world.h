/*
 * One front over the office's world and a network in memory, asking a gate that may answer late.
 * Buyers, the shop and an operator are in the test's hands; time stands still until it is moved.
 */
#ifndef SLUICE_TEST_FRONT_WORLD_H
#define SLUICE_TEST_FRONT_WORLD_H

#include "http/front_private.h"
#include "late_gate.h"
#include "unit/flow/office_world.h"
#include "unit/http/memory_net.h"

#define FRONT_CONNECTIONS 8
#define FRONT_ADMIN "an admin's token of some length"

/* Reads orders as a list, which the ledger in memory leaves out. */
struct front_reader {
    struct ledger ledger; /* first */
    struct memory_ledger *inner;
};

struct front_world {
    struct office_world office;
    struct front_reader reader;
    struct clerk *clerk;
    struct metrics metrics;
    struct front_settings settings;
    struct front_shared shared;
    struct fake_clock gate_clock; /* the late gate's own, unless a test gives it the world's */
    struct late_gate gate;
    struct net *net;
    struct front *front;
    const char *headers; /* sent with every request, each with its CRLF; NULL: none */
};

/* A sale is open (office_world.h). The gate answers at once until told otherwise. */
void front_world_up(struct front_world *ret_world, uint64_t seed);
void front_world_down(struct front_world *world);

/* One turn of the loop alone. */
bool front_world_turn(struct front_world *world);
/* Turns of the loop and of the journal, nothing is booked. */
void front_world_flush(struct front_world *world);
/* Turns of everything but the late gate's clock, until nothing more happens. */
void front_world_settle(struct front_world *world);
/* The late gate's clock moves, so that all that was asked so far is answered; the loop turns. */
void front_world_pass(struct front_world *world);
/* The late gate's clock moves far enough for everything under way, until nothing is; settled. */
void front_world_answer(struct front_world *world);

/* ---- the clients' side ---- */

uint32_t front_world_connect(struct front_world *world);
/* user 0: an operator. body NULL: none. Nothing runs yet. */
void front_world_send(struct front_world *world, uint32_t connection, const char *method,
                      const char *path, uint64_t user, const char *body);
/* The shop tells of a payment, signed. */
void front_world_send_payment(struct front_world *world, uint32_t connection, struct order_id id,
                              const char *payment_id, int64_t amount_cents);
/* What came since the last time, as text; "" for nothing. Valid until the next call. */
const char *front_world_heard(struct front_world *world, uint32_t connection);
/* The status of an answer; 0: there is none. */
int front_world_status(const char *heard);
/* Connects, sends, lets everything happen, and tells what came. */
const char *front_world_call(struct front_world *world, const char *method, const char *path,
                             uint64_t user, const char *body);
/* The value of a member "name":"value" of the text; false: not there. */
bool front_world_member(const char *heard, const char *name, char *ret_value, size_t size);

/* A path with an order's id in it: "/v1/orders/", id, rest. Valid until the next call. */
const char *front_world_path(struct order_id id, const char *rest);
/* Takes a ticket and buys, through the front; it must be told 202. */
struct order_id front_world_buy(struct front_world *world, uint64_t user, uint64_t item);

#endif
