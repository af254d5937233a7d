#!/usr/bin/env node
/* weir-test: timeout=240
 *
 * After a restart the page says what it knows: figures that began again say since when, charts have
 * a gap and no zeros, and what history can answer is there. */
import fs from 'node:fs';
import path from 'node:path';

import {equal, expect, run, says, shot, test, until} from './lib.js';

async function failOne(server)
{
        await server.add('mail', {attempts: 1});
        const {jobs} = await server.post('claims', {worker: 'w', queues: ['default']});
        await server.post(`jobs/${jobs[0].id}/fail`, {token: jobs[0].token, error: 'no'});
}

test('after a restart figures say since when, charts have a gap, and history tells what failed',
        async (t) => {
                const server = await t.server({target: true});
                await server.level('normal'); /* before it is measured, jobs of this tier wait */
                await failOne(server);
                await failOne(server);
                await server.post('check', {identity: 'nightly:etl'});
                equal(await server.stop(), 0, 'exit code');
                await server.again();
                await server.level('normal');

                const page = await t.page(server, '#/now');
                const tile = page.locator('.tile').filter({hasText: 'failed'}).first();
                await says(page, tile, /^2failed in an hour/);
                /* A point more than a minute old would be of before the start. */
                const chart = page.locator('figure, .panel').filter({hasText: 'Jobs per minute'});
                await says(page, chart, /Since \d\d:\d\d|no value yet/);
                const {jobs} = await server.get('series?seconds=3600&step=10');
                equal(jobs.failed.slice(0, 300).filter((v) => v !== null).length, 0, 'false zeros');
                await shot(page, 'restart-now');

                await page.to('#/clients');
                await says(page, '.screen', /Nobody has asked since weir started/);
                await server.post('check', {identity: 'nightly:etl'});
                await page.to('#/clients/nightly%3Aetl');
                await says(page, '.screen', /It was at no time mostly refused since/);
                await says(page, '.screen', /Counted since/);
                await until(async () => await page.locator('.heat-table td.u').count() > 0,
                        'minutes that are not known');
                expect(await page.locator('.heat-table td:not(.u)').count() < 120,
                        'minutes before the start look known');
                await shot(page, 'restart-client');

                await page.to('#/throttle');
                await says(page, '.screen', /Counted since/);
                await shot(page, 'restart-throttle');
        });

test('a notice says that history cannot be written, until it can', async (t) => {
        const server = await t.server();
        const history = path.join(server.folder, 'data', 'history.db');
        const page = await t.page(server, '#/now');
        const notice = page.locator('.note').filter({hasText: 'History cannot be written'});
        await says(page, '.tiles', /completed/);
        equal(await notice.count(), 0, 'notices of a history that is well');
        fs.renameSync(history, `${history}-away`);
        await server.add('mail');
        const {jobs: [job]} = await server.post('claims', {worker: 'w', queues: ['default']});
        await server.post(`jobs/${job.id}/complete`, {token: job.token});
        await says(page, notice,
                /^History cannot be written since .*: the history file .* 1 finished job waits for it/);
        await shot(page, 'history-failing');
        fs.renameSync(`${history}-away`, history);
        await until(async () => await notice.count() === 0, 'the notice is gone');
});

test('a job in a crowd says how many are ahead and promises no time', async (t) => {
        const server = await t.server();
        await server.post('limits/queue%3Amail', {amount: 1, period: 600000});
        for (let i = 0; i < 9; i++)
                await server.add('mail', {queue: 'mail'});
        await server.post('claims', {worker: 'w', queues: ['mail']});
        const page = await t.page(server, '#/job/9');
        await says(page, '.why', /no job starts for.*7 jobs are ahead of it/);
        await says(page, '.why', /cannot start before/);
        await shot(page, 'why-limit');
        await page.to('#/limits');
        await says(page, 'tr[data-key="queue:mail"], .screen', /used up.*8/);
        await shot(page, 'limits-waiting');
        await server.post('queues/mail/pause');
        await page.to('#/job/9');
        await says(page, '.why', /paused/);
        await shot(page, 'why-paused');
});

test('what was is told as past, and a target that is only observed is told apart', async (t) => {
        const server = await t.server({target: true, dwell: '1h'});
        server.load(25);
        await server.level('critical');
        const page = await t.page(server, '#/now');
        await says(page, '.level', /threads is 25, the threshold is 15\./);
        server.load(0);
        await says(page, '.level', /threads was 25 \(threshold 15\), is 0 now; the level falls in /);
        await shot(page, 'level-past');
        await says(page, '#state', /load critical/);
        await server.post('throttle', {action: 'mode', set: 'observe'});
        await says(page, '#state', /observed load critical/);
        expect(!/ load critical/.test((await page.locator('#state').textContent())
                .replace('observed load critical', '')), 'an observed level is no alarm');
        await says(page, '.level', /makes nothing wait/);
        await shot(page, 'level-observed');
        await page.to('#/throttle');
        await says(page, '.screen', /critical.*observed now/);
        await page.getByLabel('enforce', {exact: true}).first().check();
        await says(page, 'dialog', /As the load is now, these would wait: .*deferrable jobs/);
        await shot(page, 'level-consequences');
});

run();
