// T2 and T3 from JavaScript, with PostgreSQL's ordinary driver and nothing else: a shop whose tables are in another
// database, and the poller that answers for the half messages which its producers left undecided.
//
//   npm install                                       (once, in this folder)
//   export MQPG_DATABASE_URL=postgresql://…           the broker
//   export SHOP_DATABASE_URL=postgresql://…           the shop
//   node check_back.mjs setup
//   node check_back.mjs sell 7 [before|after]         dies before or after its local transaction, if told so
//   node check_back.mjs poll [rounds]                 answers until it is stopped, or for so many rounds

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
  // The primary key is what the local transaction and the check-back meet at.
  await shop.query(`create table if not exists ledger (
    handle text primary key, entry text not null check (entry in ('local', 'fence')))`);
}

function dieHere(when, told) {
  if (when === told) process.kill(process.pid, "SIGKILL");
}

// T2: 1 half message, 2 local transaction with the handle first, 3 commit.
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

// T3: insert the fence. Where that works, the local transaction did not commit and cannot any more.
async function verdict(handle) {
  try {
    await shop.query("insert into ledger values ($1, 'fence')", [handle]);
    return "rollback";
  } catch (error) {
    if (error.code === LOCKED) return "wait"; // the local transaction is open
    if (error.code !== DUPLICATE_KEY) throw error;
  }
  // A new statement: the one that met the row cannot have seen it. Writing it makes the server flush its log, and
  // with it the local commit, should that have been asynchronous.
  const found = await shop.query("update ledger set entry = entry where handle = $1 returning entry", [handle]);
  return found.rows[0].entry === "local" ? "commit" : "rollback"; // or our own fence from before a crash
}

async function answer(check) {
  const said = await verdict(check.handle);
  if (said === "wait") {
    await broker.query("select mqpg.check_wait($1, retry_after => '500 ms')", [check.handle]);
  } else {
    await broker.query(`select mqpg.${said}($1)`, [check.handle]);
  }
  console.log(`${check.payload.id} ${said}`);
}

async function poll(rounds) {
  await shop.query("set lock_timeout = '200ms'");
  await shop.query("set synchronous_commit = on");
  for (let round = 0; round < rounds; round++) {
    const due = await broker.query("select handle, payload from mqpg.due_checks($1, lease => '30 s')", [GROUP]);
    // An error leaves the rest to their lease: they are handed out again, here or to another poller.
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
  else throw new Error("want setup, sell ID [before|after] or poll [ROUNDS]");
} finally {
  await Promise.all([broker.end(), shop.end()]);
}
