import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startServer } from '../../../src/http/server.ts'
import { redress as makeApp } from '../../../src/index.ts'
import { redressAlone } from '../command.ts'
import { installed, project } from './project.ts'

/** An AppModule with commands that show what they were given. */
const MODULE = `
export default {
  name: 'thumbs',
  install: () => ({}),
  commands: [
    {
      usage: 'thumbs show <id> [part]',
      summary: 'Show a thumb.',
      arguments: { id: 'id of the thumb' },
      options: [
        { name: 'size', kind: 'number', description: 'its width', fallback: '64' },
        { name: 'format', kind: 'choice', description: 'how it is shown', choices: ['png', 'jpg'] },
        { name: 'within', value: 'TIME', kind: 'text', description: 'no longer than this' },
        { name: 'loud', kind: 'flag', description: 'shout' },
      ],
      examples: ['redress thumbs show 7 --loud'],
      exitCodes: { 6: 'half a thumb' },
      async run(call) {
        call.note('looking')
        call.printJson({
          arguments: call.arguments, isJson: call.isJson, size: call.number('size', 1), format: call.text('format'),
          withinMs: call.durationMs('within'), loud: call.flag('loud'),
        })
        return 6
      },
    },
    {
      usage: 'thumbs count',
      summary: 'Count the jobs.',
      server: true,
      actor: true,
      async run(call) {
        const target = await call.open()
        try {
          const { jobs } = await target.perform('jobs.list', {})
          call.printTable([{ kind: target.kind, jobs: jobs.length, actor: target.actor ?? 'its token' }],
            ['kind', 'jobs', 'actor'].map((title) => ({ title, of: (row) => row[title] })))
          if (target.kind === 'server') call.print(JSON.stringify(await target.ask({ method: 'GET', path: '/api/me', body: null, mutates: false })).slice(0, 2) + String.fromCharCode(27) + '\\n')
          if (target.kind === 'store') call.print(target.installContext.home + target.flags + '\\n')
        } finally {
          await target.stop()
        }
      },
    },
    { usage: 'thumbs refuse', summary: 'Refuse.', async run(call) { throw call.usage('No thumbs today.') } },
  ],
}
`
const declared = { app: 'thumbs', commands: ['thumbs'] }
const dependencies = JSON.stringify({ dependencies: { thumbs: '1.0.0', rivals: '1.0.0' } })
const withThumbs = () => project({ ...installed('thumbs', MODULE, declared), 'package.json': dependencies })

