/*
 * How many confirmed messages a second the queue on RabbitMQ publishes, as the relay uses it, beside
 * a bare publisher: librabbitmq in a loop, with the same window of unconfirmed messages, the same
 * bodies and properties, to the same queue. Both in turns, several rounds, in one run, on an emptied
 * queue each time: only the ratio means anything. CPU time is the publisher's own.
 *
 *   bench_amqp amqp://user:password@host:port/vhost [window 1024] [bytes 100] [seconds 3] [rounds 5]
 *              [quorum|classic] [ours|bare: which of the two comes first]
 *
 * Its queues are called sluice.bench.PID and are deleted at the end.
 */
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/amqp/address.h"
#include "backend/amqp/queue_amqp.h"
#include "base/check.h"

#define ROUNDS_MAX 32
#define OUTCOMES 256

static struct {
    const char *url;
    char name[64];
    uint32_t window;
    uint32_t bytes;
    uint32_t seconds;
    uint32_t rounds;
    bool classic;
    bool bare_first;
} options;

static char body[QUEUE_BODY_MAX];

struct figure {
    double rate;   /* confirmed messages a second */
    double cpu_us; /* for each */
};

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    CHECK(clock_gettime(clock, &now) == 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void give_up(const char *what)
{
    (void)fprintf(stderr, "bench_amqp: %s\n", what);
    _exit(1);
}

/* ---- bare ---- */

static void must(amqp_rpc_reply_t reply, const char *what)
{
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        give_up(what);
    }
}

static amqp_connection_state_t bare_open(void)
{
    struct amqp_address a;
    char error[256];
    if (amqp_address_parse(options.url, &a, error, sizeof(error)) != 0) {
        give_up(error);
    }
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    if (socket == NULL || amqp_socket_open(socket, a.host, a.port) != AMQP_STATUS_OK) {
        give_up("cannot connect");
    }
    must(amqp_login(c, a.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, a.user, a.password), "login");
    (void)amqp_channel_open(c, 1);
    must(amqp_get_rpc_reply(c), "channel");
    return c;
}

static void bare_close(amqp_connection_state_t c)
{
    (void)amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    (void)amqp_destroy_connection(c);
}

/* One ack; how far it settles. Acks that are not `multiple` come in order here. 0: none came. */
static uint64_t bare_ack(amqp_connection_state_t c, const struct timeval *wait)
{
    amqp_frame_t frame;
    amqp_maybe_release_buffers(c);
    int status = amqp_simple_wait_frame_noblock(c, &frame, wait);
    if (status == AMQP_STATUS_TIMEOUT) {
        return 0;
    }
    if (status != AMQP_STATUS_OK || frame.frame_type != AMQP_FRAME_METHOD ||
        frame.payload.method.id != AMQP_BASIC_ACK_METHOD) {
        give_up("the bare publisher got no ack");
    }
    return ((const amqp_basic_ack_t *)frame.payload.method.decoded)->delivery_tag;
}

static struct figure bare(void)
{
    amqp_connection_state_t c = bare_open();
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
                                                    AMQP_BASIC_CONTENT_TYPE_FLAG,
                                          .delivery_mode = 2,
                                          .content_type = amqp_cstring_bytes("text/plain")};
    amqp_bytes_t name = amqp_cstring_bytes(options.name);
    amqp_bytes_t bytes = {options.bytes, body};
    (void)amqp_confirm_select(c, 1);
    must(amqp_get_rpc_reply(c), "confirms");
    double start = seconds_of(CLOCK_MONOTONIC);
    double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double end = start + options.seconds;
    uint64_t sent = 0;
    uint64_t settled = 0;
    bool more = true;
    while (more || settled < sent) {
        while (more && sent - settled < options.window) {
            if (amqp_basic_publish(c, 1, name, name, 1, 0, &properties, bytes) != AMQP_STATUS_OK) {
                give_up("the bare publisher cannot publish");
            }
            sent++;
        }
        struct timeval wait = {.tv_sec = 60};
        for (uint64_t tag = bare_ack(c, &wait); tag != 0; tag = bare_ack(c, &wait)) {
            settled = tag > settled ? tag : settled;
            wait = (struct timeval){0};
        }
        more = seconds_of(CLOCK_MONOTONIC) < end;
    }
    struct figure figure = {.rate = (double)sent / (seconds_of(CLOCK_MONOTONIC) - start),
                            .cpu_us =
                                1e6 * (seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)sent};
    bare_close(c);
    return figure;
}

/* ---- ours ---- */

static struct queue *ours_open(enum queue_amqp_role role)
{
    struct queue *queue = NULL;
    struct queue_amqp_options ours = {.url = options.url,
                                      .exchange = options.name,
                                      .queue = options.name,
                                      .classic = options.classic,
                                      .window = options.window,
                                      .content_type = "text/plain",
                                      .connect_timeout_ms = 30000};
    if (queue_amqp_open(&ours, role, &queue) != 0) {
        give_up(queue_amqp_error(NULL));
    }
    if (queue_amqp_wait(queue, 30000) != 0) {
        give_up(queue_amqp_error(queue));
    }
    return queue;
}

