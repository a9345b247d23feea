/*
 * mariadb://user[:password]@host[:port]/database[?option&option]. User, password, database and the
 * options' values may hold %XX. An IPv6 host stands in brackets. Options: socket=/path instead of
 * TCP; ssl=1: TLS, with a certificate that is valid for the host; ca=/path: whose; databases=N: the
 * orders are split over N databases, the one named and those with _1, _2 ... behind its name.
 */
#include "backend/mariadb/address.h"

#include <stdio.h>
#include <string.h>

#include "backend/mariadb/split.h"
#include "base/err.h"
#include "base/url.h"

#define SCHEME "mariadb://"
#define PORT_DEFAULT 3306
#define DATABASE_NAME_MAX 64

static bool parse_path(struct span value, char *ret_path, size_t capacity)
{
    return value.len > 0 && value.at[0] == '/' && url_decode(value, ret_path, capacity);
}

/* A plain number from 1 to SPLIT_MAX. */
static bool parse_databases(struct span value, uint32_t *ret_databases)
{
    uint32_t number = 0;
    bool good = value.len > 0 && value.len <= 2 && value.at[0] != '0';
    for (size_t i = 0; i < value.len && good; i++) {
        good = value.at[i] >= '0' && value.at[i] <= '9';
        number = 10 * number + (uint32_t)(value.at[i] - '0');
    }
    *ret_databases = number;
    return good && number <= SPLIT_MAX;
}

/* What is wrong, or NULL. */
static const char *parse_options(struct span options, struct maria_address *address)
{
    static const char wrong[] =
        "the options are socket=/path/of/the/socket, ssl=1, ca=/path/of/the/certificates and"
        " databases=N, 1 to 16";
    bool more = true;
    while (more) {
        struct span option = options;
        struct span name;
        more = url_cut(&options, '&', false, &option);
        struct span value = option;
        if (!url_cut(&value, '=', false, &name)) {
            return wrong;
        }
        bool good = span_is(name, "socket")
                        ? parse_path(value, address->socket, sizeof(address->socket))
                    : span_is(name, "ca") ? parse_path(value, address->ca, sizeof(address->ca))
                    : span_is(name, "databases") ? parse_databases(value, &address->databases)
                                                 : span_is(name, "ssl") && span_is(value, "1");
        if (!good) {
            return wrong;
        }
        address->tls = address->tls || span_is(name, "ssl");
    }
    return address->ca[0] != '\0' && !address->tls ? "ca=/path is for ssl=1" : NULL;
}

/* What is wrong, or NULL. */
static const char *parse(const char *url, struct maria_address *address)
{
    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0) {
        return "it must begin with " SCHEME;
    }
    struct span rest = span_of(url + strlen(SCHEME));
    struct span path = rest;
    struct span authority;
    struct span options = {NULL, 0};
    struct span login;
    if (!url_cut(&path, '/', false, &authority)) {
        return "the database is missing";
    }
    struct span database = path;
    if (url_cut(&path, '?', false, &database)) {
        options = path;
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
    if (database.len == 0 || !url_decode(database, address->database, sizeof(address->database)) ||
        strchr(address->database, '/') != NULL) {
        return "the database is missing or malformed";
    }
    wrong = options.at == NULL ? NULL : parse_options(options, address);
    if (wrong == NULL && address->databases > 1 &&
        strlen(address->database) > DATABASE_NAME_MAX - strlen("_15")) {
        return "the database's name is too long for _1, _2 ... behind it";
    }
    return wrong;
}

int maria_address_parse(const char *url, struct maria_address *ret_address, char *ret_error,
                        size_t capacity)
{
    struct maria_address address = {.databases = 1};
    const char *wrong = parse(url, &address);
    if (wrong != NULL) {
        (void)snprintf(ret_error, capacity,
                       "the ledger's URL is not mariadb://user[:password]@host[:port]/database"
                       "[?options]: %s",
                       wrong);
        return ERR_INVALID;
    }
    *ret_address = address;
    return 0;
}

int maria_address_password(struct maria_address *address, const char *path, char *ret_error,
                           size_t capacity)
{
    return url_password_file(path, "the ledger's", address->password, sizeof(address->password),
                             ret_error, capacity);
}
