/*
 * Parser of one request. llhttp reads the head and the chunk framing once, byte by byte, and keeps
 * its state between two steps. Its callbacks add the refusals that llhttp's strict mode lacks.
 *
 * Happy path: the caller holds the bytes of a request, contiguous from its first byte, and calls
 * http_parser_step() whenever it has read more. llhttp pauses at the end of the head. A body with a
 * length is then only waited for. A chunked body is decoded in place, so that it follows the head
 * without gaps. The last step returns spans into the bytes.
 *
 * The state between two steps is struct http_progress. It holds offsets and no pointers into the
 * bytes, so the caller may move both.
 *
 * What can go wrong: the request is malformed or exceeds a limit. A refusal is final for the
 * connection, because it is not known where the next request begins. The refusal depends on the
 * bytes alone, not on the pieces in which they arrived.
 *
 * Threads: any; a struct http_progress is used by one at a time.
 */
#ifndef SLUICE_HTTP_PARSER_H
#define SLUICE_HTTP_PARSER_H

#include "http/server.h"

/* Header lines of a request: 431 above. */
#define HTTP_HEADER_LINES_MAX 100U
/* Empty lines before a request line, which some clients send: 400 above. */
#define HTTP_BLANK_LINES_MAX 4U
/* A chunk's size line without its CR LF: 400 above. All trailers together: 431 above. */
#define HTTP_CHUNK_LINE_MAX 256U
#define HTTP_TRAILERS_MAX 2048U

/* Bytes of llhttp_t. Only parser.c includes llhttp's header, whose names collide with ours. */
#define HTTP_LLHTTP_BYTES 96U

enum http_phase { HTTP_PHASE_HEAD, HTTP_PHASE_BODY, HTTP_PHASE_CHUNKS, HTTP_PHASE_TRAILERS };

/* Bytes of the head, by their offset from the request's first byte. at is 0: absent. */
struct http_range {
    uint16_t at;
    uint16_t len;
};

/* State of a request between two steps. All zero before its first byte. */
struct http_progress {
    _Alignas(8) char llhttp[HTTP_LLHTTP_BYTES];
    uint32_t consumed; /* bytes that llhttp has read; with a body of known length, the head only */
    uint32_t head_len; /* with the empty line; 0 before HTTP_PHASE_BODY or _CHUNKS */
    uint32_t body_len; /* length of the whole body, or bytes decoded so far */
    uint32_t chunk_left; /* bytes that the current chunk lacks */
    uint32_t overhead;   /* bytes of chunk framing so far */
    uint32_t line; /* start of the chunk framing that llhttp is reading; start of the trailers */
    uint32_t name; /* start of the current header's name */
    uint32_t name_end;  /* end of the name */
    uint32_t value;     /* start of the current header's value; its colon before there is one */
    uint32_t value_end; /* end of the value, or of the request line */
    struct http_range target;
    struct http_range path; /* empty: "/" */
    struct http_range query;
    struct http_range content_length;
    struct http_range transfer_encoding;
#define X(field, name) struct http_range field;
    HTTP_HEADERS(X)
#undef X
    uint8_t phase;        /* enum http_phase */
    uint8_t method;       /* enum http_method */
    uint8_t header_lines; /* so far */
    uint8_t blank_lines;  /* skipped before the request */
    bool started;         /* llhttp is initialized */
    bool version_10;
    bool keep_alive;
    bool admitted;       /* the application has let its body have a large buffer */
    bool wants_continue; /* the client waits for "100 Continue"; the sender of it clears this */
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
    HTTP_STEP_REFUSED, /* ret->refusal; nothing else of ret is set */
};

/* bytes[0..*len) begin with the request. Decoding chunks closes gaps: *len may shrink. */
enum http_step http_parser_step(struct http_progress *progress, char *bytes, size_t *len,
                                struct http_parsed *ret_parsed);

/* The request without its body, once its head is complete: progress->head_len is not 0. */
void http_parser_head(const struct http_progress *progress, const char *bytes,
                      struct http_parsed *ret_parsed);

/* Bytes that the request takes in memory, as far as known. */
static inline size_t http_progress_need(const struct http_progress *p)
{
    return (size_t)p->head_len + p->body_len + p->chunk_left;
}

#endif
