/*
 * Faults for the sweeps: the nth call of one kind fails, once or from then on. A test arms a plan,
 * enters the product, leaves it, disarms, and learns how many faults struck; with growing n every
 * call of the kind has failed once, and when none strikes any more the sweep is complete.
 *
 * Calls count only between fault_enter and fault_leave, so that neither the tests nor their doubles
 * (which leave and enter again around what they do) ever meet a fault. malloc, calloc, realloc and
 * aligned_alloc of our own code come here by the linker's --wrap. One thread.
 */
#ifndef SLUICE_TEST_FAULT_H
#define SLUICE_TEST_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#define FAULTS(X)                                                                                  \
    X(FAULT_MALLOC, "malloc")                                                                      \
    X(FAULT_OPEN, "open")                                                                          \
    X(FAULT_READ, "read")                                                                          \
    X(FAULT_WRITE, "write")                                                                        \
    X(FAULT_SYNC, "sync")                                                                          \
    X(FAULT_TRUNCATE, "truncate")                                                                  \
    X(FAULT_RENAME, "rename")                                                                      \
    X(FAULT_REMOVE, "remove")                                                                      \
    X(FAULT_SYNC_NAMES, "sync_names")                                                              \
    X(FAULT_LIST, "list")                                                                          \
    X(FAULT_SQLITE_MALLOC, "sqlite malloc")                                                        \
    X(FAULT_SHM, "shm")

enum fault_kind {
#define X(name, text) name,
    FAULTS(X)
#undef X
        FAULT_COUNT
};
const char *fault_text(enum fault_kind kind);

/* What a call that fails has done all the same. HALF is for writes, and is NOTHING for others. */
enum fault_done { FAULT_NOTHING, FAULT_HALF, FAULT_ALL };

struct fault_plan {
    enum fault_kind kind;
    uint64_t nth; /* from 1 */
    bool forever; /* and every later one */
    enum fault_done done;
};

void fault_arm(struct fault_plan plan);
/* A teardown for cmocka: names the last plan where its run did not come to fault_passed. */
void fault_passed(void);
int fault_explain(void **state);
/* How many struck. */
uint64_t fault_disarm(void);

/* Both return whether one was inside before; doubles hand that to fault_back. */
bool fault_enter(void);
bool fault_leave(void);
void fault_back(bool inside);
/* Calls into the product, as an expression. */
#define PRODUCT(call)                                                                              \
    ({                                                                                             \
        bool inside_ = fault_enter();                                                              \
        __typeof__(call) result_ = (call);                                                         \
        fault_back(inside_);                                                                       \
        result_;                                                                                   \
    })

/* For doubles: counts this call, and says whether it fails. */
bool fault_strikes(enum fault_kind kind);
enum fault_done fault_done(void);
bool fault_forever(void);

/* SLUICE_LONG=1: more of everything. SLUICE_SEED, or the seed given. */
bool sweep_long(void);
uint64_t sweep_seed(uint64_t usual);

/* Allocations of our code, doubles included, that are not freed: after as before, or a leak. */
int64_t fault_live(void);

/* The sum of a sweep: prints a line per scenario and kind, and the total at the end. */
void fault_report(const char *scenario, enum fault_kind kind, uint64_t fired, uint64_t runs);
uint64_t fault_report_total(const char *what);

#endif
