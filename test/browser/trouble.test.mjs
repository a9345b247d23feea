/*
 * The storefront when things go wrong: answers that do not come, refusals of every kind, streams that are cut, a
 * server that is killed, a network that is lost, a device whose clock is wrong or stood still. What no server can be
 * made to do at will is answered by a route, in the server's own form.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { buyer, getItem, makeSale, openItem, openPage, reached, startServer, stopAll, tokenOf, until } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let server;

before(async () => { server = await startServer(); });
after(stopAll);

const text = (page, id) => page.locator(`#${id}`).innerText();

function refuse(route, status, problem) {
    const body = JSON.stringify({ type: 'about:blank', title: problem.code, status, detail: '', ...problem });
    return route.fulfill({ status, contentType: 'application/problem+json', body });
}

// What the order's stream and the order itself say, changed on the way by `change`.
async function bend(page, change) {
    await page.route(/\/v1\/orders\/[^/]+(\/events)?(\?.*)?$/, async (route) => {
        const url = route.request().url().replace(/\/events.*$/, '').replace(/\?.*$/, '');
        const answer = await route.fetch({ url, headers: route.request().headers() });
        const order = change(await answer.json());
        if (!/\/events/.test(route.request().url())) return route.fulfill({ json: order });
        return route.fulfill({ contentType: 'text/event-stream', body: `event: order\nid: 1\ndata: ${JSON.stringify(order)}\n\n` });
    });
}

test('queued, undecided, then the truth; a failed order says why and may be tried again', async () => {
    const { item } = await makeSale(server, { name: 'In line' });
    const { page, go } = await openItem(server, item);
    let as = { status: 'QUEUED', reason: null, pay_by_ms: null };
    await bend(page, (order) => ({ ...order, ...as }));
    await go.click();
    await reached(page, 'queued');
    assert.equal(await page.locator('.steps [aria-current="step"]').innerText(), 'Stored');
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    as = { ...as, reason: 'undecided' };
    await reached(page, 'undecided');
    assert.match(await text(page, 'note'), /not decided yet/);
    as = {};
    await reached(page, 'locked');
    await page.context().close();
    const other = await openItem(server, item);
    await bend(other.page, (order) => ({ ...order, status: 'FAILED', reason: 'sold_out' }));
    await other.go.click();
    await reached(other.page, 'failed');
    assert.match(await text(other.page, 'note'), /could not be completed.*Sold out/);
    assert.equal(await text(other.page, 'go-label'), 'Try again');
    await other.page.context().close();
});

test('blocked, challenge, waiting room: each has its words, none is a dead end without any', async () => {
    const { item } = await makeSale(server, { name: 'Refusals' });
    const { page, go } = await openItem(server, item);
    let problem = { code: 'challenge_failed', retry: 'new-ticket' };
    await page.route('**/v1/items/*/ticket', (route) => refuse(route, 403, problem));
    await go.click();
    await reached(page, 'challenge');
    problem = { code: 'blocked', retry: 'no' };
    await go.click();
    await reached(page, 'blocked');
    assert.match(await text(page, 'note'), /may not buy here/);
    await page.reload();
    await reached(page, 'ready');
    problem = { code: 'waiting_room', retry: 'later', retry_after_ms: 1000 };
    await go.click();
    await reached(page, 'waiting_room');
    await page.context().close();
});

test('overloaded: counted down, then asked again by itself', async () => {
    const { item } = await makeSale(server, { name: 'Crowd' });
    const { page, go } = await openItem(server, item);
    let asked = 0;
    await page.route('**/v1/items/*/ticket', (route) => {
        asked += 1;
        return asked > 2 ? route.continue() : refuse(route, 503, { code: 'overloaded', retry: 'later', retry_after_ms: 2500 });
    });
    await go.click();
    await reached(page, 'overloaded');
    assert.match(await go.innerText(), /^Again in \d s$/);
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    await reached(page, 'locked');
    assert.equal(asked, 3);
    await page.context().close();
});

test('no answer to a buy that the server did take: found by itself, without another press', async () => {
    const { item } = await makeSale(server, { name: 'Half way' });
    const { page, go } = await openItem(server, item);
    await page.route('**/v1/buy/*', async (route) => {
        await route.fetch();
        await route.abort();
    });
    await page.route(/\/v1\/orders\//, (route) => route.abort());
    await go.click();
    await reached(page, 'timed_out');
    assert.match(await text(page, 'note'), /never taken twice/);
    assert.equal(await go.getAttribute('aria-disabled'), 'false', 'pressable at once');
    await page.unroute(/\/v1\/orders\//);
    await reached(page, 'locked');
    assert.equal((await getItem(server, item)).locked, 1);
    await page.context().close();
});

test('no answer to a buy that never arrived: the same ticket again, also after a reload', async () => {
    const { item } = await makeSale(server, { name: 'Lost letter', limit_per_user: 5 });
    const { page, go } = await openItem(server, item);
    const asked = [];
    await page.route('**/v1/buy/*', (route) => {
        asked.push(route.request().url());
        return asked.length < 3 ? route.abort() : route.continue();
    });
    await page.locator('#more').click();
    await go.click();
    await reached(page, 'timed_out');
    await go.click();
    await until('the second sending', () => asked.length === 2);
    await page.reload();
    await reached(page, 'timed_out');
    await go.click();
    await reached(page, 'locked');
    assert.equal(new Set(asked).size, 1, 'one ticket');
    assert.equal((await getItem(server, item)).locked, 2, 'with the quantity it was first sent with');
    await page.context().close();
});

test('two quick presses are one order', async () => {
    const { item } = await makeSale(server, { name: 'Nervous', limit_per_user: 0 });
    const { page, go } = await openItem(server, item);
    await go.evaluate((node) => { node.click(); node.click(); node.click(); });
    await reached(page, 'locked');
    assert.equal((await getItem(server, item)).locked, 1);
    await page.context().close();
});

test('where streams are refused, long poll brings the result; where that is cut too, poll does', async () => {
    const { item } = await makeSale(server, { name: 'Proxy' });
    const { page, go, user } = await openItem(server, item);
    await page.route('**/v1/orders/*/events', (route) => route.fulfill({ status: 502, body: 'no streams here' }));
    const polled = page.waitForRequest((request) => /\/v1\/orders\/[^/]+\?wait_ms=/.test(request.url()));
    await go.click();
    await polled;
    await reached(page, 'locked');
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await reached(page, 'paid');
    await page.context().close();
    const other = await openItem(server, item);
    await other.page.route('**/v1/orders/*/events', (route) => route.abort());
    await other.page.route(/\/v1\/orders\/[^/]+\?wait_ms=/, (route) => route.fulfill({ status: 504, body: 'too long' }));
    const plain = other.page.waitForRequest((request) => /\/v1\/orders\/[^/?]+$/.test(request.url()));
    await other.go.click();
    await plain;
    await reached(other.page, 'locked');
    await other.page.context().close();
});

test('one stream at a time, none while hidden; a cut one comes back with Last-Event-ID', async () => {
    const { item } = await makeSale(server, { name: 'Streams' });
    const open = new Set();
    const lastIds = [];
    const prepare = (page) => {
        page.on('request', (request) => {
            if (!/\/events$/.test(request.url())) return;
            open.add(request);
            if (/orders/.test(request.url())) lastIds.push(request.headers()['last-event-id'] ?? null);
        });
        for (const end of ['requestfailed', 'requestfinished']) page.on(end, (request) => open.delete(request));
    };
    const { page, go, user } = await openItem(server, item, { prepare });
    const hide = (hidden) => page.evaluate((value) => {
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
        document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await until('the item to be followed', () => [...open].some((request) => /items/.test(request.url())));
    await go.click();
    await reached(page, 'locked');
    await until('the order alone to be followed', () => open.size === 1 && [...open].every((request) => /orders/.test(request.url())));
    await hide(true);
    await until('no stream while hidden', () => open.size === 0);
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await hide(false);
    await reached(page, 'paid');
    await until('the item again', () => open.size === 1 && [...open].every((request) => /items/.test(request.url())));
    assert.equal(lastIds[0], null);
    assert.ok(lastIds.length > 1 && lastIds.at(-1) !== null, `went on from where it was: ${lastIds}`);
    await page.context().close();
});

test('a killed server: said, gone on by itself, nothing lost', async () => {
    const fragile = await startServer();
    const { item } = await makeSale(fragile, { name: 'Phoenix', limit_per_user: 5 });
    const { page, go } = await openItem(fragile, item);
    await go.click();
    await reached(page, 'locked');
    await page.locator('[data-act="more"]').click();
    await reached(page, 'ready');
    await fragile.stop('SIGKILL');
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    await until('no stock to be claimed', async () => /being checked/.test(await page.locator('.counts').innerText()));
    await go.click();
    await reached(page, 'timed_out');
    await fragile.start();
    await page.getByRole('alert').waitFor({ state: 'hidden' });
    await go.click();
    await reached(page, 'locked');
    await until('both to be there', async () => (await getItem(fragile, item)).locked === 2);
    await page.getByRole('link', { name: 'My orders', exact: true }).click();
    await until('both to be listed', async () => (await page.locator('.order[data-status="LOCKED"]').count()) === 2);
    await page.context().close();
});

test('the network is lost in the middle of a buy and comes back', async () => {
    const { item } = await makeSale(server, { name: 'Tunnel' });
    const { page, go } = await openItem(server, item);
    await reached(page, 'ready');
    await page.route('**/v1/buy/*', async (route) => {
        await page.context().setOffline(true);
        await route.abort();
    });
    await go.click();
    await reached(page, 'timed_out');
    await page.unroute('**/v1/buy/*');
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole('alert').waitFor({ state: 'hidden' });
    await go.click();
    await reached(page, 'locked');
    await page.context().close();
});

for (const hours of [-1, 1]) {
    test(`the device's clock is wrong by ${hours} h: the countdown is the server's`, async () => {
        const { item, sale } = await makeSale(server, { name: `Wrong ${hours}`, startsInMs: 20000, move: 'warm' });
        const prepare = (page) => page.addInitScript((by) => {
            const real = Date.now;
            Date.now = () => real() + by;
        }, hours * 3600000);
        const { page, go } = await openItem(server, item, { prepare });
        await reached(page, 'before');
        const [shown, asked, now] = await page.evaluate(async () => {
            const read = () => `${document.getElementById('digits').textContent}${document.getElementById('tenth').textContent}`;
            const sent = performance.now();
            const { now_ms: server } = await (await fetch('/v1/time')).json();
            return [read(), performance.now() - sent, server];
        });
        const [minutes, seconds] = shown.split(':').map(Number);
        const off = Math.abs((minutes * 60 + seconds) * 1000 - (sale.starts_at_ms - now));
        assert.ok(off <= asked + 1000, `${shown} is ${off} ms off`);
        await reached(page, 'ready');
        await go.click();
        await reached(page, 'locked');
        await page.context().close();
    });
}

test('after sleep the time is asked for again and the countdown is right', async () => {
    const { item } = await makeSale(server, { name: 'Sleeper', startsInMs: 1800000, move: 'warm' });
    const prepare = (page) => page.addInitScript(() => {
        const steady = performance.now.bind(performance);
        globalThis.slept = 0;
        performance.now = () => steady() - globalThis.slept;
    });
    const { page } = await openItem(server, item, { prepare });
    await reached(page, 'before');
    const left = async () => {
        const [minutes, seconds] = (await text(page, 'digits')).split(':').slice(-2).map(Number);
        return minutes * 60 + seconds;
    };
    await until('the countdown to run', async () => (await left()) < 1800);
    const before = await left();
    // The monotonic clock stood still for 100 s, as some browsers let it while the device sleeps.
    const asked = page.waitForRequest('**/v1/time');
    await page.evaluate(() => { globalThis.slept += 100000; });
    await asked;
    await until('the countdown to be right again', async () => {
        const now = await left();
        return now <= before && now > before - 60;
    });
    await page.context().close();
});

