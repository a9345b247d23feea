/*
 * Scripts and styles are served without indentation and without lines that are only comments. They
 * make up a third of the bytes.
 */
#ifndef SLUICE_PAGES_MINIFY_H
#define SLUICE_PAGES_MINIFY_H

#include <stddef.h>

#include "base/bytes.h"

/*
 * How many bytes at `at` can be skipped: at the start of a line, the following lines that are only
 * comments, and the indentation of the next line; 0 elsewhere. A comment line begins (after blanks)
 * with "//", or with a "/" "*" whose end is the last thing on its line. No string in our sources,
 * or in npm packages, spans a line end.
 */
size_t minify_skip(struct span text, size_t at);

#endif
