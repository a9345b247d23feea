/*
 * Templates: text with {{keys}}, which are replaced by escaped text, and
 * {{#sections}}...{{/sections}}, which repeat as often as there is something for them. Nothing
 * else.
 *
 * Which keys and sections there are is said by a scope; inside a section its own scope counts and
 * the outer one's keys are not seen. A template is read once, and whatever it does not know is an
 * error of that reading; so rendering cannot fail, except for room.
 *
 * Pure: no I/O, no clock. A template that was read may be rendered by any thread.
 */
#ifndef SLUICE_PAGES_TEMPLATE_H
#define SLUICE_PAGES_TEMPLATE_H

#include "base/bytes.h"

struct template_scope;
struct template_key {
    const char *name; /* NULL ends the list */
    bool raw;         /* written as it is: the source has made it safe */
};
struct template_section {
    const char *name; /* NULL ends the list */
    const struct template_scope *inside;
};
struct template_scope {
    const struct template_key *keys;
    const struct template_section *sections;
};

/* Where the values come from. key and section are indexes into the scope's lists. */
struct template_source {
    void *context;
    /* Writes the value, unescaped. Of a key that is not raw at most TEMPLATE_VALUE_MAX bytes. */
    void (*put)(void *context, const struct template_scope *scope, uint32_t key, struct out *out);
    /* Goes to the turn-th repetition, counted from 0; false: there is none. Called for 0, 1 ... */
    bool (*turn)(void *context, const struct template_scope *scope, uint32_t section,
                 uint32_t turn);
};
#define TEMPLATE_VALUE_MAX 1024

struct template;
/* The text is borrowed for as long as the template lives. ERR_INVALID with "LINE: what" in
 * ret_problem, or ERR_NOMEM. */
int template_read(struct span text, const struct template_scope *scope,
                  struct template **ret_template, char *ret_problem, size_t problem_cap);
void template_free(struct template *template);
void template_render(const struct template *template, const struct template_source *source,
                     struct out *out);

/* For attributes in quotes and for text between tags. */
void out_html(struct out *out, struct span text);
/* JSON for a <script> element: nothing in it ends the element or a line of script. */
void out_script_json(struct out *out, struct span json);

#endif
