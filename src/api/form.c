/* See form.h. */
#include "api/form.h"

#include <stdio.h>
#include <string.h>

/* A text that was cut to fit must not end inside a character. */
static void trim_to_utf8(char *text)
{
    size_t len = strlen(text);
    while (!span_is_utf8((struct span){text, len})) {
        text[--len] = '\0';
    }
}

void form_error(struct form *form, const char *path, const char *name, const char *why)
{
    if (form->wrong) {
        return;
    }
    form->wrong = true;
    (void)snprintf(form->field, sizeof(form->field), "%s%s", path, name);
    (void)snprintf(form->why, sizeof(form->why), "%s%s %s", path, name, why);
    trim_to_utf8(form->field);
    trim_to_utf8(form->why);
}

json_t *form_body(struct form *form, struct span body)
{
    json_error_t error;
    /* The library drops a NUL byte behind a number. */
    if (body.len > 0 && memchr(body.at, '\0', body.len) != NULL) {
        form_error(form, "", "body", "must be one JSON object: it has a NUL byte");
        return NULL;
    }
    json_t *root =
        json_loadb(body.at != NULL ? body.at : "", body.len, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL || !json_is_object(root)) {
        char why[192];
        (void)snprintf(why, sizeof(why), "must be one JSON object: %s",
                       root == NULL ? error.text : "it is something else");
        json_decref(root);
        form_error(form, "", "body", why);
        return NULL;
    }
    return root;
}

void form_only(struct form *form, const char *path, json_t *object, const char *const *names)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *const *name = names;
        while (*name != NULL && strcmp(*name, key) != 0) {
            name++;
        }
        if (*name == NULL) {
            form_error(form, path, key, "is not a member of this request");
        }
    }
}

/* The member, if it is there and not null. */
static json_t *member(struct form *form, const char *path, json_t *object, const char *name,
                      bool required)
{
    json_t *value = json_object_get(object, name);
    if (value == NULL || json_is_null(value)) {
        if (required) {
            form_error(form, path, name, "is required");
        }
        return NULL;
    }
    return form->wrong ? NULL : value;
}

bool form_number(struct form *form, const char *path, json_t *object, const char *name,
                 bool required, int64_t min, int64_t max, int64_t *ret_value)
{
    json_t *value = member(form, path, object, name, required);
    if (value == NULL) {
        return false;
    }
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max) {
        char why[96];
        (void)snprintf(why, sizeof(why), "must be a whole number from %lld to %lld", (long long)min,
                       (long long)max);
        form_error(form, path, name, why);
        return false;
    }
    *ret_value = json_integer_value(value);
    return true;
}

/* C0, DEL, and C1: U+0080 to U+009F, which some terminals and consoles obey like escapes. */
static bool has_controls(struct span utf8)
{
    for (size_t i = 0; i < utf8.len; i++) {
        unsigned char c = (unsigned char)utf8.at[i];
        unsigned char next = i + 1 < utf8.len ? (unsigned char)utf8.at[i + 1] : 0;
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next <= 0x9f)) {
            return true;
        }
    }
    return false;
}

bool form_text(struct form *form, const char *path, json_t *object, const char *name, bool required,
               size_t min, size_t max, char *ret_text)
{
    json_t *value = member(form, path, object, name, required);
    if (value == NULL) {
        return false;
    }
    size_t len = json_is_string(value) ? json_string_length(value) : 0;
    bool good = json_is_string(value) && len >= min && len <= max;
    if (!good || has_controls((struct span){json_string_value(value), len})) {
        char why[96];
        (void)snprintf(why, sizeof(why),
                       "must be a text of %zu to %zu bytes without control characters", min, max);
        form_error(form, path, name, why);
        return false;
    }
    memcpy(ret_text, json_string_value(value), len);
    ret_text[len] = '\0';
    return true;
}

bool form_flag(struct form *form, const char *path, json_t *object, const char *name,
               bool *ret_value)
{
    json_t *value = member(form, path, object, name, false);
    if (value == NULL) {
        return false;
    }
    if (!json_is_boolean(value)) {
        form_error(form, path, name, "must be true or false");
        return false;
    }
    *ret_value = json_is_true(value);
    return true;
}

enum http_outcome form_refuse(struct api_request *req, const struct form *form)
{
    return api_refuse_field(req->worker, req->exchange, form->field, form->why);
}
