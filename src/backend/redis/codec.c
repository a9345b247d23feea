/* See codec.h. Each function writes the arguments listed at the top of its script in lua/, in that
 * order. */
#include "backend/redis/codec.h"

#include "backend/redis/reader.h"
#include "backend/redis/slot.h"
#include "base/check.h"

/* In the text of a buyer, where the end of a cooling time may be. */
#define BARRED_FOR_GOOD 1U

/* Characters of an order id that are not its attempt. */
#define ID_WITHOUT_ATTEMPT (ORDER_ID_TEXT - 4)

/* ---- keys ---- */

struct key {
    char text[REDIS_PREFIX_MAX + 96];
    struct out out;
};

void codec_name(struct out *out, const struct codec_place *place, const char *name)
{
    out_text(out, place->prefix);
    out_char(out, '{');
    out_text(out, slot_tag(place->segment));
    out_lit(out, "}:");
    out_text(out, name);
}

void codec_epoch_keys(struct out *out, const struct codec_place *place)
{
    codec_name(out, place, "");
    out_u64(out, place->epoch);
    out_char(out, ':');
}

static void key_begin(struct key *key)
{
    key->out = out_over(key->text, sizeof(key->text));
}

static void put_key(struct redis_words *words, const struct key *key)
{
    CHECK(!key->out.overflow);
    words_put(words, out_span(&key->out));
}

static void put_named(struct redis_words *words, const struct codec_place *place, const char *name)
{
    struct key key;
    key_begin(&key);
    codec_name(&key.out, place, name);
    put_key(words, &key);
}

/* Prefix of the keys of one kind. Keys belong to an epoch. */
static void key_kind(struct key *key, const struct codec_place *place, const char *kind)
{
    key_begin(key);
    codec_epoch_keys(&key->out, place);
    out_text(&key->out, kind);
}

static void put_kind(struct redis_words *words, const struct codec_place *place, const char *kind)
{
    struct key key;
    key_kind(&key, place, kind);
    put_key(words, &key);
}

static void put_entry(struct redis_words *words, const struct codec_place *place, const char *kind,
                      uint64_t id)
{
    struct key key;
    key_kind(&key, place, kind);
    out_u64(&key.out, id);
    put_key(words, &key);
}

static void put_bucket(struct redis_words *words, const struct codec_place *place, const char *kind,
                       uint64_t item, uint64_t bucket)
{
    struct key key;
    key_kind(&key, place, kind);
    out_u64(&key.out, item);
    out_char(&key.out, ':');
    out_u64(&key.out, bucket);
    put_key(words, &key);
}

/* The bucket of an order follows from its id. The low six bits of an ORDER_FRESH id are its
 * segment. */
static uint64_t order_bucket(struct order_id id)
{
    uint64_t spread = order_id_kind(id) == ORDER_ONCE ? order_id_user(id) : id.lo / SEGMENTS_MAX;
    return spread % REDIS_BUCKETS;
}

/* ---- requests ---- */

static void put_id(struct redis_words *words, struct order_id id, size_t len)
{
    char text[ORDER_ID_TEXT];
    order_id_text(id, text);
    words_put(words, (struct span){text, len});
}

/* Epoch, run id and layout in one word, so that the script needs one comparison. */
static void put_place(struct redis_words *words, const struct codec_place *place)
{
    char text[48 + REDIS_RUN_ID];
    struct out out = out_over(text, sizeof(text));
    out_u64(&out, place->epoch);
    out_char(&out, ' ');
    out_put(&out, place->run_id);
    out_char(&out, ' ');
    out_u64(&out, REDIS_LAYOUT);
    CHECK(!out.overflow);
    words_put(words, out_span(&out));
}

