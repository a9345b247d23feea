/*
 * Balancing moves units to the segments where buyers want them. A buyer's home segment is fixed, so
 * one segment can run dry while another still has units. A transfer moves some of them.
 *
 * Happy path of a transfer: it is noted in the ledger (TRANSFER). The source segment gives the
 * units up (TRANSFER_OUT) and remembers the transfer by its id. The ledger records how many units
 * were really taken (TRANSFERRED), together with the event that adds them to the destination. At
 * any time a unit is at the source, at the destination or in transit.
 *
 * What can go wrong:
 * - The process dies between two steps. The next holder of the lease finishes the open transfers in
 *   its next round. Every step is idempotent.
 * - The source is rebuilt in between. Its epoch is raised, the transfer is void, and the units
 *   belong to the source again. Gate and ledger both refuse any later step of a void transfer.
 * - The source or the destination is rebuilt after this round read their stock and before the
 *   transfer is noted. The ledger refuses the note, and the next round reads the stock again.
 * So a transfer needs no fence at the gate: its id and its epoch are enough. The two ledger writes
 * here are made under the lease. A front whose buyers lack units writes the first one without a lease
 * (booking_channel_transfer()): a note moves nothing, and the holder of the lease finishes it.
 *
 * Which segment gets units: the fair share of a home follows the sale's regions, and units come
 * from the same region first. A home with less than a quarter of its fair share is filled up to
 * that share, from segments that have more than theirs. A segment that is nobody's home (added
 * after the sale was warmed) gives away all it has and gets nothing. If a sale has no regions and
 * fewer units are left than it has homes, nothing moves by itself. A refill request (balance_ask)
 * is served if all segments together have what one of its buyers wants. If all requests together
 * want more than there is, each gets its part of it. The other segments keep their fair share
 * if the rest is enough. A transfer that somebody else noted in the ledger is finished as noted.
 *
 * Units do not move back and forth. For pause_ms after a segment received units of an item, no
 * round starts a transfer of that item from it. Units that are on their way to a segment, for
 * pause_ms at most, count as its own: it gets what it lacks beyond them, and small transfers hold off
 * no large one. When fewer units are left than homes, a refill request waits until no unit of the
 * item has moved for pause_ms. There is one open transfer
 * for each item and pair of segments, and at most moves_max transfers of an item in a round. So a
 * crowd of dry segments does not empty the one that still has units.
 *
 * A process that started before a segment was added does not see that segment. It drops the lease
 * after each round, so that a process that does see it can take over.
 *
 * A round reads the sales that have changed since the one before, not all of them. While no sale
 * sells, no transfer is open and nobody asks for units, there is a round every two seconds.
 *
 * Threads: one thread runs the rounds, under the lease "balance". Any thread may call balance_ask.
 */
#ifndef SLUICE_DISTRIBUTED_BALANCE_H
#define SLUICE_DISTRIBUTED_BALANCE_H

#include "port/blocking.h"
#include "port/lease.h"
#include "port/segments.h"

struct balance_options {
    uint32_t segments;
    uint32_t loop;      /* this thread's connection set at the gate */
    uint32_t moves_max; /* transfers of one item in one round, at most */
    int64_t lease_ms;
    int64_t pause_ms; /* from a move of an item to a segment to the next from it; of its last units:
                        * to the next to any */
    int64_t refill_ms; /* a refill request is forgotten after this */
};

struct balance_ports {
    struct segments *segments;
    struct gate_port *gate;
    struct ledger *ledger;
    struct lease_port *lease;
    struct blocking blocking;
};

struct balance_round {
    uint32_t finished; /* transfers left open by an earlier round or noted by others */
    uint32_t moved;    /* transfers started and finished in this round */
    uint64_t units;    /* units moved by both kinds */
    uint32_t open;     /* transfers left for the next round */
    uint32_t selling;  /* sales that sold in this round */
};

struct balance;

/* The ports must outlive it. ERR_NOMEM. */
int balance_new(struct balance_ports ports, struct balance_options options,
                struct balance **ret_balance);
void balance_free(struct balance *balance);
/* ERR_BUSY: another process balances. Otherwise the ledger's error; a later round
 * finishes what this one started. */
int balance_round(struct balance *balance, struct balance_round *ret_round);
/* Call after the last round. Drops the lease, so that the next process
 * need not wait for it to expire. */
void balance_end(struct balance *balance);
/* Any thread: buyers whose home is this segment want this many units together, and none of them
 * fewer than `least`. It takes the place of what was wanted there before. Requests beyond a fixed
 * bound are dropped; buyers ask again. */
void balance_ask(struct balance *balance, uint32_t segment, uint64_t item, uint64_t units,
                 uint64_t least);

#endif
