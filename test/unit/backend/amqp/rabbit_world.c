/* See rabbit_world.h. */
#include "rabbit_world.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FD_LIMIT 1024

static const char *env(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
}

const char *rabbit_missing(void)
{
    bool here = env("SLUICE_TEST_RABBITMQ") != NULL && env("SLUICE_TEST_RABBITMQ_CONTROL") != NULL;
    return here ? NULL
                : "SLUICE_TEST_RABBITMQ is not set; test/integration/rabbitlib.py starts one";
}

void rabbit_do(const char *word)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char answer[512] = "";
    size_t length = 0;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                   env("SLUICE_TEST_RABBITMQ_CONTROL"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        dprintf(fd, "%s\n", word) < 0) {
        fail_msg("the broker's control at %s: %s", address.sun_path, strerror(errno));
    }
    while (length < sizeof(answer) - 1) {
        ssize_t n = read(fd, answer + length, sizeof(answer) - 1 - length);
        if (n <= 0 || memchr(answer + length, '\n', (size_t)n) != NULL) {
            break;
        }
        length += (size_t)n;
    }
    (void)close(fd);
    if (strcmp(answer, "ok\n") != 0) {
        fail_msg("the broker could not %s: %s", word, answer);
    }
}

struct amqp_address rabbit_address(void)
{
    struct amqp_address address;
    char error[256] = "";
    if (amqp_address_parse(env("SLUICE_TEST_RABBITMQ"), &address, error, sizeof(error)) != 0) {
        fail_msg("SLUICE_TEST_RABBITMQ: %s", error);
    }
    return address;
}

/* ---- a place ---- */

struct rabbit_place *rabbit_place_new(void)
{
    static atomic_int made;
    static const uint32_t retry_s[] = {1, 2};
    struct rabbit_place *place = calloc(1, sizeof(*place));
    assert_non_null(place);
    rabbit_do("start");
    (void)snprintf(place->url, sizeof(place->url), "%s", env("SLUICE_TEST_RABBITMQ"));
    (void)snprintf(place->name, sizeof(place->name), "sluice.test.%ld.%d", (long)getpid(), ++made);
    place->options = (struct queue_amqp_options){.url = place->url,
                                                 .exchange = place->name,
                                                 .queue = place->name,
                                                 .retry_s = retry_s,
                                                 .retry_count = 2,
                                                 .connect_timeout_ms = 60000,
                                                 .pause_min_ms = 20,
                                                 .pause_max_ms = 200};
    return place;
}

struct queue *rabbit_open(const struct rabbit_place *place, enum queue_amqp_role role)
{
    struct queue *queue = NULL;
    if (queue_amqp_open(&place->options, role, &queue) != 0) {
        fail_msg("%s", queue_amqp_error(NULL));
    }
    if (queue_amqp_wait(queue, 60000) != 0) {
        fail_msg("%s", queue_amqp_error(queue));
    }
    return queue;
}

int rabbit_cut(const struct rabbit_place *place)
{
    struct amqp_address address;
    char error[256];
    int cuts = 0;
    assert_int_equal(amqp_address_parse(place->url, &address, error, sizeof(error)), 0);
    for (int fd = 3; fd < FD_LIMIT; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == address.port) {
            cuts += shutdown(fd, SHUT_RDWR) == 0;
        }
    }
    return cuts;
}

/* ---- somebody else ---- */

static void must(amqp_rpc_reply_t reply, const char *what)
{
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
        reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = reply.reply.decoded;
        fail_msg("%s: %.*s", what, (int)close->reply_text.len,
                 (const char *)close->reply_text.bytes);
    }
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        fail_msg("%s: %s", what, amqp_error_string2(reply.library_error));
    }
}

static amqp_connection_state_t visit(void)
{
    struct amqp_address address = rabbit_address();
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    assert_non_null(socket);
    assert_int_equal(amqp_socket_open(socket, address.host, address.port), AMQP_STATUS_OK);
    must(amqp_login(c, address.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, address.user,
                    address.password),
         "login");
    (void)amqp_channel_open(c, 1);
    must(amqp_get_rpc_reply(c), "channel");
    return c;
}

static void leave(amqp_connection_state_t c)
{
    (void)amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    (void)amqp_destroy_connection(c);
}

void rabbit_delete_queue(const char *name)
{
    amqp_connection_state_t c = visit();
    (void)amqp_queue_delete(c, 1, amqp_cstring_bytes(name), 0, 0);
    must(amqp_get_rpc_reply(c), name);
    leave(c);
}

void rabbit_place_free(struct rabbit_place *place)
{
    static const char *const ends[] = {"", ".parked", ".retry.1s", ".retry.2s"};
    char name[128];
    amqp_connection_state_t c = visit();
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", place->name, ends[i]);
        (void)amqp_queue_delete(c, 1, amqp_cstring_bytes(name), 0, 0);
        must(amqp_get_rpc_reply(c), name);
    }
    (void)amqp_exchange_delete(c, 1, amqp_cstring_bytes(place->name), 0);
    must(amqp_get_rpc_reply(c), place->name);
    (void)snprintf(name, sizeof(name), "%s.dead", place->name);
    (void)amqp_exchange_delete(c, 1, amqp_cstring_bytes(name), 0);
    must(amqp_get_rpc_reply(c), name);
    leave(c);
    free(place);
}

void rabbit_publish(const char *exchange, const char *key, struct span body)
{
    amqp_connection_state_t c = visit();
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = 2};
    amqp_bytes_t bytes = {body.len, (void *)(uintptr_t)body.at};
    assert_int_equal(amqp_basic_publish(c, 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes(key),
                                        0, 0, &properties, bytes),
                     AMQP_STATUS_OK);
    leave(c);
}

void rabbit_declare_classic(const char *queue)
{
    amqp_connection_state_t c = visit();
    (void)amqp_queue_declare(c, 1, amqp_cstring_bytes(queue), 0, 1, 0, 0, amqp_empty_table);
    must(amqp_get_rpc_reply(c), queue);
    leave(c);
}

void rabbit_bind_topic(const char *queue, const char *exchange, const char *pattern)
{
    amqp_connection_state_t c = visit();
    (void)amqp_queue_declare(c, 1, amqp_cstring_bytes(queue), 0, 1, 0, 0, amqp_empty_table);
    must(amqp_get_rpc_reply(c), queue);
    (void)amqp_queue_bind(c, 1, amqp_cstring_bytes(queue), amqp_cstring_bytes(exchange),
                          amqp_cstring_bytes(pattern), amqp_empty_table);
    must(amqp_get_rpc_reply(c), pattern);
    leave(c);
}

size_t rabbit_get(const char *queue, char *ret_body, size_t cap, char *ret_key, size_t key_cap)
{
    amqp_connection_state_t c = visit();
    amqp_message_t message;
    amqp_rpc_reply_t reply = amqp_basic_get(c, 1, amqp_cstring_bytes(queue), 1);
    must(reply, queue);
    assert_int_equal(reply.reply.id, AMQP_BASIC_GET_OK_METHOD);
    const amqp_basic_get_ok_t *got = reply.reply.decoded;
    (void)snprintf(ret_key, key_cap, "%.*s", (int)got->routing_key.len,
                   (const char *)got->routing_key.bytes);
    must(amqp_read_message(c, 1, &message, 0), queue);
    assert_true(message.body.len <= cap);
    memcpy(ret_body, message.body.bytes, message.body.len);
    size_t length = message.body.len;
    amqp_destroy_message(&message);
    leave(c);
    return length;
}
