/*
 * The button as a pure state machine: no DOM, no network, no clock, no chance. Time and everything that happened come
 * in as events; what is to be done goes out as effects. The page runs the effects and draws view().
 *
 * The state is not stored but read off the facts: the first row of ROWS whose `when` holds. So every event has an
 * answer in every state, and no state can be left behind by an event that nobody thought of.
 *
 * Happy path: `user` and `item` arrive -> ready; `press buy` -> takeTicket -> `ticket` -> buy -> `accepted` (queued)
 * -> `order` LOCKED -> paid elsewhere -> `order` PAID.
 *
 * What can go wrong: no answer to a buy, or 503 `same-ticket`. The outcome is then in doubt: the ticket is kept (also
 * over a reload, by the `keep` effect, which always comes before the `buy` it is for), the order is looked for, and
 * asking again uses the same ticket, which takes nothing twice.
 *
 * What stays true, whatever comes in whatever order (checked by random walks in test/browser/walk.test.mjs): at most
 * one submit is in flight; a ticket in doubt is never dropped or replaced, neither here nor, where another tab left it,
 * in the memory both share; a shown order never goes backwards.
 *
 * Every event brings the time as `now` and what this browser remembers of the buyer and the item as `record`; where
 * nobody is logged in, of anybody and the item, which is never acted on and only tells whether a login is worth offering.
 *
 * Effects: keep {user, record}, takeTicket {turn}, buy {turn, ticket}, cancel {turn, orderId}, look {orderId}, mine {},
 * pay {order}, login {}, watch {kind, id}. What comes by time alone comes with the next `tick`.
 */

const RANK = { QUEUED: 0, LOCKED: 1, PAID: 2, EXPIRED: 2, CANCELLED: 2, FAILED: 2 };
// Never more than one submit a second.
const LEAST_WAIT_MS = 1000;
// By itself; after that the buyer presses.
const MOST_RETRIES = 6;
const LOOK_MS = [1000, 2000, 4000, 8000];
// A ticket this close to its end is not worth sending.
const TICKET_MARGIN_MS = 1000;
const PAST_KEPT = 16;

const isFinal = (order) => RANK[order.status] === 2;
const isAlive = (order) => order !== null && !isFinal(order);
const isUnsold = (order) => isFinal(order) && order.status !== 'PAID';
const isOver = ({ order, now }) => order?.status === 'LOCKED' && Boolean(order.pay_by_ms) && now >= order.pay_by_ms;

// What the item is at this moment: its start and end are kept by the clock, the rest is as the server said.
function phase({ item, now }) {
    if (item.state === 'ended' || now >= item.ends_at_ms) return 'ended';
    if (item.state === 'upcoming') return now >= item.starts_at_ms ? 'open' : 'upcoming';
    return item.state;
}

const status = (name) => (m) => m.order?.status === name;
const refusedAs = (...codes) => (m) => codes.includes(m.refusal?.code);
const full = (m) => m.item.limit_per_user > 0 && m.held >= m.item.limit_per_user;
const canBuy = (m) => !full(m) && phase(m) === 'open';

/*
 * The table. `tone` is how it looks (go, warn, good, wait, off), `acts` what a press may do, the first being the big
 * button; `step` how far the purchase is (1 asked, 2 stored, 3 yours to pay, 4 paid); `tell` whether reaching it is
 * told to a screen reader. The texts are b_<name> on the button and n_<name> below it.
 */
