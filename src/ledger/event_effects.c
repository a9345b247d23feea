/* See event_effects.h. Pure, except for the log. */
#include "ledger/event_effects.h"

#include "obs/log.h"

/* Orders and buyers freed in one hold of the gate's lock: about a millisecond. */
#define FORGET_STEP 4096

static enum gate_kind command_kind(enum ledger_event_kind kind)
{
    switch (kind) {
    case EVENT_ORDER_LOCKED:
        return GATE_CONFIRM;
    case EVENT_ORDER_FAILED:
        return GATE_FAIL_ORDER;
    case EVENT_ORDER_PAID:
        return GATE_PAY;
    case EVENT_ORDER_EXPIRED:
        return GATE_EXPIRE;
    case EVENT_ORDER_CANCELLED:
        return GATE_CANCEL;
    case EVENT_ITEM_RESTOCKED:
        return GATE_RESTOCK;
    case EVENT_SALE_WARMED:
        return GATE_LOAD_SALE;
    case EVENT_ITEM_LOADED:
        return GATE_LOAD_ITEM;
    case EVENT_SALE_OPENED:
        return GATE_OPEN;
    case EVENT_SALE_PAUSED:
        return GATE_PAUSE;
    case EVENT_SALE_CLOSED:
        return GATE_CLOSE;
    case EVENT_SALE_CHANGED:
        return GATE_RETIME;
    case EVENT_SALE_FORGOTTEN:
        return GATE_FORGET;
    case EVENT_ITEM_TRANSFERRED:
        return GATE_TRANSFER_IN;
    default:
        return GATE_SKIP;
    }
}

void event_effects_command(const struct ledger_event *event, int64_t now_ms,
                           struct gate_command *ret_command)
{
    *ret_command = (struct gate_command){
        .kind = command_kind(event->kind),
        .now_ms = now_ms,
        .event = event->number,
        .id = event->id,
        .user = event->user,
        .item = event->item,
        .sale = event->sale,
        .qty = event->kind == EVENT_SALE_FORGOTTEN ? FORGET_STEP : event->qty,
        .reason = (uint32_t)event->reason,
    };
    struct gate_command *command = ret_command;
    switch (event->kind) {
    case EVENT_ORDER_CANCELLED:
        command->kind = event->reason == REFUSAL_BARRED ? GATE_CANCEL_LATE
                        : event->a != 0                 ? GATE_CANCEL_COOLING
                                                        : GATE_CANCEL;
        command->time_ms = (uint64_t)event->a;
        break;
    case EVENT_ORDER_EXPIRED:
        command->kind = event->a != 0 ? GATE_EXPIRE_COOLING : GATE_EXPIRE;
        command->time_ms = (uint64_t)event->a;
        break;
    case EVENT_ORDER_LOCKED:
        command->time_ms = (uint64_t)event->a;
        break;
    case EVENT_ITEM_RESTOCKED:
    case EVENT_ITEM_TRANSFERRED:
        command->amount = (uint64_t)event->a;
        break;
    case EVENT_SALE_WARMED:
        command->starts_at_ms = (uint64_t)event->a;
        command->ends_at_ms = (uint64_t)event->b;
        command->bar_unpaid = event->c != 0;
        break;
    case EVENT_ITEM_LOADED:
        command->amount = (uint64_t)event->a;
        command->limit = (uint32_t)event->b;
        break;
    case EVENT_SALE_OPENED:
        command->starts_at_ms = (uint64_t)event->a;
        break;
    case EVENT_SALE_CHANGED:
        command->ends_at_ms = (uint64_t)event->a;
        break;
    default:
        break;
    }
}

bool event_effects_catalog(enum ledger_event_kind kind)
{
    return kind == EVENT_SALE_WARMED || kind == EVENT_SALE_OPENED || kind == EVENT_SALE_PAUSED ||
           kind == EVENT_SALE_CLOSED || kind == EVENT_SALE_CHANGED;
}

void event_effects_count(struct metrics_slot *metrics, const struct ledger_event *event)
{
    switch (event->kind) {
    case EVENT_ORDER_LOCKED:
        metrics_add(metrics, METRIC_ORDERS_LOCKED_TOTAL, 1);
        break;
    case EVENT_ORDER_FAILED:
        metrics_add(metrics, METRIC_ORDERS_FAILED_TOTAL, 1);
        break;
    case EVENT_ORDER_PAID:
        metrics_add(metrics, METRIC_ORDERS_PAID_TOTAL, 1);
        break;
    case EVENT_ORDER_EXPIRED:
        metrics_add(metrics, METRIC_ORDERS_EXPIRED_TOTAL, 1);
        break;
    case EVENT_ORDER_CANCELLED:
        metrics_add(metrics, METRIC_ORDERS_CANCELLED_TOTAL, 1);
        break;
    default:
        break;
    }
}

void event_effects_log(const struct ledger_event *event)
{
    const char *name = ledger_event_text(event->kind);
    switch (event->kind) {
    case EVENT_ITEM_RESTOCKED:
        log_event(LOG_INFO, name, LOG_U64("item", event->item), LOG_I64("units", event->a));
        break;
    case EVENT_SALE_WARMED:
    case EVENT_SALE_OPENED:
    case EVENT_SALE_PAUSED:
    case EVENT_SALE_CLOSED:
    case EVENT_SALE_CHANGED:
    case EVENT_SALE_FORGOTTEN:
        log_event(LOG_INFO, name, LOG_U64("sale", event->sale), LOG_U64("event", event->number));
        break;
    case EVENT_ORDER_FAILED: {
        /* The ledger refused what the gate had accepted. That is never the buyer's fault. */
        char id[ORDER_ID_TEXT];
        order_id_text(event->id, id);
        log_event(LOG_WARN, name, LOG_SPAN("order", ((struct span){id, sizeof(id)})),
                  LOG_U64("item", event->item), LOG_U64("qty", event->qty),
                  LOG_STR("reason", refusal_text(event->reason)->code));
        break;
    }
    default:
        break;
    }
}
