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
import { balance, layers, rates } from '/assets/console/facts.js';
import { verdictStrip } from '/assets/console/verdict.js';
import { t, clockTime, compact, dateTime, duration, micros, number, problemText } from '/assets/console/words.js';

// A build without npm has no charts; the figures are all there.
const uPlot = await import('/assets/uplot.js').then((module) => module.default, () => null);

const KEEP_S = 300;         // how far back the chart shows
const OLD_AFTER_MS = 3500;  // three messages did not come

const TIME_STEPS = [1, 2, 5, 10, 15, 20, 30, 60, 90, 120, 180, 300];
const WHOLE_STEPS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((n) => [n, 2 * n, 5 * n]);

// What one looks for first is large; the rest is beside it. `front`: counted by the server that answers, alone; `recent`:
// of the last seconds, and it says how many.
const FIGURES = [
    { key: 'wonPerS', of: (now) => now.rate.accepted, big: true, front: true },
    { key: 'refusedPerS', of: (now) => now.rate.refused, big: true, front: true },
    { key: 'buyP99', of: (now) => (now.recent?.buy_answer?.count ? now.recent.buy_answer.p99_us : null), write: micros, big: true, front: true, recent: true },
    { key: 'requestsPerS', of: (now) => now.rate.requests, front: true },
    { key: 'toBook', of: (now) => (now.engine === 'distributed' ? undefined : now.backlog) },
    { key: 'outboxDepth', of: (now) => now.outbox?.depth },
    { key: 'outboxLag', of: (now) => now.outbox?.lag_ms || undefined, write: duration },
    { key: 'queueDepth', of: (now) => (now.queue && 'ready' in now.queue ? now.queue.ready + now.queue.retry : undefined) },
    { key: 'inLine', of: (now) => now.spool?.in_line || undefined, front: true },
    { key: 'connections', of: (now) => now.connections, front: true },
];

const LATENCIES = [['buy_answer', 'buyAnswered'], ['buy_booked', 'buyBooked'], ['journal_sync', 'journalSync'], ['ledger_commit', 'ledgerCommit']];
const WON = ['accepted', 'locked', 'paid'];
const LOST = ['expired', 'cancelled', 'failed'];

// Shown where several servers answer, and one of them counts only what it was asked itself.
const overLast = () => el('span', { class: 'help over-last' });
const ofFront = () => el('span', { class: 'of-front', hidden: true }, t('ofThisFront'));

// ---------------------------------------------------------------- drawing

function figure({ key, big, front, recent }) {
    const value = el('dd', { class: 'figure-value' }, '—');
    const node = el('div', { class: big ? 'figure figure-big' : 'figure' }, el('dt', {}, t(key), ' ', recent ? overLast() : '', ' ', front ? ofFront() : ''), value);
    return { node, value, big };
}

