/*
 * The names behind ids: every sale and its items, asked for once and again only when an id is met that is not known.
 * A name that is not there yet is no trouble: the id stands alone.
 */

const SALES_MAX = 1000;
const AGAIN_MS = 10000;     // an id that stays unknown is not asked for at every message

export async function allSales(desk) {
    const rows = [];
    for (let after = ''; ;) {
        const page = await desk.call('GET', `/v1/admin/sales${after && `?after=${encodeURIComponent(after)}`}`);
        rows.push(...page.sales);
        if (!page.next || rows.length >= SALES_MAX) return rows;
        after = String(page.next);
    }
}

export function namesOf(desk) {
    const sales = new Map();
    const items = new Map();
    let asked = -Infinity;
    let asking = null;
    async function ask() {
        const rows = await allSales(desk).catch(() => []);      // whoever asks next says what is wrong
        for (const sale of rows) {
            sales.set(sale.id, sale.name);
            for (const item of sale.items) items.set(item.id, item.name);
        }
        asking = null;
    }
    function need(known, ids) {
        if (ids.every((id) => known.has(id))) return Promise.resolve();
        if (!asking && performance.now() - asked > AGAIN_MS) {
            asked = performance.now();
            asking = ask();
        }
        return asking ?? Promise.resolve();
    }
    return {
        need: (saleIds) => need(sales, saleIds),
        needItems: (itemIds) => need(items, itemIds),
        sale: (id) => sales.get(id),
        item: (id) => (items.has(id) ? `${id} · ${items.get(id)}` : String(id)),
    };
}
