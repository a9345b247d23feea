/*
 * The console's actions and its messages when they fail: deleting and editing, a changed end, the server's time, notices
 * that close by themselves, refusals by reason, parked payments. axe-core checks every screen that the other tests do
 * not open.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ownClock, soon } from './bend.mjs';
import { asDistributed, dialog, goTo, openDesk, seriousFaults, showScreen } from './desk.mjs';
import { adminToken, buyer, loadTool, makeSale, openPage, operate, startServer, stopAll, until } from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

const ask = (path) => fetch(`${server.url}/v1/admin${path}`, { headers: { authorization: `Bearer ${adminToken(server)}` } });
const saleOf = async (id) => (await ask(`/sales/${id}`)).json();

// An hour from now with a part of a second, which no field of a form can show.
async function makeDraft(name, more = {}) {
    const now = Math.floor(Date.now() / 1000) * 1000;
    return operate(server, '/v1/admin/sales', {
        name, starts_at_ms: now + 3600123, ends_at_ms: now + 7200456, pay_within_s: 600,
        items: [{ name: `${name} thing`, price_cents: 1990, total: 3, limit_per_user: 1 }], ...more,
    });
}

// What is sent to a sale.
function writesOf(page) {
    const bodies = [];
    page.on('request', (request) => { if (request.method() === 'PUT') bodies.push(request.postDataJSON()); });
    return bodies;
}

// As a datetime-local field has it, which leaves out seconds that are none.
const fieldText = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19).replace(/:00$/, '');

test('a draft is deleted after a question, and is gone', async () => {
    const draft = await makeDraft('Unwanted');
    const { page, errors } = await openDesk(server);
    await goTo(page, `sales/${draft.id}`, 'Unwanted draft');
    await page.getByRole('button', { name: 'Delete' }).click();
    await dialog(page).getByText('Delete the draft “Unwanted”?').waitFor();
    assert.deepEqual(await seriousFaults(page), [], 'the dialog');
    await dialog(page).getByRole('button', { name: 'Leave it' }).click();
    await dialog(page).waitFor({ state: 'hidden' });
    assert.equal((await ask(`/sales/${draft.id}`)).status, 200);
    await page.getByRole('button', { name: 'Delete' }).click();
    await dialog(page).getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor();
    assert.equal((await ask(`/sales/${draft.id}`)).status, 404);
    assert.equal(await page.getByRole('link', { name: 'Unwanted' }).count(), 0);
    assert.equal(await page.locator('#notice').isVisible(), false);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('saving a draft sends what was changed, and leaves its times as they were', async () => {
    const draft = await makeDraft('Early');
    const { page, errors } = await openDesk(server);
    const sent = writesOf(page);
    await goTo(page, `sales/${draft.id}/edit`, 'Edit the sale');
    await page.locator('.fields').getByLabel('Name').fill('Earlier');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { level: 1, name: 'Earlier draft' }).waitFor();
    assert.deepEqual(sent, [{ name: 'Earlier' }]);
    const now = await saleOf(draft.id);
    assert.deepEqual([now.starts_at_ms, now.ends_at_ms], [draft.starts_at_ms, draft.ends_at_ms]);
    await goTo(page, `sales/${draft.id}/edit`, 'Edit the sale');
    await page.getByRole('group', { name: 'Item 1' }).getByLabel('Total').fill('8');
    await page.getByLabel('Ends').fill(fieldText(draft.ends_at_ms + 60000));
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { level: 1, name: 'Earlier draft' }).waitFor();
    assert.deepEqual(Object.keys(sent[1]).sort(), ['ends_at_ms', 'items'], 'a draft asks nothing');
    assert.equal((await saleOf(draft.id)).items[0].total, 8);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('renaming an open sale does not touch its end; moving the end asks, and says when that closes it for good', async () => {
    const { sale } = await makeSale(server, { name: 'Running', sale: { ends_at_ms: Math.floor(Date.now() / 1000) * 1000 + 3600456 } });
    const { page, errors } = await openDesk(server);
    const sent = writesOf(page);
    const save = () => page.getByRole('button', { name: 'Save' }).click();
    await goTo(page, `sales/${sale.id}/edit`, 'Edit the sale');
    await page.locator('.fields').getByLabel('Name').fill('Renamed');
    await save();
    await page.getByRole('heading', { level: 1, name: 'Renamed open' }).waitFor();
    assert.deepEqual(sent, [{ name: 'Renamed' }]);
    assert.equal((await saleOf(sale.id)).ends_at_ms, sale.ends_at_ms);

    await goTo(page, `sales/${sale.id}/edit`, 'Edit the sale');
    assert.deepEqual(await seriousFaults(page), [], 'the form');
    const later = Math.floor(sale.ends_at_ms / 1000) * 1000 + 1800000;
    await page.getByLabel('Ends').fill(fieldText(later));
    await save();
    await dialog(page).getByText('Move the end of “Renamed”?').waitFor();
    await dialog(page).getByRole('button', { name: 'Leave it' }).click();
    await dialog(page).waitFor({ state: 'hidden' });
    assert.equal(sent.length, 1, 'nothing was sent');
    await save();
    await dialog(page).getByRole('button', { name: 'Move the end' }).click();
    await page.getByRole('heading', { level: 1, name: 'Renamed open' }).waitFor();
    assert.deepEqual(sent[1], { ends_at_ms: later });

    await goTo(page, `sales/${sale.id}/edit`, 'Edit the sale');
    // Just behind the start, which lies in the past.
    await page.getByLabel('Ends').fill(fieldText(Math.floor(sale.starts_at_ms / 1000) * 1000 + 1000));
    await save();
    await dialog(page).getByText('End “Renamed” at once?').waitFor();
    assert.match(await dialog(page).innerText(), /is past[\s\S]*for good[\s\S]*cannot be opened again/);
    await dialog(page).getByRole('button', { name: 'Leave it' }).click();
    await dialog(page).waitFor({ state: 'hidden' });
    assert.equal(sent.length, 2);
    assert.equal((await saleOf(sale.id)).state, 'open');
    await save();
    await dialog(page).getByRole('button', { name: 'Close for good' }).click();
    await until('it to be closed', async () => (await saleOf(sale.id)).state === 'closed');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('a draft that was opened while its form stood open asks, too', async () => {
    const draft = await makeDraft('Overtaken');
    const { page, errors } = await openDesk(server);
    const sent = writesOf(page);
    await goTo(page, `sales/${draft.id}/edit`, 'Edit the sale');
    await page.getByLabel('Ends').fill(fieldText(draft.ends_at_ms + 60000));
    await operate(server, `/v1/admin/sales/${draft.id}/warm`);
    await page.getByRole('button', { name: 'Save' }).click();
    await dialog(page).getByText('Move the end of “Overtaken”?').waitFor();
    await dialog(page).getByRole('button', { name: 'Leave it' }).click();
    await dialog(page).waitFor({ state: 'hidden' });
    assert.deepEqual(sent, []);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('a bad hour hides nothing else that is wrong, and an address of another host is refused as the server does', async () => {
    const { page, errors } = await openDesk(server);
    await goTo(page, 'sales/new', 'New sale');
    await page.getByLabel('Also at').fill('25:00');
    await page.getByRole('group', { name: 'Item 1' }).getByLabel('Picture').fill('//elsewhere.example/x.png');
    await page.getByRole('button', { name: 'Create the draft' }).click();
    await page.getByText('Something is not right yet.').waitFor();
    const wrong = await page.locator('[aria-invalid]').evaluateAll((fields) => fields.map((field) => field.name));
    assert.deepEqual(wrong, ['name', 'also_at', 'name', 'price', 'total', 'image']);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('an act that nobody answers is told, and the screen stays', async () => {
    const draft = await makeDraft('Alone');
    const { page, errors } = await openDesk(server);
    await goTo(page, `sales/${draft.id}`, 'Alone draft');
    let failed = 0;
    page.on('requestfailed', () => { failed += 1; });
    await page.route(`**/v1/admin/sales/${draft.id}**`, (route) => route.abort());
    await page.getByRole('button', { name: 'Warm up' }).click();
    await page.locator('#notice').filter({ hasText: /^No answer from the server: it is not known whether this was done\. Asking again is safe\.$/ }).waitFor();
    await until('it to have looked again', () => failed === 2);
    await page.evaluate(() => new Promise((done) => { setTimeout(done); }));      // what it does about that is done by then
    assert.match(await page.locator('#notice').innerText(), /not known/, 'that looking failed, too, does not hide it');
    await page.unroute(`**/v1/admin/sales/${draft.id}**`);
    await page.getByRole('button', { name: 'Warm up' }).click();
    await page.getByRole('heading', { level: 1, name: 'Alone warm' }).waitFor();
    assert.equal(await page.locator('#notice').isVisible(), false);
    assert.deepEqual(errors.filter((text) => !/Failed to load resource/.test(text)), []);
    await page.context().close();
});

test('a restock or a draft without an answer says what is safe to do', async () => {
    const { sale, item } = await makeSale(server, { name: 'Doubtful', total: 5 });
    const { page } = await openDesk(server);
    await goTo(page, `sales/${sale.id}`, 'Sale of Doubtful open');
    const ids = [];
    await page.route('**/restock', async (route) => {
        ids.push(route.request().postDataJSON().request_id);
        if (ids.length > 1) return route.continue();
        await route.fetch();            // done, but the answer is lost
        return route.abort();
    });
    for (const told of ['#notice', '#announce']) {
        await page.getByLabel('Add units: Doubtful').fill('4');
        await page.getByRole('row', { name: /Doubtful/ }).getByRole('button', { name: 'Restock' }).click();
        await dialog(page).getByRole('button', { name: 'Restock' }).click();
        await page.locator(told).filter({ hasText: told === '#notice' ? 'for as many, is safe: they are added once' : '4 units added to Doubtful.' }).waitFor();
    }
    assert.equal(ids[0], ids[1]);
    assert.equal((await saleOf(sale.id)).items.find((one) => one.id === item.id).total, 9);
    await page.route('**/v1/admin/sales', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()));
    await goTo(page, 'sales/new', 'New sale');
    const first = page.getByRole('group', { name: 'Item 1' });
    await page.locator('.fields').getByLabel('Name').fill('Lost');
    await first.getByLabel('Name').fill('Kettle');
    await first.getByLabel('Price').fill('19.90');
    await first.getByLabel('Total').fill('3');
    await page.getByRole('button', { name: 'Create the draft' }).click();
    await page.getByText('See the list of sales before making it again.').waitFor();
    await page.context().close();
});

test('what was done is seen as well as read out, and goes away; the next step stands out, the last one stands apart', async () => {
    const draft = await makeDraft('Seen');
    const { page, errors } = await openDesk(server, { prepare: ownClock });
    const told = page.getByRole('status').and(page.locator('#announce'));
    const seen = async (text) => {
        await told.filter({ hasText: text }).waitFor();
        const box = await told.boundingBox();
        assert.ok(box.height > 20 && box.width > 60 && box.y + box.height <= 900, `${text} is seen`);
    };
    const solid = () => page.locator('.acts button:not(.plain):not(.danger)').allInnerTexts();
    const apart = () => page.locator('.acts .danger').evaluateAll((nodes) => nodes.map((node) => {
        const style = getComputedStyle(node);
        return [node.textContent, style.backgroundColor, style.color === style.borderTopColor, !node.nextElementSibling];
    }));
    await goTo(page, `sales/${draft.id}/edit`, 'Edit the sale');
    await page.locator('.fields').getByLabel('Name').fill('Seen well');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { level: 1, name: 'Seen well draft' }).waitFor();
    await seen('Saved.');
    assert.deepEqual(await seriousFaults(page), []);
    await page.clock.pauseAt(Date.now() + 5000);
    assert.deepEqual(await solid(), ['Warm up']);
    assert.deepEqual(await apart(), [['Delete', 'rgba(0, 0, 0, 0)', true, true]]);
    await page.getByRole('button', { name: 'Warm up' }).click();
    await page.getByRole('heading', { level: 1, name: 'Seen well warm' }).waitFor();
    await seen('Done: the sale is warm.');
    assert.deepEqual(await solid(), ['Open now']);
    assert.deepEqual(await apart(), [['Close for good', 'rgba(0, 0, 0, 0)', true, true]]);
    await goTo(page, 'sales', 'Sales');
    assert.equal(await page.locator('#announce').innerText(), '', 'it was said of another screen');
    await goTo(page, `sales/${draft.id}`, 'Seen well warm');
    assert.equal(await page.getByRole('button', { name: 'Pause' }).count(), 0, 'the server would refuse it');
    for (const [act, state] of [['Open now', 'open'], ['Pause', 'paused']]) {
        await page.getByRole('button', { name: act }).click();
        await dialog(page).getByRole('button', { name: act }).click();
        await page.getByRole('heading', { level: 1, name: `Seen well ${state}` }).waitFor();
        await seen(`Done: the sale is ${state}.`);
        assert.deepEqual(await solid(), state === 'open' ? [] : ['Resume']);
    }
    await page.clock.runFor(7500);
    await seen('Done: the sale is paused.');
    await page.clock.runFor(1000);
    assert.equal(await page.locator('#announce').innerText(), '', 'it went away');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('every time says its zone, and what cannot be changed looks so', async () => {
    const { sale } = await makeSale(server, { name: 'Zoned' });
    const { page, errors } = await openDesk(server, { timezoneId: 'America/Argentina/Buenos_Aires', viewport: { width: 360, height: 740 } });
    const zone = await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone);     // browsers spell some in their own way
    assert.match(zone, /Buenos_Aires$/);
    await until('the time with its zone', async () => new RegExp(`^Server time\\s+\\d\\d:\\d\\d:\\d\\d\\s+${zone}$`).test(await page.locator('.clock').innerText()));
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
    await goTo(page, `sales/${sale.id}`, 'Sale of Zoned open');
    await page.getByText(new RegExp(`\\d\\d:\\d\\d – .*\\d\\d:\\d\\d ${zone}$`)).waitFor();
    await goTo(page, `sales/${sale.id}/edit`, 'Edit the sale');
    assert.equal(await page.getByText(`Time zone: ${zone}`).count(), 2);
    const ground = (label) => page.locator('.fields').getByLabel(label, { exact: true }).evaluate((node) => [node.disabled, getComputedStyle(node).backgroundColor]);
    const [, free] = await ground('Name');
    assert.deepEqual(await ground('Ends'), [false, free]);
    for (const label of ['Starts', 'Seconds to pay', 'Currency', 'Pay page']) {
        const [fixed, grey] = await ground(label);
        assert.ok(fixed && grey !== free, label);
    }
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('money is told to the last digit, and nothing on a phone is cut off: orders, and the report as a page', async () => {
    const name = 'Porcelain teapot with an unreasonably long name for gardens';
    const { sale, item } = await makeSale(server, { name, total: 50, limit_per_user: 0, price_cents: 141875 });
    const payer = buyer(server, 7601);
    await payer.pay(await payer.buy(item, 2));
    const { page, errors } = await openDesk(server, { viewport: { width: 360, height: 740 } });
    await goTo(page, `orders?item=${item.id}`, 'Orders');
    const card = page.locator('.cards tbody tr').first();
    assert.match(await card.innerText(), /7601[\s\S]*Porcelain teapot[\s\S]*¥2,837\.50[\s\S]*\d\d:\d\d:\d\d/);
    const edges = await card.locator('th, td').evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect()).map((box) => box.left >= 0 && box.right <= innerWidth));
    assert.ok(edges.every(Boolean), 'all of it is on the screen');
    assert.equal(await page.locator('.panel.scroll').evaluate((node) => node.scrollWidth - node.clientWidth), 0);
    assert.deepEqual(await seriousFaults(page), []);
    await goTo(page, `sales/${sale.id}/report`, `Report: Sale of ${name}`);
    assert.equal(await page.locator('.figure', { hasText: /^paid/ }).locator('dd').innerText(), '¥2,837.50');
    const alone = await page.context().newPage();
    await alone.setContent(await (await ask(`/sales/${sale.id}/report?format=html`)).text());
    const tops = await alone.locator('.figures div').evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().top));
    assert.ok(tops[0] === tops[1] && tops[2] > tops[1], 'two tiles in a row');
    const lines = await alone.locator('.items tbody th').first().evaluate((node) => {
        const range = document.createRange();
        range.selectNodeContents(node.firstChild);
        return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
    });
    assert.ok(lines <= 3, `the name has ${lines} lines`);
    assert.equal(await alone.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
    assert.deepEqual(await seriousFaults(alone), []);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('all is well in the distributed engine only as this front sees it, in both languages', async () => {
    for (const [locale, text] of [['en-US', 'All well, as this front sees it: Redis, RabbitMQ, MariaDB and all segments answer'], ['zh-CN', '本前端所见一切正常：Redis、RabbitMQ、MariaDB 和所有分片都有应答']]) {
        const { page } = await openDesk(server, { locale });
        await asDistributed(page, { segments: [], queue: { away: false, ready: 0, retry: 0, parked: 0 } });
        await page.reload();
        await page.getByText(text, { exact: true }).waitFor();
        await page.context().close();
    }
});

test('more orders that are refused are told of, and come when asked for again', async () => {
    const { item } = await makeSale(server, { name: 'Crowded', total: 100, limit_per_user: 0 });
    await loadTool(server, ['--item', item.id, '--users', 60, '--first-user', 50000, '--connections', 4, '--no-audit']);
    const { page } = await openDesk(server);
    await page.route(/\/v1\/admin\/orders\?.*after=/, (route) => route.fulfill({ status: 503, json: { code: 'degraded', detail: 'the ledger is away', retry: 'later' } }));
    await page.evaluate((id) => { location.hash = `#/orders?item=${id}`; }, item.id);
    await page.getByText('The first 50 orders; there are more.').waitFor();
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.locator('#notice').filter({ hasText: 'The server cannot do this just now.' }).waitFor();
    await page.unroute(/\/v1\/admin\/orders\?.*after=/);
    await page.getByRole('button', { name: 'Show more' }).click();
    await until('all of them', async () => (await page.locator('.list tbody tr').count()) > 50);
    await page.locator('#notice').waitFor({ state: 'hidden' });
    await page.context().close();
});

