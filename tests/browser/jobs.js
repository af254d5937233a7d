#!/usr/bin/env node
/* weir-test: timeout=240 long
 *
 * What a person does with jobs: adds one, watches it run, asks why another waits, and acts on one,
 * on some, on all that match. */
import {answer, equal, expect, run, says, shot, test, toast, undo, until} from './lib.js';

const row = (page, id) => page.locator(`.jobs tr[data-key="${id}"]`);
const statuses = async (server, ids) =>
        (await Promise.all(ids.map((id) => server.get(`jobs/${id}`)))).map((j) => j.status);

/* An entry of the menu of a job's row. */
async function choose(page, id, name)
{
        await row(page, id).getByRole('button', {name: `Actions for job ${id}`}).click();
        await page.getByRole('menuitem', {name, exact: true}).click();
}

async function chooseAll(page, name)
{
        await page.getByRole('button', {name: 'All that match'}).click();
        await page.getByRole('menuitem', {name}).click();
}

test('a newcomer adds a job on the first screen, starts a worker and sees the job run',
        async (t) => {
                const server = await t.server();
                const page = await t.page(server);
                page.watch.allow(/409 \(Conflict\).*\/why/); /* asked while the job ended */
                await page.getByRole('heading', {name: 'Start here'}).waitFor();
                await page.getByLabel('Hook: what to run').fill('greet');
                await page.getByLabel('Arguments, as JSON').fill('{"name": "Ada"}');
                await page.getByRole('button', {name: 'Add the job'}).click();
                await toast(page, 'Job 1 was added.');
                await says(page, '#start tbody', /no worker/);
                await page.getByText('weir work --queue default --exec cat').waitFor();
                await shot(page, 'newcomer-waits');
                t.worker(server, '--queue', 'default', '--exec', 'cat');
                await says(page, '#start tbody', /complete.*took/);
                await page.locator('#start tbody').getByRole('link', {name: '1'}).click();
                await page.getByRole('heading', {name: 'Job 1: greet'}).waitFor();
                await page.getByText('It completed').waitFor();
                await says(page, page.getByLabel('Text: result'), /"name": "Ada"/);
                await shot(page, 'newcomer-ran');
        });

test('a job that waits says why in a sentence: load, a paused queue, another job, its time',
        async (t) => {
                const server = await t.server({target: true});
                server.load(20);
                await server.level('critical');
                const id = await server.add('klaviyo_sync');
                t.worker(server, '--queue', 'default', '--exec', 'cat', '--slots', '2');
                const page = await t.page(server, `#/job/${id}`);
                await says(page, '.why', /level|shop|threads|gate/i);
                await shot(page, 'why-load');
                await server.post('queues/slow/pause');
                await page.to(`#/job/${await server.add('a', {queue: 'slow'})}`);
                await says(page, '.why', /paused/);
                await page.to(`#/job/${await server.add('b', {after: [id], tier: 'critical'})}`);
                await says(page, '.why', new RegExp(`job ${id}`, 'i'));
                await page.to(`#/job/${await server.add('c', {in : 3600000})}`);
                await says(page, '.why', /due|in \d/i);
                server.load(1);
                await server.status(id, 'complete');
        });

test('a job added over RESP appears in the list by itself, and its states follow', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/jobs');
        await page.getByText('No job yet.').waitFor();
        await page.getByText('weir job add send_mail').waitFor();
        await page.evaluate(() => { globalThis.isSamePage = true; });
        const client = await t.resp(server);
        const id = await client.ask('ENQUEUE', 'from_resp', '{"n":1}', 'QUEUE', 'live');
        await row(page, id).waitFor();
        await says(page, row(page, id), /pending/);
        t.worker(server, '--queue', 'live', '--exec', 'cat');
        await says(page, row(page, id), /complete/);
        await says(page, page.getByRole('link', {name: /^complete/}), /complete\s*1/);
        expect(await page.evaluate(() => globalThis.isSamePage), 'the page was loaded again');
});

