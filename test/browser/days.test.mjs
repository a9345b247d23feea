/*
 * Days and dates: the list shows today's sales, and other days under their own headings, by the buyer's time zone
 * and the server's clock. A time on another day is shown with its date. Each test uses a time zone where it is about
 * noon, so that it does not run past midnight.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openLocked, text } from './bend.mjs';
import { makeSale, openItem, openPage, operate, reached, startServer, stopAll, until } from './harness.mjs';

const HOUR_MS = 3600000;
const DAY_MS = 24 * HOUR_MS;

let server;

before(async () => { server = await startServer([]); });
after(stopAll);

// A zone in which it is noon now. Its name counts the other way round: Etc/GMT-8 is eight hours ahead.
function noon() {
    const ahead = 12 - new Date().getUTCHours();
    return `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`;
}

const sell = (name, startsInMs, lastsMs, move = 'warm') => makeSale(server, {
    name, startsInMs, move, sale: { name, ends_at_ms: Date.now() + startsInMs + lastsMs },
});

// What the list shows from above, headings of days in brackets.
const shown = (page) => page.locator('#sales > *').evaluateAll((nodes) => nodes.map((node) => (
    node.matches('section') ? node.querySelector('h2').textContent : `[${node.textContent}]`)));

test('today\'s sessions come first, other days under their names, what ended on an earlier day not at all', async () => {
    await sell('Tomorrow 1', DAY_MS, HOUR_MS);
    const timezoneId = noon();
    const empty = await openPage(server, { timezoneId });
    await until('the day to be told', async () => (await shown(empty.page)).join().startsWith('[No sale today.],[Tomorrow, '));
    await empty.page.context().close();

    await sell('In three days', 3 * DAY_MS, HOUR_MS);
    await sell('Later today', HOUR_MS, HOUR_MS);
    await sell('Runs since yesterday', -DAY_MS, 2 * DAY_MS, 'open');
    for (const [name, startsInMs] of [['Ended today', -HOUR_MS], ['Ended yesterday', -DAY_MS]]) {
        const { sale } = await sell(name, startsInMs, 2 * DAY_MS, 'open');
        await operate(server, `/v1/admin/sales/${sale.id}/close`);
    }
    const day = (locale, inMs) => new Intl.DateTimeFormat(locale, { timeZone: timezoneId, weekday: 'short', month: 'short', day: 'numeric' })
        .format(Date.now() + inMs);
    for (const [locale, tomorrow] of [['en-US', 'Tomorrow, '], ['zh-CN', '明天 ']]) {
        const { page, errors } = await openPage(server, { timezoneId, locale });
        const wanted = ['Runs since yesterday', 'Later today', 'Ended today', `[${tomorrow}${day(locale, DAY_MS)}]`, 'Tomorrow 1',
            `[${day(locale, 3 * DAY_MS)}]`, 'In three days'];
        await until('the list to be in order', async () => (await shown(page)).join('|') === wanted.join('|'))
            .catch(async () => assert.deepEqual(await shown(page), wanted));
        assert.equal(await page.locator('.times li').count(), 5, 'one way to each');
        const ended = page.locator('section', { hasText: 'Ended today' });
        assert.equal(await ended.locator('.when-label').innerText(), '', 'nobody knows when it was closed');
        assert.deepEqual(errors, []);
        await page.context().close();
    }
});

test('a time that is not of today says its date: the start, and until when an order is kept', async () => {
    const timezoneId = noon();
    const { item, sale } = await sell('Next week', 7 * DAY_MS, HOUR_MS);
    const { page } = await openItem(server, item, { timezoneId });
    await reached(page, 'before');
    const date = (ms) => new Intl.DateTimeFormat('en-US', { timeZone: timezoneId, month: 'short', day: 'numeric' }).format(ms);
    assert.ok((await text(page, 'note')).includes(`at ${date(sale.starts_at_ms)}, `), await text(page, 'note'));
    await page.context().close();
    const long = await openLocked(server, { name: 'Three days to pay', payWithinS: 3 * 86400 }, { timezoneId });
    assert.ok((await text(long.page, 'note')).includes(`until ${date(Date.now() + 3 * DAY_MS)}, `), await text(long.page, 'note'));
    await long.page.context().close();
    const short = await openLocked(server, { name: 'Ten minutes to pay', payWithinS: 600 }, { timezoneId });
    assert.match(await text(short.page, 'note'), /until \d\d:\d\d:\d\d\./);
    await short.page.context().close();
});
