/* See backends.h. */
#include "app/backends.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/ledger_backends.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/mariadb/lease_mariadb.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "backend/redis/gate_redis.h"
#include "backend/redis/segments_redis.h"
#include "backend/redis/topology.h"
#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"
#include "obs/log.h"

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 1000
/* Attempts at start to find out how many masters there are. */
#define MASTERS_TRIES 50
#define MASTERS_PAUSE_US 100000
#define PAYMENTS_PREFETCH 256

/* ---- Redis ---- */

/* The number of segments: as configured, or one per master. */
static int count_segments(struct backends *backends)
{
    uint32_t count = (uint32_t)backends->config->redis_segments;
    for (int i = 0; count == 0 && i < MASTERS_TRIES; i++) {
        count = topology_segments(backends->topology);
        if (count == 0) {
            (void)usleep(MASTERS_PAUSE_US);
        }
    }
    if (count == 0) {
        char text[TOPOLOGY_TEXT_MAX];
        topology_trouble(backends->topology, text);
        return assembly_fail("nobody says how many Redis masters there are: set redis.segments, "
                             "or start Redis first",
                             ERR_IO, text);
    }
    backends->segments_count = count < SEGMENTS_MAX ? count : SEGMENTS_MAX;
    struct regions regions;
    const char *why = "";
    if (regions_parse(backends->config->redis_regions, backends->segments_count, &regions, &why) !=
        0) {
        return assembly_fail("cannot use redis.regions", ERR_INVALID, why);
    }
    return 0;
}

int backends_open(struct backends *backends, const struct config *config, struct clock_port *clock)
{
    char text[TOPOLOGY_TEXT_MAX] = "";
    char host[40] = "host";
    uint64_t random = 0;
    backends->config = config;
    backends->clock = clock;
    (void)gethostname(host, sizeof(host) - 1);
    crypt_random(&random, sizeof(random));
    (void)snprintf(backends->name, sizeof(backends->name), "%s-%d-%08x", host, (int)getpid(),
                   (unsigned)(random & 0xffffffff));
    int error = ledger_backends_folder_id(config, backends->worker);
    if (error != 0) {
        return assembly_fail("cannot read or make the data folder's name", error, config->data_dir);
    }
    struct topology_options options = {.url = config->redis_url,
                                       .password_file = config->redis_password_file,
                                       .sentinel_password_file =
                                           config->redis_sentinel_password_file,
                                       .timeout_ms = (uint32_t)config->redis_timeout_ms};
    error = topology_open(&options, &backends->topology, text, sizeof(text));
    if (error != 0) {
        return assembly_fail("cannot use redis.url", error, text);
    }
    return count_segments(backends);
}

uint32_t backends_segments(const struct backends *backends)
{
    return backends->segments_count;
}

/* Connects before the loops run: a front that says it is ready is connected, if there is a
 * server. */
static void connect_connection_sets(struct backends *backends, uint32_t connection_sets)
{
    struct gate_port *gate = redis_gate_port(backends->gate);
    for (int64_t i = 0; i < backends->config->redis_timeout_ms; i++) {
        bool ready = true;
        for (uint32_t connection_set = 0; connection_set < connection_sets; connection_set++) {
            (void)gate_collect(gate, connection_set);
            (void)gate_flush(gate, connection_set);
            for (uint32_t s = 0; s < backends->segments_count; s++) {
                ready = ready && redis_gate_ready(backends->gate, connection_set, s);
            }
        }
        if (ready) {
            return;
        }
        (void)usleep(1000);
    }
    log_event(LOG_WARN, "redis.not_connected",
              LOG_STR("what", "not every segment's server answers; tried again"));
}

int backends_gate(struct backends *backends, uint32_t connection_sets, struct gate_port **ret_gate)
{
    const struct config *config = backends->config;
    struct redis_gate_config options = {
        .topology = backends->topology,
        .segments = backends->segments_count,
        .loops = connection_sets,
        .prefix = config->redis_prefix,
        .connect_timeout_ms = (uint32_t)config->redis_timeout_ms,
        .call_timeout_ms = (uint32_t)config->redis_timeout_ms,
        .retry_min_ms = RETRY_MIN_MS,
        .retry_max_ms = RETRY_MAX_MS,
        .in_flight_max = (uint32_t)config->redis_in_flight,
        .wait_replicas = (uint32_t)config->redis_wait_replicas,
        .wait_timeout_ms = (uint32_t)config->redis_wait_timeout_ms,
        .clock = backends->clock,
    };
    crypt_random(&options.seed, sizeof(options.seed));
    int error = redis_gate_new(&options, &backends->gate);
    if (error != 0) {
        return assembly_fail("cannot make the gate's connections", error, "");
    }
    connect_connection_sets(backends, connection_sets);
    *ret_gate = redis_gate_port(backends->gate);
    return 0;
}

