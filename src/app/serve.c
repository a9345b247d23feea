/*
 * `sluice serve`: builds one server from its parts and runs it until SIGTERM. Only this file,
 * ledger_backends.c, backends.c and exchange.c name concrete backends.
 *
 * Start: options, data folder (one owner), port (one owner), secrets, memory, journal into the
 * gate, ledger, catch-up of both; then the threads. Stop: the loops drain, the ledger writer books
 * what is durable, the journal writes its last batch.
 *
 * An error before the threads run ends the process with one line and exit 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/assembly.h"
#include "app/clock_file.h"
#include "app/commands.h"
#include "app/config.h"
#include "app/demo.h"
#include "app/descriptors.h"
#include "app/distributed.h"
#include "app/event_publisher_thread.h"
#include "app/exchange.h"
#include "app/folder_watch.h"
#include "app/journal_thread.h"
#include "app/ledger_backends.h"
#include "app/limit_files.h"
#include "app/memory_bounds.h"
#include "app/page_builder_thread.h"
#include "app/reconciler_thread.h"
#include "app/secrets.h"
#include "app/settings.h"
#include "app/tally_thread.h"
#include "app/worker.h"
#include "backend/posix/clock_posix.h"
#include "backend/posix/disk_posix.h"
#include "backend/posix/net_epoll.h"
#include "base/check.h"
#include "base/err.h"
#include "base/version.h"
#include "obs/incident_log.h"
#include "obs/log.h"
#include "pages/static.h"

#define LOOP_SLEEP_US 1000000
#define LEDGER_WRITER_NICE 10
#define JANITOR_NICE 10
/* Buyers come before reports. */
#define OPERATOR_READER_NICE 10
/* The reserve for a full disk: a journal file, and as much again for the ledger. */
#define RESERVE_FILES 2

struct loop {
    pthread_t thread;
    struct net *net;
    struct api_worker *worker; /* owned by the assembly */
    bool running;
};

struct server {
    struct config_options options;
    struct config config;
    struct secrets secrets;
    sigset_t signals; /* blocked; taken one by one */
    int folder_lock;
    struct net_listener *listener;
    struct net_listener *private_listener;
    struct disk_posix disk;
    bool disk_open;
    struct gate_sizes sizes;
    struct ledger_backends ledger_backends;
    struct assembly parts;
    struct distributed *distributed;                       /* NULL: embedded engine */
    struct reconciler_thread *reconciler_thread;           /* embedded engine only */
    struct event_publisher_thread *event_publisher_thread; /* embedded engine only */
    struct page_builder_thread *page_builder_thread;       /* NULL: not a front */
    struct tally_thread *tally_thread;
    struct limit_files limit_files;
    struct api_settings *settings; /* the newest; older ones are linked behind it until no loop uses
                                    * them */
    uint32_t connections;          /* of each loop */
    int files;                     /* net_epoll_files() */
    uint32_t loops_count;
    struct loop loops[LOOPS_MAX];
    struct mailbox janitor; /* used only to ring, to end its wait */
    struct journal_thread journal_thread;
    struct folder_watch *folder_watch;
    struct worker ledger_writer_worker, ledger_reader_worker, operator_reader_worker,
        janitor_worker;
};

/* ---- threads ---- */

static bool run_ledger_writer(void *context)
{
    ledger_writer_run(((struct server *)context)->parts.ledger_writer);
    return false;
}

static void stop_ledger_writer(void *context)
{
    ledger_writer_stop(((struct server *)context)->parts.ledger_writer);
}

static bool run_ledger_reader(void *context)
{
    ledger_reader_run(context);
    return false;
}

static void stop_ledger_reader(void *context)
{
    ledger_reader_stop(context);
}

static bool run_janitor(void *context)
{
    struct server *server = context;
    janitor_iterate(&server->parts.janitor);
    mailbox_wait(&server->janitor, JANITOR_EVERY_US);
    return true;
}

static void wake_janitor(void *context)
{
    mailbox_ring(&((struct server *)context)->janitor);
}

static int start_worker(struct worker *worker)
{
    int error = worker_start(worker);
    return error == 0 ? 0 : assembly_fail("cannot start a thread", error, worker->name);
}

