/*
 * The storefront under faults: missing answers, every kind of refusal, cut streams, a killed server, a lost network, a
 * device clock that is wrong or stopped. Where a real server cannot be made to fail on demand, a route of Playwright
 * answers in the server's format.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bend, hide, openLocked, ownClock, press, reachedLater, reachedSoon, refuse, soon, text } from './bend.mjs';
import {
    buyer, getItem, inTime, makeSale, openContext, openItem, operate, reached, remember, startServer, stopAll, tokenOf, until,
} from './harness.mjs';

let server;

before(async () => { server = await startServer(); });
after(stopAll);

test('queued, undecided, then the truth; a failed order says why and may be tried again', async () => {
    const { item } = await makeSale(server, { name: 'In line' });
    const { page, go } = await openItem(server, item, { prepare: ownClock });
    let as = { status: 'QUEUED', reason: null, pay_by_ms: null };
    await bend(page, (order) => ({ ...order, ...as }));
    await go.click();
    await reached(page, 'queued');
    assert.equal(await page.locator('.steps [aria-current="step"]').innerText(), 'Stored');
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    assert.equal(await text(page, 'held'), '', 'what is in line is not had');
    as = { ...as, reason: 'undecided' };
    await reachedSoon(page, 'undecided');
    assert.match(await text(page, 'note'), /not decided yet/);
    assert.equal(await text(page, 'held'), '');
    as = {};
    await reachedSoon(page, 'locked');
    assert.match(await text(page, 'held'), /You have 1 of 1/);
    await page.context().close();
    const other = await openItem(server, item);
    await bend(other.page, (order) => ({ ...order, status: 'FAILED', reason: 'sold_out' }));
    await other.go.click();
    await reached(other.page, 'failed');
    assert.match(await text(other.page, 'note'), /could not be completed.*Sold out/);
    assert.equal(await text(other.page, 'go-label'), 'Try again');
    await other.page.context().close();
});

test('blocked, challenge, waiting room: each has its words, none is a dead end without any', async () => {
    const { item } = await makeSale(server, { name: 'Refusals' });
    const { page, go } = await openItem(server, item);
    let problem = { code: 'challenge_failed', retry: 'new-ticket' };
    await page.route('**/v1/items/*/ticket', (route) => refuse(route, 403, problem));
    await go.click();
    await reached(page, 'challenge');
    problem = { code: 'blocked', retry: 'no' };
    await go.click();
    await reached(page, 'blocked');
    assert.match(await text(page, 'note'), /may not buy here/);
    await page.reload();
    await reached(page, 'ready');
    problem = { code: 'waiting_room', retry: 'later', retry_after_ms: 1000 };
    await go.click();
    await reached(page, 'waiting_room');
    await page.context().close();
});

test('overloaded: counted down, then asked again by itself', async () => {
    const { item } = await makeSale(server, { name: 'Crowd' });
    const { page, go } = await openItem(server, item, { prepare: ownClock });
    let asked = 0;
    await page.route('**/v1/items/*/ticket', (route) => {
        asked += 1;
        return asked > 2 ? route.continue() : refuse(route, 503, { code: 'overloaded', retry: 'later', retry_after_ms: 7000 });
    });
    await go.click();
    await reached(page, 'overloaded');
    assert.match(await go.innerText(), /^Again in \d s$/);
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    await reachedSoon(page, 'locked');
    assert.equal(asked, 3);
    await page.context().close();
});

test('a cooling time: the page says until when, and buys by itself when it is over', async () => {
    const { item } = await makeSale(server, { name: 'Not again so soon' });
    const { page, go } = await openItem(server, item, { prepare: ownClock });
    let asked = 0;
    await page.route('**/v1/buy/*', (route) => {
        asked += 1;
        return asked > 1 ? route.continue() : refuse(route, 409, { code: 'barred', retry: 'later', retry_after_ms: 8000 });
    });
    await go.click();
    await reached(page, 'cooling');
    assert.match(await go.innerText(), /^Again in \d s$/);
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    assert.match(await text(page, 'note'), /ended unpaid.* possible at \d+:\d+:\d+/);
    await reachedSoon(page, 'locked');
    assert.equal(asked, 2);
    await page.context().close();
});

test('no answer to a buy that the server did take: found by itself, without another press', async () => {
    const { item } = await makeSale(server, { name: 'Half way' });
    const { page, go } = await openItem(server, item);
    await page.route('**/v1/buy/*', async (route) => {
        await route.fetch();
        await route.abort();
    });
    await page.route(/\/v1\/orders\//, (route) => route.abort());
    await go.click();
    await reached(page, 'timed_out');
    assert.match(await text(page, 'note'), /never taken twice/);
    assert.equal(await go.getAttribute('aria-disabled'), 'false', 'pressable at once');
    await page.unroute(/\/v1\/orders\//);
    await reached(page, 'locked');
    assert.equal((await getItem(server, item)).locked, 1);
    await page.context().close();
});

test('no answer to a buy that never arrived: the same ticket again, also after a reload', async () => {
    const { item } = await makeSale(server, { name: 'Lost letter', limit_per_user: 5 });
    const { page, go } = await openItem(server, item);
    const asked = [];
    await page.route('**/v1/buy/*', (route) => {
        asked.push(route.request().url());
        return asked.length < 3 ? route.abort() : route.continue();
    });
    await page.locator('#more').click();
    await go.click();
    await reached(page, 'timed_out');
    await go.click();
    await until('the second sending', () => asked.length === 2);
    await page.reload();
    await reached(page, 'timed_out');
    await go.click();
    await reached(page, 'locked');
    assert.equal(new Set(asked).size, 1, 'one ticket');
    assert.equal((await getItem(server, item)).locked, 2, 'with the quantity it was first sent with');
    await page.context().close();
});

test('two quick presses are one order', async () => {
    const { item } = await makeSale(server, { name: 'Nervous', limit_per_user: 0 });
    const { page, go } = await openItem(server, item);
    await go.evaluate((node) => { node.click(); node.click(); node.click(); });
    await reached(page, 'locked');
    assert.equal((await getItem(server, item)).locked, 1);
    await page.context().close();
});

test('where streams are refused, long poll brings the result; where that is cut too, poll does', async () => {
    const { item } = await makeSale(server, { name: 'Proxy' });
    // Whether the page has asked in some way.
    const asks = (page, pattern) => {
        let asked = false;
        page.on('request', (request) => { asked ||= pattern.test(request.url()); });
        return () => asked;
    };
    const { page, go, user } = await openItem(server, item, { prepare: ownClock });
    await page.route('**/v1/orders/*/events', (route) => route.fulfill({ status: 502, body: 'no streams here' }));
    const polled = asks(page, /\/v1\/orders\/[^/]+\?wait_ms=/);
    await go.click();
    await soon(page, 'a long poll', polled);
    await reachedSoon(page, 'locked');
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await reachedSoon(page, 'paid');
    await page.context().close();
    const other = await openItem(server, item, { prepare: ownClock });
    await other.page.route('**/v1/orders/*/events', (route) => route.abort());
    await other.page.route(/\/v1\/orders\/[^/]+\?wait_ms=/, (route) => route.fulfill({ status: 504, body: 'too long' }));
    const plain = asks(other.page, /\/v1\/orders\/[^/?]+$/);
    await other.go.click();
    await soon(other.page, 'a poll', plain);
    await reachedSoon(other.page, 'locked');
    await other.page.context().close();
});

test('one stream at a time, none while hidden; a cut one comes back with Last-Event-ID', async () => {
    const { item } = await makeSale(server, { name: 'Streams' });
    const open = new Set();
    const lastIds = [];
    const prepare = (page) => {
        page.on('request', (request) => {
            if (!/\/events$/.test(request.url())) return;
            open.add(request);
            if (/orders/.test(request.url())) lastIds.push(request.headers()['last-event-id'] ?? null);
        });
        for (const end of ['requestfailed', 'requestfinished']) page.on(end, (request) => open.delete(request));
    };
    const { page, go, user } = await openItem(server, item, { prepare });
    await until('the item to be followed', () => [...open].some((request) => /items/.test(request.url())));
    await go.click();
    await reached(page, 'locked');
    await until('the order alone to be followed', () => open.size === 1 && [...open].every((request) => /orders/.test(request.url())));
    await hide(page, true);
    await until('no stream while hidden', () => open.size === 0);
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await hide(page, false);
    await reached(page, 'paid');
    await until('the item again', () => open.size === 1 && [...open].every((request) => /items/.test(request.url())));
    assert.equal(lastIds[0], null);
    assert.ok(lastIds.length > 1 && lastIds.at(-1) !== null, `went on from where it was: ${lastIds}`);
    await page.context().close();
});

test('a killed server: said, gone on by itself, nothing lost', async () => {
    const fragile = await startServer();
    const { item } = await makeSale(fragile, { name: 'Phoenix', limit_per_user: 5 });
    const { page, go } = await openItem(fragile, item);
    await go.click();
    await reached(page, 'locked');
    await page.locator('[data-act="more"]').click();
    await reached(page, 'ready');
    await fragile.stop('SIGKILL');
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    await until('no stock to be claimed', async () => /being checked/.test(await page.locator('.counts').innerText()));
    await go.click();
    await reached(page, 'timed_out');
    await fragile.start();
    await page.getByRole('alert').waitFor({ state: 'hidden' });
    await go.click();
    await reached(page, 'locked');
    await until('both to be there', async () => (await getItem(fragile, item)).locked === 2);
    await page.getByRole('link', { name: 'My orders', exact: true }).click();
    await until('both to be listed', async () => (await page.locator('.order[data-status="LOCKED"]').count()) === 2);
    await page.context().close();
});

test('the network is lost in the middle of a buy and comes back', async () => {
    const { item } = await makeSale(server, { name: 'Tunnel' });
    const { page, go } = await openItem(server, item);
    await reached(page, 'ready');
    await page.route('**/v1/buy/*', async (route) => {
        await page.context().setOffline(true);
        await route.abort();
    });
    await go.click();
    await reached(page, 'timed_out');
    await page.unroute('**/v1/buy/*');
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole('alert').waitFor({ state: 'hidden' });
    await go.click();
    await reached(page, 'locked');
    await page.context().close();
});

for (const hours of [-1, 1]) {
    test(`the device's clock is wrong by ${hours} h: the countdown is the server's`, async () => {
        const prepare = (page) => page.addInitScript((by) => {
            const real = Date.now;
            Date.now = () => real() + by;
        }, hours * 3600000);
        // What is shown before the start, how long it took to read it, and what the server's time was meanwhile.
        const { page, go, sale, shown, tookMs, now } = await inTime(3000, async (startsInMs) => {
            const made = await makeSale(server, { name: `Wrong ${hours}`, startsInMs, move: 'warm' });
            const opened = await openItem(server, made.item, { prepare });
            const seen = await opened.page.evaluate(async () => {
                const sent = performance.now();
                const { now_ms: server } = await (await fetch('/v1/time')).json();
                const [digits, tenth, deal] = ['digits', 'tenth', 'deal'].map((id) => document.getElementById(id));
                return { state: deal.dataset.state, shown: digits.textContent + tenth.textContent, tookMs: performance.now() - sent, now: server };
            });
            if (seen.state !== 'before') await opened.page.context().close();
            return seen.state === 'before' && { ...made, ...opened, ...seen };
        });
        const [minutes, seconds] = shown.split(':').map(Number);
        const off = Math.abs((minutes * 60 + seconds) * 1000 - (sale.starts_at_ms - now));
        assert.ok(off <= tookMs + 1000, `${shown} is ${off} ms off`);
        await reached(page, 'ready');
        await go.click();
        await reached(page, 'locked');
        await page.context().close();
    });
}

test('after sleep the time is asked for again and the countdown is right', async () => {
    const { item } = await makeSale(server, { name: 'Sleeper', startsInMs: 1800000, move: 'warm' });
    const prepare = (page) => page.addInitScript(() => {
        const steady = performance.now.bind(performance);
        globalThis.slept = 0;
        performance.now = () => steady() - globalThis.slept;
    });
    const { page } = await openItem(server, item, { prepare });
    await reached(page, 'before');
    const left = async () => {
        const [minutes, seconds] = (await text(page, 'digits')).split(':').slice(-2).map(Number);
        return minutes * 60 + seconds;
    };
    await until('the countdown to run', async () => (await left()) < 1800);
    const before = await left();
    // The monotonic clock stood still for 100 s, as some browsers let it while the device sleeps.
    const asked = page.waitForRequest('**/v1/time');
    await page.evaluate(() => { globalThis.slept += 100000; });
    await asked;
    await until('the countdown to be right again', async () => {
        const now = await left();
        return now <= before && now > before - 60;
    });
    await page.context().close();
});