int backends_gate_fd(const struct backends *backends, uint32_t connection_set)
{
    return redis_gate_fd(backends->gate, connection_set);
}

int backends_new_segments(struct backends *backends, const char *thread,
                          struct segments **ret_segments)
{
    const struct config *config = backends->config;
    size_t at = 0;
    while (backends->segments[at] != NULL) {
        at++;
    }
    CHECK(at < BACKENDS_MAX);
    struct segments_redis_options options = {.topology = backends->topology,
                                             .segments = backends->segments_count,
                                             .prefix = config->redis_prefix,
                                             .timeout_ms = (uint32_t)config->redis_timeout_ms,
                                             .worker = backends->worker,
                                             .outbox_max = (uint64_t)config->redis_outbox,
                                             .clock = backends->clock};
    int error = segments_redis_open(&options, &backends->segments[at]);
    if (error != 0) {
        return assembly_fail("cannot use Redis", error, thread);
    }
    *ret_segments = backends->segments[at];
    return 0;
}

/* ---- MariaDB ---- */

static struct ledger_mariadb_options ledger_options(const struct backends *backends)
{
    const struct config *config = backends->config;
    return (struct ledger_mariadb_options){.url = config->ledger_url,
                                           .password_file = config->ledger_password_file,
                                           .owner = backends->name,
                                           .segments = backends->segments_count,
                                           .regions = config->redis_regions,
                                           .timeout_s = (uint32_t)config->ledger_timeout_s};
}

static int new_ledger(struct backends *backends, enum ledger_mariadb_mode mode,
                      struct ledger **ret_ledger)
{
    size_t at = 0;
    while (backends->ledger_backends[at] != NULL) {
        at++;
    }
    CHECK(at < BACKENDS_MAX);
    struct ledger_mariadb_options options = ledger_options(backends);
    int error = ledger_mariadb_open(&options, mode, &backends->ledger_backends[at]);
    if (error != 0) {
        return assembly_fail("cannot open the ledger", error, ledger_mariadb_error(NULL));
    }
    *ret_ledger = backends->ledger_backends[at];
    return 0;
}

int backends_new_reader(struct backends *backends, struct ledger **ret_ledger)
{
    return new_ledger(backends, MARIADB_READER, ret_ledger);
}

int backends_new_writer(struct backends *backends, struct ledger **ret_ledger)
{
    return new_ledger(backends, MARIADB_WRITER, ret_ledger);
}

static struct shared_reader *shared_of(struct ledger *ledger)
{
    return (struct shared_reader *)ledger;
}

/* The only lock that is held across I/O: all who wait for it need the same server. */
static void shared_read(struct ledger *ledger, struct ledger_query *query)
{
    struct shared_reader *shared = shared_of(ledger);
    CHECK(pthread_mutex_lock(&shared->lock) == 0);
    (void)ledger_read(shared->real, query);
    CHECK(pthread_mutex_unlock(&shared->lock) == 0);
}

int backends_shared_reader(struct backends *backends, struct ledger **ret_ledger)
{
    static const struct ledger_ops ops = {.read = shared_read};
    struct shared_reader *shared = &backends->shared_reader;
    if (shared->real == NULL) {
        int error = backends_new_reader(backends, &shared->real);
        if (error != 0) {
            return error;
        }
        CHECK(pthread_mutex_init(&shared->lock, NULL) == 0);
        shared->ledger.ops = &ops;
    }
    *ret_ledger = &shared->ledger;
    return 0;
}

void backends_shared_words(struct backends *backends, char *ret_text, size_t capacity)
{
    struct shared_reader *shared = &backends->shared_reader;
    CHECK(pthread_mutex_lock(&shared->lock) == 0);
    (void)snprintf(ret_text, capacity, "%s", ledger_mariadb_error(shared->real));
    CHECK(pthread_mutex_unlock(&shared->lock) == 0);
}

