/*
 * The buyer's page: sales, countdown, buying, the order's fate, paying and cancelling.
 *
 * Happy path: set the clock by the server, log in, draw the sales, restore the buyer's orders. A click takes
 * a ticket and spends it; the order's state is pushed (SSE, else long poll) until it is final.
 *
 * What can go wrong: no answer, or 503 `same-ticket`. The outcome is then unknown, so the ticket is kept
 * (also over a reload) and the button turns orange: asking again with the same ticket takes nothing twice.
 * Every other refusal says what to do next in `retry`; no state of the button is a dead end.
 *
 * What stays true: an order's shown state never goes backwards; one attempt per item at a time; at most
 * two streams are open (a browser allows six connections to an HTTP/1.1 host over all its tabs).
 */

// Assets have content-hashed names that only index.html knows, so the modules are found through its links.
const asset = (name) => import(document.getElementById(`${name}-module`).href);
const { LOCALE, t, says, money, duration } = await asset('words');
const { el, setText, setAttr, keepOrder, safeUrl, memory, sleep, jitter } = await asset('tools');
const { Refusal, ask, clock, readEvents } = await asset('net');

const $ = (id) => document.getElementById(id);

function announce(text) {
    $('announce').textContent = text;
}

function notice(text) {
    setText($('notice'), text);
    $('notice').hidden = !text;
}

// ---------------------------------------------------------------- asking the server

function reasonText(code, detail) {
    return says(`c_${code}`) ? t(`c_${code}`) : detail || t('c_no_answer');
}

// As the buyer. Where the token has run out, the demonstration makes another; otherwise a call that the buyer
// asked for (`asked`) leads to the shop's login. Others never do: a bad token must not bounce the page for ever.
async function call(method, path, options = {}) {
    if (!login.token) await login.renew(options.asked);
    try {
        return await ask(method, path, { ...options, token: login.token });
    } catch (refusal) {
        if (refusal.status !== 401) throw refusal;
        await login.renew(options.asked);
        return await ask(method, path, { ...options, token: login.token });
    }
}

// ---------------------------------------------------------------- who is buying

const login = {
    demo: false,
    url: null,
    token: null,
    user: null,

    async start() {
        const config = await ask('GET', '/v1/page-config');
        this.demo = config.demo;
        this.url = config.login_url && safeUrl(config.login_url);
        const fragment = new URLSearchParams(location.hash.slice(1)).get('token');
        if (fragment) {
            memory.set('sessionStorage', 'token', fragment);
            history.replaceState(null, '', location.pathname + location.search);
        }
        this.use(memory.get('sessionStorage', 'token'));
        // Each tab keeps its own buyer; a new tab starts as the last one used.
        const user = memory.get('localStorage', 'user') ?? 1 + Math.floor(Math.random() * 1e9);
        if (this.demo && !this.token) await this.as(user);
        this.draw();
    },

    // Only to name what is remembered here; the server alone judges the token.
    use(token) {
        this.token = token;
        this.user = null;
        if (!token) return;
        try {
            this.user = JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'))).sub;
        } catch { /* not ours to read */ }
    },

    async as(user) {
        const answer = await ask('GET', `/demo/login?user=${encodeURIComponent(user)}`);
        memory.set('localStorage', 'user', answer.user_id);
        memory.set('sessionStorage', 'token', answer.token);
        this.use(answer.token);
        this.user = String(answer.user_id);
        this.draw();
    },

    async renew(asked) {
        if (this.demo) return this.as(this.user ?? memory.get('localStorage', 'user'));
        memory.set('sessionStorage', 'token', null);
        this.use(null);
        this.draw();
        if (!this.url) notice(t('m_loginFirst'));
        else if (asked) location.assign(this.url);
        throw new Refusal(401, { code: 'unauthenticated', retry: 'no' });
    },

    draw() {
        $('login').hidden = !this.demo;
        if (document.activeElement !== $('user')) $('user').value = this.user ?? '';
        $('login-link').hidden = this.demo || !this.url || Boolean(this.token);
        if (this.url) $('login-link').href = this.url;
    },
};

// ---------------------------------------------------------------- what the page knows

