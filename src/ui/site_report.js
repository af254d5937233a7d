/* The report of a WordPress site: sizes, days and hooks of Action Scheduler's tables; for sites.js.
 *
 * It reads thousands of rows of a database that may be under load, so only a person asks for it: by
 * opening it, and by its button.  An open one stays through a way to a list of actions and back. */
import {
        act,
        append,
        button,
        covered,
        facts,
        fill,
        fmtBytes,
        fmtDuration,
        fmtNumber,
        fmtTime,
        h,
        panel,
        path,
        table
} from './lib.js';
import {bar, running} from './parts.js';

const COUNT_MAX = 10000; /* where counts of the server stop: COUNT_MAX of guard/retention.c */

const about = (text, isEstimate = true) => (isEstimate ? `about ${text}` : text);

/* --- lists ------------------------------------------------------------------------------------ */

function figure(r)
{
        return about(fmtNumber(r.count), r.estimate);
}

/* Of hooks that come less than once in a day no number is left. */
function perDay(r)
{
        return r.count ? figure(r) : 'less than 1';
}

/* The log has whole seconds. */
function time(r)
{
        return r.seconds ? fmtDuration(r.seconds * 1000) : 'under 1 s';
}

/* A column of numbers, with a bar beside the largest of them. */
function barred(label, key, cell)
{
        return {
                key,
                label,
                num: true,
                cls: 'part',
                cell: (r) => [cell(r), bar([[r[key], 'busy']], r.most)],
        };
}

/* The columns of lists.  of: the member of the answer; by: whose bars; empty: a sentence. */
function lists(ctx, site)
{
        const link = (query, text) => h('a', {href: ctx.link('sites', site, query)}, text);
        const hook = (filter) => ({
                key: 'name',
                label: 'Hook',
                cls: 'wrap mono',
                cell: (r) => (r.name ? link({...filter, hook: r.name}, r.name) : '–'),
        });
        const status = {key: 'name', label: 'Status', cell: (r) => link({status: r.name}, r.name)};
        const number = barred('Number', 'count', figure);
        return [
                [
                        {
                                title: 'Tables',
                                of: 'tables',
                                by: 'bytes',
                                empty: 'The database has no tables of Action Scheduler.',
                                columns: [
                                        {key: 'name', label: 'Table', cls: 'wrap mono'},
                                        {
                                                key: 'rows',
                                                label: 'Rows',
                                                num: true,
                                                cell: (r) => about(fmtNumber(r.rows))
                                        },
                                        barred('Size', 'bytes', (r) => about(fmtBytes(r.bytes))),
                                ],
                        },
                        {
                                title: 'Completed by day',
                                hint: 'Days of UTC; the newest is not over yet.',
                                of: 'days',
                                by: 'count',
                                empty: 'No action was completed.',
                                columns: [{key: 'name', label: 'Day', cls: 'nowrap'}, number],
                        },
                        {
                                title: 'Scheduled most',
                                hint: 'New actions in a day, at the pace of the newest ones.',
                                of: 'created',
                                by: 'count',
                                empty: 'Not known: the newest actions tell of no span of time.',
                                columns: [hook({}), barred('In a day', 'count', perDay)],
                        },
                        {
                                title: 'Pending',
                                of: 'pending',
                                by: 'count',
                                empty: 'No action is pending.',
                                columns: [hook({status: 'pending'}), number],
                        },
                ],
                [
                        {
                                title: 'Actions by status',
                                of: 'statuses',
                                by: 'count',
                                empty: 'Action Scheduler has no actions.',
                                columns: [status, number],
                        },
                        {
                                title: 'Past due',
                                hint: 'Pending, and due for more than a minute.',
                                of: 'past_due',
                                by: 'count',
                                empty: 'No action is past due.',
                                columns: [
                                        hook({status: 'due'}),
                                        {key: 'seconds', label: 'Oldest', num: true, cell: time},
                                        number
                                ],
                        },
                        {
                                title: 'Failed',
                                hint: 'A hook leads to its failed actions.',
                                of: 'failed',
                                by: 'count',
                                empty: 'No action has failed.',
                                columns: [hook({status: 'failed'}), number],
                        },
                        {
                                title: 'Slowest',
                                hint: 'The longest run of each hook among those of the last log lines.',
                                of: 'slowest',
                                by: 'seconds',
                                empty: 'The last log lines tell of no run.',
                                columns: [
                                        hook({status: 'complete'}),
                                        {key: 'count', label: 'Runs', num: true},
                                        barred('Longest', 'seconds', time)
                                ],
                        },
                ],
        ];
}

