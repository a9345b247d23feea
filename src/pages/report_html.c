/*
 * The report as one HTML page without scripts or external files, its charts drawn as SVG, so that
 * it can be saved, mailed and printed. Texts of the shop (names) are escaped.
 */
#include <string.h>
#include <time.h>

#include "pages/report.h"
#include "pages/storefront.h"
#include "pages/template.h"

#define CHART_W 720
#define CHART_H 220
#define CHART_LEFT 64
#define CHART_BOTTOM 28
#define REASONS_MAX 16

/* ---- words ---- */

#define WORDS(X)                                                                                   \
    X(TITLE, "Sale report", "场次报告")                                                            \
    X(MADE_AT, "made", "生成于")                                                                   \
    X(SOLD, "sold through", "售出率")                                                              \
    X(REVENUE, "paid", "已付款")                                                                   \
    X(ORDERS, "orders", "订单")                                                                    \
    X(ASKING, "buyers who asked", "参与买家")                                                      \
    X(WITH_ORDERS, "buyers with an order", "有订单的买家")                                         \
    X(WINNERS, "winners", "抢到的买家")                                                            \
    X(PAYERS, "buyers who paid", "付款的买家")                                                     \
    X(UNPAID, "not paid in time", "超时未付")                                                      \
    X(PEAK_ORDERS, "most orders in a second", "一秒内最多订单")                                    \
    X(PEAK_ASKED, "most requests in a second", "一秒内最多请求")                                   \
    X(ANSWER, "buy answered, 99 % under", "下单应答，99% 低于")                                    \
    X(BOOKING, "booked, 99 % under", "落库，99% 低于")                                             \
    X(RUSH, "The rush: from the first order to the last", "抢购过程：从第一单到最后一单")          \
    X(WHOLE, "The whole sale: taken and paid", "整个场次：取走与付款")                             \
    X(TAKEN, "units taken", "取走件数")                                                            \
    X(PAID_UNITS, "units paid", "付款件数")                                                        \
    X(ITEMS, "Items", "商品")                                                                      \
    X(ITEM, "item", "商品")                                                                        \
    X(TOTAL, "total", "总量")                                                                      \
    X(PAID, "paid", "已付")                                                                        \
    X(WAITING, "to be paid", "待付款")                                                             \
    X(FUNNEL, "From asking to paying", "从请求到付款")                                             \
    X(ASKED, "requests for a ticket or to buy", "领取资格和下单的请求")                            \
    X(TICKETS, "tickets given", "发出资格")                                                        \
    X(WON, "won", "抢到")                                                                          \
    X(REFUSALS, "Refusals, by reason", "拒绝，按原因")                                             \
    X(NONE, "None.", "没有。")                                                                     \
    X(COMPARED, "Compared with the sale before", "与上一场次比较")                                 \
    X(THIS_ONE, "this sale", "本场次")                                                             \
    X(FAULTS, "Faults and switches during it", "期间的故障与切换")                                 \
    X(COUNTED,                                                                                     \
      "Requests, refusals, buyers who asked and times to answer were counted by the "              \
      "server that made this report, for this sale alone, since",                                  \
      "请求、拒绝、参与买家和应答时间由生成本报告的服务器统计，仅限本场次，自")                    \
    X(ESTIMATED,                                                                                   \
      "Buyers who asked are estimated, within about 3 %. Orders, units, winners and "              \
      "money are the ledger's, and exact.",                                                        \
      "参与买家数为估算，误差约 3%。订单、件数、抢到的买家和金额来自账本，准确无误。")             \
    X(NOT_ALL, "That was after the sale's start: what was asked before is not in it.",             \
      "这晚于场次开始：之前的请求不在其中。")                                                      \
    X(NOT_COUNTED, "This server has counted nothing of this sale.", "本服务器没有本场次的统计。")  \
    X(KEPT, "As this server's own log has them, since", "来自本服务器的日志，自")                  \
    X(STEP, "each step", "每格")

enum word {
#define X(name, english, chinese) W_##name,
    WORDS(X)
#undef X
        W_COUNT
};
static const char *const words[W_COUNT][2] = {
#define X(name, english, chinese) {english, chinese},
    WORDS(X)
#undef X
};

