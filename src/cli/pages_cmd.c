/*
 * `sluice pages`: copies the storefront of a running server into a folder, for a CDN's origin or
 * another web server: every page and file as it is sent, and compressed as NAME.gz.
 *
 * Happy path: read the server's list (/pages.json), write the missing files of /assets/, then the
 * pages, then remove the pages that an earlier run wrote and the server no longer has. Each file is
 * written under another name and renamed. Assets come before the pages that name them. NOTES lists
 * what an earlier run wrote; nothing else is removed, and never an asset: a cached page may still
 * name it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/commands.h"
#include "base/err.h"
#include "cli/client.h"
#include "cli/options.h"

#define NOTES ".sluice-pages"
#define PATH_MAX_BYTES 512
#define FULL_PATH_MAX (2UL * PATH_MAX_BYTES)
#define PROBLEM_MAX 1200
/* A page may change between the reads of its two forms. Then both are read again. */
#define READS_MAX 5

struct copying {
    const char *url;
    const char *folder;
    struct client client;
    FILE *notes;
    json_t *names; /* of the pages of this run: a set */
    size_t pages, assets, removed;
    char problem[PROBLEM_MAX];
};

static int failed(struct copying *copying, const char *what, const char *path)
{
    (void)snprintf(copying->problem, sizeof(copying->problem), "%s %s: %s", what, path,
                   strerrordesc_np(errno));
    return ERR_IO;
}

/* Whether a path stays inside the folder. */
static bool is_inside(const char *path)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
    return path[0] != '\0' && path[0] != '/' && path[strspn(path, good)] == '\0' &&
           strstr(path, "..") == NULL && strstr(path, "//") == NULL && strlen(path) < 200 &&
           strcmp(path, NOTES) != 0;
}

/* "/" is index.html, "/items/5" is items/5.html; paths below /assets/ keep their names. */
static int file_of(struct copying *copying, const char *address, char ret_name[PATH_MAX_BYTES])
{
    bool asset = strncmp(address, "/assets/", 8) == 0;
    (void)snprintf(ret_name, PATH_MAX_BYTES, "%s%s",
                   strcmp(address, "/") == 0 ? "index" : address + (address[0] == '/'),
                   asset ? "" : ".html");
    if (!is_inside(ret_name)) {
        (void)snprintf(copying->problem, sizeof(copying->problem),
                       "the server's list has a strange address: %.100s", address);
        return ERR_INVALID;
    }
    return 0;
}

static void full_path(const struct copying *copying, const char *name, const char *ending,
                      char ret_path[FULL_PATH_MAX])
{
    (void)snprintf(ret_path, FULL_PATH_MAX, "%s/%s%s", copying->folder, name, ending);
}

static int make_folders(struct copying *copying, char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int made = mkdir(path, 0755);
        if (made != 0 && errno != EEXIST) {
            return failed(copying, "cannot make", path);
        }
        *slash = '/';
    }
    return 0;
}

static int write_file(struct copying *copying, const char *name, const char *ending,
                      struct span bytes)
{
    char path[FULL_PATH_MAX];
    char aside[FULL_PATH_MAX + 8];
    full_path(copying, name, ending, path);
    int error = make_folders(copying, path);
    if (error != 0) {
        return error;
    }
    (void)snprintf(aside, sizeof(aside), "%s.tmp", path);
    FILE *file = fopen(aside, "we");
    bool good = file != NULL && fwrite(bytes.at, 1, bytes.len, file) == bytes.len;
    if (file != NULL) {
        good = fclose(file) == 0 && good;
    }
    if (!good || rename(aside, path) != 0) {
        error = failed(copying, "cannot write", path);
        (void)unlink(aside);
    }
    return error;
}

static int remove_file(struct copying *copying, const char *name, const char *ending)
{
    char path[FULL_PATH_MAX];
    full_path(copying, name, ending, path);
    return unlink(path) == 0 || errno == ENOENT ? 0 : failed(copying, "cannot remove", path);
}

/* Whether two ETags name the same content, plain or compressed. */
static bool same_tag(const char *plain, const char *packed)
{
    size_t len = strlen(plain);
    return len > 2 && strncmp(plain, packed, len - 1) == 0 &&
           (strcmp(packed + len - 1, "\"") == 0 || strcmp(packed + len - 1, "-gz\"") == 0);
}

