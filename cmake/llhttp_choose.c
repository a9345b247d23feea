/*
 * Chooses at run time between the two copies of llhttp's parser that Llhttp.cmake compiles: for any
 * x86-64, and for one with SSE 4.2. The state of a parser is the same in both.
 */
#include <llhttp.h>

int llhttp__internal_execute_sse42(llhttp__internal_t *state, const char *p, const char *end);
int llhttp__internal_execute_chosen(llhttp__internal_t *state, const char *p, const char *end);

/* Called by llhttp's llhttp_execute() in place of llhttp__internal_execute(). */
int llhttp__internal_execute_chosen(llhttp__internal_t *state, const char *p, const char *end)
{
    return __builtin_cpu_supports("sse4.2") ? llhttp__internal_execute_sse42(state, p, end)
                                            : llhttp__internal_execute(state, p, end);
}
