/* The storefront's pages, by their addresses. They are ready (site.h); here they are only found. */
#define _GNU_SOURCE /* memmem */
#include "http/front.h"
#include "http/handlers.h"
#include "http/site.h"

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
        site != NULL && site_answer_list(site, server, asking->exchange, asking->request);
    return answered ? HTTP_ANSWERED : no_page(asking);
}

/* ---- an item's ---- */

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

/* There is no page: people get one that says so, programs a problem. */
static enum http_outcome say_why(struct asking *asking, bool person, enum refusal refusal,
                                 const char *why)
{
    static const struct http_request nothing; /* of one that was answered late nothing is left */
    struct site *site = front_shared(asking->front)->site;
    bool answered = person && site != NULL &&
                    site_answer_plain(site, front_server(asking->front), asking->exchange,
                                      asking->request != NULL ? asking->request : &nothing,
                                      SITE_MISSING, refusal_text(refusal)->status);
    return answered ? HTTP_ANSWERED
                    : front_refuse_simply(asking->front, asking->exchange, refusal, why);
}

/* Warmed a moment ago, so that its page is being made; or there was no room for it, and there will
 * be none: the log says what to do (pages.too_many). */
static enum http_outcome say_when(struct asking *asking, bool person, uint64_t item)
{
    if (site_left_out(front_shared(asking->front)->site, item)) {
        return say_why(asking, person, REFUSAL_NOT_FOUND,
                       "this item has no page here; GET /v1/items/{item} shows it");
    }
    return say_why(asking, person, REFUSAL_DEGRADED, "the page is being made; ask again");
}

static enum http_outcome no_item(struct asking *asking, bool person)
{
    return say_why(asking, person, REFUSAL_NO_SUCH_ITEM, "GET /v1/sales lists what there is");
}

static enum http_outcome item_looked_for(struct asking *asking, struct front_ask *asked)
{
    enum refusal refusal = asked->gate.refusal;
    if (is_on_sale(asking->front, asked->gate.item)) {
        return say_when(asking, asked->person, asked->gate.item);
    }
    if (refusal == REFUSAL_NONE || refusal == REFUSAL_NO_SUCH_ITEM) {
        return no_item(asking, asked->person);
    }
    return say_why(asking, asked->person, REFUSAL_DEGRADED,
                   "whether there is such an item cannot be looked up now; ask again");
}

/* As GET /v1/items/{item} does: an item that is not known here may have been warmed at another
 * front a moment ago, and there it has a page. */
enum http_outcome handle_item_page(struct asking *asking)
{
    struct site *site = front_shared(asking->front)->site;
    struct span accept = asking->request->accept;
    bool person = accept.len > 0 && memmem(accept.at, accept.len, "text/html", 9) != NULL;
    uint64_t id = 0;
    if (site == NULL || part_id(asking->part[0], &id) != 0) {
        return no_item(asking, person);
    }
    if (site_answer_item(site, front_server(asking->front), asking->exchange, asking->request,
                         id)) {
        return HTTP_ANSWERED;
    }
    if (is_on_sale(asking->front, id)) {
        return say_when(asking, person, id);
    }
    struct front_ask *ask = front_ask_new(asking, ASK_ITEM, item_looked_for);
    if (ask == NULL) {
        return say_why(asking, person, REFUSAL_OVERLOADED, NULL);
    }
    ask->gate.item = id;
    ask->gate.may_wait = true;
    ask->person = person;
    return front_ask(asking, ask);
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
