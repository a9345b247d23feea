/* See crash_disk.h. */
#include "crash_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/prng.h"

#define DIMS_MAX 512
#define CONTENTS_MAX 64

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

/* ---- hashes ---- */

static void hash_word(struct hash *hash, uint64_t word)
{
    hash->a = (hash->a ^ word) * 0x9e3779b97f4a7c15ULL;
    hash->a ^= hash->a >> 29;
    hash->b = ((hash->b << 13 | hash->b >> 51) + word) * 0xc2b2ae3d27d4eb4fULL;
}

static struct hash hash_sector(const uint8_t *bytes)
{
    struct hash hash = {1, 2};
    for (size_t i = 0; i < DISK_SECTOR; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash_word(&hash, word);
    }
    return hash;
}

/* ---- what is in doubt ---- */

/* One choice: of a change of names (contents 0 and 1), of a file's size, or of a sector. */
struct dim {
    enum { DIM_NAME, DIM_SIZE, DIM_SECTOR } kind;
    size_t inode;
    size_t sector;
    size_t count;
    size_t kept; /* the one that keeps everything */
    size_t sizes[DISK_SIZES_MAX + 1];
    const uint8_t *contents[CONTENTS_MAX];
    struct hash hashes[CONTENTS_MAX];
};

struct doubt {
    struct dim dims[DIMS_MAX];
    size_t count;
    uint8_t *made[4 * DIMS_MAX]; /* torn and garbled sectors */
    size_t made_count;
};

static struct dim *doubt_add(struct doubt *doubt, int kind, size_t inode, size_t sector)
{
    CHECK(doubt->count < DIMS_MAX);
    struct dim *dim = &doubt->dims[doubt->count++];
    memset(dim, 0, sizeof(*dim));
    dim->kind = kind;
    dim->inode = inode;
    dim->sector = sector;
    return dim;
}

static void dim_content(struct dim *dim, const uint8_t *bytes)
{
    for (size_t i = 0; i < dim->count; i++) {
        if (memcmp(dim->contents[i], bytes, DISK_SECTOR) == 0) {
            return;
        }
    }
    CHECK(dim->count < CONTENTS_MAX);
    dim->hashes[dim->count] = hash_sector(bytes);
    dim->contents[dim->count++] = bytes;
}

/* The first bytes of one sector, then another. */
static const uint8_t *doubt_make(struct doubt *doubt, const uint8_t *head, size_t cut,
                                 const uint8_t *tail)
{
    uint8_t *bytes = doubt->made[doubt->made_count++] = must(malloc(DISK_SECTOR));
    memcpy(bytes, head, cut);
    memcpy(bytes + cut, tail + cut, DISK_SECTOR - cut);
    return bytes;
}

/* The same sector is torn and garbled the same way at every point, so that disks repeat. */
static void doubt_sector(struct doubt *doubt, const struct disk_inode *inode, size_t index,
                         const struct disk_version *newest, uint64_t seed)
{
    const uint8_t *old = inode->durable + newest->sector * DISK_SECTOR;
    struct dim *dim = doubt_add(doubt, DIM_SECTOR, index, newest->sector);
    dim_content(dim, old);
    dim_content(dim, newest->bytes);
    dim->kept = dim->count - 1;
    for (const struct disk_version *v = newest->next; v != NULL; v = v->next) {
        if (v->sector == newest->sector) {
            dim_content(dim, v->bytes);
        }
    }
    struct prng prng = prng_of(seed + newest->made_at * 1000 + newest->sector);
    size_t cut = 512 * (1 + (size_t)prng_below(&prng, DISK_SECTOR / 512 - 1));
    dim_content(dim, doubt_make(doubt, newest->bytes, cut, old));
    dim_content(dim, doubt_make(doubt, old, cut, newest->bytes));
    uint8_t garbage[DISK_SECTOR];
    for (size_t i = 0; i < DISK_SECTOR; i++) {
        garbage[i] = (uint8_t)prng_next(&prng);
    }
    cut = (size_t)prng_below(&prng, 128); /* in what a small batch uses */
    dim_content(dim, doubt_make(doubt, newest->bytes, cut, garbage));
    cut = (size_t)prng_below(&prng, DISK_SECTOR);
    dim_content(dim, doubt_make(doubt, newest->bytes, cut, garbage));
}

