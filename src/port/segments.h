/*
 * The segments of a distributed gate, as the threads behind the fronts use them: the ledger writer
 * applies what the ledger committed, the relay empties the outbox, recovery rebuilds. Fronts use
 * port/gate.h instead.
 *
 * A segment is a share of the stock with the buyers assigned to it, on one server. It stores its
 * epoch (issued by the ledger) and the server that may decide for it. A call with another epoch, or
 * at another server, changes nothing (SEGMENT_STALE).
 *
 * An instance belongs to one thread. Every call may block, up to the instance's timeout (take and
 * news: up to wait_ms). segments_wake ends the waits of take and news; any thread may call it.
 */
#ifndef SLUICE_PORT_SEGMENTS_H
#define SLUICE_PORT_SEGMENTS_H

#include "core/gate.h"

#define SEGMENTS_MAX (1U << ORDER_SEGMENT_BITS)

/* A buyer's home among `homes` segments. */
static inline uint32_t segment_home(uint64_t user, uint32_t homes)
{
    uint64_t mixed = (user ^ user >> 29) * 0xbf58476d1ce4e5b9ULL;
    return (uint32_t)((mixed >> 32) % homes);
}

enum segment_outcome {
    SEGMENT_DONE,      /* verdict, refusal and order have the result */
    SEGMENT_NOT_ASKED, /* nothing ran: the server is down or cannot serve now */
    SEGMENT_NOT_KNOWN, /* it may have run; the same call again tells */
    SEGMENT_STALE,     /* nothing changed: another epoch, another server, or an emptied one, or one
                        * that an older version has filled in its own way */
    SEGMENT_FENCED,    /* nothing changed: a higher token has been seen */
    SEGMENT_GAP,       /* nothing changed: the event before this one has not been applied */
    SEGMENT_BROKEN,    /* nothing changed: the segment contradicts itself, it needs recovery */
};

/*
 * One step at one segment. Every kind except RESERVE and TRANSFER_OUT is a ledger event:
 * command.event is its number, and it is applied only directly after event `after` (else GAP; at or
 * below the cursor: VERDICT_ALREADY_APPLIED). While the segment is being rebuilt, an event needs
 * the token of the rebuild, else STALE. A RESERVE repeats a decision (an order from a front's
 * journal after recovery, a message of an older epoch). It uses command.now_ms instead of the
 * present and ignores the ticket's expiry, the buyer's cooling time and the shares. It is accepted
 * during a rebuild, too. A FAIL_ORDER of an
 * order that the segment does not know, with its user and qty, is stored: the order is FAILED from
 * then on and counts as an attempt of its buyer. TRANSFER_OUT takes at most `amount` and returns in
 * `taken` how many. command.id is the transfer's own id; the same call again takes nothing and
 * returns the same.
 */
struct segment_call {
    uint32_t segment;
    uint64_t epoch;
    uint64_t fence; /* 0: none */
    uint64_t after; /* events: number of the event before it */
    struct gate_command command;
    /* out */
    enum segment_outcome outcome;
    enum verdict verdict;
    enum refusal refusal;
    uint64_t taken; /* TRANSFER_OUT */
    bool has_order;
    struct order_view order;
};

/* How far a clock may be from the clock of a segment's server. A front that is further off sells
 * nothing, and the time of an event counts no further ahead. */
#define SEGMENT_CLOCK_OFF_MS 100

struct segment_state {
    enum segment_outcome outcome; /* DONE, NOT_ASKED, NOT_KNOWN; STALE: made for another server, or
                                   * empty (then epoch is 0), or filled by an older version */
    bool older;                   /* STALE: filled by an older version */
    uint64_t epoch;
    bool open;               /* false: being rebuilt; requests of fronts are stale */
    uint64_t event;          /* last one applied */
    uint64_t fence;          /* the highest token seen */
    int64_t server_ms;       /* the server's wall clock */
    uint64_t outbox;         /* entries that are not marked done */
    uint64_t oldest_ms;      /* when the oldest of them was decided; 0: none */
    bool broken;             /* reported as broken (NEWS_BROKEN) and not rebuilt since */
    struct gate_sizes sizes; /* of its pools; 0: not known */
    struct gate_sizes used;  /* more than the size if the ledger had more when it was filled */
};

/*
 * Rebuilding, under a lease. BEGIN creates an empty, closed segment of a higher epoch on the server
 * that answers now. SALE, ITEM, BUYER and ORDER fill it. OPEN lets fronts in. Each step is
 * idempotent. The numbers of an item are stored as given, so are those of a buyer: they must count
 * the orders given. Decisions can be repeated as soon as
 * their item exists, so an item comes after all its buyers and orders. Once an item has changed,
 * steps about it have no effect. Until it exists, calls get NO_SUCH_ITEM; from a segment that is
 * not open, this means: not yet.
 */
