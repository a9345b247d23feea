/*
 * Small tools that know nothing of sales: building nodes, safe addresses, memory.
 */

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const jitter = (ms) => ms * (0.75 + Math.random() / 2);

export function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
        else if (value === true) node.setAttribute(name, '');
        else if (value !== false && value !== null) node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
}

// Writing only what changed keeps a screen reader quiet and the focus where it was.
export function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

export function setAttr(node, name, value) {
    if (value === null || value === false) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

// Makes `nodes` the children, moving only what is out of place.
export function keepOrder(parent, nodes) {
    nodes.forEach((node, i) => {
        if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] ?? null);
    });
    while (parent.children.length > nodes.length) parent.lastElementChild.remove();
}

// Addresses come from an operator; a `javascript:` one must never become a link.
export function safeUrl(text) {
    try {
        const url = new URL(text, location.href);
        return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
    } catch {
        return null;
    }
}

// Storage may be forbidden (private windows); the page then works without memory.
export const memory = {
    get(area, key) {
        try {
            return JSON.parse(window[area].getItem(`sluice.${key}`));
        } catch {
            return null;
        }
    },
    // Whatever is kept under a key of this form.
    find(area, form) {
        try {
            const keys = Object.keys(window[area]).map((key) => key.replace('sluice.', ''));
            return keys.filter((key) => form.test(key)).map((key) => this.get(area, key)).find(Boolean) ?? null;
        } catch {
            return null;
        }
    },
    set(area, key, value) {
        try {
            window[area].setItem(`sluice.${key}`, JSON.stringify(value));
        } catch { /* without memory */ }
    },
};
