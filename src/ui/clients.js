/* Clients: who asks before each step, what they were told, minute by minute.
 *
 * A client is an identity (7f3e:copy:etl) or a part of one (etl).  The map has a cell a minute: how
 * many asks, and which share of them was refused, as a colour and as a sign. */
import {
        append,
        badge,
        button,
        copyLine,
        cover,
        covered,
        debounce,
        dialog,
        facts,
        field,
        fill,
        fmtAgo,
        fmtDuration,
        fmtNumber,
        fmtSeconds,
        fmtTime,
        h,
        notAvailable,
        note,
        panel,
        path,
        plural,
        refill,
        select,
        table
} from './lib.js';
import {observedBadge,
        prioritize,
        refusalText,
        removeButton,
        removeRule,
        ruleForm,
        ruleText} from './rules.js';

export const title = (params) => (params.name ? params.name : 'Clients');

const MINUTE = 60000;
const MAP_CLIENTS = 12;
const MAP_MINUTES = 60;
const DAY_MINUTES = 1440;
const clock =
        new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'});
const hour =
        new Intl.DateTimeFormat(undefined, {weekday: 'short', hour: '2-digit', hourCycle: 'h23'});

/* --- the map ---------------------------------------------------------------------------------- */

/* Class and sign of a minute: greens by number of asks, then by share of refusals. */
function heat(m)
{
        if (!m || !m.asks)
                return ['', ''];
        const share = m.refused / m.asks;
        if (share === 0)
                return [m.asks < 20 ? 'g1' : 'g2', ''];
        if (share < 0.25)
                return ['r1', '·'];
        return share < 0.75 ? ['r2', '–'] : ['r3', '×'];
}

function minuteText(m)
{
        const why = m.refused ? refusalText(m) : '';
        return `${clock.format(m.at_ms)}: ${plural(m.asks, 'ask')}, ${
                fmtNumber(m.granted)} granted, ${fmtNumber(m.refused)} refused${
                m.refused && why ? ` (${why})` : ''}${
                m.observed ? `, ${fmtNumber(m.observed)} would have been refused` : ''}`;
}

/* A minute before from_ms is not known, which is not the same as one without an ask. */
function heatCell(m, at, from)
{
        if (at < from)
                return h('td.u', {title: `${clock.format(at)}: not known`});
        const [cls, sign] = heat(m);
        return h('td', {class: cls, title: m && m.asks ? minuteText(m) : null}, sign);
}

function heatKey()
{
        const one = (cls, sign, text) =>
                h('span', {}, h(`span.swatch.${cls}`, {'aria-hidden': 'true'}, sign), text);
        return h('div.heat-key', {}, one('g1', '', 'granted'),
                one('g2', '', '20 asks and more, granted'),
                one('r1', '·', 'under a quarter refused'), one('r2', '–', 'under three quarters'),
                one('r3', '×', 'mostly refused'), one('u', '', 'not known'));
}

function minuteCell(r, i)
{
        const at = r.start_ms + i * MINUTE;
        return heatCell(r.minutes.get(at), at, Math.floor(r.from_ms / MINUTE) * MINUTE);
}

/* rows: [{head: node, minutes: Map(at_ms -> minute), start_ms, from_ms}], each count cells wide. */
function heatTable(caption, heads, rows, count)
{
        const marks = heads.map(([span, text]) => h('th', {scope: 'col', colspan: span}, text));
        return h('div.table-scroll.newest', {tabindex: '0', role: 'region', 'aria-label': caption},
                h('table.heat-table', {}, h('caption.quiet', {}, caption),
                        h('thead', {},
                                h('tr', {},
                                        h('th', {scope: 'col'}, h('span.quiet', {}, 'Who or when')),
                                        marks)),
                        h('tbody', {},
                                rows.map((r) => h('tr', {}, h('th', {scope: 'row'}, r.head),
                                                 Array.from({length: count},
                                                         (_, i) => minuteCell(r, i)))))));
}

function byMinute(minutes)
{
        return new Map((minutes || []).map((m) => [m.at_ms, m]));
}

/* --- actions on one --------------------------------------------------------------------------- */

function ruleDialog(ctx, name, done)
{
        return dialog(`A rule for ${name}`,
                (close) => [ruleForm(ctx, {
                        name,
                        done: async () => {
                                close();
                                await done();
                        }
                }),
                        h('div.actions', {},
                                h('button', {type: 'button', onclick: () => close()}, 'Close'))]);
}

/* --- the list --------------------------------------------------------------------------------- */

