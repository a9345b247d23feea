/*
 * Helpers for the tests of the pages: change the server's answers on their way to the page, hide a page, move its
 * clock forward, and record which requests it sends and when, by its own clock.
 */

import { makeSale, openItem, reached, until } from './harness.mjs';

export const text = (page, id) => page.locator(`#${id}`).innerText();
export const press = (page, act) => page.locator(`[data-act="${act}"]`).click();

export function refuse(route, status, problem) {
    const body = JSON.stringify({ type: 'about:blank', title: problem.code, status, detail: '', ...problem });
    return route.fulfill({ status, contentType: 'application/problem+json', body });
}

// Answers for the server. One that is still on its way when the page closes, or when this ends, is nobody's any more.
export const answer = (page, pattern, work) => page.route(pattern, (route) => work(route).catch(() => {}));

const ORDER = /\/v1\/orders\/[^/]+(\/events)?(\?.*)?$/;

// What the order's stream and the order itself say, changed on the way by `change`; returns what ends it.
export async function bend(page, change) {
    await answer(page, ORDER, async (route) => {
        const url = route.request().url().replace(/\/events.*$/, '').replace(/\?.*$/, '');
        const told = await route.fetch({ url, headers: route.request().headers() });
        const order = change(await told.json());
        if (!/\/events/.test(route.request().url())) return route.fulfill({ json: order });
        return route.fulfill({ contentType: 'text/event-stream', body: `event: order\nid: 1\ndata: ${JSON.stringify(order)}\n\n` });
    });
    return () => page.unroute(ORDER);
}

// As when another tab is looked at, and when the buyer comes back.
export const hide = (page, hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
    document.dispatchEvent(new Event('visibilitychange'));
}, hidden);

// Gives a page a clock of its own before it is opened. It runs as the real one does, until `soon` moves it on.
export async function ownClock(page) {
    await page.clock.install();
    await page.addInitScript(() => {
        const { fetch } = globalThis;
        const { text } = Response.prototype;
        const counted = (work) => async function count(...args) {
            globalThis.underWay += 1;
            try {
                return await work.apply(this, args);
            } finally {
                globalThis.underWay -= 1;
            }
        };
        globalThis.underWay = 0;
        globalThis.fetch = counted(fetch);
        Response.prototype.text = counted(text);
    });
}

// As `until`, for what the page does when some time of its own has passed: each of its timers fires, at its moment. Time
// passes only while the page waits for no answer, and in small steps: it gives up on answers by the same clock.
export const soon = (page, what, check, pass = () => page.clock.runFor(1000)) => until(what, async () => {
    const value = await check();
    if (!value && await page.evaluate(() => globalThis.underWay === 0)) await pass();
    return value;
});

// For longer times: as if the page had slept for a moment, again and again. What was due then happens at the end of it.
export const later = (page, what, check) => soon(page, what, check, () => page.clock.fastForward(2500));

const isAt = (page, name) => async () => (await page.locator('#deal').getAttribute('data-state')) === name;

// As `reached`, likewise.
export const reachedSoon = (page, name) => soon(page, name, isAt(page, name));
export const reachedLater = (page, name) => later(page, name, isAt(page, name));

// Notes every call of the page whose address matches; read with `noted`.
export const note = (page, pattern) => page.addInitScript((source) => {
    const real = globalThis.fetch;
    const wanted = new RegExp(source);
    globalThis.noted = [];
    globalThis.fetch = (path, options) => {
        if (wanted.test(path)) globalThis.noted.push({ path, at: performance.now() });
        return real(path, options);
    };
}, pattern.source);

export const noted = (page) => page.evaluate(() => globalThis.noted);

// Everything the notice at the top has said so far.
export const listen = (page) => page.addInitScript(() => {
    globalThis.notices = [];
    addEventListener('DOMContentLoaded', () => {
        const notice = document.getElementById('notice');
        new MutationObserver(() => globalThis.notices.push(notice.textContent)).observe(notice, { childList: true, subtree: true });
    });
});

// An item's page with an order that is the buyer's to pay.
export async function openLocked(server, sale, options) {
    const { item } = await makeSale(server, sale);
    const opened = await openItem(server, item, options);
    await opened.go.click();
    await reached(opened.page, 'locked');
    return { ...opened, item };
}
