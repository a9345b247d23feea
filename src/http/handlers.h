/* Every handler, by family; routes.c binds them to paths. */
#ifndef SLUICE_HTTP_HANDLERS_H
#define SLUICE_HTTP_HANDLERS_H

#include "http/front.h"

/* buyer.c */
enum http_outcome handle_time(struct asking *asking);
enum http_outcome handle_sales(struct asking *asking);
enum http_outcome handle_item(struct asking *asking);
enum http_outcome handle_item_events(struct asking *asking);
enum http_outcome handle_ticket(struct asking *asking);
enum http_outcome handle_buy(struct asking *asking);
/* orders.c */
enum http_outcome handle_order(struct asking *asking);
enum http_outcome handle_order_events(struct asking *asking);
enum http_outcome handle_cancel(struct asking *asking);
enum http_outcome handle_my_orders(struct asking *asking);
/* shop.c */
enum http_outcome handle_payment(struct asking *asking);
enum http_outcome handle_demo_pay(struct asking *asking);
enum http_outcome handle_demo_login(struct asking *asking);
/* pages.c */
enum http_outcome handle_list_page(struct asking *asking);
enum http_outcome handle_item_page(struct asking *asking);
enum http_outcome handle_orders_page(struct asking *asking);
enum http_outcome handle_manifest(struct asking *asking);
enum http_outcome handle_demo_login_page(struct asking *asking);
enum http_outcome handle_demo_pay_page(struct asking *asking);
/* admin_sales.c */
enum http_outcome handle_sale_create(struct asking *asking);
enum http_outcome handle_sale_list(struct asking *asking);
enum http_outcome handle_sale_read(struct asking *asking);
enum http_outcome handle_sale_change(struct asking *asking);
enum http_outcome handle_sale_delete(struct asking *asking);
enum http_outcome handle_sale_warm(struct asking *asking);
enum http_outcome handle_sale_open(struct asking *asking);
enum http_outcome handle_sale_pause(struct asking *asking);
enum http_outcome handle_sale_close(struct asking *asking);
enum http_outcome handle_restock(struct asking *asking);
/* admin_orders.c */
enum http_outcome handle_admin_orders(struct asking *asking);
enum http_outcome handle_admin_order(struct asking *asking);
enum http_outcome handle_admin_events(struct asking *asking);
enum http_outcome handle_live(struct asking *asking);
/* report.c */
enum http_outcome handle_report(struct asking *asking);
/* admin_reconcile.c */
enum http_outcome handle_reconcile(struct asking *asking);
/* admin_queue.c */
enum http_outcome handle_queue(struct asking *asking);
enum http_outcome handle_redrive(struct asking *asking);
/* service.c */
enum http_outcome handle_metrics(struct asking *asking);
enum http_outcome handle_livez(struct asking *asking);
enum http_outcome handle_readyz(struct asking *asking);
enum http_outcome handle_page_config(struct asking *asking);
enum http_outcome handle_openapi(struct asking *asking);

#endif
