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
#include <time.h>
#include <unistd.h>

#define FD_LIMIT 1024
/* The control has guards of its own, which say more. */
#define CONTROL_HANG_S 300

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
    struct timeval hang = {.tv_sec = CONTROL_HANG_S};
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof(hang)), 0);
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
        fail_msg("the broker could not %s: %s", word, answer[0] != '\0' ? answer : "no answer");
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

/* What he does once he is there. False: the connection was cut (reason), and he comes again. */
struct errand {
    bool (*run)(amqp_connection_state_t c, const struct errand *errand);
    const char *name;
    const char *other;
    struct span body;
    struct rabbit_got *got;
    char *reason;
};

#define REASON_ROOM 256
#define HANG_S 90
static const struct timeval patience = {.tv_sec = 20};

/* False: the connection is gone, in one of three ways. The test fails where the broker says no. */
static bool done(amqp_rpc_reply_t reply, const struct errand *errand)
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
        return true;
    }
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
        (void)snprintf(errand->reason, REASON_ROOM, "%s", amqp_error_string2(reply.library_error));
    } else if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
               reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = reply.reply.decoded;
        fail_msg("%s: %.*s", errand->name, (int)close->reply_text.len,
                 (const char *)close->reply_text.bytes);
    } else if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
               reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = reply.reply.decoded;
        (void)snprintf(errand->reason, REASON_ROOM, "closed by the broker: %.*s",
                       (int)close->reply_text.len, (const char *)close->reply_text.bytes);
    } else {
        (void)snprintf(errand->reason, REASON_ROOM, "no answer");
    }
    return false;
}

/* He is there with channel 1 open, and asks nothing for longer than patience. */
static bool arrive(amqp_connection_state_t c, const struct errand *errand)
{
    struct amqp_address address = rabbit_address();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    assert_non_null(socket);
    int status = amqp_socket_open_noblock(socket, address.host, address.port, &patience);
    if (status != AMQP_STATUS_OK) {
        (void)snprintf(errand->reason, REASON_ROOM, "%s", amqp_error_string2(status));
        return false;
    }
    if (amqp_set_handshake_timeout(c, &patience) != AMQP_STATUS_OK ||
        amqp_set_rpc_timeout(c, &patience) != AMQP_STATUS_OK) {
        fail_msg("librabbitmq takes no timeouts");
    }
    if (!done(amqp_login(c, address.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, address.user,
                         address.password),
              errand)) {
        return false;
    }
    (void)amqp_channel_open(c, 1);
    return done(amqp_get_rpc_reply(c), errand);
}

static void run_errand(struct errand errand)
{
    char reason[REASON_ROOM] = "";
    time_t until = time(NULL) + HANG_S;
    errand.reason = reason;
    for (bool ran = false; !ran;) {
        amqp_connection_state_t c = amqp_new_connection();
        assert_non_null(c);
        ran = arrive(c, &errand) && errand.run(c, &errand);
        if (ran) {
            (void)amqp_connection_close(c, AMQP_REPLY_SUCCESS);
        }
        (void)amqp_destroy_connection(c);
        if (!ran && time(NULL) > until) {
            fail_msg("%s: tried for %d s: %s", errand.name, HANG_S, reason);
        }
        if (!ran) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        }
    }
}

static bool delete_queue(amqp_connection_state_t c, const struct errand *errand)
{
    (void)amqp_queue_delete(c, 1, amqp_cstring_bytes(errand->name), 0, 0);
    return done(amqp_get_rpc_reply(c), errand);
}

void rabbit_delete_queue(const char *name)
{
    run_errand((struct errand){.run = delete_queue, .name = name});
}

/* Until the broker has it. expiration: NULL, or milliseconds. */
static bool send_one(amqp_connection_state_t c, const struct errand *errand, const char *exchange,
                     const char *key, const char *expiration)
{
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = 2};
    amqp_bytes_t bytes = {errand->body.len, (void *)(uintptr_t)errand->body.at};
    amqp_frame_t frame;
    if (expiration != NULL) {
        properties._flags |= AMQP_BASIC_EXPIRATION_FLAG;
        properties.expiration = amqp_cstring_bytes(expiration);
    }
    (void)amqp_confirm_select(c, 1);
    if (!done(amqp_get_rpc_reply(c), errand)) {
        return false;
    }
    int status = amqp_basic_publish(c, 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes(key), 0,
                                    0, &properties, bytes);
    if (status == AMQP_STATUS_OK) {
        status = amqp_simple_wait_frame_noblock(c, &frame, &patience);
    }
    if (status != AMQP_STATUS_OK) {
        (void)snprintf(errand->reason, REASON_ROOM, "%s", amqp_error_string2(status));
        return false;
    }
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD) {
        (void)snprintf(errand->reason, REASON_ROOM, "the message was not taken");
        return false;
    }
    return true;
}

static bool publish(amqp_connection_state_t c, const struct errand *errand)
{
    return send_one(c, errand, errand->name, errand->other, NULL);
}