export const ROWS = [
    { name: 'loading', tone: 'wait', when: (m) => !m.item || (m.looking && !m.order && !m.ticket?.doubt && !m.flight) },
    { name: 'asking', tone: 'wait', step: 1, when: (m) => m.flight === 'ticket' || m.flight === 'buy' },
    { name: 'logged_out', tone: 'go', acts: ['login'], when: (m) => m.stale || (m.user === null && (isOnSale(m) || mayHave(m.stored))) },
    { name: 'undecided', tone: 'wait', step: 1, tell: true,
        when: (m) => m.order?.status === 'QUEUED' && m.order.reason === 'undecided' },
    { name: 'queued', tone: 'wait', step: 2, tell: true, when: status('QUEUED') },
    { name: 'locked', tone: 'go', step: 3, tell: true, acts: ['pay', 'cancel', 'more'], when: status('LOCKED') },
    { name: 'paid', tone: 'good', step: 4, tell: true, acts: ['more'], when: status('PAID') },
    { name: 'expired', tone: 'warn', tell: true, acts: ['again'], when: status('EXPIRED') },
    { name: 'failed', tone: 'warn', tell: true, acts: ['again'],
        when: (m) => m.order?.status === 'FAILED' || m.refusal?.state === 'failed' },
    { name: 'cooling', tone: 'wait', tell: true, acts: ['again'], when: (m) => m.wait?.code === 'barred' },
    { name: 'overloaded', tone: 'warn', tell: true, acts: ['again'], when: (m) => m.wait !== null },
    { name: 'timed_out', tone: 'warn', tell: true, acts: ['again'], when: (m) => m.lost || Boolean(m.ticket?.doubt) },
    { name: 'blocked', tone: 'off', tell: true, when: refusedAs('blocked', 'forbidden') },
    { name: 'barred', tone: 'off', tell: true, when: refusedAs('barred') },
    { name: 'challenge', tone: 'warn', tell: true, acts: ['again'], when: refusedAs('challenge_failed') },
    { name: 'waiting_room', tone: 'wait', tell: true, when: refusedAs('waiting_room') },
    { name: 'limit_reached', tone: 'good', tell: true, when: full },
    { name: 'ended', tone: 'off', tell: true, when: (m) => phase(m) === 'ended' },
    { name: 'before', tone: 'off', when: (m) => phase(m) === 'upcoming' },
    { name: 'paused', tone: 'off', tell: true, when: (m) => phase(m) === 'paused' },
    { name: 'watching', tone: 'wait', tell: true, when: (m) => empty(m) && m.item.locked > 0 },
    { name: 'sold_out', tone: 'off', tell: true, when: empty },
    { name: 'ready', tone: 'go', tell: true, acts: ['buy'], when: () => true },
];

function empty(m) {
    return m.item.state === 'sold_out' || m.item.available === 0;
}

// Whether a login leads to a purchase, now or at the start.
function isOnSale(m) {
    return phase(m) === 'upcoming' || (phase(m) === 'open' && !empty(m));
}

// Whether what is remembered is, or may have become, an order.
const mayHave = (record) => Boolean(record?.orderId || record?.ticket?.doubt);

// Whether an act of the row is possible just now.
const ALLOWS = {
    buy: () => true,
    pay: (m) => m.flight === null && !isOver(m),
    cancel: (m) => m.flight === null && !isOver(m),
    login: () => true,
    more: (m) => m.flight === null && !isOver(m) && canBuy(m) && !empty(m),
    // What is in doubt may be asked for at any time; what was refused, when it is time; what ended, while it is sold.
    again: (m) => {
        if (m.wait !== null) return m.wait.untilMs === null;
        return m.lost || Boolean(m.ticket?.doubt) || (canBuy(m) && !empty(m));
    },
};

export const rowOf = (model) => ROWS.find((row) => row.when(model));
export const stateOf = (model) => rowOf(model).name;
export const actsOf = (model) => (rowOf(model).acts ?? []).filter((act) => ALLOWS[act](model));

// How many the buyer may still choose.
export function roomOf({ item, held }) {
    if (!item) return 1;
    const limit = item.limit_per_user > 0 ? item.limit_per_user - held : Infinity;
    return Math.max(1, Math.min(limit, Math.max(1, item.available ?? 1), 2 ** 31 - 1));
}

export function begin(now = 0) {
    return {
        now,
        // Who is buying; whether the server refused that token.
        user: null, stale: false,
        item: null, qty: 1, held: 0, unpaid: 0,
        // { ticket, url, orderId, expiresMs, qty, doubt, resent }
        ticket: null,
        // 'early' | 'ticket' | 'buy' | 'cancel', and which one an answer is for.
        flight: null, turn: 0,
        // The order shown; how far those shown before had come.
        order: null, past: {},
        refusal: null, note: null,
        // No answer; { untilMs, code }
        lost: false, wait: null,
        looking: false, lookFor: null, lookAt: null, looks: 0,
        earlyAt: null, retries: 0, renewals: 0,
        // What the browser remembers, which other tabs write too.
        stored: null,
    };
}