/* The outbox entry of a decision; the script appends the time. */
static void put_outbox_head(struct redis_words *words, const struct codec_place *place,
                            const struct gate_command *command)
{
    char text[ORDER_ID_TEXT + 5 * 21];
    struct out out = out_over(text, sizeof(text));
    char id[ORDER_ID_TEXT];
    order_id_text(command->id, id);
    out_lit(&out, "1 ");
    out_u64(&out, place->epoch);
    out_char(&out, ' ');
    out_bytes(&out, id, sizeof(id));
    out_char(&out, ' ');
    out_u64(&out, command->user);
    out_char(&out, ' ');
    out_u64(&out, command->item);
    out_char(&out, ' ');
    out_u64(&out, command->qty);
    out_char(&out, ' ');
    CHECK(!out.overflow);
    words_put(words, out_span(&out));
}

static void put_reserve(struct redis_words *words, const struct codec_place *place,
                        const struct gate_command *command, bool again, uint64_t fence)
{
    words_u64(words, 5);
    put_named(words, place, "meta");
    put_entry(words, place, "i:", command->item);
    put_bucket(words, place, "b:", command->item, command->user % REDIS_BUCKETS);
    put_bucket(words, place, "o:", command->item, order_bucket(command->id));
    put_named(words, place, "out");
    put_place(words, place);
    put_id(words, command->id, ORDER_ID_TEXT);
    words_u64(words, command->user);
    put_outbox_head(words, place, command);
    words_u64(words, command->qty);
    words_i64(words, command->now_ms);
    words_u64(words, command->ticket_expires_ms);
    int64_t attempt = -1;
    if (order_id_kind(command->id) == ORDER_ONCE) {
        attempt = order_id_user(command->id) == command->user
                      ? (int64_t)order_id_attempt(command->id)
                      : -2;
    }
    words_i64(words, attempt);
    if (again) {
        words_u64(words, 1);
        words_u64(words, fence);
    }
}

void codec_reserve(struct redis_words *words, const struct codec_place *place,
                   const struct gate_command *command)
{
    put_reserve(words, place, command, false, 0);
}

enum redis_script codec_script(enum gate_kind kind)
{
    switch (kind) {
    case GATE_RESERVE:
        return SCRIPT_RESERVE;
    case GATE_CONFIRM:
    case GATE_FAIL_ORDER:
    case GATE_PAY:
    case GATE_CANCEL:
    case GATE_CANCEL_LATE:
    case GATE_CANCEL_COOLING:
    case GATE_EXPIRE:
    case GATE_EXPIRE_COOLING:
        return SCRIPT_MOVE;
    case GATE_RESTOCK:
    case GATE_TRANSFER_OUT:
    case GATE_TRANSFER_IN:
        return SCRIPT_STOCK;
    case GATE_FORGET:
        return SCRIPT_FORGET;
    default:
        return SCRIPT_SALE;
    }
}

static enum order_move move_of(enum gate_kind kind)
{
    switch (kind) {
    case GATE_CONFIRM:
        return MOVE_CONFIRM;
    case GATE_FAIL_ORDER:
        return MOVE_REFUSE;
    case GATE_PAY:
        return MOVE_PAY;
    case GATE_CANCEL:
    case GATE_CANCEL_LATE:
    case GATE_CANCEL_COOLING:
        return MOVE_CANCEL;
    default:
        CHECK(kind == GATE_EXPIRE || kind == GATE_EXPIRE_COOLING);
        return MOVE_EXPIRE;
    }
}

/* The six arguments that every event begins with. */
static void put_event(struct redis_words *words, const struct codec_place *place,
                      const struct segment_call *call)
{
    put_place(words, place);
    words_u64(words, call->fence);
    words_u64(words, call->command.event);
    words_u64(words, call->after);
    words_i64(words, call->command.now_ms);
    words_u64(words, call->command.kind);
}

