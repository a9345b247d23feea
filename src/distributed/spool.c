/* See spool.h. Entries are chained by hash. They are in a list by LSN and in one by the time of their
 * last lookup; those in line also in the list of their line. */
#include "distributed/spool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/index_pool.h"
#include "core/record.h"

/* Buys that may be in flight to the gate while the table still seems to have room. */
#define SPARE 4096
/* Outcomes remembered in one set, of 64 bytes. */
#define KNOWN_WAYS 4U

struct slot {
    struct spool_entry entry;
    uint32_t next_hash; /* or of the pool */
    struct index_node by_lsn;
    struct index_node by_look;
    uint32_t line; /* in_line: which one, and its neighbours there */
    struct index_node in_line;
};

struct line {
    struct index_list list;
    _Atomic uint32_t count; /* written under the lock */
};

struct spool {
    struct journal_content content; /* must be first */
    pthread_mutex_t lock;
    struct journal *journal;
    struct slot *slots;
    uint32_t *buckets;
    uint32_t mask;
    struct order_id *known; /* by hash, mask + 1 of them: ids with an outcome, see spool_is_known */
    struct index_pool pool; /* of slots: larger than `most` if the journal held more */
    uint32_t most;          /* entries accepted */
    struct index_list by_lsn;
    struct index_list by_look;
    int64_t look_ms; /* the last time spool_due was called */
    uint32_t undecided;
    bool overflowed; /* no memory while the journal was read */
    int64_t highest_ms;
    struct line lines[SEGMENTS_MAX + 1];
};

static void lock(struct spool *spool)
{
    CHECK(pthread_mutex_lock(&spool->lock) == 0);
}

static void unlock(struct spool *spool)
{
    CHECK(pthread_mutex_unlock(&spool->lock) == 0);
}

static uint32_t hash_of(const struct spool *spool, struct order_id id)
{
    return (uint32_t)order_id_hash(id, 0) & spool->mask;
}

static uint32_t index_of(const struct spool *spool, const struct slot *slot)
{
    return (uint32_t)(slot - spool->slots);
}

static uint32_t *bucket_of(struct spool *spool, struct order_id id)
{
    return &spool->buckets[hash_of(spool, id)];
}

static struct slot *find(struct spool *spool, struct order_id id)
{
    uint32_t link = *bucket_of(spool, id);
    while (link != 0 && !order_id_equal(spool->slots[link - 1].entry.command.id, id)) {
        link = spool->slots[link - 1].next_hash;
    }
    return link == 0 ? NULL : &spool->slots[link - 1];
}

/* Inserts the entry behind those that came before it. That is the end of the
 * line, unless it was placed late. */
static void join_line(struct spool *spool, struct slot *slot, uint32_t segment)
{
    struct line *line = &spool->lines[segment];
    uint32_t after = line->list.last;
    while (after != 0 && spool->slots[after - 1].entry.lsn > slot->entry.lsn) {
        after = spool->slots[after - 1].in_line.previous;
    }
    slot->entry.in_line = true;
    slot->line = segment;
    index_list_insert(&line->list, INDEX_LINKS(spool->slots, in_line), index_of(spool, slot),
                      after);
    (void)atomic_fetch_add(&line->count, 1);
}

static void leave_line(struct spool *spool, struct slot *slot)
{
    struct line *line = &spool->lines[slot->line];
    if (!slot->entry.in_line) {
        return;
    }
    index_list_remove(&line->list, INDEX_LINKS(spool->slots, in_line), index_of(spool, slot));
    slot->entry.in_line = false;
    (void)atomic_fetch_sub(&line->count, 1);
}

/* Appends it to the list of lookups: it was looked up now, later than all others. */
static void join_looks(struct spool *spool, struct slot *slot)
{
    slot->entry.looked_at_ms = spool->look_ms;
    index_list_append(&spool->by_look, INDEX_LINKS(spool->slots, by_look), index_of(spool, slot));
}

static void leave_looks(struct spool *spool, struct slot *slot)
{
    index_list_remove(&spool->by_look, INDEX_LINKS(spool->slots, by_look), index_of(spool, slot));
}

