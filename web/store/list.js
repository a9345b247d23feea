/*
 * Today's sessions, and those of the days to come under their dates. The server wrote all of them into the page; what
 * lives (states and stock) is asked for gently with one call for all, only while somebody looks. Where a session was
 * added or taken away meanwhile, the page's own list is fetched anew and put in place.
 *
 * A day is the buyer's own, by the server's clock. A session that runs is of today; one that ended on an earlier day is
 * not shown.
 */

import { ask } from '/assets/net.js';
import { el, jitter, keepOrder, setAttr, setText } from '/assets/tools.js';
import { split } from '/assets/store/clock.js';
import {
    $, LOCALE, clock, data, day, hour, left, money, notice, number, onReturn, paint, startShell, t, translate,
} from '/assets/store/shell.js';

const BUSY_MS = 3000;
const CALM_MS = 10000;
const RENEW_MS = 1000;
const RENEW_SLOWEST_MS = 60000;
const PLACE = { open: 0, paused: 1, upcoming: 2, ended: 3 };
const calendar = new Intl.DateTimeFormat(LOCALE, { weekday: 'short', month: 'short', day: 'numeric' });

let sales = data.sales;
let known = false;       // live numbers have been heard, and nothing is in trouble
let timer = null;
let made = null;         // the shape of the list that stands in the page
let renewAt = 0;         // not asked for again before, so that a page that stays old is no storm
let misses = 0;

// Between two answers the server's clock opens and ends a session here.
function stateOf(sale) {
    const now = clock.now();
    if (sale.state === 'closed' || now >= sale.ends_at_ms) return 'ended';
    if (sale.state === 'paused') return 'paused';
    return now >= sale.starts_at_ms ? 'open' : 'upcoming';
}

// The moment that says which day a session is of. One that was closed before its end is of the day it started.
function momentOf(sale) {
    const now = clock.now();
    const state = stateOf(sale);
    if (state === 'upcoming') return sale.starts_at_ms;
    if (state !== 'ended') return now;
    return sale.ends_at_ms <= now ? sale.ends_at_ms : sale.starts_at_ms;
}

function itemState(item, sale) {
    const state = stateOf(sale);
    return state === 'open' && known && item.available === 0 ? 'sold_out' : state;
}

function drawCard(card, item, sale) {
    const state = itemState(item, sale);
    setAttr(card, 'data-state', state);
    const heard = known && item.total !== undefined;
    const bar = card.querySelector('.bar');
    ['sold', 'locked', 'available'].forEach((name, i) => { bar.children[i].style.flexGrow = heard ? item[name] : 0; });
    // Until here it says nothing.
    bar.removeAttribute('aria-hidden');
    setAttr(bar, 'role', 'img');
    setAttr(bar, 'aria-label', heard ? t('bar', item) : t('stockUnknown'));
    const count = !heard ? t('stockUnknown') : state === 'upcoming' ? t('total', { n: number(item.total) })
        : item.available ? t('left', { n: number(item.available) })
            : item.locked ? t('locked', { n: number(item.locked) }) : t('sold', { n: number(item.sold) });
    setText(card.querySelector('.n-left'), count);
    const cta = { open: `${t('b_ready')} ›`, upcoming: t('startsAt', { time: hour(sale.starts_at_ms, clock.now()) }) };
    setText(card.querySelector('.cta'), cta[state] ?? t(`live_${state}`));
}

function drawSale(sale) {
    const node = $(`sale-${sale.id}`);
    if (!node) return null;
    const state = stateOf(sale);
    setAttr(node, 'data-state', state);
    setText(node.querySelector('h2'), sale.name);
    setText(node.querySelector('.chip'), t(`live_${state}`));
    setAttr(node.querySelector('.chip'), 'class', `chip chip-${state}`);
    const target = state === 'upcoming' ? sale.starts_at_ms : sale.ends_at_ms;
    const runs = state !== 'ended' && clock.trusted();
    const known = state === 'ended' && sale.ends_at_ms <= clock.now();   // else it was closed before, nobody says when
    setText(node.querySelector('.when-label'), runs ? t(state === 'upcoming' ? 'startsIn' : 'endsIn')
        : known ? t('endedAt', { time: hour(sale.ends_at_ms, clock.now()) }) : '');
    setText(node.querySelector('.timer'), runs ? left(split(Math.ceil((target - clock.now()) / 1000) * 1000)) : '');
    for (const item of sale.items) {
        const card = node.querySelector(`[data-item="${item.id}"]`);
        if (card) drawCard(card, item, sale);
    }
    return node;
}