/* Texts for refusals by code and sale states by name. Others are shown as they are. */
static const struct {
    const char *code;
    const char *words[2];
} names[] = {
    {"bad_request", {"not understood", "无法理解"}},
    {"too_large", {"too large", "过大"}},
    {"bad_media_type", {"not JSON", "不是 JSON"}},
    {"unauthenticated", {"not logged in", "未登录"}},
    {"bad_signature", {"wrong signature", "签名错误"}},
    {"forbidden", {"not allowed", "没有权限"}},
    {"bad_ticket", {"ticket not valid", "资格无效"}},
    {"blocked", {"blocked by the operator", "已被屏蔽"}},
    {"not_found", {"not found", "找不到"}},
    {"no_such_item", {"no such item", "没有此商品"}},
    {"method_not_allowed", {"wrong method", "方法不允许"}},
    {"sold_out", {"sold out", "已售罄"}},
    {"limit_reached", {"over the limit", "超过限购"}},
    {"barred", {"barred, or made to wait, after not paying", "曾未付款，不能或暂不能再买"}},
    {"not_open", {"sale not open", "场次未开放"}},
    {"ended", {"sale over", "场次已结束"}},
    {"expired", {"order over", "订单已失效"}},
    {"already_paid", {"paid already", "已经付款"}},
    {"queued", {"still being booked", "仍在落库"}},
    {"exists", {"exists already", "已经存在"}},
    {"bad_state", {"not in this state", "当前状态不允许"}},
    {"different_request", {"same ticket, other request", "同一资格，请求不同"}},
    {"wrong_amount", {"wrong amount", "金额不符"}},
    {"too_early", {"too early", "太早"}},
    {"rate_limited", {"too often", "太频繁"}},
    {"timeout", {"came too slowly", "传输太慢"}},
    {"overloaded", {"too busy", "太忙"}},
    {"degraded", {"not available just then", "暂时不可用"}},
    {"draining", {"server stopping", "服务器正在停止"}},
    {"undecided", {"in line, undecided", "排队待定"}},
    {"draft", {"draft", "草稿"}},
    {"warm", {"warm", "已预热"}},
    {"open", {"open", "进行中"}},
    {"paused", {"paused", "已暂停"}},
    {"closed", {"closed", "已结束"}}};

struct page {
    const struct report *report;
    struct out *out;
    int language;
};

static void say(struct page *page, enum word word)
{
    out_text(page->out, words[word][page->language]);
}

static const char *name_of(const struct page *page, const char *code)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].code, code) == 0) {
            return names[i].words[page->language];
        }
    }
    return code;
}

/* ---- pieces ---- */

static void put_escaped(struct out *out, const char *text)
{
    out_html(out, span_of(text));
}

/* With thousands separators. */
static void put_number(struct out *out, uint64_t value)
{
    if (value >= 1000) {
        put_number(out, value / 1000);
        out_format(out, ",%03u", (unsigned)(value % 1000));
    } else {
        out_u64(out, value);
    }
}

static void put_permille(struct out *out, uint64_t permille)
{
    out_format(out, "%llu.%llu %%", (unsigned long long)(permille / 10),
               (unsigned long long)(permille % 10));
}

static void put_money(struct out *out, int64_t cents, const char *currency)
{
    unsigned digits = storefront_minor_digits(currency);
    uint64_t unit = 1;
    for (unsigned i = 0; i < digits; i++) {
        unit *= 10;
    }
    uint64_t value = cents > 0 ? (uint64_t)cents : 0;
    put_escaped(out, currency);
    out_char(out, ' ');
    put_number(out, value / unit);
    if (digits > 0) {
        out_format(out, ".%0*u", (int)digits, (unsigned)(value % unit));
    }
}

static void put_time(struct out *out, int64_t at_ms, const char *format)
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm utc;
    char text[40];
    if (gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(text, sizeof(text), format, &utc);
        out_text(out, text);
    }
}

static void put_moment(struct out *out, int64_t at_ms)
{
    put_time(out, at_ms, "%Y-%m-%d %H:%M:%S UTC");
}

/* With one decimal unless it is 0. */
static void put_tenths(struct out *out, uint64_t us, uint64_t unit, const char *name)
{
    put_number(out, us / unit);
    if (us % unit * 10 / unit > 0) {
        out_format(out, ".%u", (unsigned)(us % unit * 10 / unit));
    }
    out_format(out, " %s", name);
}