test('a screen reader hears milestones, not each second', async () => {
    const { item, sale } = await makeSale(server, { name: 'Quiet', startsInMs: 50000, move: 'warm' });
    const { page, go } = await openItem(server, item, { prepare: ownClock });
    await page.evaluate(() => {
        globalThis.heard = [];
        new MutationObserver(() => globalThis.heard.push(document.getElementById('announce').textContent))
            .observe(document.getElementById('announce'), { childList: true, characterData: true, subtree: true });
    });
    // Time moves only when this test moves it, so no moment is skipped.
    await page.clock.pauseAt(Date.now() + 5000);
    await reachedLater(page, 'ready');
    await page.clock.resume();
    await operate(server, `/v1/admin/sales/${sale.id}/open`);
    await go.click();
    await reached(page, 'locked');
    const heard = await page.evaluate(() => globalThis.heard);
    for (const moment of ['Ten seconds to the start.', 'The sale is open.']) assert.ok(heard.includes(moment), heard.join(' | '));
    assert.ok(heard.at(-1).startsWith('Pay'), heard.join(' | '));
    assert.ok(heard.length <= 5, heard.join(' | '));
    await page.context().close();
});

test('the keyboard alone is enough, and the focus stays where it was', async () => {
    const { item } = await makeSale(server, { name: 'Keys', limit_per_user: 5 });
    const { page, go, errors } = await openItem(server, item);
    await reached(page, 'ready');
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.act);
    for (let i = 0; i < 30 && (await focused()) !== 'more'; i += 1) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'go');
    await page.keyboard.press('Enter');
    await reached(page, 'locked');
    assert.equal(await focused(), 'go');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'ask');
    await page.keyboard.press('Enter');
    assert.equal(await focused(), 'keep', 'the harmless one first');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await reached(page, 'ready');
    assert.deepEqual(errors, []);
    assert.ok(go);
    await page.context().close();
});

