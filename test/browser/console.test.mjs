/*
 * The console with a real server: sign in, create a sale, change its state, watch it, find an order, reconcile, read
 * the report. Also bad input, hostile names and a server that is down.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { ownClock, soon } from './bend.mjs';
import { asDistributed, dialog, goTo, openDesk, seriousFaults, showScreen } from './desk.mjs';
import { adminToken, buyer, getItem, getSales, makeSale, openPage, startServer, stopAll, until } from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

const openConsole = (options) => openDesk(server, options);
const cell = (page, row, column) => page.getByRole('row', { name: row }).locator('td').nth(column);

test('a wrong token is explained, the right one is kept for this tab only', async () => {
    assert.equal((await fetch(`${server.url}/console/`)).status, 200, 'as people type it, too');
    const { page, errors } = await openPage(server, {}, '/console');
    assert.equal(await page.getByRole('navigation').count(), 0, 'nothing is offered before');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('Type the admin token.').waitFor();
    await page.fill('#token', 'not-the-token');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('The server does not know this token.').waitFor();
    await page.fill('#token', adminToken(server));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.locator('.figures').first().waitFor();
    await page.reload();
    await page.locator('.figures').first().waitFor();
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.locator('#token').waitFor();
    await page.reload();
    await page.locator('#token').waitFor();
    // The browser itself writes a line for the refused call.
    assert.deepEqual(errors.filter((text) => !/401/.test(text)), []);
    await page.context().close();
});

test('from an empty form to the report: create, warm, open, sell, restock, pause, resume, close', async () => {
    const { page, errors } = await openConsole();
    await goTo(page, 'sales', 'Sales');
    await page.getByRole('link', { name: 'New sale' }).click();
    await page.getByRole('heading', { level: 1, name: 'New sale' }).waitFor();
    const top = page.locator('.fields');
    const first = page.getByRole('group', { name: 'Item 1' });
    await top.getByLabel('Name').fill('Noon');
    await first.getByLabel('Name').fill('Kettle');
    await first.getByLabel('Price').fill('19.90');
    await first.getByLabel('Total').fill('3');
    await first.getByLabel('Limit each').fill('2');
    await page.getByRole('button', { name: 'Add an item' }).click();
    const second = page.getByRole('group', { name: 'Item 2' });
    await second.getByLabel('Name').fill('Cup');
    await second.getByLabel('Price').fill('5');
    await second.getByLabel('Total').fill('100');
    await second.getByLabel('Limit each').fill('0');
    await page.getByRole('button', { name: 'Create the draft' }).click();
    await page.getByRole('heading', { level: 1, name: 'Noon draft' }).waitFor();
    assert.equal(await cell(page, /Kettle/, 1).innerText(), '¥19.90');
    assert.ok(!(await getSales(server)).some((sale) => sale.name === 'Noon'), 'buyers do not see a draft');

    await page.getByRole('button', { name: 'Warm up' }).click();
    await page.getByRole('heading', { level: 1, name: 'Noon warm' }).waitFor();
    await page.getByRole('button', { name: 'Open now' }).click();
    await dialog(page).getByText('Open “Noon” now?').waitFor();
    await dialog(page).getByRole('button', { name: 'Leave it' }).click();
    await dialog(page).waitFor({ state: 'hidden' });
    const kettle = (await getSales(server)).find((sale) => sale.name === 'Noon').items[0];
    assert.equal((await getItem(server, kettle)).state, 'upcoming', 'nothing happened yet');
    await page.getByRole('button', { name: 'Open now' }).click();
    await dialog(page).getByRole('button', { name: 'Open now' }).click();
    await page.getByRole('heading', { level: 1, name: 'Noon open' }).waitFor();

    await buyer(server, 101).buy(kettle, 2);
    const order = await buyer(server, 102).buy(kettle, 1);
    await buyer(server, 102).cancel(order);
    await goTo(page, 'live', 'Live');
    await until('the bar to show it', async () => (await page.getByRole('img', { name: /^Kettle: 1 available, 2 being paid/ }).count()) === 1);

    await page.getByRole('link', { name: 'Kettle' }).click();
    await page.getByRole('heading', { level: 1, name: 'Noon open' }).waitFor();
    await page.getByLabel('Add units: Kettle').fill('7');
    await page.getByRole('row', { name: /Kettle/ }).getByRole('button', { name: 'Restock' }).click();
    await dialog(page).getByText('Add 7 units of “Kettle”?').waitFor();
    await dialog(page).getByRole('button', { name: 'Restock' }).click();
    await until('ten in all', async () => (await cell(page, /Kettle/, 2).innerText()) === '10');
    assert.equal((await getItem(server, kettle)).available, 8);

    for (const [act, state] of [['Pause', 'paused'], ['Resume', 'open'], ['Close for good', 'closed']]) {
        await page.getByRole('button', { name: act }).click();
        await dialog(page).getByRole('button', { name: act }).click();
        await page.getByRole('heading', { level: 1, name: `Noon ${state}` }).waitFor();
    }
    await page.getByRole('link', { name: 'Report' }).click();
    await page.getByRole('heading', { level: 1, name: 'Report: Noon' }).waitFor();
    const panel = page.locator('section', { has: page.getByRole('heading', { name: 'Kettle' }) });
    assert.match(await panel.innerText(), /units taken\s+2 \/ 10/);
    await page.getByRole('img', { name: /^The whole sale: 2 units taken, 0 units paid$/ }).waitFor();
    // What was asked of this sale alone: two tickets, two buys.
    const funnel = page.locator('section', { has: page.getByRole('heading', { name: 'From asking to paying' }) });
    assert.match(await funnel.innerText(), /asked\s+4\s+tickets\s+2\s+won\s+2\s+booked\s+2/);
    const faults = page.locator('section', { has: page.getByRole('heading', { name: 'Faults and switches during it' }) });
    assert.match(await faults.innerText(), /sale\.opened[\s\S]*sale\.paused[\s\S]*sale\.opened[\s\S]*sale\.closed/);
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Keep as JSON' }).click()]);
    const report = JSON.parse(readFileSync(await download.path(), 'utf8'));
    assert.equal(report.items[0].units.CANCELLED, 1);
    const [kept] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Keep as a page' }).click()]);
    assert.match(kept.suggestedFilename(), /^sale-\d+-report\.html$/);
    // The page stands alone: it is read from the disk, in its own style, with its pictures.
    const alone = await page.context().newPage();
    await alone.setContent(readFileSync(await kept.path(), 'utf8'));
    await alone.getByRole('heading', { level: 1, name: 'Noon' }).waitFor();
    assert.equal(await alone.locator('svg.chart').count(), 2);
    assert.deepEqual(await seriousFaults(alone), []);
    await alone.close();
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('the form explains while one types, and sends nothing that is wrong', async () => {
    const { page, errors } = await openConsole();
    let sent = 0;
    page.on('request', (request) => { sent += request.method() === 'POST' ? 1 : 0; });
    await goTo(page, 'sales/new', 'New sale');
    const item = page.getByRole('group', { name: 'Item 1' });
    const wrong = async (field, value, text) => {
        await field.fill(value);
        await field.blur();
        const id = (await field.getAttribute('aria-describedby')).split(' ')[0];
        await until(`${value}: ${text}`, async () => (await page.locator(`#${id}`).innerText()) === text);
        assert.equal(await field.getAttribute('aria-invalid'), 'true');
    };
    await wrong(item.getByLabel('Price'), '19.999', 'An amount like 19.90.');
    await wrong(item.getByLabel('Price'), '-1', 'An amount like 19.90.');
    await wrong(item.getByLabel('Total'), '0', 'A whole number from 1 to 2147483647.');
    await wrong(item.getByLabel('Total'), '2.5', 'A whole number from 1 to 2147483647.');
    await wrong(item.getByLabel('Picture'), 'javascript:alert(1)', 'An address that begins with https://, http:// or /.');
    await wrong(page.getByLabel('Currency'), 'yuan', 'Three capital letters, like CNY.');
    await wrong(page.getByLabel('Pay page'), 'https://shop.example/pay', 'It must contain {order_id} once.');
    await wrong(page.getByLabel('Ends'), '2020-01-01T00:00:01', 'The end must lie after the start.');
    await page.getByRole('button', { name: 'Create the draft' }).click();
    await page.getByText('Something is not right yet.').waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-invalid')), 'true', 'the first of them has the focus');
    assert.equal(sent, 0);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('orders are found by buyer and status, one is shown with what happened to it', async () => {
    const { item } = await makeSale(server, { name: 'Radio', total: 5 });
    const order = await buyer(server, 7001).buy(item);
    await buyer(server, 7001).cancel(order);
    await buyer(server, 7002).buy(item);
    const { page, errors } = await openConsole();
    await goTo(page, 'orders', 'Orders');
    await page.getByText(/^(The first )?\d+ orders?/).waitFor();
    await page.getByLabel('Buyer id').fill('7001');
    await page.getByLabel('Status').selectOption('CANCELLED');
    await page.getByRole('button', { name: 'Find' }).click();
    await page.getByText('1 order', { exact: true }).waitFor();
    await page.getByRole('cell', { name: `${item.id} · Radio` }).waitFor();
    await page.getByRole('link', { name: order.order_id }).click();
    await page.getByRole('heading', { level: 1, name: `Order ${order.order_id}` }).waitFor();
    assert.match(await page.locator('section').innerText(), /in the queue[\s\S]*to be paid[\s\S]*cancelled/);
    await goTo(page, 'orders?user=7001&status=PAID', 'Orders');
    await page.getByText('No order matches.').waitFor();
    await goTo(page, 'orders/nosuchorder', 'That did not work');
    await page.getByText('There is no such thing.').waitFor();
    assert.deepEqual(errors.filter((text) => !/404/.test(text)), []);
    await page.context().close();
});

test('the accounts are compared, and agree', async () => {
    const { page, errors } = await openConsole();
    await goTo(page, 'check', 'Do the accounts agree?');
    await page.getByRole('button', { name: 'Compare now' }).click();
    // Inside one process buyers are not compared: "0 buyers" would say that there are none.
    await page.getByText(/^They agree: \d+ items(, [1-9]\d* orders)?\.$/).waitFor();
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('what an engine does not have is absent', async () => {
    const { page, errors } = await openConsole();
    await page.locator('.stock').first().waitFor();
    for (const name of ['Segments of the gate', 'Queues', 'Who holds which lease']) {
        assert.equal(await page.getByRole('heading', { name }).count(), 0, name);
    }
    assert.equal(await page.getByRole('link', { name: 'Put aside' }).count(), 0);
    assert.equal(await page.getByText('in the outbox').isVisible(), false);
    assert.equal(await page.getByText('of this front').first().isVisible(), false);
    await goTo(page, 'queue', 'That did not work');
    await page.getByText('this server has no queue').waitFor();
    assert.deepEqual(errors.filter((text) => !/404/.test(text)), []);
    await page.context().close();
});

test('the distributed engine: segments, queues and leases are shown, parked messages sent round after a question', async () => {
    const { page, errors } = await openConsole();
    const sent = await asDistributed(page);
    await page.reload();
    await page.getByRole('heading', { name: 'Segments of the gate' }).waitFor();
    const alert = page.getByRole('alert').filter({ hasText: 'Not every segment of the gate decides: 1 (away)' });
    await alert.waitFor();
    assert.match(await alert.innerText(), /^▲ .*2 messages are put aside\.$/, 'every trouble is named');
    assert.equal(await page.getByText('All well').isVisible(), false);
    const big = page.locator('.figures-big .figure');
    for (const text of await big.allInnerTexts()) assert.match(text, /of this front/);
    assert.match(await page.locator('.segment').first().innerText(), /Segment 0[\s\S]*deciding[\s\S]*40 available[\s\S]*2 in the outbox, oldest 1.5 s[\s\S]*epoch 3[\s\S]*10\.0\.0\.5:6379/);
    assert.match(await page.locator('section', { has: page.getByRole('heading', { name: 'Who holds which lease' }) }).innerText(), /keeper\s+front-1\s+9/);
    await page.getByRole('link', { name: 'Put aside' }).click();
    await page.getByRole('heading', { level: 1, name: 'Put aside in the queue' }).waitFor();
    assert.match(await page.getByRole('row', { name: /20000000002R/ }).innerText(), /given back 4 times\s+2 h 0 min\s+5\s+11/);
    assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
    assert.deepEqual(await seriousFaults(page), []);
    await page.getByRole('button', { name: 'Send round again' }).click();
    await dialog(page).getByText('Send 2 messages round again?').waitFor();
    await dialog(page).getByRole('button', { name: 'Leave it' }).click();
    await dialog(page).waitFor({ state: 'hidden' });
    assert.deepEqual(sent, [], 'nothing was sent yet');
    await page.getByRole('button', { name: 'Send round again' }).click();
    await dialog(page).getByRole('button', { name: 'Send round again' }).click();
    await page.getByText('Nothing is put aside.').waitFor();
    assert.deepEqual(sent, [{ queue: 'orders' }]);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('differences are listed with their ids; repair is offered where it can be, and asks', async () => {
    const { page, errors } = await openConsole();
    const difference = { kind: 'gate_order', segment: 1, item_id: 11, user_id: 5, order_id: '20000000002R00000000050000', found: 1, expected: 2, since_ms: Date.now(), repaired: false };
    const asked = [];
    await page.route('**/v1/admin/reconcile', (route) => {
        const repair = route.request().postDataJSON()?.repair ?? false;
        asked.push(repair);
        return route.fulfill({ json: { passes: 2, items: 3, orders: 4, buyers: 4, unsure: 0, found: 1, differences: [{ ...difference, repaired: repair }] } });
    });
    await page.locator('.stock').first().waitFor();     // by then it knows the engine
    await goTo(page, 'check', 'Do the accounts agree?');
    await page.getByRole('button', { name: 'Compare now' }).click();
    await page.getByText('1 differences.').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Repair what can be repaired' }).count(), 0, 'not in one process');
    await asDistributed(page);
    await goTo(page, 'live', 'Live');
    await page.getByRole('heading', { name: 'Segments of the gate' }).waitFor();
    await goTo(page, 'check', 'Do the accounts agree?');
    await page.getByRole('button', { name: 'Compare now' }).click();
    assert.match(await page.getByRole('row', { name: /gate_order/ }).innerText(), /another state of the order[\s\S]*Segment 1\s+20000000002R00000000050000\s+5\s+11\s+1\s+2/);
    await page.getByRole('button', { name: 'Repair what can be repaired' }).click();
    await dialog(page).getByRole('button', { name: 'Repair what can be repaired' }).click();
    await page.getByText('Compare again in a moment').waitFor();
    assert.deepEqual(asked, [false, false, true]);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('several sessions of one day are made at once, and listed by day and hour', async () => {
    const { page, errors } = await openConsole();
    await goTo(page, 'sales/new', 'New sale');
    const first = page.getByRole('group', { name: 'Item 1' });
    await page.locator('.fields').getByLabel('Name').fill('Singles');
    await page.getByLabel('Starts').fill('2030-11-11T10:00');
    await page.getByLabel('Ends').fill('2030-11-11T11:30');
    await page.getByLabel('Also at').fill('14:00, 25:00');
    await page.getByText('Hours like 14:00, 20:00.').waitFor();
    await page.getByLabel('Also at').fill('20, 14:00');
    await first.getByLabel('Name').fill('Kettle');
    await first.getByLabel('Price').fill('19.90');
    await first.getByLabel('Total').fill('3');
    await page.getByRole('button', { name: 'Create the draft' }).click();
    await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor();
    const rows = page.getByRole('row', { name: /Singles/ });
    await until('three sessions', async () => (await rows.count()) === 3);
    assert.deepEqual((await rows.allInnerTexts()).map((text) => text.split('\t')[0]), ['10:00 – 11:30', '14:00 – 15:30', '20:00 – 21:30']);
    await page.getByRole('rowheader', { name: /^Monday,? 11 November 2030$/ }).waitFor();
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('where one of several sessions is refused, saving again makes only those that are missing', async () => {
    const { page } = await openConsole();
    let posts = 0;
    await page.route('**/v1/admin/sales', (route) => {
        if (route.request().method() !== 'POST') return route.continue();
        posts += 1;
        return posts === 2 ? route.fulfill({ status: 503, json: { code: 'degraded', retry: 'later' } }) : route.continue();
    });
    await goTo(page, 'sales/new', 'New sale');
    const first = page.getByRole('group', { name: 'Item 1' });
    await page.locator('.fields').getByLabel('Name').fill('Halfway');
    await page.getByLabel('Starts').fill('2030-12-12T10:00');
    await page.getByLabel('Ends').fill('2030-12-12T11:00');
    await page.getByLabel('Also at').fill('14:00, 20:00');
    await first.getByLabel('Name').fill('Kettle');
    await first.getByLabel('Price').fill('19.90');
    await first.getByLabel('Total').fill('3');
    await page.getByRole('button', { name: 'Create the draft' }).click();
    await page.getByText('Drafts made so far: 1').waitFor();
    await page.getByRole('button', { name: 'Create the draft' }).click();
    const rows = page.getByRole('row', { name: /Halfway/ });
    await until('three sessions', async () => (await rows.count()) === 3);
    assert.deepEqual((await rows.allInnerTexts()).map((text) => text.split('\t')[0]), ['10:00 – 11:00', '14:00 – 15:00', '20:00 – 21:00']);
    assert.equal(posts, 4);
    await page.context().close();
});

test('looking again at the queue, where that is refused, says so and leaves what was seen', async () => {
    const { page, errors } = await openConsole();
    await asDistributed(page);
    await goTo(page, 'queue', 'Put aside');
    await page.getByText('20000000002R00000000050000').waitFor();
    await page.unroute('**/v1/admin/queue**');
    await page.route('**/v1/admin/queue**', (route) => route.fulfill({ status: 503, json: { code: 'degraded', detail: 'RabbitMQ is away', retry: 'later' } }));
    await page.getByRole('button', { name: 'Look again' }).click();
    await page.locator('.check-result.bad').waitFor();
    assert.equal(await page.getByText('20000000002R00000000050000').count(), 1);
    assert.deepEqual(errors.filter((text) => !/503/.test(text)), []);
    await page.context().close();
});

test('the report\'s page: no answer is said in time, and a refused token leads back to signing in', async () => {
    const { sale } = await makeSale(server, { name: 'Kept' });
    const { page, errors } = await openConsole();
    await goTo(page, `sales/${sale.id}/report`, 'Report: Sale of Kept');
    await page.evaluate(() => {
        const { timeout } = AbortSignal;
        AbortSignal.timeout = () => {       // this once
            AbortSignal.timeout = timeout;
            return timeout.call(AbortSignal, 30);
        };
    });
    await page.route(/format=html/, () => {});      // never answered
    await page.getByRole('button', { name: 'Keep as a page' }).click();
    await page.locator('#notice:not([hidden])').waitFor();
    await page.unroute(/format=html/);
    await page.route(/format=html/, (route) => route.fulfill({ status: 401, json: { code: 'unauthenticated', retry: 'no' } }));
    await page.getByRole('button', { name: 'Keep as a page' }).click();
    await page.locator('#token').waitFor();
    assert.deepEqual(errors.filter((text) => !/401/.test(text)), []);
    await page.context().close();
});

test('a hostile name is text everywhere', async () => {
    const name = '<img src=x onerror="globalThis.harmed=1"><b>"\'&{n}';
    const { sale } = await makeSale(server, { name });
    const { page, errors } = await openConsole();
    await page.getByRole('link', { name, exact: true }).waitFor();
    await goTo(page, `sales/${sale.id}`, `Sale of ${name}`);
    await goTo(page, `sales/${sale.id}/report`, `Report: Sale of ${name}`);
    await goTo(page, `sales/${sale.id}/edit`, 'Edit the sale');
    assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
    assert.equal(await page.locator('main img[src="x"]').count(), 0);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('a screen that was left draws nothing, however late its answer comes', async () => {
    const { page, errors } = await openConsole();
    // What the screen does with its answer, it does before the next task of the page.
    await page.evaluate(() => {
        const text = Response.prototype.text;
        Response.prototype.text = async function told() {
            const said = await text.call(this);
            if (/\/v1\/admin\/orders\?/.test(this.url)) setTimeout(() => setTimeout(() => { globalThis.used = true; }));
            return said;
        };
    });
    let release;
    const held = new Promise((done) => { release = done; });
    let asked = 0;
    await page.route('**/v1/admin/orders?*', async (route) => {
        asked += 1;
        await held;
        await route.continue();
    });
    await page.evaluate(() => { location.hash = '#/orders'; });
    await until('the orders to be asked for', () => asked === 1);
    await goTo(page, 'sales', 'Sales');
    release();
    await page.waitForFunction(() => globalThis.used);
    assert.equal(await page.locator('main h1').innerText(), 'Sales');
    assert.match(await page.title(), /^Sales/);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('skipping to the content leaves the screen, and what was typed into it, as it is', async () => {
    const { page, errors } = await openConsole();
    await goTo(page, 'sales/new', 'New sale');
    await page.locator('.fields').getByLabel('Name').fill('Half typed');
    await page.locator('.skip').focus();
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    assert.equal(await page.evaluate(() => location.hash), '#/sales/new');
    assert.equal(await page.locator('.fields').getByLabel('Name').inputValue(), 'Half typed');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('on a phone an order id stays in one line, and figures come two in a row', async () => {
    const { item } = await makeSale(server, { name: 'Lamp', total: 5 });
    await buyer(server, 7101).buy(item);
    const { page, errors } = await openConsole({ locale: 'zh-CN', viewport: { width: 390, height: 844 } });
    const tops = await page.locator('.figure').evaluateAll((nodes) => nodes.slice(0, 2).map((node) => node.getBoundingClientRect().top));
    assert.equal(tops[0], tops[1]);
    await page.evaluate((id) => { location.hash = `#/orders?item=${id}`; }, item.id);
    const id = page.locator('.list code').first();
    await id.waitFor();
    assert.equal(await id.evaluate((node) => node.getClientRects().length), 1);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, 'the table scrolls, the page does not');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('the requests of the live screen add up, what is sold out says what may return, and open sales are named', async () => {
    const { sale, item } = await makeSale(server, { name: 'Scarce', total: 2 });
    await buyer(server, 7201).buy(item);
    const second = buyer(server, 7202);
    await second.pay(await second.buy(item));
    await assert.rejects(buyer(server, 7203).buy(item), /sold_out/);
    const { page, errors } = await openConsole();
    const row = page.locator('.stock').filter({ hasText: 'Scarce' });
    await until('it to be sold out', async () => /Sold out · 1 may return · 1 sold · of 2/.test(await row.innerText()));
    const list = page.locator('section', { has: page.getByRole('heading', { name: 'Where requests went' }) });
    const told = await list.locator('.flow-sum').innerText();
    const [total, ...parts] = told.replaceAll(',', '').match(/\d+/g).map(Number);
    assert.match(told, /turned away .* tickets .* won .* pages, reads, payments$/);
    assert.equal(parts.reduce((sum, n) => sum + n, 0), total, told);
    await page.locator('.verdict-sales').filter({ hasText: /^Open: .*units left in all$/ }).waitFor();
    // Only some of many are named; the newest stands first.
    await until('its name', async () => (await page.locator('.verdict-sales').innerText()).includes(sale.name));
    await until('the clock, of 24 hours', async () => /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d$/.test(await page.locator('#clock').innerText()));
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('on a phone every sale is a card, and no column is cut off', async () => {
    const { sale } = await makeSale(server, { name: 'Card', total: 4, sale: { ends_at_ms: Date.now() + 86400000 } });
    const { page, errors } = await openConsole({ viewport: { width: 360, height: 740 } });
    await goTo(page, 'sales', 'Sales');
    const row = page.locator('.cards tr', { hasText: sale.name });
    assert.match(await row.innerText(), /0 of 4 \(0 %\)/);
    assert.match(await row.locator('.hours').innerText(), /^\d\d:\d\d – \d{1,2} \w+( \d{4})? \d\d:\d\d$/);
    const cut = await page.locator('.panel.scroll').evaluate((node) => node.scrollWidth - node.clientWidth);
    assert.equal(cut, 0);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('the live screen says when its figures are old, and goes on when the server is back', async () => {
    const { page } = await openConsole({ prepare: ownClock });
    await page.locator('.stock').first().waitFor();
    assert.equal(await page.locator('.alarm').isVisible(), false);
    await page.getByText('All well').waitFor();
    await page.locator('.uplot canvas').waitFor();
    await server.stop('SIGKILL');
    await soon(page, 'the figures to be old', () => page.getByText(/No news from the server for \d+ s/).isVisible());
    assert.equal(await page.getByText('All well').isVisible(), false);
    await server.start();
    await soon(page, 'news', () => page.locator('.alarm').isHidden());
    await page.context().close();
});

test('every screen in both languages and both schemes has no serious fault of accessibility', async () => {
    const { sale } = await makeSale(server, { name: 'Desk' });
    const screens = ['live', 'sales', 'sales/new', `sales/${sale.id}`, `sales/${sale.id}/report`, 'orders', 'check'];
    for (const look of [{ locale: 'zh-CN', colorScheme: 'dark' }, { locale: 'en-US', colorScheme: 'light', viewport: { width: 390, height: 800 } }]) {
        const { page } = await openConsole(look);
        assert.equal(await page.evaluate(() => document.documentElement.lang), look.locale);
        for (const screen of screens) {
            await showScreen(page, screen);
            assert.deepEqual(await seriousFaults(page), [], screen);
        }
        await page.context().close();
    }
});
