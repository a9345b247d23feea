/*
 * One connection to a RabbitMQ broker. librabbitmq encodes and decodes frames. The socket and all
 * waiting are here, because the library's own calls block without limit when the broker does not
 * read.
 *
 * Happy path: resolve the host, connect, log in, opened (the owner sets up its channels and calls
 * broker_ready). Methods and contents collect in an output buffer that broker_turn or broker_flush
 * sends. broker_turn also reads and passes each frame to the owner.
 *
 * What can go wrong: no address, no connection, no login, no answer in time, a broker that closes
 * the connection or a channel or misses heartbeats, or a peer that does not speak AMQP. The
 * connection ends, the owner's `lost` is called, and a new one is tried after a growing pause with
 * jitter. broker_fail only marks it: it ends in the next turn, so that no frame is freed while it
 * is read.
 *
 * Used by one thread, except broker_wake.
 */
#ifndef SLUICE_BACKEND_AMQP_BROKER_H
#define SLUICE_BACKEND_AMQP_BROKER_H

#include <amqp.h>
#include <amqp_framing.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/amqp/address.h"
#include "base/bytes.h"

#define BROKER_ERROR_MAX 512

struct broker;

struct broker_owner {
    void *context;
    void (*opened)(void *context);
    /* A frame of a channel. What it points to is valid only during the call. */
    void (*frame)(void *context, const amqp_frame_t *frame);
    void (*lost)(void *context);
};

struct broker_config {
    struct amqp_address address;
    const char *name; /* shown in the broker's lists */
    uint32_t connect_timeout_ms;
    uint32_t silence_ms; /* silence after which the broker counts as dead; at least 2000 */
    uint32_t pause_min_ms;
    uint32_t pause_max_ms;
    uint64_t seed; /* for jitter */
};

/* The address is copied, the name is not. ERR_NOMEM or ERR_IO. */
int broker_open(const struct broker_config *config, struct broker_owner owner,
                struct broker **ret_broker);
/* Closes the connection properly if it can within wait_ms. NULL is fine. */
void broker_close(struct broker *broker, int64_t wait_ms);

/* The owner has finished its setup. */
void broker_ready(struct broker *broker);
bool broker_is_ready(const struct broker *broker);
/* How often it became ready; while it is not, the number of the next time. */
uint64_t broker_session(const struct broker *broker);
/* Whether a connection, or an attempt at every address, has ended since it was last ready. */
bool broker_is_away(const struct broker *broker);

/* Ends the connection with a reason. error: ERR_IO, or what only an operator can change. */
void broker_fail(struct broker *broker, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The last error: the code (0: none since it became ready) and the text. */
int broker_error(const struct broker *broker, const char **ret_text);
/* Stores a text for broker_error without ending the connection. */
void broker_note(struct broker *broker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Why the broker accepts no messages at present; "": it does. */
const char *broker_blocked(const struct broker *broker);

/* Appends to the output buffer. If there is no memory, the connection ends. */
void broker_method(struct broker *broker, amqp_channel_t channel, amqp_method_number_t id,
                   void *decoded);
void broker_content(struct broker *broker, amqp_channel_t channel,
                    amqp_basic_properties_t *properties, struct span body);
/* Bytes that the broker has not accepted yet. */
size_t broker_unsent(const struct broker *broker);
/* Sends what can be sent without blocking. */
void broker_flush(struct broker *broker);

int64_t broker_now_ms(void);
/*
 * Sends, reads and handles timeouts. Waits up to wait_ms for something to happen; it may return
 * early without a visible change. wakeable: broker_wake ends the wait, too; then it returns true.
 */
bool broker_turn(struct broker *broker, int64_t wait_ms, bool wakeable);
/* Any thread. If there is no wait, it ends the next one. */
void broker_wake(struct broker *broker);

#endif
