/*
 * Unit tests of the button's state machine: a sequence of events leads to each state, and each state handles each event.
 * walk.test.mjs checks the invariants.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { EVENTS, ROWS, actsOf, begin, roomOf, stateOf, step, view } from '../../web/store/machine.js';

const START = 1000000;
const ITEM = { id: 7, state: 'open', limit_per_user: 1, total: 10, available: 10, locked: 0, sold: 0,
    starts_at_ms: START, ends_at_ms: START + 3600000 };
const TICKET = { ticket: 't1', url: '/v1/buy/t1', orderId: 'o1', expiresMs: START + 600000, held: 0 };

// Runs events one after another; what came out is kept for the story to look at.
class Story {
    constructor(item = {}, now = START + 5000) {
        this.model = begin(now);
        this.effects = [];
        this.send({ type: 'user', user: '5' }, { type: 'item', item: { ...ITEM, ...item } });
    }

    send(...events) {
        for (const event of events) {
            const { model, effects } = step(this.model, event);
            this.model = model;
            this.effects = effects;
        }
        return this;
    }

    press(act = 'buy', more = {}) { return this.send({ type: 'press', act, ...more }); }

    ticket(more = {}) { return this.send({ type: 'ticket', turn: this.model.turn, ...TICKET, ...more }); }

    accepted(status = 'QUEUED', more = {}) {
        const answer = { orderId: this.model.ticket?.orderId ?? 'o1', status, held: 1 };
        return this.send({ type: 'accepted', turn: this.model.turn, ...answer, ...more });
    }

    refused(code, retry = 'no', more = {}, jitter = 0) {
        return this.send({ type: 'refused', turn: this.model.turn, refusal: { code, retry, ...more }, jitter });
    }

    silent() { return this.refused('no_answer', 'same-ticket'); }

    order(status, more = {}) {
        return this.send({ type: 'order', order: { order_id: 'o1', status, reason: null, qty: 1, ...more } });
    }

    item(more) { return this.send({ type: 'item', item: more }); }

    at(now) { return this.send({ type: 'tick', now }); }

    did(name) { return this.effects.filter((effect) => effect.do === name); }

    is(name, acts) {
        assert.equal(stateOf(this.model), name);
        if (acts) assert.deepEqual(actsOf(this.model), acts, `what can be pressed when ${name}`);
        return this;
    }
}

const bought = (item) => new Story(item).press().ticket().accepted();

// The shortest way into each state.
const WAYS = {
    loading: () => { const s = new Story(); s.model = begin(START); return s; },
    before: () => new Story({ state: 'upcoming' }, START - 10000),
    ready: () => new Story(),
    asking: () => new Story().press(),
    queued: () => bought(),
    undecided: () => bought().order('QUEUED', { reason: 'undecided' }),
    locked: () => bought().order('LOCKED', { pay_by_ms: START + 60000 }),
    paid: () => bought().order('PAID'),
    expired: () => bought().order('EXPIRED'),
    failed: () => bought().order('FAILED', { reason: 'sold_out' }),
    watching: () => new Story({ state: 'sold_out', available: 0, locked: 3 }),
    sold_out: () => new Story({ state: 'sold_out', available: 0, locked: 0 }),
    limit_reached: () => new Story({ limit_per_user: 5 }).send({ type: 'mine', orders: [{ order_id: 'o9', status: 'PAID', qty: 5 }] }),
    paused: () => new Story({ state: 'paused' }),
    ended: () => new Story({ state: 'ended' }),
    barred: () => new Story().press().refused('barred'),
    cooling: () => new Story().press().refused('barred', 'later', { retryAfterMs: 60000 }),
    blocked: () => new Story().press().refused('blocked'),
    timed_out: () => new Story().press().ticket().silent(),
    overloaded: () => new Story().press().refused('overloaded', 'later', { retryAfterMs: 4000 }),
    logged_out: () => new Story().send({ type: 'user', user: null }),
    challenge: () => new Story().press().refused('challenge_failed'),
    waiting_room: () => new Story().press().refused('waiting_room', 'later'),
};

test('every state of the table has a way into it, and every way is a state', () => {
    assert.deepEqual(Object.keys(WAYS).sort(), ROWS.map((row) => row.name).sort());
    for (const [name, way] of Object.entries(WAYS)) way().is(name);
});

test('the docs draw every state', () => {
    const docs = readFileSync(new URL('../../docs/PAGES.md', import.meta.url), 'utf8');
    const table = docs.split('\n').filter((line) => line.startsWith('| `'));
    const drawn = /```mermaid\n([\s\S]*?)```/.exec(docs)[1];
    for (const { name } of ROWS) {
        assert.ok(table.some((line) => line.startsWith(`| \`${name}\` |`)), `${name} in the table`);
        assert.match(drawn, new RegExp(`\\b${name}\\b`), `${name} in the picture`);
    }
});

// Each event in its plainest form, as it could reach the page in any state.
const PLAIN = {
    tick: (m) => ({ now: m.now + 1 }),
    user: (m) => ({ user: m.user }),
    item: () => ({ item: ITEM }),
    qty: () => ({ qty: 2 }),
    mine: (m) => ({ orders: m.held && !m.order ? [{ order_id: 'o9', status: 'PAID', qty: m.held }] : [] }),
    press: () => ({ act: 'buy' }),
    early: (m) => ({ atMs: m.now + 1000 }),
    ticket: (m) => ({ turn: m.turn, ...TICKET }),
    accepted: (m) => ({ turn: m.turn, orderId: 'o1', status: 'QUEUED', held: 1 }),
    refused: (m) => ({ turn: m.turn, refusal: { code: 'sold_out', retry: 'no' } }),
    order: () => ({ order: { order_id: 'o1', status: 'LOCKED', qty: 1 } }),
    missing: () => ({ orderId: 'o1' }),
    unseen: () => ({}),
    denied: () => ({}),
    elsewhere: () => ({ record: null }),
};

/*
 * Where each event leads from each state; '.' stays. In the order of PLAIN's keys:
 * tick user item qty mine press early ticket accepted refused order missing unseen denied elsewhere.
 */
