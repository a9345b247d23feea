/*
 * The item page: gives the machine what happens, does what it says, draws what it shows. It decides nothing itself.
 *
 * Everything that is known of the buyer's attempt is the machine's model; what survives a reload is the one record
 * that `keep` writes, for this buyer and this item, before anything is sent.
 */

import { Refusal, ask } from '/assets/net.js';
import { el, jitter, memory, setAttr, setText, sleep } from '/assets/tools.js';
import { begin, roomOf, rowOf, stateOf, step, view } from '/assets/store/machine.js';
import { split } from '/assets/store/clock.js';
import {
    $, CHINESE, announce, clock, data, discount, hour, left, money, notice, number, onReturn, paint, reason, resync, says,
    second, session, startShell, t,
} from '/assets/store/shell.js';
import { follow } from '/assets/store/live.js';

const { item: page, sale } = data;
// Tickets are taken over this long before the start, each page at its own moment.
const EARLY_MS = 50000;
const EARLY_LEAST_MS = 4000;
// The ledger is not asked while everybody is here.
const LEDGER_QUIET_MS = 60000;
const LEDGER_MS = 1000;
const STOCK_MS = 5000;
const RETRY_MS = 2000;
const calm = matchMedia('(prefers-reduced-motion: reduce)');

let model = begin(0);
// The server's time is known: nothing is decided before.
let ready = false;
// The stock shown has been heard of since the last trouble.
let fresh = false;
// Where to pay; null: the shop asks; undefined: not known yet.
let payHref;
// The order, and its own address, that payHref is of.
let payFor = '';
// "really cancel?" is open.
let asking = false;

// ---------------------------------------------------------------- doing

const recordKey = (user) => `mine.${user}.${page.id}`;
const anyKey = new RegExp(`^mine\\..+\\.${page.id}$`);
const record = () => (session.user ? memory.get('localStorage', recordKey(session.user)) : memory.find('localStorage', anyKey));

function send(event) {
    if (!ready) return;
    const before = stateOf(model);
    const result = step(model, { now: clock.now(), record: record(), ...event });
    model = result.model;
    for (const effect of result.effects) DO[effect.do](effect);
    knowPay();
    if (stateOf(model) !== before) moved(before);
    draw();
}

// One call, one answer to the machine, whatever happens to it.
async function submit(turn, work) {
    try {
        send({ turn, ...await work() });
    } catch (refusal) {
        if (!(refusal instanceof Refusal)) throw refusal;
        send({ type: 'refused', turn, refusal, jitter: Math.random() });
    }
}

const DO = {
    keep: ({ user, record: kept }) => memory.set('localStorage', recordKey(user), kept),

    takeTicket: ({ turn }) => submit(turn, async () => {
        const answer = await session.call('POST', `/v1/items/${page.id}/ticket`);
        const { ticket, buy_url: url, order_id: orderId, expires_at_ms: expiresMs, held } = answer;
        return { type: 'ticket', ticket, url, orderId, expiresMs, held };
    }),

    buy: ({ turn, ticket }) => submit(turn, async () => {
        const answer = await session.call('POST', ticket.url, { body: { qty: ticket.qty } });
        return { type: 'accepted', orderId: answer.order_id, status: answer.status, held: answer.held };
    }),

    cancel: ({ turn, orderId }) => submit(turn, async () => {
        return { type: 'order', order: await session.call('POST', `/v1/orders/${orderId}/cancel`) };
    }),

    look: async ({ orderId }) => {
        const { user } = session;
        try {
            const order = await session.call('GET', `/v1/orders/${orderId}`);
            if (user === session.user) send({ type: 'order', order });
        } catch (refusal) {
            if (user !== session.user) return;
            if (refusal.status === 404) send({ type: 'missing', orderId });
            else if (refusal.status === 401) send({ type: 'denied' });
            else send({ type: 'unseen' });
        }
    },

    mine: () => planLedger(false),
    login: () => session.login(),
    pay: () => { if (payHref) location.assign(payHref); },
    watch: () => watch(),
};