const RANK = { QUEUED: 0, LOCKED: 1, PAID: 2, EXPIRED: 2, CANCELLED: 2, FAILED: 2 };
const isAlive = (order) => RANK[order.status] < 2;
const counts = (order) => isAlive(order) || order.status === 'PAID';
const newestFirst = (a, b) => b.created_at_ms - a.created_at_ms || (a.order_id < b.order_id ? 1 : -1);

let sales = [];
const items = new Map();      // id -> item, with its sale beside it
const orders = new Map();     // order_id -> order
const attempts = new Map();   // item id -> { phase, ticket, url, orderId, qty, expiresMs, waitUntil }
const messages = new Map();   // item id -> { kind, text }
const heldSaid = new Map();   // item id -> units the server says this buyer holds
const busy = new Map();       // order_id -> 'pay' | 'cancel', while it is asked
let moreOrders = null;

function rememberAttempts() {
    const unknown = [...attempts].filter(([, attempt]) => attempt.ticket && attempt.phase !== 'wait');
    memory.set('localStorage', `attempts.${login.user}`, Object.fromEntries(unknown));
}

function ordersOf(item) {
    return [...orders.values()].filter((order) => order.item_id === item.id);
}

function heldHere(item) {
    return ordersOf(item).filter(counts).reduce((sum, order) => sum + order.qty, 0);
}

function heldOf(item) {
    return heldSaid.get(item.id) ?? heldHere(item);
}

// Between two answers of the server its own clock opens and ends an item here.
function stateOf(item) {
    const now = clock.now();
    if (item.state !== 'ended' && now >= item.ends_at_ms) return 'ended';
    if (item.state === 'upcoming' && now >= item.starts_at_ms) return item.sale.state === 'paused' ? 'paused' : 'open';
    return item.state;
}

function saleState(sale) {
    const now = clock.now();
    if (sale.state === 'closed' || now >= sale.ends_at_ms) return 'ended';
    if (sale.state === 'paused') return 'paused';
    return now >= sale.starts_at_ms ? 'open' : 'upcoming';
}

const NEWS = {
    LOCKED: ['good', 'm_locked'],
    PAID: ['good', 'm_paid'],
    CANCELLED: ['info', 'm_cancelled'],
    EXPIRED: ['warn', 'm_expired'],
    FAILED: ['bad', 'm_failed'],
};

// One door for every view of an order, whichever way it came: what is older than what is shown is dropped.
function learnOrder(view, { quiet = false } = {}) {
    const known = orders.get(view.order_id);
    if (known && RANK[view.status] < RANK[known.status]) return;
    const order = { ...known, ...view };
    orders.set(order.order_id, order);
    const moved = !known || known.status !== order.status;
    if (!moved) return;
    if (order.status !== 'QUEUED' && attempts.get(order.item_id)?.orderId === order.order_id) {
        attempts.delete(order.item_id);
        rememberAttempts();
    }
    heldSaid.delete(order.item_id);
    if (!quiet && NEWS[order.status]) {
        const [kind, key] = NEWS[order.status];
        const because = order.status === 'FAILED' && order.reason ? ` ${reasonText(order.reason)}` : '';
        messages.set(order.item_id, { kind, text: t(key) + because });
        announce(`${items.get(order.item_id)?.name ?? ''}: ${t(key)}${because}`);
    }
}

async function loadOrders(after) {
    const page = await call('GET', `/v1/me/orders?limit=100${after ? `&after=${encodeURIComponent(after)}` : ''}`);
    for (const order of page.orders) learnOrder(order, { quiet: true });
    moreOrders = page.next ?? null;
    retarget();
    draw();
}

// An attempt cut off by a reload: ask what became of it; where nobody knows, the ticket waits for a click.
async function restoreAttempts() {
    const saved = memory.get('localStorage', `attempts.${login.user}`) ?? {};
    for (const [id, attempt] of Object.entries(saved)) {
        if (orders.has(attempt.orderId) || !attempt.ticket) continue;
        try {
            learnOrder(await call('GET', `/v1/orders/${attempt.orderId}`));
        } catch (refusal) {
            if (refusal.status === 404 && clock.now() > attempt.expiresMs) continue;
            attempts.set(Number(id), { ...attempt, phase: 'unsure' });
            messages.set(Number(id), { kind: 'warn', text: t('m_unsure') });
        }
    }
    rememberAttempts();
    retarget();
    draw();
}

