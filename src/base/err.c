/* Texts for the error list in err.h. */
#include "base/err.h"

const char *err_text(int code)
{
    switch (code) {
    case 0:
        return "no error";
#define X(name, value, text)                                                                       \
    case name:                                                                                     \
        return text;
        ERRORS(X)
#undef X
    default:
        return "unknown error";
    }
}
