/* What the screens of the nouns share: a table with actions, the screen of one, and the ways to
 * make, change and delete one.  A screen is then its words, its columns and its actions:
 *
 *      route      its name in the address and in the API, and that of the list in the answer
 *      one        'lock': what buttons and messages call one of them
 *      title, hint, empty (what to do next when there is none)
 *      columns    (ctx) -> columns of table() between the name and the actions
 *      actions    (ctx, row, again, gone) -> [{text, needs, run, danger, disabled, more}], null
 * left out; needs is the command, those with more stand in a menu of the row put, del   the
 * commands that make or change one, and delete it needs      others, for the column of actions form
 * {hint, fields(ctx, row), read(values, row), body(row), finish(ctx, row)}: how one is made and
 * changed; body() is what makes it as it is, for undo, and finish() does what is left to do then
 *      isThere    (row) -> whether it was made, where the list has others as well
 *      isPaged    there may be thousands: the list comes in pages
 *      hasSearch  by a part of the name
 *      ask        (ctx, where) -> one of them, where api.get would lose something of it
 *      sort, name(ctx, row), open(row): where they are not those of a plain name with a screen */
import {
        button,
        confirm,
        cover,
        debounce,
        field,
        fill,
        h,
        may,
        note,
        path,
        plural,
        refill,
        toast,
        turns
} from './lib.js';
import {allPages, by, crumbs, CUT, formDialog, livePanel, menu, rowTable, text} from './parts.js';

function big(word)
{
        return word[0].toUpperCase() + word.slice(1);
}

/* --- making, changing, deleting -------------------------------------------------------------- */

/* The field of a form that names it; of one that is changed it can only be read. */
export function nameField(row, props)
{
        const value = row ? row.name : '';
        return field(
                'Name', text('name', {required: true, value, readOnly: Boolean(row), ...props}));
}

/* The one of a name as it is now; null: there is none.  Also for a screen that was left. */
async function find(ctx, noun, name)
{
        const free = {...ctx, signal: undefined};
        const {rows} = await load(free, noun, undefined, noun.hasSearch ? name : undefined);
        const row = rows.find((r) => r.name === name && (!noun.isThere || noun.isThere(r)));
        if (!row)
                return null;
        return noun.ask ? noun.ask(free, path(noun.route, name)) : row;
}

/* Several people may be at the same thing: what is saved whole would undo what another has done
 * since it was read.  was: as it is thought to be; null: there is none. */
async function expectSame(ctx, noun, name, was)
{
        const {one, form} = noun;
        const now = await find(ctx, noun, name);
        if (!was && !now)
                return;
        if (!was)
                throw new Error(`There is a ${one} ${name} already: change that one.`);
        if (!now)
                throw new Error(`${big(one)} ${name} was deleted meanwhile.`);
        if (form.body && JSON.stringify(form.body(was)) !== JSON.stringify(form.body(now)))
                throw new Error(`${big(one)} ${name} was changed by somebody else meanwhile, and ` +
                        'stays as it is now: look at it first.');
}

/* row: what it replaces; null: it is new. */
async function put(ctx, noun, name, body, row, again)
{
        const where = path(noun.route, name);
        await expectSame(ctx, noun, name, row);
        await ctx.api.post(where, body);
        const made = await find(ctx, noun, name).catch(() => null);
        const undo = async () => {
                if (made)
                        await expectSame(ctx, noun, name, made);
                await (row ? ctx.api.post(where, noun.form.body(row)) : ctx.api.del(where));
                await again();
        };
        toast(`${big(noun.one)} ${name} was ${row ? 'changed' : 'added'}.`,
                may(row ? noun.put : noun.del) ? {undo} : {});
        await again();
}

/* row: the one to change; null: a new one. */
export async function edit(ctx, noun, row, again)
{
        const {form} = noun;
        const isSaved =
                await formDialog(row ? `Change ${noun.one} ${row.name}` : `Add a ${noun.one}`, {
                        hint: form.hint,
                        fields: form.fields(ctx, row),
                        yes: row ? 'Change it' : `Add the ${noun.one}`,
                        submit: (values) => put(
                                ctx, noun, values.name.trim(), form.read(values, row), row, again),
                });
        if (!isSaved)
                await again();
}

/* Asks first; text says what follows.  With a form it can be taken back. */
export async function remove(ctx, noun, row, text, again, [verb, done] = ['Delete', 'deleted'])
{
        const question = {
                title: `${verb} ${noun.one} ${row.name}?`,
                text,
                yes: `${verb} it`,
                danger: true,
        };
        if (!await confirm(question))
                return;
        const where = path(noun.route, row.name);
        await ctx.api.del(where);
        const undo = async () => {
                await expectSame(ctx, noun, row.name, null);
                await ctx.api.post(where, noun.form.body(row));
                if (noun.form.finish)
                        await noun.form.finish(ctx, row);
                await again();
        };
        const canUndo = noun.form && noun.form.body && may(noun.put);
        toast(`${big(noun.one)} ${row.name} was ${done}.`, canUndo ? {undo} : {});
        await again();
}

/* What follows for the jobs that one keeps from starting; null: there are none. */
export function freedJobs(row)
{
        const jobs = plural(row.waiting_jobs, 'job that waits', 'jobs that wait');
        return row.waiting_jobs ? `${jobs} for it may start at once.` : null;
}

/* --- actions --------------------------------------------------------------------------------- */

