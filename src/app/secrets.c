/*
 * Reads and creates the secrets of a data folder.
 *
 * Happy path: each file is read as a whole and parsed line by line. On the first start, a missing
 * file is written under a temporary name, synced and renamed, and the folder is synced. A crash
 * leaves the whole file or none, never a key that changes at the next start.
 *
 * What can go wrong: a file is missing, unreadable or malformed. It is refused with its path and
 * line. A message never contains a secret.
 */
#define _GNU_SOURCE /* strerrordesc_np */
#include "app/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define SECRET_FILE_MAX 16384
#define PATH_MAX_BYTES 1024

/* The files created on the first start: name, random bytes. */
#define SECRET_FILES(X)                                                                            \
    X("jwt.key", CRYPT_KEY_BYTES)                                                                  \
    X("webhook.key", CRYPT_KEY_BYTES)                                                              \
    X("ticket.key", CRYPT_SIP_KEY_BYTES)                                                           \
    X("admin.token", CRYPT_KEY_BYTES)

/* The file being read, for messages. */
struct source {
    const char *data_dir;
    const char *name;
    int line;
    char *error;
    size_t error_cap;
    struct secrets *secrets;
};

static int refuse(const struct source *source, const char *problem)
{
    (void)snprintf(source->error, source->error_cap, "%s/%s:%d: %s", source->data_dir, source->name,
                   source->line, problem);
    return ERR_INVALID;
}

static int fail(const struct source *source, int error, const char *problem)
{
    (void)snprintf(source->error, source->error_cap, "%s/%s: %s", source->data_dir, source->name,
                   problem);
    return error;
}

static int path_make(const struct source *source, const char *suffix, char ret_path[PATH_MAX_BYTES])
{
    int len = snprintf(ret_path, PATH_MAX_BYTES, "%s/%s%s", source->data_dir, source->name, suffix);
    return len < PATH_MAX_BYTES ? 0 : fail(source, ERR_INVALID, "the path is too long");
}

/* Adds a warning if others can read the secret; the file is used anyway. */
static void mode_look(const struct source *source, mode_t mode)
{
    char *warning = source->secrets->warning;
    size_t len = strlen(warning);
    if ((mode & 077) != 0) {
        (void)snprintf(warning + len, sizeof(source->secrets->warning) - len, "%s%s",
                       len > 0 ? ", " : "", source->name);
    }
}

/* Reads the whole file into ret_text, which has SECRET_FILE_MAX bytes. */
static int file_read(const struct source *source, bool is_secret, char *ret_text, size_t *ret_len)
{
    char path[PATH_MAX_BYTES];
    int error = path_make(source, "", path);
    if (error != 0) {
        return error;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(source, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, strerrordesc_np(errno));
    }
    struct stat facts;
    if (is_secret && fstat(fd, &facts) == 0) {
        mode_look(source, facts.st_mode);
    }
    size_t len = 0;
    ssize_t n = 1;
    while (n > 0 && len < SECRET_FILE_MAX) {
        n = read(fd, ret_text + len, SECRET_FILE_MAX - len);
        len += n > 0 ? (size_t)n : 0;
    }
    int number = errno;
    (void)close(fd);
    if (n < 0) {
        return fail(source, ERR_IO, strerrordesc_np(number));
    }
    if (len == SECRET_FILE_MAX) {
        return fail(source, ERR_INVALID, "too long for what it should be");
    }
    *ret_len = len;
    return 0;
}

/* One line: `key` (label.at is NULL) or `label key`. */
typedef int line_taker(const struct source *source, struct span label, struct span key);

static int lines_read(struct source *source, bool is_secret, line_taker *take)
{
    char text[SECRET_FILE_MAX];
    size_t len = 0;
    int error = file_read(source, is_secret, text, &len);
    bool any = false;
    source->line = 0;
    for (size_t at = 0; error == 0 && at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        struct span line = {text + at, end != NULL ? (size_t)(end - text) - at : len - at};
        at += line.len + 1;
        source->line++;
        if (line.len == 0) {
            continue;
        }
        any = true;
        const char *space = memchr(line.at, ' ', line.len);
        struct span label = {NULL, 0};
        struct span key = line;
        if (space != NULL) {
            label = (struct span){line.at, (size_t)(space - line.at)};
            key = (struct span){space + 1, line.len - label.len - 1};
        }
        error = take(source, label, key);
    }
    if (error == 0 && !any) {
        error = fail(source, ERR_INVALID, "empty");
    }
    explicit_bzero(text, sizeof(text));
    return error;
}

