/*
 * Ends the process on a broken invariant, with one line that says where. Uses only write(2) and
 * abort(3), so it works from any thread and with any lock held.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Noreturn void check_failed(const char *expression, const char *file, int line)
{
    char text[512];
    int n = snprintf(text, sizeof(text), "fatal check.failed file=%s line=%d expression=\"%s\"\n",
                     file, line, expression);
    if (n > 0) {
        size_t len = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
        ssize_t written = write(STDERR_FILENO, text, len);
        (void)written;
    }
    abort();
}