function clientTable(ctx, done)
{
        return table({
                caption: 'Clients',
                hideCaption: true,
                key: (r) => r.name,
                empty: 'Nobody is like that.',
                columns: [
                        {
                                key: 'name',
                                label: 'Client',
                                cls: 'wrap mono',
                                sort: (r) => r.name,
                                cell: (r) => h('a', {href: ctx.link('clients', r.name)}, r.name)
                        },
                        {key: 'kind', label: 'Kind', sort: (r) => r.kind},
                        {key: 'asks', label: 'Asks', num: true, sort: (r) => r.asks},
                        {key: 'granted', label: 'Granted', num: true, sort: (r) => r.granted},
                        {key: 'refused', label: 'Refused', num: true, sort: (r) => r.refused},
                        {
                                key: 'share',
                                label: 'Share refused',
                                num: true,
                                sort: (r) => Number(r.share_refused),
                                cell: (r) => `${
                                        fmtNumber(
                                                Math.round(Number(r.share_refused) * 1000) / 10)} %`
                        },
                        {
                                key: 'last',
                                label: 'Last asked',
                                cls: 'nowrap',
                                sort: (r) => r.last_ms,
                                cell: (r) => fmtTime(r.last_ms)
                        },
                        {
                                key: 'state',
                                label: 'State',
                                cell: (r) => (r.starved     ? badge('critical', 'starved')
                                                : r.waiting ? badge('waiting', 'refused since')
                                                            : '')
                        },
                        {
                                key: 'act',
                                needs: ['PRIORITIZE', 'RULESET'],
                                label: '',
                                cell: (r) => h('div.actions', {},
                                        button('Prioritise',
                                                () => prioritize(ctx, r.name, {}, done), {
                                                        kind: 'small',
                                                        needs: 'PRIORITIZE',
                                                        label: `Prioritise ${r.name} for an hour`
                                                }),
                                        h('button.small', {
                                                type: 'button',
                                                needs: 'RULESET',
                                                'aria-label': `A rule for ${r.name}`,
                                                onclick: () => ruleDialog(ctx, r.name, done)
                                        },
                                                'Rule'))
                        },
                ]
        });
}

const INVITATION =
        'A migration, an ETL run, a purge: whatever does heavy work in steps may ask weir ' +
        'before each of them, and go on only when the database can take it. What asked is listed here.';

function invitation()
{
        const p = panel('Nobody has asked since weir started');
        const body = `'{"identity": "nightly:purge", "target": "shop"}'`;
        append(p.body, h('p', {}, INVITATION),
                copyLine('weir check nightly:purge --target shop && ./next-step'),
                h('pre', {tabindex: '0'}, `curl -s -H "Content-Type: application/json" -d ${body} \\
     ${location.origin}${location.pathname}v1/check`));
        return p.node;
}

