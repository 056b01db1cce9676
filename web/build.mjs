// Makes the scripts of the pages: one file each, in dist/, committed. `node build.mjs --check` makes them
// anew and compares the bytes.
import { build } from 'esbuild';
import { readFileSync } from 'node:fs';

const check = process.argv.includes('--check');
let stale = 0;
for (const name of ['report', 'serve']) {
  const made = await build({
    entryPoints: [`src/${name}.ts`],
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2020',
    charset: 'ascii',
    legalComments: 'none',
    write: !check,
    outfile: `dist/${name}.js`,
  });
  if (check) {
    const bytes = Buffer.from(made.outputFiles[0].contents);
    if (!bytes.equals(readFileSync(`dist/${name}.js`))) {
      console.error(`web/dist/${name}.js is not what its source makes: run npm run build in web/`);
      stale += 1;
    }
  }
}
process.exit(stale ? 1 : 0);
