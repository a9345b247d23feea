/*
 * How results reach the page: by push, by long poll or by polling. If one way is blocked, the page uses the next and
 * stays with it. It shows no lost connection while one way works, and never asks too often. Pauses are measured by the
 * page's own clock, which the tests move forward.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answer, listen, note, noted, ownClock, reachedSoon, refuse, soon } from './bend.mjs';
import { buyer, makeSale, openItem, startServer, stopAll } from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

const EVENTS = '**/v1/orders/*/events';
const LONG = /\/v1\/orders\/[^/]+\?wait_ms=/;
const kindOf = ({ path }) => (/\/events$/.test(path) ? 'stream' : /wait_ms/.test(path) ? 'long' : 'poll');

// The first n calls for the order that were made to follow it: the looks of the button itself are not among them.
async function calls(page, n) {
    await soon(page, `${n} calls`, async () => (await noted(page)).length >= n);
    return (await noted(page)).slice(0, n).map((call) => ({ ...call, kind: kindOf(call) }));
}

// The page of an order that is the buyer's to pay, however it came to know that.
async function follow(sale, prepare) {
    const { item } = await makeSale(server, sale);
    const opened = await openItem(server, item, {
        prepare: async (page) => {
            await ownClock(page);
            await note(page, /\/v1\/orders\//);
            await listen(page);
            await prepare(page);
        },
    });
    await opened.go.click();
    await reachedSoon(opened.page, 'locked');
    return opened;
}

test('where the server has no room for streams it answers long polls at once: they are asked for as seldom as polls', async () => {
    const { page, user } = await follow({ name: 'Full house' }, async (one) => {
        await one.route(EVENTS, (route) => refuse(route, 503, { code: 'overloaded', retry: 'later', retry_after_ms: 1000 }));
        await one.route(LONG, (route) => route.continue({ url: route.request().url().replace(/\?.*/, '') }));
    });
    const made = await calls(page, 6);
    assert.deepEqual(made.slice(0, 2).map((call) => call.kind), ['stream', 'stream']);
    const long = made.slice(2);
    assert.ok(long.every((call) => call.kind === 'long'), JSON.stringify(made));
    // The first may have brought the status that the page did not know yet.
    for (let i = 2; i < long.length; i += 1) assert.ok(long[i].at - long[i - 1].at >= 1500, JSON.stringify(made));
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await reachedSoon(page, 'paid');
    await page.context().close();
});

test('where streams and long polls are shut, polls go on, nobody cries "no connection", and the top is left alone', async () => {
    const { page, user } = await follow({ name: 'Steps' }, async (one) => {
        await one.route(EVENTS, (route) => route.fulfill({ status: 502, body: '' }));
        await one.route(LONG, (route) => route.fulfill({ status: 504, body: '' }));
    });
    const made = await calls(page, 8);
    const soon = made.filter((call) => call.at - made[0].at < 60000).map((call) => call.kind);
    assert.deepEqual(soon, ['stream', 'stream', 'long', 'long', 'poll', 'poll', 'poll', 'poll'].slice(0, soon.length));
    assert.deepEqual((await page.evaluate(() => globalThis.notices)).filter(Boolean), []);
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await reachedSoon(page, 'paid');
    await page.context().close();
});

test('a stream that is cut as soon as it has spoken has failed: later each time, then the next way', async () => {
    const { page } = await follow({ name: 'Cut' }, (one) => answer(one, EVENTS, async (route) => {
        const url = route.request().url().replace(/\/events$/, '');
        const order = await (await route.fetch({ url, headers: route.request().headers() })).text();
        return route.fulfill({ contentType: 'text/event-stream', body: `event: order\nid: 1\ndata: ${order}\n\n` });
    }));
    const made = await calls(page, 3);
    assert.deepEqual(made.map((call) => call.kind), ['stream', 'stream', 'long']);
    assert.ok(made[1].at - made[0].at >= 450 && made[2].at - made[1].at >= 900, JSON.stringify(made));
    await page.context().close();
});

test('when every way is shut it is said; when the server is back, streams are tried again at once', async () => {
    let shut = false;
    const { page } = await follow({ name: 'Outage' }, (one) => one.route(/\/v1\//, (route) => (shut ? route.abort() : route.continue())));
    shut = true;
    await page.evaluate(() => {
        globalThis.noted.length = 0;
        document.dispatchEvent(new Event('visibilitychange'));
    });
    await soon(page, 'the last way', async () => (await noted(page)).filter((call) => kindOf(call) === 'poll').length > 1);
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    const before = (await noted(page)).length;
    shut = false;
    await soon(page, 'the stream', async () => (await noted(page)).slice(before).some((call) => kindOf(call) === 'stream'));
    await page.getByRole('alert').waitFor({ state: 'hidden' });
    await page.context().close();
});
