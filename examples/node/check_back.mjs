// T2 and T3 from JavaScript, with PostgreSQL's ordinary driver only. The shop's tables are in
// another database than the queue. A poller decides the half messages that the shop's producers
// left undecided.
//
//   npm install                                  (once, in this folder)
//   export MQPG_DATABASE_URL=postgresql://…      the broker
//   export SHOP_DATABASE_URL=postgresql://…      the shop
//   node check_back.mjs setup
//   node check_back.mjs sell 7 [before|after]    dies before or after the local transaction
//   node check_back.mjs poll [rounds]            without a number of rounds: until it is stopped

import pg from "pg";

const GROUP = "shop-node";
const TOPIC = "shop-node";
const DUPLICATE_KEY = "23505";
const LOCKED = "55P03";

const broker = new pg.Client({ connectionString: process.env.MQPG_DATABASE_URL });
const shop = new pg.Client({ connectionString: process.env.SHOP_DATABASE_URL });

async function setup() {
  await broker.query("select mqpg.create_topic($1, queues => 1)", [TOPIC]);
  await broker.query("select mqpg.create_producer_group($1, check_after => '500 ms', checker => 'due_checks')", [GROUP]);
  await shop.query("create table if not exists orders (id int primary key)");
  // The local transaction and the check-back insert under the same primary key, so only one of
  // them can succeed.
  await shop.query(`create table if not exists ledger (
    handle text primary key, entry text not null check (entry in ('local', 'fence')))`);
}

function dieHere(point, chosen) {
  if (point === chosen) process.kill(process.pid, "SIGKILL");
}

// T2: step 1 is the half message, step 2 the local transaction with the handle first, step 3 the
// commit.
async function sell(id, death) {
  const half = await broker.query("select mqpg.prepare($1, $2::text, $3, key => $4) as handle", [
    TOPIC,
    JSON.stringify({ id }),
    GROUP,
    String(id),
  ]);
  const handle = half.rows[0].handle;
  dieHere("before", death);
  try {
    await shop.query("begin");
    await shop.query("insert into ledger values ($1, 'local')", [handle]);
    await shop.query("insert into orders values ($1)", [id]);
    await shop.query("commit");
  } catch (error) {
    await shop.query("rollback");
    await broker.query("select mqpg.rollback($1)", [handle]);
    throw error;
  }
  dieHere("after", death);
  const decided = await broker.query("select mqpg.commit($1) as outcome", [handle]);
  console.log(`${id} ${decided.rows[0].outcome}`);
}

// T3: insert the fence. Where that succeeds, the local transaction has not committed and no longer
// can.
async function verdict(handle) {
  try {
    await shop.query("insert into ledger values ($1, 'fence')", [handle]);
    return "rollback";
  } catch (error) {
    if (error.code === LOCKED) return "wait"; // the local transaction is open
    if (error.code !== DUPLICATE_KEY) throw error;
  }
  // A new statement is needed, because the one that failed on the row cannot have seen it. Writing
  // the row makes the server flush its log, and with it the local commit, which may have been
  // asynchronous.
  const found = await shop.query("update ledger set entry = entry where handle = $1 returning entry", [handle]);
  return found.rows[0].entry === "local" ? "commit" : "rollback"; // a fence may be our own, from before a crash
}

async function answer(check) {
  const decision = await verdict(check.handle);
  if (decision === "wait") {
    await broker.query("select mqpg.check_wait($1, retry_after => '500 ms')", [check.handle]);
  } else {
    await broker.query(`select mqpg.${decision}($1)`, [check.handle]);
  }
  console.log(`${check.payload.id} ${decision}`);
}

async function poll(rounds) {
  await shop.query("set lock_timeout = '200ms'");
  await shop.query("set synchronous_commit = on");
  for (let round = 0; round < rounds; round++) {
    const due = await broker.query("select handle, payload from mqpg.due_checks($1, lease => '30 s')", [GROUP]);
    // After an error the others wait until their lease ends. Then they are handed out again, to any
    // poller.
    for (const check of due.rows) await answer(check);
    if (due.rows.length === 0) await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const [command, ...args] = process.argv.slice(2);
await Promise.all([broker.connect(), shop.connect()]);
try {
  if (command === "setup") await setup();
  else if (command === "sell") await sell(Number(args[0]), args[1]);
  else if (command === "poll") await poll(Number(args[0] ?? Infinity));
  else throw new Error("usage: node check_back.mjs setup | sell ID [before|after] | poll [ROUNDS]");
} finally {
  await Promise.all([broker.end(), shop.end()]);
}