static void put_length(struct out *out, uint64_t us)
{
    if (us >= 3600000000ULL) {
        put_tenths(out, us, 3600000000ULL, "h");
    } else if (us >= 60000000) {
        put_tenths(out, us, 60000000, "min");
    } else if (us >= 1000000) {
        put_tenths(out, us, 1000000, "s");
    } else if (us >= 1000) {
        put_tenths(out, us, 1000, "ms");
    } else {
        out_format(out, "%llu µs", (unsigned long long)us);
    }
}

/* ---- the head ---- */

static const char style[] =
    "<style>:root{color-scheme:light dark;--ink:#14201e;--soft:#52605d;--line:#d8dfdd;--card:#fff;"
    "--ground:#f3f5f4;--accent:#0f6f66;--accent2:#17a398;--orange:#b45309;--red:#b3261e;--off:#"
    "dfe5e3}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e8efed;--soft:#a3b1ad;--line:#33403d;--card:#"
    "1b2523;"
    "--ground:#121917;--accent:#5cc9bc;--accent2:#2aa79a;--orange:#f0a04b;--red:#ff8a80;--off:#"
    "33403d}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);"
    "font:16px/1.5 system-ui,'Noto Sans','Noto Sans CJK SC',sans-serif}"
    "main{max-width:960px;margin:0 auto;padding:28px 20px 60px}h1{font-size:1.8rem;margin:0}"
    "h2{font-size:1.15rem;margin:0 0 12px}.soft{color:var(--soft);font-size:.9rem}"
    "section{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:18px "
    "20px;"
    "margin-top:16px;break-inside:avoid}"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;"
    "margin:18px 0 0;padding:0}.figures div{background:var(--card);border:1px solid var(--line);"
    "border-radius:14px;padding:12px 16px}.figures dt{color:var(--soft);font-size:.88rem}"
    ".figures dd{margin:0;font-size:1.5rem;font-weight:700;font-variant-numeric:tabular-nums}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:7px 10px;"
    "border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}"
    "th:first-child,td:first-child{text-align:left;overflow-wrap:break-word}"
    "thead th{color:var(--soft);font-size:.85rem;font-weight:400}tbody th{font-weight:500}"
    ".wide{overflow-x:auto}svg{width:100%;height:auto;display:block}.chart{min-width:560px}svg "
    "text{fill:var(--soft);"
    "font:12px system-ui,sans-serif}.axis{stroke:var(--line)}.bar{fill:var(--accent2)}"
    ".bar2{fill:var(--orange)}.share{height:12px;margin-top:4px}.rest{fill:var(--off)}.line{fill:"
    "none;stroke:var(--accent);"
    "stroke-width:2.5}.line2{fill:none;stroke:var(--orange);stroke-width:2.5;stroke-dasharray:7 4}"
    ".key{display:inline-block;width:14px;height:4px;border-radius:2px;margin:0 6px 3px 14px;"
    "background:var(--accent)}.key2{background:var(--orange)}.warn td{color:var(--orange)}"
    ".error td{color:var(--red)}code{font-family:ui-monospace,'DejaVu Sans Mono',monospace;"
    "font-size:.85em;overflow-wrap:anywhere}"
    /* On a phone: two tiles per row, and an item's name on its own line above its numbers. */
    "@media(max-width:600px){main{padding:20px 14px 40px}section{padding:14px}"
    ".figures{grid-template-columns:repeat(2,minmax(0,1fr));gap:10px}.figures div{padding:10px "
    "12px}.figures dd{font-size:1.15rem;overflow-wrap:anywhere}"
    ".items,.items thead,.items tbody{display:block}.items tr{display:grid;"
    "grid-template-columns:repeat(5,minmax(0,1fr));border-bottom:1px solid var(--line)}"
    ".items th,.items td{padding:5px 3px;border:0;font-size:.85rem}.items thead "
    "th{font-size:.75rem}.items th:first-child{grid-column:1/-1;min-width:0;font-size:1rem}"
    ".items thead th:first-child{display:none}}"
    "@media print{body{background:#fff}}</style>";

