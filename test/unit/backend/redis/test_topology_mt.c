/*
 * Where the segments are, without a server: one with a numeric address, one with a name, a Cluster
 * of which nobody answers, whose redirections count nevertheless, and asking from several threads.
 * With servers: test/integration/test_redis_topology.py.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/redis/slot.h"
#include "backend/redis/topology.h"
#include "base/check.h"
#include "base/err.h"
#include "port/segments.h"

/* Nobody listens on the port of tcpmux here; a connection is refused at once. */
#define NOBODY "127.0.0.1:1"

static struct redis_topology *open_url(const char *url)
{
    struct redis_topology *topology = NULL;
    struct topology_options options = {.url = url, .timeout_ms = 500, .look_ms = 20};
    char error[512] = "";
    if (topology_open(&options, &topology, error, sizeof(error)) != 0) {
        fail_msg("%s: %s", url, error);
    }
    return topology;
}

static void assert_at(struct redis_topology *topology, uint32_t segment, const char *host,
                      uint16_t port)
{
    char found[REDIS_HOST_MAX];
    uint16_t found_port = 0;
    uint64_t generation = 0;
    assert_int_equal(0, topology_address(topology, segment, found, &found_port, &generation));
    assert_string_equal(host, found);
    assert_int_equal(port, found_port);
    assert_true(generation <= topology_generation(topology));
}

static void one_server_is_where_its_url_says(void **state)
{
    (void)state;
    struct redis_topology *topology = open_url("redis://me:secret@127.0.0.1:7007");
    assert_int_equal(1, topology_segments(topology));
    assert_at(topology, 0, "127.0.0.1", 7007);
    assert_at(topology, SEGMENTS_MAX - 1, "127.0.0.1", 7007);
    assert_string_equal("me", topology_user(topology));
    assert_string_equal("secret", topology_password(topology));
    topology_suspect(topology, 0);
    topology_close(topology);
    topology = open_url("redis://localhost:7007");
    struct topology_node nodes[2];
    assert_int_equal(1, topology_masters(topology, nodes, 2));
    assert_true(strcmp(nodes[0].host, "127.0.0.1") == 0 || strcmp(nodes[0].host, "::1") == 0);
    assert_null(topology_user(topology));
    assert_null(topology_password(topology));
    topology_close(topology);
}

static void passwords_come_from_files(void **state)
{
    (void)state;
    char path[] = "/tmp/sluice-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(10, write(fd, "from file\n", 10));
    (void)close(fd);
    struct redis_topology *topology = NULL;
    struct topology_options options = {.url = "redis://:url@127.0.0.1", .password_file = path};
    char error[512] = "";
    assert_int_equal(0, topology_open(&options, &topology, error, sizeof(error)));
    assert_string_equal("from file", topology_password(topology));
    topology_close(topology);
    (void)unlink(path);
    assert_int_equal(ERR_IO, topology_open(&options, &topology, error, sizeof(error)));
    assert_non_null(strstr(error, path));
    options = (struct topology_options){.url = "redis://127.0.0.1", .sentinel_password_file = path};
    assert_int_equal(ERR_IO, topology_open(&options, &topology, error, sizeof(error)));
    options = (struct topology_options){.url = "nonsense"};
    assert_int_equal(ERR_INVALID, topology_open(&options, &topology, error, sizeof(error)));
    assert_int_equal(ERR_INVALID, topology_check_url("nonsense", NULL, 0));
    assert_int_equal(0, topology_check_url("redis://a", NULL, 0));
}

static void wait_for_looks(struct redis_topology *topology, uint64_t more)
{
    struct topology_numbers numbers;
    topology_count(topology, &numbers);
    uint64_t until = numbers.looks + more;
    for (int i = 0; numbers.looks < until; i++) {
        assert_true(i < 6000);
        (void)usleep(10000);
        topology_count(topology, &numbers);
    }
}

