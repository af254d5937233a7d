/* An answer of GET /v1/audit for the page: entries that the browser is given instead of weir's. */

const HOUR_MS = 3600000;
const NOW_MS = Date.UTC(2026, 10, 17, 12);

const KINDS = [
        {
                who: 'anna',
                role: 'operator',
                command: 'PAUSE',
                what: 'queue mail',
                before: {paused: false, cap: 5},
                after: {paused: true, cap: 5},
                reason: 'the mail server is away'
        },
        {
                who: 'default',
                role: 'admin',
                command: 'SETTINGSET',
                what: 'throttle.enabled',
                before: {value: 'true'},
                after: {value: 'false'},
                reason: ''
        },
        {
                who: 'ci',
                role: 'operator',
                command: 'SCHEDULE',
                what: 'schedule <b>nightly</b>',
                before: null,
                after: {cron: '0 4 * * *', options: {tier: 'high', tags: [1, 2]}},
                reason: ''
        },
        {
                who: 'nobody',
                role: '',
                command: 'AUTH',
                what: 'wrong token',
                before: null,
                after: null,
                reason: '',
                times: 12
        },
];

/* Members as the text of an object; empty: there are none. */
const textOf = (value) => (value === null ? '' : JSON.stringify(value));

export function auditEntries(n)
{
        return Array
                .from({length: n}, (_, i) => ({
                        number: n - i,
                        at_ms: NOW_MS - i * HOUR_MS,
                        address: '10.0.0.7',
                        door: i % 2 ? 'resp' : 'http',
                        times: 1,
                        ...KINDS[i % KINDS.length],
                }))
                .map((e) => ({...e, before: textOf(e.before), after: textOf(e.after)}));
}

/* As weir would choose: newest first, below `before`. */
function answer(all, query)
{
        const get = (name) => query.get(name) || '';
        const limit = Number(get('limit') || 100);
        const left = all.filter((e) => (!get('who') || e.who === get('who')) &&
                        (!get('command') || e.command === get('command')) &&
                        (!get('match') || JSON.stringify(e).includes(get('match'))) &&
                        (!get('since') || e.at_ms >= Number(get('since'))) &&
                        (!get('until') || e.at_ms < Number(get('until'))) &&
                        (!get('before') || e.number < Number(get('before'))));
        const entries = left.slice(0, limit);
        const isMore = left.length > limit;
        return {entries, cursor: isMore ? String(entries.at(-1).number) : ''};
}

/* Of a page or of a context.  asked collects the queries. */
export async function stubAudit(page, {entries = auditEntries(120), asked = []} = {})
{
        await page.route(/\/v1\/audit(\?|$)/, (route) => {
                const query = new URL(route.request().url()).searchParams;
                asked.push(Object.fromEntries(query));
                return route.fulfill({json: answer(entries, query)});
        });
        /* A weir that has no such command does not name it. */
        await page.route(/\/v1\/session$/, async (route) => {
                const response = await route.fetch();
                const session = await response.json();
                if (session.roles.includes('operator'))
                        session.commands = [...new Set([...session.commands, 'AUDIT'])];
                return route.fulfill({response, json: session});
        });
        return asked;
}