int backends_new_lease(struct backends *backends, struct lease_port **ret_lease)
{
    struct ledger_mariadb_options options = ledger_options(backends);
    size_t at = 0;
    while (backends->leases[at] != NULL) {
        at++;
        CHECK(at < BACKENDS_LEASES);
    }
    int error = lease_mariadb_open(&options, backends->name, &backends->leases[at]);
    if (error != 0) {
        return assembly_fail("cannot open the leases", error, ledger_mariadb_error(NULL));
    }
    *ret_lease = backends->leases[at];
    return 0;
}

/* ---- RabbitMQ ---- */

static int open_queue(struct backends *backends, const struct queue_amqp_options *options,
                      enum queue_amqp_role role, struct queue **ret_queue)
{
    size_t at = 0;
    while (backends->queues[at] != NULL) {
        at++;
    }
    CHECK(at < BACKENDS_MAX);
    int error = queue_amqp_open(options, role, &backends->queues[at]);
    if (error != 0) {
        return assembly_fail("cannot use amqp.url", error, queue_amqp_error(NULL));
    }
    *ret_queue = backends->queues[at];
    return 0;
}

int backends_new_queue(struct backends *backends, bool publisher, struct queue **ret_queue)
{
    const struct config *config = backends->config;
    *ret_queue = NULL;
    if (config->amqp_url[0] == '\0') {
        return 0;
    }
    struct queue_amqp_options options = {.url = config->amqp_url,
                                         .password_file = config->amqp_password_file,
                                         .exchange = config->amqp_queue,
                                         .queue = config->amqp_queue,
                                         .classic = config->amqp_quorum == 0,
                                         .window = (uint32_t)config->amqp_window,
                                         .prefetch = (uint32_t)config->amqp_prefetch,
                                         .content_type = "text/plain"};
    return open_queue(backends, &options, publisher ? QUEUE_AMQP_PUBLISHER : QUEUE_AMQP_CONSUMER,
                      ret_queue);
}

int backends_new_payments(struct backends *backends, struct queue **ret_queue)
{
    const struct config *config = backends->config;
    char refused[sizeof(config->amqp_payments) + sizeof(".refused")];
    *ret_queue = NULL;
    if (config->amqp_url[0] == '\0' || config->amqp_payments[0] == '\0') {
        return 0;
    }
    (void)snprintf(refused, sizeof(refused), "%s.refused", config->amqp_payments);
    struct queue_amqp_options options = {.url = config->amqp_url,
                                         .password_file = config->amqp_password_file,
                                         .exchange = config->amqp_payments,
                                         .queue = config->amqp_payments,
                                         .parked = refused,
                                         .classic = config->amqp_quorum == 0,
                                         .prefetch = PAYMENTS_PREFETCH,
                                         .content_type = "application/json"};
    return open_queue(backends, &options, QUEUE_AMQP_CONSUMER, ret_queue);
}

void backends_link_seen(struct backends *backends, enum backends_link link, bool away)
{
    if (away) {
        (void)atomic_fetch_or(&backends->links_away, 1U << link);
    } else {
        (void)atomic_fetch_and(&backends->links_away, ~(1U << link));
    }
    (void)atomic_fetch_or(&backends->links_seen, 1U << link);
}

bool backends_links_up(const struct backends *backends, bool *ret_known)
{
    *ret_known = atomic_load(&backends->links_seen) != 0;
    return *ret_known && atomic_load(&backends->links_away) == 0;
}

void backends_close(struct backends *backends)
{
    for (int i = 0; i < BACKENDS_MAX; i++) {
        if (backends->segments[i] != NULL) {
            segments_redis_close(backends->segments[i]);
        }
        ledger_mariadb_close(backends->ledger_backends[i]);
        queue_amqp_close(backends->queues[i]);
    }
    if (backends->shared_reader.real != NULL) {
        (void)pthread_mutex_destroy(&backends->shared_reader.lock);
    }
    for (int i = 0; i < BACKENDS_LEASES; i++) {
        lease_mariadb_close(backends->leases[i]);
    }
    redis_gate_free(backends->gate);
    topology_close(backends->topology);
}
