/*
 * The live screen: the feed of GET /v1/admin/live, once a second, readable at three metres.
 *
 * Counters only grow; rates are differences between two messages by the server's clock, so a late message does
 * not look like a fall. After a restart of the server counters begin again: a difference below zero is no rate.
 * What can go wrong: the feed ends or says nothing. The screen then says how old its figures are, and asks again.
 * What stays true: no figure is shown that the server did not send; what an engine does not have is absent.
 */

import { readEvents } from '/assets/net.js';
import { el, jitter, keepOrder, setAttr, setText, sleep } from '/assets/tools.js';
import { enginePanels } from '/assets/console/engine.js';
import { LOCALE, t, compact, dateTime, duration, micros, number, problemText } from '/assets/console/words.js';

// A build without npm has no charts; the figures are all there.
const uPlot = await import('/assets/uplot.js').then((module) => module.default, () => null);

const KEEP_S = 300;         // how far back the chart shows
const OLD_AFTER_MS = 3500;  // three messages did not come

const clockText = new Intl.DateTimeFormat(LOCALE, { timeStyle: 'medium' });

const FIGURES = [
    ['requestsPerS', (now) => now.rate.requests],
    ['wonPerS', (now) => now.rate.accepted],
    ['refusedPerS', (now) => now.rate.refused],
    ['toBook', (now) => (now.engine === 'distributed' ? undefined : now.backlog)],
    ['outboxDepth', (now) => now.outbox?.depth],
    ['outboxLag', (now) => now.outbox?.lag_ms || undefined, duration],
    ['queueDepth', (now) => now.queue && now.queue.ready + now.queue.retry],
    ['inLine', (now) => now.spool?.in_line || undefined],
    ['buyP99', (now) => (now.latencies?.buy_answer?.count === 0 ? null : now.latencies?.buy_answer?.p99_us), micros],
    ['connections', (now) => now.connections],
];

// The layers that turn requests away, in the order in which the server asks them; the rest is told by its code.
const LAYERS = [
    ['l_framing', ['bad_request', 'too_large', 'bad_media_type', 'method_not_allowed', 'not_found', 'no_such_item', 'timeout']],
    ['l_load', ['overloaded', 'degraded', 'draining']],
    ['l_rate', ['rate_limited']],
    ['l_token', ['unauthenticated', 'forbidden', 'bad_signature']],
    ['l_ticket', ['bad_ticket', 'challenge_failed', 'different_request']],
    ['l_block', ['blocked']],
    ['l_window', ['too_early', 'not_open', 'ended']],
    ['l_stock', ['sold_out']],
    ['l_limit', ['limit_reached', 'barred']],
];
const LATENCIES = [['buy_answer', 'buyAnswered'], ['buy_booked', 'buyBooked'], ['journal_sync', 'journalSync'], ['ledger_commit', 'ledgerCommit']];
const WON = ['accepted', 'locked', 'paid'];
const LOST = ['expired', 'cancelled', 'failed'];

// What each layer turned away; a code that no layer has is one by itself.
export function layers(rejects) {
    const left = new Map(Object.entries(rejects ?? {}));
    const rows = LAYERS.map(([key, codes]) => {
        const n = codes.reduce((sum, code) => sum + (left.get(code) ?? 0), 0);
        codes.forEach((code) => left.delete(code));
        return { key, n };
    });
    rows.push(...[...left].map(([code, n]) => ({ code, n })));
    return rows.filter((row) => row.n > 0);
}

const refusedOf = (message) => Object.values(message.rejects ?? {}).reduce((sum, n) => sum + n, 0);

// What two messages that follow each other say about a second between them.
export function rates(before, message) {
    const seconds = before ? (message.now_ms - before.now_ms) / 1000 : 0;
    const per = (then, now) => (seconds > 0 && now >= then ? (now - then) / seconds : null);
    if (!before) return { requests: null, accepted: null, refused: null };
    return {
        requests: per(before.funnel.requests, message.funnel.requests),
        accepted: per(before.funnel.accepted, message.funnel.accepted),
        refused: per(refusedOf(before), refusedOf(message)),
    };
}

// ---------------------------------------------------------------- drawing

function figure(key) {
    const value = el('dd', { class: 'figure-value' }, '—');
    return { node: el('div', { class: 'figure' }, el('dt', {}, t(key)), value), value };
}

