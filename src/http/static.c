/*
 * See static.h. A file's name depends on its bytes, which contain the names of the files it
 * mentions: so those are finished first, depth first. What can go wrong is the build's doing and
 * stops the start: no memory, or a circle.
 */
#define _GNU_SOURCE /* memmem */
#include "http/static.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"

#define PREFIX "/assets/"
#define HASH_BYTES 16 /* the least crypt_hash gives; the first half is used */
#define HASH_TEXT 16
#define PATH_MAX_BYTES 256
#define HEADERS_MAX 640

struct file {
    const struct web_asset *asset;
    char *rewritten; /* owned; NULL while the asset's own bytes are served */
    struct span body;
    const char *type;
    char path[PATH_MAX_BYTES];
    char etag[HASH_TEXT + 3]; /* with its quotes */
    char headers[HEADERS_MAX];
    enum { FILE_NEW, FILE_OPEN, FILE_DONE } state;
};

static struct {
    struct file *files;
    size_t count;
} site;

/* Extension, content type, whether it is text that may mention other files. */
#define TYPES(X)                                                                                   \
    X(".html", "text/html; charset=utf-8", true)                                                   \
    X(".css", "text/css; charset=utf-8", true)                                                     \
    X(".js", "text/javascript; charset=utf-8", true)                                               \
    X(".json", "application/json", false)                                                          \
    X(".svg", "image/svg+xml", false)                                                              \
    X(".png", "image/png", false)                                                                  \
    X(".jpg", "image/jpeg", false)                                                                 \
    X(".webp", "image/webp", false)                                                                \
    X(".ico", "image/x-icon", false)                                                               \
    X(".woff2", "font/woff2", false)                                                               \
    X(".txt", "text/plain; charset=utf-8", false)

static bool type_of(const char *path, const char **ret_type)
{
    const char *dot = strrchr(path, '.');
    *ret_type = "application/octet-stream";
#define X(ext, type, text)                                                                         \
    if (dot != NULL && strcmp(dot, ext) == 0) {                                                    \
        *ret_type = type;                                                                          \
        return text;                                                                               \
    }
    TYPES(X)
#undef X
    return false;
}

static bool is_path_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
}

/* The file that text[0..len), which begins with PREFIX, mentions; its length with the prefix. */
static struct file *mentioned(const char *text, size_t len, size_t *ret_len)
{
    size_t end = sizeof(PREFIX) - 1;
    while (end < len && is_path_char(text[end])) {
        end++;
    }
    struct span name = {text + sizeof(PREFIX) - 1, end - (sizeof(PREFIX) - 1)};
    for (size_t i = 0; i < site.count; i++) {
        if (span_is(name, site.files[i].asset->path)) {
            *ret_len = end;
            return &site.files[i];
        }
    }
    return NULL;
}

static int finish(struct file *file);

/* Copies the text with hashed names into out; with out NULL only counts. */
static int rewrite(struct span text, struct out *out, size_t *ret_len)
{
    size_t total = 0;
    for (size_t at = 0; at < text.len;) {
        size_t len = 1;
        struct span piece = {text.at + at, 1};
        if (text.len - at >= sizeof(PREFIX) && memcmp(piece.at, PREFIX, sizeof(PREFIX) - 1) == 0) {
            struct file *other = mentioned(piece.at, text.len - at, &len);
            if (other != NULL) {
                int err = finish(other);
                if (err != 0) {
                    return err;
                }
                piece = span_of(other->path);
            }
        }
        if (out != NULL) {
            out_put(out, piece);
        }
        total += piece.len;
        at += len;
    }
    *ret_len = total;
    return 0;
}

static int rewrite_file(struct file *file)
{
    struct span text = {(const char *)file->asset->data, file->asset->len};
    size_t len = 0;
    int err = rewrite(text, NULL, &len);
    if (err != 0 || len == 0) {
        return err;
    }
    file->rewritten = malloc(len);
    if (file->rewritten == NULL) {
        return ERR_NOMEM;
    }
    struct out out = out_over(file->rewritten, len);
    err = rewrite(text, &out, &len);
    CHECK(err == 0 && !out.overflow && out.len == len);
    file->body = out_span(&out);
    return 0;
}

static bool is_page(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash == NULL ? path : slash + 1, "index.html") == 0;
}

