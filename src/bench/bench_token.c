/*
 * Keys, tokens and signatures of the load tool. Happy path: three small files are read once; after
 * that every call is pure. What can go wrong: a file is missing, unreadable or not a key.
 */
#include "bench/bench_token.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

/* The first line of a file, without its end. */
static int line_read(const char *path, char *ret_line, size_t cap, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return ERR_IO;
    }
    ssize_t n = read(fd, ret_line, cap - 1);
    (void)close(fd);
    if (n < 0) {
        return ERR_IO;
    }
    ret_line[n] = '\0';
    *ret_len = strcspn(ret_line, "\r\n");
    ret_line[*ret_len] = '\0';
    return 0;
}

static int key_read(const char *path, uint8_t *ret_key)
{
    char line[BENCH_TOKEN_MAX];
    size_t len = 0;
    int error = line_read(path, line, sizeof(line), &len);
    if (error != 0) {
        return error;
    }
    size_t key_len = 0;
    error = base64url_decode((struct span){line, len}, ret_key, CRYPT_KEY_BYTES, &key_len);
    return error != 0 || key_len != CRYPT_KEY_BYTES ? ERR_INVALID : 0;
}

int bench_keys_load(const char *data, struct bench_keys *ret_keys, char *ret_path, size_t path_cap)
{
    struct bench_keys keys;
    (void)snprintf(ret_path, path_cap, "%s/jwt.key", data);
    int error = key_read(ret_path, keys.jwt);
    if (error == 0) {
        (void)snprintf(ret_path, path_cap, "%s/webhook.key", data);
        error = key_read(ret_path, keys.webhook);
    }
    if (error == 0) {
        size_t len = 0;
        (void)snprintf(ret_path, path_cap, "%s/admin.token", data);
        error = line_read(ret_path, keys.admin_token, sizeof(keys.admin_token), &len);
    }
    if (error == 0) {
        *ret_keys = keys;
    }
    return error;
}

size_t bench_token_write(const struct bench_keys *keys, uint64_t user, int64_t expires_at_s,
                         char *ret_token)
{
    static const char header[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";
    char claims[96];
    struct out out = out_over(claims, sizeof(claims));
    out_lit(&out, "{\"sub\":\"");
    out_u64(&out, user);
    out_lit(&out, "\",\"exp\":");
    out_i64(&out, expires_at_s);
    out_char(&out, '}');
    CHECK(!out.overflow);

    size_t len = base64url_len(sizeof(header) - 1);
    base64url_encode(header, sizeof(header) - 1, ret_token);
    ret_token[len++] = '.';
    base64url_encode(claims, out.len, ret_token + len);
    len += base64url_len(out.len);
    uint8_t tag[CRYPT_HMAC_BYTES];
    struct span key = {(const char *)keys->jwt, sizeof(keys->jwt)};
    struct span signed_part = {ret_token, len};
    crypt_hmac_sha256(key, &signed_part, 1, tag);
    ret_token[len++] = '.';
    base64url_encode(tag, sizeof(tag), ret_token + len);
    len += base64url_len(sizeof(tag));
    CHECK(len <= BENCH_TOKEN_MAX);
    return len;
}

void bench_signature_write(const struct bench_keys *keys, struct span id, struct span timestamp,
                           struct span body, char *ret_signature)
{
    struct span parts[] = {id, {".", 1}, timestamp, {".", 1}, body};
    uint8_t tag[CRYPT_HMAC_BYTES];
    struct span key = {(const char *)keys->webhook, sizeof(keys->webhook)};
    crypt_hmac_sha256(key, parts, sizeof(parts) / sizeof(parts[0]), tag);
    memcpy(ret_signature, "v1,", 3);
    base64_encode(tag, sizeof(tag), ret_signature + 3);
}
