/*
 * The storefront with a real server: sessions, a complete purchase, every state of the button that a server can cause,
 * the list of orders, payment. Tests wait for conditions, so no result depends on the speed of the machine.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hide, later, ownClock, press, reachedLater, soon, text } from './bend.mjs';
import {
    buyer, errorsOf, getItem, getSales, inTime, loginReady, makeSale, openContext, openItem, openPage, operate, reached,
    remember, startServer, stopAll, tokenOf, until,
} from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

const left = async (page) => Number((await page.locator('.n-available').innerText()).replace(/\D/g, '') || 0);

// A page's quantity, chosen with its own buttons.
async function choose(page, qty) {
    await page.locator('#qty').fill(String(qty));
    await page.locator('#qty').blur();
}

test('the sessions of today: states, prices, stock that moves, and a way to each item', async () => {
    const { page, errors } = await openPage(server, { prepare: ownClock });
    const sales = await getSales(server);
    assert.ok(sales.length >= 2, 'two demonstration sales');
    for (const sale of sales) {
        await page.getByRole('heading', { level: 2, name: sale.name, exact: true }).waitFor();
        for (const item of sale.items) {
            const card = page.locator(`.card[data-item="${item.id}"]`);
            assert.match(await card.locator('.price').innerText(), /¥\d/);
            assert.equal(await card.getByRole('link', { name: item.name, exact: true }).getAttribute('href'), `/items/${item.id}`);
        }
    }
    const names = sales.flatMap((sale) => sale.items.map((item) => item.name));
    assert.deepEqual(names.filter((name) => /\d g\b/.test(name)), [], 'a figure stays with its unit');
    for (const name of [...names, ...sales.map((sale) => sale.name)]) assert.doesNotMatch(name, / ·/, 'no line begins with the dot');
    const limits = new Set(sales.flatMap((sale) => sale.items.map((item) => item.limit_per_user)));
    for (const limit of [0, 1, 5]) assert.ok(limits.has(limit), `an item with limit ${limit}`);
    const [first] = sales.find((sale) => sale.state === 'open').items;
    const bar = page.locator(`.card[data-item="${first.id}"] .bar`);
    await soon(page, 'the stock to be known', async () => /\d+ of \d+ left/.test(await bar.getAttribute('aria-label')));
    const timer = page.locator('[data-state="open"] .timer').first();
    const shown = await timer.innerText();
    assert.match(shown, /^(\d+d )?\d\d:\d\d(:\d\d)?$/);
    await until('the countdown to move', async () => (await timer.innerText()) !== shown);
    await buyer(server, 700000).buy(first);
    await soon(page, 'the lock to be counted', async () => /1 being paid/.test(await bar.getAttribute('aria-label')));
    const { item } = await makeSale(server, { name: 'Came later' });
    await soon(page, 'the new one', () => page.locator(`.card[data-item="${item.id}"]`).isVisible());
    await page.getByRole('link', { name: 'Came later' }).click();
    await page.waitForURL(`**/items/${item.id}`);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('a whole purchase: logged out, log in, buy, pay, paid; one stream, with the token in its header', async () => {
    const { item } = await makeSale(server, { name: 'Lamp', was_cents: 3998 });
    const { page, errors, go } = await openItem(server, item, { user: null });
    await reached(page, 'logged_out');
    assert.equal(await text(page, 'off'), '50% off');
    await go.click();
    await loginReady(page);
    await page.locator('#user').fill('x');
    await page.locator('#go').click();
    await page.getByText('whole number').waitFor();
    await page.locator('#user').fill('4711');
    await page.locator('#go').click();
    await reached(page, 'ready');
    assert.equal(new URL(page.url()).hash, '', 'the token is taken out of the address');
    const streamed = page.waitForRequest((request) => /\/v1\/orders\/[^/]+\/events$/.test(request.url()));
    let release;
    const held = new Promise((done) => { release = done; });
    await page.route('**/v1/items/*/ticket', async (route) => {
        await held;
        await route.continue();
    });
    await go.click();
    await reached(page, 'asking');
    assert.equal(await text(page, 'go-label'), 'Asking…');
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    assert.equal(await page.locator('.steps [aria-current="step"]').innerText(), 'Asked');
    assert.match(await text(page, 'note'), /on its way/);
    release();
    assert.match((await (await streamed).allHeaders()).authorization, /^Bearer /);
    await reached(page, 'locked');
    await page.getByText('You have 1 of 1').waitFor();
    assert.match(await text(page, 'digits'), /^\d\d:\d\d$/);
    assert.equal(await page.locator('.steps [aria-current="step"]').innerText(), 'Yours');
    assert.match(await page.getByRole('status').innerText(), /Reserved for you/);
    await until('the lock to be counted', async () => /1 being paid/.test(await page.locator('.counts').innerText()));
    await page.getByRole('button', { name: 'Pay ¥19.99' }).click();
    await page.locator('#till[data-status="LOCKED"]').waitFor();
    assert.equal(await text(page, 'amount'), '¥19.99');
    await page.locator('#item', { hasText: 'Lamp' }).waitFor();   // the sale comes by a call of its own
    assert.equal(await text(page, 'amount-label'), 'To pay');
    await page.locator('#pay').click();
    await page.getByText('Paid. It is yours.').first().waitFor();
    assert.equal(await text(page, 'amount-label'), 'Paid');
    await page.getByRole('link', { name: 'Back to the item' }).click();
    await reached(page, 'paid');
    assert.equal(await go.getAttribute('aria-disabled'), 'true', 'one per buyer: nothing more to buy');
    await page.getByRole('link', { name: 'My orders', exact: true }).click();
    await page.locator('.order[data-status="PAID"]').waitFor();
    await page.getByText('Your orders, newest first.').waitFor();
    const { sold, available } = await getItem(server, item);
    assert.deepEqual([sold, available], [1, 9]);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('before the start: the ticket is taken early, the button opens by itself, one call buys', async () => {
    const { item, sale } = await makeSale(server, { name: 'Noon', startsInMs: 50000, move: 'warm' });
    const calls = [];
    let tickets = 0;
    const prepare = async (page) => {
        await ownClock(page);
        page.on('request', (request) => {
            const { pathname } = new URL(request.url());
            if (/ticket$/.test(pathname)) calls.push('ticket');
            if (/buy/.test(pathname)) calls.push('buy');
            if (/\/v1\/me\/orders|\/v1\/orders\/[^/]+$/.test(pathname)) calls.push('look');
        });
        page.on('requestfinished', (request) => { tickets += /ticket$/.test(request.url()) ? 1 : 0; });
    };
    const { page, errors, go } = await openItem(server, item, { prepare });
    await reached(page, 'before');
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    const shown = `${await text(page, 'digits')}${await text(page, 'tenth')}`;
    assert.match(shown, /^00:[0-5]\d\.\d$/, 'to a tenth of a second');
    await until('the countdown to move', async () => `${await text(page, 'digits')}${await text(page, 'tenth')}` !== shown);
    await later(page, 'the ticket to be taken', () => tickets === 1);
    await reachedLater(page, 'ready');
    // The page's clock is ahead of the server's, whose start is brought about.
    await operate(server, `/v1/admin/sales/${sale.id}/open`);
    await page.reload();
    await reached(page, 'ready');
    await hide(page, true);
    await hide(page, false);
    await go.click();
    await reached(page, 'locked');
    assert.deepEqual(calls, ['ticket', 'buy'], 'nothing is looked up while everybody is here');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('the countdown is right after a while in another tab, whose timers slept', async () => {
    const { item, sale } = await makeSale(server, { name: 'Elsewhere for a while', startsInMs: 1800000, move: 'warm' });
    const { page } = await openItem(server, item);
    await reached(page, 'before');
    // What is shown, and the server's time before and after it was read.
    const look = () => page.evaluate(async () => {
        const time = async () => (await (await fetch('/v1/time', { cache: 'no-store' })).json()).now_ms;
        const before = await time();
        const shown = `${document.getElementById('digits').textContent}${document.getElementById('tenth').textContent}`;
        return { shown, before, after: await time() };
    });
    const first = (await look()).shown;
    const tab = await page.context().newCDPSession(page);
    await hide(page, true);
    await tab.send('Page.setWebLifecycleState', { state: 'frozen' });
    const away = Date.now();
    await until('some time to pass', () => Date.now() - away > 1500);
    await tab.send('Page.setWebLifecycleState', { state: 'active' });
    await hide(page, false);
    await until('the countdown to be right', async () => {
        const { shown, before, after } = await look();
        const [minutes, seconds] = shown.split(':').map(Number);
        const leftMs = (minutes * 60 + seconds) * 1000;
        return shown !== first && leftMs <= sale.starts_at_ms - before + 200 && leftMs >= sale.starts_at_ms - after - 200;
    });
    await page.context().close();
});

test('a limit of five in several orders: quantities are cut to what is left, then "5 of 5"', async () => {
    const { item } = await makeSale(server, { name: 'Tea', limit_per_user: 5, total: 100 });
    const { page, errors, go, user } = await openItem(server, item);
    await page.getByRole('button', { name: 'More' }).click();
    assert.equal(await page.locator('#qty').inputValue(), '2');
    await go.click();
    await reached(page, 'locked');
    await page.getByText('You have 2 of 5').waitFor();
    await press(page, 'more');
    await reached(page, 'ready');
    await page.getByText('1 unpaid order').waitFor();
    assert.equal(await go.innerText(), 'Buy more');
    await choose(page, 9);
    assert.equal(await page.locator('#qty').inputValue(), '3', 'no more than the limit leaves');
    await go.click();
    await reached(page, 'locked');
    await page.getByText('You have 5 of 5').waitFor();
    assert.equal(await page.locator('[data-act="more"]').count(), 0);
    const other = buyer(server, user);
    for (const order of await other.orders()) await other.pay(order);
    await reached(page, 'paid');
    await page.evaluate(() => localStorage.removeItem(Object.keys(localStorage).find((key) => key.includes('mine'))));
    await operateLimit(page);
    assert.equal((await getItem(server, item)).sold, 5);
    assert.deepEqual(errors.filter((line) => !/409/.test(line)), []);
    await page.context().close();
});

// Another browser of the same buyer, which knows nothing: it learns from the refusal.
async function operateLimit(page) {
    await page.reload();
    await reached(page, 'ready');
    await page.locator('#go').click();
    await reached(page, 'limit_reached');
    assert.equal(await page.locator('#go').innerText(), '5 of 5 bought');
}

test('all taken but unpaid: watching; a returned unit can be bought; all paid: sold out', async () => {
    const { item } = await makeSale(server, { name: 'Last one', total: 1 });
    const { page, errors, go } = await openItem(server, item);
    await reached(page, 'ready');
    const other = buyer(server, 700001);
    const order = await other.buy(item);
    await reached(page, 'watching');
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    assert.match(await text(page, 'note'), /1 still open/);
    assert.equal(await left(page), 0, 'no stock is shown that is not there');
    await other.cancel(order);
    await reached(page, 'ready');
    await go.click();
    await reached(page, 'locked');
    const late = await openItem(server, item);
    await reached(late.page, 'watching');
    await page.getByRole('button', { name: /^Pay/ }).click();
    await page.locator('#pay').click();
    await reached(late.page, 'sold_out');
    assert.deepEqual([...errors, ...late.errors], []);
    await page.context().close();
    await late.page.context().close();
});

test('the operator pauses, resumes and closes; the button follows', async () => {
    const { item, sale } = await makeSale(server, { name: 'Moody' });
    const { page, errors, go } = await openItem(server, item);
    await reached(page, 'ready');
    await operate(server, `/v1/admin/sales/${sale.id}/pause`);
    await reached(page, 'paused');
    await operate(server, `/v1/admin/sales/${sale.id}/open`);
    await reached(page, 'ready');
    assert.equal(await go.innerText(), 'Buy now');
    await operate(server, `/v1/admin/sales/${sale.id}/close`);
    await reached(page, 'ended');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('too late at the till: it says so while the page is open; then the buyer is barred where the sale says so', async () => {
    const { item, page, errors, go } = await inTime(3000, async (ms) => {
        const made = await makeSale(server, { name: 'Slow', payWithinS: ms / 1000, sale: { bar_unpaid: true } });
        const opened = await openItem(server, made.item);
        await opened.go.click();
        await reached(opened.page, 'locked', 'expired');
        const [order] = await buyer(server, opened.user).orders();
        await opened.page.goto(`${server.url}/demo/pay?order=${order.order_id}`);
        await opened.page.locator('#till:not([data-status="loading"])').waitFor();
        const early = (await opened.page.locator('#till').getAttribute('data-status')) === 'LOCKED';
        if (!early) await opened.page.context().close();
        return early && { ...made, ...opened };
    });
    await page.locator('#till[data-status="EXPIRED"]').waitFor();
    assert.equal(await text(page, 'verdict'), 'Too late');
    assert.equal(await page.locator('#pay').isVisible(), false, 'nothing to pay any more');
    await page.goBack();
    await reached(page, 'expired');
    await go.click();
    await reached(page, 'barred');
    assert.equal((await getItem(server, item)).available, 10, 'the unit is back');
    assert.deepEqual(errors.filter((line) => !/409/.test(line)), []);
    await page.context().close();
});

test('cancelling asks first, gives the stock back, and the buyer may try again', async () => {
    const { item } = await makeSale(server, { name: 'Kettle' });
    const { page, errors, go } = await openItem(server, item);
    await go.click();
    await reached(page, 'locked');
    await press(page, 'ask');
    await press(page, 'keep');
    await press(page, 'ask');
    await press(page, 'giveUp');
    await reached(page, 'ready');
    await page.getByText('Cancelled. The stock went back.').first().waitFor();
    await until('the unit to be back', async () => (await left(page)) === 10);
    await go.click();
    await reached(page, 'locked');
    await page.getByRole('link', { name: 'My orders', exact: true }).click();
    await page.locator('.order[data-status="LOCKED"]').waitFor();
    assert.equal(await page.locator('.order[data-status="CANCELLED"]').count(), 1);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('the orders page: deadline running, cancel there, pay from there; logged out it offers the login', async () => {
    const { item } = await makeSale(server, { name: 'Two of them', limit_per_user: 5 });
    const other = buyer(server, 700007);
    await other.buy(item, 2);
    await other.buy(item, 1);
    const prepare = (opened) => remember(opened, tokenOf(server, 700007));
    const { page, errors } = await openPage(server, { prepare }, '/orders');
    const unpaid = page.locator('.order[data-status="LOCKED"]');
    await until('both to be shown', async () => (await unpaid.count()) === 2);
    await page.getByText('2 × ¥19.99 = ¥39.98').waitFor();
    const shown = await unpaid.first().locator('.timer').innerText();
    await until('the deadline to run', async () => (await unpaid.first().locator('.timer').innerText()) !== shown);
    const row = page.locator('.order').filter({ hasText: '2 ×' });
    await row.getByRole('button', { name: 'Cancel order' }).click();
    await row.getByRole('button', { name: 'Yes, cancel it' }).click();
    await page.locator('.order[data-status="CANCELLED"]').filter({ hasText: '2 ×' }).waitFor();
    await unpaid.getByRole('link', { name: /^Pay/ }).click();
    await page.locator('#pay').click();
    await page.locator('#till[data-status="PAID"]').waitFor();
    await page.getByRole('link', { name: 'My orders', exact: true }).click();
    await page.locator('.order[data-status="PAID"]').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByText('Log in to see your orders.').waitFor();
    assert.equal(await page.locator('.order').count(), 0);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('two tabs: the order of one is shown in the other, and is not bought twice', async () => {
    const { item } = await makeSale(server, { name: 'Twins' });
    const context = await openContext();
    const a = await openItem(server, item, { context, user: 700010 });
    const b = await openItem(server, item, { context, user: 700010 });
    await a.go.click();
    await reached(a.page, 'locked');
    await reached(b.page, 'locked');
    await press(b.page, 'ask');
    await press(b.page, 'giveUp');
    await reached(a.page, 'ready');
    await reached(b.page, 'ready');
    // One is still waiting for its answer when the other is pressed: it asks with the same ticket.
    const tickets = [];
    let release;
    const held = new Promise((done) => { release = done; });
    for (const { page } of [a, b]) {
        await page.route('**/v1/buy/*', async (route) => {
            tickets.push(route.request().url());
            if (page === a.page) await held;
            await route.continue();
        });
    }
    await a.go.click();
    await until('the first to be under way', () => tickets.length === 1);
    await b.go.click();
    await reached(b.page, 'locked');
    release();
    await reached(a.page, 'locked');
    assert.equal(tickets[0], tickets[1], 'the same ticket');
    assert.equal((await getItem(server, item)).locked, 1);
    await a.page.getByRole('button', { name: 'Log out' }).click();
    await reached(b.page, 'logged_out');
    assert.deepEqual([...a.errors, ...b.errors], []);
    await context.close();
});

test('reload and back lead to the truth; another browser of the same buyer finds the order too', async () => {
    const { item } = await makeSale(server, { name: 'Chair', startsInMs: -90000 });
    const { page, errors, go, user } = await openItem(server, item);
    await go.click();
    await reached(page, 'locked');
    await page.reload();
    await reached(page, 'locked');
    await page.getByRole('link', { name: 'My orders', exact: true }).click();
    await page.locator('.order[data-status="LOCKED"]').waitFor();
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await page.goBack();
    await reached(page, 'paid');
    const elsewhere = await openItem(server, item, { user });
    await reached(elsewhere.page, 'paid');
    assert.deepEqual(errors, []);
    await page.context().close();
    await elsewhere.page.context().close();
});

test('Chinese is spoken to those who read it, and only Chinese is loaded', async () => {
    const { item } = await makeSale(server, { name: '台灯', limit_per_user: 5, was_cents: 3998 });
    const loaded = [];
    const prepare = (page) => page.on('request', (request) => loaded.push(request.url()));
    const { page, errors, go } = await openItem(server, item, { locale: 'zh-CN', prepare });
    assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN');
    await reached(page, 'ready');
    assert.equal(await go.innerText(), '立即抢购');
    assert.equal(await text(page, 'off'), '5 折');
    await go.click();
    await reached(page, 'locked');
    assert.match(await go.innerText(), /^支付/);
    await page.getByText('您已有 1/5 件').waitFor();
    assert.match(await page.getByRole('status').textContent(), /。已为您保留/, 'told with its own stop');
    assert.ok(loaded.some((url) => /\/zh\.\w+\.js$/.test(url)) && !loaded.some((url) => /\/en\.\w+\.js$/.test(url)));
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('a visitor is offered the login where it leads to something, and what is sold out is called so', async () => {
    const { item } = await makeSale(server, { name: 'The only one', total: 1 });
    const visitor = await openItem(server, item, { user: null });
    await reached(visitor.page, 'logged_out');
    const { page, go, errors } = await openItem(server, item);
    await go.click();
    await reached(page, 'locked');
    await reached(visitor.page, 'watching');
    assert.equal(await visitor.go.getAttribute('aria-disabled'), 'true');
    await page.getByRole('button', { name: 'Log out' }).click();
    await reached(page, 'logged_out');
    await page.reload();
    await reached(page, 'logged_out');
    assert.equal(await text(page, 'go-label'), 'Log in to buy', 'who ordered here may come back to it');
    assert.deepEqual([...errors, ...visitor.errors], []);
    await page.context().close();
    await visitor.page.context().close();
});

test('the footer keeps away from the window\'s edges, narrow or wide', async () => {
    const { page } = await openPage(server);
    for (const width of [390, 1280, 1000]) {
        await page.setViewportSize({ width, height: 800 });
        const pads = await page.locator('.foot').evaluate((node) => ['Top', 'Right', 'Bottom', 'Left']
            .map((side) => parseFloat(getComputedStyle(node)[`padding${side}`])));
        assert.ok(pads.every((pad) => pad >= 16), `${width}: ${pads}`);
    }
    await page.context().close();
});

test('hostile names do nothing but be shown', async () => {
    const name = `"><img src=x onerror=alert(1)></script><script>alert(2)</script>{{name}}&amp;\u2028'`;
    const { item } = await makeSale(server, { name, image_url: 'https://shop.invalid/"onerror="alert(3)', sale: { name } });
    let alerts = 0;
    const prepare = (page) => page.on('dialog', (dialog) => { alerts += 1; dialog.dismiss(); });
    const { page, go } = await openItem(server, item, { prepare });
    assert.match(await page.locator('h1').textContent(), /^"><img src=x onerror=alert\(1\)><\/script>/);
    assert.match(await page.locator('h1').textContent(), /\{\{name\}\}&amp;/);
    await go.click();
    await reached(page, 'locked');
    await page.goto(`${server.url}/`);
    await page.locator(`.card[data-item="${item.id}"]`).waitFor();
    await page.goto(`${server.url}/orders`);
    await page.locator('.order h2').getByText('<img src=x').waitFor();
    assert.equal(alerts, 0);
    assert.equal(await page.locator('img[src="x"]').count(), 0);
    await page.context().close();
});