async function loadSales() {
    sales = (await ask('GET', '/v1/sales')).sales;
    const seen = new Set();
    for (const sale of sales) {
        for (const item of sale.items) {
            learnItem(item, sale);
            seen.add(item.id);
        }
    }
    for (const id of items.keys()) if (!seen.has(id)) items.delete(id);
}

function learnItem(view, sale) {
    const known = items.get(view.id);
    const home = sale ?? known?.sale;
    if (!home) return;
    // A list from a cache may be a second old: what was pushed just now stays.
    if (sale && source?.item === view.id && performance.now() - source.heard < 2000) view = known;
    items.set(view.id, { starts_at_ms: home.starts_at_ms, ends_at_ms: home.ends_at_ms, ...known, ...view, sale: home });
}

// ---------------------------------------------------------------- buying

async function buy(item, qty) {
    const attempt = attempts.get(item.id) ?? { ticket: null, qty };
    attempt.phase = 'asking';
    attempts.set(item.id, attempt);
    messages.delete(item.id);
    attend(item.id);
    draw();
    for (let tries = 0; tries < 2; tries += 1) {
        try {
            if (!attempt.ticket) await takeTicket(item, attempt);
            spent(item, attempt, await call('POST', attempt.url, { body: { qty: attempt.qty }, asked: true }));
            break;
        } catch (refusal) {
            if (!(refusal instanceof Refusal)) throw refusal;
            if (refusal.retry === 'new-ticket') attempt.ticket = null;
            if (refusal.retry !== 'new-ticket' || tries === 1) {
                refused(item, attempt, refusal);
                break;
            }
        }
    }
    rememberAttempts();
    retarget();
    draw();
}

async function takeTicket(item, attempt) {
    const answer = await call('POST', `/v1/items/${item.id}/ticket`, { asked: true });
    attempt.ticket = answer.ticket;
    attempt.url = answer.buy_url;
    attempt.orderId = answer.order_id;
    attempt.expiresMs = answer.expires_at_ms;
    heldSaid.set(item.id, answer.held);
    rememberAttempts();
}

function spent(item, attempt, answer) {
    attempt.phase = 'queued';
    attempt.orderId = answer.order_id;
    if (answer.status === 'QUEUED') {
        messages.set(item.id, { kind: 'info', text: t('m_queued') });
        announce(`${item.name}: ${t('m_queued')}`);
    }
    // Enough to draw it at once; the watch brings the rest.
    const sketch = {
        item_id: item.id,
        qty: attempt.qty,
        reason: null,
        amount_cents: item.price_cents * attempt.qty,
        currency: item.sale.currency,
        pay_url: null,
        pay_by_ms: null,
        created_at_ms: clock.now(),
    };
    learnOrder({ ...sketch, ...orders.get(answer.order_id), order_id: answer.order_id, status: answer.status });
    if (answer.status !== 'QUEUED') attempts.delete(item.id);
    if (answer.held !== undefined) heldSaid.set(item.id, answer.held);
}

function refused(item, attempt, refusal) {
    let text = reasonText(refusal.code, refusal.detail);
    if (refusal.code === 'sold_out' && refusal.available > 0) text = t('m_onlyLeft', refusal);
    if (refusal.code === 'sold_out' && refusal.retry === 'later' && !refusal.available) text = t('m_comesBack');
    if (refusal.code === 'limit_reached' && refusal.limit > 1) text = t('m_limit', refusal);
    if (refusal.held !== undefined) {
        heldSaid.set(item.id, refusal.held);
        // Holding more than this page knows of: another device bought too.
        if (refusal.held !== heldHere(item)) loadOrders().catch(() => {});
    }
    if (refusal.retry === 'same-ticket' && attempt.ticket) {
        attempt.phase = 'unsure';
        text = t('m_unsure');
    } else if (refusal.retry === 'no' || refusal.code === 'sold_out') {
        attempts.delete(item.id);
    } else {
        attempt.phase = 'wait';
        attempt.waitUntil = refusal.retry === 'later' ? clock.now() + refusal.retryAfterMs : 0;
    }
    messages.set(item.id, { kind: refusal.retry === 'no' ? 'bad' : 'warn', text });
    announce(`${item.name}: ${text}`);
    refreshSoon();
}

