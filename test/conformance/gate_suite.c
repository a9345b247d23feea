/*
 * The table and its runner. A history starts on an empty gate with one sale (id 1, from 1000 to
 * 9000 ms) and three items: 11 with limit 1, 12 with limit 3, 13 without; 10 units each, unless the
 * history says otherwise. Event numbers are given out by the runner, in order.
 */
#include "gate_suite.h"

#include <stdio.h>
#include <string.h>

enum what {
    END,
    BUY,     /* user, item, key, qty, at */
    CONFIRM, /* key */
    REFUSE,  /* key, reason in qty */
    PAY,
    CANCEL,
    LATE, /* a cancellation that counts as unpaid */
    COOL, /* a cancellation that gives its buyer a cooling time, which ends 1000 ms later */
    EXPIRE,
    EXPIRE_COOL, /* the same of an order that expires */
    RESTOCK,     /* item, qty */
    OPEN,        /* start in at */
    PAUSE,
    CLOSE,
    RETIME, /* end in at */
    FORGET, /* qty: step size */
    OUT,    /* item, qty */
    IN,
    AGAIN,   /* the last event once more, under its old number */
    DECIDED, /* as BUY: it was accepted before, and is decided again; `held` is not looked at */
    BAR,     /* history setting: the sale bars unpaid buyers */
    FULL,    /* history setting: room for qty orders and as many buyers */
    SHARES, /* history setting: live orders of a buyer of an item (user), of an item (item) and of a
              * sale (key), buyers of a sale (qty); 0: no such share */
};

/* Orders are named by small keys: for limit 1 the attempt number, else any number. */
struct row {
    enum what what;
    uint64_t user;
    uint64_t item;
    uint32_t key;
    uint32_t qty;
    int64_t at;
    /* expected */
    enum verdict verdict;
    enum refusal refusal;
    uint32_t held;
    int64_t available, locked, sold; /* -1: not looked at */
    enum gate_bound bound;           /* with OVERLOADED */
    int64_t cooling_until;
};

#define NOT_LOOKED -1, -1, -1
#define OK_(...) VERDICT_DONE, REFUSAL_NONE, __VA_ARGS__, GATE_BOUND_NONE, 0
#define SAME_(...) VERDICT_ALREADY_APPLIED, REFUSAL_NONE, __VA_ARGS__, GATE_BOUND_NONE, 0
#define NO_(...) VERDICT_REFUSED, __VA_ARGS__, GATE_BOUND_NONE, 0
#define FULL_(bound, ...) VERDICT_REFUSED, REFUSAL_OVERLOADED, __VA_ARGS__, bound, 0
/* Refused until then. */
#define WAITS_(until, ...) VERDICT_REFUSED, REFUSAL_BARRED, __VA_ARGS__, GATE_BOUND_NONE, until

struct history {
    const char *name;
    struct row rows[18];
};