test('one job is canceled and taken back, run now, retried, moved to a tier, deleted',
        async (t) => {
                const server = await t.server();
                const later = await server.add('later', {in : 3600000});
                const broken = await server.add('broken', {queue: 'q', attempts: 1});
                const worker = t.worker(server, '--queue', 'q', '--exec', 'false');
                await server.status(broken, 'failed');
                await worker.stop();
                const page = await t.page(server, '#/jobs');
                await choose(page, later, 'Cancel');
                await says(page, row(page, later), /canceled/);
                await undo(page, `Job ${later} was canceled.`);
                await says(page, row(page, later), /pending/);
                await choose(page, later, 'Change tier');
                await page.locator('dialog').getByRole('button', {name: /^critical/}).click();
                await until(
                        async () => (await server.get(`jobs/${later}`)).options.tier === 'critical',
                        'the tier');
                await undo(page, `Job ${later} is critical now.`);
                await until(async () => !(await server.get(`jobs/${later}`)).options.tier,
                        'the tier of its hook');
                await choose(page, later, 'Run now');
                await toast(page, `Job ${later} was due already. It waits: it is ready for`);
                await says(page, row(page, later), /waits/);
                await choose(page, broken, 'Retry');
                await says(page, row(page, broken), /pending/);
                await choose(page, broken, 'Cancel');
                await says(page, row(page, broken), /canceled/);
                await choose(page, broken, 'Delete');
                await answer(page, 'Delete the job');
                await row(page, broken).waitFor({state: 'detached'});
        });

test('a job that is complete is run again only when asked twice', async (t) => {
        const server = await t.server();
        const id = await server.add('once', {queue: 'q'});
        t.worker(server, '--queue', 'q', '--exec', 'cat');
        await server.status(id, 'complete');
        const page = await t.page(server, `#/job/${id}`);
        await page.getByRole('button', {name: 'Run again'}).click();
        await answer(page, 'Keep as it is');
        equal((await server.get(`jobs/${id}`)).attempt, 1, 'attempts');
        await page.getByRole('button', {name: 'Run again'}).click();
        await answer(page, 'Run it again');
        await until(async () => (await server.get(`jobs/${id}/events`))
                                        .events.filter((e) => e.event === 'completed')
                                        .length === 2,
                'a second end');
});

test('some jobs are marked and moved, run, canceled, retried and deleted together', async (t) => {
        const server = await t.server();
        const ids = [];
        for (let i = 0; i < 5; i++)
                ids.push(await server.add('many', {in : 3600000}));
        const marked = ids.slice(1, 4);
        const others = [ids[0], ids[4]];
        const page = await t.page(server, '#/jobs');
        const mark = async () => {
                for (const id of marked)
                        await row(page, id).getByRole('checkbox').check();
                await page.getByText('3 jobs selected').waitFor();
        };
        const bar = page.getByRole('region', {name: 'Selected jobs'});
        await mark();
        await shot(page, 'jobs-marked');
        await bar.getByRole('button', {name: 'Change tier'}).click();
        await page.locator('dialog').getByRole('button', {name: /^deferrable/}).click();
        await toast(page, '3 jobs have another tier.');
        equal((await server.get('jobs?tier=deferrable')).jobs.length, 3, 'deferrable jobs');
        await mark();
        await bar.getByRole('button', {name: 'Cancel'}).click();
        await answer(page, /Cancel: 3 jobs/);
        await toast(page, '3 jobs were canceled.');
        equal(await statuses(server, marked), Array(3).fill('canceled'), 'the marked');
        equal(await statuses(server, others), Array(2).fill('pending'), 'the others');
        await mark();
        await bar.getByRole('button', {name: 'Retry'}).click();
        await toast(page, '3 jobs run again.');
        equal(await statuses(server, marked), Array(3).fill('pending'), 'after retry');
        await mark();
        await bar.getByRole('button', {name: 'Delete finished'}).click();
        await toast(page, /There are none that have ended/);
});