static struct figure ours(void)
{
    struct queue *queue = ours_open(QUEUE_AMQP_PUBLISHER);
    struct span span = {body, options.bytes};
    double start = seconds_of(CLOCK_MONOTONIC);
    double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double end = start + options.seconds;
    uint64_t sent = 0;
    uint64_t settled = 0;
    bool more = true;
    while (more || settled < sent) {
        struct queue_outcome outcomes[OUTCOMES];
        size_t count = 0;
        while (more && queue_publish(queue, sent, span) == 0) {
            sent++;
        }
        if (queue_outcomes(queue, outcomes, OUTCOMES, 60000, &count) != 0) {
            give_up("ours got no outcome");
        }
        for (size_t i = 0; i < count; i++) {
            if (outcomes[i].kind != QUEUE_CONFIRMED) {
                give_up(queue_amqp_error(queue));
            }
        }
        settled += count;
        more = seconds_of(CLOCK_MONOTONIC) < end;
    }
    struct figure figure = {.rate = (double)sent / (seconds_of(CLOCK_MONOTONIC) - start),
                            .cpu_us =
                                1e6 * (seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)sent};
    queue_amqp_close(queue);
    return figure;
}

/* ---- rounds ---- */

static void purge(void)
{
    amqp_connection_state_t c = bare_open();
    (void)amqp_queue_purge(c, 1, amqp_cstring_bytes(options.name));
    must(amqp_get_rpc_reply(c), "purge");
    bare_close(c);
}

/* The server is not always quick enough to delete a queue that was just full; it is stopped soon. */
static void clean(void)
{
    static const char *const ends[] = {"",          ".parked",    ".retry.1s",
                                       ".retry.5s", ".retry.30s", ".retry.120s"};
    char name[128];
    amqp_connection_state_t c = bare_open();
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", options.name, ends[i]);
        (void)amqp_queue_delete(c, 1, amqp_cstring_bytes(name), 0, 0);
        if (amqp_get_rpc_reply(c).reply_type != AMQP_RESPONSE_NORMAL) {
            (void)fprintf(stderr, "bench_amqp: cannot delete %s\n", name);
            bare_close(c);
            return;
        }
    }
    (void)snprintf(name, sizeof(name), "%s.dead", options.name);
    (void)amqp_exchange_delete(c, 1, amqp_cstring_bytes(options.name), 0);
    (void)amqp_exchange_delete(c, 1, amqp_cstring_bytes(name), 0);
    bare_close(c);
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static void run(void)
{
    double ratios[ROUNDS_MAX];
    double cpus[ROUNDS_MAX];
    queue_amqp_close(ours_open(QUEUE_AMQP_PUBLISHER)); /* makes what both publish to */
    (void)printf("window %u, %u bytes, %s queue\n", options.window, options.bytes,
                 options.classic ? "classic" : "quorum");
    for (uint32_t round = 0; round < options.rounds; round++) {
        struct figure mine = {0};
        struct figure plain;
        /* neither is always the one that comes first */
        bool first = (round % 2 == 0) != options.bare_first;
        purge();
        if (first) {
            mine = ours();
            purge();
        }
        plain = bare();
        if (!first) {
            purge();
            mine = ours();
        }
        ratios[round] = mine.rate / plain.rate;
        cpus[round] = mine.cpu_us / plain.cpu_us;
        (void)printf(
            "  ours %8.0f/s %5.2f us of CPU   bare %8.0f/s %5.2f us   ratio %.2f, CPU %.2f\n",
            mine.rate, mine.cpu_us, plain.rate, plain.cpu_us, ratios[round], cpus[round]);
        (void)fflush(stdout);
    }
    qsort(ratios, options.rounds, sizeof(ratios[0]), compare);
    qsort(cpus, options.rounds, sizeof(cpus[0]), compare);
    (void)printf("rate, ours / bare: median %.2f (%.2f to %.2f); CPU: median %.2f (%.2f to %.2f)\n",
                 ratios[options.rounds / 2], ratios[0], ratios[options.rounds - 1],
                 cpus[options.rounds / 2], cpus[0], cpus[options.rounds - 1]);
    purge();
    clean();
}

static uint32_t number(int argc, char **argv, int at, uint32_t standard, uint32_t max)
{
    uint64_t value = standard;
    if (argc > at && (span_parse_u64(span_of(argv[at]), max, &value) != 0 || value == 0)) {
        give_up("a number is wrong");
    }
    return (uint32_t)value;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_amqp amqp://user:password@host:port/vhost [window] "
                              "[bytes] [seconds] [rounds] [quorum|classic] [ours|bare]\n");
        return 2;
    }
    options.url = argv[1];
    options.window = number(argc, argv, 2, 1024, 65536);
    options.bytes = number(argc, argv, 3, 100, QUEUE_BODY_MAX);
    options.seconds = number(argc, argv, 4, 3, 3600);
    options.rounds = number(argc, argv, 5, 5, ROUNDS_MAX);
    options.classic = argc > 6 && strcmp(argv[6], "classic") == 0;
    options.bare_first = argc > 7 && strcmp(argv[7], "bare") == 0;
    (void)snprintf(options.name, sizeof(options.name), "sluice.bench.%ld", (long)getpid());
    memset(body, 'b', sizeof(body));
    run();
    return 0;
}
