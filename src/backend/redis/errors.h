/*
 * Interprets Redis's errors: whether the call ran, whether another server should be asked, and
 * which.
 */
#ifndef SLUICE_BACKEND_REDIS_ERRORS_H
#define SLUICE_BACKEND_REDIS_ERRORS_H

#include "base/bytes.h"

#define REDIS_REDIRECT_HOST_MAX 256

enum redis_outcome {
    REDIS_ANSWERED,
    REDIS_NOT_ASKED, /* nothing ran: the server is down or cannot serve now */
    REDIS_NOT_KNOWN, /* it may have run; the same call again tells */
    REDIS_STALE,     /* nothing decided: another epoch, another server, or an emptied one */
    REDIS_FENCED,    /* nothing decided: a higher token has been seen */
    REDIS_GAP,       /* nothing decided: the event before this one has not been applied */
    REDIS_BROKEN,    /* the segment contradicts itself, or a call stopped halfway */
};

struct redis_error {
    enum redis_outcome outcome;
    bool suspect; /* another server may be responsible */
    bool useless; /* every call on this connection will get this error */
};

bool error_begins(struct span text, const char *with);
struct redis_error error_read(struct span text);

/* The target of MOVED or ASK. */
struct redis_redirect {
    bool request;  /* ASK: for this call only; else the slot has moved */
    uint32_t slot; /* of MOVED */
    char host[REDIS_REDIRECT_HOST_MAX];
    uint16_t port;
};
/* own_host: the server that sent the error; it names no host if it means itself. False: another
 * error, or malformed. */
bool error_redirect(struct span text, const char *own_host, struct redis_redirect *ret_to);

#endif