static void *run_loop(void *context)
{
    struct loop *loop = context;
    (void)pthread_setname_np(pthread_self(), "loop");
    while (api_worker_iterate(loop->worker, LOOP_SLEEP_US)) {
    }
    return NULL;
}

static void wake_loop(void *context)
{
    net_wake(context);
}

/* ---- start ---- */

/* Creates DATA and DATA/journal, and locks the folder. */
static int open_folder(struct server *server, char *ret_journal, size_t cap)
{
    const char *data = server->config.data_dir;
    int error = folder_make(data);
    if (error != 0) {
        return assembly_fail("cannot make the data folder", error, data);
    }
    error = folder_lock(data, &server->folder_lock);
    if (error == ERR_BUSY) {
        return assembly_fail("another server uses this data folder", error, data);
    }
    if (error != 0) {
        return assembly_fail("cannot lock the data folder", error, data);
    }
    (void)snprintf(ret_journal, cap, "%s/chronicle.log", data);
    if (incident_log_open(ret_journal) != 0) {
        log_event(LOG_WARN, "incident_log.not_kept", LOG_STR("file", ret_journal));
    }
    (void)snprintf(ret_journal, cap, "%s/journal", data);
    error = folder_make(ret_journal);
    return error != 0 ? assembly_fail("cannot make the journal folder", error, ret_journal) : 0;
}

static int open_port(struct server *server)
{
    const struct config *config = &server->config;
    uint32_t public_loops = server->loops_count - (server->parts.shared.private_health ? 1 : 0);
    int error = net_epoll_listen(config->server_listen, public_loops, &server->listener);
    if (error == ERR_BUSY) {
        return assembly_fail("the address is in use; is another server running?", error,
                             config->server_listen);
    }
    if (error != 0) {
        return assembly_fail("cannot listen", error, config->server_listen);
    }
    if (server->parts.shared.private_health) {
        error = net_epoll_listen(config->server_private_listen, 1, &server->private_listener);
    }
    return error != 0 ? assembly_fail("cannot listen", error, config->server_private_listen) : 0;
}

static int load_secrets(struct server *server)
{
    char text[SECRETS_ERROR_MAX];
    char ledger[1024];
    ledger_backends_mark(&server->config, ledger, sizeof(ledger));
    bool first_start = access(ledger, F_OK) != 0;
    int error = secrets_load(server->config.data_dir, true, &server->secrets, text, sizeof(text));
    if (error != 0) {
        return assembly_fail("cannot load the secrets", error, text);
    }
    if (server->secrets.made[0] != '\0') {
        log_event(first_start ? LOG_INFO : LOG_WARN, "secrets.made",
                  LOG_STR("files", server->secrets.made),
                  LOG_STR("what", first_start ? "first start of this data folder"
                                              : "what was signed with the old ones is refused"));
    }
    if (server->secrets.warning[0] != '\0') {
        log_event(LOG_WARN, "secrets.readable_by_others",
                  LOG_STR("files", server->secrets.warning));
    }
    return 0;
}

static void choose_sizes(struct server *server)
{
    const struct config *config = &server->config;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = config->server_threads > 0 ? (uint32_t)config->server_threads
                       : cores > LOOPS_MAX - 1    ? LOOPS_MAX - 1
                       : cores > 0                ? (uint32_t)cores
                                                  : 1;
    server->parts.shared.private_health = config->server_private_listen[0] != '\0';
    server->loops_count = threads + (server->parts.shared.private_health ? 1 : 0);
    if (server->loops_count > LOOPS_MAX) {
        server->loops_count = LOOPS_MAX;
    }
    server->sizes =
        (struct gate_sizes){(uint32_t)config->gate_orders, (uint32_t)config->gate_buyers,
                            (uint32_t)config->gate_items, (uint32_t)config->gate_sales};
}

