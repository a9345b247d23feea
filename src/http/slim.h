/*
 * Scripts and styles are served without the lines that are only comments: they are for whoever reads the
 * source, and a third of what a buyer's phone would load.
 */
#ifndef SLUICE_HTTP_SLIM_H
#define SLUICE_HTTP_SLIM_H

#include <stddef.h>

#include "base/bytes.h"

/*
 * How many bytes at `at` are lines of comment: from a line's first byte to behind its end. 0 elsewhere.
 * A line counts only where nothing else is on it: it begins, but for blanks, with "//", or with a
 * "/" "*" whose end is the last of its line. So our sources never begin a line inside a template
 * string with either.
 */
size_t slim_skip(struct span text, size_t at);

#endif