async function settle(order, verb) {
    if (busy.has(order.order_id)) return;
    busy.set(order.order_id, verb);
    draw();
    try {
        learnOrder(await call('POST', `/v1/orders/${order.order_id}/${verb}`, { asked: true }));
    } catch (refusal) {
        if (!(refusal instanceof Refusal)) throw refusal;
        messages.set(order.item_id, { kind: 'warn', text: reasonText(refusal.code, refusal.detail) });
        announce(reasonText(refusal.code, refusal.detail));
        await call('GET', `/v1/orders/${order.order_id}`).then(learnOrder).catch(() => {});
    }
    busy.delete(order.order_id);
    retarget();
    refreshSoon();
    draw();
}

// ---------------------------------------------------------------- watching an order

let watched = null;   // { id, guard }: the one order whose state is pushed

// Queued orders first, then the newest: the others are asked for now and then.
function retarget() {
    const alive = [...orders.values()].filter(isAlive)
        .sort((a, b) => RANK[a.status] - RANK[b.status] || newestFirst(a, b));
    const want = alive.find((order) => !document.hidden || order.status === 'QUEUED')?.order_id ?? null;
    if (watched?.id === want) return;
    watched?.guard.abort();
    watched = want && { id: want, guard: new AbortController() };
    if (watched) follow(watched).catch(() => {});
}

// Pushed where that works; where streams fail twice (some proxies hold them back), by long poll.
async function follow(watch) {
    let failures = 0;
    const watches = () => !watch.guard.signal.aborted && orders.has(watch.id) && isAlive(orders.get(watch.id));
    while (watches()) {
        let pause = 300;
        try {
            if (failures < 2) await stream(watch);
            else await longPoll(watch);
        } catch (refusal) {
            if (refusal.status === 404) return forget(watch.id);
            failures += 1;
            pause = Math.min(250 * 2 ** failures, 8000);
        }
        if (watches()) await sleep(jitter(pause));
    }
}

function forget(id) {
    orders.delete(id);
    retarget();
    draw();
}

function arrived(view) {
    learnOrder(view);
    retarget();
    refreshSoon();
    draw();
}

async function stream(watch) {
    const onEvent = ({ event, id, data }) => {
        if (id) watch.last = id;
        if (event === 'order') arrived(JSON.parse(data));
    };
    try {
        const { signal } = watch.guard;
        await readEvents(`/v1/orders/${watch.id}/events`, { token: login.token, lastId: watch.last, signal, onEvent });
    } catch (refusal) {
        if (refusal.status === 401) await login.renew();
        throw refusal;
    }
}

async function longPoll(watch) {
    const { status } = orders.get(watch.id);
    const path = `/v1/orders/${watch.id}?wait_ms=25000&status=${status}`;
    arrived(await call('GET', path, { timeoutMs: 40000, signal: watch.guard.signal }));
}

// The next to expire first: a few at a time are enough.
async function pollOthers() {
    const others = [...orders.values()].filter((order) => isAlive(order) && order.order_id !== watched?.id)
        .sort((a, b) => (a.pay_by_ms ?? 0) - (b.pay_by_ms ?? 0));
    for (const order of others.slice(0, 5)) {
        await call('GET', `/v1/orders/${order.order_id}`).then(learnOrder).catch(() => {});
    }
    if (others.length) draw();
}

// ---------------------------------------------------------------- watching the items

let source = null;      // EventSource of the item the buyer attends to; the others are polled together
let attended = null;

function attend(id) {
    attended = id;
    const item = items.get(id);
    const wanted = !document.hidden && item && stateOf(item) !== 'ended' ? id : null;
    const givenUp = source?.readyState === EventSource.CLOSED && performance.now() - source.started > 15000;
    if ((source?.item ?? null) === wanted && !givenUp) return;
    source?.close();
    source = wanted === null ? null : listen(wanted);
}

function listen(id) {
    const events = new EventSource(`/v1/items/${id}/events`);
    Object.assign(events, { item: id, started: performance.now(), heard: -Infinity });
    const take = ({ data }) => {
        learnItem(JSON.parse(data));
        events.heard = performance.now();
        draw();
    };
    events.addEventListener('item', take);
    events.addEventListener('item.sold_out', () => refreshSoon());
    return events;
}

let nextRefresh = null;

