/*
 * Parses the parts of a server's URL, scheme://user:password@host:port/..., for all backends:
 * splits at separators, decodes %XX, reads hosts with ports, and passwords from files. Error texts
 * never contain a password.
 */
#ifndef SLUICE_BASE_URL_H
#define SLUICE_BASE_URL_H

#include "base/bytes.h"

/* Cuts the bytes before the first (or last) mark off `rest`, with the mark. False: no mark. */
bool url_cut(struct span *rest, char mark, bool last, struct span *ret_part);
/* Decodes %XX; zero bytes are refused. False: malformed, or longer than capacity. */
bool url_decode(struct span text, char *ret_text, size_t capacity);

/* Both return NULL, or what is wrong. An IPv6 host is in brackets. port_default 0: the port is
 * required. */
const char *url_host(struct span text, uint16_t port_default, char *ret_host, size_t capacity,
                     uint16_t *ret_port);
/* user[:password]; without one the password is empty. */
const char *url_login(struct span text, char *ret_user, size_t user_capacity, char *ret_password,
                      size_t password_capacity);

/* Reads the first line of a file. whose, what: for the error, e.g. "the ledger's", "token". ERR_IO,
 * ERR_INVALID. */
int url_secret_file(const char *path, const char *whose, const char *what, char *ret_secret,
                    size_t capacity, char *ret_error, size_t error_capacity);
int url_password_file(const char *path, const char *whose, char *ret_password, size_t capacity,
                      char *ret_error, size_t error_capacity);

#endif