// Everything the page draws.
export function view(model) {
    const row = rowOf(model);
    const { item, order } = model;
    return {
        name: row.name, tone: row.tone, step: row.step ?? 0, tell: Boolean(row.tell), acts: actsOf(model),
        order, note: model.note, limit: item?.limit_per_user ?? 0, unpaid: model.unpaid,
        // In line is not yet his.
        held: model.held - (order?.status === 'QUEUED' ? Math.min(model.held, order.qty ?? 1) : 0),
        waitMs: model.wait?.untilMs ? Math.max(0, model.wait.untilMs - model.now) : 0,
        code: model.wait?.code ?? order?.reason ?? model.refusal?.code ?? null,
        payMs: row.name === 'locked' && order.pay_by_ms ? order.pay_by_ms - model.now : null,
        startMs: item ? item.starts_at_ms - model.now : 0,
        choosing: ['ready', 'before', 'logged_out'].includes(row.name), qty: model.ticket?.doubt ? model.ticket.qty : model.qty,
    };
}

// ---------------------------------------------------------------- sending

function take(m, out, kind) {
    m.flight = kind;
    m.turn += 1;
    out.push({ do: 'takeTicket', turn: m.turn });
}

function spend(m, out) {
    const { doubt, qty } = m.ticket;
    m.ticket = { ...m.ticket, qty: doubt ? qty : m.qty, doubt: true, resent: doubt };
    m.flight = 'buy';
    m.turn += 1;
    out.push({ do: 'buy', turn: m.turn, ticket: m.ticket });
}

function usable({ ticket, now }) {
    return ticket !== null && (ticket.doubt || now < ticket.expiresMs - TICKET_MARGIN_MS);
}

function submit(m, out) {
    m.wait = m.refusal = m.note = null;
    m.lost = m.looking = false;
    m.lookAt = null;
    // Under way already: its answer is spent at once.
    if (m.flight === 'early') m.flight = 'ticket';
    else if (m.flight !== null) return;
    else if (takeOver(m) || usable(m)) spend(m, out);
    else take(m, out, 'ticket');
}

function look(m, out, orderId) {
    m.looking = true;
    m.lookAt = null;
    out.push({ do: 'look', orderId });
}

// What is chosen fits what may be had; what is being asked for, or is in doubt, is left as it was asked for.
function fit(m) {
    if (m.flight === null && !m.ticket?.doubt) m.qty = Math.min(m.qty, roomOf(m));
}

// ---------------------------------------------------------------- what other tabs left

// A remembered ticket of which nobody knows yet whether it bought anything.
function doubtOf({ stored, order, past }) {
    const ticket = stored?.ticket;
    return ticket?.doubt && ticket.orderId !== order?.order_id && past[ticket.orderId] === undefined ? ticket : null;
}

// It comes before anything new. It is sent again, or looked for, with the quantity it was for.
function takeOver(m) {
    const theirs = m.ticket?.doubt ? null : doubtOf(m);
    if (theirs) m.ticket = theirs;
    return theirs !== null;
}

function takeOverShown(m) {
    if (!takeOver(m)) return false;
    m.qty = m.ticket.qty;
    m.looks = 0;
    m.lookAt = m.now;
    return true;
}

// ---------------------------------------------------------------- what is learned

function remember(m, order) {
    const past = Object.entries({ ...m.past, [order.order_id]: order.status });
    m.past = Object.fromEntries(past.slice(-PAST_KEPT));
}

// The order shown makes room, and can never be shown again in an earlier state.
function setAside(m) {
    if (m.order) remember(m, m.order);
    m.order = null;
}

// Whether this view may be shown: of the order this page is about, and not older than what was shown.
function isNews(m, order, asked) {
    const id = order.order_id;
    if (m.order?.order_id === id) return RANK[order.status] >= RANK[m.order.status];
    if (m.past[id] !== undefined) return asked && !isUnsold(order) && RANK[order.status] >= RANK[m.past[id]];
    if (asked || m.ticket?.doubt) return asked;
    if (m.flight === 'ticket') return false;
    return !m.order || (isFinal(m.order) && (!isFinal(order) || id === m.lookFor));
}

function learn(m, order) {
    if (m.user === null || !(order.status in RANK)) return;
    const asked = m.ticket?.orderId === order.order_id;
    const news = isNews(m, order, asked);
    // Shown or not: the outcome of this ticket is certain now. In the queue it is kept; later it is free.
    if (asked) m.ticket = order.status === 'QUEUED' ? { ...m.ticket, doubt: false } : null;
    if (!news) return;
    const before = m.order?.order_id === order.order_id ? m.order : null;
    if (m.order && !before) setAside(m);
    m.order = { ...before, ...order };
    m.looking = m.lost = false;
    m.lookAt = null;
    m.looks = m.retries = 0;
    m.wait = m.refusal = null;
    if (!before || before.status !== order.status || m.note === 'no_answer') m.note = null;
    if (before && isAlive(before) && isUnsold(order)) m.held = Math.max(0, m.held - (order.qty ?? 0));
    else if (!isUnsold(order)) m.held = Math.max(m.held, order.qty ?? 0);
    if (order.status === 'CANCELLED') {
        setAside(m);
        m.note = takeOverShown(m) ? null : 'cancelled';
    }
}

