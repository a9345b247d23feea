/*
 * The buyer's session: the login returns a token in the fragment of the address. A link made by somebody else must not
 * change the session, and the demonstration's login sends its token only to this origin.
 */

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { note, noted } from './bend.mjs';
import { buyer, comeBack, makeSale, openContext, openItem, remember, startServer, stopAll, tokenOf, until } from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

const stored = (page) => page.evaluate(() => JSON.parse(localStorage.getItem('sluice.token')));
const isClean = (page) => until('the address to be clean', async () => !(await page.evaluate(() => location.hash)));

test('a link with somebody\'s token logs nobody in, and says so', async () => {
    const { item } = await makeSale(server, { name: 'For nobody yet' });
    const token = tokenOf(server, 667);
    const page = await (await openContext()).newPage();
    for (const path of ['/', `/items/${item.id}`, '/orders']) {
        for (const more of ['', '&state=', '&state=guessed', '&state=null', '&state=undefined']) {
            await page.goto('about:blank');
            await page.goto(`${server.url}${path}#token=${token}${more}`);
            await page.locator('#notice:not([hidden])', { hasText: '667' }).waitFor();
            await isClean(page);
            assert.equal(await stored(page), null);
            assert.equal(await page.locator('#who').innerText(), '');
        }
    }
    // Nor while a login is under way, which such a link does not disturb.
    await page.locator('#account').click();
    await page.waitForURL('**/demo/login?*');
    const login = page.url();
    await page.goto(`${server.url}/#token=${token}&state=guessed`);
    await page.locator('#notice:not([hidden])', { hasText: '667' }).waitFor();
    assert.equal(await stored(page), null);
    await page.goto(login);
    await page.locator('#user').fill('205');
    await page.locator('#go').click();
    await page.locator('#who', { hasText: '205' }).waitFor();
    await page.context().close();
});

test('a link with another buyer\'s token, or with rubbish, changes nobody', async () => {
    const { item } = await makeSale(server, { name: 'For one buyer' });
    const context = await openContext();
    const { page } = await openItem(server, item, { user: 200, context });
    const mine = await stored(page);
    const other = await context.newPage();
    for (const token of [tokenOf(server, 667), 'x']) {
        await other.goto(`${server.url}/items/${item.id}#token=${token}`);
        await other.reload();
        await isClean(other);
        assert.equal(await stored(other), mine);
    }
    await other.goto(`${server.url}/items/${item.id}#token=${tokenOf(server, 667)}`);
    await other.evaluate((token) => { location.hash = `token=${token}`; }, tokenOf(server, 667));
    await other.locator('#notice:not([hidden])', { hasText: '667' }).waitFor();
    assert.match(await page.locator('#who').innerText(), /200/);
});

test('a token comes back with the state that the page made: in time, once, in the same tab', async () => {
    const { item } = await makeSale(server, { name: 'Left halfway' });
    for (const [how, taken] of [
        [{ agoMs: 16 * 60000 }, false],
        [{ agoMs: -60000 }, false],   // begun in the future: the clock was set back
        [{ given: 'another-state' }, false],
        [{ state: '', given: '' }, false],
        [{ agoMs: 60000 }, true],
    ]) {
        const { page } = await openItem(server, item, { user: 201 });
        const mine = await stored(page);
        const other = tokenOf(server, 667);
        await comeBack(page, other, how);
        await isClean(page);
        assert.equal(await stored(page), taken ? other : mine, JSON.stringify(how));
        if (taken) {   // the same state again
            await page.evaluate((token) => { location.hash = `token=${token}&state=made-by-the-page`; }, mine);
            await isClean(page);
            assert.equal(await stored(page), other);
        }
        await page.context().close();
    }
});

test('the way to another place of the page changes nothing: nobody is asked who is buying, nothing is loaded anew', async () => {
    const { item } = await makeSale(server, { name: 'Anchored' });
    const order = await buyer(server, 202).buy(item);
    const page = await (await openContext()).newPage();
    await note(page, /\/v1\/me\/orders/);
    await remember(page, tokenOf(server, 202));
    await page.goto(`${server.url}/orders`);
    const row = page.locator(`.order[data-order="${order.order_id}"]`);
    await row.waitFor();
    const asked = (await noted(page)).length;
    const left = await row.evaluate((node) => new Promise((done) => {
        addEventListener('hashchange', () => setTimeout(() => done(node.isConnected)), { once: true });
        location.hash = '#main';
    }));
    assert.ok(left, 'the list was not emptied');
    assert.equal((await noted(page)).length, asked);
    await page.context().close();
});

test('the demonstration\'s login sends its token nowhere but here', async () => {
    let stolen = 0;
    const thief = createServer((_, answer) => { stolen += 1; answer.end('thanks'); });
    await new Promise((done) => { thief.listen(0, '127.0.0.1', done); });
    const host = `127.0.0.1:${thief.address().port}`;
    const page = await (await openContext()).newPage();
    try {
        for (const way of [`/.//${host}/a`, `/%2e//${host}/a`, `/a/..//${host}/a`, `//${host}/a`, `http://${host}/a`]) {
            await page.goto(`${server.url}/demo/login?return=${encodeURIComponent(way)}`);
            await page.locator('#user').fill('7');
            await page.locator('form button[type=submit]').click();
            await until('the way back', async () => !page.url().includes('/demo/login'));
            assert.equal(new URL(page.url()).origin, new URL(server.url).origin, way);
        }
        assert.equal(stolen, 0);
    } finally {
        await page.context().close();
        thief.close();
    }
});
