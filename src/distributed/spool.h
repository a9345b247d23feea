/*
 * The spool holds the promises of this front that the ledger is not yet known to have: every buy it
 * accepted, in the front's own journal (a list) and in a table. An entry stays until the order's
 * outcome was seen in the ledger. The journal is trimmed below the oldest entry.
 *
 * An entry is decided (the gate accepted it, under an epoch) or undecided (the gate was away, and
 * the buyer waits in line). The journal record says which, in its event field. Otherwise a winner
 * could be mistaken, after a restart, for a buyer who waited in line too long. The decision of an
 * entry in line is journalled in a second record, best effort. If that record is lost, the entry is
 * undecided again after a restart. That is safe: deciding it again changes nothing, because the
 * gate knows the order's id.
 *
 * Undecided entries wait in line, one line for each segment, in order of arrival, until the gate
 * was asked for them or they were given up. After a restart the segment of an entry is unknown
 * until the sales have been read. Such an entry is ahead of every segment's line.
 *
 * What can go wrong: the table is full or the journal failed. Then nothing more is promised.
 *
 * Threads: any thread. One lock; a buy holds it for one lookup and one append. spool_before does
 * not take it.
 */
#ifndef SLUICE_DISTRIBUTED_SPOOL_H
#define SLUICE_DISTRIBUTED_SPOOL_H

#include "core/gate.h"
#include "journal/journal.h"
#include "port/segments.h"

struct spool;

struct spool_entry {
    struct gate_command command; /* the RESERVE */
    uint64_t lsn;
    uint64_t epoch;       /* of the gate that decided it; 0: undecided */
    int64_t looked_at_ms; /* when its outcome was last looked up */
    bool in_line;         /* the gate has not been asked yet */
};

/* The line of entries whose segment is not known yet. */
#define SPOOL_UNPLACED SEGMENTS_MAX

/* ERR_NOMEM. Open the journal, a list, with spool_content, then call spool_begin. */
int spool_new(uint32_t capacity, struct spool **ret_spool);
void spool_free(struct spool *spool);
/* The highest time of the journal's records, from the last one on that set the time back. */
int64_t spool_highest_ms(const struct spool *spool);
struct journal_content *spool_content(struct spool *spool);
/* ERR_NOMEM: for the journal's content. The journal may hold more entries than are accepted; then
 * there is no room until outcomes were seen. */
int spool_begin(struct spool *spool, struct journal *journal);

/* True if there is room for another entry, with a reserve for buys in flight. */
bool spool_has_room(struct spool *spool);
/*
 * Stores a buy and appends it to the journal. *ret_lsn must be durable before the answer is sent. A
 * known id keeps its record; its epoch is raised. ERR_FULL, ERR_JOURNAL_FAILED.
 */
int spool_accept(struct spool *spool, const struct gate_command *command, uint64_t epoch,
                 uint64_t *ret_lsn);
/* The same for a buyer who waits in line at this segment. */
int spool_stand_in_line(struct spool *spool, const struct gate_command *command, uint32_t segment,
                        uint64_t *ret_lsn);
bool spool_find(struct spool *spool, struct order_id id, struct spool_entry *ret_entry);
/* The gate has decided it (again) under this epoch. */
void spool_decided(struct spool *spool, struct order_id id, uint64_t epoch);
/* The gate was asked for it, or it was given up: takes it out of the line. It stays
 * undecided until somebody says more. */
void spool_served(struct spool *spool, struct order_id id);
/* The segment of an unplaced entry is now known. Entries behind it stay behind it. */
void spool_place(struct spool *spool, struct order_id id, uint32_t segment);
/* The ledger knows its outcome. The id need not be an entry here. */
void spool_resolve(struct spool *spool, struct order_id id);
/* True if spool_resolve was called for this id since the process started and the id is still
 * remembered. A caller that cannot ask the gate then must not report an earlier state. The memory
 * is a table of fixed size, so false does not mean that the outcome is unknown. */
bool spool_is_known(struct spool *spool, struct order_id id);

/*
 * Returns up to max entries that were last looked up before before_ms (not later than now_ms), the
 * longest ago first, and marks them as looked up at now_ms. A new entry counts as looked up at the
 * last call of this function; an entry from the journal, as never. Entries that are skipped cost
 * nothing.
 */
size_t spool_due(struct spool *spool, int64_t before_ms, int64_t now_ms,
                 struct spool_entry *ret_entries, size_t max);
/* Returns up to max decided entries made before before_ms, oldest first,
 * starting at index `at`. Marks nothing. */
size_t spool_list(struct spool *spool, int64_t before_ms, size_t at,
                  struct spool_entry *ret_entries, size_t max);
/* How many entries wait ahead of a new buy at this segment: its line, and the unplaced. Zero: a new
 * buy may go directly to the gate. */
uint32_t spool_before(const struct spool *spool, uint32_t segment);
/* Returns the first entries of a segment's line (or of the unplaced), at most max. Marks
 * nothing. */
size_t spool_line(struct spool *spool, uint32_t segment, struct spool_entry *ret_entries,
                  size_t max);
/* The journal may be trimmed up to and including this LSN. */
uint64_t spool_trim_lsn(struct spool *spool);

struct spool_numbers {
    uint32_t entries;
    uint32_t undecided;
    uint32_t capacity;
};
void spool_count(struct spool *spool, struct spool_numbers *ret_numbers);

#endif
