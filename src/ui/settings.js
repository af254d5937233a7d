/* Settings: what can be changed while weir runs.  A change is kept in weir's log and holds over
 * restarts and before the configuration file; the text below says it in the words of that file. */
import {
        act,
        append,
        button,
        confirm,
        copyLine,
        covered,
        dialog,
        field,
        fill,
        fmtAgo,
        fmtDuration,
        h,
        may,
        notAvailable,
        note,
        panel,
        parseDuration,
        path,
        select,
        shortDuration,
        table,
        toast
} from './lib.js';

export const title = 'Settings';

const HINT =
        'Changes hold at once, are kept over restarts, and come before the configuration file ' +
        'until they are reset.';

/* --- one setting ------------------------------------------------------------------------------ */

/* Values are texts, as the configuration writes them; type says of what kind: bool, choice,
 * duration, integer, number, or pair (enter and exit of a level, as 5,3). */
export function shownValue(s, value)
{
        if (value === null || value === undefined || value === '')
                return 'none';
        switch (s.type) {
        case 'bool':
                return value === 'true' ? 'on' : 'off';
        case 'duration':
                return fmtDuration(parseDuration(value));
        case 'pair':
                return value.split(',').join(' / ');
        default:
                return String(value).replace(/_/g, ' ');
        }
}

function control(s)
{
        const label = `${s.name}: ${s.text}`;
        if (s.type === 'choice')
                return select(s.choices.map((c) => [c, c.replace(/_/g, ' ')]), s.value,
                        {'aria-label': label});
        if (s.type === 'bool')
                return select([['true', 'on'], ['false', 'off']], s.value, {'aria-label': label});
        return h('input', {
                type: 'text',
                value: s.value === null ? '' : s.value,
                size: 8,
                'aria-label': label,
                spellcheck: 'false',
                autocomplete: 'off'
        });
}

/* What was typed, in the words the server wants: 5 min is 5m, 5 / 3 is 5,3. */
function written(s, typed)
{
        const text = String(typed).trim();
        if (s.type === 'pair')
                return text.replace(/\s*[\s,/;]\s*/g, ',');
        if (s.type !== 'duration')
                return text;
        const ms = parseDuration(text);
        return Number.isFinite(ms) ? shortDuration(ms) : text;
}

export async function saveSetting(s, text, ctx, changed)
{
        const before = s.value;
        await ctx.api.post(path('settings', s.name), {value: written(s, text)});
        toast(`${s.name} is set.`, {
                undo: async () => {
                        if (s.is_changed)
                                await ctx.api.post(
                                        path('settings', s.name), {value: String(before)});
                        else
                                await ctx.api.del(path('settings', s.name));
                        toast(`${s.name} is as it was.`);
                        await changed();
                }
        });
        await changed();
}

export async function resetSetting(s, ctx, changed)
{
        await ctx.api.del(path('settings', s.name));
        toast(`${s.name} is as configured.`, {
                undo: async () => {
                        await ctx.api.post(path('settings', s.name), {value: String(s.value)});
                        await changed();
                }
        });
        await changed();
}

/* A value that turns into a field when it is clicked; Enter saves, Escape leaves it as it was.
 * say(value) may give it other words. */
