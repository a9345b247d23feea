/*
 * Following one item or one order: pushed where that works (SSE read with fetch, so that the token travels in its
 * header), else by long poll, else by poll. One of these runs per page; the page stops it while it is hidden.
 *
 * What can go wrong: streams that are refused, cut, or held back by a proxy. Two such failures of one rung lead one rung
 * down the ladder, where things go on; only where the last rung fails, too, is the server away. From the top it starts
 * again after a minute, or when the server is back. Every pause has jitter, so that a million pages do not come back in
 * the same moment.
 */

import { ask, readEvents } from '/assets/net.js';
import { jitter, sleep } from '/assets/tools.js';
import { session } from '/assets/store/shell.js';

// A stream tells the present state at once, or it is held back.
const FIRST_MS = 8000;
// One that is cut sooner has failed.
const STEADY_MS = 5000;
const SOON_MS = 300;
// How long before streams are tried again.
const CLIMB_MS = 60000;
const POLL_MS = 2000;
const WAIT_MS = 25000;
const SLOWEST_MS = 8000;

// Path -> the last event's id: also one that was closed while hidden goes on from there.
const told = new Map();

const path = ({ kind, id }) => `/v1/${kind}s/${encodeURIComponent(id)}`;

/*
 * target: { kind: 'item' | 'order', id }. hooks: news(view), up(), down(), gone() where it is not there any more,
 * denied() where the token is refused, status() -> the status known, for the long poll. Returns what stops it.
 */
export function follow(target, hooks) {
    const guard = new AbortController();
    run({ ...target, ...hooks, guard, rung: 0, misses: 0, silent: 0, away: false, since: 0 });
    return () => guard.abort();
}

const LADDER = { item: [stream, poll], order: [stream, longPoll, poll] };

// misses are those of the rung in a row, silent those of all rungs since something was heard.
async function run(f) {
    const ladder = LADDER[f.kind];
    const bottom = ladder.length - 1;
    const go = (rung) => Object.assign(f, { rung, misses: 0, since: performance.now() });
    while (!f.guard.signal.aborted) {
        if (f.rung > 0 && performance.now() - f.since > CLIMB_MS) go(0);
        let pause;
        try {
            pause = await ladder[f.rung](f);
            if (f.away) go(0);
            Object.assign(f, { misses: 0, silent: 0, away: false });
        } catch (refusal) {
            if (f.guard.signal.aborted) return;
            if (refusal.status === 404) return void f.gone();
            if (refusal.status === 401) return void f.denied();
            f.misses += 1;
            f.silent += 1;
            pause = Math.max(refusal.retryAfterMs ?? 0, Math.min(SOON_MS * 2 ** f.misses, SLOWEST_MS));
            if (f.rung < bottom) {
                if (f.misses > 1) go(f.rung + 1);
            } else if (f.silent > 1 && !(refusal.status > 0 && refusal.status < 500)) {
                f.away = true;
                f.down();
            }
        }
        await sleep(jitter(pause));
    }
}

function tell(f, view) {
    if (f.guard.signal.aborted) return;
    f.up();
    f.news(view);
}

// Each rung returns how long to rest before it is asked again.

async function stream(f) {
    const began = performance.now();
    let heard = false;
    const steady = () => heard && performance.now() - began > STEADY_MS;
    const onEvent = ({ event, id, data }) => {
        heard = true;
        if (id) told.set(path(f), id);
        if (event === f.kind) tell(f, JSON.parse(data));
        else f.up();
    };
    const lastId = told.get(path(f));
    try {
        await readEvents(`${path(f)}/events`, {
            token: f.kind === 'order' ? session.token : null,
            lastId, signal: f.guard.signal, onEvent, firstMs: lastId ? undefined : FIRST_MS,
        });
    } finally {
        if (steady()) f.misses = f.silent = 0;
    }
    if (!steady()) throw Object.assign(new Error('cut'), { status: 0 });
    return SOON_MS;
}

// Where too many wait, the server answers at once, with nothing new: then this is a poll.
async function longPoll(f) {
    const began = performance.now();
    const known = f.status() ?? 'QUEUED';
    const wanted = `${path(f)}?wait_ms=${WAIT_MS}&status=${known}`;
    const view = await session.call('GET', wanted, { timeoutMs: WAIT_MS + 15000, signal: f.guard.signal });
    tell(f, view);
    return view.status === known && performance.now() - began < POLL_MS ? POLL_MS : SOON_MS;
}

async function poll(f) {
    const { signal } = f.guard;
    tell(f, await (f.kind === 'item' ? ask('GET', path(f), { signal }) : session.call('GET', path(f), { signal })));
    return POLL_MS;
}
