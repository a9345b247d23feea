/*
 * Tables for people. Nothing here fails: text that does not fit its cell is cut.
 */
#include "cli/print.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CELL_MAX 512
#define LABEL_MAX 64
#define COLUMNS_MAX 24
#define DEPTH_MAX 6
#define MS_OF_A_TIME 1000000000000 /* September 2001; as a duration 31 years */

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
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = ' ';
        }
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
    } else if (as == PRINT_PERMILLE && json_is_integer(value)) {
        json_int_t permille = json_integer_value(value);
        (void)snprintf(ret_text, CELL_MAX, "%" JSON_INTEGER_FORMAT ".%d %%", permille / 10,
                       (int)(permille % 10));
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

/* Follows the suffixes of names in the API. A small number of milliseconds is a duration. */
static enum print_as kind_of(const char *key, const json_t *value)
{
    bool is_time = ends_with(key, "_ms") && json_integer_value(value) > MS_OF_A_TIME;
    return is_time                       ? PRINT_TIME
           : ends_with(key, "_cents")    ? PRINT_MONEY
           : ends_with(key, "_permille") ? PRINT_PERMILLE
                                         : PRINT_PLAIN;
}

/* The name for people, without a unit that the value no longer has. */
static void label_text(const char *key, const json_t *value, char ret_text[LABEL_MAX])
{
    static const char *const units[] = {
        [PRINT_TIME] = "_ms", [PRINT_MONEY] = "_cents", [PRINT_PERMILLE] = "_permille"};
    enum print_as as = kind_of(key, value);
    size_t len = strlen(key);
    len -= as != PRINT_PLAIN ? strlen(units[as]) : 0;
    (void)snprintf(ret_text, LABEL_MAX, "%.*s", (int)len, key);
    for (char *c = ret_text; *c != '\0'; c++) {
        if (*c == '_') {
            *c = ' ';
        }
    }
}

static bool is_flat(json_t *json)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(json, key, value)
    {
        if (json_is_object(value) || json_is_array(value)) {
            return false;
        }
    }
    return json_is_object(json);
}

/* An object without nested ones, on one line. */
static void flat_print(json_t *json)
{
    const char *key = NULL;
    json_t *value = NULL;
    const char *between = "";
    json_object_foreach(json, key, value)
    {
        char cell[CELL_MAX];
        char label[LABEL_MAX];
        cell_text(value, kind_of(key, value), cell);
        label_text(key, value, label);
        (void)printf("%s%s %s", between, label, cell);
        between = ", ";
    }
    (void)puts(json_object_size(json) == 0 ? "-" : "");
}

static void lines_print(json_t *json, int depth)
{
    int width = 0;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(json, key, value)
    {
        char label[LABEL_MAX];
        label_text(key, value, label);
        width = (int)strlen(label) > width ? (int)strlen(label) : width;
    }
    json_object_foreach(json, key, value)
    {
        char cell[CELL_MAX];
        char label[LABEL_MAX];
        label_text(key, value, label);
        (void)printf("%*s%-*s  ", 2 * depth, "", width, label);
        if (is_flat(value)) {
            flat_print(value);
        } else if (json_is_object(value) && depth < DEPTH_MAX) {
            (void)fputc('\n', stdout);
            lines_print(value, depth + 1);
        } else if (json_is_array(value) && depth < DEPTH_MAX) {
            (void)printf("%zu\n", json_array_size(value));
            for (size_t i = 0; i < json_array_size(value); i++) {
                lines_print(json_array_get(value, i), depth + 1);
                (void)fputc('\n', stdout);
            }
        } else {
            cell_text(value, kind_of(key, value), cell);
            (void)puts(cell);
        }
    }
}

void print_lines(const json_t *json)
{
    /* jansson's loops take a non-const pointer; this one changes nothing. */
    lines_print((json_t *)json, 0);
}
