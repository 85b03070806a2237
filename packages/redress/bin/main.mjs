import { existsSync } from 'node:fs'
import { enableCompileCache } from 'node:module'

// Compiled code is kept between calls: a command that a person types is mostly the loading of its modules. This file is
// JavaScript, because the first file is loaded before anything is kept: in TypeScript it would cost more than the rest.
enableCompileCache()

// A checkout runs its TypeScript as it stands; a published package holds only what was built from it.
const source = new URL('../src/cli/main.ts', import.meta.url)
await import(existsSync(source) ? source : new URL('../dist/cli/main.js', import.meta.url))
