/*
 * From bytes to one request, strictly. The caller holds the bytes of a request from its first one,
 * contiguous, and calls http_parser_step whenever there are more of them.
 *
 * Happy path: the head (request line and header lines) is scanned until its empty line is there,
 * then it is read as a whole, llhttp judging what frames the request, and spans into it are handed
 * out. A body is waited for by its length; a chunked one is decoded in place, so that it is
 * contiguous behind the head. The state kept between two steps is struct http_progress and holds no
 * pointer: the bytes may move in between.
 *
 * Two readers must agree before a request is believed: the scan, which knows only lines (CR LF and
 * nothing else ends one, and there are no other control characters), and llhttp, which must end the
 * head at exactly the byte where the scan did.
 *
 * Any refusal is final for the connection: where the next request begins is no longer known.
 */
#ifndef SLUICE_HTTP_PARSER_H
#define SLUICE_HTTP_PARSER_H

#include "http/server.h"

/* More header lines are refused with 431, before the bytes are. */
#define HTTP_HEADER_LINES_MAX 100U
/* Empty lines some clients send before a request line. */
#define HTTP_BLANK_LINES_MAX 4U
/* A chunk's size with its extensions, and all trailers together. Both fit what HTTP_LARGE_BUFFER
 * has beyond head and body. */
#define HTTP_CHUNK_LINE_MAX 256U
#define HTTP_TRAILERS_MAX 2048U

enum http_phase { HTTP_PHASE_HEAD, HTTP_PHASE_BODY, HTTP_PHASE_CHUNKS, HTTP_PHASE_TRAILERS };
enum http_chunk { HTTP_CHUNK_SIZE, HTTP_CHUNK_DATA, HTTP_CHUNK_END };

/* How far a request has been read. All zero before its first byte. */
struct http_progress {
    uint32_t scanned;    /* bytes of the head, or of the trailers, that were looked at */
    uint32_t line;       /* where the line being scanned begins */
    uint32_t lines;      /* lines scanned */
    uint32_t head_len;   /* with its empty line; known from HTTP_PHASE_BODY and _CHUNKS on */
    uint32_t body_len;   /* the whole body's length, or the bytes decoded so far */
    uint32_t chunk_left; /* of the chunk being read */
    uint32_t overhead;   /* bytes that were chunk framing */
    uint8_t phase;       /* enum http_phase */
    uint8_t chunk;       /* enum http_chunk */
    uint8_t blanks;      /* empty lines skipped */
    bool wants_continue; /* the peer waits for "100 Continue"; whoever sends it clears this */
};

struct http_parsed {
    struct http_request request;
    enum refusal refusal; /* HTTP_STEP_REFUSED only */
    size_t consumed;      /* bytes of this request; the next one begins behind them */
    bool keep_alive;
    bool version_10;
};

enum http_step {
    HTTP_STEP_MORE,    /* call again with more bytes */
    HTTP_STEP_BLANK,   /* an empty line before the request: drop ret->consumed bytes, call again */
    HTTP_STEP_DONE,    /* ret holds a request */
    HTTP_STEP_REFUSED, /* ret->refusal; ret->request.method is right where it was understood */
};

/* bytes[0..*len) begin with the request. Decoding chunks closes gaps: *len may shrink. */
enum http_step http_parser_step(struct http_progress *progress, char *bytes, size_t *len,
                                struct http_parsed *ret_parsed);

/* Bytes that the request is known to take in memory (at least). */
static inline size_t http_progress_need(const struct http_progress *p)
{
    return (size_t)p->head_len + p->body_len + p->chunk_left;
}

#endif
