/*
 * A payment as the shop's payment system tells it, whichever way it comes (http/shop, flow/teller):
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
    enum refusal refusal; /* BAD_REQUEST, or NOT_FOUND: the order's id is none of ours */
    const char *field;    /* with BAD_REQUEST */
    const char *detail;
};

/* Into a PAY: kind, id, key, amount_cents and fingerprint; the rest stays. ERR_INVALID: see
 * *ret_fault. */
int payment_read(struct span body, struct ledger_op *ret_op, struct payment_fault *ret_fault);
/* The order's id is there. What makes two bodies the same payment: order and amount, however they
 * are written. */
void payment_set_amount(struct ledger_op *op, int64_t amount_cents);

#endif
