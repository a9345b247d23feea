/*
 * `sluice journal`: prints every batch and record of a journal, or checks all of it, without
 * changing anything. It may run beside a server; it then sees the journal up to some moment of its
 * run.
 *
 * What can go wrong: damage is reported with file and offset, exit status 1. A torn tail or a
 * damaged snapshot that can be skipped is reported but is not an error: the next start repairs it.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/commands.h"
#include "backend/posix/disk_posix.h"
#include "base/err.h"
#include "cli/options.h"
#include "core/record.h"
#include "embedded/gate_content.h"
#include "journal/journal.h"

static const char help[] =
    "Usage: sluice journal dump|verify [--data DIR] [--json]\n\n"
    "dump prints every batch and record of the journal in DIR/journal; verify checks all of it:\n"
    "checksums, numbers without gaps, snapshots. Neither changes anything.\n\n"
    "  --data DIR   the server's data folder (./var)\n"
    "  --json       one JSON object a line\n"
    "  --help       this text\n\n"
    "Exit status: 0 whole (a torn tail, which the next start cuts, included), 1 damaged or not\n"
    "readable, 2 usage.";

struct journal_options_given {
    bool dump;
    bool json;
    bool help;
    const char *data;
};

struct journal_show {
    struct journal_content content; /* must be first */
    bool dump;
    bool json;
    bool progress; /* stderr is a terminal */
    bool progress_shown;
    time_t progress_s;
    uint64_t batches;
    uint64_t records;
};

/* ---- what the scan finds ---- */

static void show_progress(struct journal_show *show, uint64_t lsn)
{
    time_t now_s = time(NULL);
    if (show->progress && now_s > show->progress_s) {
        show->progress_s = now_s;
        show->progress_shown = true;
        (void)fprintf(stderr, "\r%" PRIu64 " batches, lsn %" PRIu64, show->batches, lsn);
    }
}

static void on_batch(void *context, const char *file, uint64_t offset, uint64_t number,
                     uint64_t first_lsn, uint32_t records, uint32_t bytes)
{
    struct journal_show *show = context;
    show->batches++;
    if (!show->dump) {
        show_progress(show, first_lsn);
    } else if (show->json) {
        (void)printf("{\"type\":\"batch\",\"file\":\"%s\",\"offset\":%" PRIu64
                     ",\"number\":%" PRIu64 ",\"first_lsn\":%" PRIu64 ",\"records\":%" PRIu32
                     ",\"bytes\":%" PRIu32 "}\n",
                     file, offset, number, first_lsn, records, bytes);
    } else {
        (void)printf("batch %" PRIu64 " %s:%" PRIu64 " lsn %" PRIu64 " records %" PRIu32
                     " bytes %" PRIu32 "\n",
                     number, file, offset, first_lsn, records, bytes);
    }
}

static void print_field(const struct journal_show *show, const char *name, uint64_t value)
{
    (void)printf(show->json ? ",\"%s\":%" PRIu64 : " %s=%" PRIu64, name, value);
}

static void print_id(const struct journal_show *show, struct order_id id)
{
    char text[ORDER_ID_TEXT];
    order_id_text(id, text);
    (void)printf(show->json ? ",\"id\":\"%.*s\"" : " id=%.*s", ORDER_ID_TEXT, text);
}

static void print_fields(const struct journal_show *show, const struct gate_command *command)
{
#define ID print_id(show, command->id);
#define W64(field) print_field(show, #field, command->field);
#define W32(field) print_field(show, #field, command->field);
    GATE_FIELDS(command->kind)
#undef ID
#undef W64
#undef W32
}

static void print_record(const struct journal_show *show, uint64_t lsn,
                         const struct gate_command *command)
{
    const char *kind = gate_kind_text(command->kind);
    if (show->json) {
        (void)printf("{\"type\":\"record\",\"lsn\":%" PRIu64 ",\"kind\":\"%s\",\"now_ms\":%" PRId64
                     ",\"event\":%" PRIu64,
                     lsn, kind, command->now_ms, command->event);
        print_fields(show, command);
        (void)puts("}");
    } else {
        (void)printf("  %" PRIu64 " %s now_ms=%" PRId64 " event=%" PRIu64, lsn, kind,
                     command->now_ms, command->event);
        print_fields(show, command);
        (void)puts("");
    }
}

static int on_record(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                     size_t length)
{
    struct journal_show *show = (struct journal_show *)content;
    struct gate_command command;
    if (record_decode(record, length, &command) != 0) {
        return ERR_INVALID;
    }
    show->records++;
    if (show->dump) {
        print_record(show, lsn, &command);
    }
    return 0;
}

static void on_note(void *context, const char *file, uint64_t offset, const char *what)
{
    const struct journal_show *show = context;
    if (show->json && show->dump) {
        (void)printf("{\"type\":\"note\",\"file\":\"%s\",\"offset\":%" PRIu64 ",\"what\":\"%s\"}\n",
                     file, offset, what);
    } else if (!show->json) {
        (void)printf("%s:%" PRIu64 " %s\n", file, offset, what);
    }
}

