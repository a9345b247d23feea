/*
 * All settings of the server in one table: section, name, kind, range, default, unit, whether
 * SIGHUP applies a new value, and help. The struct, the parser, `--set` and the documented example
 * (`--print-config`, also at the end of docs/CONFIGURATION.md) are generated from it.
 *
 * Values come from the defaults, then the file, then the command line; a later one wins. A wrong
 * value is refused with its place: `sluice.conf:12: server.threads: must be ...`.
 *
 * All functions are called by one thread.
 */
#ifndef SLUICE_APP_CONFIG_H
#define SLUICE_APP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "app/config_limits.h"
#include "base/limits.h"
#include "port/regions.h"

/*
 * Kinds. NUMBER: a whole number, min to max. FLAG: true or false. The others are texts of min to max
 * bytes (min 0: may be empty); they differ in their format.
 */
#define CONFIG_KINDS(X)                                                                            \
    X(NUMBER, "a whole number")                                                                    \
    X(PATH, "a path")                                                                              \
    X(ADDRESS, "ADDRESS:PORT with a numeric address, like 127.0.0.1:8080 or [::1]:8080")           \
    X(PROXIES, "addresses or networks like 127.0.0.1,10.0.0.0/8, separated by commas or spaces")   \
    X(ORIGINS, "origins like https://shop.example, separated by spaces or commas, or *")           \
    X(URL, "a URL that begins with https://, http:// or /")                                        \
    X(DATABASE, "mariadb://user[:password]@host[:port]/database[?options]")                        \
    X(ROLES, "front, relay, booker and keeper, some or all, separated by commas")                  \
    X(REDIS, "redis://host, sentinel://host,host/name or cluster://host,host (docs/REDIS.md)")     \
    X(BROKER, "amqp://user[:password]@host[:port][/vhost]")                                        \
    X(ORIGIN, "an origin like https://shop.example, without a path")                               \
    X(HOOK, "http://HOST[:PORT][/PATH]; TLS is for a proxy of yours (docs/PAGES.md)")              \
    X(NAME, "letters, digits and - _ . :")                                                         \
    X(REGIONS, "NAME FIRST-LAST SEGMENTS [WEIGHT]; ... (docs/DISTRIBUTED.md)")                     \
    X(LEVEL, "debug, info, warn or error")                                                         \
    X(FLAG, "true or false")

enum config_kind {
#define X(name, text) CONFIG_##name,
    CONFIG_KINDS(X)
#undef X
};

/* When a new value takes effect: at the next start, or on SIGHUP. */
enum config_when { CONFIG_RESTART, CONFIG_RELOAD };

