import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { CATALOG } from '../../../src/operations/catalog.ts'
import { ROOT, redressAlone } from '../command.ts'

test('--help lists every command and exits with 0', async () => {
  const { code, stdout, stderr } = await redressAlone(['--help'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  for (const { cli, summary } of Object.values(CATALOG))
    expect(stdout).toMatch(new RegExp(`${literally(cli)} +${literally(summary)}`))
  for (const word of [
    'start',
    'worker [file]',
    'events',
    'jobs wait <id>',
    'migrate',
    'completion <shell>',
    'policy check <file>',
  ])
    expect(stdout).toContain(word)
})

test('redress without a command prints the help', async () => {
  expect(await redressAlone([])).toEqual(await redressAlone(['help']))
})

test('--version is the version of the package', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'packages/redress/package.json'), 'utf8'))
  expect(await redressAlone(['--version'])).toEqual({ code: 0, stdout: `redress ${version}\n`, stderr: '' })
})

test('the help of a command lists its options', async () => {
  const { code, stdout } = await redressAlone(['jobs', 'retry', '--help'])
  expect(code).toBe(0)
  for (const part of [
    'Usage: redress jobs retry <id> [options]',
    '--reason TEXT',
    '--dry-run',
    '--actor TEXT',
    '--input JSON',
  ]) {
    expect(stdout).toContain(part)
  }
  expect(await redressAlone(['help', 'jobs', 'retry'])).toMatchObject({ stdout })
  expect(await redressAlone(['retry', '-h'])).toMatchObject({ stdout })
})

test('the help of a group lists its commands', async () => {
  const { stdout } = await redressAlone(['policy'])
  expect(stdout).toContain('policy simulate <file>')
  expect(stdout).not.toContain('jobs list')
})

test.each([
  [['jbos'], 'There is no command "jbos".', 'Did you mean `redress jobs`?'],
  [['jobs', 'lst'], 'There is no command "jobs lst".', 'Did you mean `redress jobs list`?'],
  [['exlpain', 'x'], 'There is no command "exlpain".', 'Did you mean `redress explain`?'],
  [['frobnicate'], 'There is no command "frobnicate".', 'See `redress help`.'],
  [['jobs', 'list', '--limt', '3'], 'redress jobs list has no option --limt.', 'Did you mean --limit?'],
  [['jobs', 'list', '--statsu=failed'], 'redress jobs list has no option --statsu.', 'Did you mean --status?'],
  [['--jsn'], 'redress has no option --jsn.', 'Did you mean --json?'],
  [['jobs', 'list', '--status', 'faild'], '--status must be one of queued', 'Did you mean "failed"?'],
  [['jobs', 'list', '--limit', 'many'], '--limit must be a whole number, not "many".', 'Usage: redress jobs list'],
  [['jobs', 'list', '--limit'], '--limit needs a value.', 'Usage: redress jobs list'],
  [['jobs', 'list', '--json=yes'], '--json takes no value.', 'Usage: redress jobs list'],
  [['jobs', 'list', '--limit', '1', '--limit', '2'], '--limit is given twice.', 'Usage'],
  [['jobs', 'show'], '<id> is missing.', 'Usage: redress jobs show <id> [options]'],
  [['jobs', 'show', 'one', 'two'], 'Unexpected argument "two".', 'Usage: redress jobs show <id>'],
  [['jobs', 'retry', 'x', '--reason', '--dry-run'], '--reason needs a value.', 'Usage: redress jobs retry <id>'],
  [
    ['jobs', 'list', '--data', 'a', '--store', 'sqlite:b'],
    '--data and --store cannot be combined',
    'Give only one of them.',
  ],
])('invalid usage is refused with the problem and a suggestion: %j', async (args, message, action) => {
  const { code, stdout, stderr } = await redressAlone(args)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(/^USAGE: /)
  expect(stderr).toContain(message)
  expect(stderr).toContain(action)
})

test('with --json an error is JSON too', async () => {
  const { code, stdout, stderr } = await redressAlone(['jobs', 'lst', '--json'])
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(JSON.parse(stderr)).toEqual({
    error: { code: 'USAGE', message: 'There is no command "jobs lst".', action: 'Did you mean `redress jobs list`?' },
  })
})

test('help and the answer to an unknown command load no package, so they are quick', () => {
  const seen = new Set<string>()
  const follow = (path: string): void => {
    if (seen.has(path)) return
    seen.add(path)
    if (!path.endsWith('.ts')) return
    // Only what is imported at once: `await import(...)` is what keeps the rest away.
    const imports = readFileSync(path, 'utf8').matchAll(/^(?:import|export) (?!type )[^'"]*from '([^']+)'/gm)
    for (const [, name = ''] of imports) follow(name.startsWith('.') ? join(dirname(path), name) : name)
  }
  for (const file of [
    'main',
    'command-line',
    'language/parse',
    'language/help',
    'apps/installed',
    '../runtime/manifest',
  ])
    follow(join(ROOT, `packages/redress/src/cli/${file}.ts`))
  expect([...seen].filter((name) => !name.endsWith('.ts') && !name.startsWith('node:'))).toEqual([])
  expect(seen.size).toBeGreaterThan(8)
})

const literally = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
