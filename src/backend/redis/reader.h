/* Reads words separated by single spaces, as our scripts write them. A word that does not fit sets
 * `bad`, and zeros follow, so a caller checks once at the end. */
#ifndef SLUICE_BACKEND_REDIS_READER_H
#define SLUICE_BACKEND_REDIS_READER_H

#include "core/types.h"

struct reader {
    struct span left;
    bool bad;
};

struct span reader_word(struct reader *reader);
uint64_t reader_u64(struct reader *reader, uint64_t max);
/* Times are signed: a clock may be before 1970. */
int64_t reader_i64(struct reader *reader);
struct order_id reader_id(struct reader *reader);
/* USER QTY STATE REASON VERSION CREATED PAY_BY: an order as stored, without id and item. */
void reader_order(struct reader *reader, struct order_view *ret_order);
/* Writes the same format. */
void write_order(struct out *out, const struct order_view *order);

#endif
