'use strict';
const { createClient } = require('../node/node_modules/redis');
const run = require('./lifecycle');

const { host, port, password } = run.address();

function connectAs(RESP) {
  return async () => {
    const client = createClient({ RESP, password, name: 'node-redis-test', socket: { host, port } });
    client.on('error', () => {});
    await client.connect();
    return { call: (...words) => client.sendCommand(words.map(String)), close: () => client.close() };
  };
}

(async () => {
  await run('node-redis RESP2', connectAs(2));
  await run('node-redis RESP3', connectAs(3));
})();