static const struct history histories[] = {
    {"a buy locks a unit, paying sells it",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2100, OK_(0, 9, 1, 0)},
      {PAY, 7, 11, 0, 0, 2200, OK_(0, 9, 0, 1)}}},
    {"the same order again takes nothing",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 7, 11, 0, 1, 2001, SAME_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2100, OK_(0, 9, 1, 0)},
      {BUY, 7, 11, 0, 1, 2101, SAME_(1, 9, 1, 0)}}},
    {"an existing order answers after pause, end, sell-out and ticket expiry",
     {{BUY, 7, 12, 1, 3, 2000, OK_(3, 7, 3, 0)},
      {PAUSE, 0, 0, 0, 0, 2001, OK_(0, NOT_LOOKED)},
      {BUY, 7, 12, 1, 3, 2002, SAME_(3, 7, 3, 0)},
      {BUY, 7, 12, 1, 3, 99999, SAME_(3, 7, 3, 0)},
      {CLOSE, 0, 0, 0, 0, 2003, OK_(0, NOT_LOOKED)},
      {BUY, 7, 12, 1, 3, 2004, SAME_(3, 7, 3, 0)}}},
    {"another quantity under the same order is another request",
     {{BUY, 7, 12, 1, 2, 2000, OK_(2, 8, 2, 0)},
      {BUY, 7, 12, 1, 1, 2001, NO_(REFUSAL_DIFFERENT_REQUEST, 2, 8, 2, 0)}}},
    {"another buyer's order is not answered",
     {{BUY, 7, 12, 1, 2, 2000, OK_(2, 8, 2, 0)},
      {BUY, 8, 12, 1, 2, 2001, NO_(REFUSAL_BAD_TICKET, 0, 8, 2, 0)}}},
    {"before the start it is too early, at the end it has ended",
     {{BUY, 7, 11, 0, 1, 999, NO_(REFUSAL_TOO_EARLY, 0, 10, 0, 0)},
      {BUY, 7, 11, 0, 1, 9000, NO_(REFUSAL_ENDED, 0, 10, 0, 0)},
      {BUY, 7, 11, 0, 1, 1000, OK_(1, 9, 1, 0)},
      {BUY, 8, 11, 0, 1, 8999, OK_(1, 8, 2, 0)}}},
    {"paused is not open, resumed is",
     {{PAUSE, 0, 0, 0, 0, 1500, OK_(0, NOT_LOOKED)},
      {BUY, 7, 11, 0, 1, 2000, NO_(REFUSAL_NOT_OPEN, 0, 10, 0, 0)},
      {OPEN, 0, 0, 0, 0, 1000, OK_(0, NOT_LOOKED)},
      {BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)}}},
    {"closed is for good",
     {{CLOSE, 0, 0, 0, 0, 1500, OK_(0, NOT_LOOKED)},
      {BUY, 7, 11, 0, 1, 2000, NO_(REFUSAL_ENDED, 0, 10, 0, 0)},
      {OPEN, 0, 0, 0, 0, 1600, NO_(REFUSAL_BAD_STATE, 0, NOT_LOOKED)}}},
    {"opening early moves the start",
     {{BUY, 7, 11, 0, 1, 500, NO_(REFUSAL_TOO_EARLY, 0, 10, 0, 0)},
      {OPEN, 0, 0, 0, 0, 400, OK_(0, NOT_LOOKED)},
      {BUY, 7, 11, 0, 1, 500, OK_(1, 9, 1, 0)}}},
    {"a later end keeps it open",
     {{RETIME, 0, 0, 0, 0, 20000, OK_(0, NOT_LOOKED)}, {BUY, 7, 11, 0, 1, 9500, OK_(1, 9, 1, 0)}}},
    {"one each: the quantity alone may be above the limit",
     {{BUY, 7, 11, 0, 2, 2000, NO_(REFUSAL_LIMIT_REACHED, 0, 10, 0, 0)}}},
    {"a cumulative limit counts over several orders",
     {{BUY, 7, 12, 1, 2, 2000, OK_(2, 8, 2, 0)},
      {BUY, 7, 12, 2, 2, 2001, NO_(REFUSAL_LIMIT_REACHED, 2, 8, 2, 0)},
      {BUY, 7, 12, 3, 1, 2002, OK_(3, 7, 3, 0)},
      {BUY, 7, 12, 4, 1, 2003, NO_(REFUSAL_LIMIT_REACHED, 3, 7, 3, 0)},
      {BUY, 8, 12, 5, 3, 2004, OK_(3, 4, 6, 0)}}},
    {"paid units count against the limit, cancelled ones do not",
     {{BUY, 7, 12, 1, 3, 2000, OK_(3, 7, 3, 0)},
      {CONFIRM, 7, 12, 1, 0, 2001, OK_(0, 7, 3, 0)},
      {PAY, 7, 12, 1, 0, 2002, OK_(0, 7, 0, 3)},
      {BUY, 7, 12, 2, 1, 2003, NO_(REFUSAL_LIMIT_REACHED, 3, 7, 0, 3)},
      {BUY, 8, 12, 3, 3, 2004, OK_(3, 4, 3, 3)},
      {CONFIRM, 8, 12, 3, 0, 2005, OK_(0, 4, 3, 3)},
      {CANCEL, 8, 12, 3, 0, 2006, OK_(0, 7, 0, 3)},
      {BUY, 8, 12, 4, 3, 2007, OK_(3, 4, 3, 3)}}},
    {"no limit is no limit",
     {{BUY, 7, 13, 1, 9, 2000, OK_(9, 1, 9, 0)},
      {BUY, 7, 13, 2, 1, 2001, OK_(10, 0, 10, 0)},
      {BUY, 7, 13, 3, 1, 2002, NO_(REFUSAL_SOLD_OUT, 10, 0, 10, 0)}}},
    {"the last unit is sold once, more than is left is sold out",
     {{BUY, 7, 13, 1, 11, 2000, NO_(REFUSAL_SOLD_OUT, 0, 10, 0, 0)},
      {BUY, 7, 13, 2, 10, 2000, OK_(10, 0, 10, 0)},
      {BUY, 8, 13, 3, 1, 2000, NO_(REFUSAL_SOLD_OUT, 0, 0, 10, 0)}}},
    {"sold out comes before the limit",
     {{BUY, 7, 12, 1, 3, 2000, OK_(3, 7, 3, 0)},
      {OUT, 0, 12, 0, 7, 2001, OK_(0, 0, 3, 0)},
      {BUY, 7, 12, 2, 1, 2002, NO_(REFUSAL_SOLD_OUT, 3, 0, 3, 0)}}},
    {"after a cancel the next attempt is another order, the old one stays",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2001, OK_(0, 9, 1, 0)},
      {CANCEL, 7, 11, 0, 0, 2002, OK_(0, 10, 0, 0)},
      {BUY, 7, 11, 0, 1, 2003, SAME_(0, 10, 0, 0)},
      {BUY, 7, 11, 2, 1, 2004, NO_(REFUSAL_BAD_TICKET, 0, 10, 0, 0)},
      {BUY, 7, 11, 1, 1, 2005, OK_(1, 9, 1, 0)},
      {BUY, 7, 11, 0, 1, 2006, SAME_(1, 9, 1, 0)}}},
    {"an expired buyer may try again where the sale does not bar",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2001, OK_(0, 9, 1, 0)},
      {EXPIRE, 7, 11, 0, 0, 2002, OK_(0, 10, 0, 0)},
      {BUY, 7, 11, 1, 1, 2003, OK_(1, 9, 1, 0)}}},
    {"an expired buyer is barred where the sale bars",
     {{BAR, 0, 0, 0, 0, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 12, 1, 0, 2001, OK_(0, 9, 1, 0)},
      {EXPIRE, 7, 12, 1, 0, 2002, OK_(0, 10, 0, 0)},
      {BUY, 7, 12, 2, 1, 2003, NO_(REFUSAL_BARRED, 0, 10, 0, 0)},
      {BUY, 7, 12, 1, 1, 2004, SAME_(0, 10, 0, 0)},
      {BUY, 7, 13, 3, 1, 2005, OK_(1, 9, 1, 0)},
      {BUY, 8, 12, 4, 1, 2006, OK_(1, 9, 1, 0)}}},
    {"a buyer who cancels late is barred from that item, and stays so",
     {{BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 12, 1, 0, 2001, OK_(0, 9, 1, 0)},
      {BUY, 7, 12, 2, 1, 2002, OK_(2, 8, 2, 0)},
      {LATE, 7, 12, 1, 0, 2003, OK_(0, 9, 1, 0)},
      {AGAIN, 0, 0, 0, 0, 2004, SAME_(0, NOT_LOOKED)},
      {BUY, 7, 12, 3, 1, 2005, NO_(REFUSAL_BARRED, 1, 9, 1, 0)},
      {CONFIRM, 7, 12, 2, 0, 2006, OK_(0, 9, 1, 0)},
      {CANCEL, 7, 12, 2, 0, 2007, OK_(0, 10, 0, 0)},
      {BUY, 7, 12, 3, 1, 2008, NO_(REFUSAL_BARRED, 0, 10, 0, 0)},
      {BUY, 7, 12, 1, 1, 2009, SAME_(0, 10, 0, 0)},
      {BUY, 7, 13, 4, 1, 2010, OK_(1, 9, 1, 0)},
      {BUY, 8, 12, 5, 1, 2011, OK_(1, 9, 1, 0)}}},
    {"a buyer who cancels waits for the end of his cooling time, others and other items do not",
     {{BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 12, 1, 0, 2001, OK_(0, 9, 1, 0)},
      {COOL, 7, 12, 1, 0, 2100, OK_(0, 10, 0, 0)},
      {AGAIN, 0, 0, 0, 0, 2101, SAME_(0, NOT_LOOKED)},
      {BUY, 7, 12, 2, 1, 2101, WAITS_(3100, 0, 10, 0, 0)},
      {BUY, 7, 12, 1, 1, 2102, SAME_(0, 10, 0, 0)},
      {BUY, 7, 13, 3, 1, 2103, OK_(1, 9, 1, 0)},
      {BUY, 8, 12, 4, 1, 2104, OK_(1, 9, 1, 0)},
      {BUY, 7, 12, 2, 1, 3099, WAITS_(3100, 0, 9, 1, 0)},
      {BUY, 7, 12, 2, 1, 3100, OK_(1, 8, 2, 0)}}},
    {"so does a buyer whose order expires, and his next attempt is a new order",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2001, OK_(0, 9, 1, 0)},
      {EXPIRE_COOL, 7, 11, 0, 0, 3001, OK_(0, 10, 0, 0)},
      {BUY, 7, 11, 0, 1, 3002, SAME_(0, 10, 0, 0)},
      {BUY, 7, 11, 1, 1, 3002, WAITS_(4001, 0, 10, 0, 0)},
      {BUY, 7, 11, 1, 1, 4001, OK_(1, 9, 1, 0)}}},
    {"the later of two cooling times counts, in whatever order they come",
     {{BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 7, 12, 2, 1, 2001, OK_(2, 8, 2, 0)},
      {CONFIRM, 7, 12, 1, 0, 2002, OK_(0, 8, 2, 0)},
      {CONFIRM, 7, 12, 2, 0, 2003, OK_(0, 8, 2, 0)},
      {COOL, 7, 12, 1, 0, 2500, OK_(0, 9, 1, 0)},
      {COOL, 7, 12, 2, 0, 2100, OK_(0, 10, 0, 0)},
      {BUY, 7, 12, 3, 1, 3499, WAITS_(3500, 0, 10, 0, 0)},
      {BUY, 7, 12, 3, 1, 3500, OK_(1, 9, 1, 0)}}},
    {"neither a later buy nor an ordinary cancellation ends a cooling time",
     {{BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 7, 12, 2, 1, 2001, OK_(2, 8, 2, 0)},
      {CONFIRM, 7, 12, 1, 0, 2002, OK_(0, 8, 2, 0)},
      {CONFIRM, 7, 12, 2, 0, 2003, OK_(0, 8, 2, 0)},
      {COOL, 7, 12, 1, 0, 2100, OK_(0, 9, 1, 0)},
      {BUY, 7, 12, 3, 1, 2101, WAITS_(3100, 1, 9, 1, 0)},
      {CANCEL, 7, 12, 2, 0, 2102, OK_(0, 10, 0, 0)},
      {BUY, 7, 12, 3, 1, 3099, WAITS_(3100, 0, 10, 0, 0)}}},
    {"who is barred for good is not let in by a cooling time, whichever comes first",
     {{BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 7, 12, 2, 1, 2001, OK_(2, 8, 2, 0)},
      {BUY, 7, 12, 3, 1, 2001, OK_(3, 7, 3, 0)},
      {CONFIRM, 7, 12, 1, 0, 2002, OK_(0, 7, 3, 0)},
      {CONFIRM, 7, 12, 2, 0, 2003, OK_(0, 7, 3, 0)},
      {CONFIRM, 7, 12, 3, 0, 2003, OK_(0, 7, 3, 0)},
      {COOL, 7, 12, 1, 0, 2100, OK_(0, 8, 2, 0)},
      {LATE, 7, 12, 2, 0, 2101, OK_(0, 9, 1, 0)},
      {BUY, 7, 12, 4, 1, 2102, NO_(REFUSAL_BARRED, 1, 9, 1, 0)},
      {COOL, 7, 12, 3, 0, 2103, OK_(0, 10, 0, 0)},
      {BUY, 7, 12, 4, 1, 9000 - 1, NO_(REFUSAL_BARRED, 0, 10, 0, 0)}}},
    {"an order that expires in a sale that bars is barred for good, cooling time or not",
     {{BAR, 0, 0, 0, 0, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 12, 1, 0, 2001, OK_(0, 9, 1, 0)},
      {EXPIRE_COOL, 7, 12, 1, 0, 2100, OK_(0, 10, 0, 0)},
      {BUY, 7, 12, 2, 1, 8000, NO_(REFUSAL_BARRED, 0, 10, 0, 0)}}},
    {"sold out comes before the cooling time, and the cooling time before the limit",
     {{BUY, 7, 12, 1, 3, 2000, OK_(3, 7, 3, 0)},
      {CONFIRM, 7, 12, 1, 0, 2001, OK_(0, 7, 3, 0)},
      {COOL, 7, 12, 1, 0, 2100, OK_(0, 10, 0, 0)},
      {BUY, 7, 12, 2, 4, 2101, WAITS_(3100, 0, 10, 0, 0)},
      {OUT, 0, 12, 0, 10, 2102, OK_(0, 0, 0, 0)},
      {BUY, 7, 12, 2, 1, 2103, NO_(REFUSAL_SOLD_OUT, 0, 0, 0, 0)}}},
    {"a paid order cannot be cancelled late, nor one that waits to be booked",
     {{BUY, 7, 12, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {LATE, 7, 12, 1, 0, 2001, NO_(REFUSAL_BAD_STATE, 0, NOT_LOOKED)},
      {CONFIRM, 7, 12, 1, 0, 2002, OK_(0, 9, 1, 0)},
      {PAY, 7, 12, 1, 0, 2003, OK_(0, 9, 0, 1)},
      {LATE, 7, 12, 1, 0, 2004, NO_(REFUSAL_BAD_STATE, 0, NOT_LOOKED)},
      {BUY, 7, 12, 2, 1, 2005, OK_(2, 8, 1, 1)}}},
    {"a barred buyer of a one-each item keeps meeting his expired order",
     {{BAR, 0, 0, 0, 0, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2001, OK_(0, 9, 1, 0)},
      {EXPIRE, 7, 11, 0, 0, 2002, OK_(0, 10, 0, 0)},
      {BUY, 7, 11, 0, 1, 2003, SAME_(0, 10, 0, 0)},
      {BUY, 7, 11, 1, 1, 2004, NO_(REFUSAL_BAD_TICKET, 0, 10, 0, 0)}}},
    {"refused for the limit returns the unit, for want of stock writes it off",
     {{BUY, 7, 12, 1, 2, 2000, OK_(2, 8, 2, 0)},
      {REFUSE, 7, 12, 1, REFUSAL_LIMIT_REACHED, 2001, OK_(0, 10, 0, 0)},
      {BUY, 8, 12, 2, 2, 2002, OK_(2, 8, 2, 0)},
      {REFUSE, 8, 12, 2, REFUSAL_NO_STOCK, 2003, OK_(0, 8, 0, 0)}}},
    {"only legal moves: queued cannot be paid, cancelled or expired",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {PAY, 7, 11, 0, 0, 2001, NO_(REFUSAL_BAD_STATE, 0, 9, 1, 0)},
      {CANCEL, 7, 11, 0, 0, 2001, NO_(REFUSAL_BAD_STATE, 0, 9, 1, 0)},
      {EXPIRE, 7, 11, 0, 0, 2001, NO_(REFUSAL_BAD_STATE, 0, 9, 1, 0)}}},
    {"final is final",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2001, OK_(0, 9, 1, 0)},
      {PAY, 7, 11, 0, 0, 2002, OK_(0, 9, 0, 1)},
      {CANCEL, 7, 11, 0, 0, 2003, NO_(REFUSAL_BAD_STATE, 0, 9, 0, 1)},
      {EXPIRE, 7, 11, 0, 0, 2003, NO_(REFUSAL_BAD_STATE, 0, 9, 0, 1)},
      {CONFIRM, 7, 11, 0, 0, 2003, NO_(REFUSAL_BAD_STATE, 0, 9, 0, 1)},
      {PAY, 7, 11, 0, 0, 2004, SAME_(0, 9, 0, 1)}}},
    {"a locked order may be paid after the close",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2001, OK_(0, 9, 1, 0)},
      {CLOSE, 0, 0, 0, 0, 2002, OK_(0, NOT_LOOKED)},
      {PAY, 7, 11, 0, 0, 2003, OK_(0, 9, 0, 1)}}},
    {"an event applied twice changes nothing",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 11, 0, 0, 2001, OK_(0, 9, 1, 0)},
      {CANCEL, 7, 11, 0, 0, 2002, OK_(0, 10, 0, 0)},
      {AGAIN, 7, 11, 0, 0, 2003, SAME_(0, 10, 0, 0)},
      {RESTOCK, 0, 11, 0, 5, 2004, OK_(0, 15, 0, 0)},
      {AGAIN, 0, 11, 0, 5, 2004, SAME_(0, 15, 0, 0)}}},
    {"restock sells again",
     {{BUY, 7, 13, 1, 10, 2000, OK_(10, 0, 10, 0)},
      {BUY, 8, 13, 2, 1, 2001, NO_(REFUSAL_SOLD_OUT, 0, 0, 10, 0)},
      {RESTOCK, 0, 13, 0, 2, 2002, OK_(0, 2, 10, 0)},
      {BUY, 8, 13, 2, 1, 2003, OK_(1, 1, 11, 0)}}},
    {"a returned unit sells again",
     {{BUY, 7, 13, 1, 10, 2000, OK_(10, 0, 10, 0)},
      {CONFIRM, 7, 13, 1, 0, 2001, OK_(0, 0, 10, 0)},
      {EXPIRE, 7, 13, 1, 0, 2002, OK_(0, 10, 0, 0)},
      {BUY, 8, 13, 2, 10, 2003, OK_(10, 0, 10, 0)}}},
    {"transfers move only what is available",
     {{OUT, 0, 13, 0, 4, 2000, OK_(0, 6, 0, 0)},
      {OUT, 0, 13, 0, 7, 2001, NO_(REFUSAL_SOLD_OUT, 0, 6, 0, 0)},
      {IN, 0, 13, 0, 3, 2002, OK_(0, 9, 0, 0)}}},
    {"a ticket that expired without an order is a bad ticket",
     {{BUY, 7, 11, 0, 1, 60000, NO_(REFUSAL_BAD_TICKET, 0, 10, 0, 0)}}},
    {"unknown items and orders",
     {{BUY, 7, 99, 1, 1, 2000, NO_(REFUSAL_NO_SUCH_ITEM, 0, NOT_LOOKED)},
      {CONFIRM, 7, 12, 9, 0, 2001, NO_(REFUSAL_NOT_FOUND, 0, 10, 0, 0)},
      {RESTOCK, 0, 99, 0, 1, 2002, NO_(REFUSAL_NO_SUCH_ITEM, 0, NOT_LOOKED)}}},
    {"what is full is refused, and room that returns is used",
     {{FULL, 0, 0, 0, 2, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 13, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 8, 13, 2, 1, 2001, OK_(1, 8, 2, 0)},
      {BUY, 9, 13, 3, 1, 2002, FULL_(GATE_BOUND_ORDERS, 0, 8, 2, 0)},
      {BUY, 7, 13, 1, 1, 2003, SAME_(1, 8, 2, 0)}}},
    {"a buyer's share is of his orders of one item, until they are final",
     {{SHARES, 2, 0, 0, 0, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 13, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 7, 13, 2, 1, 2001, OK_(2, 8, 2, 0)},
      {BUY, 7, 13, 3, 1, 2002, FULL_(GATE_BOUND_BUYER_SHARE, 2, 8, 2, 0)},
      {BUY, 7, 13, 2, 1, 2003, SAME_(2, 8, 2, 0)},
      {BUY, 8, 13, 4, 1, 2004, OK_(1, 7, 3, 0)},
      {BUY, 7, 12, 5, 1, 2005, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 13, 1, 0, 2006, OK_(0, 7, 3, 0)},
      {BUY, 7, 13, 3, 1, 2007, FULL_(GATE_BOUND_BUYER_SHARE, 2, 7, 3, 0)},
      {PAY, 7, 13, 1, 0, 2008, OK_(0, 7, 2, 1)},
      {BUY, 7, 13, 3, 1, 2009, OK_(3, 6, 3, 1)},
      {BUY, 7, 13, 6, 1, 2010, FULL_(GATE_BOUND_BUYER_SHARE, 3, 6, 3, 1)}}},
    {"an order that ends in any way leaves its shares",
     {{SHARES, 1, 1, 1, 0, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 13, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 13, 1, 0, 2001, OK_(0, 9, 1, 0)},
      {EXPIRE, 7, 13, 1, 0, 2002, OK_(0, 10, 0, 0)},
      {BUY, 7, 13, 2, 1, 2003, OK_(1, 9, 1, 0)},
      {REFUSE, 7, 13, 2, REFUSAL_LIMIT_REACHED, 2004, OK_(0, 10, 0, 0)},
      {BUY, 7, 13, 3, 1, 2005, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 13, 3, 0, 2006, OK_(0, 9, 1, 0)},
      {CANCEL, 7, 13, 3, 0, 2007, OK_(0, 10, 0, 0)},
      {BUY, 7, 13, 4, 1, 2008, OK_(1, 9, 1, 0)},
      {REFUSE, 7, 13, 4, REFUSAL_NO_STOCK, 2009, OK_(0, 9, 0, 0)},
      {BUY, 7, 13, 5, 1, 2010, OK_(1, 8, 1, 0)},
      {CONFIRM, 7, 13, 5, 0, 2011, OK_(0, 8, 1, 0)},
      {LATE, 7, 13, 5, 0, 2012, OK_(0, 9, 0, 0)},
      {BUY, 8, 13, 6, 1, 2013, OK_(1, 8, 1, 0)},
      {BUY, 8, 13, 7, 1, 2014, FULL_(GATE_BOUND_BUYER_SHARE, 1, 8, 1, 0)}}},
    {"an item's share is of all its buyers, and of nothing else",
     {{SHARES, 0, 2, 0, 0, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 13, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 8, 13, 2, 3, 2001, OK_(3, 6, 4, 0)},
      {BUY, 9, 13, 3, 1, 2002, FULL_(GATE_BOUND_ITEM_SHARE, 0, 6, 4, 0)},
      {BUY, 7, 13, 4, 1, 2003, FULL_(GATE_BOUND_ITEM_SHARE, 1, 6, 4, 0)},
      {BUY, 9, 11, 0, 1, 2004, OK_(1, 9, 1, 0)},
      {CONFIRM, 7, 13, 1, 0, 2005, OK_(0, 6, 4, 0)},
      {PAY, 7, 13, 1, 0, 2006, OK_(0, 6, 3, 1)},
      {BUY, 9, 13, 3, 1, 2007, OK_(1, 5, 4, 1)}}},
    {"a sale's share is of all its items",
     {{SHARES, 0, 0, 3, 0, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 7, 12, 1, 1, 2001, OK_(1, 9, 1, 0)},
      {BUY, 7, 13, 2, 1, 2002, OK_(1, 9, 1, 0)},
      {BUY, 8, 11, 0, 1, 2003, FULL_(GATE_BOUND_SALE_SHARE, 0, 9, 1, 0)},
      {BUY, 7, 13, 3, 1, 2004, FULL_(GATE_BOUND_SALE_SHARE, 1, 9, 1, 0)},
      {CONFIRM, 7, 12, 1, 0, 2005, OK_(0, 9, 1, 0)},
      {CANCEL, 7, 12, 1, 0, 2006, OK_(0, 10, 0, 0)},
      {BUY, 8, 11, 0, 1, 2007, OK_(1, 8, 2, 0)},
      {BUY, 9, 11, 0, 1, 2008, FULL_(GATE_BOUND_SALE_SHARE, 0, 8, 2, 0)}}},
    {"a sale's share of buyers is of pairs of buyer and item, and they stay",
     {{SHARES, 0, 0, 0, 2, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 13, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 7, 12, 2, 1, 2001, OK_(1, 9, 1, 0)},
      {BUY, 8, 13, 3, 1, 2002, FULL_(GATE_BOUND_SALE_BUYERS, 0, 9, 1, 0)},
      {BUY, 7, 11, 0, 1, 2003, FULL_(GATE_BOUND_SALE_BUYERS, 0, 10, 0, 0)},
      {BUY, 7, 13, 4, 1, 2004, OK_(2, 8, 2, 0)},
      {CONFIRM, 7, 12, 2, 0, 2005, OK_(0, 9, 1, 0)},
      {EXPIRE, 7, 12, 2, 0, 2006, OK_(0, 10, 0, 0)},
      {BUY, 8, 13, 3, 1, 2007, FULL_(GATE_BOUND_SALE_BUYERS, 0, 8, 2, 0)}}},
    {"a share comes last: sold out, barred and the limit come before it",
     {{SHARES, 1, 1, 1, 1, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 12, 1, 2, 2000, OK_(2, 8, 2, 0)},
      {BUY, 7, 12, 2, 2, 2001, NO_(REFUSAL_LIMIT_REACHED, 2, 8, 2, 0)},
      {BUY, 7, 12, 2, 1, 2002, FULL_(GATE_BOUND_BUYER_SHARE, 2, 8, 2, 0)},
      {BUY, 8, 12, 2, 1, 2003, FULL_(GATE_BOUND_ITEM_SHARE, 0, 8, 2, 0)},
      {BUY, 8, 13, 3, 1, 2004, FULL_(GATE_BOUND_SALE_SHARE, 0, 10, 0, 0)},
      {OUT, 0, 12, 0, 8, 2005, OK_(0, 0, 2, 0)},
      {BUY, 7, 12, 2, 1, 2006, NO_(REFUSAL_SOLD_OUT, 2, 0, 2, 0)}}},
    {"what was accepted before is above every share, and counts",
     {{SHARES, 1, 1, 1, 1, 0, OK_(0, NOT_LOOKED)},
      {BUY, 7, 13, 1, 1, 2000, OK_(1, 9, 1, 0)},
      {DECIDED, 7, 13, 2, 1, 2001, OK_(0, 8, 2, 0)},
      {DECIDED, 8, 13, 3, 1, 2002, OK_(0, 7, 3, 0)},
      {CONFIRM, 7, 13, 1, 0, 2003, OK_(0, 7, 3, 0)},
      {PAY, 7, 13, 1, 0, 2004, OK_(0, 7, 2, 1)},
      {BUY, 7, 13, 4, 1, 2005, FULL_(GATE_BOUND_BUYER_SHARE, 2, 7, 2, 1)},
      {CONFIRM, 7, 13, 2, 0, 2006, OK_(0, 7, 2, 1)},
      {PAY, 7, 13, 2, 0, 2007, OK_(0, 7, 1, 2)},
      {BUY, 7, 13, 4, 1, 2008, FULL_(GATE_BOUND_ITEM_SHARE, 2, 7, 1, 2)},
      {BUY, 7, 12, 5, 1, 2009, FULL_(GATE_BOUND_SALE_SHARE, 0, 10, 0, 0)},
      {CONFIRM, 8, 13, 3, 0, 2010, OK_(0, 7, 1, 2)},
      {PAY, 8, 13, 3, 0, 2011, OK_(0, 7, 0, 3)},
      {BUY, 7, 13, 4, 1, 2012, OK_(3, 6, 1, 3)}}},
    {"a forgotten sale is gone, bit by bit",
     {{BUY, 7, 11, 0, 1, 2000, OK_(1, 9, 1, 0)},
      {BUY, 8, 11, 0, 1, 2000, OK_(1, 8, 2, 0)},
      {FORGET, 0, 0, 0, 1, 2001, NO_(REFUSAL_BAD_STATE, 0, NOT_LOOKED)},
      {CLOSE, 0, 0, 0, 0, 2002, OK_(0, NOT_LOOKED)},
      {FORGET, 0, 0, 0, 1, 2003, VERDICT_MORE, REFUSAL_NONE, 0, NOT_LOOKED, GATE_BOUND_NONE, 0},
      {FORGET, 0, 0, 0, 9, 2004, OK_(0, NOT_LOOKED)},
      {BUY, 7, 11, 0, 1, 2005, NO_(REFUSAL_NO_SUCH_ITEM, 0, NOT_LOOKED)}}},
};

