/*
 * Following one item or one order: pushed where that works (SSE read with fetch, so that the token travels in its
 * header), else by long poll, else by poll. One of these runs per page; the page stops it while it is hidden.
 *
 * What can go wrong: streams that are refused, cut, or held back by a proxy. Two such failures in a row lead one rung
 * down the ladder; after a while, or when the server has been away, it starts from the top again. Every pause has
 * jitter, so that a million pages do not come back in the same moment.
 */

import { ask, readEvents } from '/assets/net.js';
import { jitter, sleep } from '/assets/tools.js';
import { session } from '/assets/store/shell.js';

const FIRST_MS = 8000;        // a stream tells the present state at once, or it is held back
const CLIMB_MS = 60000;       // how long before streams are tried again
const POLL_MS = 2000;
const WAIT_MS = 25000;
const SLOWEST_MS = 8000;

const told = new Map();       // path -> the last event's id: also one that was closed while hidden goes on from there

const path = ({ kind, id }) => `/v1/${kind}s/${encodeURIComponent(id)}`;

/*
 * target: { kind: 'item' | 'order', id }. hooks: news(view), up(), down(), gone() where it is not there any more,
 * denied() where the token is refused, status() -> the status known, for the long poll. Returns what stops it.
 */
export function follow(target, hooks) {
    const guard = new AbortController();
    run({ ...target, ...hooks, guard, rung: 0, misses: 0, since: 0 });
    return () => guard.abort();
}

const LADDER = { item: [stream, poll], order: [stream, longPoll, poll] };

async function run(f) {
    const ladder = LADDER[f.kind];
    while (!f.guard.signal.aborted) {
        if (f.rung > 0 && performance.now() - f.since > CLIMB_MS) f.rung = 0;
        let pause = f.rung === ladder.length - 1 ? POLL_MS : 300;
        try {
            await ladder[f.rung](f);
            if (f.misses > 2) f.rung = 0;   // it was away altogether: start from the top
            f.misses = 0;
        } catch (refusal) {
            if (f.guard.signal.aborted) return;
            if (refusal.status === 404) return void f.gone();
            if (refusal.status === 401) return void f.denied();
            f.misses += 1;
            if (f.misses % 2 === 0 && f.rung < ladder.length - 1) {
                f.rung += 1;
                f.since = performance.now();
            }
            if (f.misses > 1 && !(refusal.status > 0 && refusal.status < 500)) f.down();
            pause = Math.min(300 * 2 ** f.misses, SLOWEST_MS);
        }
        await sleep(jitter(pause));
    }
}

function tell(f, view) {
    if (f.guard.signal.aborted) return;
    f.up();
    f.news(view);
}

async function stream(f) {
    let heard = false;
    const onEvent = ({ event, id, data }) => {
        heard = true;
        if (id) told.set(path(f), id);
        f.misses = 0;
        if (event === f.kind) tell(f, JSON.parse(data));
        else f.up();
    };
    const lastId = told.get(path(f));
    await readEvents(`${path(f)}/events`, {
        token: f.kind === 'order' ? session.token : null,
        lastId, signal: f.guard.signal, onEvent, firstMs: lastId ? undefined : FIRST_MS,
    });
    if (!heard && !lastId) throw Object.assign(new Error('an empty stream'), { status: 0 });
}

async function longPoll(f) {
    const wanted = `${path(f)}?wait_ms=${WAIT_MS}&status=${f.status() ?? 'QUEUED'}`;
    tell(f, await session.call('GET', wanted, { timeoutMs: WAIT_MS + 15000, signal: f.guard.signal }));
}

async function poll(f) {
    const { signal } = f.guard;
    tell(f, await (f.kind === 'item' ? ask('GET', path(f), { signal }) : session.call('GET', path(f), { signal })));
}
