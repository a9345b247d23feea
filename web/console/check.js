/*
 * The accounts: POST /v1/admin/reconcile, and every difference it counts, with ids. A comparison looks twice with a
 * pause between, so it takes as long as anything may be on its way; the button says so and cannot be pressed twice.
 */

import { Refusal } from '/assets/net.js';
import { el, setText } from '/assets/tools.js';
import { t, number, problemText } from '/assets/console/words.js';

const COMPARE_TIMEOUT_MS = 180000;

function differencesTable(differences) {
    const names = [...new Set(differences.flatMap((one) => Object.keys(one)))];
    return el('table', { class: 'list' },
        el('thead', {}, el('tr', {}, ...names.map((name) => el('th', { scope: 'col' }, name)))),
        el('tbody', {}, ...differences.map((one) => el('tr', {}, ...names.map((name) => el('td', {},
            name === 'order_id' && one[name] ? el('a', { href: `#/orders/${one[name]}` }, el('code', {}, one[name])) : String(one[name] ?? '')))))));
}

export async function checkScreen({ main, console: desk, isHere }) {
    const said = el('p', { class: 'check-result', role: 'status' });
    const unsure = el('p', { class: 'help', hidden: true });
    const list = el('div', { class: 'scroll' });
    const button = el('button', { type: 'button' }, t('compare'));
    button.addEventListener('click', async () => {
        button.disabled = true;
        list.replaceChildren();
        unsure.hidden = true;
        setText(said, t('comparing'));
        said.className = 'check-result';
        try {
            const result = await desk.call('POST', '/v1/admin/reconcile', { timeoutMs: COMPARE_TIMEOUT_MS });
            if (!isHere()) return;
            const counts = { items: number(result.items), orders: number(result.orders), buyers: number(result.buyers) };
            setText(said, result.found ? t('differ', { n: number(result.found) }) : t(result.orders || result.buyers ? 'agree' : 'agreeItems', counts));
            said.classList.add(result.found ? 'bad' : 'good');
            setText(unsure, t('unsure', { n: number(result.unsure) }));
            unsure.hidden = !result.unsure;
            if (result.found) list.replaceChildren(differencesTable(result.differences), el('p', { class: 'help' }, t('repairHow')));
        } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            setText(said, problemText(error));
            said.classList.add('bad');
        } finally {
            button.disabled = false;
        }
    });
    main.replaceChildren(el('h1', {}, t('checkTitle')),
        el('section', { class: 'panel' }, el('p', {}, t('checkText')), button, said, unsure, list));
}
