/* A weir with something of everything in it: jobs in each state, a worker, every noun, somebody who
 * asks and is refused.  name(kind) gives every string that a user could have given, so that the
 * same world serves the looks (plain names) and the tries to break in (hostile ones). */
import {until} from './lib.js';

const enc = encodeURIComponent;

const PLAIN = {
        hook: 'send_invoice',
        failing: 'klaviyo_sync',
        queue: 'mail',
        group: 'shop-7',
        worker: 'web-3',
        lock: 'nightly-report',
        owner: 'cron@web-3',
        limit: 'stripe',
        breaker: 'smtp',
        batch: 'import-7',
        title: 'Import of November',
        schedule: 'nightly-invoices',
        identity: '7f3e:copy:etl',
        reason: 'the import must end before noon',
        author: 'anna',
        error: 'the mail server said 451',
        result: 'sent to 17 addresses',
        text: 'invoice 4711',
        host: 'db3',
        pattern: 'erp_export_*',
        progress: '3 of 7',
};

export const plain = (kind) => PLAIN[kind];

async function nouns(server, name)
{
        const {post} = {post: server.post.bind(server)};
        await post(`queues/${enc(name('queue'))}`, {cap: 5});
        await post(`batches/${enc(name('batch'))}`, {
                title: name('title'),
                onsuccess: name('hook'),
                ondone: name('hook'),
                queue: name('queue'),
        });
        await post(`locks/${enc(name('lock'))}`, {ttl: 3600000, owner: name('owner')});
        await post(`limits/${enc(name('limit'))}`, {amount: 5, period: 60000});
        await post(`caps/${enc(`key:${name('text')}`)}`, {max: 3});
        await post(`breakers/${enc(name('breaker'))}`, {threshold: 3});
        await post(`breakers/${enc(name('breaker'))}/trip`, {reason: name('reason'), hold: true});
        await post(`schedules/${enc(name('schedule'))}`, {
                hook: name('hook'),
                cron: '0 4 1 1 *',
                queue: name('queue'),
                group: name('group'),
                args: name('text'),
        });
        await post(`registry/${enc(name('pattern'))}`, {tier: 'deferrable'});
        await post(`hosts/${enc(name('host'))}/skip`, {for: 3600000
        });
}

/* One of each state; the ids. */
async function jobs(server, name)
{
        const queue = name('queue');
        const args = {text: name('text'), amount: 12.5, lines: [1, 2, 3]};
        const claim = async () => {
                const said = await server.post('claims',
                        {worker: name('worker'), queues: [queue], max: 1, lease: 3600000});
                return said.jobs[0];
        };
        const add = (more) =>
                server.add(name('hook'), {queue, args, group: name('group'), ...more});
        const complete = await add({batch: name('batch'), key: name('text')});
        let got = await claim();
        await server.post(`jobs/${got.id}/complete`, {token: got.token, result: name('result')});
        const failed = await server.add(name('failing'), {queue, args, attempts: 1});
        got = await claim();
        await server.post(`jobs/${got.id}/fail`, {token: got.token, error: name('error')});
        const running = await add({timeout: 3600000});
        got = await claim();
        await server.post(`jobs/${got.id}/progress`, {token: got.token, text: name('progress')});
        const waiting = await add({target: name('breaker')});
        const limited = await add({limit: name('limit'), batch: name('batch')});
        const later = await add({in : 3600000});
        const canceled = await add({in : 3600000});
        await server.ask('DELETE', `jobs/${canceled}`);
        return {complete, failed, running, waiting, limited, later, canceled};
}

/* Who asks: granted first, then held by a rule until it is starved. */
async function asks(server, name)
{
        const who = name('identity');
        const ask = () => server.post('check', {identity: who}).catch(() => null);
        await ask();
        await server.post(`rules/${enc(who)}`, {
                kind: 'hold', for: 3600000, reason: name('reason'), author: name('author')
        });
        await until(async () => {
                await ask();
                return (await server.get('starved')).starved.length > 0;
        }, 'a starved client');
}

export async function populate(server, name = plain)
{
        /* Before its first sample a target is unknown, and jobs wait. */
        await until(async () => (await server.get('throttle')).targets.every((g) => g.measured),
                'the first sample');
        await nouns(server, name);
        const ids = await jobs(server, name);
        await asks(server, name);
        return ids;
}

/* Every address of the page, given the ids of populate(). */
export function screens(ids, name = plain)
{
        const one = (noun, kind) => `#/${noun}/${enc(name(kind))}`;
        return {
                now: '#/now',
                jobs: '#/jobs',
                'jobs-failed': '#/jobs?status=failed',
                'job-waiting': `#/job/${ids.waiting}`,
                'job-failed': `#/job/${ids.failed}`,
                'job-running': `#/job/${ids.running}`,
                'job-complete': `#/job/${ids.complete}`,
                queues: '#/queues',
                queue: one('queues', 'queue'),
                schedules: '#/schedules',
                schedule: one('schedules', 'schedule'),
                workers: '#/workers',
                batches: '#/batches',
                batch: one('batches', 'batch'),
                throttle: '#/throttle',
                clients: '#/clients',
                client: one('clients', 'identity'),
                locks: '#/locks',
                lock: one('locks', 'lock'),
                limits: '#/limits',
                limit: one('limits', 'limit'),
                breakers: '#/breakers',
                breaker: one('breakers', 'breaker'),
                settings: '#/settings',
        };
}
