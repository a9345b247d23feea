/*
 * Operators: create, read, change and delete sales, move them through their states, restock items.
 * The ledger reader reads, the ledger writer writes. A body with an error is refused before either is
 * asked, with the name of the field.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/form.h"
#include "api/handlers.h"
#include "api/operation.h"
#include "base/err.h"

#define PAY_WITHIN_MAX_S (90LL * 86400)

/* ---- bodies ---- */

static bool is_currency(const char *text)
{
    for (int i = 0; i < 3; i++) {
        if (text[i] < 'A' || text[i] > 'Z') {
            return false;
        }
    }
    return text[3] == '\0';
}

/* Pages show these as links, so only these forms may stand in an href. A text that begins with two
 * slashes, or a slash and a backslash, names another host. */
static bool is_url(const char *text)
{
    bool is_path = text[0] == '/' && text[1] != '/' && text[1] != '\\';
    return text[0] == '\0' || is_path || strncmp(text, "https://", 8) == 0 ||
           strncmp(text, "http://", 7) == 0;
}

/* Only the first {order_id} is replaced; a second would reach buyers as it is. */
static bool names_order_once(const char *text)
{
    const char *first = strstr(text, "{order_id}");
    return first == NULL || strstr(first + 1, "{order_id}") == NULL;
}

static void read_item(struct form *form, json_t *object, bool create, size_t index,
                      struct item_row *item)
{
    /* A change may send back what was read with the item; these members are ignored. */
    enum { READ_ONLY = 7 };
    static const char *const names[] = {
        "sale_id",    "available", "locked",         "sold", "state",     "starts_at_ms",
        "ends_at_ms", "id",        "name",           "sku",  "image_url", "price_cents",
        "was_cents",  "total",     "limit_per_user", NULL};
    char path[32];
    int64_t number = 0;
    (void)snprintf(path, sizeof(path), "items[%zu].", index);
    if (!json_is_object(object)) {
        path[strlen(path) - 1] = '\0';
        form_error(form, "", path, "must be an object");
        return;
    }
    form_only(form, path, object, create ? names + READ_ONLY : names);
    if (form_number(form, path, object, "id", false, 1, (int64_t)ID_MAX, &number)) {
        item->id = (uint64_t)number;
    }
    (void)form_text(form, path, object, "name", true, 1, NAME_MAX_BYTES, item->name);
    (void)form_text(form, path, object, "sku", false, 0, SKU_MAX_BYTES, item->sku);
    (void)form_text(form, path, object, "image_url", false, 0, URL_MAX_BYTES, item->image_url);
    if (!is_url(item->image_url)) {
        form_error(form, path, "image_url", "must begin with https://, http:// or /");
    }
    if (form_number(form, path, object, "price_cents", true, 0, (int64_t)PRICE_MAX, &number)) {
        item->price_cents = (uint32_t)number;
    }
    if (form_number(form, path, object, "was_cents", false, 0, (int64_t)PRICE_MAX, &number)) {
        item->was_cents = (uint32_t)number;
    }
    if (form_number(form, path, object, "total", true, 1, (int64_t)QTY_MAX, &number)) {
        item->total = (uint64_t)number;
        item->available = item->total;
    }
    if (form_number(form, path, object, "limit_per_user", true, 0, (int64_t)QTY_MAX, &number)) {
        item->limit_per_user = (uint32_t)number;
    }
}

static void read_items(struct form *form, json_t *list, bool create, struct sale_row *sale)
{
    size_t count = json_is_array(list) ? json_array_size(list) : 0;
    if (count == 0 || count > ITEMS_PER_SALE_MAX) {
        form_error(form, "", "items", "must be a list of 1 to 500 items");
        return;
    }
    sale->items = calloc(count, sizeof(*sale->items));
    if (sale->items == NULL) {
        form_error(form, "", "items", "are too many for the memory left");
        return;
    }
    sale->items_count = (uint32_t)count;
    for (size_t i = 0; i < count && !form->wrong; i++) {
        read_item(form, json_array_get(list, i), create, i, &sale->items[i]);
        for (size_t k = 0; k < i && sale->items[i].id != 0; k++) {
            if (sale->items[k].id == sale->items[i].id) {
                form_error(form, "", "items", "must not have the same id twice");
            }
        }
    }
}

