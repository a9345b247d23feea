/*
 * See fiber.h.
 *
 * A fiber is entered by setcontext() and goes on by _longjmp(): swapcontext() asks the kernel for the
 * signal mask each time, which was two thirds of a seed. AddressSanitizer knows the stacks of
 * swapcontext() only, so its build stays with that.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* its _longjmp() takes a jump to another stack for a mistake */
#include "fiber.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/check.h"

#define STACK_BYTES (512U * 1024)
#define FIBERS_MAX 512

struct place {
    ucontext_t context;
    jmp_buf jump;
    bool left; /* by switch_to(), so `jump` leads there */
};

struct fiber {
    struct fibers *fibers;
    struct place place;
    void *stack;
    uint32_t group;
    void (*run)(void *context);
    void *argument;
    int64_t at_us;
    uint64_t order; /* of those of one time, the first goes on first */
    bool woken;
    bool ended;
};

struct fibers {
    struct place home;
    struct fiber *list[FIBERS_MAX];
    size_t count;
    void *stacks[FIBERS_MAX]; /* to be used again */
    size_t stacks_count;
    int64_t now_us;
    uint64_t orders;
    int64_t held_us[GROUPS_MAX];
};

static struct fiber *self;

static void switch_to(struct place *from, struct place *to)
{
#ifdef __SANITIZE_ADDRESS__
    CHECK(swapcontext(&from->context, &to->context) == 0);
#else
    from->left = true;
    if (_setjmp(from->jump) == 0) {
        if (to->left) {
            _longjmp(to->jump, 1);
        }
        (void)setcontext(&to->context);
        CHECK(false);
    }
#endif
}

struct fibers *fibers_new(void)
{
    struct fibers *fibers = calloc(1, sizeof(*fibers));
    CHECK(fibers != NULL);
    return fibers;
}

static void bury(struct fibers *fibers, size_t at)
{
    struct fiber *fiber = fibers->list[at];
    fibers->stacks[fibers->stacks_count++] = fiber->stack;
    fibers->list[at] = fibers->list[--fibers->count];
    free(fiber);
}

void fibers_free(struct fibers *fibers)
{
    CHECK(self == NULL);
    while (fibers->count > 0) {
        bury(fibers, fibers->count - 1);
    }
    for (size_t i = 0; i < fibers->stacks_count; i++) {
        (void)munmap(fibers->stacks[i], STACK_BYTES);
    }
    free(fibers);
}

static void enter(void)
{
    struct fiber *fiber = self;
    fiber->run(fiber->argument);
    fiber->ended = true;
    switch_to(&fiber->place, &fiber->fibers->home);
}

static void *new_stack(struct fibers *fibers)
{
    if (fibers->stacks_count > 0) {
        return fibers->stacks[--fibers->stacks_count];
    }
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(stack != MAP_FAILED);
    return stack;
}

struct fiber *fiber_start(struct fibers *fibers, uint32_t group, void (*run)(void *context),
                          void *context)
{
    struct fiber *fiber = calloc(1, sizeof(*fiber));
    CHECK(fiber != NULL && group < GROUPS_MAX && fibers->count < FIBERS_MAX);
    *fiber = (struct fiber){.fibers = fibers,
                            .stack = new_stack(fibers),
                            .group = group,
                            .run = run,
                            .argument = context,
                            .at_us = fibers->now_us,
                            .order = ++fibers->orders};
    ucontext_t *start = &fiber->place.context;
    CHECK(getcontext(start) == 0);
    start->uc_stack.ss_sp = fiber->stack;
    start->uc_stack.ss_size = STACK_BYTES;
    makecontext(start, enter, 0);
    fibers->list[fibers->count++] = fiber;
    return fiber;
}

void fibers_kill(struct fibers *fibers, uint32_t group)
{
    for (size_t i = fibers->count; i-- > 0;) {
        if (fibers->list[i]->group == group && fibers->list[i] != self) {
            bury(fibers, i);
        }
    }
    fibers->held_us[group] = 0;
}

void fibers_hold(struct fibers *fibers, uint32_t group, int64_t until_us)
{
    fibers->held_us[group] = until_us;
}

int64_t fibers_now_us(const struct fibers *fibers)
{
    return fibers->now_us;
}

static int64_t due_us(const struct fibers *fibers, const struct fiber *fiber)
{
    int64_t held_us = fibers->held_us[fiber->group];
    return fiber->at_us > held_us ? fiber->at_us : held_us;
}

bool fibers_step(struct fibers *fibers)
{
    size_t best = SIZE_MAX;
    int64_t best_us = INT64_MAX;
    for (size_t i = 0; i < fibers->count; i++) {
        int64_t at_us = due_us(fibers, fibers->list[i]);
        if (at_us == INT64_MAX || at_us > best_us) {
            continue;
        }
        if (best == SIZE_MAX || at_us < best_us ||
            fibers->list[i]->order < fibers->list[best]->order) {
            best = i;
            best_us = at_us;
        }
    }
    if (best == SIZE_MAX) {
        return false;
    }
    struct fiber *fiber = fibers->list[best];
    fibers->now_us = best_us > fibers->now_us ? best_us : fibers->now_us;
    self = fiber;
    switch_to(&fibers->home, &fiber->place);
    self = NULL;
    for (size_t i = 0; fiber->ended && i < fibers->count; i++) {
        if (fibers->list[i] == fiber) {
            bury(fibers, i);
            break;
        }
    }
    return true;
}

struct fiber *fiber_self(void)
{
    return self;
}

bool fiber_sleep(int64_t us)
{
    struct fiber *fiber = self;
    struct fibers *fibers = fiber->fibers;
    fiber->woken = false;
    fiber->at_us = us == INT64_MAX ? INT64_MAX : fibers->now_us + (us > 0 ? us : 0);
    fiber->order = ++fibers->orders;
    switch_to(&fiber->place, &fibers->home);
    return fiber->woken;
}

void fiber_wake(struct fiber *fiber, int64_t in_us)
{
    if (fiber == NULL || fiber == self) {
        return;
    }
    int64_t at_us = fiber->fibers->now_us + in_us;
    if (at_us < fiber->at_us) {
        fiber->at_us = at_us;
        fiber->order = ++fiber->fibers->orders;
        fiber->woken = true;
    }
}
