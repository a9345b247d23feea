/*
 * Scripts and styles are served without indentation and without the lines that are only comments:
 * they are for whoever reads the source, and a third of what a buyer's phone would load.
 */
#ifndef SLUICE_PAGES_MINIFY_H
#define SLUICE_PAGES_MINIFY_H

#include <stddef.h>

#include "base/bytes.h"

/*
 * How many bytes at `at` need not be sent: at a line's first byte, the lines from there that are
 * only comments, and the blanks before what follows; 0 elsewhere. A line is a comment where nothing
 * else is on it: it begins, but for blanks, with "//", or with a "/" "*" whose end is the last of
 * its line. So no string of our sources, nor of what npm brings, goes over a line's end.
 */
size_t minify_skip(struct span text, size_t at);

#endif
