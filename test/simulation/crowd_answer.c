/*
 * Answers as a careful client reads them: strict HTTP, then JSON by a library that is not the
 * server's own reader.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "crowd.h"

/* ---- HTTP ---- */

static bool line_is(const char *line, const char *name, const char **ret_value)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') {
        return false;
    }
    line += n + 1;
    *ret_value = line + strspn(line, " ");
    return true;
}

int head_read(const char *bytes, size_t n, struct head *ret_head, const char **ret_why)
{
    const char *end = n >= 4 ? memmem(bytes, n, "\r\n\r\n", 4) : NULL;
    if (end == NULL) {
        *ret_why = "no end of the head";
        return n > 8192 ? -1 : 0;
    }
    *ret_head = (struct head){.bytes = (size_t)(end - bytes) + 4};
    if (strncmp(bytes, "HTTP/1.1 ", 9) != 0) {
        *ret_why = "no status line";
        return -1;
    }
    bool has_length = false;
    ret_head->status = (int)strtol(bytes + 9, NULL, 10);
    const char *line = memmem(bytes, n, "\r\n", 2);
    while (line < end) {
        const char *value = NULL;
        line += 2;
        if (line_is(line, "content-length", &value)) {
            ret_head->length = strtoull(value, NULL, 10);
            has_length = true;
        } else if (line_is(line, "content-type", &value)) {
            ret_head->stream = strncmp(value, "text/event-stream", 17) == 0;
            ret_head->json = strncmp(value, "application/", 12) == 0;
        } else if (line_is(line, "connection", &value)) {
            ret_head->close = strncmp(value, "close", 5) == 0;
        }
        line = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
    }
    if (!has_length && !ret_head->stream && ret_head->status != 204) {
        *ret_why = "no content-length";
        return -1;
    }
    return 1;
}

/* ---- JSON ---- */

static bool get_text(const json_t *object, const char *name, char *ret_text, size_t cap)
{
    const char *value = json_string_value(json_object_get(object, name));
    if (value == NULL || strlen(value) >= cap) {
        return false;
    }
    memcpy(ret_text, value, strlen(value) + 1);
    return true;
}

static bool get_number(const json_t *object, const char *name, int64_t *ret_number)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value)) {
        return false;
    }
    *ret_number = json_integer_value(value);
    return true;
}

static bool get_count(const json_t *object, const char *name, uint64_t *ret_count)
{
    int64_t number = 0;
    bool got = get_number(object, name, &number);
    *ret_count = (uint64_t)number;
    return got && number >= 0;
}

static bool get_order(const json_t *object, struct sim_told *ret_answer)
{
    char id[ORDER_ID_TEXT + 1];
    char status[16];
    int64_t number = 0;
    *ret_answer = (struct sim_told){.amount_cents = -1};
    if (!get_text(object, "order_id", id, sizeof(id)) ||
        order_id_parse(span_of(id), &ret_answer->id) != 0 ||
        !get_text(object, "status", status, sizeof(status)) ||
        order_state_parse(span_of(status), &ret_answer->state) != 0) {
        return false;
    }
    ret_answer->item = get_number(object, "item_id", &number) ? (uint64_t)number : 0;
    ret_answer->qty = get_number(object, "qty", &number) ? (uint32_t)number : 0;
    ret_answer->has_reason =
        get_text(object, "reason", ret_answer->reason, sizeof(ret_answer->reason));
    (void)get_number(object, "pay_by_ms", &ret_answer->pay_by_ms);
    (void)get_number(object, "created_at_ms", &ret_answer->created_at_ms);
    (void)get_number(object, "amount_cents", &ret_answer->amount_cents);
    return true;
}

static bool get_numbers(const json_t *object, struct sim_answer *answer)
{
    answer->has_numbers = get_count(object, "available", &answer->available) &&
                          get_count(object, "locked", &answer->locked) &&
                          get_count(object, "sold", &answer->sold) &&
                          get_count(object, "total", &answer->total);
    answer->has_available = answer->has_numbers;
    return answer->has_numbers;
}

int told_read(struct span text, struct sim_told *ret_answer)
{
    json_t *object = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
    bool good = object != NULL && get_order(object, ret_answer);
    json_decref(object);
    return good ? 0 : -1;
}

