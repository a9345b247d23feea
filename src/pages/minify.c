/* See minify.h. */
#define _GNU_SOURCE /* memmem */
#include "pages/minify.h"

#include <string.h>

/* The position after the line that contains `at`. */
static size_t line_end(struct span text, size_t at)
{
    const char *end = memchr(text.at + at, '\n', text.len - at);
    return end == NULL ? text.len : (size_t)(end - text.at) + 1;
}

static size_t first_of_line(struct span text, size_t at)
{
    while (at < text.len && (text.at[at] == ' ' || text.at[at] == '\t')) {
        at++;
    }
    return at;
}

/* The position after the comment that begins at `start`; 0: something follows it on its line. */
static size_t block_end(struct span text, size_t start)
{
    const char *close = memmem(text.at + start + 2, text.len - start - 2, "*/", 2);
    if (close == NULL) {
        return 0;
    }
    size_t behind = first_of_line(text, (size_t)(close - text.at) + 2);
    if (behind < text.len && text.at[behind] != '\n') {
        return 0;
    }
    return line_end(text, behind);
}

size_t minify_skip(struct span text, size_t at)
{
    size_t begin = at;
    if (at > 0 && text.at[at - 1] != '\n') {
        return 0;
    }
    while (at < text.len) {
        size_t start = first_of_line(text, at);
        size_t end = 0;
        if (text.len - start >= 2 && text.at[start] == '/') {
            end = text.at[start + 1] == '/'   ? line_end(text, start)
                  : text.at[start + 1] == '*' ? block_end(text, start)
                                              : 0;
        }
        if (end == 0) {
            return start - begin;
        }
        at = end;
    }
    return at - begin;
}
