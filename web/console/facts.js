/*
 * What the feed of GET /v1/admin/live says, put together: pure functions from messages to figures.
 */

// The layers that turn requests away, in the order in which the server asks them; the rest is told by its code.
// challenge_failed is reserved: the server does not answer it yet.
const LAYERS = [
    ['l_framing', ['bad_request', 'too_large', 'bad_media_type', 'method_not_allowed', 'not_found', 'no_such_item', 'timeout']],
    ['l_load', ['overloaded', 'degraded', 'draining']],
    ['l_rate', ['rate_limited']],
    ['l_token', ['unauthenticated', 'forbidden', 'bad_signature']],
    ['l_ticket', ['bad_ticket', 'challenge_failed', 'different_request']],
    ['l_block', ['blocked']],
    ['l_window', ['too_early', 'not_open', 'ended']],
    ['l_stock', ['sold_out']],
    ['l_limit', ['limit_reached', 'barred']],
];

// What each layer turned away; a code that no layer has is one by itself.
export function layers(rejects) {
    const left = new Map(Object.entries(rejects ?? {}));
    const rows = LAYERS.map(([key, codes]) => {
        const n = codes.reduce((sum, code) => sum + (left.get(code) ?? 0), 0);
        codes.forEach((code) => left.delete(code));
        return { key, n };
    });
    rows.push(...[...left].map(([code, n]) => ({ code, n })));
    return rows.filter((row) => row.n > 0);
}

export const refusedOf = (message) => Object.values(message.rejects ?? {}).reduce((sum, n) => sum + n, 0);

// What became of every request. What cannot be read as one is refused without being counted as one, so the parts may be
// more than the server's sum: the larger is what arrived.
export function balance(message) {
    const { requests, tickets, accepted, repeated } = message.funnel;
    const refused = refusedOf(message);
    const known = refused + tickets + accepted + repeated;
    return {
        total: Math.max(requests, known),
        parts: Object.entries({ refused, tickets, accepted, repeated, rest: Math.max(0, requests - known) }).map(([key, n]) => ({ key, n })),
    };
}

// What two messages that follow each other say about a second between them.
export function rates(before, message) {
    const seconds = before ? (message.now_ms - before.now_ms) / 1000 : 0;
    const per = (then, now) => (seconds > 0 && now >= then ? (now - then) / seconds : null);
    if (!before) return { requests: null, accepted: null, refused: null };
    return {
        requests: per(before.funnel.requests, message.funnel.requests),
        accepted: per(before.funnel.accepted, message.funnel.accepted),
        refused: per(refusedOf(before), refusedOf(message)),
    };
}

const GROWS_MS = 60000;

// Of depths heard, [{ at_ms, n }] oldest first: did it grow all through the last minute? It did where the second half's
// least is more than the first half's most: what merely goes up and down under load does not.
export function grows(heard) {
    const last = heard.at(-1);
    if (!last || last.at_ms - heard[0].at_ms < GROWS_MS) return false;
    const since = (ms) => heard.filter(({ at_ms: at }) => at >= last.at_ms - ms);
    const half = since(GROWS_MS / 2);
    const first = since(GROWS_MS).slice(0, -half.length);
    return first.length > 0 && Math.min(...half.map(({ n }) => n)) > Math.max(...first.map(({ n }) => n));
}