static void doubt_inode(struct doubt *doubt, const struct disk_inode *inode, size_t index,
                        uint64_t seed)
{
    if (inode->sizes_count > 0) {
        struct dim *dim = doubt_add(doubt, DIM_SIZE, index, 0);
        dim->sizes[dim->count++] = inode->durable_size;
        for (size_t i = 0; i < inode->sizes_count; i++) {
            dim->sizes[dim->count++] = inode->sizes[i];
        }
        dim->kept = dim->count - 1;
    }
    for (const struct disk_version *v = inode->versions; v != NULL; v = v->next) {
        bool newest = true;
        for (const struct disk_version *w = inode->versions; w != v; w = w->next) {
            newest = newest && w->sector != v->sector;
        }
        if (newest) {
            doubt_sector(doubt, inode, index, v, seed);
        }
    }
}

static bool inode_has_name(const struct disk_model *disk, uint32_t inode)
{
    for (size_t i = 0; i < disk->durable.count; i++) {
        if (disk->durable.entries[i].inode == inode) {
            return true;
        }
    }
    for (size_t i = 0; i < disk->pending_count; i++) {
        if (disk->pending[i].inode == inode && disk->pending[i].kind != DISK_REMOVED) {
            return true;
        }
    }
    return false;
}

static void doubt_find(struct doubt *ret_doubt, struct model *model, uint64_t seed)
{
    const struct disk_model *disk = &model->disk;
    ret_doubt->count = 0;
    ret_doubt->made_count = 0;
    for (size_t i = 0; i < disk->pending_count; i++) {
        struct dim *dim = doubt_add(ret_doubt, DIM_NAME, i, 0);
        dim->count = 2;
        dim->kept = 1;
    }
    for (uint32_t i = 0; i < disk->inodes_count; i++) {
        const struct disk_inode *inode = disk->inodes[i];
        struct open_choices *choices = &model->choices[i];
        if (!inode_has_name(disk, i)) {
            continue;
        }
        choices->dims_from = ret_doubt->count;
        doubt_inode(ret_doubt, inode, i, seed);
        choices->dims_to = ret_doubt->count;
        free(choices->hashes);
        choices->hashes =
            must(malloc((inode->capacity / DISK_SECTOR + 1) * sizeof(*choices->hashes)));
        for (size_t k = 0; k < inode->capacity / DISK_SECTOR; k++) {
            choices->hashes[k] = hash_sector(inode->durable + k * DISK_SECTOR);
        }
    }
}

static void doubt_done(struct doubt *doubt)
{
    for (size_t i = 0; i < doubt->made_count; i++) {
        free(doubt->made[i]);
    }
}

/* How many disks there are; at most `most`. */
static uint64_t doubt_product(const struct doubt *doubt, uint64_t most)
{
    uint64_t product = 1;
    for (size_t i = 0; i < doubt->count && product < most; i++) {
        product *= doubt->dims[i].count;
    }
    return product < most ? product : most;
}

/* ---- one disk ---- */

static void image_free(struct crash_image *image)
{
    for (size_t i = 0; i < image->count; i++) {
        free(image->files[i].bytes);
    }
    image->count = 0;
}

/* The names of the disk that these choices make, sorted. */
static void choose_names(struct disk_names *ret_names, const struct disk_model *disk,
                         const size_t *choice)
{
    disk_names_copy(ret_names, &disk->durable);
    for (size_t i = 0; i < disk->pending_count; i++) { /* the first dims are names */
        if (choice[i] == 1) {
            disk_names_apply(ret_names, &disk->pending[i]);
        }
    }
    disk_names_sort(ret_names);
}

