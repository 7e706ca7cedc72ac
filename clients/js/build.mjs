// Build dist: the modules with their types, and one file for pages without a bundler with its licenses.

import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { build } from "esbuild";

rmSync("dist", { recursive: true, force: true });
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc"], { stdio: "inherit" });
await build({
  entryPoints: ["dist/index.js"],
  outfile: "dist/hubbub.min.js",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "external",
});
