/* port/clock.h from the system's clocks. One instance for the process; any thread may read it. */
#ifndef SLUICE_BACKEND_POSIX_CLOCK_POSIX_H
#define SLUICE_BACKEND_POSIX_CLOCK_POSIX_H

#include "port/clock.h"

struct clock_port *clock_posix(void);

#endif