test('a screen reader hears milestones, not each second', async () => {
    const { item } = await makeSale(server, { name: 'Quiet', startsInMs: 14000, move: 'warm' });
    const { page, go } = await openItem(server, item);
    await page.evaluate(() => {
        globalThis.heard = [];
        new MutationObserver(() => globalThis.heard.push(document.getElementById('announce').textContent))
            .observe(document.getElementById('announce'), { childList: true, characterData: true, subtree: true });
    });
    await reached(page, 'ready');
    await go.click();
    await reached(page, 'locked');
    const heard = await page.evaluate(() => globalThis.heard);
    assert.ok(heard.includes('The sale is open.'), heard.join(' | '));
    assert.ok(heard.at(-1).startsWith('Pay'), heard.join(' | '));
    assert.ok(heard.length <= 5, heard.join(' | '));
    await page.context().close();
});

test('the keyboard alone is enough, and the focus stays where it was', async () => {
    const { item } = await makeSale(server, { name: 'Keys', limit_per_user: 5 });
    const { page, go, errors } = await openItem(server, item);
    await reached(page, 'ready');
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.act);
    for (let i = 0; i < 30 && (await focused()) !== 'more'; i += 1) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'go');
    await page.keyboard.press('Enter');
    await reached(page, 'locked');
    assert.equal(await focused(), 'go');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'ask');
    await page.keyboard.press('Enter');
    assert.equal(await focused(), 'keep', 'the harmless one first');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await reached(page, 'ready');
    assert.deepEqual(errors, []);
    assert.ok(go);
    await page.context().close();
});

