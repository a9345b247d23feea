/* See broker.h. */
#define _GNU_SOURCE /* memmem */
#include "backend/amqp/broker.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backend/amqp/resolve.h"
#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "base/prng.h"
#include "base/version.h"

/* librabbitmq's frame type for a broker's "wrong protocol version"; its header does not name it. */
#define PSEUDOFRAME_PROTOCOL_HEADER 'A'
#define FRAME_MAX 131072
#define CHANNEL_MAX 16
#define FRAME_HEAD 7
#define FRAME_TAIL 1
#define FRAME_END 0xCE
#define METHOD_ID 4
/* Size of a method: names of 255 bytes, and a table of eight arguments. */
#define METHOD_BYTES 4096
#define PROPERTIES_BYTES 1024
#define INPUT_BYTES 131072
#define READS_PER_TURN 8
#define LOOKUP_MS 10 /* poll interval: the resolver cannot wake us */

enum broker_state {
    BROKER_DOWN,
    BROKER_RESOLVING,
    BROKER_CONNECTING,
    BROKER_GREETING,
    BROKER_OPENED, /* the owner sets up its channels */
    BROKER_READY,
    BROKER_CLOSING
};

struct broker {
    struct broker_config config;
    struct broker_owner owner;
    enum broker_state state;
    struct resolve *resolve;
    const struct addrinfo *address; /* the next one to try; NULL: resolve again */
    int fd;
    int wake_fd;
    amqp_connection_state_t codec;
    char *out;
    size_t out_len;
    size_t out_sent;
    size_t out_cap;
    uint32_t frame_max; /* as agreed */
    char *input;
    int64_t since_ms;   /* READY */
    int64_t next_ms;    /* DOWN: when to try; until READY: when to give up */
    int64_t beat_ms;    /* interval of our heartbeats; 0: not negotiated yet */
    int64_t silence_ms; /* how long the broker may be silent */
    int64_t sent_ms;
    int64_t heard_ms;
    int64_t pause_ms; /* before the last try to connect; 0: it was a good connection */
    uint64_t session;
    struct prng prng;
    bool failing;
    bool away;
    int error;
    char text[BROKER_ERROR_MAX];
    char blocked[BROKER_ERROR_MAX];
};

int64_t broker_now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- errors ---- */

static void say(struct broker *broker, const char *format, va_list args)
{
    char text[BROKER_ERROR_MAX]; /* the arguments may point into the old text */
    (void)vsnprintf(text, sizeof(text), format, args);
    memcpy(broker->text, text, sizeof(text));
}

void broker_fail(struct broker *broker, int error, const char *format, ...)
{
    va_list args;
    if (broker->failing) {
        return; /* the first reason counts */
    }
    va_start(args, format);
    say(broker, format, args);
    va_end(args);
    broker->error = error;
    broker->failing = true;
}

void broker_note(struct broker *broker, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(broker, format, args);
    va_end(args);
}

int broker_error(const struct broker *broker, const char **ret_text)
{
    *ret_text = broker->blocked[0] != '\0' && broker->error == 0 ? broker->blocked : broker->text;
    return broker->error;
}

const char *broker_blocked(const struct broker *broker)
{
    return broker->blocked;
}

/* ---- output ---- */