export function editInPlace(s, ctx, changed, say)
{
        const box = h('span.edit');
        const text = say ? say(s.value) : shownValue(s, s.value);
        const show = () => {
                fill(box,
                        may('SETTINGSET') ? h('button.link', {
                                type: 'button',
                                needs: 'SETTINGSET',
                                title: s.text,
                                'aria-label': `${s.name} is ${text}. Change it`,
                                onclick: edit
                        },
                                                    text)
                                          : h('span', {title: s.text}, text),
                        s.is_changed ? h('span.badge.info', {title: 'Changed while weir runs'},
                                               'changed')
                                     : null);
        };
        const leave = () => {
                show();
                box.firstChild.focus();
        };
        function edit()
        {
                const input = control(s);
                const said = h('span.error.small', {role: 'alert'});
                const ok = h('button.primary.small', {type: 'submit'}, 'Save');
                const save = async () => {
                        try {
                                await saveSetting(s, input.value, ctx, async () => {
                                        if (form.isConnected)
                                                leave();
                                        await changed();
                                });
                        } catch (e) {
                                if (!form.isConnected)
                                        throw e; /* left meanwhile: a toast */
                                said.textContent = e.message;
                                input.focus();
                        }
                };
                const form = h('form.row.mid', {
                        onsubmit: (ev) => {
                                ev.preventDefault();
                                act(ok, save);
                        },
                        onkeydown: (ev) => {
                                if (ev.key === 'Escape') {
                                        ev.stopPropagation();
                                        leave();
                                }
                        }
                },
                        input, ok, h('button.small', {type: 'button', onclick: leave}, 'Cancel'),
                        s.is_changed ? button('As configured', () => resetSetting(s, ctx, changed),
                                               {kind: 'small'})
                                     : null,
                        said);
                fill(box, form);
                input.focus();
                if (input.select)
                        input.select();
        }
        show();
        return box;
}

/* A select of the modes of a site or door, which are a live setting, with what the chosen one
 * means.  Made once for a card, so that an answer never closes it under the hand.
 *   modes: {mode: what it means}, setting(it) -> name, label(it) -> accessible name,
 *   question(it, to) -> what confirm() takes, or null when nothing is asked. */
export function modeControl(ctx, {modes, setting, label, question, again})
{
        let it = null;
        const text = h('span.hint');
        const change = async (to) => {
                const asked = question(it, to);
                if (asked && !await confirm(asked))
                        return;
                const name = setting(it);
                const {settings} = await ctx.api.get('settings');
                const found = settings.find((s) => s.name === name);
                if (!found)
                        throw new Error(`There is no setting ${name}: it was removed meanwhile.`);
                await saveSetting(found, to, ctx, again);
        };
        const words = (m) => m.replace(/_/g, ' ');
        const all = Object.keys(modes).map((m) => [m, words(m)]);
        const control = !may('SETTINGSET') ? h('output') : select(all, 'off', {
                needs: 'SETTINGSET',
                onchange: () => act(control,
                        async () => {
                                try {
                                        await change(control.value);
                                } finally {
                                        show();
                                }
                        }),
        });
        const show = () => {
                control.value = control.matches('output') ? words(it.mode) : it.mode;
                text.textContent = modes[it.mode] || '';
        };
        const node = field('Mode', control);
        node.append(text);
        const update = (now) => {
                const isChanged = !it || it.mode !== now.mode;
                it = now;
                control.setAttribute('aria-label', label(it));
                if (isChanged && control.getAttribute('aria-busy') !== 'true')
                        show();
        };
        return {node, update};
}

/* --- switched off ----------------------------------------------------------------------------- */

/* What it means for the throttle, on whichever screen. */
export const THROTTLE_OFF = 'Whatever the mode, no job waits for the load; ' +
        'checks follow a mode of their own, and a pause still holds.';

/* Says that something is switched off while NOW says so: flag is its key there and when the value
 * that means it, name the setting.  A box to be put on top of a screen. */
export function offBox(ctx, {flag, when = false, name, what, means, link})
{
        const box = h('div', {hidden: true});
        const show = (now) => {
                const isOff = Boolean(now) && now[flag] === when;
                if (box.hidden !== isOff)
                        return;
                box.hidden = !isOff;
                fill(box,
                        isOff ? note('info', h('p', {}, h('strong', {}, `${what} `), means),
                                        h('p', {needs: 'SETTINGSET'},
                                                h('a', {href: ctx.link('settings', {match: name})},
                                                        link)))
                              : null);
        };
        show(ctx.live.last());
        ctx.live.on('now', show);
        return box;
}

/* `weir pause`: on the screens where people wonder why nothing starts. */
export function pausedBox(ctx)
{
        return offBox(ctx, {
                flag: 'everything_paused',
                when: true,
                name: 'queues.paused',
                what: 'Everything is paused.',
                means: 'No job of any queue starts, critical ones included. Running jobs go on.',
                link: 'End it in Settings',
        });
}

