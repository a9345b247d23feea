/*
 * The segments of a gate on other machines, as the threads behind the fronts use them: the ledger writer
 * applies what the ledger committed, the relay empties the outbox, recovery rebuilds. Fronts ask
 * through port/gate.h instead.
 *
 * A segment is a share of the stock with the buyers whose home it is, on one server. It remembers
 * its epoch (given by the ledger) and the server that may decide for it; whoever calls with another
 * epoch, or reaches another server, changes nothing (SEGMENT_STALE).
 *
 * An instance belongs to one thread; every call may wait, but no longer than the instance's timeout
 * (take and news: than wait_ms). segments_wake, which any thread may call, ends the waits of take
 * and news.
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
    SEGMENT_DONE,      /* verdict, refusal and order say what came of it */
    SEGMENT_NOT_ASKED, /* nothing ran: the server is away or cannot serve now */
    SEGMENT_NOT_KNOWN, /* it may have run: asking again tells */
    SEGMENT_STALE,     /* nothing changed: another epoch, another server, or an emptied one */
    SEGMENT_FENCED,    /* nothing changed: somebody holds a higher token */
    SEGMENT_GAP,       /* nothing changed: the event before this one has not been applied */
    SEGMENT_BROKEN,    /* nothing changed: the segment contradicts itself, it needs recovery */
};

/*
 * One step at one segment. Any kind but RESERVE is a ledger event: command.event is its number, and
 * it is applied only right behind `after` (GAP otherwise; at or below the cursor: VERDICT_ALREADY_APPLIED).
 * While the segment is being rebuilt, an event needs the token that rebuilds it: STALE without.
 * A RESERVE here is a decision made again (a journal's winner after recovery, a message of an older
 * epoch): its own command.now_ms counts, not the present, and the ticket's expiry is not looked at;
 * it is taken while the segment is being rebuilt, too.
 * A REFUSE of an order that the segment does not know, with its user and qty, is noted all the same:
 * the order is FAILED for whoever looks, and one of its buyer's attempts.
 * TRANSFER_OUT is no event either: it takes at most `amount`, says in `taken` how many, and is known
 * by command.id, the transfer's own: asked again it takes nothing and says the same.
 */
struct segment_call {
    uint32_t segment;
    uint64_t epoch;
    uint64_t fence; /* 0: none */
    uint64_t after; /* events: the number applied before it */
    struct gate_command command;
    /* out */
    enum segment_outcome outcome;
    enum verdict verdict;
    enum refusal refusal;
    uint64_t taken; /* TRANSFER_OUT */
    bool has_order;
    struct order_view order;
};

/* So far may a clock be from a segment's server's: a front that is further off sells nothing, and an
 * event's time counts no further ahead. */
#define SEGMENT_CLOCK_OFF_MS 100

struct segment_state {
    enum segment_outcome outcome; /* DONE, NOT_ASKED, NOT_KNOWN; STALE: made for another server, or
                                   * empty; epoch is 0 where there is nothing */
    uint64_t epoch;
    bool open;          /* false: being rebuilt; fronts' asks are stale */
    uint64_t event;     /* applied last */
    uint64_t fence;     /* the highest token seen */
    int64_t server_ms;  /* the server's wall clock */
    uint64_t outbox;    /* entries that have not been marked done */
    uint64_t oldest_ms; /* when the oldest of them was decided; 0: none */
    bool broken;        /* somebody told so (NEWS_BROKEN), and it has not been rebuilt since */
};

/*
 * Rebuilding, under a lease. BEGIN makes an empty, closed segment of a higher epoch on the server
 * that answers now; SALE, ITEM, BUYER and ORDER fill it; OPEN lets fronts in. Each is idempotent.
 * The item's numbers are written as they are given. Decisions may be made again as soon as their
 * item is there, so an item comes behind all its buyers and orders; once it has changed, steps about
 * it change nothing. Until it is there they are told NO_SUCH_ITEM, which of a segment that is not
 * open means: not yet.
 */
enum segment_step_kind { STEP_BEGIN, STEP_SALE, STEP_ITEM, STEP_BUYER, STEP_ORDER, STEP_OPEN };
struct segment_step {
    enum segment_step_kind kind;
    uint64_t event;                 /* BEGIN: applied, as what follows shows it */
    int64_t highest_ms;             /* BEGIN */
    struct gate_sizes sizes;        /* BEGIN */
    uint64_t sale;                  /* SALE, ITEM */
    int64_t starts_at_ms;           /* SALE */
    int64_t ends_at_ms;             /* SALE */
    enum sale_state state;          /* SALE */
    bool bar_unpaid;                /* SALE */
    uint64_t item;                  /* ITEM, BUYER, ORDER */
    uint64_t total, available;      /* ITEM */
    uint64_t locked, sold;          /* ITEM */
    uint32_t limit;                 /* ITEM */
    uint64_t user;                  /* BUYER */
    uint32_t held, failed_attempts; /* BUYER */
    bool barred;                    /* BUYER */
    struct order_view order;        /* ORDER */
};

/* A decision on its way: what the outbox holds of it. */
struct outbox_entry {
    uint32_t segment;
    uint64_t epoch;
    uint64_t mark[2];            /* the implementation's: which entry this is */
    struct gate_command command; /* the RESERVE */
};

/* What fronts are told as it happens. Hints: they may be lost, doubled or late. */
enum news_kind {
    NEWS_ORDER,  /* order: its new state */
    NEWS_ITEM,   /* item: its numbers or its sale changed */
    NEWS_SALE,   /* sale: read it from the ledger again */
    NEWS_EPOCH,  /* segment, epoch: it was rebuilt; or was lost, epoch 0 */
    NEWS_LOST,   /* some may have been missed: look at everything */
    NEWS_BROKEN, /* to be told, not heard: segment, epoch: it contradicts itself or the ledger. The
                  * segment remembers it for whoever looks */
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
    /* All calls in the order given, in as few round trips as can be; each gets its outcome. Behind
     * a call of a segment that was not DONE or was refused, later events of it say GAP. */
    void (*apply)(struct segments *segments, struct segment_call *calls, size_t count);
    void (*look)(struct segments *segments, uint32_t segment, struct segment_state *ret_state);
    /* Steps of one segment, in order: SEGMENT_DONE if all were. */
    enum segment_outcome (*rebuild)(struct segments *segments, uint32_t segment, uint64_t epoch,
                                    uint64_t fence, const struct segment_step *steps, size_t count);
    /* Entries of the outboxes of the segments in the mask, each held by this worker until done (or
     * until it is dead for a while: then another gets it). On start those it held before come first.
     * 0; ERR_AGAIN: none within wait_ms; ERR_IO. */
    int (*take)(struct segments *segments, uint64_t mask, struct outbox_entry *ret_entries,
                size_t max, int64_t wait_ms, size_t *ret_count);
    /* They are safe elsewhere: forget them. ERR_IO: tell again, or they come again. */
    int (*done)(struct segments *segments, const struct outbox_entry *entries, size_t count);
    /* 0; ERR_AGAIN: none within wait_ms. */
    int (*news)(struct segments *segments, struct segment_news *ret_news, size_t max,
                int64_t wait_ms, size_t *ret_count);
    /* Tells everyone; best effort. */
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
