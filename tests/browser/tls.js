#!/usr/bin/env node
/* weir-test: timeout=180
 *
 * The page over TLS: a login with a role's token, and a certificate of the browser in its place. */
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import {equal, expect, run, says, test, WEIR} from './lib.js';

const SECRET = 'the-secret-of-look-0123456789';

/* A server that speaks TLS, and the folder of its certificates.  Chromium does not know their
 * authority: that a wrong one is refused is the business of tests/integration/tls.py. */
async function start(t)
{
        const folder = t.folder();
        const tls = path.join(folder, 'tls');
        execFileSync(WEIR, ['tls', 'self-signed', '--dir', tls]);
        const secret = path.join(folder, 'look');
        fs.writeFileSync(secret, `${SECRET}\n`, {mode: 0o600});
        const server = await t.server({
                settings: `http_tls = {"127.0.0.1:0"}
tls { cert = "${tls}/server.crt" key = "${tls}/server.key" ca = "${tls}/ca.crt" verify_client = "ask" }
token "look" { role = {"reader"} secret_file = "${secret}" }
token "box" { role = {"operator"} certificate = "weir-client" }
`,
        });
        return {server, tls, base: `https://${server.httpTls.replace('127.0.0.1', 'localhost')}/`};
}

test('over TLS a role\'s token opens the page, and the cookie is for TLS alone', async (t) => {
        const {server, base} = await start(t);
        const context = await t.context({ignoreHTTPSErrors: true});
        const page = await t.page(server, '#/queues', {context, base});
        page.watch.allow(/401 \(Unauthorized\)/);
        await page.getByLabel('Access token').fill(SECRET);
        await page.locator('.login button:not([aria-busy])').click();
        await page.getByRole('heading', {name: 'Queues', level: 1}).waitFor();
        await says(page, '#link', /live/);
        const [cookie] = await context.cookies();
        expect(cookie.secure && cookie.httpOnly, 'the flags of the cookie');
        await page.to('#/jobs');
        await page.getByRole('heading', {name: 'Jobs', level: 1}).waitFor();
        equal(await page.getByRole('button', {name: 'Add a job'}).count(), 0, 'what a reader may not');
});

test('a certificate of the browser stands for a token: no login is asked for', async (t) => {
        const {server, tls, base} = await start(t);
        const context = await t.context({
                ignoreHTTPSErrors: true,
                clientCertificates: [{
                        origin: base.slice(0, -1),
                        certPath: `${tls}/client.crt`,
                        keyPath: `${tls}/client.key`,
                }],
        });
        const page = await t.page(server, '#/jobs', {context, base});
        await page.getByRole('heading', {name: 'Jobs', level: 1}).waitFor();
        await page.getByRole('button', {name: 'Add a job'}).waitFor();
        await says(page, '#link', /live/);
});

run();
