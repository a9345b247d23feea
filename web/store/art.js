/*
 * What stands for a picture: the item's own where there is one and it loads; else its first letter on a quiet ground
 * of one of six tints. Nothing moves when a picture fails: the ground is there already.
 */

import { el, safeUrl } from '/assets/tools.js';

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
