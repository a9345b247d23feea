/*
 * The journal after anything has happened to its files. Two journals are made once: one of files
 * alone, and one that took snapshots and was trimmed. The input is a list of changes to their
 * files: bytes overwritten, bits flipped, sectors zeroed or copied about, files cut, lengthened,
 * removed, copied under other names; and checksums made right again behind such a change.
 *
 * Then it is opened. Either it is refused, for damage, with a place in a file that is there, and
 * nothing has been written; or the gate is exactly what the first records make, up to the end of
 * some batch: never a record that was not written, and never without one that lies before a batch
 * which is still whole in its place. `journal verify` said the same before, and
 * changed nothing. What was recovered is there after a power cut, a second start recovers the same
 * with nothing left to heal, and one more record can be written and is found.
 *
 * With a checksum forged (a whole batch, header or chunk that is none of those written) anything
 * may be claimed to have been written; then the gate must at least add up.
 */
#include "core/record.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_world.h"

#define BATCHES_MAX 32
#define PIECES_MAX 128
#define CHANGES_MAX 12
#define CHUNK_HEAD 32U
#define FILE_MAX (16U * JOURNAL_SECTOR)

/* Something with a checksum of its own: a file's header, a batch, a chunk of a snapshot. */
struct piece {
    const uint8_t *at;
    size_t len;
};

static struct image {
    struct world world;
    uint64_t ends[BATCHES_MAX]; /* last LSN of each batch; [0] is 0 */
    struct gate_box expected[BATCHES_MAX];
    size_t batches;
    struct piece pieces[PIECES_MAX];
    size_t pieces_count;
    struct place { /* of each batch that is in the files */
        char file[JOURNAL_NAME_BYTES];
        size_t offset;
        size_t len;
        uint64_t last_lsn;
    } places[BATCHES_MAX];
    size_t places_count;
} images[2];

/* ---- pieces and their checksums ---- */

static bool ends_with(const char *name, const char *suffix)
{
    size_t len = strlen(name);
    return len >= strlen(suffix) && strcmp(name + len - strlen(suffix), suffix) == 0;
}

/* The piece that would begin here, by its length field; false: there is none. */
static bool piece_at(const char *name, const uint8_t *bytes, size_t size, size_t at,
                     struct piece *ret_piece, size_t *ret_crc_at)
{
    bool snapshot = ends_with(name, JOURNAL_SNAPSHOT_SUFFIX);
    size_t head = snapshot ? CHUNK_HEAD : JOURNAL_HEAD_BYTES;
    if (at > size || size - at < head) {
        return false;
    }
    size_t length = snapshot  ? load_le32(bytes + at + 12)
                    : at == 0 ? 0
                              : load_le32(bytes + at + 36);
    if (length > size - at - head) {
        return false;
    }
    *ret_piece = (struct piece){bytes + at, head + length};
    *ret_crc_at = head - 4;
    return true;
}

/* The checksum covers the piece with the field itself as zero. */
static uint32_t piece_crc(struct piece piece, size_t crc_at)
{
    static const uint8_t zero[4];
    uint32_t crc = crc32c(0, piece.at, crc_at);
    crc = crc32c(crc, zero, sizeof(zero));
    return crc32c(crc, piece.at + crc_at + 4, piece.len - crc_at - 4);
}

/* Calls each() for whatever is whole by its checksum: at sectors, or in a snapshot's row. */
static bool whole_pieces(struct ram_disk *ram, bool (*each)(struct image *, struct piece),
                         struct image *image)
{
    for (size_t i = 0; i < ram->model.now.count; i++) {
        const char *name = ram->model.now.entries[i].name;
        bool snapshot = ends_with(name, JOURNAL_SNAPSHOT_SUFFIX);
        size_t size = 0;
        const uint8_t *bytes = ram_disk_bytes(ram, name, &size);
        struct piece piece;
        size_t crc_at = 0;
        for (size_t at = 0; at < size; at += snapshot ? piece.len : JOURNAL_SECTOR) {
            bool there = piece_at(name, bytes, size, at, &piece, &crc_at) &&
                         load_le32(piece.at + crc_at) == piece_crc(piece, crc_at);
            if (there && !each(image, piece)) {
                return false;
            }
            if (!there && snapshot) {
                break;
            }
        }
    }
    return true;
}

static bool note_piece(struct image *image, struct piece piece)
{
    CHECK(image->pieces_count < PIECES_MAX);
    image->pieces[image->pieces_count++] = piece;
    return true;
}