/* segment: the line it joins if it is undecided. */
static struct slot *add(struct spool *spool, const struct gate_command *command, uint64_t epoch,
                        uint32_t segment, uint64_t lsn)
{
    struct index_links links = INDEX_LINKS(spool->slots, next_hash);
    uint32_t index = index_pool_take(&spool->pool, links);
    struct slot *slot = &spool->slots[index];
    *slot = (struct slot){.entry = {.command = *command, .lsn = lsn, .epoch = epoch}};
    index_chain_add(bucket_of(spool, command->id), links, index);
    index_list_append(&spool->by_lsn, INDEX_LINKS(spool->slots, by_lsn), index);
    join_looks(spool, slot);
    spool->undecided += epoch == 0;
    if (epoch == 0) {
        join_line(spool, slot, segment);
    }
    return slot;
}

static void drop(struct spool *spool, struct slot *slot)
{
    struct index_links links = INDEX_LINKS(spool->slots, next_hash);
    uint32_t index = index_of(spool, slot);
    leave_line(spool, slot);
    leave_looks(spool, slot);
    index_list_remove(&spool->by_lsn, INDEX_LINKS(spool->slots, by_lsn), index);
    index_chain_remove(bucket_of(spool, slot->entry.command.id), links, index);
    spool->undecided -= slot->entry.epoch == 0;
    index_pool_give(&spool->pool, links, index);
}

/* ---- life ---- */

int spool_new(uint32_t capacity, struct spool **ret_spool)
{
    struct spool *spool = calloc(1, sizeof(*spool));
    if (spool == NULL) {
        return ERR_NOMEM;
    }
    uint32_t buckets = 64;
    while (buckets < capacity) {
        buckets *= 2;
    }
    spool->most = spool->pool.capacity = capacity + SPARE;
    spool->mask = buckets - 1;
    spool->slots = calloc(spool->pool.capacity, sizeof(*spool->slots));
    spool->buckets = calloc(buckets, sizeof(*spool->buckets));
    spool->known = calloc(buckets, sizeof(*spool->known));
    CHECK(pthread_mutex_init(&spool->lock, NULL) == 0);
    if (spool->slots == NULL || spool->buckets == NULL || spool->known == NULL) {
        spool_free(spool);
        return ERR_NOMEM;
    }
    *ret_spool = spool;
    return 0;
}

void spool_free(struct spool *spool)
{
    if (spool == NULL) {
        return;
    }
    (void)pthread_mutex_destroy(&spool->lock);
    free(spool->slots);
    free(spool->buckets);
    free(spool->known);
    free(spool);
}

/* A journal may hold more entries than are accepted: it is trimmed by whole files, so resolved
 * entries can stand before unresolved ones. None may be left out. False: no memory. */
static bool grow(struct spool *spool)
{
    uint32_t capacity = 2 * spool->pool.capacity;
    struct slot *slots =
        capacity > spool->pool.capacity ? realloc(spool->slots, capacity * sizeof(*slots)) : NULL;
    if (slots != NULL) {
        spool->slots = slots;
        spool->pool.capacity = capacity;
    }
    return slots != NULL;
}

/* A record of the journal, at a start. */
static void note_record(struct spool *spool, uint64_t lsn, const struct gate_command *command)
{
    if (command->now_ms > spool->highest_ms || command->kind == GATE_SET_TIME) {
        spool->highest_ms = command->now_ms;
    }
    if (command->kind != GATE_RESERVE) {
        return;
    }
    struct slot *known = find(spool, command->id);
    if (known != NULL) { /* it stood in line, and was decided */
        if (known->entry.epoch == 0 && command->event != 0) {
            spool->undecided--;
            leave_line(spool, known);
        }
        known->entry.epoch =
            command->event > known->entry.epoch ? command->event : known->entry.epoch;
        return;
    }
    struct gate_command noted = *command;
    noted.event = 0;
    if (index_pool_full(&spool->pool) && !grow(spool)) {
        spool->overflowed = true;
        return;
    }
    (void)add(spool, &noted, command->event, SPOOL_UNPLACED, lsn); /* to be looked at at once */
}

