#!/usr/bin/env node
/* weir-test: timeout=240 outer=part
 *
 * Arguments are bytes: who saves a form without touching them changes none of them, and who types
 * some sees whether they will be JSON or text.  What is stored is read over RESP, which tells the
 * bytes alone. */
import {equal, run, says, test, toast, undo} from './lib.js';

/* Plain text, JSON, and JSON that a program would write in another way. */
const PAYLOADS = [
        'hello',
        '"hello"',
        '',
        '""',
        'null',
        '{"a":1}',
        '{ "a":1 }',
        '{"a":1}\n',
        '{"a":1,"a":2}',
        '{a}',
        '1e2',
        '-0',
        '1.10',
        '12345678901234567890',
        '{"t":"Gr\\u00fc\\u00dfe \\/","e":[],"o":{}}',
        'Grüße 你好 🙂',
        ' two\r\nlines\n\n',
        '\n{',
        'a\0b',
];

async function argsOf(resp, id)
{
        const job = await resp.ask('JOB', id);
        return job[job.indexOf('args') + 1];
}

const dialogOf = (page) => page.locator('dialog[open]');

async function openLike(page, id)
{
        const where = `#/job/${id}`;
        if (!page.url().endsWith(where)) /* a job that was just added is shown already */
                await page.to(where);
        await page.getByRole('button', {name: 'Add one like it'}).click();
        return dialogOf(page);
}

/* Gives the id that the new job has. */
async function addJob(page)
{
        await dialogOf(page).getByRole('button', {name: 'Add the job'}).click();
        await dialogOf(page).waitFor({state: 'detached'});
        const said = await (await toast(page, /Job \d+ was added/)).textContent();
        return Number(/\d+/.exec(said)[0]);
}

test('a job like another has the same bytes as arguments when nobody touched them', async (t) => {
        const server = await t.server();
        const resp = await t.resp(server);
        const page = await t.page(server, '#/jobs');
        for (const args of PAYLOADS) {
                const id = await resp.ask('ENQUEUE', 'h', args, 'IN', 3600000);
                equal(await argsOf(resp, id), args, 'the arguments before');
                await openLike(page, id);
                equal(await argsOf(resp, await addJob(page)), args, 'the arguments after');
        }
        const bytes = await server.add('h', {args: undefined, args_base64: '/wAB', in : 3600000});
        await openLike(page, bytes);
        const like = await server.get(`jobs/${await addJob(page)}`);
        equal(like.args_base64, '/wAB', 'bytes that are no text');
});

/* Of each kind one: the outer ring takes all of them. */
const KINDS = ['hello', '"hello"', '', '{ "a":1 }', '{"a":1,"a":2}', '1.10',
        ' two\r\nlines\n\n', 'a\0b'];
const KEEPS = 'a schedule that is changed, put back or taken back from deletion keeps its bytes';

test(KEEPS, (t) => keepsBytes(t, KINDS));
test(`${KEEPS}, whatever they are`, (t) => keepsBytes(t, PAYLOADS), {outer: true});

async function keepsBytes(t, payloads)
{
        const server = await t.server();
        const resp = await t.resp(server);
        const page = await t.page(server, '#/schedules');
        const check = async (name, args, when) => {
                const {id} = await server.post(`schedules/${name}/run`);
                equal(await argsOf(resp, id), args, `the arguments ${when}`);
        };
        const deleted = async (name) => {
                await page.getByRole('button', {name: `Delete schedule ${name}`}).click();
                await dialogOf(page).getByRole('button', {name: 'Delete it'}).click();
        };
        for (const [i, args] of payloads.entries()) {
                const name = `s${i}`;
                await resp.ask(
                        'SCHEDULE', name, 'h', args, 'EVERY', 3600000, 'OVERLAP', 'allow');
                await check(name, args, 'before');
                await page.to(`#/schedules/${name}`);
                await page.getByRole('button', {name: `Change schedule ${name}`}).click();
                await dialogOf(page).getByLabel('Priority').fill('7');
                await dialogOf(page).getByRole('button', {name: 'Change it'}).click();
                await toast(page, `Schedule ${name} was changed.`);
                equal((await server.get(`schedules/${name}`)).priority, 7, 'its priority');
                await check(name, args, 'after a change');
                await undo(page, `Schedule ${name} was changed.`);
                await says(page, page.locator('.facts'), /Priority\s*100/);
                await check(name, args, 'after undo');
                await deleted(name);
                await undo(page, `Schedule ${name} was deleted.`);
                await page.locator('tbody tr').filter({hasText: name}).waitFor();
                await check(name, args, 'after a deletion that was taken back');
                await server.ask('DELETE', `schedules/${name}`);
        }
}

