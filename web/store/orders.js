/*
 * The buyer's orders, from the ledger, newest first: pay, cancel, the deadline running.
 *
 * One stream at most: the order that must be paid next. The other unpaid ones are asked for now and then, and every
 * one at the moment its time is over. What is shown of an order never goes backwards.
 */

import { Refusal, ask } from '/assets/net.js';
import { el, jitter, keepOrder, setAttr, setText, sleep } from '/assets/tools.js';
import { split } from '/assets/store/clock.js';
import {
    $, announce, clock, left, money, notice, onReturn, reason, resync, session, stamp, startShell, t,
} from '/assets/store/shell.js';
import { follow } from '/assets/store/live.js';

const RANK = { QUEUED: 0, LOCKED: 1, PAID: 2, EXPIRED: 2, CANCELLED: 2, FAILED: 2 };
const OTHERS_MS = 5000;
const OTHERS_AT_ONCE = 5;
const REST_MS = 2000;
const REST_LONGEST_MS = 60000;

const orders = new Map();
const names = new Map();       // item id -> name
const rows = new Map();
const busy = new Map();        // order id -> 'cancel' while it is asked, or 'sure' while we ask
const why = new Map();         // order id -> why the last act was refused
const pays = new Map();        // order id -> where to pay, or null
const gone = new Map();        // order id -> { times, untilMs }: unpaid in the ledger, but with nothing to follow
let turn = 0;                  // which login this is: what was asked for in an earlier one is not shown
let next = null;
let state = 'loading';         // loading, there, out, failed

const isAlive = (order) => RANK[order.status] < 2;
const newest = (a, b) => b.created_at_ms - a.created_at_ms || (a.order_id < b.order_id ? 1 : -1);

function learn(order) {
    const before = orders.get(order.order_id);
    if (before && RANK[order.status] < RANK[before.status]) return;
    orders.set(order.order_id, { ...before, ...order });
    if (before && before.status !== order.status) {
        why.delete(order.order_id);
        announce(`${nameOf(order)}: ${t(`s_${order.status}`)}`);
    }
}

const nameOf = (order) => names.get(orders.get(order.order_id)?.item_id ?? order.item_id) ?? t('orderNo', { id: order.order_id });

// ---------------------------------------------------------------- asking

async function load(after) {
    if (!session.user) return shut();
    const mine = turn;
    try {
        const page = await session.call('GET', `/v1/me/orders?limit=50${after ? `&after=${encodeURIComponent(after)}` : ''}`);
        if (mine !== turn) return undefined;
        for (const order of page.orders) learn(order);
        next = page.next ?? null;
        notice('offline', '');
        show('there');
    } catch (refusal) {
        if (mine !== turn) return undefined;
        if (refusal.status === 401) return shut();
        if (state !== 'there') show('failed');
        notice('offline', t('offline'));
        setTimeout(() => { if (!document.hidden && mine === turn) load(after); }, jitter(3000));
    }
    return watch();
}

async function loadNames() {
    try {
        for (const sale of (await ask('GET', '/v1/sales')).sales) for (const item of sale.items) names.set(item.id, item.name);
        draw();
    } catch { /* numbers stand for names until the next look */ }
}

function show(now) {
    state = now;
    draw();
}

// ---------------------------------------------------------------- following

let stop = null;
let followed = null;

const rests = ({ order_id: id }) => gone.has(id) && gone.get(id).untilMs > performance.now();

function unfollow() {
    stop?.();
    stop = followed = null;
}

// Nobody is here, or nobody the server knows.
function shut() {
    unfollow();
    show('out');
}

