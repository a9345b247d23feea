/*
 * Prints answers of the server: JSON as it came, or tables for people. Control characters in texts
 * are removed.
 */
#ifndef SLUICE_CLI_PRINT_H
#define SLUICE_CLI_PRINT_H

#include <jansson.h>

/* How a column shows its value. A missing or null value is shown as "-". */
enum print_as {
    PRINT_PLAIN,    /* texts, numbers, booleans as they are */
    PRINT_TIME,     /* milliseconds since the epoch, as UTC */
    PRINT_MONEY,    /* minor units, with two decimals */
    PRINT_COUNT,    /* of an array: how many */
    PRINT_PERMILLE, /* as percent */
};

struct print_column {
    const char *title;
    const char *key;
    enum print_as as;
};

void print_json(const json_t *json);
/* One line for each object of the array. Columns are as wide as needed; numbers are aligned to the
 * right. The last column is never padded: it holds names, which may be wider than their number of
 * characters. */
void print_table(const json_t *rows, const struct print_column *columns, size_t count);
/* One line for each member: "title: value". Members that are missing are left out. */
void print_members(const json_t *object, const struct print_column *columns, size_t count);
/* Any object, one line for each member; nested ones are indented. */
void print_lines(const json_t *json);

#endif
