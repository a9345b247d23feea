/*
 * amqp://user[:password]@host[:port]/vhost. User, password and virtual host may contain %XX. The
 * default virtual host is "/". An IPv6 host is in brackets.
 */
#include "backend/amqp/address.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/url.h"

#define SCHEME "amqp://"
#define PORT_DEFAULT 5672

/* Returns what is wrong, or NULL. */
static const char *parse(const char *url, struct amqp_address *address)
{
    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0) {
        return "it must begin with " SCHEME;
    }
    struct span path = span_of(url + strlen(SCHEME));
    struct span authority;
    struct span login;
    if (!url_cut(&path, '/', false, &authority)) {
        authority = path;
        path = (struct span){NULL, 0};
    }
    if (!url_cut(&authority, '@', true, &login)) {
        return "the user is missing";
    }
    const char *wrong = url_login(login, address->user, sizeof(address->user), address->password,
                                  sizeof(address->password));
    if (wrong == NULL) {
        wrong =
            url_host(authority, PORT_DEFAULT, address->host, sizeof(address->host), &address->port);
    }
    if (wrong != NULL) {
        return wrong;
    }
    if (path.len == 0) {
        path = span_of("%2f");
    }
    if (memchr(path.at, '/', path.len) != NULL || memchr(path.at, '?', path.len) != NULL ||
        !url_decode(path, address->vhost, sizeof(address->vhost))) {
        return "the virtual host is malformed (special characters are written %XX)";
    }
    return NULL;
}

int amqp_address_parse(const char *url, struct amqp_address *ret_address, char *ret_error,
                       size_t capacity)
{
    struct amqp_address address = {.port = 0};
    const char *wrong = parse(url, &address);
    if (wrong != NULL) {
        (void)snprintf(ret_error, capacity,
                       "the broker's URL is not amqp://user[:password]@host[:port]/vhost: %s",
                       wrong);
        return ERR_INVALID;
    }
    *ret_address = address;
    return 0;
}

int amqp_address_password(struct amqp_address *address, const char *path, char *ret_error,
                          size_t capacity)
{
    return url_password_file(path, "the broker's", address->password, sizeof(address->password),
                             ret_error, capacity);
}
