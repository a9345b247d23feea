/* See resolve.h. */
#define _GNU_SOURCE /* getaddrinfo_a */
#include "backend/amqp/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/err.h"

struct resolve {
    struct gaicb request;
    struct addrinfo hints;
    char host[256];
    char port[8];
    int code; /* of getaddrinfo */
};

int resolve_start(const char *host, uint16_t port, struct resolve **ret_resolve)
{
    struct resolve *resolve = calloc(1, sizeof(*resolve));
    if (resolve == NULL) {
        return ERR_NOMEM;
    }
    (void)snprintf(resolve->host, sizeof(resolve->host), "%s", host);
    (void)snprintf(resolve->port, sizeof(resolve->port), "%u", (unsigned)port);
    resolve->hints = (struct addrinfo){.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                       .ai_family = AF_UNSPEC,
                                       .ai_socktype = SOCK_STREAM};
    resolve->code =
        getaddrinfo(resolve->host, resolve->port, &resolve->hints, &resolve->request.ar_result);
    if (resolve->code == EAI_NONAME) {
        struct gaicb *list[1] = {&resolve->request};
        resolve->hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
        resolve->request = (struct gaicb){
            .ar_name = resolve->host, .ar_service = resolve->port, .ar_request = &resolve->hints};
        resolve->code = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
        resolve->code = resolve->code == 0 ? EAI_INPROGRESS : resolve->code;
    }
    *ret_resolve = resolve;
    return 0;
}

int resolve_look(struct resolve *resolve, const struct addrinfo **ret_list, const char **ret_reason)
{
    if (resolve->code == EAI_INPROGRESS) {
        resolve->code = gai_error(&resolve->request);
    }
    if (resolve->code == EAI_INPROGRESS) {
        return ERR_AGAIN;
    }
    if (resolve->code != 0) {
        *ret_reason = gai_strerror(resolve->code);
        return ERR_NOTFOUND;
    }
    *ret_list = resolve->request.ar_result;
    return 0;
}

void resolve_end(struct resolve *resolve)
{
    if (resolve == NULL) {
        return;
    }
    if (resolve->code == EAI_INPROGRESS) {
        resolve->code = gai_error(&resolve->request);
    }
    if (resolve->code == EAI_INPROGRESS && gai_cancel(&resolve->request) == EAI_NOTCANCELED) {
        return; /* glibc's thread still writes there, and there is no notice when it stops: leak
                 * it */
    }
    if (resolve->code == 0) {
        freeaddrinfo(resolve->request.ar_result);
    }
    free(resolve);
}
