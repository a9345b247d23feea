/* See content.h. */
#define _GNU_SOURCE /* memmem */
#include "http/content.h"

#include "base/check.h"
#include "base/crypt.h"
#include "http/gzip.h"

#define HASH_BYTES 16 /* the shortest that crypt_hash makes; the first half is used */
#define TAG_MAX (CONTENT_HASH + sizeof("\"-gz\""))
#define HEADERS_MAX 1024

void content_name(struct content *content)
{
    uint8_t hash[HASH_BYTES];
    crypt_hash(content->body.at, content->body.len, hash, sizeof(hash));
    for (size_t i = 0; i < CONTENT_HASH; i++) {
        content->hash[i] = "0123456789abcdef"[hash[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    }
    content->hash[CONTENT_HASH] = '\0';
}

/* If-None-Match is "*" or a list of tags. Weak tags match like strong ones. */
static bool has_tag(struct span header, struct span tag)
{
    return span_is(header, "*") ||
           (header.len >= tag.len && memmem(header.at, header.len, tag.at, tag.len) != NULL);
}

void content_answer(struct http_server *server, struct http_exchange exchange,
                    const struct http_request *request, int status, const struct content *content,
                    const char *headers, struct http_hold *hold)
{
    bool packed = content->packed.at != NULL && pack_wanted(request->accept_encoding);
    char tag_memory[TAG_MAX];
    struct out tag = out_over(tag_memory, sizeof(tag_memory));
    out_char(&tag, '"');
    out_text(&tag, content->hash);
    out_text(&tag, packed ? "-gz\"" : "\"");
    char memory[HEADERS_MAX];
    struct out lines = out_over(memory, sizeof(memory));
    out_text(&lines, headers);
    out_lit(&lines, "ETag: ");
    out_put(&lines, out_span(&tag));
    out_lit(&lines, "\r\n");
    if (content->packed.at != NULL) {
        out_lit(&lines, "Vary: Accept-Encoding\r\n");
    }
    bool known = status == 200 && has_tag(request->if_none_match, out_span(&tag));
    if (packed && !known) {
        out_lit(&lines, "Content-Encoding: gzip\r\n");
    }
    out_char(&lines, '\0');
    CHECK(!tag.overflow && !lines.overflow);
    if (known) {
        (void)http_answer(server, exchange, 304, NULL, memory, (struct span){0});
    } else {
        (void)http_answer_held(server, exchange, status, content->type, memory,
                               packed ? content->packed : content->body, hold);
    }
}
