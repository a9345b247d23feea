/*
 * Whether everybody can use the storefront: axe on every page and in every kind of state of the button, in both
 * languages, light and dark, narrow and wide; nothing scrolls sideways, nothing to press is too small.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { bend, press, refuse } from './bend.mjs';
import { buyer, makeSale, openItem, reached, startServer, stopAll } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let server;

before(async () => { server = await startServer(); });
after(stopAll);

async function faults(page) {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    const small = await page.evaluate(() => [...document.querySelectorAll('button, a.button, .nav a')]
        .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 40).map((node) => node.outerHTML));
    return [...violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`),
        ...(wide ? ['sideways scrolling'] : []), ...small.map((html) => `small: ${html}`)];
}

const SCREENS = [['en-US', 'light', 360], ['en-US', 'dark', 360], ['zh-CN', 'light', 360], ['zh-CN', 'dark', 1280], ['en-US', 'light', 1280]];

for (const [locale, colorScheme, width] of SCREENS) {
    const how = `${locale}, ${colorScheme}, ${width} px wide`;
    const screen = { locale, colorScheme, viewport: { width, height: 740 }, reducedMotion: 'reduce' };

    // Opens an item's page, and collects what is wrong with it each time it is looked at.
    const open = async ({ as, ...sale }) => {
        const { item } = await makeSale(server, { name: `${as}, ${how}`, was_cents: 2999, ...sale });
        const opened = await openItem(server, item, screen);
        const found = [];
        const see = async (...names) => {
            await reached(opened.page, ...names);
            found.push(...(await faults(opened.page)).map((fault) => `${names}: ${fault}`));
        };
        const done = async () => {
            await opened.page.context().close();
            assert.deepEqual(found, []);
        };
        return { ...opened, item, found, see, done };
    };

    test(`no accessibility faults in any state of the button, ${how}`, async () => {
        const early = await open({ as: 'Before', startsInMs: 1800000, move: 'warm' });
        await early.see('before');
        await early.done();

        const { page, go, see, user, done } = await open({ as: 'Bought', limit_per_user: 5 });
        await see('ready');
        const straight = await bend(page, (order) => ({ ...order, status: 'QUEUED', pay_by_ms: null }));
        await go.click();
        await see('queued');
        await straight();
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
        await done();

        const late = await open({ as: 'Late' });
        await bend(late.page, (one) => ({ ...one, status: 'EXPIRED' }));
        await late.go.click();
        await late.see('expired');
        await late.done();

        const last = await open({ as: 'The last one', total: 1 });
        const other = buyer(server, 730000);
        const taken = await other.buy(last.item);
        await last.see('watching');
        await other.pay(taken);
        await last.see('sold_out');
        await last.done();
    });

    test(`no accessibility faults on any other page, ${how}`, async () => {
        const { page, go, user, errors, found, done } = await open({ as: 'Elsewhere' });
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
        await done();
    });
}
