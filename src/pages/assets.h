/* The files of web/, as they were when this binary was built: a table that the build generates
 * (cmake/SluiceTargets.cmake), sorted by path. The bytes live in the binary's read-only data for
 * as long as the process does; nobody frees or changes them, and any thread may read them. */
#ifndef SLUICE_PAGES_ASSETS_H
#define SLUICE_PAGES_ASSETS_H

#include <stddef.h>

struct web_asset {
    const char *path;          /* relative to web/, such as "index.html" */
    const unsigned char *data; /* len bytes, with a NUL behind them that len does not count */
    size_t len;
};

/* The table is written in assembly, as three words of eight bytes a row. */
_Static_assert(sizeof(struct web_asset) == 24, "the build writes rows of 24 bytes");

extern const struct web_asset web_assets[];
extern const size_t web_assets_count;

#endif