/* Of those that are made and changed by a form; text is what follows when it is deleted. */
export function changeAndDelete(ctx, noun, row, text, again, gone)
{
        return [
                {text: 'Change', needs: noun.put, run: () => edit(ctx, noun, row, again)},
                {
                        text: 'Delete',
                        needs: noun.del,
                        danger: true,
                        run: () => remove(ctx, noun, row, text, gone),
                },
        ];
}

function actionButton(noun, row, a)
{
        return button(a.text, a.run, {
                kind: a.danger ? 'small.danger' : 'small',
                label: `${a.text} ${noun.one} ${row.name}`,
                needs: a.needs,
                disabled: a.disabled,
        });
}

function actionCell(ctx, noun, row, again, gone)
{
        const all = noun.actions(ctx, row, again, gone).filter(Boolean);
        const rest = all.filter((a) => a.more);
        const label = `Actions for ${noun.one} ${row.name}`;
        return h('div.actions', {},
                all.filter((a) => !a.more).map((a) => actionButton(noun, row, a)),
                rest.length ? menu('⋯', () => rest, {label}) : null);
}

/* --- all of them ----------------------------------------------------------------------------- */

function columns(ctx, noun, again, gone)
{
        const name =
                noun.name || ((_, row) => h('a', {href: ctx.link(noun.route, row.name)}, row.name));
        const out = [
                {
                        key: 'name',
                        label: big(noun.one),
                        cls: 'wrap',
                        sort: by('name'),
                        cell: (row) => name(ctx, row),
                },
                ...noun.columns(ctx),
        ];
        if (noun.actions)
                out.push({
                        key: 'do',
                        needs: noun.needs || [noun.put, noun.del],
                        cls: 'act',
                        cell: (row) => actionCell(ctx, noun, row, again, gone),
                });
        return out;
}

function searchField(ctx, match, changed)
{
        const find = text('match', {
                type: 'search',
                value: match || '',
                placeholder: 'part of its name',
                oninput: debounce(() => {
                        ctx.setQuery({match: find.value.trim()});
                        changed();
                }),
        });
        return find;
}

/* {rows, isCut}; only: the name of the one that is wanted. */
async function load(ctx, noun, only, match)
{
        if (only !== undefined)
                return {rows: [await ctx.api.get(path(noun.route, only), {}, ctx.signal)]};
        if (noun.isPaged)
                return allPages(ctx, noun.route, noun.route, {match});
        return {rows: (await ctx.api.get(noun.route, {}, ctx.signal))[noun.route]};
}

/* The panel with the table; with `only` it holds that one, below the way back to all. */
export async function nounList(root, ctx, noun, {only, match} = {})
{
        if (only !== undefined)
                root.append(crumbs(ctx, noun.route, `All ${noun.route}`));
        let refresh = async () => {};
        const again = () => refresh();
        const away = () => ctx.navigate(noun.route);
        const search = () => {
                t.busy(true);
                again();
        };
        const find = noun.hasSearch ? searchField(ctx, match, search) : null;
        const cut = h('p.hint', {hidden: true}, CUT);
        const empty = h('div');
        const t = rowTable(ctx, {
                caption: noun.title,
                hideCaption: true,
                key: by('name'),
                empty,
                sort: noun.sort || {key: 'name', desc: false},
                open: noun.open === undefined ? (row) => ctx.link(noun.route, row.name) : noun.open,
                columns: columns(ctx, noun, again, only === undefined ? again : away),
        });
        const typed = () => (find ? find.value.trim() : '');
        const add = noun.form ? button(`Add a ${noun.one}`, () => edit(ctx, noun, null, again),
                                        {kind: 'primary.small', needs: noun.put})
                              : null;
        ({refresh} = await livePanel(ctx, root, {
                title: noun.title,
                hint: noun.hint,
                content: h('div.form', {}, find ? h('div.row', {}, field('Search', find)) : null,
                        t.node, cut),
                actions: noun.top ? noun.top(ctx, again) : add,
                load: () => load(ctx, noun, only, typed()),
                draw: ({rows, isCut}) => {
                        fill(empty,
                                typed() ? `No ${noun.one} has "${typed()}" in its name.`
                                        : noun.empty);
                        t.update(rows);
                        cut.hidden = !isCut;
                },
        }));
}

/* --- one of them ----------------------------------------------------------------------------- */

/* Its state and its actions stand beside the way back, above `body`; draw(it, again) shows the
 * rest.  gone: what is said when there is none such. */
export async function nounOne(root, ctx, noun, name, {body, state, more, draw, gone, every = 2000})
{
        const top = h('span.row.mid');
        const said = h('div');
        const away = () => ctx.navigate(noun.route);
        const ask = noun.ask || ((_, where) => ctx.api.get(where, {}, ctx.signal));
        root.append(crumbs(ctx, noun.route, `All ${noun.route}`, top), said, body);
        const part = cover(body);
        const turn = turns();
        const again = async () => {
                const isLast = turn();
                let it;
                try {
                        it = await ask(ctx, path(noun.route, name));
                        if (!isLast())
                                return;
                } catch (e) {
                        if (e.name === 'AbortError')
                                throw e;
                        if (isLast() && e.status !== 404)
                                part.fail(e);
                        if (!isLast() || e.status !== 404)
                                return;
                        fill(said, note('info', h('p', {}, gone || e.message)));
                        fill(top, state(null));
                        body.hidden = true;
                        return;
                }
                fill(said);
                part.ok();
                const actions = noun.actions(ctx, it, again, away).filter(Boolean);
                refill(top, state(it), actions.map((a) => actionButton(noun, it, a)),
                        more ? more(it) : null);
                draw(it, again);
        };
        await ctx.every(every, again);
}