static int apply(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                 size_t length)
{
    struct gate_command command;
    if (record_decode(record, length, &command) != 0) {
        return ERR_INVALID;
    }
    note_record((struct spool *)content, lsn, &command);
    return 0;
}

int64_t spool_highest_ms(const struct spool *spool)
{
    return spool->highest_ms;
}

struct journal_content *spool_content(struct spool *spool)
{
    static const struct journal_content_ops ops = {.apply = apply};
    spool->content.ops = &ops;
    return &spool->content;
}

int spool_begin(struct spool *spool, struct journal *journal)
{
    spool->journal = journal;
    return spool->overflowed ? ERR_NOMEM : 0;
}

/* ---- buys ---- */

bool spool_has_room(struct spool *spool)
{
    lock(spool);
    bool room = spool->pool.used < spool->most - SPARE;
    unlock(spool);
    return room && journal_space(spool->journal) == JOURNAL_SPACE_OK &&
           journal_has_room(spool->journal, 1);
}

static int append(struct spool *spool, const struct gate_command *command, uint64_t *ret_lsn)
{
    uint8_t record[RECORD_MAX_BYTES];
    size_t length = record_encode(command, record);
    return journal_append(spool->journal, record, length, command->now_ms, ret_lsn);
}

/* Journals that an entry in line was decided. After a restart it could otherwise be given up as too
 * late. Best effort: deciding it again is safe, too. */
static void note_decided(struct spool *spool, struct slot *slot, uint64_t epoch)
{
    struct gate_command record = slot->entry.command;
    uint64_t lsn = 0;
    if (slot->entry.epoch != 0 || epoch == 0) {
        return;
    }
    record.event = epoch;
    (void)append(spool, &record, &lsn);
    spool->undecided--;
    leave_line(spool, slot);
}

static int accept(struct spool *spool, const struct gate_command *command, uint64_t epoch,
                  uint32_t segment, uint64_t *ret_lsn)
{
    int error = 0;
    lock(spool);
    struct slot *slot = find(spool, command->id);
    if (slot != NULL) {
        note_decided(spool, slot, epoch);
        slot->entry.epoch = epoch > slot->entry.epoch ? epoch : slot->entry.epoch;
        *ret_lsn = slot->entry.lsn;
    } else if (spool->pool.used >= spool->most) {
        error = ERR_FULL;
    } else {
        uint64_t lsn = 0;
        struct gate_command record = *command;
        record.event = epoch; /* no event: a RESERVE has none of its own */
        /* Under the lock, so that the list is in the journal's order. */
        error = append(spool, &record, &lsn);
        if (error == 0) {
            (void)add(spool, command, epoch, segment, lsn);
            *ret_lsn = lsn;
        }
    }
    unlock(spool);
    return error;
}

int spool_accept(struct spool *spool, const struct gate_command *command, uint64_t epoch,
                 uint64_t *ret_lsn)
{
    return accept(spool, command, epoch, SPOOL_UNPLACED, ret_lsn);
}

int spool_stand_in_line(struct spool *spool, const struct gate_command *command, uint32_t segment,
                        uint64_t *ret_lsn)
{
    return accept(spool, command, 0, segment, ret_lsn);
}

bool spool_find(struct spool *spool, struct order_id id, struct spool_entry *ret_entry)
{
    lock(spool);
    const struct slot *slot = find(spool, id);
    if (slot != NULL) {
        *ret_entry = slot->entry;
    }
    unlock(spool);
    return slot != NULL;
}

void spool_decided(struct spool *spool, struct order_id id, uint64_t epoch)
{
    lock(spool);
    struct slot *slot = find(spool, id);
    if (slot != NULL) {
        note_decided(spool, slot, epoch);
        slot->entry.epoch = epoch;
    }
    unlock(spool);
}

void spool_served(struct spool *spool, struct order_id id)
{
    lock(spool);
    struct slot *slot = find(spool, id);
    if (slot != NULL) {
        leave_line(spool, slot);
    }
    unlock(spool);
}