function refreshSoon() {
    clearTimeout(nextRefresh);
    nextRefresh = setTimeout(refresh, jitter(700));
}

async function refresh() {
    clearTimeout(nextRefresh);
    if (document.hidden) return;
    let delay = sales.some((sale) => saleState(sale) === 'open') ? 2000 : 5000;
    try {
        await loadSales();
        $('sales').removeAttribute('aria-busy');
        if ($('notice').textContent === t('m_offline')) notice('');
        const first = [...items.values()].find((item) => stateOf(item) === 'open') ?? [...items.values()][0];
        attend(items.has(attended) ? attended : first?.id);
    } catch {
        notice(t('m_offline'));
        delay = 5000;
    }
    draw();
    clearTimeout(nextRefresh);
    nextRefresh = setTimeout(refresh, jitter(delay));
}

// ---------------------------------------------------------------- drawing

const cards = new Map();      // item id -> nodes
const sections = new Map();   // sale id -> nodes
const rows = new Map();       // order_id -> nodes

function draw() {
    const place = { open: 0, upcoming: 1, paused: 2, ended: 3 };
    const shown = [...sales].sort((a, b) => place[saleState(a)] - place[saleState(b)]
        || a.starts_at_ms - b.starts_at_ms || a.id - b.id);
    if (shown.length) keepOrder($('sales'), shown.map(drawSale));
    else if (!$('sales').hasAttribute('aria-busy')) keepOrder($('sales'), [el('p', { class: 'empty' }, t('empty'))]);
    drawOrders();
}

function drawSale(sale) {
    let part = sections.get(sale.id);
    if (!part) {
        const title = el('h2', { id: `sale-${sale.id}` });
        const chip = el('span', { class: 'chip' });
        const label = el('span');
        const timer = el('span', { class: 'timer', role: 'timer' });
        const grid = el('div', { class: 'grid' });
        const node = el('section', { class: 'sale', 'aria-labelledby': `sale-${sale.id}`, 'data-sale': sale.id },
            el('div', { class: 'sale-head' }, title, chip, el('p', { class: 'countdown' }, label, ' ', timer)), grid);
        part = { node, title, chip, label, timer, grid };
        sections.set(sale.id, part);
    }
    const state = saleState(sale);
    setAttr(part.node, 'data-state', state);
    setText(part.title, sale.name);
    setText(part.chip, t(`chip_${state}`));
    setAttr(part.chip, 'class', `chip chip-${state}`);
    const target = state === 'upcoming' ? sale.starts_at_ms : sale.ends_at_ms;
    setText(part.label, state === 'upcoming' ? t('startsIn') : state === 'open' ? t('endsIn') : '');
    setText(part.timer, state === 'upcoming' || state === 'open' ? duration(target - clock.now()) : '');
    keepOrder(part.grid, sale.items.map((item) => drawCard(items.get(item.id))));
    return part.node;
}

function picture(item) {
    const letter = [...item.name.trim()][0] ?? '·';
    const box = el('div', { class: `art art-${item.id % 6}`, 'aria-hidden': 'true' });
    box.append(el('span', {}, letter.toUpperCase()));
    const url = item.image_url && safeUrl(item.image_url);
    if (url) {
        const image = el('img', { alt: '', loading: 'lazy', decoding: 'async' });
        image.addEventListener('load', () => box.replaceChildren(image));
        image.src = url;
    }
    return box;
}

