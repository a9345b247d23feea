/*
 * The console's acts, and what it says when they go wrong: deleting and editing, ends that are moved, the server's time,
 * notices that go away, refusals by reason, parked payments; and axe-core on every screen that the rest does not meet.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { asDistributed, dialog, goTo, openDesk, seriousFaults } from './desk.mjs';
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

test('the server\'s time: none before it is known, never the device\'s, and asked for again after a sleep', async () => {
    const hours = async (page) => {
        const [shown, device] = await page.evaluate(() => [document.getElementById('clock').textContent, new Date().toTimeString().slice(0, 8)]);
        const seconds = (text) => text.split(':').reduce((sum, part) => 60 * sum + Number(part), 0);
        return Math.round((((seconds(shown) - seconds(device)) + 86400) % 86400) / 360) / 10 % 24;
    };
    const { page } = await openPage(server, {}, '/console');
    let ahead = null;
    await page.route('**/v1/time', (route) => (ahead === null ? route.abort() : route.fulfill({ json: { now_ms: Date.now() + ahead * 3600000 } })));
    let asked = 0;
    page.on('request', (request) => { asked += /\/v1\/time$/.test(request.url()) ? 1 : 0; });
    await page.reload();
    await until('it to ask twice', () => asked >= 2);
    assert.equal(await page.locator('#clock').innerText(), '--:--:--');
    ahead = 5;
    await until('the server\'s time', async () => (await page.locator('#clock').innerText()) !== '--:--:--');
    assert.equal(await hours(page), 5);
    // The device slept: its clock went on, the monotonic one did not.
    ahead = 2;
    await page.evaluate(() => {
        const real = performance.now.bind(performance);
        performance.now = () => real() - 3600000;
    });
    await until('the time to be asked for again', async () => (await hours(page)) === 2);
    await page.context().close();
});
