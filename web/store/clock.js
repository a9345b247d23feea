/*
 * The server's time, whatever the device believes. GET /v1/time is asked several times; the answer with the least
 * round trip is the best, and is off by at most half of that trip. Between two such looks the page's monotonic clock
 * counts on, so setting the device's clock moves nothing.
 *
 * What can go wrong: some browsers stop the monotonic clock while the device sleeps, and a sleeping tab runs no
 * timers. Both clocks are compared whenever the time is read: where the device's clock went another way than the
 * monotonic one, somebody slept or set the clock, nobody can tell which, and the server is asked again.
 *
 * No DOM and no fetch in here: what it needs is handed in, so that tests can bend time.
 */

const SAMPLES = 5;
// A round trip this short needs no better one.
const ENOUGH_MS = 20;
// Between the two clocks; no timer or adjustment drifts so far between two reads.
const GAP_MS = 400;
// When to look again although nothing happened.
const STALE_MS = 300000;
const RETRY_MS = 2000;

// steady() and wall() in milliseconds, askTime() -> server's now_ms; onGap is told when the time is in doubt.
export function makeClock({ steady, wall, askTime, onGap = () => {} }) {
    // A guess until the first answer.
    let offset = wall() - steady();
    // How far off it may be.
    let errorMs = Infinity;
    let syncedAt = null;
    let lastSteady = steady();
    let lastWall = wall();
    let gaps = 0;
    let running = null;

    function notice() {
        const s = steady();
        const w = wall();
        const gap = (w - lastWall) - (s - lastSteady);
        lastSteady = s;
        lastWall = w;
        if (Math.abs(gap) <= GAP_MS) return s;
        gaps += 1;
        errorMs = Infinity;
        onGap(gap);
        return s;
    }

    // One look. A sample during which the clocks parted is worth nothing.
    async function sample() {
        const before = gaps;
        const sent = notice();
        const server = await askTime();
        const trip = notice() - sent;
        return gaps === before ? { trip, offset: server - sent - trip / 2 } : null;
    }

    async function samples() {
        let best = null;
        let failure = null;
        for (let i = 0; i < SAMPLES && !(best && best.trip <= ENOUGH_MS && i >= 3); i += 1) {
            try {
                const one = await sample();
                if (one && (!best || one.trip < best.trip)) best = one;
            } catch (error) {
                failure = error;
                if (!best) break;
            }
        }
        if (!best) throw failure ?? new Error('the clock changed while it was being set');
        // A worse look than the one before replaces it only when that has grown old: drift is slower than jitter.
        const old = syncedAt === null || errorMs === Infinity || steady() - syncedAt > STALE_MS / 2;
        if (!old && best.trip / 2 > errorMs) return;
        offset = best.offset;
        errorMs = best.trip / 2;
        syncedAt = steady();
    }

    return {
        now: () => notice() + offset,
        sync: () => {
            running ??= samples().finally(() => { running = null; });
            return running;
        },
        // Whether the time shown has been learned from the server since the last gap.
        trusted: () => errorMs !== Infinity,
        errorMs: () => errorMs,
        dueIn: () => (errorMs === Infinity ? RETRY_MS : Math.max(RETRY_MS, STALE_MS - (steady() - syncedAt))),
    };
}

/*
 * What is left, to a tenth of a second: { days, hours, minutes, seconds, tenths, nextMs }; nextMs is when it changes.
 * It is rounded up, so that zero is shown at the moment and not before.
 */
export function split(leftMs) {
    const tenths = Math.max(0, Math.ceil(leftMs / 100));
    return {
        days: Math.floor(tenths / 864000),
        hours: Math.floor(tenths / 36000) % 24,
        minutes: Math.floor(tenths / 600) % 60,
        seconds: Math.floor(tenths / 10) % 60,
        tenths: tenths % 10,
        nextMs: leftMs > 0 ? leftMs - (tenths - 1) * 100 : Infinity,
    };
}
