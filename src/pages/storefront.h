/*
 * What the storefront's templates may say, and where it comes from: rows of the catalog. Pure; the
 * site (page_cache.h) keeps the results.
 *
 * A page says what a sale is, never how it goes: stock and states are asked for live. Its data, the
 * JSON for the page's script, has everything that the rest of the page has; so pages of the same
 * template differ exactly where their data does.
 */
#ifndef SLUICE_PAGES_STOREFRONT_H
#define SLUICE_PAGES_STOREFRONT_H

#include "pages/template.h"
#include "port/ledger.h"

/* One page's view: the list of sales, or one item of one sale. */
struct storefront {
    const struct sale_row *const *sales; /* of the list */
    size_t sales_count;
    const struct sale_row *sale;
    const struct item_row *item;
    const char *base_url; /* of the pages, without a slash at its end; empty: not known */
    struct span data;     /* as storefront_*_data wrote it */
};

/* What index.html, item.html and a page without data (orders, login, pay, missing) may say. */
extern const struct template_scope storefront_list_scope;
extern const struct template_scope storefront_item_scope;
extern const struct template_scope storefront_plain_scope;

/* The JSON, not yet made safe for a <script> element (out_script_json). */
void storefront_list_data(const struct storefront *view, struct out *out);
void storefront_item_data(const struct storefront *view, struct out *out);

/* The template with the view's rows; view->data is what {{data}} says. */
void storefront_render(const struct template *template, struct storefront *view, struct out *out);

/* Whether a page may show the picture: what our Content-Security-Policy lets through. */
bool storefront_shows_image(const char *image_url, const char *base_url);
/* How many digits of a price in minor units are behind the point. */
unsigned storefront_minor_digits(const char *currency);
/* "CNY 59.99": the currency's code and as many digits as its minor unit has. */
void storefront_money(struct out *out, const char *currency, uint64_t minor);

#endif
