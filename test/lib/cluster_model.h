/*
 * What stands in front of and behind the segments, in small and on one thread: a front with the journal
 * of its promises, relay, booker, and the one that applies the ledger's events. Tests of recovery,
 * balancing and reconciliation add a process whose calls are counted and that can be killed at any of
 * them.
 */
#ifndef SLUICE_TEST_CLUSTER_MODEL_H
#define SLUICE_TEST_CLUSTER_MODEL_H

#include "cluster_world.h"
#include "memory_private.h"
#include "port/blocking.h"

#define MODEL_UNITS 30 /* of each item, over all segments */
#define MODEL_LEASE_MS 5000

struct model_process;

/* The ports of a process: each call is counted, and passed to the world's port while it lives. */
struct process_segments {
    struct segments port;
    struct model_process *process;
    struct segments *to;
};
struct process_gate {
    struct gate_port port;
    struct model_process *process;
    struct gate_port *to;
};
struct process_ledger {
    struct ledger port;
    struct model_process *process;
    struct memory_port to;
};
struct process_lease {
    struct lease_port port;
    struct model_process *process;
    struct memory_holder to;
};

/* One process's ports. After it is killed, none of its calls has an effect. */
struct model_process {
    struct cluster_world *world;
    struct process_segments segments;
    struct process_gate gate;
    struct process_ledger ledger;
    struct process_lease lease;
    struct blocking blocking;
    uint64_t calls;
    uint64_t dies_at;                                 /* the call that is its end; 0: none */
    uint64_t skips;                                   /* calls that nothing happens before */
    void (*meanwhile)(struct model_process *process); /* before each of its calls */
    void (*spoil)(struct model_process *process, struct ledger_query *query); /* what it has read */
    void *context;
    bool busy;         /* in `meanwhile` */
    int lose_next;     /* its next batch is committed and says this all the same */
    int fail_reads;    /* all its reads say this */
    uint64_t unleased; /* batches that it wrote under no lease */
    uint64_t fenced;   /* batches that came too late */
};

/* The seed that runs now. It is printed at an abort, and by the teardown after a failed assertion;
 * 0: the run has ended well. SLUICE_SEED sets the only seed of a test that calls model_seeds. */
void model_seed(uint64_t seed);
int model_print_seed(void **state);
void model_seeds(uint64_t *first, uint64_t *last);

/* A world with a sale of three items, and no segment open yet. */
void model_init(struct cluster_world *ret_world, struct cluster_options options);
/* A buyer's home. */
uint32_t model_home(const struct cluster_world *world, uint64_t user);
/* The gate gets more segments: whoever starts from now on knows them. */
void model_grow(struct cluster_world *world, uint32_t segments);
void model_done(struct cluster_world *world);

void model_process_init(struct model_process *ret_process, struct cluster_world *world,
                        uint32_t name);
void model_process_done(struct model_process *process);

struct item_row *model_item(const struct cluster_world *world, uint64_t item);

/* A buy; true if it was won and told. */
bool model_buy(struct cluster_world *world, uint64_t user, uint64_t item, uint32_t qty);
/* The same, and its front dies before it has told anybody: no journal has it. */
bool model_buy_untold(struct cluster_world *world, uint64_t user, uint64_t item, uint32_t qty);
void model_relay(struct cluster_world *world);
void model_book(struct cluster_world *world);
void model_apply(struct cluster_world *world);
/* The front hears news: new epochs, and makes its decisions again there. */
void model_hear(struct cluster_world *world);
/* All of these once. */
void model_turn(struct cluster_world *world);
/* Until nothing moves any more. */
void model_settle(struct cluster_world *world);
/* Something somebody else does in the ledger: pays, cancels, restocks, pauses. */
void model_stir(struct cluster_world *world);

/* CHECKs what is always true: gates agree with themselves, the ledger with itself. */
void model_audit(const struct cluster_world *world);
/* CHECKs what is true of a settled world with every segment open: gate and ledger agree on every
 * order and unit, and every decision that was told has an order. */
void model_agree(const struct cluster_world *world);

#endif
