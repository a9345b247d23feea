/*
 * What the browser tests share: a real server of its own (private port and folder), a real browser, and the
 * operator's and another buyer's side over plain HTTP. Everything started here is stopped by stopAll().
 *
 * SLUICE names the program under test (default build/release/sluice), CHROMIUM the browser; SLUICE_LONG=1 runs every
 * variant of a test.
 */

import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const PROGRAM = resolve(process.env.SLUICE ?? fileURLToPath(new URL('../../build/release/sluice', import.meta.url)));
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell';
// Playwright's own list (of two --disable-features the last counts), and what the whole browser keeps ready for every
// window: two popups of the address bar, in a process of their own, and a spare process. They are half of a page's CPU
// time, and nobody looks at them here.
const WITHOUT = ['AvoidUnnecessaryBeforeUnloadCheckSync', 'BoundaryEventDispatchTracksNodeRemoval', 'DestroyProfileOnBrowserClose',
    'DialMediaRouteProvider', 'GlobalMediaControls', 'HttpsUpgrades', 'LensOverlay', 'MediaRouter', 'OptimizationHints',
    'PaintHolding', 'RenderDocument', 'ThirdPartyStoragePartitioning', 'Translate',
    'WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'SpareRendererForSitePerProcess'];
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync', `--disable-features=${WITHOUT}`];
const PATIENCE_MS = 60000;   // a hang guard, not a verdict

// Variants that differ in languages, colours or widths alone: all of them in script/test --full, else a share.
export const LONG = process.env.SLUICE_LONG === '1';

const stops = [];

export async function stopAll() {
    for (const stop of stops.reverse()) await stop();
}

// Below the ports that the kernel gives to connections, and those that the tests in Python take: nobody takes it between
// this probe and the server's start, nor while a killed server is down.
async function freePort() {
    for (;;) {
        const port = randomInt(12000, 20000);
        const probe = createServer();
        const free = await new Promise((done) => { probe.on('error', () => done(false)).listen(port, '127.0.0.1', () => done(true)); });
        await new Promise((done) => { probe.close(done); });
        if (free) return port;
    }
}

// The demonstration's login, when its script has run: it proposes a buyer, over whatever was typed before.
export async function loginReady(page) {
    await page.waitForURL('**/demo/login?return=*');
    await until('the login to propose a buyer', async () => /^\d+$/.test(await page.locator('#user').inputValue()));
}

export async function until(what, check) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
        const value = await check();
        if (value) return value;
        if (Date.now() > end) throw new Error(`waited too long for: ${what}`);
        await new Promise((done) => setTimeout(done, 50));
    }
}

// For what must be done before a moment of the server's: tries it with more and more milliseconds, until `attempt` says
// (with what it returns) that they were enough. So a fast machine waits for a short time only, and a slow one longer.
export async function inTime(firstMs, attempt) {
    for (let ms = firstMs; ms <= PATIENCE_MS; ms *= 2) {
        const value = await attempt(ms);
        if (value) return value;
    }
    throw new Error(`not done within ${PATIENCE_MS} ms`);
}

export async function startServer(options = ['--demo']) {
    const data = mkdtempSync(join(tmpdir(), 'sluice-browser-'));
    const url = `http://127.0.0.1:${await freePort()}`;
    const server = { url, data, start: async () => { server.stop = await run(url, data, options); }, stop: null };
    await server.start();
    stops.push(async () => {
        await server.stop();
        rmSync(data, { recursive: true, force: true });
    });
    return server;
}