void rabbit_publish(const char *exchange, const char *key, struct span body)
{
    run_errand((struct errand){.run = publish, .name = exchange, .other = key, .body = body});
}

static bool declare_classic(amqp_connection_state_t c, const struct errand *errand)
{
    (void)amqp_queue_declare(c, 1, amqp_cstring_bytes(errand->name), 0, 1, 0, 0, amqp_empty_table);
    return done(amqp_get_rpc_reply(c), errand);
}

void rabbit_declare_classic(const char *queue)
{
    run_errand((struct errand){.run = declare_classic, .name = queue});
}

static bool bind_topic(amqp_connection_state_t c, const struct errand *errand)
{
    (void)amqp_queue_bind(c, 1, amqp_cstring_bytes(errand->name), amqp_cstring_bytes(errand->other),
                          (amqp_bytes_t){errand->body.len, (void *)(uintptr_t)errand->body.at},
                          amqp_empty_table);
    return done(amqp_get_rpc_reply(c), errand);
}

void rabbit_bind_topic(const char *queue, const char *exchange, const char *pattern)
{
    rabbit_declare_classic(queue);
    run_errand((struct errand){
        .run = bind_topic, .name = queue, .other = exchange, .body = span_of(pattern)});
}

struct rabbit_got {
    bool here; /* false: the queue was empty */
    char *body;
    size_t cap;
    size_t len;
    char *key;
    size_t key_cap;
};

static bool get(amqp_connection_state_t c, const struct errand *errand)
{
    struct rabbit_got *got = errand->got;
    amqp_message_t message;
    amqp_rpc_reply_t reply = amqp_basic_get(c, 1, amqp_cstring_bytes(errand->name), 0);
    got->here = false;
    if (!done(reply, errand)) {
        return false;
    }
    if (reply.reply.id != AMQP_BASIC_GET_OK_METHOD) {
        return true;
    }
    const amqp_basic_get_ok_t *ok = reply.reply.decoded;
    uint64_t tag = ok->delivery_tag;
    (void)snprintf(got->key, got->key_cap, "%.*s", (int)ok->routing_key.len,
                   (const char *)ok->routing_key.bytes);
    if (!done(amqp_read_message(c, 1, &message, 0), errand)) {
        return false;
    }
    assert_true(message.body.len <= got->cap);
    memcpy(got->body, message.body.bytes, message.body.len);
    got->len = message.body.len;
    got->here = true;
    amqp_destroy_message(&message);
    int status = amqp_basic_ack(c, 1, tag, 0);
    (void)snprintf(errand->reason, REASON_ROOM, "%s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

size_t rabbit_get(const char *queue, char *ret_body, size_t cap, char *ret_key, size_t key_cap)
{
    struct rabbit_got got = {.body = ret_body, .cap = cap, .key = ret_key, .key_cap = key_cap};
    run_errand((struct errand){.run = get, .name = queue, .got = &got});
    assert_true(got.here);
    return got.len;
}

/* ---- settling in ---- */

/* Whether there is such a queue; the broker's no is the answer here. */
static bool exists(amqp_connection_state_t c, const struct errand *errand)
{
    (void)amqp_queue_declare(c, 1, amqp_cstring_bytes(errand->name), 1, 0, 0, 0, amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(c);
    errand->got->here = reply.reply_type == AMQP_RESPONSE_NORMAL;
    return (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
            reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) ||
           done(reply, errand);
}

static bool send_through(amqp_connection_state_t c, const struct errand *errand)
{
    return send_one(c, errand, "", errand->name, "1");
}

/* A message goes in, and comes out where its dead letters go: both queues have their leaders, and
 * what moves the letters is at work. */
static void pass_through(const struct rabbit_place *place, const char *retry)
{
    char body[QUEUE_BODY_MAX];
    char key[256];
    struct rabbit_got got = {.body = body, .cap = sizeof(body), .key = key, .key_cap = sizeof(key)};
    time_t until = time(NULL) + HANG_S;
    run_errand((struct errand){.run = exists, .name = retry, .got = &got});
    if (!got.here) {
        return;
    }
    run_errand((struct errand){.run = send_through, .name = retry, .body = span_of(retry)});
    for (got.here = false; !got.here || !span_is((struct span){body, got.len}, retry);) {
        run_errand((struct errand){.run = get, .name = place->name, .got = &got});
        if (time(NULL) > until) {
            fail_msg("what waited in %s did not come to %s in %d s", retry, place->name, HANG_S);
        }
    }
}

void rabbit_settle_in(const struct rabbit_place *place)
{
    char name[128];
    for (size_t i = 0; i < place->options.retry_count; i++) {
        (void)snprintf(name, sizeof(name), "%s.retry.%us", place->name,
                       (unsigned)place->options.retry_s[i]);
        pass_through(place, name);
    }
}

/* Its queues stay: they have names of their own and end with the broker's folder. Deleting one that
 * the broker is still electing a leader for may hang (rabbitmq-server #16652), and proves nothing. */
void rabbit_place_free(struct rabbit_place *place)
{
    free(place);
}
