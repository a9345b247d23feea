/*
 * The pages' scripts when answers come late, twice, old or for somebody who has left: what is shown is of the buyer who
 * is here now, what is missing is asked for again, and nothing is asked for at the speed of the network.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeSale, openContext, openItem, reached, startServer, stopAll } from './harness.mjs';

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
    await page.locator(`.card[data-item="${item.id}"]`).waitFor();
    assert.equal(asked, 4);
    await page.context().close();
});