// What a reload or another tab left in the browser's memory. A ticket that is not in doubt has no order to look for.
function adopt(m, out) {
    const record = m.stored;
    if (record?.ticket && !m.ticket?.doubt && m.flight === null && !isAlive(m.order)) {
        if (takeOver(m)) m.qty = m.ticket.qty;
        else if (!record.ticket.doubt) m.ticket = record.ticket;
    }
    const id = m.ticket?.doubt ? m.ticket.orderId : record?.orderId;
    if (id && id !== m.order?.order_id && m.past[id] === undefined) look(m, out, id);
}

// ---------------------------------------------------------------- refusals

const later = (m, { code, retryAfterMs }, jitter) => {
    const delay = Math.max(LEAST_WAIT_MS, retryAfterMs ?? 0) * (1 + jitter / 4);
    m.retries += 1;
    m.wait = { code, untilMs: m.retries > MOST_RETRIES ? null : m.now + delay };
};

const inDoubt = (m) => {
    m.lost = true;
    m.looking = false;
    m.looks = 0;
    m.lookAt = m.ticket ? m.now + LOOK_MS[0] : null;
};

const stay = (m, refusal) => { m.refusal = refusal; };

// By code; what is not here goes by `retry`.
const REFUSED = {
    unauthenticated: (m) => { m.stale = true; },
    sold_out: (m, refusal) => {
        if (refusal.available > 0) {
            m.note = 'only_left';
            m.qty = Math.min(m.qty, refusal.available);
            m.item = { ...m.item, available: refusal.available };
            return;
        }
        const locked = refusal.retry === 'later' ? Math.max(1, m.item.locked ?? 0) : 0;
        m.item = { ...m.item, state: 'sold_out', available: 0, locked };
    },
    limit_reached: (m) => {
        m.note = 'over_limit';
        m.qty = Math.min(m.qty, roomOf(m));
    },
    not_open: (m) => { m.item = { ...m.item, state: 'paused' }; },
    ended: (m) => { m.item = { ...m.item, state: 'ended' }; },
    blocked: stay,
    forbidden: stay,
    // For a time or for good. The server's time has its jitter already.
    barred: (m, refusal) => (refusal.retry === 'later' ? later(m, refusal, 0) : stay(m, refusal)),
    challenge_failed: stay,
    waiting_room: stay,
    // Only where this ticket was spent with another quantity: then there is an order, and it is looked for.
    different_request: (m) => {
        m.ticket = m.ticket && { ...m.ticket, doubt: true };
        inDoubt(m);
    },
};

// Refusals that the server gives only after it has looked for the ticket's order and found none.
const LOOKED = new Set(['bad_ticket', 'blocked', 'barred', 'too_early', 'not_open', 'ended', 'sold_out', 'limit_reached']);

function refusedBuy(m, refusal, jitter, out) {
    if (refusal.retry === 'same-ticket') return inDoubt(m);
    // A refusal changed nothing. Whether an earlier sending of the ticket did, only those that looked can say.
    // Another tab may have sent it again.
    const other = m.stored?.ticket;
    const resent = m.ticket?.resent || (other?.ticket === m.ticket?.ticket && other?.resent);
    if (m.ticket && (!resent || LOOKED.has(refusal.code))) m.ticket = { ...m.ticket, doubt: false };
    if (REFUSED[refusal.code]) return REFUSED[refusal.code](m, refusal);
    if (refusal.retry === 'later') return later(m, refusal, jitter);
    if (m.ticket?.doubt) return inDoubt(m);
    m.ticket = null;
    if (refusal.retry === 'new-ticket') return renew(m, out);
    m.refusal = { ...refusal, state: 'failed' };
    return undefined;
}

function renew(m, out) {
    m.renewals += 1;
    if (m.renewals === 1) take(m, out, 'ticket');
    else m.lost = true;
}

// ---------------------------------------------------------------- events

