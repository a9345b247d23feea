/*
 * Runs a fuzz target on inputs that are kept, without libFuzzer: any compiler builds it, and
 * script/test runs it in every build.
 *
 *   fuzz_NAME PATH...             each file, and each file of each folder; all must hold
 *   fuzz_NAME --must-fail PATH... each one must end the process: the canary's inputs
 *
 * An input's name is printed before it runs, so the last line tells which one failed. No input at
 * all is a failure, too: a corpus that was not found proves nothing.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

static unsigned inputs;
static bool must_fail;
static bool wrong;

static void fail(const char *what, const char *path)
{
    (void)fprintf(stderr, "replay: %s: %s\n", what, path);
    exit(2);
}

static uint8_t *read_file(const char *path, size_t *ret_size)
{
    struct stat facts;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &facts) != 0) {
        fail("cannot read", path);
    }
    size_t size = (size_t)facts.st_size;
    uint8_t *bytes = malloc(size + 1); /* the target must not count on a byte behind the input */
    if (bytes == NULL || fread(bytes, 1, size, file) != size) {
        fail("cannot read", path);
    }
    (void)fclose(file);
    *ret_size = size;
    return bytes;
}

static void run_bytes(const uint8_t *bytes, size_t size)
{
    /* A copy of exactly this size: a sanitizer sees who reads beyond it. */
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL) {
        fail("no memory", "");
    }
    memcpy(exact, bytes, size);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* True if the input ends the process that runs it. */
static bool ends_process(const uint8_t *bytes, size_t size)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        run_bytes(bytes, size);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        fail("cannot run a process of its own", "");
    }
    return status != 0;
}

static void run_file(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = read_file(path, &size);
    (void)printf("%s\n", path);
    (void)fflush(stdout);
    inputs++;
    if (!must_fail) {
        run_bytes(bytes, size);
    } else if (!ends_process(bytes, size)) {
        (void)printf("this input must fail, and does not\n");
        wrong = true;
    }
    free(bytes);
}

static void run_path(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        fail("no such file", path);
    }
    if (!S_ISDIR(facts.st_mode)) {
        run_file(path);
        return;
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4096];
        (void)snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            run_file(name);
        }
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    int first = 1;
    if (argc > 1 && strcmp(argv[1], "--must-fail") == 0) {
        must_fail = true;
        first = 2;
    }
    for (int i = first; i < argc; i++) {
        run_path(argv[i]);
    }
    (void)printf("replay: %u inputs%s\n", inputs, must_fail ? " that must fail" : "");
    return inputs == 0 || wrong;
}