test('a token that has run out, with an order remembered: log in, not "one moment" for ever', async () => {
    const { page, go } = await openLocked(server, { name: 'Yesterday\'s login' });
    await page.evaluate(() => {
        const [head, body] = JSON.parse(localStorage.getItem('sluice.token')).split('.');
        localStorage.setItem('sluice.token', JSON.stringify(`${head}.${body}.AAAA`));
    });
    await page.reload();
    await reached(page, 'logged_out');
    assert.equal(await text(page, 'go-label'), 'Log in to buy');
    await go.click();
    await page.waitForURL('**/demo/login?return=*');
    await page.context().close();
});

test('two tabs: what one is in doubt about is not forgotten by the other, nor ordered twice', async () => {
    const { item } = await makeSale(server, { name: 'Shared doubt', limit_per_user: 5 });
    const context = await openContext();
    const user = 720001;
    const a = await openItem(server, item, { context, user });
    const b = await openItem(server, item, { context, user });
    await a.go.click();
    await reached(a.page, 'locked');
    await reached(b.page, 'locked');
    await press(a.page, 'more');
    await reached(a.page, 'ready');
    const asked = [];
    await context.route('**/v1/buy/*', (route) => {
        asked.push(route.request().url());
        return asked.length === 1 ? route.abort() : route.continue();
    });
    await a.go.click();
    await reached(a.page, 'timed_out');
    await a.page.close();
    await press(b.page, 'more');
    await reached(b.page, 'timed_out');
    await b.go.click();
    await reached(b.page, 'locked');
    assert.equal(asked.length, 2);
    assert.equal(asked[0], asked[1], 'the same ticket');
    assert.equal((await getItem(server, item)).locked, 2);
    await context.close();
});

