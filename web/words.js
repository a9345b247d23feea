/*
 * What the page says, in English and Chinese side by side, and how it writes money and time. The browser's
 * language chooses. A key that is missing shows itself, so a gap is seen and nothing breaks.
 *
 * Keys: m_ news of an order, c_ a refusal code, s_ an order's status, chip_ a sale's state.
 */

const WORDS = {
    skip: ['Skip to the sales', '跳到场次'],
    serverTime: ['Server time', '服务器时间'],
    buyer: ['Buyer', '买家'],
    switchBuyer: ['Switch', '切换'],
    login: ['Log in', '登录'],
    loading: ['Loading the sales…', '正在加载场次…'],
    empty: ['No sale at the moment.', '暂无场次。'],
    myOrders: ['My orders', '我的订单'],
    more: ['Show more', '显示更多'],
    promise: [
        'An order shown here is stored safely before you are told. Unpaid orders give their stock back.',
        '页面上的订单都是先安全保存，再告诉您的。未付款的订单会归还库存。',
    ],
    startsIn: ['Starts in', '距开始'],
    endsIn: ['Ends in', '距结束'],
    chip_upcoming: ['Soon', '即将开始'],
    chip_open: ['On sale', '抢购中'],
    chip_paused: ['Paused', '已暂停'],
    chip_ended: ['Ended', '已结束'],
    left: ['{n} left', '剩余 {n}'],
    locked: ['{n} being paid', '待付款 {n}'],
    sold: ['{n} sold', '已售 {n}'],
    bar: [
        '{available} of {total} left, {locked} being paid, {sold} sold',
        '共 {total} 件：剩余 {available}，待付款 {locked}，已售 {sold}',
    ],
    off: ['−{n}%', '{z}折'],
    limitOne: ['One per buyer', '每人限购 1 件'],
    limitMany: ['Up to {limit} per buyer', '每人限购 {limit} 件'],
    limitNone: ['No limit', '不限购'],
    held: ['Yours: {held}/{limit}', '已抢 {held}/{limit}'],
    heldNone: ['Yours: {held}', '已抢 {held}'],
    qty: ['Quantity', '数量'],
    less: ['Fewer', '减少'],
    moreQty: ['More', '增加'],
    buy: ['Buy now', '立即抢购'],
    buyMore: ['Buy more', '继续抢购'],
    asking: ['Asking…', '正在请求…'],
    queued: ['In the queue…', '排队中…'],
    again: ['Ask again', '再问一次'],
    tryAgain: ['Try again', '重试'],
    againIn: ['Again in {n} s', '{n} 秒后可重试'],
    soldOut: ['Sold out', '已售罄'],
    paused: ['Paused', '已暂停'],
    ended: ['Ended', '已结束'],
    mine: ['Yours', '已抢到'],
    full: ['Limit reached', '已达限购'],
    lockedBtn: ['Reserved for you', '已为您锁定'],
    pay: ['Pay {amount}', '支付 {amount}'],
    cancel: ['Cancel', '取消订单'],
    payAtShop: ['The shop will ask you to pay.', '请按商城提示付款。'],
    paying: ['Paying…', '正在支付…'],
    cancelling: ['Cancelling…', '正在取消…'],
    s_QUEUED: ['In the queue', '排队中'],
    s_LOCKED: ['Reserved', '待付款'],
    s_PAID: ['Paid', '已付款'],
    s_EXPIRED: ['Not paid in time', '超时未付'],
    s_CANCELLED: ['Cancelled', '已取消'],
    s_FAILED: ['Not completed', '未成功'],
    payWithin: ['Reserved for you. Pay within', '已为您锁定，请在此时间内付款'],
    payOver: ['The time to pay is over.', '付款时间已过。'],
    orderNo: ['Order', '订单'],
    m_queued: ['Your order is stored and in the queue.', '订单已安全保存，正在排队。'],
    m_locked: ['Reserved for you. Please pay in time.', '已为您锁定，请及时付款。'],
    m_paid: ['Paid. It is yours.', '付款成功，商品归您。'],
    m_cancelled: ['Cancelled. The stock went back.', '已取消，库存已归还。'],
    m_expired: ['Not paid in time. The stock went back.', '超时未付款，库存已归还。'],
    m_failed: ['The order could not be completed; nothing was taken.', '订单未能完成，没有扣减。'],
    m_unsure: [
        'No answer yet. You may already have it: ask again, it is never taken twice.',
        '暂时没有收到结果，也许已经抢到：请再问一次，绝不会重复扣减。',
    ],
    m_comesBack: ['All taken for now; unpaid ones come back.', '暂时抢光，未付款的会回来。'],
    m_offline: ['No connection to the server. Trying again…', '连不上服务器，正在重试…'],
    m_loginFirst: ['Please log in at the shop to buy.', '请先在商城登录再购买。'],
    m_onlyLeft: ['Only {available} left. Choose fewer.', '只剩 {available} 件，请减少数量。'],
    m_limit: [
        'You have {held} of {limit}; this would be more than allowed.',
        '您已有 {held} 件，限购 {limit} 件，不能再多。',
    ],
    m_badUser: [
        'A buyer number is a whole number from 1 to 9007199254740991.',
        '买家编号是 1 到 9007199254740991 的整数。',
    ],
    c_sold_out: ['Sold out.', '已售罄。'],
    c_limit_reached: ['You have reached the limit for this item.', '您已达到该商品的限购数量。'],
    c_barred: [
        'An earlier order was not paid in time, so you cannot buy this again.',
        '之前的订单超时未付，不能再次购买该商品。',
    ],
    c_not_open: ['Not on sale just now.', '现在不可购买。'],
    c_ended: ['This sale has ended.', '本场已结束。'],
    c_too_early: ['Too early. Wait for the start.', '还没开始，请稍候。'],
    c_rate_limited: ['Too many requests. Wait a moment.', '请求太频繁，请稍候。'],
    c_overloaded: ['Very busy. Wait a moment.', '当前非常繁忙，请稍候。'],
    c_degraded: ['The server cannot take orders just now. Wait a moment.', '服务器暂时不能接单，请稍候。'],
    c_draining: ['The server is restarting. Wait a moment.', '服务器正在重启，请稍候。'],
    c_bad_ticket: ['Your place has run out. Try again.', '购买资格已过期，请重试。'],
    c_blocked: ['This account may not buy here.', '该账号不能在此购买。'],
    c_already_paid: ['Already paid.', '已经付过款了。'],
    c_expired: ['Too late: the order is closed.', '太晚了，订单已关闭。'],
    c_queued: ['Still in the queue. Try in a moment.', '还在排队，请稍后再试。'],
    c_unauthenticated: ['Please log in again.', '请重新登录。'],
    c_no_answer: ['No answer from the server.', '服务器没有应答。'],
};
const LANG = (navigator.language || 'en').toLowerCase().startsWith('zh') ? 'zh' : 'en';
export const LOCALE = LANG === 'zh' ? 'zh-CN' : (navigator.language || '').startsWith('en') ? navigator.language : 'en';

// Whether there is a text: refusal codes that are not in the list are told in the server's own words.
export const says = (key) => key in WORDS;

export function t(key, values = {}) {
    const text = WORDS[key]?.[LANG === 'zh' ? 1 : 0] ?? key;
    return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

export function money(cents, currency) {
    try {
        const format = new Intl.NumberFormat(LOCALE, { style: 'currency', currency, currencyDisplay: 'narrowSymbol' });
        return format.format(cents / 10 ** format.resolvedOptions().maximumFractionDigits);
    } catch {
        return `${(cents / 100).toFixed(2)} ${currency}`;
    }
}

export function duration(ms) {
    const s = Math.max(0, Math.ceil(ms / 1000));
    const two = (n) => String(n).padStart(2, '0');
    const clock = `${two(Math.floor(s / 3600) % 24)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
    if (s >= 86400) return `${Math.floor(s / 86400)}${LANG === 'zh' ? ' 天 ' : 'd '}${clock}`;
    return s >= 3600 ? clock : clock.slice(3);
}
