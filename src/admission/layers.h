/*
 * The layers of admission. This is the one table: order, name in metrics, and what buyers see.
 *
 * The counts of a layer add up: what it passed and what it refused is what reached it.
 *
 * The order is that of the contract. One layer does not decide where it stands: an order that exists is
 * answered whatever a block says, and only the gate knows whether it exists. So blocks are asked last: of
 * a ticket behind the rate limits, of a buy behind rate limits, ticket and body, by the gate
 * (gate_request.if_new). A flood of blocked requests is then also subject to the limits.
 */
#ifndef SLUICE_ADMISSION_LAYERS_H
#define SLUICE_ADMISSION_LAYERS_H

/* X(NAME, name in sluice_admission_total, what is refused) */
#define ADMISSION_LAYERS(X)                                                                        \
    X(LAYER_BLOCK, "block", "403 blocked: the user, address or device is on the operator's list")  \
    X(LAYER_LIMIT, "limit", "429 rate_limited: a rule of the configuration")

enum admission_layer {
#define X(name, text, refused) name,
    ADMISSION_LAYERS(X)
#undef X
        LAYER_COUNT
};
/* NULL: there is no such layer. */
const char *admission_layer_text(unsigned layer);

#endif