static void read_texts(struct form *form, json_t *root, bool create, struct sale_row *sale,
                       uint32_t *changes)
{
    char challenge[16] = "none";
    if (form_text(form, "", root, "name", create, 1, NAME_MAX_BYTES, sale->name)) {
        *changes |= SALE_HAS_NAME;
    }
    if (form_text(form, "", root, "currency", false, 3, 3, sale->currency)) {
        *changes |= SALE_HAS_CURRENCY;
        if (!is_currency(sale->currency)) {
            form_error(form, "", "currency", "must be three capital letters, as in ISO 4217");
        }
    }
    if (form_text(form, "", root, "pay_url", false, 0, URL_MAX_BYTES, sale->pay_url)) {
        *changes |= SALE_HAS_PAY_URL;
        if (!is_url(sale->pay_url)) {
            form_error(form, "", "pay_url", "must begin with https://, http:// or /");
        }
        if (!names_order_once(sale->pay_url)) {
            form_error(form, "", "pay_url", "must contain {order_id} once at most");
        }
    }
    if (form_text(form, "", root, "challenge", false, 1, 15, challenge) &&
        strcmp(challenge, "none") != 0) {
        form_error(form, "", "challenge", "must be none");
    }
}

/* The body of create, with all required members, or of change, with the members to change. */
static void read_sale(struct form *form, json_t *root, bool create, struct sale_row *sale,
                      uint32_t *ret_changes)
{
    enum { READ_ONLY = 1 }; /* as for items */
    static const char *const names[] = {"state",      "id",        "name",       "starts_at_ms",
                                        "ends_at_ms", "pay_url",   "bar_unpaid", "pay_within_s",
                                        "currency",   "challenge", "items",      NULL};
    uint32_t changes = 0;
    int64_t number = 0;
    form_only(form, "", root, create ? names + READ_ONLY : names);
    if (form_number(form, "", root, "id", false, 1, (int64_t)ID_MAX, &number)) {
        sale->id = (uint64_t)number;
    }
    read_texts(form, root, create, sale, &changes);
    if (form_number(form, "", root, "starts_at_ms", create, 0, TIME_MAX_MS, &sale->starts_at_ms)) {
        changes |= SALE_HAS_STARTS;
    }
    if (form_number(form, "", root, "ends_at_ms", create, 1, TIME_MAX_MS, &sale->ends_at_ms)) {
        changes |= SALE_HAS_ENDS;
    }
    uint32_t both = SALE_HAS_STARTS | SALE_HAS_ENDS;
    if ((changes & both) == both && sale->ends_at_ms <= sale->starts_at_ms) {
        form_error(form, "", "ends_at_ms", "must be after starts_at_ms");
    }
    if (form_number(form, "", root, "pay_within_s", create, 1, PAY_WITHIN_MAX_S, &number)) {
        changes |= SALE_HAS_PAY_WITHIN;
        sale->pay_within_s = (uint32_t)number;
    }
    if (form_flag(form, "", root, "bar_unpaid", &sale->bar_unpaid)) {
        changes |= SALE_HAS_BAR;
    }
    json_t *items = json_object_get(root, "items");
    if (items != NULL || create) {
        changes |= SALE_HAS_ITEMS;
        read_items(form, items, create, sale);
    }
    *ret_changes = changes;
}

/* Reads the body into a new row; NULL: refused, the outcome is in *ret_outcome. */
static struct sale_row *sale_of_body(struct api_request *req, bool create, uint32_t *ret_changes,
                                     enum http_outcome *ret_outcome)
{
    struct form form = {.wrong = false};
    *ret_outcome = HTTP_ANSWERED;
    enum refusal media = body_is_json(req->request, false);
    struct sale_row *sale = calloc(1, sizeof(*sale));
    if (media != REFUSAL_NONE || sale == NULL) {
        free(sale);
        (void)api_refuse_simply(req->worker, req->exchange,
                                media != REFUSAL_NONE ? media : REFUSAL_OVERLOADED, NULL);
        return NULL;
    }
    memcpy(sale->currency, "CNY", 4);
    json_t *root = form_body(&form, req->request->body);
    if (root != NULL) {
        read_sale(&form, root, create, sale, ret_changes);
        json_decref(root);
    }
    if (form.wrong) {
        sale_row_free(sale);
        (void)form_refuse(req, &form);
        return NULL;
    }
    return sale;
}

/* ---- answers ---- */

static enum http_outcome answer_sale(struct api_request *req, int status,
                                     const struct sale_row *sale)
{
    struct out body = api_scratch(req->worker);
    json_sale(&body, sale, inside_time_ms(api_shared(req->worker)->time));
    if (body.overflow) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_TOO_LARGE,
                                 "the sale is too large to show");
    }
    return api_json(req->worker, req->exchange, status, "", NULL, out_span(&body));
}