function stockRow(item) {
    const bar = el('div', { class: 'bar', role: 'img' },
        el('span', { class: 'bar-sold' }), el('span', { class: 'bar-locked' }), el('span', { class: 'bar-available' }));
    const left = el('strong', { class: 'stock-left' });
    const rest = el('span', { class: 'stock-rest' });
    const chip = el('span', { class: 'chip' });
    const node = el('li', { class: 'stock' },
        el('div', { class: 'stock-head' }, el('a', { class: 'stock-name', href: `#/sales/${item.sale_id}` }, item.name), chip),
        bar, el('p', { class: 'stock-numbers' }, left, ' ', t('available'), ' · ', rest));
    return {
        node,
        draw(now) {
            const parts = [now.sold, now.locked, now.available];
            [...bar.children].forEach((part, i) => part.style.setProperty('flex-grow', String(parts[i])));
            setAttr(bar, 'aria-label', t('stockOf', { ...now, name: item.name }));
            setText(left, number(now.available));
            setText(rest, `${number(now.locked)} ${t('locked')} · ${number(now.sold)} ${t('sold')} · ${t('ofTotal', { total: number(now.total) })}`);
            setText(chip, t(`is_${now.state}`));
            setAttr(chip, 'class', `chip chip-${now.state}`);
        },
    };
}

function funnelList(node, rows) {
    const most = Math.max(1, ...rows.map(([, n]) => n));
    keepOrder(node, rows.map(([label, n, kind = ''], i) => {
        const row = node.children[i] ?? el('li', {},
            el('span', { class: 'flow-label' }), el('span', { class: 'flow-bar' }, el('span', {})), el('span', { class: 'flow-number' }));
        setAttr(row, 'class', `flow ${kind}`);
        setText(row.children[0], label);
        row.children[1].firstChild.style.setProperty('width', `${(100 * n) / most}%`);
        setText(row.children[2], number(n));
        return row;
    }));
}

function chartOf(box) {
    if (!uPlot) {
        box.parentElement.hidden = true;
        return { chart: { setData() {} }, stop() {} };
    }
    const style = getComputedStyle(document.body);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line'), width: 1 } };
    const line = (key, name, dash) => ({ label: t(key), stroke: color(name), width: 2, dash, points: { show: false } });
    const size = () => ({ width: Math.max(280, box.clientWidth), height: 220 });
    const chart = new uPlot({
        ...size(),
        padding: [null, 36, null, null],    // half of the last moment's label
        series: [{}, line('requestsPerS', '--soft'), line('wonPerS', '--accent'), line('refusedPerS', '--orange', [6, 4])],
        axes: [{ ...axis, values: (_, ticks) => ticks.map((s) => clockText.format(s * 1000)) }, { ...axis, size: 64, values: (_, ticks) => ticks.map(compact) }],
        scales: { y: { range: (_, min, max) => [0, Math.max(10, (max ?? 0) * 1.1)] } },
        legend: { live: false },
        cursor: { drag: { x: false, y: false } },
    }, [[], [], [], []], box);
    const resize = () => chart.setSize(size());
    window.addEventListener('resize', resize);
    return { chart, stop() { window.removeEventListener('resize', resize); chart.destroy(); } };
}

