/*
 * What this front has promised and the ledger has not been seen to know: every buy it accepted, in
 * the front's own journal (a list) and in a table beside it. An entry stays until the order's
 * outcome was seen in the ledger; the journal is trimmed below the oldest entry.
 *
 * Two kinds of entry: decided (the gate said yes, under an epoch) and undecided (the gate was away,
 * the buyer stands in line). The record says which, in its event: a winner must not be taken for one
 * who stood in line too long because the front was restarted. One that was decided later is
 * undecided again after a restart: deciding it again changes nothing, the gate knows the order's id.
 *
 * The undecided stand in line, each at its segment, in the order they came, until somebody has asked
 * the gate for them (or has given them up). Whose segment is not known (after a restart, until the
 * sales have been read) stands before all segments.
 *
 * What can go wrong: the table is full or the journal failed: nothing more is promised.
 *
 * Any thread; one lock, held for a look-up and one append. Whether anyone stands in line is known
 * without it.
 */
#ifndef SLUICE_FLOW_SPOOL_H
#define SLUICE_FLOW_SPOOL_H

#include "flow/journal.h"
#include "port/segments.h"

struct spool;

struct spool_entry {
    struct gate_command command; /* the RESERVE */
    uint64_t lsn;
    uint64_t epoch;       /* of the gate that decided it; 0: undecided */
    int64_t looked_at_ms; /* when somebody last asked what became of it */
    bool in_line;         /* and the gate has not been asked */
};

/* The line of those whose segment is not known yet. */
#define SPOOL_UNPLACED SEGMENTS_MAX

/* ERR_NOMEM. spool_each is options.each of the journal that is opened next; then spool_begin. */
int spool_new(uint32_t capacity, struct spool **ret_spool);
void spool_free(struct spool *spool);
void spool_each(void *spool, uint64_t lsn, const struct gate_command *command);
/* ERR_NOMEM: for what the journal holds. It may hold more than is accepted; then there is no room until
 * outcomes were seen. */
int spool_begin(struct spool *spool, struct journal *journal);

/* Room for another entry, with some to spare for buys under way. */
bool spool_has_room(struct spool *spool);
/*
 * Notes a buy and appends it to the journal: *ret_lsn has to be durable before anyone is told. An id
 * that is noted already keeps its record; its epoch is raised. ERR_FULL, ERR_JOURNAL_FAILED.
 */
int spool_accept(struct spool *spool, const struct gate_command *command, uint64_t epoch,
                 uint64_t *ret_lsn);
/* The same of a buyer who stands in line, at this segment. */
int spool_stand_in_line(struct spool *spool, const struct gate_command *command, uint32_t segment,
                        uint64_t *ret_lsn);
bool spool_find(struct spool *spool, struct order_id id, struct spool_entry *ret_entry);
/* The gate has decided it (again) under this epoch. */
void spool_decided(struct spool *spool, struct order_id id, uint64_t epoch);
/* It has been asked for at the gate, or was given up: it stands in line no more. It stays undecided
 * until somebody says more. */
void spool_served(struct spool *spool, struct order_id id);
/* The segment of one that is not placed is known now. Those behind it stay behind it. */
void spool_place(struct spool *spool, struct order_id id, uint32_t segment);
/* The ledger knows what became of it, be it an entry here or not. */
void spool_resolve(struct spool *spool, struct order_id id);
/* Somebody said so since this process began, and it is remembered: whoever cannot ask the gate tells no
 * less of it. One that is not remembered (a table of fixed size) may be known all the same. */
bool spool_is_known(struct spool *spool, struct order_id id);

/*
 * Up to max entries that nobody asked about since before_ms (not later than now_ms), those unseen for
 * longest first, marked as looked at now_ms. A new one counts as looked at when this was called last,
 * one from the journal never. Those that are left out cost nothing.
 */
size_t spool_stale(struct spool *spool, int64_t before_ms, int64_t now_ms,
                   struct spool_entry *ret_entries, size_t max);
/* Up to max of the decided entries that were made before before_ms, from the at-th of them on, oldest
 * first; nothing is marked. */
size_t spool_list(struct spool *spool, int64_t before_ms, size_t at,
                  struct spool_entry *ret_entries, size_t max);
/* How many stand before the segment's gate: those in its line, and those who are not placed. Zero:
 * a new buy may go straight to it. */
uint32_t spool_before(const struct spool *spool, uint32_t segment);
/* The first of a segment's line (or of the unplaced), at most max; nothing is marked. */
size_t spool_line(struct spool *spool, uint32_t segment, struct spool_entry *ret_entries,
                  size_t max);
/* Everything up to this LSN may be trimmed from the journal. */
uint64_t spool_trim_lsn(struct spool *spool);

struct spool_numbers {
    uint32_t entries;
    uint32_t undecided;
};
void spool_count(struct spool *spool, struct spool_numbers *ret_numbers);

#endif