// What the buyer holds of this item, from the ledger.
async function askLedger(show) {
    const { user } = session;
    try {
        const { orders } = await session.call('GET', '/v1/me/orders?limit=100');
        if (user === session.user) send({ type: 'mine', orders: orders.filter((order) => order.item_id === page.id), show });
    } catch { /* the ticket will tell */ }
}

let ledger = null;

const hasShown = () => model.order !== null || Object.keys(model.past).length > 0;

// While everybody is here the ledger is asked only for those who have an order here, or may have one.
function planLedger(show, ms = jitter(LEDGER_MS)) {
    const kept = record();
    const known = kept?.orderId || kept?.ticket?.doubt || hasShown();
    if (!session.user || (!known && clock.now() < sale.starts_at_ms + LEDGER_QUIET_MS)) return;
    clearTimeout(ledger);
    ledger = setTimeout(askLedger, ms, show);
}

// ---------------------------------------------------------------- following

let stop = null;
let watched = null;

// One stream: the item, or the order once there is one. Closed while nobody looks.
function watch() {
    stop?.();
    stop = null;
    watched = null;
    if (document.hidden || !ready || !model.item) return;
    const order = model.order && ['QUEUED', 'LOCKED'].includes(model.order.status) ? model.order : null;
    if (!order && stateOf(model) === 'ended') return;
    watched = order ? { kind: 'order', id: order.order_id } : { kind: 'item', id: page.id };
    // The stock with this order in it.
    if (order) setTimeout(askItem, jitter(400));
    stop = follow(watched, {
        news: (news) => (order ? send({ type: 'order', order: news }) : hear(news)),
        up: () => trouble(''),
        down: () => trouble(t('offline')),
        gone: () => (order ? send({ type: 'missing', orderId: order.order_id }) : setTimeout(askGone, jitter(RETRY_MS))),
        denied: () => {
            watched = null;
            send({ type: 'denied' });
        },
        status: () => model.order?.status,
    });
}

function hear(item) {
    fresh = true;
    send({ type: 'item', item });
}

// What is wrong, or nothing.
function trouble(text) {
    if (text) fresh = false;
    notice('offline', text);
    if (!text && !fresh) askItem();
    else draw();
}

const getItem = () => ask('GET', `/v1/items/${page.id}`, { timeoutMs: 5000 });

// 0, or in how many milliseconds to ask again.
async function askItem(asked = getItem()) {
    let item;
    try {
        item = await asked;
    } catch ({ status, code, retryAfterMs }) {
        if (status === 404 && !model.order) return missing();
        trouble(status > 0 && status < 500 ? reason(code) : t('offline'));
        return jitter(RETRY_MS) + (status === 429 ? retryAfterMs : 0);
    }
    hear(item);
    notice('offline', '');
    return 0;
}

// The item's stream says that there is no such item. If the item itself says so too, that is that.
async function askGone() {
    await askItem();
    watch();
}

function missing() {
    ready = false;
    watch();
    notice('offline', '');
    $('main').replaceChildren(el('div', { class: 'empty' }, el('h1', {}, t('missing')), el('p', {}, t('missingText')),
        el('p', {}, el('a', { class: 'button plain', href: '/' }, t('allSales')))));
    return 0;
}

// While the stream is the order's, the stock is asked for now and then.
async function keepStock() {
    for (;;) {
        await sleep(jitter(STOCK_MS));
        if (!document.hidden && watched?.kind === 'order') await askItem();
    }
}

// ---------------------------------------------------------------- drawing

const TEXT = {
    ready: () => (model.held > 0 ? 'b_ready_more' : 'b_ready'),
    overloaded: (v) => (v.acts.length ? 'b_overloaded_now' : 'b_overloaded'),
    cooling: (v) => (v.acts.length ? 'b_overloaded_now' : 'b_cooling'),
    paid: (v) => (v.acts.length ? 'b_more' : 'b_paid'),
};

const value = (v) => ({
    held: v.held, limit: v.limit, n: Math.ceil(v.waitMs / 1000),
    amount: money(v.order?.amount_cents ?? page.price_cents * v.qty, sale.currency),
    time: hour(page.starts_at_ms ?? sale.starts_at_ms, clock.now()), available: model.item?.available,
});

