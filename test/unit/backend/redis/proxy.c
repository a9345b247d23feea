/* See proxy.h. */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

#define DRIP_BYTES 50

static struct sockaddr_in address_of(const char *host, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    CHECK(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    return address;
}

void proxy_open(struct proxy *proxy)
{
    struct sockaddr_in address = address_of("127.0.0.1", 0);
    socklen_t len = sizeof(address);
    *proxy = (struct proxy){.client = -1, .server = -1};
    proxy->listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(proxy->listener >= 0);
    CHECK(bind(proxy->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(proxy->listener, 8) == 0);
    CHECK(getsockname(proxy->listener, (struct sockaddr *)&address, &len) == 0);
    proxy->port = ntohs(address.sin_port);
}

void proxy_cut(struct proxy *proxy)
{
    if (proxy->client >= 0) {
        (void)close(proxy->client);
        (void)close(proxy->server);
        proxy->client = -1;
        proxy->server = -1;
    }
}

void proxy_close(struct proxy *proxy)
{
    proxy_cut(proxy);
    (void)close(proxy->listener);
}

static bool readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

/* Up to max bytes. False: one end has closed. */
static bool move(struct proxy *proxy, int from, int to, size_t max, bool drop)
{
    char bytes[65536];
    while (max > 0 && readable(from)) {
        ssize_t n = recv(from, bytes, max < sizeof(bytes) ? max : sizeof(bytes), 0);
        if (n <= 0) {
            return false;
        }
        max -= (size_t)n;
        proxy->dropped += drop ? (uint64_t)n : 0;
        for (ssize_t sent = 0; !drop && sent < n;) {
            ssize_t one = send(to, bytes + sent, (size_t)(n - sent), MSG_NOSIGNAL);
            if (one < 0) {
                return false;
            }
            sent += one;
        }
    }
    return true;
}

void proxy_pump(struct proxy *proxy, const char *host, uint16_t port)
{
    if (proxy->client < 0 && readable(proxy->listener)) {
        struct sockaddr_in address = address_of(host, port);
        proxy->client = accept(proxy->listener, NULL, NULL);
        proxy->server = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(proxy->client >= 0 && proxy->server >= 0);
        if (connect(proxy->server, (struct sockaddr *)&address, sizeof(address)) != 0) {
            proxy_cut(proxy);
        }
    }
    if (proxy->client < 0 || proxy->mode == PROXY_HOLD) {
        return;
    }
    size_t answers = proxy->mode == PROXY_DRIP ? DRIP_BYTES : SIZE_MAX;
    if (!move(proxy, proxy->client, proxy->server, SIZE_MAX, false) ||
        !move(proxy, proxy->server, proxy->client, answers, proxy->mode == PROXY_DROP_ANSWERS)) {
        proxy_cut(proxy);
    }
}