test('all jobs that match a filter are treated, and no other', async (t) => {
        const server = await t.server();
        for (let i = 0; i < 60; i++)
                await server.add(i % 2 ? 'odd' : 'even', {in : 3600000});
        const page = await t.page(server, '#/jobs?hook=odd');
        const counts = () => server.get('jobs/counts');
        await row(page, 60).waitFor();
        await chooseAll(page, 'Run now');
        await answer(page, /Run now: 30 jobs/);
        await toast(page, '30 jobs may run now.');
        equal((await counts()).ready, 30, 'ready');
        await chooseAll(page, 'Cancel');
        await says(page, 'dialog', /30 are concerned/);
        await answer(page, 'Keep as it is');
        equal((await counts()).canceled, 0, 'canceled after no');
        await chooseAll(page, 'Cancel');
        await answer(page, /Cancel: 30 jobs/);
        await toast(page, '30 jobs were canceled.');
        equal((await counts()).canceled, 30, 'canceled');
        equal((await server.get('jobs?hook=even&status=pending&limit=100')).jobs.length, 30,
                'even');
        await chooseAll(page, 'Retry');
        await answer(page, /Retry: 30 jobs/);
        await toast(page, '30 jobs run again.');
        await chooseAll(page, 'Change tier');
        await page.locator('dialog').getByRole('button', {name: /^high/}).click();
        await answer(page, /Change tier: 30 jobs/);
        await toast(page, '30 jobs have another tier.');
        equal((await server.get('jobs?tier=high&limit=100')).jobs.length, 30, 'high jobs');
        await chooseAll(page, 'Cancel');
        await answer(page, /Cancel: 30 jobs/);
        await until(async () => (await counts()).pending === 30, 'all canceled again');
        /* Only jobs that are in history can be deleted, and the question counts those. */
        const metrics = async () => (await fetch(`${server.url}/metrics`)).text();
        await until(async () => /^weir_jobs_finished 0$/m.test(await metrics()), 'all are in history');
        await chooseAll(page, 'Delete finished');
        await answer(page, /Delete finished: 30 jobs/);
        await toast(page, '30 jobs were deleted.');
        await page.getByText('No job matches the filter.').waitFor();
        equal((await server.get('jobs?limit=100')).jobs.length, 30, 'jobs left');
});

test('what changes nothing says what it found, and why nothing had to be done', async (t) => {
        const server = await t.server();
        const ready = [await server.add('ready'), await server.add('ready')];
        const later = await server.add('later', {in : 3600000});
        const ended = await server.add('ended', {in : 3600000});
        await server.ask('DELETE', `jobs/${ended}`);
        const page = await t.page(server, '#/jobs');
        const bar = page.getByRole('region', {name: 'Selected jobs'});
        const mark = async (...ids) => {
                for (const id of ids)
                        await row(page, id).getByRole('checkbox').check();
        };
        const press = (name) => bar.getByRole('button', {name, exact: true}).click();
        const tier = async (name) => {
                await press('Change tier');
                await page.locator('dialog').getByRole('button', {name}).click();
        };
        await mark(...ready);
        await press('Run now');
        await toast(page,
                'Nothing to do: both jobs were due already. Open one to see what it waits for.');
        await mark(...ready, later, ended);
        await press('Run now');
        await toast(page, '1 job may run now. 2 others were due already, 1 does not wait.');
        await mark(later, ended);
        await tier(/^high/);
        await toast(page, '1 job has another tier. 1 other has ended.');
        await mark(later, ended);
        await tier(/^high/);
        await toast(page, 'Nothing to do: 1 job had that tier already, 1 has ended.');
        await mark(ready[0], ended);
        await press('Retry');
        await toast(page, '1 job runs again. 1 other neither failed nor was canceled.');
        await mark(ready[0]);
        await press('Retry');
        await toast(page, 'Nothing to do: the job neither failed nor was canceled.');
        await chooseAll(page, 'Run now');
        await says(page, 'dialog', /Those that are due already stay as they are/);
        await answer(page, /Run now: 4 jobs/);
        await toast(page, 'Nothing to do: all 4 jobs were due already.');
        const gone = await server.add('gone', {in : 3600000});
        await server.ask('DELETE', `jobs/${gone}`);
        await says(page, row(page, gone), /canceled/);
        await until(async () => (await server.post('jobs/delete', {ids: [gone]})).changed === 1,
                'its end in history');
        await choose(page, gone, 'Delete');
        await answer(page, 'Delete the job');
        await toast(page, `Job ${gone} is not in history any more.`);
        const another = await server.add('another', {in : 3600000});
        await choose(page, another, 'Run now');
        await toast(page, `Job ${another} may run now. It waits: it is ready for`);
        await choose(page, another, 'Run now');
        await toast(page, `Job ${another} was due already. It waits: it is ready for`);
        await choose(page, later, 'Change tier');
        await page.locator('dialog').getByRole('button', {name: /^high/}).click();
        await toast(page, `Job ${later} is high already.`);
});