static void image_build(struct crash_image *ret_image, const struct disk_names *names,
                        const struct model *model, const struct doubt *doubt, const size_t *choice)
{
    CHECK(names->count <= CRASH_FILES);
    ret_image->count = names->count;
    for (size_t i = 0; i < names->count; i++) {
        const struct disk_inode *inode = model->disk.inodes[names->entries[i].inode];
        const struct open_choices *choices = &model->choices[names->entries[i].inode];
        struct crash_file *file = &ret_image->files[i];
        memcpy(file->name, names->entries[i].name, sizeof(file->name));
        file->size = inode->durable_size;
        file->bytes = must(malloc(inode->capacity + 1));
        if (inode->capacity > 0) {
            memcpy(file->bytes, inode->durable, inode->capacity);
        }
        for (size_t d = choices->dims_from; d < choices->dims_to; d++) {
            const struct dim *dim = &doubt->dims[d];
            if (dim->kind == DIM_SIZE) {
                file->size = dim->sizes[choice[d]];
            } else {
                memcpy(file->bytes + dim->sector * DISK_SECTOR, dim->contents[choice[d]],
                       DISK_SECTOR);
            }
        }
    }
}

/* Of what image_build would build. Bytes behind the end of a file may make two of one disk. */
static struct hash image_hash(const struct disk_names *names, const struct model *model,
                              const struct doubt *doubt, const size_t *choice, uint64_t state)
{
    struct hash hash = {state + 1, state + 2};
    for (size_t i = 0; i < names->count; i++) {
        const struct disk_inode *inode = model->disk.inodes[names->entries[i].inode];
        const struct open_choices *choices = &model->choices[names->entries[i].inode];
        size_t size = inode->durable_size;
        for (const char *c = names->entries[i].name; *c != '\0'; c++) {
            hash_word(&hash, (uint8_t)*c);
        }
        size_t d = choices->dims_from;
        if (d < choices->dims_to && doubt->dims[d].kind == DIM_SIZE) {
            size = doubt->dims[d].sizes[choice[d]];
            d++;
        }
        hash_word(&hash, size);
        struct hash sum = {0, 0}; /* the dims of an inode come in any order */
        for (size_t k = 0; k * DISK_SECTOR < size; k++) {
            struct hash one = choices->hashes[k];
            hash_word(&one, k);
            sum.a += one.a;
            sum.b += one.b;
        }
        for (; d < choices->dims_to; d++) {
            const struct dim *dim = &doubt->dims[d];
            if (dim->sector * DISK_SECTOR < size) {
                struct hash was = choices->hashes[dim->sector];
                struct hash is = dim->hashes[choice[d]];
                hash_word(&was, dim->sector);
                hash_word(&is, dim->sector);
                sum.a += is.a - was.a;
                sum.b += is.b - was.b;
            }
        }
        hash_word(&hash, sum.a);
        hash_word(&hash, sum.b);
    }
    hash.b = hash.b == 0 ? 1 : hash.b;
    return hash;
}

/* ---- what has been recovered before ---- */

struct memo_entry {
    uint64_t a;
    uint64_t b; /* 0: empty */
    uint64_t lsn;
    bool good;
};

struct crash_memo {
    struct memo_entry *entries;
    size_t capacity;
    size_t used;
};

struct crash_memo *crash_memo_new(void)
{
    struct crash_memo *memo = must(calloc(1, sizeof(*memo)));
    memo->capacity = 1 << 12;
    memo->entries = must(calloc(memo->capacity, sizeof(*memo->entries)));
    return memo;
}

void crash_memo_free(struct crash_memo *memo)
{
    free(memo->entries);
    free(memo);
}

static struct memo_entry *memo_find(struct crash_memo *memo, uint64_t a, uint64_t b)
{
    size_t at = (size_t)a & (memo->capacity - 1);
    while (memo->entries[at].b != 0 && (memo->entries[at].a != a || memo->entries[at].b != b)) {
        at = (at + 1) & (memo->capacity - 1);
    }
    return &memo->entries[at];
}

