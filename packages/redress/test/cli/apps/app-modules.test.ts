import { describe, expect, test } from 'vitest'
import { redressAlone, running } from '../command.ts'
import { installed, project } from './project.ts'

/** An AppModule with one job type and one page, as text. */
const moduleText = (name: string): string => `
export default {
  name: '${name}',
  install(app) {
    app.job('${name}.work', { run: () => 1 })
    return { mount: (server) => void server.get('/${name}', async () => ({ is: '${name}' })) }
  },
}
`

interface Started {
  types: string[]
  url: string
}

async function start(cwd: string, apps: readonly string[], env: Record<string, string> = {}): Promise<Started> {
  const { stdout } = await running(['start', ...apps, '--no-auth', '--json'], { cwd, env, says: '"publicUrl":' })
  return JSON.parse(stdout()) as Started
}

describe('--apps takes', () => {
  test('a local file, whose routes are served and whose jobs are run', async () => {
    const cwd = project({ 'mine.ts': moduleText('mine') })
    const { types, url } = await start(cwd, ['--apps', './mine.ts'])
    expect(types).toEqual(['mine.work'])
    expect(await (await fetch(`${url}/mine`)).json()).toEqual({ is: 'mine' })
  })

  test('an installed package by its name, found from the current folder', async () => {
    const cwd = project(installed('@acme/thumbs', moduleText('thumbs')))
    expect(await start(cwd, ['--apps', '@acme/thumbs'])).toMatchObject({ types: ['thumbs.work'] })
  })

  test('an installed package by the name of the app that its package.json declares', async () => {
    const cwd = project({
      ...installed('@acme/thumbs', moduleText('thumbs'), { app: 'thumbs' }),
      'package.json': '{ "dependencies": { "@acme/thumbs": "1.0.0" } }',
    })
    expect(await start(cwd, ['--apps', 'thumbs,sample'])).toMatchObject({
      types: ['thumbs.work', 'sample.convert', 'sample.archive'],
    })
  })

  test('its names from REDRESS_APPS when the option is absent', async () => {
    const cwd = project({ 'mine.ts': moduleText('mine') })
    expect(await start(cwd, [], { REDRESS_APPS: './mine.ts' })).toMatchObject({ types: ['mine.work'] })
  })
})

test('without --apps, start serves the sample and every installed app that its package.json declares', async () => {
  const cwd = project({
    ...installed('thumbs', moduleText('thumbs'), { app: 'thumbs' }),
    ...installed('unrelated', 'throw new Error("must not be loaded")'),
    'package.json': '{ "dependencies": { "thumbs": "1.0.0", "unrelated": "1.0.0" } }',
  })
  const { types } = await start(cwd, [])
  expect(types).toEqual(expect.arrayContaining(['sample.convert', 'watermark.video', 'thumbs.work']))
})

describe('--apps refuses', () => {
  const cases: [what: string, apps: string, files: Record<string, string>, code: string, says: string[]][] = [
    ['a package that is not installed', 'thumbs', {}, 'PACKAGE_MISSING', ['"thumbs"', '`npm install thumbs`']],
    ['a name that is almost an installed one', 'watermrak', {}, 'PACKAGE_MISSING', ['Did you mean watermark?']],
    ['a file that does not exist', './none.ts', {}, 'APP_NOT_LOADED', ['There is no file', 'none.ts']],
    [
      'a file that exports no AppModule',
      './a.ts',
      { 'a.ts': 'export default { name: "a" }' },
      'APP_NOT_LOADED',
      ['a.ts exports no AppModule'],
    ],
    [
      'a module whose name cannot be a folder',
      './a.ts',
      { 'a.ts': moduleText('mine').replace("'mine'", "'../mine'") },
      'APP_NOT_LOADED',
      ['a.ts exports no AppModule'],
    ],
    [
      'an app made by redress(), which goes with --app',
      './a.ts',
      { 'a.ts': 'export default { work() {}, stop() {}, types: [] }' },
      'APP_NOT_LOADED',
      ['--app ./a.ts'],
    ],
    [
      'a module that throws while it is loaded',
      './a.ts',
      { 'a.ts': 'throw new Error("no licence")' },
      'APP_NOT_LOADED',
      ['a.ts cannot be loaded: no licence', 'at file:'],
    ],
    [
      'a package whose entry file is missing',
      'thumbs',
      { 'node_modules/thumbs/package.json': '{ "name": "thumbs", "exports": "./none.js" }' },
      'APP_NOT_LOADED',
      ['thumbs cannot be loaded'],
    ],
    [
      'two modules with the same name',
      './a.ts,./b.ts',
      { 'a.ts': moduleText('mine'), 'b.ts': moduleText('mine') },
      'OPTION_INVALID',
      ['./a.ts and ./b.ts are both the app "mine"'],
    ],
    ['an empty list', ' , ', {}, 'OPTION_INVALID', ['--apps names no app', 'watermark']],
  ]
  test.each(cases)('%s', async (_what, apps, files, code, says) => {
    const answer = await redressAlone(['start', '--apps', apps], { cwd: project(files) })
    expect(answer).toMatchObject({ code: 2, stdout: '' })
    expect(answer.stderr).toMatch(new RegExp(`^${code}: `))
    for (const part of says) expect(answer.stderr).toContain(part)
  })
})
