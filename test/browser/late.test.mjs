/*
 * The pages' scripts when answers are late, duplicated, outdated, or meant for a buyer who has logged out. The page shows
 * only the current buyer's data, asks again for what is missing, and limits how often it asks.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { note, noted, ownClock, soon } from './bend.mjs';
import { buyer, comeBack, loginReady, makeSale, openContext, openItem, reached, remember, startServer, stopAll, tokenOf, until } from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

test('a buy whose answer was lost is repeated, and the button then leads to the shop\'s till', async () => {
    const shop = await startServer([]);
    const { item } = await makeSale(shop, { name: 'Twice asked', sale: { pay_url: 'https://shop.example/pay/{order_id}' } });
    const { page, go } = await openItem(shop, item);
    await page.route('https://shop.example/pay/*', (route) => route.fulfill({ contentType: 'text/html', body: 'the till' }));
    let sent = 0;
    await page.route('**/v1/buy/*', async (route) => {
        sent += 1;
        if (sent > 1) return route.continue();
        await route.fetch();
        return route.abort();
    });
    await page.route(/\/v1\/orders\//, (route) => route.abort());
    await go.click();
    await reached(page, 'timed_out');
    await go.click();
    await reached(page, 'locked');
    await page.unroute(/\/v1\/orders\//);
    await page.locator('#go[aria-disabled="false"]').waitFor();
    await go.click();
    await page.waitForURL('https://shop.example/pay/*');
    await page.context().close();
});

test('a new session appears, however often the page with it did not come, was an error, or was an old one', async () => {
    const page = await (await openContext()).newPage();
    await ownClock(page);
    await page.addInitScript(() => {
        const timeout = AbortSignal.timeout.bind(AbortSignal);
        AbortSignal.timeout = (ms) => timeout(globalThis.patienceMs ?? ms);
    });
    await page.goto(`${server.url}/`);
    await page.locator('.card .price').first().waitFor();
    const old = await (await fetch(`${server.url}/`)).text();
    const hurry = (ms) => page.evaluate((value) => { globalThis.patienceMs = value; }, ms);
    await hurry(100);
    let asked = 0;
    await page.route(`${server.url}/`, async (route) => {
        asked += 1;
        if (asked === 1) return undefined;     // never answered
        await hurry(undefined);
        if (asked === 2) return route.fulfill({ status: 503, contentType: 'text/html', body: old });
        if (asked === 3) return route.fulfill({ contentType: 'text/html', body: old });
        return route.continue();
    });
    const { item } = await makeSale(server, { name: 'Late in the list' });
    await soon(page, 'the new one', () => page.locator(`.card[data-item="${item.id}"]`).isVisible());
    assert.equal(asked, 4);
    await page.context().close();
});

// An orders page of a buyer who has one unpaid order, and the streams that are open on it.
async function openOrders(user, prepare) {
    const { item } = await makeSale(server, { name: `Of buyer ${user}` });
    const order = await buyer(server, user).buy(item);
    const page = await (await openContext()).newPage();
    const open = new Set();
    page.on('request', (request) => { if (/\/events$/.test(request.url())) open.add(request); });
    for (const end of ['requestfailed', 'requestfinished']) page.on(end, (request) => open.delete(request));
    await prepare?.(page);
    await remember(page, tokenOf(server, user));
    await page.goto(`${server.url}/orders`);
    return { page, open, order };
}

const logIn = (page, user) => comeBack(page, tokenOf(server, user));
const row = (page, { order_id: id }) => page.locator(`.order[data-order="${id}"]`);

test('who logged out is not followed any more', async () => {
    const { page, open, order } = await openOrders(710001);
    await row(page, order).waitFor();
    await until('the order to be followed', () => open.size === 1);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByText('Log in to see your orders.').waitFor();
    await until('no stream for nobody', () => open.size === 0);
    await page.context().close();
});

test('an answer for the buyer before is not shown to the next', async () => {
    let release;
    const held = new Promise((done) => { release = done; });
    let asked = 0;
    const { page, order } = await openOrders(710002, (one) => one.route('**/v1/me/orders?*', async (route) => {
        asked += 1;
        if (asked === 1) await held;
        await route.continue();
    }));
    await until('the first to ask', () => asked === 1);
    const { item } = await makeSale(server, { name: 'Of the next' });
    const own = await buyer(server, 710003).buy(item);
    await page.evaluate(() => {
        const { text } = Response.prototype;
        let heard = 0;
        Response.prototype.text = async function told() {
            const said = await text.call(this);
            if (/\/v1\/me\/orders/.test(this.url)) setTimeout(() => setTimeout(() => { globalThis.heard = heard += 1; }));
            return said;
        };
    });
    await page.getByRole('button', { name: 'Log out' }).click();
    await logIn(page, 710003);
    await row(page, own).waitFor();
    release();
    await page.waitForFunction(() => globalThis.heard === 2);
    assert.equal(await page.locator('.order').count(), 1);
    assert.equal(await row(page, order).count(), 0);
    await page.context().close();
});

