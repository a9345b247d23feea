/* See limit_files.h. */
#include "app/limit_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "obs/log.h"

/* The file's memory, or MAP_FAILED. */
static void *map_file(const char *path, size_t bytes)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return MAP_FAILED;
    }
    struct stat facts;
    void *memory = MAP_FAILED;
    /* A file of another size is another rule's. */
    bool right = fstat(fd, &facts) == 0 &&
                 ((size_t)facts.st_size == bytes || ftruncate(fd, 0) == 0) &&
                 posix_fallocate(fd, 0, (off_t)bytes) == 0;
    if (right) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    (void)close(fd);
    return memory;
}

static void *map(void *context, const char *name, size_t bytes)
{
    const struct limit_files *files = context;
    char path[sizeof(files->folder) + LIMIT_NAME_MAX + 2];
    (void)snprintf(path, sizeof(path), "%s/%s", files->folder, name);
    void *memory = map_file(path, bytes);
    if (memory == MAP_FAILED) {
        log_event(LOG_WARN, "limits.not_kept", LOG_STR("file", path),
                  LOG_STR("what", "this limit forgets its counts at a restart"),
                  LOG_STR("do", "free space in the data folder, then restart"));
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    return memory != MAP_FAILED ? memory : NULL;
}

static void unmap(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)munmap(memory, bytes);
}

int limit_files_open(struct limit_files *ret_files, const char *data_dir)
{
    *ret_files =
        (struct limit_files){.memory = {.context = ret_files, .open = map, .close = unmap}};
    (void)snprintf(ret_files->folder, sizeof(ret_files->folder), "%s/limits", data_dir);
    return mkdir(ret_files->folder, 0700) == 0 || errno == EEXIST ? 0 : ERR_IO;
}

void limits_warn(const struct config *config)
{
    for (uint32_t i = 0; config->redis_url[0] != '\0' && i < config->limits.count; i++) {
        if (config->limits.limits[i].rule.shared) {
            log_event(LOG_WARN, "limits.not_shared",
                      LOG_STR("limit", config->limits.limits[i].rule.name),
                      LOG_STR("what", "each front counts for itself"),
                      LOG_STR("do", "divide the rate by the number of fronts"));
        }
    }
}
