/*
 * The configuration: any bytes as a file, or as what stands behind --set.
 *
 * What is refused is refused in one line of text that names the file and a line the file has. What
 * is taken is within the bounds of the table, and what --print-config prints of it is a file that
 * is read back as the same configuration, and prints the same again. Taken over by a running
 * server (SIGHUP) it changes only what may change then.
 */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/config.h"
#include "app/config_value.h"

#define PATH_MAX_BYTES 64

/* A file that is nowhere but here. */
static int memory_file(struct span content, char ret_path[PATH_MAX_BYTES])
{
    int fd = memfd_create("config", 0);
    CHECK(fd >= 0 && write(fd, content.at, content.len) == (ssize_t)content.len);
    (void)snprintf(ret_path, PATH_MAX_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_same(const struct config *a, const struct config *b)
{
    for (size_t i = 0; i < config_settings_count; i++) {
        CHECK(config_same(a, b, &config_settings[i]));
    }
}

static void check_bounds(const struct config *config)
{
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        const char *member = (const char *)config + setting->offset;
        uint64_t size = strlen(member);
        if (setting->kind == CONFIG_NUMBER) {
            int64_t number = 0;
            memcpy(&number, member, sizeof(number));
            CHECK(number >= 0);
            size = (uint64_t)number;
        } else {
            CHECK(span_is_utf8(span_of(member)));
        }
        CHECK(size >= setting->min && size <= setting->max);
    }
}

/* There is one, and it ends. */
static void check_error(const char *error)
{
    size_t len = strnlen(error, CONFIG_ERROR_MAX);
    CHECK(len > 0 && len < CONFIG_ERROR_MAX);
}

/* "PATH:LINE: what", and the file has that line; or "PATH: what", for the whole of it. */
static void check_place(const char *error, const char *path, struct span content)
{
    unsigned long lines = 1;
    for (size_t i = 0; i < content.len; i++) {
        lines += content.at[i] == '\n';
    }
    size_t len = strlen(path);
    CHECK(strncmp(error, path, len) == 0 && error[len] == ':');
    if (content.len > 0 && memchr(content.at, '\0', content.len) != NULL) {
        return; /* no text at all */
    }
    char *end = NULL;
    unsigned long line = strtoul(error + len + 1, &end, 10);
    CHECK(*end == ':' && line >= 1 && line <= lines);
}

static int load(const char *file, const char *set, struct config *ret_config, char *ret_error)
{
    struct config_override override = {.option = "--set", .value = set};
    const struct config_options options = {
        .file = file, .overrides = &override, .overrides_count = set != NULL};
    memset(ret_error, 'x', CONFIG_ERROR_MAX);
    return config_load(&options, ret_config, ret_error, CONFIG_ERROR_MAX);
}

/* The caller frees it. */
static struct span printed(const struct config *config)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    CHECK(out != NULL);
    config_print(config, out);
    CHECK(fclose(out) == 0);
    return (struct span){text, len};
}

static void check_printed(const struct config *config)
{
    char path[PATH_MAX_BYTES];
    char error[CONFIG_ERROR_MAX];
    struct config again;
    struct span text = printed(config);
    int fd = memory_file(text, path);
    CHECK(load(path, NULL, &again, error) == 0);
    check_same(config, &again);
    struct span twice = printed(&again);
    CHECK(span_equal(text, twice));
    free((char *)text.at);
    free((char *)twice.at);
    (void)close(fd);
}

/* A server with the defaults reads this file. */
static void check_reload(const char *path, const struct config *fresh)
{
    char error[CONFIG_ERROR_MAX];
    char ignored[4096];
    struct config running;
    struct config taken;
    const struct config_options options = {.file = path};
    config_defaults(&running);
    CHECK(config_reload(&options, &running, &taken, ignored, sizeof(ignored), error,
                        sizeof(error)) == 0);
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        CHECK(config_same(&taken, setting->when == CONFIG_RELOAD ? fresh : &running, setting));
    }
}

static void check_file(struct span content)
{
    char path[PATH_MAX_BYTES];
    char error[CONFIG_ERROR_MAX];
    struct config config;
    int fd = memory_file(content, path);
    if (load(path, NULL, &config, error) == 0) {
        check_bounds(&config);
        check_printed(&config);
        check_reload(path, &config);
    } else {
        check_error(error);
        check_place(error, path, content);
    }
    (void)close(fd);
}

static void check_set(struct span content)
{
    char text[2048];
    char error[CONFIG_ERROR_MAX];
    struct config config;
    size_t len = content.len < sizeof(text) - 1 ? content.len : sizeof(text) - 1;
    memcpy(text, content.at, len);
    text[len] = '\0';
    if (load(NULL, text, &config, error) == 0) {
        check_bounds(&config);
        check_printed(&config);
    } else {
        check_error(error);
        CHECK(strncmp(error, "--set ", 6) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    bool set = fuzz_below(&in, 4) == 3;
    struct span content = fuzz_span(&in, in.left);
    if (set && content.len > 0) {
        check_set(content);
    } else {
        check_file(content);
    }
    return 0;
}