const LEADS = {
    loading: '. . logged_out . . . . . . . . . . . .',
    before: '. . ready . . . . . . . locked . . logged_out .',
    ready: '. . . . . asking . . . . locked . . logged_out .',
    asking: '. . . . . . . asking . sold_out . . . . .',
    queued: '. . . . . . . . . . locked limit_reached . logged_out .',
    undecided: '. . . . . . . . . . locked limit_reached . logged_out .',
    locked: '. . . . . . . . . . . limit_reached . logged_out .',
    paid: '. . . . . . . . . . . limit_reached . logged_out .',
    expired: '. . . . . . . . . . . ready . logged_out .',
    failed: '. . . . . . . . . . . ready . logged_out .',
    watching: '. . ready . . . . . . . locked . . logged_out .',
    sold_out: '. . ready . . . . . . . locked . . logged_out .',
    limit_reached: '. . . . . . . . . . locked . . logged_out .',
    paused: '. . ready . . . . . . . locked . . logged_out .',
    ended: '. . ready . . . . . . . locked . . logged_out .',
    barred: '. . . . . . . . . . locked . . logged_out .',
    cooling: '. . . . . . . . . . locked . . logged_out .',
    blocked: '. . . . . . . . . . locked . . logged_out .',
    timed_out: '. . . . . . . . . . locked . . logged_out .',
    overloaded: '. . . . . . . . . . locked . . logged_out .',
    logged_out: '. . . . . . . . . . . . . . .',
    challenge: '. . . . . . . . . . locked . . logged_out .',
    waiting_room: '. . . . . . . . . . locked . . logged_out .',
};

test('every event has its answer in every state', () => {
    assert.deepEqual(Object.keys(PLAIN), Object.keys(EVENTS));
    for (const [from, row] of Object.entries(LEADS)) {
        const leads = row.split(/\s+/);
        Object.entries(PLAIN).forEach(([type, make], i) => {
            const story = WAYS[from]();
            story.send({ type, ...make(story.model) });
            const to = leads[i] === '.' ? from : leads[i];
            assert.equal(stateOf(story.model), to, `${type} when ${from}`);
            assert.ok(story.effects.filter((e) => ['takeTicket', 'buy', 'cancel'].includes(e.do)).length <= 1);
            assert.equal(view(story.model).name, to);
        });
    }
    assert.throws(() => step(begin(), { type: 'surprise' }));
});

