import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  clockProblems,
  crowdedProblems,
  dependencyProblems,
  evasionProblems,
  importProblems,
  LONG_FILES,
  lengthProblems,
  purityProblems,
  readmeProblems,
  sleepProblems,
  strayFileProblems,
  unknownFolderProblems,
  wordProblems,
} from './support/tidy-rules.ts'

const ROOT = join(import.meta.dirname, '..')
const NOT_OURS = new Set(['.git', 'node_modules', 'dist', '.redress', 'coverage', 'package-lock.json'])
const TEXT = /(^|\/)([^./]+|\.[^./]+)$|\.(ts|tsx|js|mjs|json|md|css|html|sh|sql|ya?ml|txt)$/

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

function filesUnder(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (NOT_OURS.has(entry.name)) return []
    return entry.isDirectory() ? filesUnder(path) : entry.isFile() ? [path] : []
  })
}

const paths = filesUnder('')
const texts = paths.filter((path) => TEXT.test(path)).map((path) => ({ path, text: read(path) }))
const sources = texts.filter(({ path }) => /\.tsx?$/.test(path))

type Rule = (path: string, text: string) => string[]
const broken = (rule: Rule, files = sources) => files.flatMap(({ path, text }) => rule(path, text))

describe('the repository', () => {
  test('each folder imports only what its layer may', () => {
    expect(broken(importProblems)).toEqual([])
  })

  test('every folder of src has its place in the layers', () => {
    expect(paths.flatMap(unknownFolderProblems)).toEqual([])
  })

  test('core has no clock, chance or I/O', () => {
    expect(broken(purityProblems)).toEqual([])
  })

  test('time and chance are given to the layers that decide with them', () => {
    expect(broken(clockProblems)).toEqual([])
  })

  test('no test is skipped, singled out or postponed', () => {
    expect(broken(evasionProblems)).toEqual([])
  })

  test('no test sleeps', () => {
    expect(broken(sleepProblems)).toEqual([])
  })

  test('a file is short enough to be read, or says why not', () => {
    expect(broken(lengthProblems)).toEqual([])
    expect(Object.keys(LONG_FILES).filter((path) => !paths.includes(path))).toEqual([])
  })

  test('no folder has more files than a reader takes in at once', () => {
    expect(crowdedProblems(paths)).toEqual([])
  })

  test('src holds nothing that the build would leave behind', () => {
    expect(paths.flatMap(strayFileProblems)).toEqual([])
  })

  test('nothing is left as a note to do later', () => {
    expect(broken(wordProblems, texts)).toEqual([])
  })

  test('every dependency has its reason', () => {
    const manifests = paths.filter((path) => /(^|\/)package\.json$/.test(path)).map((path) => JSON.parse(read(path)))
    expect(dependencyProblems(manifests, read('docs/dependencies.md'))).toEqual([])
  })

  test('the README gives the two commands, and continuous integration runs the same', () => {
    expect(readmeProblems(paths.includes('README.md') ? read('README.md') : '', read('.ci/run'))).toEqual([])
  })
})

