/*
 * The routes: the one list of what the server answers. They are tried in this order, so frequent ones
 * come first. A HEAD request uses the route of GET. The router answers OPTIONS without this list.
 * test_openapi.c compares the list with /openapi.json.
 */
#include "api/handlers.h"

#define GET HTTP_GET
#define POST HTTP_POST
#define PUT HTTP_PUT
#define DELETE HTTP_DELETE

const struct route routes[] = {
    {POST, "/v1/buy/{ticket}", NEED_BUYER, ROUTE_PUBLIC, handle_buy, "Ask for an order"},
    {GET, "/v1/orders/{order}", NEED_BUYER, ROUTE_PUBLIC, handle_order, "An order's state"},
    {POST, "/v1/items/{item}/ticket", NEED_BUYER, ROUTE_PUBLIC, handle_ticket, "Take a ticket"},
    {GET, "/v1/items/{item}", NEED_NOTHING, ROUTE_PUBLIC, handle_item, "An item and its stock"},
    {GET, "/v1/time", NEED_NOTHING, ROUTE_PUBLIC, handle_time, "The server's time"},
    {GET, "/v1/sales", NEED_NOTHING, ROUTE_PUBLIC, handle_sales, "All sales but drafts"},
    {GET, "/v1/orders/{order}/events", NEED_BUYER, ROUTE_PUBLIC, handle_order_events,
     "An order's changes, pushed"},
    {GET, "/v1/items/{item}/events", NEED_NOTHING, ROUTE_PUBLIC, handle_item_events,
     "An item's changes, pushed"},
    {POST, "/v1/orders/{order}/cancel", NEED_BUYER, ROUTE_PUBLIC, handle_cancel, "Cancel an order"},
    {GET, "/v1/me/orders", NEED_BUYER, ROUTE_PUBLIC, handle_my_orders, "The buyer's orders"},
    {POST, "/v1/payments", NEED_SIGNATURE, ROUTE_PUBLIC, handle_payment, "An order was paid"},
    {GET, "/", NEED_NOTHING, ROUTE_PUBLIC, handle_list_page, "The page of all sales"},
    {GET, "/items/{item}", NEED_NOTHING, ROUTE_PUBLIC, handle_item_page, "An item's page"},
    {GET, "/orders", NEED_NOTHING, ROUTE_PUBLIC, handle_orders_page, "The page of one's orders"},
    {POST, "/v1/orders/{order}/pay", NEED_BUYER, ROUTE_DEMO, handle_demo_pay,
     "The demo's pay button"},
    {GET, "/demo/login", NEED_NOTHING, ROUTE_DEMO, handle_demo_login, "The demo's login"},
    {GET, "/demo/pay", NEED_NOTHING, ROUTE_DEMO, handle_demo_pay_page, "The demo's pay page"},
    {GET, "/v1/page-config", NEED_NOTHING, ROUTE_PUBLIC, handle_page_config,
     "What the page has to know"},
    {POST, "/v1/admin/sales", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_create, "Create a sale"},
    {GET, "/v1/admin/sales", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_list, "All sales"},
    {GET, "/v1/admin/sales/{sale}", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_read, "One sale"},
    {PUT, "/v1/admin/sales/{sale}", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_change, "Change a sale"},
    {DELETE, "/v1/admin/sales/{sale}", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_delete,
     "Delete a draft"},
    {GET, "/v1/admin/sales/{sale}/report", NEED_ADMIN, ROUTE_PUBLIC, handle_report,
     "What happened"},
    {POST, "/v1/admin/sales/{sale}/warm", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_warm,
     "Load a sale"},
    {POST, "/v1/admin/sales/{sale}/open", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_open,
     "Open or resume a sale"},
    {POST, "/v1/admin/sales/{sale}/pause", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_pause,
     "Refuse new orders"},
    {POST, "/v1/admin/sales/{sale}/close", NEED_ADMIN, ROUTE_PUBLIC, handle_sale_close,
     "End a sale for good"},
    {POST, "/v1/admin/items/{item}/restock", NEED_ADMIN, ROUTE_PUBLIC, handle_restock,
     "More stock"},
    {GET, "/v1/admin/orders", NEED_ADMIN, ROUTE_PUBLIC, handle_admin_orders,
     "Orders, page by page"},
    {GET, "/v1/admin/orders/{order}", NEED_ADMIN, ROUTE_PUBLIC, handle_admin_order,
     "One order with its history"},
    {GET, "/v1/admin/events", NEED_ADMIN, ROUTE_PUBLIC, handle_admin_events,
     "Everything that happened"},
    {POST, "/v1/admin/reconcile", NEED_ADMIN, ROUTE_PUBLIC, handle_reconcile,
     "Compare gate, queue and ledger"},
    {GET, "/v1/admin/queue", NEED_ADMIN, ROUTE_PUBLIC, handle_queue, "What is parked in the queue"},
    {POST, "/v1/admin/queue/redrive", NEED_ADMIN, ROUTE_PUBLIC, handle_redrive,
     "Send what is parked round again"},
    {GET, "/v1/admin/live", NEED_ADMIN, ROUTE_PUBLIC, handle_live, "The dashboard's feed"},
    {GET, "/metrics", NEED_NOTHING, ROUTE_HEALTH, handle_metrics, "Prometheus metrics"},
    {GET, "/livez", NEED_NOTHING, ROUTE_HEALTH, handle_livez, "The process runs"},
    {GET, "/readyz", NEED_NOTHING, ROUTE_HEALTH, handle_readyz, "Buyers can be served"},
    {GET, "/pages.json", NEED_NOTHING, ROUTE_PUBLIC, handle_manifest,
     "All pages and files, for copying them"},
    {GET, "/openapi.json", NEED_NOTHING, ROUTE_PUBLIC, handle_openapi,
     "This contract as OpenAPI 3.1"},
};
const size_t routes_count = sizeof(routes) / sizeof(routes[0]);
