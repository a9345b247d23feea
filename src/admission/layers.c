/* See layers.h. */
#include "admission/layers.h"

#include <stddef.h>

const char *admission_layer_text(unsigned layer)
{
    static const char *const texts[] = {
#define X(name, text, refused) text,
        ADMISSION_LAYERS(X)
#undef X
    };
    return layer < LAYER_COUNT ? texts[layer] : NULL;
}