static void memo_put(struct crash_memo *memo, struct memo_entry entry)
{
    if (2 * memo->used >= memo->capacity) {
        struct crash_memo bigger = {.capacity = 2 * memo->capacity};
        bigger.entries = must(calloc(bigger.capacity, sizeof(*bigger.entries)));
        for (size_t i = 0; i < memo->capacity; i++) {
            if (memo->entries[i].b != 0) {
                *memo_find(&bigger, memo->entries[i].a, memo->entries[i].b) = memo->entries[i];
            }
        }
        free(memo->entries);
        memo->entries = bigger.entries;
        memo->capacity = bigger.capacity;
    }
    memo->used++;
    *memo_find(memo, entry.a, entry.b) = entry;
}

/* ---- going through all of it ---- */

struct point {
    size_t op; /* the last one done, or in flight; counted from 1 */
    bool in_flight;
    uint64_t promised;
    uint64_t state;
};

static void say(char *ret_text, size_t text_size, const struct crash_run *run,
                const struct point *point, const struct doubt *doubt, const size_t *choice,
                const char *why)
{
    int n = snprintf(ret_text, text_size,
                     "%s operation %zu of %zu (kind %d), promised %llu: %s; choices",
                     point->in_flight ? "during" : "after", point->op, run->ops_count,
                     point->op == 0 ? -1 : (int)run->ops[point->op - 1].kind,
                     (unsigned long long)point->promised, why);
    for (size_t i = 0; i < doubt->count && n > 0 && (size_t)n < text_size; i++) {
        n += snprintf(ret_text + n, text_size - (size_t)n, " %zu/%zu", choice[i],
                      doubt->dims[i].count);
    }
}

static bool enough(const struct crash_run *run)
{
    return (run->until_loss && run->lost > 0) || run->failed >= CRASH_FAILED_MAX;
}

static void try_disk(struct crash_run *run, const struct model *model, const struct point *point,
                     const struct doubt *doubt, const size_t *choice)
{
    if (enough(run)) {
        return;
    }
    struct disk_names names;
    choose_names(&names, &model->disk, choice);
    struct hash hash = image_hash(&names, model, doubt, choice, point->state);
    struct memo_entry entry = {.a = hash.a, .b = hash.b};
    char why[256] = "a disk that had failed before";
    run->disks++;
    const struct memo_entry *known = memo_find(run->memo, entry.a, entry.b);
    if (known->b != 0) {
        entry = *known;
    } else {
        static struct ram_disk ram[4]; /* one for each depth of recoveries in recoveries */
        static size_t depth;
        CHECK(depth < 4);
        struct ram_disk *disk = &ram[depth++];
        struct crash_image image;
        image_build(&image, &names, model, doubt, choice);
        ram_disk_init(disk);
        for (size_t i = 0; i < image.count; i++) {
            ram_disk_put(disk, image.files[i].name, image.files[i].bytes, image.files[i].size);
        }
        entry.good = run->recover(run->context, disk, &image, point->state, &entry.lsn, why,
                                  sizeof(why)) == 0;
        ram_disk_done(disk);
        image_free(&image);
        depth--;
        run->distinct++;
        memo_put(run->memo, entry);
    }
    bool lost = entry.good && entry.lsn < point->promised;
    if (lost) {
        (void)snprintf(why, sizeof(why), "only %llu are left", (unsigned long long)entry.lsn);
        if (run->lost++ == 0) {
            say(run->first_lost, sizeof(run->first_lost), run, point, doubt, choice, why);
        }
    }
    if ((lost || !entry.good) && run->failed++ == 0) {
        say(run->first_failed, sizeof(run->first_failed), run, point, doubt, choice, why);
    }
}

static void try_all(struct crash_run *run, const struct model *model, const struct point *point,
                    const struct doubt *doubt)
{
    size_t choice[DIMS_MAX] = {0};
    for (;;) {
        try_disk(run, model, point, doubt, choice);
        size_t i = 0;
        while (i < doubt->count && ++choice[i] == doubt->dims[i].count) {
            choice[i++] = 0;
        }
        if (i == doubt->count) {
            return;
        }
    }
}

