/* The storefront's pages, by their addresses. They are ready (page_cache.h); here they are only found. */
#define _GNU_SOURCE /* memmem */
#include "api/api.h"
#include "api/handlers.h"
#include "pages/page_cache.h"

static enum http_outcome no_page(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND,
                             "no such path; /openapi.json lists them");
}

static enum http_outcome plain_page(struct api_request *req, enum page_cache_plain which)
{
    struct page_cache *page_cache = api_shared(req->worker)->page_cache;
    bool answered =
        page_cache != NULL && page_cache_answer_plain(page_cache, api_server(req->worker),
                                                      req->exchange, req->request, which, 200);
    return answered ? HTTP_ANSWERED : no_page(req);
}

enum http_outcome handle_list_page(struct api_request *req)
{
    struct page_cache *page_cache = api_shared(req->worker)->page_cache;
    struct http_server *server = api_server(req->worker);
    bool answered = page_cache != NULL &&
                    page_cache_answer_list(page_cache, server, req->exchange, req->request);
    return answered ? HTTP_ANSWERED : no_page(req);
}

/* ---- an item's ---- */

static bool is_on_sale(struct api_worker *worker, uint64_t item)
{
    struct catalog *catalog = api_shared(worker)->catalog;
    const struct sale_row *sale = NULL;
    catalog_lock(catalog);
    bool known = catalog_item(catalog, item, &sale) != NULL && sale->state != SALE_DRAFT &&
                 sale->state != SALE_CLOSED;
    catalog_unlock(catalog);
    return known;
}

/* There is no page: people get one that says so, programs a problem. */
static enum http_outcome say_why(struct api_request *req, bool person, enum refusal refusal,
                                 const char *why)
{
    static const struct http_request nothing; /* of one that was answered late nothing is left */
    struct page_cache *page_cache = api_shared(req->worker)->page_cache;
    bool answered = person && page_cache != NULL &&
                    page_cache_answer_plain(page_cache, api_server(req->worker), req->exchange,
                                            req->request != NULL ? req->request : &nothing,
                                            PAGE_CACHE_MISSING, refusal_text(refusal)->status);
    return answered ? HTTP_ANSWERED : api_refuse_simply(req->worker, req->exchange, refusal, why);
}

/* Warmed a moment ago, so that its page is being made; or there was no room for it, and there will
 * be none: the log says what to do (pages.too_many). */
static enum http_outcome say_when(struct api_request *req, bool person, uint64_t item)
{
    if (page_cache_left_out(api_shared(req->worker)->page_cache, item)) {
        return say_why(req, person, REFUSAL_NOT_FOUND,
                       "this item has no page here; GET /v1/items/{item} shows it");
    }
    return say_why(req, person, REFUSAL_DEGRADED, "the page is being made; ask again");
}

static enum http_outcome no_item(struct api_request *req, bool person)
{
    return say_why(req, person, REFUSAL_NO_SUCH_ITEM, "GET /v1/sales lists what there is");
}

static enum http_outcome item_looked_for(struct api_request *req, struct api_gate_request *asked)
{
    enum refusal refusal = asked->gate.refusal;
    if (is_on_sale(req->worker, asked->gate.item)) {
        return say_when(req, asked->person, asked->gate.item);
    }
    if (refusal == REFUSAL_NONE || refusal == REFUSAL_NO_SUCH_ITEM) {
        return no_item(req, asked->person);
    }
    return say_why(req, asked->person, REFUSAL_DEGRADED,
                   "whether there is such an item cannot be looked up now; ask again");
}

/* As GET /v1/items/{item} does: an item that is not known here may have been warmed at another
 * front a moment ago, and there it has a page. */
enum http_outcome handle_item_page(struct api_request *req)
{
    struct page_cache *page_cache = api_shared(req->worker)->page_cache;
    struct span accept = req->request->accept;
    bool person = accept.len > 0 && memmem(accept.at, accept.len, "text/html", 9) != NULL;
    uint64_t id = 0;
    if (page_cache == NULL || part_id(req->part[0], &id) != 0) {
        return no_item(req, person);
    }
    if (page_cache_answer_item(page_cache, api_server(req->worker), req->exchange, req->request,
                               id)) {
        return HTTP_ANSWERED;
    }
    if (is_on_sale(req->worker, id)) {
        return say_when(req, person, id);
    }
    struct api_gate_request *request =
        api_gate_request_new(req, GATE_REQUEST_ITEM, item_looked_for);
    if (request == NULL) {
        return say_why(req, person, REFUSAL_OVERLOADED, NULL);
    }
    request->gate.item = id;
    request->gate.may_wait = true;
    request->person = person;
    return api_gate_request(req, request);
}

enum http_outcome handle_orders_page(struct api_request *req)
{
    return plain_page(req, PAGE_CACHE_ORDERS);
}

enum http_outcome handle_manifest(struct api_request *req)
{
    struct page_cache *page_cache = api_shared(req->worker)->page_cache;
    bool answered =
        page_cache != NULL && page_cache_answer_manifest(page_cache, api_server(req->worker),
                                                         req->exchange, req->request);
    return answered ? HTTP_ANSWERED : no_page(req);
}

enum http_outcome handle_demo_login_page(struct api_request *req)
{
    return plain_page(req, PAGE_CACHE_DEMO_LOGIN);
}

enum http_outcome handle_demo_pay_page(struct api_request *req)
{
    return plain_page(req, PAGE_CACHE_DEMO_PAY);
}