static void put_move(struct redis_words *words, const struct codec_place *place,
                     const struct segment_call *call)
{
    const struct gate_command *command = &call->command;
    uint64_t item = order_id_item(command->id);
    enum order_move move = move_of(command->kind);
    words_u64(words, 3);
    put_named(words, place, "meta");
    put_entry(words, place, "i:", item);
    put_bucket(words, place, "o:", item, order_bucket(command->id));
    put_event(words, place, call);
    put_id(words, command->id, ORDER_ID_TEXT);
    words_u64(words, order_move_from(move));
    words_u64(words, order_move_to(move));
    words_u64(words, command->time_ms);
    words_u64(words, command->reason);
    words_u64(words, item);
    struct key key;
    key_kind(&key, place, "b:");
    out_u64(&key.out, item);
    out_char(&key.out, ':');
    put_key(words, &key);
    words_u64(words, command->user);
    words_u64(words, command->qty);
}

static void put_stock(struct redis_words *words, const struct codec_place *place,
                      const struct segment_call *call)
{
    const struct gate_command *command = &call->command;
    words_u64(words, 3);
    put_named(words, place, "meta");
    put_entry(words, place, "i:", command->item);
    put_kind(words, place, "x");
    put_event(words, place, call);
    words_u64(words, command->amount);
    words_u64(words, command->item);
    put_id(words, command->id, ORDER_ID_TEXT);
}

static void put_sale(struct redis_words *words, const struct codec_place *place,
                     const struct segment_call *call)
{
    const struct gate_command *command = &call->command;
    words_u64(words, 4);
    put_named(words, place, "meta");
    put_entry(words, place, "s:", command->sale);
    put_entry(words, place, "m:", command->sale);
    put_entry(words, place, "i:", command->item);
    put_event(words, place, call);
    words_u64(words, command->sale);
    words_u64(words, command->starts_at_ms);
    words_u64(words, command->ends_at_ms);
    words_u64(words, command->bar_unpaid != 0);
    words_u64(words, command->item);
    words_u64(words, command->amount);
    words_u64(words, command->limit);
    put_kind(words, place, "i:");
}

static void put_forget(struct redis_words *words, const struct codec_place *place,
                       const struct segment_call *call)
{
    const struct gate_command *command = &call->command;
    words_u64(words, 3);
    put_named(words, place, "meta");
    put_entry(words, place, "s:", command->sale);
    put_entry(words, place, "m:", command->sale);
    put_event(words, place, call);
    words_u64(words, command->qty);
    put_kind(words, place, "i:");
    put_kind(words, place, "o:");
    put_kind(words, place, "b:");
    words_u64(words, command->sale);
}

void codec_call(struct redis_words *words, const struct codec_place *place,
                const struct segment_call *call)
{
    switch (codec_script(call->command.kind)) {
    case SCRIPT_RESERVE:
        put_reserve(words, place, &call->command, true, call->fence);
        break;
    case SCRIPT_MOVE:
        put_move(words, place, call);
        break;
    case SCRIPT_STOCK:
        put_stock(words, place, call);
        break;
    case SCRIPT_FORGET:
        put_forget(words, place, call);
        break;
    default:
        put_sale(words, place, call);
        break;
    }
}

void codec_look(struct redis_words *words, const struct codec_place *place,
                const struct gate_request *request)
{
    bool ticket = request->kind == GATE_REQUEST_TICKET;
    struct order_id id = ticket ? order_id_once(request->item, request->user, 0) : request->id;
    uint64_t item = request->kind == GATE_REQUEST_ORDER ? order_id_item(id) : request->item;
    words_u64(words, 4);
    put_named(words, place, "meta");
    put_entry(words, place, "i:", item);
    put_bucket(words, place, "b:", item, request->user % REDIS_BUCKETS);
    put_bucket(words, place, "o:", item, order_bucket(id));
    put_place(words, place);
    words_u64(words, request->kind);
    put_id(words, id, ticket ? ID_WITHOUT_ATTEMPT : ORDER_ID_TEXT);
    words_u64(words, request->user);
}

/* ---- rebuilding ---- */