/* --- the screen ------------------------------------------------------------------------------- */

/* Names are words between dots, and those of targets and sites may hold dots themselves: every
 * target has a dwell, and that says how it is called; a site or a door has only its mode. */
function groupOf(name, targets)
{
        if (name.startsWith('throttle.delay.'))
                return 'How long jobs wait at each level';
        if (name.startsWith('throttle.cap.'))
                return 'Caps on claims at each level';
        if (name.startsWith('site.'))
                return 'WordPress sites';
        if (name.startsWith('mysql.'))
                return 'MySQL doors';
        if (!name.startsWith('target.'))
                return 'Switches and bounds';
        const target = targets.find((t) => name.startsWith(`target.${t}.`));
        return target === undefined ? 'Targets' : `Target ${target}`;
}

function targetsOf(settings)
{
        return settings.map((s) => /^target\.(.+)\.dwell$/.exec(s.name))
                .filter(Boolean)
                .map((m) => m[1])
                .sort((a, b) => b.length - a.length);
}

function range(s)
{
        if (s.min !== null && s.max !== null)
                return `${shownValue(s, s.min)} to ${shownValue(s, s.max)} ${s.unit}`;
        if (s.type === 'pair')
                return 'enter / exit, or auto';
        if (s.type === 'bool')
                return 'on, off';
        return s.choices.map((c) => c.replace(/_/g, ' ')).join(', ');
}

function configured(s)
{
        const none = s.configured === null || s.configured === '' || s.configured === s.default;
        return none ? h('span.muted', {}, 'as default') : shownValue(s, s.configured);
}

function resetButton(s, ctx, changed)
{
        if (!s.is_changed)
                return '';
        const label = `Reset ${s.name} to what is configured`;
        return button('Reset', () => resetSetting(s, ctx, changed),
                {kind: 'small', label, needs: 'SETTINGUNSET'});
}

function settingsTable(caption, ctx, changed)
{
        return table({
                caption,
                hideCaption: true,
                key: (s) => s.name,
                columns: [
                        {
                                key: 'name',
                                label: 'Setting',
                                cls: 'wrap',
                                cell: (s) => [h('span.mono', {}, s.name), h('div.hint', {}, s.text)]
                        },
                        {key: 'value', label: 'Value', cell: (s) => editInPlace(s, ctx, changed)},
                        {key: 'default', label: 'Default', cell: (s) => shownValue(s, s.default)},
                        {key: 'configured', label: 'Configured', cell: (s) => configured(s)},
                        {
                                key: 'range',
                                label: 'Allowed',
                                cls: 'wrap',
                                cell: (s) => h('span.muted', {}, range(s))
                        },
                        {
                                key: 'act',
                                needs: 'SETTINGUNSET',
                                label: '',
                                cell: (s) => resetButton(s, ctx, changed)
                        },
                ]
        });
}

function textPanel(ctx)
{
        const p = panel('As configuration text', {
                hint: 'The sections in which something was changed here, in the words of ' +
                        'weir.conf: keep them with your configuration.'
        });
        p.load = async () => {
                try {
                        const {text} = await ctx.api.get('settings-text', {}, ctx.signal);
                        fill(p.body,
                                text ? h('pre', {tabindex: '0'}, text)
                                     : h('p.empty', {},
                                               'Nothing was changed: the configuration holds.'),
                                text ? button('Download',
                                               () => download('weir-settings.conf', text))
                                     : null);
                } catch (e) {
                        fill(p.body, notAvailable(e));
                }
        };
        return p;
}

