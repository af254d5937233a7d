/* Actions and locks of a WordPress site, as they are in its database now; for sites.js.
 *
 * Each answer costs that database a query, and it may be under load: the list is asked for every
 * few seconds only, and the locks as well. */
import {
        badge,
        button,
        confirm,
        cover,
        covered,
        debounce,
        facts,
        field,
        fill,
        fmtNumber,
        fmtTime,
        h,
        note,
        panel,
        path,
        refill,
        select,
        sentence,
        table,
        toast,
        turns,
        uid
} from './lib.js';
import {by, crumbs, isBusy, livePanel, rowTable, running, text, textBox} from './parts.js';

const EVERY_MS = 5000;
const PAGE = 25;
const STATUSES =
        [['', 'any'], 'due', 'moved', 'pending', 'in-progress', 'complete', 'failed', 'canceled'];

/* A link to another server; other kinds of addresses stay text.  Nothing of this page is told. */
export function outside(url, said = url)
{
        const isWeb = /^https?:\/\//i.test(url) && URL.canParse(url);
        if (!isWeb)
                return h('span', {}, url);
        return h('a', {href: url, target: '_blank', rel: 'noopener noreferrer'}, said,
                h('span', {'aria-hidden': 'true'}, ' ↗'),
                h('span.quiet', {}, ' (opens in a new tab)'));
}

export function hostOf(url)
{
        return URL.canParse(url) ? new URL(url).host : url;
}

/* The way to an action in WordPress; null: its address is not known or not to be trusted. */
function inWordPress(a, said)
{
        return /^https?:\/\//i.test(a.url) ? outside(a.url, said) : null;
}

export function actionLink(ctx, site, id)
{
        return ctx.link('sites', site, {action: id});
}

/* --- the list --------------------------------------------------------------------------------- */

function dates(a)
{
        return [
                running(a.scheduled_ms),
                a.moved ? h('span.sub', {}, 'instead of ', fmtTime(a.original_ms)) : null,
        ];
}

function columns(ctx, site)
{
        return [
                {
                        key: 'id',
                        label: 'Action',
                        cls: 'nowrap',
                        cell: (a) => h('a', {href: actionLink(ctx, site, a.id)}, a.id),
                },
                {key: 'hook', label: 'Hook', cls: 'wrap mono'},
                {
                        key: 'status',
                        label: 'Status',
                        cls: 'nowrap',
                        cell: (a) => [badge(a.status),
                                a.moved ? [' ', badge('parked', 'moved')] : null],
                },
                {key: 'tier', label: 'Tier'},
                {key: 'date', label: 'Date', cls: 'nowrap', cell: dates},
                {key: 'group', label: 'Group', cls: 'wrap', cell: (a) => a.group || '–'},
                {
                        key: 'arguments',
                        label: 'Arguments',
                        cls: 'args',
                        cell: (a) => h('span.mono', {title: a.arguments.slice(0, 500)},
                                a.arguments.slice(0, 200)),
                },
                {
                        key: 'wp',
                        label: 'WordPress',
                        cls: 'nowrap',
                        cell: (a) => inWordPress(a, 'Open') || '–'
                },
        ];
}

/* {node, start(hooks)}; hooks() are those that the filter offers. */
export function actionsPanel(ctx, site, params)
{
        const filter = {status: params.status || '', hook: params.hook || ''};
        let cursor = params.cursor || '';
        let next = '';
        const trail = []; /* cursors of the pages before this one */
        const turn = turns();
        const empty = h('div');
        const t = rowTable(ctx, {
                caption: `Actions of ${site}`,
                hideCaption: true,
                key: by('id'),
                empty,
                open: (a) => actionLink(ctx, site, a.id),
                columns: columns(ctx, site),
        });
        const part = cover(t.node);
        const known = h('datalist', {id: uid('hooks')});
        const status = select(STATUSES, filter.status, {name: 'status', onchange: () => changed()});
        const hook = text('hook', {
                type: 'search',
                value: filter.hook,
                placeholder: 'exactly this hook',
                list: known.id,
                oninput: debounce(() => changed()),
        });
        const first = button('First page', () => {
                trail.length = 0;
                return go('');
        }, {kind: 'small'});
        const back = button('← Newer', () => go(trail.pop() ?? ''), {kind: 'small'});
        const on = button('Older →', () => {
                trail.push(cursor);
                return go(next);
        }, {kind: 'small'});
        const pager = h('div.pager', {hidden: true}, first, back, on);

        function changed()
        {
                const to = {status: status.value, hook: hook.value.trim()};
                if (to.status === filter.status && to.hook === filter.hook)
                        return undefined;
                Object.assign(filter, to);
                trail.length = 0;
                return go('');
        }
        function go(to)
        {
                cursor = to;
                ctx.setQuery({...filter, cursor}, site);
                return load();
        }
        function draw({actions, cursor: more})
        {
                next = more;
                fill(empty,
                        filter.status || filter.hook ? 'No action matches the filter.'
                                                     : 'Action Scheduler has no actions.');
                t.update(actions);
                first.hidden = cursor === '';
                back.disabled = trail.length === 0;
                on.disabled = next === '';
                pager.hidden = cursor === '' && next === '';
        }
        async function load()
        {
                const isLast = turn();
                const query = {...filter, limit: PAGE, cursor};
                t.busy(true);
                try {
                        const answer = await ctx.api.get(
                                path('sites', site, 'actions'), query, ctx.signal);
                        if (!isLast())
                                return;
                        draw(answer);
                        part.ok();
                } catch (e) {
                        if (e.name === 'AbortError' || !isLast())
                                return;
                        t.busy(false);
                        part.fail(e);
                }
        }
        const p = panel(
                'Actions', {hint: 'As they are in the database of the site now, newest first.'});
        p.body.append(h('div.row', {}, field('Status', status), field('Hook', hook), known), t.node,
                pager);
        const start = async (hooks) => {
                const offer = () => refill(known, hooks().map((x) => h('option', {value: x})));
                await ctx.every(EVERY_MS, async () => {
                        offer();
                        if (!isBusy())
                                await load();
                });
        };
        return {node: p.node, start};
}

