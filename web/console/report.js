/*
 * What happened in a sale: GET /v1/admin/sales/{sale}/report, as figures, charts and tables. Orders, units, winners and
 * money are the ledger's; requests, refusals and times to answer are what this server counted of this sale, and the
 * screen says since when. The same as one page, or as JSON, to keep.
 */

import { Refusal } from '/assets/net.js';
import { el } from '/assets/tools.js';
import { t, clockTime, dateTime, duration, micros, money, number, problemText, rangeText, reasonText, LANG, ZONE } from '/assets/console/words.js';
import { layers } from '/assets/console/facts.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 720;
const HEIGHT = 220;
const LEFT = 64;
const TOP = 10;
const BOTTOM = 28;

const permille = (n) => `${(n / 10).toFixed(1)} %`;
const LONG = 10;        // characters that need two tiles' room
const figure = (label, value) => el('div', { class: value.length > LONG ? 'figure figure-long' : 'figure' }, el('dt', {}, label), el('dd', { class: 'figure-value' }, value));
const panel = (title, ...children) => el('section', { class: 'panel' }, el('h2', {}, title), ...children);

function svg(tag, attributes, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
}

function niceTop(most) {
    const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
    const step = power >= 4 ? power / 2 : 1;
    return Math.max(1, Math.ceil(most / step) * step);
}

// Units taken (less what came back) and units paid, as they stood at the end of each step.
function courseChart(course, label) {
    let [taken, paid] = [0, 0];
    const rows = course.steps.map((step) => {
        taken += step.taken - step.returned;
        paid += step.paid;
        return { taken: Math.max(0, taken), paid };
    });
    const top = niceTop(Math.max(...rows.map((row) => Math.max(row.taken, row.paid))));
    const x = (i) => LEFT + ((WIDTH - LEFT - 8) * i) / rows.length;
    const y = (n) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - n / top);
    const line = (key, name) => svg('path', { class: name, d: `M${x(0)} ${y(0)}${rows.map((row, i) => `H${x(i)}V${y(row[key])}`).join('')}H${x(rows.length)}` });
    const days = course.step_ms * rows.length > 2 * 86400000;
    return el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': label }, svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'course', role: 'img', 'aria-label': `${label}: ${number(taken)} ${t('r_units')}, ${number(paid)} ${t('r_unitsPaid')}` },
        ...[0, 0.5, 1].flatMap((share) => [
            svg('line', { class: 'course-axis', x1: LEFT, x2: WIDTH - 8, y1: y(top * share), y2: y(top * share) }),
            svg('text', { x: LEFT - 8, y: y(top * share) + 4, 'text-anchor': 'end' }, number(top * share))]),
        ...[0, 1, 2, 3, 4].map((i) => svg('text', { x: x((rows.length * i) / 4), y: HEIGHT - 8, 'text-anchor': ['start', 'middle', 'middle', 'middle', 'end'][i] },
            (days ? dateTime : clockTime)(course.from_ms + (course.step_ms * rows.length * i) / 4))),
        line('taken', 'course-taken'), line('paid', 'course-paid')),
    el('p', { class: 'help' }, el('span', { class: 'key key-taken' }), t('r_units'), ' ', el('span', { class: 'key key-paid' }), t('r_unitsPaid'), ` · ${t('r_step', { length: duration(course.step_ms) })}`));
}

function flows(rows) {
    const most = Math.max(1, ...rows.map(({ n }) => n));
    return el('ol', { class: 'flows' }, ...rows.map(({ label, n, kind }) => {
        const bar = el('span', {});
        bar.style.setProperty('width', `${(100 * n) / most}%`);
        return el('li', { class: `flow ${kind ?? ''}` }, el('span', { class: 'flow-label' }, label), el('span', { class: 'flow-bar' }, bar), el('span', { class: 'flow-number' }, number(n)));
    }));
}

