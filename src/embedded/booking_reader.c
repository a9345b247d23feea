/* See booking_reader.h. */
#include "embedded/booking_reader.h"

#include <string.h>

#include "base/err.h"

/* Records read in one call. Most are no decisions, and the ledger writer has other work. */
#define LOOK_MAX 65536

int booking_reader_init(struct booking_reader *ret_reader, struct journal *journal,
                        uint64_t booked_lsn)
{
    struct booking_reader reader = {.journal = journal, .booked_lsn = booked_lsn};
    int error = booking_reader_rewind(&reader);
    if (error != 0) {
        return error;
    }
    /* One read, to refuse a journal that begins after the cursor before anything is sold. */
    uint64_t lsn = 0;
    int64_t batch_ms = 0;
    struct gate_command command;
    error = journal_reader_next(reader.journal_reader, &lsn, &batch_ms, &command);
    if (error == 0 || error == ERR_AGAIN) {
        error = booking_reader_rewind(&reader);
    }
    if (error != 0) {
        booking_reader_done(&reader);
        return error;
    }
    *ret_reader = reader;
    return 0;
}

void booking_reader_done(struct booking_reader *reader)
{
    journal_reader_free(reader->journal_reader);
    reader->journal_reader = NULL;
}

int booking_reader_take(struct booking_reader *reader, struct ledger_op *ret_ops, size_t max,
                        size_t *ret_count)
{
    size_t count = 0;
    *ret_count = 0;
    for (size_t looked = 0; looked < LOOK_MAX && count < max; looked++) {
        uint64_t lsn = 0;
        int64_t batch_ms = 0;
        struct gate_command command;
        int error = journal_reader_next(reader->journal_reader, &lsn, &batch_ms, &command);
        if (error == ERR_AGAIN) {
            break;
        }
        if (error != 0) {
            return error;
        }
        reader->read_lsn = lsn;
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

void booking_reader_commit(struct booking_reader *reader, uint64_t booked_lsn)
{
    if (booked_lsn > reader->booked_lsn) {
        reader->booked_lsn = booked_lsn;
    }
}

int booking_reader_rewind(struct booking_reader *reader)
{
    struct journal_reader *journal_reader = NULL;
    int error = journal_reader_new(reader->journal, reader->booked_lsn, &journal_reader);
    if (error != 0) {
        return error;
    }
    journal_reader_free(reader->journal_reader);
    reader->journal_reader = journal_reader;
    reader->read_lsn = reader->booked_lsn;
    return 0;
}