test('filters are in the address, Back returns to them, and pages go there and back', async (t) => {
        const server = await t.server();
        for (let i = 0; i < 55; i++)
                await server.add(
                        'a', {in : 3600000, args: {n: i, word: i === 7 ? 'needle' : 'hay'}});
        await server.add('b', {in : 3600000, queue: 'other'});
        const page = await t.page(server, '#/jobs');
        await row(page, 56).waitFor();
        equal(await page.locator('.jobs tbody tr').count(), 50, 'rows of a page');
        await page.getByRole('button', {name: 'Older →'}).click();
        await row(page, 1).waitFor();
        equal(await page.locator('.jobs tbody tr').count(), 6, 'rows of the last page');
        await page.getByRole('button', {name: '← Newer'}).click();
        await row(page, 56).waitFor();
        await page.getByRole('searchbox', {name: 'Text'}).fill('needle');
        await row(page, 8).waitFor();
        await until(async () => await page.locator('.jobs tbody tr').count() === 1, 'one row');
        expect(page.url().includes('match=needle'), `the address is ${page.url()}`);
        await row(page, 8).getByRole('link', {name: '8', exact: true}).click();
        await page.getByRole('heading', {name: 'Job 8: a'}).waitFor();
        await page.goBack();
        await row(page, 8).waitFor();
        equal(await page.getByRole('searchbox', {name: 'Text'}).inputValue(), 'needle', 'the text');
        await page.getByRole('button', {name: 'Clear filters'}).click();
        await row(page, 56).waitFor();
        await page.getByLabel('Order').selectOption('oldest');
        await row(page, 1).waitFor();
});

test('numbers with many digits and text in all scripts come back as they were given', async (t) => {
        const server = await t.server();
        const page = await t.page(server, '#/jobs');
        const args = '{"n": 12345678901234567890, "m": 1.10, "t": "Grüße 你好 🙂"}';
        await page.getByRole('button', {name: 'Add a job'}).click();
        await page.getByLabel('Hook: what to run').fill('exact');
        await page.getByLabel('Arguments, as JSON').fill(args);
        await page.getByRole('button', {name: 'Add the job'}).click();
        await row(page, 1).getByRole('link', {name: '1', exact: true}).click();
        const box = page.getByLabel('Text: arguments');
        await says(page, box, /12345678901234567890/);
        await says(page, box, /1\.10/);
        await says(page, box, /Grüße 你好 🙂/);
        await page.to('#/jobs');
        await page.getByRole('button', {name: 'Add a job'}).click();
        await page.getByLabel('Hook: what to run').fill('wrong');
        await page.getByLabel('Arguments, as JSON').fill('{"n": ');
        await page.getByRole('button', {name: 'Add the job'}).click();
        await says(page, 'dialog .error', /not JSON/);
});

run();
