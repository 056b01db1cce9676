// The live page and the library in a real browser, on runs that go on: watched, stopped, resumed, started,
// with a server that is killed meanwhile. Targets are a file on this disk and virtual drives.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

const BIN = process.env.FATHOM_BIN;
const SHOTS = process.env.FATHOM_SHOTS ?? join(tmpdir(), 'fathom-shots');
const folder = mkdtempSync(join(tmpdir(), 'fathom-serve-'));
const env = { ...process.env, XDG_STATE_HOME: join(folder, 'state') };
const EVIL = '<img src=x onerror="document.title=\'owned\'">';
const children = new Set();
let browser;
let port;
let server;

const fathom = (...args) => execFileSync(BIN, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] }).toString();

function start(...args) {
  const child = spawn(BIN, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  const ran = { child, out: '', err: '' };
  child.stdout.on('data', (data) => { ran.out += data; });
  child.stderr.on('data', (data) => { ran.err += data; });
  ran.ended = new Promise((done) => { child.on('exit', (code) => { children.delete(child); done(code); }); });
  return ran;
}

async function until(what, condition, limit = 30_000) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert.ok(Date.now() < end, `${what}: not within ${limit} ms`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

// A plan of random reads, so many seconds a load.
function plan(name, seconds, extra = '') {
  const load = (step) => `[[step]]\nname = "${step}"\nload = { pattern = "random", block = "4k", read = 100, depth = 2, time = "${seconds}s" }\n`;
  writeFileSync(join(folder, `${name}.toml`), `name = "${name}"\ntitle = "${name} ${EVIL.replaceAll('"', '\\"')}"\n${extra}${load('first')}${load('second')}`);
}

async function serve() {
  server = start('serve', '.', '--listen', String(port));
  return until('the server', () => /http\S+/.exec(server.out)?.[0]);
}

before(async () => {
  assert.ok(BIN, 'FATHOM_BIN is not set');
  mkdirSync(SHOTS, { recursive: true });
  writeFileSync(join(folder, 'target.bin'), Buffer.alloc(8 << 20, 7));
  plan('short', 6);
  plan('long', 60);
  fathom('run', 'quick', 'sim:d5-p5430', '-q', '-o', 'one.fathom');
  fathom('run', 'quick', 'sim:tlc-3dwpd', '-q', '-o', 'two.fathom');
  writeFileSync(join(folder, `${EVIL.replaceAll('/', '')}.fathom`), 'not a run file');
  port = await new Promise((done) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const found = probe.address().port;
      probe.close(() => done(found));
    });
  });
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
});

after(async () => {
  await browser?.close();
  for (const child of children) child.kill('SIGKILL');
  await new Promise((done) => setTimeout(done, 300));
  rmSync(folder, { recursive: true, force: true });
});

async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  page.on('request', (request) => {
    if (!request.url().startsWith(`http://127.0.0.1:${port}/`) && !/^(data|blob):/.test(request.url())) {
      problems.push(`asks ${request.url()}`);
    }
  });
  await page.goto(url);
  return { page, problems, close: () => context.close() };
}

const base = () => `http://127.0.0.1:${port}`;
const text = (page, selector) => page.locator(selector).first().textContent();
const points = (page) => page.evaluate(() => document.querySelector('figure g[data-name="IOPS"] path.l')?.getAttribute('d').split('L').length ?? 0);
const whole = async (name) => (await fetch(`${base()}/api/v1/runs/${encodeURIComponent(name)}`)).json();

