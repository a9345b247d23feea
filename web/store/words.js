/*
 * What the storefront says: one file per language, of which only the chosen one is loaded, and how it writes money,
 * numbers and time. A key that is missing shows itself, so a gap is seen and nothing breaks.
 */

const CHINESE = (navigator.language || 'en').toLowerCase().startsWith('zh');
const { default: WORDS } = await import(CHINESE ? '/assets/store/zh.js' : '/assets/store/en.js');

export const LOCALE = CHINESE ? 'zh-CN' : (navigator.language || '').startsWith('en') ? navigator.language : 'en';

export const says = (key) => key in WORDS;

export function t(key, values = {}) {
    return (WORDS[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

// A refusal in the buyer's words; the server's own where a code is new.
export const reason = (code, detail) => (says(`c_${code}`) ? t(`c_${code}`) : detail || t('c_no_answer'));

// Every element with data-t shows that text; only now are they seen, so no other language flashes by.
export function translate() {
    for (const node of document.querySelectorAll('[data-t]')) node.textContent = t(node.dataset.t);
    for (const node of document.querySelectorAll('[data-t-label]')) node.setAttribute('aria-label', t(node.dataset.tLabel));
    document.documentElement.lang = LOCALE;
    document.documentElement.dataset.lang = CHINESE ? 'zh' : 'en';
}

const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const clockTime = new Intl.DateTimeFormat(LOCALE, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const exactTime = new Intl.DateTimeFormat(LOCALE, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const dayTime = new Intl.DateTimeFormat(LOCALE, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat('en-CA');

export const number = (n) => whole.format(n);
export const second = (ms) => exactTime.format(ms);
export const stamp = (ms) => dayTime.format(ms);

// The hour alone while it is today, by the server's clock.
export const hour = (ms, now) => (day.format(ms) === day.format(now) ? clockTime : dayTime).format(ms);

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