const ACTS = {
    buy: (m, out) => start(m, out),
    again: (m, out) => start(m, out),
    more: (m, out) => {
        setAside(m);
        m.note = null;
        if (!takeOverShown(m)) fit(m);
        out.push({ do: 'mine' });
    },
    pay: (m, out) => out.push({ do: 'pay', order: m.order }),
    login: (m, out) => out.push({ do: 'login' }),
    cancel: (m, out) => {
        m.flight = 'cancel';
        m.turn += 1;
        m.note = null;
        out.push({ do: 'cancel', turn: m.turn, orderId: m.order.order_id });
    },
};

function start(m, out) {
    setAside(m);
    m.retries = m.renewals = 0;
    fit(m);
    submit(m, out);
}

// An answer to something that is not under way any more changes nothing.
const answers = (m, event) => m.flight !== null && event.turn === m.turn;

export const EVENTS = {
    tick: () => {},

    // Who is buying, with what this browser remembers of him and this item. Another buyer starts afresh.
    user: (m, { user }, out) => {
        if (user !== m.user) Object.assign(m, begin(m.now), { item: m.item, turn: m.turn + 1, stored: m.stored });
        m.user = user;
        m.stale = false;
        if (user !== null) adopt(m, out);
    },

    item: (m, { item }) => {
        m.item = { ...m.item, ...item };
        fit(m);
    },

    qty: (m, { qty }) => { m.qty = Math.min(Math.max(1, Math.floor(qty) || 1), roomOf(m)); },

    // The buyer's orders of this item, newest first, from the ledger, which may be behind what is known here. With
    // `show` one of them is shown where none is.
    mine: (m, { orders, show }) => {
        const { order: shown } = m;
        const known = { ...m.past, ...(shown && { [shown.order_id]: shown.status }) };
        const later = ({ order_id: id, status: told }) => (RANK[known[id]] > RANK[told] ? known[id] : told);
        const all = !shown || orders.some((order) => order.order_id === shown.order_id) ? orders : [shown, ...orders];
        const counted = all.filter((order) => ['QUEUED', 'LOCKED', 'PAID'].includes(later(order)));
        m.held = counted.reduce((sum, order) => sum + (order.qty ?? 1), 0);
        m.unpaid = counted.filter((order) => later(order) === 'LOCKED' && order.order_id !== shown?.order_id).length;
        if (show && counted.length && !shown && !m.flight) learn(m, counted[0]);
    },

    press: (m, { act }, out) => { if (actsOf(m).includes(act)) ACTS[act](m, out); },

    // Takes the ticket before the start, at a moment the page chose, so that at the start one call is enough.
    early: (m, { atMs }) => { m.earlyAt = atMs; },

    ticket: (m, event, out) => {
        if (!answers(m, event) || (m.flight !== 'ticket' && m.flight !== 'early')) return;
        const { ticket, url, orderId, expiresMs, held } = event;
        const wanted = m.flight === 'ticket';
        m.flight = null;
        m.held = held ?? m.held;
        m.ticket = { ticket, url, orderId, expiresMs, qty: m.qty, doubt: false };
        if (!wanted) return;
        takeOver(m);
        spend(m, out);
    },

    accepted: (m, event, out) => {
        if (!answers(m, event) || m.flight !== 'buy') return;
        const { qty } = m.ticket ?? m;
        m.flight = null;
        learn(m, { order_id: event.orderId, status: event.status, reason: null, qty });
        m.held = event.held ?? m.held;
        if (m.ticket?.doubt) return inDoubt(m);
        // An order that had ended before this press: the ticket was an old one, and a new one is taken. If that, too,
        // is for an order that was not paid in time, the sale bars who did not pay.
        if (m.order?.order_id !== event.orderId && m.past[event.orderId] !== 'CANCELLED') {
            renew(m, out);
            if (m.lost && event.status === 'EXPIRED') {
                m.lost = false;
                m.refusal = { code: 'barred' };
            }
            return undefined;
        }
        // Further than QUEUED: what is still to be known of it (pay_by, pay_url) is asked for.
        if (event.status !== 'QUEUED' && m.order?.order_id === event.orderId) look(m, out, event.orderId);
        return undefined;
    },

    refused: (m, event, out) => {
        if (!answers(m, event)) return;
        const { refusal, jitter = 0 } = event;
        const was = m.flight;
        m.flight = null;
        if (refusal.held !== undefined) m.held = refusal.held;
        if (was === 'cancel') {
            m.note = refusal.code;
            if (refusal.code === 'unauthenticated') m.stale = true;
            else if (m.order) look(m, out, m.order.order_id);
        } else if (was === 'early') {
            if (['unauthenticated', 'blocked', 'barred'].includes(refusal.code)) REFUSED[refusal.code](m, refusal);
        } else {
            refusedBuy(m, refusal, jitter, out);
        }
    },

    order: (m, event) => {
        if (m.flight === 'cancel' && event.turn === m.turn) m.flight = null;
        if (event.order.order_id === m.lookFor) {
            m.looking = false;
            m.lookAt = null;
        }
        learn(m, event.order);
    },

    // The order looked for is not there (404). In doubt that proves nothing: the request may still be on its way.
    missing: (m, { orderId }, out) => {
        if (m.order?.order_id === orderId && m.flight === null) {
            setAside(m);
            out.push({ do: 'mine' });
        }
        if (m.ticket?.doubt && m.ticket.orderId === orderId) lookAgain(m);
        else m.looking = false;
        if (m.stored?.orderId === orderId && !m.stored.ticket && m.user !== null) {
            m.stored = null;
            out.push({ do: 'keep', user: m.user, record: null });
        }
    },

    // Looking for it got no answer.
    unseen: (m) => { if (m.looking) lookAgain(m); },

    // The server refused the token while something was only being watched or looked for.
    denied: (m) => {
        m.stale = m.user !== null;
        m.looking = false;
        m.lookAt = null;
    },

    // Another tab of this buyer changed what is remembered. What it is still asking for is its own affair; a press
    // here takes it over. Where nothing is left, an order was given up there, and there may be room again.
    elsewhere: (m, _, out) => {
        if (m.user === null) return;
        if (m.flight === null && !m.stored?.ticket?.doubt) adopt(m, out);
        if (!m.stored) out.push({ do: 'mine' });
    },
};