/* Four numbers in one word: the script reads them together. */
static void put_four(struct redis_words *words, const uint32_t numbers[4])
{
    char text[4 * 11];
    struct out out = out_over(text, sizeof(text));
    for (int i = 0; i < 4; i++) {
        if (i > 0) {
            out_char(&out, ' ');
        }
        out_u64(&out, numbers[i]);
    }
    CHECK(!out.overflow);
    words_put(words, out_span(&out));
}

static uint32_t share_or_none(uint32_t share)
{
    return share != 0 ? share : UINT32_MAX;
}

void codec_claim(struct redis_words *words, const struct codec_place *place, uint64_t fence,
                 const struct segment_step *step, uint64_t outbox_max)
{
    const struct gate_sizes *sizes = &step->sizes;
    const struct gate_shares *shares = &step->shares;
    words_u64(words, 1);
    put_named(words, place, "meta");
    words_u64(words, place->epoch);
    words_put(words, place->run_id);
    words_u64(words, fence);
    words_u64(words, step->event);
    words_i64(words, step->highest_ms);
    words_u64(words, sizes->orders);
    words_u64(words, sizes->buyers);
    words_u64(words, sizes->items);
    words_u64(words, sizes->sales);
    words_u64(words, outbox_max);
    put_four(words,
             (uint32_t[]){share_or_none(shares->buyer_orders), share_or_none(shares->item_orders),
                          share_or_none(shares->sale_orders), share_or_none(shares->sale_buyers)});
}

void codec_restore(struct redis_words *words, const struct codec_place *place, uint64_t fence)
{
    words_u64(words, 1);
    put_named(words, place, "meta");
    put_place(words, place);
    words_u64(words, fence);
    /* The version of an item grows with each change, also across epochs: each epoch has 2^30
     * versions. */
    words_u64(words, place->epoch % (1U << 22) << 30);
    put_kind(words, place, "");
}

static void row_numbers(struct out *out, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out_char(out, ' ');
        out_u64(out, numbers[i]);
    }
}

static void row_order(struct out *out, const struct order_view *order)
{
    char id[ORDER_ID_TEXT];
    order_id_text(order->id, id);
    row_numbers(out, (uint64_t[]){order_bucket(order->id), order_id_item(order->id)}, 2);
    out_char(out, ' ');
    out_bytes(out, id, sizeof(id));
    out_char(out, ' ');
    write_order(out, order);
}

/* The third number of a buyer: 0, BARRED_FOR_GOOD, or the end of his cooling time. */
static uint64_t put_barred(const struct segment_step *step)
{
    return step->barred ? BARRED_FOR_GOOD : (uint64_t)step->cooling_until_ms;
}

void codec_row(struct redis_words *words, const struct segment_step *step)
{
    char text[256];
    struct out out = out_over(text, sizeof(text));
    switch (step->kind) {
    case STEP_SALE:
        out_char(&out, 's');
        row_numbers(&out, (uint64_t[]){step->sale, step->state}, 2);
        out_char(&out, ' ');
        out_i64(&out, step->starts_at_ms);
        out_char(&out, ' ');
        out_i64(&out, step->ends_at_ms);
        row_numbers(&out, (uint64_t[]){step->bar_unpaid}, 1);
        break;
    case STEP_ITEM:
        out_char(&out, 'i');
        row_numbers(&out,
                    (uint64_t[]){step->item, step->sale, step->total, step->available, step->locked,
                                 step->sold, step->limit, step->live, step->buyers},
                    9);
        break;
    case STEP_BUYER:
        out_char(&out, 'b');
        row_numbers(&out,
                    (uint64_t[]){step->user % REDIS_BUCKETS, step->item, step->user, step->held,
                                 step->failed_attempts, put_barred(step), step->live},
                    7);
        break;
    case STEP_ORDER:
        out_char(&out, 'o');
        row_order(&out, &step->order);
        break;
    default:
        CHECK(step->kind == STEP_OPEN);
        out_lit(&out, "open");
        break;
    }
    CHECK(!out.overflow);
    words_put(words, out_span(&out));
}