test('the notice of a feed that was refused goes away when the feed is back', async () => {
    const { page } = await openDesk(server);
    await page.route('**/v1/admin/live', (route) => route.fulfill({ status: 503, json: { code: 'overloaded', retry: 'later' } }));
    await page.reload();
    await page.locator('#notice:not([hidden])').waitFor();
    await page.unroute('**/v1/admin/live');
    await page.getByText('All well').waitFor();
    await page.locator('#notice').waitFor({ state: 'hidden' });
    await page.context().close();
});

test('the server\'s time: none before it is known, never the device\'s, and asked for again after a sleep', async () => {
    const hours = async (page) => {
        const [shown, device] = await page.evaluate(() => [document.getElementById('clock').textContent, new Date().toTimeString().slice(0, 8)]);
        const seconds = (text) => text.split(':').reduce((sum, part) => 60 * sum + Number(part), 0);
        return Math.round((((seconds(shown) - seconds(device)) + 86400) % 86400) / 360) / 10 % 24;
    };
    const { page } = await openPage(server, { prepare: ownClock }, '/console');
    let ahead = null;
    await page.route('**/v1/time', (route) => (ahead === null ? route.abort() : route.fulfill({ json: { now_ms: Date.now() + ahead * 3600000 } })));
    let asked = 0;
    page.on('request', (request) => { asked += /\/v1\/time$/.test(request.url()) ? 1 : 0; });
    await page.reload();
    await soon(page, 'it to ask twice', () => asked >= 2);
    assert.equal(await page.locator('#clock').innerText(), '--:--:--');
    ahead = 5;
    await soon(page, 'the server\'s time', async () => (await page.locator('#clock').innerText()) !== '--:--:--');
    assert.equal(await hours(page), 5);
    // The device slept: its clock went on, the monotonic one did not.
    ahead = 2;
    await page.evaluate(() => {
        const real = performance.now.bind(performance);
        performance.now = () => real() - 3600000;
    });
    await soon(page, 'the time to be asked for again', async () => (await hours(page)) === 2);
    await page.context().close();
});

