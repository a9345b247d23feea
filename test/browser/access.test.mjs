/*
 * Accessibility of the storefront: axe-core on every page and in every kind of state of the button, in both languages,
 * light and dark, narrow and wide. No page scrolls sideways, and no control is too small to press.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { violations } from './axe.mjs';
import { bend, press, refuse } from './bend.mjs';
import { LONG, buyer, makeSale, openItem, reached, startServer, stopAll } from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

async function faults(page) {
    const found = await violations(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    const small = await page.evaluate(() => [...document.querySelectorAll('button, a.button, .nav a')]
        .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 40).map((node) => node.outerHTML));
    return [...found.map(({ id, html }) => `${id}: ${html.join(' ')}`),
        ...(wide ? ['sideways scrolling'] : []), ...small.map((html) => `small: ${html}`)];
}

// Every state and page is looked at on every screen, by the same rules; only texts, colours and widths differ. So these
// two, which have each language, scheme and width once, stand for the rest; SLUICE_LONG=1 has all.
const FEW = [['en-US', 'light', 360], ['zh-CN', 'dark', 1280]];
const ALL = ['en-US', 'zh-CN'].flatMap((locale) => ['light', 'dark'].flatMap((scheme) => [360, 1280].map((width) => [locale, scheme, width])));

for (const [locale, colorScheme, width] of LONG ? ALL : FEW) {
    const how = `${locale}, ${colorScheme}, ${width} px wide`;
    const screen = { locale, colorScheme, viewport: { width, height: 740 }, reducedMotion: 'reduce' };

    // Opens an item's page, in the place of an earlier one where there is one, and collects what is wrong with it each
    // time it is looked at.
    const open = async ({ as, ...sale }, earlier) => {
        const { item } = await makeSale(server, { name: `${as}, ${how}`, was_cents: 2999, ...sale });
        const opened = await openItem(server, item, earlier ? { page: earlier.page, user: earlier.user } : screen);
        const found = earlier?.found ?? [];
        const see = async (...names) => {
            await reached(opened.page, ...names);
            found.push(...(await faults(opened.page)).map((fault) => `${names}: ${fault}`));
        };
        return { ...opened, item, found, see };
    };

    test(`no accessibility faults in any state of the button, ${how}`, async () => {
        const early = await open({ as: 'Before', startsInMs: 1800000, move: 'warm' });
        await early.see('before');

        const { page, go, see, user, found } = await open({ as: 'Bought', limit_per_user: 5 }, early);
        await see('ready');
        const straight = await bend(page, (order) => ({ ...order, status: 'QUEUED', pay_by_ms: null }));
        await go.click();
        await see('queued');
        await straight();
        await page.reload();
        await reached(page, 'locked');
        await press(page, 'ask');
        await see('locked');
        const [order] = await buyer(server, user).orders();
        await buyer(server, user).pay(order);
        await see('paid');
        await page.route('**/v1/items/*/ticket', (route) => refuse(route, 503, { code: 'degraded', retry: 'same-ticket' }));
        await go.click();
        await reached(page, 'ready');
        await go.click();
        await see('timed_out');
        await page.unroute('**/v1/items/*/ticket');

        const late = await open({ as: 'Late' }, early);
        const inTime = await bend(page, (one) => ({ ...one, status: 'EXPIRED' }));
        await late.go.click();
        await late.see('expired');
        await inTime();

        const last = await open({ as: 'The last one', total: 1 }, early);
        const other = buyer(server, 730000);
        const taken = await other.buy(last.item);
        await page.reload();
        await last.see('watching');
        await other.pay(taken);
        await page.reload();
        await last.see('sold_out');
        await page.context().close();
        assert.deepEqual(found, []);
    });

    test(`no accessibility faults on any other page, ${how}`, async () => {
        const { page, go, user, errors, found } = await open({ as: 'Elsewhere' });
        await go.click();
        await reached(page, 'locked');
        const [order] = await buyer(server, user).orders();
        const paths = ['/', '/orders', '/demo/login', `/demo/pay?order=${order.order_id}`, '/items/999999999'];
        for (const path of paths) {
            await page.goto(server.url + path);
            await page.locator('html[data-lang]').waitFor();
            await page.locator('.price, .order, #user, #till[data-status="LOCKED"], [data-t="missing"]').first().waitFor();
            found.push(...(await faults(page)).map((fault) => `${path}: ${fault}`));
        }
        assert.deepEqual(errors.filter((line) => !/404/.test(line)), []);
        await page.context().close();
        assert.deepEqual(found, []);
    });
}
