/*
 * See static.h. The name of a file depends on its bytes, which contain the names of the files it
 * mentions. So those are finished first, depth first. Errors are mistakes of the build and stop the
 * start: no memory, or a cycle.
 */
#include "pages/static.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "http/content.h"
#include "http/gzip.h"
#include "pages/minify.h"

#define PREFIX "/assets/"
#define PATH_MAX_BYTES 256

/* An asset is served under its hashed name, a page under its folder's. A template is only read. */
enum file_kind { FILE_ASSET, FILE_PAGE, FILE_TEMPLATE };

struct file {
    const struct web_asset *asset;
    char *rewritten; /* owned; NULL while the asset's own bytes are served */
    struct content content;
    char path[PATH_MAX_BYTES];
    enum file_kind kind;
    enum { FILE_NEW, FILE_OPEN, FILE_DONE } state;
};

static struct {
    struct file *files;
    size_t count;
} page_cache;

static const char asset_headers[] = "Cache-Control: public, max-age=31536000, immutable\r\n"
                                    "X-Content-Type-Options: nosniff\r\n"
                                    "Content-Security-Policy: default-src 'self'\r\n";
static const char page_headers[] = "Cache-Control: no-cache\r\n" STATIC_PAGE_HEADERS;

/* Folders whose HTML is templates. */
#define TEMPLATES(X)                                                                               \
    X("store/")                                                                                    \
    X("demo/")

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

/* The file mentioned at text[0..len), which begins with PREFIX; the length includes the prefix. */
static struct file *mentioned(const char *text, size_t len, size_t *ret_len)
{
    size_t end = sizeof(PREFIX) - 1;
    while (end < len && is_path_char(text[end])) {
        end++;
    }
    struct span name = {text + sizeof(PREFIX) - 1, end - (sizeof(PREFIX) - 1)};
    for (size_t i = 0; i < page_cache.count; i++) {
        if (span_is(name, page_cache.files[i].asset->path)) {
            *ret_len = end;
            return &page_cache.files[i];
        }
    }
    return NULL;
}

static int finish(struct file *file);

/* Copies the text to out with hashed names, and without comments if minify is set. out NULL: only
 * counts. */
static int rewrite(struct span text, bool minify, struct out *out, size_t *ret_len)
{
    size_t total = 0;
    for (size_t at = 0; at < text.len;) {
        size_t comment = minify ? minify_skip(text, at) : 0;
        if (comment > 0) {
            at += comment;
            continue;
        }
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
    const char *dot = strrchr(file->asset->path, '.');
    bool minify = dot != NULL && strcmp(dot, ".html") != 0;
    int err = rewrite(text, minify, NULL, &len);
    if (err != 0 || len == 0) {
        return err;
    }
    file->rewritten = malloc(len);
    if (file->rewritten == NULL) {
        return ERR_NOMEM;
    }
    struct out out = out_over(file->rewritten, len);
    err = rewrite(text, minify, &out, &len);
    CHECK(err == 0 && !out.overflow && out.len == len);
    file->content.body = out_span(&out);
    return 0;
}

static enum file_kind kind_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(path, '.');
    bool html = dot != NULL && strcmp(dot, ".html") == 0;
#define X(folder)                                                                                  \
    if (html && strncmp(path, folder, sizeof(folder) - 1) == 0) {                                  \
        return FILE_TEMPLATE;                                                                      \
    }
    TEMPLATES(X)
#undef X
    return strcmp(slash == NULL ? path : slash + 1, "index.html") == 0 ? FILE_PAGE : FILE_ASSET;
}

/* "index.html" is "/", "a/index.html" is "/a"; "a/b.js" becomes "/assets/a/b.<hash>.js". */
static int name_file(struct file *file)
{
    const char *path = file->asset->path;
    const char *dot = strrchr(path, '.');
    size_t stem = dot == NULL ? strlen(path) : (size_t)(dot - path);
    struct out out = out_over(file->path, sizeof(file->path));
    if (file->kind == FILE_PAGE) {
        size_t folder = strlen(path) - (sizeof("index.html") - 1);
        out_lit(&out, "/");
        out_bytes(&out, path, folder == 0 ? 0 : folder - 1);
    } else {
        out_lit(&out, PREFIX);
        out_bytes(&out, path, stem);
        out_char(&out, '.');
        out_text(&out, file->content.hash);
        out_text(&out, path + stem);
    }
    out_char(&out, '\0');
    return out.overflow ? ERR_INVALID : 0;
}