static bool is_original(struct image *image, struct piece piece)
{
    for (size_t i = 0; i < image->pieces_count; i++) {
        const struct piece *original = &image->pieces[i];
        if (original->len == piece.len && memcmp(original->at, piece.at, piece.len) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the two journals ---- */

/* With an image, its places are being noted. */
static void on_batch(void *context, const char *file, uint64_t offset, uint64_t number,
                     uint64_t first_lsn, uint32_t records, uint32_t bytes)
{
    struct image *image = context;
    if (image == NULL || image->pieces_count > 0) {
        return;
    }
    CHECK(image->places_count < BATCHES_MAX && number <= image->batches);
    struct place *place = &image->places[image->places_count++];
    (void)snprintf(place->file, sizeof(place->file), "%s", file);
    place->offset = (size_t)offset;
    place->len = JOURNAL_HEAD_BYTES + bytes;
    place->last_lsn = first_lsn + records - 1;
}

/* What is scanned was written: that is all there is to say of a record here. */
static void on_record(void *context, uint64_t lsn, const struct gate_command *command)
{
    const struct image *image = context;
    if (image == NULL) {
        return;
    }
    uint8_t scanned[RECORD_MAX_BYTES];
    uint8_t written[RECORD_MAX_BYTES];
    CHECK(lsn >= 1 && lsn <= image->world.count);
    size_t len = record_encode(command, scanned);
    CHECK(record_encode(&image->world.commands[lsn - 1], written) == len);
    CHECK(memcmp(scanned, written, len) == 0);
}

static void on_note(void *context, const char *file, uint64_t offset, const char *what)
{
    (void)context;
    (void)offset;
    CHECK(file[0] != '\0' && what[0] != '\0');
}

static const struct journal_scan_ops scan_ops = {on_batch, on_note};

static void end_batch(struct image *image)
{
    CHECK(image->batches + 1 < BATCHES_MAX);
    image->ends[++image->batches] = image->world.count;
}

static void take_snapshot(struct world *world)
{
    struct gate_box second;
    uint64_t lsn = 0;
    uint32_t removed = 0;
    gate_box_init_sizes(&second, world->sizes);
    CHECK(gate_content_snapshot(world->journal, &second.gate, &lsn) == 0 && lsn > 0);
    CHECK(journal_trim(world->journal, world->count, &removed) == 0);
    gate_box_done(&second);
}

static void image_make(struct image *image, bool snapshots)
{
    static const int sizes[] = {1, 2, 1, 3, 1, 66, 2, 1, 1, 2, 1, 2, 1};
    struct world *world = &image->world;
    world_init(world, 11);
    world->sizes = (struct gate_sizes){.orders = 90, .buyers = 90, .items = 3, .sales = 2};
    CHECK(world_open(world) == 0);
    world_start_sale(world);
    CHECK(world_flush(world) == 0);
    end_batch(image);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world_batch(world, sizes[i]);
        end_batch(image);
        if (snapshots && journal_snapshot_due(world->journal)) {
            take_snapshot(world);
        }
    }
    world_close(world);
    for (size_t i = 0; i <= image->batches; i++) {
        gate_box_init_sizes(&image->expected[i], world->sizes);
        for (uint64_t lsn = 1; lsn <= image->ends[i]; lsn++) {
            CHECK(gate_content_replay(&image->expected[i].gate, lsn, &world->commands[lsn - 1]) ==
                  0);
        }
    }
    struct journal_found found;
    CHECK(world_scan(&world->ram.disk, &scan_ops, on_record, image, &found) == 0);
    CHECK(whole_pieces(&world->ram, note_piece, image));
    CHECK(image->pieces_count > image->batches / 2);
}

static void start(void)
{
    if (images[0].batches == 0) {
        image_make(&images[0], false);
        image_make(&images[1], true);
        CHECK(images[1].world.ram.model.now.count >= 4); /* two snapshots, two files */
    }
}

/* ---- the changes ---- */

static const char *draw_file(struct fuzz_input *in, const struct ram_disk *ram)
{
    return ram->model.now.entries[fuzz_byte(in) % ram->model.now.count].name;
}

/* A place in a file: a sector and a byte in it, so that headers are near. */
static size_t draw_place(struct fuzz_input *in, size_t size)
{
    size_t sector = fuzz_below(in, FILE_MAX / JOURNAL_SECTOR);
    size_t at = sector * JOURNAL_SECTOR + fuzz_number(in, 2) % JOURNAL_SECTOR;
    return size > 0 ? at % size : 0;
}

static void change_bytes(struct fuzz_input *in, struct ram_disk *ram, uint8_t what)
{
    size_t size = 0;
    size_t crc_at = 0;
    struct piece piece;
    const char *name = draw_file(in, ram);
    uint8_t *bytes = ram_disk_bytes(ram, name, &size);
    size_t at = draw_place(in, size);
    struct span given = {NULL, 0};
    size_t length = 0;
    switch (size > 0 ? what : 99) {
    case 0:
        given = fuzz_span(in, fuzz_below(in, 64));
        length = given.len < size - at ? given.len : size - at;
        memcpy(bytes + at, given.at, length);
        break;
    case 1:
        bytes[at] ^= (uint8_t)(1U << fuzz_below(in, 8));
        break;
    case 2:
        length = (size_t)fuzz_byte(in) * 64;
        memset(bytes + at, 0, length < size - at ? length : size - at);
        break;
    case 3: /* the checksum of what begins at this sector, or in a snapshot just here */
        at = ends_with(name, JOURNAL_SNAPSHOT_SUFFIX) ? at : at - at % JOURNAL_SECTOR;
        if (piece_at(name, bytes, size, at, &piece, &crc_at)) {
            store_le32(bytes + at + crc_at, piece_crc(piece, crc_at));
        }
        break;
    default:
        break;
    }
    ram_disk_resize(ram, name, size); /* what was changed is on the disk, not on its way there */
}

static void copy_sector(struct fuzz_input *in, struct ram_disk *ram)
{
    uint8_t sector[JOURNAL_SECTOR];
    size_t size = 0;
    const char *name = draw_file(in, ram);
    const uint8_t *from = ram_disk_bytes(ram, name, &size);
    size_t at = (size_t)fuzz_below(in, 16) * JOURNAL_SECTOR;
    if (size < JOURNAL_SECTOR || at > size - JOURNAL_SECTOR) {
        return;
    }
    memcpy(sector, from + at, JOURNAL_SECTOR);
    name = draw_file(in, ram);
    uint8_t *to = ram_disk_bytes(ram, name, &size);
    at = (size_t)fuzz_below(in, 16) * JOURNAL_SECTOR;
    if (size >= JOURNAL_SECTOR && at <= size - JOURNAL_SECTOR) {
        memcpy(to + at, sector, JOURNAL_SECTOR);
        ram_disk_resize(ram, name, size);
    }
}

static void copy_file(struct fuzz_input *in, struct ram_disk *ram)
{
    static const char *const others[] = {JOURNAL_NEXT_NAME, JOURNAL_SNAPSHOT_TMP_NAME, "notes",
                                         "0000000000000001.journa", "000000000000000G.journal"};
    char name[JOURNAL_NAME_BYTES];
    size_t size = 0;
    const uint8_t *bytes = ram_disk_bytes(ram, draw_file(in, ram), &size);
    uint8_t how = fuzz_byte(in);
    if (how % 4 == 0) {
        (void)snprintf(name, sizeof(name), "%s", others[how / 4 % 5]);
    } else {
        journal_name(fuzz_number(in, 2), how % 2 ? JOURNAL_FILE_SUFFIX : JOURNAL_SNAPSHOT_SUFFIX,
                     name);
    }
    uint8_t *copy = malloc(size + 1);
    CHECK(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    ram_disk_put(ram, name, copy, size);
    free(copy);
}

static void change(struct fuzz_input *in, struct ram_disk *ram)
{
    uint8_t what = fuzz_below(in, 10);
    const char *name;
    switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
        change_bytes(in, ram, what);
        break;
    case 4:
        copy_sector(in, ram);
        break;
    case 5: /* cut, or longer */
        name = draw_file(in, ram);
        ram_disk_resize(ram, name, fuzz_number(in, 2) % (FILE_MAX + 1));
        break;
    case 6:
        name = draw_file(in, ram);
        if (ram->model.now.count > 1) {
            ram_disk_remove(ram, name);
        }
        break;
    case 7:
        copy_file(in, ram);
        break;
    default:
        change_bytes(in, ram, 0);
        break;
    }
}

/* The last record of the last batch that still is where it was written, in a file whose header
 * is: it was durable, and so was all before it. */
static uint64_t last_intact(struct image *image, struct ram_disk *ram)
{
    uint64_t last_lsn = 0;
    for (size_t i = 0; i < image->places_count; i++) {
        const struct place *place = &image->places[i];
        size_t size = 0;
        size_t was = 0;
        const uint8_t *now = ram_disk_bytes(ram, place->file, &size);
        const uint8_t *then = ram_disk_bytes(&image->world.ram, place->file, &was);
        if (now != NULL && size >= place->offset + place->len &&
            memcmp(now, then, JOURNAL_HEAD_BYTES) == 0 &&
            memcmp(now + place->offset, then + place->offset, place->len) == 0) {
            last_lsn = place->last_lsn;
        }
    }
    return last_lsn;
}

/* ---- the trial ---- */

struct trial {
    struct ram_disk ram;
    struct gate_box box;
    struct journal *journal;
    struct journal_found found;
    int error;
};

static void trial_open(struct trial *trial, const struct world *world)
{
    gate_box_init_sizes(&trial->box, world->sizes);
    trial->journal = NULL;
    trial->error = gate_content_open(&trial->ram.disk, world->options, &trial->box.gate,
                                     &trial->journal, &trial->found);
}

static void trial_close(struct trial *trial)
{
    journal_free(trial->journal);
    gate_box_done(&trial->box);
}

static bool is_there(const struct ram_disk *ram, const char *name)
{
    for (size_t i = 0; i < ram->model.now.count; i++) {
        if (strcmp(ram->model.now.entries[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Refused: a place in a file that is there, and why. */
static void check_refused(struct trial *trial, bool forged, uint64_t writes)
{
    char name[sizeof(trial->found.where)];
    (void)snprintf(name, sizeof(name), "%s", trial->found.where);
    char *colon = strchr(name, ':');
    CHECK(trial->error == ERR_CORRUPT ||
          (forged && (trial->error == ERR_VERSION || trial->error == ERR_FULL)));
    CHECK(colon != NULL && trial->found.why[0] != '\0');
    *colon = '\0';
    CHECK(is_there(&trial->ram, name));
    CHECK(trial->ram.writes == writes);
}

/* Taken: the first records, all up to some batch's end, and no batch that is intact cut off. */
static void check_taken(const struct image *image, const struct trial *trial, uint64_t intact)
{
    size_t i = 0;
    CHECK(trial->found.last_lsn >= intact);
    while (i <= image->batches && image->ends[i] != trial->found.last_lsn) {
        i++;
    }
    CHECK(i <= image->batches);
    CHECK(gate_same(&image->expected[i].gate, &trial->box.gate));
}

/* What was recovered stays: after a power cut, and, if nothing was forged, with one more record
 * behind it. */
static void check_again(struct trial *trial, struct image *image, bool forged)
{
    struct gate_box first = trial->box;
    uint64_t last_lsn = trial->found.last_lsn;
    uint64_t lsn = 0;
    bool wrote = false;
    journal_free(trial->journal);
    ram_disk_crash(&trial->ram, RAM_DROP, &image->world.prng);
    trial_open(trial, &image->world);
    CHECK(trial->error == 0 && trial->found.last_lsn == last_lsn && trial->found.torn_bytes == 0);
    CHECK(trial->found.where[0] == '\0');
    CHECK(gate_same(&first.gate, &trial->box.gate) && gate_same(&trial->box.gate, &first.gate));
    gate_box_done(&first);
    struct gate_command more = {.kind = GATE_SKIP, .event = trial->box.gate.applied_event + 1};
    CHECK(gate_content_append(trial->journal, &more, &lsn) == 0 && lsn == last_lsn + 1);
    CHECK(journal_flush(trial->journal, &wrote) == 0 && wrote);
    trial_close(trial);
    ram_disk_crash(&trial->ram, RAM_DROP, &image->world.prng);
    trial_open(trial, &image->world);
    CHECK(forged || (trial->error == 0 && trial->found.last_lsn == lsn &&
                     trial->box.gate.applied_event == more.event));
    trial_close(trial);
}

/* A forged header may say four gigabytes, and the start would write that many zeros. */
static bool is_large(struct ram_disk *ram)
{
    for (size_t i = 0; i < ram->model.now.count; i++) {
        size_t size = 0;
        const uint8_t *bytes = ram_disk_bytes(ram, ram->model.now.entries[i].name, &size);
        if (ends_with(ram->model.now.entries[i].name, JOURNAL_FILE_SUFFIX) && size >= 40 &&
            load_le64(bytes + 32) > (1U << 20)) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    static struct trial trial;
    struct journal_found scanned;
    start();
    struct image *image = &images[fuzz_below(&in, 2)];
    ram_disk_copy(&image->world.ram, &trial.ram);
    for (int i = 0; in.left > 0 && i < CHANGES_MAX; i++) {
        change(&in, &trial.ram);
    }
    bool forged = !whole_pieces(&trial.ram, is_original, image);
    if (forged && is_large(&trial.ram)) {
        ram_disk_done(&trial.ram);
        return 0;
    }
    uint64_t writes = trial.ram.writes;
    uint64_t intact = last_intact(image, &trial.ram);
    int scan = world_scan(&trial.ram.disk, &scan_ops, on_record, forged ? NULL : image, &scanned);
    CHECK(trial.ram.writes == writes);
    trial_open(&trial, &image->world);
    CHECK(forged || (scan == trial.error && scanned.last_lsn == trial.found.last_lsn &&
                     strcmp(scanned.where, trial.found.where) == 0));
    CHECK(size > 1 || (trial.error == 0 && trial.found.last_lsn == image->world.count));
    if (trial.error != 0) {
        check_refused(&trial, forged, writes);
        trial_close(&trial);
    } else {
        CHECK(gate_consistent(&trial.box.gate));
        if (!forged) {
            check_taken(image, &trial, intact);
        }
        check_again(&trial, image, forged);
    }
    CHECK(trial.ram.open_files == 0);
    ram_disk_done(&trial.ram);
    return 0;
}
