/* See incident_log.h. */
#define _GNU_SOURCE
#include "obs/incident_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

/* If the file cannot be rewritten, the next attempt is after this many more bytes. */
#define REWRITE_AGAIN (INCIDENT_LOG_FILE_MAX / 16)

static const char *const kept[] = {
    "server.ready",          "server.stopping", "server.away",
    "server.back",           "engine.ready",    "segment.lost",
    "segment.epoch",         "journal.failed",  "clock.off",
    "clock.agrees",          "config.reloaded", "config.changed",
    "queue.redriven",        "sale.opened",     "sale.paused",
    "sale.closed",           "sale.changed",    "block.set",
    "block.removed",         "item.restocked",  "reconcile.difference",
    "journal.torn_tail_cut", "keeper.taken_up", "keeper.laid_down",
    "segment.broken",        "recover.begins",  "recover.open",
    "recover.stopped",       "recover.oversold"};

static struct {
    pthread_mutex_t lock;
    int fd;
    long bytes;
    long rewrite_at; /* rewrite when the file exceeds this */
    bool torn;       /* the file ends in the middle of a line */
    char path[1024];
    size_t count; /* entries ever added; the next place in the ring */
    struct incident_log_entry ring[INCIDENT_LOG_MAX];
} book = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static bool is_kept(const char *event)
{
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        if (strcmp(event, kept[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Parses a line of the log. False: not a line that is kept. */
static bool read_line(const char *line, struct incident_log_entry *ret_entry)
{
    struct tm utc = {0};
    int ms = 0;
    int fields = 0;
    memset(ret_entry, 0, sizeof(*ret_entry));
    if (sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %7s %39s%n", &utc.tm_year, &utc.tm_mon,
               &utc.tm_mday, &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &ms, ret_entry->level,
               ret_entry->event, &fields) != 9 ||
        !is_kept(ret_entry->event)) {
        return false;
    }
    utc.tm_year -= 1900;
    utc.tm_mon -= 1;
    ret_entry->at_ms = (int64_t)timegm(&utc) * 1000 + ms;
    if (ret_entry->at_ms < 0 || ret_entry->at_ms > TIME_MAX_MS) {
        return false; /* anybody may edit the file; rewrite() needs a year of four digits */
    }
    const char *text = line + fields + (line[fields] == ' ');
    size_t length = strcspn(text, "\n");
    length = length < sizeof(ret_entry->text) ? length : sizeof(ret_entry->text) - 1;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
        length--; /* do not cut a character */
    }
    memcpy(ret_entry->text, text, length);
    return true;
}

static void add(const struct incident_log_entry *entry)
{
    book.ring[book.count++ % INCIDENT_LOG_MAX] = *entry;
}

static int64_t first_of_ring(void)
{
    return book.count > INCIDENT_LOG_MAX ? (int64_t)(book.count - INCIDENT_LOG_MAX) : 0;
}

/* Rewrites the file with the entries that are still in memory. */
static void rewrite(void)
{
    char next[1040];
    book.rewrite_at = book.bytes + REWRITE_AGAIN;
    (void)snprintf(next, sizeof(next), "%s.new", book.path);
    FILE *file = fopen(next, "we");
    if (file == NULL) {
        return;
    }
    for (size_t i = (size_t)first_of_ring(); i < book.count; i++) {
        const struct incident_log_entry *entry = &book.ring[i % INCIDENT_LOG_MAX];
        time_t seconds = (time_t)(entry->at_ms / 1000);
        struct tm utc;
        char at[24];
        CHECK(gmtime_r(&seconds, &utc) != NULL &&
              strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%S", &utc) > 0);
        (void)fprintf(file, "%s.%03dZ %s %s %s\n", at, (int)(entry->at_ms % 1000), entry->level,
                      entry->event, entry->text);
    }
    bool written = fclose(file) == 0 && rename(next, book.path) == 0;
    int fd = written ? open(book.path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)close(book.fd);
        book.fd = fd;
        book.bytes = lseek(fd, 0, SEEK_END);
        book.rewrite_at = INCIDENT_LOG_FILE_MAX;
        book.torn = false;
    }
}

/* Ends an incomplete line first, of this process or an earlier one, so that the next line is
 * readable. */
static void append(struct span line)
{
    if (book.torn && write(book.fd, "\n", 1) == 1) {
        book.torn = false;
        book.bytes++;
    }
    if (book.torn) {
        return;
    }
    ssize_t written = write(book.fd, line.at, line.len);
    book.bytes += written > 0 ? (long)written : 0;
    book.torn = written > 0 && (size_t)written < line.len;
    if (book.bytes > book.rewrite_at) {
        rewrite();
    }
}

static void witness(const char *event, struct span line)
{
    struct incident_log_entry entry;
    char text[LOG_LINE_MAX + 1];
    if (!is_kept(event) || line.len >= sizeof(text)) {
        return;
    }
    memcpy(text, line.at, line.len);
    text[line.len] = '\0';
    if (!read_line(text, &entry)) {
        return;
    }
    CHECK(pthread_mutex_lock(&book.lock) == 0);
    add(&entry);
    if (book.fd >= 0) {
        append(line);
    }
    CHECK(pthread_mutex_unlock(&book.lock) == 0);
}

static void load(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[LOG_LINE_MAX + 1];
    struct incident_log_entry entry;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (read_line(line, &entry)) {
            add(&entry);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

int incident_log_open(const char *path)
{
    CHECK(pthread_mutex_lock(&book.lock) == 0);
    book.count = 0;
    (void)snprintf(book.path, sizeof(book.path), "%s", path);
    load(path);
    book.fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    book.bytes = book.fd >= 0 ? (long)lseek(book.fd, 0, SEEK_END) : 0;
    book.rewrite_at = INCIDENT_LOG_FILE_MAX;
    char last = '\n';
    book.torn = book.bytes > 0 && pread(book.fd, &last, 1, book.bytes - 1) == 1 && last != '\n';
    bool writes = book.fd >= 0;
    CHECK(pthread_mutex_unlock(&book.lock) == 0);
    log_set_witness(witness);
    return writes ? 0 : ERR_IO;
}

void incident_log_close(void)
{
    log_set_witness(NULL);
    CHECK(pthread_mutex_lock(&book.lock) == 0);
    if (book.fd >= 0) {
        (void)close(book.fd);
    }
    book.fd = -1;
    CHECK(pthread_mutex_unlock(&book.lock) == 0);
}

static bool is_about(const struct incident_log_entry *entry, uint64_t sale)
{
    const char *field =
        strncmp(entry->text, "sale=", 5) == 0 ? entry->text : strstr(entry->text, " sale=");
    if (field == NULL) {
        return true;
    }
    return strtoull(strchr(field, '=') + 1, NULL, 10) == sale;
}

size_t incident_log_list(int64_t from_ms, int64_t to_ms, uint64_t sale,
                         struct incident_log_entry *ret_entries, size_t max)
{
    size_t found = 0;
    CHECK(pthread_mutex_lock(&book.lock) == 0);
    size_t first = (size_t)first_of_ring();
    for (size_t i = book.count; i > first && found < max; i--) {
        const struct incident_log_entry *entry = &book.ring[(i - 1) % INCIDENT_LOG_MAX];
        if (entry->at_ms >= from_ms && entry->at_ms <= to_ms && is_about(entry, sale)) {
            ret_entries[found++] = *entry;
        }
    }
    CHECK(pthread_mutex_unlock(&book.lock) == 0);
    for (size_t i = 0; i < found / 2; i++) {
        struct incident_log_entry swap = ret_entries[i];
        ret_entries[i] = ret_entries[found - 1 - i];
        ret_entries[found - 1 - i] = swap;
    }
    return found;
}

int64_t incident_log_since_ms(void)
{
    CHECK(pthread_mutex_lock(&book.lock) == 0);
    int64_t at_ms =
        book.count > 0 ? book.ring[(size_t)first_of_ring() % INCIDENT_LOG_MAX].at_ms : 0;
    CHECK(pthread_mutex_unlock(&book.lock) == 0);
    return at_ms;
}