test('an own order that ended elsewhere makes room here: the ledger is asked when the page is looked at again', async () => {
    const { item } = await makeSale(server, { name: 'Room again', limit_per_user: 5, startsInMs: -90000 });
    const elsewhere = buyer(server, 720002);
    const first = await elsewhere.buy(item, 3);
    const second = await elsewhere.buy(item, 2);
    const { page, go } = await openItem(server, item, { user: 720002 });
    await page.getByText('You have 5 of 5').waitFor();
    await reached(page, 'locked');
    await elsewhere.pay(second);
    await reached(page, 'paid');
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    await elsewhere.cancel(first);
    await hide(page, true);
    await hide(page, false);
    await page.locator('#go[aria-disabled="false"]').waitFor();
    assert.equal(await text(page, 'go-label'), 'Buy more');
    await page.context().close();
});

// An item's page whose item is answered by `answer`; it is not waited for.
async function openBent(item, answer, options) {
    await until('the page to be made', async () => (await fetch(`${server.url}/items/${item.id}`)).ok);
    const page = await (await openContext(options)).newPage();
    await ownClock(page);
    await page.route(`**/v1/items/${item.id}`, answer);
    await remember(page, tokenOf(server, 720003));
    await page.goto(`${server.url}/items/${item.id}`);
    return page;
}

