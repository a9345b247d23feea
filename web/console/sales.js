/*
 * Sales: the list, one sale with its stock and its acts, and the form that makes and changes one.
 *
 * Acts that buyers feel (open, pause, close, restock, another end) ask first. A restock carries an id of its own from the moment it is
 * asked for, so that trying again after a lost answer adds nothing twice. The form says what is wrong while one
 * types, field by field; what the server refuses in spite of that is shown in its own words.
 */

import { Refusal } from '/assets/net.js';
import { el, setAttr, setText } from '/assets/tools.js';
import { t, actText, dateTime, dayText, headText, hoursText, minorDigits, money, number, problemText, rangeText, shareText, ZONE } from '/assets/console/words.js';
import { allSales } from '/assets/console/names.js';
import { amountText, changesOf, momentText, moreHours, readChange, readSale, sessionsLeft, units } from '/assets/console/fields.js';

const stateChip = (state) => el('span', { class: `chip sale-${state}` }, t(`st_${state}`));

export async function salesScreen({ main, console: desk }) {
    const rows = await allSales(desk);
    rows.sort((a, b) => b.starts_at_ms - a.starts_at_ms);
    const heads = [['hours'], ['name'], ['state'], ['items', 'right'], ['sold', 'right']];
    const sum = (sale, key) => sale.items.reduce((all, item) => all + item[key], 0);
    const days = Map.groupBy ? Map.groupBy(rows, (sale) => dayText(sale.starts_at_ms)) : rows.reduce((all, sale) => all.set(dayText(sale.starts_at_ms), [...(all.get(dayText(sale.starts_at_ms)) ?? []), sale]), new Map());
    main.replaceChildren(
        el('div', { class: 'head-row' }, el('h1', {}, t('sales')), el('a', { class: 'button', href: '#/sales/new' }, t('newSale'))),
        rows.length === 0 ? el('p', { class: 'empty' }, t('noSales')) : el('div', { class: 'panel scroll' },
            el('table', { class: 'list cards' },
                el('thead', {}, el('tr', {}, ...heads.map(([key, side]) => el('th', { scope: 'col', class: side ?? null }, t(key))))),
                ...[...days].map(([day, sales]) => el('tbody', {}, el('tr', { class: 'day' }, el('th', { scope: 'rowgroup', colspan: heads.length }, day)),
                    ...sales.reverse().map((sale) => el('tr', {},
                        el('td', { class: 'hours' }, hoursText(sale.starts_at_ms, sale.ends_at_ms)),
                        el('th', { scope: 'row' }, el('a', { href: `#/sales/${sale.id}` }, sale.name)),
                        el('td', {}, stateChip(sale.state)),
                        el('td', { class: 'right', 'data-label': headText('items') }, number(sale.items.length)),
                        el('td', { class: 'right', 'data-label': headText('sold') }, shareText(sum(sale, 'sold'), sum(sale, 'total'))))))))));
}

// ---------------------------------------------------------------- one sale

// act -> [states it is offered in, the label's key, what is asked first (or nothing)]
const ACTS = [
    ['warm', ['draft'], () => 'warm', null],
    ['open', ['draft', 'warm', 'paused'], (sale) => (sale.state === 'paused' ? 'resume' : 'open'), 'sureOpen'],
    ['pause', ['open'], () => 'pause', 'surePause'],
    ['close', ['warm', 'open', 'paused'], () => 'close', 'sureClose'],
];

const NEXT = { draft: 'warm', warm: 'open', paused: 'open' };    // the act that a state waits for

