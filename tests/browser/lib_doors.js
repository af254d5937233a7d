/* A real MariaDB behind a door of weir, and clients that connect to it. */
import {spawn} from 'node:child_process';

import {once} from './lib.js';
import {startChild} from './lib_child.js';

/* call() runs a method of lib_databases.py's Maria, one at a time. */
async function startMaria(t)
{
        const {ready, ask} = await startChild(t, 'lib_maria.py');
        return {port: ready.port, call: (name, ...args) => ask({call: name, args})};
}

async function shop(t)
{
        const maria = await startMaria(t);
        await maria.call('ask', 'CREATE DATABASE shop', 'CREATE TABLE shop.orders (id INT)',
                'INSERT INTO shop.orders VALUES (1), (2), (3)',
                ...['app', 'etl'].flatMap((u) => [`CREATE USER ${u}@'127.0.0.1'`,
                                                  `GRANT ALL ON *.* TO ${u}@'127.0.0.1'`]));
        return maria;
}

const commonShop = once(shop);

function section(name, port, {mode, more = ''})
{
        return `mysql "${name}" {
        listen = {"127.0.0.1:0"}
        server = "127.0.0.1:${port}"
        target = "shop"
        mode = "${mode}"
        wait = "30s"
        ${more}
}
`;
}

/* A MariaDB with a database "shop" and the users app and etl, and a weir with doors to it.
 * classes: sections of the file; doors: names, the first is where sql() connects; isOwn: a MariaDB
 * of this test alone, which it may stop and change. */
export async function guarded(
        t, {mode = 'enforce', classes = '', doors = ['shop'], isOwn = false} = {})
{
        const maria = await (isOwn ? shop(t) : commonShop());
        const more = doors.map((name) => section(name, maria.port, {mode})).join('') + classes;
        const server = await t.server({target: true, more});
        return {maria, server, port: Number(server.mysql.split(',')[0].split(':').pop())};
}

/* The statements in one session of the mariadb client.  Gives {code, out, error} when it ends. */
export function sql(t, port, user, ...statements)
{
        const child = spawn('mariadb',
                [
                        '--no-defaults', '--comments', '--batch', '--skip-column-names', '-h',
                        '127.0.0.1', '-P', String(port), '-u', user, '-e', statements.join('; ')
                ],
                {stdio: ['ignore', 'pipe', 'pipe']});
        const told = {out: '', error: ''};
        child.stdout.on('data', (bytes) => { told.out += bytes; });
        child.stderr.on('data', (bytes) => { told.error += bytes; });
        t.later(() => child.kill());
        return new Promise((resolve) => { child.on('close', (code) => resolve({code, ...told})); });
}
