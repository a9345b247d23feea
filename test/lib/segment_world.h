/*
 * A shop on a gate of several segments, without threads and servers: simulated segments, a ledger in
 * memory, one front with the journal of what it told, and what stands behind it in small: relay,
 * booker, and whoever applies the ledger's events. A process that recovers, balances or reconciles is
 * added by tests; its calls are counted, and it can be killed at any of them.
 */
#ifndef SLUICE_TEST_SEGMENT_WORLD_H
#define SLUICE_TEST_SEGMENT_WORLD_H

#include "base/prng.h"
#include "fake_clock.h"
#include "memory_private.h"
#include "port/blocking.h"
#include "sim_segments.h"

#define WORLD_NOW 1700000000000LL
#define WORLD_SALE 1
#define WORLD_ONCE 11  /* one each */
#define WORLD_THREE 12 /* three each */
#define WORLD_FREE 13  /* no limit */
#define WORLD_UNITS 30 /* of each */
#define WORLD_PAY_MS 60000
#define WORLD_LEASE_MS 5000

/* What a front told a buyer; and a message on its way. */
struct answer {
    uint32_t segment;
    uint64_t epoch;
    struct gate_command command;
    bool told;
};

struct segment_world {
    uint32_t segments;
    uint32_t homes; /* of its sale */
    struct fake_clock clock;
    struct prng prng;
    struct memory_ledger ledger;
    struct sim_segments *sim;
    struct gate_port *worker;
    struct segments
        *behind; /* relay, booker, ledger writer and the front's ear: they wait for nobody */
    uint64_t epochs[SEGMENTS_MAX]; /* as the front knows them */
    bool owes[SEGMENTS_MAX];       /* its journal has not been replayed there, not wholly */
    struct answer *journal;
    size_t journal_count;
    struct answer *messages;
    size_t messages_count;
    uint32_t sequence;
    bool still; /* nothing else happens while somebody sleeps */
};

struct process;

/* The ports of a process: each call is counted, and goes on to the world's if it still lives. */
struct process_segments {
    struct segments port;
    struct process *process;
    struct segments *to;
};
struct process_gate {
    struct gate_port port;
    struct process *process;
    struct gate_port *to;
};
struct process_ledger {
    struct ledger port;
    struct process *process;
    struct memory_port to;
};
struct process_lease {
    struct lease_port port;
    struct process *process;
    struct memory_holder to;
};

/* Somebody's own way to everything; killed, nothing it does reaches anything. */
struct process {
    struct segment_world *world;
    struct process_segments segments;
    struct process_gate gate;
    struct process_ledger ledger;
    struct process_lease lease;
    struct blocking blocking;
    uint64_t calls;
    uint64_t dies_at;                           /* the call that is its end; 0: none */
    uint64_t skips;                             /* calls that nothing happens before */
    void (*meanwhile)(struct process *process); /* before each of its calls */
    void (*spoil)(struct process *process, struct ledger_query *query); /* what it has read */
    void *context;
    bool busy;         /* in `meanwhile` */
    int lose_next;     /* its next batch is committed and says this all the same */
    int fail_reads;    /* all its reads say this */
    uint64_t unleased; /* batches that it wrote under no lease */
    uint64_t fenced;   /* batches that came too late */
};

/* The seed of what runs now: told if it fails, by an abort or, with the teardown, an assertion. 0: it
 * has ended well. SLUICE_SEED gives one to a test that calls seg_seeds. */
void seg_seed(uint64_t seed);
int seg_tell_seed(void **state);
void seg_seeds(uint64_t *first, uint64_t *last);

void seg_init(struct segment_world *ret_world, uint32_t segments, uint64_t seed);
/* The same, with servers for as many as `most`; seg_grow adds them. */
void seg_init_small(struct segment_world *ret_world, uint32_t segments, uint32_t most,
                    uint64_t seed);
/* The same as seg_init, with homes by region: port/regions.h. */
void seg_init_regions(struct segment_world *ret_world, uint32_t segments, const char *regions,
                      uint64_t seed);
/* A buyer's home. */
uint32_t seg_home(const struct segment_world *world, uint64_t user);
/* The gate gets more segments: whoever starts from now on knows them. */
void seg_grow(struct segment_world *world, uint32_t segments);
void seg_done(struct segment_world *world);

void process_init(struct process *ret_process, struct segment_world *world, uint32_t name);
void process_done(struct process *process);

/* Runs one op in the ledger; its refusal. */
enum refusal seg_run(struct segment_world *world, struct ledger_op *op);
struct item_row *seg_item(const struct segment_world *world, uint64_t item);

/* A buy; true if it was won and told. */
bool seg_buy(struct segment_world *world, uint64_t user, uint64_t item, uint32_t qty);
/* The same, and its front dies before it has told anybody: no journal has it. */
bool seg_buy_untold(struct segment_world *world, uint64_t user, uint64_t item, uint32_t qty);
void seg_relay(struct segment_world *world);
void seg_book(struct segment_world *world);
void seg_apply(struct segment_world *world);
/* The front hears news: new epochs, and makes its decisions again there. */
void seg_hear(struct segment_world *world);
/* All of these once. */
void seg_turn(struct segment_world *world);
/* Until nothing moves any more. */
void seg_settle(struct segment_world *world);
/* Something somebody else does in the ledger: pays, cancels, restocks, pauses. */
void seg_stir(struct segment_world *world);

/* CHECKs what is always true: gates agree with themselves, the ledger with itself. */
void seg_audit(const struct segment_world *world);
/* CHECKs what is true of a settled world with every segment open: gate and ledger agree on every
 * order and unit, and every decision that was told has an order. */
void seg_agree(const struct segment_world *world);

#endif