export async function saleScreen(context, id) {
    const { main, console: desk, isHere } = context;
    const sale = await desk.call('GET', `/v1/admin/sales/${id}`);
    const again = async () => { if (isHere()) await saleScreen(context, id); };
    const tell = (error) => {
        if (!(error instanceof Refusal)) throw error;
        desk.notice(actText(error));
    };

    async function act(name, label, ask) {
        if (ask && !(await desk.sure(t(ask, { name: sale.name }), t(`${ask}Text`), t(label)))) return;
        const done = await desk.call('POST', `/v1/admin/sales/${id}/${name}`).then((now) => {
            desk.notice('');
            desk.announce(t('moved', { state: t(`st_${now.state}`) }));
            return true;
        }, tell);
        // What was refused may have happened all the same. Where looking fails, too, what was told stays.
        await again().catch((error) => {
            if (!(error instanceof Refusal)) throw error;
            if (done) desk.notice(problemText(error));
        });
    }

    async function remove() {
        if (!(await desk.sure(t('sureDelete', { name: sale.name }), t('sureDeleteText'), t('delete')))) return;
        try {
            await desk.call('DELETE', `/v1/admin/sales/${id}`);
            if (isHere()) desk.go('sales');
            desk.announce(t('deleted'));
        } catch (error) {
            tell(error);
        }
    }

    // The next step is the solid one and stands first; what cannot be undone is outlined, and last.
    const kind = (name) => (name === 'close' ? 'danger apart' : name === NEXT[sale.state] ? null : 'plain');
    const acts = ACTS.filter(([, states]) => states.includes(sale.state)).map(([name, , label, ask]) => el('button', {
        type: 'button', class: kind(name), onclick: () => act(name, label(sale), ask),
    }, t(label(sale))));
    const last = sale.state === 'draft' ? [el('button', { type: 'button', class: 'danger apart', onclick: remove }, t('delete'))]
        : acts.filter((button) => button.classList.contains('apart'));
    const next = acts.filter((button) => !button.className);
    const buttons = [...next, ...acts.filter((button) => button.classList.contains('plain'))];
    if (sale.state !== 'closed') buttons.push(el('a', { class: 'button plain', href: `#/sales/${id}/edit` }, t('edit')));
    if (sale.state !== 'draft') buttons.push(el('a', { class: 'button plain', href: `#/sales/${id}/report` }, t('report')));
    buttons.push(...last);

    const heads = [['name'], ['state'], ...['price', 'total', 'available', 'locked', 'sold', 'limit'].map((key) => [key, 'right'])];
    main.replaceChildren(
        el('p', { class: 'crumbs' }, el('a', { href: '#/sales' }, t('sales'))),
        el('div', { class: 'head-row' }, el('h1', {}, sale.name, ' ', stateChip(sale.state)), el('div', { class: 'acts' }, ...buttons)),
        el('p', { class: 'help' }, `${rangeText(sale.starts_at_ms, sale.ends_at_ms)} ${ZONE}`),
        el('div', { class: 'panel scroll' }, el('table', { class: 'list cards' },
            el('thead', {}, el('tr', {}, ...heads.map(([key, side]) => el('th', { scope: 'col', class: side ?? null }, t(key))), ['draft', 'closed'].includes(sale.state) ? '' : el('th', { scope: 'col' }, t('restockAdd')))),
            el('tbody', {}, ...sale.items.map((item) => el('tr', {},
                el('th', { scope: 'row' }, el('a', { href: `#/orders?item=${item.id}` }, item.name), item.sku ? el('span', { class: 'help' }, ` ${item.sku}`) : ''),
                el('td', {}, t(`is_${item.state}`)),
                el('td', { class: 'right', 'data-label': headText('price') }, money(item.price_cents, sale.currency)),
                ...['total', 'available', 'locked', 'sold'].map((key) => el('td', { class: 'right', 'data-label': headText(key) }, number(item[key]))),
                el('td', { class: 'right', 'data-label': headText('limit') }, item.limit_per_user ? number(item.limit_per_user) : t('noLimit')),
                ['draft', 'closed'].includes(sale.state) ? '' : el('td', {}, restockForm(desk, item, again))))))));
}

