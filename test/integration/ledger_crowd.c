/*
 * Several writers of one shared MariaDB ledger, for test_mariadb_shared.py, which kills and freezes
 * what they need. Each has its own connection. Two of them send every batch, and each repeats it until
 * the ledger reports that it is committed.
 *
 *   ledger_crowd URL make BATCHES             makes the tables, the sale and the epochs
 *   ledger_crowd URL run WRITERS BATCHES      prints the results:
 *        event NUMBER KIND ORDER     of a batch that was committed
 *        failed CODE                 a batch was not, or nobody knows
 *        done BATCH                  one of the two has it behind it
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/mariadb/ledger_mariadb.h"
#include "base/check.h"

#define SEGMENTS 3
#define ITEM 1
#define BATCH 20
#define WRITERS_MAX 16
#define START_MS 1700000000000LL
#define YEARS_MS 1000000000000LL

static struct {
    const char *url;
    uint32_t writers;
    uint32_t batches;
    atomic_uint next; /* of 2 * batches turns */
    pthread_mutex_t lock;
} crowd = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void give_up(const char *what)
{
    (void)fprintf(stderr, "ledger_crowd: %s\n", what);
    exit(1); /* NOLINT(concurrency-mt-unsafe): it ends here */
}

static struct ledger *open_writer(uint32_t number)
{
    char owner[16];
    struct ledger *ledger = NULL;
    (void)snprintf(owner, sizeof(owner), "crowd-%u", number);
    struct ledger_mariadb_options options = {
        .url = crowd.url, .owner = owner, .timeout_s = 1, .segments = SEGMENTS};
    if (ledger_mariadb_open(&options, MARIADB_WRITER, &ledger) != 0) {
        give_up(ledger_mariadb_error(NULL));
    }
    return ledger;
}

/* ---- make ---- */

static void submit_all(struct ledger *ledger, struct ledger_op **ops, size_t count)
{
    struct ledger_batch batch = {.ops = ops, .count = count, .now_ms = START_MS};
    (void)ledger_write(ledger, &batch);
    if (batch.error != 0) {
        give_up(ledger_mariadb_error(ledger));
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(ops[i]->refusal == REFUSAL_NONE);
        sale_row_free(ops[i]->sale);
    }
}

static void make(void)
{
    struct ledger *ledger = open_writer(0);
    struct item_row item = {
        .id = ITEM, .price_cents = 100, .total = (uint64_t)crowd.batches * BATCH, .name = "item"};
    struct sale_row sale = {.id = 1,
                            .pay_within_s = 86400,
                            .starts_at_ms = START_MS,
                            .ends_at_ms = START_MS + YEARS_MS,
                            .name = "sale",
                            .currency = "CNY",
                            .items_count = 1,
                            .items = &item};
    struct ledger_op ops[SEGMENTS + 2] = {
        {.kind = LEDGER_SALE_CREATE, .sale_in = &sale},
        {.kind = LEDGER_SALE_MOVE, .sale_id = 1, .target = SALE_OPEN}};
    struct ledger_op *list[SEGMENTS + 2] = {&ops[0], &ops[1]};
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        ops[2 + i] = (struct ledger_op){.kind = LEDGER_EPOCH, .segment = i};
        list[2 + i] = &ops[2 + i];
    }
    submit_all(ledger, list, SEGMENTS + 2);
    ledger_mariadb_close(ledger);
}

/* ---- run ---- */

static struct gate_command order_of(uint32_t n)
{
    return (struct gate_command){.kind = GATE_RESERVE,
                                 .now_ms = START_MS,
                                 .id = order_id_fresh(ITEM, START_MS, n),
                                 .user = 1 + n % 1009,
                                 .item = ITEM,
                                 .qty = 1};
}

/* Books BATCH orders, pays some and cancels others of them. */
static size_t fill(uint32_t number, struct ledger_op *ops)
{
    size_t count = 0;
    for (uint32_t i = 0; i < BATCH; i++) {
        uint32_t n = number * BATCH + i;
        ops[count++] = (struct ledger_op){
            .kind = LEDGER_BOOK, .command = order_of(n), .segment = n % SEGMENTS, .epoch = 1};
        if (i % 4 == 0) {
            struct ledger_op *end = &ops[count++];
            *end = (struct ledger_op){.kind = i % 8 == 0 ? LEDGER_PAY : LEDGER_CANCEL,
                                      .id = order_of(n).id,
                                      .amount_cents = 100};
            (void)snprintf(end->key, sizeof(end->key), "payment %u", n);
        }
    }
    return count;
}

static void tell_events(const struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->events_count; i++) {
        const struct ledger_event *e = &batch->events[i];
        char id[ORDER_ID_TEXT];
        order_id_text(e->id, id);
        printf("event %llu %s %.*s\n", (unsigned long long)e->number, ledger_event_text(e->kind),
               ORDER_ID_TEXT, id);
    }
}

/* Repeats it until the ledger reports that it is there. */
static void send(struct ledger *ledger, uint32_t number)
{
    struct ledger_op ops[2 * BATCH];
    struct ledger_op *list[2 * BATCH];
    size_t count = fill(number, ops);
    for (size_t i = 0; i < count; i++) {
        list[i] = &ops[i];
    }
    struct ledger_batch batch = {.ops = list, .count = count, .now_ms = START_MS, .error = 1};
    while (batch.error != 0) {
        (void)ledger_write(ledger, &batch);
        CHECK(pthread_mutex_lock(&crowd.lock) == 0);
        if (batch.error != 0) {
            printf("failed %d\n", batch.error);
        } else {
            tell_events(&batch);
            printf("done %u\n", number);
        }
        CHECK(pthread_mutex_unlock(&crowd.lock) == 0);
        if (batch.error != 0) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
    }
}

/* Each batch twice, not one right behind the other. */
static void *write_on(void *argument)
{
    struct ledger *ledger = argument;
    uint32_t turn;
    while ((turn = atomic_fetch_add(&crowd.next, 1)) < 2 * crowd.batches) {
        uint32_t number = turn / 2 + (turn % 2) * (crowd.batches / 2);
        send(ledger, number % crowd.batches);
    }
    return NULL;
}

static void run(void)
{
    pthread_t threads[WRITERS_MAX];
    struct ledger *ledger_backends[WRITERS_MAX];
    for (uint32_t i = 0; i < crowd.writers; i++) {
        ledger_backends[i] = open_writer(i);
    }
    for (uint32_t i = 0; i < crowd.writers; i++) {
        CHECK(pthread_create(&threads[i], NULL, write_on, ledger_backends[i]) == 0);
    }
    for (uint32_t i = 0; i < crowd.writers; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        ledger_mariadb_close(ledger_backends[i]);
    }
}

int main(int argc, char **argv)
{
    bool makes = argc == 4 && strcmp(argv[2], "make") == 0;
    bool runs = argc == 5 && strcmp(argv[2], "run") == 0;
    if (!makes && !runs) {
        (void)fprintf(stderr, "usage: ledger_crowd URL make BATCHES | run WRITERS BATCHES\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    crowd.url = argv[1];
    crowd.batches = (uint32_t)strtoul(argv[argc - 1], NULL, 10);
    crowd.writers = runs ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    CHECK(crowd.batches > 0 && crowd.writers <= WRITERS_MAX);
    if (makes) {
        make();
    } else {
        run();
    }
    return 0;
}