test('before the start nothing can be pressed; at the start it is ready, by the clock alone', () => {
    const story = WAYS.before().is('before', []);
    assert.equal(view(story.model).startMs, 10000);
    assert.equal(story.press().did('takeTicket').length, 0);
    story.at(START - 1).is('before').at(START).is('ready', ['buy']);
});

test('the end comes by the clock too, and a restless clock does not run back', () => {
    new Story().at(ITEM.ends_at_ms).is('ended', []);
    new Story().at(START + 9000).at(START - 9000).is('ready');
});

test('a whole purchase: ticket, buy, queued, locked, paid; the ticket is kept, then freed', () => {
    const story = new Story({ limit_per_user: 5 }).press();
    assert.equal(story.did('takeTicket').length, 1);
    story.ticket();
    assert.deepEqual(story.effects.map((effect) => effect.do).slice(0, 2), ['keep', 'buy'], 'kept before it is sent');
    assert.equal(story.did('keep')[0].record.ticket.ticket, 't1');
    story.accepted().is('queued', []);
    assert.deepEqual(story.did('watch')[0], { do: 'watch', kind: 'order', id: 'o1' });
    assert.equal(story.model.ticket.ticket, 't1', 'kept while it is queued');
    story.order('LOCKED', { pay_by_ms: START + 9000, pay_url: '/p' }).is('locked', ['pay', 'cancel', 'more']);
    assert.deepEqual(story.did('keep')[0].record, { ticket: null, orderId: 'o1' }, 'free again; the order remembered');
    assert.equal(story.press('pay').did('pay')[0].order.pay_url, '/p');
    story.order('PAID').is('paid', ['more']);
    assert.equal(story.did('watch')[0].kind, 'item');
    story.press('more').is('ready', ['buy']);
    story.press().ticket({ ticket: 't2', orderId: 'o2' });
    assert.equal(story.did('buy')[0].ticket.ticket, 't2', 'the next order has a ticket of its own');
});

test('one for each: after the purchase nothing more can be bought', () => {
    bought().order('LOCKED').is('locked', ['pay', 'cancel']).order('PAID').is('paid', []);
});

test('a limit of five over several orders: quantities are cut to what is left, "5 of 5" ends it', () => {
    const story = new Story({ limit_per_user: 5, available: 100 }).send({ type: 'qty', qty: 9 });
    assert.equal(story.model.qty, 5);
    story.send({ type: 'qty', qty: 2 }).press().ticket().accepted('QUEUED', { held: 2 }).order('LOCKED', { qty: 2 });
    story.press('more').is('ready').send({ type: 'qty', qty: 9 });
    assert.equal(story.model.qty, 3);
    story.press().ticket({ ticket: 't2', orderId: 'o2', held: 2 }).accepted('QUEUED', { held: 5 });
    story.order('LOCKED', { order_id: 'o2', qty: 3 }).is('locked', ['pay', 'cancel']);
    story.order('PAID', { order_id: 'o2', qty: 3 }).is('paid', []);
    assert.equal(view(story.model).held, 5);
});

test('more than the limit leaves: said, cut, and ready again', () => {
    const story = new Story({ limit_per_user: 5, available: 100 }).send({ type: 'qty', qty: 4 }).press();
    story.ticket().refused('limit_reached', 'no', { held: 3, limit: 5 }).is('ready', ['buy']);
    assert.equal(story.model.note, 'over_limit');
    assert.equal(story.model.qty, 2);
    story.press().refused('limit_reached', 'no', { held: 5, limit: 5 }).is('limit_reached', []);
});

test('sixty-one of sixty: the buyer is told how many are left', () => {
    const story = new Story({ limit_per_user: 0, available: 61 }).send({ type: 'qty', qty: 61 }).press().ticket();
    story.refused('sold_out', 'no', { available: 60 }).is('ready');
    assert.equal(story.model.note, 'only_left');
    assert.equal(story.model.qty, 60);
});

