/*
 * Tables for people. Nothing here fails: what does not fit its cell is cut.
 */
#include "app/print.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CELL_MAX 512
#define COLUMNS_MAX 24
#define DEPTH_MAX 6

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

static void time_text(json_int_t at_ms, char *ret_text, size_t cap)
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(ret_text, cap, "%F %TZ", &parts) == 0) {
        (void)snprintf(ret_text, cap, "%" JSON_INTEGER_FORMAT, at_ms);
    }
}

static void plain_text(const json_t *value, char *ret_text, size_t cap)
{
    if (json_is_integer(value)) {
        (void)snprintf(ret_text, cap, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(ret_text, cap, "%.4g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        (void)snprintf(ret_text, cap, "%s", json_is_true(value) ? "yes" : "no");
    } else if (json_is_string(value)) {
        (void)snprintf(ret_text, cap, "%s", json_string_value(value));
    } else {
        (void)snprintf(ret_text, cap, "-");
    }
    for (char *c = ret_text; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
    }
}

static void cell_text(const json_t *value, enum print_as as, char ret_text[CELL_MAX])
{
    if (as == PRINT_TIME && json_is_integer(value)) {
        time_text(json_integer_value(value), ret_text, CELL_MAX);
    } else if (as == PRINT_MONEY && json_is_integer(value)) {
        json_int_t cents = json_integer_value(value);
        (void)snprintf(ret_text, CELL_MAX, "%" JSON_INTEGER_FORMAT ".%02d", cents / 100,
                       (int)(cents % 100));
    } else if (as == PRINT_COUNT) {
        (void)snprintf(ret_text, CELL_MAX, "%zu", json_array_size(value));
    } else {
        plain_text(value, ret_text, CELL_MAX);
    }
}

void print_json(const json_t *json)
{
    (void)json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    (void)fputc('\n', stdout);
}

void print_table(const json_t *rows, const struct print_column *columns, size_t count)
{
    int width[COLUMNS_MAX];
    bool number[COLUMNS_MAX];
    char cell[CELL_MAX];
    count = count < COLUMNS_MAX ? count : COLUMNS_MAX;
    for (size_t c = 0; c < count; c++) {
        width[c] = (int)strlen(columns[c].title);
        number[c] = columns[c].as == PRINT_MONEY || columns[c].as == PRINT_COUNT;
        for (size_t r = 0; r < json_array_size(rows); r++) {
            const json_t *value = json_object_get(json_array_get(rows, r), columns[c].key);
            cell_text(value, columns[c].as, cell);
            width[c] = (int)strlen(cell) > width[c] ? (int)strlen(cell) : width[c];
            number[c] = number[c] || (json_is_number(value) && columns[c].as == PRINT_PLAIN);
        }
    }
    for (size_t r = 0; r <= json_array_size(rows); r++) {
        for (size_t c = 0; c < count; c++) {
            bool last = c + 1 == count;
            int wide = last && !number[c] ? 0 : width[c];
            const char *text = cell;
            if (r == 0) {
                text = columns[c].title;
            } else {
                const json_t *row = json_array_get(rows, r - 1);
                cell_text(json_object_get(row, columns[c].key), columns[c].as, cell);
            }
            (void)printf("%*s%s", number[c] ? wide : -wide, text, last ? "\n" : "  ");
        }
    }
}

void print_members(const json_t *object, const struct print_column *columns, size_t count)
{
    int width = 0;
    for (size_t i = 0; i < count; i++) {
        int len = (int)strlen(columns[i].title);
        bool shown = json_object_get(object, columns[i].key) != NULL;
        width = shown && len > width ? len : width;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, columns[i].key);
        char cell[CELL_MAX];
        if (value != NULL) {
            cell_text(value, columns[i].as, cell);
            (void)printf("%-*s  %s\n", width, columns[i].title, cell);
        }
    }
}

/* By the endings the contract gives its names. */
static enum print_as kind_of(const char *key)
{
    return ends_with(key, "_at_ms") || ends_with(key, "_by_ms") ? PRINT_TIME
           : ends_with(key, "_cents")                           ? PRINT_MONEY
                                                                : PRINT_PLAIN;
}

/* Columns: the plain members of the first row. */
static size_t columns_find(json_t *row, struct print_column ret_columns[COLUMNS_MAX])
{
    size_t count = 0;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(row, key, value)
    {
        if (count < COLUMNS_MAX && !json_is_object(value) && !json_is_array(value)) {
            ret_columns[count++] = (struct print_column){key, key, kind_of(key)};
        }
    }
    return count;
}

static void anything_print(json_t *json, int depth)
{
    struct print_column columns[COLUMNS_MAX];
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(json, key, value)
    {
        char cell[CELL_MAX];
        bool nested = json_is_object(value) || json_is_array(value);
        cell_text(value, kind_of(key), cell);
        (void)printf("%*s%s%s%s\n", 2 * depth, "", key, nested ? ":" : "  ", nested ? "" : cell);
        if (json_is_object(value) && depth < DEPTH_MAX) {
            anything_print(value, depth + 1);
        } else if (json_is_array(value)) {
            size_t count = columns_find(json_array_get(value, 0), columns);
            print_table(value, columns, count);
        }
    }
}

void print_anything(const json_t *json)
{
    /* jansson's loops want to be able to change what they walk; this one does not. */
    anything_print((json_t *)json, 0);
}
