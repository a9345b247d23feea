/*
 * Asking the server. An answer is its JSON, or null where it has none; everything else is a Refusal that says what to do
 * next.
 *
 * What can go wrong: no answer at all (network, time-out, a proxy's error page). That is a Refusal too, with
 * status 0 or the proxy's, and `same-ticket`: whether the server acted is not known.
 */

export class Refusal extends Error {
    constructor(status, problem) {
        super(problem?.code ?? 'no_answer');
        const unknown = status === 0 || status >= 500;
        this.status = status;
        this.code = problem?.code ?? 'no_answer';
        this.detail = problem?.detail ?? '';
        this.retry = problem?.retry ?? (unknown ? 'same-ticket' : 'no');
        this.retryAfterMs = problem?.retry_after_ms ?? 1000;
        this.available = problem?.available;
        this.held = problem?.held;
        this.limit = problem?.limit;
    }
}

export async function ask(method, path, { body, token, timeoutMs = 10000, signal } = {}) {
    const headers = { accept: 'application/json' };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (token) headers.authorization = `Bearer ${token}`;
    const guard = new AbortController();
    const stop = () => guard.abort();
    const timer = setTimeout(stop, timeoutMs);
    signal?.addEventListener('abort', stop);
    let response, text;
    try {
        const payload = body === undefined ? undefined : JSON.stringify(body);
        response = await fetch(path, { method, headers, body: payload, signal: guard.signal });
        text = await response.text();
    } catch {
        throw new Refusal(0, null);
    } finally {
        clearTimeout(timer);
        signal?.removeEventListener('abort', stop);
    }
    if (response.status === 204) return null;
    let data = null;
    try { data = JSON.parse(text); } catch { /* not from our server: judged by its status */ }
    if (!response.ok || data === null) throw new Refusal(response.ok ? 0 : response.status, data);
    return data;
}

// Server-sent events with a token, which EventSource cannot send. Returns when the server ends the stream;
// silence for a minute (not even a heartbeat) ends it as a failure, and so does nothing at all within `firstMs`:
// some proxies hold streams back.
export async function readEvents(path, { token, lastId, signal, onEvent, firstMs = 60000 }) {
    const guard = new AbortController();
    const stop = () => guard.abort();
    signal.addEventListener('abort', stop);
    let silence = setTimeout(stop, firstMs);
    try {
        const headers = { accept: 'text/event-stream' };
        if (token) headers.authorization = `Bearer ${token}`;
        if (lastId) headers['last-event-id'] = lastId;
        const response = await fetch(path, { headers, signal: guard.signal, cache: 'no-store' });
        if (!response.ok) throw new Refusal(response.status, null);
        if (response.status === 204) return;   // nothing will come any more
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let pending = '';
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return;
            clearTimeout(silence);
            silence = setTimeout(stop, 60000);
            const blocks = (pending + value).replace(/\r\n/g, '\n').split('\n\n');
            pending = blocks.pop();
            for (const block of blocks) onEvent(parseEvent(block));
        }
    } finally {
        clearTimeout(silence);
        signal.removeEventListener('abort', stop);
        stop();
    }
}

function parseEvent(block) {
    const found = { event: 'message', id: null, data: [] };
    for (const line of block.split('\n')) {
        const [, name, value] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? [];
        if (name === 'data') found.data.push(value ?? '');
        else if (name === 'event') found.event = value ?? '';
        else if (name === 'id') found.id = value ?? '';
    }
    return { ...found, data: found.data.join('\n') };
}