function lookAgain(m) {
    m.lookAt = m.now + LOOK_MS[Math.min(m.looks, LOOK_MS.length - 1)];
    m.looks += 1;
}

// What is due by now.
function due(m, out) {
    if (m.wait?.untilMs && m.now >= m.wait.untilMs && m.flight === null) submit(m, out);
    if (m.lookAt !== null && m.now >= m.lookAt) {
        const id = m.ticket?.orderId ?? m.order?.order_id ?? m.lookFor;
        if (id) look(m, out, id);
        else m.lookAt = null;
    }
    if (m.earlyAt !== null && m.now >= m.earlyAt) {
        m.earlyAt = null;
        const name = stateOf(m);
        if ((name === 'before' || name === 'ready') && !usable(m) && m.flight === null) take(m, out, 'early');
    }
}

// ---------------------------------------------------------------- the step

const recordOf = (m) => (m.ticket || m.order ? { ticket: m.ticket, orderId: m.order?.order_id ?? null } : null);

// What is remembered from now on. Another tab's ticket in doubt stays in it, unless this tab had it in doubt too and
// knows now what became of it.
function keepOf(m, before) {
    const theirs = doubtOf(m);
    const had = (ticket) => ticket?.doubt && ticket.ticket === theirs?.ticket;
    return !theirs || had(before.ticket) || had(m.ticket) ? recordOf(m) : { orderId: null, ...recordOf(m), ticket: theirs };
}

function watchOf(m) {
    if (isAlive(m.order)) return { kind: 'order', id: m.order.order_id };
    return m.item && phase(m) !== 'ended' ? { kind: 'item', id: m.item.id } : { kind: 'none', id: null };
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function step(model, event) {
    if (!EVENTS[event.type]) throw new Error(`no such event: ${event.type}`);
    const m = { ...model, now: Math.max(model.now, event.now ?? model.now) };
    if (event.record !== undefined) m.stored = event.record;
    const out = [];
    EVENTS[event.type](m, event, out);
    due(m, out);
    // An order that ended frees what it held; the ledger knows what the buyer's others hold.
    const ended = isAlive(model.order) && !isAlive(m.order) && m.user === model.user;
    if (ended && !out.some((effect) => effect.do === 'mine')) out.push({ do: 'mine' });
    for (const effect of out) if (effect.do === 'look') m.lookFor = effect.orderId;
    const effects = [];
    const kept = recordOf(m);
    // Another tab may have written since.
    const sends = out.some((effect) => effect.do === 'buy');
    if (m.user !== null && (sends || (m.user !== model.user ? kept : !same(kept, recordOf(model))))) {
        m.stored = keepOf(m, model);
        effects.push({ do: 'keep', user: m.user, record: m.stored });
    }
    effects.push(...out);
    if (!same(watchOf(m), watchOf(model))) effects.push({ do: 'watch', ...watchOf(m) });
    return { model: m, effects };
}
