/* The front's promises: the table, and the journal that is a list, over crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "distributed/spool.h"
#include "journal/journal_private.h"
#include "ram_disk.h"

#define CAPACITY 8000

static struct ram_disk ram;
static struct spool *spool;
static struct journal *journal;
static struct journal_found found;

static int open_with(uint32_t capacity)
{
    struct journal_options options = {.file_bytes = 4ULL * JOURNAL_SECTOR,
                                      .buffer_bytes = 3U * JOURNAL_SECTOR};
    assert_int_equal(spool_new(capacity, &spool), 0);
    options.kind = JOURNAL_LIST;
    int error = journal_open(&ram.disk, options, spool_content(spool), &journal, &found);
    return error != 0 ? error : spool_begin(spool, journal);
}

static int open_all(void)
{
    return open_with(CAPACITY);
}

static void close_all(void)
{
    journal_free(journal);
    spool_free(spool);
    journal = NULL;
    spool = NULL;
}

static int set_up(void **state)
{
    (void)state;
    ram_disk_init(&ram);
    return open_all();
}

static int tear_down(void **state)
{
    (void)state;
    close_all();
    ram_disk_done(&ram);
    return 0;
}

static struct gate_command buy(uint64_t user)
{
    return (struct gate_command){.kind = GATE_RESERVE,
                                 .now_ms = 1700000000000LL + (int64_t)user,
                                 .id = order_id_once(11, user, 0),
                                 .user = user,
                                 .item = 11,
                                 .qty = 1,
                                 .ticket_expires_ms = 1800000000000ULL};
}

static uint64_t accept(uint64_t user, uint64_t epoch)
{
    struct gate_command command = buy(user);
    uint64_t lsn = 0;
    assert_int_equal(spool_accept(spool, &command, epoch, &lsn), 0);
    return lsn;
}

static void flush(void)
{
    bool wrote = false;
    assert_int_equal(journal_flush(journal, &wrote), 0);
}

static struct spool_numbers numbers(void)
{
    struct spool_numbers n;
    spool_count(spool, &n);
    return n;
}

static void what_is_accepted_is_there_after_a_crash(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 500; user++) {
        assert_int_equal(accept(user, user % 3), user);
        if (user % 50 == 0) {
            flush();
        }
    }
    (void)accept(501, 1); /* appended, not durable: no answer was sent */
    assert_true(journal->files.file_count > 1);
    struct prng prng = {5};
    close_all();
    ram_disk_crash(&ram, RAM_MIX, &prng);
    assert_int_equal(open_all(), 0);
    assert_int_equal(found.last_lsn, 500);
    assert_int_equal(found.replayed, 500);
    assert_int_equal(numbers().entries, 500);
    assert_int_equal(numbers().undecided, 500 / 3);
    for (uint64_t user = 1; user <= 500; user++) {
        struct spool_entry entry;
        assert_true(spool_find(spool, order_id_once(11, user, 0), &entry));
        assert_int_equal(entry.lsn, user);
        assert_int_equal(entry.command.user, user);
        assert_int_equal(entry.command.now_ms, buy(user).now_ms);
        assert_int_equal(entry.command.event, 0);
        assert_int_equal(entry.epoch, user % 3); /* a winner stays one */
    }
    assert_int_equal(accept(502, 1), 501);
}

static uint64_t scanned_lsn;

static int count_record(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                        size_t length)
{
    (void)content;
    (void)record;
    (void)length;
    scanned_lsn = lsn;
    return 0;
}

static void ignore_batch(void *context, const char *file, uint64_t offset, uint64_t number,
                         uint64_t first_lsn, uint32_t records, uint32_t bytes)
{
    (void)context;
    (void)file;
    (void)offset;
    (void)number;
    (void)first_lsn;
    (void)records;
    (void)bytes;
}

static void ignore_note(void *context, const char *file, uint64_t offset, const char *what)
{
    (void)context;
    (void)file;
    (void)offset;
    (void)what;
}

/* As `sluice journal verify` looks at it: as a list it is whole, as a history it lacks its
 * beginning. */
static void scan_finds_it_whole(void)
{
    static const struct journal_content_ops content_ops = {.apply = count_record};
    static const struct journal_scan_ops scan_ops = {ignore_batch, ignore_note};
    struct journal_content content = {&content_ops};
    struct journal_found scanned;
    assert_int_equal(journal_scan(&ram.disk, JOURNAL_LIST, &content, &scan_ops, NULL, &scanned), 0);
    assert_int_equal(scanned_lsn, 600);
    assert_int_equal(journal_scan(&ram.disk, JOURNAL_HISTORY, &content, &scan_ops, NULL, &scanned),
                     ERR_CORRUPT);
}