// Starts the program, waits until it is ready, and returns what stops it.
async function run(url, data, options) {
    const args = ['serve', ...options, '--listen', url.slice(7), '--data', data];
    const child = spawn(PROGRAM, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let log = '';
    let gone = false;
    for (const out of [child.stdout, child.stderr]) out.on('data', (bytes) => { log += bytes; });
    const ended = new Promise((done) => child.on('exit', done).on('error', done)).then(() => { gone = true; });
    await until('the server to be ready', () => {
        if (gone) throw new Error(`the server ended: ${log}`);
        return fetch(`${url}/readyz`).then((answer) => answer.ok).catch(() => false);
    });
    return async (signal = 'SIGTERM') => {
        child.kill(signal);
        const guard = setTimeout(() => child.kill('SIGKILL'), 15000);
        await ended;
        clearTimeout(guard);
    };
}

let browser = null;

async function theBrowser() {
    if (!browser) {
        browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
        stops.push(() => browser.close());
    }
    return browser;
}

// A browser's window of its own: own storage, own language, own screen.
export async function openContext(options = {}) {
    const desk = { locale: 'en-US', viewport: { width: 1180, height: 900 } };
    const context = await (await theBrowser()).newContext({ ...desk, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    return context;
}

// Fills with whatever the console calls an error, breaches of the policy among them; tests expect it empty.
export function errorsOf(page) {
    const errors = [];
    page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
    page.on('pageerror', (error) => errors.push(String(error)));
    return errors;
}

// A page of its own buyer. `prepare` gets it first.
export async function openPage(server, { prepare, ...options } = {}, path = '/') {
    const page = await (await openContext(options)).newPage();
    const errors = errorsOf(page);
    if (prepare) await prepare(page);
    await page.goto(server.url + path);
    await page.locator(path === '/console' ? '#token' : 'html[data-lang]').first().waitFor();
    return { page, errors };
}

// The page's next document has this token, as if its buyer had logged in before.
export const remember = (page, token) => page.addInitScript((kept) => {
    if (sessionStorage.getItem(`test.${kept}`)) return;   // once: he may log out
    sessionStorage.setItem(`test.${kept}`, '1');
    localStorage.setItem('sluice.token', JSON.stringify(kept));
}, token);

// Comes back from a login that the page began, as the shop's login sends a buyer back.
export const comeBack = (page, token, { agoMs = 0, state = 'made-by-the-page', given = state } = {}) => page.evaluate((login) => {
    sessionStorage.setItem('sluice.login', JSON.stringify({ state: login.state, at: Date.now() - login.agoMs }));
    location.hash = new URLSearchParams({ token: login.token, state: login.given });
}, { token, agoMs, state, given });

let users = 1000;

// An item's page, as a buyer of its own who is logged in already (user null: nobody is). `prepare` gets the page first;
// `page` is one that is open already, of that buyer.
export async function openItem(server, item, { user = (users += 1), page: open, context, prepare, ...options } = {}) {
    await until('the page to be made', async () => (await fetch(`${server.url}/items/${item.id}`)).ok);
    const page = open ?? await (context ?? await openContext(options)).newPage();
    const errors = errorsOf(page);
    if (prepare) await prepare(page);
    if (user !== null) await remember(page, tokenOf(server, user));
    await page.goto(`${server.url}/items/${item.id}`);
    await page.locator('#deal:not([data-state="loading"])').waitFor();
    return { page, errors, user, go: page.locator('#go') };
}

// The button's state.
export const reached = (page, ...names) => page.locator(names.map((name) => `#deal[data-state="${name}"]`).join()).waitFor();

async function json(answer) {
    const body = await answer.json();
    if (!answer.ok) throw new Error(`${answer.url}: ${answer.status} ${JSON.stringify(body)}`);
    return body;
}

export const adminToken = (server) => readFileSync(join(server.data, 'admin.token'), 'utf8').trim();

// Something the operator does.
export const operate = (server, path, body) => fetch(server.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminToken(server)}`, ...(body ? { 'content-type': 'application/json' } : {}) },
    body: body && JSON.stringify(body),
}).then(json);

// The operator creates a sale of one item and warms or opens it.
export async function makeSale(server, { startsInMs = -1000, payWithinS = 600, move = 'open', sale: more = {}, ...item }) {
    const { now_ms: now } = await fetch(`${server.url}/v1/time`).then(json);
    const sale = await operate(server, '/v1/admin/sales', {
        name: `Sale of ${item.name}`,
        starts_at_ms: now + startsInMs,
        ends_at_ms: now + 3600000,
        pay_within_s: payWithinS,
        items: [{ price_cents: 1999, total: 10, limit_per_user: 1, ...item }],
        ...more,
    });
    await operate(server, `/v1/admin/sales/${sale.id}/${move}`);
    return { sale, item: sale.items[0] };
}

export const getItem = (server, item) => fetch(`${server.url}/v1/items/${item.id}`, { cache: 'no-store' }).then(json);
export const getSales = (server) => fetch(`${server.url}/v1/sales`).then(json).then((body) => body.sales);

export function tokenOf(server, user) {
    return execFileSync(PROGRAM, ['token', '--user', String(user), '--data', server.data], { encoding: 'utf8' }).trim();
}

// `sluice bench` against the server, until it ends.
export function loadTool(server, args) {
    const child = spawn(PROGRAM, ['bench', '--url', server.url, '--data', server.data, ...args.map(String)], { stdio: 'ignore' });
    return new Promise((done) => child.on('exit', done).on('error', done));
}

// Another buyer, without a page.
export function buyer(server, user) {
    const authorization = `Bearer ${tokenOf(server, user)}`;
    const post = (path, body) => fetch(server.url + path, {
        method: 'POST',
        headers: { authorization, ...(body ? { 'content-type': 'application/json' } : {}) },
        body: body && JSON.stringify(body),
    }).then(json);
    const get = (path) => fetch(server.url + path, { headers: { authorization } }).then(json);
    return {
        async buy(item, qty = 1) {
            const ticket = await post(`/v1/items/${item.id}/ticket`);
            await post(ticket.buy_url, { qty });
            return until('the order to be locked', async () => {
                const order = await get(`/v1/orders/${ticket.order_id}?wait_ms=5000`);
                return order.status === 'LOCKED' && order;
            });
        },
        cancel: (order) => post(`/v1/orders/${order.order_id}/cancel`),
        pay: (order) => post(`/v1/orders/${order.order_id}/pay`),
        orders: () => get('/v1/me/orders?limit=100').then((answer) => answer.orders),
    };
}
