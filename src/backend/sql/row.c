/* Columns of a row. See db.h. */
#include "backend/sql/db.h"

void db_text(const struct db_row *row, unsigned column, char *ret_text, size_t capacity)
{
    struct span text = db_span(row, column);
    size_t length = text.len < capacity ? text.len : capacity - 1;
    if (length > 0) {
        memcpy(ret_text, text.at, length);
    }
    ret_text[length] = '\0';
}

int db_refusal(const struct db_row *row, unsigned column, enum refusal *ret_refusal)
{
    struct span name = db_span(row, column);
    if (name.at == NULL) {
        *ret_refusal = REFUSAL_NONE;
        return 0;
    }
    return ledger_refusal_parse(name, ret_refusal);
}
