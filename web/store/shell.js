/*
 * What every page of the storefront shares: its texts and how it writes money, numbers and time; the server's clock; who
 * is buying; and the two places where the page speaks by itself (the notice at the top, and the polite line for screen
 * readers). One file, because each costs a slow phone a part of the page's 30 KB.
 *
 * Texts are in one file per language, of which only the chosen one is loaded. A key that is missing shows itself, so a
 * gap is seen and nothing breaks.
 *
 * The token comes back from the shop's login in the URL's fragment, is taken out of the address at once, and is kept
 * in this browser; the server alone judges it. It is taken only with the `state` that this tab gave the login: a link
 * that somebody made with a token of his must log nobody in. Where the server refuses a token, the page says so and
 * offers the login; it never goes there by itself, for a bad token must not bounce a buyer for ever.
 */

import { ask } from '/assets/net.js';
import { el, memory, safeUrl, setText } from '/assets/tools.js';
import { makeClock } from '/assets/store/clock.js';

export const $ = (id) => document.getElementById(id);

// What the server wrote into the page when it made it.
export const data = JSON.parse($('data')?.textContent || '{}');

// ---------------------------------------------------------------- texts

export const CHINESE = (navigator.language || 'en').toLowerCase().startsWith('zh');
const { default: WORDS } = await import(CHINESE ? '/assets/store/zh.js' : '/assets/store/en.js');

export const LOCALE = CHINESE ? 'zh-CN' : (navigator.language || '').startsWith('en') ? navigator.language : 'en';

export const add = (more) => Object.assign(WORDS, more);
export const says = (key) => key in WORDS;

