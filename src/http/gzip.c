/* See gzip.h. The only file that includes zlib. */
#define ZLIB_CONST /* next_in points to const bytes */
#include "http/gzip.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/check.h"
#include "base/err.h"

#define GZIP_WINDOW (15 + 16) /* the largest window, in gzip's format */
#define MEMORY_LEVEL 8

struct packer {
    z_stream stream;
};

struct packer *packer_new(int level)
{
    struct packer *packer = calloc(1, sizeof(*packer));
    if (packer != NULL && deflateInit2(&packer->stream, level, Z_DEFLATED, GZIP_WINDOW,
                                       MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(packer);
        packer = NULL;
    }
    return packer;
}

void packer_free(struct packer *packer)
{
    if (packer != NULL) {
        (void)deflateEnd(&packer->stream);
        free(packer);
    }
}

int packer_gzip(struct packer *packer, struct span bytes, struct span *ret_packed)
{
    z_stream *stream = &packer->stream;
    *ret_packed = (struct span){NULL, 0};
    if (bytes.len < 2) {
        return 0;
    }
    size_t room = bytes.len - 1; /* a result that is not shorter is of no use */
    char *packed = malloc(room);
    if (packed == NULL) {
        return ERR_NOMEM;
    }
    CHECK(bytes.len <= UINT32_MAX && deflateReset(stream) == Z_OK);
    stream->next_in = (const unsigned char *)bytes.at;
    stream->avail_in = (unsigned)bytes.len;
    stream->next_out = (unsigned char *)packed;
    stream->avail_out = (unsigned)room;
    if (deflate(stream, Z_FINISH) != Z_STREAM_END) {
        free(packed);
        return 0;
    }
    *ret_packed = (struct span){packed, stream->total_out};
    return 0;
}

int gzip_pack(struct span bytes, int level, struct span *ret_packed)
{
    struct packer *packer = packer_new(level);
    int error = packer != NULL ? packer_gzip(packer, bytes, ret_packed) : ERR_NOMEM;
    packer_free(packer);
    return error;
}

/* --- Accept-Encoding -------------------------------------------------------------------------- */

static struct span trimmed(struct span text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t')) {
        text.len--;
    }
    return text;
}

/* Returns the text before the mark, trimmed. *text becomes the text behind it. */
static struct span cut(struct span *text, char mark)
{
    const char *at = text->len > 0 ? memchr(text->at, mark, text->len) : NULL;
    struct span head = {text->at, at != NULL ? (size_t)(at - text->at) : text->len};
    size_t gone = head.len + (at != NULL ? 1 : 0);
    *text = (struct span){text->at + gone, text->len - gone};
    return trimmed(head);
}

/* A qvalue in thousandths; 0: malformed. */
static int quality(struct span text)
{
    if (text.len == 0 || text.len > 5 || text.at[0] < '0' || text.at[0] > '1' ||
        (text.len > 1 && text.at[1] != '.')) {
        return 0;
    }
    int value = (text.at[0] - '0') * 1000;
    for (size_t i = 2, worth = 100; i < text.len; i++, worth /= 10) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return 0;
        }
        value += (int)worth * (text.at[i] - '0');
    }
    return value <= 1000 ? value : 0;
}

static int quality_of(struct span parameters)
{
    int value = 1000;
    while (parameters.len > 0) {
        struct span one = cut(&parameters, ';');
        struct span name = cut(&one, '=');
        if (span_equal_nocase(name, span_of("q"))) {
            value = quality(trimmed(one));
        }
    }
    return value;
}

bool pack_wanted(struct span accept_encoding)
{
    int gzip = -1;
    int any = -1;
    int identity = 0;
    while (accept_encoding.len > 0) {
        struct span one = cut(&accept_encoding, ',');
        struct span coding = cut(&one, ';');
        int value = quality_of(one);
        if (span_equal_nocase(coding, span_of("gzip")) ||
            span_equal_nocase(coding, span_of("x-gzip"))) {
            gzip = value;
        } else if (span_is(coding, "*")) {
            any = value;
        } else if (span_equal_nocase(coding, span_of("identity"))) {
            identity = value;
        }
    }
    gzip = gzip >= 0 ? gzip : any;
    return gzip > 0 && gzip >= identity;
}
