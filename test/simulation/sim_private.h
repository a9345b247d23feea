/* The inside of a seed, shared by sim.c, process.c, the ports and the crowd. */
#ifndef SLUICE_SIM_PRIVATE_H
#define SLUICE_SIM_PRIVATE_H

#include <stdio.h>

#include "app/assembly.h"
#include "fiber.h"
#include "late_gate.h"
#include "memory_ledger.h"
#include "ram_disk.h"
#include "referee.h"
#include "sim.h"

#define SIM_EPOCH_MS 1800000000000LL /* the wall clock at true time 0 */
#define SIM_LOOPS_MAX 3
#define SIM_WIRES_MAX 64 /* per loop */
#define SIM_CLIENTS_MAX 32
#define SIM_SALES_MAX 3
#define SIM_ITEMS_MAX 3 /* per sale */
#define SIM_USERS_MAX 400
#define SIM_NOTES 64

/* ---- the heap ---- */

typedef void sim_run_event(struct sim *sim, uint32_t target, uint64_t a);

struct sim_event {
    int64_t at_us;
    uint64_t sequence;
    const char *what; /* for the notes */
    sim_run_event *run;
    uint32_t target;
    uint64_t a;
};

/* run(sim, target, a) happens delay_us from now. Returns its sequence number. */
uint64_t sim_after(struct sim *sim, int64_t delay_us, const char *what, sim_run_event *run,
                   uint32_t target, uint64_t a);

/* ---- the plan: everything drawn at the start of a seed ---- */

struct plan_item {
    uint64_t id;
    uint32_t price_cents;
    uint32_t limit;
    uint32_t total;
};

struct plan_sale {
    uint64_t id;
    int64_t starts_ms; /* server's time, from SIM_EPOCH_MS */
    int64_t ends_ms;
    uint32_t pay_within_s;
    bool bar_unpaid;
    bool opens_by_itself; /* warmed, and left to its start */
    uint32_t items_count;
    struct plan_item items[SIM_ITEMS_MAX];
};

struct plan {
    uint64_t faults; /* which kinds are on */
    uint32_t users;
    uint32_t clients;
    uint32_t loops;
    uint32_t requests;
    int64_t length_us; /* so long the crowd is at it, at least */
    int64_t think_us;  /* mean pause of a client */
    uint32_t sales_count;
    struct plan_sale sales[SIM_SALES_MAX];
    /* habits of the crowd, of 1,000 */
    uint32_t pay, cancel, late, hasty, again, other_qty, watch, poll, look, cheat, operate,
        my_orders;
    uint32_t qty_max;
    /* faults of the network, of 1,000 requests */
    uint32_t cut, split, twice, lost, stall;
    int64_t net_us; /* mean delay of bytes */
    /* speeds of threads and devices */
    int64_t turn_us, disk_us, ledger_writer_us, janitor_us;
    uint32_t interleave;               /* of 1,000 disk operations in which another thread runs */
    uint32_t ledger_lost, ledger_slow; /* of 1,000 batches, while such a fault is on */
    int64_t drift_ppm;
    bool sqlite;
    uint32_t tick_ms, batch_max;
    int64_t late_cancel_ms;
    int64_t cooling_ms;
    int64_t board_keep_ms;
    struct gate_sizes sizes;
    struct gate_percents shares;
    uint32_t reads_fail; /* of a thousand reads of the ledger reader, until all heals */
    uint64_t file_bytes;
    uint64_t reserve_bytes; /* 0: none */
    uint32_t buffer_bytes;
};

/* ---- wires: one connection each (sim_net.c) ---- */

struct pile {
    char *at;
    size_t from;
    size_t len;
    size_t cap;
};
void pile_add(struct pile *pile, const void *bytes, size_t n);
void pile_clear(struct pile *pile);

struct wire {
    bool server_open; /* the server has not closed it */
    bool client_open;
    bool announced;
    bool reset;    /* as the server will see it */
    bool fin;      /* the client will send no more, as the server sees it */
    bool finished; /* the server will write no more */
    bool told_finished;
    uint32_t watch;
    size_t window;
    uint32_t client;
    uint32_t generation;    /* grows with each use: events of an older one mean nothing */
    struct pile sent;       /* by the client, under way */
    struct pile arrived;    /* to be read by the server */
    struct pile written;    /* by the server, under way */
    int64_t up_us, down_us; /* nothing of this direction arrives before */
};

struct sim_loop {
    struct net net; /* first */
    struct sim *sim;
    uint32_t number;
    bool accepting;
    bool slept;       /* the last turn ended in a sleep */
    int64_t sleep_us; /* ... of so long */
    uint64_t wants_lsn;
    int64_t turn_at_us;
    bool ended; /* drained */
    struct wire wires[SIM_WIRES_MAX];
};

/* ---- the ledger port (sim_ledger.c) ---- */

struct sim_ledger {
    struct ledger port; /* first */
    struct sim *sim;
    struct ledger *inner;
    bool down;
    uint32_t lose;  /* of 1,000 batches */
    uint32_t delay; /* of 1,000 batches */
    bool waiting;   /* the ledger writer's fiber sleeps inside a slow write ... */
    int64_t due_us; /* ... until then */
};

struct sim_clock {
    struct clock_port port; /* first */
    struct sim *sim;
    int64_t boot_base_us; /* boot = base + (now - since) * drift */
    int64_t boot_since_us;
    int64_t wall_offset_us;
    int64_t set_at_us; /* when somebody set it last */
    int64_t drift_ppm;
};