/* section, name, kind, min, max, default, unit, when a new value takes effect, help */
/* clang-format off */
#define CONFIG(X)                                                                                  \
    X(server, listen, ADDRESS, 1, 100, "127.0.0.1:8080", "", RESTART,                              \
      "Address and port that serve buyers, the shop and operators.")                               \
    X(server, private_listen, ADDRESS, 0, 100, "", "", RESTART,                                    \
      "A second address for /metrics, /livez and /readyz; the first then no longer serves "        \
      "them. Empty: the first address serves them.")                                               \
    X(server, trusted_proxies, PROXIES, 0, 1000, "", "", RELOAD,                                   \
      "Proxies that say in Forwarded, or else in X-Forwarded-For, who their client is. They must " \
      "set or remove both. Empty: none; a client's address is its connection's.")                  \
    X(server, threads, NUMBER, 0, LOOPS_MAX, 0, "event loops", RESTART,                            \
      "Event loops, one thread each. 0: one per core.")                                            \
    X(server, connections, NUMBER, 16, 1000000, 16384, "connections", RESTART,                     \
      "Connections per event loop; fewer if the limit on open files is lower.")                    \
    X(server, address_share, NUMBER, 0, 100, 0, "%", RESTART,                                      \
      "Share of its connections that one client address (IPv6: one /64) may have at an event "     \
      "loop. 0: no limit. Behind a proxy all buyers have the proxy's address.")                    \
    X(server, drain_ms, NUMBER, 0, 60000, 5000, "ms", RELOAD,                                      \
      "After SIGTERM, wait this long for requests in progress.")                                   \
    X(server, roles, ROLES, 1, 64, "front,relay,booker,keeper", "", RESTART,                       \
      "Roles of this process in the distributed engine (redis.url). A process without the "        \
      "role front serves only /metrics, /livez and /readyz.")                                      \
    X(data, dir, PATH, 1, 900, "./var", "", RESTART,                                               \
      "Data folder: secrets, journal, ledger. One server at a time uses it.")                      \
    X(gate, orders, NUMBER, 1, GATE_ORDERS_MAX, GATE_ORDERS_DEFAULT, "orders", RESTART,            \
      "Orders that the gate holds at one time. When it is nearly full, orders that are paid or "   \
      "have ended leave it; when it is full, buyers are refused. The memory is reserved at "       \
      "start. Distributed: of each segment, and no order leaves before its sale is forgotten.")    \
    X(gate, buyers, NUMBER, 1, GATE_BUYERS_MAX, GATE_BUYERS_DEFAULT, "buyers", RESTART,            \
      "Pairs of buyer and item with an order. The memory is reserved at start.")                   \
    X(gate, items, NUMBER, 1, GATE_ITEMS_MAX, GATE_ITEMS_DEFAULT, "items", RESTART,                \
      "Items of all warm, open, paused and recently closed sales together.")                       \
    X(gate, sales, NUMBER, 1, GATE_SALES_MAX, GATE_SALES_DEFAULT, "sales", RESTART,                \
      "Warm, open, paused and recently closed sales.")                                             \
    X(gate, buyer_share, NUMBER, 1, 100, GATE_BUYER_SHARE_DEFAULT, "% of gate.orders", RESTART,    \
      "The most unpaid orders of one buyer for one item, at least 200 or a tenth of gate.orders. " \
      "Beyond it this buyer is refused, nobody else. 100: no such share. Distributed: of each "    \
      "segment.")                                                                                  \
    X(gate, item_share, NUMBER, 1, 100, GATE_ITEM_SHARE_DEFAULT, "% of gate.orders", RESTART,      \
      "The most unpaid orders of one item. 100: no such share. Distributed: of each segment.")     \
    X(gate, sale_share, NUMBER, 1, 100, GATE_SALE_SHARE_DEFAULT,                                   \
      "% of gate.orders and gate.buyers", RESTART,                                                 \
      "The most unpaid orders, and the most buyers, of one sale. 100: no such share. Distributed: " \
      "of each segment.")                                                                              \
    X(journal, segment_mib, NUMBER, 1, 1024, JOURNAL_FILE_DEFAULT_MIB, "MiB", RESTART,          \
      "Size of one journal file. Snapshots and trimming work file by file.")                       \
    X(ledger, batch, NUMBER, 1, 100000, 4000, "orders", RESTART,                                   \
      "Maximum number of orders booked in one transaction.")                                       \
    X(ledger, url, DATABASE, 0, 700, "", "", RESTART,                                              \
      "A MariaDB database for the ledger, used by Sluice alone. Empty: SQLite in the data "        \
      "folder.")                                                                                   \
    X(ledger, password_file, PATH, 0, 900, "", "", RESTART,                                        \
      "A file whose first line is the password for ledger.url. Empty: use the one in the URL.")    \
    X(ledger, timeout_s, NUMBER, 1, 300, 10, "s", RESTART,                                         \
      "If MariaDB does not answer for this long, treat the connection as lost.")                   \
    X(spool, promises, NUMBER, 1000, 10000000, 262144, "orders", RESTART,                          \
      "Distributed: orders that this front has promised and the ledger has not confirmed. "        \
      "When it is full, the front promises nothing new. The memory is reserved at start.")         \
    X(spool, line, NUMBER, 0, 10000000, 20000, "buyers", RELOAD,                                   \
      "Distributed: buyers that may wait in line at this front while Redis is away. 0: none.")     \
    X(spool, line_s, NUMBER, 1, 86400, 60, "s", RELOAD,                                            \
      "Distributed: an order fails after waiting in line for this long.")                          \
    X(relay, window, NUMBER, 16, 65536, 4096, "decisions", RESTART,                                \
      "Distributed: decisions in flight from the outboxes to the queue.")                          \
    X(relay, direct_after_s, NUMBER, 0, 1000000000, 10, "s", RELOAD,                               \
      "Distributed: when the queue has been away for this long, book decisions directly in "       \
      "the ledger.")                                                                               \
    X(relay, direct_outbox, NUMBER, 0, 100000000, 100000, "decisions", RELOAD,                     \
      "Distributed: while the queue is away, book directly as soon as one outbox holds more "      \
      "decisions than this. 0: wait for direct_after_s.")                                          \
    X(relay, direct_rate, NUMBER, 0, 1000000, 5000, "decisions a second", RELOAD,                  \
      "Distributed: maximum rate of direct booking per relay. 0: no limit.")                       \
    X(relay, stale_s, NUMBER, 0, 1000000, 0, "s", RELOAD,                                          \
      "Distributed: fail an order (overloaded) that is not booked this long after the buyer's "    \
      "request, and sell its units again. Must be longer than spool.line_s unless spool.line "     \
      "is 0. 0: never; the order waits.")                                                          \
    X(redis, url, REDIS, 0, 1000, "", "", RESTART,                                                 \
      "Redis as the gate of several machines: one server, a master behind Sentinels (the "         \
      "login is the master's), or a Cluster. Needs ledger.url. Empty: the gate is in this "        \
      "process.")                                                                                  \
    X(redis, password_file, PATH, 0, 900, "", "", RESTART,                                         \
      "A file whose first line is the password for redis.url. Empty: use the one in the URL.")     \
    X(redis, sentinel_password_file, PATH, 0, 900, "", "", RESTART,                                \
      "A file whose first line is the password of the Sentinels. Empty: none.")                    \
    X(redis, prefix, NAME, 1, 64, "sluice", "", RESTART,                                           \
      "Prefix of every key, so that several shops can share a server.")                            \
    X(redis, segments, NUMBER, 0, 64, 0, "segments", RESTART,                                      \
      "Number of stock segments; each has its own buyers and lives on one master. 0: one per "     \
      "master.")                                                                                   \
    X(redis, regions, REGIONS, 0, REGIONS_TEXT_MAX, "", "", RESTART,                               \
      "Home segments by ranges of user ids, for sales warmed from now on, such as \"eu "           \
      "1-1999999999 0,1; us 2000000000- 2\". Empty: all segments form one region.")                \
    X(redis, timeout_ms, NUMBER, 10, 60000, 1000, "ms", RESTART,                                   \
      "If a Redis server does not answer for this long, treat the connection as lost.")            \
    X(redis, in_flight, NUMBER, 1, 100000, 4096, "calls", RESTART,                                 \
      "Calls in flight from one event loop to one server. When it is reached, buyers are "         \
      "refused.")                                                                                  \
    X(redis, outbox, NUMBER, 1000, 100000000, 1000000, "decisions", RESTART,                       \
      "Decisions in the outbox of one segment. When it is full, buyers are refused.")              \
    X(redis, wait_replicas, NUMBER, 0, 16, 0, "replicas", RESTART,                                 \
      "Answer a buy when this many replicas have it. This makes losing it less likely, not "       \
      "impossible. 0: do not wait.")                                                               \
    X(redis, wait_timeout_ms, NUMBER, 1, 60000, 200, "ms", RESTART,                                \
      "Wait this long for replicas; then the buyer must ask again with the same ticket.")          \
    X(amqp, url, BROKER, 0, 700, "", "", RESTART,                                                  \
      "RabbitMQ, which carries decisions from the gate to the ledger. Empty: the relay books "     \
      "directly.")                                                                                 \
    X(amqp, password_file, PATH, 0, 900, "", "", RESTART,                                          \
      "A file whose first line is the password for amqp.url. Empty: use the one in the URL.")      \
    X(amqp, queue, NAME, 1, 64, "sluice.orders", "", RESTART,                                      \
      "Name of the exchange and the queue, and prefix of the other queues.")                       \
    X(amqp, quorum, NUMBER, 0, 1, 1, "", RESTART,                                                  \
      "1: quorum queues, replicated over the nodes of a cluster. 0: classic queues, on one "       \
      "node.")                                                                                     \
    X(amqp, window, NUMBER, 1, 65536, 1024, "messages", RESTART,                                   \
      "Maximum number of messages that the broker has not confirmed.")                             \
    X(amqp, payments, NAME, 0, 64, "", "", RESTART,                                                \
      "A queue from which bookers take payments. Everyone who may publish there can mark "         \
      "orders as paid. Empty: none.")                                                              \
    X(amqp, prefetch, NUMBER, 1, 65535, 2048, "messages", RESTART,                                 \
      "Messages that a booker may hold before they are booked.")                                   \
    X(amqp, redrive_s, NUMBER, 0, 604800, 3600, "s", RESTART,                                      \
      "How often the keeper sends parked messages again. 0: only on request.")                     \
    X(amqp, events, NAME, 0, 200, "", "", RESTART,                                                 \
      "The exchange that receives events as CloudEvents (docs/EVENTS.md), in both engines. "       \
      "Empty: no events are published.")                                                           \
    X(amqp, events_source, URL, 1, 255, "/sluice", "", RESTART,                                    \
      "The source of those events; give each shop on a broker its own.")                           \
    X(clock, behind_s, NUMBER, 1, 86400, 60, "s", RESTART,                                         \
      "Refuse to start if the wall clock is further behind the last known time (--accept-clock "   \
      "starts all the same).")                                                                     \
    X(clock, hold_ahead_s, NUMBER, 60, 315360000, 3600, "s", RESTART,                              \
      "If the wall clock is further ahead of the last known time, wait for a confirmation before " \
      "starting: the kernel's NTP state, or clock.confirm_s.")                                     \
    X(clock, max_ahead_s, NUMBER, 3600, 315360000, 7776000, "s", RESTART,                          \
      "Refuse to start if the wall clock is further ahead of the last known time "                 \
      "(--accept-clock starts all the same).")                                                     \
    X(clock, confirm_s, NUMBER, 0, 86400, 60, "s", RESTART,                                        \
      "Believe a doubted clock that NTP does not confirm after it has run this long without a "    \
      "jump. 0: at once. The demonstration does not wait.")                                        \
    X(admission, defaults, FLAG, 0, 1, true, "", RELOAD,                                           \
      "Have the rate limits that ship with the program, except those that the configuration "      \
      "changes. false in the demonstration unless set.")                                           \
    X(admission, address_limit, FLAG, 0, 1, false, "", RELOAD,                                     \
      "Have the one that counts by address, too: 2 tickets and buys of an item in 10 s. A whole "  \
      "office or mobile network may share an address.")                                            \
    X(keeper, tick_ms, NUMBER, 1, 60000, 50, "ms", RESTART,                                        \
      "How often deadlines, starts and ends are checked.")                                         \
    X(reconcile, every_s, NUMBER, 0, 86400, 60, "s", RESTART,                                      \
      "Distributed: how often the keeper compares gate, queue and ledger. 0: never.")              \
    X(reconcile, bound_s, NUMBER, 1, 3600, 10, "s", RESTART,                                       \
      "Report a difference that lasts this long. Longer than any message is in flight.")           \
    X(board, keep_s, NUMBER, 0, 31536000, 86400, "s", RESTART,                                     \
      "Keep an order in memory this long after its sale's end and its own deadline.")              \
    X(ticket, ttl_s, NUMBER, 1, 86400, 300, "s", RELOAD,                                           \
      "Lifetime of a ticket.")                                                                     \
    X(ticket, window_s, NUMBER, 0, 604800, 60, "s", RELOAD,                                        \
      "Give out tickets this long before a sale starts.")                                          \
    X(order, late_cancel_s, NUMBER, 0, 31536000, 0, "s", RELOAD,                                   \
      "A buyer's cancellation this long before the payment deadline, or later, counts as an "      \
      "unpaid order: a sale with bar_unpaid then bars the buyer. 0: none does.")                   \
    X(order, cooling_s, NUMBER, 0, 31536000, 0, "s", RELOAD,                                       \
      "After a buyer's cancellation, or an order that expired, the buyer waits this long for a new "  \
      "order of the item. 0: may try again at once.")                                              \
    X(auth, leeway_s, NUMBER, 0, 3600, 0, "s", RELOAD,                                             \
      "Accept a buyer's token this long after its exp, for clocks that differ.")                   \
    X(auth, tokens, NUMBER, 16, 1 << 24, 262144, "tokens", RESTART,                                \
      "Verified tokens remembered per event loop, so that a signature is checked once.")           \
    X(webhook, window_s, NUMBER, 1, 86400, 300, "s", RELOAD,                                       \
      "Maximum difference between the timestamp of a payment notice and now.")                     \
    X(cors, origins, ORIGINS, 0, 1000, "", "", RELOAD,                                             \
      "Origins whose pages may call the API from a browser. Empty: only this server's own.")       \
    X(page, login_url, URL, 0, URL_MAX_BYTES, "", "", RELOAD,                                      \
      "Where the page sends a buyer without a token, with the parameters return and state, or "     \
      "with them in place of {return} and {state}. The login sends the buyer back to "             \
      "RETURN#token=TOKEN&state=STATE. Empty: nowhere.")                             \
    X(pages, memory_mib, NUMBER, 1, 65536, PAGES_MEMORY_DEFAULT_MIB, "MiB", RESTART,               \
      "Memory for storefront pages. Items beyond it have no page.")                                \
    X(pages, base_url, ORIGIN, 0, 255, "", "", RESTART,                                            \
      "Public origin of the pages, for the URLs sent to the purge hook. Empty: send paths.")       \
    X(pages, purge_url, HOOK, 0, URL_MAX_BYTES, "", "", RESTART,                                   \
      "POST changed pages here as {\"urls\":[...]} so that a CDN drops them; the CDN may then "    \
      "keep pages for a day instead of a minute (docs/PAGES.md). Empty: no hook.")                 \
    X(pages, purge_token_file, PATH, 0, 900, "", "", RESTART,                                      \
      "A file whose first line is sent to the hook as Authorization: Bearer. Empty: none.")        \
    X(http, header_timeout_ms, NUMBER, 10, 3600000, 10000, "ms", RELOAD,                           \
      "Request timeout: from the start of a connection, or the first byte of a later request, "    \
      "to the last byte of the request.")                                                          \
    X(http, idle_timeout_ms, NUMBER, 10, 3600000, 60000, "ms", RELOAD,                             \
      "Idle timeout: close a connection that is quiet between requests for this long.")            \
    X(http, write_timeout_ms, NUMBER, 10, 3600000, 15000, "ms", RELOAD,                            \
      "Write timeout: close the connection if the client reads nothing for this long.")            \
    X(http, small_buffers, NUMBER, 1, 1 << 20, 16384, "buffers", RESTART,                          \
      "Buffers of 4 KiB per event loop, for half-read requests and half-sent answers.")            \
    X(http, large_buffers, NUMBER, 1, 1 << 16, 32, "buffers", RESTART,                             \
      "Buffers of 471 KiB per event loop, for large requests and answers.")                        \
    X(http, reserved_buffers, NUMBER, 1, 1 << 12, 8, "buffers", RESTART,                           \
      "Such buffers per event loop that only operators get, and as many that only payments get.")  \
    X(http, unsent_mib, NUMBER, 1, 1 << 16, 64, "MiB", RESTART,                                    \
      "Answers per event loop that clients have not taken yet. Above it, slow readers are closed " \
      "and large answers refused.")                                                                \
    X(log, level, LEVEL, 1, 8, "info", "", RELOAD,                                                 \
      "Lowest level that is logged.")