async function mountList(root, params, ctx)
{
        const match = h('input',
                {type: 'search', value: params.match || '', placeholder: 'part of a name'});
        const kind =
                select([['identity', 'who asks'], ['part', 'parts of names'], ['both', 'both']],
                        params.kind || 'identity');
        const order = select([['refused', 'most refused'], ['asks', 'most asks'], ['name', 'name']],
                params.order || 'refused');
        const mapPanel = panel('The last hour, minute by minute');
        const mapBox = h('div');
        const listPanel = panel('Who asked');
        const t = clientTable(ctx, () => load());
        const foot = h('p.hint');
        const empty = h('div');
        append(mapPanel.body, mapBox, heatKey());
        append(listPanel.body,
                h('div.row', {}, field('Find', match), field('Kind', kind), field('First', order)),
                t.node, foot);
        append(root, empty, mapPanel.node, listPanel.node);

        /* Which of them there is to be seen is known with the first answer. */
        mapPanel.node.hidden = true;
        listPanel.node.hidden = true;
        const ask = async () => {
                const filter = {
                        match: match.value.trim(),
                        kind: kind.value === 'both' ? '' : kind.value,
                        order: order.value
                };
                try {
                        const answer =
                                await ctx.api.get('clients', {...filter, limit: 100}, ctx.signal);
                        return {filter, answer};
                } catch (e) {
                        listPanel.node.hidden = false; /* where the reason is said */
                        throw e;
                }
        };
        const load = covered(t.node, ask, ({filter, answer}) => {
                /* waiting_ms grows by itself: without it a row stays as it is. */
                t.update(answer.clients.map(({waiting_ms: w, ...c}) => ({...c, waiting: w > 0})));
                const more = answer.cursor ? ' The first 100; narrow it down with a part of a name.'
                        : answer.other
                        ? ` Besides, ${plural(answer.other, 'ask')} of clients that are not kept ` +
                                'any more.'
                        : '';
                fill(foot, 'Counted since weir started, ', fmtTime(answer.start_ms), '.', more);
                const none = answer.clients.length === 0 && !filter.match && filter.kind !== 'part';
                mapPanel.node.hidden = none;
                listPanel.node.hidden = none;
                if (none && !empty.firstChild)
                        fill(empty, invitation());
                empty.hidden = !none;
        });
        async function loadMap()
        {
                try {
                        const {clients} = await ctx.api.get('clients',
                                {kind: 'identity', order: 'asks', limit: MAP_CLIENTS}, ctx.signal);
                        const shows = await Promise.all(clients.map(
                                (c) => ctx.api.get(path('clients', c.name), {minutes: MAP_MINUTES},
                                                      ctx.signal)
                                               .catch(() => null)));
                        const last = Math.floor(Date.now() / MINUTE) * MINUTE;
                        const start = last - (MAP_MINUTES - 1) * MINUTE;
                        const rows = shows.filter(Boolean).map((c) => ({
                                start_ms: start,
                                from_ms: c.minutes_from_ms,
                                minutes: byMinute(c.minutes),
                                head: h('a.mono', {href: ctx.link('clients', c.name)}, c.name)
                        }));
                        const heads = Array.from({length: MAP_MINUTES / 10},
                                (_, i) => [10, clock.format(start + i * 10 * MINUTE)]);
                        fill(mapBox, heatTable('Clients by minute', heads, rows, MAP_MINUTES));
                        mapBox.firstChild.scrollLeft = mapBox.firstChild.scrollWidth;
                } catch (e) {
                        if (e.name !== 'AbortError')
                                fill(mapBox, notAvailable(e));
                }
        }
        const changed = () => {
                ctx.setQuery({
                        match: match.value.trim(),
                        kind: kind.value === 'identity' ? '' : kind.value,
                        order: order.value === 'refused' ? '' : order.value
                });
                load();
        };
        match.addEventListener('input', debounce(changed));
        kind.addEventListener('change', changed);
        order.addEventListener('change', changed);
        await Promise.all([ctx.every(3000, load), ctx.every(15000, loadMap)]);
        return null;
}

/* --- one client ------------------------------------------------------------------------------- */

function dayRows(c)
{
        const map = byMinute(c.minutes);
        const asked = [...map.keys()].map((at) => Math.floor(at / (60 * MINUTE)) * 60 * MINUTE);
        const now = Math.floor(Date.now() / (60 * MINUTE)) * 60 * MINUTE;
        const first = Math.max(Math.min(now - 2 * 60 * MINUTE, ...asked), now - 23 * 60 * MINUTE);
        const rows = [];
        for (let at = now; at >= first; at -= 60 * MINUTE)
                rows.push({
                        start_ms: at,
                        from_ms: c.minutes_from_ms,
                        minutes: map,
                        head: `${hour.format(at)}:00`
                });
        return rows;
}

function minutesTable(minutes)
{
        const t = table({
                caption: 'Minutes in which it asked, newest first',
                key: (r) => r.at_ms,
                columns: [
                        {key: 'at', label: 'Minute', cell: (r) => fmtTime(r.at_ms)},
                        {key: 'asks', label: 'Asks', num: true},
                        {key: 'granted', label: 'Granted', num: true},
                        {key: 'refused', label: 'Refused', num: true},
                        {key: 'observed', label: 'Would refuse', num: true},
                        {
                                key: 'why',
                                label: 'Mostly because',
                                cls: 'wrap',
                                cell: (r) => (r.refused ? refusalText(r) : '')
                        },
                ]
        });
        t.update([...minutes].sort((a, b) => b.at_ms - a.at_ms).slice(0, 120));
        return t.node;
}

function storyText(s)
{
        return `${clock.format(s.from_ms)} to ${clock.format(s.to_ms)}: ${
                plural(s.refused, 'refusal')}, mostly because ${refusalText(s)}`;
}

function reasonsText(reasons)
{
        const list = Object.entries(reasons || {}).filter(([, n]) => n);
        return list.length ? list.sort((a, b) => b[1] - a[1])
                                     .map(([r, n]) => `${r} ${fmtNumber(n)}`)
                                     .join(', ')
                           : 'none';
}

function links(ctx, list)
{
        return list.map((x, i) => [i ? ', ' : '', h('a', {href: ctx.link('clients', x)}, x)]);
}

