/* The faults of the distributed engine: in the place of those in sim.h, for the program
 * simulate_distributed. */
#ifndef SLUICE_SIM_DISTRIBUTED_FAULTS_H
#define SLUICE_SIM_DISTRIBUTED_FAULTS_H

#define SIM_FAULTS(X)                                                                              \
    X(FAULT_KILL, "process killed")                                                                \
    X(FAULT_DISK_DIES, "death inside a disk operation")                                            \
    X(FAULT_STILL, "a process stands still")                                                       \
    X(FAULT_FAILOVER, "segment fails over and forgets")                                            \
    X(FAULT_EMPTIED, "segment restarts empty")                                                     \
    X(FAULT_AWAY, "segment away")                                                                  \
    X(FAULT_GATE_LOST, "segment's answers lost")                                                   \
    X(FAULT_GATE_BROKEN, "segment contradicts itself")                                             \
    X(FAULT_NEWS_LOST, "news lost")                                                                \
    X(FAULT_QUEUE_CUT, "queue's connections cut")                                                  \
    X(FAULT_QUEUE_DOWN, "queue away")                                                              \
    X(FAULT_QUEUE_UNSURE, "queue doubles, reorders and loses answers")                             \
    X(FAULT_LEDGER_DOWN, "ledger not available")                                                   \
    X(FAULT_LEDGER_LOST, "ledger committed, answer lost")                                          \
    X(FAULT_LEDGER_SLOW, "ledger slow")                                                            \
    X(FAULT_DRIFT, "clocks differ")                                                                \
    X(FAULT_PATIENCE, "a client asks again before it was answered")                                \
    X(FAULT_ADDED, "segments added, processes restarted one by one")                               \
    X(FAULT_FAR_CLOCK, "start with a far clock")

#endif
