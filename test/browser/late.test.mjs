/*
 * The pages' scripts when answers come late, twice, old or for somebody who has left: what is shown is of the buyer who
 * is here now, what is missing is asked for again, and nothing is asked for at the speed of the network.
 */

import { after, test } from 'node:test';
import { makeSale, openItem, reached, startServer, stopAll } from './harness.mjs';

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