function itemPanel(item, currency) {
    const parts = ['PAID', 'LOCKED', 'QUEUED'].map((status) => [status, item.units[status]]).filter(([, n]) => n > 0);
    const taken = parts.reduce((sum, [, n]) => sum + n, 0);
    const bar = el('div', { class: 'bar', role: 'img', 'aria-label': `${number(taken)} / ${number(item.total)}` },
        ...parts.map(([status, n]) => {
            const part = el('span', { class: status === 'PAID' ? 'bar-sold-report' : 'bar-locked' });
            part.style.setProperty('flex-grow', String(n));
            return part;
        }));
    const rest = el('span', { class: 'bar-rest' });
    rest.style.setProperty('flex-grow', String(Math.max(0, item.total - taken)));
    bar.append(rest);
    const facts = [
        [t('r_through'), permille(item.sell_through_permille)],
        [t('r_units'), `${number(taken)} / ${number(item.total)}`],
        [t('r_buyers'), number(item.buyers)],
        [t('r_paid'), money(item.paid_cents, currency)],
        [t('r_unpaid'), number(item.timeouts)],
        [t('r_peak'), number(item.peak_orders_per_s)],
        [t('r_first'), dateTime(item.first_order_ms)],
        [t('r_last'), dateTime(item.last_order_ms)],
    ];
    return panel(item.name, bar,
        el('dl', { class: 'facts' }, ...facts.flatMap(([label, value]) => [el('dt', {}, label), el('dd', {}, value)])));
}

function comparedPanel(report) {
    const { previous } = report;
    if (!previous) return '';
    const rows = [
        ['r_through', (one) => permille(one.sell_through_permille)],
        ['r_paid', (one) => money(one.paid_cents, one.currency)],
        ['r_orders', (one) => number(one.orders)],
        ['r_withOrders', (one) => number(one.buyers_with_orders)],
        ['r_winners', (one) => number(one.winners)],
        ['r_unpaidShare', (one) => permille(one.unpaid_permille)],
        ['r_peak', (one) => number(one.peak_orders_per_s)],
    ];
    return panel(t('r_compared'), el('table', { class: 'numbers' },
        el('thead', {}, el('tr', {}, el('td', {}), el('th', { scope: 'col' }, t('r_this')), el('th', { scope: 'col' }, el('a', { href: `#/sales/${previous.sale_id}/report` }, previous.name)))),
        el('tbody', {}, ...rows.map(([key, of]) => el('tr', {}, el('th', { scope: 'row' }, t(key)), el('td', {}, of(report)), el('td', {}, of(previous)))))));
}

function faultsPanel(report) {
    return panel(t('r_faults'),
        report.faults.length === 0 ? el('p', { class: 'help' }, t('r_noFaults')) : el('ul', { class: 'faults', tabindex: '0', 'aria-label': t('r_faults') },
            ...report.faults.map((fault) => el('li', { class: `fault-${fault.level}` }, el('span', { class: 'help' }, dateTime(fault.at_ms)), ' ', el('strong', {}, fault.event), ' ', el('span', { class: 'help' }, fault.text)))),
        report.faults_since_ms ? el('p', { class: 'help' }, t('r_faultsSince', { time: dateTime(report.faults_since_ms) })) : '');
}

function figures(report, ofMany) {
    const { funnel, latencies } = report;
    const front = ofMany ? ` · ${t('ofThisFront')}` : '';
    const list = [
        figure(t('r_through'), permille(report.sell_through_permille)),
        figure(t('r_paid'), money(report.paid_cents, report.currency)),
        figure(t('r_orders'), number(report.orders)),
        funnel.since_ms ? figure(`${t('r_asking')}${front}`, `≈ ${number(funnel.buyers_asking)}`) : '',
        figure(t('r_winners'), number(report.winners)),
        figure(t('r_unpaidShare'), permille(report.unpaid_permille)),
        figure(t('r_peak'), number(report.peak_orders_per_s)),
        funnel.peak_requests_per_s ? figure(`${t('r_peakAsked')}${front}`, number(funnel.peak_requests_per_s)) : '',
        latencies.buy_answer.count ? figure(`${t('buyP99')}${front}`, micros(latencies.buy_answer.p99_us)) : '',
        report.booking_ms.count ? figure(t('r_booked'), micros(report.booking_ms.p99 * 1000)) : '',
    ];
    return el('dl', { class: 'figures figures-report' }, ...list);
}

