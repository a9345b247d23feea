/* What follows from a ledger event: a gate command, a metric, a log line. */
#ifndef SLUICE_LEDGER_EVENT_EFFECTS_H
#define SLUICE_LEDGER_EVENT_EFFECTS_H

#include "obs/metrics.h"
#include "port/ledger.h"

void event_effects_command(const struct ledger_event *event, int64_t now_ms,
                           struct gate_command *ret_command);
/* True if the event changes what the catalog shows of its sale. */
bool event_effects_catalog(enum ledger_event_kind kind);
void event_effects_count(struct metrics_slot *metrics, const struct ledger_event *event);
/* Logs what operators want to know: sales and stock, not single orders. */
void event_effects_log(const struct ledger_event *event);

#endif
