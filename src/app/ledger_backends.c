/*
 * See ledger_backends.h.
 *
 * A ledger on MariaDB belongs to the data folder whose journal it follows. The folder's id is in
 * DATA/ledger.id. A lock left behind by a dead machine is taken over only by a server with the same
 * folder.
 */
#include "app/ledger_backends.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "app/assembly.h"
#include "app/exchange.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "backend/sqlite/ledger_sqlite.h"
#include "base/crypt.h"
#include "base/err.h"
#include "base/limits.h"
#include "obs/log.h"

#define ID_BYTES 16

void ledger_backends_mark(const struct config *config, char *ret_path, size_t capacity)
{
    (void)snprintf(ret_path, capacity, "%s/%s", config->data_dir,
                   config->ledger_url[0] == '\0' ? "ledger.db" : "ledger.id");
}

/* Reads the folder's id. If there is none, creates and syncs it with its folder entry. */
static int folder_id(const char *path, char ret_id[LEDGER_BACKENDS_ID + 1])
{
    uint8_t bytes[ID_BYTES];
    char id[LEDGER_BACKENDS_ID + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t length = read(fd, id, LEDGER_BACKENDS_ID);
        (void)close(fd);
        size_t size = 0;
        if (length != LEDGER_BACKENDS_ID || base64url_decode((struct span){id, LEDGER_BACKENDS_ID},
                                                             bytes, sizeof(bytes), &size) != 0) {
            return ERR_CORRUPT;
        }
        id[LEDGER_BACKENDS_ID] = '\0';
        memcpy(ret_id, id, sizeof(id));
        return 0;
    }
    if (errno != ENOENT) {
        return ERR_IO;
    }
    char temporary[1100];
    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    crypt_random(bytes, sizeof(bytes));
    base64url_encode(bytes, sizeof(bytes), id);
    id[LEDGER_BACKENDS_ID] = '\n';
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, id, sizeof(id)) == (ssize_t)sizeof(id) && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!written || rename(temporary, path) != 0) {
        return ERR_IO;
    }
    id[LEDGER_BACKENDS_ID] = '\0';
    memcpy(ret_id, id, sizeof(id));
    return 0;
}

int ledger_backends_folder_id(const struct config *config, char ret_id[LEDGER_BACKENDS_ID + 1])
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/ledger.id", config->data_dir);
    return folder_id(path, ret_id);
}

/*
 * Runs before the first read, so that damage is reported at once. The server starts anyway: orders in
 * sound pages can be read and paid, and a read of a damaged page is an error.
 */
static void check_sqlite(struct ledger *writer)
{
    struct ledger_check check = {0};
    int error = ledger_sqlite_check_start(writer, LEDGER_START_CHECK_PAGES, &check);
    const char *unchecked = ledger_sqlite_unchecked(writer);
    if (unchecked != NULL) {
        log_event(LOG_WARN, "ledger.without_checksums", LOG_STR("why", unchecked),
                  LOG_STR("do", "free as much space as the ledger takes, then start again"));
    }
    if (error == ERR_CORRUPT) {
        log_event(LOG_ERROR, "ledger.damaged", LOG_STR("first", check.what),
                  LOG_U64("findings", check.damaged),
                  LOG_STR("do", "sluice reconcile --integrity; docs/LEDGER.md, Damage"));
    } else if (error != 0) {
        log_event(LOG_WARN, "ledger.not_checked", LOG_ERR("error", error),
                  LOG_STR("why", ledger_sqlite_error(writer)));
    } else {
        log_event(LOG_INFO, "ledger.checked", LOG_U64("pages", check.pages),
                  LOG_STR("what", check.done ? "all of it" : "its beginning; the rest follows"));
    }
}