void codec_broken(struct redis_words *words, const struct codec_place *place)
{
    words_u64(words, 1);
    put_named(words, place, "meta");
    words_u64(words, place->epoch);
}

void codec_state(struct redis_words *words, const struct codec_place *place)
{
    words_u64(words, 2);
    put_named(words, place, "meta");
    put_named(words, place, "out");
}

/* ---- answers ---- */

static void read_item(struct reader *reader, struct item_view *ret_view)
{
    *ret_view = (struct item_view){.sale = reader_u64(reader, ID_MAX)};
    ret_view->total = reader_u64(reader, UINT64_MAX);
    ret_view->available = reader_u64(reader, UINT64_MAX);
    ret_view->locked = reader_u64(reader, UINT64_MAX);
    ret_view->sold = reader_u64(reader, UINT64_MAX);
    ret_view->limit_per_user = (uint32_t)reader_u64(reader, UINT32_MAX);
    ret_view->sale_state = (uint8_t)reader_u64(reader, SALE_STATE_COUNT - 1);
    ret_view->starts_at_ms = reader_i64(reader);
    ret_view->ends_at_ms = reader_i64(reader);
    ret_view->version = reader_u64(reader, UINT64_MAX);
}

static void read_barred(struct reader *reader, struct codec_answer *answer)
{
    uint64_t barred = reader_u64(reader, INT64_MAX);
    answer->barred = barred == BARRED_FOR_GOOD;
    answer->cooling_until_ms = answer->barred ? 0 : (int64_t)barred;
}

static void read_buyer(struct reader *reader, struct codec_answer *answer)
{
    answer->held = (uint32_t)reader_u64(reader, UINT32_MAX);
    answer->attempt = (uint32_t)reader_u64(reader, UINT32_MAX);
    read_barred(reader, answer);
    (void)reader_u64(reader, UINT32_MAX); /* his live orders */
    answer->has_order = reader_u64(reader, 1) != 0;
}

static void read_parts(struct reader *reader, struct codec_answer *answer)
{
    while (!reader->bad && reader->left.len > 0) {
        struct span part = reader_word(reader);
        if (span_is(part, "o")) {
            answer->has_order = true;
            reader_order(reader, &answer->order);
        } else if (span_is(part, "i")) {
            answer->has_item = true;
            read_item(reader, &answer->view);
        } else if (span_is(part, "b")) {
            read_buyer(reader, answer);
        } else if (span_is(part, "w")) {
            read_barred(reader, answer);
        } else if (span_is(part, "t")) {
            answer->taken = reader_u64(reader, UINT64_MAX);
        } else if (span_is(part, "f")) {
            answer->effects.bound = (enum gate_bound)reader_u64(reader, GATE_BOUND_COUNT - 1);
        } else {
            reader->bad = true;
        }
    }
}

static enum redis_outcome read_undecided(struct reader *reader, struct codec_answer *answer)
{
    struct span why = reader_word(reader);
    if (span_is(why, "X")) {
        return REDIS_STALE;
    }
    answer->seen = reader_u64(reader, UINT64_MAX);
    if (reader->bad) {
        return REDIS_NOT_KNOWN;
    }
    return span_is(why, "F") ? REDIS_FENCED : span_is(why, "G") ? REDIS_GAP : REDIS_NOT_KNOWN;
}