/* Raises the limit on open files as far as allowed, and divides it. */
static int reserve_descriptors(struct server *server)
{
    char text[DESCRIPTORS_ERROR_MAX];
    struct rlimit files = {0};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return assembly_fail("cannot read the limit on open files", ERR_IO, strerrordesc_np(errno));
    }
    rlim_t soft = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    uint64_t limit = setrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_max : soft;
    struct descriptors descriptors;
    int error = descriptors_divide(&server->config, server->loops_count, limit, &descriptors, text,
                                   sizeof(text));
    if (error != 0) {
        return assembly_fail("too few open files are allowed", error, text);
    }
    server->connections = descriptors.connections;
    server->files = descriptors.files;
    if (server->connections < server->config.server_connections) {
        log_event(LOG_WARN, "connections.fewer", LOG_U64("each_loop", server->connections),
                  LOG_U64("open_files", limit),
                  LOG_STR("do", "raise the limit on open files (ulimit -n, LimitNOFILE)"));
    }
    return 0;
}

static void log_start(const struct server *server)
{
    log_event(LOG_INFO, "server.starting", LOG_STR("version", SLUICE_VERSION),
              LOG_U64("pid", (uint64_t)getpid()), LOG_STR("roles", server->config.server_roles),
              LOG_STR("listen", server->config.server_listen));
    memory_bounds_log(&server->config, server->sizes, &server->settings->http, server->loops_count,
                      server->connections);
    limits_warn(&server->config);
}

static const char *ledger_words(void *ledger_backends)
{
    return ledger_backends_error(ledger_backends);
}

static struct start_clock_options start_clock_of(const struct server *server)
{
    const struct config *config = &server->config;
    return (struct start_clock_options){
        .bounds = {.behind_ms = config->clock_behind_s * 1000,
                   .hold_ahead_ms = config->clock_hold_ahead_s * 1000,
                   .max_ahead_ms = config->clock_max_ahead_s * 1000},
        .confirm_ms = server->options.demo ? 0 : config->clock_confirm_s * 1000,
        .accept = server->options.accept_clock,
        .known_ms = clock_file_read(config->data_dir)};
}

static int open_journal(struct server *server, const char *folder)
{
    const struct config *config = &server->config;
    int error = disk_posix_open(folder, &server->disk);
    if (error != 0) {
        return assembly_fail("cannot open the journal folder", error, folder);
    }
    server->disk_open = true;
    struct assembly_options options = {
        .sizes = server->sizes,
        .shares = {(uint32_t)server->config.gate_buyer_share,
                   (uint32_t)server->config.gate_item_share,
                   (uint32_t)server->config.gate_sale_share},
        .journal = {.file_bytes = (uint64_t)config->journal_segment_mib << 20,
                    .buffer_bytes = JOURNAL_BUFFER_BYTES,
                    .reserve_bytes = (uint64_t)config->journal_segment_mib * RESERVE_FILES << 20},
        .ledger_writer = {.batch_max = (uint32_t)config->ledger_batch,
                          .cooling_ms = config->order_cooling_s * 1000,
                          .tick_ms = (uint32_t)config->keeper_tick_ms,
                          .board_keep_ms = config->board_keep_s * 1000,
                          .mailboxes = exchange_wanted(config) ? 1 : 0,
                          .server = config->ledger_url[0] != '\0' ? "mariadb" : "sqlite",
                          .words = ledger_words,
                          .words_context = &server->ledger_backends},
        .clock = start_clock_of(server),
        .loops = server->loops_count};
    if (config->redis_url[0] != '\0') {
        error = distributed_open(config, server->loops_count, clock_posix(), &server->distributed);
        if (error != 0) {
            return error;
        }
        options.spool = distributed_spool(server->distributed);
    }
    return assembly_open(&server->parts, &options, &server->disk.disk, clock_posix());
}

