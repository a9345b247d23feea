/*
 * All limits of the program, each with the calculation that justifies it. Settings have their
 * limits here, too, where other parts depend on them; app/config.h refers to them.
 */
#ifndef SLUICE_BASE_LIMITS_H
#define SLUICE_BASE_LIMITS_H

/* Ids of users, sales and items: what a JSON number carries exactly. */
#define ID_MAX ((1ULL << 53) - 1)
/* One order's quantity, a limit, a restock: below 2^31, so sums of two fit 32 bits unsigned. */
#define QTY_MAX ((1ULL << 31) - 1)
/* Stock of one item: restocks may add up, sums stay far from 2^63. */
#define STOCK_MAX ((1ULL << 40) - 1)
/* Price in minor units: QTY_MAX * PRICE_MAX stays below 2^63 (31 + 31 bits). */
#define PRICE_MAX ((1ULL << 31) - 1)
/* 9999-12-31: sums of times cannot overflow. */
#define TIME_MAX_MS 253402300799999LL

/* Gate: records have a fixed size (core/gate.h asserts it), so the memory is a product of these. */
#define GATE_ORDERS_DEFAULT 1000000U /* 80 B each and 4 B of table: 80 MiB, used as orders arrive */
#define GATE_ORDERS_MAX 100000000U
#define GATE_BUYERS_DEFAULT 2000000U /* 40 B each and 4 B of table: 84 MiB */
#define GATE_BUYERS_MAX 1000000000U
#define GATE_ITEMS_DEFAULT 10000U
#define GATE_ITEMS_MAX 1000000U
#define GATE_SALES_DEFAULT 1000U
#define GATE_SALES_MAX 100000U

/* Shares of the gate's pools, in percent (core/gate.h). Together with the sale's share they leave room
 * for other sales, whatever one buyer, one item or one sale does. 1 % of the default are 10,000 orders
 * of one buyer for one item. */
#define GATE_BUYER_SHARE_DEFAULT 1U
#define GATE_BUYER_SHARE_LEAST 200U /* orders */
#define GATE_ITEM_SHARE_DEFAULT 50U
#define GATE_SALE_SHARE_DEFAULT 75U

/* Orders of one buyer for one item that ended unsold. Each stays in the gate until its sale is
 * forgotten; a loop of buying and cancelling must not fill it. */
#define BUYER_FAILED_ATTEMPTS_MAX 100U

/* Texts an operator gives. UTF-8 bytes. */
#define NAME_MAX_BYTES 200
#define SKU_MAX_BYTES 64
#define URL_MAX_BYTES 512
#define REQUEST_ID_MAX_BYTES 64
#define PAYMENT_ID_MAX_BYTES 64
#define ITEMS_PER_SALE_MAX 500

/* A buy older than this is not decided: its client has probably given up, and asks again with the
 * same ticket if not. Several times the longest sleep of a loop (1 s), so only a process that stood
 * still exceeds it. After that, all that arrived meanwhile has been read within the second time. */
#define BUY_AGE_MAX_US 5000000
#define BUY_STALE_US 1000000

/* Loops: the watch mask of an order is 64 bits wide. */
#define LOOPS_MAX 64

/* Gate requests of a loop under way: one for each connection, and as many again for those whose
 * connection has gone. */
#define REQUESTS_PER_CONNECTION 2U

/* Journal. A batch starts on its own sector so that writing one cannot harm its neighbour. */
#define JOURNAL_SECTOR 4096U
#define JOURNAL_BUFFER_BYTES (8U << 20) /* two of them: one open, one being written */
#define JOURNAL_FILE_DEFAULT_MIB 16U

/* HTTP. */
#define HTTP_LINE_MAX 2048U     /* target of the request line: 414 above */
#define HTTP_HEADERS_MAX 16384U /* request line and headers together: 431 above */
#define HTTP_BODY_MAX 262144U   /* 500 items * 500 bytes of JSON: 413 above */
/* Bodies of calls that are neither an operator's nor a payment: 413 above. A buyer's has a few short
 * members, and may be as large as what one read brings, to be told what is wrong with it. Calls
 * without a token have none; what anonymous clients send fits a small buffer. */
#define HTTP_BUYER_BODY_MAX HTTP_READ_BUFFER
#define HTTP_ANONYMOUS_BODY_MAX 2048U
#define HTTP_READ_BUFFER HTTP_HEADERS_MAX /* one per loop; the most one connection reads at once */
#define HTTP_SMALL_BUFFER 4096U /* borrowed by a half-read request or a half-sent answer */
/* The largest answer: a sale that arrived in a body of HTTP_BODY_MAX with 500 items, plus 400 bytes
 * of numbers for each item. */
#define HTTP_ANSWER_MAX (HTTP_BODY_MAX + ITEMS_PER_SALE_MAX * 400U + 16384U)
#define HTTP_LARGE_BUFFER (HTTP_ANSWER_MAX + 4096U)

/* Ranges of time for which a list of sales is kept (api/answer_cache.h), each with at most
 * HTTP_ANSWER_MAX bytes and a compressed copy: 17 lists are below 10 MiB. It also limits how many are
 * made in a second: 17 of about 2 ms. */
#define ANSWER_CACHE_RANGES 16U

/* Pages: the page of an item takes about 7 KiB with its compressed form, so 35,000 items fit. The
 * list shows whole sales until it has PAGES_LIST_ITEMS_MAX items. PAGE_MAX_BYTES limits one page,
 * and the manifest of all pages. */
#define PAGES_MEMORY_DEFAULT_MIB 256U
#define PAGES_LIST_ITEMS_MAX 1000U
#define PAGE_MAX_BYTES (16U << 20)

/* Counts of each sale (obs/tally.h). A row is 14 KiB, mostly the 9 KiB of a histogram and 4 KiB of
 * registers. 256 rows are 3.5 MiB for each loop, and 3.5 MiB for earlier counts, used as sales
 * come. Registers: the error of the estimate is 1.04 / sqrt(4096), 1.6 %. Seconds: how late a
 * reader may be and still see every second. */
#define TALLY_SALES 256U
#define TALLY_REGISTERS 4096U
#define TALLY_SECONDS 16U

/* Incidents kept in memory (obs/incident_log.h), 264 B each: 132 KiB. The file is rewritten when it
 * exceeds its limit, about ten times as many lines of 150 B. */
#define INCIDENT_LOG_MAX 512U
#define INCIDENT_LOG_FILE_MAX (1L << 20)

/* Parked messages (distributed/parked_messages.h). A call shows 200 messages of 600 B, 117 KiB, and
 * a loop has 8 calls in progress: below 1 MiB. A redrive holds one batch; the number it sends
 * limits its time, not its memory. */
#define PARKED_MESSAGES_SHOWN_MAX 200U
#define PARKED_MESSAGES_CALLS_MAX 8U
#define PARKED_MESSAGES_BATCH 256U
#define PARKED_MESSAGES_SENT_MAX 100000U

/* Status of the cluster (distributed/cluster_status.h), one copy per process: 64 segments of 144 B
 * and 16 leases take 12 KiB. */
#define CLUSTER_STATUS_ADDRESS_MAX 80U
#define CLUSTER_STATUS_LEASES_MAX 16U

/* Pages of the SQLite ledger whose checksums are looked at before a server serves: 512 MiB, half a
 * second from memory, some seconds from a disk. A larger ledger is looked at further while it is
 * served. */
#define LEDGER_START_CHECK_PAGES 131072U

/* Queries. */
#define PAGE_LIMIT_DEFAULT 50U
#define PAGE_LIMIT_MAX 1000U
#define WAIT_MAX_MS 30000U

#endif
