// Build dist: one module for Node and bundlers, one for pages without a bundler with its licenses, and the types.

import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { build } from "esbuild";

rmSync("dist", { recursive: true, force: true });
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc"], { stdio: "inherit" });
const shared = { entryPoints: ["src/index.ts"], bundle: true, format: "esm", target: "es2022", platform: "neutral" };
const node = { outfile: "dist/index.js", external: ["@noble/hashes/*"], define: { FOR_PAGES: "false" } };
const page = { outfile: "dist/hubbub.min.js", minify: true, legalComments: "external", define: { FOR_PAGES: "true" } };
await build({ ...shared, ...node });
await build({ ...shared, ...page });