function download(name, text)
{
        const url = URL.createObjectURL(new Blob([text], {type: 'text/plain'}));
        const a = h('a', {href: url, download: name});
        document.body.append(a);
        a.click();
        a.remove();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/* What a reload changed, and what waits for a restart. */
async function showReload({changed, needs_restart: restart})
{
        if (!restart.length && changed.length < 2) {
                toast(changed.length ? `Reloaded: ${changed[0]}.`
                                     : 'Reloaded; nothing has changed.');
                return;
        }
        const list = (name, all) =>
                (all.length ? [h('h3', {}, name), h('ul.story', {}, all.map((x) => h('li', {}, x)))]
                            : null);
        await dialog('The configuration was reloaded',
                (close) => [h('div', {}, list('Changed', changed),
                                    list('Needs a restart', restart)),
                        h('div.actions', {},
                                h('button.primary', {type: 'button', onclick: () => close()},
                                        'Close'))]);
}

function configPanel(ctx, changed)
{
        const reload = button('Reload the file', async () => {
                if (!await confirm({
                            title: 'Reload the configuration file?',
                            yes: 'Reload',
                            text: 'It is read and checked first. If something in it is wrong, all stays as it ' +
                                    'is and you are told where.'
                    }))
                        return;
                const told = await ctx.api.post('config/reload');
                await changed();
                await showReload(told);
        }, {needs: 'CONFIGRELOAD'});
        const p = panel('Configuration file', {actions: [reload]});
        const can = (is) => {
                if (reload)
                        reload.disabled = !is;
        };
        p.load = async () => {
                try {
                        const c = await ctx.api.get('config', {}, ctx.signal);
                        can(c.path);
                        fill(p.body,
                                c.path ? h('p', {}, h('code', {}, c.path), ' loaded ',
                                                 fmtAgo(c.loaded_ms))
                                       : h('p', {}, 'weir was started without one. Begin with: '),
                                c.path ? null : copyLine('weir config show > weir.conf'),
                                c.text ? h('details', {}, h('summary.hint', {}, 'Show it'),
                                                 h('pre', {tabindex: '0'}, c.text))
                                       : null);
                } catch (e) {
                        can(false);
                        fill(p.body, notAvailable(e));
                }
        };
        return p;
}

export async function mount(root, params, ctx)
{
        const search = h('input', {
                type: 'search',
                value: params.match || '',
                placeholder: 'name or meaning',
                oninput: () => {
                        ctx.setQuery({match: search.value, changed: only.checked ? '1' : ''});
                        show();
                }
        });
        const only = h('input', {
                type: 'checkbox',
                checked: params.changed === '1',
                id: 'only-changed',
                onchange: () => search.dispatchEvent(new Event('input'))
        });
        const box = h('div.screen');
        const text = textPanel(ctx);
        const file = may('CONFIGSHOW') ? configPanel(ctx, load) : null;
        const tables = new Map();
        let settings = [];
        const list = covered(box, () => ctx.api.get('settings', {}, ctx.signal), (answer) => {
                settings = answer.settings || [];
                show();
        });

        function show()
        {
                const word = search.value.trim().toLowerCase();
                const seen = settings.filter((s) => (!only.checked || s.is_changed) &&
                                (!word || `${s.name} ${s.text}`.toLowerCase().includes(word)));
                const groups = new Map();
                const targets = targetsOf(settings);
                for (const s of seen) {
                        const name = groupOf(s.name, targets);
                        groups.set(name, [...groups.get(name) || [], s]);
                }
                for (const [name, rows] of groups) {
                        if (!tables.has(name)) {
                                const p = panel(name);
                                const t = settingsTable(`Settings of ${name}`, ctx, load);
                                p.body.append(t.node);
                                tables.set(name, {p, t});
                        }
                        tables.get(name).t.update(rows);
                }
                const nodes = [...groups.keys()].map((name) => tables.get(name).p.node);
                if (nodes.length !== box.children.length ||
                        nodes.some((n, i) => box.children[i] !== n))
                        fill(box,
                                nodes.length ? nodes
                                             : h('p.empty', {}, 'No setting is like that.'));
        }
        async function load()
        {
                await list();
                await Promise.all([text.load(), file && file.load()]);
        }

        const label = h('label', {for: only.id
        }, 'changed only');
        append(root, h('p.hint', {needs: 'SETTINGSET'}, HINT),
                h('div.row', {}, field('Find', search), h('div.check', {}, only, label)), box,
                h('div.grid', {}, text.node, file && file.node));
        await load();
        return null;
}
