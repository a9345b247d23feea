/*
 * The machine's clocks. wall_ms may jump. boot_us only grows, and it counts while the machine
 * sleeps. port/inside_time.h combines both into the time the program decides with.
 */
#ifndef SLUICE_PORT_CLOCK_H
#define SLUICE_PORT_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock_port;

struct clock_ops {
    int64_t (*wall_ms)(struct clock_port *clock);
    int64_t (*boot_us)(struct clock_port *clock);
    /* True if something that knows the time has set the wall clock (the kernel's NTP state). NULL:
     * nobody knows. */
    bool (*confirmed)(struct clock_port *clock);
};

struct clock_port {
    const struct clock_ops *ops;
};

static inline int64_t clock_wall_ms(struct clock_port *c)
{
    return c->ops->wall_ms(c);
}
static inline int64_t clock_boot_us(struct clock_port *c)
{
    return c->ops->boot_us(c);
}
static inline bool clock_confirmed(struct clock_port *c)
{
    return c->ops->confirmed != NULL && c->ops->confirmed(c);
}

#endif
