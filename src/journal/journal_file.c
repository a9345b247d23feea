/*
 * Encoding, decoding and reading of journal files. A header's CRC covers its 48 bytes with the CRC
 * field as zero; a batch's CRC also covers the payload. Padding is written as zeros and never
 * checked. All integers are little-endian.
 */
#include "journal/journal_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/err.h"

static const char file_magic[8] = "SLUICEJ\n";
static const char batch_magic[4] = "SLJB";

/* Offsets in both headers. */
enum {
    FILE_VERSION = 8,
    FILE_SECTOR = 12,
    FILE_FIRST_BATCH = 16,
    FILE_FIRST_LSN = 24,
    FILE_BYTES = 32,
    BATCH_VERSION = 4,
    BATCH_NUMBER = 8,
    BATCH_FIRST_LSN = 16,
    BATCH_TIME = 24,
    BATCH_RECORDS = 32,
    BATCH_LENGTH = 36,
    HEAD_CRC = 44,
};

void journal_name(uint64_t number, const char *suffix, char ret_name[JOURNAL_NAME_BYTES])
{
    (void)snprintf(ret_name, JOURNAL_NAME_BYTES, "%016llx%s", (unsigned long long)number, suffix);
}

bool journal_name_parse(const char *name, const char *suffix, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) {
        const char *digits = "0123456789abcdef";
        const char *digit = name[i] != '\0' ? strchr(digits, name[i]) : NULL;
        if (digit == NULL) {
            return false;
        }
        number = number << 4 | (uint64_t)(digit - digits);
    }
    if (strcmp(name + 16, suffix) != 0) {
        return false;
    }
    *ret_number = number;
    return true;
}

/* CRC of a header, with its CRC field as zero, and of the n bytes after it. */
static uint32_t head_crc(const uint8_t *bytes, size_t n)
{
    static const uint8_t zero[4];
    uint32_t crc = crc32c(0, bytes, HEAD_CRC);
    crc = crc32c(crc, zero, sizeof(zero));
    return crc32c(crc, bytes + JOURNAL_HEAD_BYTES, n);
}

void journal_file_encode(const struct journal_file_head *head, uint8_t *ret_sector)
{
    memset(ret_sector, 0, JOURNAL_SECTOR);
    memcpy(ret_sector, file_magic, sizeof(file_magic));
    store_le32(ret_sector + FILE_VERSION, JOURNAL_VERSION);
    store_le32(ret_sector + FILE_SECTOR, JOURNAL_SECTOR);
    store_le64(ret_sector + FILE_FIRST_BATCH, head->first_batch);
    store_le64(ret_sector + FILE_FIRST_LSN, head->first_lsn);
    store_le64(ret_sector + FILE_BYTES, head->bytes);
    store_le32(ret_sector + HEAD_CRC, head_crc(ret_sector, 0));
}

int journal_file_decode(const uint8_t *bytes, struct journal_file_head *ret_head)
{
    if (memcmp(bytes, file_magic, sizeof(file_magic)) != 0 ||
        load_le32(bytes + HEAD_CRC) != head_crc(bytes, 0)) {
        return ERR_CORRUPT;
    }
    uint64_t size = load_le64(bytes + FILE_BYTES);
    if (load_le32(bytes + FILE_VERSION) != JOURNAL_VERSION ||
        load_le32(bytes + FILE_SECTOR) != JOURNAL_SECTOR || size % JOURNAL_SECTOR != 0 ||
        size < 2ULL * JOURNAL_SECTOR || size > JOURNAL_FILE_MAX_BYTES) {
        return ERR_VERSION;
    }
    ret_head->first_batch = load_le64(bytes + FILE_FIRST_BATCH);
    ret_head->first_lsn = load_le64(bytes + FILE_FIRST_LSN);
    ret_head->bytes = size;
    return 0;
}

void journal_batch_seal(const struct journal_batch_head *head, uint8_t *bytes)
{
    memset(bytes, 0, JOURNAL_HEAD_BYTES);
    memcpy(bytes, batch_magic, sizeof(batch_magic));
    store_le32(bytes + BATCH_VERSION, JOURNAL_VERSION);
    store_le64(bytes + BATCH_NUMBER, head->number);
    store_le64(bytes + BATCH_FIRST_LSN, head->first_lsn);
    store_le64(bytes + BATCH_TIME, (uint64_t)head->time_ms);
    store_le32(bytes + BATCH_RECORDS, head->records);
    store_le32(bytes + BATCH_LENGTH, head->length);
    store_le32(bytes + HEAD_CRC, head_crc(bytes, head->length));
    size_t used = JOURNAL_HEAD_BYTES + (size_t)head->length;
    memset(bytes + used, 0, (size_t)journal_batch_bytes(head->length) - used);
}

