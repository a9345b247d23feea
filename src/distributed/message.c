/* See message.h. */
#include "distributed/message.h"

#include "base/err.h"

struct span message_write(char ret_text[MESSAGE_MAX], const struct decision *decision)
{
    const struct gate_command *command = &decision->command;
    char id[ORDER_ID_TEXT];
    struct out out = out_over(ret_text, MESSAGE_MAX);
    order_id_text(command->id, id);
    out_lit(&out, "1 ");
    out_u64(&out, decision->segment);
    out_char(&out, ' ');
    out_u64(&out, decision->epoch);
    out_char(&out, ' ');
    out_bytes(&out, id, sizeof(id));
    out_char(&out, ' ');
    out_u64(&out, command->user);
    out_char(&out, ' ');
    out_u64(&out, command->item);
    out_char(&out, ' ');
    out_u64(&out, command->qty);
    out_char(&out, ' ');
    out_u64(&out, (uint64_t)command->now_ms);
    return out_span(&out);
}

/* Takes the next word and the space after it. False: there is none. */
static bool next_word(struct span *text, struct span *ret_word)
{
    size_t len = 0;
    while (len < text->len && text->at[len] != ' ') {
        len++;
    }
    *ret_word = (struct span){text->at, len};
    size_t used = len < text->len ? len + 1 : len;
    *text = (struct span){text->at + used, text->len - used};
    return len > 0;
}

static int next_number(struct span *text, uint64_t max, uint64_t *ret_number)
{
    struct span word;
    return next_word(text, &word) && span_parse_u64(word, max, ret_number) == 0 ? 0 : ERR_INVALID;
}

/* True if the id fits the command: an id names its item, and an ORDER_ONCE id also its buyer. */
static bool is_of(const struct gate_command *command)
{
    return command->user != 0 && command->item == order_id_item(command->id) &&
           (order_id_kind(command->id) != ORDER_ONCE ||
            command->user == order_id_user(command->id));
}

int message_read(struct span text, struct decision *ret_decision)
{
    struct decision decision = {.command = {.kind = GATE_RESERVE}};
    struct gate_command *command = &decision.command;
    uint64_t version = 0;
    uint64_t segment = 0;
    uint64_t qty = 0;
    uint64_t created = 0;
    struct span id;
    if (next_number(&text, 1, &version) != 0 || version != 1 ||
        next_number(&text, SEGMENTS_MAX - 1, &segment) != 0 ||
        next_number(&text, ID_MAX, &decision.epoch) != 0 || !next_word(&text, &id) ||
        order_id_parse(id, &command->id) != 0 || next_number(&text, ID_MAX, &command->user) != 0 ||
        next_number(&text, ID_MAX, &command->item) != 0 || next_number(&text, QTY_MAX, &qty) != 0 ||
        span_parse_u64(text, TIME_MAX_MS, &created) != 0 || qty == 0 || decision.epoch == 0 ||
        !is_of(command)) {
        return ERR_INVALID;
    }
    decision.segment = (uint32_t)segment;
    command->qty = (uint32_t)qty;
    command->now_ms = (int64_t)created;
    *ret_decision = decision;
    return 0;
}
