/* See order_segment.h. */
#include "distributed/order_segment.h"

static uint32_t segment_of(struct order_id id, const struct regions *regions, uint32_t homes)
{
    return order_id_kind(id) == ORDER_ONCE ? regions_home(regions, order_id_user(id), homes)
                                           : order_id_segment(id);
}

/* Under the catalog's lock. NULL: none. */
static const struct sale_row *warmed_sale(const struct catalog *catalog, uint64_t item,
                                          struct order_segment *ret_found)
{
    const struct sale_row *sale = NULL;
    if (catalog_item(catalog, item, &sale) == NULL || sale->homes == 0) {
        return NULL;
    }
    ret_found->homes = sale->homes;
    ret_found->ends_at_ms = sale->state == SALE_CLOSED ? INT64_MIN : sale->ends_at_ms;
    return sale;
}

bool order_segment_find(struct catalog *catalog, uint64_t item, struct order_id id,
                        struct order_segment *ret_found)
{
    catalog_lock(catalog);
    const struct sale_row *sale = warmed_sale(catalog, item, ret_found);
    if (sale != NULL) {
        ret_found->segment = segment_of(id, &sale->regions, sale->homes);
    }
    catalog_unlock(catalog);
    return sale != NULL;
}

bool order_segment_home(struct catalog *catalog, uint64_t item, uint64_t user,
                        struct order_segment *ret_found)
{
    catalog_lock(catalog);
    const struct sale_row *sale = warmed_sale(catalog, item, ret_found);
    if (sale != NULL) {
        ret_found->segment = regions_home(&sale->regions, user, sale->homes);
    }
    catalog_unlock(catalog);
    return sale != NULL;
}

uint32_t order_segment_of(struct order_id id, uint32_t homes)
{
    return segment_of(id, &(const struct regions){0}, homes);
}
