/* See topology.h. */
#include "backend/redis/topology.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/redis/discover.h"
#include "backend/redis/slot.h"
#include "base/check.h"
#include "base/err.h"
#include "base/url.h"

#define TIMEOUT_DEFAULT_MS 1000
#define LOOK_DEFAULT_MS 1000
/* A name is resolved this many times less often than servers are asked. */
#define RESOLVE_LOOKS 10
/* After a suspicion: this often, for this long. Links that keep failing renew it. */
#define EAGER_EVERY_MS 100
#define EAGER_FOR_MS 3000
/* The shortest interval, however many suspicions there are. */
#define LOOK_LEAST_MS 50
/* A Sentinel that is down is asked again after this many looks, if enough others answer. */
#define AWAY_LOOKS 10

struct redis_topology {
    struct redis_address address;
    char sentinel_password[sizeof(((struct redis_address *)0)->password)];
    uint32_t timeout_ms;
    uint32_t look_ms;
    uint16_t slots[SEGMENTS_MAX];
    pthread_t thread;
    bool threaded;
    _Atomic uint64_t generation;
    /* Used by the thread only. */
    struct discover_door doors[REDIS_SEEDS_MAX]; /* SENTINEL: one each; CLUSTER: the first */
    uint64_t epoch;                              /* the highest epoch seen */
    uint64_t turn;
    /* Guarded by the lock. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    bool woken; /* look as soon as possible */
    int64_t eager_until_ms;
    uint64_t patches; /* changes by topology_moved; a look that began before one is outdated */
    struct redis_seed hint;
    struct topology_node doubted;
    struct discover_view view;
    char trouble[TOPOLOGY_TEXT_MAX];
    uint64_t looks;
    uint64_t failures;
};

