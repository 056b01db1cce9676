//! The pages: a frame that a script fills. Nothing from a run file is in the markup.

/// What a page may do: run our script, ask this server, nothing else.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// What a report may do, which carries its own script and style: it has no origin, so that it can ask
/// this server for nothing.
pub(crate) const REPORT_POLICY: &str = "sandbox allow-scripts allow-downloads allow-popups; \
    default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The frame of every page.
pub(crate) const PAGE: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>fathom</title>
<link rel=\"icon\" href=\"data:,\">
<link rel=\"stylesheet\" href=\"/serve.css\">
</head>
<body>
<a class=\"skip\" href=\"#main\">To the content</a>
<header><h1><a href=\"/\">fathom</a></h1><p id=\"lead\"></p><p id=\"link\" role=\"status\"></p></header>
<main id=\"main\"><p>This page needs its script: allow scripts of this address.</p></main>
<script src=\"/serve.js\"></script>
</body>
</html>
";

/// Its script, made from `web/src/serve.ts`.
pub(crate) const SCRIPT: &str = include_str!("../../../web/dist/serve.js");

/// Its style, with that of the figures.
pub(crate) const STYLE: &str =
    concat!(include_str!("../../report/src/chart/chart.css"), include_str!("serve.css"));