function label(v) {
    if (v.name === 'locked' && model.flight === 'cancel') return t('b_cancelling');
    if (v.payMs !== null && v.payMs <= 0) return t('payOver');
    if (v.name === 'locked' && payHref === null) return t('payAtShop');
    // Nothing to press: then the button says what stands in the way.
    if (['expired', 'failed'].includes(v.name) && !v.acts.length) {
        return t(`b_${rowOf({ ...model, order: null, refusal: null }).name}`, value(v));
    }
    return t(TEXT[v.name]?.(v) ?? `b_${v.name}`, value(v));
}

function noteText(v) {
    const values = value(v);
    const said = !v.note || v.name === 'asking' ? '' : says(`n_${v.note}`) ? t(`n_${v.note}`, values) : reason(v.note);
    if (said && v.name !== 'locked') return said;
    switch (v.name) {
    case 'locked': {
        if (v.payMs !== null && v.payMs <= 0) return t('n_locked_over');
        const time = v.order.pay_by_ms ? second(v.order.pay_by_ms, clock.now()) : '…';
        return `${said} ${t(payHref === null ? 'n_locked_shop' : 'n_locked', { time })}`.trim();
    }
    case 'timed_out': return t(model.ticket?.doubt ? 'n_timed_out' : 'n_unasked');
    case 'before': return t('n_before', { time: second(model.item.starts_at_ms, clock.now()) });
    case 'watching': return t('n_watching', { n: number(model.item.locked) });
    case 'overloaded': return `${reason(v.code)} ${t('n_overloaded')}`;
    case 'cooling': return v.acts.length ? reason(v.code) : t('n_cooling', { time: second(model.wait.untilMs, clock.now()) });
    case 'failed': return `${t('n_failed')} ${v.code ? reason(v.code) : ''}`;
    case 'ready': return v.unpaid ? t('n_unpaid', { n: v.unpaid }) : '';
    case 'logged_out': return model.stale ? t('c_unauthenticated') : model.item.state === 'upcoming' ? t('n_logged_out') : '';
    default: return t(`n_${v.name}`, values);
    }
}

// The countdown that matters now: to pay, to the start, or to the end.
function countdown(v) {
    if (!model.item) return null;
    if (v.payMs !== null) return { label: t(v.payMs > 0 ? 'payWithin' : 'payOver'), ms: v.payMs, fine: true };
    if (v.startMs > 0) return { label: t('startsIn'), ms: v.startMs, fine: true };
    const ms = model.item.ends_at_ms - model.now;
    return model.item.state === 'ended' || ms <= 0 ? null : { label: t('endsIn'), ms, fine: false };
}

function drawWhen(v) {
    const down = countdown(v);
    setAttr($('when'), 'class', `when${v.name === 'locked' ? ' when-pay' : v.startMs > 0 ? ' when-start' : ''}`);
    const parts = down && split(down.fine ? down.ms : Math.ceil(down.ms / 1000) * 1000);
    setText($('when-label'), down ? clock.trusted() ? down.label : t('checkingTime') : model.item ? t('live_ended') : '');
    setText($('digits'), down ? left(parts) : '');
    setText($('tenth'), down?.fine && !parts.days && !calm.matches ? `.${parts.tenths}` : '');
}

function drawStock() {
    const { item } = model;
    const known = fresh && item;
    ['sold', 'locked', 'available'].forEach((name, i) => { $('bar').children[i].style.flexGrow = known ? item[name] : 0; });
    setAttr($('bar'), 'aria-label', known ? t('bar', item) : t('stockUnknown'));
    const texts = known
        ? [item.available ? t('left', { n: number(item.available) }) : t('leftNone'),
            t('locked', { n: number(item.locked) }), t('sold', { n: number(item.sold) })]
        : [t('stockUnknown'), '', ''];
    document.querySelectorAll('.counts span').forEach((node, i) => setText(node, texts[i]));
}