function makeCard(item) {
    const p = { qty: 1 };
    p.name = el('h3', { id: `item-${item.id}` });
    p.price = el('strong', { class: 'price' });
    p.was = el('s', { class: 'was' });
    p.off = el('span', { class: 'off' });
    p.sold = el('i', { class: 'bar-sold' });
    p.locked = el('i', { class: 'bar-locked' });
    p.available = el('i', { class: 'bar-available' });
    p.bar = el('div', { class: 'bar', role: 'img' }, p.sold, p.locked, p.available);
    p.leftText = el('span', { class: 'n-available' });
    p.lockedText = el('span', { class: 'n-locked' });
    p.soldText = el('span', { class: 'n-sold' });
    p.limit = el('span', { class: 'limit' });
    p.held = el('span', { class: 'held' });
    p.input = el('input', { type: 'number', id: `qty-${item.id}`, min: 1, step: 1, value: 1, inputmode: 'numeric',
        onchange: () => setQty(p, items.get(item.id), Number(p.input.value)) });
    const step = (by) => setQty(p, items.get(item.id), p.qty + by);
    p.minus = el('button', { type: 'button', class: 'step', onclick: () => step(-1) }, '−');
    p.plus = el('button', { type: 'button', class: 'step', onclick: () => step(1) }, '+');
    const label = el('label', { for: `qty-${item.id}` }, t('qty'));
    p.stepper = el('div', { class: 'stepper' }, label, p.minus, p.input, p.plus);
    setAttr(p.minus, 'aria-label', `${t('less')}: ${item.name}`);
    setAttr(p.plus, 'aria-label', `${t('moreQty')}: ${item.name}`);
    // aria-disabled instead of disabled: the keyboard's focus stays on the button while it waits.
    p.button = el('button', { type: 'button', class: 'buy', 'aria-describedby': `msg-${item.id}`,
        onclick: () => { if (p.button.getAttribute('aria-disabled') !== 'true') buy(items.get(item.id), p.qty); } });
    p.message = el('p', { class: 'message', id: `msg-${item.id}` });
    p.slip = makeSlip();
    p.act = el('div', { class: 'act' }, p.stepper, p.button);
    const prices = el('p', { class: 'prices' }, p.price, p.was, p.off);
    const numbers = el('p', { class: 'counts' }, p.leftText, p.lockedText, p.soldText);
    const limits = el('p', { class: 'limits' }, p.limit, p.held);
    const body = el('div', { class: 'body' }, p.name, prices, p.bar, numbers, limits, p.act, p.slip.node, p.message);
    p.node = el('article', { class: 'card', 'aria-labelledby': `item-${item.id}`, 'data-item': item.id,
        onclick: () => attend(item.id), onfocusin: () => attend(item.id) }, picture(item), body);
    return p;
}

function setQty(p, item, wanted) {
    p.qty = Math.min(Math.max(1, Math.floor(wanted) || 1), maxQty(item));
    p.input.value = p.qty;
    draw();
}

function maxQty(item) {
    const room = item.limit_per_user ? item.limit_per_user - heldOf(item) : Infinity;
    return Math.max(1, Math.min(room, Math.max(item.available, 1), 2 ** 31 - 1));
}

// What the button says and whether it can be pressed, from the attempt, what the buyer holds, and the item.
function buttonOf(item) {
    const attempt = attempts.get(item.id);
    if (attempt) return attemptButton(attempt);
    const limit = item.limit_per_user;
    const held = heldOf(item);
    const mine = ordersOf(item);
    const state = stateOf(item);
    if (mine.some((order) => order.status === 'QUEUED')) return { phase: 'queued', label: t('queued'), off: true };
    if (limit && held >= limit) {
        const unpaid = mine.some((order) => order.status === 'LOCKED');
        if (unpaid) return { phase: 'locked', label: t('lockedBtn'), off: true };
        return limit === 1
            ? { phase: 'paid', label: t('mine'), off: true }
            : { phase: 'full', label: t('full'), off: true };
    }
    if (state === 'open') return { phase: state, label: t(held ? 'buyMore' : 'buy'), off: false };
    if (state === 'upcoming') {
        return { phase: state, label: `${t('startsIn')} ${duration(item.starts_at_ms - clock.now())}`, off: true };
    }
    return { phase: state, label: t(state === 'sold_out' ? 'soldOut' : state), off: true };
}

// What is unknown stays pressable at once; what was refused waits as long as the server asked.
function attemptButton({ phase, waitUntil }) {
    if (phase === 'asking' || phase === 'queued') return { phase, label: t(phase), off: true };
    if (phase === 'unsure') return { phase, label: t('again'), off: false };
    const left = Math.ceil((waitUntil - clock.now()) / 1000);
    return { phase, label: left > 0 ? t('againIn', { n: left }) : t('tryAgain'), off: left > 0 };
}

