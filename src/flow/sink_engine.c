/* See sink_engine.h. */
#include "flow/sink_engine.h"

#include "base/err.h"
#include "flow/apply.h"
#include "obs/log.h"

static int apply_one(struct engine *engine, const struct ledger_event *event, int64_t now_ms)
{
    struct gate_command command;
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    apply_command(event, now_ms, &command);
    int error;
    do {
        error = engine_apply(engine, &command, &lsn, &refusal);
    } while (error == ERR_AGAIN);
    if (error == ERR_INVALID) {
        log_event(LOG_ERROR, "gate.event_refused", LOG_U64("event", event->number),
                  LOG_STR("kind", ledger_event_text(event->kind)),
                  LOG_STR("refusal", refusal_text(refusal)->code));
        command =
            (struct gate_command){.kind = GATE_SKIP, .now_ms = now_ms, .event = event->number};
        error = engine_apply(engine, &command, &lsn, &refusal);
    }
    return error;
}

static int apply(struct sink *sink, const struct ledger_event *events, size_t count, int64_t now_ms)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < count; i++) {
        error = apply_one(((struct sink_engine *)sink)->engine, &events[i], now_ms);
    }
    return error;
}

static uint64_t applied(struct sink *sink)
{
    return engine_applied_event(((struct sink_engine *)sink)->engine);
}

static int64_t turn(struct sink *sink, int64_t now_ms, bool hurry)
{
    (void)sink;
    (void)now_ms;
    (void)hurry;
    return INT64_MAX;
}

static bool is_behind(struct sink *sink, int32_t segment)
{
    (void)sink;
    (void)segment;
    return false;
}

static void room(struct sink *sink, uint32_t *ret_sales, uint32_t *ret_items)
{
    engine_room(((struct sink_engine *)sink)->engine, ret_sales, ret_items);
}

static bool is_idle(struct sink *sink, uint64_t sale)
{
    return engine_sale_idle(((struct sink_engine *)sink)->engine, sale);
}

static const struct sink_ops ops = {apply, applied, turn, is_behind, room, is_idle};

void sink_engine_init(struct sink_engine *ret_sink, struct engine *engine)
{
    *ret_sink = (struct sink_engine){.sink = {&ops}, .engine = engine};
}
