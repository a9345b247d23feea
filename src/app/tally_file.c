/* See tally_file.h. */
#define _GNU_SOURCE /* strerrordesc_np */
#include "app/tally_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "core/types.h"
#include "obs/log.h"

/* The last digit changes with the meaning of a row. */
#define MAGIC "sltally2"

static uint32_t refusals_crc(void)
{
#define X(name, status, code, retry, title) #name "\n"
    static const char names[] = REFUSALS(X);
#undef X
    return crc32c(0, names, sizeof(names) - 1);
}

static struct tally_file_head head_of(const struct tally_sum *rows, uint32_t count)
{
    struct tally_file_head head = {.row_bytes = sizeof(*rows),
                                   .refusals = refusals_crc(),
                                   .count = count,
                                   .crc = crc32c(0, rows, count * sizeof(*rows))};
    memcpy(head.magic, MAGIC, sizeof(head.magic));
    return head;
}

/* ---- writing ---- */

static void complain(const struct tally_file *file)
{
    static struct log_limit limit;
    log_event_limited(&limit, 600000, LOG_WARN, "tallies.not_saved", LOG_STR("file", file->path),
                      LOG_STR("error", strerrordesc_np(errno)),
                      LOG_STR("what", "after a restart reports of sales count from there"));
}

static bool write_rows(const char *path, const struct tally_file_head *head,
                       const struct tally_sum *rows)
{
    char next[1040];
    (void)snprintf(next, sizeof(next), "%s.new", path);
    FILE *stream = fopen(next, "we");
    if (stream == NULL) {
        return false;
    }
    bool written = fwrite(head, sizeof(*head), 1, stream) == 1 &&
                   fwrite(rows, sizeof(*rows), head->count, stream) == head->count;
    return fclose(stream) == 0 && written && rename(next, path) == 0;
}

void tally_file_save(struct tally_file *file, struct tally_book *book)
{
    uint64_t sales[TALLY_SALES];
    if (file->left_alone) {
        return;
    }
    size_t sales_count = tally_sales(book, sales, TALLY_SALES);
    uint32_t count = 0;
    struct tally_sum *rows = calloc(sales_count + 1, sizeof(*rows));
    if (rows == NULL) {
        complain(file);
        return;
    }
    for (size_t i = 0; i < sales_count; i++) {
        tally_read(book, sales[i], &rows[count]);
        count += rows[count].since_ms != 0; /* it may have been dropped meanwhile */
    }
    struct tally_file_head head = head_of(rows, count);
    if (memcmp(&head, &file->saved, sizeof(head)) != 0) {
        if (write_rows(file->path, &head, rows)) {
            file->saved = head;
        } else {
            complain(file);
        }
    }
    free(rows);
}

/* ---- reading ---- */

/* The error text; NULL: none. The caller frees *ret_rows; NULL without a text: no memory. */
static const char *read_rows(FILE *stream, struct tally_file_head *ret_head,
                             struct tally_sum **ret_rows)
{
    struct tally_file_head none = head_of(NULL, 0);
    if (fread(ret_head, sizeof(*ret_head), 1, stream) != 1) {
        return "damaged";
    }
    if (memcmp(ret_head->magic, none.magic, sizeof(none.magic)) != 0 ||
        ret_head->row_bytes != none.row_bytes || ret_head->refusals != none.refusals) {
        return "written by another version";
    }
    if (ret_head->count > TALLY_SALES) {
        return "damaged";
    }
    *ret_rows = calloc(ret_head->count + 1U, sizeof(**ret_rows));
    if (*ret_rows == NULL) {
        return NULL;
    }
    bool whole = fread(*ret_rows, sizeof(**ret_rows), ret_head->count, stream) == ret_head->count;
    return whole && head_of(*ret_rows, ret_head->count).crc == ret_head->crc ? NULL : "damaged";
}

static void put_aside(struct tally_file *file, const char *why)
{
    char aside[1040];
    (void)snprintf(aside, sizeof(aside), "%s.unreadable", file->path);
    file->left_alone = rename(file->path, aside) != 0;
    log_event(LOG_WARN, "tallies.begun_anew", LOG_STR("why", why),
              LOG_STR("file", file->left_alone ? file->path : aside),
              LOG_STR("what", file->left_alone
                                  ? "it cannot be renamed, so that nothing is kept; reports of "
                                    "earlier sales lack what was refused"
                                  : "kept under this name; reports of earlier sales lack what was "
                                    "refused"));
}

int tally_file_open(struct tally_file *file, const char *path, struct tally_book *book)
{
    struct tally_file_head head;
    struct tally_sum *rows = NULL;
    memset(file, 0, sizeof(*file));
    (void)snprintf(file->path, sizeof(file->path), "%s", path);
    FILE *stream = fopen(path, "re");
    if (stream == NULL && errno == ENOENT) {
        return 0;
    }
    const char *wrong = stream != NULL ? read_rows(stream, &head, &rows) : strerrordesc_np(errno);
    if (stream != NULL) {
        (void)fclose(stream);
    }
    if (wrong == NULL && rows == NULL) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; wrong == NULL && i < head.count; i++) {
        (void)tally_restore(book, &rows[i]);
    }
    if (wrong == NULL) {
        file->saved = head;
    } else {
        put_aside(file, wrong);
    }
    free(rows);
    return 0;
}