test('sold out while units are unpaid is watching; a returned unit makes it ready', () => {
    new Story().press().ticket().refused('sold_out', 'later').is('watching', [])
        .item({ state: 'open', available: 1, locked: 0 }).is('ready', ['buy'])
        .item({ state: 'sold_out', available: 0, locked: 0, sold: 10 }).is('sold_out', []);
});

test('no answer to the buy: the same ticket again, at once, however often', () => {
    const story = new Story().press().ticket().silent().is('timed_out', ['again']);
    for (let i = 0; i < 3; i += 1) {
        story.press('again').is('asking');
        assert.equal(story.did('buy')[0].ticket.ticket, 't1');
        story.silent().is('timed_out');
    }
    story.press('again').accepted('LOCKED').is('locked');
    assert.equal(story.did('look')[0].orderId, 'o1', 'what is not known of it is asked for');
});

test('no answer to the ticket: nothing was taken, a press asks for another', () => {
    const story = new Story().press().silent().is('timed_out', ['again']).press('again').is('asking');
    assert.equal(story.did('takeTicket').length, 1);
});

test('in doubt the order is looked for by itself, more and more patiently; 404 proves nothing', () => {
    const story = new Story().press().ticket().silent();
    let last = 0;
    for (let i = 0; i < 5; i += 1) {
        const { lookAt, now } = story.model;
        assert.ok(lookAt - now >= last);
        last = lookAt - now;
        assert.equal(story.at(lookAt).did('look')[0].orderId, 'o1');
        story.send(i % 2 ? { type: 'unseen' } : { type: 'missing', orderId: 'o1' }).is('timed_out', ['again']);
    }
    assert.ok(last <= 8000);
    story.order('LOCKED').is('locked');
});

test('a refused resend does not end the doubt about the first sending, unless the server looked', () => {
    const story = () => new Story().press().ticket().silent().press('again');
    for (const [code, retry] of [['overloaded', 'later'], ['rate_limited', 'later'], ['unauthenticated', 'no'],
        ['bad_request', 'no'], ['degraded', 'same-ticket']]) {
        const doubtful = story().refused(code, retry).model.ticket;
        assert.ok(doubtful.doubt && doubtful.ticket === 't1', code);
    }
    for (const code of ['sold_out', 'ended', 'not_open', 'limit_reached', 'barred', 'blocked']) {
        assert.ok(!story().refused(code).model.ticket?.doubt, code);
    }
    assert.equal(story().refused('bad_ticket', 'new-ticket').did('takeTicket').length, 1);
});

test('a reload in doubt keeps the ticket; a reload with an order finds it again', () => {
    const kept = new Story().press().ticket().did('keep').at(-1).record;
    const story = new Story();
    story.model = begin(START + 6000);
    story.send({ type: 'user', user: '5', record: kept }, { type: 'item', item: ITEM }).is('timed_out', ['again']);
    story.press('again');
    assert.equal(story.did('buy')[0].ticket.ticket, 't1');
    const later = new Story();
    later.model = begin(START + 6000);
    later.send({ type: 'user', user: '5', record: { ticket: null, orderId: 'o1' } });
    assert.equal(later.did('look')[0].orderId, 'o1');
    later.item(ITEM).is('loading', []).order('LOCKED').is('locked');
    const gone = new Story();
    gone.model = begin(START + 6000);
    gone.send({ type: 'user', user: '5', record: { ticket: null, orderId: 'o1' } }, { type: 'item', item: ITEM });
    gone.send({ type: 'missing', orderId: 'o1' }).is('ready');
    assert.equal(gone.did('keep')[0].record, null);
});