test('the form says whether arguments are JSON or plain text, and keeps what is typed as that',
        async (t) => {
                const server = await t.server();
                const resp = await t.resp(server);
                const page = await t.page(server, '#/jobs');
                const id = await resp.ask('ENQUEUE', 'h', 'hello', 'IN', 3600000);
                let dialog = await openLike(page, id);
                await dialog.getByLabel('Arguments, as plain text').fill('bye, "Ada"\n');
                equal(await argsOf(resp, await addJob(page)), 'bye, "Ada"\n', 'text');

                dialog = await openLike(page, id);
                await dialog.getByLabel('Kind of arguments').selectOption('JSON');
                equal(await dialog.getByLabel('Arguments, as JSON').inputValue(), 'hello', 'field');
                await dialog.getByRole('button', {name: 'Add the job'}).click();
                await says(page, 'dialog .error', /not JSON/);
                await dialog.getByLabel('Arguments, as JSON').fill('"hello"');
                equal(await argsOf(resp, await addJob(page)), '"hello"', 'a JSON string');

                dialog = await openLike(page, id);
                await dialog.getByLabel('Kind of arguments').selectOption('JSON');
                await dialog.getByLabel('Arguments, as JSON')
                        .fill(' { "a b": 1.10,\n "a b": [ ] } ');
                const json = await addJob(page);
                equal(await argsOf(resp, json), '{"a b":1.10,"a b":[]}', 'JSON');

                dialog = await openLike(page, json);
                const field = dialog.getByLabel('Arguments, as JSON');
                const shown = '{\n  "a b": 1.10,\n  "a b": []\n}';
                equal(await field.inputValue(), shown, 'as it is shown');
                await field.fill(shown.replace('1.10', '1e2'));
                equal(await argsOf(resp, await addJob(page)), '{"a b":1e2,"a b":[]}', 'changed');

                dialog = await openLike(page, json);
                await dialog.getByLabel('Arguments, as JSON').fill('');
                equal(await argsOf(resp, await addJob(page)), '', 'none');
        });

test('a job shows text as text, a JSON string with its quotes, and bytes in base64', async (t) => {
        const server = await t.server();
        const resp = await t.resp(server);
        const page = await t.page(server, '#/jobs');
        const box = page.getByLabel('Text: arguments');
        for (const [args, shown] of [['hello', 'hello'], ['"hello"', '"hello"'], ['null', 'null'],
                     ['{"a":1e2}', '{\n  "a": 1e2\n}']]) {
                const id = await resp.ask('ENQUEUE', 'h', args, 'IN', 3600000);
                await page.to(`#/job/${id}`);
                await box.waitFor();
                equal(await box.textContent(), shown, 'shown');
                await resp.ask('SCHEDULE', `s${id}`, 'h', args, 'EVERY', 3600000);
                await page.to(`#/schedules/s${id}`);
                await box.waitFor();
                equal(await box.textContent(), shown, 'shown of a schedule');
        }
        await server.post('schedules/raw', {hook: 'h', args_base64: '/wAB', every: 3600000});
        await page.to('#/schedules/raw');
        await says(page, box, /^\/wAB\s+\(base64/);
        await page.to('#/jobs');
        for (const text of ['hello', '"hello"', 'null', '{"a":1e2}'])
                await page.locator('.jobs .mono').getByText(text, {exact: true}).first().waitFor();
});

run();