/* With --demo and an empty ledger: creates two sales, one open, one that opens in a minute. */
static int make_demo(struct server *server)
{
    struct sale_row *known = NULL;
    struct ledger_query query = {.kind = QUERY_SALES, .limit = 1, .sales = &known};
    (void)ledger_read(server->ledger_backends.writer, &query);
    if (query.error != 0 || query.count > 0) {
        sale_row_free(known);
        return query.error;
    }
    struct sale_row *rows[4];
    size_t count = demo_fill(inside_time_ms(&server->parts.time), rows, 4);
    int error = 0;
    uint64_t item = 1;
    for (size_t i = 0; i < count; i++) {
        struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = rows[i]};
        /* Fixed ids: if two fronts start together, only one creates them. */
        rows[i]->id = i + 1;
        for (uint32_t k = 0; k < rows[i]->items_count; k++) {
            rows[i]->items[k].id = item++;
        }
        struct ledger_op *ops[] = {&create};
        struct ledger_batch batch = {
            .ops = ops, .count = 1, .now_ms = inside_time_ms(&server->parts.time)};
        (void)ledger_write(server->ledger_backends.writer, &batch);
        if (batch.error == 0 && create.sale != NULL) {
            struct ledger_op move = {.kind = LEDGER_SALE_MOVE,
                                     .sale_id = create.sale->id,
                                     .target = rows[i]->starts_at_ms <= batch.now_ms ? SALE_OPEN
                                                                                     : SALE_WARM};
            ops[0] = &move;
            batch.count = 1;
            (void)ledger_write(server->ledger_backends.writer, &batch);
            sale_row_free(move.sale);
        }
        error = batch.error != 0 ? batch.error : error;
        sale_row_free(create.sale);
        sale_row_free(rows[i]);
    }
    return error;
}

/* ERR_CLOSED: a signal ends the start. */
static int wait_a_second(const struct server *server)
{
    const struct timespec second = {.tv_sec = 1};
    int signal_number = sigtimedwait(&server->signals, NULL, &second);
    if (signal_number != SIGTERM && signal_number != SIGINT) {
        return 0;
    }
    log_event(LOG_INFO, "server.stopping",
              LOG_STR("signal", signal_number == SIGTERM ? "TERM" : "INT"));
    return ERR_CLOSED;
}

static int open_ledger(struct server *server)
{
    struct distributed *distributed = server->distributed;
    uint32_t segments = distributed != NULL ? distributed_segments(distributed) : 0;
    server->parts.shared.ledger_health = &server->ledger_backends.health;
    int error = ledger_backends_open(&server->ledger_backends, &server->config, segments);
    if (error == 0 && distributed != NULL) {
        error = distributed_join(distributed, &server->parts, &server->ledger_backends);
    }
    while (error == 0) {
        error =
            assembly_join(&server->parts, server->ledger_backends.writer,
                          server->ledger_backends.reader, server->ledger_backends.operator_reader);
        if (error != ERR_AGAIN) {
            break;
        }
        error = wait_a_second(server); /* the clock is doubted */
    }
    if (error != 0) {
        return error;
    }
    if (server->options.demo) {
        error = make_demo(server);
        if (error != 0) {
            return assembly_fail("cannot make the demonstration sales", error,
                                 ledger_backends_error(&server->ledger_backends));
        }
    }
    return 0;
}

static int start_thread(pthread_t *thread, bool *running, void *(*run)(void *), void *context)
{
    int error = pthread_create(thread, NULL, run, context);
    if (error != 0) {
        return assembly_fail("cannot start a thread", ERR_NOMEM, strerrordesc_np(error));
    }
    *running = true;
    return 0;
}

static int catch_up(struct server *server)
{
    /* The journal thread starts first: catching up appends records. */
    int error = journal_thread_start(&server->journal_thread, &server->parts);
    if (error == 0) {
        error = assembly_catch_up(&server->parts);
        if (error != 0) {
            (void)assembly_fail("cannot bring gate and ledger together", error,
                                ledger_backends_error(&server->ledger_backends));
        }
    }
    return error;
}

static int make_loops(struct server *server)
{
    for (uint32_t i = 0; i < server->loops_count; i++) {
        struct loop *loop = &server->loops[i];
        bool health = server->parts.shared.private_health && i == server->loops_count - 1;
        int error =
            health ? net_epoll_new(server->private_listener, 0, server->connections, &loop->net)
                   : net_epoll_new(server->listener, i, server->connections, &loop->net);
        if (error != 0) {
            return assembly_fail("cannot make an event loop", error, "");
        }
        net_epoll_files(loop->net, server->files);
        if (server->distributed != NULL &&
            net_epoll_also(loop->net, distributed_fd(server->distributed, i)) != 0) {
            return assembly_fail("cannot make an event loop", ERR_IO, "");
        }
        error = assembly_worker(&server->parts, i, loop->net, wake_loop, loop->net);
        if (error != 0) {
            return error;
        }
        loop->worker = server->parts.workers[i];
    }
    return 0;
}

