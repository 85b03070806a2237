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
    [
      'a package that is not installed',
      'thumbs',
      {},
      'PACKAGE_MISSING',
      ['"thumbs"', '`npm install thumbs`', 'Installed are sample, '],
    ],
    [
      'a name that no package can have',
      'two words',
      {},
      'PACKAGE_MISSING',
      ['"two words" is not installed.\nInstalled are sample, '],
    ],
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
      'a package that exports no AppModule',
      'thumbs',
      installed('thumbs', 'export const thumbs = 1'),
      'APP_NOT_LOADED',
      ['thumbs exports no AppModule, neither as default nor as `app`.', '`install(app, context)`'],
    ],
    [
      'a module whose name cannot be a folder',
      './a.ts',
      { 'a.ts': moduleText('mine').replace("'mine'", "'../mine'") },
      'APP_NOT_LOADED',
      ['a.ts exports an AppModule with the name "../mine".', 'Use a name of letters'],
    ],
    ['a folder', './lib', { 'lib/a.ts': moduleText('mine') }, 'APP_NOT_LOADED', ['lib is a folder', 'Name the file']],
    [
      'a TypeScript file with a syntax error',
      './a.ts',
      { 'a.ts': 'export default {\n  name: "a"\n  install() {}\n}' },
      'APP_NOT_LOADED',
      ["a.ts cannot be loaded: Expected ','", 'a.ts:3\n'],
    ],
    [
      'a JavaScript file with a syntax error',
      './a.js',
      { 'a.js': 'export default { name: "a" install() {} }' },
      'APP_NOT_LOADED',
      ["a.js cannot be loaded: Unexpected identifier 'install'", 'Run `node ', 'a.js` to see the file and the line'],
    ],
    [
      'a package with a dependency that is not installed',
      'thumbs',
      installed('thumbs', `import '@acme/pictures'\n${moduleText('thumbs')}`),
      'APP_NOT_LOADED',
      ["thumbs cannot be loaded: Cannot find package '@acme/pictures'", 'Run `npm install @acme/pictures`.'],
    ],
    [
      'a package without a main entry',
      'thumbs',
      { 'node_modules/thumbs/package.json': '{ "name": "thumbs", "exports": { "./x": "./x.js" } }' },
      'APP_NOT_LOADED',
      ['thumbs cannot be loaded: its package.json exports no main entry.', '`"exports": { ".": FILE }`'],
    ],
    [
      'an app whose install() throws',
      './a.ts',
      { 'a.ts': 'export default { name: "mine", install() { throw new Error("no licence") } }' },
      'APP_NOT_LOADED',
      ['The app "mine" cannot be installed: no licence', 'Correct the app', 'a.ts:1:'],
    ],
    [
      'an app whose install() returns nothing',
      './a.ts',
      { 'a.ts': 'export default { name: "mine", install() {} }' },
      'APP_NOT_LOADED',
      ['install() of the app "mine" returned undefined, not an object.', '`{}` is enough'],
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
    ['an empty list', ' , ', {}, 'OPTION_INVALID', ['--apps is empty', 'watermark']],
  ]
  test.each(cases)('%s', async (_what, apps, files, code, says) => {
    const answer = await redressAlone(['start', '--apps', apps], { cwd: project(files) })
    expect(answer).toMatchObject({ code: 2, stdout: '' })
    expect(answer.stderr).toMatch(new RegExp(`^${code}: `))
    for (const part of says) expect(answer.stderr).toContain(part)
  })
})

test.each([
  ['imports another', `import 'node:fs'\n${moduleText('mine')}`],
  ['only exports', moduleText('mine')],
])(
  'a module that %s and lies in a CommonJS project is refused with the command that makes it an ES module',
  async (_, text) => {
    const cwd = project({ 'a.ts': text, 'package.json': '{ "type": "commonjs" }' })
    const { code, stderr } = await redressAlone(['start', '--apps', './a.ts'], { cwd })
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /^APP_NOT_LOADED: .*a\.ts cannot be loaded: .*\nRun `npm pkg set type=module`, or /m,
      ),
    })
  },
)
