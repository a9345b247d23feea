/*
 * The layers of admission, in the order in which a request meets them. This is the one table: order,
 * name in metrics, the file that decides, and what buyers see.
 *
 * The counts of a layer add up: what it passed and what it refused is what reached it.
 */
#ifndef SLUICE_ADMISSION_LAYERS_H
#define SLUICE_ADMISSION_LAYERS_H

/* X(NAME, name in sluice_admission_total, what is refused) */
#define ADMISSION_LAYERS(X) X(LAYER_LIMIT, "limit", "429 rate_limited: a rule of the configuration")

enum admission_layer {
#define X(name, text, refused) name,
    ADMISSION_LAYERS(X)
#undef X
        LAYER_COUNT
};
/* NULL: there is no such layer. */
const char *admission_layer_text(unsigned layer);

#endif
