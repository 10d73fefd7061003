// Bundles src/ into one script and one style sheet. `node build.mjs [folder]`; the folder is ../frontend_dist if not given.
// The same source and the same packages give the same bytes.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const outdir = path.resolve(process.argv[2] ?? path.join(here, "..", "frontend_dist"));

for (const name of fs.existsSync(outdir) ? fs.readdirSync(outdir) : []) {
  if (/^index-\w+\.(js|css)$/.test(name)) fs.rmSync(path.join(outdir, name));
}

await esbuild.build({
  absWorkingDir: here,
  entryPoints: { index: "src/index.jsx" },
  outdir,
  entryNames: "[name]-[hash]", // a browser that has cached an older bundle asks for the new one
  bundle: true,
  preserveSymlinks: true, // the name of the bundle is the same where node_modules is a link
  alias: { "d3-color": "./src/noColours.js" },
  minify: true,
  format: "esm",
  jsx: "automatic",
  target: "es2022",
  charset: "utf8",
  legalComments: "eof", // the licences of the libraries travel with them
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});
