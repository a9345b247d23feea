/*
 * CHECK states what must be true of our own code. It stays on in release: a broken invariant stops
 * the process before it makes a wrong promise, and the journal restores the state. What peers,
 * disks and buyers do wrong is an error code, never a CHECK.
 */
#ifndef SLUICE_BASE_CHECK_H
#define SLUICE_BASE_CHECK_H

#define CHECK(e) ((e) ? (void)0 : check_failed(#e, __FILE__, __LINE__))

_Noreturn void check_failed(const char *expression, const char *file, int line);

#endif
