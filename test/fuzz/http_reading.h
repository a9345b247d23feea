/*
 * A naive reading of a client's bytes, for the HTTP fuzzer: where the next request begins and ends,
 * and what it says, by the grammar and with nothing else in mind. It is only asked for requests
 * that the server has taken, so whatever it does not understand is a finding: it CHECKs.
 */
#ifndef SLUICE_TEST_HTTP_READING_H
#define SLUICE_TEST_HTTP_READING_H

#include "base/bytes.h"
#include "http/server.h"

struct http_reading {
    struct span stream; /* all the client sent */
    size_t at;          /* the next request begins here, or with empty lines before it */
};

/* Where the next request begins, empty lines skipped. */
size_t http_reading_start(const struct http_reading *reading);
/* The server says it got this request next: CHECKs that method, target, headers and body are those
 * of the next request in the stream, that its framing is beyond doubt, and goes on behind it. The
 * path of ret_path lies in the stream, or is "/" or "*". */
void http_reading_next(struct http_reading *reading, const struct http_request *request,
                       struct span *ret_path);

#endif