function watch() {
    const alive = [...orders.values()].filter((order) => isAlive(order) && !rests(order))
        .sort((a, b) => (a.pay_by_ms ?? 0) - (b.pay_by_ms ?? 0));
    const wanted = document.hidden || state === 'out' ? null : alive[0]?.order_id ?? null;
    if (wanted === followed) return;
    unfollow();
    followed = wanted;
    stop = wanted && follow({ kind: 'order', id: wanted }, {
        news: arrived,
        up: () => notice('offline', ''),
        down: () => notice('offline', t('offline')),
        gone: () => drop(wanted),
        denied: shut,
        status: () => orders.get(wanted)?.status,
    });
}

function arrived(order) {
    gone.delete(order.order_id);
    learn(order);
    watch();
    draw();
}

// Not on the board any more: the ledger knows. Where that calls it unpaid still, it is followed again, but later each
// time; others() wakes it.
function drop(id) {
    unfollow();
    orders.delete(id);
    const times = (gone.get(id)?.times ?? 0) + 1;
    gone.set(id, { times, untilMs: performance.now() + jitter(Math.min(REST_MS * 2 ** times, REST_LONGEST_MS)) });
    load();
}

const over = (order) => order.pay_by_ms && order.pay_by_ms <= clock.now();

async function others() {
    for (;;) {
        await sleep(jitter(OTHERS_MS));
        const mine = turn;
        const list = [...orders.values()].filter((order) => isAlive(order) && !rests(order) && order.order_id !== followed)
            .sort((a, b) => (a.pay_by_ms ?? 0) - (b.pay_by_ms ?? 0));
        for (const order of document.hidden || state === 'out' ? [] : list.slice(0, OTHERS_AT_ONCE)) {
            const news = await session.call('GET', `/v1/orders/${order.order_id}`).catch(() => null);
            if (mine !== turn) break;
            if (news) arrived(news);
        }
        watch();
    }
}

async function cancel(id) {
    const mine = turn;
    const known = (order) => { if (mine === turn) learn(order); };
    busy.set(id, 'cancel');
    why.delete(id);
    draw();
    try {
        known(await session.call('POST', `/v1/orders/${id}/cancel`));
    } catch (refusal) {
        if (!(refusal instanceof Refusal)) throw refusal;
        if (mine !== turn) return;
        why.set(id, reason(refusal.code));
        announce(why.get(id));
        await session.call('GET', `/v1/orders/${id}`).then(known).catch(() => {});
    }
    if (mine !== turn) return;
    busy.delete(id);
    watch();
    draw();
}

async function findPay(order) {
    if (pays.has(order.order_id)) return;
    pays.set(order.order_id, undefined);
    try {
        pays.set(order.order_id, await session.payUrl(order));
    } catch {
        pays.delete(order.order_id);
    }
    draw();
}

// ---------------------------------------------------------------- drawing

function makeRow(id) {
    const r = {};
    r.name = el('a');
    r.chip = el('span', { class: 'chip' });
    r.sum = el('p', { class: 'order-sum' });
    r.id = el('span');
    r.at = el('time');
    r.label = el('span');
    r.timer = el('span', { class: 'timer', role: 'timer' });
    r.acts = el('div', { class: 'due-acts' });
    r.why = el('p', { class: 'why' });
    r.due = el('div', { class: 'due' }, el('p', {}, r.label, r.timer), r.acts, r.why);
    r.node = el('li', { class: 'order', 'data-order': id },
        el('div', { class: 'order-head' }, el('h2', {}, r.name), r.chip), r.sum,
        el('p', { class: 'order-sub' }, r.id, r.at), r.due);
    r.acts.addEventListener('click', ({ target }) => {
        const { act } = target.dataset;
        if (!act) return;
        if (act === 'giveUp') cancel(id);
        else if (act === 'ask') busy.set(id, 'sure');
        else busy.delete(id);
        draw();
        r.acts.querySelector(act === 'ask' ? '[data-act="keep"]' : '[data-act="ask"]')?.focus();
    });
    return r;
}

const button = (text, act, kind) => el('button', { type: 'button', class: kind, 'data-act': act }, text);

