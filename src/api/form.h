/*
 * Reads an operator's JSON body field by field. It is strict: unknown members, duplicate keys, wrong
 * types and numbers out of range are errors that name the field. After the first error everything else
 * is skipped, so callers check form.wrong once at the end.
 */
#ifndef SLUICE_API_FORM_H
#define SLUICE_API_FORM_H

#include <jansson.h>

#include "api/api.h"

struct form {
    bool wrong;
    char field[96];
    char why[192];
};

/* Parses the request's body as one JSON object without NUL bytes; NULL: the form has the error. The caller frees the
 * object with json_decref. */
json_t *form_body(struct form *form, struct span body);
/* An error unless every member of the object is among the names (NULL-terminated). */
void form_only(struct form *form, const char *path, json_t *object, const char *const *names);
/* Each returns true if the member is there and not null. It is an error if a required member is not.
 * path stands before the name in the error: "items[2].". */
bool form_number(struct form *form, const char *path, json_t *object, const char *name,
                 bool required, int64_t min, int64_t max, int64_t *ret_value);
/* UTF-8 without control characters (C0, DEL, C1), min to max bytes, NUL-terminated into ret_text[max + 1]. */
bool form_text(struct form *form, const char *path, json_t *object, const char *name, bool required,
               size_t min, size_t max, char *ret_text);
bool form_flag(struct form *form, const char *path, json_t *object, const char *name,
               bool *ret_value);
void form_error(struct form *form, const char *path, const char *name, const char *why);
/* Answers 400 with the error. */
enum http_outcome form_refuse(struct api_request *req, const struct form *form);

#endif