describe('a command of an installed app', () => {
  test('gets its arguments and options, prints its answer, and gives its exit code', async () => {
    const args = ['thumbs', 'show', '7', '--size', '80', '--format', 'jpg', '--within', '2m', '--loud']
    const { code, stdout, stderr } = await redressAlone(args, { cwd: withThumbs() })
    expect({ code, stderr }).toEqual({ code: 6, stderr: 'looking\n' })
    const given = { arguments: ['7'], isJson: false, size: 80, format: 'jpg', withinMs: 120_000, loud: true }
    expect(JSON.parse(stdout)).toEqual(given)
  })

  test.each([
    [['show'], '<id> is missing.', 'Usage: redress thumbs show <id> [part] [options]'],
    [['show', '7', '--size', '0'], '--size must be a whole number of at least 1, not 0.', ''],
    [['show', '7', '--format', 'jpgg'], '--format must be one of png, jpg', 'Did you mean "jpg"?'],
    [['show', '7', '--lod'], 'redress thumbs show has no option --lod.', 'Did you mean --loud?'],
    [
      ['show', '7', '--server', 'http://x'],
      'redress thumbs show works on a store only: it has no option --server.',
      '',
    ],
    [['shwo', '7'], 'There is no command "thumbs shwo".', 'Did you mean `redress thumbs show`?'],
    [['refuse'], 'No thumbs today.', 'Usage: redress thumbs refuse'],
  ])('refuses wrong usage as any command does: %j', async (words, message, action) => {
    const { code, stdout, stderr } = await redressAlone(['thumbs', ...words], { cwd: withThumbs() })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(message)
    expect(stderr).toContain(action)
  })

  test('acts on the store that --data names', async () => {
    const cwd = withThumbs()
    const missing = await redressAlone(['thumbs', 'count', '--data', 'data'], { cwd })
    expect(missing).toMatchObject({ code: 3, stderr: expect.stringContaining('STORE_NOT_FOUND') })
    mkdirSync(join(cwd, 'data'))
    const app = makeApp({ store: `sqlite:${join(cwd, 'data/redress.db')}` })
    await app.store()
    await app.stop()
    const { code, stdout } = await redressAlone(['thumbs', 'count', '--data', 'data', '--actor', 'ann'], { cwd })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^kind +jobs +actor\nstore +0 +ann\n.*data\/thumbs --data data\n$/)
  })

  test('acts through the server that --server names, and prints no control characters', async () => {
    const app = makeApp({ store: 'sqlite::memory:' })
    const server = await startServer({ app, port: 0, auth: 'none' })
    await server.ready
    const cwd = withThumbs()
    const { code, stdout } = await redressAlone(['thumbs', 'count', '--server', server.url], { cwd })
    const named = await redressAlone(['thumbs', 'count', '--server', server.url, '--actor', 'ann'], { cwd })
    await server.stop({ graceMs: 0 })
    await app.stop()
    expect(code).toBe(0)
    expect(stdout).toMatch(/^kind +jobs +actor\nserver +0 +its token\n\{"[^\n]*\n$/)
    expect(stdout).not.toContain('\u001b')
    expect(named).toMatchObject({ code: 2, stderr: expect.stringContaining('--actor cannot be used with a server') })
  })

  test('has its help: of the group, of the command, and a line in the overview', async () => {
    const cwd = withThumbs()
    const of = async (...args: string[]) => (await redressAlone(args, { cwd })).stdout
    expect(await of('--help')).toMatch(
      /Commands of installed apps\n(.*\n)* {2}thumbs +from thumbs; see `.*thumbs --help`/,
    )
    const group = await of('thumbs')
    expect(group).toContain('thumbs show <id> [part]  Show a thumb.')
    expect(await of('help', 'thumbs')).toBe(group)
    const help = await of('thumbs', 'show', '--help')
    for (const part of ['--size N', 'its width [64]', '--format png|jpg', 'id of the thumb', '6  half a thumb']) {
      expect(help).toContain(part)
    }
    expect(await of('help', 'thumbs', 'show')).toBe(help)
    expect(await of('thumbs', 'count', '--help')).toMatch(/--actor TEXT(.*\n)* +--server URL/)
  })

  test('is completed by the shell', async () => {
    const { stdout } = await redressAlone(['completion', 'bash'], { cwd: withThumbs() })
    expect(stdout).toContain("thumbs) COMPREPLY=($(compgen -W 'show count refuse'")
    expect(stdout).toContain("'thumbs show --format') COMPREPLY=($(compgen -W 'png jpg'")
  })
})

test('an app file of REDRESS_APPS adds its commands', async () => {
  const cwd = project({ 'thumbs.ts': MODULE })
  const { code, stdout } = await redressAlone(['thumbs', 'show', '7'], { cwd, env: { REDRESS_APPS: './thumbs.ts' } })
  expect({ code, given: JSON.parse(stdout) }).toMatchObject({ code: 6, given: { arguments: ['7'], loud: false } })
})

describe('an app whose commands cannot be used', () => {
  test('is named if its module cannot be loaded, while the other commands work', async () => {
    const broken = installed('thumbs', 'throw new Error("no licence")', declared)
    const cwd = project({ ...broken, 'package.json': dependencies })
    const { code, stderr } = await redressAlone(['thumbs', 'show', '7'], { cwd })
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('thumbs cannot be loaded: no licence'),
    })
    expect((await redressAlone(['--help'], { cwd })).stdout).toContain('thumbs')
  })

  test('is named if it lacks the command that its package.json declares', async () => {
    const empty = installed('thumbs', 'export default { name: "thumbs", install: () => ({}) }', declared)
    const cwd = project({ ...empty, 'package.json': dependencies })
    const { stderr } = await redressAlone(['thumbs'], { cwd })
    expect(stderr).toMatch(/^APP_NOT_LOADED: The package\.json of thumbs declares the command "thumbs"/)
  })

  test('is named if another app declares the same command', async () => {
    const cwd = project({
      ...installed('thumbs', MODULE, declared),
      ...installed('rivals', MODULE, { app: 'rivals', commands: ['thumbs'] }),
      'package.json': dependencies,
    })
    const { stderr } = await redressAlone(['thumbs'], { cwd })
    expect(stderr).toContain('The command "thumbs" is declared by thumbs and by rivals.')
  })

  test('does not take a word from Redress itself', async () => {
    const greedy = installed('thumbs', MODULE, { app: 'thumbs', commands: ['jobs'] })
    const cwd = project({ ...greedy, 'package.json': dependencies })
    expect((await redressAlone(['jobs', '--help'], { cwd })).stdout).toContain('jobs list')
  })
})
