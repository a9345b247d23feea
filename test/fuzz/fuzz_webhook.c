/*
 * Webhook signatures. The header of signatures is put together from pieces: the right one, the
 * right one changed, one by another key, of another message, words of other versions, the fuzzer's
 * own bytes. webhook_verify must say exactly what a naive reading says: the id is there, the
 * timestamp is a plain number not further from now than the window, and one of the words between
 * spaces is "v1," and the base64 that libsodium gives for HMAC-SHA256 of id.timestamp.body.
 *
 * A sixteenth of the inputs is a secret as payment systems show it, whsec_ and base64, in the file
 * it is read from: taken where libsodium reads 24 to 64 bytes of it, and as those bytes.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sodium.h>

#include "api/token.h"
#include "app/secrets.h"

#define MAC_TEXT (((CRYPT_HMAC_BYTES + 2) / 3) * 4)

struct message {
    struct span key;
    struct span id;
    struct span timestamp;
    struct span body;
};

/* "v1,BASE64" of this message. */
static void sign(const struct message *m, char ret_word[3 + MAC_TEXT + 1])
{
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_state state;
    struct span dot = span_of(".");
    struct span parts[] = {m->id, dot, m->timestamp, dot, m->body};
    crypto_auth_hmacsha256_init(&state, (const unsigned char *)m->key.at, m->key.len);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)parts[i].at, parts[i].len);
    }
    crypto_auth_hmacsha256_final(&state, mac);
    memcpy(ret_word, "v1,", 3);
    CHECK(sodium_bin2base64(ret_word + 3, MAC_TEXT + 1, mac, sizeof(mac),
                            sodium_base64_VARIANT_ORIGINAL) != NULL);
}

/* One piece of the header. */
static void draw_word(struct fuzz_input *in, const struct message *m, struct out *header)
{
    char word[3 + MAC_TEXT + 1];
    struct message other = *m;
    size_t at = 0;
    switch (fuzz_below(in, 8)) {
    case 0:
    case 1:
        break;
    case 2:
        other.key = fuzz_span(in, fuzz_below(in, WEBHOOK_KEY_MAX));
        break;
    case 3:
        other.body = fuzz_span(in, fuzz_byte(in));
        break;
    case 4:
        other.timestamp = fuzz_span(in, fuzz_below(in, 16));
        break;
    case 5: /* the right one, one bit off */
        sign(m, word);
        at = fuzz_below(in, 3 + MAC_TEXT);
        word[at] ^= (char)(1U << fuzz_below(in, 8));
        out_bytes(header, word, 3 + MAC_TEXT);
        return;
    case 6: /* the right one in another form: no version, another version, no padding */
        sign(m, word);
        out_text(header, (const char *[]){"", "v1a,", "V1,", "v1"}[fuzz_below(in, 4)]);
        out_bytes(header, word + 3, MAC_TEXT - fuzz_below(in, 3));
        return;
    default:
        out_put(header, fuzz_span(in, fuzz_below(in, 80)));
        return;
    }
    sign(&other, word);
    out_bytes(header, word, 3 + MAC_TEXT);
}

static bool in_window(struct span timestamp, int64_t now_ms, int64_t window_s)
{
    int64_t at_s = 0;
    if (timestamp.len == 0 || timestamp.len > 12 || (timestamp.at[0] == '0' && timestamp.len > 1)) {
        return false;
    }
    for (size_t i = 0; i < timestamp.len; i++) {
        if (timestamp.at[i] < '0' || timestamp.at[i] > '9') {
            return false;
        }
        at_s = at_s * 10 + (timestamp.at[i] - '0');
    }
    int64_t off_s = now_ms / 1000 - at_s;
    return at_s <= TIME_MAX_MS / 1000 && (off_s < 0 ? -off_s : off_s) <= window_s;
}

static bool expected(const struct message *m, struct span header, int64_t now_ms, int64_t window_s)
{
    char word[3 + MAC_TEXT + 1];
    sign(m, word);
    bool found = false;
    for (size_t from = 0; from <= header.len; from++) {
        size_t end = from;
        while (end < header.len && header.at[end] != ' ') {
            end++;
        }
        found = span_is((struct span){header.at + from, end - from}, word) || found;
        from = end;
    }
    return found && m->id.len > 0 && in_window(m->timestamp, now_ms, window_s);
}

/* ---- the secret's file ---- */

#define DIR_MAX 400
#define FILE_MAX (DIR_MAX + 32)

static char data_dir[DIR_MAX];

static void file_of(const char *name, char ret_path[FILE_MAX])
{
    (void)snprintf(ret_path, FILE_MAX, "%s/%s", data_dir, name);
}