/* "index.html" is "/", "a/index.html" is "/a"; "a/b.js" becomes "/assets/a/b.<hash>.js". */
static int name_file(struct file *file, bool page, const char *hash)
{
    const char *path = file->asset->path;
    const char *dot = strrchr(path, '.');
    size_t stem = dot == NULL ? strlen(path) : (size_t)(dot - path);
    struct out out = out_over(file->path, sizeof(file->path));
    if (page) {
        size_t folder = strlen(path) - (sizeof("index.html") - 1);
        out_lit(&out, "/");
        out_bytes(&out, path, folder == 0 ? 0 : folder - 1);
    } else {
        out_lit(&out, PREFIX);
        out_bytes(&out, path, stem);
        out_char(&out, '.');
        out_text(&out, hash);
        out_text(&out, path + stem);
    }
    out_char(&out, '\0');
    return out.overflow ? ERR_INVALID : 0;
}

static void head_file(struct file *file, bool page)
{
    struct out out = out_over(file->headers, sizeof(file->headers));
    out_text(&out, page ? "Cache-Control: no-cache\r\n"
                        : "Cache-Control: public, max-age=31536000, immutable\r\n");
    out_lit(&out, "ETag: ");
    out_text(&out, file->etag);
    out_lit(&out, "\r\n"
                  "X-Content-Type-Options: nosniff\r\n");
    if (page) {
        /* Pictures of items are wherever the shop keeps them; all else is from here. */
        out_lit(&out, "Content-Security-Policy: default-src 'self'; img-src 'self' https: data:; "
                      "object-src 'none'; base-uri 'none'; form-action 'self'; "
                      "frame-ancestors 'none'\r\n"
                      "Referrer-Policy: same-origin\r\n");
    } else {
        out_lit(&out, "Content-Security-Policy: default-src 'self'\r\n");
    }
    out_char(&out, '\0');
    CHECK(!out.overflow);
}

static int finish(struct file *file)
{
    if (file->state != FILE_NEW) {
        return file->state == FILE_DONE ? 0 : ERR_INVALID;
    }
    file->state = FILE_OPEN;
    file->body = (struct span){(const char *)file->asset->data, file->asset->len};
    int err = type_of(file->asset->path, &file->type) ? rewrite_file(file) : 0;
    if (err != 0) {
        return err;
    }
    uint8_t hash[HASH_BYTES];
    char text[HASH_TEXT + 1];
    crypt_hash(file->body.at, file->body.len, hash, sizeof(hash));
    for (size_t i = 0; i < HASH_TEXT; i++) {
        text[i] = "0123456789abcdef"[hash[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    }
    text[HASH_TEXT] = '\0';
    file->etag[0] = file->etag[HASH_TEXT + 1] = '"';
    memcpy(file->etag + 1, text, HASH_TEXT);
    file->etag[HASH_TEXT + 2] = '\0';
    bool page = is_page(file->asset->path);
    err = name_file(file, page, text);
    head_file(file, page);
    file->state = FILE_DONE;
    return err;
}

int static_start(const struct web_asset *assets, size_t count)
{
    CHECK(site.files == NULL);
    site.files = calloc(count == 0 ? 1 : count, sizeof(*site.files));
    if (site.files == NULL) {
        return ERR_NOMEM;
    }
    site.count = count;
    for (size_t i = 0; i < count; i++) {
        site.files[i].asset = &assets[i];
    }
    for (size_t i = 0; i < count; i++) {
        int err = finish(&site.files[i]);
        if (err != 0) {
            static_stop();
            return err;
        }
    }
    return 0;
}

void static_stop(void)
{
    for (size_t i = 0; i < site.count; i++) {
        free(site.files[i].rewritten);
    }
    free(site.files);
    site.files = NULL;
    site.count = 0;
}

/* If-None-Match: "*", or a list of tags, of which weak ones count like strong ones. */
static bool has_tag(struct span header, const char *etag)
{
    if (span_is(header, "*")) {
        return true;
    }
    size_t len = strlen(etag);
    return header.len >= len && memmem(header.at, header.len, etag, len) != NULL;
}

bool static_answer(struct http_server *server, struct http_exchange exchange,
                   const struct http_request *request)
{
    const struct file *file = NULL;
    for (size_t i = 0; i < site.count && file == NULL; i++) {
        file = span_is(request->path, site.files[i].path) ? &site.files[i] : NULL;
    }
    if (file == NULL) {
        return false;
    }
    if (request->method != HTTP_GET && request->method != HTTP_HEAD) {
        (void)http_answer_problem(server, exchange, REFUSAL_METHOD_NOT_ALLOWED,
                                  "Allow: GET, HEAD\r\n");
    } else if (has_tag(request->if_none_match, file->etag)) {
        (void)http_answer(server, exchange, 304, NULL, file->headers, (struct span){0});
    } else {
        (void)http_answer_lasting(server, exchange, 200, file->type, file->headers, file->body);
    }
    return true;
}