function stockRow(item) {
    const bar = el('div', { class: 'bar', role: 'img' },
        el('span', { class: 'bar-sold' }), el('span', { class: 'bar-locked' }), el('span', { class: 'bar-available' }));
    const left = el('strong', { class: 'stock-left' });
    const rest = el('span', { class: 'stock-rest' });
    const chip = el('span', { class: 'chip' });
    const node = el('li', { class: 'stock' },
        el('div', { class: 'stock-head' }, el('a', { class: 'stock-name', href: `#/sales/${item.sale_id}` }, item.name), chip),
        bar, el('p', { class: 'stock-numbers' }, left, ' ', rest));
    return {
        node,
        draw(now) {
            const parts = [now.sold, now.locked, now.available];
            [...bar.children].forEach((part, i) => part.style.setProperty('flex-grow', String(parts[i])));
            setAttr(bar, 'aria-label', t('stockOf', { ...now, name: item.name }));
            const gone = now.state === 'sold_out';
            const waiting = gone ? now.locked > 0 && t('mayReturn', { n: number(now.locked) }) : `${t('available')} · ${number(now.locked)} ${t('locked')}`;
            setText(left, gone ? t('soldOut') : number(now.available));
            setText(rest, [waiting, `${number(now.sold)} ${t('sold')}`, t('ofTotal', { total: number(now.total) })].filter(Boolean)
                .map((part, i) => (i || gone ? `· ${part}` : part)).join(' '));
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

// The list of requests, which adds up and says so; and that of orders, where this server counts them.
function flowPanel() {
    const requests = el('ol', { class: 'flows' });
    const sum = el('p', { class: 'help flow-sum' });
    const orders = el('ol', { class: 'flows' });
    const ordersTitle = el('h3', {}, t('flowOrders'));
    const since = el('span', { class: 'help' });
    return {
        node: el('section', { class: 'panel' }, el('h2', {}, t('funnelTitle'), ' ', since, ' ', ofFront()),
            el('h3', {}, t('flowRequests')), requests, sum, ordersTitle, orders),
        draw(message) {
            const { total, parts } = balance(message);
            setText(since, t('funnelSince', { time: dateTime(message.funnel.since_ms) }));
            funnelList(requests, [
                [t('f_requests'), total],
                ...layers(message.rejects).map(({ key, code, n }) => [key ? t(key) : code, n, 'flow-away']),
                ...parts.filter(({ key, n }) => key !== 'refused' && n > 0).map(({ key, n }) => [t(`f_${key}`), n, FLOW_KINDS[key]]),
            ]);
            setText(sum, `${number(total)} = ${parts.filter(({ n }) => n > 0).map(({ key, n }) => `${number(n)} ${t(`f_${key}`)}`).join(' + ')}`);
            sum.hidden = total === 0;
            const counted = message.funnel.locked !== undefined;
            ordersTitle.hidden = orders.hidden = !counted;
            funnelList(orders, !counted ? [] : [
                ...WON.map((key) => [t(`f_${key}`), message.funnel[key], 'flow-won']),
                ...LOST.map((key) => [t(`f_${key}`), message.funnel[key], 'flow-away']),
            ].filter(([, n], i) => n > 0 || i === 0));
        },
    };
}

const FLOW_KINDS = { accepted: 'flow-won', rest: 'flow-rest' };
const LINES = [['requestsPerS', '--soft', 'key-requests'], ['wonPerS', '--accent', 'key-won'], ['refusedPerS', '--orange', 'key-refused', [6, 4]]];

const chartKeys = () => el('p', { class: 'keys' }, ...LINES.map(([key, , name]) => el('span', {}, el('span', { class: `key ${name}` }), t(key))));

function chartOf(box) {
    if (!uPlot) {
        box.parentElement.hidden = true;
        return { chart: { setData() {} }, stop() {} };
    }
    const style = getComputedStyle(document.body);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line'), width: 1 } };
    const size = () => ({ width: Math.max(280, box.clientWidth), height: 220 });
    const chart = new uPlot({
        ...size(),
        padding: [null, 36, null, null],    // half of the last moment's label
        series: [{}, ...LINES.map(([key, name, , dash]) => ({ label: t(key), stroke: color(name), width: 2, dash, points: { show: false } }))],
        axes: [
            { ...axis, incrs: TIME_STEPS, space: () => Math.max(90, box.clientWidth / 5), values: (_, ticks) => ticks.map((s) => clockTime(s * 1000)) },
            { ...axis, size: 64, incrs: WHOLE_STEPS, values: (_, ticks) => ticks.map(compact) },
        ],
        scales: { y: { range: (_, min, max) => [0, Math.max(10, (max ?? 0) * 1.1)] } },
        legend: { show: false },            // drawn beside it, as the lines are
        cursor: { drag: { x: false, y: false } },
    }, [[], [], [], []], box);
    const resize = () => chart.setSize(size());
    window.addEventListener('resize', resize);
    return { chart, stop() { window.removeEventListener('resize', resize); chart.destroy(); } };
}

export async function liveScreen({ main, console: desk, isHere }) {
    const figures = FIGURES.map(figure);
    const verdict = verdictStrip(desk);
    const stocks = el('ul', { class: 'stocks' });
    const noItems = el('p', { class: 'help', hidden: true }, t('noItems'));
    const flow = flowPanel();
    const engine = enginePanels();
    const latency = el('tbody', {});
    const box = el('div', { class: 'chart', 'aria-hidden': 'true' });
    const tiles = (big) => figures.filter((one) => Boolean(one.big) === big).map((one) => one.node);
    main.replaceChildren(
        el('h1', { class: 'sr' }, t('live')), verdict.node,
        el('dl', { class: 'figures figures-big' }, ...tiles(true)),
        el('dl', { class: 'figures figures-small' }, ...tiles(false)),
        el('div', { class: 'columns' },
            el('div', { class: 'stack' },
                el('section', { class: 'panel' }, el('h2', {}, t('stockTitle')), noItems, stocks), ...engine.left),
            el('div', { class: 'stack' },
                el('section', { class: 'panel' }, el('h2', {}, t('ratesTitle'), ' ', ofFront()), box, chartKeys()),
                flow.node,
                el('section', { class: 'panel' }, el('h2', {}, t('latencyTitle'), ' ', overLast(), ' ', ofFront()),
                    el('table', { class: 'numbers' },
                        el('thead', {}, el('tr', {}, el('td', {}), ...['p50', 'p99', 'p999', 'sinceStart'].map((key) => el('th', { scope: 'col', class: key === 'sinceStart' ? 'since' : null }, t(key))))),
                        latency)),
                ...engine.right)));
    const fronts = main.querySelectorAll('.of-front');
    const lasts = main.querySelectorAll('.over-last');
    const { chart, stop: stopChart } = chartOf(box);

    const rows = new Map();         // item id -> its row
    const latencyRows = new Map();
    const points = [[], [], [], []];
    let before = null;
    let heardAt = performance.now();
    let complained = false;         // in the notice, until the feed is back

    function draw(message) {
        const now = { ...message, rate: rates(before, message) };
        FIGURES.forEach(({ of, write = compact }, i) => {
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
        fronts.forEach((note) => { note.hidden = message.engine !== 'distributed'; });
        const seconds = Math.round((message.recent?.window_ms ?? 0) / 1000);
        lasts.forEach((note) => setText(note, seconds ? t('latencyOf', { n: seconds }) : ''));
        flow.draw(message);
        engine.draw(message);
        keepOrder(latency, LATENCIES
            .filter(([key]) => message.latencies?.[key]?.count > 0 || (key === 'buy_answer' && message.latencies?.[key]))
            .map(([key, label]) => {
                if (!latencyRows.has(key)) latencyRows.set(key, el('tr', {}, el('th', { scope: 'row' }, t(label)), ...['', '', '', 'since'].map((name) => el('td', { class: name || null }))));
                const row = latencyRows.get(key);
                const [last, all] = [message.recent?.[key], message.latencies[key]];
                [last?.p50_us, last?.p99_us, last?.p999_us].forEach((us, k) => setText(row.children[k + 1], last?.count ? micros(us) : '—'));
                setText(row.children[4], all.count ? micros(all.p99_us) : '—');
                return row;
            }));
        [message.now_ms / 1000, now.rate.requests, now.rate.accepted, now.rate.refused].forEach((value, i) => points[i].push(value));
        while (points[0].length > 1 && points[0][0] < message.now_ms / 1000 - KEEP_S) points.forEach((list) => list.shift());
        chart.setData(points);
        verdict.hear(message);
        desk.engineSeen(message);
        before = message;
    }

    function judge() {
        const silent = performance.now() - heardAt;
        verdict.draw(silent > OLD_AFTER_MS ? silent : 0);
    }

    const guard = new AbortController();
    const timer = setInterval(judge, 500);
    (async () => {
        for (let pause = 500; isHere(); pause = Math.min(pause * 2, 8000)) {
            try {
                await readEvents('/v1/admin/live', {
                    token: desk.token,
                    signal: guard.signal,
                    onEvent: ({ event, data }) => {
                        if (event !== 'live') return;
                        heardAt = performance.now();
                        if (complained) desk.notice('');
                        complained = false;
                        pause = 500;
                        draw(JSON.parse(data));
                        judge();
                    },
                });
            } catch (refusal) {
                // The token may have been changed while we watched: the next call that asks will say so.
                if (refusal.status === 401 || refusal.status === 403) await desk.call('GET', '/v1/admin/sales?limit=1').catch(() => {});
                else if (refusal.status && isHere()) {
                    desk.notice(problemText(refusal));
                    complained = true;
                }
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
