/*
 * What Redis's errors say of the call they answer: whether anything ran, whether another server is
 * the one to ask, and where that one is.
 */
#ifndef SLUICE_BACKEND_REDIS_ERRORS_H
#define SLUICE_BACKEND_REDIS_ERRORS_H

#include "base/bytes.h"

#define REDIS_REDIRECT_HOST_MAX 256

enum redis_outcome {
    REDIS_ANSWERED,
    REDIS_NOT_ASKED, /* nothing ran: the server is away or cannot serve now */
    REDIS_NOT_KNOWN, /* it may have run: asking again tells */
    REDIS_STALE,     /* nothing decided: another epoch, another server, or an emptied one */
    REDIS_FENCED,    /* nothing decided: somebody holds a higher token */
    REDIS_GAP,       /* nothing decided: the event before this one has not been applied */
    REDIS_BROKEN,    /* the segment contradicts itself, or a call of it stopped halfway */
};

struct redis_error {
    enum redis_outcome outcome;
    bool suspect; /* somebody else may be the one to ask */
    bool useless; /* whatever is asked over this connection will be answered so */
};

bool error_begins(struct span text, const char *with);
struct redis_error error_read(struct span text);

/* Where MOVED and ASK send a call. */
struct redis_redirect {
    bool request;  /* this call only; else the slot has moved for good */
    uint32_t slot; /* of MOVED */
    char host[REDIS_REDIRECT_HOST_MAX];
    uint16_t port;
};
/* own_host: of the server that said it; it may mean itself by naming none. False: another error, or
 * malformed. */
bool error_redirect(struct span text, const char *own_host, struct redis_redirect *ret_to);

#endif