enum redis_outcome codec_read(struct span reply, struct codec_answer *ret_answer)
{
    struct reader reader = {.left = reply};
    struct codec_answer answer = {
        .effects = {.slot = GATE_NONE, .item_slot = GATE_NONE},
    };
    enum redis_outcome outcome = REDIS_ANSWERED;
    if (reply.len > 0 && reply.at[0] >= 'A' && reply.at[0] <= 'Z') {
        outcome = read_undecided(&reader, &answer);
    } else {
        answer.verdict = (enum verdict)reader_u64(&reader, VERDICT_REFUSED);
        answer.effects.refusal = (enum refusal)reader_u64(&reader, REFUSAL_COUNT - 1);
        answer.effects.held = (uint32_t)reader_u64(&reader, UINT32_MAX);
        answer.effects.limit = (uint32_t)reader_u64(&reader, UINT32_MAX);
        answer.effects.available = reader_u64(&reader, UINT64_MAX);
        answer.effects.locked = reader_u64(&reader, UINT64_MAX);
        read_parts(&reader, &answer);
        outcome = reader.bad ? REDIS_NOT_KNOWN : REDIS_ANSWERED;
    }
    if (outcome != REDIS_NOT_KNOWN) {
        *ret_answer = answer;
    }
    return outcome;
}

/* How many entries of a pool are used; below 0 are left if the ledger had more. */
static uint32_t read_used(struct reader *reader, uint32_t size)
{
    int64_t used = (int64_t)size - reader_i64(reader);
    return used < 0 ? 0 : used > (int64_t)UINT32_MAX ? UINT32_MAX : (uint32_t)used;
}

/* ORDERS BUYERS ITEMS SALES, twice: the sizes, and what is left. */
static void read_pools(struct reader *reader, struct segment_state *state)
{
    struct gate_sizes *sizes = &state->sizes;
    sizes->orders = (uint32_t)reader_u64(reader, UINT32_MAX);
    sizes->buyers = (uint32_t)reader_u64(reader, UINT32_MAX);
    sizes->items = (uint32_t)reader_u64(reader, UINT32_MAX);
    sizes->sales = (uint32_t)reader_u64(reader, UINT32_MAX);
    state->used.orders = read_used(reader, sizes->orders);
    state->used.buyers = read_used(reader, sizes->buyers);
    state->used.items = read_used(reader, sizes->items);
    state->used.sales = read_used(reader, sizes->sales);
}

/* EPOCH RUN LAYOUT, and `closed` if it is. Without a layout: a version that had none. False: this is
 * not ours, or a newer version's, which this one must not touch. */
static bool read_place(struct reader *reader, struct span run_id, struct segment_state *state)
{
    state->epoch = reader_u64(reader, UINT64_MAX);
    bool here = span_equal(reader_word(reader), run_id);
    uint64_t layout = 0;
    if (reader->left.len > 0 && reader->left.at[0] >= '0' && reader->left.at[0] <= '9') {
        layout = reader_u64(reader, UINT64_MAX);
    }
    state->older = layout < REDIS_LAYOUT;
    state->outcome = here && !state->older ? SEGMENT_DONE : SEGMENT_STALE;
    state->open = reader->left.len == 0;
    return layout <= REDIS_LAYOUT && (state->open || span_is(reader->left, "closed"));
}

/* S EVENT FENCE TIME OUTBOX OLDEST BROKEN and eight numbers of pools, then - or place */
void codec_read_state(struct span reply, struct span run_id, struct segment_state *ret_state)
{
    struct reader reader = {.left = reply};
    bool ours = span_is(reader_word(&reader), "S");
    struct segment_state state = {.outcome = SEGMENT_STALE,
                                  .event = reader_u64(&reader, UINT64_MAX),
                                  .fence = reader_u64(&reader, UINT64_MAX),
                                  .server_ms = reader_i64(&reader),
                                  .outbox = reader_u64(&reader, UINT64_MAX),
                                  .oldest_ms = reader_u64(&reader, UINT64_MAX),
                                  .broken = reader_u64(&reader, 1) != 0};
    read_pools(&reader, &state);
    if (!span_is(reader.left, "-")) {
        ours &= read_place(&reader, run_id, &state);
    }
    if (!ours || reader.bad) {
        state = (struct segment_state){.outcome = SEGMENT_NOT_KNOWN};
    }
    *ret_state = state;
}