test('busy: counted down, with jitter, tried again by itself, at last by the buyer', () => {
    const story = new Story().press().refused('overloaded', 'later', { retryAfterMs: 4000 }, 0.5).is('overloaded', []);
    assert.equal(view(story.model).waitMs, 4500);
    const { untilMs } = story.model.wait;
    story.at(untilMs - 1).is('overloaded', []);
    assert.equal(story.at(untilMs).did('takeTicket').length, 1);
    for (let i = 0; i < 10 && story.model.wait?.untilMs !== null; i += 1) {
        story.refused('rate_limited', 'later', { retryAfterMs: 10 });
        if (story.model.wait.untilMs !== null) {
            assert.ok(view(story.model).waitMs >= 1000, 'never more than one a second');
            story.at(story.model.wait.untilMs);
        }
    }
    story.is('overloaded', ['again']).press('again').is('asking');
});

test('a press that the state does not offer does nothing; two presses are one', () => {
    for (const [name, way] of Object.entries(WAYS)) {
        for (const act of ['buy', 'again', 'more', 'pay', 'cancel', 'login']) {
            const story = way();
            if (actsOf(story.model).includes(act)) continue;
            assert.deepEqual(story.press(act).effects, [], `${act} when ${name}`);
        }
    }
    const story = new Story().press().press().press();
    assert.equal(story.effects.length, 0);
    assert.equal(story.model.turn, new Story().press().model.turn);
});

test('cancelling: asked once, then ready with the unit given back', () => {
    const story = bought().order('LOCKED').press('cancel').is('locked', []);
    assert.equal(story.did('cancel')[0].orderId, 'o1');
    assert.deepEqual(story.press('cancel').effects, []);
    story.send({ type: 'order', turn: story.model.turn, order: { order_id: 'o1', status: 'CANCELLED', qty: 1 } });
    story.is('ready', ['buy']);
    assert.equal(story.model.held, 0);
    assert.equal(story.model.note, 'cancelled');
    story.order('LOCKED').is('ready', ['buy']);
});

test('cancelling too late is explained, and the truth is looked for', () => {
    const story = bought().order('LOCKED').press('cancel').refused('already_paid').is('locked');
    assert.equal(story.model.note, 'already_paid');
    assert.equal(story.did('look').length, 1);
    story.order('PAID').is('paid');
});

test('expired: may try again where the sale lets him, barred where not', () => {
    const story = bought().order('LOCKED').order('EXPIRED').is('expired', ['again']);
    assert.equal(story.model.held, 0);
    story.press('again').refused('barred').is('barred', []);
});

test('a cooling time: it says until when, and asks again by itself, with no jitter of its own', () => {
    const story = new Story().press().ticket().refused('barred', 'later', { retryAfterMs: 90250 }, 1).is('cooling', []);
    const { untilMs } = story.model.wait;
    assert.equal(untilMs, START + 5000 + 90250);
    assert.equal(view(story.model).waitMs, 90250);
    assert.equal(story.model.ticket.doubt, false, 'the server has looked: there is no order');
    assert.equal(story.press('again').did('buy').length, 0, 'not before its time');
    assert.equal(story.at(untilMs - 1).is('cooling').at(untilMs).did('buy')[0].ticket.ticket, 't1');
    story.accepted().is('queued');
    const late = new Story().press().ticket({ expiresMs: START + 30000 }).refused('barred', 'later', { retryAfterMs: 90000 });
    assert.equal(late.at(late.model.wait.untilMs).did('takeTicket').length, 1, 'its ticket has expired by then');
});

test('an old ticket of an order that ended: a new one is taken, once; unpaid again means barred', () => {
    const story = bought().order('EXPIRED').press('again').ticket().accepted('EXPIRED').is('asking');
    assert.equal(story.did('takeTicket').length, 1);
    story.ticket().accepted('EXPIRED').is('barred', []);
    const failed = bought().order('FAILED').press('again').ticket().accepted('FAILED').ticket().accepted('FAILED');
    failed.is('timed_out', ['again']);
});