test('a run of a terminal is watched live; its server is killed and comes back', async () => {
  await serve();
  const run = start('run', 'short.toml', 'target.bin', '-o', 'live.fathom');
  await until('the run', async () => (await whole('live.fathom')).now?.line);
  const { page, problems, close } = await open(`${base()}/runs/live.fathom`);
  await until('the page', () => page.locator('#interval').count());
  assert.equal(await text(page, '#link'), 'live');
  assert.match(await text(page, '#state'), /^running/);
  assert.match(await text(page, '#left'), /to go/);
  await page.evaluate(() => { window.same = true; });
  const before = await points(page);
  await until('a new point each second', async () => (await points(page)) >= before + 2, 15_000);
  assert.deepEqual(problems, []);
  await page.screenshot({ path: join(SHOTS, 'live-desktop.png'), fullPage: true });

  // The server dies without a word; the run does not notice.
  server.child.kill('SIGKILL');
  await until('the page says so', async () => /reconnecting/.test(await text(page, "#link")), 15_000);
  assert.equal(run.child.exitCode, null, 'the run goes on');
  await serve();
  await until('the page is back', async () => (await text(page, '#link')) === 'live', 10_000);
  assert.ok(await page.evaluate(() => window.same), 'it was not loaded anew');
  assert.equal(await run.ended, 0, run.err);
  await until('the page ends', async () => /^done/.test(await text(page, '#state')), 10_000);

  // The page, the terminal and the run file say the same.
  const lines = await page.locator('#cells tr').evaluateAll((rows) => rows.map((row) => row.dataset.line).reverse());
  assert.equal(lines.length, 2);
  for (const line of lines) assert.ok(run.err.includes(`${line}\n`), `${line}\nin ${run.err}`);
  const stored = JSON.parse(fathom('show', '--json', 'live.fathom'));
  const told = await whole('live.fathom');
  assert.deepEqual(told.cells.map((cell) => cell.iops), stored.cells.map((cell) => cell.summary?.iops ?? cell.iops));
  const table = fathom('export', 'live.fathom', '--format', 'csv', '--table', 'intervals').trim().split('\n').map((row) => row.split(','));
  const at = (name) => table[0].indexOf(name);
  const iops = table.slice(1).map((row) => Number(row[at('ios')]) / Number(row[at('seconds')]));
  assert.equal(told.course.points.length, iops.length, 'one point for each interval');
  told.course.points.forEach((point, n) => {
    const shown = point[told.columns.indexOf('iops')];
    assert.ok(Math.abs(shown - iops[n]) <= iops[n] * 1e-6, `interval ${n}: ${shown} and ${iops[n]}`);
  });
  await close();
});

