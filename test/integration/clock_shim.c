/* A wrong wall clock for test_start_clock.py, as a library for LD_PRELOAD: CLOCK_REALTIME is
 * SLUICE_CLOCK_AHEAD_S seconds ahead (or behind), and the kernel's NTP state is synchronised only if
 * SLUICE_CLOCK_NTP is set. The thread that SLUICE_CLOCK_STALLED names does not run, as if the machine
 * were too busy. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ret_now)
{
    const char *ahead = getenv("SLUICE_CLOCK_AHEAD_S");
    int result = (int)syscall(SYS_clock_gettime, id, ret_now);
    if (result == 0 && id == CLOCK_REALTIME && ahead != NULL) {
        ret_now->tv_sec += strtol(ahead, NULL, 10);
    }
    return result;
}

__attribute__((visibility("default"))) int ntp_adjtime(struct timex *state)
{
    bool synchronised = getenv("SLUICE_CLOCK_NTP") != NULL;
    state->status = synchronised ? 0 : STA_UNSYNC;
    return synchronised ? TIME_OK : TIME_ERROR;
}

__attribute__((visibility("default"))) int pthread_setname_np(pthread_t thread, const char *name)
{
    const char *stalled = getenv("SLUICE_CLOCK_STALLED");
    (void)thread;
    if (stalled != NULL && strcmp(name, stalled) == 0) {
        for (;;) {
            (void)pause();
        }
    }
    return 0;
}