/* clang-format on */

/* The values: config.server_threads and so on. Plain memory that can be copied. */
struct config {
#define CONFIG_MEMBER_NUMBER(member, max) int64_t member;
#define CONFIG_MEMBER_PATH(member, max) char member[(max) + 1];
#define CONFIG_MEMBER_ADDRESS CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_PROXIES CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_ORIGINS CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_URL CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_DATABASE CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_ROLES CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_REDIS CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_BROKER CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_NAME CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_ORIGIN CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_HOOK CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_REGIONS CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_LEVEL CONFIG_MEMBER_PATH
#define CONFIG_MEMBER_FLAG(member, max) bool member;
#define X(section, name, kind, min, max, standard, unit, when, help)                               \
    CONFIG_MEMBER_##kind(section##_##name, max)
    CONFIG(X)
#undef X
    struct config_limits limits;
};

/* server.roles as bits. 0: invalid list. */
enum { ROLE_FRONT = 1, ROLE_RELAY = 2, ROLE_BOOKER = 4, ROLE_KEEPER = 8 };
uint32_t config_roles(const char *text);

/* A value from the command line. The caller owns key and value. */
struct config_override {
    const char *option; /* the option it came from: "--set", "--listen" ... */
    const char *key;    /* "section.name"; NULL: value is the whole "section.name=value" */
    const char *value;
};

