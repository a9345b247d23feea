/*
 * A small blocking HTTP/1.1 client for commands that talk to a running server: one request per
 * connection, JSON in and out, with the operator's token.
 */
#ifndef SLUICE_CLI_CLIENT_H
#define SLUICE_CLI_CLIENT_H

#include <jansson.h>
#include <stddef.h>

#include "app/secrets.h"
#include "base/bytes.h"

#define CLIENT_URL_DEFAULT "http://127.0.0.1:8080"
#define CLIENT_DATA_DEFAULT "./var"

struct client {
    char host[256];
    char port[8];
    char token[ADMIN_TOKEN_MAX + 1];
    unsigned silence_s; /* read timeout; 0: a minute */
};

/*
 * Parses the server's URL (http://HOST[:PORT] and nothing more) and reads the operator's token.
 * ERR_INVALID, ERR_NOTFOUND or ERR_IO with one line in ret_error.
 */
int client_init(struct client *client, const char *url, const char *data_dir, char *ret_error,
                size_t error_cap);

/* The same without a token, for public paths. */
int client_at(struct client *client, const char *url, char *ret_error, size_t error_cap);

/*
 * One call. body: JSON, or empty. 0: the server answered 2xx; ret_json is its JSON, owned by the
 * caller (NULL: none). Otherwise one line in ret_error. ERR_INVALID: refused, with the problem's
 * code and detail. ERR_IO: not reached, or not an answer of this API.
 */
int client_call(const struct client *client, const char *method, const char *path, struct span body,
                json_t **ret_json, char *ret_error, size_t error_cap);

/* A public file as it was sent. */
struct client_file {
    int status;
    struct span body; /* inside memory */
    bool packed;      /* the body is gzip */
    char etag[64];
    char *memory; /* the caller frees it */
};
/* headers: additional header lines, such as "Accept-Encoding: gzip\r\n". ERR_IO with one line of
 * text. */
int client_fetch(const struct client *client, const char *path, const char *headers,
                 struct client_file *ret_file, char *ret_error, size_t error_cap);

#endif