/* --- one action ------------------------------------------------------------------------------- */

function why(a)
{
        const kind = {complete: 'good',
                failed: 'bad',
                pending: a.moved ? 'warn' : 'info'}[a.status];
        return note(kind || 'info', h('p', {}, h('strong', {}, sentence(a.why))),
                a.moved ? h('p', {}, 'It was made for ', fmtTime(a.original_ms),
                                  ' and is now to run ', running(a.scheduled_ms), ', at ',
                                  fmtTime(a.scheduled_ms),
                                  '. weir gives it back no earlier than its original date.')
                        : null);
}

function about(ctx, site, a)
{
        return facts([
                ['Hook', h('a.mono', {href: ctx.link('sites', site, {hook: a.hook})}, a.hook)],
                ['Tier', a.tier],
                ['Group', a.group || '–'],
                ['Schedule', a.schedule || '–'],
                ['Priority', fmtNumber(a.priority)],
                ['Attempts', fmtNumber(a.attempts)],
                ['Date', fmtTime(a.scheduled_ms)],
                ['Original date', fmtTime(a.original_ms)],
                a.last_attempt_ms > 0 ? ['Last attempt', running(a.last_attempt_ms)] : null,
                a.claim ? ['Claim', String(a.claim)] : null,
        ]);
}

function logList(lines)
{
        if (!lines.length)
                return h('p.empty', {}, 'It has no log lines.');
        return h('ol.timeline', {},
                lines.map((l) => h('li', {}, fmtTime(l.at_ms),
                                  h('span.mark', {'aria-hidden': 'true'}, '·'),
                                  h('div', {}, l.message))));
}

export async function actionScreen(root, params, ctx)
{
        const {name, action: id} = params;
        const state = h('span.row.mid');
        const top = h('div');
        const what = panel('What it is');
        const args = panel('Arguments');
        const log = panel('Its log in WordPress', {hint: 'Newest first.'});
        const box = h('div.screen', {}, top, h('div.grid', {}, what.node, args.node), log.node);
        root.append(crumbs(ctx, `sites/${encodeURIComponent(name)}`, `Site ${name}`, state), box);
        let shown = '';
        const draw = (a) => {
                const key = JSON.stringify(a);
                if (key === shown)
                        return;
                shown = key;
                refill(state, badge(a.status), a.moved ? badge('parked', 'moved') : null,
                        inWordPress(a, 'Show it in WordPress'));
                fill(top, why(a));
                refill(what.body, about(ctx, name, a));
                refill(args.body, textBox(a.arguments || '[]', 'arguments'));
                fill(log.body, logList(a.log));
        };
        const ask = () => ctx.api.get(path('sites', name, 'actions', id), {}, ctx.signal);
        await ctx.every(EVERY_MS, covered(box, ask, draw));
}

/* --- locks ------------------------------------------------------------------------------------ */

async function takeAway(ctx, site, l, again)
{
        const ok = await confirm({
                title: `Take away the lock ${l.key}?`,
                text: [
                        'Its holder is not told, and goes on as if it had the lock; the fence tells ' +
                                'its writes from those of the next holder.',
                        'Do this when you know that the holder is gone.',
                ],
                yes: 'Take it away',
                danger: true,
        });
        if (!ok)
                return;
        const {released} = await ctx.api.del(path('sites', site, 'locks', l.key), {force: true});
        toast(released ? `Lock ${l.key} was taken away.` : `Nobody held ${l.key} any more.`);
        await again();
}

export async function locksPanel(ctx, root, site)
{
        let refresh = async () => {};
        const t = table({
                caption: `Locks of ${site}`,
                hideCaption: true,
                key: by('key'),
                empty: 'No lock is held.',
                sort: {key: 'key', desc: false},
                columns: [
                        {key: 'key', label: 'Lock', cls: 'wrap', sort: by('key')},
                        {key: 'fence', label: 'Fence', num: true, cell: (l) => String(l.fence)},
                        {
                                key: 'left',
                                label: 'Left',
                                cls: 'nowrap',
                                sort: by('expires_ms'),
                                cell: (l) => running(l.expires_ms, 'left'),
                        },
                        {
                                key: 'do',
                                needs: 'SITEUNLOCK',
                                cls: 'act',
                                cell: (l) => button('Take away',
                                        () => takeAway(ctx, site, l, () => refresh()), {
                                                kind: 'small.danger',
                                                needs: 'SITEUNLOCK',
                                                label: `Take away lock ${l.key}`
                                        }),
                        },
                ],
        });
        t.node.classList.add('rows');
        ({refresh} = await livePanel(ctx, root, {
                title: 'Locks',
                hint: 'Locks that PHP and weir share in the options table of the site.',
                every: EVERY_MS,
                content: t.node,
                load: () => ctx.api.get(path('sites', site, 'locks'), {}, ctx.signal),
                draw: ({locks}) => t.update(locks),
        }));
}
