/*
 * Asks of the gate, see api_gate_request() in api.h.
 *
 * Happy path of the embedded engine: an ask is taken from the top of the pool (it is warm there),
 * answered inside gate_submit, told, and put back; nothing is allocated and nothing is copied. With a
 * gate on another machine the ask stays where it is until gate_collect brings it back: it is the
 * gate's meanwhile, whatever becomes of the connection.
 *
 * What stays true: a request is put back exactly once, after it came back; a worker ends only when all
 * have (draining waits for them).
 */
#include <sys/mman.h>

#include "api/api_private.h"
#include "base/check.h"
#include "base/err.h"

int gate_requests_start(struct api_worker *worker)
{
    worker->requests_capacity = worker->slots_count * REQUESTS_PER_CONNECTION;
    /* Mapped, not allocated: with the embedded engine only the first few are ever touched. */
    void *requests =
        mmap(NULL, (size_t)worker->requests_capacity * sizeof(*worker->requests),
             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (requests == MAP_FAILED) {
        return ERR_NOMEM;
    }
    worker->requests = requests;
    return 0;
}

void gate_requests_done(struct api_worker *worker)
{
    if (worker->requests != NULL) {
        (void)munmap(worker->requests,
                     (size_t)worker->requests_capacity * sizeof(*worker->requests));
    }
}

struct api_gate_request *api_gate_request_new(
    struct api_request *req, enum gate_request_kind kind,
    enum http_outcome (*done)(struct api_request *req, struct api_gate_request *request))
{
    struct api_worker *worker = req->worker;
    struct api_gate_request *request = worker->requests_free;
    if (request != NULL) {
        worker->requests_free = (struct api_gate_request *)request->gate.next;
    } else if (worker->requests_fresh < worker->requests_capacity) {
        request = &worker->requests[worker->requests_fresh++];
    } else {
        return NULL;
    }
    worker->requests_used++;
    *request =
        (struct api_gate_request){.gate = {.kind = kind, .loop = worker->loop, .user = req->user},
                                  .exchange = req->exchange,
                                  .done = done};
    return request;
}

static void ask_free(struct api_worker *worker, struct api_gate_request *request)
{
    if (request->call != NULL) {
        api_write_free(worker, request->call);
    }
    request->gate.next = (struct gate_request *)worker->requests_free;
    worker->requests_free = request;
    worker->requests_used--;
}

enum http_outcome api_gate_request(struct api_request *req, struct api_gate_request *request)
{
    struct api_worker *worker = req->worker;
    if (gate_submit(worker->gate, &request->gate) == GATE_PENDING) {
        return HTTP_PENDING;
    }
    enum http_outcome outcome = request->done(req, request);
    ask_free(worker, request);
    return outcome;
}

bool api_gate_requests_scarce(const struct api_worker *worker)
{
    return worker->requests_used >= worker->requests_capacity / 2;
}

static void ask_answered(struct api_worker *worker, struct api_gate_request *request)
{
    struct api_request req = {.worker = worker,
                              .exchange = request->exchange,
                              .user = request->gate.user,
                              .now_ms = worker->now_ms};
    if (request->query != NULL || http_alive(worker->server, request->exchange)) {
        (void)request->done(&req, request);
    }
    ask_free(worker, request);
}

bool gate_requests_collect(struct api_worker *worker)
{
    bool any = false;
    struct gate_request *requests;
    while ((requests = gate_collect(worker->gate, worker->loop)) != NULL) {
        any = true;
        while (requests != NULL) {
            struct api_gate_request *request = (struct api_gate_request *)requests;
            requests = requests->next;
            ask_answered(worker, request);
        }
    }
    return any;
}

static bool look_up_item(struct api_worker *worker, uint64_t item, bool catalog_locked,
                         struct item_view *ret_view)
{
    struct gate_request request = {.kind = GATE_REQUEST_ITEM,
                                   .loop = worker->loop,
                                   .item = item,
                                   .catalog_locked = catalog_locked};
    CHECK(gate_submit(worker->gate, &request) == GATE_ANSWERED);
    if (request.refusal != REFUSAL_NONE) {
        return false;
    }
    *ret_view = request.view;
    return true;
}

bool api_item(struct api_worker *worker, uint64_t item, struct item_view *ret_view)
{
    return look_up_item(worker, item, false, ret_view);
}

bool api_item_locked(struct api_worker *worker, uint64_t item, struct item_view *ret_view)
{
    return look_up_item(worker, item, true, ret_view);
}
