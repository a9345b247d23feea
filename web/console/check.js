/*
 * The accounts: POST /v1/admin/reconcile, and every difference it counts, with ids. A comparison looks twice with a
 * pause between, so it takes as long as anything may be on its way; the button says so and cannot be pressed twice.
 * Repair asks first, and is offered only where the engine can: one process alone has nothing to repair.
 */

import { Refusal } from '/assets/net.js';
import { el, setText } from '/assets/tools.js';
import { t, actText, dateTime, number, problemText } from '/assets/console/words.js';

const COMPARE_TIMEOUT_MS = 180000;
/* More rows than anybody reads; `sluice reconcile` prints all. */
const ROWS_MAX = 1000;

const link = (path, text) => el('a', { href: `#/${path}` }, text);

function differenceRow(one, repairing) {
    return el('tr', {},
        el('th', { scope: 'row' }, t(`d_${one.kind}`), ' ', el('code', {}, one.kind)),
        el('td', {}, one.segment === null ? '' : t('segment', { n: one.segment })),
        el('td', {}, one.order_id ? link(`orders/${one.order_id}`, el('code', {}, one.order_id)) : ''),
        el('td', {}, one.user_id ? link(`orders?user=${one.user_id}`, String(one.user_id)) : ''),
        el('td', {}, one.item_id ? link(`orders?item=${one.item_id}`, String(one.item_id)) : ''),
        el('td', { class: 'right' }, number(one.found)),
        el('td', { class: 'right' }, number(one.expected)),
        el('td', {}, dateTime(one.since_ms)),
        repairing ? el('td', {}, t(one.repaired ? 'repaired' : 'notRepaired')) : '');
}

function differencesTable(result, repairing) {
    const heads = [['d_what'], ['d_where'], ['order'], ['user'], ['itemId'], ['d_found', 'right'], ['d_expected', 'right'], ['d_since'], ...(repairing ? [['d_repair']] : [])];
    return el('table', { class: 'list' },
        el('thead', {}, el('tr', {}, ...heads.map(([key, side]) => el('th', { scope: 'col', class: side ?? null }, t(key))))),
        el('tbody', {}, ...result.differences.slice(0, ROWS_MAX).map((one) => differenceRow(one, repairing))));
}

export async function checkScreen({ main, console: desk, isHere }) {
    const said = el('p', { class: 'check-result', role: 'status' });
    const unsure = el('p', { class: 'help', hidden: true });
    const list = el('div', { class: 'scroll' });
    const compare = el('button', { type: 'button' }, t('compare'));
    const repair = el('button', { type: 'button', class: 'danger', hidden: true }, t('repair'));

    function show(result, repairing) {
        const counts = { items: number(result.items), orders: number(result.orders), buyers: number(result.buyers) };
        setText(said, result.found ? t('differ', { n: number(result.found) }) : t(result.buyers ? 'agree' : result.orders ? 'agreeOrders' : 'agreeItems', counts));
        said.classList.add(result.found ? 'bad' : 'good');
        setText(unsure, t('unsure', { n: number(result.unsure) }));
        unsure.hidden = !result.unsure;
        repair.hidden = !result.found || repairing || !desk.canRepair();
        if (!result.found) return;
        list.replaceChildren(differencesTable(result, repairing),
            ...(result.found > ROWS_MAX ? [el('p', { class: 'help' }, t('differShown', { n: number(ROWS_MAX), all: number(result.found) }))] : []),
            el('p', { class: 'help' }, t(repairing ? 'repairThen' : desk.canRepair() ? 'repairHow' : 'repairNot')));
    }

    async function run(repairing) {
        compare.disabled = repair.disabled = true;
        list.replaceChildren();
        unsure.hidden = true;
        setText(said, t('comparing'));
        said.className = 'check-result';
        try {
            const result = await desk.call('POST', '/v1/admin/reconcile', { timeoutMs: COMPARE_TIMEOUT_MS, ...(repairing ? { body: { repair: true } } : {}) });
            if (isHere()) show(result, repairing);
        } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            setText(said, repairing ? actText(error) : problemText(error));
            said.classList.add('bad');
        } finally {
            compare.disabled = repair.disabled = false;
        }
    }

    compare.addEventListener('click', () => run(false));
    repair.addEventListener('click', async () => {
        if (await desk.sure(t('sureRepair'), t('sureRepairText'), t('repair'))) await run(true);
    });
    main.replaceChildren(el('h1', {}, t('checkTitle')),
        el('section', { class: 'panel' }, el('p', {}, t('checkText')), el('p', { class: 'acts' }, compare, repair), said, unsure, list));
}
