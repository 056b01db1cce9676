// A report in a real browser: opened, clicked, zoomed, read back and photographed. FATHOM_BIN is the program
// under test; the run is of a virtual drive.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

const BIN = process.env.FATHOM_BIN;
const SHOTS = process.env.FATHOM_SHOTS ?? join(tmpdir(), 'fathom-shots');
const folder = mkdtempSync(join(tmpdir(), 'fathom-web-'));
let browser;

const fathom = (...args) => execFileSync(BIN, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });

before(async () => {
  assert.ok(BIN, 'FATHOM_BIN is not set');
  mkdirSync(SHOTS, { recursive: true });
  fathom('run', 'four-corners', 'sim:d5-p5430', '-q', '-o', 'corners.fathom');
  fathom('report', 'corners.fathom');
  fathom('run', 'depth-sweep', 'sim:d5-p5430', '-q', '-o', 'sweep.fathom');
  fathom('report', 'sweep.fathom');
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  page.on('request', (request) => {
    if (!/^(file|data|blob):/.test(request.url())) problems.push(`loads ${request.url()}`);
  });
  await page.goto(`file://${join(folder, name)}`);
  return { page, problems, close: () => context.close() };
}

// Every figure is set up as if it had been scrolled to.
async function setUp(page) {
  await page.evaluate(async () => {
    for (const figure of document.querySelectorAll('figure')) {
      figure.scrollIntoView();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
  });
}

const first = (page) => page.locator('figure', { hasText: 'Latency over time: rnd-read' }).first();

test('the page needs nothing else, shows no error, and has its parts by name', async () => {
  const { page, problems, close } = await open('corners.html');
  await setUp(page);
  assert.deepEqual(problems, []);
  assert.match(await page.title(), /D5-P5430.*four-corners/);
  assert.ok(await page.getByRole('navigation', { name: 'Contents' }).isVisible());
  assert.ok(await page.getByRole('heading', { name: 'Summary' }).isVisible());
  // What limits a sequential read of this drive is its link.
  assert.ok(await page.getByText('The link to the drive was the limit').isVisible());
  for (const svg of await page.locator('figure svg').all()) {
    const name = await svg.evaluate((s) => document.getElementById(s.getAttribute('aria-labelledby').split(' ')[0])?.textContent);
    assert.ok(name?.length > 3, 'a figure has no name');
  }
  const ids = await page.evaluate(() => [...document.querySelectorAll('[id]')].map((e) => e.id));
  assert.equal(new Set(ids).size, ids.length, 'an id stands twice');
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.screenshot({ path: join(SHOTS, 'report-desktop.png') });
  await close();
});

test('axes drawn by the script are those of the static picture', async () => {
  for (const name of ['corners.html', 'sweep.html']) {
    const { page, close } = await open(name);
    await setUp(page);
    const wrong = await page.evaluate(() => {
      const labels = (figure) => [...figure.querySelectorAll('.axis-x text,.axis-y text,.axis-y2 text')]
        .map((t) => `${t.textContent}@${Math.round(t.getAttribute('x'))},${Math.round(t.getAttribute('y'))}`);
      const wrong = [];
      for (const figure of document.querySelectorAll('figure[data-view]')) {
        const still = labels(figure);
        figure.dispatchEvent(new CustomEvent('fathom:redraw'));
        const drawn = labels(figure);
        if (still.join('|') !== drawn.join('|')) wrong.push([still, drawn]);
      }
      return wrong;
    });
    assert.deepEqual(wrong, []);
    assert.ok(await page.locator('figure[data-view]').count() >= 4, name);
    await close();
  }
});

test('a figure zooms in to what is there and comes back as it was', async () => {
  const { page, problems, close } = await open('corners.html');
  const figure = first(page);
  await figure.scrollIntoViewIfNeeded();
  const labels = () => figure.locator('.axis-x text').allTextContents();
  const lines = () => figure.locator('g.plot g.s path.l').evaluateAll((all) => all.map((p) => p.getAttribute('d')));
  const [before_, drawn] = [await labels(), await lines()];
  await figure.getByRole('button', { name: 'Zoom in' }).click();
  assert.notDeepEqual(await labels(), before_);
  await figure.getByRole('button', { name: 'Right', exact: true }).click();
  await figure.getByRole('button', { name: 'Whole' }).click();
  assert.deepEqual(await labels(), before_);
  assert.deepEqual(await lines(), drawn);
  // By dragging too.
  const box = await figure.locator('rect.frame').boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
  await page.mouse.up();
  assert.notDeepEqual(await labels(), before_);
  assert.equal(await figure.getAttribute('data-view'), 'part');
  await page.mouse.dblclick(box.x + box.width * 0.5, box.y + 60);
  assert.deepEqual(await labels(), before_);
  assert.deepEqual(problems, []);
  await close();
});

test('values stand under the pointer, and series come and go by mouse and keyboard', async () => {
  const { page, close } = await open('corners.html');
  const figure = first(page);
  await figure.scrollIntoViewIfNeeded();
  const box = await figure.locator('rect.frame').boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const tip = await figure.locator('.tip').textContent();
  assert.match(tip, /time: \d+/);
  assert.match(tip, /p99: \d.* us/);
  const key = figure.getByRole('button', { name: 'Show p99', exact: true });
  const shown = () => figure.locator('g.plot g.s', { has: page.locator('path') })
    .evaluateAll((all) => all.filter((g) => g.style.display !== 'none').length);
  const all = await shown();
  await key.click();
  assert.equal(await shown(), all - 1);
  assert.equal(await key.getAttribute('aria-pressed'), 'false');
  await key.focus();
  await page.keyboard.press('Enter');
  assert.equal(await shown(), all);
  await close();
});

test('a map zooms along its time and tells the field under the pointer', async () => {
  const { page, problems, close } = await open('corners.html');
  await setUp(page);
  const map = page.locator('figure', { hasText: 'each I/O counted' }).first();
  const labels = () => map.locator('.axis-x text').allTextContents();
  const whole = await labels();
  await map.getByRole('button', { name: 'Zoom in' }).click();
  assert.equal(await map.getAttribute('data-view'), 'part');
  assert.notDeepEqual(await labels(), whole);
  const box = await map.locator('rect.frame.map').boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.6);
  const tip = await map.locator('.tip').textContent();
  assert.match(tip, /^time: [\d.]+ (s|min)\nlatency: .* to .*\nI\/Os in a field: /);
  await map.getByRole('button', { name: 'Whole' }).click();
  assert.deepEqual(await labels(), whole);
  assert.equal(await map.getAttribute('data-view'), 'whole');
  // Every figure, a map or columns in space too, can be kept.
  const kept = await page.evaluate(() => [...document.querySelectorAll('figure')]
    .filter((figure) => !figure.querySelector('.tools')).length);
  assert.equal(kept, 0);
  assert.deepEqual(problems, []);
  await close();
});

test('a figure is saved as SVG and PNG, and a table copied as text', async () => {
  const { page, close } = await open('corners.html', { acceptDownloads: true });
  const figure = first(page);
  await figure.scrollIntoViewIfNeeded();
  for (const [name, begins] of [['Save SVG', '<svg'], ['Save PNG', '\x89PNG']]) {
    const waits = page.waitForEvent('download');
    await figure.getByRole('button', { name }).click();
    const file = await (await waits).path();
    assert.ok(readFileSync(file, 'latin1').startsWith(begins), name);
    assert.ok(statSync(file).size > 5000, `${name}: ${statSync(file).size} bytes`);
  }
  await page.evaluate(() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; });
  await page.getByRole('button', { name: 'Copy as text' }).first().click();
  const text = await page.evaluate(() => window.copied);
  const rows = text.trim().split('\n').map((line) => line.split('\t'));
  assert.equal(rows.length, 5);
  assert.ok(rows.every((row) => row.length === rows[0].length));
  await close();
});

