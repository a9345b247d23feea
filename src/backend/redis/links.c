/* See links.h. */
#include "backend/redis/links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "port/segments.h"

/* Reads per iteration. A read returns 16 KiB, some 200 answers; then the loop does other work. */
#define READS_MAX 8
#define EVENTS_MAX 16
/* Masters, and some that are being added or removed. */
#define LINKS_MAX (TOPOLOGY_NODES_MAX + 16)
/* Two nodes may redirect a call to each other while a slot is moved. */
#define HOPS_MAX 4
/* How long a link is kept that only a redirection needed. */
#define SPARE_US 10000000
/* Another thread changes the topology: how late a change is seen at most. */
#define GLANCE_US 100000

struct entry {
    struct topology_node node; /* the link borrows its host */
    struct redis_link *link;
    bool wanted; /* it is in the topology */
    int64_t used_us;
};

struct redis_links {
    struct links_config config;
    int epoll;
    uint64_t generation;
    uint64_t made; /* links ever made */
    int64_t now_us;
    struct entry *entries[LINKS_MAX];
    uint32_t count;
    struct entry *of[SEGMENTS_MAX]; /* NULL: not known */
    struct link_numbers gone;       /* of closed links */
};

static void add_numbers(struct link_numbers *sum, const struct redis_link *link)
{
    struct link_numbers one;
    link_count(link, &one);
    sum->connects += one.connects;
    sum->losses += one.losses;
    sum->reloads += one.reloads;
    sum->writes += one.writes;
    sum->calls += one.calls;
    sum->redirects += one.redirects;
    sum->waits += one.waits;
    sum->waits_short += one.waits_short;
}

/* ---- links by address ---- */

static bool redirect(void *context, struct redis_link *link, struct redis_op *op,
                     const struct redis_redirect *to);
static void suspect(void *context, struct redis_link *link);

/* The entry of an address, created if needed. NULL: no room, or not numeric. */
static struct entry *entry_at(struct redis_links *links, const char *host, uint16_t port)
{
    for (uint32_t i = 0; i < links->count; i++) {
        struct entry *entry = links->entries[i];
        if (entry->node.port == port && strcmp(entry->node.host, host) == 0) {
            return entry;
        }
    }
    struct entry *entry = links->count < LINKS_MAX ? calloc(1, sizeof(*entry)) : NULL;
    if (entry == NULL || strlen(host) >= sizeof(entry->node.host)) {
        free(entry);
        return NULL;
    }
    (void)snprintf(entry->node.host, sizeof(entry->node.host), "%s", host);
    entry->node.port = port;
    struct link_config config = links->config.link;
    config.host = entry->node.host;
    config.port = port;
    config.username = topology_user(links->config.topology);
    config.password = topology_password(links->config.topology);
    config.epoll = links->epoll;
    config.seed = links->config.seed + links->made++;
    config.router = (struct link_router){links, redirect, suspect};
    if (link_new(&config, &entry->link) != 0) {
        free(entry);
        return NULL;
    }
    links->entries[links->count++] = entry;
    return entry;
}

static void drop(struct redis_links *links, uint32_t i)
{
    struct entry *entry = links->entries[i];
    add_numbers(&links->gone, entry->link);
    link_free(entry->link);
    free(entry);
    links->entries[i] = links->entries[--links->count];
}

/* Closes links that are not needed. Never called inside an event of a link. */
static void sweep(struct redis_links *links)
{
    for (uint32_t i = links->count; i-- > 0;) {
        const struct entry *entry = links->entries[i];
        if (!entry->wanted && link_idle(entry->link) &&
            links->now_us >= entry->used_us + SPARE_US) {
            drop(links, i);
        }
    }
}

/* Follows the topology if it has changed. */
static void follow(struct redis_links *links)
{
    struct redis_topology *topology = links->config.topology;
    struct topology_node nodes[TOPOLOGY_NODES_MAX];
    uint64_t generation = topology_generation(topology);
    if (generation == links->generation) {
        return;
    }
    links->generation = generation; /* read first: it may be older than what is read below, not
                                     * newer */
    for (uint32_t i = 0; i < links->count; i++) {
        if (links->entries[i]->wanted) {
            links->entries[i]->used_us = links->now_us;
        }
        links->entries[i]->wanted = false;
    }
    for (uint32_t segment = 0; segment < links->config.segments; segment++) {
        char host[REDIS_HOST_MAX];
        uint16_t port = 0;
        links->of[segment] = topology_address(topology, segment, host, &port, &generation) == 0
                                 ? entry_at(links, host, port)
                                 : NULL;
        if (links->of[segment] != NULL) {
            links->of[segment]->wanted = true;
        }
    }
    /* Other masters may get a segment at any time: the link then exists already. */
    uint32_t count = topology_masters(topology, nodes, TOPOLOGY_NODES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct entry *entry = entry_at(links, nodes[i].host, nodes[i].port);
        if (entry != NULL) {
            entry->wanted = true;
        }
    }
}

