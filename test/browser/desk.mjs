/*
 * Helpers for the tests of the console: a signed-in operator, confirmation dialogs, simulated answers of a distributed
 * engine, and the check with axe-core.
 */

import { violations } from './axe.mjs';
import { adminToken, openPage } from './harness.mjs';

export async function openDesk(server, options) {
    const opened = await openPage(server, options, '/console');
    await opened.page.fill('#token', adminToken(server));
    await opened.page.keyboard.press('Enter');
    await opened.page.locator('.figures').first().waitFor();
    return opened;
}

export async function goTo(page, path, heading) {
    await page.evaluate((where) => { location.hash = `#/${where}`; }, path);
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
}

// As goTo, where the heading is not known: until another screen stands there, and is complete.
export async function showScreen(page, path) {
    await page.evaluate((where) => {
        document.querySelector('main .screen').dataset.left = '';
        location.hash = `#/${where}`;
    }, path);
    await page.locator('main .screen:not([data-left]):not(:has([aria-busy])) h1').waitFor();
}

export const dialog = (page) => page.getByRole('dialog');

// What axe-core calls serious or critical, each with a piece of the page.
export async function seriousFaults(page) {
    return (await violations(page)).filter((one) => ['serious', 'critical'].includes(one.impact)).map((one) => `${one.id} ${one.html[0]}`);
}

// The feed of the real server, with what a distributed one has beside; and what such a one answers about its queue.
export async function asDistributed(page, changes = {}) {
    await page.route('**/v1/admin/live', async (route) => {
        const live = await fetch(route.request().url(), { headers: { authorization: route.request().headers().authorization } });
        const reader = live.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = '';
        while (!text.includes('\n\n')) text += (await reader.read()).value;
        reader.cancel();
        const message = JSON.parse(/^data: (.*)$/m.exec(text)[1]);
        const segment = { state: 'home', epoch: 3, outbox: 2, lag_ms: 1500, available: 40, locked: 5, sold: 7, address: '10.0.0.5:6379' };
        const body = {
            ...message, engine: 'distributed', segments: [{ id: 0, ...segment }, { id: 1, ...segment, state: 'away' }], outbox: { depth: 4, lag_ms: 1500 },
            queue: { away: false, ready: 12, retry: 1, parked: 2 }, leases: [{ name: 'keeper', holder: 'front-1', token: 9, until_ms: message.now_ms + 6000 }],
            spool: { promises: 3, in_line: 0 }, ...changes,
        };
        await route.fulfill({ contentType: 'text/event-stream', body: `event: live\ndata: ${JSON.stringify(body)}\n\n` });
    });
    const order = '20000000002R00000000050000';
    const left = {
        orders: [
            { attempts: 4, order_id: order, user_id: 5, item_id: 11, qty: 2, segment: 0, epoch: 1, created_at_ms: Date.now() - 7200000, age_ms: 7200000 },
            { attempts: 0, text: '<img src=x onerror="globalThis.harmed=1">' },
        ],
        payments: [
            { attempts: 1, reason: 'wrong_amount', text: `{"payment_id":"p-9","order_id":"${order}","amount_cents":5}` },
            { attempts: 0, reason: 'bad_request', text: 'no payment' },
            { attempts: 0, reason: 'of_tomorrow', text: '{"order_id":"<b>"}' },
        ],
    };
    const sent = [];
    await page.route('**/v1/admin/queue**', async (route) => {
        const body = route.request().postDataJSON();
        const queue = body?.queue ?? new URL(route.request().url()).searchParams.get('queue');
        if (body) {
            sent.push(body);
            left[queue] = [];
            return route.fulfill({ json: { queue, ready: 2, retry: 0, parked: 0, sent: 2 } });
        }
        return route.fulfill({ json: { queue, ready: 12, retry: 1, parked: left[queue].length, messages: left[queue] } });
    });
    return sent;
}