test('the big latency is that of the last seconds, and a dash where nothing was measured', async () => {
    // A server that nobody has looked at yet: what was sold until then is over at once.
    const fresh = await startServer();
    const { item } = await makeSale(fresh, { name: 'Quick', total: 50, limit_per_user: 0 });
    await buyer(fresh, 7301).buy(item);
    const { page, errors } = await openDesk(fresh);
    const big = page.locator('.figure-big', { hasText: 'buy answered, p99' });
    const told = page.getByRole('row', { name: /buy → 202/ }).locator('td');
    await until('all of it to be over', async () => /last \d+ s/.test(await big.innerText()) && (await told.nth(1).innerText()) === '—');
    assert.equal(await big.locator('.figure-value').innerText(), '—');
    assert.match(await told.nth(3).innerText(), /\d (µs|ms|s)$/, 'since the start there is something');
    await buyer(fresh, 7302).buy(item);
    await until('the new one', async () => /\d (µs|ms|s)$/.test(await big.locator('.figure-value').innerText()));
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('the live screen is as wide as a phone', async () => {
    const { item } = await makeSale(server, { name: 'Narrow', total: 50 });
    const { page, errors } = await openDesk(server, { viewport: { width: 360, height: 740 } });
    await page.getByRole('row', { name: /buy → 202/ }).waitFor();
    await buyer(server, 7311).buy(item);
    await until('a figure', async () => /\d/.test(await page.locator('.figure-big', { hasText: 'p99' }).locator('.figure-value').innerText()));
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
    const edges = await page.locator('.figure-big').evaluateAll((nodes) => nodes.map((node) => Math.round(node.getBoundingClientRect().width)));
    assert.equal(new Set(edges).size, 1, 'as wide as each other');
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('refusals are told by reason, each with its code', async () => {
    const { sale, item } = await makeSale(server, { name: 'Rare', total: 1 });
    const order = await buyer(server, 7401).buy(item);
    for (const user of [7402, 7403]) await assert.rejects(buyer(server, user).buy(item), /sold_out/);
    const { page, errors } = await openDesk(server);
    await goTo(page, `sales/${sale.id}/report`, 'Report: Sale of Rare');
    const panel = page.locator('section', { has: page.getByRole('heading', { name: 'Turned away, by reason' }) });
    assert.match(await panel.innerText(), /sold out \(sold_out\)\s+2/);
    await page.route(`**/v1/admin/orders/${order.order_id}`, async (route) => {
        const answer = await route.fetch();
        return route.fulfill({ json: { ...await answer.json(), status: 'FAILED', reason: 'overloaded' } });
    });
    await goTo(page, `orders/${order.order_id}`, `Order ${order.order_id}`);
    assert.match(await page.locator('.facts').innerText(), /Reason\s+too busy \(overloaded\)/);
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('parked payments are reached from the live screen and by a tab, and sent round in their own queue', async () => {
    const { page, errors } = await openDesk(server);
    const sent = await asDistributed(page, { payments_queue: { away: false, ready: 0, retry: 0, parked: 3 } });
    await page.reload();
    const queues = page.locator('section', { has: page.getByRole('heading', { name: 'Queues' }) });
    await queues.getByRole('link', { name: 'payments' }).click();
    const tabs = page.getByRole('navigation', { name: 'Which queue' });
    await tabs.getByRole('link', { name: 'payments' }).and(page.locator('[aria-current]')).waitFor();
    assert.match(await page.getByRole('row', { name: /20000000002R/ }).innerText(), /wrong amount \(wrong_amount\)\s+p-9/);
    assert.match(await page.getByRole('row', { name: /no payment/ }).innerText(), /not ours no payment\s+not understood \(bad_request\)/);
    assert.match(await page.getByRole('row', { name: /of_tomorrow/ }).innerText(), /not ours \{"order_id":"<b>"\}/);
    assert.deepEqual(await seriousFaults(page), []);
    await page.getByRole('button', { name: 'Send round again' }).click();
    await dialog(page).getByRole('button', { name: 'Send round again' }).click();
    await page.getByText('Nothing is put aside.').waitFor();
    assert.deepEqual(sent, [{ queue: 'payments' }]);
    await tabs.getByRole('link', { name: 'orders' }).click();
    await page.getByRole('row', { name: /given back 4 times/ }).waitFor();
    assert.equal(await tabs.locator('[aria-current]').innerText(), 'Orders');
    // Typed in, or sent by a colleague: it finds out by itself what there is.
    await page.evaluate(() => { for (const key of Object.keys(sessionStorage)) if (key !== 'sluice.admin') sessionStorage.removeItem(key); });
    await page.reload();
    await tabs.getByRole('link', { name: 'payments' }).waitFor();
    assert.deepEqual(errors, []);
    await page.context().close();
});

test('of one queue alone there is nothing to choose', async () => {
    const { page } = await openDesk(server);
    await asDistributed(page);
    await page.reload();
    await page.getByRole('heading', { name: 'Queues' }).waitFor();
    await goTo(page, 'queue', 'Put aside in the queue');
    assert.equal(await page.getByRole('navigation', { name: 'Which queue' }).count(), 0);
    await page.context().close();
});

test('signing in, orders, forms, dialogs and the comparison have no serious fault of accessibility, in either language', async () => {
    const { sale, item } = await makeSale(server, { name: 'Fair', total: 5 });
    const draft = await makeDraft('Fair draft');
    const order = await buyer(server, 7501).buy(item);
    for (const look of [{ locale: 'en-US', colorScheme: 'dark' }, { locale: 'zh-CN', colorScheme: 'light', viewport: { width: 390, height: 800 } }]) {
        const { page } = await openPage(server, look, '/console');
        await page.getByRole('button').first().click();
        await page.locator('#token-error:not(:empty)').waitFor();
        assert.deepEqual(await seriousFaults(page), [], `signing in, ${look.locale}`);
        await page.fill('#token', adminToken(server));
        await page.keyboard.press('Enter');
        await page.locator('.figures').first().waitFor();
        assert.match(await page.getByRole('navigation').getAttribute('aria-label'), look.locale === 'zh-CN' ? /^[\u4e00-\u9fff]+$/ : /^Screens$/);
        for (const screen of [`orders/${order.order_id}`, `sales/${sale.id}/edit`, `sales/${draft.id}/edit`, 'check', `orders?item=${item.id}`]) {
            await showScreen(page, screen);
            if (screen === 'check') {
                await page.locator('main button').first().click();
                await page.locator('.check-result.good').waitFor();
            }
            assert.deepEqual(await seriousFaults(page), [], `${screen}, ${look.locale}`);
        }
        await page.evaluate((id) => { location.hash = `#/sales/${id}`; }, sale.id);
        await page.locator('.acts .danger').click();
        await page.locator('dialog[open]').waitFor();
        assert.deepEqual(await seriousFaults(page), [], `a dialog, ${look.locale}`);
        await page.context().close();
    }
});