int journal_records_next(struct journal_records *records, const uint8_t **ret_record,
                         size_t *ret_length)
{
    if (records->records == 0) {
        return records->left == 0 ? ERR_AGAIN : ERR_CORRUPT;
    }
    if (records->left < 2) {
        return ERR_CORRUPT;
    }
    uint32_t len = load_le16(records->at);
    if (len > records->left - 2) {
        return ERR_CORRUPT;
    }
    *ret_record = records->at + 2;
    *ret_length = len;
    records->at += 2 + len;
    records->left -= 2 + len;
    records->records--;
    return 0;
}

int journal_zero(struct disk *disk, struct disk_file *file, uint64_t from, uint64_t to)
{
    static uint8_t zeros[JOURNAL_CHUNK_BYTES];
    while (from < to) {
        size_t n = to - from < sizeof(zeros) ? (size_t)(to - from) : sizeof(zeros);
        int error = disk_write(disk, file, from, zeros, n, false);
        if (error != 0) {
            return error;
        }
        from += n;
    }
    return 0;
}

void journal_window_show(struct journal_window *window, struct disk_file *file, uint64_t limit)
{
    window->file = file;
    window->limit = limit;
    window->len = 0;
}

void journal_window_done(struct journal_window *window)
{
    free(window->bytes);
    *window = (struct journal_window){.disk = window->disk};
}

int journal_window_load(struct journal_window *window, uint64_t at, size_t n,
                        const uint8_t **ret_bytes)
{
    CHECK(n <= window->limit && at <= window->limit - n);
    if (at >= window->at && at - window->at <= window->len &&
        n <= window->len - (size_t)(at - window->at)) {
        *ret_bytes = window->bytes + (at - window->at);
        return 0;
    }
    uint64_t left = window->limit - at;
    size_t want = left < JOURNAL_CHUNK_BYTES ? (size_t)left : JOURNAL_CHUNK_BYTES;
    want = want < n ? n : want;
    if (want > window->capacity) {
        uint8_t *bytes = realloc(window->bytes, want);
        if (bytes == NULL) {
            return ERR_NOMEM;
        }
        window->bytes = bytes;
        window->capacity = want;
    }
    size_t got;
    window->len = 0;
    int error = disk_read(window->disk, window->file, at, window->bytes, want, &got);
    if (error != 0) {
        return error;
    }
    memset(window->bytes + got, 0, want - got);
    window->at = at;
    window->len = want;
    *ret_bytes = window->bytes;
    return 0;
}

int journal_window_batch(struct journal_window *window, uint64_t at,
                         struct journal_batch_head *ret_head, const uint8_t **ret_payload)
{
    if (at >= window->limit || window->limit - at < JOURNAL_HEAD_BYTES) {
        return ERR_CORRUPT;
    }
    const uint8_t *bytes;
    int error = journal_window_load(window, at, JOURNAL_HEAD_BYTES, &bytes);
    if (error != 0) {
        return error;
    }
    uint32_t length = load_le32(bytes + BATCH_LENGTH);
    if (memcmp(bytes, batch_magic, sizeof(batch_magic)) != 0 ||
        journal_batch_bytes(length) > window->limit - at) {
        return ERR_CORRUPT;
    }
    error = journal_window_load(window, at, JOURNAL_HEAD_BYTES + (size_t)length, &bytes);
    if (error != 0) {
        return error;
    }
    if (load_le32(bytes + HEAD_CRC) != head_crc(bytes, length)) {
        return ERR_CORRUPT;
    }
    if (load_le32(bytes + BATCH_VERSION) != JOURNAL_VERSION) {
        return ERR_VERSION;
    }
    ret_head->number = load_le64(bytes + BATCH_NUMBER);
    ret_head->first_lsn = load_le64(bytes + BATCH_FIRST_LSN);
    ret_head->time_ms = (int64_t)load_le64(bytes + BATCH_TIME);
    ret_head->records = load_le32(bytes + BATCH_RECORDS);
    ret_head->length = length;
    *ret_payload = bytes + JOURNAL_HEAD_BYTES;
    return 0;
}
