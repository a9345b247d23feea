/*
 * The HTTP/1.1 client of the load tool: reading answers (pure, no sockets), single fields of small
 * JSON bodies, and one blocking call for what is not measured.
 *
 * It shares no code with the server's HTTP on purpose: the same framing mistake on both sides would
 * go unnoticed.
 */
#ifndef SLUICE_BENCH_BENCH_HTTP_H
#define SLUICE_BENCH_BENCH_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytes.h"

/* A larger answer is not from our server; the connection is closed. */
#define BENCH_ANSWER_MAX (64U << 20)

struct bench_answer {
    int status;
    struct span body; /* points into the bytes read */
    size_t size;      /* how many bytes this answer took */
    bool closes;      /* the server closes the connection after it */
};

/*
 * Finds one complete answer at the start of the bytes; interim answers (1xx) are skipped.
 * ERR_AGAIN: incomplete. ERR_INVALID: not HTTP/1.1. eof: the peer has closed, which ends a body
 * without length or chunks. A chunked body is joined in place once it is complete.
 */
int bench_answer_read(char *bytes, size_t len, bool eof, struct bench_answer *ret_answer);

/* A string or integer member of the outermost object. ERR_NOTFOUND, or ERR_INVALID if not JSON. */
int bench_json_text(struct span json, const char *name, struct span *ret_text);
int bench_json_number(struct span json, const char *name, int64_t *ret_number);

/* The server's address, from --url. */
struct bench_target {
    char host[256]; /* as written in the Host header, port included */
    struct sockaddr_storage address;
    socklen_t address_len;
};

/* "http://host:port" and nothing more. ERR_INVALID; ERR_NOTFOUND: the name has no address. */
int bench_target_parse(const char *url, struct bench_target *ret_target);

/*
 * One request on its own connection; waits for the answer. The body is NUL-terminated; the caller
 * frees it. bearer may be NULL. ERR_IO: not reached, or no answer within a minute.
 */
int bench_call(const struct bench_target *target, const char *path, const char *bearer,
               int *ret_status, char **ret_body, size_t *ret_body_len);

#endif