test('two look at one run, on a phone too, and see the same', async () => {
  const url = await until('the address', () => /http\S+/.exec(server.out)?.[0]);
  assert.ok(url.includes('token='));
  const run = start('run', 'short.toml', 'target.bin', '-q', '-o', 'pair.fathom');
  await until('the run', async () => (await whole('pair.fathom')).now?.line);
  const one = await open(`${base()}/runs/pair.fathom`);
  const two = await open(`${base()}/runs/pair.fathom`, { viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
  await until('both grow', async () => (await points(one.page)) > 3 && (await points(two.page)) > 3);
  const wide = await two.page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `the page is ${wide} wide on a phone`);
  await two.page.screenshot({ path: join(SHOTS, 'live-phone-dark.png') });
  assert.equal(await run.ended, 0, run.err);
  await until('both end', async () => /^done/.test(await text(one.page, '#state')) && /^done/.test(await text(two.page, '#state')));
  const rows = (page) => page.locator('#cells').textContent();
  assert.equal(await rows(one.page), await rows(two.page));
  assert.deepEqual([...one.problems, ...two.problems], []);
  await one.close();
  await two.close();
});

test('a run is started, stopped and resumed from the page', async () => {
  const url = /http\S+/.exec(server.out)[0];
  const { page, problems, close } = await open(url);
  assert.equal(page.url(), `${base()}/`, 'the token is out of the address');
  await page.getByRole('button', { name: 'Start a run' }).click();
  await page.getByLabel('Plan', { exact: true }).selectOption('long.toml');
  await page.getByLabel('Device, file or virtual drive').fill(join(folder, 'target.bin'));
  assert.ok(await page.getByText('This plan only reads.').isVisible());
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.waitForURL(/\/runs\//);
  await until('it runs', async () => /^running/.test(await text(page, '#state')));
  await until('it measures', async () => (await points(page)) >= 2);
  await page.getByRole('button', { name: 'Stop the run' }).click();
  await until('it stops', async () => /^interrupted/.test(await text(page, '#state')));
  page.once('dialog', (dialog) => void dialog.accept(''));
  await page.getByRole('button', { name: 'Resume the run' }).click();
  await until('it goes on', async () => /^running/.test(await text(page, '#state')));
  // The server's end is not the end of a run it started.
  server.child.kill('SIGKILL');
  await until('the page says so', async () => /reconnecting/.test(await text(page, "#link")), 15_000);
  await serve();
  await until('it still runs', async () => (await text(page, '#link')) === 'live' && /^running/.test(await text(page, '#state')));
  await page.getByRole('button', { name: 'Stop the run' }).click();
  await until('it stops', async () => /^interrupted/.test(await text(page, '#state')));
  const words = problems.filter((problem) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|Failed to load resource/.test(problem));
  assert.deepEqual(words, []);
  await close();
});

test('a destructive start asks for the name, and the guard refuses without it', async () => {
  const url = /http\S+/.exec(server.out)[0];
  writeFileSync(join(folder, 'writes.toml'), 'name = "writes"\n[[step]]\nname = "w"\nload = { block = "4k", read = 0, time = "1s" }\n');
  const { page, close } = await open(url);
  await page.getByRole('button', { name: 'Start a run' }).click();
  await page.getByLabel('Plan', { exact: true }).selectOption('writes.toml');
  assert.ok(await page.getByText('everything on the drive is lost').isVisible());
  const target = join(folder, 'target.bin');
  await page.getByLabel('Device, file or virtual drive').fill(target);
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await until('the refusal', async () => /--destroy/.test(await text(page, '#refusal')));
  assert.equal(page.url(), `${base()}/`);
  await page.getByLabel('Serial number').fill(target);
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.waitForURL(/\/runs\//);
  await until('it is done', async () => /^(done|finished)/.test(await text(page, '#state')));
  await close();
});

test('the library searches, tags, compares and opens reports', async () => {
  const url = /http\S+/.exec(server.out)[0];
  const { page, problems, close } = await open(url);
  const row = (name) => page.locator('#runs tr', { hasText: name });
  await row('one.fathom').waitFor();
  await page.screenshot({ path: join(SHOTS, 'library.png'), fullPage: true });
  const field = page.getByLabel('Tags of one.fathom');
  await field.fill('golden, lab 7');
  await field.press('Enter');
  await until('the tags are kept', async () => (await whole_list('golden')).length === 1);
  await page.getByLabel('Search runs').fill('golden p5430');
  await until('one is found', async () => (await page.locator('#runs tr').count()) === 1);
  await page.getByLabel('Search runs').fill('');
  await row('two.fathom').waitFor();
  await page.getByLabel('Choose one.fathom').check();
  await page.getByLabel('Choose two.fathom').check();
  const [compared] = await Promise.all([
    page.context().waitForEvent('page'), page.getByRole('button', { name: 'Compare the chosen' }).click(),
  ]);
  await compared.getByRole('heading', { name: 'one against two' }).waitFor();
  const [report] = await Promise.all([
    page.context().waitForEvent('page'), page.getByRole('link', { name: 'Report of one.fathom' }).click(),
  ]);
  await report.getByRole('heading', { name: 'Summary' }).waitFor();
  assert.deepEqual(problems, []);
  await close();
});

const whole_list = async (search) => (await (await fetch(`${base()}/api/v1/runs?search=${search}`)).json()).runs;

test('hostile names do nothing, and every control has a name', async () => {
  const { page, problems, close } = await open(base());
  await page.locator('#runs tr', { hasText: 'is not a run file' }).waitFor();
  assert.notEqual(await page.title(), 'owned');
  assert.equal(await page.locator('img').count(), 0);
  await page.goto(`${base()}/runs/live.fathom`);
  await until('the title is text', async () => (await text(page, '#lead')).includes('<img src=x'));
  assert.equal(await page.locator('img').count(), 0);
  assert.notEqual(await page.title(), 'owned');
  const unnamed = await page.evaluate(() => [...document.querySelectorAll('button,a,input,select')]
    .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || document.querySelector(`label[for="${e.id}"]`))).length);
  assert.equal(unnamed, 0);
  for (const path of ['/runs/..%2f..%2fetc%2fpasswd', '/api/v1/runs/..%2f..%2fetc%2fpasswd/live', '/api/v1/runs/%2e%2e/report.html']) {
    const answer = await fetch(`${base()}${path}`);
    const body = await answer.text();
    assert.ok(!body.includes('root:'), path);
    if (path.startsWith('/api')) assert.equal(answer.status, 404, path);
  }
  assert.deepEqual(problems, []);
  await close();
});
