/*
 * A strict reader for small flat JSON objects: {"qty":1}, a token's claims. No allocation, no
 * recursion. It refuses anything that is not exactly JSON, and also: a requested key given twice,
 * keys with escapes, trailing bytes, invalid UTF-8, control characters, deep nesting. Nested values
 * of other keys are skipped after a syntax check, up to FLAT_DEPTH_MAX deep.
 */
#ifndef SLUICE_BASE_FLAT_JSON_H
#define SLUICE_BASE_FLAT_JSON_H

#include "base/bytes.h"

#define FLAT_DEPTH_MAX 16

enum flat_kind {
    FLAT_ABSENT,
    FLAT_NULL,
    FLAT_BOOL,
    FLAT_INTEGER, /* no fraction, no exponent, fits int64 */
    FLAT_NUMBER,  /* any other number */
    FLAT_STRING,  /* raw span between the quotes; `escaped` if it has backslashes */
    FLAT_NESTED,  /* an object or array as a whole; its contents are only checked */
};

struct flat_value {
    enum flat_kind kind;
    bool truth;     /* BOOL */
    bool escaped;   /* STRING */
    int64_t number; /* INTEGER */
    struct span text;
};

struct flat_field {
    const char *key;
    struct flat_value value; /* out; FLAT_ABSENT if the object has no such key */
};

/* 0 or ERR_INVALID. strict: a key that is not among the fields is ERR_NOTFOUND, its name in
 * *ret_unknown (which may be NULL if not strict). */
int flat_json_read(struct span text, struct flat_field *fields, size_t count, bool strict,
                   struct span *ret_unknown);

#endif
