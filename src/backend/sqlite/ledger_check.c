/*
 * Looking for damage: the pieces of ledger_check(), and the whole.
 *
 * A pass has four parts. Checksums of all pages, past SQLite's cache. quick_check of each table, in
 * a ledger that is not large. Every order by its key, and whether the buyers' index finds it. Every
 * entry of that index, and whether the table has its order. Each piece is a few milliseconds and a
 * read transaction of its own; orders that come or move meanwhile are in both or in neither.
 *
 * Whole: checksums, then integrity_check, which reads all tables and all indexes in one transaction.
 * The WAL grows meanwhile.
 */
#include <stdio.h>

#include "backend/sqlite/page_checksums.h"
#include "backend/sqlite/store.h"
#include "base/err.h"

enum { PART_PAGES, PART_TABLES, PART_ROWS, PART_INDEX, PARTS };

#define PIECE_PAGES 1024 /* 4 MiB */
#define PIECE_ROWS 4096
#define WHOLE_STEPS 100000 /* of SQLite's machine between two questions whether to stop */

static void add_damage(struct ledger_check *check, struct ledger_damage damage, const char *what)
{
    if (check->damaged++ == 0) {
        (void)snprintf(check->what, sizeof(check->what), "%.255s", what);
    }
    if (check->damage_count < LEDGER_DAMAGE_MAX) {
        check->damage[check->damage_count++] = damage;
    }
}

void store_check_pages(struct ledger_check *check, const struct page_checksums_scan *scan)
{
    char what[120];
    check->pages += scan->pages;
    check->at_page = scan->page;
    if (scan->bad > 0) {
        (void)snprintf(what, sizeof(what), "page %u of the ledger is damaged (checksum)",
                       (unsigned)scan->first_bad);
        add_damage(check, (struct ledger_damage){.page = scan->first_bad}, what);
        check->damaged += scan->bad - 1;
    }
}

static int check_pages(struct store *s, struct ledger_check *check, uint64_t max)
{
    struct page_checksums_scan scan = {.page = check->at_page, .pages_max = max};
    int code = page_checksums_on(s->db) ? page_checksums_scan(s->db, &scan) : SQLITE_OK;
    if (code != SQLITE_OK) {
        return store_failed(s, code, "read the file");
    }
    store_check_pages(check, &scan);
    check->done = scan.done || !page_checksums_on(s->db);
    return 0;
}

int store_pragma_check(struct store *s, const char *sql, struct ledger_check *check)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *said = (const char *)sqlite3_column_text(statement, 0);
        code = said == NULL ? SQLITE_NOMEM : SQLITE_OK;
        if (said != NULL && strcmp(said, "ok") != 0) {
            add_damage(check, (struct ledger_damage){0}, said);
        }
    }
    int err = 0;
    if (code == SQLITE_INTERRUPT) {
        err = ERR_CLOSED;
    } else if (code != SQLITE_DONE) {
        err = store_failed(s, code, sql);
        if (err == ERR_CORRUPT) {
            add_damage(check, (struct ledger_damage){.page = page_checksums_bad_page(s->db)},
                       s->error);
        }
    }
    (void)sqlite3_finalize(statement);
    return err != 0 ? err : check->damaged > 0 ? ERR_CORRUPT : 0;
}

/* Each table with its indexes. An index that lacks a row is not seen here, but by PART_ROWS. */
static int check_tables(struct store *s, struct ledger_check *check)
{
    static const char *const tables[] = {
        "meta",         "sales",      "items",       "stock",           "orders",
        "holdings",     "payments",   "restocks",    "events",          "cursors",
        "sale_changes", "order_sums", "sale_course", "booking_lengths", "blocks"};
    enum { TABLES = sizeof(tables) / sizeof(tables[0]) };
    char sql[80];
    uint64_t which = check->at_page; /* the cursor of this part */
    check->done = which + 1 >= TABLES;
    check->at_page++;
    (void)snprintf(sql, sizeof(sql), "PRAGMA quick_check('%s')", tables[which]);
    int err = which < TABLES ? store_pragma_check(s, sql, check) : 0;
    return err == ERR_CORRUPT ? 0 : err;
}

