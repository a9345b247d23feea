/*
 * Balancing: units go where buyers ask for them. Homes are fixed, so one segment runs dry while
 * another still has units; a transfer moves some.
 *
 * Happy path of a transfer: noted in the ledger (TRANSFER); taken out at the source (TRANSFER_OUT,
 * known there by the transfer's id); what was really taken is written down (TRANSFERRED), with the
 * event that brings it to its destination. Units are at one place or the other, or in transit.
 *
 * What can go wrong: whoever moved them dies between two steps. The next round, of whoever holds the
 * lease then, finishes what is open: each step done again is done once. If the source is rebuilt in
 * between, its epoch is raised, the transfer is void and the units are the source's again; a step of
 * such a transfer is refused by gate and ledger alike. If either of the two was rebuilt between the look
 * that a move follows from and its note in the ledger, the note is refused, and the next round looks
 * again. So a transfer needs no fence at the gate: its
 * id, its epoch and the lease on its two ledger writes are enough.
 *
 * Who gets units (the fair share is by the sale's regions, and units come from the same region where
 * it has them): a home with less than a quarter of the fair share gets what it lacks of that share,
 * from those that have more than theirs; segments that are nobody's home (added since the sale was
 * warmed) give all they have, and get nothing. With fewer units left than homes nothing moves by itself. A segment that asks for a number of units
 * (balance_ask, or a transfer noted in the ledger by anybody) gets them if all segments together have
 * that many; others keep their fair share if that is enough.
 *
 * Units are not sent to and fro: who got some of an item within pause_ms gives none away and gets no
 * more by itself, and an item's last units move once in that time. One transfer for each item and
 * pair of segments at a time, moves_max for an item in a round: the segment that still has units is
 * not emptied by a crowd of dry ones.
 *
 * A process that began before a segment was added does not see it: after each of its rounds it gives
 * the lease up, for one that does.
 *
 * One thread runs the rounds, under the lease "balance"; balance_ask is any thread's.
 */
#ifndef SLUICE_FLOW_BALANCE_H
#define SLUICE_FLOW_BALANCE_H

#include "flow/blocking.h"
#include "port/lease.h"
#include "port/segments.h"

struct balance_options {
    uint32_t segments;
    uint32_t loop;      /* the gate's connection set of this thread */
    uint32_t moves_max; /* of one item in one round */
    int64_t lease_ms;
    int64_t pause_ms;  /* between two moves of an item to one segment; of the last units: to any */
    int64_t refill_ms; /* how long an ask is remembered */
};

struct balance_ports {
    struct segments *segments;
    struct gate_port *gate;
    struct ledger *ledger;
    struct lease_port *lease;
    struct blocking blocking;
};

struct balance_round {
    uint32_t finished; /* transfers that an earlier round left, or somebody noted */
    uint32_t moved;    /* begun here and brought to their end */
    uint64_t units;    /* that moved, of both */
    uint32_t open;     /* left for the next round */
};

struct balance;

/* Ports outlive it. ERR_NOMEM. */
int balance_new(struct balance_ports ports, struct balance_options options,
                struct balance **ret_balance);
void balance_free(struct balance *balance);
/* ERR_BUSY: somebody else balances. Else the ledger's error; what was begun is finished later. */
int balance_round(struct balance *balance, struct balance_round *ret_round);
/* After the last round: gives the lease up, so that the next process need not wait for its end. */
void balance_end(struct balance *balance);
/* Any thread: a buyer at this home wants so many. Asks beyond a bound are forgotten: buyers ask
 * again. */
void balance_ask(struct balance *balance, uint32_t segment, uint64_t item, uint64_t units);

#endif