function drawChip() {
    const { item } = model;
    const state = !item ? '' : stateOf({ ...begin(model.now), user: '', item });
    const name = { before: 'upcoming', ended: 'ended', paused: 'paused', sold_out: 'sold_out', watching: 'sold_out' }[state] ?? 'open';
    setText($('chip'), item ? t(`live_${name}`) : '');
    setAttr($('chip'), 'class', `chip chip-${name}`);
}

function drawStepper(v) {
    const choose = page.limit_per_user !== 1 && v.choosing;
    $('stepper').hidden = !choose;
    const room = roomOf(model);
    if (document.activeElement !== $('qty')) $('qty').value = v.qty;
    setAttr($('qty'), 'max', room);
    $('fewer').disabled = v.qty <= 1;
    $('more').disabled = v.qty >= room;
}

const link = (text, act, kind = 'link') => el('button', { type: 'button', class: kind, 'data-act': act }, text);

// What else can be done: cancel (which asks first), one more, the orders.
function drawRest(v) {
    const nodes = [];
    if (!v.acts.includes('cancel')) asking = false;
    if (asking) nodes.push(el('span', {}, t('sureCancel')), link(t('b_keep'), 'keep', 'plain'), link(t('b_giveUp'), 'giveUp', 'plain danger'));
    else {
        if (v.acts.includes('cancel')) nodes.push(link(t('b_cancel'), 'ask'));
        if (v.name === 'locked' && v.acts.includes('more')) nodes.push(link(t('b_more'), 'more'));
        if (['paid', 'limit_reached', 'expired', 'failed'].includes(v.name) || v.unpaid) nodes.push(el('a', { href: '/orders' }, t('b_orders')));
    }
    const now = JSON.stringify(nodes.map((node) => node.outerHTML));
    if ($('rest').dataset.now === now) return;
    $('rest').dataset.now = now;
    $('rest').replaceChildren(...nodes);
}

function draw() {
    if (!ready) return;
    const v = view(model);
    const deal = $('deal');
    setAttr(deal, 'data-state', v.name);
    setAttr(deal, 'data-tone', v.name === 'paid' && v.acts.length ? 'go' : v.tone);
    setText($('go-label'), label(v));
    const waits = v.name === 'before' ? v.startMs : v.payMs;
    setText($('go-sub'), waits > 0 ? left(split(waits)) : '');
    const off = !v.acts.length || (v.name === 'locked' && !payHref);
    setAttr($('go'), 'aria-disabled', String(off));
    setText($('note'), noteText(v));
    $('steps').hidden = v.step === 0;
    [...$('steps').children].forEach((node, i) => {
        setAttr(node, 'class', i + 1 < v.step || v.step === 4 ? 'done' : i + 1 === v.step ? 'now' : '');
        setAttr(node, 'aria-current', i + 1 === v.step ? 'step' : null);
    });
    drawStepper(v);
    drawRest(v);
    drawWhen(v);
    drawStock();
    drawChip();
    const { limit } = v;
    setText($('limit'), t(limit === 1 ? 'limitOne' : limit ? 'limitMany' : 'limitNone', { limit }));
    setText($('held'), v.held > 0 ? t(limit ? 'held' : 'heldNone', { held: v.held, limit }) : '');
}

// ---------------------------------------------------------------- milestones

// What a screen reader is told, once: a new state, and a few moments before the start and the deadline.
function moved(before) {
    const v = view(model);
    if (v.tell) announce(before === 'before' ? t('opensNow') : `${label(v)}${CHINESE ? '。' : '. '}${noteText(v)}`);
}

const MOMENTS = [['startMs', 60000, 'opensIn60'], ['startMs', 10000, 'opensIn10'], ['payMs', 30000, 'payIn30'], ['payMs', 0, 'payOver']];
let last = {};

function milestones(v) {
    for (const [name, at, key] of MOMENTS) {
        if (v[name] !== null && last[name] > at && v[name] <= at && v[name] > at - 3000) announce(t(key));
    }
    last = v;
}