void spool_place(struct spool *spool, struct order_id id, uint32_t segment)
{
    lock(spool);
    struct slot *slot = find(spool, id);
    if (slot != NULL && slot->entry.in_line && slot->line == SPOOL_UNPLACED) {
        /* Count it in the new line before it leaves the old one, so that no loop sees the way
         * free. */
        (void)atomic_fetch_add(&spool->lines[segment].count, 1);
        leave_line(spool, slot);
        join_line(spool, slot, segment);
        (void)atomic_fetch_sub(&spool->lines[segment].count, 1);
    }
    unlock(spool);
}

static struct order_id *known_of(const struct spool *spool, struct order_id id)
{
    return &spool->known[hash_of(spool, id) & ~(KNOWN_WAYS - 1)];
}

/* Puts the id first in its set; the oldest one is forgotten. */
static void know(struct spool *spool, struct order_id id)
{
    struct order_id *set = known_of(spool, id);
    size_t at = 0;
    while (at < KNOWN_WAYS - 1 && !order_id_equal(set[at], id)) {
        at++;
    }
    memmove(set + 1, set, at * sizeof(*set));
    set[0] = id;
}

void spool_resolve(struct spool *spool, struct order_id id)
{
    lock(spool);
    struct slot *slot = find(spool, id);
    if (slot != NULL) {
        drop(spool, slot);
    }
    know(spool, id);
    unlock(spool);
}

bool spool_is_known(struct spool *spool, struct order_id id)
{
    lock(spool);
    const struct order_id *set = known_of(spool, id);
    bool known = false;
    for (size_t i = 0; i < KNOWN_WAYS; i++) {
        known = known || order_id_equal(set[i], id);
    }
    unlock(spool);
    return known;
}

/* ---- outcomes ---- */

size_t spool_due(struct spool *spool, int64_t before_ms, int64_t now_ms,
                 struct spool_entry *ret_entries, size_t max)
{
    size_t count = 0;
    lock(spool);
    spool->look_ms = now_ms > spool->look_ms ? now_ms : spool->look_ms;
    while (count < max && spool->by_look.first != 0) {
        struct slot *slot = &spool->slots[spool->by_look.first - 1];
        if (slot->entry.looked_at_ms >= before_ms) {
            break; /* and all behind it later */
        }
        leave_looks(spool, slot);
        join_looks(spool, slot);
        ret_entries[count++] = slot->entry;
    }
    unlock(spool);
    return count;
}

size_t spool_list(struct spool *spool, int64_t before_ms, size_t at,
                  struct spool_entry *ret_entries, size_t max)
{
    size_t count = 0;
    lock(spool);
    for (uint32_t link = spool->by_lsn.first; link != 0 && count < max;
         link = spool->slots[link - 1].by_lsn.next) {
        const struct spool_entry *entry = &spool->slots[link - 1].entry;
        if (entry->epoch == 0 || entry->command.now_ms >= before_ms) {
            continue;
        }
        if (at > 0) {
            at--;
        } else {
            ret_entries[count++] = *entry;
        }
    }
    unlock(spool);
    return count;
}

uint32_t spool_before(const struct spool *spool, uint32_t segment)
{
    uint32_t unplaced =
        atomic_load(&spool->lines[SPOOL_UNPLACED].count); /* first: see spool_place */
    return unplaced + atomic_load(&spool->lines[segment].count);
}

size_t spool_line(struct spool *spool, uint32_t segment, struct spool_entry *ret_entries,
                  size_t max)
{
    size_t count = 0;
    lock(spool);
    for (uint32_t link = spool->lines[segment].list.first; link != 0 && count < max;
         link = spool->slots[link - 1].in_line.next) {
        ret_entries[count++] = spool->slots[link - 1].entry;
    }
    unlock(spool);
    return count;
}

uint64_t spool_trim_lsn(struct spool *spool)
{
    lock(spool);
    uint64_t lsn = spool->by_lsn.first != 0 ? spool->slots[spool->by_lsn.first - 1].entry.lsn - 1
                                            : journal_durable_lsn(spool->journal);
    unlock(spool);
    return lsn;
}

void spool_count(struct spool *spool, struct spool_numbers *ret_numbers)
{
    lock(spool);
    *ret_numbers = (struct spool_numbers){spool->pool.used, spool->undecided, spool->pool.capacity};
    unlock(spool);
}
