/*
 * One seed: draw the plan, run the heap until the crowd has had its fill, heal everything, wait for
 * the bound, and let the referee look at the end.
 */
#include "sim.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "obs/log.h"
#include "pages/static.h"
#include "plan.h"
#include "sim_private.h"

/* After healing: longer than any time to pay, any backoff of the ledger writer and any wait of a client. */
#define BOUND_US 60000000
/* When all orders are final: longer than the ledger writer's longest pause between two tries, so that
 * events whose answer was lost have been read again. */
#define SETTLE_US 8000000
#define STEPS_MAX 5000000

const char *sim_fault_text(enum sim_fault fault)
{
    static const char *const texts[] = {
#define X(name, text) [name] = text,
        SIM_FAULTS(X)
#undef X
    };
    return texts[fault];
}

const char *sim_call_text(enum sim_call call)
{
    static const char *const texts[] = {
#define X(name) [name] = #name,
        SIM_CALLS(X)
#undef X
    };
    return texts[call];
}

/* ---- drawing ---- */

int64_t sim_now_us(const struct sim *sim)
{
    return sim->now_us;
}

uint64_t sim_below(struct sim *sim, uint64_t bound)
{
    return prng_below(&sim->prng, bound);
}

bool sim_chance(struct sim *sim, uint32_t of_thousand)
{
    return of_thousand > 0 && prng_below(&sim->prng, 1000) < of_thousand;
}

int64_t sim_between(struct sim *sim, int64_t low, int64_t high)
{
    return low + (int64_t)prng_below(&sim->prng, (uint64_t)(high - low) + 1);
}

int64_t sim_about(struct sim *sim, int64_t mean_us)
{
    int64_t drawn = 1 + (int64_t)prng_below(&sim->prng, (uint64_t)mean_us * 2);
    return sim_chance(sim, 20) ? drawn * 10 : drawn;
}

/* ---- notes ---- */

static void hash_add(struct sim *sim, uint64_t value)
{
    sim->result.hash = (sim->result.hash ^ value) * 0x9e3779b97f4a7c15ULL;
    sim->result.hash ^= sim->result.hash >> 31;
}

static void note_print(FILE *file, int64_t at_us, const char *what, uint64_t a, uint64_t b,
                       uint64_t c)
{
    (void)fprintf(file, "%12.6f  %-40s %llu %llu %llu\n", (double)at_us / 1e6, what,
                  (unsigned long long)a, (unsigned long long)b, (unsigned long long)c);
}

void sim_note(struct sim *sim, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    size_t at = sim->notes_count++ % SIM_NOTES;
    sim->notes[at].at_us = sim->now_us;
    sim->notes[at].what = what;
    sim->notes[at].a = a;
    sim->notes[at].b = b;
    sim->notes[at].c = c;
    for (const char *p = what; *p != '\0'; p++) {
        sim->result.hash = (sim->result.hash ^ (uint8_t)*p) * 0x100000001b3ULL;
    }
    hash_add(sim, (uint64_t)sim->now_us);
    hash_add(sim, a);
    hash_add(sim, b);
    hash_add(sim, c);
    if (sim->options.trace) {
        note_print(stdout, sim->now_us, what, a, b, c);
    }
}

static void print_notes(struct sim *sim)
{
    uint64_t from = sim->notes_count > SIM_NOTES ? sim->notes_count - SIM_NOTES : 0;
    for (uint64_t i = from; sim->report != NULL && i < sim->notes_count; i++) {
        size_t at = i % SIM_NOTES;
        note_print(sim->report, sim->notes[at].at_us, sim->notes[at].what, sim->notes[at].a,
                   sim->notes[at].b, sim->notes[at].c);
    }
}

void sim_fault_happened(struct sim *sim, enum sim_fault fault)
{
    sim->result.faults[fault]++;
    sim_note(sim, sim_fault_text(fault), 0, 0, 0);
}

void sim_broken(struct sim *sim, int promise, const char *format, ...)
{
    if (sim->result.broken) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sim->result.what, sizeof(sim->result.what), format, arguments);
    va_end(arguments);
    sim->result.broken = true;
    sim->result.promise = promise;
    sim_note(sim, "a promise is broken", (uint64_t)promise, 0, 0);
    print_notes(sim);
}

bool sim_is_broken(const struct sim *sim)
{
    return sim->result.broken;
}

/* ---- the heap ---- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

uint64_t sim_after(struct sim *sim, int64_t delay_us, const char *what, sim_run_event *run,
                   uint32_t target, uint64_t a)
{
    CHECK(delay_us >= 0);
    if (sim->heap_count == sim->heap_cap) {
        sim->heap_cap = sim->heap_cap == 0 ? 1024 : sim->heap_cap * 2;
        sim->heap = realloc(sim->heap, sim->heap_cap * sizeof(*sim->heap));
        CHECK(sim->heap != NULL);
    }
    struct sim_event event = {sim->now_us + delay_us, ++sim->sequence, what, run, target, a};
    size_t at = sim->heap_count++;
    while (at > 0 && before(&event, &sim->heap[(at - 1) / 2])) {
        sim->heap[at] = sim->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->heap[at] = event;
    return event.sequence;
}

static struct sim_event heap_take(struct sim *sim)
{
    struct sim_event first = sim->heap[0];
    struct sim_event last = sim->heap[--sim->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sim->heap_count) {
            break;
        }
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child])) {
            child++;
        }
        if (!before(&sim->heap[child], &last)) {
            break;
        }
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return first;
}

/* Runs the heap up to until_us; false: a promise is broken. */
static bool run_until(struct sim *sim, int64_t until_us, bool (*enough)(struct sim *sim))
{
    while (!sim->result.broken && sim->heap_count > 0 && sim->heap[0].at_us <= until_us) {
        struct sim_event event = heap_take(sim);
        sim->now_us = event.at_us;
        event.run(sim, event.target, event.a);
        if (sim->result.steps > STEPS_MAX) {
            sim_broken(sim, 0, "no end after %d steps", STEPS_MAX);
        }
        if (enough != NULL && enough(sim)) {
            return !sim->result.broken;
        }
    }
    if (!sim->result.broken && sim->now_us < until_us) {
        sim->now_us = until_us;
    }
    return !sim->result.broken;
}

