/* One browser for many scripts: starts it, prints `ready ADDRESS` for WEIR_CHROMIUM (lib.js), and
 * ends with it on SIGTERM or at the end of its standard input.  tools/test runs it. */
import {chromium} from 'playwright-core';

import {LAUNCH} from './lib.js';

const server = await chromium.launchServer({
        ...LAUNCH,
        host: '127.0.0.1',
        handleSIGHUP: false,
        handleSIGINT: false,
        handleSIGTERM: false,
});
let isEnding = false;

async function end(code)
{
        if (isEnding)
                return;
        isEnding = true;
        await server.close();
        process.exit(code);
}

process.on('SIGTERM', () => end(0));
process.stdin.on('end', () => end(0));
process.stdin.on('error', () => end(0));
process.stdin.resume();
server.on('close', () => end(1)); /* it ended by itself */
process.stdout.write(`ready ${server.wsEndpoint()}\n`);