#define HISTORIES (int)(sizeof(histories) / sizeof(histories[0]))
/* Tickets of the suite expire here. */
#define TICKET_EXPIRES_MS 50000

struct run {
    const struct gate_under_test *gate;
    uint64_t event;
    struct gate_command last; /* the last event */
};

static struct order_id key_id(const struct row *row)
{
    if (row->item == 11) {
        return order_id_once(row->item, row->user, row->key);
    }
    return order_id_fresh(row->item, 1, row->key);
}

static enum gate_kind kind_of(enum what what)
{
    static const enum gate_kind kinds[] = {
        [BUY] = GATE_RESERVE,         [CONFIRM] = GATE_CONFIRM,
        [REFUSE] = GATE_FAIL_ORDER,   [PAY] = GATE_PAY,
        [CANCEL] = GATE_CANCEL,       [EXPIRE] = GATE_EXPIRE,
        [COOL] = GATE_CANCEL_COOLING, [EXPIRE_COOL] = GATE_EXPIRE_COOLING,
        [LATE] = GATE_CANCEL_LATE,    [RESTOCK] = GATE_RESTOCK,
        [OPEN] = GATE_OPEN,           [PAUSE] = GATE_PAUSE,
        [CLOSE] = GATE_CLOSE,         [RETIME] = GATE_RETIME,
        [FORGET] = GATE_FORGET,       [OUT] = GATE_TRANSFER_OUT,
        [IN] = GATE_TRANSFER_IN,      [DECIDED] = GATE_RESERVE,
    };
    return kinds[what];
}

