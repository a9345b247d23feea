/*
 * What was put aside in the queue: GET /v1/admin/queue, and sending it round again, which asks first. The screen exists
 * only where the engine has a queue; elsewhere the server says so, in its own words.
 */

import { Refusal } from '/assets/net.js';
import { el, setText } from '/assets/tools.js';
import { t, dateTime, duration, number, problemText } from '/assets/console/words.js';

const SHOWN = 100;

const figure = (label, value) => el('div', { class: 'figure' }, el('dt', {}, label), el('dd', { class: 'figure-value' }, value));

function messageRow(message) {
    const order = message.order_id
        ? el('a', { href: `#/orders/${message.order_id}` }, el('code', {}, message.order_id))
        : el('span', {}, el('span', { class: 'chip' }, t(message.base64url ? 'q_bytes' : 'q_unreadable')), ' ', el('code', { class: 'cut' }, message.text));
    return el('tr', {},
        el('th', { scope: 'row' }, order),
        el('td', {}, message.reason ?? t('q_tried', { n: number(message.attempts) })),
        el('td', { class: 'right' }, message.age_ms === undefined ? '' : duration(message.age_ms)),
        el('td', {}, message.user_id ? el('a', { href: `#/orders?user=${message.user_id}` }, String(message.user_id)) : ''),
        el('td', {}, message.item_id ? String(message.item_id) : ''),
        el('td', { class: 'right' }, message.qty ? number(message.qty) : ''),
        el('td', {}, message.created_at_ms ? dateTime(message.created_at_ms) : ''));
}

export async function queueScreen(context) {
    const { main, console: desk, isHere, query } = context;
    const which = query.get('queue') === 'payments' ? 'payments' : 'orders';
    const seen = await desk.call('GET', `/v1/admin/queue?queue=${which}&limit=${SHOWN}`);
    const said = el('p', { class: 'check-result', role: 'status' });
    const tell = (error) => {
        if (!(error instanceof Refusal)) throw error;
        setText(said, problemText(error));
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
            tell(error);
            button.disabled = false;
        }
    });
    const heads = [['q_message'], ['q_why'], ['q_age', 'right'], ['user'], ['itemId'], ['qty', 'right'], ['made']];
    main.replaceChildren(
        el('div', { class: 'head-row' }, el('h1', {}, t('queueTitle')),
            el('div', { class: 'acts' }, el('button', { type: 'button', class: 'plain', onclick: () => isHere() && queueScreen(context).catch(tell) }, t('lookAgain')), seen.parked > 0 ? button : '')),
        el('p', { class: 'help' }, t('queueText')),
        el('dl', { class: 'figures' }, figure(t('q_ready'), number(seen.ready)), figure(t('q_retry'), number(seen.retry)), figure(t('q_parked'), number(seen.parked))),
        said,
        seen.messages.length === 0 ? el('p', { class: 'empty' }, t('queueEmpty')) : el('div', { class: 'panel scroll' },
            el('table', { class: 'list' },
                el('thead', {}, el('tr', {}, ...heads.map(([key, side]) => el('th', { scope: 'col', class: side ?? null }, t(key))))),
                el('tbody', {}, ...seen.messages.map(messageRow))),
            seen.parked > seen.messages.length ? el('p', { class: 'help' }, t('queueShown', { n: number(seen.messages.length), all: number(seen.parked) })) : ''));
}
