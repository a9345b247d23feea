/*
 * Orders: search by buyer, item, sale and status, page by page; and one order with everything that happened to it.
 * What is searched for is in the address, so that a search can be sent to a colleague.
 */

import { Refusal } from '/assets/net.js';
import { el, setText } from '/assets/tools.js';
import { t, dateTime, headText, money, number, problemText, reasonText } from '/assets/console/words.js';

const STATUSES = ['QUEUED', 'LOCKED', 'PAID', 'EXPIRED', 'CANCELLED', 'FAILED'];
const FIELDS = ['user', 'item', 'sale', 'status'];

const statusChip = (status) => el('span', { class: `chip order-${status}` }, t(`s_${status}`));

function orderRow(order, names) {
    return el('tr', {},
        el('th', { scope: 'row' }, el('a', { href: `#/orders/${order.order_id}` }, el('code', {}, order.order_id))),
        el('td', {}, statusChip(order.status)),
        el('td', { 'data-label': headText('user') }, String(order.user_id ?? '')),
        el('td', { class: 'item-name', 'data-label': headText('itemId') }, names.item(order.item_id)),
        el('td', { class: 'right', 'data-label': headText('qty') }, number(order.qty)),
        el('td', { class: 'right', 'data-label': headText('amount') }, money(order.amount_cents, order.currency)),
        el('td', { class: 'when', 'data-label': headText('made') }, dateTime(order.created_at_ms)));
}

function searchForm(query) {
    const field = (name, label, attributes = {}) => el('p', { class: 'field' },
        el('label', { for: `find-${name}` }, label),
        el('input', { id: `find-${name}`, name, value: query.get(name) ?? '', inputmode: 'numeric', pattern: '[0-9]*', ...attributes }));
    const status = el('select', { id: 'find-status', name: 'status' },
        el('option', { value: '' }, t('anyStatus')),
        ...STATUSES.map((name) => el('option', { value: name, selected: query.get('status') === name }, t(`s_${name}`))));
    return el('form', { class: 'search', role: 'search' },
        field('order', t('orderId'), { inputmode: 'text', pattern: '[A-Za-z0-9_\\-]*', class: 'long' }),
        field('user', t('buyerId')), field('item', t('idOfItem')), field('sale', t('saleId')),
        el('p', { class: 'field' }, el('label', { for: 'find-status' }, t('status')), status),
        el('button', { type: 'submit' }, t('find')));
}

export async function ordersScreen({ main, console: desk, query }) {
    const form = searchForm(query);
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        const asked = new FormData(form);
        if (asked.get('order').trim()) return desk.go(`orders/${encodeURIComponent(asked.get('order').trim())}`);
        const wanted = FIELDS.map((name) => [name, asked.get(name).trim()]).filter(([, value]) => value);
        desk.go(`orders?${new URLSearchParams(wanted)}`);
    });
    const body = el('tbody', {});
    const found = el('p', { class: 'help', role: 'status' });
    const none = el('p', { class: 'empty', hidden: true }, t('noOrders'));
    const more = el('button', { type: 'button', class: 'plain', hidden: true }, t('more'));
    const heads = [['order'], ['status'], ['user'], ['itemId'], ['qty', 'right'], ['amount', 'right'], ['made']];
    const table = el('table', { class: 'list cards' },
        el('thead', {}, el('tr', {}, ...heads.map(([key, side]) => el('th', { scope: 'col', class: side ?? null }, t(key))))), body);
    const wanted = new URLSearchParams(FIELDS.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
    wanted.set('limit', '50');
    async function load() {
        const page = await desk.call('GET', `/v1/admin/orders?${wanted}`);
        await desk.names.needItems(page.orders.map((order) => order.item_id));
        body.append(...page.orders.map((order) => orderRow(order, desk.names)));
        setText(found, t(page.next ? 'foundMore' : body.children.length === 1 ? 'foundOne' : 'found', { n: number(body.children.length) }));
        found.hidden = body.children.length === 0;
        table.hidden = body.children.length === 0;
        none.hidden = body.children.length > 0;
        more.hidden = !page.next;
        if (page.next) wanted.set('after', page.next);
    }
    more.addEventListener('click', async () => {
        more.disabled = true;
        await load().then(() => desk.notice(''), (error) => {
            if (!(error instanceof Refusal)) throw error;
            desk.notice(problemText(error));
        });
        more.disabled = false;
    });
    await load();
    main.replaceChildren(el('h1', {}, t('orders')), form, found, el('div', { class: 'panel scroll' }, table, none, more));
}

export async function orderScreen({ main, console: desk }, id) {
    const order = await desk.call('GET', `/v1/admin/orders/${encodeURIComponent(id)}`);
    await desk.names.needItems([order.item_id]);
    const facts = [
        ['status', statusChip(order.status)],
        ['user', el('a', { href: `#/orders?user=${order.user_id}` }, String(order.user_id))],
        ['itemId', desk.names.item(order.item_id)],
        ['qty', number(order.qty)],
        ['amount', money(order.amount_cents, order.currency)],
        ['made', dateTime(order.created_at_ms)],
        ['payBy', dateTime(order.pay_by_ms)],
        ['payment', order.payment_id ?? '—'],
        ['reason', order.reason ? reasonText(order.reason) : '—'],
    ];
    const events = order.history.map((event) => el('tr', {},
        el('td', {}, dateTime(event.at_ms)), el('td', {}, statusChip(event.status))));
    main.replaceChildren(
        el('p', { class: 'crumbs' }, el('a', { href: '#/orders' }, t('orders'))),
        el('h1', {}, t('order'), ' ', el('code', {}, order.order_id)),
        el('dl', { class: 'panel facts' }, ...facts.flatMap(([key, value]) => [el('dt', {}, t(key)), el('dd', {}, value)])),
        el('section', { class: 'panel scroll' }, el('h2', {}, t('history')),
            el('table', { class: 'list' },
                el('thead', {}, el('tr', {}, ...['when', 'what'].map((key) => el('th', { scope: 'col' }, t(key))))),
                el('tbody', {}, ...events))));
}
