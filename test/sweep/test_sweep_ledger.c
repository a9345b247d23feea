/*
 * Sweeps over the SQLite ledger: opening, migrating, batches, queries and closing, with the 1st,
 * 2nd, 3rd ... call failing of malloc (ours and SQLite's), of open, read, write, sync, truncate,
 * delete and of the shared memory, once or from then on, until no fault strikes any more.
 *
 * Each time: the outcome is 0 or a code of base/err.h; nothing is leaked; a query's answer is right
 * or an error; and a batch is there whole or not at all, and whole if it was acknowledged. That
 * holds for the same instance going on, for a process that was killed (the files as they are) and
 * for a loss of power (the files as they were synced); and the batch sent again gives what it gives
 * once.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/sqlite/schema.h"
#include "backend/sqlite/store.h"
#include "base/check.h"
#include "fault.h"
#include "fault_sqlite.h"
#include "ledger_world.h"

static char folder[] = "/tmp/sluice-sweep-XXXXXX";
static struct fixture fixture;

/* Where the scenarios begin. */
static struct fault_files empty;  /* nothing */
static struct fault_files filled; /* closed in order */
static struct fault_files killed; /* the same, with all of it still in the WAL */
static struct fault_files older;  /* filled, of a schema before two more steps */

static char answers[LEDGER_WORLD_ANSWERS];
static char expected_answers[LEDGER_WORLD_ANSWERS];

/* The steps there are (a new one belongs here, too), and two more. */
static const struct schema_step later_steps[] = {
    {SCHEMA_1_SALES SCHEMA_1_ORDERS SCHEMA_1_MONEY},
    {SCHEMA_2_CURSORS},
    {SCHEMA_3_SALE_CHANGES},
    {SCHEMA_4_SUMS},
    {SCHEMA_5_COOLING},
    {SCHEMA_6_BLOCKS},
    {"ALTER TABLE sales ADD COLUMN note TEXT; UPDATE sales SET note = name || '!';"},
    {"CREATE TABLE later(id INTEGER PRIMARY KEY, note TEXT);"
     "INSERT INTO later SELECT id, note FROM sales; CREATE INDEX by_note ON later(note);"},
};

_Static_assert(sizeof(later_steps) / sizeof(later_steps[0]) == SCHEMA_STEPS_COUNT + 2,
               "all steps of the schema, and two more");

static int open_usual(struct ledger **ret_ledger)
{
    return PRODUCT(ledger_sqlite_open(fixture.path, READ_WRITE, ret_ledger));
}

static int open_later(struct ledger **ret_ledger)
{
    return PRODUCT(store_open(fixture.path, READ_WRITE, later_steps,
                              sizeof(later_steps) / sizeof(later_steps[0]), ret_ledger));
}

static int open_reader(struct ledger **ret_ledger)
{
    return PRODUCT(ledger_sqlite_open(fixture.path, READ_ONLY, ret_ledger));
}

static void close_ledger(struct ledger *ledger)
{
    bool inside = fault_enter();
    ledger_sqlite_close(ledger);
    fault_back(inside);
}

/* ---- scenarios ---- */

struct scenario {
    const char *name;
    const struct fault_files *files;
    int (*open)(struct ledger **ret_ledger);      /* under faults, unless there is a run */
    int (*run)(struct ledger *ledger);            /* under faults */
    void (*batch)(struct world_batch *ret_batch); /* what run sends */
    void (*prepare)(struct ledger *ledger);       /* after open, before run */
    bool closes;                                  /* closing is under faults, too */
};

static const struct scenario *scenario;
static struct world_batch batch;
static uint64_t digest_before; /* of a ledger at which nothing was done */
static uint64_t digest_after;  /* and at which all was */

static int send_batch(struct ledger *ledger)
{
    scenario->batch(&batch);
    (void)PRODUCT(ledger_write(ledger, &batch.batch));
    int error = batch.batch.error;
    if (error != 0) {
        assert_int_equal(batch.batch.events_count, 0);
    }
    world_batch_clear(&batch);
    return error;
}

static int request(struct ledger *ledger)
{
    int error = ledger_world_ask(ledger, answers);
    if (error == 0 && expected_answers[0] != '\0' && strcmp(answers, expected_answers) != 0) {
        size_t i = 0;
        while (answers[i] == expected_answers[i]) {
            i++;
        }
        i = i < 40 ? 0 : i - 40;
        fail_msg("a wrong answer:\n%.200s\ninstead of\n%.200s", answers + i, expected_answers + i);
    }
    return error;
}

static int do_nothing(struct ledger *ledger)
{
    (void)ledger;
    return 0;
}

/* As if enough had been written: the next batch folds the WAL into the file first. */
static void wal_is_long(struct ledger *ledger)
{
    store_of(ledger)->wal_pages = 8192;
}

static void wal_is_overlong(struct ledger *ledger)
{
    store_of(ledger)->wal_pages = 32768;
}