static int key_decode(const struct source *source, struct span text, uint8_t *ret_key, size_t size)
{
    size_t len = 0;
    if (base64url_decode(text, ret_key, size, &len) != 0 || len != size) {
        char problem[96];
        (void)snprintf(problem, sizeof(problem),
                       "a key must be %zu characters of base64url (%zu bytes, no padding)",
                       base64url_len(size), size);
        return refuse(source, problem);
    }
    return 0;
}

/* Visible ASCII. */
static bool is_word(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] <= 0x20 || text.at[i] > 0x7e) {
            return false;
        }
    }
    return text.len > 0;
}

static int token_key_take(const struct source *source, enum token_algorithm algorithm,
                          struct span kid, struct span text)
{
    struct token_keys *keys = &source->secrets->token_keys;
    struct token_key key = {.algorithm = algorithm};
    int error = key_decode(source, text, key.key, sizeof(key.key));
    if (error != 0) {
        return error;
    }
    if (kid.at != NULL && (!is_word(kid) || kid.len > TOKEN_KID_MAX)) {
        return refuse(source, "a kid must be 1 to 64 visible ASCII characters");
    }
    if (kid.at != NULL) {
        memcpy(key.kid, kid.at, kid.len);
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        if (kid.at != NULL && strcmp(keys->keys[i].kid, key.kid) == 0) {
            return refuse(source, "this kid is in use by an earlier key");
        }
    }
    if (keys->count == TOKEN_KEYS_MAX) {
        return refuse(source, "too many keys");
    }
    keys->keys[keys->count++] = key;
    return 0;
}

static int jwt_take(const struct source *source, struct span kid, struct span text)
{
    if (kid.at == NULL && source->secrets->token_keys.count > 0) {
        return refuse(source, "only the first key may be without a kid");
    }
    return token_key_take(source, TOKEN_HS256, kid, text);
}

static int eddsa_take(const struct source *source, struct span kid, struct span text)
{
    if (kid.at == NULL) {
        return refuse(source, "a line must be: kid key");
    }
    return token_key_take(source, TOKEN_EDDSA, kid, text);
}

static int ticket_take(const struct source *source, struct span label, struct span text)
{
    struct ticket_keys *keys = &source->secrets->ticket_keys;
    uint64_t number = 1;
    if (label.at != NULL && span_parse_u64(label, 255, &number) != 0) {
        return refuse(source, "the number of a key must be 0 to 255");
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].number == number) {
            return refuse(source, "this number is in use by an earlier key");
        }
    }
    if (keys->count == TICKET_KEYS_MAX) {
        return refuse(source, "too many keys");
    }
    keys->keys[keys->count].number = (uint8_t)number;
    int error = key_decode(source, text, keys->keys[keys->count].key, CRYPT_SIP_KEY_BYTES);
    keys->count += error == 0;
    return error;
}

static int webhook_take(const struct source *source, struct span label, struct span text)
{
    if (label.at != NULL || source->line != 1) {
        return refuse(source, "one key is wanted, on the first line");
    }
    static const char prefix[] = "whsec_";
    struct secrets *secrets = source->secrets;
    size_t skip = sizeof(prefix) - 1;
    if (text.len > skip && memcmp(text.at, prefix, skip) == 0) {
        struct span coded = {text.at + skip, text.len - skip};
        int error = base64_decode(coded, secrets->webhook_key, sizeof(secrets->webhook_key),
                                  &secrets->webhook_key_len);
        return error == 0 && secrets->webhook_key_len >= 24
                   ? 0
                   : refuse(source, "whsec_ must be followed by padded base64 of 24 to 64 bytes");
    }
    secrets->webhook_key_len = CRYPT_KEY_BYTES;
    return key_decode(source, text, secrets->webhook_key, CRYPT_KEY_BYTES);
}

static int admin_take(const struct source *source, struct span label, struct span text)
{
    if (label.at != NULL || source->line != 1 || !is_word(text)) {
        return refuse(source, "one token is wanted, on the first line");
    }
    if (text.len < ADMIN_TOKEN_MIN || text.len > ADMIN_TOKEN_MAX) {
        return refuse(source, "the token must have 16 to 127 characters");
    }
    memcpy(source->secrets->admin_token, text.at, text.len);
    source->secrets->admin_token[text.len] = '\0';
    return 0;
}

