/*
 * The cost of loading the storefront: bytes on the network in both languages, the time until the button is ready, here
 * and on a slow phone, and the caching of pages and files. Times are printed only; no test fails because of them.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LONG, makeSale, openContext, reached, remember, startServer, stopAll, tokenOf, until } from './harness.mjs';

const MOST_BYTES = 30000;
const SLOW = { offline: false, latency: 400, downloadThroughput: 400000 / 8, uploadThroughput: 400000 / 8 };

let server;

before(async () => { server = await startServer(); });
after(stopAll);

// Opens an item's page for the first time, and counts what comes over the wire, heads and bodies, until it is ready.
async function load(locale, prepare = () => {}) {
    const { item } = await makeSale(server, { name: `Light ${locale}`, was_cents: 2999 });
    await until('the page to be made', async () => (await fetch(`${server.url}/items/${item.id}`)).ok);
    const page = await (await openContext({ locale })).newPage();
    const tab = await page.context().newCDPSession(page);
    await tab.send('Network.enable');
    await prepare(tab);
    const parts = new Map();
    tab.on('Network.responseReceived', ({ requestId, response }) => {
        if (!/\/v1\//.test(response.url)) parts.set(requestId, { path: new URL(response.url).pathname, bytes: null });
    });
    tab.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
        if (parts.has(requestId)) parts.get(requestId).bytes = encodedDataLength;
    });
    await remember(page, tokenOf(server, 9));
    await page.goto(`${server.url}/items/${item.id}`);
    await reached(page, 'ready');
    await until('every part to be there', () => [...parts.values()].every((part) => part.bytes !== null));
    const readyMs = Math.round(await page.evaluate(async () => {
        while (!performance.getEntriesByName('sluice-ready').length) await new Promise((done) => { setTimeout(done, 10); });
        return performance.getEntriesByName('sluice-ready')[0].startTime;
    }));
    await page.context().close();
    return { parts: [...parts.values()], readyMs };
}

for (const locale of ['en-US', 'zh-CN']) {
    test(`the item page weighs less than ${MOST_BYTES} bytes over the wire, everything included: ${locale}`, async () => {
        const { parts, readyMs } = await load(locale);
        const sum = parts.reduce((total, part) => total + part.bytes, 0);
        console.log(`item page, ${locale}: ${sum} bytes over the wire in ${parts.length} parts, ready after ${readyMs} ms`);
        assert.ok(parts.length >= 10, JSON.stringify(parts));
        assert.ok(sum < MOST_BYTES, JSON.stringify(parts));
        assert.ok(parts.every(({ path }) => path.startsWith('/items/') || /\.[\w-]{8,}\.\w+$/.test(path)), 'content-hashed names');
    });
}

// It takes seconds by its nature, and nothing but the time differs from what the tests above load.
if (LONG) test('on a slow phone (400 kbit/s, 400 ms round trip, a quarter of the speed) the page becomes ready; how soon is printed', async () => {
    const { readyMs } = await load('en-US', async (tab) => {
        await tab.send('Network.emulateNetworkConditions', SLOW);
        await tab.send('Emulation.setCPUThrottlingRate', { rate: 4 });
    });
    console.log(`item page on a slow phone: ready after ${readyMs} ms`);
});

test('pages and parts are cached as they should be, under a strict policy', async () => {
    const { item } = await makeSale(server, { name: 'Cached' });
    await until('the page to be made', async () => (await fetch(`${server.url}/items/${item.id}`)).ok);
    for (const path of ['/', `/items/${item.id}`, '/orders', '/demo/login', '/demo/pay']) {
        const page = await fetch(server.url + path);
        const policy = page.headers.get('content-security-policy');
        assert.match(policy, /default-src 'self'/, path);
        assert.doesNotMatch(policy, /unsafe/, path);
        const again = await fetch(server.url + path, { headers: { 'if-none-match': page.headers.get('etag') } });
        assert.equal(again.status, 304, path);
        const html = await page.text();
        assert.doesNotMatch(html, /<script(?![^>]*(src=|type="application\/json"))|\sstyle=|\son\w+=|<style/, path);
        assert.doesNotMatch(html, /(src|href)="https?:/, 'no other host');
        for (const [, part] of html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
            const answer = await fetch(server.url + part, { headers: { 'accept-encoding': 'gzip' } });
            assert.equal(answer.status, 200, part);
            assert.match(answer.headers.get('cache-control'), /immutable/, part);
        }
    }
});
