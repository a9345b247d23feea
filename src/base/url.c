/* See url.h. */
#include "base/url.h"

#include <stdio.h>

#include "base/err.h"

#define LINE_MAX_BYTES 1024

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool url_decode(struct span text, char *ret_text, size_t capacity)
{
    size_t length = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_value(text.at[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_value(text.at[i + 2]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0)) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (length + 1 >= capacity) {
            return false;
        }
        ret_text[length++] = c;
    }
    ret_text[length] = '\0';
    return true;
}

bool url_cut(struct span *rest, char mark, bool last, struct span *ret_part)
{
    const char *at = NULL;
    for (size_t i = 0; i < rest->len; i++) {
        if (rest->at[i] == mark) {
            at = rest->at + i;
            if (!last) {
                break;
            }
        }
    }
    if (at == NULL) {
        return false;
    }
    size_t length = (size_t)(at - rest->at);
    *ret_part = (struct span){rest->at, length};
    *rest = (struct span){at + 1, rest->len - length - 1};
    return true;
}

const char *url_host(struct span text, uint16_t port_default, char *ret_host, size_t capacity,
                     uint16_t *ret_port)
{
    struct span host = text;
    struct span port = {NULL, 0};
    uint64_t number = port_default;
    if (text.len > 0 && text.at[0] == '[') {
        struct span inside = {text.at + 1, text.len - 1};
        if (!url_cut(&inside, ']', false, &host) || (inside.len > 0 && inside.at[0] != ':')) {
            return "the address in brackets is not closed";
        }
        if (inside.len > 0) {
            port = (struct span){inside.at + 1, inside.len - 1};
        }
    } else {
        struct span rest = text;
        if (url_cut(&rest, ':', false, &host)) {
            port = rest;
        }
    }
    if (port.at == NULL && port_default == 0) {
        return "the port is missing";
    }
    if (port.at != NULL && (span_parse_u64(port, 65535, &number) != 0 || number == 0)) {
        return "the port must be a number from 1 to 65535";
    }
    if (host.len == 0 || !url_decode(host, ret_host, capacity)) {
        return "the host is missing";
    }
    *ret_port = (uint16_t)number;
    return NULL;
}

const char *url_login(struct span text, char *ret_user, size_t user_capacity, char *ret_password,
                      size_t password_capacity)
{
    struct span user;
    struct span password = text;
    if (!url_cut(&password, ':', false, &user)) {
        user = text;
        password = (struct span){NULL, 0};
    }
    if (user.len == 0 || !url_decode(user, ret_user, user_capacity)) {
        return "the user is missing or malformed";
    }
    if (!url_decode(password, ret_password, password_capacity)) {
        return "the password is malformed (special characters are written %XX)";
    }
    return NULL;
}

int url_password_file(const char *path, const char *whose, char *ret_password, size_t capacity,
                      char *ret_error, size_t error_capacity)
{
    return url_secret_file(path, whose, "password", ret_password, capacity, ret_error,
                           error_capacity);
}

int url_secret_file(const char *path, const char *whose, const char *what, char *ret_secret,
                    size_t capacity, char *ret_error, size_t error_capacity)
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)snprintf(ret_error, error_capacity, "cannot read %s %s file %s: %m", whose, what,
                       path);
        return ERR_IO;
    }
    char *got = fgets(line, sizeof(line), file);
    (void)fclose(file);
    size_t length = got == NULL ? 0 : strcspn(line, "\r\n");
    if (length == 0 || length >= capacity) {
        (void)snprintf(ret_error, error_capacity,
                       "%s %s file %s must hold the %s in its first line", whose, what, path, what);
        return ERR_INVALID;
    }
    memcpy(ret_secret, line, length);
    ret_secret[length] = '\0';
    return 0;
}
