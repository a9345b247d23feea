/*
 * The page's texts without a browser: every key that is used exists, none is left over, and both languages
 * fill in the same values.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const read = (name) => readFileSync(new URL(`../../web/${name}`, import.meta.url), 'utf8');
const table = [...read('words.js').matchAll(/^ {4}(\w+): \[\s*'((?:[^'\\]|\\.)*)',\s*'((?:[^'\\]|\\.)*)',?\s*\]/gm)];
const keys = new Set(table.map((row) => row[1]));
const values = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort();

test('both languages say everything, with the same values', () => {
    assert.ok(keys.size > 60);
    for (const [, key, en, zh] of table) {
        assert.ok(en && zh, key);
        assert.match(zh, /[\u4e00-\u9fff]/, `${key} is in Chinese`);
        if (key !== 'off') assert.deepEqual(values(zh), values(en), key);   // 25 % off is 7.5 折
    }
});

test('every text that is used exists, and each is used', () => {
    const page = read('index.html');
    const used = new Set([...page.matchAll(/data-t="(\w+)"/g)].map((found) => found[1]));
    for (const [, key] of read('app.js').matchAll(/'(\w+)'/g)) if (keys.has(key)) used.add(key);
    for (const [, key] of read('app.js').matchAll(/\bt\('(\w+)'/g)) assert.ok(keys.has(key), key);
    for (const key of used) assert.ok(keys.has(key), key);
    for (const key of keys) assert.ok(used.has(key) || /^(c|s|chip)_/.test(key), `${key} is used`);
    const statuses = ['QUEUED', 'LOCKED', 'PAID', 'EXPIRED', 'CANCELLED', 'FAILED'];
    for (const status of statuses) assert.ok(keys.has(`s_${status}`), status);
});
