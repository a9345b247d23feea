/* See booker.h. */
#include "flow/booker.h"

#include <string.h>

#include "base/err.h"

/* Records looked at in one call: most are not decisions, and the office has other work too. */
#define LOOK_MAX 65536

int booker_init(struct booker *ret_booker, struct journal *journal, uint64_t booked_lsn)
{
    struct booker booker = {.journal = journal, .booked_lsn = booked_lsn};
    int error = booker_rewind(&booker);
    if (error != 0) {
        return error;
    }
    /* One look, so that a journal that begins after the cursor is refused before anything is sold. */
    uint64_t lsn = 0;
    int64_t batch_ms = 0;
    struct gate_command command;
    error = journal_reader_next(booker.reader, &lsn, &batch_ms, &command);
    if (error == 0 || error == ERR_AGAIN) {
        error = booker_rewind(&booker);
    }
    if (error != 0) {
        booker_done(&booker);
        return error;
    }
    *ret_booker = booker;
    return 0;
}

void booker_done(struct booker *booker)
{
    journal_reader_free(booker->reader);
    booker->reader = NULL;
}

int booker_take(struct booker *booker, struct ledger_op *ret_ops, size_t max, size_t *ret_count)
{
    size_t count = 0;
    *ret_count = 0;
    for (size_t looked = 0; looked < LOOK_MAX && count < max; looked++) {
        uint64_t lsn = 0;
        int64_t batch_ms = 0;
        struct gate_command command;
        int error = journal_reader_next(booker->reader, &lsn, &batch_ms, &command);
        if (error == ERR_AGAIN) {
            break;
        }
        if (error != 0) {
            return error;
        }
        booker->read_lsn = lsn;
        if (command.kind != GATE_RESERVE) {
            continue;
        }
        struct ledger_op *op = &ret_ops[count++];
        memset(op, 0, sizeof(*op));
        op->kind = LEDGER_BOOK;
        op->command = command;
        op->lsn = lsn;
    }
    *ret_count = count;
    return 0;
}

void booker_commit(struct booker *booker, uint64_t booked_lsn)
{
    if (booked_lsn > booker->booked_lsn) {
        booker->booked_lsn = booked_lsn;
    }
}

int booker_rewind(struct booker *booker)
{
    struct journal_reader *reader = NULL;
    int error = journal_reader_new(booker->journal, booker->booked_lsn, &reader);
    if (error != 0) {
        return error;
    }
    journal_reader_free(booker->reader);
    booker->reader = reader;
    booker->read_lsn = booker->booked_lsn;
    return 0;
}
