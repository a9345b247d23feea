/*
 * Orders split over several databases of one server: which database an order is kept in.
 *
 * The place is a function of the order's id alone, so whoever has the id knows where to look, and
 * an id can be in one database only. It goes by segment: that of the gate that decided the order,
 * modulo the number of databases. An id of a buyer's only order (ORDER_ONCE) does not carry its
 * segment, but its buyer, whose home is a hash modulo the sale's homes; the same hash modulo the
 * number of databases is the home's database wherever that number divides the homes, and a place
 * that never changes wherever it does not, or homes go by region.
 */
#ifndef SLUICE_BACKEND_MARIADB_SPLIT_H
#define SLUICE_BACKEND_MARIADB_SPLIT_H

#include "core/types.h"

/* Each of them costs a connection a dozen prepared statements, and what is asked of all of them an
 * answer each. */
#define SPLIT_MAX 16
/* A name in backticks, each of its own doubled. */
#define SPLIT_NAME_MAX 136

uint32_t split_place(struct order_id id, uint32_t databases);
/* The database of a place, quoted: `name` for the first, `name_1` for the second ... */
void split_name(const char *database, uint32_t place, char ret_name[SPLIT_NAME_MAX]);

#endif