/* Writes and syncs a new file. Removes the remains of an earlier attempt first. */
static int file_write(const char *path, const char *bytes, size_t len)
{
    if (unlink(path) != 0 && errno != ENOENT) {
        return ERR_IO;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno == ENOSPC ? ERR_NOSPACE : ERR_IO;
    }
    ssize_t n = write(fd, bytes, len);
    int error = n == (ssize_t)len && fsync(fd) == 0 ? 0 : errno == ENOSPC ? ERR_NOSPACE : ERR_IO;
    if (close(fd) != 0 && error == 0) {
        error = ERR_IO;
    }
    return error;
}

/* Creates one secret if it does not exist. The folder is not synced yet. */
static int secret_make(const struct source *source, size_t size, bool *ret_made)
{
    char path[PATH_MAX_BYTES];
    char fresh[PATH_MAX_BYTES];
    int error = path_make(source, "", path);
    if (error == 0) {
        error = path_make(source, ".new", fresh);
    }
    if (error != 0 || access(path, F_OK) == 0) {
        return error;
    }
    uint8_t key[CRYPT_KEY_BYTES];
    char text[64];
    size_t len = base64url_len(size);
    crypt_random(key, size);
    base64url_encode(key, size, text);
    text[len++] = '\n';
    error = file_write(fresh, text, len);
    if (error == 0 && rename(fresh, path) != 0) {
        error = ERR_IO;
    }
    if (error != 0) {
        return fail(source, error, err_text(error));
    }
    *ret_made = true;
    return 0;
}

static int folder_sync(const struct source *source)
{
    int fd = open(source->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd >= 0 && fsync(fd) == 0 ? 0 : fail(source, ERR_IO, strerrordesc_np(errno));
    if (fd >= 0) {
        (void)close(fd);
    }
    return error;
}

static void note_made(const struct source *source, bool fresh)
{
    char *made = source->secrets->made;
    size_t len = strlen(made);
    if (fresh) {
        (void)snprintf(made + len, sizeof(source->secrets->made) - len, "%s%s", len > 0 ? "," : "",
                       source->name);
    }
}

static int secrets_make(struct source *source)
{
    if (mkdir(source->data_dir, 0700) != 0 && errno != EEXIST) {
        (void)snprintf(source->error, source->error_cap, "%s: %s", source->data_dir,
                       strerrordesc_np(errno));
        return ERR_IO;
    }
    bool made = false;
    int error = 0;
#define X(name_, size)                                                                             \
    if (error == 0) {                                                                              \
        source->name = name_;                                                                      \
        bool fresh = false;                                                                        \
        error = secret_make(source, size, &fresh);                                                 \
        made = made || fresh;                                                                      \
        note_made(source, fresh);                                                                  \
    }
    SECRET_FILES(X)
#undef X
    return error == 0 && made ? folder_sync(source) : error;
}

int secrets_load(const char *data_dir, bool create, struct secrets *ret_secrets, char *ret_error,
                 size_t error_cap)
{
    static const struct {
        const char *name;
        line_taker *take;
        bool is_secret; /* and is required */
    } files[] = {
        {"jwt.key", jwt_take, true},       {"jwt-eddsa.pub", eddsa_take, false},
        {"ticket.key", ticket_take, true}, {"webhook.key", webhook_take, true},
        {"admin.token", admin_take, true},
    };
    struct secrets secrets = {0};
    struct source source = {
        .data_dir = data_dir, .error = ret_error, .error_cap = error_cap, .secrets = &secrets};
    int error = create ? secrets_make(&source) : 0;
    for (size_t i = 0; error == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
        source.name = files[i].name;
        error = lines_read(&source, files[i].is_secret, files[i].take);
        if (error == ERR_NOTFOUND && !files[i].is_secret) {
            error = 0;
        }
    }
    if (error == 0) {
        *ret_secrets = secrets;
    }
    explicit_bzero(&secrets, sizeof(secrets));
    return error;
}

int secrets_admin_token(const char *data_dir, char ret_token[ADMIN_TOKEN_MAX + 1], char *ret_error,
                        size_t error_cap)
{
    struct secrets secrets = {0};
    struct source source = {.data_dir = data_dir,
                            .name = "admin.token",
                            .error = ret_error,
                            .error_cap = error_cap,
                            .secrets = &secrets};
    int error = lines_read(&source, true, admin_take);
    if (error == 0) {
        memcpy(ret_token, secrets.admin_token, sizeof(secrets.admin_token));
    }
    return error;
}
