/* Standard error, kept: what a piece of code writes there between begin and end, as text. */
#ifndef SLUICE_TEST_CAPTURED_H
#define SLUICE_TEST_CAPTURED_H

void captured_begin(void);
/* The text, valid until the next begin. */
const char *captured_end(void);

#endif