function drawCard(item) {
    let p = cards.get(item.id);
    if (!p) {
        p = makeCard(item);
        cards.set(item.id, p);
    }
    const { currency } = item.sale;
    setText(p.name, item.name);
    setText(p.price, money(item.price_cents, currency));
    const cheaper = item.was_cents > item.price_cents;
    setText(p.was, cheaper ? money(item.was_cents, currency) : '');
    const share = item.price_cents / item.was_cents;
    const discount = { n: Math.round(100 - share * 100), z: (share * 10).toFixed(1).replace(/\.0$/, '') };
    setText(p.off, cheaper ? t('off', discount) : '');
    for (const name of ['sold', 'locked', 'available']) p[name].style.flexGrow = item[name];
    setAttr(p.bar, 'aria-label', t('bar', item));
    const count = (n) => n.toLocaleString(LOCALE);
    setText(p.leftText, t('left', { n: count(item.available) }));
    setText(p.lockedText, t('locked', { n: count(item.locked) }));
    setText(p.soldText, t('sold', { n: count(item.sold) }));
    drawAction(p, item);
    return p.node;
}

function drawAction(p, item) {
    const limit = item.limit_per_user;
    const held = heldOf(item);
    setText(p.limit, t(limit === 1 ? 'limitOne' : limit ? 'limitMany' : 'limitNone', { limit }));
    setText(p.held, limit > 1 ? t('held', { held, limit }) : held && limit === 0 ? t('heldNone', { held }) : '');
    const button = buttonOf(item);
    setAttr(p.node, 'data-phase', button.phase);
    setText(p.button, button.label);
    setAttr(p.button, 'aria-disabled', String(button.off));
    setAttr(p.button, 'class', `buy buy-${button.phase}`);
    drawStepper(p, item, button.phase);
    p.act.hidden = button.phase === 'locked';
    const unpaid = ordersOf(item).filter((order) => order.status === 'LOCKED').sort(newestFirst)[0];
    drawSlip(p.slip, unpaid);
    let message = messages.get(item.id);
    if (!message && button.phase === 'sold_out' && item.locked > 0) message = { kind: 'info', text: t('m_comesBack') };
    // The slip already says it, with the time left.
    if (unpaid && message?.text === t('m_locked')) message = null;
    setText(p.message, message?.text ?? '');
    setAttr(p.message, 'class', `message ${message?.kind ?? ''}`);
}

// The quantity can be chosen while no attempt runs: another quantity under the same ticket would be refused.
function drawStepper(p, item, phase) {
    p.stepper.hidden = item.limit_per_user === 1 || ['ended', 'sold_out', 'full', 'paused'].includes(phase);
    const choosing = phase === 'open' || phase === 'upcoming';
    const most = maxQty(item);
    if (choosing) p.qty = Math.min(p.qty, most);
    if (document.activeElement !== p.input) p.input.value = attempts.get(item.id)?.qty ?? p.qty;
    setAttr(p.input, 'max', most);
    p.input.disabled = !choosing;
    p.minus.disabled = !choosing || p.qty <= 1;
    p.plus.disabled = !choosing || p.qty >= most;
}

function makeSlip() {
    const s = { order: null };
    s.text = el('span');
    s.timer = el('span', { class: 'timer', role: 'timer' });
    s.pay = el('button', { type: 'button', class: 'pay', onclick: () => settle(s.order, 'pay') });
    s.link = el('a', { class: 'button pay', rel: 'noopener' });
    s.cancel = el('button', { type: 'button', class: 'plain cancel', onclick: () => settle(s.order, 'cancel') });
    s.shop = el('span', { class: 'hint' }, t('payAtShop'));
    const actions = el('div', { class: 'slip-act' }, s.pay, s.link, s.shop, s.cancel);
    s.node = el('div', { class: 'slip', hidden: true }, el('p', {}, s.text, ' ', s.timer), actions);
    return s;
}

function drawSlip(s, order) {
    s.node.hidden = !order;
    s.order = order ?? null;
    if (!order) return;
    const left = order.pay_by_ms === null ? null : order.pay_by_ms - clock.now();
    const doing = busy.get(order.order_id);
    const url = order.pay_url && safeUrl(order.pay_url);
    setText(s.text, left !== null && left <= 0 ? t('payOver') : t('payWithin'));
    setText(s.timer, left !== null && left > 0 ? duration(left) : '');
    setText(s.pay, doing === 'pay' ? t('paying') : t('pay', { amount: money(order.amount_cents, order.currency) }));
    setText(s.link, t('pay', { amount: money(order.amount_cents, order.currency) }));
    setText(s.cancel, doing === 'cancel' ? t('cancelling') : t('cancel'));
    s.pay.hidden = !login.demo;
    s.link.hidden = login.demo || !url;
    if (url) s.link.href = url;
    s.shop.hidden = login.demo || Boolean(url);
    setAttr(s.pay, 'aria-disabled', Boolean(doing) || null);
    setAttr(s.cancel, 'aria-disabled', Boolean(doing) || null);
}

