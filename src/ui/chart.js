/* Lines over time on a canvas, small and readable without it.
 *
 *   const c = chart({title: 'threads_running', series: [{name: 'value', color: 's1'}], unit: ''});
 *   root.append(c.node);
 *   c.update({from_ms, step_ms, values: [[1, 2, null, 3]], thresholds: [{value: 5, label:
 * 'elevated', kind: 'warn'}]}); c.destroy();
 *
 * null and NaN are gaps: no line is drawn over what was not measured.  Charts share one pointer:
 * all of a screen show the moment that is pointed at in one.  A canvas says nothing to those who do
 * not see it, so there is a summary in the caption, arrow keys move the readout, and "as table"
 * gives the numbers minute by minute.
 *
 * options: total: true for counts per step (shown as a rate per minute, summed in the summary);
 * area: true fills below the first line; color names are the custom properties --s1 .. --s6. */
import {fmtDuration, fmtNumber, h, uid} from './lib.js';

const PAD = {
        left: 40,
        right: 8,
        top: 8,
        bottom: 18
};
const MINUTE = 60000;
const DASH = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const BINS = 120; /* counts are drawn in at most so many parts: single steps are mostly noise */
const clock =
        new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'});
const dated = new Intl.DateTimeFormat(undefined,
        {day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23'});
const exact = new Intl.DateTimeFormat(
        undefined, {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
/* What the room left of the axis has a place for: 9,500 and 150K. */
const brief = new Intl.NumberFormat(undefined, {notation: 'compact', maximumFractionDigits: 1});
const axisNumber = (v) => (v >= 10000 ? brief.format(v) : fmtNumber(v));
const all = new Set();
let pointed = NaN; /* Unix ms that is pointed at in some chart */

function pointAt(ms)
{
        pointed = ms;
        for (const c of all)
                c.plan();
}

/* Steps that people can read: 1, 2 or 5 times a power of ten. */
function niceStep(max, parts)
{
        const raw = max / parts;
        const power = 10 ** Math.floor(Math.log10(raw));
        const n = raw / power;
        return (n <= 1 ? 1 : n <= 2 ? 2 : n <= 5 ? 5 : 10) * power;
}

/* Colours of the theme, resolved: a custom property is light-dark(...) until an element uses it. */
function colours(el)
{
        const out = {};
        const old = el.style.color;
        for (const name of ['text', 'muted', 'line', 'warn', 'bad', 'info', 'surface', 's1', 's2',
                     's3', 's4', 's5', 's6']) {
                el.style.color = `var(--${name})`;
                out[name] = getComputedStyle(el).color;
        }
        el.style.color = old;
        return out;
}

/* null and absent: not known, which is no zero. */
const isKnown = (v) => v !== null && v !== undefined;

/* Sums of whole bins, counted back from the newest step so that the last bin is never a part.  A bin
 * with a step that is not known is not known. */
function binned(from, step, values)
{
        const all = Math.max(0, ...values.map((v) => v.length));
        const k = Math.max(1, Math.ceil(all / BINS));
        const n = Math.floor(all / k);
        const skip = all - n * k;
        const sum = (line, b) => {
                const steps = line.slice(skip + b * k, skip + (b + 1) * k);
                return steps.every(isKnown) ? steps.reduce((a, v) => a + Number(v), 0) : null;
        };
        return {
                from: from + skip * step,
                step: step * k,
                values: values.map((line) => Array.from({length: n}, (_, b) => sum(line, b)))
        };
}

class Chart
{
        constructor(options)
        {
                this.o = {unit: '', ...options};
                this.data = null;
                this.frame = 0;
                this.isTable = false;
                this.build();
                all.add(this);
                this.resize = new ResizeObserver(() => this.plan());
                this.resize.observe(this.canvas);
                this.onTheme = () => {
                        this.palette = null;
                        this.plan();
                };
                document.addEventListener('weir:theme', this.onTheme);
                this.media = matchMedia('(prefers-color-scheme: dark)');
                this.media.addEventListener('change', this.onTheme);
        }

        build()
        {
                const caption = h('figcaption', {id: uid('summary')});
                const many = this.o.series.length > 1;
                this.caption = caption;
                this.readout = h('div.readout');
                this.canvas = h('canvas', {
                        tabindex: '0',
                        role: 'img',
                        'aria-describedby': caption.id,
                        'aria-label':
                                `Chart: ${this.o.title}. Left and right arrow keys read values.`,
                        onpointermove: (ev) => this.point(ev),
                        onpointerleave: () => this.unpoint(),
                        onkeydown: (ev) => this.key(ev),
                        onblur: () => this.unpoint()
                });
                this.tableBox = h('div', {hidden: true});
                this.toggle = h('button.link', {
                        type: 'button',
                        'aria-pressed': 'false',
                        'aria-label': `${this.o.title} as table`,
                        onclick: () => this.flip()
                },
                        'as table');
                const legend = many
                        ? h('div.legend', {'aria-hidden': 'true'},
                                  this.o.series.map(
                                          (s, i) => h('span', {},
                                                  h(`i.${s.color || `s${i + 1}`}.d${(i % 4) + 1}`),
                                                  s.name)))
                        : null;
                this.node = h('figure.chart', {},
                        h('div.chart-head', {}, h('h3', {}, this.o.title), legend, this.toggle),
                        this.canvas, this.tableBox, this.readout, caption);
        }

        destroy()
        {
                all.delete(this);
                cancelAnimationFrame(this.frame);
                this.resize.disconnect();
                document.removeEventListener('weir:theme', this.onTheme);
                this.media.removeEventListener('change', this.onTheme);
        }

        update({from_ms: from, step_ms: step, values, thresholds})
        {
                if (this.o.total)
                        ({from, step, values} = binned(from, step, values));
                const scale = this.o.total ? MINUTE / step : 1;
                this.data = {
                        from,
                        step,
                        thresholds: (thresholds || []).filter((t) => Number.isFinite(t.value)),
                        raw: values,
                        values: values.map(
                                (line) => line.map((v) => (isKnown(v) ? Number(v) * scale : NaN))),
                };
                this.count = Math.max(0, ...this.data.values.map((v) => v.length));
                this.summarize();
                if (this.isTable)
                        this.fillTable();
                this.plan();
        }

        plan()
        {
                cancelAnimationFrame(this.frame);
                this.frame = requestAnimationFrame(() => this.draw());
        }

        /* --- words --- */

        value(v)
        {
                if (!Number.isFinite(v))
                        return 'no value';
                return `${fmtNumber(v)}${
                        this.o.total          ? '/min'
                                : this.o.unit ? ` ${this.o.unit}`
                                              : ''}`;
        }

        /* With the day when there are several. */
        clock(ms)
        {
                return (this.count * this.data.step > 1440 * MINUTE ? dated : clock).format(ms);
        }

        summarize()
        {
                const {raw, values, from, step, thresholds} = this.data;
                const first = values[0].findIndex(Number.isFinite);
                const span = first > 0 ? `Since ${this.clock(from + first * step)}`
                                       : `In ${fmtDuration(this.count * step)}`;
                const parts =
                        this.o.series
                                .map((s, i) => {
                                        const known = values[i].filter(Number.isFinite);
                                        if (!known.length)
                                                return this.o.series.length > 1 ? null
                                                                                : 'no value yet';
                                        if (this.o.total) {
                                                const sum = raw[i].reduce(
                                                        (a, v) => a + (Number(v) || 0), 0);
                                                return `${s.name} ${fmtNumber(sum)}`;
                                        }
                                        const max = Math.max(...known);
                                        const at = from + values[i].indexOf(max) * step;
                                        const last = known[known.length - 1];
                                        return `${
                                                       this.o.series.length > 1
                                                               ? `${s.name}: `
                                                               : ''}last ${this.value(last)}, ` +
                                                `highest ${this.value(max)} at ${this.clock(at)}`;
                                })
                                .filter(Boolean);
                const over = thresholds.map((t) => {
                        const n = values[0].filter((v) => v >= t.value).length;
                        return n ? `at or above ${t.label} (${fmtNumber(t.value)}) for ${
                                           fmtDuration(n * step)}`
                                 : `${t.label} at ${fmtNumber(t.value)}`;
                });
                const text = this.o.total && parts.length
                        ? `${span}: ${parts.join(', ')}.`
                        : [...(parts.length ? parts : ['no value yet']), ...over].join('; ') + '.';
                this.caption.textContent = text.replace('yet..', 'yet.');
        }

        say(index)
        {
                if (!this.data || index < 0 || index >= this.count) {
                        this.readout.textContent = '';
                        return;
                }
                const ms = this.data.from + index * this.data.step;
                const at = this.data.step < MINUTE ? exact.format(ms) : this.clock(ms);
                this.readout.textContent = `${at}  ${
                        this.o.series
                                .map((s, i) => `${this.o.series.length > 1 ? `${s.name} ` : ''}${
                                             this.value(this.data.values[i][index])}`)
                                .join(' · ')}`;
        }

        flip()
        {
                this.isTable = !this.isTable;
                this.toggle.setAttribute('aria-pressed', String(this.isTable));
                this.toggle.textContent = this.isTable ? 'as chart' : 'as table';
                this.canvas.hidden = this.isTable;
                this.tableBox.hidden = !this.isTable;
                this.readout.hidden = this.isTable;
                if (this.isTable && this.data)
                        this.fillTable();
                else
                        this.plan();
        }

        /* One line a minute, or a longer step: sums of counts, the highest of measurements. */
        fillTable()
        {
                const {raw, from, step} = this.data;
                const lines = new Map();
                const each = step > MINUTE ? fmtDuration(step) : 'minute';
                for (let i = 0; i < this.count; i++) {
                        const minute = Math.floor((from + i * step) / MINUTE) * MINUTE;
                        const line = lines.get(minute) || this.o.series.map(() => NaN);
                        raw.forEach((r, s) => {
                                const v = isKnown(r[i]) ? Number(r[i]) : NaN;
                                if (this.o.total) /* a sum that lacks a part is not known */
                                        line[s] = lines.has(minute) ? line[s] + v : v;
                                else if (Number.isFinite(v))
                                        line[s] = Number.isFinite(line[s]) ? Math.max(line[s], v)
                                                                           : v;
                        });
                        lines.set(minute, line);
                }
                const body = [...lines].reverse().map(
                        ([minute, line]) => h('tr', {},
                                h('th', {scope: 'row'}, this.clock(minute)),
                                line.map((v) => h('td.num', {},
                                                 Number.isFinite(v) ? fmtNumber(v) : '–'))));
                this.tableBox.replaceChildren(h('div.table-scroll',
                        {tabindex: '0', role: 'region', 'aria-label': `${this.o.title}, table`},
                        h('table', {},
                                h('caption', {},
                                        `${this.o.total ? 'Sum' : 'Highest'} of each ${each}`),
                                h('thead', {},
                                        h('tr', {}, h('th', {scope: 'col'}, 'Minute'),
                                                this.o.series.map((s) => h('th.num', {scope: 'col'},
                                                                          s.name)))),
                                h('tbody', {}, body))));
        }

        /* --- pointing --- */

        indexOf(ms)
        {
                return this.data ? Math.round((ms - this.data.from) / this.data.step) : -1;
        }

        point(ev)
        {
                if (!this.data || this.count < 2)
                        return;
                const box = this.canvas.getBoundingClientRect();
                const part =
                        (ev.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
                const i =
                        Math.max(0, Math.min(this.count - 1, Math.round(part * (this.count - 1))));
                this.readout.removeAttribute('aria-live');
                pointAt(this.data.from + i * this.data.step);
        }

        unpoint()
        {
                pointAt(NaN);
        }

        key(ev)
        {
                const by = {ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12}[ev.key];
                if (!this.data || this.count < 2 || (!by && ev.key !== 'Home' && ev.key !== 'End'))
                        return;
                ev.preventDefault();
                const last = this.count - 1;
                let i = Number.isFinite(pointed) ? this.indexOf(pointed) : last + 1;
                i = ev.key === 'Home' ? 0 : ev.key === 'End' ? last : i + by;
                i = Math.max(0, Math.min(last, i));
                this.readout.setAttribute('aria-live', 'polite');
                pointAt(this.data.from + i * this.data.step);
        }

        /* --- drawing --- */

        top()
        {
                const known = this.data.values.flat().filter(Number.isFinite);
                const most = known.length ? Math.max(...known) : 0;
                const lowest = Math.min(...this.data.thresholds.map((t) => t.value));
                const need = Math.max(most * 1.08, Number.isFinite(lowest) ? lowest * 1.25 : 0);
                return need > 0 ? need : 1;
        }

        draw()
        {
                const box = this.canvas.getBoundingClientRect();
                if (!this.data || box.width < 20 || this.canvas.hidden)
                        return;
                const ratio = window.devicePixelRatio || 1;
                const w = Math.round(box.width);
                const hgt = Math.round(box.height);
                if (this.canvas.width !== w * ratio || this.canvas.height !== hgt * ratio) {
                        this.canvas.width = w * ratio;
                        this.canvas.height = hgt * ratio;
                }
                this.palette = this.palette || colours(this.canvas);
                const g = this.canvas.getContext('2d');
                g.setTransform(ratio, 0, 0, ratio, 0, 0);
                g.clearRect(0, 0, w, hgt);
                g.font = '11px system-ui, sans-serif';
                const max = this.top();
                const area = {
                        x: (i) => PAD.left +
                                (w - PAD.left - PAD.right) * i / Math.max(1, this.count - 1),
                        y: (v) => hgt - PAD.bottom - (hgt - PAD.top - PAD.bottom) * v / max,
                        w,
                        h: hgt,
                        max,
                };
                this.axes(g, area);
                this.data.values.forEach((line, i) => this.line(g, area, line, i));
                this.limits(g, area);
                this.cross(g, area);
        }

        axes(g, a)
        {
                const p = this.palette;
                const step = niceStep(a.max, 3);
                g.lineWidth = 1;
                g.textBaseline = 'middle';
                g.textAlign = 'right';
                for (let v = 0; v <= a.max; v += step) {
                        const y = Math.round(a.y(v)) + 0.5;
                        g.strokeStyle = p.line;
                        g.beginPath();
                        g.moveTo(PAD.left, y);
                        g.lineTo(a.w - PAD.right, y);
                        g.stroke();
                        g.fillStyle = p.muted;
                        g.fillText(axisNumber(v), PAD.left - 6, y);
                }
                const {from, step: ms} = this.data;
                const span = ms * (this.count - 1);
                const every = [1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440, 2880]
                                      .map((m) => m * MINUTE)
                                      .find((m) => span / m <= Math.max(2, a.w / 90)) ||
                        7200 * MINUTE;
                g.textAlign = 'center';
                g.textBaseline = 'alphabetic';
                const zone = new Date(from).getTimezoneOffset() * MINUTE;
                for (let t = Math.ceil((from - zone) / every) * every + zone; t <= from + span;
                        t += every) {
                        const x = a.x((t - from) / ms);
                        if (x > PAD.left + 12 && x < a.w - 20)
                                g.fillText(this.clock(t), x, a.h - 4);
                }
        }

        line(g, a, values, index)
        {
                const s = this.o.series[index];
                const colour = this.palette[s.color || `s${index + 1}`];
                g.strokeStyle = colour;
                g.lineWidth = 1.6;
                g.lineJoin = 'round';
                g.setLineDash(DASH[index % DASH.length]);
                let start = -1;
                const run = (from, to) => {
                        g.beginPath();
                        for (let i = from; i <= to; i++)
                                g.lineTo(a.x(i), a.y(values[i]));
                        if (from === to)
                                g.lineTo(a.x(to) + 1, a.y(values[to]));
                        g.stroke();
                        if (this.o.area && index === 0) {
                                g.lineTo(a.x(to), a.y(0));
                                g.lineTo(a.x(from), a.y(0));
                                g.globalAlpha = 0.12;
                                g.fillStyle = colour;
                                g.fill();
                                g.globalAlpha = 1;
                        }
                };
                for (let i = 0; i <= values.length; i++) {
                        const known = i < values.length && Number.isFinite(values[i]);
                        if (known && start < 0)
                                start = i;
                        if (!known && start >= 0) {
                                run(start, i - 1);
                                start = -1;
                        }
                }
                g.setLineDash([]);
        }

        limits(g, a)
        {
                for (const t of this.data.thresholds) {
                        if (t.value > a.max)
                                continue;
                        const y = Math.round(a.y(t.value)) + 0.5;
                        const colour = this.palette[t.kind] || this.palette.muted;
                        g.strokeStyle = colour;
                        g.lineWidth = 1;
                        g.setLineDash([4, 4]);
                        g.beginPath();
                        g.moveTo(PAD.left, y);
                        g.lineTo(a.w - PAD.right, y);
                        g.stroke();
                        g.setLineDash([]);
                        g.textAlign = 'left';
                        g.textBaseline = 'bottom';
                        const text = `${t.label} ${fmtNumber(t.value)}`;
                        const width = g.measureText(text).width;
                        g.fillStyle = this.palette.surface;
                        g.globalAlpha = 0.8;
                        g.fillRect(PAD.left + 3, y - 14, width + 4, 13);
                        g.globalAlpha = 1;
                        g.fillStyle = colour;
                        g.fillText(text, PAD.left + 5, y - 1);
                }
        }

        cross(g, a)
        {
                const i = Number.isFinite(pointed) ? this.indexOf(pointed) : -1;
                this.say(i);
                if (i < 0 || i >= this.count)
                        return;
                const x = Math.round(a.x(i)) + 0.5;
                g.strokeStyle = this.palette.muted;
                g.lineWidth = 1;
                g.beginPath();
                g.moveTo(x, PAD.top);
                g.lineTo(x, a.h - PAD.bottom);
                g.stroke();
                this.data.values.forEach((line, n) => {
                        if (!Number.isFinite(line[i]))
                                return;
                        g.fillStyle = this.palette[this.o.series[n].color || `s${n + 1}`];
                        g.beginPath();
                        g.arc(x, a.y(line[i]), 3, 0, 7);
                        g.fill();
                });
        }
}

export function chart(options)
{
        return new Chart(options);
}