static int start_threads(struct server *server)
{
    /* If CPU is short, answers come before bookings: those are safe in the journal. */
    server->ledger_writer_worker = (struct worker){.name = "ledger-writer",
                                                   .nice = LEDGER_WRITER_NICE,
                                                   .iterate = run_ledger_writer,
                                                   .wake = stop_ledger_writer,
                                                   .context = server};
    server->ledger_reader_worker = (struct worker){.name = "ledger-reader",
                                                   .iterate = run_ledger_reader,
                                                   .wake = stop_ledger_reader,
                                                   .context = server->parts.ledger_reader};
    server->operator_reader_worker = (struct worker){.name = "operator-reader",
                                                     .nice = OPERATOR_READER_NICE,
                                                     .iterate = run_ledger_reader,
                                                     .wake = stop_ledger_reader,
                                                     .context = server->parts.operator_reader};
    server->janitor_worker = (struct worker){.name = "janitor",
                                             .nice = JANITOR_NICE,
                                             .iterate = run_janitor,
                                             .wake = wake_janitor,
                                             .context = server};
    int error = start_worker(&server->ledger_writer_worker);
    error = error != 0 ? error : start_worker(&server->ledger_reader_worker);
    error = error != 0 ? error : start_worker(&server->operator_reader_worker);
    error = error != 0 ? error : start_worker(&server->janitor_worker);
    if (error == 0) {
        error = folder_watch_start(server->config.data_dir, server->parts.journal,
                                   server->config.ledger_url[0] == '\0', &server->folder_watch);
    }
    if (error == 0) {
        error = tally_thread_start(&server->parts, server->config.data_dir, &server->tally_thread);
    }
    if (error == 0 && server->distributed != NULL) {
        error = distributed_start(server->distributed, &server->parts);
    } else if (error == 0) {
        error = reconciler_thread_start(&server->parts, server->ledger_backends.comparer,
                                        server->config.reconcile_bound_s * 1000,
                                        &server->reconciler_thread);
    }
    if (error == 0 && server->distributed == NULL && exchange_wanted(&server->config)) {
        error = event_publisher_thread_start(&server->parts, &server->config,
                                             server->ledger_backends.event_reader, NULL, NULL, NULL,
                                             &server->event_publisher_thread);
    }
    if (error == 0 && server->page_builder_thread != NULL) {
        error = page_builder_thread_start(server->page_builder_thread, &server->config);
    }
    for (uint32_t i = 0; error == 0 && i < server->loops_count; i++) {
        struct loop *loop = &server->loops[i];
        error = start_thread(&loop->thread, &loop->running, run_loop, loop);
    }
    return error;
}

static int make_server(struct server *server)
{
    char journal_folder[1024];
    choose_sizes(server);
    server->parts.shared.demo = server->options.demo;
    server->parts.shared.loops = server->loops_count; /* settings are published for each loop */
    int error = reserve_descriptors(server);
    if (error == 0) {
        error = open_folder(server, journal_folder, sizeof(journal_folder));
    }
    if (error == 0) {
        error = open_port(server);
    }
    if (error == 0) {
        error = load_secrets(server);
    }
    if (error == 0) {
        error = limit_files_open(&server->limit_files, server->config.data_dir);
    }
    if (error == 0) {
        error =
            settings_publish(&server->parts.shared, &server->settings, &server->config,
                             &server->secrets, &server->limit_files.memory, server->connections);
    }
    if (error == 0) {
        log_start(server);
        error = open_journal(server, journal_folder);
    }
    if (error == 0) {
        error = open_ledger(server);
    }
    if (error == 0) {
        error = static_start(web_assets, web_assets_count);
    }
    if (error == 0) {
        error = catch_up(server);
    }
    if (error == 0 && !server->parts.shared.health_only) {
        error =
            page_builder_thread_new(&server->parts, &server->config, &server->page_builder_thread);
    }
    return error;
}

