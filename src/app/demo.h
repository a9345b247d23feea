/*
 * The two sales of the demonstration (`--demo`): one to be opened now, one that starts in a minute.
 */
#ifndef SLUICE_APP_DEMO_H
#define SLUICE_APP_DEMO_H

#include "port/ledger.h"

#define DEMO_SALES 2

/*
 * Fills ret_rows with at most max sales, ids 0 (the ledger gives them), state draft; the caller
 * frees each with sale_row_free. How many; 0 where there is no memory. The first is to be created
 * and moved to OPEN, the others to WARM.
 */
size_t demo_fill(int64_t now_ms, struct sale_row **ret_rows, size_t max);

#endif
