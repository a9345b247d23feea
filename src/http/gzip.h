/*
 * gzip, made beforehand: what is sent often is packed once. The same bytes are packed to the same
 * bytes, on every machine with the same library.
 */
#ifndef SLUICE_HTTP_GZIP_H
#define SLUICE_HTTP_GZIP_H

#include "base/bytes.h"

/* Files of the program are packed once a start, pages at each change of what they show. */
enum { PACK_FILES = 9, PACK_PAGES = 6 };

/* The memory that packing takes, a quarter of a MiB, for those who pack often. One thread's. */
struct packer;
struct packer *packer_new(int level); /* NULL: no memory */
void packer_free(struct packer *packer);

/* *ret_packed is malloc'ed, the caller's; at is NULL where packing would save nothing.
 * ERR_NOMEM. */
int packer_gzip(struct packer *packer, struct span bytes, struct span *ret_packed);
/* The same, once. */
int gzip_pack(struct span bytes, int level, struct span *ret_packed);

/* Whether an Accept-Encoding header (at NULL: absent) wants gzip: named, or covered by "*", with a
 * q above 0 and not below that of identity, where that is named. What is not understood wants
 * none. */
bool pack_wanted(struct span accept_encoding);

#endif