function actsFor(order) {
    const doing = busy.get(order.order_id);
    if (doing === 'cancel') return [el('span', {}, t('b_cancelling'))];
    if (doing === 'sure') return [el('span', {}, t('sureCancel')), button(t('b_keep'), 'keep', 'plain'), button(t('b_giveUp'), 'giveUp', 'plain danger')];
    const href = pays.get(order.order_id);
    const amount = money(order.amount_cents, order.currency);
    const pay = href ? el('a', { class: 'button', href }, t('b_locked', { amount })) : href === null ? el('span', {}, t('payAtShop')) : null;
    return [button(t('b_cancel'), 'ask', 'link'), ...(pay ? [pay] : [])];
}

function drawDue(r, order) {
    r.due.hidden = order.status !== 'LOCKED';
    if (r.due.hidden) return;
    findPay(order);
    const ms = order.pay_by_ms - clock.now();
    setText(r.label, t(ms > 0 ? 'payWithin' : 'payOver'));
    setText(r.timer, ms > 0 ? left(split(Math.ceil(ms / 1000) * 1000)) : '');
    setText(r.why, why.get(order.order_id) ?? '');
    const nodes = over(order) ? [] : actsFor(order);
    const now = nodes.map((node) => node.outerHTML).join('');
    if (r.drawn === now) return;
    r.drawn = now;
    r.acts.replaceChildren(...nodes);
}

function drawRow(order) {
    if (!rows.has(order.order_id)) rows.set(order.order_id, makeRow(order.order_id));
    const r = rows.get(order.order_id);
    setAttr(r.node, 'data-status', order.status);
    setText(r.name, nameOf(order));
    setAttr(r.name, 'href', `/items/${order.item_id}`);
    setText(r.chip, t(`s_${order.status}`));
    setAttr(r.chip, 'class', `chip order-${order.status}`);
    const amount = money(order.amount_cents, order.currency);
    setText(r.sum, order.qty > 1 ? `${t('pieces', { n: order.qty })} ${money(order.amount_cents / order.qty, order.currency)} = ${amount}` : amount);
    setText(r.id, t('orderNo', { id: order.order_id }) + (order.reason ? ` · ${reason(order.reason)}` : ''));
    setText(r.at, stamp(order.created_at_ms));
    setAttr(r.at, 'datetime', new Date(order.created_at_ms).toISOString());
    drawDue(r, order);
    return r.node;
}

const EMPTY = { loading: ['loading'], out: ['ordersLogin', 'login'], failed: ['ordersFailed', 'retry'], there: ['ordersNone', 'allSales'] };

function draw() {
    const list = state === 'out' ? [] : [...orders.values()].sort(newest);
    $('empty').hidden = list.length > 0;
    const [text, act] = EMPTY[state];
    setText($('empty-text'), t(text));
    $('empty-act').hidden = !act;
    if (act) setText($('empty-act'), t(act));
    $('more').hidden = !next || state !== 'there';
    keepOrder($('orders'), list.map(drawRow));
}

function tick() {
    if (!document.hidden && [...orders.values()].some((order) => order.status === 'LOCKED')) draw();
    setTimeout(tick, 1000 - (clock.now() % 1000) + 5);
}

async function start() {
    startShell();
    $('empty-act').addEventListener('click', () => {
        if (state === 'out') session.login();
        else if (state === 'failed') load();
        else location.assign('/');
    });
    $('more').addEventListener('click', () => load(next));
    session.onChange = () => {
        turn += 1;
        unfollow();
        for (const kept of [orders, rows, busy, why, pays, gone]) kept.clear();
        next = null;
        show('loading');
        load();
    };
    onReturn(() => {
        if (document.hidden) watch();
        else load();
    });
    while (!clock.trusted()) {
        await resync();
        if (!clock.trusted()) notice('offline', t('offline'));
        if (!clock.trusted()) await sleep(jitter(1000));
    }
    loadNames();
    await load();
    tick();
    performance.mark('sluice-ready');
    others();
}

start();