// The answer to a repeated buy does not say where to pay; the look that follows it does, and that is no new state.
function knowPay() {
    const { order } = model;
    const wanted = stateOf(model) === 'locked' ? `${order.order_id} ${order.pay_url}` : '';
    if (wanted === payFor) return;
    payFor = wanted;
    payHref = undefined;
    if (wanted && order.pay_url !== undefined) findPay(order, wanted);
}

async function findPay(order, wanted) {
    try {
        const href = await session.payUrl(order);
        if (wanted === payFor) payHref = href;
    } catch {
        setTimeout(() => { if (wanted === payFor) findPay(order, wanted); }, jitter(3000));
    }
    draw();
}

// ---------------------------------------------------------------- the page's own life

// Wakes at each change of the countdown that is shown, so at the very moment of the start too.
function frame() {
    if (!ready) return;
    send({ type: 'tick' });
    const v = view(model);
    milestones(v);
    const down = countdown(v);
    const fine = down?.fine && down.ms > 0 && !calm.matches;
    const next = fine ? split(down.ms).nextMs : 1000 - (model.now % 1000);
    setTimeout(frame, Math.min(Math.max(next, 10), ['overloaded', 'cooling'].includes(v.name) ? 200 : 1000));
}

function onUser() {
    send({ type: 'user', user: session.user });
    // A stream that was denied ended, and the same buyer brings no other target.
    if (!watched) watch();
    planEarly();
    planLedger(true, 0);
}

// Each page takes its ticket at its own moment before the start; then one call at the start is enough.
function planEarly() {
    const last = (model.item?.starts_at_ms ?? sale.starts_at_ms) - EARLY_LEAST_MS;
    const room = Math.min(EARLY_MS, last - clock.now());
    if (session.user && room > 0) send({ type: 'early', atMs: last - Math.random() * room });
}

function press(act) {
    send({ type: 'press', act });
}

function listen() {
    $('go').addEventListener('click', () => {
        const { acts } = view(model);
        if ($('go').getAttribute('aria-disabled') !== 'true' && acts.length) press(acts[0]);
    });
    $('fewer').addEventListener('click', () => send({ type: 'qty', qty: view(model).qty - 1 }));
    $('more').addEventListener('click', () => send({ type: 'qty', qty: view(model).qty + 1 }));
    $('qty').addEventListener('change', () => {
        send({ type: 'qty', qty: Number($('qty').value) });
        $('qty').value = model.qty;
    });
    $('rest').addEventListener('click', ({ target }) => {
        const { act } = target.dataset;
        if (!act) return;
        asking = act === 'ask';
        if (act === 'giveUp') press('cancel');
        if (act === 'more') press('more');
        draw();
        if (act === 'ask') $('rest').querySelector('[data-act="keep"]')?.focus();
        else $('go').focus();
    });
    addEventListener('storage', ({ key }) => {
        if (session.user && key === `sluice.${recordKey(session.user)}`) send({ type: 'elsewhere' });
    });
    onReturn(() => {
        if (!document.hidden && ready) {
            askItem();
            planLedger(!hasShown());
        }
        watch();
    });
    addEventListener('offline', () => trouble(t('offline')));
    session.onChange = onUser;
}

function drawStatic() {
    setText($('price'), money(page.price_cents, sale.currency));
    if ($('was')) setText($('was'), money(page.was_cents, sale.currency));
    if ($('off')) setText($('off'), discount(page.price_cents, page.was_cents));
    paint($('art'), page);
    document.title = `${page.name} · Sluice`;
}

async function start() {
    startShell();
    drawStatic();
    setText($('go-label'), t('b_loading'));
    listen();
    const first = getItem();
    // Judged below.
    first.catch(() => {});
    while (!clock.trusted()) {
        await resync();
        if (clock.trusted()) break;
        notice('offline', t('offline'));
        await sleep(jitter(1000));
    }
    notice('offline', '');
    ready = true;
    model = begin(clock.now());
    send({ type: 'user', user: session.user });
    let pause = await askItem(first);
    while (pause) {
        await sleep(pause);
        pause = await askItem();
    }
    if (!ready) return;
    onUser();
    frame();
    keepStock();
    performance.mark('sluice-ready');
}

start();