static void put_head(struct page *page)
{
    const struct sale_row *sale = page->report->own.sale;
    struct out *out = page->out;
    out_format(out, "<!doctype html><html lang=\"%s\"><head><meta charset=\"utf-8\">",
               page->language == 0 ? "en" : "zh-CN");
    out_lit(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>");
    say(page, W_TITLE);
    out_lit(out, ": ");
    put_escaped(out, sale->name);
    out_lit(out, "</title>");
    out_text(out, style);
    out_lit(out, "</head><body><main><p class=\"soft\">");
    say(page, W_TITLE);
    out_lit(out, " · ");
    say(page, W_MADE_AT);
    out_char(out, ' ');
    put_moment(out, page->report->now_ms);
    out_lit(out, "</p><h1>");
    put_escaped(out, sale->name);
    out_lit(out, "</h1><p class=\"soft\">");
    put_moment(out, sale->starts_at_ms);
    out_lit(out, " – ");
    put_moment(out, sale->ends_at_ms);
    out_lit(out, " · ");
    out_text(out, name_of(page, sale_state_text(sale->state)));
    out_lit(out, "</p>");
}

/* ---- figures ---- */

static void begin_figure(struct page *page, enum word word)
{
    out_lit(page->out, "<div><dt>");
    say(page, word);
    out_lit(page->out, "</dt><dd>");
}

static void end_figure(struct page *page)
{
    out_lit(page->out, "</dd></div>");
}

static void put_figure(struct page *page, enum word word, uint64_t value)
{
    begin_figure(page, word);
    put_number(page->out, value);
    end_figure(page);
}

static void put_figures(struct page *page)
{
    const struct report *report = page->report;
    struct report_totals totals = report_total(&report->own);
    const struct tally_sum *tally = &report->tally;
    out_lit(page->out, "<dl class=\"figures\">");
    begin_figure(page, W_SOLD);
    put_permille(page->out, report_sold_permille(&totals));
    end_figure(page);
    begin_figure(page, W_REVENUE);
    put_money(page->out, totals.paid_cents, report->own.sale->currency);
    end_figure(page);
    put_figure(page, W_ORDERS, totals.made);
    if (tally->since_ms != 0) {
        put_figure(page, W_ASKING, tally_buyers(tally));
    }
    put_figure(page, W_WINNERS, report->own.summary.winners);
    put_figure(page, W_PAYERS, report->own.summary.payers);
    begin_figure(page, W_UNPAID);
    put_permille(page->out, report_unpaid_permille(&totals));
    end_figure(page);
    put_figure(page, W_PEAK_ORDERS, report->own.summary.peak_orders_per_s);
    if (tally->peak_per_s > 0) {
        put_figure(page, W_PEAK_ASKED, tally->peak_per_s);
    }
    if (hist_count(&tally->answered) > 0) {
        begin_figure(page, W_ANSWER);
        put_length(page->out, hist_quantile(&tally->answered, 0.99));
        end_figure(page);
    }
    if (report->own.summary.booked > 0) {
        begin_figure(page, W_BOOKING);
        put_length(page->out, report->own.summary.booked_p99_ms * 1000);
        end_figure(page);
    }
    out_lit(page->out, "</dl>");
}

/* ---- pictures ---- */

static uint64_t nice_top(uint64_t most)
{
    uint64_t power = 1;
    while (power * 10 <= most) {
        power *= 10;
    }
    uint64_t top = power;
    while (top < most) {
        top += power >= 4 ? power / 2 : 1;
    }
    return top;
}

static double x_of(unsigned step)
{
    return CHART_LEFT + (double)(CHART_W - CHART_LEFT - 8) * step / REPORT_STEPS;
}

static double y_of(uint64_t value, uint64_t top)
{
    return 10 + (CHART_H - CHART_BOTTOM - 10) * (1 - (double)value / (double)top);
}

static void put_axes(struct page *page, const struct report_course *course, uint64_t top)
{
    struct out *out = page->out;
    for (unsigned i = 0; i <= 2; i++) {
        double y = y_of(top * i / 2, top);
        out_format(out, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                   CHART_LEFT, CHART_W - 8, y, y);
        out_format(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", CHART_LEFT - 8, y + 4);
        put_number(out, top * i / 2);
        out_lit(out, "</text>");
    }
    bool days = course->step_ms * REPORT_STEPS > 2 * 86400000LL;
    for (unsigned i = 0; i <= 4; i++) {
        unsigned step = REPORT_STEPS * i / 4;
        out_format(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">", x_of(step), CHART_H - 8,
                   i == 0   ? "start"
                   : i == 4 ? "end"
                            : "middle");
        put_time(out, course->from_ms + course->step_ms * step, days ? "%m-%d %H:%M" : "%H:%M:%S");
        out_lit(out, "</text>");
    }
}

/* A step line: the value at the end of each step. */
static void put_line(struct page *page, const char *class, const uint64_t *values, uint64_t top)
{
    out_format(page->out, "<path class=\"%s\" d=\"M%.1f %.1f", class, x_of(0), y_of(0, top));
    for (unsigned i = 0; i < REPORT_STEPS; i++) {
        out_format(page->out, "H%.1fV%.1f", x_of(i), y_of(values[i], top));
    }
    out_format(page->out, "H%.1f\"/>", x_of(REPORT_STEPS));
}

static void put_key(struct page *page, enum word word, bool second)
{
    out_format(page->out, "<span class=\"key%s\"></span>", second ? " key2" : "");
    say(page, word);
}

static void put_course(struct page *page, enum word title, const struct report_course *course)
{
    struct out *out = page->out;
    uint64_t taken[REPORT_STEPS];
    uint64_t paid[REPORT_STEPS];
    uint64_t most = 0;
    uint64_t up = 0;
    uint64_t down = 0;
    uint64_t sold = 0;
    for (unsigned i = 0; i < REPORT_STEPS; i++) {
        up += course->steps[i].taken;
        down += course->steps[i].returned;
        sold += course->steps[i].paid;
        taken[i] = up > down ? up - down : 0;
        paid[i] = sold;
        most = taken[i] > most ? taken[i] : most;
        most = paid[i] > most ? paid[i] : most;
    }
    uint64_t top = nice_top(most);
    out_lit(out, "<section><h2>");
    say(page, title);
    out_lit(out, "</h2><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"");
    say(page, title);
    out_format(out, "\"><svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
               CHART_W, CHART_H);
    say(page, title);
    out_lit(out, "\">");
    put_axes(page, course, top);
    put_line(page, "line", taken, top);
    put_line(page, "line2", paid, top);
    out_lit(out, "</svg></div><p class=\"soft\">");
    put_key(page, W_TAKEN, false);
    put_key(page, W_PAID_UNITS, true);
    out_lit(out, " · ");
    say(page, W_STEP);
    out_char(out, ' ');
    put_length(out, (uint64_t)course->step_ms * 1000);
    out_lit(out, "</p></section>");
}

/* A bar whose parts are shares of the whole. */
static void put_bar(struct page *page, uint64_t first, uint64_t second, uint64_t whole)
{
    double a = whole > 0 ? 100.0 * (double)first / (double)whole : 0;
    double b = whole > 0 ? 100.0 * (double)second / (double)whole : 0;
    out_format(page->out,
               "<svg class=\"share\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
               "aria-hidden=\"true\"><rect class=\"rest\" width=\"100\" height=\"6\"/>"
               "<rect class=\"bar\" width=\"%.2f\" height=\"6\"/>"
               "<rect class=\"bar2\" x=\"%.2f\" width=\"%.2f\" height=\"6\"/></svg>",
               a, a, b);
}

/* ---- tables ---- */

static void put_items(struct page *page)
{
    const struct report_part *part = &page->report->own;
    struct out *out = page->out;
    static const enum word heads[] = {W_ITEM, W_TOTAL, W_PAID, W_WAITING, W_UNPAID, W_SOLD};
    out_lit(out, "<section><h2>");
    say(page, W_ITEMS);
    out_lit(out, "</h2><div class=\"wide\"><table class=\"items\"><thead><tr>");
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        out_lit(out, "<th>");
        say(page, heads[i]);
        out_lit(out, "</th>");
    }
    out_lit(out, "</tr></thead><tbody>");
    for (uint32_t i = 0; i < part->count && i < part->sale->items_count; i++) {
        const struct report_row *row = &part->rows[i];
        const struct item_row *item = &part->sale->items[i];
        const uint64_t cells[] = {item->total, row->units[ORDER_PAID], row->units[ORDER_LOCKED],
                                  row->units[ORDER_EXPIRED]};
        out_lit(out, "<tr><th>");
        put_escaped(out, item->name);
        put_bar(page, row->units[ORDER_PAID], row->units[ORDER_LOCKED], item->total);
        out_lit(out, "</th>");
        for (size_t k = 0; k < 4; k++) {
            out_lit(out, "<td>");
            put_number(out, cells[k]);
            out_lit(out, "</td>");
        }
        out_lit(out, "<td>");
        put_permille(out, report_permille(row->units[ORDER_PAID], item->total));
        out_lit(out, "</td></tr>");
    }
    out_lit(out, "</tbody></table></div></section>");
}

/* code NULL: none. */
static void put_share(struct page *page, const char *label, const char *code, uint64_t value,
                      uint64_t whole, bool away)
{
    out_lit(page->out, "<tr><th>");
    put_escaped(page->out, label);
    if (code != NULL) {
        out_lit(page->out, " <code class=\"soft\">");
        put_escaped(page->out, code);
        out_lit(page->out, "</code>");
    }
    put_bar(page, away ? 0 : value, away ? value : 0, whole);
    out_lit(page->out, "</th><td>");
    put_number(page->out, value);
    out_lit(page->out, "</td></tr>");
}

static void put_funnel(struct page *page)
{
    const struct report *report = page->report;
    const struct tally_sum *tally = &report->tally;
    struct report_totals totals = report_total(&report->own);
    const struct {
        enum word word;
        uint64_t value;
    } rows[] = {{W_ASKED, tally->counts[TALLY_ASKED]},
                {W_TICKETS, tally->counts[TALLY_TICKETS]},
                {W_WON, tally->counts[TALLY_ACCEPTED]},
                {W_ORDERS, totals.booked},
                {W_PAID, totals.orders[ORDER_PAID]}};
    uint64_t most = totals.booked > rows[0].value ? totals.booked : rows[0].value;
    out_lit(page->out, "<section><h2>");
    say(page, W_FUNNEL);
    out_lit(page->out, "</h2><table><tbody>");
    for (size_t i = tally->since_ms != 0 ? 0 : 3; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_share(page, words[rows[i].word][page->language], NULL, rows[i].value, most, false);
    }
    out_lit(page->out, "</tbody></table></section>");
}

/* Several refusals share a code: the first gets the sum, the others 0. */
static uint64_t sum_by_code(const struct tally_sum *tally, uint64_t ret_sums[REFUSAL_COUNT])
{
    uint64_t most = 0;
    memset(ret_sums, 0, REFUSAL_COUNT * sizeof(*ret_sums));
    for (unsigned i = 1; i < REFUSAL_COUNT; i++) {
        unsigned first = 1;
        while (strcmp(refusal_text((enum refusal)first)->code,
                      refusal_text((enum refusal)i)->code) != 0) {
            first++;
        }
        ret_sums[first] += tally->refused[i];
        most = ret_sums[first] > most ? ret_sums[first] : most;
    }
    return most;
}

static void put_refusals(struct page *page)
{
    uint64_t sums[REFUSAL_COUNT];
    uint64_t most = sum_by_code(&page->report->tally, sums);
    out_lit(page->out, "<section><h2>");
    say(page, W_REFUSALS);
    out_text(page->out, most > 0 ? "</h2><table><tbody>" : "</h2><p>");
    if (most == 0) {
        say(page, W_NONE);
    }
    for (unsigned shown = 0; shown < REASONS_MAX; shown++) { /* the most frequent first */
        unsigned best = 0;
        for (unsigned i = 1; i < REFUSAL_COUNT; i++) {
            best = sums[i] > sums[best] ? i : best;
        }
        if (best == 0) {
            break;
        }
        const char *code = refusal_text((enum refusal)best)->code;
        put_share(page, name_of(page, code), code, sums[best], most, true);
        sums[best] = 0;
    }
    out_text(page->out, most > 0 ? "</tbody></table></section>" : "</p></section>");
}

/* ---- the sale before ---- */

static void put_row_begin(struct page *page, enum word word)
{
    out_lit(page->out, "<tr><th>");
    say(page, word);
    out_lit(page->out, "</th><td>");
}

static void put_pair(struct page *page, enum word word, uint64_t now, uint64_t before)
{
    put_row_begin(page, word);
    put_number(page->out, now);
    out_lit(page->out, "</td><td>");
    put_number(page->out, before);
    out_lit(page->out, "</td></tr>");
}

static void put_shares(struct page *page, enum word word, uint64_t now, uint64_t before)
{
    put_row_begin(page, word);
    put_permille(page->out, now);
    out_lit(page->out, "</td><td>");
    put_permille(page->out, before);
    out_lit(page->out, "</td></tr>");
}

static void put_compared(struct page *page)
{
    const struct report *report = page->report;
    if (report->previous.sale == NULL) {
        return;
    }
    struct report_totals now = report_total(&report->own);
    struct report_totals before = report_total(&report->previous);
    const struct sale_summary *a = &report->own.summary;
    const struct sale_summary *b = &report->previous.summary;
    out_lit(page->out, "<section><h2>");
    say(page, W_COMPARED);
    out_lit(page->out, "</h2><table><thead><tr><th></th><th>");
    say(page, W_THIS_ONE);
    out_lit(page->out, "</th><th>");
    put_escaped(page->out, report->previous.sale->name);
    out_lit(page->out, "</th></tr></thead><tbody>");
    put_shares(page, W_SOLD, report_sold_permille(&now), report_sold_permille(&before));
    put_row_begin(page, W_REVENUE);
    put_money(page->out, now.paid_cents, report->own.sale->currency);
    out_lit(page->out, "</td><td>");
    put_money(page->out, before.paid_cents, report->previous.sale->currency);
    out_lit(page->out, "</td></tr>");
    put_pair(page, W_ORDERS, now.made, before.made);
    put_pair(page, W_WITH_ORDERS, a->participants, b->participants);
    put_pair(page, W_WINNERS, a->winners, b->winners);
    put_shares(page, W_UNPAID, report_unpaid_permille(&now), report_unpaid_permille(&before));
    put_pair(page, W_PEAK_ORDERS, a->peak_orders_per_s, b->peak_orders_per_s);
    if (report->tally.since_ms != 0 && report->previous_tally.since_ms != 0) {
        put_pair(page, W_ASKED, report->tally.counts[TALLY_ASKED],
                 report->previous_tally.counts[TALLY_ASKED]);
        put_pair(page, W_ASKING, tally_buyers(&report->tally),
                 tally_buyers(&report->previous_tally));
    }
    out_lit(page->out, "</tbody></table></section>");
}

/* ---- faults, and where the numbers are from ---- */

static void put_faults(struct page *page)
{
    const struct report *report = page->report;
    struct out *out = page->out;
    out_lit(out, "<section><h2>");
    say(page, W_FAULTS);
    out_lit(out, "</h2><div class=\"wide\"><table><tbody>");
    for (size_t i = 0; i < report->faults_count; i++) {
        const struct incident_log_entry *entry = &report->faults[i];
        out_format(out, "<tr class=\"%s\"><td>", entry->level);
        put_time(out, entry->at_ms, "%m-%d %H:%M:%S");
        out_lit(out, " <b>");
        put_escaped(out, entry->event);
        out_lit(out, "</b> <code>");
        put_escaped(out, entry->text);
        out_lit(out, "</code></td></tr>");
    }
    out_lit(out, "</tbody></table></div>");
    if (report->faults_count == 0) {
        out_lit(out, "<p>");
        say(page, W_NONE);
        out_lit(out, "</p>");
    }
    if (report->faults_since_ms != 0) {
        out_lit(out, "<p class=\"soft\">");
        say(page, W_KEPT);
        out_char(out, ' ');
        put_moment(out, report->faults_since_ms);
        out_lit(out, "</p>");
    }
    out_lit(out, "</section>");
}

static void put_sources(struct page *page)
{
    const struct report *report = page->report;
    out_lit(page->out, "<p class=\"soft\">");
    if (report->tally.since_ms == 0) {
        say(page, W_NOT_COUNTED);
    } else {
        say(page, W_COUNTED);
        out_char(page->out, ' ');
        put_moment(page->out, report->tally.since_ms);
        out_lit(page->out, ". ");
        if (!report_counted_whole(report)) {
            say(page, W_NOT_ALL);
        }
    }
    out_char(page->out, ' ');
    say(page, W_ESTIMATED);
    out_lit(page->out, "</p></main></body></html>");
}

void report_html(const struct report *report, struct out *out)
{
    struct page page = {.report = report, .out = out, .language = report->chinese ? 1 : 0};
    put_head(&page);
    put_figures(&page);
    put_course(&page, W_RUSH, &report->courses[COURSE_RUSH]);
    put_course(&page, W_WHOLE, &report->courses[COURSE_WHOLE]);
    put_items(&page);
    put_funnel(&page);
    put_refusals(&page);
    put_compared(&page);
    put_faults(&page);
    put_sources(&page);
}
