/*
 * A reporter of node:test: one line of JSON for each test of a file, with how it ended and its wall and CPU seconds
 * (the browser's and the server's, too). Tests of a file run one after the other, so what was used between two ends
 * is the later one's. test/suite/parts.py reads it.
 */

import { readFileSync, readdirSync } from 'node:fs';

const TICK = 100;   // of /proc/PID/stat, on every Linux

function treeCpuSeconds(pid) {
    try {
        const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop().split(' ');
        let sum = [11, 12, 13, 14].reduce((total, at) => total + Number(fields[at]), 0) / TICK;
        for (const task of readdirSync(`/proc/${pid}/task`)) {
            const children = readFileSync(`/proc/${pid}/task/${task}/children`, 'latin1').split(' ').filter(Boolean);
            for (const child of children) sum += treeCpuSeconds(child);
        }
        return sum;
    } catch {
        return 0;   // it ended meanwhile
    }
}

const statusOf = (type, data) => {
    if (data.skip !== undefined || data.todo !== undefined) return 'skipped';
    return type === 'test:pass' ? 'passed' : 'failed';
};

export default async function* results(source) {
    let used = 0;
    for await (const { type, data } of source) {
        const counts = (type === 'test:pass' || type === 'test:fail') && data.nesting === 0;
        if (!counts) continue;
        const now = treeCpuSeconds('self');
        const error = data.details?.error;
        const why = error ? String(error.cause?.stack ?? error.cause ?? error.message) : String(data.skip ?? '');
        yield `${JSON.stringify({ name: data.name, status: statusOf(type, data), wall_s: data.details.duration_ms / 1000,
            cpu_s: Math.max(now - used, 0), why })}\n`;
        used = now;
    }
}
