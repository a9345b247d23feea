/*
 * Unit tests of the storefront's texts: both languages have the same keys with the same placeholders, every key in use
 * exists, and no key is unused.
 */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { ROWS } from '../../web/store/machine.js';
import demoEn from '../../web/demo/en.js';
import demoZh from '../../web/demo/zh.js';
import storeEn from '../../web/store/en.js';
import storeZh from '../../web/store/zh.js';

const en = { ...storeEn, ...demoEn };
const zh = { ...storeZh, ...demoZh };

const at = (folder) => new URL(`../../web/${folder}/`, import.meta.url);
const sources = ['store', 'demo'].flatMap((folder) => readdirSync(at(folder))
    .filter((name) => !/^(en|zh)\.js$/.test(name)).map((name) => readFileSync(new URL(name, at(folder)), 'utf8')));
const values = (text) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]))].sort();

test('both languages say everything, with the same values', () => {
    assert.deepEqual(Object.keys(zh), Object.keys(en));
    for (const [key, text] of Object.entries(en)) {
        if (key === 'n_ready') continue;   // ready needs no word
        assert.ok(text && zh[key], key);
        assert.match(zh[key], /[\u4e00-\u9fff]/, `${key} is in Chinese`);
        if (key !== 'off') assert.deepEqual(values(zh[key]), values(text), key);   // 25 % off is 7.5 折
    }
});

test('Chinese has its own stops', () => {
    for (const [key, text] of Object.entries(zh)) assert.doesNotMatch(text, /[\u4e00-\u9fff}][.,;:!?](?!\d)/, key);
});

test('every text that is used exists', () => {
    for (const text of sources) {
        const used = [...text.matchAll(/data-t(?:-label)?="(\w+)"/g), ...text.matchAll(/\bt\('(\w+)'/g)].map((found) => found[1]);
        for (const key of used) assert.ok(key in en, key);
    }
    for (const { name } of ROWS) assert.ok(`b_${name}` in en && `n_${name}` in en, name);
    for (const status of ['QUEUED', 'LOCKED', 'PAID', 'EXPIRED', 'CANCELLED', 'FAILED']) assert.ok(`s_${status}` in en, status);
});

test('every text is used', () => {
    const all = sources.join('\n');
    const made = /^(b|n|c|s|live|step)_/;   // put together from a state, a code or a status
    const left = Object.keys(en).filter((key) => !made.test(key) && !new RegExp(`["'\`]${key}["'\`]`).test(all));
    assert.deepEqual(left, []);
});