test('an item that the server does not have any more is said to be missing, at the first look and later', async () => {
    const { item } = await makeSale(server, { name: 'Vanished' });
    const lost = (route) => refuse(route, 404, { code: 'no_such_item', retry: 'no' });
    const page = await openBent(item, lost, { locale: 'zh-CN' });
    await page.getByRole('heading', { name: '没有这个商品' }).waitFor();
    await page.getByRole('link', { name: '全部场次' }).click();
    await page.waitForURL(`${server.url}/`);
    await page.context().close();
    const later = await openItem(server, item);
    await later.page.route(`**/v1/items/${item.id}`, lost);
    await later.page.route(`**/v1/items/${item.id}/events`, lost);
    await hide(later.page, true);
    await hide(later.page, false);
    await later.page.getByRole('heading', { name: 'No such item' }).waitFor();
    await later.page.context().close();
});

test('asked too often for the item: said, and asked again later', async () => {
    const { item } = await makeSale(server, { name: 'Too many looks' });
    let asked = 0;
    const page = await openBent(item, (route) => {
        asked += 1;
        return asked > 2 ? route.continue() : refuse(route, 429, { code: 'rate_limited', retry: 'later', retry_after_ms: 500 });
    });
    await page.getByRole('alert').filter({ hasText: 'Too many requests.' }).waitFor();
    await reachedSoon(page, 'ready');
    await page.getByRole('alert').waitFor({ state: 'hidden' });
    await page.context().close();
});

test('when the time to pay is over the page says so and offers nothing, until the shop has spoken', async () => {
    const { item } = await makeSale(server, { name: 'A second late', limit_per_user: 5 });
    const { page, go, user } = await openItem(server, item);
    const straight = await bend(page, (order) => ({ ...order, pay_by_ms: order.status === 'LOCKED' ? Date.now() - 1000 : order.pay_by_ms }));
    await go.click();
    await reached(page, 'locked');
    await page.getByRole('button', { name: 'Time to pay is over' }).waitFor();
    assert.equal(await go.getAttribute('aria-disabled'), 'true');
    assert.equal(await page.locator('#rest [data-act]').count(), 0, 'nothing to cancel');
    assert.match(await text(page, 'note'), /Waiting for the shop/);
    await straight();
    const [order] = await buyer(server, user).orders();
    await buyer(server, user).pay(order);
    await reached(page, 'paid');
    await page.context().close();
});

test('no answer to the ticket: nothing was asked for yet, and that is what is said', async () => {
    const { item } = await makeSale(server, { name: 'No ticket' });
    const { page, go } = await openItem(server, item);
    await page.route('**/v1/items/*/ticket', (route) => route.abort());
    await go.click();
    await reached(page, 'timed_out');
    assert.match(await text(page, 'note'), /nothing was asked for/);
    assert.doesNotMatch(await text(page, 'note'), /may already have it/);
    await page.unroute('**/v1/items/*/ticket');
    await go.click();
    await reached(page, 'locked');
    await page.context().close();
});

test('a cancel without an answer does not hide for good until when the order is kept', async () => {
    const { page } = await openLocked(server, { name: 'Unheard' });
    let look;
    const held = new Promise((done) => { look = done; });
    await page.route('**/v1/orders/*/cancel', (route) => route.abort());
    await page.route(/\/v1\/orders\/[^/?]+$/, async (route) => {
        await held;
        await route.continue();
    });
    await press(page, 'ask');
    await press(page, 'giveUp');
    await until('it to be said', async () => /^No answer from the server\. Reserved for you until/.test(await text(page, 'note')));
    look();
    await until('it to be over', async () => /^Reserved for you until/.test(await text(page, 'note')));
    await page.context().close();
});

test('a refusal without words of its own gets general ones, never the server\'s', async () => {
    for (const [locale, words] of [['en-US', /tell the shop/], ['zh-CN', /请联系商城/]]) {
        const { item } = await makeSale(server, { name: `Unspoken ${locale}` });
        const { page, go } = await openItem(server, item, { locale });
        await page.route('**/v1/items/*/ticket', (route) => refuse(route, 413, { code: 'too_large', retry: 'no', detail: 'body exceeds 4096' }));
        await go.click();
        await reached(page, 'failed');
        assert.match(await text(page, 'note'), words);
        assert.doesNotMatch(await text(page, 'note'), /4096/);
        await page.context().close();
    }
});