static int finish(struct file *file)
{
    if (file->state != FILE_NEW) {
        return file->state == FILE_DONE ? 0 : ERR_INVALID;
    }
    file->state = FILE_OPEN;
    struct content *content = &file->content;
    content->body = (struct span){(const char *)file->asset->data, file->asset->len};
    file->kind = kind_of(file->asset->path);
    int err = type_of(file->asset->path, &content->type) ? rewrite_file(file) : 0;
    if (err == 0) {
        content_name(content);
        err = name_file(file);
    }
    if (err == 0 && file->kind != FILE_TEMPLATE) {
        err = gzip_pack(content->body, PACK_FILES, &content->packed);
    }
    file->state = FILE_DONE;
    return err;
}

int static_start(const struct web_asset *assets, size_t count)
{
    CHECK(page_cache.files == NULL);
    page_cache.files = calloc(count == 0 ? 1 : count, sizeof(*page_cache.files));
    if (page_cache.files == NULL) {
        return ERR_NOMEM;
    }
    page_cache.count = count;
    for (size_t i = 0; i < count; i++) {
        page_cache.files[i].asset = &assets[i];
    }
    for (size_t i = 0; i < count; i++) {
        int err = finish(&page_cache.files[i]);
        if (err != 0) {
            static_stop();
            return err;
        }
    }
    return 0;
}

void static_stop(void)
{
    for (size_t i = 0; i < page_cache.count; i++) {
        free(page_cache.files[i].rewritten);
        free((char *)page_cache.files[i].content.packed.at);
    }
    free(page_cache.files);
    page_cache.files = NULL;
    page_cache.count = 0;
}

bool static_template(const char *path, struct span *ret_text)
{
    for (size_t i = 0; i < page_cache.count; i++) {
        const struct file *file = &page_cache.files[i];
        if (file->kind == FILE_TEMPLATE && strcmp(file->asset->path, path) == 0) {
            *ret_text = file->content.body;
            return true;
        }
    }
    return false;
}

const char *static_address(const char *name)
{
    size_t len = strlen(name);
    size_t named = 0;
    if (len <= sizeof(PREFIX) - 1 || memcmp(name, PREFIX, sizeof(PREFIX) - 1) != 0) {
        return name;
    }
    const struct file *file = mentioned(name, len, &named);
    return file != NULL && named == len && file->kind == FILE_ASSET ? file->path : name;
}

bool static_path(size_t index, const char **ret_path)
{
    if (index >= page_cache.count) {
        return false;
    }
    *ret_path = page_cache.files[index].kind == FILE_ASSET ? page_cache.files[index].path : NULL;
    return true;
}

const struct content *static_content(const char *path)
{
    for (size_t i = 0; i < page_cache.count; i++) {
        if (strcmp(page_cache.files[i].asset->path, path) == 0) {
            return &page_cache.files[i].content;
        }
    }
    return NULL;
}

bool static_answer(struct http_server *server, struct http_exchange exchange,
                   const struct http_request *request)
{
    const struct file *file = NULL;
    struct span path = request->path;
    struct span page = path; /* people may type a slash at the end of a page's address */
    page.len -= page.len > 1 && page.at[page.len - 1] == '/';
    for (size_t i = 0; i < page_cache.count && file == NULL; i++) {
        bool served = page_cache.files[i].kind != FILE_TEMPLATE;
        struct span asked = page_cache.files[i].kind == FILE_PAGE ? page : path;
        file = served && span_is(asked, page_cache.files[i].path) ? &page_cache.files[i] : NULL;
    }
    if (file == NULL) {
        return false;
    }
    if (request->method != HTTP_GET && request->method != HTTP_HEAD) {
        (void)http_answer_problem(server, exchange, REFUSAL_METHOD_NOT_ALLOWED,
                                  "Allow: GET, HEAD\r\n");
    } else {
        content_answer(server, exchange, request, 200, &file->content,
                       file->kind == FILE_PAGE ? page_headers : asset_headers, NULL);
    }
    return true;
}
