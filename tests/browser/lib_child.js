/* A Python program of this folder that runs beside a test and talks in lines of JSON: it prints one
 * when it is ready, and one for each line that it is told.  It ends with the test. */
import {spawn} from 'node:child_process';
import path from 'node:path';
import readline from 'node:readline';

import {HERE} from './lib.js';

/* {ready, ask}: its first line, and ask(value), one at a time, which gives the answer. */
export async function startChild(t, script)
{
        const child = spawn('/usr/bin/python3', [path.join(HERE, script)], {
                stdio: ['pipe', 'pipe', 'inherit'],
                env: {...process.env, TMPDIR: t.folder()},
        });
        const ended = new Promise((resolve) => { child.on('exit', resolve); });
        const lines = readline.createInterface({input: child.stdout})[Symbol.asyncIterator]();
        t.later(() => {
                child.stdin.end();
                return ended;
        });
        const read = async () => {
                const {value, done} = await lines.next();
                if (done)
                        throw new Error(`${script} ended`);
                return JSON.parse(value);
        };
        const ask = (value) => {
                child.stdin.write(`${JSON.stringify(value)}\n`);
                return read();
        };
        return {ready: await read(), ask};
}