function drawOrders() {
    const list = [...orders.values()].sort(newestFirst);
    $('orders').hidden = list.length === 0;
    $('more').hidden = !moreOrders;
    for (const id of rows.keys()) if (!orders.has(id)) rows.delete(id);
    keepOrder($('order-list'), list.map(drawRow));
}

function drawRow(order) {
    let r = rows.get(order.order_id);
    if (!r) {
        r = { name: el('strong'), what: el('span', { class: 'what' }), state: el('span') };
        r.id = el('code');
        r.when = el('time');
        r.slip = makeSlip();
        const head = el('div', { class: 'row-head' }, r.name, r.what, r.state);
        const sub = el('p', { class: 'row-sub' }, r.id, r.when);
        r.node = el('li', { class: 'row', 'data-order': order.order_id }, head, sub, r.slip.node);
        rows.set(order.order_id, r);
    }
    setAttr(r.node, 'data-status', order.status);
    setText(r.name, items.get(order.item_id)?.name ?? `#${order.item_id}`);
    setText(r.what, `× ${order.qty}  ·  ${money(order.amount_cents, order.currency)}`);
    setText(r.id, `${t('orderNo')} ${order.order_id}`);
    const when = new Date(order.created_at_ms);
    setAttr(r.when, 'datetime', when.toISOString());
    setText(r.when, when.toLocaleString(LOCALE, { dateStyle: 'medium', timeStyle: 'medium' }));
    setText(r.state, t(`s_${order.status}`));
    setAttr(r.state, 'class', `chip order-${order.status}`);
    drawSlip(r.slip, order.status === 'LOCKED' ? order : null);
    return r.node;
}

// ---------------------------------------------------------------- the page's own life

// Wakes on each whole second of the server, and at the very moment a sale starts or ends.
function tick() {
    const now = clock.now();
    setText($('clock'), new Date(now).toLocaleTimeString(LOCALE, { hour12: false }));
    draw();
    const edges = sales.flatMap((sale) => [sale.starts_at_ms, sale.ends_at_ms]).filter((edge) => edge > now);
    setTimeout(tick, Math.max(10, Math.min(1000 - (now % 1000), ...edges.map((edge) => edge - now))));
}

async function switchBuyer(event) {
    event.preventDefault();
    const user = $('user').value.trim();
    if (!/^[1-9]\d{0,15}$/.test(user) || Number(user) > Number.MAX_SAFE_INTEGER) return notice(t('m_badUser'));
    notice('');
    try {
        await login.as(Number(user));
    } catch (refusal) {
        return notice(reasonText(refusal.code, refusal.detail));
    }
    location.reload();
}

async function restoreBuyer() {
    if (!login.token) return;
    await loadOrders().catch(() => {});
    await restoreAttempts();
}

function every(ms, work) {
    setTimeout(() => {
        Promise.resolve(document.hidden ? null : work()).catch(() => {}).finally(() => every(ms, work));
    }, jitter(ms));
}

async function start() {
    document.documentElement.lang = LOCALE;
    for (const node of document.querySelectorAll('[data-t]')) setText(node, t(node.dataset.t));
    $('login').addEventListener('submit', switchBuyer);
    $('more').addEventListener('click', () => {
        loadOrders(moreOrders).catch((refusal) => notice(reasonText(refusal.code, refusal.detail)));
    });
    document.addEventListener('visibilitychange', () => {
        retarget();
        attend(attended);
        if (document.hidden) return;
        clock.sync().catch(() => {});
        refresh();
    });
    for (;;) {
        try {
            await clock.sync();
            await login.start();
            break;
        } catch {
            notice(t('m_offline'));
            await sleep(jitter(2000));
        }
    }
    await refresh();
    tick();
    await restoreBuyer();
    every(60000, () => clock.sync());
    every(5000, pollOthers);
}

start();
