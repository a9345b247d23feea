/* CLOCK_REALTIME and CLOCK_BOOTTIME; both are read without entering the kernel. */
#define _GNU_SOURCE /* ntp_adjtime */
#include "backend/posix/clock_posix.h"

#include <sys/timex.h>
#include <time.h>

#include "base/check.h"

static int64_t wall_ms(struct clock_port *clock)
{
    (void)clock;
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t boot_us(struct clock_port *clock)
{
    (void)clock;
    struct timespec now;
    CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool confirmed(struct clock_port *clock)
{
    (void)clock;
    struct timex state = {.modes = 0}; /* asks, and sets nothing */
    int found = ntp_adjtime(&state);
    return found >= 0 && found != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
}

struct clock_port *clock_posix(void)
{
    static const struct clock_ops ops = {
        .wall_ms = wall_ms, .boot_us = boot_us, .confirmed = confirmed};
    static struct clock_port clock = {.ops = &ops};
    return &clock;
}
