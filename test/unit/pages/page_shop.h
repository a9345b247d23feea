/* A small shop for the tests of pages: templates that say everything, and a catalog to change. */
#ifndef SLUICE_TEST_PAGE_SHOP_H
#define SLUICE_TEST_PAGE_SHOP_H

#include "ledger/catalog.h"
#include "pages/assets.h"

#define SHOP_ITEMS 3
extern const struct web_asset shop_assets[];
extern const size_t shop_assets_count;

/* A sale with SHOP_ITEMS items, whose ids are 10 * sale + 1 and so on; the caller's. */
struct sale_row *shop_sale(uint64_t sale, enum sale_state state, const char *name);

#endif