async function faults(page) {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    const small = await page.evaluate(() => [...document.querySelectorAll('button, a.button, .nav a')]
        .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 40).map((node) => node.outerHTML));
    return [...violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`),
        ...(wide ? ['sideways scrolling'] : []), ...small.map((html) => `small: ${html}`)];
}

for (const [colorScheme, width] of [['light', 360], ['dark', 360], ['light', 1280]]) {
    test(`no accessibility faults on any page, ${colorScheme}, ${width} px wide`, async () => {
        const { item } = await makeSale(server, { name: `Seen in ${colorScheme} at ${width}`, was_cents: 2999, limit_per_user: 5 });
        const screen = { colorScheme, viewport: { width, height: 740 }, reducedMotion: 'reduce' };
        const { page, errors, go, user } = await openItem(server, item, screen);
        const found = [];
        const see = async (what) => found.push(...(await faults(page)).map((fault) => `${what}: ${fault}`));
        await reached(page, 'ready');
        await see('ready');
        await go.click();
        await reached(page, 'locked');
        await page.locator('[data-act="ask"]').click();
        await see('locked');
        await page.locator('[data-act="keep"]').click();
        await page.route('**/v1/items/*/ticket', (route) => refuse(route, 503, { code: 'degraded', retry: 'same-ticket' }));
        await page.locator('[data-act="more"]').click();
        await reached(page, 'ready');
        await go.click();
        await reached(page, 'timed_out');
        await see('timed out');
        for (const path of ['/', '/orders', '/demo/login', `/demo/pay?order=${(await buyer(server, user).orders())[0].order_id}`]) {
            await page.goto(server.url + path);
            await page.locator('html[data-lang]').waitFor();
            await page.locator('.price, .order, #user, #till[data-status="LOCKED"]').first().waitFor();
            await see(path);
        }
        assert.deepEqual(found, []);
        assert.deepEqual(errors.filter((line) => !/503/.test(line)), []);
        await page.context().close();
    });
}

test('the item page weighs less than 30 KB over the wire, everything included; how soon it is ready is printed', async () => {
    const { item } = await makeSale(server, { name: 'Light', was_cents: 2999 });
    const { page } = await openPage(server, {}, `/items/${item.id}#token=${tokenOf(server, 9)}`);
    await reached(page, 'ready');
    const parts = await page.evaluate(() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter((part) => !/\/v1\//.test(part.name))
        .map((part) => ({ name: new URL(part.name).pathname, wire: part.transferSize, body: part.encodedBodySize })));
    const sum = (key) => parts.reduce((total, part) => total + part[key], 0);
    const readyMs = await page.evaluate(() => performance.getEntriesByName('sluice-ready')[0].startTime);
    console.log(`item page: ${sum('wire')} bytes over the wire (${sum('body')} without headers) in ${parts.length} parts, ready after ${Math.round(readyMs)} ms`);
    assert.ok(parts.length >= 10 && parts.every((part) => part.body > 0), JSON.stringify(parts));
    assert.ok(sum('wire') < 30 * 1024, JSON.stringify(parts));
    assert.ok(parts.every((part) => part.name.startsWith('/items/') || /\.[\w-]{8,}\.\w+$/.test(part.name)), 'content-hashed names');
    await page.context().close();
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