static void command_of(struct run *run, const struct row *row, struct gate_command *command)
{
    if (row->what == AGAIN) {
        *command = run->last;
        return;
    }
    *command = (struct gate_command){
        .kind = kind_of(row->what),
        .now_ms = row->at,
        .event = row->what == BUY || row->what == DECIDED ? 0 : run->event + 1,
        .id = row->item != 0 ? key_id(row) : (struct order_id){0, 0},
        .user = row->user,
        .item = row->item,
        .sale = 1,
        .qty = row->qty,
        .ticket_expires_ms = TICKET_EXPIRES_MS,
        .time_ms = (uint64_t)row->at + 1000,
        .reason = row->qty,
        .amount = row->qty,
        .starts_at_ms = (uint64_t)row->at,
        .ends_at_ms = (uint64_t)row->at,
    };
}

static void load(struct run *run, bool bar)
{
    static const struct {
        uint64_t item;
        uint32_t limit;
    } items[] = {{11, 1}, {12, 3}, {13, 0}};
    struct gate_effects effects;
    struct gate_command command = {.kind = GATE_LOAD_SALE,
                                   .event = ++run->event,
                                   .sale = 1,
                                   .starts_at_ms = 1000,
                                   .ends_at_ms = 9000,
                                   .bar_unpaid = bar};
    run->gate->step(run->gate->context, &command, &effects);
    for (int i = 0; i < 3; i++) {
        command = (struct gate_command){.kind = GATE_LOAD_ITEM,
                                        .event = ++run->event,
                                        .sale = 1,
                                        .item = items[i].item,
                                        .amount = 10,
                                        .limit = items[i].limit};
        run->gate->step(run->gate->context, &command, &effects);
    }
}

