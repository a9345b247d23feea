/*
 * Unit tests of the page's clock, with simulated time: slow networks, wrong device clocks, sleep.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeClock, split } from '../../web/store/clock.js';

const SERVER = 1800000000000;

// A device and a server: true time runs in one variable; trips of the next calls are given.
function world({ wrongBy = 0, trips = [] } = {}) {
    const w = { time: 0, slept: 0, wrongBy, trips: [...trips], asked: 0, gaps: [], down: false };
    w.pass = (ms) => { w.time += ms; };
    w.sleep = (ms) => { w.time += ms; w.slept += ms; };   // a browser whose monotonic clock stops in sleep
    w.server = () => SERVER + w.time;
    w.clock = makeClock({
        steady: () => w.time - w.slept,
        wall: () => SERVER + w.time + w.wrongBy,
        onGap: (gap) => w.gaps.push(gap),
        askTime: async () => {
            w.asked += 1;
            if (w.down) throw new Error('no answer');
            const { there, back } = w.trips.shift() ?? { there: 5, back: 5 };
            w.pass(there);
            const answer = w.server();
            w.pass(back);
            return answer;
        },
    });
    return w;
}

const off = (w) => w.clock.now() - w.server();

test('the device an hour wrong, either way: the server\'s time is shown', async () => {
    for (const wrongBy of [-3600000, 3600000]) {
        const w = world({ wrongBy });
        assert.equal(w.clock.trusted(), false);
        assert.equal(off(w), wrongBy, 'a guess, and not trusted');
        await w.clock.sync();
        assert.equal(w.clock.trusted(), true);
        assert.equal(off(w), 0);
    }
});

test('of several looks the one with the least round trip counts, and bounds the error', async () => {
    const trips = [{ there: 400, back: 10 }, { there: 30, back: 20 }, { there: 3, back: 700 }, { there: 90, back: 5 }, { there: 60, back: 60 }];
    const w = world({ trips });
    await w.clock.sync();
    assert.equal(w.asked, 5);
    assert.equal(w.clock.errorMs(), 25);
    assert.ok(Math.abs(off(w)) <= 25);
});

test('quick answers need fewer looks; a worse look does not spoil a better one', async () => {
    const w = world();
    await w.clock.sync();
    assert.equal(w.asked, 3);
    w.trips.push(...Array(5).fill({ there: 900, back: 10 }));
    await w.clock.sync();
    assert.equal(off(w), 0);
    assert.equal(w.clock.errorMs(), 5);
});

test('an old look is replaced, also by a worse one', async () => {
    const w = world();
    await w.clock.sync();
    w.pass(200000);
    w.trips.push(...Array(5).fill({ there: 30, back: 10 }));
    await w.clock.sync();
    assert.equal(w.clock.errorMs(), 20);
});

test('setting the device\'s clock moves no countdown, and makes the page ask again', async () => {
    const w = world();
    await w.clock.sync();
    w.pass(1000);
    w.wrongBy = -3600000;
    assert.equal(off(w), 0);
    assert.deepEqual(w.gaps, [-3600000]);
    assert.equal(w.clock.trusted(), false);
    await w.clock.sync();
    assert.equal(w.clock.trusted(), true);
    assert.equal(off(w), 0);
    assert.equal(w.gaps.length, 1, 'told once');
});

test('sleep that stops the monotonic clock is noticed and mended', async () => {
    const w = world();
    await w.clock.sync();
    w.sleep(90000);
    assert.equal(off(w), -90000, 'behind, never ahead: nothing opens too early');
    assert.equal(w.clock.trusted(), false);
    assert.equal(w.gaps.length, 1);
    await w.clock.sync();
    assert.equal(off(w), 0);
});

test('a look that was slept through is not used', async () => {
    const w = world({ trips: [{ there: 1, back: 1 }] });
    const { clock } = w;
    const first = clock.sync();
    w.sleep(50000);
    await first;
    assert.ok(w.asked > 1);
    assert.equal(off(w), 0);
});

test('no answer: the guess stays a guess; the next time is soon', async () => {
    const w = world({ wrongBy: 5000 });
    w.down = true;
    await assert.rejects(w.clock.sync());
    assert.equal(w.clock.trusted(), false);
    assert.equal(w.clock.dueIn(), 2000);
    w.down = false;
    await Promise.all([w.clock.sync(), w.clock.sync()]);
    assert.ok(w.asked <= 4, 'one look at a time');
    assert.equal(w.clock.dueIn(), 300000);
});

test('what is left, to a tenth, never zero too early', () => {
    const text = (ms) => { const s = split(ms); return `${s.days} ${s.hours}:${s.minutes}:${s.seconds}.${s.tenths}`; };
    assert.equal(text(0), '0 0:0:0.0');
    assert.equal(text(-5), '0 0:0:0.0');
    assert.equal(text(1), '0 0:0:0.1');
    assert.equal(text(100), '0 0:0:0.1');
    assert.equal(text(101), '0 0:0:0.2');
    assert.equal(text(59999), '0 0:1:0.0');
    assert.equal(text(86400000 + 3600000 * 2 + 60000 * 3 + 4500), '1 2:3:4.5');
    assert.equal(split(250).nextMs, 50);
    assert.equal(split(300).nextMs, 100);
    assert.equal(split(-1).nextMs, Infinity);
});
