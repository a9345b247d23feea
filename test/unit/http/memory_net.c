/* See memory_net.h. Bytes in both directions are plain growing arrays. */
#include "memory_net.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

struct pile {
    char *at;
    size_t from;
    size_t len; /* end of the bytes */
    size_t cap;
};

struct line {
    bool used;
    bool announced;
    bool fin;
    bool told_fin;
    bool reset;
    bool finished;
    uint32_t watch;
    size_t window;
    struct pile to_server;
    struct pile to_peer;
};

struct memory_net {
    struct net net;
    uint32_t max;
    bool accepting;
    int64_t timeout_us;
    struct memory_net_counts counts;
    struct line *lines;
};

static struct memory_net *self(struct net *net)
{
    return (struct memory_net *)(void *)net;
}

static struct line *line_of(struct net *net, uint32_t connection)
{
    CHECK(connection < self(net)->max);
    return &self(net)->lines[connection];
}

static struct line *used_line(struct net *net, uint32_t connection)
{
    struct line *line = line_of(net, connection);
    CHECK(line->used);
    return line;
}

/* A NUL stands behind the bytes, so that tests may look at them as text. */
static void pile_add(struct pile *pile, const void *bytes, size_t n)
{
    if (pile->len + n >= pile->cap) {
        pile->cap = (pile->len + n + 1) * 2;
        pile->at = realloc(pile->at, pile->cap);
        CHECK(pile->at != NULL);
    }
    if (n > 0) {
        memcpy(pile->at + pile->len, bytes, n);
    }
    pile->len += n;
    pile->at[pile->len] = '\0';
}

static size_t op_poll(struct net *net, struct net_event *ret_events, size_t max, int64_t timeout_us)
{
    struct memory_net *n = self(net);
    size_t count = 0;
    n->timeout_us = timeout_us;
    for (uint32_t i = 0; i < n->max && count < max; i++) {
        struct line *line = &n->lines[i];
        if (!line->used) {
            continue;
        }
        uint32_t what = line->announced ? 0 : NET_ACCEPTED;
        line->announced = true;
        bool readable = line->to_server.from < line->to_server.len || line->fin;
        what |= readable && (line->watch & NET_READABLE) != 0 ? NET_READABLE : 0;
        what |= line->window > 0 && (line->watch & NET_WRITABLE) != 0 ? NET_WRITABLE : 0;
        what |= line->reset ? NET_HUNG_UP : 0;
        what |= line->fin && !line->told_fin ? NET_FINISHED : 0;
        line->told_fin = line->fin;
        if (what != 0) {
            ret_events[count++] = (struct net_event){i, what};
        }
    }
    return count;
}

static int64_t op_read(struct net *net, uint32_t connection, void *bytes, size_t len)
{
    struct line *line = used_line(net, connection);
    CHECK(len > 0);
    self(net)->counts.reads++;
    if (line->reset) {
        return ERR_IO;
    }
    size_t n = line->to_server.len - line->to_server.from;
    if (n == 0) {
        return line->fin ? 0 : ERR_AGAIN;
    }
    n = n < len ? n : len;
    memcpy(bytes, line->to_server.at + line->to_server.from, n);
    line->to_server.from += n;
    return (int64_t)n;
}

static int64_t op_write(struct net *net, uint32_t connection, const struct net_piece *pieces,
                        size_t count)
{
    struct line *line = used_line(net, connection);
    CHECK(!line->finished && count > 0);
    self(net)->counts.writes++;
    if (line->reset) {
        return ERR_IO;
    }
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = pieces[i].len < line->window ? pieces[i].len : line->window;
        pile_add(&line->to_peer, pieces[i].at, n);
        line->window -= n;
        taken += n;
    }
    return taken == 0 ? ERR_AGAIN : (int64_t)taken;
}

static void op_finish(struct net *net, uint32_t connection)
{
    struct line *line = used_line(net, connection);
    CHECK(!line->finished);
    line->finished = true;
}

static void op_watch(struct net *net, uint32_t connection, uint32_t what)
{
    self(net)->counts.watches++;
    used_line(net, connection)->watch = what;
}

static void op_close(struct net *net, uint32_t connection)
{
    struct line *line = used_line(net, connection);
    line->used = false;
    line->finished = true;
}

static void op_accepting(struct net *net, bool on)
{
    self(net)->accepting = on;
}

static struct net_address op_peer(struct net *net, uint32_t connection)
{
    (void)used_line(net, connection);
    return (struct net_address){4, {127, 0, 0, 1}};
}

static void op_wake(struct net *net)
{
    (void)net;
}

struct net *memory_net_new(uint32_t connections_max)
{
    static const struct net_ops ops = {
        .poll = op_poll,
        .read = op_read,
        .write = op_write,
        .finish = op_finish,
        .watch = op_watch,
        .close = op_close,
        .accepting = op_accepting,
        .peer = op_peer,
        .wake = op_wake,
    };
    struct memory_net *n = calloc(1, sizeof(*n));
    CHECK(n != NULL);
    n->lines = calloc(connections_max, sizeof(*n->lines));
    CHECK(n->lines != NULL);
    n->net.ops = &ops;
    n->max = connections_max;
    n->accepting = true;
    return &n->net;
}

void memory_net_free(struct net *net)
{
    struct memory_net *n = self(net);
    for (uint32_t i = 0; i < n->max; i++) {
        free(n->lines[i].to_server.at);
        free(n->lines[i].to_peer.at);
    }
    free(n->lines);
    free(n);
}

uint32_t memory_net_connect(struct net *net)
{
    struct memory_net *n = self(net);
    CHECK(n->accepting);
    uint32_t i = 0;
    while (i < n->max && n->lines[i].used) {
        i++;
    }
    CHECK(i < n->max);
    struct line *line = &n->lines[i];
    struct pile in = line->to_server;
    struct pile out = line->to_peer;
    in.from = in.len = out.from = out.len = 0;
    *line = (struct line){
        .used = true, .watch = NET_READABLE, .window = SIZE_MAX, .to_server = in, .to_peer = out};
    return i;
}

void memory_net_send(struct net *net, uint32_t connection, struct span bytes)
{
    struct line *line = line_of(net, connection);
    CHECK(!line->fin);
    if (line->used) {
        pile_add(&line->to_server, bytes.at, bytes.len);
    }
}

void memory_net_fin(struct net *net, uint32_t connection)
{
    line_of(net, connection)->fin = true;
}

void memory_net_reset(struct net *net, uint32_t connection)
{
    line_of(net, connection)->reset = true;
}

void memory_net_window(struct net *net, uint32_t connection, size_t bytes)
{
    line_of(net, connection)->window = bytes;
}

struct span memory_net_take(struct net *net, uint32_t connection)
{
    struct line *line = line_of(net, connection);
    struct pile *pile = &line->to_peer;
    struct span taken = {pile->at == NULL ? "" : pile->at + pile->from, pile->len - pile->from};
    pile->from = pile->len;
    return taken;
}

bool memory_net_finished(struct net *net, uint32_t connection)
{
    return line_of(net, connection)->finished;
}

bool memory_net_closed(struct net *net, uint32_t connection)
{
    return !line_of(net, connection)->used;
}

int64_t memory_net_timeout_us(struct net *net)
{
    return self(net)->timeout_us;
}

bool memory_net_accepting(struct net *net)
{
    return self(net)->accepting;
}

size_t memory_net_unread(struct net *net, uint32_t connection)
{
    struct line *line = line_of(net, connection);
    return line->to_server.len - line->to_server.from;
}

struct memory_net_counts memory_net_counts(struct net *net)
{
    return self(net)->counts;
}
