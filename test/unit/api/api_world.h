/*
 * One worker with the ledger writer's world, a network in memory and a gate that may answer late.
 * The test acts as the buyers, the shop and an operator. Time stands still until the test moves it.
 */
#ifndef SLUICE_TEST_API_WORLD_H
#define SLUICE_TEST_API_WORLD_H

#include "api/api_private.h"
#include "late_gate.h"
#include "lib/ledger_writer_world.h"
#include "unit/http/memory_net.h"

#define API_CONNECTIONS 8
#define API_ADMIN "an admin's token of some length"

/* Reads orders as a list, which the ledger in memory leaves out. */
struct api_reader {
    struct ledger ledger; /* first */
    struct memory_ledger *inner;
};

struct api_world {
    struct ledger_writer_world ledger_writer;
    struct api_reader reader;
    struct ledger_reader *ledger_reader;
    struct ledger_reader *operator_reader;
    struct metrics metrics;
    struct api_settings settings;
    struct api_shared shared;
    struct fake_clock gate_clock; /* the late gate's own, unless a test gives it the world's */
    struct late_gate gate;
    struct net *net;
    struct api_worker *worker;
    const char *headers; /* sent with every request, each with its CRLF; NULL: none */
};

/* A sale is open (ledger_writer_world.h). The gate answers at once unless the test changes that. */
void api_world_up(struct api_world *ret_world, uint64_t seed);
void api_world_down(struct api_world *world);

/* One iteration of the loop alone. */
bool api_world_iterate(struct api_world *world);
/* Iterations of the loop and of the journal; nothing is booked. */
void api_world_flush(struct api_world *world);
/* Iterations of everything, until nothing more happens. The late gate's clock does not move. */
void api_world_settle(struct api_world *world);
/* Moves the late gate's clock, so that all requests so far are answered, and iterates the loop. */
void api_world_pass(struct api_world *world);
/* Moves the late gate's clock until no request is under way, and settles. */
void api_world_answer(struct api_world *world);

/* ---- the clients' side ---- */

uint32_t api_world_connect(struct api_world *world);
/* user 0: an operator. body NULL: none. Nothing runs yet. */
void api_world_send(struct api_world *world, uint32_t connection, const char *method,
                    const char *path, uint64_t user, const char *body);
/* The shop reports a payment, signed. */
void api_world_send_payment(struct api_world *world, uint32_t connection, struct order_id id,
                            const char *payment_id, int64_t amount_cents);
/* What came since the last time, as text; "" for nothing. Valid until the next call. */
const char *api_world_heard(struct api_world *world, uint32_t connection);
/* The status of an answer; 0: there is none. */
int api_world_status(const char *heard);
/* Connects, sends, lets everything happen, and returns what came. */
const char *api_world_call(struct api_world *world, const char *method, const char *path,
                           uint64_t user, const char *body);
/* The value of a member "name":"value" of the text; false: not there. */
bool api_world_member(const char *heard, const char *name, char *ret_value, size_t size);

/* A path with an order's id in it: "/v1/orders/", id, rest. Valid until the next call. */
const char *api_world_path(struct order_id id, const char *rest);
/* Takes a ticket and buys; the answer must be 202. */
struct order_id api_world_buy(struct api_world *world, uint64_t user, uint64_t item);

#endif
