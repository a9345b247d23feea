/*
 * A payment as the shop's payment system tells it, whichever way it comes (http/shop, flow/payment consumer):
 *
 *   {"payment_id":"…","order_id":"…","amount_cents":4200}
 *
 * What can go wrong: it is no such thing, and no time will change that.
 */
#ifndef SLUICE_FLOW_PAYMENT_H
#define SLUICE_FLOW_PAYMENT_H

#include "base/bytes.h"
#include "port/ledger.h"

struct payment_fault {
    const char *field;
    const char *detail;
};

/* Into a PAY: kind, id, key, amount_cents and fingerprint; the rest stays. ERR_INVALID: a bad
 * request, see *ret_fault. An order's id that is none of ours becomes {0, 0}, which no order has:
 * it is for the ledger to say whether there is no such order, or the payment was told before with
 * another one. */
int payment_read(struct span body, struct ledger_op *ret_op, struct payment_fault *ret_fault);
/* Whether the payment names something that can be an order of ours. */
static inline bool payment_names_order(const struct ledger_op *op)
{
    return op->id.hi != 0;
}
/* The order's id is there. What makes two bodies the same payment: order and amount, however they
 * are written. */
void payment_set_amount(struct ledger_op *op, int64_t amount_cents);

#endif
