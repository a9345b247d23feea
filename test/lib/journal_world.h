/*
 * A small shop over a journal, for its tests: a gate, a journal on a disk in memory, and the list
 * of all commands that were journalled, from which the right state at any LSN can be made anew.
 */
#ifndef SLUICE_TEST_JOURNAL_WORLD_H
#define SLUICE_TEST_JOURNAL_WORLD_H

#include "base/prng.h"
#include "embedded/gate_content.h"
#include "journal/journal.h"
#include "ram_disk.h"

#define WORLD_COMMANDS 4096

struct gate_box {
    struct gate gate;
    void *memory;
};

struct world {
    struct ram_disk ram;
    struct journal_options options;
    struct gate_sizes sizes;
    struct gate_box box;
    struct journal *journal;
    struct journal_found found;
    struct prng prng;
    uint64_t event;
    uint64_t users;
    struct gate_command commands[WORLD_COMMANDS]; /* LSN n at index n - 1 */
    uint64_t count;
    uint64_t acknowledged; /* highest LSN that a flush made durable */
};

/* A gate of the tests' usual sizes, empty. */
void gate_box_init(struct gate_box *ret_box);
void gate_box_init_sizes(struct gate_box *ret_box, struct gate_sizes sizes);
void gate_box_done(struct gate_box *box);
/* True if both hold the same sales, items, buyers and orders, LSNs included. */
bool gate_same(const struct gate *a, const struct gate *b);

/* journal_scan with the records as commands. */
int world_scan(struct disk *disk, const struct journal_scan_ops *ops,
               void (*record)(void *context, uint64_t lsn, const struct gate_command *command),
               void *context, struct journal_found *ret_found);

/* Small files: a header and three sectors. Not opened yet. */
void world_init(struct world *ret_world, uint64_t seed);
void world_done(struct world *world);
/* Opens with an empty gate; what journal_open said. */
int world_open(struct world *world);
/* Frees journal and gate: nothing more is written. */
void world_close(struct world *world);

/* Steps the gate and journals what it did. Returns journal_append's word. */
int world_apply(struct world *world, const struct gate_command *command);
/* A sale and its items, opened: LSNs 1 to 4. */
void world_start_sale(struct world *world);
/* n commands of all kinds, drawn. */
void world_trade(struct world *world, int n);
int world_flush(struct world *world);
/* world_trade and world_flush, which must go well. */
void world_batch(struct world *world, int n);
/* True if the open gate is what the first `lsn` commands make. */
bool world_is_at(const struct world *world, uint64_t lsn);
/* After a reopening: what was not recovered never happened. */
void world_forget_after(struct world *world, uint64_t lsn);

#endif
