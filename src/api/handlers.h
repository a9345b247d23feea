/* All handlers by file. routes.c assigns them to methods and paths. */
#ifndef SLUICE_API_HANDLERS_H
#define SLUICE_API_HANDLERS_H

#include "api/api.h"

/* buyer.c */
enum http_outcome handle_time(struct api_request *req);
enum http_outcome handle_sales(struct api_request *req);
enum http_outcome handle_item(struct api_request *req);
enum http_outcome handle_item_events(struct api_request *req);
enum http_outcome handle_ticket(struct api_request *req);
enum http_outcome handle_buy(struct api_request *req);
/* orders.c */
enum http_outcome handle_order(struct api_request *req);
enum http_outcome handle_order_events(struct api_request *req);
enum http_outcome handle_cancel(struct api_request *req);
enum http_outcome handle_my_orders(struct api_request *req);
/* shop.c */
enum http_outcome handle_payment(struct api_request *req);
/* Whether the head of a payment could be that of a signed one. False: it was refused. */
bool payment_plausible(struct api_request *req);
enum http_outcome handle_demo_pay(struct api_request *req);
enum http_outcome handle_demo_login(struct api_request *req);
/* pages.c */
enum http_outcome handle_list_page(struct api_request *req);
enum http_outcome handle_item_page(struct api_request *req);
enum http_outcome handle_orders_page(struct api_request *req);
enum http_outcome handle_manifest(struct api_request *req);
enum http_outcome handle_demo_login_page(struct api_request *req);
enum http_outcome handle_demo_pay_page(struct api_request *req);
/* admin_sales.c */
enum http_outcome handle_sale_create(struct api_request *req);
enum http_outcome handle_sale_list(struct api_request *req);
enum http_outcome handle_sale_read(struct api_request *req);
enum http_outcome handle_sale_change(struct api_request *req);
enum http_outcome handle_sale_delete(struct api_request *req);
enum http_outcome handle_sale_warm(struct api_request *req);
enum http_outcome handle_sale_open(struct api_request *req);
enum http_outcome handle_sale_pause(struct api_request *req);
enum http_outcome handle_sale_close(struct api_request *req);
enum http_outcome handle_restock(struct api_request *req);
/* admin_blocks.c */
enum http_outcome handle_block_list(struct api_request *req);
enum http_outcome handle_block_read(struct api_request *req);
enum http_outcome handle_block_set(struct api_request *req);
enum http_outcome handle_block_remove(struct api_request *req);
/* admin_orders.c */
enum http_outcome handle_admin_orders(struct api_request *req);
enum http_outcome handle_admin_order(struct api_request *req);
enum http_outcome handle_admin_events(struct api_request *req);
enum http_outcome handle_live(struct api_request *req);
/* report.c */
enum http_outcome handle_report(struct api_request *req);
/* admin_reconcile.c */
enum http_outcome handle_reconcile(struct api_request *req);
/* admin_queue.c */
enum http_outcome handle_queue(struct api_request *req);
enum http_outcome handle_redrive(struct api_request *req);
/* service.c */
enum http_outcome handle_metrics(struct api_request *req);
enum http_outcome handle_livez(struct api_request *req);
enum http_outcome handle_readyz(struct api_request *req);
enum http_outcome handle_page_config(struct api_request *req);
enum http_outcome handle_openapi(struct api_request *req);

#endif
