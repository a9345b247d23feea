/*
 * Templates: text with {{keys}}, which are replaced by escaped text, and
 * {{#sections}}...{{/sections}}, which are repeated for each entry. Nothing else.
 *
 * A scope lists the keys and sections. Inside a section only its own scope applies; keys of the
 * outer one are not visible. A template is parsed once, and an unknown name is an error then. So
 * rendering can only fail for lack of room.
 *
 * Pure: no I/O, no clock. Any thread may render a parsed template.
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

/* The source of values. key and section are indexes into the scope's lists. */
struct template_source {
    void *context;
    /* Writes the value, unescaped. At most TEMPLATE_VALUE_MAX bytes, unless the key is raw. */
    void (*put)(void *context, const struct template_scope *scope, uint32_t key, struct out *out);
    /* Goes to repetition number `turn`, from 0; false: none. Called for 0, 1 ... */
    bool (*turn)(void *context, const struct template_scope *scope, uint32_t section,
                 uint32_t turn);
};
#define TEMPLATE_VALUE_MAX 1024

struct template;
/* The text must live as long as the template. ERR_INVALID with "LINE: what" in ret_problem, or
 * ERR_NOMEM. */
int template_read(struct span text, const struct template_scope *scope,
                  struct template **ret_template, char *ret_problem, size_t problem_cap);
void template_free(struct template *template);
void template_render(const struct template *template, const struct template_source *source,
                     struct out *out);

/* Escapes text for quoted attributes and between tags. */
void out_html(struct out *out, struct span text);
/* JSON for a <script> element: nothing in it can end the element or a line of script. */
void out_script_json(struct out *out, struct span json);

#endif
