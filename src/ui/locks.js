/* Locks: who holds what, for how long, with which fence; and the way to take one away. */
import {
        badge,
        button,
        debounce,
        facts,
        field,
        fill,
        fmtDuration,
        fmtNumber,
        h,
        note,
        panel,
        path,
        plural,
        table,
        toast
} from './lib.js';
import {allPages,
        by,
        crumbs,
        CUT,
        formDialog,
        fromNow,
        livePanel,
        rowTable,
        runTimes,
        text} from './parts.js';

/* The holder is not told, so the dialog says what protects it: the fence. */
function release(ctx, lock, after)
{
        const held = lock.held ?? lock.holders.length;
        const owners = lock.holders ? lock.holders.map((x) => x.owner).filter(Boolean).join(', ')
                                    : lock.owner;
        const who = held > 1 ? `${plural(held, 'holder')}: ${owners || 'without names'}.`
                             : `Held by ${owners || 'somebody without a name'}.`;
        const others = plural(lock.waiting, 'other waits', 'others wait');
        return formDialog(`Release ${lock.name}?`, {
                fields: [
                        h('p', {}, who),
                        h('p', {},
                                'The holder is not told: it goes on until its renewal is refused. ',
                                'The fence tells its writes from those of the next holder.'),
                        lock.waiting ? h('p', {}, `${others} for it.`) : null,
                        field('Why, for the log', text('reason', {maxlength: 1024})),
                ],
                yes: 'Release the lock',
                danger: true,
                submit: async ({reason}) => {
                        await ctx.api.del(path('locks', lock.name), {reason: reason.trim()});
                        toast(`Lock ${lock.name} was released.`);
                        await after();
                },
        });
}

function releaseButton(ctx, lock, after)
{
        return button('Release', () => release(ctx, lock, after),
                {kind: 'small.danger', label: `Release lock ${lock.name}`});
}

function heldBadge(l)
{
        const held = l.held ?? l.holders.length;
        if (held === 0)
                return badge('free');
        return l.count > 1 ? badge('held', `${held} of ${l.count} held`) : badge('held');
}

function columns(ctx, again)
{
        const name = (l) => h('a', {href: ctx.link('locks', l.name)}, l.name);
        return [
                {key: 'name', label: 'Lock', cls: 'wrap', sort: by('name'), cell: name},
                {key: 'held', label: 'State', cell: heldBadge},
                {key: 'owner', label: 'Owner', cls: 'wrap', cell: (l) => l.owner || '–'},
                {key: 'fence', label: 'Fence', num: true, cell: (l) => String(l.fence)},
                {
                        key: 'age',
                        label: 'For',
                        cls: 'nowrap',
                        sort: by('age_ms'),
                        cell: (l) => fromNow(-l.age_ms, 'for'),
                },
                {
                        key: 'left',
                        label: 'Left',
                        cls: 'nowrap',
                        sort: by('remaining_ms'),
                        cell: (l) => fromNow(l.remaining_ms, 'left'),
                },
                {key: 'waiting', label: 'Waiting', num: true, sort: by('waiting')},
                {
                        key: 'do',
                        cls: 'act',
                        cell: (l) => h('div.actions', {}, releaseButton(ctx, l, again)),
                },
        ];
}

async function list(root, params, ctx)
{
        let refresh = async () => {};
        const again = () => refresh();
        const cut = h('p.hint', {hidden: true}, CUT);
        const find = text('match', {
                type: 'search',
                value: params.match || '',
                placeholder: 'part of its name',
                oninput: debounce(() => {
                        ctx.setQuery({match: find.value.trim()});
                        again();
                }),
        });
        const t = rowTable(ctx, {
                caption: 'Locks',
                hideCaption: true,
                key: by('name'),
                empty: 'No lock is held.',
                sort: {key: 'name', desc: false},
                open: (l) => ctx.link('locks', l.name),
                columns: columns(ctx, again),
        });
        ({refresh} = await livePanel(ctx, root, {
                title: 'Held locks',
                hint: 'A lock is free again when its time is over, unless its owner renews it.',
                content: h('div.form', {}, h('div.row', {}, field('Search', find)), t.node, cut),
                load: () => allPages(ctx, 'locks', 'locks', {match: find.value.trim()}),
                draw: ({rows, isCut}) => {
                        t.update(rows);
                        cut.hidden = !isCut;
                },
        }));
}

/* --- one lock -------------------------------------------------------------------------------- */

function holders()
{
        const t = table({
                caption: 'Holders of this lock',
                hideCaption: true,
                key: by('fence'),
                empty: 'Nobody holds it.',
                columns: [
                        {key: 'owner', label: 'Owner', cls: 'wrap', cell: (x) => x.owner || '–'},
                        {key: 'fence', label: 'Fence', num: true, cell: (x) => String(x.fence)},
                        {key: 'age', label: 'For', cell: (x) => fromNow(-x.age_ms, 'for')},
                        {key: 'ttl', label: 'Granted for', cell: (x) => fmtDuration(x.ttl_ms)},
                        {key: 'left', label: 'Left', cell: (x) => fromNow(x.remaining_ms, 'left')},
                ],
        });
        t.node.classList.add('rows');
        return t;
}

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const said = h('div');
        const p = panel('Holders');
        const t = holders();
        p.body.append(said, t.node);
        root.append(crumbs(ctx, 'locks', 'All locks', top), p.node);
        const load = async (isChanged) => {
                let l;
                try {
                        l = await ctx.api.get(path('locks', params.name), {}, ctx.signal);
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        const why = e.status === 404 ? 'Nobody holds this lock.' : e.message;
                        fill(said, note('info', h('p', {}, why)));
                        t.node.hidden = true;
                        fill(top, e.status === 404 ? badge('free') : null);
                        return;
                }
                t.node.hidden = false;
                fill(said, facts([
                        ['Places', fmtNumber(l.count)],
                        ['Held', fmtNumber(l.holders.length)],
                        ['Waiting', fmtNumber(l.waiting)],
                ]));
                t.update(l.holders);
                const act = l.holders.length ? releaseButton(ctx, l, () => load(true)) : null;
                if (isChanged || !top.contains(document.activeElement))
                        fill(top, heldBadge(l), act);
        };
        await ctx.every(2000, () => load(false));
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? list(root, params, ctx) : one(root, params, ctx));
        runTimes(root, ctx);
}
