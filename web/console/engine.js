/*
 * The parts of the distributed engine on the live screen: segments, queues, leases. Each panel is there only while the
 * feed tells of it: an engine that has no such part shows none, and nothing is shown in grey.
 */

import { el, keepOrder, setAttr, setText } from '/assets/tools.js';
import { t, compact, duration, dateTime, number } from '/assets/console/words.js';

function segmentRow() {
    const bar = el('div', { class: 'bar bar-thin', role: 'img' },
        el('span', { class: 'bar-sold' }), el('span', { class: 'bar-locked' }), el('span', { class: 'bar-available' }));
    const [name, chip, stock, outbox, epoch, address] = ['strong', 'span', 'span', 'span', 'span', 'span'].map((tag) => el(tag, {}));
    const node = el('li', { class: 'segment' },
        el('div', { class: 'stock-head' }, name, chip), bar,
        el('p', { class: 'stock-numbers' }, stock, outbox), el('p', { class: 'help' }, epoch, ' ', address));
    return {
        node,
        draw(segment) {
            const known = 'available' in segment;
            setText(name, t('segment', { n: segment.id }));
            setText(chip, t(`sg_${segment.state}`));
            setAttr(chip, 'class', `chip segment-${segment.state}`);
            bar.hidden = stock.hidden = !known;
            if (known) {
                [segment.sold, segment.locked, segment.available].forEach((n, i) => bar.children[i].style.setProperty('flex-grow', String(n)));
                setText(stock, `${number(segment.available)} ${t('available')} · ${number(segment.locked)} ${t('locked')} · ${number(segment.sold)} ${t('sold')} · `);
                setAttr(bar, 'aria-label', stock.textContent.replace(/ · $/, ''));
            }
            // One that has never answered has none of these.
            const seen = 'epoch' in segment;
            outbox.hidden = epoch.hidden = !seen;
            if (seen) setText(outbox, t(segment.lag_ms ? 'segmentOutbox' : 'segmentEmpty', { n: number(segment.outbox), lag: duration(segment.lag_ms) }));
            if (seen) setText(epoch, t('epoch', { n: number(segment.epoch) }));
            setText(address, segment.address ?? '');
        },
    };
}

const QUEUES = [['queue', 'q_orders', '#/queue'], ['payments_queue', 'q_payments', '#/queue?queue=payments']];

// A cell is its text, or [text, the address it leads to].
function tableRows(body, rows) {
    keepOrder(body, rows.map((cells, i) => {
        const row = body.children[i] ?? el('tr', {}, el('th', { scope: 'row' }), ...cells.slice(1).map(() => el('td', {})));
        cells.forEach((cell, k) => {
            const [text, href] = Array.isArray(cell) ? cell : [cell];
            const box = row.children[k];
            if (!href) return setText(box, text);
            if (!box.firstElementChild) box.replaceChildren(el('a', {}));
            setAttr(box.firstElementChild, 'href', href);
            return setText(box.firstElementChild, text);
        });
        return row;
    }));
}

function tablePanel(title, heads) {
    const body = el('tbody', {});
    const node = el('section', { class: 'panel scroll', hidden: true }, el('h2', {}, t(title)),
        el('table', { class: 'numbers' }, el('thead', {}, el('tr', {}, ...heads.map((key) => (key ? el('th', { scope: 'col' }, t(key)) : el('td', {}))))), body));
    return { node, body };
}

export function enginePanels() {
    const list = el('ul', { class: 'stocks' });
    const segments = el('section', { class: 'panel', hidden: true }, el('h2', {}, t('segmentsTitle')), list);
    const queues = tablePanel('queuesTitle', ['', 'q_ready', 'q_retry', 'q_parked', 'q_consumers']);
    const leases = tablePanel('leasesTitle', ['', 'holder', 'token', 'until']);
    const rows = new Map();
    return {
        left: [segments],
        right: [queues.node, leases.node],
        draw(message) {
            segments.hidden = !message.segments;
            keepOrder(list, (message.segments ?? []).map((segment) => {
                if (!rows.has(segment.id)) rows.set(segment.id, segmentRow());
                rows.get(segment.id).draw(segment);
                return rows.get(segment.id).node;
            }));
            const there = QUEUES.filter(([key]) => message[key]);
            queues.node.hidden = there.length === 0;
            tableRows(queues.body, there.map(([key, label, href]) => [[t(label) + (message[key].away ? ` (${t('away')})` : ''), href],
                ...['ready', 'retry', 'parked', 'consumers'].map((name) => (name in message[key] ? compact(message[key][name]) : '—'))]));
            leases.node.hidden = !message.leases?.length;
            tableRows(leases.body, (message.leases ?? []).map((lease) => [lease.name, lease.holder, number(lease.token), dateTime(lease.until_ms)]));
        },
    };
}

// What an operator must not miss, the worst first.
export function engineTroubles(message) {
    const list = [];
    const broken = (message.segments ?? []).filter((segment) => segment.state !== 'home');
    if (broken.length > 0) list.push(t('segmentsAway', { list: broken.map((segment) => `${segment.id} (${t(`sg_${segment.state}`)})`).join(', ') }));
    if (message.ledger_away) list.push(t('ledgerAway'));
    if (QUEUES.some(([key]) => message[key]?.away)) list.push(t('queueAway'));
    for (const { what, since_ms: since, n } of message.troubles ?? []) {
        list.push(t(`tr_${what}`, { n: number(n), time: duration(message.now_ms - since) }));
    }
    const parked = QUEUES.reduce((sum, [key]) => sum + (message[key]?.parked ?? 0), 0);
    if (parked > 0) list.push(t('putAside', { n: number(parked) }));
    return list;
}