test('a refused stream ends at the login; the same buyer, logged in again, is followed again', async () => {
    const refused = (one) => one.route('**/v1/orders/*/events', (route) => route.fulfill({ status: 401, body: '' }));
    const { page, order } = await openOrders(710004, refused);
    await page.getByText('Log in to see your orders.').waitFor();
    await page.unroute('**/v1/orders/*/events');
    const followed = page.waitForRequest('**/v1/orders/*/events');
    await logIn(page, 710004);
    await row(page, order).waitFor();
    await followed;
    await page.context().close();
    const { item } = await makeSale(server, { name: 'Denied' });
    const other = await openItem(server, item, { user: 710005 });
    await refused(other.page);
    await other.go.click();
    await reached(other.page, 'logged_out');
    await other.page.unroute('**/v1/orders/*/events');
    const again = other.page.waitForRequest('**/v1/orders/*/events');
    await logIn(other.page, 710005);
    await again;
    await reached(other.page, 'locked');
    await other.page.context().close();
});

test('an order that the ledger has and the board has not is asked for later each time, not at once', async () => {
    const { page, order } = await openOrders(710006, async (one) => {
        await ownClock(one);
        await note(one, /\/events$/);
        await one.route(/\/v1\/orders\//, (route) => route.fulfill({ status: 404, body: '' }));
    });
    await row(page, order).waitFor();
    await soon(page, 'three streams', async () => (await noted(page)).length >= 3);
    const [first, second, third] = (await noted(page)).map((call) => call.at);
    assert.ok(second - first >= 3000 && third - second >= 6000, [first, second, third].join());
    assert.equal(await row(page, order).count(), 1);
    await page.context().close();
});

test('the till says that nobody is logged in, and goes to the login only when asked', async () => {
    const { item } = await makeSale(server, { name: 'At the till' });
    const order = await buyer(server, 710007).buy(item);
    const page = await (await openContext()).newPage();
    await page.goto(`${server.url}/demo/pay?order=${order.order_id}`);
    await page.getByText('Please log in again.').waitFor();
    const [head, body] = tokenOf(server, 710007).split('.');
    await remember(page, `${head}.${body}.AAAA`);
    await page.goto(`${server.url}/orders`);
    await page.locator('#empty-act').waitFor();
    await page.goto(`${server.url}/demo/pay?order=${order.order_id}`);
    await page.getByText('Please log in again.').waitFor();
    assert.equal(await page.locator('#pay').isVisible(), false);
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await loginReady(page);
    await page.locator('#user').fill('710007');
    await page.locator('#go').click();
    await page.locator('#pay:not([aria-disabled="true"])').click();
    await page.locator('#till[data-status="PAID"]').waitFor();
    await page.context().close();
});
