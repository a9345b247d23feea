/*
 * The demonstration's login: any number is a buyer. It does what a shop's login does: makes a token and sends the
 * buyer back with it, and with the state that he brought, in the fragment of the address he came from, which must be
 * an address of this very server. Who opened this page by himself begins a login of his own here.
 */

import { ask } from '/assets/net.js';
import { memory, setText } from '/assets/tools.js';
import '/assets/demo/words.js';
import { $, reason, session, startShell, t } from '/assets/store/shell.js';

const asked = new URLSearchParams(location.search);

function way() {
    try {
        const url = new URL(asked.get('return') ?? '/', location.origin);
        if (url.origin === location.origin) return url;
    } catch { /* no address at all */ }
    return new URL('/', location.origin);
}

const anyone = () => String(1 + Math.floor(Math.random() * 1e6));

async function login(event) {
    event.preventDefault();
    const user = $('user').value.trim();
    if (!/^[1-9]\d{0,15}$/.test(user) || Number(user) > Number.MAX_SAFE_INTEGER) {
        setText($('error'), t('demoBad'));
        return $('user').focus();
    }
    setText($('error'), '');
    try {
        const { token } = await ask('GET', `/demo/login?user=${user}`);
        memory.set('localStorage', 'demo-user', user);
        const back = way();   // whole: a path may begin with two slashes, which alone would name a host
        back.hash = String(new URLSearchParams({ token, state: asked.get('state') ?? session.begin() }));
        location.replace(back.href);
    } catch (refusal) {
        setText($('error'), reason(refusal.code));
    }
    return undefined;
}

startShell();
$('user').value = memory.get('localStorage', 'demo-user') ?? anyone();
$('form').addEventListener('submit', login);
$('other').addEventListener('click', () => { $('user').value = anyone(); });
$('user').focus();
$('user').select();
