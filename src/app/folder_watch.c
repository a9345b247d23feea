/* See folder_watch.h. */
#include "app/folder_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/assembly.h"
#include "app/worker.h"
#include "base/err.h"
#include "base/mailbox.h"
#include "obs/log.h"

#define LOOK_US 250000
#define PATH_BYTES 1024
#define NAME_BYTES 64

/* What a path led to when it was first looked at. */
struct place {
    char path[PATH_BYTES];
    dev_t device;
    ino_t inode;
    bool known;
};

enum { PLACE_FOLDER, PLACE_JOURNAL, PLACE_FILE, PLACE_LEDGER, PLACE_LEDGER_WAL, PLACES };

struct folder_watch {
    struct journal *journal;
    struct place places[PLACES];
    char file[NAME_BYTES]; /* the name in PLACE_FILE */
    uint32_t places_count;
    struct mailbox ends; /* used only to ring */
    struct worker worker;
};

/* False: the path leads to nothing any more, or to something else. If it cannot be looked at, it counts
 * as unchanged: a disk that does not answer fails the journal by itself. */
static bool is_same(struct place *place)
{
    struct stat found;
    if (stat(place->path, &found) != 0) {
        return !place->known || (errno != ENOENT && errno != ENOTDIR);
    }
    if (!place->known) {
        place->device = found.st_dev;
        place->inode = found.st_ino;
        place->known = true;
    }
    return found.st_dev == place->device && found.st_ino == place->inode && found.st_nlink > 0;
}

/* The journal goes on to another file now and then. True: it has just done so. */
static bool follow_file(struct folder_watch *watch)
{
    char name[NAME_BYTES];
    struct place *place = &watch->places[PLACE_FILE];
    journal_current_name(watch->journal, name, sizeof(name));
    if (strcmp(name, watch->file) == 0) {
        return false;
    }
    (void)snprintf(watch->file, sizeof(watch->file), "%s", name);
    (void)snprintf(place->path, sizeof(place->path), "%.900s/%s", watch->places[PLACE_JOURNAL].path,
                   name);
    place->known = false;
    return true;
}

const char *folder_watch_look(struct folder_watch *watch)
{
    (void)follow_file(watch);
    for (uint32_t i = 0; i < watch->places_count; i++) {
        struct place *place = &watch->places[i];
        /* A file that is gone may have been the last one a moment ago. */
        if (!is_same(place) && !(i == PLACE_FILE && follow_file(watch) && is_same(place))) {
            return place->path;
        }
    }
    return NULL;
}

static bool iterate(void *context)
{
    struct folder_watch *watch = context;
    const char *lost = journal_failed(watch->journal) ? NULL : folder_watch_look(watch);
    if (lost != NULL) {
        log_event(LOG_ERROR, "data_folder.lost", LOG_STR("path", lost),
                  LOG_STR("what", "it was removed or replaced under the running server; nothing "
                                  "more is promised"),
                  LOG_STR("do", "put the folder back, then restart"));
        journal_fail(watch->journal,
                     "the data folder was removed or replaced; put it back, then restart");
        return false;
    }
    mailbox_wait(&watch->ends, LOOK_US);
    return true;
}

static void wake(void *context)
{
    mailbox_ring(&((struct folder_watch *)context)->ends);
}

struct folder_watch *folder_watch_new(const char *data_dir, struct journal *journal,
                                      bool has_ledger)
{
    static const char *const names[] = {[PLACE_FOLDER] = "",
                                        [PLACE_JOURNAL] = "/journal",
                                        [PLACE_FILE] = "",
                                        [PLACE_LEDGER] = "/ledger.db",
                                        [PLACE_LEDGER_WAL] = "/ledger.db-wal"};
    struct folder_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return NULL;
    }
    mailbox_init(&watch->ends);
    watch->journal = journal;
    watch->places_count = has_ledger ? PLACES : PLACE_LEDGER;
    for (uint32_t i = 0; i < watch->places_count; i++) {
        (void)snprintf(watch->places[i].path, PATH_BYTES, "%.900s%s", data_dir, names[i]);
    }
    (void)folder_watch_look(watch); /* notes what is there */
    return watch;
}

void folder_watch_free(struct folder_watch *watch)
{
    mailbox_done(&watch->ends);
    free(watch);
}

int folder_watch_start(const char *data_dir, struct journal *journal, bool has_ledger,
                       struct folder_watch **ret_watch)
{
    struct folder_watch *watch = folder_watch_new(data_dir, journal, has_ledger);
    if (watch == NULL) {
        return assembly_fail("cannot watch the data folder", ERR_NOMEM, data_dir);
    }
    watch->worker =
        (struct worker){.name = "folder-watch", .iterate = iterate, .wake = wake, .context = watch};
    int error = worker_start(&watch->worker);
    if (error != 0) {
        folder_watch_free(watch);
        return assembly_fail("cannot start a thread", error, "folder-watch");
    }
    *ret_watch = watch;
    return 0;
}

void folder_watch_stop(struct folder_watch *watch)
{
    if (watch != NULL) {
        worker_stop(&watch->worker);
        folder_watch_free(watch);
    }
}