enum segment_step_kind { STEP_BEGIN, STEP_SALE, STEP_ITEM, STEP_BUYER, STEP_ORDER, STEP_OPEN };
struct segment_step {
    enum segment_step_kind kind;
    uint64_t event;                 /* BEGIN: the last event that the following steps include */
    int64_t highest_ms;             /* BEGIN */
    struct gate_sizes sizes;        /* BEGIN */
    struct gate_shares shares;      /* BEGIN; 0: no such share */
    uint64_t sale;                  /* SALE, ITEM */
    int64_t starts_at_ms;           /* SALE */
    int64_t ends_at_ms;             /* SALE */
    enum sale_state state;          /* SALE */
    bool bar_unpaid;                /* SALE */
    uint64_t item;                  /* ITEM, BUYER, ORDER */
    uint64_t total, available;      /* ITEM */
    uint64_t locked, sold;          /* ITEM */
    uint32_t limit;                 /* ITEM */
    uint32_t buyers;                /* ITEM: its buyers that were given */
    uint32_t live;                  /* ITEM, BUYER: their orders that are not final */
    uint64_t user;                  /* BUYER */
    uint32_t held, failed_attempts; /* BUYER */
    bool barred;                    /* BUYER */
    int64_t cooling_until_ms;       /* BUYER; 0 if barred */
    struct order_view order;        /* ORDER */
};

/* A decision in an outbox. */
struct outbox_entry {
    uint32_t segment;
    uint64_t epoch;
    uint64_t mark[2];            /* the implementation's: identifies the entry */
    struct gate_command command; /* the RESERVE */
};

/* Messages to the fronts. They are hints: they may be lost, doubled or late. */
enum news_kind {
    NEWS_ORDER,  /* order: its new state */
    NEWS_ITEM,   /* item: its numbers or its sale changed */
    NEWS_SALE,   /* sale: read it from the ledger again */
    NEWS_EPOCH,  /* segment, epoch: it was rebuilt; epoch 0: it was lost */
    NEWS_LOST,   /* some messages may have been missed: check everything */
    NEWS_BROKEN, /* only sent, never received: segment, epoch: it contradicts itself or the ledger;
                  * the segment stores this in its state */
};
struct segment_news {
    enum news_kind kind;
    struct order_view order;
    uint64_t item;
    uint64_t sale;
    uint32_t segment;
    uint64_t epoch;
};

struct segments;
struct segments_ops {
    /* All calls in the given order, in as few round trips as possible; each gets its outcome. After
     * a call that was not DONE or was refused, later events of that segment get GAP. */
    void (*apply)(struct segments *segments, struct segment_call *calls, size_t count);
    void (*look)(struct segments *segments, uint32_t segment, struct segment_state *ret_state);
    /* Steps of one segment, in order. SEGMENT_DONE if all were done. */
    enum segment_outcome (*rebuild)(struct segments *segments, uint32_t segment, uint64_t epoch,
                                    uint64_t fence, const struct segment_step *steps, size_t count);
    /* Entries from the outboxes of the segments in the mask. This worker holds each until done; if
     * it is dead for a while, another worker gets them. After a start, the entries it held before
     * come first. 0; ERR_AGAIN: none within wait_ms; ERR_IO. */
    int (*take)(struct segments *segments, uint64_t mask, struct outbox_entry *ret_entries,
                size_t max, int64_t wait_ms, size_t *ret_count);
    /* The entries are stored elsewhere: remove them. ERR_IO: call again, or they come again. */
    int (*done)(struct segments *segments, const struct outbox_entry *entries, size_t count);
    /* 0; ERR_AGAIN: none within wait_ms. */
    int (*news)(struct segments *segments, struct segment_news *ret_news, size_t max,
                int64_t wait_ms, size_t *ret_count);
    /* Publishes to all fronts, best effort. */
    void (*tell)(struct segments *segments, const struct segment_news *news);
    void (*wake)(struct segments *segments);
};
struct segments {
    const struct segments_ops *ops;
};

static inline void segments_apply(struct segments *s, struct segment_call *calls, size_t count)
{
    s->ops->apply(s, calls, count);
}
static inline void segments_look(struct segments *s, uint32_t segment,
                                 struct segment_state *ret_state)
{
    s->ops->look(s, segment, ret_state);
}
static inline enum segment_outcome segments_rebuild(struct segments *s, uint32_t segment,
                                                    uint64_t epoch, uint64_t fence,
                                                    const struct segment_step *steps, size_t count)
{
    return s->ops->rebuild(s, segment, epoch, fence, steps, count);
}
static inline int segments_take(struct segments *s, uint64_t mask, struct outbox_entry *ret_entries,
                                size_t max, int64_t wait_ms, size_t *ret_count)
{
    return s->ops->take(s, mask, ret_entries, max, wait_ms, ret_count);
}
static inline int segments_done(struct segments *s, const struct outbox_entry *entries,
                                size_t count)
{
    return s->ops->done(s, entries, count);
}
static inline int segments_news(struct segments *s, struct segment_news *ret_news, size_t max,
                                int64_t wait_ms, size_t *ret_count)
{
    return s->ops->news(s, ret_news, max, wait_ms, ret_count);
}
static inline void segments_tell(struct segments *s, const struct segment_news *news)
{
    s->ops->tell(s, news);
}
static inline void segments_wake(struct segments *s)
{
    s->ops->wake(s);
}

#endif