static int start_server(struct server *server)
{
    int error = make_server(server);
    if (error != 0) {
        return error;
    }
    server->parts.shared.tokens_remembered = (uint32_t)server->config.auth_tokens;
    error = make_loops(server);
    if (error == 0) {
        error = start_threads(server);
    }
    if (error == 0 && server->distributed == NULL) {
        assembly_ready(&server->parts); /* distributed: ready when its segments are */
    }
    return error;
}

/* ---- stop ---- */

/* Loops end by themselves once drained; after drain_ms they are cut off. */
static void stop_loops(struct server *server)
{
    atomic_store(&server->parts.shared.draining, true);
    for (uint32_t i = 0; i < server->loops_count; i++) {
        if (server->loops[i].net != NULL) {
            net_wake(server->loops[i].net);
        }
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += server->config.server_drain_ms / 1000 + 1;
    for (uint32_t i = 0; i < server->loops_count; i++) {
        struct loop *loop = &server->loops[i];
        if (loop->running && pthread_timedjoin_np(loop->thread, NULL, &until) != 0) {
            atomic_store(&server->parts.shared.cut_off, true);
            net_wake(loop->net);
            (void)pthread_join(loop->thread, NULL);
        }
        loop->running = false;
    }
}

static void stop_server(struct server *server)
{
    stop_loops(server);
    page_builder_thread_end(server->page_builder_thread);
    folder_watch_stop(server->folder_watch);
    tally_thread_stop(server->tally_thread);
    if (server->distributed != NULL) {
        distributed_stop(server->distributed);
    }
    reconciler_thread_stop(server->reconciler_thread);
    event_publisher_thread_stop(server->event_publisher_thread);
    worker_stop(&server->ledger_writer_worker);
    worker_stop(&server->ledger_reader_worker);
    worker_stop(&server->operator_reader_worker);
    worker_stop(&server->janitor_worker);
    journal_thread_stop(&server->journal_thread);
    page_builder_thread_stop(
        server->page_builder_thread); /* last: it may wait for another server, and nothing waits for
                                       * it */
}

static void free_server(struct server *server)
{
    for (uint32_t i = 0; i < server->loops_count; i++) {
        api_worker_free(server->parts.workers[i]);
        server->parts.workers[i] = NULL;
        net_epoll_free(server->loops[i].net);
    }
    net_listener_free(server->listener);
    net_listener_free(server->private_listener);
    page_builder_thread_free(server->page_builder_thread);
    assembly_free(&server->parts);
    reconciler_thread_free(server->reconciler_thread);
    event_publisher_thread_free(server->event_publisher_thread);
    tally_thread_free(server->tally_thread);
    distributed_free(server->distributed);
    ledger_backends_close(&server->ledger_backends);
    if (server->disk_open) {
        disk_posix_close(&server->disk);
    }
    static_stop();
    settings_free(server->settings);
    mailbox_done(&server->janitor);
    config_options_done(&server->options);
    if (server->folder_lock >= 0) {
        (void)close(server->folder_lock);
    }
    free(server);
}

/* ---- run ---- */

static void reload(struct server *server)
{
    char text[SECRETS_ERROR_MAX];
    char ignored[512];
    struct config config;
    struct secrets secrets;
    int error = config_reload(&server->options, &server->config, &config, ignored, sizeof(ignored),
                              text, sizeof(text));
    if (error == 0) {
        error = secrets_load(server->config.data_dir, false, &secrets, text, sizeof(text));
    }
    if (error != 0) {
        log_event(LOG_ERROR, "config.reload_refused", LOG_STR("why", text),
                  LOG_STR("what", "everything stays as it was"));
        return;
    }
    error = settings_publish(&server->parts.shared, &server->settings, &config, &secrets,
                             &server->limit_files.memory, server->connections);
    if (error != 0) {
        log_event(LOG_ERROR, "config.reload_refused", LOG_ERR("why", error));
        return;
    }
    config_log_changes(&server->config, &config);
    server->config = config;
    server->secrets = secrets;
    limits_warn(&config);
    ledger_writer_cool(server->parts.ledger_writer, config.order_cooling_s * 1000);
    if (server->distributed != NULL) {
        distributed_reload(server->distributed, &config);
    }
    enum log_level level;
    if (log_level_parse(config.log_level, &level) == 0) {
        log_set_level(level);
    }
    for (uint32_t i = 0; i < server->loops_count; i++) {
        net_wake(server->loops[i].net);
    }
    log_event(LOG_INFO, "config.reloaded",
              LOG_STR("need_restart", ignored[0] != '\0' ? ignored : "none"));
}

static void say_where(const struct server *server)
{
    const char *listen = server->config.server_listen;
    const char *colon = strrchr(listen, ':');
    int address_len = colon != NULL ? (int)(colon - listen) : 0;
    uint16_t port = net_listener_port(server->listener);
    log_event(LOG_INFO, "server.ready", LOG_STR("listen", listen), LOG_U64("port", port),
              LOG_U64("threads", server->loops_count), LOG_STR("data", server->config.data_dir));
    static const char *const addresses[][2] = {{"the page", "/"},
                                               {"the console", "/console"},
                                               {"the contract", "/openapi.json"},
                                               {"metrics", "/metrics"},
                                               {"readiness", "/readyz"}};
    bool pages = !server->parts.shared.health_only; /* only fronts have pages */
    printf("Sluice serves http://%.*s:%u/\n", address_len, listen, port);
    for (size_t i = pages ? 0 : 3; i < (pages ? 4 : 5); i++) {
        printf("  %-13s http://%.*s:%u%s\n", addresses[i][0], address_len, listen, port,
               addresses[i][1]);
    }
    if (pages) {
        printf("  admin token   %s/admin.token   (sluice token --admin --data %s)\n",
               server->config.data_dir, server->config.data_dir);
    }
    printf("Stop it with Ctrl-C or SIGTERM.\n");
    (void)fflush(stdout);
}

static void run_server(struct server *server)
{
    for (;;) {
        int signal_number = 0;
        if (sigwait(&server->signals, &signal_number) != 0) {
            continue;
        }
        if (signal_number == SIGHUP) {
            reload(server);
            continue;
        }
        log_event(LOG_INFO, "server.stopping",
                  LOG_STR("signal", signal_number == SIGTERM ? "TERM" : "INT"));
        return;
    }
}

int serve_main(int argc, char **argv)
{
    char text[1024];
    struct server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return 1;
    }
    enum config_parsed parsed = config_options_parse(argc, argv, &server->options);
    if (parsed != CONFIG_RUN) {
        free(server);
        return parsed == CONFIG_SHOWN ? 0 : parsed == CONFIG_FAILED ? 1 : 2;
    }
    server->folder_lock = -1;
    mailbox_init(&server->janitor);
    if (config_load(&server->options, &server->config, text, sizeof(text)) != 0) {
        (void)fprintf(stderr, "sluice: %s\n", text);
        parsed = config_unloaded(&server->options);
        free_server(server);
        return parsed == CONFIG_FAILED ? 1 : 2;
    }
    enum log_level level;
    if (log_level_parse(server->config.log_level, &level) == 0) {
        log_set_level(level);
    }
    CHECK(crypt_start() == 0);
    (void)sigemptyset(&server->signals);
    (void)sigaddset(&server->signals, SIGTERM);
    (void)sigaddset(&server->signals, SIGINT);
    (void)sigaddset(&server->signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &server->signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(077);
    int error = start_server(server);
    if (error == 0) {
        say_where(server);
        run_server(server);
    }
    stop_server(server);
    if (error == 0) {
        log_event(LOG_INFO, "server.stopped",
                  LOG_U64("booked_lsn", ledger_writer_booked_lsn(server->parts.ledger_writer)),
                  LOG_U64("last_lsn", journal_last_lsn(server->parts.journal)));
    }
    free_server(server);
    incident_log_close();
    return error != 0 ? 1 : 0;
}
