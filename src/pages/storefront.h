/*
 * The keys of the storefront's templates and their values from rows of the catalog. Pure; the page
 * cache (page_cache.h) keeps the results.
 *
 * A page shows what a sale is, never its progress: stock and states are read live. Its data, the
 * JSON for its script, contains everything else on the page; so two pages of one template differ
 * exactly if their data differs.
 */
#ifndef SLUICE_PAGES_STOREFRONT_H
#define SLUICE_PAGES_STOREFRONT_H

#include "pages/template.h"
#include "port/ledger.h"

/* One page's view: the list of sales, or one item of one sale. */
struct storefront {
    const struct sale_row *const *sales; /* list only */
    size_t sales_count;
    const struct sale_row *sale;
    const struct item_row *item;
    const char *base_url; /* of the pages, without a trailing slash; empty: not known */
    struct span data;     /* written by storefront_*_data */
};

/* Keys of index.html, of item.html, and of pages without data (orders, login, pay, missing). */
extern const struct template_scope storefront_list_scope;
extern const struct template_scope storefront_item_scope;
extern const struct template_scope storefront_plain_scope;

/* The JSON, before out_script_json makes it safe for a <script> element. */
void storefront_list_data(const struct storefront *view, struct out *out);
void storefront_item_data(const struct storefront *view, struct out *out);

/* Renders the template with the view's rows; {{data}} is view->data. */
void storefront_render(const struct template *template, struct storefront *view, struct out *out);

/* Whether the Content-Security-Policy allows the picture. */
bool storefront_shows_image(const char *image_url, const char *base_url);
/* Digits after the decimal point of a price in minor units. */
unsigned storefront_minor_digits(const char *currency);
/* "CNY 59.99": the currency's code and as many digits as its minor unit has. */
void storefront_money(struct out *out, const char *currency, uint64_t minor);

#endif
