/* See gate_event_sink.h. */
#include "embedded/gate_event_sink.h"

#include "base/err.h"
#include "ledger/event_effects.h"
#include "obs/log.h"

static int apply_one(struct embedded_gate *engine, const struct ledger_event *event, int64_t now_ms)
{
    struct gate_command command;
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    event_effects_command(event, now_ms, &command);
    int error;
    do {
        error = embedded_gate_apply(engine, &command, &lsn, &refusal);
    } while (error == ERR_AGAIN);
    if (error == ERR_INVALID) {
        log_event(LOG_ERROR, "gate.event_refused", LOG_U64("event", event->number),
                  LOG_STR("kind", ledger_event_text(event->kind)),
                  LOG_STR("refusal", refusal_text(refusal)->code));
        command =
            (struct gate_command){.kind = GATE_SKIP, .now_ms = now_ms, .event = event->number};
        error = embedded_gate_apply(engine, &command, &lsn, &refusal);
    }
    return error;
}

static int apply(struct event_sink *event_sink, const struct ledger_event *events, size_t count,
                 int64_t now_ms)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < count; i++) {
        error = apply_one(((struct gate_event_sink *)event_sink)->engine, &events[i], now_ms);
    }
    return error;
}

static uint64_t applied(struct event_sink *event_sink)
{
    return embedded_gate_applied_event(((struct gate_event_sink *)event_sink)->engine);
}

static int64_t turn(struct event_sink *event_sink, int64_t now_ms, bool hurry)
{
    (void)hurry;
    /* The ledger writer calls this between its batches, at least once a second. */
    return embedded_gate_evict(((struct gate_event_sink *)event_sink)->engine, now_ms);
}

static bool is_behind(struct event_sink *event_sink, int32_t segment)
{
    (void)event_sink;
    (void)segment;
    return false;
}

static void room(struct event_sink *event_sink, uint32_t *ret_sales, uint32_t *ret_items)
{
    embedded_gate_room(((struct gate_event_sink *)event_sink)->engine, ret_sales, ret_items);
}

static bool is_idle(struct event_sink *event_sink, uint64_t sale)
{
    return embedded_gate_sale_idle(((struct gate_event_sink *)event_sink)->engine, sale);
}

static const struct event_sink_ops ops = {apply, applied, turn, is_behind, room, is_idle};

void gate_event_sink_init(struct gate_event_sink *ret_event_sink, struct embedded_gate *engine)
{
    *ret_event_sink = (struct gate_event_sink){.event_sink = {&ops}, .engine = engine};
}