test('without the demonstration: the shop\'s login gives the token back, the shop\'s till takes the payment', async () => {
    const shop = await startServer(['--set', 'page.login_url=https://shop.example/login?to={return}&lang=en']);
    const { item } = await makeSale(shop, { name: 'Real thing', sale: { pay_url: 'https://shop.example/pay/{order_id}' } });
    const { page, go } = await openItem(shop, item, { user: null });
    const asked = [];
    await page.route('https://shop.example/login?*', (route) => {
        const url = new URL(route.request().url());
        const [to, state] = ['to', 'state'].map((name) => url.searchParams.get(name));
        asked.push({ to, state, lang: url.searchParams.get('lang'), return: url.searchParams.get('return') });
        // It knows nothing of the state: the return address brings it along.
        return route.fulfill({ status: 302, headers: { location: `${to}#${new URLSearchParams({ token: tokenOf(shop, 78) })}` } });
    });
    await page.route('https://shop.example/pay/*', (route) => route.fulfill({ contentType: 'text/html', body: 'the till' }));
    await reached(page, 'logged_out');
    await go.click();
    await reached(page, 'ready');
    const [{ state }] = asked;
    assert.match(state, /^[0-9a-f]{32}$/);
    assert.deepEqual(asked, [{ to: `${shop.url}/items/${item.id}?login=${state}`, state, lang: 'en', return: null }]);
    assert.equal(page.url(), `${shop.url}/items/${item.id}`);
    await go.click();
    await reached(page, 'locked');
    await go.click();
    await page.waitForURL('https://shop.example/pay/*');
    assert.equal((await fetch(`${shop.url}/demo/pay`)).status, 404);
    const silent = await makeSale(shop, { name: 'Pay at the counter' });
    const other = await openItem(shop, silent.item);
    await other.go.click();
    await reached(other.page, 'locked');
    await other.page.getByText('The shop will ask you to pay').first().waitFor();
    assert.equal(await other.go.getAttribute('aria-disabled'), 'true');
    await page.context().close();
    await other.page.context().close();
});

test('a token that the server refuses leads to the login, not in circles', async () => {
    const { item } = await makeSale(server, { name: 'Members only' });
    const { page, go } = await openItem(server, item);
    await page.evaluate(() => {
        const [head, body] = JSON.parse(localStorage.getItem('sluice.token')).split('.');
        localStorage.setItem('sluice.token', JSON.stringify(`${head}.${body}.AAAA`));
    });
    await page.reload();
    await reached(page, 'ready');
    await go.click();
    await reached(page, 'logged_out');
    await page.getByText('Please log in again.').first().waitFor();
    await go.click();
    await loginReady(page);
    await page.locator('#go').click();
    await reached(page, 'ready');
    await page.context().close();
});

test('there is no such item: said in the buyer\'s language, with a way on', async () => {
    const page = await (await openContext({ locale: 'zh-CN' })).newPage();
    errorsOf(page);
    await page.goto(`${server.url}/items/999999999`);
    await page.getByRole('heading', { name: '没有这个商品' }).waitFor();
    await page.getByRole('link', { name: '全部场次' }).click();
    await page.waitForURL(`${server.url}/`);
    await page.context().close();
});
