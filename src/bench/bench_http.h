/*
 * The load tool's HTTP/1.1 client side: reading answers (pure, no sockets), picking single fields
 * out of small JSON bodies, and one blocking call for what is not measured.
 *
 * The reader is independent of the server's own HTTP code on purpose: a framing mistake made on
 * both sides would cancel out and go unseen.
 */
#ifndef SLUICE_BENCH_BENCH_HTTP_H
#define SLUICE_BENCH_BENCH_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytes.h"

/* An answer that is larger is not from our server; the connection is given up. */
#define BENCH_ANSWER_MAX (64U << 20)

struct bench_answer {
    int status;
    struct span body; /* points into the bytes read */
    size_t size;      /* how many bytes this answer took */
    bool closes;      /* the server closes the connection after it */
};

/*
 * Looks for one whole answer at the start of the bytes; interim answers (1xx) are passed over.
 * ERR_AGAIN: not all there yet. ERR_INVALID: not HTTP/1.1. eof: the peer has closed, which ends a
 * body that has neither a length nor chunks. A chunked body is joined in place once it is whole.
 */
int bench_answer_read(char *bytes, size_t len, bool eof, struct bench_answer *ret_answer);

/* A string or integer member of the outermost object. ERR_NOTFOUND, or ERR_INVALID if not JSON. */
int bench_json_text(struct span json, const char *name, struct span *ret_text);
int bench_json_number(struct span json, const char *name, int64_t *ret_number);

/* Where the server is; filled from --url. */
struct bench_target {
    char host[256]; /* as written in the Host header, port included */
    struct sockaddr_storage address;
    socklen_t address_len;
};

/* "http://host:port", nothing behind it. ERR_INVALID, or ERR_NOTFOUND if the name has no address.
 */
int bench_target_parse(const char *url, struct bench_target *ret_target);

/*
 * One request on a connection of its own; waits for the answer. The body is NUL-terminated and the
 * caller frees it. bearer may be NULL. ERR_IO where the server cannot be reached or does not answer
 * within a minute.
 */
int bench_call(const struct bench_target *target, const char *path, const char *bearer,
               int *ret_status, char **ret_body, size_t *ret_body_len);

#endif
