/*
 * Makes docs/screenshots: see script/screenshots. It uses the demonstration's sales, and another sale for each state
 * that needs its own. Faults are simulated by a route, as in trouble.test.mjs.
 */

import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { asDistributed } from './desk.mjs';
import { adminToken, buyer, getSales, loadTool, openContext, openItem, operate, reached, remember, startServer, stopAll, tokenOf, until } from './harness.mjs';

const OUT = resolve(process.env.SCREENSHOTS ?? fileURLToPath(new URL('../../docs/screenshots', import.meta.url)));
const wanted = process.argv.slice(2);
const PHONE = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 1.5 };
const DESK = { viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1 };
const looks = { en: { locale: 'en-US' }, zh: { locale: 'zh-CN' }, light: { colorScheme: 'light' }, dark: { colorScheme: 'dark' },
    phone: PHONE, desk: DESK };

mkdirSync(OUT, { recursive: true });
const server = await startServer();

const options = (name) => Object.assign({ reducedMotion: 'no-preference', timezoneId: 'Asia/Shanghai' },
    ...name.split('-').map((part) => looks[part] ?? {}));
const isWanted = (name) => !wanted.length || wanted.some((part) => name.includes(part));

async function shoot(page, name, { full = false } = {}) {
    await page.evaluate(() => Promise.all([...document.images].map((image) => image.decode().catch(() => {}))));
    await page.evaluate(() => scrollTo(0, 0));
    await page.waitForTimeout(700);   // bars finish growing
    await page.screenshot({ path: `${OUT}/${name}.png`, fullPage: full });
    console.log(`${OUT}/${name}.png`);
    await page.context().close();
}

// A sale of one thing with the demonstration's picture of another.
async function sell(name, picture, { startsInMs = -600000, move = 'open', payWithinS = 900, sale = {}, ...item } = {}) {
    const { now_ms: now } = await (await fetch(`${server.url}/v1/time`)).json();
    const made = await operate(server, '/v1/admin/sales', {
        name: item.session ?? 'Noon\u00a0· 午间场', starts_at_ms: now + startsInMs, ends_at_ms: now + 7200000, pay_within_s: payWithinS, ...sale,
        items: [{ name, sku: 'SHOT', image_url: `/assets/demo/${picture}.svg`, price_cents: 6800, was_cents: 12800, total: 500, limit_per_user: 5,
            ...Object.fromEntries(Object.entries(item).filter(([key]) => key !== 'session')) }],
    });
    await operate(server, `/v1/admin/sales/${made.id}/${move}`);
    return made.items[0];
}

const jobs = [];
const job = (names, work) => { for (const name of names) if (isWanted(name)) jobs.push({ name, work }); };

job(['list-phone-en-light', 'list-phone-zh-dark', 'list-desk-en-light', 'list-desk-zh-dark'], async (name) => {
    const page = await (await openContext(options(name))).newPage();
    await remember(page, tokenOf(server, 42));
    await page.goto(`${server.url}/`);
    await page.locator('.n-left').first().waitFor();
    await until('the stock', async () => /\d/.test(await page.locator('.n-left').first().innerText()));
    await shoot(page, name);
});

// Each opens an item in some state; the names say how it is looked at.
async function item(name, what, steps) {
    const { page, go } = await openItem(server, what, { user: 42, ...options(name) });
    await steps({ page, go });
    await shoot(page, name);
}

job(['before-phone-en-light', 'before-phone-zh-dark', 'before-desk-zh-light'], async (name) => {
    const what = await sell('Noise-cancelling headphones\u00a0· 降噪耳机', 'headphones', { startsInMs: 754000, move: 'warm', price_cents: 49900, was_cents: 129900, limit_per_user: 1 });
    await item(name, what, async ({ page }) => reached(page, 'before'));
});

job(['ready-phone-en-light', 'ready-phone-zh-dark', 'ready-desk-en-light', 'ready-desk-zh-dark'], async (name) => {
    const what = await sell("Pu'er tea, 357\u00a0g cake\u00a0· 普洱茶饼", 'tea');
    for (let i = 1; i <= 8; i += 1) {
        const other = buyer(server, 8000 + i);
        for (let n = 0; n < 4; n += 1) {
            const order = await other.buy(what, 1);
            if (n) await other.pay(order);
        }
    }
    await item(name, what, async ({ page }) => {
        await reached(page, 'ready');
        await page.locator('#more').click();
        await page.mouse.move(0, 0);
    });
});

job(['locked-phone-en-light', 'locked-phone-zh-dark', 'locked-desk-en-dark'], async (name) => {
    const what = await sell("Pu'er tea, 357\u00a0g cake\u00a0· 普洱茶饼", 'tea', { payWithinS: 120 });
    await item(name, what, async ({ page, go }) => {
        await go.click();
        await reached(page, 'locked');
        await page.waitForTimeout(2600);
    });
});

