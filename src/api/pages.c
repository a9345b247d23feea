/* The storefront's pages by their paths. page_cache.h makes and keeps them. */
#define _GNU_SOURCE /* memmem */
#include "api/api.h"
#include "api/handlers.h"
#include "api/operation.h"
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

/* There is no page: a browser gets a page that says so, a program a problem. */
static enum http_outcome refuse_page(struct api_request *req, bool wants_html, enum refusal refusal,
                                     const char *why)
{
    static const struct http_request nothing; /* an answer that comes later has no request */
    struct page_cache *page_cache = api_shared(req->worker)->page_cache;
    bool answered = wants_html && page_cache != NULL &&
                    page_cache_answer_plain(page_cache, api_server(req->worker), req->exchange,
                                            req->request != NULL ? req->request : &nothing,
                                            PAGE_CACHE_MISSING, refusal_text(refusal)->status);
    return answered ? HTTP_ANSWERED : api_refuse_simply(req->worker, req->exchange, refusal, why);
}

/* The sale was warmed a moment ago and the page is being made; or the cache has no room for the page,
 * and the log says what to do (pages.too_many). */
static enum http_outcome refuse_unfinished_page(struct api_request *req, bool wants_html,
                                                uint64_t item)
{
    if (page_cache_left_out(api_shared(req->worker)->page_cache, item)) {
        return refuse_page(req, wants_html, REFUSAL_NOT_FOUND,
                           "this item has no page here; GET /v1/items/{item} shows it");
    }
    return refuse_page(req, wants_html, REFUSAL_DEGRADED, "the page is being made; ask again");
}

static enum http_outcome no_item(struct api_request *req, bool wants_html)
{
    return refuse_page(req, wants_html, REFUSAL_NO_SUCH_ITEM, "GET /v1/sales lists what there is");
}

static enum http_outcome item_looked_for(struct api_request *req, struct api_operation *operation)
{
    bool wants_html = operation->context.item_page.wants_html;
    uint64_t item = operation->gate.item;
    enum refusal refusal = operation->gate.refusal;
    if (is_on_sale(req->worker, item)) {
        return refuse_unfinished_page(req, wants_html, item);
    }
    if (refusal == REFUSAL_NONE || refusal == REFUSAL_NO_SUCH_ITEM) {
        return no_item(req, wants_html);
    }
    return refuse_page(req, wants_html, REFUSAL_DEGRADED,
                       "whether there is such an item cannot be looked up now; ask again");
}

/* An item that is not known here is looked up, as for GET /v1/items/{item}: its sale may have been
 * warmed at another front a moment ago, where it has a page. */
enum http_outcome handle_item_page(struct api_request *req)
{
    struct page_cache *page_cache = api_shared(req->worker)->page_cache;
    struct span accept = req->request->accept;
    bool wants_html = accept.len > 0 && memmem(accept.at, accept.len, "text/html", 9) != NULL;
    uint64_t id = 0;
    if (page_cache == NULL || part_id(req->part[0], &id) != 0) {
        return no_item(req, wants_html);
    }
    if (page_cache_answer_item(page_cache, api_server(req->worker), req->exchange, req->request,
                               id)) {
        return HTTP_ANSWERED;
    }
    if (is_on_sale(req->worker, id)) {
        return refuse_unfinished_page(req, wants_html, id);
    }
    struct api_operation *operation = api_gate_operation(req, GATE_REQUEST_ITEM, item_looked_for);
    if (operation == NULL) {
        return refuse_page(req, wants_html, REFUSAL_OVERLOADED, NULL);
    }
    operation->gate.item = id;
    operation->gate.may_wait = true;
    operation->context.item_page.wants_html = wants_html;
    return api_submit(req, operation);
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
