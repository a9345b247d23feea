/* See scripts.h. Comments are dropped on the way: Redis keeps the text of every script. */
#include "backend/redis/scripts.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "port/gate.h"
#include "port/segments.h"

/* Written by the build, as three words of eight bytes a row (cmake/SluiceTargets.cmake). */
struct lua_file {
    const char *path;
    const char *data;
    size_t len;
};
extern const struct lua_file lua_files[];
extern const size_t lua_files_count;

#define NAME(name) {#name, (uint64_t)(name)},
static const struct {
    const char *name;
    uint64_t value;
} names[] = {NAME(VERDICT_DONE) NAME(VERDICT_ALREADY_APPLIED) NAME(VERDICT_MORE)
                 NAME(VERDICT_REFUSED)
#define X(name, ...) NAME(name)
                     REFUSALS(X) ORDER_STATES(X) SALE_STATES(X) GATE_COMMANDS(X)
#undef X
                         NAME(GATE_REQUEST_BUY) NAME(GATE_REQUEST_TICKET) NAME(GATE_REQUEST_ORDER)
                             NAME(GATE_REQUEST_ITEM) NAME(STOCK_MAX) NAME(BUYER_FAILED_ATTEMPTS_MAX)
                                 NAME(UINT32_MAX) NAME(REDIS_BUCKETS) NAME(SEGMENT_CLOCK_OFF_MS)};

static bool is_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* A name of ours: upper case with an underscore in it. KEYS, ARGV and Lua's own have none. */
static bool is_ours(struct span word)
{
    bool underscore = false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] >= 'a' && word.at[i] <= 'z') {
            return false;
        }
        underscore |= word.at[i] == '_' && word.len > 1;
    }
    return underscore;
}

static int resolve_word(struct span word, struct out *text)
{
    if (!is_ours(word)) {
        out_put(text, word);
        return 0;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (span_is(word, names[i].name)) {
            out_u64(text, names[i].value);
            return 0;
        }
    }
    return ERR_INVALID;
}

int scripts_resolve(struct span text, struct out *ret_text)
{
    size_t i = 0;
    while (i < text.len) {
        const char *at = text.at + i;
        size_t left = text.len - i;
        size_t n = 1;
        if (left >= 2 && at[0] == '-' && at[1] == '-') {
            while (n < left && at[n] != '\n') {
                n++;
            }
        } else if (at[0] == '\'') {
            while (n < left && at[n] != '\'') {
                n++;
            }
            n += n < left;
            out_bytes(ret_text, at, n);
        } else if (is_name(at[0])) {
            while (n < left && is_name(at[n])) {
                n++;
            }
            int error = resolve_word((struct span){at, n}, ret_text);
            if (error != 0) {
                return error;
            }
        } else {
            out_char(ret_text, at[0]);
        }
        i += n;
    }
    return ret_text->overflow ? ERR_FULL : 0;
}

static struct span file_text(const char *path)
{
    size_t i = 0;
    while (i < lua_files_count && strcmp(lua_files[i].path, path) != 0) {
        i++;
    }
    CHECK(i < lua_files_count);
    return (struct span){lua_files[i].data, lua_files[i].len};
}

/* The first line names the language: it stays the first. */
static int prepare(const char *path, const char *head_path, struct span *ret_text)
{
    struct span file = file_text(path);
    struct span head = head_path != NULL ? file_text(head_path) : (struct span){"", 0};
    const char *end = memchr(file.at, '\n', file.len);
    CHECK(end != NULL);
    size_t first = (size_t)(end - file.at) + 1;
    size_t cap = (file.len + head.len) * 2;
    char *memory = malloc(cap);
    if (memory == NULL) {
        return ERR_NOMEM;
    }
    struct out text = out_over(memory, cap);
    out_bytes(&text, file.at, first);
    CHECK(scripts_resolve(head, &text) == 0);
    CHECK(scripts_resolve((struct span){file.at + first, file.len - first}, &text) == 0);
    *ret_text = out_span(&text);
    return 0;
}

int scripts_new(struct redis_scripts **ret_scripts)
{
    static const char *const files[][2] = {
#define X(name, file, head) {file, head},
        REDIS_SCRIPTS(X)
#undef X
    };
    struct redis_scripts *scripts = calloc(1, sizeof(*scripts));
    if (scripts == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < SCRIPT_COUNT; i++) {
        if (prepare(files[i][0], files[i][1], &scripts->texts[i]) != 0) {
            scripts_free(scripts);
            return ERR_NOMEM;
        }
    }
    *ret_scripts = scripts;
    return 0;
}

void scripts_free(struct redis_scripts *scripts)
{
    if (scripts == NULL) {
        return;
    }
    for (size_t i = 0; i < SCRIPT_COUNT; i++) {
        free((char *)scripts->texts[i].at);
    }
    free(scripts);
}
