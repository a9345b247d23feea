/*
 * gzip, made beforehand: what is sent often is packed once. The same bytes are packed to the same
 * bytes, on every machine with the same library.
 */
#ifndef SLUICE_HTTP_PACK_H
#define SLUICE_HTTP_PACK_H

#include "base/bytes.h"

/* Files of the program are packed once a start, pages at each change of what they show. */
enum { PACK_FILES = 9, PACK_PAGES = 6 };

/* *ret_packed is malloc'ed, the caller's; at is NULL where packing would save nothing. ERR_NOMEM. */
int pack_gzip(struct span bytes, int level, struct span *ret_packed);

/* Whether an Accept-Encoding header (at NULL: absent) wants gzip: named, or covered by "*", with a q
 * above 0 and not below that of identity, where that is named. What is not understood wants none. */
bool pack_wanted(struct span accept_encoding);

#endif
