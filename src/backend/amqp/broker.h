/*
 * One connection to a RabbitMQ broker. librabbitmq is the codec of its frames; the socket and all
 * waiting are here, because the library's own calls wait without a bound when the broker does not
 * read.
 *
 * Happy path: look the host up, connect, log in, opened (the owner sets up its channels, then says
 * broker_ready); methods and contents gather in an output buffer that broker_turn or broker_flush sends;
 * broker_turn also reads, and hands each frame to the owner.
 *
 * What can go wrong: no address, no connection, no login, no answer in time, a broker that closes
 * the connection or a channel, one that says nothing for a heartbeat, or something that is no AMQP.
 * The connection ends then, the owner is told `lost`, and a new one is tried after a growing
 * pause with jitter. broker_fail only marks it: it ends in the next turn, so that no frame goes away
 * under its reader.
 *
 * Used by one thread, but for broker_wake.
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
    /* A frame of a channel. What it points to is gone afterwards. */
    void (*frame)(void *context, const amqp_frame_t *frame);
    void (*lost)(void *context);
};

struct broker_config {
    struct amqp_address address;
    const char *name; /* what the broker's lists show */
    uint32_t connect_timeout_ms;
    uint32_t silence_ms; /* a broker that is silent for so long is gone; at least 2000 */
    uint32_t pause_min_ms;
    uint32_t pause_max_ms;
    uint64_t seed; /* of the jitter */
};

/* The address is copied, the name is not. ERR_NOMEM or ERR_IO. */
int broker_open(const struct broker_config *config, struct broker_owner owner,
                struct broker **ret_broker);
/* Says goodbye, if it can within wait_ms. NULL is fine. */
void broker_close(struct broker *broker, int64_t wait_ms);

/* The owner has set up what it needs. */
void broker_ready(struct broker *broker);
bool broker_is_ready(const struct broker *broker);
/* Counts the times it became ready; while it is not, the next one's number. */
uint64_t broker_session(const struct broker *broker);
/* A connection, or a try at every address, has ended since it was ready last. */
bool broker_is_away(const struct broker *broker);

/* Ends the connection, and says why. error: ERR_IO, or what only an operator can change. */
void broker_fail(struct broker *broker, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What went wrong last: the code (0: nothing since it became ready) and the text. */
int broker_error(const struct broker *broker, const char **ret_text);
/* Keeps a text for broker_error without ending anything. */
void broker_note(struct broker *broker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Why the broker reads nothing for now; "": it does. */
const char *broker_blocked(const struct broker *broker);

/* Into the output buffer. What does not fit (no memory) ends the connection. */
void broker_method(struct broker *broker, amqp_channel_t channel, amqp_method_number_t id,
                   void *decoded);
void broker_content(struct broker *broker, amqp_channel_t channel,
                    amqp_basic_properties_t *properties, struct span body);
/* Bytes that the broker has not taken. */
size_t broker_unsent(const struct broker *broker);
/* Sends what can be sent without waiting. */
void broker_flush(struct broker *broker);

int64_t broker_now_ms(void);
/*
 * Sends, reads, keeps time; waits up to wait_ms for something to happen, and returns when something
 * did: there may be nothing to see of it. wakeable: broker_wake ends it, too, and it says true then.
 */
bool broker_turn(struct broker *broker, int64_t wait_ms, bool wakeable);
/* Any thread. Without a wait to end it ends the next one. */
void broker_wake(struct broker *broker);

#endif