static void what_is_resolved_is_trimmed_and_the_rest_is_not(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 600; user++) {
        (void)accept(user, 1);
        if (user % 20 == 0) {
            flush();
        }
    }
    uint32_t removed = 0;
    assert_int_equal(spool_trim_lsn(spool), 0);
    assert_int_equal(journal_trim(journal, spool_trim_lsn(spool), &removed), 0);
    assert_int_equal(removed, 0);
    for (uint64_t user = 1; user <= 600; user++) {
        if (user != 401) {
            spool_resolve(spool, order_id_once(11, user, 0));
        }
    }
    spool_resolve(spool, order_id_once(11, 9999, 0)); /* nobody's: nothing */
    assert_int_equal(spool_trim_lsn(spool), 400);
    size_t files = journal->files.file_count;
    assert_int_equal(journal_trim(journal, spool_trim_lsn(spool), &removed), 0);
    assert_true(removed > 0 && removed < files);
    struct prng prng = {6};
    close_all();
    ram_disk_crash(&ram, RAM_MIX, &prng);
    assert_int_equal(open_all(), 0); /* it begins after its first record: a list may */
    struct spool_entry entry;
    assert_true(spool_find(spool, order_id_once(11, 401, 0), &entry));
    assert_int_equal(entry.lsn, 401);
    assert_false(spool_find(spool, order_id_once(11, 1, 0), &entry));
    scan_finds_it_whole();
    spool_resolve(spool, entry.command.id);
    for (uint64_t user = 1; user <= 600; user++) {
        spool_resolve(spool, order_id_once(11, user, 0));
    }
    assert_int_equal(numbers().entries, 0);
    assert_int_equal(spool_trim_lsn(spool), 600);
}

static void the_same_order_is_one_entry_with_the_higher_epoch(void **state)
{
    (void)state;
    struct spool_entry entry;
    assert_int_equal(accept(1, 0), 1);
    assert_int_equal(numbers().undecided, 1);
    assert_int_equal(accept(1, 4), 1); /* the same record */
    assert_int_equal(numbers().undecided, 0);
    assert_int_equal(accept(1, 3), 1);
    assert_true(spool_find(spool, order_id_once(11, 1, 0), &entry));
    assert_int_equal(entry.epoch, 4);
    assert_int_equal(accept(2, 0), 3); /* the second record says that the first was decided */
    spool_decided(spool, order_id_once(11, 2, 0), 7);
    spool_decided(spool, order_id_once(11, 3, 0), 7); /* nobody's: nothing */
    assert_true(spool_find(spool, order_id_once(11, 2, 0), &entry));
    assert_int_equal(entry.epoch, 7);
    assert_int_equal(numbers().undecided, 0);
    assert_int_equal(numbers().entries, 2);
    /* A buyer who stood in line and won is a winner after a restart, too. */
    flush();
    close_all();
    assert_int_equal(open_all(), 0);
    assert_int_equal(numbers().entries, 2);
    assert_int_equal(numbers().undecided, 0);
    assert_true(spool_find(spool, order_id_once(11, 1, 0), &entry));
    assert_true(entry.epoch == 4 && entry.lsn == 1);
    assert_true(spool_find(spool, order_id_once(11, 2, 0), &entry));
    assert_true(entry.epoch == 7 && entry.lsn == 3);
}

static void assert_stale(int64_t before_ms, int64_t now_ms, const uint64_t *users, size_t count)
{
    struct spool_entry entries[8];
    assert_int_equal(spool_due(spool, before_ms, now_ms, entries, 8), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(entries[i].command.user, users[i]);
        assert_int_equal(entries[i].looked_at_ms, now_ms);
    }
}

static void stale_ones_come_longest_unseen_first_and_once(void **state)
{
    (void)state;
    assert_stale(0, 1000, NULL, 0);
    for (uint64_t user = 1; user <= 3; user++) {
        (void)accept(user, 1);
    }
    assert_stale(500, 1500, NULL, 0); /* new ones are young, whatever their own time is */
    for (uint64_t user = 4; user <= 10; user++) {
        (void)accept(user, user % 2);
    }
    assert_stale(1001, 2001, (const uint64_t[]){1, 2, 3}, 3);
    assert_stale(1001, 2001, NULL, 0);
    spool_resolve(spool, order_id_once(11, 5, 0)); /* in the middle, at both ends */
    spool_resolve(spool, order_id_once(11, 4, 0));
    spool_resolve(spool, order_id_once(11, 3, 0));
    assert_stale(1600, 2600, (const uint64_t[]){6, 7, 8, 9, 10}, 5);
    assert_stale(2600, 3600, (const uint64_t[]){1, 2}, 2);
    (void)accept(11, 1);
    assert_stale(3601, 4700, (const uint64_t[]){6, 7, 8, 9, 10, 1, 2, 11}, 8);
    for (uint64_t user = 1; user <= 11; user++) {
        spool_resolve(spool, order_id_once(11, user, 0));
    }
    assert_stale(4800, 4900, NULL, 0);
    (void)accept(12, 1);
    assert_stale(5000, 5000, (const uint64_t[]){12}, 1);
}

