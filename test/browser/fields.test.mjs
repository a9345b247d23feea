/* Unit tests of the input checks of the console's forms, and of the console's texts in both languages. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import * as facts from '../../web/console/facts.js';
import * as fields from '../../web/console/fields.js';

const folder = new URL('../../web/console/', import.meta.url);

test('amounts are exact, and never rounded', () => {
    const good = [['19.9', 2, 1990], ['19,90', 2, 1990], ['0', 2, 0], ['5', 0, 5], ['0.07', 2, 7], ['1.005', 3, 1005], ['21474836.47', 2, 2147483647]];
    for (const [text, digits, cents] of good) assert.deepEqual(fields.amount(text, digits), { value: cents }, text);
    for (const [text, digits] of [['', 2], ['1.005', 2], ['5.0', 0], ['-1', 2], ['1e3', 2], ['1.', 2], ['.5', 2], ['21474836.48', 2], ['١', 2]]) {
        assert.ok(fields.amount(text, digits).fault, text);
    }
    assert.deepEqual(fields.amount('', 2, { optional: true }), { value: undefined });
});

test('what is shown of an amount or a time reads back as the same', () => {
    for (const cents of [0, 7, 1990, 2147483647]) assert.equal(fields.amount(fields.amountText(cents, 2), 2).value, cents);
    const at = Date.UTC(2026, 10, 11, 12, 0, 1);
    assert.equal(fields.moment(fields.momentText(at)).value, at);
});

test('a time that was not touched is what it was, to the millisecond', () => {
    const at = Date.UTC(2026, 10, 11, 12, 0, 1, 234);
    const other = Date.UTC(2026, 10, 11, 12, 0, 2);
    assert.equal(fields.moment(fields.momentText(at), at).value, at);
    assert.equal(fields.moment(fields.momentText(other), at).value, other);
    const before = { name: 'Noon', starts_at_ms: at - 3600000, ends_at_ms: at };
    const texts = { name: 'Late noon', starts: fields.momentText(at - 3600000), ends: fields.momentText(at) };
    assert.deepEqual(fields.readChange(texts, before), { sale: { name: 'Late noon', ends_at_ms: at } });
    assert.equal(fields.readChange({ ...texts, ends: texts.starts }, before).faults.get('ends').fault, 'v_after');
});

test('only what has become another is sent', () => {
    const item = { id: 7, name: 'Kettle', sku: '', image_url: '', price_cents: 1990, was_cents: null, total: 3, limit_per_user: 1 };
    const before = { id: 3, state: 'draft', name: 'Noon', ends_at_ms: 5, pay_url: null, bar_unpaid: false, items: [{ ...item, state: 'upcoming', available: 3 }] };
    const read = { name: 'Noon', ends_at_ms: 5, pay_url: '', bar_unpaid: false, items: [{ ...item, was_cents: undefined }] };
    assert.deepEqual(fields.changesOf(before, read), {});
    assert.deepEqual(fields.changesOf(before, { ...read, name: 'Eve', bar_unpaid: true }), { name: 'Eve', bar_unpaid: true });
    const dearer = [{ ...item, price_cents: 2000 }];
    assert.deepEqual(fields.changesOf(before, { ...read, items: dearer }), { items: dearer });
    assert.deepEqual(Object.keys(fields.changesOf(before, { ...read, items: [...read.items, { ...item, id: undefined }] })), ['items']);
});

test('of several sessions only those that are not made yet are left, each as long as the first', () => {
    const sale = { name: 'Noon', starts_at_ms: 1000, ends_at_ms: 1600 };
    const hours = (made) => fields.sessionsLeft(sale, [5000, 9000], made).map((one) => [one.starts_at_ms, one.ends_at_ms]);
    assert.deepEqual(hours([]), [[1000, 1600], [5000, 5600], [9000, 9600]]);
    assert.deepEqual(hours([{ id: 1, starts_at_ms: 1000 }, { id: 2, starts_at_ms: 5000 }]), [[9000, 9600]]);
    assert.equal(fields.sessionsLeft(sale, [5000], [])[1].name, 'Noon');
});

test('names are bounded in bytes, as at the server', () => {
    assert.deepEqual(fields.label('  Kettle '), { value: 'Kettle' });
    assert.ok(fields.label('   ').fault);
    assert.equal(fields.label('茶'.repeat(66)).value.length, 66);
    assert.equal(fields.label('茶'.repeat(67)).fault, 'v_long');
});

test('addresses lead to the web or to this server', () => {
    for (const text of ['https://a.example/x', 'http://a.example', '/pictures/1.webp', '']) assert.equal(fields.webAddress(text).fault, undefined, text);
    for (const text of ['javascript:alert(1)', 'a.example', 'data:text/html,x', 'https://a b', '//a.example/x', '/\\a.example/x']) assert.equal(fields.webAddress(text).fault, 'v_url', text);
    for (const text of ['/pay', '/{o}?{o}']) assert.equal(fields.webAddress(text, { needs: '{o}' }).fault, 'v_order', text);
    assert.equal(fields.webAddress('/pay?{o}', { needs: '{o}' }).value, '/pay?{o}');
});

test('more hours of the same day, each once, and never that of the start', () => {
    const noon = new Date(2026, 10, 11, 12, 0, 0).getTime();
    const at = (hour, minute = 0) => new Date(2026, 10, 11, hour, minute).getTime();
    assert.deepEqual(fields.moreHours('', noon), { value: [] });
    assert.deepEqual(fields.moreHours(' 20:00,14:30 12:00，8；20'.replace('；', ';'), noon), { value: [at(8), at(14, 30), at(20)] });
    for (const text of ['24:00', '9:60', 'noon', '8:0', '-1']) assert.equal(fields.moreHours(text, noon).fault, 'v_hours', text);
});

test('what became of the requests adds up to what arrived', () => {
    const sum = ({ parts }) => parts.reduce((all, { n }) => all + n, 0);
    const funnel = { requests: 615, tickets: 152, accepted: 150, repeated: 3 };
    const seen = facts.balance({ funnel, rejects: { sold_out: 20, limit_reached: 7 } });
    assert.equal(seen.total, 615);
    assert.equal(sum(seen), 615);
    assert.deepEqual(Object.fromEntries(seen.parts.map(({ key, n }) => [key, n])), { refused: 27, tickets: 152, accepted: 150, repeated: 3, rest: 283 });
    // What could not be read at all is refused, but was never a request.
    const broken = facts.balance({ funnel: { requests: 0, tickets: 0, accepted: 0, repeated: 0 }, rejects: { timeout: 4 } });
    assert.equal(broken.total, 4);
    assert.equal(sum(broken), 4);
});

test('a backlog grows where it does so for a minute, not where it goes up and down', () => {
    const heard = (of, seconds = 90) => Array.from({ length: seconds }, (_, i) => ({ at_ms: 1000 * i, n: of(i) }));
    assert.equal(facts.grows([]), false);
    assert.equal(facts.grows(heard((i) => 10 * i)), true);
    assert.equal(facts.grows(heard((i) => 10 * i, 59)), false, 'not heard for a minute yet');
    assert.equal(facts.grows(heard((i) => 100 + 50 * (i % 2))), false);
    assert.equal(facts.grows(heard((i) => 1000 - i)), false);
    assert.equal(facts.grows(heard(() => 500)), false);
});

test('every difference that the server may tell of has its words', async () => {
    const { default: en } = await import(new URL('en.js', folder));
    const header = readFileSync(new URL('../../src/ledger/difference.h', import.meta.url), 'utf8');
    const kinds = [...header.matchAll(/X\(DIFFERENCE_\w+, "(\w+)"\)/g)].map((found) => found[1]);
    assert.ok(kinds.length >= 16);
    for (const kind of kinds) assert.ok(`d_${kind}` in en, kind);
});

test('every reason that the server may give has its words', async () => {
    const { default: en } = await import(new URL('en.js', folder));
    const header = readFileSync(new URL('../../src/core/types.h', import.meta.url), 'utf8');
    const codes = [...header.matchAll(/X\(REFUSAL_\w+, \d+, "(\w+)"/g)].map((found) => found[1]).filter((code) => code !== 'none');
    assert.ok(codes.length >= 30);
    for (const code of codes) assert.ok(`w_${code}` in en, code);
});

test('both languages have the same keys and fill in the same values', async () => {
    const { default: en } = await import(new URL('en.js', folder));
    const { default: zh } = await import(new URL('zh.js', folder));
    const values = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort();
    assert.deepEqual(Object.keys(zh), Object.keys(en));
    for (const key of Object.keys(en)) assert.deepEqual(values(zh[key]), values(en[key]), key);
    const code = readdirSync(folder).filter((name) => /^(?!(en|zh)\.js$).*\.(js|html)$/.test(name)).map((name) => readFileSync(new URL(name, folder), 'utf8')).join('\n');
    for (const [, key] of code.matchAll(/\bt\('(\w+)'/g)) assert.ok(key in en, `${key} exists`);
    for (const [, key] of code.matchAll(/data-t(?:-label)?="(\w+)"/g)) assert.ok(key in en, `${key} exists`);
    for (const key of Object.keys(en)) {
        assert.ok(/^(c|s|st|is|sg|d|tr|v|f|w)_/.test(key) || code.includes(`'${key}'`) || code.includes(`"${key}"`) || /Text$/.test(key), `${key} is used`);
    }
});
