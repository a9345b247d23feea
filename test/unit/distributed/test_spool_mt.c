/*
 * The line while an entry moves from those without a segment to its segment's. spool_before() takes no
 * lock. A loop that found nobody there would let a new buy pass those who wait.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "distributed/spool.h"
#include "ram_disk.h"

#define CAPACITY 64
#define ROUNDS 3000
#define ROUNDS_PER_FLUSH 50
#define SEGMENT 1

static struct spool *spool;
static struct journal *journal;

/* Odd: somebody waits for the segment. It grows whenever that changes. */
static atomic_uint turn;
static atomic_uint looks;
static atomic_uint passed;
static atomic_bool over;

static void *look_thread(void *context)
{
    (void)context;
    while (!atomic_load(&over)) {
        uint32_t before = atomic_load(&turn);
        uint32_t waiting = spool_before(spool, SEGMENT);
        if (before % 2 == 1 && atomic_load(&turn) == before) {
            atomic_fetch_add(&looks, 1);
            atomic_fetch_add(&passed, waiting == 0);
        }
    }
    return NULL;
}

static void flush(void)
{
    bool wrote = false;
    assert_int_equal(journal_flush(journal, &wrote), 0);
}

static void stand_in_line(uint64_t user)
{
    struct gate_command buy = {.kind = GATE_RESERVE,
                               .now_ms = 1700000000000LL,
                               .id = order_id_once(11, user, 0),
                               .user = user,
                               .item = 11,
                               .qty = 1,
                               .ticket_expires_ms = 1800000000000ULL};
    uint64_t lsn = 0;
    assert_int_equal(spool_stand_in_line(spool, &buy, SPOOL_UNPLACED, &lsn), 0);
}

static void nobody_sees_the_way_free_while_an_entry_moves(void **state)
{
    (void)state;
    struct ram_disk ram;
    struct journal_found found;
    struct journal_options options = {.kind = JOURNAL_LIST,
                                      .file_bytes = 256ULL * JOURNAL_SECTOR,
                                      .buffer_bytes = 16U * JOURNAL_SECTOR};
    pthread_t loop;
    ram_disk_init(&ram);
    assert_int_equal(spool_new(CAPACITY, &spool), 0);
    assert_int_equal(journal_open(&ram.disk, options, spool_content(spool), &journal, &found), 0);
    assert_int_equal(spool_begin(spool, journal), 0);
    assert_int_equal(pthread_create(&loop, NULL, look_thread, NULL), 0);
    for (uint64_t user = 1; user <= ROUNDS; user++) {
        uint32_t seen = atomic_load(&looks);
        stand_in_line(user);
        atomic_fetch_add(&turn, 1);
        while (atomic_load(&looks) == seen) {
            sched_yield(); /* the loop is looking now */
        }
        spool_place(spool, order_id_once(11, user, 0), SEGMENT);
        atomic_fetch_add(&turn, 1);
        spool_resolve(spool, order_id_once(11, user, 0));
        if (user % ROUNDS_PER_FLUSH == 0) {
            flush();
        }
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(loop, NULL), 0);
    assert_int_equal(spool_before(spool, SEGMENT), 0);
    assert_int_equal(atomic_load(&passed), 0);
    journal_free(journal);
    spool_free(spool);
    ram_disk_done(&ram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_sees_the_way_free_while_an_entry_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
