/* See difference.h. */
#include "ledger/difference.h"

#include "base/check.h"

const char *difference_text(enum difference_kind kind)
{
    static const char *const texts[] = {
#define X(name, text) text,
        DIFFERENCES(X)
#undef X
    };
    CHECK((unsigned)kind < DIFFERENCE_KIND_COUNT);
    return texts[kind];
}
