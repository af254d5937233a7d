#!/usr/bin/env node
/* weir-test: timeout=240 long
 *
 * Every screen of the page against a weir with something of everything in it: no error in the
 * console, nothing against the policy, no serious finding of axe-core in light and in dark; what it
 * weighs and when it first paints.  With SHOTS=1, screenshots are left in build/browser. */
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';

import {equal, expect, findingsOfBoth, isCalm, isForPeople, ROOT, run, shot, test} from './lib.js';
import {stubAudit} from './lib_audit.js';
import {plain, populate, screens} from './lib_world.js';

const WEIGHT = 150000; /* bytes of the page, gzipped */

test('every screen is shown without an error and without a serious finding, in light and dark',
        async (t) => {
                const server = await t.server({target: true});
                const ids = await populate(server);
                const page = await t.page(server);
                const bad = [];
                for (const [name, hash] of Object.entries(screens(ids, plain))) {
                        await page.to(hash);
                        await isCalm(page);
                        equal(await page.locator('.missing').allTextContents(), [],
                                `parts of ${name}`);
                        await isForPeople(page, name);
                        bad.push(...await findingsOfBoth(page, name));
                }
                for (const line of bad)
                        console.log(`# ${line}`);
                equal(bad.length, 0, 'the number of serious findings');
        });

/* Screens that are wider than the window, as "job 2816"; screenshots are called name-as. */
async function wide(t, server, width, world, as)
{
        const page = await t.page(server, '', {viewport: {width, height: 740}});
        const out = [];
        for (const [name, hash] of Object.entries(world)) {
                await page.to(hash);
                await isCalm(page);
                await shot(page, `${name}-${as}`);
                const is = await page.evaluate(() => document.scrollingElement.scrollWidth);
                if (is > width)
                        out.push(`${name} ${is}`);
        }
        return {page, out};
}

/* As long as each may be, without a place where it would be broken by itself. */
function long(kind)
{
        const most = {reason: 200, author: 64, identity: 64}[kind] || 240;
        return plain(kind).replace(/\W/g, '_').padEnd(most, 'x');
}

test('on a narrow screen nothing is wider than the screen, and the menu opens every screen',
        async (t) => {
                const server = await t.server({target: true});
                const ids = await populate(server);
                const {page, out} = await wide(t, server, 360, screens(ids, plain), 'narrow');
                equal(out, [], 'screens wider than 360 px');
                await page.getByRole('button', {name: 'Menu'}).click();
                await page.locator('#nav').getByRole('link', {name: 'Breakers'}).click();
                await page.getByRole('heading', {name: 'Breakers', level: 1}).waitFor();
                equal(await page.getByRole('button', {name: 'Menu'}).getAttribute('aria-expanded'),
                        'false', 'the menu afterwards');
        });

test('however long the names are, no screen is wider than the window', async (t) => {
        const server = await t.server({target: true});
        const world = screens(await populate(server, long), long);
        for (const width of [1280, 360]) {
                const {out} = await wide(t, server, width, world, `long-${width}`);
                equal(out, [], `screens wider than ${width} px`);
        }
});

test('a name of an ordinary length stands on one line', async (t) => {
        const server = await t.server({target: true});
        await populate(server);
        const page = await t.page(server);
        for (const hash of ['#/now', '#/jobs', '#/schedules']) {
                await page.to(hash);
                await isCalm(page);
                const lines = await page.locator('main td.mono.wrap')
                                      .evaluateAll((all) => all.map((el) => {
                                              const range = document.createRange();
                                              range.selectNodeContents(el);
                                              const tops = [...range.getClientRects()].map(
                                                      (r) => Math.round(r.top / 8));
                                              return [el.textContent, new Set(tops).size];
                                      }));
                expect(lines.length > 0, `no names on ${hash}`);
                equal(lines.filter(([, n]) => n > 1), [], `broken names on ${hash}`);
        }
});

test('every screen of an empty weir says what to do, without an error', async (t) => {
        const server = await t.server();
        const page = await t.page(server);
        for (const name of ['now', 'jobs', 'queues', 'schedules', 'workers', 'batches', 'throttle',
                     'clients', 'sql', 'locks', 'limits', 'breakers', 'sites', 'settings',
                     'tokens']) {
                await page.to(`#/${name}`);
                await isCalm(page);
                equal(await page.locator('.missing').allTextContents(), [], `parts of ${name}`);
                await isForPeople(page, name);
                await shot(page, `empty-${name}`);
        }
        await page.to('#/nowhere');
        await page.getByText('There is no screen "nowhere"').waitFor();
});

test('the page weighs less than 150 kB, is sent gzipped, and comes from weir alone', async (t) => {
        const server = await t.server();
        const context = await t.context();
        const asked = [];
        context.on('response', (r) => asked.push(r));
        await stubAudit(context);
        const page = await t.page(server, '', {context});
        for (const name of ['jobs', 'queues', 'schedules', 'workers', 'batches', 'throttle',
                     'clients', 'sql', 'locks', 'limits', 'breakers', 'sites', 'settings', 'tokens',
                     'audit', 'job/1'])
                await page.to(`#/${name}`);
        page.watch.allow(/404.*jobs\/1/);
        const foreign = asked.filter((r) => !r.url().startsWith(server.url));
        equal(foreign.map((r) => r.url()), [], 'addresses elsewhere');
        const files = new Map();
        for (const r of asked.filter((x) => !x.url().includes('/v1/') && x.status() === 200)) {
                equal(r.headers()['content-encoding'], 'gzip', `encoding of ${r.url()}`);
                files.set(r.url(), zlib.gzipSync(await r.body(), {level: 9}).length);
        }
        const all = fs.readdirSync(path.join(ROOT, 'src', 'ui'))
                            .filter((f) => /\.(js|css|html|svg)$/.test(f));
        equal(files.size, all.length, `files of the page that were asked for`);
        const sum = [...files.values()].reduce((a, b) => a + b, 0);
        console.log(`# the page: ${files.size} files, ${sum} bytes gzipped`);
        expect(sum < WEIGHT, `the page weighs ${sum} bytes`);
});

test('the browser tells when it first painted', async (t) => {
        const server = await t.server({target: true});
        const page = await t.page(server);
        await isCalm(page);
        for (const turn of ['first', 'second']) {
                const paints =
                        await page.evaluate(() => performance.getEntriesByType('paint').map(
                                                    (p) => [p.name, Math.round(p.startTime)]));
                expect(paints.some(([name]) => name === 'first-contentful-paint'),
                        'it painted nothing');
                const said = paints.map(([name, ms]) => `${name} ${ms} ms`).join(', ');
                console.log(`# ${turn} visit: ${said}`);
                await page.reload();
                await isCalm(page);
        }
});

run();
