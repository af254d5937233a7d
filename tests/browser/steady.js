#!/usr/bin/env node
/* weir-test: timeout=180
 *
 * Nothing on the page jumps or flashes: what is shown stays until the next answer is there, and
 * when none comes. */
import {equal, expect, hold, isCalm, run, says, stopClock, test, toast, until} from './lib.js';

const rows = (page) => page.locator('.jobs tbody tr');

/* What can be seen of buttons that have nothing to say. */
const blank = (page) => page.evaluate(
        () => [...document.querySelectorAll('main button, main a')]
                      .filter((el) => el.checkVisibility() && !el.innerText.trim() && !el.ariaLabel)
                      .map((el) => el.outerHTML));

test('another page of jobs is asked for: the rows stay where they are and are marked busy',
        async (t) => {
                const server = await t.server();
                for (let i = 0; i < 55; i++)
                        await server.add('a', {in : 3600000});
                const page = await t.page(server, '#/jobs');
                await rows(page).nth(49).waitFor();
                const table = page.locator('.table.jobs');
                const place = () =>
                        table.evaluate((el) => el.getBoundingClientRect().top + scrollY);
                const top = await place();
                const held = await hold(page, /\/v1\/jobs\?/);
                await page.getByRole('button', {name: 'Older →'}).click();
                await held.asked();
                equal(await rows(page).count(), 50, 'rows meanwhile');
                equal(await table.getAttribute('aria-busy'), 'true', 'busy');
                equal(await place(), top, 'place of the table');
                await held.free();
                await until(async () => await rows(page).count() === 5, 'the rest');
                equal(await place(), top, 'place of the table afterwards');
                expect(await rows(page).first().evaluate(
                               (el) => el.getBoundingClientRect().top >= 0),
                        'the first row of the page is not seen');
                equal(await table.getAttribute('aria-busy'), null, 'busy afterwards');
        });

test('a live update is asked for: the rows stay until it is there', async (t) => {
        const server = await t.server();
        await server.add('a', {in : 3600000});
        const page = await t.page(server, '#/jobs');
        await rows(page).first().waitFor();
        const held = await hold(page, /\/v1\/jobs\?/);
        await server.add('b', {in : 3600000});
        await held.asked();
        equal(await rows(page).count(), 1, 'rows meanwhile');
        await held.free();
        await rows(page).nth(1).waitFor();
});

test('marks end with what was done to the jobs; those set while the rows are on their way stay',
        async (t) => {
                const server = await t.server();
                for (let i = 0; i < 3; i++)
                        await server.add('a', {in : 3600000});
                const page = await t.page(server, '#/jobs');
                const box = (i) => rows(page).nth(i).getByRole('checkbox');
                const marks = () => Promise.all([0, 1, 2].map((i) => box(i).isChecked()));
                const bar = page.getByRole('region', {name: 'Selected jobs'});
                await box(0).check();
                await box(1).check();
                const held = await hold(page, /\/v1\/jobs\?/);
                await bar.getByRole('button', {name: 'Run now'}).click();
                await toast(page, '2 jobs may run now.');
                await held.asked();
                equal(await marks(), [false, false, false], 'marks');
                expect(!await bar.isVisible(), 'the bar still offers what to do');
                await box(1).check();
                await held.free();
                await until(async () => /waits/.test(await rows(page).nth(1).innerText()),
                        'the rows as they are now');
                equal(await marks(), [false, true, false], 'marks afterwards');
                await bar.getByText('1 job selected').waitFor();
        });

test('a screen that loads shows no half of itself: no bare table, no pager, no empty message',
        async (t) => {
                const server = await t.server();
                for (let i = 0; i < 55; i++)
                        await server.add('a', {in : 3600000});
                const page = await t.page(server, '#/settings');
                for (const name of ['jobs', 'queues', 'locks']) {
                        const held = await hold(page, new RegExp(`/v1/${name}`));
                        await page.evaluate((to) => { location.hash = to; }, `#/${name}`);
                        await held.asked();
                        await page.locator(`#nav a[href="#/${name}"][aria-current]`).waitFor();
                        await page.getByText('Loading.').waitFor();
                        equal(await blank(page), [], `buttons without words in ${name}`);
                        equal(await page.locator('.pager:visible').count(), 0, 'pagers');
                        equal(await page.locator('main thead:visible').count(), 0, 'bare tables');
                        equal(await page.locator('.empty:visible').count(), 0, 'empty messages');
                        await held.free();
                        await page.getByText('Loading.').waitFor({state: 'detached'});
                }
        });

test('a screen that is left stays until the next one has something to show', async (t) => {
        const server = await t.server();
        await server.add('a', {queue: 'mail', in : 3600000});
        const page = await t.page(server, '#/queues');
        await says(page, 'main tbody', /mail/);
        await stopClock(page);
        const held = await hold(page, /\/v1\/locks/);
        await page.locator('#nav').getByRole('link', {name: 'Locks'}).click();
        await held.asked();
        expect(/mail/.test(await page.locator('main').innerText()), 'the old screen is gone');
        await page.clock.runFor(1000);
        await page.getByRole('heading', {name: 'Locks', level: 1}).waitFor();
        expect(!/mail/.test(await page.locator('main').innerText()), 'the old screen stays');
        await held.free();
        await page.getByText('No lock is held.').waitFor();
});

test('an answer that does not come leaves what was shown, and says so until one comes',
        async (t) => {
                const server = await t.server();
                await server.add('a', {queue: 'mail', in : 3600000});
                for (const [name, where] of [
                             ['jobs', /\/v1\/jobs\?/], ['queues', /\/v1\/queues$/]]) {
                        const page = await t.page(server, `#/${name}`);
                        page.watch.allow(/ERR_FAILED/);
                        await isCalm(page);
                        const before = await page.locator('main tbody').allInnerTexts();
                        const held = await hold(page, where);
                        await server.add('b', {queue: 'mail', in : 3600000});
                        await held.asked();
                        await held.cut();
                        await page.locator('main .missing').waitFor();
                        equal(await page.locator('main tbody').count(), before.length, 'tables');
                        expect(await page.locator('main .table').first().isVisible(),
                                'it is hidden');
                        await held.free();
                        await page.locator('main .missing').waitFor({state: 'detached'});
                        await page.close();
                }
        });

test('what is drawn every second keeps the focus', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/now');
        const tiles = page.locator('.tiles');
        await tiles.getByRole('link').nth(1).focus();
        for (const n of [1, 2, 3]) {
                await server.add('x');
                await says(page, tiles, new RegExp(`${n}\\s*ready`));
                const at = await page.evaluate(() => document.activeElement.innerText);
                expect(new RegExp(`^${n}\\s*ready`).test(at), `the focus is at "${at}"`);
        }
        const help = page.getByRole('link', {name: 'How to measure a database'});
        await help.focus();
        await help.evaluate((el) => { el.isOld = true; });
        await until(() => help.evaluate((el) => !el.isOld), 'the level drawn again');
        expect(await help.evaluate((el) => el === document.activeElement), 'the focus is lost');
});

run();