export async function liveScreen({ main, console: desk, isHere }) {
    const figures = FIGURES.map(([key]) => figure(key));
    const alarm = el('p', { class: 'alarm', role: 'alert', hidden: true });
    const stocks = el('ul', { class: 'stocks' });
    const noItems = el('p', { class: 'help', hidden: true }, t('noItems'));
    const funnel = el('ol', { class: 'flows' });
    const engine = enginePanels();
    const since = el('span', { class: 'help' });
    const latency = el('tbody', {});
    const box = el('div', { class: 'chart', 'aria-hidden': 'true' });
    main.replaceChildren(
        el('h1', { class: 'sr' }, t('live')), alarm,
        el('dl', { class: 'figures' }, ...figures.map((one) => one.node)),
        el('div', { class: 'columns' },
            el('div', { class: 'stack' },
                el('section', { class: 'panel' }, el('h2', {}, t('stockTitle')), noItems, stocks), ...engine.left),
            el('div', { class: 'stack' },
                el('section', { class: 'panel' }, el('h2', {}, t('ratesTitle')), box),
                el('section', { class: 'panel' }, el('h2', {}, t('funnelTitle'), ' ', since), funnel),
                el('section', { class: 'panel' }, el('h2', {}, t('latencyTitle'), ' ', el('span', { class: 'help' }, t('latencyOf'))),
                    el('table', { class: 'numbers' },
                        el('thead', {}, el('tr', {}, el('td', {}), ...['p50', 'p99', 'p999'].map((key) => el('th', { scope: 'col' }, t(key))))),
                        latency)),
                ...engine.right)));
    const { chart, stop: stopChart } = chartOf(box);

    const rows = new Map();         // item id -> its row
    const latencyRows = new Map();
    const points = [[], [], [], []];
    let before = null;
    let heardAt = performance.now();
    let latched = false;
    let trouble = '';

    function draw(message) {
        const now = { ...message, rate: rates(before, message) };
        FIGURES.forEach(([, of, write = compact], i) => {
            const value = of(now);
            figures[i].node.hidden = value === undefined;
            setText(figures[i].value, value === null || value === undefined ? '—' : write(value));
        });
        keepOrder(stocks, message.items.map((item) => {
            if (!rows.has(item.id)) rows.set(item.id, stockRow(item));
            rows.get(item.id).draw(item);
            return rows.get(item.id).node;
        }));
        noItems.hidden = message.items.length > 0;
        setText(since, t('funnelSince', { time: dateTime(message.funnel.since_ms) }));
        funnelList(funnel, [
            [t('f_requests'), message.funnel.requests],
            ...layers(message.rejects).map(({ key, code, n }) => [key ? t(key) : code, n, 'flow-away']),
            ...['tickets', 'repeated'].map((key) => [t(`f_${key}`), message.funnel[key]]),
            ...WON.map((key) => [t(`f_${key}`), message.funnel[key], 'flow-won']),
            ...LOST.map((key) => [t(`f_${key}`), message.funnel[key], 'flow-away']),
        ].filter(([, n], i) => n !== undefined && (n > 0 || i === 0)));
        engine.draw(message);
        keepOrder(latency, LATENCIES
            .filter(([key]) => message.latencies?.[key]?.count > 0 || (key === 'buy_answer' && message.latencies?.[key]))
            .map(([key, label]) => {
                if (!latencyRows.has(key)) latencyRows.set(key, el('tr', {}, el('th', { scope: 'row' }, t(label)), el('td', {}), el('td', {}), el('td', {})));
                const row = latencyRows.get(key);
                const { count, p50_us: p50, p99_us: p99, p999_us: p999 } = message.latencies[key];
                [p50, p99, p999].forEach((us, k) => setText(row.children[k + 1], count ? micros(us) : '—'));
                return row;
            }));
        [message.now_ms / 1000, now.rate.requests, now.rate.accepted, now.rate.refused].forEach((value, i) => points[i].push(value));
        while (points[0].length > 1 && points[0][0] < message.now_ms / 1000 - KEEP_S) points.forEach((list) => list.shift());
        chart.setData(points);
        latched = message.journal_latched === 1;
        trouble = engine.trouble(message);
        desk.engineSeen(message);
        before = message;
    }

    function alarms() {
        const silent = performance.now() - heardAt;
        const text = latched ? t('latched') : silent > OLD_AFTER_MS ? t('feedLost', { n: Math.round(silent / 1000) }) : trouble;
        setText(alarm, text);
        alarm.hidden = !text;
    }

    const guard = new AbortController();
    const timer = setInterval(alarms, 500);
    (async () => {
        for (let pause = 500; isHere(); pause = Math.min(pause * 2, 8000)) {
            try {
                await readEvents('/v1/admin/live', {
                    token: desk.token,
                    signal: guard.signal,
                    onEvent: ({ event, data }) => {
                        if (event !== 'live') return;
                        heardAt = performance.now();
                        pause = 500;
                        draw(JSON.parse(data));
                        alarms();
                    },
                });
            } catch (refusal) {
                // The token may have been changed while we watched: the next call that asks will say so.
                if (refusal.status === 401 || refusal.status === 403) await desk.call('GET', '/v1/admin/sales?limit=1').catch(() => {});
                else if (refusal.status) desk.notice(problemText(refusal));
            }
            await sleep(jitter(pause));
        }
    })();
    return () => {
        guard.abort();
        clearInterval(timer);
        stopChart();
    };
}
