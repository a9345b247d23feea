/*
 * What was put aside in a queue, that of orders or that of payments: GET /v1/admin/queue, and sending it round again,
 * which asks first. The screen exists only where the engine has a queue; elsewhere the server says so, in its own words.
 */

import { Refusal } from '/assets/net.js';
import { el, setText } from '/assets/tools.js';
import { t, actText, dateTime, duration, number, problemText, reasonText } from '/assets/console/words.js';

const SHOWN = 100;
const QUEUES = ['orders', 'payments'];

const figure = (label, value) => el('div', { class: 'figure' }, el('dt', {}, label), el('dd', { class: 'figure-value' }, value));

// A payment as the shop sent it, where it can be read.
function paymentOf(message) {
    try {
        const said = message.base64url ? null : JSON.parse(message.text);
        return /^[A-Za-z0-9_-]{1,64}$/.test(said?.order_id) ? said : null;
    } catch {
        return null;
    }
}

function messageRow(message, which) {
    const payment = which === 'payments' && !message.order_id ? paymentOf(message) : null;
    const id = message.order_id ?? payment?.order_id;
    const text = el('code', { class: 'cut' }, message.text ?? '');
    const order = id ? el('a', { href: `#/orders/${id}` }, el('code', {}, id))
        : el('span', {}, el('span', { class: 'chip' }, t(message.base64url ? 'q_bytes' : 'q_unreadable')), ' ', text);
    const why = el('td', {}, message.reason ? reasonText(message.reason) : message.attempts ? t('q_tried', { n: number(message.attempts) }) : '—');
    if (which === 'payments') return el('tr', {}, el('th', { scope: 'row' }, order), why, el('td', {}, payment ? el('code', {}, String(payment.payment_id ?? '')) : ''), el('td', {}, payment ? text : ''));
    return el('tr', {},
        el('th', { scope: 'row' }, order), why,
        el('td', { class: 'right' }, message.age_ms === undefined ? '' : duration(message.age_ms)),
        el('td', {}, message.user_id ? el('a', { href: `#/orders?user=${message.user_id}` }, String(message.user_id)) : ''),
        el('td', {}, message.item_id ? String(message.item_id) : ''),
        el('td', { class: 'right' }, message.qty ? number(message.qty) : ''),
        el('td', {}, message.created_at_ms ? dateTime(message.created_at_ms) : ''));
}

const HEADS = {
    orders: [['q_message'], ['q_why'], ['q_age', 'right'], ['user'], ['itemId'], ['qty', 'right'], ['made']],
    payments: [['q_message'], ['q_why'], ['payment'], ['q_text']],
};

// One for each queue that the engine has; of one alone there is nothing to choose.
function queueTabs(queues, which) {
    return queues.length < 2 ? '' : el('nav', { class: 'tabs', 'aria-label': t('whichQueue') }, ...queues.map((name) => el('a', {
        href: name === 'orders' ? '#/queue' : `#/queue?queue=${name}`, 'aria-current': name === which ? 'page' : null,
    }, t(`q_${name}`))));
}

export async function queueScreen(context) {
    const { main, console: desk, isHere, query } = context;
    await desk.isOneOfMany();       // by then it knows which queues there are
    const which = query.get('queue') ?? desk.queues()[0] ?? 'orders';
    const seen = await desk.call('GET', `/v1/admin/queue?queue=${encodeURIComponent(which)}&limit=${SHOWN}`);
    const said = el('p', { class: 'check-result', role: 'status' });
    const tell = (error, write = problemText) => {
        if (!(error instanceof Refusal)) throw error;
        setText(said, write(error));
        said.classList.add('bad');
    };
    const button = el('button', { type: 'button', class: 'danger' }, t('redrive'));
    button.addEventListener('click', async () => {
        if (!(await desk.sure(t('sureRedrive', { n: number(seen.parked) }), t('sureRedriveText'), t('redrive')))) return;
        button.disabled = true;
        try {
            const done = await desk.call('POST', '/v1/admin/queue/redrive', { body: { queue: which }, timeoutMs: 60000 });
            desk.announce(t('redriven', { n: number(done.sent) }));
            if (isHere()) await queueScreen(context);
        } catch (error) {
            tell(error, actText);
            button.disabled = false;
        }
    });
    main.replaceChildren(
        el('div', { class: 'head-row' }, el('h1', {}, t('queueTitle')),
            el('div', { class: 'acts' }, el('button', { type: 'button', class: 'plain', onclick: () => isHere() && queueScreen(context).catch((error) => tell(error)) }, t('lookAgain')), seen.parked > 0 ? button : '')),
        queueTabs(QUEUES.filter((name) => name === which || desk.queues().includes(name)), which),
        el('p', { class: 'help' }, t(which === 'payments' ? 'queueTextPayments' : 'queueText')),
        el('dl', { class: 'figures' }, figure(t('q_ready'), number(seen.ready)), figure(t('q_retry'), number(seen.retry)), figure(t('q_parked'), number(seen.parked))),
        said,
        seen.messages.length === 0 ? el('p', { class: 'empty' }, t('queueEmpty')) : el('div', { class: 'panel scroll' },
            el('table', { class: 'list' },
                el('thead', {}, el('tr', {}, ...(HEADS[which] ?? HEADS.orders).map(([key, side]) => el('th', { scope: 'col', class: side ?? null }, t(key))))),
                el('tbody', {}, ...seen.messages.map((message) => messageRow(message, which)))),
            seen.parked > seen.messages.length ? el('p', { class: 'help' }, t('queueShown', { n: number(seen.messages.length), all: number(seen.parked) })) : ''));
}