static const struct scenario scenarios[] = {
    {.name = "open, fresh", .files = &empty, .open = open_usual},
    {.name = "open, existing", .files = &filled, .open = open_usual},
    {.name = "open after a kill", .files = &killed, .open = open_usual},
    {.name = "migrate by two steps", .files = &older, .open = open_later},
    {.name = "batch of every kind",
     .files = &filled,
     .open = open_usual,
     .run = send_batch,
     .batch = world_batch_plain},
    {.name = "batch done one by one",
     .files = &filled,
     .open = open_usual,
     .run = send_batch,
     .batch = world_batch_careful},
    {.name = "batch that folds the WAL",
     .files = &killed,
     .open = open_usual,
     .run = send_batch,
     .batch = world_batch_careful,
     .prepare = wal_is_long},
    {.name = "batch that cuts the WAL",
     .files = &killed,
     .open = open_usual,
     .run = send_batch,
     .batch = world_batch_careful,
     .prepare = wal_is_overlong},
    {.name = "queries of the writer", .files = &filled, .open = open_usual, .run = request},
    {.name = "queries of a reader", .files = &filled, .open = open_reader, .run = request},
    {.name = "close", .files = &killed, .open = open_usual, .run = do_nothing, .closes = true},
};

/* ---- what is left ---- */

/* Files that were found good already: the same bytes are not looked at twice. */
static struct {
    uint64_t hashes[4096];
    size_t count;
} good[2];

static bool known_good(const struct fault_files *files, bool acknowledged)
{
    uint64_t hash = fault_files_hash(files);
    for (size_t i = 0; i < good[acknowledged].count; i++) {
        if (good[acknowledged].hashes[i] == hash) {
            return true;
        }
    }
    if (good[acknowledged].count < sizeof(good[0].hashes) / sizeof(good[0].hashes[0])) {
        good[acknowledged].hashes[good[acknowledged].count++] = hash;
    }
    return false;
}

/* Another process opens the files: it finds all or nothing, and all if the commit was reported. */
static void expect_whole(const struct fault_files *files, bool acknowledged, const char *how)
{
    if (known_good(files, acknowledged)) {
        return;
    }
    struct ledger *ledger = NULL;
    fault_sqlite_fresh(files);
    uint64_t digest = files->file[0].bytes == NULL ? 0 : ledger_world_digest(fixture.path);
    fault_sqlite_fresh(files);
    if (scenario->run != NULL && digest != digest_after &&
        (acknowledged || digest != digest_before)) {
        fail_msg("%s: %s", how, acknowledged ? "what was acknowledged is lost" : "half a batch");
    }
    int error = (scenario->open == open_later ? open_later : open_usual)(&ledger);
    if (error != 0) {
        fail_msg("%s: cannot be opened: %s", how, ledger_sqlite_error(NULL));
    }
    if (scenario->batch != NULL) {
        assert_int_equal(send_batch(ledger), 0);
    }
    ledger_sqlite_close(ledger);
    assert_int_equal(ledger_world_digest(fixture.path), digest_after);
}

static void digest_of(void)
{
    struct ledger *ledger = NULL;
    fault_sqlite_fresh(scenario->files);
    digest_before = scenario->files->file[0].bytes == NULL ? 0 : ledger_world_digest(fixture.path);
    fault_sqlite_fresh(scenario->files);
    assert_int_equal(scenario->open(&ledger), 0);
    expected_answers[0] = '\0';
    if (scenario->run != NULL) {
        assert_int_equal(scenario->run(ledger), 0);
        memcpy(expected_answers, answers, sizeof(answers));
    }
    ledger_sqlite_close(ledger);
    digest_after = ledger_world_digest(fixture.path);
    assert_true(scenario->batch == NULL || digest_after != digest_before);
    good[0].count = 0;
    good[1].count = 0;
}

/* ---- the sweep ---- */

static bool is_error(int code)
{
    switch (code) {
#define X(name, value, text) case name:
        ERRORS(X)
#undef X
        return true;
    default:
        return false;
    }
}

/* After the fault, on the same instance: once more, and it works. */
static void go_on(struct ledger *ledger)
{
    if (scenario->run != NULL) {
        int error = scenario->run(ledger);
        if (error != 0) {
            fail_msg("does not go on after a fault: %s", ledger_sqlite_error(ledger));
        }
    }
}

