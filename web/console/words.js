/*
 * What the console says: one file per language, chosen by the browser, and how it writes numbers, money and time. A key
 * that is missing shows itself, so a gap is seen and nothing breaks.
 */

const CHINESE = (navigator.language || 'en').toLowerCase().startsWith('zh');
const { default: WORDS } = await import(CHINESE ? '/assets/console/zh.js' : '/assets/console/en.js');

export const LANG = CHINESE ? 'zh' : 'en';
export const LOCALE = CHINESE ? 'zh-CN' : (navigator.language || '').startsWith('en') ? navigator.language : 'en';

// The operator's own, in which every time is written and read.
export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone ?? '';

export function t(key, values = {}) {
    return (WORDS[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

// As a table's head writes it, for where a row stands alone.
export const headText = (key) => t(key).replace(/^./, (first) => first.toUpperCase());

// A refusal in the operator's language; the server's own words where it says which field, or a code is new.
export function problemText(refusal) {
    const known = WORDS[`c_${refusal.code}`];
    if (known && refusal.detail) return `${known} ${refusal.detail}`;
    return known ?? (refusal.detail || t('c_no_answer'));
}

// The same of an act: where no answer came it may have been done, and `unsure` says what to do then.
export const isUnsure = (refusal) => refusal.code === 'no_answer' && refusal.retry === 'same-ticket';
export const actText = (refusal, unsure = 'unsureDone') => (isUnsure(refusal) ? t(unsure) : problemText(refusal));

// Why an order, a message or a request was refused: in words, and the code that logs and calls have.
export const reasonText = (code) => (WORDS[`w_${code}`] ? t('reasonCode', { reason: WORDS[`w_${code}`], code }) : code);

// Every element below `root` with data-t shows that text, and one with data-t-label is called so.
export function translate(root) {
    for (const node of root.querySelectorAll('[data-t]')) node.textContent = t(node.dataset.t);
    for (const node of root.querySelectorAll('[data-t-label]')) node.setAttribute('aria-label', t(node.dataset.tLabel));
}

const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(LOCALE, { notation: 'compact', maximumFractionDigits: 1 });

// Time is written in one way everywhere: 24 hours, the day before the month, the year only where it is another one.
const DATES = CHINESE ? 'zh-CN' : 'en-GB';
const part = (options) => new Intl.DateTimeFormat(DATES, { hourCycle: 'h23', ...options });
const second = part({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
const minute = part({ hour: '2-digit', minute: '2-digit' });
const [dayHere, dayThere] = [{}, { year: 'numeric' }].map((year) => part({ month: 'short', day: 'numeric', ...year }));
const [weekdayHere, weekdayThere] = [{}, { year: 'numeric' }].map((year) => part({ weekday: 'long', month: 'long', day: 'numeric', ...year }));

const yearOf = (ms) => new Date(ms).getFullYear();
const isThisYear = (ms) => yearOf(ms) === yearOf(Date.now());
const dayOf = (ms) => new Date(ms).setHours(0, 0, 0, 0);
const isNextDay = (from, to) => new Date(from).setHours(24, 0, 0, 0) === dayOf(to);

export const clockTime = (ms) => second.format(ms);
export const dateText = (ms) => (isThisYear(ms) ? dayHere : dayThere).format(ms);
export const dayText = (ms) => (isThisYear(ms) ? weekdayHere : weekdayThere).format(ms);
// Of one day: its hours; a session that ends on another says which.
export function hoursText(from, to) {
    if (dayOf(from) === dayOf(to)) return `${minute.format(from)} – ${minute.format(to)}`;
    return `${minute.format(from)} – ${(isNextDay(from, to) && t('nextDay')) || dateText(to)} ${minute.format(to)}`;
}
export const rangeText = (from, to) => `${dateText(from)} ${hoursText(from, to)}`;
export const number = (n) => whole.format(n);
export const compact = (n) => (Math.abs(n) < 10000 ? whole.format(n) : short.format(n));
export const dateTime = (ms) => (ms ? `${dateText(ms)} ${clockTime(ms)}` : '—');
// "37 of 100 (37 %)": 100 % only where nothing is left, 0 % only where nothing went.
export function shareText(n, all) {
    const percent = all > 0 ? Math.floor((100 * n) / all) : 0;
    return t('shareOf', { n: number(n), all: number(all), percent: n > 0 && percent === 0 ? '< 1' : percent });
}

// To the last digit, everywhere.
export function money(cents, currency) {
    const whole = cents / 10 ** minorDigits(currency);
    try {
        return new Intl.NumberFormat(LOCALE, { style: 'currency', currency, currencyDisplay: 'narrowSymbol' }).format(whole);
    } catch {
        return `${whole.toFixed(2)} ${currency}`;
    }
}

// How many minor units make one of the currency: 2 digits for CNY, none for JPY.
export function minorDigits(currency) {
    try {
        return new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits;
    } catch {
        return 2;
    }
}

// How long something has lasted, in its two largest parts.
export function duration(ms) {
    const seconds = Math.floor(ms / 1000);
    if (seconds < 60) return micros(ms * 1000);
    const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
    const at = parts.findIndex(([length]) => seconds >= length);
    return parts.slice(at, at + 2).map(([length, unit], i) => `${Math.floor((i ? seconds % parts[at][0] : seconds) / length)} ${unit}`).join(' ');
}

export function micros(us) {
    if (us >= 1e6) return `${(us / 1e6).toFixed(1)} s`;
    if (us >= 1e4) return `${Math.round(us / 1e3)} ms`;
    return us >= 1e3 ? `${(us / 1e3).toFixed(1)} ms` : `${Math.round(us)} µs`;
}
