/* See fault.h. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct {
    struct fault_plan plan;
    bool armed;
    bool running; /* armed, and not yet passed */
    bool inside;
    uint64_t calls; /* of the plan's kind */
    uint64_t fired;
    int64_t live;
    uint64_t total_fired;
    uint64_t total_runs;
} state;

const char *fault_text(enum fault_kind kind)
{
    static const char *const texts[] = {
#define X(name, text) text,
        FAULTS(X)
#undef X
    };
    return texts[kind];
}

void fault_passed(void)
{
    state.running = false;
}

int fault_explain(void **unused)
{
    static const char *const done[] = {"nothing", "half", "all"};
    (void)unused;
    if (state.running) {
        printf("    failed with %s %llu%s, having done %s\n", fault_text(state.plan.kind),
               (unsigned long long)state.plan.nth, state.plan.forever ? " and all later ones" : "",
               done[state.plan.done]);
    }
    state.running = false;
    state.armed = false;
    state.inside = false;
    return 0;
}

void fault_arm(struct fault_plan plan)
{
    CHECK(!state.armed && plan.nth > 0 && !state.inside);
    state.plan = plan;
    state.armed = true;
    state.running = true;
    state.calls = 0;
    state.fired = 0;
}

uint64_t fault_disarm(void)
{
    CHECK(!state.inside);
    state.armed = false;
    return state.fired;
}

bool fault_enter(void)
{
    bool inside = state.inside;
    state.inside = true;
    return inside;
}

bool fault_leave(void)
{
    bool inside = state.inside;
    state.inside = false;
    return inside;
}

void fault_back(bool inside)
{
    state.inside = inside;
}

bool fault_strikes(enum fault_kind kind)
{
    if (!state.armed || !state.inside || kind != state.plan.kind) {
        return false;
    }
    state.calls++;
    bool strikes =
        state.calls == state.plan.nth || (state.plan.forever && state.calls > state.plan.nth);
    state.fired += strikes;
    return strikes;
}

enum fault_done fault_done(void)
{
    return state.plan.done;
}

bool fault_forever(void)
{
    return state.plan.forever;
}

bool sweep_long(void)
{
    const char *text = getenv("SLUICE_LONG");
    return text != NULL && strcmp(text, "1") == 0;
}

uint64_t sweep_seed(uint64_t usual)
{
    const char *text = getenv("SLUICE_SEED");
    return text == NULL ? usual : strtoull(text, NULL, 10);
}

int64_t fault_live(void)
{
    return state.live;
}

void fault_report(const char *scenario, enum fault_kind kind, uint64_t fired, uint64_t runs)
{
    if (fired > 0) {
        printf("    %-28s %-14s %8llu faults in %7llu runs\n", scenario, fault_text(kind),
               (unsigned long long)fired, (unsigned long long)runs);
    }
    state.total_fired += fired;
    state.total_runs += runs;
}

uint64_t fault_report_total(const char *what)
{
    uint64_t fired = state.total_fired;
    printf("%s: %llu faults fired in %llu runs\n", what, (unsigned long long)fired,
           (unsigned long long)state.total_runs);
    state.total_fired = 0;
    state.total_runs = 0;
    return fired;
}

/* ---- the wrapped functions: names are the linker's ---- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *old, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void __real_free(void *memory);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void __wrap_free(void *memory);

static void *counted(void *memory)
{
    state.live += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t n)
{
    return fault_strikes(FAULT_MALLOC) ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t count, size_t n)
{
    return fault_strikes(FAULT_MALLOC) ? NULL : counted(__real_calloc(count, n));
}

void *__wrap_realloc(void *old, size_t n)
{
    if (fault_strikes(FAULT_MALLOC)) {
        return NULL;
    }
    return old == NULL ? counted(__real_realloc(old, n)) : __real_realloc(old, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fault_strikes(FAULT_MALLOC) ? NULL : counted(__real_aligned_alloc(alignment, n));
}

void __wrap_free(void *memory)
{
    state.live -= memory != NULL;
    __real_free(memory);
}
