/*
 * Random walks of the button's state machine against a small model of the server, in one tab and in two tabs of one
 * browser. Every step checks the invariants.
 *
 * SEED repeats a walk (every failure prints its seed), WALKS is how many there are of each kind.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { actsOf, begin, stateOf, step } from '../../web/store/machine.js';

const START = 1000000;
const ITEM = { id: 7, state: 'open', limit_per_user: 1, total: 10, available: 10, locked: 0, sold: 0,
    starts_at_ms: START, ends_at_ms: START + 3600000 };

// A small honest server: tickets, orders, limits; it may act and its answer be lost.
class Server {
    constructor(random, limit) {
        Object.assign(this, { random, limit, stock: 6, orders: new Map(), tickets: 0, made: 0 });
    }

    held() { return [...this.orders.values()].filter((o) => !['EXPIRED', 'CANCELLED', 'FAILED'].includes(o.status)).length; }

    takeTicket(now) {
        this.tickets += 1;
        const unsold = this.orders.size - this.held();
        const orderId = this.limit === 1 ? `o${unsold}` : `o${this.tickets}`;
        return { type: 'ticket', ticket: `t${this.tickets}`, url: '', orderId, expiresMs: now + 20000, held: this.held() };
    }

    buy({ orderId, expiresMs }, now) {
        const known = this.orders.get(orderId);
        if (known) return { type: 'accepted', orderId, status: known.status, held: this.held() };
        const no = (code, retry) => ({ type: 'refused', refusal: { code, retry, retryAfterMs: 500, held: this.held() } });
        if (now > expiresMs) return no('bad_ticket', 'new-ticket');
        if (this.limit && this.held() >= this.limit) return no('limit_reached', 'no');
        if (this.stock === 0) return no('sold_out', 'later');
        this.stock -= 1;
        this.made += 1;
        this.orders.set(orderId, { order_id: orderId, status: 'QUEUED', reason: null, qty: 1 });
        return { type: 'accepted', orderId, status: 'QUEUED', held: this.held() };
    }

    cancel(id) {
        const order = this.orders.get(id);
        if (order.status !== 'LOCKED') return { type: 'refused', refusal: { code: 'already_paid', retry: 'no' } };
        this.end(order, 'CANCELLED');
        return { type: 'order', order: { ...order } };
    }

    end(order, status) {
        order.status = status;
        if (status !== 'PAID') this.stock += 1;
    }

    // Other buyers take and give back; some order of ours moves on.
    move() {
        if (this.random() < 0.3) this.stock = this.random() < 0.5 ? 0 : 6;
        const alive = [...this.orders.values()].filter((o) => o.status === 'QUEUED' || o.status === 'LOCKED');
        if (!alive.length) return;
        const order = alive[Math.floor(this.random() * alive.length)];
        if (order.status === 'QUEUED') {
            if (this.random() < 0.15) this.end(order, 'FAILED');
            else order.status = 'LOCKED';
        } else this.end(order, this.random() < 0.5 ? 'PAID' : 'EXPIRED');
    }

    item() {
        return { ...ITEM, limit_per_user: this.limit, available: this.stock, locked: 1,
            state: this.stock ? 'open' : 'sold_out' };
    }
}

function generator(seed) {
    let a = seed >>> 0;
    return () => {
        a = (a + 0x6d2b79f5) | 0;
        let t = Math.imul(a ^ (a >>> 15), 1 | a);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
}

const RANK = { QUEUED: 0, LOCKED: 1, PAID: 2, EXPIRED: 2, CANCELLED: 2, FAILED: 2 };
const SUBMITS = ['takeTicket', 'buy', 'cancel'];
const LOOKED = ['bad_ticket', 'sold_out', 'limit_reached'];
const FATES = ['told', 'told', 'told', 'untold', 'unsent', 'busy'];

class Walk {
    constructor(seed, tabs) {
        this.random = generator(seed);
        this.server = new Server(this.random, [0, 1, 3][Math.floor(this.random() * 3)]);
        Object.assign(this, { memory: null, presses: 0, trace: [], now: START });
        this.sent = new Map();         // ticket -> how many sendings of it nobody can speak for yet
        this.certain = new Set();      // tickets and orders whose outcome is known, a ticket's until it is sent again
        this.dead = new Set();         // tickets that can buy nothing any more
        this.tabs = Array.from({ length: tabs }, (_, name) => ({ name }));
        for (const tab of this.tabs) this.open(tab);
    }

    pick(list) { return list[Math.floor(this.random() * list.length)]; }

    // Opens a tab, or reloads it: nothing is left of it but what the browser remembers.
    open(tab) {
        Object.assign(tab, { model: begin(this.now), calls: [], shown: new Map(), unheard: false });
        this.send(tab, { type: 'user', user: '5' });
        this.send(tab, { type: 'item', item: this.server.item() });
    }

    send(tab, event) {
        const before = tab.model;
        const { model, effects } = step(before, { now: this.now, record: structuredClone(this.memory), ...event });
        const what = event.act ?? event.order?.status ?? event.refusal?.code ?? '';
        this.trace.push(`${tab.name}: ${stateOf(before)} --${event.type} ${what}--> ${stateOf(model)}`);
        this.settle(before, event);
        this.checkDoubt(before, model, event);
        tab.model = model;
        for (const effect of effects) this.run(tab, effect);
        this.checkOrder(tab);
        const submits = tab.calls.filter((call) => SUBMITS.includes(call.do));
        assert.ok(submits.length <= 1, 'one submit in flight');
    }

    // What has become certain by an event: an order that exists, or a refusal that can speak for every sending.
    settle({ ticket }, event) {
        if (event.order) this.certain.add(event.order.order_id);
        if (event.type === 'accepted') this.certain.add(event.orderId);
        for (const order of event.show ? event.orders : []) this.certain.add(order.order_id);
        if (event.type !== 'refused' || !ticket || event.refusal.retry === 'same-ticket') return;
        if (!LOOKED.includes(event.refusal.code) && this.sent.get(ticket.ticket) !== 1) return;
        this.certain.add(ticket.ticket);
        this.sent.delete(ticket.ticket);
        if (event.refusal.code === 'bad_ticket') this.dead.add(ticket.ticket);
    }

    isCertain({ ticket, orderId }) {
        return this.certain.has(ticket) || this.certain.has(orderId) || this.dead.has(ticket);
    }

    run(tab, effect) {
        if (effect.do === 'keep') this.keep(tab, structuredClone(effect.record));
        if (effect.do === 'buy') {
            const { ticket } = effect.ticket;
            const kept = this.memory?.ticket?.ticket === ticket && this.memory.ticket.doubt;
            assert.ok(kept || this.isCertain(effect.ticket), 'kept before it is sent');
            this.sent.set(ticket, (this.sent.get(ticket) ?? 0) + 1);
            this.certain.delete(ticket);
        }
        if ([...SUBMITS, 'look', 'mine'].includes(effect.do)) tab.calls.push(effect);
    }

    keep(tab, record) {
        const old = this.memory?.ticket;
        const kept = record?.ticket?.ticket === old?.ticket && record?.ticket?.doubt;
        if (old?.doubt && !kept) {
            assert.ok(this.isCertain(old), 'the memory lost a ticket in doubt');
        }
        this.memory = record;
        for (const other of this.tabs) if (other !== tab) other.unheard = true;
    }

    checkDoubt(before, after, event) {
        if (!before.ticket?.doubt) return;
        const { ticket, orderId, resent } = before.ticket;
        if (after.ticket?.ticket === ticket && after.ticket.doubt) return;
        const seen = event.order?.order_id === orderId || (event.type === 'accepted' && event.orderId === orderId)
            || (event.show && event.orders.some((order) => order.order_id === orderId));
        const refused = event.type === 'refused' && event.refusal.retry !== 'same-ticket'
            && (!resent || LOOKED.includes(event.refusal.code));
        assert.ok(seen || refused, `a ticket in doubt was given up on ${event.type}`);
    }

    checkOrder(tab) {
        const { order } = tab.model;
        if (!order) return;
        const last = tab.shown.get(order.order_id) ?? 0;
        assert.ok(RANK[order.status] >= last, 'a shown order went backwards');
        tab.shown.set(order.order_id, RANK[order.status]);
    }

    // The answer to one call: true, lost on the way there, or lost on the way back.
    answer(tab, call, fate) {
        tab.calls.splice(tab.calls.indexOf(call), 1);
        if (call.do === 'mine') {
            const orders = [...this.server.orders.values()].reverse().map((order) => ({ ...order }));
            return fate === 'told' ? this.send(tab, { type: 'mine', orders, show: this.random() < 0.3 }) : undefined;
        }
        if (call.do === 'look') {
            const order = this.server.orders.get(call.orderId);
            if (fate !== 'told') return this.send(tab, { type: 'unseen' });
            return this.send(tab, order ? { type: 'order', order: { ...order } } : { type: 'missing', orderId: call.orderId });
        }
        const silence = { type: 'refused', turn: call.turn, refusal: { code: 'no_answer', retry: 'same-ticket' } };
        if (fate === 'unsent') return this.send(tab, silence);
        if (fate === 'busy') {
            const refusal = { code: 'overloaded', retry: 'later', retryAfterMs: 1000 };
            return this.send(tab, { type: 'refused', turn: call.turn, refusal, jitter: this.random() });
        }
        const answer = call.do === 'buy' ? this.server.buy(call.ticket, this.now)
            : call.do === 'cancel' ? this.server.cancel(call.orderId) : this.server.takeTicket(this.now);
        return this.send(tab, fate === 'told' ? { turn: call.turn, ...answer } : silence);
    }

    press(tab) {
        const acts = actsOf(tab.model);
        if (!acts.length) return;
        const act = this.pick(acts);
        if (act === 'buy' || act === 'again') this.presses += 1;
        this.send(tab, { type: 'press', act });
    }

    // A view that may be old: what some slow stream still had.
    gossip(tab) {
        const order = this.pick([...this.server.orders.values()]);
        if (!order) return;
        const older = Object.keys(RANK).filter((status) => RANK[status] < RANK[order.status]);
        const status = older.length && this.random() < 0.5 ? this.pick(older) : order.status;
        this.send(tab, { type: 'order', order: { ...order, status } });
    }

    tick(ms) {
        this.now += ms;
        for (const tab of this.tabs) this.send(tab, { type: 'tick' });
    }

    hear(tab) {
        tab.unheard = false;
        this.send(tab, { type: 'elsewhere' });
    }

    once() {
        const roll = this.random();
        const tab = this.pick(this.tabs);
        const call = this.pick(tab.calls);
        if (call && roll < 0.45) this.answer(tab, call, this.pick(FATES));
        else if (roll < 0.6) this.press(tab);
        else if (roll < 0.7) this.server.move();
        else if (roll < 0.8) this.gossip(tab);
        else if (roll < 0.88) this.tick(Math.floor(this.random() * 4000));
        else if (roll < 0.92) this.send(tab, { type: 'item', item: this.server.item() });
        else if (roll < 0.97) { if (tab.unheard || this.tabs.length === 1) this.hear(tab); }
        else if (roll < 0.98) this.send(tab, { type: 'early', atMs: this.now + 500 });
        else this.open(tab);
    }

    // Everything heals: whatever was unknown becomes known.
    heal() {
        const unwell = (tab) => tab.calls.length || ['asking', 'loading', 'timed_out', 'overloaded'].includes(stateOf(tab.model));
        for (let i = 0; i < 400; i += 1) {
            const tab = this.tabs.find(unwell);
            if (!tab) return;
            if (tab.calls.length) this.answer(tab, tab.calls[0], 'told');
            else if (['timed_out', 'overloaded'].includes(stateOf(tab.model)) && actsOf(tab.model).length) this.press(tab);
            else this.tick(3000);
        }
        assert.fail(`not healed: ${this.tabs.map((tab) => stateOf(tab.model))}`);
    }

    end() {
        this.heal();
        assert.ok(this.server.made <= this.presses, 'an order that nobody pressed for');
        const left = this.memory?.ticket;
        assert.ok(!left?.doubt || this.isCertain(left), 'a doubt that nobody follows');
    }
}

for (const [tabs, who] of [[1, 'one tab'], [2, 'two tabs of one browser']]) {
    test(`a random walk of ${who}: one submit at a time, no ticket in doubt lost, no order shown backwards, and it heals`, () => {
        const first = process.env.SEED ? Number(process.env.SEED) : Math.floor(Math.random() * 2 ** 31);
        const walks = process.env.SEED ? 1 : Number(process.env.WALKS ?? 200);
        console.log(`random walks from seed ${first}`);
        const visited = new Set();
        for (let seed = first; seed < first + walks; seed += 1) {
            const walk = new Walk(seed, tabs);
            try {
                for (let i = 0; i < 150 * tabs; i += 1) {
                    walk.once();
                    for (const tab of walk.tabs) visited.add(stateOf(tab.model));
                }
                walk.end();
            } catch (error) {
                throw new Error(`SEED=${seed}: ${error.message}\n${walk.trace.slice(-25).join('\n')}`, { cause: error });
            }
        }
        const often = ['queued', 'locked', 'paid', 'expired', 'failed', 'timed_out', 'overloaded', 'watching'];
        if (walks > 1) assert.deepEqual(often.filter((name) => !visited.has(name)), [], 'the walk gets about');
    });
}
