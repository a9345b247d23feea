/*
 * The demonstration's till: shows the order, lets its deadline run, and pays it with one press. What becomes of the
 * order while the page is open (paid elsewhere, cancelled, too late) is followed and said; a press that got no answer
 * may be repeated, for paying twice pays once.
 */

import { Refusal, ask } from '/assets/net.js';
import { jitter, setAttr, setText, sleep } from '/assets/tools.js';
import { split } from '/assets/store/clock.js';
import '/assets/demo/words.js';
import {
    $, announce, clock, left, money, notice, onReturn, reason, resync, session, startShell, t,
} from '/assets/store/shell.js';
import { follow } from '/assets/store/live.js';

const RANK = { QUEUED: 0, LOCKED: 1, PAID: 2, EXPIRED: 2, CANCELLED: 2, FAILED: 2 };
const id = new URLSearchParams(location.search).get('order') ?? '';
const path = `/v1/orders/${encodeURIComponent(id)}`;
const calm = matchMedia('(prefers-reduced-motion: reduce)');

let order = null;
let paying = false;
let stop = null;
let out = false;        // nobody is logged in, or nobody the server knows

function learn(news) {
    if (order && RANK[news.status] < RANK[order.status]) return;
    const changed = order && order.status !== news.status;
    order = { ...order, ...news };
    setText($('error'), '');
    out = false;
    $('login').hidden = true;
    if (changed || !stop) watch();
    draw();
    if (changed) announce($('verdict').textContent);
}

// Said and offered, as on every page: none goes to the login by itself.
function offerLogin() {
    out = true;
    $('pay').hidden = true;
    $('login').hidden = false;
    setText($('error'), t('c_unauthenticated'));
}

function watch() {
    stop?.();
    stop = null;
    if (document.hidden || !order || RANK[order.status] === 2) return;
    stop = follow({ kind: 'order', id }, {
        news: learn,
        up: () => notice('offline', ''),
        down: () => notice('offline', t('offline')),
        gone: () => {},
        denied: offerLogin,
        status: () => order.status,
    });
}

const VERDICTS = {
    PAID: ['good', 'demoDone', 'demoDoneText'],
    EXPIRED: ['bad', 'demoLate', 'demoLateText'],
    CANCELLED: ['bad', 's_CANCELLED', 'demoClosed'],
    FAILED: ['bad', 's_FAILED', 'demoClosed'],
};

function draw() {
    if (!order) return;
    const verdict = VERDICTS[order.status];
    setAttr($('till'), 'data-status', order.status);
    $('lead').hidden = Boolean(verdict);
    $('verdict').hidden = $('verdict-text').hidden = !verdict;
    if (verdict) {
        setText($('verdict'), t(verdict[1]));
        setAttr($('verdict'), 'class', `verdict verdict-${verdict[0]}`);
        setText($('verdict-text'), t(verdict[2]));
    }
    $('slip').hidden = false;
    setText($('order'), order.order_id);
    setText($('count'), String(order.qty));
    const amount = money(order.amount_cents, order.currency);
    setText($('amount'), amount);
    setText($('amount-label'), t(!verdict ? 'demoAmount' : order.status === 'PAID' ? 'demoPaid' : 'demoUnpaid'));
    setAttr($('back'), 'href', `/items/${order.item_id}`);
    drawDue(amount);
}

function drawDue(amount) {
    const ms = order.pay_by_ms ? order.pay_by_ms - clock.now() : null;
    const open = order.status === 'LOCKED';
    $('when').hidden = !open || ms === null;
    if (!$('when').hidden) {
        const parts = split(ms);
        setText($('when-label'), t(ms > 0 ? 'payWithin' : 'payOver'));
        setText($('digits'), ms > 0 ? left(parts) : '');
        setText($('tenth'), ms > 0 && !calm.matches ? `.${parts.tenths}` : '');
    }
    $('pay').hidden = out || (!open && order.status !== 'QUEUED');
    setText($('pay'), order.status === 'QUEUED' ? t('s_QUEUED') : paying ? t('demoPaying') : t('demoPayNow', { amount }));
    setAttr($('pay'), 'aria-disabled', String(!open || paying || (ms !== null && ms <= 0)));
}

async function pay() {
    if (paying || $('pay').getAttribute('aria-disabled') === 'true') return;
    paying = true;
    setText($('error'), '');
    draw();
    try {
        learn(await session.call('POST', `${path}/pay`));
    } catch (refusal) {
        if (!(refusal instanceof Refusal)) throw refusal;
        if (refusal.status === 401) offerLogin();
        else await look();
        if (!out) setText($('error'), order?.status === 'LOCKED' ? reason(refusal.code) : '');
    }
    paying = false;
    draw();
}

async function look() {
    try {
        learn(await session.call('GET', path));
        return true;
    } catch (refusal) {
        if (refusal.status === 401) offerLogin();
        else if (refusal.status === 404) setText($('error'), t('c_not_found'));
        else notice('offline', t('offline'));
        return refusal.status === 401 || refusal.status === 404;
    }
}

async function nameIt() {
    try {
        setText($('item'), (await ask('GET', `/v1/items/${order.item_id}`)).name);
    } catch {
        setText($('item'), `#${order.item_id}`);
    }
}

function tick() {
    if (order) draw();
    const ms = order?.status === 'LOCKED' ? order.pay_by_ms - clock.now() : 0;
    setTimeout(tick, ms > 0 && !calm.matches ? Math.max(10, split(ms).nextMs) : 1000);
}

async function start() {
    startShell();
    $('pay').addEventListener('click', pay);
    $('login').addEventListener('click', () => session.login());
    onReturn(() => {
        watch();
        if (!document.hidden && order) look();
    });
    if (!id) return setText($('error'), t('demoNoOrder'));
    if (!session.user) return offerLogin();
    while (!clock.trusted()) {
        await resync();
        if (!clock.trusted()) await sleep(jitter(1000));
    }
    while (!await look()) await sleep(jitter(1500));
    if (!order) return undefined;
    notice('offline', '');
    nameIt();
    tick();
    return undefined;
}

start();
