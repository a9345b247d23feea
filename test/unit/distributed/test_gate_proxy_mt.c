/* A loop that reads the catalog while another thread waits to write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "gate_proxy_front.h"
#include <cmocka.h>

#define HANG_S 60 /* the default action of SIGALRM ends the program */

static struct cluster_world segments;
static struct gate_proxy_front worker;
static _Atomic int writer_tid;

static void *write_catalog(void *context)
{
    (void)context;
    atomic_store(&writer_tid, (int)syscall(SYS_gettid));
    gate_proxy_front_catalog(&worker, 3, 200, true); /* waits for the reader */
    return NULL;
}

/* The writer sleeps, which it does only in the lock. */
static bool writer_waits(void)
{
    char path[64];
    char state = '?';
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&writer_tid));
    FILE *file = fopen(path, "r");
    bool read = file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file != NULL) {
        (void)fclose(file);
    }
    return read && state == 'S';
}

static void an_item_is_looked_up_under_the_catalogs_lock_while_a_writer_waits(void **state)
{
    (void)state;
    pthread_t writer;
    (void)alarm(HANG_S);
    cluster_init(&segments, (struct cluster_options){.segments = 2});
    cluster_fill(&segments, 0, 1, 0);
    cluster_fill(&segments, 1, 1, 0);
    gate_proxy_front_open(&worker, &segments, 64);
    gate_proxy_front_catalog(&worker, 2, 99, true); /* warmed, and not in the stock cache */
    catalog_lock(worker.catalog);
    CHECK(pthread_create(&writer, NULL, write_catalog, NULL) == 0);
    while (atomic_load(&writer_tid) == 0 || !writer_waits()) {
        (void)usleep(1000);
    }
    struct gate_request request = gate_proxy_front_tell(
        &worker,
        (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = 100, .catalog_locked = true});
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.view.sale, 2);
    catalog_unlock(worker.catalog);
    CHECK(pthread_join(writer, NULL) == 0);
    request = gate_proxy_front_tell(&worker,
                                    (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = 200});
    assert_int_equal(request.view.sale, 3);
    gate_proxy_front_close(&worker);
    cluster_done(&segments);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_is_looked_up_under_the_catalogs_lock_while_a_writer_waits),
    };
    return cmocka_run_group_tests_name("gate proxy, threads", tests, NULL, NULL);
}