static void data_dir_remove(void)
{
    static const char *const names[] = {"jwt.key", "ticket.key", "webhook.key", "admin.token"};
    char path[FILE_MAX];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        file_of(names[i], path);
        (void)unlink(path);
    }
    (void)rmdir(data_dir);
}

/* A folder with all other secrets, once for the whole run. libFuzzer ends without atexit();
 * script/fuzz gives it a TMPDIR and removes that. */
static void data_dir_make(void)
{
    if (data_dir[0] == '\0') {
        struct secrets secrets;
        char error[SECRETS_ERROR_MAX];
        const char *folder = getenv("TMPDIR");
        (void)snprintf(data_dir, sizeof(data_dir), "%s/sluice-fuzz-XXXXXX",
                       folder != NULL ? folder : "/tmp");
        CHECK(mkdtemp(data_dir) != NULL);
        CHECK(secrets_load(data_dir, true, &secrets, error, sizeof(error)) == 0);
        CHECK(atexit(data_dir_remove) == 0);
    }
}

static void check_secret(struct fuzz_input *in)
{
    char path[FILE_MAX];
    char text[256];
    unsigned char key[128];
    size_t key_len = 0;
    struct span raw = fuzz_span(in, fuzz_below(in, 80));
    CHECK(sodium_bin2base64(text, sizeof(text), (const unsigned char *)raw.at, raw.len,
                            sodium_base64_VARIANT_ORIGINAL) != NULL);
    size_t len = strlen(text);
    uint32_t at = fuzz_byte(in);
    if (at < len) {
        text[at] = (char)fuzz_byte(in);
    }
    if (len == 0 || memchr(text, ' ', len) != NULL || memchr(text, '\n', len) != NULL) {
        return; /* another line, or a label */
    }
    data_dir_make();
    file_of("webhook.key", path);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs("whsec_", file) >= 0 && fwrite(text, 1, len, file) == len);
    CHECK(fputc('\n', file) == '\n' && fclose(file) == 0);
    bool ascii = true; /* libsodium 1.0.18 takes some of the bytes above for letters */
    for (size_t i = 0; i < len; i++) {
        ascii = (unsigned char)text[i] < 0x80 && ascii;
    }
    bool right = ascii &&
                 sodium_base642bin(key, sizeof(key), text, len, NULL, &key_len, NULL,
                                   sodium_base64_VARIANT_ORIGINAL) == 0 &&
                 key_len >= 24 && key_len <= WEBHOOK_KEY_MAX;
    struct secrets secrets;
    char error[SECRETS_ERROR_MAX];
    CHECK((secrets_load(data_dir, false, &secrets, error, sizeof(error)) == 0) == right);
    if (right) {
        CHECK(secrets.webhook_key_len == key_len);
        CHECK(memcmp(secrets.webhook_key, key, key_len) == 0);
    }
}

/* ---- the signature ---- */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    char number[32];
    char memory[2048];
    struct out text = out_over(number, sizeof(number));
    CHECK(crypt_start() == 0);
    if (fuzz_below(&in, 16) == 15) {
        check_secret(&in);
        return 0;
    }
    int64_t now_ms = (int64_t)(fuzz_number(&in, 6) % (uint64_t)TIME_MAX_MS);
    int64_t window_s = (int64_t)fuzz_number(&in, 2);
    struct message message;
    message.key = fuzz_span(&in, fuzz_below(&in, WEBHOOK_KEY_MAX + 1));
    message.id = fuzz_span(&in, fuzz_below(&in, 20));
    /* Around now, at the edges of the window and beyond, or any bytes. */
    static const int64_t off[] = {0, -1, 1, 2, -2};
    uint32_t when = fuzz_byte(&in);
    if (when < 200) {
        int64_t edge = (int64_t)(when % 3) - 1;
        out_i64(&text, now_ms / 1000 + edge * window_s + off[when % 5]);
        message.timestamp = out_span(&text);
    } else {
        message.timestamp = fuzz_span(&in, when - 200);
    }
    message.body = fuzz_span(&in, fuzz_byte(&in));
    struct out header = out_over(memory, sizeof(memory));
    for (uint32_t words = fuzz_below(&in, 6); words > 0; words--) {
        draw_word(&in, &message, &header);
        out_text(&header, words == 1 ? "" : " ");
    }
    CHECK(!header.overflow);
    bool want = expected(&message, out_span(&header), now_ms, window_s);
    CHECK(webhook_verify(message.key, message.id, message.timestamp, out_span(&header),
                         message.body, now_ms, window_s) == want);
    return 0;
}
