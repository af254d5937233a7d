/* Locks: who holds what, for how long, with which fence; and the way to take one away. */
import {badge, button, debounce, facts, field, fill, fmtNumber, h, note, panel, path, plural, table, toast}
        from './lib.js';
import {allPages, crumbs, formDialog, fromNow, livePanel, rowTable, runTimes, text} from './parts.js';

/* The holder is not told, so the dialog says what protects it: the fence. */
function release(ctx, lock, after)
{
        const held = lock.held ?? lock.holders.length;
        const owner = lock.owner ?? lock.holders.map((x) => x.owner).filter(Boolean).join(', ');
        return formDialog(`Release ${lock.name}?`, {yes: held > 1 ? `Take it from ${plural(held, 'holder')}`
                : 'Release the lock', danger: true,
        fields: [
                h('p', {}, `${owner ? `${owner} holds` : `${plural(held, 'owner holds', 'owners hold')}`} it and is `
                        + 'not told. What it does goes on until its next renewal is refused; writes that carry its '
                        + 'fence can be told apart from those of the next holder.'),
                lock.waiting ? h('p', {}, `${plural(lock.waiting, 'other waits', 'others wait')} for it.`) : null,
                field('Why, for the log', text('reason', {maxlength: 1024, placeholder: 'not needed'}))],
        submit: async ({reason}) => {
                await ctx.api.del(path('locks', lock.name), {reason: reason.trim()});
                toast(`Lock ${lock.name} was released.`);
                await after();
        }});
}

function releaseButton(ctx, lock, after)
{
        return button('Release', () => release(ctx, lock, after), {kind: 'small.danger',
                label: `Release lock ${lock.name}`});
}

async function list(root, params, ctx)
{
        let refresh = async () => {};
        const cut = h('p.hint', {hidden: true}, 'Only the first 2,000 by name are shown: search by name.');
        const find = text('match', {type: 'search', value: params.match || '', placeholder: 'part of its name',
                oninput: debounce(() => {
                        ctx.setQuery({match: find.value.trim()});
                        refresh();
                })});
        const t = rowTable(ctx, {caption: 'Locks', hideCaption: true, key: (l) => l.name,
                empty: 'No lock is held.', open: (l) => ctx.link('locks', l.name), sort: {key: 'name', desc: false},
                columns: [
                        {key: 'name', label: 'Lock', cls: 'wrap', sort: (l) => l.name,
                                cell: (l) => h('a', {href: ctx.link('locks', l.name)}, l.name)},
                        {key: 'held', label: 'Held', cell: (l) => (l.count > 1
                                ? badge('held', `${l.held} of ${l.count}`) : badge(l.held ? 'held' : 'free'))},
                        {key: 'owner', label: 'Owner', cls: 'wrap', cell: (l) => l.owner || '–'},
                        {key: 'fence', label: 'Fence', num: true, cell: (l) => String(l.fence)},
                        {key: 'age', label: 'For', cls: 'nowrap', cell: (l) => fromNow(-l.age_ms, 'for')},
                        {key: 'left', label: 'Left', cls: 'nowrap', sort: (l) => l.remaining_ms,
                                cell: (l) => fromNow(l.remaining_ms, 'left')},
                        {key: 'waiting', label: 'Waiting', num: true, sort: (l) => l.waiting},
                        {key: 'do', label: '', cls: 'act', cell: (l) => h('div.actions', {},
                                releaseButton(ctx, l, () => refresh()))},
                ]});
        const what = h('div', {}, t.node, cut);
        root.append(h('div.row', {}, field('Search', find)));
        ({refresh} = await livePanel(ctx, root, {title: 'Held locks', content: what,
                hint: 'A lock is free again when its time is over, unless its owner renews it.',
                load: () => allPages(ctx, 'locks', 'locks', find.value.trim() ? {match: find.value.trim()} : {}),
                draw: ({rows, isCut}) => {
                        t.update(rows);
                        cut.hidden = !isCut;
                }}));
}

async function one(root, params, ctx)
{
        const top = h('span.row.mid');
        const p = panel('Holders');
        const said = h('div');
        const t = table({caption: 'Holders of this lock', hideCaption: true, key: (x) => x.fence, empty: 'Nobody holds it.',
                columns: [
                        {key: 'owner', label: 'Owner', cls: 'wrap', cell: (x) => x.owner || '–'},
                        {key: 'fence', label: 'Fence', num: true, cell: (x) => String(x.fence)},
                        {key: 'age', label: 'For', cell: (x) => fromNow(-x.age_ms, 'for')},
                        {key: 'ttl', label: 'Granted for', cell: (x) => `${fmtNumber(x.ttl_ms / 1000)} s`},
                        {key: 'left', label: 'Left', cell: (x) => fromNow(x.remaining_ms, 'left')},
                ]});
        t.node.classList.add('rows');
        root.append(crumbs(ctx, 'locks', 'All locks', top), p.node);
        p.body.append(said, t.node);
        const load = async (isNew) => {
                let l;
                try {
                        l = await ctx.api.get(path('locks', params.name), {}, ctx.signal);
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        fill(said, note('info', h('p', {}, e.status === 404 ? 'Nobody holds this lock.' : e.message)));
                        t.node.hidden = true;
                        fill(top, badge('free'));
                        return;
                }
                t.node.hidden = false;
                fill(said, facts([['Places', fmtNumber(l.count)], ['Held', fmtNumber(l.holders.length)],
                        ['Waiting', fmtNumber(l.waiting)]]));
                t.update(l.holders);
                if (isNew || !top.contains(document.activeElement))
                        fill(top, badge(l.holders.length ? 'held' : 'free'), l.holders.length
                                ? releaseButton(ctx, l, () => load(true)) : null);
        };
        await ctx.every(2000, () => load(false));
}

export async function mount(root, params, ctx)
{
        await (params.name === undefined ? list(root, params, ctx) : one(root, params, ctx));
        runTimes(root, ctx);
}
