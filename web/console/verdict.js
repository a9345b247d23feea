/*
 * The verdict over the live screen: all is well, or what is not, from what the feed says; and which sales are open with
 * how much left. Nothing is judged slow: how fast is fast enough is not ours to say.
 */

import { el, setAttr, setText } from '/assets/tools.js';
import { grows } from '/assets/console/facts.js';
import { engineTroubles } from '/assets/console/engine.js';
import { t, number } from '/assets/console/words.js';

const NAMED = 3;            // sales that are told by name
const HEARD_MS = 120000;    // of the backlog

// Every trouble a message tells of, the worst first.
function troubles(message, backlog) {
    const list = message.journal_latched === 1 ? [t('latched')] : [];
    if (message.disk_full === 1) list.push(t('diskFull'));
    if (message.ledger_damage) list.push(t('ledgerDamaged', { what: message.ledger_damage }));
    const full = (message.pools ?? []).filter((pool) => pool.nearly_full);
    if (full.length > 0) {
        const parts = full.map(({ pool, used, size }) => t('poolAt', { pool, percent: number(Math.floor((used * 100) / size)) }));
        list.push(t('poolsFull', { list: parts.join(t('comma')) }));
    }
    list.push(...engineTroubles(message));
    if (message.reconcile?.blind) list.push(t('reconcileBlind'));
    if (grows(backlog)) list.push(t('backlogGrows', { n: number(backlog.at(-1).n) }));
    return list;
}

function salesText(message, names) {
    const items = message.items.filter(({ state }) => state === 'open' || state === 'sold_out');
    if (items.length === 0) return t('noneOpen');
    const ids = [...new Set(items.map((item) => item.sale_id))];
    const shown = ids.slice(0, NAMED).map((id) => (names.sale(id) ? t('quoted', { name: names.sale(id) }) : `${t('sale')} ${id}`));
    if (ids.length > NAMED) shown.push(t('andMore', { n: number(ids.length - NAMED) }));
    return t('openSales', { list: shown.join(t('comma')), n: number(items.reduce((sum, item) => sum + item.available, 0)) });
}

export function verdictStrip(desk) {
    const well = el('p', { class: 'verdict-word', role: 'status', hidden: true }, el('span', { 'aria-hidden': 'true' }, '● '));
    const word = el('span', {});
    well.append(word);
    const alarm = el('p', { class: 'alarm verdict-word', role: 'alert', hidden: true });
    const sales = el('p', { class: 'verdict-sales' });
    const node = el('div', { class: 'verdict' }, well, alarm, sales);
    const backlog = [];
    let message = null;
    return {
        node,
        hear(next) {
            if (message && next.now_ms < message.now_ms) backlog.length = 0;
            message = next;
            if (next.backlog !== undefined) backlog.push({ at_ms: next.now_ms, n: next.backlog });
            while (backlog.length && backlog[0].at_ms < next.now_ms - HEARD_MS) backlog.shift();
            desk.names.need(next.items.map((item) => item.sale_id));
        },
        // `silentMs`: how long nothing was heard, where that is too long.
        draw(silentMs) {
            const list = message ? troubles(message, backlog) : [];
            if (silentMs) list.unshift(t('feedLost', { n: Math.round(silentMs / 1000) }));
            setText(alarm, list.length ? `▲ ${list.join(' ')}` : '');
            alarm.hidden = list.length === 0;
            // Of several processes this one sees only what it asks itself: it says what that is.
            if (message) setText(word, t(message.engine === 'distributed' ? 'allWellHere' : 'allWell'));
            well.hidden = !message || list.length > 0;
            setAttr(node, 'class', `verdict ${list.length ? 'verdict-bad' : message ? 'verdict-good' : ''}`);
            setText(sales, message ? salesText(message, desk.names) : '');
        },
    };
}