static int differs(const struct history *history, int index, const char *what, int64_t expected,
                   int64_t got)
{
    printf("history \"%s\", step %d: %s is %lld, not %lld\n", history->name, index, what,
           (long long)got, (long long)expected);
    return 1;
}

static int compare(const struct run *run, const struct history *history, int index,
                   enum verdict verdict, const struct gate_effects *effects)
{
    const struct row *row = &history->rows[index];
    struct item_view view;
    if (verdict != row->verdict) {
        return differs(history, index, "the verdict", row->verdict, verdict);
    }
    if (verdict == VERDICT_REFUSED && effects->refusal != row->refusal) {
        return differs(history, index, "the refusal", row->refusal, effects->refusal);
    }
    if (verdict == VERDICT_REFUSED && effects->refusal == REFUSAL_OVERLOADED &&
        effects->bound != row->bound) {
        return differs(history, index, "the bound", row->bound, effects->bound);
    }
    if (row->what == BUY && effects->held != row->held) {
        return differs(history, index, "held", row->held, effects->held);
    }
    if (row->what == BUY && effects->cooling_until_ms != row->cooling_until) {
        return differs(history, index, "the end of the cooling time", row->cooling_until,
                       effects->cooling_until_ms);
    }
    if (row->available < 0) {
        return 0;
    }
    if (!run->gate->item(run->gate->context, row->item, &view)) {
        return differs(history, index, "the item's presence", 1, 0);
    }
    if ((int64_t)view.available != row->available) {
        return differs(history, index, "available", row->available, (int64_t)view.available);
    }
    if ((int64_t)view.locked != row->locked) {
        return differs(history, index, "locked", row->locked, (int64_t)view.locked);
    }
    if ((int64_t)view.sold != row->sold) {
        return differs(history, index, "sold", row->sold, (int64_t)view.sold);
    }
    if (view.available + view.locked + view.sold != view.total) {
        return differs(history, index, "the sum", (int64_t)view.total, -1);
    }
    return 0;
}