/* {node, update(report)} */
function listBlock(site, list)
{
        const t = table({
                caption: `${list.title} of ${site}`,
                hideCaption: true,
                empty: list.empty,
                columns: list.columns,
        });
        t.node.classList.add('rows', 'dense');
        const node = h('div', {}, h('h3', {}, list.title),
                list.hint ? h('p.hint', {}, list.hint) : null, t.node);
        const update = (report) => {
                const rows = report[list.of];
                const most = Math.max(...rows.map((r) => r[list.by]), 0);
                t.update(rows.map((r) => ({...r, most})));
        };
        return {node, update};
}

/* --- retention -------------------------------------------------------------------------------- */

function retention(r)
{
        const perS = r.deleted_per_second;
        const finished = fmtNumber(r.finished_per_day);
        return [
                r.past ? null : h('p', {}, 'No finished action is past its time.'),
                facts([
                        r.past ? ['Past their time',
                                         about(fmtNumber(r.past), r.past_estimate)]
                               : null,
                        r.past ? ['Their log lines', about(fmtNumber(r.past_lines))] : null,
                        r.past ? ['Size of both', about(fmtBytes(r.past_bytes))] : null,
                        ['Finished in 24 h',
                                about(finished, r.finished_per_day > COUNT_MAX)],
                        perS ? ['Deleted of late', `${fmtNumber(perS)} a second`] : null,
                        perS && r.past ? ['The rest takes',
                                                 about(fmtDuration(Math.ceil(r.past / perS) * 1000))]
                                       : null,
                ]),
        ];
}

function retentionBlock()
{
        const body = h('div.panel-body');
        const hint = 'What the repair of old finished actions deletes while its mode is enforce.';
        const node = h('div.wide.panel-body', {},
                h('div', {}, h('h3', {}, 'Retention'), h('p.hint', {}, hint)), body);
        return {node, update: (report) => fill(body, retention(report))};
}

/* --- the panel -------------------------------------------------------------------------------- */

/* What is open, by session: who logs in next is asked anew for everything. */
const opened = new WeakMap();

function memoryOf(ctx, site)
{
        if (!opened.has(ctx.session))
                opened.set(ctx.session, new Map());
        const sites = opened.get(ctx.session);
        if (!sites.has(site))
                sites.set(site, {isOpen: false, report: null, at_ms: 0});
        return sites.get(site);
}

export function reportPanel(ctx, site)
{
        const memory = memoryOf(ctx, site);
        const columns = lists(ctx, site).map((all) => all.map((list) => listBlock(site, list)));
        const last = retentionBlock();
        const blocks = [...columns.flat(), last];
        const content = h('div.grid', {hidden: true},
                columns.map((all) => h('div.stacked', {}, all.map((b) => b.node))), last.node);
        const loads = h('p.loading', {}, 'Reading the database.');
        const when = h('span.muted');
        const again = button('Read again', () => read(), {kind: 'small'});
        const draw = () => {
                fill(when, 'Read at ', fmtTime(memory.at_ms), ', ', running(memory.at_ms));
                for (const b of blocks)
                        b.update(memory.report);
                content.hidden = false;
        };
        const ask = () => ctx.api.get(path('sites', site, 'report'), {}, ctx.signal);
        const load = covered(content, ask, (report) => {
                Object.assign(memory, {report, at_ms: Date.now()});
                draw();
        });
        async function read()
        {
                await load();
                loads.remove();
        }
        const node = h('details', {open: memory.isOpen}, h('summary', {}, 'What is in the tables'),
                h('div.panel-body', {}, h('div.row.mid', {}, again, when), loads, content));
        node.addEventListener('toggle', () => {
                memory.isOpen = node.open;
                if (!node.open)
                        memory.report = null; /* read anew when it is opened again */
                else if (!memory.report)
                        act(again, read);
        });
        if (memory.report) {
                loads.remove();
                draw();
        }
        const p = panel('Report', {
                hint: 'It is read from the database of the site when you open it: a bounded number ' +
                        'of rows, however large the tables are. Counts stop at ' +
                        `${fmtNumber(COUNT_MAX)}, and hooks are those of 2,000 actions; what is ` +
                        'beyond is estimated and said to be “about”.',
        });
        append(p.body, node);
        return {node: p.node};
}
