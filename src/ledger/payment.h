/*
 * A payment as the shop's payment system reports it, over HTTP (api/shop.c) or a queue
 * (distributed/payment_consumer.h):
 *
 *   {"payment_id":"…","order_id":"…","amount_cents":4200,"currency":"CNY"}
 *
 * The currency is optional; if it is given, it must be the order's. Other members are refused, so that
 * a misspelt currency is not ignored.
 *
 * What can go wrong: the body is not a payment. Retrying does not help.
 */
#ifndef SLUICE_LEDGER_PAYMENT_H
#define SLUICE_LEDGER_PAYMENT_H

#include "base/bytes.h"
#include "port/ledger.h"

struct payment_fault {
    const char *field;
    const char *detail;
};

/*
 * Fills a PAY op: kind, id, key, amount_cents, currency and fingerprint; the other members are not
 * touched.
 * ERR_INVALID: a bad request, see *ret_fault. An order id that is not one of ours becomes {0, 0},
 * which no order has. The ledger then tells whether there is no such order, or whether the payment
 * was reported before with another order.
 */
int payment_read(struct span body, struct ledger_op *ret_op, struct payment_fault *ret_fault);
/* True if the payment names an id that can be one of our orders. */
static inline bool payment_names_order(const struct ledger_op *op)
{
    return op->id.hi != 0;
}
/* Sets the amount and the fingerprint; op->id must be set. Two bodies are the same payment if order
 * and amount are the same, however they are written. */
void payment_set_amount(struct ledger_op *op, int64_t amount_cents);

#endif
