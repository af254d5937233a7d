/* The commonest cron expressions in words.  What it does not know it leaves alone: the server's
 * next runs are the answer that counts. */
const NAMED = {
        '@hourly': 'every hour',
        '@daily': 'every day at 00:00',
        '@midnight': 'every day at 00:00',
        '@weekly': 'Sundays at 00:00',
        '@monthly': 'on the 1st of the month at 00:00',
        '@yearly': 'on January 1st at 00:00',
        '@annually': 'on January 1st at 00:00',
        '* * * * *': 'every minute',
};
const DAYS = [
        'Sundays', 'Mondays', 'Tuesdays', 'Wednesdays', 'Thursdays', 'Fridays', 'Saturdays',
        'Sundays'
];

/* Which days a time of day holds on; null when that is not simple. */
function daysOf(day, week)
{
        if (day === '*' && week === '*')
                return 'every day';
        if (day === '*' && /^[0-7]$/.test(week))
                return DAYS[Number(week)];
        if (day === '*' && /^(1-5|mon-fri)$/i.test(week))
                return 'Monday to Friday';
        return week === '*' && /^\d+$/.test(day) ? `on day ${day} of the month` : null;
}

/* '30 4 * * 1' -> 'Mondays at 04:30'; null for what is not known. */
export function cronWords(cron)
{
        const text = String(cron).trim();
        if (NAMED[text])
                return NAMED[text];
        const parts = text.split(/\s+/);
        if (parts.length !== 5)
                return null;
        const [minute, hour, day, month, week] = parts;
        const isEach = [hour, day, month, week].every((x) => x === '*');
        const [, step] = /^\*\/(\d+)$/.exec(minute) || [];
        if (isEach && 60 % Number(step) === 0)
                return step === '1' ? 'every minute' : `every ${step} minutes`;
        if (isEach && /^\d+$/.test(minute))
                return `every hour at minute ${minute}`;
        const days = daysOf(day, week);
        if (!/^\d+$/.test(minute) || !/^\d+$/.test(hour) || month !== '*' || !days)
                return null;
        return `${days} at ${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
}
