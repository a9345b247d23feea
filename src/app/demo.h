/*
 * The two sales of the demonstration (`--demo`): one to be opened now, one that starts in a minute.
 */
#ifndef SLUICE_APP_DEMO_H
#define SLUICE_APP_DEMO_H

#include "port/ledger.h"

#define DEMO_SALES 2

/*
 * Fills ret_rows with at most max sales in state draft, ids 0 (the ledger assigns them). The caller
 * frees each with sale_row_free. Returns how many; 0: no memory. The first is to be created and
 * opened, the others warmed.
 */
size_t demo_fill(int64_t now_ms, struct sale_row **ret_rows, size_t max);

#endif