/** A rule that cannot fail keeps nothing: each is tried on what it must find and on what it must let pass. */
describe('the rules', () => {
  const importCases: [path: string, text: string, found: string | undefined][] = [
    ['packages/redress/src/core/decide.ts', "import { readFile } from 'node:fs'", "'node:fs'"],
    ['packages/redress/src/core/decide.ts', "import type { Store } from '../store/store.ts'", "'../store/store.ts'"],
    ['packages/redress/src/core/decide.ts', "export * from '../runtime/clock.ts'", "'../runtime/clock.ts'"],
    [
      'packages/redress/src/core/decide.ts',
      "type Clock = import('../runtime/clock.ts').Clock",
      "'../runtime/clock.ts'",
    ],
    ['packages/redress/src/core/decide.ts', "await import('node:os')", "'node:os'"],
    ['packages/redress/src/core/decide.ts', 'await import(name)', "'(computed)'"],
    ['packages/redress/src/core/decide.ts', "const os = require('os')", "'os'"],
    ['packages/redress/src/core/decide.ts', "import os = require('os')", "'os'"],
    ['packages/redress/src/core/decide.ts', "import { core } from 'zodiac'", "'zodiac'"],
    ['packages/redress/src/core/decide.ts', "import * as z from 'zod'\nimport { x } from './policy.ts'", undefined],
    ['packages/redress/src/core/decide.ts', "// import 'node:fs'\nconst text = \"import 'node:fs'\"", undefined],
    ['packages/redress/src/core/decide.test.ts', "import { test } from 'vitest'", undefined],
    ['packages/redress/src/store/store.ts', "import { Runner } from '../worker/runner.ts'", "'../worker/runner.ts'"],
    ['packages/redress/src/store/sqlite/store.ts', "import { sql } from '../postgres/sql.ts'", "'../postgres/sql.ts'"],
    ['packages/redress/src/store/postgres/store.ts', "import { sql } from '../sqlite/sql.ts'", "'../sqlite/sql.ts'"],
    ['packages/redress/src/store/postgres/store.ts', "import postgres from 'postgres'", undefined],
    [
      'packages/redress/src/store/sqlite/store.ts',
      "import type { Store } from '../contract/store.ts'\nimport 'node:sqlite'",
      undefined,
    ],
    ['packages/redress/src/store/conformance/leases.ts', "import { test } from 'vitest'", "'vitest'"],
    [
      'packages/redress/src/store/conformance/leases.ts',
      "import { open } from '../sqlite/open.ts'",
      "'../sqlite/open.ts'",
    ],
    [
      'packages/redress/src/operations/retry.ts',
      "import { Runner } from '../worker/runner.ts'",
      "'../worker/runner.ts'",
    ],
    [
      'packages/redress/src/worker/runner.ts',
      "import { retry } from '../operations/retry.ts'",
      "'../operations/retry.ts'",
    ],
    ['packages/redress/src/runtime/log.ts', "import { decide } from '../core/decide.ts'", "'../core/decide.ts'"],
    ['packages/redress/src/runtime/log.ts', "import { RedressError } from '../core/errors.ts'", undefined],
    ['packages/redress/src/app/app.ts', "import { main } from '../cli/main.ts'", "'../cli/main.ts'"],
    [
      'packages/redress/src/http/server.ts',
      "import { open } from '../store/sqlite/open.ts'",
      "'../store/sqlite/open.ts'",
    ],
    ['packages/redress/src/cli/main.ts', "import { open } from '../store/sqlite/open.ts'", "'../store/sqlite/open.ts'"],
    ['packages/redress/src/cli/main.ts', "import { type Job, open } from '../store/store.ts'", "'../store/store.ts'"],
    ['packages/redress/src/cli/main.ts', 'await import(pathOfTheApp)', undefined],
    ['packages/redress/src/cli/main.ts', "import type { Job } from '../store/store.ts'", undefined],
    ['packages/redress/src/testing/index.ts', "import { test } from 'vitest'", "'vitest'"],
    ['packages/redress/src/notify/mail.ts', "import { claim } from '../store/store.ts'", "'../store/store.ts'"],
    [
      'packages/redress/dashboard/page.tsx',
      "import { decide } from '../src/core/decide.ts'",
      "'../src/core/decide.ts'",
    ],
    [
      'packages/redress/dashboard/page.tsx',
      "import type { Job } from '../src/core/job.ts'\nimport { h } from 'preact'",
      undefined,
    ],
    [
      'apps/proxx/src/main.ts',
      "import { redress } from '../../../packages/redress/src/index.ts'",
      "'../../../packages/redress/src/index.ts'",
    ],
    [
      'examples/hello.ts',
      "import { redress } from '../packages/redress/src/index.ts'",
      "'../packages/redress/src/index.ts'",
    ],
    ['examples/hello.ts', "import { redress } from '../dist/index.js'", "'../dist/index.js'"],
    ['examples/hello.ts', "import { redress } from 'redress'\nimport * as z from 'zod'", undefined],
    ['examples/hello.ts', 'await import(name)', "'(computed)'"],
    ['bench/run.ts', "import { open } from '../src/store/sqlite/open.ts'", "'../src/store/sqlite/open.ts'"],
  ]
  test.each(importCases)('imports: %s with %j', (path, text, found) => {
    expectFound(importProblems(path, text), found === undefined ? undefined : `${path}:1 imports ${found}`)
  })

  test('an import that breaks a layer is answered with the reason', () => {
    const [problem] = importProblems('packages/redress/src/core/decide.ts', "\nimport 'node:fs'")
    expect(problem).toMatch(
      /^packages\/redress\/src\/core\/decide\.ts:2 .* may import only itself and zod: core decides from its arg/,
    )
  })

  const folderCases: [path: string, found: string | undefined][] = [
    ['packages/redress/src/helpers/text.ts', 'packages/redress/src/helpers/ is new: say where it stands in the layers'],
    ['packages/redress/src/store/mysql/store.ts', 'packages/redress/src/store/mysql/ is new'],
    ['packages/redress/src/index.ts', undefined],
    ['packages/redress/src/store/store.ts', undefined],
    ['packages/redress/src/worker/pool/pool.ts', undefined],
    ['test/support/tidy-rules.ts', undefined],
  ]
  test.each(folderCases)('folders: %s', (path, found) => {
    expectFound(unknownFolderProblems(path), found)
  })

  const purityCases: [text: string, found: string | undefined][] = [
    ['const at = Date.now()', 'uses Date'],
    ['let at: Date', 'uses Date'],
    ['const chance = Math.random()', 'uses Math.random'],
    ["const chance = Math['random']()", 'uses Math.random'],
    ['const env = process.env', 'uses process'],
    ['const both = { process }', 'uses process'],
    ['console.log(1)', 'uses console'],
    ['setTimeout(() => {}, 1)', 'uses setTimeout'],
    ['const id = crypto.randomUUID()', 'uses crypto'],
    ['const here = import.meta.url', 'uses import.meta'],
    [`const at = \`now $\{Date.now()}\``, 'uses Date'],
    ['const at = globalThis.Date', 'uses globalThis'],
    ["// Date.now()\nconst text = 'console.log(process)' + `Math.random`", undefined],
    ['job.process(); const table = { console: 1 }; type T = { process: string }; Math.floor(1)', undefined],
  ]
  test.each(purityCases)('purity of core: %j', (text, found) => {
    expectFound(purityProblems('packages/redress/src/core/decide.ts', text), found)
    expect(purityProblems('packages/redress/src/runtime/clock.ts', text)).toEqual([])
  })

  test('given time and chance: a driver may wait for others, but its time is the one it was given', () => {
    expectFound(clockProblems('packages/redress/src/store/sqlite/store.ts', 'setTimeout(ask, 5)'), undefined)
    expectFound(clockProblems('packages/redress/src/store/sqlite/store.ts', 'const atMs = Date.now()'), 'uses Date.now')
  })

  const clockCases: [text: string, found: string | undefined][] = [
    ['const at = Date.now()', 'uses Date.now'],
    ['const at = new Date()', 'uses the present Date'],
    ['const timer = setTimeout(wake, 10)', 'uses setTimeout'],
    ['setInterval(wake, 10)', 'uses setInterval'],
    ['const t = performance.now()', 'uses performance'],
    ['const chance = Math.random()', 'uses Math.random'],
    ['const text = new Date(atMs).toISOString(); clock.setTimeout(1)', undefined],
  ]
  test.each(clockCases)('given time and chance: %j', (text, found) => {
    expectFound(clockProblems('packages/redress/src/worker/loop.ts', text), found)
    expect(clockProblems('packages/redress/src/runtime/clock.ts', text)).toEqual([])
  })

  const evasionCases: [text: string, found: string | undefined][] = [
    ["test.skip('x', () => {})", 'has .skip'],
    ["describe.only('x', () => {})", 'has .only'],
    ["it.todo('x')", 'has .todo'],
    ["test.concurrent.skip('x', () => {})", 'has .skip'],
    ["test.only.each([1])('x', () => {})", 'has .only'],
    ["test['skip']('x', () => {})", 'has .skip'],
    ["cursor.skip(3); test('x', () => {}) // test.skip", undefined],
  ]
  test.each(evasionCases)('evasion: %j', (text, found) => {
    expectFound(evasionProblems('test/leases.test.ts', text), found)
  })

  const sleepCases: [text: string, found: string | undefined][] = [
    ['await new Promise((resolve) => setTimeout(resolve, 50))', 'sleeps'],
    ['await new Promise((resolve) => globalThis.setTimeout(() => resolve(1), delayMs))', 'sleeps'],
    ["import { setTimeout as sleep } from 'node:timers/promises'", 'sleeps'],
    ['Atomics.wait(cells, 0, 0, 100)', 'sleeps'],
    ['await new Promise((resolve) => setTimeout(resolve, 0)); clock.setTimer(50, wake)', undefined],
  ]
  test.each(sleepCases)('sleeping: %j', (text, found) => {
    expectFound(sleepProblems('test/leases.test.ts', text), found)
    expect(sleepProblems('test/support/wait.ts', text)).toEqual([])
  })

  test('length: 500 lines pass, 501 need a reason, and a reason that is no longer needed goes', () => {
    const lines = (count: number) => 'x\n'.repeat(count)
    expectFound(lengthProblems('src/a.ts', lines(501), {}), 'src/a.ts has 501 lines')
    expectFound(lengthProblems('src/a.ts', lines(500), {}), undefined)
    expectFound(lengthProblems('src/a.ts', lines(501), { 'src/a.ts': 'one table' }), undefined)
    expectFound(lengthProblems('src/a.ts', lines(500), { 'src/a.ts': 'one table' }), 'needs no exception')
  })

  test('folders: 20 files pass, 21 do not, and each folder counts alone', () => {
    const files = (folder: string, count: number) => Array.from({ length: count }, (_, i) => `${folder}/${i}.ts`)
    expectFound(crowdedProblems(files('src/core', 20)), undefined)
    expectFound(crowdedProblems(files('src/core', 21)), 'src/core has 21 files')
    expectFound(crowdedProblems([...files('src/core', 20), ...files('src/core/job', 20)]), undefined)
  })

  test('stray files: the compiler carries only TypeScript', () => {
    expectFound(strayFileProblems('packages/redress/src/store/sqlite/schema.sql'), 'the build leaves this file behind')
    expectFound(strayFileProblems('packages/redress/src/store/leases.md'), undefined)
  })

  test.each(['TO', 'FIX'])('words: notes to do later (%s...)', (start) => {
    const word = start + (start === 'TO' ? 'DO' : 'ME')
    expectFound(wordProblems('docs/start.md', `a\n# ${word}: later`), `docs/start.md:2 says ${word}`)
    expectFound(wordProblems('docs/start.md', `${word}S and todo`), undefined)
  })

  test('dependencies: one line for each, none for others, and a reason in it', () => {
    const manifest = { dependencies: { zod: '1' }, devDependencies: { vitest: '1' }, overrides: { rolldown: '1' } }
    const rows = ['| package | why |', '|---|---|', '| `zod` | Schemas. |', '| `vitest` | Tests. |']
    const whole = [...rows, '| `rolldown` | Pinned. |'].join('\n')
    expectFound(dependencyProblems([manifest], whole), undefined)
    expectFound(dependencyProblems([manifest], rows.join('\n')), 'has rolldown, but')
    expectFound(dependencyProblems([manifest], `${whole}\n| \`left-pad\` | Pads. |`), 'explains left-pad')
    expectFound(dependencyProblems([manifest], whole.replace('Pinned.', '')), 'names rolldown but gives no reason')
  })

  test('README: both commands as lines of their own, and the test command in .ci/run', () => {
    const readme = '```\nnpm ci && npm start   # then open the page\nnpm ci && npm test\n```'
    expectFound(readmeProblems(readme, 'npm ci && npm test\n'), undefined)
    expectFound(readmeProblems(readme.replace('start', 'run'), 'npm ci && npm test'), 'no line "npm ci && npm start"')
    expectFound(readmeProblems(readme.replace('test', 'tset'), 'npm ci && npm test'), 'no line "npm ci && npm test"')
    expectFound(readmeProblems(readme, '# npm ci && npm test\nnpm ci'), '.ci/run does not call')
  })

  test('a file that does not parse is not taken for a clean one', () => {
    expect(() => purityProblems('packages/redress/src/core/decide.ts', 'const = 1')).toThrow(
      'packages/redress/src/core/decide.ts',
    )
  })
})

function expectFound(problems: string[], found: string | undefined): void {
  if (found === undefined) expect(problems).toEqual([])
  else expect(problems).toEqual([expect.stringContaining(found)])
}
