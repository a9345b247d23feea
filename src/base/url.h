/*
 * The parts of a server's URL, scheme://user:password@host:port/..., as every backend reads them:
 * cut at marks, %XX decoded, hosts with ports, a password in a file instead. What is wrong is told
 * as a text that never shows a password.
 */
#ifndef SLUICE_BASE_URL_H
#define SLUICE_BASE_URL_H

#include "base/bytes.h"

/* The bytes before the mark (the first, or the last one), which is taken away, too; false: there is
 * none. */
bool url_cut(struct span *rest, char mark, bool last, struct span *ret_part);
/* %XX becomes a byte; no zeros. False: malformed, or longer than there is room. */
bool url_decode(struct span text, char *ret_text, size_t capacity);

/* These give NULL, or what is wrong. An IPv6 host stands in brackets. port_default 0: the port has
 * to be there. */
const char *url_host(struct span text, uint16_t port_default, char *ret_host, size_t capacity,
                     uint16_t *ret_port);
/* user[:password]; without one the password is empty. */
const char *url_login(struct span text, char *ret_user, size_t user_capacity, char *ret_password,
                      size_t password_capacity);

/* The first line of a file. whose, what: "the ledger's", "token", for the error. ERR_IO, ERR_INVALID.
 */
int url_secret_file(const char *path, const char *whose, const char *what, char *ret_secret,
                    size_t capacity, char *ret_error, size_t error_capacity);
int url_password_file(const char *path, const char *whose, char *ret_password, size_t capacity,
                      char *ret_error, size_t error_capacity);

#endif