static int64_t now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_numeric(const char *host)
{
    uint8_t bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* ---- looking ---- */

static int look_single(struct redis_topology *topology, struct discover_view *view, char *ret_why)
{
    const struct redis_seed *seed = &topology->address.seeds[0];
    char host[REDIS_HOST_MAX];
    if (discover_resolve(seed->host, host) != 0) {
        (void)snprintf(ret_why, TOPOLOGY_TEXT_MAX, "%.200s: no such host", seed->host);
        return ERR_NOTFOUND;
    }
    *view = (struct discover_view){.sound = true};
    (void)discover_node(view, host, seed->port);
    return 0;
}

/*
 * Asks every connected Sentinel. Those that are down are asked only if fewer than half are left, or
 * now and then, since each may cost the whole timeout. The one with the highest epoch wins. A lower
 * epoch than before counts only if more than half say so (Sentinels that were set up again begin
 * with epoch 0).
 */
static int look_sentinel(struct redis_topology *topology, struct discover_view *view, char *ret_why)
{
    struct discover_login login = {"", topology->sentinel_password, topology->timeout_ms};
    uint32_t count = topology->address.seed_count;
    uint32_t answered = 0;
    struct discover_view one;
    for (int away = 0; away < 2; away++) {
        for (uint32_t i = 0; i < count; i++) {
            struct discover_door *door = &topology->doors[i];
            bool due = away == 0 ? door->context != NULL
                                 : door->context == NULL &&
                                       (answered * 2 <= count || topology->turn % AWAY_LOOKS == 0);
            if (due &&
                discover_sentinel(door, &login, topology->address.master, &one, ret_why) == 0) {
                if (answered == 0 || one.epoch > view->epoch) {
                    *view = one;
                }
                answered++;
            }
        }
    }
    if (answered == 0) {
        return ERR_IO;
    }
    if (view->epoch < topology->epoch && answered * 2 <= count) {
        (void)snprintf(ret_why, TOPOLOGY_TEXT_MAX, "only Sentinels that know less answer");
        return ERR_AGAIN;
    }
    return 0;
}

/* The nodes to ask, best first: the one named last, the one asked last, the masters, the seeds;
 * last the suspected one. */
static uint32_t candidates(struct redis_topology *topology,
                           struct redis_seed ret_seeds[TOPOLOGY_NODES_MAX + REDIS_SEEDS_MAX + 3])
{
    uint32_t count = 0;
    struct redis_seed doubted = {.port = 0};
    (void)pthread_mutex_lock(&topology->lock);
    if (topology->hint.port != 0) {
        ret_seeds[count++] = topology->hint;
        topology->hint.port = 0;
    }
    if (topology->doubted.port != 0) {
        doubted.port = topology->doubted.port;
        (void)snprintf(doubted.host, sizeof(doubted.host), "%s", topology->doubted.host);
        topology->doubted.port = 0;
    }
    if (topology->doors[0].seed.port != 0) {
        ret_seeds[count++] = topology->doors[0].seed;
    }
    for (uint32_t i = 0; i < topology->view.node_count; i++) {
        struct redis_seed *seed = &ret_seeds[count++];
        seed->port = topology->view.nodes[i].port;
        (void)snprintf(seed->host, sizeof(seed->host), "%s", topology->view.nodes[i].host);
    }
    (void)pthread_mutex_unlock(&topology->lock);
    for (uint32_t i = 0; i < topology->address.seed_count; i++) {
        ret_seeds[count++] = topology->address.seeds[i];
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool again =
            ret_seeds[i].port == doubted.port && strcmp(ret_seeds[i].host, doubted.host) == 0;
        for (uint32_t k = 0; k < kept; k++) {
            again |= ret_seeds[i].port == ret_seeds[k].port &&
                     strcmp(ret_seeds[i].host, ret_seeds[k].host) == 0;
        }
        if (!again) {
            ret_seeds[kept++] = ret_seeds[i];
        }
    }
    if (doubted.port != 0) {
        ret_seeds[kept++] = doubted;
    }
    return kept;
}

/* The first node that knows as much as any before and sees the cluster up. If there is none, the
 * one that knows most, unless its cluster is down and it knows less than before. */
static int look_cluster(struct redis_topology *topology, struct discover_view *view, char *ret_why)
{
    struct discover_login login = {topology->address.user, topology->address.password,
                                   topology->timeout_ms};
    struct redis_seed seeds[TOPOLOGY_NODES_MAX + REDIS_SEEDS_MAX + 3];
    struct discover_door *door = &topology->doors[0];
    uint32_t count = candidates(topology, seeds);
    bool answered = false;
    struct discover_view one;
    for (uint32_t i = 0; i < count; i++) {
        if (door->seed.port != seeds[i].port || strcmp(door->seed.host, seeds[i].host) != 0) {
            discover_close(door);
            door->seed = seeds[i];
        }
        if (discover_cluster(door, &login, &one, ret_why) != 0) {
            continue;
        }
        if (!answered || (one.sound && !view->sound) ||
            (one.sound == view->sound && one.epoch > view->epoch)) {
            *view = one;
        }
        answered = true;
        if (view->sound && view->epoch >= topology->epoch) {
            return 0;
        }
    }
    if (answered && !view->sound && view->epoch < topology->epoch) {
        (void)snprintf(ret_why, TOPOLOGY_TEXT_MAX, "only nodes of a cluster that is down answer");
        return ERR_AGAIN;
    }
    return answered ? 0 : ERR_IO;
}

static bool same_view(const struct discover_view *a, const struct discover_view *b)
{
    if (a->node_count != b->node_count || memcmp(a->owner, b->owner, sizeof(a->owner)) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < a->node_count; i++) {
        if (a->nodes[i].port != b->nodes[i].port ||
            strcmp(a->nodes[i].host, b->nodes[i].host) != 0) {
            return false;
        }
    }
    return true;
}

static void look(struct redis_topology *topology)
{
    struct discover_view view = {.epoch = 0};
    char why[TOPOLOGY_TEXT_MAX] = "";
    (void)pthread_mutex_lock(&topology->lock);
    uint64_t patches = topology->patches;
    (void)pthread_mutex_unlock(&topology->lock);
    int error = topology->address.kind == REDIS_SINGLE     ? look_single(topology, &view, why)
                : topology->address.kind == REDIS_SENTINEL ? look_sentinel(topology, &view, why)
                                                           : look_cluster(topology, &view, why);
    topology->turn++;
    if (error == 0) {
        topology->epoch = view.epoch;
    }
    (void)pthread_mutex_lock(&topology->lock);
    topology->looks++;
    topology->failures += error != 0;
    (void)snprintf(topology->trouble, sizeof(topology->trouble), "%s", error != 0 ? why : "");
    if (error == 0 && patches == topology->patches && !same_view(&view, &topology->view)) {
        topology->view = view;
        atomic_fetch_add(&topology->generation, 1);
    }
    (void)pthread_mutex_unlock(&topology->lock);
}

/* Locked. When to look next; last_ms: when the last look began. */
static int64_t next_look_ms(const struct redis_topology *topology, int64_t last_ms)
{
    int64_t pause_ms = topology->look_ms;
    if (topology->address.kind == REDIS_SINGLE) {
        pause_ms *= RESOLVE_LOOKS;
    }
    if (now_ms() < topology->eager_until_ms && pause_ms > EAGER_EVERY_MS) {
        pause_ms = EAGER_EVERY_MS;
    }
    if (topology->woken && pause_ms > LOOK_LEAST_MS) {
        pause_ms = LOOK_LEAST_MS;
    }
    return last_ms + pause_ms;
}

static void *run(void *context)
{
    struct redis_topology *topology = context;
    int64_t last_ms = now_ms();
    (void)pthread_mutex_lock(&topology->lock);
    while (!topology->stop) {
        int64_t next_ms = next_look_ms(topology, last_ms);
        if (now_ms() < next_ms) {
            struct timespec until = {.tv_sec = next_ms / 1000, .tv_nsec = next_ms % 1000 * 1000000};
            (void)pthread_cond_timedwait(&topology->wake, &topology->lock, &until);
            continue;
        }
        topology->woken = false;
        last_ms = now_ms();
        (void)pthread_mutex_unlock(&topology->lock);
        look(topology);
        (void)pthread_mutex_lock(&topology->lock);
    }
    (void)pthread_mutex_unlock(&topology->lock);
    return NULL;
}

/* ---- for all threads ---- */

uint32_t topology_segments(struct redis_topology *topology)
{
    (void)pthread_mutex_lock(&topology->lock);
    uint32_t masters = topology->view.node_count;
    (void)pthread_mutex_unlock(&topology->lock);
    return masters;
}

bool topology_is_cluster(const struct redis_topology *topology)
{
    return topology->address.kind == REDIS_CLUSTER;
}

const char *topology_user(const struct redis_topology *topology)
{
    return topology->address.user[0] != '\0' ? topology->address.user : NULL;
}

const char *topology_password(const struct redis_topology *topology)
{
    return topology->address.password[0] != '\0' ? topology->address.password : NULL;
}

uint64_t topology_generation(const struct redis_topology *topology)
{
    return atomic_load(&topology->generation);
}

int topology_address(struct redis_topology *topology, uint32_t segment,
                     char ret_host[REDIS_HOST_MAX], uint16_t *ret_port, uint64_t *ret_generation)
{
    CHECK(segment < SEGMENTS_MAX);
    (void)pthread_mutex_lock(&topology->lock);
    uint8_t owner = topology->view.owner[segment];
    int error = owner < topology->view.node_count ? 0 : ERR_NOTFOUND;
    if (error == 0) {
        memcpy(ret_host, topology->view.nodes[owner].host, REDIS_HOST_MAX);
        *ret_port = topology->view.nodes[owner].port;
        *ret_generation = atomic_load(&topology->generation);
    }
    (void)pthread_mutex_unlock(&topology->lock);
    return error;
}

uint32_t topology_masters(struct redis_topology *topology, struct topology_node *ret_nodes,
                          uint32_t max)
{
    (void)pthread_mutex_lock(&topology->lock);
    uint32_t count = topology->view.node_count < max ? topology->view.node_count : max;
    memcpy(ret_nodes, topology->view.nodes, count * sizeof(*ret_nodes));
    (void)pthread_mutex_unlock(&topology->lock);
    return count;
}

void topology_moved(struct redis_topology *topology, uint32_t slot, const char *host, uint16_t port)
{
    (void)pthread_mutex_lock(&topology->lock);
    struct discover_view *view = &topology->view;
    uint8_t node = NO_NODE;
    bool changed = false;
    if (is_numeric(host) && strlen(host) < REDIS_HOST_MAX) {
        node = discover_node(view, host, port);
    }
    for (uint32_t i = 0; node != NO_NODE && i < SEGMENTS_MAX; i++) {
        if (topology->slots[i] == slot && view->owner[i] != node) {
            view->owner[i] = node;
            changed = true;
        }
    }
    if (changed) {
        topology->patches++;
        atomic_fetch_add(&topology->generation, 1);
    }
    topology->hint.port = port;
    (void)snprintf(topology->hint.host, sizeof(topology->hint.host), "%s", host);
    topology->woken = true;
    (void)pthread_cond_signal(&topology->wake);
    (void)pthread_mutex_unlock(&topology->lock);
}

void topology_suspect(struct redis_topology *topology, uint32_t segment)
{
    CHECK(segment < SEGMENTS_MAX);
    (void)pthread_mutex_lock(&topology->lock);
    uint8_t owner = topology->view.owner[segment];
    if (owner < topology->view.node_count) {
        topology->doubted = topology->view.nodes[owner];
    }
    topology->eager_until_ms = now_ms() + EAGER_FOR_MS;
    topology->woken = true;
    (void)pthread_cond_signal(&topology->wake);
    (void)pthread_mutex_unlock(&topology->lock);
}

void topology_trouble(struct redis_topology *topology, char ret_text[TOPOLOGY_TEXT_MAX])
{
    (void)pthread_mutex_lock(&topology->lock);
    memcpy(ret_text, topology->trouble, TOPOLOGY_TEXT_MAX);
    (void)pthread_mutex_unlock(&topology->lock);
}

void topology_count(struct redis_topology *topology, struct topology_numbers *ret_numbers)
{
    (void)pthread_mutex_lock(&topology->lock);
    *ret_numbers = (struct topology_numbers){.looks = topology->looks,
                                             .failures = topology->failures,
                                             .generation = topology_generation(topology)};
    (void)pthread_mutex_unlock(&topology->lock);
}

/* ---- life ---- */

int topology_check_url(const char *url, char *ret_error, size_t capacity)
{
    struct redis_address address;
    char error[TOPOLOGY_TEXT_MAX];
    int wrong = redis_address_parse(url, &address, error, sizeof(error));
    if (wrong != 0 && ret_error != NULL) {
        (void)snprintf(ret_error, capacity, "%s", error);
    }
    return wrong;
}

static int read_options(struct redis_topology *topology, const struct topology_options *options,
                        char *ret_error, size_t capacity)
{
    struct redis_address *address = &topology->address;
    int error = redis_address_parse(options->url, address, ret_error, capacity);
    if (error == 0 && options->password_file != NULL && options->password_file[0] != '\0') {
        error = url_password_file(options->password_file, "Redis's", address->password,
                                  sizeof(address->password), ret_error, capacity);
    }
    if (error == 0 && options->sentinel_password_file != NULL &&
        options->sentinel_password_file[0] != '\0') {
        error = url_password_file(options->sentinel_password_file, "the Sentinels'",
                                  topology->sentinel_password, sizeof(topology->sentinel_password),
                                  ret_error, capacity);
    }
    topology->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : TIMEOUT_DEFAULT_MS;
    topology->look_ms = options->look_ms != 0 ? options->look_ms : LOOK_DEFAULT_MS;
    return error;
}

int topology_open(const struct topology_options *options, struct redis_topology **ret_topology,
                  char *ret_error, size_t capacity)
{
    struct redis_topology *topology = calloc(1, sizeof(*topology));
    if (topology == NULL) {
        return ERR_NOMEM;
    }
    int error = read_options(topology, options, ret_error, capacity);
    if (error != 0) {
        free(topology);
        return error;
    }
    pthread_condattr_t clock;
    CHECK(pthread_condattr_init(&clock) == 0 &&
          pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) == 0 &&
          pthread_cond_init(&topology->wake, &clock) == 0 &&
          pthread_mutex_init(&topology->lock, NULL) == 0);
    (void)pthread_condattr_destroy(&clock);
    memset(topology->view.owner, NO_NODE, sizeof(topology->view.owner));
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        topology->slots[i] = (uint16_t)slot_of(span_of(slot_tag(i)));
    }
    for (uint32_t i = 0;
         topology->address.kind == REDIS_SENTINEL && i < topology->address.seed_count; i++) {
        topology->doors[i].seed = topology->address.seeds[i];
    }
    look(topology);
    /* A single server with a numeric address never moves. */
    if (topology->address.kind != REDIS_SINGLE || !is_numeric(topology->address.seeds[0].host)) {
        topology->threaded = pthread_create(&topology->thread, NULL, run, topology) == 0;
        if (!topology->threaded) {
            (void)snprintf(ret_error, capacity, "no thread for Redis's topology");
            topology_close(topology);
            return ERR_IO;
        }
    }
    *ret_topology = topology;
    return 0;
}

void topology_close(struct redis_topology *topology)
{
    if (topology == NULL) {
        return;
    }
    if (topology->threaded) {
        (void)pthread_mutex_lock(&topology->lock);
        topology->stop = true;
        (void)pthread_cond_signal(&topology->wake);
        (void)pthread_mutex_unlock(&topology->lock);
        (void)pthread_join(topology->thread, NULL);
    }
    for (uint32_t i = 0; i < REDIS_SEEDS_MAX; i++) {
        discover_close(&topology->doors[i]);
    }
    (void)pthread_cond_destroy(&topology->wake);
    (void)pthread_mutex_destroy(&topology->lock);
    free(topology);
}