/* ---- callbacks of links ---- */

static bool redirect(void *context, struct redis_link *link, struct redis_op *op,
                     const struct redis_redirect *to)
{
    struct redis_links *links = context;
    (void)link;
    if (!to->request) {
        topology_moved(links->config.topology, to->slot, to->host, to->port);
    }
    struct entry *entry = entry_at(links, to->host, to->port);
    if (entry == NULL || op->hops == HOPS_MAX) {
        return false;
    }
    entry->used_us = links->now_us;
    op->hops++;
    return link_send_again(entry->link, op, to->request, links->now_us) == 0;
}

static void suspect(void *context, struct redis_link *link)
{
    struct redis_links *links = context;
    for (uint32_t i = 0; i < links->config.segments; i++) {
        if (links->of[i] != NULL && links->of[i]->link == link) {
            topology_suspect(links->config.topology, i);
            return;
        }
    }
}

/* ---- the iteration ---- */

int links_send(struct redis_links *links, uint32_t segment, struct redis_op *op, int64_t now_us)
{
    CHECK(segment < links->config.segments);
    links->now_us = now_us;
    follow(links);
    op->segment = segment;
    if (links->of[segment] == NULL) {
        return ERR_CLOSED;
    }
    return link_send(links->of[segment]->link, op, now_us);
}

void links_flush(struct redis_links *links)
{
    for (uint32_t i = 0; i < links->count; i++) {
        link_flush(links->entries[i]->link);
    }
}

void links_turn(struct redis_links *links, int64_t now_us)
{
    struct epoll_event events[EVENTS_MAX];
    links->now_us = now_us;
    follow(links);
    links_flush(links);
    for (int i = 0; i < READS_MAX; i++) {
        int n = epoll_wait(links->epoll, events, EVENTS_MAX, 0);
        if (n <= 0) {
            break;
        }
        for (int k = 0; k < n; k++) {
            link_event(events[k].data.ptr, events[k].events, now_us);
        }
    }
    for (uint32_t i = 0; i < links->count; i++) {
        link_tick(links->entries[i]->link, now_us);
    }
    links_flush(links); /* sends redirected calls */
    sweep(links);
}

int links_fd(const struct redis_links *links)
{
    return links->epoll;
}

int64_t links_next_us(const struct redis_links *links)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < links->count; i++) {
        int64_t link = link_next_us(links->entries[i]->link);
        next = link < next ? link : next;
    }
    /* A segment without a link waits for the topology, whose thread cannot wake this one. */
    for (uint32_t i = 0; i < links->config.segments; i++) {
        bool ready = links->of[i] != NULL && link_ready(links->of[i]->link);
        if (!ready && links->now_us + GLANCE_US < next) {
            next = links->now_us + GLANCE_US;
        }
    }
    return next;
}

bool links_ready(const struct redis_links *links, uint32_t segment)
{
    CHECK(segment < links->config.segments);
    return links->of[segment] != NULL && link_ready(links->of[segment]->link);
}

const char *links_trouble(const struct redis_links *links, uint32_t segment)
{
    CHECK(segment < links->config.segments);
    return links->of[segment] != NULL ? link_trouble(links->of[segment]->link)
                                      : "nobody has said where the segment is";
}

void links_count(const struct redis_links *links, struct link_numbers *ret_numbers,
                 uint32_t *ret_ready)
{
    *ret_numbers = links->gone;
    *ret_ready = 0;
    for (uint32_t i = 0; i < links->count; i++) {
        add_numbers(ret_numbers, links->entries[i]->link);
        *ret_ready += link_ready(links->entries[i]->link);
    }
}

/* ---- life ---- */

int links_new(const struct links_config *config, struct redis_links **ret_links)
{
    CHECK(config->segments >= 1 && config->segments <= SEGMENTS_MAX);
    struct redis_links *links = calloc(1, sizeof(*links));
    if (links == NULL) {
        return ERR_NOMEM;
    }
    links->config = *config;
    links->generation = UINT64_MAX;
    links->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (links->epoll < 0) {
        free(links);
        return ERR_IO;
    }
    follow(links);
    *ret_links = links;
    return 0;
}

void links_free(struct redis_links *links)
{
    if (links == NULL) {
        return;
    }
    while (links->count > 0) {
        drop(links, links->count - 1);
    }
    (void)close(links->epoll);
    free(links);
}