const tabs = new Map();

function drawTab(sale) {
    if (!tabs.has(sale.id)) tabs.set(sale.id, el('li', {}, el('a', { href: `#sale-${sale.id}` }, el('b'), el('span'))));
    const tab = tabs.get(sale.id);
    setAttr(tab.firstChild, 'data-state', stateOf(sale));
    setText(tab.querySelector('b'), hour(sale.starts_at_ms, clock.now()));
    setText(tab.querySelector('span'), t(`live_${stateOf(sale)}`));
    return tab;
}

const lines = new Map();   // what stands between the sessions: a day's name, or that there is nothing

function line(tag, kind, text) {
    if (!lines.has(text)) lines.set(text, el(tag, { class: kind }, text));
    return lines.get(text);
}

function dayName(moment) {
    const now = new Date(clock.now());
    const tomorrow = new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1);
    const date = calendar.format(moment);
    return day(moment) === day(tomorrow) ? t('tomorrow', { date }) : date;
}

// Nothing that depends on the time is shown before the server has told it.
function draw() {
    if (!clock.trusted()) return;
    const today = day(clock.now());
    const isToday = (sale) => day(momentOf(sale)) === today;
    const byTime = sales.filter((sale) => day(momentOf(sale)) >= today).sort((a, b) => a.starts_at_ms - b.starts_at_ms || a.id - b.id);
    const now = byTime.filter(isToday).sort((a, b) => PLACE[stateOf(a)] - PLACE[stateOf(b)]);
    const nodes = now.map(drawSale).filter(Boolean);
    if (!now.length) nodes.push(line('p', 'empty', t(byTime.length ? 'noneToday' : 'noSales')));
    for (const sale of byTime.filter((one) => !isToday(one))) {
        const name = line('h2', 'day', dayName(sale.starts_at_ms));
        const node = drawSale(sale);
        if (node) nodes.push(...(nodes.includes(name) ? [] : [name]), node);
    }
    keepOrder($('sales'), nodes);
    keepOrder($('times'), byTime.map(drawTab));
    $('times-nav').hidden = byTime.length < 2;
}

// The list the server makes now, where it is not the one shown. What comes may be no page, or an old one out of some
// cache: it is judged by its own data, and until that is what the server sells it is asked for again, later each time.
async function renew() {
    const wanted = shape(sales);
    if (wanted === made || performance.now() < renewAt) return;
    renewAt = performance.now() + jitter(Math.min(RENEW_MS * 2 ** misses, RENEW_SLOWEST_MS));
    misses += 1;
    try {
        const answer = await fetch('/', { cache: 'no-cache', signal: AbortSignal.timeout(8000) });
        if (!answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const own = shape(JSON.parse(page.getElementById('data').textContent).sales);
        if (own === wanted) misses = renewAt = 0;
        if (own === made) return;
        $('sales').replaceChildren(...page.getElementById('sales').childNodes);
        made = own;
    } catch { return; }   // what is shown stays
    translate();
    decorate();
}

// What the server wrote plainly, in the buyer's own way.
function decorate() {
    for (const sale of sales) {
        for (const item of sale.items) {
            const card = document.querySelector(`[data-item="${item.id}"]`);
            if (!card) continue;
            paint(card.querySelector('.art'), item);
            setText(card.querySelector('.price'), money(item.price_cents, sale.currency));
            const was = card.querySelector('.was');
            if (was) setText(was, money(item.was_cents, sale.currency));
        }
    }
}

const shape = (list) => list.map((sale) => `${sale.id}:${sale.name}:${sale.items.map((item) => item.id)}`).sort().join();

async function refresh() {
    clearTimeout(timer);
    if (document.hidden) return;
    let pause = CALM_MS;
    try {
        const { sales: heard } = await ask('GET', '/v1/sales', { timeoutMs: 8000 });
        sales = heard;
        known = true;
        await renew();
        notice('offline', '');
        if (sales.some((sale) => stateOf(sale) === 'open')) pause = BUSY_MS;
    } catch {
        known = false;
        notice('offline', t('offline'));
        pause = BUSY_MS;
    }
    draw();
    clearTimeout(timer);
    timer = setTimeout(refresh, jitter(pause));
}

function tick() {
    draw();
    setTimeout(tick, 1000 - (clock.now() % 1000) + 5);
}

const asked = startShell();
made = shape(data.sales);
decorate();
onReturn(refresh);
await Promise.all([asked, refresh()]);
tick();
performance.mark('sluice-ready');