static void what_comes_from_the_journal_is_looked_at_at_once(void **state)
{
    (void)state;
    (void)accept(1, 1);
    assert_stale(0, 1000, NULL, 0);
    (void)accept(2, 1);
    flush();
    close_all();
    assert_int_equal(open_all(), 0);
    assert_stale(1, 1001, (const uint64_t[]){1, 2}, 2);
}

static void a_full_table_or_a_dead_disk_promises_nothing(void **state)
{
    (void)state;
    uint64_t user = 0;
    while (spool_has_room(spool)) {
        (void)accept(++user, 1);
        if (user % 40 == 0) {
            flush();
        }
    }
    flush();
    assert_int_equal(user, CAPACITY);
    struct gate_command command = buy(++user);
    uint64_t lsn = 77;
    int error = 0;
    while ((error = spool_accept(spool, &command, 1, &lsn)) == 0) {
        command = buy(++user); /* what was on its way when it filled up still finds a place */
        if (user % 40 == 0) {
            flush();
        }
    }
    assert_int_equal(error, ERR_FULL);
    spool_resolve(spool, order_id_once(11, 1, 0));
    assert_int_equal(spool_accept(spool, &command, 1, &lsn), 0);
    ram.dead_at = ram.ops + 1;
    bool wrote = false;
    assert_int_not_equal(journal_flush(journal, &wrote), 0);
    assert_false(spool_has_room(spool));
    spool_resolve(spool, order_id_once(11, 2, 0));
    command = buy(++user);
    lsn = 77;
    assert_int_equal(spool_accept(spool, &command, 1, &lsn), ERR_JOURNAL_FAILED);
    assert_int_equal(lsn, 77);
}

static void what_had_its_outcome_is_remembered(void **state)
{
    (void)state;
    (void)accept(1, 1);
    assert_false(spool_is_known(spool, order_id_once(11, 1, 0)));
    spool_resolve(spool, order_id_once(11, 1, 0));
    spool_resolve(spool, order_id_once(11, 2, 0)); /* another front's */
    assert_true(spool_is_known(spool, order_id_once(11, 1, 0)));
    assert_true(spool_is_known(spool, order_id_once(11, 2, 0)));
    assert_false(spool_is_known(spool, order_id_once(11, 3, 0)));
}

static void decided_ones_are_listed_page_by_page_and_not_marked(void **state)
{
    (void)state;
    struct spool_entry entries[4];
    for (uint64_t user = 1; user <= 10; user++) {
        (void)accept(user, user % 2); /* 1, 3, 5, 7, 9 are decided */
    }
    assert_int_equal(spool_list(spool, buy(9).now_ms, 0, entries, 3), 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(entries[i].command.user, 1 + 2 * i);
    }
    assert_int_equal(spool_list(spool, buy(9).now_ms, 3, entries, 3), 1); /* 9 is too young */
    assert_int_equal(entries[0].command.user, 7);
    assert_int_equal(spool_list(spool, buy(9).now_ms, 4, entries, 3), 0);
    assert_int_equal(spool_due(spool, 1, 1, entries, 4), 4);
}

/* A setting was lowered, or files hold what had its outcome long ago: no promise is forgotten, and no
 * new one made until there is room. */
static void a_journal_that_holds_more_than_is_accepted_is_read_whole(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 6000; user++) {
        (void)accept(user, 1);
        if (user % 40 == 0) {
            flush();
        }
    }
    close_all();
    assert_int_equal(open_with(1000), 0);
    assert_int_equal(numbers().entries, 6000);
    assert_false(spool_has_room(spool));
    struct gate_command command = buy(6001);
    uint64_t lsn = 0;
    assert_int_equal(spool_accept(spool, &command, 1, &lsn), ERR_FULL);
    for (uint64_t user = 1; user <= 5001; user++) {
        spool_resolve(spool, order_id_once(11, user, 0));
    }
    assert_int_equal(numbers().entries, 999);
    assert_true(spool_has_room(spool));
    assert_int_equal(spool_accept(spool, &command, 1, &lsn), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_accepted_is_there_after_a_crash, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_resolved_is_trimmed_and_the_rest_is_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_same_order_is_one_entry_with_the_higher_epoch, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(stale_ones_come_longest_unseen_first_and_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_comes_from_the_journal_is_looked_at_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(decided_ones_are_listed_page_by_page_and_not_marked, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_had_its_outcome_is_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_journal_that_holds_more_than_is_accepted_is_read_whole,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_table_or_a_dead_disk_promises_nothing, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("spool", tests, NULL, NULL);
}