static enum http_outcome sale_done(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_op *op = &operation->write.op;
    if (op->refusal != REFUSAL_NONE) {
        return api_refuse_simply(
            req->worker, req->exchange, op->refusal,
            op->refusal == REFUSAL_BAD_STATE ? "the sale's state does not allow that" : NULL);
    }
    return answer_sale(req, op->kind == LEDGER_SALE_CREATE ? 201 : 200, op->sale);
}

static enum http_outcome delete_done(struct api_request *req, struct api_operation *operation)
{
    if (operation->write.op.refusal != REFUSAL_NONE) {
        return api_refuse_simply(req->worker, req->exchange, operation->write.op.refusal,
                                 "only a draft can be deleted");
    }
    return api_json(req->worker, req->exchange, 204, "", NULL, (struct span){NULL, 0});
}

static enum http_outcome no_such_sale(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such sale");
}

static void free_sale_in(union api_context *context)
{
    sale_row_free(context->sale_write.sale_in);
}

/* Submits a write about a sale, and takes ownership of sale_in. */
static enum http_outcome write_sale(struct api_request *req, enum ledger_kind kind, uint64_t sale,
                                    struct sale_row *sale_in, uint32_t changes)
{
    struct api_operation *operation = api_write_operation(
        req, BUDGET_OPERATOR, kind == LEDGER_SALE_DELETE ? delete_done : sale_done);
    if (operation == NULL) {
        sale_row_free(sale_in);
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->context.sale_write.sale_in = sale_in;
    operation->free_context = free_sale_in;
    operation->write.op.kind = kind;
    operation->write.op.sale_id = sale;
    operation->write.op.sale_in = sale_in;
    operation->write.op.changes = changes;
    return api_submit(req, operation);
}

/* ---- calls ---- */

enum http_outcome handle_sale_create(struct api_request *req)
{
    uint32_t changes = 0;
    enum http_outcome outcome;
    struct sale_row *sale = sale_of_body(req, true, &changes, &outcome);
    if (sale == NULL) {
        return outcome;
    }
    sale->created_at_ms = req->now_ms;
    return write_sale(req, LEDGER_SALE_CREATE, 0, sale, changes);
}

enum http_outcome handle_sale_change(struct api_request *req)
{
    uint32_t changes = 0;
    uint64_t id = 0;
    enum http_outcome outcome;
    if (part_id(req->part[0], &id) != 0) {
        return no_such_sale(req);
    }
    struct sale_row *sale = sale_of_body(req, false, &changes, &outcome);
    if (sale == NULL) {
        return outcome;
    }
    if (sale->id != 0 && sale->id != id) {
        sale_row_free(sale);
        return api_refuse_field(req->worker, req->exchange, "id",
                                "id must be the one of the path, or left out");
    }
    return write_sale(req, LEDGER_SALE_CHANGE, id, sale, changes);
}

enum http_outcome handle_sale_delete(struct api_request *req)
{
    uint64_t id = 0;
    if (part_id(req->part[0], &id) != 0) {
        return no_such_sale(req);
    }
    return write_sale(req, LEDGER_SALE_DELETE, id, NULL, 0);
}

static enum http_outcome move_sale(struct api_request *req, enum sale_state target)
{
    uint64_t id = 0;
    if (part_id(req->part[0], &id) != 0) {
        return no_such_sale(req);
    }
    struct api_operation *operation = api_write_operation(req, BUDGET_OPERATOR, sale_done);
    if (operation == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->write.op.kind = LEDGER_SALE_MOVE;
    operation->write.op.sale_id = id;
    operation->write.op.target = target;
    return api_submit(req, operation);
}

enum http_outcome handle_sale_warm(struct api_request *req)
{
    return move_sale(req, SALE_WARM);
}

enum http_outcome handle_sale_open(struct api_request *req)
{
    return move_sale(req, SALE_OPEN);
}

enum http_outcome handle_sale_pause(struct api_request *req)
{
    return move_sale(req, SALE_PAUSED);
}

enum http_outcome handle_sale_close(struct api_request *req)
{
    return move_sale(req, SALE_CLOSED);
}

/* ---- reading ---- */

/* A page of sales. What does not fit into the answer belongs to the next page. */
static enum http_outcome answer_sales(struct api_request *req, const struct ledger_query *q)
{
    struct api_worker *worker = req->worker;
    struct out body = api_scratch(worker);
    body.cap -= 64; /* reserved for the end */
    out_lit(&body, "{\"sales\":[");
    uint64_t next = q->count == q->limit ? q->sales[q->count - 1]->id : 0;
    for (uint32_t i = 0; i < q->count; i++) {
        size_t mark = body.len;
        if (i > 0) {
            out_char(&body, ',');
        }
        json_sale(&body, q->sales[i], inside_time_ms(api_shared(worker)->time));
        if (body.overflow) {
            body.len = mark;
            body.overflow = false;
            next = i > 0 ? q->sales[i - 1]->id : q->sales[0]->id;
            break;
        }
    }
    body.cap += 64;
    out_lit(&body, "],\"next\":");
    if (next == 0) {
        out_lit(&body, "null}");
    } else {
        out_u64(&body, next);
        out_char(&body, '}');
    }
    return api_json(worker, req->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome sales_read(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_query *q = &operation->read.query;
    if (q->error != 0 && q->error != ERR_NOTFOUND) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED, LEDGER_UNREACHABLE);
    }
    if (!operation->context.sale_read.one) {
        return answer_sales(req, q);
    }
    return q->count == 0 ? no_such_sale(req) : answer_sale(req, 200, q->sales[0]);
}

static enum http_outcome read_sales(struct api_request *req, uint64_t sale, uint64_t after,
                                    uint32_t limit)
{
    struct api_operation *operation =
        api_read_operation(req, QUERY_SALES, limit, BUDGET_OPERATOR, sales_read);
    if (operation == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->context.sale_read.one = sale != 0;
    operation->read.query.sale = sale;
    operation->read.query.after = after;
    return api_submit(req, operation);
}

enum http_outcome handle_sale_list(struct api_request *req)
{
    uint64_t after = 0;
    uint64_t limit = 0;
    if (query_number(req->request->query, "after", ID_MAX, 0, &after) != 0) {
        return api_refuse_field(req->worker, req->exchange, "after", "after must be a sale's id");
    }
    if (query_number(req->request->query, "limit", PAGE_LIMIT_MAX, 200, &limit) != 0 ||
        limit == 0) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "limit must be a whole number from 1 to 1000");
    }
    return read_sales(req, 0, after, (uint32_t)limit);
}

enum http_outcome handle_sale_read(struct api_request *req)
{
    uint64_t id = 0;
    if (part_id(req->part[0], &id) != 0) {
        return no_such_sale(req);
    }
    return read_sales(req, id, 0, 1);
}

/* ---- restock ---- */

static enum http_outcome answer_restocked(struct api_request *req, const struct sale_row *sale,
                                          const struct item_row *item)
{
    struct item_view view;
    int64_t now_ms = inside_time_ms(api_shared(req->worker)->time);
    struct out body = api_scratch(req->worker);
    if (api_item(req->worker, item->id, &view)) {
        /* The numbers of other machines arrive a moment later: the new units are not among them. */
        uint64_t unseen = item->total > view.total ? item->total - view.total : 0;
        view.total += unseen;
        view.available += unseen;
        json_item(&body, sale, item, &view, now_ms);
    } else { /* a draft is not at the gate yet */
        json_item_row(&body, sale, item, now_ms);
    }
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome restock_done(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_op *op = &operation->write.op;
    if (op->refusal != REFUSAL_NONE) {
        return api_refuse_simply(req->worker, req->exchange, op->refusal,
                                 op->refusal == REFUSAL_DIFFERENT_REQUEST
                                     ? "this request_id was used with another amount"
                                     : NULL);
    }
    for (uint32_t i = 0; op->sale != NULL && i < op->sale->items_count; i++) {
        if (op->sale->items[i].id == op->item) {
            return answer_restocked(req, op->sale, &op->sale->items[i]);
        }
    }
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_NO_SUCH_ITEM, NULL);
}

enum http_outcome handle_restock(struct api_request *req)
{
    static const char *const names[] = {"add", "request_id", NULL};
    struct form form = {.wrong = false};
    int64_t add = 0;
    char request_id[REQUEST_ID_MAX_BYTES + 1];
    uint64_t item = 0;
    enum refusal media = body_is_json(req->request, false);
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(req->worker, req->exchange, media, NULL);
    }
    json_t *root = form_body(&form, req->request->body);
    if (root != NULL) {
        form_only(&form, "", root, names);
        (void)form_number(&form, "", root, "add", true, 1, (int64_t)QTY_MAX, &add);
        (void)form_text(&form, "", root, "request_id", true, 1, REQUEST_ID_MAX_BYTES, request_id);
        json_decref(root);
    }
    if (form.wrong) {
        return form_refuse(req, &form);
    }
    if (part_id(req->part[0], &item) != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NO_SUCH_ITEM, NULL);
    }
    struct api_operation *operation = api_write_operation(req, BUDGET_OPERATOR, restock_done);
    if (operation == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->write.op.kind = LEDGER_RESTOCK;
    operation->write.op.item = item;
    operation->write.op.amount = (uint64_t)add;
    memcpy(operation->write.op.key, request_id, strlen(request_id) + 1);
    return api_submit(req, operation);
}