test('a ticket taken before the start is spent at the press; one on its way is waited for', () => {
    const early = () => WAYS.before().send({ type: 'early', atMs: START - 5000 }).at(START - 5000).is('before');
    assert.equal(early().did('takeTicket').length, 1);
    const story = early().ticket().is('before').at(START).is('ready').press();
    assert.equal(story.did('buy')[0].ticket.ticket, 't1');
    const hasty = early().at(START).press().is('asking');
    assert.equal(hasty.did('takeTicket').length, 0, 'the one under way is enough');
    assert.equal(hasty.ticket().did('buy').length, 1);
    early().silent().is('before').at(START).is('ready', ['buy']);
    assert.equal(early().ticket({ expiresMs: START + 500 }).at(START).press().did('takeTicket').length, 1, 'too old');
});

test('logged out: at the first look, and when the server says so; a ticket in doubt outlives it', () => {
    assert.equal(WAYS.logged_out().is('logged_out', ['login']).press('login').did('login').length, 1);
    const story = new Story().press().ticket().silent().press('again').refused('unauthenticated').is('logged_out', ['login']);
    assert.ok(story.model.ticket.doubt);
    story.send({ type: 'user', user: '5', record: null }).is('timed_out');
    story.send({ type: 'denied' }).is('logged_out', ['login']).send({ type: 'user', user: '5', record: null }).is('timed_out');
    story.send({ type: 'user', user: '6', record: null }).is('ready');
    assert.equal(story.model.ticket, null, 'another buyer has nothing of it');
});

test('logged out: a login is offered where it leads to something; else the item is what it is for everybody', () => {
    const visitor = (item, record = null, now = START + 5000) => new Story(item, now).send({ type: 'user', user: null, record });
    const shut = { ended: { state: 'ended' }, paused: { state: 'paused' }, sold_out: { state: 'sold_out', available: 0 },
        watching: { state: 'sold_out', available: 0, locked: 3 } };
    for (const [name, item] of Object.entries(shut)) {
        visitor(item).is(name, []);
        visitor(item, { ticket: null, orderId: 'o1' }).is('logged_out', ['login']);
        visitor(item, { ticket: { ...TICKET, doubt: true }, orderId: null }).is('logged_out', ['login']);
        visitor(item, { ticket: { ...TICKET, doubt: false }, orderId: null }).is(name, []);
        new Story(item).send({ type: 'denied' }).is('logged_out', ['login']);
    }
    const early = visitor({ state: 'upcoming' }, null, START - 10000).is('logged_out', ['login']);
    assert.equal(view(early.model).startMs, 10000, 'the countdown runs');
    early.at(START).is('logged_out', ['login']).item({ state: 'sold_out', available: 0, locked: 1 }).is('watching', [])
        .item({ state: 'open', available: 1 }).is('logged_out', ['login']).at(ITEM.ends_at_ms).is('ended', []);
    const back = visitor(shut.sold_out, { ticket: null, orderId: 'o1' });
    assert.deepEqual(back.effects.filter((effect) => effect.do !== 'watch'), [], 'what somebody else left is not acted on');
    back.send({ type: 'user', user: '6', record: null }).is('sold_out');
});

test('two tabs: what the other one has in doubt is taken over, its order is shown', () => {
    const record = new Story().press().ticket().did('keep')[0].record;
    const story = new Story().press('buy', { record });
    assert.equal(story.did('takeTicket').length, 0);
    assert.equal(story.did('buy')[0].ticket.ticket, 't1');
    const idle = new Story().send({ type: 'elsewhere', record: { ticket: null, orderId: 'o1' } });
    assert.equal(idle.did('look')[0].orderId, 'o1');
    idle.order('PAID').is('paid');
});

test('answers to what is not under way any more change nothing', () => {
    const story = new Story().press();
    const { turn } = story.model;
    story.send({ type: 'user', user: '6' }).is('ready');
    for (const event of [{ type: 'ticket', ...TICKET }, { type: 'accepted', orderId: 'o1', status: 'QUEUED' },
        { type: 'refused', refusal: { code: 'ended', retry: 'no' } }]) {
        assert.deepEqual(story.send({ ...event, turn }).is('ready').effects, []);
    }
});

test('how many may be chosen', () => {
    assert.equal(roomOf({ item: { limit_per_user: 5, available: 100 }, held: 2 }), 3);
    assert.equal(roomOf({ item: { limit_per_user: 0, available: 4 }, held: 2 }), 4);
    assert.equal(roomOf({ item: { limit_per_user: 5, available: 0 }, held: 5 }), 1);
});