static char *reserve(struct broker *broker, size_t bytes)
{
    if (broker->out_sent > 0 && broker->out_len + bytes > broker->out_cap) {
        memmove(broker->out, broker->out + broker->out_sent, broker->out_len - broker->out_sent);
        broker->out_len -= broker->out_sent;
        broker->out_sent = 0;
    }
    if (broker->out_len + bytes > broker->out_cap) {
        size_t cap = (broker->out_len + bytes) * 2;
        char *out = realloc(broker->out, cap);
        if (out == NULL) {
            broker_fail(broker, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
            return NULL;
        }
        broker->out = out;
        broker->out_cap = cap;
    }
    return broker->out + broker->out_len;
}

static void put_u16(char *at, uint16_t v)
{
    v = htobe16(v);
    memcpy(at, &v, sizeof(v));
}

static void put_u32(char *at, uint32_t v)
{
    v = htobe32(v);
    memcpy(at, &v, sizeof(v));
}

static void put_u64(char *at, uint64_t v)
{
    v = htobe64(v);
    memcpy(at, &v, sizeof(v));
}

/* Writes head and tail around a payload; room for the head is in front of it. */
static void frame_end(struct broker *broker, uint8_t type, amqp_channel_t channel, size_t payload)
{
    char *frame = broker->out + broker->out_len;
    frame[0] = (char)type;
    put_u16(frame + 1, channel);
    put_u32(frame + 3, (uint32_t)payload);
    frame[FRAME_HEAD + payload] = (char)FRAME_END;
    broker->out_len += FRAME_HEAD + payload + FRAME_TAIL;
}

void broker_method(struct broker *broker, amqp_channel_t channel, amqp_method_number_t id,
                   void *decoded)
{
    char *frame = broker->failing ? NULL : reserve(broker, FRAME_HEAD + METHOD_BYTES + FRAME_TAIL);
    if (frame == NULL) {
        return;
    }
    put_u32(frame + FRAME_HEAD, id);
    amqp_bytes_t room = {METHOD_BYTES - METHOD_ID, frame + FRAME_HEAD + METHOD_ID};
    int length = amqp_encode_method(id, decoded, room);
    CHECK(length >= 0); /* names are checked when the queue is opened */
    frame_end(broker, AMQP_FRAME_METHOD, channel, METHOD_ID + (size_t)length);
}

void broker_content(struct broker *broker, amqp_channel_t channel,
                    amqp_basic_properties_t *properties, struct span body)
{
    enum { CONTENT_HEAD = 12 }; /* class, weight, size of the body */
    size_t most = broker->frame_max - FRAME_HEAD - FRAME_TAIL;
    size_t frames = 1 + (body.len + most - 1) / most;
    size_t room = PROPERTIES_BYTES + body.len + frames * (FRAME_HEAD + FRAME_TAIL);
    char *frame = broker->failing ? NULL : reserve(broker, room);
    if (frame == NULL) {
        return;
    }
    char *head = frame + FRAME_HEAD;
    put_u16(head, AMQP_BASIC_CLASS);
    put_u16(head + 2, 0);
    put_u64(head + 4, body.len);
    amqp_bytes_t rest = {PROPERTIES_BYTES - CONTENT_HEAD, head + CONTENT_HEAD};
    int length = amqp_encode_properties(AMQP_BASIC_CLASS, properties, rest);
    CHECK(length >= 0);
    frame_end(broker, AMQP_FRAME_HEADER, channel, CONTENT_HEAD + (size_t)length);
    for (size_t at = 0; at < body.len; at += most) {
        size_t some = body.len - at < most ? body.len - at : most;
        memcpy(broker->out + broker->out_len + FRAME_HEAD, body.at + at, some);
        frame_end(broker, AMQP_FRAME_BODY, channel, some);
    }
}

size_t broker_unsent(const struct broker *broker)
{
    return broker->out_len - broker->out_sent;
}

void broker_flush(struct broker *broker)
{
    while (broker->fd >= 0 && !broker->failing && broker->out_sent < broker->out_len) {
        ssize_t n = send(broker->fd, broker->out + broker->out_sent, broker_unsent(broker),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            broker->out_sent += (size_t)n;
            broker->sent_ms = broker_now_ms();
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            broker_fail(broker, ERR_IO, "the connection to the broker was lost: %m");
        }
    }
    if (broker->out_sent == broker->out_len) {
        broker->out_sent = 0;
        broker->out_len = 0;
    }
}

/* ---- life of a connection ---- */

static const char *where(const struct broker *broker)
{
    return broker->config.address.host;
}

static void drop(struct broker *broker)
{
    int64_t now_ms = broker_now_ms();
    bool was_open = broker->state >= BROKER_OPENED;
    if (broker->state == BROKER_READY && now_ms - broker->since_ms >= broker->config.pause_max_ms) {
        broker->pause_ms = 0; /* it was a good one */
    }
    if (broker->fd >= 0) {
        (void)close(broker->fd);
        broker->fd = -1;
    }
    if (broker->codec != NULL) {
        (void)amqp_destroy_connection(broker->codec);
        broker->codec = NULL;
    }
    broker->out_len = 0;
    broker->out_sent = 0;
    broker->beat_ms = 0;
    broker->blocked[0] = '\0';
    broker->failing = false;
    bool more = broker->state == BROKER_CONNECTING && broker->address != NULL;
    if (!more) {
        resolve_end(broker->resolve);
        broker->resolve = NULL;
        broker->address = NULL;
        broker->away = true;
    }
    broker->state = BROKER_DOWN;
    broker->next_ms = now_ms;
    if (!more) {
        broker->pause_ms = backoff_grow(broker->pause_ms, broker->config.pause_min_ms,
                                        broker->config.pause_max_ms);
        broker->next_ms += backoff_jitter(broker->pause_ms, &broker->prng);
    }
    if (was_open) {
        broker->owner.lost(broker->owner.context);
    }
}

static void set_option(int fd, int level, int option)
{
    int one = 1;
    (void)setsockopt(fd, level, option, &one, sizeof(one));
}

/* Tries the next address of the host. */
static void try_address(struct broker *broker)
{
    const struct addrinfo *address = broker->address;
    broker->address = address->ai_next;
    broker->state = BROKER_CONNECTING;
    broker->fd =
        socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (broker->fd < 0) {
        broker_fail(broker, ERR_IO, "cannot connect to %s: %m", where(broker));
        return;
    }
    set_option(broker->fd, IPPROTO_TCP, TCP_NODELAY);
    set_option(broker->fd, SOL_SOCKET, SO_KEEPALIVE);
    if (connect(broker->fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
        broker_fail(broker, ERR_IO, "cannot connect to %s:%u: %m", where(broker),
                    (unsigned)broker->config.address.port);
    }
}

static void start(struct broker *broker, int64_t now_ms)
{
    broker->next_ms = now_ms + broker->config.connect_timeout_ms;
    if (broker->address != NULL) {
        try_address(broker);
        return;
    }
    broker->state = BROKER_RESOLVING;
    if (resolve_start(where(broker), broker->config.address.port, &broker->resolve) != 0) {
        broker_fail(broker, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
}

static void look_up(struct broker *broker)
{
    const char *reason = "";
    int err = resolve_look(broker->resolve, &broker->address, &reason);
    if (err == 0) {
        try_address(broker);
    } else if (err != ERR_AGAIN) {
        broker_fail(broker, ERR_IO, "cannot find the host %s: %s", where(broker), reason);
    }
}

static void connected(struct broker *broker)
{
    static const char greeting[8] = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(broker->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        errno = error;
        broker_fail(broker, ERR_IO, "cannot connect to %s:%u: %m", where(broker),
                    (unsigned)broker->config.address.port);
        return;
    }
    broker->state = BROKER_GREETING;
    broker->codec = amqp_new_connection();
    char *at = reserve(broker, sizeof(greeting));
    if (broker->codec == NULL || at == NULL) {
        broker_fail(broker, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
        return;
    }
    memcpy(at, greeting, sizeof(greeting));
    broker->out_len += sizeof(greeting);
    broker->heard_ms = broker_now_ms();
}

/* ---- logging in ---- */

static amqp_table_entry_t entry_text(const char *key, const char *text)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(text)}};
}

static amqp_table_entry_t entry_yes(const char *key)
{
    return (amqp_table_entry_t){.key = amqp_cstring_bytes(key),
                                .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
}

static void log_in(struct broker *broker, const amqp_connection_start_t *start)
{
    const struct amqp_address *address = &broker->config.address;
    char secret[sizeof(address->user) + sizeof(address->password) + 2];
    size_t user = strlen(address->user);
    size_t password = strlen(address->password);
    if (start->version_major != 0 || start->version_minor != 9 ||
        memmem(start->mechanisms.bytes, start->mechanisms.len, "PLAIN", 5) == NULL) {
        broker_fail(broker, ERR_INVALID, "the broker at %s does not let us log in with a password",
                    where(broker));
        return;
    }
    secret[0] = '\0';
    memcpy(secret + 1, address->user, user + 1);
    memcpy(secret + user + 2, address->password, password);
    amqp_table_entry_t able[] = {
        entry_yes("authentication_failure_close"), entry_yes("consumer_cancel_notify"),
        entry_yes("connection.blocked"), entry_yes("basic.nack"), entry_yes("publisher_confirms")};
    amqp_table_entry_t about[] = {
        entry_text("product", "sluice"), entry_text("version", SLUICE_VERSION),
        entry_text("connection_name", broker->config.name),
        (amqp_table_entry_t){.key = amqp_cstring_bytes("capabilities"),
                             .value = {.kind = AMQP_FIELD_KIND_TABLE,
                                       .value.table = {sizeof(able) / sizeof(able[0]), able}}}};
    amqp_connection_start_ok_t ok = {.client_properties = {sizeof(about) / sizeof(about[0]), about},
                                     .mechanism = amqp_cstring_bytes("PLAIN"),
                                     .response = {user + password + 2, secret},
                                     .locale = amqp_cstring_bytes("en_US")};
    broker_method(broker, 0, AMQP_CONNECTION_START_OK_METHOD, &ok);
}

/* Both sides send something in every half of the negotiated time, so twice that time of silence
 * means a dead connection. */
static void tune(struct broker *broker, const amqp_connection_tune_t *offer)
{
    uint32_t beat_s = broker->config.silence_ms / 2000;
    beat_s = beat_s == 0 ? 1 : beat_s > UINT16_MAX ? UINT16_MAX : beat_s;
    amqp_connection_tune_ok_t ok = {.channel_max = CHANNEL_MAX, .frame_max = FRAME_MAX};
    if (offer->channel_max != 0 && offer->channel_max < CHANNEL_MAX) {
        ok.channel_max = offer->channel_max;
    }
    if (offer->frame_max >= AMQP_FRAME_MIN_SIZE && offer->frame_max < FRAME_MAX) {
        ok.frame_max = offer->frame_max;
    }
    broker->frame_max = ok.frame_max;
    ok.heartbeat =
        (uint16_t)(offer->heartbeat != 0 && offer->heartbeat < beat_s ? offer->heartbeat : beat_s);
    broker->beat_ms = (int64_t)ok.heartbeat * 500;
    broker->silence_ms = (int64_t)ok.heartbeat * 2000;
    if (amqp_tune_connection(broker->codec, ok.channel_max, (int)ok.frame_max, ok.heartbeat) != 0) {
        broker_fail(broker, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
        return;
    }
    amqp_connection_open_t open = {.virtual_host =
                                       amqp_cstring_bytes(broker->config.address.vhost)};
    broker_method(broker, 0, AMQP_CONNECTION_TUNE_OK_METHOD, &ok);
    broker_method(broker, 0, AMQP_CONNECTION_OPEN_METHOD, &open);
}

static void closed_by_broker(struct broker *broker, const amqp_connection_close_t *why)
{
    int words = (int)(why->reply_text.len < 300 ? why->reply_text.len : 300);
    const char *text = why->reply_text.bytes;
    amqp_connection_close_ok_t ok = {0};
    broker_method(broker, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
    broker_flush(broker);
    if (broker->state == BROKER_GREETING &&
        (why->reply_code == AMQP_ACCESS_REFUSED || why->reply_code == AMQP_NOT_ALLOWED)) {
        broker_fail(
            broker, ERR_INVALID,
            "the broker refused user %s on virtual host %s: %.*s; check the URL, the password "
            "and the user's permissions there",
            broker->config.address.user, broker->config.address.vhost, words, text);
    } else {
        broker_fail(broker, ERR_IO, "the broker closed the connection: %.*s", words, text);
    }
}

static void own_method(struct broker *broker, const amqp_method_t *method)
{
    if (method->id == AMQP_CONNECTION_CLOSE_METHOD) {
        closed_by_broker(broker, method->decoded);
    } else if (method->id == AMQP_CONNECTION_BLOCKED_METHOD) {
        const amqp_connection_blocked_t *why = method->decoded;
        int words = (int)(why->reason.len < 200 ? why->reason.len : 200);
        (void)snprintf(broker->blocked, sizeof(broker->blocked),
                       "the broker takes no messages for now: %.*s", words,
                       (const char *)why->reason.bytes);
    } else if (method->id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        broker->blocked[0] = '\0';
    } else if (broker->state == BROKER_GREETING && method->id == AMQP_CONNECTION_START_METHOD) {
        log_in(broker, method->decoded);
    } else if (broker->state == BROKER_GREETING && method->id == AMQP_CONNECTION_TUNE_METHOD) {
        tune(broker, method->decoded);
    } else if (broker->state == BROKER_GREETING && method->id == AMQP_CONNECTION_OPEN_OK_METHOD) {
        broker->state = BROKER_OPENED;
        broker->owner.opened(broker->owner.context);
    } else if (broker->state == BROKER_CLOSING && method->id == AMQP_CONNECTION_CLOSE_OK_METHOD) {
        broker_fail(broker, ERR_CLOSED, "closed");
    } else {
        broker_fail(broker, ERR_IO, "the broker at %s does not keep to AMQP 0-9-1", where(broker));
    }
}

/* ---- input ---- */

static void take_frame(struct broker *broker, const amqp_frame_t *frame)
{
    if (frame->frame_type == PSEUDOFRAME_PROTOCOL_HEADER) {
        broker_fail(broker, ERR_INVALID, "the broker at %s speaks another version of AMQP",
                    where(broker));
    } else if (frame->channel != 0) {
        if (broker->state == BROKER_OPENED || broker->state == BROKER_READY) {
            broker->owner.frame(broker->owner.context, frame);
        }
    } else if (frame->frame_type == AMQP_FRAME_METHOD) {
        own_method(broker, &frame->payload.method);
    } /* else: a heartbeat, nothing to do */
}

static void take_bytes(struct broker *broker, size_t length)
{
    size_t used = 0;
    while (used < length && !broker->failing) {
        amqp_frame_t frame;
        amqp_bytes_t bytes = {length - used, broker->input + used};
        int n = amqp_handle_input(broker->codec, bytes, &frame);
        if (n <= 0) {
            broker_fail(broker, ERR_IO, "what answers at %s:%u is no AMQP broker: %s",
                        where(broker), (unsigned)broker->config.address.port,
                        amqp_error_string2(n));
            return;
        }
        used += (size_t)n;
        if (frame.frame_type != 0) {
            take_frame(broker, &frame);
            amqp_maybe_release_buffers(broker->codec);
        }
    }
}

static void receive(struct broker *broker)
{
    for (int i = 0; i < READS_PER_TURN && !broker->failing; i++) {
        ssize_t n = recv(broker->fd, broker->input, INPUT_BYTES, MSG_DONTWAIT);
        if (n > 0) {
            broker->heard_ms = broker_now_ms();
            take_bytes(broker, (size_t)n);
            if (n < INPUT_BYTES) {
                return;
            }
        } else if (n == 0) {
            broker_fail(broker, ERR_IO, "the broker at %s:%u closed the connection", where(broker),
                        (unsigned)broker->config.address.port);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            broker_fail(broker, ERR_IO, "the connection to the broker was lost: %m");
        }
    }
}

/* ---- a turn ---- */

/* Handles what is due: a new attempt, a timeout, a heartbeat. */
static void keep_time(struct broker *broker)
{
    int64_t now_ms = broker_now_ms();
    if (broker->state == BROKER_DOWN && now_ms >= broker->next_ms) {
        start(broker, now_ms);
    }
    if (broker->state == BROKER_RESOLVING && !broker->failing) {
        look_up(broker);
    }
    bool on_its_way = broker->state > BROKER_DOWN && broker->state < BROKER_READY;
    if (on_its_way && now_ms >= broker->next_ms) {
        broker_fail(broker, ERR_IO, "the broker at %s:%u did not answer within %u ms",
                    where(broker), (unsigned)broker->config.address.port,
                    (unsigned)broker->config.connect_timeout_ms);
    }
    if (broker->beat_ms > 0 && now_ms - broker->sent_ms >= broker->beat_ms &&
        broker_unsent(broker) == 0) {
        if (reserve(broker, FRAME_HEAD + FRAME_TAIL) != NULL) {
            frame_end(broker, AMQP_FRAME_HEARTBEAT, 0, 0);
        }
    }
}

/* Only after reading: this process may be the one that slept. */
static void mind_silence(struct broker *broker)
{
    int64_t quiet_ms = broker_now_ms() - broker->heard_ms;
    if (broker->beat_ms > 0 && quiet_ms >= broker->silence_ms) {
        broker_fail(broker, ERR_IO, "the broker at %s:%u has said nothing for %lld ms",
                    where(broker), (unsigned)broker->config.address.port, (long long)quiet_ms);
    }
}

static int64_t wait_of(const struct broker *broker, int64_t wait_ms)
{
    int64_t now_ms = broker_now_ms();
    int64_t until_ms = INT64_MAX;
    if (broker->state == BROKER_RESOLVING) {
        until_ms = now_ms + LOOKUP_MS;
    } else if (broker->state < BROKER_READY) {
        until_ms = broker->next_ms;
    }
    if (broker->beat_ms > 0) {
        int64_t beat_ms = broker->sent_ms + broker->beat_ms;
        int64_t silence_ms = broker->heard_ms + broker->silence_ms;
        until_ms = beat_ms < until_ms && broker_unsent(broker) == 0 ? beat_ms : until_ms;
        until_ms = silence_ms < until_ms ? silence_ms : until_ms;
    }
    int64_t left_ms = until_ms == INT64_MAX ? wait_ms : until_ms - now_ms;
    left_ms = left_ms < wait_ms ? left_ms : wait_ms;
    return left_ms < 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : left_ms;
}

bool broker_turn(struct broker *broker, int64_t wait_ms, bool wakeable)
{
    keep_time(broker);
    broker_flush(broker);
    bool connecting = broker->state == BROKER_CONNECTING;
    bool writing = connecting || broker_unsent(broker) > 0;
    struct pollfd polled[2] = {
        {.fd = wakeable ? broker->wake_fd : -1, .events = POLLIN},
        {.fd = broker->failing ? -1 : broker->fd, .events = writing ? POLLIN | POLLOUT : POLLIN}};
    int timeout_ms = broker->failing ? 0 : (int)wait_of(broker, wait_ms);
    (void)poll(polled, 2, timeout_ms); /* on an error nothing is ready, and the caller comes
                                        * again */
    bool woken = (polled[0].revents & POLLIN) != 0;
    if (woken) {
        uint64_t count;
        (void)!read(broker->wake_fd, &count, sizeof(count));
    }
    if (polled[1].revents != 0 && connecting) {
        connected(broker);
    } else if (polled[1].revents != 0) {
        receive(broker);
    }
    mind_silence(broker);
    broker_flush(broker);
    if (broker->failing) {
        drop(broker);
    }
    return woken;
}

void broker_wake(struct broker *broker)
{
    uint64_t one = 1;
    (void)!write(broker->wake_fd, &one, sizeof(one));
}

/* ---- for the owner ---- */

void broker_ready(struct broker *broker)
{
    CHECK(broker->state == BROKER_OPENED);
    broker->state = BROKER_READY;
    broker->since_ms = broker_now_ms();
    broker->session++;
    broker->away = false;
    broker->error = 0;
    resolve_end(broker->resolve); /* the next time it may have another address */
    broker->resolve = NULL;
    broker->address = NULL;
}

bool broker_is_ready(const struct broker *broker)
{
    return broker->state == BROKER_READY && !broker->failing;
}

uint64_t broker_session(const struct broker *broker)
{
    return broker->state == BROKER_READY ? broker->session : broker->session + 1;
}

bool broker_is_away(const struct broker *broker)
{
    return broker->away;
}

int broker_open(const struct broker_config *config, struct broker_owner owner,
                struct broker **ret_broker)
{
    struct broker *broker = calloc(1, sizeof(*broker));
    if (broker == NULL) {
        return ERR_NOMEM;
    }
    broker->config = *config;
    broker->owner = owner;
    broker->fd = -1;
    broker->prng = prng_of(config->seed);
    broker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    broker->input = malloc(INPUT_BYTES);
    if (broker->wake_fd < 0 || broker->input == NULL) {
        int error = broker->wake_fd < 0 ? ERR_IO : ERR_NOMEM;
        broker_close(broker, 0);
        return error;
    }
    *ret_broker = broker;
    return 0;
}

void broker_close(struct broker *broker, int64_t wait_ms)
{
    if (broker == NULL) {
        return;
    }
    if (broker_is_ready(broker)) {
        amqp_connection_close_t close = {.reply_code = AMQP_REPLY_SUCCESS,
                                         .reply_text = amqp_cstring_bytes("goodbye")};
        int64_t until_ms = broker_now_ms() + wait_ms;
        broker_method(broker, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
        broker->state = BROKER_CLOSING;
        for (int64_t left = wait_ms; left > 0 && broker->state == BROKER_CLOSING;
             left = until_ms - broker_now_ms()) {
            (void)broker_turn(broker, left, false);
        }
    }
    if (broker->fd >= 0) {
        (void)close(broker->fd);
    }
    if (broker->codec != NULL) {
        (void)amqp_destroy_connection(broker->codec);
    }
    resolve_end(broker->resolve);
    if (broker->wake_fd >= 0) {
        (void)close(broker->wake_fd);
    }
    free(broker->input);
    free(broker->out);
    free(broker);
}