function clientFacts(c, ctx)
{
        const parts =
                (c.parts || []).map((x) => (typeof x === 'string' ? x : x.name)).filter(Boolean);
        return facts([
                [
                        'Kind',
                        c.kind === 'part'
                                ? `part of ${plural(c.identities, 'identity', 'identities')}`
                                : 'identity'
                ],
                ['Asks', fmtNumber(c.asks)],
                ['Granted', fmtNumber(c.granted)],
                ['Refused', fmtNumber(c.refused)],
                c.observed ? ['Would be refused', fmtNumber(c.observed)] : null,
                ['Why refused', reasonsText(c.reasons)],
                ['Last granted', fmtAgo(c.granted_ms)],
                ['Last refused', fmtAgo(c.refused_ms)],
                ['First seen', fmtAgo(c.first_ms)],
                ['Counted since', fmtTime(c.from_ms)],
                c.waited_ms ? ['Waited in all', fmtDuration(c.waited_ms)] : null,
                [
                        'From',
                        (c.addresses || []).map((a) => a.address || 'local').join(', ') ||
                                c.address || 'local'
                ],
                parts.length ? ['Parts', links(ctx, parts)] : null,
        ]);
}

/* "etl 50 % of the asks are refused, ends in 9 min: why [Remove]" */
function ruleLine(r, remove)
{
        const left = fmtSeconds(r.left_ms);
        return h('li', {}, h('code', {}, r.name), ' ', ruleText(r),
                r.target ? ` on ${r.target}` : '', r.left_ms < 0 ? '' : `, ends in ${left}`,
                r.reason ? `: ${r.reason}` : '', observedBadge(r), ' ', removeButton(r, remove));
}

async function mountOne(root, params, ctx)
{
        const name = params.name;
        const top = panel('What it was told', {
                actions: [
                        button('Prioritise for an hour', () => prioritize(ctx, name, {}, load),
                                {kind: 'primary', needs: 'PRIORITIZE'}),
                        h('button', {
                                type: 'button',
                                needs: 'RULESET',
                                onclick: () => ruleDialog(ctx, name, load)
                        },
                                'Add a rule')
                ]
        });
        const story =
                panel('Its story', {hint: 'When it was mostly refused within a day, and why.'});
        const map = panel('Minute by minute');
        const rules = panel('Rules that name it');
        const listBox = h('div');
        const told = h('div.form');
        const part = cover(told);
        let key = '';
        top.body.append(told);
        append(root, h('p', {}, h('a', {href: ctx.link('clients')}, '← All clients')), top.node,
                story.node, map.node, rules.node,
                h('details.panel', {}, h('summary', {}, 'Minutes as a table'), listBox));

        async function loadRules()
        {
                const {rules: all} = await ctx.api.get('rules', {limit: 200}, ctx.signal);
                const names = new Set([name, 'all', ...name.split(':')]);
                const mine = all.filter((r) => names.has(r.name))
                                     .map((r) => ruleLine(r,
                                                  () => removeRule(ctx, r, r.left_ms, loadRules)));
                refill(rules.body,
                        mine.length ? h('ul.story', {}, mine)
                                    : h('p.empty', {}, 'No rule names it.'));
        }
        async function load()
        {
                let c;
                try {
                        c = await ctx.api.get(
                                path('clients', name), {minutes: DAY_MINUTES}, ctx.signal);
                } catch (e) {
                        const gone =
                                'It has not asked since weir started, or too long ago to be kept.';
                        if (e.status === 404)
                                fill(told, h('p', {}, gone));
                        else if (e.name !== 'AbortError')
                                part.fail(e);
                        return;
                }
                part.ok();
                const hungry =
                        `It is starved: not granted for ${fmtDuration(c.waiting_ms)}, and it ` +
                        'goes on asking.';
                fill(told, c.starved ? note('warn', h('p', {}, hungry)) : null,
                        clientFacts(c, ctx));
                await loadRules().catch(
                        (e) => e.name === 'AbortError' || fill(rules.body, notAvailable(e)));
                const mine = JSON.stringify([c.minutes, c.story, Math.floor(Date.now() / MINUTE)]);
                if (mine === key)
                        return;
                key = mine;
                const sentences = (c.story || []).map((s) => h('li', {}, storyText(s)));
                fill(story.body,
                        sentences.length
                                ? h('ul.story', {}, sentences)
                                : h('p.empty', {},
                                          h('span', {}, 'It was at no time mostly refused since ',
                                                  fmtTime(c.minutes_from_ms), '.')));
                fill(map.body,
                        heatTable(`Minutes of ${name}`,
                                Array.from({length: 6}, (_, i) => [10, `:${i}0`]), dayRows(c), 60),
                        heatKey());
                fill(listBox, minutesTable(c.minutes || []));
        }
        await ctx.every(3000, load);
        return null;
}

export async function mount(root, params, ctx)
{
        return params.name ? mountOne(root, params, ctx) : mountList(root, params, ctx);
}
