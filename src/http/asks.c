/*
 * Asks of the gate, see front_ask() in front.h.
 *
 * Happy path of the embedded engine: an ask is taken from the top of the pool (it is warm there),
 * answered inside gate_submit, told, and put back; nothing is allocated and nothing is copied. With a
 * gate on another machine the ask stays where it is until gate_collect brings it back: it is the
 * gate's meanwhile, whatever becomes of the connection.
 *
 * What stays true: an ask is put back exactly once, after it came back; a front ends only when all
 * have (draining waits for them).
 */
#include <sys/mman.h>

#include "base/check.h"
#include "base/err.h"
#include "http/front_private.h"

int asks_start(struct front *front)
{
    /* One for each connection, and as many again for those whose connection has gone. */
    front->asks_capacity = front->slots_count * 2;
    /* Mapped, not allocated: with the embedded engine only the first few are ever touched. */
    void *asks = mmap(NULL, (size_t)front->asks_capacity * sizeof(*front->asks),
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (asks == MAP_FAILED) {
        return ERR_NOMEM;
    }
    front->asks = asks;
    return 0;
}

void asks_done(struct front *front)
{
    if (front->asks != NULL) {
        (void)munmap(front->asks, (size_t)front->asks_capacity * sizeof(*front->asks));
    }
}

struct front_ask *front_ask_new(struct asking *asking, enum gate_question question,
                                enum http_outcome (*done)(struct asking *asking,
                                                          struct front_ask *ask))
{
    struct front *front = asking->front;
    struct front_ask *ask = front->asks_free;
    if (ask != NULL) {
        front->asks_free = (struct front_ask *)ask->gate.next;
    } else if (front->asks_fresh < front->asks_capacity) {
        ask = &front->asks[front->asks_fresh++];
    } else {
        return NULL;
    }
    front->asks_used++;
    *ask = (struct front_ask){
        .gate = {.question = question, .loop = front->loop, .user = asking->user},
        .exchange = asking->exchange,
        .done = done};
    return ask;
}

static void ask_free(struct front *front, struct front_ask *ask)
{
    if (ask->call != NULL) {
        front_call_free(front, ask->call);
    }
    ask->gate.next = (struct gate_ask *)front->asks_free;
    front->asks_free = ask;
    front->asks_used--;
}

enum http_outcome front_ask(struct asking *asking, struct front_ask *ask)
{
    struct front *front = asking->front;
    if (gate_submit(front->gate, &ask->gate) == GATE_ASKED) {
        return HTTP_PENDING;
    }
    enum http_outcome outcome = ask->done(asking, ask);
    ask_free(front, ask);
    return outcome;
}

bool front_asks_scarce(const struct front *front)
{
    return front->asks_used >= front->asks_capacity / 2;
}

static void ask_answered(struct front *front, struct front_ask *ask)
{
    struct asking asking = {
        .front = front, .exchange = ask->exchange, .user = ask->gate.user, .now_ms = front->now_ms};
    if (ask->query != NULL || http_alive(front->server, ask->exchange)) {
        (void)ask->done(&asking, ask);
    }
    ask_free(front, ask);
}

bool asks_collect(struct front *front)
{
    bool any = false;
    struct gate_ask *asks;
    while ((asks = gate_collect(front->gate, front->loop)) != NULL) {
        any = true;
        while (asks != NULL) {
            struct front_ask *ask = (struct front_ask *)asks;
            asks = asks->next;
            ask_answered(front, ask);
        }
    }
    return any;
}

bool front_item(struct front *front, uint64_t item, struct item_view *ret_view)
{
    struct gate_ask ask = {.question = ASK_ITEM, .loop = front->loop, .item = item};
    CHECK(gate_submit(front->gate, &ask) == GATE_ANSWERED);
    if (ask.refusal != REFUSAL_NONE) {
        return false;
    }
    *ret_view = ask.view;
    return true;
}
