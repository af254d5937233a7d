/* The registry: which hook is how important.  A change says beforehand how many waiting jobs it
 * would move. */
import {
        act,
        append,
        button,
        confirm,
        covered,
        debounce,
        field,
        fill,
        fmtNumber,
        form,
        h,
        may,
        panel,
        path,
        plural,
        select,
        table,
        TIERS,
        toast,
        turns
} from './lib.js';

/* {normal: {high: 3}}, {"normal->high": 3} or [{from, to, jobs}] -> sentence */
function movesText(answer)
{
        const total = answer.total || 0;
        if (!total)
                return 'No waiting job would move.';
        const m = answer.moves || {};
        const parts = Array.isArray(m)
                ? m.map((x) => [x.from, x.to, x.jobs ?? x.count ?? x.n])
                : Object.entries(m).flatMap(
                          ([from, to]) => (typeof to === 'object'
                                          ? Object.entries(to).map(([t, n]) => [from, t, n])
                                          : [[...from.split(/\s*(?:->|→|_to_)\s*/), to]]));
        const words =
                parts.filter((x) => x[x.length - 1])
                        .map((x) => (x.length === 3 ? `${fmtNumber(x[2])} from ${x[0]} to ${x[1]}`
                                                    : `${fmtNumber(x[1])} ${x[0]}`));
        return `${plural(total, 'waiting job')} would move${
                words.length ? `: ${words.join(', ')}` : ''}.`;
}

async function tryText(ctx, pattern, tier)
{
        try {
                return movesText(await ctx.api.get('registry-try', {pattern, tier}, ctx.signal));
        } catch (e) {
                if (e.name === 'AbortError')
                        throw e;
                return e.status === 404 ? 'Waiting jobs of these hooks would move to it.'
                                        : e.message;
        }
}

function tierBox(ctx)
{
        const nothing = 'Type the name of a hook.';
        const said = h('output', {'aria-live': 'polite'}, nothing);
        async function look()
        {
                const hook = input.value.trim();
                if (!hook) {
                        said.textContent = nothing;
                        return;
                }
                try {
                        const t = await ctx.api.get(path('tiers', hook), {}, ctx.signal);
                        const by = t.pattern ? [' by ', h('code', {}, t.pattern)]
                                             : ', since no pattern matches it';
                        if (input.value.trim() === hook)
                                fill(said, h('strong', {}, t.tier), by);
                } catch (e) {
                        if (e.name !== 'AbortError')
                                said.textContent = e.message;
                }
        }
        const input = h('input', {
                type: 'text',
                placeholder: 'klaviyo_sync_products',
                autocomplete: 'off',
                spellcheck: 'false',
                oninput: debounce(look, 150),
                size: 30
        });
        return h('div.row.mid', {}, field('Which tier is this hook?', input), said);
}

function addPattern(ctx, set)
{
        const pattern = h('input', {
                name: 'pattern',
                required: true,
                maxlength: 255,
                placeholder: 'erp_export_*',
                autocomplete: 'off',
                spellcheck: 'false',
                size: 24
        });
        const tier = select(TIERS, 'deferrable', {name: 'tier'});
        const said = h('p.hint', {'aria-live': 'polite'},
                '* stands for any text, ? for one character. The most specific ' +
                        'pattern decides.');
        const preview = debounce(async () => {
                const text = pattern.value.trim();
                if (text)
                        said.textContent = await tryText(ctx, text, tier.value).catch(() => '');
        });
        pattern.addEventListener('input', preview);
        tier.addEventListener('change', preview);
        return form('REGISTRYSET',
                async () => {
                        await set(pattern.value.trim(), tier.value);
                        pattern.value = '';
                },
                h('div.row', {}, field('Hooks like', pattern), field('are', tier),
                        h('button.primary', {type: 'submit'}, 'Set')),
                said);
}

export function registryPanel(ctx)
{
        const p = panel('How important a hook is', {
                hint: 'Patterns give hooks a tier. A hook that none matches is ' +
                        'normal.'
        });
        const t = table({
                caption: 'Patterns and their tiers',
                hideCaption: true,
                key: (r) => r.pattern,
                sort: {key: 'tier', desc: false},
                columns: [
                        {key: 'pattern', label: 'Hooks', cls: 'wrap mono', sort: (r) => r.pattern},
                        {
                                key: 'tier',
                                label: 'Tier',
                                sort: (r) => TIERS.indexOf(r.tier),
                                cell: (r) => {
                                        if (!may('REGISTRYSET'))
                                                return r.tier;
                                        const s = select(TIERS, r.tier, {
                                                needs: 'REGISTRYSET',
                                                'aria-label': `Tier of ${r.pattern}`,
                                                onchange: () => change(r, s)
                                        });
                                        return s;
                                }
                        },
                        {
                                key: 'default',
                                label: '',
                                cls: 'nowrap',
                                cell: (r) => (r.default ? h('span.muted', {}, 'as delivered')
                                                        : button('Take back', () => unset(r), {
                                                                  kind: 'small',
                                                                  needs: 'REGISTRYUNSET',
                                                                  label: `Take back ${r.pattern}`
                                                          }))
                        },
                ]
        });
        const turn = turns(); /* of choices */
        const scroll = h('div.tall', {}, t.node);
        const load = covered(scroll, () => ctx.api.get('registry', {}, ctx.signal),
                ({patterns}) => t.update(patterns));
        async function put(pattern, tier)
        {
                await ctx.api.post(path('registry', pattern), {tier});
                await load();
        }
        async function remove(pattern)
        {
                await ctx.api.del(path('registry', pattern));
                await load();
        }
        async function set(pattern, tier)
        {
                const old = t.rows().find((r) => r.pattern === pattern);
                await put(pattern, tier);
                toast(`${pattern} is ${tier}.`, {
                        undo: () => (old && !old.default ? put(pattern, old.tier) : remove(pattern))
                });
        }
        async function change(row, control)
        {
                const tier = control.value;
                const isLast = turn();
                const text = await tryText(ctx, row.pattern, tier);
                if (!isLast())
                        return; /* another one was chosen meanwhile */
                const ok = await confirm({
                        title: `${row.pattern}: from ${row.tier} to ${tier}?`,
                        yes: 'Change',
                        text
                });
                if (ok)
                        await act(control, () => set(row.pattern, tier));
                control.value = row.tier; /* one that was changed is drawn anew */
        }
        async function unset(row)
        {
                await remove(row.pattern);
                toast(`${row.pattern} was taken back.`, {undo: () => put(row.pattern, row.tier)});
        }
        append(p.body, tierBox(ctx), addPattern(ctx, set), scroll);
        return {node: p.node, load};
}
