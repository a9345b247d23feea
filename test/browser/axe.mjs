/* What axe-core finds on a page, by all of its rules. */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// [{ id, impact, html: [a piece of the page for each place] }]. What passed is not told, which is most of a result.
export async function violations(page) {
    if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe);
    return page.evaluate(async () => {
        const found = await globalThis.axe.run({ resultTypes: ['violations'] });
        return found.violations.map(({ id, impact, nodes }) => ({ id, impact, html: nodes.map((node) => node.html) }));
    });
}
