/* The storefront's pages, by their addresses. They are ready (site.h); here they are only found. */
#define _GNU_SOURCE /* memmem */
#include "http/front.h"
#include "http/handlers.h"
#include "http/site.h"
#include "http/static.h"

static enum http_outcome no_page(struct asking *asking)
{
    return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NOT_FOUND,
                               "no such path; /openapi.json lists them");
}

static enum http_outcome plain_page(struct asking *asking, enum site_plain which)
{
    struct site *site = front_shared(asking->front)->site;
    bool answered =
        site != NULL && site_answer_plain(site, front_server(asking->front), asking->exchange,
                                          asking->request, which, 200);
    return answered ? HTTP_ANSWERED : no_page(asking);
}

enum http_outcome handle_list_page(struct asking *asking)
{
    struct site *site = front_shared(asking->front)->site;
    struct http_server *server = front_server(asking->front);
    bool answered =
        (site != NULL && site_answer_list(site, server, asking->exchange, asking->request)) ||
        static_answer(server, asking->exchange, asking->request);
    return answered ? HTTP_ANSWERED : no_page(asking);
}

/* Warmed a moment ago: its page is being made. */
static bool is_on_sale(struct front *front, uint64_t item)
{
    struct catalog *catalog = front_shared(front)->catalog;
    const struct sale_row *sale = NULL;
    catalog_lock(catalog);
    bool known = catalog_item(catalog, item, &sale) != NULL && sale->state != SALE_DRAFT &&
                 sale->state != SALE_CLOSED;
    catalog_unlock(catalog);
    return known;
}

enum http_outcome handle_item_page(struct asking *asking)
{
    struct site *site = front_shared(asking->front)->site;
    struct http_server *server = front_server(asking->front);
    struct span accept = asking->request->accept;
    uint64_t id = 0;
    if (site != NULL && part_id(asking->part[0], &id) == 0 &&
        site_answer_item(site, server, asking->exchange, asking->request, id)) {
        return HTTP_ANSWERED;
    }
    bool person = accept.len > 0 && memmem(accept.at, accept.len, "text/html", 9) != NULL;
    if (site != NULL && person &&
        site_answer_plain(site, server, asking->exchange, asking->request, SITE_MISSING, 404)) {
        return HTTP_ANSWERED;
    }
    if (site != NULL && id != 0 && is_on_sale(asking->front, id)) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_DEGRADED,
                                   "the page is being made; ask again");
    }
    return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NO_SUCH_ITEM,
                               "GET /v1/sales lists what there is");
}

enum http_outcome handle_orders_page(struct asking *asking)
{
    return plain_page(asking, SITE_ORDERS);
}

enum http_outcome handle_manifest(struct asking *asking)
{
    struct site *site = front_shared(asking->front)->site;
    bool answered = site != NULL && site_answer_manifest(site, front_server(asking->front),
                                                         asking->exchange, asking->request);
    return answered ? HTTP_ANSWERED : no_page(asking);
}

enum http_outcome handle_demo_login_page(struct asking *asking)
{
    return plain_page(asking, SITE_DEMO_LOGIN);
}

enum http_outcome handle_demo_pay_page(struct asking *asking)
{
    return plain_page(asking, SITE_DEMO_PAY);
}