static void nobody_answers(void **state)
{
    (void)state;
    static const char *const urls[] = {"cluster://" NOBODY, "sentinel://" NOBODY "/shop"};
    for (int i = 0; i < 2; i++) {
        struct redis_topology *topology = open_url(urls[i]);
        char host[REDIS_HOST_MAX];
        char why[TOPOLOGY_TEXT_MAX];
        uint16_t port = 0;
        uint64_t generation = 0;
        assert_int_equal(0, topology_segments(topology));
        assert_int_equal(ERR_NOTFOUND, topology_address(topology, 0, host, &port, &generation));
        wait_for_looks(topology, 2);
        topology_trouble(topology, why);
        assert_non_null(strstr(why, NOBODY ": "));
        struct topology_numbers numbers;
        topology_count(topology, &numbers);
        assert_int_equal(numbers.looks, numbers.failures);
        assert_int_equal(0, numbers.generation);
        topology_close(topology);
    }
}

static void who_is_named_counts_at_once(void **state)
{
    (void)state;
    struct redis_topology *topology = open_url("cluster://" NOBODY);
    uint32_t slot = slot_of(span_of(slot_tag(3)));
    topology_moved(topology, slot, "127.0.9.1", 1);
    assert_at(topology, 3, "127.0.9.1", 1);
    assert_int_equal(1, topology_generation(topology));
    topology_moved(topology, slot, "127.0.9.1", 1); /* nothing new */
    assert_int_equal(1, topology_generation(topology));
    topology_moved(topology, slot, "::1", 1);
    assert_at(topology, 3, "::1", 1);
    topology_moved(topology, slot + 1, "127.0.9.3", 1); /* no segment's */
    assert_at(topology, 3, "::1", 1);
    topology_moved(topology, slot, "no-such-host.invalid", 1); /* the thread may find it out */
    assert_at(topology, 3, "::1", 1);
    wait_for_looks(topology, 2);
    assert_at(topology, 3, "::1", 1); /* that nobody answers takes nothing away */
    topology_close(topology);
}

/* More nodes than there is room for. */
static void many_nodes(void **state)
{
    (void)state;
    char host[REDIS_HOST_MAX];
    struct redis_topology *topology = open_url("cluster://" NOBODY);
    for (uint16_t i = 0; i < 3 * SEGMENTS_MAX; i++) {
        (void)snprintf(host, sizeof(host), "127.0.9.%u", i + 1);
        topology_moved(topology, slot_of(span_of(slot_tag(i % SEGMENTS_MAX))), host, 1);
    }
    assert_int_equal(TOPOLOGY_NODES_MAX, topology_segments(topology));
    for (uint16_t i = 0; i < SEGMENTS_MAX; i++) {
        (void)snprintf(host, sizeof(host), "127.0.9.%u", i + 1);
        assert_at(topology, i, host, 1);
    }
    topology_close(topology);
}

#define THREADS 4
#define ROUNDS 20000

static void *ask_and_tell(void *context)
{
    struct redis_topology *topology = context;
    uint32_t slot = slot_of(span_of(slot_tag(5)));
    for (int i = 0; i < ROUNDS; i++) {
        char host[REDIS_HOST_MAX];
        uint16_t port = 0;
        uint64_t generation = 0;
        if (topology_address(topology, 5, host, &port, &generation) == 0) {
            CHECK(strcmp(host, port == 1 ? "127.0.9.1" : "127.0.9.2") == 0);
        }
        if (i % 16 == 0) {
            bool first = i % 32 == 0;
            topology_moved(topology, slot, first ? "127.0.9.1" : "127.0.9.2", first ? 1 : 2);
        } else if (i % 16 == 1) {
            topology_suspect(topology, 5);
        }
    }
    return NULL;
}

static void threads_share_it(void **state)
{
    (void)state;
    struct redis_topology *topology = open_url("cluster://" NOBODY);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, ask_and_tell, topology));
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_true(topology_generation(topology) > 0);
    topology_close(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_server_is_where_its_url_says),
        cmocka_unit_test(passwords_come_from_files),
        cmocka_unit_test(nobody_answers),
        cmocka_unit_test(who_is_named_counts_at_once),
        cmocka_unit_test(many_nodes),
        cmocka_unit_test(threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