// ---------------------------------------------------------------- what once went wrong

// A page that is opened on what the browser remembers.
function opened(record, item = {}) {
    const story = new Story();
    story.model = begin(START + 6000);
    story.send({ type: 'user', user: '5', record });
    story.first = story.effects;
    return story.item({ ...ITEM, ...item });
}

test('a token that has run out ends the looking for a remembered order: log in, not "one moment" for ever', () => {
    const story = opened({ ticket: null, orderId: 'o1' }).is('loading').send({ type: 'denied' }).is('logged_out', ['login']);
    assert.equal(story.at(START + 60000).did('look').length, 0, 'nothing is looked for without a token');
    story.send({ type: 'user', user: '5', record: { ticket: null, orderId: 'o1' } });
    assert.equal(story.did('look')[0].orderId, 'o1');
    const doubtful = new Story().press().ticket().silent().send({ type: 'denied' });
    assert.equal(doubtful.at(START + 60000).is('logged_out').did('look').length, 0);
    assert.equal(doubtful.send({ type: 'user', user: '5' }).is('timed_out').did('look').length, 1, 'gone on with after the login');
});

test('a ticket that was taken but not spent has no order to look for', () => {
    const { record } = WAYS.before().send({ type: 'early', atMs: START }).at(START).ticket().did('keep')[0];
    assert.ok(record.ticket && !record.ticket.doubt);
    const story = opened(record).is('ready', ['buy']);
    assert.equal(story.first.filter((effect) => effect.do === 'look').length, 0);
    assert.equal(story.press().did('buy')[0].ticket.ticket, 't1', 'it is spent');
});

// Another tab has order o1; this one is in doubt about t2. What the first does must not lose that.
const DOUBT = { ticket: 't2', url: '/v1/buy/t2', orderId: 'o2', expiresMs: START + 600000, qty: 3, doubt: true, resent: false };
const other = () => new Story({ limit_per_user: 5 }).press().ticket().accepted().order('LOCKED')
    .send({ type: 'elsewhere', record: { ticket: DOUBT, orderId: null } });

test('two tabs: "buy more" and "cancel" take over what the other tab has in doubt, and never erase it', () => {
    const cancelled = (story) => story.press('cancel')
        .send({ type: 'order', turn: story.model.turn, order: { order_id: 'o1', status: 'CANCELLED', qty: 1 } });
    for (const end of [(story) => story.press('more'), cancelled]) {
        const story = end(other().is('locked')).is('timed_out', ['again']);
        assert.deepEqual(story.did('keep').map((effect) => effect.record.ticket.ticket), ['t2']);
        assert.equal(story.did('look')[0].orderId, 'o2');
        assert.equal(view(story.model).qty, 3, 'with its own quantity');
        story.press('again');
        assert.deepEqual([story.did('takeTicket').length, story.did('buy')[0].ticket.ticket], [0, 't2']);
    }
    const paid = other().order('PAID').is('paid');
    assert.ok(paid.effects.every((effect) => effect.do !== 'keep' || effect.record.ticket.ticket === 't2'));
});

test('two tabs: a ticket that arrives while the other tab is in doubt is not spent; the one in doubt is', () => {
    const story = new Story({ limit_per_user: 5 }).press();
    story.ticket({ ticket: 't3', orderId: 'o3', record: { ticket: DOUBT, orderId: null } });
    assert.equal(story.did('buy')[0].ticket.ticket, 't2');
    const waiting = new Story({ limit_per_user: 5 }).press().ticket().refused('overloaded', 'later').is('overloaded');
    waiting.send({ type: 'tick', now: waiting.model.wait.untilMs, record: { ticket: DOUBT, orderId: null } });
    assert.equal(waiting.did('buy')[0].ticket.ticket, 't2', 'nor by the clock');
});

test('two tabs: a ticket sent again by the other stays in doubt when this one\'s first sending is refused', () => {
    const story = new Story().press().ticket();
    const { record } = story.did('keep')[0];
    story.send({ type: 'elsewhere', record: { ...record, ticket: { ...record.ticket, resent: true } } });
    assert.ok(story.refused('overloaded', 'later').model.ticket.doubt);
});

