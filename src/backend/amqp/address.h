/* The address of a broker, from its URL. */
#ifndef SLUICE_BACKEND_AMQP_ADDRESS_H
#define SLUICE_BACKEND_AMQP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

struct amqp_address {
    char user[128];
    char password[256];
    char host[256];
    char vhost[256];
    uint16_t port;
};

/* ERR_INVALID with the reason, which never shows the password. */
int amqp_address_parse(const char *url, struct amqp_address *ret_address, char *ret_error,
                       size_t capacity);
/* Replaces the password by the first line of a file. ERR_IO, ERR_INVALID. */
int amqp_address_password(struct amqp_address *address, const char *path, char *ret_error,
                          size_t capacity);

#endif