test('it is readable on a phone, in the dark, and on paper', async () => {
  const phone = await open('corners.html', { viewport: { width: 390, height: 844 }, isMobile: true });
  await setUp(phone.page);
  const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide} px wide`);
  await phone.page.evaluate(() => window.scrollTo(0, 0));
  await phone.page.screenshot({ path: join(SHOTS, 'report-phone.png') });
  await phone.close();
  for (const colorScheme of ['light', 'dark']) {
    const { page, close } = await open('corners.html', { colorScheme });
    // Contrast of text against what is behind it, as WCAG 2.2 has it; 4.5 for text, 3 for lines.
    const low = await page.evaluate(() => {
      const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
      const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
          const color = parse(getComputedStyle(at).backgroundColor);
          if (color.length === 3 || color[3] > 0) return color;
        }
        return [255, 255, 255];
      };
      const bad = [];
      const check = (element, color, least) => {
        const [a, b] = [light(parse(color)), light(behind(element))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < least) bad.push(`${element.tagName}.${element.className}: ${contrast.toFixed(2)}`);
      };
      for (const e of document.querySelectorAll('p,dt,dd,th,td,a,strong,h1,h2,h3,figcaption,button,caption')) {
        check(e, getComputedStyle(e).color, 4.5);
      }
      for (const e of document.querySelectorAll('svg.chart text')) check(e, getComputedStyle(e).fill, 4.5);
      for (const e of document.querySelectorAll('svg.chart g.s')) check(e, getComputedStyle(e).color, 3);
      return [...new Set(bad)];
    });
    assert.deepEqual(low, [], colorScheme);
    if (colorScheme === 'dark') await page.screenshot({ path: join(SHOTS, 'report-dark.png') });
    await close();
  }
});

test('what stands in a run does nothing in the page', async () => {
  const evil = '</script><script>window.evil=1</script><img src=x onerror=window.evil=1><svg onload=window.evil=1>';
  const profile = readFileSync(new URL('../../crates/sim/profiles/d5-p5430.toml', import.meta.url), 'utf8');
  const model = profile.replace(/^model = .*$/m, `model = ${JSON.stringify(evil)}`);
  assert.notEqual(model, profile);
  writeFileSync(join(folder, 'evil.toml'), model);
  const plan = `name="evil"\ntitle=${JSON.stringify(evil)}\n[[step]]\nname="r"\nload={time="30s"}\n`;
  writeFileSync(join(folder, 'plan.toml'), plan);
  fathom('run', 'plan.toml', 'sim:evil.toml', '-q', '-o', 'evil.fathom');
  fathom('report', 'evil.fathom');
  const { page, problems, close } = await open('evil.html');
  await setUp(page);
  assert.equal(await page.evaluate(() => window.evil), undefined);
  assert.deepEqual(problems, []);
  assert.equal(await page.locator('img').count(), 0);
  assert.ok((await page.locator('h1').textContent()).includes('<script>'), 'it is shown as it is');
  await close();
});

test('a day of seconds opens and scrolls', async () => {
  const plan = 'name="day"\ninterval="1s"\n[[step]]\nname="day"\nload={read=100, depth=32, workers=4, time="24h"}\n';
  writeFileSync(join(folder, 'day.toml'), plan);
  fathom('run', 'day.toml', 'sim:d5-p5430,stall=40ms@51234s,noise=2%', '-q', '-o', 'day.fathom');
  fathom('report', 'day.fathom');
  const started = Date.now();
  const { page, problems, close } = await open('day.html');
  const loaded = Date.now() - started;
  const frames = await page.evaluate(async () => {
    const times = [];
    let last = performance.now();
    for (let y = 0; y < document.documentElement.scrollHeight; y += 60) {
      window.scrollTo(0, y);
      await new Promise((done) => requestAnimationFrame(done));
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times.sort((a, b) => a - b);
  });
  const at = (share) => frames[Math.floor((frames.length - 1) * share)].toFixed(0);
  console.log(`a day: ${loaded} ms to open; frames while scrolling: median ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`);
  assert.deepEqual(problems, []);
  // The one outlier is in the figure, and a zoom shows its second among its neighbours.
  const figure = page.locator('figure', { hasText: 'Latency over time: day' }).first();
  await figure.scrollIntoViewIfNeeded();
  for (let n = 0; n < 3; n += 1) await figure.getByRole('button', { name: 'Zoom in' }).click();
  await figure.getByRole('button', { name: 'Right', exact: true }).click();
  const box = await figure.locator('rect.frame').boundingBox();
  await page.screenshot({ path: join(SHOTS, 'report-day.png') });
  assert.ok(box.width > 300);
  const heights = await figure.locator('g.plot g.s[data-s="0"] path.l')
    .evaluate((path) => path.getAttribute('d').match(/[\d.]+ ([\d.]+)/g).map((p) => Number(p.split(' ')[1])));
  heights.sort((a, b) => a - b);
  const [highest, lowest] = [heights[0], heights[Math.floor(heights.length / 2)]];
  const usual = await figure.locator('rect.frame').evaluate((frame) => Number(frame.getAttribute('y')) + Number(frame.getAttribute('height')) * 0.3);
  assert.ok(lowest > usual, `the others do not: ${lowest} of ${usual}`);
  assert.ok(highest < usual, `the outlier stands out: ${highest} of ${usual}`);
  await close();
});