test('two tabs: a doubt whose order is known by now is none', () => {
    const story = other().send({ type: 'order', order: { order_id: 'o1', status: 'PAID', qty: 1 } }).press('more').order('LOCKED', { order_id: 'o2', qty: 3 });
    assert.equal(story.is('locked').did('keep')[0].record.ticket, null);
    assert.equal(story.press('more').is('ready').press().did('takeTicket').length, 1);
});

test('what the ledger says opens what was shut; an order it does not have yet counts all the same', () => {
    const paid = { order_id: 'o8', status: 'PAID', qty: 4 };
    const story = WAYS.limit_reached().is('limit_reached');
    assert.equal(story.send({ type: 'elsewhere', record: null }).did('mine').length, 1, 'something was given up elsewhere');
    story.send({ type: 'mine', orders: [paid] }).is('ready', ['buy']);
    const late = new Story({ limit_per_user: 5 }).press().ticket({ held: 4 }).accepted('QUEUED', { held: 5 }).order('LOCKED');
    assert.equal(late.send({ type: 'mine', orders: [paid] }).model.held, 5);
    assert.equal(late.send({ type: 'mine', orders: [{ order_id: 'o1', status: 'LOCKED', qty: 1 }, paid] }).model.held, 5);
    assert.equal(late.model.unpaid, 0, 'the one that is shown is not one of the others');
    assert.equal(late.order('EXPIRED').did('mine').length, 1, 'an order that ends makes room');
    late.send({ type: 'mine', orders: [{ order_id: 'o1', status: 'LOCKED', qty: 1 }, paid] });
    assert.equal(late.model.held, 4, 'an older word of the ledger does not bring it back');
    assert.equal(bought().order('LOCKED').order('PAID').did('mine').length, 1);
    assert.equal(bought().order('LOCKED').press('cancel').order('CANCELLED').did('mine').length, 1);
});

test('a ticket in doubt that has run out is replaced by one for the same quantity', () => {
    const story = opened({ ticket: { ...DOUBT, resent: true }, orderId: null }, { limit_per_user: 5, available: 100 });
    story.is('timed_out').item({ available: 2 }).press('again').refused('bad_ticket', 'new-ticket').ticket({ ticket: 't3', orderId: 'o3' });
    assert.equal(story.did('buy')[0].ticket.qty, 3);
    const ended = opened({ ticket: DOUBT, orderId: null }, { limit_per_user: 5 }).press('again').accepted('EXPIRED').is('expired');
    assert.equal(ended.press('again').ticket({ ticket: 't3', orderId: 'o3' }).did('buy')[0].ticket.qty, 3);
});

test('what stands in line is not counted as the buyer\'s yet', () => {
    assert.equal(view(bought().model).held, 0);
    assert.equal(view(bought().order('LOCKED').model).held, 1);
    const story = new Story({ limit_per_user: 5 }).press().ticket({ held: 2 }).accepted('QUEUED', { held: 3 });
    assert.equal(view(story.model).held, 2);
});

test('when the time to pay is over nothing is offered any more, until the shop has spoken', () => {
    const story = bought({ limit_per_user: 5 }).order('LOCKED', { pay_by_ms: START + 60000 }).is('locked', ['pay', 'cancel', 'more']);
    story.at(START + 59999).is('locked', ['pay', 'cancel', 'more']).at(START + 60000).is('locked', []);
    assert.equal(view(story.model).payMs, 0);
    story.order('PAID').is('paid', ['more']);
    assert.equal(view(story.model).payMs, null);
});

test('a cancel without an answer is forgotten with the next word about the order; a refused one is not', () => {
    const story = () => bought().order('LOCKED', { pay_by_ms: START + 60000 }).press('cancel');
    assert.equal(story().silent().model.note, 'no_answer');
    assert.equal(story().silent().order('LOCKED').model.note, null);
    assert.equal(story().refused('rate_limited', 'later').order('LOCKED').model.note, 'rate_limited');
});
