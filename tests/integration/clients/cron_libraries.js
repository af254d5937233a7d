'use strict';
// What croner and cron-parser make of cron expressions.  Reads lines "FROM_MS COUNT ZONE CRON" and
// writes for each a line "CRONER;CRON_PARSER", each the next COUNT times in Unix seconds, or "!"
// and a reason.
const readline = require('readline');
const { Cron } = require('../node/node_modules/croner');
const { CronExpressionParser } = require('../node/node_modules/cron-parser');

function ask(next) {
  try {
    return next().map((date) => date.getTime() / 1000).join(' ');
  } catch (e) {
    return `! ${e.message}`;
  }
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [, from, count, zone, cron] = line.match(/^(\S+) (\S+) (\S+) (.*)$/);
  const begin = new Date(Number(from));
  const croner = ask(() => new Cron(cron, { timezone: zone }).nextRuns(Number(count), begin));
  const parser = ask(() => CronExpressionParser.parse(cron, { currentDate: begin, tz: zone })
    .take(Number(count)).map((d) => d.toDate()));
  console.log(`${croner};${parser}`);
});
