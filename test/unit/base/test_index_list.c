/* Pools, chains and lists by index, against a plain array; and growing pauses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/backoff.h"
#include "base/index_pool.h"

#define ENTRIES 16U
#define STEPS 20000

struct entry {
    uint64_t before; /* so that the links are not first */
    uint32_t next;   /* chain, or pool */
    struct index_node node;
};
static struct entry entries[ENTRIES];

/* Entries in a list, from the front: what the list must say. */
static struct {
    uint32_t at[ENTRIES];
    uint32_t count;
} model;

static void assert_list(const struct index_list *list)
{
    uint32_t link = list->first;
    uint32_t before = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        assert_int_equal(model.at[i] + 1, link);
        assert_int_equal(before, entries[link - 1].node.previous);
        before = link;
        link = entries[link - 1].node.next;
    }
    assert_int_equal(0, link);
    assert_int_equal(before, list->last);
}

static void model_insert(uint32_t place, uint32_t index)
{
    memmove(model.at + place + 1, model.at + place, (model.count - place) * sizeof(uint32_t));
    model.at[place] = index;
    model.count++;
}

static uint32_t model_remove(uint32_t place)
{
    uint32_t index = model.at[place];
    model.count--;
    memmove(model.at + place, model.at + place + 1, (model.count - place) * sizeof(uint32_t));
    return index;
}

/* Given a pool and a list of the entries taken, when entries come and go at random places, then the
 * list is what the model is, and no entry is taken twice. */
static void a_list_of_a_pool(void **state)
{
    (void)state;
    struct prng prng = prng_of(7);
    struct index_pool pool = {.capacity = ENTRIES};
    struct index_list list = {0};
    uint32_t most = 0;
    memset(entries, 0, sizeof(entries));
    model.count = 0;
    for (int i = 0; i < STEPS; i++) {
        struct index_links nodes = INDEX_LINKS(entries, node);
        uint32_t place = (uint32_t)prng_below(&prng, model.count + 1);
        if (prng_below(&prng, 2) == 0 && !index_pool_full(&pool)) {
            uint32_t index = index_pool_take(&pool, INDEX_LINKS(entries, next));
            assert_true(index < ENTRIES && entries[index].before == 0);
            entries[index].before = 1;
            if (place == model.count) {
                index_list_append(&list, nodes, index);
            } else {
                index_list_insert(&list, nodes, index, place == 0 ? 0 : model.at[place - 1] + 1);
            }
            model_insert(place, index);
        } else if (place < model.count) {
            uint32_t index = model_remove(place);
            index_list_remove(&list, nodes, index);
            entries[index].before = 0;
            index_pool_give(&pool, INDEX_LINKS(entries, next), index);
        }
        most = model.count > most ? model.count : most;
        assert_list(&list);
        assert_int_equal(model.count, pool.used);
        assert_int_equal(most, pool.fresh); /* no new entry while an old one is free */
    }
    assert_int_equal(ENTRIES, most);
}

static void assert_chain(uint32_t link, const uint32_t *indices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(indices[i] + 1, link);
        link = entries[link - 1].next;
    }
    assert_int_equal(0, link);
}

static void a_chain(void **state)
{
    (void)state;
    struct index_links links = INDEX_LINKS(entries, next);
    uint32_t head = 0;
    memset(entries, 0, sizeof(entries));
    index_chain_reverse(&head, links);
    assert_chain(head, NULL, 0);
    for (uint32_t i = 0; i < 4; i++) {
        index_chain_add(&head, links, i);
    }
    assert_chain(head, (uint32_t[]){3, 2, 1, 0}, 4);
    index_chain_reverse(&head, links);
    assert_chain(head, (uint32_t[]){0, 1, 2, 3}, 4);
    index_chain_remove(&head, links, 2);
    assert_chain(head, (uint32_t[]){0, 1, 3}, 3);
    index_chain_remove(&head, links, 0);
    index_chain_remove(&head, links, 3);
    assert_chain(head, (uint32_t[]){1}, 1);
}

static void pauses_grow(void **state)
{
    (void)state;
    const int64_t expected[] = {10, 20, 40, 80, 100, 100};
    int64_t pause = 0;
    struct prng prng = prng_of(1);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        pause = backoff_grow(pause, 10, 100);
        assert_int_equal(expected[i], pause);
        int64_t jittered = backoff_jitter(pause, &prng);
        assert_true(jittered >= pause / 2 && jittered <= pause);
    }
    assert_int_equal(5, backoff_grow(0, 10, 5));
    assert_int_equal(0, backoff_jitter(0, &prng));
    struct backoff backoff = {0};
    assert_true(backoff_is_over(&backoff, 0));
    backoff_failed(&backoff, 1000);
    assert_false(backoff_is_over(&backoff, 1019));
    assert_true(backoff_is_over(&backoff, 1020));
    for (int i = 0; i < 10; i++) {
        backoff_failed(&backoff, 1000);
    }
    assert_int_equal(BACKOFF_MOST_MS, backoff.pause_ms);
    backoff_worked(&backoff);
    assert_true(backoff_is_over(&backoff, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_a_pool),
        cmocka_unit_test(a_chain),
        cmocka_unit_test(pauses_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