/* The page for a missing item (404). It has no address of its own. */
#define MISSING_ADDRESS "/items/0"
#define MISSING_FILE "404.html"

/* Reads both forms of one address, of the same version. *ret_there: false if the page no longer
 * exists. */
static int fetch_both(struct copying *copying, const char *address, struct client_file *ret_plain,
                      struct client_file *ret_packed, bool *ret_there)
{
    for (int i = 0; i < READS_MAX; i++) {
        int error = client_fetch(&copying->client, address, "Accept: text/html\r\n", ret_plain,
                                 copying->problem, sizeof(copying->problem));
        if (error != 0) {
            return error;
        }
        error = client_fetch(&copying->client, address,
                             "Accept: text/html\r\nAccept-Encoding: gzip\r\n", ret_packed,
                             copying->problem, sizeof(copying->problem));
        if (error != 0) {
            free(ret_plain->memory);
            return error;
        }
        int wanted = strcmp(address, MISSING_ADDRESS) == 0 ? 404 : 200;
        bool gone = wanted == 200 && ret_plain->status == 404 && ret_packed->status == 404;
        *ret_there = ret_plain->status == wanted && ret_packed->status == wanted;
        if (gone || (*ret_there && same_tag(ret_plain->etag, ret_packed->etag))) {
            return 0;
        }
        free(ret_plain->memory);
        free(ret_packed->memory);
    }
    (void)snprintf(copying->problem, sizeof(copying->problem),
                   "%s is not answered, or changes all the time", address);
    return ERR_IO;
}

static int copy_address(struct copying *copying, const char *address, const char *name,
                        size_t *count)
{
    struct client_file plain, packed;
    bool there = false;
    int error = fetch_both(copying, address, &plain, &packed, &there);
    if (error != 0) {
        return error;
    }
    if (there) {
        /* An old compressed form must not outlive its page. */
        error = packed.packed ? write_file(copying, name, ".gz", packed.body)
                              : remove_file(copying, name, ".gz");
    }
    if (error == 0 && there) {
        error = write_file(copying, name, "", plain.body);
        (*count)++;
    }
    free(plain.memory);
    free(packed.memory);
    return error;
}

/* Names contain the hash of the bytes: an existing file is right. */
static int copy_asset(struct copying *copying, const char *address)
{
    char name[PATH_MAX_BYTES];
    char path[FULL_PATH_MAX];
    int error = file_of(copying, address, name);
    if (error != 0) {
        return error;
    }
    full_path(copying, name, "", path);
    return access(path, F_OK) == 0 ? 0 : copy_address(copying, address, name, &copying->assets);
}

static int copy_page(struct copying *copying, const char *address)
{
    char name[PATH_MAX_BYTES];
    int error = file_of(copying, address, name);
    if (error == 0) {
        (void)fprintf(copying->notes, "%s\n", name);
        (void)json_object_set_new(copying->names, name, json_true());
        error = copy_address(copying, address, name, &copying->pages);
    }
    return error;
}