static int open_sqlite(struct ledger_backends *ledger_backends, const struct config *config)
{
    char path[1024];
    ledger_backends_mark(config, path, sizeof(path));
    int error = ledger_sqlite_open(path, READ_WRITE, &ledger_backends->writer);
    if (error == 0) {
        ledger_backends->writer->health = &ledger_backends->health;
        check_sqlite(ledger_backends->writer);
    }
    if (error == 0) {
        error = ledger_sqlite_open(path, READ_ONLY, &ledger_backends->reader);
    }
    if (error == 0) {
        error = ledger_sqlite_open(path, READ_ONLY, &ledger_backends->operator_reader);
    }
    if (error == 0) {
        error = ledger_sqlite_open(path, READ_ONLY, &ledger_backends->comparer);
    }
    if (error == 0 && exchange_wanted(config)) {
        error = ledger_sqlite_open(path, READ_ONLY, &ledger_backends->event_reader);
    }
    return error == 0 ? 0
                      : assembly_fail("cannot open the ledger", error, ledger_sqlite_error(NULL));
}

static int open_mariadb(struct ledger_backends *ledger_backends, const struct config *config,
                        uint32_t segments)
{
    char id[LEDGER_BACKENDS_ID + 1];
    ledger_backends->on_mariadb = true;
    int error = ledger_backends_folder_id(config, id);
    if (error != 0) {
        return assembly_fail("cannot read or make the data folder's name", error, config->data_dir);
    }
    struct ledger_mariadb_options options = {.url = config->ledger_url,
                                             .password_file = config->ledger_password_file,
                                             .owner = id,
                                             .segments = segments,
                                             .regions = config->redis_regions,
                                             .timeout_s = (uint32_t)config->ledger_timeout_s};
    error = ledger_mariadb_open(&options, MARIADB_WRITER, &ledger_backends->writer);
    if (error == 0) {
        error = ledger_mariadb_open(&options, MARIADB_READER, &ledger_backends->reader);
    }
    if (error == 0) {
        error = ledger_mariadb_open(&options, MARIADB_READER, &ledger_backends->operator_reader);
    }
    if (error == 0) { /* connected again when the first operator asks */
        ledger_mariadb_rest(ledger_backends->operator_reader);
    }
    if (error == 0 && segments == 0) {
        error = ledger_mariadb_open(&options, MARIADB_READER, &ledger_backends->comparer);
    }
    if (error == 0 && segments == 0 && exchange_wanted(config)) {
        error = ledger_mariadb_open(&options, MARIADB_READER, &ledger_backends->event_reader);
    }
    if (error != 0) {
        return assembly_fail("cannot open the ledger", error, ledger_mariadb_error(NULL));
    }
    const char *warning = ledger_mariadb_warning(ledger_backends->writer);
    if (warning[0] != '\0') {
        log_event(LOG_WARN, "ledger.not_durable", LOG_STR("what", warning));
    }
    return 0;
}

int ledger_backends_open(struct ledger_backends *ledger_backends, const struct config *config,
                         uint32_t segments)
{
    if (segments > 0 && config->ledger_url[0] == '\0') {
        return assembly_fail("redis.url needs ledger.url, a MariaDB that all processes share",
                             ERR_INVALID, "");
    }
    int error = config->ledger_url[0] == '\0' ? open_sqlite(ledger_backends, config)
                                              : open_mariadb(ledger_backends, config, segments);
    struct ledger *const all[] = {ledger_backends->writer, ledger_backends->reader,
                                  ledger_backends->operator_reader, ledger_backends->comparer,
                                  ledger_backends->event_reader};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i] != NULL) {
            all[i]->health = &ledger_backends->health;
        }
    }
    return error;
}

void ledger_backends_close(struct ledger_backends *ledger_backends)
{
    void (*close_one)(struct ledger *) =
        ledger_backends->on_mariadb ? ledger_mariadb_close : ledger_sqlite_close;
    close_one(ledger_backends->event_reader);
    close_one(ledger_backends->comparer);
    close_one(ledger_backends->operator_reader);
    close_one(ledger_backends->reader);
    close_one(ledger_backends->writer);
}

const char *ledger_backends_error(const struct ledger_backends *ledger_backends)
{
    return ledger_backends->on_mariadb ? ledger_mariadb_error(ledger_backends->writer)
                                       : ledger_sqlite_error(ledger_backends->writer);
}