job(['queued-phone-en-light'], async (name) => {
    const what = await sell('Mechanical keyboard\u00a0· 机械键盘', 'keyboard', { limit_per_user: 1, price_cents: 19900, was_cents: 59900 });
    await item(name, what, async ({ page, go }) => {
        await page.route(/\/v1\/orders\//, (route) => new Promise(() => route));
        await go.click();
        await reached(page, 'queued');
    });
});

job(['watching-phone-zh-light', 'watching-phone-en-dark'], async (name) => {
    const what = await sell('Mechanical keyboard\u00a0· 机械键盘', 'keyboard', { total: 2, limit_per_user: 1, price_cents: 19900, was_cents: 59900 });
    await buyer(server, 8101).buy(what);
    const second = buyer(server, 8102);
    await second.pay(await second.buy(what));
    await item(name, what, async ({ page }) => reached(page, 'watching'));
});

job(['timed-out-phone-en-light', 'timed-out-phone-zh-dark'], async (name) => {
    const what = await sell('Movie ticket\u00a0· 电影票', 'ticket', { limit_per_user: 0, price_cents: 1990, was_cents: 4500 });
    await item(name, what, async ({ page, go }) => {
        await page.route('**/v1/buy/*', (route) => route.abort());
        await go.click();
        await reached(page, 'timed_out');
    });
});

job(['paid-phone-en-dark', 'paid-desk-en-light'], async (name) => {
    const what = await sell('Coffee voucher\u00a0· 咖啡兑换券', 'coffee', { limit_per_user: 5, price_cents: 990, was_cents: 2200 });
    await item(name, what, async ({ page, go }) => {
        await go.click();
        await reached(page, 'locked');
        const me = buyer(server, 42);
        for (const order of await me.orders()) if (order.item_id === what.id) await me.pay(order);
        await reached(page, 'paid');
    });
});

job(['orders-phone-en-light', 'orders-phone-zh-dark', 'orders-desk-en-light'], async (name) => {
    const me = buyer(server, 43);
    const open = (await getSales(server)).find((sale) => sale.state === 'open' && sale.items.length === 3);
    if (!(await me.orders()).length) {
        await me.pay(await me.buy(open.items[0]));
        await me.cancel(await me.buy(open.items[1], 2));
        await me.buy(await sell('Dark chocolate, box of 12\u00a0· 黑巧克力', 'chocolate', { price_cents: 3900 }), 3);
    }
    const page = await (await openContext(options(name))).newPage();
    await remember(page, tokenOf(server, 43));
    await page.goto(`${server.url}/orders`);
    await page.locator('.order .button').first().waitFor();
    await shoot(page, name);
});

job(['pay-phone-en-light', 'pay-phone-zh-dark'], async (name) => {
    const me = buyer(server, 44);
    const order = await me.buy(await sell('Dark chocolate, box of 12\u00a0· 黑巧克力', 'chocolate', { price_cents: 3900 }), 2);
    const page = await (await openContext(options(name))).newPage();
    await remember(page, tokenOf(server, 44));
    await page.goto(`${server.url}/orders`);
    await page.locator('.order').first().waitFor();
    await page.goto(`${server.url}/demo/pay?order=${order.order_id}`);
    await page.locator('#till[data-status="LOCKED"]').waitFor();
    await shoot(page, name);
});

job(['login-phone-en-light'], async (name) => {
    const page = await (await openContext(options(name))).newPage();
    await page.goto(`${server.url}/demo/login`);
    await page.locator('#user').fill('42');
    await page.locator('html[data-lang]').waitFor();
    await shoot(page, name);
});

let desk = null;
let shown = null;       // the sale whose report is read
let wares = [];         // its items

// A server of its own, so that the operator sees the demonstration and not what the other pictures needed; under load, so
// that there is something to see; with a sale that is over, to be compared with.
async function startDesk() {
    desk = await startServer();
    const sale = (await getSales(desk)).find((one) => one.state === 'open');   // others open meanwhile
    const { now_ms: now } = await (await fetch(`${desk.url}/v1/time`)).json();
    const morning = await operate(desk, '/v1/admin/sales', {
        name: 'Morning\u00a0· 早场', starts_at_ms: now - 7200000, ends_at_ms: now + 600000, pay_within_s: 900,
        items: [{ name: 'Coffee voucher\u00a0· 咖啡兑换券', price_cents: 990, total: 300, limit_per_user: 1 }],
    });
    await operate(desk, `/v1/admin/sales/${morning.id}/open`);
    await rush(morning.items, 3, 160);
    await operate(desk, `/v1/admin/sales/${morning.id}/close`);
    wares = sale.items;
    shown = sale;
    await operate(desk, `/v1/admin/items/${wares.at(-1).id}/restock`, { add: 8000, request_id: 'enough-to-go-on' });
    await rush(wares, 5, 300);
    await rush(wares.slice(1, 2), 2, 60, '--users', 6, '--orders-per-user', 20);    // who wants more than the limit
}

async function openConsole(name) {
    if (!desk) await startDesk();
    const page = await (await openContext(options(name))).newPage();
    await page.goto(`${desk.url}/console`);
    await page.locator('#token').fill(adminToken(desk));
    await page.keyboard.press('Enter');
    await page.locator('.figures').first().waitFor();
    return page;
}

// `where` is the address behind `#`, or makes it; `steps` are taken when `ready` is there.
async function consoleAt(name, where, ready, { steps = async () => {}, full = false } = {}) {
    const page = await openConsole(name);
    await page.evaluate((to) => { location.hash = `#/${to}`; }, typeof where === 'string' ? where : await where());
    await page.locator(`main ${ready}`).first().waitFor();
    await steps(page);
    await shoot(page, name, { full });
}

async function consoleLive(name) {
    const page = await openConsole(name);
    for (const [seconds, perSecond] of [[12, 60], [15, 240], [12, 120]]) await rush(wares, seconds, perSecond);   // the chart's course
    const load = rush(wares, 12, 180);
    await page.waitForTimeout(7000);
    await shoot(page, name, { full: true });
    await load;
}

let came = 1;

// Buyers for so many seconds, so many new ones in each: some pay, some give up, most come too late for what is scarce.
async function rush(items, seconds, perSecond, ...more) {
    const first = came;
    came += 100000;
    await loadTool(desk, ['--item', items.map((one) => one.id).join(), '--mode', 'open', '--rate', perSecond, '--duration', seconds, '--users', 100000,
        '--first-user', first, '--connections', 200, '--pay', 75, '--cancel', 40, '--duplicates', 5, '--no-audit', ...more]);
}

job(['console-live-desk-en-light', 'console-live-desk-zh-dark', 'console-live-phone-en-dark', 'console-live-phone-zh-light'], consoleLive);
job(['console-sales-desk-en-light', 'console-sales-desk-zh-dark', 'console-sales-phone-en-light'], (name) => consoleAt(name, 'sales', 'table, .row, a'));
job(['console-orders-desk-en-dark', 'console-orders-desk-zh-light'], (name) => consoleAt(name, 'orders', 'table, form'));

job(['console-order-desk-en-light', 'console-order-phone-zh-dark'], (name) => consoleAt(name, async () => {
    const answer = await fetch(`${desk.url}/v1/admin/orders?status=PAID&limit=1`, { headers: { authorization: `Bearer ${adminToken(desk)}` } });
    return `orders/${(await answer.json()).orders[0].order_id}`;
}, '.facts'));

job(['console-report-desk-en-light', 'console-report-desk-zh-dark'], (name) => consoleAt(name, () => `sales/${shown.id}/report`, 'svg.course', { full: true }));

job(['console-form-desk-en-light', 'console-form-phone-zh-light'], (name) => consoleAt(name, 'sales/new', '.sale-form', {
    steps: async (page) => {
        const values = { name: 'Singles Day\u00a0· 双十一', also_at: '14:00, 20:00', pay_url: 'https://shop.example/pay/{order_id}' };
        for (const [field, value] of Object.entries(values)) await page.locator(`.fields [name="${field}"]`).fill(value);
        const item = { name: 'Mechanical keyboard\u00a0· 机械键盘', sku: 'KB-75', price: '199.00', was: '99.00', total: '500', limit: '1' };
        for (const [field, value] of Object.entries(item)) await page.locator(`.item-form [name="${field}"]`).fill(value);
        await page.locator('.item-form [name="was"]').blur();    // lower than the price: the form says so
    },
}));

job(['console-check-desk-en-light', 'console-check-desk-zh-dark'], (name) => consoleAt(name, 'check', 'button', {
    steps: async (page) => {
        await page.locator('main button').first().click();
        await page.locator('.check-result.good').waitFor();
    },
}));

// One process has no queue: what a distributed engine would answer.
job(['console-queue-desk-en-light', 'console-queue-desk-zh-dark'], async (name) => {
    const page = await openConsole(name);
    await asDistributed(page, { payments_queue: { away: false, ready: 0, retry: 0, parked: 3 } });
    await page.reload();
    await page.locator('.segment').first().waitFor();
    await page.evaluate((to) => { location.hash = to; }, name.includes('zh') ? '#/queue?queue=payments' : '#/queue');
    await page.locator('main .tabs').waitFor();
    await shoot(page, name);
});

try {
    for (const { name, work } of jobs) await work(name);
} finally {
    await stopAll();
}
