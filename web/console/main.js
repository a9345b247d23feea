/*
 * The operator's console: who is asking, which screen is shown, and what every screen shares.
 *
 * Happy path: an admin token is typed once (kept for this tab only), the address behind `#` names a screen,
 * its module draws it into <main> and is told when it leaves.
 *
 * What can go wrong: a refused token leads back to signing in, with the reason; any other refusal is told in words
 * by the screen that asked. What stays true: one screen at a time, and a screen that was left changes nothing any
 * more; nothing that may hurt a running sale happens without a second question.
 */

import { Refusal, ask, readEvents } from '/assets/net.js';
import { el, memory, setText } from '/assets/tools.js';
import { makeClock } from '/assets/store/clock.js';
import { LOCALE, ZONE, t, clockTime, problemText, translate } from '/assets/console/words.js';
import { namesOf } from '/assets/console/names.js';
import { liveScreen } from '/assets/console/live.js';
import { saleForm, saleScreen, salesScreen } from '/assets/console/sales.js';
import { orderScreen, ordersScreen } from '/assets/console/orders.js';
import { checkScreen } from '/assets/console/check.js';
import { queueScreen } from '/assets/console/queue.js';
import { reportScreen } from '/assets/console/report.js';

const $ = (id) => document.getElementById(id);

const TEXT_MS = 30000;
const TOLD_MS = 8000;       // how long what was done is shown
const FEED_MS = 5000;       // it says something every second
const FEED_QUEUES = { orders: 'queue', payments: 'payments_queue' };    // what the feed calls them

