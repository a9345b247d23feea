/* See payment.h. */
#include "ledger/payment.h"

#include <string.h>

#include "base/crypt.h"
#include "base/err.h"
#include "base/flat_json.h"

void payment_set_amount(struct ledger_op *op, int64_t amount_cents)
{
    uint8_t said[24];
    op->amount_cents = amount_cents;
    store_le64(said, op->id.hi);
    store_le64(said + 8, op->id.lo);
    store_le64(said + 16, (uint64_t)amount_cents);
    crypt_hash(said, sizeof(said), op->fingerprint, sizeof(op->fingerprint));
}

static bool printable(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < 0x21 || text.at[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

static int no_payment(struct payment_fault *ret_fault, const char *field, const char *detail)
{
    *ret_fault = (struct payment_fault){field, detail};
    return ERR_INVALID;
}

static void set_currency(struct ledger_op *op, const struct flat_value *currency)
{
    memset(op->currency, 0, sizeof(op->currency));
    if (currency->kind == FLAT_ABSENT) {
        return;
    }
    /* A text of another length is no order's currency; neither is "-". */
    bool fits = currency->text.len == sizeof(op->currency) - 1;
    struct span kept = fits ? currency->text : span_of("-");
    memcpy(op->currency, kept.at, kept.len);
}

int payment_read(struct span body, struct ledger_op *ret_op, struct payment_fault *ret_fault)
{
    enum { PAYMENT, ORDER, AMOUNT, CURRENCY, FIELDS };
    struct flat_field fields[FIELDS] = {[PAYMENT] = {.key = "payment_id"},
                                        [ORDER] = {.key = "order_id"},
                                        [AMOUNT] = {.key = "amount_cents"},
                                        [CURRENCY] = {.key = "currency"}};
    struct order_id id = {0, 0};
    struct span unknown;
    if (flat_json_read(body, fields, FIELDS, true, &unknown) != 0) {
        return no_payment(ret_fault, "body",
                          "the body must be one JSON object with payment_id, order_id, "
                          "amount_cents and, if wanted, currency, and nothing else");
    }
    const struct flat_value *payment = &fields[PAYMENT].value;
    if (payment->kind != FLAT_STRING || payment->escaped || payment->text.len == 0 ||
        payment->text.len > PAYMENT_ID_MAX_BYTES || !printable(payment->text)) {
        return no_payment(ret_fault, "payment_id",
                          "payment_id must be 1 to 64 printable ASCII characters");
    }
    const struct flat_value *amount = &fields[AMOUNT].value;
    if (amount->kind != FLAT_INTEGER || amount->number < 0) {
        return no_payment(ret_fault, "amount_cents",
                          "amount_cents must be a whole number, 0 or more");
    }
    const struct flat_value *order = &fields[ORDER].value;
    if (order->kind != FLAT_STRING) {
        return no_payment(ret_fault, "order_id", "order_id must be a string");
    }
    const struct flat_value *currency = &fields[CURRENCY].value;
    if (currency->kind != FLAT_ABSENT && (currency->kind != FLAT_STRING || currency->escaped)) {
        return no_payment(ret_fault, "currency", "currency must be a string like \"CNY\"");
    }
    (void)order_id_parse(order->text, &id);
    set_currency(ret_op, currency);
    ret_op->kind = LEDGER_PAY;
    ret_op->id = id;
    memset(ret_op->key, 0, sizeof(ret_op->key));
    memcpy(ret_op->key, payment->text.at, payment->text.len);
    payment_set_amount(ret_op, amount->number);
    return 0;
}