function funnelPanel(report, ofMany) {
    const { funnel } = report;
    const counted = funnel.since_ms ? [
        { label: t('r_asked'), n: funnel.requests },
        ...layers(report.rejects).map(({ key, code, n }) => ({ label: key ? t(key) : code, n, kind: 'flow-away' })),
        { label: t('f_tickets'), n: funnel.tickets },
        ...(funnel.repeated > 0 ? [{ label: t('f_repeated'), n: funnel.repeated }] : []),
        { label: t('f_accepted'), n: funnel.accepted, kind: 'flow-won' },
    ] : [];
    return panel(t('r_funnel'), flows([...counted,
        { label: t('f_locked'), n: funnel.locked, kind: 'flow-won' },
        { label: t('f_paid'), n: funnel.paid, kind: 'flow-won' },
        ...['expired', 'cancelled', 'failed'].filter((key) => funnel[key] > 0).map((key) => ({ label: t(`f_${key}`), n: funnel[key], kind: 'flow-away' })),
    ]), el('p', { class: 'help' }, !funnel.since_ms ? t('r_notCounted') : `${t('r_counted', { time: dateTime(funnel.since_ms) })} ${funnel.from_the_start ? '' : t('r_notAll')} ${ofMany ? t('r_ofFront') : ''}`));
}

// The layers above put several reasons together; here each stands for itself, the most frequent first.
function reasonsPanel(report) {
    if (!report.funnel.since_ms) return '';
    const rows = Object.entries(report.rejects).sort(([, a], [, b]) => b - a);
    return panel(t('r_reasons'), rows.length === 0 ? el('p', { class: 'help' }, t('r_noFaults'))
        : flows(rows.map(([code, n]) => ({ label: reasonText(code), n, kind: 'flow-away' }))));
}

export async function reportScreen({ main, console: desk }, id) {
    const [report, ofMany] = await Promise.all([desk.call('GET', `/v1/admin/sales/${id}/report`), desk.isOneOfMany()]);
    const file = URL.createObjectURL(new Blob([JSON.stringify(report, null, 2)], { type: 'application/json' }));
    const page = el('button', { type: 'button' }, t('asPage'));
    let made = null;
    page.addEventListener('click', async () => {
        page.disabled = true;
        try {
            const html = await desk.text(`/v1/admin/sales/${id}/report?format=html&lang=${LANG}`);
            if (made) URL.revokeObjectURL(made);
            made = URL.createObjectURL(new Blob([html], { type: 'text/html' }));
            el('a', { href: made, download: `sale-${id}-report.html` }).click();
            desk.announce(t('pageMade'));
        } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            desk.notice(problemText(error));
        }
        page.disabled = false;
    });
    main.replaceChildren(
        el('p', { class: 'crumbs' }, el('a', { href: `#/sales/${id}` }, report.name)),
        el('div', { class: 'head-row' }, el('h1', {}, t('reportOf', { name: report.name })),
            el('div', { class: 'acts' }, page, el('a', { class: 'button plain', href: file, download: `sale-${id}-report.json` }, t('asJson')))),
        el('p', { class: 'help' }, `${rangeText(report.starts_at_ms, report.ends_at_ms)} ${ZONE} · ${t(`st_${report.state}`)}`),
        figures(report, ofMany),
        el('div', { class: 'columns' },
            el('div', { class: 'stack' },
                panel(t('r_rush'), courseChart(report.course.rush, t('r_rush'))),
                panel(t('r_whole'), courseChart(report.course.whole, t('r_whole'))),
                ...report.items.map((item) => itemPanel(item, report.currency))),
            el('div', { class: 'stack' }, funnelPanel(report, ofMany), reasonsPanel(report), comparedPanel(report), faultsPanel(report))));
    return () => {
        URL.revokeObjectURL(file);
        if (made) URL.revokeObjectURL(made);
    };
}