/* Removes what the last run wrote and the server no longer has. */
static int remove_gone(struct copying *copying)
{
    char path[FULL_PATH_MAX];
    char line[PATH_MAX_BYTES];
    int error = 0;
    full_path(copying, NOTES, "", path);
    FILE *file = fopen(path, "re");
    while (file != NULL && error == 0 && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (!is_inside(line) || json_object_get(copying->names, line) != NULL) {
            continue;
        }
        error = remove_file(copying, line, "");
        if (error == 0) {
            error = remove_file(copying, line, ".gz");
        }
        copying->removed += error == 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return error;
}

static int copy_all(struct copying *copying, const json_t *list)
{
    const json_t *assets = json_object_get(list, "assets");
    const json_t *pages = json_object_get(list, "pages");
    size_t missing = 0;
    int error = 0;
    if (!json_is_array(assets) || !json_is_array(pages)) {
        (void)snprintf(copying->problem, sizeof(copying->problem),
                       "the server's list of pages is not understood");
        return ERR_INVALID;
    }
    for (size_t i = 0; error == 0 && i < json_array_size(assets); i++) {
        const char *address = json_string_value(json_array_get(assets, i));
        error = copy_asset(copying, address != NULL ? address : "");
    }
    for (size_t i = 0; error == 0 && i < json_array_size(pages); i++) {
        const char *address = json_string_value(json_object_get(json_array_get(pages, i), "path"));
        error = copy_page(copying, address != NULL ? address : "");
    }
    if (error == 0) {
        error = copy_address(copying, MISSING_ADDRESS, MISSING_FILE, &missing);
    }
    return error == 0 ? remove_gone(copying) : error;
}

/* Appends the notes of an interrupted run to those of the last one, so that no file is
 * forgotten. */
static void notes_keep(const char *fresh, const char *notes)
{
    char line[PATH_MAX_BYTES];
    FILE *from = fopen(fresh, "re");
    if (from == NULL) {
        return;
    }
    FILE *to = fopen(notes, "ae");
    while (to != NULL && fgets(line, sizeof(line), from) != NULL) {
        (void)fputs(line, to);
    }
    (void)fclose(from);
    if (to != NULL) {
        (void)fclose(to);
    }
    (void)unlink(fresh);
}

/* The notes of this run replace those of the last one when everything is written. */
static int run(struct copying *copying)
{
    char notes[FULL_PATH_MAX];
    char fresh[FULL_PATH_MAX];
    json_t *list = NULL;
    int error =
        client_at(&copying->client, copying->url, copying->problem, sizeof(copying->problem));
    if (error == 0) {
        error = client_call(&copying->client, "GET", "/pages.json", (struct span){NULL, 0}, &list,
                            copying->problem, sizeof(copying->problem));
    }
    copying->names = json_object();
    full_path(copying, NOTES, "", notes);
    full_path(copying, NOTES, ".new", fresh);
    if (error == 0) {
        error = make_folders(copying, fresh);
    }
    if (error == 0) {
        notes_keep(fresh, notes); /* of an interrupted run */
        copying->notes = fopen(fresh, "we");
        error = copying->notes != NULL ? 0 : failed(copying, "cannot write", fresh);
    }
    if (error == 0) {
        (void)setvbuf(copying->notes, NULL, _IOLBF,
                      0); /* line buffered: a killed run has noted what it wrote */
        error = copy_all(copying, list);
        bool written = ferror(copying->notes) == 0; /* includes lines that were lost earlier */
        written = fclose(copying->notes) == 0 && written;
        if (error == 0 && (!written || rename(fresh, notes) != 0)) {
            error = failed(copying, "cannot write", notes);
        }
        if (error != 0) {
            notes_keep(fresh, notes);
        }
    }
    json_decref(list);
    json_decref(copying->names);
    return error;
}

static void help_print(void)
{
    (void)puts(
        "Usage: sluice pages --out DIR [options]\n\n"
        "Writes every page of the storefront and the files it brings into DIR, each with its\n"
        "packed form beside it as NAME.gz: / as index.html, /items/5 as items/5.html, files\n"
        "as assets/... . Run it again after a change: what is gone is removed, if an earlier\n"
        "run wrote it. docs/PAGES.md shows how nginx serves it.\n\n"
        "Options:\n"
        "  --out DIR    where to; made if need be\n"
        "  --url URL    the server (" CLIENT_URL_DEFAULT ")\n"
        "  --help       this text\n\n"
        "Exit status: 0 done, 1 refused or failed, 2 usage.");
}

int pages_main(int argc, char **argv)
{
    struct copying copying = {.url = CLIENT_URL_DEFAULT, .folder = ""};
    bool help = false;
    const struct cli_option known[] = {CLI_TEXT("--out", &copying.folder),
                                       CLI_TEXT("--url", &copying.url), CLI_FLAG("--help", &help)};
    struct cli_words words;
    if (!cli_options_read(argc, argv, known, sizeof(known) / sizeof(known[0]), &words)) {
        return 2;
    }
    if (help) {
        help_print();
        return 0;
    }
    if (words.count > 0 || copying.folder[0] == '\0' || strlen(copying.folder) >= PATH_MAX_BYTES) {
        (void)fprintf(stderr, "sluice pages: %s; see sluice pages --help\n",
                      words.count > 0 ? "unexpected argument" : "--out DIR is needed");
        return 2;
    }
    if (run(&copying) != 0) {
        (void)fprintf(stderr, "sluice pages: %s\n", copying.problem);
        return 1;
    }
    (void)printf("%zu pages and %zu new files written to %s, %zu removed\n", copying.pages,
                 copying.assets, copying.folder, copying.removed);
    return 0;
}
