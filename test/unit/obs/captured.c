/* Keeps standard error in a file without a name, so that nothing written is lost or blocks. */
#define _GNU_SOURCE
#include "captured.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char text[4 << 20];
static int saved_fd;
static int file_fd;

static void must(int done)
{
    if (!done) {
        abort();
    }
}

void captured_begin(void)
{
    (void)fflush(stderr);
    file_fd = memfd_create("captured", 0);
    saved_fd = dup(STDERR_FILENO);
    must(file_fd >= 0 && saved_fd >= 0);
    /* Threads that write at once do not share an offset this way; that is the file's business, as
     * it is with a log file or a pipe. */
    must(fcntl(file_fd, F_SETFL, O_APPEND) == 0);
    must(dup2(file_fd, STDERR_FILENO) >= 0);
}

const char *captured_end(void)
{
    must(dup2(saved_fd, STDERR_FILENO) >= 0);
    (void)close(saved_fd);
    ssize_t n = pread(file_fd, text, sizeof(text) - 1, 0);
    must(n >= 0 && (size_t)n < sizeof(text) - 1);
    (void)close(file_fd);
    text[n] = '\0';
    return text;
}
