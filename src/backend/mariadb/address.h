/* Where a ledger is: the parts of its URL. */
#ifndef SLUICE_BACKEND_MARIADB_ADDRESS_H
#define SLUICE_BACKEND_MARIADB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct maria_address {
    char user[128];
    char password[256];
    char host[256];
    char database[65];
    char socket[108];   /* empty: TCP */
    char ca[512];       /* empty: whom the system trusts */
    uint32_t databases; /* that the orders are split over; 1: they are not */
    uint16_t port;
    bool tls;
};

/* ERR_INVALID with the reason, which never shows the password. */
int maria_address_parse(const char *url, struct maria_address *ret_address, char *ret_error,
                        size_t capacity);
/* Replaces the password by the first line of a file. */
int maria_address_password(struct maria_address *address, const char *path, char *ret_error,
                           size_t capacity);

#endif
