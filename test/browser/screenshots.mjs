/*
 * Makes docs/screenshots: see script/screenshots. The demonstration's sales, and one more for each state that needs
 * its own; what no server does at will is answered by a route, as in trouble.test.mjs.
 */

import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { adminToken, buyer, getSales, loadTool, openContext, openItem, operate, reached, startServer, stopAll, tokenOf, until } from './harness.mjs';

const OUT = fileURLToPath(new URL('../../docs/screenshots/', import.meta.url));
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
    await page.screenshot({ path: `${OUT}${name}.png`, fullPage: full });
    console.log(`docs/screenshots/${name}.png`);
    await page.context().close();
}

// A sale of one thing with the demonstration's picture of another.
async function sell(name, picture, { startsInMs = -600000, move = 'open', payWithinS = 900, sale = {}, ...item } = {}) {
    const { now_ms: now } = await (await fetch(`${server.url}/v1/time`)).json();
    const made = await operate(server, '/v1/admin/sales', {
        name: item.session ?? 'Noon · 午间场', starts_at_ms: now + startsInMs, ends_at_ms: now + 7200000, pay_within_s: payWithinS, ...sale,
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
    await page.goto(`${server.url}/#token=${tokenOf(server, 42)}`);
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
    const what = await sell('Noise-cancelling headphones · 降噪耳机', 'headphones', { startsInMs: 754000, move: 'warm', price_cents: 49900, was_cents: 129900, limit_per_user: 1 });
    await item(name, what, async ({ page }) => reached(page, 'before'));
});

job(['ready-phone-en-light', 'ready-phone-zh-dark', 'ready-desk-en-light', 'ready-desk-zh-dark'], async (name) => {
    const what = await sell("Pu'er tea, 357\u00a0g cake · 普洱茶饼", 'tea');
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
    const what = await sell("Pu'er tea, 357\u00a0g cake · 普洱茶饼", 'tea', { payWithinS: 120 });
    await item(name, what, async ({ page, go }) => {
        await go.click();
        await reached(page, 'locked');
        await page.waitForTimeout(2600);
    });
});

job(['queued-phone-en-light'], async (name) => {
    const what = await sell('Mechanical keyboard · 机械键盘', 'keyboard', { limit_per_user: 1, price_cents: 19900, was_cents: 59900 });
    await item(name, what, async ({ page, go }) => {
        await page.route(/\/v1\/orders\//, (route) => new Promise(() => route));
        await go.click();
        await reached(page, 'queued');
    });
});

job(['watching-phone-zh-light', 'watching-phone-en-dark'], async (name) => {
    const what = await sell('Mechanical keyboard · 机械键盘', 'keyboard', { total: 2, limit_per_user: 1, price_cents: 19900, was_cents: 59900 });
    await buyer(server, 8101).buy(what);
    const second = buyer(server, 8102);
    await second.pay(await second.buy(what));
    await item(name, what, async ({ page }) => reached(page, 'watching'));
});

job(['timed-out-phone-en-light', 'timed-out-phone-zh-dark'], async (name) => {
    const what = await sell('Movie ticket · 电影票', 'ticket', { limit_per_user: 0, price_cents: 1990, was_cents: 4500 });
    await item(name, what, async ({ page, go }) => {
        await page.route('**/v1/buy/*', (route) => route.abort());
        await go.click();
        await reached(page, 'timed_out');
    });
});

job(['paid-phone-en-dark', 'paid-desk-en-light'], async (name) => {
    const what = await sell('Coffee voucher · 咖啡兑换券', 'coffee', { limit_per_user: 5, price_cents: 990, was_cents: 2200 });
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
        await me.buy(await sell('Dark chocolate, box of 12 · 黑巧克力', 'chocolate', { price_cents: 3900 }), 3);
    }
    const page = await (await openContext(options(name))).newPage();
    await page.goto(`${server.url}/orders#token=${tokenOf(server, 43)}`);
    await page.locator('.order .button').first().waitFor();
    await shoot(page, name);
});

job(['pay-phone-en-light', 'pay-phone-zh-dark'], async (name) => {
    const me = buyer(server, 44);
    const order = await me.buy(await sell('Dark chocolate, box of 12 · 黑巧克力', 'chocolate', { price_cents: 3900 }), 2);
    const page = await (await openContext(options(name))).newPage();
    await page.goto(`${server.url}/orders#token=${tokenOf(server, 44)}`);
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
let wares = [];

// A server of its own, so that the operator sees the demonstration and not what the other pictures needed; under load, so
// that there is something to see.
async function consoleAt(name, hash, ready) {
    if (!desk) {
        desk = await startServer();
        wares = (await getSales(desk)).find((sale) => sale.state === 'open').items;   // others open meanwhile
        await operate(desk, `/v1/admin/items/${wares.at(-1).id}/restock`, { add: 8000, request_id: 'enough-to-go-on' });
        await rush(5, 300);
    }
    const page = await (await openContext(options(name))).newPage();
    await page.goto(`${desk.url}/console`);
    await page.locator('#token').fill(adminToken(desk));
    await page.keyboard.press('Enter');
    await page.locator('.figures').first().waitFor();
    if (hash !== 'live') {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, hash);
        await page.locator(`main ${ready}`).first().waitFor();
        return shoot(page, name);
    }
    for (const [seconds, perSecond] of [[12, 60], [15, 240], [12, 120]]) await rush(seconds, perSecond);   // the chart's course
    const load = rush(12, 180);
    await page.waitForTimeout(7000);
    await shoot(page, name, { full: true });
    await load;
}

let came = 1;

// Buyers for so many seconds, so many new ones in each: some pay, some give up, most come too late for what is scarce.
async function rush(seconds, perSecond) {
    const first = came;
    came += 100000;
    await loadTool(desk, ['--item', wares.map((item) => item.id).join(), '--mode', 'open', '--rate', perSecond, '--duration', seconds, '--users', 100000,
        '--first-user', first, '--connections', 200, '--pay', 75, '--cancel', 40, '--duplicates', 5, '--no-audit']);
}

job(['console-live-desk-en-light', 'console-live-desk-zh-dark'], (name) => consoleAt(name, 'live'));
job(['console-sales-desk-en-light', 'console-sales-desk-zh-dark', 'console-sales-phone-en-light'], (name) => consoleAt(name, 'sales', 'table, .row, a'));
job(['console-orders-desk-en-dark', 'console-orders-desk-zh-light'], (name) => consoleAt(name, 'orders', 'table, form'));

try {
    for (const { name, work } of jobs) await work(name);
} finally {
    await stopAll();
}