/* All disks that differ from a base in one choice or in two. */
static void try_near(struct crash_run *run, const struct model *model, const struct point *point,
                     const struct doubt *doubt, const size_t *base)
{
    size_t choice[DIMS_MAX];
    memcpy(choice, base, sizeof(choice));
    try_disk(run, model, point, doubt, choice);
    for (size_t i = 0; i < doubt->count; i++) {
        for (choice[i] = 0; choice[i] < doubt->dims[i].count; choice[i]++) {
            for (size_t k = i + 1; k < doubt->count; k++) {
                for (choice[k] = 0; choice[k] < doubt->dims[k].count; choice[k]++) {
                    try_disk(run, model, point, doubt, choice);
                }
                choice[k] = base[k];
            }
        }
        choice[i] = base[i];
    }
}

static void try_sample(struct crash_run *run, const struct model *model, const struct point *point,
                       const struct doubt *doubt)
{
    size_t dropped[DIMS_MAX] = {0};
    size_t kept[DIMS_MAX] = {0};
    for (size_t i = 0; i < doubt->count; i++) {
        kept[i] = doubt->dims[i].kept;
    }
    try_near(run, model, point, doubt, dropped);
    try_near(run, model, point, doubt, kept);
    struct prng prng = prng_of(run->seed + point->op);
    for (uint64_t n = 0; n < run->sample; n++) {
        size_t choice[DIMS_MAX] = {0};
        for (size_t i = 0; i < doubt->count; i++) {
            choice[i] = (size_t)prng_below(&prng, doubt->dims[i].count);
        }
        try_disk(run, model, point, doubt, choice);
    }
}

static void try_point(struct crash_run *run, struct model *model, const struct point *point)
{
    if (enough(run)) {
        return;
    }
    struct doubt *doubt = must(malloc(sizeof(*doubt)));
    doubt_find(doubt, model, run->seed);
    run->points++;
    if (doubt_product(doubt, run->bound + 1) <= run->bound) {
        run->complete++;
        try_all(run, model, point, doubt);
    } else {
        run->sampled++;
        try_sample(run, model, point, doubt);
    }
    doubt_done(doubt);
    free(doubt);
}

/* Whether the next thing in the record is a mark: then this point comes with what it promises. */
static void take_marks(const struct crash_run *run, size_t from, struct point *point)
{
    for (size_t i = from; i < run->ops_count && run->ops[i].kind == TAP_MARK; i++) {
        point->promised = run->ops[i].promised;
        point->state = run->ops[i].state;
    }
}

void crash_enumerate(struct crash_run *run)
{
    struct model *model = model_new(run->first);
    struct point point = {.promised = run->promised, .state = run->state};
    take_marks(run, 0, &point);
    try_point(run, model, &point);
    for (size_t i = 0; i < run->ops_count; i++) {
        const struct tap_op *op = &run->ops[i];
        if (op->kind == TAP_MARK) {
            continue;
        }
        point.op = i + 1;
        if (op->kind == TAP_WRITE && op->durable) { /* a model of its own, for what came of it */
            struct model *cut = model_new(run->first);
            for (size_t k = 0; k <= i; k++) {
                model_apply(cut, &run->ops[k], k, run->lies, k == i);
            }
            point.in_flight = true;
            try_point(run, cut, &point);
            point.in_flight = false;
            model_free(cut);
        }
        model_apply(model, op, i, run->lies, false);
        /* The test's own state may have moved on before the operation's answer, or after. */
        struct point before = point;
        take_marks(run, i + 1, &point);
        if (point.state != before.state) {
            try_point(run, model, &before);
        }
        try_point(run, model, &point);
    }
    model_free(model);
}

void crash_report(const char *what, const struct crash_run *run)
{
    printf(
        "%s: %zu operations, %llu points (%llu complete, %llu sampled), %llu disks, %llu of them "
        "different and recovered, seed %llu\n",
        what, run->ops_count, (unsigned long long)run->points, (unsigned long long)run->complete,
        (unsigned long long)run->sampled, (unsigned long long)run->disks,
        (unsigned long long)run->distinct, (unsigned long long)run->seed);
    if (run->failed > 0) {
        printf("  %llu failed; the first: %.240s\n", (unsigned long long)run->failed,
               run->first_failed);
    }
    if (run->lost > 0) {
        printf("  %llu lost something; the first: %.240s\n", (unsigned long long)run->lost,
               run->first_lost);
    }
}