static uint32_t share_or_none(uint32_t share)
{
    return share != 0 ? share : UINT32_MAX;
}

static int run_history(const struct gate_under_test *gate, const struct history *history)
{
    struct run run = {.gate = gate};
    struct gate_sizes sizes = {.orders = 64, .buyers = 64, .items = 8, .sales = 2};
    struct gate_shares shares = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    const struct row *setting = &history->rows[0];
    bool bar = setting->what == BAR;
    if (setting->what == FULL) {
        sizes.orders = setting->qty;
        sizes.buyers = setting->qty;
    }
    if (setting->what == SHARES) {
        shares = (struct gate_shares){
            .buyer_orders = share_or_none((uint32_t)setting->user),
            .item_orders = share_or_none((uint32_t)setting->item),
            .sale_orders = share_or_none(setting->key),
            .sale_buyers = share_or_none(setting->qty),
        };
    }
    int index = bar || setting->what == FULL || setting->what == SHARES ? 1 : 0;
    gate->reset(gate->context, sizes, shares);
    load(&run, bar);
    for (; history->rows[index].what != END; index++) {
        struct gate_command command;
        struct gate_effects effects = {.refusal = REFUSAL_NONE};
        command_of(&run, &history->rows[index], &command);
        enum verdict verdict = history->rows[index].what == DECIDED
                                   ? gate->again(gate->context, &command)
                                   : gate->step(gate->context, &command, &effects);
        if (compare(&run, history, index, verdict, &effects) != 0) {
            return 1;
        }
        if (command.event > run.event) {
            run.last = command;
            run.event = verdict == VERDICT_DONE ? command.event : run.event;
        }
    }
    return 0;
}

int gate_suite_run(const struct gate_under_test *gate)
{
    int failed = 0;
    for (int i = 0; i < HISTORIES; i++) {
        failed |= run_history(gate, &histories[i]);
    }
    return failed;
}

void gate_suite_count(int *ret_histories, int *ret_steps)
{
    *ret_histories = HISTORIES;
    *ret_steps = 0;
    for (int i = 0; i < HISTORIES; i++) {
        for (int k = 0; k < 18 && histories[i].rows[k].what != END; k++) {
            (*ret_steps)++;
        }
    }
}
