/*
 * What may be typed into a sale's form: pure functions from texts to values, or to the key of what is wrong. The server
 * judges again; this only tells it while one types. The bounds are the server's (src/base/limits.h).
 */

const UNITS_MAX = 2 ** 31 - 1;
const CENTS_MAX = 2 ** 31 - 1;
const NAME_BYTES = 200;
const SKU_BYTES = 64;
const URL_BYTES = 512;
const PAY_WITHIN_MAX_S = 90 * 86400;

const bytes = (text) => new TextEncoder().encode(text).length;

const fault = (key, values) => ({ fault: key, values });
const value = (v) => ({ value: v });

export function wholeNumber(text, min, max) {
    const trimmed = text.trim();
    if (trimmed === '') return fault('v_required');
    const n = Number(trimmed);
    return /^\d+$/.test(trimmed) && n >= min && n <= max ? value(n) : fault('v_whole', { min, max });
}

export const units = (text, min = 1) => wholeNumber(text, min, UNITS_MAX);

// "19.9" with two digits is 1990; more digits than the currency has are refused, not rounded.
export function amount(text, digits, { optional = false } = {}) {
    const trimmed = text.trim().replace(',', '.');
    if (trimmed === '') return optional ? value(undefined) : fault('v_required');
    const found = /^(\d{1,13})(?:\.(\d+))?$/.exec(trimmed);
    if (!found || (found[2] ?? '').length > digits) return fault('v_money');
    const cents = Number(found[1]) * 10 ** digits + Number((found[2] ?? '').padEnd(digits, '0') || 0);
    return cents <= CENTS_MAX ? value(cents) : fault('v_money');
}

export function label(text, { optional = false, max = NAME_BYTES } = {}) {
    const trimmed = text.trim();
    if (trimmed === '') return optional ? value('') : fault('v_required');
    return bytes(trimmed) <= max ? value(trimmed) : fault('v_long', { max });
}

export function webAddress(text, { needs } = {}) {
    const trimmed = text.trim();
    if (trimmed === '') return value('');
    // What begins with two slashes, of either kind, names another host.
    if (!/^(https?:\/\/|\/(?![/\\]))\S*$/.test(trimmed)) return fault('v_url');
    if (bytes(trimmed) > URL_BYTES) return fault('v_long', { max: URL_BYTES });
    return needs && trimmed.split(needs).length !== 2 ? fault('v_order', { order_id: needs }) : value(trimmed);
}

export function currencyCode(text) {
    return /^[A-Z]{3}$/.test(text.trim()) ? value(text.trim()) : fault('v_currency');
}

// A datetime-local text, in the operator's own zone. It has no part of a second: one that still shows `before` is that.
export function moment(text, before) {
    const ms = text === '' ? NaN : new Date(text).getTime();
    if (before !== undefined && ms === new Date(momentText(before)).getTime()) return value(before);
    return Number.isFinite(ms) ? value(ms) : fault('v_time');
}

// More hours of the same day as `startsMs`: "14:00, 20:00" -> their moments, each once, without that of the start.
export function moreHours(text, startsMs) {
    const parts = text.split(/[\s,，;]+/).filter(Boolean);
    const moments = new Set();
    for (const part of parts) {
        const found = /^([01]?\d|2[0-3])(?::([0-5]\d))?$/.exec(part);
        if (!found) return fault('v_hours');
        const at = new Date(startsMs);
        at.setHours(Number(found[1]), Number(found[2] ?? 0), 0, 0);
        if (at.getTime() !== startsMs) moments.add(at.getTime());
    }
    return value([...moments].sort((a, b) => a - b));
}

export function momentText(ms) {
    const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
    return at.toISOString().slice(0, 19);
}

export function amountText(cents, digits) {
    return cents === null || cents === undefined ? '' : (cents / 10 ** digits).toFixed(digits);
}

function collector() {
    const faults = new Map();
    const take = (name, read) => {
        if (read.fault) faults.set(name, read);
        return read.value;
    };
    return { faults, take };
}

function readFrame(texts, { faults, take }, before) {
    const frame = {
        name: take('name', label(texts.name)),
        starts_at_ms: take('starts', moment(texts.starts, before?.starts_at_ms)),
        ends_at_ms: take('ends', moment(texts.ends, before?.ends_at_ms)),
    };
    if (!faults.has('starts') && !faults.has('ends') && frame.ends_at_ms <= frame.starts_at_ms) faults.set('ends', fault('v_after'));
    return frame;
}

// What may still be changed of a sale that is no draft any more; `before` is the sale as it was read.
export function readChange(texts, before) {
    const found = collector();
    const { name, ends_at_ms } = readFrame(texts, found, before);
    return found.faults.size > 0 ? { faults: found.faults } : { sale: { name, ends_at_ms } };
}

// The whole form's texts -> { sale } or { faults: Map(field name -> { fault, values }) }.
export function readSale(texts, digits, before) {
    const found = collector();
    const { faults, take } = found;
    const sale = {
        ...readFrame(texts, found, before),
        pay_within_s: take('pay_within', wholeNumber(texts.pay_within, 1, PAY_WITHIN_MAX_S)),
        currency: take('currency', currencyCode(texts.currency)),
        pay_url: take('pay_url', webAddress(texts.pay_url, { needs: '{order_id}' })),
        bar_unpaid: texts.bar_unpaid,
        items: texts.items.map((item, i) => readItem(item, i, digits, take, faults)),
    };
    if (sale.items.length === 0) faults.set('items', fault('v_items'));
    return faults.size > 0 ? { faults } : { sale };
}

const ITEM_MEMBERS = ['id', 'name', 'sku', 'image_url', 'price_cents', 'was_cents', 'total', 'limit_per_user'];

function same(before, now) {
    if (!Array.isArray(now)) return (before ?? '') === (now ?? '');
    return before.length === now.length && now.every((item, i) => ITEM_MEMBERS.every((key) => same(before[i][key], item[key])));
}

// What of a sale has become another: only that is sent, so that nothing is written over what others changed meanwhile.
export function changesOf(before, sale) {
    return Object.fromEntries(Object.entries(sale).filter(([key, now]) => !same(before[key], now)));
}

// The sales to be made of one form: at its own start and at the further hours, without those that `made` has already.
export function sessionsLeft(sale, more, made) {
    const length = sale.ends_at_ms - sale.starts_at_ms;
    return [sale.starts_at_ms, ...more].filter((at) => !made.some((one) => one.starts_at_ms === at))
        .map((at) => ({ ...sale, starts_at_ms: at, ends_at_ms: at + length }));
}

function readItem(texts, i, digits, take, faults) {
    const item = {
        name: take(`item${i}.name`, label(texts.name)),
        sku: take(`item${i}.sku`, label(texts.sku, { optional: true, max: SKU_BYTES })),
        image_url: take(`item${i}.image`, webAddress(texts.image)),
        price_cents: take(`item${i}.price`, amount(texts.price, digits)),
        was_cents: take(`item${i}.was`, amount(texts.was, digits, { optional: true })),
        total: take(`item${i}.total`, units(texts.total)),
        limit_per_user: take(`item${i}.limit`, units(texts.limit, 0)),
    };
    if (texts.id) item.id = texts.id;
    if (item.was_cents !== undefined && item.was_cents < item.price_cents) faults.set(`item${i}.was`, fault('v_was'));
    return item;
}
