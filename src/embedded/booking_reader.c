/* See booking_reader.h. */
#include "embedded/booking_reader.h"

#include <string.h>

#include "base/err.h"
#include "embedded/gate_content.h"

/* Records read in one call. Most are no decisions, and the ledger writer has other work. */
#define LOOK_MAX 65536

static int rewind_reader(struct booking_source *source)
{
    struct booking_reader *reader = (struct booking_reader *)source;
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

static int start(struct booking_source *source, uint64_t booked_lsn)
{
    struct booking_reader *reader = (struct booking_reader *)source;
    reader->booked_lsn = booked_lsn;
    int error = rewind_reader(source);
    if (error != 0) {
        return error;
    }
    /* One read, to refuse a journal that begins after the cursor before anything is sold. */
    uint64_t lsn = 0;
    struct gate_command command;
    error = gate_content_next(reader->journal_reader, &lsn, &command);
    return error == 0 || error == ERR_AGAIN ? rewind_reader(source) : error;
}

static int take(struct booking_source *source, struct ledger_op *ret_ops, size_t max,
                size_t *ret_count)
{
    struct booking_reader *reader = (struct booking_reader *)source;
    size_t count = 0;
    *ret_count = 0;
    for (size_t looked = 0; looked < LOOK_MAX && count < max; looked++) {
        uint64_t lsn = 0;
        struct gate_command command;
        int error = gate_content_next(reader->journal_reader, &lsn, &command);
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

static void commit(struct booking_source *source, uint64_t booked_lsn)
{
    struct booking_reader *reader = (struct booking_reader *)source;
    if (booked_lsn > reader->booked_lsn) {
        reader->booked_lsn = booked_lsn;
    }
}

static struct booking_positions positions(const struct booking_source *source)
{
    const struct booking_reader *reader = (const struct booking_reader *)source;
    return (struct booking_positions){
        .booked_lsn = reader->booked_lsn,
        .read_lsn = reader->read_lsn,
        .durable_lsn = journal_durable_lsn(reader->journal),
        .last_lsn = journal_last_lsn(reader->journal),
        .failed = journal_failed(reader->journal),
        .waits = journal_space(reader->journal) == JOURNAL_SPACE_NONE,
    };
}

static const struct booking_source_ops ops = {start, take, commit, rewind_reader, positions};

void booking_reader_init(struct booking_reader *ret_reader, struct journal *journal)
{
    *ret_reader = (struct booking_reader){.source = {&ops}, .journal = journal};
}

void booking_reader_done(struct booking_reader *reader)
{
    journal_reader_free(reader->journal_reader);
    reader->journal_reader = NULL;
}
