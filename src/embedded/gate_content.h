/*
 * The gate as the content of a journal: each record is a gate command (core/record.h), and a snapshot
 * is the gate's sales, items, buyers and orders.
 */
#ifndef SLUICE_EMBEDDED_GATE_CONTENT_H
#define SLUICE_EMBEDDED_GATE_CONTENT_H

#include "core/gate.h"
#include "journal/journal.h"

/* journal_open and journal_snapshot for a gate. */
int gate_content_open(struct disk *disk, struct journal_options options, struct gate *gate,
                      struct journal **ret_journal, struct journal_found *ret_found);
int gate_content_snapshot(struct journal *journal, struct gate *second, uint64_t *ret_lsn);
/* journal_append for a command. */
int gate_content_append(struct journal *journal, const struct gate_command *command,
                        uint64_t *ret_lsn);
/* journal_reader_next for a command. */
int gate_content_next(struct journal_reader *reader, uint64_t *ret_lsn,
                      struct gate_command *ret_command);
/* Applies one command of the journal to a gate: 0; ERR_FULL: the gate is too small; ERR_CORRUPT: the
 * command does not follow from those before it. */
int gate_content_replay(struct gate *gate, uint64_t lsn, const struct gate_command *command);

/* journal_content_ops.check for a content without a gate: `sluice journal`. */
int gate_content_check(struct journal_content *content, struct journal_snapshot_reader *reader,
                       int64_t *ret_highest_ms);

#endif