/* The command line of `sluice serve`. */
struct config_options {
    const char *file; /* NULL: none */
    struct config_override *overrides;
    size_t overrides_count;
    bool demo;
    bool accept_clock; /* start with a wall clock that is far from the last known time */
};

enum config_parsed { CONFIG_RUN, CONFIG_SHOWN, CONFIG_FAILED, CONFIG_USAGE };
/*
 * Parses the options of `sluice serve`; strings stay in argv. CONFIG_SHOWN: help or the
 * configuration was printed, exit 0. CONFIG_USAGE: the command line is wrong, exit 2.
 * CONFIG_FAILED: the file is wrong, exit 1. Errors have been printed to stderr. Each setting on the
 * command line has been checked by itself. ret_options is filled only with CONFIG_RUN;
 * config_options_done frees it.
 */
enum config_parsed config_options_parse(int argc, char **argv, struct config_options *ret_options);
/* After config_load failed: whether the file or the command line is at fault. If settings
 * contradict each other, the file is, if there is one. */
enum config_parsed config_unloaded(const struct config_options *options);
void config_options_done(struct config_options *options);

/* Enough for any error text below. */
#define CONFIG_ERROR_MAX 1024

/* Each returns 0, or ERR_INVALID, ERR_NOTFOUND, ERR_IO or ERR_NOMEM with one line in ret_error. The
 * first checks only the settings of the command line, each by itself. */
int config_check_overrides(const struct config_options *options, char *ret_error, size_t error_cap);
int config_load(const struct config_options *options, struct config *ret_config, char *ret_error,
                size_t error_cap);

/*
 * Reads everything again. ret_config is `running` with the new values of settings that may change.
 * ret_ignored lists settings that changed but need a restart ("" for none). Errors as above; then
 * nothing changes. ret_config may be `running` itself.
 */
int config_reload(const struct config_options *options, const struct config *running,
                  struct config *ret_config, char *ret_ignored, size_t ignored_cap, char *ret_error,
                  size_t error_cap);
/* Logs each changed setting with its old and new value. No text that may change at a reload is
 * secret. */
void config_log_changes(const struct config *from, const struct config *to);

/* Prints the documented example with these values, a valid configuration file. */
void config_print(const struct config *config, FILE *out);

#endif