function restockForm(desk, item, again) {
    const field = el('input', { type: 'text', inputmode: 'numeric', class: 'short', 'aria-label': `${t('restockAdd')}: ${item.name}` });
    const button = el('button', { type: 'submit', class: 'plain' }, t('restock'));
    const form = el('form', { class: 'inline', novalidate: true }, field, button);
    let pending = null;     // { add, id } of an answer that did not come
    form.addEventListener('submit', async (event) => {
        event.preventDefault();
        const read = units(field.value);
        setAttr(field, 'aria-invalid', read.fault ? 'true' : null);
        desk.notice(read.fault ? t(read.fault, read.values) : '');
        if (read.fault) return field.focus();
        const add = read.value;
        if (!(await desk.sure(t('sureRestock', { n: number(add), name: item.name }), t('sureRestockText'), t('restock')))) return;
        if (pending?.add !== add) pending = { add, id: `console-${crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`}` };
        button.disabled = true;
        try {
            await desk.call('POST', `/v1/admin/items/${item.id}/restock`, { body: { add, request_id: pending.id } });
            desk.announce(t('restocked', { n: number(add), name: item.name }));
            await again();
        } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            desk.notice(actText(error, 'unsureAdded'));
            button.disabled = false;
        }
    });
    return form;
}

// ---------------------------------------------------------------- the form

let ids = 0;

// A labelled field with room for what is wrong with it; `name` is what fields.js calls it.
function entry(label, name, attributes = {}, help = null) {
    ids += 1;
    const id = `f${ids}`;
    const input = el('input', { id, name, 'aria-describedby': `${id}-error${help ? ` ${id}-help` : ''}`, ...attributes });
    const error = el('span', { id: `${id}-error`, class: 'field-error' });
    const node = el('p', { class: 'field' }, el('label', { for: id }, label), input,
        ...(help ? [el('span', { id: `${id}-help`, class: 'help' }, help)] : []), error);
    return { node, input, error, name };
}

function itemEntries(item, digits) {
    return {
        id: item?.id,
        name: entry(t('name'), 'name', { value: item?.name ?? '', required: true }),
        sku: entry(t('sku'), 'sku', { value: item?.sku ?? '' }),
        price: entry(t('price'), 'price', { value: amountText(item?.price_cents, digits), inputmode: 'decimal', required: true }),
        was: entry(t('was'), 'was', { value: amountText(item?.was_cents, digits), inputmode: 'decimal' }),
        total: entry(t('total'), 'total', { value: item?.total ?? '', inputmode: 'numeric', required: true }),
        limit: entry(t('limit'), 'limit', { value: item?.limit_per_user ?? 1, inputmode: 'numeric', required: true }, t('limitHelp')),
        image: entry(t('image'), 'image', { value: item?.image_url ?? '', inputmode: 'url' }),
    };
}

const ITEM_FIELDS = ['name', 'sku', 'price', 'was', 'total', 'limit', 'image'];

// The end of a sale that buyers know of: moving it asks first, and more plainly where it ends the sale at once.
async function endAgreed(desk, id, endsMs) {
    const sale = await desk.call('GET', `/v1/admin/sales/${id}`);      // it may have left the draft while one typed
    if (sale.state === 'draft') return true;
    const past = endsMs <= await desk.now();
    const values = { name: sale.name, from: dateTime(sale.ends_at_ms), to: dateTime(endsMs) };
    return past ? desk.sure(t('sureEndNow', values), t('sureEndNowText', values), t('close'))
        : desk.sure(t('sureEnd', values), t('sureEndText', values), t('moveEnd'));
}

export async function saleForm({ main, console: desk, isHere }, id) {
    const sale = id ? await desk.call('GET', `/v1/admin/sales/${id}`) : null;
    const draft = !sale || sale.state === 'draft';
    const noon = new Date();
    noon.setHours(noon.getHours() + 1, 0, 0, 0);
    const digits = () => minorDigits(top.currency.input.value.trim() || 'CNY');
    const top = {
        name: entry(t('name'), 'name', { value: sale?.name ?? '', required: true }),
        starts: entry(t('starts'), 'starts', { type: 'datetime-local', step: 1, value: momentText(sale?.starts_at_ms ?? noon.getTime()), required: true, disabled: !draft }, t('inZone', { zone: ZONE })),
        ends: entry(t('ends'), 'ends', { type: 'datetime-local', step: 1, value: momentText(sale?.ends_at_ms ?? noon.getTime() + 3600000), required: true }, t('inZone', { zone: ZONE })),
        pay_within: entry(t('payWithin'), 'pay_within', { value: sale?.pay_within_s ?? 900, inputmode: 'numeric', required: true, disabled: !draft }),
        currency: entry(t('currency'), 'currency', { value: sale?.currency ?? 'CNY', maxlength: 3, required: true, disabled: !draft }),
        pay_url: entry(t('payUrl'), 'pay_url', { value: sale?.pay_url ?? '', inputmode: 'url', disabled: !draft }, t('payUrlHelp', { order_id: '{order_id}' })),
    };
    const hours = entry(t('alsoAt'), 'also_at', { placeholder: '14:00, 20:00' }, t('alsoAtHelp'));
    const bar = el('input', { type: 'checkbox', id: 'bar-unpaid', checked: sale?.bar_unpaid ?? false, disabled: !draft });
    const list = el('div', { class: 'item-forms' });
    const said = el('p', { class: 'field-error', role: 'alert' });
    let items = (draft ? sale?.items ?? [null] : []).map((item) => itemEntries(item, minorDigits(sale?.currency ?? 'CNY')));

    function drawItems() {
        list.replaceChildren(...items.map((item, i) => el('fieldset', { class: 'panel item-form' },
            el('legend', {}, t('item', { n: i + 1 })), ...ITEM_FIELDS.map((key) => item[key].node),
            items.length > 1 ? el('button', { type: 'button', class: 'plain', onclick: () => {
                items = items.filter((other) => other !== item);
                drawItems();
            } }, t('removeItem', { n: i + 1 })) : '')));
    }

    const texts = () => ({
        ...Object.fromEntries(Object.entries(top).map(([key, one]) => [key, one.input.value])),
        bar_unpaid: bar.checked,
        items: items.map((item) => ({ id: item.id, ...Object.fromEntries(ITEM_FIELDS.map((key) => [key, item[key].input.value])) })),
    });

    // Marks what is wrong: of every field once somebody tried to save, of those that were touched before.
    const touched = new Set();
    const made = [];        // by this form: where a later session is refused, saving again makes only those that are missing
    let tried = false;
    function judge() {
        const read = draft ? readSale(texts(), digits(), sale ?? undefined) : readChange(texts(), sale);
        const more = sale ? { value: [] } : moreHours(hours.input.value, read.sale?.starts_at_ms ?? NaN);
        setText(hours.error, more.fault ? t(more.fault) : '');
        setAttr(hours.input, 'aria-invalid', more.fault ? 'true' : null);
        if (more.fault) read.faults = new Map([...(read.faults ?? []), ['also_at', more]]);
        read.more = more.value;
        const entries = [...Object.values(top).map((one) => [one.name, one]),
            ...items.flatMap((item, i) => ITEM_FIELDS.map((key) => [`item${i}.${key}`, item[key]]))];
        for (const [name, one] of entries) {
            const wrong = (tried || touched.has(one.input)) && read.faults?.get(name);
            setText(one.error, wrong ? t(wrong.fault, wrong.values) : '');
            setAttr(one.input, 'aria-invalid', wrong ? 'true' : null);
        }
        setText(said, tried && read.faults ? t('fixFirst') : '');
        return read;
    }

    // False: the second question was answered with no.
    async function change(body) {
        if ('ends_at_ms' in body && !(await endAgreed(desk, id, body.ends_at_ms))) return false;
        if (Object.keys(body).length > 0) await desk.call('PUT', `/v1/admin/sales/${id}`, { body });
        return true;
    }

    const button = el('button', { type: 'submit' }, t(sale ? 'save' : 'create'));
    const form = el('form', { class: 'sale-form', novalidate: true },
        draft ? '' : el('p', { class: 'help' }, t('onlyNameEnd')),
        el('div', { class: 'panel fields' }, ...Object.values(top).flatMap((one) => (one === top.ends && !sale ? [one.node, hours.node] : [one.node])),
            el('p', { class: 'field check' }, bar, el('label', { for: 'bar-unpaid' }, t('barUnpaid')))),
        list,
        draft ? el('p', {}, el('button', { type: 'button', class: 'plain', onclick: () => {
            items.push(itemEntries(null, digits()));
            drawItems();
            items.at(-1).name.input.focus();
        } }, t('addItem'))) : '',
        said, el('p', { class: 'acts' }, button, el('a', { class: 'button plain', href: sale ? `#/sales/${id}` : '#/sales' }, t('back'))));
    form.addEventListener('input', judge);
    form.addEventListener('change', (event) => {
        touched.add(event.target);
        judge();
    });
    form.addEventListener('submit', async (event) => {
        event.preventDefault();
        tried = true;
        const read = judge();
        if (read.faults) return form.querySelector('[aria-invalid]')?.focus();
        button.disabled = true;
        try {
            if (sale && !(await change(changesOf(sale, read.sale)))) {
                button.disabled = false;
                return;
            }
            if (!sale) for (const body of sessionsLeft(read.sale, read.more, made)) made.push(await desk.call('POST', '/v1/admin/sales', { body }));
            if (isHere()) desk.go(made.length > 1 ? 'sales' : `sales/${(sale ?? made[0]).id}`);
            desk.announce(t(sale ? 'saved' : 'created'));
        } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            setText(said, `${made.length ? `${t('madeSome', { n: made.length })} ` : ''}${actText(error, sale ? 'unsureDone' : 'unsureMade')}`);
            button.disabled = false;
        }
    });
    drawItems();
    main.replaceChildren(el('h1', {}, t(sale ? 'editSale' : 'newSale')), form);
}
