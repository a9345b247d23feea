/* See clock_file.h. */
#include "app/clock_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH_BYTES 1024
/* Digits of a time in ms until the year 5138, and the end of the line. */
#define LINE_BYTES 16

int64_t clock_file_read(const char *data_dir)
{
    char path[PATH_BYTES];
    char line[LINE_BYTES + 1] = {0};
    char *end = NULL;
    (void)snprintf(path, sizeof(path), "%s/clock", data_dir);
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        return 0;
    }
    size_t n = fread(line, 1, LINE_BYTES, stream);
    (void)fclose(stream);
    int64_t ms = n > 0 ? strtoll(line, &end, 10) : 0;
    return ms > 0 && *end == '\n' && end[1] == '\0' ? ms : 0;
}

bool clock_file_write(const char *data_dir, int64_t now_ms)
{
    char path[PATH_BYTES];
    char next[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/clock", data_dir);
    (void)snprintf(next, sizeof(next), "%s/clock.new", data_dir);
    FILE *stream = fopen(next, "we");
    if (stream == NULL) {
        return false;
    }
    bool written = fprintf(stream, "%" PRId64 "\n", now_ms) > 0;
    return fclose(stream) == 0 && written && rename(next, path) == 0;
}
