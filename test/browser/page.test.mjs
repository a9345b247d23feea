/*
 * The buyer's page against the real server, as a buyer meets it: what it shows, buying to the end, and what it
 * does when answers do not come. Conditions are waited for; no verdict depends on how fast the machine is.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import {
    buyer, getItem, getSales, makeSale, openPage, phase, startServer, stopAll, tokenOf, until,
} from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let server;

before(async () => { server = await startServer(); });
after(stopAll);

const buyButton = (card) => card.locator('.buy');
const grey = async (card) => (await buyButton(card).getAttribute('aria-disabled')) === 'true';
const shown = async (card, name) => Number((await card.locator(`.n-${name}`).innerText()).replace(/\D/g, ''));

function refuse(route, problem) {
    const body = JSON.stringify({ type: 'about:blank', title: problem.code, status: 503, detail: '', ...problem });
    return route.fulfill({ status: 503, contentType: 'application/problem+json', body });
}

test('the demonstration sales are shown, with prices, limits, stock and a countdown', async () => {
    const { page, errors } = await openPage(server);
    const sales = await getSales(server);
    assert.ok(sales.length >= 2, 'two demonstration sales');
    for (const sale of sales) {
        await page.getByRole('heading', { level: 2, name: sale.name, exact: true }).waitFor();
        for (const item of sale.items) {
            const card = page.getByRole('article', { name: item.name, exact: true });
            assert.match(await card.locator('.price').innerText(), /\d/);
            const bar = await card.getByRole('img').getAttribute('aria-label');
            assert.match(bar, /of .* left, .* being paid, .* sold/);
        }
    }
    const limits = new Set(sales.flatMap((sale) => sale.items.map((item) => item.limit_per_user)));
    for (const limit of [0, 1, 5]) assert.ok(limits.has(limit), `an item with limit ${limit}`);
    const open = page.locator('section[data-state="open"] .timer').first();
    const first = await open.innerText();
    assert.match(first, /^(\d+d )?(\d\d:)?\d\d:\d\d$/);
    await until('the countdown to move', async () => (await open.innerText()) !== first);
    assert.match(await page.locator('#clock').innerText(), /^\d\d:\d\d:\d\d$/);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('buying: the order is pushed to the page, paid there, and counted as sold', async () => {
    const { item } = await makeSale(server, { name: 'Lamp', was_cents: 3998 });
    const { page, errors, card } = await openPage(server);
    const lamp = card(item);
    let loads = 0;
    page.on('load', () => { loads += 1; });
    const streamed = page.waitForRequest((request) => /\/v1\/orders\/[^/]+\/events$/.test(request.url()));
    assert.match(await lamp.locator('.off').innerText(), /50%/);
    await buyButton(lamp).click();
    assert.match((await (await streamed).allHeaders()).authorization, /^Bearer /);
    await phase(lamp, 'locked');
    assert.match(await lamp.locator('.slip .timer').innerText(), /^\d\d:\d\d$/);
    await until('the lock to be counted', async () => (await shown(lamp, 'locked')) === 1);
    await lamp.getByRole('button', { name: /^Pay/ }).click();
    await phase(lamp, 'paid');
    await page.locator('#order-list [data-status="PAID"]').waitFor();
    await until('the sale to be counted', async () => (await shown(lamp, 'sold')) === 1);
    assert.equal(await shown(lamp, 'available'), 9);
    assert.match(await page.getByRole('status').innerText(), /Lamp: Paid/);
    assert.ok(await grey(lamp), 'one per buyer: nothing more to buy');
    assert.equal(loads, 0, 'without a reload');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('cancelling gives the stock back, and the buyer may try again', async () => {
    const { item } = await makeSale(server, { name: 'Kettle' });
    const { page, errors, card } = await openPage(server);
    const kettle = card(item);
    await buyButton(kettle).click();
    await phase(kettle, 'locked');
    await kettle.getByRole('button', { name: 'Cancel' }).click();
    await phase(kettle, 'open');
    await until('the unit to be back', async () => (await shown(kettle, 'available')) === 10);
    assert.equal((await getItem(server, item)).available, 10);
    await buyButton(kettle).click();
    await phase(kettle, 'locked');
    assert.equal(await page.locator('#order-list [data-status="CANCELLED"]').count(), 1);
    assert.equal(await page.locator('#order-list [data-status="LOCKED"]').count(), 1, 'a new order');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('a reload restores the order, with pay and cancel', async () => {
    const { item } = await makeSale(server, { name: 'Chair' });
    const { page, errors, card } = await openPage(server);
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    const id = await page.locator('#order-list [data-status="LOCKED"]').getAttribute('data-order');
    await page.reload();
    await phase(card(item), 'locked');
    assert.equal(await page.locator('#order-list [data-status="LOCKED"]').getAttribute('data-order'), id);
    await card(item).getByRole('button', { name: /^Pay/ }).click();
    await phase(card(item), 'paid');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('a cumulative limit: quantities, what is held, and the end of it', async () => {
    const { item } = await makeSale(server, { name: 'Tea', limit_per_user: 5, total: 100 });
    const { page, errors, card } = await openPage(server);
    const tea = card(item);
    assert.equal(await tea.locator('.held').innerText(), 'Yours: 0/5');
    await tea.getByRole('button', { name: 'More: Tea' }).click();
    await buyButton(tea).click();
    await until('two to be held', async () => (await tea.locator('.held').innerText()) === 'Yours: 2/5');
    await phase(tea, 'open');
    await tea.getByLabel('Quantity').fill('9');
    await tea.getByLabel('Quantity').blur();
    assert.equal(await tea.getByLabel('Quantity').inputValue(), '3', 'no more than the limit leaves');
    await buyButton(tea).click();
    await until('five to be held', async () => (await tea.locator('.held').innerText()) === 'Yours: 5/5');
    await phase(tea, 'locked');
    const unpaid = page.locator('#order-list [data-status="LOCKED"]');
    assert.equal(await unpaid.count(), 2);
    for (let left = 2; left > 0; left -= 1) {
        await unpaid.first().getByRole('button', { name: /^Pay/ }).click();
        await until('one order less to pay', async () => (await unpaid.count()) === left - 1);
    }
    await phase(tea, 'full');
    assert.equal((await getItem(server, item)).sold, 5);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('sold out is shown, and a returned unit can be bought without a reload', async () => {
    const { item } = await makeSale(server, { name: 'Last one', total: 1 });
    const { page, errors, card } = await openPage(server);
    const other = buyer(server, 700001);
    await phase(card(item), 'open');
    const order = await other.buy(item);
    await phase(card(item), 'sold_out');
    assert.ok(await grey(card(item)));
    assert.match(await card(item).locator('.message').innerText(), /come back/);
    await other.cancel(order);
    await phase(card(item), 'open');
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('too late: the last unit goes to another while the page is asking', async () => {
    const { item } = await makeSale(server, { name: 'Race', total: 1 });
    const { page, errors, card } = await openPage(server);
    await page.route('**/v1/buy/*', async (route) => {
        await buyer(server, 700002).buy(item);
        return route.continue();
    });
    await buyButton(card(item)).click();
    await phase(card(item), 'sold_out');
    assert.match(await card(item).locator('.message').innerText(), /All taken for now/);
    assert.equal(await page.locator('#orders').isVisible(), false, 'no order was made');
    assert.equal(errors.length, 1, 'the refusal itself');
    await page.context().close();
});

test('before the start the button is grey and counts down; the server\'s clock alone opens it', async () => {
    const { item, sale } = await makeSale(server, { name: 'Dawn', startsInMs: 6000, move: 'warm' });
    const { page, card } = await openPage(server);
    for (const path of ['**/v1/sales', '**/v1/items/*/events']) await page.route(path, (route) => route.abort());
    assert.equal(await page.locator(`section[data-sale="${sale.id}"]`).getAttribute('data-state'), 'upcoming');
    assert.ok(await grey(card(item)));
    assert.match(await buyButton(card(item)).innerText(), /^Starts in 00:0\d$/);
    await phase(card(item), 'open');
    const { now_ms: time } = await fetch(`${server.url}/v1/time`).then((answer) => answer.json());
    assert.ok(time >= sale.starts_at_ms - 50, 'not before the server says so');
    await buyButton(card(item)).click();
    await until('the order to be locked, asking again where it was a moment early', async () => {
        const now = await card(item).getAttribute('data-phase');
        if (now === 'wait' && !(await grey(card(item)))) await buyButton(card(item)).click();
        return now === 'locked';
    });
    await page.context().close();
});

test('an older view of an order never replaces a newer one', async () => {
    const { item } = await makeSale(server, { name: 'Arrow' });
    const { page, card } = await openPage(server);
    let streams = 0;
    await page.route('**/v1/orders/*/events', async (route) => {
        const { authorization } = await route.request().allHeaders();
        const url = `${route.request().url().replace(/\/events$/, '')}?wait_ms=5000`;
        const order = await fetch(url, { headers: { authorization } }).then((answer) => answer.json());
        const event = (view) => `event: order\ndata: ${JSON.stringify(view)}\n\n`;
        streams += 1;
        const body = event(order) + event({ ...order, status: 'QUEUED' });
        return route.fulfill({ contentType: 'text/event-stream', body });
    });
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    await card(item).evaluate((node) => {
        new MutationObserver(() => { if (node.dataset.phase !== 'locked') node.dataset.fell = 'back'; })
            .observe(node, { attributes: true, attributeFilter: ['data-phase'] });
    });
    const seen = streams;
    await until('the stale view to have come again', () => streams >= seen + 2);
    assert.equal(await card(item).getAttribute('data-phase'), 'locked');
    assert.equal(await card(item).getAttribute('data-fell'), null);
    await page.context().close();
});

test('an order that is not paid in time is told so, and its unit returns', async () => {
    const { item } = await makeSale(server, { name: 'Slow', payWithinS: 3 });
    const { page, errors, card } = await openPage(server);
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    await phase(card(item), 'open');
    assert.match(await card(item).locator('.message').innerText(), /Not paid in time/);
    await page.locator('#order-list [data-status="EXPIRED"]').waitFor();
    await until('the unit to be back', async () => (await shown(card(item), 'available')) === 10);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('503 same-ticket: orange, pressable, and the same ticket tells the outcome', async () => {
    const { item } = await makeSale(server, { name: 'Doubt' });
    const { page, card } = await openPage(server);
    const asked = [];
    await page.route('**/v1/buy/*', async (route) => {
        asked.push(route.request().url());
        if (asked.length > 1) return route.continue();
        await route.fetch();   // the server acts; only its answer is lost
        return refuse(route, { code: 'degraded', retry: 'same-ticket' });
    });
    await buyButton(card(item)).click();
    await phase(card(item), 'unsure');
    assert.ok(!(await grey(card(item))), 'not a dead end');
    assert.match(await card(item).locator('.message').innerText(), /never taken twice/);
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    assert.equal(asked.length, 2);
    assert.equal(asked[0], asked[1], 'the same ticket');
    assert.equal((await getItem(server, item)).locked, 1, 'one unit, not two');
    await page.context().close();
});

test('no answer at all: the ticket survives a reload', async () => {
    const { item } = await makeSale(server, { name: 'Tunnel' });
    const { page, card } = await openPage(server);
    const asked = [];
    await page.route('**/v1/buy/*', async (route) => {
        asked.push(route.request().url());
        return asked.length > 1 ? route.continue() : route.abort();
    });
    await buyButton(card(item)).click();
    await phase(card(item), 'unsure');
    await page.reload();
    await phase(card(item), 'unsure');
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    assert.equal(asked[0], asked[1], 'the same ticket');
    await page.context().close();
});

test('busy: the page waits as long as the server asks, then may be pressed again', async () => {
    const { item } = await makeSale(server, { name: 'Crowd' });
    const { page, card } = await openPage(server);
    let refused = 0;
    await page.route('**/v1/items/*/ticket', (route) => {
        refused += 1;
        if (refused > 1) return route.continue();
        return refuse(route, { code: 'overloaded', retry: 'later', retry_after_ms: 1500 });
    });
    await buyButton(card(item)).click();
    await phase(card(item), 'wait');
    await until('the wait to end', async () => !(await grey(card(item))));
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    await page.context().close();
});

test('where streams are refused, long poll brings the result', async () => {
    const { item } = await makeSale(server, { name: 'Proxy' });
    const { page, card } = await openPage(server);
    await page.route('**/v1/orders/*/events', (route) => route.fulfill({ status: 502, body: 'no streams here' }));
    const polled = page.waitForRequest((request) => /\/v1\/orders\/[^/]+\?wait_ms=/.test(request.url()));
    await buyButton(card(item)).click();
    await polled;
    await phase(card(item), 'locked');
    await card(item).getByRole('button', { name: 'Cancel' }).click();
    await phase(card(item), 'open');
    await page.context().close();
});

test('the server is killed and comes back: the page says so, goes on by itself, and nothing is lost', async () => {
    const fragile = await startServer();
    const { item } = await makeSale(fragile, { name: 'Phoenix' });
    const { page, card } = await openPage(fragile);
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    await fragile.stop('SIGKILL');
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    await fragile.start();
    await page.getByRole('alert').waitFor({ state: 'hidden' });
    await card(item).getByRole('button', { name: /^Pay/ }).click();
    await phase(card(item), 'paid');
    assert.equal((await getItem(fragile, item)).sold, 1);
    await page.context().close();
});

test('another buyer in the login box has his own orders', async () => {
    const { item } = await makeSale(server, { name: 'Pair' });
    const { page, errors, card } = await openPage(server);
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    await page.getByLabel('Buyer').fill('424242');
    await page.getByRole('button', { name: 'Switch' }).click();
    await phase(card(item), 'open');
    assert.equal(await page.getByLabel('Buyer').inputValue(), '424242');
    assert.equal(await page.locator('#orders').isVisible(), false);
    await page.getByLabel('Buyer').fill('0');
    await page.getByRole('button', { name: 'Switch' }).click();
    assert.match(await page.getByRole('alert').innerText(), /whole number/);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('Chinese is spoken to those who read it', async () => {
    const { item } = await makeSale(server, { name: '台灯', limit_per_user: 5 });
    const { page, errors, card } = await openPage(server, { locale: 'zh-CN' });
    assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN');
    assert.equal(await buyButton(card(item)).innerText(), '立即抢购');
    assert.equal(await card(item).locator('.held').innerText(), '已抢 0/5');
    await buyButton(card(item)).click();
    await card(item).getByRole('button', { name: /^支付/ }).waitFor();
    await page.getByRole('heading', { name: '我的订单' }).waitFor();
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('the keyboard alone is enough, and the focus stays on the button', async () => {
    const { item } = await makeSale(server, { name: 'Keys', limit_per_user: 5 });
    const { page, errors, card } = await openPage(server);
    for (let i = 0; i < 200; i += 1) {
        await page.keyboard.press('Tab');
        if (await buyButton(card(item)).evaluate((node) => node === document.activeElement)) break;
    }
    await page.keyboard.press('Enter');
    const pay = card(item).getByRole('button', { name: /^Pay/ });
    await pay.waitFor();
    assert.ok(await buyButton(card(item)).evaluate((node) => node === document.activeElement));
    await page.keyboard.press('Tab');
    assert.ok(await pay.evaluate((node) => node === document.activeElement));
    await page.keyboard.press('Space');
    await page.locator('#order-list [data-status="PAID"]').waitFor();
    assert.deepEqual(errors, []);
    await page.context().close();
});

for (const colorScheme of ['light', 'dark']) {
    test(`no accessibility faults on a phone, ${colorScheme}`, async () => {
        const { item } = await makeSale(server, { name: `Phone ${colorScheme}`, was_cents: 2999 });
        const phone = { colorScheme, viewport: { width: 360, height: 740 }, hasTouch: true };
        const { page, errors, card } = await openPage(server, phone);
        await buyButton(card(item)).tap();
        await phase(card(item), 'locked');
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run());
        assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), []);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        assert.equal(wide, false, 'no sideways scrolling');
        const small = await page.evaluate(() => [...document.querySelectorAll('button, a.button')]
            .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 40)
            .map((node) => node.outerHTML));
        assert.deepEqual(small, [], 'buttons a thumb can hit');
        assert.deepEqual(errors, []);
        await page.context().close();
    });
}

test('the page and its parts are cached as they should be, under a strict policy', async () => {
    const page = await fetch(`${server.url}/`);
    assert.match(page.headers.get('cache-control'), /no-cache/);
    assert.match(page.headers.get('content-security-policy'), /(?:script|default)-src 'self'/);
    assert.doesNotMatch(page.headers.get('content-security-policy'), /unsafe-inline/);
    const again = await fetch(`${server.url}/`, { headers: { 'if-none-match': page.headers.get('etag') } });
    assert.equal(again.status, 304);
    const parts = [...(await page.text()).matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map((found) => found[1]);
    assert.ok(parts.length >= 5);
    for (const part of parts) {
        assert.match(part, /\/assets\/\w+\.[\w-]{6,}\.\w+$/, 'a content-hashed name');
        const answer = await fetch(server.url + part);
        assert.equal(answer.status, 200, part);
        assert.match(answer.headers.get('cache-control'), /immutable/);
    }
});

test('without the demonstration: the token comes in the fragment; no pay button, no login box', async () => {
    const shop = await startServer([]);
    const { item } = await makeSale(shop, { name: 'Real thing' });
    const { page, errors, card } = await openPage(shop, {}, `/#token=${tokenOf(shop, 77)}`);
    assert.equal(new URL(page.url()).hash, '');
    assert.equal(await page.locator('#login').isVisible(), false);
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    assert.equal(await card(item).getByRole('button', { name: /^Pay/ }).count(), 0);
    await page.reload();
    await phase(card(item), 'locked');
    assert.deepEqual(errors, []);
    await page.context().close();
    const stranger = await openPage(shop);
    await buyButton(stranger.card(item)).click();
    await stranger.page.getByRole('alert').waitFor();
    assert.match(await stranger.page.getByRole('alert').innerText(), /log in/);
    await stranger.page.context().close();
});

test('a buyer without a token is sent to the shop\'s login, and comes back able to buy', async () => {
    const login = 'https://shop.example/login';
    const shop = await startServer(['--set', `page.login_url=${login}`]);
    const { item } = await makeSale(shop, { name: 'Members only' });
    const { page, card } = await openPage(shop);
    await page.route(login, (route) => route.fulfill({
        status: 302,
        headers: { location: `${shop.url}/#token=${tokenOf(shop, 78)}` },
    }));
    assert.equal(await page.getByRole('link', { name: 'Log in' }).getAttribute('href'), login);
    await buyButton(card(item)).click();
    await until('the fragment to be gone', () => page.url() === `${shop.url}/`);
    await page.getByRole('link', { name: 'Log in' }).waitFor({ state: 'hidden' });
    await buyButton(card(item)).click();
    await phase(card(item), 'locked');
    await page.context().close();
});
