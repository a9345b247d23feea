/*
 * gzip for bodies that are sent often: they are compressed once, not for each answer. The same bytes
 * give the same result on every machine with the same version of zlib.
 *
 * What can go wrong: memory runs out, or the result would not be shorter than the bytes.
 */
#ifndef SLUICE_HTTP_GZIP_H
#define SLUICE_HTTP_GZIP_H

#include "base/bytes.h"

/* Compression levels. Files are compressed once at start, pages whenever they change, answers by the
 * loop that serves, up to once a second. */
enum { PACK_FILES = 9, PACK_PAGES = 6, PACK_ANSWERS = 1 };

/* The memory for compressing, about 256 KiB, to reuse for several bodies. For one thread. */
struct packer;
struct packer *packer_new(int level); /* NULL: no memory */
void packer_free(struct packer *packer);

/* *ret_packed is allocated; the caller frees it. at is NULL if the result would not be shorter.
 * ERR_NOMEM. */
int packer_gzip(struct packer *packer, struct span bytes, struct span *ret_packed);
/* The same with a packer of its own. */
int gzip_pack(struct span bytes, int level, struct span *ret_packed);

/* Whether an Accept-Encoding header (at is NULL: absent) prefers gzip: it names gzip or "*" with a
 * q above 0 that is not below that of identity. False for a malformed q. */
bool pack_wanted(struct span accept_encoding);

#endif
