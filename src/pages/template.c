/*
 * See template.h. A template is a list of nodes in text order; the node of a section has the index
 * of its end. Reading uses a stack of open sections; rendering walks the list.
 */
#define _GNU_SOURCE /* memmem */
#include "pages/template.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

#define DEPTH_MAX 8

enum node_kind { NODE_TEXT, NODE_KEY, NODE_SECTION };

struct node {
    enum node_kind kind;
    uint32_t index; /* of the key or section in scope */
    uint32_t end;   /* SECTION: the first node after it */
    const struct template_scope *scope;
    struct span text; /* TEXT */
};

struct template
{
    size_t count;
    size_t cap;
    struct node *nodes;
};

/* ---- escaping ---- */

void out_html(struct out *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.at[i]) {
        case '&':
            out_lit(out, "&amp;");
            break;
        case '<':
            out_lit(out, "&lt;");
            break;
        case '>':
            out_lit(out, "&gt;");
            break;
        case '"':
            out_lit(out, "&quot;");
            break;
        case '\'':
            out_lit(out, "&#39;");
            break;
        default:
            out_char(out, text.at[i]);
        }
    }
}

void out_script_json(struct out *out, struct span json)
{
    for (size_t i = 0; i < json.len; i++) {
        const char *at = json.at + i;
        if (*at == '<' || *at == '>' || *at == '&') {
            out_text(out, *at == '<' ? "\\u003c" : *at == '>' ? "\\u003e" : "\\u0026");
        } else if (json.len - i >= 3 &&
                   (memcmp(at, "\u2028", 3) == 0 || memcmp(at, "\u2029", 3) == 0)) {
            out_text(out, at[2] == '\xa8' ? "\\u2028" : "\\u2029");
            i += 2;
        } else {
            out_char(out, *at);
        }
    }
}

/* ---- reading ---- */

struct reading {
    struct span text;
    size_t at;
    struct template *template;
    const struct template_scope *scope;
    size_t open[DEPTH_MAX]; /* nodes of the open sections */
    size_t depth;
    char *problem;
    size_t problem_cap;
};

static int complain(const struct reading *reading, const char *what, struct span name)
{
    unsigned line = 1;
    for (size_t i = 0; i < reading->at; i++) {
        line += reading->text.at[i] == '\n';
    }
    (void)snprintf(reading->problem, reading->problem_cap, "%u: %s {{%.*s}}", line, what,
                   (int)(name.len < 80 ? name.len : 80), name.at);
    return ERR_INVALID;
}

static int add(struct reading *reading, struct node node)
{
    struct template *template = reading->template;
    if (template->count == template->cap) {
        size_t cap = template->cap == 0 ? 32 : template->cap * 2;
        struct node *nodes = realloc(template->nodes, cap * sizeof(*nodes));
        if (nodes == NULL) {
            return ERR_NOMEM;
        }
        template->nodes = nodes;
        template->cap = cap;
    }
    template->nodes[template->count++] = node;
    return 0;
}

static int begin_section(struct reading *reading, struct span name)
{
    const struct template_section *sections = reading->scope->sections;
    for (uint32_t i = 0; sections != NULL && sections[i].name != NULL; i++) {
        if (!span_is(name, sections[i].name)) {
            continue;
        }
        if (reading->depth == DEPTH_MAX) {
            return complain(reading, "too deep:", name);
        }
        reading->open[reading->depth++] = reading->template->count;
        struct node node = {.kind = NODE_SECTION, .index = i, .scope = reading->scope};
        reading->scope = sections[i].inside;
        return add(reading, node);
    }
    return complain(reading, "there is no section", name);
}

static int end_section(struct reading *reading, struct span name)
{
    if (reading->depth == 0) {
        return complain(reading, "no section is open at", name);
    }
    struct node *node = &reading->template->nodes[reading->open[--reading->depth]];
    if (!span_is(name, node->scope->sections[node->index].name)) {
        return complain(reading, "another section is open at", name);
    }
    node->end = (uint32_t)reading->template->count;
    reading->scope = node->scope;
    return 0;
}