int numbers_read(struct span text, struct sim_answer *ret_answer)
{
    json_t *object = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
    bool good = object != NULL && get_numbers(object, ret_answer);
    json_decref(object);
    return good ? 0 : -1;
}

static const char *read_refusal(const json_t *object, struct sim_answer *answer)
{
    int64_t status = 0;
    if (!get_text(object, "code", answer->code, sizeof(answer->code)) ||
        !get_text(object, "retry", answer->retry, sizeof(answer->retry)) ||
        !get_number(object, "status", &status) || status != answer->status) {
        return "a refusal without code, retry or status";
    }
    answer->has_available = get_count(object, "available", &answer->available);
    answer->has_held = get_count(object, "held", &answer->held);
    return NULL;
}

static const char *read_orders(const json_t *object, struct sim_answer *answer)
{
    const json_t *list = json_object_get(object, "orders");
    if (!json_is_array(list)) {
        return "no orders";
    }
    size_t count = json_array_size(list);
    struct sim_told *orders = calloc(count + 1, sizeof(*orders));
    answer->orders = orders;
    answer->orders_count = count;
    for (size_t i = 0; i < count; i++) {
        if (!get_order(json_array_get(list, i), &orders[i])) {
            return "an order of the list";
        }
    }
    return NULL;
}

static const char *read_sale(const json_t *object, struct sim_answer *answer)
{
    char state[16];
    return get_text(object, "state", state, sizeof(state)) &&
                   sale_state_parse(span_of(state), &answer->sale_state) == 0
               ? NULL
               : "no state of the sale";
}

static const char *read_ticket(const json_t *object, struct sim_answer *answer)
{
    char id[ORDER_ID_TEXT + 1];
    answer->has_held = get_count(object, "held", &answer->held);
    return get_text(object, "order_id", id, sizeof(id)) &&
                   order_id_parse(span_of(id), &answer->ticket_order) == 0 &&
                   get_number(object, "expires_at_ms", &answer->expires_at_ms) && answer->has_held
               ? NULL
               : "not a ticket";
}

static const char *read_success(const struct sim_request *request, const json_t *object,
                                struct sim_answer *answer)
{
    switch (request->call) {
    case CALL_TIME:
        return get_number(object, "now_ms", &answer->now_ms) ? NULL : "no now_ms";
    case CALL_ITEM:
        return get_numbers(object, answer) ? NULL : "no numbers";
    case CALL_TICKET:
        return read_ticket(object, answer);
    case CALL_BUY:
        answer->has_held = get_count(object, "held", &answer->held);
        answer->has_order = get_order(object, &answer->order);
        return answer->has_order && answer->has_held ? NULL : "no order";
    case CALL_ORDER:
    case CALL_CANCEL:
    case CALL_PAY:
        answer->has_order = get_order(object, &answer->order);
        return answer->has_order && answer->order.qty > 0 ? NULL : "no order";
    case CALL_MY_ORDERS:
        return read_orders(object, answer);
    case CALL_SALE_CREATE:
    case CALL_SALE_MOVE:
    case CALL_SALE_CHANGE:
        return read_sale(object, answer);
    default:
        return NULL;
    }
}

int answer_read(const struct sim_request *request, const struct head *head, struct span body,
                struct sim_answer *ret_answer, const char **ret_why)
{
    *ret_answer = (struct sim_answer){.status = head->status};
    json_t *object = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, NULL);
    if (object == NULL) {
        *ret_why = "not JSON";
        return ERR_INVALID;
    }
    *ret_why = head->status >= 300 ? read_refusal(object, ret_answer)
                                   : read_success(request, object, ret_answer);
    json_decref(object);
    return *ret_why == NULL ? 0 : ERR_INVALID;
}

void answer_done(struct sim_answer *answer)
{
    free((void *)answer->orders);
}

int ticket_read(struct span body, char *ret_ticket)
{
    json_t *object = json_loadb(body.at, body.len, 0, NULL);
    bool good = object != NULL && get_text(object, "ticket", ret_ticket, TICKET_TEXT + 1);
    json_decref(object);
    return good ? 0 : -1;
}
