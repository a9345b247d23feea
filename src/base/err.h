/*
 * The one list of error codes. Functions that can fail return 0 or one of these (they are
 * negative); outputs named ret_* are written only on 0.
 */
#ifndef SLUICE_BASE_ERR_H
#define SLUICE_BASE_ERR_H

#define ERRORS(X)                                                                                  \
    X(ERR_NOMEM, -1, "out of memory")                                                              \
    X(ERR_IO, -2, "input/output error")                                                            \
    X(ERR_NOSPACE, -3, "no space left on the disk")                                                \
    X(ERR_CORRUPT, -4, "damaged data")                                                             \
    X(ERR_FULL, -5, "full: the configured bound is reached")                                       \
    X(ERR_INVALID, -6, "invalid argument or format")                                               \
    X(ERR_RANGE, -7, "number out of range")                                                        \
    X(ERR_BUSY, -8, "in use by another process")                                                   \
    X(ERR_CLOSED, -9, "closed")                                                                    \
    X(ERR_NOTFOUND, -10, "not found")                                                              \
    X(ERR_AGAIN, -11, "not now, try again")                                                        \
    X(ERR_EXISTS, -12, "exists already")                                                           \
    X(ERR_JOURNAL_FAILED, -13, "stopped after a failed write or sync; restart to recover")         \
    X(ERR_VERSION, -14, "made by another version of the format")                                   \
    X(ERR_AHEAD, -15, "journal and ledger are not of one piece")                                   \
    X(ERR_UNKNOWN, -16, "the outcome is not known")                                                \
    X(ERR_CLOCK, -17, "the wall clock is too far from the last known time")

enum err {
#define X(name, value, text) name = value,
    ERRORS(X)
#undef X
};

/* A short text for any code; never NULL. */
const char *err_text(int code);

#endif
