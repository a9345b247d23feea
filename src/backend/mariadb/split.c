/* See split.h. Pure. */
#include "backend/mariadb/split.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "port/segments.h"

uint32_t split_place(struct order_id id, uint32_t databases)
{
    CHECK(databases > 0);
    return order_id_kind(id) == ORDER_ONCE ? segment_home(order_id_user(id), databases)
                                           : order_id_segment(id) % databases;
}

void split_name(const char *database, uint32_t place, char ret_name[SPLIT_NAME_MAX])
{
    size_t length = 0;
    ret_name[length++] = '`';
    for (const char *c = database; *c != '\0'; c++) {
        CHECK(length < SPLIT_NAME_MAX - 8);
        if (*c == '`') {
            ret_name[length++] = '`';
        }
        ret_name[length++] = *c;
    }
    int end = place == 0 ? snprintf(ret_name + length, SPLIT_NAME_MAX - length, "`")
                         : snprintf(ret_name + length, SPLIT_NAME_MAX - length, "_%u`", place);
    CHECK(end > 0 && length + (size_t)end < SPLIT_NAME_MAX);
}
