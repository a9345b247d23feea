/* See notes.h. */
#include "backend/redis/notes.h"

#include "backend/redis/reader.h"
#include "base/check.h"
#include "base/err.h"

int note_entry(struct span text, struct outbox_entry *ret_entry)
{
    struct reader reader = {.left = text};
    bool ours = reader_u64(&reader, UINT64_MAX) == 1; /* version of the format */
    struct outbox_entry entry = {.epoch = reader_u64(&reader, UINT64_MAX)};
    entry.command.kind = GATE_RESERVE;
    entry.command.id = reader_id(&reader);
    entry.command.user = reader_u64(&reader, ID_MAX);
    entry.command.item = reader_u64(&reader, ID_MAX);
    entry.command.qty = (uint32_t)reader_u64(&reader, UINT32_MAX);
    entry.command.now_ms = reader_i64(&reader);
    if (!ours || reader.bad || reader.left.len > 0) {
        return ERR_INVALID;
    }
    *ret_entry = entry;
    return 0;
}

/* o ID ORDER, i ITEM, s SALE, e EPOCH, e EPOCH SEGMENT, l */
int note_news(struct span text, uint32_t segment, struct segment_news *ret_news)
{
    struct reader reader = {.left = text};
    struct segment_news news = {.segment = segment};
    struct span kind = reader_word(&reader);
    if (span_is(kind, "o")) {
        news.kind = NEWS_ORDER;
        struct order_id id = reader_id(&reader);
        reader_order(&reader, &news.order);
        news.order.id = id;
        news.order.item = order_id_item(id);
    } else if (span_is(kind, "i")) {
        news.kind = NEWS_ITEM;
        news.item = reader_u64(&reader, ID_MAX);
    } else if (span_is(kind, "s")) {
        news.kind = NEWS_SALE;
        news.sale = reader_u64(&reader, ID_MAX);
    } else if (span_is(kind, "e")) {
        news.kind = NEWS_EPOCH;
        news.epoch = reader_u64(&reader, UINT64_MAX);
        if (reader.left.len > 0) {
            news.segment = (uint32_t)reader_u64(&reader, SEGMENTS_MAX - 1);
        }
    } else if (span_is(kind, "l")) {
        news.kind = NEWS_LOST;
    } else {
        return ERR_INVALID;
    }
    if (reader.bad || reader.left.len > 0) {
        return ERR_INVALID;
    }
    *ret_news = news;
    return 0;
}

void note_tell(struct out *out, const struct segment_news *news)
{
    char id[ORDER_ID_TEXT];
    switch (news->kind) {
    case NEWS_ORDER:
        order_id_text(news->order.id, id);
        out_lit(out, "o ");
        out_bytes(out, id, sizeof(id));
        out_char(out, ' ');
        write_order(out, &news->order);
        break;
    case NEWS_ITEM:
        out_lit(out, "i ");
        out_u64(out, news->item);
        break;
    case NEWS_SALE:
        out_lit(out, "s ");
        out_u64(out, news->sale);
        break;
    case NEWS_EPOCH:
        out_lit(out, "e ");
        out_u64(out, news->epoch);
        out_char(out, ' ');
        out_u64(out, news->segment);
        break;
    case NEWS_LOST:
        out_lit(out, "l");
        break;
    case NEWS_BROKEN:
        CHECK(!"it is no note");
    }
}