static int add_key(struct reading *reading, struct span name)
{
    const struct template_key *keys = reading->scope->keys;
    for (uint32_t i = 0; keys != NULL && keys[i].name != NULL; i++) {
        if (span_is(name, keys[i].name)) {
            return add(reading,
                       (struct node){.kind = NODE_KEY, .index = i, .scope = reading->scope});
        }
    }
    return complain(reading, "there is no key", name);
}

static int read_all(struct reading *reading)
{
    int error = 0;
    while (error == 0 && reading->at < reading->text.len) {
        struct span rest = {reading->text.at + reading->at, reading->text.len - reading->at};
        const char *open = memmem(rest.at, rest.len, "{{", 2);
        size_t plain = open != NULL ? (size_t)(open - rest.at) : rest.len;
        if (plain > 0) {
            error = add(reading, (struct node){.kind = NODE_TEXT, .text = {rest.at, plain}});
            reading->at += plain;
            continue;
        }
        CHECK(open != NULL); /* otherwise the rest is plain text */
        const char *close = memmem(open, rest.len, "}}", 2);
        if (close == NULL) {
            return complain(reading, "no end of", (struct span){open + 2, rest.len - 2});
        }
        struct span name = {open + 2, (size_t)(close - open) - 2};
        char mark = '\0';
        if (name.len > 0) {
            mark = name.at[0];
        }
        struct span behind = {name.at + 1, name.len > 0 ? name.len - 1 : 0};
        error = mark == '#'   ? begin_section(reading, behind)
                : mark == '/' ? end_section(reading, behind)
                              : add_key(reading, name);
        reading->at += (size_t)(close + 2 - open);
    }
    if (error == 0 && reading->depth > 0) {
        const struct node *node = &reading->template->nodes[reading->open[reading->depth - 1]];
        return complain(reading, "no end of", span_of(node->scope->sections[node->index].name));
    }
    return error;
}

int template_read(struct span text, const struct template_scope *scope,
                  struct template **ret_template, char *ret_problem, size_t problem_cap)
{
    struct template *template = calloc(1, sizeof(*template));
    if (template == NULL) {
        return ERR_NOMEM;
    }
    struct reading reading = {.text = text,
                              .template = template,
                              .scope = scope,
                              .problem = ret_problem,
                              .problem_cap = problem_cap};
    int error = read_all(&reading);
    if (error != 0) {
        template_free(template);
        return error;
    }
    *ret_template = template;
    return 0;
}

void template_free(struct template *template)
{
    if (template != NULL) {
        free(template->nodes);
        free(template);
    }
}

/* ---- rendering ---- */

static void put_key(const struct node *node, const struct template_source *source, struct out *out)
{
    char memory[TEMPLATE_VALUE_MAX];
    if (node->scope->keys[node->index].raw) {
        source->put(source->context, node->scope, node->index, out);
        return;
    }
    struct out value = out_over(memory, sizeof(memory));
    source->put(source->context, node->scope, node->index, &value);
    CHECK(!value.overflow);
    out_html(out, out_span(&value));
}

static void render(const struct template *template, size_t from, size_t to,
                   const struct template_source *source, struct out *out)
{
    for (size_t i = from; i < to; i++) {
        const struct node *node = &template->nodes[i];
        switch (node->kind) {
        case NODE_TEXT:
            out_put(out, node->text);
            break;
        case NODE_KEY:
            put_key(node, source, out);
            break;
        case NODE_SECTION:
            for (uint32_t turn = 0;
                 !out->overflow && source->turn(source->context, node->scope, node->index, turn);
                 turn++) {
                render(template, i + 1, node->end, source, out);
            }
            i = node->end - 1;
            break;
        }
    }
}

void template_render(const struct template *template, const struct template_source *source,
                     struct out *out)
{
    render(template, 0, template->count, source, out);
}