/* A torn tail is not damage: the next start cuts it. But no crash makes a file shorter than it
 * was. */
static bool is_whole(const struct journal_found *found, int error)
{
    return error == 0 && (found->torn_bytes > 0 || found->where[0] == '\0');
}

static void print_summary(const struct journal_show *show, const struct journal_found *found,
                          int error)
{
    if (show->json) {
        (void)printf("{\"type\":\"summary\",\"ok\":%s,\"segments\":%" PRIu64 ",\"batches\":%" PRIu64
                     ",\"records\":%" PRIu64 ",\"last_lsn\":%" PRIu64 ",\"snapshot_lsn\":%" PRIu64
                     ",\"bad_snapshots\":%" PRIu64 ",\"torn_bytes\":%" PRIu64
                     ",\"highest_ms\":%" PRId64 ",\"where\":\"%s\",\"why\":\"%s\"}\n",
                     error == 0 ? "true" : "false", found->files, show->batches, show->records,
                     found->last_lsn, found->snapshot_lsn, found->bad_snapshots, found->torn_bytes,
                     found->highest_ms, found->where, found->why);
    } else {
        (void)printf("%s: %" PRIu64 " files, %" PRIu64 " batches, %" PRIu64
                     " records, last lsn %" PRIu64 ", snapshot lsn %" PRIu64 ", torn %" PRIu64
                     " bytes\n",
                     is_whole(found, error) ? "whole" : "damaged", found->files, show->batches,
                     show->records, found->last_lsn, found->snapshot_lsn, found->torn_bytes);
    }
}

/* ---- the command ---- */

static bool options_read(int argc, char **argv, struct journal_options_given *options)
{
    const struct cli_option known[] = {CLI_TEXT("--data", &options->data),
                                       CLI_FLAG("--json", &options->json),
                                       CLI_FLAG("--help", &options->help)};
    struct cli_words words;
    if (!cli_options_read(argc, argv, known, sizeof(known) / sizeof(known[0]), &words)) {
        return false;
    }
    const char *what = words.count == 1 ? words.words[0] : "";
    options->dump = strcmp(what, "dump") == 0;
    if (!options->help && !options->dump && strcmp(what, "verify") != 0) {
        (void)fputs("sluice journal: say dump or verify; see sluice journal --help\n", stderr);
        return false;
    }
    return true;
}

static void look_for_beginning(void *has_beginning, const char *name, uint64_t size)
{
    (void)size;
    if (strstr(name, ".snapshot") != NULL || strcmp(name, "0000000000000001.journal") == 0) {
        *(bool *)has_beginning = true;
    }
}

/* The files do not tell. A history has its first file or a snapshot; without either it is a front's
 * list that was trimmed. */
static enum journal_kind kind_of(struct disk *disk)
{
    bool has_beginning = false;
    bool listed = disk_list(disk, look_for_beginning, &has_beginning) == 0;
    return has_beginning || !listed ? JOURNAL_HISTORY : JOURNAL_LIST;
}

static int show_journal(struct disk *disk, const struct journal_options_given *options)
{
    static const struct journal_content_ops content_ops = {.apply = on_record,
                                                           .check = gate_content_check};
    static const struct journal_scan_ops ops = {on_batch, on_note};
    struct journal_show show = {.content = {&content_ops},
                                .dump = options->dump,
                                .json = options->json,
                                .progress = isatty(STDERR_FILENO) == 1,
                                .progress_s = time(NULL)};
    struct journal_found found;
    int error = journal_scan(disk, kind_of(disk), &show.content, &ops, &show, &found);
    if (show.progress_shown) {
        (void)fputs("\n", stderr);
    }
    if (!options->dump) {
        print_summary(&show, &found, error);
    }
    if (fflush(stdout) != 0) {
        (void)fputs("sluice journal: the output could not be written\n", stderr);
        return 1;
    }
    if (error != 0) {
        (void)fprintf(stderr, "sluice journal: %s%s%s%s%s\n", err_text(error),
                      found.where[0] != '\0' ? " at " : "", found.where,
                      found.why[0] != '\0' ? ": " : "", found.why);
        return 1;
    }
    if (!is_whole(&found, error)) {
        (void)fprintf(stderr, "sluice journal: %s: %s\n", found.where, found.why);
        return 1;
    }
    return 0;
}

int journal_main(int argc, char **argv)
{
    struct journal_options_given options = {.data = "./var"};
    if (!options_read(argc, argv, &options)) {
        return 2;
    }
    if (options.help) {
        (void)puts(help);
        return 0;
    }
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof(folder), "%s/journal", options.data) >= (int)sizeof(folder)) {
        (void)fputs("sluice journal: --data: too long\n", stderr);
        return 2;
    }
    struct disk_posix posix;
    int error = disk_posix_open(folder, &posix);
    if (error != 0) {
        (void)fprintf(stderr, "sluice journal: %s: %s\n", folder, err_text(error));
        return 1;
    }
    int status = show_journal(&posix.disk, &options);
    disk_posix_close(&posix);
    return status;
}