/* ---- the server under test (process.c) ---- */

enum process_state { PROCESS_DOWN, PROCESS_UP, PROCESS_DRAINING };

struct process {
    enum process_state state;
    bool starting;
    bool dead; /* the machine died inside this step: nothing leaves any more */
    bool busy; /* inside journal_flush or the janitor: the disk may run other threads */
    bool nested;
    bool ledger_writer_inside;
    struct fiber *ledger_writer; /* inside an iteration; NULL: between two */
    uint64_t generation;
    struct assembly *parts;
    struct api_settings *settings;
    uint64_t flush_event, ledger_reader_event; /* under way; 0: none */
    int64_t ledger_writer_at_us;
    int64_t ledger_writer_sleep_us; /* as its last iteration says */
    int64_t paused_until_us[5]; /* loops together, journal, ledger writer, ledger reader, janitor */
    bool was_latched;
    uint64_t starts;
    struct start_clock start_clock; /* of a start that waits for its clock to be confirmed */
    bool accept_clock;              /* the next start has --accept-clock */
};

struct client; /* crowd.c */

struct sim {
    struct sim_options options;
    struct sim_result result;
    FILE *report;
    struct prng prng;
    struct prng random; /* what the server's crypt_random gives */
    int64_t now_us;
    uint64_t sequence;
    struct sim_event *heap;
    size_t heap_count, heap_cap;
    struct {
        int64_t at_us;
        const char *what;
        uint64_t a, b, c;
    } notes[SIM_NOTES];
    uint64_t notes_count;
    struct plan plan;
    struct referee *referee;
    struct sim_clock clock;
    struct ram_disk disk;
    struct memory_ledger memory;
    struct ledger *sqlite;
    struct sim_ledger writer, reader;
    struct late_gate gate; /* between the fronts and the engine, where a fault puts it */
    uint64_t gate_lost;    /* of its made_lost that were counted */
    struct process process;
    struct fibers *fibers; /* the ledger writer's alone */
    struct sim_loop loops[SIM_LOOPS_MAX];
    struct client *clients;
    struct api_settings settings; /* keys: the crowd signs with them */
    /* faults under way */
    int disk_fail;         /* kind of the next disk operation to fail; -1: none */
    uint64_t disk_dies_at; /* operation at which the machine dies; 0: none */
    bool healed;
    bool closing; /* the crowd begins nothing new */
    int64_t disturbed_until_us;
};

/* sim.c */
bool sim_fault_on(const struct sim *sim, enum sim_fault fault);
int64_t sim_about(struct sim *sim, int64_t mean_us); /* around mean, never 0, long tail */
void sim_disturb(struct sim *sim, int64_t us);

/* sim_clock.c */
void sim_clock_init(struct sim *sim);
void sim_clock_reboot(struct sim *sim);
void sim_clock_set(struct sim *sim, int64_t offset_us);
int64_t sim_clock_wall_ms(struct sim *sim);
int64_t sim_clock_boot_us(struct sim *sim);

/* sim_disk.c */
void sim_disk_init(struct sim *sim);
void sim_disk_calm(struct sim *sim);

/* sim_ledger.c */
void sim_ledger_init(struct sim *sim);
void sim_ledger_done(struct sim *sim);

/* sim_gate.c */
void sim_gate_init(struct sim *sim);
void sim_gate_start(struct sim *sim);  /* before the fronts are made */
void sim_gate_count(struct sim *sim);  /* after a turn */
void sim_gate_forget(struct sim *sim); /* the process died */
void sim_gate_done(struct sim *sim);

/* sim_net.c */
void sim_net_init(struct sim *sim);
void sim_net_done(struct sim *sim);
/* A client's side. -1: nobody listens. The handle is loop * SIM_WIRES_MAX + wire. */
int32_t wire_connect(struct sim *sim, uint32_t client);
void wire_send(struct sim *sim, uint32_t handle, const void *bytes, size_t n, bool split);
void wire_drop(struct sim *sim, uint32_t handle, bool reset); /* the client leaves */
void wire_stall(struct sim *sim, uint32_t handle, size_t window, int64_t for_us);
void wire_cut(struct sim *sim, uint32_t handle); /* the network: both sides see a reset */
/* The server's end: all connections break. */
void wires_break(struct sim *sim);

/* process.c */
void process_start(struct sim *sim);
void process_kill(struct sim *sim);      /* the process alone: the disk keeps everything */
void process_power_cut(struct sim *sim); /* and forgets what was not synced */
void process_stop(struct sim *sim);      /* SIGTERM; starts again by itself */
void process_start_later(struct sim *sim, int64_t delay_us);
void process_turn_soon(struct sim *sim, uint32_t loop, int64_t delay_us);
/* Another thread gets a turn while one waits for the disk. */
void process_interleave(struct sim *sim);
bool process_latched(const struct sim *sim);
void process_view(struct sim *sim, struct referee_view *ret_view);
void process_free(struct sim *sim);

/* crowd.c */
void crowd_init(struct sim *sim);
void crowd_done(struct sim *sim);
void crowd_start(struct sim *sim);
bool crowd_idle(const struct sim *sim); /* nobody waits for an answer */
/* From the network. */
void client_receive(struct sim *sim, uint32_t client, const char *bytes, size_t n);
void client_cut(struct sim *sim, uint32_t client);

#endif
