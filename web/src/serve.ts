// The pages of fathom serve: which one it is, its address says.

import { LibraryPage } from './library';
import { LivePage } from './live';

const main = document.getElementById('main')!;
const run = /^\/runs\/([^/]+)$/.exec(window.location.pathname);
if (run) new LivePage(decodeURIComponent(run[1]!), main);
else new LibraryPage(main);