static uint64_t run_once(struct fault_plan plan)
{
    struct ledger *ledger = NULL;
    struct fault_files as_killed;
    struct fault_files as_synced;
    sqlite3_int64 used = sqlite3_memory_used();
    fault_sqlite_fresh(&empty);
    int64_t live = fault_live();
    fault_sqlite_fresh(scenario->files);
    int error = 0;
    if (scenario->run == NULL) {
        fault_arm(plan);
        error = scenario->open(&ledger);
    } else {
        assert_int_equal(scenario->open(&ledger), 0);
        if (scenario->prepare != NULL) {
            scenario->prepare(ledger);
        }
        fault_arm(plan);
        error = scenario->run(ledger);
    }
    if (scenario->closes) {
        close_ledger(ledger);
        ledger = NULL;
    }
    uint64_t fired = fault_disarm();
    if ((error != 0 && !is_error(error)) || (fired == 0 && error != 0)) {
        fail_msg("the outcome is %d", error);
    }
    fault_sqlite_files(&as_killed);
    fault_sqlite_durable(&as_synced);
    if (error == 0 || scenario->run != NULL) {
        if (ledger != NULL) {
            go_on(ledger);
        }
        ledger_sqlite_close(ledger);
    }
    assert_int_equal(sqlite3_memory_used(), used);
    struct fault_files as_closed;
    fault_sqlite_files(&as_closed);
    bool done = scenario->batch != NULL || error == 0;
    expect_whole(&as_closed, done, "closed");
    expect_whole(&as_killed, error == 0, "killed");
    expect_whole(&as_synced, error == 0, "power lost");
    fault_files_free(&as_closed);
    fault_files_free(&as_killed);
    fault_files_free(&as_synced);
    fault_sqlite_fresh(&empty);
    assert_int_equal(fault_live(), live);
    fault_passed();
    return fired;
}

/* SQLite calls malloc thousands of times. In a short run each of the first ones fails, then every
 * 7th (from then on: every 23rd), shifted by the seed; in a long run each does. */
static uint64_t next_of(const struct fault_plan *plan)
{
    if (sweep_long() || plan->kind != FAULT_SQLITE_MALLOC || plan->nth < 48) {
        return plan->nth + 1;
    }
    uint64_t step = plan->forever ? 23 : 7;
    return plan->nth == 48 ? 49 + sweep_seed(0) % step : plan->nth + step;
}

static void sweep(enum fault_kind kind)
{
    uint64_t total = 0;
    uint64_t runs = 0;
    bool modal = kind == FAULT_WRITE || kind == FAULT_SYNC || kind == FAULT_REMOVE;
    for (enum fault_done done = FAULT_NOTHING; done <= (modal ? FAULT_ALL : 0); done++) {
        if (done == FAULT_HALF && kind != FAULT_WRITE) {
            continue;
        }
        for (int forever = 0; forever < 2; forever++) {
            struct fault_plan plan = {.kind = kind, .done = done, .forever = forever};
            uint64_t fired;
            do {
                plan.nth = next_of(&plan);
                fired = run_once(plan);
                total += fired;
                runs++;
            } while (fired > 0);
        }
    }
    fault_report(scenario->name, kind, total, runs);
}

static void every_call_fails_in(size_t index)
{
    scenario = &scenarios[index];
    digest_of();
    for (enum fault_kind kind = 0; kind < FAULT_COUNT; kind++) {
        sweep(kind);
    }
    assert_true(fault_report_total(scenario->name) > 0);
}

#define SCENARIO(name, index)                                                                      \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        every_call_fails_in(index);                                                                \
    }
SCENARIO(open_fresh, 0)
SCENARIO(open_existing, 1)
SCENARIO(open_after_a_kill, 2)
SCENARIO(migrate, 3)
SCENARIO(batch_of_every_kind, 4)
SCENARIO(batch_one_by_one, 5)
SCENARIO(batch_that_folds_the_wal, 6)
SCENARIO(batch_that_cuts_the_wal, 7)
SCENARIO(queries_of_the_writer, 8)
SCENARIO(queries_of_a_reader, 9)
SCENARIO(closing, 10)

/* ---- templates ---- */

static int make_templates(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(fixture.path, sizeof(fixture.path), "%s/ledger.db", folder);
    fault_sqlite_init(fixture.path);
    fault_sqlite_fresh(&empty);
    assert_int_equal(open_usual(&fixture.ledger), 0);
    ledger_world_fill(&fixture);
    fault_sqlite_files(&killed);
    assert_audit(&fixture);
    ledger_sqlite_close(fixture.ledger);
    fault_sqlite_files(&filled);
    fault_sqlite_files(&older); /* version 1 is the first of the later steps, too */
    assert_null(filled.file[1].bytes);
    assert_non_null(killed.file[1].bytes);
    return 0;
}

static int drop_templates(void **state)
{
    (void)state;
    fault_sqlite_fresh(&empty);
    fault_files_free(&filled);
    fault_files_free(&killed);
    fault_files_free(&older);
    return rmdir(folder);
}

int main(void)
{
    fixture_backend = &on_sqlite;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(open_fresh, fault_explain),
        cmocka_unit_test_teardown(open_existing, fault_explain),
        cmocka_unit_test_teardown(open_after_a_kill, fault_explain),
        cmocka_unit_test_teardown(migrate, fault_explain),
        cmocka_unit_test_teardown(batch_of_every_kind, fault_explain),
        cmocka_unit_test_teardown(batch_one_by_one, fault_explain),
        cmocka_unit_test_teardown(batch_that_folds_the_wal, fault_explain),
        cmocka_unit_test_teardown(batch_that_cuts_the_wal, fault_explain),
        cmocka_unit_test_teardown(queries_of_the_writer, fault_explain),
        cmocka_unit_test_teardown(queries_of_a_reader, fault_explain),
        cmocka_unit_test_teardown(closing, fault_explain),
    };
    return cmocka_run_group_tests(tests, make_templates, drop_templates);
}
