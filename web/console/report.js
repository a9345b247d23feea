/*
 * What happened in a sale: GET /v1/admin/sales/{sale}/report, as figures and bars. Orders and units are of the ledger and
 * last; refusals and latencies are of this server since its start, and say so.
 */

import { el } from '/assets/tools.js';
import { t, dateTime, micros, money, number, wholeMoney } from '/assets/console/words.js';

const figure = (label, value) => el('div', { class: 'figure' }, el('dt', {}, label), el('dd', { class: 'figure-value' }, value));

function itemPanel(item, name, currency) {
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
        [t('r_through'), `${(item.sell_through_permille / 10).toFixed(1)} %`],
        [t('r_units'), `${number(taken)} / ${number(item.total)}`],
        [t('r_buyers'), number(item.buyers)],
        [t('r_paid'), money(item.paid_cents, currency)],
        [t('r_unpaid'), number(item.timeouts)],
        [t('r_peak'), number(item.peak_orders_per_s)],
        [t('r_first'), dateTime(item.first_order_ms)],
        [t('r_last'), dateTime(item.last_order_ms)],
    ];
    return el('section', { class: 'panel' }, el('h2', {}, name), bar,
        el('dl', { class: 'facts' }, ...facts.flatMap(([label, value]) => [el('dt', {}, label), el('dd', {}, value)])));
}

export async function reportScreen({ main, console: desk }, id) {
    const [sale, report] = await Promise.all([
        desk.call('GET', `/v1/admin/sales/${id}`), desk.call('GET', `/v1/admin/sales/${id}/report`),
    ]);
    const names = new Map(sale.items.map((item) => [item.id, item.name]));
    const rejects = Object.entries(report.rejects).sort((a, b) => b[1] - a[1]);
    const { buy_answer: answered } = report.latencies;
    const file = URL.createObjectURL(new Blob([JSON.stringify(report, null, 2)], { type: 'application/json' }));
    main.replaceChildren(
        el('p', { class: 'crumbs' }, el('a', { href: `#/sales/${id}` }, sale.name)),
        el('h1', {}, t('reportOf', { name: sale.name })),
        el('dl', { class: 'figures' },
            figure(t('r_orders'), number(report.orders)),
            figure(t('r_paid'), wholeMoney(report.paid_cents, sale.currency)),
            figure(t('r_unpaid'), number(report.timeouts)),
            figure(t('r_peak'), number(report.peak_orders_per_s)),
            figure(t('buyP99'), answered.count ? micros(answered.p99_us) : '—')),
        el('div', { class: 'columns' }, ...report.items.map((item) => itemPanel(item, names.get(item.item_id) ?? '', sale.currency))),
        el('section', { class: 'panel' }, el('h2', {}, t('r_rejects')),
            rejects.length ? el('table', { class: 'list' }, el('tbody', {}, ...rejects.map(([code, n]) => el('tr', {},
                el('th', { scope: 'row' }, el('code', {}, code)), el('td', { class: 'right' }, number(n)))))) : el('p', { class: 'help' }, t('awayNone'))),
        el('p', {}, el('a', { href: file, download: `sale-${id}-report.json` }, t('asJson'))));
    return () => URL.revokeObjectURL(file);
}