/* ---- healing and the end ---- */

bool sim_fault_on(const struct sim *sim, enum sim_fault fault)
{
    return (sim->plan.faults >> fault & 1) != 0;
}

void sim_disturb(struct sim *sim, int64_t us)
{
    int64_t until = sim->now_us + us;
    sim->disturbed_until_us = until > sim->disturbed_until_us ? until : sim->disturbed_until_us;
}

static bool crowd_had_enough(struct sim *sim)
{
    return sim->result.requests >= sim->plan.requests && sim->now_us >= sim->plan.length_us;
}

static bool all_final(struct sim *sim)
{
    return crowd_idle(sim) && referee_unfinished(sim->referee) == 0 &&
           sim->process.state == PROCESS_UP;
}

static void heal(struct sim *sim)
{
    sim_note(sim, "everything heals", 0, 0, 0);
    sim->healed = true;
    sim->closing = true;
    sim_disk_calm(sim);
    sim->writer.down = sim->reader.down = false;
    sim->writer.lose = sim->writer.delay = 0;
    sim->gate.lost = sim->gate.nobody = 0;
    memset(sim->process.paused_until_us, 0, sizeof(sim->process.paused_until_us));
}

/* Within the bound everything becomes final, then everything is compared; then once more after a
 * restart from disk. */
static void finish(struct sim *sim)
{
    struct referee_view view;
    heal(sim);
    if (!run_until(sim, sim->now_us + BOUND_US, all_final)) {
        return;
    }
    if (!all_final(sim)) {
        sim_broken(sim, 13, "%llu unfinished %d s after everything healed; the server is %s",
                   (unsigned long long)referee_unfinished(sim->referee), BOUND_US / 1000000,
                   sim->process.state == PROCESS_UP ? "up" : "down");
        return;
    }
    if (!run_until(sim, sim->now_us + SETTLE_US, NULL)) {
        return;
    }
    process_view(sim, &view);
    referee_end(sim->referee, &view);
    if (sim->result.broken) {
        return;
    }
    process_power_cut(sim);
    process_start(sim);
    if (!run_until(sim, sim->now_us + SETTLE_US, NULL)) {
        return;
    }
    if (sim->process.state != PROCESS_UP) {
        sim_broken(sim, 13, "the server is not up after the last restart");
        return;
    }
    process_view(sim, &view);
    referee_end(sim->referee, &view);
}

/* ---- a seed ---- */

static struct sim *current; /* whose randomness libsodium hands out */

static uint32_t random_u32(void)
{
    return (uint32_t)prng_next(&current->random);
}

static void random_bytes(void *const bytes, const size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)prng_next(&current->random);
    }
}

static const char *random_name(void)
{
    return "simulated";
}

static void start_once(void)
{
    static bool done;
    static struct randombytes_implementation implementation = {
        .implementation_name = random_name, .random = random_u32, .buf = random_bytes};
    if (!done) {
        done = true;
        CHECK(randombytes_set_implementation(&implementation) == 0);
        CHECK(crypt_start() == 0);
        CHECK(static_start(web_assets, web_assets_count) == 0);
    }
}

void sim_run(const struct sim_options *options, struct sim_result *ret_result, void *report)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    CHECK(sim != NULL);
    current = sim;
    sim->options = *options;
    sim->report = report;
    sim->prng = prng_of(options->seed * 0x9e3779b97f4a7c15ULL + 1);
    start_once(); /* libsodium draws when it starts: before the seed's own stream begins */
    sim->random = prng_of(~options->seed);
    log_set_level(getenv("SIM_LOG") != NULL ? LOG_INFO : (enum log_level)(LOG_ERROR + 1));
    plan_draw(sim);
    sim->referee = referee_new(sim);
    sim->fibers = fibers_new();
    sim_clock_init(sim);
    sim_disk_init(sim);
    sim_ledger_init(sim);
    sim_gate_init(sim);
    sim_net_init(sim);
    crowd_init(sim);
    process_start(sim);
    plan_faults(sim);
    crowd_start(sim);
    /* However slow the network: the crowd asks again and again, so it gets there. */
    if (run_until(sim, INT64_MAX / 2, crowd_had_enough)) {
        finish(sim);
    }
    sim->result.virtual_us = (uint64_t)sim->now_us;
    referee_count(sim->referee, &sim->result);
    crowd_done(sim);
    process_free(sim);
    sim_net_done(sim);
    sim_ledger_done(sim);
    sim_gate_done(sim);
    sim->disk.hook = NULL;
    ram_disk_done(&sim->disk);
    fibers_free(sim->fibers);
    referee_free(sim->referee);
    free(sim->heap);
    *ret_result = sim->result;
    free(sim);
}