async function readText(path, token) {
    let response, text;
    try {
        response = await fetch(path, { headers: { authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(TEXT_MS) });
        text = await response.text();
    } catch {
        throw new Refusal(0, null);
    }
    if (response.ok) return text;
    let problem = null;
    try { problem = JSON.parse(text); } catch { /* not from our server: judged by its status */ }
    throw new Refusal(response.status, problem);
}

// ---------------------------------------------------------------- the server's time

const clock = makeClock({
    steady: () => performance.now(),
    wall: () => Date.now(),
    askTime: async () => (await ask('GET', '/v1/time', { timeoutMs: 5000 })).now_ms,
    onGap: () => setTimeout(resync, 0),
});

let nextSync = null;

async function resync() {
    clearTimeout(nextSync);
    await clock.sync().catch(() => {});     // tried again below
    clearTimeout(nextSync);
    if (!document.hidden) nextSync = setTimeout(resync, clock.dueIn());
}

// The device's clock is never shown as the server's.
function showTime() {
    const now = clock.now();
    setText($('clock'), clock.trusted() ? clockTime(now) : '--:--:--');
    setTimeout(showTime, 1000 - (now % 1000) + 5);
}

let announced = { at: null, timer: null };     // on which screen, and until when

const console_ = {
    // The server's, as well as it is known.
    async now() {
        if (!clock.trusted()) await clock.sync().catch(() => {});
        return clock.now();
    },

    token: memory.get('sessionStorage', 'admin'),

    // As the operator; a refused token ends the session.
    call(method, path, options = {}) {
        return this.judge(ask(method, path, { ...options, token: this.token }));
    },

    // What is no JSON: a page to be kept.
    text(path) {
        return this.judge(readText(path, this.token));
    },

    async judge(answer) {
        try {
            return await answer;
        } catch (refusal) {
            if (refusal.status === 401 || refusal.status === 403) signOut(problemText(refusal));
            throw refusal;
        }
    },

    notice(text) {
        setText($('notice'), text ?? '');
        $('notice').hidden = !text;
        if (text) this.announce('');
    },

    // What was done: shown for a while, and read out.
    announce(text) {
        clearTimeout(announced.timer);
        $('announce').textContent = text;
        announced = { at: location.hash, timer: text && setTimeout(() => this.announce(''), TOLD_MS) };
    },

    // The second question. Resolves to true only where it was answered with the named act.
    sure(title, text, yes) {
        setText($('ask-title'), title);
        setText($('ask-text'), text);
        setText($('ask-yes'), yes);
        $('ask').returnValue = 'no';
        $('ask').showModal();
        return new Promise((done) => {
            $('ask').addEventListener('close', () => done($('ask').returnValue === 'yes'), { once: true });
        });
    },

    // The feed says which engine this is: what it does not have is not offered.
    engineSeen(message) {
        memory.set('sessionStorage', 'queues', ['orders', 'payments'].filter((name) => message[FEED_QUEUES[name]]));
        memory.set('sessionStorage', 'engine', message.engine);
        $('nav-queue').hidden = this.queues().length === 0;
    },

    // Those that the engine has, as the feed said last.
    queues: () => memory.get('sessionStorage', 'queues') ?? [],

    // Only what several servers share can be out of step and be repaired.
    canRepair: () => memory.get('sessionStorage', 'engine') === 'distributed',

    // Several servers answer, and this one counted only what it was asked itself. Asks the feed where it was not seen yet.
    async isOneOfMany() {
        if (memory.get('sessionStorage', 'engine') === null) {
            const first = new AbortController();
            await readEvents('/v1/admin/live', { token: this.token, signal: first.signal, firstMs: FEED_MS, onEvent: ({ event, data }) => {
                if (event !== 'live') return;
                this.engineSeen(JSON.parse(data));
                first.abort();
            } }).catch(() => {});
        }
        return memory.get('sessionStorage', 'engine') === 'distributed';
    },

    go(path) {
        location.hash = `#/${path}`;
    },
};

console_.names = namesOf(console_);

// ---------------------------------------------------------------- signing in

function signOut(why) {
    console_.token = null;
    memory.set('sessionStorage', 'admin', null);
    console_.notice(why ?? '');
    route();
}

function signInScreen(main) {
    const field = el('input', {
        id: 'token', type: 'password', required: true, autocomplete: 'off', spellcheck: 'false',
        'aria-describedby': 'token-help token-error',
    });
    const error = el('p', { id: 'token-error', class: 'field-error', role: 'alert' });
    const button = el('button', { type: 'submit' }, t('signIn'));
    const form = el('form', { class: 'panel sign-in', novalidate: true },
        el('h1', {}, t('signInTitle')),
        el('label', { for: 'token' }, t('adminToken')), field,
        el('p', { id: 'token-help', class: 'help' }, t('tokenHelp'), ' ', el('code', {}, 'sluice token --admin')),
        error, button);
    form.addEventListener('submit', async (event) => {
        event.preventDefault();
        const token = field.value.trim();
        if (!token) {
            setText(error, t('tokenMissing'));
            field.focus();
            return;
        }
        button.disabled = true;
        try {
            await ask('GET', '/v1/admin/sales?limit=1', { token });
            console_.token = token;
            memory.set('sessionStorage', 'admin', token);
            console_.notice('');
            route();
        } catch (refusal) {
            const bad = refusal.status === 401 || refusal.status === 403;
            setText(error, bad ? t('tokenRefused') : problemText(refusal));
            button.disabled = false;
            field.focus();
        }
    });
    main.replaceChildren(form);
    field.focus();
    return null;
}

// ---------------------------------------------------------------- which screen

const SCREENS = [
    [/^live$/, liveScreen],
    [/^sales$/, salesScreen],
    [/^sales\/new$/, saleForm],
    [/^sales\/(\d+)\/edit$/, saleForm],
    [/^sales\/(\d+)$/, saleScreen],
    [/^sales\/(\d+)\/report$/, reportScreen],
    [/^orders$/, ordersScreen],
    [/^orders\/([A-Za-z0-9_-]+)$/, orderScreen],
    [/^queue$/, queueScreen],
    [/^check$/, checkScreen],
];

let leave = null;       // of the screen that is shown
let visit = 0;          // a screen that was left draws nothing

async function route() {
    visit += 1;
    const mine = visit;
    leave?.();
    leave = null;
    // A screen of its own for each visit: what comes late for one that was left is drawn where nobody looks.
    const main = el('div', { class: 'screen' });
    $('main').replaceChildren(main);
    $('nav').hidden = $('sign-out').hidden = !console_.token;
    $('nav-queue').hidden = console_.queues().length === 0;
    if (!console_.token) {
        document.title = t('signInTitle');
        signInScreen(main);
        return;
    }
    const [path, query] = (location.hash.slice(2) || 'live').split('?');
    for (const link of $('nav').querySelectorAll('a')) {
        const here = path.split('/')[0] === link.hash.slice(2);
        if (here) link.hidden = false;
        if (here) link.setAttribute('aria-current', 'page');
        else link.removeAttribute('aria-current');
    }
    const [pattern, screen] = SCREENS.find(([where]) => where.test(path)) ?? [/^/, lostScreen];
    main.replaceChildren(el('p', { class: 'empty', 'aria-busy': 'true' }, t('loading')));
    const context = {
        console: console_, query: new URLSearchParams(query), isHere: () => mine === visit, main,
    };
    try {
        const left = await screen(context, ...pattern.exec(path).slice(1));
        if (mine === visit) leave = left ?? null;
        else left?.();
    } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (mine === visit && console_.token) troubleScreen(main, error);
    }
    if (mine === visit) document.title = `${main.querySelector('h1')?.textContent ?? ''} · Sluice`;
}

function lostScreen({ main }) {
    main.replaceChildren(el('h1', {}, t('lost')), el('p', { class: 'help' }, el('a', { href: '#/live' }, t('toLive'))));
}

function troubleScreen(main, refusal) {
    main.replaceChildren(el('section', { class: 'panel trouble' }, el('h1', {}, t('trouble')),
        el('p', {}, problemText(refusal)),
        el('button', { type: 'button', onclick: route }, t('tryAgain'))));
}

translate(document.body);
document.documentElement.lang = LOCALE;
setText($('zone'), ZONE);
$('sign-out').addEventListener('click', () => signOut());
// The address behind `#` names screens, so the skip link must not go there: it would leave the one that is shown.
document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault();
    $('main').focus();
});
window.addEventListener('hashchange', () => {
    console_.notice('');
    if (announced.at !== location.hash) console_.announce('');     // it was said of another screen
    route().then(() => $('main').focus({ preventScroll: true }));
});
// A hidden tab asks for nothing; one that slept may have missed much.
document.addEventListener('visibilitychange', () => {
    if (!document.hidden) resync();
});
resync();
showTime();
route();