static int check_orders(struct store *s, struct ledger_check *check, bool by_index)
{
    struct db_row *row;
    struct ledger_damage *at = &check->at_order;
    struct id_text id = id_text_of(at->id);
    struct value after_id = at->item == 0 ? v_text("") : v_id(&id);
    int err = by_index ? db_get(&s->base, SQL_CHECK_INDEX, &row, v_int((int64_t)at->user),
                                v_int(check->at_ms), v_int((int64_t)at->item), after_id,
                                v_int(PIECE_ROWS))
                       : db_get(&s->base, SQL_CHECK_ROWS, &row, v_int((int64_t)at->item), after_id,
                                v_int(PIECE_ROWS));
    uint64_t rows = 0;
    for (; err == 0; err = db_next(row), rows++) {
        *at = (struct ledger_damage){.item = db_u64(row, 0), .user = db_u64(row, 2)};
        check->at_ms = db_int(row, 3);
        if (order_id_parse(db_span(row, 1), &at->id) != 0) {
            add_damage(check, *at, "an order's id is damaged");
            db_done(row);
            check->done = true; /* there is no way on from here */
            return 0;
        }
        if (db_int(row, 4) == 0) {
            add_damage(check, *at,
                       by_index ? "the index of buyers has an order that the ledger has not"
                                : "the index of buyers lacks an order");
        }
    }
    check->rows += rows;
    check->done = rows < PIECE_ROWS;
    return err == ERR_NOTFOUND ? 0 : err;
}

static int check_piece(struct store *s, struct ledger_check *check)
{
    switch (check->part) {
    case PART_PAGES:
        return check_pages(s, check, PIECE_PAGES);
    case PART_TABLES: {
        int64_t pages = 0;
        struct db_row *row;
        int err = db_get_plain(&s->base, SQL_PAGE_COUNT, &row);
        if (err == 0) {
            pages = db_int(row, 0);
            db_done(row);
        }
        check->done = true;
        return err == 0 && pages <= STORE_QUICK_CHECK_PAGES ? check_tables(s, check) : err;
    }
    case PART_ROWS:
        return check_orders(s, check, false);
    default:
        return check_orders(s, check, true);
    }
}

static int stop_whole(void *context)
{
    const struct ledger_check *check = context;
    return check->stop(check->context) ? 1 : 0;
}

static int check_whole(struct store *s, struct ledger_check *check)
{
    check->at_page = 0;
    int err = check_pages(s, check, UINT64_MAX / 2);
    if (check->stop != NULL) {
        sqlite3_progress_handler(s->db, WHOLE_STEPS, stop_whole, check);
    }
    if (err == 0) {
        err = store_pragma_check(s, "PRAGMA integrity_check(16)", check);
    }
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    check->at_page = 0;
    check->part = 0;
    check->done = true;
    return err;
}

void store_check(struct ledger *ledger, struct ledger_check *check)
{
    struct store *s = store_of(ledger);
    int err = check->whole ? check_whole(s, check) : check_piece(s, check);
    store_rollback(s); /* ends what a failed statement left open */
    if (!check->whole && check->done && err == 0) {
        check->part = (check->part + 1) % PARTS;
        check->at_page = 0;
        check->at_order = (struct ledger_damage){0};
        check->at_ms = 0;
        check->done = check->part == 0;
    }
    if (err == ERR_CORRUPT && check->damaged == 0) {
        add_damage(check, (struct ledger_damage){.page = page_checksums_bad_page(s->db)}, s->error);
    }
    if (err == ERR_CORRUPT && !check->whole) { /* on with the next part: this one cannot be read */
        check->part = (check->part + 1) % PARTS;
        check->at_page = 0;
        check->at_order = (struct ledger_damage){0};
        check->at_ms = 0;
        check->done = check->part == 0;
    }
    check->error = err != 0 ? err : check->damaged > 0 ? ERR_CORRUPT : 0;
}
