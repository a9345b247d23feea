/* See reader.h. */
#include "backend/redis/reader.h"

struct span reader_word(struct reader *reader)
{
    struct span left = reader->left;
    size_t len = 0;
    while (len < left.len && left.at[len] != ' ') {
        len++;
    }
    size_t skip = len < left.len ? len + 1 : len;
    reader->left = (struct span){left.at + skip, left.len - skip};
    reader->bad |= len == 0;
    return (struct span){left.at, len};
}

uint64_t reader_u64(struct reader *reader, uint64_t max)
{
    uint64_t value = 0;
    struct span word = reader_word(reader);
    if (reader->bad || span_parse_u64(word, max, &value) != 0) {
        reader->bad = true;
        return 0;
    }
    return value;
}

int64_t reader_i64(struct reader *reader)
{
    bool negative = reader->left.len > 0 && reader->left.at[0] == '-';
    if (negative) {
        reader->left = (struct span){reader->left.at + 1, reader->left.len - 1};
    }
    int64_t value = (int64_t)reader_u64(reader, INT64_MAX);
    return negative ? -value : value;
}

struct order_id reader_id(struct reader *reader)
{
    struct order_id id = {0, 0};
    reader->bad |= order_id_parse(reader_word(reader), &id) != 0;
    return id;
}

void reader_order(struct reader *reader, struct order_view *ret_order)
{
    *ret_order = (struct order_view){.user = reader_u64(reader, ID_MAX)};
    ret_order->qty = (uint32_t)reader_u64(reader, UINT32_MAX);
    ret_order->state = (uint8_t)reader_u64(reader, ORDER_STATE_COUNT - 1);
    ret_order->reason = (uint8_t)reader_u64(reader, REFUSAL_COUNT - 1);
    ret_order->version = (uint16_t)reader_u64(reader, UINT16_MAX);
    ret_order->created_at_ms = reader_i64(reader);
    ret_order->pay_by_ms = reader_i64(reader);
}

void write_order(struct out *out, const struct order_view *order)
{
    const uint64_t numbers[] = {order->user, order->qty, order->state, order->reason,
                                order->version};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        out_u64(out, numbers[i]);
        out_char(out, ' ');
    }
    out_i64(out, order->created_at_ms);
    out_char(out, ' ');
    out_i64(out, order->pay_by_ms);
}