export function t(key, values = {}) {
    return (WORDS[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

// A refusal in the buyer's words. A code without its own gets a general one: what the server says is for programs.
export const reason = (code) => t(says(`c_${code}`) ? `c_${code}` : 'c_other');

// Every element with data-t shows that text; only now are they seen, so no other language flashes by.
export function translate() {
    for (const node of document.querySelectorAll('[data-t]')) node.textContent = t(node.dataset.t);
    for (const node of document.querySelectorAll('[data-t-label]')) node.setAttribute('aria-label', t(node.dataset.tLabel));
    document.documentElement.lang = LOCALE;
    document.documentElement.dataset.lang = CHINESE ? 'zh' : 'en';
}

const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const time = (more) => new Intl.DateTimeFormat(LOCALE, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...more });
const date = { month: 'short', day: 'numeric' };
const clockTime = time();
const exactTime = time({ second: '2-digit' });
const dayTime = time(date);
const exactDayTime = time({ ...date, second: '2-digit' });
const calendar = new Intl.DateTimeFormat('en-CA');

export const number = (n) => whole.format(n);
export const stamp = (ms) => dayTime.format(ms);

// The buyer's own calendar: 2026-10-09.
export const day = (ms) => calendar.format(ms);

// The time alone while it is today, by the server's clock; to the minute, or to the second.
export const hour = (ms, now) => (day(ms) === day(now) ? clockTime : dayTime).format(ms);
export const second = (ms, now) => (day(ms) === day(now) ? exactTime : exactDayTime).format(ms);

export function money(cents, currency) {
    try {
        const format = new Intl.NumberFormat(LOCALE, { style: 'currency', currency, currencyDisplay: 'narrowSymbol' });
        return format.format(cents / 10 ** format.resolvedOptions().maximumFractionDigits);
    } catch {
        return `${(cents / 100).toFixed(2)} ${currency}`;
    }
}

// 25 % off; in Chinese what remains, in tenths: 7.5 折.
export function discount(price, was) {
    const share = price / was;
    return t('off', { n: Math.round(100 - share * 100), z: (share * 10).toFixed(1).replace(/\.0$/, '') });
}

const two = (n) => String(n).padStart(2, '0');

// From clock.js's split(): 1d 02:03:04, 02:03:04, 03:04.
export function left({ days, hours, minutes, seconds }) {
    const clock = `${two(minutes)}:${two(seconds)}`;
    if (days) return `${t('days', { n: days })} ${two(hours)}:${clock}`;
    return hours ? `${two(hours)}:${clock}` : clock;
}

// ---------------------------------------------------------------- speaking

export function announce(text) {
    if (text) setText($('announce'), text);
}

// Told apart by name, so that one trouble's end does not hide another's.
const troubles = new Map();

export function notice(name, text) {
    if (text) troubles.set(name, text);
    else troubles.delete(name);
    const shown = [...troubles.values()].at(-1) ?? '';
    setText($('notice'), shown);
    $('notice').hidden = !shown;
}

// ---------------------------------------------------------------- time

export const clock = makeClock({
    steady: () => performance.now(),
    wall: () => Date.now(),
    askTime: async () => (await ask('GET', '/v1/time', { timeoutMs: 5000 })).now_ms,
    onGap: () => setTimeout(resync, 0),
});

let nextSync = null;

export async function resync() {
    clearTimeout(nextSync);
    try {
        await clock.sync();
    } catch { /* tried again below */ }
    clearTimeout(nextSync);
    if (!document.hidden) nextSync = setTimeout(resync, clock.dueIn());
}

function showTime() {
    const now = clock.now();
    if ($('clock')) setText($('clock'), clock.trusted() ? second(now, now) : '--:--:--');
    setTimeout(showTime, 1000 - (now % 1000) + 5);
}

// Calls back whenever the page is looked at again, from sleep, another tab or the back button's memory.
export function onReturn(work) {
    document.addEventListener('visibilitychange', work);
    addEventListener('pageshow', (event) => { if (event.persisted) work(); });
    addEventListener('online', work);
}

// ---------------------------------------------------------------- pictures

// An item's own picture where there is one and it loads; else its first letter on one of six quiet grounds. Nothing
// moves when a picture fails: the ground is there already.
export function paint(box, item) {
    box.classList.add(`tint-${item.id % 6}`);
    const letter = ([...item.name.trim()][0] ?? '·').toUpperCase();
    const stand = () => box.replaceChildren(el('span', { 'aria-hidden': 'true' }, letter));
    const image = box.querySelector('img');
    if (!image || !safeUrl(image.src)) return stand();
    image.addEventListener('error', stand);
    if (image.complete && image.naturalWidth === 0) stand();
    return undefined;
}

// ---------------------------------------------------------------- who is buying

// How long a login may take.
const LOGIN_MS = 900000;

const reader = (token) => {
    try {
        return String(JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'))).sub);
    } catch {
        return null;
    }
};

export const session = {
    token: null,
    // Only to name what is remembered here.
    user: null,
    config: null,
    onChange: () => {},

    use(token) {
        this.token = reader(token ?? '') === null ? null : token;
        this.user = this.token && reader(this.token);
        this.draw();
    },

    leave() {
        memory.set('localStorage', 'token', null);
        this.use(null);
        this.onChange();
    },

    // Asked for only where nobody is logged in, or there is nowhere to pay: most buyers never need it.
    async settings() {
        this.config ??= await ask('GET', '/v1/page-config');
        return this.config;
    },

    // Where to log in, with the way back and the state to bring along; null where the shop has not said. Each of the
    // two is put where the shop's URL names it, else it becomes a parameter.
    async loginUrl(state) {
        const { login_url: url } = await this.settings();
        if (!url) return null;
        const query = new URLSearchParams(location.search);
        query.set('login', state); // so that a login that only adds its token to the address brings it along
        const path = `${location.pathname}?${query}`;
        const values = { return: url.startsWith('/') ? path : location.origin + path, state };
        const filled = url.replace(/\{(return|state)\}/g, (_, name) => encodeURIComponent(values[name]));
        if (!safeUrl(filled)) return null;
        const way = new URL(filled, location.href);
        for (const name of ['return', 'state']) {
            if (!url.includes(`{${name}}`)) way.searchParams.set(name, values[name]);
        }
        return way.href;
    },

    // A login that begins here: the state that its token must come back with, once, within LOGIN_MS.
    begin() {
        const state = [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, '0')).join('');
        memory.set('sessionStorage', 'login', { state, at: Date.now() });
        return state;
    },

    async login() {
        try {
            const url = await this.loginUrl(this.begin());
            if (url) location.assign(url);
            else notice('login', t('c_unauthenticated'));
        } catch {
            notice('login', t('offline'));
        }
    },

    async payUrl(order) {
        if (order.pay_url) return safeUrl(order.pay_url);
        const { demo } = await this.settings();
        return demo ? `/demo/pay?order=${encodeURIComponent(order.order_id)}` : null;
    },

    draw() {
        if (!$('account')) return;
        setText($('who'), this.user ? t('buyer', { user: this.user }) : '');
        setText($('account'), t(this.user ? 'logout' : 'login'));
    },

    call(method, path, options = {}) {
        return ask(method, path, { ...options, token: this.token });
    },
};

// Whether this tab asked for what comes back with this state. It may come back once.
function asked(state) {
    const login = memory.get('sessionStorage', 'login');
    const age = Date.now() - login?.at;
    if (!login?.state || state !== login.state) return false;
    memory.set('sessionStorage', 'login', null);
    return age >= 0 && age < LOGIN_MS;
}

function takeToken() {
    const given = new URLSearchParams(location.hash.slice(1));
    const token = given.get('token');
    session.use(memory.get('localStorage', 'token'));
    if (!token) return;
    const query = new URLSearchParams(location.search);
    const state = given.get('state') ?? query.get('login');
    query.delete('login');
    history.replaceState(null, '', location.pathname + (query.size ? `?${query}` : ''));
    const user = reader(token);
    if (user === null) return;
    if (asked(state)) {
        memory.set('localStorage', 'token', token);
        session.use(token);
        notice('login', '');
    } else if (session.user === null) {
        notice('login', t('strayLogin', { user }));
    } else if (session.user !== user) {
        notice('login', t('otherBuyer', { user, now: session.user }));
    }
}

// Resolves when the server has been asked for its time, with or without an answer.
export function startShell() {
    translate();
    takeToken();
    $('account')?.addEventListener('click', () => (session.user ? session.leave() : session.login()));
    addEventListener('storage', ({ key }) => {
        if (key !== 'sluice.token') return;
        session.use(memory.get('localStorage', 'token'));
        session.onChange();
    });
    addEventListener('hashchange', () => {
        // Only the way to some place of the page.
        if (!/\btoken=/.test(location.hash)) return;
        takeToken();
        session.onChange();
    });
    onReturn(() => { if (!document.hidden) resync(); });
    return resync().then(showTime);
}
